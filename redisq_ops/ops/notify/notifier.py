"""Tells the recipients what changed since they were told last."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

from redisq_ops.core.model.clock import wall_ms
from redisq_ops.core.model.errors import BadInput, RedisqError

from .episode import Checked, any_left, news, seen, told
from .message import Message, message, test_message
from .sending import Sender, service
from .settings import Recipient
from .told_file import Told, locked, read, write


class Notifier:
    """Tells ``recipients`` of the trouble of a deployment, which ``where`` names.

    ``path``: the file that keeps what was told. ``lasting``: this process tells again and again, so
    while the file can't be written it remembers by itself; otherwise nobody is told. Nothing here
    fails because of a recipient or of the file: `tell` returns what went wrong, in lines for
    people. A message may be told twice, after a kill between sending and writing, or when a
    recipient answered too late; none is left out.
    """

    def __init__(
        self,
        recipients: tuple[Recipient, ...],
        where: str,
        path: Path,
        clock: Callable[[], int] = wall_ms,
        sender: Sender | None = None,
        *,
        lasting: bool = False,
    ) -> None:
        if find_spec("apprise") is None:
            missing = "apprise isn't installed: pip install 'redisq-ops[notify]'"
            recipients = tuple(replace(e, fault=missing) if e.url else e for e in recipients)
        self.recipients, self._where, self._path, self._clock = recipients, where, path, clock
        self._sender = sender or Sender()
        self._lasting = lasting
        self._known = Told()

    def prepare(self) -> None:
        """Find out whether every recipient can be used; `BadInput` if not."""
        for recipient in self.recipients:
            if recipient.fault is not None:
                raise BadInput(recipient.fault)
            if recipient.url is not None:
                service(recipient)

    def tell(self, checked: Checked) -> list[str]:
        """Tell what a check found, as far as each recipient is to be told now."""
        problems = [f"notify {one.name}: {one.fault}" for one in self.recipients if one.fault]
        try:
            with locked(self._path) as alone:
                if not alone:  # another check tells now, and the next one the rest
                    return problems
                damaged = list[str]()
                said = self._tell(checked, self._read(damaged), self._write)
                return [*problems, *damaged, *said]
        except (OSError, RedisqError) as error:
            what = _cause(error)
        if not self._lasting:  # it would be told again every minute
            return [*problems, f"notify: {what}: nobody was told"]
        problems.append(f"notify: {what}: told, and forgotten when this process ends")
        return problems + self._tell(checked, self._known, lambda kept: None)

    def _read(self, damaged: list[str]) -> Told:
        try:
            return read(self._path)
        except BadInput as error:
            damaged.append(f"notify: {error}: all is told again")
            return Told()

    def _write(self, kept: Told) -> None:
        self._known = kept
        write(self._path, kept)

    def _tell(self, checked: Checked, kept: Told, keep: Callable[[Told], None]) -> list[str]:
        now, messages, known = self._clock(), dict[Recipient, Message](), kept.recipients
        if checked.complete:
            names = " ".join(checked.names)
            before = kept.queues.get(names, 0)
            checked = replace(checked, found=[*checked.found, any_left(checked, before)])
            kept.queues[names] = checked.queues or before
        for recipient in self.recipients:
            if recipient.fault is not None:
                continue
            known[recipient.name] = seen(known.get(recipient.name, ()), checked, recipient, now)
            if found := news(known[recipient.name], recipient, now):
                messages[recipient] = message(found, self._where, now)
        keep(kept)  # an error is found before anything is sent
        failed = self._sender.send(messages)
        for recipient in messages:
            if failed[recipient.name] is None:
                known[recipient.name] = told(known[recipient.name], recipient, now)
        problems = [
            f"notify {name}: {why}; tried again with the next check"
            for name, why in failed.items()
            if why is not None
        ]
        try:
            if messages:
                keep(kept)
        except OSError as error:
            problems.append(f"notify: {_cause(error)}: what was told now may be told again")
        return problems

    def test(self) -> dict[str, str | None]:
        """Send each recipient a test; returns why it failed, by name, or None."""
        test = test_message(self._where, self._clock())
        return self._sender.send(dict.fromkeys(self.recipients, test))


def _cause(error: OSError | RedisqError) -> str:
    return f"{error.filename}: {error.strerror}" if isinstance(error, OSError) else str(error)

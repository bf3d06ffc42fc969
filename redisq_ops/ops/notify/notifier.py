"""Tells the recipients what changed since they were told last."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

from redisq_ops.core.model.clock import wall_ms
from redisq_ops.core.model.errors import BadInput, RedisqError

from .episode import Checked, news, seen, told
from .message import Message, message, test_message
from .sending import Sender, service
from .settings import Recipient
from .told_file import Told, locked, read, write


class Notifier:
    """Tells ``recipients`` of the trouble of a deployment, which ``where`` names.

    ``path``: the file that keeps what was told. Nothing here fails because of a recipient or of the
    file: `tell` returns what went wrong, in lines for people. A message may be told twice, after a
    kill between sending and writing, or when a recipient answered too late; none is left out.
    """

    def __init__(
        self,
        recipients: tuple[Recipient, ...],
        where: str,
        path: Path,
        clock: Callable[[], int] = wall_ms,
        sender: Sender | None = None,
    ) -> None:
        if any(one.url for one in recipients) and find_spec("apprise") is None:
            raise ModuleNotFoundError("apprise", name="apprise")
        self.recipients, self._where, self._path, self._clock = recipients, where, path, clock
        self._sender = sender or Sender()

    def prepare(self) -> None:
        """Find out whether every recipient can be used; `BadInput` if not."""
        for recipient in self.recipients:
            if recipient.url is not None:
                service(recipient)

    def tell(self, checked: Checked) -> list[str]:
        """Tell what a check found, as far as each recipient is to be told now."""
        try:
            with locked(self._path) as alone:
                if not alone:  # another check tells now, and the next one the rest
                    return []
                problems, kept = list[str](), Told()
                try:
                    kept = read(self._path)
                except BadInput as error:
                    problems.append(f"notify: {error}: all is told again")
                now, messages = self._clock(), dict[Recipient, Message]()
                for recipient in self.recipients:
                    kept[recipient.name] = seen(
                        kept.get(recipient.name, ()), checked, recipient, now
                    )
                    if found := news(kept[recipient.name], checked, recipient, now):
                        messages[recipient] = message(found, self._where, now)
                write(self._path, kept)  # an error is found before anything is sent
                failed = self._sender.send(messages)
                for recipient in messages:
                    if failed[recipient.name] is None:
                        kept[recipient.name] = told(kept[recipient.name], recipient, now)
                if messages:
                    write(self._path, kept)
        except (OSError, RedisqError) as error:
            what = f"{error.filename}: {error.strerror}" if isinstance(error, OSError) else error
            return [f"notify: {what}: nobody was told"]
        return problems + [
            f"notify {name}: {why}; tried again with the next check"
            for name, why in failed.items()
            if why is not None
        ]

    def test(self) -> dict[str, str | None]:
        """Send each recipient a test; returns why it failed, by name, or None."""
        test = test_message(self._where, self._clock())
        return self._sender.send(dict.fromkeys(self.recipients, test))

"""Tells the targets what changed since they were told last."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

from redisq_ops.core.model.clock import wall_ms
from redisq_ops.core.model.errors import BadInput, RedisqError

from .episode import Checked, news, seen, told
from .message import Message, message, test_message
from .sending import Sender, service
from .settings import Target
from .told_file import Told, locked, read, write


class Notifier:
    """Tells ``targets`` of the trouble of a deployment, which ``where`` names.

    ``path``: the file that keeps what was told. Nothing here fails because of a target or of the
    file: `tell` returns what went wrong, in lines for people. A message may be told twice, after a
    kill between sending and writing, or when a target answered too late; none is left out.
    """

    def __init__(
        self,
        targets: tuple[Target, ...],
        where: str,
        path: Path,
        clock: Callable[[], int] = wall_ms,
        sender: Sender | None = None,
    ) -> None:
        if any(one.url for one in targets) and find_spec("apprise") is None:
            raise ModuleNotFoundError("apprise", name="apprise")
        self.targets, self._where, self._path, self._clock = targets, where, path, clock
        self._sender = sender or Sender()

    def prepare(self) -> None:
        """Find out whether every target can be used; `BadInput` if not."""
        for target in self.targets:
            if target.url is not None:
                service(target)

    def tell(self, checked: Checked) -> list[str]:
        """Tell what a check found, as far as each target is to be told now."""
        try:
            with locked(self._path) as alone:
                if not alone:  # another check tells now, and the next one the rest
                    return []
                problems, kept = list[str](), Told()
                try:
                    kept = read(self._path)
                except BadInput as error:
                    problems.append(f"notify: {error}: all is told again")
                now, messages = self._clock(), dict[Target, Message]()
                for target in self.targets:
                    kept[target.name] = seen(kept.get(target.name, ()), checked, target, now)
                    if found := news(kept[target.name], checked, target, now):
                        messages[target] = message(found, self._where, now)
                write(self._path, kept)  # an error is found before anything is sent
                failed = self._sender.send(messages)
                for target in messages:
                    if failed[target.name] is None:
                        kept[target.name] = told(kept[target.name], target, now)
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
        """Send each target a test; returns why it failed, by name, or None."""
        test = test_message(self._where, self._clock())
        return self._sender.send(dict.fromkeys(self.targets, test))

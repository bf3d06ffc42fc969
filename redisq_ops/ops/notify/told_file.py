"""What each target was told, in a file: it survives a restart, and two checks don't tell twice.

The file is in ``$XDG_STATE_HOME/redisq``, one for each server and prefix; only its owner can read
it. It is not in Redis: a check needs read permission only, and tells also that Redis is away.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from hashlib import sha256
from pathlib import Path

from redisq_ops.core.model.bounded_read import bounded_read
from redisq_ops.core.model.errors import BadInput

from ..private_files import atomic_write, open_private, open_regular
from ..trouble.finding import Severity
from ..typed_json import json_object, typed
from .episode import Episode


def told_path(deployment: str, environment: Mapping[str, str] = os.environ) -> Path:
    """The file of a deployment, which its server and prefix name."""
    base = environment.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
    return Path(base) / "redisq" / f"notify-{sha256(deployment.encode()).hexdigest()[:12]}.json"


class ToldFile:
    """The file while only this process may tell."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self) -> dict[str, list[Episode]]:
        """The episodes of each target, none if there is no file yet; `BadInput`: it is damaged."""
        if not self.path.exists():
            return {}
        with open_regular(self.path) as file:
            content = bounded_read(file, str(self.path))
        try:
            found: dict[str, list[Episode]] = typed(
                dict[str, list[Episode]], json_object(content), "told"
            )
            for episode in (one for episodes in found.values() for one in episodes):
                Severity(episode.severity)
            return found
        except (BadInput, ValueError) as error:
            raise BadInput(f"{self.path} is damaged: {error}") from error

    def write(self, targets: Mapping[str, list[Episode]]) -> None:
        """Replace the file at once."""
        kept = {name: [asdict(one) for one in episodes] for name, episodes in targets.items()}
        with atomic_write(self.path) as out:
            out.write(json.dumps(kept).encode())


@contextmanager
def opened(path: Path) -> Iterator[ToldFile | None]:
    """The file, locked until the end of the block; None: another process tells just now. OSError
    if it can't be written."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    lock = open_private(f"{path}.lock", os.O_RDWR | os.O_CREAT)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield None
            return
        yield ToldFile(path)
    finally:
        os.close(lock)

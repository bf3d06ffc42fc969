"""What each recipient was told, in a file: it survives a restart, and two checks don't tell twice.

The file is in ``$XDG_STATE_HOME/redisq``, one for each server and prefix; only its owner can read
it. It is not in Redis: a check needs read permission only, and tells also that Redis is away.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from hashlib import sha256
from itertools import chain
from pathlib import Path

from redisq_ops.core.model.bounded_read import bounded_read
from redisq_ops.core.model.errors import BadInput

from ..private_files import atomic_write, open_private, open_regular
from ..trouble.finding import Severity
from ..typed_json import json_object, typed
from .episode import Episode


@dataclass(frozen=True, slots=True)
class Told:
    """What is known from one check to the next."""

    recipients: dict[str, list[Episode]] = field(default_factory=dict)
    """recipient -> the episodes that it knows"""
    queues: dict[str, int] = field(default_factory=dict)
    """names and patterns, as a check has them -> how many queues there were, when there were any"""


def told_path(deployment: str, environment: Mapping[str, str] = os.environ) -> Path:
    """The file of a deployment, which its server and prefix name."""
    base = environment.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
    return Path(base) / "redisq" / f"notify-{sha256(deployment.encode()).hexdigest()[:12]}.json"


def read(path: Path) -> Told:
    """What was kept, nothing if there is no file yet; `BadInput`: it is damaged."""
    if not path.exists():
        return Told()
    with open_regular(path) as file:
        content = bounded_read(file, str(path))
    try:
        found: Told = typed(Told, json_object(content), "told")
        for episode in chain(*found.recipients.values()):
            Severity(episode.severity)
    except (BadInput, ValueError) as error:
        raise BadInput(f"{path} is damaged: {error}") from error
    return found


def write(path: Path, told: Told) -> None:
    """Replace the file at once."""
    with atomic_write(path) as out:
        out.write(json.dumps(asdict(told)).encode())


@contextmanager
def locked(path: Path) -> Iterator[bool]:
    """Lock the file until the end of the block; False: another process tells just now. OSError if
    nothing can be written there."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    lock = open_private(f"{path}.lock", os.O_RDWR | os.O_CREAT)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        yield False
        return
    try:
        yield True
    finally:
        os.close(lock)

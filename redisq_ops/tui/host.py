"""What the program that starts the dashboard provides: its commands, and other servers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .poller import SnapshotSource

FIRST = "-"
"""stands for the server that the dashboard was started on"""


@dataclass(frozen=True, slots=True)
class Completion:
    """A word that can be typed next, or a whole command, and what it means."""

    text: str
    help: str = ""


@dataclass(frozen=True, slots=True)
class KnownNames:
    """Names that the dashboard knows, to complete a command without asking the server."""

    queues: Sequence[str] = ()
    addresses: Sequence[str] = ()
    """``QUEUE/ID`` of the requests and entries that are listed"""
    clients: Sequence[str] = ()
    operations: Sequence[str] = ()
    """ids of changes that can be undone"""


def _no_contexts(name: str) -> SnapshotSource:
    raise LookupError(f"there is no context {name!r}")


@dataclass(frozen=True, slots=True)
class Host:
    """Functions of the command line; by default there are no commands and no contexts."""

    complete: Callable[[Sequence[str], str, KnownNames], Sequence[Completion]] = (
        lambda words, incomplete, known: ()
    )
    """(words, incomplete word, known names) -> completions"""
    commands: Callable[[], Iterable[Completion]] = tuple
    """every command of `redisq`"""
    contexts: Callable[[], Sequence[Completion]] = tuple
    """the contexts in the configuration file, each with its server"""
    open_context: Callable[[str], SnapshotSource] = _no_contexts
    """the server of a context; raises an error that says why there is none"""

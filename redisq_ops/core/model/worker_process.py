"""Worker processes of other programs, as those register them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

PruneWord = Literal["pruned", "alive", "unknown", "changed"]


@dataclass(frozen=True, slots=True)
class RunningJob:
    """A job in the hands of one of them, as that one said it at its last beat."""

    id: str
    queue: str
    """as its owner calls it"""
    payload: bytes
    since_ms: int | None


@dataclass(frozen=True, slots=True)
class Process:
    """One process of a program that keeps a register of those."""

    name: str
    host: str
    pid: int | None
    queues: tuple[str, ...]
    """where it looks for work, as its owner calls them"""
    since_ms: int | None
    """when it started, by its own clock; None: nobody knows"""
    silent_ms: int | None
    """time since its last beat by the server's clock; None: it never beat, or nobody knows"""
    alive: bool
    """whether the owner takes it for alive"""
    work: tuple[RunningJob, ...]
    quiet: bool = False
    """told to take nothing more"""
    problem: str | None = None
    """why its records can't be read; then what isn't here isn't known, and it isn't struck"""

    def silent_for(self, ms: int | None) -> bool:
        """Whether it was silent for so long, or (None) for as long as its owner waits. Where the
        owner has forgotten when it beat last, that is long enough."""
        if ms is None or self.silent_ms is None:
            return not self.alive
        return self.silent_ms >= ms


@dataclass(frozen=True, slots=True)
class Pruned:
    """What came of striking a process from its register.

    ``alive``: it was heard of since. ``changed``: it beat, or took something, while it was looked
    at. ``unknown``: it isn't registered. In these three nothing was done.
    """

    word: PruneWord
    waiting: int = 0
    """jobs it had that wait again"""
    dead: int = 0
    """jobs it had that are failures now"""
    lost: int = 0
    """jobs it had that are nowhere now"""

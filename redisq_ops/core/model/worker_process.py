"""Worker processes of other programs, as those programs register them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

KEEPS_JOBS = (
    "its jobs are in lists of its own, from which its program puts them back when the process is"
    " dead: if redisq did that too, they would run twice"
)
PruneWord = Literal["pruned", "alive", "unknown", "changed"]


@dataclass(frozen=True, slots=True)
class RunningJob:
    """A job that a process works on, as of its last heartbeat."""

    id: str
    queue: str | None
    """the owner's name for it; None: unknown"""
    payload: bytes
    since_ms: int | None
    problem: str | None = None
    """why it was not read, for example because it is too long: the rest may be unknown"""


@dataclass(frozen=True, slots=True)
class Process:
    """One process in the registry of its program."""

    name: str
    host: str = ""
    pid: int | None = None
    queues: tuple[str, ...] = ()
    """the queues it serves, by the owner's names"""
    since_ms: int | None = None
    """when it started, by its own clock; None: unknown"""
    silent_ms: int | None = None
    """ms since its last heartbeat by the server's clock; None: it had none, or unknown"""
    alive: bool | None = True
    """whether its program takes it for alive; None: nobody can tell"""
    work: tuple[RunningJob, ...] = ()
    quiet: bool = False
    """it takes no more jobs"""
    keeps_jobs: bool = False
    """its jobs are in lists of its own. When it is dead, its program puts them back from there, so
    it isn't pruned"""
    work_known: bool = True
    """False: ``work`` and ``quiet`` are unknown"""
    problem: str | None = None
    """its records are corrupt: why; the rest is unknown, and it can't be pruned"""

    def silent_for(self, ms: int | None) -> bool:
        """Whether it had no heartbeat for ``ms``, or (None) for as long as its program waits.

        Without a known heartbeat: whether the program takes it for dead.
        """
        if ms is None or self.silent_ms is None:
            return not self.alive
        return self.silent_ms >= ms


@dataclass(frozen=True, slots=True)
class Pruned:
    """The result of `prune_process`.

    ``pruned``; or, with nothing changed, ``alive``: it had a heartbeat since; ``changed``: it had
    one, or took a job, while it was read; ``unknown``: it isn't in the registry.
    """

    word: PruneWord
    waiting: int = 0
    """how many of its jobs wait again"""
    dead: int = 0
    """how many of its jobs are failures now"""
    lost: int = 0
    """how many of its jobs are gone"""

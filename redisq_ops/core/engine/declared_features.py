"""What a kind of queue declares about itself. `ops` and the user interfaces read it here and name
no other program's kind."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from ..model.entry import State
from ..model.worker_command import WorkerWord


class DeclaredFeatures:
    """Class attributes, with the values that hold for queues of our own."""

    owner: ClassVar[str] = ""
    """the program that keeps the queue, as its users call it; empty: redisq"""
    by_id: ClassVar[bool] = True
    """an entry is found by its id; if False, a whole state is read to find it"""
    step_s: ClassVar[float] = 0.0005
    """seconds that one step of a change may keep the server busy: other clients wait for it"""
    keeps_history: ClassVar[bool] = True
    """its history says when and how an entry ended"""
    has_columns: ClassVar[bool] = True
    """states can be read by columns (`read_range`, `read_waiting`); else only by pages"""
    accepts_imports: ClassVar[bool] = True
    """entries can be brought in, by an import or from another queue"""
    transferable: ClassVar[bool] = True
    """entries can be moved to another queue"""
    destroyable: ClassVar[bool] = True
    """the queue can be destroyed from here"""
    marks_operations: ClassVar[bool] = True
    """an entry has the name of the operator's change that touched it last"""
    enveloped: ClassVar[bool] = False
    """payloads are the owner's records, with the work inside: fields are looked for at a greater
    depth, and fields about failures are left out"""
    tells_position: ClassVar[bool] = True
    """`queue_position` says what comes before an entry that waits"""
    counts_failures: ClassVar[bool] = True
    """the setting ``max_failures`` decides when an entry that fails is dead"""
    worked_on_here: ClassVar[bool] = True
    """`redisq work` is how its entries are usually taken"""
    names_examples: ClassVar[bool] = False
    """sentences of `invariants` have a number of entries and a few examples: both may differ
    between two reads of the same fault"""
    keeps_results: ClassVar[bool] = False
    """what a handler returns is kept"""
    no_pause: ClassVar[str] = ""
    """why redisq can't pause the queue for its owner's workers, and what does"""
    no_commands: ClassVar[Mapping[WorkerWord, str]] = {
        **dict.fromkeys(
            ("quiet", "stop"),
            "a worker of redisq ends by TERM: it takes no more, and ends what it has",
        ),
        "stop-job": "no command ends the run of one entry; cancel its request, or requeue it",
    }
    """command to a worker that doesn't exist -> why, and what to do instead"""
    no_schedules: ClassVar[str] = ""
    """where the owner has its schedules, if not in Redis"""
    task_figures: ClassVar[str] = (
        "which task a run was of is not kept, and how long it took only with the setting"
        " `history=all`"
    )
    """what is not kept of the runs of tasks, or which setting keeps it, in words"""
    verbs: ClassVar[Mapping[str, str]] = {}
    """verb -> what it does in this kind of queue, where that differs from other kinds"""
    refusals: ClassVar[Mapping[str, str]] = {}
    """why a verb (``replay``), or a verb of a state (``purge dead``), is impossible here, and what
    to do instead; ``purge`` is also for ``purge --hard``"""
    unlisted: ClassVar[Mapping[State, str]] = {}
    """state that no key lists -> where its entries may be, if none are found"""
    unwatched: ClassVar[str] = ""
    """why the end of replayed entries is unknown, so that a canary and a ramp are refused; empty:
    `replay_tracker` follows them"""
    unseen_ms: ClassVar[float] = 0
    """for how long an entry that a worker has may be in no key; infinite: until it has a result"""
    without_deadline: ClassVar[str] = (
        "deliveries here have no deadline: it stays pending until it is acknowledged or claimed"
    )
    """what becomes of a pending entry that has no deadline"""
    after_deadline: ClassVar[str] = "what becomes of it is up to its own program"
    """what becomes of a pending entry whose deadline, not a lease of ours, is over"""
    found: frozenset[bytes] | None = None
    """the queue's keys that a scan found, for a layout that keeps no index"""

    at: str = ""
    """what the owner's keys begin with"""

    @classmethod
    def shard_of(cls, own_name: str) -> tuple[str, int] | None:
        """A queue of ours and the number of its shard that would have the same keys as the owner's
        queue ``own_name``; None: there is none."""
        return None

    @property
    def whole(self) -> bool:
        """Whether it is a whole deployment of another program, which has queues of its own."""
        return False

    @property
    def deployment(self) -> str:
        """Another program's deployment: its queues and the whole name it alike; else empty."""
        return ""

    def covers(self, other: Any) -> bool:
        """Whether it is a whole deployment, and ``other`` one of its queues."""
        return self.whole and not other.whole and self.deployment == other.deployment

    def leave_out(self, queues: Iterable[Any]) -> None:
        """For a whole deployment: leave these of its queues out from now on."""

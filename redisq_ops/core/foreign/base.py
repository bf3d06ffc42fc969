"""Queues of another program, their owner: read, and changed only as the owner allows.

The owner's keys begin with ``at`` (``resque:``, or nothing); none is renamed or gets another type.
Keys of ours are beside them, under our own prefix. Finding such a queue writes nothing: it exists
when its owner's keys do.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar

from ..engine.idempotency import CallerSlots
from ..engine.operator_changes import MoveStep, UndoStep
from ..engine.queue import Queue
from ..engine.registry import Registered, distinct_name
from ..engine.replay_tracking import ForeignReplayTracker, ReplayTracker
from ..model.activity import Activity
from ..model.clock import Clock
from ..model.entry import Page, PageQuery, Settlement, State, TakeResult
from ..model.errors import WrongKind
from ..model.keys import Keys, known_name
from ..model.queue_position import QueuePosition
from ..model.quoting import bytes_of, raw_of, shown, text
from ..model.rates import Rates
from ..model.states import Verb
from ..model.worker_command import WorkerWord
from ..redis.operation import C_co, operation
from .releases import Releases


class ForeignQueue(Queue[C_co]):
    """Read-only; a kind overrides the methods that it supports, and all others refuse in one line.

    ``at``: what the owner's keys begin with. ``own_name``: the owner's name for the queue; None:
    the part of ``name`` behind the colon. A name without a digest stands for the kind's usual keys;
    a queue under other keys gets the name with a digest that `discover` would give it.
    """

    interface: ClassVar[int]
    """for a kind of another package: the version of the interface for which it was written"""
    home: ClassVar[str] = ""
    """what its owner's keys begin with by default"""
    one_key: ClassVar[bool] = False
    """whether ``at`` is the queue's only key, and also its name"""
    releases: ClassVar[Releases | None] = None
    """the releases of its owner whose queues it changes; None: it changes no queue"""
    unnamed: ClassVar[str] = ""
    """why a queue is only shown where Redis names no release; empty: it can be changed"""
    actions: ClassVar[Mapping[Verb, tuple[State, ...]]] = {}
    range_states: ClassVar[frozenset[State]] = frozenset()
    editable_states: ClassVar[tuple[State, ...]] = ()
    by_id: ClassVar[bool] = False
    step_s: ClassVar[float] = 0.002  # each step first looks its entries up, in calls of its own
    keeps_history: ClassVar[bool] = False
    has_columns: ClassVar[bool] = False
    accepts_imports: ClassVar[bool] = False
    exchanges_at_once: ClassVar[bool] = False
    transferable: ClassVar[bool] = False
    destroyable: ClassVar[bool] = False
    marks_operations: ClassVar[bool] = False
    enveloped: ClassVar[bool] = True
    tells_position: ClassVar[bool] = False
    counts_failures: ClassVar[bool] = False
    worked_on_here: ClassVar[bool] = False
    has_rate: ClassVar[bool] = False
    names_examples: ClassVar[bool] = True
    no_commands: ClassVar[Mapping[WorkerWord, str]] = dict.fromkeys(
        ("quiet", "stop", "stop-job"), "its workers take no commands through Redis"
    )
    task_figures: ClassVar[str] = "its program keeps nothing of runs that succeeded"

    def __init__(
        self,
        client: C_co,
        name: str,
        *,
        at: str | None = None,
        own_name: str | None = None,
        prefix: str | None = None,
        clock: Clock | None = None,
        callers: CallerSlots | None = None,
    ) -> None:
        super().__init__(client, name, prefix=prefix, clock=clock, callers=callers)
        self.own_name = text(raw_of(name.partition(":")[2])) if own_name is None else own_name
        usual = self.home_of(self.own_name)
        self.at = usual if at is None else at
        if own_name is None and self.at != usual and not self._is_key(self.at):
            self.name = distinct_name(self.kind, bytes_of(self.at), bytes_of(self.own_name))
            own_name = self.own_name
        self._called = own_name
        self._check_own_name()
        self.keys = self._keys(self.name)
        self.beside: frozenset[str] = frozenset()
        """own names of queues that a whole deployment leaves out: each has an object of its own"""

    def _check_own_name(self) -> None:
        """Refuse a name whose key the owner uses for something other than a queue."""

    @staticmethod
    def _checked_name(name: str) -> str:
        return known_name(name, "queue name")

    def typed_id(self, words: str) -> str:
        return shown(words)

    @classmethod
    def home_of(cls, own_name: str) -> str:
        """What the owner's keys of a queue begin with by default. Overridden by a kind whose queues
        begin differently. ``own_name``: the owner's name for the queue."""
        return cls.home

    def _is_key(self, at: str) -> bool:
        return self.one_key and at in ("", self.own_name)

    def _keys(self, name: str) -> Keys:
        return Keys(name, self.prefix)

    def _as_registered(self, now_ms: int) -> Registered:
        return Registered(
            self.name, self.kind, self.schema, now_ms, at=self.at, called=self._called
        )

    @property
    def whole(self) -> bool:
        return not self.own_name

    @property
    def deployment(self) -> str:
        return f"{self.kind} {self.at}"

    def leave_out(self, queues: Iterable[Any]) -> None:
        self.beside = frozenset(queue.own_name for queue in queues)

    async def _ensure_registered(self) -> None:
        """Do nothing: the owner creates the queue."""

    async def _register_again(self) -> None:
        # The mark first: if the server loses its data after that, the mark is lost as well.
        await self._is_marked(Registered(self.name, self.kind, self.schema))
        await Queue._register_again(self)

    @operation
    @abstractmethod
    async def exists(self) -> bool:
        """Whether the owner's keys of this queue exist."""

    def replay_tracker(self) -> ReplayTracker:
        return ForeignReplayTracker(self)

    async def releases_there(self) -> Sequence[str]:
        """The releases of the owner that use the queue, as far as Redis has them."""
        return ()

    @operation
    async def only_shown(self) -> str | None:
        known, owner, there = self.releases, self.owner, await self.releases_there()
        other = known and known.other(there)
        if known is None or other is None:
            return None if there else self.unnamed or None
        return f"it is of {owner} {other}, and redisq changes queues of {owner} {known.bounds}"

    def _refusal(self, what: str) -> WrongKind:
        # Not `Refused`: a worker tries again after that, and this never changes.
        return WrongKind(f"queue {self.name} is kept by another program ({self.kind}): {what}")

    # --- refused, or empty, unless a kind overrides it -------------------------------------------

    async def _ready_to_take(self) -> bool:
        return True  # nothing is registered, because `_take` refuses

    async def _take(self, n: int, consumer: str, lease_ms: int) -> TakeResult:
        raise self._refusal("only that program's workers run what is in it")

    async def _settle(self, settlements: Sequence[Settlement]) -> list[str]:
        raise self._refusal("only that program's workers run what is in it")

    def __init_subclass__(cls, **named: Any) -> None:
        super().__init_subclass__(**named)
        cls.has_settings = cls._configure is not ForeignQueue._configure

    async def _configure(
        self, op: str, seq: int, changes: dict[str, str], since: Mapping[str, str] | None = None
    ) -> dict[str, str]:
        raise self._refusal("it has no settings here")

    async def _move(self, step: MoveStep) -> list[str]:
        raise self._refusal("redisq only looks at it")

    async def _undo(self, undo: UndoStep) -> tuple[int, ...]:
        raise self._refusal("redisq only looks at it")

    @operation
    async def destroy_step(self, max: int = 100) -> int:
        raise self._refusal("it can't be removed from here")

    @operation
    async def sweep(self, max: int = 100) -> int:
        return 0

    @operation
    async def rates(self, now_ms: int, minutes: int = 60) -> Rates:
        return Rates()

    @operation
    async def activity(self, since_ms: int, known_ms: int | None = None) -> Activity:
        return Activity()

    @operation
    async def queue_position(self, id: str = "") -> QueuePosition:
        return QueuePosition()

    async def _zset_range(self, state: State) -> tuple[str, float | None, float | None] | None:
        return None

    @operation
    async def due_counts(self, edges: Sequence[int]) -> list[int]:
        return [0] * (len(edges) - 1)

    @operation
    async def invariants(self) -> list[str]:
        return []

    async def _page_waiting(self, query: PageQuery) -> Page:
        return Page((), None, 0)

    async def _payloads(self, ids: Sequence[str]) -> list[Any]:
        return [None] * len(ids)

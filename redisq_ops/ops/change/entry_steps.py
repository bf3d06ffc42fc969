"""The steps of a change of entries, chosen by their ids: by a verb of the core's table.

`EntryAction` is what is done to each entry, wherever its id comes from: a selection
(`ListedSteps`), a plan file (`apply.PlanSteps`), a whole state (`whole_state.WholeStateSteps`) or a
partition of Spark (`pipeline.replay`). Moves to another queue are in `transfer`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, NamedTuple

from redisq_ops.core.engine.queue import Queue
from redisq_ops.core.model.entry import State
from redisq_ops.core.model.errors import Superseded
from redisq_ops.core.model.keys import checked_consumer
from redisq_ops.core.model.settings import LEASE_MS, MAX_BATCH
from redisq_ops.core.model.states import VERBS, Verb
from redisq_ops.core.redis.operation import Description

from ..filter.selection import Selection
from .scope import ChangeScope
from .step_size import Stride
from .steps import ChangeSteps


class Pick(NamedTuple):
    """One entry that was chosen."""

    id: str
    at_ms: int | None = None
    """its score (ms): distinguishes it from a later entry of the same id, which may have no
    record"""
    orphan: bool = False
    """whether it had no record when it was chosen"""
    stamp: bytes = b""
    """its `selected_stamp`"""


@dataclass
class EntryAction:
    """What is done to each entry."""

    queue: Queue[Any]
    verb: Verb
    state: State
    high_water_ms: int
    consumer: str = "operator"
    argument: int = LEASE_MS
    """lease (ms) of a claim, ready time (ms) of a reschedule"""
    hand: str = field(default="", kw_only=True)
    """who carries it out, where several may send the same step"""
    most: int = field(default=MAX_BATCH, init=False)
    """entries of the next step at most"""
    destination: dict[str, Any] = field(default_factory=dict, init=False)
    """of a move: the target queue, as fields of the audit log and of plan files"""

    def __post_init__(self) -> None:
        checked_consumer(self.consumer)

    def move(
        self, op: str, seq: int, picks: Sequence[Pick], span: tuple[int, int] | None = None
    ) -> Description[list[str]]:
        """Take one step. Returns for each entry ``moved``, or why it was not. ``span``: their begin
        and end among the chosen entries; None: not recorded."""
        place = f"{span[0]}-{span[1]}" + (f"-{self.hand}" if self.hand else "") if span else ""
        moved: Description[list[str]] = self.queue.move.op(
            op,
            seq,
            [pick.id for pick in picks],
            source=self.state,
            target=VERBS[self.verb][1],
            high_water_ms=self.high_water_ms,
            consumer=self.consumer,
            lease_ms=self.argument,
            times={pick.id: pick.at_ms for pick in picks if pick.at_ms is not None},
            orphans={pick.id for pick in picks if pick.orphan},
            span=place,
            stamps={pick.id: pick.stamp for pick in picks if pick.stamp},
        )
        return moved


def unreadable(scope: ChangeScope) -> Counter[str]:
    """Entries that match, or may match, and are left out: why -> their number."""
    ids = scope.unreadable if isinstance(scope, Selection) else {}
    return Counter({word: len(some) for word, some in ids.items() if some})


class EntrySteps(ChangeSteps):
    """The steps of a change of entries. Each entry is checked again in the step that moves it."""

    stride: Stride

    def __init__(self, action: EntryAction, scope: ChangeScope) -> None:
        left_out = unreadable(scope)
        super().__init__(
            action.queue,
            action.verb,
            scope.count + left_out.total(),
            str(scope.filter),
            source=action.state,
            target=VERBS[action.verb][1],
            **action.destination,
        )
        for word, n in left_out.items():
            self.outcome.skip(word, n)
        self.action = action
        self.scope = scope
        self.stride = Stride(largest=action.most, step_s=action.queue.step_s)
        self.number = 0
        """of the latest step"""
        self.results: list[tuple[Pick, str]] = []
        """of the latest step, where it was about listed entries: moved | theirs (moved by another
        hand), or why an entry was not"""
        self.halted = ""
        """why the change stopped early; empty: it did not"""


class ListedSteps(EntrySteps):
    """Steps over entries that were chosen by id, in their order."""

    def __init__(self, action: EntryAction, scope: ChangeScope, picks: Iterator[Pick]) -> None:
        super().__init__(action, scope)
        self.at = 0
        """entries dealt with so far"""
        self._picks = picks
        self._batch: list[Pick] = []

    @property
    def ahead(self) -> int:
        """Entries that this run is still to deal with."""
        return self.scope.count - self.at

    async def step(self, size: int) -> int | None:
        self.results = []
        # Kept until its reply comes: a step that is tried again has the same entries.
        batch = self._batch = self._batch or list(islice(self._picks, size))
        if not batch:
            return None
        end = self.at + len(batch)
        words = await self.action.move(self.op, self.number + 1, batch, (self.at, end))
        if len(words) != len(batch):  # the reply of another step that had this number before
            raise Superseded(f"{self.op} was undone, or another process continues it")
        self._batch, self.at, self.number = [], end, self.number + 1
        self.results = list(zip(batch, words, strict=True))
        return self.outcome.count(Counter("moved" if w == "theirs" else w for w in words))

"""A queue of the overview with its trouble; queues that share their trouble fold into one row."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, cast

from redisq_ops.core.model.entry import STATES, Counts, State
from redisq_ops.core.model.rates import Minute, Rates
from redisq_ops.ops.terminal import count
from redisq_ops.ops.trouble.finding import Trouble
from redisq_ops.ops.trouble.judgement import reasons
from redisq_ops.ops.trouble.shared import (
    FOLDED_FROM,
    Likeness,
    has_more,
    likeness,
    shared_trouble,
)

if TYPE_CHECKING:
    from redisq_ops.ops.inspect.overview import QueueRow


@dataclass(frozen=True, slots=True)
class JudgedQueue:
    """A queue, its troubles, and its rates in the last minute; or a fold of such queues."""

    row: QueueRow
    found: tuple[Trouble, ...]
    minute: Minute | None
    new_dead: int = 0
    """dead letters that came since the user last looked at those of the queue"""
    members: tuple[JudgedQueue, ...] = ()
    """of a fold: its queues, by name; all other values are of these together"""

    @property
    def name(self) -> str:
        """The identity of its row."""
        return self.row.name

    @property
    def title(self) -> str:
        return f"{count(len(self.members))} queues" if self.members else self.name

    @property
    def first_name(self) -> str:
        """The name by which it is sorted."""
        return self.members[0].name if self.members else self.name

    @property
    def why(self) -> str:
        """The reasons in one line."""
        more = sum(has_more(one.found) for one in self.members)
        return reasons(self.found) + (f"; more in {count(more)} of them" if more else "")

    def of(self, state: State) -> int | None:
        return self.row.of(state)

    @property
    def waits_since(self) -> int | None:
        return self.row.counts.oldest_ms if self.row.counts else None


def folded(judged: Sequence[JudgedQueue]) -> list[JudgedQueue]:
    """The queues, those that share their trouble as one fold."""
    alike = defaultdict[Likeness, list[JudgedQueue]](list)
    for one in judged:
        alike[likeness(one.found)].append(one)
    rows: list[JudgedQueue] = []
    for like, queues in alike.items():
        rows += [_fold(like, queues)] if like and len(queues) >= FOLDED_FROM else queues
    return rows


def _fold(like: Likeness, queues: Sequence[JudgedQueue]) -> JudgedQueue:
    kinds = {one.row.kind for one in queues}
    minutes = [one.minute for one in queues if one.minute is not None]
    rates = [one.row.rates for one in queues if one.row.rates is not None]
    return JudgedQueue(
        replace(
            queues[0].row,
            # No name of a queue: these are ASCII.
            name="▸ " + "; ".join(f"{rule}: {words}" for _, rule, words in like),
            kind=kinds.pop() if len(kinds) == 1 else "",
            counts=_together([one.row.counts for one in queues if one.row.counts is not None]),
            rates=Rates.total(rates) if rates else None,
        ),
        shared_trouble([one.found for one in queues]),
        cast(Minute, tuple(map(_sum, zip(*minutes, strict=True)))) if minutes else None,
        sum(one.new_dead for one in queues),
        tuple(queues),
    )


def _sum(numbers: Sequence[int | None]) -> int | None:
    """The sum of the known numbers; None: none is known."""
    known = [number for number in numbers if number is not None]
    return sum(known) if known else None


def _together(counts: Sequence[Counts]) -> Counts | None:
    """The sums of the known numbers; a state is unknown if no queue knows its number."""
    if not counts:
        return None
    known = {state: [n for one in counts if (n := one.of(state)) is not None] for state in STATES}
    sums = {state: sum(numbers) for state, numbers in known.items()}
    return Counts(
        sums["waiting"],
        sums["pending"],
        sums["delayed"],
        sums["dead"],
        sums["trash"],
        sums["done"],
        min((one.oldest_ms for one in counts if one.oldest_ms is not None), default=None),
        unknown=frozenset(state for state, numbers in known.items() if not numbers),
    )

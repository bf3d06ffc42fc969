"""Filters of queues, such as ``dead>0 kind=rq trouble~worker``: the filter language on the columns
of the overview."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

from redisq_ops.core.model.entry import Counts, State
from redisq_ops.core.model.rates import Minute

from .ast import Query
from .fields import EntryFields, Field, Kind, Path
from .parser import Parser, unknown


@dataclass(frozen=True, slots=True)
class QueueFields:
    """What a filter compares of a queue; None: unknown."""

    name: str
    kind: str
    reasons: Sequence[str]
    """why it is in trouble, if it is"""
    counts: Counts | None
    minute: Minute | None
    """entries that arrived, were settled and failed in the last minute"""
    waits_ms: int | None
    """how long the oldest waiting entry has waited"""
    new_dead: int
    """dead letters that came since the user last looked at those of the queue"""

    @property
    def words(self) -> Sequence[str]:
        """The texts in which a word without a field is searched."""
        return (self.name, self.kind, *self.reasons)

    def of(self, state: State) -> int | None:
        return None if self.counts is None else self.counts.of(state)

    def rate(self, which: int) -> int | None:
        return None if self.minute is None else self.minute[which]


def _field(name: str, kind: Kind, what: str, read: Callable[[QueueFields], Any]) -> Field:
    # The tests of comparisons only hand the queue to `read`.
    return Field(name, kind, what, cast(Callable[[EntryFields], Any], read))


def _state(state: State) -> Field:
    return _field(state, "number", f"its {state} entries", lambda queue: queue.of(state))


def _rate(which: int, name: str, what: str) -> Field:
    return _field(
        name,
        "number",
        f"entries that {what} in the last minute, estimated",
        lambda queue: queue.rate(which),
    )


QUEUE_FIELDS: Final[Mapping[str, Field]] = {
    each.name: each
    for each in (
        _field("queue", "text", "its name", lambda queue: (queue.name,)),
        _field("kind", "text", "its kind: `request`, `rq` …", lambda queue: (queue.kind,)),
        _field("trouble", "text", "each of its reasons", lambda queue: queue.reasons or None),
        *map(_state, cast("tuple[State, ...]", ("waiting", "pending", "delayed", "dead"))),
        _field("new", "number", "dead letters since you looked", lambda queue: queue.new_dead),
        _rate(0, "in", "arrived"),
        _rate(1, "out", "were settled"),
        _rate(2, "failed", "failed"),
        _field("oldest", "span", "the wait of its oldest entry", lambda queue: queue.waits_ms),
    )
}


class _QueueParser(Parser):
    def _field(self, named: tuple[str, Path], at: int) -> Field:
        name, path = named
        if path or name not in QUEUE_FIELDS:
            self._fail(at, unknown(name, known=tuple(QUEUE_FIELDS)))
        return QUEUE_FIELDS[name]


def parse_queue_filter(text: str) -> Query:
    """Parse an expression on queues; `FilterError` names the column of an error."""
    return Query.of(_QueueParser(text, utc=False).expression(), text)


def accepts_queue(query: Query, queue: QueueFields) -> bool:
    """Whether a queue matches an expression of `parse_queue_filter`."""
    return query.node.holds(cast(EntryFields, queue))

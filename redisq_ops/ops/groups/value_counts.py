"""Entries counted by the value of one field: which tasks, clients or regions a backlog has."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from redisq_ops.core.model.entry import State
from redisq_ops.core.model.errors import BadInput

from ..filter.fields import MISSING, EntryFields, Field, Need
from .heavy_hitters import HeavyHitters

KEPT = 2000
"""values counted at a time, each once for every state; with more of them counts are estimates"""
COUNTED = ("text", "state", "number", "json")
"""kinds of fields whose values repeat: ages and moments do not"""


@dataclass(frozen=True, slots=True)
class ValueCount:
    """The number of entries with one value; ``value`` None: entries without one.

    The numbers are exact, or lower bounds that are at most `ValueCounts.slack` too low.
    """

    value: str | None
    entries: int
    by_state: dict[State, int]


class ValueCounts:
    """Counts entries by the value of a field, in memory for `KEPT` values."""

    def __init__(self, field: Field) -> None:
        if field.kind not in COUNTED:
            raise BadInput(
                f"--by {field.name}: nearly every entry has a value of its own; "
                "count by task, client, request, state, error.type or payload.KEY"
            )
        self.field = field
        self.total = 0
        self._counts: HeavyHitters[tuple[str | None, State]] = HeavyHitters(KEPT)

    def add(self, entries: Iterable[EntryFields]) -> None:
        for entry in entries:
            self.total += 1
            self._counts.add((shown(self.field.read(entry)), entry.entry.state))

    @property
    def needs(self) -> frozenset[Need]:
        """What a scan has to read for it."""
        return frozenset() if self.field.need is None else frozenset({self.field.need})

    @property
    def slack(self) -> int:
        """How much too low a number may be; 0: all are exact and no value is missing."""
        return self._counts.slack

    def ranked(self) -> list[ValueCount]:
        """Every value that is still counted, the most frequent first."""
        by_value: dict[str | None, dict[State, int]] = {}
        for (value, state), number in self._counts.counts.items():
            by_value.setdefault(value, {})[state] = number
        found = (ValueCount(v, sum(states.values()), states) for v, states in by_value.items())
        return sorted(found, key=lambda each: (-each.entries, each.value or ""))


def shown(value: Any) -> str | None:
    """A field's value as text: an error as ``TYPE: MESSAGE``, an object of a payload as JSON."""
    if value is None or value is MISSING:
        return None
    if isinstance(value, tuple):  # forms of the value, the complete one last
        return str(value[-1])
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)

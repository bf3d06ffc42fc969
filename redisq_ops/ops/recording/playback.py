"""A recorded moment as the values that the live commands show, and the difference of two."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ..change.audit_log import Operation
from ..inspect.consumers import ConsumerReport
from ..queue_names import is_named
from .file import RecordedState, recorded_queue
from .recorded_queue import FieldChange, QueueDifference, RecordedQueue

PASSING: Final = frozenset(
    ("read_ms", "oldest_ms", "in_per_min", "out_per_min", "failed_per_min", "kind", "name")
)
"""fields of a queue that are not compared"""


def recorded_queues(state: RecordedState, names: Sequence[str] = ()) -> list[RecordedQueue]:
    """The queues, by name."""
    return [
        recorded_queue(row, state.at_ms)
        for name, row in sorted(state.queues.items())
        if is_named(name, names)
    ]


def recorded_reports(state: RecordedState, names: Sequence[str] = ()) -> list[ConsumerReport]:
    """The reports of `redisq workers ls`, by queue."""
    return [
        report
        for name, reports in sorted(state.consumers.items())
        if is_named(name, names)
        for report in reports
    ]


def recorded_operations(state: RecordedState, names: Sequence[str] = ()) -> list[Operation]:
    """The rows of `redisq log`, newest first."""
    found = [
        operation
        for operation in state.operations.values()
        if is_named(operation.queue, names) and operation.started_ms <= state.at_ms
    ]
    return sorted(found, key=lambda operation: operation.started_ms, reverse=True)


def differences(before: RecordedState, after: RecordedState) -> list[QueueDifference]:
    """The queues that differ, by name."""
    found = []
    for name in sorted(before.queues.keys() | after.queues.keys()):
        old, new = before.queues.get(name, {}), after.queues.get(name, {})
        changes = {
            field: FieldChange(old.get(field), new.get(field))
            for field in old | new
            if field not in PASSING and old.get(field) != new.get(field)
        }
        if changes:
            moments = before.at_ms, after.at_ms
            found.append(QueueDifference(name, *moments, not old, not new, changes))
    return found

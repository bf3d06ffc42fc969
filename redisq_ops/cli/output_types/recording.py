"""JSON of recordings."""

from __future__ import annotations

from typing import Any, TypedDict

from redisq_ops.core.model.row_fields import Size, Time
from redisq_ops.ops.inspect.queue_fields import RecordedQueue


class RecordingSummaryOutput(TypedDict):
    """When the recording ends."""

    file: str
    samples: int
    """samples that this run took"""
    bytes: Size
    """size of the file"""


RecordedQueueOutput = RecordedQueue


class FieldChange(TypedDict):
    before: Any
    """value before"""
    after: Any
    """value after"""


class QueueDifferenceOutput(TypedDict):
    """With `--diff`: a queue that changed between two moments."""

    name: str
    """queue"""
    before_ms: Time
    """earlier moment"""
    at_ms: Time
    """later moment"""
    appeared: bool
    """whether it was not there before"""
    gone: bool
    """whether it is not there after"""
    changes: dict[str, FieldChange]
    """field of the [queue](#queue) → its values"""

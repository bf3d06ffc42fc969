"""A queue at a moment of a recording, and what changed in it between two moments."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from redisq_ops.core.model.row_fields import INLINE, Time

from ..inspect.queue_fields import QueueFields


@dataclass(frozen=True, slots=True)
class RecordedQueue:
    """A queue at a moment of the recording; `oldest_age_ms` is its age then."""

    queue: QueueFields = field(metadata=INLINE)
    read_ms: Time
    """when the queue was read, at most two minutes before"""


@dataclass(frozen=True, slots=True)
class FieldChange:
    before: Any
    """value before"""
    after: Any
    """value after"""


@dataclass(frozen=True, slots=True)
class QueueDifference:
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

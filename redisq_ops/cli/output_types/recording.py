"""JSON of recordings."""

from __future__ import annotations

from typing import TypedDict

from redisq_ops.core.model.row_fields import Size
from redisq_ops.ops.recording.recorded_queue import QueueDifference, RecordedQueue


class RecordingSummaryOutput(TypedDict):
    """When the recording ends."""

    file: str
    samples: int
    """samples that this run took"""
    bytes: Size
    """size of the file"""


RecordedQueueOutput = RecordedQueue


QueueDifferenceOutput = QueueDifference

"""The delay set (article 003): entries that become due at a time."""

from .handover import HandoverResult
from .periodic import Periodic, ScheduledPeriodic
from .queue import DelaySet, Scheduled
from .sharded import ShardedDelaySet

__all__ = [
    "DelaySet",
    "HandoverResult",
    "Periodic",
    "Scheduled",
    "ScheduledPeriodic",
    "ShardedDelaySet",
]

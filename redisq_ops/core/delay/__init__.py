"""The delay set (article 003): entries that become due at a time."""

from .handover import Handed
from .periodic import Periodic, Planned
from .queue import DelaySet, Scheduled
from .shards import ShardedDelaySet

__all__ = ["DelaySet", "Handed", "Periodic", "Planned", "Scheduled", "ShardedDelaySet"]

"""The fair queue (article 004): a list per client, served in turn."""

from .client import ClientQueue
from .queue import Deleted, FairQueue, Submitted
from .shards import ShardedFairQueue

__all__ = ["ClientQueue", "Deleted", "FairQueue", "ShardedFairQueue", "Submitted"]

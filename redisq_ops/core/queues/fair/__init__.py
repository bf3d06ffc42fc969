"""The fair queue (article 004): a list per client, served in turn."""

from .client import ClientQueue
from .queue import Deleted, FairQueue, SubmittedEntry
from .sharded import ShardedFairQueue

__all__ = ["ClientQueue", "Deleted", "FairQueue", "ShardedFairQueue", "SubmittedEntry"]

"""The priority request queue (article 000): requests of sub-requests, priorities, limits."""

from .queue import RequestQueue, Submitted
from .shards import ShardedRequestQueue

__all__ = ["RequestQueue", "ShardedRequestQueue", "Submitted"]

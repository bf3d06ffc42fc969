"""The priority request queue (article 000): requests of sub-requests, priorities, limits."""

from .queue import RequestQueue
from .shards import ShardedRequestQueue
from .submission import Submitted

__all__ = ["RequestQueue", "ShardedRequestQueue", "Submitted"]

"""The priority request queue (article 000): requests of sub-requests, priorities, limits."""

from .queue import RequestQueue
from .sharded import ShardedRequestQueue
from .submission import SubmittedRequest

__all__ = ["RequestQueue", "ShardedRequestQueue", "SubmittedRequest"]

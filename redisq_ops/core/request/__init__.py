"""The priority request queue (article 000): requests of sub-requests, priorities, limits."""

from .queue import RequestQueue, Submitted

__all__ = ["RequestQueue", "Submitted"]

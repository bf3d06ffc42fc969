"""Carmine's message queue (article 001): messages in a circle, each with a state its users know."""

from .foreign import CarmineLayout
from .queue import CarmineQueue, Enqueued
from .sharded import ShardedCarmineQueue

__all__ = ["CarmineLayout", "CarmineQueue", "Enqueued", "ShardedCarmineQueue"]

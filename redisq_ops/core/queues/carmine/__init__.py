"""Carmine's message queue (article 001): messages in a circle, each with a state its users know."""

from .foreign import CarmineLayout
from .foreign_v4 import CarmineFourLayout
from .queue import CarmineQueue, Enqueued
from .sharded import ShardedCarmineQueue

__all__ = [
    "CarmineFourLayout", "CarmineLayout", "CarmineQueue", "Enqueued", "ShardedCarmineQueue"
]  # fmt: skip

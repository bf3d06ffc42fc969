"""Carmine's message queue (article 001): messages in a circle, each with a state its users know."""

from .layout import CarmineLayout
from .preview import CarmineFourLayout
from .queue import CarmineQueue, Enqueued
from .shards import ShardedCarmineQueue

__all__ = [
    "CarmineFourLayout", "CarmineLayout", "CarmineQueue", "Enqueued", "ShardedCarmineQueue"
]  # fmt: skip

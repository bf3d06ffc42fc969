"""The circular queue (article 002): ids that stay known until they are processed."""

from .check import unless_done
from .queue import CircularQueue
from .shape import Shape
from .shards import ShardedCircularQueue

__all__ = ["CircularQueue", "Shape", "ShardedCircularQueue", "unless_done"]

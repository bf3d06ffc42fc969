"""The circular queue (article 002): ids that stay known until they are processed."""

from .processed_check import unless_done
from .queue import CircularQueue
from .sharded import ShardedCircularQueue
from .variants import Shape

__all__ = ["CircularQueue", "Shape", "ShardedCircularQueue", "unless_done"]

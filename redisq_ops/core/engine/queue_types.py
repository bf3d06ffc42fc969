"""Every kind of queue there is: a line each. A kind's room is imported when a queue of it is met.

*Ours* are in the registry before their first key. *Layouts* are other programs' (the list is in
`foreign`): they are recognised by their keys, and named ``kind:what`` (``sidekiq:default``).
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Any

from ..foreign import LAYOUTS as _LAYOUTS
from ..foreign.base import ForeignQueue
from ..sharding.sharded_queue import Sharded
from .queue import Queue

_OURS = {
    "request": ("queues.request", "RequestQueue", "ShardedRequestQueue"),
    "delay": ("queues.delay", "DelaySet", "ShardedDelaySet"),
    "fair": ("queues.fair", "FairQueue", "ShardedFairQueue"),
    "circular": ("queues.circular", "CircularQueue", "ShardedCircularQueue"),
    "carmine": ("queues.carmine", "CarmineQueue", "ShardedCarmineQueue"),
}
KINDS = tuple(_OURS)
LAYOUTS = tuple(_LAYOUTS)


@cache
def room(kind: str) -> type[Queue[Any]] | None:
    """The class of one queue of that kind; None: unknown to this release."""
    place = _OURS.get(kind) or _LAYOUTS.get(kind)
    return place and getattr(import_module(f"redisq_ops.core.{place[0]}"), place[1])


def layout(kind: str) -> type[ForeignQueue[Any]] | None:
    """The class that reads another program's layout; None: there is none of that kind."""
    place = _LAYOUTS.get(kind)
    return place and getattr(import_module(f"redisq_ops.core.{place[0]}"), place[1])


@cache
def sharded(kind: str) -> type[Sharded[Any, Any]]:
    """The class of a queue of that kind over several shards."""
    module, _, name = _OURS[kind]
    found: type[Sharded[Any, Any]] = getattr(import_module(f"redisq_ops.core.{module}"), name)
    return found

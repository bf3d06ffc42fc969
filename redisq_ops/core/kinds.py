"""Every kind of queue there is: a line each. A kind's room is imported when a queue of it is met.

*Ours* are in the registry before their first key. *Layouts* are other programs': they are
recognised by their keys, and named ``kind:what`` (``sidekiq:default``).
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Any

from .foreign import ForeignQueue
from .queue import Queue
from .shards import Sharded

_OURS = {
    "request": ("request", "RequestQueue", "ShardedRequestQueue"),
    "delay": ("delay", "DelaySet", "ShardedDelaySet"),
    "fair": ("fair", "FairQueue", "ShardedFairQueue"),
    "circular": ("circular", "CircularQueue", "ShardedCircularQueue"),
    "carmine": ("carmine", "CarmineQueue", "ShardedCarmineQueue"),
}
_LAYOUTS: dict[str, tuple[str, str]] = {
    "sidekiq": ("resque", "SidekiqQueue"),
    "resque": ("resque", "ResqueQueue"),
    "stream": ("streams", "StreamQueue"),
    "raw-request": ("raw", "RawRequestQueue"),
    "raw-circular": ("raw", "RawCircularQueue"),
    "raw-delay": ("raw", "RawDelaySet"),
    "raw-fair": ("raw", "RawFairQueue"),
    "carmine": ("carmine", "CarmineLayout"),
    "carmine-4": ("carmine", "CarmineFourLayout"),
}

KINDS = tuple(_OURS)
LAYOUTS = tuple(_LAYOUTS)


@cache
def room(kind: str) -> type[Queue[Any]] | None:
    """The class of one queue of that kind; None: unknown to this release."""
    place = _OURS.get(kind) or _LAYOUTS.get(kind)
    return place and getattr(import_module(f".{place[0]}", __package__), place[1])


def layout(kind: str) -> type[ForeignQueue[Any]] | None:
    """The class that reads another program's layout; None: there is none of that kind."""
    place = _LAYOUTS.get(kind)
    return place and getattr(import_module(f".{place[0]}", __package__), place[1])


@cache
def sharded(kind: str) -> type[Sharded[Any, Any]]:
    """The class of a queue of that kind over several shards."""
    module, _, name = _OURS[kind]
    found: type[Sharded[Any, Any]] = getattr(import_module(f".{module}", __package__), name)
    return found

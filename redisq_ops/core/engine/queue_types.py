"""The table of queue kinds: which package and which classes each has. Imports nothing.

Kinds of ours are in the registry before their first key is written. Kinds of other programs are
recognised by their keys and named ``kind:name`` (``sidekiq:default``). `queue_classes` imports a
kind's package when the first queue of it is opened.
"""

from __future__ import annotations

from ..foreign import LAYOUTS as _LAYOUTS

OWN_CLASSES = {
    "request": ("queues.request", "RequestQueue", "ShardedRequestQueue"),
    "delay": ("queues.delay", "DelaySet", "ShardedDelaySet"),
    "fair": ("queues.fair", "FairQueue", "ShardedFairQueue"),
    "circular": ("queues.circular", "CircularQueue", "ShardedCircularQueue"),
    "carmine": ("queues.carmine", "CarmineQueue", "ShardedCarmineQueue"),
}
"""kind of ours -> package under `core`, its class, its class with several shards"""

KINDS = tuple(OWN_CLASSES)
FOREIGN_CLASSES = _LAYOUTS
"""kind of another program -> package under `core`, its class"""
LAYOUTS = tuple(FOREIGN_CLASSES)

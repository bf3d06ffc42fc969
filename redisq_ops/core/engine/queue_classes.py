"""The class of a queue by its kind. A kind's package is imported at the first call for it."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Any

from ..foreign.base import ForeignQueue
from ..model.errors import NotFound, Unreadable
from ..sharding.sharded_queue import ShardedQueue
from .queue import Queue
from .queue_types import FOREIGN_CLASSES, OWN_CLASSES
from .registry import Registered


@cache
def queue_class(kind: str) -> type[Queue[Any]] | None:
    """The class of an unsharded queue of ``kind``; None: this release doesn't know the kind."""
    place = OWN_CLASSES.get(kind) or FOREIGN_CLASSES.get(kind)
    return place and _imported(*place[:2])


def foreign_class(kind: str) -> type[ForeignQueue[Any]] | None:
    """The class that reads another program's queues of ``kind``; None: there is none."""
    place = FOREIGN_CLASSES.get(kind)
    return place and _imported(*place)


@cache
def sharded_class(kind: str) -> type[ShardedQueue[Any, Any]]:
    """The class of a queue of ``kind`` (one of `KINDS`) that has several shards."""
    package, _, name = OWN_CLASSES[kind]
    found: type[ShardedQueue[Any, Any]] = _imported(package, name)
    return found


def open_queue(client: Any, entry: Registered, **given: Any) -> Queue[Any]:
    """Open the queue of a registry entry; ``given``: ``prefix``, ``clock`` and ``callers``.

    Raises `NotFound` for a kind that this release doesn't know, `Refused` for a newer layout, and
    `Unreadable` where a name without a digest stands for other keys than the kind's usual ones: a
    user who may write the registry must not make a name mean another program's queue.
    """
    made = queue_class(entry.kind) if entry.at is None else foreign_class(entry.kind)
    if made is None:
        raise NotFound(f"queue {entry.name} is of kind {entry.kind}, unknown to this release")
    entry.checked(made.kind, made.schema)
    if entry.all_shards > 1 or entry.layout:
        return sharded_class(entry.kind)(client, entry.name, entry=entry, **given)
    if entry.at is not None:
        given |= {"at": entry.at, "own_name": entry.called}
    queue = made(client, entry.name, **given)
    if queue.name != entry.name:
        raise Unreadable(
            f"the registry entry of {entry.name} is corrupt: a queue of that name doesn't have its "
            f"keys at {entry.at!r}. Remove it with redisq forget {entry.name}, then redisq discover"
            " --register finds the queue again"
        )
    return queue


def _imported(package: str, name: str) -> Any:
    return getattr(import_module(f"redisq_ops.core.{package}"), name)

"""The class of a queue by its kind. A kind's package is imported at the first call for it."""

from __future__ import annotations

from contextlib import suppress
from functools import cache
from importlib import import_module
from typing import Any

from ..foreign.base import ForeignQueue
from ..foreign.plug_ins import INTERFACE, plug_ins, refused
from ..foreign.watched_code import watched
from ..model.errors import NotFound, Refused, Unreadable
from ..sharding.sharded_queue import ShardedQueue
from .queue import Queue
from .queue_types import FOREIGN_CLASSES, OWN_CLASSES
from .registry import Registered


@cache
def queue_class(kind: str) -> type[Queue[Any]] | None:
    """The class of an unsharded queue of ``kind``; None: this release doesn't know the kind."""
    place = OWN_CLASSES.get(kind) or FOREIGN_CLASSES.get(kind)
    return _imported(*place[:2]) if place else plug_in_class(kind)


def foreign_class(kind: str) -> type[ForeignQueue[Any]] | None:
    """The class that reads another program's queues of ``kind``; None: there is none. Raises
    `Refused` if another package brings the kind, and it can't be used."""
    place = FOREIGN_CLASSES.get(kind)
    return _imported(*place) if place else None if kind in OWN_CLASSES else plug_in_class(kind)


@cache
def plug_in_class(kind: str) -> type[ForeignQueue[Any]] | None:
    """The class of a kind; None: no package brings it. Raises `Refused` if it can't be used."""
    found = plug_ins().get(kind)
    if found is None:
        return None
    try:
        with watched():
            made = found.load()
    except (Exception, SystemExit) as error:  # whatever a stranger's module does
        raise refused(found, f"{type(error).__name__}: {error}") from error
    if not (isinstance(made, type) and issubclass(made, ForeignQueue)):
        raise refused(found, f"{found.value} is no class of queues")
    if getattr(made, "interface", None) != INTERFACE:
        theirs = getattr(made, "interface", "none")
        raise refused(found, f"it is for interface {theirs}, and this release has {INTERFACE}")
    if made.kind != kind:
        raise refused(found, f"its class is of kind {made.kind}")
    return made


def foreign_classes() -> dict[str, type[ForeignQueue[Any]]]:
    """Kind -> class, of all kinds of other programs' queues that can be used."""
    return {kind: _imported(*place) for kind, place in FOREIGN_CLASSES.items()} | plug_in_classes()


def plug_in_classes() -> dict[str, type[ForeignQueue[Any]]]:
    """Kind -> class, of the kinds of other packages that can be used."""
    found = {}
    for kind in plug_ins():
        with suppress(Refused):
            found[kind] = plug_in_class(kind)
    return {kind: made for kind, made in found.items() if made}


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
        raise NotFound(
            f"queue {entry.name} is of kind {entry.kind}: neither this release nor an installed"
            " package knows it"
        )
    entry.checked(made.kind, made.schema)
    if entry.all_shards > 1 or entry.layout:
        return sharded_class(entry.kind)(client, entry.name, entry=entry, **given)
    if entry.at is not None:
        given |= {"at": entry.at, "own_name": entry.called}
    queue = made(client, entry.name, **given)
    if queue.name != entry.name:
        raise Unreadable(
            f"the registry entry of {entry.name} is corrupt: a queue of that name doesn't have its "
            f"keys at {entry.at!r}. Remove it with redisq queue rm {entry.name}, then redisq "
            "discover --register finds the queue again"
        )
    return queue


def _imported(package: str, name: str) -> Any:
    return getattr(import_module(f"redisq_ops.core.{package}"), name)

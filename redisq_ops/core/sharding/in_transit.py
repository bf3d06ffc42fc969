"""What lies between two shards: read from ``transit``, and whether it has arrived.

Each departure has a mark of its own, and its new home keeps in ``seen`` when it took that mark in.
So what was killed before it could say `departed` is known for what it is, whatever became of the
entry since.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, cast

from ..engine.queue import Queue
from ..model.entry import State
from ..redis.operation import Call
from ..redis.parsers import number


class InTransit(NamedTuple):
    """An entry that left a shard: the state in which it did, and that state's score."""

    id: str
    shard: int
    mark: str
    state: State
    at: float


def mark_of(id: str, shard: int, nth: str) -> str:
    """What its new home knows a departure by."""
    return f"{id} {shard}-{nth}"


def departures(part: Queue[None]) -> Call[list[InTransit]]:
    """What is on its way from a shard: at most 100 for each mover that is at it or was killed."""
    key = part.keys["transit"]

    def read(reply: dict[bytes, bytes]) -> list[InTransit]:
        return [departure(id.decode(), part.shard, line) for id, line in reply.items()]

    return Call(("HGETALL", key), read, key=key)


def departure(id: str, shard: int, line: bytes) -> InTransit:
    nth, state, at = line.decode().split()
    return InTransit(id, shard, mark_of(id, shard, nth), cast("State", state), float(at))


def arrivals(part: Queue[None], some: Sequence[InTransit]) -> Call[list[float | None]]:
    """When each of them was taken in by its new home; None: it wasn't."""
    key = part.keys["seen"]

    def read(reply: list[bytes | float | None]) -> list[float | None]:
        return list(map(number, reply))

    return Call(("ZMSCORE", key, *(entry.mark for entry in some)), read, key=key)

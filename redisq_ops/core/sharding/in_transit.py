"""Entries in transit between two shards, and whether they have arrived.

Each departure has its own mark, and the new home stores in ``seen`` when it accepted the mark. So
an entry that arrived is recognised even where a crash left it in ``transit``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, cast

from ..engine.queue import Queue
from ..model.entry import State
from ..redis.operation import Call
from ..redis.parsers import scores_of


class InTransit(NamedTuple):
    """An entry that left a shard, and its state and score there."""

    id: str
    shard: int
    mark: str
    state: State
    at: float


def mark_of(id: str, shard: int, nth: str) -> str:
    """The mark by which the new home recognises a departure."""
    return f"{id} {shard}-{nth}"


def departures(part: Queue[None]) -> Call[list[InTransit]]:
    """Entries in transit from a shard: at most 100 for each resize that runs or crashed."""
    key = part.keys["transit"]

    def read(reply: dict[bytes, bytes]) -> list[InTransit]:
        return [departure(id.decode(), part.shard, line) for id, line in reply.items()]

    return Call(("HGETALL", key), read, key=key)


def departure(id: str, shard: int, line: bytes) -> InTransit:
    nth, state, at = line.decode().split()
    return InTransit(id, shard, mark_of(id, shard, nth), cast("State", state), float(at))


def arrivals(part: Queue[None], some: Sequence[InTransit]) -> Call[list[float | None]]:
    """When the new home accepted each entry; None: it didn't."""
    return scores_of(part.keys["seen"], [entry.mark for entry in some])

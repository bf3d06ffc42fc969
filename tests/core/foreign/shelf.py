"""A layout of no program, with the places that only frameworks to come need: a key that is a list
or a sorted set, a set of ids for each worker beside a hash of messages (as Dramatiq keeps what is
pending), and a hash whose fields are entries (as Celery does)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import redis

from redisq_ops.core.foreign.declarations import Declared, Hash, List, Set, Zset
from redisq_ops.core.foreign.placed_queue import PlacedQueue
from redisq_ops.core.foreign.places import Place, Row, orphan
from redisq_ops.core.model.entry import Entry, State
from redisq_ops.core.model.quoting import legal, text
from redisq_ops.core.redis.operation import C_co, Call
from redisq_ops.core.redis.whole_keys import set_members


class ShelfQueue(PlacedQueue[C_co]):
    """``shelf:<queue>``: ids in a list or sorted set, and in sets; messages in the hash
    ``<queue>.msgs``."""

    kind: ClassVar[str] = "shelf"
    owner: ClassVar[str] = "Shelf"
    home: ClassVar[str] = "shelf:"
    package: ClassVar[str] = "foreign.streams"
    by_id: ClassVar[bool] = True
    states: ClassVar[Mapping[State, Sequence[Declared]]] = {
        "waiting": (List("{q}", "queued"), Zset("{q}", "sorted")),
        "pending": (Set("acks.{worker}.{q}", "fetched"),),
        "dead": (Hash("{q}.failed", "failed"),),
    }
    theirs: ClassVar[dict[str, str]] = {"queues": "set", "workers": "set"}

    async def workers_of(self) -> Sequence[str]:
        return [text(name) for name in sorted(await set_members(self.at + "workers"))]

    async def read(self, state: State, place: Place, rows: Sequence[Row]) -> list[Entry | None]:
        bodies: list[bytes | None] = [row.value for row in rows]
        if state != "dead":
            key = f"{self.at}{self.own_name}.msgs"
            bodies = await Call(("HMGET", key, *(r.member for r in rows)), list[Any], key=key)
        return [
            orphan(place, state, legal(row.member), None, "message")
            if body is None
            else Entry(legal(row.member), state, payload=body, called=place.called)
            for row, body in zip(rows, bodies, strict=True)
        ]


def fill(
    client: redis.Redis, waiting: int = 6, pending: int = 9, dead: int = 7, *, ranked: bool = False
) -> Any:
    client.sadd("shelf:queues", "low")
    for n in range(waiting):
        if ranked:
            client.zadd("shelf:low", {f"w{n}": n})
        else:
            client.rpush("shelf:low", f"w{n}")
        client.hset("shelf:low.msgs", f"w{n}", f"message {n}")
    for n in range(pending):
        client.sadd("shelf:workers", f"one-{n % 2}")
        client.sadd(f"shelf:acks.one-{n % 2}.low", f"p{n}")
        client.hset("shelf:low.msgs", f"p{n}", f"message {n}")
    for n in range(dead):
        client.hset("shelf:low.failed", f"d{n}", f"message {n}")
    return ShelfQueue(client, "shelf:low")

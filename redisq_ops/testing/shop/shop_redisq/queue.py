"""The shop's queues: ``shop:jobs:<queue>``, taken from the left, and ``shop:failed:<queue>``."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from redisq_ops.core.foreign.changes import ForeignChanges
from redisq_ops.core.foreign.declarations import Declared, List, Zset
from redisq_ops.core.foreign.places import Place, Row
from redisq_ops.core.foreign.releases import Releases
from redisq_ops.core.model.entry import Entry, State
from redisq_ops.core.model.quoting import legal
from redisq_ops.core.model.states import Verb
from redisq_ops.core.redis.operation import C_co
from redisq_ops.core.redis.parsers import moment


class ShopQueue(ForeignChanges[C_co]):
    """``shop:<queue>``. An id is the member `id` of a job."""

    interface: ClassVar[int] = 1
    kind: ClassVar[str] = "shop"
    owner: ClassVar[str] = "the shop"
    home: ClassVar[str] = "shop:"
    package: ClassVar[str] = "shop_redisq"
    theirs: ClassVar[dict[str, str]] = {}
    states: ClassVar[Mapping[State, Sequence[Declared]]] = {
        "waiting": (List("jobs:{q}", "jobs"),),
        "dead": (Zset("failed:{q}", "failed"),),
    }
    actions: ClassVar[Mapping[Verb, tuple[State, ...]]] = {
        "replay": ("dead",),
        "purge": ("waiting", "dead"),
        "hard": ("waiting", "dead", "trash"),
        "restore": ("trash",),
    }
    releases: ClassVar[Releases] = Releases(("1.0",))

    async def read(self, state: State, place: Place, rows: Sequence[Row]) -> list[Entry | None]:
        return [_entry(state, place, row) for row in rows]


def _entry(state: State, place: Place, row: Row) -> Entry:
    at_ms = moment(row.score * 1000) if state == "dead" else None
    try:
        job: Any = json.loads(row.member)
        id = str(job["id"])
    except (ValueError, KeyError, TypeError) as error:
        odd = f"no job: {type(error).__name__}"
        return Entry(legal(row.member[:32]), state, called=place.called, problem=odd)
    return Entry(
        legal(id.encode()),
        state,
        at_ms=at_ms,
        payload=row.member,
        called=place.called,
        task=job.get("task"),
    )

"""The request queue over several shards; each request is whole in one of them.

A request stays in its shard until it is deleted. The number of shards decides where *new* requests
go; an operation on a known one asks all shards. Shards that are given up accept no new requests and
are deleted after their last one (``keep_ms`` after its end).

Priorities are strict within a shard. Between shards a worker goes by each shard's most urgent
priority, and notices one entry late that a shard has none left.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from ...engine.queue import Queue
from ...model.consumer_load import PendingPage, PendingQuery
from ...model.entry import Consumer, Level, Request, State
from ...model.errors import QueueClosed, Refused
from ...model.settings import PRIORITIES
from ...redis.operation import C_co, Call, operation, together
from ...redis.parsers import scored
from ...sharding.shard_map import Head, home, next_due
from ...sharding.sharded_queue import ShardedQueue
from .queue import Control, RequestQueue
from .stream import PendingSubRequest, Stream
from .submission import Chunk, SubmittedRequest


class ShardedRequestQueue(ShardedQueue[C_co, RequestQueue[None]], RequestQueue[C_co]):
    """A `RequestQueue` over several hash slots, used like one: see there.

    ``shards`` (1 to 256): how many a new queue gets; an existing one keeps its number until
    `resize`. Each request is whole in one shard, so priorities are strict within a shard only.
    """

    part: ClassVar[Any] = RequestQueue

    async def _holder(self, id: str) -> RequestQueue[None]:
        """The shard that has a request, or would get it."""
        found = await self._on_each_shard(lambda part: part.request.op(id))
        there = (part for part, request in zip(self._all_shards(), found, strict=True) if request)
        return next(there, self._shard(home(id, self.shards)))

    async def _shards_of(self, ids: Sequence[str]) -> dict[str, set[int]]:
        names = list(dict.fromkeys(id.partition("/")[0] for id in ids))
        found = await self._on_each_shard(
            lambda part: together(part.request.op(name) for name in names)
        )
        places: dict[str, set[int]] = {name: set() for name in names}
        for k, requests in enumerate(found):
            for name, request in zip(names, requests, strict=True):
                if request is not None:
                    places[name].add(k)
        return {id: places[id.partition("/")[0]] or {home(id, self.shards)} for id in ids}

    # --- producers -----------------------------------------------------------------------------

    async def _append(self, chunk: Chunk) -> SubmittedRequest:
        if chunk.follows:
            raise Refused("follows: the two requests may be in different shards")
        while True:
            holder, layout = await self._holder(chunk.id), self.layout
            try:
                if chunk.rehearse is None:
                    await holder._ensure_registered()
                return await holder._append(chunk)
            except QueueClosed:
                await self._refresh()
                if self.layout == layout:  # the queue is draining; no shard was given up
                    raise

    @operation
    async def traceparent(self, id: str) -> str | None:
        found = await self._on_each_shard(lambda part: part.traceparent.op(id))
        return next(filter(None, found), None)

    async def _importer(self, id: str) -> str:
        found = await self._on_each_shard(lambda part: part._importer(id))
        return next(filter(None, found), "")

    @operation
    async def control(
        self, op: str, seq: int, verb: Control, id: str, value: str = "", since: str = ""
    ) -> tuple[str, str]:
        return await (await self._holder(id)).control.op(op, seq, verb, id, value, since)

    # --- workers -------------------------------------------------------------------------------

    async def _peek(self, part: RequestQueue[None]) -> Head:
        """The most urgent priority with tokens; delayed and pending entries rank after all."""
        tokens, due = await together(scored(part.keys["prios"], "0", "0"), next_due(part.keys))
        return (0, tokens[0][1]) if tokens else (due, PRIORITIES)

    async def _rebalance_step(self) -> int:
        given_up = [self._shard(k) for k in range(self.shards, self.old_shards)]
        keys = [part.keys[zset] for part in given_up for zset in ("open", "fin")]
        return sum(await together(Call(("ZCARD", key), int, key=key) for key in keys))

    # --- looking -------------------------------------------------------------------------------

    @operation
    async def request(self, id: str) -> Request | None:
        found = await self._on_each_shard(lambda part: part.request.op(id))
        return next((request for request in found if request is not None), None)

    @operation
    async def requests(
        self, start: int = 0, max: int = 100, settled: bool = False
    ) -> list[Request]:
        found = await self._on_each_shard(lambda part: part.requests.op(0, start + max, settled))
        merged = [request for part in found for request in part]
        if settled:
            merged.sort(key=lambda r: (r.closed_ms or 0, r.id), reverse=True)
        else:
            merged.sort(key=lambda r: (r.created_ms, r.id))
        return merged[start : start + max]

    @operation
    async def requests_total(self, settled: bool = False) -> int:
        return sum(await self._on_each_shard(lambda part: part.requests_total.op(settled)))

    @operation
    async def unsettled(self, id: str, max: int = 100) -> list[tuple[str, State]]:
        found = await self._on_each_shard(lambda part: part.unsettled.op(id, max))
        return [row for rows in found for row in rows]

    @operation
    async def stream_of(self, id: str) -> Stream:
        return await (await self._holder(id)).stream_of.op(id)

    @operation
    async def held(self, id: str, numbers: Sequence[int]) -> list[PendingSubRequest | None]:
        return await (await self._holder(id)).held.op(id, numbers)

    @operation
    async def _retry_counts(self, id: str) -> tuple[int, int]:
        return await (await self._holder(id))._retry_counts.op(id)

    @operation
    async def consumers(self, id: str) -> list[Consumer]:
        found = await self._on_each_shard(lambda part: part.consumers.op(id))
        return [consumer for part in found for consumer in part]

    async def _pending_deliveries(self, query: PendingQuery) -> PendingPage:
        if not query.group:
            return await Queue._pending_deliveries(self, query)
        return await (await self._holder(query.group))._pending_deliveries(query)

    @operation
    async def remove_consumer(self, group: str, consumer: str) -> str:
        return await (await self._holder(group)).remove_consumer.op(group, consumer)

    @operation
    async def levels(self) -> list[Level]:
        tokens: dict[int, int] = {}
        names: dict[int, tuple[str, ...]] = {}
        for part in await self._on_each_shard(lambda part: part.levels.op()):
            for level in part:
                tokens[level.priority] = tokens.get(level.priority, 0) + level.tokens
                names[level.priority] = names.get(level.priority, ()) + level.requests
        return [Level(priority, tokens[priority], names[priority]) for priority in sorted(tokens)]

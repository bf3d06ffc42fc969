"""Queues that keep what a handler returned for an entry, for the setting ``keep_ms``.

``result`` id → bytes, ``result_at`` id → when (lua/results.lua). An entry of which only its result
is left has the state done.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, TypeVar

from ..model.entry import Entry, EntryOutcome, State, task_of
from ..model.settings import BATCH
from ..redis.operation import C_co, Call, Description, operation, together
from ..redis.parsers import moment, scored
from ..redis.whole_keys import fields, members
from ..sharding.sharded_queue import ShardedQueue
from .queue import Queue
from .reads import QueueReads


@dataclass(frozen=True, slots=True)
class _End:
    """What is left of an entry."""

    here: bool
    """whether it is here, in whatever state"""
    result: bytes | None
    at: float | None
    """when its result was kept, ms"""


class EntryResults(Queue[C_co]):
    """Reads of results by the ids of entries."""

    keeps_results: ClassVar[bool] = True
    key_types: ClassVar[dict[str, str]] = {"result": "hash", "result_at": "zset"}

    async def _get_waiting(self, id: str) -> Entry | None:
        return (await self._done([id])).get(id)

    async def _done(self, ids: Sequence[str]) -> dict[str, Entry]:
        """The entries among these of which only a result is kept."""
        return {
            id: Entry(id, "done", since_ms=moment(end.at), record=end.result, task=task_of(id))
            for id, end in zip(ids, await self._ends(ids), strict=True)
            # What is here and in no state is on its way to another shard.
            if not end.here and end.result is not None
        }

    @operation
    async def outcomes(self, ids: Sequence[str]) -> list[EntryOutcome]:
        """What became of entries: an `EntryOutcome` for each, in their order; up to 500.

        A result is kept for 24 hours (setting ``keep_ms``). `wait` waits for the ends of entries.

            for outcome in queue.outcomes(["reminder-7", "reminder-8"]):
                print(outcome.id, outcome.state, outcome.result or outcome.error)
        """
        found = await self.get_many.op(ids)
        gone = [id for id, entry in zip(ids, found, strict=True) if entry is None]
        # Read later than the states: what has neither a state nor a payload has ended by now.
        ends = dict(zip(gone, await self._ends(gone), strict=True))
        outcomes = []
        for id, entry in zip(ids, found, strict=True):
            if entry is not None:
                outcomes.append(EntryOutcome.of(id, entry))
                continue
            end = ends[id]
            state: State | None = "pending" if end.here else None if end.result is None else "done"
            outcomes.append(EntryOutcome(id, state, end.result if state == "done" else None))
        return outcomes

    async def _ends(self, ids: Sequence[str]) -> list[_End]:
        if not ids:
            return []
        body, key, times = self.keys["body"], self.keys["result"], self.keys["result_at"]
        here, results, ended = await together(
            together(Call(("HEXISTS", body, id), bool, key=body) for id in ids),
            Call(("HMGET", key, *ids), list[bytes | None], key=key),
            Call(("ZMSCORE", times, *ids), list[float | None], key=times),
        )
        return [*map(_End, here, results, ended)]

    @property
    def _end_channels(self) -> str:
        return self.keys["result"] + ":"

    def _awaited(self, ids: Sequence[str]) -> Description[list[EntryOutcome]]:
        return self.outcomes.op(ids)


ResultsT = TypeVar("ResultsT", bound=EntryResults[None])


class ShardedEntryResults(ShardedQueue[C_co, ResultsT], EntryResults[C_co]):
    """Results are kept in the shard where the entry ended."""

    async def _ends(self, ids: Sequence[str]) -> list[_End]:
        """The latest of all shards: an entry's shard may have another number by now, and runs of
        one id may have ended in several."""
        found = await self._on_each_shard(lambda part: part._ends(ids))
        return [
            replace(
                max(ends, key=lambda end: (end.result is not None, end.at or 0)),
                here=any(end.here for end in ends),
            )
            for ends in zip(*found, strict=True)
        ]

    async def _clear_given_up(self, parts: Sequence[ResultsT]) -> None:
        await super()._clear_given_up(parts)
        await together(self._copy_results(part) for part in parts)

    async def _copy_results(self, part: ResultsT) -> None:
        """Copy what handlers returned to the first shard, unless that has a later result."""
        came, at = part.keys["result"], part.keys["result_at"]
        while rows := await scored(at, "0", str(BATCH - 1)):
            ids = [id for id, _ in rows]
            results = await Call(("HMGET", came, *ids), list[Any], key=came)
            kept = [
                (id, int(ms), result)
                for (id, ms), result in zip(rows, results, strict=True)
                if result is not None
            ]
            await self._script("accept_results").call(self.keys, self.clock, int, kept)
            await together(
                [Call(("HDEL", came, *ids), int, key=came), Call(("ZREM", at, *ids), int, key=at)]
            )


async def misplaced_results(queue: QueueReads[Any]) -> list[str]:
    """Results without an end, and ends without a result, in words."""
    kept, ended = await fields(queue.keys["result"]), await members(queue.keys["result_at"])
    problems = [f"the result of {id} is kept for ever" for id in sorted(set(kept) - set(ended))]
    return problems + [f"{id} has a time and no result" for id in sorted(set(ended) - set(kept))]

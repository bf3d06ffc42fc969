"""The history as a stream of micro-batches, gone on with exactly where it was left.

An offset says for each shard the last id that was handed on and how many events were before and
with it since the stream began. So a batch knows how many events it has to find; fewer were
trimmed, and that many are missing. Nothing is kept on the server, no group and no mark: any number
of queries read beside each other, and a query that is run again from a checkpoint reads the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypedDict

from pyspark.sql import datasource as ds
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from redisq_ops.core.engine.state_scan import HistoryExtent
from redisq_ops.core.redis.operation import together

from . import ranges
from .call_size import MOST
from .options import Options
from .partitions import TablePart, queues
from .ranges import Range, before, cut, place
from .reading import Reading
from .source import checked_stream

if TYPE_CHECKING:
    import pyarrow as pa


class Offset(TypedDict):
    """Where a reader of one shard's history is."""

    id: str
    seen: int


Offsets = dict[str, Offset]
"""by ``queue/shard``"""
BEGIN: Offset = {"id": ranges.BEGIN, "seen": 0}


@dataclass(frozen=True, slots=True)
class Shard:
    """A shard whose history there is, and how far that goes."""

    part: TablePart
    reach: HistoryExtent

    @property
    def name(self) -> str:
        return f"{self.part.queue}/{self.part.shard}"

    @property
    def end(self) -> Offset:
        return {"id": self.reach.last, "seen": self.reach.added}

    def new_since(self, start: Offset) -> int:
        """Events that are there behind an offset."""
        return max(0, min(self.reach.length, self.reach.added - start["seen"]))


class HistoryStream(ds.DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A streaming read of the history of some queues, or of all there are."""

    def __init__(self, options: Options) -> None:
        self.options = checked_stream(options)
        self._target: Offsets | None = None
        """where a query ends that only takes what is there now"""

    def initialOffset(self) -> dict[str, Any]:
        if self.options.start == "earliest":
            return {}
        return {shard.name: shard.end for shard in self._shards()}

    def getDefaultReadLimit(self) -> ReadLimit:
        most = self.options.max_events
        return ReadAllAvailable() if most is None else ReadMaxRows(most)

    def prepareForTriggerAvailableNow(self) -> None:
        self._target = {shard.name: shard.end for shard in self._shards()}

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """Behind ``start``: everything, or as many events as the limit says, from all shards."""
        shards = self._shards()
        at: Offsets = {shard.name: start.get(shard.name, BEGIN) for shard in shards}
        ends: Offsets = {**start, **{shard.name: self._last(shard) for shard in shards}}
        new = {s.name: _between(s, at[s.name], ends[s.name]) for s in shards}
        room = limit.max_rows if isinstance(limit, ReadMaxRows) else sum(new.values())
        # The emptiest first: what it leaves is for the others.
        for nth, shard in enumerate(sorted(shards, key=lambda shard: new[shard.name])):
            share = -(-room // (len(shards) - nth))
            if new[shard.name] > share:
                first = at[shard.name]
                ends[shard.name] = self._walked(shard, first, share) if share else first
            room -= min(share, new[shard.name])
        return {
            name: dict(offset) for name, offset in ends.items() if name in start or offset != BEGIN
        }

    def _last(self, shard: Shard) -> Offset:
        if self._target is None:
            return shard.end
        return self._target.get(shard.name, BEGIN)  # what came since isn't meant

    def _walked(self, shard: Shard, start: Offset, n: int) -> Offset:
        """The offset ``n`` events further on, found by reading on to there."""
        reading = Reading(self.options)
        leaf = reading.leaf(shard.part)
        # What was trimmed counts as seen: it is missed where the range is read.
        seen = max(start["seen"], shard.reach.added - shard.reach.length)
        id = start["id"]
        while n > 0:
            size = min(n, MOST, reading.pace.size)
            rows, took = reading.happened(leaf, id, shard.reach.last, size)
            reading.pace.learn(len(rows), took)
            if not rows:
                break
            id, seen, n = rows[-1][0].decode(), seen + len(rows), n - len(rows)
        return {"id": id, "seen": seen}

    def reportLatestOffset(self) -> dict[str, Any] | None:
        return {shard.name: dict(shard.end) for shard in self._shards()}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[ds.InputPartition]:
        known = {shard.name: shard for shard in self._shards()}
        parts: list[TablePart] = []
        for name, last in end.items():
            first = start.get(name, BEGIN)
            if first == last:
                continue
            if name in known:
                parts += self._parts(known[name], first, last)
            else:
                parts.append(_gone(name, first, last))
        return [ds.InputPartition(part) for part in parts]

    def _parts(self, shard: Shard, first: Offset, last: Offset) -> list[TablePart]:
        """From one offset to another: by time where it is much, else one part whose events are
        counted."""
        part, reach, size = shard.part, shard.reach, self.options.rows
        events = last["seen"] - first["seen"]
        if events < 0:
            anew = "the history was begun anew"
            return [replace(part, range=Range(first["id"], last["id"], missed=anew))]
        if events <= size or reach.first is None:
            return [replace(part, range=Range(first["id"], last["id"], events))]
        trimmed = max(0, reach.added - reach.length - first["seen"])
        after = max(first["id"], before(reach.first), key=place)
        leaf = Reading(self.options).leaf(part)
        pieces = -(-(events - trimmed) // size)
        reading = Reading(self.options)
        found = reading.ask(lambda: cut(leaf, after, last["id"], pieces)) if pieces > 0 else []
        if trimmed:
            missed = f"{min(events, trimmed)} events were trimmed behind this one"
            found = [Range(first["id"], first["id"], missed=missed), *found]
        return [replace(part, range=one) for one in found]

    def read(self, partition: ds.InputPartition) -> Iterator[pa.RecordBatch]:
        if partition.value is not None:
            yield from Reading(self.options).read(partition.value)

    def commit(self, end: dict[str, Any]) -> None:
        """Nothing: what was read stays, and trimming is the queue's own affair."""

    def _shards(self) -> list[Shard]:
        async def look() -> list[Shard]:
            places = [
                (TablePart(found.queue.name, found.entry, k), leaf)
                for found in await queues(self.options)
                for k, leaf in enumerate(found.queue.shard_queues)
            ]
            reaches = await together(leaf.history_extent.op() for _, leaf in places)
            there = zip(places, reaches, strict=True)
            return [Shard(part, reach) for (part, _), reach in there if reach.added]

        return Reading(self.options).ask(look)


def _between(shard: Shard, start: Offset, end: Offset) -> int:
    """Events to read from one offset to another; a history that was begun anew has all of them."""
    if end["seen"] < start["seen"]:
        return shard.reach.length
    return min(shard.new_since(start), end["seen"] - start["seen"])


def _gone(name: str, first: Offset, last: Offset) -> TablePart:
    """A shard of which nothing is there any more: what was to be read of it is missing."""
    queue, _, shard = name.rpartition("/")
    events = last["seen"] - first["seen"]
    said = f"{events} events" if events > 0 else "events"
    missed = f"{said} went with the queue, or with its shard"
    return TablePart(queue, None, int(shard), range=Range(first["id"], first["id"], missed=missed))

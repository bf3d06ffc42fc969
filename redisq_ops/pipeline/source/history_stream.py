"""The history, and the entries that became dead in it, as streams of micro-batches.

An offset has, for each shard, the id of the last event delivered and the number of events added up
to it since the history began. So a batch knows how many events it must find; if there are fewer,
the rest was trimmed. Nothing is stored on the server, no consumer group and no mark: any number of
queries read independently, and a query restarted from its checkpoint reads the same batches.

The stream of the table ``dead`` has a row for each event by which an entry became dead.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from pyspark.sql import datasource as ds
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from redisq_ops.core.engine.state_scan import HistoryExtent
from redisq_ops.core.model.errors import BadInput, NotFound, RedisqError, Refused
from redisq_ops.core.redis.operation import together
from redisq_ops.ops.hint import hint

from . import history_ranges
from .call_size import MOST
from .history_events import RawEvent
from .history_ranges import HistoryRange, id_before, id_key, split_range
from .job_errors import message_first
from .options import Options
from .read_partitions import TablePart, open_queues
from .starting_offsets import OTHERS, Offset, checked_offsets, position_of
from .table_reader import TableReader

if TYPE_CHECKING:
    import pyarrow as pa


Offsets = dict[str, Offset]
"""by ``queue/shard``"""
START_OFFSET: Offset = {"id": history_ranges.FIRST_ID, "seen": 0}


@dataclass(frozen=True, slots=True)
class HistoryShard:
    """A shard that has a history, and the extent of that history."""

    part: TablePart
    extent: HistoryExtent

    @property
    def name(self) -> str:
        return f"{self.part.queue}/{self.part.shard}"

    @property
    def end(self) -> Offset:
        return {"id": self.extent.last, "seen": self.extent.added}

    def new_since(self, start: Offset) -> int:
        """Number of events after an offset that are not trimmed."""
        return max(0, min(self.extent.length, self.extent.added - start["seen"]))


class HistoryStreamReader(ds.DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A streaming read of the history, or the dead letters, of the selected queues."""

    def __init__(self, options: Options) -> None:
        self.options = _checked_stream_options(options)
        self._target: Offsets | None = None
        """end of a query with the trigger availableNow"""
        self._planned: dict[str, Any] = {}
        """end of the latest batch"""

    def check_histories(self) -> None:
        """Raise `Refused` if the stream would lack the dead letters of a queue, because it keeps no
        history."""

        async def without_history() -> list[str]:
            found = [opened.queue for opened in await open_queues(self.options)]
            own = [queue for queue in found if queue.keeps_history]
            settings = await together(queue.shard_queues[0].settings.op() for queue in own)
            off = {
                queue.name
                for queue, set_ in zip(own, settings, strict=True)
                if set_.get("history") == "off"
            }
            return [q.name for q in found if q.name in off or not q.keeps_history]

        if self.options.table == "dead" and (
            names := TableReader(self.options).run(without_history)
        ):
            raise Refused(
                f"queue {names[0]} keeps no history, by which its dead letters are a stream: "
                f"{hint('settings', names[0], 'history=ops')}, or name others in the option queue"
            )

    @message_first()
    def initialOffset(self) -> dict[str, Any]:
        positions = self.options.start or {}
        shards = self._history_shards()
        self._refuse_unknown(positions)
        found: Offsets = {}
        for shard in shards:
            position = position_of(positions, shard.part.queue, shard.part.shard)
            if position == "latest":
                found[shard.name] = shard.end
            elif isinstance(position, int):
                found[shard.name] = self._offset_at(shard, position)
            elif not isinstance(position, str):
                found[shard.name] = position
        return {name: dict(offset) for name, offset in found.items() if offset != START_OFFSET}

    def _refuse_unknown(self, positions: Mapping[str, Any]) -> None:
        """Raise `NotFound` for the position of a queue or shard that does not exist."""
        opened = TableReader(self.options).run(lambda: open_queues(self.options))
        known = {OTHERS}
        for found in opened:
            shards = range(len(found.queue.shard_queues))
            known |= {found.queue.name, *(f"{found.queue.name}/{k}" for k in shards)}
        for name in positions:
            if name not in known:
                raise NotFound(f"startingOffsets: no queue or shard {name!r} is read")

    def _offset_at(self, shard: HistoryShard, ms: int) -> Offset:
        """The offset before the first event of a time; reads all events from then on once, because
        the server can't count them."""
        after = id_before(f"{ms}-0") if ms else history_ranges.FIRST_ID
        if shard.extent.first is None or id_key(after) < id_key(shard.extent.first):
            return START_OFFSET
        if id_key(after) >= id_key(shard.extent.last):
            return shard.end
        count = sum(len(rows) for rows in self._event_pages(shard, after, shard.extent.length))
        return {"id": after, "seen": shard.extent.added - count}

    def getDefaultReadLimit(self) -> ReadLimit:
        limit = self.options.max_events
        return ReadAllAvailable() if limit is None else ReadMaxRows(limit)

    @message_first()
    def prepareForTriggerAvailableNow(self) -> None:
        self._target = {shard.name: shard.end for shard in self._history_shards()}

    @message_first()
    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """The end of the next batch: all events after ``start``, or as many as the limit allows."""
        start = checked_offsets(start)
        shards = self._history_shards()
        at: Offsets = {shard.name: start.get(shard.name, START_OFFSET) for shard in shards}
        ends: Offsets = {**start, **{shard.name: self._end_offset(shard) for shard in shards}}
        new = {s.name: _event_count(s, at[s.name], ends[s.name]) for s in shards}
        budget = limit.max_rows if isinstance(limit, ReadMaxRows) else sum(new.values())
        # Shards with the fewest events first: the part of the limit that they don't use goes to the
        # others.
        for index, shard in enumerate(sorted(shards, key=lambda shard: new[shard.name])):
            share = -(-budget // (len(shards) - index))
            if new[shard.name] > share:
                first = at[shard.name]
                ends[shard.name] = self._offset_after(shard, first, share) if share else first
            budget -= min(share, new[shard.name])
        self._planned = {
            name: dict(offset)
            for name, offset in ends.items()
            if name in start or offset != START_OFFSET
        }
        return self._planned

    def _end_offset(self, shard: HistoryShard) -> Offset:
        if self._target is None:
            return shard.end
        return self._target.get(shard.name, START_OFFSET)  # not beyond the target

    def _offset_after(self, shard: HistoryShard, start: Offset, n: int) -> Offset:
        """The offset ``n`` events after ``start``, found by reading up to it."""
        # Trimmed events count as seen; the read of the range reports them.
        seen = max(start["seen"], shard.extent.added - shard.extent.length)
        id = start["id"]
        for rows in self._event_pages(shard, id, n):
            id, seen = rows[-1][0].decode(), seen + len(rows)
        return {"id": id, "seen": seen}

    def _event_pages(self, shard: HistoryShard, after: str, n: int) -> Iterator[list[RawEvent]]:
        """Up to ``n`` events after an id, in pages."""
        reader = TableReader(self.options)
        shard_queue = reader.shard_queue(shard.part)
        while n > 0:
            size = min(n, MOST, reader.call_size.size)
            rows, took = reader.read_events(shard_queue, after, shard.extent.last, size)
            reader.call_size.learn(len(rows), took)
            if not rows:
                return
            yield rows
            after, n = rows[-1][0].decode(), n - len(rows)

    @message_first()
    def reportLatestOffset(self) -> dict[str, Any] | None:
        """For the query's progress: the end of the history, and the number of events after the
        latest batch."""
        ends = {shard.name: dict(shard.end) for shard in self._history_shards()}
        behind = {
            name: max(0, end["seen"] - self._planned.get(name, START_OFFSET)["seen"])
            for name, end in ends.items()
        }
        return {"latest": ends, "behind": sum(behind.values()), "behind_by_shard": behind}

    @message_first()
    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[ds.InputPartition]:
        start, end = checked_offsets(start), checked_offsets(end)
        known = {shard.name: shard for shard in self._history_shards()}
        parts: list[TablePart] = []
        for name, last in end.items():
            first = start.get(name, START_OFFSET)
            if first == last:
                continue
            if name in known:
                parts += self._shard_parts(known[name], first, last)
            else:
                parts.append(_missing_shard_part(name, first, last))
        return [ds.InputPartition(part) for part in parts]

    def _shard_parts(self, shard: HistoryShard, first: Offset, last: Offset) -> list[TablePart]:
        """Parts from one offset to another: one with a known number of events, or several split by
        time."""
        part, extent, size = shard.part, shard.extent, self.options.rows
        events = last["seen"] - first["seen"]
        if events < 0:
            restarted = "the history was started anew"
            return [replace(part, range=HistoryRange(first["id"], last["id"], missing=restarted))]
        if events <= size or extent.first is None:
            return [replace(part, range=HistoryRange(first["id"], last["id"], events))]
        trimmed = max(0, extent.added - extent.length - first["seen"])
        after = max(first["id"], id_before(extent.first), key=id_key)
        reader = TableReader(self.options)
        shard_queue = reader.shard_queue(part)
        parts_wanted = -(-(events - trimmed) // size)
        found = (
            reader.run(lambda: split_range(shard_queue, after, last["id"], parts_wanted))
            if parts_wanted > 0
            else []
        )
        if trimmed:
            missing = f"{min(events, trimmed)} events were trimmed behind this one"
            found = [HistoryRange(first["id"], first["id"], missing=missing), *found]
        return [replace(part, range=history_range) for history_range in found]

    def read(self, partition: ds.InputPartition) -> Iterator[pa.RecordBatch]:
        if partition.value is not None:
            with message_first():
                yield from TableReader(self.options).read(partition.value)

    def commit(self, end: dict[str, Any]) -> None:
        """Does nothing: the stream keeps no state on the server, and each queue trims its own
        history."""

    def _history_shards(self) -> list[HistoryShard]:
        async def read_extents() -> list[HistoryShard]:
            shards = [
                (TablePart(found.queue.name, found.entry, k), shard_queue)
                for found in await open_queues(self.options)
                for k, shard_queue in enumerate(found.queue.shard_queues)
            ]
            extents = await together(shard_queue.history_extent.op() for _, shard_queue in shards)
            with_reach = zip(shards, extents, strict=True)
            return [HistoryShard(part, extent) for (part, _), extent in with_reach if extent.added]

        return TableReader(self.options).run(read_extents)


class RefusedStreamReader(ds.DataSourceStreamReader):
    """A reader that raises an error in Spark's first call of every start.

    Spark (4.1 to 4.3) replaces an error that is raised while a reader is made by its own error.
    """

    def __init__(self, error: RedisqError) -> None:
        self.error = error

    @message_first()
    def getDefaultReadLimit(self) -> ReadLimit:
        raise self.error

    def read(self, partition: ds.InputPartition) -> Iterator[pa.RecordBatch]:
        raise self.error


def _checked_stream_options(options: Options) -> Options:
    """Refuse tables without a stream, and options that only a batch read has."""
    if options.table not in ("history", "dead"):
        raise BadInput(
            f"only the tables history and dead can be read as a stream, not {options.table}"
        )
    if options.id or options.request is not None:
        raise BadInput("options id and request are not for a stream: filter its rows")
    for name, value in (("since", options.since_ms), ("until", options.until_ms)):
        if value is not None:
            raise BadInput(f"option {name} is not for a stream: use startingOffsets")
    if options.marks is not None:
        raise BadInput("option marks is not for a stream: a stream has a checkpoint")
    return options


def _event_count(shard: HistoryShard, start: Offset, end: Offset) -> int:
    """Events to read from one offset to another; all events of a history that was started anew."""
    if end["seen"] < start["seen"]:
        return shard.extent.length
    return min(shard.new_since(start), end["seen"] - start["seen"])


def _missing_shard_part(name: str, first: Offset, last: Offset) -> TablePart:
    """The part of a shard that is gone: all its events are missing."""
    queue, _, shard = name.rpartition("/")
    events = last["seen"] - first["seen"]
    events_text = f"{events} events" if events > 0 else "events"
    missing = f"{events_text} were deleted with the queue or its shard"
    return TablePart(
        queue, None, int(shard), range=HistoryRange(first["id"], first["id"], missing=missing)
    )

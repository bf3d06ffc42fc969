"""Read a range of a shard's history: its events, or the entries that became dead in them."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence

import pyarrow as pa

from redisq_ops.core.model.entry import Entry
from redisq_ops.core.model.errors import Lost, Unreadable, WrongKind
from redisq_ops.core.redis.operation import attempt, together

from . import history_events, model_rows
from .arrow_batch import RowOrigin, describe_error
from .history_events import RawEvent
from .history_ranges import HistoryRange, id_before
from .read_partitions import PAGE_ROWS, TablePart
from .table_source import BATCH_ROWS, PartReader, TableSource

logger = logging.getLogger("redisq_ops.pipeline")


class HistoryReader(PartReader):
    """Reads the tables ``history`` and ``dead`` of a stream."""

    def batches(self, history_range: HistoryRange) -> Iterator[pa.RecordBatch]:
        """Rows of a range; an expected event that is missing was trimmed."""
        held: list[RawEvent] = []
        after, seen, more = history_range.after, 0, True
        while more:
            # As long as the anchor event exists, no event after it was trimmed. The anchor is first
            # the range's first event, then the last event of the page before.
            anchor = (
                None if history_range.events is not None else after if seen else history_range.first
            )
            size = self.source.call_size.size + (1 if anchor else 0)
            rows, took = self.source.read_events(
                self.shard_queue, id_before(anchor) if anchor else after, history_range.until, size
            )
            self.source.call_size.learn(len(rows), took)
            more = len(rows) == size
            if anchor is not None:
                if not rows or rows[0][0].decode() != anchor:
                    where = "behind" if seen else "from"
                    what = f"events {where} {anchor} on were trimmed before they were read"
                    yield self._trimmed(anchor, what)
                elif seen:
                    rows = rows[1:]
            if rows:
                after = rows[-1][0].decode()
            seen += len(rows)
            held += rows
            if held and (len(held) >= BATCH_ROWS or not more):
                yield from self._rows_of_events(held)
                held = []
        if history_range.events is not None and seen < history_range.events:
            gone = history_range.events - seen
            yield self._trimmed(history_range.after, f"{gone} events were trimmed behind this one")

    def _rows_of_events(self, events: list[RawEvent]) -> Iterator[pa.RecordBatch]:
        if self.options.table == "history":
            in_range = self._in_history_range(events)
            yield history_events.event_rows(in_range, self.origin, self.schema)
            return
        died = history_events.deaths(events)
        for first in range(0, len(died), PAGE_ROWS):
            yield self._death_rows(died[first : first + PAGE_ROWS])

    def _death_rows(self, died: Sequence[history_events.Death]) -> pa.RecordBatch:
        """A row for each event by which an entry became dead, with its record if it still is."""
        found = self.run(lambda: together(attempt(self.shard_queue.get.op(one.id)) for one in died))
        entries: list[Entry] = []
        for one, entry in zip(died, found, strict=True):
            if isinstance(entry, Entry) and entry.state == "dead" and entry.since_ms == one.at_ms:
                entries.append(entry)
                continue
            if isinstance(entry, Exception) and not isinstance(entry, (WrongKind, Unreadable)):
                raise entry
            reason = (
                f"its record can't be read: {describe_error(entry)}"
                if isinstance(entry, Exception)
                else "it was changed after it became dead"
            )
            entries.append(Entry(one.id, "dead", since_ms=one.at_ms, problem=reason))
        payloads = self.options.reads_payloads
        return model_rows.entry_batch(entries, self.origin, self.schema, payloads)

    def _in_history_range(self, events: list[RawEvent]) -> list[RawEvent]:
        """Events within the options' time range; an event without a time counts by its id."""
        since, until = self.options.since_ms, self.options.until_ms
        if since is None and until is None:
            return events
        low, high = since or 0, until if until is not None else 1 << 63
        return [event for event in events if low <= history_events.event_ms(event) <= high]

    def _trimmed(self, after: str, what: str) -> pa.RecordBatch:
        return report_trimmed(self.source, self.part, after, what)


def report_trimmed(source: TableSource, part: TablePart, after: str, what: str) -> pa.RecordBatch:
    """Report trimmed events as the option ``onTrim`` says: raise `Lost`, or return a row."""
    shard = f" (shard {part.shard})" if part.shard else ""
    message = f"history of queue {part.queue}{shard}, after {after}: {what}"
    if source.options.on_trim == "fail":
        raise Lost(f"{message}; option onTrim=report continues, with a row that reports it")
    logger.warning("%s", message)
    origin = RowOrigin(part.queue, part.entry.kind if part.entry else None, part.shard, False)
    return history_events.gap_row(origin, what, after, source.schema)

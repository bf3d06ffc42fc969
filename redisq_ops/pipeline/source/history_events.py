"""History events as Arrow rows, one row for each entry or request that an event names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from .arrow_batch import (
    Columns,
    RowOrigin,
    corrupt_row,
    lossy_text,
    make_batch,
    origin_columns,
    text_array,
    timestamp_array,
)

RawEvent = tuple[bytes, Mapping[bytes, bytes]]
_ID_IS_REQUEST = ("submitted", "request-done")


def event_rows(found: Sequence[RawEvent], origin: RowOrigin, schema: pa.Schema) -> pa.RecordBatch:
    """History events as rows, one for each item that an event names."""
    items: list[bytes] = []
    item_events: list[bytes] = []
    event_numbers: list[int] = []
    ids: list[bytes] = []
    at: list[int | None] = []
    by: list[bytes | None] = []
    corrupt: list[str | None] = []
    for id, fields in found:
        row = len(ids)
        ids.append(id)
        ms = _event_time(fields)
        at.append(ms)
        by.append(None if ms is None else fields[b"by"])
        corrupt.append("the event has no time or no author" if ms is None else None)
        before = len(items)
        for name, value in fields.items():
            if ms is not None and name not in (b"t", b"by"):
                parts = value.split(b" ")
                items += parts
                item_events += [name] * len(parts)
        if len(items) == before:  # an event without items still gets a row
            items.append(b"")
            item_events.append(b"")
        event_numbers += [row] * (len(items) - before)
    rows = pa.array(event_numbers, pa.int32())
    columns: Columns = {**origin_columns(origin, len(items))}
    columns["event_id"] = text_array(ids).take(rows)
    columns["at"] = timestamp_array(pa.array(at, pa.int64())).take(rows)
    columns["by"] = text_array(by).take(rows)
    columns["_corrupt"] = pa.array(corrupt, pa.string()).take(rows)
    event = text_array(item_events)
    columns["event"] = pc.if_else(pc.equal(event, ""), None, event)
    if {"id", "request", "number", "run_ms", "detail"} & set(schema.names):
        columns |= _item_columns(text_array(items), event, origin)
    return make_batch(columns, len(items), schema)


def _event_time(fields: Mapping[bytes, bytes]) -> int | None:
    value = fields.get(b"t", b"")
    return int(value) if value.isdigit() and len(value) < 15 and b"by" in fields else None


@dataclass(frozen=True, slots=True)
class Death:
    """An entry that became dead."""

    id: str
    at_ms: int


def deaths(events: Sequence[RawEvent]) -> list[Death]:
    """The entries that became dead by some events, in their order."""
    found = []
    for _, fields in events:
        at_ms = _event_time(fields)
        for item in fields.get(b"dead", b"").split(b" "):
            id = lossy_text(item.partition(b"|")[0])
            if id and at_ms is not None:
                found.append(Death(id, at_ms))
    return found


def event_ms(event: RawEvent) -> int:
    """Time of an event in ms; if it has no valid time, the time in its stream id."""
    id, fields = event
    at = _event_time(fields)
    return int(id.partition(b"-")[0]) if at is None else at


def _item_columns(items: pa.Array, event: pa.Array, origin: RowOrigin) -> Columns:
    """Split items ``id|detail`` into columns; an item of an operator's change (``op``) is all
    detail."""
    operator = pc.equal(event, "op")
    # Append a bar so that every item splits into two parts; the slice below drops it again.
    padded = pc.binary_join_element_wise(items, "", "|")
    parts = pc.split_pattern(padded, "|", max_splits=1)
    first = pc.list_element(parts, 0)
    rest = pc.utf8_slice_codeunits(pc.list_element(parts, 1), 0, -1)
    id = pc.if_else(pc.or_(operator, pc.equal(first, "")), None, first)
    detail = pc.if_else(operator, items, rest)
    detail = pc.if_else(pc.equal(detail, ""), None, detail)
    runs = pc.and_(pc.equal(event, "done"), pc.match_substring_regex(rest, r"^\d{1,15}$"))
    columns: Columns = {
        "id": id,
        "detail": pc.if_else(runs, None, detail),
        "run_ms": pc.if_else(runs, rest, None).cast(pa.int64()),
    }
    if origin.requests:
        named = pc.extract_regex(id, r"^(?P<request>[^/]+)/(?P<number>\d{1,9})$")
        whole = pc.is_in(event, pa.array(_ID_IS_REQUEST))
        columns["request"] = pc.if_else(whole, id, pc.struct_field(named, "request"))
        columns["number"] = pc.struct_field(named, "number").cast(pa.int32())
    return columns


def gap_row(origin: RowOrigin, reason: str, after: str, schema: pa.Schema) -> pa.RecordBatch:
    """A row that marks events as missing after the event id ``after``."""
    return corrupt_row(reason, origin, schema, event_id=after, event="gap", detail=reason)

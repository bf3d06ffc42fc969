"""History events as Arrow, a row for each thing that an event is about."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from .batch import Columns, RowOrigin, aside, batch, moment, placed, strings

RawEvent = tuple[bytes, Mapping[bytes, bytes]]
_ID_IS_REQUEST = ("submitted", "request-done")


def events(found: Sequence[RawEvent], place: RowOrigin, schema: pa.Schema) -> pa.RecordBatch:
    """History events, a row for each thing that each of them is about."""
    items: list[bytes] = []
    names: list[bytes] = []
    which: list[int] = []
    ids: list[bytes] = []
    at: list[int | None] = []
    by: list[bytes | None] = []
    corrupt: list[str | None] = []
    for id, fields in found:
        row = len(ids)
        ids.append(id)
        ms = _at(fields)
        if ms is not None:
            at.append(ms)
            by.append(fields[b"by"])
            corrupt.append(None)
        else:
            at.append(None)
            by.append(None)
            corrupt.append("the event doesn't say when or by whom")
        before = len(items)
        for name, said in fields.items():
            if corrupt[row] is None and name not in (b"t", b"by"):
                some = said.split(b" ")
                items += some
                names += [name] * len(some)
        if len(items) == before:  # an event about nothing is shown all the same
            items.append(b"")
            names.append(b"")
        which += [row] * (len(items) - before)
    rows = pa.array(which, pa.int32())
    columns: Columns = {**placed(place, len(items))}
    columns["event_id"] = strings(ids).take(rows)
    columns["at"] = moment(pa.array(at, pa.int64())).take(rows)
    columns["by"] = strings(by).take(rows)
    columns["_corrupt"] = pa.array(corrupt, pa.string()).take(rows)
    event = strings(names)
    columns["event"] = pc.if_else(pc.equal(event, ""), None, event)
    if {"id", "request", "number", "run_ms", "detail"} & set(schema.names):
        columns |= _items(strings(items), event, place)
    return batch(columns, len(items), schema)


def _at(fields: Mapping[bytes, bytes]) -> int | None:
    said = fields.get(b"t", b"")
    return int(said) if said.isdigit() and len(said) < 15 and b"by" in fields else None


def when(event: RawEvent) -> int:
    """When it happened, ms; of one that doesn't say so, when it was written down."""
    id, fields = event
    at = _at(fields)
    return int(id.partition(b"-")[0]) if at is None else at


def _items(items: pa.Array, event: pa.Array, place: RowOrigin) -> Columns:
    """``id|more`` each; of an operator's change (``op``) all of it is detail."""
    operator = pc.equal(event, "op")
    # A bar behind each, so that every one has two parts; it is cut off again.
    padded = pc.binary_join_element_wise(items, "", "|")
    parts = pc.split_pattern(padded, "|", max_splits=1)
    first = pc.list_element(parts, 0)
    rest = pc.utf8_slice_codeunits(pc.list_element(parts, 1), 0, -1)
    id = pc.if_else(pc.or_(operator, pc.equal(first, "")), None, first)
    detail = pc.if_else(operator, items, rest)
    detail = pc.if_else(pc.equal(detail, ""), None, detail)
    runs = pc.and_(pc.equal(event, "done"), pc.match_substring_regex(rest, r"^\d{1,15}$"))
    columns: Columns = {
        "id": id, "detail": pc.if_else(runs, None, detail),
        "run_ms": pc.if_else(runs, rest, None).cast(pa.int64()),
    }  # fmt: skip
    if place.requests:
        named = pc.extract_regex(id, r"^(?P<request>[^/]+)/(?P<number>\d{1,9})$")
        whole = pc.is_in(event, pa.array(_ID_IS_REQUEST))
        columns["request"] = pc.if_else(whole, id, pc.struct_field(named, "request"))
        columns["number"] = pc.struct_field(named, "number").cast(pa.int32())
    return columns


def gap(place: RowOrigin, why: str, after: str, schema: pa.Schema) -> pa.RecordBatch:
    """A row that says that history is missing here."""
    return aside(why, place, schema, event_id=after, event="gap", detail=why)

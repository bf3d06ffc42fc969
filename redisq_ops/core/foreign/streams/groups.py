"""Consumer groups of streams, and their entries by pages, for layouts made of plain streams.

A *part* is one group of one stream. A queue of such a layout is a list of parts: the groups of one
stream, or one group in each of many. Every id says its part, so a page may go over several.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ...model.consumer_load import NOBODY
from ...model.cut_element import LARGEST, length
from ...model.entry import GONE, Consumer, Entry, Page, PageQuery, State
from ...model.quoting import bytes_of, raw_of
from ...redis.operation import Call, together
from ..long_records import not_read

DEEPEST: dict[State, int] = {"pending": 10_000, "waiting": 1000}
"""XPENDING and XRANGE have no offset: the furthest rank at which a window can begin"""
WINDOW = 1000
GIVEN_UP = 2**63 - 1
"""deliveries of an entry that its consumer gave up for good (XNACK with FATAL, Redis 8.8)"""
_ID = re.compile(r"\d{1,20}-\d{1,20}")
_BEHIND = re.compile(r"(.*[:/])(\d{1,20}-\d{1,20})", re.DOTALL)
"""a cursor: the label of its part, and the id of the last entry seen"""
_FIRST_MS, _LAST_MS = 10**12, 10**14
"""ids whose first half is in this range count as times of arrival"""


@dataclass(frozen=True, slots=True)
class ConsumerGroup:
    """A consumer group as XINFO GROUPS reports it. ``lag``: entries not delivered to it yet; None:
    the server doesn't know, since entries were deleted from the middle."""

    name: bytes
    consumers: int
    pending: int
    last: str
    """id of the last entry delivered"""
    lag: int | None
    read: int | None = None
    """entries delivered to it since the stream began; None: the server doesn't know"""

    @property
    def place(self) -> tuple[int, int]:
        return place(self.last)


@dataclass(frozen=True, slots=True)
class PendingStreamEntry:
    """A row of a group's pending list."""

    id: str
    consumer: str | None
    """None: nobody has it, since its consumer gave it back (XNACK)"""
    idle_ms: int | None
    """None where nobody has it"""
    deliveries: int | None
    """None: its consumer gave it up for good, which sets the counter to its maximum"""


@dataclass(frozen=True, slots=True)
class LabelledGroup:
    """A group of a stream; ``label`` begins the ids of its entries."""

    key: bytes
    group: ConsumerGroup
    label: str

    def rest(self, id: str) -> str | None:
        """The stream id in an entry's id, if it is of this part."""
        found = id.removeprefix(self.label)
        return found if found != id and _ID.fullmatch(found) else None


def groups(key: bytes) -> Call[list[ConsumerGroup]]:
    """The groups of a stream by name; none where there is no such key."""

    def read(reply: Any) -> list[ConsumerGroup]:
        return sorted(map(_group, reply or []), key=lambda group: group.name)

    return Call(("XINFO", "GROUPS", key), read, key=key, absent="no such key")


def _fields(row: Any) -> Mapping[bytes, Any]:
    return row if isinstance(row, Mapping) else dict(zip(row[::2], row[1::2], strict=True))


def _group(row: Any) -> ConsumerGroup:
    fields = _fields(row)
    lag, read = fields.get(b"lag"), fields.get(b"entries-read")
    return ConsumerGroup(
        fields[b"name"],
        int(fields[b"consumers"]),
        int(fields[b"pending"]),
        fields[b"last-delivered-id"].decode(),
        None if lag is None else int(lag),
        None if read is None else int(read),
    )


def consumers(part: LabelledGroup) -> Call[list[Consumer]]:
    """The group's consumers, named with their part."""

    def read(reply: Any) -> list[Consumer]:
        rows = [_fields(row) for row in reply or []]
        return [
            Consumer(
                part.label + (row[b"name"].decode("utf-8", "backslashreplace") or NOBODY),
                int(row[b"pending"]),
                int(row[b"idle"]),
            )
            for row in rows
        ]

    command = ("XINFO", "CONSUMERS", part.key, part.group.name)
    return Call(command, read, key=part.key, absent="no such key")


def held(
    part: LabelledGroup, low: str, high: str, max: int, consumer: str = ""
) -> Call[list[PendingStreamEntry]]:
    """Rows of the group's pending list between two ids, in order; of one consumer if named."""

    def read(reply: Any) -> list[PendingStreamEntry]:
        return list(map(_pending_row, reply or []))

    only = (bytes_of(consumer),) if consumer else ()
    return Call(
        ("XPENDING", part.key, part.group.name, low, high, max, *only),
        read,
        key=part.key,
        options={"parse_detail": True},
        absent="NOGROUP",
    )


def _pending_row(row: Any) -> PendingStreamEntry:
    idle, times = int(row["time_since_delivered"]), int(row["times_delivered"])
    return PendingStreamEntry(
        row["message_id"].decode(),
        row["consumer"].decode("utf-8", "backslashreplace") or None,
        idle if idle >= 0 else None,
        times if times < GIVEN_UP else None,
    )


def content(key: bytes, low: str, high: str, max: int) -> Call[list[tuple[str, bytes | int]]]:
    """(id, fields as JSON) of stream entries, in order; of one that is too long, its size."""

    def read(reply: Any) -> list[tuple[str, bytes | int]]:
        return [(id.decode(), _payload(fields or {})) for id, fields in reply or []]

    return Call(("XRANGE", key, low, high, "COUNT", max), read, key=key, cut=True)


def _payload(fields: Mapping[bytes, bytes]) -> bytes | int:
    bytes_ = sum(length(name) + length(value) for name, value in fields.items())
    return bytes_ if bytes_ > LARGEST else as_json(fields)


def _with(entry: Entry, payload: bytes | int | None) -> Entry:
    """The entry with its payload, or with the size of one that is too long to be read."""
    if isinstance(payload, int):
        return replace(entry, problem=not_read(payload))
    return replace(entry, payload=payload)


def as_json(fields: Mapping[bytes, bytes]) -> bytes:
    """An entry's fields as one JSON object; bytes that are no UTF-8 as ``\\xff``."""
    shown = {
        k.decode("utf-8", "backslashreplace"): v.decode("utf-8", "backslashreplace")
        for k, v in fields.items()
    }
    return json.dumps(shown, ensure_ascii=False).encode()


def place(id: str) -> tuple[int, int]:
    """A stream id as two numbers, in the stream's order."""
    ms, _, seq = id.partition("-")
    return int(ms), int(seq)


def came_ms(id: str) -> int | None:
    """When an entry was added, if its id is a time: producers may choose other ids."""
    ms, _ = place(id)
    return ms if _FIRST_MS <= ms < _LAST_MS else None


async def entry(part: LabelledGroup, id: str, now_ms: int) -> Entry | None:
    """One entry as its group sees it; done: delivered, and not pending any more."""
    rows: list[Any] = await together([held(part, id, id, 1), content(part.key, id, id, 1)])
    (pending, found) = rows
    payload = found[0][1] if found else None
    if pending:
        return _with(_held_entry(part, pending[0], now_ms, gone=payload is None), payload)
    if payload is None:
        return None
    waits = place(id) > part.group.place
    since = came_ms(id) if waits else None
    return _with(Entry(part.label + id, "waiting" if waits else "done", since_ms=since), payload)


def held_unread(part: LabelledGroup, row: PendingStreamEntry, now_ms: int, bytes_: int) -> Entry:
    """A pending entry of about so many bytes, whose payload is not read."""
    return _with(_held_entry(part, row, now_ms, gone=False), bytes_)


def _held_entry(part: LabelledGroup, row: PendingStreamEntry, now_ms: int, gone: bool) -> Entry:
    return Entry(
        part.label + row.id,
        "pending",
        since_ms=None if row.idle_ms is None else now_ms - row.idle_ms,
        consumer=row.consumer,
        deliveries=row.deliveries,
        called=GONE if gone else None,
    )


async def page(
    state: State, parts: Sequence[LabelledGroup], total: int, query: PageQuery, now_ms: int
) -> Page:
    """Pending or waiting entries of these parts, in the parts' order.

    Pending lists are read by windows of XPENDING, what waits by XRANGE behind the last delivered
    entry. A window by rank deeper than `DEEPEST` is empty.
    """
    rows: list[tuple[LabelledGroup, Any]] = []
    start = query.start or 0
    want = start + query.max
    if start >= DEEPEST[state]:
        return Page((), None, total)
    for part, low in _from(state, parts, query.cursor):
        while len(rows) < want:
            step = min(WINDOW, want - len(rows))
            read: Call[Any] = (
                held(part, low, "+", step)
                if state == "pending"
                else content(part.key, low, "+", step)
            )
            found = await read
            rows += [(part, row) for row in found]
            if len(found) < step:
                break
            low = f"({_id(found[-1])}"
        if len(rows) >= want:
            break
    more = len(rows) >= want
    made = await _entries(state, rows[start:], now_ms, query.payloads)
    return Page(tuple(made), made[-1].id if more and made else None, total)


def _from(
    state: State, parts: Sequence[LabelledGroup], cursor: str | None
) -> Iterator[tuple[LabelledGroup, str]]:
    """The parts that may have entries, each with the id behind which to read.

    Parts come in the order of their names. The cursor's part may be gone by now: then the parts
    with later names follow.
    """
    behind = None if cursor is None else _BEHIND.fullmatch(cursor)
    if cursor is not None and behind is None:
        return
    for part in parts:
        last = None if state == "pending" else part.group.last
        if behind is not None:
            label, at = behind.groups()
            one_stream = state == "waiting" and label.endswith(":")  # `at` is valid in every group
            if part.label == label or one_stream:
                last = at if last is None else max(last, at, key=place)
            elif raw_of(part.label[:-1]) <= raw_of(label[:-1]):
                continue
        if state == "waiting" or part.group.pending:
            yield part, "-" if last is None else f"({last}"


def _id(row: Any) -> str:
    found: str = row.id if isinstance(row, PendingStreamEntry) else row[0]
    return found


async def _entries(
    state: State, rows: Sequence[tuple[LabelledGroup, Any]], now_ms: int, payloads: bool
) -> list[Entry]:
    if state == "waiting":
        return [
            _with(Entry(part.label + id, "waiting", since_ms=came_ms(id)), payload)
            for part, (id, payload) in rows
        ]
    found: list[list[tuple[str, bytes | int]]] = [[]] * len(rows)
    if payloads:
        found = await together(content(part.key, row.id, row.id, 1) for part, row in rows)
    return [
        _with(
            _held_entry(part, row, now_ms, payloads and not there), there[0][1] if there else None
        )
        for (part, row), there in zip(rows, found, strict=True)
    ]

"""Entries that we keep beside the owner's: what our workers hold, and what is in the trash."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from ..model.cut_element import UNREAD
from ..model.entry import Entry
from ..model.quoting import shown, text
from ..redis.operation import Call, together
from ..redis.parsers import moment
from .long_records import not_read
from .places import Place, Read, Row

ReadKept = Callable[[Place, bytes, float, bytes, bytes], Entry | None]
"""makes an entry from its place, payload, score, name, and what is kept under the name"""


def kept(read: ReadKept, payloads: str, records: str) -> Read:
    """Reads entries whose payloads and records are in two hashes of ours, by name."""

    async def batch(place: Place, rows: Sequence[Row], /) -> Sequence[Entry | None]:
        names = [row.member for row in rows]
        found = await together(
            place.records(rows, names, partial(_values, payloads)), _values(records, names)
        )
        entries = list[Entry | None]()
        for row, payload, record in zip(rows, *found, strict=True):
            if isinstance(payload, int):
                entries.append(_unread(place, row, payload))
            elif payload is None:  # it went between the two reads
                entries.append(None)
            else:
                entries.append(read(place, payload, row.score, row.member, record or b""))
        return entries

    return batch


def _values(key: str, fields: Sequence[bytes]) -> Call[list[bytes | None]]:
    return Call(("HMGET", key, *fields), list[Any], key=key, cut=True)


def _unread(place: Place, row: Row, size: int) -> Entry:
    """An entry whose payload is too long to be read; only in the trash its name is its id."""
    name, at, why = text(row.member), moment(row.score), not_read(size)
    if place.kind == "trash":
        return Entry(shown(name), "trash", at, called=place.called, problem=why)
    return Entry(UNREAD + name, "pending", at, called=place.called, problem=why)

"""Sets and hashes where a program keeps entries, in no order: a page is what a scan finds next."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from ..redis.operation import Call, together
from .list_place import DEPTH
from .places import LocatedEntry, Place, Row

PORTION = 500
"""elements that one SSCAN or HSCAN is asked for"""


@dataclass(frozen=True, slots=True)
class ScannedPlace(Place):
    """A set with entries, or a hash with an entry for each field."""

    kind: Literal["set", "hash"] = "set"

    def size(self) -> Call[int]:
        return Call(("HLEN" if self.kind == "hash" else "SCARD", self.key), int, key=self.key)

    async def rows_of(self, members: Sequence[bytes]) -> list[Row]:
        if not members:
            return []
        if self.kind == "hash":
            values = await Call(("HMGET", self.key, *members), list[Any], key=self.key, cut=True)
            fields = zip(members, values, strict=True)
            return [Row(member, value=value) for member, value in fields if value is not None]
        there = await Call(("SMISMEMBER", self.key, *members), list[Any], key=self.key)
        return [Row(member) for member, is_in in zip(members, there, strict=True) if is_in]

    async def window(self, start: int, max: int) -> tuple[list[LocatedEntry], int]:
        """``start`` is a rank in a scan from the beginning, which ends after 10,000 elements."""
        scanned, _, size = await self._rows_after(None, min(start + max, DEPTH))
        return await self.located(await self._fitting(scanned[start:])), size

    async def after(
        self, cursor: str | None, max: int
    ) -> tuple[list[LocatedEntry], str | None, int]:
        scanned, on, size = await self._rows_after(cursor, self.few(max) or 1)
        return *await self._page_of(scanned, on), size

    def behind(self, seen: LocatedEntry | Row) -> str:
        return _scan_cursor(seen.at, seen.member)

    async def _rows_after(self, cursor: str | None, max: int) -> tuple[list[Row], str | None, int]:
        """A scan may return more elements than asked, so a page may end inside a portion. The next
        page reads the portion again and begins behind that page's last element, by their bytes."""
        scan, inside, coded = (cursor or "0").partition(":")
        at, last = int(scan), base64.b64decode(coded) if inside else None
        found: list[Row] = []
        size, (then, portion) = await together(self.size(), self._scanned(at))
        while True:
            rest = sorted(
                (row for row in portion if last is None or row.member > last),
                key=lambda row: row.member,
            )
            room = max - len(found)
            found += rest[:room]
            if len(rest) > room:
                return found, _scan_cursor(at, found[-1].member), size
            if not then or len(found) == max:
                return found, str(then) if then else None, size
            at, last = then, None
            then, portion = await self._scanned(at)

    def _scanned(self, at: int) -> Call[tuple[int, list[Row]]]:
        def read(reply: list[Any]) -> tuple[int, list[Row]]:
            then, found = int(reply[0]), reply[1]
            if self.kind == "set":
                return then, [Row(member, at=at) for member in found]
            if isinstance(found, dict):
                found = [part for field in found.items() for part in field]
            fields = zip(found[::2], found[1::2], strict=True)
            return then, [Row(field, at=at, value=value) for field, value in fields]

        verb = "HSCAN" if self.kind == "hash" else "SSCAN"
        return Call(
            (verb, self.key, at, "COUNT", self.few(PORTION) or 1), read, key=self.key, cut=True
        )


def _scan_cursor(at: int, last: bytes) -> str:
    return f"{at}:{base64.b64encode(last).decode()}"

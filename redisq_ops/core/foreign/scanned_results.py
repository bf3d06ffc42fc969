"""Results that are keys of their own: no key lists them, and SCAN finds them."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..model.errors import Refused
from ..model.quoting import bytes_of
from ..redis.key_scan import literal
from ..redis.operation import Call
from .places import LocatedEntry, Place, Row

SCANNED = 500
"""keys that one SCAN reads: two pages of results, where no other keys stand between them"""
SCANS = 3
"""of one read, at most: some keys may be no results"""


@dataclass(frozen=True, slots=True)
class ScannedResults(Place):
    """The results whose keys are ``begin`` and an id, also those of other queues.

    SCAN finds them, page after page. The ids of one reply are shown in order. A page's cursor has
    SCAN's cursor and the last id shown. ``key`` is the queue's.
    """

    begin: str = ""

    async def weighed(self) -> ScannedResults:
        return self  # each result's size is asked

    async def count(self) -> int:
        return 0

    async def after(
        self, cursor: str | None, max: int
    ) -> tuple[list[LocatedEntry], str | None, int]:
        scan, _, coded = (cursor or "0:").partition(":")
        at, last, rows = int(scan), base64.b64decode(coded), list[Row]()
        for _ in range(SCANS):
            command = ("SCAN", at, "MATCH", literal(self.begin) + "*", "COUNT", SCANNED)
            on, ids = await Call(command, self._scanned)
            left, room = [id for id in sorted({*ids}) if id > last], max - len(rows)
            rows += [Row(id, 0.0, at) for id in left[:room]]
            if len(left) > room:
                return *await self._page_of(rows, self.behind(rows[-1])), 0
            if not on or len(rows) == max:
                break
            at, last = on, b""
        return *await self._page_of(rows, f"{on}:" if on else None), 0

    def _scanned(self, reply: Any) -> tuple[int, list[bytes]]:
        if isinstance(reply[0], dict):  # a cursor for each node
            raise Refused("on a Cluster results are on several nodes, and no key lists them")
        return int(reply[0]), [key[len(bytes_of(self.begin)) :] for key in reply[1]]

    def behind(self, seen: LocatedEntry | Row) -> str:
        return f"{seen.at}:{base64.b64encode(seen.member).decode()}"

    async def rows_of(self, members: Sequence[bytes]) -> list[Row]:
        return [row for row in await self._sized([*map(Row, members)]) if row.size != 0]

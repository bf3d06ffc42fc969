"""Where arq's jobs are: parts of one sorted set of ids, and results that no key lists."""

from __future__ import annotations

import base64
import math
from collections.abc import Sequence
from dataclasses import dataclass

from ...model.quoting import bytes_of
from ...redis.operation import Call, both, together
from ...redis.parsers import spelt
from ..places import LocatedEntry, Place, Row, pairs

JOB, MARK, RESULT = "arq:job:", "arq:in-progress:", "arq:result:"
SCANNED = 1000
"""keys that one SCAN reads"""


@dataclass(frozen=True, slots=True)
class Part(Place):
    """The jobs of a queue that are due (``due_ms`` or before), or those that aren't yet."""

    due_ms: int = 0
    due: bool = True
    running: int = 0
    """how many of them are in progress, and so not meant"""

    @property
    def _scores(self) -> tuple[str, str]:
        return ("-inf", str(self.due_ms)) if self.due else (f"({self.due_ms}", "+inf")

    async def count(self) -> int:
        size = await Call(("ZCOUNT", self.key, *self._scores), int, key=self.key)
        return max(0, size - self.running)

    async def window(self, start: int, max: int) -> tuple[list[LocatedEntry], int]:
        limit = ("BYSCORE", "LIMIT", start, max + self.running, "WITHSCORES")
        command = ("ZRANGE", self.key, *self._scores, *limit)
        size, found = await both(self.count(), Call(command, pairs, key=self.key))
        rows = await self._seen(found)
        before = self.running - (len(found) - len(rows))  # in front of these
        return rows[before : before + max] if before > 0 else rows[:max], size

    async def after(
        self, cursor: str | None, max: int
    ) -> tuple[list[LocatedEntry], str | None, int]:
        if cursor is None and not self.due:
            cursor = f"{spelt(math.nextafter(self.due_ms, math.inf))}:"
        rows, on, size = await Place.after(self, cursor, max)
        meant = self._meant(rows)
        return meant, on if len(meant) == len(rows) else None, size

    async def of_members(self, members: Sequence[bytes]) -> list[LocatedEntry]:
        return self._meant(await Place.of_members(self, members))

    def _meant(self, rows: Sequence[LocatedEntry]) -> list[LocatedEntry]:
        return [row for row in rows if (row.score <= self.due_ms) is self.due]


@dataclass(frozen=True, slots=True)
class Results(Place):
    """Results, those of other queues among them: found by SCAN, page after page. A cursor is that
    of a SCAN, and the last id of its reply, in order, that was shown. ``key`` is the queue's."""

    async def count(self) -> int:
        return 0

    async def after(
        self, cursor: str | None, max: int
    ) -> tuple[list[LocatedEntry], str | None, int]:
        at, _, coded = (cursor or "0:").partition(":")
        last = base64.b64decode(coded)
        scan = Call(
            ("SCAN", at, "MATCH", RESULT + "*", "COUNT", SCANNED),
            lambda reply: (int(reply[0]), [key[len(RESULT) :] for key in reply[1]]),
        )
        on, ids = await scan
        rows = [Row(id, 0.0, int(at)) for id in sorted({*ids}) if id > last]
        return await self.located(rows), f"{on}:" if on else None, 0

    def behind(self, seen: LocatedEntry) -> str:
        return f"{seen.at}:{base64.b64encode(seen.member).decode()}"

    async def of_members(self, members: Sequence[bytes]) -> list[LocatedEntry]:
        keys = [bytes_of(RESULT) + id for id in members]
        there = await together(Call(("EXISTS", key), bool, key=key) for key in keys)
        return await self.located([Row(id) for id, is_ in zip(members, there, strict=True) if is_])

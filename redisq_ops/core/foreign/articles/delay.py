"""Article 003's sorted set of payloads by ready time. Kind ``raw-delay``.

Scores are unix seconds, or milliseconds if they are that large. Due entries are *waiting*, the
others *delayed*. A worker that takes an entry moves its score half a minute ahead, so entries in
progress are among the delayed ones and can't be told apart: *pending* is unknown.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar

from ...engine.optional_features import HasTimeline
from ...model.entry import Checkup, Counts, Entry, Page, PageQuery, State
from ...model.quoting import legal, raw_of, text
from ...redis.operation import C_co, Call, operation, together
from ...redis.parsers import moment, scored
from ...redis.whole_keys import has_type
from ..paging import page_of
from ..places import DuePart, Place, Row
from .base import STALE_MS, RawLayout

RECLAIM_MS = 30_000
"""how far ahead the article's script moves an entry that it hands out"""
MS_FROM = 10**11
"""scores from here on are milliseconds: as seconds they would be the year 5138"""
OLDEST = 10**9
FURTHEST_MS = 10 * 365 * 86_400_000


@dataclass(frozen=True, slots=True)
class _Shape:
    """The set at one moment."""

    size: int
    unit: int
    """ms in a point of score: 1000, or 1 where most scores are milliseconds"""
    due: int
    odd: int
    """scores in the other unit"""
    first: float | None


class RawDelaySet(RawLayout[C_co], HasTimeline[C_co]):
    """One sorted set of payloads."""

    kind: ClassVar[str] = "raw-delay"
    one_key: ClassVar[bool] = True
    layout_faults: ClassVar[tuple[str, ...]] = (
        "the ready time is overwritten by the lease: scheduled and in flight look alike",
        "equal payloads are one member: two jobs become one, at the later time",
        "anyone can acknowledge: a slow worker removes what the next one is at, and a job "
        "rescheduled meanwhile",
        "attempts are not counted: what kills its worker is handed out for ever",
    )

    @operation
    def exists(self) -> Call[bool]:
        return has_type(self.key, "zset")

    def _count(self, low: str | float, high: str | float) -> Call[int]:
        return Call(("ZCOUNT", self.key, low, high), int, key=self.key)

    async def _shape(self, now: int) -> _Shape:
        size, ms, seconds_due, ms_due = await together(
            [
                self._count("-inf", "+inf"),
                self._count(MS_FROM, "+inf"),
                self._count("-inf", now / 1000),
                self._count(MS_FROM, now),
            ]
        )
        first = await scored(text(self.key), "0", "0")
        seconds = size - ms
        unit, due, odd = (1, ms_due, seconds) if ms > seconds else (1000, seconds_due, ms)
        if unit == 1:
            due += seconds_due  # a score of any age is due
        return _Shape(size, unit, due, odd, first[0][1] if first else None)

    @operation
    async def counts(self, now_ms: int | None = None) -> Counts:
        now = now_ms if now_ms is not None else await self._now()
        shape = await self._shape(now)
        oldest = None
        if shape.due and shape.first is not None:
            oldest = moment(shape.first * shape.unit)
        return Counts(
            shape.due,
            0,
            shape.size - shape.due,
            0,
            0,
            0,
            oldest,
            unknown=frozenset({"pending", "done"}),
        )

    async def _page(self, state: State, query: PageQuery) -> Page:
        if state not in ("waiting", "delayed"):
            return Page((), None, 0)
        now = await self._now()
        return await page_of([self._place(state, now, (await self._shape(now)).unit)], query)

    def _place(self, state: State, now_ms: int, unit: int) -> DuePart:
        due = state == "waiting"

        async def read(place: Place, rows: Sequence[Row], /) -> list[Entry | None]:
            return [
                Entry(
                    legal(row.member),
                    state,
                    at_ms=moment(row.score * unit),
                    payload=row.member,
                    called=place.called,
                )
                for row in rows
            ]

        called = "due" if due else "scheduled or in flight"
        return DuePart(text(self.key), called, read, now=now_ms / unit, due=due)

    @operation
    async def get(self, id: str) -> Entry | None:
        now = await self._now()
        unit = (await self._shape(now)).unit
        states: tuple[State, ...] = ("waiting", "delayed")
        places = [self._place(state, now, unit) for state in states]
        found = await together(place.of_members([raw_of(id)]) for place in places)
        return next((row.entry for rows in found for row in rows), None)

    @operation
    async def due_counts(self, edges: Sequence[int]) -> list[int]:
        shape = await self._shape(0)
        return await together(
            self._count(low / shape.unit, f"({high / shape.unit!r}")
            for low, high in pairwise(edges)
        )

    @operation
    async def checkup(self, thorough: bool = False) -> Checkup:
        """The faults of the whole set, found by counting only."""
        now = await self._now()
        shape = await self._shape(now)
        if not shape.size:
            return Checkup()
        at = now / shape.unit
        ahead = RECLAIM_MS / shape.unit
        soon, late, far, early = await together(
            [
                self._count(f"({at!r}", at + ahead),
                self._count("-inf", at - STALE_MS / shape.unit),
                self._count(at + FURTHEST_MS / shape.unit, "+inf"),
                self._count("-inf", f"({OLDEST}"),
            ]
        )
        flaws, of = [], f"of {shape.size:,}"
        if soon:
            flaws.append(
                f"{soon:,} {of} are due within {RECLAIM_MS // 1000} s: scheduled for then, or "
                "being worked on now; the set doesn't say which"
            )
        # Scores that are no times of this unit would all count as late.
        late -= early if shape.unit == 1000 else shape.odd
        if late > 0:
            flaws.append(f"{late:,} {of} have been due for more than an hour: nobody takes them")
        if early:
            flaws.append(f"{early:,} {of} have a score that is no time of this century")
        if odd := shape.odd - (early if shape.unit == 1 else 0):
            units = ["seconds", "milliseconds"][:: 1 if shape.unit == 1 else -1]
            flaws.append(f"{odd:,} {of} have their time in {units[0]}, the others in {units[1]}")
        if shape.unit == 1000:
            far -= shape.odd
        if far > 0:
            flaws.append(f"{far:,} {of} are due in more than ten years")
        return Checkup(tuple(flaws))

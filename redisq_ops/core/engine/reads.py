"""What operators see of any queue: by pages, by id, by the minute, and what happened."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

from ..model import record
from ..model.entry import Checkup, Counts, Entry, Event, Page, Rates, State
from ..model.quoting import bytes_of
from ..model.states import ZSETS
from ..redis.operation import C_co, Call, both, operation, together
from ..redis.parsers import moment, number, scored, spelt
from .queue_base import QueueBase

_HOUR_MS = 3_600_000
_HOURS = 26
"""that counters of a minute live at most"""
_NAMED = 20
"""corrupt records that a checkup names one by one"""
_CHECKED = 500
"""records that a checkup reads at a time"""
RATES_S = 90_000
"""that an hour of them is kept after the last that was counted in it, as `history.lua` has it"""


class QueueReads(QueueBase[C_co]):
    """Reads only, each in a number of round trips that doesn't depend on how much there is."""

    @operation
    @abstractmethod
    async def counts(self, now_ms: int | None = None) -> Counts:
        """Entries by state, in one round trip (two when ``now_ms`` isn't given and matters)."""

    @operation
    async def page(
        self,
        state: State,
        cursor: str | None = None,
        max: int = 100,
        start: int | None = None,
        payloads: bool = False,
    ) -> Page:
        """Up to ``max`` entries of a state in the server's order, their payloads if asked.

        ``cursor`` goes on behind an earlier page whatever came or went meanwhile; ``start`` is a
        rank, for a window of a long list on a screen.
        """
        if state == "done":
            return Page((), None, 0)
        if state == "waiting":
            return await self._page_waiting(cursor, max, start, payloads)
        return await self._page_zset(state, ZSETS[state], cursor, max, start, payloads)

    async def _page_zset(
        self,
        state: State,
        part: str,
        cursor: str | None,
        max: int,
        start: int | None,
        payloads: bool,
        low: str = "-inf",
        high: str = "+inf",
    ) -> Page:
        """A page of a sorted set. Equal scores are ordered by member, so a cursor is exact."""
        key = self.keys[part]
        total = Call(("ZCOUNT", key, low, high), int, key=key)
        rows: list[tuple[str, float]] = []
        if start is not None:
            # By rank: an offset behind a score is walked, entry by entry, on Redis 7.0.
            if low == "-inf":
                rows, size = await both(scored(key, str(start), str(start + max - 1)), total)
            else:
                under = low[1:] if low.startswith("(") else f"({low}"
                below = Call(("ZCOUNT", key, "-inf", under), int, key=key)
                size, first = await both(total, below)
                rows = await scored(key, str(first + start), str(first + start + max - 1))
            rows = rows[: size - start if size > start else 0]
            more = start + len(rows) < size
        else:
            after = _cursor(cursor)
            rank = None
            if after is not None:
                found = Call(("ZRANK", key, after[1]), number, key=key)
                size, rank = await both(total, found)
            else:
                size = await total
            bottom, offset, more = spelt(after[0]) if after else low, 0, True
            if after is not None and rank is not None:
                page = await scored(key, str(int(rank)), str(int(rank) + max + 1))
                # Still in its place: what follows it is exact, however many have its score.
                if page[:1] == [(after[1], after[0])]:
                    rows, more = [row for row in page[1:] if row[1] <= float(high)], False
            while len(rows) <= max and more:
                page = await scored(
                    key, bottom, high, "BYSCORE", "LIMIT", str(offset), str(max + 1)
                )
                more = len(page) == max + 1
                offset += len(page)
                rows += [row for row in page if after is None or _order(row) > _order(after[::-1])]
            more = len(rows) > max
            rows = rows[:max]
        entries = await self._entries(state, rows, payloads)
        last = f"{spelt(rows[-1][1])}:{rows[-1][0]}" if rows and more else None
        return Page(tuple(entries), last, size, scores=tuple(score for _, score in rows))

    async def _entries(
        self, state: State, rows: Sequence[tuple[str, float | None]], payloads: bool = True
    ) -> list[Entry]:
        if not rows:
            return []
        ids = [id for id, _ in rows]
        (meta, errors), contents = await both(
            together(
                Call(("HMGET", self.keys[part], *ids), list[Any], key=self.keys[part])
                for part in ("meta", "err")
            ),
            self._payloads_or_errors(ids if payloads else ()),
        )
        return [
            record.readable(id, state, score, line, error, payload)
            if not isinstance(payload, Exception)
            else Entry(id, state, at_ms=moment(score), problem=f"its payload is corrupt: {payload}")
            for (id, score), line, error, payload in zip(
                rows, meta, errors, contents or [None] * len(ids), strict=True
            )
        ]

    @abstractmethod
    async def _payloads(self, ids: Sequence[str]) -> list[bytes | None]: ...

    async def _payloads_or_errors(self, ids: Sequence[str]) -> list[bytes | Exception | None]:
        """Payloads; an error is one that is corrupt."""
        return [*await self._payloads(ids)]

    @abstractmethod
    async def _page_waiting(
        self, cursor: str | None, max: int, start: int | None, payloads: bool
    ) -> Page: ...

    @operation
    async def get(self, id: str) -> Entry | None:
        """One entry wherever it is, or None."""
        scores = await together(
            Call(("ZSCORE", self.keys[part], id), number, key=self.keys[part])
            for part in ZSETS.values()
        )
        for state, score in zip(ZSETS, scores, strict=True):
            if score is not None:
                return (await self._entries(state, [(id, score)]))[0]
        return await self._get_waiting(id)

    @operation
    async def get_many(self, ids: Sequence[str]) -> list[Entry | None]:
        """What `get` says of each of these; in few commands where a kind has a way to."""
        return await together(self.get.op(id) for id in ids)

    @abstractmethod
    async def _get_waiting(self, id: str) -> Entry | None: ...

    def _rate_keys(self, now_ms: int) -> list[str]:
        """Where the counters of each minute are, as long as they are kept."""
        last = now_ms // _HOUR_MS
        return [f"{self.keys['rate_']}{hour}" for hour in range(last - _HOURS, last + 1)]

    @operation
    async def rates(self, now_ms: int, minutes: int = 60) -> Rates:
        """Per-minute counters of the last ``minutes`` (at most 24 h are kept)."""
        last = now_ms // 60_000
        hours = range((last - minutes + 1) // 60, last // 60 + 1)
        found = await together(
            Call(
                ("HGETALL", self.keys["rate_"] + str(hour)),
                lambda reply: {k.decode(): int(v) for k, v in reply.items()},
                key=self.keys["rate_"],
            )
            for hour in hours
        )
        by_hour = dict(zip(hours, found, strict=True))

        def series(name: str) -> tuple[int, ...]:
            return tuple(
                by_hour[m // 60].get(f"{m % 60}{name}", 0)
                for m in range(last - minutes + 1, last + 1)
            )

        return Rates(series("i"), series("o"), series("f"))

    @operation
    def history(self, max: int = 100, before: str = "+") -> Call[list[Event]]:
        """The latest history events, newest first; ``before`` goes on behind an earlier page."""
        end = before if before == "+" else f"({before}"
        return Call(
            ("XREVRANGE", self.keys["hist"], end, "-", "COUNT", max), _events, key=self.keys["hist"]
        )

    @operation
    def history_length(self) -> Call[int]:
        """How many events the history holds."""
        return Call(("XLEN", self.keys["hist"]), int, key=self.keys["hist"])

    @operation
    async def unfinished(self) -> dict[str, int]:
        """The moves from and to other queues that hold entries here, or may: each with the time of
        its last step (ms), the one that was idle for the longest first (see `recovery`)."""
        found: dict[str, int] = {}
        keys = [each["unfinished"] for each in self.shard_keys]
        for rows in await together(scored(key, "0", "-1") for key in keys):
            for op, at in rows:
                found[op] = max(found.get(op, 0), moment(at) or 0)
        return dict(sorted(found.items(), key=lambda row: row[1]))

    @operation
    @abstractmethod
    async def invariants(self) -> list[str]:
        """What doesn't add up, in words; an empty list is a healthy queue. Reads only, by pages."""

    @operation
    async def checkup(self, thorough: bool = False) -> Checkup:
        """`invariants`, and what was not looked at. Without ``thorough`` only what a screen can
        wait for: of our own queues, where that takes all entries, keys of another type alone. What
        these hide can't be looked at."""
        if wrong := await self.wrong_type_keys():
            said = (f"key {key} is a {is_} where a {kind} belongs" for key, is_, kind in wrong)
            return Checkup(tuple(said))
        if not thorough:
            return Checkup()
        flaws, corrupt = await self.invariants.op(), list[str]()
        for state in ZSETS:
            corrupt += await self._corrupt(state)
        if len(corrupt) > _NAMED:
            corrupt = [*corrupt[:_NAMED], f"{len(corrupt) - _NAMED:,} more records are corrupt"]
        return Checkup((*flaws, *corrupt))

    async def _corrupt(self, state: State) -> list[str]:
        """What of a state's records can't be read, in words."""
        said: list[str] = []
        cursor, more = None, True
        while more:
            page = await self.page.op(state, cursor, _CHECKED)
            said += [entry.problem for entry in page.entries if entry.problem]
            cursor, more = page.cursor, page.cursor is not None
        return said


def _cursor(text: str | None) -> tuple[float, str] | None:
    if text is None:
        return None
    score, _, member = text.partition(":")
    return float(score), member


def _order(row: tuple[str, float]) -> tuple[float, bytes]:
    """Where a (member, score) is in its sorted set: the server compares bytes."""
    return row[1], bytes_of(row[0])


def _events(reply: Any) -> list[Event]:
    return [_event(id.decode(), raw) for id, raw in reply]


def _event(id: str, raw: dict[bytes, bytes]) -> Event:
    """One event; an entry that somebody else put into the history is called ``foreign``."""
    fields = {
        name.decode("utf-8", "backslashreplace"): value.decode("utf-8", "backslashreplace")
        for name, value in raw.items()
    }
    try:
        at, by = int(fields["t"]), fields["by"]
    except (KeyError, ValueError):
        return Event(id, int(id.partition("-")[0]), "-", {"foreign": tuple(fields)})
    what = {n: tuple(v.split(" ")) for n, v in fields.items() if n not in ("t", "by")}
    return Event(id, at, by, what)

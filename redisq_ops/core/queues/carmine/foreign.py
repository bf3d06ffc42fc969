"""Queues that Carmine itself keeps, of 2018 and of 3.x: read with its keys, never written.

Ids are any bytes there; here they are quoted where they are no legal name. Numbers are only about
right: locks and backoffs count, although they have ended, until a worker clears them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from ...foreign.base import ForeignQueue
from ...model.entry import Counts, Entry, Page, PageQuery, State
from ...model.quoting import bytes_of, legal, raw_of
from ...redis.operation import C_co, Call, operation, together
from .keys import HOME, THEIRS, called, shard_of
from .names import whole_of
from .states import STATE_OF, Facts, whole

WINDOW = 200
"""ids of the circle that are looked at together"""
WINDOWS = 10
"""as many windows at most for a page, however few messages of its state are in them"""

_HASHES = ("messages", "locks", "backoffs", "nattempts", "messages-rq", "udts")
_SETS = ("done", "requeue")
_LISTS = ("mids-ready", "mid-circle")
_KINDS = {
    **dict.fromkeys(_HASHES, "hash"),
    **dict.fromkeys(_SETS, "set"),
    **dict.fromkeys(_LISTS, "list"),
    **dict(THEIRS.values()),
}
"""Carmine's name of a key -> its type; of both releases, since either may come to look"""


class CarmineLayout(ForeignQueue[C_co]):
    """A queue named ``carmine:<q>`` that is Carmine's own."""

    kind: ClassVar[str] = "carmine"
    package: ClassVar[str] = "queues.carmine"
    home: ClassVar[str] = HOME
    layout_faults: ClassVar[tuple[str, ...]] = (
        "a worker whose lock ran out can still end the message, over the head of who has it now",
        "there is no limit of attempts and no dead letter: what ends in an error is deleted",
    )

    def _key(self, part: str) -> bytes:
        return bytes_of(f"{self.at}{self.own_name}:{part}")

    @operation
    async def exists(self) -> bool:
        keys = [self._key(part) for part in ("messages", *_LISTS)]
        there = await together(Call(("EXISTS", key), bool, key=key) for key in keys)
        return any(there) and not await whole_of(self.own_name, self.prefix)

    async def _expected_types(self) -> dict[str, str]:
        return {f"{self.at}{self.own_name}:{part}": kind for part, kind in _KINDS.items()}

    @classmethod
    def shard_of(cls, own_name: str) -> tuple[str, int] | None:
        place = shard_of(own_name)
        return place and (called(place[0]), place[1])

    @operation
    async def counts(self, now_ms: int | None = None) -> Counts:
        """``waiting`` includes messages in a backoff, ``pending`` those that a dead worker left
        locked: to know how many these are, each message would have to be looked at."""
        asked = (("HLEN", "messages"), ("HLEN", "locks"), ("SCARD", "done"))
        messages, locked, done = await together(
            Call((verb, self._key(part)), int, key=self._key(part)) for verb, part in asked
        )
        waiting = max(0, messages - locked - done)
        return Counts(waiting, locked, 0, 0, 0, 0, unknown=frozenset({"delayed", "done"}))

    async def _page(self, state: State, query: PageQuery) -> Page:
        """Entries of a state, the one that is next first, by windows of the circle.

        A page may be short, even empty, and have a cursor. While workers turn the circle, a message
        may be met twice or passed by. A window by rank skips messages of any state.
        """
        found: dict[str, Entry] = {}
        where, offset = _place(query.cursor) if query.start is None else (0, query.start)
        for _ in range(WINDOWS):
            if where == len(_LISTS) or len(found) >= query.max:
                break
            ids = await self._window(_LISTS[where], offset)
            for n, entry in enumerate(await self._read(ids, query.payloads), 1):
                if entry is not None and entry.state == state:
                    found.setdefault(entry.id, entry)
                if len(found) == query.max:
                    ids = ids[:n]
                    break
            else:
                if len(ids) < WINDOW:
                    where, offset, ids = where + 1, 0, []
            offset += len(ids)
        number = (await self.counts.op()).of(state)
        total = len(found) if number is None or number < len(found) else number
        after = None if where == len(_LISTS) else f"{where}:{offset}"
        return Page(tuple(found.values()), after, total)

    async def _window(self, part: str, offset: int) -> list[bytes]:
        key = self._key(part)
        rows = await Call(("LRANGE", key, -offset - WINDOW, -offset - 1), list[bytes], key=key)
        return rows[::-1]

    async def _read(self, ids: Sequence[bytes], payloads: bool) -> list[Entry | None]:
        """Each message as the keys describe it; None: it was cleared away since."""
        if not ids:
            return []
        hashes, sets = await together(
            together(
                Call(("HMGET", self._key(part), *ids), list[Any], key=self._key(part))
                for part in _HASHES
            ),
            together(
                Call(("SMISMEMBER", self._key(part), *ids), list[Any], key=self._key(part))
                for part in _SETS
            ),
        )
        now = await self._now()
        return [
            None if row[0] is None else _entry(id, row, flags, now, payloads)
            for id, row, flags in zip(
                ids, zip(*hashes, strict=True), zip(*sets, strict=True), strict=True
            )
        ]

    @operation
    async def get(self, id: str) -> Entry | None:
        (entry,) = await self._read([raw_of(id)], payloads=True)
        return entry

    async def _get_waiting(self, id: str) -> Entry | None:
        return await self.get.op(id)


def _entry(
    id: bytes, row: tuple[bytes | None, ...], flags: tuple[int, ...], now: int, payloads: bool
) -> Entry:
    content, lock, backoff, tries, newer, since = row
    facts = Facts(
        whole(lock), whole(backoff), whole(tries), bool(flags[0]), bool(flags[1]), newer is not None
    )
    word = facts.word(now)
    state = STATE_OF[word]
    if word == "done-with-requeue" and facts.follows:  # since 3.x it does run again
        state = "delayed" if now < facts.backoff_ms else "waiting"
    at = {"pending": facts.lock_ms, "delayed": facts.backoff_ms}.get(state)
    if word == "done-with-backoff":
        at = facts.backoff_ms
    # Carmine counts deliveries: the present one, or the one that succeeded, is no failure.
    ended = facts.attempts - (state in ("pending", "done"))
    return Entry(
        legal(id),
        state,
        at_ms=at,
        since_ms=whole(since) or None if state == "waiting" else None,
        payload=content if payloads and state != "done" else None,
        failures=max(0, ended),
        deliveries=facts.attempts,
        called=word,
    )


def _place(cursor: str | None) -> tuple[int, int]:
    where, _, offset = (cursor or "0:0").partition(":")
    return int(where), int(offset)

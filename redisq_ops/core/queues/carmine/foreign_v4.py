"""Queues of Carmine 4, read from its keys and never written.

Their layout is schema 1 of its preview's source (docs/explanation/carmine-queue.md): each state is
a sorted set, so numbers are exact. A dead id may have been sent again since; `get` then returns the
living one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import sha1
from typing import Any, ClassVar

from ...foreign.base import ForeignQueue
from ...foreign.paging import page_of
from ...foreign.places import Place, Row
from ...model.entry import Counts, Entry, Failure, Page, PageQuery, State
from ...model.quoting import bytes_of, legal, raw_of, text
from ...redis.operation import C_co, Call, both, operation, together
from ...redis.parsers import moment
from . import messagepack

HOME = "carmine:mq:v4:"
PARTS: Mapping[State, tuple[str, ...]] = {
    "waiting": ("ready-high", "ready-normal", "ready-low"),
    "pending": ("leased",),
    "delayed": ("scheduled",),
    "dead": ("dead",),
}
"""sorted sets of each state, in the order they are served"""
LIVING = tuple(part for state, parts in PARTS.items() if state != "dead" for part in parts)
_EXHAUSTED = b"lease-expired"


def home(own_name: str) -> str:
    """What the keys of a queue begin with: a hash tag made of its name."""
    return f"{HOME}{{{sha1(bytes_of(own_name)).hexdigest()[:16]}}}:"


class CarmineFourLayout(ForeignQueue[C_co]):
    """A queue named ``carmine-4:<q>`` that is Carmine's own."""

    kind: ClassVar[str] = "carmine-4"
    package: ClassVar[str] = "queues.carmine"

    @classmethod
    def home_of(cls, own_name: str) -> str:
        return home(own_name)

    def _key(self, part: str) -> bytes:
        return bytes_of(f"{self.at}{self.own_name}:{part}")

    def _size(self, verb: str, part: str) -> Call[int]:
        return Call((verb, self._key(part)), int, key=self._key(part))

    @operation
    async def exists(self) -> bool:
        """Whether its configuration is there, or messages without it, which Carmine won't open."""
        asked = ("config", "payloads", "dead-payloads")
        there = await together(self._size("EXISTS", part) for part in asked)
        return any(there)

    @operation
    async def counts(self, now_ms: int | None = None) -> Counts:
        """What is due counts as delayed until one of Carmine's workers has looked."""
        sizes = await together(self._size("ZCARD", part) for part in (*LIVING, "dead"))
        *ready, leased, scheduled, dead = sizes
        return Counts(sum(ready), leased, scheduled, dead, 0, 0, unknown=frozenset({"done"}))

    async def _page(self, state: State, query: PageQuery) -> Page:
        """Entries of a state, the one that is next first."""
        places = [self._place(state, part, query.payloads) for part in PARTS.get(state, ())]
        return await page_of(places, query)

    def _place(self, state: State, part: str, payloads: bool) -> Place:
        async def read(place: Place, rows: Sequence[Row], /) -> list[Entry]:
            return await self._read(state, [(row.member, row.score) for row in rows], payloads)

        return Place(text(self._key(part)), part, read)

    async def _read(
        self, state: State, rows: Sequence[tuple[bytes, float]], payloads: bool
    ) -> list[Entry]:
        ids, dead = [id for id, _ in rows], state == "dead"
        parts = ("failures", "dead-payloads") if dead else ("meta", "payloads", "successor-meta")
        known = await together(
            Call(("HMGET", self._key(part), *ids), list[Any], key=self._key(part))
            for part in parts
            if payloads or "payloads" not in part
        )
        now = await self._now()
        none: list[None] = [None] * len(ids)
        facts, contents = known[0], known[1] if payloads else none
        followed = none if dead else known[-1]
        return [
            _dead(id, score, messagepack.items(line), content)
            if dead
            else _living(id, state, score, messagepack.items(line), content, after is not None, now)
            for (id, score), line, content, after in zip(
                rows, facts, contents, followed, strict=True
            )
        ]

    @operation
    async def get(self, id: str) -> Entry | None:
        places = [self._place(state, part, True) for state in PARTS for part in PARTS[state]]
        found = await together(place.of_members([raw_of(id)]) for place in places)
        return next((row.entry for rows in found for row in rows), None)

    async def _get_waiting(self, id: str) -> Entry | None:
        return await self.get.op(id)

    @operation
    async def invariants(self) -> list[str]:
        """What doesn't add up, by numbers alone; looked at twice, since workers go on meanwhile."""
        first = await self._unequal()
        return [said for said in await self._unequal() if said in first] if first else []

    async def _unequal(self) -> list[str]:
        hashes = ("payloads", "meta", "lease-tokens", "dead-payloads", "failures")
        sizes, (lens, config) = await both(
            together(self._size("ZCARD", part) for part in (*LIVING, "dead")),
            both(
                together(self._size("HLEN", part) for part in hashes),
                self._size("EXISTS", "config"),
            ),
        )
        *living, dead = sizes
        leased = living[LIVING.index("leased")]
        contents, meta, tokens, letters, failures = lens
        rules = (
            (contents != meta, f"{contents:,} messages have a content and {meta:,} a record"),
            (sum(living) != meta, f"{sum(living):,} places and {meta:,} records"),
            (leased != tokens, f"{leased:,} leases and {tokens:,} tokens"),
            (
                not dead == letters == failures,
                f"{dead:,} dead letters, {letters:,} contents, {failures:,} reasons",
            ),
            (not config and bool(meta or dead), "its configuration is gone: Carmine won't open it"),
        )
        return [said for broken, said in rules if broken]


def _living(
    id: bytes, state: State, score: float, facts: list[Any] | None, content: bytes | None,
    followed: bool, now: int,
) -> Entry:  # fmt: skip
    """``facts``: schema priority attempt max-attempts enqueued-at, then what isn't shown."""
    tries, since = _whole(facts, 2), _whole(facts, 4)
    word = {"waiting": "ready", "pending": "leased", "delayed": "scheduled"}[state]
    if state == "pending" and score <= now:
        word = "lease-expired"
    if facts is None:
        word = "corrupt"
    elif followed:
        word += ", another follows"
    return Entry(
        legal(id), state, at_ms=None if state == "waiting" else moment(score),
        since_ms=since or None if state == "waiting" and not tries else None, payload=content,
        failures=max(0, tries - (state == "pending")), deliveries=tries, called=word,
    )  # fmt: skip


def _dead(id: bytes, score: float, facts: list[Any] | None, content: bytes | None) -> Entry:
    """A dead message. ``facts``: schema, reason, failed-at, attempt, and its record before."""
    said = facts[1] if facts is not None and len(facts) > 1 else None
    reason = said if isinstance(said, bytes) else b""
    tries = _whole(facts, 3)
    return Entry(
        legal(id), "dead", at_ms=moment(score), since_ms=moment(score), payload=content,
        failures=tries, deliveries=tries, reason="lost" if reason == _EXHAUSTED else "failed",
        error=Failure("Carmine", reason.decode("utf-8", "backslashreplace")) if reason else None,
        called="corrupt" if facts is None else "dead",
    )  # fmt: skip


def _whole(facts: list[Any] | None, n: int) -> int:
    value = facts[n] if facts is not None and n < len(facts) else 0
    return int(value) if isinstance(value, (int, float)) and abs(value) < 2**53 else 0

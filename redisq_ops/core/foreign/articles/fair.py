"""Article 004's layout: kind ``raw-fair``.

``bqueues:<queue>:<client>`` is a list of JSON messages for each client,
``bqueues:processing:<queue>`` the list of pending messages, ``bqueues:dead:<queue>`` a set of dead
letters. No key lists the clients; the article finds them by SCAN every two seconds. Here only
``fsck``, `redisq discover` and pages that no screen waits for scan the keys; in an overview
*waiting* is unknown.

Messages have no ids: ours are ``client:digest``, so equal messages of a client have one id.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import ClassVar

from ...model.cut_element import is_cut
from ...model.entry import Checkup, Counts, Entry, Page, PageQuery, State
from ...model.quoting import bytes_of, legal, raw_of, text
from ...redis.key_scan import Lane, literal, look
from ...redis.operation import C_co, Call, Description, in_batches, operation, together
from ..list_place import ListPlace
from ..paging import page_of
from ..places import Place, Row
from ..scanned_place import ScannedPlace
from .base import LOOK_KEYS, RawLayout, named
from .message import Message, flaws

ROWS = 100
THOROUGH_ROWS = 1000
LOOK_UP = 1000
CLIENTS = 10_000


class RawFairQueue(RawLayout[C_co]):
    """One queue with a list per client."""

    kind: ClassVar[str] = "raw-fair"
    home: ClassVar[str] = "bqueues:"
    layout_faults: ClassVar[tuple[str, ...]] = (
        "what is in processing has no lease: recovery takes it from workers that are at it, and "
        "runs only when all is idle",
        "queue worker1 also takes what is in worker10: lists are found by the beginning of their "
        "names",
        "dead letters are a set: equal messages are one, without reason or time",
        "a message is acknowledged by its text: one that Python writes otherwise stays, and equal "
        "ones go together",
    )

    @property
    def _base(self) -> bytes:
        return bytes_of(self.at + self.own_name)

    @property
    def _processing(self) -> bytes:
        return bytes_of(f"{self.at}processing:{self.own_name}")

    @property
    def _dead(self) -> bytes:
        return bytes_of(f"{self.at}dead:{self.own_name}")

    @operation
    async def exists(self) -> bool:
        fixed = await together(
            Call(("EXISTS", key), int, key=key) for key in (self._processing, self._dead)
        )
        if any(fixed):
            return True
        return bool(self._own((await self._look())[0]))

    async def _look(self) -> tuple[list[bytes], str | None]:
        """Every list whose name begins like this queue's: its workers take from all of them."""
        if self.found is not None:
            return sorted(self.found), None
        lanes = [Lane("list", bytes_of(literal(text(self._base)) + "*"))]
        keys, unseen = await look(self.client, lanes, LOOK_KEYS)
        return keys, unseen

    def _sizes(self) -> Description[tuple[int, int]]:
        """How many messages are in processing, and dead."""
        return together(self._place("pending").size(), self._place("dead").size())

    def _own(self, keys: Iterable[bytes]) -> list[bytes]:
        return [key for key in keys if key.startswith(self._base + b":")]

    @operation
    async def counts(self, now_ms: int | None = None) -> Counts:
        (pending, dead), waiting = await together(
            self._sizes(),
            together(
                Call(("LLEN", key), int, key=key)
                for key in self._own(sorted(self.found or ()))[:CLIENTS]
            ),
        )
        known = self.found is not None and len(self.found) <= CLIENTS
        unknown: frozenset[State] = frozenset({"done"} if known else {"done", "waiting"})
        return Counts(sum(waiting), pending, 0, dead, 0, 0, unknown=unknown)

    async def _page(self, state: State, query: PageQuery) -> Page:
        """A page of a list begins where the next message is taken; dead letters have no order."""
        if state in ("pending", "dead"):
            return await page_of([self._place(state)], query)
        if state == "waiting" and query.start is None:
            return await self._page_clients(query.cursor, query.max)
        return Page((), None, 0)

    def _place(self, state: State, key: bytes = b"") -> Place:
        """Where the messages of a state are; ``key``: the list of a client's waiting messages."""

        async def read(place: Place, rows: Sequence[Row], /) -> list[Entry | None]:
            return [Message.read(row.member).entry(state) for row in rows]

        if state == "dead":
            return ScannedPlace(text(self._dead), "dead", read)
        return ListPlace(text(key or self._processing), "processing", read, reverse=True)

    def _window(self, key: bytes, first: int, max: int) -> Call[list[Message]]:
        def read(reply: Sequence[bytes]) -> list[Message]:
            return [Message.read(raw) for raw in reversed(reply)]

        return Call(("LRANGE", key, -first - max, -first - 1), read, key=key, cut=True)

    async def _page_clients(self, cursor: str | None, max: int) -> Page:
        keys = self._own((await self._look())[0])[:CLIENTS]
        sizes = await together(Call(("LLEN", key), int, key=key) for key in keys)
        name, _, offset = (cursor or ":0").rpartition(":")
        found: list[Entry] = []
        for key, size in zip(keys, sizes, strict=True):
            if cursor is not None and key < raw_of(name):
                continue
            first = int(offset) if legal(key) == name else 0
            rows = await self._window(key, first, max - len(found)) if first < size else []
            found += [message.entry("waiting") for message in rows]
            if len(found) >= max:
                return Page(tuple(found), f"{legal(key)}:{first + len(rows)}", sum(sizes))
        return Page(tuple(found), None, sum(sizes))

    @operation
    async def get(self, id: str) -> Entry | None:
        """Reads the next 1,000 messages of its client, the latest 1,000 in processing, and as many
        dead letters."""
        own = self._base + b":" + raw_of(id.rpartition(":")[0])
        places = self._place("pending"), self._place("dead"), self._place("waiting", own)
        windows = await together(place.window(0, LOOK_UP) for place in places)
        seen = (row.entry for rows, _ in windows for row in rows)
        return next((entry for entry in seen if entry.id == id), None)

    @operation
    async def checkup(self, thorough: bool = False) -> Checkup:
        most = THOROUGH_ROWS if thorough else ROWS
        (keys, left_out), (size, dead) = await together(self._look(), self._sizes())
        unseen = [left_out] if left_out else []
        rows: list[Message] = []
        while len(rows) < min(size, most):
            page = await self._window(self._processing, len(rows), 100)
            rows += page
            if len(page) < 100:
                break
        if size > len(rows):
            unseen.append(f"only {len(rows):,} of {size:,} messages in processing")
        found = (
            [
                f"{size:,} in processing, and nothing says since when: what a dead worker left "
                "looks like what is worked on"
            ]
            if size
            else []
        )
        found += flaws(_read(rows, unseen), "in processing")
        own = self._own(keys)
        if len(own) > CLIENTS:
            unseen.append(f"only {CLIENTS:,} of {len(own):,} clients' lists")
        waiting, left = await self._next_of_clients(own[:CLIENTS], most)
        if left:
            unseen.append(
                f"only {len(waiting):,} of {len(waiting) + left:,} messages in clients' lists"
            )
        found += flaws(_read(waiting, unseen), "in clients' lists")
        if dead:
            found.append(f"dead letters are a set ({dead:,} now): equal messages are one there")
        found += self._ambiguous(keys)
        return Checkup(tuple(found), "; ".join(unseen) or None)

    async def _next_of_clients(self, keys: Sequence[bytes], most: int) -> tuple[list[Message], int]:
        """Up to ``most`` messages, the next of each list; and how many more there are. Short lists
        are read whole and long ones share the rest, so that none hides the others."""
        sizes = await together(Call(("LLEN", key), int, key=key) for key in keys)
        windows, left = [], most
        for n, (size, key) in enumerate(sorted(zip(sizes, keys, strict=True))):
            share = min(size, left // (len(keys) - n))
            left -= share
            windows += [(key, at, min(100, share - at)) for at in range(0, share, 100)]
        parts = await in_batches(self._window(*window) for window in windows)
        found = [message for rows in parts for message in rows]
        return found, max(0, sum(sizes) - len(found))

    def _ambiguous(self, keys: Sequence[bytes]) -> list[str]:
        found = []
        base = self._base
        others = sorted({key for key in keys if not key.startswith(base + b":")})
        if others:
            found.append(f"its workers also take from {named(others)}: the names begin alike")
        colons = [key for key in self._own(keys) if b":" in key[len(base) + 1 :]]
        if colons:
            found.append(
                f"the lists {named(colons)} may be of this queue's client or of a client "
                "of another queue: the names are the same"
            )
        if any(c in base for c in (b"*", b"?", b"[", b"\\")):
            found.append("its name is a pattern: its workers take from all lists that match it")
        if self.own_name in ("processing", "dead"):
            found.append(f"its lists are where another queue keeps what is {self.own_name}")
        return found


def _read(rows: Sequence[Message], unseen: list[str]) -> list[Message]:
    """The messages that were read; ``unseen`` names the others."""
    read = [message for message in rows if not is_cut(message.raw)]
    if len(read) < len(rows):
        unseen.append(f"{len(rows) - len(read):,} messages are too long to be read")
    return read

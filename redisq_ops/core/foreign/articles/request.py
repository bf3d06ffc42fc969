"""Article 000's layout: kind ``raw-request``.

``{req}:0`` … ``{req}:99`` are lists of tokens, ``sub:{id}`` is a request's stream with a group of
the same name, ``counter:{id}`` the number of entries left. No key lists the requests: those with a
token in a list are known. A request whose tokens are all in use, or lost, is only found by a scan
of the keys, so in an overview the numbers of entries are unknown. ``fsck``, `redisq discover` and
pages that no screen waits for make that scan.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from ...engine.optional_features import HasPriorityLevels
from ...model.cut_element import is_cut, unread_name
from ...model.entry import Checkup, Counts, Entry, Level, Page, PageQuery, State
from ...model.quoting import bytes_of, legal, raw_of
from ...redis.key_scan import Lane, literal, look
from ...redis.operation import C_co, Call, attempt, in_batches, operation, together
from ...redis.parsers import optional
from ..streams import groups
from ..streams.groups import ConsumerGroup, LabelledGroup
from .base import LOOK_KEYS, STALE_MS, RawLayout, hours

PRIORITIES = 100
TOKENS = 100
"""tokens read of a list, from the end where they are taken"""
THOROUGH_TOKENS = 1000
REQUESTS = 1000
THOROUGH_REQUESTS = 10_000
OWN = "req"
NAMED = re.compile(rb"(?:sub|counter):\{(.*)\}", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Tokens:
    """The tokens in the lists, as far as they were read."""

    of: Counter[bytes]
    whole: bool
    """all of them were read"""


@dataclass(frozen=True, slots=True)
class Raw:
    """One request. ``counter``: the value of its key; ``length``, ``group``: of its stream."""

    id: bytes
    counter: bytes | None
    length: int | None
    group: ConsumerGroup | None

    @property
    def left(self) -> int | None:
        """Entries that aren't acknowledged yet; None: the server doesn't know."""
        if self.group is None:
            return self.length or 0
        return None if self.group.lag is None else self.group.lag + self.group.pending


class RawRequestQueue(RawLayout[C_co], HasPriorityLevels[C_co]):
    """All requests of the layout on a server: its keys hold no queue's name."""

    kind: ClassVar[str] = "raw-request"
    layout_faults: ClassVar[tuple[str, ...]] = (
        "a worker that dies takes its token along: the limit shrinks, and at none the request "
        "stands still",
        "an acknowledgement sent twice counts twice: the request ends early and its stream is "
        "deleted",
        "an insertion sent again empties the request, which then never ends",
        "a handler that fails has no path: its entry stays pending for ever",
    )

    def _list(self, priority: int) -> bytes:
        return bytes_of(f"{self.at}{{{self.own_name}}}:{priority}")

    def _stream(self, id: bytes) -> bytes:
        return bytes_of(self.at) + b"sub:{" + id + b"}"

    @operation
    async def exists(self) -> bool:
        lists = [self._list(p) for p in range(PRIORITIES)]
        if await Call(("EXISTS", *lists), int, key=lists[0]):
            return True
        # Streams and counters have no tag of a queue: they are the article's own.
        return self.own_name == OWN and bool((await self._look())[0])

    async def _look(self) -> tuple[list[bytes], str | None]:
        """Every request that has a stream or a counter."""
        if self.found is not None:
            return sorted(self.found), None
        at = bytes_of(literal(self.at))
        lanes = [Lane("stream", at + b"sub:{*}"), Lane("string", at + b"counter:{*}")]
        keys, unseen = await look(self.client, lanes, LOOK_KEYS)
        begin = len(bytes_of(self.at))
        names = (NAMED.fullmatch(key[begin:]) for key in keys)
        return sorted({name[1] for name in names if name}), unseen

    async def _tokens(self, most: int = TOKENS) -> Tokens:
        lists = [self._list(p) for p in range(PRIORITIES)]
        sizes = await together(Call(("LLEN", key), int, key=key) for key in lists)
        there = [(key, size) for key, size in zip(lists, sizes, strict=True) if size]
        read: list[list[bytes]] = await together(
            Call(("LRANGE", key, -most, -1), list[bytes], key=key, cut=True) for key, _ in there
        )
        of = Counter(id for ids in read for id in ids if not is_cut(id))
        return Tokens(of, of.total() == sum(size for _, size in there))

    async def _requests(self, ids: Sequence[bytes]) -> list[Raw]:
        return await in_batches(map(self._request, ids))

    async def _request(self, id: bytes) -> Raw:
        stream, counter = self._stream(id), bytes_of(self.at) + b"counter:{" + id + b"}"
        # A key of another type must not hide the other requests.
        value = attempt(Call(("GET", counter), optional, key=counter, cut=True))
        read = attempt(groups.groups(stream))
        size = attempt(Call(("XLEN", stream), int, key=stream))
        count, (there, length) = await together(value, together(read, size))
        count = b"?" if isinstance(count, Exception) else count
        if isinstance(there, Exception) or isinstance(length, Exception) or not (there or length):
            return Raw(id, count, None, None)
        group = next((group for group in there if group.name == stream), None)
        return Raw(id, count, length, group)

    def _parts(self, requests: Iterable[Raw]) -> list[LabelledGroup]:
        return [
            LabelledGroup(self._stream(r.id), r.group, f"{legal(r.id)}/")
            for r in requests
            if r.group is not None
        ]

    @operation
    async def counts(self, now_ms: int | None = None) -> Counts:
        if self.found is None:
            lost: frozenset[State] = frozenset({"waiting", "pending", "done"})
            return Counts(0, 0, 0, 0, 0, 0, unknown=lost)
        there = await self._requests(sorted(self.found)[:THOROUGH_REQUESTS])
        held = [request.group for request in there if request.group is not None]
        unknown: set[State] = {"done"}
        if any(group.lag is None for group in held) or len(self.found) > len(there):
            unknown |= {"waiting", "pending"}
        return Counts(
            sum(group.lag or 0 for group in held),
            sum(group.pending for group in held),
            0,
            0,
            0,
            0,
            unknown=frozenset(unknown),
        )

    @operation
    async def levels(self) -> list[Level]:
        lists = [self._list(p) for p in range(PRIORITIES)]
        sizes = await together(Call(("LLEN", key), int, key=key) for key in lists)
        used = [p for p, size in enumerate(sizes) if size]
        heads: list[list[bytes]] = await together(
            Call(("LRANGE", lists[p], -10, -1), list[bytes], key=lists[p], cut=True) for p in used
        )
        return [
            Level(p, sizes[p], tuple(dict.fromkeys(map(_name, reversed(ids)))))
            for p, ids in zip(used, heads, strict=True)
        ]

    async def _page(self, state: State, query: PageQuery) -> Page:
        """A window for a screen (``start``) shows requests that have a token in a list."""
        if state not in ("waiting", "pending"):
            return Page((), None, 0)
        ids = list((await self._tokens()).of)
        if query.start is None:
            ids += (await self._look())[0]
        known = await self._requests(sorted(set(ids))[:THOROUGH_REQUESTS])
        parts = self._parts(known)
        total = sum((p.group.lag or 0) if state == "waiting" else p.group.pending for p in parts)
        now = await self._now()
        return await groups.page(state, parts, total, query, now)

    @operation
    async def get(self, id: str) -> Entry | None:
        name, slash, rest = id.rpartition("/")
        if not slash:
            return None
        request, now = await together(self._request(raw_of(name)), self._now())
        parts = self._parts([request])
        if not parts or parts[0].rest(f"{parts[0].label}{rest}") is None:
            return None
        return await groups.entry(parts[0], rest, now)

    @operation
    async def checkup(self, thorough: bool = False) -> Checkup:
        """Faults are checked twice: a token may be in transit, or a request may end meanwhile."""
        n = THOROUGH_TOKENS if thorough else TOKENS
        tokens, (ids, left_out) = await together(self._tokens(n), self._look())
        unseen = [left_out] if left_out else []
        most = THOROUGH_REQUESTS if thorough else REQUESTS
        all_ids = sorted({*ids, *tokens.of})
        if len(all_ids) > most:
            unseen.append(f"only {most:,} of {len(all_ids):,} requests")
        if not tokens.whole:
            unseen.append("not all tokens: which requests have none is unknown")
        first = await self._wrong(all_ids[:most], tokens)
        again = await self._wrong(list(first), await self._tokens(n)) if first else {}
        faults = [flaw for flaws in again.values() for flaw in flaws]
        late = [self._list(p) for p in range(PRIORITIES, PRIORITIES + 10)]
        if over := await Call(("EXISTS", *late), int, key=late[0]):
            faults.append(f"tokens of priorities over 99 ({over} lists): no worker looks at them")
        return Checkup(tuple(faults), "; ".join(unseen) or None)

    async def _wrong(self, ids: Sequence[bytes], tokens: Tokens) -> dict[bytes, list[str]]:
        """The faults of each of these requests that has any."""
        requests = await self._requests(ids)
        found = {one.id: flaws for one in requests if (flaws := _flaws(one, tokens))}
        held = [one for one in requests if one.id not in found and _at_work(one, tokens)]
        faults = await in_batches(map(self._stranded, held))
        return found | {one.id: flaws for one, flaws in zip(held, faults, strict=True) if flaws}

    async def _stranded(self, request: Raw) -> list[str]:
        """A request without a token whose entries have been with consumers for too long."""
        (part,) = self._parts([request])
        oldest = await groups.held(part, "-", "+", 1)
        idle_ms = (oldest[0].idle_ms if oldest else None) or 0
        if idle_ms <= STALE_MS:
            return []
        return [
            f"{part.label[:-1]}: no token is left, and what its workers have, they have had for "
            f"{hours(idle_ms)}: it stands still"
        ]


def _name(id: bytes) -> str:
    return unread_name(id) if is_cut(id) else legal(id)


def _at_work(request: Raw, tokens: Tokens) -> bool:
    group = request.group
    return bool(tokens.whole and not tokens.of[request.id] and group and group.pending)


def _flaws(request: Raw, tokens: Tokens) -> list[str]:
    name, count = legal(request.id), _whole(request.counter)
    free, left, flaws = tokens.of[request.id], request.left, []
    if request.counter is not None and count is None:
        flaws.append(f"{name}: its counter is no number")
    elif count is not None and count < 0:
        flaws.append(f"{name}: its counter is {count}: something was acknowledged after its end")
    if request.length is None:
        if count is not None and count > 0:
            flaws.append(f"{name}: its counter is {count:,} and it has no stream: it never ends")
        if free:
            flaws.append(f"{name}: {free:,} tokens are left of a request that is gone")
        return flaws
    if request.counter is None:
        flaws.append(f"{name}: it has a stream and no counter: its end can't be seen")
    if request.group is None:
        flaws.append(f"{name}: its stream has no group of its own name: nothing can be read")
    elif left is not None and count is not None and count >= 0:
        # One more is right while sub-requests are still being added: its sender counts as one.
        if count > left + 1 or (count > left == 0):
            flaws.append(f"{name}: its counter says {count:,}, {left:,} are left: it never ends")
        elif count < left:
            flaws.append(
                f"{name}: its counter says {count:,}, {left:,} are left: it ends before they ran"
            )
        elif count == left == 0:
            flaws.append(f"{name}: it has no sub-requests: nobody is notified of its end")
    group = request.group
    if tokens.whole and not free and group and group.lag and not group.pending:
        flaws.append(
            f"{name}: no token is left and nobody is at it: {group.lag:,} of its entries never run"
        )
    return flaws


def _whole(value: bytes | None) -> int | None:
    text = (value or b"").decode("ascii", "replace")
    return int(text) if re.fullmatch(r"-?\d{1,18}", text) else None

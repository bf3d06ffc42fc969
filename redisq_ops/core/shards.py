"""One queue over several hash slots: the same mechanism for every kind.

A sharded queue is N queues of one kind under one name, each with a tag of its own (``name``,
``name/1``, …), so on a cluster they spread over its nodes. An id has its home: crc16(id) mod N. A
worker looks at all shards in one round trip and takes from the best; order holds within a shard.

N is in the registry. Changing it (`Sharded.resize`) first says so there, old and new number side by
side: from then on workers visit both, lookups ask both homes. How entries come to their new
home is the room's, in bounded steps that may be stopped anywhere and gone on with.
"""

from __future__ import annotations

import re
from abc import abstractmethod
from binascii import crc_hqx
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from hashlib import sha1
from random import Random
from typing import Any, ClassVar, Generic, TypeVar

from .callers import Callers
from .clock import Clock
from .errors import BadInput, NotFound, Refused, Superseded
from .io import C_co, Call, Description, both, operation, together
from .keys import PREFIX, Keys, checked_consumer
from .queue import Queue
from .registry import Registered, amend, enrol, find
from .reply import scored, words
from .settings import LEASE_MS, MAX_BATCH
from .standing import Standing, joined
from .states import ZSETS
from .values import Counts, Delivery, Entry, Event, Front, Page, Rates, Settlement, State, Taken

SHARDS = 12
MAX_SHARDS = 256
_ROUNDS = 3
NEVER = float("inf")
_RUN = re.compile(r"@\d{13}$")
_WORDS = ("moved", "same", "away", "late", "changed")
_COUNTED = ("done", "undone")
_TYPES = """#!lua flags=no-writes
local types = {}
for i, key in ipairs(KEYS) do types[i] = redis.call('TYPE', key).ok end
return types"""
_TYPES_SHA = sha1(_TYPES.encode()).hexdigest()

T = TypeVar("T")
X = TypeVar("X")
Y = TypeVar("Y")
Part = TypeVar("Part", bound=Queue[None])
Head = tuple[float, float]
"""What a shard has next: due when (ms; 0: now, inf: nothing), and its rank, the lowest first."""


def home(id: str, shards: int) -> int:
    """The shard of an entry or request, and of a request's sub-requests.

    Runs of periodic entries stay in shard 0, beside their schedule: one script writes both.
    """
    if _RUN.search(id):
        return 0
    return crc_hqx(id.partition("/")[0].encode(), 0) % shards


class Sharded(Queue[C_co], Generic[C_co, Part]):
    """A queue of ``shards`` shards (used when it is created; later the registry's number counts).

    ``entry``: what the registry says, where the caller knows it already. ``random`` picks where a
    look begins, so that many workers don't all begin at the same shard.
    """

    part: ClassVar[Callable[..., Any]]
    """the class of one shard"""
    timed: ClassVar[bool] = False
    """whether what waits has a time to merge shards by"""

    def __init__(
        self,
        client: C_co,
        name: str = "default",
        *,
        shards: int = SHARDS,
        prefix: str = PREFIX,
        clock: Clock | None = None,
        callers: Callers | None = None,
        random: Random | None = None,
        entry: Registered | None = None,
    ) -> None:
        super().__init__(client, name, prefix=prefix, clock=clock, callers=callers)
        self.shards = checked_shards(shards)
        self.old_shards = 0
        self._random = random or Random()
        self._parts: dict[tuple[int, int], Part] = {}
        if entry is not None:
            self._adopt(entry)

    # --- which shards there are ----------------------------------------------------------------

    def _adopt(self, entry: Registered | None) -> None:
        """Go by what the registry says."""
        if entry is not None:
            self.shards, self.old_shards = entry.shards, entry.old_shards
            self.layout = entry.layout

    async def _enrol(self) -> None:
        if not self._enrolled:
            entry = await enrol(self.name, self.kind, self.schema, self.prefix, self.shards)
            self._adopt(entry)
            await self._unobstructed()
            self._enrolled = True

    async def mistyped(self) -> list[tuple[str, str, str]]:
        """One call a shard: 256 of them have some 5,000 keys, with priorities 30,000."""
        places = [{part.keys[p]: kind for p, kind in sorted(part.kinds)} for part in self._union()]
        found = await together(
            Call(("EVALSHA", _TYPES_SHA, len(of), *of), words, key=next(iter(of)), source=_TYPES)
            for of in places
        )
        return [
            (key, is_, of[key])
            for of, types in zip(places, found, strict=True)
            for key, is_ in zip(of, types, strict=True)
            if is_ not in ("none", of[key])
        ]

    async def _refresh(self) -> None:
        self._adopt(await find(self.name, self.prefix))

    def _part(self, k: int, layout: int | None = None) -> Part:
        """Shard ``k``, as someone sees it who knows that layout."""
        at = (k, self.layout if layout is None else layout)
        if at not in self._parts:
            made = self.part(
                None, self.name, prefix=self.prefix, clock=self.clock, callers=self.callers,
                shard=k, layout=at[1],
            )  # fmt: skip
            made._enrolled = True  # by us
            self._parts[at] = made
        return self._parts[at]

    def _union(self) -> list[Part]:
        return [self._part(k) for k in range(max(self.shards, self.old_shards))]

    async def _fresh(self, make: Callable[[], Description[T]]) -> T:
        """Run a description; again if the registry, read beside it, says that shards changed."""
        while True:
            known = self.shards, self.old_shards
            result, entry = await both(make(), find(self.name, self.prefix))
            self._adopt(entry)
            if (self.shards, self.old_shards) == known:
                return result

    async def _informed(self, make: Callable[[], Description[T]]) -> T:
        """As `_fresh`, for what resizing has to see: the registry is read when it was written.

        Who then doesn't find the change under way wrote before it began, and is copied with it.
        """
        while True:
            known = self.shards, self.old_shards, self.layout
            result = await make()
            self._adopt(await find(self.name, self.prefix))
            if (self.shards, self.old_shards, self.layout) == known:
                return result

    async def _each(self, ask: Callable[[Part], Description[T]]) -> list[T]:
        """Ask every shard, all in one round trip."""
        return await self._fresh(lambda: together(ask(part) for part in self._union()))

    @property
    def all_keys(self) -> tuple[Keys, ...]:
        return tuple(part.keys for part in self._union())

    @property
    def leaves(self) -> Sequence[Part]:
        return self._union()

    async def _kept(self, state: State) -> tuple[str, float | None, float | None] | None:
        return None

    def _homes(self, id: str) -> set[int]:
        """Where an entry can be: its home, and while the number changes its old one."""
        return {home(id, n) for n in (self.shards, self.old_shards) if n}

    async def _places(self, ids: Sequence[str]) -> dict[str, set[int]]:
        """Which shards to ask for each id."""
        return {id: self._homes(id) for id in ids}

    @operation
    async def resize(self, shards: int) -> int:
        """Change the number of shards, or go on with it; returns what still is in an old place.

        Everything that can move moves now, in steps of at most 100; what is pending stays until
        it is settled. Call it again until it says 0: only then is the change complete.
        """
        checked_shards(shards)
        entry = await find(self.name, self.prefix)
        if entry is None:
            raise NotFound(f"no queue {self.name!r} here")
        entry.checked(self.kind, self.schema)
        if entry.old_shards and entry.shards != shards:
            raise Refused(f"queue {self.name} is still on its way to {entry.shards} shards")
        if not entry.old_shards:
            if entry.shards == shards:
                return 0
            await self._equip(range(entry.shards, shards))
            begun = replace(entry, shards=shards, old_shards=entry.shards, layout=entry.layout + 1)
            entry = await self._amend(entry, begun)
        self._adopt(entry)
        # Once more, now that every change of settings reaches the new shards by itself.
        await self._equip(range(entry.old_shards, shards))
        await self._fence()
        left = await self._rehome()
        if not left:
            await self._retire([self._part(k) for k in range(shards, entry.old_shards)])
            self._adopt(await self._amend(entry, replace(entry, old_shards=0)))
        return left

    async def _equip(self, new: Iterable[int]) -> None:
        """Give shards the settings and flags of the first, until these stay as they are.

        One that was given up before may still have those of that time. Settings are changed in
        the first shard first: what it doesn't have yet comes to the others later than we do.
        """

        def read(reply: dict[bytes, bytes]) -> dict[str, bytes]:
            return {k.decode(): v for k, v in reply.items() if k not in (b"layout", b"retired")}

        keys = [Keys(f"{self.name}/{k}" if k else self.name, self.prefix)["cfg"] for k in (0, *new)]
        while True:
            wanted, *had = await together(Call(("HGETALL", key), read, key=key) for key in keys)
            changes: list[Call[int]] = []
            for key, old in zip(keys[1:], had, strict=True):
                if gone := sorted(set(old) - set(wanted)):
                    changes.append(Call(("HDEL", key, *gone), int, key=key))
                if flat := [w for name in wanted if wanted[name] != old.get(name)
                            for w in (name, wanted[name])]:  # fmt: skip
                    changes.append(Call(("HSET", key, *flat), int, key=key))
            if not changes:
                return
            await together(changes)

    async def _amend(self, before: Registered, after: Registered) -> Registered:
        # A re-sent change finds itself done, so what counts is what stands there now.
        if (
            not await amend(before, after, self.prefix)
            and await find(self.name, self.prefix) != after
        ):
            raise Refused(f"the shards of queue {self.name} were changed by someone else just now")
        return after

    async def _fence(self) -> None:
        """Have every shard turn away producers who don't know of the change."""
        fence = self._script("fence")
        await together(
            fence.call(
                part.keys, self.clock, int, layout=self.layout,
                retired=int(part.shard >= self.shards),
            )
            for part in self._union()
        )  # fmt: skip

    @abstractmethod
    async def _rehome(self) -> int:
        """Bring what can be moved to its home; how much can't, for now."""

    async def _retire(self, parts: Sequence[Part]) -> None:
        """Clear the rest of shards that are given up; what they counted goes on counting.

        A kill between the two steps loses that from the count, and nothing else.
        """
        await self._hand_over_journal([part.keys for part in parts])
        script, stat = self._script("retire"), self.keys["stat"]
        done = await together(
            script.call(part.keys, self.clock, int, layout=self.layout) for part in parts
        )
        if sum(done):
            await Call(("HINCRBY", stat, "done", sum(done)), int, key=stat)

    async def _hand_over_journal(self, given_up: Sequence[Keys]) -> None:
        """What operations did in those shards is counted by the first one from now on."""
        if not given_up:
            return
        listed, step = 0, max(1, MAX_BATCH // len(given_up))
        while page := await scored(self.keys["ops"], str(listed), str(listed + step - 1)):
            listed += len(page)
            places = [(op, keys["op_"] + op) for op, _ in page for keys in given_up]
            rows = await together(
                Call(("HMGET", key, *_COUNTED), _counts, key=key) for _, key in places
            )
            there = [(op, key, row) for (op, key), row in zip(places, rows, strict=True)
                     if any(row)]  # fmt: skip
            await together(Call(("UNLINK", key), int, key=key) for _, key, _ in there)
            first = self.keys["op_"]
            await together(
                Call(("HINCRBY", first + op, name, n), int, key=first + op)
                for op, _, row in there for name, n in zip(_COUNTED, row, strict=True) if n
            )  # fmt: skip

    # --- what workers do -----------------------------------------------------------------------

    @abstractmethod
    def _peek(self, part: Part) -> Description[Head]:
        """What a shard has next; a few cheap reads in one round trip."""

    async def _take(self, n: int, consumer: str, lease_ms: int) -> Taken:
        """Look at all shards, then take from those that have something, best first.

        One round trip to look and at most `_ROUNDS` to take, whatever N is. The number is asked
        for on the way, so a worker learns of new shards by itself.
        """
        if not 1 <= n <= MAX_BATCH:
            raise BadInput(f"a take is for 1 to {MAX_BATCH} entries, not {n}")
        checked_consumer(consumer)
        parts = self._union()
        (now, entry), heads = await both(
            both(self._now(), find(self.name, self.prefix)),
            together(self._peek(part) for part in parts),
        )
        self._adopt(entry)
        begin = self._random.randrange(len(parts))
        turn = [*range(begin, len(parts)), *range(begin)]
        ranked = sorted((k for k in turn if heads[k][0] < NEVER), key=lambda k: heads[k][::-1])
        # With nothing due, the one that is next decides who of the idle workers watches for it.
        ready = [k for k in ranked if heads[k][0] <= now] or ranked[:1]
        taken: list[Delivery] = []
        look, more = None, False
        for _ in range(_ROUNDS):
            shares = self._share_out(n - len(taken), ready, heads)
            if not shares:
                break
            replies = await together(
                parts[k]._take(share, consumer, lease_ms) for k, share in shares.items()
            )
            unasked = [k for k in ready if k not in shares]
            ready, more = [], False
            for (k, share), reply in zip(shares.items(), replies, strict=True):
                taken += (_marked(delivery, k) for delivery in reply.deliveries)
                look = min(filter(None, (look, reply.look_again_ms)), default=None)
                more = more or reply.more
                if reply.more or len(reply.deliveries) == share:
                    ready.append(k)
            more = more or bool(unasked)
            ready = unasked + ready
        return Taken(tuple(taken), None if taken else look, more)

    def _share_out(self, n: int, ready: Sequence[int], heads: Sequence[Head]) -> dict[int, int]:
        """How many of ``n`` to take from each shard that has something, the best first."""
        return _shares(n, ready)

    async def _settle(self, settlements: Sequence[Settlement]) -> list[str]:
        def ask(part: Part, some: list[Settlement]) -> Description[list[str]]:
            return part._settle([replace(s, delivery=_plain(s.delivery)) for s in some])

        return await self._grouped(settlements, lambda s: _shard(s.delivery), ask)

    @operation
    async def extend(self, deliveries: Sequence[Delivery], lease_ms: int = LEASE_MS) -> list[bool]:
        def ask(part: Part, some: list[Delivery]) -> Description[list[bool]]:
            return part.extend.op([_plain(d) for d in some], lease_ms)

        return await self._grouped(deliveries, _shard, ask)

    async def _grouped(
        self,
        items: Sequence[X],
        shard: Callable[[X], int],
        ask: Callable[[Part, list[X]], Description[list[Y]]],
        layout: int | None = None,
    ) -> list[Y]:
        """Ask each shard about its items, all in one round trip; answers in the items' order."""
        places: dict[int, list[int]] = {}
        for place, item in enumerate(items):
            places.setdefault(shard(item), []).append(place)
        replies = await together(
            ask(self._part(k, layout), [items[i] for i in at]) for k, at in places.items()
        )
        answers: dict[int, Y] = {}
        for at, reply in zip(places.values(), replies, strict=True):
            answers |= zip(at, reply, strict=True)
        return [answers[i] for i in range(len(items))]

    @operation
    async def sweep(self, max: int = 100) -> int:
        return sum(await self._each(lambda part: part.sweep.op(max)))

    # --- what operators see --------------------------------------------------------------------

    @operation
    async def counts(self, now_ms: int | None = None) -> Counts:
        now = now_ms if now_ms is not None else await self._now()
        found = await self._each(lambda part: part.counts.op(now))

        def total(name: str) -> int:
            return sum(getattr(counts, name) for counts in found)

        return Counts(
            total("waiting"), total("pending"), total("delayed"), total("dead"), total("trash"),
            total("done"),
            min((c.oldest_ms for c in found if c.oldest_ms is not None), default=None),
            found[0].paused, found[0].closed,
        )  # fmt: skip

    @operation
    async def page(
        self,
        state: State,
        cursor: str | None = None,
        max: int = 100,
        start: int | None = None,
        payloads: bool = False,
    ) -> Page:
        """As of one queue: shards are merged by time, and a cursor is good for all of them.

        What waits without a time comes a shard after the other; its cursor is ``shard~cursor``.
        """
        if state == "waiting" and not self.timed:
            return await self._page_by_shards(cursor, max, start, payloads)
        skip = 0
        if start is not None:
            cursor, skip = await self._seek(state, start)
        pages = await self._each(
            lambda part: part.page.op(state, cursor, skip + max, payloads=payloads)
        )
        rows = sorted(
            ((e.at_ms or 0, e.id, k, e) for k, p in enumerate(pages) for e in p.entries),
            key=lambda row: row[:3],
        )
        shown = rows[skip : skip + max]
        more = len(rows) > skip + max or any(page.cursor for page in pages)
        last = f"{shown[-1][0]}:{shown[-1][1]}" if shown and more else None
        entries = tuple(_marked_entry(entry, k) for _, _, k, entry in shown)
        return Page(entries, last, sum(page.total for page in pages))

    async def _page_by_shards(
        self, cursor: str | None, max: int, start: int | None, payloads: bool
    ) -> Page:
        """What waits, where waiting has no times to merge by: a shard after the other."""
        sizes = [counts.waiting for counts in await self._each(lambda part: part.counts.op(0))]
        shard, _, inner = (cursor or "0~").partition("~")
        k, skip = int(shard), start or 0
        while k < len(sizes) and skip >= sizes[k]:
            skip, k = skip - sizes[k], k + 1
        entries: list[Entry] = []
        while k < len(sizes) and len(entries) < max:
            page = await self._part(k).page.op(
                "waiting", inner or None, max - len(entries), skip or None, payloads
            )
            entries += page.entries
            inner, skip = page.cursor or "", 0
            k += not inner
        return Page(tuple(entries), f"{k}~{inner}" if k < len(sizes) else None, sum(sizes))

    def _zset(self, state: State) -> str:
        """The sorted set that keeps a state."""
        return ZSETS[state]

    async def _seek(self, state: State, rank: int) -> tuple[str, int]:
        """A cursor before the time of the ``rank``-th entry, and how many to skip from there.

        No shard knows ranks of the whole, so the time is bisected: some 40 rounds of ZCOUNT.
        """
        zset = self._zset(state)

        def count(part: Part, at: int) -> Call[int]:
            return Call(("ZCOUNT", part.keys[zset], "-inf", f"({at}"), int, key=part.keys[zset])

        def ends(part: Part) -> Description[list[list[tuple[str, float]]]]:
            return together(scored(part.keys[zset], "0", "0", *rev) for rev in ((), ("REV",)))

        found = await self._each(ends)
        times = [int(score) for pair in found for rows in pair for _, score in rows] or [0]
        low, high, skip = min(times), max(times), rank
        while low < high:
            middle = (low + high + 1) // 2
            before = sum(await together(count(part, middle) for part in self._union()))
            if before <= rank:
                low, skip = middle, rank - before
            else:
                high = middle - 1
        return f"{low}:", skip

    @operation
    async def get(self, id: str) -> Entry | None:
        return await self._fresh(lambda: self._get(id))

    @operation
    async def several(self, ids: Sequence[str]) -> list[Entry | None]:
        # Before a kind's own way in the order of bases: that one looks at one shard's keys.
        return await together(self.get.op(id) for id in ids)

    async def _get(self, id: str) -> Entry | None:
        shards = sorted((await self._places([id]))[id])
        found = await together(self._part(k).get.op(id) for k in shards)
        entries = (_marked_entry(e, k) for k, e in zip(shards, found, strict=True) if e is not None)
        return next(entries, None)

    @operation
    async def rates(self, now_ms: int, minutes: int = 60) -> Rates:
        found = await self._each(lambda part: part.rates.op(now_ms, minutes))

        def total(series: Iterable[tuple[int, ...]]) -> tuple[int, ...]:
            return tuple(map(sum, zip(*series, strict=True)))

        return Rates(
            total(r.arrived for r in found),
            total(r.settled for r in found),
            total(r.failed for r in found),
        )

    @operation
    async def history(self, max: int = 100, before: str = "+") -> list[Event]:
        found = await self._each(lambda part: part.history.op(max, before))
        events = sorted((e for part in found for e in part), key=_place, reverse=True)
        # Events of one moment stay together: the next page begins behind that moment in all shards.
        end = next((i for i in range(max, len(events)) if events[i].id != events[i - 1].id), None)
        return events[:end]

    @operation
    async def history_length(self) -> int:
        return sum(await self._each(lambda part: part.history_length.op()))

    @operation
    async def upcoming(self, edges: Sequence[int]) -> list[int]:
        found = await self._each(lambda part: part.upcoming.op(edges))
        return list(map(sum, zip(*found, strict=True)))

    @operation
    async def standing(self, id: str = "") -> Standing:
        return joined(await self._each(lambda part: part.standing.op(id)))

    @operation
    async def invariants(self) -> list[str]:
        found = await self._each(lambda part: part.invariants.op())
        return [f"shard {k}: {said}" for k, all_ in enumerate(found) for said in all_]

    # --- what operators change -----------------------------------------------------------------

    @operation
    async def move(
        self,
        op: str,
        step: int,
        ids: Sequence[str],
        *,
        source: State,
        target: str,
        high_water_ms: int,
        consumer: str = "-",
        lease_ms: int = LEASE_MS,
        times: Mapping[str, int] | None = None,
        span: str = "",
    ) -> list[str]:
        def of(part: Part, some: Sequence[int]) -> Description[list[str]]:
            return part.move.op(
                op, step, [ids[i] for i in some], source=source, target=target,
                high_water_ms=high_water_ms, consumer=consumer, lease_ms=lease_ms, times=times,
                span=span,
            )  # fmt: skip

        return await self._asked(ids, of)

    @operation
    async def edit(
        self,
        op: str,
        step: int,
        rows: Sequence[tuple[str, bytes, bytes]],
        *,
        source: State,
        high_water_ms: int,
    ) -> list[str]:
        def of(part: Part, some: Sequence[int]) -> Description[list[str]]:
            few = [rows[i] for i in some]
            return part.edit.op(op, step, few, source=source, high_water_ms=high_water_ms)

        return await self._asked([row[0] for row in rows], of)

    async def _asked(
        self, ids: Sequence[str], ask: Callable[[Part, Sequence[int]], Description[list[str]]]
    ) -> list[str]:
        """Carry a step out in every shard that may have some of the ids (told by their index).

        A shard takes one list under a step's number: asked for other ids, it would answer for the
        first ones. So the present shards are learnt of before, and what is carried away while we
        ask is `changed`, as if somebody had touched it.
        """
        await self._refresh()
        places = await self._places(ids)
        # The journal is in the first: it learns of every step. One of nothing is for all: it ends
        # the operation, since none of them takes another under its number.
        asked: dict[int, list[int]] = {k: [] for k in range(1 if ids else len(self._union()))}
        for i, id in enumerate(ids):
            for k in places[id]:
                asked.setdefault(k, []).append(i)
        said = await together(ask(self._part(k), some) for k, some in asked.items())
        best = [len(_WORDS)] * len(ids)
        for heard, (k, some) in zip(said, asked.items(), strict=True):
            if len(heard) != len(some):
                raise Superseded(f"shard {k}: that step was carried out with other entries")
            for i, word in zip(some, heard, strict=True):
                best[i] = min(best[i], _WORDS.index(word))
        return [_WORDS[word] for word in best]

    @operation
    async def move_front(
        self,
        op: str,
        step: int,
        n: int,
        *,
        source: State,
        target: str,
        high_water_ms: int,
        left: Sequence[int] = (),
    ) -> Front:
        """As of one shard: of each the first of its share of ``n``, all at once."""
        share = -(-n // len(self._union()))

        def each() -> Description[list[Front]]:
            return together(
                part.move_front.op(
                    op, step, share, source=source, target=target, high_water_ms=high_water_ms,
                    left=left[k : k + 1] or (0,),
                )
                for k, part in enumerate(self._union())
            )  # fmt: skip

        found = await self._fresh(each)
        moved = sum(front.moved for front in found)
        behind = tuple(front.left[0] for front in found)
        return Front(moved, behind, all(front.over for front in found))

    @operation
    async def undo(
        self,
        op: str,
        step: int,
        *,
        target: str,
        by: str,
        seq: int,
        left: Callable[[list[str]], None] = lambda ids: None,
    ) -> tuple[int, int]:
        found = await self._each(
            lambda part: part.undo.op(op, step, target=target, by=by, seq=seq, left=left)
        )
        return sum(back for back, _ in found), sum(touched for _, touched in found)

    async def _configure(self, op: str, seq: int, changes: dict[str, str]) -> dict[str, str]:
        """In the first shard first, from which `_equip` has what new shards get."""

        async def everywhere() -> dict[str, str]:
            first, *others = self._union()
            before = await first._configure(op, seq, changes)
            await together(part._configure(op, seq, changes) for part in others)
            return before

        return await self._informed(everywhere)

    @operation
    async def dismantle(self, max: int = 100) -> int:
        gone = sum(await self._each(lambda part: part.dismantle.op(max)))
        if gone:
            return gone
        # Shards given up once: their fences would shut out a later queue of this name, and what
        # an interrupted change or an earlier release left there would come back in it.
        once = [self._part(k) for k in range(len(self._union()), MAX_SHARDS)]
        return sum(await together(part.dismantle.op(max) for part in once))


def checked_shards(shards: int) -> int:
    if not 1 <= shards <= MAX_SHARDS:
        raise BadInput(f"a queue has 1 to {MAX_SHARDS} shards, not {shards}")
    return shards


def _counts(reply: list[bytes | None]) -> list[int]:
    return [int(value or 0) for value in reply]


def _shares(n: int, ready: Sequence[int]) -> dict[int, int]:
    """How many of ``n`` to take from each shard; the best get one more, and all when n is small."""
    if not ready:
        return {}
    each, extra = divmod(n, len(ready))
    return {k: share for i, k in enumerate(ready) if (share := each + (i < extra))}


def _marked(delivery: Delivery, k: int) -> Delivery:
    """With a receipt that says which shard it is of: two shards count receipts by themselves."""
    return replace(delivery, receipt=f"{k}:{delivery.receipt}")


def _marked_entry(entry: Entry, k: int) -> Entry:
    return entry if entry.receipt is None else replace(entry, receipt=f"{k}:{entry.receipt}")


def _shard(delivery: Delivery) -> int:
    return int(delivery.receipt.partition(":")[0]) if ":" in delivery.receipt else 0


def _plain(delivery: Delivery) -> Delivery:
    return replace(delivery, receipt=delivery.receipt.rpartition(":")[2])


def _place(event: Event) -> tuple[int, int]:
    ms, _, nth = event.id.partition("-")
    return int(ms), int(nth)

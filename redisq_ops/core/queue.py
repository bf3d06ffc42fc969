"""The protocol every queue keeps towards workers and operators.

Faces (`ops`, CLI, dashboard, Spark) know this class only, never a queue's keys. A queue's room
subclasses it with its own Lua, its own waiting, and what else it can show (``capabilities``).
What isn't waiting has one shape for all our queues, so settling, recovery, paging and bulk moves
are here, once.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from hashlib import sha1
from itertools import pairwise
from typing import Any, ClassVar, Literal
from urllib.parse import quote, unquote

from . import record
from .callers import Callers
from .clock import Clock, ServerClock
from .errors import BadInput, Refused, Superseded, WrongKind
from .holdings import HOLDINGS, Holding, Holdings, Load, Reassigned
from .io import Bound, C_co, Call, Description, both, operation, together
from .keys import PREFIX, Keys, checked_name
from .process import Process, Pruned
from .registry import enrol, find, server_ms
from .scan import Reach, Sheet, Span, page, reach, spans, timed
from .scripts import Script, script
from .settings import LEASE_MS, MAX_BATCH
from .standing import SEEN, Standing
from .values import (
    Checkup,
    Client,
    Clients,
    Consumer,
    Counts,
    Delivery,
    Entry,
    Event,
    Front,
    Level,
    Page,
    Rates,
    Request,
    Settlement,
    State,
    Taken,
)

Verb = Literal["requeue", "claim", "replay", "purge", "hard", "restore", "reschedule", "move"]
EDIT = "edit"
"""where an edit moves entries to, so to speak: nowhere"""
ZSETS: dict[State, str] = {
    "pending": "lease",
    "delayed": "delay",
    "dead": "dead",
    "trash": "trash",
}
# the keys every queue has, with their types
FIXED = {
    **dict.fromkeys(("lease", "delay", "dead", "trash", "ops"), "zset"),
    **dict.fromkeys(("meta", "err", "cfg", "stat", "callers"), "hash"),
    "hist": "stream",
    "wake": "list",
}
# verb -> (states it can start from, state it ends in); the one table behind all operators' faces
VERBS: dict[Verb, tuple[tuple[State, ...], str]] = {
    "requeue": (("pending", "delayed"), "waiting"),
    "claim": (("pending",), "pending"),
    "replay": (("dead",), "waiting"),
    "purge": (("waiting", "pending", "delayed", "dead"), "trash"),
    "hard": (("waiting", "pending", "delayed", "dead", "trash"), "gone"),
    "restore": (("trash",), "restore"),
    "reschedule": (("delayed",), "delayed"),
    "move": (("waiting", "delayed", "dead"), "trash"),  # and from there to another queue
}


class Queue(Bound[C_co], ABC):
    """One queue on one server, Sentinel or Cluster.

    ``client`` decides how operations run: blocking, or awaited on an asyncio client. ``clock`` is
    the server's unless a test moves its own.
    """

    kind: ClassVar[str]
    schema: ClassVar[int] = 1
    room: ClassVar[str]
    capabilities: ClassVar[frozenset[str]] = frozenset()
    parts: ClassVar[dict[str, str]] = {}
    """the room's own fixed keys, beside `FIXED`"""
    actions: ClassVar[Mapping[Verb, tuple[State, ...]]] = {
        verb: states for verb, (states, _) in VERBS.items() if verb not in ("reschedule", "move")
    }
    """what an operator can do here, and to entries of which states (`move` takes two queues)"""
    fronts: ClassVar[frozenset[State]] = frozenset({"dead", "trash"})
    """states that can be moved whole, the server choosing what is next: see `move_front`"""
    accepts: ClassVar[frozenset[State]] = frozenset()
    """states in which entries that were exported can be taken in: see `accept`"""
    editable: ClassVar[tuple[State, ...]] = ("delayed", "dead")
    """states whose entries can be given another payload"""
    rules: ClassVar[Mapping[str, range]] = {}
    """what can be set of a client (``clients`` in `capabilities`), and to which values"""
    keeps_ids: ClassVar[bool] = True
    """whether a dead entry that is replayed can be found by the id it had"""
    faults: ClassVar[tuple[str, ...]] = ()
    """what is known to be wrong with the layout itself, a sentence each"""
    unrescued: ClassVar[str] = ""
    """what becomes of the work of a process that is pruned without rescue, in words"""
    columns: ClassVar[int] = 5
    """words in a row of take's reply: id receipt failures lost payload, and the room's own"""

    def __init__(
        self,
        client: C_co,
        name: str = "default",
        *,
        prefix: str = PREFIX,
        clock: Clock | None = None,
        callers: Callers | None = None,
        shard: int = 0,
        layout: int = 0,
    ) -> None:
        super().__init__(client)
        self.name = checked_name(name, "queue name")
        self.prefix = prefix
        self.shard = shard
        self.layout = layout
        # No name has a slash, so no queue can be called like another's shard.
        self.keys = Keys(f"{name}/{shard}" if shard else name, prefix)
        self.clock = clock or ServerClock()
        self.callers = callers or Callers()
        self._enrolled = False

    def _script(self, name: str) -> Script:
        return script(self.room, name)

    async def _enrol(self) -> None:
        if not self._enrolled:
            enrolment = enrol(self.name, self.kind, self.schema, self.prefix)
            entry, _ = await both(enrolment, self._unobstructed())
            if entry.all_shards > 1:
                raise WrongKind(f"queue {self.name} has shards: open it as a sharded queue")
            self.layout = entry.layout
            self._enrolled = True

    async def _unobstructed(self) -> None:
        """Refuse foreign keys in the way now: a script finds them when it has begun to write."""
        kinds = {self.keys[part]: kind for part, kind in (FIXED | self.parts).items()}
        found = await together(Call(("TYPE", key), bytes.decode, key=key) for key in kinds)
        for (key, kind), is_ in zip(kinds.items(), found, strict=True):
            if is_ not in ("none", kind):
                raise WrongKind(f"key {key} is a {is_} where queue {self.name} has a {kind}")

    async def _guarded(self, name: str, read: Any, rows: Any = (), **argv: Any) -> Any:
        """Run a script in a caller's slot, so that a re-sent call has no effect."""
        loaded = self._script(name)
        with self.callers.turn(name) as (caller, seq):
            return await loaded.call(
                self.keys, self.clock, read, rows, caller=caller, seq=seq, **argv
            )

    # --- what workers do -----------------------------------------------------------------------

    @operation
    async def take(self, n: int = 1, *, consumer: str, lease_ms: int = LEASE_MS) -> Taken:
        """Take up to ``n`` entries (1–500), each under a lease of ``lease_ms``.

        Promotes what is due and brings back what is overdue on the way. At least once: an entry
        whose lease runs out is delivered again, and its old receipt is void. From a queue that
        doesn't exist yet nothing is taken, and that doesn't create it.
        """
        if not await self.exists.op():
            return Taken((), None, False)
        await self._enrol()
        return await self._take(n, consumer, lease_ms)

    async def _take(self, n: int, consumer: str, lease_ms: int) -> Taken:
        if not 1 <= n <= MAX_BATCH:
            raise BadInput(f"a take is for 1 to {MAX_BATCH} entries, not {n}")
        checked_consumer(consumer)
        lease_ms = checked_ms(lease_ms, "lease")

        def read(reply: list[Any]) -> Taken:
            rows = [reply[i : i + self.columns] for i in range(3, len(reply), self.columns)]
            return Taken(
                tuple(self._delivery(row, int(reply[2]), consumer) for row in rows),
                int(reply[0]) or None,
                reply[1] == b"1",
            )

        taken: Taken = await self._guarded("take", read, n=n, lease_ms=lease_ms, consumer=consumer)
        return taken

    def _delivery(self, row: Sequence[Any], deadline_ms: int, consumer: str) -> Delivery:
        """A row of take's reply."""
        id, receipt, failures, lost, payload = row[:5]
        return Delivery(
            self.name, id.decode(), payload if payload is not None else b"", receipt.decode(),
            deadline_ms, int(failures), int(lost), consumer,
        )  # fmt: skip

    @operation
    async def settle(self, settlements: Sequence[Settlement]) -> list[str]:
        """End deliveries; one word each: done | retry | dead | released | stale.

        ``stale``: another delivery of that entry is the valid one, nothing was changed.
        """
        return await self._settle(settlements)

    async def _settle(self, settlements: Sequence[Settlement]) -> list[str]:
        if not settlements:
            return []
        rows = [
            (s.delivery.id, s.delivery.receipt, s.outcome, s.value, checked_ms(s.delay_ms, "delay"))
            for s in settlements
        ]
        said: list[str] = await self._guarded(
            "settle", words, rows, consumer=settlements[0].delivery.consumer
        )
        return said

    @operation
    async def turn(
        self,
        settlements: Sequence[Settlement],
        n: int,
        *,
        consumer: str,
        lease_ms: int = LEASE_MS,
    ) -> tuple[list[str], Taken]:
        """Settle what is finished and take the next, in one round trip."""
        if not await self.exists.op():
            return await self._settle(settlements), Taken((), None, False)
        await self._enrol()
        return await both(self._settle(settlements), self._take(n, consumer, lease_ms))

    @operation
    def extend(self, deliveries: Sequence[Delivery], lease_ms: int = LEASE_MS) -> Call[list[bool]]:
        """Renew leases; False for each that is no longer ours."""
        return self._script("extend").call(
            self.keys,
            self.clock,
            lambda reply: [word == b"ok" for word in reply[1:]],
            [(d.id, d.receipt) for d in deliveries],
            lease_ms=checked_ms(lease_ms, "lease"),
        )

    @operation
    async def sweep(self, max: int = 100) -> int:
        """Let go of what is past its time (trash, finished requests), a little; how many went."""
        swept: int = await self._script("sweep").call(self.keys, self.clock, int, max=max)
        return swept

    @operation
    async def upkeep(self) -> int:
        """What any worker does for the queue about every 30 s; how much there was to do."""
        return await self.sweep.op()

    @property
    def settable(self) -> bool:
        """Whether it has settings and flags (paused, closed)."""
        return True

    @property
    def wake_key(self) -> str:
        """The list an idle worker blocks on; an element is a hint, never work."""
        return self.keys["wake"]

    @property
    def all_keys(self) -> tuple[Keys, ...]:
        """The keys of every shard; wake lists and journals are there, one each."""
        return (self.keys,)

    # --- what operators see --------------------------------------------------------------------

    @operation
    async def exists(self) -> bool:
        """Whether there is such a queue. Its first submission creates it, no look does."""
        return self._enrolled or await find(self.name, self.prefix) is not None

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
            bottom, offset, more = f"{after[0]:.0f}" if after else low, 0, True
            if after is not None and rank is not None:
                page = await scored(key, f"{rank:.0f}", f"{rank + max + 1:.0f}")
                # Still in its place: what follows it is exact, however many have its score.
                if page[:1] == [(after[1], after[0])]:
                    rows, more = [row for row in page[1:] if row[1] <= float(high)], False
            while len(rows) <= max and more:
                page = await scored(
                    key, bottom, high, "BYSCORE", "LIMIT", str(offset), str(max + 1)
                )
                more = len(page) == max + 1
                offset += len(page)
                rows += [row for row in page if after is None or (row[1], row[0]) > after]
            more = len(rows) > max
            rows = rows[:max]
        entries = await self._entries(state, rows, payloads)
        last = f"{rows[-1][1]:.0f}:{rows[-1][0]}" if rows and more else None
        return Page(tuple(entries), last, size)

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
            self._payloads(ids if payloads else ()),
        )
        return [
            record.entry(id, state, score, line, error, payload)
            for (id, score), line, error, payload in zip(
                rows, meta, errors, contents or [None] * len(ids), strict=True
            )
        ]

    @abstractmethod
    async def _payloads(self, ids: Sequence[str]) -> list[bytes | None]: ...

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
    async def several(self, ids: Sequence[str]) -> list[Entry | None]:
        """What `get` says of each of these; in few commands where a kind has a way to."""
        return await together(self.get.op(id) for id in ids)

    @abstractmethod
    async def _get_waiting(self, id: str) -> Entry | None: ...

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

    # --- what reads all of it, by many processes (see `scan`) ----------------------------------

    @property
    def leaves(self) -> Sequence[Queue[Any]]:
        """Its shards, each a queue by itself: only descriptions, run them on this one's client."""
        return (self,)

    async def _kept(self, state: State) -> tuple[str, float | None, float | None] | None:
        """The sorted set that keeps a state, and from which score to which; None: none does."""
        part = ZSETS.get(state)
        return None if part is None else (part, None, None)

    @operation
    async def spans(
        self, state: State, size: int, low_ms: int | None = None, high_ms: int | None = None
    ) -> list[Span] | None:
        """A state cut into parts of about ``size``, of entries whose `Entry.at_ms` is from
        ``low_ms`` to ``high_ms``; None: it can't be cut here, `page` reads it. Of one leaf."""
        kept = await self._kept(state)
        if kept is None:
            return None
        part, low, high = kept
        lows = [bound for bound in (low, low_ms) if bound is not None]
        highs = [bound for bound in (high, high_ms) if bound is not None]
        return await spans(self.keys[part], size, max(lows, default=None), min(highs, default=None))

    @operation
    async def sheet(
        self,
        state: State,
        span: Span,
        cursor: str | None = None,
        max: int = 100,
        want: frozenset[str] = frozenset({"lines", "errors"}),
        step: int | None = None,
    ) -> Sheet:
        """Up to ``max`` entries of a span, with the columns of `Sheet` in ``want``. Of one leaf.

        Columns are looked up for ``step`` of them by one call, all in one exchange."""
        kept = await self._kept(state)
        assert kept is not None, "what has no spans has no sheets"
        key = self.keys[kept[0]]
        rows, onward, took = await page(key, span, cursor, max)
        ids = [member for _, member in rows]
        names = [id.decode() for id in ids]
        step = step or max
        asked = {
            (column, start): description
            for start in range(0, len(names), step)
            for column, description in self._columns(
                state, names[start : start + step], want
            ).items()
        }
        parts, times = await timed(key, asked)
        columns: dict[str, list[Any]] = {column: [] for column, _ in parts}
        alike: dict[str, list[int]] = {column: [] for column in columns}
        for column, start in parts:
            columns[column] += parts[column, start]
            alike[column].append(times[column, start])
        middle = [sorted(some)[(len(some) - 1) // 2] for some in alike.values()]
        slowest = sorted([took, *middle])[-1]
        return Sheet(ids, [score for score, _ in rows], onward, slowest, **columns)

    def _columns(
        self, state: State, ids: Sequence[str], want: frozenset[str]
    ) -> dict[str, Description[Any]]:
        """How each wanted column of a sheet is read, in one exchange."""
        parts = {"lines": "meta", "errors": "err"}
        columns: dict[str, Description[Any]] = {
            name: Call(("HMGET", self.keys[part], *ids), list[Any], key=self.keys[part])
            for name, part in parts.items()
            if name in want
        }
        if "payloads" in want:
            columns["payloads"] = self._payloads(ids)
        return columns

    @operation
    def reach(self) -> Call[Reach]:
        """How far the history goes. Of one leaf."""
        return reach(self.keys["hist"])

    @operation
    def happened(
        self, after: str, until: str, max: int = 100
    ) -> Call[list[tuple[bytes, dict[bytes, bytes]]]]:
        """History events behind the id ``after``, up to and with ``until``, oldest first, as the
        stream has them. Of one leaf."""
        key = self.keys["hist"]
        return Call(("XRANGE", key, f"({after}", until, "COUNT", max), list[Any], key=key)

    @operation
    async def request_spans(
        self,
        settled: bool,
        size: int,
        low_ms: int | None = None,
        high_ms: int | None = None,
    ) -> list[Span]:
        """Requests cut into parts by age: open ones by creation, settled ones by their end. Of one
        leaf."""
        return []

    @operation
    async def request_sheet(
        self, settled: bool, span: Span, cursor: str | None = None, max: int = 100
    ) -> tuple[list[tuple[str, Request | Exception | None]], str | None]:
        """Up to ``max`` requests of a span by id, and where to go on; an error is a record that
        can't be read. Of one leaf."""
        return [], None

    @operation
    async def subrequests(
        self, id: str, start: int = 1, max: int = 100, payloads: bool = False
    ) -> list[Entry]:
        """Sub-requests ``start …`` of a request by number, in whatever state. Of one leaf."""
        return []

    @operation
    def settings(self) -> Call[dict[str, str]]:
        """The settings that differ from the defaults, and flags (``paused``, ``closed``)."""
        return Call(
            ("HGETALL", self.keys["cfg"]),
            lambda reply: {k.decode(): unquote(v.decode()) for k, v in reply.items()},
            key=self.keys["cfg"],
        )

    # --- what some queues can show beside (see `capabilities`) ---------------------------------

    @operation
    async def requests(
        self, start: int = 0, max: int = 100, settled: bool = False
    ) -> list[Request]:
        """Requests by age, oldest first; ``settled``: finished ones, newest first."""
        return []

    @operation
    async def request(self, id: str) -> Request | None:
        """One request's record."""
        return None

    @operation
    async def consumers(self, id: str) -> list[Consumer]:
        """The consumers of a request's group."""
        return []

    @operation
    async def loads(self, group: str = "") -> list[Load]:
        """How far its groups of consumers are behind, and what they hold; a queue without groups
        is one by itself."""
        counts: Counts = await self.counts.op()
        return [Load("", counts.of("pending"), counts.of("waiting"))]

    @operation
    async def holdings(
        self,
        group: str = "",
        max: int = HOLDINGS,
        consumer: str = "",
        after: str | None = None,
    ) -> Holdings:
        """Deliveries that aren't settled, the next deadline first: of a group, of a consumer."""
        page, now = await both(self.page.op("pending", after, max), self._now())
        rows = tuple(
            _holding(entry, now)
            for entry in page.entries
            if consumer in ("", entry.consumer) and _within(entry.id, group)
        )
        return Holdings(rows, page.total, page.cursor)

    @operation
    async def reassign(
        self,
        group: str,
        consumer: str,
        to: str,
        ids: Sequence[str],
        *,
        min_idle_ms: int = 0,
        remove: bool = False,
    ) -> Reassigned:
        """Give a consumer's deliveries to another, where the group itself is all that knows of
        them (`move` does it elsewhere); ``remove`` it in the same step, with all it holds by then
        given away too, if that is no more than a step is for."""
        raise Refused(f"queue {self.name} is a {self.kind} queue: claim its entries instead")

    @operation
    async def strike(self, group: str, consumer: str) -> str:
        """Remove a consumer from a group: gone | holds (it has something, and stays) | absent."""
        return "absent"

    @operation
    async def levels(self) -> list[Level]:
        """Every priority that may hold tokens."""
        return []

    @operation
    async def clients(self, start: int = 0, max: int = 100) -> Clients:
        """Whose work is here, by name from rank ``start`` on."""
        return Clients()

    @operation
    async def client_of(self, client: str) -> Client | None:
        """A client as it stands; None when nothing of it is here."""
        return None

    @property
    def register(self) -> str:
        """Where another program lists its worker processes (``processes`` in `capabilities`):
        queues that name the same place share them. Empty: nobody lists them."""
        return ""

    @operation
    async def processes(self) -> list[Process]:
        """The worker processes in the `register`, by name, whichever of its queues they serve."""
        return []

    @operation
    async def prune(
        self,
        name: str,
        *,
        silent_ms: int | None = None,
        rescue: bool = False,
        op: str | None = None,
        step: int = 1,
    ) -> Pruned:
        """Strike a process from the `register` if it was silent for so long by the server's clock
        (None: as long as its owner waits); looked at again in the step that strikes it.

        ``rescue``: what it had waits again; else it ends as its owner has it (`unrescued`). The
        same ``op`` and ``step`` sent again answer the same and change nothing.
        """
        raise Refused(f"queue {self.name} is a {self.kind} queue: nobody lists its workers")

    @operation
    async def upcoming(self, edges: Sequence[int]) -> list[int]:
        """How many entries become due between each pair of neighbouring times (ms)."""
        key = self.keys["delay"]
        return await together(
            Call(("ZCOUNT", key, low, f"({high}"), int, key=key) for low, high in pairwise(edges)
        )

    @operation
    async def standing(self, id: str = "") -> Standing:
        """What this kind of queue knows of why an entry or request (or, without an id, anything
        at all) isn't handed out; a few round trips, however much is in it. Reads only."""
        return await self._askers()

    async def _askers(self) -> Standing:
        """When a worker last asked for work. Every take leaves its time in its caller's slot, an
        idle worker's too; slots are kept for a day."""
        key = self.keys["callers"]

        def read(reply: Any) -> Standing:
            cursor, rows = reply
            values = list(rows.values()) if isinstance(rows, Mapping) else list(rows[1::2])
            times = [int(value.split(b" ", 2)[1]) for value in values]
            return Standing(
                asked_ms=max(times, default=None), askers=len(times), askers_all=int(cursor) == 0
            )

        return await Call(("HSCAN", key, 0, "MATCH", "*:take", "COUNT", SEEN), read, key=key)

    @operation
    @abstractmethod
    async def invariants(self) -> list[str]:
        """What doesn't add up, in words; an empty list is a healthy queue. Reads only, by pages."""

    @operation
    async def checkup(self, thorough: bool = False) -> Checkup:
        """`invariants`, and what was not looked at. Without ``thorough`` only what a screen can
        wait for: of our own queues, where that takes all entries, nothing."""
        return Checkup(tuple(await self.invariants.op()) if thorough else ())

    # --- what operators change -----------------------------------------------------------------

    @operation
    def move(
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
    ) -> Call[list[str]]:
        """One step of a bulk move by identity: moved | changed | late | away, one word per id.

        The same ``op`` and ``step`` sent again answer the same and change nothing. ``times``: what
        tells waiting and delayed entries from later ones of their ids that have no record: ready
        time, or beginning of the request; with another time they are ``changed``. ``span``: which
        entries of a plan these are, kept in the journal with the step's number.
        """
        checked_name(op, "operation")
        checked_consumer(consumer)
        return self._script("move").call(
            self.keys,
            self.clock,
            words,
            [(id, (times or {}).get(id, "-")) for id in ids],
            caller=op,
            seq=step,
            **{"from": source, "to": target},
            high_water=high_water_ms,
            consumer=consumer,
            lease_ms=checked_ms(lease_ms, "time"),
            span=span,
        )

    @operation
    def move_front(
        self,
        op: str,
        step: int,
        n: int,
        *,
        source: State,
        target: str,
        high_water_ms: int,
        left: Sequence[int] = (0,),
    ) -> Description[Front]:
        """One step of a bulk move of a whole state: the first ``n`` of what is meant.

        Meant is what has been in ``source`` (of `fronts`) since before ``high_water_ms``, as with
        `move` for all their ids. ``left`` is the earlier step's `Front.left`. The same ``op`` and
        ``step`` sent again answer the same and change nothing.
        """
        checked_name(op, "operation")

        def read(reply: list[bytes]) -> Front:
            if len(reply) != 2:  # of a step of nothing: an undo took its place
                raise Superseded(f"{op} was taken back meanwhile")
            moved, stuck = map(int, reply)
            return Front(moved, (left[0] + stuck,), not moved + stuck)

        return self._script("front").call(
            self.keys,
            self.clock,
            read,
            caller=op,
            seq=step,
            **{"from": source, "to": target},
            high_water=high_water_ms,
            n=n,
            left=left[0],
        )

    @operation
    def edit(
        self,
        op: str,
        step: int,
        rows: Sequence[tuple[str, bytes, bytes]],
        *,
        source: State,
        high_water_ms: int,
    ) -> Call[list[str]]:
        """One step of a change of payloads, of entries in ``source`` (of `editable`).

        A row is an id, its payload as it was read, and what it is to be. One word each: moved |
        same (it is so already) | changed (another payload or state now) | late, as `move` has them.
        """
        checked_name(op, "operation")
        return self._script("edit").call(
            self.keys,
            self.clock,
            words,
            [(id, sha1(was).hexdigest(), payload) for id, was, payload in rows],
            caller=op,
            seq=step,
            **{"from": source},
            high_water=high_water_ms,
        )

    @operation
    def undo(self, op: str, step: int, *, target: str, by: str, seq: int) -> Call[tuple[int, ...]]:
        """Take one step of ``op`` back: (put back, touched meanwhile and left alone). A third
        number, if there is one: out of reach now, and left for a later undo.

        ``target``: the state its entries were moved to, or ``edit`` if they only were edited.
        """
        edited = target == EDIT
        return self._script("unedit" if edited else "undo").call(
            self.keys,
            self.clock,
            lambda reply: (int(reply[0]), int(reply[1])),
            caller=by,
            seq=seq,
            op=op,
            step=step,
            **({} if edited else {"to": target}),
        )

    @operation
    async def accept(self, entries: Sequence[Entry], op: str) -> list[str]:
        """Take in entries of another queue of this kind, each in its state (of `accepts`).

        One word each: ok | exists (the id is here, nothing was changed) | same (it came by this
        very ``op``). Refused as a whole when the queue is full or draining.
        """
        raise Refused(f"queue {self.name} is a {self.kind} queue: it takes in no other's entries")

    @operation
    async def unlike(self, other: Queue[Any]) -> str:
        """Why entries of another queue of this kind can't go on here, in words; empty: they can."""
        return ""

    @operation
    async def configure(self, op: str, seq: int, changes: dict[str, str]) -> dict[str, str]:
        """Set settings or flags; an empty value removes. Returns what was there before or ''."""
        await self._enrol()
        return await self._configure(op, seq, changes)

    async def _configure(self, op: str, seq: int, changes: dict[str, str]) -> dict[str, str]:
        before = await self._script("configure").call(
            self.keys,
            self.clock,
            words,
            [(name, quote(value, safe="")) for name, value in changes.items()],
            caller=op,
            seq=seq,
        )
        return {
            name: "" if word == "-" else unquote(word)
            for name, word in zip(changes, before, strict=True)
        }

    @operation
    async def dismantle(self, max: int = 100) -> int:
        """Remove a bounded part of a queue that is being destroyed; 0 when nothing is left.

        Big keys are unlinked (freed off the server's main thread), never deleted in place.
        """
        gone = await self._dismantle(max)
        if gone:
            return gone
        ops = await scored(self.keys["ops"], "0", str(max - 1))
        parts = [f"{self.keys['op_']}{op}" for op, _ in ops]
        if not parts:
            parts = [self.keys[part] for part in (*FIXED, *self.parts)]
        else:
            key = self.keys["ops"]
            await Call(("ZREM", key, *(op for op, _ in ops)), int, key=key)
        return await Call(("UNLINK", *parts), int, key=parts[0])

    async def _dismantle(self, max: int) -> int:
        return 0

    @operation
    async def govern(
        self, op: str, seq: int, rule: str, client: str, value: int
    ) -> tuple[str, int]:
        """Change one of the `rules` of a client, as an operation; `invert` takes it back.

        Returns (``ok`` or ``same``, the value before).
        """
        raise Refused(f"queue {self.name} is a {self.kind} queue: it has no rules for clients")

    @operation
    async def invert(self, op: str, seq: int, verb: str, args: Sequence[str]) -> int:
        """Take back a change that moved no entries; how many things changed."""
        if verb == "accepted":  # to the trash, unless it was touched since
            high_water, id = args
            entry = await self.get.op(id)
            if entry is None or entry.state not in ("waiting", "delayed", "dead"):
                return 0
            said = await self.move.op(
                op, seq, [id], source=entry.state, target="trash", high_water_ms=int(high_water)
            )
            return said.count("moved")
        if verb != "set":
            raise Refused(f"nothing here knows how to take back {verb!r}")
        name, value = args
        await self._configure(op, seq, {name: unquote(value)})
        return 1

    @operation
    async def now(self) -> int:
        """The queue's clock: the server's, in ms."""
        return await self._now()

    def _counters(self, *names: str) -> Call[list[int]]:
        """Counters of the queue's ``stat`` hash."""
        key = self.keys["stat"]
        return Call(("HMGET", key, *names), lambda r: [int(v or 0) for v in r], key=key)

    def _flags(self) -> Call[list[str | None]]:
        """Why the queue is paused and why it is closed; None where it isn't."""

        def read(reply: list[bytes | None]) -> list[str | None]:
            return [None if flag is None else unquote(flag.decode()) for flag in reply]

        key = self.keys["cfg"]
        return Call(("HMGET", key, "paused", "closed"), read, key=key)

    async def _now(self) -> int:
        stamp = self.clock.stamp()
        return int(stamp) if stamp else await server_ms()


def checked_consumer(name: str) -> str:
    """A consumer's name; ``~`` is reserved for the groups' own."""
    checked_name(name, "consumer name")
    if name.startswith("~"):
        raise BadInput(f"consumer name {name!r}: names that begin with ~ are reserved")
    return name


def checked_ms(value: float, what: str) -> int:
    """A time or duration in whole milliseconds, none below 0.

    Scripts keep them as digits: a fraction, or one Lua would write as 1e+15, could never be read
    again and would stop the queue. Who gives microseconds is told so.
    """
    if not value < 10**14:
        raise BadInput(f"{what} of {value:.0f}: times are in ms, until the year 5138")
    return max(0, int(value))


def words(reply: list[bytes]) -> list[str]:
    return [word.decode() for word in reply]


def number(reply: Any) -> float | None:
    return None if reply is None else float(reply)


def _within(id: str, group: str) -> bool:
    return not group or id.rpartition("/")[0] == group


def _holding(entry: Entry, now: int) -> Holding:
    since, deadline = entry.since_ms, entry.at_ms
    return Holding(
        entry.id, entry.consumer, None if since is None else now - since,
        entry.attempts + 1 if entry.deliveries is None else entry.deliveries,
        None if deadline is None else now - deadline,
    )  # fmt: skip


def _cursor(text: str | None) -> tuple[float, str] | None:
    if text is None:
        return None
    score, _, member = text.partition(":")
    return float(score), member


def scored(key: str, *range_: str) -> Call[list[tuple[str, float]]]:
    return Call(("ZRANGE", key, *range_, "WITHSCORES"), _pairs, key=key)


def _pairs(reply: list[Any]) -> list[tuple[str, float]]:
    if reply and isinstance(reply[0], list):  # RESP3 nests the pairs, RESP2 doesn't
        return [(member.decode(), float(score)) for member, score in reply]
    return [(reply[i].decode(), float(reply[i + 1])) for i in range(0, len(reply), 2)]


async def members(key: str, page: int = 1000) -> list[str]:
    """All members of a sorted set in its order, by pages; for audits."""
    found: list[str] = []
    while True:
        rows = await scored(key, str(len(found)), str(len(found) + page - 1))
        found += [member for member, _ in rows]
        if len(rows) < page:
            return found


def _events(reply: Any) -> list[Event]:
    events = []
    for id, raw in reply:
        fields = {k.decode(): v.decode("utf-8", "backslashreplace") for k, v in raw.items()}
        at, by = int(fields.pop("t")), fields.pop("by")
        what = {name: tuple(items.split(" ")) for name, items in fields.items()}
        events.append(Event(id.decode(), at, by, what))
    return events

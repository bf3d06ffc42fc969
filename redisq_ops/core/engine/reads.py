"""What can be read of any queue: counts, pages of entries, one entry, rates, history, faults."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, ClassVar, cast
from urllib.parse import unquote

from ..model import record
from ..model.activity import FAR_MS, Activity, ConsumerSign
from ..model.consumer_load import (
    PENDING_PAGE,
    GroupLoad,
    PendingPage,
    PendingQuery,
    pending_delivery,
)
from ..model.cut_element import is_cut, length
from ..model.entry import Checkup, Counts, Entry, Event, Limit, Page, PageQuery, State, not_read
from ..model.errors import BadInput, RedisqError, WrongKind
from ..model.queue_position import OTHERS, SEEN, QueuePosition
from ..model.quoting import text
from ..model.rate_limit import RateLimit
from ..model.rates import Rates
from ..model.states import ZSETS
from ..redis.operation import C_co, Call, Description, operation, shortened, together
from ..redis.parsers import moment, number, optional, scored, spelt
from .queue_base import QueueBase
from .state_scan import ScoreRange, behind, page, positions
from .state_scan import spelt as spelt_position

_HOUR_MS = 3_600_000
TASK_SLICE_MS = 300_000
TASK_SLICES = 24 * 12 + 1
"""slices of counts by task that can be asked for"""
_HOURS = 26
"""hours for which per-minute counters can exist"""
_FEW_MINUTES = 6
"""minutes whose counters are read by their names, not with all of their hour"""
_NAMED = 20
"""corrupt records that a checkup names; it counts the others"""
_CHECKED = 500
"""records that a checkup reads at a time"""
_RATED_MS = 1_000
"""ms for which a rate counts as reached after it stopped an entry"""
RATES_S = 90_000
"""s after which an hour of per-minute counters expires; the same number is in `history.lua`"""


class QueueReads(QueueBase[C_co]):
    """Reads of a queue. They write nothing, run no script, and need read permission only.

    Each takes a fixed number of round trips, however many entries there are. Raises `WrongKind` for
    a key of another Redis type, `Unreadable` for a corrupt value, `Unreachable` without a server.
    """

    checked: ClassVar[Sequence[State]] = tuple(ZSETS)
    """states whose entries a thorough checkup reads"""
    checked_most: ClassVar[float] = math.inf
    """entries of a state that a thorough checkup reads at most"""

    @operation
    @abstractmethod
    async def counts(self, now_ms: int | None = None) -> Counts:
        """Number of entries in each state, and the flags ``paused`` and ``closed``.

        ``now_ms`` (the server's time in ms) saves a round trip where ready times matter.
        """

    @operation
    async def full_counts(self, now_ms: int | None = None) -> Counts:
        """`counts` with the numbers that need a search, for views of a single queue."""
        counts: Counts = await self.counts.op(now_ms)
        return counts

    @operation
    async def creation_options(self) -> dict[str, str]:
        """Options that were fixed when the queue was created, name -> value."""
        return {}

    @operation
    def page(
        self,
        state: State,
        cursor: str | None = None,
        max: int = 100,
        start: int | None = None,
        payloads: bool = False,
        glance: bool = False,
        brief: bool = False,
    ) -> Description[Page]:
        """Up to ``max`` entries of a state, in the order in which the server keeps them.

        ``cursor``: the `Page.cursor` of the page before; no entry is skipped or shown twice,
        whatever came or went between the two. ``start``: the rank of the first entry, for a window
        in a long list; raises `BadInput` beyond ``waiting_depth``. ``payloads``: also read
        payloads. ``glance``: for views that read again and again: long records of other programs
        may be left out, and their entries say so. ``brief``: payloads that would have to be made of
        other programs' records may be left out.
        """
        query = PageQuery(cursor, max, start, payloads, glance, brief and not payloads)
        return self._page_behind(state, query)

    def ranked(self, state: State) -> bool:
        """Whether a state's last entries by rank are its latest ones; else only `latest` finds
        these."""
        return True

    @operation
    async def latest(
        self,
        state: State,
        max: int = 100,
        payloads: bool = False,
        glance: bool = False,
        *,
        number: int | None = None,
    ) -> Page:
        """The latest ``max`` entries of a state, the latest last; fewer where these are large.

        ``payloads``, ``glance``: as of `page`. ``number``: how many entries the state has, if that
        was just read.
        """
        if number is None:
            # Counted by rank, as the entries are read: other pages count only what they show.
            number = (await self.page.op(state, max=1, start=0)).total
        first = number - max if number > max else 0
        return await self.page.op(state, None, max, first, payloads, glance)

    async def _page_behind(self, state: State, query: PageQuery) -> Page:
        try:
            return await self._bounded_page(state, query)
        except (ValueError, LookupError) as error:
            if query.cursor is None or isinstance(error, RedisqError):
                raise
            what = f"cursor {query.cursor!r:.60}"
            raise BadInput(f"{what} is none that a page of queue {self.name} had") from error

    async def _bounded_page(self, state: State, query: PageQuery) -> Page:
        """`_page`; ids and payloads that are too long arrive cut, and their entries say so."""
        page = await shortened(self._page(state, query))
        return replace(page, entries=tuple(map(record.without_cut, page.entries)))

    async def _page(self, state: State, query: PageQuery) -> Page:
        if state == "done":
            return Page((), None, 0)
        if state == "waiting":
            if self.waiting_depth is not None and (query.start or 0) > self.waiting_depth:
                what = f"start is at most {self.waiting_depth:,} for what waits in {self.name}"
                raise BadInput(f"{what}, not {query.start:,}: read on from a page's cursor")
            return await self._page_waiting(query)
        return await self._page_zset(state, ZSETS[state], query)

    async def _page_zset(
        self,
        state: State,
        part: str,
        query: PageQuery,
        above: float | None = None,
        up_to: float | None = None,
    ) -> Page:
        """A page of a sorted set; its cursor is a position, so a page is exact whatever moved.

        Only scores greater than ``above`` and at most ``up_to``, where these are given.
        """
        key, max, start = self.keys[part], query.max, query.start
        low = "-inf" if above is None else f"({spelt(above)}"
        total = Call(("ZCOUNT", key, low, "+inf" if up_to is None else spelt(up_to)), int, key=key)
        if start is None:
            begin, end = (None if at is None else behind(at) for at in (above, up_to))
            span = ScoreRange(query.cursor or begin, end)
            size, (rows, onward, _) = await together(total, page(key, span, None, max))
            more = onward is not None
        else:
            # By rank: Redis 7.0 walks an offset behind a score entry by entry.
            first = start
            if above is not None:
                first += await Call(("ZCOUNT", key, "-inf", spelt(above)), int, key=key)
            size, rows = await together(total, positions(key, first, first + max - 1))
            rows = rows[: size - start if size > start else 0]
            more = start + len(rows) < size
        found = [(text(member), score) for score, member in rows]
        entries = await self._entries(state, found, query.payloads)
        last = spelt_position(rows[-1]) if rows and more else None
        return Page(tuple(entries), last, size, scores=tuple(score for score, _ in rows))

    async def _entries(
        self, state: State, rows: Sequence[tuple[str, float | None]], payloads: bool = True
    ) -> list[Entry]:
        if not rows:
            return []
        ids = [id for id, _ in rows]
        (meta, errors), contents = await shortened(
            together(
                together(
                    Call(("HMGET", self.keys[part], *ids), list[Any], key=self.keys[part])
                    for part in ("meta", "err")
                ),
                self._payloads_or_errors(ids if payloads else ()),
            )
        )
        return [
            record.readable(id, state, score, line, error, payload)
            if not isinstance(payload, Exception)
            else Entry(id, state, at_ms=moment(score), problem=f"its payload is corrupt: {payload}")
            for (id, score), line, error, payload in zip(
                rows, meta, errors, contents or [None] * len(ids), strict=True
            )
        ]

    async def _payloads(self, ids: Sequence[str]) -> list[bytes | None]:
        if not ids:
            return []
        key = self.keys["body"]
        return await Call(("HMGET", key, *ids), list[bytes | None], key=key)

    async def _payloads_or_errors(self, ids: Sequence[str]) -> list[bytes | Exception | None]:
        """Payloads, in the order of ``ids``; an exception in the place of a corrupt one."""
        return [*await self._payloads(ids)]

    @abstractmethod
    async def _page_waiting(self, query: PageQuery) -> Page: ...

    @operation
    async def get(self, id: str) -> Entry | None:
        """One entry with its payload, whatever its state; None: the queue doesn't have it."""
        scores = await together(
            Call(("ZSCORE", self.keys[part], id), number, key=self.keys[part])
            for part in ZSETS.values()
        )
        for state, score in zip(ZSETS, scores, strict=True):
            if score is not None:
                return (await self._entries(state, [(id, score)]))[0]
        return await self._get_waiting(id)

    @operation
    async def get_many(self, ids: Sequence[str], likely: State | None = None) -> list[Entry | None]:
        """`get` for several ids: an entry or None for each, in their order.

        ``likely``: the state in which most are expected; some kinds look there first.
        """
        return await together(self.get.op(id) for id in ids)

    @operation
    async def glance_many(
        self, ids: Sequence[str], likely: State | None = None
    ) -> list[Entry | None]:
        """As `get_many`, without payloads that are long; None also for one that wasn't found."""
        return await self.get_many.op(ids, likely)

    @operation
    async def get_in(self, ids: Sequence[str], state: State) -> list[Entry | None]:
        """The entries of these ids in one state, with payloads; None for one that isn't there.

        Where another program has several entries of one id, an id named again is the next one."""
        found = await together(self.get.op(id) for id in ids)
        return [entry if entry and entry.state == state else None for entry in found]

    @abstractmethod
    async def _get_waiting(self, id: str) -> Entry | None: ...

    def _rate_keys(self, now_ms: int) -> list[str]:
        """Keys of the per-minute counters that can exist."""
        last = now_ms // _HOUR_MS
        return [f"{self.keys['rate_']}{hour}" for hour in range(last - _HOURS, last + 1)]

    def _task_keys(self, now_ms: int, slices: int = TASK_SLICES) -> list[str]:
        """The key of the releases, and those of the latest slices of counts by task."""
        last, base = now_ms // TASK_SLICE_MS, self.keys["task_"]
        return [base + "releases", *(f"{base}{n}" for n in range(last - slices + 1, last + 1))]

    @operation
    async def rates(self, now_ms: int, minutes: int = 60) -> Rates:
        """Arrived, settled and failed entries per minute, the oldest minute first.

        ``minutes``: how many before ``now_ms``; 24 hours are kept."""
        last = now_ms // 60_000
        wanted = range(last - minutes + 1, last + 1)
        found = await together(
            self._minute_counters(hour, [m % 60 for m in wanted if m // 60 == hour])
            for hour in range(wanted.start // 60, last // 60 + 1)
        )
        by_hour = dict(zip(range(wanted.start // 60, last // 60 + 1), found, strict=True))

        def series(name: str) -> tuple[int, ...]:
            return tuple([by_hour[m // 60].get(f"{m % 60}{name}", 0) for m in wanted])

        return Rates(series("i"), series("o"), series("f"))

    def _minute_counters(self, hour: int, minutes: Sequence[int]) -> Call[dict[str, int]]:
        """Counters of at least these minutes of an hour: minute and letter -> number."""
        key = f"{self.keys['rate_']}{hour}"
        if len(minutes) > _FEW_MINUTES:
            return Call(
                ("HGETALL", key),
                lambda reply: {k.decode(): int(v) for k, v in reply.items()},
                key=self.keys["rate_"],
            )
        names = [f"{minute}{letter}" for minute in minutes for letter in "iof"]
        return Call(
            ("HMGET", key, *names),
            lambda reply: {n: int(v) for n, v in zip(names, reply, strict=True) if v is not None},
            key=self.keys["rate_"],
        )

    @operation
    async def activity(self, since_ms: int, known_ms: int | None = None) -> Activity:
        """Whether the queue is worked on; `Activity.dead_lately` counts from ``since_ms`` on.

        ``known_ms``: up to when an operator acknowledged dead letters; None: nobody did.
        """
        lease, delay, dead = (self.keys[ZSETS[state]] for state in ("pending", "delayed", "dead"))
        ranges = [(delay, f"({since_ms + FAR_MS}"), (dead, f"{since_ms}")]
        ranges += [] if known_ms is None else [(dead, f"({known_ms}")]
        seen, times, (far, lately, *since) = await together(
            _callers(self.keys["callers"]),
            together(scored(key, "0", "0") for key in (lease, delay)),
            together(Call(("ZCOUNT", key, low, "+inf"), int, key=key) for key, low in ranges),
        )
        deadline, ready = (moment(rows[0][1]) if rows else None for rows in times)
        return Activity(
            seen.position.asked_ms,
            seen.position.askers,
            deadline,
            lately,
            ready_ms=ready,
            far_ahead=far,
            dead_since=since[0] if since else None,
            signs=seen.signs if seen.complete else None,
        )

    @operation
    def history(self, max: int = 100, before: str = "+") -> Call[list[Event]]:
        """Up to ``max`` history events, the newest first.

        ``before``: the id of the last event of the page before."""
        end = before if before == "+" else f"({before}"
        return Call(
            ("XREVRANGE", self.keys["hist"], end, "-", "COUNT", max),
            lambda reply: [_event(id.decode(), raw) for id, raw in reply],
            key=self.keys["hist"],
            cut=True,
        )

    @operation
    def history_length(self) -> Call[int]:
        """Number of events in the history."""
        return Call(("XLEN", self.keys["hist"]), int, key=self.keys["hist"])

    @operation
    async def unfinished_transfers(self) -> dict[str, int]:
        """Transfers from or to other queues that may still hold entries here: operation -> time of
        its last step (ms), the longest idle first. `transfer_recovery` finishes them.

        There are as many as operators began and nobody finished: a few.
        """
        found: dict[str, int] = {}
        keys = [each["unfinished"] for each in self.shard_keys]
        for rows in await together(scored(key, "0", "-1") for key in keys):
            for op, at in rows:
                found[op] = max(found.get(op, 0), moment(at) or 0)
        return dict(sorted(found.items(), key=lambda row: row[1]))

    @operation
    @abstractmethod
    async def invariants(self) -> list[str]:
        """Broken invariants, one sentence each; empty for a healthy queue. Reads all entries.

        On a live queue one call can report a violation by mistake: repeat it before you act.
        """

    @operation
    async def checkup(self, thorough: bool = False) -> Checkup:
        """Faults of the queue's data: keys of another type; with ``thorough`` also broken
        `invariants` and corrupt records, which takes time in proportion to the entries."""
        if wrong := await self._wrong_type_keys():
            flaws_ = (f"key {key} is a {is_} where a {kind} belongs" for key, is_, kind in wrong)
            return Checkup(tuple(flaws_))
        if not thorough:
            return Checkup()
        flaws = await shortened(self.invariants.op())
        corrupt, unread = list[str](), list[str]()
        orphans: dict[State, list[str]] = {}
        for state in self.checked:
            found, unseen = await self._unreadable(state)
            unread += unseen
            for entry in found:
                problem = entry.problem or ""
                if entry.orphan:
                    orphans.setdefault(state, []).append(entry.id)
                else:
                    corrupt.append(problem if entry.id in problem else f"{entry.id}: {problem}")
        if len(corrupt) > _NAMED:
            corrupt = [*corrupt[:_NAMED], f"{len(corrupt) - _NAMED:,} more records are corrupt"]
        not_read = "; ".join(dict.fromkeys(unread)) or None
        return Checkup((*flaws, *corrupt), not_read, orphans=orphans)

    @operation
    async def due_counts(self, edges: Sequence[int]) -> list[int]:
        """Number of entries that become due between each two neighbouring times (ms)."""
        key = self.keys["delay"]
        return await together(
            Call(("ZCOUNT", key, low, f"({high}"), int, key=key) for low, high in pairwise(edges)
        )

    @operation
    async def group_loads(self, group: str = "") -> list[GroupLoad]:
        """Pending and waiting entries of each consumer group; a queue without groups is one."""
        counts: Counts = await self.counts.op()
        return [GroupLoad("", counts.of("pending"), counts.of("waiting"))]

    @operation
    def pending_deliveries(
        self,
        group: str = "",
        max: int = PENDING_PAGE,
        consumer: str = "",
        after: str | None = None,
        glance: bool = False,
    ) -> Description[PendingPage]:
        """Deliveries that aren't settled, the next deadline first; of one ``group`` or of one
        ``consumer`` where they are given. ``after``: the `PendingPage.after` of the page before.
        ``glance``: as for `page`; an entry that isn't read has a placeholder as its id."""
        return self._pending_deliveries(PendingQuery(group, max, consumer, after, glance))

    async def _pending_deliveries(self, query: PendingQuery) -> PendingPage:
        read = self.page.op("pending", query.after, query.max, glance=query.glance)
        page, now = await together(read, self._now())
        if page.problem:
            raise WrongKind(page.problem)
        rows = tuple(
            pending_delivery(entry, now)
            for entry in page.entries
            if query.consumer in ("", entry.consumer)
            and (not query.group or entry.id.rpartition("/")[0] == query.group)
        )
        errors = {entry.id: entry.error for entry in page.entries if entry.error is not None}
        return PendingPage(rows, page.total, page.cursor, errors)

    @operation
    async def limits_reached(self, max: int = OTHERS) -> list[Limit]:
        """Requests or clients whose entries wait only because as many as allowed are pending, and
        the queue if its rate stopped entries that wait now or within the last second.

        The oldest ``max`` requests are read, or the first ``max`` clients by name. Paused requests
        and blocked clients aren't reported.
        """
        own, rated = await together(self._limits_reached(max), self._rate_reached())
        return [*rated, *own]

    async def _limits_reached(self, max: int) -> list[Limit]:
        return []

    async def rate_limit(self) -> RateLimit | None:
        """The rate at which the queue's entries are handed out; None: no limit."""
        key = self.keys["cfg"]
        kept = await Call(("HGET", key, "rate"), optional, key=key) if self.has_rate else None
        return RateLimit.kept(unquote(text(kept))) if kept else None

    async def _rate_reached(self) -> list[Limit]:
        limit = await self.rate_limit()
        if limit is None:
            return []
        now, parts = await self._now(), self.shard_queues
        counts, allowed = await together(
            self.counts.op(now),
            together(cast(Any, part)._next_by_rate(limit, now, len(parts)) for part in parts),
        )
        if not counts.waiting or counts.paused is not None or min(allowed) <= now - _RATED_MS:
            return []
        return [Limit("queue", self.name, limit.number, counts.waiting, str(limit))]

    def _next_by_rate(self, limit: RateLimit, now_ms: int, shards: int = 1) -> Call[int]:
        """See `RateLimit.next_ms`."""

        def read(earned: bytes | None) -> int:
            whole = int(earned) if earned and earned.isdigit() and len(earned) < 17 else 0
            return limit.next_ms(whole, now_ms, shards)

        return Call(("HGET", self.keys["stat"], "rate_at"), read, key=self.keys["stat"])

    @operation
    async def queue_position(self, id: str = "") -> QueuePosition:
        """What keeps an entry or request (without ``id``: any entry) from being handed out."""
        return await self._recent_consumers()

    async def _recent_consumers(self) -> QueuePosition:
        return await recent_consumers(self.keys["callers"])

    async def _unreadable(self, state: State) -> tuple[list[Entry], list[str]]:
        """The entries of a state whose records are corrupt or gone, and what was not read."""
        found, unseen, unread, read, cursor = list[Entry](), list[str](), 0, 0, None
        while True:
            page = await self.page.op(state, cursor, _CHECKED, glance=True)
            read += len(page.entries)
            unread += sum(entry.unread for entry in page.entries)
            unseen += [page.problem] if page.problem else []
            found += [entry for entry in page.entries if entry.problem and not entry.unread]
            cursor = page.cursor
            if cursor is not None and read >= self.checked_most:
                unseen.append(f"only the first {read:,} {state} entries of about {page.total:,}")
            if cursor is None or read >= self.checked_most:
                noun = "entry is" if unread == 1 else "entries are"
                long = [f"{unread:,} {state} {noun} too long for a check"] if unread else []
                return found, unseen + long


WORKER_FIELD = ":worker"
"""the end of a field of ``callers`` in which a worker of redisq registers: its value's second word
is the time of its last heartbeat"""
_TAKE_FIELD = ":take"
_EITHER = "*:[tw][ao][kr][ek]*"
"""matches both"""


@dataclass(frozen=True, slots=True)
class _Callers:
    """What the caller slots of a queue tell of its consumers; slots are kept for a day."""

    asked: Mapping[str, int]
    """consumer -> when it last took or tried to take entries (ms): also an idle worker asks"""
    beats: Mapping[str, int | None]
    """registered worker -> its last heartbeat (ms); None: its field is corrupt"""
    complete: bool
    """False: there are more than were read"""

    @property
    def position(self) -> QueuePosition:
        return QueuePosition(
            asked_ms=max(self.asked.values(), default=None),
            askers=len(self.asked),
            askers_all=self.complete,
        )

    @property
    def signs(self) -> tuple[ConsumerSign, ...]:
        """The latest sign of each consumer."""
        found = {name: ConsumerSign(name, at) for name, at in self.asked.items()}
        for name, beat in self.beats.items():
            seen = [at for at in (beat, self.asked.get(name)) if at is not None]
            found[name] = ConsumerSign(name, max(seen, default=None), beats=True)
        return tuple(found.values())


def _callers(key: str) -> Call[_Callers]:
    def read(reply: Any) -> _Callers:
        cursor, rows = reply
        pairs = (
            rows.items() if isinstance(rows, Mapping) else zip(rows[::2], rows[1::2], strict=True)
        )
        asked, beats = dict[str, int](), dict[str, int | None]()
        for field, value in ((text(field), value) for field, value in pairs):
            if field.endswith(_TAKE_FIELD):
                asked[field.removesuffix(_TAKE_FIELD)] = int(value.split(b" ", 2)[1])
            elif field.endswith(WORKER_FIELD):
                beat = value.split(b" ", 2)[1:2]
                known = int(beat[0]) if beat and beat[0].isdigit() else None
                beats[field.removesuffix(WORKER_FIELD)] = known
        return _Callers(asked, beats, int(cursor) == 0)

    return Call(("HSCAN", key, 0, "MATCH", _EITHER, "COUNT", SEEN), read, key=key)


async def recent_consumers(key: str) -> QueuePosition:
    """When a worker last took or tried to take entries, from a queue's caller slots."""
    return (await _callers(key)).position


def _event(id: str, raw: dict[bytes, bytes]) -> Event:
    """One event; an entry that another program wrote into the history is called ``foreign``."""
    fields = {_word(name): _word(value) for name, value in raw.items()}
    try:
        at, by = int(fields["t"]), fields["by"]
    except (KeyError, ValueError):
        return Event(id, int(id.partition("-")[0]), "-", {"foreign": tuple(fields)})
    what = {n: tuple(v.split(" ")) for n, v in fields.items() if n not in ("t", "by")}
    return Event(id, at, by, what)


def _word(part: bytes) -> str:
    return not_read(length(part)) if is_cut(part) else part.decode("utf-8", "backslashreplace")

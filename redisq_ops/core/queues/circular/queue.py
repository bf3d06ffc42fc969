"""The circular queue: ids in the order they were pushed, each known until it is processed.

From article 002, with its protocol corrected (docs/explanation/faults.md). By default a list has
the waiting ids and a sorted set the pending ones; the article's rotating list and its variants are
options (`Shape`). Keys beside the common ones: ``queue`` the list, ``body`` id → payload of all ids
in the queue, ``again`` ids that run once more after the present delivery, ``spent`` the number of
list elements that are void, ``transit`` entries on their way between two shards.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, replace
from typing import Any, ClassVar

from ...engine.idempotency import CallerSlots
from ...engine.operator_changes import OperatorChanges
from ...engine.optional_features import TakesEntries
from ...engine.queue import Queue
from ...engine.registry import Registered
from ...engine.state_scan import WaitingIds
from ...model.clock import Clock, Moment, Seconds, duration_ms
from ...model.entry import Counts, Entry, Page, PageQuery, State, TakeResult
from ...model.errors import BadInput, Refused
from ...model.keys import Keys
from ...model.queue_position import DEPTH, Ahead, QueuePosition
from ...model.retry_policy import RetryPolicy
from ...model.settings import MAX_PAYLOAD
from ...model.validation import PAIR, checked_pairs, listed, pair
from ...redis.operation import C_co, Call, Description, operation, together
from ...redis.parsers import number, row_words
from . import list_pages
from .element_names import name_of
from .list_pages import ListPosition
from .variants import Completed, Idle, Repeats, Residence, Shape, agreed, checked_options, recorded

_CALLED = {"pending": "in processing"}


class CircularQueue(TakesEntries[C_co]):
    """A first-in, first-out queue of ids that holds each id at most once.

    An id is the work (a page to fetch, a record to refresh), with an optional payload. A push of an
    id that waits already adds nothing; a push of one that is pending runs it once more afterwards.
    Any program may push ids with a plain ``LPUSH`` (see `queue_key`). Delivery is at least once.

        queue = CircularQueue(connect("redis://127.0.0.1:6379/0"), "pages")
        queue.push(["https://example.org/", ("https://example.org/a", b"payload")])
        Worker(queue, lambda work: print(work.id), burst=True).run()

    ``residence``, ``completed``, ``repeats``, ``idle``: how the queue is laid out, see `Shape`; set
    when it is created, `WrongKind` where it has another value. ``turns``, ``pause``: of this
    process: after ``turns`` empty takes (``idle="sleep"``) or an empty lap (``idle="lap"``) a
    worker looks again after ``pause`` (seconds or a timedelta).
    """

    public: ClassVar[tuple[str, ...]] = ("push", "queue_key")
    kind: ClassVar[str] = "circular"
    pushes_again: ClassVar[bool] = True
    package: ClassVar[str] = "queues.circular"
    key_types: ClassVar[dict[str, str]] = {
        "queue": "list",
        **dict.fromkeys(("body", "again", "spent", "transit"), "hash"),
        "seen": "zset",
    }
    importable_states: ClassVar[frozenset[State]] = frozenset({"waiting", "delayed", "dead"})

    def __init__(
        self,
        client: C_co,
        name: str = "default",
        *,
        residence: Residence | None = None,
        completed: Completed | None = None,
        repeats: Repeats | None = None,
        idle: Idle | None = None,
        turns: int = 3,
        pause: Seconds = 0.2,
        prefix: str | None = None,
        retry: RetryPolicy | None = None,
        clock: Clock | None = None,
        callers: CallerSlots | None = None,
        shard: int = 0,
        layout: int = 0,
    ) -> None:
        super().__init__(
            client,
            name,
            prefix=prefix,
            retry=retry,
            clock=clock,
            callers=callers,
            shard=shard,
            layout=layout,
        )
        self._configured(
            turns, pause, residence=residence, completed=completed, repeats=repeats, idle=idle
        )

    def _configured(self, turns: int, pause: Seconds, **options: str | None) -> None:
        if not isinstance(turns, int) or isinstance(turns, bool) or turns < 1:
            raise BadInput(f"turns must be an int, at least 1, not {turns!r:.60}")
        self.options = checked_options(options)
        self.shape = Shape(**self.options)
        """the layout of the queue, or the one to create it with"""
        self.turns, self.pause_ms = turns, duration_ms(pause, "pause", 1)
        self._empty: Counter[str] = Counter()

    @property
    def queue_key(self) -> str:
        """The key of the list, to which any program can LPUSH ids."""
        return self.keys["queue"]

    @operation
    async def exists(self) -> bool:
        """Whether the queue is registered, or another program has pushed to its list."""
        if self._registered:
            return True
        key = self.queue_key
        there, listed = await together(Queue.exists(self), Call(("EXISTS", key), bool, key=key))
        return there or listed

    async def _is_marked(self, entry: Registered) -> bool:
        # Before the mark: whoever finds the mark reads the shape.
        self.shape = await self._settled_shape(self.shard_keys)
        return await Queue._is_marked(self, entry)

    async def _settled_shape(self, places: Sequence[Keys]) -> Shape:
        """The shape of the queue; a new queue gets it now. Raises `WrongKind` where they differ."""
        there = await together(recorded(keys) for keys in places)
        found, wish = there[0], (there[0] or self.shape).encoded()  # or as it was before a loss
        # Written only where it is missing: a full server refuses writes, and workers must go on.
        rows = zip(places, there, strict=True)
        if new := [keys["cfg"] for keys, shape in rows if shape is None]:
            # If two processes create the queue, one wins, and both read what it wrote.
            await together(Call(("HSETNX", key, "circle", wish), int, key=key) for key in new)
            found = await recorded(places[0])
        if found is None:
            raise Refused(f"queue {self.name} was removed while it was being created")
        return agreed(self.name, found, self.options)

    @operation
    async def creation_options(self) -> dict[str, str]:
        return asdict(await recorded(self.keys) or Shape())

    # --- producers -----------------------------------------------------------------------------

    @operation
    async def push(
        self, entries: str | Iterable[str | tuple[str, bytes]], *, max_payload: int = MAX_PAYLOAD
    ) -> list[str]:
        """Push ids, or (id, payload) pairs: up to 500. Returns one word for each, in their order.

        ``new``: it waits now, also when it was dead or in the trash. ``queued``: it waited already;
        it keeps its place and gets this payload. ``again``: it is pending and runs once more
        afterwards (with ``repeats="each"`` also when it waits). Raises `BadInput` and `TooLarge`
        before anything is sent, `QueueFull`, `QueueClosed`.

            queue.push([("page-1", b"payload"), "page-2"])
        """
        given = listed([entries] if isinstance(entries, str) else entries, "ids")
        wanted = f"an id (str), or {PAIR}"
        rows = [
            (each, b"") if isinstance(each, str) else pair(each, nth, wanted)
            for nth, each in enumerate(given, 1)
        ]
        checked_pairs(rows, "entry", max_payload)
        if not rows:
            return []
        await self._ensure_registered()
        if self.shape.repeats == "each" and any(payload for _, payload in rows):
            raise BadInput(
                "with repeats='each' ids have no payloads: equal ids couldn't have different ones"
            )
        replies = await self._push(rows)
        if "elsewhere" in replies:
            raise Refused(f"queue {self.name} has shards now: open it as a sharded queue")
        return replies

    async def _add_entries(
        self,
        entries: Sequence[tuple[str, bytes]],
        client: str | None,
        at: Moment | None,
        after: Seconds | None,
    ) -> list[str]:
        words = await self.push.op(entries)
        return ["same" if word == "queued" else "ok" for word in words]

    async def _push(self, rows: Sequence[tuple[str, bytes]]) -> list[str]:
        replies: list[str] = await self._call_idempotent(
            "push", row_words(len(rows)), rows, layout=self.layout
        )
        return replies

    @operation
    async def transfer_obstacle(self, other: OperatorChanges[Any]) -> str:
        """Queues with another ``repeats`` keep other data about what runs again."""
        shapes = await together(recorded(queue.keys) for queue in (self, other))
        here, there = ((shape or Shape()).repeats for shape in shapes)
        if here == there:
            return ""
        return f"{self.name} has repeats={here}, {other.name} repeats={there}"

    # --- workers -------------------------------------------------------------------------------

    def _read_take(self, reply: list[Any], consumer: str) -> TakeResult:
        taken = Queue._read_take(self, reply, consumer)
        return self._paced(taken, consumer, taken.look_again_ms)

    def _paced(self, taken: TakeResult, consumer: str, now_ms: int | None) -> TakeResult:
        """Say when to look again after an empty take, where producers don't wake workers."""
        idle = self.shape.idle
        if taken.deliveries or taken.more or idle == "wake" or now_ms is None:
            self._empty.pop(consumer, None)
            return taken
        self._empty[consumer] += 1
        if idle == "sleep" and self._empty[consumer] < self.turns:
            return replace(taken, look_again_ms=None, more=True)
        return replace(taken, look_again_ms=now_ms + self.pause_ms)

    # --- looking -------------------------------------------------------------------------------

    @operation
    async def counts(self, now_ms: int | None = None) -> Counts:
        sizes, stats, flags, shape = await together(
            together(
                Call((command, self.keys[part]), int, key=self.keys[part])
                for command, part in (
                    ("LLEN", "queue"),
                    ("ZCARD", "lease"),
                    ("ZCARD", "delay"),
                    ("ZCARD", "dead"),
                    ("ZCARD", "trash"),
                )
            ),
            self._counters("done", "spent", "sentinel"),
            self._flags(),
            recorded(self.keys),
        )
        listed, pending, delayed, dead, trash = sizes
        done, spent, sentinel = stats
        waiting = listed - spent
        if shape is not None and shape.residence == "rotate":
            waiting -= pending + delayed + bool(sentinel)
        # The numbers are read one after another: an entry that moved meanwhile must not show as -1.
        return Counts(
            max(0, waiting), pending, delayed, dead, trash, done, None, flags[0], flags[1]
        )

    async def _page_waiting(self, query: PageQuery) -> Page:
        line, total = await self._lined(query)
        rows: list[tuple[str, float | None]] = [(name, None) for name in line.names]
        entries = await self._entries("waiting", rows, query.payloads or bool(line.unmet))
        shown = (
            replace(entry, payload=line.unmet.get(id))
            if entry.payload is None and not entry.unread
            else entry
            for id, entry in zip(line.ids, entries, strict=True)
        )
        return Page(tuple(shown), line.cursor, total, problem=line.problem)

    async def _waiting_ids(self, query: PageQuery) -> WaitingIds:
        return (await self._lined(query))[0]

    async def _lined(self, query: PageQuery) -> tuple[WaitingIds, int]:
        """The result of `_waiting_ids`, and the number of waiting entries."""
        body = self.keys["body"]
        counts, shape, there = await together(
            self.counts.op(0), recorded(self.keys), Call(("HLEN", body), int, key=body)
        )
        place = ListPosition.decoded(query.cursor) if query.cursor is not None else None
        rotates = shape is not None and shape.residence == "rotate"
        elements, then, unread = await list_pages.waiting(
            self.keys, rotates, place, query.start or 0, query.max
        )
        ids = [name_of(raw).encode() for raw in elements]
        known = there - counts.pending - counts.delayed - counts.dead - counts.trash
        unmet = {}
        if counts.waiting > known:  # no payload of ours: an element that is no id is its own
            rows = zip(ids, elements, strict=True)
            unmet = {id: b"" if id == raw else raw for id, raw in rows}
        onward = None if then is None else str(then)
        return WaitingIds(ids, onward, unread=tuple(unread), unmet=unmet), counts.waiting

    async def _entries(
        self, state: State, rows: Sequence[tuple[str, float | None]], payloads: bool = True
    ) -> list[Entry]:
        entries = await Queue._entries(self, state, rows, payloads)
        called = _CALLED.get(state)
        return [replace(entry, called=called) for entry in entries] if called else entries

    def _columns(
        self, state: State, ids: Sequence[str], want: frozenset[str]
    ) -> dict[str, Description[Any]]:
        columns = Queue._columns(self, state, ids, want)
        if "called" in want and state in _CALLED:
            columns["called"] = self._alike(_CALLED[state], len(ids))
        return columns

    async def _alike(self, word: str, n: int) -> list[str | None]:
        return [word] * n

    async def _get_waiting(self, id: str) -> Entry | None:
        key = self.keys["body"]
        if not await Call(("HEXISTS", key, id), bool, key=key):
            return None
        return (await self._entries("waiting", [(id, None)]))[0]

    @operation
    async def queue_position(self, id: str = "") -> QueuePosition:
        """The id's place in the list; void elements, and pending ones of a rotating list, count."""
        key = self.queue_key
        place = Call(("LPOS", key, id, "RANK", -1, "MAXLEN", DEPTH), number, key=key)
        askers, at, listed, spent, shape = await together(
            self._recent_consumers(),
            place,
            Call(("LLEN", key), int, key=key),
            self._counters("spent"),
            recorded(self.keys),
        )
        if at is None:
            return askers
        exact = not spent[0] and (shape is None or shape.residence == "list")
        before = listed - 1 - int(at)
        ahead = (Ahead("elements of the list", before, exact),) if before > 0 else ()
        return replace(askers, here=True, ahead=ahead, before=max(0, before), before_exact=exact)

    @operation
    async def invariants(self) -> list[str]:
        from .invariants import violations

        return await violations(self)

"""The fair queue: a list of entries for each client; clients take turns.

From article 004, with its protocol corrected (docs/explanation/faults.md). Start-time fair
queueing: with k busy clients each gets every k-th delivery, a client of weight 3 three times as
many, however many entries each has waiting. First in, first out within a client.

Keys beside the common ones (docs/explanation/fair-queue.md): ``c:<client>`` its waiting ids,
``f:<client>`` their front part while the list is compacted, ``body`` id → client and payload,
``owner`` delivered id → client, ``accounts`` client → counts and rules, ``clients`` those by name,
``ring`` those that can be served, ``holes`` ids in lists that don't wait there, ``packing`` lists
with too many holes, ``resting`` those at their rate, ``result`` and ``result_at`` what handlers
returned.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from ...engine.entry_results import EntryResults
from ...engine.optional_features import TakesEntries
from ...engine.queue import Queue
from ...engine.state_scan import WaitingIds
from ...model.clock import Moment, Seconds
from ...model.cut_element import is_cut, length, name
from ...model.entry import Counts, Delivery, Entry, Page, PageQuery, State, not_read
from ...model.errors import Refused
from ...model.keys import checked_name
from ...model.queue_position import QueuePosition
from ...model.quoting import text
from ...model.settings import BATCH, MAX_PAYLOAD
from ...model.states import ZSETS
from ...model.ulid import ulids
from ...model.validation import PAIR, PAYLOAD, checked_pairs, listed, pair
from ...redis.operation import C_co, Call, Description, operation, shortened, together
from ...redis.parsers import row_words, words
from . import waiting_pages
from .client import ClientQueue
from .client_rules import ClientRules


@dataclass(frozen=True, slots=True)
class SubmittedEntry:
    """The reply to the submission of one entry."""

    id: str
    word: str
    """``ok``; ``same``: the same entry is there; ``trash``: it is in the trash; ``exists``: another
    entry has the id"""


@dataclass(frozen=True, slots=True)
class Deleted:
    """The result of `FairQueue.delete`."""

    op: str
    """the operation, for `undo`"""
    steps: int
    """its number of steps"""
    entries: int
    """entries that it moved to the trash"""


class FairQueue(ClientRules[C_co], EntryResults[C_co], TakesEntries[C_co]):
    """A queue in which clients take turns, so none waits because another submitted a lot.

    Every entry belongs to a client and has an id and a payload. A client has a weight (its share of
    the turns), a cap (how many of its entries may be pending), and can be blocked. Delivery is at
    least once, in the order of submission within a client.

        queue = FairQueue(connect("redis://127.0.0.1:6379/0"), "jobs")
        queue.submit("acme", [b"payload", ("my-id", b"another")])
        queue.weigh("acme", 3)

    >>> FairQueue(None, "jobs").keys["c_"]
    'redisq:{jobs}:c:'
    """

    public: ClassVar[tuple[str, ...]] = (
        *(
            "submit",
            "outcomes",
            "of",
            "clients",
            "get_client",
            "length",
            "weigh",
            "limit",
            "rate",
            "block",
        ),
        *("unblock", "delete"),
    )
    kind: ClassVar[str] = "fair"
    of_clients: ClassVar[bool] = True
    package: ClassVar[str] = "queues.fair"
    importable_states: ClassVar[frozenset[State]] = frozenset({"waiting"})
    key_types: ClassVar[dict[str, str]] = {
        **EntryResults.key_types,
        **dict.fromkeys(("body", "owner", "accounts", "holes"), "hash"),
        **dict.fromkeys(("clients", "ring", "packing", "resting"), "zset"),
    }

    # --- producers -----------------------------------------------------------------------------

    @operation
    async def submit(
        self,
        client: str,
        entries: Iterable[bytes | tuple[str, bytes]],
        *,
        max_payload: int = MAX_PAYLOAD,
    ) -> list[SubmittedEntry]:
        """Submit entries of a client: payloads (each gets a new id) or (id, payload) pairs.

        Up to 500; ``client``: 1 to 128 printable ASCII characters; ``max_payload``: bytes. Returns
        a `SubmittedEntry` for each, in their order. Safe to repeat with ids: an id that is there
        with the same client and payload answers ``same``, or ``trash`` if it was purged and can be
        restored; with others ``exists``. None of these changes anything. An id is free again once
        its entry is done. Raises `BadInput` and `TooLarge` before anything is sent, `QueueFull`,
        `QueueClosed`.

            queue.submit("acme", [("my-id", b"payload")])
        """
        checked_name(client, "client name")
        given = listed(entries, "entries")
        fresh, wanted = iter(ulids(len(given))), f"{PAYLOAD}, or {PAIR}"
        pairs = [
            (next(fresh), each) if isinstance(each, bytes) else pair(each, nth, wanted)
            for nth, each in enumerate(given, 1)
        ]
        checked_pairs(pairs, "entry", max_payload)
        if not pairs:
            return []
        await self._ensure_registered()
        theirs = {each[0] for each in given if not isinstance(each, bytes)}
        replies = await self._submit(client, pairs, theirs)
        if any(one.word == "elsewhere" for one in replies):
            raise Refused(f"queue {self.name} has shards now: open it as a sharded queue")
        return replies

    async def _add_entries(
        self,
        entries: Sequence[tuple[str, bytes]],
        client: str | None,
        at: Moment | None,
        after: Seconds | None,
    ) -> list[str]:
        assert client is not None
        return [one.word for one in await self.submit.op(client, entries)]

    async def _submit(
        self, client: str, pairs: Sequence[tuple[str, bytes]], given: Collection[str]
    ) -> list[SubmittedEntry]:
        """``given``: the ids that the caller chose; the others are new."""

        def read(reply: list[bytes]) -> list[SubmittedEntry]:
            return [SubmittedEntry(id, w) for (id, _), w in zip(pairs, each(reply), strict=True)]

        each = row_words(len(pairs))
        rows = [(id, packed(client, payload)) for id, payload in pairs]
        done: list[SubmittedEntry] = await self._call_idempotent(
            "submit", read, rows, client=client, layout=self.layout
        )
        return done

    # --- clients -------------------------------------------------------------------------------

    def of(self, client: str) -> ClientQueue[C_co]:
        """An object for one client: the same operations without the client's name."""
        return ClientQueue(self, client)

    @operation
    async def delete(self, client: str, op: str, max: int = BATCH) -> Deleted:
        """Move a client's waiting entries to the trash, ``max`` at a step. Pending ones stay.

        ``op``: a name for the operation; a call with the same name continues it. To undo it, call
        ``undo(op, step, target="trash", …)`` for its steps, the last one first.
        """
        now = await self._now()
        journal = self.keys["op_"] + op
        steps = await Call(("HGET", journal, "steps"), lambda n: int(n or 0), key=journal)
        gone = 0
        for part in self._holders():
            behind, more = None, True
            while more:
                seen = await waiting_pages.window(part, client, behind, max)
                behind, more = seen.last, seen.more
                if seen.live:
                    steps += 1
                    ids = [text(id) for _, id in seen.live]
                    replies = await self.move.op(
                        op,
                        steps,
                        ids,
                        source="waiting",
                        target="trash",
                        high_water_ms=now,
                    )
                    gone += replies.count("moved")
        return Deleted(op, steps, gone)

    def _holders(self) -> Sequence[FairQueue[Any]]:
        """The queues in which a client may have entries waiting."""
        return [self]

    # --- workers -------------------------------------------------------------------------------

    def _deliveries(
        self,
        consumer: str,
        ids: Sequence[str],
        receipts: Sequence[str],
        payloads: Sequence[bytes],
        deadline_ms: int,
    ) -> list[Delivery]:
        name = self.name
        return [
            Delivery(name, id, payload, receipt, deadline_ms, 0, 0, consumer, client)
            for id, receipt, (client, payload) in zip(
                ids, receipts, map(unpacked, payloads), strict=True
            )
        ]

    # --- looking -------------------------------------------------------------------------------

    @operation
    async def counts(self, now_ms: int | None = None) -> Counts:
        """`Counts.oldest_ms` is None: the queue doesn't store when an entry was submitted."""
        sizes, counters, (paused, closed) = await together(
            together(
                Call(("ZCARD", self.keys[part]), int, key=self.keys[part])
                for part in ZSETS.values()
            ),
            self._counters("waiting", "done"),
            self._flags(),
        )
        pending, delayed, dead, trash = sizes
        waiting, done = counters
        return Counts(waiting, pending, delayed, dead, trash, done, None, paused, closed)

    async def _entries(
        self, state: State, rows: Sequence[tuple[str, float | None]], payloads: bool = True
    ) -> list[Entry]:
        if not rows:
            return []
        key = self.keys["owner"]
        entries, owners = await together(
            Queue._entries(self, state, rows, payloads),
            Call(("HMGET", key, *(id for id, _ in rows)), list[bytes | None], key=key),
        )
        return [
            replace(entry, client=name(owner) if owner else None)
            for entry, owner in zip(entries, owners, strict=True)
        ]

    def _columns(
        self, state: State, ids: Sequence[str], want: frozenset[str]
    ) -> dict[str, Description[Any]]:
        columns = Queue._columns(self, state, ids, want)
        if "clients" in want:
            key = self.keys["owner"]
            columns["clients"] = Call(("HMGET", key, *ids), list[Any], key=key)
        return columns

    async def _payloads(self, ids: Sequence[str]) -> list[bytes | None]:
        return [None if body is None else unpacked(body)[1] for body in await self._bodies(ids)]

    async def _payloads_or_errors(self, ids: Sequence[str]) -> list[bytes | Exception | None]:
        return [_payload_or_error(body) for body in await self._bodies(ids)]

    async def _bodies(self, ids: Sequence[str]) -> list[bytes | None]:
        return await Queue._payloads(self, ids)

    async def _page_waiting(self, query: PageQuery) -> Page:
        """Clients by name, each client's entries in the order of its list.

        A window by rank (``start``) is off by the number of holes before it.
        """
        line, (total,) = await together(self._waiting_ids(query), self._counters("waiting"))
        found = await self._entries("waiting", [(id, None) for id in line.names], query.payloads)
        owned = zip(found, line.clients or (), strict=True)
        entries = (replace(entry, client=client) for entry, client in owned)
        return Page(tuple(entries), line.cursor, total, problem=line.problem)

    async def _waiting_ids(self, query: PageQuery) -> WaitingIds:
        return await waiting_pages.page(self, query)

    async def _get_waiting(self, id: str) -> Entry | None:
        (body,) = await shortened(self._bodies([id]))
        if body is None:
            return await EntryResults._get_waiting(self, id)
        client, payload = unpacked(body)
        (entry,) = await self._entries("waiting", [(id, None)], payloads=False)
        if is_cut(body):
            return replace(entry, client=client, problem=not_read(length(body)))
        return replace(entry, client=client, payload=payload)

    async def _destroy_entries(self, max: int) -> int:
        key = self.keys["clients"]
        names = await Call(("ZRANGE", key, 0, max - 1), words, key=key)
        if not names:
            return 0
        lists = [self.keys[part] + name for name in names for part in ("c_", "f_")]
        gone = await Call(("UNLINK", *lists), int, key=lists[0])
        accounts = self.keys["accounts"]
        await Call(("HDEL", accounts, *names), int, key=accounts)
        return gone + await Call(("ZREM", key, *names), int, key=key)

    @operation
    async def queue_position(self, id: str = "") -> QueuePosition:
        ring, owner = self.keys["ring"], self.keys["owner"]
        askers, served, owners, bodies = await together(
            self._recent_consumers(),
            Call(("ZCARD", ring), int, key=ring),
            Call(("HMGET", owner, id), list[bytes | None], key=owner),
            self._bodies([id] if id else []),
        )
        client = text(owners[0]) if owners[0] else unpacked(bodies[0])[0] if any(bodies) else ""
        if not client:
            return replace(askers, open=served)
        return await waiting_pages.queue_position(self, client, id, replace(askers, open=served))

    @operation
    async def invariants(self) -> list[str]:
        from .invariants import violations

        return await violations(self)


def packed(client: str, payload: bytes) -> bytes:
    """The stored value of an entry: its client, a space, its payload."""
    return b"%b %b" % (client.encode(), payload)


def _payload_or_error(body: bytes | None) -> bytes | Exception | None:
    """The payload in a stored value, or the error that the client's name is not UTF-8."""
    if body is None:
        return None
    client, _, payload = body.partition(b" ")
    try:
        client.decode()
    except ValueError as error:
        return error
    return payload


def unpacked(body: bytes | None) -> tuple[str, bytes]:
    """The client and the payload in a stored value; both empty for None."""
    client, _, payload = (body or b"").partition(b" ")
    return text(client), payload

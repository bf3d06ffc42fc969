"""The fair queue: a list of entries per client, served in turn.

From article 004, with its protocol mended (docs/explanation/faults.md). Clients take turns by
start-time fair
queueing: with k busy clients each gets every k-th delivery, a client of weight 3 three times as
many, whatever each has waiting. FIFO inside a client.

Keys beside the common ones (docs/explanation/fair-queue.md): ``c:<client>`` its waiting ids,
``f:<client>``
their front part while the list is packed, ``body`` id → client and payload, ``owner`` delivered
id → client, ``accounts`` client → counts and rules, ``clients`` those by name, ``ring`` those that
can be served, ``holes`` ids in lists that don't wait there, ``packing`` lists with too many.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, cast

from ...engine.queue import Queue
from ...engine.state_scan import WaitingIds
from ...model.entry import Client, Clients, Counts, Delivery, Entry, Limit, Page, State
from ...model.errors import BadInput, Refused
from ...model.keys import checked_name
from ...model.queue_position import OTHERS, Standing
from ...model.quoting import text
from ...model.settings import BATCH, MAX_PAYLOAD
from ...model.states import ZSETS
from ...model.validation import PAIR, PAYLOAD, checked_pairs, listed, pair
from ...redis.operation import C_co, Call, Description, both, operation, together
from ...redis.parsers import row_words, words
from . import waiting_pages
from .account import Account
from .client import ClientQueue
from .ids import new_ids

MAX_WEIGHT = 100
Rule = Literal["weight", "cap", "blocked"]


@dataclass(frozen=True, slots=True)
class SubmittedEntry:
    """What became of one entry: ok | same (it is there) | exists (its id is taken)."""

    id: str
    word: str


@dataclass(frozen=True, slots=True)
class Deleted:
    """What a deletion did: its name, in how many steps, and how many entries are in the trash."""

    op: str
    steps: int
    entries: int


class FairQueue(Queue[C_co]):
    """Entries of clients that take turns, with a lease per delivery.

    >>> FairQueue(None, "jobs").keys["c_"]
    'rq:{jobs}:c:'
    """

    kind: ClassVar[str] = "fair"
    room: ClassVar[str] = "queues.fair"
    capabilities: ClassVar[frozenset[str]] = frozenset({"clients"})
    accepts: ClassVar[frozenset[State]] = frozenset({"waiting"})
    rules: ClassVar[Mapping[str, range]] = {
        "weight": range(1, MAX_WEIGHT + 1), "cap": range(10**9), "blocked": range(2)
    }  # fmt: skip
    parts: ClassVar[dict[str, str]] = {
        **dict.fromkeys(("body", "owner", "accounts", "holes"), "hash"),
        **dict.fromkeys(("clients", "ring", "packing"), "zset"),
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
        """Put a client's entries in, behind what it has waiting: payloads, or (id, payload) pairs.

        Without an id an entry gets a new one. An id that is there with the same client and payload
        answers ``same``, any other ``exists``, and neither changes anything. An id is free again
        when its entry is done.
        """
        checked_name(client, "client name")
        given = listed(entries, "entries")
        fresh, wanted = iter(new_ids(len(given))), f"{PAYLOAD}, or {PAIR}"
        pairs = [
            (next(fresh), each) if isinstance(each, bytes) else pair(each, nth, wanted)
            for nth, each in enumerate(given, 1)
        ]
        checked_pairs(pairs, "entry", max_payload)
        if not pairs:
            return []
        await self._enrol()
        theirs = {each[0] for each in given if not isinstance(each, bytes)}
        said = await self._submit(client, pairs, theirs)
        if any(one.word == "elsewhere" for one in said):
            raise Refused(f"queue {self.name} has shards now: open it as a sharded queue")
        return said

    async def _submit(
        self, client: str, pairs: Sequence[tuple[str, bytes]], given: Collection[str]
    ) -> list[SubmittedEntry]:
        """``given``: the ids that aren't ours, and so may be taken."""

        def read(reply: list[bytes]) -> list[SubmittedEntry]:
            return [SubmittedEntry(id, w) for (id, _), w in zip(pairs, each(reply), strict=True)]

        each = row_words(len(pairs))
        rows = [(id, together_with(client, payload)) for id, payload in pairs]
        done: list[SubmittedEntry] = await self._guarded(
            "submit", read, rows, client=client, layout=self.layout
        )
        return done

    @operation
    async def accept(self, entries: Sequence[Entry], op: str) -> list[str]:
        await self._enrol()
        said: dict[str, str] = {}
        for client in dict.fromkeys(entry.client or "" for entry in entries):
            pairs = [(e.id, e.payload or b"") for e in entries if e.client == client]
            put = await self._submit(client, pairs, {id for id, _ in pairs})
            said |= {one.id: one.word for one in put}
        if "elsewhere" in said.values():
            raise Refused(f"queue {self.name} has shards now: open it as a sharded queue")
        return ["ok" if said[entry.id] == "ok" else "exists" for entry in entries]

    # --- clients -------------------------------------------------------------------------------

    def of(self, client: str) -> ClientQueue[C_co]:
        """One client's part of the queue, by itself."""
        return ClientQueue(self, client)

    @operation
    async def clients(self, start: int = 0, max: int = BATCH) -> Clients:
        """Clients that have something waiting or pending, or rules of their own, by name."""
        key = self.keys["clients"]
        names, total = await both(
            Call(("ZRANGE", key, start, start + max - 1), words, key=key),
            Call(("ZCARD", key), int, key=key),
        )
        found = await self._accounts(names)
        return Clients(tuple(a.shown(name) for name, a in found.items() if a is not None), total)

    @operation
    async def limits_reached(self, max: int = OTHERS) -> list[Limit]:
        return [
            Limit("client", one.client, one.cap, one.waiting)
            for one in (await self.clients.op(0, max)).clients
            if one.waiting and not one.blocked and one.cap and one.pending >= one.cap
        ]

    @operation
    async def client_of(self, client: str) -> Client | None:
        """A client as it stands; None when it has nothing waiting or pending, and no rules."""
        found = (await self._accounts([client]))[client]
        return None if found is None else found.shown(client)

    @operation
    async def length(self, client: str) -> int:
        """How many entries of a client wait."""
        found = await self.client_of.op(client)
        return 0 if found is None else found.waiting

    async def _accounts(self, names: Sequence[str]) -> dict[str, Account | None]:
        if not names:
            return {}
        key = self.keys["accounts"]
        lines = await Call(("HMGET", key, *names), list[bytes | None], key=key)
        return {name: Account.read(line) for name, line in zip(names, lines, strict=True)}

    @operation
    async def weigh(self, client: str, weight: int) -> int:
        """How many turns a client gets where another gets one (1–100); what it was before."""
        if weight not in self.rules["weight"]:
            raise BadInput(f"weight {weight}: 1 to {MAX_WEIGHT}")
        return await self._govern("weight", client, weight)

    @operation
    async def limit(self, client: str, cap: int) -> int:
        """At most ``cap`` entries of a client pending at a time, 0: any; what it was before.

        What is pending already stays so.
        """
        if cap not in self.rules["cap"]:
            raise BadInput(f"cap {cap}: 0 (none) or more")
        return await self._govern("cap", client, cap)

    @operation
    async def block(self, client: str) -> bool:
        """Hand out nothing more of a client; whether that is new. Its submissions still wait."""
        return not await self._govern("blocked", client, 1)

    @operation
    async def unblock(self, client: str) -> bool:
        """Serve a client again, from the present turn on; whether it was blocked."""
        return bool(await self._govern("blocked", client, 0))

    async def _govern(self, rule: Rule, client: str, value: int) -> int:
        checked_name(client, "client name")
        await self._enrol()
        said: list[str] = await self._guarded(
            "set_client_rule", words, rule=rule, client=client, value=value, was=""
        )
        return int(said[1])

    @operation
    def control(
        self, op: str, seq: int, rule: Rule, client: str, value: int, since: int | None = None
    ) -> Call[tuple[str, int]]:
        """`weigh`, `limit`, `block` and `unblock` as an operator's change that can be taken back.

        Only where it still is ``since``, if that is given. Returns (``ok``, ``same`` or
        ``changed``: it is not; and the value before).
        """
        checked_name(client, "client name")
        return self._script("set_client_rule").call(
            self.keys,
            self.clock,
            lambda reply: (reply[0].decode(), int(reply[1])),
            caller=op,
            seq=seq,
            rule=rule,
            client=client,
            value=value,
            was="" if since is None else since,
        )

    @operation
    async def govern(
        self, op: str, seq: int, rule: str, client: str, value: int
    ) -> tuple[str, int]:
        return await self.control.op(op, seq, cast(Rule, rule), client, value)

    @operation
    async def invert(
        self,
        op: str,
        seq: int,
        verb: str,
        args: Sequence[str],
        left: Callable[[list[str]], None] = lambda ids: None,
    ) -> int:
        if verb not in ("weight", "cap", "blocked"):
            return await Queue.invert(self, op, seq, verb, args, left)
        client, value, *since = args
        word, _ = await self.control.op(
            op, seq, cast(Rule, verb), client, int(value), *map(int, since)
        )
        if word == "changed":
            left([client])
        return int(word == "ok")

    @operation
    async def delete(self, client: str, op: str, max: int = BATCH) -> Deleted:
        """Put all that a client has waiting into the trash, ``max`` entries a step.

        ``op`` names the change; sent again it goes on. Steps 1 to ``steps`` can be taken back:
        ``undo(op, step, target="trash", …)``, the last first. Pending entries go on.
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
                    said = await self.move.op(
                        op, steps, ids, source="waiting", target="trash",
                        high_water_ms=now,
                    )  # fmt: skip
                    gone += said.count("moved")
        return Deleted(op, steps, gone)

    def _holders(self) -> Sequence[FairQueue[Any]]:
        """Where a client may have something waiting."""
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
                ids, receipts, map(parted, payloads), strict=True
            )
        ]

    # --- looking -------------------------------------------------------------------------------

    @operation
    async def counts(self, now_ms: int | None = None) -> Counts:
        """Since when the oldest waits isn't known: nobody writes down when an entry came."""
        sizes, (counters, (paused, closed)) = await both(
            together(
                Call(("ZCARD", self.keys[part]), int, key=self.keys[part])
                for part in ZSETS.values()
            ),
            both(self._counters("waiting", "done"), self._flags()),
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
        entries, owners = await both(
            Queue._entries(self, state, rows, payloads),
            Call(("HMGET", key, *(id for id, _ in rows)), list[bytes | None], key=key),
        )
        return [
            replace(entry, client=text(owner) if owner else None)
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
        return [None if body is None else parted(body)[1] for body in await self._bodies(ids)]

    async def _contents(self, ids: Sequence[str]) -> list[bytes | Exception | None]:
        return [_content(body) for body in await self._bodies(ids)]

    async def _bodies(self, ids: Sequence[str]) -> list[bytes | None]:
        if not ids:
            return []
        key = self.keys["body"]
        return await Call(("HMGET", key, *ids), list[bytes | None], key=key)

    async def _page_waiting(
        self, cursor: str | None, max: int, start: int | None, payloads: bool
    ) -> Page:
        """By client in the order of names, each in the order of its list.

        A window by rank (``start``) is off by the holes in front of it, where there are some.
        """
        line, (total,) = await both(self._line(cursor, max, start), self._counters("waiting"))
        found = await self._entries("waiting", [(id, None) for id in line.names], payloads)
        owned = zip(found, line.clients or (), strict=True)
        entries = (replace(entry, client=client) for entry, client in owned)
        return Page(tuple(entries), line.cursor, total, problem=line.problem)

    async def _line(self, cursor: str | None, max: int, start: int | None = None) -> WaitingIds:
        return await waiting_pages.page(self, cursor, max, start)

    async def _get_waiting(self, id: str) -> Entry | None:
        (body,) = await self._bodies([id])
        if body is None:
            return None
        client, payload = parted(body)
        (entry,) = await self._entries("waiting", [(id, None)], payloads=False)
        return replace(entry, client=client, payload=payload)

    async def _dismantle(self, max: int) -> int:
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
    async def standing(self, id: str = "") -> Standing:
        ring, owner = self.keys["ring"], self.keys["owner"]
        askers, (served, (owners, bodies)) = await both(
            self._askers(),
            both(
                Call(("ZCARD", ring), int, key=ring),
                both(
                    Call(("HMGET", owner, id), list[bytes | None], key=owner),
                    self._bodies([id] if id else []),
                ),
            ),
        )
        client = text(owners[0]) if owners[0] else parted(bodies[0])[0] if any(bodies) else ""
        if not client:
            return replace(askers, open=served)
        return await waiting_pages.standing(self, client, id, replace(askers, open=served))

    @operation
    async def invariants(self) -> list[str]:
        from .invariants import violations

        return await violations(self)


def together_with(client: str, payload: bytes) -> bytes:
    """A payload as it is kept, its client in front."""
    return b"%b %b" % (client.encode(), payload)


def _content(body: bytes | None) -> bytes | Exception | None:
    try:
        if body is not None:
            body.partition(b" ")[0].decode()
    except ValueError as error:  # whose it is, is no name
        return error
    return None if body is None else parted(body)[1]


def parted(body: bytes | None) -> tuple[str, bytes]:
    """The client and the payload that are kept together; both empty where they are gone."""
    client, _, payload = (body or b"").partition(b" ")
    return text(client), payload

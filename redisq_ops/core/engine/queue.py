"""The protocol every queue keeps towards workers and operators.

Faces (`ops`, CLI, dashboard, Spark) know this class only, never a queue's keys. A queue's room
subclasses it with its own Lua, its own waiting, and what else it can show (``capabilities``).
What isn't waiting has one shape for all our queues, so settling, recovery, paging and bulk moves
are here, once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from hashlib import sha1
from typing import Any
from urllib.parse import quote, unquote

from ..model.clock import Duration, checked_ms
from ..model.entry import Delivery, Entry, MovedRange, Settlement, State, TakeResult
from ..model.errors import Refused, Superseded
from ..model.keys import checked_consumer, checked_name
from ..model.settings import LEASE_MS
from ..model.states import EDIT, FIXED
from ..redis.operation import C_co, Call, Description, both, operation
from ..redis.parsers import row_words, scored, words
from .optional_features import Abilities
from .wire_format import checked_take, ends, taken


class Queue(Abilities[C_co]):
    """One queue on one server, Sentinel or Cluster.

    ``client`` decides how operations run: blocking, or awaited on an asyncio client. ``clock`` is
    the server's unless a test moves its own.
    """

    # --- what workers do -----------------------------------------------------------------------

    @operation
    async def take(self, n: int = 1, *, consumer: str, lease_ms: Duration = LEASE_MS) -> TakeResult:
        """Take up to ``n`` entries (1–500), each under a lease of ``lease_ms`` (ms or a
        timedelta).

        Promotes what is due and brings back what is overdue on the way. At least once: an entry
        whose lease runs out is delivered again, and its old receipt is void. From a queue that
        doesn't exist yet nothing is taken, and that doesn't create it.
        """
        checked_take(n)
        checked_consumer(consumer)
        lease_ms = checked_ms(lease_ms, "lease_ms")
        if not await self.exists.op():
            return TakeResult((), None, False)
        await self._ensure_registered()
        return await self._take(n, consumer, lease_ms)

    async def _take(self, n: int, consumer: str, lease_ms: Duration) -> TakeResult:
        checked_take(n)
        checked_consumer(consumer)
        lease_ms = checked_ms(lease_ms, "lease_ms")

        def read(reply: list[Any]) -> TakeResult:
            return taken(reply, partial(self._deliveries, consumer))

        found: TakeResult = await self._call_idempotent(
            "take", read, n=n, lease_ms=lease_ms, consumer=consumer
        )
        return found

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
            Delivery(name, id, payload, receipt, deadline_ms, 0, 0, consumer)
            for id, receipt, payload in zip(ids, receipts, payloads, strict=True)
        ]

    @operation
    async def settle(self, settlements: Sequence[Settlement]) -> list[str]:
        """End deliveries; one word each: done | retry | dead | released | stale.

        ``stale``: another delivery of that entry is the valid one, nothing was changed.
        """
        await self._check_key_types_once()
        return await self._settle(settlements)

    async def _settle(self, settlements: Sequence[Settlement]) -> list[str]:
        if not settlements:
            return []
        told, rows = ends(
            settlements, lambda s: (s.outcome, s.value, checked_ms(s.delay_ms, "delay_ms"))
        )
        found: list[str] = await self._call_idempotent(
            "settle", row_words(len(settlements)), rows,
            consumer=settlements[0].delivery.consumer, told=told,
        )  # fmt: skip
        return found

    def retry_delay_ms(self, settlement: Settlement) -> int | None:
        """How long what failed so waits to run again; None: that is decided as it is settled."""
        return checked_ms(settlement.delay_ms, "delay_ms")

    @operation
    async def turn(
        self,
        settlements: Sequence[Settlement],
        n: int,
        *,
        consumer: str,
        lease_ms: Duration = LEASE_MS,
    ) -> tuple[list[str], TakeResult]:
        """Settle what is finished and take the next, in one round trip."""
        if not await self.exists.op():
            return await self.settle.op(settlements), TakeResult((), None, False)
        await self._ensure_registered()
        return await both(self._settle(settlements), self._take(n, consumer, lease_ms))

    @operation
    def extend(
        self, deliveries: Sequence[Delivery], lease_ms: Duration = LEASE_MS
    ) -> Call[list[bool]]:
        """Renew leases; False for each that is no longer ours."""
        return self._script("extend").call(
            self.keys,
            self.clock,
            lambda reply: [word == b"ok" for word in reply[1:]],
            [(d.id, d.receipt) for d in deliveries],
            lease_ms=checked_ms(lease_ms, "lease_ms"),
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
        lease_ms: Duration = LEASE_MS,
        times: Mapping[str, int] | None = None,
        span: str = "",
    ) -> Call[list[str]]:
        """One step of a bulk move by identity: moved | changed | late | away, one word per id.

        The same ``op`` and ``step`` sent again answer the same and change nothing. ``times``: what
        tells waiting and delayed entries from later ones of their ids that have no record: ready
        time, or beginning of the request; with another time they are ``changed``. ``span``: which
        entries of a plan these are (FROM-TO or FROM-TO-HAND), kept in the journal with the step's
        number. What the same step moved when another hand sent it is ``theirs``.
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
    def move_range(
        self,
        op: str,
        step: int,
        n: int,
        *,
        source: State,
        target: str,
        high_water_ms: int,
        left: Sequence[int] = (0,),
        last: bool = False,
    ) -> Description[MovedRange]:
        """One step of a bulk move of a whole state: the first ``n`` of what is meant.

        Meant is what has been in ``source`` (of `range_states`) since before ``high_water_ms``, as with
        `move` for all their ids. ``left`` is the earlier step's `MovedRange.left`. The same ``op``
        and ``step`` sent again answer the same and change nothing. The history is told of the steps
        of a second at once, and of the rest with the ``last`` one or when nothing is left.
        """
        checked_name(op, "operation")

        def read(reply: list[bytes]) -> MovedRange:
            if not reply:  # of a step of nothing: an undo took its place
                raise Superseded(f"{op} was taken back meanwhile")
            moved, stuck, done = map(int, reply)
            return MovedRange(moved, (left[0] + stuck,), not moved + stuck, done)

        return self._script("move_range").call(
            self.keys,
            self.clock,
            read,
            caller=op,
            seq=step,
            **{"from": source, "to": target},
            high_water=high_water_ms,
            n=n,
            left=left[0],
            last=int(last),
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
        """One step of a change of payloads, of entries in ``source`` (of `editable_states`).

        A row is an id, its payload as it was read, and what it is to be. One word each: moved |
        changed (another payload or state now) | late, as `move` has them.
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
    def undo(
        self,
        op: str,
        step: int,
        *,
        target: str,
        by: str,
        seq: int,
        left: Callable[[list[str]], None] = lambda ids: None,
    ) -> Call[tuple[int, ...]]:
        """Take one step of ``op`` back: (put back, touched meanwhile and left alone). A third
        number, if there is one: out of reach now, and left for a later undo.

        ``target``: the state its entries were moved to, or ``edit`` if they only were edited.
        ``left`` is told which were left alone, where the layout knows; perhaps repeatedly.
        """
        edited = target == EDIT

        def counted(reply: list[Any]) -> tuple[int, ...]:
            left([id.decode() for id in reply[2:]])
            return int(reply[0]), int(reply[1])

        return self._script("undo_edit" if edited else "undo").call(
            self.keys,
            self.clock,
            counted,
            caller=by,
            seq=seq,
            op=op,
            step=step,
            **({} if edited else {"to": target}),
        )

    def transferred_id(self, op: str, id: str) -> str:
        """What an entry that a move (``op``) brings into such a queue is there, or is part of."""
        return id

    @operation
    async def accept(self, entries: Sequence[Entry], op: str) -> list[str]:
        """Take in entries of another queue of this kind, each in its state (of `accepts`).

        One word each: ok | exists (the id is here, nothing was changed) | same (it came by this
        very ``op``). Refused as a whole when the queue is full or draining.
        """
        raise Refused(f"queue {self.name} is a {self.kind} queue: it takes in no other's entries")

    @operation
    async def check_creatable(self) -> None:
        """Refuse a name under which no such queue can be begun; nothing is written."""
        await self._refuse_wrong_types()

    @operation
    async def transfer_obstacle(self, other: Queue[Any]) -> str:
        """Why entries of another queue of this kind can't go on here, in words; empty: they can."""
        return ""

    @operation
    async def configure(self, op: str, seq: int, changes: dict[str, str]) -> dict[str, str]:
        """Set settings or flags; an empty value removes. Returns what was there before or ''."""
        await self._ensure_registered()
        return await self._configure(op, seq, changes)

    async def _configure(
        self, op: str, seq: int, changes: dict[str, str], since: Mapping[str, str] | None = None
    ) -> dict[str, str]:
        """``since``: of names in it only what still is as it says is changed."""
        was = since or {}
        before = await self._script("configure").call(
            self.keys,
            self.clock,
            words,
            [
                (name, _kept(value), _kept(was[name]) if name in was else "*")
                for name, value in changes.items()
            ],
            caller=op,
            seq=seq,
        )
        return {
            name: "" if word == "-" else unquote(word)
            for name, word in zip(changes, before, strict=True)
        }

    @operation
    async def destroy_step(self, max: int = 100) -> int:
        """Remove a bounded part of a queue that is being destroyed; 0 when nothing is left.

        Big keys are unlinked (freed off the server's main thread), never deleted in place.
        """
        gone = await self._destroy_entries(max)
        if gone:
            return gone
        ops = await scored(self.keys["ops"], "0", str(max - 1))
        parts = [f"{self.keys['op_']}{op}" for op, _ in ops]
        if not parts:
            parts = [self.keys[part] for part in (*FIXED, *self.parts)]
            parts += self._rate_keys(await self._now())
        else:
            key = self.keys["ops"]
            await Call(("ZREM", key, *(op for op, _ in ops)), int, key=key)
        return await Call(("UNLINK", *parts), int, key=parts[0])

    async def _destroy_entries(self, max: int) -> int:
        return 0

    @operation
    async def set_client_rule(
        self, op: str, seq: int, rule: str, client: str, value: int
    ) -> tuple[str, int]:
        """Change one of the `rules` of a client, as an operation; `undo_change` takes it back.

        Returns (``ok`` or ``same``, the value before).
        """
        raise Refused(f"queue {self.name} is a {self.kind} queue: it has no rules for clients")

    @operation
    async def undo_change(
        self,
        op: str,
        seq: int,
        verb: str,
        args: Sequence[str],
        left: Callable[[list[str]], None] = lambda ids: None,
    ) -> int:
        """Take back a change that moved no entries; how many things changed.

        It is about as many as `undo_change_size` says. ``left`` is told which were touched since, and stay;
        the others are as they were already.
        """
        if verb == "accepted":  # to the trash, unless it was touched since
            high_water, id, *digest = args
            entry = await self.get.op(id)
            # Its id is free once it is done: what has it by now may be other work.
            if entry is not None and digest and entry.digest != digest[0]:
                left([id])
                return 0
            if entry is not None and entry.state in ("waiting", "delayed", "dead"):
                said = await self.move.op(
                    op, seq, [id], source=entry.state, target="trash", high_water_ms=int(high_water)
                )
                if "moved" in said:
                    return 1
            elif entry is not None and entry.state == "trash":
                return 0
            left([id])
            return 0
        if verb != "set":
            raise Refused(f"nothing here knows how to take back {verb!r}")
        name, value, *after = args
        before = unquote(value)
        since = {name: unquote(after[0])} if after else {}
        was = (await self._configure(op, seq, {name: before}, since))[name]
        if was == since.get(name, was):  # whatever it is, of one that didn't note what it set
            return 1
        if was != before:
            left([name])
        return 0

    def undo_change_size(self, verb: str, args: Sequence[str]) -> int:
        """How many things an `undo_change` is about: entries, where it is about these."""
        return 1


def _kept(value: str) -> str:
    """A setting's value as it is stored; ``-`` alone would be read as none."""
    return "%2D" if value == "-" else quote(value, safe="")

"""What the layouts of Resque and Sidekiq have in common, and what stands beside them.

The owner's keys keep their names, types and formats; its workers and producers go on as ever. Ours,
beside: what our workers hold (``lease``, ``body``, ``meta``), how often a job's worker was lost
(``lost``), the trash (``trash``, ``was``, ``purged``), and journal, settings, callers, history as
everywhere. An entry found by its id is then moved by its exact bytes, in one script.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from ...engine.queue import Queue
from ...engine.wire_format import checked_take, ends, taken
from ...model.clock import Duration, checked_ms
from ...model.entry import Checkup, Delivery, Settlement, State, TakeResult
from ...model.errors import BadInput, Refused, WrongKind
from ...model.keys import checked_consumer, checked_name
from ...model.quoting import text
from ...model.settings import LEASE_MS, MAX_BATCH
from ...model.worker_process import PruneWord
from ...redis.operation import Arg, C_co, Call, both, operation
from ...redis.parsers import row_words, words
from ..places import LocatedEntry
from . import undo as undoing
from .reads import RubyJobReads


class RubyJobQueue(RubyJobReads[C_co]):
    """A queue as Resque or Sidekiq keeps it, to work on."""

    def _needs_one(self) -> None:
        if not self.own_name:
            raise Refused(
                f"{self.name} is a whole deployment: name a queue of it, {self.kind}:NAME"
            )

    def _about(self) -> dict[str, str]:
        """What every script is told of the layout."""
        return {"side": self.side, "queue": self.own_name, "failed": self._failed_key()}

    def _failed_key(self) -> str:
        return ""

    # --- what becomes of an entry -----------------------------------------------------------------

    @abstractmethod
    def _ended(self, settlement: Settlement) -> tuple[str, bytes, str, int]:
        """What becomes of a failed job: the word, its record, the unit of the time that the server
        adds to it, and the delay in ms."""

    @abstractmethod
    def _target(self, seen: LocatedEntry) -> tuple[bytes | None, str | None]:
        """What is put into which queue when this entry is to run again (None: its own bytes)."""

    # --- what workers do -----------------------------------------------------------------------

    async def _take(self, n: int, consumer: str, lease_ms: Duration = LEASE_MS) -> TakeResult:
        self._needs_one()
        checked_take(n)
        checked_consumer(consumer)

        def read(reply: list[Any]) -> TakeResult:
            return taken(reply, partial(self._deliveries, consumer))

        found: TakeResult = await self._call_idempotent(
            "take", read, n=n, lease_ms=checked_ms(lease_ms, "lease"), consumer=consumer,
            **self._about(),
        )  # fmt: skip
        return found

    def _deliveries(
        self,
        consumer: str,
        ids: Sequence[str],
        receipts: Sequence[str],
        payloads: Sequence[bytes],
        deadline_ms: int,
    ) -> list[Delivery]:
        """What the server knows of a job is its ticket: id and failures are in its record."""
        return [
            Delivery(
                self.name, self.id_of(payload), payload, ticket, deadline_ms,
                self._failures(payload), 0, consumer,
            )
            for ticket, payload in zip(receipts, payloads, strict=True)
        ]  # fmt: skip

    async def _settle(self, settlements: Sequence[Settlement]) -> list[str]:
        if not settlements:
            return []
        self._needs_one()
        await self._ensure_registered()

        def row(settlement: Settlement) -> tuple[Arg, ...]:
            if settlement.outcome in ("fail", "reject"):
                return self._ended(settlement)
            return "release" if settlement.outcome == "release" else "ack", b"", "", 0

        told, rows = ends(settlements, row)
        found: list[str] = await self._call_idempotent(
            "settle", row_words(len(settlements)), rows,
            consumer=settlements[0].delivery.consumer, told=told, **self._about(),
        )  # fmt: skip
        return found

    @operation
    def extend(
        self, deliveries: Sequence[Delivery], lease_ms: Duration = LEASE_MS
    ) -> Call[list[bool]]:
        return self._script("extend").call(
            self.keys,
            self.clock,
            lambda reply: [word == b"ok" for word in reply[1:]],
            [(d.receipt, d.receipt) for d in deliveries],  # kept by ticket, not by id
            lease_ms=checked_ms(lease_ms, "lease"),
        )

    @operation
    async def sweep(self, max: int = 100) -> int:
        await self._ensure_registered()
        swept: int = await self._script("sweep").call(
            self.keys, self.clock, int, max=max, **self._about()
        )
        return swept

    # --- what producers do ---------------------------------------------------------------------

    async def _push(self, jobs: Sequence[tuple[str, bytes]], at: str) -> list[str]:
        """Put records in; the ids. A call sent again puts nothing in twice."""
        self._needs_one()
        if not jobs:
            return []
        await self._ensure_registered()
        await self._call_idempotent("push", words, jobs, at=at, unit=self.unit, **self._about())
        return [id for id, _ in jobs]

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
        lease_ms: Duration = LEASE_MS,
        times: Mapping[str, int] | None = None,
        span: str = "",
    ) -> list[str]:
        """As every queue's; beside its words ``busy`` (a worker of the owner's has it: only that
        one can let it go) and ``deep`` (too far inside a list to be taken out of it)."""
        checked_name(op, "operation")
        checked_consumer(consumer)
        if source == "pending":
            self._needs_one()
        if len(ids) > MAX_BATCH:
            raise BadInput(f"move: {len(ids)} at once, {MAX_BATCH} at most")
        await self._ensure_registered()
        found, now = await both(self._located(ids, source), self._now())
        deep = source == "waiting" and await self._has_depths(found, ids)
        rows = []
        for id in ids:
            seen = found[id].pop(0) if found[id] else None
            # Their times are their machines': one that is still to come says nothing.
            since = seen.entry.since_ms if seen else None
            late = since is not None and high_water_ms < since <= now
            absent = "deep" if deep else "changed"
            rows.append(self._row(id, seen, target, "late" if late else "", absent))
        said: list[str] = await self._script("move").call(
            self.keys, self.clock, words, rows,
            caller=op, seq=step, **{"from": source, "to": target}, consumer=consumer,
            lease_ms=checked_ms(lease_ms, "time"), **self._about(), span=span,
        )  # fmt: skip
        return said

    def _row(
        self, id: str, seen: LocatedEntry | None, target: str, why: str, absent: str
    ) -> tuple[Any, ...]:
        put, queue = b"", ""
        if seen is None:
            why = absent
        elif seen.place.kind == "busy":
            why = "busy"
        elif not why and target == "waiting":
            other, name = self._target(seen)
            put = b"" if other is None else b"=" + other
            queue, why = name or "", "" if name else "invalid"
        if seen is None or why:
            return id, "-", why, "", 0, "", ""
        return id, seen.place.kind, seen.place.key, seen.member, seen.at, put, queue

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
    ) -> tuple[int, ...]:
        """As every queue's, however long its lists are: they are looked through by pages, and what
        lies too deep inside one to be taken out is left for a later undo (the third number)."""
        return await undoing.undo(self, op, step, by=by, seq=seq)

    # --- as with queues of our own -------------------------------------------------------------

    async def _configure(
        self, op: str, seq: int, changes: dict[str, str], since: Mapping[str, str] | None = None
    ) -> dict[str, str]:
        return await Queue._configure(self, op, seq, changes, since)

    async def _pruned(
        self, script: str, op: str | None, step: int, rows: Any, /, **argv: Any
    ) -> tuple[PruneWord, int, int]:
        """Strike a process; ``op`` and ``step`` make it one that can be sent again by anybody."""

        def read(reply: list[bytes]) -> tuple[Any, str, str]:
            word, first, second = [text(part) for part in (*reply, b"0", b"0")][:3]
            return word, first, second

        if op is None:
            word, first, second = await self._call_idempotent(script, read, rows, **argv)
        else:
            word, first, second = await self._script(script).call(
                self.keys, self.clock, read, rows, caller=op, seq=step, **argv
            )
        if word == "blocked":
            raise WrongKind(
                f"key {first} stands where a job of {argv['identity']} would have to go, and is no"
                " list: nothing was changed"
            )
        return word, int(first), int(second)

    @operation
    async def checkup(self, thorough: bool = False) -> Checkup:
        from .invariants import breaking

        found = await Queue.checkup(self, thorough)
        if thorough or found.flaws:
            return found
        return Checkup(tuple(await breaking(self)))

    @operation
    async def invariants(self) -> list[str]:
        from .invariants import violations

        return await violations(self)

"""How queues of Resque and Sidekiq are worked on and changed.

The owner's keys keep their names, types and formats, and its workers and producers are not
affected. Keys of ours beside them: the jobs that our workers hold (``lease``, ``body``, ``meta``),
how often a job's worker was lost (``lost``), the trash (``trash``, ``was``, ``purged``), and audit
log, settings, callers and history as for every queue. Jobs are moved by their exact bytes.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar

from ...engine.operator_changes import MoveStep
from ...engine.queue import Queue
from ...engine.wire_format import checked_take, ends, taken
from ...model.clock import Seconds, duration_ms
from ...model.entry import Checkup, Delivery, Settlement, TakeResult
from ...model.errors import Refused, WrongKind
from ...model.keys import checked_consumer
from ...model.quoting import text
from ...model.rates import Rates
from ...model.settings import LEASE_S
from ...model.worker_process import Pruned, PruneWord
from ...redis.operation import Arg, C_co, Call, attempt_read, operation
from ...redis.parsers import row_words, words
from ..edits import HasEdits
from ..ended_totals import CountsEnds
from ..placed_pages import named
from ..places import LocatedEntry
from .reads import RubyJobReads


class RubyJobQueue(CountsEnds[C_co], RubyJobReads[C_co], HasEdits[C_co]):
    """A queue as Resque or Sidekiq keeps it, to work on."""

    arguments: ClassVar[tuple[str, ...]] = ("args",)
    ended_counters: ClassVar[tuple[str, str]] = "stat:processed", "stat:failed"
    prune_after_ms: ClassVar[int]
    """silence (ms) after which the owner itself takes a process for dead"""

    def _needs_one(self) -> None:
        if not self.own_name:
            raise Refused(
                f"{self.name} is a whole deployment: name a queue of it, {self.kind}:NAME"
            )

    @operation
    async def rates(self, now_ms: int, minutes: int = 60) -> Rates:
        """As for every queue, of a whole deployment or of its only queue: the owner's counters are
        of all its queues. What arrives isn't counted."""
        if self.own_name and await self.names.op() != [self.own_name]:
            return Rates()
        return await self._deployment_rates(now_ms, minutes)

    async def _deployment_rates(self, now_ms: int, minutes: int) -> Rates:
        return await self._totals.rates(now_ms, minutes)

    # --- what becomes of an entry -----------------------------------------------------------------

    @abstractmethod
    def _ended(self, settlement: Settlement) -> tuple[str, bytes, str, int]:
        """What becomes of a failed job: the word, its record, the unit of the time that the server
        adds to it, and the delay in ms."""

    # --- what workers do -----------------------------------------------------------------------

    async def _ready_to_take(self) -> bool:
        return await Queue._ready_to_take(self)

    async def _take(self, n: int, consumer: str, lease_ms: int) -> TakeResult:
        self._needs_one()
        checked_take(n)
        checked_consumer(consumer)

        def read(reply: list[Any]) -> TakeResult:
            return taken(reply, partial(self._deliveries, consumer))

        found: TakeResult = await self._call_idempotent(
            "take",
            read,
            n=n,
            lease_ms=lease_ms,
            consumer=consumer,
            queue=self.own_name,
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
        """The script returns tickets and records; id and failures are in the record."""
        return [
            Delivery(
                self.name,
                self.id_of(payload),
                payload,
                ticket,
                deadline_ms,
                self._failures(payload),
                0,
                consumer,
            )
            for ticket, payload in zip(receipts, payloads, strict=True)
        ]

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
            "settle",
            row_words(len(settlements)),
            rows,
            consumer=settlements[0].delivery.consumer,
            told=told,
            queue=self.own_name,
        )
        return found

    @operation
    def extend(self, deliveries: Sequence[Delivery], lease: Seconds = LEASE_S) -> Call[list[bool]]:
        return self._call_script(
            "extend",
            lambda reply: [word == b"ok" for word in reply[1:]],
            [(d.receipt, d.receipt) for d in deliveries],  # kept by ticket, not by id
            lease_ms=duration_ms(lease, "lease"),
        )

    @operation
    async def sweep(self, max: int = 100) -> int:
        await self._ensure_registered()
        swept: int = await self._call_script("sweep", int, max=max, queue=self.own_name)
        return swept

    # --- what producers do ---------------------------------------------------------------------

    async def _push(self, jobs: Sequence[tuple[str, bytes]], at: str) -> list[str]:
        """Put records in, and return the ids. A call sent again puts nothing in twice."""
        self._needs_one()
        if not jobs:
            return []
        await self._ensure_registered()
        await self._call_idempotent("push", words, jobs, at=at, unit=self.unit, queue=self.own_name)
        return [id for id, _ in jobs]

    # --- what operators change -----------------------------------------------------------------

    def refused(self, seen: LocatedEntry, target: str) -> str:
        """``busy``: a worker of the owner's has the job, and only that one can give it back."""
        return "busy" if seen.place.kind == "busy" else ""

    async def _move(self, step: MoveStep) -> list[str]:
        if step.source == "pending":
            self._needs_one()
        return await super()._move(step)

    # --- as with queues of our own -------------------------------------------------------------

    _configure = Queue._configure

    async def _prune(
        self, name: str, silent_ms: int | None, rescue: bool, op: str | None, step: int
    ) -> Pruned:
        """As the owner does it: the jobs of a Sidekiq process are lost, those of a Resque worker
        become failures. ``rescue`` puts them back to the front of their queues instead; if the
        process is cut off but not dead, they run twice."""
        await self._ensure_registered()
        silence = self.prune_after_ms if silent_ms is None else silent_ms
        return await self._remove_process(name, silence, rescue, op, step)

    @abstractmethod
    async def _remove_process(
        self, name: str, silent_ms: int, rescue: bool, op: str | None, step: int
    ) -> Pruned:
        """Remove a process that was silent for so long from the owner's registry."""

    async def _pruned(
        self, script: str, op: str | None, step: int, rows: Any, /, **argv: Any
    ) -> tuple[PruneWord, int, int]:
        """Run the script; with ``op`` and ``step`` anybody can send the same call again."""

        def read(reply: list[bytes]) -> tuple[Any, str, str]:
            word, first, second = [text(part) for part in (*reply, b"0", b"0")][:3]
            return word, first, second

        if op is None:
            word, first, second = await self._call_idempotent(script, read, rows, **argv)
        else:
            word, first, second = await self._call_script(
                script, read, rows, caller=op, seq=step, **argv
            )
        if word == "blocked":
            raise WrongKind(
                f"key {first} is no list, and a job of {argv['identity']} would have to go there:"
                " nothing was changed"
            )
        return word, int(first), int(second)

    @operation
    async def checkup(self, thorough: bool = False) -> Checkup:
        from .invariants import breaking

        found = await Queue.checkup(self, thorough)
        waiting = await attempt_read(self._places("waiting"))
        lists = [] if isinstance(waiting, Exception) else await self._weighed(waiting)
        unseen = named(
            [*filter(None, [found.unseen]), *(one.too_long for one in lists if one.too_long)]
        )
        if not (thorough or found.flaws):
            found = Checkup(tuple(await breaking(self)))
        return replace(found, unseen=unseen)

    @operation
    async def invariants(self) -> list[str]:
        from .invariants import violations

        return await violations(self)

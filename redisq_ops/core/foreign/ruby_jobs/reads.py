"""How queues of Resque and Sidekiq are read."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

from ...engine.optional_features import HasWorkerProcesses
from ...model.cut_element import UNREAD
from ...model.entry import Entry, State
from ...model.worker_process import Process, RunningJob
from ...redis.operation import C_co, Call, attempt, operation, together
from ...redis.parsers import moment
from ..changes import ForeignChanges
from ..kept_entries import kept
from ..placed_pages import named
from ..places import GatheredPlace, LocatedEntry, Place, Row
from ..record_sizes import field_sizes
from . import job


class RubyJobReads(ForeignChanges[C_co], HasWorkerProcesses[C_co]):
    """A queue as Resque or Sidekiq keeps it; without a queue's name, their whole deployment.

    Pending are the jobs that our workers hold, and those that the owner's workers have (``busy``).
    """

    key_types: ClassVar[dict[str, str]] = dict.fromkeys(("body", "lost", "was", "purged"), "hash")
    enveloped: ClassVar[bool] = True
    holds_payloads: ClassVar[bool] = True
    prunes: ClassVar[bool] = True
    task_in: ClassVar[tuple[str, ...]] = ("wrapped", "class")
    stops_at: ClassVar[str] = ""
    """what an element that is no job does to the owner's own workers; empty: nothing bad"""
    unit: ClassVar[str] = ""
    """the unit of the time that a script adds to a new job's record"""

    @property
    def list_key(self) -> str:
        """The owner's list of this queue."""
        return self.keys["t_queue_"] + self.own_name

    @operation
    async def exists(self) -> bool:
        return self._registered or await ForeignChanges.exists(self)

    # --- records ---------------------------------------------------------------------------------

    @abstractmethod
    def id_of(self, payload: bytes) -> str:
        """The id of the job with this record."""

    @abstractmethod
    def _entry(self, state: State, place: Place, row: Row) -> Entry | None:
        """The entry of an element of the owner's; None: it isn't this queue's."""

    async def read(self, state: State, place: Place, rows: Sequence[Row]) -> Sequence[Entry | None]:
        return [self._entry(state, place, row) for row in rows]

    def _held(
        self, place: Place, payload: bytes, score: float, name: bytes, kept: bytes
    ) -> Entry | None:
        """A job that one of our workers holds; ``kept`` is its line of `record.lua`."""
        id, at = self.id_of(payload), moment(score)
        try:
            receipt, _, lost, first, since, consumer, op, _, _ = kept.decode().split(" ")
            return Entry(
                id,
                "pending",
                at_ms=at,
                since_ms=int(since),
                payload=payload,
                failures=self._failures(payload),
                lost=int(lost),
                first_ms=int(first),
                consumer=consumer,
                receipt=receipt,
                op=None if op == "-" else op,
                called=place.called,
                task=self.task_of(payload),
            )
        except ValueError:
            problem = f"the record of {id} is corrupt"
            return Entry(id, "pending", at, payload=payload, called=place.called, problem=problem)

    # --- places ----------------------------------------------------------------------------------

    def _shared(self, state: State) -> bool:
        return bool(self.own_name or self.beside) and state in ("delayed", "dead")

    async def _of_owner(self, state: State, wrong: list[str] | None, whole: bool) -> list[Place]:
        if state != "pending":
            return await super()._of_owner(state, wrong, whole)
        names, busy = await together(
            self._unless(self._queues(), [], wrong),
            self._unless(self._busy(whole), GatheredPlace(), wrong),
        )
        return [*map(self._holding, names), busy]

    def _list(self, name: str) -> Place:
        """The list of waiting jobs of a queue."""
        (declared,) = self.states["waiting"]
        return self._place("waiting", declared, f"queue:{name}")

    def _holding(self, name: str) -> Place:
        """The jobs of a queue that our workers hold."""
        mine = name == self.own_name
        keys = self.keys if mine else self._keys(self._name_of(name))
        read, sizes = kept(self._held, keys["body"], keys["meta"]), field_sizes(keys["body"])
        return Place(keys["lease"], "busy", read, "held", sizes=sizes)

    @abstractmethod
    async def processes_with_jobs(self, whole: bool) -> list[Process]:
        """The owner's processes, by name. ``whole``: their jobs are read at any length."""

    async def _busy(self, whole: bool) -> Place:
        """The jobs of the owner's own workers, as of their last heartbeats."""
        place = GatheredPlace()
        rows, hidden = list[LocatedEntry](), list[str]()
        for process in await self.processes_with_jobs(whole):
            for work in process.work:
                if work.queue is None and (self.own_name or self.beside):
                    if not self._serves(process.queues):
                        continue
                    work = replace(work, problem=f"{work.problem}; its queue is unknown")
                    hidden.append(f"a running job of {process.name}: {work.problem}")
                elif not self._means(work.queue):
                    continue
                entry = self._running(process, work, len(rows) + 1)
                rows.append(LocatedEntry(entry, place, b""))
        return GatheredPlace(rows=rows, problem=named(hidden))

    def _running(self, process: Process, work: RunningJob, nth: int) -> Entry:
        consumer = process.name if job.legal(process.name) else None
        if work.problem is not None:
            return Entry(
                f"{UNREAD}{nth}",
                "pending",
                since_ms=work.since_ms,
                consumer=consumer,
                called="busy",
                problem=work.problem,
            )
        return Entry(
            work.id,
            "pending",
            since_ms=work.since_ms,
            payload=work.payload,
            failures=self._failures(work.payload),
            consumer=consumer,
            called="busy",
            task=self.task_of(work.payload),
        )

    async def _done(self) -> int | None:
        """Jobs that ran less those that failed, by the owner's counters; unknown for one queue."""
        if self.own_name or self.beside:
            return None
        keys = [self.keys["t_stat_"] + name for name in ("processed", "failed")]
        calls = (Call(("GET", key), lambda reply: int(reply or 0), key=key) for key in keys)
        numbers = [n for n in await together(map(attempt, calls)) if not isinstance(n, Exception)]
        return max(0, numbers[0] - numbers[1]) if len(numbers) == 2 else None

"""Resque's layout, 1 to 3: lists of records without an id, and one list of failures."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import ClassVar

from ...engine.replay_tracking import ReplayTracker
from ...model.clock import Duration, checked_ms
from ...model.entry import Counts, Entry, Failure, Settlement, State
from ...model.errors import BadInput, WrongKind
from ...model.quoting import bytes_of
from ...model.states import Verb
from ...model.worker_process import Process, Pruned
from ...redis.operation import C_co, Call, both, operation, together
from ..placed_queue import of_set
from ..places import List, LocatedEntry, Place, Zset
from ..ruby_jobs import job
from ..ruby_jobs.job import Job
from ..ruby_jobs.queue import RubyJobQueue
from ..ruby_jobs.reads import each
from . import failure
from .replay_tracking import JobReplayTracker
from .workers import PRUNE_MS, workers


class ResqueQueue(RubyJobQueue[C_co]):
    """``resque:<queue>``, or ``resque``: the deployment with all its queues.

    A job has no id of its own. Waiting and pending ones are called by 16 hex digits of their
    record's SHA-1, so equal records are told apart by their number only. A failure's id is that of
    its job, a dot, and 8 digits of the failure's own record.
    """

    kind: ClassVar[str] = "resque"
    owner: ClassVar[str] = "Resque"
    package: ClassVar[str] = "foreign.resque"
    home: ClassVar[str] = "resque:"
    states: ClassVar[Mapping[State, Sequence[List | Zset]]] = {
        "waiting": (List("queue:{q}", "enqueued"),),
        "dead": (List("failed", "failed"),),
    }
    called: ClassVar[Mapping[str, str]] = {
        "t_paused": "pause-all-workers",
        "t_heartbeats": "workers:heartbeat",
    }
    replay_note: ClassVar[str] = "as new jobs: Resque counts no attempts"
    stops_at: ClassVar[str] = "a Resque worker that takes one stops, and it is lost"
    prune_note: ClassVar[str] = "what they had becomes failures, which can be replayed"
    actions: ClassVar[Mapping[Verb, tuple[State, ...]]] = {
        "requeue": ("pending",),
        "claim": ("pending",),
        "replay": ("dead",),
        "purge": ("waiting", "pending", "dead"),
        "hard": ("waiting", "pending", "dead", "trash"),
        "restore": ("trash",),
    }
    theirs: ClassVar[dict[str, str]] = {
        "queues": "set", "workers": "set", "failed": "list", "failed_queues": "set",
        "workers:heartbeat": "hash",
    }  # fmt: skip
    layout_faults: ClassVar[tuple[str, ...]] = (
        "a job is in no list from the moment it is taken until its worker has written it down: a"
        " crash in between loses it",
        "a worker that vanishes turns its job into a failure after five minutes at the earliest:"
        " nobody runs it again by itself",
        "failures are removed and retried by their position: two who do so at once hit others",
        "a failure that is retried stays in the list: pressed twice it runs twice",
        "jobs have no id: removing one by its content removes all that are equal",
        "a job pushed while its queue is being removed is in a list that no worker looks at",
        "the counter `processed` counts the failed ones too",
    )

    def _their_keys(self) -> dict[str, str]:
        keys = super()._their_keys()
        if self.own_name:  # where failures go once `failed_queues` is there
            keys[f"{self.keys.at}{self.own_name}_failed"] = "list"
        return keys

    def replay_tracker(self) -> ReplayTracker:
        """By what jobs say: none of them has an id that its failure would have, too."""
        return JobReplayTracker(self)

    # --- records -------------------------------------------------------------------------------

    def id_of(self, payload: bytes) -> str:
        return job.digest(payload)[:16]

    def _failures(self, payload: bytes) -> int:
        return 0

    def _waiting(self, place: Place, payload: bytes, score: float) -> Entry | None:
        return Entry(self.id_of(payload), "waiting", payload=payload, called=place.called)

    def _dead(self, place: Place, payload: bytes, score: float) -> Entry | None:
        element, record = payload, job.fields(payload) or {}
        if not self._means(record.get("queue")):
            return None
        own = failure.job_of(element)
        kind = record.get("exception")
        lines = record.get("backtrace")
        error = None
        if isinstance(kind, str):
            error = Failure(
                kind, str(record.get("error", "")),
                "\n".join(map(str, lines)) if isinstance(lines, list) else "",
            )  # fmt: skip
        since = failure.failed_ms(record.get("failed_at"))
        worker = record.get("worker")
        lost = failure.times_lost(kind, record.get("error"))
        return Entry(
            f"{self.id_of(own or b'')}.{job.digest(element)[:8]}", "dead", at_ms=since,
            since_ms=since, payload=own if own is not None else element,
            failures=0 if lost else 1, lost=lost,
            consumer=worker if job.legal(worker) else None, reason=failure.reason(kind),
            error=error, called=place.called,
        )  # fmt: skip

    def destination(self, seen: LocatedEntry) -> tuple[bytes | None, str] | None:
        if seen.place.kind == "held":
            return None, self.own_name
        own = failure.job_of(seen.member)
        queue = (job.fields(seen.member) or {}).get("queue")
        is_job = job.fields(job.member(seen.member, "payload") or b"") is not None
        if not is_job or not isinstance(queue, str) or not queue:
            return None
        return own, queue

    def _ended(self, settlement: Settlement) -> tuple[str, bytes, str, int]:
        delivery, why = settlement.delivery, Failure.decoded(settlement.value)
        assert why is not None
        text = failure.opened(
            delivery.payload, why.type, why.message, why.traceback.splitlines(),
            delivery.consumer, self.own_name,
        )  # fmt: skip
        return "rejected" if settlement.outcome == "reject" else "failed", text, "date", 0

    # --- producers -----------------------------------------------------------------------------

    @operation
    async def push(self, jobs: Iterable[Job]) -> list[str]:
        """Put jobs in; their ids. The same call sent again puts nothing in twice."""
        rows = []
        for given in job.jobs_of(jobs):
            if given.jid is not None:
                raise BadInput(f"job {given.klass}: Resque has no jid")
            data = given.encoded()
            rows.append((self.id_of(data), data))
        return await self._push(rows, "")

    # --- looking -------------------------------------------------------------------------------

    async def _of_owners_sets(self, state: State, wrong: list[str] | None) -> list[Place]:
        if state == "delayed":
            return []
        entered = await self._unless(of_set(self.keys["t_failed_queues"]), [], wrong)
        lists = [b"failed", *sorted(entered)]
        wanted = [name.decode("utf-8", "surrogateescape") for name in dict.fromkeys(lists)]
        if self.own_name:
            wanted = [n for n in wanted if n in ("failed", f"{self.own_name}_failed")]
        return [Place("list", self.keys.at + name, "failed", each(self._dead)) for name in wanted]

    async def _busy(self) -> list[LocatedEntry]:
        place = self._gathered(())
        rows = []
        for worker in await self.worker_processes.op():
            consumer = worker.name if job.legal(worker.name) else None
            for work in worker.work:
                if self._means(work.queue):
                    entry = Entry(
                        work.id, "pending", since_ms=work.since_ms,
                        payload=work.payload, consumer=consumer, called="busy",
                    )  # fmt: skip
                    rows.append(LocatedEntry(entry, place, b""))
        return rows

    @operation
    async def worker_processes(self) -> list[Process]:
        """The deployment's Resque workers; those silent for five minutes are not `alive`."""
        names = await of_set(self.keys["t_workers"])
        return list(await workers(names, self.keys, self.id_of))

    @property
    def process_registry(self) -> str:
        return self.keys["t_workers"]

    @operation
    async def prune_process(
        self,
        name: str,
        *,
        silent_ms: Duration | None = None,
        rescue: bool = False,
        op: str | None = None,
        step: int = 1,
    ) -> Pruned:
        """Strike a worker that was silent for so long (None: five minutes).

        As Resque does: what it had becomes a failure of its queue, from where it can be replayed.
        ``rescue`` puts it back to the front of its queue instead; should the worker be cut off and
        not dead, it runs twice. A worker that never beat is left alone, as Resque leaves it.
        """
        await self._ensure_registered()
        silence = PRUNE_MS if silent_ms is None else checked_ms(silent_ms, "silence")
        key = self.keys["t_workers"]
        if not await Call(("SISMEMBER", key, bytes_of(name)), bool, key=key):
            return Pruned("unknown")
        (worker,) = await workers([bytes_of(name)], self.keys, self.id_of)
        if worker.silent_ms is None or worker.silent_ms < silence:
            return Pruned("alive")
        text, own, queue = b"", b"", ""
        for work in worker.work:
            queue, own = work.queue, work.payload if rescue and work.queue else b""
            klass = (job.fields(work.payload) or {}).get("class") or "<Unknown Job>"
            text = failure.opened(
                work.payload, "Resque::PruneDeadWorkerDirtyExit",
                f"Worker {name} did not gracefully exit while processing {klass}", [], name, queue,
            )  # fmt: skip
        word, back, dead = await self._pruned(
            "prune_worker", op, step, (), identity=name, beat=worker.beat, working=worker.working,
            text=text, job=own, source=queue, queue=self.own_name,
        )  # fmt: skip
        return Pruned(word, waiting=back, dead=dead)

    @operation
    async def counts(self, now_ms: int | None = None) -> Counts:
        """The deployment's are exact. Of one queue, ``done`` isn't known, nor is dead while the
        failed list holds more than 500 of all queues; nor what a key of another type would say."""
        try:
            return await self._counts()
        except WrongKind:
            return await self._counts_of_the_rest()

    async def _counts(self) -> Counts:
        names, dead = await both(self._queues(), self._of_owners_sets("dead", None))
        ((lists, held), (busy, in_dead)), ((done, trash), (paused, closed)) = await both(
            both(
                both(
                    together(self._list(name).count() for name in names),
                    together(self._holding(name).count() for name in names),
                ),
                both(self._busy(), self._dead_count(dead)),
            ),
            both(
                both(self._done(), self._own_trash().count()),
                self._flags(),
            ),
        )
        paused = paused or await self.paused_there()
        part = bool(self.own_name or self.beside)
        unknown: set[State] = {"done"} if part or done is None else set()
        if in_dead is None:
            unknown.add("dead")
        return Counts(
            sum(lists), sum(held) + len(busy), 0, in_dead or 0, trash,
            0 if part else done or 0, None, paused, closed, frozenset(unknown),
        )  # fmt: skip

    async def paused_there(self) -> str | None:
        key = self.keys["t_paused"]
        is_paused = await Call(("GET", key), lambda said: said == b"true", key=key)
        return "paused in Resque" if is_paused else None

    async def _dead_count(self, places: Sequence[Place]) -> int | None:
        if self.own_name or self.beside:
            return await self._of_small(places)
        return sum(await together(place.count() for place in places))

"""Resque's layout: lists of records without an id, and one list of failures."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import ClassVar

from ...model.entry import Entry, Failure, Settlement, State
from ...model.errors import BadInput, Unfit
from ...model.quoting import bytes_of, text
from ...model.states import Verb
from ...model.worker_command import WorkerWord
from ...model.worker_process import Process, Pruned
from ...redis.operation import C_co, Call, operation
from ...redis.whole_keys import set_members
from ..declarations import Declared, List
from ..edits import Rewrite
from ..json_members import replaced
from ..json_text import text_member
from ..places import LocatedEntry, Place, Row
from ..releases import Releases
from ..ruby_jobs import job
from ..ruby_jobs.job import Job
from ..ruby_jobs.queue import RubyJobQueue
from . import failure
from .workers import PRUNE_MS, workers


class ResqueQueue(RubyJobQueue[C_co]):
    """``resque:<queue>``, or ``resque``: the deployment with all its queues.

    Jobs have no ids. The id of a waiting or pending job is 16 hex digits of its record's SHA-1, so
    equal records have one id. A failure's id is that of its job, a dot, and 8 digits of the
    failure's own record.
    """

    public: ClassVar[tuple[str, ...]] = ("push", "worker_processes", "prune_process")
    kind: ClassVar[str] = "resque"
    owner: ClassVar[str] = "Resque"
    package: ClassVar[str] = "foreign.resque"
    home: ClassVar[str] = "resque:"
    prune_after_ms: ClassVar[int] = PRUNE_MS
    states: ClassVar[Mapping[State, Sequence[Declared]]] = {
        "waiting": (List("queue:{q}", "enqueued"),),
        "pending": (),
        "delayed": (),
        "dead": (List("failed", "failed"),),
    }
    called: ClassVar[Mapping[str, str]] = {
        "t_paused": "pause-all-workers",
        "t_heartbeats": "workers:heartbeat",
    }
    releases: ClassVar[Releases] = Releases((), known=("1", "2", "3"))
    task_figures: ClassVar[str] = "Resque keeps nothing of jobs that succeeded"
    replay_note: ClassVar[str] = "as new jobs: Resque counts no attempts"
    unlisted: ClassVar[Mapping[State, str]] = {
        "delayed": "Those of resque-scheduler are not read: its own pages show them"
    }
    unwatched: ClassVar[str] = "Resque's jobs have no ids, so the end of a replayed job is unknown"
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
    no_commands: ClassVar[Mapping[WorkerWord, str]] = {
        "quiet": "Resque's workers heed only signals: USR2 quiets one, CONT lets it go on",
        "stop": "Resque's workers heed only signals: QUIT ends one when its job has ended",
        "stop-job": "Resque's workers heed only signals: USR1 kills the process that runs the job",
    }
    editable_states: ClassVar[tuple[State, ...]] = ("waiting", "dead")
    workers_at: ClassVar[str] = "workers"
    theirs: ClassVar[dict[str, str]] = {
        "queues": "set",
        "workers": "set",
        "failed": "list",
        "failed_queues": "set",
        "workers:heartbeat": "hash",
    }
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

    async def _size(self, state: State, places: Sequence[Place]) -> int | None:
        if state != "delayed":
            return await super()._size(state, places)
        key = self.at + "delayed_queue_schedule"  # resque-scheduler's
        return None if await Call(("EXISTS", key), bool, key=key) else 0

    # --- records -------------------------------------------------------------------------------

    def id_of(self, payload: bytes) -> str:
        return job.digest(payload)[:16]

    def _entry(self, state: State, place: Place, row: Row) -> Entry | None:
        element = row.member
        if state == "waiting":
            task = self.task_of(element)
            return Entry(
                self.id_of(element), state, payload=element, called=place.called, task=task
            )
        record = job.fields(element) or {}
        if not self._means(record.get("queue")):
            return None
        own = failure.job_of(element, record)
        kind = record.get("exception")
        lines = record.get("backtrace")
        error = None
        if isinstance(kind, str):
            error = Failure(
                kind,
                str(record.get("error", "")),
                "\n".join(map(str, lines)) if isinstance(lines, list) else "",
            )
        since = failure.failed_ms(record.get("failed_at"))
        worker = record.get("worker")
        lost = failure.times_lost(kind, record.get("error"))
        return Entry(
            f"{self.id_of(own or b'')}.{job.digest(element)[:8]}",
            "dead",
            at_ms=since,
            since_ms=since,
            payload=own if own is not None else element,
            failures=0 if lost else 1,
            lost=lost,
            consumer=worker if job.legal(worker) else None,
            reason=failure.reason(kind),
            error=error,
            called=place.called,
            task=text_member(record.get("payload"), self.task_in),
            record=(record, own),
        )

    def trash_payload(self, kept: bytes) -> bytes:
        """Of a failure, its job."""
        record = job.fields(kept) or {}
        return (None if "class" in record else failure.job_of(kept, record)) or kept

    def destination(
        self, seen: LocatedEntry, target: str, at_ms: int
    ) -> tuple[bytes | None, str] | None:
        if seen.place.kind == "held" or target == "delayed":
            return None, self.own_name
        record, own = seen.entry.record
        queue = record.get("queue")
        is_job = isinstance(record.get("payload"), dict)
        return (own, queue) if is_job and isinstance(queue, str) and queue else None

    def rewrite(self, seen: LocatedEntry, values: Mapping[str, bytes]) -> Rewrite:
        """Its id is of its bytes, so it has another one then."""
        if seen.entry.state == "waiting":
            return Rewrite(replaced(seen.member, values))
        record, own = seen.entry.record
        if own is None or "raw_hex" in (record.get("payload") or {}):
            raise Unfit("not JSON")
        return Rewrite(replaced(seen.member, {"payload": replaced(own, values)}))

    def _ended(self, settlement: Settlement) -> tuple[str, bytes, str, int]:
        delivery, why = settlement.delivery, Failure.decoded(settlement.value)
        assert why is not None
        text = failure.opened(
            delivery.payload,
            why.type,
            why.message,
            why.traceback.splitlines(),
            delivery.consumer,
            self.own_name,
        )
        return "rejected" if settlement.outcome == "reject" else "failed", text, "date", 0

    # --- producers -----------------------------------------------------------------------------

    @operation
    async def push(self, jobs: Iterable[Job]) -> list[str]:
        """Put jobs in, and return their ids. The same call sent again puts nothing in twice."""
        rows = []
        for given in job.jobs_of(jobs):
            if given.jid is not None:
                raise BadInput(f"job {given.klass}: Resque has no jid")
            data = given.encoded()
            rows.append((self.id_of(data), data))
        return await self._push(rows, "")

    # --- looking -------------------------------------------------------------------------------

    async def _of_owner(self, state: State, wrong: list[str] | None, whole: bool) -> list[Place]:
        if state != "dead":
            return await super()._of_owner(state, wrong, whole)
        entered = await self._unless(set_members(self.keys["t_failed_queues"]), [], wrong)
        names = [text(name) for name in dict.fromkeys([b"failed", *sorted(entered)])]
        if self.own_name:
            names = [name for name in names if name in ("failed", f"{self.own_name}_failed")]
        (declared,) = self.states["dead"]
        return [self._place("dead", declared, name) for name in names]

    @operation
    async def worker_processes(self) -> list[Process]:
        """The deployment's Resque workers; those silent for five minutes are not `alive`."""
        return await self.processes_with_jobs(whole=False)

    async def processes_with_jobs(self, whole: bool) -> list[Process]:
        names = await set_members(self.keys["t_workers"])
        return list(await workers(names, self.keys, self.id_of, whole))

    async def _remove_process(
        self, name: str, silent_ms: int, rescue: bool, op: str | None, step: int
    ) -> Pruned:
        """As Resque does it: the worker's job becomes a failure of its queue. A worker without a
        heartbeat is left alone."""
        key = self.keys["t_workers"]
        if not await Call(("SISMEMBER", key, bytes_of(name)), bool, key=key):
            return Pruned("unknown")
        (worker,) = await workers([bytes_of(name)], self.keys, self.id_of, whole=True)
        if worker.silent_ms is None or worker.silent_ms < silent_ms:
            return Pruned("alive")
        text, own, queue = b"", b"", ""
        for work in worker.work:
            queue = work.queue or ""
            own = work.payload if rescue and queue else b""
            klass = (job.fields(work.payload) or {}).get("class") or "<Unknown Job>"
            text = failure.opened(
                work.payload,
                "Resque::PruneDeadWorkerDirtyExit",
                f"Worker {name} did not gracefully exit while processing {klass}",
                [],
                name,
                queue,
            )
        word, back, dead = await self._pruned(
            "prune_worker",
            op,
            step,
            (),
            identity=name,
            beat=worker.beat,
            working=worker.working,
            text=text,
            job=own,
            source=queue,
            queue=self.own_name,
        )
        return Pruned(word, waiting=back, dead=dead)

    async def paused_there(self) -> str | None:
        key = self.keys["t_paused"]
        is_paused = await Call(("GET", key), lambda reply: reply == b"true", key=key)
        return "paused in Resque" if is_paused else None

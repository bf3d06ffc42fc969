"""RQ's layout (1 to 3): lists and sorted sets of job ids; the hash ``job:ID`` is the job.

A job's function and arguments are a pickle, which is never loaded: its size is shown, and the
description that RQ writes beside it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from ...engine.optional_features import HasTimeline, HasWorkerProcesses
from ...model.entry import Entry, State
from ...model.quoting import bytes_of, legal, raw_of
from ...model.states import Verb
from ...model.worker_process import Process
from ...redis.operation import C_co, Call, attempt, both, operation, together
from ...redis.parsers import moment, optional
from ..changes import JOB_VERBS, ForeignChanges
from ..declarations import Declared, List, Zset
from ..places import LocatedEntry, Place, Row, next_members
from . import job
from .workers import workers

FIELDS = (
    "description", "origin", "status", "created_at", "enqueued_at", "started_at", "ended_at",
    "worker_name", "timeout", "retries_left", "number_of_retries", "rate_limit_key", "exc_info",
)  # fmt: skip
SINCE = {
    "queued": "enqueued_at", "taken": "enqueued_at", "started": "started_at",
    "scheduled": "created_at", "deferred": "created_at",
}  # fmt: skip


class RqQueue(ForeignChanges[C_co], HasTimeline[C_co], HasWorkerProcesses[C_co]):
    """``rq:<queue>``, or ``rq``: the deployment with all its queues. An id is RQ's job id."""

    kind: ClassVar[str] = "rq"
    owner: ClassVar[str] = "RQ"
    home: ClassVar[str] = "rq:"
    package: ClassVar[str] = "foreign.rq"
    by_id: ClassVar[bool] = True
    states: ClassVar[Mapping[State, Sequence[Declared]]] = {
        "waiting": (List("queue:{q}", "queued"),),
        "pending": (Zset("wip:{q}", "started"), List("queue:{q}:intermediate", "taken")),
        "delayed": (
            Zset("scheduled:{q}", "scheduled", ready=True),
            Zset("deferred:{q}", "deferred"),
        ),
        "dead": (Zset("failed:{q}", "failed"),),
        "done": (Zset("finished:{q}", "finished"), Zset("canceled:{q}", "canceled")),
    }
    theirs: ClassVar[dict[str, str]] = {"queues": "set", "workers": "set"}
    actions: ClassVar[Mapping[Verb, tuple[State, ...]]] = JOB_VERBS
    identity: ClassVar[tuple[str, ...]] = ("created_at", "enqueued_at", "ended_at", "status")
    replay_note: ClassVar[str] = "as `rq requeue` does it: retries that are used up stay so"
    verbs: ClassVar[Mapping[str, str]] = {
        "requeue": "they wait for the next worker now, behind what waits there",
        "purge": "they go to the trash; jobs that depend on them stay deferred until they are back",
        "hard": "they are removed for good: no undo; jobs that depend on them stay deferred",
    }
    refusals: ClassVar[Mapping[str, str]] = {
        "requeue pending": "its worker may be at it; RQ itself moves the job of a killed worker to"
        " the failed ones when its time is over: then replay it",
        "claim": "only RQ's workers can take a job",
        "purge pending": "a worker is at them: stop them by `rq.command.send_stop_job_command`",
    }
    layout_faults: ClassVar[tuple[str, ...]] = (
        "a replayed job keeps the time at which its failure would have been forgotten: RQ's own"
        " requeue lets it vanish then, waiting or not; replay from here removes that time",
        "two schedulers, or a scheduler and anybody else, who enqueue a due job at once put it into"
        " the list twice",
        "a job of a killed worker stays started until its time is over",
        "what a job is lies in a pickle: who can write to the server can run code in its workers",
    )

    # --- records ---------------------------------------------------------------------------------

    def name_of(self, element: bytes) -> bytes:
        return element.removeprefix(bytes_of(self.at) + b"queue:")

    async def read(self, state: State, place: Place, rows: Sequence[Row]) -> Sequence[Entry | None]:
        ids = [_job_id(place, row.member) for row in rows]
        found = await together(attempt(self._record(id, state)) for id in ids)
        return [
            _entry(id, state, place, row, record)
            for id, row, record in zip(ids, rows, found, strict=True)
        ]

    async def _record(self, id: bytes, state: State) -> job.Record:
        key, results = (bytes_of(self.keys[part]) + id for part in ("t_job_", "t_results_"))
        (values, size), latest = await both(
            both(
                Call(("HMGET", key, *FIELDS), list[Any], key=key),
                Call(("HSTRLEN", key, "data"), int, key=key),
            ),
            Call(("XREVRANGE", results, "+", "-", "COUNT", 1), list[Any], key=results),
        )
        return job.Record(dict(zip(FIELDS, values, strict=True)), size, latest)

    async def _oldest_ms(self, waiting: Sequence[Place]) -> int | None:
        """When the next job of each list was enqueued: the longest ago of them."""
        keys = [bytes_of(self.keys["t_job_"]) + id for id in await next_members(waiting)]
        times = await together(Call(("HGET", k, "enqueued_at"), optional, key=k) for k in keys)
        return min(filter(None, map(job.time_ms, times)), default=None)

    async def members(self, place: Place, ids: Sequence[str]) -> Sequence[bytes]:
        jobs = [raw_of(id) for id in ids]
        if place.called != "started":
            return jobs
        # Beside the job's id its execution's, the latest of which is the last in a set of its own.
        keys = [bytes_of(self.keys["t_executions_"]) + id for id in jobs]
        latest = await together(Call(("ZRANGE", key, -1, -1), list[bytes], key=key) for key in keys)
        return [b":".join([id, *some]) for id, some in zip(jobs, latest, strict=True)]

    # --- what operators change -------------------------------------------------------------------

    def refused(self, seen: LocatedEntry, target: str) -> str:
        return "deferred" if seen.place.called == "deferred" else ""

    # --- looking ---------------------------------------------------------------------------------

    async def paused_there(self) -> str | None:
        key = self.at + "suspended"
        return "suspended in RQ" if await Call(("EXISTS", key), bool, key=key) else None

    @property
    def process_registry(self) -> str:
        return self.at + "workers"

    @operation
    async def worker_processes(self) -> list[Process]:
        """RQ's workers; one whose record expired is not `alive`."""
        return await workers(self.at)


def _job_id(place: Place, member: bytes) -> bytes:
    return member.rpartition(b":")[0] if place.called == "started" else member


def _entry(
    id: bytes, state: State, place: Place, row: Row, record: job.Record | Exception
) -> Entry:
    called = place.called
    at = moment(row.score * 1000) if called in ("started", "scheduled") else None
    if isinstance(record, Exception) or not record.size:
        why = "its job is gone" if not isinstance(record, Exception) else f"its job: {record}"
        return Entry(legal(id), state, at_ms=at, called=called, problem=why)
    since_ms = record.ms(SINCE.get(called, "ended_at"))
    failures, lost = record.failures(state)
    worker = legal(record.values["worker_name"] or b"")
    return Entry(
        legal(id), state, at_ms=since_ms if state == "dead" else at, since_ms=since_ms,
        payload=record.shown(), failures=failures, lost=lost, consumer=worker or None,
        reason=("lost" if lost else "failed") if state == "dead" else None,
        error=record.error() if state in ("dead", "delayed") else None, called=called,
    )  # fmt: skip

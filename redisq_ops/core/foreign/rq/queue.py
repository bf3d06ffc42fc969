"""RQ's layout: lists and sorted sets of job ids; the hash ``job:ID`` is the job.

A job's function and arguments are a pickle, which is never loaded: its size is shown, and the
description that RQ writes beside it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from itertools import chain
from typing import Any, ClassVar

from ...engine.optional_features import HasWorkerProcesses
from ...engine.relation import Links
from ...model.attachment import Attachment
from ...model.cut_element import LARGEST
from ...model.entry import Entry, State
from ...model.quoting import bytes_of, legal, raw_of
from ...model.states import Verb
from ...model.worker_command import WorkerWord
from ...model.worker_process import Process
from ...redis.key_scan import literal
from ...redis.operation import (
    C_co,
    Call,
    attempt,
    attempt_read,
    attempt_reads,
    operation,
    together,
)
from ...redis.parsers import optional
from ...redis.whole_keys import set_members
from ..attachments import attached, fields, python_value
from ..call_descriptions import call_of
from ..changes import JOB_VERBS, PURGED_DONE, RUN_AGAIN
from ..declarations import Declared, List, Zset
from ..edits import HasEdits, Rewrite
from ..elements import Element
from ..iso_times import iso_ms, span_ms
from ..job_hashes import JobHash, JobHashQueue, Note, hash_fields
from ..json_text import encoded
from ..list_place import DEPTH
from ..long_records import LONG_RECORD, bytes_used, not_read, whole_sizes
from ..owners_pause import HasKeyPause
from ..places import LocatedEntry, Place, Row
from ..releases import Releases
from ..schedules import HasSchedules, ScheduleProgram
from ..worker_commands import Order, SendsCommands
from .dependencies import links
from .job import Record, ended, error_of, json_of, returned
from .recogniser import OF_A_QUEUE
from .schedules import RqCron, RqScheduler
from .workers import order, workers

FIELDS = (
    "description",
    "origin",
    "status",
    "created_at",
    "enqueued_at",
    "started_at",
    "ended_at",
    "worker_name",
    "timeout",
    "retries_left",
    "number_of_retries",
    "rate_limit_key",
    "exc_info",
    "last_heartbeat",  # a worker writes it even if the job was removed meanwhile
)
SINCE = {
    "queued": "enqueued_at",
    "taken": "enqueued_at",
    "started": "started_at",
    "scheduled": "created_at",
    "deferred": "created_at",
}
DATA_BYTES = "data_bytes"
RESULTS = 10
"""results of a job that are read: RQ keeps ten, unless it is set otherwise"""
_EXECUTION = re.compile(rb"(.+):[0-9a-f]{32}", re.DOTALL)


def _executions(key: str, id: bytes) -> Call[list[bytes]]:
    """The elements of a job's executions among the first 10,000 of started jobs."""

    def read(reply: Any) -> list[bytes]:
        matches = (_EXECUTION.fullmatch(member) for member, _ in reply[1])
        return [match[0] for match in matches if match and match[1] == id]

    pattern = literal(id.decode("latin-1")).encode("latin-1") + b":*"
    return Call(("ZSCAN", key, 0, "MATCH", pattern, "COUNT", DEPTH), read, key=key)


class RqQueue(
    JobHashQueue[C_co],
    HasEdits[C_co],
    HasSchedules[C_co],
    HasKeyPause[C_co],
    SendsCommands[C_co],
    HasWorkerProcesses[C_co],
):
    """``rq:<queue>``, or ``rq``: the deployment with all its queues. An id is RQ's job id."""

    kind: ClassVar[str] = "rq"
    owner: ClassVar[str] = "RQ"
    home: ClassVar[str] = "rq:"
    package: ClassVar[str] = "foreign.rq"
    states: ClassVar[Mapping[State, Sequence[Declared]]] = {
        "waiting": (List("queue:{q}", "queued"),),
        "pending": (Zset("wip:{q}", "started"), List("queue:{q}:intermediate", "taken")),
        "delayed": (
            Zset("scheduled:{q}", "scheduled", ready=True),
            Zset("deferred:{q}", "deferred"),
            Zset("ready:{q}", "ready"),  # for a moment, or until RQ's maintenance after a crash
        ),
        "dead": (Zset("failed:{q}", "failed"),),
        "done": (Zset("finished:{q}", "finished"), Zset("canceled:{q}", "canceled")),
    }
    theirs: ClassVar[dict[str, str]] = {"queues": "set", "workers": "set"}
    known_keys: ClassVar[tuple[str, bytes] | None] = "*:{q}", OF_A_QUEUE + rb"|.*:.*"
    workers_at: ClassVar[str] = "workers"
    paused_by: ClassVar[tuple[str, str] | None] = "suspended", "suspended in RQ"
    task_in: ClassVar[tuple[str, ...]] = ("function",)
    timed: ClassVar[Mapping[str, float]] = {"started": 1000, "scheduled": 1000}
    wait_fields: ClassVar[tuple[str, ...]] = ("enqueued_at",)
    of_every_job: ClassVar[tuple[str, ...]] = ("data", "origin")
    actions: ClassVar[Mapping[Verb, tuple[State, ...]]] = {**JOB_VERBS, **PURGED_DONE, **RUN_AGAIN}
    by_stamp: ClassVar[Collection[str]] = ("waiting", "delayed", "trash", "gone")
    orphan_states: ClassVar[tuple[State, ...]] = ("pending",)
    fields: ClassVar[tuple[str, ...]] = FIELDS
    identity: ClassVar[tuple[str, ...]] = ("created_at", "enqueued_at", "ended_at", "status")
    schedule_programs: ClassVar[tuple[ScheduleProgram, ...]] = (RqCron(), RqScheduler())
    pause_note: ClassVar[str] = (
        "done as `rq suspend` and `rq resume` do it: for ALL queues of RQ here, not only this one"
    )
    releases: ClassVar[Releases] = Releases(
        ("1.10", "1.16", "2.0", "3.0"), told="the member `version` of each worker's hash"
    )
    task_figures: ClassVar[str] = (
        "RQ keeps a finished job for its `result_ttl`, 500 s unless it is set"
    )
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
        "purge pending": "a worker is at them: `redisq pending stop` ends one",
    }
    worker_commands: ClassVar[Mapping[WorkerWord, str]] = {
        "stop": "it ends when its present job has ended",
        "stop-job": "its worker kills the process that runs it; the job is `stopped`, and is listed"
        " as failed",
    }
    no_commands: ClassVar[Mapping[WorkerWord, str]] = {
        "quiet": "RQ can't quiet one worker: `redisq queue pause` suspends all"
    }
    after_deadline: ClassVar[str] = (
        "RQ's workers, which look when they start and every 10 minutes, let it wait again if it has"
        " retries left, or else move it to the failed ones"
    )
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

    async def job_ids(self, place: Place, members: Sequence[bytes]) -> Sequence[bytes | None]:
        """RQ 1 keeps the ids of started jobs, RQ 2 and 3 ``id:execution``. An id of RQ 1 may look
        like that, so an element that is a job's id as a whole is taken for the id."""
        doubtful = {
            member: found[1]
            for member in members
            if place.called == "started" and (found := _EXECUTION.fullmatch(member))
        }
        keys = [self.job_key(place, member) for member in doubtful]
        there = await together(Call(("EXISTS", key), bool, key=key) for key in keys)
        cut = {
            member: id
            for (member, id), whole in zip(doubtful.items(), there, strict=True)
            if not whole
        }
        return [cut.get(member, member) for member in members]

    async def read_hashes(
        self, place: Place, keys: Sequence[bytes], sizes: Sequence[int]
    ) -> Sequence[Mapping[str, bytes | None] | Exception]:
        """With the job's data, or, if that is too long, a `Note`, and its size as `DATA_BYTES`."""
        long = [key for key, size in zip(keys, sizes, strict=True) if size > LONG_RECORD]
        found, apart = await together(
            hash_fields(keys, self.fields, sizes, place.reads, of_short=("data",)),
            together(attempt_read(self._data(key)) for key in long),
        )
        data = dict(zip(long, apart, strict=True))
        for nth, key in enumerate(keys if long else ()):
            values, more = found[nth], data.get(key, {})
            if not isinstance(values, Exception):
                found[nth] = more if isinstance(more, Exception) else values | more
        return found

    async def _data(self, key: bytes) -> dict[str, bytes | None]:
        size = await Call(("HSTRLEN", key, "data"), int, key=key)
        if size > LONG_RECORD:
            return {"data": Note(not_read(size).encode()), DATA_BYTES: b"%d" % size}
        return {"data": await Call(("HGET", key, "data"), optional, key=key)}

    async def read_beside(self, place: Place, state: State, ids: Sequence[bytes]) -> Sequence[Any]:
        """The latest result of each job that may have failed, and whether its data is unpacked."""
        failed = state in ("dead", "delayed") and not place.brief
        results = [bytes_of(self.keys["t_results_"]) + id for id in ids] if failed else []
        latest = await self._latest(place, results) or [[]] * len(ids)
        return [(each, not place.brief) for each in latest]

    def job(self, values: Mapping[str, bytes | None], beside: Any) -> Record | Exception:
        latest, opened = beside
        if isinstance(latest, Exception):
            return latest
        data = values.get("data") or b""
        size = int(values.get(DATA_BYTES) or len(data))
        return Record(values, size, latest, json_of(data) if opened else b"")

    async def _latest(self, place: Place, keys: Sequence[bytes]) -> Sequence[Any]:
        """The latest result in each of these streams, or why it can't be read; a note if its stream
        is too long."""
        sizes = await whole_sizes(keys, unknown=0)
        short = [key for key, size in zip(keys, sizes, strict=True) if place.reads(size)]
        asked = [("XREVRANGE", key, "+", "-", "COUNT", "1") for key in short]
        calls: list[Call[Any]] = [Call(ask, list[Any], key=ask[1], ready=len(ask)) for ask in asked]
        latest = iter(await attempt_reads(calls))
        return [next(latest) if place.reads(size) else not_read(size) for size in sizes]

    def entry(self, state: State, place: Place, id: str, at_ms: int | None, job: Record) -> Entry:
        since_ms = job.ms(SINCE.get(place.called, "ended_at"))
        if place.called == "scheduled":  # a retry is, since its attempt ended
            since_ms = max(filter(None, (since_ms, job.ms("ended_at"))), default=None)
        if place.brief:
            return Entry(id, state, at_ms, since_ms, None, called=place.called, record=job)
        traceback = job.traceback() if state in ("dead", "delayed") else ""
        failures, lost = job.failures(state, traceback)
        call = job.call() if place.payloads else None
        return Entry(
            id,
            state,
            at_ms=since_ms if state == "dead" else at_ms,
            since_ms=since_ms,
            payload=None if call is None else job.shown(call),
            task=job.function if call is None else call.get("function"),
            failures=failures,
            lost=lost,
            called=place.called,
            consumer=legal(job.values["worker_name"] or b"") or None,
            reason=("lost" if lost else "failed") if state == "dead" else None,
            error=error_of(traceback),
            run_ms=span_ms(job.ms("started_at"), job.ms("ended_at")),
            record=job,
        )

    @operation
    async def attachments(self, entry: Entry) -> list[Attachment]:
        """What its function returned, its `meta`, and how its earlier runs ended."""
        begins = self.keys["t_job_"], self.keys["t_results_"]
        key, results = (bytes_of(begin) + raw_of(entry.id) for begin in begins)
        (meta, value), used = await together(  # `result`: before RQ 1.12
            fields(key, "meta", "result"), bytes_used(results, samples=0)
        )
        if used > LARGEST:
            return [*python_value("meta", meta), *attached("results", used)]
        ask = Call(("XREVRANGE", results, "+", "-", "COUNT", RESULTS), list[Any], key=results)
        runs = await ask
        value = returned(runs) or value
        # The latest run of these is the entry's error or result.
        earlier = runs if entry.error is None and entry.called != "finished" else runs[1:]
        return [
            *python_value("result", value if entry.state == "done" else None),
            *python_value("meta", meta),
            *attached("earlier runs", encoded([*map(ended, earlier)]) if earlier else None),
        ]

    async def read(self, state: State, place: Place, rows: Sequence[Row]) -> Sequence[Entry | None]:
        """Without ids that are over their time: the job expired then, and RQ removes the id when
        it next looks at the registry."""
        entries = await super().read(state, place, rows)
        if place.called not in ("finished", "failed") or not any(e and e.orphan for e in entries):
            return entries
        now = await self._now() / 1000
        return [
            None if entry and entry.orphan and 0 <= row.score < now else entry
            for entry, row in zip(entries, rows, strict=True)
        ]

    def is_whole(self, values: Sequence[bytes | None]) -> bool:
        return all(values) and (self.whole or values[1] == bytes_of(self.own_name))

    def waits_since(self, job: JobHash) -> int | None:
        return iso_ms(job.text("enqueued_at"))

    def trash_payload(self, kept: bytes) -> bytes:
        """Made of the job's description, which the trash keeps."""
        description = kept.decode("utf-8", "backslashreplace")
        return encoded({"description": description} | call_of(description))

    async def members(self, place: Place, ids: Sequence[str]) -> Sequence[bytes]:
        jobs = [raw_of(id) for id in ids]
        if place.called != "started":
            return jobs
        # Elements are ``id:execution``; the last in the job's set of executions is the latest.
        keys = [bytes_of(self.keys["t_executions_"]) + id for id in jobs]
        latest = await together(Call(("ZRANGE", key, -1, -1), list[bytes], key=key) for key in keys)
        found = dict(zip(jobs, latest, strict=True))
        # That set may have been removed with the job.
        gone = await together(_executions(place.key, id) for id in jobs if not found[id])
        return [b":".join([id, *some]) for id, some in found.items()] + [*chain(*gone)]

    # --- what operators change -------------------------------------------------------------------

    def rewrite(self, seen: LocatedEntry, values: Mapping[str, bytes]) -> Rewrite:
        job, key = seen.entry.record, self.job_key(seen.place, seen.member)
        fields = job.with_arguments(values).items()
        return Rewrite(parts=[Element("hash", key, n.encode(), *both) for n, both in fields])

    def refused(self, seen: LocatedEntry, target: str) -> str:
        return "deferred" if seen.place.called in ("deferred", "ready") else ""

    # --- looking ---------------------------------------------------------------------------------

    def beside_it(self, own_name: str) -> RqQueue[C_co]:
        """Another queue of the deployment."""
        if self.whole or own_name == self.own_name:
            return self
        name = self._name_of(own_name)
        return RqQueue(self.client, name, at=self.at, own_name=own_name, prefix=self.prefix)

    @operation
    async def links(self, entries: Sequence[Entry]) -> list[Links]:
        return await together(links(self, raw_of(entry.id)) for entry in entries)

    async def releases_there(self) -> Sequence[str]:
        """The releases of its workers: RQ writes its release nowhere else."""
        keys = await set_members(self.process_registry)
        found = await together(
            attempt(Call(("HGET", key, "version"), optional, key=key)) for key in keys
        )
        return [legal(each) for each in found if isinstance(each, bytes)]

    @operation
    async def worker_processes(self) -> list[Process]:
        """RQ's workers; one whose record expired is not `alive`."""
        return await workers(self.at)

    async def order(self, word: WorkerWord, target: str) -> Order | None:
        return await order(self.at, word, target)

"""arq's layout: a queue is one sorted set of job ids, by the time (ms) at which they are
due. ``arq:job:ID`` is the job, ``arq:in-progress:ID`` a worker's mark, ``arq:result:ID`` how it
ended. These three are shared by all queues of a database, and no key lists the results."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from hashlib import sha1
from typing import ClassVar

from ...engine.optional_features import HasDoneEntries, HasTimeline
from ...engine.state_scan import positions
from ...model.attachment import Attachment
from ...model.entry import Entry, State
from ...model.errors import Unfit
from ...model.quoting import bytes_of, legal, raw_of
from ...model.states import Verb
from ...model.worker_command import WorkerWord
from ...model.worker_process import Process
from ...redis.operation import C_co, Call, operation, together
from ...redis.parsers import moment, number
from ...redis.whole_keys import strings
from ..attachments import value_shown
from ..changes import JOB_VERBS
from ..declarations import Declared, Zset
from ..edits import HasEdits, Rewrite
from ..elements import Element
from ..iso_times import span_ms
from ..json_members import replaced
from ..long_records import not_read
from ..places import DuePart, GatheredPlace, LocatedEntry, Place, Row, orphan
from ..record_sizes import string_sizes
from ..releases import Releases
from ..scanned_results import ScannedResults
from ..worker_commands import Order, SendsCommands
from .job import Record

JOB, MARK, RESULT = "arq:job:", "arq:in-progress:", "arq:result:"
_FIELDS = {"args": "a", "kwargs": "k"}
FRONT = 1000
"""first jobs that are checked for a worker's mark: workers take jobs with the lowest scores"""


class ArqQueue(SendsCommands[C_co], HasEdits[C_co], HasTimeline[C_co], HasDoneEntries[C_co]):
    """``arq:KEY``, the key being arq's ``queue_name``. An id is arq's job id."""

    kind: ClassVar[str] = "arq"
    owner: ClassVar[str] = "arq"
    package: ClassVar[str] = "foreign.arq"
    by_id: ClassVar[bool] = True
    by_stamp: ClassVar[Collection[str]] = ("delayed", "trash", "gone")
    screens: ClassVar[int] = 20
    theirs: ClassVar[dict[str, str]] = {"arq:abort": "zset"}
    workers_at: ClassVar[str] = "{q}:health-check"
    task_in: ClassVar[tuple[str, ...]] = ("function",)
    called: ClassVar[Mapping[str, str]] = {
        "t_job_": "arq:job_",
        "t_result_": "arq:result_",
        "t_retry_": "arq:retry_",
        "t_progress_": "arq:in-progress_",
        "t_abort": "arq:abort",
    }
    states: ClassVar[Mapping[State, Sequence[Declared]]] = {
        "waiting": (Zset("{q}", "queued"),),
        "pending": (Zset("{q}", "in progress"),),
        "delayed": (Zset("{q}", "deferred", ready=True, unit_ms=1),),
        "dead": (),  # see `ScannedResults`
        "done": (),
    }
    actions: ClassVar[Mapping[Verb, tuple[State, ...]]] = JOB_VERBS
    no_pause: ClassVar[str] = "arq has no pause: stop its workers"
    no_schedules: ClassVar[str] = (
        "arq's cron jobs are in its workers' code; Redis has only their next jobs, which are"
        " delayed entries `cron:NAME:TIME`"
    )
    releases: ClassVar[Releases] = Releases(("0.28",))
    task_figures: ClassVar[str] = "arq keeps a result for `keep_result`, an hour unless it is set"
    replay_note: ClassVar[str] = "as new jobs of the same id: arq counts their tries from 1 again"
    verbs: ClassVar[Mapping[str, str]] = {
        "requeue": "they are due now",
        "purge": "they go to the trash; their ids can be enqueued again at once",
    }
    refusals: ClassVar[Mapping[str, str]] = {
        "requeue pending": "nobody can tell whether its worker lives, and a job started twice"
        " is recorded as failed; arq runs it again when its mark expires",
        "claim": "only arq's workers can take a job",
        "replay done": "arq keeps one result for an id, and your application may still read it:"
        " enqueue the job anew, under another id",
        "purge done": "arq forgets them when their time (`keep_result`) is over",
        "purge pending": "it runs: `redisq pending stop` ends it, if its worker allows that",
    }
    worker_commands: ClassVar[Mapping[WorkerWord, str]] = {
        "stop-job": "a worker with `allow_abort_jobs` cancels it and records it as failed; others"
        " pay no attention",
    }
    no_commands: ClassVar[Mapping[WorkerWord, str]] = dict.fromkeys(
        ("quiet", "stop"), "arq's workers heed only signals: send one TERM, and it ends"
    )
    workers_unknown: ClassVar[str] = (
        "all workers of a queue write one health check, once an hour unless it is set: a worker"
        " was there then. How many there are, and what they do, is unknown"
    )
    after_deadline: ClassVar[str] = "the next worker that looks for a job runs it again"
    layout_faults: ClassVar[tuple[str, ...]] = (
        "a job that expired while it waited (a day after it was due) leaves its id, and a result"
        " `job expired` when a worker comes to it",
        "a job of a killed worker waits until the longest time of any job, and ten seconds, are"
        " over",
        "what a job is lies in a pickle: who can write to the server can run code in its workers",
    )

    # --- where entries are -----------------------------------------------------------------------

    @operation
    async def exists(self) -> bool:
        if not self.own_name:
            return False
        health = self.own_name + ":health-check"
        keys = (self.own_name, health)
        if any(await together(Call(("EXISTS", key), bool, key=key) for key in keys)):
            return True
        pages = await together(self.page.op("dead", max=1), self.page.op("done", max=1))
        return any(page.entries for page in pages)

    @operation
    async def worker_processes(self) -> list[Process]:
        """The health check, which one of the queue's workers wrote, if it is there."""
        key = self.process_registry
        if not await Call(("EXISTS", key), bool, key=key):
            return []
        return [
            Process(legal(bytes_of(key)), queues=(self.own_name,), alive=None, work_known=False)
        ]

    async def order(self, word: WorkerWord, target: str) -> Order | None:
        """As `Job.abort`."""
        id, abort = raw_of(target), b"arq:abort"
        mark = bytes_of(MARK) + id
        score: Call[float | None] = Call(("ZSCORE", abort, id), number, key=abort)
        runs, (asked, now) = await together(
            Call(("EXISTS", mark), bool, key=mark), together(score, self._now())
        )
        if not runs:
            return None
        before = None if asked is None else f"{asked:.17g}".encode()
        return Order(
            [Element("key", mark, b"", b"1", b"1"), Element("zset", abort, id, before, b"%d" % now)]
        )

    async def _of_owner(self, state: State, wrong: list[str] | None, whole: bool) -> list[Place]:
        read = self._reader(state)
        if state in ("dead", "done"):
            called = "failed" if state == "dead" else "complete"
            sizes = string_sizes(RESULT)
            return [ScannedResults(self.own_name, called, read, sizes=sizes, begin=RESULT)]
        now, running = await together(self._now(), self._unless(self._running(), [], wrong))
        if state == "pending":
            called, sizes = self.states[state][0].called, string_sizes(JOB)
            place = Place(self.own_name, called, read, whole=whole, sizes=sizes)
            return [GatheredPlace(rows=await place.located(running))]
        part = self._part(state, now)
        return [replace(part, hidden=sum((row.score <= now) is part.due for row in running))]

    def _part(self, state: State, now: float) -> DuePart:
        read, sizes, due = self._reader(state), string_sizes(JOB), state == "waiting"
        called = self.states[state][0].called
        return DuePart(self.own_name, called, read, sizes=sizes, now=now, due=due)

    async def _places_of_ids(self, state: State) -> list[Place]:
        """Jobs that run are left out when they are read, or by the script."""
        if state not in ("waiting", "delayed"):
            return await super()._places_of_ids(state)
        return [self._part(state, await self._now())]

    async def _size(self, state: State, places: Sequence[Place]) -> int | None:
        """Results are not counted: no key lists them."""
        return None if self._shared(state) else await super()._size(state, places)

    async def _running(self) -> list[Row]:
        """Which of the first members have a worker's mark."""
        key = self.own_name
        front = await positions(key, 0, FRONT - 1)
        marks = await self._records(MARK, [member for _, member in front])
        rows = zip(front, marks, strict=True)
        return [Row(member, score) for (score, member), mark in rows if mark is not None]

    # --- records ---------------------------------------------------------------------------------

    async def read(self, state: State, place: Place, rows: Sequence[Row]) -> Sequence[Entry | None]:
        if state in ("dead", "done"):
            found = await self._short_records(RESULT, rows, place)
            return [
                self._result(state, place, row, record)
                for row, record in zip(rows, found, strict=True)
            ]
        ids = [row.member for row in rows]
        jobs, tries, marks = await together(
            self._short_records(JOB, rows, place),
            self._records("arq:retry:", ids),
            self._records(MARK, ids),
        )
        running = [bytes_of(MARK) + id for id in ids if state == "pending"]
        until = await together(Call(("PEXPIRETIME", key), _time, key=key) for key in running)
        times = until or [moment(row.score) for row in rows]
        return [
            self._job(state, place, row, at, job, tried)
            if (mark is not None) is bool(until)
            else None
            for row, at, job, tried, mark in zip(rows, times, jobs, tries, marks, strict=True)
        ]

    async def _records(self, prefix: str, ids: Sequence[bytes]) -> list[bytes | None]:
        """The record of each id; None: there is none."""
        keys = [bytes_of(prefix) + id for id in ids]
        return await strings(keys, not self.on_cluster)

    async def _short_records(self, prefix: str, rows: Sequence[Row], place: Place) -> list[Record]:
        """Jobs or results of these ids; of one that is too long for the place only its size."""
        ids = [row.member for row in rows]
        return [
            Record({}, found, problem=not_read(found))
            if isinstance(found, int)
            else Record.read(found)
            for found in await place.records(rows, ids, partial(self._records, prefix))
        ]

    def _job(
        self,
        state: State,
        place: Place,
        row: Row,
        at: int | None,
        record: Record,
        tries: bytes | None,
    ) -> Entry:
        if record.gone:
            return orphan(place, state, legal(row.member), at)
        if record.problem:
            return Entry(legal(row.member), state, at, called=place.called, problem=record.problem)
        since = record.number("et") if state == "delayed" else moment(row.score)
        if place.brief:
            id = legal(row.member)
            return Entry(id, state, at, since, None, called=place.called, record=record)
        begun = int(tries) if tries and tries.isdigit() and len(tries) < 10 else 0
        return Entry(
            legal(row.member),
            state,
            at,
            since,
            record.shown() if place.payloads else None,
            called=place.called,
            failures=max(0, begun - (state == "pending")),
            task=record.fields["f"],
            record=record,
        )

    def _result(self, state: State, place: Place, row: Row, record: Record) -> Entry | None:
        if not place.reads(record.size):
            called = f"{place.called}, of any queue"
            return Entry(legal(row.member), state, called=called, problem=record.problem)
        dead = record.fields.get("s") is False
        if record.queue != self.own_name or dead is not (state == "dead"):
            return None
        ended, tried = record.number("ft"), record.number("t")
        return Entry(
            legal(row.member),
            state,
            ended,
            ended,
            record.shown() if place.payloads else None,
            called=place.called,
            failures=max(0, (tried or 0) - (not dead)),
            uncounted=tried is None,
            reason="failed" if dead else None,
            error=record.error() if dead else None,
            run_ms=span_ms(record.number("st"), ended),
            task=record.fields["f"],
            record=record,
        )

    @operation
    async def attachments(self, entry: Entry) -> list[Attachment]:
        """What its function returned."""
        record = entry.record
        if entry.state != "done" or not isinstance(record, Record):
            return []
        return value_shown("result", record.fields.get("r"))

    # --- what operators change -------------------------------------------------------------------

    def stamp(self, entry: Entry) -> bytes:
        """Whether it is a job or a result, and the digest of its bytes."""
        record, what = entry.record, "result" if entry.state == "dead" else "job"
        read = isinstance(record, Record)
        return f"{what} {sha1(record.data).hexdigest()}".encode() if read else b""

    def rewrite(self, seen: LocatedEntry, values: Mapping[str, bytes]) -> Rewrite:
        record = seen.entry.record
        if not isinstance(record, Record) or not record.is_json:
            raise Unfit("its arguments are in a pickle")
        key = bytes_of(RESULT if seen.entry.state == "dead" else JOB) + seen.member
        after = replaced(record.data, {_FIELDS[name]: value for name, value in values.items()})
        return Rewrite(parts=[Element("string", key, b"", record.data, after)])

    def trash_payload(self, kept: bytes) -> bytes:
        record = Record.read(kept)
        return kept if record.problem else record.shown()

    def destination(
        self, seen: LocatedEntry, target: str, at_ms: int
    ) -> tuple[bytes | None, str] | None:
        """For a result, the job that led to it."""
        record = seen.entry.record
        if seen.entry.state != "dead" or not isinstance(record, Record):
            return None, ""
        return (again, "") if (again := record.job()) else None

    # --- looking ---------------------------------------------------------------------------------

    def _shared(self, state: State) -> bool:
        return state in ("dead", "done")


def _time(expires: int) -> int | None:
    return None if expires < 0 else expires

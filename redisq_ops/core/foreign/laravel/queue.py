"""Laravel's queues in Redis: a list, and sorted sets of delayed and reserved jobs.

Laravel keeps no failed jobs here. Horizon keeps those of all its queues, in keys that begin with
something else: the application's name leads to them (`horizons_of`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

from ...engine.optional_features import HasDoneEntries, HasTimeline
from ...engine.replay_tracking import ReplayTracker
from ...model.attachment import Attachment
from ...model.entry import Entry, Page, PageQuery, State
from ...model.errors import Unfit
from ...model.quoting import bytes_of, legal, raw_of, text
from ...model.states import Verb
from ...model.worker_command import WorkerWord
from ...redis.operation import C_co, Call, operation, together
from ...redis.parsers import moment
from ..attachments import attached, fields
from ..changes import JOB_VERBS, ForeignChanges
from ..declarations import Declared, List, Zset
from ..edits import HasEdits, Rewrite
from ..elements import Element
from ..iso_times import span_ms
from ..job_hashes import JobHash, Note, hash_fields
from ..json_members import replaced
from ..json_text import text_member
from ..long_records import LONG_RECORD, whole_sizes
from ..places import LocatedEntry, Place, Row
from ..releases import Releases
from .job import COMPARED, HorizonJob, Job, error_of, retry_status, time_ms
from .recogniser import horizons_of

ENDED: Mapping[State, str] = {"dead": "failed", "done": "completed"}
"""states that Horizon keeps -> the status of their jobs"""
SHOWN = ("exception", "completed_at", "reserved_at")


class LaravelQueue(HasEdits[C_co], HasTimeline[C_co], HasDoneEntries[C_co]):
    """``laravel:<queue>``; or the failed jobs of a Horizon whose queues have no keys.

    An id is the job's ``uuid``, the same at each attempt; Horizon's retry has another."""

    kind: ClassVar[str] = "laravel"
    owner: ClassVar[str] = "Laravel"
    home: ClassVar[str] = "laravel_database_"
    package: ClassVar[str] = "foreign.laravel"
    by_id: ClassVar[bool] = True
    holds_payloads: ClassVar[bool] = True
    screens: ClassVar[int] = 20
    theirs: ClassVar[dict[str, str]] = {}
    task_in: ClassVar[tuple[str, ...]] = ("displayName", "job")
    states: ClassVar[Mapping[State, Sequence[Declared]]] = {
        "waiting": (List("queues:{q}", "queued"),),
        "pending": (Zset("queues:{q}:reserved", "reserved"),),
        "delayed": (Zset("queues:{q}:delayed", "delayed", ready=True),),
        "dead": (Zset("horizon:failed_jobs", "failed"),),
        "done": (
            Zset("horizon:completed_jobs", "completed"),
            Zset("horizon:silenced_jobs", "silenced"),
        ),
    }
    actions: ClassVar[Mapping[Verb, tuple[State, ...]]] = {
        **JOB_VERBS,
        "requeue": ("pending", "delayed"),
    }
    no_commands: ClassVar[Mapping[WorkerWord, str]] = {
        **dict.fromkeys(
            ("quiet", "stop"),
            "Horizon's commands go by signals on its machine (`php artisan horizon:pause`,"
            " `horizon:terminate`), and `queue:restart` writes into the application's cache",
        ),
        "stop-job": "Laravel can't end a job that runs: its `timeout` does",
    }
    no_pause: ClassVar[str] = (
        "what pauses Laravel's workers is not among the queue's keys: run `php artisan"
        " horizon:pause`, or stop the workers"
    )
    no_schedules: ClassVar[str] = "Laravel's schedules are in the application's code"
    arguments: ClassVar[tuple[str, ...]] = ("data",)
    by_stamp: ClassVar[Collection[str]] = ("trash", "gone")
    releases: ClassVar[Releases] = Releases((), known=("6", "8", "10", "12", "13"))
    task_figures: ClassVar[str] = (
        "only Horizon keeps completed jobs, for an hour unless `trim.completed` is set"
    )
    replay_note: ClassVar[str] = "as Horizon's retries: new jobs, whose attempts count from 0"
    verbs: ClassVar[Mapping[str, str]] = {
        "requeue": "they wait for the next worker now, behind what waits there",
    }
    refusals: ClassVar[Mapping[str, str]] = {
        "claim": "only Laravel's workers can take a job",
        "replay done": "Horizon retries failed jobs only: dispatch the job anew",
        "purge pending": "a worker has them; requeue them once `retry_after` is over",
        "purge done": "Horizon forgets them an hour after their end, unless it is set otherwise",
    }
    after_deadline: ClassVar[str] = (
        "the next worker that looks for a job makes it waiting again, and fails it if its tries are"
        " used up"
    )
    layout_faults: ClassVar[tuple[str, ...]] = (
        "a job that runs for longer than `retry_after` is run a second time meanwhile",
        "failed jobs are in a table of the database; in Redis only with Horizon, for a week",
    )

    # --- where entries are -----------------------------------------------------------------------

    @property
    def horizons(self) -> list[str]:
        """What the keys of its Horizon may begin with."""
        return [self.at] if self.whole else horizons_of(self.at)

    async def _has_horizon(self) -> bool:
        keys = [
            at + name for at in self.horizons for name in ("failed_jobs", "recent_jobs", "masters")
        ]
        return any(await together(Call(("EXISTS", key), bool, key=key) for key in keys))

    @operation
    async def exists(self) -> bool:
        return await (self._has_horizon() if self.whole else ForeignChanges.exists(self))

    def _shared(self, state: State) -> bool:
        return state in ENDED

    async def places_of(self, state: State, names: Sequence[str]) -> list[Place]:
        found = await super().places_of(state, names)
        if state not in ENDED:
            return found
        return [
            replace(place, key=at + place.key.rpartition(":")[2], sizes=_sizes)
            for at in self.horizons
            for place in found
        ]

    async def _found_by_id(self, place: Place, wanted: Any) -> bool:
        """Only jobs that Horizon keeps are found by their ids."""
        return place.called in ENDED.values() and await super()._found_by_id(place, wanted)

    async def _size(self, state: State, places: Sequence[Place]) -> int | None:
        """Unknown: jobs that ended, without Horizon; and other jobs of a whole Horizon, which
        doesn't name the keys of its queues."""
        known = await self._has_horizon() if state in ENDED else not self.whole or state == "trash"
        return await super()._size(state, places) if known else None

    async def _page(self, state: State, query: PageQuery) -> Page:
        page = await super()._page(state, query)
        return (
            page if state not in ENDED or await self._has_horizon() else replace(page, exact=False)
        )

    async def _oldest_ms(self, waiting: Sequence[Place]) -> int | None:
        """Of the next job; unknown where jobs are large."""
        small = [place for place in await self._weighed(waiting) if place.mean <= LONG_RECORD]
        windows = await together(place.window(0, 1) for place in small)
        return next((rows[0].entry.since_ms for rows, _ in windows if rows), None)

    # --- records ---------------------------------------------------------------------------------

    async def read(self, state: State, place: Place, rows: Sequence[Row]) -> Sequence[Entry | None]:
        if state not in ENDED:
            return [self._job(state, place, row) for row in rows]
        names = COMPARED if place.brief else (*COMPARED, *SHOWN)
        keys = [job_key(place, row.member) for row in rows]
        sizes = [row.size or 0 for row in rows]
        found = await hash_fields(keys, names, sizes, place.reads)
        return [self._ended(state, place, row, each) for row, each in zip(rows, found, strict=True)]

    def _job(self, state: State, place: Place, row: Row) -> Entry:
        job, waits = Job.read(row.member), state == "waiting"
        return Entry(
            job.id,
            state,
            None if waits else moment(row.score * 1000),
            job.pushed_ms if waits else None,
            row.member,
            called=place.called,
            failures=max(0, job.attempts - (state == "pending")),
            task=text_member(job.fields, self.task_in),
            problem=None if job.fields else "not a job of Laravel's",
        )

    def _ended(self, state: State, place: Place, row: Row, found: Any) -> Entry | None:
        """A job that failed or completed. None: it is another queue's, was retried, or Horizon has
        forgotten it."""
        dead, id, called = state == "dead", legal(row.member), place.called
        reason = "failed" if dead else None
        if isinstance(found, Exception):
            return Entry(id, state, called=called, reason=reason, problem=f"its job: {found}")
        kept, payload = HorizonJob.read(found), found["payload"] or b""
        mine = kept.text("status") == ENDED[state] and self._means(kept.text("queue"))
        if not mine or (dead and retry_status(kept)):
            return None
        unread = isinstance(payload, Note)
        whole = not (place.brief or unread)
        ended = time_ms(kept.text("failed_at" if dead else "completed_at"))
        return Entry(
            id,
            state,
            ended if dead else None,
            ended if dead or whole else None,
            None if unread else payload,
            failures=max(0, kept.job.attempts - (not dead)),
            reason=reason,
            error=error_of(kept.text("exception")) if dead and whole else None,
            called=called,
            task=None if unread else text_member(kept.job.fields, self.task_in),
            problem=payload.decode() if unread else None,
            run_ms=span_ms(time_ms(kept.text("reserved_at")), ended) if whole else None,
            record=kept,
        )

    def _failures(self, payload: bytes) -> int:
        return Job.read(payload).attempts

    def _trait(self, id: str) -> str:
        """The id itself, unless it may be a digest, or JSON may write it in another way."""
        return id if len(id) > 24 and id.isascii() and id.replace("-", "").isalnum() else ""

    @operation
    async def attachments(self, entry: Entry) -> list[Attachment]:
        """What Horizon keeps beside the exception: its context, and the retries of a failed job."""
        if entry.state not in ENDED:
            return []
        keys = [bytes_of(at) + raw_of(entry.id) for at in self.horizons]
        found = await together(fields(key, "context", "retried_by") for key in keys)
        return [
            each
            for context, retries in found
            for each in (*attached("context", context), *attached("retries", retries))
        ]

    # --- what operators change -------------------------------------------------------------------

    def rewrite(self, seen: LocatedEntry, values: Mapping[str, bytes]) -> Rewrite:
        failed = seen.entry.record
        kept = isinstance(failed, HorizonJob)
        before = failed.job.data if kept else seen.member
        data = Job.read(before).fields.get("data")
        if isinstance(data, dict) and "command" in data:
            raise Unfit("its data is an object of PHP")
        after = replaced(before, values)
        if not kept:
            return Rewrite(after)
        key, same = job_key(seen.place, seen.member), failed.values | {"payload": after}
        return Rewrite(
            parts=[Element("hash", key, n.encode(), failed.values[n], same[n]) for n in COMPARED]
        )

    def destination(
        self, seen: LocatedEntry, target: str, at_ms: int
    ) -> tuple[bytes | None, str] | None:
        """For a failed job, its retry."""
        failed = seen.entry.record
        if not isinstance(failed, HorizonJob):
            return None if self.whole else (None, self.own_name)
        if self.whole or not failed.job.fields:
            return None
        return failed.job.retry(text(raw_of(seen.entry.id)), failed, at_ms), self.own_name

    def stamp(self, entry: Entry) -> bytes:
        return entry.record.stamp(COMPARED) if isinstance(entry.record, JobHash) else b""

    def written_keys(self) -> list[str]:
        failed = [at + "failed_jobs" for at in self.horizons]
        return [*(key for key in super().written_keys() if "horizon:" not in key), *failed]

    async def retry_status(self, id: str) -> str | None:
        """What became of a failed job's last retry: pending, completed or failed; None: none."""
        keys = [bytes_of(at) + raw_of(id) for at in self.horizons]
        names = ("failed_at", "retried_by")
        found = await hash_fields(keys, names, await whole_sizes(keys), lambda _: True)
        jobs = [JobHash(each) for each in found if not isinstance(each, Exception)]
        return next(filter(None, map(retry_status, jobs)), None)

    def replay_tracker(self) -> ReplayTracker:
        return RetryTracker(self)


class RetryTracker(ReplayTracker):
    """A retry has another id. Horizon notes in the failed job's hash how the retry ended."""

    at_once: ClassVar[int] = 20

    async def look(self) -> list[bool]:
        queue, ids, ended = self._queue, list(self._since)[: self.at_once], list[bool]()
        assert isinstance(queue, LaravelQueue)
        self._owed.difference_update(ids)
        for id, status in zip(ids, await together(map(queue.retry_status, ids)), strict=True):
            since_ms = self._since.pop(id)
            if status == "pending":
                self._since[id] = since_ms
            elif status:
                ended.append(status == "failed")
        return ended


def job_key(place: Place, id: bytes) -> bytes:
    """The key of the hash of a job that Horizon keeps."""
    return bytes_of(place.key.rpartition(":")[0]) + b":" + id


async def _sizes(place: Place, rows: Sequence[Row], /) -> Sequence[int]:
    return await whole_sizes([job_key(place, row.member) for row in rows])

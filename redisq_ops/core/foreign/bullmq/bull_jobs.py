"""What Bull and BullMQ share: lists and sorted sets of job ids, and a hash for each job."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, ClassVar

from redis import RedisCluster
from redis.asyncio import RedisCluster as AsyncRedisCluster

from ...engine.operator_changes import ChangeUndo
from ...engine.optional_features import HasOwnersPause, HasWorkerTraces
from ...engine.replay_tracking import ForeignReplayTracker, ReplayTracker
from ...model.attachment import Attachment
from ...model.entry import Entry, State
from ...model.errors import WrongKind
from ...model.quoting import bytes_of, raw_of
from ...model.rates import Rates
from ...model.states import Verb
from ...model.worker_command import WorkerWord
from ...model.worker_process import Process
from ...redis.operation import C_co, Call, attempt_reads, operation, together
from ..attachments import attached, fields, last_lines, members
from ..changes import JOB_VERBS, PURGED_DONE
from ..edits import HasEdits, Rewrite
from ..iso_times import span_ms
from ..job_hashes import JobHash, JobHashQueue
from ..json_text import decoded
from ..places import LocatedEntry, Place
from ..schedules import HasSchedules
from .job import FIELDS, Job
from .metrics import rates
from .workers import workers

TRIES = ("processedOn", "atm", "stc", "attemptsMade", "stalledCounter")
"""fields that a job has once a worker had it"""
SINCE = {"active": "processedOn", "failed": "finishedOn", "completed": "finishedOn"}


class BullJobs(
    JobHashQueue[C_co],
    HasEdits[C_co],
    HasSchedules[C_co],
    HasOwnersPause[C_co],
    HasWorkerTraces[C_co],
):
    """A queue of Bull or BullMQ. An id is the program's job id, which can come again."""

    home: ClassVar[str] = "bull:"
    overwrites: ClassVar[str]
    """the program whose pause, or its end, renames one list over the other, in words"""
    theirs: ClassVar[dict[str, str]] = {}
    task_in: ClassVar[tuple[str, ...]] = ("name",)
    fields: ClassVar[tuple[str, ...]] = FIELDS
    identity: ClassVar[tuple[str, ...]] = (
        "timestamp",
        "processedOn",
        "finishedOn",
        "atm",
        "attemptsMade",
        "name",
        "data",
        "opts",
        "priority",
    )
    """some of them change while a job stays in its place"""
    of_every_job: ClassVar[tuple[str, ...]] = ("name", "timestamp")
    timed: ClassVar[Mapping[str, float]] = {"delayed": 1 / 4096}
    wait_fields: ClassVar[tuple[str, ...]] = ("timestamp", "opts", *TRIES)
    actions: ClassVar[Mapping[Verb, tuple[State, ...]]] = {
        **JOB_VERBS,
        **PURGED_DONE,
        "requeue": ("pending", "delayed"),
    }
    arguments: ClassVar[tuple[str, ...]] = ("data",)
    by_stamp: ClassVar[Collection[str]] = ("waiting", "delayed", "trash", "gone")
    orphan_states: ClassVar[tuple[State, ...]] = ("pending",)
    verbs: ClassVar[Mapping[str, str]] = {
        "requeue": "they wait for the next worker now",
    }
    no_commands: ClassVar[Mapping[WorkerWord, str]] = {
        **dict.fromkeys(
            ("quiet", "stop"),
            "its workers take no commands: send the process a signal that your application handles"
            " (`worker.close()`); `redisq queue pause` pauses all workers of the queue",
        ),
        "stop-job": "its workers take no commands: a job ends when its processor returns",
    }
    task_figures: ClassVar[str] = (
        "jobs that `removeOnComplete` and `removeOnFail` remove are not counted; rates without the"
        " tasks are in `redisq ls` where workers have the option `metrics`"
    )
    workers_unknown: ClassVar[str] = (
        "its workers are in no key: shown are those connected to this server now. Which jobs they"
        " have, and since when they are silent, is unknown"
    )

    def _key(self, part: str) -> str:
        return f"{self.at}{self.own_name}:{part}"

    @operation
    async def exists(self) -> bool:
        key = self.process_registry
        return bool(self.own_name) and await Call(("EXISTS", key), bool, key=key)

    @operation
    async def worker_processes(self) -> list[Process]:
        """The program's workers that are connected to this server; unknown on a cluster, where each
        node has connections of its own."""
        if isinstance(self.client, (RedisCluster, AsyncRedisCluster)):
            raise self._refusal(
                f"its workers are not listed on a cluster; ask {self.owner}'s getWorkers"
            )
        return await workers(self.at, self.own_name)

    @operation
    async def rates(self, now_ms: int, minutes: int = 60) -> Rates:
        """As for every queue, where its workers have the option ``metrics``; a job that is to be
        retried counts as neither, and what arrives isn't counted."""
        return await rates(self._key("metrics:"), now_ms, minutes)

    # --- what operators change -------------------------------------------------------------------

    @operation
    async def set_owners_pause(self, op: str, step: int, paused: bool) -> str:
        await self._ensure_registered()
        word: str = await self._call_script(
            "pause_queue",
            bytes.decode,
            caller=op,
            seq=step,
            base=self._key(""),
            paused=int(paused),
        )
        if word == "unclear":
            raise WrongKind(
                f"queue {self.name}: both its lists `wait` and `paused` have jobs, and"
                f" {self.overwrites} itself would overwrite one with the other: purge what waits"
                " there, and restore it afterwards"
            )
        return word

    def pause_inverse(self, op: str, paused: bool) -> str:
        return f"owners-pause {int(not paused)}"

    async def _undo_change(self, undo: ChangeUndo) -> int:
        if undo.verb != "owners-pause":
            return await HasSchedules._undo_change(self, undo)
        word = await self.set_owners_pause.op(undo.op, undo.seq, undo.args[0] == "1")
        if word != "ok":
            undo.left([undo.verb])
        return int(word == "ok")

    def rewrite(self, seen: LocatedEntry, values: Mapping[str, bytes]) -> Rewrite:
        """As `job.updateData` (BullMQ) and `job.update` (Bull) do it. No id or lock is made of the
        data: whoever adds a job names its `deduplication`."""
        job, key = seen.entry.record, self.job_key(seen.place, seen.member)
        return Rewrite(parts=job.parts(key, values))

    # --- records ---------------------------------------------------------------------------------

    def job_key(self, place: Place, id: bytes) -> bytes:
        return bytes_of(place.key.rpartition(":")[0]) + b":" + id

    async def read_beside(self, place: Place, state: State, ids: Sequence[bytes]) -> Sequence[Any]:
        """When the lock of a pending job expires, as PEXPIRETIME says it."""
        if state != "pending":
            return await super().read_beside(place, state, ids)
        locks = [self.job_key(place, id) + b":lock" for id in ids]
        return await attempt_reads([Call(("PEXPIRETIME", lock), int, key=lock) for lock in locks])

    def job(self, values: Mapping[str, bytes | None], beside: Any) -> Job:
        return Job(values, beside if isinstance(beside, int) and beside >= 0 else None)

    def failures(self, state: State, job: Job) -> int:
        """How many attempts of a job failed."""
        return job.number("attemptsMade") or 0

    def entry(self, state: State, place: Place, id: str, at_ms: int | None, job: Job) -> Entry:
        since = self._entered(state, place, job)
        if place.brief:
            return Entry(id, state, at_ms, since, None, called=place.called, record=job)
        dead = state == "dead"
        return Entry(
            id,
            state,
            since if dead else at_ms or job.until_ms,
            since,
            job.shown() if place.payloads else None,
            failures=self.failures(state, job),
            lost=job.lost,
            called=place.called,
            task=job.text("name") or None,
            consumer=job.text("pb") or None,
            error=job.error() if state != "done" else None,
            reason=("lost" if job.stalled else "failed") if dead else None,
            run_ms=span_ms(job.number("processedOn"), job.number("finishedOn")),
            record=job,
        )

    def replay_tracker(self) -> ReplayTracker:
        return BullReplayTracker(self)

    @operation
    async def attachments(self, entry: Entry) -> list[Attachment]:
        """What it returned, its progress, its logs, what its children returned, and the stack
        traces of attempts before the one that `Entry.error` is of."""
        job, key = entry.record, bytes_of(self._key("")) + raw_of(entry.id)
        if not isinstance(job, Job):
            return []
        (result, progress), logs, children, failed = await together(
            fields(key, "returnvalue", "progress"),
            last_lines("logs", key + b":logs"),
            members("children", key + b":processed"),
            members("failed children", key + b":failed"),
        )
        traces = job.decoded("stacktrace")
        earlier = traces[: -1 if entry.error else None] if isinstance(traces, list) else []
        said = "\n\n".join(map(str, earlier)).encode(errors="backslashreplace")
        return [
            *attached("result", result),
            *attached("progress", progress),
            *logs,
            *children,
            *failed,
            *attached("earlier stack traces", said),
        ]

    def waits_since(self, job: JobHash) -> int | None:
        """Unknown for one that was delayed or tried: no field has the time when it came back."""
        options = decoded(job.values["opts"] or b"null")
        delayed = not isinstance(options, dict) or options.get("delay")
        return None if delayed else _added(job)

    def _entered(self, state: State, place: Place, job: Job) -> int | None:
        """When it entered its state; unknown as for `waits_since`."""
        if field := SINCE.get(place.called):
            return job.number(field)
        return self.waits_since(job) if state == "waiting" else _added(job)

    def trash_payload(self, kept: bytes) -> bytes:
        """Made of some fields of the job, which the trash keeps."""
        job = Job.kept(kept)
        return kept if job is None else job.shown()


def _added(job: JobHash) -> int | None:
    """When a job was added; None if a worker had it since."""
    tried = any(job.number(field) for field in TRIES)
    return None if tried else job.number("timestamp")


class BullReplayTracker(ForeignReplayTracker):
    """A replay deletes the reason of the failure and no count; a rate limit puts off jobs, too."""

    def _fails(self, entry: Entry) -> bool:
        job = entry.record
        return (
            entry.state == "delayed" and isinstance(job, Job) and bool(job.values["failedReason"])
        )

"""What Bull and BullMQ share: lists and sorted sets of job ids, and a hash for each job."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha1
from typing import ClassVar

from redis import RedisCluster
from redis.asyncio import RedisCluster as AsyncRedisCluster

from ...engine.optional_features import HasWorkerTraces
from ...model.entry import Entry, State
from ...model.quoting import bytes_of
from ...model.states import Verb
from ...model.worker_process import Process
from ...redis.operation import C_co, Call, both, operation
from ..changes import JOB_VERBS
from ..job_hashes import JobHash, JobHashQueue, Note, fields_of
from ..json_text import decoded
from ..places import Place
from .job import FIELDS, Job
from .workers import workers

COMPARED = ("name", "data", "opts", "priority")
"""fields that the program can change while a job stays where it is"""
TRIES = ("processedOn", "atm", "stc", "attemptsMade", "stalledCounter")
"""fields that a job has once a worker had it"""
SINCE = {"active": "processedOn", "failed": "finishedOn", "completed": "finishedOn"}


class BullJobs(JobHashQueue[C_co], HasWorkerTraces[C_co]):
    """A queue of such jobs. An id is the program's job id, which can come again."""

    home: ClassVar[str] = "bull:"
    theirs: ClassVar[dict[str, str]] = {}
    task_in: ClassVar[tuple[str, ...]] = ("name",)
    fields: ClassVar[tuple[str, ...]] = FIELDS
    identity: ClassVar[tuple[str, ...]] = (
        "timestamp", "processedOn", "finishedOn", "atm", "attemptsMade",
    )  # fmt: skip
    of_every_job: ClassVar[tuple[str, ...]] = ("name", "timestamp")
    timed: ClassVar[Mapping[str, float]] = {"delayed": 1 / 4096}
    wait_fields: ClassVar[tuple[str, ...]] = ("timestamp", "opts", *TRIES)
    actions: ClassVar[Mapping[Verb, tuple[State, ...]]] = {
        **JOB_VERBS,
        "requeue": ("pending", "delayed"),
    }
    orphan_states: ClassVar[tuple[State, ...]] = ("pending", "done")
    verbs: ClassVar[Mapping[str, str]] = {
        "requeue": "they wait for the next worker now",
        "hard": "they are removed for good: no undo",
    }
    workers_unknown: ClassVar[str] = (
        "its workers are in no key: shown are those connected to this server now. Which jobs they"
        " have, and since when they are silent, is unknown"
    )

    def _key(self, part: str) -> str:
        return f"{self.at}{self.own_name}:{part}"

    @operation
    async def worker_processes(self) -> list[Process]:
        """The program's workers that are connected to this server; unknown on a cluster, where each
        node has connections of its own."""
        if isinstance(self.client, (RedisCluster, AsyncRedisCluster)):
            raise self._refusal(
                f"its workers are not listed on a cluster; ask {self.owner}'s getWorkers"
            )
        return await workers(self.at, self.own_name)

    def job_key(self, id: bytes) -> bytes:
        return bytes_of(self._key("")) + id

    async def job(self, place: Place, state: State, id: bytes, size: int) -> Job:
        key = self.job_key(id)
        if state != "pending":
            return Job(await fields_of(key, FIELDS, size, place.reads))
        lock = key + b":lock"
        values, until = await both(
            fields_of(key, FIELDS, size, place.reads),
            Call(("PEXPIRETIME", lock), int, key=lock),
        )
        # Negative: there is no lock, or one that never expires.
        return Job(values, until if until >= 0 else None)

    def failures(self, state: State, job: Job) -> int:
        """How many attempts of a job failed."""
        return job.number("attemptsMade") or 0

    def entry(self, state: State, place: Place, id: str, at_ms: int | None, job: Job) -> Entry:
        since = job.number(SINCE.get(place.called, "timestamp"))
        dead = state == "dead"
        return Entry(
            id, state, since if dead else at_ms or job.until_ms, since, job.shown(),
            failures=self.failures(state, job), lost=job.lost, called=place.called,
            task=job.text("name") or None,
            consumer=job.text("pb") or None, error=job.error() if state != "done" else None,
            reason=("lost" if job.stalled else "failed") if dead else None, record=job,
        )  # fmt: skip

    def waits_since(self, job: JobHash) -> int | None:
        """Unknown for one that was delayed or tried: no field has the time when it came back."""
        options = decoded(job.values["opts"] or b"null")
        delayed = not isinstance(options, dict) or options.get("delay")
        tried = any(job.number(field) for field in TRIES)
        return None if delayed or tried else job.number("timestamp")

    def stamp(self, entry: Entry) -> bytes:
        """When the job was made, began and ended, how often it was tried, the digests of `COMPARED`
        (``*`` for one that wasn't read), and what the trash shows of it."""
        values = entry.record.values if isinstance(entry.record, Job) else {}
        told = [values.get(field) or b"-" for field in self.identity]
        digests = [
            b"*" if isinstance(value, Note) else sha1(value or b"").hexdigest().encode()
            for value in map(values.get, COMPARED)
        ]
        return b" ".join([*told, *digests, entry.payload or b""])

"""BullMQ's layout: lists and sorted sets of job ids; the hash beside them is the job."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from hashlib import sha1
from typing import ClassVar

from redis import RedisCluster
from redis.asyncio import RedisCluster as AsyncRedisCluster

from ...engine.optional_features import HasWorkerTraces
from ...engine.relation import Related
from ...model.entry import Entry, State
from ...model.quoting import bytes_of, legal, raw_of
from ...model.states import Verb
from ...model.worker_process import Process
from ...redis.operation import C_co, Call, attempts, both, operation
from ...redis.parsers import optional
from ..changes import JOB_VERBS
from ..declarations import Declared, List, Zset
from ..job_hashes import JobHash, JobHashQueue, Note, hash_fields
from ..json_text import decoded
from ..places import LocatedEntry, Place
from ..releases import Releases
from . import relations
from .job import FIELDS, Job
from .recogniser import OF_A_QUEUE
from .wait_list import WaitList, is_mark
from .workers import workers

_RELEASE = re.compile(rb"bullmq[^:]*:(.*)", re.DOTALL)
CHILDREN = "waiting for children"
SEEN = ("timestamp", "processedOn", "finishedOn", "atm", "name", "data", "opts", "priority")
"""fields that tell a job from a later one of its id, or that BullMQ can change where the job is"""
SINCE = {"active": "processedOn", "failed": "finishedOn", "completed": "finishedOn"}


class BullmqQueue(JobHashQueue[C_co], HasWorkerTraces[C_co]):
    """``bullmq:<queue>``. An id is BullMQ's job id, which can come again."""

    kind: ClassVar[str] = "bullmq"
    owner: ClassVar[str] = "BullMQ"
    home: ClassVar[str] = "bull:"
    package: ClassVar[str] = "foreign.bullmq"
    theirs: ClassVar[dict[str, str]] = {}
    known_keys: ClassVar[tuple[str, bytes] | None] = "{q}:*", OF_A_QUEUE + rb"|.*:.*"
    workers_at: ClassVar[str] = "{q}:meta"
    task_in: ClassVar[tuple[str, ...]] = ("name",)
    fields: ClassVar[tuple[str, ...]] = FIELDS
    of_every_job: ClassVar[tuple[str, ...]] = ("name", "timestamp")
    timed: ClassVar[Mapping[str, float]] = {"delayed": 1 / 4096}
    wait_fields: ClassVar[tuple[str, ...]] = ("timestamp", "processedOn", "atm", "stc", "opts")
    states: ClassVar[Mapping[State, Sequence[Declared]]] = {
        "waiting": (
            List("{q}:wait", "wait", "RIGHT"), List("{q}:paused", "paused", "RIGHT"),
            Zset("{q}:prioritized", "prioritized"),
        ),
        "pending": (List("{q}:active", "active", "RIGHT"),),
        "delayed": (
            Zset("{q}:delayed", "delayed", ready=True, unit_ms=1 / 4096),
            Zset("{q}:waiting-children", CHILDREN),
        ),
        "dead": (Zset("{q}:failed", "failed"),),
        "done": (Zset("{q}:completed", "completed"),),
    }  # fmt: skip
    actions: ClassVar[Mapping[Verb, tuple[State, ...]]] = {
        **JOB_VERBS,
        "requeue": ("pending", "delayed"),
    }
    orphan_states: ClassVar[tuple[State, ...]] = ("pending", "done")
    releases: ClassVar[Releases] = Releases(
        ("5.0", "5.81", "6.7"), told="the member `version` of the queue's `meta`"
    )
    replay_note: ClassVar[str] = "as BullMQ's own retry does it: one more attempt"
    verbs: ClassVar[Mapping[str, str]] = {
        "requeue": "they wait for the next worker now",
        "hard": "they are removed for good: no undo",
    }
    refusals: ClassVar[Mapping[str, str]] = {
        "claim": "only BullMQ's workers can take a job",
        "purge pending": "a worker has them; once its lock is gone, requeue them first",
        "purge done": "BullMQ's `queue.clean` removes them",
    }
    without_deadline: ClassVar[str] = (
        "its lock is gone, as when its worker was killed: BullMQ's workers, which look every 30 s"
        " unless it is set, let it wait again, or fail it if it stalled too often"
    )
    workers_unknown: ClassVar[str] = (
        "its workers are in no key: shown are those connected to this server now. Which jobs they"
        " have, and since when they are silent, is unknown"
    )
    layout_faults: ClassVar[tuple[str, ...]] = (
        "a job that anybody removes while its worker runs fails there, and is recorded nowhere",
        "a child that is removed without BullMQ leaves its parent waiting for ever",
        "a schedule goes on from its next job: without that job it ends",
    )

    # --- where entries are -----------------------------------------------------------------------

    @operation
    async def exists(self) -> bool:
        if not self.own_name:
            return False
        key = f"{self.at}{self.own_name}:meta"
        return await Call(("EXISTS", key), bool, key=key)

    async def paused_there(self) -> str | None:
        key = f"{self.at}{self.own_name}:meta"
        paused = Call(("HEXISTS", key, "paused"), bool, key=key)
        return "queue.pause() in BullMQ" if await paused else None

    async def releases_there(self) -> Sequence[str]:
        """The release of the program that opened the queue last."""
        key = f"{self.at}{self.own_name}:meta"
        version = await Call(("HGET", key, "version"), optional, key=key)
        release = _RELEASE.fullmatch(version or b"")
        return [legal(release[1])] if release else []

    @operation
    async def worker_processes(self) -> list[Process]:
        """BullMQ's workers that are connected to this server; unknown on a cluster, where each
        node has connections of its own."""
        if isinstance(self.client, (RedisCluster, AsyncRedisCluster)):
            raise self._refusal("its workers are not listed on a cluster; ask BullMQ's getWorkers")
        return await workers(self.at, self.own_name)

    def beside_it(self, at: str, own_name: str) -> BullmqQueue[C_co]:
        """Another queue of the program."""
        if (at, own_name) == (self.at, self.own_name):
            return self
        name = self._name_of(own_name)
        return BullmqQueue(self.client, name, at=at, own_name=own_name, prefix=self.prefix)

    @operation
    async def related(self, entry: Entry) -> list[Related]:
        if entry.state != "dead" and entry.called != CHILDREN:
            return []
        return await relations.related(self, self.job_key(raw_of(entry.id)))

    # --- records ---------------------------------------------------------------------------------

    def job_key(self, id: bytes) -> bytes:
        return bytes_of(f"{self.at}{self.own_name}:") + id

    async def job_ids(self, place: Place, members: Sequence[bytes]) -> Sequence[bytes | None]:
        lists = place.kind == "list"
        return [None if lists and is_mark(member) else member for member in members]

    def _place(self, state: State, declared: Declared, key: str) -> Place:
        if state == "waiting" and isinstance(declared, List):
            return WaitList(
                self.at + key, declared.called, self._reader(state), sizes=self.sizes, reverse=True
            )
        return super()._place(state, declared, key)

    async def jobs(
        self, place: Place, state: State, ids: Sequence[bytes], sizes: Sequence[int]
    ) -> Sequence[Job | Exception]:
        keys = list(map(self.job_key, ids))
        locks = [_expiry(key + b":lock") for key in keys if state == "pending"]
        found, until = await both(hash_fields(keys, FIELDS, sizes, place.reads), attempts(locks))
        return [
            values if isinstance(values, Exception) else Job(values, _time(until[n : n + 1]))
            for n, values in enumerate(found)
        ]

    def entry(self, state: State, place: Place, id: str, at_ms: int | None, job: Job) -> Entry:
        since = job.number(SINCE.get(place.called, "timestamp"))
        if place.brief:
            return Entry(id, state, at_ms, since, None, called=place.called, record=job)
        dead, lost = state == "dead", job.sum("stc", "stalledCounter")
        attempts = job.sum("atm", "attemptsMade") - (state == "done")
        if state == "pending" and job.values["atm"] is None and attempts:
            attempts -= 1  # before release 5 an attempt counts when it begins
        return Entry(
            id, state, since if dead else at_ms or job.until_ms, since, job.shown(),
            failures=max(0, attempts - lost), lost=lost, called=place.called,
            task=job.text("name") or None,
            consumer=job.text("pb") or None, error=job.error() if state != "done" else None,
            reason=("lost" if job.stalled else "failed") if dead else None, record=job,
        )  # fmt: skip

    def waits_since(self, job: JobHash) -> int | None:
        """Unknown for one that was delayed or tried: no field has the time when it came back."""
        options = decoded(job.values["opts"] or b"null")
        delayed = not isinstance(options, dict) or options.get("delay")
        tried = any(job.number(field) for field in ("processedOn", "atm", "stc"))
        return None if delayed or tried else job.number("timestamp")

    # --- what operators change -------------------------------------------------------------------

    def stamp(self, entry: Entry) -> bytes:
        """Which fields of `SEEN` were read, and the digest of these."""
        job = entry.record.values if isinstance(entry.record, Job) else {}
        values = [job.get(field) or b"" for field in SEEN]
        read = [not isinstance(value, Note) for value in values]
        told = (
            b"%d:%s" % (len(value), value) if there else b"*"
            for value, there in zip(values, read, strict=True)
        )
        which = "".join("01"[there] for there in read)
        return f"{which} {sha1(b''.join(told)).hexdigest()}".encode()

    def shown(self, entry: Entry) -> bytes | None:
        return entry.record.shown() if isinstance(entry.record, Job) else None

    def refused(self, seen: LocatedEntry, target: str) -> str:
        return "deferred" if seen.place.called == CHILDREN else ""


def _expiry(key: bytes) -> Call[int]:
    return Call(("PEXPIRETIME", key), int, key=key)


def _time(expires: Sequence[int | Exception]) -> int | None:
    """When the lock expires, if there is one that does."""
    return next((at for at in expires if isinstance(at, int) and at >= 0), None)

"""BullMQ's layout (5 and 6): lists and sorted sets of job ids; the hash beside them is the job."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from redis import RedisCluster
from redis.asyncio import RedisCluster as AsyncRedisCluster

from ...engine.optional_features import HasTimeline, HasWorkerTraces
from ...model.entry import Entry, State
from ...model.quoting import bytes_of, legal
from ...model.states import Verb
from ...model.worker_process import Process
from ...redis.operation import C_co, Call, both, operation, together
from ...redis.parsers import moment, optional
from ..changes import JOB_VERBS, ForeignChanges
from ..declarations import Declared, List, Zset
from ..places import LocatedEntry, Place, Row, next_members, not_read
from .job import DATA, FIELDS, WAIT_FIELDS, Job, waits_since
from .workers import workers

LATEST = 6
"""the latest release whose layout is known"""
_RELEASE = re.compile(rb"bullmq:(\d{1,9})\..*", re.DOTALL)
CHILDREN = "waiting for children"
SINCE = {"active": "processedOn", "failed": "finishedOn", "completed": "finishedOn"}
IDENTITY = ("timestamp", "processedOn", "finishedOn", "atm")


class BullmqQueue(ForeignChanges[C_co], HasTimeline[C_co], HasWorkerTraces[C_co]):
    """``bullmq:<queue>``. An id is BullMQ's job id, which can come again."""

    kind: ClassVar[str] = "bullmq"
    owner: ClassVar[str] = "BullMQ"
    home: ClassVar[str] = "bull:"
    package: ClassVar[str] = "foreign.bullmq"
    by_id: ClassVar[bool] = True
    theirs: ClassVar[dict[str, str]] = {}
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
    replay_note: ClassVar[str] = "as BullMQ's own retry does it: one more attempt"
    verbs: ClassVar[Mapping[str, str]] = {
        "requeue": "they wait for the next worker now",
        "hard": "they are removed for good: no undo",
    }
    refusals: ClassVar[Mapping[str, str]] = {
        "claim": "only BullMQ's workers can take a job",
        "purge pending": "a worker has them; once its lock is gone, requeue them first",
    }
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

    @property
    def process_registry(self) -> str:
        return f"{self.at}{self.own_name}:meta"

    @operation
    async def worker_processes(self) -> list[Process]:
        """BullMQ's workers that are connected to this server; unknown on a cluster, where each
        node has connections of its own."""
        if isinstance(self.client, (RedisCluster, AsyncRedisCluster)):
            raise self._refusal("its workers are not listed on a cluster; ask BullMQ's getWorkers")
        return await workers(self.at, self.own_name)

    # --- records ---------------------------------------------------------------------------------

    def _job_key(self, id: bytes) -> bytes:
        return bytes_of(f"{self.at}{self.own_name}:") + id

    async def read(self, state: State, place: Place, rows: Sequence[Row]) -> Sequence[Entry | None]:
        keys = [self._job_key(row.member) for row in rows]
        jobs = together(_values(k, place) for k in keys)
        locks = [key + b":lock" for key in keys] if state == "pending" else []
        left = together(Call(("PTTL", lock), int, key=lock) for lock in locks)
        found, (lefts, now) = await both(jobs, both(left, self._now()))
        # Negative: there is no lock, or one that never expires.
        until = [now + ms if ms >= 0 else None for ms in lefts] or [None] * len(rows)
        return [
            _entry(state, place, row, Job.read(values), until_ms)
            for row, values, until_ms in zip(rows, found, until, strict=True)
        ]

    async def _oldest_ms(self, waiting: Sequence[Place]) -> int | None:
        """Of each place, the job that is taken next counts. Unknown for one that was delayed or
        tried before: no field has the time at which it came back."""
        keys = [self._job_key(member) for member in await next_members(waiting)]
        jobs = await together(Call(("HMGET", k, *WAIT_FIELDS), list[Any], key=k) for k in keys)
        return min(filter(None, map(waits_since, jobs)), default=None)

    async def _ensure_registered(self) -> None:
        """Also refuses changes in the layout of a later release. The version is that of the latest
        program that opened the queue."""
        key = f"{self.at}{self.own_name}:meta"
        if not self._registered:
            version = await Call(("HGET", key, "version"), optional, key=key)
            release = _RELEASE.fullmatch(version or b"")
            if release and int(release[1]) > LATEST:
                raise self._refusal(
                    f"it is of release {int(release[1])}, and redisq knows {LATEST} and earlier:"
                    " it is only shown"
                )
        await super()._ensure_registered()

    # --- what operators change -------------------------------------------------------------------

    async def stamps(self, found: Sequence[LocatedEntry]) -> Sequence[bytes]:
        """When the job was made, began and ended, how often it was tried, and what the trash shows
        of it."""
        keys = [self._job_key(seen.member) for seen in found]
        rows = await together(Call(("HMGET", k, *IDENTITY), list[Any], key=k) for k in keys)
        return [
            b" ".join(value or b"-" for value in row) + b" " + (seen.entry.payload or b"")
            for seen, row in zip(found, rows, strict=True)
        ]

    def refused(self, seen: LocatedEntry, target: str) -> str:
        return "deferred" if seen.place.called == CHILDREN else ""


async def _values(key: bytes, place: Place) -> list[bytes | None]:
    """A job's `FIELDS`; its data only if they aren't too long for the place."""
    if place.whole:
        return await Call(("HMGET", key, *FIELDS), list[Any], key=key)
    rest = [name for name in FIELDS if name != DATA]
    values, size = await both(
        Call(("HMGET", key, *rest), list[Any], key=key), Call(("HSTRLEN", key, DATA), int, key=key)
    )
    data: bytes | None = not_read(size).encode()
    if place.reads(size):
        data = await Call(("HGET", key, DATA), optional, key=key)
    values.insert(FIELDS.index(DATA), data)
    return values


def _entry(state: State, place: Place, row: Row, job: Job, until_ms: int | None) -> Entry | None:
    """``until_ms``: when the lock of its worker expires; None: it has none."""
    called = place.called
    if place.kind == "list" and row.member.startswith(b"0:"):
        return None  # a mark for workers, as BullMQ 4 left it
    at = moment(row.score / 4096) if called == "delayed" else until_ms
    if job.problem:
        return Entry(legal(row.member), state, at, called=called, problem=job.problem)
    since = job.number(SINCE.get(called, "timestamp"))
    dead, lost = state == "dead", job.number("stc") or 0
    attempts = (job.number("atm") or 0) - (state == "done")
    return Entry(
        legal(row.member), state, since if dead else at, since, job.shown(), called=called,
        failures=max(0, attempts - lost), lost=lost,
        consumer=job.text("pb") or None, error=job.error() if state != "done" else None,
        reason=("lost" if job.stalled else "failed") if dead else None,
    )  # fmt: skip

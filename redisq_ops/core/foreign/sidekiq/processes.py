"""Sidekiq's processes as they register themselves: a hash each, and one of their running jobs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...model.quoting import bytes_of, text
from ...model.worker_process import Process, RunningJob
from ...redis.operation import Call, attempt, both, in_batches
from ..keys import ForeignKeys
from ..ruby_jobs import job
from ..ruby_jobs.job import IdOf

TTL_MS = 60_000
"""how long a process's record outlives its last heartbeat"""


async def processes(names: Sequence[bytes], keys: ForeignKeys, id_of: IdOf) -> list[Process]:
    """These processes, by name."""
    shown = sorted(map(text, names))
    records = await in_batches(attempt(_record(keys.at + name)) for name in shown)
    return [_process(name, record, id_of) for name, record in zip(shown, records, strict=True)]


async def _record(key: str) -> tuple[bytes | None, bytes | None, int, list[bytes]]:
    """Info, flag of a quiet process, remaining ms, and running jobs: the hash of these is
    ``:workers`` up to Sidekiq 6, ``:work`` from 7."""
    old_key, new_key = f"{key}:workers", f"{key}:work"
    ((info, quiet), left), (old, new) = await both(
        both(
            Call(("HMGET", key, "info", "quiet"), list[Any], key=key),
            Call(("PTTL", key), int, key=key),
        ),
        both(
            Call(("HVALS", old_key), list[bytes], key=old_key),
            Call(("HVALS", new_key), list[bytes], key=new_key),
        ),
    )
    return info, quiet, left, old + new


def _process(name: str, record: Any, id_of: IdOf) -> Process:
    if isinstance(record, Exception):  # keys of another type must not hide the other processes
        return Process(name, problem=str(record))
    info, quiet, left, works = record
    known = job.fields(info or b"{}") or {}
    queues, pid = known.get("queues"), known.get("pid")
    held = [work for packed in works if (work := _running(packed, id_of))]
    held.sort(key=lambda work: (work.since_ms or 0, work.id))  # a hash has them in any order
    return Process(
        name, str(known.get("hostname", "")), pid if isinstance(pid, int) else None,
        tuple(map(str, queues)) if isinstance(queues, list) else (),
        job.ms(known.get("started_at")), TTL_MS - left if left > 0 else None, info is not None,
        tuple(held), quiet == b"true",
    )  # fmt: skip


def _running(packed: bytes, id_of: IdOf) -> RunningJob | None:
    known = job.fields(packed)
    if known is None:
        return None
    payload = known.get("payload")
    # A string since 5.2.2: the record as it was taken. Before, a part of this record.
    own = bytes_of(payload) if isinstance(payload, str) else job.member(packed, "payload") or b""
    return RunningJob(id_of(own), str(known.get("queue", "")), own, job.ms(known.get("run_at")))

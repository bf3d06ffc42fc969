"""Sidekiq's processes as they register themselves: each has a hash, and one of running jobs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from itertools import accumulate
from typing import Any

from ...model.cut_element import UNREAD
from ...model.quoting import bytes_of, text
from ...model.worker_process import Process, RunningJob
from ...redis.operation import Call, attempt, in_batches, together
from ...redis.whole_keys import set_members
from ..json_members import member
from ..keys import ForeignKeys
from ..long_records import GLANCE, bytes_used, not_read
from ..ruby_jobs import job
from ..ruby_jobs.job import IdOf
from ..ruby_jobs.private_lists import PrivateList

MOST = 1000
"""jobs of a process's private list that are read: it has one for each busy thread"""
TTL_MS = 60_000
"""how long a process's record outlives its last heartbeat"""


async def processes(
    names: Collection[bytes], keys: ForeignKeys, id_of: IdOf, whole: bool
) -> list[Process]:
    """These processes, by name. ``whole``: their jobs are read at any length."""
    shown = sorted(map(text, names))
    room = None if whole else GLANCE // max(1, len(shown))
    records = await in_batches(attempt(_record(keys.at + name, keys.at, room)) for name in shown)
    return [_process(name, record, id_of) for name, record in zip(shown, records, strict=True)]


async def _record(key: str, at: str, room: int | None) -> tuple[Any, ...]:
    """Info, flag of a quiet process, remaining ms, running jobs, and those in its private lists.
    The hash of running jobs is ``:workers`` up to Sidekiq 6, ``:work`` from 7; ``room``: bytes that
    are read of it."""
    (info, quiet), left, old, new, private = await together(
        Call(("HMGET", key, "info", "quiet"), list[Any], key=key),
        Call(("PTTL", key), int, key=key),
        _jobs(f"{key}:workers", room),
        _jobs(f"{key}:work", room),
        _private(f"{key}:super_queues", at, room),
    )
    return info, quiet, left, old + new, private


async def _private(key: str, at: str, room: int | None) -> list[tuple[str, bytes | int]]:
    """The jobs in a process's lists, each with its queue; if they exceed ``room``, their sizes."""
    names = sorted(await set_members(key))
    held = {name: of for name in names if (of := PrivateList.of_key(name))}
    lists = [at + text(name).removeprefix(at) for name in held]
    rows = await together(_elements(each, room) for each in lists)
    return [
        (text(of.queue), payload)
        for of, payloads in zip(held.values(), rows, strict=True)
        for payload in payloads
    ]


async def _elements(key: str, room: int | None) -> list[bytes | int]:
    if room is None or (size := await bytes_used(key)) <= room:
        return await Call(("LRANGE", key, 0, MOST - 1), list[Any], key=key)
    number = await Call(("LLEN", key), int, key=key)
    return [size // number] * min(number, MOST) if number else []


async def _jobs(key: str, room: int | None) -> list[bytes | int]:
    """The records of running jobs; if they exceed ``room``, of the longest only the sizes."""
    if room is None or await bytes_used(key) <= room:
        return await Call(("HVALS", key), list[Any], key=key)
    threads = await Call(("HKEYS", key), list[bytes], key=key)
    sizes = await together(Call(("HSTRLEN", key, one), int, key=key) for one in threads)
    by_size = sorted(zip(sizes, threads, strict=True))
    fitting = sum(total <= room for total in accumulate(size for size, _ in by_size))
    short = [thread for _, thread in by_size[:fitting]]
    read = await Call(("HMGET", key, *short), list[Any], key=key) if short else []
    found = [record for record in read if record is not None]
    return [*found, *(size for size, _ in by_size[fitting:])]


def _process(name: str, record: Any, id_of: IdOf) -> Process:
    if isinstance(record, Exception):  # keys of another type must not hide the other processes
        return Process(name, problem=str(record))
    info, quiet, left, works, private = record
    known = job.fields(info or b"{}") or {}
    queues, pid = known.get("queues"), known.get("pid")
    served = tuple(map(str, queues)) if isinstance(queues, list) else ()
    held = [work for record in works if (work := _running(record, served, id_of))]
    listed = Counter(work.payload for work in held)
    held += [_held(of, payload, id_of) for of, payload in private if not listed[payload]]
    held.sort(key=lambda work: (work.since_ms or 0, work.id))  # a hash has them in any order
    return Process(
        name,
        str(known.get("hostname", "")),
        pid if isinstance(pid, int) else None,
        served,
        job.ms(known.get("started_at")),
        TTL_MS - left if left > 0 else None,
        info is not None,
        tuple(held),
        quiet == b"true",
        bool(private),
    )


def _held(queue: str, payload: bytes | int, id_of: IdOf) -> RunningJob:
    if isinstance(payload, int):
        return RunningJob(UNREAD, queue, b"", None, not_read(payload))
    return RunningJob(id_of(payload), queue, payload, None)


def _running(record: bytes | int, served: Sequence[str], id_of: IdOf) -> RunningJob | None:
    if isinstance(record, int):
        queue = served[0] if len(served) == 1 else None
        return RunningJob(UNREAD, queue, b"", None, not_read(record))
    known = job.fields(record)
    if known is None:
        return None
    payload = known.get("payload")
    # A string since 5.2.2: the record as it was taken. Before, a part of this record.
    own = bytes_of(payload) if isinstance(payload, str) else member(record, "payload") or b""
    return RunningJob(id_of(own), str(known.get("queue", "")), own, job.ms(known.get("run_at")))

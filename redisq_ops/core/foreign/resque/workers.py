"""Resque's workers as they register themselves, and the job that each works on."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ...engine.registry import server_ms
from ...model.cut_element import UNREAD
from ...model.quoting import text
from ...model.worker_process import Process, RunningJob
from ...redis.operation import Call, attempt, in_batches, together
from ...redis.parsers import optional
from ..iso_times import iso_ms
from ..json_members import member
from ..keys import ForeignKeys
from ..long_records import LONG_RECORD, not_read
from ..ruby_jobs import job
from ..ruby_jobs.job import IdOf

PRUNE_MS = 300_000
"""silence after which Resque itself takes a worker for dead"""


@dataclass(frozen=True, slots=True)
class ResqueWorker(Process):
    """A worker, with the bytes that must be unchanged when it is pruned."""

    beat: bytes = b""
    working: bytes = b""


async def workers(
    names: Sequence[bytes], keys: ForeignKeys, id_of: IdOf, whole: bool
) -> list[ResqueWorker]:
    """These workers, ``host:pid:queues``, by name. ``whole``: their jobs are read at any length."""
    shown, key = sorted(map(text, names)), keys.at + "workers:heartbeat"
    looks = (
        together(
            attempt(Call(("HGET", key, name), optional, key=key)),
            attempt(_record(f"{keys.at}worker:{name}", whole)),
        )
        for name in shown
    )
    rows, now = await together(in_batches(looks), server_ms())
    return [_worker(name, *row, now, id_of) for name, row in zip(shown, rows, strict=True)]


async def _record(key: str, whole: bool) -> tuple[tuple[bytes, int], bytes | None]:
    """A worker's job and its size, and since when the worker runs."""
    since = f"{key}:started"
    return await together(_working(key, whole), Call(("GET", since), optional, key=since))


async def _working(key: str, whole: bool) -> tuple[bytes, int]:
    """The record of the worker's job (only the beginning of a long one), and its size."""
    end = -1 if whole else LONG_RECORD - 1
    return await together(
        Call(("GETRANGE", key, 0, end), bytes, key=key), Call(("STRLEN", key), int, key=key)
    )


def _worker(
    name: str, heard: bytes | Exception | None, record: Any, now_ms: int, id_of: IdOf
) -> ResqueWorker:
    if isinstance(record, Exception):  # keys of another type must not hide the other workers
        return ResqueWorker(name, problem=str(record))
    (working, size), started = record
    problem = str(heard) if isinstance(heard, Exception) else None
    beat = heard if isinstance(heard, bytes) else b""
    # Resque splits at every colon; names of hosts and queues may have some themselves.
    parts = re.match(r"(.*?):(\d+):(.*)", name, re.S)
    at = _ruby_ms(text(beat))
    silent_ms = None if at is None else max(0, now_ms - at)
    work = _running(working, size, id_of)
    return ResqueWorker(
        name,
        parts[1] if parts else name,
        int(parts[2]) if parts else None,
        tuple(parts[3].split(",")) if parts else (),
        _ruby_ms(text(started or b"")),
        silent_ms,
        silent_ms is None or silent_ms <= PRUNE_MS,
        (work,) if work else (),
        problem=problem,
        beat=beat,
        working=working,
    )


def _running(working: bytes, size: int, id_of: IdOf) -> RunningJob | None:
    if len(working) == LONG_RECORD < size:
        return _unread(working, size)
    known = job.fields(working)
    if not known:
        return None
    own = member(working, "payload") or b""
    return RunningJob(id_of(own), str(known.get("queue", "")), own, _since(known))


def _unread(beginning: bytes, size: int) -> RunningJob:
    """A job by the beginning of its record: Resque writes the payload last."""
    known = job.fields(beginning.partition(b',"payload":')[0] + b"}") or {}
    queue = known.get("queue")
    named = queue if isinstance(queue, str) else None
    return RunningJob(UNREAD, named, b"", _since(known), not_read(size))


def _since(known: dict[str, Any]) -> int | None:
    at = known.get("run_at")
    return _ruby_ms(at) if isinstance(at, str) else None


def _ruby_ms(time: str) -> int | None:
    """An ISO 8601 time, also as Ruby writes one, in ms; None without a zone."""
    plain = re.sub(r" (?=[+-]\d\d:?\d\d$)", "", time.replace(" UTC", "+00:00").strip())
    return iso_ms(plain, zone=None)

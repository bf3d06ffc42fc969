"""The owner's own workers: which there are, when they were heard of last, what they have.

Records are read a hundred at a time, however many are registered.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, TypeVar

from ...engine.registry import server_ms
from ...model.quoting import bytes_of as _bytes
from ...model.quoting import text as _text
from ...model.worker_process import Process, RunningJob
from ...redis.operation import Call, attempt, both, together
from ..places import Beside
from . import job

SIDEKIQ_TTL_MS = 60_000
"""how long a process's record outlives its last beat"""
RESQUE_PRUNE_MS = 300_000
"""silence after which Resque itself takes a worker for dead"""
SOME = 100
"""processes whose records are read side by side"""

IdOf = Callable[[bytes], str]


@dataclass(frozen=True, slots=True)
class ResqueWorker(Process):
    """A Resque worker; who prunes it checks that its beat and its work still are what was read."""

    beat: bytes = b""
    working: bytes = b""


async def sidekiq_processes(names: Sequence[bytes], keys: Beside, id_of: IdOf) -> list[Process]:
    """Processes by name. The hash of running jobs is ``:workers`` up to 6, ``:work`` from 7."""
    found = []
    for i in range(0, len(names), SOME):
        found += await _some_sidekiq_processes(names[i : i + SOME], keys, id_of)
    return sorted(found, key=lambda process: process.name)


async def _some_sidekiq_processes(
    names: Sequence[bytes], keys: Beside, id_of: IdOf
) -> list[Process]:
    records = await together(attempt(_sidekiq_process(keys.at + _text(name))) for name in names)
    found = []
    for name, record in zip(names, records, strict=True):
        if isinstance(record, Exception):
            found.append(_unread(Process, name, record))
            continue
        info, quiet, left, works = record
        told = job.fields(info or b"{}") or {}
        silent = SIDEKIQ_TTL_MS - left if left > 0 else None
        queues = told.get("queues")
        held = [work for text in works if (work := _sidekiq_work(text, id_of))]
        held.sort(key=lambda work: (work.since_ms or 0, work.id))  # a hash has them in any order
        found.append(
            Process(
                _text(name), str(told.get("hostname", "")), _number(told.get("pid")),
                tuple(map(str, queues)) if isinstance(queues, list) else (),
                job.ms(told.get("started_at")), silent, info is not None,
                tuple(held), quiet == b"true",
            )
        )  # fmt: skip
    return found


async def _sidekiq_process(key: str) -> tuple[bytes | None, bytes | None, int, list[bytes]]:
    old_key, new_key = f"{key}:workers", f"{key}:work"
    (said, left), (old, new) = await both(
        both(
            Call(("HMGET", key, "info", "quiet"), list[Any], key=key),
            Call(("PTTL", key), int, key=key),
        ),
        both(
            Call(("HVALS", old_key), list[bytes], key=old_key),
            Call(("HVALS", new_key), list[bytes], key=new_key),
        ),
    )
    return said[0], said[1], left, old + new


def _sidekiq_work(text: bytes, id_of: IdOf) -> RunningJob | None:
    told = job.fields(text)
    if told is None:
        return None
    payload = told.get("payload")
    # A string since 5.2.2: the record as it was taken. Before, a part of this record.
    own = _bytes(payload) if isinstance(payload, str) else job.member(text, "payload") or b""
    run_at = job.ms(told.get("run_at"))
    return RunningJob(id_of(own), str(told.get("queue", "")), own, run_at)


async def resque_workers(names: Sequence[bytes], keys: Beside, id_of: IdOf) -> list[ResqueWorker]:
    """Workers by name, ``host:pid:queues``."""
    found = []
    for i in range(0, len(names), SOME):
        found += await _some_resque_workers(names[i : i + SOME], keys, id_of)
    return sorted(found, key=lambda process: process.name)


async def _some_resque_workers(
    names: Sequence[bytes], keys: Beside, id_of: IdOf
) -> list[ResqueWorker]:
    beats = keys.at + "workers:heartbeat"
    keys_of = [f"{keys.at}worker:{_text(name)}" for name in names]
    heard, (records, now) = await both(
        attempt(Call(("HMGET", beats, *names), list[Any], key=beats)),
        both(
            together(attempt(both(_string(key), _string(f"{key}:started"))) for key in keys_of),
            server_ms(),
        ),
    )
    told: list[Any] = [None] * len(names) if isinstance(heard, Exception) else heard
    found = []
    for name, beat, record in zip(names, told, records, strict=True):
        if isinstance(record, Exception):
            found.append(_unread(ResqueWorker, name, record))
            continue
        text, started = record
        host, pid, queues = _parts(_text(name))
        at = iso_ms(_text(beat)) if beat else None
        silent = None if at is None else max(0, now - at)
        work = _resque_job(text, id_of)
        found.append(
            ResqueWorker(
                _text(name), host, pid, queues, iso_ms(_text(started or b"")), silent,
                silent is None or silent <= RESQUE_PRUNE_MS, (work,) if work else (),
                beat=beat or b"", working=text or b"",
                problem=str(heard) if isinstance(heard, Exception) else None,
            )
        )  # fmt: skip
    return found


P = TypeVar("P", bound=Process)


def _unread(of: type[P], name: bytes, error: Exception) -> P:
    """One whose keys aren't what they should be: it must not hide the others, nor be struck."""
    return of(_text(name), "", None, (), None, None, True, (), problem=str(error))


def _string(key: str) -> Call[bytes | None]:
    return Call(("GET", key), lambda reply: reply, key=key)


def _resque_job(text: bytes | None, id_of: IdOf) -> RunningJob | None:
    told = job.fields(text or b"")
    if not told:
        return None
    at = told.get("run_at")
    own = job.member(text or b"", "payload") or b""
    since = iso_ms(at) if isinstance(at, str) else None
    return RunningJob(id_of(own), str(told.get("queue", "")), own, since)


def _parts(identity: str) -> tuple[str, int | None, tuple[str, ...]]:
    """Resque splits at every colon; names of hosts and queues may have some themselves."""
    found = re.match(r"(.*?):(\d+):(.*)", identity, re.S)
    if not found:
        return identity, None, ()
    return found[1], int(found[2]), tuple(found[3].split(","))


def iso_ms(text: str) -> int | None:
    """An ISO 8601 time as ms, also as Ruby writes one; without a zone it isn't one."""
    plain = re.sub(r" (?=[+-]\d\d:?\d\d$)", "", text.replace(" UTC", "+00:00").strip())
    try:
        at = datetime.fromisoformat(plain)
    except ValueError:
        return None
    return int(at.astimezone(UTC).timestamp() * 1000) if at.tzinfo else None


def _number(of: Any) -> int | None:
    return of if isinstance(of, int) else None

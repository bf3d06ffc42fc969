"""The owner's own workers: which there are, when they were heard of last, what they have."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from ..io import Call, both, together
from ..registry import server_ms
from . import job
from .places import Beside

SIDEKIQ_TTL_MS = 60_000
"""how long a process's record outlives its last beat"""
RESQUE_PRUNE_MS = 300_000
"""silence after which Resque itself takes a worker for dead"""


@dataclass(frozen=True, slots=True)
class Work:
    """A job in the hands of one of the owner's workers, as that one said it at its last beat."""

    queue: str
    payload: bytes
    since_ms: int | None


@dataclass(frozen=True, slots=True)
class Process:
    """One of the owner's worker processes."""

    identity: str
    host: str
    pid: int | None
    queues: tuple[str, ...]
    silent_ms: int | None
    """time since its last beat by the server's clock; None: it never beat, or nobody knows"""
    alive: bool
    """whether the owner takes it for alive"""
    work: tuple[Work, ...]
    quiet: bool = False
    """told to take nothing more"""
    beat: bytes = b""
    """its last beat and its work as they were read: who prunes checks that they still are"""
    working: bytes = b""


async def sidekiq_processes(names: Sequence[bytes], keys: Beside) -> list[Process]:
    """Processes by identity. The hash of running jobs is ``:workers`` up to 6, ``:work`` from 7."""
    records = await together(_sidekiq_process(keys.at + _text(name)) for name in names)
    found = []
    for name, (info, quiet, left, works) in zip(names, records, strict=True):
        told = job.fields(info or b"{}") or {}
        silent = SIDEKIQ_TTL_MS - left if left > 0 else None
        queues = told.get("queues")
        found.append(
            Process(
                _text(name), str(told.get("hostname", "")), _number(told.get("pid")),
                tuple(map(str, queues)) if isinstance(queues, list) else (),
                silent, info is not None, tuple(filter(None, map(_sidekiq_work, works))),
                quiet == b"true",
            )
        )  # fmt: skip
    return sorted(found, key=lambda process: process.identity)


async def _sidekiq_process(key: str) -> tuple[bytes | None, bytes | None, int, list[bytes]]:
    (said, left), (old, new) = await both(
        both(
            Call(("HMGET", key, "info", "quiet"), list[Any], key=key),
            Call(("PTTL", key), int, key=key),
        ),
        both(
            Call(("HVALS", f"{key}:workers"), list[bytes], key=key),
            Call(("HVALS", f"{key}:work"), list[bytes], key=key),
        ),
    )
    return said[0], said[1], left, old + new


def _sidekiq_work(text: bytes) -> Work | None:
    told = job.fields(text)
    if told is None:
        return None
    payload = told.get("payload")
    # A string since 5.2.2: the record as it was taken. Before, a part of this record.
    data = payload if isinstance(payload, str) else (job.member(text, "payload") or b"").decode()
    run_at = job.ms(told.get("run_at"))
    return Work(str(told.get("queue", "")), data.encode("utf-8", "surrogateescape"), run_at)


async def resque_workers(names: Sequence[bytes], keys: Beside) -> list[Process]:
    """Workers by id, ``host:pid:queues``."""
    beats = keys.at + "workers:heartbeat"
    found = []
    if not names:
        return []
    (told, works), now = await both(
        both(
            Call(("HMGET", beats, *names), list[Any], key=beats),
            together(_resque_work(f"{keys.at}worker:{_text(name)}") for name in names),
        ),
        server_ms(),
    )
    for name, beat, text in zip(names, told, works, strict=True):
        host, pid, queues = _parts(_text(name))
        at = iso_ms(_text(beat)) if beat else None
        silent = None if at is None else max(0, now - at)
        work = _resque_job(text)
        found.append(
            Process(
                _text(name), host, pid, queues, silent,
                silent is None or silent <= RESQUE_PRUNE_MS, (work,) if work else (),
                beat=beat or b"", working=text or b"",
            )
        )  # fmt: skip
    return sorted(found, key=lambda process: process.identity)


def _resque_work(key: str) -> Call[bytes | None]:
    return Call(("GET", key), lambda reply: reply, key=key)


def _resque_job(text: bytes | None) -> Work | None:
    told = job.fields(text or b"")
    if not told:
        return None
    at = told.get("run_at")
    payload = job.member(text or b"", "payload") or b""
    return Work(str(told.get("queue", "")), payload, iso_ms(at) if isinstance(at, str) else None)


def _parts(identity: str) -> tuple[str, int | None, tuple[str, ...]]:
    """Resque splits at every colon; names of hosts and queues may have some themselves."""
    found = re.match(r"(.*?):(\d+):(.*)", identity, re.S)
    if not found:
        return identity, None, ()
    return found[1], int(found[2]), tuple(found[3].split(","))


def iso_ms(text: str) -> int | None:
    """An ISO 8601 time as ms; without a zone it isn't one."""
    try:
        at = datetime.fromisoformat(text.replace(" UTC", "+00:00").strip())
    except ValueError:
        return None
    return int(at.astimezone(UTC).timestamp() * 1000) if at.tzinfo else None


def _number(of: Any) -> int | None:
    return of if isinstance(of, int) else None


def _text(name: bytes) -> str:
    return name.decode("utf-8", "surrogateescape")

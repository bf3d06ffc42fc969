"""A failure as Resque keeps it: a record around the job's own."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

from ..json_members import member
from ..ruby_jobs import job

_DIRTY = (job.LOST, "Resque::DirtyExit", "Resque::PruneDeadWorkerDirtyExit")


def opened(
    payload: bytes, kind: str, error: str, lines: list[str], worker: str, queue: str
) -> bytes:
    """The record up to its time, which the script adds."""
    if job.fields(payload) is None:  # Resque couldn't read it either; here it isn't lost
        payload = b'{"class":null,"args":[],"raw_hex":"%b"}' % payload.hex().encode()
    record = {
        "exception": kind,
        "error": error,
        "backtrace": lines,
        "worker": worker,
        "queue": queue,
    }
    rest = b",".join(job.value(name) + b":" + job.value(of) for name, of in record.items())
    return b'{"payload":' + payload + b"," + rest + b',"failed_at":'


def job_of(element: bytes, record: dict[str, Any]) -> bytes | None:
    """The job's own record in a failure, byte for byte as the worker had it. ``record``: the
    members of the failure."""
    own = record.get("payload")
    raw = job.unread(own if isinstance(own, dict) else None)
    return member(element, "payload") if raw is None else raw


def reason(exception: Any) -> str:
    if exception in _DIRTY:
        return "lost"
    return "rejected" if exception == "Reject" else "failed"


def times_lost(exception: Any, message: Any) -> int:
    """How often its worker was lost: our record has the number, Resque's counts as one."""
    if exception == job.LOST:
        return job.times_lost(message)
    return int(exception in _DIRTY)


def failed_ms(text: Any) -> int | None:
    """When a failure was recorded; None for a time without a zone."""
    if not isinstance(text, str):
        return None
    found = re.match(r"(\d{4})/(\d\d)/(\d\d) (\d\d):(\d\d):(\d\d) (?:UTC|GMT|Z)$", text)
    try:
        if found:
            year, month, day, hour, minute, second = map(int, found.groups())
            at = datetime(year, month, day, hour, minute, second, tzinfo=UTC)
        else:
            at = parsedate_to_datetime(text)
    except ValueError:
        return None
    return int(at.timestamp() * 1000) if at.tzinfo else None

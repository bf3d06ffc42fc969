"""A job as Laravel keeps it, JSON around a serialised PHP object (which is never evaluated), and a
failed one as Horizon keeps it: a hash around that JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha1
from math import ceil
from typing import Any
from uuid import NAMESPACE_OID, uuid5

from ...model.entry import Failure
from ...model.quoting import bytes_of, legal
from ..job_hashes import JobHash
from ..json_text import decoded, text_member

COMPARED = ("status", "queue", "connection", "name", "payload", "failed_at", "retried_by")
"""fields that tell a failed job from a later failure of its id"""
_ENCODER = json.JSONEncoder(separators=(",", ":"))
_THROWN = re.compile(r"([\w\\]+)(?:: (.*?))? in [^\n]+:\d+(?:\nStack trace:|\Z)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Job:
    data: bytes
    fields: Mapping[str, Any]
    """empty: it isn't a job"""

    @classmethod
    def read(cls, data: bytes) -> Job:
        found = decoded(data)
        return cls(data, found if isinstance(found, dict) and "job" in found else {})

    @property
    def id(self) -> str:
        """As Horizon's `JobPayload::id`; of a record without one, ``x`` and a part of a digest."""
        id = text_member(self.fields, ("uuid", "id"))
        half = id is None or re.search("[\ud800-\udfff]", id)  # a lone surrogate has no bytes
        return f"x{sha1(self.data).hexdigest()[:23]}" if half else legal(bytes_of(id or ""))

    @property
    def attempts(self) -> int:
        """How many attempts were begun."""
        found = self.fields.get("attempts")
        return found if type(found) is int and 0 <= found < 2**31 else 0

    @property
    def pushed_ms(self) -> int | None:
        """When it was pushed, if it has been there since: it was neither delayed nor tried."""
        moved = self.attempts or self.fields.get("delay")
        times = [] if moved else map(self._time_ms, ("pushedAt", "createdAt"))
        return next(filter(None, times), None)

    def retry(self, id: str, failed: JobHash, now_ms: int) -> bytes:
        """What Horizon's `RetryFailedJob` writes: the retry's id, the length of the new
        ``retried_by``, this field, and the retry. Here the failure's id and time give its id."""
        now = now_ms // 1000
        new = str(uuid5(NAMESPACE_OID, f"{id} {failed.text('failed_at')}"))
        until = self._time_ms("retryUntil") or self._time_ms("timeoutAt")
        left = until and until - (self._time_ms("pushedAt") or now_ms)
        failed_at = (time_ms(failed.text("failed_at")) or 0) // 1000  # by another machine's clock
        by = {"id": new, "status": "pending", "retried_at": max(now, failed_at)}
        noted = _encoded([*_noted(failed), by])
        again = {
            **self.fields,
            "id": new,
            "uuid": new,
            "attempts": 0,
            "retry_of": id,
            "retryUntil": None if left is None else now + ceil(left / 1000),
            "type": "job",
            "tags": self.fields.get("tags") or [],
            "silenced": False,
            "pushedAt": f"{now_ms / 1000:.4f}",
        }
        return f"{new} {len(noted)} ".encode() + noted + _encoded(again)

    def _time_ms(self, name: str) -> int | None:
        return time_ms(self.fields.get(name))


@dataclass(frozen=True, slots=True)
class HorizonJob(JobHash):
    """The hash of a job that Horizon keeps, and the job."""

    job: Job

    @classmethod
    def read(cls, values: Mapping[str, bytes | None]) -> HorizonJob:
        return cls(values, Job.read(values["payload"] or b""))


def retry_status(failed: JobHash) -> str | None:
    """What became of a job's last retry, if it was retried since it failed: pending, completed or
    failed."""
    last = _noted(failed)[-1:]
    if not last or not isinstance(last[0], dict):
        return None
    at, since = time_ms(failed.text("failed_at")) or 0, time_ms(last[0].get("retried_at"))
    return str(last[0].get("status")) if since and since >= at // 1000 * 1000 else None


def _noted(failed: JobHash) -> list[Any]:
    found = decoded(noted) if (noted := failed.values["retried_by"]) else None
    return found if isinstance(found, list) else []


def time_ms(seconds: Any) -> int | None:
    """A time in seconds, as a number or a text; None: it is no time."""
    try:
        at = float(seconds) * 1000 if isinstance(seconds, (int, float, str)) else 0.0
    except (ValueError, OverflowError):
        return None
    return round(at) if 0 < at < 2**53 else None


def error_of(exception: str) -> Failure | None:
    """The exception that PHP wrote as text; of a chain, the last one, which the job threw."""
    if found := _THROWN.match(exception.rpartition("\n\nNext ")[2]):
        return Failure(found[1], found[2] or "", exception)
    return Failure("error", exception.partition("\n")[0], exception) if exception else None


def _encoded(value: Any) -> bytes:
    """As PHP's `json_encode` does."""
    return _ENCODER.encode(value).replace("/", "\\/").encode()

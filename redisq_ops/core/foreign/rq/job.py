"""A job's record as RQ keeps it. Its pickle is never loaded; its description says what it calls."""

from __future__ import annotations

import base64
import re
import zlib
from dataclasses import dataclass
from typing import Any

from ...model.entry import Failure, State
from ..call_descriptions import call_of
from ..iso_times import iso_ms
from ..job_hashes import JobHash
from ..json_text import encoded
from ..tracebacks import failure_of

MOST = 256 * 1024
"""bytes of a traceback that are unpacked"""
_LOST = re.compile(r"Moved to FailedJobRegistry, due to AbandonedJobError|[Ww]ork-horse terminated")
_OUTCOMES = {b"1": "successful", b"2": "failed", b"3": "stopped", b"4": "retried"} | {
    b"5": "failed, without a retry left"
}
_SHOWN = ("description", "origin", "status", "timeout", "retries_left", "worker_name")


@dataclass(frozen=True, slots=True)
class Record(JobHash):
    """Some fields of a job's hash, the size of its pickle, and its latest result."""

    size: int
    results: list[Any] | str
    """its latest result, if it has one; or why it was not read"""

    def notes(self) -> list[str]:
        unread = isinstance(self.results, str)
        return JobHash.notes(self) + ([f"results: {self.results}"] if unread else [])

    @property
    def gone(self) -> bool:
        return not self.size and not any(self.values.values())

    @property
    def problem(self) -> str | None:
        return None if self.size else "its job has lost its data"

    def ms(self, field: str) -> int | None:
        return iso_ms(self.text(field))

    def call(self) -> dict[str, Any]:
        """What it calls, as `call_of` reads its description."""
        return call_of(self.text("description"))

    def shown(self, call: dict[str, Any]) -> bytes:
        """Shown as the payload: readable fields, its `call`, and the size of the pickle."""
        fields: dict[str, Any] = {name: self.text(name) for name in _SHOWN if self.values[name]}
        return encoded(fields | call | {"data_bytes": self.size})

    def traceback(self) -> str:
        """Of the latest result, or of the job itself (before RQ 1.12)."""
        if isinstance(self.results, str):
            return self.results
        result = self.results[0][1] if self.results else {}
        return _traceback(result.get(b"exc_string"), self.values["exc_info"] or b"")

    def error(self) -> Failure | None:
        found = self.traceback()
        return Failure("AbandonedJobError", found) if _LOST.match(found) else failure_of(found)

    def failures(self, state: State) -> tuple[int, int]:
        """How often it failed, and was lost with its worker."""
        retried, dead = self.number("number_of_retries") or 0, state == "dead"
        lost = int(dead and _LOST.match(self.traceback()) is not None)
        return retried + dead - lost, lost


def returned(runs: list[Any]) -> bytes | None:
    """What the latest of these results holds as the function's value; None: it has none."""
    try:
        return base64.b64decode(runs[0][1].get(b"return_value") or b"") if runs else None
    except ValueError:
        return None


def ended(run: Any) -> dict[str, Any]:
    """How a run ended, by its result: a field of the stream ``results:ID`` (``rq/results.py``)."""
    id, result = run
    last = _traceback(result.get(b"exc_string"), b"").strip().rpartition("\n")[2]
    at_ms = int(id.partition(b"-")[0])
    outcome = _OUTCOMES.get(result.get(b"type", b""), "unknown")
    return {"ended_ms": at_ms, "outcome": outcome, "error": last or None}


def _traceback(packed: bytes | None, plain: bytes) -> str:
    """A traceback of a result, or (before RQ 1.12) of a job's hash."""
    try:
        data = base64.b64decode(packed) if packed else plain
        return zlib.decompressobj().decompress(data, MOST).decode("utf-8", "backslashreplace")
    except (ValueError, zlib.error):
        return ""

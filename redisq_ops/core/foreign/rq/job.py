"""A job's record as RQ keeps it. Its pickle is never loaded; its description says what it calls."""

from __future__ import annotations

import base64
import json
import re
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ...model.entry import Failure, State
from ...model.errors import Unfit
from ..call_descriptions import call_of, function_of
from ..iso_times import iso_ms
from ..job_hashes import JobHash, Note
from ..json_text import decoded, encoded
from ..tracebacks import failure_of

MOST = 256 * 1024
"""bytes of a traceback, or of a job's data, that are unpacked"""
_LONGEST = 75
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
    data: bytes = b""
    """what it calls, unpacked; empty: a pickle, or not read"""

    def notes(self) -> list[str]:
        notes = JobHash.notes(self)
        if isinstance(self.results, str):
            notes.append(f"results: {self.results}")
        if len(self.data) >= MOST:
            notes.append("data: too long to be unpacked")
        return notes

    @property
    def gone(self) -> bool:
        return not self.size and not any(self.values.values())

    @property
    def problem(self) -> str | None:
        return None if self.size else "its job has lost its data"

    def ms(self, field: str) -> int | None:
        return iso_ms(self.text(field))

    @property
    def json(self) -> tuple[Any, Any, Any, Any] | None:
        """Function, instance, args and kwargs, as RQ's `JSONSerializer` writes them (``rq/job.py``,
        `Job._serialize_data`); None: not read, or a pickle."""
        match decoded(self.data) if self.data else None:
            case [str(function), instance, list(args), dict(kwargs)]:
                return function, instance, args, kwargs
        return None

    @property
    def function(self) -> str | None:
        """The function of its `call`."""
        return function_of(self.text("description")) if (call := self.json) is None else call[0]

    def call(self) -> dict[str, Any]:
        """What it calls: by its JSON, or as `call_of` reads its description."""
        if (call := self.json) is None:
            return call_of(self.text("description"))
        return {"function": call[0], "args": call[2], "kwargs": call[3]}

    def with_arguments(self, values: Mapping[str, bytes]) -> dict[str, tuple[bytes, bytes]]:
        """Fields of the job with other arguments, before and after: also the description, if it is
        the one that RQ makes of them. Raises `Unfit` for a pickle."""
        if (call := self.json) is None:
            long = self.data or isinstance(self.values["data"], Note)
            raise Unfit("too large" if long else "its arguments are in a pickle")
        function, instance, *now = call
        then = [
            json.loads(values[name]) if name in values else each
            for name, each in zip(("args", "kwargs"), now, strict=True)
        ]
        data = zlib.compress(json.dumps([function, instance, *then]).encode())
        fields = {"data": (self.values["data"] or b"", data)}
        if self.values["description"] == (told := _description(function, *now)):
            fields["description"] = (told, _description(function, *then))
        return fields

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

    def failures(self, state: State, traceback: str) -> tuple[int, int]:
        """How often it failed, and was lost with its worker; ``traceback``: its own."""
        retried, dead = self.number("number_of_retries") or 0, state == "dead"
        lost = int(dead and _LOST.match(traceback) is not None)
        return retried + dead - lost, lost


def error_of(traceback: str) -> Failure | None:
    """The error of a job, by its traceback or what RQ writes in place of one."""
    lost = _LOST.match(traceback)
    return Failure("AbandonedJobError", traceback) if lost else failure_of(traceback)


def _description(function: str, args: list[Any], kwargs: dict[str, Any]) -> bytes:
    """As `get_call_string` in ``rq/utils.py``, of at most 75 characters an argument."""

    def short(value: Any) -> str:
        text = repr(value)
        return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."

    named = sorted(f"{name}={short(value)}" for name, value in kwargs.items())
    return f"{function}({', '.join([*map(short, args), *named])})".encode(errors="replace")


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
    except ValueError:
        return ""
    return _unpacked(data).decode("utf-8", "backslashreplace")


def json_of(data: bytes) -> bytes:
    """The first `MOST` bytes of a job's data, if that is JSON; else empty."""
    return _unpacked(data) if _unpacked(data, 1) == b"[" else b""


def _unpacked(data: bytes, most: int = MOST) -> bytes:
    try:
        return zlib.decompressobj().decompress(data, most)
    except zlib.error:
        return b""

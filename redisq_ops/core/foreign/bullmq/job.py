"""A job as BullMQ keeps it: a hash of texts and numbers, some of them JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...model.entry import Failure

DATA = "data"
FIELDS = (
    "name", DATA, "opts", "timestamp", "priority", "atm", "stc", "processedOn", "finishedOn",
    "failedReason", "stacktrace", "pb", "parentKey",
)  # fmt: skip
WAIT_FIELDS = ("timestamp", "processedOn", "atm", "stc", "opts")
"""what `waits_since` reads"""
STALLED = "job stalled more than allowable limit"
_ERROR = re.compile(r"(?:Uncaught )?([A-Za-z_$][\w$.]*)(?:: (.*))?", re.DOTALL)
MOST = 256 * 1024
"""characters of a stack trace that are shown"""


@dataclass(frozen=True, slots=True)
class Job:
    values: Mapping[str, bytes | None]

    @classmethod
    def read(cls, values: Sequence[bytes | None]) -> Job:
        return cls(dict(zip(FIELDS, values, strict=True)))

    @property
    def problem(self) -> str | None:
        if not any(value is not None for value in self.values.values()):
            return "its job is gone"
        return None if self.values["name"] is not None else "its job has lost its name"

    def text(self, field: str) -> str:
        return (self.values[field] or b"").decode("utf-8", "backslashreplace")

    def number(self, field: str) -> int | None:
        value = self.values[field] or b""
        return int(value) if value.isdigit() and len(value) < 16 else None

    def shown(self) -> bytes:
        """Shown as the payload: the job's name, its data, options, priority and parent."""
        shown: dict[str, Any] = {"name": self.text("name"), "data": self.decoded("data")}
        shown["opts"] = self.decoded("opts")
        if self.number("priority"):
            shown["priority"] = self.number("priority")
        if self.values["parentKey"]:
            shown["parent"] = self.text("parentKey")
        return json.dumps(shown, ensure_ascii=False).encode(errors="backslashreplace")

    def decoded(self, field: str) -> Any:
        try:
            return json.loads(self.values[field] or b"null")
        except (ValueError, RecursionError):
            return self.text(field)

    @property
    def stalled(self) -> bool:
        """Whether it is dead because workers vanished with it."""
        return self.text("failedReason") == STALLED

    def error(self) -> Failure | None:
        """The latest failure; its type is in the stack trace only."""
        reason, traces = self.text("failedReason"), self.decoded("stacktrace")
        trace = str(traces[-1])[:MOST] if isinstance(traces, list) and traces else ""
        if not reason and not trace:
            return None
        first = trace.partition("\n    at ")[0]
        found = _ERROR.fullmatch(first)
        if found and reason in ("", found[2] or ""):  # a job that waits again has no reason
            return Failure(found[1], found[2] or "", trace)
        return Failure("Error", reason or first, trace)


def waits_since(values: Sequence[bytes | None]) -> int | None:
    """When a waiting job was added, of its `WAIT_FIELDS`; None if it was delayed or tried since."""
    job = Job(dict(zip(WAIT_FIELDS, values, strict=True)))
    options = job.decoded("opts")
    delayed = not isinstance(options, dict) or options.get("delay")
    tried = any(job.number(field) for field in ("processedOn", "atm", "stc"))
    return None if delayed or tried else job.number("timestamp")

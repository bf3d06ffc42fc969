"""A job as Bull and BullMQ keep it: a hash of texts and numbers, some of them JSON."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from ...model.cut_element import UNREAD
from ...model.entry import Failure
from ..job_hashes import JobHash
from ..json_text import decoded, encoded

FIELDS = (
    "name",
    "data",
    "opts",
    "timestamp",
    "priority",
    "atm",
    "stc",
    "processedOn",
    "finishedOn",
    "failedReason",
    "stacktrace",
    "pb",
    "parentKey",
    "attemptsMade",
    "stalledCounter",
    "ats",
    "delay",  # written even for an id without a job
)
SHOWN = ("name", "data", "opts", "priority", "parentKey")
STALLED = "job stalled more than allowable limit"
_ERROR = re.compile(r"(?:Uncaught )?([A-Za-z_$][\w$.]*)(?:: (.*))?", re.DOTALL)
MOST = 256 * 1024
"""characters of a stack trace that are shown"""


@dataclass(frozen=True, slots=True)
class Job(JobHash):
    """A job's hash, and when the lock of its worker expires: None if it has none."""

    until_ms: int | None = None

    @classmethod
    def kept(cls, fields: bytes) -> Job | None:
        """A job of what the trash keeps: the `SHOWN` fields, each behind its length and a colon.
        None: it keeps something else."""
        values = {}
        for name in SHOWN:
            length, _, rest = fields.partition(b":")
            if not length.isdigit() or len(length) > 9:
                return None
            values[name], fields = rest[: int(length)], rest[int(length) :]
        return cls(values)

    @property
    def problem(self) -> str | None:
        return "its job has lost its name" if self.values["name"] is None else None

    def shown(self) -> bytes:
        """Shown as the payload: the job's name, its data, options, priority and parent."""
        shown: dict[str, Any] = {"name": self.text("name")}
        shown |= {field: self.decoded(field) for field in ("data", "opts")}
        if self.number("priority"):
            shown["priority"] = self.number("priority")
        if self.values["parentKey"]:
            shown["parent"] = self.text("parentKey")
        return encoded(shown)

    def decoded(self, field: str) -> Any:
        value = self.values[field]
        found = decoded(value, UNREAD) if value else None
        return self.text(field) if found is UNREAD else found

    def sum(self, *fields: str) -> int:
        """The sum of some fields: releases before 5 kept a number in another field."""
        return sum([self.number(field) or 0 for field in fields])

    @property
    def lost(self) -> int:
        """How often a worker vanished with it."""
        return self.sum("stc", "stalledCounter")

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

"""A job or a result as arq keeps it: one string, a pickle (which is never loaded) or JSON."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from ...model.entry import NOT_READ, Failure
from ..json_text import encoded
from ..pickled import TooManySteps, Unmade, first_items, unpickled
from ..python_values import SHORT, plain

_JOB = ("t", "f", "a", "k", "et")
"""what a job consists of; a result begins with it"""
MOST = 20
"""arguments that are shown"""


@dataclass(frozen=True, slots=True)
class Record:
    fields: dict[str, Any]
    size: int
    data: bytes = b""
    call: str = ""
    problem: str | None = None
    gone: bool = False

    @classmethod
    def read(cls, data: bytes | None) -> Record:
        if data is None:
            return cls({}, 0, gone=True)
        try:
            found = json.loads(data) if data[:1] == b"{" else unpickled(data)
            if isinstance(found, dict) and isinstance(found.get("f"), str):
                return cls(found, len(data), data, _call(found))
        except TooManySteps:
            many = f"{NOT_READ}: its pickle of {len(data) / 2**20:,.1f} MiB has too many parts"
            return cls({}, len(data), problem=many)
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
            pass
        return cls({}, len(data), problem="neither a pickle nor JSON of arq's")

    @property
    def is_json(self) -> bool:
        return self.data[:1] == b"{"

    def number(self, field: str) -> int | None:
        value = self.fields.get(field)
        return value if isinstance(value, int) and abs(value) < 2**53 else None

    @property
    def queue(self) -> str | None:
        name = self.fields.get("q")
        return name if isinstance(name, str) else None

    def job(self) -> bytes:
        """The job that led to a result, as before its first try. The exception that it raised is
        left out: it may be impossible to unpickle. Empty: arq had lost the job by then."""
        if self.fields["f"] == "<unknown>" or tuple(self.fields)[: len(_JOB)] != _JOB:
            return b""
        if not self.is_json:
            return first_items(self.data, len(_JOB))
        return json.dumps({name: self.fields[name] for name in _JOB} | {"t": None}).encode()

    def shown(self) -> bytes:
        """Shown as the payload: the call as text, its arguments, and the size of the record."""
        shown = {"function": self.fields["f"], "call": self.call, "try": self.number("t")}
        shown |= {name: self._arguments(of) for name, of in (("args", "a"), ("kwargs", "k"))}
        return encoded(shown | {"data_bytes": self.size})

    def _arguments(self, field: str) -> Any:
        """None: unknown, or too large together."""
        try:
            return plain(self.fields.get(field))
        except ValueError:
            return None

    def error(self) -> Failure | None:
        """Of a result: arq keeps the exception, and no traceback."""
        raised = self.fields.get("r")
        if not isinstance(raised, Unmade):
            return Failure("error", SHORT.repr(raised))
        first = raised.args[0] if raised.args else ""
        said = first if isinstance(first, str) else SHORT.repr(first)
        return Failure(raised.name.removeprefix("builtins."), said)


def _call(job: dict[str, Any]) -> str:
    args, kwargs = job.get("a"), job.get("k")
    parts = [SHORT.repr(each) for each in args[:MOST]] if isinstance(args, (list, tuple)) else []
    if isinstance(kwargs, dict):
        parts += [f"{name}={SHORT.repr(kwargs[name])}" for name in list(kwargs)[:MOST]]
    return f"{job['f']}({', '.join(parts)})"

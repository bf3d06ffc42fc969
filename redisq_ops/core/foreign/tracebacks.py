"""Tracebacks that Python programs keep as text."""

from __future__ import annotations

import re

from ..model.entry import Failure

_LAST = re.compile(r"([\w.]+)(?:: (.*))?", re.DOTALL)


def failure_of(traceback: str) -> Failure | None:
    """The error whose traceback this is: its last line has the type and the message."""
    lines = traceback.strip()
    if not lines:
        return None
    last = lines.rpartition("\n")[2]
    found = _LAST.fullmatch(last)
    return Failure(found[1], found[2] or "", lines) if found else Failure("error", last, lines)

"""The lines in which two payloads differ."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterator

from ..terminal import count

LONG = 2_000
"""lines of both payloads up to which they are compared line by line"""


def diff(before: str, after: str) -> Iterator[str]:
    """The removed and added lines with a line of context; JSON is first spread over lines.

    The common begin and end of long payloads are cut off. If the rest is still long, only its
    number of lines is shown: the cost of a comparison grows with the cube of the length.
    """
    old, new = _lines(before), _lines(after)
    if len(old) + len(new) > LONG:
        head, tail = _common(old, new)
        out, put = len(old) - head - tail, len(new) - head - tail
        if out + put > LONG:
            return iter((f"-{count(out)} lines", f"+{count(put)} lines"))
        low, behind = max(0, head - 1), max(0, tail - 1)
        old, new = old[low : len(old) - behind], new[low : len(new) - behind]
    return (
        line
        for line in difflib.unified_diff(old, new, lineterm="", n=1)
        if not line.startswith(("---", "+++", "@@"))
    )


def _common(old: list[str], new: list[str]) -> tuple[int, int]:
    """How many lines both begin with, and how many others both end with."""
    most = min(len(old), len(new))
    head = next((k for k in range(most) if old[k] != new[k]), most)
    tail = next((k for k in range(most - head) if old[-1 - k] != new[-1 - k]), most - head)
    return head, tail


def _lines(payload: str) -> list[str]:
    try:
        return json.dumps(json.loads(payload), indent=2, ensure_ascii=False).splitlines()
    except (ValueError, RecursionError):
        return payload.splitlines()

"""Times that other programs keep as ISO 8601 text."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any

_EPOCH, _MS = datetime(1970, 1, 1, tzinfo=UTC), timedelta(milliseconds=1)


def iso_ms(text: Any, zone: tzinfo | None = UTC) -> int | None:
    """The time in ms, in ``zone`` if the text names none. None: the text is no time, or no zone is
    known."""
    try:
        at = datetime.fromisoformat(text)
        if at.tzinfo is None:
            at = at.replace(tzinfo=zone)
        return (at - _EPOCH) // _MS if at.tzinfo else None
    except (TypeError, ValueError, OverflowError):
        return None


def span_ms(begin_ms: int | None, end_ms: int | None) -> int | None:
    """From one time to another; None: one is unknown, or they are of different runs."""
    if begin_ms is None or end_ms is None or begin_ms > end_ms:
        return None
    return end_ms - begin_ms

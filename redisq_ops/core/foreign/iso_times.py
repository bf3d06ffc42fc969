"""Times that other programs keep as ISO 8601 text."""

from __future__ import annotations

from datetime import UTC, datetime, tzinfo
from typing import Any


def iso_ms(text: Any, zone: tzinfo | None = UTC) -> int | None:
    """The time in ms, in ``zone`` if the text names none. None: the text is no time, or no zone is
    known."""
    try:
        at = datetime.fromisoformat(text)
        zone = at.tzinfo or zone
        return int(at.replace(tzinfo=zone).timestamp() * 1000) if zone else None
    except (TypeError, ValueError, OverflowError):
        return None


def span_ms(begin_ms: int | None, end_ms: int | None) -> int | None:
    """From one time to another; None: one is unknown, or they are of different runs."""
    known = begin_ms is not None and end_ms is not None and begin_ms <= end_ms
    return end_ms - begin_ms if known else None  # type: ignore[operator]

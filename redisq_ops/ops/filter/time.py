"""Times, time spans and rates as people write them; times in milliseconds UTC."""

from __future__ import annotations

import re
from datetime import UTC, datetime, time, timedelta

from redisq_ops.core.model.errors import BadInput

_SPAN = re.compile(r"(\d{1,15})\s*(ms|s|m|h|d)")
_UNIT_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_CLOCK = re.compile(r"\d{1,2}:\d\d(:\d\d)?")
_RATE = re.compile(r"(\d+(?:\.\d+)?)(?:/(s|m|h))?")
_EXAMPLE = "2026-11-20T03:12:00+01:00"
LONGEST_MS = 36_500 * 86_400_000


def duration_ms(text: str) -> int:
    """``90s``, ``5m``, ``2h``, ``3d`` or ``1h30m`` in milliseconds; at most a hundred years."""
    parts = _SPAN.findall(text)
    if not parts or _SPAN.sub("", text).strip():
        raise BadInput(f"{text!r} is not a time span: write 90s, 5m, 2h or 3d")
    span = sum(int(n) * _UNIT_MS[unit] for n, unit in parts)
    if span > LONGEST_MS:
        raise BadInput(f"{text!r} is more than a hundred years")
    return span


def moment_ms(text: str, now_ms: int, *, ahead: bool = False, utc: bool = False) -> int:
    """A time of day (``03:12``) or ISO 8601 with an offset (``2026-11-20T03:12:00+01:00``, ``…Z``).

    A time of day means its latest occurrence, or with ``ahead`` the next one; local unless ``utc``.
    """
    if not _CLOCK.fullmatch(text):
        try:
            at = datetime.fromisoformat(text)
        except ValueError as error:
            raise BadInput(f"{text!r} is not a time: write 03:12 or {_EXAMPLE}") from error
        if at.tzinfo is None:
            raise BadInput(f"{text!r} lacks a UTC offset: write {_EXAMPLE}")
        return int(at.timestamp() * 1000)
    now = datetime.fromtimestamp(now_ms / 1000, UTC)
    now = now if utc else now.astimezone()
    try:
        clock = time.fromisoformat(text.rjust(len(text) + (text[1] == ":"), "0"))
    except ValueError as error:
        raise BadInput(f"{text!r} is not a time of day") from error
    occurrences = []
    # By calendar days: a day on which clocks change has 23 or 25 hours.
    for days in (-1, 0, 1):
        at = datetime.combine(now.date() + timedelta(days), clock, UTC if utc else None)
        first, second = (int(at.replace(fold=fold).timestamp() * 1000) for fold in (0, 1))
        # A time occurs twice when clocks go back; when they go forward `second` is the earlier one.
        occurrences += [first, max(first, second)]
    if ahead:
        return min(at_ms for at_ms in occurrences if at_ms > now_ms)
    return max(at_ms for at_ms in occurrences if at_ms <= now_ms)


def per_second(text: str) -> float:
    """A rate (``100/s``, ``30/m`` or plain ``100``) as entries per second."""
    match = _RATE.fullmatch(text)
    rate = float(match[1]) / {"s": 1, "m": 60, "h": 3600}[match[2] or "s"] if match else 0.0
    if not 0 < rate <= 1e9:
        raise BadInput(f"{text!r} is not a rate: write 100/s or 30/m")
    return rate

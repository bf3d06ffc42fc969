"""Numbers, durations and times as reports write them."""

from __future__ import annotations

from datetime import UTC, datetime

MINUTE = 60_000
STEP_CHOICES_S = (1, 5, 10, 30, 60, 120, 300, 900, 1800, 3600, 21_600, 86_400)
"""possible lengths of a plot's steps, in seconds"""
MAX_STEPS = 100
"""maximum number of steps of a plot"""


def each_step(step_ms: int) -> str:
    """The unit of a count per step: ``per min``, ``per 5 min``."""
    return f"per {duration(step_ms)}".replace("per 1 ", "per ")


def time(ms: float | None) -> str:
    return "–" if ms is None else duration(ms)


def moment(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%d %H:%M")


def between(begin: int, end: int) -> str:
    """A range of time: ``2026-03-01 10:00 – 14:00 UTC``, with seconds if it is short."""
    first, last = (datetime.fromtimestamp(ms / 1000, UTC) for ms in (begin, end))
    clock = "%H:%M:%S" if begin % 60_000 or end % 60_000 else "%H:%M"
    if end - begin >= 600_000:
        clock = "%H:%M"
    last_text = last.strftime(clock if first.date() == last.date() else f"%Y-%m-%d {clock}")
    return f"{first.strftime(f'%Y-%m-%d {clock}')} – {last_text} UTC"


def duration(ms: float) -> str:
    """``0``, ``0.5 ms``, ``250 ms``, ``1.5 s``, ``12 min``, ``3.2 h``, ``4 d``."""
    for size, unit in ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1000, "s")):
        if abs(ms) >= size:
            return f"{_short(ms / size)} {unit}"
    return f"{_short(ms)} ms" if ms else "0"


def number(value: float) -> str:
    """``0``, ``12``, ``1.5``, ``12k``, ``3.4M``."""
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return _short(value / size) + unit
    return _short(value)


def _short(value: float) -> str:
    digits = 0 if abs(value) >= 100 else 1 if abs(value) >= 10 else 2
    text = f"{value:.{digits}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def step_for(range_ms: int) -> int:
    """The step (ms) of plots over ``range_ms``."""
    return next(
        (s * 1000 for s in STEP_CHOICES_S if range_ms <= s * 1000 * MAX_STEPS),
        STEP_CHOICES_S[-1] * 1000,
    )

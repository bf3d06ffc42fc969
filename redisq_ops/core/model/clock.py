"""Clocks and times.

Queues use the server's clock, in integer ms, read once per script; clients' clocks are never
compared. A test gives a queue a `FakeClock` and moves it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from time import monotonic
from typing import Protocol, TypeAlias

from .errors import BadInput

FELL_MS = 1_000
"""ms; a clock that goes back by more than this was set back"""
Moment: TypeAlias = float | datetime
"""seconds since 1970 (UTC), or an aware datetime"""
Seconds: TypeAlias = float | timedelta
"""seconds, or a timedelta"""
MOST_MS = 10**14
"""the year 5138"""
_LEAST_S = 978_307_200
"""the year 2001; an earlier number is probably a duration"""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Clock(Protocol):
    """The clock of a queue."""

    def stamp(self) -> str:
        """The time in ms for a script; '' to use the server's."""
        ...


class ServerClock:
    """The server's clock, used everywhere except in tests."""

    def stamp(self) -> str:
        return ""


class FakeClock:
    """A clock for tests: it stands still until `advance`, or until ``now_ms`` is set."""

    def __init__(self, now_ms: int = 1_700_000_000_000) -> None:
        self.now_ms = now_ms

    def stamp(self) -> str:
        return str(self.now_ms)

    def advance(self, span: Seconds) -> None:
        """Let time pass, in seconds or as a timedelta."""
        self.now_ms += duration_ms(span, "span")


def wall_ms() -> int:
    """This machine's clock in ms, for ages on a screen; never sent to a server."""
    return time.time_ns() // 1_000_000


def checked_seconds(value: Seconds, what: str, least: float = 0) -> float:
    """A duration in seconds; raises `BadInput` for less than ``least``, or what is no number."""
    if isinstance(value, timedelta):
        value = value.total_seconds()
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise BadInput(f"{what} is seconds or a timedelta, not {type(value).__name__}")
    if not least <= value < MOST_MS / 1000:
        raise BadInput(f"{what} of {shortly(value)}: seconds from {least:g} to the year 5138")
    return value


def countdown(timeout: Seconds | None) -> Callable[[], float | None]:
    """A function that says how many seconds of a time-out are left; None: it has no end. Raises
    `BadInput` as `checked_seconds` does."""
    ends = None if timeout is None else monotonic() + checked_seconds(timeout, "timeout")
    return lambda: None if ends is None else max(0.0, ends - monotonic())


def duration_ms(value: Seconds, what: str, least_ms: int = 0) -> int:
    """A duration as whole ms; raises `BadInput` as `checked_seconds` does.

    Scripts store it as digits: a fraction or 1e+15 could not be read again.
    """
    return round(checked_seconds(value, what, least_ms / 1000) * 1000)


def checked_moment(value: Moment, what: str) -> int:
    """A time as whole ms since 1970 (UTC); raises `BadInput` for one that looks like ms, or like a
    duration, or has no time zone.

    0 is allowed: it is the past in any unit.
    """
    if isinstance(value, datetime):
        if value.utcoffset() is None:
            raise BadInput(
                f"{what} {value.isoformat()} has no time zone: write datetime.now(UTC), or use "
                "replace(tzinfo=…)"
            )
        return max(0, (value - _EPOCH) // timedelta(milliseconds=1))
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise BadInput(f"{what} is Unix seconds or a datetime, not {type(value).__name__}")
    if not value < MOST_MS / 1000:
        raise BadInput(f"{what} of {shortly(value)}: Unix seconds expected, until the year 5138")
    if value and value < _LEAST_S:
        raise BadInput(
            f"{what} of {shortly(value)}: Unix seconds expected, and this is before 2001; "
            "a datetime may be"
        )
    return round(value * 1000)


def ready_words(at: Moment | None, after: Seconds | None) -> str:
    """A ready time as scripts read it: ms, or +ms from their now; empty where neither is given."""
    if at is not None and after is not None:
        raise BadInput("at or after: give one of them")
    if at is not None:
        return str(checked_moment(at, "at"))
    return "" if after is None else f"+{duration_ms(after, 'after')}"


def shortly(value: float) -> str:
    """A number for a message, whatever its size."""
    return f"{float(value):.15g}" if abs(value) < 10**300 or value != value else "a huge number"

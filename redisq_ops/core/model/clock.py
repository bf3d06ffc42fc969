"""Clocks and times.

Queues use the server's clock, in integer ms, read once per script; clients' clocks are never
compared. A test gives a queue a `FakeClock` and moves it.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import Protocol, TypeAlias

from .errors import BadInput

FELL_MS = 1_000
"""ms; a clock that goes back by more than this was set back"""
Moment: TypeAlias = int | datetime
"""ms since 1970 (UTC), or an aware datetime"""
Duration: TypeAlias = int | timedelta
"""ms, or a timedelta"""
MOST_MS = 10**14
"""the year 5138"""
_LEAST_MS = 978_307_200_000
"""the year 2001; an earlier time is probably in seconds"""
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
    """A clock for tests: it stands still until `advance`."""

    def __init__(self, now_ms: int = 1_700_000_000_000) -> None:
        self.now_ms = now_ms

    def stamp(self) -> str:
        return str(self.now_ms)

    def advance(self, ms: int) -> None:
        self.now_ms += ms


def wall_ms() -> int:
    """This machine's clock in ms, for ages on a screen; never sent to a server."""
    return time.time_ns() // 1_000_000


def checked_ms(value: Duration, what: str) -> int:
    """A duration as whole ms; raises `BadInput` for one that is negative, too long or no number.

    Scripts store it as digits: a fraction or 1e+15 could not be read again.
    """
    if isinstance(value, timedelta):
        value = value // timedelta(milliseconds=1)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise BadInput(f"{what} is ms (int) or a timedelta, not {type(value).__name__}")
    if not value < MOST_MS:
        raise BadInput(f"{what} of {value:.0f}: times are in ms, until the year 5138")
    if value < 0:
        raise BadInput(f"{what} of {value:.0f} ms: it can't be negative")
    return int(value)


def checked_moment(value: Moment, what: str) -> int:
    """A time as ms since 1970 (UTC); raises `BadInput` for one that looks like seconds or µs.

    0 is allowed: it is the past in any unit.
    """
    if isinstance(value, datetime):
        if value.utcoffset() is None:
            raise BadInput(
                f"{what} {value.isoformat()} has no time zone: write datetime.now(UTC), or use "
                "replace(tzinfo=…)"
            )
        value = (value - _EPOCH) // timedelta(milliseconds=1)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise BadInput(f"{what} is ms (int) or a datetime, not {type(value).__name__}")
    if not value < MOST_MS:
        raise BadInput(f"{what} of {value:.0f}: times are in ms, until the year 5138")
    if value and value < _LEAST_MS:
        raise BadInput(f"{what} of {value:.0f}: milliseconds expected, this is before 2001")
    return int(value)


def bound_ms(value: Moment | None, what: str) -> int | None:
    """A bound of a period of time, in ms; any number is allowed."""
    return checked_moment(value, what) if isinstance(value, datetime) else value

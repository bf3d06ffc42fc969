"""Time by the door.

Queues run on the server's clock, integer milliseconds, read once per script; clients' clocks are
never compared. A test hands a queue a `FakeClock` and moves it by hand.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import Protocol, TypeAlias

from .errors import BadInput

FELL_MS = 1_000
"""a clock that is behind what it said before by more than this was set back (`fallen.lua`)"""
Moment: TypeAlias = int | datetime
"""ms UTC since 1970, or an aware datetime"""
Duration: TypeAlias = int | timedelta
"""ms, or a timedelta"""
MOST_MS = 10**14
"""the year 5138"""
_LEAST_MS = 978_307_200_000
"""2001: an earlier time was meant in seconds"""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Clock(Protocol):
    def stamp(self) -> str:
        """What a script is told: milliseconds, or '' for "ask the server"."""
        ...


class ServerClock:
    """The server's own TIME, the only clock of production."""

    def stamp(self) -> str:
        return ""


class FakeClock:
    """A clock that stands still until told otherwise, for tests."""

    def __init__(self, now_ms: int = 1_700_000_000_000) -> None:
        self.now_ms = now_ms

    def stamp(self) -> str:
        return str(self.now_ms)

    def advance(self, ms: int) -> None:
        self.now_ms += ms


def wall_ms() -> int:
    """This machine's clock, for showing ages on a screen; never sent to a server."""
    return time.time_ns() // 1_000_000


def checked_ms(value: Duration, what: str) -> int:
    """A duration in whole milliseconds.

    Scripts keep them as digits: a fraction, or one Lua would write as 1e+15, could never be read
    again and would stop the queue.
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
    """A time in milliseconds UTC since 1970; what looks like seconds or microseconds is refused. (0
    is the past in any unit.)"""
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
    """An end of a window of time, in milliseconds: any number is one."""
    return checked_moment(value, what) if isinstance(value, datetime) else value

"""Time by the door.

Queues run on the server's clock, integer milliseconds, read once per script; clients' clocks are
never compared. A test hands a queue a `FakeClock` and moves it by hand.
"""

from __future__ import annotations

import time
from typing import Protocol

from .errors import BadInput

FELL_MS = 1_000
"""a clock that is behind what it said before by more than this was set back (`fallen.lua`)"""


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


def checked_ms(value: float, what: str) -> int:
    """A time or duration in whole milliseconds, none below 0.

    Scripts keep them as digits: a fraction, or one Lua would write as 1e+15, could never be read
    again and would stop the queue. Who gives microseconds is told so.
    """
    if not value < 10**14:
        raise BadInput(f"{what} of {value:.0f}: times are in ms, until the year 5138")
    return max(0, int(value))

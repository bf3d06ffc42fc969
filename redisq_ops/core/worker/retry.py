"""When a failed attempt is retried: the back-off, `Retry` and `Reject`, and how failures settle."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from datetime import timedelta

from ..model.clock import MOST_MS
from ..model.entry import Delivery, Failure, Settlement
from ..model.errors import BadInput

LONGEST_BACKOFF_MS = 15 * 60 * 1000

Random = Callable[[], float]
"""A number from [0, 1)."""


class Retry(Exception):
    """Raise in a handler: fail this attempt and retry it ``after`` seconds (or a timedelta).

    Default: the usual back-off. ``reason`` is the message that is stored. The attempt counts as a
    failure.
    """

    def __init__(self, after: float | timedelta | None = None, reason: str = "") -> None:
        super().__init__(reason)
        if isinstance(after, timedelta):
            after = after.total_seconds()
        if after is not None:
            if isinstance(after, bool) or not isinstance(after, (int, float)):
                raise BadInput(f"after is seconds or a timedelta, not {type(after).__name__}")
            if not 0 <= after < MOST_MS / 1000:
                raise BadInput(f"after of {after} s: seconds from 0 to the year 5138")
        self.after = after


class Reject(Exception):
    """Raise in a handler: the entry is dead at once, without retries; its text is the reason."""


class Failed(Exception):
    """An attempt failed, and not because of an exception in this process."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure


def backoff_ms(failures: int, random: Random) -> int:
    """ms to wait after a failure, when there were ``failures`` before it."""
    plain = min(1000 << min(failures, 20), LONGEST_BACKOFF_MS)
    return min(int(plain * (0.9 + 0.2 * random())), LONGEST_BACKOFF_MS)


def failed(delivery: Delivery, error: BaseException, random: Random) -> Settlement:
    """The settlement of a run that raised ``error``."""
    failure = failure_of(error)
    if isinstance(error, Reject):
        return Settlement(delivery, "reject", failure.encoded())
    if isinstance(error, Retry) and error.after is not None:
        return Settlement(delivery, "fail", failure.encoded(), max(0, int(error.after * 1000)))
    return Settlement(delivery, "fail", failure.encoded(), backoff_ms(delivery.failures, random))


def timed_out(timeout_s: float) -> Failed:
    """The error of a run that took longer than ``timeout_s``."""
    return Failed(Failure("Timeout", f"not done after {timeout_s:g} s"))


def failure_of(error: BaseException) -> Failure:
    """What is stored of an error."""
    if isinstance(error, Failed):
        return error.failure
    try:
        message = str(error)
    except Exception:
        message = "(its message can't be shown)"
    if isinstance(error, (Retry, Reject)):
        return Failure(type(error).__name__, message)
    # The first frame is this module's; the handler's begin after it.
    frames = error.__traceback__.tb_next if error.__traceback__ else None
    try:
        text = "".join(traceback.format_exception(type(error), error, frames))
    except Exception:
        text = "".join(traceback.format_tb(frames))
    return Failure(type(error).__name__, message, text)

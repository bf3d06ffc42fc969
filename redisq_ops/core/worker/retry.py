"""How a failed attempt ends: `Retry` and `Reject`, what is stored of an error, and the policy."""

from __future__ import annotations

import traceback
from collections.abc import Callable

from ..model.clock import Seconds, checked_seconds
from ..model.entry import Delivery, Failure, Settlement
from ..model.retry_policy import RetryPolicy

Random = Callable[[], float]
"""A number from [0, 1)."""


class Retry(Exception):
    """Raise in a handler: fail this attempt and retry it ``after`` seconds (or a timedelta).

    Default: the usual back-off. ``reason`` is the message that is stored. The attempt counts as a
    failure.
    """

    def __init__(self, after: Seconds | None = None, reason: str = "") -> None:
        super().__init__(reason)
        self.after = None if after is None else checked_seconds(after, "after")


class Reject(Exception):
    """Raise in a handler: the entry is dead at once, without retries; its text is the reason."""


class Failed(Exception):
    """An attempt failed, and not because of an exception in this process.

    ``program``: the command that failed, for the log; ``dead``: no retry, as for `Reject`.
    """

    def __init__(self, failure: Failure, program: str = "", *, dead: bool = False) -> None:
        super().__init__(failure.message)
        self.failure, self.program, self.dead = failure, program, dead


def failed(delivery: Delivery, error: BaseException) -> Settlement:
    """The settlement of a run that raised ``error``; its delay is only that of a `Retry`."""
    failure = failure_of(error)
    if isinstance(error, Reject) or (isinstance(error, Failed) and error.dead):
        return Settlement(delivery, "reject", failure.encoded())
    after = error.after if isinstance(error, Retry) else None
    return Settlement(delivery, "fail", failure.encoded(), after)


def decided(end: Settlement, own: RetryPolicy | None, queues: RetryPolicy | None) -> Settlement:
    """The settlement of a failed attempt with its delay, by the entry's ``own`` policy or else its
    queue's; ``give_up`` after the last attempt of its own policy. Others as they are."""
    if end.outcome != "fail":
        return end
    if own is not None and own.attempts is not None and end.delivery.failures + 1 >= own.attempts:
        return end._replace(outcome="give_up", delay=None)
    if end.delay is not None:
        return end
    policy = own or queues or RetryPolicy()
    return end._replace(delay=policy.spread_s(end.delivery))


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
    return Failure(type(error).__name__, message, traceback_of(error))


def traceback_of(error: BaseException) -> str:
    """The traceback, from the handler's first frame: the one before it is the worker's."""
    frames = error.__traceback__.tb_next if error.__traceback__ else None
    try:
        return "".join(traceback.format_exception(type(error), error, frames))
    except Exception:
        return "".join(traceback.format_tb(frames))

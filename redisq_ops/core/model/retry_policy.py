"""When an entry that failed is tried again, as the code says: attempts and back-off."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeAlias
from zlib import crc32

from .clock import Seconds, checked_seconds
from .entry import Delivery
from .errors import BadInput
from .validation import listed

log = logging.getLogger("redisq_ops.queue")

MOST_ATTEMPTS = 1_000_000
Backoff: TypeAlias = Callable[[int], Seconds] | Sequence[Seconds] | Seconds
"""one wait (seconds or a timedelta); a list of waits, of which the last is repeated; or a function
from the number of failures, 1 after the first, to a wait, such as `exponential` makes"""


def exponential(first: Seconds, longest: Seconds) -> Callable[[int], float]:
    """A back-off whose waits double: ``first`` after the first failure, never more than
    ``longest``.

    >>> [exponential(5, 600)(failures) for failures in (1, 2, 3, 9)]
    [5, 10, 20, 600]
    """
    start, most = checked_seconds(first, "first"), checked_seconds(longest, "longest")
    return lambda failures: min(start * 2 ** min(failures - 1, 62), most)


USUAL = exponential(1, 15 * 60)


def _waits(backoff: Backoff) -> Callable[[int], Seconds]:
    """A back-off as a function; raises `BadInput` for anything else."""
    if callable(backoff):
        return backoff
    single = isinstance(backoff, (int, float, timedelta))
    given: list[Any] = [backoff] if single else listed(backoff, "backoff")
    waits = [checked_seconds(wait, "a wait of backoff") for wait in given]
    if not waits:
        raise BadInput("backoff is an empty list: give at least one wait")
    return lambda failures: waits[min(failures, len(waits)) - 1]


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How often an entry is tried, and how long it waits in between.

    ``attempts``: failures after which an entry is dead, 1 to 1,000,000; None: the setting
    ``max_failures`` alone. It is kept with the queue, until other code states another number or
    None, and goes before the default of 20; an operator's ``max_failures`` goes before it, and a
    warning says so. ``backoff``: a wait in seconds or as a timedelta, a list of waits of which the
    last is repeated, `exponential`, or any function from the number of failures to a wait; ± 10 %;
    None: 1 s · 2ⁿ up to 15 minutes. It is of the process that settles. Raises `BadInput`.

        RequestQueue(connect(), "mail", retry=RetryPolicy(5, exponential(10, 600)))
    """

    attempts: int | None = None
    backoff: Backoff | None = None

    def __post_init__(self) -> None:
        attempts = self.attempts
        if attempts is not None:
            whole = isinstance(attempts, int) and not isinstance(attempts, bool)
            if not whole or not 1 <= attempts <= MOST_ATTEMPTS:
                wanted = f"an int from 1 to {MOST_ATTEMPTS:,}"
                raise BadInput(f"attempts must be {wanted}, not {attempts!r:.60}")
        if self.backoff is not None:
            waits = _waits(self.backoff)
            try:
                first = waits(1)
            except Exception as error:
                raise BadInput(f"backoff after 1 failure: {error}") from error
            checked_seconds(first, "backoff after 1 failure")

    def wait_s(self, failures: int) -> float:
        """Seconds to wait after so many failures, 1 after the first; not spread."""
        if self.backoff is not None:
            try:
                return checked_seconds(_waits(self.backoff)(failures), "backoff")
            except Exception:  # the failure has to be settled, whatever the function does
                log.exception("the back-off after %d failures can't be used", failures)
        return USUAL(failures)

    def spread_s(self, delivery: Delivery) -> float:
        """Seconds that an entry waits after this attempt, ± 10 %: what failed together is spread,
        each by what it is."""
        nth = delivery.failures + 1
        return self.wait_s(nth) * (0.9 + 0.2 * crc32(f"{delivery.id}|{nth}".encode()) / 2**32)

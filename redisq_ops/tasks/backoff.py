"""How long a failed job waits for its next attempt."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import TypeAlias

from redisq_ops.core.model.errors import BadInput

Span: TypeAlias = float | timedelta
"""seconds, or a timedelta"""
Backoff: TypeAlias = Callable[[int], float] | Sequence[Span] | Span
"""a function of the number of failures (1 after the first) that returns seconds; a list of waits,
of which the last is repeated; or one wait"""


def seconds(span: Span, what: str) -> float:
    """A duration in seconds; raises `BadInput` for one that is negative or no number."""
    if isinstance(span, timedelta):
        span = span.total_seconds()
    if isinstance(span, bool) or not isinstance(span, (int, float)) or not 0 <= span < 10**11:
        raise BadInput(f"{what} is seconds from 0 on, or a timedelta, not {span!r}")
    return span


def exponential(first: Span, longest: Span) -> Callable[[int], float]:
    """Waits that double: ``first`` after the first failure, never more than ``longest``.

    >>> [exponential(5, 600)(failures) for failures in (1, 2, 3, 9)]
    [5, 10, 20, 600]
    """
    start, most = seconds(first, "first"), seconds(longest, "longest")
    return lambda failures: min(start * 2 ** min(failures - 1, 62), most)


def waits(backoff: Backoff) -> Callable[[int], float]:
    """A back-off as a function; raises `BadInput` for anything else."""
    if callable(backoff):
        return backoff
    listed = [backoff] if isinstance(backoff, (int, float, timedelta)) else list(backoff)
    if not listed:
        raise BadInput("backoff is an empty list: give at least one wait")
    spans = [seconds(span, "a wait of backoff") for span in listed]
    return lambda failures: spans[min(failures, len(spans)) - 1]

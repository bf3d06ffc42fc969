"""Trouble that several queues share: the same reasons, apart from the figures in them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Final, TypeAlias

from .finding import Severity, Trouble

Likeness: TypeAlias = tuple[tuple[Severity, str, str], ...]
"""severity, rule and words of each trouble; ``#`` stands for a figure"""

FOLDED_FROM: Final = 3
"""as many queues with the same trouble are one row, or one line"""
_NOT_OURS: Final = frozenset(
    {"unreadable", "paused", "draining", "unfinished", "resizing", "poison", "held", "stalled"}
)
"""rules whose reasons quote texts or names of others, in which digits are no figures"""
_PART: Final = re.compile(
    r"\b(?:by|client|request|mostly) \S+|(?<!\S)(\d[\d,]*)( [smhd])?(?=[\s,;]|$)"
)
"""a name, or a figure: a number or a duration"""
_UNIT_S: Final = {"": 1, " s": 1, " m": 60, " h": 3600, " d": 86_400}


@lru_cache(4096)  # every refresh asks again
def likeness(found: tuple[Trouble, ...]) -> Likeness:
    """What is the same for all queues that share this trouble: all of it, or, where some is
    critical, the critical part."""
    return tuple((one.severity, one.rule, _words(one.rule, one.reason)) for one in _shared(found))


def shared_trouble(alike: Sequence[Sequence[Trouble]]) -> tuple[Trouble, ...]:
    """The trouble of queues of one `likeness`, as of a single queue: with the entries of all, the
    longest duration, and each figure as a range."""
    return tuple(
        Trouble(
            same[0].severity,
            same[0].rule,
            _sentence(same),
            sum(one.work for one in same),
            max(one.for_ms for one in same),
        )
        for same in zip(*map(_shared, alike), strict=True)
    )


def has_more(found: Sequence[Trouble]) -> bool:
    """Whether a queue has trouble besides what it shares."""
    return len(_shared(found)) < len(found)


def _shared(found: Sequence[Trouble]) -> Sequence[Trouble]:
    return [one for one in found if one.severity is Severity.CRITICAL] or found


@lru_cache(1024)
def _words(rule: str, reason: str) -> str:
    if rule in _NOT_OURS:
        return reason
    return _PART.sub(lambda part: "#" if part[1] else part[0], reason)


def _sentence(same: Sequence[Trouble]) -> str:
    """Their reason, with a range for each figure that differs."""
    first = same[0]
    if first.rule in _NOT_OURS:
        return first.reason
    reasons = {one.reason for one in same}  # in an outage of all queues nearly all are the same
    ranges = map(_range, zip(*map(_figures, reasons), strict=True))
    return _PART.sub(lambda part: next(ranges) if part[1] else part[0], first.reason)


def _figures(reason: str) -> Iterator[tuple[int, str]]:
    """The figures in a reason: (number, unit)."""
    for part in _PART.finditer(reason):
        if part[1]:
            yield int(part[1].replace(",", "")), part[2] or ""


def _range(figures: Sequence[tuple[int, str]]) -> str:
    (low, unit), (high, last) = (
        which(figures, key=lambda one: one[0] * _UNIT_S[one[1]]) for which in (min, max)
    )
    if (low, unit) == (high, last):
        return f"{low:,}{unit}"
    return f"{low:,}{'' if unit == last else unit} to {high:,}{last}"

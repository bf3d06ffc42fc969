"""Parsers of replies."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..model.cut_element import name
from .operation import Call

_NEVER = 2**63
"""scores beyond this are no times"""


def words(reply: list[bytes]) -> list[str]:
    """Names as text; bytes that aren't UTF-8 become surrogates (see `quoting.text`)."""
    return [name(word) for word in reply]


def row_words(rows: int) -> Callable[[list[bytes]], list[str]]:
    """Makes a parser for a reply of one word per row, or of one word that is for all rows."""

    def read(reply: list[bytes]) -> list[str]:
        return words(reply) * (rows if len(reply) == 1 else 1)

    return read


def optional(reply: bytes | None) -> bytes | None:
    return reply


def integers(reply: list[bytes | None]) -> list[int]:
    """Values of counters; one that is missing is 0."""
    return [int(value or 0) for value in reply]


def number(reply: Any) -> float | None:
    return None if reply is None else float(reply)


def scores_of(key: str, members: Sequence[str]) -> Call[list[float | None]]:
    """The scores of members of a sorted set; None for each that isn't in it."""
    return Call(("ZMSCORE", key, *members), lambda reply: list(map(number, reply)), key=key)


def scored(key: str, *range_: str, cut: bool = False) -> Call[list[tuple[str, float]]]:
    def read(reply: list[Any]) -> list[tuple[str, float]]:
        return [(name(member), score) for member, score in pairs(reply)]

    return Call(("ZRANGE", key, *range_, "WITHSCORES"), read, key=key, cut=cut)


def pairs(reply: list[Any]) -> list[tuple[bytes, float]]:
    """Members and scores."""
    if reply and isinstance(reply[0], list):  # RESP3 nests the pairs, RESP2 doesn't
        return [(member, float(score)) for member, score in reply]
    return [(reply[i], float(reply[i + 1])) for i in range(0, len(reply), 2)]


def moment(score: float | None) -> int | None:
    """A score as a time in whole ms; None where it is no time (infinite, or beyond 2**63)."""
    return None if score is None or not -_NEVER < score < _NEVER else int(score)


def spelt(score: float) -> str:
    """A score as text that is read back exactly, for cursors and bounds of ranges."""
    return f"{score:.17g}"

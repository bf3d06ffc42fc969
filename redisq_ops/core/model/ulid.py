"""ULIDs: names of 26 characters that sort by the time at which they were made."""

from __future__ import annotations

import secrets
from collections.abc import Callable

from .clock import wall_ms

_CROCKFORD = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"


def ulids(
    n: int,
    now_ms: Callable[[], int] = wall_ms,
    bits: Callable[[int], int] = secrets.randbits,
) -> list[str]:
    """``n`` new ids, each greater than the one before: 48 bits of ms, then 80 bits that begin at
    random and are counted up.

    The time is this machine's. It only makes names sort: nothing compares it with other times.
    """
    first = (now_ms() << 80) + bits(80)
    return [_text(first + k) for k in range(n)]


def ulid() -> str:
    """A new id."""
    return ulids(1)[0]


def _text(number: int) -> str:
    return "".join(_CROCKFORD[number >> shift & 31] for shift in range(125, -1, -5))

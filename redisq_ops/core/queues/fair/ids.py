"""Ids for entries whose producer gives none: time first, in a ULID's alphabet and length."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable

_ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"


def new_ids(
    n: int,
    now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    bits: Callable[[int], int] = secrets.randbits,
) -> list[str]:
    """``n`` new ids, each greater than the one before: 48 bits of time, 80 of chance, counted on.

    The time is this machine's and only a name: nothing compares it with anything.
    """
    first = (now_ms() % (1 << 48) << 80) + bits(79)
    return [_spelt(first + k) for k in range(n)]


def _spelt(number: int) -> str:
    return "".join(_ALPHABET[number >> shift & 31] for shift in range(125, -1, -5))

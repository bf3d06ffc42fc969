"""What producers hand in, looked at before anything of it is sent.

A text for bytes would be stored as something else than it is read as, and a generator that is
looked through twice is empty the second time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from .errors import BadInput, TooLarge
from .keys import checked_name

PAYLOAD = "a payload (bytes)"
PAIR = "(id, payload), str and bytes,"


def listed(given: Any, what: str) -> list[Any]:
    """All of it; one text, and what else is no collection of ``what``, is refused."""
    single = isinstance(given, (str, bytes, bytearray, memoryview, Mapping))
    if single or not isinstance(given, Iterable):
        raise BadInput(f"{what} are given as a list, not as {type(given).__name__}")
    return list(given)


def pair(given: Any, nth: int, wanted: str = PAIR) -> tuple[str, bytes]:
    """The ``nth`` of what was given, which has to be an id and a payload."""
    match given:
        case (str(id), bytes(payload)):
            return id, payload
    raise mistaken(given, nth, wanted)


def pairs(given: Iterable[tuple[str, bytes]], what: str) -> list[tuple[str, bytes]]:
    return [pair(each, nth) for nth, each in enumerate(listed(given, what), 1)]


def mistaken(given: Any, nth: int, wanted: str) -> BadInput:
    """The error for something of another type; not a word of it: it may be a payload."""
    inside = isinstance(given, (tuple, list)) and len(given) < 5
    is_ = f"({', '.join(type(x).__name__ for x in given)})" if inside else type(given).__name__
    return BadInput(f"entry {nth} is {is_}, where {wanted} belongs")


def checked_pairs(rows: Sequence[tuple[str, bytes]], what: str, most: int) -> None:
    """Ids that can be used, payloads within the limit."""
    for id, payload in rows:
        checked_name(id, f"{what} id")
        checked_size(id, payload, most, what)


def checked_size(id: str, payload: bytes, most: int, what: str = "entry") -> None:
    if not isinstance(payload, bytes):
        raise BadInput(f"{what} {id}: its payload must be bytes, not {type(payload).__name__}")
    if len(payload) > most:
        raise TooLarge(f"{what} {id} has {len(payload):,} bytes, over {most:,}")

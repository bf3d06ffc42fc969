"""Where a stream begins: the option ``startingOffsets``, for all queues or queue by queue.

A *position* is ``earliest``, ``latest``, a time (ms UTC), or the offset of a stream as its progress
and checkpoint have it. Keys are ``queue/shard``, ``queue`` or ``*`` (all others); the most specific
one applies.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, TypedDict

from .history_ranges import is_event_id


class Offset(TypedDict):
    """The position of a stream in one shard's history."""

    id: str
    seen: int


StartPosition = str | int | Offset
OTHERS = "*"


def decode_positions(text: str, moment: Any) -> dict[str, StartPosition]:
    """Positions from the value of the option; ``moment`` reads a time. Raises ValueError."""
    if not text.lstrip().startswith("{"):
        return {OTHERS: _position(text, moment)}
    found = json.loads(text)
    try:
        return {name: _position(value, moment) for name, value in found.items()}
    except (TypeError, AttributeError) as error:
        raise ValueError("expected positions by queue or queue/shard") from error


def _position(value: Any, moment: Any) -> StartPosition:
    if isinstance(value, str):
        word = value.strip().lower()
        if word in ("earliest", "latest"):
            return word
        try:
            ms: int = moment(value.strip())
        except ValueError as error:
            raise ValueError(f"{value!r}: expected earliest, latest or a time ({error})") from error
        return ms
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    if isinstance(value, dict) and value.keys() == {"id", "seen"}:
        id, seen = value["id"], value["seen"]
        whole = isinstance(seen, int) and not isinstance(seen, bool) and seen >= 0
        if isinstance(id, str) and is_event_id(id) and whole:
            return {"id": id, "seen": seen}
    raise ValueError(f"{value!r}: expected earliest, latest, a time or an offset with id and seen")


def position_of(positions: Mapping[str, StartPosition], queue: str, shard: int) -> StartPosition:
    """The position of one shard."""
    for name in (f"{queue}/{shard}", queue, OTHERS):
        if name in positions:
            return positions[name]
    return "earliest"

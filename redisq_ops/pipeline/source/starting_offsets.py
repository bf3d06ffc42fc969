"""Where a stream begins: the option ``startingOffsets``, for all queues or queue by queue.

A *position* is ``earliest``, ``latest``, a time (ms UTC), or an offset as in a stream's progress
and checkpoint. Keys are ``queue/shard``, ``queue`` or ``*`` (all others); the most specific key
applies.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypedDict

from redisq_ops.core.model.errors import BadInput
from redisq_ops.ops.typed_json import json_object, typed

from .history_ranges import is_count, is_event_id


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
    try:
        found = json_object(text)
    except BadInput as error:
        raise ValueError("expected positions by queue or queue/shard") from error
    return {name: _position(value, moment) for name, value in found.items()}


def checked_offsets(found: Any) -> dict[str, Offset]:
    """The offsets of a checkpoint, by ``queue/shard``; `BadInput` if no stream wrote them so."""
    try:
        offsets: dict[str, Offset] = typed(dict[str, Offset], found, "offset")
        for name, offset in offsets.items():
            queue, _, shard = name.rpartition("/")
            if not (queue and shard.isascii() and shard.isdecimal() and len(shard) < 10):
                raise BadInput(f"{name[:80]!r} is no queue/shard")
            if not (is_event_id(offset["id"]) and is_count(offset["seen"])):
                raise BadInput(f"{name[:80]}: expected an event's id and the number seen")
    except BadInput as error:
        raise BadInput(
            f"the stream's checkpoint is damaged: {error}; restore it, or start with a new "
            "checkpoint and startingOffsets"
        ) from error
    return offsets


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
    if is_count(value):
        return int(value)
    if isinstance(value, dict) and value.keys() == {"id", "seen"}:
        id, seen = value["id"], value["seen"]
        if isinstance(id, str) and is_event_id(id) and is_count(seen):
            return {"id": id, "seen": seen}
    raise ValueError(f"{value!r}: expected earliest, latest, a time or an offset with id and seen")


def position_of(positions: Mapping[str, StartPosition], queue: str, shard: int) -> StartPosition:
    """The position of one shard."""
    names = (f"{queue}/{shard}", queue, OTHERS)
    return next((positions[name] for name in names if name in positions), "earliest")

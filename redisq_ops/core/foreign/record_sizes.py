"""`Sizes` of a place whose entries have their records in other keys."""

from __future__ import annotations

from collections.abc import Sequence

from ..model.quoting import bytes_of
from ..redis.operation import Call, together
from .places import Place, Row, Sizes


def field_sizes(key: str) -> Sizes:
    """Sizes of the fields of a hash whose names are the elements."""

    async def sizes(place: Place, rows: Sequence[Row], /) -> Sequence[int]:
        return await together(Call(("HSTRLEN", key, row.member), int, key=key) for row in rows)

    return sizes


def string_sizes(begin: str) -> Sizes:
    """Sizes of the strings whose keys are ``begin`` and the element; 0 where there is no string."""

    async def sizes(place: Place, rows: Sequence[Row], /) -> Sequence[int]:
        keys = [bytes_of(begin) + row.member for row in rows]
        return await together(
            Call(("STRLEN", key), lambda reply: reply or 0, key=key, absent="WRONGTYPE")
            for key in keys
        )

    return sizes

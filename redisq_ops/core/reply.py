"""How replies are read."""

from __future__ import annotations

from typing import Any

from .io import Call


def words(reply: list[bytes]) -> list[str]:
    return [word.decode() for word in reply]


def number(reply: Any) -> float | None:
    return None if reply is None else float(reply)


def scored(key: str, *range_: str) -> Call[list[tuple[str, float]]]:
    return Call(("ZRANGE", key, *range_, "WITHSCORES"), _pairs, key=key)


def _pairs(reply: list[Any]) -> list[tuple[str, float]]:
    if reply and isinstance(reply[0], list):  # RESP3 nests the pairs, RESP2 doesn't
        return [(member.decode(), float(score)) for member, score in reply]
    return [(reply[i].decode(), float(reply[i + 1])) for i in range(0, len(reply), 2)]


async def members(key: str, page: int = 1000) -> list[str]:
    """All members of a sorted set in its order, by pages; for audits."""
    found: list[str] = []
    while True:
        rows = await scored(key, str(len(found)), str(len(found) + page - 1))
        found += [member for member, _ in rows]
        if len(rows) < page:
            return found

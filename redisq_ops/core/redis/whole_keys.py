"""Reads of whole keys, by pages of 1,000; what changes meanwhile may be in them or not."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from ..model.cut_element import name
from .operation import Call, Description, together
from .parsers import scored, words

PAGE = 1000


async def fields(key: str) -> dict[str, bytes]:
    """The fields of a hash."""
    found: dict[str, bytes] = {}
    cursor = 0
    while True:
        cursor, rows = await Call(("HSCAN", key, cursor, "COUNT", PAGE), tuple[int, Any], key=key)
        pairs = rows.items() if isinstance(rows, dict) else zip(rows[::2], rows[1::2], strict=True)
        found |= {name(field): value for field, value in pairs}
        if not cursor:
            return found


async def set_members(key: str | bytes) -> list[bytes]:
    """The members of a set."""
    found: list[bytes] = []
    cursor = 0
    while True:
        command = ("SSCAN", key, cursor, "COUNT", PAGE)
        cursor, part = await Call(command, tuple[int, Any], key=key, cut=True)
        found += part
        if not cursor:
            return list(dict.fromkeys(found))


async def scores(key: str, cut: bool = False) -> list[tuple[str, float]]:
    """The members of a sorted set with their scores, in its order. ``cut``: as of `Call`."""
    found: list[tuple[str, float]] = []
    while True:
        rows = await scored(key, str(len(found)), str(len(found) + PAGE - 1), cut=cut)
        found += rows
        if len(rows) < PAGE:
            return found


async def members(key: str, cut: bool = False) -> list[str]:
    """The members of a sorted set, in its order."""
    return [member for member, _ in await scores(key, cut)]


async def elements(key: str) -> list[str]:
    """The elements of a list."""
    found: list[str] = []
    while True:
        rows = await Call(("LRANGE", key, len(found), len(found) + PAGE - 1), words, key=key)
        found += rows
        if len(rows) < PAGE:
            return found


def strings(keys: Sequence[bytes], one_slot: bool = False) -> Description[list[bytes | None]]:
    """The value of each key, None where there is no string. ``one_slot``: no Cluster has them in
    several slots, so one command asks for all."""
    if one_slot and keys:
        return Call(("MGET", *keys), list[bytes | None], key=keys[0], cut=True)
    return together(Call(("MGET", key), lambda reply: reply[0], key=key, cut=True) for key in keys)


def has_type(key: str | bytes, type_: str) -> Call[bool]:
    """Whether the key is there, and of this type."""
    return Call(("TYPE", key), lambda reply: bytes(reply) == type_.encode(), key=key)


async def types_of(keys: Iterable[str]) -> dict[str, str]:
    """Key -> its type; ``none`` where there is no such key."""
    names = list(keys)
    found = await together(Call(("TYPE", key), bytes.decode, key=key) for key in names)
    return dict(zip(names, found, strict=True))

"""A plain stream is a queue if it has consumer groups."""

from __future__ import annotations

from typing import ClassVar

from ...redis.key_scan import Lane
from ..recogniser import Find, KeyLook, Recogniser
from .groups import groups


class StreamRecogniser(Recogniser):
    lanes: ClassVar[tuple[Lane, ...]] = (Lane("stream"),)

    def __init__(self) -> None:
        self._keys: set[bytes] = set()

    async def by_content(self, look: KeyLook) -> bool:
        if look.type != "stream" or not await group_names(look):
            return False
        self._keys.add(look.key)
        return True

    async def finds(self) -> list[Find]:
        return [Find("stream", key, key, by_content=True) for key in self._keys]


async def group_names(look: KeyLook) -> frozenset[bytes]:
    """The names of a stream's consumer groups."""

    async def read() -> frozenset[bytes]:
        return frozenset(group.name for group in await groups(look.key))

    names: frozenset[bytes] = await look.once("groups", read)
    return names

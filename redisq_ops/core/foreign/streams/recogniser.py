"""A plain stream is a queue if it has consumer groups."""

from __future__ import annotations

from typing import ClassVar

from ...redis.key_scan import Lane
from ..recogniser import KeyLook, SingleKeys
from .groups import groups


class StreamRecogniser(SingleKeys):
    kind: ClassVar[str] = "stream"
    lanes: ClassVar[tuple[Lane, ...]] = (Lane("stream"),)

    async def is_queue(self, look: KeyLook) -> bool:
        return bool(await group_names(look))


async def group_names(look: KeyLook) -> frozenset[bytes]:
    """The names of a stream's consumer groups."""

    async def read() -> frozenset[bytes]:
        return frozenset(group.name for group in await groups(look.key))

    names: frozenset[bytes] = await look.once("groups", read)
    return names

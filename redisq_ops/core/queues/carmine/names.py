"""Which queue owns a name in Carmine's keys.

Carmine knows no shards: to it each shard of ours is a queue by itself. So a queue may already
have the name that a shard needs, and the other way round.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...engine.registry import find
from ...redis.operation import Call, together
from .keys import CarmineKeys, called, shard_of


async def begun(places: Sequence[CarmineKeys]) -> list[bool]:
    """Whether Carmine's keys exist, for each of the key sets."""
    keys = [place[part] for place in places for part in ("messages", "circle")]
    found = await together(Call(("EXISTS", key), bool, key=key) for key in keys)
    return [any(found[i : i + 2]) for i in range(0, len(found), 2)]


async def taken(places: Sequence[CarmineKeys], prefix: str) -> str:
    """Why a queue can't get shards at these places, in words; empty: it can."""
    there, entries = await together(
        begun(places), together(find(called(place.own), prefix) for place in places)
    )
    found = zip(places, there, entries, strict=True)
    own = next((place.own for place, keys, entry in found if keys or entry is not None), "")
    return own and f"can't have a shard that Carmine calls {own}: that is a queue by itself"


async def whole_of(own: str, prefix: str) -> str:
    """The queue of ours that has a shard of this name in Carmine's keys; empty: none."""
    if (place := shard_of(own)) is None:
        return ""
    entry = await find(called(place[0]), prefix)
    there = entry is not None and entry.at is None and entry.all_shards > place[1]
    return entry.name if entry is not None and there else ""


async def in_the_way(first: CarmineKeys, others: Sequence[CarmineKeys], prefix: str) -> str:
    """Why a new queue can't have its keys at these places, in words; empty: it can."""
    whole, replies = await together(whole_of(first.own, prefix), taken(others, prefix))
    return f"would have the keys of a shard of queue {whole}" if whole else replies

"""Queues of ours by their registration marks alone, for when the registry has no entry of them."""

from __future__ import annotations

from collections.abc import Sequence

from ..model.errors import BadInput
from ..model.keys import PREFIX, Keys
from .queue_classes import queue_class
from .queue_types import KINDS
from .registry import Registered, read_mark

ShardName = tuple[str, int]
"""a queue's name, and the number of a shard of it"""


def settings_owners(key: bytes, prefix: str = PREFIX) -> list[ShardName]:
    """The queues that may have their settings in this key."""
    try:
        name = key.decode()
    except UnicodeDecodeError:
        return []
    classes = dict.fromkeys(made.keys_class for kind in KINDS if (made := queue_class(kind)))
    return list(dict.fromkeys(each for one in classes for each in one.owners(name, "cfg", prefix)))


def marked_by(places: Sequence[ShardName], mark: bytes | None) -> Registered | None:
    """The entry that a mark stands for, found in the settings of one of ``places``: of the first
    place whose shard number fits the entry's number of shards, else of the last place."""
    entries = [(Registered.marked(name, mark), shard) for name, shard in places]
    known = [(each, shard) for each, shard in entries if each is not None and each.kind in KINDS]
    for each, shard in known:
        if shard < each.all_shards:
            return each
    return known[-1][0] if known else None


async def marked(name: str, prefix: str = PREFIX, shard: int = 0) -> Registered | None:
    """The entry that the mark of a queue's shard stands for; None: there is no mark, or no queue of
    ours can have this name."""
    owner, colon, _ = name.partition(":")
    made = queue_class(owner) if colon and owner in KINDS else None
    try:
        keys = (made.keys_class if made else Keys)(name, prefix, shard)
    except BadInput:
        return None
    return marked_by([(name, shard)], await read_mark(keys))

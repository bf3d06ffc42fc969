"""Queues of ours that have keys and no entry in the registry: a server lost the registry alone, or
somebody removed the entry. A queue in use registers itself again; this finds the others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from redisq_ops.core.engine.registration_marks import marked_by, settings_owners
from redisq_ops.core.engine.registry import Registered, all_queues, read_mark
from redisq_ops.core.model.errors import Forbidden, Unreachable
from redisq_ops.core.model.keys import GivenKeys
from redisq_ops.core.model.quoting import bytes_of
from redisq_ops.core.redis.key_scan import Lane, literal, look
from redisq_ops.core.redis.operation import apart, together

from .deployment import Deployment
from .hint import hint

BRIEF: Final = 20_000
"""keys that a command searches if it runs often"""
ALL: Final = 10**12


@dataclass(frozen=True, slots=True)
class UnregisteredQueues:
    """The entries that the registry lacks, and what was not searched."""

    entries: tuple[Registered, ...] = ()
    unseen: str | None = None
    searched: bool = True
    """False: nothing could be read, and ``unseen`` says why"""


async def unregistered(deployment: Deployment, most: int = ALL) -> UnregisteredQueues:
    """The queues among about the first ``most`` keys of the server, by name."""
    prefix = deployment.prefix
    settings = Lane("hash", bytes_of(f"{literal(prefix)}:*:cfg"))
    seen = await apart(together(look(deployment.client, [settings], most), all_queues(prefix)))
    if isinstance(seen, (Forbidden, Unreachable)):
        return UnregisteredQueues((), str(seen), searched=False)
    if isinstance(seen, Exception):
        raise seen
    (keys, unseen), entries = seen
    known = {entry.name for entry in entries}
    owners = {key: places for key in keys if (places := settings_owners(key, prefix))}
    lost = [key for key, places in owners.items() if not known.issuperset(dict(places))]
    marks = await together(read_mark(GivenKeys(cfg=key.decode())) for key in lost)
    found: dict[str, Registered] = {}
    for key, mark in zip(lost, marks, strict=True):
        entry = marked_by(owners[key], mark)
        if entry is not None and entry.name not in known:
            found[entry.name] = max(found.get(entry.name, entry), entry, key=lambda one: one.layout)
    return UnregisteredQueues(tuple(found[name] for name in sorted(found)), unseen)


def sentence(entry: Registered) -> str:
    """A sentence about an unregistered queue, with the command that adds it again."""
    return (
        f"queue {entry.name} has keys and no entry in the registry, so nothing shows it: "
        f"{hint('discover', register=None)} adds it again"
    )

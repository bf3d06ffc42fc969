"""Queues of ours that have keys and no entry in the registry: a server lost the registry alone, or
somebody removed the entry. A queue in use registers itself again; this finds the others."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from redisq_ops.core.engine.queue_types import KINDS
from redisq_ops.core.engine.registry import Registered, all_queues, read_mark
from redisq_ops.core.model.errors import Forbidden, Unreachable
from redisq_ops.core.model.keys import Keys
from redisq_ops.core.model.quoting import bytes_of, text
from redisq_ops.core.redis.key_scan import Lane, literal, look
from redisq_ops.core.redis.operation import apart, both, together

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


async def unregistered(deployment: Deployment, most: int = ALL) -> UnregisteredQueues:
    """The queues among about the first ``most`` keys of the server, by name."""
    prefix = deployment.prefix
    settings = Lane("hash", bytes_of(f"{literal(prefix)}:{{*}}:cfg"))
    seen = await apart(both(look(deployment.client, [settings], most), all_queues(prefix)))
    if isinstance(seen, (Forbidden, Unreachable)):
        return UnregisteredQueues((), str(seen))
    if isinstance(seen, Exception):
        raise seen
    (keys, unseen), entries = seen
    key_name = re.compile(rf"{re.escape(prefix)}:{{([^{{}}/]+)(/\d+)?}}:cfg")
    matches = [match for key in keys if (match := key_name.fullmatch(text(key)))]
    known = {entry.name for entry in entries}
    tags = [(m[1], Keys(m[1] + (m[2] or ""), prefix)) for m in matches if m[1] not in known]
    marks = await together(read_mark(each) for _, each in tags)
    found: dict[str, Registered] = {}
    for (name, _), mark in zip(tags, marks, strict=True):
        entry = Registered.marked(name, mark)
        if entry is not None and entry.kind in KINDS:
            found[name] = max(found.get(name, entry), entry, key=lambda one: one.layout)
    return UnregisteredQueues(tuple(found[name] for name in sorted(found)), unseen)


def sentence(entry: Registered) -> str:
    """What is wrong with one, and what helps."""
    return (
        f"queue {entry.name} has keys and no entry in the registry, so nothing shows it: "
        f"{hint('discover', register=None)} adds it again"
    )

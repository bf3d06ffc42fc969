"""How queues of BullMQ are recognised: each has a hash with its version or its limit of events."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, ClassVar

from ...redis.key_scan import Lane
from ...redis.operation import Call
from ..recogniser import KeyLook, NamedQueues

OF_A_QUEUE = (
    rb"wait|paused|active|prioritized|delayed|waiting-children|completed|failed|stalled|marker"
    rb"|repeat|priority"
)
"""what follows the name of a queue in the keys of its lists and sets; before 4 `priority` orders
the jobs in `wait`"""
_OTHER = re.compile(rb"bull:[^:]+:(?!(?:" + OF_A_QUEUE + rb")\Z)[^:]+", re.DOTALL)
_META = re.compile(rb"(.+:)([^:]+):meta", re.DOTALL)
MARKS = ("version", "opts.maxLenEvents")
"""what BullMQ writes into a queue's `meta`"""


def is_marked(values: Sequence[Any]) -> bool:
    """Whether BullMQ wrote these `MARKS`."""
    version, events = values
    return (version or b"").startswith(b"bullmq") or (events or b"").isdigit()


class BullmqRecogniser(NamedQueues):
    kind: ClassVar[str] = "bullmq"
    owner: ClassVar[str] = "BullMQ"
    lanes: ClassVar[tuple[Lane, ...]] = (Lane("hash", b"*:meta"), Lane("zset"), Lane("list"))

    async def by_name(self, look: KeyLook) -> bool:
        if look.type in ("zset", "list"):
            if _OTHER.fullmatch(look.key):
                self.keep(self.others, look.key)
            return False
        found = _META.fullmatch(look.key)
        if look.type != "hash" or not found:
            return False
        if not await Call(("HMGET", look.key, *MARKS), is_marked, key=look.key):
            return False
        self.queues.add((found[1], found[2]))
        return True

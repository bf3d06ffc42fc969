"""How queues of Bull are recognised: by a counter of jobs, without the marks of BullMQ, whose keys
have the same names."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any, ClassVar

from ...redis.key_scan import Lane
from ...redis.operation import Call, apart, together
from ..bullmq.recogniser import MARKS, is_marked
from ..recogniser import KeyLook, NamedQueues

_LISTS, _ZSETS = rb"wait|paused|active", rb"delayed|completed|failed|priority|repeat"
OF_A_QUEUE = _LISTS + rb"|" + _ZSETS + rb"|stalled"
"""what follows the name of a queue in the keys of its lists and sets"""
_KEYS = {
    type: re.compile(rb"(.+):(?:" + parts + rb")", re.DOTALL)
    for type, parts in (("list", _LISTS), ("zset", _ZSETS), ("string", rb"id"))
}
_OTHER = re.compile(rb"bull:[^:]+:[^:]+", re.DOTALL)
_USUAL = b"bull:"
_OF_A_JOB = ("name", "opts", "timestamp", "delay")
_UNSURE = "named as those of Bull and BullMQ, and nothing tells which of them has the queue"


class BullRecogniser(NamedQueues):
    kind: ClassVar[str] = "bull"
    owner: ClassVar[str] = "Bull"
    lanes: ClassVar[tuple[Lane, ...]] = (Lane("zset"), Lane("list"), Lane("string", b"bull:*:id"))

    def __init__(self) -> None:
        super().__init__()
        self._unsure: set[bytes] = set()

    async def by_name(self, look: KeyLook) -> bool:
        found = _KEYS[look.type].fullmatch(look.key) if look.type in _KEYS else None
        if not found:
            if look.type in ("list", "zset") and _OTHER.fullmatch(look.key):
                self.keep(self.others, look.key)
            return False
        queue, usual = found[1], found[1].startswith(_USUAL)
        if (parts := _parts(queue)) in self.queues:
            return True
        if not usual and (look.type == "string" or not await self._has_job(queue, look)):
            return False
        bulls = await _is_bulls(queue)
        if bulls:
            self.queues.add(parts)
        elif bulls is None and usual:
            self.keep(self._unsure, look.key)
        return bulls or (bulls is None and usual)

    @staticmethod
    async def _has_job(queue: bytes, look: KeyLook) -> bool:
        """For a prefix that isn't the usual one: whether the first element is the id of one of
        Bull's jobs."""
        if b":" not in queue or not (id := await look.first()):
            return False
        job = queue + b":" + id
        values = await apart(Call(("HMGET", job, *_OF_A_JOB), list[Any], key=job))
        return isinstance(values, list) and all(value is not None for value in values)

    def owns(self, key: bytes) -> bool:
        return key in self._unsure or super().owns(key)

    def unread(self) -> Mapping[str, Collection[bytes]]:
        return {**super().unread(), _UNSURE: self._unsure}


async def _is_bulls(queue: bytes) -> bool | None:
    """True: there is a counter of jobs, and neither the marks nor the events of BullMQ. False: it
    has BullMQ's marks. None: nothing tells, or it can't be read."""
    meta, id, events = queue + b":meta", queue + b":id", queue + b":events"
    marked, count, stream = await together(
        [
            apart(Call(("HMGET", meta, *MARKS), is_marked, key=meta)),
            apart(Call(("GETRANGE", id, 0, 20), bytes, key=id)),
            apart(Call(("EXISTS", events), bool, key=events)),
        ]
    )
    if marked is True:
        return False
    counts = isinstance(count, bytes) and count.isdigit()
    return True if counts and marked is False and stream is False else None


def _parts(queue: bytes) -> tuple[bytes, bytes]:
    """What the keys of a queue begin with, and its name, which may have colons where the prefix is
    the usual one."""
    at = _USUAL if queue.startswith(_USUAL) else queue[: queue.rfind(b":") + 1]
    return at, queue.removeprefix(at)

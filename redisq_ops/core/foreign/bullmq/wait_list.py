"""BullMQ's lists of waiting jobs. Before release 5 one can have a mark that wakes workers."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ...redis.operation import Call, both
from ...redis.parsers import optional
from ..list_place import ListPlace
from ..places import LocatedEntry

_MARK = re.compile(rb"0:\d+")


def is_mark(element: bytes) -> bool:
    """Whether an element is the mark, ``0:`` and the time of the next delayed job, and no job."""
    return _MARK.fullmatch(element) is not None


@dataclass(frozen=True, slots=True)
class WaitList(ListPlace):
    """A list whose next element, on the right, may be the mark. BullMQ too looks for it only
    there."""

    async def count(self) -> int:
        last = Call(("LINDEX", self.key, -1), optional, key=self.key)
        size, next_ = await both(self.size(), last)
        return size - is_mark(next_ or b"")

    async def window(self, start: int, max: int) -> tuple[list[LocatedEntry], int]:
        (found, _), size = await both(ListPlace.window(self, start, max), self.count())
        return found, size

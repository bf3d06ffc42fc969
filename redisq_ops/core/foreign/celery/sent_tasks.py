"""Tasks that wait in a queue, or that workers hold unacknowledged: sending one again would run it
twice."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from ...engine.state_scan import ScoreRange, spelt
from ...engine.state_scan import page as zset_page
from ...model.cut_element import is_cut, length
from ...redis.operation import Call, together
from ..places import Place
from .task import Delivered, Task

PAGE = 500
MOST = 1 << 27
"""bytes of messages that one look reads before a change"""
GLANCE = 1 << 20
"""the same for an explanation, at each of its refreshes; the change looks again"""
SLACK_S = 60
"""seconds by which the clocks of workers may differ"""


@dataclass(slots=True)
class SentTasks:
    """The tasks of a queue that were sent and haven't ended.

    A further look reads only what came since: new messages come on the left of a list, and
    ``unacked_index`` has the times at which workers got theirs.
    """

    ids: set[str] = field(default_factory=set)
    complete: bool = True
    """False: they were too many, or too long, to read all of them"""
    made: dict[bytes, str] = field(default_factory=dict)
    """messages of the latest step -> their ids: the next look meets them, and needn't parse them"""
    _latest: dict[str, bytes] = field(default_factory=dict)
    """of each list the message that came last"""
    _came: dict[str, int] = field(default_factory=dict)
    """of each list how many messages came between the last two looks"""
    _since_s: float | None = None
    _left: int = 0

    async def look(self, lists: Sequence[Place], held: Place, index: str, *, glance: bool) -> None:
        """Messages go from the lists to ``held``, the hash ``unacked``, and some come back: so it
        is read before the lists and after them."""
        self._left = GLANCE if glance else MOST
        held, *lists = await together(place.weighed() for place in (held, *lists))
        await self._look_at_held(held, index)
        await together(map(self._look_at_list, lists))
        await self._look_at_held(held, index)
        self.made.clear()

    async def _look_at_list(self, place: Place) -> None:
        latest, start = self._latest.get(place.key), 0
        most = place.few(min(PAGE, 2 * self._came.get(place.key, PAGE) + 10)) or 1
        while self.complete:
            ask = ("LRANGE", place.key, start, start + most - 1)
            page = await Call(ask, list[bytes], key=place.key, cut=True)
            if page and not start:
                self._latest[place.key] = page[0]
            new = page[: page.index(latest)] if latest in page else page
            if self._read(new):
                ids = (self.made.get(data) or Task.read(data).id for data in new)
                self.ids.update(filter(None, ids))
            self._came[place.key] = start + len(new)
            if len(new) < most:
                return
            start += most

    async def _look_at_held(self, held: Place, index: str) -> None:
        since = None if self._since_s is None else spelt((self._since_s - SLACK_S, b""))
        cursor, more = None, True
        while more and self.complete:
            rows, cursor, _ = await zset_page(index, ScoreRange(since), cursor, held.few(PAGE) or 1)
            more = cursor is not None
            if not rows:
                return
            self._since_s = rows[-1][0]
            tags = [tag for _, tag in rows]
            ask = Call(("HMGET", held.key, *tags), list[bytes | None], key=held.key, cut=True)
            found = [data for data in await ask if data is not None]
            if self._read(found):
                self.ids.update(id for data in found if (id := Delivered.read(data).task.id))

    def _read(self, messages: Sequence[bytes]) -> bool:
        """Whether these messages can be read as well."""
        self._left -= sum(map(length, messages))
        if self._left < 0 or any(map(is_cut, messages)):
            self.complete = False
        return self.complete

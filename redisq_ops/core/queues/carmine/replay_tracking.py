"""Follows replayed messages, whose ids may get newer content at any time.

When a message dies while newer content waits for its id, the id waits again at once and may be done
at the next read. Then only the history shows that the message died.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...engine.replay_tracking import ReplayTracker
from ...redis.operation import together

if TYPE_CHECKING:
    from ...model.entry import Entry
    from .queue import CarmineQueue

EVENTS = 500
"""history events of a shard that one call reads"""
READS = 10
"""calls of one `look`; while there is more to read, no message counts as succeeded"""


class CarmineReplayTracker(ReplayTracker):
    """Follows replayed messages by their ids, and reads deaths from the history."""

    _queue: CarmineQueue[Any]

    def __init__(self, queue: CarmineQueue[Any]) -> None:
        super().__init__(queue)
        self._heard: dict[str, str] = {}
        """history key -> id of the last event read"""
        self._deaths: dict[str, int] = {}
        """followed id -> time of its last death"""
        self._behind = False

    async def begin(self) -> None:
        leaves = self._queue.shard_queues
        found = await together(leaf.history_extent.op() for leaf in leaves)
        for leaf, reach in zip(leaves, found, strict=True):
            self._heard[leaf.keys["hist"]] = reach.last

    def forget(self) -> None:
        super().forget()
        self._deaths.clear()

    async def _read_history(self) -> None:
        for _ in range(READS):
            leaves = {leaf.keys["hist"]: leaf for leaf in self._queue.shard_queues}
            pages = await together(
                leaf.history_range.op(self._heard.get(key, "0-0"), "+", EVENTS)
                for key, leaf in leaves.items()
            )
            for key, page in zip(leaves, pages, strict=True):
                for event, what in page:
                    self._heard[key] = event.decode()
                    self._note(what)
            self._behind = any(len(page) == EVENTS for page in pages)
            if not self._behind:
                return

    def _note(self, what: dict[bytes, bytes]) -> None:
        for item in what.get(b"dead", b"").decode(errors="replace").split():
            id = item.partition("|")[0]
            if id in self._since:
                self._deaths[id] = int(what[b"t"])

    def _end(self, id: str, entry: Entry | None) -> bool | None:
        since_ms, died_ms = self._since[id], self._deaths.pop(id, None)
        died = super()._end(id, entry)
        if died_ms is not None and died_ms >= since_ms:
            self._since.pop(id, None)
            self._failing.discard(id)
            return True
        if died is False and self._behind:  # the death may be in events that aren't read yet
            self._since[id] = since_ms
            return None
        return died

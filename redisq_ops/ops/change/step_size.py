"""How many entries the next step of a change handles, adapted to how fast the server answers."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from redisq_ops.core.engine.queue import Queue
from redisq_ops.core.model.settings import MAX_BATCH

FIRST = 50
"""entries of the first step at most"""
LEAST_S = 0.000_01
"""seconds of the server's time that an entry is assumed to take at least where each is moved by its
id; measured: 10 to 18 µs"""
STEP_S = 0.0005
"""seconds that a step may keep the server busy: other clients wait for its end"""
LARGEST = 120
"""entries of a whole state that a step moves at most: two of them fit into a call of an undo"""
LATEST = 8
"""latest steps that set the size, if the cost of their entries may differ"""


class Stride:
    """The size of the next step: its call should keep the server busy for ``step_s``.

    The second quickest of the latest few steps sets it. Slower ones were held up by other work on
    the machine: on a busy machine most are, and smaller steps would only add more calls.
    """

    def __init__(
        self,
        size: int = FIRST,
        *,
        largest: int = MAX_BATCH,
        step_s: float = STEP_S,
        least_s: float = LEAST_S,
        latest: int = LATEST,
        probes: int = 1,
    ) -> None:
        """``largest``: entries of a step at most. ``least_s``: seconds that an entry is assumed to
        take at least; ``latest``: number of steps that set the size; ``probes``: empty calls by
        which the round trip is measured."""
        self.size = min(size, largest)
        self.largest, self.step_s = largest, step_s
        self._least_s, self._probes = least_s, probes
        self._per_entry_s: deque[float] = deque(maxlen=latest)
        self.round_trip_s = 0.0
        """seconds of an empty call; subtracted, because a distant server is not a slow one"""

    @classmethod
    def of_whole_state(cls, size: int = FIRST) -> Stride:
        """For steps over a whole state: all cost about the same per entry, and far less than
        entries that are moved by their ids."""
        # A single slow probe would make every step seem short.
        return cls(size, largest=LARGEST, least_s=0.0, latest=20, probes=3)

    async def measure(self, queue: Queue[Any], clock: Callable[[], float]) -> None:
        """Measure the round trip, before the first step."""
        trips = []
        for _ in range(self._probes):
            asked = clock()
            await queue.now.op()
            trips.append(clock() - asked)
        self.round_trip_s = min(trips)

    def learn(
        self, done: int, seconds: float, asked: int | None = None, longest_s: float | None = None
    ) -> None:
        """Adapt the size to a step that handled ``done`` of ``asked`` entries (default: `size`).

        A step that handled less than half of them, as the last step may, changes nothing.
        ``longest_s``: seconds of its longest call, where it has several.
        """
        call_s = seconds if longest_s is None else longest_s
        says_little = not done or done < (asked or self.size) // 2
        if says_little or call_s <= self.round_trip_s:
            return
        # If the round trip was measured in a slow moment, the step would seem to cost nothing.
        busy = max(call_s - self.round_trip_s, done * self._least_s)
        self._per_entry_s.append(busy / done)
        aim = round(self.step_s / sorted(self._per_entry_s)[:2][-1])
        # Half way to the aim: one slow call must not stall a long run, nor one fast call rush it.
        self.size = min(self.largest, max(10, (self.size + aim) // 2))

"""How many entries the next step of a change handles: adapted to how fast the server answers."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from redisq_ops.core.engine.queue import Queue
from redisq_ops.core.model.settings import MAX_BATCH

FIRST = 50
"""entries of the first step at most"""
LEAST_S = 0.000_01
"""of the server's time an entry takes at least, whatever was measured from here: 10 to 18 µs"""
STEP_S = {1: 0.0005, 2: 0.0002}
"""how long a step is to keep the server busy, by how many are on their way at a time: others wait
for all of them"""
LARGEST = {1: 120, 2: 64}
"""entries a step of a whole state moves at most, by the same. An undo takes back 128 of them in one
call, at about 5 µs an entry; and of a quick server others need not wait as long as they may"""
USUAL = 20
"""steps among which one is as quick as the server allows; some 5 ms of them"""


class Stride:
    """How many entries the next step handles: adapted so that a call keeps the server busy for
    about half a millisecond, and never planned above one."""

    trips = 1
    """calls by which the round trip is measured"""

    def __init__(self, size: int = FIRST, *, largest: int = MAX_BATCH, calls: int = 1) -> None:
        """``largest``: entries of a step at most; ``calls``: to the server, in each step."""
        self.size = min(size, largest)
        self.largest = largest
        self.calls = calls
        self.round_trip_s = 0.0
        """seconds of a call that does nothing: a distant server is not a slow one"""

    async def measure(self, queue: Queue[Any], clock: Callable[[], float]) -> None:
        """Measure the round trip, before the first step."""
        trips = []
        for _ in range(self.trips):
            asked = clock()
            await queue.now.op()
            trips.append(clock() - asked)
        self.round_trip_s = min(trips)

    def learn(self, done: int, seconds: float, asked: int | None = None) -> None:
        """A step handled ``done`` entries of ``asked``, or of `size`: a rate may want fewer."""
        seconds /= self.calls
        if done < (asked or self.size) // 2 or seconds <= self.round_trip_s:
            return  # it doesn't show how long such a step takes
        # The round trip took longer than usual when it was measured: a step seems to take nothing.
        busy = max(seconds - self.round_trip_s, done * LEAST_S)
        aim = int(0.0005 * done / busy)
        # Half way to the aim: one slow call must not stall a long run, nor one fast call rush it.
        self.size = min(self.largest, max(10, (self.size + aim) // 2))


class EvenStride(Stride):
    """For steps that cost about the same again and again: what counts is the second quickest of
    the latest, since what else the machine does can only make them longer. On a busy machine that
    is most of them, and small steps would cost it most.

    Of two that are under way at a time one's reply may be there as soon as it is asked for, so as
    many are measured together; and for a server far away each waits half the way.
    """

    trips = 3  # one that is held up would make any step seem short

    def __init__(self, size: int = FIRST) -> None:
        super().__init__(size)
        self.in_flight = 1
        """how many are under way at a time, as `WholeStateSteps` has it"""
        self._latest: deque[tuple[int, float]] = deque(maxlen=2)
        self._each: deque[float] = deque(maxlen=USUAL)

    def set_in_flight(self, n: int) -> None:
        self.in_flight, self.size = n, min(self.size, LARGEST[n])

    def learn(self, done: int, seconds: float, asked: int | None = None) -> None:
        if done < (asked or self.size) // 2:  # it doesn't show how long such a step takes
            return
        self._latest.append((done, seconds))
        latest = list(self._latest)[-self.in_flight :]
        took = sum(seconds for _, seconds in latest) / len(latest)
        busy = min(took, self.in_flight * took - self.round_trip_s)
        if busy <= 0:
            return
        self._each.append(busy * len(latest) / sum(done for done, _ in latest))
        usual = sorted(self._each)[:2][-1]
        aim = max(10, min(LARGEST[self.in_flight], round(STEP_S[self.in_flight] / usual)))
        if abs(aim - self.size) > self.size // 8:
            self.size = aim

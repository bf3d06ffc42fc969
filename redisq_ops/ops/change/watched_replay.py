"""A replay with a canary and a ramp: a few entries first, then more while few of them die again.

`WatchedReplay` drives a change at the rate that `canary_rules` decides, and observes: whether
replayed entries die again, how many wait, and how fast the server answers another client.
"""

from __future__ import annotations

import json
import time
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from math import inf
from statistics import median
from typing import Any

from redisq_ops.core.engine.queue import Queue
from redisq_ops.core.engine.replay_tracking import ReplayTracker
from redisq_ops.core.model.entry import Counts
from redisq_ops.core.model.errors import BadInput, Refused
from redisq_ops.core.model.exit_codes import FAILED, PARTLY_DONE
from redisq_ops.core.model.settings import MAX_BATCH
from redisq_ops.core.redis.operation import Call, together

from ..terminal import a_second, age, count
from . import audit_log
from .canary_rules import Course, Limits, Observed, advance, begin, late
from .entry_steps import EntrySteps
from .runner import ChangeRun

LATEST = 200
"""latest verdicts that are judged; of more, a thousand good ones would hide a hundred bad ones"""
PINGS = 5


def check_watchable(queue: Queue[Any], limits: Limits) -> None:
    """Refuse a canary and a ramp in a queue where the end of replayed entries is unknown, or is
    known later than these limits wait for it."""
    if queue.unwatched:
        raise Refused(
            f"queue {queue.name} has no canary and no ramp: {queue.unwatched};"
            " replay a few first (--max 20), then the rest"
        )
    if limits.watch_ms <= queue.unseen_ms < inf:
        raise BadInput(
            f"--watch must be over {age(int(queue.unseen_ms))} for queue {queue.name}: a worker of"
            f" {queue.owner} may run an entry for that long before any key shows it"
        )


class Watch:
    """What becomes of replayed entries: the latest 200 verdicts, and what is yet to come."""

    def __init__(self, tracker: ReplayTracker) -> None:
        self.replay_tracker = tracker
        self.verdicts = 0
        self._ends: deque[bool] = deque(maxlen=LATEST)

    def fresh(self) -> None:
        """Forget the verdicts so far: only entries that are replayed from now on are judged."""
        self._ends.clear()
        self.replay_tracker.forget()

    async def look(self) -> None:
        """Read which of them ended since the last look."""
        ends = await self.replay_tracker.look()
        self._ends.extend(ends)
        self.verdicts += len(ends)

    @property
    def judged(self) -> int:
        return len(self._ends)

    @property
    def died(self) -> int:
        return sum(self._ends)


class WatchedReplay:
    """Replays by a canary and a ramp. Call `step` until it returns False; sleep `pause` between.

    Decisions are kept with the operation in the audit log, so that a killed ramp continues where it
    was; one operation never replays an entry twice.
    """

    def __init__(
        self,
        change: ChangeRun[EntrySteps],
        limits: Limits,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        queue = change.steps.queue
        if change.steps.verb != "replay":
            raise BadInput("a canary and a ramp are for a replay only")
        check_watchable(queue, limits)
        self.change = change
        self.limits = limits
        self.outcome = change.outcome
        self.queue = queue
        self.watch = Watch(queue.replay_tracker())
        self.course = Course("canary" if limits.canary else "ramp")
        self.seen: Observed | None = None
        self.waiting_before = 0
        self._clock = clock
        self._usual_ms = 0.0
        self._look_s = min(1.0, limits.window_ms / 2000)
        self._looked = -inf
        self._tokens = 0.0
        self._counted = 0.0
        self._over = False
        self._last = False

    @property
    def begun(self) -> bool:
        return self.change.begun

    @property
    def progress(self) -> tuple[int, int]:
        return self.change.progress

    def limit_rate(self, rate: float | None) -> None:
        """Go up to this rate at most."""
        if rate is not None:
            self.limits = replace(self.limits, rate=min(rate, self.limits.full))

    @property
    def left(self) -> int:
        """How many are to be replayed yet, as far as is known."""
        return 0 if self._over else max(0, self.outcome.matched - self.outcome.handled)

    async def step(self) -> bool:
        """Observe if it is time, and replay what may be replayed by now; False at the end."""
        now = self._clock()
        if self.seen is None:
            await self._begin()
        elif now - self._looked >= self._look_s or (self._due() and not self._room()):
            await self._look()
        if self.course.ended:
            return False
        n = self._room()
        if n and not self._over:
            await self._replay(n)
        return True

    async def _begin(self) -> None:
        assert self.outcome.op is not None
        await self.change.open()
        state, counts = await together(_state(self.queue, self.outcome.op), self.queue.counts.op())
        self.waiting_before = counts.waiting
        self._usual_ms = await self._ping()
        self.seen = await self._observed(counts)
        proven, rate = bool(state.get("proven")), float(state.get("rate") or 0)
        self.course = begin(self.limits, self.seen, proven=proven, rate=rate)
        self._looked = self._counted = self._clock()
        self._tokens = 1.0

    async def _look(self) -> None:
        if not self._last and late(self.course, int(self._clock() * 1000), self.limits):
            self._last = True  # one look may read only some of the entries
            self.watch.replay_tracker.last_round()
        await self.watch.look()
        self.seen = await self._observed(await self.queue.counts.op())
        before = self.course
        self.course = advance(before, self.seen, self.limits)
        self._looked = self._clock()
        if (before.phase, before.rate) != (self.course.phase, self.course.rate):
            if self.course.phase == "canary":
                self.watch.fresh()
            self._tokens = min(self._tokens, 1.0)
            await self._keep()

    async def _observed(self, counts: Counts) -> Observed:
        watch, oldest = self.watch, counts.oldest_ms
        tracker = watch.replay_tracker
        later = await self._ping() - self._usual_ms if self.seen is not None else 0.0
        now_ms = await self.queue.now.op() if oldest is not None else 0
        return Observed(
            int(self._clock() * 1000),
            self.outcome.done,
            self.left,
            watch.judged,
            watch.died,
            tracker.failing,
            tracker.unsettled,
            watch.verdicts,
            counts.waiting,
            None if oldest is None else max(0, now_ms - oldest),
            max(0.0, later),
            tracker.remaining if self._last else tracker.unsettled,
        )

    async def _ping(self) -> float:
        """How long the queue's servers take to answer, ms: the median of five round trips."""
        took = []
        keys = [each["cfg"] for each in self.queue.shard_keys]  # a cluster's nodes that have shards
        for _ in range(PINGS):
            before = self._clock()
            await together(Call(("EXISTS", key), int, key=key) for key in keys)
            took.append((self._clock() - before) * 1000)
        return median(took)

    async def _keep(self) -> None:
        """Write to the audit log how far it came, once anything was replayed."""
        course = self.course
        if self.outcome.op is not None and self.outcome.done:
            rate = course.rate if course.rate < inf else 0
            state = {"phase": course.phase, "proven": course.proven, "rate": rate}
            await audit_log.note(self.queue, self.outcome.op, ramp=json.dumps(state))

    def _due(self) -> bool:
        course = self.course
        return not self.left or (course.phase == "canary" and self.outcome.done >= course.goal)

    def _room(self) -> int:
        """How many may be replayed by now."""
        course, now, rate = self.course, self._clock(), self._rate
        if not rate or not self.left:
            self._counted = now
            return 0
        if rate < inf:
            # Unused tokens are good for the time between two observations only: after a stall
            # nobody knows yet what became of the last entries.
            most = max(1.0, rate * self._look_s)
            self._tokens = min(most, self._tokens + (now - self._counted) * rate)
        self._counted = now
        wanted = course.goal - self.outcome.done if course.phase == "canary" else MAX_BATCH
        allowed = MAX_BATCH if rate == inf else int(self._tokens)
        return max(0, min(MAX_BATCH, self.left, wanted, allowed))

    @property
    def _rate(self) -> float:
        """Entries per second now; a canary, too, keeps to the limit."""
        if self.course.phase == "canary":
            return self.limits.full
        return self.course.rate if self.course.phase == "ramp" else 0.0

    async def _replay(self, n: int) -> None:
        change = self.change
        change.at_most = n
        before_ms = await self.queue.now.op()
        handled = self.left
        more = await change.step()
        if self.course.phase in ("canary", "ramp"):
            self._tokens -= handled - self.left
        moved = [pick.id for pick, result in change.steps.results if result == "moved"]
        if more and moved:
            self.watch.replay_tracker.add(moved, before_ms)
        if not more:  # as many as were asked for
            self._over = True
        elif not self.left:
            # One more step, without entries, records that all of them were dealt with.
            while more:
                more = await change.step()
            self._over = True

    @property
    def pause(self) -> float:
        """Seconds to wait before the next step."""
        if self.course.ended or self.seen is None:
            return 0.0
        look = max(0.0, self._looked + self._look_s - self._clock())
        if self._room():
            return 0.0
        if self._due():
            return min(look, 0.1)
        if rate := self._rate:
            return min(look, max(0.0, (1 - self._tokens) / rate))
        return look

    async def reached(self) -> int:
        """Entries replayed by the audit log, also in a step without a reply."""
        return await self.change.reached()

    @property
    def exit_code(self) -> int:
        """0 all is replayed and well; 3 some is not replayed, died again or isn't settled."""
        if self.course.phase == "over" and not self.course.why:
            return self.outcome.exit_code
        return PARTLY_DONE if self.outcome.done else FAILED

    def __str__(self) -> str:
        """The state of the replay in one line."""
        course, seen, outcome = self.course, self.seen, self.outcome
        if seen is None:
            return "begins"
        words: list[str] = [course.phase]
        if course.phase == "ramp":
            words[0] = "at full speed" if course.rate == inf else f"ramp at {a_second(course.rate)}"
        words.append(f"{count(outcome.done)} of {count(outcome.matched)}")
        if seen.seen or seen.unsettled:
            again = f"{count(seen.died)} of {count(seen.judged)} died again"
            again += f", {count(seen.failing)} failing" if seen.failing else ""
            words.append(again)
        growth = seen.waiting - self.waiting_before
        words.append(f"{count(seen.waiting)} waiting" + (f" ({growth:+,})" if growth else ""))
        if seen.oldest_ms is not None:
            words.append(f"oldest {age(seen.oldest_ms)}")
        words.append(f"server {seen.late_ms + self._usual_ms:.1f} ms")
        return " · ".join(words) + (f": {course.why}" if course.why else "")


async def _state(queue: Queue[Any], op: str) -> dict[str, Any]:
    """The state that an interrupted ramp of that operation stored; empty: there was none."""
    key = queue.shard_keys[0]["op_"] + op

    def read(reply: bytes | None) -> dict[str, Any]:
        found = json.loads(reply) if reply else {}
        return found if isinstance(found, dict) else {}

    return await Call(("HGET", key, "ramp"), read, key=key)

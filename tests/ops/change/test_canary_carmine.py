"""Closed-loop replay of messages whose ids get newer content meanwhile."""

from __future__ import annotations

import time
from collections import Counter
from typing import Any

import pytest
import redis

from redisq_ops.core.engine.replay_tracking import ReplayTracker
from redisq_ops.core.model.clock import FakeClock
from redisq_ops.core.model.entry import Failure, Settlement
from redisq_ops.core.queues.carmine import CarmineQueue, ShardedCarmineQueue
from redisq_ops.core.queues.carmine import replay_tracking as module
from redisq_ops.core.redis.operation import run
from redisq_ops.ops.change.audit_log import Author
from redisq_ops.ops.change.canary_rules import Limits
from redisq_ops.ops.change.watched_replay import WatchedReplay
from redisq_ops.ops.filter.filter import Filter
from redisq_ops.ops.filter.selection import select

from ...changes import entry_change
from ...queue_steps import take

Queue = CarmineQueue[redis.Redis]
BOOM = Failure("Boom", "no such branch").encoded()


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture(params=[1, 3])
def queue(request: pytest.FixtureRequest, client: redis.Redis, clock: FakeClock) -> Queue:
    if request.param == 1:
        return CarmineQueue(client, "carmine:q", clock=clock)
    return ShardedCarmineQueue(client, "carmine:q", clock=clock, shards=request.param)


def dead(queue: Queue, n: int) -> list[str]:
    names = [f"m{i}" for i in range(n)]
    queue.enqueue([(id, b"old") for id in names])
    while taken := take(queue):
        queue.settle([Settlement(one, "reject", BOOM) for one in taken])
    return names


def replayed(queue: Queue, clock: FakeClock, ids: list[str]) -> ReplayTracker:
    """Put back into the queue, and followed."""
    fates = queue.replay_tracker()
    run(queue.client, fates.begin())
    clock.advance(10)
    now = queue.now()
    said = queue.move("op", 1, ids, source="dead", target="waiting", high_water_ms=now)
    assert set(said) == {"moved"}
    run(queue.client, fates.add(ids, now, "op", 1))
    clock.advance(10)
    return fates


def look(queue: Queue, fates: ReplayTracker) -> Counter[bool]:
    return Counter(run(queue.client, fates.look()))


def end_with_newer(queue: Queue, outcome: Any, n: int = 100) -> None:
    """Their producer sends each again while it is at work, and then it ends."""
    taken = take(queue, n)
    assert taken
    queue.enqueue([(one.id, b"new") for one in taken], requeue=True)
    queue.settle([Settlement(one, outcome, BOOM) for one in taken])


@pytest.mark.parametrize("at_once", [False, True])
def test_a_death_is_heard_of_though_newer_content_took_its_place(
    queue: Queue, clock: FakeClock, at_once: bool
) -> None:
    fates = replayed(queue, clock, dead(queue, 30))
    end_with_newer(queue, "reject")
    if at_once:  # the newer content is done before anybody looks
        while taken := take(queue):
            queue.settle([Settlement(one, "ack") for one in taken])
    assert queue.counts().dead == 0
    assert (look(queue, fates), fates.unsettled) == (Counter({True: 30}), 0)
    assert look(queue, fates) == Counter()


def test_newer_content_of_what_went_well_is_no_death(queue: Queue, clock: FakeClock) -> None:
    fates = replayed(queue, clock, dead(queue, 5))
    end_with_newer(queue, "ack")
    assert (look(queue, fates), fates.unsettled) == (Counter({False: 5}), 0)
    while taken := take(queue):
        queue.settle([Settlement(one, "reject", BOOM) for one in taken])
    assert look(queue, fates) == Counter(), "what becomes of that is another story"


def test_a_death_before_the_replay_is_none(queue: Queue, clock: FakeClock) -> None:
    """Also one that is only read after it."""
    fates = queue.replay_tracker()
    run(queue.client, fates.begin())
    names = dead(queue, 4)
    clock.advance(10)
    now = queue.now()
    queue.move("op", 1, names, source="dead", target="waiting", high_water_ms=now)
    run(queue.client, fates.add(names, now, "op", 1))
    assert (look(queue, fates), fates.unsettled) == (Counter(), 4)


def test_what_died_plainly_died_once(queue: Queue, clock: FakeClock) -> None:
    fates = replayed(queue, clock, dead(queue, 3))
    taken = take(queue)
    queue.settle([Settlement(one, "reject", BOOM) for one in taken])
    assert look(queue, fates) == Counter({True: 3}) and look(queue, fates) == Counter()
    assert fates.unsettled == 0


def test_while_the_history_is_not_read_to_its_end_nothing_is_called_well(
    client: redis.Redis, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "EVENTS", 2)
    monkeypatch.setattr(module, "READS", 3)
    queue = CarmineQueue(client, "carmine:q", clock=clock)
    fates = replayed(queue, clock, dead(queue, 20))
    for _ in range(8):
        end_with_newer(queue, "reject", 1)
        queue.settle([Settlement(one, "ack") for one in take(queue, 1)])
    heard, looks = Counter[bool](), 0
    while len(list(queue.page("waiting").entries)):
        queue.settle([Settlement(one, "ack") for one in take(queue)])
    while fates.unsettled:
        looks += 1
        heard += look(queue, fates)
        assert heard[False] == 0 or not fates.unsettled
    assert looks > 1 and heard == Counter({True: 8, False: 12})


def test_a_canary_ends_there_where_newer_content_hides_the_dead(client: redis.Redis) -> None:
    queue = CarmineQueue(client, "carmine:q")
    dead(queue, 40)
    chosen = run(client, select(queue, "dead", Filter()))
    limits = Limits(canary=10, window_ms=100, watch_ms=2_000, latency_ms=60_000)
    ramp = WatchedReplay(entry_change(chosen, "replay", Author("me", "here")), limits)
    deadline = time.monotonic() + 60
    while run(client, ramp.step()):
        assert time.monotonic() < deadline, str(ramp)
        for one in take(queue):
            if one.payload == b"old":
                queue.enqueue([(one.id, b"new")], requeue=True)
            queue.settle([Settlement(one, "reject" if one.payload == b"old" else "ack", BOOM)])
        time.sleep(ramp.pause)
    assert (ramp.course.phase, ramp.outcome.done, ramp.exit_code) == ("stopped", 10, 3)
    assert "10 of 10 replayed entries died again" in ramp.course.why
    assert queue.counts().dead == 30

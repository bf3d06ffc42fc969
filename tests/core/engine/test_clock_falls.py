"""A server's clock that is set back, or forward: leases and back-offs end when they would have.

What is measured here is true time: the fake clock is moved by jumps that nothing else knows of.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import redis

from redisq_ops.core.foreign.resque import ResqueQueue
from redisq_ops.core.foreign.ruby_jobs import Job
from redisq_ops.core.foreign.sidekiq import SidekiqQueue
from redisq_ops.core.model.clock import FakeClock
from redisq_ops.core.model.entry import Delivery, Failure, Settlement
from redisq_ops.core.queues.carmine import CarmineQueue
from redisq_ops.core.queues.circular import CircularQueue
from redisq_ops.core.queues.delay import DelaySet
from redisq_ops.core.queues.fair import FairQueue
from redisq_ops.core.queues.request import RequestQueue
from redisq_ops.core.queues.request.sharded import ShardedRequestQueue

pytestmark = pytest.mark.alike

HOUR, LEASE, BACK_OFF = 3_600_000, 30_000, 60_000
LOOK = 1_000
"""ms between two looks of a worker, in true time"""

Put = Callable[[Any, int], object]


def pairs(n: int) -> list[tuple[str, bytes]]:
    return [(f"e{i}", b"x") for i in range(n)]


def jobs(n: int) -> list[Job]:
    return [Job("HardJob", [i]) for i in range(n)]


KINDS: dict[str, tuple[Callable[..., Any], str, Put]] = {
    "request": (RequestQueue, "q", lambda q, n: q.submit([b"x"] * n, id="r", limit=1000)),
    "delay": (DelaySet, "q", lambda q, n: q.schedule(pairs(n), after=0)),
    "circular": (CircularQueue, "q", lambda q, n: q.push(pairs(n))),
    "fair": (FairQueue, "q", lambda q, n: q.submit("ann", pairs(n))),
    "carmine": (CarmineQueue, "carmine:q", lambda q, n: q.enqueue(pairs(n))),
    "shards": (
        ShardedRequestQueue,
        "q",
        lambda q, n: [q.submit([b"x"], id=f"r{i}", limit=1000) for i in range(n)],
    ),
    "resque": (ResqueQueue, "resque:q", lambda q, n: q.push(jobs(n))),
    "sidekiq": (SidekiqQueue, "sidekiq:q", lambda q, n: q.push(jobs(n))),
}
OURS = [kind for kind in KINDS if kind not in ("resque", "sidekiq")]
"""kinds whose back-offs are ours; a retry of the others is their owner's, in their owner's set"""


def made(client: redis.Redis, kind: str, n: int) -> tuple[Any, FakeClock]:
    """A queue of ``n`` entries that are taken after five lost leases, not dead."""
    clock = FakeClock()
    make, name, put = KINDS[kind]
    queue = make(client, name, clock=clock)
    put(queue, n)
    queue.configure("test", 1, {"max_lost": "1000", "max_failures": "1000"})
    return queue, clock


def failing(deliveries: Sequence[Delivery], delay: float = BACK_OFF / 1000) -> list[Settlement]:
    error = Failure("Timeout").encoded()
    return [Settlement(delivery, "fail", error, delay) for delivery in deliveries]


def take(queue: Any, consumer: str = "w") -> list[Delivery]:
    return list(queue.take(100, consumer=consumer, lease=LEASE / 1000).deliveries)


@pytest.mark.parametrize("kind", KINDS)
def test_a_lease_ends_in_time_although_the_clock_fell(client: redis.Redis, kind: str) -> None:
    queue, clock = made(client, kind, 3)
    held = take(queue, "dies")
    clock.advance(1)
    assert len(held) == 3 and take(queue) == []
    clock.now_ms -= 2 * HOUR
    assert take(queue) == []
    left = {entry.at_ms - clock.now_ms for entry in queue.page("pending").entries}
    assert left <= {LEASE - 1_000, LEASE}  # a shard that wasn't asked since knows no better
    clock.now_ms += LEASE - 1_001
    assert take(queue) == []
    clock.advance(1.001)
    assert {delivery.attempt for delivery in take(queue)} == {2}
    assert queue.invariants() == []


@pytest.mark.parametrize("kind", OURS)
def test_a_back_off_ends_in_time_although_the_clock_fell(client: redis.Redis, kind: str) -> None:
    queue, clock = made(client, kind, 3)
    assert queue.settle(failing(take(queue))) == ["retry"] * 3
    clock.now_ms -= 2 * HOUR
    assert take(queue) == []
    clock.now_ms += BACK_OFF
    assert {delivery.attempt for delivery in take(queue)} == {2}
    assert queue.invariants() == []


@pytest.mark.parametrize("kind", ["request", "carmine", "shards"])
def test_upkeep_alone_brings_forward_what_the_clock_holds_up(
    client: redis.Redis, kind: str
) -> None:
    queue, clock = made(client, kind, 3)
    take(queue, "dies")
    clock.now_ms -= 2 * HOUR
    queue.upkeep()
    clock.now_ms += LEASE
    queue.upkeep()
    assert (queue.counts().waiting, queue.counts().pending) == (3, 0)


@pytest.mark.parametrize("kind", ["request", "delay", "carmine", "resque"])
def test_a_worker_that_lives_keeps_its_leases(client: redis.Redis, kind: str) -> None:
    queue, clock = made(client, kind, 3)
    held = take(queue)
    for jump in (-2 * HOUR, HOUR // 2, -HOUR):
        if jump > 0:  # a lease may end early: whoever takes first gives the entry to another
            clock.now_ms += jump
            assert queue.extend(held, LEASE / 1000) == [True] * 3
        else:
            take(queue, "other")
            clock.now_ms += jump
            assert queue.extend(held, LEASE / 1000) == [True] * 3
        for _ in range(5):
            assert take(queue, "other") == []
            clock.advance(10)
            assert queue.extend(held, LEASE / 1000) == [True] * 3
    assert queue.settle([Settlement(one, "ack") for one in held]) == ["done"] * 3


def test_chosen_times_stay_although_the_clock_fell(client: redis.Redis) -> None:
    queue, clock = made(client, "delay", 1)
    at_ms = clock.now_ms + HOUR
    queue.schedule([("later", b"x")], at=at_ms / 1000)
    queue.settle(failing(take(queue)))
    queue.schedule([("e0", b"x")], at=at_ms / 1000, mode="move")  # which had a back-off
    clock.now_ms -= HOUR // 2
    assert take(queue) == []
    assert {entry.at_ms for entry in queue.page("delayed").entries} == {at_ms}
    clock.now_ms += HOUR + HOUR // 2
    assert sorted(delivery.id for delivery in take(queue)) == ["e0", "later"]


@pytest.mark.parametrize("kind", ["delay", "carmine"])
def test_what_was_due_stays_due_although_the_clock_fell(client: redis.Redis, kind: str) -> None:
    queue, clock = made(client, kind, 350)
    clock.now_ms -= 2 * HOUR
    if kind == "delay":  # while the others are brought forward, a few at a time
        queue.schedule([("new", b"x")], after=HOUR / 1000)
    else:
        queue.enqueue([("new", b"x")], backoff=HOUR / 1000)
    taken = [delivery.id for _ in range(8) for delivery in take(queue)]
    assert len(set(taken)) == 350 and "new" not in taken
    clock.now_ms += HOUR - 1
    assert "new" not in [delivery.id for _ in range(8) for delivery in take(queue)]
    clock.advance(0.001)
    assert "new" in [delivery.id for _ in range(8) for delivery in take(queue)]
    assert queue.invariants() == []


@pytest.mark.parametrize("kind", ["request", "delay", "carmine", "resque"])
def test_what_is_more_than_one_step_comes_in_several(client: redis.Redis, kind: str) -> None:
    queue, clock = made(client, kind, 350)
    ours = kind in OURS
    if ours:
        for _ in range(2):
            queue.settle(failing(take(queue)))
    if kind == "delay":  # in the way, and of one time
        at_ms = clock.now_ms + BACK_OFF // 2
        queue.schedule([(f"later{n}", b"x") for n in range(150)], at=at_ms / 1000)
    while take(queue, "dies"):
        pass
    clock.now_ms -= 2 * HOUR
    for _ in range(8):
        assert take(queue) == []
    clock.now_ms += max(LEASE, BACK_OFF)
    again = [delivery.id for _ in range(40) for delivery in take(queue)]
    assert len(set(again)) == 350
    assert queue.invariants() == []


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["request", "fair", "carmine", "sidekiq"])
def test_nothing_lasts_longer_than_itself_whatever_the_clock_does(
    client: redis.Redis, kind: str
) -> None:
    """Leases are lost and retries fail for ten minutes, under a clock that jumps about."""
    chance = random.Random(20)
    queue, clock = made(client, kind, 6)
    ends: dict[bytes | str, int] = {}
    for now in range(0, 600_000, LOOK):
        clock.now_ms += LOOK
        if chance.random() < 0.03:
            jump = chance.choice([-5_000, -40_000, -HOUR, -9 * HOUR, 40_000, 5 * HOUR])
            clock.now_ms += jump
            if jump < 0:  # how far it fell is told but for the time since the latest look
                ends = {name: end + LOOK for name, end in ends.items()}
        for delivery in take(queue, f"w{chance.randrange(3)}"):
            name = delivery.payload if kind == "sidekiq" else delivery.id
            fails = kind in OURS and chance.random() < 0.5
            if fails:
                queue.settle(failing([delivery]))
            ends[name] = now + (BACK_OFF if fails else LEASE)
        assert [(name, end) for name, end in ends.items() if end + LOOK < now] == []
    assert len(ends) == 6 and queue.invariants() == []


@pytest.mark.parametrize("kind", ["delay", "sidekiq"])
@pytest.mark.parametrize(
    "word", ["", "x", "inf", "-1", "9" * 30, "1|2|3|2|x|5", "1|9|3|3|5|0", "1|5|5|2|0|0", "\xff"]
)
def test_a_spoilt_note_of_the_clock_stops_nothing(
    client: redis.Redis, kind: str, word: str
) -> None:
    queue, clock = made(client, kind, 3)
    client.hset(queue.keys["callers"], ":clock", word)
    assert len(take(queue)) == 3
    client.hset(queue.keys["callers"], ":clock", word)
    queue.upkeep()
    assert client.hget(queue.keys["callers"], ":clock") == b"%d" % clock.now_ms
    assert queue.counts().pending == 3

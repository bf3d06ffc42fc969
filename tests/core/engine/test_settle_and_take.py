"""One script that settles and takes does what `settle` and `take` do one after the other."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest
import redis

from redisq_ops.core.engine.idempotency import CallerSlots
from redisq_ops.core.engine.queue import Queue
from redisq_ops.core.model.clock import FakeClock
from redisq_ops.core.model.entry import Delivery, Outcome, Settlement
from redisq_ops.core.model.errors import Superseded
from redisq_ops.core.model.keys import registry_key
from redisq_ops.core.queues.request import RequestQueue

from ...model.wire import Picture
from .test_idempotency import ALL, scene, seen

OUTCOMES: tuple[Outcome, ...] = ("ack", "ack", "ack", "result", "fail", "reject", "release")
STEPS = 30


def story(
    client: redis.Redis, kind: type[Queue[Any]], seed: int, at_once: bool
) -> tuple[list[Any], Picture]:
    """The replies of many exchanges, and what there is after them."""
    random = Random(seed)
    opening = scene(client, kind)
    queue: Any = opening.queue
    queue.exchanges_at_once = at_once
    held: list[Delivery] = list(opening.held)
    replies = []
    for _ in range(STEPS):
        chosen = random.sample(held, min(len(held), random.randint(1, 3)))
        ends = [
            Settlement(each, random.choice(OUTCOMES), b"%d" % n, random.choice((0, 0, 5)))
            for n, each in enumerate(chosen)
        ]
        reply = queue.settle_and_take(ends, random.randint(1, 3), consumer="w")
        replies.append(reply)
        # Some settled ones stay: their receipts are stale the next time.
        kept = [each for each in held if each not in chosen or random.random() < 0.2]
        held = [*kept, *reply[1].deliveries]
        queue.clock.now_ms += random.choice((0, 1, 1_000, 40_000))
    return replies, seen(client)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("kind", ALL, ids=lambda kind: kind.kind)
def test_it_is_a_settle_and_then_a_take(
    client: redis.Redis, kind: type[Queue[Any]], seed: int
) -> None:
    at_once, apart = (story(client, kind, seed, one) for one in (True, False))
    for step, (one, other) in enumerate(zip(at_once[0], apart[0], strict=True)):
        assert one == other, step
    assert at_once[1] == apart[1]
    words = {word for said, _ in at_once[0] for word in said}
    assert "done" in words and len(words) > 2


def usual_story(client: redis.Redis, seed: int, at_once: bool) -> tuple[list[Any], Picture, int]:
    """One entry settled and one taken at a time, while other things happen now and then; and how
    many commands the server ran in all."""
    random = Random(seed)
    client.flushall()
    clock = FakeClock()
    queue: Any = RequestQueue(client, "q", clock=clock, callers=CallerSlots(lambda: "me"))
    queue.exchanges_at_once = at_once
    for name, size, limit in (("a", 90, 50), ("b", 1, 1), ("c", 40, 2), ("d", 4, 9)):
        queue.submit([b"%d" % n for n in range(size)], id=name, limit=limit, priority=len(name))
    happens: list[Callable[[int], object]] = [
        lambda n: queue.submit([b"x"], id=f"more-{n}"),
        lambda n: queue.take(1, consumer="other", lease=3),
        lambda n: queue.configure(f"s{n}", 1, {"history": random.choice(("all", "ops"))}),
        lambda n: queue.control(f"p{n}", 1, "pause", "a"),
        lambda n: queue.control(f"g{n}", 1, "resume", "a"),
        lambda n: client.xadd(queue.keys["s_"] + "a", {"theirs": "x"}, f"{1_000_000 + n}-0"),
        lambda n: client.hset(queue.keys["r_"] + "a", "waiting", random.choice(("1", "60"))),
        lambda n: clock.advance(5),
    ]
    held = queue.take(1, consumer="w").deliveries
    client.config_resetstat()
    replies: list[Any] = []
    for n in range(150):
        if random.random() < 0.1:
            random.choice(happens)(n)
        outcome: Outcome = random.choice(("ack",) * 30 + ("fail", "reject"))
        ends = [Settlement(each, outcome, b"why") for each in held] or replies[-1][2]
        words, taken = queue.settle_and_take(ends, 1, consumer="w")
        replies.append((words, taken, ends))
        held = taken.deliveries
        clock.advance(0.001)
    stats: Any = client.info("commandstats")
    found = seen(client)
    # These have the server's time.
    del found[registry_key().encode()]
    del found[queue.keys["cfg"].encode()][b"registered"]
    return replies, found, sum(each["calls"] for each in stats.values())


def test_an_exchange_that_arrives_late_takes_nothing(client: redis.Redis) -> None:
    """A later call of its slot was carried out: whoever sent it has given up waiting."""
    queue = RequestQueue(client, "q", callers=CallerSlots(lambda: "me"))
    queue.submit([b"a", b"b", b"c"], id="r", limit=3)
    first, second, *_ = (queue.take(1, consumer="w").deliveries[0] for _ in range(2))
    queue.settle([Settlement(first, "ack")])
    slots: Any = client.hgetall(queue.keys["callers"])
    late = {name: b"99" + slot for name, slot in slots.items() if slot.endswith(b" done")}
    assert late
    client.hset(queue.keys["callers"], mapping=late)
    with pytest.raises(Superseded):
        queue.settle_and_take([Settlement(second, "fail", b"why")], 1, consumer="w")
    assert (queue.counts().waiting, queue.counts().pending) == (1, 1)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5))
def test_so_is_a_workers_usual_step_with_fewer_commands(client: redis.Redis, seed: int) -> None:
    at_once, apart = (usual_story(client, seed, one) for one in (True, False))
    for step, (one, other) in enumerate(zip(at_once[0], apart[0], strict=True)):
        assert one == other, step
    assert at_once[1] == apart[1]
    assert at_once[2] < apart[2]

"""Rates of a fair queue's clients: who is at its rate rests, and holds nobody up."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import redis

from redisq_ops.core.model.clock import FakeClock
from redisq_ops.core.model.entry import Limit, Settlement
from redisq_ops.core.model.errors import BadInput
from redisq_ops.core.queues.fair import FairQueue, ShardedFairQueue
from redisq_ops.core.worker import Worker

from ...command_line import Redisq
from ...queue_steps import take

Queue = FairQueue[redis.Redis]


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def queue(client: redis.Redis, clock: FakeClock) -> Iterator[Queue]:
    queue = FairQueue(client, "jobs", clock=clock)
    yield queue
    assert queue.invariants() == []


def fill(queue: Any, *clients: str, n: int = 40) -> None:
    for name in clients:
        queue.submit(name, [(f"{name}{k:02}", b"") for k in range(n)])


def whose(deliveries: Any) -> list[str]:
    return [each.client for each in deliveries]


def test_a_client_at_its_rate_rests_and_others_have_its_turns(
    queue: Queue, clock: FakeClock
) -> None:
    fill(queue, "ann", "bob")
    assert queue.rate("ann", "10/s") == "off"
    assert whose(take(queue, 6)) == ["ann"] + ["bob"] * 5
    clock.advance(0.099)
    queue.submit("ann", [("more", b"")])
    assert whose(take(queue, 3)) == ["bob"] * 3, "it came back early"
    clock.advance(0.001)
    assert sorted(whose(take(queue, 3))) == ["ann", "bob", "bob"]
    assert queue.invariants() == []
    assert queue.rate("ann", "off") == "10/s"
    assert whose(take(queue, 9)).count("ann") in (4, 5), "others owe it no turns, and it owes none"


@pytest.mark.parametrize(("rate", "number", "span"), [("30/s", 30, 1_000), ("4/h", 4, 3_600_000)])
def test_no_second_has_more_than_the_rate_and_a_tenth(
    queue: Queue, clock: FakeClock, rate: str, number: int, span: int
) -> None:
    fill(queue, "ann", n=60)
    queue.rate("ann", rate)
    times = list[int]()
    held: list[Any] = []
    while len(times) < 50:
        queue.settle([Settlement(each, "ack") for each in held])
        taken = queue.take(7, consumer="w")
        held = list(taken.deliveries)
        times += [clock.now_ms] * len(held)
        if not held:
            assert taken.look_again_ms is not None and taken.look_again_ms > clock.now_ms
            clock.now_ms = taken.look_again_ms
    most = max(sum(start <= at <= start + span for at in times) for start in times)
    assert most <= number + max(1, number * 100 // span)
    assert times[-1] - times[0] <= 50 * span / number + 50


def test_of_idle_workers_one_watches_for_who_rests(
    client: redis.Redis, queue: Queue, clock: FakeClock
) -> None:
    fill(queue, "ann", "bob", n=5)
    for name in ("ann", "bob"):
        queue.rate(name, "5/s")
    client.delete(queue.keys["wake"])
    assert len(take(queue, 5, "busy")) == 2
    assert client.llen(queue.keys["wake"]) == 1
    client.delete(queue.keys["wake"])
    told = [queue.take(5, consumer=f"idle{n}").look_again_ms for n in range(3)]
    assert told == [clock.now_ms + 200, None, None]
    assert client.llen(queue.keys["wake"]) == 0
    assert queue.limits_reached() == [Limit("client", name, 5, 4, "5/s") for name in ("ann", "bob")]
    clock.advance(0.2)
    assert len(take(queue, 5, "idle0")) == 2
    assert client.llen(queue.keys["wake"]) == 1, "who comes back wakes more than the next watch"


def test_where_nobody_has_a_rate_its_key_is_left_alone(client: redis.Redis, queue: Queue) -> None:
    fill(queue, "ann", "bob", n=5)
    held = take(queue, 4)
    client.set(queue.keys["resting"], "not a sorted set")  # a command for it would fail
    assert len(take(queue, 4)) == 4
    queue.settle([Settlement(each, "ack") for each in held])
    client.delete(queue.keys["resting"])


def test_rates_last_as_long_as_they_are_set_and_are_checked(
    client: redis.Redis, queue: Queue, clock: FakeClock
) -> None:
    queue.rate("new", "90/m")
    (known,) = queue.clients().clients
    assert (known.client, known.rate, known.rests) == ("new", 5_400, False)
    fill(queue, "new", n=2)
    held = take(queue, 2)
    assert len(held) == 1
    one = queue.get_client("new")
    assert one is not None and one.rests
    queue.rate("new", "off")
    assert len(take(queue, 2)) == 1, "it is served at once"
    with pytest.raises(BadInput, match="a rate is 10/s, 600/m or 5/h"):
        queue.rate("new", "much")
    assert client.hget(queue.keys["accounts"], "new").split()[-1] != b"5400"  # type: ignore[union-attr]


def test_a_clock_that_fell_lets_nobody_rest_for_long(queue: Queue, clock: FakeClock) -> None:
    fill(queue, "ann")
    queue.rate("ann", "5/s")
    assert len(take(queue)) == 1
    clock.now_ms -= 3_600_000
    take(queue)
    clock.advance(0.2)
    assert len(take(queue)) == 1


def test_a_clients_rate_in_its_shard(client: redis.Redis, clock: FakeClock) -> None:
    queue = ShardedFairQueue(client, "jobs", shards=3, clock=clock)
    fill(queue, "ann", n=9)
    queue.rate("ann", "5/s")
    assert len(take(queue, 5)) == 1
    taken = queue.take(5, consumer="w")
    assert (taken.deliveries, taken.look_again_ms, taken.more) == ((), clock.now_ms + 200, False)
    clock.advance(0.2)
    assert len(take(queue, 5)) == 1
    queue.resize(5)
    assert [(one.client, one.rate) for one in queue.clients().clients] == [("ann", 18_000)]
    assert queue.invariants() == []


def test_a_burst_waits_for_clients_at_their_rate(client: redis.Redis) -> None:
    queue = FairQueue(client, "jobs")
    fill(queue, "ann", "bob", n=6)
    queue.rate("ann", "50/s")
    client.config_resetstat()
    assert Worker(queue, lambda _: None, burst=True, concurrency=3).run().done == 12
    stats: Any = client.info("commandstats")
    assert stats["cmdstat_evalsha"]["calls"] <= 5 * 12 + 10


def test_operators_set_a_rate_see_it_and_take_it_back(client: redis.Redis, redisq: Redisq) -> None:
    queue = FairQueue(client, "jobs")
    fill(queue, "ann", n=3)
    redisq("client", "rate", "jobs", "ann", "1/h", "--yes")
    take(queue, 1)
    assert "1/h" in redisq("client", "ls", "jobs")
    (row,) = redisq.rows("client", "ls", "jobs", "--json")
    assert (row["rate"], row["rests"]) == ("1/h", True)
    said = redisq("explain", "jobs/ann01")
    assert "client ann is limited to 1/h: 2 entries waiting, at that rate they take 2h" in said
    redisq("client", "rate", "jobs", "ann", "10", "--yes", code=2)
    redisq("undo", "--yes")
    assert [one.rate for one in queue.clients().clients] == [0]

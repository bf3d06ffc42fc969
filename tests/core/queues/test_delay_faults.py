"""The faults of article 003, as cases on the delay set, which has none of them.

`docs/explanation/faults.md` says for each what the article's own steps do.
"""

from __future__ import annotations

import pytest
import redis

from redisq_ops.core.model.clock import FakeClock
from redisq_ops.core.model.entry import Delivery
from redisq_ops.core.model.errors import BadInput
from redisq_ops.core.model.settings import LEASE_MS
from redisq_ops.core.queues.delay import DelaySet
from redisq_ops.core.queues.delay.handover import admit
from redisq_ops.core.queues.delay.sharded import ShardedDelaySet
from redisq_ops.core.redis.operation import run

from ...queue_steps import ids, settle, take

T = 1_700_000_000


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(T * 1000)


@pytest.fixture
def queue(client: redis.Redis, clock: FakeClock) -> DelaySet[redis.Redis]:
    return DelaySet(client, "ours", clock=clock)


Ours = DelaySet[redis.Redis]


def put(queue: Ours, *entries: tuple[str, int], mode: str = "new") -> list[str]:
    """(id, ready time in seconds after T) pairs; the payload is the id."""
    said = []
    for id, at in entries:
        said += queue.schedule([(id, id.encode())], at=T + at, mode=mode)  # type: ignore[arg-type]
    return [one.word for one in said]


def ack(queue: Ours, *deliveries: Delivery) -> list[str]:
    return settle(queue, "ack", *deliveries)


def test_e1_a_batch_that_is_no_number_is_refused(queue: Ours) -> None:
    put(queue, ("a", 0), ("b", 0))
    for batch in (0, -1, 501, 0.5):
        with pytest.raises(BadInput):
            queue.take(batch, consumer="w1")  # type: ignore[arg-type]
    assert ids(take(queue, 1)) == ["a"]


def test_e2_what_comes_back_comes_back_in_its_order(queue: Ours, clock: FakeClock) -> None:
    put(queue, ("z-first", 1), ("m", 2), ("a-last", 3))
    clock.advance(3)
    assert ids(take(queue)) == ["z-first", "m", "a-last"]
    clock.now_ms += LEASE_MS
    assert ids(take(queue)) == ["z-first", "m", "a-last"]


def test_e3_in_flight_is_not_scheduled(queue: Ours) -> None:
    put(queue, ("working", 0), ("waiting", LEASE_MS // 1000))
    (delivery,) = take(queue)
    assert [e.id for e in queue.page("pending").entries] == ["working"]
    assert [e.id for e in queue.page("delayed").entries] == ["waiting"]
    settle(queue, "release", delivery)
    entry = queue.get("working")
    assert entry and entry.at_ms == T * 1000, "back at its own time"


def test_e4_an_ack_does_not_remove_tomorrows_run(queue: Ours, clock: FakeClock) -> None:
    put(queue, ("job", 0))
    (today,) = take(queue)
    assert put(queue, ("job", 86400), mode="move") == ["again"]
    assert ack(queue, today) == ["done"]
    assert take(queue) == []
    clock.advance(86_400)
    assert ids(take(queue)) == ["job"]


def test_e5_equal_payloads_are_two_entries(queue: Ours) -> None:
    queue.schedule([("m1", b"mail"), ("m2", b"mail")], at=T)
    assert [(d.id, d.payload) for d in take(queue)] == [("m1", b"mail"), ("m2", b"mail")]


def test_e6_scheduling_again_hands_nothing_out_twice(queue: Ours) -> None:
    put(queue, ("job", 0))
    (first,) = take(queue)
    assert put(queue, ("job", 0)) == ["same"]
    assert put(queue, ("job", 0), mode="move") == ["again"]
    assert take(queue, worker="w2") == []
    ack(queue, first)
    assert ids(take(queue, worker="w2")) == ["job"]


def test_e7_what_kills_its_worker_ends_with_the_dead(queue: Ours, clock: FakeClock) -> None:
    put(queue, ("bomb", 0))
    deaths = 0
    for _ in range(20):
        deaths += len(take(queue))
        clock.now_ms += LEASE_MS
    assert deaths == 3
    (dead,) = queue.page("dead").entries
    assert (dead.id, dead.reason, dead.lost) == ("bomb", "lost", 3)


def test_e8_each_of_a_batch_has_a_lease_that_can_be_renewed(queue: Ours, clock: FakeClock) -> None:
    queue.schedule([(f"{n:02}", b"") for n in range(100)], at=T)
    left = take(queue)
    while left:
        assert ack(queue, left.pop(0)) == ["done"]
        clock.advance(1)
        if left and len(left) % 10 == 0:
            assert all(queue.extend(left))
        assert take(queue, worker="w2") == []


def test_e9_every_shard_is_looked_at_in_every_round(client: redis.Redis, clock: FakeClock) -> None:
    ours = ShardedDelaySet(client, "ours", shards=12, clock=clock)
    for n in range(24):
        ours.schedule([(f"job-{n}", b"")], at=T)
        assert [d.id for d in ours.take(1, consumer="w").deliveries] == [f"job-{n}"]


def test_e9b_an_id_has_one_home(client: redis.Redis, clock: FakeClock) -> None:
    ours = ShardedDelaySet(client, "ours", shards=12, clock=clock)
    said = [ours.schedule([("job", b"")], at=T)[0].word for _ in range(3)]
    assert said == ["ok", "same", "same"]
    assert ours.counts().waiting == 1


def test_e10_only_the_servers_clock_counts(client: redis.Redis) -> None:
    """No client of ours has a clock that could be wrong."""
    queue = DelaySet(client, "ours")
    queue.schedule([("job", b"")], after=0)
    queue.schedule([("later", b"")], after=3600)
    assert ids(take(queue)) == ["job"]
    seconds, micros = client.time()
    entry = queue.get("later")
    assert entry and entry.at_ms
    assert entry.at_ms <= seconds * 1000 + micros // 1000 + 3_600_000


def test_e11_only_the_latest_holder_can_acknowledge(queue: Ours, clock: FakeClock) -> None:
    put(queue, ("job", 0))
    (slow,) = take(queue, worker="w1")
    clock.now_ms += LEASE_MS
    assert ids(take(queue, worker="w2")) == ["job"]
    assert ack(queue, slow) == ["stale"]
    clock.now_ms += LEASE_MS
    assert ids(take(queue, worker="w3")) == ["job"]


def test_e12_a_hand_over_that_dies_half_way_makes_no_second_copy(
    client: redis.Redis, queue: Ours, clock: FakeClock
) -> None:
    target = DelaySet(client, "target", clock=clock)
    put(queue, ("job", 0))
    for _ in range(2):
        for delivery in take(queue):
            run(client, admit(target, [(delivery.id, delivery.payload)]))
        clock.now_ms += LEASE_MS
    assert target.counts().waiting == 1
    assert queue.hand_over(target).dead == 1, "the id is taken there: kept here, with the reason"

    put(queue, ("other", 0))
    assert queue.hand_over(target).done == 1
    assert queue.get("other") is None
    assert target.counts().waiting == 2


def test_e13_fewer_shards_orphan_nothing(client: redis.Redis, clock: FakeClock) -> None:
    ours = ShardedDelaySet(client, "ours", shards=12, clock=clock)
    ours.schedule([(f"job-{n}", b"") for n in range(60)], at=T)
    ours.resize(8)
    late = ShardedDelaySet(client, "ours", clock=clock)
    found: list[str] = []
    while batch := late.take(100, consumer="w").deliveries:
        found += [delivery.id for delivery in batch]
    assert sorted(found) == sorted(f"job-{n}" for n in range(60))

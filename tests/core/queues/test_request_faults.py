"""The faults of article 000, as cases on the request queue, which has none of them.

`docs/explanation/faults.md` says for each what the article's own steps do.
"""

from __future__ import annotations

import random
from typing import Any

import pytest
import redis
from redis.crc import key_slot

from redisq_ops.core.model.clock import FakeClock
from redisq_ops.core.model.entry import Delivery, Settlement
from redisq_ops.core.model.errors import BadInput
from redisq_ops.core.model.settings import LEASE_MS
from redisq_ops.core.queues.request import RequestQueue

from ...model.wire import picture, run_twice
from ...queue_steps import settle


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def queue(client: redis.Redis, clock: FakeClock) -> RequestQueue[redis.Redis]:
    return RequestQueue(client, "ours", clock=clock)


Ours = RequestQueue[redis.Redis]


def take(queue: Ours, worker: str = "w1", n: int = 1) -> list[Delivery]:
    return list(queue.take(n, consumer=worker).deliveries)


def ack(queue: Ours, *deliveries: Delivery) -> list[str]:
    return settle(queue, "ack", *deliveries)


def request(queue: Ours, id: str = "r") -> tuple[str, int, int, int]:
    """state, waiting, pending, done"""
    found = queue.request(id)
    assert found is not None
    return found.state, found.waiting, found.pending, found.done


def test_a1_submitting_again_after_a_lost_reply_wipes_nothing(
    client: redis.Redis, queue: Ours
) -> None:
    queue.counts()
    queue.submit([b"warm"], id="warm")
    assert run_twice(client, queue.submit.op([b"a", b"b", b"c"], id="r")).word == "ok"
    assert request(queue) == ("sealed", 3, 0, 0)
    ours = {d.payload for d in take(queue, n=9)}
    assert {b"a", b"b", b"c"} <= ours


def test_a2_one_entry_acknowledged_three_times_counts_once(queue: Ours) -> None:
    queue.submit([b"a", b"b", b"c"], id="r", limit=1)
    (delivery,) = take(queue)
    assert [ack(queue, delivery) for _ in range(3)] == [["done"], ["stale"], ["stale"]]
    assert request(queue) == ("sealed", 2, 0, 1)


def test_a3_acknowledging_after_the_end_leaves_nothing_behind(queue: Ours) -> None:
    queue.submit([b"a"], id="r")
    (delivery,) = take(queue)
    assert ack(queue, delivery) == ["done"]
    before = queue.request("r")
    assert ack(queue, delivery) == ["stale"]
    assert queue.request("r") == before
    assert queue.invariants() == []


def test_a4_a_worker_that_dies_takes_no_token_with_it(queue: Ours, clock: FakeClock) -> None:
    queue.submit([b"a", b"b"], id="r", limit=1)
    assert [d.payload for d in take(queue, "dies")] == [b"a"]
    assert take(queue) == []
    clock.now_ms += LEASE_MS
    (again,) = take(queue)
    assert (again.payload, again.lost, again.attempt) == (b"a", 1, 2)
    assert ack(queue, again) == ["done"]
    assert [d.payload for d in take(queue)] == [b"b"]


def test_a4_under_load_no_request_is_stuck(queue: Ours, clock: FakeClock) -> None:
    """20 requests of 5, limit 2; every fifth delivery's worker dies."""
    chance = random.Random(4)
    queue.configure("test", 1, {"max_lost": "100"})
    for n in range(20):
        queue.submit([b"%d" % i for i in range(5)], id=f"r{n}", limit=2)
    for _ in range(1000):
        for delivery in take(queue, n=5):
            if chance.random() >= 0.2:
                ack(queue, delivery)
        clock.now_ms += LEASE_MS // 3
        if queue.requests_total() == 0:
            break
    assert [request(queue, f"r{n}") for n in range(20)] == [("done", 0, 0, 5)] * 20


def test_a5_a_recovered_sub_request_does_not_end_the_request_early(
    queue: Ours, clock: FakeClock
) -> None:
    queue.submit([b"a", b"b"], id="r", limit=2)
    slow, other = take(queue, "slow"), take(queue, "other")
    clock.now_ms += LEASE_MS // 2
    queue.extend(other)
    clock.now_ms += LEASE_MS // 2
    (recovered,) = take(queue, "w3")
    assert recovered.payload == b"a"
    assert ack(queue, recovered) == ["done"]
    assert ack(queue, *slow) == ["stale"]
    assert request(queue) == ("sealed", 0, 1, 1)
    assert ack(queue, *other) == ["done"]
    assert request(queue) == ("done", 0, 0, 2)


def test_a5b_of_two_owners_only_the_latest_is_counted(queue: Ours, clock: FakeClock) -> None:
    queue.submit([b"a", b"b", b"c"], id="r", limit=3)
    (delivery,) = take(queue, "w1")
    said = queue.move(
        "claim-1",
        1,
        [delivery.id],
        source="pending",
        target="pending",
        high_water_ms=clock.now_ms,
        consumer="w2",
    )
    assert said == ["moved"]
    assert ack(queue, delivery) == ["stale"]
    assert queue.extend([delivery]) == [False]
    assert request(queue) == ("sealed", 2, 1, 0)


def test_a6_no_token_outlives_the_work(queue: Ours) -> None:
    queue.submit([b"a"], id="r", limit=5)
    assert [level.tokens for level in queue.levels()] == [1]
    ack(queue, *take(queue))
    assert queue.levels() == []


def test_a7_a_handler_that_fails_has_a_way_back(queue: Ours, clock: FakeClock) -> None:
    queue.configure("test", 1, {"max_failures": "2"})
    queue.submit([b"a"], id="r", limit=1)
    (first,) = take(queue)
    assert queue.settle([Settlement(first, "fail", b"boom", 1)]) == ["retry"]
    assert take(queue) == []
    clock.advance(1)
    (second,) = take(queue)
    assert (second.failures, second.lost) == (1, 0)
    assert queue.settle([Settlement(second, "fail", b"boom again")]) == ["dead"]
    (dead,) = queue.page("dead").entries
    assert (dead.id, dead.reason, dead.failures) == ("r/1", "failed", 2)
    assert dead.error and dead.error.message == "boom again"


def test_a8_a_token_that_finds_nothing_is_not_missed_later(queue: Ours, clock: FakeClock) -> None:
    queue.submit([b"a"], id="r", limit=3)
    assert len(take(queue, "dies")) == 1
    assert take(queue, "w2") == take(queue, "w3") == []
    clock.now_ms += LEASE_MS
    assert [d.payload for d in take(queue, "w2")] == [b"a"]


def test_a9_a_request_of_nothing_is_done(client: Any, queue: Ours) -> None:
    with client.pubsub() as listener:
        listener.subscribe(queue.keys["r_"] + "r")
        listener.get_message(timeout=1)
        assert queue.submit([], id="r").state == "done"
        message = listener.get_message(timeout=1)
    assert message and message["data"] == b"done"
    assert not client.exists(queue.keys["s_"] + "r")
    assert queue.invariants() == []


def test_a10_there_is_no_moment_between_work_and_tokens(client: redis.Redis, queue: Ours) -> None:
    queue.submit([b"warm"], id="warm", priority=99)
    client.config_resetstat()
    run_twice(client, queue.submit.op([b"a", b"b", b"c"], id="r", limit=2, priority=0))
    assert [(level.priority, level.tokens) for level in queue.levels()] == [(0, 2), (99, 1)]
    sent = client.info("commandstats")["cmdstat_evalsha"]["calls"]
    assert sent == 2, "one script, sent twice"


def test_a11_a_name_can_not_scatter_a_queue(queue: Ours) -> None:
    for id in ("a{b}c", "ten}ant", ""):
        with pytest.raises(BadInput):
            queue.submit([b"x"], id=id)
    parts = ("r_", "s_", "p_", "lease", "dead", "callers")
    assert len({key_slot(f"{queue.keys[part]}x".encode()) for part in parts}) == 1


def test_a12_a_priority_nobody_looks_at_is_refused(queue: Ours) -> None:
    for priority in (100, -1):
        with pytest.raises(BadInput):
            queue.submit([b"a"], id="r", priority=priority)
    queue.submit([b"a"], id="r", priority=99)
    assert len(take(queue)) == 1


def test_a13_who_asks_late_learns_it_too(queue: Ours) -> None:
    queue.submit([b"a"], id="r")
    ack(queue, *take(queue))
    assert request(queue)[0] == "done"
    assert queue.request("never") is None


def test_a14_aging_keeps_the_last_from_starving(queue: Ours) -> None:
    queue.configure("test", 1, {"aging": "4"})
    queue.submit([b"u"] * 50, id="urgent", priority=0)
    queue.submit([b"p"] * 50, id="patient", priority=9)
    ours = []
    for _ in range(40):
        (delivery,) = take(queue)
        ours.append(delivery.request)
        ack(queue, delivery)
    assert ours.count("patient") == 5  # every fourth take starts elsewhere, of two levels in turn
    assert ours.count("urgent") == 35


def test_a15_a_limit_that_is_no_number_is_refused_before_anything_is_sent(
    client: redis.Redis, queue: Ours
) -> None:
    before = picture(client)
    wrong_ones: list[object] = ["abc", "", 2.7, 0, 1001]
    for limit in wrong_ones:
        with pytest.raises(BadInput):
            queue.submit([b"a"], id="r", limit=limit)  # type: ignore[arg-type]
        with pytest.raises(BadInput):
            queue.control("op", 1, "limit", "r", str(limit))
    assert picture(client) == before


def test_a16_what_is_done_frees_its_memory(client: redis.Redis, queue: Ours) -> None:
    queue.submit([b"%d" % n for n in range(8)], id="r", limit=8)
    ack(queue, *take(queue, n=6))
    assert client.xlen(queue.keys["s_"] + "r") == 2

"""The faults of article 002, as cases on the circular queue, which has none of them.

`docs/explanation/faults.md` says for each what the article's own steps do.
"""

from __future__ import annotations

from collections import Counter

import pytest
import redis

from redisq_ops.core.model.clock import FakeClock
from redisq_ops.core.model.entry import Delivery
from redisq_ops.core.model.settings import LEASE_MS
from redisq_ops.core.queues.circular import CircularQueue

from ...queue_steps import ids, settle
from ...queue_steps import take_all as take

T = 1_700_000_000_000


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(T)


Ours = CircularQueue[redis.Redis]


@pytest.fixture(params=["list", "rotate"])
def queue(request: pytest.FixtureRequest, client: redis.Redis, clock: FakeClock) -> Ours:
    return CircularQueue(client, "ours", clock=clock, residence=request.param)


def ack(queue: Ours, *deliveries: Delivery) -> list[str]:
    return settle(queue, "ack", *deliveries)


def test_d1_a_star_in_an_id_is_no_time(client: redis.Redis, queue: Ours) -> None:
    client.lpush(queue.queue_key, "user*1", "user")
    assert ids(take(queue)) == ["user"]
    (letter,) = queue.page("dead", payloads=True).entries
    assert (letter.reason, letter.payload) == ("invalid", b"user*1")


def test_d2_what_is_done_is_removed_whatever_its_marker(queue: Ours) -> None:
    queue.push("45")
    assert ack(queue, *take(queue)) == ["done"]
    assert take(queue) == [] and queue.get("45") is None


def test_d3_one_removal_removes_one_run(client: redis.Redis, clock: FakeClock) -> None:
    ours = CircularQueue(client, "ours", clock=clock, repeats="each")
    assert ours.push(["45", "45"]) == ["new", "again"]
    (held,) = take(ours)
    clock.now_ms += LEASE_MS
    (again,) = take(ours)
    assert ack(ours, held, again) == ["stale", "done"]
    assert ack(ours, *take(ours)) == ["done"]
    assert take(ours) == []


def test_d4_of_two_who_find_a_lease_lost_one_gets_it(queue: Ours, clock: FakeClock) -> None:
    queue.push(["1", "2"])
    assert ids(take(queue, 1, "dies")) == ["1"], "the order is first in, first out"
    clock.now_ms += LEASE_MS
    assert [len(take(queue, worker=f"w{n}")) for n in range(3)] == [2, 0, 0]


def test_d4b_a_job_that_ends_between_a_look_and_a_retake_stays_ended(
    queue: Ours, clock: FakeClock
) -> None:
    queue.push("45")
    held = take(queue)
    clock.now_ms += LEASE_MS - 1
    assert take(queue, worker="w2") == []
    assert ack(queue, *held) == ["done"]
    clock.now_ms += LEASE_MS
    assert take(queue, worker="w2") == []


def test_d6_what_kills_its_worker_doesn_t_do_so_for_ever(queue: Ours, clock: FakeClock) -> None:
    queue.push("poison")
    deaths = 0
    while take(queue):
        deaths += 1
        clock.now_ms += LEASE_MS
    (letter,) = queue.page("dead").entries
    assert (deaths, letter.reason) == (3, "lost")


def test_d7_a_completed_set_knows_ids_and_not_runs(client: redis.Redis) -> None:
    ours = CircularQueue(client, "ours", residence="rotate", repeats="each")
    ours.push(["45", "45", "other"])
    (held, _) = take(ours)
    assert ack(ours, held) == ["done"]
    (again,) = take(ours)
    assert again.id == "45" and ours.counts().pending == 2, "the second run is there, once"
    assert ack(ours, held) == ["stale"]
    assert ack(ours, again) == ["done"]
    assert take(ours) == []


def test_d8_an_id_is_never_refused_for_good_and_an_event_never_lost(queue: Ours) -> None:
    queue.push("45")
    (held,) = take(queue)
    assert queue.push("45") == ["again"]
    assert ack(queue, held) == ["done"]
    assert ack(queue, *take(queue)) == ["done"]
    assert queue.push("45") == ["new"]


def test_d9_the_end_of_a_lap_is_no_job(client: redis.Redis, clock: FakeClock) -> None:
    ours = CircularQueue(client, "ours", clock=clock, residence="rotate", idle="lap")
    ours.push(["-1", "a"])
    assert ids(take(ours)) == ["-1", "a"]
    assert not ours.take(1, consumer="w").more


def test_d9b_every_consumer_gets_to_pause(client: redis.Redis, clock: FakeClock) -> None:
    ours = CircularQueue(client, "ours", clock=clock, residence="rotate", idle="lap")
    ours.push([f"e{n}" for n in range(9)])
    take(ours)
    rests = Counter(n % 2 for n in range(20) if not ours.take(1, consumer=f"w{n % 2}").more)
    assert min(rests[0], rests[1]) >= 8


def test_d10_words_for_sleepers_are_bounded(client: redis.Redis, queue: Ours) -> None:
    for start in range(0, 1000, 100):
        queue.push([f"e{n}" for n in range(start, start + 100)])
    take(queue, 500)
    assert client.llen(queue.keys["wake"]) <= 16


def test_d11_equal_ids_are_not_merged(client: redis.Redis) -> None:
    ours = CircularQueue(client, "ours")
    client.lpush(ours.queue_key, "45", "45")
    (held,) = take(ours)
    assert ack(ours, held) == ["done"]
    (again,) = take(ours)
    assert again.id == "45", "the second push is a run of its own, after the first"


def test_d12_work_in_progress_doesn_t_stand_in_the_way(client: redis.Redis) -> None:
    ours = CircularQueue(client, "ours")
    for start in range(0, 500, 100):
        ours.push([f"busy{n}" for n in range(start, start + 100)])
    assert len(ours.take(500, consumer="w").deliveries) == 500
    ours.push("fresh")
    assert ids(list(ours.take(1, consumer="w").deliveries)) == ["fresh"]


def test_d13_clocks_of_clients_are_not_asked(queue: Ours) -> None:
    """A take has no argument for a time: it says how long, and the server says from when."""
    queue.push("45")
    (held,) = take(queue)
    assert held.deadline_ms == T + LEASE_MS
    assert take(queue, worker="hours-ahead") == []


def test_d14_a_late_worker_changes_nothing(queue: Ours) -> None:
    queue.push("45")
    (first,) = take(queue)
    assert ack(queue, first) == ["done"]
    queue.push("45")
    (second,) = take(queue)
    assert ack(queue, first) == ["stale"]
    assert ack(queue, second) == ["done"]

"""The delay set as its users know it, and the corners where it could go wrong."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import redis

from redisq_ops.core.model.clock import FakeClock
from redisq_ops.core.model.entry import Settlement
from redisq_ops.core.model.errors import (
    BadInput,
    QueueClosed,
    QueueFull,
    TooLarge,
)
from redisq_ops.core.model.settings import LEASE_MS
from redisq_ops.core.queues.delay import DelaySet

from ...model.wire import picture
from ...queue_steps import ids, move, settle, take

Queue = DelaySet[redis.Redis]


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def queue(client: redis.Redis, clock: FakeClock) -> Iterator[Queue]:
    queue = DelaySet(client, "q", clock=clock)
    yield queue
    assert queue.invariants() == []


def put(queue: Queue, id: str, after: int, payload: bytes = b"", mode: Any = "new") -> str:
    (said,) = queue.schedule([(id, payload)], after=after / 1000, mode=mode)
    return said.word


def test_times_with_fractions_are_whole_ms_by_the_time_they_are_kept(
    queue: Queue, clock: FakeClock
) -> None:
    queue.schedule([("at", b"")], at=(clock.now_ms + 0.25) / 1000)
    queue.schedule([("after", b"")], after=0.0004)
    held = take(queue)
    assert sorted(ids(held)) == ["after", "at"]
    clock.now_ms += LEASE_MS
    assert len(take(queue)) == 2


@pytest.mark.parametrize("at", [1_700_000_000_000_000, float("inf"), float("nan")])
def test_microseconds_are_refused(queue: Queue, at: Any) -> None:
    with pytest.raises(BadInput, match="the year 5138"):
        queue.schedule([("e", b"")], at=at / 1000)
    with pytest.raises(BadInput, match="the year 5138"):
        queue.schedule([("e", b"")], after=at / 1000)
    assert queue.take(1, consumer="w").look_again_ms is None
    queue.schedule([("far", b"")], at=(10**14 - 1) / 1000)
    assert queue.take(1, consumer="w").look_again_ms == 10**14 - 1


def test_nothing_to_schedule_is_nothing(client: redis.Redis, queue: Queue) -> None:
    assert queue.schedule([], after=0.001) == []
    assert queue.settle([]) == []
    assert queue.extend([]) == []
    assert list(client.scan_iter()) == []


def test_batches_and_payloads_have_bounds(queue: Queue) -> None:
    with pytest.raises(BadInput, match="501"):
        queue.schedule([(f"e{n}", b"") for n in range(501)], after=0.001)
    with pytest.raises(TooLarge):
        queue.schedule([("e", b"x" * 11)], after=0.001, max_payload=10)
    for n in (0, 501):
        with pytest.raises(BadInput):
            queue.take(n, consumer="w")
    queue.schedule([(f"e{n}", b"") for n in range(500)], after=0)
    taken = queue.take(499, consumer="w")
    assert len(taken.deliveries) == 499 and taken.more
    assert not queue.take(500, consumer="w").more


def test_a_full_set_takes_nothing_new_and_still_reschedules(
    client: redis.Redis, queue: Queue, clock: FakeClock
) -> None:
    queue.configure("op", 1, {"max_waiting": "2"})
    put(queue, "a", 10)
    put(queue, "b", 20)
    before = picture(client)
    with pytest.raises(QueueFull, match="2 entries wait"):
        queue.schedule([("a", b""), ("c", b"")], after=0.01)
    assert picture(client) == before
    assert put(queue, "a", 10) == "same"
    assert put(queue, "a", 5, mode="move") == "moved"
    queue.configure("op", 2, {"closed": "x"})
    with pytest.raises(QueueClosed):
        put(queue, "c", 1)
    clock.advance(0.02)
    assert ids(take(queue)) == ["a", "b"], "what is there is worked off"


@pytest.mark.parametrize("name", ["a b", "*", "a*", "", "50% of |1", "x y\tz"])
def test_an_id_that_only_a_hand_could_put_there_holds_up_nobody(
    client: redis.Redis, queue: Queue, clock: FakeClock, name: str
) -> None:
    put(queue, "good", 0)
    client.zadd(queue.keys["delay"], {name: queue.now()})
    client.hset(queue.keys["body"], name, b"by hand")
    found = take(queue)
    assert {one.id: one.payload for one in found} == {"good": b"", name: b"by hand"}
    assert settle(queue, "reject", *found) == ["dead", "dead"]
    assert move(queue, "op-1", "replay", "dead", "good") == ["moved"]
    assert settle(queue, "ack", *take(queue)) == ["done"]


def test_counts_pages_and_buckets_by_the_clock(queue: Queue, clock: FakeClock) -> None:
    for n in range(10):
        put(queue, f"e{n}", n * 1000)
    clock.advance(3.5)
    c = queue.counts()
    assert (c.waiting, c.delayed, c.oldest_ms) == (4, 6, clock.now_ms - 3500)
    assert [e.id for e in queue.page("waiting").entries] == ["e0", "e1", "e2", "e3"]
    assert [e.id for e in queue.page("delayed", max=2, start=2).entries] == ["e6", "e7"]
    page = queue.page("delayed", max=4)
    assert page.total == 6
    assert [e.id for e in queue.page("delayed", page.cursor, 4).entries] == ["e8", "e9"]
    edges = [clock.now_ms + 1000 * n for n in range(0, 7, 2)]
    assert queue.due_counts(edges) == [2, 2, 2]
    assert queue.get("e3").state == "waiting"  # type: ignore[union-attr]
    assert queue.get("e4").state == "delayed"  # type: ignore[union-attr]


def test_pages_of_one_time_are_exact(queue: Queue) -> None:
    queue.schedule([(f"e{n:03}", b"") for n in range(250)], after=1)
    seen, cursor = [], None
    while True:
        page = queue.page("delayed", cursor, 30)
        seen += [entry.id for entry in page.entries]
        cursor = page.cursor
        if cursor is None:
            break
    assert seen == [f"e{n:03}" for n in range(250)]


def test_a_page_costs_the_same_however_many_have_one_time(
    queue: Queue, client: redis.Redis
) -> None:
    queue.schedule([(f"e{n:03}", b"") for n in range(250)], after=1)
    cursor = queue.page("delayed", max=200).cursor
    client.config_resetstat()
    assert queue.page("delayed", cursor, 20).entries[0].id == "e200"
    assert client.info("commandstats")["cmdstat_zrange"]["calls"] == 1


def test_pages_of_one_time_are_exact_while_entries_go(queue: Queue) -> None:
    queue.schedule([(f"e{n:03}", b"") for n in range(100)], after=1)
    page = queue.page("delayed", max=30)
    move(queue, "p1", "purge", "delayed", "e003", "e010")  # before the cursor
    page = queue.page("delayed", page.cursor, 30)
    assert [e.id for e in page.entries] == [f"e{n:03}" for n in range(30, 60)]
    move(queue, "p2", "purge", "delayed", "e059")  # the cursor itself
    page = queue.page("delayed", page.cursor, 100)
    assert [e.id for e in page.entries] == [f"e{n:03}" for n in range(60, 100)]


def test_an_earlier_time_wakes_a_sleeper_and_a_later_one_does_not(
    client: redis.Redis, queue: Queue
) -> None:
    def woken() -> int:
        n = client.llen(queue.keys["wake"])
        client.delete(queue.keys["wake"])
        return n

    put(queue, "a", 5000)
    assert woken() == 1
    put(queue, "b", 6000)
    assert woken() == 0
    put(queue, "c", 4000)
    assert woken() == 1
    assert put(queue, "b", 0, mode="move") == "moved"
    assert woken() == 1, "due at once, though nothing is new"
    queue.schedule([(f"e{n}", b"") for n in range(3)], after=0)
    assert woken() == 3


def test_a_time_far_off_survives_trash_and_undo(queue: Queue) -> None:
    queue.schedule([("a", b"1")], after=99999999999.999)
    queue.schedule([("b", b"2")], after=1)
    at = queue.get("a").at_ms  # type: ignore[union-attr]
    assert move(queue, "op1", "purge", "delayed", "a", "b") == ["moved"] * 2
    assert move(queue, "op2", "restore", "trash", "a", "b") == ["moved"] * 2
    assert queue.get("a").at_ms == at  # type: ignore[union-attr]


def test_a_result_of_a_run_that_is_followed_by_another(queue: Queue, clock: FakeClock) -> None:
    put(queue, "e", 0)
    (held,) = take(queue)
    assert put(queue, "e", 100, mode="move") == "again"
    queue.settle([Settlement(held, "result", b"first")])
    assert [one.state for one in queue.outcomes(["e"])] == ["delayed"]
    assert queue.client.hget("redisq:{q}:result", "e") == b"first"

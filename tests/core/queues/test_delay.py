"""The delay set as its users know it, and the corners where it could go wrong."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
import redis

from redisq_ops.core.engine.wait import wait
from redisq_ops.core.model.clock import FakeClock
from redisq_ops.core.model.entry import EntryOutcome, Settlement
from redisq_ops.core.model.errors import (
    BadInput,
    QueueClosed,
    QueueFull,
    TooLarge,
)
from redisq_ops.core.model.settings import LEASE_MS
from redisq_ops.core.queues.delay import DelaySet, ShardedDelaySet
from redisq_ops.core.redis.client import connect

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
    (said,) = queue.schedule([(id, payload)], after_ms=after, mode=mode)
    return said.word


def test_times_with_fractions_are_whole_ms_by_the_time_they_are_kept(
    queue: Queue, clock: FakeClock
) -> None:
    queue.schedule([("at", b"")], at_ms=clock.now_ms + 0.75)  # type: ignore[arg-type]
    queue.schedule([("after", b"")], after_ms=0.5)  # type: ignore[arg-type]
    held = take(queue)
    assert sorted(ids(held)) == ["after", "at"]
    clock.advance(LEASE_MS)
    assert len(take(queue)) == 2


@pytest.mark.parametrize("at", [1_700_000_000_000_000, float("inf"), float("nan")])
def test_microseconds_are_refused(queue: Queue, at: Any) -> None:
    with pytest.raises(BadInput, match="in ms"):
        queue.schedule([("e", b"")], at_ms=at)
    with pytest.raises(BadInput, match="in ms"):
        queue.schedule([("e", b"")], after_ms=at)
    assert queue.take(1, consumer="w").look_again_ms is None
    queue.schedule([("far", b"")], at_ms=10**14 - 1)
    assert queue.take(1, consumer="w").look_again_ms == 10**14 - 1


def test_nothing_to_schedule_is_nothing(client: redis.Redis, queue: Queue) -> None:
    assert queue.schedule([], after_ms=1) == []
    assert queue.settle([]) == []
    assert queue.extend([]) == []
    assert list(client.scan_iter()) == []


def test_batches_and_payloads_have_bounds(queue: Queue) -> None:
    with pytest.raises(BadInput, match="501"):
        queue.schedule([(f"e{n}", b"") for n in range(501)], after_ms=1)
    with pytest.raises(TooLarge):
        queue.schedule([("e", b"x" * 11)], after_ms=1, max_payload=10)
    for n in (0, 501):
        with pytest.raises(BadInput):
            queue.take(n, consumer="w")
    queue.schedule([(f"e{n}", b"") for n in range(500)], after_ms=0)
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
        queue.schedule([("a", b""), ("c", b"")], after_ms=10)
    assert picture(client) == before
    assert put(queue, "a", 10) == "same"
    assert put(queue, "a", 5, mode="move") == "moved"
    queue.configure("op", 2, {"closed": "x"})
    with pytest.raises(QueueClosed):
        put(queue, "c", 1)
    clock.advance(20)
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
    clock.advance(3500)
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
    queue.schedule([(f"e{n:03}", b"") for n in range(250)], after_ms=1000)
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
    queue.schedule([(f"e{n:03}", b"") for n in range(250)], after_ms=1000)
    cursor = queue.page("delayed", max=200).cursor
    client.config_resetstat()
    assert queue.page("delayed", cursor, 20).entries[0].id == "e200"
    assert client.info("commandstats")["cmdstat_zrange"]["calls"] == 1


def test_pages_of_one_time_are_exact_while_entries_go(queue: Queue) -> None:
    queue.schedule([(f"e{n:03}", b"") for n in range(100)], after_ms=1000)
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
    queue.schedule([(f"e{n}", b"") for n in range(3)], after_ms=0)
    assert woken() == 3


def test_a_time_far_off_survives_trash_and_undo(queue: Queue) -> None:
    queue.schedule([("a", b"1")], after_ms=99_999_999_999_999)
    queue.schedule([("b", b"2")], after_ms=1000)
    at = queue.get("a").at_ms  # type: ignore[union-attr]
    assert move(queue, "op1", "purge", "delayed", "a", "b") == ["moved"] * 2
    assert move(queue, "op2", "restore", "trash", "a", "b") == ["moved"] * 2
    assert queue.get("a").at_ms == at  # type: ignore[union-attr]


def test_what_a_handler_returned_is_kept_for_a_day(queue: Queue, clock: FakeClock) -> None:
    for id in ("a", "b", "c", "d"):
        put(queue, id, 0)
    a, b, c, _ = take(queue)
    said = queue.settle(
        [
            Settlement(a, "result", b"\x00of a"),
            Settlement(b, "ack"),
            Settlement(c, "give_up", b"no"),
        ]
    )
    assert said == ["done", "done", "dead"]

    def seen() -> list[tuple[Any, ...]]:
        found = queue.outcomes(["a", "b", "c", "d", "e"])
        return [(one.state, one.result, one.reason) for one in found]

    rest = [(None, None, None), ("dead", None, "failed"), ("pending", None, None)]
    assert seen() == [("done", b"\x00of a", None), *rest, (None, None, None)]
    entry = queue.get("a")
    assert entry and (entry.state, entry.record) == ("done", b"\x00of a")
    assert entry.since_ms == clock.now_ms
    clock.advance(24 * 3_600_000 - 1)
    queue.sweep()
    assert seen()[0] == ("done", b"\x00of a", None)
    clock.advance(1)
    queue.sweep()
    assert seen()[0] == (None, None, None)


def test_new_results_make_room_by_removing_old_ones(queue: Queue, clock: FakeClock) -> None:
    def results(*ids: str) -> None:
        queue.schedule([(id, b"") for id in ids])
        queue.settle([Settlement(held, "result", b"x") for held in take(queue)])

    results("a", "b", "c")
    clock.advance(24 * 3_600_000)
    results("d")
    assert sum(one.state == "done" for one in queue.outcomes(["a", "b", "c", "d"])) == 2


def test_a_result_of_a_run_that_is_followed_by_another(queue: Queue, clock: FakeClock) -> None:
    put(queue, "e", 0)
    (held,) = take(queue)
    assert put(queue, "e", 100, mode="move") == "again"
    queue.settle([Settlement(held, "result", b"first")])
    assert [one.state for one in queue.outcomes(["e"])] == ["delayed"]
    assert queue.client.hget("redisq:{q}:result", "e") == b"first"


@pytest.mark.alike
@pytest.mark.parametrize("outcome", ["result", "reject"])
def test_who_waits_for_an_entry_is_told_of_its_end(url: str, outcome: Any) -> None:
    """Without the message the waiter would look again in an hour."""
    with connect(url) as client, connect(url) as other:
        queue, found = DelaySet(client, "q"), list[EntryOutcome]()
        put(queue, "e", 0)
        waiter = threading.Thread(
            target=lambda: found.extend(wait(DelaySet(other, "q"), ["e"], reread_s=3600.0))
        )
        waiter.start()
        while not client.pubsub_numsub("redisq:{q}:result:e")[0][1]:
            time.sleep(0.005)
        (held,) = queue.take(1, consumer="w").deliveries
        queue.settle([Settlement(held, outcome, b"x")])
        waiter.join()
    assert [one.state for one in found] == ["done" if outcome == "result" else "dead"]


def test_results_outlive_the_shard_in_which_they_came(client: redis.Redis) -> None:
    queue = ShardedDelaySet(client, "q", shards=4)
    ids = [f"e{n}" for n in range(40)]
    queue.schedule([(id, b"") for id in ids])
    taken = queue.take(100, consumer="w").deliveries
    while len(taken) < 40:
        taken += queue.take(100, consumer="w").deliveries
    queue.settle([Settlement(held, "result", held.id.encode()) for held in taken])
    queue.schedule([("waits", b"")])
    for shards in (1, 3):
        while queue.resize(shards):
            pass
        fresh = ShardedDelaySet(client, "q")
        assert [one.result for one in fresh.outcomes(ids)] == [id.encode() for id in ids]
        assert fresh.outcomes(["waits", "never"])[0].state == "waiting"
        assert fresh.invariants() == []
        if shards == 1:
            assert not client.exists("redisq:{q/3}:result", "redisq:{q/3}:result_at")

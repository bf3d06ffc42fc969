"""What handlers returned, in the queues that keep it by the ids of entries."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest
import redis

from redisq_ops.core.engine.entry_results import EntryResults
from redisq_ops.core.engine.wait import wait
from redisq_ops.core.model.clock import FakeClock
from redisq_ops.core.model.entry import Entry, EntryOutcome, Settlement
from redisq_ops.core.queues.delay import DelaySet, ShardedDelaySet
from redisq_ops.core.queues.fair import FairQueue, ShardedFairQueue
from redisq_ops.core.redis.client import connect

from ...queue_steps import eventually, take

KINDS = {"delay": DelaySet, "fair": FairQueue}
SHARDED: dict[str, Any] = {"delay": ShardedDelaySet, "fair": ShardedFairQueue}


def put(queue: Any, *ids: str) -> None:
    """Add entries that are due; in a fair queue each is another client's."""
    if isinstance(queue, DelaySet):
        queue.schedule([(id, b"") for id in ids])
        return
    for id in ids:
        queue.submit(f"client-of-{id}", [(id, b"")])


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture(params=KINDS)
def queue(
    client: redis.Redis, clock: FakeClock, request: pytest.FixtureRequest
) -> Iterator[EntryResults[redis.Redis]]:
    queue = KINDS[request.param](client, "q", clock=clock)
    yield queue
    assert queue.invariants() == []


@pytest.mark.parametrize("end", ["ack", "purge"])
def test_a_later_run_without_a_result_is_not_shown_with_an_earlier_ones(
    queue: Any, end: str
) -> None:
    put(queue, "a", "b")
    queue.settle([Settlement(held, "result", b"6") for held in take(queue)])
    put(queue, "a")
    (held,) = take(queue)
    if end == "ack":
        queue.settle([Settlement(held, "ack")])
    else:
        queue.settle([Settlement(held, "reject", b"no")])
        queue.move("op", 1, ["a"], source="dead", target="gone", high_water_ms=2**52)
    of_a, of_b = queue.outcomes(["a", "b"])
    assert (of_a.state, of_a.result) == (None, None)
    assert (of_b.state, of_b.result) == ("done", b"6")


def test_what_a_handler_returned_is_kept_for_a_day(queue: Any, clock: FakeClock) -> None:
    put(queue, "a", "b", "c", "d")
    a, b, c, _ = sorted(take(queue), key=lambda held: held.id)
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
    assert queue.get("a") == Entry("a", "done", since_ms=clock.now_ms, record=b"\x00of a")
    clock.now_ms += 24 * 3_600_000 - 1
    queue.sweep()
    assert seen()[0] == ("done", b"\x00of a", None)
    clock.advance(0.001)
    queue.sweep()
    assert seen()[0] == (None, None, None)


def test_new_results_make_room_by_removing_old_ones(queue: Any, clock: FakeClock) -> None:
    def results(*ids: str) -> None:
        put(queue, *ids)
        queue.settle([Settlement(held, "result", b"x") for held in take(queue)])

    results("a", "b", "c")
    clock.now_ms += 24 * 3_600_000
    results("d")
    assert sum(one.state == "done" for one in queue.outcomes(["a", "b", "c", "d"])) == 2


def test_an_id_that_is_used_again_has_its_own_outcome(queue: Any) -> None:
    put(queue, "a")
    queue.settle([Settlement(held, "result", b"first") for held in take(queue)])
    put(queue, "a")
    (again,) = queue.outcomes(["a"])
    assert (again.state, again.result) == ("waiting", None)
    queue.settle([Settlement(held, "result", b"second") for held in take(queue)])
    assert [one.result for one in queue.outcomes(["a"])] == [b"second"]


@pytest.mark.alike
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("outcome", ["result", "reject"])
def test_who_waits_for_an_entry_is_told_of_its_end(url: str, outcome: Any, kind: str) -> None:
    """Without the message the waiter would look again in an hour."""
    with connect(url) as client, connect(url) as other:
        queue, found = KINDS[kind](client, "q"), list[EntryOutcome]()
        put(queue, "e")
        waiter = threading.Thread(
            target=lambda: found.extend(wait(KINDS[kind](other, "q"), ["e"], reread=3600.0)),
            daemon=True,
        )
        waiter.start()
        eventually(lambda: client.pubsub_numsub("redisq:{q}:result:e")[0][1])
        (held,) = queue.take(1, consumer="w").deliveries
        queue.settle([Settlement(held, outcome, b"x")])
        waiter.join(90)
    assert [one.state for one in found] == ["done" if outcome == "result" else "dead"]


@pytest.mark.parametrize("kind", KINDS)
def test_results_outlive_the_shard_in_which_they_came(client: redis.Redis, kind: str) -> None:
    queue = SHARDED[kind](client, "q", shards=4)
    ids = [f"e{n}" for n in range(40)]
    put(queue, *ids)
    taken = queue.take(100, consumer="w").deliveries
    while len(taken) < 40:
        taken += queue.take(100, consumer="w").deliveries
    queue.settle([Settlement(held, "result", held.id.encode()) for held in taken])
    for shards in (1, 3):
        while queue.resize(shards):
            pass
        fresh = SHARDED[kind](client, "q")
        assert [one.result for one in fresh.outcomes(ids)] == [id.encode() for id in ids]
        assert fresh.invariants() == []
        if shards == 1:
            assert not client.exists("redisq:{q/3}:result", "redisq:{q/3}:result_at")
    put(fresh, "waits")
    assert [one.state for one in fresh.outcomes(["waits", "never"])] == ["waiting", None]


def test_the_latest_result_counts_in_whatever_shard_it_ended(
    client: redis.Redis, clock: FakeClock
) -> None:
    queue = ShardedFairQueue(client, "q", shards=4, clock=clock)
    for n, name in enumerate("abcdefgh"):
        queue.submit(name, [("x", b"")])
        (held,) = take(queue)
        assert queue.settle([Settlement(held, "result", name.encode())]) == ["done"]
        clock.now_ms += 5
        (end,) = queue.outcomes(["x"])
        assert (end.state, end.result) == ("done", name.encode()), n
    assert sum(client.exists(keys["result"]) for keys in queue.shard_keys) > 1
    while queue.resize(1):
        pass
    (end,) = queue.outcomes(["x"])
    assert end.result == b"h"

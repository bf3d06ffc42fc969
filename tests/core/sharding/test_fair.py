"""A fair queue of several shards: used like one, turns kept, its number changed under way."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Any

import pytest
import redis

from redisq_ops.core.model.clock import FakeClock
from redisq_ops.core.model.entry import Client, Delivery, Settlement
from redisq_ops.core.model.errors import Refused
from redisq_ops.core.model.settings import LEASE_MS
from redisq_ops.core.queues.fair import FairQueue, ShardedFairQueue
from redisq_ops.core.redis.client import connect
from redisq_ops.core.redis.operation import run
from redisq_ops.core.sharding.shard_map import home
from redisq_ops.core.worker import Worker
from redisq_ops.demo.server import binaries, cluster
from redisq_ops.ops.deployment import Deployment

from ...queue_steps import Killed, run_until

Queue = ShardedFairQueue[redis.Redis]
NAMES = [f"client-{n}" for n in range(12)]


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def opened(client: redis.Redis, clock: FakeClock) -> Callable[..., Queue]:
    def open_(shards: int = 4) -> Queue:
        return ShardedFairQueue(client, "q", shards=shards, clock=clock, random=Random(1))

    return open_


@pytest.fixture
def queue(opened: Callable[..., Queue]) -> Queue:
    return opened()


def fill(queue: Any, client: str, n: int, start: int = 0) -> list[str]:
    rows = [(f"{client}.{k}", f"{client}.{k}".encode()) for k in range(start, start + n)]
    return [one.word for one in queue.submit(client, rows)]


def take(queue: Any, n: int = 500) -> list[Delivery]:
    found: list[Delivery] = []
    while len(found) < n and (
        more := queue.take(min(100, n - len(found)), consumer="w").deliveries
    ):
        found += more
    return found


def settle(queue: Any, outcome: Any, *deliveries: Delivery) -> set[str]:
    return set(queue.settle([Settlement(d, outcome, b"boom") for d in deliveries]))


def waiting(queue: Any, size: int = 7) -> list[str]:
    found, cursor = [], None
    while True:
        page = queue.page("waiting", cursor, size)
        assert len(page.entries) <= size
        found += [entry.id for entry in page.entries]
        cursor = page.cursor
        if cursor is None:
            return found


def test_it_is_used_like_one(queue: Queue) -> None:
    for name in NAMES:
        assert fill(queue, name, 10) == ["ok"] * 10
    assert queue.counts().waiting == 120
    shown = queue.clients(2, 4)
    assert [one.client for one in shown.clients] == sorted(NAMES)[2:6] and shown.total == 12
    assert sorted(waiting(queue)) == sorted(f"{name}.{k}" for name in NAMES for k in range(10))
    order = waiting(queue)
    for start in (0, 30, 115, 120):
        page = queue.page("waiting", start=start, max=20)
        assert [entry.id for entry in page.entries] == order[start : start + 20]
    held = take(queue, 50)
    assert {d.payload.decode() for d in held} == {d.id for d in held}
    assert settle(queue, "ack", *held[:20]) == {"done"}
    assert settle(queue, "reject", *held[20:30]) == {"dead"}
    assert settle(queue, "fail", *held[30:]) == {"retry"}
    assert {e.client for e in queue.page("dead").entries} <= set(NAMES)
    dead = queue.page("dead", payloads=True).entries[0]
    assert queue.get(dead.id) == dead
    assert settle(queue, "ack", *take(queue)) == {"done"}
    assert queue.counts().done == 110
    assert queue.invariants() == []


def test_an_id_is_guarded_in_all_shards(queue: Queue) -> None:
    assert fill(queue, "ann", 1) == ["ok"]
    for name in NAMES:
        (said,) = queue.submit(name, [("ann.0", b"ann.0")])
        assert said.word == "exists"
    assert fill(queue, "ann", 2) == ["same", "ok"]
    assert len({one.id for one in queue.submit("ann", [b""] * 50)}) == 50


def test_a_client_alone_in_its_shard_gets_no_more_than_one_among_many(queue: Queue) -> None:
    by_home: dict[int, list[str]] = {}
    for n in range(200):
        by_home.setdefault(home(f"c{n}", 4), []).append(f"c{n}")
    names = [by_home[0][0], *by_home[1][:9], *by_home[2][:5]]
    for name in names:
        fill(queue, name, 100)
    served = Counter(d.client for n in (10, 1, 30, 100, 7, 2) * 2 for d in take(queue, n))
    assert served.total() == 300
    assert max(served.values()) <= 20 + 5 and min(served[name] for name in names) >= 20 - 5


def test_order_within_a_client_and_rules_hold(queue: Queue) -> None:
    fill(queue, "ann", 30)
    fill(queue, "bob", 30)
    assert queue.limit("ann", 2) == 0 and queue.block("bob")
    held = take(queue)
    assert [d.id for d in held] == ["ann.0", "ann.1"]
    assert queue.get_client("ann") == Client("ann", 28, 2, 1, False, 2)
    assert [entry.id for entry in queue.first_waiting("ann", 2)] == ["ann.2", "ann.3"]
    assert queue.unblock("bob")
    assert [d.id for d in take(queue)] == [f"bob.{k}" for k in range(30)]
    assert settle(queue, "release", *held) == {"released"}
    assert [d.id for d in take(queue)] == ["ann.0", "ann.1"]


def test_deleting_a_client_and_back(queue: Queue) -> None:
    for name in NAMES:
        fill(queue, name, 25)
    order = waiting(queue)
    gone = queue.delete("client-3", "delete-3", 10)
    assert (gone.steps, gone.entries, queue.length("client-3")) == (3, 25, 0)
    for step in (3, 2, 1):
        queue.undo("delete-3", step, target="trash", by="back", seq=4 - step)
    assert waiting(queue) == order
    assert queue.invariants() == []


@pytest.mark.parametrize(("before", "after"), [(4, 7), (7, 2), (1, 3), (3, 1)])
def test_the_number_changes_while_work_goes_on(
    client: redis.Redis, opened: Callable[..., Queue], clock: FakeClock, before: int, after: int
) -> None:
    queue: Any = opened(before) if before > 1 else FairQueue(client, "q", clock=clock)
    expected = set()
    for name in NAMES:
        fill(queue, name, 10)
        expected |= {f"{name}.{k}" for k in range(20)}
    queue.weigh("client-5", 7)
    queue.block("client-6")
    held = take(queue, 30)
    changing = opened()
    left = changing.resize(after)
    assert left > 0
    late = opened()  # knows nothing of it yet
    for name in NAMES:
        assert fill(late, name, 20) == ["same"] * 10 + ["ok"] * 10
    done = [d.id for d in held]
    assert settle(changing, "ack", *held) == {"done"}
    assert late.unblock("client-6")
    while taken := take(late):
        assert settle(late, "ack", *taken) == {"done"}
        done += [d.id for d in taken]
    assert sorted(done) == sorted(expected), "each once, none lost"
    assert changing.resize(after) == 0
    assert changing.get_client("client-5") == Client("client-5", 0, 0, 7, False, None)
    assert changing.invariants() == []
    again = opened()
    for name in NAMES:
        fill(again, name, 1, start=50)
    assert len(take(again)) == 12
    homes = [again._shard(home(name, after)) for name in NAMES]
    assert {part.shard for part in homes} <= set(range(after))


def test_a_producer_of_before_is_turned_away_and_learns(
    client: redis.Redis, opened: Callable[..., Queue]
) -> None:
    old, plain = opened(3), FairQueue(client, "p")
    assert fill(old, "ann", 1) == ["ok"]
    new = opened()
    new.resize(8)
    assert [fill(old, name, 1) for name in NAMES] == [["ok"]] * 12
    for name in NAMES:
        place = next(p for p in new._all_shards() if p.keys and _has(client, p, f"{name}.0"))
        assert place.shard == home(name, 8)
    fill(plain, "ann", 1)
    ShardedFairQueue(client, "p", shards=2).resize(2)
    with pytest.raises(Refused, match="shards now"):
        fill(plain, "bob", 1)


def _has(client: redis.Redis, part: Any, id: str) -> bool:
    return bool(client.hexists(part.keys["body"], id))


def test_a_dead_letter_in_a_shard_that_is_given_up_holds_the_change_open(
    client: redis.Redis, opened: Callable[..., Queue]
) -> None:
    queue = opened(6)
    for name in NAMES:
        fill(queue, name, 1)
    settle(queue, "reject", *take(queue))
    assert (left := queue.resize(1)) > 0
    page = queue.page("dead")
    assert page.total == 12
    said = queue.move(
        "back",
        1,
        [e.id for e in page.entries],
        source="dead",
        target="waiting",
        high_water_ms=queue.now(),
    )
    assert said == ["moved"] * 12
    assert len(settle(queue, "ack", *take(queue))) == 1
    assert queue.resize(1) == 0 and left <= 12
    assert queue.counts().done == 12


def parts_left(client: redis.Redis, k: int) -> set[bytes]:
    """What is there of a shard for good: counters per minute, for one, go by themselves."""
    keys = [key for key in client.scan_iter(f"redisq:{{q/{k}}}:*") if client.ttl(key) == -1]
    return {key.split(b":", 2)[2] for key in keys}


@pytest.mark.slow
def test_a_shard_that_is_given_up_leaves_its_fence_only(
    client: redis.Redis, opened: Callable[..., Queue]
) -> None:
    queue = opened(6)
    names = [f"client-{n}" for n in range(250)]
    for name in names:
        fill(queue, name, 3)
        if name.endswith("7"):
            queue.weigh(name, 5)
        if name.endswith("8"):
            queue.block(name)
    # Purged for good while they waited: holes that no turn comes by any more.
    rows = [f"{name}.{k}" for name in names for k in (1, 2)]
    for step, low in enumerate(range(0, 500, 100), 1):
        queue.move(
            "purge",
            step,
            rows[low : low + 100],
            source="waiting",
            target="gone",
            high_water_ms=queue.now(),
        )
    for name in names:
        queue.unblock(name)
    assert settle(queue, "ack", *take(queue)) == {"done"}
    for name in names:
        if name.endswith("8"):
            queue.block(name)
    lists = [key for k in range(2, 6) for key in client.scan_iter(f"redisq:{{q/{k}}}:c:*")]
    assert lists, "holes behind the last turn"
    while opened().resize(2):
        pass
    for k in range(2, 6):
        assert parts_left(client, k) <= {b"cfg", b"stat"}
    after = opened()
    assert after.invariants() == []
    assert after.get_client("client-7") == Client("client-7", 0, 0, 5, False, None)
    assert after.counts().done == 250
    assert after.weigh("client-7", 2) == 5 and after.block("client-8") is False
    late = ShardedFairQueue(client, "q", shards=6, clock=queue.clock)
    late.shards, late.layout, late._registered = 6, 0, True  # knows nothing of it yet
    late.weigh("client-17", 3)
    for k in range(2, 6):
        assert parts_left(client, k) <= {b"cfg", b"stat"}
    while opened().resize(6):
        pass
    grown = opened()
    for name in names:
        assert fill(grown, name, 1) == ["ok"]
    assert len(take(grown)) == 225
    assert grown.invariants() == []


@pytest.mark.slow
def test_a_change_that_is_killed_anywhere_is_gone_on_with(
    client: redis.Redis, opened: Callable[..., Queue]
) -> None:
    """Rules arrive, entries are each worked on once, and the shards given up are cleared."""
    for step in range(60):
        client.flushall()
        queue = opened(4)
        for name in NAMES:
            fill(queue, name, 3)
        queue.move(
            "purge",
            1,
            [f"{name}.2" for name in NAMES],
            source="waiting",
            target="gone",
            high_water_ms=queue.now(),
        )
        queue.weigh("client-5", 7)
        done = take(queue, 24)
        assert settle(queue, "ack", *done) == {"done"}
        try:
            run_until(client, opened().resize.op(1 + step % 2), step, step % 3 == 0)
            killed = False
        except Killed:
            killed = True
        process = opened()
        for name in NAMES:
            assert fill(process, name, 1, start=9) == ["ok"]
        assert len(take(process, 100)) == 12
        while opened().resize(1 + step % 2):
            settle(opened(), "ack", *late(client, opened()))
        for k in range(1 + step % 2, 4):
            assert parts_left(client, k) <= {b"cfg", b"stat"}
        after = opened()
        assert after.get_client("client-5").weight == 7  # type: ignore[union-attr]
        assert after.invariants() == []
        if not killed:
            break
    else:
        pytest.fail("it never came to its end")


def late(client: redis.Redis, queue: Queue) -> list[Delivery]:
    """What is pending is lost to whoever has it, and taken again."""
    queue.clock.now_ms += LEASE_MS  # type: ignore[attr-defined]
    return take(queue)


def test_a_destroyed_queue_leaves_nothing_in_any_shard_there_ever_was(
    client: redis.Redis, opened: Callable[..., Queue]
) -> None:
    queue = opened(7)
    for name in NAMES:
        fill(queue, name, 2)
    assert settle(queue, "ack", *take(queue)) == {"done"}
    assert queue.resize(2) == 0
    # What an interrupted resize left in shards that were given up.
    lost = FairQueue(None, "q", shard=5).keys
    client.rpush(lost["c_"] + "ann", "a", "b")
    client.hset(lost["accounts"], "ann", "0 0 0 0 2 2 0 1 0 0")
    client.zadd(lost["clients"], {"ann": 0})
    client.hset(lost["holes"], mapping={"ann/a": "1", "ann/b": "1"})
    while opened().destroy_step():
        pass
    assert {key for key in client.scan_iter() if b":rate:" not in key} == {b"redisq:registry"}


def test_rules_reach_dead_letters_that_are_replayed_in_a_former_home(
    client: redis.Redis, opened: Callable[..., Queue]
) -> None:
    queue = opened(4)
    moving = [n for n in NAMES if home(n, 4) != home(n, 7)][:2]
    for name in moving:
        fill(queue, name, 3)
    settle(queue, "reject", *take(queue))
    assert opened().resize(7) == 0
    after, (first, second) = opened(), moving
    assert after.block(first) and after.limit(second, 1) == 0
    replay = [e.id for e in after.page("dead").entries]
    said = after.move("back", 1, replay, source="dead", target="waiting", high_water_ms=after.now())
    assert said == ["moved"] * 6
    assert [d.client for d in take(after)] == [second]
    assert after.get_client(first) == Client(first, 3, 0, 1, True, None)
    assert after.unblock(first) and after.unblock(first) is False
    assert after.limit(second, 0) == 1
    assert len(take(after)) == 5
    assert after.invariants() == []


def test_a_rule_changed_while_it_is_brought_to_its_new_home_is_kept(
    client: redis.Redis, opened: Callable[..., Queue]
) -> None:
    """An operator unblocks between the mover's look and its copy."""
    queue = opened(4)
    name = next(n for n in NAMES if home(n, 4) != home(n, 7))
    fill(queue, name, 1)
    queue.block(name)
    mover = opened()
    bring = mover._bring_rules

    async def late(part: Any, client: str, own: Any) -> None:
        assert opened().unblock(name)
        await bring(part, client, own)

    mover._bring_rules = late  # type: ignore[method-assign]
    mover.resize(7)
    assert opened().get_client(name) == Client(name, 1, 0, 1, False, None)
    fill(opened(), name, 1, start=10)
    assert len(take(opened())) == 2


def test_a_late_rule_begins_nothing_in_a_shard_that_is_given_up(
    client: redis.Redis, clock: FakeClock, opened: Callable[..., Queue]
) -> None:
    """It comes from a process that doesn't know of the new number yet."""
    for name in NAMES:
        fill(opened(), name, 1)
    settle(opened(), "ack", *take(opened()))
    assert opened().resize(1) == 0
    gone = FairQueue(client, "q", shard=3, clock=clock)
    assert gone.control("late", 1, "weight", "ann", 5) == ("same", 1)
    assert not client.exists(gone.keys["accounts"], gone.keys["clients"], gone.keys["hist"])
    assert opened().get_client("ann") is None


def test_the_inverse_of_a_rule_says_what_it_was_also_while_the_number_changes(
    opened: Callable[..., Queue],
) -> None:
    queue = opened(4)
    name = next(n for n in NAMES if home(n, 4) != home(n, 7))
    fill(queue, name, 1)
    queue.weigh(name, 5)
    assert opened().resize(7) > 0
    assert opened().control("op", 1, "weight", name, 9) == ("ok", 5)
    assert opened().control("op", 1, "weight", name, 9) == ("ok", 5)
    assert opened().undo_change("undo", 1, "weight", [name, "5"]) == 1
    assert opened().get_client(name) == Client(name, 1, 0, 5, False, None)


def test_lost_leases_come_back_in_whatever_shard(queue: Queue, clock: FakeClock) -> None:
    for name in NAMES:
        fill(queue, name, 2)
    first = take(queue)
    clock.now_ms += LEASE_MS
    assert sorted(d.id for d in take(queue)) == sorted(d.id for d in first)
    assert settle(queue, "ack", *first) == {"stale"}


def test_the_registry_says_what_it_is(client: redis.Redis, queue: Queue) -> None:
    fill(queue, "ann", 3)
    found = run(client, Deployment(client).queue("q"))
    assert isinstance(found, ShardedFairQueue) and found.shards == 4
    assert found.counts().waiting == 3


@pytest.mark.slow
@pytest.mark.parametrize("binary", sorted(binaries()))
def test_on_a_cluster_its_shards_are_on_all_nodes(binary: str) -> None:
    with cluster(binaries()[binary]) as nodes:
        client = connect(nodes.urls[0].replace("redis://", "redis+cluster://"))
        queue = ShardedFairQueue(client, "q", shards=8)
        at = {client.get_node_from_key(part.keys["body"]).name for part in queue._all_shards()}  # type: ignore[union-attr]
        assert len(at) == 3
        for name in NAMES:
            assert fill(queue, name, 20) == ["ok"] * 20
        queue.limit("client-1", 5)
        assert [d.id for d in take(queue, 60) if d.client == "client-0"][:2] == [
            "client-0.0",
            "client-0.1",
        ]
        assert len(waiting(queue, 50)) == 180
        gone = queue.delete("client-2", "gone")
        for step in range(gone.steps, 0, -1):
            queue.undo("gone", step, target="trash", by="back", seq=1 + gone.steps - step)
        held = [e.id for e in queue.page("pending").entries]
        assert set(
            queue.move(
                "requeue", 1, held, source="pending", target="waiting", high_water_ms=queue.now()
            )
        ) == {"moved"}
        while queue.resize(5):
            Worker(queue, lambda work: None, burst=True, batch=50).run()
        assert queue.counts().done == 240
        assert queue.invariants() == []

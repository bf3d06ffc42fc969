"""The circular queue over several shards: routing, takes, and changing their number under load."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from random import Random
from typing import Any

import pytest
import redis

from redisq_ops.core.model.clock import FakeClock
from redisq_ops.core.model.entry import Settlement
from redisq_ops.core.model.errors import BadInput, Refused, WrongKind
from redisq_ops.core.model.settings import LEASE_MS
from redisq_ops.core.queues.circular import CircularQueue, ShardedCircularQueue
from redisq_ops.core.redis import operation
from redisq_ops.core.redis.client import connect
from redisq_ops.core.redis.operation import BlockingClient
from redisq_ops.core.sharding.shard_map import home
from redisq_ops.core.worker import Worker
from redisq_ops.demo.server import cluster
from redisq_ops.ops.deployment import Deployment

from ...conftest import BINARIES
from ...queue_steps import Killed, ack_all, kills, run_until, settle
from ...queue_steps import take_all as take

Queue = ShardedCircularQueue[BlockingClient]
Opener = Callable[..., Queue]
SHAPES = [
    pytest.param({}, id="list"),
    pytest.param({"residence": "rotate"}, id="rotating", marks=pytest.mark.slow),
]


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture(params=SHAPES)
def opened(request: pytest.FixtureRequest, client: redis.Redis, clock: FakeClock) -> Opener:
    """Opens the queue as another process would; the first says what it is."""

    def opener(shards: int = 12, seed: int = 1, **options: Any) -> Queue:
        given = {**request.param, **options}
        return ShardedCircularQueue(
            client, "q", shards=shards, clock=clock, random=Random(seed), **given
        )

    return opener


@pytest.fixture
def queue(opened: Opener) -> Queue:
    return opened()


def ids(n: int) -> list[str]:
    return [f"id-{i}" for i in range(n)]


def put(queue: Queue, names: list[str]) -> list[str]:
    return queue.push([(name, name.encode()) for name in names])


def test_ids_are_spread_and_each_is_in_the_queue_once(queue: Queue, client: redis.Redis) -> None:
    assert put(queue, ids(400)) == ["new"] * 400
    assert put(queue, ids(400)) == ["queued"] * 400
    sizes: list[Any] = [client.llen(keys["queue"]) for keys in queue.shard_keys]
    assert sum(sizes) == 400 and min(sizes) > 15
    assert queue.counts().waiting == 400
    held = take(queue, 50)
    assert put(queue, [d.id for d in held[:10]]) == ["again"] * 10
    assert settle(queue, "ack", *held) == ["done"] * 50
    ran = [d.id for d in held] + ack_all(queue)
    assert Counter(ran) == Counter([*ids(400), *(d.id for d in held[:10])])
    assert queue.counts().done == 410
    assert queue.invariants() == []


def test_order_holds_within_a_shard(queue: Queue) -> None:
    put(queue, ids(300))
    order = ack_all(queue)
    for k in range(12):
        here = [name for name in ids(300) if home(name, 12) == k]
        assert [name for name in order if home(name, 12) == k] == here


def test_every_process_must_agree_and_every_shard_knows(
    opened: Opener, client: redis.Redis, clock: FakeClock
) -> None:
    queue = opened(3, idle="sleep")
    queue.push("a")
    shapes = {client.hget(keys["cfg"], "circle") for keys in queue.shard_keys}
    assert len(shapes) == 1 and shapes != {None}
    with pytest.raises(WrongKind, match="idle=sleep, and here is asked for wake"):
        opened(idle="wake").push("b")
    with pytest.raises(WrongKind, match="has shards"):
        CircularQueue(client, "q").push("b")
    with pytest.raises(BadInput):
        opened(idle="lap", residence="list")
    assert opened(idle="sleep").resize(5) == 0
    grown = opened(idle="sleep")
    grown.push("a")
    assert {client.hget(keys["cfg"], "circle") for keys in grown.shard_keys} == shapes
    assert len(grown.shard_keys) == 5


def test_pages_counts_and_moves_are_of_the_whole(queue: Queue, clock: FakeClock) -> None:
    put(queue, ids(200))
    seen, cursor = [], None
    while True:
        page = queue.page("waiting", cursor, 37, payloads=True)
        assert page.total == 200
        seen += [entry.id for entry in page.entries]
        cursor = page.cursor
        if cursor is None:
            break
    assert sorted(seen) == sorted(ids(200))
    assert [e.id for e in queue.page("waiting", start=90, max=40).entries] == seen[90:130]
    said = queue.move(
        "op", 1, [*ids(60), "nobody"], source="waiting", target="trash", high_water_ms=clock.now_ms
    )
    assert said == ["moved"] * 60 + ["changed"]
    assert (queue.counts().waiting, queue.counts().trash) == (140, 60)
    assert queue.undo("op", 1, target="trash", by="u", seq=1) == (60, 0)
    assert sorted(ack_all(queue)) == sorted(ids(200))


def test_another_producer_pushes_to_shard_0(
    queue: Queue, client: redis.Redis, clock: FakeClock
) -> None:
    strangers = [name for name in ids(40) if home(name, 12) != 0][:10]
    client.lpush("redisq:{q}:queue", *strangers, "not an id")
    assert queue.counts().waiting == 11
    held = take(queue)
    assert sorted(d.id for d in held) == sorted(strangers)
    assert queue.get(strangers[0]).state == "pending"  # type: ignore[union-attr]
    assert (
        queue.move(
            "op", 1, strangers, source="pending", target="waiting", high_water_ms=clock.now_ms
        )
        == ["moved"] * 10
    )
    held = take(queue)
    assert settle(queue, "ack", *held) == ["done"] * 10
    assert queue.counts().dead == 1
    assert queue.invariants() == []


def test_idle_workers_look_again_as_the_queue_says(opened: Opener, clock: FakeClock) -> None:
    queue = opened(idle="sleep", turns=2, pause=0.07)
    queue.push("a")
    settle(queue, "ack", *take(queue))
    looks = [queue.take(1, consumer="idle") for _ in range(4)]
    assert [taken.more for taken in looks] == [True, False, False, False]
    assert {taken.look_again_ms for taken in looks[1:]} == {clock.now_ms + 70}


def test_retries_and_lost_leases_of_every_shard_come_back(queue: Queue, clock: FakeClock) -> None:
    put(queue, ids(60))
    held = take(queue)
    settle(queue, "fail", *held[:20], delay=0.5)
    assert queue.take(10, consumer="w").look_again_ms == clock.now_ms + 500
    clock.now_ms += LEASE_MS
    again = [d for _ in range(3) for d in take(queue)]
    assert sorted(d.id for d in again) == sorted(ids(60))
    assert settle(queue, "ack", *held[20:]) == ["stale"] * 40
    assert settle(queue, "ack", *again) == ["done"] * 60


def test_a_worker_of_the_deployment_runs_it(opened: Opener, client: redis.Redis) -> None:
    queue = opened()
    put(queue, ids(100))
    found = operation.run(client, Deployment(client).queue("q"))
    assert isinstance(found, ShardedCircularQueue)
    ran: list[str] = []
    Worker(found, lambda work: ran.append(work.id), burst=True, batch=10).run()
    assert sorted(ran) == sorted(ids(100))


# --- changing their number ------------------------------------------------------------------------


@pytest.mark.parametrize(("before", "after"), [(12, 8), (3, 12), (1, 4), (5, 1)])
def test_all_that_is_there_moves(opened: Opener, clock: FakeClock, before: int, after: int) -> None:
    queue = opened(before)
    put(queue, ids(150))
    first = take(queue, 30)
    settle(queue, "reject", *first[:5])
    settle(queue, "fail", *first[5:10], delay=1)
    queue.move(
        "p",
        1,
        [d.id for d in first[10:15]],
        source="pending",
        target="trash",
        high_water_ms=clock.now_ms,
    )
    held = first[15:]
    assert put(queue, [held[0].id]) == ["again"]
    stale = opened()
    left = opened().resize(after)
    assert left <= len(held)
    assert put(stale, ids(150)[-20:]) == ["queued"] * 20
    assert settle(stale, "ack", *held) == ["done"] * len(held)
    other = opened()
    assert other.resize(after) == 0
    counts = other.counts()
    assert (counts.dead, counts.trash, counts.delayed, counts.waiting) == (5, 5, 5, 121)
    assert other.invariants() == []
    clock.advance(1)
    gone = {d.id for d in [*first[:5], *first[10:]]} - {held[0].id}
    assert sorted(ack_all(other)) == sorted(set(ids(150)) - gone)
    assert put(other, [first[0].id]) == ["new"]


def test_a_run_without_payload_that_follows_moves_too(opened: Opener, clock: FakeClock) -> None:
    queue, names = opened(), ids(20)
    put(queue, names)
    held = take(queue)
    assert queue.push(names) == ["again"] * 20
    settle(queue, "fail", *held, delay=1)
    while opened().resize(5):
        pass
    clock.advance(1)
    for payloads in ({name.encode() for name in names}, {b""}):
        held = take(opened())
        assert len(held) == 20 and {each.payload for each in held} == payloads
        settle(opened(), "ack", *held)
    assert opened().invariants() == []


def test_order_survives_the_move_as_far_as_shards_have_one(opened: Opener) -> None:
    queue = opened(1)
    put(queue, ids(200))
    assert opened().resize(4) == 0
    order = ack_all(opened())
    for k in range(4):
        assert [n for n in order if home(n, 4) == k] == [n for n in ids(200) if home(n, 4) == k]


@pytest.mark.slow
def test_a_mover_killed_at_any_round_trip_loses_and_doubles_nothing(
    opened: Opener, client: redis.Redis
) -> None:
    queue = opened(3)
    put(queue, ids(40))
    ran: list[str] = []
    for _ in kills(client, lambda: opened().resize.op(2)):
        process = opened()
        assert process.invariants() == []
        for delivery in take(process, 1):
            ran.append(delivery.id)
            assert settle(process, "ack", *[delivery]) == ["done"]
    assert opened().resize(2) == 0
    ran += ack_all(opened())
    assert sorted(ran) == sorted(ids(40))
    assert opened().invariants() == []


def test_what_lies_between_two_shards_is_brought_home_by_a_sweep_or_a_push(
    opened: Opener, client: redis.Redis
) -> None:
    queue = opened(3)
    put(queue, ids(40))
    for step in range(30):
        with suppress(Killed):
            run_until(client, opened().resize.op(2), step, True)
        if any(client.exists(keys["transit"]) for keys in queue.shard_keys):
            break
    else:
        pytest.fail("nothing was ever in transit")
    found: list[Any] = [client.hkeys(keys["transit"]) for keys in queue.shard_keys]
    lying = [name.decode() for names in found for name in names]
    process = opened()
    assert put(process, lying[:1]) == ["queued"]
    process.sweep()
    assert not any(client.exists(keys["transit"]) for keys in queue.shard_keys)
    assert process.resize(2) == 0
    assert sorted(ack_all(opened())) == sorted(ids(40))


def test_another_producers_id_that_a_killed_mover_carried_is_brought_home_by_a_sweep(
    opened: Opener, client: redis.Redis
) -> None:
    """It began in shard 0, which isn't its home by either number."""
    queue = opened(3)
    theirs = next(name for name in ids(99) if home(name, 3) and home(name, 2))
    client.lpush(queue.queue_key, theirs)
    assert settle(queue, "fail", *take(queue)) == ["retry"]  # met, so it is known now
    for step in range(30):
        with suppress(Killed):
            run_until(client, opened().resize.op(2), step, True)
        if client.exists(queue.shard_keys[0]["transit"]):
            break
    assert client.hkeys(queue.shard_keys[0]["transit"]) == [theirs.encode()]
    process = opened()
    process.sweep()
    assert not client.exists(queue.shard_keys[0]["transit"])
    assert [d.id for d in take(process)] == [theirs]


def test_an_id_in_two_shards_becomes_one(opened: Opener, client: redis.Redis) -> None:
    """Another producer's in shard 0 and ours at home: the move makes one of them."""
    queue = opened(3)
    name = next(n for n in ids(99) if home(n, 3) == 1 and home(n, 4) == 1)
    put(queue, [name])
    (ours,) = take(queue)
    client.lpush(queue.queue_key, name)
    (theirs,) = take(queue)
    assert settle(queue, "fail", *[theirs], delay=10) == ["retry"]
    assert opened().resize(4) == 0
    after = opened()
    counts = after.counts()
    assert (counts.pending, counts.delayed) == (1, 0)
    assert settle(after, "ack", *[ours]) == ["done"]
    assert [d.id for d in take(after)] == [name], "theirs is the run that follows"
    assert after.invariants() == []


def test_a_plain_queue_gets_shards_and_loses_them_again(
    opened: Opener, client: redis.Redis, clock: FakeClock
) -> None:
    options = opened().options
    plain = CircularQueue(client, "q", clock=clock, **options)
    plain.push([(name, name.encode()) for name in ids(30)])
    held = plain.take(3, consumer="w").deliveries
    queue = opened()
    left = queue.resize(12)
    assert left <= 3
    with pytest.raises(Refused, match="has shards now"):
        plain.push("stranger")
    assert plain.settle([Settlement(d, "ack") for d in held]) == ["done"] * 3
    assert queue.resize(12) == 0
    client.lpush("redisq:{q}:queue", "foreign")
    assert queue.resize(1) == 0
    again = CircularQueue(client, "q", clock=clock, **options)
    assert again.counts().waiting == 28
    assert again.push("id-29") == ["queued"]
    assert len(again.take(100, consumer="w").deliveries) == 28


def test_a_shard_that_is_given_up_leaves_its_fence_only(
    opened: Opener, client: redis.Redis
) -> None:
    queue = opened(6)
    put(queue, ids(100))
    assert opened().resize(2) == 0
    for k in range(2, 6):
        left = {key.rpartition(b":")[2] for key in client.scan_iter(f"redisq:{{q/{k}}}:*")}
        assert left <= {b"cfg", b"stat"} | {part for part in left if part.isdigit()}
    assert opened().resize(6) == 0
    grown = opened()
    assert grown.counts().waiting == 100
    assert sorted(ack_all(grown)) == sorted(ids(100))
    assert grown.invariants() == []
    while grown.destroy_step():
        pass
    assert {key for key in client.scan_iter() if b"rate" not in key} == {b"redisq:registry"}


def test_another_producers_id_at_work_does_not_hold_up_a_change(
    opened: Opener, client: redis.Redis
) -> None:
    queue = opened(3)
    put(queue, ids(20))
    settle(queue, "ack", *take(queue))
    theirs = [n for n in ids(99) if home(n, 3) and home(n, 5)][:4]
    client.lpush(queue.queue_key, *theirs)
    held = take(queue)
    assert sorted(d.id for d in held) == sorted(theirs)
    assert opened().resize(5) == 0
    after = opened()
    assert after.counts().pending == 4 and after.invariants() == []
    assert {after.get(name).state for name in theirs} == {"pending"}  # type: ignore[union-attr]
    assert settle(after, "fail", *held[:1]) == ["retry"]
    assert settle(after, "ack", *[*held[1:], *take(after)]) == ["done"] * 4
    mine = next(n for n in ids(99) if home(n, 5) == 0 and home(n, 4))
    put(after, [mine])
    (working,) = take(after)
    assert opened().resize(4) == 1, "ours does: its new home must not get it once more"
    assert put(opened(), [mine]) == ["again"]
    assert settle(opened(), "ack", working) == ["done"]
    assert opened().resize(4) == 0


@pytest.mark.slow
def test_on_a_cluster_shards_are_on_all_nodes(clock: FakeClock) -> None:
    with cluster(BINARIES["valkey"]) as nodes:
        client = connect(nodes.urls[0].replace("redis:", "redis+cluster:"))
        queue: Queue = ShardedCircularQueue(client, "q", clock=clock)
        put(queue, ids(120))
        spread = []
        for url in nodes.urls:
            with redis.Redis.from_url(url) as node:
                spread.append(sum(b":body" in key for key in node.scan_iter()))
        assert sum(spread) == 12
        assert all(spread)
        assert queue.resize(5) == 0
        assert sorted(ack_all(queue)) == sorted(ids(120))
        assert queue.invariants() == []
        client.close()


def test_a_payload_that_meets_its_id_on_the_way_is_kept(
    opened: Opener, client: redis.Redis
) -> None:
    queue = opened(2)
    if queue.shape.repeats == "each":
        return
    name = next(n for n in ids(99) if home(n, 2) == 1)
    client.lpush(queue.queue_key, name)
    (theirs,) = take(queue)
    assert settle(queue, "release", *[theirs]) == ["released"]
    assert queue.push([(name, b"important")]) == ["new"]
    while opened().resize(1):
        pass
    assert [d.payload for d in take(opened())] == [b"important"]


def test_an_id_that_died_in_two_shards_is_one_letter(opened: Opener, client: redis.Redis) -> None:
    queue = opened(2)
    name = next(n for n in ids(99) if home(n, 2) == 1 and home(n, 3) == 1)
    put(queue, [name])
    (ours,) = take(queue)
    client.lpush(queue.queue_key, name)
    (theirs,) = take(queue)
    assert settle(queue, "reject", *[ours, theirs]) == ["dead", "dead"]
    assert opened().resize(3) == 0
    assert opened().counts().dead == 1
    assert opened().invariants() == []

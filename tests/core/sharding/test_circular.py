"""The circular queue over several shards: routing, takes, and changing their number under load."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from random import Random
from typing import Any

import pytest
import redis

from redisq_ops.core.model.clock import FakeClock
from redisq_ops.core.model.entry import Settlement
from redisq_ops.core.model.errors import BadInput, Refused, WrongKind
from redisq_ops.core.queues.circular import CircularQueue, ShardedCircularQueue
from redisq_ops.core.redis import operation
from redisq_ops.core.redis.client import connect
from redisq_ops.core.redis.operation import BlockingClient
from redisq_ops.core.sharding.shard_map import home
from redisq_ops.core.worker import Worker
from redisq_ops.ops.deployment import Deployment

from ...conftest import Clusters
from ...queue_steps import Killed, ack_all, paged_ids, run_until, settle
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
    seen, window = paged_ids(queue, "waiting", 37), queue.page("waiting", start=90, max=40)
    assert sorted(seen) == sorted(ids(200)) and window.total == 200
    assert [e.id for e in window.entries] == seen[90:130]
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
    queue = opened(idle="sleep", turns=2, pause_ms=70)
    queue.push("a")
    settle(queue, "ack", *take(queue))
    looks = [queue.take(1, consumer="idle") for _ in range(4)]
    assert [taken.more for taken in looks] == [True, False, False, False]
    assert {taken.look_again_ms for taken in looks[1:]} == {clock.now_ms + 70}


def test_a_worker_of_the_deployment_runs_it(opened: Opener, client: redis.Redis) -> None:
    queue = opened()
    put(queue, ids(100))
    found = operation.run(client, Deployment(client).queue("q"))
    assert isinstance(found, ShardedCircularQueue)
    ran: list[str] = []
    Worker(found, lambda work: ran.append(work.id), burst=True, batch=10).run()
    assert sorted(ran) == sorted(ids(100))


# --- changing their number ------------------------------------------------------------------------


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
    assert settle(queue, "fail", *[theirs], delay=10_000) == ["retry"]
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
def test_on_a_cluster_shards_are_on_all_nodes(clusters: Clusters, clock: FakeClock) -> None:
    nodes = clusters("valkey")
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

"""What lies between two shards once a change of their number was stopped: counted once, named."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
import redis

from redisq_ops.core.model.clock import FakeClock
from redisq_ops.core.model.entry import Settlement
from redisq_ops.core.queues.carmine import ShardedCarmineQueue
from redisq_ops.core.queues.circular import ShardedCircularQueue
from redisq_ops.core.queues.delay import ShardedDelaySet
from redisq_ops.core.redis import operation
from redisq_ops.core.redis.transport import exchange

from ...command_line import Redisq
from ...queue_steps import kills

N = 30
IDS = [f"id-{n}" for n in range(N)]
KINDS: dict[str, tuple[Any, str, Callable[[Any], object]]] = {
    "delay": (
        ShardedDelaySet,
        "later",
        lambda queue: queue.schedule([(id, id.encode()) for id in IDS], after=0),
    ),
    "circular": (
        ShardedCircularQueue,
        "docs",
        lambda queue: queue.push([(id, id.encode()) for id in IDS]),
    ),
    "carmine": (
        ShardedCarmineQueue,
        "carmine:q",
        lambda queue: queue.enqueue([(id, id.encode()) for id in IDS]),
    ),
}
Opener = Callable[..., Any]


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture(params=KINDS)
def opened(request: pytest.FixtureRequest, client: redis.Redis, clock: FakeClock) -> Opener:
    """Opens the same queue as another process would; the first fills it."""
    kind, name, fill = KINDS[request.param]
    fill(kind(client, name, shards=3, clock=clock))
    return lambda: kind(client, name, clock=clock)


@pytest.fixture
def rounds(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The commands of every round trip."""
    sent: list[list[str]] = []

    def noting(client: Any, calls: Any) -> Any:
        sent.append([str(call.command[0]) for call in calls])
        return exchange(client, calls)

    monkeypatch.setattr(operation, "exchange", noting)
    return sent


def transit(queue: Any) -> list[str]:
    """The ids that left a shard whose mover was killed before it could end their move."""
    found = [queue.client.hkeys(keys["transit"]) for keys in queue.shard_keys]
    return [id.decode() for ids in found for id in ids]


def arrived(queue: Any) -> list[str]:
    """Those of them that have a place at their new home."""
    bodies = Counter[str]()
    for part in queue._all_shards():
        for holding in queue.id_hashes:
            bodies.update(id.decode() for id in queue.client.hkeys(part.keys[holding]))
    return [id for id in transit(queue) if bodies[id] > 1]


def stopped(queue: Any, opened: Opener, when: Callable[[Any], object]) -> list[str]:
    """Kill a change to two shards once that is so, one round trip later each time until then."""
    for _ in kills(queue.client, lambda: opened().resize.op(2)):
        if when(opened()):
            return transit(queue)
    raise AssertionError("it never was so")


@pytest.mark.slow
def test_each_entry_is_counted_once_wherever_the_mover_was_killed(opened: Opener) -> None:
    queue = opened()
    dead, *_ = queue.take(4, consumer="w").deliveries
    queue.settle([Settlement(dead, "reject", b"why")])
    before = queue.counts()
    assert (before.waiting, before.pending, before.dead) == (N - 4, 3, 1)
    seen = Counter[str]()
    for _ in kills(queue.client, lambda: opened().resize.op(2)):
        seen["left"] += len(transit(queue))
        seen["arrived"] += len(arrived(queue))
        assert opened().counts() == before
    assert seen["arrived"] and seen["left"] > seen["arrived"]
    assert opened().counts() == before


def test_what_arrived_and_was_done_there_is_neither_counted_nor_found(opened: Opener) -> None:
    queue = opened()
    lying = stopped(queue, opened, arrived)
    held = opened().take(N, consumer="w").deliveries
    done = next(delivery for delivery in held if delivery.id in lying)
    assert opened().settle([Settlement(done, "ack")]) == ["done"]
    assert done.id in transit(queue)
    counts = opened().counts()
    assert (counts.waiting + counts.pending, counts.done) == (N - 1, 1)
    found = opened().get(done.id)
    assert found is None or found.state == "done"  # Carmine keeps it until its circle comes round


def test_usually_it_costs_nothing_and_else_one_round_trip(
    opened: Opener, rounds: list[list[str]], clock: FakeClock
) -> None:
    queue = opened()
    queue.resize(4)
    queue.resize(3)
    rounds.clear()
    queue.counts(clock.now_ms)
    (usual,) = rounds
    assert "ZMSCORE" not in usual
    lying = stopped(queue, opened, arrived)
    queue = opened()
    queue.counts()
    rounds.clear()
    queue.counts(clock.now_ms)
    first, second = rounds
    assert Counter(first) == Counter(usual)
    assert 1 <= len(second) <= 3 and set(second) == {"ZMSCORE"} and lying


def test_what_arrives_while_it_is_counted_is_not_left_out(opened: Opener, clock: FakeClock) -> None:
    """It wasn't at its new home yet when that was asked."""
    queue = opened()
    stopped(queue, opened, lambda queue: transit(queue) and not arrived(queue))
    process = opened()
    process.counts()  # so that it knows of the change
    counting = process.counts.op()
    replies = exchange(queue.client, counting.send(None))
    clock.advance(0.005)
    stopped(queue, opened, arrived)
    with pytest.raises(StopIteration) as ended:
        while True:
            replies = exchange(queue.client, counting.send(replies))
    assert ended.value.value.waiting == N


@pytest.mark.slow
def test_fsck_names_what_lies_between_two_shards_and_what_ends_that(
    client: redis.Redis, url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    def later() -> Any:
        return ShardedDelaySet(client, "later")

    redisq = Redisq(url, capsys)
    later().schedule([(id, b"x") for id in IDS], after=600)
    later().resize(3)
    assert redisq("fsck") == "later: adds up\n"
    lying = stopped(later(), later, lambda queue: transit(queue) and not arrived(queue))
    (row,) = redisq.rows("fsck", code=1)
    assert {line.split()[0] for line in row["faults"]} == set(lying)
    assert all(" is between shard " in line and "resize(2)" in line for line in row["faults"])
    lying = stopped(later(), later, arrived)
    said = redisq("fsck", "later", code=1)
    assert said.count(" has arrived in shard ") == len(lying) == said.count("sweep of any worker")
    (row,) = redisq.rows("ls")
    assert row["delayed"] == N == len(redisq.rows("delay", "ls", "later"))
    later().sweep()
    assert redisq("fsck") == "later: adds up\n"

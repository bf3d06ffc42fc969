"""What fails in one shard or one queue: the worker's other entries are run, settled and renewed."""

import logging
import threading
import time
from typing import Any

import pytest

from redisq_ops.core.model.errors import Forbidden, Unreadable
from redisq_ops.core.queues.delay import DelaySet
from redisq_ops.core.queues.delay.sharded import ShardedDelaySet
from redisq_ops.core.queues.request import RequestQueue
from redisq_ops.core.queues.request.sharded import ShardedRequestQueue
from redisq_ops.core.redis.operation import operation
from redisq_ops.core.sharding.shard_map import home
from redisq_ops.core.worker import Worker, upkeep, wake_up
from redisq_ops.core.worker.handler import Work, exec_handler

from .test_worker import Client, until, working

SHARDS = 4


@pytest.fixture
def later(client: Client) -> ShardedDelaySet[Client]:
    """Forty entries over four shards, of which one can't be taken from or settled in."""
    queue = ShardedDelaySet(client, "later", shards=SHARDS)
    queue.schedule([(f"e{n}", b"x") for n in range(40)], after=0)
    return queue


def broken(queue: ShardedDelaySet[Client], shard: int, counter: str) -> set[str]:
    """Damage a counter of a shard; returns the entries of the others."""
    keys = queue.shard_keys[shard]
    queue.client.hset(keys["stat"], counter, "x")
    found: Any = queue.client.hkeys(keys["body"])
    inside = {id.decode() for id in found}
    return {f"e{n}" for n in range(40)} - inside


def test_a_damaged_shard_costs_no_entry_of_others_a_lease(
    later: ShardedDelaySet[Client], caplog: pytest.LogCaptureFixture
) -> None:
    healthy = broken(later, 2, "fence")
    ids = list[str]()
    with pytest.raises(Unreadable):  # once no other shard has one
        while True:
            ids += [delivery.id for delivery in later.take(10, consumer="w1").deliveries]
    assert sorted(ids) == sorted(healthy)
    said = [r.getMessage() for r in caplog.records if r.levelno == logging.ERROR]
    assert len(said) == 1 and "one of its shards can't be used" in said[0]


@pytest.mark.parametrize("mended", [True, False])
def test_what_other_shards_settled_is_done_and_not_called_lost(
    later: ShardedDelaySet[Client], caplog: pytest.LogCaptureFixture, mended: bool
) -> None:
    """And they go on, while the damaged shard's are tried again every few seconds."""
    began: list[Work] = []
    go = threading.Event()

    def handle(work: Work) -> bytes:
        began.append(work)
        go.wait()
        return b"done"

    tallies: list[Any] = []
    worker = Worker(later, handle, concurrency=40, grace=0)
    thread = threading.Thread(target=lambda: tallies.append(worker.run()))
    thread.start()
    try:
        until(lambda: len(began) == 40)
        healthy = broken(later, 2, "done")
        go.set()
        until(lambda: {o.state for o in later.outcomes(sorted(healthy))} == {"done"})
        ids = [f"e{n}" for n in range(40)]
        more = [id for n in range(400) if home(id := f"m{n}", SHARDS) != 2][:200]
        later.schedule([(id, b"x") for id in more], after=0)
        until(lambda: {o.state for o in later.outcomes(more)} == {"done"})
        if mended:
            later.client.hdel(later.shard_keys[2]["stat"], "done")
            until(lambda: {o.state for o in later.outcomes(ids)} == {"done"})
    finally:
        worker.stop()
        worker.stop()
        thread.join()
    assert not [r for r in caplog.records if "lost lease" in r.getMessage()]
    (tally,) = tallies
    left = 0 if mended else 40 - len(healthy)
    assert (tally.done, tally.lost, tally.unsent) == (240 - left, 0, left)
    assert (f"{left} results could not be sent" in caplog.text) is not mended
    assert caplog.text.count("trying again every 5 s") == 1


def test_a_queue_that_can_not_be_renewed_leaves_others_their_leases(client: Client) -> None:
    class Refusing(RequestQueue[Any]):
        @operation
        async def extend(self, deliveries: Any, lease: Any = 30) -> list[bool]:
            raise Forbidden("no right")

    bad, good = Refusing(client, "bad"), RequestQueue(client, "good")
    bad.submit([b"x"], id="r1")
    good.submit([b"x"], id="r1")
    go = threading.Event()
    began: list[str] = []

    def handle(work: Work) -> None:
        began.append(work.queue)
        go.wait()

    with working([bad, good], handle, concurrency=2, lease=3):
        until(lambda: len(began) == 2)
        time.sleep(4)
        (entry,) = good.page("pending").entries
        now = time.time() * 1000
        assert entry.at_ms is not None and entry.at_ms > now and entry.lost == 0
        go.set()


def test_an_upkeep_that_fails_is_told_once_and_delays_nothing(
    client: Client, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Damaged(RequestQueue[Any]):
        @operation
        async def upkeep(self) -> int:
            raise Unreadable("corrupt")

    monkeypatch.setattr(upkeep, "UPKEEP_S", 0.1)
    queue = Damaged(client, "mail")
    queue.submit([b"x"] * 3, id="r1")
    with working(queue, lambda work: time.sleep(0.3)):
        until(lambda: queue.counts().done == 3)
    said = [r.getMessage() for r in caplog.records if r.levelno >= logging.WARNING]
    assert said == ["queue mail: no upkeep: corrupt"]


def test_new_shards_wake_an_idle_worker(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wake_up, "IDLE_BLOCK_MS", 1_000)
    queue = ShardedRequestQueue(client, "mail", shards=1)
    queue.submit([b"x"], id="first")
    ran: list[str] = []
    with working(queue, lambda work: ran.append(work.id)):
        until(lambda: len(ran) == 1)
        other = ShardedRequestQueue(client, "mail", shards=1)
        other.resize(8)
        until(lambda: queue.shards == 8)  # the worker looks after a second without a hint
        monkeypatch.setattr(wake_up, "IDLE_BLOCK_MS", 60_000)
        time.sleep(1.5)
        new = next(f"r{n}" for n in range(100) if home(f"r{n}", 8) > 0)
        other.submit([b"x"], id=new)
        until(lambda: ran[1:] == [f"{new}/1"])


def test_a_take_before_the_clock_is_known_looks_again_soon(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With batches upkeep and take are two rounds, which may end in either order."""
    read = upkeep.Upkeep.read
    first = [True]

    def late(self: upkeep.Upkeep, replies: Any) -> None:
        if not first:
            read(self, replies)
        first.clear()

    monkeypatch.setattr(upkeep.Upkeep, "read", late)
    monkeypatch.setattr(wake_up, "IDLE_BLOCK_MS", 60_000)
    queue = DelaySet(client, "later")
    queue.schedule([("e1", b"x")], after=0.3)
    ran: list[str] = []
    with working(queue, lambda work: ran.append(work.id), batch=5):
        until(lambda: ran)


def test_a_cluster_without_the_slots_node_ends_no_listener(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    from redis.exceptions import SlotNotCoveredError

    pool = wake_up._pool
    fails = [True]

    def uncovered(client: Any, key: str) -> Any:
        if fails:
            fails.clear()
            raise SlotNotCoveredError("no node")
        return pool(client, key)

    monkeypatch.setattr(wake_up, "_pool", uncovered)
    queue = RequestQueue(client, "mail")
    ran: list[str] = []
    with working(queue, lambda work: ran.append(work.id)):
        until(lambda: not fails)
        queue.submit([b"x"], id="r1")
        until(lambda: ran)


@pytest.mark.parametrize("number", [9, 35])
def test_a_program_that_a_signal_ends_says_which(client: Client, number: int) -> None:
    queue = RequestQueue(client, "mail")
    queue.submit([b"x"], id="r1")
    handler = exec_handler(["sh", "-c", f"echo why >&2; kill -{number} $$"])
    with working(queue, handler):
        until(lambda: queue.counts().delayed)
    entry = queue.get("r1/1")
    assert entry is not None and entry.error is not None
    name = {9: "SIGKILL", 35: "signal 35"}[number]
    assert name in entry.error.message + entry.error.type and "why" in entry.error.message


def test_an_idle_worker_watches_while_another_is_busy(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The busy one was to look again when the next entry is due."""
    monkeypatch.setattr(wake_up, "IDLE_BLOCK_MS", 60_000)
    queue = DelaySet(client, "later")
    busy, go = threading.Event(), threading.Event()
    ran: list[str] = []

    def handle(work: Work) -> None:
        ran.append(work.id)
        if work.id == "long":
            busy.set()
            go.wait()

    with working(queue, handle, consumer="w1"), working(queue, handle, consumer="w2"):
        time.sleep(0.3)  # both are idle
        queue.schedule([("long", b"x")], after=0.3)
        queue.schedule([("next", b"x")], after=0.9)
        busy.wait()
        until(lambda: "next" in ran)
        go.set()

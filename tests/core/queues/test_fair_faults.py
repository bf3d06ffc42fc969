"""The faults of article 004, each in two halves: its own steps show it, ours don't have it.

`docs/explanation/faults.md` lists them in words. `Sender` and `Receiver` are the article's two
classes, brought
from Python 2 to 3 and otherwise left as they are.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any

import pytest
import redis

from redisq_ops.core.model.clock import FakeClock
from redisq_ops.core.model.entry import Failure, Settlement
from redisq_ops.core.model.errors import BadInput
from redisq_ops.core.model.settings import LEASE_MS
from redisq_ops.core.queues.fair import FairQueue

from ...queue_steps import ids, settle, take

MAX_ATTEMPTS_COUNT = 4
MAIN = "bqueues:"
Ours = FairQueue[redis.Redis]


class Sender:
    """The article's ClientRedisQueue."""

    def __init__(self, qname: str, client_id: str, client: redis.Redis) -> None:
        self.client_id = client_id
        self.queue_name = MAIN + qname + ":" + client_id
        self.redis: Any = client

    def send(self, *msgs: Any) -> None:
        rows = [
            json.dumps({"client_id": self.client_id, "msg": msg, "attempts": 0}) for msg in msgs
        ]
        self.redis.lpush(self.queue_name, *rows)


class Receiver:
    """The article's WorkerRedisQueue; it looks for lists whenever it receives."""

    def __init__(self, name: str, client: redis.Redis) -> None:
        self.queue_name = MAIN + name
        self.processing = MAIN + "processing:" + name
        self.dead = MAIN + "dead:" + name
        self.redis: Any = client
        self.scans = 0

    def processed(self, msg: Any) -> int:
        removed: int = self.redis.lrem(self.processing, 0, json.dumps(msg))
        return removed

    def recover(self) -> int:
        recovered = 0
        rows = self.redis.lrange(self.processing, -5, -1)
        for msg, orig in [(json.loads(row), row) for row in rows if row]:
            if msg["attempts"] > MAX_ATTEMPTS_COUNT:
                self.redis.sadd(self.dead, orig)
            else:
                recovered += 1
                msg["attempts"] += 1
                self.redis.lpush(f"{self.queue_name}:{msg['client_id']}", json.dumps(msg))
            self.redis.lrem(self.processing, 0, orig)
        return recovered

    def list_names(self) -> list[bytes]:
        found, cursor = [], 0
        while True:
            self.scans += 1
            cursor, page = self.redis.scan(cursor, match=self.queue_name + "*")
            found += page
            if cursor == 0:
                return found

    def receive(self, count: int) -> list[Any]:
        names = self.list_names()
        count = len(names)
        if count == 0:
            return []
        pipe = self.redis.pipeline()
        for _ in range(count):
            pipe.rpoplpush(names[random.randint(0, count - 1)], self.processing)
        return [json.loads(msg) for msg in pipe.execute() if msg]

    def length(self) -> int:
        return sum(self.redis.llen(name) for name in self.list_names())


@pytest.fixture(autouse=True)
def seeded() -> None:
    random.seed(4)


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def ours(client: redis.Redis, clock: FakeClock) -> Callable[[str], Ours]:
    return lambda name: FairQueue(client, name, clock=clock)


@pytest.fixture
def queue(ours: Callable[[str], Ours]) -> Ours:
    return ours("worker1")


def put(queue: Ours, client: str, *ids: str) -> None:
    queue.submit(client, [(id, id.encode()) for id in ids])


def drained(worker: Receiver) -> list[Any]:
    found: list[Any] = []
    while worker.list_names():
        found += worker.receive(1)
    return found


def test_f1_a_queue_has_its_own_clients_only(
    client: redis.Redis, ours: Callable[[str], Ours]
) -> None:
    Sender("worker1", "x", client).send(1)
    Sender("worker10", "x", client).send(10)
    Sender("worker1-eu", "x", client).send(100)
    worker = Receiver("worker1", client)
    assert sorted(msg["msg"] for msg in drained(worker)) == [1, 10, 100]
    worker.recover()
    assert client.llen("bqueues:worker1:x") == 3, "and that is whose they are from now on"

    for name in ("worker1", "worker10", "worker1-eu"):
        put(ours(name), "x", name)
    assert ids(take(ours("worker1"))) == ["worker1"]
    assert ours("worker10").counts().waiting == ours("worker1-eu").counts().waiting == 1


def test_f2_names_cannot_run_into_each_other(
    client: redis.Redis, ours: Callable[[str], Ours]
) -> None:
    assert Sender("a", "b:c", client).queue_name == Sender("a:b", "c", client).queue_name
    Sender("processing", "worker1", client).send("mine")
    assert client.llen(Receiver("worker1", client).processing) == 1, "taken for one being processed"

    put(ours("a"), "b:c", "one")
    put(ours("a:b"), "c", "two")
    put(ours("processing"), "worker1", "three")
    put(ours("a"), "[b]?", "four")
    assert sorted(ids(take(ours("a")))) == ["four", "one"]
    assert ids(take(ours("a:b"))) == ["two"]
    assert ours("worker1").counts().pending == 0
    with pytest.raises(BadInput):
        put(ours("a"), "b*", "five")


def test_f3_a_batch_is_as_large_as_asked(client: redis.Redis, queue: Ours) -> None:
    for n in range(7):
        Sender("worker1", f"c{n}", client).send(*range(50))
    assert len(Receiver("worker1", client).receive(2)) == 7
    client.flushall()
    Sender("worker1", "c", client).send(*range(50))
    assert len(Receiver("worker1", client).receive(5)) == 1

    for n in range(7):
        put(queue, f"c{n}", *(f"{n}-{k}" for k in range(10)))
    assert len(take(queue, 2)) == 2
    assert len(take(queue, 50)) == 50


def test_f4_a_round_serves_every_client(client: redis.Redis, queue: Ours) -> None:
    for n in range(50):
        Sender("worker1", f"c{n}", client).send(*range(10))
    served = {msg["client_id"] for msg in Receiver("worker1", client).receive(50)}
    assert len(served) < 40, "about 1 - 1/e of them"

    for n in range(50):
        put(queue, f"c{n}", *(f"{n}-{k}" for k in range(10)))
    for _ in range(10):
        assert len({delivery.client for delivery in take(queue, 50)}) == 50


def test_f5_what_is_done_is_done_whatever_its_bytes(client: redis.Redis, queue: Ours) -> None:
    worker = Receiver("worker1", client)
    rows = [
        b'{"client_id":"x","msg":1,"attempts":0}',
        '{"client_id": "x", "msg": "\u00e9", "attempts": 0}'.encode(),
        b'{"client_id": "x", "msg": 1e3, "attempts": 0}',
        b'{"client_id": "x", "msg": "a\\/b", "attempts": 0}',
    ]
    client.lpush("bqueues:worker1:x", *rows)
    assert [worker.processed(msg) for msg in drained(worker)] == [0, 0, 0, 0]
    assert client.llen(worker.processing) == 4, "done, and run again until they are dead"

    queue.submit("x", rows)
    taken = take(queue)
    assert [delivery.payload for delivery in taken] == rows
    assert settle(queue, "ack", *taken) == ["done"] * 4
    assert queue.counts().pending == 0


def test_f6_equal_messages_are_three_messages(client: redis.Redis, queue: Ours) -> None:
    Sender("worker1", "x", client).send("mail", "mail", "mail")
    worker = Receiver("worker1", client)
    first, *_ = drained(worker)
    assert worker.processed(first) == 3
    assert client.llen(worker.processing) == 0, "two of them with nobody left to bring them back"

    queue.submit("x", [b"mail"] * 3)
    taken = take(queue)
    assert settle(queue, "ack", taken[0]) == ["done"]
    assert queue.counts().pending == 2


def test_f7_what_is_being_worked_on_is_left_alone(
    client: redis.Redis, queue: Ours, clock: FakeClock
) -> None:
    Sender("worker1", "x", client).send("job")
    worker = Receiver("worker1", client)
    (msg,) = worker.receive(1)
    assert worker.recover() == 1, "from under a healthy worker"
    assert worker.processed(msg) == 0
    assert worker.length() == 1, "done once, and to be done again"

    put(queue, "x", "job")
    held = take(queue)
    clock.advance(LEASE_MS - 1)
    assert take(queue, worker="w2") == []
    assert settle(queue, "ack", *held) == ["done"]
    assert queue.counts().waiting == 0


def test_f8_recovery_makes_no_second_copy(
    client: redis.Redis, queue: Ours, clock: FakeClock
) -> None:
    Sender("worker1", "x", client).send("job")
    worker = Receiver("worker1", client)
    worker.receive(1)
    for _ in range(2):  # both have read the processing list before either removes from it
        (row,) = worker.redis.lrange(worker.processing, -5, -1)
        client.lpush("bqueues:worker1:x", row)
    worker.redis.lrem(worker.processing, 0, row)
    assert worker.length() == 2

    put(queue, "x", "job")
    take(queue)
    clock.advance(LEASE_MS)
    found = [delivery for n in range(3) for delivery in take(queue, worker=f"w{n}")]
    assert ids(found) == ["job"]


def test_f9_each_dead_letter_is_kept_with_its_story(
    client: redis.Redis, queue: Ours, clock: FakeClock
) -> None:
    Sender("worker1", "x", client).send("bad", "bad", "bad")
    worker = Receiver("worker1", client)
    runs = 0
    while worker.length() or client.llen(worker.processing):
        runs += len(worker.receive(3))
        worker.recover()
    assert client.scard(worker.dead) < 3, "three became one, with no reason and no time"
    assert runs > 3 * MAX_ATTEMPTS_COUNT

    queue.configure("op", 1, {"max_failures": str(MAX_ATTEMPTS_COUNT)})
    queue.submit("x", [b"bad"] * 3)
    runs = 0
    while taken := take(queue):
        runs += len(taken)
        error = Failure("ValueError", "no such user", "Traceback …").encoded()
        queue.settle([Settlement(delivery, "fail", error) for delivery in taken])
    assert runs == 3 * MAX_ATTEMPTS_COUNT
    page = queue.page("dead", payloads=True)
    assert [e.payload for e in page.entries] == [b"bad"] * 3
    for entry in page.entries:
        assert (entry.client, entry.reason, entry.failures) == ("x", "failed", MAX_ATTEMPTS_COUNT)
        assert entry.error and entry.error.message == "no such user" and entry.since_ms


def test_f10_finding_work_does_not_depend_on_what_else_is_there(
    client: redis.Redis, queue: Ours
) -> None:
    client.mset({f"somebody:else:{n}": "" for n in range(5_000)})
    Sender("worker1", "x", client).send("job")
    worker = Receiver("worker1", client)
    assert len(worker.receive(1)) == 1
    assert worker.scans > 300, "round trips, for one message, at every look"

    put(queue, "x", "job")
    client.config_resetstat()
    assert ids(take(queue)) == ["job"]
    stats: Any = client.info("commandstats")
    assert "cmdstat_scan" not in stats and "cmdstat_keys" not in stats
    sent = stats["cmdstat_evalsha"]["calls"] + stats.get("cmdstat_eval", {}).get("calls", 0)
    assert sent <= 2


def test_f13_recovery_does_not_wait_for_a_quiet_moment(
    client: redis.Redis, queue: Ours, clock: FakeClock
) -> None:
    sender, worker = Sender("worker1", "x", client), Receiver("worker1", client)
    sender.send("lost")
    worker.receive(1)  # and the worker dies
    seen = []
    for n in range(200):
        sender.send(n, n)
        msgs = worker.receive(1)
        if not msgs and worker.length() == 0:  # the only time the article's loop recovers
            worker.recover()
        for msg in msgs:
            seen.append(msg["msg"])
            worker.processed(msg)
    assert "lost" not in seen

    put(queue, "x", "lost")
    take(queue)
    found = []
    for n in range(40):
        put(queue, "x", f"{n}", f"{n}-too")
        clock.advance(1000)
        taken = take(queue, 1)
        found += ids(taken)
        settle(queue, "ack", *taken)
    assert found.index("lost") == LEASE_MS // 1000 - 1, "as soon as its lease was over"


def test_f16_bytes_that_are_no_json_hold_nothing_up(
    client: redis.Redis, queue: Ours, clock: FakeClock
) -> None:
    Sender("worker1", "x", client).send("one", "two")
    client.rpush("bqueues:worker1:x", b"\xff not json")
    worker = Receiver("worker1", client)
    with pytest.raises(ValueError):
        while True:
            worker.receive(1)
    for _ in range(3):
        worker.receive(1) if client.exists("bqueues:worker1:x") else None
        with pytest.raises(ValueError):
            worker.recover()
    assert client.llen(worker.processing) == 3, "all of them stuck behind it"

    queue.submit("x", [b"\xff not json", b"one", b"two"])
    assert [d.payload for d in take(queue)] == [b"\xff not json", b"one", b"two"]
    clock.advance(LEASE_MS)
    assert len(take(queue)) == 3


def test_f17_recovery_keeps_up_with_the_workers(
    client: redis.Redis, queue: Ours, clock: FakeClock
) -> None:
    Sender("worker1", "x", client).send(*range(100))
    worker = Receiver("worker1", client)
    drained(worker)
    assert worker.recover() == 5, "of a hundred, whose worker is dead"

    put(queue, "x", *(f"e{n}" for n in range(100)))
    take(queue)
    clock.advance(LEASE_MS)
    assert len(take(queue, 16)) == 16, "each take brings back as many as it hands out, to 16"
    assert queue.sweep(100) >= 84
    assert len(take(queue)) == 84

"""The faults of Carmine's queue (article 001), each in two halves: shown, and not found in ours.

`docs/explanation/faults.md` lists them in words. `Stock` does what Carmine's message queue of 2018
does to its
keys, step by step and by a client's clock (it is not Carmine: that is Clojure, and wasn't run).
"""

from __future__ import annotations

from typing import Any

import pytest
import redis
from redis.crc import key_slot

from redisq_ops.core.model.clock import FakeClock
from redisq_ops.core.model.entry import Delivery, Settlement
from redisq_ops.core.model.settings import LEASE_MS
from redisq_ops.core.queues.carmine import CarmineQueue
from redisq_ops.core.redis.operation import run

from . import carmine_reader

HOUR = 3_600_000
T = 1_700_000_000_000
END = b"end-of-circle"


class Stock:
    """Queue ``low`` as Carmine keeps it; times are a client's, ms."""

    def __init__(self, client: redis.Redis) -> None:
        self.client: Any = client

    def key(self, part: str) -> str:
        return f"carmine:mq:low:{part}"

    def state(self, mid: str, now: int) -> str:
        raw: dict[str, Any] = {}
        for part in ("messages", "locks", "backoffs"):
            value = self.client.hget(self.key(part), mid)
            raw[part] = {} if value is None else {mid.encode(): value}
        for part in ("done", "requeue"):
            raw[part] = {mid.encode()} if self.client.sismember(self.key(part), mid) else ()
        return carmine_reader.state(raw, mid.encode(), now)

    def enqueue(self, mid: str, content: bytes, now: int = T, requeue: bool = False) -> bool:
        """Whether it was accepted, as its caller is told."""
        state = self.state(mid, now)
        if state == "done-awaiting-gc" or (state == "done-with-backoff" and requeue):
            self.client.hdel(self.key("nattempts"), mid)
            self.client.srem(self.key("done"), mid)
            return True
        if state == "locked" and requeue:
            self.client.sadd(self.key("requeue"), mid)
            return True
        if state != "nx":
            return False
        self.client.hset(self.key("messages"), mid, content)
        if not self.client.exists(self.key("mid-circle")):
            self.client.lpush(self.key("mid-circle"), END)
        self.client.lpush(self.key("mid-circle"), mid)
        return True

    def dequeue(self, now: int = T, lock_ms: int = HOUR) -> tuple[str, bytes] | None:
        """One look, at the next id of the circle."""
        raw: bytes = self.client.rpoplpush(self.key("mid-circle"), self.key("mid-circle"))
        if raw == END:
            return None
        mid = raw.decode()
        state = self.state(mid, now)
        if state == "done-awaiting-gc":
            for part in ("messages", "locks", "backoffs", "nattempts"):
                self.client.hdel(self.key(part), mid)
            self.client.lpop(self.key("mid-circle"))
            self.client.srem(self.key("done"), mid)
        if state != "queued":
            return None
        self.client.hset(self.key("locks"), mid, now + lock_ms)
        self.client.hincrby(self.key("nattempts"), mid, 1)
        return mid, self.client.hget(self.key("messages"), mid)

    def take(self, now: int = T, lock_ms: int = HOUR) -> tuple[str, bytes] | None:
        """Looks for a lap, until there is something to do."""
        for _ in range(self.client.llen(self.key("mid-circle"))):
            if got := self.dequeue(now, lock_ms):
                return got
        return None

    def finish(self, mid: str, status: str, now: int = T, backoff_ms: int = 0) -> None:
        again = status == "success" and self.client.sismember(self.key("requeue"), mid)
        if backoff_ms:
            self.client.hset(self.key("backoffs"), mid, now + backoff_ms)
        self.client.hdel(self.key("locks"), mid)
        if again:
            self.client.srem(self.key("requeue"), mid)
            self.client.hdel(self.key("nattempts"), mid)
        elif status != "retry":
            self.client.sadd(self.key("done"), mid)

    def drain(self, now: int = T) -> list[tuple[str, bytes]]:
        """What is handed out in two laps, each acknowledged at once."""
        found = []
        for _ in range(2 * self.client.llen(self.key("mid-circle"))):
            if got := self.dequeue(now):
                found.append(got)
                self.finish(got[0], "success", now)
        return found


@pytest.fixture
def stock(client: redis.Redis) -> Stock:
    return Stock(client)


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(T)


Ours = CarmineQueue[redis.Redis]


@pytest.fixture
def queue(client: redis.Redis, clock: FakeClock) -> Ours:
    return CarmineQueue(client, "carmine:ours", clock=clock)


def put(queue: Ours, id: str, content: bytes, **how: Any) -> str:
    (said,) = queue.enqueue([(id, content)], **how)
    return said.word


def take(queue: Ours, worker: str = "w") -> list[Delivery]:
    return list(queue.take(100, consumer=worker).deliveries)


def end(queue: Ours, outcome: Any, delivery: Delivery, wait: int = 0) -> str:
    (said,) = queue.settle([Settlement(delivery, outcome, b"", wait)])
    return said


def test_c1_the_articles_dequeue_is_an_error(client: redis.Redis, queue: Ours) -> None:
    low = "carmine:mq:low:"
    client.hset(low + "messages", "job", "payload")
    client.lpush(low + "mid-circle", "job")
    with pytest.raises(redis.ResponseError, match="WRONGTYPE"):
        client.rpoplpush(low + "messages", low + "messages")

    put(queue, "job", b"payload")
    assert [(d.id, d.payload) for d in take(queue)] == [("job", b"payload")]


def test_c2_two_workers_never_hold_the_same_message(client: redis.Redis, queue: Ours) -> None:
    low = "carmine:mq:low:"
    client.lpush(low + "mid-circle", "job")
    got = []
    for deadline in (1, 2):  # the article locks without a look at the lock
        got.append(client.rpoplpush(low + "mid-circle", low + "mid-circle"))
        client.hset(low + "locks", "job", deadline)
    assert got == [b"job", b"job"]

    put(queue, "job", b"")
    assert len(take(queue, "w1")) == 1
    assert take(queue, "w2") == []


def test_c3_what_was_accepted_while_locked_survives_an_error(stock: Stock, queue: Ours) -> None:
    stock.enqueue("job", b"one")
    stock.take()
    assert stock.enqueue("job", b"two", requeue=True), "accepted"
    stock.finish("job", "error")
    assert stock.drain() == [], "and never run"
    stock.enqueue("job", b"three")
    assert stock.drain() == [("job", b"three")] * 2, "its flag makes the next one run twice"

    put(queue, "job", b"one")
    (held,) = take(queue)
    assert put(queue, "job", b"two", requeue=True) == "requeued"
    assert end(queue, "reject", held) == "dead"
    (held,) = take(queue)
    assert held.payload == b"two"
    assert end(queue, "ack", held) == "done"
    assert put(queue, "job", b"three") == "ok"
    (held,) = take(queue)
    assert (held.payload, end(queue, "ack", held), take(queue)) == (b"three", "done", [])


def test_c3b_what_runs_again_is_the_new_content(stock: Stock, queue: Ours) -> None:
    stock.enqueue("job", b"old")
    stock.take()
    assert stock.enqueue("job", b"new", requeue=True)
    stock.finish("job", "success")
    assert stock.drain() == [("job", b"old")]

    put(queue, "job", b"old")
    (held,) = take(queue)
    put(queue, "job", b"new", requeue=True)
    end(queue, "ack", held)
    assert [d.payload for d in take(queue)] == [b"new"]


def test_c5_a_late_success_doesnt_swallow_the_next_ones_retry(
    stock: Stock, queue: Ours, clock: FakeClock
) -> None:
    stock.enqueue("job", b"")
    stock.take(T, LEASE_MS)  # w1, slow
    assert stock.take(T + LEASE_MS, LEASE_MS), "w2"
    stock.finish("job", "success", T + LEASE_MS)  # w1
    stock.finish("job", "retry", T + LEASE_MS)  # w2
    assert stock.drain(T + HOUR) == []
    assert stock.state("job", T + HOUR) == "nx"

    put(queue, "job", b"")
    (slow,) = take(queue, "w1")
    clock.advance(LEASE_MS)
    (held,) = take(queue, "w2")
    assert end(queue, "ack", slow) == "stale"
    assert end(queue, "fail", held) == "retry"
    assert len(take(queue)) == 1


def test_c5b_a_late_retry_doesnt_unlock_the_next_one(
    stock: Stock, queue: Ours, clock: FakeClock
) -> None:
    stock.enqueue("job", b"")
    stock.take(T, LEASE_MS)  # w1, slow
    assert stock.take(T + LEASE_MS, LEASE_MS), "w2"
    stock.finish("job", "retry", T + LEASE_MS)  # w1
    assert stock.take(T + LEASE_MS), "w3, while w2 is at it"

    put(queue, "job", b"")
    (slow,) = take(queue, "w1")
    clock.advance(LEASE_MS)
    assert len(take(queue, "w2")) == 1
    assert end(queue, "fail", slow) == "stale"
    assert take(queue, "w3") == []


def test_c6_enqueued_again_after_its_end_it_has_its_new_content(stock: Stock, queue: Ours) -> None:
    stock.enqueue("job", b"old")
    stock.take()
    stock.finish("job", "success")
    assert stock.enqueue("job", b"new"), "accepted"
    assert stock.drain() == [("job", b"old")]

    put(queue, "job", b"old")
    end(queue, "ack", take(queue)[0])
    assert put(queue, "job", b"new") == "ok"
    assert [d.payload for d in take(queue)] == [b"new"]


class Newer:
    """The list of fresh ids that Carmine has had since 3.3, as far as it concerns the circle."""

    def __init__(self, client: redis.Redis) -> None:
        self.client: Any = client

    def enqueue(self) -> None:
        self.client.lpush("ready", "job")

    def dequeue(self) -> None:
        """A fresh id goes into the circle when it is taken, wherever it stands there already."""
        self.client.rpoplpush("ready", "circle")


def test_c7_an_id_that_comes_again_and_again_stands_once_in_the_circle(
    client: redis.Redis, queue: Ours
) -> None:
    newer = Newer(client)
    for _ in range(100):
        newer.enqueue()
        newer.dequeue()
    assert client.llen("circle") == 100

    for _ in range(100):
        put(queue, "job", b"")
        end(queue, "ack", take(queue)[0])
        assert client.llen(queue.keys["circle"]) <= 2


def test_c8_what_waits_for_a_backoff_keeps_nobody_waiting(
    client: redis.Redis, stock: Stock, queue: Ours
) -> None:
    client.hset(stock.key("messages"), mapping={f"e{n}": b"" for n in range(500)})
    client.hset(stock.key("backoffs"), mapping={f"e{n}": T + HOUR for n in range(500)})
    client.rpush(stock.key("mid-circle"), *(f"e{n}" for n in range(500)), END)
    stock.enqueue("job", b"")
    looks = 1
    while not stock.dequeue():
        looks += 1
    assert looks == 502

    queue.enqueue([(f"e{n}", b"") for n in range(500)], backoff_ms=HOUR)
    put(queue, "job", b"")
    assert [d.id for d in take(queue)] == ["job"], "the first look"


def test_c9_a_clients_clock_frees_no_lock(client: redis.Redis, stock: Stock) -> None:
    stock.enqueue("job", b"")
    assert stock.take(T, HOUR)  # by a worker whose clock is right
    assert stock.take(T + 2 * HOUR), "a second later, by one whose clock is 2 h ahead"

    queue = CarmineQueue(client, "carmine:ours")  # no client of ours has a clock to be wrong
    put(queue, "job", b"")
    (held,) = take(queue)
    seconds, micros = client.time()
    now = seconds * 1000 + micros // 1000
    assert now <= held.deadline_ms <= now + LEASE_MS
    assert take(queue) == []


def test_c10_attempts_have_an_end_and_errors_keep_the_message(
    stock: Stock, queue: Ours, clock: FakeClock
) -> None:
    stock.enqueue("job", b"payload")
    for n in range(50):
        assert stock.take(T + n * HOUR, HOUR)
    assert stock.client.hget(stock.key("nattempts"), "job") == b"50"
    stock.finish("job", "error")
    stock.drain()
    assert stock.state("job", T) == "nx", "and its content is gone"

    put(queue, "job", b"payload")
    tries = 0
    while take(queue):
        tries += 1
        clock.advance(LEASE_MS)
    entry = queue.get("job")
    assert entry and (tries, entry.state, entry.reason) == (3, "dead", "lost")
    assert entry.payload == b"payload"


def test_c11_no_call_can_end_half_way(client: redis.Redis, stock: Stock, queue: Ours) -> None:
    client.hset(stock.key("messages"), "job", b"")  # and the producer dies before its LPUSH
    client.lpush(stock.key("mid-circle"), END)
    assert not stock.enqueue("job", b""), "it is there"
    assert stock.drain() == [], "and nobody will ever meet it"

    assert put(queue, "first", b"") == "ok"  # a process asks once for its rights
    scripts = client.info("commandstats")["cmdstat_evalsha"]["calls"]
    assert put(queue, "job", b"") == "ok"
    stats = client.info("commandstats")
    assert stats["cmdstat_evalsha"]["calls"] == scripts + 1, "one script, all of it or none"
    assert len(take(queue)) == 2


def test_c12_queues_are_found_without_a_search_and_may_share_a_slot(
    client: redis.Redis, stock: Stock, queue: Ours
) -> None:
    assert len({key_slot(stock.key(p).encode()) for p in ("messages", "locks", "mid-circle")}) == 3
    put(queue, "job", b"")
    assert client.hkeys("redisq:registry") == [b"carmine:ours"]
    tagged = CarmineQueue(client, "carmine:%7Bours%7D")
    parts = ("messages", "locks", "circle", "lease", "meta")
    assert len({key_slot(tagged.keys[part].encode()) for part in parts}) == 1


def test_c13_a_call_sent_again_puts_nothing_in_twice(client: redis.Redis, queue: Ours) -> None:
    for _ in range(2):  # a client library that lost the reply
        client.lpush("carmine:mq:low:mid-circle", "job")
    assert client.llen("carmine:mq:low:mid-circle") == 2

    with queue.callers.borrow("enqueue") as (caller, seq):
        pass
    run(client, queue._ensure_registered())
    script = queue._script("enqueue")
    sender: Any = client
    for _ in range(2):
        call = script.call(
            queue.keys, queue.clock, lambda reply: reply, [("job", b"")],
            caller=caller, seq=seq, backoff=0, requeue=0, update=0, layout=0,
        )  # fmt: skip
        assert sender.execute_command(*call.spelled_out()) == [b"ok"]
    assert client.lrange(queue.keys["circle"], 0, -1) == [b"job", END]

"""The faults of Carmine's queue (article 001), as cases on ours, which has none of them.

`docs/explanation/faults.md` says for each what the article's and Carmine's own steps do.
"""

from __future__ import annotations

from typing import Any

import pytest
import redis
from redis.crc import key_slot

from redisq_ops.core.model.clock import FakeClock
from redisq_ops.core.model.entry import Delivery
from redisq_ops.core.model.settings import LEASE_MS
from redisq_ops.core.queues.carmine import CarmineQueue
from redisq_ops.core.redis.operation import run

from ...queue_steps import end, take

HOUR = 3_600_000
END = b"end-of-circle"


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


Ours = CarmineQueue[redis.Redis]


@pytest.fixture
def queue(client: redis.Redis, clock: FakeClock) -> Ours:
    return CarmineQueue(client, "carmine:ours", clock=clock)


def put(queue: Ours, id: str, content: bytes, **how: Any) -> str:
    (said,) = queue.enqueue([(id, content)], **how)
    return said.word


def taken(queue: Ours, worker: str = "w") -> Delivery:
    (held,) = take(queue, worker=worker)
    return held


def test_c1_what_was_enqueued_is_taken(queue: Ours) -> None:
    put(queue, "job", b"payload")
    assert [(d.id, d.payload) for d in take(queue)] == [("job", b"payload")]


def test_c2_two_workers_never_hold_the_same_message(queue: Ours) -> None:
    put(queue, "job", b"")
    assert len(take(queue, worker="w1")) == 1
    assert take(queue, worker="w2") == []


def test_c3_what_was_accepted_while_locked_survives_an_error(queue: Ours) -> None:
    put(queue, "job", b"one")
    held = taken(queue)
    assert put(queue, "job", b"two", requeue=True) == "requeued"
    assert end(queue, held, "reject") == "dead"
    held = taken(queue)
    assert held.payload == b"two"
    assert end(queue, held) == "done"
    assert put(queue, "job", b"three") == "ok"
    held = taken(queue)
    assert (held.payload, end(queue, held), take(queue)) == (b"three", "done", [])


def test_c3b_what_runs_again_is_the_new_content(queue: Ours) -> None:
    put(queue, "job", b"old")
    held = taken(queue)
    put(queue, "job", b"new", requeue=True)
    end(queue, held)
    assert taken(queue).payload == b"new"


def test_c5_a_late_success_doesnt_swallow_the_next_ones_retry(
    queue: Ours, clock: FakeClock
) -> None:
    put(queue, "job", b"")
    slow = taken(queue, "w1")
    clock.now_ms += LEASE_MS
    held = taken(queue, "w2")
    assert end(queue, slow) == "stale"
    assert end(queue, held, "fail") == "retry"
    assert len(take(queue)) == 1


def test_c5b_a_late_retry_doesnt_unlock_the_next_one(queue: Ours, clock: FakeClock) -> None:
    put(queue, "job", b"")
    slow = taken(queue, "w1")
    clock.now_ms += LEASE_MS
    assert len(take(queue, worker="w2")) == 1
    assert end(queue, slow, "fail") == "stale"
    assert take(queue, worker="w3") == []


def test_c6_enqueued_again_after_its_end_it_has_its_new_content(queue: Ours) -> None:
    put(queue, "job", b"old")
    end(queue, taken(queue))
    assert put(queue, "job", b"new") == "ok"
    assert taken(queue).payload == b"new"


def test_c7_an_id_that_comes_again_and_again_stands_once_in_the_circle(
    client: redis.Redis, queue: Ours
) -> None:
    for _ in range(100):
        put(queue, "job", b"")
        end(queue, taken(queue))
        assert client.llen(queue.keys["circle"]) <= 2


def test_c8_what_waits_for_a_backoff_keeps_nobody_waiting(queue: Ours) -> None:
    queue.enqueue([(f"e{n}", b"") for n in range(500)], backoff=HOUR / 1000)
    put(queue, "job", b"")
    assert [d.id for d in take(queue)] == ["job"], "the first look"


def test_c9_a_clients_clock_frees_no_lock(client: redis.Redis) -> None:
    queue = CarmineQueue(client, "carmine:ours")  # no client of ours has a clock to be wrong
    put(queue, "job", b"")
    held = taken(queue)
    seconds, micros = client.time()
    now = seconds * 1000 + micros // 1000
    assert now <= held.deadline_ms <= now + LEASE_MS
    assert take(queue) == []


def test_c10_attempts_have_an_end_and_errors_keep_the_message(
    queue: Ours, clock: FakeClock
) -> None:
    put(queue, "job", b"payload")
    tries = 0
    while take(queue):
        tries += 1
        clock.now_ms += LEASE_MS
    entry = queue.get("job")
    assert entry and (tries, entry.state, entry.reason) == (3, "dead", "lost")
    assert entry.payload == b"payload"


def test_c11_no_call_can_end_half_way(client: redis.Redis, queue: Ours) -> None:
    assert put(queue, "first", b"") == "ok"  # a process asks once for its rights
    scripts = client.info("commandstats")["cmdstat_evalsha"]["calls"]
    assert put(queue, "job", b"") == "ok"
    stats = client.info("commandstats")
    assert stats["cmdstat_evalsha"]["calls"] == scripts + 1, "one script, all of it or none"
    assert len(take(queue)) == 2


def test_c12_queues_are_found_without_a_search_and_may_share_a_slot(
    client: redis.Redis, queue: Ours
) -> None:
    put(queue, "job", b"")
    assert client.hkeys("redisq:registry") == [b"carmine:ours"]
    tagged = CarmineQueue(client, "carmine:%7Bours%7D")
    parts = ("messages", "locks", "circle", "lease", "meta")
    assert len({key_slot(tagged.keys[part].encode()) for part in parts}) == 1


def test_c13_a_call_sent_again_puts_nothing_in_twice(client: redis.Redis, queue: Ours) -> None:
    with queue.callers.borrow("enqueue") as (caller, seq):
        pass
    run(client, queue._ensure_registered())
    script = queue._script("enqueue")
    sender: Any = client
    for _ in range(2):
        call = script.call(
            queue.keys,
            queue.clock,
            lambda reply: reply,
            [("job", b"")],
            caller=caller,
            seq=seq,
            backoff=0,
            requeue=0,
            update=0,
            layout=0,
        )
        assert sender.execute_command(*call.spelled_out()) == [b"ok"]
    assert client.lrange(queue.keys["circle"], 0, -1) == [b"job", END]

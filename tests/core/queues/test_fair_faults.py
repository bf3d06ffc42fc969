"""The faults of article 004, as cases on the fair queue, which has none of them.

`docs/explanation/faults.md` says for each what the article's own steps do.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import redis

from redisq_ops.core.model.clock import FakeClock
from redisq_ops.core.model.entry import Failure
from redisq_ops.core.model.errors import BadInput
from redisq_ops.core.model.settings import LEASE_MS
from redisq_ops.core.queues.fair import FairQueue

from ...queue_steps import ids, settle, take

Ours = FairQueue[redis.Redis]


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


def test_f1_a_queue_has_its_own_clients_only(ours: Callable[[str], Ours]) -> None:
    for name in ("worker1", "worker10", "worker1-eu"):
        put(ours(name), "x", name)
    assert ids(take(ours("worker1"))) == ["worker1"]
    assert ours("worker10").counts().waiting == ours("worker1-eu").counts().waiting == 1


def test_f2_names_cannot_run_into_each_other(ours: Callable[[str], Ours]) -> None:
    put(ours("a"), "b:c", "one")
    put(ours("a:b"), "c", "two")
    put(ours("processing"), "worker1", "three")
    put(ours("a"), "[b]?", "four")
    assert sorted(ids(take(ours("a")))) == ["four", "one"]
    assert ids(take(ours("a:b"))) == ["two"]
    assert ours("worker1").counts().pending == 0
    with pytest.raises(BadInput):
        put(ours("a"), "b*", "five")


def test_f3_a_batch_is_as_large_as_asked(queue: Ours) -> None:
    for n in range(7):
        put(queue, f"c{n}", *(f"{n}-{k}" for k in range(10)))
    assert len(take(queue, 2)) == 2
    assert len(take(queue, 50)) == 50


def test_f4_a_round_serves_every_client(queue: Ours) -> None:
    for n in range(50):
        put(queue, f"c{n}", *(f"{n}-{k}" for k in range(10)))
    for _ in range(10):
        assert len({delivery.client for delivery in take(queue, 50)}) == 50


def test_f5_what_is_done_is_done_whatever_its_bytes(queue: Ours) -> None:
    rows = [
        b'{"client_id":"x","msg":1,"attempts":0}',
        '{"client_id": "x", "msg": "\u00e9", "attempts": 0}'.encode(),
        b'{"client_id": "x", "msg": 1e3, "attempts": 0}',
        b'{"client_id": "x", "msg": "a\\/b", "attempts": 0}',
    ]
    queue.submit("x", rows)
    taken = take(queue)
    assert [delivery.payload for delivery in taken] == rows
    assert settle(queue, "ack", *taken) == ["done"] * 4
    assert queue.counts().pending == 0


def test_f6_equal_messages_are_three_messages(queue: Ours) -> None:
    queue.submit("x", [b"mail"] * 3)
    taken = take(queue)
    assert settle(queue, "ack", taken[0]) == ["done"]
    assert queue.counts().pending == 2


def test_f7_what_is_being_worked_on_is_left_alone(queue: Ours, clock: FakeClock) -> None:
    put(queue, "x", "job")
    held = take(queue)
    clock.now_ms += LEASE_MS - 1
    assert take(queue, worker="w2") == []
    assert settle(queue, "ack", *held) == ["done"]
    assert queue.counts().waiting == 0


def test_f8_recovery_makes_no_second_copy(queue: Ours, clock: FakeClock) -> None:
    put(queue, "x", "job")
    take(queue)
    clock.now_ms += LEASE_MS
    found = [delivery for n in range(3) for delivery in take(queue, worker=f"w{n}")]
    assert ids(found) == ["job"]


def test_f9_each_dead_letter_is_kept_with_its_story(queue: Ours) -> None:
    queue.configure("op", 1, {"max_failures": "4"})
    queue.submit("x", [b"bad"] * 3)
    error = Failure("ValueError", "no such user", "Traceback …").encoded()
    runs = 0
    while taken := take(queue):
        runs += len(taken)
        settle(queue, "fail", *taken, value=error)
    assert runs == 3 * 4
    page = queue.page("dead", payloads=True)
    assert [e.payload for e in page.entries] == [b"bad"] * 3
    for entry in page.entries:
        assert (entry.client, entry.reason, entry.failures) == ("x", "failed", 4)
        assert entry.error and entry.error.message == "no such user" and entry.since_ms


def test_f10_finding_work_does_not_depend_on_what_else_is_there(
    client: redis.Redis, queue: Ours
) -> None:
    put(queue, "x", "job")
    client.config_resetstat()
    assert ids(take(queue)) == ["job"]
    stats: Any = client.info("commandstats")
    assert "cmdstat_scan" not in stats and "cmdstat_keys" not in stats
    sent = stats["cmdstat_evalsha"]["calls"] + stats.get("cmdstat_eval", {}).get("calls", 0)
    assert sent <= 2


def test_f13_recovery_does_not_wait_for_a_quiet_moment(queue: Ours, clock: FakeClock) -> None:
    put(queue, "x", "lost")
    take(queue)
    found = []
    for n in range(40):
        put(queue, "x", f"{n}", f"{n}-too")
        clock.advance(1)
        taken = take(queue, 1)
        found += ids(taken)
        settle(queue, "ack", *taken)
    assert found.index("lost") == LEASE_MS // 1000 - 1, "as soon as its lease was over"


def test_f16_bytes_that_are_no_json_hold_nothing_up(queue: Ours, clock: FakeClock) -> None:
    queue.submit("x", [b"\xff not json", b"one", b"two"])
    assert [d.payload for d in take(queue)] == [b"\xff not json", b"one", b"two"]
    clock.now_ms += LEASE_MS
    assert len(take(queue)) == 3


def test_f17_recovery_keeps_up_with_the_workers(queue: Ours, clock: FakeClock) -> None:
    put(queue, "x", *(f"e{n}" for n in range(100)))
    take(queue)
    clock.now_ms += LEASE_MS
    assert len(take(queue, 16)) == 16, "each take brings back as many as it hands out, to 16"
    assert queue.sweep(100) >= 84
    assert len(take(queue)) == 84

"""Attempts and back-off that the code states where it makes a queue, and an operator's setting."""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import Any

import pytest
import redis

from redisq_ops import (
    CarmineQueue,
    CircularQueue,
    DelaySet,
    FairQueue,
    RequestQueue,
    Retry,
    RetryPolicy,
    Settlement,
    ShardedDelaySet,
    Worker,
    connect,
    exponential,
)
from redisq_ops.core.model.clock import FakeClock
from redisq_ops.core.model.errors import BadInput
from redisq_ops.tasks import Tasks

from ...command_line import Redisq

FAST = RetryPolicy(2, lambda failures: 0)
NO_NUMBER: Any = dict
NOBODY: Any = None
WRONG: Any = 5
TEXT: Any = "5"
MAKES: dict[str, Any] = {
    "request": (RequestQueue, "q", lambda queue: queue.submit([b"x"], id="r")),
    "delay": (DelaySet, "q", lambda queue: queue.schedule([("e", b"x")])),
    "shards": (ShardedDelaySet, "q", lambda queue: queue.schedule([("e", b"x")])),
    "circular": (CircularQueue, "q", lambda queue: queue.push(["e"])),
    "fair": (FairQueue, "q", lambda queue: queue.submit("ann", [b"x"])),
    "carmine": (CarmineQueue, "carmine:q", lambda queue: queue.enqueue([("e", b"x")])),
}


def failing(work: Any) -> None:
    raise OSError("no")


def run(url: str, queue: Any, handler: Any = failing) -> list[int]:
    """Work until nothing is due; the failures of what is dead then."""
    Worker(queue, handler, burst=True).run()
    return [entry.failures for entry in queue.page("dead").entries]


@pytest.mark.parametrize("kind", MAKES)
def test_the_code_says_how_often_and_when(url: str, kind: str) -> None:
    make, name, put = MAKES[kind]
    queue = make(connect(url), name, retry=FAST)
    put(queue)
    assert run(url, queue) == [2], "and at once, or the worker had ended before"
    queue.client.close()


def test_an_operators_setting_goes_before_the_code_and_is_told(
    url: str, client: redis.Redis, redisq: Redisq, caplog: pytest.LogCaptureFixture
) -> None:
    queue = FairQueue(client, "q", retry=FAST)
    queue.submit("ann", [b"x"])
    assert queue.settings() == {"max_failures": "2"}, "what is in force"
    queue.configure("op", 1, {"max_failures": "3"})
    with caplog.at_level(logging.WARNING, "redisq_ops.queue"):
        again = FairQueue(connect(url), "q", retry=FAST)
        assert run(url, again) == [3]
    said = "queue q: attempts=2 of the code isn't in force: the setting max_failures is 3"
    assert caplog.messages.count(said) == 1
    queue.configure("op", 2, {"max_failures": ""})
    queue.submit("ann", [b"y"])
    assert FairQueue(client, "q").settings() == {"max_failures": "2"}, "kept with the queue"
    soon = FairQueue(connect(url), "q", retry=RetryPolicy(backoff=0))
    assert sorted(run(url, soon)) == [3, 20], "a policy without attempts takes them back"
    assert soon.settings() == {}
    fresh = FairQueue(connect(url), "q", retry=RetryPolicy(4))
    assert fresh.submit("ann", [b"z"]) and fresh.settings() == {"max_failures": "4"}


def test_a_plan_of_settings_names_what_the_code_states(url: str, redisq: Redisq) -> None:
    RequestQueue(connect(url), "q", retry=FAST).submit([b"x"], id="r")
    redisq("settings", "q", "max_failures=3", "--yes")
    said = redisq("settings", "q", "max_failures=", "--dry-run")
    assert "max_failures: 3 to 2, as the code states" in said


def test_a_back_off_is_spread_and_a_handlers_own_retry_stays(url: str) -> None:
    def handler(work: Any) -> None:
        raise Retry(after=7) if work.id == "own" else OSError("no")

    def late(failures: int) -> float:
        return 100.0 if failures == 1 else 1 / 0

    queue = DelaySet(connect(url), "q", retry=RetryPolicy(backoff=late))
    queue.schedule([("own", b""), *((f"e{n}", b"") for n in range(20))])
    begun = queue.now()
    Worker(queue, handler, burst=True, batch=500).run()
    own, *others = [entry.at_ms for entry in queue.page("delayed").entries if entry.at_ms]
    ended = queue.now()
    assert begun + 7_000 <= own <= ended + 7_000
    assert begun + 90_000 <= min(others) and max(others) <= ended + 110_000
    assert max(others) - min(others) > 5_000, "they don't come back all at once"


@pytest.mark.parametrize(
    ("backoff", "waits"),
    [
        (5, [5, 5, 5]),
        (timedelta(minutes=1), [60, 60, 60]),
        ([1, timedelta(seconds=7)], [1, 7, 7]),
        (exponential(5, 15), [5, 10, 15]),
        (lambda failures: timedelta(seconds=failures), [1, 2, 3]),
        (lambda failures: 9 if failures < 3 else 1 / 0, [9, 9, 4]),
        (None, [1, 2, 4]),
    ],
)
def test_a_queue_takes_the_same_back_offs_as_a_task(backoff: Any, waits: list[int]) -> None:
    policy = RetryPolicy(backoff=backoff)
    assert [policy.wait_s(failures) for failures in (1, 2, 3)] == waits
    task = Tasks("jobs").task(backoff=backoff)(failing)
    assert [task.retry.wait_s(failures) for failures in (1, 2, 3)] == waits


def test_a_delay_that_is_stated_by_hand_goes_before_the_policy(client: redis.Redis) -> None:
    clock = FakeClock()
    queue = DelaySet(client, "q", retry=RetryPolicy(backoff=100), clock=clock)
    queue.schedule([(id, b"") for id in ("at-once", "stated", "as-usual")])
    taken = {each.id: each for each in queue.take(3, consumer="me").deliveries}
    delays: dict[str, Any] = {"at-once": 0, "stated": timedelta(seconds=7), "as-usual": None}
    queue.settle([Settlement(taken[id], "fail", b"", delay) for id, delay in delays.items()])
    found = {entry.id: entry.at_ms for entry in queue.page("delayed").entries if entry.at_ms}
    assert found.pop("stated") == clock.now_ms + 7_000
    assert 90_000 <= found.pop("as-usual") - clock.now_ms <= 110_000
    assert not found and queue.counts().waiting == 1


@pytest.mark.parametrize("found_by", ["take", "sweep"])
@pytest.mark.parametrize("kind", MAKES)
def test_who_finds_an_entry_that_died_of_lost_leases_logs_it_once(
    client: redis.Redis, caplog: pytest.LogCaptureFixture, kind: str, found_by: str
) -> None:
    make, name, put = MAKES[kind]
    queue = make(client, name, clock=(clock := FakeClock()))
    put(queue)
    for _ in range(3):
        (held,) = queue.take(1, consumer="gone", lease=1).deliveries
        assert not caplog.records
        clock.now_ms += 1_001
    for _ in range(2):
        if found_by == "sweep":
            queue.sweep()
        else:
            assert not queue.take(1, consumer="me").deliveries
    (record,) = [record for record in caplog.records if record.levelname == "ERROR"]
    assert record.name == "redisq_ops.worker"
    assert record.getMessage().startswith(f"dead letter: {name}/{held.id}: its lease was lost")
    assert vars(record)["entry"] == held.id


def test_deaths_are_told_beside_deliveries_and_beside_settlements(
    client: redis.Redis, caplog: pytest.LogCaptureFixture
) -> None:
    queue = DelaySet(client, "q", clock=(clock := FakeClock()))
    queue.schedule([(f"e{n}", b"") for n in range(3)])
    (mine,) = queue.take(1, consumer="me", lease=60).deliveries
    for _ in range(3):
        queue.take(2, consumer="gone", lease=1)
        clock.now_ms += 1_001
    queue.schedule([("new", b"x")])
    words, taken = queue.settle_and_take([Settlement(mine, "ack")], 5, consumer="me")
    assert (words, [each.payload for each in taken.deliveries]) == (["done"], [b"x"])
    assert [message.partition(":")[0] for message in caplog.messages] == ["dead letter"] * 2


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: RetryPolicy(0), "attempts must be an int from 1 to 1,000,000, not 0"),
        (lambda: RetryPolicy(True), "attempts must be an int"),
        (lambda: RetryPolicy(backoff=TEXT), "backoff must be a list, not str"),
        (lambda: RetryPolicy(backoff=True), "a wait of backoff is seconds"),
        (lambda: RetryPolicy(backoff=[]), "backoff is an empty list"),
        (lambda: RetryPolicy(backoff=NO_NUMBER), "backoff after 1 failure: 'int' object"),
        (lambda: Tasks("jobs").handler(TEXT), "concurrency must be an int, not str"),
        (lambda: DelaySet(NOBODY, "q").counts(), "no client was given: make one with connect()"),
        (lambda: RetryPolicy(backoff=[1, -1]), "a wait of backoff of -1: seconds from 0"),
        (lambda: RetryPolicy(backoff=lambda n: -1), "backoff after 1 failure of -1: seconds from"),
        (lambda: RequestQueue(None, "q", retry=WRONG), "retry must be a RetryPolicy, not int"),
    ],
)
def test_a_policy_that_can_not_be_meant_is_refused(make: Any, said: str) -> None:
    with pytest.raises(BadInput) as refused:
        make()
    assert str(refused.value).startswith(said)

"""The rate of a queue: how many entries are handed out in a second, and who looks again when."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest
import redis

from redisq_ops.core.engine.queue import Queue
from redisq_ops.core.foreign.resque import ResqueQueue
from redisq_ops.core.model.clock import FakeClock
from redisq_ops.core.model.entry import Limit, Settlement, TakeResult
from redisq_ops.core.model.errors import BadInput, Refused
from redisq_ops.core.queues.carmine import CarmineQueue
from redisq_ops.core.queues.circular import CircularQueue
from redisq_ops.core.queues.delay import DelaySet, ShardedDelaySet
from redisq_ops.core.queues.fair import FairQueue
from redisq_ops.core.queues.request import RequestQueue
from redisq_ops.core.redis.operation import run
from redisq_ops.core.worker import Worker
from redisq_ops.ops.change.audit_log import Author
from redisq_ops.ops.change.control import set_flags

from ...command_line import Redisq

KINDS: dict[type[Queue[Any]], Callable[[Any, int], object]] = {
    RequestQueue: lambda q, n: q.submit([b""] * n, id="r", limit=1000),
    DelaySet: lambda q, n: q.schedule([(f"e{k}", b"") for k in range(n)], at=q.now() / 1000),
    FairQueue: lambda q, n: q.submit("ann", [(f"e{k}", b"") for k in range(n)]),
    CircularQueue: lambda q, n: q.push([f"e{k}" for k in range(n)]),
    CarmineQueue: lambda q, n: q.enqueue([(f"e{k}", b"") for k in range(n)]),
}
EACH_KIND = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.kind)
SPANS = {"s": 1_000, "m": 60_000, "h": 3_600_000}


def full(
    client: redis.Redis, kind: type[Queue[Any]], rate: str, n: int = 100, **options: Any
) -> tuple[Any, FakeClock]:
    """A queue with ``n`` waiting entries, and its clock."""
    clock = FakeClock()
    name = "carmine:q" if kind is CarmineQueue else "q"
    queue: Any = kind(client, name, clock=clock, **options)
    KINDS[kind](queue, n)
    queue.configure("setup", 1, {"rate": rate})
    client.delete(queue.keys["wake"])
    return queue, clock


def most_within(times: list[int], span: int) -> int:
    """The greatest number of times within a span, its both ends included."""
    return max(sum(start <= at <= start + span for at in times) for start in times)


@EACH_KIND
@pytest.mark.parametrize("rate", ["10/s", "35/s", "90/m", "5/h"])
def test_a_pause_earns_a_tenth_of_a_second_and_the_rest_is_spread(
    client: redis.Redis, kind: type[Queue[Any]], rate: str
) -> None:
    queue, clock = full(client, kind, rate, 60)
    number, span = int(rate[:-2]), SPANS[rate[-1]]
    more = max(1, number * 100 // span)
    random, times, held = Random(rate), list[int](), list[Any]()
    clock.advance(10 * span / 1000)  # which earns no more than `more`
    while len(times) < 55:
        ends = [Settlement(each, "ack") for each in held]
        _, taken = queue.settle_and_take(ends, random.choice([1, 1, 2, 20]), consumer="w")
        held = list(taken.deliveries)
        times += [clock.now_ms] * len(held)
        if not held:
            assert taken.look_again_ms > clock.now_ms, "the rate let it be taken"
        if not held and random.random() < 0.7:
            clock.now_ms = taken.look_again_ms
        elif not held:
            clock.now_ms += random.randrange(1, span // number * 3)
    assert most_within(times, span) <= number + more
    assert len(times) >= 55


@EACH_KIND
def test_who_looks_when_it_is_told_to_misses_nothing(
    client: redis.Redis, kind: type[Queue[Any]]
) -> None:
    queue, clock = full(client, kind, "600/m", 8)
    start, times = clock.now_ms, list[int]()
    for _ in range(7):
        assert len(queue.take(5, consumer="w").deliveries) == 1
        times.append(clock.now_ms - start)
        empty = queue.take(5, consumer="w")
        assert (empty.deliveries, empty.more) == ((), False)
        clock.now_ms = empty.look_again_ms
    assert times == [0, 100, 200, 300, 400, 500, 600]


@EACH_KIND
def test_of_many_idle_workers_one_keeps_watch_and_wakes_the_next(
    client: redis.Redis, kind: type[Queue[Any]]
) -> None:
    queue, clock = full(client, kind, "10/s")
    wake = queue.keys["wake"]
    for _ in range(3):
        assert len(queue.take(1, consumer="busy").deliveries) == 1
        assert client.llen(wake) == 1, "nobody is woken, who could keep watch while it works"
        client.delete(wake)
        told = [queue.take(1, consumer=f"idle{n}").look_again_ms for n in range(3)]
        assert told == [clock.now_ms + 100, None, None]
        assert client.llen(wake) == 0, "workers wake each other for nothing"
        clock.advance(0.1)


@EACH_KIND
def test_without_a_rate_no_command_is_added(client: redis.Redis, kind: type[Queue[Any]]) -> None:
    def calls(rate: str) -> int:
        client.flushall()
        queue, _ = full(client, kind, rate, 4)
        queue.take(1, consumer="w")
        client.config_resetstat()
        queue.take(1, consumer="w")
        stats: Any = client.info("commandstats")
        return sum(each["calls"] for each in stats.values())

    usual = calls("off")
    assert calls("1000000/s") == usual + 2  # it reads and writes its time


@EACH_KIND
def test_what_was_lost_or_failed_counts_again(client: redis.Redis, kind: type[Queue[Any]]) -> None:
    queue, clock = full(client, kind, "2/h", 1)
    (lost,) = queue.take(1, consumer="w", lease=1).deliveries
    clock.advance(10)
    empty = queue.take(1, consumer="w")
    assert (empty.deliveries, queue.counts().waiting) == ((), 1)
    assert empty.look_again_ms == clock.now_ms - 10_000 + 1_800_000
    clock.now_ms = empty.look_again_ms
    (again,) = queue.take(1, consumer="w").deliveries
    assert again.id == lost.id
    queue.settle([Settlement(again, "fail", b"")])
    assert queue.take(1, consumer="w").deliveries == ()


@EACH_KIND
def test_a_new_rate_counts_at_once_and_so_does_a_clock_that_fell(
    client: redis.Redis, kind: type[Queue[Any]]
) -> None:
    queue, clock = full(client, kind, "1/h")
    assert len(queue.take(9, consumer="w").deliveries) == 1
    clock.advance(0.001)
    assert queue.take(9, consumer="w").deliveries == ()
    queue.configure("faster", 1, {"rate": "20/s"})
    queue.take(9, consumer="w")
    clock.advance(0.1)
    assert len(queue.take(9, consumer="w").deliveries) == 2
    clock.now_ms -= 10_000_000
    queue.take(9, consumer="w")
    clock.advance(0.1)
    assert len(queue.take(9, consumer="w").deliveries) == 2
    queue.configure("off", 1, {"rate": ""})
    assert len(queue.take(9, consumer="w").deliveries) == 9


def test_what_is_no_rate_is_refused_in_one_sentence(client: redis.Redis) -> None:
    queue, _ = full(client, DelaySet, "0", 1)
    for wrong in ("10", "10/d", "-1/s", "0/s", "1.5/s", "10 / s", "1000001/s"):
        with pytest.raises(BadInput, match="a rate is 10/s, 600/m or 5/h") as said:
            queue.configure("wrong", 1, {"rate": wrong})
        assert "\n" not in str(said.value)
    assert queue.settings() == {}


def test_a_value_that_another_program_wrote_is_no_rate(client: redis.Redis) -> None:
    queue, _ = full(client, DelaySet, "1/h")
    for spoilt in ("1/h", "0%2Fs", "x", "10%2Fd"):
        client.hset(queue.keys["cfg"], "rate", spoilt)
        assert len(queue.take(2, consumer="w").deliveries) == 2
    client.hset(queue.keys["cfg"], "rate", "1%2Fh")
    for spoilt in ("x", "nan", "-inf", "inf", ""):
        client.hset(queue.keys["stat"], "rate_at", spoilt)
        assert len(queue.take(2, consumer="w").deliveries) <= 1


def test_shards_have_equal_parts_and_the_next_one_is_watched(client: redis.Redis) -> None:
    clock = FakeClock()
    queue = ShardedDelaySet(client, "q", shards=4, clock=clock)
    queue.schedule([(f"e{n}", b"") for n in range(100)], at=clock.now_ms / 1000)
    queue.configure("setup", 1, {"rate": "20/s"})
    times = list[int]()
    start, takes = clock.now_ms, 0
    while clock.now_ms < start + 2_000:
        taken = queue.take(3, consumer="w")
        takes += 1
        times += [clock.now_ms] * len(taken.deliveries)
        if not taken.deliveries:
            assert not taken.more, "it would look again at once"
            assert taken.look_again_ms is not None and taken.look_again_ms > clock.now_ms
            assert queue.take(1, consumer="other") == TakeResult((), None, False)
            clock.now_ms = taken.look_again_ms
    assert most_within(times, 1_000) <= 20 + 4
    assert len(times) >= 40
    assert takes <= 2 * len(times)


@EACH_KIND
def test_a_burst_waits_for_the_rate_and_looks_when_it_has_to(
    client: redis.Redis, kind: type[Queue[Any]], caplog: pytest.LogCaptureFixture
) -> None:
    queue: Any = kind(client, "carmine:q" if kind is CarmineQueue else "q")
    KINDS[kind](queue, 12)
    queue.configure("setup", 1, {"rate": "50/s"})
    client.config_resetstat()
    tally = Worker(queue, lambda _: None, burst=True, concurrency=4).run()
    stats: Any = client.info("commandstats")
    assert tally.done == 12
    assert stats["cmdstat_evalsha"]["calls"] <= 5 * 12 + 10
    assert f"queue {queue.name} is limited to 50/s: " in caplog.text


def test_limits_that_are_reached_name_the_rate(client: redis.Redis) -> None:
    queue, clock = full(client, DelaySet, "5/m", 7)
    assert queue.limits_reached() == []
    queue.take(5, consumer="w")
    assert queue.limits_reached() == [Limit("queue", "q", 5, 6, "5/m")]
    clock.advance(12.999)
    assert queue.limits_reached() != []
    clock.advance(0.001)
    assert queue.limits_reached() == []


def test_a_queue_whose_program_has_workers_gets_no_rate(client: redis.Redis) -> None:
    queue = ResqueQueue(client, "resque:mail")
    with pytest.raises(Refused, match="can't have a rate"):
        queue.configure("op", 1, {"rate": "10/s"})
    with pytest.raises(Refused, match="can't have a rate"):
        run(client, set_flags(queue, "settings", Author("ada", "desk"), {"rate": "10/s"}))


def test_operators_set_a_rate_see_it_and_take_it_back(client: redis.Redis, redisq: Redisq) -> None:
    queue = RequestQueue(client, "mail")
    queue.submit([b""] * 450, id="r", limit=500)
    redisq("settings", "mail", "rate=10/m", "--yes")
    assert "10/m" in redisq("settings", "mail")
    assert queue.take(9, consumer="w").deliveries
    for address in ("mail", "mail/r/9"):
        said = redisq("explain", address)
        assert "queue mail is limited to 10/m: 449 entries waiting, at that rate they take" in said
    refused = redisq.refusal("settings", "mail", "rate=10", "--yes", code=2)
    assert "a rate is 10/s, 600/m or 5/h" in refused
    redisq("undo", "--yes")
    assert queue.settings() == {}
    redisq("settings", "mail", "rate=10/m", "--yes")
    redisq("settings", "mail", "rate=off", "--yes")
    assert queue.settings() == {}

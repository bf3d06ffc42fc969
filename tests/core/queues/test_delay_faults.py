"""The faults of article 003, each in two halves: its own steps show it, ours don't have it.

`docs/explanation/faults.md` lists them in words. `Article` is the article's set, with its one
script.
"""

from __future__ import annotations

import random
from typing import Any

import pytest
import redis
from redis.crc import key_slot

from redisq_ops.core.model.clock import FakeClock
from redisq_ops.core.model.entry import Delivery, Settlement
from redisq_ops.core.model.errors import BadInput
from redisq_ops.core.model.settings import LEASE_MS
from redisq_ops.core.queues.delay import DelaySet
from redisq_ops.core.queues.delay.handover import admit
from redisq_ops.core.queues.delay.sharded import ShardedDelaySet
from redisq_ops.core.redis.operation import run

from ...queue_steps import ids, take

DEQUEUE = """
local from, most, new, batch = KEYS[1], ARGV[1], ARGV[2] or 0.0, ARGV[3]
local items = redis.call('ZRANGE', from, '-inf', most, 'BYSCORE', 'LIMIT', 0, batch)
for _, item in ipairs(items) do redis.call('ZADD', from, 'XX', new, item) end
return items
"""
RECLAIM = 30
T = 1_700_000_000


class Article:
    """The article's functions; times are a client's, in seconds."""

    def __init__(self, client: redis.Redis, key: str = "delay_set") -> None:
        self.client: Any = client
        self.key = key

    def enqueue(self, job: str, ready_at: float) -> None:
        self.client.zadd(self.key, {job: ready_at})

    def dequeue(self, now: float, batch: object = 100) -> list[str]:
        found = self.client.eval(DEQUEUE, 1, self.key, str(now), str(now + RECLAIM), str(batch))
        return [item.decode() for item in found]

    def ack(self, job: str) -> None:
        self.client.zrem(self.key, job)

    def score(self, job: str) -> float | None:
        score: float | None = self.client.zscore(self.key, job)
        return score


@pytest.fixture
def article(client: redis.Redis) -> Article:
    return Article(client)


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(T * 1000)


@pytest.fixture
def queue(client: redis.Redis, clock: FakeClock) -> DelaySet[redis.Redis]:
    return DelaySet(client, "ours", clock=clock)


Ours = DelaySet[redis.Redis]


def put(queue: Ours, *entries: tuple[str, int], mode: str = "new") -> list[str]:
    """(id, ready time in seconds after T) pairs; the payload is the id."""
    said = []
    for id, at in entries:
        said += queue.schedule([(id, id.encode())], at_ms=(T + at) * 1000, mode=mode)  # type: ignore[arg-type]
    return [one.word for one in said]


def ack(queue: Ours, *deliveries: Delivery) -> list[str]:
    return queue.settle([Settlement(delivery, "ack") for delivery in deliveries])


def test_e1_a_batch_that_is_no_number_is_refused(
    client: redis.Redis, article: Article, queue: Ours
) -> None:
    for n in range(250):
        article.enqueue(f"j{n}", T)
    with pytest.raises(redis.ResponseError):
        client.eval(DEQUEUE, 1, article.key, T, T + RECLAIM)
    with pytest.raises(redis.ResponseError):
        article.dequeue(T, 0.5)
    assert len(article.dequeue(T, -1)) == 250, "asked for -1, got all"

    put(queue, ("a", 0), ("b", 0))
    for batch in (0, -1, 501, 0.5):
        with pytest.raises(BadInput):
            queue.take(batch, consumer="w1")  # type: ignore[arg-type]
    assert ids(take(queue, 1)) == ["a"]


def test_e2_what_comes_back_comes_back_in_its_order(
    article: Article, queue: Ours, clock: FakeClock
) -> None:
    jobs = [("z-first", 1), ("m", 2), ("a-last", 3)]
    for job, at in jobs:
        article.enqueue(job, T + at)
    assert article.dequeue(T + 3) == ["z-first", "m", "a-last"]
    assert article.dequeue(T + 40) == ["a-last", "m", "z-first"]

    put(queue, *jobs)
    clock.advance(3000)
    assert ids(take(queue)) == ["z-first", "m", "a-last"]
    clock.advance(LEASE_MS)
    assert ids(take(queue)) == ["z-first", "m", "a-last"]


def test_e3_in_flight_is_not_scheduled(article: Article, queue: Ours, clock: FakeClock) -> None:
    article.enqueue("working", T)
    article.enqueue("waiting", T + RECLAIM)
    article.dequeue(T)
    assert article.score("working") == article.score("waiting") == T + RECLAIM

    put(queue, ("working", 0), ("waiting", RECLAIM))
    (delivery,) = take(queue)
    assert [e.id for e in queue.page("pending").entries] == ["working"]
    assert [e.id for e in queue.page("delayed").entries] == ["waiting"]
    queue.settle([Settlement(delivery, "release")])
    entry = queue.get("working")
    assert entry and entry.at_ms == T * 1000, "back at its own time"


def test_e4_an_ack_does_not_remove_tomorrows_run(
    article: Article, queue: Ours, clock: FakeClock
) -> None:
    article.enqueue("job", T)
    article.dequeue(T)
    article.enqueue("job", T + 86400)
    article.ack("job")
    assert article.score("job") is None, "tomorrow's run is gone"

    put(queue, ("job", 0))
    (today,) = take(queue)
    assert put(queue, ("job", 86400), mode="move") == ["again"]
    assert ack(queue, today) == ["done"]
    assert take(queue) == []
    clock.advance(86_400_000)
    assert ids(take(queue)) == ["job"]


def test_e5_equal_payloads_are_two_entries(article: Article, queue: Ours) -> None:
    article.enqueue("mail", T)
    article.enqueue("mail", T + 60)
    assert article.dequeue(T) == [], "merged into one, at the later time"

    queue.schedule([("m1", b"mail"), ("m2", b"mail")], at_ms=T * 1000)
    assert [(d.id, d.payload) for d in take(queue)] == [("m1", b"mail"), ("m2", b"mail")]


def test_e6_scheduling_again_hands_nothing_out_twice(
    article: Article, queue: Ours, clock: FakeClock
) -> None:
    article.enqueue("job", T)
    assert article.dequeue(T) == ["job"]
    article.enqueue("job", T)  # sent again, or enqueued again
    assert article.dequeue(T + 1) == ["job"], "with two workers now"

    put(queue, ("job", 0))
    (first,) = take(queue)
    assert put(queue, ("job", 0)) == ["same"]
    assert put(queue, ("job", 0), mode="move") == ["again"]
    assert take(queue, worker="w2") == []
    ack(queue, first)
    assert ids(take(queue, worker="w2")) == ["job"]


@pytest.mark.slow
def test_e7_what_kills_its_worker_ends_with_the_dead(
    article: Article, queue: Ours, clock: FakeClock
) -> None:
    article.enqueue("bomb", T)
    served = sum(len(article.dequeue(now)) for now in range(T, T + 3600))
    assert served == 120, "in every hour, for ever"

    put(queue, ("bomb", 0))
    ours = 0
    for _ in range(3600):
        ours += len(take(queue))
        clock.advance(1000)
    assert ours == 3
    (dead,) = queue.page("dead").entries
    assert (dead.id, dead.reason, dead.lost) == ("bomb", "lost", 3)


def test_e8_each_of_a_batch_has_a_lease_that_can_be_renewed(
    article: Article, queue: Ours, clock: FakeClock
) -> None:
    for n in range(100):
        article.enqueue(f"{n:02}", T)
    batch = article.dequeue(T)
    twice = []
    for second, job in enumerate(batch):  # a second each
        twice += [again for again in article.dequeue(T + second) if again not in batch[:second]]
        article.ack(job)
    assert len(set(twice)) == 70

    queue.schedule([(f"{n:02}", b"") for n in range(100)], at_ms=T * 1000)
    left = take(queue)
    while left:
        assert ack(queue, left.pop(0)) == ["done"]
        clock.advance(1000)
        if left and len(left) % 10 == 0:
            assert all(queue.extend(left))
        assert take(queue, worker="w2") == []


def test_e9_every_shard_is_looked_at_in_every_round(client: redis.Redis, clock: FakeClock) -> None:
    chance = random.Random(9)
    shards = [Article(client, f"delay_set_{n}") for n in range(12)]
    looks = []
    for n in range(50):
        shards[chance.randrange(12)].enqueue(f"job-{n}", T)
        looks.append(1)
        while not (found := shards[chance.randrange(12)].dequeue(T)):
            looks[-1] += 1
        assert found == [f"job-{n}"]
    assert max(looks) > 36, "three rounds of all shards, and not the end of it"

    ours = ShardedDelaySet(client, "ours", shards=12, clock=clock)
    for n in range(24):
        ours.schedule([(f"job-{n}", b"")], at_ms=T * 1000)
        assert [d.id for d in ours.take(1, consumer="w").deliveries] == [f"job-{n}"]


def test_e9b_an_id_has_one_home(client: redis.Redis, clock: FakeClock) -> None:
    chance = random.Random(0)
    for _ in range(3):
        Article(client, f"delay_set_{chance.randrange(12)}").enqueue("job", T)
    copies = sum(Article(client, f"delay_set_{n}").score("job") is not None for n in range(12))
    assert copies > 1
    assert len({key_slot(f"delay_set_{n}".encode()) for n in range(12)}) == 12

    ours = ShardedDelaySet(client, "ours", shards=12, clock=clock)
    said = [ours.schedule([("job", b"")], at_ms=T * 1000)[0].word for _ in range(3)]
    assert said == ["ok", "same", "same"]
    assert ours.counts().waiting == 1


def test_e10_only_the_servers_clock_counts(client: redis.Redis, article: Article) -> None:
    article.enqueue("job", T)
    assert article.dequeue(T) == ["job"]  # by a worker whose clock is right
    assert article.dequeue(T + 60) == ["job"], "by one whose clock is a minute ahead"
    article.enqueue("later", T + 3600)
    assert "later" in article.dequeue(T + 3600), "an hour early by anyone else's clock"

    queue = DelaySet(client, "ours")  # no client of ours has a clock to be wrong
    queue.schedule([("job", b"")], after_ms=0)
    queue.schedule([("later", b"")], after_ms=3_600_000)
    assert ids(take(queue)) == ["job"]
    seconds, micros = client.time()
    entry = queue.get("later")
    assert entry and entry.at_ms
    assert entry.at_ms <= seconds * 1000 + micros // 1000 + 3_600_000


def test_e11_only_the_latest_holder_can_acknowledge(
    article: Article, queue: Ours, clock: FakeClock
) -> None:
    article.enqueue("job", T)
    article.dequeue(T)  # w1, slow
    assert article.dequeue(T + 31) == ["job"]  # w2
    article.ack("job")  # w1: and w2's safety is gone
    assert article.dequeue(T + 90) == [], "w2 died, and nobody will run it"

    put(queue, ("job", 0))
    (slow,) = take(queue, worker="w1")
    clock.advance(LEASE_MS)
    assert ids(take(queue, worker="w2")) == ["job"]
    assert ack(queue, slow) == ["stale"]
    clock.advance(LEASE_MS)
    assert ids(take(queue, worker="w3")) == ["job"]


def test_e12_a_hand_over_that_dies_half_way_makes_no_second_copy(
    client: redis.Redis, article: Article, queue: Ours, clock: FakeClock
) -> None:
    article.enqueue("job", T)
    for now in (T, T + 31):
        for job in article.dequeue(now):
            client.rpush("target", job)  # and the worker dies before its ZREM
    assert client.llen("target") == 2

    target = DelaySet(client, "target", clock=clock)
    put(queue, ("job", 0))
    for _ in range(2):
        for delivery in take(queue):
            run(client, admit(target, [(delivery.id, delivery.payload)]))
        clock.advance(LEASE_MS)
    assert target.counts().waiting == 1
    assert queue.hand_over(target).dead == 1, "the id is taken there: kept here, with the reason"

    put(queue, ("other", 0))
    assert queue.hand_over(target).done == 1
    assert queue.get("other") is None
    assert target.counts().waiting == 2


def test_e13_fewer_shards_orphan_nothing(client: redis.Redis, clock: FakeClock) -> None:
    for n in range(60):
        Article(client, f"delay_set_{n % 12}").enqueue(f"job-{n}", T)
    polled = [job for n in range(8) for job in Article(client, f"delay_set_{n}").dequeue(T)]
    assert len(polled) == 40

    ours = ShardedDelaySet(client, "ours", shards=12, clock=clock)
    ours.schedule([(f"job-{n}", b"") for n in range(60)], at_ms=T * 1000)
    ours.resize(8)
    late = ShardedDelaySet(client, "ours", clock=clock)
    found: list[str] = []
    while batch := late.take(100, consumer="w").deliveries:
        found += [delivery.id for delivery in batch]
    assert sorted(found) == sorted(f"job-{n}" for n in range(60))

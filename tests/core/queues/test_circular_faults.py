"""The faults of article 002, each in two halves: its own steps show it, ours don't have it.

`docs/explanation/faults.md` lists them in words. `Article` is the article's list, as its text
tells the steps.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
import redis

from redisq_ops.core.model.clock import FakeClock
from redisq_ops.core.model.entry import Delivery, Settlement
from redisq_ops.core.model.settings import LEASE_MS
from redisq_ops.core.queues.circular import CircularQueue

from ...queue_steps import ids
from ...queue_steps import take_all as take

NEXT = """
local item = redis.call('RPOP', KEYS[1])
if not item then return nil end
if item:find('*', 1, true) then
  redis.call('LPUSH', KEYS[1], item)
  return item
end
redis.call('LPUSH', KEYS[1], item .. '*' .. ARGV[1])
return item
"""
# "atomically remove the old item and add a new one with the new timestamp"
RETAKE = """
redis.call('LREM', KEYS[1], 0, ARGV[1])
redis.call('LPUSH', KEYS[1], ARGV[2])
"""
# "a set with the completed tasks, that the script will remove every time an item in the processing
# state is encountered and is also in the set"
NEXT_SWEEPING = """
local item = redis.call('RPOP', KEYS[1])
if not item then return nil end
local id = item:match('^(.-)%*')
if id then
  if redis.call('SREM', KEYS[2], id) == 1 then return false end
  redis.call('LPUSH', KEYS[1], item)
  return item
end
redis.call('LPUSH', KEYS[1], item .. '*' .. ARGV[1])
return item
"""
# "the list contains new elements, the sorted set those in the processing state"
NEXT_BESIDE = """
local item = redis.call('RPOP', KEYS[1])
if item then redis.call('ZADD', KEYS[2], ARGV[1], item) end
return item
"""
TIMEOUT = 30
T = 1_700_000_000


class Article:
    """The article's queue; times are a client's, in seconds."""

    def __init__(self, client: redis.Redis, key: str = "queue") -> None:
        self.client: Any = client
        self.key = key

    def push(self, *ids: str) -> None:
        self.client.lpush(self.key, *ids)

    def next(self, now: int) -> str | None:
        found = self.client.eval(NEXT, 1, self.key, now)
        return None if found is None else found.decode()

    def take(self, now: int, calls: int = 1000) -> tuple[str, str] | None:
        """An id and its marker, as a consumer gets to one; None after so many calls in vain."""
        for _ in range(calls):
            found = self.next(now)
            if found is None:
                return None
            id, star, since = found.partition("*")
            if not star:
                return id, f"{id}*{now}"
            if int(since or 0) < now - TIMEOUT:
                return id, self.retake(found, now)
        return None

    def retake(self, marker: str, now: int) -> str:
        fresh = f"{marker.partition('*')[0]}*{now}"
        self.client.eval(RETAKE, 1, self.key, marker, fresh)
        return fresh

    def done(self, marker: str, count: int = 0) -> int:
        removed: int = self.client.lrem(self.key, count, marker)
        return removed

    @property
    def elements(self) -> list[str]:
        """What is next first."""
        return [item.decode() for item in self.client.lrange(self.key, 0, -1)][::-1]


@pytest.fixture
def article(client: redis.Redis) -> Article:
    return Article(client)


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(T * 1000)


Ours = CircularQueue[redis.Redis]


@pytest.fixture(params=["list", "rotate"])
def queue(request: pytest.FixtureRequest, client: redis.Redis, clock: FakeClock) -> Ours:
    return CircularQueue(client, "ours", clock=clock, residence=request.param)


def ack(queue: Ours, *deliveries: Delivery) -> list[str]:
    return queue.settle([Settlement(delivery, "ack") for delivery in deliveries])


def test_d0_the_order_is_first_in_first_out_whatever_the_text_says(
    article: Article, queue: Ours
) -> None:
    article.push("1", "2")
    assert [article.next(T), article.next(T)] == ["1", "2"], "it says First In Last Out"

    queue.push(["1", "2"])
    assert ids(take(queue)) == ["1", "2"]


def test_d1_a_star_in_an_id_is_no_time(article: Article, queue: Ours) -> None:
    article.push("user*1")
    found = article.next(T)
    assert found == "user*1"
    assert int(found.partition("*")[2]) < T - TIMEOUT, "in processing since 1970, and timed out"

    queue.client.lpush(queue.queue_key, "user*1", "user")
    assert ids(take(queue)) == ["user"]
    (letter,) = queue.page("dead", payloads=True).entries
    assert (letter.reason, letter.payload) == ("invalid", b"user*1")


def test_d2_what_is_done_is_removed_whatever_its_marker(article: Article, queue: Ours) -> None:
    article.push("45")
    article.take(T)
    assert article.done("45") == 0, "the text names the id; its element is another one now"
    assert article.take(T + TIMEOUT + 1) is not None, "and so it runs again, for ever"

    queue.push("45")
    assert ack(queue, *take(queue)) == ["done"]
    assert take(queue) == [] and queue.get("45") is None


def test_d3_one_removal_removes_one_run(
    article: Article, client: redis.Redis, clock: FakeClock
) -> None:
    article.push("45", "45")
    first, second = article.take(T), article.take(T)
    assert first == second == ("45", f"45*{T}")
    assert article.done(f"45*{T}") == 2, "the other one's safety is gone"

    ours = CircularQueue(client, "ours", clock=clock, repeats="each")
    assert ours.push(["45", "45"]) == ["new", "again"]
    (held,) = take(ours)
    clock.advance(LEASE_MS)
    (again,) = take(ours)
    assert ack(ours, held, again) == ["stale", "done"]
    assert ack(ours, *take(ours)) == ["done"]
    assert take(ours) == []


def test_d4_of_two_who_find_a_lease_lost_one_gets_it(
    article: Article, queue: Ours, clock: FakeClock
) -> None:
    article.push("45")
    article.take(T)
    late = T + TIMEOUT + 1
    seen = [article.next(late), article.next(late + 1)]
    assert seen == [f"45*{T}"] * 2
    article.retake(f"45*{T}", late)
    article.retake(f"45*{T}", late + 1)
    assert article.elements == [f"45*{late}", f"45*{late + 1}"], "one job, two leases"

    queue.push("45")
    take(queue)
    clock.advance(LEASE_MS)
    assert [len(take(queue, worker=f"w{n}")) for n in range(3)] == [1, 0, 0]


def test_d4b_a_job_that_ends_between_a_look_and_a_retake_stays_ended(
    article: Article, queue: Ours, clock: FakeClock
) -> None:
    article.push("45")
    article.take(T)
    late = T + TIMEOUT + 1
    assert article.next(late) == f"45*{T}"
    assert article.done(f"45*{T}") == 1
    article.retake(f"45*{T}", late)
    assert article.elements == [f"45*{late}"], "it is back, and it was done"

    queue.push("45")
    held = take(queue)
    clock.advance(LEASE_MS - 1)
    assert take(queue, worker="w2") == []
    assert ack(queue, *held) == ["done"]
    clock.advance(LEASE_MS)
    assert take(queue, worker="w2") == []


def test_d5_the_crash_of_a_consumer_costs_a_lease(
    article: Article, queue: Ours, clock: FakeClock
) -> None:
    # What the article promises, and keeps: "there is no way for a job to be lost".
    article.push("1", "2")
    article.take(T)
    assert [article.take(T + TIMEOUT + 1) for _ in range(2)] == [
        ("2", f"2*{T + TIMEOUT + 1}"), ("1", f"1*{T + TIMEOUT + 1}"),
    ]  # fmt: skip

    queue.push(["1", "2"])
    take(queue, 1, "dies")
    clock.advance(LEASE_MS)
    assert sorted(ids(take(queue))) == ["1", "2"]


def test_d6_what_kills_its_worker_doesn_t_do_so_for_ever(
    article: Article, queue: Ours, clock: FakeClock
) -> None:
    article.push("poison")
    for n in range(120):
        assert article.take(T + n * (TIMEOUT + 1)) is not None

    queue.push("poison")
    deaths = 0
    while take(queue):
        deaths += 1
        clock.advance(LEASE_MS)
    (letter,) = queue.page("dead").entries
    assert (deaths, letter.reason) == (3, "lost")


def test_d7_a_completed_set_knows_ids_and_not_runs(article: Article, client: redis.Redis) -> None:
    any_client: Any = client

    def following(now: int) -> bytes | None:
        found: bytes | None = any_client.eval(NEXT_SWEEPING, 2, "queue", "completed", now)
        return found

    article.push("45", "45")
    assert [following(T), following(T + 1)] == [b"45", b"45"]
    client.sadd("completed", "45")  # the second one is done
    assert following(T + 2) is None, "and the first one's element is swept"
    assert article.elements == [f"45*{T + 1}"], "the finished one stays, and runs again"

    ours = CircularQueue(client, "ours", residence="rotate", repeats="each")
    ours.push(["45", "45", "other"])
    (held, _) = take(ours)
    assert ack(ours, held) == ["done"]
    (again,) = take(ours)
    assert again.id == "45" and ours.counts().pending == 2, "the second run is there, once"
    assert ack(ours, held) == ["stale"]
    assert ack(ours, again) == ["done"]
    assert take(ours) == []


def test_d8_an_id_is_never_refused_for_good_and_an_event_never_lost(
    article: Article, queue: Ours
) -> None:
    client: Any = article.client

    def push_once(id: str) -> bool:
        added = bool(client.sadd("known", id))
        if added:
            article.push(id)
        return added

    assert push_once("45")
    found = article.take(T)
    assert found is not None
    assert not push_once("45"), "the document changed while it is indexed: that is not indexed"
    article.done(found[1])  # and here the consumer dies, before it takes the id out of the set
    assert not push_once("45") and article.next(T) is None, "45 can't be pushed any more"

    queue.push("45")
    (held,) = take(queue)
    assert queue.push("45") == ["again"]
    assert ack(queue, held) == ["done"]
    assert ack(queue, *take(queue)) == ["done"]
    assert queue.push("45") == ["new"]


def test_d9_the_end_of_a_lap_is_no_job(
    article: Article, client: redis.Redis, clock: FakeClock
) -> None:
    article.push("-1")
    assert article.next(100) == "-1"
    assert article.elements == ["-1*100"], "handed out like a job, and marked like one"

    ours = CircularQueue(client, "ours", clock=clock, residence="rotate", idle="lap")
    ours.push(["-1", "a"])
    assert ids(take(ours)) == ["-1", "a"]
    assert not ours.take(1, consumer="w").more


def test_d9b_every_consumer_gets_to_pause(client: redis.Redis, clock: FakeClock) -> None:
    any_client: Any = client
    client.lpush("queue", *(f"{n}*{T}" for n in range(9)), "-1")
    pauses = Counter[int]()
    for turn in range(1000):
        if any_client.lmove("queue", "queue", "RIGHT", "LEFT") == b"-1":
            pauses[turn % 2] += 1
    assert sorted(pauses[n] for n in range(2)) == [0, 100], "one of two never sees the end"

    ours = CircularQueue(client, "ours", clock=clock, residence="rotate", idle="lap")
    ours.push([f"e{n}" for n in range(9)])
    take(ours)
    rests = Counter(n % 2 for n in range(20) if not ours.take(1, consumer=f"w{n % 2}").more)
    assert min(rests[0], rests[1]) >= 8


def test_d10_words_for_sleepers_are_bounded(article: Article, queue: Ours) -> None:
    client: Any = article.client
    for n in range(1000):
        article.push(f"e{n}")
        client.lpush("notify", "1")
    while article.take(T, calls=1):  # consumers that are awake don't look at the second list
        pass
    assert client.llen("notify") == 1000, "as many useless wake-ups"

    for start in range(0, 1000, 100):
        queue.push([f"e{n}" for n in range(start, start + 100)])
    take(queue, 500)
    assert client.llen(queue.keys["wake"]) <= 16


def test_d11_equal_ids_are_not_merged_by_a_sorted_set(client: redis.Redis) -> None:
    any_client: Any = client
    client.lpush("queue", "45", "45")
    for now in (T, T + 5):
        assert any_client.eval(NEXT_BESIDE, 2, "queue", "processing", now) == b"45"
    assert client.zcard("processing") == 1
    client.zrem("processing", "45")
    assert client.exists("queue", "processing") == 0, "one is done, and the other's safety is gone"

    ours = CircularQueue(client, "ours")
    client.lpush(ours.queue_key, "45", "45")
    (held,) = take(ours)
    assert ack(ours, held) == ["done"]
    (again,) = take(ours)
    assert again.id == "45", "the second push is a run of its own, after the first"


def test_d12_work_in_progress_doesn_t_stand_in_the_way(
    article: Article, client: redis.Redis
) -> None:
    article.push(*(f"busy{n}" for n in range(500)))
    for _ in range(500):
        assert article.take(T, calls=1)
    article.push("fresh")
    calls = 1
    while article.next(T) != "fresh":
        calls += 1
    assert calls == 501

    ours = CircularQueue(client, "ours")
    for start in range(0, 500, 100):
        ours.push([f"busy{n}" for n in range(start, start + 100)])
    assert len(ours.take(500, consumer="w").deliveries) == 500
    ours.push("fresh")
    assert ids(list(ours.take(1, consumer="w").deliveries)) == ["fresh"]


def test_d13_clocks_of_clients_are_not_asked(article: Article, queue: Ours) -> None:
    article.push("45")
    article.take(T)
    assert article.take(T + 60) == ("45", f"45*{T + 60}"), "a minute ahead: taken from its holder"

    # Ours has no argument for a time: a take says how long, and the server says from when.
    queue.push("45")
    (held,) = take(queue)
    assert held.deadline_ms == T * 1000 + LEASE_MS
    assert take(queue, worker="hours-ahead") == []


def test_d14_a_late_worker_changes_nothing(article: Article, queue: Ours, clock: FakeClock) -> None:
    article.push("45")
    article.take(T)
    late = T + TIMEOUT + 1
    found = article.take(late)
    assert found is not None
    assert article.done(f"45*{T}") == 0 and article.done(found[1]) == 1
    article.push("45")
    article.take(late)  # in the same second: the marker is that of the run before
    assert article.done(found[1]) == 1, "a late call ends a run it has nothing to do with"

    queue.push("45")
    (first,) = take(queue)
    assert ack(queue, first) == ["done"]
    queue.push("45")
    (second,) = take(queue)
    assert ack(queue, first) == ["stale"]
    assert ack(queue, second) == ["done"]

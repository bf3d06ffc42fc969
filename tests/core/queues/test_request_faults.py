"""The faults of article 000, each in two halves: its own steps show it, ours don't have it.

`docs/explanation/faults.md` lists them in words. `Article` is the article's queue, in its three
scripts and
the worker's commands as it describes them.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Any

import pytest
import redis
from redis.crc import key_slot

from redisq_ops.core.model.clock import FakeClock
from redisq_ops.core.model.entry import Delivery, Settlement
from redisq_ops.core.model.errors import BadInput
from redisq_ops.core.model.settings import LEASE_MS
from redisq_ops.core.queues.request import RequestQueue

from ...model.wire import picture, run_twice

INSERT = """
local stream = 'sub:{' .. KEYS[1] .. '}'
redis.call('SET', 'counter:{' .. KEYS[1] .. '}', #ARGV)
redis.call('XADD', stream, '*', 'req', '0')
redis.call('XTRIM', stream, 'MAXLEN', '0')
redis.call('XGROUP', 'CREATE', stream, stream, '$')
for _, sub in ipairs(ARGV) do redis.call('XADD', stream, '*', 'req', sub) end
"""
TOKENS = "for i = 1, ARGV[2] do redis.call('LPUSH', KEYS[1], ARGV[1]) end"
DONE = """
local stream, counter = 'sub:{' .. KEYS[1] .. '}', 'counter:{' .. KEYS[1] .. '}'
if redis.call('DECR', counter) == 0 then
  redis.call('XGROUP', 'DESTROY', stream, stream)
  redis.call('DEL', stream)
  redis.call('DEL', counter)
  redis.call('PUBLISH', KEYS[1], '1')
else
  redis.call('XACK', stream, stream, ARGV[1])
end
"""


class Article:
    """What the article's producer and worker do, command by command."""

    def __init__(self, client: redis.Redis) -> None:
        self.client: Any = client

    def insert(self, id: str, subs: Iterable[str]) -> None:
        self.client.eval(INSERT, 1, id, *subs)

    def tokens(self, id: str, limit: object, priority: int = 0) -> None:
        self.client.eval(TOKENS, 1, f"{{req}}:{priority}", id, str(limit))

    def submit(self, id: str, subs: Iterable[str], limit: int, priority: int = 0) -> None:
        self.insert(id, subs)
        self.tokens(id, limit, priority)

    def pop(self) -> tuple[str, str] | None:
        """A token: its list and the request's id."""
        found = self.client.brpop([f"{{req}}:{p}" for p in range(100)], 0.01)
        return (found[0].decode(), found[1].decode()) if found else None

    def read(self, id: str, worker: str) -> tuple[str, bytes] | None:
        stream = f"sub:{{{id}}}"
        reply = self.client.execute_command(
            *("XREADGROUP", "GROUP", stream, worker, "COUNT", 1, "STREAMS", stream, ">")
        )
        if not reply:
            return None
        entry, fields = next(iter(reply.values()))[0][0]
        return entry.decode(), fields[b"req"]

    def done(self, id: str, entry: str) -> None:
        self.client.eval(DONE, 1, id, entry)

    def give_back(self, token: tuple[str, str]) -> None:
        self.client.lpush(*token)

    def counter(self, id: str) -> int | None:
        value = self.client.get(f"counter:{{{id}}}")
        return None if value is None else int(value)

    def left(self) -> int:
        """Tokens in all lists."""
        return sum(self.client.llen(f"{{req}}:{p}") for p in range(100))


@pytest.fixture
def article(client: redis.Redis) -> Article:
    return Article(client)


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def queue(client: redis.Redis, clock: FakeClock) -> RequestQueue[redis.Redis]:
    return RequestQueue(client, "ours", clock=clock)


Ours = RequestQueue[redis.Redis]


def take(queue: Ours, worker: str = "w1", n: int = 1) -> list[Delivery]:
    return list(queue.take(n, consumer=worker).deliveries)


def ack(queue: Ours, *deliveries: Delivery) -> list[str]:
    return queue.settle([Settlement(delivery, "ack") for delivery in deliveries])


def request(queue: Ours, id: str = "r") -> tuple[str, int, int, int]:
    """state, waiting, pending, done"""
    found = queue.request(id)
    assert found is not None
    return found.state, found.waiting, found.pending, found.done


def test_a1_submitting_again_after_a_lost_reply_wipes_nothing(
    client: redis.Redis, article: Article, queue: Ours
) -> None:
    article.insert("r", "abc")
    with pytest.raises(redis.ResponseError, match="BUSYGROUP"):
        article.insert("r", "abc")
    assert client.xlen("sub:{r}") == 0
    assert article.counter("r") == 3

    queue.counts()
    queue.submit([b"warm"], id="warm")
    assert run_twice(client, queue.submit.op([b"a", b"b", b"c"], id="r")).word == "ok"
    assert request(queue) == ("sealed", 3, 0, 0)
    ours = {d.payload for d in take(queue, n=9)}
    assert {b"a", b"b", b"c"} <= ours


def test_a2_one_entry_acknowledged_three_times_counts_once(
    client: redis.Redis, article: Article, queue: Ours
) -> None:
    article.submit("r", "abc", 1)
    token = article.pop()
    assert token
    entry = article.read("r", "w1")
    assert entry
    for _ in range(3):
        article.done("r", entry[0])
    assert not client.exists("sub:{r}"), "gone with two sub-requests nobody had"

    queue.submit([b"a", b"b", b"c"], id="r", limit=1)
    (delivery,) = take(queue)
    assert [ack(queue, delivery) for _ in range(3)] == [["done"], ["stale"], ["stale"]]
    assert request(queue) == ("sealed", 2, 0, 1)


def test_a3_acknowledging_after_the_end_leaves_nothing_behind(
    client: redis.Redis, article: Article, queue: Ours
) -> None:
    article.submit("r", "a", 1)
    entry = article.read("r", "w1")
    assert entry
    article.done("r", entry[0])
    article.done("r", entry[0])
    assert article.counter("r") == -1

    queue.submit([b"a"], id="r")
    (delivery,) = take(queue)
    assert ack(queue, delivery) == ["done"]
    before = queue.request("r")
    assert ack(queue, delivery) == ["stale"]
    assert queue.request("r") == before
    assert queue.invariants() == []


def test_a4_a_worker_that_dies_takes_no_token_with_it(
    client: redis.Redis, article: Article, queue: Ours, clock: FakeClock
) -> None:
    article.submit("r", "ab", 1)
    token = article.pop()
    assert token and article.read("r", "dies")
    assert article.pop() is None
    assert client.xpending("sub:{r}", "sub:{r}")["pending"] == 1
    assert client.xinfo_groups("sub:{r}")[0]["lag"] == 1, "work, and no token that leads to it"

    queue.submit([b"a", b"b"], id="r", limit=1)
    assert [d.payload for d in take(queue, "dies")] == [b"a"]
    assert take(queue) == []
    clock.advance(LEASE_MS)
    (again,) = take(queue)
    assert (again.payload, again.lost, again.attempt) == (b"a", 1, 2)
    assert ack(queue, again) == ["done"]
    assert [d.payload for d in take(queue)] == [b"b"]


def test_a4_under_load_no_request_is_stuck(
    client: redis.Redis, article: Article, queue: Ours, clock: FakeClock
) -> None:
    """20 requests of 5, limit 2; every fifth delivery's worker dies."""
    chance = random.Random(4)
    for n in range(20):
        article.submit(f"r{n}", "abcde", 2)
    while token := article.pop():
        try:
            entry = article.read(token[1], "w")
        except redis.ResponseError:  # NOGROUP: a token of a finished request
            continue
        if entry is None or chance.random() < 0.2:
            continue
        article.done(token[1], entry[0])
        article.give_back(token)
    stuck = sum(article.counter(f"r{n}") is not None for n in range(20))
    assert stuck > 0

    chance = random.Random(4)
    queue.configure("test", 1, {"max_lost": "100"})
    for n in range(20):
        queue.submit([b"%d" % i for i in range(5)], id=f"r{n}", limit=2)
    for _ in range(1000):
        for delivery in take(queue, n=5):
            if chance.random() >= 0.2:
                ack(queue, delivery)
        clock.advance(LEASE_MS // 3)
        if queue.requests_total() == 0:
            break
    assert [request(queue, f"r{n}") for n in range(20)] == [("done", 0, 0, 5)] * 20


def test_a5_a_recovered_sub_request_does_not_end_the_request_early(
    client: redis.Redis, article: Article, queue: Ours, clock: FakeClock
) -> None:
    article.submit("r", "ab", 2)
    slow, other = article.read("r", "slow"), article.read("r", "other")
    assert slow and other
    client.xadd("sub:{r}", {"req": "a"})  # a monitor takes "slow" for dead: in again
    recovered = article.read("r", "w3")
    assert recovered
    article.done("r", slow[0])
    article.done("r", recovered[0])
    assert not client.exists("sub:{r}"), "deleted while the other one is being worked on"

    queue.submit([b"a", b"b"], id="r", limit=2)
    (slow_, other_) = take(queue, "slow"), take(queue, "other")
    clock.advance(LEASE_MS // 2)
    queue.extend(other_)
    clock.advance(LEASE_MS // 2)
    (recovered_,) = take(queue, "w3")
    assert recovered_.payload == b"a"
    assert ack(queue, recovered_) == ["done"]
    assert ack(queue, *slow_) == ["stale"]
    assert request(queue) == ("sealed", 0, 1, 1)
    assert ack(queue, *other_) == ["done"]
    assert request(queue) == ("done", 0, 0, 2)


def test_a5b_of_two_owners_only_the_latest_is_counted(
    client: redis.Redis, article: Article, queue: Ours, clock: FakeClock
) -> None:
    article.submit("r", "abc", 3)
    entry = article.read("r", "w1")
    assert entry
    client.xclaim("sub:{r}", "sub:{r}", "w2", 0, [entry[0]])
    article.done("r", entry[0])  # w2
    article.done("r", entry[0])  # w1
    assert article.counter("r") == 1, "two counted for one"

    queue.submit([b"a", b"b", b"c"], id="r", limit=3)
    (delivery,) = take(queue, "w1")
    said = queue.move(
        "claim-1", 1, [delivery.id], source="pending", target="pending",
        high_water_ms=clock.now_ms, consumer="w2",
    )  # fmt: skip
    assert said == ["moved"]
    assert ack(queue, delivery) == ["stale"]
    assert queue.extend([delivery]) == [False]
    assert request(queue) == ("sealed", 2, 1, 0)


def test_a6_no_token_outlives_the_work(article: Article, queue: Ours) -> None:
    article.submit("r", "a", 5)
    token = article.pop()
    assert token
    entry = article.read("r", "w1")
    assert entry
    article.done("r", entry[0])
    article.give_back(token)
    assert article.left() == 5
    with pytest.raises(redis.ResponseError, match="NOGROUP"):
        article.read("r", "w1")

    queue.submit([b"a"], id="r", limit=5)
    assert [level.tokens for level in queue.levels()] == [1]
    ack(queue, *take(queue))
    assert queue.levels() == []


def test_a7_a_handler_that_fails_has_a_way_back(
    client: redis.Redis, article: Article, queue: Ours, clock: FakeClock
) -> None:
    article.submit("r", "a", 1)
    assert article.pop() and article.read(
        "r", "w1"
    )  # the handler raises: nothing is written for it
    assert article.pop() is None
    assert client.xpending("sub:{r}", "sub:{r}")["pending"] == 1

    queue.configure("test", 1, {"max_failures": "2"})
    queue.submit([b"a"], id="r", limit=1)
    (first,) = take(queue)
    assert queue.settle([Settlement(first, "fail", b"boom", 1000)]) == ["retry"]
    assert take(queue) == []
    clock.advance(1000)
    (second,) = take(queue)
    assert (second.failures, second.lost) == (1, 0)
    assert queue.settle([Settlement(second, "fail", b"boom again")]) == ["dead"]
    (dead,) = queue.page("dead").entries
    assert (dead.id, dead.reason, dead.failures) == ("r/1", "failed", 2)
    assert dead.error and dead.error.message == "boom again"


def test_a8_a_token_that_finds_nothing_is_not_missed_later(
    client: redis.Redis, article: Article, queue: Ours, clock: FakeClock
) -> None:
    article.submit("r", "a", 3)
    assert article.pop() and article.read("r", "dies")
    for worker in ("w2", "w3"):
        assert article.pop() and article.read("r", worker) is None  # the sample drops the token
    assert article.left() == 0
    assert client.xpending("sub:{r}", "sub:{r}")["pending"] == 1, "and nobody will ever look"

    queue.submit([b"a"], id="r", limit=3)
    assert len(take(queue, "dies")) == 1
    assert take(queue, "w2") == take(queue, "w3") == []
    clock.advance(LEASE_MS)
    assert [d.payload for d in take(queue, "w2")] == [b"a"]


def test_a9_a_request_of_nothing_is_done(client: Any, article: Article, queue: Ours) -> None:
    article.submit("r", [], 2)
    token = article.pop()
    assert token and article.read("r", "w1") is None
    assert article.counter("r") == 0
    assert client.exists("sub:{r}"), "kept for ever, and nobody is told"

    with client.pubsub() as listener:
        listener.subscribe(queue.keys["r_"] + "r")
        listener.get_message(timeout=1)
        assert queue.submit([], id="r").state == "done"
        message = listener.get_message(timeout=1)
    assert message and message["data"] == b"done"
    assert not client.exists(queue.keys["s_"] + "r")
    assert queue.invariants() == []


def test_a10_there_is_no_moment_between_work_and_tokens(
    client: redis.Redis, article: Article, queue: Ours
) -> None:
    article.insert("r", "abc")  # and the producer dies
    assert article.pop() is None
    article.tokens("r", 2)
    article.tokens("r", 2)  # sent again, or another producer that helps out
    assert article.left() == 4

    queue.submit([b"warm"], id="warm", priority=99)
    run_twice(client, queue.submit.op([b"a", b"b", b"c"], id="r", limit=2, priority=0))
    assert [(level.priority, level.tokens) for level in queue.levels()] == [(0, 2), (99, 1)]
    assert client.info("commandstats")["cmdstat_evalsha"]["calls"] > 0


def test_a11_a_name_can_not_scatter_a_queue(article: Article, queue: Ours) -> None:
    for id in ("a{b}c", "ten}ant", ""):
        assert key_slot(id.encode()) != key_slot(f"sub:{{{id}}}".encode())
        with pytest.raises(BadInput):
            queue.submit([b"x"], id=id)
    parts = ("r_", "s_", "p_", "lease", "dead", "callers")
    assert len({key_slot(f"{queue.keys[part]}x".encode()) for part in parts}) == 1


def test_a12_a_priority_nobody_looks_at_is_refused(
    client: redis.Redis, article: Article, queue: Ours
) -> None:
    article.submit("line-100", "a", 1, priority=100)
    assert article.pop() is None
    assert client.llen("{req}:100") == 1

    for priority in (100, -1):
        with pytest.raises(BadInput):
            queue.submit([b"a"], id="r", priority=priority)
    queue.submit([b"a"], id="r", priority=99)
    assert len(take(queue)) == 1


def test_a13_who_asks_late_learns_it_too(client: Any, article: Article, queue: Ours) -> None:
    article.submit("r", "a", 1)
    entry = article.read("r", "w1")
    assert entry
    article.done("r", entry[0])
    with client.pubsub() as late:
        late.subscribe("r")
        late.get_message(timeout=1)
        assert late.get_message(timeout=0.05) is None
    assert article.counter("r") is None, "nothing says whether it ended or never was"

    queue.submit([b"a"], id="r")
    ack(queue, *take(queue))
    assert request(queue)[0] == "done"
    assert queue.request("never") is None


def test_a14_aging_keeps_the_last_from_starving(article: Article, queue: Ours) -> None:
    article.submit("urgent", "u" * 50, 4, priority=0)
    article.submit("patient", "p" * 50, 4, priority=9)
    served = []
    for _ in range(40):
        token = article.pop()
        assert token
        served.append(token[1])
        article.give_back(token)
    assert set(served) == {"urgent"}

    queue.configure("test", 1, {"aging": "4"})
    queue.submit([b"u"] * 50, id="urgent", priority=0)
    queue.submit([b"p"] * 50, id="patient", priority=9)
    ours = []
    for _ in range(40):
        (delivery,) = take(queue)
        ours.append(delivery.request)
        ack(queue, delivery)
    assert ours.count("patient") == 5  # every fourth take starts elsewhere, of two levels in turn
    assert ours.count("urgent") == 35


def test_a15_a_limit_that_is_no_number_is_refused_before_anything_is_sent(
    client: redis.Redis, article: Article, queue: Ours
) -> None:
    article.insert("r", "abc")
    for wrong in ("abc", ""):
        with pytest.raises(redis.ResponseError):
            article.tokens("r", wrong)
    assert article.left() == 0, "and the sub-requests are there"
    article.tokens("r", "2.7")
    assert article.left() == 2

    before = picture(client)
    wrong_ones: list[object] = ["abc", "", 2.7, 0, 1001]
    for limit in wrong_ones:
        with pytest.raises(BadInput):
            queue.submit([b"a"], id="r", limit=limit)  # type: ignore[arg-type]
        with pytest.raises(BadInput):
            queue.control("op", 1, "limit", "r", str(limit))
    assert picture(client) == before


def test_a16_what_is_done_frees_its_memory(
    client: redis.Redis, article: Article, queue: Ours
) -> None:
    article.submit("r", "abcdefgh", 1)
    for _ in range(6):
        entry = article.read("r", "w1")
        assert entry
        article.done("r", entry[0])
    assert client.xlen("sub:{r}") == 8

    queue.submit([b"%d" % n for n in range(8)], id="r", limit=8)
    ack(queue, *take(queue, n=6))
    assert client.xlen(queue.keys["s_"] + "r") == 2

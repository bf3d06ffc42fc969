"""The faults of article 001's layouts in two halves: the programs' own steps show it, ours don't.

`docs/explanation/faults.md` lists them in words. `Stock` has the commands that Resque 2 and
Sidekiq 6 to 8
send, read from their sources.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
import redis

from redisq_ops.core.foreign.resque import ResqueQueue
from redisq_ops.core.foreign.ruby_jobs import Job
from redisq_ops.core.foreign.sidekiq import SidekiqQueue
from redisq_ops.core.model.clock import FakeClock
from redisq_ops.core.model.entry import Failure, Settlement
from redisq_ops.core.redis.client import connect
from redisq_ops.demo.server import EmbeddedServer

from ...proxy import FlakyProxy
from ...queue_steps import take

T = 1_700_000_000
BOOM = Failure("Boom", "it broke").encoded()


class Crash(Exception):
    """The process ended here."""


class Stock:
    """What the two programs send. ``dies``: at which step the process does."""

    def __init__(self, client: redis.Redis) -> None:
        self.client: Any = client

    def fail_list(self, *jobs: str) -> None:
        for job in jobs:
            self.client.rpush("resque:failed", job)

    def remove_failure(self, index: int, dies: bool = False) -> None:
        self.client.lset("resque:failed", index, "")
        if dies:
            raise Crash
        self.client.lrem("resque:failed", 1, "")

    def requeue_failure(self, index: int) -> None:
        item = json.loads(self.client.lindex("resque:failed", index))
        item["retried_at"] = "2024/01/01 00:00:00"
        self.client.lset("resque:failed", index, json.dumps(item))
        self.client.rpush("resque:queue:low", json.dumps(item["payload"]))

    def remove_entry(self, key: str, score: float, jid: str, dies: bool = False) -> None:
        """Sidekiq's SortedEntry#remove_job."""
        found = self.client.zrangebyscore(key, score, score)
        self.client.zremrangebyscore(key, score, score)
        if dies:
            raise Crash
        for member in found:
            if json.loads(member)["jid"] != jid:
                self.client.zadd(key, {member: score})

    def promote(self, now: float, dies: bool = False) -> None:
        for member in self.client.zrangebyscore("schedule", "-inf", now, 0, 1):
            self.client.zrem("schedule", member)
            if dies:
                raise Crash
            self.client.lpush("queue:" + json.loads(member)["queue"], member)


@pytest.fixture
def stock(client: redis.Redis) -> Stock:
    return Stock(client)


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(T * 1000)


@pytest.fixture
def queue(client: redis.Redis, clock: FakeClock) -> SidekiqQueue[redis.Redis]:
    return SidekiqQueue(client, "sidekiq:default", clock=clock)


@pytest.fixture
def low(client: redis.Redis, clock: FakeClock) -> ResqueQueue[redis.Redis]:
    return ResqueQueue(client, "resque:low", clock=clock)


Ours = SidekiqQueue[redis.Redis]
Low = ResqueQueue[redis.Redis]


def record(jid: str, **more: Any) -> str:
    return json.dumps({"class": "A", "args": [], "jid": jid, "queue": "default", **more})


def failure(n: int, queue: str = "low") -> str:
    payload = {"class": "A", "args": [n]}
    return json.dumps({"payload": payload, "exception": "E", "error": "e", "queue": queue})


def move(queue: Any, ids: list[str], source: str, target: str, op: str = "op") -> list[str]:
    said: list[str] = queue.move(
        op, 1, ids, source=source, target=target, high_water_ms=queue.now()
    )
    return said


def test_b0_the_article_s_commands_as_they_are_printed(client: redis.Redis) -> None:
    """A list called a set, two keys misspelt, two commands that aren't there."""
    c: Any = client
    c.sadd("resque:queues", "low")
    c.lpush("rescue:queue:low", "job")
    assert c.rpop("resque:quques:low") is None, "the job is in a third place"
    c.rpush("resque:queue:low", "job")
    for command, error in (
        (("HSET", "resque:workers:w1", "job payload"), "wrong number of arguments"),
        (("HREM", "resque:workers:w1"), "unknown command"),
        (("SADD", "resque:queue:low", "job"), "WRONGTYPE"),
    ):
        with pytest.raises(redis.ResponseError, match=error):
            c.execute_command(*command)

    low = ResqueQueue(client, "resque:low")
    low.push([Job("A", [1])])
    assert c.lrange("resque:queue:low", 0, -1) == [b"job", b'{"class":"A","args":[1]}']
    assert [d.payload for d in take(low)] == [b"job", b'{"class":"A","args":[1]}']


def test_b1_a_job_survives_the_crash_of_who_took_it(
    client: redis.Redis, queue: Ours, clock: FakeClock
) -> None:
    client.lpush("queue:default", record("a"))
    client.brpop(["queue:default"], 1)  # and here the process is killed
    assert not client.exists("queue:default", "retry", "dead"), "it is nowhere"

    queue.push([Job("A", [], "b")])
    take(queue)  # and here the process is killed
    clock.advance(30_001)
    assert [d.id for d in take(queue, worker="w2")] == ["b"]


def test_b1_also_resque_s(client: redis.Redis, low: Low, clock: FakeClock) -> None:
    client.rpush("resque:queue:low", '{"class":"A","args":[]}')
    client.lpop("resque:queue:low")
    assert not client.exists("resque:queue:low", "resque:failed")

    low.push([Job("A")])
    take(low)
    clock.advance(30_001)
    assert len(take(low, worker="w2")) == 1, "run again, not only written down as failed"


def test_b3_two_who_remove_failures_at_once(client: redis.Redis, stock: Stock, low: Low) -> None:
    jobs = [failure(n) for n in range(5)]
    stock.fail_list(*jobs)
    # Both see the same list; one wants number 1 gone, the other number 2.
    stock.remove_failure(1)
    stock.remove_failure(2)
    left = [json.loads(f)["payload"]["args"][0] for f in client.lrange("resque:failed", 0, -1)]
    assert left == [0, 2, 4], "3 is gone, 2 is still there"

    client.delete("resque:failed")
    stock.fail_list(*jobs)
    one, two = (low.page("dead").entries[n].id for n in (1, 2))
    assert move(low, [one], "dead", "trash", "ann") == ["moved"]
    assert move(low, [two], "dead", "trash", "bob") == ["moved"]
    left = [json.loads(f)["payload"]["args"][0] for f in client.lrange("resque:failed", 0, -1)]
    assert left == [0, 3, 4]


def test_b3_a_crash_while_removing(client: redis.Redis, stock: Stock, low: Low) -> None:
    stock.fail_list(*(failure(n) for n in range(4)))
    with pytest.raises(Crash):
        stock.remove_failure(0, dies=True)
    stock.remove_failure(2)
    assert b"" in client.lrange("resque:failed", 0, -1), "the older blank went, 2 is lost and blank"

    ids = [entry.id for entry in low.page("dead").entries]
    assert move(low, ids, "dead", "waiting") == ["moved"] * len(ids)
    assert client.lrange("resque:failed", 0, -1) == [b""], "blanks of others are left alone"


def test_b4_a_queue_that_nobody_knows(client: redis.Redis, low: Low) -> None:
    client.sadd("resque:queues", "low")
    client.srem("resque:queues", "low")  # someone removes the queue
    client.delete("resque:queue:low")
    client.rpush("resque:queue:low", '{"class":"A","args":[]}')
    assert client.smembers("resque:queues") == set(), "and the job is in a list nobody looks at"
    assert any("no page shows it" in line for line in low.invariants())

    low.push([Job("A")])  # one script: name and job
    assert client.smembers("resque:queues") == {b"low"} and low.invariants() == []


def test_b5_equal_jobs_are_not_one(client: redis.Redis, low: Low) -> None:
    job = '{"class":"A","args":[]}'
    client.rpush("resque:queue:low", job, job, job)
    assert client.lrem("resque:queue:low", 0, job) == 3, "one was meant"

    low.push([Job("A")] * 3)
    id = low.page("waiting").entries[0].id
    assert move(low, [id], "waiting", "trash") == ["moved"]
    assert low.counts().waiting == 2


def test_b6_a_due_job_is_in_one_place_or_the_other(
    client: redis.Redis, stock: Stock, queue: Ours
) -> None:
    client.zadd("schedule", {record("a"): T - 1})
    with pytest.raises(Crash):
        stock.promote(T, dies=True)
    assert not client.exists("schedule", "queue:default"), "it is nowhere"

    client.zadd("schedule", {record(f"j{n}"): T - 1 for n in range(150)})
    assert queue.sweep() == 100, "one script, at most 100"
    assert (client.zcard("schedule"), client.llen("queue:default")) == (50, 100)


def test_b6_what_can_t_be_read_is_not_thrown_away(
    client: redis.Redis, stock: Stock, queue: Ours
) -> None:
    client.zadd("schedule", {"{broken": T - 1})
    with pytest.raises(json.JSONDecodeError):
        stock.promote(T)
    assert not client.exists("schedule"), "it is nowhere"

    client.zadd("schedule", {"{broken": T - 1})
    queue.sweep()
    assert client.zrange("dead", 0, -1) == [b"{broken"]


def test_b7_neighbours_of_the_same_score(client: redis.Redis, stock: Stock, queue: Ours) -> None:
    three = {record(jid): 5.0 for jid in ("a", "b", "c")}
    client.zadd("retry", three)
    with pytest.raises(Crash):
        stock.remove_entry("retry", 5.0, "b", dies=True)
    assert client.zcard("retry") == 0, "three taken, one was meant"

    client.zadd("retry", three)
    assert move(queue, ["b"], "delayed", "waiting") == ["moved"]
    assert set(client.zrange("retry", 0, -1)) == {record("a").encode(), record("c").encode()}


def test_b8_dead_ones_are_not_trimmed_on_the_way(client: redis.Redis, queue: Ours) -> None:
    most = 10  # dead_max_jobs, 10,000 unless set
    client.zadd("dead", {record(f"j{n}"): n for n in range(most)})
    client.zremrangebyrank("dead", 0, -most)
    assert client.zcard("dead") == most - 1, "and that was one too many even so"

    queue.push([Job("A", [], f"k{n}", {"retry": 0}) for n in range(20)])
    queue.settle([Settlement(d, "fail", BOOM) for d in take(queue)])
    assert client.zcard("dead") == most - 1 + 20


def test_b9_names_with_colons(client: redis.Redis) -> None:
    name = "fe80::1:4711:mail:out,low"
    client.sadd("resque:workers", name)
    client.hset("resque:workers:heartbeat", name, "2024-06-10T00:00:00Z")
    host, pid, *_ = name.split(":")
    assert (host, pid) == ("fe80", ""), "as Resque reads it"

    (worker,) = ResqueQueue(client, "resque").worker_processes()
    assert worker.name == name
    assert ResqueQueue(client, "resque").prune_process(worker.name).word == "pruned", (
        "by its whole name"
    )


def test_b10_processed_is_not_done(client: redis.Redis, queue: Ours) -> None:
    client.incr("stat:processed")  # a stock process: both, for a job that failed
    client.incr("stat:failed")
    assert client.get("stat:processed") == b"1", "and nothing is done"

    queue.push([Job("A", [], "a"), Job("A", [], "b")])
    good, bad = take(queue)
    queue.settle([Settlement(good, "ack"), Settlement(bad, "fail", BOOM)])
    assert client.mget("stat:processed", "stat:failed") == [b"3", b"2"], "as its own pages count"
    assert SidekiqQueue(client, "sidekiq").counts().done == 1


def test_b11_pressed_twice_it_runs_once(client: redis.Redis, stock: Stock, low: Low) -> None:
    stock.fail_list(failure(1))
    stock.requeue_failure(0)
    stock.requeue_failure(0)
    assert client.llen("resque:queue:low") == 2

    client.delete("resque:failed", "resque:queue:low")
    stock.fail_list(failure(1))
    (entry,) = low.page("dead").entries
    assert move(low, [entry.id], "dead", "waiting", "ann") == ["moved"]
    assert move(low, [entry.id], "dead", "waiting", "bob") == ["changed"]
    assert client.llen("resque:queue:low") == 1


def test_b12_scores_are_not_text(client: redis.Redis, queue: Ours) -> None:
    score = 1668842026.1234567
    client.zadd("retry", {record("a"): score})
    assert client.zrangebyscore("retry", f"{score:.6f}", f"{score:.6f}") == []

    assert move(queue, ["a"], "delayed", "trash") == ["moved"]
    assert queue.undo("op", 1, target="trash", by="u", seq=1) == (1, 0)
    assert client.zscore("retry", record("a")) == score


def test_b13_a_push_whose_reply_is_lost(server: EmbeddedServer, client: redis.Redis) -> None:
    """Clients send it again by themselves, redis-rb as redis-py."""
    with FlakyProxy(server.port) as proxy, connect(proxy.url) as far:
        far.ping()
        proxy.drop_replies(1)
        far.lpush("queue:default", record("a"))
        assert client.llen("queue:default") == 2

        client.delete("queue:default")
        queue = SidekiqQueue(far, "sidekiq:default")
        queue.push([Job("A", [], "a")])
        proxy.drop_replies(1)
        queue.push([Job("A", [], "b")])
        assert client.llen("queue:default") == 2, "a and b"


def test_b14_a_late_worker_has_no_say(client: redis.Redis, queue: Ours, clock: FakeClock) -> None:
    """Nothing in the layout tells who has a job: whoever fails it writes it down."""
    for who in ("late", "good"):  # both have it, after a requeue at shutdown, and both fail
        client.zadd("retry", {record("a", error_message=who): T + 15})
    assert client.zcard("retry") == 2, "now it is two jobs"

    client.delete("retry")
    queue.push([Job("A", [], "b")])
    (late,) = take(queue)
    clock.advance(30_001)
    (good,) = take(queue, worker="w2")
    said = queue.settle([Settlement(d, "fail", BOOM) for d in (late, good)])
    assert said == ["stale", "retry"] and client.zcard("retry") == 1

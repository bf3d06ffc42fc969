"""The faults of the layouts of article 001, as cases on our work beside Resque and Sidekiq.

`docs/explanation/faults.md` says for each what the programs' own steps do.
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


def test_b0_the_layout_is_resque_s_own(client: redis.Redis) -> None:
    c: Any = client
    c.rpush("resque:queue:low", "job")
    low = ResqueQueue(client, "resque:low")
    low.push([Job("A", [1])])
    assert c.lrange("resque:queue:low", 0, -1) == [b"job", b'{"class":"A","args":[1]}']
    assert [d.payload for d in take(low)] == [b"job", b'{"class":"A","args":[1]}']


def test_b1_a_job_survives_the_crash_of_who_took_it(queue: Ours, clock: FakeClock) -> None:
    queue.push([Job("A", [], "b")])
    take(queue)  # and here the process is killed
    clock.advance(30.001)
    assert [d.id for d in take(queue, worker="w2")] == ["b"]


def test_b1_also_resque_s(low: Low, clock: FakeClock) -> None:
    low.push([Job("A")])
    take(low)
    clock.advance(30.001)
    assert len(take(low, worker="w2")) == 1, "run again, not only written down as failed"


def test_b3_two_who_remove_failures_at_once(client: redis.Redis, low: Low) -> None:
    client.rpush("resque:failed", *(failure(n) for n in range(5)))
    one, two = (low.page("dead").entries[n].id for n in (1, 2))
    assert move(low, [one], "dead", "trash", "ann") == ["moved"]
    assert move(low, [two], "dead", "trash", "bob") == ["moved"]
    left = [json.loads(f)["payload"]["args"][0] for f in client.lrange("resque:failed", 0, -1)]
    assert left == [0, 3, 4]


def test_b3_a_blank_that_another_left_is_left_alone(client: redis.Redis, low: Low) -> None:
    client.rpush("resque:failed", "", *(failure(n) for n in range(2)), "")
    ids = [entry.id for entry in low.page("dead").entries]
    assert move(low, ids, "dead", "waiting") == ["moved"] * 2
    assert client.lrange("resque:failed", 0, -1) == [b"", b""]


def test_b4_a_queue_that_nobody_knows(client: redis.Redis, low: Low) -> None:
    client.rpush("resque:queue:low", '{"class":"A","args":[]}')
    assert any("no page shows it" in line for line in low.invariants())

    low.push([Job("A")])  # one script: name and job
    assert client.smembers("resque:queues") == {b"low"} and low.invariants() == []


def test_b5_equal_jobs_are_not_one(low: Low) -> None:
    low.push([Job("A")] * 3)
    id = low.page("waiting").entries[0].id
    assert move(low, [id], "waiting", "trash") == ["moved"]
    assert low.counts().waiting == 2


def test_b6_a_due_job_is_in_one_place_or_the_other(client: redis.Redis, queue: Ours) -> None:
    client.zadd("schedule", {record(f"j{n}"): T - 1 for n in range(150)})
    assert queue.sweep() == 100, "one script, at most 100"
    assert (client.zcard("schedule"), client.llen("queue:default")) == (50, 100)


def test_b6_what_can_t_be_read_is_not_thrown_away(client: redis.Redis, queue: Ours) -> None:
    client.zadd("schedule", {"{broken": T - 1})
    queue.sweep()
    assert client.zrange("dead", 0, -1) == [b"{broken"]


def test_b7_neighbours_of_the_same_score(client: redis.Redis, queue: Ours) -> None:
    three = {record(jid): 5.0 for jid in ("a", "b", "c")}
    client.zadd("retry", three)
    assert move(queue, ["b"], "delayed", "waiting") == ["moved"]
    assert set(client.zrange("retry", 0, -1)) == {record("a").encode(), record("c").encode()}


def test_b8_dead_ones_are_not_trimmed_on_the_way(client: redis.Redis, queue: Ours) -> None:
    client.zadd("dead", {record(f"j{n}"): n for n in range(10)})
    queue.push([Job("A", [], f"k{n}", {"retry": 0}) for n in range(20)])
    queue.settle([Settlement(d, "fail", BOOM) for d in take(queue)])
    assert client.zcard("dead") == 10 + 20


def test_b9_names_with_colons(client: redis.Redis) -> None:
    name = "fe80::1:4711:mail:out,low"
    client.sadd("resque:workers", name)
    client.hset("resque:workers:heartbeat", name, "2024-06-10T00:00:00Z")
    (worker,) = ResqueQueue(client, "resque").worker_processes()
    assert worker.name == name
    assert ResqueQueue(client, "resque").prune_process(worker.name).word == "pruned", (
        "by its whole name"
    )


def test_b10_processed_is_not_done(client: redis.Redis, queue: Ours) -> None:
    queue.push([Job("A", [], "a"), Job("A", [], "b")])
    good, bad = take(queue)
    queue.settle([Settlement(good, "ack"), Settlement(bad, "fail", BOOM)])
    assert client.mget("stat:processed", "stat:failed") == [b"2", b"1"], "as its own pages count"
    assert SidekiqQueue(client, "sidekiq").counts().done == 1


def test_b11_pressed_twice_it_runs_once(client: redis.Redis, low: Low) -> None:
    client.rpush("resque:failed", failure(1))
    (entry,) = low.page("dead").entries
    assert move(low, [entry.id], "dead", "waiting", "ann") == ["moved"]
    assert move(low, [entry.id], "dead", "waiting", "bob") == ["changed"]
    assert client.llen("resque:queue:low") == 1


def test_b12_scores_are_not_text(client: redis.Redis, queue: Ours) -> None:
    score = 1668842026.1234567
    client.zadd("retry", {record("a"): score})
    assert move(queue, ["a"], "delayed", "trash") == ["moved"]
    assert queue.undo("op", 1, target="trash", by="u", seq=1) == (1, 0)
    assert client.zscore("retry", record("a")) == score


def test_b13_a_push_whose_reply_is_lost(server: EmbeddedServer, client: redis.Redis) -> None:
    """Clients send it again by themselves, redis-rb as redis-py."""
    with FlakyProxy(server.port) as proxy, connect(proxy.url) as far:
        queue = SidekiqQueue(far, "sidekiq:default")
        queue.push([Job("A", [], "a")])
        proxy.drop_replies(1)
        queue.push([Job("A", [], "b")])
        assert client.llen("queue:default") == 2, "a and b"


def test_b14_a_late_worker_has_no_say(client: redis.Redis, queue: Ours, clock: FakeClock) -> None:
    queue.push([Job("A", [], "b")])
    (late,) = take(queue)
    clock.advance(30.001)
    (good,) = take(queue, worker="w2")
    said = queue.settle([Settlement(d, "fail", BOOM) for d in (late, good)])
    assert said == ["stale", "retry"] and client.zcard("retry") == 1

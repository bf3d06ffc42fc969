"""Lists of what one process runs: no queues, although their names look like those of queues."""

from __future__ import annotations

import json

import pytest
import redis

from redisq_ops.core.foreign.ruby_jobs.private_lists import PrivateList
from redisq_ops.core.foreign.sidekiq import SidekiqQueue
from redisq_ops.core.model.errors import Refused

from ...command_line import Redisq

Client = redis.Redis
WORKER = "6f1d9a34-0000-4000-8000-0123456789ab"
ONE, TWO = "web-1:4711:0a1b2c", "web-2:4712:ffee00"


def job(id: str, queue: str = "default") -> str:
    return json.dumps({"class": "Pay", "args": [1], "jid": id, "queue": queue})


def running(client: Client, at: str = "") -> None:
    """Process ONE lives and runs two jobs, of which its record has one; TWO died with one."""
    client.sadd(at + "queues", "default")
    client.sadd(at + "processes", ONE)
    client.sadd(at + "super_processes", ONE, TWO)
    info = json.dumps({"hostname": "web-1", "pid": 4711, "queues": ["default"]})
    client.hset(at + ONE, mapping={"info": info, "busy": 1})
    client.expire(at + ONE, 55)
    work = {"queue": "default", "payload": job("a"), "run_at": 1_790_000_000}
    client.hset(at + ONE + ":work", "t1", json.dumps(work))
    for process, ids in {ONE: "ab", TWO: "c"}.items():
        key = f"queue:sq|{process}|default"
        client.sadd(f"{at}{process}:super_queues", key)
        client.rpush(at + key, *map(job, ids))


@pytest.mark.parametrize("at", ["", "shop:"])
def test_what_super_fetch_holds_is_pending_of_its_queue(
    redisq: Redisq, client: Client, at: str
) -> None:
    running(client, at)
    (queue,) = redisq.rows("discover")
    assert (queue["waiting"], queue["pending"]) == (0, 3)
    redisq("discover", "--register", "--yes")
    held = redisq.rows("pending", "ls", queue["name"])
    assert {(row["id"], row["consumer"]) for row in held} == {("a", ONE), ("b", ONE), ("c", TWO)}
    assert {row["id"] for row in held if row["since_ms"]} == {"a"}
    workers = {row["name"]: row["state"] for row in redisq.processes(queue["name"])}
    assert workers == {ONE: "alive", TWO: "silent"}


def test_nothing_is_taken_out_of_a_private_list(redisq: Redisq, client: Client) -> None:
    running(client)
    redisq("discover", "--register", "--yes")
    key = f"queue:sq|{ONE}|default"
    before = client.lrange(key, 0, -1)
    for verb in ("purge", "requeue"):
        redisq(verb, "sidekiq:default", "--state", "pending", "--yes", code=None)
    private = f"sidekiq:sq%7C{ONE}%7Cdefault"
    for words in (["purge", private, "--state", "waiting", "--yes"], ["waiting", "ls", private]):
        said = redisq.refusal(*words, code=1)
        assert said.startswith(f"{private} is no queue") and "sidekiq:default" in said
    assert client.lrange(key, 0, -1) == before


def test_a_private_list_that_was_registered_as_a_queue_is_refused(
    redisq: Redisq, client: Client
) -> None:
    running(client)
    redisq("discover", "--register", "--yes")
    (registry,) = [
        key
        for key in client.scan_iter()
        if client.type(key) == b"hash" and client.hexists(key, "sidekiq:default")
    ]
    entry = client.hget(registry, "sidekiq:default")
    private = f"sidekiq:sq%7C{ONE}%7Cdefault"
    client.hset(registry, private, entry or b"")
    redisq.refusal("purge", private, "--state", "waiting", "--yes", code=1)
    rows = {row["name"]: row for row in redisq.rows("ls", code=3)}
    assert "is no queue" in rows[private]["problem"] and rows["sidekiq:default"]["pending"] == 3


def test_a_process_whose_jobs_its_program_puts_back_is_not_pruned(
    redisq: Redisq, client: Client
) -> None:
    running(client)
    client.sadd("processes", TWO)
    redisq("discover", "--register", "--yes")
    redisq("workers", "rm", "sidekiq:default", "--rescue", "--yes")
    assert "lists of its own" in redisq.refusal(
        "workers", "rm", "sidekiq:default", TWO, "--yes", code=1
    )
    assert client.sismember("processes", TWO) and not client.exists("queue:default")
    for rescue in (False, True):
        with pytest.raises(Refused, match="lists of its own"):
            SidekiqQueue(client, "sidekiq:default").prune_process(TWO, rescue=rescue)
    client.delete(f"queue:sq|{TWO}|default")  # put back by then
    redisq("workers", "rm", "sidekiq:default", "--yes")
    assert not client.sismember("processes", TWO)


@pytest.mark.parametrize(
    ("key", "queue", "process"),
    [
        (f"queue:sq|{ONE}|a|b", "a|b", ONE),
        (f"ns:queue:sq|{ONE}|low", "low", ONE),
        ("working:queue:default:web-1:4711:0a1b2c", "default", "web-1:4711:0a1b2c"),
        ("ns:working:queue:a:b:web-1:4711", "a:b", "web-1:4711"),
    ],
)
def test_private_lists_are_known_by_their_names(
    redisq: Redisq, client: Client, key: str, queue: str, process: str
) -> None:
    found = PrivateList.of_key(key.encode())
    assert found and (found.queue, found.process) == (queue.encode(), process.encode())
    client.rpush(key, job("a", queue))
    (row,) = redisq.rows("discover")
    assert row["kind"] == "sidekiq" and row["waiting"] == 0
    assert row["name"].startswith("sidekiq:" + queue.replace("|", "%7C"))


@pytest.mark.parametrize("name", ["sq", "sq|a", "working", "a:b:1", "sq-a|b|c"])
def test_other_queues_keep_their_names(client: Client, name: str) -> None:
    assert PrivateList.of_queue(name.encode()) is None


def _others(client: Client) -> set[str]:
    """Lists and sets of running jobs, control and reply queues of other programs."""
    client.sadd("rq:queues", "rq:queue:mail")
    client.rpush("rq:queue:mail:intermediate", "job-1")
    client.hset("bull:mail:meta", "version", "bullmq:5.70.0")
    client.rpush("bull:mail:active", "1")
    client.zadd("dramatiq:__heartbeats__", {WORKER: 1})
    client.sadd(f"dramatiq:__acks__.{WORKER}.low", "m1")
    client.hset("dramatiq:low.msgs", "m1", "{}")
    step = "\x06\x16"
    for exchange, queue in {
        "celery": "celery",
        "celery.pidbox": "a@h.celery.pidbox",
        "reply.celery.pidbox": "1f.reply.celery.pidbox",
        "celeryev": "celeryev.2a",
    }.items():
        client.sadd(f"_kombu.binding.{exchange}", f"{step}{step}{queue}")
        client.rpush(queue, "{}")
    client.hset("unacked", "t1", "[]")
    client.zadd("unacked_index", {"t1": 1_790_000_000})
    client.set("arq:in-progress:j1", "1")
    client.zadd("arq:queue", {"j1": 1})
    client.sadd("resque:queues", "low")
    client.rpush("resque:queue:low", json.dumps({"class": "Pay", "args": []}))
    client.set("resque:worker:h:1:low", json.dumps({"queue": "low", "payload": {}}))
    return {
        "rq:mail",
        "bullmq:mail",
        "dramatiq:low",
        "celery:celery",
        "arq:arq:queue",
        "resque:low",
    }


def test_running_jobs_and_control_queues_of_other_programs_are_no_queues(
    redisq: Redisq, client: Client
) -> None:
    expected = _others(client)
    assert {row["name"] for row in redisq.rows("discover")} == expected

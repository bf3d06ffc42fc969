"""Deployments of Sidekiq and Resque with something odd in them: it hides nothing else."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import redis

from redisq_ops.cli import main as cli
from redisq_ops.core.foreign.resque import ResqueQueue
from redisq_ops.core.foreign.ruby_jobs import Job
from redisq_ops.core.foreign.sidekiq import SidekiqQueue
from redisq_ops.core.model.errors import BadInput
from redisq_ops.core.queues.circular import CircularQueue, ShardedCircularQueue

from ...command_line import Redisq, dead_letters

pytestmark = [pytest.mark.alike, pytest.mark.slow]

LOOKS = (
    "discover",
    "inspect {0}",
    "inspect {0}:mail",
    "waiting ls {0}",
    "waiting ls {0}:mail",
    "pending ls {0}",
    "pending ls {0}:mail",
    "dlq ls {0}",
    "workers ls {0}",
    "workers ls",
    "explain {0}:mail",
    "explain {0}",
    "fsck {0}",
    "fsck {0}:mail",
)


def jid(n: int) -> str:
    return f"{n:024x}"


JOB = b'{"class":"A","args":[],"jid":"%024x","queue":"mail","created_at":1763700000000}'


@pytest.fixture
def redisq(
    url: str,
    client: redis.Redis,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Redisq:
    monkeypatch.chdir(tmp_path)
    return Redisq(url, capsys)


def looked_at(redisq: Redisq, kind: str, *more: str, codes: tuple[int, ...] = (0,)) -> None:
    """Every look ends as it should."""
    for line in (*LOOKS, *more):
        assert cli.run(["--url", redisq.url, *line.format(kind).split(" ")]) in codes, line


def sidekiq(client: redis.Redis) -> None:
    """Two jobs wait in `mail`, one is to be retried, and a process has one."""
    client.sadd("queues", "mail")
    client.rpush("queue:mail", JOB % 1, JOB % 2)
    client.zadd("retry", {JOB % 3: 1_763_700_000.5})
    process(client, b"good:1:a", b'{"queue":"mail","payload":"{\\"jid\\":\\"j4\\"}","run_at":1}')


def process(client: redis.Redis, name: bytes, work: bytes) -> None:
    client.sadd("processes", name)
    client.hset(name, mapping={"info": b'{"hostname":"h","pid":1,"queues":["mail"]}'})
    client.expire(name, 60)
    client.hset(name + b":work", "t", work)


def resque(client: redis.Redis) -> None:
    """Two jobs wait in `mail`, one failed, and a worker has one."""
    client.sadd("resque:queues", "mail")
    client.rpush("resque:queue:mail", b'{"class":"A","args":[1]}', b'{"class":"A","args":[2]}')
    client.rpush("resque:failed", b'{"payload":{"class":"A","args":[]},"queue":"mail"}')
    worker(client, b"box:1:mail")


def worker(client: redis.Redis, name: bytes) -> None:
    client.sadd("resque:workers", name)
    work = b'{"queue":"mail","run_at":"2026-11-20T00:00:00Z","payload":{"class":"A","args":[9]}}'
    client.set(b"resque:worker:" + name, work)
    client.hset("resque:workers:heartbeat", name, b"2026-11-20T00:00:00Z")


@pytest.mark.parametrize("key, score", [("retry", "+inf"), ("schedule", "-inf"), ("dead", "+inf")])
def test_a_score_without_an_end_is_no_time(
    key: str, score: str, redisq: Redisq, client: redis.Redis
) -> None:
    sidekiq(client)
    client.zadd(key, {JOB % 7: float(score)})
    looked_at(redisq, "sidekiq", "delay ls {0}", "delay ls {0}:mail")
    state = "dlq" if key == "dead" else "delay"
    rows = {row["id"]: row for row in redisq.rows(state, "ls", "sidekiq:mail")}
    assert rows[jid(7)]["ready_ms"] is None
    assert state == "dlq" or rows[jid(3)]["ready_ms"] == 1_763_700_000_500


def test_names_of_any_bytes_are_shown_with_the_others(redisq: Redisq, client: redis.Redis) -> None:
    sidekiq(client)
    client.sadd("queues", b"odd\xff")
    client.rpush(b"queue:odd\xff", JOB % 5)
    process(client, b"box\xfe:1:b", b'{"queue":"odd\xff","payload":"{\\"jid\\":\\"j6\\"}"}')
    looked_at(redisq, "sidekiq", "delay ls {0}", "inspect {0}:odd%FF", "fsck {0}:odd%FF")
    assert [p.name for p in SidekiqQueue(client, "sidekiq").worker_processes()] == [
        "box\udcfe:1:b",
        "good:1:a",
    ]
    assert {row["id"] for row in redisq.rows("pending", "ls", "sidekiq")} == {"j4", "j6"}
    assert [row["id"] for row in redisq.rows("waiting", "ls", "sidekiq:odd%FF")] == [jid(5)]
    assert "box\\xfe:1:b" in redisq("workers", "ls", "sidekiq")
    found = {row["name"]: row for row in redisq.rows("discover")}
    assert (found["sidekiq:odd%FF"]["waiting"], found["sidekiq:mail"]["waiting"]) == (1, 2)
    odd: Any = SidekiqQueue(client, "sidekiq:odd%FF")
    (taken,) = odd.take(1, consumer="w1").deliveries
    assert taken.id == jid(5) and odd.counts().pending == 2


def test_resques_names_of_any_bytes_too(redisq: Redisq, client: redis.Redis) -> None:
    resque(client)
    client.sadd("resque:queues", b"odd\xff")
    client.rpush(b"resque:queue:odd\xff", b'{"class":"B","args":[]}')
    client.sadd("resque:failed_queues", b"odd\xff_failed")
    client.rpush(b"resque:odd\xff_failed", b'{"payload":{"class":"B","args":[]},"queue":"x"}')
    worker(client, b"box\xfe:2:*")
    looked_at(redisq, "resque", "inspect {0}:odd%FF")
    assert redisq.rows("inspect", "resque")[0]["pending"] == 2
    assert len(redisq.rows("dlq", "ls", "resque")) == 2
    found = {row["name"]: row for row in redisq.rows("discover")}
    assert (found["resque:odd%FF"]["waiting"], found["resque:mail"]["waiting"]) == (1, 2)
    redisq("workers", "rm", "resque", "--yes")
    assert client.scard("resque:workers") == 0 and client.llen("resque:queue:mail") == 4


def test_an_old_sidekiqs_record_keeps_its_bytes(redisq: Redisq, client: redis.Redis) -> None:
    """Before 5.2.2 what a process had was a part of its record, not text in it."""
    sidekiq(client)
    process(client, b"old:1:c", b'{"queue":"mail","payload":{"jid":"j8","args":["\xff"]}}')
    looked_at(redisq, "sidekiq", "delay ls {0}")
    there = {e.id: e.payload for e in SidekiqQueue(client, "sidekiq:mail").page("pending").entries}
    assert there == {"j4": b'{"jid":"j4"}', "j8": b'{"jid":"j8","args":["\xff"]}'}


@pytest.mark.parametrize("kind", ["sidekiq", "resque"])
def test_a_process_that_cannot_be_read_hides_no_other_and_is_named(
    kind: str, redisq: Redisq, client: redis.Redis
) -> None:
    if kind == "sidekiq":
        sidekiq(client)
        client.sadd("processes", "odd:1:d")
        client.rpush("odd:1:d", "x")
    else:
        resque(client)
        client.sadd("resque:workers", "odd:1:d")
        client.rpush("resque:worker:odd:1:d", "x")
    looked_at(redisq, kind, codes=(0, 1, 3))
    assert [row["pending"] for row in redisq.rows("discover")] == [1]
    assert len(redisq.rows("pending", "ls", f"{kind}:mail")) == 1
    assert redisq.rows("inspect", f"{kind}:mail")[0]["pending"] == 1
    (row,) = redisq.rows("fsck", kind, code=1)
    (flaw,) = row["faults"]
    assert flaw.startswith("process odd:1:d can't be read: a key of another type")
    processes = {row["name"]: row for row in redisq.processes(kind, code=3)}
    assert processes.pop("odd:1:d")["state"] == "unreadable"
    assert [row["busy"] for row in processes.values()] == [1]
    (name,) = processes
    if kind == "sidekiq":
        client.delete(name)
    assert "odd:1:d can't be read" in redisq.refusal(
        "workers", "rm", kind, "odd:1:d", "--yes", code=1
    )
    assert redisq.rows("workers", "rm", kind, "--yes")[-1]["done"] == 1
    register = "processes" if kind == "sidekiq" else "resque:workers"
    assert client.smembers(register) == {b"odd:1:d"}
    assert ResqueQueue(client, "resque").names() == (["mail"] if kind == "resque" else [])


# --- what is said of such queues ----------------------------------------------


def test_elements_that_are_no_jobs_are_flagged(redisq: Redisq, client: redis.Redis) -> None:
    resque(client)
    client.rpush("resque:queue:mail", b"hello", b"[1]", b'{"class":"A","args":[]}')
    flaw = (
        "2 of the first 5 jobs that wait in mail are no JSON objects: a Resque worker that takes"
        " one stops, and it is lost"
    )
    assert redisq.rows("discover")[0]["faults"] == [flaw]
    assert redisq.rows("inspect", "resque:mail")[0]["faults"] == [flaw]
    for name in ("resque", "resque:mail"):
        assert redisq.rows("fsck", name, code=1)[0]["faults"] == [flaw]
    client.lrem("resque:queue:mail", 1, "hello")
    client.lrem("resque:queue:mail", 1, "[1]")
    assert redisq.rows("discover")[0]["faults"] == [] and redisq.rows("fsck", "resque")[0]["ok"]


def test_a_failure_without_a_job_is_not_replayed(redisq: Redisq, client: redis.Redis) -> None:
    resque(client)
    client.rpush("resque:failed", b'{"payload":null,"queue":"mail"}')
    (ended,) = redisq.rows("dlq", "replay", "resque", "--yes", code=3)
    assert (ended["matched"], ended["done"], ended["skipped"]) == (2, 1, {"invalid": 1})
    assert client.lrange("resque:failed", 0, -1) == [b'{"payload":null,"queue":"mail"}']
    assert b"null" not in client.lrange("resque:queue:mail", 0, -1)


@pytest.mark.parametrize("kind", [ResqueQueue, SidekiqQueue])
def test_a_job_names_its_class(kind: Any, client: redis.Redis) -> None:
    queue = kind(client, f"{kind.kind}:mail")
    with pytest.raises(BadInput, match="names a class"):
        queue.push([Job("A"), Job("")])
    assert client.keys("*queue:mail") == []


def test_what_a_replay_means_is_said_by_kind(redisq: Redisq, client: redis.Redis) -> None:
    sidekiq(client)
    client.zadd("dead", {JOB % 9: 1})
    resque(client)
    dead_letters(client, 1, "ours")

    def said(queue: str) -> str:
        return redisq("dlq", "replay", queue, "--dry-run")

    assert "again, with the retries they have left (if none, one attempt)" in said("sidekiq:mail")
    assert "again, as new jobs: Resque counts no attempts" in said("resque:mail")
    assert "again, attempts restart at zero" in said("ours")
    redisq("dlq", "replay", "sidekiq:mail", "--plan", "p")
    assert "with the retries they have left" in redisq("apply", "p", "--dry-run")


def test_explain_says_what_waits_where_no_rates_are_known(
    redisq: Redisq, client: redis.Redis
) -> None:
    sidekiq(client)
    said = {row["rule"]: row for row in redisq.rows("explain", "sidekiq:mail")}["pending"]
    assert "1 pending, 2 waiting; settled entries are not counted" in json.dumps(said)
    assert said["facts"] == {"pending": 1, "waiting": 2}


def test_inspect_counts_what_no_key_lists(redisq: Redisq, client: redis.Redis) -> None:
    """And `ls` doesn't look for it."""
    message = b'{"client_id": "ann", "attempts": 0}'
    client.rpush("bqueues:worker1:ann", message, message)
    client.rpush("bqueues:worker10:bob", message)
    client.rpush("bqueues:processing:worker1", message)
    for n in range(3):
        client.xadd("sub:{r1}", {"n": n})
    client.xgroup_create("sub:{r1}", "sub:{r1}", "0")
    client.xreadgroup("sub:{r1}", "w1", {"sub:{r1}": ">"}, count=1)
    client.set("counter:{r1}", 3)
    client.rpush("{req}:5", "r1")
    for name, waiting, pending in (("raw-fair:worker1", 2, 1), ("raw-request:req", 2, 1)):
        (row,) = redisq.rows("inspect", name)
        assert (row["waiting"], row["pending"]) == (waiting, pending)
        shown = redisq("inspect", name)
        assert [line.split() for line in shown.splitlines() if "waiting" in line] == [
            ["waiting", str(waiting)]
        ]
    redisq("discover", "--register", "--yes")
    listed = {row["name"]: row["waiting"] for row in redisq.rows("ls")}
    assert listed["raw-fair:worker1"] is None and listed["raw-request:req"] is None


def test_inspect_says_what_a_circle_was_made_as(redisq: Redisq, client: redis.Redis) -> None:
    CircularQueue(client, "rot", residence="rotate", repeats="each").push(["a"])
    ShardedCircularQueue(client, "wide", completed="eager", shards=2).push(["a"])
    (rot,), (wide,) = (redisq.rows("inspect", name) for name in ("rot", "wide"))
    made = {"residence": "rotate", "completed": "set", "repeats": "each", "idle": "wake"}
    assert rot["options"] == made
    assert (wide["options"]["completed"], wide["options"]["residence"]) == ("eager", "list")
    assert "residence=rotate, completed=set, repeats=each, idle=wake" in redisq("inspect", "rot")
    dead_letters(client, 1, "ours")
    assert redisq.rows("inspect", "ours")[0]["options"] == {}

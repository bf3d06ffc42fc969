"""`redisq workers`: processes that Sidekiq and Resque register, seen and struck."""

from __future__ import annotations

import json
import re
import time
from typing import Any

import pytest
import redis

from redisq_ops.core.engine.worker_register import WorkerRegistration
from redisq_ops.core.foreign.sidekiq import SidekiqQueue
from redisq_ops.core.queues.request import RequestQueue
from redisq_ops.core.redis.operation import run

from ..command_line import Redisq, everywhere
from ..foreign_keys import put

pytestmark = pytest.mark.alike

Client = redis.Redis
WEB = "web-1:4711:0a1b2c3d4e5f"
LIVE, SLOW, GONE = "a:1:live", "b:2:slow", "c:3:gone"
SILENT = "box:78:mail:out,low"


def beat(client: Client, name: str, ago_ms: int | None, *queues: str) -> None:
    """A Sidekiq process that beat so long ago and has a job of each of these queues."""
    client.sadd("processes", name)
    client.sadd("queues", "mail")
    if ago_ms is None:
        return
    info = {"hostname": name.split(":")[0], "started_at": 1.7e9, "queues": ["mail"]}
    client.hset(name, "info", json.dumps(info))
    client.pexpire(name, 60_000 - ago_ms)
    for n, queue in enumerate(queues):
        job = {"class": "A", "args": [], "jid": f"{name[0]}{n}", "queue": queue}
        work = {"queue": queue, "payload": json.dumps(job), "run_at": 1.7e9}
        client.hset(f"{name}:work", f"t{n}", json.dumps(work))


def three(client: Client) -> None:
    beat(client, LIVE, 1000, "mail")
    beat(client, SLOW, 40_000, "mail", "low")
    beat(client, GONE, None)


def there(redisq: Redisq, *words: str) -> dict[str, dict[str, Any]]:
    return {row["name"]: row for row in redisq.processes(*words)}


def test_processes_are_listed_without_writing_anything(redisq: Redisq, client: Client) -> None:
    three(client)
    keys = sorted(client.keys())
    rows = there(redisq)
    assert {name: row["state"] for name, row in rows.items()} == {
        LIVE: "alive",
        SLOW: "alive",
        GONE: "silent",
    }
    assert 40_000 <= rows[SLOW]["silent_ms"] < 60_000 and rows[GONE]["silent_ms"] is None
    assert (rows[SLOW]["busy"], rows[SLOW]["jobs"], rows[GONE]["jobs"]) == (2, ["b0", "b1"], [])
    assert (rows[LIVE]["host"], rows[LIVE]["queues"], rows[LIVE]["since_ms"]) == (
        "a",
        ["mail"],
        1_700_000_000_000,
    )
    assert there(redisq, "sidekiq:mail").keys() == rows.keys()
    text = redisq("workers", "ls", "sidekiq")
    assert SLOW in text and re.search(r"\b4\ds\b", text) and "silent" in text
    assert sorted(client.keys()) == keys


def test_several_queues_of_one_deployment_show_its_processes_once(
    redisq: Redisq, client: Client
) -> None:
    three(client)
    put(client, "resque")
    client.sadd("queues", "low")
    redisq("discover", "--register", "--yes")
    assert len(redisq.rows("ls")) >= 4
    rows = redisq.processes()
    assert sorted(row["name"] for row in rows) == sorted(
        [LIVE, SLOW, GONE, "box:77:low", SILENT, "old:5:*"]
    )


def test_the_dead_are_struck_and_what_they_had_waits_again(redisq: Redisq, client: Client) -> None:
    three(client)
    (plan,) = redisq.rows("workers", "rm", "sidekiq", "--older-than", "30s", "--dry-run")
    assert (plan["matched"], plan["jobs"], plan["processes"]) == (2, 2, [SLOW, GONE])
    assert client.scard("processes") == 3
    said = redisq("workers", "rm", "sidekiq", "--older-than", "30s", code=5)
    assert (
        f"{SLOW}: last heartbeat 40s ago, 2 jobs" in said and f"{GONE}: its record is gone" in said
    )
    done = redisq.rows("workers", "rm", "sidekiq", "--older-than", "30s", "--yes")[-1]
    assert (done["matched"], done["done"], done["skipped"]) == (2, 2, {})
    assert done["jobs"] == {"waiting": 2, "dead": 0, "lost": 0}
    assert client.smembers("processes") == {LIVE.encode()}
    assert client.llen("queue:mail") == client.llen("queue:low") == 1
    (entry,) = redisq.rows("log")
    assert (entry["verb"], entry["queue"], entry["done"]) == ("prune", "sidekiq", 2)
    assert not entry["undoable"] and "30s" in entry["what"]
    refused = redisq.refusal("undo", done["op"], "--yes", code=1)
    assert "prune can't be undone" in refused


def test_by_default_only_whom_the_owner_takes_for_dead(redisq: Redisq, client: Client) -> None:
    three(client)
    assert "1 of 1" in redisq("workers", "rm", "sidekiq", "--yes", "--reason", "deploy")
    assert client.smembers("processes") == {LIVE.encode(), SLOW.encode()}
    assert redisq("workers", "rm", "sidekiq").startswith("0 matched"), "nothing to ask about"
    (nothing,) = redisq.rows("workers", "rm", "sidekiq")
    assert (nothing["matched"], nothing["done"]) == (0, 0)
    assert len(redisq.rows("log")) == 1, "nothing to do is nothing done"


def test_what_is_not_rescued_is_lost_and_said_to_be(redisq: Redisq, client: Client) -> None:
    three(client)
    words = ("workers", "rm", "sidekiq", SLOW, "--older-than", "30s", "--no-rescue")
    assert "what they had is lost" in redisq(*words, "--dry-run")
    redisq(*words, "--yes")
    assert "2 jobs lost" in redisq.err
    assert not client.exists("queue:mail", "queue:low", f"{SLOW}:work")


def test_one_by_name(redisq: Redisq, client: Client) -> None:
    three(client)
    assert "is alive: last heartbeat" in redisq.refusal(
        "workers", "rm", "sidekiq", LIVE, "--yes", code=1
    )
    assert "no process" in redisq.refusal("workers", "rm", "sidekiq", "x:1", "--yes", code=1)
    redisq("workers", "rm", "sidekiq:mail", GONE, "--yes")
    assert client.smembers("processes") == {LIVE.encode(), SLOW.encode()}


def test_one_that_beats_after_the_plan_is_left(
    redisq: Redisq, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    three(client)
    prune = SidekiqQueue._pruned

    async def after_a_beat(self: Any, *args: Any, **given: Any) -> Any:
        beat(client, given["identity"], 0)
        return await prune(self, *args, **given)

    monkeypatch.setattr(SidekiqQueue, "_pruned", after_a_beat)
    (done,) = redisq.rows("workers", "rm", "sidekiq", GONE, "--yes", code=1)
    assert (done["done"], done["skipped"]) == (0, {"alive": 1})
    assert client.sismember("processes", GONE)


def test_interrupted_it_says_what_was_done(
    redisq: Redisq, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also of the step whose reply was not heard; who runs it again strikes the rest."""
    for n in range(4):
        beat(client, f"h:{n}:x", None)
    prune, calls = SidekiqQueue._pruned, list[str]()

    async def interrupted(self: Any, *args: Any, **given: Any) -> Any:
        calls.append(given["identity"])
        said = await prune(self, *args, **given)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return said

    monkeypatch.setattr(SidekiqQueue, "_pruned", interrupted)
    (done,) = redisq.rows("workers", "rm", "sidekiq", "--yes", code=130)
    assert (done["matched"], done["done"]) == (4, 2)
    assert client.scard("processes") == 2
    assert redisq.rows("workers", "rm", "sidekiq", "--yes")[-1]["done"] == 2


def test_a_key_in_the_way_stops_it_and_says_which(redisq: Redisq, client: Client) -> None:
    beat(client, "a:1:one", 50_000, "mail")
    beat(client, "b:2:two", 50_000, "mail", "low")
    client.set("queue:low", "somebody else's")
    words = ("workers", "rm", "sidekiq", "--older-than", "30s", "--yes")
    redisq(*words, code=1)
    assert "queue:low" in redisq.err and "stopped after 1 of 2" in redisq.err
    assert client.smembers("processes") == {b"b:2:two"} and client.llen("queue:mail") == 1
    redisq(*words, code=1)
    assert client.llen("queue:mail") == 1, "tried again, nothing is pushed again"


def test_resque_s_workers(redisq: Redisq, client: Client) -> None:
    put(client, "resque")
    client.hset("resque:workers:heartbeat", SILENT, "2024-06-10T06:15:10Z")
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    client.hset("resque:workers:heartbeat", "box:77:low", now)
    rows = there(redisq, "resque:low")
    assert {name: row["state"] for name, row in rows.items()} == {
        "box:77:low": "alive",
        "old:5:*": "alive",
        SILENT: "silent",
    }
    assert rows["box:77:low"]["since_ms"] == 1_717_999_200_000 and rows[SILENT]["pid"] == 78
    assert rows["old:5:*"]["silent_ms"] is None
    words = ("workers", "rm", "resque", "--older-than", "1h")
    assert "becomes failures" in redisq(*words, "--no-rescue", "--dry-run")
    assert "go back to waiting" in redisq(*words, "--dry-run")
    done = redisq.rows(*words, "--no-rescue", "--yes")[-1]
    assert (done["done"], done["jobs"]) == (1, {"waiting": 0, "dead": 1, "lost": 0})
    assert client.llen("resque:failed") == 3
    assert client.smembers("resque:workers") == {b"box:77:low", b"old:5:*"}


def test_our_own_workers_are_listed_and_not_pruned(redisq: Redisq, client: Client) -> None:
    everywhere(client)
    assert "w1" in redisq("workers", "ls", "mail"), "what its consumer holds"
    assert redisq.err == ""
    RequestQueue(client, "idle").submit([b"x"], id="r")
    redisq("workers", "ls", "idle")
    assert redisq.err == "no worker process is registered with idle\n"
    assert redisq("workers", "ls").startswith("queue mail\n")
    queue = RequestQueue(client, "mail")
    run(client, WorkerRegistration("box.77", 4, "box", 77).beat(queue))
    (row,) = redisq.processes("mail")
    assert (row["name"], row["host"], row["pid"], row["state"], row["queues"]) == (
        "box.77",
        "box",
        77,
        "alive",
        ["mail"],
    )
    assert "name the consumer of mail" in redisq.refusal("workers", "rm", "mail", code=2)
    words = ("workers", "rm", "mail", "w1", "--older-than", "1h")
    assert "no use for --older-than" in redisq.refusal(*words, code=2)


def test_names_reach_the_terminal_escaped(redisq: Redisq, client: Client) -> None:
    beat(client, "c:3:\x1b]52;c;aGk=\x07", None)
    for words in (("ls", "sidekiq"), ("rm", "sidekiq", "--dry-run")):
        assert "\x1b" not in redisq("workers", *words) and "\x1b" not in redisq.err

"""Keys of another type among Resque's and Sidekiq's own: the rest is shown, the key named."""

from __future__ import annotations

from typing import Any

import pytest
import redis
from textual.pilot import Pilot

from redisq_ops.core.foreign.resque import ResqueQueue
from redisq_ops.core.foreign.ruby_jobs import Job
from redisq_ops.core.foreign.sidekiq import SidekiqQueue
from redisq_ops.core.model.errors import WrongKind
from redisq_ops.tui.app import Top

from ...command_line import Redisq
from ...model.wire import picture
from ...queue_steps import take
from ...tui.test_app import drive, see, until

RESQUE = [("workers", "pending"), ("failed", "dead"), ("failed_queues", "dead")]
SIDEKIQ = [
    ("processes", "pending"),
    ("retry", "delayed"),
    ("schedule", "delayed"),
    ("dead", "dead"),
    ("paused", ""),
]
CASES = [(ResqueQueue, *case) for case in RESQUE] + [(SidekiqQueue, *case) for case in SIDEKIQ]


def spoilt(client: redis.Redis, kind: Any, part: str) -> tuple[str, str]:
    """A queue with two that wait and one that a worker of ours has; the key in its way."""
    queue = kind(client, f"{kind.kind}:low")
    queue.push([Job("A", [n]) for n in range(3)])
    assert len(take(queue, 1)) == 1
    key = f"{queue.at}{part}"
    client.delete(key)
    client.set(key, "somebody else's")
    return queue.name, key


@pytest.mark.parametrize(("kind", "part", "state"), CASES)
def test_the_queue_is_shown_beside_it(
    redisq: Redisq, client: redis.Redis, kind: Any, part: str, state: str
) -> None:
    name, key = spoilt(client, kind, part)
    seen = picture(client)
    for one in (name, kind.kind):
        (row,) = redisq.rows("inspect", one)
        assert row["waiting"] == 2 and (not state or row[state] is None)
        assert row["pending"] == (None if state == "pending" else 1)
        (flaw,) = row["faults"]
        assert key in flaw
    assert key in redisq("inspect", name)
    (row,) = redisq.rows("ls", code=3)
    assert row["waiting"] == 2 and key in row["problem"]
    (row,) = redisq.rows("fsck", name, code=1)
    assert [key in flaw for flaw in row["faults"]] == [True]
    # What our workers have is listed with or without theirs.
    held = redisq.rows("pending", "ls", name, code=3 if state == "pending" else 0)
    assert len(held) == 1
    named = int(state == "pending")
    assert (redisq.err.count(key), redisq.err.count("\n")) == (named, named)
    assert len(redisq.rows("select", name, code=3 if state else 0)) == 3
    assert redisq.err.count(key) == bool(state)
    assert picture(client) == seen


@pytest.mark.parametrize(("kind", "part", "state"), [case for case in CASES if case[2]])
def test_nothing_is_done_to_what_is_seen_in_part(
    redisq: Redisq, client: redis.Redis, kind: Any, part: str, state: str
) -> None:
    name, key = spoilt(client, kind, part)
    seen = picture(client)
    verb = {"pending": "requeue", "dead": "replay", "delayed": "purge"}[state]
    words = ["--state", state] if verb != "replay" else []
    assert key in redisq.refusal(verb, name, *words, "--yes", code=1)
    if state == "pending":
        assert key in redisq.refusal("workers", "rm", name, "w1", "--yes", code=1)
    assert picture(client) == seen


@pytest.mark.parametrize(("kind", "part", "state"), [case for case in CASES if case[2]])
def test_an_entry_is_found_beside_it_and_none_is_said_to_be_gone(
    redisq: Redisq, client: redis.Redis, kind: Any, part: str, state: str
) -> None:
    name, key = spoilt(client, kind, part)
    (first, *_) = redisq.rows("waiting", "ls", name)
    (row,) = redisq.rows("inspect", f"{name}/{first['id']}")
    assert row["state"] == "waiting"
    (said,) = redisq.rows("explain", f"{name}/{first['id']}")
    assert said["rule"] != "no-worker" or state != "pending", "who asks isn't known"
    assert "unread" in [one["rule"] for one in said["also"]]
    (said,) = redisq.rows("explain", name)
    assert (said["rule"], said["verb"]) == ("unread", "fsck") and key in said["sentence"]
    absent = redisq.refusal("inspect", f"{name}/{'0' * 16}", code=1)
    assert key in absent


def test_a_wait_ends_with_no_number_it_doesnt_know(redisq: Redisq, client: redis.Redis) -> None:
    name, _ = spoilt(client, ResqueQueue, "workers")
    said = redisq.refusal("wait", name, "--until", "pending==0", code=1)
    assert said == "this kind of queue does not show how many entries are pending"


def test_of_a_deployment_one_list_spoils_no_other(redisq: Redisq, client: redis.Redis) -> None:
    spoilt(client, ResqueQueue, "queue:odd")
    client.sadd("resque:queues", "odd")
    (row,) = redisq.rows("inspect", "resque")
    assert (row["waiting"], row["pending"]) == (None, 1)
    assert ["resque:queue:odd" in flaw for flaw in row["faults"]] == [True]
    assert len(redisq.rows("waiting", "ls", "resque", code=3)) == 2
    assert "resque:queue:odd" in redisq.err
    assert redisq.rows("waiting", "ls", "resque:low", "--json")


def test_heartbeats_that_cant_be_read_strike_nobody(redisq: Redisq, client: redis.Redis) -> None:
    spoilt(client, ResqueQueue, "workers:heartbeat")
    client.sadd("resque:workers", "box:7:low")
    client.set(
        "resque:worker:box:7:low",
        b'{"queue":"low","run_at":"2023-11-14T22:13:20Z","payload":{"class":"A","args":[9]}}',
    )
    assert len(redisq.rows("pending", "ls", "resque:low")) == 2
    (row,) = redisq.processes("resque:low", code=3)
    assert (row["state"], row["busy"], row["silent_ms"]) == ("unreadable", 1, None)
    assert "resque:workers:heartbeat" in redisq.err
    said = redisq.refusal("workers", "rm", "resque", "box:7:low", "--yes", code=1)
    assert "resque:workers:heartbeat" in said
    assert client.sismember("resque:workers", "box:7:low")


def test_a_sidekiq_process_that_cant_be_read_hides_no_other(
    redisq: Redisq, client: redis.Redis
) -> None:
    queue = SidekiqQueue(client, "sidekiq:low")
    queue.push([Job("A", [1])])
    client.sadd("processes", "box:1:a", "box:2:b")
    for name in ("box:1:a", "box:2:b"):
        client.hset(name, "info", '{"hostname":"box","queues":["low"]}')
        client.hset(f"{name}:work", "t", '{"queue":"low","payload":"{}","run_at":1}')
    client.delete("box:1:a:work")
    client.set("box:1:a:work", "x")
    assert [row["consumer"] for row in redisq.rows("pending", "ls", "sidekiq:low")] == ["box:2:b"]
    (row,) = redisq.rows("inspect", "sidekiq:low")
    assert row["waiting"] == 1 and "box:1:a:work" in row["faults"][0]
    said = redisq.refusal("workers", "rm", "sidekiq", "box:1:a", "--yes", code=1)
    assert said.endswith("the queue keeps its data: box:1:a:work")
    with pytest.raises(WrongKind):
        queue.prune_process("box:1:a", silent=0)
    assert client.sismember("processes", "box:1:a")


@pytest.mark.slow
def test_the_dashboard_shows_what_it_can_read_and_says_so(client: redis.Redis, url: str) -> None:
    name, key = spoilt(client, ResqueQueue, "workers")

    async def body(app: Top, pilot: Pilot[Exception]) -> None:
        await see(pilot, name, "a key of another type")
        await pilot.press("enter")
        await until(pilot, lambda: app.queue == name)
        await app.run_action("view('pending')")
        await see(pilot, "1 of ≥1", f"keeps its data: {key}")

    drive(url, body, size=(150, 30))

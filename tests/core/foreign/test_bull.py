"""Bull's layout beside a real Bull, releases 4 and 3 (see `bull_program`)."""

from __future__ import annotations

import json
import time
from collections import Counter
from contextlib import closing
from typing import Any

import pytest
import redis

from redisq_ops.core.foreign.bull import BullQueue
from redisq_ops.core.model.entry import Entry, State
from redisq_ops.core.redis.operation import run

from ...changes import changed, undone
from ...command_line import Redisq
from ...foreign_keys import bullmq_program
from ...foreign_keys.bull_program import VERSIONS, Program, specimen
from ...foreign_keys.bullmq_program import add
from ...foreign_keys.node_program import wait

pytestmark = pytest.mark.slow

Client = redis.Redis
NAME = "bull:mail"
B = "bull:mail:"
every_release = pytest.mark.parametrize("version", VERSIONS)


def ours(client: Client) -> BullQueue[Client]:
    return BullQueue(client, NAME)


def entries(client: Client, state: State) -> dict[str, Entry]:
    return {entry.id: entry for entry in ours(client).page(state, max=1000).entries}


def dumps(client: Client) -> dict[bytes, object]:
    """The program's keys; hashes and sets have no order."""
    found: dict[bytes, object] = {}
    for key in client.scan_iter(B + "*"):
        type_: Any = client.type(key)
        reads: dict[bytes, Any] = {b"hash": client.hgetall, b"set": client.smembers}
        found[key] = reads.get(type_, client.dump)(key)
    return found


def order(client: Client) -> list[str]:
    """In which order jobs ran."""
    found: list[Any] = client.lrange("ran:order", 0, -1)
    return [id.decode() for id in found]


def heard_by(client: Client) -> Any:
    return client.pubsub()  # type: ignore[no-untyped-call]


def one_by_one(client: Client, version: str) -> Program:
    program = Program(client, version)
    program.environment["CONCURRENCY"] = "1"
    return program


# --- what is seen -------------------------------------------------------------------


@every_release
def test_every_state_is_seen_as_bull_counts_it(client: Client, version: str) -> None:
    specimen(client, version)
    counts = ours(client).counts()
    (theirs,) = Program(client, version).call(["getJobCounts"])
    assert (counts.waiting, counts.pending, counts.delayed) == (6, 4, 5)
    assert (theirs["waiting"], theirs["active"], theirs["delayed"]) == (6, 4, 5)
    assert (counts.dead, counts.done) == (theirs["failed"], theirs["completed"]) == (4, 3)
    dead = entries(client, "dead")["bad1"]
    assert dead.error and (dead.error.type, dead.error.message) == ("TypeError", "no bad1")
    assert "at handle" in dead.error.traceback and (dead.failures, dead.reason) == (1, "failed")
    assert (dead.at_ms, dead.task) == (client.zscore(B + "failed", "bad1"), "fails")
    shown = json.loads(dead.payload or b"")
    assert shown["data"] == {"what": "bad1", "region": "eu"} and shown["priority"] == 5
    done = entries(client, "done")["good0"]
    assert (done.failures, done.lost, done.error) == (0, 0, None)
    delayed = entries(client, "delayed")["d2"]
    assert delayed.at_ms and delayed.at_ms > ours(client).now() + 5_000_000
    for id, state in {"w5": "waiting", "run1": "pending", "d0": "delayed", "bad0": "dead"}.items():
        found = ours(client).get(id)
        assert found and (found.id, found.state) == (id, state)


def test_the_oldest_is_known_while_the_next_job_was_neither_delayed_nor_tried(
    client: Client,
) -> None:
    Program(client).call(add("fine", "a"), add("fine", "b"))
    made = int(client.hget(B + "a", "timestamp") or 0)
    assert ours(client).counts().oldest_ms == made
    for field in ("processedOn", "attemptsMade", "stalledCounter"):
        client.hset(B + "a", field, 1)
        assert ours(client).counts().oldest_ms is None
        client.hdel(B + "a", field)


def test_a_job_that_stalled_too_often_is_lost(client: Client) -> None:
    program = Program(client)
    program.call(add("lasts", "a"))
    for n in (1, 2):
        client.delete("started")
        program.lost(1)
        program.call(["moveUnlockedJobsToWait"])
        assert client.hget(B + "a", "stalledCounter") == str(n).encode()
        client.delete(B + "stalled-check")
    dead = entries(client, "dead")["a"]
    assert (dead.reason, dead.lost, dead.failures) == ("lost", 2, 0)


def test_connected_workers_and_a_pause_are_shown(client: Client, redisq: Redisq) -> None:
    program = Program(client)
    program.call(add("lasts", "a"), ["pause"])
    redisq("discover", "--register", "--yes")
    assert ours(client).counts().paused == "queue.pause() in Bull"
    assert list(entries(client, "waiting")) == ["a"]
    program.call(["resume"])
    assert ours(client).counts().paused is None
    with program.worker():
        wait(lambda: client.get("started"))
        (row,) = redisq.processes(NAME)
        assert row["queues"] == ["mail"]
        held = entries(client, "pending")["a"].at_ms
        assert held and 0 < held - ours(client).now() <= 600_000


# --- how it is recognised --------------------------------------------------------------


def test_bull_and_bullmq_live_under_one_prefix(client: Client, redisq: Redisq) -> None:
    Program(client).call(add("fine", "a"), add("fine", "b", delay=9_000_000), ["pause"])
    theirs = bullmq_program.Program(client)
    theirs.environment["QUEUE"] = "post"
    theirs.call(add("fine", "a"), add("fine", "b", delay=9_000_000), ["pause"])
    assert client.hgetall(B + "meta") == {b"paused": b"1"}, "Bull writes it for BullMQ"
    waiting = {row["name"]: row["waiting"] for row in redisq.rows("discover")}
    assert waiting == {NAME: 1, "bullmq:post": 1}
    assert "not shown" not in redisq.err
    client.delete("bull:post:meta")  # its events still say whose it is
    assert {row["name"] for row in redisq.rows("discover")} == {NAME}
    redisq("discover")
    assert "named as those of Bull and BullMQ" in redisq.err


def test_a_queue_is_found_behind_a_prefix_of_the_users_own_and_without_a_job(
    client: Client, redisq: Redisq
) -> None:
    program = Program(client)
    program.call(add("fine", "a", removeOnComplete=True))
    program.work(1)
    assert not list(client.scan_iter(B + "a"))
    program.environment |= {"PREFIX": "{shop}", "QUEUE": "orders"}
    program.call(add("fine", "a"), add("fine", "b"))
    client.rpush("user:7:active", "1")
    client.set("user:7:id", 1)
    client.zadd("bull:mail:newstate", {"a": 1})
    client.zadd("user:8:failed", {"1": 1})
    client.hset("user:8:1", mapping={"name": "x", "opts": "x", "timestamp": "x", "delay": "x"})
    found = {row["name"]: row["waiting"] for row in redisq.rows("discover")}
    other = next(name for name in found if name.startswith("bull:orders~"))
    assert found == {NAME: 0, other: 2}
    redisq("discover", "--register", "--yes")
    assert "not shown: 1 key of Bull's queues, in a state that" in redisq.err
    assert redisq.rows("waiting", "ls", other)[0]["id"] == "a"
    assert "purged waiting entries" in redisq("purge", other, "--state", "waiting", "--yes")
    assert client.llen("{shop}:orders:wait") == 0
    redisq("undo", "--yes")
    assert client.lrange("{shop}:orders:wait", 0, -1) == [b"b", b"a"]


# --- what is changed ----------------------------------------------------------------------


@every_release
def test_jobs_run_in_the_order_in_which_redisq_lists_them(client: Client, version: str) -> None:
    program = one_by_one(client, version)
    client.set("broken", 1)
    program.call(*[add("fails", f"bad{n}", priority=n % 2, lifo=n == 2) for n in range(4)])
    program.work(4)
    client.delete("broken", "ran:order")
    program.call(
        *[add("fine", f"w{n}", priority=n % 3) for n in range(6)],
        *[add("fine", f"d{n}", delay=9_000_000, priority=n % 3) for n in range(6)],
    )
    changed(ours(client), "requeue", "delayed")
    changed(ours(client), "replay", "dead")
    assert client.zscore(B + "priority", "bad1") is None, "Bull's retry forgets its priority"
    assert client.hexists(B + "bad0", "retriedOn") and not client.hexists(B + "bad0", "finishedOn")
    listed = list(entries(client, "waiting"))
    assert listed[:5] == ["bad2", "w1", "w4", "d1", "d4"]
    program.work(16)
    assert order(client) == listed


@every_release
def test_a_paused_queue_loses_nothing(client: Client, version: str) -> None:
    """When it goes on, the list of a paused queue replaces the usual one."""
    program = Program(client, version)
    client.set("broken", 1)
    program.call(add("fails", "a"), add("fails", "b"))
    program.work(2)
    client.delete("broken")
    program.call(add("fine", "w"), add("fine", "x"), add("fine", "d", delay=9_000_000))
    purge = changed(ours(client), "purge", "waiting", "w")
    program.call(["pause"])
    assert undone(client, purge).outcome.done == 1
    assert changed(ours(client), "replay", "dead").outcome.done == 2
    assert changed(ours(client), "requeue", "delayed").outcome.done == 1
    assert list(entries(client, "waiting")) == ["w", "x", "a", "b", "d"]
    assert not client.exists(B + "wait")
    purge = changed(ours(client), "purge", "waiting", "x")
    program.call(["resume"])
    assert undone(client, purge).outcome.done == 1
    program.work(5)
    assert Counter(order(client)) == Counter(a=2, b=2, w=1, x=1, d=1)


@every_release
def test_a_killed_workers_job_waits_again_once_it_is_marked(client: Client, version: str) -> None:
    program = Program(client, version)
    program.call(add("lasts", "a"), add("fine", "w"))
    with program.worker():
        wait(lambda: client.get("started") == b"1" and client.zcard(B + "completed") == 1)
        assert changed(ours(client), "requeue", "pending").outcome.skipped == {"busy": 1}, (
            "it has a lock"
        )
    client.delete(B + "a:lock", B + "stalled-check")
    assert changed(ours(client), "requeue", "pending").outcome.skipped == {"busy": 1}, "no mark"
    program.call(["moveUnlockedJobsToWait"])
    assert client.smembers(B + "stalled") == {b"a"}
    assert changed(ours(client), "requeue", "pending").outcome.skipped == {"busy": 1}, (
        "a fresh mark"
    )
    client.delete(B + "stalled-check")
    before = dumps(client)
    requeue = changed(ours(client), "requeue", "pending")
    assert requeue.outcome.done == 1 and next(iter(entries(client, "waiting"))) == "a"
    assert undone(client, requeue).outcome.done == 1 and dumps(client) == before
    assert changed(ours(client), "requeue", "pending").outcome.done == 1
    client.hset(B + "a", "name", "fine")
    program.work(1)
    assert Counter(order(client))["a"] == 2


def test_a_job_that_a_worker_is_about_to_lock_is_left_alone(client: Client) -> None:
    """`BRPOPLPUSH`, then a script that locks: an earlier attempt of the job began."""
    client.set(B + "id", 1)
    client.hset(B + "1", mapping={"name": "f", "timestamp": 1, "processedOn": 2, "attemptsMade": 1})
    client.lpush(B + "wait", "1")
    client.rpoplpush(B + "wait", B + "active")
    assert changed(ours(client), "requeue", "pending").outcome.skipped == {"busy": 1}


@every_release
def test_a_schedule_goes_on(client: Client, version: str) -> None:
    program = Program(client, version)
    program.call(["add", "fine", {}, {"repeat": {"every": 86_400_000}}])
    (id,) = entries(client, "delayed")
    assert id.startswith("repeat:")
    for verb in ("purge", "hard"):
        assert changed(ours(client), verb, "delayed").outcome.skipped == {"recurring": 1}
    before = dumps(client)
    requeue = changed(ours(client), "requeue", "delayed")
    assert changed(ours(client), "purge", "waiting").outcome.skipped == {"recurring": 1}
    assert undone(client, requeue).outcome.done == 1 and dumps(client) == before
    assert changed(ours(client), "requeue", "delayed").outcome.done == 1
    program.work(1)
    (after,) = entries(client, "delayed")
    assert after != id and order(client) == [id]


def test_what_is_put_off_less_far_wakes_the_worker(client: Client) -> None:
    program = Program(client)
    program.call(add("fine", "a", delay=9_000_000), add("fine", "b", delay=9_000_001))
    with program.worker():
        at = ours(client).now() + 1500
        with closing(heard_by(client)) as heard:
            heard.subscribe(B + "delayed")
            heard.get_message(timeout=5)
            assert changed(ours(client), "reschedule", "delayed", "a", at_ms=at).outcome.done == 1
            said = heard.get_message(timeout=5)
            assert said and int(said["data"]) == at
        assert client.zscore(B + "delayed", "a") == at * 4096
        wait(lambda: order(client) == ["a"])
        assert ours(client).now() >= at


def test_listeners_hear_what_waits_again(client: Client) -> None:
    specimen(client)
    with closing(heard_by(client)) as heard:
        heard.psubscribe(B + "waiting*")
        heard.get_message(timeout=5)
        changed(ours(client), "replay", "dead", "bad0")
        said = heard.get_message(timeout=5)
        assert (
            said and said["data"] == b"bad0" and said["channel"].startswith(f"{B}waiting@".encode())
        )


def test_what_belongs_to_a_job_goes_and_comes_back_with_it(client: Client) -> None:
    """Its logs, the key by which duplicates are refused, its priority, and that it is limited."""
    program = Program(client)
    program.call(add("fine", "a", priority=3, debounce={"id": "once", "ttl": 10**9}))
    client.rpush(B + "a:logs", "began")
    client.hset(B + "limiter:index", "a", B + "limiter:eu:limited")
    client.sadd(B + "limiter:eu:limited", "a", "b")
    before = dumps(client)
    assert (B + "de:once").encode() in before
    purge = changed(ours(client), "purge", "waiting")
    ours_ = dumps(client)
    assert undone(client, purge).outcome.done == 1
    assert dumps(client) == before
    program.does("a", "remove")
    assert {k for k in ours_ if b":redisq:" not in k} == {*dumps(client)}
    assert client.smembers(B + "limiter:eu:limited") == {b"b"}


def test_a_key_against_duplicates_that_expired_meanwhile_does_not_keep_its_job_away(
    client: Client,
) -> None:
    Program(client).call(add("fine", "a", debounce={"id": "once", "ttl": 10**9}))
    client.pexpire(B + "de:once", 50)
    purge = changed(ours(client), "purge", "waiting")
    time.sleep(0.1)
    assert undone(client, purge).outcome.done == 1
    assert [*entries(client, "waiting")] == ["a"] and not client.exists(B + "de:once")


@every_release
def test_a_replayed_job_that_is_retried_is_failing_and_one_that_stalled_before_is_not(
    client: Client, version: str
) -> None:
    """A canary and a ramp judge by it. They died with attempts left, as by `UnrecoverableError`."""
    program = Program(client, version)
    client.set("broken", 1)
    program.call(add("fails", "a"), add("fails", "b"))
    program.work(2)
    for id in "ab":
        client.hset(
            B + id, "opts", json.dumps({"attempts": 9, "backoff": {"type": "fixed", "delay": 9**9}})
        )
    client.hset(B + "b", "stalledCounter", 1)
    tracker, now = ours(client).replay_tracker(), ours(client).now()
    changed(ours(client), "replay", "dead", "a")
    program.work(1)
    changed(ours(client), "replay", "dead", "b")
    tracker.add(["b"], now)
    assert run(client, tracker.look()) == [] and (tracker.failing, tracker.unsettled) == (0, 1)
    tracker.add(["a"], now)
    assert run(client, tracker.look()) == [] and (tracker.failing, tracker.unsettled) == (1, 2)


def test_an_undo_leaves_a_job_that_a_worker_had_meanwhile(client: Client) -> None:
    """It failed again, and Bull let it wait again at once: its id is where the undo looks."""
    program = Program(client)
    client.set("broken", 1)
    program.call(add("fails", "a"))
    program.work(1)
    replay = changed(ours(client), "replay", "dead")
    client.hset(B + "a", mapping={"processedOn": ours(client).now(), "attemptsMade": 2})
    before = dumps(client)
    assert undone(client, replay).outcome.skipped and dumps(client) == before


def test_an_id_without_its_job_is_purged(client: Client, redisq: Redisq) -> None:
    specimen(client)
    client.delete(B + "w1", B + "run1", B + "good1")
    redisq("discover", "--register", "--yes")
    assert entries(client, "waiting")["w1"].problem == "its job is gone"
    cases: dict[State, str] = {"waiting": "w1", "pending": "run1", "done": "good1"}
    for state, id in cases.items():
        before = dumps(client)
        purge = changed(ours(client), "purge", state, id)
        assert purge.outcome.done == 1 and id not in entries(client, state)
        undone(client, purge)
        after = {k: v for k, v in dumps(client).items() if b":redisq:" not in k}
        assert after == {k: v for k, v in before.items() if b":redisq:" not in k}

"""Dramatiq's layout beside a real Dramatiq (see `dramatiq_program`)."""

from __future__ import annotations

import json
import pickle
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import dramatiq
import pytest
import redis
from dramatiq.results.backends import RedisBackend

from redisq_ops.core.foreign.dramatiq import DramatiqQueue
from redisq_ops.core.foreign.dramatiq.message import Message
from redisq_ops.core.model.attachment import Attachment
from redisq_ops.core.model.entry import Entry, State

from ...changes import changed, undone
from ...command_line import Redisq
from ...foreign_keys.dramatiq_program import Program, lost, specimen, started
from ...queue_steps import eventually

Client = redis.Redis
NAME = "dramatiq:low"


def ours(client: Client) -> DramatiqQueue[Client]:
    return DramatiqQueue(client, NAME)


def entries(client: Client, state: State) -> list[Entry]:
    return list(ours(client).page(state).entries)


def ids(client: Client, state: State) -> list[str]:
    return [entry.id for entry in entries(client, state)]


def keys(client: Client) -> dict[bytes, Any]:
    """What Dramatiq's keys hold; a heartbeat is new whenever a worker is."""
    found = [key for key in client.scan_iter("dramatiq:*") if b":redisq:" not in key]
    return {key: content(client, key) for key in found if b"heartbeats" not in key}


def content(client: Client, key: bytes) -> Any:
    read: dict[Any, Callable[[bytes], Any]] = {
        b"hash": client.hgetall,
        b"list": lambda key: client.lrange(key, 0, -1),
        b"set": client.smembers,
        b"zset": lambda key: client.zrange(key, 0, -1, withscores=True),
    }
    return read[client.type(key)](key)


def ran(client: Client) -> Counter[str]:
    found: dict[Any, Any] = client.hgetall("ran")
    return Counter({what.decode(): int(n) for what, n in found.items()})


def test_results_are_listed_where_their_names_tell_the_queue(client: Client) -> None:
    program = Program(client)
    sent, raised = program.fine.send("a"), program.fine.send("b")
    plain, hashed = (
        RedisBackend(client=client, use_namespace_prefix_keys=by_name) for by_name in (True, False)
    )
    for backend in (plain, hashed):
        backend.store_exception(raised, ValueError("no b"), 60_000)
    hashed.store_result(sent, {"sum": 3}, 60_000)
    assert ours(client).counts().of("done") is None and ids(client, "done") == []
    waiting = entries(client, "waiting")
    assert ours(client).attachments(waiting[0]) == [Attachment("result", b'{"sum":3}')]
    assert b"no b" in ours(client).attachments(waiting[1])[0].content
    plain.store_result(sent, {"sum": 3}, 60_000)
    (done,) = entries(client, "done")
    assert not done.counted, "nobody knows how often it failed"
    assert (done.id, done.task) == (f"fine:{sent.message_id}", "fine")
    assert ours(client).get(done.id) == done
    assert ours(client).attachments(done) == [Attachment("result", b'{"sum":3}')]


@pytest.fixture
def program(client: Client) -> Program:
    return Program(client)


# --- what is seen -------------------------------------------------------------------


def test_every_state_is_seen(client: Client) -> None:
    specimen(client)
    counts = ours(client).counts()
    assert (counts.waiting, counts.pending, counts.delayed, counts.dead) == (6, 4, 6, 4)
    assert counts.of("done") is None, "Dramatiq keeps no number of them"
    dead = entries(client, "dead")[0]
    assert dead.at_ms == client.zscore("dramatiq:low.XQ", dead.id)
    assert dead.error and (dead.error.type, dead.failures, dead.reason) == (
        "ValueError",
        2,
        "failed",
    )
    shown = json.loads(dead.payload or b"")
    assert (shown["actor_name"], shown["kwargs"].keys()) == ("fails", {"order"})
    assert "traceback" not in shown["options"]
    waiting = entries(client, "waiting")[2]
    assert json.loads(waiting.payload or b"")["args"] == [2]
    (delayed, *_) = entries(client, "delayed")
    assert delayed.at_ms and delayed.at_ms > ours(client).now() + 5_000_000
    (broker,) = {entry.consumer for entry in entries(client, "pending")}
    assert client.zscore("dramatiq:__heartbeats__", broker or "")
    for state in ("waiting", "pending", "delayed", "dead"):
        found = ours(client).get(ids(client, state)[-1])
        assert found and found.state == state
    assert ours(client).get("nothing") is None


def test_a_delayed_message_that_a_worker_holds_is_delayed(client: Client, program: Program) -> None:
    program.fine.send_with_options(args=("a",), delay=60_000)
    with program.worker():
        eventually(lambda: not client.llen("dramatiq:low.DQ"))
        (entry,) = entries(client, "delayed")
        assert (entry.called, entry.consumer) == ("held by a worker", program.broker.broker_id)
        for verb in ("requeue", "purge"):
            change = changed(ours(client), verb, "delayed")
            assert change.outcome.skipped == {"busy": 1}
        later = int(time.time() * 1000) + 10**6
        assert changed(ours(client), "reschedule", "delayed", at_ms=later).outcome.skipped == {
            "busy": 1
        }


def test_brokers_are_shown_by_their_heartbeats(redisq: Redisq, client: Client) -> None:
    program = Program(client)
    program.fine.send("a")
    lost(client, 1)
    Program(client).broker.enqueue(program.fine.message("b"))
    rows = {row["state"]: row for row in redisq.processes(NAME)}
    assert rows["silent"]["queues"] == ["low"] and rows["silent"]["silent_ms"] >= 120_000
    assert rows["alive"]["queues"] == [] and rows["alive"]["busy"] is None
    assert "only send messages" in redisq.err


def test_queues_are_found_in_any_namespace(redisq: Redisq, client: Client) -> None:
    specimen(client)
    client.hset("guest.msgs", "a", "b")
    client.hset("dramatiq:", "a", "b")
    client.zadd("team:__heartbeats__", {"not-a-broker": 5})
    client.hset("team:mail.msgs", "a", "b")
    Program(client, namespace="{app}:jobs").fine.send(1)
    found = {row["name"] for row in redisq.rows("discover")}
    assert {"dramatiq:low", "dramatiq:other"} < found and len(found) == 3
    redisq("discover", "--register", "--yes")
    (other,) = found - {"dramatiq:low", "dramatiq:other"}
    assert {row["name"]: row["waiting"] for row in redisq.rows("ls")}[other] == 1
    assert redisq.rows("dlq", "groups", NAME)[0]["error"]["type"] == "ValueError"


# --- what is written ----------------------------------------------------------------


@pytest.mark.parametrize(
    "data",
    [
        b'{"a":1}',
        b"[]",
        b"\x80\x04",
        b'{"options":{"eta":5}}',
        b'{"options":{}}',
        b"null",
        b'{"args":[{"eta":17}],"options":{"eta":"17"}}',
        pickle.dumps({"options": {"eta": 4}}),
        b'{"options":{"retries":1.5,"eta":true}}',
        b"[" * 100_000,
    ],
)
def test_any_bytes_are_read(data: bytes) -> None:
    message = Message.read(data)
    message.shown(), message.error(), message.sent_ms
    assert message.for_now() is None
    assert message.for_replay() in (data, b'{"options":{"eta":true}}')


def test_only_the_time_of_a_message_is_rescheduled(client: Client, program: Program) -> None:
    """Arguments may look like it, and numbers must stay as they are."""
    odd = {"eta": 123, "text": '"eta":5', "big": 2**70, "list": [], "x": 0.1, "é": "\u2028"}
    sent = program.fine.send_with_options(args=("a",), kwargs=odd, delay=9_000_000)
    (id,) = ids(client, "delayed")
    changed(ours(client), "reschedule", "delayed", id, at_ms=sent.options["eta"] + 1000)
    (moved,) = entries(client, "delayed")
    assert moved.at_ms == sent.options["eta"] + 1000
    message = dramatiq.Message.decode(content(client, b"dramatiq:low.DQ.msgs")[id.encode()])
    assert (message.args, message.kwargs) == (("a",), odd)
    assert message.options == sent.options | {"eta": sent.options["eta"] + 1000}


def test_another_encoders_message_moves_as_it_is(client: Client, program: Program) -> None:
    old = dramatiq.get_encoder()
    dramatiq.set_encoder(dramatiq.PickleEncoder())
    try:
        program.fails_at_once.send("a")
        program.fine.send_with_options(args=("b",), delay=9_000_000)
        client.set("broken", 1)
        with program.worker():
            eventually(lambda: client.zcard("dramatiq:low.XQ"))
        client.delete("broken")
        (dead,) = entries(client, "dead")
        assert (dead.payload or b"")[:1] == b"\x80"
        assert changed(ours(client), "replay", "dead").outcome.done == 1
        late = int(time.time() * 1000) + 10**7
        assert changed(ours(client), "requeue", "delayed").outcome.skipped == {"invalid": 1}
        change = changed(ours(client), "reschedule", "delayed", at_ms=late)
        assert change.outcome.skipped == {"invalid": 1}
        with program.worker():
            eventually(lambda: ran(client)["a"] == 2)
    finally:
        dramatiq.set_encoder(old)


# --- beside workers -----------------------------------------------------------------


def test_a_replayed_message_runs_once_and_has_its_retries_again(
    client: Client, program: Program
) -> None:
    client.set("broken", 1)
    for what in "ab":
        program.fails.send(what, order=1)
    program.work()
    assert ran(client) == Counter(a=2, b=2)
    assert changed(ours(client), "replay", "dead").outcome.done == 2
    program.work()
    assert ran(client) == Counter(a=4, b=4) and len(entries(client, "dead")) == 2
    client.delete("broken")
    replay = changed(ours(client), "replay", "dead")
    program.work()
    assert ran(client) == Counter(a=5, b=5) and not entries(client, "dead")
    assert undone(client, replay).outcome.done == 0, "they ran meanwhile"
    assert not client.hlen("dramatiq:low.msgs") and not client.hlen("dramatiq:low.XQ.msgs")


def test_a_canary_is_refused_as_a_message_gets_another_id(
    redisq: Redisq, client: Client, program: Program
) -> None:
    """A replayed message that failed again, and waits for its next attempt, counted as well."""
    client.set("broken", 1)
    program.fails_at_once.send("a")
    program.work()
    assert "another id" in redisq.refusal("replay", NAME, "--canary", "1", "--yes", code=1)
    assert len(entries(client, "dead")) == 1


def test_a_replay_says_that_an_old_message_dies_without_a_run(
    redisq: Redisq, client: Client, program: Program
) -> None:
    client.set("broken", 1)
    program.fails_at_once.send_with_options(args=("a",), max_age=5000)
    program.work()
    sent = json.loads(client.hvals("dramatiq:low.XQ.msgs")[0])["message_timestamp"]
    eventually(lambda: time.time() * 1000 > sent + 5000)
    redisq("replay", NAME, "--yes")
    assert "older than their `max_age`" in redisq.err
    program.work()
    assert ran(client) == Counter(a=1) and len(entries(client, "dead")) == 1


def test_a_requeued_message_runs_now_and_once(client: Client, program: Program) -> None:
    for what in ("a", "b"):
        program.fine.send_with_options(args=(what,), kwargs={"x": []}, delay=9_000_000)
    assert changed(ours(client), "requeue", "delayed", ids(client, "delayed")[0]).outcome.done == 1
    with program.worker():
        eventually(lambda: ran(client)["a"])
        eventually(lambda: not client.hlen("dramatiq:low.msgs"))
        # While the worker fetches it, a look may see it in both places.
        eventually(lambda: [e.called for e in entries(client, "delayed")] == ["held by a worker"])
    assert ran(client) == Counter(a=1)


def test_a_purged_message_does_not_run_until_its_undo(client: Client, program: Program) -> None:
    for what in "abc":
        program.fine.send(what)
    purge = changed(ours(client), "purge", "waiting", *ids(client, "waiting")[:2])
    program.work()
    assert ran(client) == Counter(c=1)
    assert undone(client, purge).outcome.done == 2
    program.work()
    assert ran(client) == Counter(a=1, b=1, c=1)


def test_a_message_of_a_live_worker_is_left_alone(client: Client, program: Program) -> None:
    program.lasts.send()
    with started(client) as worker:
        try:
            eventually(lambda: client.exists("started"))
            before = keys(client)
            assert changed(ours(client), "requeue", "pending").outcome.skipped == {"busy": 1}
            assert keys(client) == before
        finally:
            worker.kill()


def test_what_a_killed_worker_had_is_requeued_once_by_one(client: Client, program: Program) -> None:
    """By an operator; Dramatiq's own maintenance then finds nothing to do."""
    for n in range(6):
        program.fine.send(f"m{n}")
    lost(client, 6)
    assert (
        changed(ours(client), "requeue", "pending", *ids(client, "pending")[:4]).outcome.done == 4
    )
    eager = Program(client, maintenance_chance=1_000_000, heartbeat_timeout=1500)
    with eager.worker():
        eventually(lambda: len(ran(client)) == 6)
        eventually(lambda: not client.hlen("dramatiq:low.msgs"))
    assert ran(client) == Counter({f"m{n}": 1 for n in range(6)})


@pytest.mark.slow
def test_messages_survive_operators_and_killed_workers(client: Client) -> None:
    """Workers are killed while operators purge and bring back, replay and undo: every message
    runs. What a killed worker had runs again, as without operators; nothing else runs twice."""
    program = Program(client, maintenance_chance=1_000_000, heartbeat_timeout=800)
    client.set("broken", 1)
    for n in range(40):
        program.fails_at_once.send(f"f{n}")
    with program.worker():
        eventually(lambda: client.zcard("dramatiq:low.XQ") == 40)
    client.delete("broken", "ran")
    kills = 3
    for turn in range(kills):
        for n in range(60):
            program.fine.send(f"m{turn}-{n}")
        with started(client) as worker:
            try:
                purge = changed(ours(client), "purge", "waiting")
                replay = changed(ours(client), "replay", "dead", *ids(client, "dead")[:20])
                eventually(lambda: ran(client))
                for change in (purge, replay):
                    if change.outcome.done:  # the worker may have been faster
                        undone(client, change)
            finally:
                worker.kill()
    changed(ours(client), "replay", "dead")
    wanted = {f"f{n}" for n in range(40)} | {f"m{t}-{n}" for t in range(kills) for n in range(60)}
    with program.worker():
        eventually(lambda: ran(client).keys() == wanted)
        eventually(lambda: not client.hlen("dramatiq:low.msgs"))
    held_at_most = kills * 2 * 8  # by a killed worker: two for each of its threads
    assert sum(n - 1 for n in ran(client).values()) <= held_at_most
    assert not entries(client, "dead")

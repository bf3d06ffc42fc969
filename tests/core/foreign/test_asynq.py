"""What only asynq's queues have: messages of Protocol Buffers, leases, groups, locks, servers.

They don't run asynq: `asynq_program` writes what asynq's sources write.
"""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
import redis

from redisq_ops.core.foreign.asynq import AsynqQueue
from redisq_ops.core.foreign.asynq.protobuf import MOST, Message
from redisq_ops.core.foreign.job_hashes import JobHash
from redisq_ops.core.model.entry import Entry
from redisq_ops.core.model.errors import WrongKind

from ...command_line import Redisq
from ...foreign_keys.asynq_program import Program, encoded, message, specimen

AT = "asynq:{low}:"


@pytest.fixture
def program(client: redis.Redis) -> Program:
    return Program(client)


@pytest.fixture
def queue(client: redis.Redis) -> AsynqQueue[Any]:
    return AsynqQueue(client, "asynq:low")


def entry(queue: AsynqQueue[Any], id: str) -> Entry:
    found: Entry | None = queue.get(id)
    assert found is not None
    return found


def shown(queue: AsynqQueue[Any], id: str) -> Any:
    return json.loads(entry(queue, id).payload or b"")


# --- messages -----------------------------------------------------------------------


def test_the_writer_of_these_tests_writes_what_go_would() -> None:
    """Type 1, payload 2, id 3, queue 4, retry 5, timeout 8, unique_key 10, headers 15."""
    made = message("t1", "mail", b"{}", retry=25, timeout=1800, unique="u", headers={"a": "b"})
    assert made.hex(" ") == (
        "0a 04 6d 61 69 6c 12 02 7b 7d 1a 02 74 31 22 03 6c 6f 77 28 19 40 88 0e 52 01 75"
        " 7a 06 0a 01 61 12 01 62"
    )


def test_fields_that_are_unknown_are_skipped() -> None:
    newer = encoded((90, 7), (91, b"later"))
    fixed = b"\x09" + b"\x00" * 8 + b"\x15" + b"\x01" * 4  # fields 1 and 2, of other wire types
    read = Message(message("t1", "mail", b"{}", failed_at=2**33) + newer + fixed)
    assert (read.text(1), read.data(2), read.number(11), read.number(90)) == (
        "mail",
        b"{}",
        2**33,
        7,
    )
    assert Message(encoded((6, -1), (1, b"a"), (1, b"b"))).number(6, 32) == -1
    assert Message(encoded((1, b"a"), (1, b"b"))).text(1) == "b"


@pytest.mark.parametrize(
    "data",
    [
        b"\x0a\x05mail",  # cut
        b"\x08",
        b"\x80" * 11,
        b"\x08" + b"\xff" * 10,  # numbers that don't end
        b"\x0b\x0c",
        b"\x0f",  # groups, and no wire type
        b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\x7fx",
        b"\x09\x01",
        b"\x08\x01" * (MOST + 1),
    ],
)
def test_what_is_no_message_is_a_problem_of_its_entry(
    client: redis.Redis, queue: AsynqQueue[Any], data: bytes, program: Program, redisq: Redisq
) -> None:
    program.send("w1")
    program.send("w2")
    client.hset(f"{AT}t:w1", "msg", data)
    assert "its task's message: " in (entry(queue, "w1").problem or "")
    assert entry(queue, "w2").task == "email:welcome"
    redisq("purge", "asynq:low", "--state", "waiting", "--yes", code=3)
    assert client.lrange(AT + "pending", 0, -1) == [b"w1"], "what can't be read stays"


def test_a_task_is_shown_with_its_data_options_and_headers(
    queue: AsynqQueue[Any], program: Program
) -> None:
    program.send(
        "w1",
        "order:charge",
        {"order": 7},
        retry=3,
        timeout=60,
        headers={"trace": "x"},
        retention=90,
    )
    assert shown(queue, "w1") == {
        "type": "order:charge",
        "data": {"order": 7},
        "retry": 3,
        "timeout": 60,
        "retention": 90,
        "headers": {"trace": "x"},
    }
    raw = message("w1", "binary", b"\xff\x00gob")
    program.client.hset(f"{AT}t:w1", "msg", raw)
    assert shown(queue, "w1")["data"] == "\\xff\x00gob"


def test_a_change_keeps_fields_that_redisq_does_not_know(
    client: redis.Redis, queue: AsynqQueue[Any], program: Program, redisq: Redisq
) -> None:
    program.send("bad")
    program.archives(program.dequeue(), "no luck")
    newer: Any = client.hget(f"{AT}t:bad", "msg")
    newer += encoded((99, b"of a later release"), (98, 5))
    client.hset(f"{AT}t:bad", "msg", newer)
    redisq("dlq", "replay", "asynq:low", "--yes")
    assert client.hgetall(f"{AT}t:bad") == {b"msg": newer, b"state": b"pending"}


# --- times --------------------------------------------------------------------------


def test_since_when_a_task_waits_is_read_from_nanoseconds(
    client: redis.Redis, queue: AsynqQueue[Any], program: Program
) -> None:
    program.send("w1")
    client.hset(f"{AT}t:w1", "pending_since", "1700000000123456789")
    assert entry(queue, "w1").since_ms == 1_700_000_000_123 == queue.counts().oldest_ms
    client.hdel(f"{AT}t:w1", "pending_since")
    assert entry(queue, "w1").since_ms is queue.counts().oldest_ms is None


@pytest.mark.parametrize(
    ("text", "number"),
    [
        (b"1700000000123456789", 1_700_000_000_123_456_789),
        (b"9223372036854775807", 2**63 - 1),
        (b"9223372036854775808", None),
        (b"1" * 20, None),
        (b"-1", None),
        (b"", None),
        (b"1e3", None),
    ],
)
def test_a_number_of_a_job_has_up_to_63_bits(text: bytes, number: int | None) -> None:
    assert JobHash({"at": text}).number("at") == number


def test_times_and_failures_of_each_state(queue: AsynqQueue[Any], program: Program) -> None:
    now = int(time.time())
    for id in ("again", "dead", "gone", "put-off", "good"):
        program.send(id, retention=100)
        program.dequeue()
    program.retries("again", "no luck", now + 60, now - 5)
    program.archives("dead", "no luck", now - 4)
    program.archives("gone", "asynq: task lease expired", now - 3)
    program.retries("put-off", "no luck", now + 60, now - 9)
    program.completes("good", now - 2, b'{"sent":1}')
    # `ArchiveTask`: no failure of the task's, and its score is the time of the call.
    program.client.zrem(AT + "retry", "put-off")
    program.client.zadd(AT + "archived", {"put-off": now - 1})
    program.client.hset(f"{AT}t:put-off", "state", "archived")
    found = {id: entry(queue, id) for id in ("again", "dead", "gone", "put-off", "good")}
    assert {
        id: (e.state, e.at_ms, e.since_ms, e.failures, e.lost, e.reason) for id, e in found.items()
    } == {
        "again": ("delayed", (now + 60) * 1000, (now - 5) * 1000, 1, 0, None),
        "dead": ("dead", (now - 4) * 1000, (now - 4) * 1000, 1, 0, "failed"),
        "gone": ("dead", (now - 3) * 1000, (now - 3) * 1000, 0, 1, "lost"),
        "put-off": ("dead", (now - 1) * 1000, (now - 1) * 1000, 1, 0, "rejected"),
        "good": ("done", None, (now - 2) * 1000, 0, 0, None),
    }
    assert found["again"].error and found["again"].error.message == "no luck"
    (result,) = queue.attachments(found["good"])
    assert (result.name, result.content) == ("result", b'{"sent":1}')


def test_an_active_task_has_its_lease_as_deadline(
    client: redis.Redis, queue: AsynqQueue[Any], program: Program
) -> None:
    program.send("run")
    program.dequeue()
    end: Any = client.zscore(AT + "lease", "run")
    assert entry(queue, "run").at_ms == end * 1000
    client.zrem(AT + "lease", "run")
    assert entry(queue, "run").at_ms is None


# --- groups -------------------------------------------------------------------------


def test_tasks_of_groups_are_counted_and_leave_an_empty_group(
    client: redis.Redis, queue: AsynqQueue[Any], program: Program, redisq: Redisq
) -> None:
    for n in range(3):
        program.send(f"a{n}", "mail:digest", group="ann")
        program.send(f"e{n}", "mail:digest", group="eve")
    program.aggregates("eve", "5f1d")
    assert (queue.counts().delayed, queue.counts().pending) == (3, 3)
    assert (entry(queue, "a1").called, shown(queue, "a1")["group"]) == ("aggregating", "ann")
    deadline: Any = client.zscore(AT + "aggregation_sets", AT + "g:eve:5f1d")
    assert entry(queue, "e1").at_ms == deadline * 1000
    redisq("requeue", "asynq:low", "--state", "delayed", "--yes")
    assert not client.exists(AT + "groups", AT + "g:ann")
    # A worker takes one of them: undo puts back the others, and their group.
    assert program.dequeue() == "a0"
    redisq("undo", "--yes", code=3)
    assert client.zrange(AT + "g:ann", 0, -1) == [b"a1", b"a2"]
    assert client.smembers(AT + "groups") == {b"ann"}


def test_a_group_that_cannot_be_read_makes_the_number_unknown(
    client: redis.Redis, queue: AsynqQueue[Any], program: Program
) -> None:
    program.send("s1", at=time.time() + 900)
    client.set(AT + "groups", "x")
    counts = queue.full_counts()
    assert counts.of("delayed") is None and AT + "groups" in (counts.problem or "")
    assert counts.of("waiting") == 0


# --- locks of unique tasks ----------------------------------------------------------


def test_a_lock_goes_and_comes_back_with_its_task(
    client: redis.Redis, program: Program, redisq: Redisq
) -> None:
    program.send("w1", unique_s=9000)
    (lock,) = client.scan_iter(AT + "unique:*")
    end = client.pexpiretime(lock)
    redisq("purge", "asynq:low", "--state", "waiting", "--yes")
    assert not client.exists(lock)
    redisq("undo", "--yes")
    assert (client.get(lock), client.pexpiretime(lock)) == (b"w1", end)


def test_a_lock_that_expired_meanwhile_does_not_keep_its_task_away(
    client: redis.Redis, queue: AsynqQueue[Any], program: Program, redisq: Redisq
) -> None:
    program.send("w1", unique_s=9000)
    (lock,) = client.scan_iter(AT + "unique:*")
    client.pexpire(lock, 700)
    redisq("purge", "asynq:low", "--state", "waiting", "--yes")
    time.sleep(0.8)
    redisq("undo", "--yes")
    assert entry(queue, "w1").state == "waiting" and not client.exists(lock)


def test_a_task_stays_in_the_trash_while_another_has_its_lock(
    client: redis.Redis, queue: AsynqQueue[Any], program: Program, redisq: Redisq
) -> None:
    program.send("w1", unique_s=9000)
    redisq("purge", "asynq:low", "--state", "waiting", "--yes")
    program.send("w2", unique_s=9000)
    redisq("undo", "--yes", code=1)
    assert client.lrange(AT + "pending", 0, -1) == [b"w2"]
    assert [each.id for each in queue.page("trash").entries] == ["w1"]
    (lock,) = client.scan_iter(AT + "unique:*")
    assert client.get(lock) == b"w2"
    program.delete("w2")
    redisq("trash", "restore", "asynq:low", "--yes")
    assert client.get(lock) == b"w1"


def test_a_lock_elsewhere_is_left_alone(
    client: redis.Redis, program: Program, redisq: Redisq
) -> None:
    program.send("w1", unique_s=9000)
    client.hset(f"{AT}t:w1", "unique_key", "session:ann")
    client.set("session:ann", "w1")
    redisq("purge", "asynq:low", "--state", "waiting", "--yes")
    assert client.get("session:ann") == b"w1"


# --- what is refused ----------------------------------------------------------------


def test_an_id_that_came_again_is_another_task(
    client: redis.Redis, program: Program, redisq: Redisq
) -> None:
    program.send("t1", at=time.time() + 900)
    redisq("requeue", "asynq:low", "--state", "delayed", "--yes")
    program.delete("t1")
    program.send("t1")
    before = client.hgetall(f"{AT}t:t1")
    redisq("undo", "--yes", code=1)
    assert client.lrange(AT + "pending", 0, -1) == [b"t1"]
    assert client.hgetall(f"{AT}t:t1") == before and not client.exists(AT + "scheduled")


def test_a_task_that_says_it_is_elsewhere_is_left_alone(
    client: redis.Redis, program: Program, redisq: Redisq
) -> None:
    program.send("bad")
    program.archives(program.dequeue(), "no luck")
    client.hset(f"{AT}t:bad", "state", "active")
    assert "1 invalid" in redisq("dlq", "replay", "asynq:low", "--yes", code=1)
    assert client.zcard(AT + "archived") == 1 and not client.exists(AT + "pending")


@pytest.mark.parametrize("state", ["pending", "delayed"])
def test_what_runs_is_not_taken_from_its_worker(
    client: redis.Redis, program: Program, redisq: Redisq, state: str
) -> None:
    program.send("run")
    program.dequeue()
    if state == "pending":
        redisq.refusal("requeue", "asynq:low", "--state", "pending", code=1)
        redisq.refusal("purge", "asynq:low", "--state", "pending", code=1)
    else:
        redisq.refusal("reschedule", "asynq:low", "--to", "+1h", code=2)
    assert client.lrange(AT + "active", 0, -1) == [b"run"]


@pytest.mark.parametrize(
    ("source", "target", "word"),
    [
        ("pending", "waiting", "busy"),
        ("pending", "trash", "whole"),
        ("delayed", "delayed", "invalid"),
        ("waiting", "pending", "invalid"),
    ],
)
def test_the_library_refuses_what_asynq_has_no_call_for(
    client: redis.Redis,
    queue: AsynqQueue[Any],
    program: Program,
    source: Any,
    target: str,
    word: str,
) -> None:
    program.send("pending")
    program.dequeue()
    program.send("waiting")
    program.send("delayed", at=time.time() + 900)
    before = {key: client.dump(key) for key in client.scan_iter(AT + "[!r]*")}
    said = queue.move(
        "op",
        1,
        [source],
        source=source,
        target=target,
        lease_ms=2**41,
        high_water_ms=2**50,
        consumer="ann",
    )
    assert said == [word]
    assert {key: client.dump(key) for key in before} == before


def test_an_active_id_without_a_task_is_purged_once_its_lease_is_over(
    client: redis.Redis, queue: AsynqQueue[Any], program: Program, redisq: Redisq
) -> None:
    program.send("run")
    program.dequeue()
    client.delete(f"{AT}t:run")
    line = ("purge", "asynq:low", "--state", "pending", "--where", "reason=gone", "--yes")
    assert "1 busy" in redisq(*line, code=1)
    assert client.llen(AT + "active") == 1
    client.zadd(AT + "lease", {"run": int(time.time()) - 1})
    redisq(*line)
    assert client.llen(AT + "active") == 0


def test_a_result_without_its_task_is_named(
    client: redis.Redis, queue: AsynqQueue[Any], program: Program
) -> None:
    """`ResultWriter` writes it even if somebody deleted the task."""
    program.send("run")
    program.dequeue()
    client.delete(f"{AT}t:run")
    client.hset(f"{AT}t:run", "result", "x")
    assert entry(queue, "run").problem == "its task has lost its message"


# --- queues and servers -------------------------------------------------------------


def test_an_empty_queue_exists_while_asynq_lists_it(
    client: redis.Redis, queue: AsynqQueue[Any], redisq: Redisq
) -> None:
    assert not queue.exists()
    client.sadd("asynq:queues", "low", "a}b")
    assert queue.exists() and queue.counts().waiting == 0
    assert [row["name"] for row in redisq.rows("discover")] == ["asynq:a%7Db", "asynq:low"]


def test_keys_of_queues_that_are_not_listed_or_not_known_are_named(
    client: redis.Redis, redisq: Redisq, program: Program
) -> None:
    program.send("w1")
    client.zadd("asynq:{lost}:scheduled", {"t": 1})
    client.zadd(AT + "paused_tasks", {"t": 1})
    assert [row["name"] for row in redisq.rows("discover")] == ["asynq:low"]
    assert "1 key of asynq's queues that its set asynq:queues doesn't have" in redisq.err
    assert "1 key of asynq's queues, in a state that this release" in redisq.err
    (row,) = redisq.rows("fsck", "asynq:low", code=1)
    assert AT + "paused_tasks is of a state" in row["faults"][0]


def test_a_pause_in_asynq_is_shown(queue: AsynqQueue[Any], program: Program) -> None:
    program.send("w1")
    assert queue.counts().paused is None
    program.pause()
    assert queue.counts().paused == "paused in asynq"


def test_servers_and_what_they_run(
    client: redis.Redis, queue: AsynqQueue[Any], program: Program
) -> None:
    for n in range(2):
        program.send(f"run{n}")
        program.dequeue()
    program.beats("box:17:ab", ("low", "other"), work=("run0", "run1"))
    program.beats("box:18:cd", status="stopped")
    program.beats("old:19:ef", expires_s=-60)
    client.zadd("asynq:servers", {"asynq:servers:{odd:1:gh}": int(time.time()) + 9})
    client.set("asynq:servers:{odd:1:gh}", b"\x0a\x7fcut")
    busy, stopped, odd, old = queue.worker_processes()
    assert (busy.name, busy.host, busy.pid) == ("box:17:ab", "box", 17)
    assert busy.queues == ("low", "other")
    assert (busy.alive, busy.quiet, stopped.quiet, old.alive) == (True, False, True, False)
    assert [(job.id, job.queue, job.since_ms) for job in busy.work] == [
        ("run0", "low", 1_700_000_000_250),
        ("run1", "low", 1_700_000_000_250),
    ]
    assert busy.since_ms == 1_700_000_000_250
    assert busy.silent_ms is not None and busy.silent_ms < 5000
    assert old.silent_ms is not None and 65_000 < old.silent_ms < 80_000
    assert odd.problem == "it is cut, too long, or none"
    client.delete("asynq:servers")
    client.set("asynq:servers", "x")
    with pytest.raises(WrongKind, match="asynq:servers"):
        queue.worker_processes()


def test_the_command_line_lists_servers_once_for_all_queues(
    client: redis.Redis, redisq: Redisq
) -> None:
    specimen(client)
    redisq("discover", "--register", "--yes")
    rows = redisq.processes()
    assert [(row["name"], row["busy"], row["jobs"]) for row in rows] == [
        ("box:17:ab", 2, ["run0", "run1"])
    ]

"""Laravel's layout and Horizon's: as their sources write them, and as Laravel's packages do (see
`laravel_program`)."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from typing import Any

import pytest
import redis

from redisq_ops.core.foreign.laravel import LaravelQueue
from redisq_ops.core.foreign.laravel.job import error_of
from redisq_ops.core.foreign.laravel.recogniser import horizons_of
from redisq_ops.core.model.clock import FakeClock
from redisq_ops.core.model.entry import State
from redisq_ops.core.redis.operation import run
from redisq_ops.testing.conformance import conform

from ...changes import changed, undone
from ...command_line import Redisq
from ...foreign_keys.laravel_program import HOUR, Framework, Program, job, specimen, uuid
from .specimens import LARAVEL, framework_jobs

Client = redis.Redis
LIST, HORIZON = "laravel_database_queues:low", "laravel_horizon:"


def ours(client: Client, **more: Any) -> LaravelQueue[Client]:
    return LaravelQueue(client, "laravel:low", **more)


def ids(client: Client, state: State) -> list[str]:
    return [entry.id for entry in ours(client).page(state).entries]


def keys(client: Client) -> dict[bytes, Any]:
    """What their keys hold."""
    reads: dict[Any, Any] = {
        b"list": lambda key: client.lrange(key, 0, -1),
        b"hash": client.hgetall,
        b"zset": lambda key: client.zrange(key, 0, -1, withscores=True),
    }
    found = [key for key in client.scan_iter("laravel_*") if b"redisq:" not in key]
    return {key: reads[client.type(key)](key) for key in found}


def failed(client: Client, name: str = "bad") -> str:
    """A job that failed; its id."""
    program = Program(client)
    program.push(program.payload(name, "Charge"))
    program.fail(program.pop())
    time.sleep(0.002)  # a change leaves out what fails in its own millisecond
    return uuid(name)


# --- what is seen -------------------------------------------------------------------


def test_every_state_is_seen(client: Client) -> None:
    specimen(client)
    counts = ours(client).counts()
    assert (counts.waiting, counts.pending, counts.delayed, counts.dead) == (6, 6, 6, 5)
    assert counts.of("done") == 4
    done = ours(client).get(uuid("good1"))
    assert done and (done.state, done.called, done.reason) == ("done", "completed", None)
    assert done.since_ms and done.run_ms is not None and done.failures == 0
    dead = ours(client).get(uuid("bad2"))
    assert dead and dead.error and (dead.state, dead.task) == ("dead", "App\\Jobs\\Charge")
    assert (dead.error.type, dead.error.message, dead.failures) == (
        "App\\Exceptions\\Declined",
        "no card for order 2",
        1,
    )
    at = float(client.hget(HORIZON + dead.id, "failed_at") or 0) * 1000
    assert dead.at_ms == dead.since_ms == pytest.approx(at, abs=1)
    waiting, reserved = (ours(client).page(state).entries for state in ("waiting", "pending"))
    assert waiting[0].since_ms and 0 <= ours(client).now() - waiting[0].since_ms < 60_000
    assert json.loads(waiting[0].payload or b"")["data"]["command"].startswith('O:13:"App\\Jobs\\')
    assert [entry.failures for entry in (*waiting[:1], *reserved[:1])] == [0, 0]
    deadline = client.zscore(f"{LIST}:reserved", reserved[-1].payload or b"")
    assert deadline and reserved[-1].at_ms == deadline * 1000


def test_without_horizon_the_number_of_failed_jobs_is_unknown(client: Client) -> None:
    program = Program(client, horizon="")
    program.push(program.payload("w"))
    assert ours(client).counts().of("dead") is None
    assert not ours(client).page("dead").exact
    client.zadd(HORIZON + "masters", {"box": time.time()})
    assert ours(client).counts().of("dead") == 0, "now there is a Horizon, without failed jobs"


def test_a_horizon_belongs_to_the_queues_of_its_application() -> None:
    assert horizons_of("my_app_database_")[0] == "my_app_horizon:"
    assert horizons_of("my-app-database-")[:2] == ["my_app_horizon:", "my-app-horizon:"]
    assert horizons_of("shop:") == ["shop:horizon:"]


def test_queues_without_keys_are_found_by_their_failed_jobs(client: Client, redisq: Redisq) -> None:
    failed(client)
    (alone,) = redisq.rows("discover")
    assert alone["name"].startswith("laravel~") and alone["dead"] == 1
    assert alone["waiting"] is None
    other = Program(client, "other")
    other.push(other.payload("w"))
    found = {row["name"]: row["dead"] for row in redisq.rows("discover")}
    assert found == {"laravel:low": 1, "laravel:other": 0}


def test_failed_jobs_of_a_horizon_alone_are_purged_and_not_replayed(
    client: Client, redisq: Redisq
) -> None:
    id = failed(client)
    (row,) = redisq.rows("discover")
    redisq("discover", "--register", "--yes")
    before, name = keys(client), row["name"]
    redisq("dlq", "replay", name, "--yes", code=None)
    assert keys(client) == before, "nothing says what its queues' keys begin with"
    redisq("dlq", "purge", name, "--yes")
    assert not client.exists(HORIZON + id)
    redisq("undo", "--yes")
    assert keys(client) == before


def test_exceptions_of_php_are_read() -> None:
    chain = (
        "A: x in /a.php:1\nStack trace:\n#0 {main}\n\nNext B\\C: y: z in /b c.php:2\nStack trace:"
    )
    error = error_of(chain)
    assert error and (error.type, error.message) == ("B\\C", "y: z")
    error = error_of("Exception in /a.php:3\nStack trace:\n#0")
    assert error and (error.type, error.message) == ("Exception", "")
    assert error_of("odd") and not error_of("")


# --- what is changed ----------------------------------------------------------------


def test_a_replay_writes_what_horizon_writes(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = int(time.time()) + 0.25
    monkeypatch.setattr(time, "time", lambda: now)
    id = failed(client)
    payload = json.loads(client.hget(HORIZON + id, "payload") or b"")
    client.hset(HORIZON + id, "payload", json.dumps(payload | {"retryUntil": int(now) + 90}))
    before = client.dump(HORIZON + id)
    Program(client).retry(id)
    theirs = keys(client)
    new: Any = client.zrange(HORIZON + "pending_jobs", 0, -1)[0]
    client.delete(LIST, f"{LIST}:notify", HORIZON + new.decode())
    client.zrem(HORIZON + "recent_jobs", new)
    client.zrem(HORIZON + "pending_jobs", new)
    client.restore(HORIZON + id, 0, before or b"", replace=True)
    queue = ours(client, clock=FakeClock(int(now * 1000)))
    assert changed(queue, "replay", "dead").outcome.done == 1
    assert keys(client) == theirs
    assert HOUR - 60 < client.ttl(HORIZON + new.decode()) <= HOUR


def test_a_retried_job_is_dead_again_when_it_fails_again(client: Client) -> None:
    id = failed(client)
    program = Program(client)
    change = changed(ours(client), "replay", "dead")
    assert ids(client, "dead") == [] and client.zscore(HORIZON + "failed_jobs", id)
    (new,) = ids(client, "waiting")
    reserved = program.pop()
    assert undone(client, change).outcome.done == 0, "a worker has it"
    program.fail(reserved)
    assert ids(client, "dead") == [new] != [id]
    # `queue:retry` of the framework runs the first one again, under its id.
    client.hset(HORIZON + id, "failed_at", f"{time.time() + 60:.4f}")
    assert sorted(ids(client, "dead")) == sorted([id, new])


def test_a_job_that_failed_by_a_clock_ahead_of_the_server_s_is_retried_once(client: Client) -> None:
    id = failed(client)
    client.hset(HORIZON + id, "failed_at", f"{time.time() + 30:.4f}")
    assert changed(ours(client), "replay", "dead").outcome.done == 1
    assert ids(client, "dead") == [] and len(ids(client, "waiting")) == 1


def test_the_end_of_a_retry_is_followed(client: Client) -> None:
    some = [failed(client, name) for name in ("good", "bad")]
    changed(ours(client), "replay", "dead")
    tracker, program = ours(client).replay_tracker(), Program(client)

    def looked() -> list[bool]:
        return run(client, tracker.look())

    tracker.add(some, 0)
    assert looked() == [] and tracker.unsettled == 2
    for _ in some:
        reserved = program.pop()
        end = program.complete if json.loads(reserved)["retry_of"] == some[0] else program.fail
        end(reserved)
    assert sorted(looked()) == [False, True] and tracker.unsettled == 0


def test_a_reserved_job_is_released_when_its_time_is_over(client: Client) -> None:
    program = Program(client)
    program.push(program.payload("runs"))
    program.pop()
    change = changed(ours(client), "requeue", "pending")
    assert change.outcome.skipped == {"busy": 1}
    job: Any = client.zrange(f"{LIST}:reserved", 0, -1)[0]
    client.zadd(f"{LIST}:reserved", {job: int(time.time()) - 1})
    before = keys(client)
    change = changed(ours(client), "requeue", "pending")
    assert client.lrange(LIST, 0, -1) == [job] and client.lrange(f"{LIST}:notify", 0, -1) == [b"1"]
    undone(client, change)
    assert keys(client) == before


def test_an_undo_leaves_a_job_that_is_delayed_again(client: Client) -> None:
    program = Program(client)
    program.later(600, program.payload("late"))
    change = changed(ours(client), "requeue", "delayed")
    job: Any = client.lindex(LIST, 0)
    client.zadd(f"{LIST}:delayed", {job: 5})
    assert undone(client, change).outcome.done == 0
    assert client.zscore(f"{LIST}:delayed", job) == 5 and client.llen(LIST) == 1


def test_a_put_off_job_is_due_in_whole_seconds(client: Client) -> None:
    program = Program(client)
    program.later(600, program.payload("late"))
    before = keys(client)
    change = changed(ours(client), "reschedule", "delayed", at_ms=1_900_000_000_001)
    assert client.zrange(f"{LIST}:delayed", 0, -1, withscores=True)[0][1] == 1_900_000_001
    undone(client, change)
    assert keys(client) == before


def test_what_is_no_job_is_named_and_not_replayed(client: Client) -> None:
    id = failed(client)
    client.rpush(LIST, "[1]")
    client.hset(HORIZON + id, "payload", "gone")
    (waiting,) = ours(client).page("waiting").entries
    assert waiting.problem == "not a job of Laravel's" and ours(client).get(waiting.id)
    assert changed(ours(client), "replay", "dead").outcome.skipped == {"invalid": 1}


# --- beside the framework itself ------------------------------------------------------


def decoded(client: Client) -> dict[bytes, Any]:
    """What its keys hold: jobs without the delay that later releases note, whole seconds."""

    def read(element: Any) -> Any:
        member, *score = [element] if isinstance(element, bytes) else element
        found = json.loads(member)
        if isinstance(found, dict):
            found.pop("delay", None)
        return found, *(pytest.approx(at, abs=2) for at in score)

    return {key: [read(each) for each in held] for key, held in keys(client).items()}


def test_the_framework_s_jobs_conform(client: Client) -> None:
    assert [*conform(client, replace(LARAVEL, fill=framework_jobs))] == []


def test_our_writer_writes_what_the_framework_writes(client: Client) -> None:
    """The same calls, from the same jobs: as pushed, delayed, taken and put back."""
    jobs = (("push", *job("a")), ("push", *job("b", "Export")), ("later", 60, *job("late")))
    framework, writer = Framework(client), Program(client, horizon="")
    framework.does(*jobs)
    payloads: list[Any] = [*client.lrange(LIST, 0, -1), *client.zrange(f"{LIST}:delayed", 0, -1)]
    framework.does(("pop",), ("pop",))
    taken = decoded(client)
    framework.migrate("reserved", uuid("b"))
    framework.migrate("delayed", uuid("late"))
    put_back = decoded(client)
    client.flushdb()
    writer.push(payloads[0].decode())
    writer.push(payloads[1].decode())
    writer.later(60, payloads[2].decode())
    writer.pop(), writer.pop()
    assert decoded(client) == taken
    writer.migrate("reserved", uuid("b"))
    writer.migrate("delayed", uuid("late"))
    assert decoded(client) == put_back
    made = json.loads(writer.payload("a", "Fine"))
    assert json.loads(payloads[0]).keys() == made.keys() - {"createdAt"}, "of later releases"


def test_the_framework_runs_what_redisq_put_back(client: Client) -> None:
    framework = Framework(client)
    framework.does(("push", *job("lost", "Export")), ("pop", 90), ("later", 600, *job("late")))
    assert ids(client, "pending") == [uuid("lost")] and ids(client, "delayed") == [uuid("late")]
    assert changed(ours(client), "requeue", "pending").outcome.done == 1
    assert changed(ours(client), "requeue", "delayed").outcome.done == 1
    assert ids(client, "waiting") == [uuid("lost"), uuid("late")]
    framework.does(("work",))
    (again,) = ours(client).page("delayed").entries
    assert (again.id, again.failures) == (uuid("lost"), 2), "it failed a second time"
    framework.does(("work",))
    assert set(keys(client)) == {f"{LIST}:delayed".encode()}, (
        "the other one ran, and nothing is left"
    )


def test_a_job_that_the_framework_took_meanwhile_is_not_taken_back(client: Client) -> None:
    framework = Framework(client)
    framework.does(("later", 600, *job("late")))
    change = changed(ours(client), "requeue", "delayed")
    framework.does(("pop",))
    before = keys(client)
    assert undone(client, change).outcome.done == 0 and keys(client) == before
    framework.does(("delete",))
    assert not keys(client)

"""BullMQ's layout beside a real BullMQ, releases 5 and 6 (see `bullmq_program`)."""

from __future__ import annotations

import json
import time
from collections import Counter
from typing import Any

import pytest
import redis

from redisq_ops.core.engine.relation import Linked
from redisq_ops.core.foreign.bullmq import BullmqQueue, relations
from redisq_ops.core.foreign.bullmq.job import FIELDS, Job
from redisq_ops.core.foreign.bullmq.schedules import BullmqSchedulers
from redisq_ops.core.model.entry import Entry, State
from redisq_ops.core.model.errors import Refused
from redisq_ops.core.model.states import Verb
from redisq_ops.core.redis.operation import run
from redisq_ops.core.redis.transport import exchange
from redisq_ops.ops.inspect.flow import flow

from ...atomicity.database import Database
from ...changes import changed, undone
from ...command_line import Redisq
from ...foreign_keys import schedule_programs
from ...foreign_keys.bullmq_program import VERSIONS, Program, add, specimen
from ...foreign_keys.node_program import wait
from .killed_workers import Run

pytestmark = pytest.mark.slow

Client = redis.Redis
NAME = "bullmq:mail"
B = "bull:mail:"


def ours(client: Client) -> BullmqQueue[Client]:
    return BullmqQueue(client, NAME)


def entries(client: Client, state: State) -> dict[str, Entry]:
    return {entry.id: entry for entry in ours(client).page(state, max=1000).entries}


def ran(client: Client) -> Counter[str]:
    found: dict[Any, Any] = client.hgetall("ran")
    return Counter({id.decode(): int(n) for id, n in found.items()})


# --- what is seen -------------------------------------------------------------------


def test_every_state_is_seen_as_bullmq_counts_it(client: Client) -> None:
    specimen(client)
    counts = ours(client).counts()
    (theirs,) = Program(client).call(["getJobCounts"])
    assert counts.waiting == theirs["waiting"] + theirs["prioritized"] == 6
    assert (counts.pending, counts.delayed) == (theirs["active"], theirs["delayed"]) == (4, 5)
    assert (counts.dead, counts.done) == (theirs["failed"], theirs["completed"]) == (4, 3)
    dead = entries(client, "dead")["bad1"]
    assert dead.error and (dead.error.type, dead.error.message) == ("TypeError", "no bad1")
    assert "at handle" in dead.error.traceback and (dead.failures, dead.reason) == (1, "failed")
    assert dead.at_ms == client.zscore(B + "failed", "bad1")
    shown = json.loads(dead.payload or b"")
    assert shown["name"] == "fails" and shown["data"] == {"what": "bad1", "region": "eu"}
    delayed = entries(client, "delayed")["d2"]
    assert delayed.at_ms and delayed.at_ms > ours(client).now() + 5_000_000
    assert list(entries(client, "waiting")) == [f"w{n}" for n in range(6)], "priorities come last"
    for id, state in {"w5": "waiting", "run1": "pending", "d0": "delayed", "bad0": "dead"}.items():
        found = ours(client).get(id)
        assert found and (found.id, found.state) == (id, state)
    now = ours(client).now()
    assert ours(client).due_counts([now, now + 5_000_000, now + 10_000_000]) == [0, 5]


def test_the_lease_of_a_job_is_its_lock(redisq: Redisq, client: Client) -> None:
    specimen(client)
    client.set(B + "run1:lock", "token", px=30_000_000)
    redisq("discover", "--register", "--yes")
    held = {row["id"]: row["deadline_ms"] for row in redisq.rows("pending", "ls", NAME)}
    left = held.pop("run1") - ours(client).now()
    assert 29_000_000 < left <= 30_000_000 and set(held.values()) == {None}
    assert "its lease ends in 8h" in redisq("explain", f"{NAME}/run1")
    assert "its lock is gone" in redisq("explain", f"{NAME}/run2")


def test_the_oldest_is_known_while_the_next_job_was_neither_delayed_nor_tried(
    redisq: Redisq, client: Client
) -> None:
    specimen(client)
    redisq("discover", "--register", "--yes")
    (row,) = redisq.rows("ls")
    added = client.hget(B + "w0", "timestamp")
    assert added and row["oldest_ms"] == int(added)
    client.delete(B + "prioritized")
    for field, value in {"atm": "1", "opts": '{"delay":9}', "timestamp": "x"}.items():
        before = client.hget(B + "w0", field)
        client.hset(B + "w0", field, value)
        assert ours(client).counts().oldest_ms is None
        if before is None:
            client.hdel(B + "w0", field)
        else:
            client.hset(B + "w0", field, before)
    assert ours(client).counts().oldest_ms == int(added)


def test_since_when_a_job_is_where_it_is_is_unknown_once_it_was_delayed_or_tried(
    client: Client,
) -> None:
    specimen(client)
    assert all(entry.since_ms for entry in entries(client, "delayed").values())
    assert changed(ours(client), "requeue", "delayed", "d1").outcome.done == 1
    assert changed(ours(client), "replay", "dead", "bad0").outcome.done == 1
    waiting = entries(client, "waiting")
    assert waiting["d1"].since_ms is waiting["bad0"].since_ms is None
    assert waiting["w1"].since_ms == int(client.hget(B + "w1", "timestamp") or 0)


def test_jobs_that_wait_for_children_are_shown_apart(client: Client) -> None:
    Program(client).flow()
    parent = entries(client, "delayed")["p"]
    assert parent.called == "waiting for children" and parent.at_ms is None
    child = json.loads(entries(client, "waiting")["c"].payload or b"")
    assert child["parent"] == B + "p"
    assert changed(ours(client), "requeue", "delayed").outcome.skipped == {"deferred": 1}


def test_queues_are_found_behind_any_prefix(redisq: Redisq, client: Client) -> None:
    specimen(client)
    client.hset("bull:old:meta", "paused", 1)  # as Bull 3 leaves it
    client.hset("{shop}:orders:meta", mapping={"opts.maxLenEvents": 10000})
    client.hset("user:7:meta", mapping={"version": "3"})
    names = {row["name"] for row in redisq.rows("discover")}
    assert NAME in names and len(names) == 2
    redisq("discover", "--register", "--yes")
    assert {row["name"]: row["dead"] for row in redisq.rows("ls")}[NAME] == 4
    assert redisq.rows("dlq", "groups", NAME)[0]["entries"] == 4


@pytest.mark.parametrize(
    "values",
    [
        {"name": b"\xff", "data": b"[" * 100_000, "opts": b"5"},
        {"stacktrace": b'{"a":1}'},
        {"name": b"x", "atm": b"-1", "timestamp": b"1e400", "stacktrace": b'[null, {"a": []}]'},
        {"failedReason": b"\x00\x1b]52", "stacktrace": b'["\\ud800: x"]', "data": b'"\\ud800"'},
    ],
)
def test_any_bytes_are_read(values: dict[str, bytes]) -> None:
    job = Job({field: values.get(field) for field in FIELDS})
    assert job.shown() and job.number("timestamp") is None
    assert (job.error() is None) is ("stacktrace" not in values or values["stacktrace"][:1] == b"{")


# --- what is written ----------------------------------------------------------------


def dumps(client: Client) -> dict[bytes, Any]:
    """What BullMQ's keys hold, but for its log of events, the counter that orders priorities, and
    the mark that wakes workers: one too many finds nothing."""
    grows = (b":events", b":pc", b":marker")
    found = [key for key in client.scan_iter(B + "*") if not key.endswith(grows)]
    return {
        key: client.hgetall(key) if client.type(key) == b"hash" else client.dump(key)
        for key in found
    }


@pytest.mark.parametrize("version", VERSIONS)
def test_workers_run_what_was_replayed_requeued_and_brought_back_once(
    client: Client, version: str
) -> None:
    program = Program(client, version)
    client.set("broken", 1)
    program.call(*[add("fails", f"f{n}", priority=2 * (n % 2)) for n in range(6)])
    program.work(6)
    assert ran(client) == Counter(f"f{n}" for n in range(6))
    program.call(
        *[add("fine", f"d{n}", delay=9_000_000, priority=n) for n in range(2)],
        *[add("fine", f"w{n}") for n in range(3)],
    )
    client.delete("broken", "ran")
    assert changed(ours(client), "replay", "dead").outcome.done == 6
    assert changed(ours(client), "requeue", "delayed").outcome.done == 2
    purge = changed(ours(client), "purge", "waiting", "w0", "w1", "f0")
    program.call(*[add("fine", "w1")])  # an id that comes again
    assert undone(client, purge).outcome.done == 2
    assert not entries(client, "dead") and not entries(client, "delayed")
    with program.worker():
        wait(lambda: len(ran(client)) == 11)
        wait(lambda: client.zcard(B + "completed") == 11)
    assert set(ran(client).values()) == {1}


def test_a_worker_that_sleeps_wakes_for_what_was_replayed(client: Client) -> None:
    program = Program(client)
    client.set("broken", 1)
    with program.worker():
        program.call(add("fails", "a"))
        wait(lambda: client.zcard(B + "failed"))
        client.delete("broken")
        time.sleep(0.5)
        assert changed(ours(client), "replay", "dead").outcome.done == 1
        wait(lambda: client.zcard(B + "completed"))
    assert ran(client) == Counter(a=2)


def test_a_job_with_a_lock_is_left_alone_and_its_worker_is_seen(client: Client) -> None:
    program = Program(client)
    program.call(add("lasts", "a"))
    with program.worker():
        wait(lambda: client.exists("started"))
        ((theirs,),) = program.call(["getWorkers"])
        (seen,) = ours(client).worker_processes()
        assert (seen.name, seen.queues, seen.alive) == (theirs["addr"], ("mail",), True)
        assert not seen.work_known
        before = dumps(client)
        assert changed(ours(client), "requeue", "pending").outcome.skipped == {"busy": 1}
        lock = (B + "a:lock").encode()
        assert {k for k, v in dumps(client).items() if before.get(k) != v} <= {lock}


def test_the_next_run_of_a_schedule_is_left_alone(client: Client) -> None:
    """The first one waits at once, the second one is delayed: without it the schedule would end."""
    program = Program(client)
    program.call(["upsertJobScheduler", "hourly", {"every": 3_600_000}, {"name": "fine"}])
    assert changed(ours(client), "purge", "waiting").outcome.skipped == {"recurring": 1}
    program.work(1)
    before = dumps(client)
    verbs: tuple[Verb, ...] = ("purge", "reschedule")
    for verb in verbs:
        assert changed(ours(client), verb, "delayed", at_ms=5).outcome.skipped == {"recurring": 1}
    assert dumps(client) == before


def test_the_next_run_of_a_schedule_that_an_older_release_added_is_left_alone(
    client: Client,
) -> None:
    """Its id has a digest in place of the schedule's name."""
    schedule_programs.bullmq_before_5(client, ("fine:::: 0 3 * * *", "tick::::900000"), VERSIONS[1])
    before = dumps(client)
    assert changed(ours(client), "purge", "delayed").outcome.skipped == {"recurring": 2}
    assert dumps(client) == before


def test_the_next_job_of_each_of_many_old_schedules_of_one_time_is_found(client: Client) -> None:
    when = ({"pattern": "0 3 * * *", "key": f"job{n}:::: 0 3 * * *"} for n in range(130))
    Program(client, VERSIONS[1]).call(*(["add", "report", {}, {"repeat": each}] for each in when))
    found = run(client, BullmqSchedulers().read(ours(client)))
    ids = {each.next_id or "" for each in found}
    assert len(ids) == 130 and ids == entries(client, "delayed").keys()


def test_ids_of_eight_colons_lead_to_their_queue(client: Client) -> None:
    """As in `beside.lua`."""
    id = b":".join([b"x"] * (relations.COLONS + 1))
    assert b"bull:mail" in relations._bases(b"bull:mail:" + id)


def test_a_child_is_replayed_with_its_parent_and_never_purged(client: Client) -> None:
    program = Program(client)
    client.set("broken", 1)
    program.flow()
    assert changed(ours(client), "purge", "waiting", "c", "d").outcome.skipped == {"linked": 2}
    client.delete(B + "d")  # so that the parent goes on waiting
    client.lrem(B + "wait", 1, "d")
    program.work(1)
    assert list(entries(client, "dead")) == ["c"]
    assert changed(ours(client), "purge", "dead").outcome.skipped == {"linked": 1}
    before = dumps(client)
    client.delete("broken")
    replay = changed(ours(client), "replay", "dead")
    assert replay.outcome.done == 1
    assert (B + "c").encode() in client.smembers(B + "p:dependencies")
    assert undone(client, replay).outcome.done == 1 and dumps(client) == before
    client.zrem(B + "waiting-children", "p")  # the parent goes on without it
    assert changed(ours(client), "replay", "dead").outcome.skipped == {"linked": 1}


@pytest.mark.parametrize("back", ["undo", "restore"])
def test_a_key_against_duplicates_that_expired_meanwhile_does_not_keep_its_job_away(
    client: Client, back: str
) -> None:
    """A job of BullMQ's throttle mode; another job may have the key by then."""
    program = Program(client)
    once = {"id": "once", "ttl": 10**9}
    program.call(add("fine", "a", deduplication=once), add("fine", "b"))
    key = f"{B}de:once"
    client.pexpire(key, 50)
    purge = changed(ours(client), "purge", "waiting")
    time.sleep(0.1)
    program.call(add("fine", "c", deduplication=once))
    if back == "undo":
        assert undone(client, purge).outcome.done == 2
    else:
        assert changed(ours(client), "restore", "trash").outcome.done == 2
    assert {*entries(client, "waiting")} == {"a", "b", "c"} and client.get(key) == b"c"


def test_a_job_stays_in_the_trash_while_another_has_its_key_or_id(
    client: Client, redisq: Redisq
) -> None:
    program = Program(client)
    once = add("fine", "a", deduplication={"id": "once", "ttl": 10**9})
    program.call(once, add("fine", "b"))
    changed(ours(client), "purge", "waiting")
    program.call([*once[:3], {**once[3], "jobId": "c"}], add("fine", "b"))
    redisq("discover", "--register", "--yes")
    said = redisq("trash", "restore", NAME, "--yes", code=1)
    assert "skipped 2 taken" in said and "such entries have lost their id" in redisq.err
    assert {*entries(client, "trash")} == {"a", "b"} and {*entries(client, "waiting")} == {"b", "c"}
    assert client.get(f"{B}de:once") == b"c"


def as_bullmq_retries(client: Client, program: Program, id: str) -> None:
    """Replay a job; what is written is compared with a twin that `job.retry()` changed."""
    kept = {key: client.dump(key) or b"" for key in client.scan_iter()}
    program.does(id, "retry")
    theirs = dumps(client)
    client.flushdb()
    for key, data in kept.items():
        client.restore(key, 0, data)
    assert changed(ours(client), "replay", "dead", id).outcome.done == 1
    assert dumps(client) == theirs


def drawn(redisq: Redisq, id: str) -> list[tuple[int, str, str, bool]]:
    (row,) = redisq.rows("inspect", f"{NAME}/{id}")
    return [(m["depth"], m["address"], m["state"], m["holds"]) for m in row["flow"]]


@pytest.mark.parametrize("tag", ["", "shop:1:"])
@pytest.mark.parametrize("version", VERSIONS)
def test_a_failed_child_is_replayed_and_then_its_failed_parent(
    client: Client, redisq: Redisq, version: str, tag: str
) -> None:
    """As `child.retry()` and `parent.retry()` of BullMQ do it, also where ids have colons."""
    c, d, p = (tag + id for id in "cdp")
    program = Program(client, version)
    client.set("broken", 1)
    program.flow("failParentOnFailure", tag)
    program.work(3)
    client.delete("broken")
    assert set(entries(client, "dead")) == {c, p}
    assert changed(ours(client), "replay", "done", d).outcome.skipped == {"linked": 1}, (
        "p has what it returned"
    )
    (row,) = redisq.rows("explain", f"{NAME}/{p}")
    assert row["command"] is None and "linked" in row["sentence"]
    assert row["also"][0]["command"].startswith(f"redisq replay {NAME}/{c}")
    assert changed(ours(client), "replay", "dead", p).outcome.skipped == {"linked": 1}
    before = dumps(client)
    replay = changed(ours(client), "replay", "dead", c)
    assert undone(client, replay).outcome.done == 1 and dumps(client) == before
    (at_c, at_d, at_p) = (f"{NAME}/{id}" for id in (c, d, p))
    below = [(1, at_c, "dead", True), (1, at_d, "done", False)]
    assert drawn(redisq, p) == [(0, at_p, "dead", False), *below]
    assert drawn(redisq, c) == [(-1, at_p, "dead", False), (0, at_c, "dead", False)]
    as_bullmq_retries(client, program, c)
    assert changed(ours(client), "replay", "dead", p).outcome.skipped == {"linked": 1}, (
        "c hasn't run yet"
    )
    program.work(1)
    (row,) = redisq.rows("explain", f"{NAME}/{p}")
    assert row["verb"] == "replay"
    as_bullmq_retries(client, program, p)
    program.work(1)
    assert json.loads(client.get("children") or b"").keys() == {B + c, B + d}
    assert ran(client) == Counter({c: 2, d: 1, p: 1})


def test_a_replayed_job_that_is_retried_is_failing_and_one_that_stalled_before_is_not(
    client: Client,
) -> None:
    """A canary and a ramp judge by it. They died with attempts left, as by `UnrecoverableError`."""
    program = Program(client)
    client.set("broken", 1)
    program.call(add("fails", "a"), add("fails", "b"))
    program.work(2)
    for id in "ab":
        client.hset(
            B + id, "opts", json.dumps({"attempts": 9, "backoff": {"type": "fixed", "delay": 9**9}})
        )
    client.hset(B + "b", "stc", 1)
    tracker, now = ours(client).replay_tracker(), ours(client).now()
    changed(ours(client), "replay", "dead", "a")
    program.work(1)
    changed(ours(client), "replay", "dead", "b")
    tracker.add(["b"], now)
    assert run(client, tracker.look()) == [] and (tracker.failing, tracker.unsettled) == (0, 1)
    tracker.add(["a"], now)
    assert run(client, tracker.look()) == [] and (tracker.failing, tracker.unsettled) == (1, 2)


@pytest.mark.parametrize(
    ("limits", "said"),
    [
        ([["setGlobalConcurrency", 4]], "BullMQ's limit of bullmq:mail is reached: 4 entries at"),
        ([["setGlobalConcurrency", 5]], None),
        ([["rateLimit", 60_000]], "that have a rate limit take nothing for "),
        ([["setGlobalRateLimit", 3, 60_000]], "BullMQ's rate limit of bullmq:mail is reached: "),
        ([["setGlobalRateLimit", 9, 60_000]], None),
    ],
)
def test_explain_names_the_limit_that_bullmq_is_at(
    client: Client, redisq: Redisq, limits: list[list[Any]], said: str | None
) -> None:
    """As BullMQ itself finds it."""
    specimen(client)
    program = Program(client)
    program.call(*limits)
    if limits[0][0] == "setGlobalRateLimit":  # as a worker counts three jobs
        client.set("bull:mail:limiter", 3, px=60_000)
    ttl, full = program.call(["getRateLimitTtl"], ["isMaxed"])
    assert (ttl > 0 or full) == (said is not None)
    for look in ((NAME,), (f"{NAME}/w0",)):
        rows = [row["sentence"] for row in redisq.rows("explain", *look) if row["rule"] == "rate"]
        assert len(rows) == (said is not None) and (said is None or said in rows[0])


def test_explain_tells_what_counts_towards_a_limit_that_only_workers_know(
    client: Client, redisq: Redisq
) -> None:
    specimen(client)
    client.set("bull:mail:limiter", 3, px=60_000)
    assert "counted 3 entries towards a rate limit" in redisq("explain", NAME)
    for look in (NAME, f"{NAME}/w0"):
        (row,) = redisq.rows("explain", look)
        assert row["rule"] != "rate", "it may not be reached"


def test_explain_names_the_child_for_which_a_parent_waits(client: Client, redisq: Redisq) -> None:
    program = Program(client)
    client.set("broken", 1)
    program.flow("none")
    program.work(2)
    client.delete("broken")
    (row,) = redisq.rows("explain", f"{NAME}/p")
    assert row["rule"] == "children" and f"its dead child {NAME}/c" in row["sentence"]
    assert row["command"].startswith(f"redisq replay {NAME}/c")
    before = dumps(client)
    replay = changed(ours(client), "replay", "dead", "c")
    assert undone(client, replay).outcome.done == 1
    assert dumps(client) == before, "the parent still waits for it"
    assert changed(ours(client), "replay", "dead", "c").outcome.done == 1
    program.work(2)
    assert ran(client) == Counter(c=2, d=1, p=1)


def test_of_a_flow_of_10000_children_some_are_named_and_a_circle_is_drawn_once(
    redisq: Redisq, client: Client
) -> None:
    client.hset(B + "meta", "version", "bullmq:6.7.0")
    for id in ("p", "c0", "c1"):
        client.hset(B + id, mapping={"name": "n", "timestamp": 1, "data": "{}", "opts": "{}"})
    client.zadd(B + "waiting-children", {"p": 1, "c0": 1})
    client.zadd(B + "failed", {"c1": 1})
    client.sadd(B + "p:dependencies", B + "c0", B + "gone")
    client.sadd(B + "c0:dependencies", B + "p")  # as no BullMQ writes it
    client.hset(B + "c0", "parentKey", B + "p")
    client.zadd(B + "p:unsuccessful", {B + "c1": 1})
    client.hset(B + "p:processed", mapping={f"{B}d{n}": "1" for n in range(9_997)})
    redisq("discover", "--register", "--yes")
    members = drawn(redisq, "p")
    assert len(members) == 101 and members[:4] == [
        (0, f"{NAME}/p", "delayed", False),
        (1, f"{NAME}/c1", "dead", True),
        (1, f"{NAME}/c0", "delayed", True),
        (1, f"{NAME}/gone", "gone", True),
    ]
    said = redisq("inspect", f"{NAME}/p")
    assert "10,000 below: 1 dead, 2 still waited for, 9,997 done; 100 shown" in said
    said = redisq("explain", f"{NAME}/p")
    assert "waits for its dead child bullmq:mail/c1, its child bullmq:mail/c0" in said


def test_a_flow_takes_few_round_trips_however_many_its_children(client: Client) -> None:
    job: dict[Any, Any] = {"name": "n", "timestamp": 1, "data": "{}", "opts": "{}"}
    client.hset(B + "p", mapping=job)
    client.zadd(B + "waiting-children", {"p": 1})
    parent = entries(client, "delayed")["p"]
    trips = []
    for children in (range(2), range(2, 90)):
        for n in children:
            client.hset(f"{B}c{n}", mapping=job)
            client.lpush(B + "wait", f"c{n}")
            client.sadd(B + "p:dependencies", f"{B}c{n}")
        description, number = flow(ours(client), parent), 0
        try:
            calls = description.send(None)
            while True:
                calls, number = description.send(exchange(client, calls)), number + 1
        except StopIteration as end:
            assert len(end.value) == children[-1] + 2
        trips.append(number)
    assert max(trips) < 20


def test_finished_children_are_not_searched_for_in_a_long_list(client: Client) -> None:
    job: dict[Any, Any] = {"name": "n", "timestamp": 1, "data": "{}", "opts": "{}"}
    client.hset(B + "p", mapping=job)
    client.zadd(B + "waiting-children", {"p": 1})
    for n in range(30):
        client.hset(f"{B}c{n}", mapping=job)
        client.zadd(B + "completed", {f"c{n}": n})
        client.hset(B + "p:processed", f"{B}c{n}", "1")
    client.rpush(B + "wait", *(f"w{n}" for n in range(3000)))
    parent = entries(client, "delayed")["p"]
    client.config_resetstat()
    members = run(client, flow(ours(client), parent))
    assert [one.state for one in members] == ["delayed"] + 30 * ["done"]
    stats: Any = client.info("commandstats")
    assert "cmdstat_lrange" not in stats and stats["cmdstat_hmget"]["calls"] < 100


def test_explain_says_a_plug_ins_word_for_that_for_which_an_entry_waits(
    client: Client, redisq: Redisq, monkeypatch: pytest.MonkeyPatch
) -> None:
    client.hset(B + "meta", "version", "bullmq:6.7.0")
    for id in ("p", "c"):
        client.hset(B + id, mapping={"name": "n", "timestamp": 1, "data": "{}", "opts": "{}"})
    client.zadd(B + "waiting-children", {"p": 1})
    client.sadd(B + "p:dependencies", B + "c")
    client.rpush(B + "wait", "c")
    redisq("discover", "--register", "--yes")
    monkeypatch.setattr(relations, "Linked", lambda _, *rest: Linked("step", *rest))
    said = redisq("explain", f"{NAME}/p")
    assert "goes on when all its step entries have ended, and waits for its step" in said


@pytest.mark.parametrize(("verb", "read"), [("purge", 0), ("replay", 1)])
def test_only_a_job_that_is_moved_costs_what_it_returned(
    client: Client, verb: Verb, read: int
) -> None:
    """It may be of any size."""
    client.hset(B + "meta", "version", "bullmq:6.7.0")
    job: dict[Any, Any] = {"name": "n", "timestamp": 1, "data": "{}", "opts": "{}"}
    client.hset(B + "good", mapping=job | {"finishedOn": 2, "returnvalue": "7"})
    client.zadd(B + "completed", {"good": 2})
    before = dumps(client)
    changes: list[Any] = []
    sent = Database(client).commands_of(
        lambda: changes.append(changed(ours(client), verb, "done", "good"))
    )
    assert sum(one[:5] in ("HMGET", "HGET ") and "returnvalue" in one for one in sent) == read
    assert undone(client, changes[0]).outcome.done == 1 and dumps(client) == before


@pytest.mark.parametrize("version", VERSIONS)
def test_what_is_replayed_into_a_paused_queue_waits_until_it_goes_on(
    client: Client, version: str
) -> None:
    """Release 5 renames the list of a paused queue, and overwrites another one when it goes on."""
    program = Program(client, version)
    client.set("broken", 1)
    program.call(add("fails", "a"), add("fails", "b"))
    program.work(2)
    client.delete("broken")
    program.call(add("fine", "w"), ["pause"])
    assert ours(client).counts().paused == "queue.pause() in BullMQ"
    assert changed(ours(client), "replay", "dead").outcome.done == 2
    assert set(entries(client, "waiting")) == {"a", "b", "w"}
    program.call(["resume"])
    with program.worker():
        wait(lambda: client.zcard(B + "completed") == 3)
    assert ran(client) == Counter(a=2, b=2, w=1)


@pytest.mark.parametrize("version", VERSIONS)
def test_what_was_changed_before_or_during_a_pause_can_be_undone_after_it(
    client: Client, version: str
) -> None:
    """Release 5 renames the list of waiting jobs when the queue is paused, and when it goes on."""
    program = Program(client, version)
    client.set("broken", 1)
    program.call(add("fails", "a"), add("fails", "b"))
    program.work(2)
    client.delete("broken")
    program.call(*[add("fine", id) for id in "vwxyz"])
    purge = changed(ours(client), "purge", "waiting", "w")
    replay = changed(ours(client), "replay", "dead", "a")
    program.call(["pause"])
    assert undone(client, purge).outcome.done == undone(client, replay).outcome.done == 1
    assert list(entries(client, "waiting")) == [*"vwxyz"] and len(entries(client, "dead")) == 2
    restored = changed(ours(client), "purge", "waiting", "x")
    purge = changed(ours(client), "purge", "waiting", "z")
    replay = changed(ours(client), "replay", "dead", "b")
    program.call(["resume"])
    assert changed(ours(client), "restore", "trash", "x").outcome.done == 1 == restored.outcome.done
    assert undone(client, purge).outcome.done == undone(client, replay).outcome.done == 1
    assert list(entries(client, "waiting")) == [*"vwxyz"]
    program.work(5)
    assert ran(client) == Counter([*"abvwxyz"])


def test_jobs_that_release_5_left_in_a_paused_queue_of_release_6_come_back_into_their_list(
    client: Client,
) -> None:
    Program(client, "5.81.5").call(add("fine", "a"), add("fine", "b"), ["pause"])
    Program(client).call(add("fine", "c"), add("fine", "d"))
    before = dumps(client)
    assert client.llen(B + "paused") == client.llen(B + "wait") == 2
    purge = changed(ours(client), "purge", "waiting")
    assert purge.outcome.done == 4 and undone(client, purge).outcome.done == 4
    assert dumps(client) == before


@pytest.mark.parametrize("release", ["5.19.1", "7.0.1"])
def test_an_earlier_or_later_release_is_only_shown(
    client: Client, redisq: Redisq, release: str
) -> None:
    specimen(client)
    redisq("discover", "--register", "--yes")
    replay = changed(ours(client), "replay", "dead", "bad0")
    client.hset(B + "meta", "version", f"bullmq:{release}")
    before = dumps(client)
    told = f"of BullMQ {release}, and redisq changes queues of BullMQ 5.20 to 6"
    assert len(redisq.rows("dlq", "ls", NAME)) == 3
    op = replay.outcome.op or ""
    changes = [("dlq", "replay", NAME), ("requeue", NAME, "--state", "delayed"), ("undo", op)]
    changes += [("edit", NAME, "--state", "dead", "--patch", '[{"op": "remove", "path": "/data"}]')]
    for words in changes:
        redisq(*words, "--yes", code=1)
        assert told in redisq.err and redisq.err.count("\n") == 1
    with pytest.raises(Refused, match="only shown"):
        ours(client).move("op-1", 1, ["bad1"], source="dead", target="waiting", high_water_ms=1)
    with pytest.raises(Refused, match="only shown"):
        undone(client, replay)
    assert dumps(client) == before
    for look in (("ls",), ("inspect", NAME), ("fsck", NAME), ("explain", f"{NAME}/bad1")):
        assert told in " ".join(redisq(*look).split())
    (row,) = redisq.rows("explain", f"{NAME}/bad1")
    assert row["command"] is None
    assert told in redisq("discover")


@pytest.mark.parametrize("version", [None, "fork"])
def test_a_queue_that_names_no_release_is_only_shown(
    client: Client, redisq: Redisq, version: str | None
) -> None:
    """It may be of 3, which never reads `prioritized`, where a requeued job of some priority would
    go; or paused by 5 or 6, whose workers look into different lists then."""
    specimen(client)
    if version:
        client.hset(B + "meta", mapping={"version": version, "paused": 1})
    else:
        client.hdel(B + "meta", "version")
    redisq("discover", "--register", "--yes")
    before = dumps(client)
    for words in (
        ("dlq", "replay", NAME),
        ("requeue", NAME, "--state", "delayed"),
        ("queue", "resume", NAME),
    ):
        redisq(*words, "--yes", code=1)
        assert "its `meta` names no release of BullMQ, as before 5.20, or where only" in redisq.err
        assert "a FlowProducer and workers opened it (`new Queue(NAME)` writes the re" in redisq.err
    assert dumps(client) == before


def test_of_releases_5_and_6_a_lost_attempt_is_no_failure_and_hides_none(client: Client) -> None:
    """`stc` counts it, and `atm` does not, but for the end of a job that was lost too often."""
    program = Program(client)
    client.set("broken", 1)
    program.call(add("fails", "a"), add("fine", "b"))
    client.hset(B + "a", "stc", 1)  # as a check of BullMQ's does it, which lets it wait again
    client.hset(B + "b", mapping={"stc": 2, "defa": "job stalled more than allowable limit"})
    program.work(2)
    dead = entries(client, "dead")
    assert {id: (e.failures, e.lost, e.reason) for id, e in dead.items()} == {
        "a": (1, 1, "failed"),
        "b": (0, 2, "lost"),
    }


def test_attempts_and_marks_of_release_4(client: Client) -> None:
    """There an attempt counts when it begins, in `attemptsMade`; `wait` has a mark for workers."""
    client.hset(B + "meta", "version", "bullmq:4.18.3")
    job: dict[Any, Any] = {"name": "mail", "data": "{}", "timestamp": 1, "processedOn": 1}
    for id, made, lost in (("dead", 2, 0), ("lost", 2, 1), ("run", 1, 0), ("new", 0, 0)):
        client.hset(B + id, mapping=job | {"attemptsMade": made, "stalledCounter": lost})
    client.zadd(B + "failed", {"dead": 5, "lost": 6})
    client.lpush(B + "active", "run")
    client.rpush(B + "wait", "new", "0:1700000000000")
    queue = ours(client)
    seen = {e.id: (e.failures, e.lost) for s in ("dead", "pending") for e in queue.page(s).entries}
    assert seen == {"dead": (2, 0), "lost": (1, 1), "run": (0, 0)}
    assert queue.counts().waiting == queue.page("waiting", start=0).total == 1
    assert list(entries(client, "waiting")) == ["new"]
    client.lrem(B + "wait", 1, "new")
    assert queue.counts().waiting == 0


@pytest.mark.alike
def test_no_job_is_lost_between_operators_and_killed_workers(url: str) -> None:
    """As `python -m tests.core.foreign.killed_workers` has it for a minute, of each program."""
    result = Run(url, "bullmq", 1, 100).play(4, operators=True)
    assert result.jobs > 100 and result.worker_kills and result.operator_kills
    assert sum(result.changed.values()) > 20
    assert not result.lost and not result.again and not result.twice_there
    assert not result.left and not result.errors

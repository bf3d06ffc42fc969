"""Schedules and pauses of other programs: read, and changed as the programs themselves do it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from math import inf
from pathlib import Path
from typing import Any

import pytest
import redis
from rq import suspension

from redisq_ops.core.foreign.bullmq import BullmqQueue
from redisq_ops.core.foreign.celery import CeleryQueue
from redisq_ops.core.model.errors import NotFound, Refused
from redisq_ops.core.model.quoting import legal
from redisq_ops.core.redis.operation import run
from redisq_ops.ops.change.periodic import carry_out, prepare_change

from ...changes import AUTHOR
from ...command_line import Redisq
from ...foreign_keys import bull_program, bullmq_program, schedule_programs
from ...foreign_keys.bullmq_program import add
from ...pipeline.rows import rows as table

pytestmark = pytest.mark.slow

Client = redis.Redis
YES = ("--yes",)
FULL = "0 3 * * *"
DUE = b"redbeat::schedule"
SIGNALS = b"bull:mail:events", b"bull:mail:marker"


@dataclass(frozen=True)
class Case:
    """Two schedules of a program, ``nightly`` (or ``first``) and ``often``."""

    queue: str
    fill: Callable[[Client], object]
    names: tuple[str, str] = "nightly", "often"
    zone: str | None = "Europe/Berlin"
    cron: str = FULL
    every: str = "every 15m"
    task: str = "report"
    verbs: Mapping[str, Callable[[Client, str], None]] = field(default_factory=dict)
    runs: bool = False
    """whether it can be run now: see `test_a_schedule_is_run_now`"""


def _each(does: Callable[[Client, str, str], None], *verbs: str) -> dict[str, Any]:
    return {verb: partial(lambda verb, c, name: does(c, name, verb), verb) for verb in verbs}


S = schedule_programs
OLD = bullmq_program.VERSIONS[1]
TASK = "tests.foreign_keys.rq_tasks.fine"
PAUSE = "queue", "pause", "bullmq:mail"
BEFORE = "report:::Europe/Berlin:0 3 * * *", "tick::::900000"
BULL = "report:n::Europe/Berlin:0 3 * * *", "tick:::900000"
CASES = {
    "bullmq": Case("bullmq:mail", S.bullmq, verbs={"rm": S.bullmq_removes}, runs=True),
    "bullmq 5": Case(
        "bullmq:mail",
        partial(S.bullmq, version=OLD),
        verbs={"rm": partial(S.bullmq_removes, version=OLD)},
        runs=True,
    ),
    "bullmq before 5": Case(
        "bullmq:mail",
        partial(S.bullmq_before_5, names=BEFORE, version=OLD),
        BEFORE,
        verbs={"rm": partial(S.bullmq_removes_before_5, version=OLD)},
        runs=True,
    ),
    "bull": Case("bull:mail", S.bull, BULL, verbs={"rm": S.bull_removes}, runs=True),
    "rq": Case("rq:low", S.rq_cron, zone=None, task=TASK),
    "rq-scheduler": Case(
        "rq:low",
        S.rq_scheduler,
        zone="UTC",
        task=TASK,
        verbs={"rm": S.rq_scheduler_removes},
        runs=True,
    ),
    "redbeat": Case(
        "celery:celery",
        S.redbeat,
        zone=None,
        cron="0 3 * * mon-fri",
        task="shop.fine",
        verbs=_each(S.redbeat_does, "rm", "pause", "resume"),
    ),
    "sidekiq-cron": Case(
        "sidekiq:low",
        S.sidekiq_cron,
        every="*/15 * * * *",
        task="Report",
        verbs=_each(S.sidekiq_cron_does, "rm", "pause", "resume"),
    ),
    "sidekiq-scheduler": Case(
        "sidekiq:low",
        S.sidekiq_scheduler,
        task="Report",
        verbs=_each(S.sidekiq_scheduler_does, "pause", "resume"),
    ),
    "asynq": Case("asynq:low", S.asynq, every="@every 15m0s"),
}


def seen(client: Client) -> dict[bytes, Any]:
    """Every key but ours: its value, events without their times."""
    reads: dict[Any, Callable[[Any], Any]] = {
        b"hash": client.hgetall,
        b"list": lambda key: client.lrange(key, 0, -1),
        b"set": client.smembers,
        b"zset": lambda key: client.zrange(key, 0, -1, withscores=True),
        b"string": client.get,
        b"stream": lambda key: [row[1:] for row in client.xrange(key) or ()],
    }
    keys = (key for key in client.scan_iter() if b"redisq" not in key)
    return {key: reads[client.type(key)](key) for key in keys}


def but_for_signals(keys: dict[bytes, Any]) -> dict[bytes, Any]:
    """Without what only wakes and informs, which no undo takes back."""
    return {key: value for key, value in keys.items() if key not in SIGNALS}


class Kept:
    """Keys that are written once, and put back."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.keys: dict[Any, Any] = {
            key: (client.dump(key), client.pexpiretime(key)) for key in client.scan_iter()
        }

    def restore(self) -> None:
        self.client.flushdb()
        for key, (data, until) in self.keys.items():
            self.client.restore(key, max(0, until), data, absttl=until > 0)


def filled(redisq: Redisq, client: Client, case: Case) -> Kept:
    case.fill(client)
    kept = Kept(client)
    redisq("discover", "--register", "--yes")
    return kept


@pytest.mark.alike
@pytest.mark.parametrize("case", CASES)
def test_schedules_are_listed_as_the_program_has_them(
    redisq: Redisq, client: Client, url: str, case: str
) -> None:
    of = CASES[case]
    filled(redisq, client, of)
    rows = {row["name"]: row for row in redisq.rows("periodic", "ls", of.queue)}
    told = ("task", "cron", "zone", "paused", "missed_runs", "overdue", "run_state")
    assert [{name: row[name] for name in told} for row in rows.values()] == [
        {name: row[name] for name in told} for row in table(url, "schedules", queue=of.queue)
    ]
    first, often = (rows[legal(name.encode())] for name in of.names)
    # Where its queue isn't registered, one that is shows it.
    assert ("elsewhere" in rows) is (case in ("redbeat", "rq-scheduler", "asynq"))
    assert (first["cron"], first["zone"], first["task"]) == (of.cron, of.zone, of.task)
    assert often["cron"] in (of.every, "every 15m") and first["paused"] is False
    assert first["problem"] is None and often["problem"] is None
    now = int(client.time()[0]) * 1000
    assert first["next_ms"] is None or first["next_ms"] > now
    assert first["next_ms"] or case == "redbeat", "RedBeat runs what never ran at once"
    kept = case != "sidekiq-cron"  # whose next time isn't kept: what it missed is unknown
    assert (first["missed_runs"], first["overdue"]) == ((0, False) if kept else (None, None))
    assert of.queue in redisq("periodic", "ls")


@pytest.mark.alike
@pytest.mark.parametrize("case", CASES)
def test_what_a_program_notes_of_its_schedules_is_no_queue(
    redisq: Redisq, client: Client, case: str
) -> None:
    CASES[case].fill(client)
    client.zadd("uniquejobs:digests", {"uniquejobs:1": 1_796_000_000})
    client.zadd("uniquejobs:expiring_digests", {"uniquejobs:1": 4_000_000_000})
    program = CASES[case].queue.partition(":")[0]
    assert {row["kind"] for row in redisq.rows("discover")} == {program}


@pytest.mark.alike
@pytest.mark.parametrize("case", CASES)
def test_a_change_is_the_programs_own_and_undo_takes_it_back(
    redisq: Redisq, client: Client, case: str
) -> None:
    of = CASES[case]
    kept = filled(redisq, client, of)
    before, name = seen(client), of.names[0]
    address = f"{of.queue}/{legal(name.encode())}"
    for verb in ("pause", "run", "rm"):
        if verb not in of.verbs and not (verb == "run" and of.runs):
            said = redisq.refusal("periodic", verb, address, *YES, code=1)
            assert said.startswith(f"{verb} of ")
    assert seen(client) == before
    for verb, does in of.verbs.items():
        kept.restore()
        redisq("discover", "--register", "--yes")
        if verb == "resume":
            of.verbs["pause"](client, name)
            before = seen(client)
        redisq("periodic", verb, address, code=5)
        assert seen(client) == before
        redisq("periodic", verb, address, *YES)
        ours = seen(client)
        assert ours != before
        redisq("undo", *YES)
        assert but_for_signals(seen(client)) == but_for_signals(before)
        kept.restore()
        if verb == "resume":
            of.verbs["pause"](client, name)
        does(client, name)
        theirs = seen(client)
        for keys in (ours, theirs):  # RedBeat computes the time again, from now on
            keys[DUE] = [member for member, _ in keys.get(DUE, ())]
        assert ours == theirs


@pytest.mark.alike
def test_a_schedule_that_changed_meanwhile_stays(redisq: Redisq, client: Client) -> None:
    S.bullmq(client)
    redisq("discover", "--register", "--yes")
    queue: Any = BullmqQueue(client, "bullmq:mail")
    prepared = run(client, prepare_change(queue, "nightly", "rm"))
    client.hset("bull:mail:repeat:nightly", "pattern", "0 4 * * *")
    before = seen(client)
    with pytest.raises(NotFound, match="changed by somebody else"):
        run(client, carry_out(prepared, AUTHOR))
    # Between the last look and the step: its next job began to wait.
    schedule = queue.get_periodic("nightly")
    found = run(client, queue.schedule_programs[0].change(queue, schedule, None))
    client.zrem("bull:mail:delayed", *client.zrange("bull:mail:delayed", 0, -1))
    before = seen(client)
    assert run(client, queue.change_elements("op", 1, "", found)) == "changed"
    assert seen(client) == before


@pytest.mark.alike
def test_a_schedule_that_was_added_again_is_not_undone(redisq: Redisq, client: Client) -> None:
    S.bullmq(client)
    redisq("discover", "--register", "--yes")
    redisq("periodic", "rm", "bullmq:mail/nightly", *YES)
    S.bullmq(client)
    before = seen(client)
    assert "changed" in redisq("undo", *YES, code=None)
    assert seen(client) == before


@pytest.mark.slow
@pytest.mark.parametrize("case", [case for case, of in CASES.items() if of.runs])
def test_a_schedule_is_run_now_and_goes_on(redisq: Redisq, client: Client, case: str) -> None:
    of = CASES[case]
    kept = filled(redisq, client, of)
    before, name = seen(client), of.names[0]
    address = f"{of.queue}/{legal(name.encode())}"
    planned = next(row for row in redisq.rows("periodic", "ls") if row["address"] == address)
    shown = redisq("periodic", "run", address, code=5) + redisq.err
    promotes = "happens now instead; the next one is the one after it" in shown
    assert promotes is (case != "rq-scheduler")
    redisq("periodic", "run", address, *YES)
    assert seen(client) != before
    redisq("undo", *YES)
    assert but_for_signals(seen(client)) == but_for_signals(before)
    kept.restore()
    redisq("discover", "--register", "--yes")
    redisq("periodic", "run", address, *YES)
    if case == "rq-scheduler":
        queued = client.llen("rq:queue:low")
        pytest.importorskip("rq_scheduler").Scheduler("low", connection=client).enqueue_jobs()
        assert client.llen("rq:queue:low") == queued + 1
    else:
        program = bull_program.Program(client) if case == "bull" else _bullmq(client, case)
        program.work(1)
        assert redisq.refusal("periodic", "run", f"{of.queue}/unknown", *YES, code=1)
    rows = {row["name"]: row for row in redisq.rows("periodic", "ls", of.queue)}
    after, now = rows[legal(name.encode())], int(client.time()[0]) * 1000
    assert after["problem"] is None and after["next_ms"] > now, "it goes on"
    if promotes:
        assert after["next_ms"] > planned["next_ms"], "the planned run was that one"


def _bullmq(client: Client, case: str) -> bullmq_program.Program:
    return bullmq_program.Program(client, bullmq_program.VERSIONS[1 if case[-1] == "5" else 0])


def _spoilt_redbeat(client: Client) -> None:
    client.hset("redbeat:nightly", "definition", "{")


def _spoilt_rq(client: Client) -> None:
    client.delete("rq:job:nightly")


def _spoilt_bullmq(client: Client) -> None:
    client.delete("bull:mail:repeat:nightly")


def _spoilt_cron(client: Client) -> None:
    client.hdel("cron_job:default:nightly", "cron")


@pytest.mark.alike
@pytest.mark.parametrize(
    ("case", "spoil"),
    [
        ("redbeat", _spoilt_redbeat),
        ("rq-scheduler", _spoilt_rq),
        ("bullmq", _spoilt_bullmq),
        ("sidekiq-cron", _spoilt_cron),
    ],
)
def test_a_schedule_that_can_not_be_read_can_be_removed(
    redisq: Redisq, client: Client, case: str, spoil: Callable[[Client], None]
) -> None:
    of = CASES[case]
    filled(redisq, client, of)
    spoil(client)
    before, address = seen(client), f"{of.queue}/nightly"
    if "pause" in of.verbs:
        assert "can't be changed" in redisq.refusal("periodic", "pause", address, *YES, code=1)
    assert f"periodic rm {address}" in redisq("explain", address)
    redisq("periodic", "rm", address, *YES)
    rows = redisq.rows("periodic", "ls", of.queue, code=None)
    assert "nightly" not in {row["name"] for row in rows}
    redisq("undo", *YES)
    assert but_for_signals(seen(client)) == but_for_signals(before)


@pytest.mark.alike
@pytest.mark.parametrize(("verb", "words"), [("pause", "already paused"), ("resume", "it isn't")])
def test_a_change_that_changes_nothing_says_so(
    redisq: Redisq, client: Client, verb: str, words: str
) -> None:
    filled(redisq, client, CASES["redbeat"])
    if verb == "pause":
        redisq("periodic", "pause", "celery:celery/nightly", *YES)
    said = redisq("periodic", verb, "celery:celery/nightly", *YES)
    assert words in said and "begins at once" not in said + redisq.err


@pytest.mark.alike
def test_only_late_schedules_are_read_to_be_counted(redisq: Redisq, client: Client) -> None:
    filled(redisq, client, CASES["rq-scheduler"])
    now = int(client.time()[0])
    client.zadd("rq:scheduler:scheduled_jobs", {f"x{n}": now + 9000 for n in range(300)})
    client.zadd("rq:scheduler:scheduled_jobs", {"often": now - 2000})
    client.config_resetstat()
    (row,) = (row for row in redisq.rows("ls") if row["name"] == "rq:low")
    assert row["periodic_overdue"] == 1
    asked = client.info("commandstats")["cmdstat_hmget"]["calls"]
    assert asked < 50, "300 others are not read"


@pytest.mark.alike
def test_rights_are_asked_before_the_audit_log_has_a_change(redisq: Redisq, client: Client) -> None:
    filled(redisq, client, CASES["redbeat"])
    client.acl_setuser("ann", enabled=True, nopass=True, keys="*", commands=["+@all", "-restore"])
    ann = Redisq(redisq.url.replace("redis://", "redis://ann:x@"), redisq._capsys)
    before = seen(client)
    ann("periodic", "pause", "celery:celery/nightly", *YES, code=1)
    assert "RESTORE" in ann.err and seen(client) == before
    assert not redisq.rows("log") and not client.keys("redisq:*:op_*")


@pytest.mark.alike
@pytest.mark.parametrize(
    ("case", "key", "unit", "total"),
    [
        ("bullmq", "bull:mail:repeat", 1000, 2),
        ("rq-scheduler", "rq:scheduler:scheduled_jobs", 1, None),
        ("redbeat", "redbeat::schedule", 1, None),
    ],
)
def test_an_overdue_schedule_is_trouble(
    redisq: Redisq, client: Client, case: str, key: str, unit: int, total: int | None
) -> None:
    of, at = CASES[case], "redbeat:" if case == "redbeat" else ""
    filled(redisq, client, of)
    now = int(client.time()[0])
    client.zadd(key, {f"{at}nightly": (now - 90) * unit, f"{at}often": (now - 2000) * unit})
    rows = {row["name"]: row for row in redisq.rows("periodic", "ls", of.queue)}
    assert not rows["nightly"]["overdue"], "workers and schedulers may be a minute late"
    assert (rows["often"]["overdue"], rows["often"]["missed_runs"]) == (True, 3)
    (row,) = (row for row in redisq.rows("ls") if row["name"] == of.queue)
    assert (row["periodic"], row["periodic_overdue"]) == (total, 1)
    assert "1 periodic entry missed a run" in redisq("check", code=None)
    assert "often" in redisq("explain", of.queue)
    if "pause" in of.verbs:
        redisq("periodic", "pause", f"{of.queue}/often", *YES)
        (row,) = (row for row in redisq.rows("ls") if row["name"] == of.queue)
        assert row["periodic_overdue"] == 0, "nobody expects a run of it"


@pytest.mark.alike
@pytest.mark.parametrize("case", ["asynq", "rq", "sidekiq-cron", "sidekiq-scheduler"])
def test_a_look_at_all_queues_reads_no_schedules(redisq: Redisq, client: Client, case: str) -> None:
    of = CASES[case]
    filled(redisq, client, of)
    (row,) = (row for row in redisq.rows("ls") if row["name"] == of.queue)
    assert (row["periodic"], row["periodic_overdue"]) == (None, None), "unknown is never 0"


def _many_crons(client: Client) -> None:
    client.sadd("cron_jobs:default", *(f"cron_job:default:x{n}" for n in range(1500)))


def _many_asynq(client: Client) -> None:
    key = "asynq:schedulers:{box:1:abc}"
    client.rpush(key, *client.lrange(key, 0, 0) * 600)
    client.zadd("asynq:schedulers", {f"x{n}": 0 for n in range(60)})


def _many_rq(client: Client) -> None:
    client.zadd("rq:cron_schedulers", {f"x{n}": 0 for n in range(60)})


def _many_of_rq_scheduler(client: Client) -> None:
    client.zadd("rq:scheduler:scheduled_jobs", {f"x{n}": 2**40 for n in range(600)})


def _many_of_redbeat(client: Client) -> None:
    client.zadd("redbeat::schedule", {f"redbeat:x{n}": 2**40 for n in range(600)})


@pytest.mark.alike
@pytest.mark.parametrize(
    ("case", "add", "left"),
    [
        ("sidekiq-cron", _many_crons, ["1,002 more of sidekiq-cron's schedules"]),
        ("asynq", _many_asynq, ["103 more of asynq's schedules", "11 more of asynq's schedulers"]),
        ("rq", _many_rq, ["11 more of RQ's `rq cron` processes"]),
        ("rq-scheduler", _many_of_rq_scheduler, ["104 more of rq-scheduler's schedules"]),
        ("redbeat", _many_of_redbeat, ["103 more of RedBeat's schedules"]),
    ],
)
def test_the_number_left_out_is_shown(
    redisq: Redisq, client: Client, case: str, add: Callable[[Client], None], left: list[str]
) -> None:
    of = CASES[case]
    filled(redisq, client, of)
    add(client)
    rows = redisq.rows("periodic", "ls", of.queue, code=3)
    assert [row["problem"] for row in rows if not row["name"]] == [
        f"{words} are not shown" for words in left
    ]
    said = redisq.refusal("periodic", "rm", f"{of.queue}/unseen", *YES, code=1)
    assert all(words in said for words in left), "it may be among them"
    (listed,) = (row for row in redisq.rows("ls") if row["name"] == of.queue)
    (details,) = redisq.rows("inspect", of.queue)
    for number in ("periodic", "periodic_overdue"):
        assert details[number] == listed[number], "unknown is never 0"
    (why,) = redisq.rows("explain", of.queue)
    unread = [one["sentence"] for one in (why, *why["also"]) if one["rule"] == "unread"]
    assert all(any(words in one for one in unread) for words in left)
    assert "corrupt periodic entries: \n" not in redisq("explain", of.queue) + "\n"


@pytest.mark.alike
def test_a_name_of_two_schedules_changes_neither(redisq: Redisq, client: Client) -> None:
    filled(redisq, client, CASES["sidekiq-cron"])
    client.sadd("cron_jobs", "cron_job:nightly")
    client.copy("cron_job:default:nightly", "cron_job:nightly")
    before = seen(client)
    said = redisq.refusal("periodic", "rm", "sidekiq:low/nightly", *YES, code=1)
    assert "2 schedules here are named nightly" in said
    assert seen(client) == before


@pytest.mark.alike
@pytest.mark.parametrize("asked", [{}, {"spec": b"x"}, {"paused": True, "at_ms": 1}])
def test_only_a_removal_that_was_asked_for_removes(
    redisq: Redisq, client: Client, asked: dict[str, Any]
) -> None:
    filled(redisq, client, CASES["redbeat"])
    queue: Any = CeleryQueue(client, "celery:celery")
    before, was = seen(client), queue.get_periodic("nightly").digest
    with pytest.raises(Refused, match="only be paused, resumed, run or removed"):
        queue.change_periodic("op", 1, "nightly", was=was, **asked)
    assert seen(client) == before


@pytest.mark.alike
@pytest.mark.parametrize("change", [("periodic", "rm", "bullmq:mail/nightly"), PAUSE])
def test_an_event_that_has_no_id_is_left_out(
    redisq: Redisq, client: Client, change: tuple[str, ...]
) -> None:
    filled(redisq, client, CASES["bullmq"])
    last = f"{2**64 - 1}-{2**64 - 1}"
    client.xadd("bull:mail:events", {"event": "last"}, id=last)
    before = seen(client)
    redisq(*change, *YES)
    assert seen(client) != before
    redisq("undo", *YES)
    assert but_for_signals(seen(client)) == but_for_signals(before)


@pytest.mark.alike
def test_events_of_another_type_or_too_many_of_them(redisq: Redisq, client: Client) -> None:
    filled(redisq, client, CASES["bullmq"])
    client.delete("bull:mail:events")
    client.set("bull:mail:events", "odd")
    before = seen(client)
    redisq("periodic", "rm", "bullmq:mail/nightly", *YES, code=1)
    assert "bull:mail:events is a string" in redisq.err
    assert seen(client) == before
    client.delete("bull:mail:events")
    for _ in range(250):
        client.xadd("bull:mail:events", {"event": "old"})
    client.hset("bull:mail:meta", "opts.maxLenEvents", 10)
    redisq("periodic", "rm", "bullmq:mail/nightly", *YES)
    assert client.xlen("bull:mail:events") < 250


@pytest.mark.alike
def test_an_endless_interval_is_the_problem_of_its_entry_alone(
    redisq: Redisq, client: Client
) -> None:
    filled(redisq, client, CASES["redbeat"])
    definition = json.loads(client.hget("redbeat:often", "definition") or b"")
    definition["schedule"]["every"] = inf
    client.hset("redbeat:often", "definition", json.dumps(definition))
    rows = redisq.rows("periodic", "ls", "celery:celery", code=3)
    problems = {row["name"]: row["problem"] for row in rows if row["name"] != "elsewhere"}
    assert problems == {"nightly": None, "often": "its interval is no number of seconds"}


@pytest.mark.alike
def test_a_schedules_task_is_redacted(redisq: Redisq, client: Client, configuration: Path) -> None:
    configuration.write_text("[redact.patterns]\nshop = 'shop'\n")
    filled(redisq, client, CASES["redbeat"])
    shown = [
        redisq("periodic", "ls", "celery:celery"),
        redisq("periodic", "ls", "celery:celery", "--json"),
        redisq("periodic", "pause", "celery:celery/nightly", code=5),
    ]
    assert all("***.fine" in text and "shop.fine" not in text for text in shown)


# --- pauses -------------------------------------------------------------------------


def _bullmq_jobs(client: Client, version: str = bullmq_program.VERSIONS[0]) -> None:
    program = bullmq_program.Program(client, version)
    program.call(add("fine", "w1"), add("fine", "w2", priority=2), add("fine", "d", delay=9_000))


def _bullmq_does(client: Client, verb: str, version: str = bullmq_program.VERSIONS[0]) -> None:
    bullmq_program.Program(client, version).call([verb])


def _bull_jobs(client: Client) -> None:
    bull_program.Program(client).call(add("fine", "w1"), add("fine", "d", delay=9_000))


def _bull_does(client: Client, verb: str) -> None:
    bull_program.Program(client).call([verb])


def _rq_does(client: Client, verb: str) -> None:
    suspension.suspend(client) if verb == "pause" else suspension.resume(client)


def _asynq_does(client: Client, verb: str) -> None:
    """`Pause` and `Unpause` of ``internal/rdb/inspect.go``."""
    key = "asynq:{low}:paused"
    client.set(key, client.time()[0], nx=True) if verb == "pause" else client.delete(key)


PAUSES: dict[str, tuple[str, Callable[[Client], object], Callable[[Client, str], None]]] = {
    "bullmq": ("bullmq:mail", _bullmq_jobs, _bullmq_does),
    "bullmq 5": (
        "bullmq:mail",
        partial(_bullmq_jobs, version=OLD),
        partial(_bullmq_does, version=OLD),
    ),
    "bull": ("bull:mail", _bull_jobs, _bull_does),
    "rq": ("rq:low", S.rq_cron, _rq_does),
    "asynq": ("asynq:low", S.asynq, _asynq_does),
}


@pytest.mark.alike
@pytest.mark.parametrize("case", PAUSES)
def test_a_pause_is_the_programs_own(redisq: Redisq, client: Client, case: str) -> None:
    queue, fill, does = PAUSES[case]
    fill(client)
    kept = Kept(client)
    for verb, other in ("pause", "resume"), ("resume", "pause"):
        kept.restore()
        redisq("discover", "--register", "--yes")
        if verb == "resume":
            does(client, other)
        before = seen(client)
        asked = redisq("queue", verb, queue, code=5)
        assert "done as" in asked and ("ALL queues" in asked) is (case == "rq")
        assert seen(client) == before
        redisq("queue", verb, queue, "--reason", "migration", *YES)
        ours = seen(client)
        (paused,) = (row["paused"] for row in redisq.rows("ls") if row["name"] == queue)
        assert (paused is not None) is (verb == "pause")
        assert "0 matched" in redisq("queue", verb, queue, *YES)
        assert "migration" in redisq("log")
        redisq("undo", *YES)
        assert but_for_signals(seen(client)) == but_for_signals(before)
        kept.restore()
        if verb == "resume":
            does(client, other)
        does(client, verb)
        theirs = seen(client)
        time = b"asynq:{low}:paused"
        assert ours.pop(time, b"")[:6] == theirs.pop(time, b"")[:6]
        assert ours == theirs


@pytest.mark.alike
def test_a_pause_that_would_lose_jobs_is_refused(redisq: Redisq, client: Client) -> None:
    """Release 5 would rename one list over the other."""
    _bullmq_jobs(client, OLD)
    client.rpush("bull:mail:paused", "lost")
    redisq("discover", "--register", "--yes")
    before = seen(client)
    redisq("queue", "pause", "bullmq:mail", *YES, code=1)
    assert "both its lists" in redisq.err and "BullMQ before 6 itself would overwrite" in redisq.err
    assert seen(client) == before
    client.hdel("bull:mail:meta", "version")
    said = redisq.refusal("queue", "pause", "bullmq:mail", "--dry-run", code=1)
    assert "names no release of BullMQ" in said


@pytest.mark.alike
@pytest.mark.parametrize("kind", ["bullmq", "bull"])
def test_a_queue_with_both_lists_goes_on_without_losing_a_job(
    redisq: Redisq, client: Client, kind: str
) -> None:
    """As the refusal says it."""
    program: Any = bull_program.Program(client)
    if kind == "bullmq":
        program = bullmq_program.Program(client, bullmq_program.VERSIONS[1])
    program.call(*[add("fine", id) for id in "abc"], ["pause"])
    client.lmove("bull:mail:paused", "bull:mail:wait")
    redisq("discover", "--register", "--yes")
    redisq("queue", "resume", f"{kind}:mail", *YES, code=1)
    assert "purge what waits there, and restore it afterwards" in " ".join(redisq.err.split())
    redisq("purge", f"{kind}:mail", "--state", "waiting", *YES)
    redisq("queue", "resume", f"{kind}:mail", *YES)
    redisq("trash", "restore", f"{kind}:mail", *YES)
    program.work(3)
    assert client.hgetall("ran") == dict.fromkeys((b"a", b"b", b"c"), b"1")


@pytest.mark.alike
def test_a_pause_that_ends_by_itself_does_so_after_an_undo(redisq: Redisq, client: Client) -> None:
    S.rq_cron(client)
    redisq("discover", "--register", "--yes")
    suspension.suspend(client, ttl=500)
    redisq("queue", "resume", "rq:low", *YES)
    redisq("undo", *YES)
    assert 400 < client.ttl("rq:suspended") <= 500

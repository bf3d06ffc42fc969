"""Moves that were killed: nothing is lost or freed, and whoever comes next finishes them."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest
import redis

from redisq_ops.core.engine import transfer_recovery
from redisq_ops.core.engine.queue import Queue
from redisq_ops.core.engine.transfer_recovery import list_unfinished, recover
from redisq_ops.core.model.clock import FakeClock
from redisq_ops.core.model.errors import Refused
from redisq_ops.core.queues.delay import DelaySet
from redisq_ops.core.redis.operation import run
from redisq_ops.core.worker.upkeep import TransferRecoverer
from redisq_ops.ops.change import audit_log
from redisq_ops.ops.change.entry_steps import EntrySteps
from redisq_ops.ops.change.runner import ChangeRun
from redisq_ops.ops.change.transfer_plan import route_to
from redisq_ops.ops.change.transfer_undo import undo_of
from redisq_ops.ops.deployment import Deployment
from redisq_ops.ops.filter.filter import Filter
from redisq_ops.ops.filter.selection import select

from ...changes import entry_change
from ...command_line import Redisq
from .killed_moves import stories
from .test_transfer import (
    ME,
    Link,
    entries,
    filled,
    finish,
    idle,
    killed,
    made,
    ours,
    sound,
)
from .test_transfer_requests import filled as requests_filled
from .test_transfer_requests import made as requests_made

pytestmark = [pytest.mark.alike]

DAY_MS = 86_400_000
MOVE = ("move", "a", "--to", "b", "--state", "dead", "--yes")


@pytest.fixture(autouse=True)
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def keys_held(client: redis.Redis) -> list[bytes]:
    """What is kept for good because of a move: without a time to live, or listed."""
    patterns = ("*:undo:*", "*:land:*", "*:op:*", "*:unfinished")
    found = [key for pattern in patterns for key in client.scan_iter(pattern, count=1000)]
    return [key for key in found if client.pttl(key) == -1]


def at_rest(client: redis.Redis, *queues: Queue[Any]) -> None:
    """Nothing is under way, nothing is held, all adds up."""
    sound(*queues)
    assert keys_held(client) == []


# --- found again -------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("point", ["out", "in"])
@pytest.mark.parametrize("to", ["b", "c"])
def test_the_next_move_finishes_one_that_is_far_back_in_the_journal(
    redisq: Redisq, client: redis.Redis, point: str, to: str
) -> None:
    source, target = filled(client, "delay", "a", 10), made(client, "delay", "b")
    other = made(client, "delay", "c")
    all_ids = ours(source)
    killed(redisq, point, 1, *MOVE, "--max", "4")
    for _ in range(10):
        redisq("queue", "pause", "a", "--yes")
        redisq("queue", "resume", "a", "--yes")
    idle(source, target)
    moved = redisq.rows("move", "a", "--to", to, "--state", "dead", "--yes")[0]["done"]
    assert moved == 6
    assert len(entries(target, "dead")) == (10 if to == "b" else 4)
    assert ours(source, target, other) == all_ids
    at_rest(client, source, target, other)


def test_a_move_that_matches_nothing_finishes_it(redisq: Redisq, client: redis.Redis) -> None:
    source, target = filled(client, "delay", "a", 10), made(client, "delay", "b")
    all_ids = ours(source)
    killed(redisq, "out", 1, *MOVE)
    idle(source)
    before = entries(source, "trash")
    for words in (("--dry-run",), ("--plan", "p")):  # nothing is changed
        redisq("move", "a", "--to", "b", "--state", "dead", "--match", "zzz", *words)
        assert entries(source, "trash") == before
    redisq(*MOVE, "--match", "zzz")
    assert "finished move-" in redisq.err and "10 entries are in b" in redisq.err
    assert len(entries(target, "dead")) == 10 and ours(source, target) == all_ids
    at_rest(client, source, target)


@pytest.mark.parametrize("whose", ["a", "b"])
def test_a_workers_upkeep_finishes_it(
    redisq: Redisq, client: redis.Redis, whose: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Of the queue it went from, and of the other one."""
    source, target = filled(client, "fair", "a", 10, 3), made(client, "fair", "b", 2)
    all_ids = ours(source)
    killed(redisq, "in", 1, *MOVE)
    idle(source, target)
    queue = run(client, Deployment(client).queue(whose))
    with caplog.at_level(logging.WARNING, "redisq_ops"):
        run(client, TransferRecoverer().look(queue))
    assert "finished move-" in caplog.text
    assert len(entries(target, "dead")) == 10 and ours(source, target) == all_ids
    at_rest(client, source, target)


def test_nobody_takes_over_from_one_that_is_alive(redisq: Redisq, client: redis.Redis) -> None:
    source, target = filled(client, "delay", "a", 10), made(client, "delay", "b")
    killed(redisq, "out", 1, *MOVE, "--max", "4")
    redisq(*MOVE)
    assert "isn't finished" in redisq.err and "under way" in redisq.err
    assert len(entries(target, "dead")) == 6
    at = client.zrange(source.keys["unfinished"], 0, -1, withscores=True)[0][1]
    clock = FakeClock(int(at) + transfer_recovery.IDLE_MS - 1)
    later = Deployment(client, clock=clock)
    assert run(client, recover(run(client, later.queue("a")))) == []
    clock.advance(0.001)
    (one,) = run(client, recover(run(client, later.queue("a"))))
    assert one.entries == 4 and len(entries(target, "dead")) == 10
    clock.now_ms -= 3 * DAY_MS  # a clock that falls back holds nothing up
    at_rest(client, source, target)


def test_a_clock_that_fell_back_holds_nothing_up(redisq: Redisq, client: redis.Redis) -> None:
    filled(client, "delay", "a", 10)
    target = made(client, "delay", "b")
    killed(redisq, "out", 1, *MOVE)
    deployment = Deployment(client, clock=FakeClock(1_700_000_000_000))
    assert len(run(client, recover(run(client, deployment.queue("a"))))) == 1
    assert len(entries(target, "dead")) == 10


# --- held until then ---------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["delay", "circular", "fair", "carmine", "request"])
@pytest.mark.parametrize("point", ["out", "in", "put away", "put back"])
def test_the_sweep_frees_nothing_that_is_on_its_way(
    redisq: Redisq, client: redis.Redis, kind: str, point: str
) -> None:
    """Days later all of it is there and is finished; also what was on its way back."""
    if kind == "request":
        source, target = requests_filled(client, "a"), requests_made(client, "b")
    else:
        source, target = filled(client, kind, "a", 4, 2), made(client, kind, named(kind, "b"), 3)
    a, b = source.name, target.name
    before = payloads(source)
    move = ("move", a, "--to", b, "--state", "waiting", "--yes")
    if point in ("put away", "put back"):
        (done,) = redisq.rows(*move)
        killed(redisq, point, 1, "undo", done["op"], "--yes")
    else:
        killed(redisq, point, 1, *move)
    clock = FakeClock(source.now() + 3 * DAY_MS)
    deployment = Deployment(client, clock=clock)
    queues = [run(client, deployment.queue(name)) for name in (a, b)]
    for _ in range(3):
        for queue in queues:
            run(client, queue.sweep.op(100))
    assert {one.problem for one in run(client, recover(queues[1]))} <= {None}
    assert payloads(source, target) == before
    assert (payloads(source) == before) is (point in ("put away", "put back"))
    at_rest(client, *queues)
    clock.now_ms += 2 * DAY_MS
    for queue in queues:
        run(client, queue.sweep.op(100))
        assert not entries(queue, "trash")  # held no longer
    assert payloads(source, target) == before


def named(kind: str, name: str) -> str:
    return f"carmine:{name}" if kind == "carmine" else name


def payloads(*queues: Queue[Any]) -> dict[bytes, int]:
    found: dict[bytes, int] = {}
    for queue in queues:
        for state in ("waiting", "delayed", "dead"):
            for entry in entries(queue, state).values():
                assert entry.payload is not None
                found[entry.payload] = found.get(entry.payload, 0) + 1
    return found


def test_emptying_the_trash_leaves_it(redisq: Redisq, client: redis.Redis) -> None:
    source, target = filled(client, "delay", "a", 10), made(client, "delay", "b")
    redisq("purge", "a", "--state", "waiting", "--yes")
    killed(redisq, "out", 1, *MOVE)
    (outcome,) = redisq.rows("trash", "rm", "a", "--yes", code=3)
    assert outcome["done"] == 10 and outcome["skipped"] == {"away": 10}
    run(client, recover(source, idle_ms=0))
    assert len(entries(target, "dead")) == 10
    assert redisq.rows("trash", "rm", "a", "--yes")[0]["done"] == 10
    at_rest(client, source, target)


def test_shards_are_not_changed_meanwhile(redisq: Redisq, client: redis.Redis) -> None:
    source, target = filled(client, "delay", "a", 10, 2), made(client, "delay", "b", 2)
    all_ids = ours(source)
    killed(redisq, "out", 1, *MOVE)
    with pytest.raises(Refused, match=r"move-\w+ .* isn't finished"):
        source.resize(3)
    assert source.shards == 2
    run(client, recover(source, idle_ms=0))
    for queue in (source, target):
        while queue.resize(3):
            pass
    assert ours(source, target) == all_ids and len(entries(target, "dead")) == 10
    at_rest(client, source, target)


@pytest.mark.parametrize("kind", ["delay", "circular"])
def test_undo_after_the_targets_shards_were_given_up_doubles_nothing(
    redisq: Redisq, client: redis.Redis, kind: str
) -> None:
    """What those shards said of the entries still counts."""
    source, target = filled(client, kind, "a", 10), made(client, kind, "b", 3)
    all_ids = ours(source)
    (done,) = redisq.rows(*MOVE)
    assert target.resize(1) == 0
    redisq("undo", done["op"], "--yes", code=3)
    assert ours(source, target) == all_ids
    at_rest(client, source, target)


# --- a target that is gone -----------------------------------------------------------------------


@pytest.mark.parametrize("again", [False, True])
def test_of_a_target_that_was_destroyed_all_on_its_way_come_back(
    redisq: Redisq, client: redis.Redis, again: bool
) -> None:
    source, target = filled(client, "delay", "a", 10), made(client, "delay", "b")
    all_ids = ours(source)
    killed(redisq, "out", 1, *MOVE)
    client.hdel("redisq:registry", "b")
    client.delete(*client.keys("redisq:{b}:*"))
    if again:  # another queue of that name
        target = made(client, "delay", "b")
    idle(source)
    run(client, TransferRecoverer().look(source))
    assert ours(source) == all_ids and not ours(target)
    at_rest(client, source)


def test_destroying_a_queue_finishes_what_is_on_its_way(
    redisq: Redisq, client: redis.Redis
) -> None:
    """What is on its way out of it is in the other queue then; what is on its way in comes back."""
    filled(client, "delay", "a", 10)
    target, third = made(client, "delay", "b"), made(client, "delay", "c")
    killed(redisq, "out", 1, *MOVE)
    redisq("queue", "rm", "a", "--hard", "--yes")
    assert len(entries(target, "dead")) == 10
    at_rest(client, target)
    killed(redisq, "out", 1, "move", "b", "--to", "c", "--state", "dead", "--yes")
    redisq("queue", "rm", "c", "--yes")
    assert len(entries(target, "dead")) == 10
    at_rest(client, target)
    assert not client.keys("redisq:{c}:land*") and third.counts().dead == 0


def test_a_move_notices_that_its_target_was_destroyed(redisq: Redisq, client: redis.Redis) -> None:
    source = filled(client, "delay", "a", 30)
    made(client, "delay", "b")
    all_ids = ours(source)
    change = moving(client, "a", "b")
    assert run(client, change.step())
    redisq("queue", "rm", "b", "--hard", "--yes")
    with pytest.raises(Refused, match="removed"):
        finish(client, change)
    assert ours(source) == all_ids  # of the last step nobody can tell what had arrived
    run(client, change.reached())
    at_rest(client, source)


def moving(
    client: Any, source: str, to: str, size: int = 10, clock: Any = None
) -> ChangeRun[EntrySteps]:
    """A move of what is dead, steps of ten."""
    deployment = Deployment(client, clock=clock)
    queue = run(client, deployment.queue(source))
    way = run(client, route_to(deployment, queue, to))
    chosen = run(client, select(queue, "dead", Filter()))
    change = entry_change(chosen, "move", ME, route=way)
    change.steps.stride.size = size
    change.steps.stride.learn = lambda *_: None  # type: ignore[method-assign]
    return change


# --- without rights -------------------------------------------------------------------------------


def test_who_lacks_the_rights_says_so_once_and_leaves_it_to_others(
    redisq: Redisq, client: redis.Redis, url: str, caplog: pytest.LogCaptureFixture
) -> None:
    source, target = filled(client, "delay", "a", 10), made(client, "delay", "b")
    killed(redisq, "out", 1, *MOVE)
    idle(source)
    client.acl_setuser(
        "half",
        enabled=True,
        passwords=["+pw"],
        keys=["redisq:{a}:*", "redisq:registry"],
        channels=["redisq:{a}:*"],
        categories=["+@all"],
    )
    with redis.Redis.from_url(url.replace("//", "//half:pw@"), protocol=3) as weak:
        queue, recoveries = run(weak, Deployment(weak).queue("a")), TransferRecoverer()
        with caplog.at_level(logging.WARNING, "redisq_ops"):
            for _ in range(3):
                run(weak, recoveries.look(queue))
    client.acl_deluser("half")
    assert len(caplog.records) == 1 and "is unfinished" in caplog.text
    assert len(entries(source, "trash")) == 10
    run(client, TransferRecoverer().look(source))  # at once: nobody's turn was taken
    assert len(entries(target, "dead")) == 10
    at_rest(client, source, target)


# --- named ---------------------------------------------------------------------------------------


def test_fsck_explain_and_ls_name_it(redisq: Redisq, client: redis.Redis) -> None:
    source, target = filled(client, "delay", "a", 10), made(client, "delay", "b")
    killed(redisq, "out", 1, *MOVE, "--reason", "x")
    idle(source)
    (op,) = source.unfinished_transfers()
    (row,) = [row for row in redisq.rows("fsck", code=1) if row["faults"]]
    (line,) = row["faults"]
    assert row["queue"] == "a" and op in line and f"redisq undo {op}" in line
    assert "from a to b" in line and "nobody is at it" in line and "begun 20" in line
    said = {one["rule"]: one for one in redisq.rows("explain", "a")[0]["also"]}
    assert said["unfinished"]["command"] == f"redisq undo {op}"
    assert op in redisq("ls")
    rows = {row["name"]: row["unfinished"] for row in redisq.rows("ls")}
    assert rows == {"a": [op], "b": []}
    redisq("undo", op, "--yes")
    assert len(entries(source, "dead")) == 10
    assert "adds up" in redisq("fsck")
    assert op not in redisq("ls")
    at_rest(client, source, target)


# --- killed anywhere -----------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "shards"), [("delay", 1), ("fair", 3), ("request", 2)])
@pytest.mark.parametrize("what", ["move", "undo"])
def test_killed_anywhere_it_is_finished_by_others(
    client: redis.Redis,
    kind: str,
    shards: int,
    what: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Kill, days, sweeps, and then a worker of either queue."""
    link, nth, dead = Link(monkeypatch), 0, True
    while dead:
        nth += 1 if shards == 1 else 2
        client.flushall()
        if kind == "request":
            source, target = requests_filled(client, "a", 12, shards), requests_made(client, "b")
        else:
            source, target = filled(client, kind, "a", 12, shards), made(client, kind, "b", shards)
        before = payloads(source)
        clock = FakeClock(source.now())
        change: Any = moving(client, "a", "b", 5, clock)
        if what == "undo":
            finish(client, change)
            deployment = Deployment(client, clock=clock)
            queue, operation = run(client, audit_log.find(deployment, change.op))
            change = ChangeRun(run(client, undo_of(deployment, queue, operation)), ME)
        dead = link.until(nth, lambda change=change: finish(client, change))  # type: ignore[misc]
        clock.now_ms += 3 * DAY_MS
        queues = [run(client, Deployment(client, clock=clock).queue(name)) for name in "ab"]
        for queue in (*queues, *queues):
            run(client, queue.sweep.op(100))
        run(client, recover(queues[nth % 2]))
        run(client, recover(queues[1 - nth % 2]))
        assert payloads(source, target) == before
        at_rest(client, *queues)
    assert nth > 10


def test_an_undo_that_begins_again_keeps_the_step_where_the_first_was_killed(
    client: redis.Redis,
) -> None:
    """Undo goes from the last step to the first; the killed step may have entries in transit."""
    queue = DelaySet(client, "a")
    queue.schedule([("e1", b"x")], after=60)
    for step, recorded in ((4, b"4"), (2, b"2"), (4, b"2"), (1, b"1")):
        run(client, list_unfinished(queue, "move-0123456789", step))
        assert client.hget("redisq:{a}:op:move-0123456789", "taking") == recorded


@pytest.mark.slow
@pytest.mark.parametrize("signals", [False, True])
def test_kills_among_all_that_goes_on_beside(url: str, signals: bool) -> None:
    """As `python -m tests.ops.change.killed_moves` has a thousand."""
    told = stories(50, url, 7, signals)
    assert told["killed"] == 50 and told["entries"] > 300 and told["resize"] and told["undo"]

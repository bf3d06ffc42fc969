"""Entries of one queue go to another: each is in one of them, once, whatever happens on the way."""

from __future__ import annotations

import io
import json
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest
import redis

from redisq_ops.cli import confirm_and_run
from redisq_ops.cli.main import run as cli_run
from redisq_ops.core.engine import transfer as core_transfer
from redisq_ops.core.engine.queue import Queue
from redisq_ops.core.model.entry import Entry, Settlement, State
from redisq_ops.core.model.errors import Refused, Superseded
from redisq_ops.core.queues.carmine import CarmineQueue, ShardedCarmineQueue
from redisq_ops.core.queues.circular import CircularQueue
from redisq_ops.core.queues.circular.sharded import ShardedCircularQueue
from redisq_ops.core.queues.delay import DelaySet
from redisq_ops.core.queues.delay.sharded import ShardedDelaySet
from redisq_ops.core.queues.fair import FairQueue
from redisq_ops.core.queues.fair.sharded import ShardedFairQueue
from redisq_ops.core.redis import operation as core_io
from redisq_ops.core.redis.client import connect
from redisq_ops.core.redis.operation import run, together
from redisq_ops.core.redis.transport import exchange
from redisq_ops.demo.server import EmbeddedServer, binaries
from redisq_ops.ops.change import audit_log, transfer
from redisq_ops.ops.change.apply import PlanSteps
from redisq_ops.ops.change.entry_steps import EntryAction, Pick
from redisq_ops.ops.change.plan import PlanFile
from redisq_ops.ops.change.runner import ChangeRun
from redisq_ops.ops.change.transfer_plan import planned_route, route_to
from redisq_ops.ops.change.transfer_undo import undo_of
from redisq_ops.ops.change.undo import UndoSteps
from redisq_ops.ops.deployment import Deployment

from ...atomicity.database import Database
from ...changes import plan_change
from ...command_line import ERROR, Redisq, dead_letters
from ...conftest import Clusters
from ...model.wire import picture

pytestmark = [pytest.mark.alike, pytest.mark.slow]

KINDS = ("delay", "circular", "fair", "carmine")
ME = audit_log.Author("ada", "laptop", "because")
STATES: tuple[State, ...] = ("waiting", "delayed", "dead")
EVERYWHERE: tuple[State, ...] = (*STATES, "trash")


@pytest.fixture(autouse=True)
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder of one's own."""
    monkeypatch.chdir(tmp_path)


def made(client: Any, kind: str, name: str, shards: int = 1) -> Any:
    """A queue of a kind; Carmine's are called carmine:name."""
    one = {"delay": DelaySet, "circular": CircularQueue, "fair": FairQueue, "carmine": CarmineQueue}
    many: dict[str, Any] = {
        "delay": ShardedDelaySet,
        "circular": ShardedCircularQueue,
        "fair": ShardedFairQueue,
        "carmine": ShardedCarmineQueue,
    }
    queue = many[kind](client, name, shards=shards) if shards > 1 else one[kind](client, name)
    run(client, queue._ensure_registered())
    return queue


def named(kind: str, name: str) -> str:
    return f"carmine:{name}" if kind == "carmine" else name


def put(queue: Any, ids: list[str], payload: bytes = b"x") -> None:
    """What waits, whatever a kind calls that."""
    for low in range(300, len(ids), 300):
        put(queue, ids[low : low + 300], payload)
    ids = ids[:300]
    pairs = [(id, payload + id.encode()) for id in ids]
    if queue.kind == "delay":
        queue.schedule(pairs, after=0)
    elif queue.kind == "circular":
        queue.push(pairs)
    elif queue.kind == "fair":
        for k in range(3):
            queue.submit(f"c{k}", [pair for n, pair in enumerate(pairs) if n % 3 == k])
    else:
        queue.enqueue(pairs)


def filled(client: Any, kind: str, name: str, n: int = 6, shards: int = 1) -> Any:
    """``n`` dead with an error, ``n`` delayed after a failure, ``n`` waiting of which one lost."""
    queue = made(client, kind, named(kind, name), shards)
    if not n:
        return queue
    put(queue, [f"e{i}" for i in range(3 * n)])
    taken = queue.take(2 * n, consumer="w1").deliveries
    error = ERROR.encoded()
    queue.settle(
        [
            Settlement(d, "reject", error) if i < n else Settlement(d, "fail", error, 600)
            for i, d in enumerate(taken)
        ]
    )
    return queue


def entries(queue: Queue[Any], state: State) -> dict[str, Entry]:
    """All of a state by id, as they are found one by one."""
    found: dict[str, Entry] = {}
    cursor = None
    while True:
        page = queue.page(state, cursor, 100, None, True)
        found |= {entry.id: entry for entry in page.entries}
        cursor = page.cursor
        if cursor is None:
            return found


def ids(*queues: Queue[Any], states: tuple[State, ...] = STATES) -> Counter[str]:
    """How often an id is somewhere it may be worked on, or dead."""
    return Counter(id for queue in queues for state in states for id in entries(queue, state))


def told(entry: Entry) -> tuple[Any, ...]:
    """What has to be the same behind a move."""
    return (
        entry.state,
        entry.payload,
        entry.client,
        entry.failures,
        entry.lost,
        entry.first_ms,
        entry.reason,
        entry.error,
        entry.at_ms if entry.state != "waiting" else None,
    )


def sound(*queues: Queue[Any]) -> None:
    for queue in queues:
        assert queue.invariants() == []


# --- what it does -------------------------------------------------------------


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("kind", KINDS)
def test_entries_go_on_as_they_were_and_come_back(
    redisq: Redisq, client: redis.Redis, kind: str, state: State
) -> None:
    source, target = filled(client, kind, "a"), filled(client, kind, "b", 0)
    put(target, ["other"])
    before, all_ids = entries(source, state), ids(source)
    waited = [entry.id for entry in source.page("waiting").entries]
    a, b = source.name, target.name
    (outcome,) = redisq.rows("move", a, "--to", b, "--state", state, "--yes")
    assert (outcome["matched"], outcome["done"], outcome["skipped"]) == (6, 6, {})
    there = entries(target, state)
    there.pop("other", None)
    assert {id: told(entry) for id, entry in there.items()} == {
        id: told(entry) for id, entry in before.items()
    }
    assert not entries(source, state) and set(entries(source, "trash")) == set(before)
    assert ids(source, target) == all_ids + Counter(["other"])
    sound(source, target)
    (plan,) = redisq.rows("undo", "--dry-run")
    assert plan["untouched"] == 6 and plan["list"].startswith(f"redisq select {b} --where 'state:")
    assert redisq.rows("undo", "--yes")[0]["done"] == 6
    back = entries(source, state)
    assert {id: told(entry) for id, entry in back.items()} == {
        id: told(entry) for id, entry in before.items()
    }
    if kind != "circular":  # there who comes back is behind, as after a purge
        assert [entry.id for entry in source.page("waiting").entries] == waited
    assert ids(target) == Counter(["other"]) and not entries(target, "trash")
    sound(source, target)


@pytest.mark.parametrize("kind", KINDS)
def test_what_was_moved_is_worked_on_there(redisq: Redisq, client: redis.Redis, kind: str) -> None:
    source, target = filled(client, kind, "a", 3), made(client, kind, named(kind, "b"))
    put(target, ["first"])
    redisq("move", source.name, "--to", target.name, "--state", "waiting", "--yes")
    taken = target.take(10, consumer="w").deliveries
    assert len(taken) == 4 and not source.take(10, consumer="w").deliveries
    assert {d.id: d.payload for d in taken} == {
        id: b"x" + id.encode() for id in ("first", *entries(source, "trash"))
    }
    if kind != "delay" and kind != "carmine" and kind != "fair":
        assert taken[0].id == "first"  # what comes is behind what waits
    assert target.settle([Settlement(d, "ack") for d in taken]) == ["done"] * 4
    sound(source, target)


@pytest.mark.parametrize("kind", KINDS)
def test_what_the_target_has_stays_where_it_is(
    redisq: Redisq, client: redis.Redis, kind: str
) -> None:
    source, target = filled(client, kind, "a"), made(client, kind, named(kind, "b"))
    dead = sorted(entries(source, "dead"))
    put(target, [dead[2]], b"another ")
    before = {id: told(entry) for id, entry in entries(source, "dead").items()}
    there = told(target.get(dead[2]))
    redisq("move", source.name, "--to", target.name, "--state", "dead", "--plan", "p")
    (outcome,) = redisq.rows("apply", "p", "--yes", "--report", "r", code=3)
    assert (outcome["matched"], outcome["done"], outcome["skipped"]) == (6, 5, {"exists": 1})
    said = {
        row["id"]: row["said"]
        for row in map(json.loads, Path("r").read_text().splitlines())
        if "said" in row
    }
    assert said == {id: "exists" if id == dead[2] else "moved" for id in dead}
    assert told(target.get(dead[2])) == there
    (left,) = entries(source, "dead").values()
    assert (left.id, told(left)) == (dead[2], before[dead[2]])
    sound(source, target)
    assert (redisq.rows("log")[0]["done"], redisq.rows("undo", "--yes")[0]["done"]) == (5, 5)
    assert {id: told(entry) for id, entry in entries(source, "dead").items()} == before
    assert told(target.get(dead[2])) == there
    sound(source, target)


@pytest.mark.parametrize("kind", KINDS)
def test_undo_leaves_what_was_touched(redisq: Redisq, client: redis.Redis, kind: str) -> None:
    source, target = filled(client, kind, "a"), made(client, kind, named(kind, "b"))
    redisq("move", source.name, "--to", target.name, "--state", "waiting", "--yes")
    working, done, given_back = target.take(3, consumer="w").deliveries
    target.settle([Settlement(done, "ack"), Settlement(given_back, "release")])
    (outcome,) = redisq.rows("undo", "--yes", code=3)
    assert (outcome["matched"], outcome["done"], outcome["skipped"]) == (6, 3, {"changed": 3})
    assert target.settle([Settlement(working, "ack")]) == ["done"]
    assert len(entries(source, "waiting")) == 3 and ids(target) == Counter([given_back.id])
    assert {done.id, working.id, given_back.id} == set(entries(source, "trash"))
    assert "undone already" in redisq.refusal("undo", redisq.rows("log")[1]["id"], "--yes", code=1)
    sound(source, target)


@pytest.mark.parametrize("kind", KINDS)
def test_what_an_operator_changed_there_comes_back_once_that_is_undone(
    redisq: Redisq, client: redis.Redis, kind: str
) -> None:
    source, target = filled(client, kind, "a"), made(client, kind, named(kind, "b"))
    op = redisq.rows("move", source.name, "--to", target.name, "--state", "waiting", "--yes")[0][
        "op"
    ]
    (done,) = target.take(1, consumer="w").deliveries
    target.settle([Settlement(done, "ack")])
    purged = target.page("waiting", None, 2).entries
    redisq("purge", *(f"{target.name}/{entry.id}" for entry in purged), "--yes")
    said = redisq("undo", op, "--dry-run")
    assert f"3 of them are unchanged: redisq select {target.name} --where " in said
    (plan,) = redisq.rows("undo", op, "--dry-run")
    assert (plan["matched"], plan["untouched"]) == (6, 3)
    redisq("undo", op, "--yes", code=3)
    told = "2 of them were changed by operators there; once that is undone, these come back with: "
    assert f"{told}redisq undo {op}\n" in redisq.err
    sound(source, target)
    (row,) = [row for row in redisq.rows("log") if row["id"] == op]
    assert (row["undone"], row["undoable"]) == (3, True)
    redisq("undo", "--yes")  # without a name that is the purge, and never the move again
    assert redisq.rows("undo", op, "--dry-run")[0]["untouched"] == 2
    assert "3 undone" in redisq("log", "--queue", source.name)
    (outcome,) = redisq.rows("undo", op, "--yes", code=3)
    assert (outcome["done"], outcome["skipped"]) == (2, {"changed": 1, "by another undo": 3})
    assert len(entries(source, "waiting")) == 5 and not ids(target)
    assert "undone already" in redisq.refusal("undo", op, "--yes", code=1)
    sound(source, target)


def test_what_a_worker_had_is_changed_to_every_undo(redisq: Redisq, client: redis.Redis) -> None:
    """Also what was in a step of its own, of which nothing may come back."""
    source, target = made(client, "delay", "a"), made(client, "delay", "b")
    put(source, [f"e{i:02}" for i in range(20)])
    redisq("move", "a", "--to", "b", "--state", "waiting", "--plan", "p")
    change = applied(client)
    finish(client, change)
    first = target.take(10, consumer="w").deliveries
    target.settle([Settlement(one, "ack") for one in first])
    redisq("purge", "b", "--state", "waiting", "--yes")
    (outcome,) = redisq.rows("undo", change.op, "--yes", code=1)
    assert (outcome["done"], outcome["skipped"]) == (0, {"changed": 20})
    redisq("undo", "--yes")
    (outcome,) = redisq.rows("undo", change.op, "--yes", code=3)
    assert (outcome["done"], outcome["skipped"]) == (10, {"changed": 10})
    assert len(ids(source)) == 10 and not ids(target)
    sound(source, target)


@pytest.mark.parametrize("kind", KINDS)
def test_what_a_worker_had_stays_done_when_its_queue_is_destroyed(
    redisq: Redisq, client: redis.Redis, kind: str
) -> None:
    """The undo before saw that, and what another one may bring back is no promise of it."""
    source, target = filled(client, kind, "a"), made(client, kind, named(kind, "b"))
    move = ("move", source.name, "--to", target.name, "--state", "waiting", "--yes")
    op = redisq.rows(*move)[0]["op"]
    delivered = target.take(3, consumer="w").deliveries
    done, failed, dead = (d.id for d in delivered)
    error = ERROR.encoded()
    target.settle(
        [
            Settlement(delivered[0], "ack"),
            Settlement(delivered[1], "fail", error),
            Settlement(delivered[2], "reject", error),
        ]
    )
    (purged,) = [id for id in entries(target, "waiting") if id != failed][:1]
    redisq("purge", f"{target.name}/{purged}", f"{target.name}/{failed}", "--yes")
    redisq("replay", f"{target.name}/{dead}", "--yes")
    redisq("undo", op, "--yes", code=3)
    told = "1 of them was changed by operators there; once that is undone, it comes back with: "
    assert f"\n{told}redisq undo {op}\n" in redisq.err
    redisq("queue", "rm", target.name, "--hard", "--yes")
    (plan,) = redisq.rows("undo", op, "--dry-run")
    assert plan["untouched"] == 1 and "1 come back" in redisq("undo", op, "--dry-run")
    (outcome,) = redisq.rows("undo", op, "--yes", code=3)
    assert (outcome["done"], outcome["skipped"]) == (1, {"changed": 3, "by another undo": 2})
    back = entries(source, "waiting")
    assert len(back) == 3 and purged in back and not {done, failed, dead} & set(back)
    assert "undone already" in redisq.refusal("undo", op, "--yes", code=1)
    sound(source)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_a_full_target_takes_what_fits(redisq: Redisq, client: redis.Redis, kind: str) -> None:
    source, target = filled(client, kind, "a", 7), made(client, kind, named(kind, "b"))
    put(target, ["there"])
    redisq("settings", target.name, "max_waiting=4", "--yes")
    redisq("move", source.name, "--to", target.name, "--state", "waiting", "--plan", "p")
    (outcome,) = redisq.rows("apply", "p", "--yes", code=3)
    assert (outcome["done"], outcome["left"], outcome["halted"]) == (3, 4, "full")
    assert len(entries(source, "waiting")) == 4 and len(entries(target, "waiting")) == 4
    (outcome,) = redisq.rows("apply", "p", "--yes", code=3)
    assert (outcome["done"], outcome["left"]) == (3, 4)
    said = redisq("apply", "p", "--yes", code=3) + redisq.err
    assert f"4 left ({target.name} is full)" in said
    (outcome,) = redisq.rows(
        "move", source.name, "--to", target.name, "--state", "waiting", "--yes", code=1
    )
    assert (outcome["done"], outcome["skipped"]) == (0, {"full": 4})
    # What is dead doesn't wait.
    assert (
        redisq.rows("move", source.name, "--to", target.name, "--state", "dead", "--yes")[0]["done"]
        == 7
    )
    redisq("settings", target.name, "max_waiting=", "--yes")
    assert redisq.rows("apply", "p", "--yes")[0]["done"] == 7
    sound(source, target)


def test_a_target_that_drains_takes_nothing(redisq: Redisq, client: redis.Redis) -> None:
    source, target = filled(client, "delay", "a"), filled(client, "delay", "b", 0)
    put(target, ["there"])
    redisq("queue", "drain", "b", "--yes")
    before = entries(source, "dead"), entries(source, "waiting")
    (outcome,) = redisq.rows("move", "a", "--to", "b", "--state", "dead", "--yes", code=1)
    assert (outcome["done"], outcome["skipped"]) == (0, {"closed": 6})
    assert (entries(source, "dead"), entries(source, "waiting")) == before
    assert redisq.rows("log", "--queue", "a")[0]["ended"] is True


@pytest.mark.parametrize(("setting", "word"), [("max_waiting=3", "full"), ("closed", "closed")])
@pytest.mark.parametrize("kind", KINDS)
def test_what_is_refused_on_arrival_is_put_back(
    redisq: Redisq,
    client: redis.Redis,
    kind: str,
    setting: str,
    word: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Somebody filled or closed it between the look and the step."""
    source, target = filled(client, kind, "a"), made(client, kind, named(kind, "b"))
    put(target, ["there"])
    if word == "closed":
        redisq("queue", "drain", target.name, "--yes")
    else:
        redisq("settings", target.name, setting, "--yes")

    async def open_(self: Any) -> str:
        return ""

    monkeypatch.setattr(transfer.MoveAction, "obstacle", open_)
    before = [e.id for e in source.page("waiting").entries]
    (outcome,) = redisq.rows(
        "move",
        source.name,
        "--to",
        target.name,
        "--state",
        "waiting",
        "--yes",
        code=3 if word == "full" else 1,
    )
    done = 2 if word == "full" else 0
    assert (outcome["done"], outcome["skipped"]) == (done, {word: 6 - done})
    assert redisq.rows("log")[0]["done"] == done
    assert ids(source, target, states=("waiting",)) == Counter([*before, "there"])
    if kind != "circular":
        assert [e.id for e in source.page("waiting").entries] == before[done:]
    sound(source, target)


@pytest.mark.parametrize("kind", KINDS)
def test_a_move_and_a_move_back(redisq: Redisq, client: redis.Redis, kind: str) -> None:
    """What a move left in the trash doesn't stand in the way of the next."""
    source, target = filled(client, kind, "a"), made(client, kind, named(kind, "b"))
    put(target, ["there"])
    a, b = source.name, target.name
    for _ in range(2):
        for one, other in ((a, b), (b, a)):
            for state in STATES:
                words = ("move", one, "--to", other, "--state", state, "--match", "^e")
                assert redisq.rows(*words, "--yes")[0]["done"] == 6
            sound(source, target)
    assert ids(source) == Counter(f"e{i}" for i in range(18))
    assert ids(target) == Counter(["there"])
    # The first way's undo finds that they were moved on since.
    ways = [row for row in redisq.rows("log") if row["verb"] == "move" and row["queue"] == a]
    (outcome,) = redisq.rows("undo", ways[-1]["id"], "--yes", code=1)
    assert outcome["done"] == 0 and ids(source, target).most_common(1)[0][1] == 1
    sound(source, target)


def test_several_queues_go_to_one(redisq: Redisq, client: redis.Redis) -> None:
    one, other = filled(client, "delay", "a"), made(client, "delay", "c")
    other.schedule([("o1", b"x"), ("o2", b"x")], after=0)
    target = made(client, "delay", "b")
    first, second = redisq.rows("move", "a", "c", "--to", "b", "--state", "waiting", "--yes")
    assert (first["done"], second["done"]) == (6, 2) and len(entries(target, "waiting")) == 8
    sound(one, other, target)
    said = redisq.refusal("move", "a", "b", "--to", "b", "--state", "waiting", "--yes", code=2)
    assert "where they are" in said


def test_a_move_whose_copies_were_emptied_stays(redisq: Redisq, client: redis.Redis) -> None:
    source, target = filled(client, "fair", "a"), made(client, "fair", "b")
    redisq("move", "a", "--to", "b", "--state", "dead", "--yes")
    redisq("trash", "rm", "a", "--max", "2", "--yes")
    op = next(row["id"] for row in redisq.rows("log") if row["verb"] == "move")
    (outcome,) = redisq.rows("undo", op, "--yes", code=3)
    assert (outcome["done"], outcome["skipped"]) == (4, {"changed": 2})
    assert len(entries(source, "dead")) == 4 and len(entries(target, "dead")) == 2
    assert max(ours(source, target).values()) == 1
    sound(source, target)


@pytest.mark.parametrize("kind", ["delay", "circular", "carmine"])
def test_what_runs_again_goes_along(redisq: Redisq, client: redis.Redis, kind: str) -> None:
    """Pushed or rescheduled while it was worked on: what follows is part of the entry."""
    source, target = made(client, kind, named(kind, "a")), made(client, kind, named(kind, "b"))
    put(source, ["e1"])
    put(target, ["there"])
    (delivery,) = source.take(1, consumer="w").deliveries
    if kind == "delay":
        source.schedule([("e1", b"second")], after=0, mode="move")
    elif kind == "circular":
        source.push([("e1", b"second")])
    else:
        source.enqueue([("e1", b"second")], requeue=True)
    source.settle([Settlement(delivery, "fail", ERROR.encoded(), 0)])
    state = source.get("e1").state
    redisq("move", f"{source.name}/e1", "--to", target.name, "--state", state, "--yes")
    runs = []
    for _ in range(3):
        for d in target.take(5, consumer="w").deliveries:
            runs.append((d.id, d.payload))
            target.settle([Settlement(d, "ack")])
    assert runs.count(("e1", b"xe1")) == runs.count(("e1", b"second")) == 1, kind
    sound(source, target)


def test_circles_that_count_differently_do_not_mix(redisq: Redisq, client: redis.Redis) -> None:
    one, other = CircularQueue(client, "a", repeats="each"), CircularQueue(client, "b")
    one.push(["e1", "e1", "e1"])
    other.push(["there"])
    said = redisq.refusal("move", "a", "--to", "b", "--state", "waiting", "--yes", code=1)
    assert "repeats=each" in said
    more = CircularQueue(client, "c", repeats="each")
    more.push(["there"])
    redisq("move", "a", "--to", "c", "--state", "waiting", "--yes")
    runs = []
    while taken := more.take(5, consumer="w").deliveries:
        runs += [d.id for d in taken]
        more.settle([Settlement(d, "ack") for d in taken])
    assert Counter(runs) == {"there": 1, "e1": 3}


# --- shards and slots ---------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(("few", "many"), [(1, 4), (4, 1), (3, 5)])
@pytest.mark.parametrize("kind", KINDS)
def test_queues_of_different_shards(
    redisq: Redisq, client: redis.Redis, kind: str, few: int, many: int
) -> None:
    filled(client, kind, "a", 20, few)
    put(made(client, kind, named(kind, "b"), many), ["there"])
    a, b = named(kind, "a"), named(kind, "b")
    source, target = (run(client, Deployment(client).queue(name)) for name in (a, b))
    before = {state: entries(source, state) for state in STATES}
    put(target, [max(before["dead"])], b"another ")
    moves = []
    for state in STATES:
        done = 19 if state == "dead" else 20
        (outcome,) = redisq.rows(
            "move", a, "--to", b, "--state", state, "--yes", code=3 if state == "dead" else 0
        )
        assert (outcome["matched"], outcome["done"]) == (20, done)
        assert outcome["skipped"] == ({"exists": 1} if state == "dead" else {})
        moves.append(outcome["op"])
    moved = {state: entries(target, state) for state in STATES}
    for state in STATES:
        for id, entry in moved[state].items():
            if id in before[state]:
                assert told(entry) == told(before[state][id])
    sound(source, target)
    for op in reversed(moves):
        redisq("undo", op, "--yes")
    for state in STATES:
        assert {id: told(entry) for id, entry in entries(source, state).items()} == {
            id: told(entry) for id, entry in before[state].items()
        }
    sound(source, target)


def test_an_id_that_another_client_has_in_another_shard(
    redisq: Redisq, client: redis.Redis
) -> None:
    source = FairQueue(client, "a")
    target = ShardedFairQueue(client, "b", shards=5)
    source.submit("ann", [(f"e{n}", b"x") for n in range(20)])
    for n in range(20):
        target.submit(f"c{n}", [(f"e{n}", b"mine")])
    (outcome,) = redisq.rows("move", "a", "--to", "b", "--state", "waiting", "--yes", code=1)
    assert outcome["skipped"] == {"exists": 20}
    assert ids(source) == ids(target)
    sound(source, target)


def test_not_while_shards_change(redisq: Redisq, client: redis.Redis) -> None:
    source = ShardedDelaySet(client, "a", shards=2)
    put(source, ["e1", "e2", "e3"])
    other = DelaySet(client, "b")
    put(other, ["there"])
    source.take(3, consumer="w", lease=600)
    assert source.resize(3)
    said = redisq.refusal("move", "b", "--to", "a", "--state", "waiting", "--yes", code=1)
    assert "changing its shards" in said
    said = redisq.refusal("move", "a", "--to", "b", "--state", "waiting", "--yes", code=1)
    assert "changing its shards" in said


# --- killed anywhere ----------------------------------------------------------


class Killed(BaseException):
    """Nothing more of that process happens."""


class Link:
    """What goes to the server; the process is killed before the n-th exchange.

    Killed behind the one before, it would leave the same.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.seen = 0
        self.last: int | None = None
        monkeypatch.setattr(core_io, "exchange", self)

    def __call__(self, client: Any, calls: Any) -> Any:
        self.seen += 1
        if self.seen != self.last:
            return exchange(client, calls)
        raise Killed

    def until(self, nth: int, act: Callable[[], object]) -> bool:
        """Do that; whether it was killed."""
        self.seen, self.last = 0, nth
        try:
            act()
        except Killed:
            assert self.seen == nth, "a killed process sends nothing more"
            return True
        finally:
            self.last = None
        return False


def ours(*queues: Queue[Any]) -> Counter[str]:
    """How often each of the entries that `filled` made can be worked on, or is dead."""
    rows = (entries(queue, state).values() for queue in queues for state in STATES)
    return Counter(e.id for row in rows for e in row if (e.payload or b"").startswith(b"x"))


def once(source: Queue[Any], target: Queue[Any], all_ids: Counter[str], op: str) -> None:
    """Each is once where it may be worked on, or else in the trash under the move's name."""
    found = ours(source, target)
    assert max(found.values()) == 1 and found <= all_ids
    for id in all_ids - found:
        entry = source.get(id)
        assert entry is not None and entry.state == "trash" and entry.op == op
    sound(source, target)


def applied(client: redis.Redis, path: str = "p", **more: Any) -> ChangeRun[PlanSteps]:
    """A plan being carried out, steps of ten."""
    plan = PlanFile(path)
    deployment = Deployment(client)
    queue = run(client, deployment.queue(plan.header.queue))
    way = run(client, planned_route(deployment, queue, plan.header))
    change = plan_change(plan, queue, ME, route=way, **more)
    change.steps.stride.size = 10
    change.steps.stride.learn = lambda *_: None  # type: ignore[method-assign]
    return change


def finish(client: redis.Redis, change: Any) -> None:
    while run(client, change.step()):
        pass


def undo(client: redis.Redis, op: str) -> None:
    finish(client, recalled(client, op))


def recalled(client: redis.Redis, op: str) -> ChangeRun[UndoSteps]:
    deployment = Deployment(client)
    queue, operation = run(client, audit_log.find(deployment, op))
    return ChangeRun(run(client, undo_of(deployment, queue, operation)), ME)


@pytest.mark.slow
@pytest.mark.parametrize("mended", ["apply", "undo"])
@pytest.mark.parametrize(("kind", "shards"), [("delay", 1), ("fair", 3)])
def test_an_apply_that_is_killed_anywhere_is_mended(
    redisq: Redisq,
    client: redis.Redis,
    kind: str,
    shards: int,
    mended: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    source = filled(client, kind, "a", 25, shards)
    target = made(client, kind, "b", shards)
    all_ids, taken = ours(source), min(entries(source, "dead"))
    put(target, [taken, "there"], b"another ")
    redisq("move", "a", "--to", "b", "--state", "dead", "--plan", "p")
    op = PlanFile("p").header.op
    scene = Database(client)
    scene.save()
    link, nth, killed = Link(monkeypatch), int(mended == "undo"), True
    while killed:
        nth += 1 if shards == 1 else 2
        scene.restore()
        killed = link.until(nth, lambda: finish(client, applied(client)))
        once(source, target, all_ids, op)
        operation = run(client, audit_log.read(source, op))
        if mended == "apply":
            finish(client, applied(client))
            assert set(entries(source, "dead")) == {taken} and len(entries(target, "dead")) == 24
        elif operation is not None and operation.undoable:
            finish(client, recalled(client, op))
            assert len(entries(source, "dead")) == 25 and not entries(target, "dead")
            assert not entries(source, "trash")
        assert ours(source, target) == all_ids
        assert ids(target) - ours(target) == Counter([taken, "there"])
        sound(source, target)
    assert nth > 20


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "shards"), [("delay", 1), ("circular", 2)])
def test_an_undo_that_is_killed_anywhere_is_mended(
    redisq: Redisq,
    client: redis.Redis,
    kind: str,
    shards: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    source = filled(client, kind, "a", 25, shards)
    target = made(client, kind, "b", shards)
    all_ids = ids(source)
    redisq("move", "a", "--to", "b", "--state", "waiting", "--plan", "p")
    change = applied(client)
    finish(client, change)
    taken = target.take(3, consumer="w", lease=3600).deliveries
    target.settle([Settlement(d, "ack") for d in taken[:2]])
    gone, op = Counter(d.id for d in taken), change.op
    scene = Database(client)
    scene.save()
    link, nth, killed = Link(monkeypatch), 0, True
    while killed:
        nth += 1
        scene.restore()
        killed = link.until(nth, partial(undo, client, op))
        found = ids(source, target)
        assert max(found.values()) == 1 and not found & gone
        for id in all_ids - found - gone:
            places = [queue.get(id) for queue in (source, target)]
            assert "trash" in {entry.state for entry in places if entry is not None}
        sound(source, target)
        if run(client, audit_log.find(Deployment(client), op))[1].undoable:
            finish(client, recalled(client, op))
        assert ids(source) == all_ids - gone and not ids(target)
        assert target.settle([Settlement(taken[2], "ack")]) == ["done"]
        sound(source, target)
    assert nth > 20


class Undoing:
    """An undo that comes one exchange further when it is told to."""

    def __init__(self, client: redis.Redis, op: str) -> None:
        self._client, self._change, self.over = client, recalled(client, op), False
        self._begin()

    def _begin(self) -> None:
        self._work: Any = together([self._change.step()])
        self._calls = self._work.send(None)

    def on(self) -> Any:
        calls = self._calls
        try:
            self._calls = self._work.send(exchange(self._client, calls))
        except StopIteration as said:
            self.over = not said.value[0]
            if not self.over:
                self._begin()
        return calls

    def until(self, words: str) -> None:
        """Just behind a script that has these words."""
        while not any(words in (call.source or "") for call in self.on()):
            assert not self.over


@pytest.mark.parametrize("kind", KINDS)
def test_two_undos_at_once_double_nothing_that_could_come_back_just_then(
    redisq: Redisq, client: redis.Redis, kind: str
) -> None:
    source, target = made(client, kind, named(kind, "a")), made(client, kind, named(kind, "b"))
    put(source, ["e1", "e2", "e3"])
    move = ("move", source.name, "--to", target.name, "--state", "waiting", "--yes")
    op = redisq.rows(*move)[0]["op"]
    purge = redisq.rows("purge", f"{target.name}/e2", "--yes")[0]["op"]
    one, other, away = Undoing(client, op), Undoing(client, op), "'withdrawn' and put_away"
    one.until(away)
    redisq("undo", purge, "--yes")
    other.until(away)  # has it, and the first one sees that
    for each in (one, other):
        while not each.over:
            each.on()
    assert ids(source) == Counter(["e1", "e2", "e3"]) and not ids(target, states=EVERYWHERE)
    sound(source, target)


KILLING = """
import os, signal, sys
from redisq_ops.cli import main as cli
from redisq_ops.core.engine import transfer as core
from redisq_ops.ops.change import transfer as ops

point, nth, *words = sys.argv[1:]
seen = 0

def here():
    global seen
    seen += 1
    if seen == int(nth):
        os.kill(os.getpid(), signal.SIGKILL)

def wrapped(function, before):
    async def call(*given, **more):
        here() if before else None
        result = await function(*given, **more)
        here() if not before else None
        return result
    return call

if point == "out":
    ops.EntryAction.move = wrapped(ops.EntryAction.move, False)
elif point == "end":
    ops.MoveAction.end = wrapped(ops.MoveAction.end, True)
elif point == "put away":
    core.revert_entries = wrapped(core.revert_entries, False)
elif point == "forgotten":
    core.drop_undo_list = wrapped(core.drop_undo_list, True)
else:
    name = {"read": "read_step", "in": "accept_entries"}.get(point, "restore_entries")
    setattr(core, name, wrapped(getattr(core, name), point == "refused"))
cli.run(words)
"""


def idle(*queues: Queue[Any]) -> None:
    """Nobody has been at what is unfinished for long."""
    for leaf in [leaf for queue in queues for leaf in queue.shard_queues]:
        key = leaf.keys["unfinished"]
        if known := queues[0].client.zrange(key, 0, -1):
            queues[0].client.zadd(key, dict.fromkeys(known, 1))


def killed(redisq: Redisq, point: str, nth: int, *words: str) -> None:
    """A process of its own that kills itself at that point."""

    def run_and_die() -> None:
        sys.argv = ["", point, str(nth), "--url", redisq.url, *words]
        exec(KILLING, {})

    process = get_context("fork").Process(target=run_and_die)
    process.start()
    process.join()
    assert process.exitcode == -signal.SIGKILL


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_a_killed_process_leaves_nothing_that_apply_does_not_mend(
    redisq: Redisq, client: redis.Redis, kind: str
) -> None:
    source, target = filled(client, kind, "a", 100), made(client, kind, named(kind, "b"))
    taken = sorted(entries(source, "dead"))[::7]
    all_ids = ours(source)
    put(target, taken, b"another ")
    redisq("move", source.name, "--to", target.name, "--state", "dead", "--plan", "p")
    op = PlanFile("p").header.op
    # --max 12 a run, so that each point is met in a step of its own.
    apply = ("apply", "p", "--max", "12", "--yes")
    for point in ("out", "read", "in", "refused", "put back"):
        killed(redisq, point, 1, *apply)
        once(source, target, all_ids, op)
    killed(redisq, "end", 1, "apply", "p", "--yes")
    once(source, target, all_ids, op)
    (outcome,) = redisq.rows("apply", "p", "--yes", code=3)
    assert (outcome["done"], outcome["left"]) == (100 - len(taken), 0)
    assert ours(source, target) == all_ids
    assert set(entries(source, "dead")) == set(taken)
    for point in ("put away", "put back", "forgotten"):
        killed(redisq, point, 1, "undo", op, "--yes")
        found = ours(source, target)
        assert max(found.values()) == 1
        sound(source, target)
    assert redisq("log").count("unfinished") == 3
    redisq("undo", op, "--yes")
    assert ours(source) == all_ids and not ours(target)
    assert "unfinished" not in redisq("log")
    sound(source, target)


@pytest.mark.slow
def test_kills_at_any_time_and_an_undo(redisq: Redisq, client: redis.Redis) -> None:
    source, target = made(client, "delay", "a"), made(client, "delay", "b")
    put(source, [f"e{i}" for i in range(1500)])
    all_ids = ours(source)
    redisq("move", "a", "--to", "b", "--state", "waiting", "--plan", "p")
    op = PlanFile("p").header.op
    words = ["--url", redisq.url, "apply", "p", "--rate", "600/s", "--yes"]
    reached = 0
    for _ in range(4):
        process = subprocess.Popen(
            [sys.executable, "-m", "redisq_ops", *words],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        deadline = time.monotonic() + 90
        while target.counts().waiting < reached + 150:
            assert time.monotonic() < deadline and process.poll() is None
            time.sleep(0.005)
        process.kill()
        process.wait()
        once(source, target, all_ids, op)
        reached = target.counts().waiting
        assert reached < 1500
    assert redisq.rows("apply", "p", "--yes")[0]["done"] == 1500
    assert ours(source, target) == all_ids and len(entries(target, "waiting")) == 1500
    assert redisq.rows("undo", op, "--yes")[0]["done"] == 1500
    assert ours(source) == all_ids
    sound(source, target)


def test_the_same_command_mends_a_move_that_was_killed(
    redisq: Redisq, client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a plan nobody can go on with it: the next move on that way ends its last step."""
    source, target = filled(client, "delay", "a", 10), made(client, "delay", "b")
    all_ids = ours(source)
    killed(redisq, "out", 1, "move", "a", "--to", "b", "--state", "dead", "--max", "4", "--yes")
    assert len(entries(source, "trash")) == 4 and not ours(target)
    said = redisq("explain", f"a/{min(entries(source, 'trash'))}")
    assert "moved to b" in said and "isn't finished" in said and "redisq undo move-" in said
    idle(source)
    assert redisq.rows("move", "a", "--to", "b", "--state", "dead", "--yes")[0]["done"] == 6
    assert len(entries(target, "dead")) == 10 and ours(source, target) == all_ids
    sound(source, target)


def test_ctrl_c_ends_the_step_that_was_under_way(
    redisq: Redisq, client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, target = filled(client, "delay", "a", 10), made(client, "delay", "b")
    land = core_transfer.accept_entries

    async def interrupted(*given: Any) -> Any:
        monkeypatch.setattr(core_transfer, "accept_entries", land)
        raise KeyboardInterrupt

    monkeypatch.setattr(core_transfer, "accept_entries", interrupted)
    (outcome,) = redisq.rows("move", "a", "--to", "b", "--state", "dead", "--yes", code=130)
    assert outcome["done"] == len(entries(target, "dead")) == 10 and not entries(source, "dead")
    sound(source, target)


# --- what stands in its way ---------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_under_way_is_not_replaced(redisq: Redisq, client: redis.Redis, kind: str) -> None:
    """Two entries of one id, each on its way to where the other is, and one of the moves killed."""
    source, target = made(client, kind, named(kind, "a")), made(client, kind, named(kind, "b"))
    a, b = source.name, target.name
    put(source, ["e1"], b"one ")
    put(target, ["e1", "e2"], b"other ")
    words = ("--state", "waiting", "--yes")
    killed(redisq, "out", 1, "move", f"{b}/e1", "--to", a, *words)
    (outcome,) = redisq.rows("move", a, "--to", b, *words, code=1)
    assert outcome["skipped"] == {"exists": 1}
    idle(target)
    assert redisq.rows("move", b, "--to", a, *words)[0]["done"] == 1  # and ends the other one
    assert source.get("e1").payload == b"one e1" and source.get("e1").state == "waiting"
    assert target.get("e1").payload == b"other e1" and target.get("e1").state == "waiting"
    sound(source, target)


@pytest.mark.parametrize("kind", KINDS)
def test_what_comes_back_is_not_restored_over_there(
    redisq: Redisq, client: redis.Redis, kind: str
) -> None:
    """An undo was killed when its entries were back, and before it removed them over there."""
    source, target = filled(client, kind, "a", 60), made(client, kind, named(kind, "b"))
    put(target, ["there"])
    all_ids = ids(source, target)
    redisq("move", source.name, "--to", target.name, "--state", "dead", "--yes")
    op = next(row["id"] for row in redisq.rows("log") if row["verb"] == "move")
    killed(redisq, "put back", 1, "undo", op, "--yes")
    left = entries(target, "trash")
    assert left and set(left) <= set(entries(source, "dead"))
    (outcome,) = redisq.rows("trash", "restore", target.name, "--yes", code=1)
    assert outcome["skipped"] == {"away": len(left)}
    assert ids(source, target) == all_ids
    redisq("undo", op, "--yes")
    assert ids(source, target) == all_ids and len(entries(source, "dead")) == 60
    assert not entries(target, "trash")
    sound(source, target)


def test_what_was_on_its_way_back_comes_back_though_its_id_was_pushed_there(
    redisq: Redisq, client: redis.Redis
) -> None:
    source, target = filled(client, "circular", "a"), made(client, "circular", "b")
    redisq("move", "a", "--to", "b", "--state", "waiting", "--yes")
    op = next(row["id"] for row in redisq.rows("log") if row["verb"] == "move")
    moved = sorted(entries(target, "waiting"))
    killed(redisq, "put away", 1, "undo", op, "--yes")
    target.push([(moved[0], b"afresh")])
    redisq("undo", op, "--yes")
    assert sorted(entries(source, "waiting")) == moved
    assert source.get(moved[0]).payload == b"x" + moved[0].encode()
    assert target.get(moved[0]).payload == b"afresh" and len(entries(target, "waiting")) == 1
    sound(source, target)


def test_what_can_not_come_back_stays(
    redisq: Redisq, client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its copy is replaced by a producer at any moment of the undo."""
    late, nth, replaced = None, 0, 0
    while late is None or late.seen >= nth:
        nth += 1
        client.flushall()
        source, target = made(client, "circular", "a"), made(client, "circular", "b")
        put(source, ["e1", "e2"])
        redisq("move", "a", "--to", "b", "--state", "waiting", "--yes")
        op = next(row["id"] for row in redisq.rows("log") if row["verb"] == "move")
        copy: list[bool] = []

        def push(source: Any = source, copy: list[bool] = copy) -> None:
            copy.append(source.get("e1").state == "trash")
            source.push([("e1", b"afresh")])

        change = recalled(client, op)
        with monkeypatch.context() as patch:
            late = Late(patch, nth, push)
            finish(client, change)
        if copy == [True]:
            replaced += 1
            assert source.get("e1").payload == b"afresh"
            assert target.get("e1").payload == b"xe1" and target.get("e1").state == "waiting"
            assert (change.outcome.done, change.outcome.skipped) == (1, {"changed": 1})
        else:
            assert target.get("e1") is None
        assert source.get("e2").state == "waiting" and target.get("e2") is None
        sound(source, target)
    assert replaced > 3


def test_it_is_said_of_each_that_it_was_moved(redisq: Redisq, client: redis.Redis) -> None:
    """Also to who goes on with a plan when the last step's entries were moved on since."""
    source, target = filled(client, "delay", "a", 10), made(client, "delay", "b")
    put(target, ["there"])
    redisq("move", "a", "--to", "b", "--state", "dead", "--plan", "p")
    redisq("apply", "p", "--max", "4", "--yes")
    assert redisq.rows("move", "b", "--to", "a", "--state", "dead", "--yes")[0]["done"] == 4
    redisq("apply", "p", "--yes", "--report", "r")
    rows = [json.loads(line) for line in Path("r").read_text().splitlines()]
    assert Counter(row["said"] for row in rows if "said" in row) == {"moved": 10}
    assert len(entries(source, "dead")) == 4 and len(entries(target, "dead")) == 6
    sound(source, target)


# --- two at once --------------------------------------------------------------


class Late(Link):
    """The n-th exchange comes late: before it, somebody else does what is to be done."""

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, nth: int, meanwhile: Callable[[], object]
    ) -> None:
        super().__init__(monkeypatch)
        self.nth = nth
        self.meanwhile = meanwhile

    def __call__(self, client: Any, calls: Any) -> Any:
        self.seen += 1
        if self.seen == self.nth:
            self.meanwhile()
        return exchange(client, calls)


@pytest.mark.parametrize("undone", [False, True])
@pytest.mark.parametrize("nth", range(4, 28, 2))
def test_one_goes_on_where_the_other_stands_still(
    redisq: Redisq, client: redis.Redis, monkeypatch: pytest.MonkeyPatch, nth: int, undone: bool
) -> None:
    """A process that stood still in the middle of a step comes back when all is done, or undone."""
    source, target = filled(client, "circular", "a", 30), made(client, "circular", "b")
    all_ids = ours(source)
    redisq("move", "a", "--to", "b", "--state", "waiting", "--plan", "p")
    op = PlanFile("p").header.op
    other = applied(client)

    def meanwhile() -> None:
        operation = run(client, audit_log.read(source, op))
        if undone and operation is not None and operation.undoable:
            finish(client, recalled(client, op))
        elif not undone:
            finish(client, applied(client))

    with monkeypatch.context() as patch:
        late = Late(patch, nth, meanwhile)
        try:
            finish(client, other)
        except Refused as error:
            assert undone and ("undone" in str(error) or "taken back" in str(error))
    assert late.seen >= nth
    operation = run(client, audit_log.read(source, op))
    assert operation is not None
    if operation.undone:
        assert undone and ours(source) == all_ids and not ours(target)
    else:
        assert ours(source, target) == all_ids and len(entries(target, "waiting")) == 30
    sound(source, target)


@pytest.mark.parametrize("last", [2, 3])
def test_who_goes_on_ends_the_step_of_one_that_was_killed(
    redisq: Redisq, client: redis.Redis, monkeypatch: pytest.MonkeyPatch, last: int
) -> None:
    """Two are at it, one dies between the queues, also in the very last step."""
    source, target = filled(client, "fair", "a", 30), made(client, "fair", "b")
    all_ids = ours(source)
    redisq("move", "a", "--to", "b", "--state", "dead", "--plan", "p")
    one, other = applied(client), applied(client)
    assert run(client, one.step())
    land = core_transfer.accept_entries

    async def killed(queue: Any, op: str, step: int, *given: Any) -> Any:
        if step == last:
            raise Killed
        return await land(queue, op, step, *given)

    with monkeypatch.context() as patch:
        patch.setattr(core_transfer, "accept_entries", killed)
        with pytest.raises(Killed):
            for _ in range(last):
                run(client, other.step())
    assert len(entries(source, "trash")) == 10 * last == len(entries(target, "dead")) + 10
    finish(client, one)
    assert ours(source, target) == all_ids and len(entries(target, "dead")) == 30
    run(client, one.steps.finish())
    assert (one.outcome.done, one.steps.left) == (30, 0)
    sound(source, target)


@pytest.mark.slow
def test_workers_of_both_queues_do_each_once(redisq: Redisq, client: redis.Redis) -> None:
    """While entries go to and fro, everything is done once and nothing is lost."""
    import threading

    from redisq_ops.core.worker import Worker

    source, target = made(client, "delay", "a"), made(client, "delay", "b")
    put(source, [f"e{i}" for i in range(1200)])
    done: Counter[str] = Counter()

    def handle(work: Any) -> None:
        time.sleep(0.004)
        done[work.id] += 1

    clients = [redis.Redis.from_url(redisq.url, protocol=3) for _ in range(2)]
    workers = [
        Worker(DelaySet(link, name), handle, batch=2, consumer=f"w{name}")
        for link, name in zip(clients, "ab", strict=True)
    ]
    threads = [threading.Thread(target=worker.run) for worker in workers]
    for thread in threads:
        thread.start()
    for one, other in ("ab", "ba", "ab", "ba"):
        # How it ends depends on how much the workers got hold of meanwhile.
        cli_run(
            [
                "--url",
                redisq.url,
                "move",
                one,
                "--to",
                other,
                "--state",
                "waiting",
                "--max",
                "400",
                "--yes",
            ]
        )
        cli_run(["--url", redisq.url, "undo", "--yes"])
    deadline = time.monotonic() + 60
    while sum(done.values()) < 1200:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    for worker in workers:
        worker.stop()
    for thread in threads:
        thread.join()
    for link in clients:
        link.close()
    assert sum(row["done"] for row in redisq.rows("log") if row["verb"] == "move") > 500
    assert set(done.values()) == {1} and len(done) == 1200
    sound(source, target)


# --- what it says -------------------------------------------------------------


def test_the_plan_names_both_queues_and_what_comes_of_it(
    redisq: Redisq, client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled(client, "fair", "a")
    target = made(client, "fair", "b")
    put(target, [f"t{n}" for n in range(31)])
    for delivery in target.take(30, consumer="w").deliveries:
        target.settle([Settlement(delivery, "ack")])
    before = picture(client)
    (plan,) = redisq.rows("move", "a", "--to", "b", "--state", "waiting", "--dry-run")
    about = plan["consequences"]
    assert (plan["verb"], plan["into"], plan["matched"]) == ("move", "b", 6)
    assert (about["count"], about["waiting"]) == (6, 1) and sum(about["clients"].values()) == 6
    # Seven at thirty a minute, or fifteen should a minute have begun meanwhile.
    assert about["drain_ms"] in (14_000, 28_000) and about["server_ms"] >= 1
    said = redisq("move", "a", "--to", "b", "--state", "waiting", "--dry-run")
    assert "move 6 waiting entries of a to b" in said and "behind what waits" in said
    assert "the trash of a keeps a copy for undo (1d 0h)" in said and "clients: c" in said
    redisq("move", "a", "--to", "b", "--state", "dead", "--plan", "p", "--reason", "b is faster")
    assert picture(client) == before
    header, facts = (json.loads(line) for line in Path("p").read_text().splitlines()[:2])
    assert (header["verb"], header["into"], facts["into"]) == ("move", "b", "b")
    (looked,) = redisq.rows("apply", "p", "--dry-run")
    assert looked["now"] == {"dead": 6} and picture(client) == before
    monkeypatch.setattr(confirm_and_run, "interactive", lambda: True)
    monkeypatch.setattr(sys, "stdin", io.StringIO("y\n"))
    redisq("apply", "p")
    assert "move 6 dead entries of a to b" in redisq.err and "b is faster" in redisq.err


def test_other_plans_are_as_they_were(redisq: Redisq, client: redis.Redis) -> None:
    """A neighbouring release reads them."""
    filled(client, "delay", "a")
    redisq("replay", "a", "--plan", "p")
    header = json.loads(Path("p").read_text().splitlines()[0])
    assert "into" not in header and "into_ms" not in header


def test_log_and_explain_say_where_it_went(redisq: Redisq, client: redis.Redis) -> None:
    source, target = filled(client, "delay", "a"), made(client, "delay", "b")
    (outcome,) = redisq.rows(
        "move", "a", "--to", "b", "--state", "dead", "--reason", "b is faster", "--yes"
    )
    (row,) = redisq.rows("log")
    assert (row["op"] if "op" in row else row["id"], row["queue"]) == (outcome["op"], "a")
    assert (row["verb"], row["into"], row["done"], row["undoable"]) == ("move", "b", 6, True)
    (there,) = redisq.rows("log", "--queue", "b")
    assert (there["id"], there["origin"], there["done"]) == (outcome["op"], "a", 6)
    assert there["undoable"] is False and there["ended"] is True
    id = min(entries(target, "dead"))
    (gone,) = redisq.rows("explain", f"a/{id}")
    assert (gone["rule"], gone["facts"]["into"]) == ("moved", "b")
    assert gone["sentence"].startswith("moved to b at ") and "b is faster" in gone["sentence"]
    assert gone["command"] == f"redisq explain b/{id}"
    (here,) = redisq.rows("explain", f"b/{id}")
    assert any("moved here from a" in one["sentence"] for one in here["also"])
    assert source.get(id).op == target.get(id).op == outcome["op"]


@pytest.mark.parametrize("shards", [1, 3])
def test_by_hand_it_is_not_restored(redisq: Redisq, client: redis.Redis, shards: int) -> None:
    """It lives elsewhere: only its move's undo knows whether it may come back."""
    source = filled(client, "delay", "a", 6, shards)
    target = made(client, "delay", "b")
    redisq("dlq", "purge", "a", "--max", "1", "--yes")
    redisq("move", "a", "--to", "b", "--state", "dead", "--yes")
    (outcome,) = redisq.rows("trash", "restore", "a", "--yes", code=3)
    assert (outcome["done"], outcome["skipped"]) == (1, {"away": 5})
    assert len(entries(source, "dead")) == 1 and len(entries(target, "dead")) == 5
    redisq("trash", "restore", "a", "--plan", "q")
    assert redisq.rows("apply", "q", "--yes", code=1)[0]["skipped"] == {"away": 5}
    op = next(row["id"] for row in redisq.rows("log") if row["verb"] == "move")
    assert redisq.rows("undo", op, "--yes")[0]["done"] == 5
    assert len(entries(source, "dead")) == 6
    sound(source, target)


def test_late_arrivals_are_not_touched(redisq: Redisq, client: redis.Redis) -> None:
    source, target = filled(client, "circular", "a"), made(client, "circular", "b")
    redisq("move", "a", "--to", "b", "--state", "dead", "--plan", "p")
    high = source.now()
    first, *_ = dead = sorted(entries(source, "dead"))
    while source.now() == high:
        pass
    put(source, [first, "new"], b"later ")
    for delivery in source.take(20, consumer="w").deliveries:
        source.settle([Settlement(delivery, "reject", ERROR.encoded())])
    (outcome,) = redisq.rows("apply", "p", "--yes", code=3)
    assert (outcome["done"], outcome["skipped"]) == (5, {"late": 1})
    assert set(entries(target, "dead")) == set(dead) - {first}
    assert {first, "new"} <= set(entries(source, "dead"))


# --- refused ------------------------------------------------------------------


@pytest.mark.slow
def test_what_can_not_be_moved(
    redisq: Redisq, client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    dead_letters(client, 3, "mail")
    filled(client, "delay", "a")
    filled(client, "fair", "f")
    filled(client, "delay", "b")
    client.sadd("resque:queues", "low")
    client.rpush("resque:queue:low", '{"class":"X","args":[]}')
    before = picture(client)

    def refusal(*words: str, code: int) -> str:
        return redisq.refusal("move", *words, "--yes", code=code)

    said = refusal("mail", "--to", "a", "--state", "dead", code=1)
    assert "a request queue" in said and "a delay queue" in said
    said = refusal("a", "--to", "f", "--state", "dead", code=1)
    assert "a delay queue" in said and "a fair queue" in said and "export" in said
    assert "where they are" in refusal("a", "--to", "a", "--state", "dead", code=2)
    assert "no queue 'nowhere'" in refusal("a", "--to", "nowhere", "--state", "dead", code=1)
    assert "can't be used" in refusal("a", "--to", "b/e1", "--state", "dead", code=2)
    assert "with --state" in refusal("a", "--to", "b", code=2)
    # Which state is asked only where it would go on.
    assert "another program" in refusal("resque:low", "--to", "b", code=1)
    assert "a fair queue" in refusal("a", "--to", "f", code=1)
    assert "no queue 'nowhere'" in refusal("a", "--to", "nowhere", code=1)
    said = refusal("a", "--to", "b", "--state", "pending", code=2)
    assert "move is for waiting or delayed or dead" in said
    said = refusal("resque:low", "--to", "b", "--state", "waiting", code=1)
    assert "another program" in said
    said = refusal("a", "--to", "resque:low", "--state", "dead", code=1)
    assert "another program" in said
    assert "no entry e99" in refusal("a/e99", "--to", "b", code=1)
    redisq("move", "a", "--state", "dead", "--yes", code=2)
    assert "--to" in redisq.err
    assert "--yes" in redisq("move", "a", "--to", "b", "--state", "dead", code=5) + redisq.err
    assert picture(client) == before
    assert redisq.rows("move", "a", "--to", "b", "--where", "state:dead id=zzz", "--yes") == [
        {"op": None, "matched": 0, "done": 0, "skipped": {}}
    ]
    monkeypatch.setenv("REDISQ_READ_ONLY", "1")
    assert "read-only" in refusal("a", "--to", "b", "--state", "dead", code=1)
    redisq("move", "a", "--to", "b", "--state", "dead", "--plan", "p")
    assert "read-only" in redisq.refusal("apply", "p", "--yes", code=1)
    assert picture(client) == before


def test_a_trash_that_keeps_nothing_is_no_way(redisq: Redisq, client: redis.Redis) -> None:
    filled(client, "delay", "a")
    made(client, "delay", "b")
    redisq("settings", "a", "trash_ms=5s", "--yes")
    said = redisq.refusal("move", "a", "--to", "b", "--state", "dead", "--yes", code=1)
    assert "keeps its trash for 5s only" in said and "settings" in said


def test_a_plan_is_for_that_target(redisq: Redisq, client: redis.Redis) -> None:
    source = filled(client, "delay", "a")
    made(client, "delay", "b")
    redisq("move", "a", "--to", "b", "--state", "dead", "--plan", "p")
    redisq("queue", "rm", "b", "--hard", "--yes")
    assert "no queue 'b'" in redisq.refusal("apply", "p", "--yes", code=1)
    time.sleep(0.002)
    target = made(client, "delay", "b")
    said = redisq.refusal("apply", "p", "--yes", code=1)
    assert "isn't the one that was planned for" in said
    assert len(entries(source, "dead")) == 6 and not entries(target, "dead")
    # And one that was carried out comes back whole when its target is gone.
    redisq("move", "a", "--to", "b", "--state", "dead", "--yes")
    redisq("queue", "rm", "b", "--hard", "--yes")
    (plan,) = redisq.rows("undo", "--dry-run")
    assert (plan["untouched"], plan["list"]) == (6, "")
    said = redisq("undo", "--yes") + redisq.err
    assert "b was removed since" in said and len(entries(source, "dead")) == 6
    sound(source)


@pytest.mark.parametrize("read_only", ["a", "b"])
def test_a_move_without_a_right_in_one_queue_writes_nothing_in_the_other(
    redisq: Redisq, client: redis.Redis, read_only: str
) -> None:
    for name in ("a", "b"):
        filled(client, "delay", name)
    before = picture(client)
    client.acl_setuser(
        "half",
        enabled=True,
        nopass=True,
        reset=True,
        categories=["+@all"],
        channels=["*"],
        keys=["redisq:registry", *(f"redisq:{{{name}}}:*" for name in "ab" if name != read_only)],
    )
    client.execute_command("ACL", "SETUSER", "half", f"%R~redisq:{{{read_only}}}:*")  # type: ignore[no-untyped-call]
    redisq.url = redisq.url.replace("redis://", "redis://half:x@")
    move = ("move", "--queue", "a", "--state", "waiting", "--to", "b", "--yes")
    redisq(*move, code=None)
    client.acl_deluser("half")
    assert (redisq.code, picture(client)) == (1, before) and "ACL says no" in redisq.err


def test_a_full_server_leaves_all_where_it_was(
    running: Callable[[str], EmbeddedServer], capsys: pytest.CaptureFixture[str]
) -> None:
    with EmbeddedServer(Path(running("valkey")._command[0])) as own:
        redisq = Redisq(own.url, capsys)
        with redis.Redis.from_url(own.url, protocol=3) as client:
            source, target = filled(client, "delay", "a", 40), made(client, "delay", "b")
            before = {id: told(entry) for id, entry in entries(source, "dead").items()}
            redisq("move", "a", "--to", "b", "--state", "dead", "--plan", "p")
            client.config_set("maxmemory", 1)
            redisq("apply", "p", "--yes", code=1)
            assert "the server is full" in redisq.err
            assert {id: told(entry) for id, entry in entries(source, "dead").items()} == before
            assert not ids(target) and not entries(source, "trash")
            sound(source, target)


@pytest.mark.parametrize("kind", KINDS)
def test_dead_letters_that_come_after_the_look_are_not_meant(
    redisq: Redisq, client: redis.Redis, kind: str
) -> None:
    """They died before it, elsewhere, and have that time here."""
    source, target = filled(client, kind, "a", 4), made(client, kind, named(kind, "b"))
    put(target, ["own"])
    target.settle([Settlement(d, "reject", b"{}") for d in target.take(1, consumer="w").deliveries])
    time.sleep(0.002)
    look = target.now()
    time.sleep(0.002)
    redisq("move", source.name, "--to", target.name, "--where", "state:dead", "--yes")
    come = set(entries(target, "dead")) - {"own"}
    assert len(come) == 4
    said = target.move_range("op", 1, 9, source="dead", target="waiting", high_water_ms=look)
    assert (said.moved, said.left) == (1, (4,))
    assert set(entries(target, "dead")) == come
    redisq("undo", "--yes")
    assert set(entries(source, "dead")) == come
    said = source.move_range("op2", 1, 9, source="dead", target="waiting", high_water_ms=look)
    assert (said.moved, said.left) == (0, (4,))
    sound(source, target)


# --- calls that are sent again ------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_every_call_can_be_sent_twice(redisq: Redisq, client: redis.Redis, kind: str) -> None:
    from ...model.wire import run_twice

    source, target = filled(client, kind, "a", 4), made(client, kind, named(kind, "b"))
    dead = sorted(entries(source, "dead"))
    put(target, dead[:1], b"another ")
    way = run(client, route_to(Deployment(client), source, target.name))
    order = transfer.MoveAction(source, "move", "dead", source.now(), route=way)
    picks = [Pick(id) for id in dead]
    said = run_twice(client, order.move("move-00000000aa", 1, picks, (0, 4)))
    assert said == ["exists", "moved", "moved", "moved"]
    with pytest.raises(Superseded):
        run(client, order.move("move-00000000aa", 0, picks, (0, 4)))
    cargo = run(client, core_transfer.read_step(source, "move-00000000aa", 1))
    assert len([one for one in cargo if one.row]) == 3

    def withdraw(seq: int, to: Any) -> set[str]:
        return run_twice(
            client,
            core_transfer.revert_entries(
                target, "undo-move-00000000aa", seq, "move-00000000aa", 1, dead, "dead", to
            ),
        )

    assert withdraw(2, "trash") == set(dead[1:])
    assert withdraw(3, "back") == set(dead[1:]) and set(entries(target, "dead")) == set(dead[1:])
    assert withdraw(4, "trash") == set(dead[1:])
    back = run_twice(
        client,
        core_transfer.restore_entries(
            source, "undo-move-00000000aa", 1, "move-00000000aa", 1, cargo, undone=True
        ),
    )
    assert back == set(dead[1:])
    cargo = run(client, core_transfer.read_step(source, "move-00000000aa", 1))
    assert [one.id for one in cargo if one.back] == dead  # also what was refused there
    assert withdraw(5, "gone") == set(dead[1:])
    assert set(entries(source, "dead")) == set(dead) and not entries(target, "trash")
    sound(source, target)


def test_large_entries_are_read_once(client: redis.Redis) -> None:
    """No page of them is read for what doesn't fit the call any more."""
    source, _ = made(client, "delay", "a"), made(client, "delay", "b")
    put(source, [f"e{n}" for n in range(20)], b"x" * 200_000)
    way = run(client, route_to(Deployment(client), source, "b"))
    order = transfer.MoveAction(source, "move", "waiting", source.now(), route=way)
    op = "move-00000000aa"
    run(client, EntryAction.move(order, op, 1, [Pick(f"e{n}") for n in range(20)], (0, 20)))
    client.config_resetstat()
    assert len(run(client, core_transfer.read_step(source, op, 1))) == 20
    assert client.info("commandstats")["cmdstat_hget"]["calls"] < 20 + 12


# --- in different slots -------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("binary", sorted(binaries()))
def test_on_a_cluster(
    clusters: Clusters, binary: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Queues on different nodes, one of them on all; a kill between the two, undone, done again."""
    nodes = clusters(binary)
    url = nodes.urls[0].replace("redis://", "redis+cluster://")
    redisq = Redisq(url, capsys)
    link: Any = connect(url)
    for kind, name, other in (
        ("delay", "a", "b"),
        ("fair", "f", "g"),
        ("circular", "c", "d"),
        ("carmine", "%7Bx%7D", "%7By%7D"),
    ):
        source, target = filled(link, kind, name, 30), made(link, kind, named(kind, other))
        if kind != "carmine":
            wide = made(link, kind, f"{name}-wide", 5)
        all_ids = ours(source)
        held = min(entries(source, "dead"))
        put(target, [held], b"another ")
        plan = str(tmp_path / f"{name}.ndjson")
        redisq("move", source.name, "--to", target.name, "--state", "dead", "--plan", plan)
        op = PlanFile(plan).header.op
        killed(redisq, "out", 1, "apply", plan, "--max", "10", "--yes")
        once(source, target, all_ids, op)
        killed(redisq, "in", 1, "apply", plan, "--max", "5", "--yes")
        once(source, target, all_ids, op)
        (outcome,) = redisq.rows("apply", plan, "--yes", code=3)
        assert (outcome["done"], outcome["left"]) == (29, 0)
        assert set(entries(source, "dead")) == {held}
        assert ours(source, target) == all_ids
        assert redisq.rows("undo", op, "--yes")[0]["done"] == 29
        assert ours(source) == all_ids
        sound(source, target)
        if kind != "carmine":
            for state in STATES:
                words = ("move", name, "--to", wide.name, "--state", state)
                assert redisq.rows(*words, "--yes")[0]["done"] == 30
            assert ours(wide) == all_ids and not ours(source)
            sound(source, wide)
    assert len({link.get_node_from_key(f"redisq:{{{name}}}:x").name for name in "abfgcd"}) > 1
    link.close()

"""Sub-requests that go to another queue: those of a request stay together, in one of their own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import redis

from redisq_ops.core.engine import transfer as core_transfer
from redisq_ops.core.engine.queue import Queue
from redisq_ops.core.engine.transfer_recovery import recover
from redisq_ops.core.model.batches import batches
from redisq_ops.core.model.entry import Settlement, State
from redisq_ops.core.model.errors import Superseded
from redisq_ops.core.queues.request import RequestQueue
from redisq_ops.core.queues.request.sharded import ShardedRequestQueue
from redisq_ops.core.redis.client import connect
from redisq_ops.core.redis.operation import run
from redisq_ops.demo.server import binaries
from redisq_ops.ops.change import transfer
from redisq_ops.ops.change.entry_steps import Pick
from redisq_ops.ops.change.plan import PlanFile
from redisq_ops.ops.change.transfer_plan import route_to
from redisq_ops.ops.deployment import Deployment
from redisq_ops.ops.required_features import requests_of

from ...command_line import ERROR, Redisq
from ...conftest import Clusters
from .test_transfer import (
    STATES,
    Killed,
    entries,
    killed,
    sound,
    told,
)

pytestmark = [pytest.mark.alike, pytest.mark.slow]


@pytest.fixture(autouse=True)
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder of one's own."""
    monkeypatch.chdir(tmp_path)


def made(client: Any, name: str, shards: int = 1) -> Any:
    queue: Any = RequestQueue(client, name)
    if shards > 1:
        queue = ShardedRequestQueue(client, name, shards=shards)
    run(client, queue._ensure_registered())
    return queue


def filled(client: Any, name: str, n: int = 3, shards: int = 1, payload: bytes = b"x") -> Any:
    """Requests r0 and r1 with ``n`` sub-requests each that are dead, delayed, and waiting."""
    queue = made(client, name, shards)
    for k, priority in enumerate((10, 60)):
        queue.submit(
            [payload + b"%d-%d" % (k, i) for i in range(3 * n)],
            id=f"r{k}",
            limit=500 + k,
            priority=priority,
        )
    error = ERROR.encoded()
    for k in range(2):
        queue.control("aside", 2 * k + 1, "pause", f"r{1 - k}")
        taken = queue.take(2 * n, consumer="w1").deliveries
        queue.settle(
            [
                Settlement(d, "reject", error) if i < n else Settlement(d, "fail", error, 600)
                for i, d in enumerate(taken)
            ]
        )
        queue.control("aside", 2 * k + 2, "resume", f"r{1 - k}")
    return queue


def requests(queue: Any) -> dict[str, Any]:
    return {r.id: r for r in [*queue.requests(), *queue.requests(settled=True)]}


def of_payload(queue: Queue[Any], state: State) -> dict[bytes, tuple[Any, ...]]:
    """What is in a state, whatever it is called there."""
    return {entry.payload or b"": told(entry) for entry in entries(queue, state).values()}


@pytest.mark.parametrize("state", STATES)
def test_they_go_on_as_they_were_and_come_back(
    redisq: Redisq, client: redis.Redis, state: State
) -> None:
    source, target = filled(client, "a"), filled(client, "b", payload=b"there ")
    before, there = entries(source, state), of_payload(target, state)
    waited = [entry.id for entry in source.page("waiting").entries]
    (outcome,) = redisq.rows("move", "a", "--to", "b", "--state", state, "--yes")
    assert (outcome["matched"], outcome["done"], outcome["skipped"]) == (6, 6, {})
    came = {entry.payload or b"": told(entry) for entry in before.values()}
    assert of_payload(target, state) == there | came and not entries(source, state)
    # Each request's are in one of their own, in their order, and that is as theirs was.
    both, op = requests(target), outcome["op"]
    assert set(both) == {"r0", "r1", f"r0.{op}", f"r1.{op}"}
    for k in range(2):
        its = both[f"r{k}.{op}"]
        assert (its.total, its.priority, its.limit) == (3, (10, 60)[k], 500 + k)
        assert its.state == ("done" if state == "dead" else "sealed")
        key = (
            target.keys["s_"] + its.id
        )  # to redis-cli, too, nothing of it is still to be handed out
        assert client.xinfo_groups(key)[0]["last-delivered-id"] == b"3-0"
        numbered = [target.get(f"{its.id}/{n}").payload for n in (1, 2, 3)]
        assert sorted(numbered) == numbered and {p[:2] for p in numbered} == {b"x%d" % k}
    sound(source, target)
    assert redisq.rows("undo", "--dry-run")[0]["untouched"] == 6
    assert redisq.rows("undo", "--yes")[0]["done"] == 6
    back = entries(source, state)
    assert {id: told(entry) for id, entry in back.items()} == {
        id: told(entry) for id, entry in before.items()
    }
    assert [entry.id for entry in source.page("waiting").entries] == waited
    assert of_payload(target, state) == there and not entries(target, "trash")
    assert {requests(target)[f"r{k}.{op}"].state for k in range(2)} == {"done"}
    sound(source, target)


def test_they_are_worked_on_there_and_their_requests_end_here(
    redisq: Redisq, client: redis.Redis
) -> None:
    source, target = made(client, "a"), made(client, "b")
    source.submit([b"x1", b"x2", b"x3"], id="r1", limit=2, priority=7)
    source.submit([b"x4"], id="held")
    source.control("stop", 1, "pause", "held")
    op = redisq.rows("move", "a", "--to", "b", "--state", "waiting", "--yes")[0]["op"]
    assert not source.take(10, consumer="w").deliveries
    said = redisq("wait", "a/r1", "--timeout", "1s")
    assert said == "r1 done: 0 done, 3 purged or moved to another queue\n"
    assert requests(source)["r1"].state == "done"
    taken = target.take(10, consumer="w").deliveries
    assert [(d.id, d.payload) for d in taken] == [(f"r1.{op}/{n}", b"x%d" % n) for n in (1, 2)]
    assert target.settle([Settlement(d, "result", b"ok") for d in taken]) == ["done"] * 2
    (last,) = target.take(10, consumer="w").deliveries
    target.settle([Settlement(last, "ack")])
    assert requests(target)[f"r1.{op}"].state == "done"
    assert requests(target)[f"held.{op}"].paused  # who had it stand still meant its entries
    redisq("request", "resume", f"b/held.{op}", "--yes")
    assert [d.payload for d in target.take(10, consumer="w").deliveries] == [b"x4"]
    sound(source, target)


def test_undo_leaves_what_was_touched(redisq: Redisq, client: redis.Redis) -> None:
    source, target = filled(client, "a"), made(client, "b")
    redisq("move", "a", "--to", "b", "--state", "waiting", "--yes")
    working, done, given_back = target.take(3, consumer="w").deliveries
    target.settle([Settlement(done, "ack"), Settlement(given_back, "release")])
    (outcome,) = redisq.rows("undo", "--yes", code=3)
    assert (outcome["matched"], outcome["done"], outcome["skipped"]) == (6, 3, {"changed": 3})
    assert set(outcome["sample"]) == {
        working.id,
        done.id,
        given_back.id,
    }  # as they are called there
    left = min(entries(source, "trash"))
    (gone,) = redisq.rows("explain", f"a/{left}")
    assert gone["rule"] == "moved" and "undo works until" not in gone["sentence"]
    assert target.settle([Settlement(working, "ack")]) == ["done"]
    assert len(entries(source, "waiting")) == 3 and set(entries(target, "waiting")) == {
        given_back.id
    }
    assert len(entries(source, "trash")) == 3
    (outcome,) = redisq.rows("trash", "restore", "a", "--yes", code=1)
    assert outcome["skipped"] == {"away": 3}
    sound(source, target)


def forgotten(client: Any, queue: Any) -> None:
    """What is done there is past its time."""
    for id in client.zrange(queue.keys["fin"], 0, -1):
        client.zadd(queue.keys["retire"], {id: 1})
    while run(client, queue.sweep.op(50)):
        pass
    assert not requests(queue)


def worked_off(queue: Any) -> None:
    while taken := queue.take(10, consumer="w").deliveries:
        assert set(queue.settle([Settlement(d, "ack") for d in taken])) == {"done"}


def test_undo_takes_no_namesake(redisq: Redisq, client: redis.Redis) -> None:
    """What came first was done and forgotten; then the rest came, and begins at 1 again."""
    source, target = made(client, "a"), made(client, "b")
    source.submit([b"x1", b"x2"], id="r0")
    redisq("move", "a", "--to", "b", "--state", "waiting", "--plan", "p")
    op = PlanFile("p").header.op
    redisq("apply", "p", "--max", "1", "--yes")
    worked_off(target)
    forgotten(client, target)
    redisq("apply", "p", "--yes")
    assert set(entries(target, "waiting")) == {f"r0.{op}/1"}
    redisq("trash", "rm", "a", "--where", "payload=x2", "--yes")
    (outcome,) = redisq.rows("undo", op, "--yes", code=1)
    assert (outcome["done"], outcome["skipped"]) == (0, {"changed": 2})
    assert not entries(source, "waiting") and set(of_payload(target, "waiting")) == {b"x2"}
    sound(source, target)


def test_undo_takes_no_namesake_of_one_step(
    redisq: Redisq, client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A step so large that it comes by two calls, and was killed between them."""
    source, target = made(client, "a"), made(client, "b")
    source.submit([b"A" * 200_000, b"B" * 200_000], id="r0")
    redisq("move", "a", "--to", "b", "--state", "waiting", "--plan", "p")

    def first(*given: Any) -> Any:
        yield next(batches(*given))
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(core_transfer, "batches", first)
        with pytest.raises(Killed):
            redisq("apply", "p", "--yes")
    worked_off(target)
    forgotten(client, target)
    redisq("apply", "p", "--yes")
    (outcome,) = redisq.rows("undo", PlanFile("p").header.op, "--yes", code=3)
    assert (outcome["done"], outcome["skipped"]) == (1, {"changed": 1})
    assert [p[:1] for p in of_payload(source, "waiting")] == [b"B"]
    assert not entries(target, "waiting")
    sound(source, target)


def test_what_was_said_there_is_kept_as_long_as_it_can_be_put_back(
    redisq: Redisq, client: redis.Redis
) -> None:
    """Also when the source is told to keep its trash longer while the move goes on."""
    source, target = filled(client, "a"), made(client, "b")
    way = run(client, route_to(Deployment(client), source, "b"))
    redisq("settings", "a", "trash_ms=7d", "--yes")
    order = transfer.MoveAction(source, "move", "dead", source.now(), route=way)
    op, dead = "move-00000000aa", sorted(entries(source, "dead"))
    run(client, order.move(op, 1, [Pick(id) for id in dead], (0, 6)))
    run(client, order.end(op, False))
    said, list_ = target.keys["land_"] + f"{op}:1", source.keys["undo_"] + f"{op}:1"
    assert client.pttl(said) > client.pttl(list_) > 6 * 86_400_000


def ours_by_payload(queue: Any) -> dict[bytes, tuple[Any, ...]]:
    return {
        payload: row
        for state in STATES
        for payload, row in of_payload(queue, state).items()
        if payload.startswith(b"x")
    }


def test_a_request_that_was_cancelled_there_takes_nothing(
    redisq: Redisq, client: redis.Redis
) -> None:
    source, target = filled(client, "a"), made(client, "b")
    redisq("move", "a", "--to", "b", "--state", "waiting", "--plan", "p")
    op = PlanFile("p").header.op
    redisq("apply", "p", "--max", "2", "--yes")
    redisq("request", "cancel", f"b/r0.{op}", "--yes")
    (outcome,) = redisq.rows("apply", "p", "--yes", code=3)
    assert outcome["skipped"] == {"closed": 1}
    left = entries(source, "waiting")
    assert [id.partition("/")[0] for id in left] == ["r0"] and len(entries(target, "waiting")) == 3
    # Undo doesn't bring back to life what was cancelled.
    (outcome,) = redisq.rows("undo", op, "--yes", code=3)
    assert (outcome["done"], outcome["skipped"]) == (3, {"changed": 2})
    assert len(entries(source, "waiting")) == 4 and not entries(target, "waiting")
    sound(source, target)
    # It can be taken back when it lives again, and the rest as it was.
    (cancel,) = [row for row in redisq.rows("log") if row["verb"] == "cancel"]
    redisq("undo", cancel["id"], "--yes")
    assert "2 of them are unchanged: redisq select b" in redisq("undo", op, "--dry-run")
    (outcome,) = redisq.rows("undo", op, "--yes")
    assert (outcome["done"], outcome["skipped"]) == (2, {"by another undo": 3})
    assert len(entries(source, "waiting")) == 6 and not entries(target, "waiting")
    assert "undone already" in redisq.refusal("undo", op, "--yes", code=1)
    sound(source, target)


def test_a_request_that_was_changed_there_comes_back(redisq: Redisq, client: redis.Redis) -> None:
    """How it was to be worked on is no touch of its entries."""
    source, target = filled(client, "a"), made(client, "b")
    op = redisq.rows("move", "a", "--to", "b", "--state", "waiting", "--yes")[0]["op"]
    redisq("request", "priority", f"b/r0.{op}", "3", "--yes")
    redisq("request", "pause", f"b/r1.{op}", "--yes")
    assert redisq.rows("undo", op, "--yes")[0]["done"] == 6
    assert len(entries(source, "waiting")) == 6 and not entries(target, "waiting")
    sound(source, target)


def test_what_was_replayed_and_cancelled_there_comes_back(
    redisq: Redisq, client: redis.Redis
) -> None:
    """Once both are taken back."""
    source, target = filled(client, "a"), made(client, "b")
    op = redisq.rows("move", "a", "--to", "b", "--state", "dead", "--yes")[0]["op"]
    replay = redisq.rows("replay", "b", "--yes")[0]["op"]
    for request in target.requests():
        redisq("request", "cancel", f"b/{request.id}", "--yes")
    redisq("undo", op, "--yes", code=1)
    assert "6 of them were changed by operators there" in redisq.err
    for row in redisq.rows("log"):
        if row["verb"] == "cancel":
            redisq("undo", row["id"], "--yes")
    redisq("undo", replay, "--yes")
    assert redisq.rows("undo", op, "--yes")[0]["done"] == 6
    assert len(entries(source, "dead")) == 6 and not entries(target, "dead")
    sound(source, target)


def test_what_was_cancelled_here_is_not_revived_there(redisq: Redisq, client: redis.Redis) -> None:
    source, target = filled(client, "a"), made(client, "b")
    source.control("stop", 1, "cancel", "r0")  # what is delayed ends when its time comes
    (outcome,) = redisq.rows("move", "a", "--to", "b", "--state", "delayed", "--yes", code=3)
    assert outcome["skipped"] == {"closed": 3}
    assert {p[:2] for p in of_payload(target, "delayed")} == {b"x1"}
    # What is dead is nobody's to be run by itself: that may go.
    assert redisq.rows("move", "a", "--to", "b", "--state", "dead", "--yes")[0]["done"] == 6
    sound(source, target)


def test_what_waits_for_the_end_of_another_request_stays(
    redisq: Redisq, client: redis.Redis
) -> None:
    """There nothing would ever let it go on."""
    source, target = made(client, "a"), made(client, "b")
    source.submit([b"1"], id="first")
    source.submit([b"2", b"3"], id="next", follows="first")
    (outcome,) = redisq.rows("move", "a/next", "--to", "b", "--state", "waiting", "--yes", code=1)
    assert outcome["skipped"] == {"closed": 2}
    assert len(entries(source, "waiting")) == 3 and not entries(target, "waiting")
    (first,) = source.take(5, consumer="w").deliveries
    source.settle([Settlement(first, "ack")])
    assert redisq.rows("move", "a/next", "--to", "b", "--state", "waiting", "--yes")[0]["done"] == 2
    assert len(target.take(5, consumer="w").deliveries) == 2
    sound(source, target)


def test_a_request_of_that_name_that_is_not_the_moves(redisq: Redisq, client: redis.Redis) -> None:
    source, target = filled(client, "a"), made(client, "b")
    redisq("move", "a", "--to", "b", "--state", "waiting", "--plan", "p")
    target.submit([b"1", b"2"], id=f"r0.{PlanFile('p').header.op}")
    (outcome,) = redisq.rows("apply", "p", "--yes", code=3)
    assert outcome["skipped"] == {"closed": 3}
    assert len(entries(source, "waiting")) == 3
    assert {d.payload for d in target.take(9, consumer="w").deliveries} > {b"1", b"2"}
    sound(source, target)


def test_each_request_has_its_own_there(redisq: Redisq, client: redis.Redis) -> None:
    """Also those that had one name once, and those whose names are too long for more."""
    source, target = made(client, "a"), made(client, "b")
    names = [
        "r1",
        "r1.move-0123456789",
        "r1.aaaaaaaa.move-0123456789",
        *("x" * 127 + c for c in "yz"),
    ]
    for k, name in enumerate(names):
        source.submit([b"%d" % k], id=name, priority=k, limit=k + 1)
        if k % 2:
            source.control("stop", k, "pause", name)
    redisq("move", "a", "--to", "b", "--state", "waiting", "--yes")
    there = sorted((r.priority, r.limit, r.paused, r.total) for r in requests(target).values())
    assert there == [(k, k + 1, bool(k % 2), 1) for k in range(5)]
    assert len({target.transferred_id("move-0123456789", f"{name}/1") for name in names}) == 5
    sound(source, target)


# --- who waits for the request it came from -------------------------------------------------------


def test_a_request_is_not_done_before_its_last_is_there(
    redisq: Redisq, client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, target = made(client, "a"), made(client, "b")
    source.submit([b"x1", b"x2"], id="r0")
    told_: Any = client.pubsub()  # type: ignore[no-untyped-call]
    told_.subscribe(source.keys["r_"] + "r0")
    # Refused over there: they are back, and nothing ended.
    client.set(target.keys["p_"] + "50", "somebody's")
    redisq("move", "a", "--to", "b", "--state", "waiting", "--yes", code=1)
    client.delete(target.keys["p_"] + "50")
    assert requests(source)["r0"].state == "sealed" and len(entries(source, "waiting")) == 2
    # Killed on the way: they may come back.
    redisq("move", "a", "--to", "b", "--state", "waiting", "--plan", "p")
    killed(redisq, "out", 1, "apply", "p", "--yes")
    its = requests(source)["r0"]
    assert (its.state, its.waiting, its.trash, its.moving) == ("sealed", 0, 2, 2)
    (said,) = redisq.rows("explain", "a/r0")
    assert (
        said["rule"] == "moving"
        and "2 of its entries are on the way to another queue" in said["sentence"]
    )
    sound(source)
    redisq("undo", PlanFile("p").header.op, "--yes")
    assert requests(source)["r0"].moving == 0 and len(entries(source, "waiting")) == 2
    channel = [message["type"] for _ in range(9) if (message := told_.get_message())]
    assert channel == ["subscribe"]
    # All there.
    redisq("move", "a", "--to", "b", "--state", "waiting", "--yes")
    its = requests(source)["r0"]
    assert (its.state, its.trash, its.moving) == ("done", 2, 0)
    assert [m["data"] for _ in range(9) if (m := told_.get_message())] == [b"done"]
    (said,) = redisq.rows("explain", "a/r0")
    assert "all 2 settled, 2 of them purged or moved to another queue" in said["sentence"]
    told_.close()
    sound(source, target)


def test_what_is_left_of_a_request_is_said_beside_what_is_on_its_way(
    redisq: Redisq, client: redis.Redis
) -> None:
    source, _ = made(client, "a"), made(client, "b")
    source.submit([b"x1", b"x2"], id="r0")
    redisq("move", "a/r0/1", "--to", "b", "--plan", "p")
    killed(redisq, "out", 1, "apply", "p", "--yes")
    (said,) = redisq.rows("explain", "a/r0")
    rules = {one["rule"]: one["sentence"] for one in (said, *said["also"])}
    assert rules["moving"].endswith("by an unfinished move") and len(rules) > 2
    assert PlanFile("p").header.op in rules["unfinished"]


def test_a_request_waits_for_a_move_until_somebody_finishes_it(
    redisq: Redisq, client: redis.Redis
) -> None:
    source, target = made(client, "a"), made(client, "b")
    source.submit([b"x1", b"x2"], id="r0")
    redisq("move", "a", "--to", "b", "--state", "waiting", "--plan", "p")
    killed(redisq, "out", 1, "apply", "p", "--yes")
    client.zadd(source.keys["retire"], {"r0": 1})
    run(client, source.sweep.op(50))
    assert (requests(source)["r0"].state, requests(source)["r0"].moving) == ("sealed", 2)
    run(client, recover(source, idle_ms=0))
    assert (requests(source)["r0"].state, requests(source)["r0"].moving) == ("done", 0)
    redisq("wait", "a/r0")
    assert len(entries(target, "waiting")) == 2
    sound(source, target)


@pytest.mark.parametrize(("few", "many"), [(1, 4), (4, 1), (3, 5)])
def test_queues_of_different_shards(
    redisq: Redisq, client: redis.Redis, few: int, many: int
) -> None:
    source, target = made(client, "a", few), made(client, "b", many)
    for k in range(12):
        source.submit([b"x%d-%d" % (k, n) for n in range(3)], id=f"r{k}", limit=100)
        target.submit([b"there"], id=f"r{k}")
    before = of_payload(source, "waiting")
    redisq("move", "a", "--to", "b", "--state", "waiting", "--plan", "p")
    op = PlanFile("p").header.op
    redisq("apply", "p", "--max", "16", "--yes")
    if many == 4:  # where a request is known, what comes later goes to it
        while run(client, target.resize.op(5)):
            for d in target.take(500, consumer="w").deliveries:
                target.settle([Settlement(d, "release")])
    assert redisq.rows("apply", "p", "--yes")[0]["done"] == 36
    target = requests_of(run(client, Deployment(client).queue("b")))
    moved = {p: row for p, row in of_payload(target, "waiting").items() if p != b"there"}
    assert moved == before and not entries(source, "waiting")
    shown = [request.id for request in [*target.requests(0, 100), *target.requests(0, 100, True)]]
    assert sorted(shown) == sorted([f"r{k}" for k in range(12)] + [f"r{k}.{op}" for k in range(12)])
    sound(source, target)
    redisq("undo", op, "--yes")
    assert of_payload(source, "waiting") == before
    assert set(of_payload(target, "waiting")) == {b"there"}
    sound(source, target)


def test_every_call_can_be_sent_twice(redisq: Redisq, client: redis.Redis) -> None:
    from ...model.wire import run_twice

    source, target = filled(client, "a"), made(client, "b")
    dead, op = sorted(entries(source, "dead")), "move-00000000aa"
    way = run(client, route_to(Deployment(client), source, "b"))
    order = transfer.MoveAction(source, "move", "dead", source.now(), route=way)
    picks = [Pick(id) for id in dead]
    assert run_twice(client, order.move(op, 1, picks, (0, 6))) == ["moved"] * 6
    assert requests(target)[f"r0.{op}"].total == 3
    with pytest.raises(Superseded):
        run(client, order.move(op, 0, picks, (0, 6)))
    cargo = run(client, core_transfer.read_step(source, op, 1))

    def withdraw(seq: int, to: Any) -> set[str]:
        return run_twice(
            client,
            core_transfer.revert_entries(
                target, "undo-move-00000000aa", seq, op, 1, dead, "dead", to
            ),
        )

    assert withdraw(2, "trash") == set(dead) and not entries(target, "dead")
    assert withdraw(3, "back") == set(dead) and len(entries(target, "dead")) == 6
    assert withdraw(4, "trash") == set(dead)
    back = run_twice(
        client,
        core_transfer.restore_entries(source, "undo-move-00000000aa", 1, op, 1, cargo, undone=True),
    )
    assert back == set(dead)
    assert withdraw(5, "gone") == set(dead)
    assert set(entries(source, "dead")) == set(dead) and not entries(target, "trash")
    sound(source, target)


def test_a_stream_that_no_request_knows_of(redisq: Redisq, client: redis.Redis) -> None:
    """Its record was evicted, or removed by hand: nothing is written beside it."""
    source, target = filled(client, "a"), made(client, "b")
    before = ours_by_payload(source)
    redisq("move", "a", "--to", "b", "--state", "waiting", "--plan", "p")
    key = target.keys["s_"] + f"r1.{PlanFile('p').header.op}"
    client.xgroup_create(key, "g", id="0", mkstream=True)
    redisq("apply", "p", "--yes", code=1)
    assert f"key {key} has entries that no request knows of" in redisq.err
    assert ours_by_payload(source) == before and not entries(target, "waiting")
    sound(source, target)


@pytest.mark.parametrize("part", ["s_", "p_"])
def test_a_key_of_another_type_in_the_way(redisq: Redisq, client: redis.Redis, part: str) -> None:
    source, target = filled(client, "a"), made(client, "b")
    before = ours_by_payload(source)
    redisq("move", "a", "--to", "b", "--state", "waiting", "--plan", "p")
    key = target.keys[part] + ("10" if part == "p_" else f"r0.{PlanFile('p').header.op}")
    client.set(key, "somebody's")
    redisq("apply", "p", "--yes", code=1)
    assert key in redisq.err and ours_by_payload(source) == before
    sound(source)
    client.delete(key)
    sound(target)
    (outcome,) = redisq.rows("apply", "p", "--yes", code=1)
    assert outcome["skipped"] == {"back": 6}
    assert redisq.rows("move", "a", "--to", "b", "--state", "waiting", "--yes")[0]["done"] == 6
    assert ours_by_payload(source) | ours_by_payload(target) == before
    sound(source, target)


def test_plan_log_and_explain_say_where_it_went(redisq: Redisq, client: redis.Redis) -> None:
    filled(client, "a")
    made(client, "b")
    said = redisq("move", "a", "--to", "b", "--state", "dead", "--dry-run") + redisq.err
    assert "in requests of their own there" in said
    (outcome,) = redisq.rows("move", "a", "--to", "b", "--state", "dead", "--yes")
    op = outcome["op"]
    (gone,) = redisq.rows("explain", "a/r1/1")
    assert (gone["rule"], gone["facts"]["into"]) == ("moved", "b")
    assert gone["command"] == f"redisq explain b/r1.{op}"
    (here,) = redisq.rows("explain", f"b/r1.{op}/1")
    assert any("moved here from a" in one["sentence"] for one in here["also"])
    (shown,) = redisq.rows("inspect", f"r1.{op}")
    assert (shown["queue"], shown["dead"]) == ("b", 3)


def test_edited_payloads_and_long_names_go_along(redisq: Redisq, client: redis.Redis) -> None:
    source, target = made(client, "a"), made(client, "b")
    long = "r" * 128
    source.submit([b'{"a":1}', b'{"a":2}'], id=long)
    source.settle([Settlement(d, "reject", b"") for d in source.take(2, consumer="w").deliveries])
    patch = json.dumps([{"op": "replace", "path": "/a", "value": 7}])
    redisq("dlq", "edit", "a", "--patch", patch, "--yes", "--where", "id~/1$")
    op = redisq.rows("move", "a", "--to", "b", "--state", "dead", "--yes")[0]["op"]
    (id,) = requests(target)
    assert id.startswith("r" * 103 + ".") and id.endswith(f".{op}") and len(id) == 128
    assert json.loads(target.get(f"{id}/1").payload) == {"a": 7}
    redisq("undo", op, "--yes")
    assert json.loads(source.get(f"{long}/1").payload) == {"a": 7}
    sound(source, target)


@pytest.mark.parametrize("binary", sorted(binaries()))
def test_on_a_cluster(clusters: Clusters, binary: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Queues on different nodes, one of them on all; a kill between the two, undone, done again."""
    nodes = clusters(binary)
    url = nodes.urls[0].replace("redis://", "redis+cluster://")
    redisq, link = Redisq(url, capsys), connect(url)
    source, target, wide = filled(link, "a", 20), made(link, "b"), made(link, "wide", 5)
    before = ours_by_payload(source)
    redisq("move", "a", "--to", "b", "--state", "dead", "--plan", "p")
    op = PlanFile("p").header.op
    killed(redisq, "out", 1, "apply", "p", "--max", "10", "--yes")
    killed(redisq, "in", 1, "apply", "p", "--max", "5", "--yes")
    assert redisq.rows("apply", "p", "--yes")[0]["done"] == 40
    assert ours_by_payload(source) | ours_by_payload(target) == before
    assert redisq.rows("undo", op, "--yes")[0]["done"] == 40
    assert ours_by_payload(source) == before
    for state in STATES:
        outcome = redisq.rows("move", "a", "--to", "wide", "--state", state, "--yes")[0]
        assert outcome["done"] == 40
    assert ours_by_payload(wide) == before and not ours_by_payload(source)
    sound(source, target, wide)
    link.close()

"""A whole state moved by the server's own order: the same as by naming every entry of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import redis

from redisq_ops import DelaySet, RequestQueue
from redisq_ops.core.model.clock import FakeClock
from redisq_ops.core.model.entry import Entry, Settlement, State
from redisq_ops.core.model.errors import Superseded
from redisq_ops.core.queues.carmine import ShardedCarmineQueue
from redisq_ops.core.queues.circular import ShardedCircularQueue
from redisq_ops.core.queues.delay import ShardedDelaySet
from redisq_ops.core.redis.operation import run
from redisq_ops.core.sharding.shard_map import home
from redisq_ops.ops.change.audit_log import Author, begin, find
from redisq_ops.ops.change.runner import ChangeRun
from redisq_ops.ops.change.undo import UndoSteps
from redisq_ops.ops.deployment import Deployment

from ...dead_entries import KINDS, N, bury


@pytest.fixture(params=list(KINDS))
def made(request: pytest.FixtureRequest, client: redis.Redis) -> Callable[[str], Any]:
    """Makes a queue of the kind, all its entries dead but one, which is pending."""
    make, fill = KINDS[request.param]

    def queue(name: str) -> Any:
        made = make(client, name, clock=FakeClock())
        fill(made)
        bury(made, keep=1)
        made.clock.advance(1)
        return made

    return queue


def everything(queue: Any) -> dict[State, list[Entry]]:
    """All of a queue's entries, but for the name of the change that touched them."""
    states: tuple[State, ...] = ("waiting", "pending", "delayed", "dead", "trash")
    found = {}
    for state in states:
        page = queue.page(state, None, 500, payloads=True)
        found[state] = [
            (e.id, e.payload, e.failures, e.lost, e.reason, e.error, e.consumer, e.since_ms)
            for e in page.entries
        ]
        assert page.cursor is None
    return found  # type: ignore[return-value]  # rows of what tells entries apart


AUTHOR = Author("me", "here")


def begun(queue: Any, target: str, matched: int) -> None:
    times = {"now_ms": queue.now(), "source": "dead", "target": target, "matched": matched}
    run(queue.client, begin(queue, "op", "replay", AUTHOR, "all", **times))


def front(
    queue: Any,
    op: str,
    target: str,
    source: State = "dead",
    n: int = 10,
    high_water_ms: int | None = None,
) -> int:
    """Move a whole state; how many steps that took."""
    high, left, step = high_water_ms or queue.now(), (0,), 0
    while True:
        step += 1
        done = queue.move_range(
            op, step, n, source=source, target=target, high_water_ms=high, left=left
        )
        left = done.left
        if done.over:
            return step


def named(queue: Any, op: str, target: str, source: State = "dead", n: int = 10) -> None:
    ids = [entry.id for entry in queue.page(source, None, 500).entries]
    for step in range(0, len(ids), n):
        some = ids[step : step + n]
        said = queue.move(
            op, step + 1, some, source=source, target=target, high_water_ms=queue.now()
        )
        assert said == ["moved"] * len(some)


@pytest.mark.parametrize("target", ["waiting", "trash", "gone"])
def test_a_whole_state_moves_as_its_entries_by_name_do(
    made: Callable[[str], Any], target: str
) -> None:
    ours, theirs = made("ours"), made("theirs")
    dead = ours.counts().dead
    assert dead >= N - 1
    front(ours, "op", target)
    named(theirs, "op", target)
    assert everything(ours) == everything(theirs)
    assert ours.counts().dead == 0 and ours.counts().pending == 1
    assert ours.invariants() == []


@pytest.mark.parametrize("move", [front, named])
def test_what_is_replayed_is_as_new(made: Callable[[str], Any], move: Callable[..., Any]) -> None:
    queue = made("q")
    dead = {entry.id: entry for entry in queue.page("dead", None, 500).entries}
    assert all(entry.first_ms and entry.consumer for entry in dead.values())
    move(queue, "op", "waiting")
    for entry in queue.page("waiting", None, 500).entries:
        assert (entry.attempts, entry.first_ms, entry.consumer) == (0, None, None)
        assert entry.op == "op"
    queue.clock.advance(1)
    for given in queue.take(100, consumer="next").deliveries:
        entry = queue.get(given.id)
        assert (entry.first_ms, entry.consumer, given.attempt) == (queue.now(), "next", 1)
    assert queue.invariants() == []


@pytest.mark.parametrize("target", ["waiting", "trash"])
def test_undo_puts_back_what_was_moved_whole(made: Callable[[str], Any], target: str) -> None:
    queue = made("q")
    before = everything(queue)
    begun(queue, target, queue.counts().dead)
    front(queue, "op", target)
    assert everything(queue) != before
    deployment = Deployment(queue.client, clock=queue.clock)
    _, operation = run(queue.client, find(deployment, "op"))
    assert operation.done == len(before["dead"])
    undo = ChangeRun(UndoSteps(queue, operation), AUTHOR)
    while run(queue.client, undo.step()):
        pass
    assert undo.outcome.done == len(before["dead"]) and not undo.outcome.skipped
    assert everything(queue) == before
    assert queue.invariants() == []


def test_when_it_died_is_the_same_after_each_undo(made: Callable[[str], Any]) -> None:
    queue = made("q")
    died = {entry.id: entry.since_ms for entry in queue.page("dead", None, 500).entries}
    for op in ("one", "two", "three"):
        queue.clock.advance(60)
        for step in range(1, front(queue, op, "waiting")):
            queue.undo(op, step, target="waiting", by=f"undo-{op}", seq=step)
        found = {entry.id: entry.since_ms for entry in queue.page("dead", None, 500).entries}
        assert found == died, op


def test_a_step_that_arrives_behind_the_undos_moves_nothing(made: Callable[[str], Any]) -> None:
    """Two are on their way at a time: the undo takes the place of one, not of the other."""
    queue = made("q")
    before = everything(queue)
    begun(queue, "waiting", queue.counts().dead)
    say = {"source": "dead", "target": "waiting", "high_water_ms": queue.now()}
    assert queue.move_range("op", 1, 5, **say).moved
    _, operation = run(queue.client, find(Deployment(queue.client, clock=queue.clock), "op"))
    undo = ChangeRun(UndoSteps(queue, operation), AUTHOR)
    while run(queue.client, undo.step()):
        for seq in (
            (2, 3, 4) if len(queue.shard_keys) == 1 else (2,)
        ):  # to shards one at a time goes
            with pytest.raises(Superseded):
                queue.move_range("op", seq, 5, **say)
    assert everything(queue) == before and queue.invariants() == []


def test_what_was_purged_whole_can_be_emptied_whole(made: Callable[[str], Any]) -> None:
    queue = made("q")
    front(queue, "purge", "trash")
    queue.clock.advance(0.005)
    trash = queue.counts().trash
    front(queue, "empty", "gone", source="trash")
    counts = queue.counts()
    assert trash and counts.trash == counts.dead == 0 and counts.pending == 1
    assert queue.invariants() == []


def test_who_dies_after_the_look_is_not_meant(made: Callable[[str], Any]) -> None:
    queue = made("q")
    before, high = queue.counts(), queue.now()
    queue.clock.advance(0.001)
    (late,) = queue.page("pending").entries
    queue.move("bury", 1, [late.id], source="pending", target="waiting", high_water_ms=high)
    bury(queue)
    step, left = 0, (0,)
    while True:
        step += 1
        done = queue.move_range(
            "op", step, 10, source="dead", target="waiting", high_water_ms=high, left=left
        )
        left = done.left
        if done.over:
            break
    assert [entry.id for entry in queue.page("dead").entries] == [late.id]
    assert queue.counts().waiting == before.dead


@pytest.mark.parametrize("later_ms", [-1, 1])
def test_what_an_undo_put_back_since_the_look_is_not_meant(
    made: Callable[[str], Any], later_ms: int
) -> None:
    """It has the time again at which it had died, and is told by its record."""
    queue = made("q")
    dead = [entry.id for entry in queue.page("dead", None, 500).entries]
    queue.move("purge", 1, dead[3:6], source="dead", target="trash", high_water_ms=queue.now())
    look = queue.now()
    queue.clock.advance(0.001)
    queue.undo("purge", 1, target="trash", by="undo", seq=1)
    front(queue, "op", "waiting", high_water_ms=look + 1 - later_ms)
    left = {entry.id for entry in queue.page("dead", None, 500).entries}
    assert left == (set(dead[3:6]) if later_ms > 0 else set())
    assert queue.invariants() == []


def test_a_step_sent_twice_moves_once(made: Callable[[str], Any]) -> None:
    queue = made("q")
    say = {"source": "dead", "target": "waiting", "high_water_ms": queue.now()}
    first = queue.move_range("op", 1, 5, **say)
    after = everything(queue)
    assert queue.move_range("op", 1, 5, **say) == first
    assert everything(queue) == after and first.moved


def test_the_history_is_told_of_a_seconds_steps_at_once(made: Callable[[str], Any]) -> None:
    queue = made("q")
    say = {"source": "dead", "target": "waiting", "high_water_ms": queue.now()}

    def told() -> list[int]:
        items = (
            item.split("|") for event in queue.history(100) for item in event.what.get("op", ())
        )
        return [int(number) for op, *_, number in items if op == "op"][::-1]

    shards = len(queue.shard_keys)
    first = queue.move_range("op", 1, shards, **say).done
    assert sum(told()) == first  # at once, so that it is seen to begin
    for step, later_ms in ((2, 400), (3, 599)):
        queue.clock.now_ms += later_ms
        queue.move_range("op", step, shards, **say)
    assert sum(told()) == first and len(told()) <= shards
    queue.clock.advance(0.001)
    fourth = queue.move_range("op", 4, shards, **say).done
    assert sum(told()) == fourth > first and len(told()) <= 2 * shards
    fifth = queue.move_range("op", 5, shards, **say).done
    assert sum(told()) == fourth < fifth
    last = queue.move_range("op", 6, shards, **say, last=True).done
    assert sum(told()) == last > fifth
    queue.clock.now_ms -= 10_000
    seventh = queue.move_range("op", 7, shards, **say).done
    assert sum(told()) == seventh > last  # by a clock that is behind, it would be a long time
    eighth = queue.move_range("op", 8, shards, **say).done
    assert sum(told()) == seventh < eighth
    step, left = 9, (0,)
    while not (done := queue.move_range("op", step, 10, **say, left=left)).over:
        step, left = step + 1, done.left
    assert sum(told()) == done.done > eighth  # nothing was left


def test_the_history_is_told_nothing_twice_when_shards_are_given_up(client: redis.Redis) -> None:
    """What was told in theirs is for who exported it; what goes on is told in the first one's."""
    clock = FakeClock()
    queue: Any = ShardedDelaySet(client, "q", shards=3, clock=clock)
    queue.schedule([(f"e{n}", b"x") for n in range(N)], after=0)
    bury(queue)
    clock.advance(1)
    say = {"source": "dead", "target": "waiting", "high_water_ms": queue.now()}
    begun(queue, "waiting", N)

    def told() -> int:
        items = [item for event in queue.history(100) for item in event.what.get("op", ())]
        return sum(int(item.split("|")[3]) for item in items)

    first = queue.move_range("op", 1, 9, **say)
    assert told() == first.done > 0
    while queue.resize(1):
        pass
    kept = told()
    step, left = 2, first.left[:1]
    while not (done := queue.move_range("op", step, 9, **say, left=left)).over:
        step, left = step + 1, done.left
    assert told() - kept == done.done - first.done and done.done == N


def test_an_entry_whose_request_is_gone_stays_and_stops_nothing(client: redis.Redis) -> None:
    clock = FakeClock()
    queue = RequestQueue(client, "q", clock=clock)
    for rid in ("r1", "r2"):
        queue.submit([b"1", b"2"], id=rid, limit=5)
        bury(queue)
    client.delete(queue.keys["r_"] + "r1")  # evicted, or removed by hand
    clock.advance(0.001)
    left: tuple[int, ...] = (0,)
    moved = step = 0
    while True:
        step += 1
        done = queue.move_range(
            "op", step, 1, source="dead", target="waiting", high_water_ms=queue.now(), left=left
        )
        moved, left = moved + done.moved, done.left
        if done.over:
            break
    assert (moved, left) == (2, (2,))
    assert [entry.id for entry in queue.page("dead").entries] == ["r1/1", "r1/2"]


@pytest.mark.parametrize("gone", ["r1", "r2", "r3"])
def test_a_request_that_is_gone_is_not_taken_for_its_neighbour(
    client: redis.Redis, gone: str
) -> None:
    queue = RequestQueue(client, "q", clock=FakeClock())
    for rid in ("r1", "r2", "r3"):
        queue.submit([b"1", b"2", b"3"], id=rid, limit=5)
        bury(queue)
    client.delete(queue.keys["r_"] + gone)
    front(queue, "op", "waiting")
    assert [entry.id for entry in queue.page("dead").entries] == [f"{gone}/{n}" for n in (1, 2, 3)]
    for rid in {"r1", "r2", "r3"} - {gone}:
        request = queue.request(rid)
        assert request and (request.waiting, request.dead) == (3, 0)
    taken = queue.take(9, consumer="w").deliveries
    queue.settle([Settlement(one, "ack") for one in taken])
    assert [queue.counts().of(state) for state in ("waiting", "pending", "done")] == [0, 0, 6]


@pytest.mark.parametrize("target", ["waiting", "trash"])
def test_undo_leaves_alone_whose_request_is_gone(client: redis.Redis, target: str) -> None:
    queue = RequestQueue(client, "q", clock=FakeClock())
    for rid in ("r1", "r2"):
        queue.submit([b"1", b"2"], id=rid, limit=5)
        bury(queue)
    assert front(queue, "op", target) == 2
    client.delete(queue.keys["r_"] + "r1")
    assert queue.undo("op", 1, target=target, by="undo", seq=1) == (2, 2)
    assert [entry.id for entry in queue.page("dead").entries] == ["r2/1", "r2/2"]


def test_what_another_change_touched_is_not_undone(made: Callable[[str], Any]) -> None:
    """One of its name in another place of the record is not its own."""
    queue = made("q")
    dead = [entry.id for entry in queue.page("dead", None, 500).entries]
    front(queue, "op", "trash", n=100)
    some = {"source": "trash", "target": "waiting", "high_water_ms": queue.now()}
    assert queue.move("other", 1, dead[:1], **some) == ["moved"]
    taken = queue.take(1, consumer="op").deliveries
    assert queue.undo("op", 1, target="trash", by="undo", seq=1) == (len(dead) - 1, 1)
    assert [one.id for one in taken] == dead[:1] and queue.get(dead[0]).state == "pending"


@pytest.mark.parametrize("move", [front, named])
def test_where_all_was_changed_since_nothing_is_undone(
    made: Callable[[str], Any], move: Callable[..., Any]
) -> None:
    queue = made("q")
    dead = queue.counts().dead
    move(queue, "op", "waiting", n=100)
    named(queue, "other", "trash", source="waiting", n=100)
    before = queue.counts()
    assert queue.undo("op", 1, target="waiting", by="undo", seq=1)[0] == 0
    assert queue.counts() == before and before.trash >= dead
    assert queue.invariants() == []


def test_a_call_touches_so_many_requests_and_no_more(client: redis.Redis) -> None:
    """One costs as much as several entries."""
    queue = RequestQueue(client, "q", clock=FakeClock())
    for n in range(60):
        queue.submit([b"x"], id=f"r{n}")
    bury(queue)
    high, moved = queue.now(), []
    for step in range(1, 5):
        said = queue.move_range(
            "op", step, 100, source="dead", target="waiting", high_water_ms=high
        )
        moved.append(said.moved)
    assert moved == [25, 25, 10, 0] and said.over
    assert queue.counts().waiting == 60 and queue.invariants() == []


def test_a_whole_state_is_moved_by_full_servers_too(client: redis.Redis) -> None:
    clock = FakeClock()
    queue = DelaySet(client, "q", clock=clock)
    KINDS["delay"][1](queue)
    bury(queue)
    clock.advance(0.001)
    client.config_set("maxmemory-policy", "noeviction")
    client.config_set("maxmemory", 1)
    try:
        front(queue, "op", "gone")
    finally:
        client.config_set("maxmemory", 0)
    assert queue.counts().dead == 0


@pytest.mark.parametrize(
    ("kind", "make", "name"),
    [
        ("delay", ShardedDelaySet, "q"),
        ("circular", ShardedCircularQueue, "q"),
        ("carmine", ShardedCarmineQueue, "carmine:%7Bq%7D"),
    ],
)
def test_what_an_undo_put_back_is_told_from_older_entries_in_another_shard(
    client: redis.Redis, kind: str, make: Any, name: str
) -> None:
    clock = FakeClock()
    queue = make(client, name, shards=1, clock=clock)
    _, fill = KINDS[kind]
    fill(queue)
    bury(queue)
    ids = [entry.id for entry in queue.page("dead", None, 500).entries]
    clock.advance(1)
    chosen_ms = queue.now()
    queue.move("replay", 1, ids, source="dead", target="waiting", high_water_ms=chosen_ms)
    clock.advance(1)
    queue.undo("replay", 1, target="waiting", by="undo", seq=1)
    assert queue.resize(3) == 0
    assert queue.counts().dead == len(ids)
    front(queue, "late", "waiting", high_water_ms=chosen_ms)
    assert queue.counts().dead == len(ids)
    front(queue, "now", "waiting")
    assert queue.counts().dead == 0


def grown(client: redis.Redis, ids: list[str]) -> ShardedDelaySet[Any]:
    """Dead entries, as a process has them that doesn't know yet of four shards instead of one."""
    clock = FakeClock()
    queue, other = (ShardedDelaySet(client, "q", shards=1, clock=clock) for _ in range(2))
    queue.schedule([(id, b"x") for id in ids], after=0)
    bury(queue)
    assert other.resize(4) == 0 and len(queue.shard_keys) == 1
    return queue


def test_a_step_moves_no_more_where_shards_are_added_meanwhile(client: redis.Redis) -> None:
    queue = grown(client, [f"e{k}" for k in range(60)])
    say = {"source": "dead", "target": "trash", "high_water_ms": queue.now()}
    step = queue.move_range("op", 1, 3, **say)
    assert (step.moved, step.over, queue.counts().trash) == (3, False, 3)
    queue.move_range("op", 2, 100, left=step.left, **say)  # by now it knows of all shards
    assert (queue.counts().dead, queue.counts().trash) == (0, 60)


def test_a_state_is_not_over_while_added_shards_have_entries(client: redis.Redis) -> None:
    ids = [id for id in (f"e{k}" for k in range(60)) if home(id, 4) != 0]
    queue = grown(client, ids)
    front(queue, "op", "trash")
    assert (queue.counts().dead, queue.counts().trash) == (0, len(ids))

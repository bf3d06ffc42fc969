"""Consumers: lag and pending apart, who is silent, and taking from them without losing a thing."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from hashlib import sha1
from pathlib import Path
from typing import Any

import pytest
import redis

from redisq_ops.core.engine.queue import Queue
from redisq_ops.core.foreign.streams import StreamQueue
from redisq_ops.core.model.clock import FakeClock
from redisq_ops.core.model.entry import Delivery, Settlement
from redisq_ops.core.model.errors import BadInput, NotFound, Refused
from redisq_ops.core.queues.delay import DelaySet
from redisq_ops.core.queues.fair import FairQueue
from redisq_ops.core.queues.request import RequestQueue, ShardedRequestQueue
from redisq_ops.core.redis.operation import run, together
from redisq_ops.core.redis.transport import exchange
from redisq_ops.ops.change import audit_log
from redisq_ops.ops.change.audit_log import Author
from redisq_ops.ops.change.consumer_steps import RECHECKS, ConsumerSteps
from redisq_ops.ops.change.held_entries import held_entries
from redisq_ops.ops.change.runner import ChangeRun
from redisq_ops.ops.change.undo import UndoSteps
from redisq_ops.ops.explain.explanation import explain
from redisq_ops.ops.inspect.consumers import ConsumerReport, consumer_reports

from ...command_line import Redisq
from ...model.wire import picture

ADA = Author("ada", "desk", "w1 is gone")
MINUTE = 60_000


@pytest.fixture
def orders(client: redis.Redis) -> StreamQueue[redis.Redis]:
    """Twenty entries; of group bill w1 has seven and w2 three."""
    for n in range(20):
        client.xadd("orders", {"n": n})
    client.xgroup_create("orders", "bill", id="0")
    client.xreadgroup("bill", "w1", {"orders": ">"}, count=7)
    client.xreadgroup("bill", "w2", {"orders": ">"}, count=3)
    return StreamQueue(client, "stream:orders")


def pel(client: redis.Redis, key: str = "orders", group: str = "bill") -> dict[str, str]:
    """id -> who has it."""
    rows: Any = client.xpending_range(key, group, "-", "+", 10_000)
    return {row["message_id"].decode(): row["consumer"].decode() for row in rows}


def names(client: redis.Redis, key: str = "orders", group: str = "bill") -> set[str]:
    rows: Any = client.xinfo_consumers(key, group)
    return {row["name"].decode() for row in rows}


def aged(client: redis.Redis, id: str, consumer: str, idle_ms: int, deliveries: int) -> None:
    client.xclaim(
        "orders", "bill", consumer, 0, [id], idle=idle_ms, retrycount=deliveries, justid=True
    )


def finish(queue: Queue[redis.Redis], change: ChangeRun[Any]) -> ChangeRun[Any]:
    while run(queue.client, change.step()):
        pass
    return change


def taken_from(
    queue: Queue[redis.Redis], consumer: str, to: str | None, **how: Any
) -> tuple[ChangeRun[ConsumerSteps], str]:
    remove = how.pop("remove", False)
    held = run(queue.client, held_entries(queue, consumer, **how))
    change = ChangeRun(ConsumerSteps(held, to, remove=remove), ADA)
    finish(queue, change)
    assert change.outcome.op is not None
    return change, change.outcome.op


def undone(queue: Queue[redis.Redis], op: str) -> ChangeRun[UndoSteps]:
    operation = run(queue.client, audit_log.read(queue, op))
    assert operation is not None
    undo = ChangeRun(UndoSteps(queue, operation), ADA)
    finish(queue, undo)
    return undo


def report(queue: Queue[redis.Redis], group: str | None = None, **how: Any) -> ConsumerReport:
    (only,) = run(queue.client, consumer_reports(queue, group, **how))
    return only


# --- ls -----------------------------------------------------------------------


def test_lag_and_pending_are_counted_separately(
    orders: StreamQueue[redis.Redis], client: redis.Redis
) -> None:
    client.xgroup_create("orders", "audit", id="$")
    audit, bill = run(client, consumer_reports(orders))
    assert [(load.group, load.lag, load.pending) for load in bill.loads] == [("bill", 10, 10)]
    assert (audit.loads[0].lag, audit.loads[0].pending, audit.consumers) == (0, 0, ())
    assert [(one.name, one.pending, one.late) for one in bill.consumers] == [
        ("w1", 7, None),
        ("w2", 3, None),
    ]
    assert report(orders, "bill") == bill or report(orders, "bill").group == "bill"
    with pytest.raises(NotFound, match="group nobody"):
        run(client, consumer_reports(orders, "nobody"))


def test_heat_map_poison_and_silent_consumers(
    orders: StreamQueue[redis.Redis], client: redis.Redis
) -> None:
    ids = sorted(pel(client))
    for id, idle, deliveries in (
        (ids[0], 30_000, 1),
        (ids[1], 120_000, 2),
        (ids[2], 2 * 3_600_000, 4),
        (ids[3], 30 * 3_600_000, 12),
        (ids[4], 1_000, 9),
    ):
        aged(client, id, "w9", idle, deliveries)
    seen = report(orders, silent_ms=0)
    assert seen.heat == (
        (6, 0, 0, 0, 0),
        (0, 1, 0, 0, 0),
        (0, 0, 0, 1, 0),
        (1, 0, 0, 0, 0),
        (0, 0, 0, 0, 1),
    )
    assert [(row.id, row.consumer, row.deliveries) for row in seen.poison] == [(ids[3], "w9", 12)]
    w9 = next(one for one in seen.consumers if one.name == "w9")
    assert w9.oldest_ms is not None and w9.oldest_ms >= 30 * 3_600_000
    assert all(one.silent_ms is not None for one in seen.consumers)  # from 0 ms on
    assert all(one.silent_ms is None for one in report(orders, silent_ms=MINUTE).consumers)
    assert [row.id for row in report(orders, poison=9).poison] == [ids[3], ids[4]]


def test_queues_with_leases_list_consumers_by_lease(client: redis.Redis) -> None:
    clock = FakeClock()
    jobs = FairQueue(client, "jobs", clock=clock)
    jobs.submit("acme", [b"x"] * 6)
    (kept,) = jobs.take(1, consumer="w2").deliveries
    jobs.take(2, consumer="w1")
    for _ in range(30):
        clock.advance(20)
        jobs.extend([kept])
    seen = report(jobs)
    assert [(load.lag, load.pending) for load in seen.loads] == [(3, 3)]
    w1, w2 = seen.consumers
    assert (w1.name, w1.pending, w1.late, w1.silent_ms) == ("w1", 2, 2, 600_000 - 30_000)
    assert (w2.name, w2.pending, w2.late, w2.silent_ms) == ("w2", 1, 0, None)  # it renews
    assert w1.idle_ms is None and w1.oldest_ms == 600_000
    assert seen.heat[0] == (0, 0, 3, 0, 0)


def test_groups_of_a_request_queue_are_its_requests(client: redis.Redis) -> None:
    queue = RequestQueue(client, "mail", clock=FakeClock())
    queue.submit([b"x"] * 6, id="r1", limit=6)
    queue.submit([b"x"] * 3, id="r2", limit=1)
    again, *_ = queue.take(7, consumer="w1").deliveries
    queue.settle([Settlement(again, "release")])
    seen = report(queue)
    assert {load.group: (load.lag, load.pending, load.again) for load in seen.loads} == {
        "r1": (0, 5, 1),
        "r2": (2, 1, 0),
    }
    (one,) = report(queue, "r2").consumers
    assert one.name == "w1" and one.pending == 1 and one.idle_ms is not None


def test_examined_window_is_reported(
    orders: StreamQueue[redis.Redis],
    client: redis.Redis,
    redisq: Redisq,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("redisq_ops.ops.inspect.consumers.PENDING_PAGE", 4)
    seen = report(orders)
    assert (seen.looked, seen.pending) == (4, 10)
    assert "of the first 4 of 10 pending" in redisq("workers", "ls", "stream:orders")
    assert [one.pending for one in seen.consumers] == [7, 3]  # the group's own numbers are whole


def test_what_a_consumer_holds_is_at_least_what_was_looked_at(
    client: redis.Redis, redisq: Redisq, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("redisq_ops.ops.inspect.consumers.PENDING_PAGE", 4)
    jobs = DelaySet(client, "jobs", clock=FakeClock(int(time.time() * 1000) - 3_600_000))
    jobs.schedule([(f"e{n}", b"") for n in range(9)])
    jobs.take(9, consumer="w1")
    (row,) = redisq.rows("workers", "ls", "jobs")
    assert [(one["pending"], one["exact"]) for one in row["consumers"]] == [(4, False)]
    assert "≥4" in redisq("workers", "ls", "jobs")
    said = redisq("explain", "jobs")
    assert "w1 was silent for at least" in said and "and holds at least 4 entries" in said
    explained = run(client, explain(DelaySet(client, "jobs")))
    (overdue,) = [one for one in (explained.reason, *explained.also) if one.rule == "overdue"]
    assert overdue.deed == "Requeue what w1 has"
    monkeypatch.setattr("redisq_ops.ops.inspect.consumers.PENDING_PAGE", 9)
    assert "and holds 9 entries" in redisq("explain", "jobs")
    (row,) = redisq.rows("workers", "ls", "jobs")
    assert [(one["pending"], one["exact"]) for one in row["consumers"]] == [(9, True)]


def test_ls_as_text_and_json(
    orders: StreamQueue[redis.Redis], client: redis.Redis, redisq: Redisq
) -> None:
    aged(client, sorted(pel(client))[0], "w1", 400_000, 11)
    lines = redisq("workers", "ls", "stream:orders", "--silent-for", "0s").splitlines()
    assert lines[0] == "queue stream:orders, group bill"
    assert lines[1] == "  lag 10 (not delivered yet), pending 10 (delivered, not settled)"
    assert lines[3].split() == ["consumer", "pending", "idle", "oldest", "leases", "over"]
    assert lines[4].split()[:2] == ["w1", "7"] and "6m 40s" in lines[4] and "silent" in lines[4]
    assert any(line.split() == ["10+", "1"] for line in lines)
    assert lines[-1].startswith("  poison: ") and "delivered 11 times, w1 has it" in lines[-1]
    (row,) = redisq.rows("workers", "ls", "stream:orders")
    assert (row["group"], row["lag"], row["pending"], row["scanned"]) == ("bill", 10, 10, 10)
    assert row["heat"]["counts"][4] == [0, 1, 0, 0, 0]
    assert row["consumers"][0]["silent"] is False and row["poison"][0]["deliveries"] == 11
    assert redisq("workers", "ls") == ""  # the registry knows no queue
    assert redisq.err == "no worker process is registered, and no consumer holds an entry\n"


# --- claim --------------------------------------------------------------------


def test_claim_by_age_leaves_the_rest(
    orders: StreamQueue[redis.Redis], client: redis.Redis
) -> None:
    ids = sorted(pel(client))
    for id in ids[:2]:
        aged(client, id, "w1", 600_000, 3)
    change, _ = taken_from(orders, "w1", "w3", min_idle_ms=300_000)
    assert (change.outcome.matched, change.outcome.done) == (2, 2)
    assert change.steps.held.too_young == 5
    assert [id for id, who in pel(client).items() if who == "w3"] == ids[:2]
    rows: Any = client.xpending_range("orders", "bill", "-", "+", 2)
    for row in rows:  # who claims by age later finds them as old as they are
        assert row["time_since_delivered"] >= 600_000 and row["times_delivered"] == 3
    assert "w1" in names(client)


def test_an_empty_name_does_not_mean_all_consumers(
    orders: StreamQueue[redis.Redis], redisq: Redisq, client: redis.Redis
) -> None:
    """As a shell writes it for a variable that isn't set."""
    before = pel(client)
    for words in (("claim", "--to", "w9"), ("ack",), ("rm",)):
        verb, *more = words
        redisq("workers", verb, "stream:orders", "", *more, "--yes", code=2)
        assert "no name of a consumer is given" in redisq.err
    assert pel(client) == before


def test_each_entry_is_checked_again_before_it_moves(
    orders: StreamQueue[redis.Redis], client: redis.Redis
) -> None:
    held = run(client, held_entries(orders, "w1"))
    settled, claimed, trimmed, *_ = held.ids
    client.xack("orders", "bill", settled)
    client.xclaim("orders", "bill", "w2", 0, [claimed])
    client.xdel("orders", trimmed)
    change = ChangeRun(ConsumerSteps(held, "w3"), ADA)
    finish(orders, change)
    assert (change.outcome.matched, change.outcome.done) == (7, 4)
    assert change.outcome.skipped == {"changed": 2, "gone": 1}
    assert change.outcome.exit_code == 3
    assert pel(client)[claimed] == "w2" and settled not in pel(client)


def test_a_step_sent_twice_changes_nothing(
    orders: StreamQueue[redis.Redis], client: redis.Redis
) -> None:
    ids = sorted(pel(client))[:7]
    once = orders.reassign("bill", "w1", "w3", ids, remove=True)
    before = picture(client)
    again = orders.reassign("bill", "w1", "w3", ids, remove=True)
    assert once.words == again.words == ("moved",) * 7
    assert once.removed and "w1" not in names(client)
    after = picture(client)
    assert {k: v for k, v in after.items() if k != b"orders"} == {
        k: v for k, v in before.items() if k != b"orders"
    }
    assert set(pel(client).values()) == {"w2", "w3"}


def test_claim_in_a_queue_of_ours_voids_the_old_receipts(client: redis.Redis) -> None:
    clock = FakeClock()
    queue = RequestQueue(client, "mail", clock=clock)
    queue.submit([b"x"] * 5, id="r1", limit=5)
    old = queue.take(3, consumer="w1").deliveries
    queue.take(1, consumer="w2")
    began = clock.now_ms
    clock.advance(5)
    change, op = taken_from(queue, "w1", "w3")
    assert change.outcome.done == 3
    assert queue.settle([Settlement(d, "ack") for d in old]) == ["stale"] * 3
    found = queue.get("r1/1")
    assert found is not None and (found.consumer, found.state) == ("w3", "pending")
    assert pel(client, "redisq:{mail}:s:r1", "g") == {
        "1-0": "w3",
        "2-0": "w3",
        "3-0": "w3",
        "4-0": "w2",
    }
    assert found.receipt is not None
    new = Delivery("mail", "r1/1", b"", found.receipt, 0, 0, 0, "w3")
    assert queue.settle([Settlement(new, "ack")]) == ["done"]
    undo = undone(queue, op)
    assert (undo.outcome.done, undo.outcome.skipped) == (2, {"changed": 1})
    again = queue.get("r1/2")
    assert again is not None and again.since_ms == began, "held as long as before"
    assert queue.settle([Settlement(d, "ack") for d in old]) == ["stale", "done", "done"]
    assert queue.invariants() == []


# --- remove -------------------------------------------------------------------


def test_plain_delconsumer_loses_pending_entries(
    orders: StreamQueue[redis.Redis], client: redis.Redis
) -> None:
    """The trap: this is what the server does when it is told."""
    client.xgroup_delconsumer("orders", "bill", "w1")
    assert len(pel(client)) == 3
    given: Any = client.xreadgroup("bill", "w2", {"orders": ">"}, count=100)
    assert len(_entries(given)) == 10  # seven were given to nobody else, and never will be


def _entries(given: Any) -> list[Any]:
    rows = next(iter(given.values()))
    return list(rows[0]) if rows and isinstance(rows[0], list) else list(rows)


def test_removal_keeps_pending_entries(
    orders: StreamQueue[redis.Redis], client: redis.Redis
) -> None:
    before = set(pel(client))
    change, op = taken_from(orders, "w1", "operator", remove=True)
    assert (change.outcome.done, change.steps.removed) == (7, 1)
    assert set(pel(client)) == before and names(client) == {"w2", "operator"}
    operation = run(client, audit_log.read(orders, op))
    assert operation is not None and operation.undoable
    assert (operation.verb, operation.why, operation.done) == ("remove", "w1 is gone", 7)
    undone(orders, op)
    assert names(client) == {"w1", "w2", "operator"}
    assert sorted(pel(client).values()).count("w1") == 7


def test_several_steps_and_the_undo_limit(
    client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    client.xgroup_create("orders", "bill", id="0", mkstream=True)
    for n in range(250):
        client.xadd("orders", {"n": n})
    client.xreadgroup("bill", "w1", {"orders": ">"}, count=250)
    queue = StreamQueue(client, "stream:orders")
    change, op = taken_from(queue, "w1", "w2", remove=True)
    assert change.outcome.done == 250 and names(client) == {"w2"}
    undone(queue, op)
    assert set(pel(client).values()) == {"w1"}
    monkeypatch.setattr("redisq_ops.ops.change.consumer_steps.UNDOABLE", 200)
    change, op = taken_from(queue, "w1", "w3")
    assert not change.steps.undoable
    operation = run(client, audit_log.read(queue, op))
    assert operation is not None and not operation.undoable
    with pytest.raises(Refused, match="can't be undone"):
        ChangeRun(UndoSteps(queue, operation), ADA)


@pytest.fixture
def many(client: redis.Redis) -> StreamQueue[redis.Redis]:
    """120 entries of the stream orders, all with w1 of group bill: three steps."""
    client.xgroup_create("orders", "bill", id="0", mkstream=True)
    for n in range(1, 121):
        client.xadd("orders", {"n": n}, id=f"{n}-0")
    client.xreadgroup("bill", "w1", {"orders": ">"}, count=120)
    return StreamQueue(client, "stream:orders")


def test_stream_undo_counts_entries_and_names_skipped_ones(
    many: StreamQueue[redis.Redis], client: redis.Redis, redisq: Redisq, tmp_path: Path
) -> None:
    """Two of the three steps were touched, one of them in part: that is no undo of a step."""
    (ended,) = redisq.rows(
        "workers", "claim", "stream:orders", "w1", "--to", "w2", "--min-idle", "0s", "--yes"
    )
    stay: list[Any] = [f"{n}-0" for n in range(1, 71)]
    client.xclaim("orders", "bill", "w4", 0, stay[:60], justid=True)
    client.xack("orders", "bill", *stay[60:])
    report = tmp_path / "left"
    (back,) = redisq.rows("undo", ended["op"], "--yes", "--report", str(report), code=3)
    assert (back["matched"], back["done"], back["skipped"]) == (120, 50, {"changed": 70})
    assert back["unnamed"] == 0 and len(back["sample"]) == 5 and set(back["sample"]) < set(stay)
    told = [json.loads(line) for line in report.read_text().splitlines()]
    assert {row["id"] for row in told[1:-1]} == set(stay)
    assert Counter(pel(client).values()) == {"w4": 60, "w1": 50}
    (row,) = [row for row in redisq.rows("log") if row["verb"] == "undo"]
    assert (row["done"], row["matched"]) == (50, 120)


def test_stream_undo_that_moves_nothing_fails(
    many: StreamQueue[redis.Redis], client: redis.Redis, redisq: Redisq
) -> None:
    _, op = taken_from(many, "w1", "w2")
    client.xack("orders", "bill", *pel(client))
    (back,) = redisq.rows("undo", op, "--yes", code=1)
    assert (back["matched"], back["done"], back["skipped"]) == (120, 0, {"changed": 120})


def test_undo_of_entries_that_are_back_already(
    many: StreamQueue[redis.Redis], client: redis.Redis
) -> None:
    """Two undos of one claim, and one by hand: nothing of it is missing."""
    _, op = taken_from(many, "w1", "w2")
    client.xclaim("orders", "bill", "w1", 0, ["1-0", "2-0"], justid=True)
    operation = run(client, audit_log.read(many, op))
    assert operation is not None
    first, second = (ChangeRun(UndoSteps(many, operation), ADA) for _ in range(2))
    assert run(client, first.step())
    for change in (second, first):
        finish(many, change)
    assert first.outcome.done + second.outcome.done == 118
    for outcome in (first.outcome, second.outcome):
        assert outcome.skipped == {"same": 120 - outcome.done} and outcome.exit_code == 0
    assert set(pel(client).values()) == {"w1"}


def test_undo_gives_back_only_claimed_entries(
    many: StreamQueue[redis.Redis], client: redis.Redis
) -> None:
    held = run(client, held_entries(many, "w1"))
    client.xack("orders", "bill", *held.ids[:10])
    change = ChangeRun(ConsumerSteps(held, "w2"), ADA)
    finish(many, change)
    assert (change.outcome.done, change.outcome.skipped) == (110, {"changed": 10})
    assert change.outcome.op is not None
    undo = undone(many, change.outcome.op)
    assert (undo.outcome.matched, undo.outcome.done, undo.outcome.skipped) == (110, 110, {})


@pytest.mark.parametrize("undoable", [5_000, 100])
def test_killed_stream_claim_is_in_the_audit_log(
    many: StreamQueue[redis.Redis],
    client: redis.Redis,
    monkeypatch: pytest.MonkeyPatch,
    undoable: int,
) -> None:
    """Also the last one, whose reply nobody heard: it counts itself."""
    monkeypatch.setattr("redisq_ops.ops.change.consumer_steps.UNDOABLE", undoable)
    change = ChangeRun(ConsumerSteps(run(client, held_entries(many, "w1")), "w2", remove=True), ADA)
    op = change.outcome.op
    assert op is not None

    def logged() -> int:
        operation = run(client, audit_log.read(many, op))
        assert operation is not None and not operation.ended
        return operation.done

    assert run(client, change.step()) and logged() == 50
    work: Any = together([change.step()])
    calls = work.send(None)
    while replies := exchange(client, calls):
        if list(pel(client).values()).count("w2") > 50:
            break
        calls = work.send(replies)
    work.close()
    assert logged() == 100 == run(client, change.reached())
    run(client, change.step())  # the same step again
    assert logged() == 100 == change.outcome.done
    finish(many, change)
    operation = run(client, audit_log.read(many, op))
    assert operation is not None and (operation.done, operation.ended) == (120, True)
    assert operation.undoable == (undoable > 120)
    if operation.undoable:
        assert undone(many, op).outcome.done == 120


def test_removal_from_the_groups_of_a_request_queue(client: redis.Redis) -> None:
    queue = RequestQueue(client, "mail", clock=FakeClock())
    for n in range(3):
        queue.submit([b"x"] * 4, id=f"r{n}", limit=2)
    w1 = queue.take(4, consumer="w1").deliveries
    queue.take(2, consumer="w2")
    change, op = taken_from(queue, "w1", None, remove=True)
    assert change.outcome.done == 4 and change.steps.removed == len({d.request for d in w1})
    for n in range(3):
        key = f"redisq:{{mail}}:s:r{n}"
        assert "w1" not in names(client, key, "g")
        assert "w1" not in pel(client, key, "g").values()
    counts = queue.counts()
    assert (counts.waiting, counts.pending) == (10, 2)
    assert queue.invariants() == []
    assert queue.settle([Settlement(w1[0], "ack")]) == ["stale"]
    undone(queue, op)  # its receipts are good again, and it is a consumer again
    assert queue.settle([Settlement(d, "ack") for d in w1]) == ["done"] * 4
    assert queue.invariants() == []


def test_consumer_is_not_removed_while_it_holds_entries(client: redis.Redis) -> None:
    queue = RequestQueue(client, "mail")
    queue.submit([b"x"] * 2, id="r1")
    (given,) = queue.take(1, consumer="w1").deliveries
    assert queue.remove_consumer("r1", "w1") == "holds"
    queue.settle([Settlement(given, "fail", b"{}", 60)])
    assert queue.remove_consumer("r1", "w1") == "gone"
    assert queue.remove_consumer("r1", "w1") == "absent"  # sent again
    assert queue.remove_consumer("r9", "w1") == "absent"
    assert names(client, "redisq:{mail}:s:r1", "g") == set()
    assert queue.counts().delayed == 1 and queue.invariants() == []
    with pytest.raises(BadInput, match="reserved"):
        queue.remove_consumer("r1", "~w")
    with pytest.raises(BadInput, match="reserved"):
        run(client, held_entries(queue, "~w"))


def test_shards_and_kinds_without_groups(client: redis.Redis) -> None:
    wide = ShardedRequestQueue(client, "wide", shards=3)
    for n in range(6):
        wide.submit([b"x"] * 2, id=f"r{n}")
    given = 0
    while taken := wide.take(6, consumer="w1").deliveries:
        given += len(taken)
    change, _ = taken_from(wide, "w1", None, remove=True)
    assert (change.outcome.done, change.steps.removed) == (given, 6)
    assert wide.counts().pending == 0 and wide.invariants() == []
    later = DelaySet(client, "later")
    later.schedule([(f"e{n}", b"x") for n in range(3)], after=0)
    later.take(3, consumer="w1")
    change, _ = taken_from(later, "w1", None, remove=True)
    assert (change.outcome.done, change.steps.removed) == (3, 0)
    assert later.counts().waiting == 3
    with pytest.raises(NotFound, match="no consumer w1 in queue later"):
        run(client, held_entries(later, "w1"))


@pytest.mark.parametrize("shards", [1, 3])
def test_entries_to_retry_are_counted_in_every_shard(client: redis.Redis, shards: int) -> None:
    queue: Any = RequestQueue(client, "mail")
    if shards > 1:
        queue = ShardedRequestQueue(client, "wide", shards=shards)
    for n in range(6):
        queue.submit([b"x"] * 4, id=f"r{n}", limit=4)
    had: set[str] = set()
    for _ in range(4):
        held = queue.take(3, consumer="w").deliveries
        had |= {d.id for d in held}
        queue.settle([Settlement(d, "release") for d in held[:2]])
        queue.settle([Settlement(d, "fail", b"{}", 60) for d in held[2:]])
    again = Counter(id.partition("/")[0] for id in had)
    loads = queue.group_loads()
    assert {load.group: (load.pending, load.lag, load.again) for load in loads} == {
        f"r{n}": (0, 4 - again[f"r{n}"], again[f"r{n}"]) for n in range(6)
    }
    assert queue.group_loads("r5") == [next(load for load in loads if load.group == "r5")]


def test_sharded_claim_is_counted_once_and_undone(client: redis.Redis) -> None:
    wide = ShardedRequestQueue(client, "wide", shards=3)
    for n in range(6):
        wide.submit([b"x"] * 2, id=f"r{n}", limit=2)
    while wide.take(6, consumer="w1").deliveries:
        pass
    for verb, to in (("claim", "w2"), ("requeue", None), ("remove", None)):
        _, op = taken_from(wide, "w1", to, remove=verb == "remove")
        found = run(client, audit_log.read(wide, op))
        assert found is not None and (found.verb, found.done, found.matched) == (verb, 12, 12)
        undo = undone(wide, op)
        assert (undo.outcome.done, undo.outcome.skipped) == (12, {})
        (report,) = run(client, consumer_reports(wide))
        assert [(one.name, one.pending) for one in report.consumers] == [("w1", 12)]
    assert wide.invariants() == []


def test_refused_claims(orders: StreamQueue[redis.Redis], client: redis.Redis) -> None:
    held = run(client, held_entries(orders, "w1"))
    with pytest.raises(Refused, match="cannot go back to waiting"):
        ChangeRun(ConsumerSteps(held, None, remove=True), ADA)
    with pytest.raises(BadInput, match="these entries already"):
        ChangeRun(ConsumerSteps(held, "w1"), ADA)
    with pytest.raises(BadInput, match="reserved"):
        ChangeRun(ConsumerSteps(held, "~waiting"), ADA)
    with pytest.raises(NotFound, match="no group of queue stream:orders has a consumer w7"):
        run(client, held_entries(orders, "w7"))
    client.xgroup_create("orders", "audit", id="0")
    client.xreadgroup("audit", "w1", {"orders": ">"}, count=1)
    with pytest.raises(BadInput, match="choose one with --group: audit, bill"):
        run(client, held_entries(orders, "w1"))
    assert len(run(client, held_entries(orders, "w1", "audit")).ids) == 1


def test_consumer_names_of_any_bytes(client: redis.Redis) -> None:
    client.xgroup_create("{odd} key", "my group", id="0", mkstream=True)
    client.xadd("{odd} key", {"n": 1})
    client.xreadgroup("my group", "w 1: é", {"{odd} key": ">"}, count=1)
    queue = StreamQueue(client, "stream:%7Bodd%7D%20key")
    change, op = taken_from(queue, "w 1: é", "w2", remove=True)
    assert change.outcome.done == 1
    assert names(client, "{odd} key", "my group") == {"w2"}
    undone(queue, op)
    assert pel(client, "{odd} key", "my group") == dict.fromkeys(
        pel(client, "{odd} key", "my group"), "w 1: é"
    )


# --- a consumer that goes on reading while it is removed ------------------------


READER = """
import json, sys, time, redis
client = redis.Redis.from_url(sys.argv[1])
print("ready", flush=True)
read, done = [], []
while True:
    got = client.xreadgroup("bill", "w1", {"orders": ">"}, count=3)
    if not got:
        break
    if len(read) % 30 == 0:
        time.sleep(0.02)  # only who holds what is known can be removed
    for _, entries in got:
        for n, (id, _) in enumerate(entries):
            read.append(id.decode())
            if len(read) % 3 == 0:
                client.xack("orders", "bill", id)
                done.append(id.decode())
with open(sys.argv[2], "w") as file:
    json.dump({"read": read, "done": done}, file)
"""


@pytest.fixture
def processes() -> Iterator[list[subprocess.Popen[str]]]:
    started: list[subprocess.Popen[str]] = []
    yield started
    for one in started:
        one.kill()
        one.wait()
        if one.stdout is not None:
            one.stdout.close()


@pytest.mark.slow
def test_a_reader_that_is_removed_again_and_again_loses_nothing(
    client: redis.Redis, url: str, processes: list[subprocess.Popen[str]], tmp_path: Path
) -> None:
    client.xgroup_create("orders", "bill", id="0", mkstream=True)
    pipe = client.pipeline(transaction=False)
    for n in range(3_000):
        pipe.xadd("orders", {"n": n})
    pipe.execute()
    queue = StreamQueue(client, "stream:orders")
    reader = subprocess.Popen(
        [sys.executable, "-c", READER, url, str(tmp_path / "read")],
        stdout=subprocess.PIPE,
        text=True,
    )
    processes.append(reader)
    assert reader.stdout is not None and reader.stdout.readline() == "ready\n"
    removals = moved = 0
    while reader.poll() is None:
        try:
            change, _ = taken_from(queue, "w1", "operator", remove=True)
        except NotFound:  # between a removal and its next read there is no such consumer
            continue
        removals += change.steps.removed
        moved += change.outcome.done
    said = json.loads((tmp_path / "read").read_text())
    assert len(said["read"]) == 3_000 and removals > 1 and moved > 100
    held = pel(client)
    # What was read is acknowledged by whom it was given to, or still held by somebody.
    assert set(held) | set(said["done"]) == set(said["read"])
    assert set(held).isdisjoint(said["done"])


WORKER = """
import sys, redis
from redisq_ops.core.queues.request import RequestQueue
from redisq_ops.core.model.entry import Settlement
queue = RequestQueue(redis.Redis.from_url(sys.argv[1]), "mail")
print("ready", flush=True)
empty = 0
while empty < 20:
    taken = queue.take(4, consumer="w1", lease=300).deliveries
    empty = 0 if taken else empty + 1
    queue.settle([Settlement(d, "ack") for d in taken[1:]])
"""


@pytest.mark.slow
def test_a_worker_that_is_removed_again_and_again_loses_nothing(
    client: redis.Redis, url: str, processes: list[subprocess.Popen[str]]
) -> None:
    queue = RequestQueue(client, "mail")
    for n in range(8):
        queue.submit([b"x"] * 150, id=f"r{n}", limit=8)
    worker = subprocess.Popen(
        [sys.executable, "-c", WORKER, url], stdout=subprocess.PIPE, text=True
    )
    processes.append(worker)
    assert worker.stdout is not None and worker.stdout.readline() == "ready\n"
    removals = 0
    while worker.poll() is None:
        try:
            change, _ = taken_from(queue, "w1", None, remove=True)
        except NotFound:
            continue
        removals += change.steps.removed
        assert change.outcome.skipped.get("still taking", 0) <= 8
    if queue.counts().pending:
        taken_from(queue, "w1", None, remove=True)
    assert removals > 1
    while taken := queue.take(100, consumer="w2").deliveries:
        queue.settle([Settlement(delivery, "ack") for delivery in taken])
    assert queue.counts().done == 1_200
    for n in range(8):
        request = queue.request(f"r{n}")
        assert request is not None and (request.state, request.done) == ("done", 150)
    assert queue.invariants() == []


def test_removal_gives_up_on_a_consumer_that_keeps_taking(client: redis.Redis) -> None:
    queue = RequestQueue(client, "mail")
    queue.submit([b"x"] * 100, id="r1", limit=1000)
    queue.take(1, consumer="w1")
    change = ChangeRun(
        ConsumerSteps(run(client, held_entries(queue, "w1")), "w2", remove=True), ADA
    )
    while run(client, change.step()):
        queue.take(1, consumer="w1")
    assert change.steps.removed == 0 and change.outcome.skipped == {"still taking": 1}
    assert change.outcome.done == 2 * RECHECKS and change.outcome.exit_code == 3
    assert queue.invariants() == []


def test_a_removal_killed_anywhere_can_be_undone(
    orders: StreamQueue[redis.Redis], client: redis.Redis
) -> None:
    """Also of what the consumer received after it was looked at."""
    change = ChangeRun(
        ConsumerSteps(run(client, held_entries(orders, "w1")), "w3", remove=True), ADA
    )
    assert client.xreadgroup("bill", "w1", {"orders": ">"}, count=2)

    def step() -> Iterator[None]:
        """One step, which may be killed after each round trip."""
        work: Any = together([change.step()])
        calls = work.send(None)
        while True:
            replies = exchange(client, calls)
            yield
            try:
                calls = work.send(replies)
            except StopIteration:
                return

    while "w1" in names(client):
        for _ in step():
            operation = run(client, audit_log.read(orders, change.outcome.op or ""))
            moved = {id for id, who in pel(client).items() if who == "w3"}
            assert not moved or (operation and moved <= set(operation.inverse.split()))
    assert list(pel(client).values()).count("w3") == 9


def test_killed_removal_can_be_continued(
    orders: StreamQueue[redis.Redis], client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("redisq_ops.ops.change.consumer_steps.STEP", 3)
    before = set(pel(client))
    first = ChangeRun(
        ConsumerSteps(run(client, held_entries(orders, "w1")), "w3", remove=True), ADA
    )
    run(client, first.step())
    run(client, first.step())  # and no further
    assert Counter(pel(client).values()) == {"w1": 1, "w2": 3, "w3": 6}
    change, op = taken_from(orders, "w1", "w3", remove=True)
    assert (change.outcome.done, change.steps.removed) == (1, 1)
    assert set(pel(client)) == before and names(client) == {"w2", "w3"}
    undone(orders, op)
    assert first.outcome.op is not None
    undone(orders, first.outcome.op)
    assert Counter(pel(client).values()) == {"w1": 7, "w2": 3}


# --- as commands --------------------------------------------------------------


def test_a_preview_says_whether_the_old_consumer_can_still_settle(
    orders: StreamQueue[redis.Redis], client: redis.Redis, redisq: Redisq
) -> None:
    claim = ("--to", "w3", "--min-idle", "0s", "--dry-run")
    said = redisq("workers", "claim", "stream:orders", "w1", *claim)
    assert said.startswith("claim 7 pending entries of consumer w1 of group bill in queue ")
    assert "  w3 receives them\n" in said and "can't settle" not in said  # XACK asks for no owner
    assert "it may be at work on them\n" in said
    later = DelaySet(client, "later")
    later.schedule([("e1", b"x")], after=0)
    later.take(1, consumer="w1")
    said = redisq("workers", "claim", "later", "w1", *claim)
    assert "w3 receives them; the present consumer can't settle them any more\n" in said


def test_claim_and_remove_as_commands(
    orders: StreamQueue[redis.Redis], client: redis.Redis, redisq: Redisq
) -> None:
    before = picture(client)
    (plan,) = redisq.rows("workers", "rm", "stream:orders", "w1", "--dry-run", "--to", "w2")
    assert (plan["matched"], plan["to"], plan["group"], plan["groups"]) == (7, "w2", "bill", 1)
    assert "it is removed from 1 group" in redisq(
        "workers", "rm", "stream:orders", "w1", "--dry-run"
    )
    assert picture(client) == before  # not even a registry entry
    assert "no terminal" in (redisq("workers", "rm", "stream:orders", "w1", code=5) and redisq.err)
    said = redisq("workers", "claim", "stream:orders", "w1", "--to", "w3", "--yes")
    assert said == "0 matched: claim 0 pending entries of consumer w1 of group bill in queue " + (
        "stream:orders; 7 were held for less than 5m 00s: left out\n"
    )
    said = redisq("workers", "rm", "stream:orders", "w1", "--yes", "--reason", "it is dead")
    assert said.startswith("removed consumer w1 of group bill of stream:orders: 7 of 7 entries to ")
    assert "undo with: redisq undo remove-" in redisq.err
    (row,) = redisq.rows("log")
    assert (row["verb"], row["reason"], row["undoable"]) == ("remove", "it is dead", True)
    redisq("undo", "--yes")
    assert sorted(pel(client).values()).count("w1") == 7
    rows = redisq.rows("workers", "rm", "stream:orders", "w1", "--yes")
    assert rows[-1] | {"op": None} == {
        "op": None,
        "matched": 7,
        "done": 7,
        "skipped": {},
        "removed": 1,
    }
    line = redisq.refusal("workers", "rm", "stream:orders", "w1", "--yes", code=1)
    assert "no group of queue stream:orders has a consumer w1" in line


def test_remove_in_a_request_queue_as_a_command(redisq: Redisq, client: redis.Redis) -> None:
    queue = RequestQueue(client, "mail")
    queue.submit([b"x"] * 4, id="r1")
    queue.submit([b"x"] * 4, id="r2")
    queue.take(8, consumer="w1")
    (row,) = redisq.rows("workers", "rm", "mail", "w1", "--group", "r1", "--yes")
    assert (row["done"], row["removed"]) == (4, 1)
    assert queue.counts().pending == 4
    assert redisq("workers", "rm", "mail", "w1", "--to", "w2", "--yes").startswith(
        "removed consumer w1 of mail: 4 of 4 entries to w2"
    )
    assert queue.counts().pending == 4 and queue.invariants() == []
    assert "no consumer w1 in queue mail" in redisq.refusal(
        "workers", "rm", "mail", "w1", "--yes", code=1
    )


def test_reports_need_read_permission_only_and_escape_names(
    orders: StreamQueue[redis.Redis],
    client: redis.Redis,
    url: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    client.xreadgroup("bill", "w\x1b[31m", {"orders": ">"}, count=1)
    FairQueue(client, "jobs").submit("acme", [b"x"])
    client.acl_setuser(
        "viewer",
        enabled=True,
        nopass=True,
        reset=True,
        keys="*",
        categories=["+@read", "+@connection"],
        commands=["+time", "-@write"],
    )
    viewer = Redisq(url.replace("//", "//viewer:any@"), capsys)
    before = picture(client)
    try:
        assert "w\\x1b[31m" in viewer("workers", "ls", "stream:orders")
        viewer("workers", "ls")
        viewer("workers", "claim", "stream:orders", "w1", "--to", "w2", "--dry-run")
        viewer("workers", "rm", "stream:orders", "w1", "--dry-run")
        assert picture(client) == before
        viewer("workers", "rm", "stream:orders", "w1", "--yes", code=1)
        assert "ACL says no" in viewer.err and picture(client) == before
    finally:
        client.acl_deluser("viewer")


def test_one_broken_queue_hides_no_other(redisq: Redisq, client: redis.Redis) -> None:
    for name in ("good", "spoilt"):
        FairQueue(client, name).submit("acme", [b"x"])
    client.set("redisq:{spoilt}:lease", "not a sorted set")
    rows = redisq.rows("workers", "ls", code=3)
    assert [row["queue"] for row in rows] == ["good"] and "spoilt: " in redisq.err


# --- written down first -------------------------------------------------------


def test_a_claim_is_planned_and_applied(
    redisq: Redisq, client: redis.Redis, tmp_path: Path
) -> None:
    queue = RequestQueue(client, "mail")
    queue.submit([b"x"] * 9, id="r1", limit=9)
    queue.submit([b"x"] * 2, id="r2", limit=2)
    held = queue.take(6, consumer="w1").deliveries
    queue.take(2, consumer="w2")
    before, file = picture(client), tmp_path / "p.ndjson"
    claim = ("workers", "claim", "mail", "w1", "--to", "w3", "--min-idle", "0s")
    redisq(*claim, "--plan", str(file), "--reason", "its host is gone")
    assert picture(client) == before
    assert f"do it with: redisq apply {file}" in redisq.err
    header = json.loads(file.read_text().splitlines()[0])
    told = (header["verb"], header["consumer"], header["why"])
    assert told == ("claim", "w3", "its host is gone")
    planned = [json.loads(line)["id"] for line in file.read_text().splitlines()[2:-1]]
    assert sorted(planned) == sorted(d.id for d in held)
    # Meanwhile one is done, and one was given back and taken again.
    queue.settle([Settlement(held[0], "ack"), Settlement(held[1], "release")])
    time.sleep(0.002)
    queue.take(9, consumer="w1")
    (row,) = redisq.rows("apply", str(file), "--yes", "--max", "3", code=3)
    assert (row["left"], row["skipped"]) == (3, {"changed": 1, "late": 1})
    (row,) = redisq.rows("apply", str(file), "--yes", code=3)
    assert (row["matched"], row["done"], row["left"]) == (6, 4, 0)
    assert sum(row["skipped"].values()) == 2
    there = {d.id: queue.get(d.id) for d in held}
    assert [e.consumer for e in map(there.get, (d.id for d in held[2:])) if e] == ["w3"] * 4
    again = there[held[1].id]
    assert again is not None and again.consumer == "w1", "it was taken after the plan was made"
    assert "already applied" in redisq("apply", str(file), "--yes")
    redisq("undo", "--yes")
    assert all((e := queue.get(d.id)) and e.consumer == "w1" for d in held[2:])
    assert queue.invariants() == []


def test_a_planned_claim_leaves_out_what_a_claim_leaves_out(
    redisq: Redisq, client: redis.Redis, tmp_path: Path
) -> None:
    clock = FakeClock(1_700_000_000_000)
    later = DelaySet(client, "later", clock=clock)
    later.schedule([(f"e{n}", b"x") for n in range(4)], at=10**9)
    later.take(2, consumer='w"1')
    later.take(1, consumer="w1")
    file = tmp_path / "p.ndjson"
    claim = ("workers", "claim", "later", 'w"1', "--to", "w3")
    # Held since 2023 by the clock of the queue, and since then by everybody's.
    redisq(*claim, "--plan", str(file))
    assert [json.loads(line)["id"] for line in file.read_text().splitlines()[2:-1]] == ["e0", "e1"]
    other = tmp_path / "q.ndjson"
    redisq(*claim, "--min-idle", "3650d", "--plan", str(other))
    assert "2 were held for less than 10 years: left out" in redisq.err
    assert not [line for line in other.read_text().splitlines() if "id" in json.loads(line)]
    one = tmp_path / "r.ndjson"
    queue = RequestQueue(client, "mail", clock=clock)
    for id in ("r1", "r2"):
        queue.submit([b"x"], id=id)
    queue.take(2, consumer="w1")
    redisq("workers", "claim", "mail", "w1", "--group", "r2", "--to", "w2", "--plan", str(one))
    assert [json.loads(line)["id"] for line in one.read_text().splitlines()[2:-1]] == ["r2/1"]


def test_refused_plan_writes_no_file(
    orders: StreamQueue[redis.Redis], client: redis.Redis, redisq: Redisq, tmp_path: Path
) -> None:
    file = tmp_path / "p.ndjson"
    DelaySet(client, "later").schedule([("a", b"x")], after=0)
    DelaySet(client, "later").take(1, consumer="w1")
    before = picture(client)

    def said(queue: str, consumer: str, to: str, code: int, *more: str) -> str:
        words = ("workers", "claim", queue, consumer, "--to", to, "--plan", str(file), *more)
        return redisq.refusal(*words, code=code)

    line = said("stream:orders", "w1", "w2", 1)
    assert "a claim in a stream queue can't be planned" in line and "--dry-run" in line
    assert "no consumer w9 in queue later" in said("later", "w9", "w2", 1)
    assert "consumer w1 holds these entries already" in said("later", "w1", "w1", 2)
    assert "one of them" in said("later", "w1", "w2", 2, "--dry-run")
    assert not file.exists() and picture(client) == before
    file.write_text("mine")
    assert "exists" in said("later", "w1", "w2", 2)
    assert file.read_text() == "mine"


class TestGivenBack:
    """Redis 8.8's XNACK: what a consumer gave back has no consumer, an idle time of -1 and, where
    it was given up, a counter at its end. The servers here lack the command: their replies of the
    two oldest entries are changed into that."""

    @pytest.fixture
    def given_back(
        self, orders: StreamQueue[redis.Redis], client: redis.Redis, monkeypatch: pytest.MonkeyPatch
    ) -> list[str]:
        ids = sorted(pel(client))[:2]

        def as_of_8_8(reply: Any, **options: Any) -> Any:
            rows = parse(reply, **options)
            for row in rows if options.get("parse_detail") else ():
                if row["message_id"].decode() in ids and row["consumer"] == b"w1":
                    row |= {"consumer": b"", "time_since_delivered": -1}
                    row |= {"times_delivered": 2**63 - 1}
            return rows

        parse = client.response_callbacks["XPENDING"]
        monkeypatch.setitem(client.response_callbacks, "XPENDING", as_of_8_8)
        script = orders._script("reassign")
        tables = "{" + ",".join(f"['{id}']=true" for id in ids) + "}"
        flags, _, body = script.text.partition("\n")
        text = (
            flags
            + "\n"
            + (
                "local server = redis local redis = setmetatable({call = function(...) "
                "local reply = server.call(...) if ({...})[1] == 'XPENDING' then "
                f"for _, row in ipairs(reply) do if ({tables})[row[1]] and row[2] == 'w1' then "
                "row[2], row[3], row[4] = '', -1, 9223372036854775807 "
                "end end end return reply end},"
                "{__index = server}) " + body
            )
        )
        sha = sha1(text.encode()).hexdigest()
        given, patched = orders._script, replace(script, text=text, sha=sha)
        monkeypatch.setattr(
            orders, "_script", lambda name: patched if name == "reassign" else given(name)
        )
        return ids

    def test_is_shown_as_nobodys(
        self, orders: StreamQueue[redis.Redis], given_back: list[str]
    ) -> None:
        first = orders.page("pending", max=1).entries[0]
        assert (first.consumer, first.since_ms, first.deliveries) == (None, None, None)
        (report,) = run(orders.client, consumer_reports(orders))
        assert [one.name for one in report.consumers] == ["-", "w1", "w2"]
        assert [row.id for row in report.poison] == given_back
        (flaw,) = (flaw for flaw in orders.invariants() if "given up" in flaw)
        assert flaw == (
            "group bill: 2 of the 10 oldest of its 10 pending entries were given up by their "
            "consumers (XNACK FATAL)"
        )
        explained = run(orders.client, explain(orders, f"bill:{given_back[0]}"))
        said = "; ".join(reason.sentence for reason in (explained.reason, *explained.also))
        assert "nobody of group bill has it: its consumer gave it back" in said
        assert "9" * 3 not in said and "0s" not in said

    def test_can_be_claimed(
        self, orders: StreamQueue[redis.Redis], client: redis.Redis, given_back: list[str]
    ) -> None:
        held = run(client, held_entries(orders, "-", "bill", min_idle_ms=MINUTE))
        assert held.ids == given_back
        steps = ConsumerSteps(held, "w3")
        change = ChangeRun(steps, ADA)
        finish(orders, change)
        assert (change.outcome.done, steps.undoable) == (2, False)
        assert [id for id, who in pel(client).items() if who == "w3"] == given_back

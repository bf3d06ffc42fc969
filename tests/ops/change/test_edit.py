"""Another payload for an entry that is dead or delayed: what workers get then, and the way back."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
import redis

from redisq_ops import RequestQueue
from redisq_ops.core.model.clock import FakeClock
from redisq_ops.core.model.entry import Settlement
from redisq_ops.core.model.errors import Superseded
from redisq_ops.core.redis.operation import run
from redisq_ops.ops.change import edit as edits
from redisq_ops.ops.change.audit_log import Author, begin, find, note
from redisq_ops.ops.change.edit import EditSteps
from redisq_ops.ops.change.payload_diff import diff
from redisq_ops.ops.change.runner import ChangeRun
from redisq_ops.ops.change.undo import UndoSteps
from redisq_ops.ops.deployment import Deployment
from redisq_ops.ops.filter.filter import Filter
from redisq_ops.ops.filter.selection import select

from ...dead_entries import KINDS, bury

NEW = b"mended \x00\xff, with spaces\nand lines"


@pytest.fixture(params=list(KINDS))
def queue(request: pytest.FixtureRequest, client: redis.Redis) -> Any:
    """A queue of the kind, all its entries dead but one, which is pending."""
    make, fill = KINDS[request.param]
    made = make(client, "q", clock=FakeClock())
    fill(made)
    bury(made, keep=1)
    made.clock.advance(1)
    return made


def payloads(queue: Any, state: str = "dead") -> dict[str, bytes]:
    return {e.id: e.payload for e in queue.page(state, None, 500, payloads=True).entries}


def edit(queue: Any, op: str, ids: list[str], to: Callable[[bytes], bytes], step: int = 1) -> Any:
    had = payloads(queue)
    rows = [(id, had[id], to(had[id])) for id in ids]
    return queue.edit(op, step, rows, source="dead", high_water_ms=queue.now())


def undo(queue: Any, op: str) -> ChangeRun[UndoSteps]:
    _, operation = run(queue.client, find(Deployment(queue.client, clock=queue.clock), op))
    change = ChangeRun(UndoSteps(queue, operation), Author("me", "here"))
    while run(queue.client, change.step()):
        pass
    return change


def started(queue: Any, op: str, matched: int) -> None:
    run(
        queue.client,
        begin(
            queue,
            op,
            "edit",
            Author("me", "here"),
            "some",
            now_ms=queue.now(),
            source="dead",
            target="edit",
            matched=matched,
        ),
    )


def test_an_edited_entry_is_delivered_with_its_new_payload(queue: Any) -> None:
    had = payloads(queue)
    first, second, *_ = had
    assert edit(queue, "op", [first, second], lambda old: old + NEW) == ["moved", "moved"]
    assert payloads(queue) == {**had, first: had[first] + NEW, second: had[second] + NEW}
    queue.move("back", 1, [first], source="dead", target="waiting", high_water_ms=queue.now())
    queue.clock.advance(0.001)
    (delivery,) = queue.take(5, consumer="w").deliveries
    assert (delivery.id, delivery.payload) == (first, had[first] + NEW)
    assert queue.settle([Settlement(delivery, "ack")]) == ["done"]
    assert queue.invariants() == []


def test_only_what_was_read_is_replaced(queue: Any) -> None:
    had = payloads(queue)
    ids = list(had)[:4]
    edit(queue, "first", ids[:1], lambda _: NEW)
    rows = [(id, had[id], b"other") for id in ids[:2]] + [(ids[2], had[ids[2]], had[ids[2]])]
    rows.append(("nobody-1/1", b"", b"x"))
    said = queue.edit("second", 1, rows, source="dead", high_water_ms=queue.now())
    assert said == ["changed", "moved", "moved", "changed"]
    (pending,) = queue.page("pending").entries
    said = queue.edit(
        "third",
        1,
        [(pending.id, had.get(pending.id, b""), b"x")],
        source="dead",
        high_water_ms=queue.now(),
    )
    assert said == ["changed"]
    early = [(ids[3], had[ids[3]], b"x")]
    assert queue.edit("4th", 1, early, source="dead", high_water_ms=1) == ["late"]


def test_an_edit_sent_twice_is_one(queue: Any) -> None:
    (id, was), *_ = payloads(queue).items()
    rows = [(id, was, NEW)]
    high = queue.now()
    assert queue.edit("op", 1, rows, source="dead", high_water_ms=high) == ["moved"]
    assert queue.edit("op", 1, rows, source="dead", high_water_ms=high) == ["moved"]
    assert payloads(queue)[id] == NEW


def test_undo_gives_the_old_payload_back_unless_touched(queue: Any) -> None:
    before = queue.page("dead", None, 500, payloads=True).entries
    ids = [entry.id for entry in before[:3]]
    started(queue, "op", 3)
    edit(queue, "op", ids, lambda old: old * 2 + NEW)
    queue.move("purge", 1, ids[:1], source="dead", target="trash", high_water_ms=queue.now())
    change = undo(queue, "op")
    assert (change.outcome.done, change.outcome.skipped) == (2, {"changed": 1})
    assert queue.page("dead", None, 500, payloads=True).entries == before[1:]
    assert queue.invariants() == []


def test_two_edits_are_taken_back_in_turn(queue: Any) -> None:
    had = payloads(queue)
    id = next(iter(had))
    for op in ("one", "two"):
        started(queue, op, 1)
        edit(queue, op, [id], lambda old: old + NEW)
    assert undo(queue, "two").outcome.done == 1
    assert payloads(queue)[id] == had[id] + NEW
    assert undo(queue, "one").outcome.done == 1
    assert payloads(queue) == had


def test_what_undo_counts_is_not_kept_for_ever(queue: Any, client: redis.Redis) -> None:
    id = next(iter(payloads(queue)))
    started(queue, "op", 1)
    edit(queue, "op", [id], lambda old: old + NEW)
    run(queue.client, note(queue, "op", ended=1))
    undo(queue, "op")
    found = [key for key in client.scan_iter() if key.endswith(b"op")]
    assert found and all(client.ttl(key) > 0 for key in found)


def test_an_edit_undone_while_it_runs_stops(queue: Any) -> None:
    """The undo takes the place of its next step, and none behind it is carried out either."""
    had = payloads(queue)
    selection = run(queue.client, select(queue, "dead", Filter(max=6)))
    change = ChangeRun(EditSteps(selection, lambda old: old + NEW), Author("me", "here"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(edits, "BATCH", 3)
        assert run(queue.client, change.step())
        assert undo(queue, str(change.outcome.op)).outcome.done == 3
        with pytest.raises(Superseded, match=r"was undone|with other entries"):
            while run(queue.client, change.step()):
                pass
    assert payloads(queue) == had


def test_a_take_sent_again_is_not_stopped_by_a_lost_payload(client: redis.Redis) -> None:
    queue = RequestQueue(client, "q", clock=FakeClock())
    queue.submit([b"1", b"2"], id="r1", limit=5)
    take = queue._script("take").call(
        queue.keys, queue.clock, list, caller="w", seq=1, n=2, lease_ms=1000, consumer="w"
    )
    *alike, ids, odd, payloads = run(client, take)
    assert (ids, payloads) == (b"r1/1\nr1/2", [b"1", b"2"])
    client.xdel(queue.keys["s_"] + "r1", "1-0")  # by hand
    assert run(client, take) == [*alike, b"*\nr1/2", odd, [b"2"]]


@pytest.mark.parametrize(
    ("new", "shown"),
    [
        ([*range(2_000), -1, *range(2_001, 5_000)], ["-  2000,", "+  -1,"]),
        ([-n for n in range(5_000)], ["-4,999 lines", "+4,999 lines"]),
    ],
)
def test_of_long_payloads_only_what_differs_is_compared(new: list[int], shown: list[str]) -> None:
    lines = list(diff(json.dumps([*range(5_000)]), json.dumps(new)))
    assert [line for line in lines if line[0] in "+-"] == shown

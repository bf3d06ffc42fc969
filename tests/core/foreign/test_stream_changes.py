"""Changes of a plain stream: what its groups hold, where they are, and how far it is trimmed."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from hashlib import sha1
from pathlib import Path
from typing import Any

import pytest
import redis

from redisq_ops.core.foreign.streams import StreamQueue
from redisq_ops.core.model.consumer_load import StreamId, after, before
from redisq_ops.core.model.errors import BadInput, Exists, NotFound, RedisqError, Refused
from redisq_ops.core.redis.operation import attempt, run
from redisq_ops.core.redis.scripts import Script
from redisq_ops.ops.change import audit_log
from redisq_ops.ops.change.consumer_groups import (
    GroupVerb,
    TrimSteps,
    carry_out_group,
    prepare_group,
    prepare_trim,
    trim_preview,
)
from redisq_ops.ops.change.consumer_steps import ConsumerSteps
from redisq_ops.ops.change.held_entries import check_settleable, held_entries
from redisq_ops.ops.change.runner import ChangeRun, take_all
from redisq_ops.ops.change.undo import UndoSteps

from ...changes import AUTHOR
from ...mutants import Mutant, mutants, planted

Stream = StreamQueue[redis.Redis]
PACKAGE = "foreign.streams"


def filled(client: redis.Redis, n: int = 20) -> Stream:
    """Entries 1-0 to n-0; group bill has had ten, of which w1 holds six and w2 four."""
    client.flushall()
    for k in range(1, n + 1):
        client.xadd("orders", {"n": k}, id=f"{k}-0")
    client.xgroup_create("orders", "bill", id="0")
    read(client, "bill", "w1", 6)
    read(client, "bill", "w2", 4)
    return StreamQueue(client, "stream:orders")


def read(client: redis.Redis, group: str, consumer: str, n: int) -> list[str]:
    got: Any = client.xreadgroup(group, consumer, {"orders": ">"}, count=n)
    return [id.decode() for id, _ in got[b"orders"][0]]


def pending(client: redis.Redis, group: str = "bill") -> dict[str, tuple[str, int]]:
    """id -> its consumer and number of deliveries."""
    rows: Any = client.xpending_range("orders", group, "-", "+", 10_000)
    return {
        row["message_id"].decode(): (row["consumer"].decode(), row["times_delivered"])
        for row in rows
    }


def last(client: redis.Redis, group: str = "bill") -> str | None:
    rows: Any = client.xinfo_groups("orders")
    found = {row["name"].decode(): row["last-delivered-id"].decode() for row in rows}
    return found.get(group)


def ids(client: redis.Redis) -> list[str]:
    rows: Any = client.xrange("orders")
    return [id.decode() for id, _ in rows]


def settling(queue: Stream, consumer: str, *, acknowledge: bool = True, **how: Any) -> Any:
    """A change that was looked at; nothing is written yet."""
    held = run(queue.client, held_entries(queue, consumer, "bill", **how))
    return ChangeRun(ConsumerSteps(held, None, acknowledge=acknowledge), AUTHOR)


def finished(queue: Stream, change: Any) -> Any:
    run(queue.client, take_all(change))
    return change.outcome


def undo(queue: Stream, op: str | None) -> Any:
    operation = run(queue.client, audit_log.read(queue, str(op)))
    assert operation is not None
    change = ChangeRun(UndoSteps(queue, operation), AUTHOR)
    return finished(queue, change)


def placed(queue: Stream, verb: GroupVerb, group: str, where: str = "") -> Any:
    change = run(queue.client, prepare_group(queue, verb, group, where))
    return run(queue.client, carry_out_group(change, AUTHOR))


# --- acknowledge, and make pending again --------------------------------------------------------


def acknowledged_entries_are_pending_again_as_they_were(client: redis.Redis) -> None:
    queue = filled(client)
    client.xclaim("orders", "bill", "w1", 0, ["2-0"], idle=400_000, retrycount=7)
    was = pending(client)
    outcome = finished(queue, settling(queue, "w1"))
    assert (outcome.done, outcome.skipped) == (6, {})
    assert set(pending(client)) == {"7-0", "8-0", "9-0", "10-0"} and len(ids(client)) == 20
    client.xdel("orders", "3-0")
    client.xclaim("orders", "bill", "w9", 0, ["4-0"], justid=True, force=True)
    back = undo(queue, outcome.op)
    assert (back.done, back.skipped) == (4, {"changed": 2})
    now = pending(client)
    assert now == {**{id: row for id, row in was.items() if id != "3-0"}, "4-0": ("w9", 1)}
    rows: Any = client.xpending_range("orders", "bill", "2-0", "2-0", 1)
    assert 400_000 <= rows[0]["time_since_delivered"] < 500_000


def each_entry_is_checked_again_before_it_is_acknowledged(client: redis.Redis) -> None:
    queue = filled(client)
    client.xclaim("orders", "bill", "w1", 0, ["1-0", "2-0", "3-0", "4-0"], idle=60_000, justid=True)
    change = settling(queue, "w1", min_idle_ms=30_000)
    client.xclaim("orders", "bill", "w2", 0, ["1-0"], idle=60_000, justid=True)
    client.xclaim("orders", "bill", "w1", 0, ["2-0"], justid=True)  # it is at work on that one
    client.xack("orders", "bill", "3-0")
    outcome = finished(queue, change)
    assert (outcome.done, outcome.skipped) == (1, {"changed": 2, "same": 1})
    assert pending(client)["1-0"][0] == "w2" and not {"3-0", "4-0"} & set(pending(client))
    back = undo(queue, outcome.op)
    assert (back.matched, back.done) == (1, 1) and "3-0" not in pending(client)


def a_step_sent_again_answers_as_before(client: redis.Redis) -> None:
    queue = filled(client)
    change = settling(queue, "w1")
    run(client, change.open())
    for _ in range(2):
        answer = queue.settle_held(
            "bill", "w1", ["1-0", "7-0"], acknowledge=True, min_idle_ms=0, op=change.op, step=1
        )
        assert answer.words == ("moved", "changed")
    assert client.hget(queue.keys["op_"] + change.op, "done") == b"1"


def what_a_group_that_moved_back_receives_again_is_not_made_pending(client: redis.Redis) -> None:
    queue = filled(client)
    outcome = finished(queue, settling(queue, "w2"))
    client.xgroup_setid("orders", "bill", "9-0")
    back = undo(queue, outcome.op)
    assert (back.done, back.skipped) == (3, {"changed": 1}) and "10-0" not in pending(client)


def single_entries_are_acknowledged(client: redis.Redis) -> None:
    queue = filled(client)
    assert finished(queue, settling(queue, "w1", only=["2-0", "5-0"])).done == 2
    assert {"1-0", "3-0", "4-0", "6-0"} < set(pending(client))
    with pytest.raises(NotFound, match=r"w1 of group bill of queue .* doesn't hold 2-0, 7-0"):
        settling(queue, "w1", only=["1-0", "2-0", "7-0"])


# --- groups -------------------------------------------------------------------------------------


def a_group_moves_and_back(client: redis.Redis) -> None:
    queue = filled(client)
    back = placed(queue, "move", "bill", "3-0")
    assert last(client) == "3-0" and len(pending(client)) == 10
    assert undo(queue, back.op).done == 1 and last(client) == "10-0"
    assert queue.group_positions().groups[0].read == 10  # so its lag is known again
    on = placed(queue, "move", "bill", "end")
    assert last(client) == "20-0"
    client.xadd("orders", {"n": 21}, id="21-0")
    read(client, "bill", "w1", 1)
    assert undo(queue, on.op).skipped == {"changed": 1} and last(client) == "21-0"


def a_group_that_was_read_since_the_look_is_not_moved(client: redis.Redis) -> None:
    queue = filled(client)
    change = run(client, prepare_group(queue, "move", "bill", "start"))
    read(client, "bill", "w1", 1)
    with pytest.raises(NotFound, match="read or changed by somebody else"):
        run(client, carry_out_group(change, AUTHOR))
    assert last(client) == "11-0"
    (operation,) = run(client, audit_log.last(queue, 10))
    assert not operation.undoable


def a_created_group_is_removed_by_undo_unless_it_was_used(client: redis.Redis) -> None:
    queue = filled(client)
    first = placed(queue, "create", "new", "start")
    assert last(client, "new") == "0-0" and queue.group_positions().groups[1].lag == 20
    assert undo(queue, first.op).done == 1 and last(client, "new") is None
    second = placed(queue, "create", "new", "4")
    client.xgroup_createconsumer("orders", "new", "w")
    assert undo(queue, second.op).skipped == {"changed": 1} and last(client, "new") == "4-0"


def a_group_with_pending_entries_is_not_removed(client: redis.Redis) -> None:
    queue = filled(client)
    with pytest.raises(Refused, match="has 10 pending entries"):
        run(client, prepare_group(queue, "rm", "bill"))
    client.xack("orders", "bill", *pending(client))
    change = run(client, prepare_group(queue, "rm", "bill"))
    client.xclaim("orders", "bill", "w1", 0, ["1-0"], justid=True, force=True)
    with pytest.raises(NotFound, match="has entries pending by now"):
        run(client, carry_out_group(change, AUTHOR))
    client.xack("orders", "bill", "1-0")
    outcome = run(client, carry_out_group(change, AUTHOR))
    assert last(client) is None
    assert undo(queue, outcome.op).done == 1 and last(client) == "10-0"
    assert queue.group_positions().groups[0].lag == 10


def what_cannot_be_is_refused(client: redis.Redis) -> None:
    queue = filled(client)

    def refused(verb: GroupVerb, group: str, where: str = "end") -> str:
        with pytest.raises((BadInput, Exists, NotFound)) as said:
            run(client, prepare_group(queue, verb, group, where))
        return f"{type(said.value).__name__}: {said.value}"

    assert refused("create", "bill").startswith("Exists: queue stream:orders has a group bill at")
    assert "there are: bill" in refused("move", "x") and "no consumer group" in refused("rm", "x")
    assert "21-0 is behind the last entry" in refused("move", "bill", "21-0")
    assert "BadInput: no position: start, end" in refused("create", "y", "soon")
    assert "are no times: name an id" in refused("move", "bill", "03:12")
    assert refused("create", "") == "BadInput: a group needs a name"
    assert run(client, prepare_group(queue, "create", "bill", "10-0")).same
    client.xadd("times", {"n": 1}, id="1700000000000-0")
    times = StreamQueue(client, "stream:times")
    at = run(client, prepare_group(times, "create", "g", "2023-11-14T22:13:20+00:00")).to
    assert str(at) == f"1699999999999-{2**64 - 1}"


# --- trimming -----------------------------------------------------------------------------------


def what_some_group_needs_stays(client: redis.Redis) -> None:
    queue = filled(client)
    client.xgroup_create("orders", "slow", id="8-0")  # its lag is unknown: `most` is a bound
    found = run(client, prepare_trim(queue))
    assert (found.most, found.holder.group) == (0, "bill")
    assert "has 1-0 pending" in str(trim_preview(found))
    client.xack("orders", "bill", "1-0", "2-0", "3-0", "4-0")
    found = run(client, prepare_trim(queue))
    assert (str(found.upto), found.most) == (str(before(StreamId(5, 0))), 10)
    client.xack("orders", "bill", *pending(client))
    found = run(client, prepare_trim(queue))
    assert (str(found.upto), found.most, found.holder.group) == ("8-0", 10, "slow")
    outcome = finished(queue, ChangeRun(TrimSteps(found), AUTHOR))
    assert (outcome.done, outcome.matched) == (8, 8) and ids(client)[0] == "9-0"
    (operation,) = run(client, audit_log.last(queue, 1))
    assert (operation.verb, operation.done, operation.undoable) == ("trim", 8, False)
    kept = run(client, prepare_trim(queue))
    assert kept.most == 0


def a_group_that_moves_back_after_the_look_keeps_its_entries(client: redis.Redis) -> None:
    queue = filled(client, 30)
    read(client, "bill", "w1", 20)
    client.xack("orders", "bill", *pending(client))
    found = run(client, prepare_trim(queue))
    assert str(found.upto) == "30-0"
    client.xgroup_setid("orders", "bill", "9-0")  # as a text behind 30-0
    with pytest.raises(Refused, match="moved back"):
        finished(queue, ChangeRun(TrimSteps(found), AUTHOR))
    client.xgroup_setid("orders", "bill", "30-0")
    client.xclaim("orders", "bill", "w1", 0, ["7-0"], justid=True, force=True)
    with pytest.raises(Refused, match="older entries pending"):
        finished(queue, ChangeRun(TrimSteps(found), AUTHOR))
    client.xgroup_destroy("orders", "bill")
    with pytest.raises(Refused, match="moved back"):
        finished(queue, ChangeRun(TrimSteps(found), AUTHOR))
    assert len(ids(client)) == 30
    with pytest.raises(Refused, match="no consumer group"):
        run(client, prepare_trim(queue))


CHECKS: list[Callable[[redis.Redis], None]] = [
    acknowledged_entries_are_pending_again_as_they_were,
    each_entry_is_checked_again_before_it_is_acknowledged,
    a_step_sent_again_answers_as_before,
    what_a_group_that_moved_back_receives_again_is_not_made_pending,
    single_entries_are_acknowledged,
    a_group_moves_and_back,
    a_group_that_was_read_since_the_look_is_not_moved,
    a_created_group_is_removed_by_undo_unless_it_was_used,
    a_group_with_pending_entries_is_not_removed,
    what_cannot_be_is_refused,
    what_some_group_needs_stays,
    a_group_that_moves_back_after_the_look_keeps_its_entries,
]


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_streams(client: redis.Redis, check: Callable[[redis.Redis], None]) -> None:
    check(client)


@pytest.mark.slow
@pytest.mark.alike
@pytest.mark.parametrize(
    "mutant", [mutant for mutant in mutants() if mutant.package == PACKAGE], ids=str
)
def test_a_fault_is_found(client: redis.Redis, mutant: Mutant) -> None:
    with planted(mutant):
        for check in CHECKS:
            try:
                check(client)
            except (AssertionError, RedisqError, pytest.fail.Exception):
                return
    pytest.fail(f"nobody notices: {mutant}")


def test_a_long_trim_takes_several_steps(client: redis.Redis) -> None:
    pipe = client.pipeline(transaction=False)
    for _ in range(25_050):
        pipe.xadd("orders", {"n": 1})
    pipe.execute()
    client.xgroup_create("orders", "bill", id="$")
    queue: Stream = StreamQueue(client, "stream:orders")
    change = ChangeRun(TrimSteps(run(client, prepare_trim(queue))), AUTHOR)
    gone = []
    while run(client, change.step()):
        gone.append(25_050 - client.xlen("orders"))
    assert gone[:2] == [10_000, 20_000] and gone[-1] == 25_050
    old = run(client, prepare_trim(queue, 60_000))
    assert old.most == 0, "all of them are younger"


def test_ids_of_64_bits() -> None:
    assert str(before(StreamId(5, 0))) == f"4-{2**64 - 1}"
    assert after(before(StreamId(5, 0))) == (5, 0) and after(StreamId(5, 6)) == (5, 7)


# --- XNACK, Redis 8.8 ---------------------------------------------------------------------------


@pytest.fixture
def xnack(client: redis.Redis, monkeypatch: pytest.MonkeyPatch) -> None:
    """The servers here lack XNACK: a claim for a consumer without a name leaves the same rows."""
    queue: Stream = StreamQueue(client, "stream:orders")
    if run(client, attempt(queue.give_back_refused())) is None:
        return
    given = StreamQueue._script

    def patched(self: Stream, name: str) -> Script:
        script = given(self, name)
        if name != "give_back":
            return script
        nack = "'XNACK', stream, group, 'FAIL', 'IDS', 1, id"
        assert nack in script.text
        text = script.text.replace(nack, "'XCLAIM', stream, group, '', 0, id, 'JUSTID'")
        text = text.replace("'XNACK', ", "'XCLAIM', KEYS[1], KEYS[1], ")
        return replace(script, text=text, sha=sha1(text.encode()).hexdigest())

    async def possible(self: Stream) -> None:
        return None

    monkeypatch.setattr(StreamQueue, "_script", patched)
    monkeypatch.setattr(StreamQueue, "give_back_refused", possible)


def test_without_xnack_nothing_is_given_back(client: redis.Redis) -> None:
    queue = filled(client)
    why = run(client, attempt(queue.give_back_refused()))
    if why is None:
        pytest.skip("this server has XNACK")
    with pytest.raises(Refused, match=r"lacks XNACK .* redisq workers claim .* --to NAME"):
        run(client, check_settleable(queue, acknowledge=False))
    with pytest.raises(Refused, match="lacks XNACK"):
        finished(queue, settling(queue, "w1", acknowledge=False))
    with pytest.raises(Refused, match="lacks XNACK"):
        queue.settle_held("bill", "w1", [], acknowledge=False, min_idle_ms=0, op="x", step=1)
    assert pending(client) == {f"{n}-0": ("w1" if n < 7 else "w2", 1) for n in range(1, 11)}
    assert run(client, audit_log.last(queue, 10)) == []


def test_what_is_given_back_can_be_claimed_and_taken_back(client: redis.Redis, xnack: None) -> None:
    queue = filled(client)
    outcome = finished(queue, settling(queue, "w1", acknowledge=False))
    assert outcome.done == 6 and {pending(client)[f"{n}-0"] for n in range(1, 7)} == {("", 1)}
    assert [one.name for one in queue.consumers("bill")] == ["bill:-", "bill:w1", "bill:w2"]
    held = run(client, held_entries(queue, "-", "bill", only=["1-0"]))
    assert finished(queue, ChangeRun(ConsumerSteps(held, "w2"), AUTHOR)).done == 1
    back = undo(queue, outcome.op)
    assert (back.done, back.skipped) == (5, {"changed": 1})
    assert [pending(client)[f"{n}-0"][0] for n in range(1, 7)] == ["w2", *["w1"] * 5]


# --- races --------------------------------------------------------------------------------------

READER = """
import json, sys, redis
url, group, consumer, end, path, many = sys.argv[1:]
client, read, acked = redis.Redis.from_url(url), [], []
print("ready", flush=True)
while not read or read[-1] != end:
    try:
        for _, entries in client.xreadgroup(group, consumer, {"orders": ">"}, count=int(many)):
            for id, fields in entries:
                read.append(fields[b"n"].decode())
                if client.xack("orders", group, id):
                    acked.append(id.decode())
    except redis.ResponseError as error:
        if "NOGROUP" not in str(error):
            raise
with open(path, "w") as file:
    json.dump({"read": read, "acked": acked}, file)
"""
RACED = 3_000


@pytest.fixture
def readers(
    client: redis.Redis, url: str, tmp_path: Path
) -> Iterator[Callable[..., tuple[subprocess.Popen[str], Path]]]:
    """Starts a real consumer of a group, which acknowledges each entry after it has read it."""
    started: list[subprocess.Popen[str]] = []

    def start(group: str, many: int = 5) -> tuple[subprocess.Popen[str], Path]:
        path = tmp_path / group
        words = [url, group, "w1", str(RACED), str(path), str(many)]
        one = subprocess.Popen(
            [sys.executable, "-c", READER, *words], stdout=subprocess.PIPE, text=True
        )
        started.append(one)
        assert one.stdout is not None and one.stdout.readline() == "ready\n"
        return one, path

    client.xgroup_create("orders", "bill", id="0", mkstream=True)
    client.xgroup_create("orders", "audit", id="0")
    yield start
    for one in started:
        one.kill()
        one.wait()
        assert one.stdout is not None
        one.stdout.close()


def added(client: redis.Redis, first: int, n: int) -> None:
    pipe = client.pipeline(transaction=False)
    for k in range(first, first + n):
        pipe.xadd("orders", {"n": k})
    pipe.execute()


@pytest.mark.slow
def test_a_stream_that_is_trimmed_all_the_time_loses_nothing(
    client: redis.Redis, readers: Callable[..., tuple[subprocess.Popen[str], Path]]
) -> None:
    queue: Stream = StreamQueue(client, "stream:orders")
    both = [readers("bill"), readers("audit")]
    trimmed = refused = 0
    for first in range(1, RACED + 1, 10):
        added(client, first, 10)
        found = run(client, prepare_trim(queue))
        if not found.most:
            continue
        try:
            trimmed += finished(queue, ChangeRun(TrimSteps(found), AUTHOR)).done
        except Refused:
            refused += 1
    for one, path in both:
        assert one.wait(60) == 0
        said = json.loads(path.read_text())
        assert said["read"] == [str(n) for n in range(1, RACED + 1)]
    assert trimmed > RACED // 10 and trimmed + client.xlen("orders") == RACED
    assert not refused, "a group that only goes on gives no reason"


@pytest.mark.slow
def test_a_group_that_is_removed_and_created_again_and_again_loses_nothing(
    client: redis.Redis, readers: Callable[..., tuple[subprocess.Popen[str], Path]]
) -> None:
    queue: Stream = StreamQueue(client, "stream:orders")
    one, path = readers("bill")
    removed = refused = 0
    for first in range(1, RACED + 1, 100):
        added(client, first, 100)
        while removed <= first // 100:  # at the latest when all of them are acknowledged
            try:
                op = placed(queue, "rm", "bill").op
            except (Refused, NotFound):
                refused += 1
                continue
            removed += 1
            assert undo(queue, op).done == 1
    assert one.wait(60) == 0
    assert json.loads(path.read_text())["read"] == [str(n) for n in range(1, RACED + 1)]
    assert removed == RACED // 100 and refused > 5


@pytest.mark.slow
def test_an_undo_makes_nothing_pending_that_its_consumer_acknowledged(
    client: redis.Redis, readers: Callable[..., tuple[subprocess.Popen[str], Path]]
) -> None:
    queue: Stream = StreamQueue(client, "stream:orders")
    added(client, 1, RACED)
    one, path = readers("bill", 300)
    done, ops = 0, list[str]()
    while one.poll() is None:
        with suppress(NotFound):
            outcome = finished(queue, settling(queue, "w1"))
            done += outcome.done
            ops += [outcome.op] if outcome.done else []
    said = json.loads(path.read_text())
    assert done > 5 and len(said["acked"]) + done == RACED and not pending(client)
    assert sum(undo(queue, op).done for op in ops) == done
    assert len(pending(client)) == done and set(pending(client)).isdisjoint(said["acked"])

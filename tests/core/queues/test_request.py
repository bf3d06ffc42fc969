"""The request queue as its users know it, and the corners where it could go wrong."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import redis

from redisq_ops.core.engine.registry import all_queues
from redisq_ops.core.engine.wire_format import ends
from redisq_ops.core.model.clock import FakeClock
from redisq_ops.core.model.entry import Delivery, Failure, Request, Settlement
from redisq_ops.core.model.errors import (
    BadInput,
    Exists,
    NotFound,
    QueueClosed,
    QueueFull,
    Refused,
    SchemaTooNew,
    Superseded,
    WrongKind,
)
from redisq_ops.core.model.keys import registry_key
from redisq_ops.core.model.settings import DEFAULTS, LEASE_MS, LIMIT, MAX_RESULTS, PRIORITY
from redisq_ops.core.model.states import ZSETS
from redisq_ops.core.queues.request import RequestQueue
from redisq_ops.core.queues.request.digest import Digest
from redisq_ops.core.redis.operation import run, together
from redisq_ops.demo.server import EmbeddedServer

from ...model.wire import picture
from ...queue_steps import ids, move, numbered, settle, undo

Queue = RequestQueue[redis.Redis]
DAY = 24 * 3600 * 1000


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def queue(client: redis.Redis, clock: FakeClock) -> Iterator[Queue]:
    queue = RequestQueue(client, "q", clock=clock)
    yield queue
    assert queue.invariants() == []


def submit(queue: Queue, id: str, n: int = 1, **options: Any) -> None:
    queue.submit([b"%d" % k for k in range(1, n + 1)], id=id, **options)


def take(queue: Queue, n: int = 1, worker: str = "w") -> list[Delivery]:
    return list(queue.take(n, consumer=worker).deliveries)


def counts(queue: Queue) -> tuple[int, int, int, int, int, int]:
    """waiting, pending, delayed, dead, trash, done"""
    c = queue.counts()
    return c.waiting, c.pending, c.delayed, c.dead, c.trash, c.done


def state(queue: Queue, id: str) -> str:
    request = queue.request(id)
    return request.state if request else "none"


# --- order and limits -----------------------------------------------------------------------------


def test_lower_priorities_first(queue: Queue) -> None:
    for priority in (50, 0, 99, 7):
        submit(queue, f"p{priority}", priority=priority)
    assert ids(take(queue, 3)) == ["p0/1", "p7/1", "p50/1"]
    assert ids(take(queue, 3)) == ["p99/1"]


def test_requests_of_one_priority_take_turns(queue: Queue) -> None:
    for id in "abc":
        submit(queue, id, 3, limit=1)
    served = []
    for _ in range(9):
        (delivery,) = take(queue)
        served.append(delivery.request)
        settle(queue, "ack", delivery)
    assert served == list("abc") * 3


def test_sub_requests_of_a_request_come_in_order_and_retries_first(queue: Queue) -> None:
    submit(queue, "r", 4, limit=1)
    first = take(queue)
    assert ids(first) == ["r/1"]
    settle(queue, "release", *first)
    served = []
    for _ in range(4):
        (delivery,) = take(queue)
        served.append(delivery.number)
        settle(queue, "ack", delivery)
    assert served == [1, 2, 3, 4]


@pytest.mark.parametrize("limit", [1, 3, 1000])
def test_the_limit_holds_for_any_number_of_workers(queue: Queue, limit: int) -> None:
    submit(queue, "r", 30, limit=limit)
    taken = [d for worker in range(40) for d in take(queue, 1, f"w{worker}")]
    assert len(taken) == min(limit, 30)
    settle(queue, "ack", taken[0])
    assert len(take(queue, 9)) == (1 if limit < 30 else 0)


def test_a_limit_lowered_below_what_runs_waits_for_it(queue: Queue) -> None:
    submit(queue, "r", 10, limit=5)
    held = take(queue, 5)
    assert queue.control("op", 1, "limit", "r", "2") == ("ok", "5")
    for k, delivery in enumerate(held[:3]):
        assert take(queue, 9) == [], k
        settle(queue, "ack", delivery)
    assert take(queue, 9) == []
    settle(queue, "ack", held[3])
    assert len(take(queue, 9)) == 1
    assert queue.control("op", 2, "limit", "r", "4") == ("ok", "2")
    assert len(take(queue, 9)) == 2


def test_undoing_a_requeue_brings_the_old_holder_back_over_the_limit_and_no_further(
    queue: Queue,
) -> None:
    submit(queue, "r", 3, limit=1)
    (running,) = take(queue)
    move(queue, "requeue-1", "requeue", "pending", "r/1")
    assert ids(take(queue)) == ["r/1"]  # given to another worker: undo leaves that alone
    assert undo(queue, "requeue-1", "requeue") == (0, 1)
    submit(queue, "s", 2, limit=1)
    (running,) = take(queue)
    move(queue, "requeue-2", "requeue", "pending", "s/1")
    queue.control("op", 1, "pause", "s")
    assert undo(queue, "requeue-2", "requeue") == (1, 0)
    assert settle(queue, "ack", running) == ["done"]


def test_a_priority_changed_back_and_forth_leaves_no_second_token(queue: Queue) -> None:
    submit(queue, "r", 2, limit=1, priority=5)
    for seq, priority in enumerate(["9", "5", "9", "5"], 1):
        assert queue.control("op", seq, "priority", "r", priority)[0] == "ok"
    assert queue.control("op", 9, "priority", "r", "5") == ("same", "5")
    assert len(take(queue, 50)) == 1
    assert take(queue, 50) == []
    assert queue.levels() == []


def test_a_name_used_again_has_no_tokens_of_its_past(
    client: redis.Redis, queue: Queue, clock: FakeClock
) -> None:
    submit(queue, "r", 5, limit=5)
    queue.control("op", 1, "cancel", "r")
    clock.now_ms += DAY
    queue.sweep()
    assert queue.request("r") is None
    submit(queue, "r", 5, limit=2)
    assert queue.invariants() == []
    assert len(take(queue, 50)) == 2


def test_a_take_stops_at_its_bound_and_says_so(queue: Queue) -> None:
    for n in range(90):
        submit(queue, f"r{n}", 1)
        queue.control("op", n + 1, "cancel", f"r{n}")
    submit(queue, "last", 1)
    first = queue.take(1, consumer="w")
    assert first.deliveries == () and first.more
    assert ids(list(queue.take(1, consumer="w").deliveries)) == ["last/1"]


def test_paused_requests_and_queues_hand_nothing_out_and_let_settle(queue: Queue) -> None:
    submit(queue, "r", 3)
    submit(queue, "s", 1)
    (held,) = take(queue)
    queue.control("op", 1, "pause", "r")
    assert ids(take(queue, 9)) == ["s/1"]
    assert settle(queue, "ack", held) == ["done"]
    queue.configure("op", 2, {"paused": "a | strange, reason: 100%"})
    queue.control("op", 3, "resume", "r")
    assert take(queue, 9) == []
    assert queue.counts().paused and queue.settings()["paused"] == "a | strange, reason: 100%"
    assert queue.configure("op", 4, {"paused": ""}) == {"paused": "a | strange, reason: 100%"}
    assert ids(take(queue, 9)) == ["r/2", "r/3"]


# --- submitting -----------------------------------------------------------------------------------


def test_a_full_queue_refuses_new_work_and_knows_the_old(client: redis.Redis, queue: Queue) -> None:
    queue.configure("op", 1, {"max_waiting": "3"})
    submit(queue, "r", 2)
    before = picture(client)
    with pytest.raises(QueueFull, match="2 entries wait and max_waiting is 3"):
        submit(queue, "s", 2)
    assert queue.submit([b"1", b"2"], id="r").word == "same"
    assert picture(client) == before
    submit(queue, "t", 1)


def test_a_draining_queue_takes_no_new_request_and_finishes_the_begun(queue: Queue) -> None:
    digest = Digest(50, 4)
    empty = str(digest)
    digest.add(b"a")
    queue.append("r", 1, [b"a"], before=empty, after=str(digest))
    queue.configure("op", 1, {"closed": "moving house"})
    with pytest.raises(QueueClosed, match="draining"):
        submit(queue, "s")
    begun = str(digest)
    digest.add(b"b")
    assert (
        queue.append("r", 2, [b"b"], before=begun, after=str(digest), seal=True).state == "sealed"
    )
    assert len(take(queue, 9)) == 2


def test_a_shorter_or_longer_or_other_submission_of_a_name_is_refused(queue: Queue) -> None:
    submit(queue, "r", 10)
    for other in ([b"1"], [b"1", b"2"], [], [b"%d" % k for k in range(1, 12)], [b"x"] * 10):
        with pytest.raises(Exists):
            queue.submit(other, id="r")
    for options in ({"limit": 5}, {"priority": 1}):
        with pytest.raises(Exists):
            submit(queue, "r", 10, **options)
    assert counts(queue)[0] == 10


def test_the_digest_knows_boundaries_and_no_chunks() -> None:
    def of(*payloads: bytes) -> str:
        digest = Digest(50, 4)
        for payload in payloads:
            digest.add(payload)
        return str(digest)

    assert of(b"ab", b"c") != of(b"a", b"bc") != of(b"abc")
    assert of() != of(b"")
    assert len({of(b""), of(b"", b""), of(b"0:")}) == 3


@pytest.mark.parametrize(
    "id", ["", "a b", "a/b", "a{b", "a|b", "a*", "é", "x" * 129, "a\n", "\x1b]52;c;AAAA\x07"]
)
def test_a_name_out_of_the_alphabet_is_refused_before_anything_is_sent(id: str) -> None:
    unreachable = RequestQueue(redis.Redis(port=1), "q")
    with pytest.raises(BadInput):
        unreachable.submit([b"x"], id=id)
    with pytest.raises(BadInput):
        RequestQueue(redis.Redis(port=1), id)


@pytest.mark.parametrize(
    ("id", "options", "said"),
    [
        ("a/b", {}, "request id 'a/b'"),
        ("", {}, "request id ''"),
        ("r", {"priority": 100}, "priority 100"),
        ("r", {"priority": -1}, "priority -1"),
        ("r", {"limit": 0}, "limit 0"),
        ("r", {"limit": 1001}, "limit 1001"),
    ],
)
def test_a_streamed_request_is_checked_like_a_whole_one(
    client: redis.Redis, queue: Queue, id: str, options: dict[str, Any], said: str
) -> None:
    digest = Digest(options.get("priority", 50), options.get("limit", 4))
    before = str(digest)
    digest.add(b"x")
    with pytest.raises(BadInput, match=said):
        queue.append(id, 1, [b"x"], before=before, after=str(digest), **options)
    assert client.dbsize() == 0  # not even the queue was registered
    with pytest.raises(BadInput, match=said):
        queue.submit([b"x"], id=id, **options)


def test_names_at_the_edge_of_the_alphabet_work(client: redis.Redis, clock: FakeClock) -> None:
    queue = RequestQueue(client, "!#$%:~^" + "q" * 121, clock=clock)
    queue.submit([b"x"], id="~a:b\"'")
    (delivery,) = take(queue)
    assert settle(queue, "ack", delivery) == ["done"]
    assert queue.invariants() == []


def test_consumers_names_are_checked_and_the_groups_own_are_reserved(queue: Queue) -> None:
    submit(queue, "r")
    for name in ("~waiting", "~x", "a b", "", "a/b"):
        with pytest.raises(BadInput):
            queue.take(1, consumer=name)
    for n in (0, -1, 501):
        with pytest.raises(BadInput):
            queue.take(n, consumer="w")
    assert counts(queue)[0] == 1


@pytest.mark.parametrize("lease", [10**12, float("inf"), float("nan")])
def test_a_time_that_could_not_be_read_again_is_refused(queue: Queue, lease: Any) -> None:
    submit(queue, "r", 2)
    with pytest.raises(BadInput, match="seconds from 0"):
        queue.take(1, consumer="w", lease=lease)
    (held,) = take(queue)
    with pytest.raises(BadInput):
        queue.extend([held], lease)
    with pytest.raises(BadInput):
        queue.settle([Settlement(held, "fail", delay=lease)])
    assert queue.take(1, consumer="w", lease=1.50075).deliveries[0].deadline_ms % 1 == 0


# --- settling -------------------------------------------------------------------------------------


def test_a_late_receipt_in_a_batch_does_not_hide_the_good_one(
    queue: Queue, clock: FakeClock
) -> None:
    submit(queue, "r")
    (late,) = take(queue)
    clock.now_ms += LEASE_MS
    (good,) = take(queue)
    assert settle(queue, "ack", late, good, good) == ["stale", "done", "stale"]
    assert state(queue, "r") == "done"


def test_no_receipt_is_no_receipt(queue: Queue) -> None:
    submit(queue, "r")
    (held,) = take(queue)
    settle(queue, "release", held)
    (held,) = take(queue)
    for forged in ("-", "", "1", held.receipt[:-1], f"{held.receipt} ", f"{held.receipt}|1"):
        fake = Delivery("q", "r/1", b"", forged, 0, 0, 0, "w")
        for outcome in ("ack", "reject"):
            assert settle(queue, outcome, fake) == ["stale"]
        assert settle(queue, "ack", fake, fake) == ["stale", "stale"]
        assert queue.extend([fake]) == [False]
    for name in ("", "r/1 x", "r/2"):
        fake = Delivery("q", name, b"", held.receipt, 0, 0, 0, "w")
        assert settle(queue, "ack", fake) == ["stale"]
    assert settle(queue, "ack", fake, held) == ["stale", "done"], "beside others too"


def test_an_error_is_forgotten_with_its_entry_also_after_a_replay(
    client: redis.Redis, queue: Queue
) -> None:
    submit(queue, "r")
    settle(queue, "reject", *take(queue), value=Failure("Boom", "no").encoded())
    (dead,) = queue.page("dead").entries
    assert dead.error == Failure("Boom", "no")
    assert move(queue, "replay-1", "replay", "dead", "r/1") == ["moved"]
    assert state(queue, "r") == "sealed"
    settle(queue, "ack", *take(queue))
    assert state(queue, "r") == "done"
    assert not client.exists(queue.keys["err"], queue.keys["meta"])


def test_results_come_in_order_byte_for_byte(queue: Queue) -> None:
    values = [b"\x00\xff", b"", "ü".encode(), b"x" * 100_000]
    queue.submit([b""] * 1100, id="r", limit=1000)
    for start in (1, 999):
        deliveries = {d.number: d for d in take(queue, 500) + take(queue, 498)}
        for number, value in enumerate(values, start):
            if number in deliveries:
                settle(queue, "result", deliveries.pop(number), value=value)
        settle(queue, "ack", *list(deliveries.values())[:500])
        settle(queue, "ack", *list(deliveries.values())[500:])
    assert numbered(queue.results("r", 1, 5)) == [*zip(range(1, 5), values, strict=True), (5, None)]
    assert [n for n, _ in numbered(queue.results("r", 995, 10))] == list(range(995, 1005))


def test_results_over_64_mib_of_a_request_are_dropped_and_counted(
    client: redis.Redis, queue: Queue
) -> None:
    submit(queue, "r", 3, limit=3)
    held = take(queue, 3)
    client.hset(queue.keys["r_"] + "r", "bytes", MAX_RESULTS - 10)
    assert settle(queue, "result", held[0], value=b"x" * 11) == ["done"]
    assert settle(queue, "result", held[1], value=b"x" * 10) == ["done"]
    assert settle(queue, "result", held[2], value=b"x") == ["done"]
    assert numbered(queue.results("r", 1, 3)) == [(1, None), (2, b"x" * 10), (3, None)]
    request = queue.request("r")
    assert request and (request.results_dropped, request.state) == (2, "done")


def test_replaying_adds_a_result_and_keeps_the_others(queue: Queue) -> None:
    submit(queue, "r", 2, limit=2)
    one, two = take(queue, 2)
    settle(queue, "result", one, value=b"one")
    settle(queue, "reject", two)
    assert state(queue, "r") == "done"
    move(queue, "replay-1", "replay", "dead", "r/2")
    settle(queue, "result", *take(queue), value=b"two")
    assert numbered(queue.results("r", 1, 2)) == [(1, b"one"), (2, b"two")]
    assert state(queue, "r") == "done"


def test_an_older_call_of_a_caller_is_refused_and_changes_nothing(
    client: redis.Redis, queue: Queue
) -> None:
    submit(queue, "r", 3)
    (held,) = take(queue)
    say = queue._script("settle").call

    def call(seq: int, outcome: Any) -> Any:
        told, rows = ends([Settlement(held, outcome)], lambda s: (s.outcome, s.value, 0))
        return say(
            queue.keys, queue.clock, list, rows, caller="me", seq=seq, consumer="w", told=told
        )

    assert run(client, call(2, "release")) == [b"released"]
    before = picture(client)
    with pytest.raises(Superseded):
        run(client, call(1, "ack"))
    assert run(client, call(2, "ack")) == [b"released"], "the reply of the call that was"
    assert picture(client) == before


# --- operators ------------------------------------------------------------------------------------


def test_a_cancelled_request_gives_nothing_out_and_comes_back_whole(
    queue: Queue, clock: FakeClock
) -> None:
    submit(queue, "r", 4, limit=2)
    running, delayed = take(queue, 2)
    queue.settle([Settlement(delayed, "fail", b"", 1)])
    assert queue.control("op", 1, "cancel", "r") == ("ok", "sealed")
    clock.advance(1)
    assert take(queue, 9) == []
    request = queue.request("r")
    assert request and (request.state, request.waiting, request.pending, request.trash) == (
        "cancelled",
        0,
        1,
        3,
    )
    assert counts(queue) == (0, 1, 0, 0, 3, 0)
    assert settle(queue, "ack", running) == ["done"]
    with pytest.raises(QueueClosed):
        queue.control("op", 2, "cancel", "r")
    with pytest.raises(QueueClosed):
        queue.control("op", 2, "pause", "r")
    assert queue.control("op", 2, "reopen", "r", "sealed") == ("ok", "cancelled")
    assert queue.request("r").closed_ms is None  # type: ignore[union-attr]
    assert sorted(ids(take(queue, 9))) == ["r/2", "r/3"]


def test_a_cancelled_request_whose_time_is_up_can_not_come_back(
    queue: Queue, clock: FakeClock
) -> None:
    submit(queue, "r", 2)
    queue.control("op", 1, "cancel", "r")
    clock.now_ms += DAY
    with pytest.raises(QueueClosed, match="too long ago"):
        queue.control("op", 2, "reopen", "r", "sealed")
    assert queue.sweep() == 1
    with pytest.raises(NotFound):
        queue.control("op", 3, "reopen", "r", "sealed")


@pytest.mark.parametrize("touched", [False, True])
def test_a_cancelled_request_leaves_nothing_behind(
    client: redis.Redis, queue: Queue, clock: FakeClock, touched: bool
) -> None:
    """2,001 sub-requests go in three steps; some had been taken, purged, restored before."""
    queue.submit([b"x"] * 2001, id="r", limit=10)
    if touched:
        held = take(queue, 4)
        settle(queue, "release", *held[:2])
        queue.settle([Settlement(held[2], "fail", b"boom", 0)])
        settle(queue, "ack", held[3])
        move(queue, "purge-1", "purge", "waiting", "r/2000", "r/1", "r/1500")
        move(queue, "restore-1", "restore", "trash", "r/2000", "r/1")
        undo(queue, "purge-1", "purge")
        move(queue, "restore-2", "restore", "trash", "r/1500")
    queue.control("op", 1, "cancel", "r")
    clock.now_ms += DAY
    assert [queue.sweep() for _ in range(4)] == [1, 1, 1, 0]
    take(queue, 9)
    keys = {key.decode().removeprefix("redisq:{q}:") for key in client.scan_iter()}
    kept = {"redisq:registry", "stat", "callers", "hist", "wake", "cfg"}
    assert {key for key in keys if not key.startswith(("rate:", "op:", "undo:"))} <= kept
    assert counts(queue)[:5] == (0, 0, 0, 0, 0)


def test_a_page_that_ends_with_the_last_request_looked_at_is_not_the_last(
    client: redis.Redis,
) -> None:
    """Requests are looked at fifty at a time."""
    queue = RequestQueue(client, "mail")
    for k in range(60):
        queue.submit([b"x"] * 2, id=f"r{k:02}")
    page = queue.page("waiting", None, 100)
    rest = queue.page("waiting", page.cursor, 100)
    assert page.cursor is not None and rest.cursor is None
    assert len({entry.id for entry in (*page.entries, *rest.entries)}) == 120


def test_a_cancelled_request_with_nothing_left_waiting_retires(
    queue: Queue, clock: FakeClock
) -> None:
    """Lua's zero may be -0, and a server refuse to count by that."""
    submit(queue, "r", 1)
    (held,) = take(queue)
    queue.control("op", 1, "cancel", "r")
    settle(queue, "ack", held)
    clock.now_ms += DAY
    assert queue.sweep() == 1
    assert queue.request("r") is None


def test_purged_before_anyone_had_it_passed_by_and_brought_back(queue: Queue) -> None:
    submit(queue, "r", 4, limit=4)
    assert move(queue, "purge-1", "purge", "waiting", "r/2", "r/4") == ["moved", "moved"]
    assert ids(take(queue, 9)) == ["r/1", "r/3"]
    assert undo(queue, "purge-1", "purge") == (2, 0)
    assert ids(take(queue, 9)) == ["r/2", "r/4"]
    assert counts(queue) == (0, 4, 0, 0, 0, 0)


def test_purged_for_good_is_gone_and_stays_gone(client: redis.Redis, queue: Queue) -> None:
    submit(queue, "r", 3, limit=1)
    take(queue)
    for op in ("hard-1", "hard-2", "hard-3"):
        said = move(queue, op, "hard", "waiting", "r/2", "r/2")
        assert said == (["moved", "changed"] if op == "hard-1" else ["changed"] * 2)
    assert move(queue, "purge-1", "purge", "waiting", "r/2") == ["changed"]
    assert counts(queue) == (1, 1, 0, 0, 0, 0)
    request = queue.request("r")
    assert request and (request.total, request.trash) == (3, 1)
    assert client.xlen(queue.keys["s_"] + "r") == 2


def test_an_entry_has_one_name_only(queue: Queue) -> None:
    submit(queue, "r", 9)
    aliases = ["r/01", "r/1.0", "r/0x1", "r/1e0", "r/", "r/x", "r/0", "r/-1", "r/10", "r", "/1"]
    assert move(queue, "op", "purge", "waiting", *aliases) == ["changed"] * len(aliases)
    assert counts(queue)[0] == 9


def test_names_that_would_break_a_record_are_refused(queue: Queue) -> None:
    submit(queue, "r", 1)
    take(queue)
    for op, consumer in (("two words", "op"), ("", "op"), ("op", "a b"), ("op", "~waiting")):
        with pytest.raises(BadInput):
            queue.move(
                op,
                1,
                ["r/1"],
                source="pending",
                target="pending",
                high_water_ms=queue.now(),
                consumer=consumer,
            )


def test_a_step_sent_with_more_than_a_batch_is_refused(queue: Queue) -> None:
    submit(queue, "r", 1)
    with pytest.raises(BadInput, match="501"):
        move(queue, "op", "purge", "waiting", *["r/1"] * 501)


def test_what_came_after_the_look_is_left_alone(queue: Queue, clock: FakeClock) -> None:
    submit(queue, "r", 2, limit=2)
    settle(queue, "reject", *take(queue))
    looked = queue.now()
    clock.advance(0.001)
    settle(queue, "reject", *take(queue))
    said = queue.move(
        "replay-1", 1, ["r/1", "r/2", "r/9"], source="dead", target="waiting", high_water_ms=looked
    )
    assert said == ["moved", "late", "changed"]


def test_restore_puts_back_where_it_was_and_undo_takes_that_back(
    queue: Queue, clock: FakeClock
) -> None:
    submit(queue, "r", 3, limit=3)
    dead, delayed, _ = take(queue, 3)
    settle(queue, "reject", dead)
    queue.settle([Settlement(delayed, "fail", b"", 5)])
    for source, id in (("dead", "r/1"), ("delayed", "r/2"), ("pending", "r/3")):
        assert move(queue, f"purge-{source}", "purge", source, id) == ["moved"]
    assert counts(queue) == (0, 0, 0, 0, 3, 0)
    assert state(queue, "r") == "done"
    assert move(queue, "restore", "restore", "trash", "r/1", "r/2", "r/3") == ["moved"] * 3
    assert counts(queue) == (1, 0, 1, 1, 0, 0)
    assert undo(queue, "restore", "restore") == (3, 0)
    assert counts(queue) == (0, 0, 0, 0, 3, 0)


def test_a_finished_request_whose_stream_is_gone_stays_finished(
    client: redis.Redis, queue: Queue
) -> None:
    submit(queue, "r", 2, limit=2)
    settle(queue, "ack", *take(queue, 2))
    assert not client.exists(queue.keys["s_"] + "r")
    for verb in ("cancel", "reopen", "pause", "limit", "priority"):
        with pytest.raises(QueueClosed, match="done"):
            queue.control("op", 1, verb, "r", "1")
    for source in ("waiting", "dead", "pending", "delayed", "trash"):
        assert move(queue, f"hard-{source}", "hard", source, "r/1", "r/2") == ["changed"] * 2
    assert queue.consumers("r") == []


# --- looking --------------------------------------------------------------------------------------


def test_pages_of_equal_times_are_exact_while_entries_come_and_go(
    queue: Queue, clock: FakeClock
) -> None:
    queue.submit([b""] * 60, id="r", limit=100)
    settle(queue, "reject", *take(queue, 60))  # all dead in one millisecond
    everything = [entry.id for entry in queue.page("dead", max=100).entries]
    assert sorted(everything) == sorted(f"r/{n}" for n in range(1, 61))
    for size in (1, 7, 59, 60):
        seen, cursor = [], None
        while True:
            page = queue.page("dead", cursor, size)
            seen += [entry.id for entry in page.entries]
            cursor = page.cursor
            if cursor is None:
                break
        assert seen == everything
    first = queue.page("dead", max=10)
    move(queue, "replay-1", "replay", "dead", first.entries[9].id, everything[10])
    second = queue.page("dead", first.cursor, 10)
    assert [entry.id for entry in second.entries] == everything[11:21]
    assert second.total == 58


def test_windows_by_rank(queue: Queue) -> None:
    queue.submit([b""] * 30, id="r", limit=100)
    settle(queue, "reject", *take(queue, 30))
    everything = [entry.id for entry in queue.page("dead").entries]
    window = queue.page("dead", max=5, start=20)
    assert ([e.id for e in window.entries], window.total) == (everything[20:25], 30)
    assert queue.page("dead", max=5, start=28).cursor is None
    assert queue.page("dead", max=5, start=99).entries == ()


def test_pages_of_what_waits_skip_the_purged_and_begin_with_the_retries(queue: Queue) -> None:
    for id in ("b", "a"):
        submit(queue, id, 5, limit=2)
    held = take(queue, 4)
    settle(queue, "release", *[d for d in held if d.id in ("a/1", "b/2")])
    move(queue, "purge-1", "purge", "waiting", "a/4", "b/5", "a/1")
    everything = ["a/3", "a/5", "b/2", "b/3", "b/4"]  # of one age: by name, then by number
    for size in (1, 2, 4, 5, 50):
        seen, cursor = [], None
        while True:
            page = queue.page("waiting", cursor, size)
            assert page.total == len(everything)
            seen += [entry.id for entry in page.entries]
            cursor = page.cursor
            if cursor is None:
                break
        assert seen == everything, size
    window = queue.page("waiting", max=2, start=2, payloads=True)
    assert [(e.id, e.payload) for e in window.entries] == [("b/2", b"2"), ("b/3", b"3")]
    assert queue.page("waiting", start=1000).entries == ()
    with pytest.raises(BadInput, match="start is at most 1,000"):
        queue.page("waiting", start=1001)


def test_an_entry_is_found_wherever_it_is(queue: Queue) -> None:
    queue.submit([b"%d" % n for n in range(1, 8)], id="r", limit=7)
    for id, verb in (("r/6", "purge"),):
        move(queue, "purge-1", verb, "waiting", id)
    one, two, three, four, *_ = take(queue, 4)
    settle(queue, "reject", two)
    queue.settle([Settlement(three, "fail", b"", 1), Settlement(four, "result", b"42")])
    found = {n: queue.get(f"r/{n}") for n in range(1, 8)}
    assert {n: e.state for n, e in found.items() if e} == {
        1: "pending",
        2: "dead",
        3: "delayed",
        4: "done",
        5: "waiting",
        6: "trash",
        7: "waiting",
    }
    assert found[1] and found[1].receipt == one.receipt
    assert found[4] and found[4].record == b"42"
    assert found[5] and found[5].payload == b"5"
    assert queue.get("r/8") is queue.get("r/0") is queue.get("r") is queue.get("x/1") is None


def test_history_holds_what_its_level_says(queue: Queue) -> None:
    def told(level: str) -> Counter[str]:
        queue.configure(f"set-{level}", 1, {"history": level})
        seen = len(queue.history(1000))
        submit(queue, level, 3, limit=3)
        ok, bad, slow = take(queue, 3)
        settle(queue, "ack", ok)
        settle(queue, "reject", bad)
        queue.settle([Settlement(slow, "fail", b"", 0.01)])
        move(queue, f"purge-{level}", "purge", "dead", f"{level}/2")
        events = queue.history(1000)
        return Counter(name for event in events[: len(events) - seen] for name in event.what)

    assert told("off") == {}
    assert told("ops") == {"dead": 1, "failed": 1, "op": 1}
    assert told("all") == {
        "submitted": 1,
        "taken": 1,
        "done": 1,
        "dead": 1,
        "failed": 1,
        "op": 1,
    }
    newest = queue.history(1)[0]
    assert newest.what["op"] == ("purge-all|dead|trash|1",)
    assert queue.history(1, before=newest.id)[0].id < newest.id


def test_rates_count_by_the_minute(queue: Queue, clock: FakeClock) -> None:
    submit(queue, "r", 4, limit=4)
    settle(queue, "ack", *take(queue, 1))
    clock.advance(60)
    settle(queue, "fail", *take(queue, 1))
    clock.now_ms += 60 * 60_000
    settle(queue, "ack", *take(queue, 2))
    rates = queue.rates(queue.now(), 62)
    assert {k: v for k, v in enumerate(rates.arrived) if v} == {0: 4}
    assert {k: v for k, v in enumerate(rates.settled) if v} == {0: 1, 61: 2}
    assert {k: v for k, v in enumerate(rates.failed) if v} == {1: 1}
    assert len(rates.arrived) == 62


def test_counts_and_requests_say_how_old_they_are(queue: Queue, clock: FakeClock) -> None:
    began = queue.now()
    submit(queue, "old", 2)
    clock.advance(1)
    submit(queue, "new", 1)
    assert queue.counts().oldest_ms == began
    assert [r.id for r in queue.requests()] == ["old", "new"]
    settle(queue, "ack", *take(queue, 3))
    clock.advance(0.001)
    submit(queue, "newest", 0)
    assert [r.id for r in queue.requests(settled=True)] == ["newest", "old", "new"]
    assert (queue.requests_total(), queue.requests_total(settled=True)) == (0, 3)
    assert queue.counts().oldest_ms is None


def test_the_streams_own_list_has_what_is_pending_and_nothing_else(queue: Queue) -> None:
    submit(queue, "r", 3, limit=3)
    _, two, three = take(queue, 3, "host:1")
    settle(queue, "release", two)
    queue.settle([Settlement(three, "fail", b"", 1)])
    assert {c.name: c.pending for c in queue.consumers("r")} == {"host:1": 1}
    assert sorted(queue.unsettled("r")) == [("r/1", "pending"), ("r/3", "delayed")]


def test_what_is_to_run_again_outlasts_a_claim_that_fails(client: redis.Redis) -> None:
    queue = RequestQueue(client, "mail")
    submit(queue, "r", 4, limit=4)
    settle(queue, "release", *take(queue, 2))
    stream = queue.keys["s_"] + "r"
    client.rename(stream, "saved")
    client.set(stream, "somebody else's")
    with pytest.raises(WrongKind):
        take(queue, 4)
    client.rename("saved", stream)
    assert client.zrange(queue.keys["again_"] + "r", 0, -1) == [b"1", b"2"]
    queue.control("op", 1, "limit", "r", "5")
    assert sorted(d.id for d in take(queue, 9)) == ["r/1", "r/2", "r/3", "r/4"]
    assert queue.invariants() == []


def test_what_was_removed_from_the_stream_by_hand_holds_up_nobody(client: redis.Redis) -> None:
    queue = RequestQueue(client, "mail")
    submit(queue, "r", 4, limit=4)
    settle(queue, "release", *take(queue, 3))
    client.xdel(queue.keys["s_"] + "r", "1-0")
    assert [d.id for d in take(queue, 9)] == ["r/2", "r/3", "r/4"]
    assert queue.invariants() != []  # fsck says what is missing


# --- waking, sweeping -----------------------------------------------------------------------------


def test_one_entry_wakes_one_and_hints_never_pile_up(client: redis.Redis, queue: Queue) -> None:
    submit(queue, "r", 1)
    assert client.llen(queue.keys["wake"]) == 1
    for n in range(50):
        submit(queue, f"r{n}", 5)
    assert client.llen(queue.keys["wake"]) == 16


def test_of_many_idle_workers_one_keeps_watch(queue: Queue, clock: FakeClock) -> None:
    submit(queue, "r", 1)
    (held,) = take(queue)
    looks = {w: queue.take(1, consumer=w).look_again_ms for w in ("a", "b", "c")}
    assert looks == {"a": held.deadline_ms, "b": None, "c": None}
    assert queue.take(1, consumer="a").look_again_ms == held.deadline_ms
    clock.now_ms += LEASE_MS + 300  # the one that watched is gone: the next to look takes over
    assert ids(take(queue, 1, "b")) == ["r/1"]
    assert queue.take(1, consumer="c").look_again_ms == queue.now() + LEASE_MS


def test_the_sweep_lets_go_of_what_is_past_its_time_and_never_of_the_dead(
    client: redis.Redis, queue: Queue, clock: FakeClock
) -> None:
    submit(queue, "done", 1)
    settle(queue, "result", *take(queue), value=b"x")
    submit(queue, "dead", 1)
    settle(queue, "reject", *take(queue))
    submit(queue, "binned", 1)
    move(queue, "purge-1", "purge", "waiting", "binned/1")
    clock.now_ms += DAY - 1
    assert queue.sweep() == 0
    clock.advance(0.001)
    assert queue.sweep() > 0
    assert queue.request("done") is None
    with pytest.raises(NotFound, match="no request done in queue q"):
        queue.results("done", 1, 1)
    for _ in range(100):
        clock.now_ms += DAY
        while queue.sweep():
            pass
    assert queue.request("binned") is None
    assert state(queue, "dead") == "done"
    assert [e.id for e in queue.page("dead").entries] == ["dead/1"]
    callers: list[Any] = list(client.hkeys(queue.keys["callers"]))
    assert [name for name in callers if name.endswith((b":settle", b":take"))] == []


def test_finished_requests_go_fifty_at_a_time(queue: Queue, clock: FakeClock) -> None:
    """A worker calls twice a minute: what a call doesn't carry off, piles up."""
    for n in range(120):
        submit(queue, f"r{n}", 0)
    clock.now_ms += DAY
    assert [queue.sweep() for _ in range(4)] == [50, 50, 20, 0]
    assert queue.requests_total(settled=True) == 0


# --- servers that are not as they should be -------------------------------------------------------


@pytest.fixture
def full() -> Iterator[tuple[Queue, FakeClock, Callable[[], None]]]:
    """A queue on a server of its own, and what fills that server to the brim."""
    with (
        EmbeddedServer(args=["--maxmemory", "12mb", "--maxmemory-policy", "noeviction"]) as own,
        redis.Redis.from_url(own.url, protocol=3) as client,
    ):
        clock = FakeClock()

        def fill() -> None:
            for size in (100_000, 100):
                with pytest.raises(redis.OutOfMemoryError):
                    for n in range(100_000):
                        client.set(f"ballast:{size}:{n}", b"x" * size)

        yield RequestQueue(client, "q", clock=clock), clock, fill


def test_a_full_server_takes_no_new_work_and_can_be_worked_empty(
    full: tuple[Queue, FakeClock, Callable[[], None]],
) -> None:
    queue, clock, fill = full
    queue.submit([b"%d" % n for n in range(12)], id="r", limit=20)
    queue.submit([b"x"], id="s")
    held = take(queue, 5)
    fill()
    with pytest.raises(Refused, match="full"):
        submit(queue, "more")
    assert queue.request("more") is None
    fail = queue.settle([Settlement(held[0], "fail", b"boom" * 100, 1)])
    assert fail == ["retry"]
    assert settle(queue, "reject", held[1]) == ["dead"]
    assert settle(queue, "result", held[2], value=b"x" * 1000) == ["done"]
    assert settle(queue, "release", held[3]) == ["released"]
    assert queue.extend([held[4]]) == [True]
    assert move(queue, "purge-1", "purge", "waiting", "r/12") == ["moved"]
    assert undo(queue, "purge-1", "purge") == (1, 0)
    assert move(queue, "replay-1", "replay", "dead", held[1].id) == ["moved"]
    assert move(queue, "hard-1", "hard", "waiting", "r/12") == ["moved"]
    queue.control("op", 1, "cancel", "s")
    queue.configure("op", 2, {"history": "all"})
    clock.now_ms += DAY
    queue.sweep()
    for _ in range(20):
        settle(queue, "ack", *take(queue, 20))
        clock.advance(1)
    assert state(queue, "r") == "done"
    assert queue.invariants() == []


@pytest.mark.parametrize("where", ["pending", "delayed", "trash"])
def test_an_entry_whose_request_was_removed_by_hand_stops_nobody(
    client: redis.Redis, clock: FakeClock, where: str
) -> None:
    """Whoever takes or sweeps comes across it when its time is up, and so would all after that."""
    queue = RequestQueue(client, "q", clock=clock)
    submit(queue, "gone", 1)
    (held,) = take(queue)
    if where == "delayed":
        queue.settle([Settlement(held, "fail", b"boom", 1)])
    elif where == "trash":
        move(queue, "purge-1", "purge", "pending", "gone/1")
    client.delete(queue.keys["r_"] + "gone")
    submit(queue, "other", 2)
    clock.now_ms += DAY
    assert ids(take(queue, 9)) == ["other/1", "other/2"]
    while queue.sweep():
        pass
    left = {state: [e.id for e in queue.page(state).entries] for state in ZSETS}
    assert left == {"pending": ["other/1", "other/2"], "delayed": [], "dead": [], "trash": []}
    assert settle(queue, "ack", held) == ["stale"]
    assert set(queue.invariants()) <= {"gone is listed and has no record"}


def test_a_delivery_whose_request_was_removed_by_hand_can_still_be_settled(
    client: redis.Redis, clock: FakeClock
) -> None:
    queue = RequestQueue(client, "q", clock=clock)
    for id in ("gone", "other"):
        submit(queue, id, 1)
    held = take(queue, 2)
    client.delete(queue.keys["r_"] + "gone")
    assert settle(queue, "ack", *held) == ["done", "done"]  # one of a batch of results
    assert state(queue, "other") == "done"


@pytest.mark.parametrize("part", ["lease", "dead", "meta", "hist", "wake", "p:7", "open"])
def test_a_key_of_another_type_in_the_way_is_found_before_anything_is_written(
    client: redis.Redis, part: str
) -> None:
    client.sadd(f"redisq:{{q}}:{part}", "somebody else's")
    before = picture(client)
    queue = RequestQueue(client, "q")
    for attempt in (lambda: submit(queue, "r"), lambda: queue.configure("op", 1, {"paused": "x"})):
        with pytest.raises(WrongKind, match=f"redisq:{{q}}:{part}"):
            attempt()
    assert queue.take(1, consumer="w").deliveries == ()  # there is no such queue yet
    assert picture(client) == before


@pytest.mark.parametrize("key", ["redisq:{q}:r:mine", "redisq:{q}:s:mine", "redisq:registry"])
def test_a_foreign_key_where_a_request_would_be_stays_alone(client: redis.Redis, key: str) -> None:
    queue = RequestQueue(client, "q")
    if key != "redisq:registry":
        submit(queue, "other")
    client.set(key, "somebody else's")
    before = picture(client)
    with pytest.raises(WrongKind):
        submit(queue, "mine")
    assert picture(client) == before


def test_a_queue_of_a_newer_release_or_another_kind_is_not_touched(client: redis.Redis) -> None:
    entries = {
        "newer": {"kind": "request", "schema": 2, "created_ms": 1, "some": "thing new"},
        "other": {"kind": "delay", "schema": 1, "created_ms": 1},
    }
    for name, entry in entries.items():
        client.hset(registry_key(), name, json.dumps(entry))
    before = picture(client)
    for name, refusal in (("newer", SchemaTooNew), ("other", WrongKind)):
        queue = RequestQueue(client, name)
        for attempt in (lambda q=queue: submit(q, "r"), lambda q=queue: q.take(1, consumer="w")):
            with pytest.raises(refusal) as caught:
                attempt()
            assert "\n" not in str(caught.value)
    assert picture(client) == before
    assert [entry.name for entry in run(client, all_queues())] == ["newer", "other"]


def test_what_was_removed_for_good_is_not_done(client: redis.Redis) -> None:
    """It never ran: nothing says that it did."""
    from redisq_ops.core.queues.request.outcomes import outcomes

    queue = RequestQueue(client, "q")
    queue.submit([b"1", b"2", b"3"], id="r")
    (first,) = queue.take(1, consumer="w").deliveries
    queue.settle([Settlement(first, "ack")])
    for to in ("trash", "gone"):
        source: Any = "waiting" if to == "trash" else "trash"
        said = run(
            client,
            queue.move.op(
                f"purge-{to}", 1, ["r/3"], source=source, target=to, high_water_ms=queue.now()
            ),
        )
        assert said == ["moved"]
    done = queue.get("r/1")
    assert queue.get("r/3") is None and done is not None and done.state == "done"
    states = [one.state for one in run(client, outcomes(queue, "r", 1, 3))]
    assert states == ["done", "waiting", "trash"]
    assert numbered(queue.results("r", 1, 3)) == [(1, None), (2, None), (3, None)]
    assert queue.invariants() == []


def test_results_of_a_request_in_any_shard(client: redis.Redis) -> None:
    from redisq_ops.core.queues.request.outcomes import outcomes
    from redisq_ops.core.queues.request.sharded import ShardedRequestQueue

    queue: Any = ShardedRequestQueue(client, "q", shards=4)
    for k in range(8):
        queue.submit([b"1", b"2"], id=f"r{k}", limit=100)
    while taken := queue.take(100, consumer="w").deliveries:
        queue.settle([Settlement(d, "result", d.id.encode()) for d in taken])
    for k in range(8):
        found = run(client, outcomes(queue, f"r{k}", 1, 10))
        assert [one.result for one in found] == [b"r%d/1" % k, b"r%d/2" % k]
        assert [entry.state for entry in queue.subrequests(f"r{k}", 1, 10)] == ["done", "done"]


def test_results_tell_of_every_part_what_became_of_it(queue: Queue) -> None:
    queue.submit([b""] * 700, id="r", limit=1000)
    held = take(queue, 500)
    settle(queue, "result", *held[:-3], value=b"fine")
    error = Failure("SMTP", "no mailbox", "Traceback")
    queue.settle([Settlement(held[-3], "reject", error.encoded())])
    settle(queue, "ack", held[-2])
    found = queue.results("r")
    assert [part.number for part in found] == list(range(1, 701))
    dead, done, pending = (found[(d.number or 0) - 1] for d in held[-3:])
    assert (dead.state, dead.result, dead.error) == ("dead", None, error)
    assert (done.state, done.result, pending.state) == ("done", None, "pending")
    assert found[0].result == b"fine" and found[-1].state == "waiting"
    first, other = run(
        queue.client, together([queue.results.op("r", 1, 2), queue.results.op("r", 600, 1)])
    )
    assert ([one.number for one in first], [one.number for one in other]) == ([1, 2], [600])


@pytest.mark.alike
def test_checkup_names_what_is_no_priority(client: redis.Redis) -> None:
    queue = RequestQueue(client, "mail")
    queue.submit([b"x"], id="r1", limit=1)
    client.zadd(queue.keys["prios"], {"odd": 1, "1.5": 2})
    flaws = queue.checkup(thorough=True).flaws
    assert "prios has '1.5', which is no priority" in flaws
    assert "prios has 'odd', which is no priority" in flaws


@pytest.mark.parametrize("last", ["ack", "reject"])
def test_a_request_that_follows_another_waits_for_its_end(
    queue: Queue, clock: FakeClock, last: str
) -> None:
    queue.submit([b"a", b"b"], id="first")
    assert queue.submit([b"c"], id="next", follows="first").word == "ok"
    assert queue.submit([b"c"], id="next", follows="first").word == "same"
    for follows, error in (("first", Exists), ("nobody", NotFound)):
        with pytest.raises(error):
            queue.submit([b"d"], id="other", follows=follows)
    one, other = take(queue, 2)
    settle(queue, "ack", one)
    settle(queue, "fail", other, delay=0.005)
    assert take(queue) == []
    follower = _record(queue, "next")
    assert (follower.paused, follower.tokens, follower.follows) == (True, 0, "first")
    with pytest.raises(QueueClosed, match="first is done, which it follows: to hold both, pause"):
        queue.control("held", 1, "pause", "next")
    with pytest.raises(QueueClosed, match="goes on when first is done, which it follows"):
        queue.control("freed", 1, "resume", "next")
    clock.advance(0.005)
    (other,) = take(queue)
    queue.client.set(queue.keys["p_"] + "7", "no list")
    queue.control("op", 1, "priority", "next", "7")
    with pytest.raises(WrongKind):
        settle(queue, last, other)
    assert _record(queue, "first").pending == 1, "refused before the first write"
    queue.client.delete(queue.keys["p_"] + "7")
    settle(queue, last, other)
    assert _record(queue, "first").settled
    assert [delivery.id for delivery in take(queue)] == ["next/1"]
    assert queue.submit([b"e"], id="late", follows="next").state == "sealed"
    queue.control("op", 2, "cancel", "late")
    with pytest.raises(QueueClosed):
        queue.submit([b"f"], id="later", follows="late")
    queue.control("op", 3, "cancel", "next")
    with pytest.raises(QueueClosed, match="follows next, which is cancelled: undo that first"):
        queue.control("op", 4, "reopen", "late", "sealed")
    queue.control("op", 5, "reopen", "next", "sealed")
    assert queue.control("op", 6, "reopen", "late", "sealed") == ("ok", "cancelled")


def test_a_cancelled_follower_makes_room_for_another(queue: Queue) -> None:
    queue.submit([b"a"], id="first")
    queue.submit([b"b"], id="next", follows="first")
    queue.control("op", 1, "cancel", "next")
    assert queue.submit([b"c"], id="better", follows="first").word == "ok"
    with pytest.raises(Exists):
        queue.submit([b"d"], id="third", follows="first")
    with pytest.raises(QueueClosed, match="better follows first in its place: cancel that one"):
        queue.control("op", 2, "reopen", "next", "sealed")
    while held := take(queue, 5):
        settle(queue, "ack", *held)
    assert state(queue, "better") == "done"
    queue.control("op", 3, "reopen", "next", "sealed")
    assert not _record(queue, "next").paused, "what it followed is done"
    (held_next,) = take(queue)
    assert held_next.id == "next/1"


def test_a_cancelled_follower_comes_back_to_its_place(queue: Queue) -> None:
    queue.submit([b"a"], id="first")
    queue.submit([b"b"], id="next", follows="first")
    queue.control("op", 1, "cancel", "next")
    queue.submit([b"c"], id="better", follows="first")
    queue.control("op", 2, "cancel", "better")
    queue.control("op", 3, "reopen", "next", "sealed")
    assert _record(queue, "next").paused
    with pytest.raises(Exists):
        queue.submit([b"d"], id="third", follows="first")
    (first,) = take(queue, 5)
    settle(queue, "ack", first)
    (held,) = take(queue, 5)
    assert held.id == "next/1"


def test_the_end_of_a_request_resumes_no_other_one_of_its_followers_id(
    queue: Queue, clock: FakeClock
) -> None:
    queue.submit([b"a"], id="first")
    queue.submit([b"b"], id="next", follows="first")
    queue.control("op", 1, "cancel", "next")
    clock.now_ms += 2 * DEFAULTS.trash_ms
    while queue.sweep():
        pass
    assert queue.submit([b"c"], id="next").word == "ok"
    queue.control("op", 2, "pause", "next")
    while held := take(queue, 5):
        settle(queue, "ack", *held)
    assert state(queue, "first") == "done"
    assert _record(queue, "next").paused and _record(queue, "next").waiting == 1


def test_a_request_goes_on_once_when_what_it_follows_ends(queue: Queue) -> None:
    queue.submit([b"a"], id="first")
    queue.submit([b"c"], id="next", follows="first")
    (first,) = take(queue)
    settle(queue, "reject", first)
    assert _record(queue, "next").follows == ""
    queue.control("op", 1, "pause", "next")
    assert move(queue, "replay-1", "replay", "dead", "first/1") == ["moved"]
    (again,) = take(queue)
    settle(queue, "ack", again)
    assert _record(queue, "first").settled and _record(queue, "next").paused


def test_sealing_what_another_request_follows_is_refused_before_the_first_write(
    queue: Queue, clock: FakeClock
) -> None:
    digest = Digest(PRIORITY, LIMIT)
    before = str(digest)
    digest.add(b"a")
    after = str(digest)
    queue.append("first", 1, [b"a"], before=before, after=after)
    queue.submit([b"c"], id="next", follows="first", priority=7)
    settle(queue, "ack", *take(queue))
    queue.client.set(queue.keys["p_"] + "7", "no list")
    was = picture(queue.client)
    clock.advance(0.001)
    with pytest.raises(WrongKind):
        queue.append("first", 2, [], before=after, after=after, seal=True)
    assert picture(queue.client) == was
    queue.client.delete(queue.keys["p_"] + "7")
    assert queue.append("first", 2, [], before=after, after=after, seal=True).state == "done"
    assert [delivery.id for delivery in take(queue)] == ["next/1"]


def _record(queue: Queue, id: str) -> Request:
    found = queue.request(id)
    assert found is not None
    return found

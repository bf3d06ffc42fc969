"""A large state, moved whole: as careful as by name, and nobody reads all its ids first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import redis

from redisq_ops.core.model.clock import FakeClock, wall_ms
from redisq_ops.core.model.entry import Settlement
from redisq_ops.core.model.errors import Superseded, Unreachable
from redisq_ops.core.queues.delay import DelaySet, ShardedDelaySet
from redisq_ops.core.queues.request import RequestQueue
from redisq_ops.core.redis.client import connect
from redisq_ops.core.redis.operation import run
from redisq_ops.demo.server import EmbeddedServer
from redisq_ops.ops.change import prepare, scope, step_size, whole_state
from redisq_ops.ops.change.audit_log import Author, find
from redisq_ops.ops.change.entry_steps import EntryAction
from redisq_ops.ops.change.runner import ChangeRun
from redisq_ops.ops.change.undo import UndoSteps
from redisq_ops.ops.deployment import Deployment
from redisq_ops.ops.filter.filter import Filter

from ...changes import entry_change
from ...command_line import ERROR, Redisq, dead_letters
from ...proxy import FlakyProxy
from ...queue_steps import until

N = 1500


@pytest.fixture(autouse=True)
def fifty_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scope, "LARGE", 50)
    monkeypatch.setattr(scope, "LOOKED", 20)


def calls(client: redis.Redis, name: str) -> int:
    stats: Any = client.info("commandstats")
    return int(stats.get(f"cmdstat_{name}", {}).get("calls", 0))


def test_what_a_clock_that_was_ahead_wrote_is_moved_too(
    redisq: Redisq, client: redis.Redis
) -> None:
    ahead = RequestQueue(client, "mail", clock=FakeClock(wall_ms() + 3 * 3_600_000))
    dead_letters(client, 60)
    ahead.submit([b"x"] * 5, id="r2", limit=10)
    error = ERROR.encoded()
    ahead.settle(
        [Settlement(one, "reject", error) for one in ahead.take(5, consumer="w").deliveries]
    )
    (ended,) = redisq.rows("dlq", "replay", "mail", "--yes")
    assert (ended["matched"], ended["done"], ended["skipped"]) == (65, 65, {})
    assert ahead.counts().dead == 0


def test_all_of_a_state_is_replayed_and_undone(redisq: Redisq, client: redis.Redis) -> None:
    queue = dead_letters(client, N)
    (shown,) = redisq.rows("dlq", "replay", "mail", "--dry-run")
    assert shown["matched"] == N and shown["consequences"]["scanned"] == 20
    assert "of the first 20 of 1,500:" in redisq("dlq", "replay", "mail", "--dry-run")
    client.config_resetstat()
    (ended,) = redisq.rows("dlq", "replay", "mail", "--yes")
    assert (ended["matched"], ended["done"], ended["skipped"]) == (N, N, {})
    # Steps of up to 120, and nobody asked for the ids: a page of 20, whatever N is.
    steps = calls(client, "evalsha")
    assert N // step_size.LARGEST <= steps < N // 10
    assert queue.counts().waiting == N and queue.counts().dead == 0
    taken = {one.id for one in queue.take(3, consumer="w").deliveries}
    before = calls(client, "evalsha")
    (back,) = redisq.rows("undo", "--yes", code=3)
    # A call takes as many steps back as make 256 entries; what was taken since stays, and is named.
    assert calls(client, "evalsha") - before <= N // (256 - step_size.LARGEST) + 8
    assert (back["done"], back["skipped"], set(back["sample"])) == (N - 3, {"changed": 3}, taken)
    assert (queue.counts().dead, queue.counts().pending) == (N - 3, 3)
    assert queue.invariants() == []


@pytest.mark.parametrize("most", [None, 1000, 100])  # 100: two steps of 50
def test_the_history_is_told_of_all_of_it_and_not_of_each_step(
    redisq: Redisq, client: redis.Redis, most: int | None
) -> None:
    """Thousands of steps would push out of it what else an operator wants to know."""
    queue = dead_letters(client, N)
    before, steps = queue.history_length(), calls(client, "evalsha")
    redisq.rows("dlq", "replay", "mail", "--yes", *(["--max", str(most)] if most else []))
    steps = calls(client, "evalsha") - steps
    told = [event.what["op"] for event in queue.history(500) if "op" in event.what]
    assert sum(int(item.split("|")[3]) for (item,) in told) == (most or N)
    assert queue.history_length() - before == len(told) <= max(2, steps // 4)


def test_the_history_is_told_of_what_was_moved_before_a_stop(client: redis.Redis) -> None:
    queue = dead_letters(client, N)
    chosen, _ = run(client, scope.select_whole_state(queue, "dead", Filter()))
    change = entry_change(chosen, "replay", Author("me", "here"))

    async def some() -> None:
        for _ in range(5):
            await change.step()

    def told() -> int:
        items = [item for event in queue.history(500) for item in event.what.get("op", ())]
        return sum(int(item.split("|")[3]) for item in items)

    assert run(client, change.reached()) == 0 and not client.exists(queue.keys["op_"] + change.op)
    run(client, some())
    left = queue.counts().dead
    assert 0 < told() < N - left
    assert run(client, change.reached()) == told() == N - left == queue.counts().waiting
    while run(client, change.step()):
        pass
    assert change.outcome.done == told() == N and not change.outcome.skipped


def test_on_a_quick_server_a_step_has_its_bound(client: redis.Redis) -> None:
    queue = dead_letters(client, N)
    chosen, _ = run(client, scope.select_whole_state(queue, "dead", Filter()))
    clock = (n * n for n in range(10**6))  # a step takes longer than the calls before it
    author = Author("me", "here")
    change = entry_change(chosen, "replay", author, clock=lambda: next(clock) / 1e12)

    async def all_steps() -> None:
        while await change.step():
            pass

    run(client, all_steps())
    steps = [client.lindex(key, 1) for key in client.scan_iter(queue.keys["undo_"] + "*")]
    sizes = [len(ids.split()) for ids in steps if isinstance(ids, bytes)]
    assert sum(sizes) == N and max(sizes) == step_size.LARGEST


@pytest.mark.parametrize("kind", ["request", "delay"])
def test_a_step_and_its_undo_take_the_same_commands_however_large(
    client: redis.Redis, kind: str
) -> None:
    """Commands inside the scripts: none of them is once an entry."""

    def spent(work: Callable[[], object]) -> dict[str, int]:
        client.config_resetstat()
        work()
        stats: Any = client.info("commandstats")
        # A script's first call may have to bring its text.
        return {name: row["calls"] for name, row in stats.items() if "_eval" not in name}

    taken = []
    for n in (20, 80):
        client.flushall()
        if kind == "request":
            queue: Any = dead_letters(client, n)
        else:
            queue = DelaySet(client, "later")
            queue.schedule([(f"e{k}", b"x") for k in range(n)], after=0)
            some = queue.take(n, consumer="w").deliveries
            queue.settle([Settlement(one, "reject", ERROR.encoded()) for one in some])
        say = {"source": "dead", "target": "waiting", "high_water_ms": queue.now()}
        queue.move_range("warm", 1, 1, **say)
        moved = spent(partial(queue.move_range, "op", 1, n, **say))
        assert queue.counts().dead == 0
        undone = spent(partial(queue.undo, "op", 1, target="waiting", by="u", seq=1))
        assert queue.counts().dead == n - 1
        taken.append((moved, undone))
    assert taken[0] == taken[1]


def test_lost_replies_move_nothing_twice(server: EmbeddedServer, client: redis.Redis) -> None:
    """And what an undo leaves alone is named."""
    queue = dead_letters(client, 400)
    with FlakyProxy(int(server.url.rpartition(":")[2])) as proxy, connect(proxy.url) as through:

        async def steps(change: ChangeRun[Any]) -> int:
            n = 0
            while await change.step():
                proxy.drop_replies(n % 2)
                n += 1
            return n

        chosen, _ = run(through, scope.select_whole_state(queue, "dead", Filter()))
        author = Author("me", "here")
        change = entry_change(chosen, "replay", author)
        n = run(through, steps(change))
        assert change.outcome.done == 400 and not change.outcome.skipped
        assert run(client, change.reached()) == 400
        assert proxy.seen[b"EVALSHA"] > n + 2  # some were sent twice
        assert queue.counts().waiting == 400 and queue.invariants() == []

        taken = [one.id for one in queue.take(3, consumer="w").deliveries]
        _, operation = run(client, find(Deployment(client), change.op))
        undo, left, sent = UndoSteps(queue, operation), [], proxy.seen[b"EVALSHA"]
        undo.report = lambda id, why: left.append(id)
        n = run(through, steps(undoing := ChangeRun(undo, author)))
    assert (undo.outcome.done, undo.outcome.skipped) == (397, {"changed": 3})
    assert sorted(left) == sorted(taken) and run(client, undoing.reached()) == 397
    assert proxy.seen[b"EVALSHA"] - sent > n + 2
    assert queue.counts().dead == 397 and queue.invariants() == []


def test_a_server_that_forgot_the_script_is_told_again(client: redis.Redis) -> None:
    queue = dead_letters(client, 300)
    chosen, _ = run(client, scope.select_whole_state(queue, "dead", Filter()))
    change = entry_change(chosen, "replay", Author("me", "here"))

    async def steps() -> None:
        while await change.step():
            client.script_flush()

    run(client, steps())
    assert (change.outcome.done, queue.counts().waiting) == (300, 300)


def replaying(queue: Any, most: int | None = None) -> whole_state.WholeStateSteps:
    """The steps of a replay, to be taken one by one."""
    action = EntryAction(queue, "replay", "dead", queue.now())
    whole = scope.WholeState(queue, "dead", Filter(max=most), action.high_water_ms, 100)
    front = whole_state.WholeStateSteps(action, whole)
    front.outcome.op = "op"
    return front


def half_stuck(client: redis.Redis, n: int) -> RequestQueue[redis.Redis]:
    """``n`` dead entries that can't be moved, since their request was removed by hand, and behind
    them as many that can be."""
    queue = RequestQueue(client, "mail")
    for rid in ("r1", "r2"):
        queue.submit([b"x"] * n, id=rid, limit=100)
    taken = queue.take(2 * n, consumer="w").deliveries
    queue.settle([Settlement(one, "reject", ERROR.encoded()) for one in taken])
    client.unlink(queue.keys["r_"] + "r1")
    return queue


def results(front: whole_state.WholeStateSteps) -> Counter[str]:
    """What became of all entries so far."""
    return Counter(moved=front.outcome.done, **front.outcome.skipped)


def to_the_end(client: redis.Redis, front: whole_state.WholeStateSteps) -> int:
    """How many were moved, also by steps before."""
    while run(client, front.step(10)) is not None:
        pass
    return front.outcome.done


@pytest.mark.parametrize("most", [None, 35])
def test_a_step_that_was_given_up_is_counted_with_the_next_one(
    server: EmbeddedServer, client: redis.Redis, most: int | None
) -> None:
    """Its reply was lost for good, and an empty step took the number behind it."""
    queue = dead_letters(client, 100)
    front = replaying(queue, most)
    with FlakyProxy(int(server.url.rpartition(":")[2])) as proxy, connect(proxy.url) as through:
        run(through, front.step(10))
        proxy.drop_replies(3)
        with pytest.raises(Unreachable):
            run(through, front.step(10))
    assert queue.counts().waiting == 20 and front.outcome.done == 10
    run(client, front.record())
    assert run(client, front.step(10)) == 20 and results(front) == Counter(moved=30)
    assert to_the_end(client, front) == queue.counts().waiting == (most or 100)


def test_a_total_that_was_evicted_lets_no_more_through(client: redis.Redis) -> None:
    queue = dead_letters(client, 100)
    front = replaying(queue, 45)
    for _ in range(2):
        run(client, front.step(10))
    client.delete(queue.keys["op_"] + "op")
    assert to_the_end(client, front) == queue.counts().waiting == 45


def test_steps_go_on_where_the_server_was_lost(server: EmbeddedServer, client: redis.Redis) -> None:
    """Each step that was not heard of is sent again as it was, past what can't be moved."""
    queue = half_stuck(client, 40)
    front = replaying(queue)
    with FlakyProxy(int(server.url.rpartition(":")[2])) as proxy, connect(proxy.url) as through:
        for n in range(100):
            proxy.drop_replies(3 * (n % 2))  # as often as it is tried
            try:
                if run(through, front.step(15)) is None:
                    break
            except Unreachable:
                continue
        else:
            pytest.fail(f"after 100 tries the end was not reached: {results(front)}")
    assert results(front) == Counter(moved=40, changed=40) and queue.counts().waiting == 40


def test_the_limit_of_a_context_bounds_a_step(
    redisq: Redisq, client: redis.Redis, configuration: Path, naps: list[Any]
) -> None:
    configuration.write_text('max_rate = "50/s"\n')
    queue = dead_letters(client, 120)
    waiting = []
    naps.append(lambda seconds: waiting.append(queue.counts().waiting))
    redisq("dlq", "replay", "mail", "--yes")
    assert waiting[0] == 50 and queue.counts().waiting == 120


def test_an_error_is_told_with_all_that_was_done(
    redisq: Redisq, client: redis.Redis, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server refuses the third step."""
    queue = dead_letters(client, 400)
    client.acl_setuser(
        "ops", enabled=True, passwords=["+p"], keys=["*"], channels=["*"], commands=["+@all"]
    )
    step = whole_state.WholeStateSteps.step

    async def refused(front: whole_state.WholeStateSteps, size: int) -> int | None:
        if front.number == 2:
            client.acl_setuser("ops", commands=["-evalsha"], reset=False)
        return await step(front, size)

    monkeypatch.setattr(whole_state.WholeStateSteps, "step", refused)
    redisq.url = url.replace("redis://", "redis://ops:p@")
    (ended,) = redisq.rows("dlq", "replay", "mail", "--yes", code=1)
    client.acl_deluser("ops")
    assert 0 < ended["done"] == queue.counts().waiting < 400


def test_what_stays_is_counted_once(client: redis.Redis) -> None:
    queue = half_stuck(client, 30)
    chosen, _ = run(client, scope.select_whole_state(queue, "dead", Filter()))
    change = entry_change(chosen, "replay", Author("me", "here"))
    change.steps.stride.size = 10

    async def steps() -> None:
        while await change.step():
            change.steps.stride.size = 10

    run(client, steps())
    assert change.outcome.done == 30 and change.outcome.skipped == {"changed": 30}


def test_steps_are_as_large_as_half_a_millisecond_is_for() -> None:
    stride = step_size.Stride.of_whole_state(50)
    sizes = []
    for seconds in (0.000_3, 0.000_3, *[0.1, 0.000_9, 0.05] * 5):  # 6 µs each, on a busy machine
        stride.learn(50, seconds)
        sizes.append(stride.size)
    assert sizes == sorted(sizes) and sizes[-1] == 82
    for _ in range(30):
        stride.learn(stride.size, stride.size * 0.000_02)  # others by now
    assert stride.size == 25
    stride.learn(1, 10.0)  # the short rest at the end tells nothing
    assert stride.size == 25
    for _ in range(9):
        stride.learn(stride.size, stride.size * 0.000_000_1)
    assert stride.size == step_size.LARGEST  # taking it back has a bound too


def test_steps_that_a_rate_keeps_small_are_learnt_from_too() -> None:
    stride = step_size.Stride.of_whole_state(step_size.LARGEST)
    for _ in range(9):
        asked = min(stride.size, 25)  # a second
        stride.learn(asked, asked * 0.000_1, asked)
    stride.learn(0, 10.0, 1)
    assert stride.size == 10


def test_a_far_server_gets_no_smaller_steps() -> None:
    stride = step_size.Stride.of_whole_state(50)
    stride.round_trip_s = 0.08
    for _ in range(9):
        stride.learn(stride.size, stride.round_trip_s + stride.size * 0.000_01)
    assert stride.size == 50
    stride.learn(stride.size, 0.07)  # faster than a call that does nothing: no measure of anything
    assert stride.size == 50


@pytest.mark.parametrize(
    "line",
    [
        None,
        "garbage",
        "",
        "two\nlines",
        "- 0 0 x 5 w - - 0",
        "- 1 0 1.7e+12 5 w - failed 0",
        "- 0 0 5 abc w - failed 0",
        "- 0 0 0 - - - - 0",
        "- 1 0 5  w - failed 0",
    ],
)
@pytest.mark.parametrize("target", ["waiting", "trash"])
def test_a_record_spoilt_by_hand_holds_up_nobody(
    client: redis.Redis, target: Any, line: str | None
) -> None:
    queue = dead_letters(client, 5)
    client.hdel(queue.keys["meta"], "r1/2")
    if line is not None:
        client.hset(queue.keys["meta"], "r1/2", line)
    died: Any = client.zrange(queue.keys["dead"], 0, -1, withscores=True)
    change = queue.move_range("op-1", 1, 5, source="dead", target=target, high_water_ms=queue.now())
    assert change.moved == 5 and queue.counts().of(target) == 5 and queue.invariants() == []
    back = queue.undo("op-1", 1, target=target, by="op-2", seq=1)
    assert back == (5, 0) and queue.counts().dead == 5 and queue.invariants() == []
    again: Any = client.zrange(queue.keys["dead"], 0, -1, withscores=True)
    was, now = dict(died), dict(again)
    told, true = now.pop(b"r1/2"), was.pop(b"r1/2")
    assert now == was
    assert told >= true if line else told == true


def test_max_is_kept_to_the_entry(redisq: Redisq, client: redis.Redis) -> None:
    queue = dead_letters(client, 300)
    before = [entry.id for entry in queue.page("dead", None, 500).entries]
    (ended,) = redisq.rows("dlq", "purge", "mail", "--max", "123", "--yes")
    assert (ended["matched"], ended["done"]) == (123, 123)
    assert [entry.id for entry in queue.page("dead", None, 500).entries] == before[123:]
    assert {entry.id for entry in queue.page("trash", None, 500).entries} == set(before[:123])


@pytest.fixture
def meanwhile(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], object]], None]:
    """Something happens between the look and the first step."""
    look = scope.select_whole_state

    def happens(what: Callable[[], object]) -> None:
        async def looked(*given: Any, **named: Any) -> Any:
            found = await look(*given, **named)
            what()
            return found

        monkeypatch.setattr(prepare, "select_whole_state", looked)

    return happens


def test_max_is_kept_where_shards_are_added_meanwhile(
    redisq: Redisq, client: redis.Redis, meanwhile: Callable[[Callable[[], object]], None]
) -> None:
    queue = ShardedDelaySet(client, "later", shards=2)
    queue.schedule([(f"e{n}", b"x") for n in range(300)], after=0)
    while taken := queue.take(100, consumer="w").deliveries:
        queue.settle([Settlement(one, "reject", ERROR.encoded()) for one in taken])
    assert queue.resize(1) == 0
    meanwhile(lambda: queue.resize(4))
    (ended,) = redisq.rows("dlq", "purge", "later", "--max", "123", "--yes", code=3)
    # 50 in the first step, of the shard that it knew; four shards then move equal shares.
    assert (ended["matched"], ended["done"], ended["skipped"]) == (123, 122, {"changed": 1})
    assert (queue.counts().dead, queue.counts().trash) == (178, 122)
    told = [item for event in queue.history(500) for item in event.what.get("op", ())]
    assert sum(int(item.split("|")[3]) for item in told) == 122


def test_what_left_is_counted_and_what_came_later_is_left(
    redisq: Redisq, client: redis.Redis, meanwhile: Callable[[Callable[[], object]], None]
) -> None:
    queue = DelaySet(client, "later")
    queue.schedule([(f"e{n}", b"x") for n in range(100)], after=0)
    taken = queue.take(100, consumer="w").deliveries
    queue.settle([Settlement(one, "reject", ERROR.encoded()) for one in taken[:90]])

    def others() -> None:
        high = queue.now()
        queue.move("other", 1, ["e0", "e1"], source="dead", target="trash", high_water_ms=high)
        until(lambda: queue.now() > high, "the server's clock stands still")
        queue.settle([Settlement(one, "reject", ERROR.encoded()) for one in taken[90:]])

    meanwhile(others)
    (ended,) = redisq.rows("dlq", "replay", "later", "--yes", code=3)
    assert (ended["matched"], ended["done"], ended["skipped"]) == (90, 88, {"changed": 2})
    late = {entry.id for entry in queue.page("dead", None, 500).entries}
    assert late == {one.id for one in taken[90:]}


@pytest.mark.parametrize("shards", [1, 3])
def test_a_change_undone_while_it_runs_stops(client: redis.Redis, shards: int) -> None:
    made = DelaySet(client, "q") if shards == 1 else ShardedDelaySet(client, "q", shards=shards)
    made.schedule([(f"e{n}", b"x") for n in range(300)], after=0)
    while taken := made.take(100, consumer="w").deliveries:
        made.settle([Settlement(one, "reject", ERROR.encoded()) for one in taken])
    author = Author("me", "here")
    chosen, _ = run(client, scope.select_whole_state(made, "dead", Filter()))
    change = entry_change(chosen, "purge", author)
    assert run(client, change.step())
    _, operation = run(client, find(Deployment(client), change.op))
    undo = ChangeRun(UndoSteps(made, operation), author)
    while run(client, undo.step()):
        pass
    with pytest.raises(Superseded, match="taken back"):
        run(client, change.step())
    assert made.counts().dead == 300 and made.counts().trash == 0


@pytest.mark.parametrize(
    "words",
    [
        ("mail", "--match", "SMTP"),
        ("mail", "--older-than", "0s"),
        ("mail/r1",),
        ("mail", "--where", "attempts>=0"),
    ],
)
def test_a_filter_goes_by_name(redisq: Redisq, client: redis.Redis, words: tuple[str, ...]) -> None:
    dead_letters(client, 60)
    (shown,) = redisq.rows("dlq", "replay", *words, "--dry-run")
    assert shown["matched"] == shown["consequences"]["scanned"] == 60


def test_payloads_are_weighed_by_the_first_ones(redisq: Redisq, client: redis.Redis) -> None:
    queue = DelaySet(client, "later")
    queue.schedule([(f"e{n}", b"x" * (100 if n < 60 else 40)) for n in range(80)], after=60)
    (few,) = redisq.rows("purge", "later", "--state", "delayed", "--max", "30", "--dry-run")
    assert (few["consequences"]["bytes"], few["consequences"]["weighed"]) == (3000, 30)
    (shown,) = redisq.rows("purge", "later", "--state", "delayed", "--dry-run")
    assert (shown["consequences"]["bytes"], shown["consequences"]["weighed"]) == (8000, 50)
    said = redisq("purge", "later", "--state", "delayed", "--dry-run")
    assert "; payloads ≈ 7.8 KiB" in said
    (every,) = redisq.rows("purge", "later", "--where", "state:delayed size>1", "--dry-run")
    assert (every["consequences"]["bytes"], every["consequences"]["weighed"]) == (6800, 80)
    mail = dead_letters(client, N)  # of a whole state, too: nobody reads a million payloads
    client.config_resetstat()
    (shown,) = redisq.rows("dlq", "replay", "mail", "--dry-run")
    assert shown["consequences"]["bytes"] == N and shown["consequences"]["weighed"] == 20
    assert calls(client, "xrange") <= 20 and mail.counts().dead == N

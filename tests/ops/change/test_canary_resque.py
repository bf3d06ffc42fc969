"""Closed-loop replay where jobs have no ids: what becomes of them is told by what they say."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import redis

from redisq_ops.core.engine.replay_tracking import WATCHED, ReplayTracker
from redisq_ops.core.foreign.resque import ResqueQueue
from redisq_ops.core.foreign.resque.replay_tracking import (
    AHEAD,
    LATEST,
    IdenticalJobs,
    JobReplayTracker,
    Tail,
)
from redisq_ops.core.foreign.ruby_jobs import Job
from redisq_ops.core.foreign.ruby_jobs.job import digest
from redisq_ops.core.model.clock import FakeClock
from redisq_ops.core.model.entry import Failure, Settlement
from redisq_ops.core.redis.client import connect
from redisq_ops.core.redis.operation import run
from redisq_ops.core.worker import Worker
from redisq_ops.core.worker.handler import Work
from redisq_ops.ops.change.audit_log import Author
from redisq_ops.ops.change.canary_rules import Limits
from redisq_ops.ops.change.plan import PlanFile
from redisq_ops.ops.change.watched_replay import WatchedReplay
from redisq_ops.ops.filter.filter import Filter
from redisq_ops.ops.filter.selection import select

from ...changes import entry_change, plan_change
from ...command_line import Redisq
from ...queue_steps import take

Ours = ResqueQueue[redis.Redis]
ME = Author("me", "here")
BOOM = Failure("Boom", "no such branch").encoded()
LIST, FAILED = "resque:queue:low", "resque:failed"

# How quickly a busy machine answers is no part of these tests.
FAST = Limits(
    rate=2000, first=50, window_ms=100, watch_ms=20_000, patience_ms=600, latency_ms=60_000
)
PATIENT = ("--max-latency", "60s")


@pytest.fixture
def queue(client: redis.Redis) -> Ours:
    return ResqueQueue(client, "resque:low")


def job(*args: Any, klass: str = "Archive") -> bytes:
    return Job(klass, args).encoded()


def failed(
    client: redis.Redis, *payloads: bytes, queue: str = "low", at: str = "2024/06/10 06:13:20 UTC"
) -> None:
    """Failures as a worker of Resque's own writes them, of long ago."""
    rest = f'"exception":"E","error":"x","backtrace":[],"worker":"w","queue":"{queue}"'
    rows = [
        b'{"failed_at":"%s","payload":%s,%s}' % (at.encode(), one, rest.encode())
        for one in payloads
    ]
    for start in range(0, len(rows), 1000):
        client.rpush(FAILED, *rows[start : start + 1000])
    client.sadd("resque:queues", queue)


def replayed(queue: Ours, ids: list[str] | None = None, op: str = "op") -> JobReplayTracker:
    """All that is dead, or these, put back into its queue and followed."""
    fates = queue.replay_tracker()
    assert isinstance(fates, JobReplayTracker)
    run(queue.client, fates.begin())
    now = queue.now()
    if ids is None:
        ids = [entry.id for entry in queue.page("dead", max=500).entries]
    said = queue.move(op, 1, ids, source="dead", target="waiting", high_water_ms=now)
    assert set(said) == {"moved"}
    run(queue.client, fates.add(ids, now, op, 1))
    return fates


def look(queue: Ours, fates: ReplayTracker) -> Counter[bool]:
    """What is heard of at one look: how many died (True), how many are done."""
    return Counter(run(queue.client, fates.look()))


def end(queue: Ours, n: int = 100, outcome: Any = "ack") -> list[bytes]:
    deliveries = take(queue, n)
    queue.settle([Settlement(one, outcome, BOOM) for one in deliveries])
    return [one.payload for one in deliveries]


# --- what is told of jobs -----------------------------------------------------------------------


def test_a_job_waits_is_at_work_and_is_done(queue: Ours, client: redis.Redis) -> None:
    failed(client, job(1))
    fates = replayed(queue)
    assert (look(queue, fates), fates.unsettled) == (Counter(), 1)
    (held,) = take(queue)
    assert (look(queue, fates), fates.unsettled) == (Counter(), 1)
    queue.settle([Settlement(held, "ack")])
    assert look(queue, fates) == Counter(), "between two keys it might be"
    assert (look(queue, fates), fates.unsettled) == (Counter({False: 1}), 0)
    assert look(queue, fates) == Counter()


@pytest.mark.parametrize("seen", [True, False])
def test_a_failure_of_the_same_second_is_told_from_an_earlier_one(
    client: redis.Redis, seen: bool
) -> None:
    """Three die in the same second by the same bytes; one is replayed, and dies so again."""
    queue = ResqueQueue(client, "resque:low", clock=FakeClock(1_718_000_000_000))
    queue.push([Job("Archive", [1])] * 3)
    assert len(end(queue, outcome="reject")) == 3
    one = queue.page("dead").entries[0]
    fates = replayed(queue, [one.id])
    if seen:
        assert look(queue, fates) == Counter() and client.llen(FAILED) == 2
    end(queue, outcome="reject")
    assert len({*client.lrange(FAILED, 0, -1)}) == 1, "by the same bytes"
    assert (look(queue, fates), fates.unsettled) == (Counter({True: 1}), 0)
    assert look(queue, fates) == Counter()


@pytest.mark.parametrize("died", range(4))
def test_of_several_alike_as_many_died_as_did(queue: Ours, client: redis.Redis, died: int) -> None:
    failed(client, *[job(1)] * 3, at="2024/06/10 06:13:20 UTC")
    fates = replayed(queue)
    heard: Counter[bool] = Counter()
    for n in range(3):
        end(queue, 1, "reject" if n < died else "ack")
        heard += look(queue, fates)
        assert heard[True] <= client.llen(FAILED) and heard.total() <= n + 1
    heard += look(queue, fates)
    assert heard == Counter({True: died, False: 3 - died}) and not fates.unsettled


def test_failures_of_other_jobs_and_queues_do_not_count(queue: Ours, client: redis.Redis) -> None:
    failed(client, job(1))
    fates = replayed(queue)
    end(queue)
    failed(client, job(2), job(1, klass="Other"), at="2099/01/01 00:00:00 UTC")
    failed(client, job(1), queue="other", at="2099/01/01 00:00:00 UTC")
    client.rpush(FAILED, b"no record")
    assert look(queue, fates) + look(queue, fates) == Counter({False: 1})


def test_workers_of_resque_s_own_write_jobs_anew(queue: Ours, client: redis.Redis) -> None:
    """What one has is at work, and its failure is one, however the JSON is spelled."""
    failed(client, b'{ "args":[1.0,1e3,"\\u00e9"],"class":"A" }')
    fates = replayed(queue)
    client.lpop(LIST)
    anew = '{"class":"A","args":[1.0,1000.0,"é"]}'
    client.sadd("resque:workers", "box:77:low")
    record = f'{{"queue":"low","run_at":"2024-06-10T06:15:00Z","payload":{anew}}}'
    client.set("resque:worker:box:77:low", record)
    for _ in range(3):
        assert look(queue, fates) == Counter() and fates.unsettled == 1
    failed(client, anew.encode(), at=time.strftime("%Y/%m/%d %H:%M:%S UTC", time.gmtime()))
    client.delete("resque:worker:box:77:low")
    assert look(queue, fates) == Counter({True: 1})


def test_what_a_worker_of_ours_was_lost_with_is_failing_until_its_end(
    queue: Ours, client: redis.Redis
) -> None:
    failed(client, job(1), job(2), job(2), job(2))
    fates = replayed(queue)
    queue.take(1, consumer="w", lease_ms=1)
    assert look(queue, fates) == Counter() and fates.failing == 0
    time.sleep(0.01)
    held = take(queue)
    assert look(queue, fates) == Counter() and fates.failing == 1
    queue.settle([Settlement(one, "release") for one in held])
    assert look(queue, fates) == Counter() and fates.failing == 1
    end(queue, 1)
    assert look(queue, fates) + look(queue, fates) == Counter({False: 1}) and fates.failing == 0
    queue.take(3, consumer="w", lease_ms=1)
    time.sleep(0.01)
    take(queue)
    assert look(queue, fates) == Counter()
    assert (fates.failing, fates.unsettled) == (1, 3), "equal ones that were out together are one"


@pytest.mark.parametrize("zone", ["UTC", "CEST", "+0000"])
def test_what_a_clock_that_is_behind_or_of_a_zone_writes_is_heard_of(
    queue: Ours, client: redis.Redis, zone: str
) -> None:
    failed(client, job(1))
    fates = replayed(queue)
    client.delete(LIST)
    behind = time.strftime("%Y/%m/%d %H:%M:%S", time.gmtime(time.time() - 20))
    failed(client, job(1), at=f"{behind} {zone}")
    assert look(queue, fates) == Counter({True: 1})


def test_what_an_undo_put_back_neither_died_nor_is_done(queue: Ours, client: redis.Redis) -> None:
    failed(client, job(1), job(2))
    fates = replayed(queue)
    end(queue, 1)
    assert queue.undo("op", 1, target="waiting", by="u", seq=1) == (1, 1)
    assert look(queue, fates) == Counter() and fates.unsettled == 1
    assert look(queue, fates) == Counter({False: 1}) and fates.unsettled == 0


def test_a_job_given_back_between_two_looks_is_not_done(queue: Ours, client: redis.Redis) -> None:
    failed(client, job(1))
    fates = replayed(queue)
    (kept,) = client.lrange(LIST, 0, -1)
    client.delete(LIST)  # in the hands of a worker that hasn't written it down yet
    assert look(queue, fates) == Counter()
    client.rpush(LIST, kept)
    assert look(queue, fates) == look(queue, fates) == Counter()
    client.delete(LIST)
    assert look(queue, fates) + look(queue, fates) == Counter({False: 1})


def test_where_a_list_is_longer_than_a_look_only_what_came_near_is_done(
    queue: Ours, client: redis.Redis
) -> None:
    client.rpush(LIST, *[job("other")] * (AHEAD + 100))
    failed(client, job(1))
    fates = replayed(queue)
    client.rpush(LIST, *[job("more")] * AHEAD)
    for _ in range(3):
        assert look(queue, fates) == Counter(), "it waits where nobody looks"
    client.ltrim(LIST, AHEAD, -1)
    assert look(queue, fates) == Counter()
    client.ltrim(LIST, 200, -1)  # past it
    client.rpush(LIST, *[job("more")] * AHEAD)
    assert look(queue, fates) == Counter()
    assert look(queue, fates) == Counter({False: 1})


def test_what_workers_have_beyond_a_look_is_not_done(queue: Ours, client: redis.Redis) -> None:
    client.rpush(LIST, *[job("other")] * AHEAD)
    failed(client, job(1))
    fates = replayed(queue)
    others = take(queue, 500) + take(queue, 500)
    assert look(queue, fates) == Counter()
    (last,) = take(queue)
    for _ in range(3):
        assert look(queue, fates) == Counter(), "its lease is the last of all to run out"
    queue.settle([Settlement(one, "ack") for one in (last, *others[:499])])
    assert look(queue, fates) + look(queue, fates) == Counter({False: 1})


def test_where_failures_come_faster_than_one_looks_nothing_is_called_done(
    queue: Ours, client: redis.Redis
) -> None:
    failed(client, job(1), job(2), job(3))
    fates = replayed(queue)
    end(queue, 1, "reject")
    now = time.strftime("%Y/%m/%d %H:%M:%S UTC", time.gmtime())
    failed(client, *[job("other", n) for n in range(LATEST)], at=now)
    end(queue, 1, "reject")
    assert look(queue, fates) == Counter({True: 1})
    assert (fates.unknown_ends, fates.unsettled) == (1, 2)
    end(queue, 1)
    assert look(queue, fates) == Counter(), "it may have died while nobody saw it"
    assert fates.unknown_ends == 2


def test_older_failures_that_come_into_sight_are_not_new(queue: Ours, client: redis.Redis) -> None:
    now = time.strftime("%Y/%m/%d %H:%M:%S UTC", time.gmtime())
    failed(client, *[job(1)] * 20, at=now)
    failed(client, *[job("other", n) for n in range(LATEST)], at=now)
    failed(client, job(1))
    (last,) = queue.page("dead", max=1, start=LATEST + 20).entries
    fates = replayed(queue, [last.id])
    client.ltrim(FAILED, 0, -50)
    end(queue)
    assert look(queue, fates) + look(queue, fates) == Counter({False: 1})


def test_a_row_of_equal_failures_longer_than_a_look_is_not_new(
    queue: Ours, client: redis.Redis
) -> None:
    now = time.strftime("%Y/%m/%d %H:%M:%S UTC", time.gmtime())
    failed(client, *[job(1)] * (LATEST + 50), at=now)
    fates = replayed(queue, [queue.page("dead", max=1).entries[0].id])
    end(queue)
    assert look(queue, fates) + look(queue, fates) == Counter({False: 1})


@pytest.mark.parametrize("most", [30, 90])
def test_equal_failures_are_counted_by_what_the_list_grew(client: redis.Redis, most: int) -> None:
    """All of one second, so that all are the same bytes."""
    queue = ResqueQueue(client, "resque:low", clock=FakeClock(1_718_000_000_000))
    queue.push([Job("Archive", [1])] * 100)
    end(queue, 100, "reject")
    fates = replayed(queue, [entry.id for entry in queue.page("dead", max=most).entries])
    end(queue, most // 3, "reject")
    heard = look(queue, fates)
    end(queue, most // 3, "reject")
    heard += look(queue, fates)
    assert heard == Counter({True: most // 3 * 2})
    end(queue, most // 3)
    assert look(queue, fates) + look(queue, fates) == Counter({False: most // 3})


def test_more_alike_than_are_followed_are_followed_all(queue: Ours, client: redis.Redis) -> None:
    failed(client, *[job(1)] * (WATCHED + 200))
    fates = queue.replay_tracker()
    run(client, fates.begin())
    (id,) = {entry.id for entry in queue.page("dead", max=WATCHED + 200).entries}
    now, step = queue.now(), 0
    while left := client.llen(FAILED):
        step, ids = step + 1, [id] * min(left, 500)
        queue.move("op", step, ids, source="dead", target="waiting", high_water_ms=now)
        run(client, fates.add(ids, now, "op", step))
    heard = Counter[bool]()
    while client.exists(LIST):
        end(queue, 100, "reject")
        end(queue, 200)
        heard += look(queue, fates)
    assert heard + look(queue, fates) == Counter({True: 400, False: 800})


def test_what_others_take_out_meanwhile_hides_no_death(queue: Ours, client: redis.Redis) -> None:
    failed(client, job(1), *[job("other", n) for n in range(LATEST * 2)])
    fates = replayed(queue, [queue.page("dead", max=1).entries[0].id])
    client.ltrim(FAILED, 100, -1)
    end(queue, outcome="reject")
    failed(client, job("other"))
    assert look(queue, fates) == Counter({True: 1})


A, B, C, X, Y = (name.encode() for name in "abcxy")


@pytest.mark.parametrize(
    ("before", "size", "took", "latest", "now", "new", "more"),
    [
        ([A, B], 2, [], [A, B, X], 3, [X], False),
        ([A, B], 2, [A], [B, A], 2, [A], False),  # by the same bytes
        ([A, A], 2, [A], [A, X], 2, [X], False),
        ([A, B, C], 3, [A], [B, A], 2, [A], False),  # somebody took C
        ([A, B], 2, [], [X], 1, [X], False),  # and all there was
        ([B, C], 9, [], [A, X], 2, [], True),  # is A older than what was seen?
        ([B, C], 9, [B, C], [X, A], 7, [], False),  # both are
        ([B, C], 9, [B, C], [A, X], 8, [X], False),
        ([A], 1, [], [X, Y], 9, [X, Y], True),
        ([A], 1, [], [X, Y], 3, [X, Y], True),  # somebody took A, and one more came
        ([A, B], 2, [A, B], [], 0, [], False),
    ],
)
def test_what_is_new_at_the_end_of_a_list(
    before: list[bytes], size: int, took: list[bytes], latest: list[bytes], now: int,
    new: list[bytes], more: bool,
) -> None:  # fmt: skip
    tail = Tail.of(before, size)
    for element in took:
        tail.took(digest(element))
    assert tail.behind(latest, now) == (new, more)


def test_a_deployment_s_equal_jobs_are_told_apart_by_their_queues(client: redis.Redis) -> None:
    whole = ResqueQueue(client, "resque")
    failed(client, job(1), queue="low")
    failed(client, job(1), job(1), queue="high")
    fates = replayed(whole)
    end(ResqueQueue(client, "resque:low"), 1)
    end(ResqueQueue(client, "resque:high"), 1, "reject")
    assert look(whole, fates) + look(whole, fates) == Counter({True: 1, False: 1})
    assert fates.unsettled == 1


def test_lists_of_failures_of_each_queue_are_watched(queue: Ours, client: redis.Redis) -> None:
    failed(client, job(1))
    client.sadd("resque:failed_queues", "low_failed")
    fates = replayed(queue)
    end(queue, outcome="reject")
    assert client.llen("resque:low_failed") == 1
    assert look(queue, fates) == Counter({True: 1})


def test_a_look_costs_the_same_however_much_there_is(queue: Ours, client: redis.Redis) -> None:
    def cost(op: str) -> int:
        """Commands of a look at ten replayed jobs, of which one died, beside what is there."""
        fates = replayed(queue, [entry.id for entry in queue.page("dead", max=10).entries], op)
        end(queue, 1, "reject")
        before = client.info("stats")["total_commands_processed"]
        assert look(queue, fates)[True] in (0, 1)
        return int(client.info("stats")["total_commands_processed"] - before)

    failed(client, *[job(n) for n in range(10)])
    little = cost("a")
    client.delete(LIST, FAILED)
    failed(client, *[job(n) for n in range(30_000)])
    client.rpush(LIST, *[job("other", n) for n in range(5_000)])
    assert cost("b") == little < 20


def test_what_is_alike_is_never_counted_twice() -> None:
    """By hand: seen where it was and where it went, missing, and found again."""
    alike = IdenticalJobs(deque([0] * 4))
    alike.failed = 1
    assert alike.look(4, 0, False, False) == (0, 0, 0), "seen before it died"
    assert alike.look(2, 0, False, False) == (1, 0, 0)
    assert (len(alike.since), alike.missing) == (3, 1)
    alike.failed = 1
    assert alike.look(1, 0, False, False) == (1, 0, 0), "which one died nobody knows"
    assert alike.look(1, 0, False, False) == (0, 1, 0)
    assert alike.look(0, 0, False, True) == (0, 0, 1)
    assert not alike.since


# --- a ramp with workers ------------------------------------------------------------------------


@contextmanager
def worker(url: str, handle: Callable[[Work], Any]) -> Iterator[None]:
    running = Worker(ResqueQueue(connect(url, "test"), "resque:low"), handle, concurrency=8)
    thread = threading.Thread(target=running.run)
    thread.start()
    try:
        yield
    finally:
        running.stop()
        thread.join()


def ramp_of(client: redis.Redis, queue: Ours, limits: Limits) -> WatchedReplay:
    chosen = run(client, select(queue, "dead", Filter()))
    return WatchedReplay(entry_change(chosen, "replay", ME), limits)


def drive(client: redis.Redis, ramp: WatchedReplay) -> set[str]:
    """Drives it to its end; the phases there were."""
    phases, deadline = set(), time.monotonic() + 60
    while run(client, ramp.step()):
        phases.add(ramp.course.phase)
        assert time.monotonic() < deadline, str(ramp)
        time.sleep(ramp.pause)
    return phases | {ramp.course.phase}


def fine(work: Work) -> None:
    """Handles anything."""


def fails(work: Work) -> None:
    raise RuntimeError("still broken")


@pytest.mark.slow
@pytest.mark.alike
def test_a_ramp_goes_through(queue: Ours, client: redis.Redis, url: str) -> None:
    failed(client, *[job(n // 2) for n in range(200)])
    ramp = ramp_of(client, queue, replace(FAST, canary=5))
    with worker(url, fine):
        phases = drive(client, ramp)
    assert phases >= {"watching", "ramp", "over"} and "paused" not in phases
    assert ramp.outcome.done == 200 and ramp.exit_code == 0 and not ramp.course.why
    assert ramp.watch.verdicts == 200 and not ramp.watch.died
    assert not client.exists(LIST, FAILED)


@pytest.mark.alike
def test_a_canary_whose_jobs_die_again_ends_it(queue: Ours, client: redis.Redis, url: str) -> None:
    failed(client, *[job(n) for n in range(100)])
    ramp = ramp_of(client, queue, replace(FAST, canary=7))
    with worker(url, fails):
        drive(client, ramp)
    assert ramp.course.phase == "stopped" and "replayed entries died again" in ramp.course.why
    assert ramp.outcome.done == 7 and ramp.exit_code == 3
    assert client.llen(FAILED) == 100


@pytest.mark.slow
@pytest.mark.alike
def test_it_pauses_itself_and_counts_as_many_as_died(
    queue: Ours, client: redis.Redis, url: str
) -> None:
    """Equal jobs, of which the first forty are well, and none after that."""
    failed(client, *[job("the same")] * 400)
    failed(client, job("another"))  # of which nobody dies
    handled, lock = [0], threading.Lock()

    def handle(work: Work) -> None:
        with lock:
            handled[0] += 1
            if handled[0] <= 40:
                return
        raise RuntimeError("still broken")

    ramp = ramp_of(client, queue, replace(FAST, canary=5, rate=200))
    heard: list[bool] = []
    listen = ramp.watch.replay_tracker.look

    async def look() -> list[bool]:
        ends = await listen()
        heard.extend(ends)
        assert sum(heard) <= max(0, handled[0] - 40)
        return ends

    ramp.watch.replay_tracker.look = look  # type: ignore[method-assign]
    with worker(url, handle):
        phases = drive(client, ramp)
    assert "paused" in phases and ramp.course.phase == "stopped" and ramp.exit_code == 3
    assert heard.count(False) == 40 and heard.count(True) > 10
    assert 40 < ramp.outcome.done < 401


# --- as an operator meets it --------------------------------------------------------------------


@pytest.mark.alike
def test_a_canary_nobody_takes_is_taken_back(redisq: Redisq, client: redis.Redis) -> None:
    failed(client, *[job(n) for n in range(30)])
    before = client.lrange(FAILED, 0, -1)
    words = ("replay", "resque:low", "--state", "dead", "--canary", "10", "--watch", "1s", "--yes")
    (row,) = redisq.rows(*words, *PATIENT, code=3)
    assert "nothing of the canary was settled" in row["reason"] and row["done"] == 10
    redisq("undo", row["op"], "--yes")
    assert sorted(client.lrange(FAILED, 0, -1)) == sorted(before) and not client.exists(LIST)


@pytest.mark.slow
@pytest.mark.alike
def test_the_command_says_how_it_goes_and_a_plan_of_it_works(
    redisq: Redisq, client: redis.Redis, url: str, tmp_path: Path
) -> None:
    failed(client, *[job(n) for n in range(8)])
    words = ("dlq", "replay", "resque:low", "--canary", "4", "--yes", *PATIENT)
    with worker(url, fails):
        out = redisq(*words, code=3)
    assert "replayed dead entries of resque:low: 4 of 8" in out
    assert "stopped by itself: " in redisq.err and "replayed entries died again" in redisq.err
    with worker(url, fine):
        plan = str(tmp_path / "p.ndjson")
        redisq("dlq", "replay", "resque:low", "--plan", plan)
        (row,) = redisq.rows("apply", plan, "--canary", "4", "--rate", "50/s", "--yes", *PATIENT)
    assert (row["done"], row["left"], row["phase"], row["died"]) == (8, 0, "over", 0)
    assert not client.exists(LIST, FAILED)


def replay_a_plan(url: str, path: str) -> None:
    """A process that is killed in the middle."""
    client = connect(url, "test")
    steps = plan_change(PlanFile(path), ResqueQueue(client, "resque:low"), ME)
    ramp = WatchedReplay(steps, replace(FAST, canary=3, rate=200, reentry=0.5))
    while run(client, ramp.step()):
        time.sleep(ramp.pause)


@pytest.mark.slow
@pytest.mark.alike
def test_a_killed_ramp_goes_on_and_replays_nothing_twice(
    redisq: Redisq, queue: Ours, client: redis.Redis, url: str, tmp_path: Path
) -> None:
    """Every tenth job dies again at once, and stays dead."""
    failed(client, *[job(n) for n in range(200)])
    path, handled = str(tmp_path / "p.ndjson"), Counter[int]()

    def handle(work: Work) -> None:
        (n,) = json.loads(work.payload)["args"]
        handled[n] += 1
        if n % 10 == 9:
            raise RuntimeError("still broken")

    redisq("dlq", "replay", "resque:low", "--plan", path)
    spawn = multiprocessing.get_context("forkserver")
    with worker(url, handle):
        process = spawn.Process(target=replay_a_plan, args=(url, path))
        process.start()
        deadline = time.monotonic() + 90
        while handled.total() < 40:
            assert time.monotonic() < deadline and process.is_alive()
            time.sleep(0.005)
        os.kill(process.pid or 0, signal.SIGKILL)
        process.join()
        ramp = WatchedReplay(
            plan_change(PlanFile(path), queue, ME), replace(FAST, canary=3, reentry=0.5)
        )
        phases = drive(client, ramp)
    assert "canary" not in phases
    assert ramp.outcome.done == 200 and ramp.course.phase == "over"
    assert len(handled) == 200 and set(handled.values()) == {1}
    assert client.llen(FAILED) == 20
    assert not run(client, plan_change(PlanFile(path), queue, ME).step())

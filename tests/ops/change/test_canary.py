"""Closed-loop replay: what the controller decides, and a ramp against real workers."""

from __future__ import annotations

import itertools
import json
import multiprocessing
import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from math import inf
from pathlib import Path
from typing import Any

import pytest
import redis

from redisq_ops.core.engine.replay_tracking import ForeignReplayTracker
from redisq_ops.core.foreign.sidekiq import SidekiqQueue
from redisq_ops.core.model.entry import Failure, Settlement
from redisq_ops.core.model.errors import BadInput, WrongKind
from redisq_ops.core.queues.circular import CircularQueue
from redisq_ops.core.queues.delay import DelaySet
from redisq_ops.core.queues.request import RequestQueue
from redisq_ops.core.redis.client import connect
from redisq_ops.core.redis.operation import run
from redisq_ops.core.worker import Worker
from redisq_ops.core.worker.handler import Work
from redisq_ops.ops.change import audit_log
from redisq_ops.ops.change.audit_log import Author
from redisq_ops.ops.change.canary_rules import Course, Limits, Observed, advance, begin
from redisq_ops.ops.change.plan import Draft, PlanFile, identity
from redisq_ops.ops.change.plan_header import PlanHeader
from redisq_ops.ops.change.scope import select_entries
from redisq_ops.ops.change.watched_replay import WatchedReplay
from redisq_ops.ops.deployment import Deployment
from redisq_ops.ops.filter.filter import Filter
from redisq_ops.ops.filter.selection import select

from ...changes import entry_change, plan_change

ME = Author("me", "here")


# --- the controller, without a server ---------------------------------------------------------

LIMITS = Limits(canary=10, rate=80, first=10, window_ms=1000, watch_ms=5000, patience_ms=20_000)
START = Observed(0, 0, 1000)


def at(ms: int, replayed: int, **more: Any) -> Observed:
    return Observed(ms, replayed, max(0, 1000 - replayed), **more)


def well(ms: int, replayed: int, **more: Any) -> Observed:
    """All that was replayed is done."""
    return at(ms, replayed, judged=replayed, verdicts=replayed, **more)


def through(course: Course, *seen: Observed, limits: Limits = LIMITS) -> Course:
    for one in seen:
        course = advance(course, one, limits)
    return course


def ramping() -> Course:
    course = begin(LIMITS, START)
    return through(course, well(100, 10), well(200, 10))


@pytest.mark.parametrize("kind", [CircularQueue, DelaySet])
def test_what_a_producer_touches_while_it_waits_has_not_ended(
    client: redis.Redis, kind: type[Any]
) -> None:
    """It was replayed and nobody has had it since: nothing is known of how it goes."""
    queue = kind(client, "q")

    def put(payload: bytes) -> None:
        if kind is CircularQueue:
            queue.push([("e", payload)])
        else:
            queue.schedule([("e", payload)], after=0, mode="move")

    put(b"x")
    queue.settle([Settlement(d, "reject", b"{}") for d in queue.take(1, consumer="w").deliveries])
    fates = queue.replay_tracker()
    at_ms = queue.now()
    queue.move("op", 1, ["e"], source="dead", target="waiting", high_water_ms=at_ms)
    fates.add(["e"], at_ms)
    put(b"y")
    assert (run(client, fates.look()), fates.unsettled) == ([], 1)
    queue.settle([Settlement(d, "ack") for d in queue.take(1, consumer="w").deliveries])
    assert (run(client, fates.look()), fates.unsettled) == ([False], 0)


def test_canary_goes_first_and_is_judged() -> None:
    course = begin(LIMITS, START)
    assert (course.phase, course.goal) == ("canary", 10)
    course = advance(course, at(100, 10, unsettled=10), LIMITS)
    assert (course.phase, course.rate) == ("watching", 0)
    course = advance(course, at(200, 10, judged=9, verdicts=9, unsettled=1), LIMITS)
    assert course.phase == "watching"
    course = advance(course, well(300, 10), LIMITS)
    assert (course.phase, course.rate, course.proven) == ("ramp", 10, True)


def test_canary_that_dies_ends_it() -> None:
    course = through(begin(LIMITS, START), at(100, 10, unsettled=10))
    course = advance(course, at(900, 10, judged=10, died=8, verdicts=10), LIMITS)
    assert course.phase == "stopped"
    assert "8 of 10 replayed entries died again (80%, more than 20%)" in course.why


def test_canary_that_is_lost_already_is_not_waited_for() -> None:
    course = through(begin(LIMITS, START), at(100, 10, unsettled=10))
    assert advance(course, at(200, 10, judged=3, died=3, unsettled=7), LIMITS).phase == "stopped"
    assert advance(course, at(200, 10, judged=2, died=2, unsettled=8), LIMITS).phase == "watching"


def test_canary_nobody_takes_ends_it_after_a_while() -> None:
    course = through(begin(LIMITS, START), at(100, 10, unsettled=10))
    assert advance(course, at(5000, 10, unsettled=10), LIMITS).phase == "watching"
    course = advance(course, at(5100, 10, unsettled=10), LIMITS)
    assert course.phase == "stopped" and "nothing of the canary was settled" in course.why


def test_failing_again_counts_though_it_isn_t_dead_yet() -> None:
    course = through(begin(LIMITS, START), at(100, 10, unsettled=10))
    seen = at(5100, 10, judged=2, verdicts=2, unsettled=8, failing=8)
    course = advance(course, seen, LIMITS)
    assert course.phase == "stopped" and "died or failed again" in course.why


def test_rate_doubles_each_window_up_to_the_full_one() -> None:
    course, rates = ramping(), []
    for second in range(1, 7):
        course = advance(course, well(200 + 1000 * second, 10 + 10 * second), LIMITS)
        rates.append(course.rate)
    assert rates == [20, 40, 80, 80, 80, 80]


def test_rate_stays_while_nothing_is_known_of_what_was_replayed() -> None:
    course = ramping()
    seen = at(2000, 30, judged=10, verdicts=10, unsettled=20)
    assert advance(course, seen, LIMITS).rate == 10
    assert advance(course, replace(seen, judged=11, verdicts=11), LIMITS).rate == 20


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        ({"judged": 20, "died": 5, "verdicts": 20}, "5 of 20 replayed entries died again"),
        ({"late_ms": 7.0}, "7.0 ms later than before (more than 5 ms)"),
        ({"waiting": 501}, "501 entries wait (more than 500)"),
    ],
)
def test_it_pauses_above_each_threshold_and_says_why(bad: dict[str, Any], words: str) -> None:
    limits = replace(LIMITS, waiting=500)
    course = advance(ramping(), at(300, 20, **bad), limits)
    assert course.phase == "paused" and words in course.why
    assert course.paused_ms == 300


def test_it_goes_on_when_healthy_again_at_half_the_rate() -> None:
    limits = replace(LIMITS, waiting=500)
    course = replace(ramping(), rate=80.0)
    course = advance(course, well(300, 20, waiting=600), limits)
    assert advance(course, well(400, 20, waiting=450), limits).phase == "paused"  # not yet eased
    course = advance(course, well(500, 20, waiting=400), limits)
    assert (course.phase, course.rate, course.why) == ("ramp", 40, "")


def test_it_gives_up_when_it_stays_paused() -> None:
    course = through(ramping(), well(300, 20, late_ms=9), well(20_200, 20, late_ms=9))
    assert course.phase == "paused"
    course = advance(course, well(20_300, 20, late_ms=9), LIMITS)
    assert course.phase == "stopped" and "later than before" in course.why


def test_flapping_does_not_outlive_its_patience() -> None:
    """Bad again right after each resumption: one pause, as far as patience goes."""
    course, ms = ramping(), 300
    while course.phase != "stopped" and ms < 60_000:
        late = 9.0 if course.phase == "ramp" else 0.0
        course = advance(course, well(ms, 20, late_ms=late), LIMITS)
        ms += 200
    assert course.phase == "stopped" and ms < 22_000


def test_what_died_again_is_tried_with_a_few_after_a_while() -> None:
    bad = {"judged": 100, "died": 50, "verdicts": 100}
    course = advance(ramping(), at(300, 100, **bad), LIMITS)
    assert course.phase == "paused"
    course = advance(course, at(5300, 100, **bad), LIMITS)
    assert (course.phase, course.goal, course.paused_ms) == ("canary", 110, 300)
    course = through(course, at(5400, 110, unsettled=10))
    fine = advance(course, at(5500, 110, judged=10, verdicts=110), LIMITS)
    assert fine.phase == "ramp"
    again = advance(course, at(5500, 110, judged=10, died=9, verdicts=110), LIMITS)
    assert again.phase == "paused" and again.paused_ms == 300


def test_workers_that_stopped_are_noticed() -> None:
    course = advance(ramping(), at(1000, 20, judged=10, verdicts=10, unsettled=10), LIMITS)
    course = advance(course, at(5300, 50, judged=10, verdicts=10, unsettled=40), LIMITS)
    assert course.phase == "paused" and "nothing that was replayed was settled" in course.why
    course = advance(course, at(6000, 50, judged=11, verdicts=11, unsettled=39), LIMITS)
    assert course.phase == "ramp"


def test_a_canary_that_was_taken_away_ends_it() -> None:
    course = through(begin(LIMITS, START), at(100, 10, unsettled=10))
    course = advance(course, at(200, 10), LIMITS)
    assert course.phase == "stopped" and "purged, undone or moved" in course.why


def test_the_last_ones_are_watched_to_their_end() -> None:
    course = advance(ramping(), at(300, 1000, unsettled=9), LIMITS)
    assert course.phase == "settling"
    assert advance(course, at(400, 1000, unsettled=1), LIMITS).phase == "settling"
    assert advance(course, at(400, 1000, judged=9, verdicts=9), LIMITS).phase == "over"
    assert advance(course, at(5300, 1000, unsettled=9), LIMITS).phase == "over"


@pytest.mark.parametrize(
    ("last", "why"),
    [
        ({"unsettled": 9}, "9 of 9 watched entries weren't settled within 5s"),
        (
            {"judged": 200, "verdicts": 1700, "unsettled": 1},
            "1 of 1,701 watched entries weren't settled within 5s",
        ),
        ({"judged": 90, "verdicts": 90, "unsettled": 10, "failing": 10}, ""),  # as if they had died
        ({"judged": 9, "died": 5, "verdicts": 9, "unsettled": 1}, "5 of 9 replayed entries died"),
        ({"judged": 9, "died": 1, "verdicts": 9}, ""),
    ],
)
def test_what_it_does_not_know_to_be_well_at_its_end_it_says(
    last: dict[str, Any], why: str
) -> None:
    course = through(ramping(), at(300, 1000, unsettled=9), at(5300, 1000, **last))
    assert course.phase == "over"
    assert course.why.startswith(why) if why else not course.why


def test_without_a_canary_it_begins_with_the_ramp_and_without_a_rate_has_no_end() -> None:
    limits = replace(LIMITS, canary=0, rate=None)
    course = begin(limits, START)
    assert (course.phase, course.rate) == ("ramp", 10)
    for second in range(1, 12):
        course = advance(course, at(1000 * second, 10 * second), limits)
    assert course.rate == 10 * 2**11 and limits.full == inf


def test_a_slow_full_rate_is_never_exceeded() -> None:
    assert begin(replace(LIMITS, canary=0, rate=0.5), START).rate == 0.5


# --- against a server and workers -------------------------------------------------------------

# How quickly a busy machine answers is no part of these tests.
FAST = Limits(
    rate=2000, first=50, window_ms=100, watch_ms=20_000, patience_ms=600, latency_ms=60_000
)


def dead(client: redis.Redis, payloads: list[bytes]) -> RequestQueue[redis.Redis]:
    queue = RequestQueue(client, "mail")
    queue.configure("op", 1, {"max_failures": "0"})
    queue.submit(payloads, id="r1", limit=1000)
    error = Failure("E", "x").encoded()
    while taken := queue.take(500, consumer="w1").deliveries:
        queue.settle([Settlement(delivery, "reject", error) for delivery in taken])
    return queue


@contextmanager
def worker(url: str, handle: Callable[[Work], Any]) -> Iterator[None]:
    client = connect(url, "test")
    running = Worker(RequestQueue(client, "mail"), handle, concurrency=8, batch=10)
    thread = threading.Thread(target=running.run)
    thread.start()
    try:
        yield
    finally:
        running.stop()
        thread.join()


def planned(client: redis.Redis, queue: RequestQueue[Any], path: Path) -> None:
    """A plan that replays all dead entries, in a file."""
    deployment = Deployment(client)
    now = queue.now()
    created, server = run(client, identity(queue, deployment))
    with Draft(str(path), "replay-planned") as draft:
        chosen, weight = run(
            client, select_entries(queue, "dead", Filter(), lambda *_: None, draft.add)
        )
        header = PlanHeader(
            op=draft.op,
            queue="mail",
            kind=queue.kind,
            prefix="redisq",
            created_ms=created,
            server=server,
            verb="replay",
            state="dead",
            consumer="operator",
            argument=30_000,
            high_water_ms=chosen.high_water_ms,
            filter="all",
            who="me",
            whence="here",
            why="",
            planned_ms=now,
            step=500,
        )
        draft.finish(header, {"consequences": weight.facts("replay")})


def ramp_of(client: redis.Redis, queue: RequestQueue[Any], limits: Limits) -> WatchedReplay:
    chosen = run(client, select(queue, "dead", Filter()))
    return WatchedReplay(entry_change(chosen, "replay", ME), limits)


def drive(
    client: redis.Redis, ramp: WatchedReplay, until: Callable[[WatchedReplay], bool] | None = None
) -> set[str]:
    """Drives it to its end (or until then); the phases there were."""
    phases, deadline = set(), time.monotonic() + 60
    while run(client, ramp.step()):
        phases.add(ramp.course.phase)
        if until is not None and until(ramp):
            break
        assert time.monotonic() < deadline, str(ramp)
        time.sleep(ramp.pause)
    return phases | {ramp.course.phase}


def fine(work: Work) -> None:
    """Handles anything."""


@pytest.mark.slow
def test_all_is_replayed_at_full_rate_where_all_is_well(client: redis.Redis, url: str) -> None:
    queue = dead(client, [b"x"] * 600)
    ramp = ramp_of(client, queue, replace(FAST, canary=5))
    rates: list[float] = []

    def seen(ramp: WatchedReplay) -> bool:
        rates.append(ramp.course.rate)
        return False

    with worker(url, fine):
        phases = drive(client, ramp, seen)
    assert phases >= {"watching", "ramp", "over"} and "paused" not in phases
    assert ramp.outcome.done == 600 and ramp.exit_code == 0 and not ramp.course.why
    assert max(rate for rate in rates if rate < inf) > 4 * FAST.first
    counts = queue.counts()
    assert (counts.dead, counts.done) == (0, 600)
    operation = run(client, audit_log.read(queue, ramp.outcome.op or ""))
    assert operation is not None and operation.ended and operation.done == 600


def test_canary_that_dies_again_ends_it_there(client: redis.Redis, url: str) -> None:
    def fails(work: Work) -> None:
        raise RuntimeError("still broken")

    queue = dead(client, [b"x"] * 200)
    ramp = ramp_of(client, queue, replace(FAST, canary=7))
    with worker(url, fails):
        drive(client, ramp)
    assert ramp.course.phase == "stopped" and "died again" in ramp.course.why
    assert ramp.outcome.done == 7 and ramp.exit_code == 3
    assert queue.counts().dead == 200
    operation = run(client, audit_log.read(queue, ramp.outcome.op or ""))
    assert operation is not None and not operation.ended


def test_what_kills_its_worker_counts_as_failed(client: redis.Redis) -> None:
    """Every second one is never settled: its lease runs out, again and again."""
    queue = dead(client, [b"x"] * 60)
    queue.configure("op", 2, {"max_lost": "1000"})
    ramp = ramp_of(client, queue, replace(FAST, canary=10, watch_ms=1000))

    def works(ramp: WatchedReplay) -> bool:
        taken = queue.take(50, consumer="w", lease=0.05).deliveries
        queue.settle([Settlement(one, "ack") for one in taken if (one.number or 0) % 2])
        return False

    drive(client, ramp, works)
    assert (ramp.course.phase, ramp.outcome.done, ramp.exit_code) == ("stopped", 10, 3)
    assert "5 of 10 replayed entries died or failed again (50%, more than 20%)" in ramp.course.why
    assert queue.counts().dead == 50


@pytest.mark.slow
def test_it_pauses_itself_when_later_entries_die_again(client: redis.Redis, url: str) -> None:
    """The first hundred are well; of all others none is."""
    queue = dead(client, [b"x"] * 1000)
    handled = itertools.count()

    def handle(work: Work) -> None:
        if next(handled) >= 100:
            raise RuntimeError("still broken")

    ramp = ramp_of(client, queue, replace(FAST, canary=5, rate=400))
    with worker(url, handle):
        phases = drive(client, ramp)
    assert "paused" in phases and ramp.course.phase == "stopped"
    assert "again" in ramp.course.why and ramp.exit_code == 3
    assert 100 < ramp.outcome.done < 1000
    assert queue.counts().dead >= 900


@pytest.mark.slow
def test_it_waits_for_workers_to_catch_up(client: redis.Redis, url: str) -> None:
    """They begin only when it has paused; until then 80 are held, and all others wait."""
    queue = dead(client, [b"x"] * 300)
    paused = threading.Event()

    def late(work: Work) -> None:
        paused.wait(90)

    def seen(ramp: WatchedReplay) -> bool:
        if ramp.course.phase == "paused":
            assert "entries wait (more than 60)" in ramp.course.why
            paused.set()
        return False

    limits = replace(FAST, rate=5000, first=1000, waiting=60, watch_ms=30_000, patience_ms=60_000)
    ramp = ramp_of(client, queue, limits)
    with worker(url, late):
        phases = drive(client, ramp, seen)
    assert "paused" in phases and ramp.course.phase == "over"
    assert ramp.outcome.done == 300 and queue.counts().done == 300


def test_what_nobody_took_is_not_called_well(client: redis.Redis) -> None:
    queue = dead(client, [b"x"] * 12)
    ramp = ramp_of(client, queue, replace(FAST, watch_ms=1000))
    drive(client, ramp)
    assert (ramp.course.phase, ramp.outcome.done, ramp.exit_code) == ("over", 12, 3)
    assert ramp.course.why == "12 of 12 watched entries weren't settled within 1s"
    assert str(ramp).endswith(f": {ramp.course.why}")


@pytest.mark.parametrize("kind", [DelaySet, CircularQueue])
def test_an_entry_that_is_there_for_its_next_run_has_ended_well(
    client: redis.Redis, kind: Any
) -> None:
    queue, ids = kind(client, "mail"), [f"e{n}" for n in range(10)]
    if kind is DelaySet:
        again = partial(queue.schedule, after=3600, mode="move")
        queue.schedule([(id, b"x") for id in ids], after=0)
    else:
        again = queue.push
        queue.push(ids)
    taken = queue.take(10, consumer="w").deliveries
    queue.settle([Settlement(delivery, "reject", b"{}") for delivery in taken])
    ramp = ramp_of(client, queue, replace(FAST, watch_ms=1000))
    released: list[str] = []

    def works(ramp: WatchedReplay) -> bool:
        for delivery in queue.take(10, consumer="w").deliveries:
            if not released:  # what is given back isn't over, and waits as that does
                released.append(delivery.id)
                queue.settle([Settlement(delivery, "release")])
            elif delivery.id not in released:
                again([(delivery.id, b"next")])
                queue.settle([Settlement(delivery, "ack")])
        return False

    drive(client, ramp, works)
    assert ramp.course.why == "1 of 10 watched entries weren't settled within 1s"


def test_interrupted_ramp_says_how_far_it_came(client: redis.Redis) -> None:
    queue = dead(client, [b"x"] * 100)
    ramp = ramp_of(client, queue, FAST)
    drive(client, ramp, lambda ramp: ramp.outcome.done >= 5)
    reached = run(client, ramp.reached())
    assert reached == ramp.outcome.done and queue.counts().waiting == reached
    assert f" · {reached} of 100 · " in str(ramp)


def test_a_canary_and_a_ramp_are_for_a_replay(client: redis.Redis) -> None:
    chosen = run(client, select(dead(client, [b"x"]), "dead", Filter()))
    with pytest.raises(BadInput, match="for a replay"):
        WatchedReplay(entry_change(chosen, "purge", ME), FAST)


def dead_jobs(client: redis.Redis, n: int) -> SidekiqQueue[redis.Redis]:
    client.sadd("queues", "default")
    for i in range(n):
        job = {"class": "A", "jid": f"{i:024x}", "queue": "default", "retry": True, "args": []}
        client.zadd("dead", {json.dumps(job): 1_700_000_000 + i})
    return SidekiqQueue(client, "sidekiq:default")


@pytest.mark.parametrize(
    ("outcome", "again"), [("reject", "died again"), ("fail", "died or failed again")]
)
def test_sidekiq_s_dead_are_watched_too(
    client: redis.Redis, monkeypatch: pytest.MonkeyPatch, outcome: Any, again: str
) -> None:
    """Also one that has retries left, and waits for the next in the retry set."""
    monkeypatch.setattr(SidekiqQueue, "unseen_ms", 0)
    queue = dead_jobs(client, 30)
    chosen = run(client, select(queue, "dead", Filter()))
    ramp = WatchedReplay(entry_change(chosen, "replay", ME), replace(FAST, canary=5, watch_ms=1000))

    def works(ramp: WatchedReplay) -> bool:
        error = Failure("E", "again").encoded()
        for delivery in queue.take(10, consumer="w").deliveries:
            queue.settle([Settlement(delivery, outcome, error)])
        return False

    drive(client, ramp, works)
    assert ramp.course.phase == "stopped" and ramp.outcome.done == 5
    assert f"replayed entries {again}" in ramp.course.why


def test_a_queue_of_ours_with_a_key_of_another_type_ends_the_watch(client: redis.Redis) -> None:
    queue = dead(client, [b"x"])
    fates = queue.replay_tracker()
    fates.add(["r1/1"], 0)
    key = queue.keys["dead"]
    client.delete(key)
    client.set(key, "x")
    with pytest.raises(WrongKind):
        run(client, fates.look())


def test_a_watch_that_ends_before_the_end_of_jobs_is_known_is_refused(client: redis.Redis) -> None:
    chosen = run(client, select(dead_jobs(client, 1), "dead", Filter()))
    change = entry_change(chosen, "replay", ME)
    with pytest.raises(BadInput, match="--watch must be over 15s for queue sidekiq:default"):
        WatchedReplay(change, replace(FAST, watch_ms=15_000))
    WatchedReplay(change, replace(FAST, watch_ms=15_001))


def test_a_sidekiq_job_that_is_in_no_key_may_run(client: redis.Redis) -> None:
    """A process writes what it took at its next heartbeat."""
    queue, id = dead_jobs(client, 1), f"{0:024x}"
    seconds = [0.0]
    fates, now = ForeignReplayTracker(queue, clock=lambda: seconds[0]), queue.now()
    queue.move("op", 1, [id], source="dead", target="waiting", high_water_ms=now)
    fates.add([id], now)
    job: Any = client.rpop("queue:default")
    assert run(client, fates.look()) == [] and (fates.failing, fates.unsettled) == (0, 1)
    seconds[0] = 14.9
    assert run(client, fates.look()) == [] and (fates.failing, fates.unsettled) == (0, 1)
    client.zadd("retry", {job: 1})
    assert run(client, fates.look()) == [] and fates.failing == 1
    client.delete("retry")
    seconds[0] = 29
    assert run(client, fates.look()) == [] and fates.unsettled == 1
    seconds[0] = 44
    assert run(client, fates.look()) == [False] and (fates.failing, fates.unsettled) == (0, 0)


def test_at_the_end_each_of_sidekiq_s_jobs_is_looked_at_once_more(
    client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Twenty at a time: those that nobody looked at since aren't called unsettled."""
    monkeypatch.setattr(SidekiqQueue, "unseen_ms", 0)
    queue = dead_jobs(client, 110)
    chosen = run(client, select(queue, "dead", Filter()))
    ramp = WatchedReplay(
        entry_change(chosen, "replay", ME), replace(FAST, first=1000.0, watch_ms=1)
    )

    def works(ramp: WatchedReplay) -> bool:
        queue.settle([Settlement(d, "ack") for d in queue.take(200, consumer="w").deliveries])
        return False

    drive(client, ramp, works)
    assert (ramp.outcome.done, ramp.course.phase, ramp.course.why) == (110, "over", "")


def test_a_sidekiq_job_whose_worker_was_lost_is_failing_until_its_end(
    client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SidekiqQueue, "unseen_ms", 0)
    queue, id = dead_jobs(client, 1), f"{0:024x}"
    fates, now = queue.replay_tracker(), queue.now()
    queue.move("op", 1, [id], source="dead", target="waiting", high_water_ms=now)
    fates.add([id], now)
    queue.take(1, consumer="w", lease=0.001)
    assert run(client, fates.look()) == [] and fates.failing == 0
    time.sleep(0.01)
    (again,) = queue.take(1, consumer="w").deliveries
    assert run(client, fates.look()) == [] and fates.failing == 1
    queue.settle([Settlement(again, "release")])  # and nothing says so where it waits
    assert run(client, fates.look()) == [] and (fates.failing, fates.unsettled) == (1, 1)
    queue.settle([Settlement(queue.take(1, consumer="w").deliveries[0], "ack")])
    assert run(client, fates.look()) == [False] and (fates.failing, fates.unsettled) == (0, 0)


@pytest.mark.parametrize("canary", [0, 80])
def test_rate_is_kept_by_steps_of_few(client: redis.Redis, canary: int) -> None:
    """By a clock moved by hand: 10 a second are 10 a second, and no burst makes up for a pause."""
    queue = dead(client, [b"x"] * 100)
    now = [0.0]
    ramp = WatchedReplay(
        entry_change(run(client, select(queue, "dead", Filter())), "replay", ME),
        Limits(canary=canary, rate=10, first=10, window_ms=10_000_000, latency_ms=10_000),
        clock=lambda: now[0],
    )
    for _ in range(50):
        run(client, ramp.step())
        now[0] += 0.05
    assert 24 <= ramp.outcome.done <= 27
    now[0] += 60
    run(client, ramp.step())
    run(client, ramp.step())
    assert ramp.outcome.done <= 38


def replay_a_plan(url: str, path: str) -> None:
    """A process that is killed in the middle."""
    client = connect(url, "test")
    plan = PlanFile(path)
    queue = RequestQueue(client, "mail")
    ramp = WatchedReplay(
        plan_change(plan, queue, ME), replace(FAST, canary=3, rate=300, reentry=0.5)
    )
    while run(client, ramp.step()):
        time.sleep(ramp.pause)


@pytest.mark.slow
def test_killed_ramp_goes_on_and_replays_nothing_twice(
    client: redis.Redis, url: str, tmp_path: Path
) -> None:
    """Every tenth entry dies again at once; what died again stays dead, also after the kill."""
    queue = dead(client, [b"x"] * 900)
    path, handled = tmp_path / "p.ndjson", Counter[str]()

    def handle(work: Work) -> None:
        handled[work.id] += 1
        if int(work.id.rpartition("/")[2]) % 10 == 9:
            raise RuntimeError("still broken")

    planned(client, queue, path)
    spawn = multiprocessing.get_context("forkserver")
    killed = 0
    with worker(url, handle):
        while killed < 3:
            process = spawn.Process(target=replay_a_plan, args=(url, str(path)))
            process.start()
            before = handled.total()
            deadline = time.monotonic() + 90
            while handled.total() < before + 60 and process.is_alive():
                assert time.monotonic() < deadline
                time.sleep(0.005)
            assert process.is_alive()
            os.kill(process.pid or 0, signal.SIGKILL)
            process.join()
            killed += 1
        plan = PlanFile(str(path))
        ramp = WatchedReplay(plan_change(plan, queue, ME), replace(FAST, canary=3, reentry=0.5))
        phases = drive(client, ramp)
    assert "canary" not in phases
    assert ramp.outcome.done == 900 and ramp.course.phase == "over"
    assert len(handled) == 900 and set(handled.values()) == {1}
    assert (queue.counts().dead, queue.counts().done) == (90, 810)

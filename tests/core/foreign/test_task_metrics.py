"""What other programs count of the runs of their tasks: Sidekiq's and BullMQ's metrics, and totals
that only grow. Sidekiq's keys are written as its sources of 7.0 and 8.1 write them."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import redis

from redisq_ops.core.foreign.asynq import AsynqQueue
from redisq_ops.core.foreign.bull import BullQueue
from redisq_ops.core.foreign.bullmq import BullmqQueue
from redisq_ops.core.foreign.resque import ResqueQueue
from redisq_ops.core.foreign.sidekiq import SidekiqQueue
from redisq_ops.core.model.rates import Rates
from redisq_ops.core.model.task_figures import TaskReport, bucket_of, quantile

from ...foreign_keys import bull_program, bullmq_program

Client = redis.Redis
NOON = datetime(2026, 3, 4, 8, 5, 30, tzinfo=UTC)
NOW = int(NOON.timestamp() * 1000)
SLOW = 25
"""the last bucket"""


def flushed(
    client: Client, release: int, klass: str, at: datetime, runs: int, failed: int, **times: int
) -> None:
    """What a process of Sidekiq writes of a class; ``times``: bucket -> runs, as ``b4=3``."""
    if release == 7:
        hash_, key = at.strftime("j|%Y%m%d|%-H:%-M"), at.strftime(f"{klass}-%d-%H:%-M")
    else:
        hash_, key = at.strftime("j|%y%m%d|%-H:%M"), at.strftime(f"h|{klass}-%-d-%-H:%-M")
        client.hincrby(hash_[:-1], f"{klass}|p", runs)  # its minutes of ten, which aren't read
    client.hincrby(hash_, f"{klass}|p", runs)
    client.hincrby(hash_, f"{klass}|ms", 1)
    if failed:
        client.hincrby(hash_, f"{klass}|f", failed)
    words = [word for b, n in times.items() for word in ("INCRBY", "u16", f"#{b[1:]}", n)]
    if words:
        client.execute_command("BITFIELD", key, "OVERFLOW", "SAT", *words)  # type: ignore[no-untyped-call]


def reported(client: Client, minutes: int = 60, name: str = "sidekiq") -> TaskReport:
    report = SidekiqQueue(client, name).task_metrics(NOW, minutes)
    assert report is not None
    return report


def figures(report: TaskReport) -> dict[str | None, tuple[Any, ...]]:
    return {t.task: (t.ended, t.failed, t.p50_ms, t.p95_ms, t.timed) for t in report.tasks}


@pytest.mark.parametrize("release", [7, 8])
def test_runs_failures_and_run_times_of_sidekiqs_classes(client: Client, release: int) -> None:
    for back in (0, 1, 5):
        at = NOON - timedelta(minutes=back)
        flushed(client, release, "Charge", at, 10, 2, b4=6, b9=2)
        flushed(client, release, "Mail::Send", at, 3, 0, b0=3)
    flushed(client, release, "Charge", NOON - timedelta(minutes=60), 100, 100)
    report = reported(client)
    assert figures(report) == {
        "Charge": (30, 6, 100, 750, 24),
        "Mail::Send": (9, 0, 20, 20, 9),
    }
    assert report.times == "at most" and report.remarks == ()
    assert report.since_ms == NOW - NOW % 60_000 - 59 * 60_000
    charge = next(task for task in report.tasks if task.task == "Charge")
    assert report.per_min(charge) == pytest.approx(30 / 59.5)
    assert figures(reported(client, 2))["Charge"][0] == 20


def test_processes_of_7_and_8_that_run_side_by_side_are_added(client: Client) -> None:
    flushed(client, 7, "Charge", NOON, 1, 0, b4=1)
    flushed(client, 8, "Charge", NOON, 3, 0, b0=3)
    assert figures(reported(client)) == {"Charge": (4, 0, 20, 100, 4)}


def test_a_run_time_beyond_the_histogram_is_unknown(client: Client) -> None:
    flushed(client, 8, "Import", NOON, 4, 0, b3=2, **{f"b{SLOW}": 2})
    report = reported(client)
    assert figures(report) == {"Import": (4, 0, 65, None, 4)}
    assert report.remarks == ("tasks with quantiles over 335 s, where Sidekiq's histograms end: 1",)


def test_damaged_metrics_are_named_and_the_rest_is_shown(client: Client) -> None:
    flushed(client, 8, "Charge", NOON, 2, 0, b4=2)
    before = NOON - timedelta(minutes=1)
    flushed(client, 8, "Charge", before, 2, 0, b4=2)
    key = before.strftime("h|Charge-%-d-%-H:%-M")
    client.delete(key)
    client.rpush(key, "x")
    client.hset(before.strftime("j|%y%m%d|%-H:%M"), "Bad|p", "many")
    client.set((NOON - timedelta(minutes=2)).strftime("j|%y%m%d|%-H:%M"), "text")
    odd = NOON - timedelta(minutes=3)
    flushed(client, 8, "Charge", odd, 1, 0)
    client.set(odd.strftime("h|Charge-%-d-%-H:%-M"), b"\0\1\2")
    report = reported(client)
    assert figures(report) == {"Charge": (5, 0, 100, 100, 2)}
    assert report.remarks == (
        "histograms that can't be read: 2",
        "counts that can't be read: 2",
    )


def test_a_hash_of_too_many_classes_is_not_read(client: Client) -> None:
    flushed(client, 8, "Charge", NOON, 2, 0, b4=2)
    crowded = (NOON - timedelta(minutes=1)).strftime("j|%y%m%d|%-H:%M")
    client.hset(crowded, mapping={f"Class{n}|p": 1 for n in range(3_001)})
    report = reported(client)
    assert figures(report) == {"Charge": (2, 0, 100, 100, 2)}
    assert report.remarks == ("counts that can't be read: 1",)


def test_marks_of_deploys_in_the_window(client: Client) -> None:
    flushed(client, 8, "Charge", NOON, 1, 0)
    client.hset("20260304-marks", mapping={"2026-03-04T07:30:00Z": "4f2c mail", "soon": "x"})
    client.hset("20260304-marks", "2026-03-04T06:30:00Z", "too early")
    (mark,) = reported(client).marks
    assert (mark.label, mark.at_ms) == ("4f2c mail", NOW - 35 * 60_000 - 30_000)


def test_sidekiq_6_keeps_no_metrics_and_none_are_made_up(client: Client) -> None:
    client.set("stat:processed", 5)
    assert SidekiqQueue(client, "sidekiq").task_metrics(NOW, 60) is None
    assert SidekiqQueue(client, "sidekiq").rates(NOW) == Rates()


def test_rates_of_a_whole_sidekiq_and_of_its_only_queue(client: Client) -> None:
    client.sadd("queues", "low")
    flushed(client, 8, "Charge", NOON, 10, 2)
    flushed(client, 8, "Mail", NOON - timedelta(minutes=1), 5, 0)
    for name in ("sidekiq", "sidekiq:low"):
        rates = SidekiqQueue(client, name).rates(NOW, 3)
        assert rates == Rates((), (0, 5, 8), (0, 0, 2))
        assert rates.last_minute(NOW) == (None, 8 + round(5 * 0.5), 2)
    client.sadd("queues", "high")
    assert SidekiqQueue(client, "sidekiq:low").rates(NOW, 3) == Rates()


# --- BullMQ and Bull -----------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    ("program", "kind", "version"),
    [
        *((bullmq_program, BullmqQueue, each) for each in bullmq_program.VERSIONS),
        (bull_program, BullQueue, bull_program.VERSIONS[0]),
    ],
)
def test_the_metrics_of_a_real_worker_also_where_it_cuts_its_list(
    client: Client, program: Any, kind: Any, version: str
) -> None:
    start = int(time.time()) // 60 * 60_000 + 10_000
    queue = kind(client, f"{kind.kind}:mail")
    client.set("broken", 1)
    runs = program.Program(client, version)
    assert queue.rates(start) == Rates(), "no worker kept metrics"
    for minute, jobs in ((0, ("fine", "fine", "fails")), (2, ("fine",)), (5, ("fine", "fine"))):
        at = {"METRICS": "3", "NOW_MS": str(start + minute * 60_000)}
        runs.call(*[bullmq_program.add(name, f"{minute}-{n}") for n, name in enumerate(jobs)])
        runs.environment = runs.environment | at
        runs.work(len(jobs))
        rates = queue.rates(start + minute * 60_000, 60)
        if minute == 0:
            assert rates == Rates((), (2,), (1,))
        if minute == 2:
            assert rates == Rates((), (2, 0, 1), (1, 0, 0))
    # Three minutes are kept, and the one that runs: what was before them is unknown.
    assert rates == Rates((), (1, 0, 0, 2), (0, 0, 0, 0))
    assert queue.rates(start + 6 * 60_000, 2) == Rates((), (2, 0), (0, 0))


@pytest.mark.parametrize(
    "spoil",
    [
        lambda c: c.hset("bull:mail:metrics:completed", "count", "many"),
        lambda c: c.rpush("bull:mail:metrics:completed:data", "x"),
        lambda c: (c.delete("bull:mail:metrics:failed"), c.set("bull:mail:metrics:failed", "x")),
    ],
)
def test_damaged_metrics_are_unknown_not_0(client: Client, spoil: Any) -> None:
    for what in ("completed", "failed"):
        key = f"bull:mail:metrics:{what}"
        client.hset(key, mapping={"count": 9, "prevTS": NOW, "prevCount": 4})
        client.rpush(f"{key}:data", 3, 1)
    queue = BullmqQueue(client, "bullmq:mail")
    assert queue.rates(NOW, 60) == Rates((), (1, 3, 5), (1, 3, 5))
    spoil(client)
    assert queue.rates(NOW, 60) == Rates()


# --- totals --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("queue", "at"),
    [
        (lambda c: AsynqQueue(c, "asynq:low"), "asynq:{low}:"),
        (lambda c: ResqueQueue(c, "resque"), "resque:stat:"),
        (lambda c: SidekiqQueue(c, "sidekiq"), "stat:"),
    ],
)
def test_totals_tell_rates_once_a_whole_minute_was_seen(
    client: Client, queue: Any, at: str
) -> None:
    queue, minute = queue(client), NOW - NOW % 60_000
    assert queue.rates(minute) == Rates(), "there are none"
    client.set(at + "processed", 100)
    assert queue.rates(minute + 30_000) == Rates()
    for second, processed, failed in ((60, 110, 0), (90, 115, 2), (120, 120, 2), (130, 121, 3)):
        client.set(at + "processed", processed)
        client.set(at + "failed", failed)
        rates = queue.rates(minute + second * 1000)
        if second < 120:
            assert rates == Rates(), "its first minute was not seen as a whole"
    assert rates == Rates((), (13, 5), (2, 1))
    assert queue.rates(minute + 240_000) == Rates(), "nobody looked for more than a minute"


def test_totals_that_fall_begin_anew(client: Client) -> None:
    queue, minute = AsynqQueue(client, "asynq:low"), NOW - NOW % 60_000
    for second, processed in ((0, 50), (60, 60), (119, 70)):
        client.set("asynq:{low}:processed", processed)
        queue.rates(minute + second * 1000)
    assert queue.rates(minute + 120_000).settled == (20, 0)
    client.set("asynq:{low}:processed", 1)
    assert queue.rates(minute + 130_000) == Rates()


# --- quantiles -----------------------------------------------------------------------------------


def test_quantiles_are_values_that_occur() -> None:
    assert quantile([], 0.5) is None
    assert quantile([7], 0.95) == 7
    assert [quantile(range(1, 101), share) for share in (0.5, 0.95, 1)] == [50, 95, 100]
    assert bucket_of([], 0.5) is bucket_of([0, 0], 0.5) is None
    assert [bucket_of([2, 0, 2], share) for share in (0.25, 0.5, 0.51, 0.95)] == [0, 0, 2, 2]

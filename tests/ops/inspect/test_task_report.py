"""Tasks of queues: figures of done and dead entries, of ours, and of a reader that remembers."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
import redis

from redisq_ops.core.engine.queue import Queue
from redisq_ops.core.foreign.bullmq import BullmqQueue
from redisq_ops.core.foreign.celery import CeleryQueue
from redisq_ops.core.foreign.rq import RqQueue
from redisq_ops.core.foreign.sidekiq import SidekiqQueue
from redisq_ops.core.foreign.streams import StreamQueue
from redisq_ops.core.model.entry import Failure, Settlement
from redisq_ops.core.model.task_figures import TaskReport
from redisq_ops.core.queues.delay import DelaySet
from redisq_ops.core.redis.operation import run
from redisq_ops.ops.filter.fields import payload_field
from redisq_ops.ops.inspect.kept_tasks import QUEUES, KeptTasks
from redisq_ops.ops.inspect.task_report import HOUR_MS, LATEST, TaskReader, window_words
from redisq_ops.ops.redaction import Redaction

from ...core.foreign.specimens import SPECIMENS

Client = redis.Redis
NOW = 1_790_000_000_000
MINUTE = 60_000


def ended(
    client: Any, id: str, at_ms: int, task: str = "send", took: int = 100, error: str = ""
) -> None:
    """A job of BullMQ that ended, as its scripts write it."""
    base = "bull:mail:"
    client.hset(f"{base}meta", "version", "bullmq:6.7.0")
    fields = {"name": task, "data": "{}", "opts": "{}", "timestamp": at_ms - took}
    fields |= {"processedOn": at_ms - took, "finishedOn": at_ms, "atm": 1}
    if error:
        fields |= {"failedReason": error}
    client.hset(base + id, mapping=fields)
    client.zadd(base + ("failed" if error else "completed"), {id: at_ms})


def mail(client: Client) -> BullmqQueue[Client]:
    return BullmqQueue(client, "bullmq:mail")


def report(client: Client, queue: Queue[Any], now_ms: int = NOW, **options: Any) -> TaskReport:
    return run(client, TaskReader(queue, **options).read(now_ms))


def figures(found: TaskReport) -> dict[str | None, tuple[Any, ...]]:
    return {t.task: (t.ended, t.failed, t.p50_ms, t.p95_ms, t.timed) for t in found.tasks}


def test_done_and_dead_entries_tell_runs_failures_run_times_and_the_latest_error(
    client: Client,
) -> None:
    for n in range(20):
        ended(client, f"s{n}", NOW - n * MINUTE, took=10 * (n + 1))
    ended(client, "f1", NOW - 5 * MINUTE, "ship", error="earlier")
    ended(client, "f2", NOW - 3 * MINUTE, "ship", error="no address")
    ended(client, "old", NOW - 90 * MINUTE, "ship", error="too old")
    found = report(client, mail(client))
    assert figures(found) == {"send": (20, 0, 100, 190, 20), "ship": (None, 2, None, None, 0)}
    send, ship = found.tasks
    assert found.per_min(send) == pytest.approx(20 / 19)
    assert ship.error is not None and ship.error.line == "Error: no address"
    assert ship.error_ms == NOW - 3 * MINUTE
    assert window_words(found) == "all 20 done and all 3 dead entries, 19m 00s"
    (remark,) = found.remarks
    assert "removeOnComplete" in remark, "it may be why no success of `ship` is kept"


def test_a_window_ends_where_the_owner_or_the_read_cuts_the_list(client: Client) -> None:
    for n in range(LATEST + 100):
        ended(client, f"s{n}", NOW - n * 1000)
    for n in range(3):
        at = NOW - (LATEST + 50 + n) * 1000
        ended(client, f"f{n}", at, error="before the window")
        ended(client, f"g{n}", at, "ship", error="before the window")
    found = report(client, mail(client))
    assert figures(found) == {
        "send": (LATEST, 0, 100, 100, LATEST),
        "ship": (None, 3, None, None, 0),
    }
    assert found.since_ms == NOW - (LATEST - 1) * 1000
    assert window_words(found) == "the latest 500 of 600 done and all 6 dead entries, 8m 19s"


def test_what_is_not_kept_is_unknown_and_the_setting_is_named(client: Client) -> None:
    ended(client, "f", NOW, error="no done entries are kept")
    (only,) = (found := report(client, mail(client))).tasks
    assert (only.ended, only.failed, only.p50_ms, found.per_min(only)) == (None, 1, None, None)
    assert any("removeOnComplete" in remark for remark in found.remarks)
    nothing = report(client, BullmqQueue(client, "bullmq:none"))
    assert nothing.tasks == () and any("removeOnComplete" in one for one in nothing.remarks)


def test_what_is_not_kept_is_unknown_of_each_task(client: Client) -> None:
    ended(client, "kept", NOW - 2_000, task="kept")
    for n in range(5):
        ended(client, f"f{n}", NOW - n, task="removed", error="no")
    ended(client, "f", NOW, task="kept", error="no")
    found = report(client, mail(client))
    of = {one.task: (one.ended, one.failed) for one in found.tasks}
    assert of == {"kept": (2, 1), "removed": (None, 5)}
    assert any("removeOnComplete" in remark for remark in found.remarks)


def test_a_reader_remembers_runs_that_the_owner_has_removed(client: Client) -> None:
    reader = TaskReader(mail(client))
    for n in range(10):
        ended(client, f"a{n}", NOW - n * 1000)
    run(client, reader.read(NOW))
    client.delete("bull:mail:completed")
    for n in range(5):  # its owner keeps five
        ended(client, f"b{n}", NOW + (n + 1) * 1000, took=300)
    ended(client, "a0", NOW)
    found = run(client, reader.read(NOW + 10_000))
    assert figures(found) == {"send": (15, 0, 100, 300, 15)}
    assert found.since_ms == NOW - 9_000 and "15 seen before and now" in found.source
    # Once all that was seen is gone, runs in between are unknown: the window begins anew.
    client.delete("bull:mail:completed")
    ended(client, "c", NOW + 60_000)
    found = run(client, reader.read(NOW + 61_000))
    assert figures(found) == {"send": (1, 0, 100, 100, 1)} and found.since_ms == NOW + 60_000


def test_a_read_counts_the_queue_once(client: Client) -> None:
    queue = DelaySet(client, "later")
    queue.schedule([("a~1", b"")])
    (delivery,) = queue.take(1, consumer="w").deliveries
    queue.settle([Settlement(delivery, "reject", Failure("Boom").encoded())])
    client.config_resetstat()
    assert report(client, queue, queue.now()).tasks
    stats: Any = client.info("commandstats")
    assert stats["cmdstat_zcard"]["calls"] == 4


def test_a_kept_reader_is_asked_no_more_often_than_wanted(client: Client) -> None:
    kept, queue = KeptTasks(5_000), mail(client)
    ended(client, "a", NOW)
    first = run(client, kept.read(queue, NOW))
    ended(client, "b", NOW + 1)
    assert run(client, kept.read(queue, NOW + 4_999)) is first
    assert not kept.due(queue.name, NOW + 4_999) and kept.due(queue.name, NOW + 5_000)
    assert figures(run(client, kept.read(queue, NOW + 5_000)))["send"][0] == 2
    for n in range(QUEUES):
        run(client, kept.read(BullmqQueue(client, f"bullmq:q{n}"), NOW + 5_000))
    assert kept.due(queue.name, NOW + 5_000), "the one asked longest ago was dropped"


def test_figures_are_redacted(client: Client) -> None:
    ended(client, "f", NOW, "card-4111", error="card-4111 is gone")
    hidden = Redaction.read([({"patterns": {"card": "4111"}}, "here")])
    (task,) = report(client, mail(client), redaction=hidden).tasks
    assert "4111" not in f"{task.task}{task.error}" and task.task and "card" in task.task


def test_rqs_times_and_functions(client: Client) -> None:
    SPECIMENS["rq"].fill(client)
    queue = RqQueue(client, "rq:low")
    found = report(client, queue, queue.now())
    task = next(t for t in found.tasks if t.task and t.task.endswith("fine"))
    assert (task.ended, task.failed, task.timed) == (4, 0, 4) and task.p95_ms is not None
    bad = next(t for t in found.tasks if t.task and t.task.endswith("fails"))
    assert (bad.ended, bad.failed) == (None, 3)
    assert bad.error is not None and bad.error.type == "ValueError"


def test_sidekiqs_latest_error_is_of_its_retries_too(client: Client) -> None:
    client.hset("j|260921|14:13", "HardJob|p", 3)  # the minute of NOW
    record: dict[str, Any] = {"class": "HardJob", "jid": "a" * 24, "queue": "low", "args": []}
    record |= {"error_class": "KeyError", "error_message": "x", "failed_at": NOW / 1000}
    record |= {"retry_count": 0}
    client.zadd("retry", {json.dumps(record): NOW / 1000 + 60})
    (task,) = report(client, SidekiqQueue(client, "sidekiq")).tasks
    assert (task.ended, task.failed) == (3, 0) and task.error and task.error.type == "KeyError"


def settle_some(client: Client, history: str) -> DelaySet[Client]:
    queue = DelaySet(client, "later")
    queue.schedule([(f"e{n}", json.dumps({"type": f"t{n % 2}"}).encode()) for n in range(6)])
    queue.configure("op", 1, {"history": history, "max_failures": "1"})
    taken = queue.take(6, consumer="w").deliveries
    error = Failure("Boom", "it broke").encoded()
    queue.settle([Settlement(each, "ack") for each in taken[:4]])
    queue.settle([Settlement(each, "fail", error) for each in taken[4:]])
    return queue


def test_all_runs_of_our_own_queues_and_the_errors_of_tasks_named_in_payloads(
    client: Client,
) -> None:
    queue = settle_some(client, "all")
    found = report(client, queue, queue.now(), by=payload_field(("type",)))
    every, *rest = found.tasks
    assert (every.every, every.ended, every.failed, every.timed) == (True, 6, 2, 4)
    assert every.error is not None and every.error.line == "Boom: it broke"
    assert {task.task for task in rest} == {"t0", "t1"}
    assert all(task.ended is task.failed is None and task.error for task in rest)


def test_where_nobody_counts_the_runs_are_unknown(client: Client) -> None:
    client.xadd("orders", {"order": 1})
    client.xgroup_create("orders", "billing", "0")
    found = report(client, StreamQueue(client, "stream:orders"))
    assert found.tasks == () and found.remarks


def test_run_times_of_our_own_queues_need_the_history(client: Client) -> None:
    queue = settle_some(client, "ops")
    (every,) = (found := report(client, queue, queue.now())).tasks
    assert (every.ended, every.p50_ms, every.timed) == (6, None, 0)
    assert any("history=all" in remark for remark in found.remarks)


def test_a_longer_window_counts_more(client: Client) -> None:
    for back in (0, 30, 90):
        ended(client, f"s{back}", NOW - back * MINUTE)
    assert figures(report(client, mail(client)))["send"][0] == 2
    assert figures(report(client, mail(client), span_ms=2 * HOUR_MS))["send"][0] == 3


def result(client: Any, id: str, at_ms: int, **fields: Any) -> None:
    """A result as Celery keeps it."""
    done = datetime.fromtimestamp(at_ms / 1000, UTC).isoformat()
    kept = {"status": "SUCCESS", "result": 1, "task_id": id, "date_done": done, **fields}
    client.set(f"celery-task-meta-{id}", json.dumps(kept))


def test_celerys_results_have_no_run_times_and_names_only_if_kept(client: Client) -> None:
    queue = CeleryQueue(client, "celery:mail")
    for n in range(4):
        result(client, f"a{n}", NOW - n * MINUTE, name="shop.fine", queue="mail")
    error = {"exc_type": "ValueError", "exc_message": ["no card"]}
    bad = {"name": "shop.pay", "queue": "mail", "status": "FAILURE", "result": error}
    result(client, "b", NOW - MINUTE, **bad)
    client.set("celery-task-meta-pickled", b"\x80\x04N.")
    found = report(client, queue)
    fine, pay = (4, 0, None, None, 0), (None, 1, None, None, 0)
    assert figures(found) == {"shop.fine": fine, "shop.pay": pay}
    assert found.since_ms == NOW - 3 * MINUTE
    assert found.tasks[1].error is not None and found.tasks[1].error.line == "ValueError: no card"
    assert any("not JSON" in one or "corrupt" in one for one in found.remarks)
    assert any("no run times" in one for one in found.remarks)


def test_a_real_celery_worker_keeps_runs_and_no_run_times(client: Client) -> None:
    SPECIMENS["celery"].fill(client)
    queue = CeleryQueue(client, "celery:celery")
    found = report(client, queue, queue.now())
    tasks = {each.task: each for each in found.tasks}
    fine, fails = tasks["shop.fine"], tasks["shop.fails"]
    assert (fine.ended, fine.failed, fine.timed, fine.p50_ms) == (4, 0, 0, None)
    # The window begins with the oldest run that succeeded; some may have failed before.
    assert fails.failed and fails.failed <= 4 and fails.timed == 0
    kept = [json.loads(client.get(key) or b"") for key in client.scan_iter("celery-task-meta-*")]
    assert {"date_done", "name"} <= kept[0].keys(), "result_extended"
    assert not {"date_start", "started", "runtime"} & {name for each in kept for name in each}


def test_more_results_than_a_look_finds_have_no_window_and_no_rate(client: Client) -> None:
    queue = CeleryQueue(client, "celery:mail")
    for n in range(LATEST + 50):
        result(client, f"a{n}", NOW - n * 1000, name="shop.fine", queue="mail")
    (task,) = (found := report(client, queue)).tasks
    assert task.ended == LATEST and found.since_ms is None and found.per_min(task) is None
    assert "since when is unknown" in window_words(found)


def test_failures_of_before_the_oldest_kept_success_are_said_not_to_count(client: Client) -> None:
    """Some programs keep failures for a year, and results for minutes."""
    for n in range(2):
        ended(client, f"d{n}", NOW - 2 * MINUTE + n)
    for n in (10, 20, 59):
        ended(client, f"f{n}", NOW - (60 - n) * MINUTE, error="no")
    found = report(client, mail(client))
    (task,) = found.tasks
    assert (task.ended, task.failed, found.since_ms) == (3, 1, NOW - 2 * MINUTE)
    assert found.remarks[0] == (
        "not counted: 2 failed runs of these tasks before that time, as what succeeded then is no"
        " longer kept"
    )

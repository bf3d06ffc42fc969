"""Schedules as BullMQ, Bull, RQ, rq-scheduler and RedBeat themselves write them. Those of
sidekiq-cron 2.3, sidekiq-scheduler 6.0 and asynq 0.26 are made from their sources."""

import json
import time
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest
import redis
import rq

from . import asynq_program, bull_program, bullmq_program, celery_program, rq_tasks

Client = redis.Redis
HOUR = 3600


def bullmq(client: Client, version: str = bullmq_program.VERSIONS[0]) -> None:
    nightly = {"pattern": "0 3 * * *", "tz": "Europe/Berlin"}
    bullmq_program.Program(client, version).call(
        ["upsertJobScheduler", "nightly", nightly, {"name": "report", "data": {"to": "ann"}}],
        ["upsertJobScheduler", "often", {"every": 900_000}, {"name": "tick"}],
    )


def bullmq_removes(client: Client, name: str, version: str = bullmq_program.VERSIONS[0]) -> None:
    bullmq_program.Program(client, version).call(["removeJobScheduler", name])


def bullmq_before_5(client: Client, names: tuple[str, str], version: str) -> None:
    """Repeatable jobs of names as BullMQ before 5 made them: release 5 keeps them as they are."""
    nightly, often = names
    when = {"pattern": "0 3 * * *", "tz": "Europe/Berlin", "key": nightly}
    bullmq_program.Program(client, version).call(
        ["add", "report", {}, {"repeat": when}],
        ["add", "tick", {}, {"repeat": {"every": 900_000, "key": often}}],
    )


def bullmq_removes_before_5(client: Client, name: str, version: str) -> None:
    bullmq_program.Program(client, version).call(["removeRepeatableByKey", name])
    client.delete(f"bull:mail:repeat:{name}")  # which BullMQ leaves behind


def bull(client: Client) -> None:
    nightly = {"repeat": {"cron": "0 3 * * *", "tz": "Europe/Berlin"}, "jobId": "n"}
    bull_program.Program(client).call(
        ["add", "report", {}, nightly], ["add", "tick", {}, {"repeat": {"every": 900_000}}]
    )


def bull_removes(client: Client, name: str) -> None:
    bull_program.Program(client).call(["removeRepeatableByKey", name])


def rq_cron(client: Client) -> Any:
    """A process of ``rq cron`` that is ready."""
    from rq.cron import CronScheduler

    rq.Queue("low", connection=client).enqueue(rq_tasks.fine, 1)
    scheduler = CronScheduler(client, name="box:1:abc")
    scheduler.register(rq_tasks.fine, "low", args=("a",), cron="0 3 * * *", name="nightly")
    scheduler.register(rq_tasks.fine, "low", interval=900, name="often")
    scheduler.register(rq_tasks.fine, "high", interval=60, name="elsewhere")
    scheduler.enqueue_jobs()
    scheduler.register_birth()
    return scheduler


def rq_scheduler(client: Client) -> Any:
    scheduling = pytest.importorskip("rq_scheduler")
    rq.Queue("low", connection=client).enqueue(rq_tasks.fine, 1)
    scheduler = scheduling.Scheduler("low", connection=client)
    scheduler.cron("0 3 * * *", rq_tasks.fine, args=["a"], id="nightly")
    begin = datetime.now(UTC).replace(tzinfo=None) + timedelta(minutes=5)
    scheduler.schedule(begin, rq_tasks.fine, id="often", interval=900)
    scheduler.enqueue_in(timedelta(hours=1), rq_tasks.fine, 2, job_id="later")
    scheduler.cron("0 4 * * *", rq_tasks.fine, id="elsewhere", queue_name="high")
    return scheduler


def rq_scheduler_removes(client: Client, name: str) -> None:
    scheduling = pytest.importorskip("rq_scheduler")
    scheduling.Scheduler("low", connection=client).cancel(name)


def redbeat(client: Client) -> Any:
    """RedBeat's entries, and Celery's usual queue."""
    schedulers = pytest.importorskip("redbeat.schedulers")
    from celery.schedules import crontab, schedule
    from kombu import pools

    app = celery_program.app_on(client)
    app.conf.redbeat_redis_url = app.conf.broker_url
    app.conf.redbeat_redis_options = {}
    # Its channels know which queues they declared, although the server was emptied since.
    cast("Any", pools).reset()
    app.tasks["shop.fine"].apply_async(("x",))
    entry = schedulers.RedBeatSchedulerEntry
    nightly = crontab(minute=0, hour=3, day_of_week="mon-fri", app=app)
    entry("nightly", "shop.fine", nightly, args=["a"], app=app).save()
    entry("often", "shop.fine", schedule(900, app=app), app=app).save()
    elsewhere = {"queue": "mail"}
    entry("elsewhere", "shop.fine", schedule(60, app=app), options=elsewhere, app=app).save()
    return entry, app


def redbeat_does(client: Client, name: str, verb: str) -> None:
    entry, app = redbeat_entry(client)
    found = entry.from_key(f"redbeat:{name}", app=app)
    if verb == "rm":
        found.delete()
        return
    found.enabled = verb == "resume"
    found.save()


def redbeat_entry(client: Client) -> Any:
    schedulers = pytest.importorskip("redbeat.schedulers")
    app = celery_program.app_on(client)
    app.conf.redbeat_redis_url = app.conf.broker_url
    app.conf.redbeat_redis_options = {}
    return schedulers.RedBeatSchedulerEntry, app


def _sidekiq_job(client: Client) -> None:
    job = {"class": "Report", "args": [], "jid": "a" * 24, "queue": "low", "created_at": 1.0}
    client.sadd("queues", "low")
    client.lpush("queue:low", json.dumps(job))


def sidekiq_cron(client: Client) -> None:
    """What `Sidekiq::Cron::Job#save` writes."""
    _sidekiq_job(client)
    crons = {"nightly": "0 3 * * * Europe/Berlin", "often": "*/15 * * * *"}
    for name, cron in crons.items():
        key = f"cron_job:default:{name}"
        message = {"class": "Report", "args": [], "queue": "low"}
        job: dict[Any, Any] = {
            "name": name,
            "namespace": "default",
            "klass": "Report",
            "cron": cron,
        }
        job |= {"description": "", "source": "dynamic", "args": "[]", "date_as_argument": "0"}
        job |= {"message": json.dumps(message), "status": "enabled", "active_job": "0"}
        job |= {"last_enqueue_time": "2026-11-29 02:00:01 +0000", "symbolize_args": "0"}
        client.sadd("cron_jobs:default", key)
        client.hset(key, mapping=job)
        client.zadd(key + ":enqueued", {"2026-11-29T02:00:00Z": 1_796_004_000})
        client.lpush(key + ":jid_history", json.dumps({"jid": "b" * 24}))


def sidekiq_cron_does(client: Client, name: str, verb: str) -> None:
    key = f"cron_job:default:{name}"
    if verb == "rm":
        client.srem("cron_jobs:default", key)
        client.delete(key + ":enqueued", key + ":jid_history", key)
    else:
        client.hset(key, "status", "enabled" if verb == "resume" else "disabled")


def sidekiq_scheduler(client: Client, next_s: float = HOUR) -> None:
    """What ``lib/sidekiq-scheduler/redis_manager.rb`` writes."""
    _sidekiq_job(client)
    schedules = {
        "nightly": {"cron": "0 3 * * * Europe/Berlin", "class": "Report", "queue": "low"},
        "often": {"every": ["15m", {"first_in": "1m"}], "class": "Report", "queue": "low"},
    }
    at = datetime.now(UTC) + timedelta(seconds=next_s)
    for name, config in schedules.items():
        client.hset("schedules", name, json.dumps(config, separators=(",", ":")))
        client.hset("sidekiq-scheduler:next_times", name, at.strftime("%Y-%m-%d %H:%M:%S +0000"))
        client.zadd(f"sidekiq-scheduler:pushed:{name}", {str(at.timestamp()): at.timestamp()})


def sidekiq_scheduler_does(client: Client, name: str, verb: str) -> None:
    state = json.dumps({"enabled": verb == "resume"}, separators=(",", ":"))
    client.hset("sidekiq-scheduler:states", name, state)


def asynq(client: Client) -> None:
    """What `WriteSchedulerEntries` writes."""
    now = int(time.time())
    client.sadd("asynq:queues", "low")
    entries = [
        ("nightly", "CRON_TZ=Europe/Berlin 0 3 * * *", 'Queue("low")'),
        ("often", "@every 15m0s", 'Queue("low")'),
        ("elsewhere", "@every 1m", "MaxRetry(3)"),
    ]
    key = "asynq:schedulers:{box:1:abc}"
    client.zadd("asynq:schedulers", {key: now + 20})
    for id, spec, option in entries:
        at = asynq_program.given((1, now + HOUR))
        fields = (1, id), (2, spec), (3, "report"), (4, b"{}"), (5, option), (6, at)
        client.lpush(key, asynq_program.given(*fields))
    client.expire(key, 20)

"""Edited jobs of real programs: their own workers run them with the new arguments, or as before
once the edit is undone."""

from __future__ import annotations

import json
from typing import Any

import pytest
import redis
import rq
from rq import SimpleWorker
from rq.job import Job as RqJob
from rq.serializers import JSONSerializer

from redisq_ops.core.foreign.rq import RqQueue
from redisq_ops.core.foreign.ruby_jobs.job import Job
from redisq_ops.core.foreign.sidekiq import SidekiqQueue
from redisq_ops.core.model.errors import RedisqError
from redisq_ops.core.redis.operation import run
from redisq_ops.testing.interference import raced

from ...command_line import Redisq
from ...foreign_keys import (
    Sidekiq,
    bullmq_program,
    celery_program,
    dramatiq_program,
    rq_tasks,
    sidekiq,
)

__all__ = ["sidekiq"]  # a fixture

pytestmark = pytest.mark.alike


def patch(path: str, value: Any) -> str:
    return json.dumps([{"op": "replace", "path": path, "value": value}])


def edited(redisq: Redisq, noun: str, address: str, path: str, value: Any, *words: str) -> str:
    """The output of an edit, after a dry run that says the same and changes nothing."""
    command = (noun, "edit", address, "--patch", patch(path, value))
    looked = redisq(*command, "--dry-run")
    assert "+ " in looked and json.dumps(value)[:4] in looked
    return redisq(*command, "--yes", *words)


def test_bullmq_runs_a_failed_job_with_other_data(redisq: Redisq, client: redis.Redis) -> None:
    program = bullmq_program.Program(client)
    client.set("broken", 1)
    program.call(bullmq_program.add("fails", "b1"))
    program.work(1)
    before = client.hgetall("bull:mail:b1")
    edited(redisq, "dlq", "bullmq:mail/b1", "/data/region", "us")
    redisq("undo", "--yes")
    assert client.hgetall("bull:mail:b1") == before
    edited(redisq, "dlq", "bullmq:mail/b1", "/data/region", "us")
    client.delete("broken")
    redisq("dlq", "replay", "bullmq:mail/b1", "--yes")
    program.work(1)
    returned = client.hget("bull:mail:b1", "returnvalue")
    assert json.loads(returned or b"") == {"what": "b1", "region": "us"}


def test_sidekiq_runs_a_dead_job_with_other_arguments(
    redisq: Redisq, client: redis.Redis, sidekiq: Sidekiq
) -> None:
    job = Job("Hopeless", ["glass"], jid="a" * 24, options={"retry": 0})
    SidekiqQueue(client, "sidekiq:default").push([job])
    with sidekiq.working():
        sidekiq.until("it is dead", lambda: client.zcard("dead") == 1)
    dead: Any = client.zrange("dead", 0, -1, withscores=True)
    ((was, score),) = dead
    edited(redisq, "dlq", f"sidekiq:default/{'a' * 24}", "/args/0", "steel")
    dead = client.zrange("dead", 0, -1, withscores=True)
    assert [*map(tuple, dead)] == [(was.replace(b'"args":["glass"]', b'"args":["steel"]'), score)]
    redisq("dlq", "replay", "sidekiq:default", "--yes")
    with sidekiq.working():
        sidekiq.until("it ran again", lambda: "tried steel" in sidekiq.log)


@pytest.mark.parametrize("members", ['"unique_for":60', '"lock_digest":"uniquejobs:1"'])
def test_a_locked_job_of_sidekiq_stays(redisq: Redisq, client: redis.Redis, members: str) -> None:
    record = f'{{"class":"Task","args":[1],"jid":"{"b" * 24}","queue":"low",{members}}}'
    client.zadd("dead", {record: 5})
    said = redisq("dlq", "edit", "sidekiq:low", "--patch", patch("/args/0", 2), "--yes", code=1)
    assert "a lock is made of its arguments" in said
    assert client.zrange("dead", 0, -1) == [record.encode()]


def test_two_jobs_of_sidekiq_never_become_one(redisq: Redisq, client: redis.Redis) -> None:
    record = '{"class":"Task","args":[%d],"jid":"bbbbbbbbbbbbbbbbbbbbbbbb","queue":"low"}'
    client.zadd("dead", {record % 1: 5, record % 2: 6})
    rows = [("b" * 24, (record % 1).encode(), (record % 2).encode())]
    queue = SidekiqQueue(client, "sidekiq:low")
    said = queue.edit("op", 1, rows, source="dead", high_water_ms=queue.now())
    assert said == ["changed"] and client.zcard("dead") == 2


def test_rq_runs_a_waiting_job_of_its_json_serializer(redisq: Redisq, client: redis.Redis) -> None:
    queue = rq.Queue("low", connection=client, serializer=JSONSerializer)
    queue.enqueue(rq_tasks.fine, 3, job_id="w1")
    queue.enqueue(rq_tasks.fine, 4, job_id="w2", description="mine")
    edited(redisq, "waiting", "rq:low/w1", "/args/0", 7)
    edited(redisq, "waiting", "rq:low/w2", "/args/0", 8)
    worker = SimpleWorker([queue], connection=client, serializer=JSONSerializer)
    worker.work(burst=True, logging_level="CRITICAL")
    jobs = [RqJob.fetch(id, client, serializer=JSONSerializer) for id in ("w1", "w2")]
    assert [job.return_value() for job in jobs] == [7, 8]
    assert [job.description for job in jobs] == [f"{rq_tasks.__name__}.fine(7)", "mine"]


def test_a_pickle_of_rq_stays(redisq: Redisq, client: redis.Redis) -> None:
    rq.Queue("low", connection=client).enqueue(rq_tasks.fine, 3, job_id="w1")
    before = client.hgetall("rq:job:w1")
    said = redisq("waiting", "edit", "rq:low/w1", "--patch", patch("/args/0", 7), "--yes", code=1)
    assert "its arguments are in a pickle" in said and client.hgetall("rq:job:w1") == before


def test_celery_runs_a_waiting_task_and_a_failed_one(redisq: Redisq, client: redis.Redis) -> None:
    app = celery_program.app_on(client)
    app.send_task("shop.fine", ("usual",), task_id="w1")
    edited(redisq, "waiting", "celery:celery/w1", "/args/0", "other")
    headers = json.loads(client.lindex("celery", 0) or b"")["headers"]
    assert headers["argsrepr"] == "('other',)"
    celery_program.fails(app, "bad1", "shop.fine", ["luck"], {})
    lasts = client.pexpiretime("celery-task-meta-bad1")
    edited(redisq, "dlq", "celery:celery/bad1", "/args/0", "skill")
    assert client.pexpiretime("celery-task-meta-bad1") == lasts
    redisq("dlq", "replay", "celery:celery/bad1", "--yes")
    with celery_program.worker(client):
        found = [app.AsyncResult(id).get(timeout=60) for id in ("w1", "bad1")]
    assert found == ["other", "skill"]


def test_dramatiq_runs_a_dead_message(redisq: Redisq, client: redis.Redis) -> None:
    program = dramatiq_program.Program(client)
    client.set("broken", 1)
    program.fails_at_once.send("luck")
    program.work()
    found: Any = client.zrange("dramatiq:low.XQ", 0, -1)
    edited(redisq, "dlq", f"dramatiq:low/{found[0].decode()}", "/args/0", "skill")
    client.delete("broken")
    redisq("dlq", "replay", "dramatiq:low", "--yes")
    program.work()
    assert client.hgetall("ran") == {b"luck": b"1", b"skill": b"1"}


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ('{"class": "Task"}', "only args can be changed"),
        ("no JSON", "not JSON"),
        ('{"class":"Task","args":{},"jid":"JID","queue":"low"}', "args is a list"),
        ('{"class":"Task","args":[NaN],"jid":"JID","queue":"low"}', "not JSON"),
        ('{"class":"Task","args":[2],"args":[3],"jid":"JID","queue":"low"}', "only args"),
    ],
)
def test_nothing_but_arguments_is_changed(
    redisq: Redisq, client: redis.Redis, given: str, why: str
) -> None:
    record = '{"class":"Task","args":[1],"jid":"%s","queue":"low"}' % ("b" * 24)
    client.zadd("dead", {record: 5})
    given = given.replace("JID", "b" * 24)
    address = f"sidekiq:low/{'b' * 24}"
    said = redisq("dlq", "edit", address, "--payload", given, "--yes", code=1)
    assert why in said and client.zrange("dead", 0, -1) == [record.encode()]


def test_a_key_of_another_type_stops_the_whole_step(client: redis.Redis) -> None:
    """Before the first entry is written."""
    theirs = rq.Queue("low", connection=client, serializer=JSONSerializer)
    for id in ("w1", "w2"):
        theirs.enqueue(rq_tasks.fine, 3, job_id=id)
    before = client.hgetall("rq:job:w1")
    queue = RqQueue(client, "rq:low")
    run(client, queue._ensure_registered())
    rows = []
    for entry in queue.page("waiting", payloads=True).entries:
        shown = json.loads(entry.payload or b"")
        rows.append((entry.id, entry.payload or b"", json.dumps(shown | {"args": [9]}).encode()))

    def meanwhile() -> None:
        client.delete("rq:job:w2")
        client.set("rq:job:w2", "text")

    now = queue.now()
    with pytest.raises(RedisqError, match="rq:job:w2"):
        raced(client, queue.edit.op("op", 1, rows, source="waiting", high_water_ms=now), meanwhile)
    assert client.hgetall("rq:job:w1") == before

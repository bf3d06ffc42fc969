"""Very many jobs of other programs, waiting and dead, as these programs keep them."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

Command = tuple[Any, ...]
NOW = int(time.time() * 1000)
TEXT = "x" * 160
"""makes a job about 300 bytes long"""
DATA = json.dumps({"text": TEXT})
AT = "2026-01-01T00:00:00.000000Z"
WHY = {"error_class": "ValueError", "error_message": "no luck", "retry_count": 3}
NAMES = {
    "rq": "rq:mail",
    "arq": "arq:arq:queue",
    "celery": "celery:celery",
    "bullmq": "bullmq:mail",
    "bull": "bull:mail",
    "dramatiq": "dramatiq:mail",
    "sidekiq": "sidekiq:mail",
    "resque": "resque:mail",
    "asynq": "asynq:mail",
    "laravel": "laravel:mail",
}
"""kind -> the queue's name here"""


def rq(n: int) -> Iterator[Command]:
    yield "SADD", "rq:queues", "rq:queue:mail"
    for k in range(n):
        for state in ("w", "d"):
            yield (
                "HSET",
                f"rq:job:{state}{k}",
                "description",
                "f()",
                "origin",
                "mail",
                "data",
                TEXT,
                "created_at",
                AT,
                "enqueued_at",
                AT,
                "status",
                "queued" if state == "w" else "failed",
            )
        yield "RPUSH", "rq:queue:mail", f"w{k}"
        yield "ZADD", "rq:failed:mail", NOW // 1000 + 10**6 + k, f"d{k}"


def bullmq(n: int) -> Iterator[Command]:
    base = "bull:mail:"
    yield "HSET", base + "meta", "version", "bullmq:6.7.0", "opts.maxLenEvents", 10000
    for k in range(n):
        for state in ("w", "d"):
            yield (
                "HSET",
                f"{base}{state}{k}",
                "name",
                "f",
                "data",
                DATA,
                "opts",
                "{}",
                "timestamp",
                NOW,
                *(("finishedOn", NOW, "atm", 1) if state == "d" else ()),
            )
        yield "LPUSH", base + "wait", f"w{k}"
        yield "ZADD", base + "failed", NOW - k, f"d{k}"


def bull(n: int) -> Iterator[Command]:
    base = "bull:mail:"
    yield "SET", base + "id", 2 * n
    for k in range(n):
        for state in ("w", "d"):
            yield (
                "HSET",
                f"{base}{state}{k}",
                "name",
                "f",
                "data",
                DATA,
                "opts",
                "{}",
                "timestamp",
                NOW,
                "delay",
                0,
                "priority",
                0,
                *(("finishedOn", NOW, "attemptsMade", 1) if state == "d" else ()),
            )
        yield "LPUSH", base + "wait", f"w{k}"
        yield "ZADD", base + "failed", NOW - k, f"d{k}"


def dramatiq(n: int) -> Iterator[Command]:
    yield "ZADD", "dramatiq:__heartbeats__", NOW, "7f3f1f4e-7a2f-4ae4-b8f0-6e7fd1a3c111"
    for k in range(n):
        message = (
            f'{{"queue_name":"mail","actor_name":"f","args":[],"kwargs":{DATA},"options":'
            f'{{"redis_message_id":"%s{k}"}},"message_id":"m{k}","message_timestamp":{NOW}}}'
        )
        yield "HSET", "dramatiq:mail.msgs", f"w{k}", message % "w"
        yield "HSET", "dramatiq:mail.XQ.msgs", f"d{k}", message % "d"
        yield "RPUSH", "dramatiq:mail", f"w{k}"
        yield "ZADD", "dramatiq:mail.XQ", NOW - k, f"d{k}"


def celery(n: int) -> Iterator[Command]:
    yield "SADD", "_kombu.binding.celery", "celery\x06\x16\x06\x16celery"
    for k in range(n):
        headers = f'{{"id":"w{k}","task":"f","argsrepr":"({k}, \'eu\')","kwargsrepr":"{{}}"}}'
        yield "LPUSH", "celery", f'{{"headers":{headers},"body":"","properties":{{}}}}'
        call = f'"name":"f","args":[{k},"eu"],"kwargs":{{}},"queue":"celery","task_id":"d{k}"'
        raised = '"result":{"exc_type":"ValueError","exc_message":["no luck"]}'
        traceback = '"traceback":"' + "x" * 700 + '","date_done":"2023-11-14T22:13:20+00:00"'
        yield "SET", f"celery-task-meta-d{k}", f'{{"status":"FAILURE",{raised},{traceback},{call}}}'


def arq(n: int) -> Iterator[Command]:
    call = b'{"t":1,"f":"f","a":[],"k":%b,"et":%d' % (DATA.encode(), NOW)
    for k in range(n):
        yield "SET", f"arq:job:w{k}", call + b"}"
        yield "ZADD", "arq:queue", NOW - 10**6 + k, f"w{k}"
    for k in range(n // 10):
        result = b',"s":false,"r":"no luck","st":1,"ft":2,"q":"arq:queue","id":"d%d"}' % k
        yield "SET", f"arq:result:d{k}", call + result


def asynq(n: int) -> Iterator[Command]:
    """A message: type, payload, id, queue, retries, its timeout; a dead one with its failure. The
    payload's length, 128 to 255, takes two bytes."""
    yield "SADD", "asynq:queues", "mail"
    at, failed = "asynq:{mail}:", b"\x3a\x07no luck"
    for k in range(n):
        for id, state in ((f"w{k}", "pending"), (f"d{k}", "archived")):
            msg = b"\x0a\x01f\x12%c\x01%b\x1a%c%b" % (
                len(DATA),
                DATA.encode(),
                len(id),
                id.encode(),
            )
            msg += b"\x22\x04mail\x28\x19" + failed * (state == "archived") + b"\x40\x88\x0e"
            since = ("pending_since", NOW * 10**6) if state == "pending" else ()
            yield "HSET", f"{at}t:{id}", "msg", msg, "state", state, *since
        yield "LPUSH", at + "pending", f"w{k}"
        yield "ZADD", at + "archived", NOW // 1000 - k, f"d{k}"


def sidekiq(n: int) -> Iterator[Command]:
    yield "SADD", "queues", "mail"
    for k in range(n):
        job = {"class": "Hard", "args": [TEXT, k], "queue": "mail", "created_at": 1.7e9}
        yield "LPUSH", "queue:mail", json.dumps(job | {"jid": f"w{k}"})
        yield "ZADD", "dead", 1.7e9 + k / 100, json.dumps(job | WHY | {"jid": f"d{k}"})


def resque(n: int) -> Iterator[Command]:
    yield "SADD", "resque:queues", "mail"
    why = {"exception": "ValueError", "error": "no luck", "backtrace": ["a", "b"]}
    for k in range(n):
        job = {"class": "Hard", "args": [TEXT, k]}
        failure = {"failed_at": "2026/01/01 10:00:00 UTC", "payload": job, "queue": "mail"}
        yield "RPUSH", "resque:queue:mail", json.dumps(job)
        yield "RPUSH", "resque:failed", json.dumps(failure | why)


def laravel(n: int) -> Iterator[Command]:
    at, horizon = "laravel_database_queues:mail", "laravel_horizon:"
    for k in range(n):
        job = {"displayName": "Hard", "job": "Handler@call", "data": {"command": TEXT}}
        yield "RPUSH", at, json.dumps({"uuid": f"w{k}", "attempts": 0} | job)
        yield (
            "HSET",
            f"{horizon}d{k}",
            "queue",
            "mail",
            "status",
            "failed",
            "name",
            "Hard",
            "connection",
            "redis",
            "failed_at",
            NOW / 1000,
            "exception",
            "Error: no in /a.php:1",
            "payload",
            json.dumps({"uuid": f"d{k}", "attempts": 1} | job),
        )
        yield "ZADD", horizon + "failed_jobs", -NOW / 1000 - k, f"d{k}"


FILLED: dict[str, Callable[[int], Iterator[Command]]] = {
    "rq": rq,
    "arq": arq,
    "celery": celery,
    "bullmq": bullmq,
    "bull": bull,
    "dramatiq": dramatiq,
    "sidekiq": sidekiq,
    "resque": resque,
    "asynq": asynq,
    "laravel": laravel,
}


def fill(client: Any, kind: str, n: int) -> None:
    """Write ``n`` jobs that wait and ``n`` dead ones: w0, w1, … and d0, d1, …

    By small batches: a process that this one starts is said to have had as much memory as it.
    """
    commands = FILLED[kind](n)
    while batch := list(islice(commands, 1000)):
        pipe = client.pipeline(transaction=False)
        for command in batch:
            pipe.execute_command(*command)
        pipe.execute()

"""Keys of programs whose queues redisq reads and repairs but doesn't fill: RQ, arq, Dramatiq,
Celery, BullMQ, plain streams; and the worker processes that Sidekiq, Resque and RQ register."""

from __future__ import annotations

import json
import os
import zlib
from base64 import b64encode
from collections.abc import Collection
from datetime import UTC, datetime
from typing import Any

from redisq_ops.core.redis.operation import run
from redisq_ops.ops.deployment import Deployment
from redisq_ops.ops.discover import Discovery, named, register

SIDEKIQ_PROCESSES = {
    "app-1:4021:c0ffee": ["critical", "default"],
    "app-2:4021:facade": ["default", "mailers"],
}
RESQUE_WORKERS = ("jobs-1:77:archive,reports", "jobs-2:77:reports")
RQ_WORKERS = {"rq-eu-1": "thumbs", "rq-eu-2": "exports"}
DRAMATIQ_BROKER = "5f0c1d52-9d3e-4a1c-8a39-2f7b5d1e6c01"
STREAMS = {"clickstream": ("warehouse", 240), "payments": ("ledger", 60)}
"""stream -> its consumer group, events at first"""
HEARTBEAT_S = 60

_RQ_ERROR = """Traceback (most recent call last):
  File "tasks.py", line 12, in render
    return fetch(url)
requests.exceptions.ConnectTimeout: no answer from 198.51.100.7 within 10 s
"""
_ARQ_JOBS = ("sync_customer", "geocode", "warm_cache")


def write_keys(client: Any, now_ms: int, real: Collection[str] = ()) -> None:
    """Write keys as these programs would; not for programs in ``real``, which run themselves."""
    pipe = client.pipeline(transaction=False)
    for name, write in _WRITERS.items():
        if name not in real:
            write(pipe, now_ms)
    for name, (group, size) in STREAMS.items():
        for n in range(size):
            pipe.xadd(name, _event(name, n))
        pipe.xgroup_create(name, group, "0")
        pipe.xreadgroup(group, f"{group}-1", {name: ">"}, count=size // 6)
    beat(pipe, now_ms, real)
    pipe.execute()


def beat(pipe: Any, now_ms: int, real: Collection[str] = ()) -> None:
    """The heartbeats of the worker processes; RQ's and Dramatiq's only if not among ``real``. The
    consumer of each stream takes an event, and one more comes."""
    now = now_ms / 1000
    for name, (group, size) in STREAMS.items():
        pipe.xadd(name, _event(name, size), maxlen=4 * size, approximate=False)
        pipe.xreadgroup(group, f"{group}-1", {name: ">"}, count=1, noack=True)
    for name, queues in SIDEKIQ_PROCESSES.items():
        host, pid, _ = name.split(":")
        info = {"hostname": host, "pid": int(pid), "queues": queues, "started_at": now - 90_000}
        pipe.sadd("processes", name)
        fields = {"info": json.dumps(info), "busy": "0", "beat": str(now), "quiet": "false"}
        pipe.hset(name, mapping=fields)
        pipe.expire(name, HEARTBEAT_S)
    for name in RESQUE_WORKERS:
        pipe.sadd("resque:workers", name)
        pipe.hset("resque:workers:heartbeat", name, _iso(now))
        pipe.set(f"resque:worker:{name}:started", _iso(now - 86_400), nx=True)
    if "dramatiq" not in real:
        pipe.zadd("dramatiq:__heartbeats__", {DRAMATIQ_BROKER: now_ms})
    for name, queue in RQ_WORKERS.items() if "rq" not in real else ():
        key = f"rq:worker:{name}"
        pipe.sadd("rq:workers", key)
        pipe.hset(
            key,
            mapping={
                "hostname": name,
                "pid": "31",
                "queues": queue,
                "birth": _iso(now - 40_000),
                "last_heartbeat": _iso(now),
                "state": "busy",
            },
        )


def _event(stream: str, n: int) -> dict[Any, Any]:
    return {"data": json.dumps({"event": f"{stream}-{n}", "amount": 7 * n})}


def register_found(client: Any) -> None:
    """Register the queues of other programs, as `redisq discover --register` does."""
    deployment = Deployment(client)
    search = Discovery(deployment)
    while run(client, search.step()):
        pass
    found = run(client, named(deployment, run(client, search.finds())))
    run(client, register(deployment, [one.entry for one in found if not one.registered]))


def _rq(pipe: Any, now_ms: int) -> None:
    now = now_ms / 1000
    for queue, waiting, started, scheduled, failed in (
        ("thumbs", 14, 2, 6, 5),
        ("exports", 3, 1, 0, 0),
    ):
        pipe.sadd("rq:queues", f"rq:queue:{queue}")
        for n in range(waiting + started + scheduled + failed):
            id = f"{queue}-{n}"
            fields = {
                "created_at": _iso(now - 60),
                "enqueued_at": _iso(now - 50 - n),
                "origin": queue,
                "description": f"tasks.render('{id}.png', width=640)",
                "data": os.urandom(90),
                "timeout": "180",
            }
            if n < waiting:
                pipe.rpush(f"rq:queue:{queue}", id)
                fields["status"] = "queued"
            elif n < waiting + started:
                pipe.zadd(f"rq:wip:{queue}", {f"{id}:{n:032x}": now + 180})
                fields |= {"status": "started", "started_at": _iso(now - 9)}
            elif n < waiting + started + scheduled:
                pipe.zadd(f"rq:scheduled:{queue}", {id: int(now) + 3_600 + 60 * n})
                fields["status"] = "scheduled"
            else:
                fields |= {
                    "status": "failed",
                    "ended_at": _iso(now - 400),
                    "exc_info": zlib.compress(_RQ_ERROR.encode()),
                }
                pipe.zadd(f"rq:failed:{queue}", {id: now + 86_400 * 365})
            pipe.hset(f"rq:job:{id}", mapping=fields)


def _arq(pipe: Any, now_ms: int) -> None:
    for n in range(22):
        id = f"{_ARQ_JOBS[n % 3]}-{n}"
        job: dict[str, Any] = {
            "t": None,
            "f": _ARQ_JOBS[n % 3],
            "a": [n, "eu"],
            "k": {},
            "et": now_ms - 9_000,
        }
        pipe.set(f"arq:job:{id}", json.dumps(job))
        later = 60_000 * n if n % 2 else -1_000 * n
        pipe.zadd("arq:queue", {id: now_ms + later})
        if n in (18, 20):
            pipe.set(f"arq:in-progress:{id}", "1", px=3_600_000)


def _dramatiq(pipe: Any, now_ms: int) -> None:
    for n in range(25):
        id = f"0d9f8c1e-{n:04}"
        options: dict[str, Any] = {"redis_message_id": id}
        queue = "emails"
        if n >= 21:
            queue = "emails.XQ"
            options |= {"retries": 20, "traceback": _RQ_ERROR}
            pipe.zadd(f"dramatiq:{queue}", {id: now_ms - 600_000 * n})
        elif n >= 18:
            queue = "emails.DQ"
            options["eta"] = now_ms + 600_000 * n
            pipe.rpush(f"dramatiq:{queue}", id)
        elif n >= 14:
            pipe.sadd(f"dramatiq:__acks__.{DRAMATIQ_BROKER}.{queue}", id)
        else:
            pipe.rpush(f"dramatiq:{queue}", id)
        message = {
            "queue_name": queue,
            "actor_name": "send_welcome",
            "args": [n],
            "kwargs": {},
            "options": options,
            "message_id": id,
            "message_timestamp": now_ms - 40_000 - n,
        }
        pipe.hset(f"dramatiq:{queue}.msgs", id, json.dumps(message, separators=(",", ":")))


def _celery(pipe: Any, now_ms: int) -> None:
    for queue, waiting, running, held in (("ledger", 9, 4, 5), ("reports", 31, 0, 0)):
        pipe.sadd(f"_kombu.binding.{queue}", f"{queue}\x06\x16\x06\x16{queue}")
        for n in range(waiting + running + held):
            id = f"7b1f0e9a-{queue}-{n:04}"
            body = b64encode(json.dumps([[n, "EUR"], {}, {}]).encode()).decode()
            headers = {"task": f"{queue}.book", "id": id, "retries": 0, "argsrepr": f"({n}, 'EUR')"}
            if n >= waiting + running:
                headers["eta"] = _iso(now_ms / 1000 + 7_200)
            message = {
                "body": body,
                "headers": headers,
                "content-type": "application/json",
                "content-encoding": "utf-8",
                "properties": {
                    "correlation_id": id,
                    "delivery_tag": id,
                    "body_encoding": "base64",
                    "delivery_info": {"exchange": "", "routing_key": queue},
                },
            }
            if n < waiting:
                pipe.lpush(queue, json.dumps(message))
            else:
                pipe.hset("unacked", id, json.dumps([message, "", queue]))
                pipe.zadd("unacked_index", {id: now_ms / 1000})


def _bullmq(pipe: Any, now_ms: int) -> None:
    at = "bull:checkout:"
    pipe.hset(f"{at}meta", mapping={"version": "bullmq:5.61.0", "opts.maxLenEvents": "10000"})
    states = ["wait"] * 16 + ["failed"] * 4 + ["active"] * 3 + ["delayed"] * 7
    for n, state in enumerate(states, 1):
        fields = {
            "name": "charge",
            "data": json.dumps({"order": 4_000 + n, "amount": 9.9 * n}),
            "opts": '{"attempts": 3}',
            "timestamp": now_ms - 30_000 * n,
            "priority": 0,
        }
        if state == "failed":
            trace = "Error: card declined\n    at charge (/app/checkout.js:41:11)"
            fields |= {
                "processedOn": now_ms - 20_000 * n,
                "finishedOn": now_ms - 19_000 * n,
                "atm": 3,
                "failedReason": "card declined",
                "stacktrace": json.dumps([trace]),
            }
            pipe.zadd(f"{at}failed", {str(n): now_ms - 19_000 * n})
        elif state == "delayed":
            fields["delay"] = 3_600_000
            pipe.zadd(f"{at}delayed", {str(n): (now_ms + 600_000 * n) * 4096})
        else:
            pipe.lpush(f"{at}{state}", n)
        if state == "active":
            fields |= {"processedOn": now_ms - 2_000, "ats": 1}
            pipe.set(f"{at}{n}:lock", "token", px=3_600_000)
        pipe.hset(f"{at}{n}", mapping=fields)


_WRITERS = {
    "arq": _arq,
    "bullmq": _bullmq,
    "celery": _celery,
    "dramatiq": _dramatiq,
    "rq": _rq,
}


def _iso(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")

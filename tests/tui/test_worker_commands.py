"""Commands to workers of other programs from the dashboard, on a real server."""

import asyncio
from typing import Any

import pytest
import redis
from textual.pilot import Pilot

from redisq_ops.core.engine.registry import Registered
from redisq_ops.core.redis.operation import run
from redisq_ops.ops.deployment import Deployment
from redisq_ops.ops.discover import register
from redisq_ops.tui.app import Top

from .test_app import drive_in, press, see, told, until
from .test_periodic import confirmed

pytestmark = [pytest.mark.alike, pytest.mark.slow]
PROCESS = "app-1:42:abc"


def test_a_process_is_quieted_and_stopped(url: str, client: redis.Redis) -> None:
    client.sadd("queues", "low")
    client.lpush("queue:low", '{"class": "A", "args": [], "jid": "1"}')
    client.sadd("processes", PROCESS)
    client.hset(PROCESS, "info", '{"hostname":"app-1","pid":42,"queues":["low"],"started_at":1.0}')
    run(client, register(Deployment(client), [Registered("sidekiq:low", "sidekiq", 1, 0, at="")]))

    async def body(app: Top, pilot: Pilot[Exception]) -> None:
        await press(pilot, "m")
        await see(pilot, PROCESS)
        await confirmed(pilot, "H", f"Quiet worker {PROCESS} of sidekiq:low?", "takes no more jobs")
        await told(pilot, "has still to read it")
        assert client.lrange(f"{PROCESS}-signals", 0, -1) == [b"TSTP"]
        await confirmed(pilot, "K", f"Stop worker {PROCESS} of sidekiq:low?", "there is no undo")
        await until(pilot, lambda: client.llen(f"{PROCESS}-signals") == 2)
        assert client.lindex(f"{PROCESS}-signals", 0) == b"TERM"
        await press(pilot, "4", "K")
        await see(pilot, "Sidekiq has no command for it")

    drive_in(url, body, "9")


def test_a_job_is_stopped_from_the_pending_ones(url: str, client: Any) -> None:
    client.sadd("rq:queues", "rq:queue:low")
    client.zadd("rq:wip:low", {"a": 4_000_000_000})
    job: Any = {"data": "x", "origin": "low", "status": "started", "worker_name": "w1"}
    client.hset("rq:job:a", mapping=job)
    run(client, register(Deployment(client), [Registered("rq:low", "rq", 1, 0, at="rq:")]))
    heard = client.pubsub()
    heard.subscribe("rq:pubsub:w1")
    heard.get_message(timeout=5)

    async def body(app: Top, pilot: Pilot[Exception]) -> None:
        await press(pilot, "4")
        await see(pilot, "w1")
        await confirmed(pilot, "K", "Stop job a of rq:low?", "kills the process")
        await told(pilot, "job a: 1 worker heard it")
        message = await asyncio.to_thread(heard.get_message, timeout=5)
        assert message is not None and b"stop-job" in message["data"]

    drive_in(url, body, "9")
    heard.close()

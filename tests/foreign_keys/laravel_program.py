"""What Laravel and Horizon write: by their sources, and by Laravel's packages where they are.

The framework (13.26): `RedisQueue`, `LuaScripts`, `Queue`. Horizon (5.29): `RedisQueue`,
`JobPayload`, `RedisJobRepository`, `RetryFailedJob`, and its listeners of the queue's events. No
test runs Horizon, which isn't among Debian's packages; `Framework` runs the framework.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from functools import cache
from pathlib import Path
from typing import Any
from uuid import NAMESPACE_OID, UUID, uuid5

import pytest

from .listening_program import listening

THROWN = (
    "PDOException: gone away in /app/vendor/db.php:7\nStack trace:\n#0 {main}\n\n"
    "Next App\\Exceptions\\Declined: no card for order %s in /app/app/Jobs/Charge.php:31\n"
    "Stack trace:\n#0 /app/vendor/laravel/queue.php(12): App\\Jobs\\Charge->handle()\n#1 {main}"
)
HOUR, WEEK = 3600, 604_800


def uuid(name: str) -> str:
    return str(uuid5(NAMESPACE_OID, name))


def encoded(value: Any) -> str:
    return json.dumps(value, separators=(",", ":")).replace("/", "\\/")


class Program:
    """An application with a queue connection, and Horizon (``horizon`` empty: without it)."""

    def __init__(
        self,
        client: Any,
        queue: str = "low",
        at: str = "laravel_database_",
        horizon: str = "laravel_horizon:",
        handler: str = "",
    ) -> None:
        """``handler``: jobs are pushed by its name and with plain data, without an object."""
        self.handler = handler
        self.client, self.queue, self.horizon = client, queue, horizon
        self.key = f"{at}queues:{queue}"

    def payload(self, name: str, task: str = "Fine", **data: Any) -> str:
        """As `createObjectPayload` makes it, and Horizon's `JobPayload::prepare`."""
        # The serialised object is any text here.
        command = f'O:{len(task) + 9}:"App\\Jobs\\{task}":1:{{s:4:"what";s:{len(name)}:"{name}";}}'
        job = {
            "uuid": uuid(name),
            "displayName": f"App\\Jobs\\{task}",
            "job": "Illuminate\\Queue\\CallQueuedHandler@call",
            "maxTries": 1,
            "maxExceptions": None,
            "failOnTimeout": False,
            "backoff": None,
            "timeout": None,
            "retryUntil": None,
            "data": {"commandName": f"App\\Jobs\\{task}", "command": command} | data,
            "createdAt": int(time.time()),
            "id": uuid(name),
            "attempts": 0,
        }
        if self.handler:  # `createStringPayload`
            job |= {"job": self.handler, "data": {"what": name} | data}
        if self.horizon:
            job |= {"type": "job", "tags": [f"what:{name}"], "silenced": False}
            job["pushedAt"] = f"{time.time():.4f}"
        else:
            job["id"] = UUID(uuid(name)).hex
        return encoded(job)

    # --- the queue -------------------------------------------------------------------------------

    def push(self, payload: str) -> None:
        self.client.rpush(self.key, payload)
        self.client.rpush(f"{self.key}:notify", 1)
        self._pushed(payload)

    def later(self, seconds: int, payload: str) -> None:
        payload = encoded(json.loads(payload) | {"delay": seconds})
        self.client.zadd(f"{self.key}:delayed", {payload: int(time.time()) + seconds})
        self._pushed(payload)

    def pop(self, retry_after: int = 60) -> str:
        """A worker takes the next job; returns the record that it has."""
        job = json.loads(self.client.lpop(self.key))
        reserved = encoded(job | {"attempts": job["attempts"] + 1})
        self.client.zadd(f"{self.key}:reserved", {reserved: int(time.time()) + retry_after})
        self.client.lpop(f"{self.key}:notify")
        self._noted(reserved, "reserved", reserved_at=_now())
        return reserved

    def migrate(self, part: str, id: str) -> None:
        """What `migrateExpiredJobs` does with a job that is due."""
        key = f"{self.key}:{part}"
        (job,) = (job for job in self.client.zrange(key, 0, -1) if json.loads(job)["uuid"] == id)
        self.client.zrem(key, job)
        self.client.rpush(self.key, job)
        self.client.rpush(f"{self.key}:notify", 1)
        self._noted(job.decode(), "pending")

    # --- Horizon ---------------------------------------------------------------------------------

    def _pushed(self, payload: str) -> None:
        if not self.horizon:
            return
        job = json.loads(payload)
        self._refer(job["uuid"], "recent_jobs", "pending_jobs")
        of = {"id": job["uuid"], "connection": "redis", "queue": self.queue}
        of |= {"name": job["displayName"], "status": "pending", "payload": payload}
        self.client.hset(
            self.horizon + job["uuid"], mapping=of | {"created_at": _now(), "updated_at": _now()}
        )
        self.client.expire(self.horizon + job["uuid"], HOUR)

    def _noted(self, payload: str, status: str, **more: str) -> None:
        if self.horizon:
            of = {"status": status, "payload": payload, "updated_at": _now()}
            self.client.hset(self.horizon + json.loads(payload)["uuid"], mapping=of | more)

    def _refer(self, id: str, *names: str) -> None:
        for name in names:
            self.client.zadd(self.horizon + name, {id: -time.time()})

    def fail(self, reserved: str, what: str = "1") -> None:
        """A worker gives a job up."""
        job = json.loads(reserved)
        self.client.zrem(f"{self.key}:reserved", reserved)
        self._refer(job["uuid"], "failed_jobs", "recent_failed_jobs")
        self.client.zrem(self.horizon + "pending_jobs", job["uuid"])
        of = {"id": job["uuid"], "connection": "redis", "queue": self.queue}
        of |= {"name": job["displayName"], "status": "failed", "payload": reserved}
        of |= {"exception": THROWN % what, "context": "", "failed_at": _now()}
        self.client.hset(self.horizon + job["uuid"], mapping=of)
        self.client.expire(self.horizon + job["uuid"], WEEK)
        if parent := job.get("retry_of"):
            self._ended(parent, job["uuid"], "failed")

    def complete(self, reserved: str) -> None:
        job = json.loads(reserved)
        self.client.zrem(f"{self.key}:reserved", reserved)
        self._refer(job["uuid"], "completed_jobs")
        self.client.zrem(self.horizon + "pending_jobs", job["uuid"])
        of = {"status": "completed", "completed_at": _now()}
        self.client.hset(self.horizon + job["uuid"], mapping=of)
        if parent := job.get("retry_of"):
            self._ended(parent, job["uuid"], "completed")

    def _ended(self, parent: str, id: str, status: str) -> None:
        noted = json.loads(self.client.hget(self.horizon + parent, "retried_by"))
        noted = [each | ({"status": status} if each["id"] == id else {}) for each in noted]
        self.client.hset(self.horizon + parent, "retried_by", encoded(noted))

    def retry(self, id: str) -> None:
        """`RetryFailedJob`, with the id for the retry that redisq chooses."""
        key = self.horizon + id
        job = json.loads(self.client.hget(key, "payload"))
        new = uuid(f"{id} {self.client.hget(key, 'failed_at').decode()}")
        again = {"id": new, "uuid": new, "attempts": 0, "retry_of": id}
        until = job.get("retryUntil")
        if until:
            until = int(time.time()) + -int(-(until - float(job["pushedAt"])) // 1)
        prepared = {"type": "job", "tags": job.get("tags", []), "silenced": False}
        self.push(encoded(job | again | {"retryUntil": until} | prepared | {"pushedAt": _now()}))
        noted = json.loads(self.client.hget(key, "retried_by") or "[]")
        noted.append({"id": new, "status": "pending", "retried_at": int(time.time())})
        self.client.hset(key, "retried_by", encoded(noted))

    def forget(self, id: str) -> None:
        """`RedisJobRepository::deleteFailed`."""
        if self.client.zrem(self.horizon + "failed_jobs", id):
            self.client.delete(self.horizon + id)


@cache
def framework_installed() -> bool:
    """Whether PHP, its Redis extension and Laravel's packages are here, as Debian has them. Where
    they are required, the test fails without them."""
    needs = 'require "Illuminate/Queue/autoload.php"; class_exists("Redis") || exit(1);'
    there = shutil.which("php") is not None and not subprocess.call(
        ["php", "-r", needs], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    if not there and os.environ.get("REDISQ_REQUIRE_LARAVEL"):
        pytest.fail("Laravel's packages are required and not installed")
    return there


class Framework:
    """Laravel's own queue (see `laravel_jobs.php`), without Horizon; skips where it isn't."""

    def __init__(self, client: Any, queue: str = "low", at: str = "laravel_database_") -> None:
        if not framework_installed():
            pytest.skip("needs php-cli, php-redis, php-illuminate-queue and -redis")
        self.client, self.key = client, f"{at}queues:{queue}"
        port = str(client.connection_pool.connection_kwargs["port"])
        script = str(Path(__file__).parent / "laravel_jobs.php")
        self._program = listening("php", script, port, at, queue, environment=(("TZ", "UTC"),))

    def does(self, *calls: tuple[Any, ...]) -> None:
        self._program.does(json.dumps([[method, arguments] for method, *arguments in calls]))

    def migrate(self, part: str, id: str) -> None:
        """As if the only job that is due were this one."""
        key = f"{self.key}:{part}"
        (job,) = (job for job in self.client.zrange(key, 0, -1) if json.loads(job)["uuid"] == id)
        self.client.zadd(key, {job: 1})
        self.does(("migrate", part, 1))


def job(name: str, task: str = "Fine") -> tuple[str, str, str]:
    """Of a job that `Framework` makes: its class, its uuid, and what it is about."""
    return task, uuid(name), name


def framework_specimen(client: Any) -> None:
    """Jobs that the framework itself made, in every state that it keeps; what Horizon keeps of
    others, by its sources."""
    framework, horizon = Framework(client), Program(client)
    for n in range(4):
        horizon.push(horizon.payload(f"bad{n}", "Charge"))
        horizon.fail(horizon.pop(), str(n))
        horizon.push(horizon.payload(f"good{n}"))
        horizon.complete(horizon.pop())
    for n in range(3):  # they fail for the first time
        framework.does(("push", *job(f"again{n}", "Export")), ("work",))
    framework.does(("push", *job("runs", "Export")), ("pop",))
    for n in range(4):  # a worker that asked for a job now would put them back
        framework.does(("push", *job(f"lost{n}", "Export")), ("pop", 95 - n))
    for n in range(6):
        framework.does(("push", *job(f"w{n}")), ("later", 9000 + n, *job(f"late{n}")))


def _now() -> str:
    return f"{time.time():.4f}"


def specimen(client: Any, handler: str = "") -> None:
    """Jobs in every state of the queue ``low``, and some of another queue."""
    program, other = Program(client, handler=handler), Program(client, "other")
    for n in range(5):
        program.push(program.payload(f"bad{n}", "Charge", order=n, region="eu"))
        program.fail(program.pop(), str(n))
    for n in range(4):
        program.push(program.payload(f"good{n}"))
        program.complete(program.pop())
    for n in range(5):
        program.push(program.payload(f"lost{n}", "Export"))
        program.pop(retry_after=n - 90)
    program.push(program.payload("runs", "Export"))
    program.pop()
    for n in range(6):
        program.push(program.payload(f"w{n}", order=n))
        program.later(9000 + n, program.payload(f"late{n}"))
    other.push(other.payload("elsewhere", "Charge"))
    other.fail(other.pop())
    other.push(other.payload("over"))
    other.complete(other.pop())
    other.push(other.payload("waits"))
    # An hour later Horizon has forgotten what is still pending.
    for id in client.zrange("laravel_horizon:pending_jobs", 0, -1):
        client.delete(b"laravel_horizon:" + id)
    client.delete("laravel_horizon:pending_jobs")

"""A real BullMQ: its packages from npm, its queues and workers in processes of Node's."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import redis

from .listening_program import listening

VERSIONS = ("6.7.0", "5.81.5")
_CACHE = Path(__file__).parents[2] / ".pytest_cache"
_SCRIPT = Path(__file__).with_name("bullmq_jobs.cjs")


@cache
def packages(version: str) -> Path:
    """The folder of BullMQ's packages: installed once, and kept beside pytest's cache. The test is
    skipped where there is no Node, unless it is required."""
    if not (shutil.which("npm") and shutil.which("node")):
        if os.environ.get("REDISQ_REQUIRE_NODE"):
            pytest.fail("node and npm are required and not installed")
        pytest.skip("needs node and npm")
    folder = _CACHE / f"bullmq-{version}"
    if not folder.exists():
        _CACHE.mkdir(exist_ok=True)
        with tempfile.TemporaryDirectory(dir=_CACHE) as fresh:
            quiet = ["--no-audit", "--no-fund", "--ignore-scripts", "--loglevel", "error"]
            install = ["npm", "install", "--prefix", f"{fresh}/bullmq", *quiet]
            subprocess.run([*install, f"bullmq@{version}", "ioredis@5"], check=True)
            with suppress(OSError):  # another process was first
                os.rename(f"{fresh}/bullmq", folder)
    return folder / "node_modules"


class Program:
    """A release of BullMQ on a server, and its queue ``mail``."""

    def __init__(self, client: redis.Redis, version: str = VERSIONS[0]) -> None:
        self.client = client
        self.port = str(client.connection_pool.connection_kwargs["port"])
        self.environment = os.environ | {"NODE_PATH": str(packages(version))}

    def _started(self, *words: str, **options: Any) -> subprocess.Popen[bytes]:
        command = ["node", str(_SCRIPT), self.port, *words]
        return subprocess.Popen(command, env=self.environment, stderr=subprocess.DEVNULL, **options)

    def call(self, *calls: list[Any]) -> list[Any]:
        """Methods of its Queue, one after the other: what they return, a job by its id."""
        with self._started("call", json.dumps(calls), stdout=subprocess.PIPE) as process:
            out, _ = process.communicate(timeout=60)
            assert process.returncode == 0
        found: list[Any] = json.loads(out)
        return found

    def does(self, id: str, method: str) -> None:
        """A method of a job."""
        environment = tuple(self.environment.items())
        command = "node", str(_SCRIPT), self.port, "listen"
        listening(*command, environment=environment).does(f"{id} {method}")

    def flow(self, option: str = "ignoreDependencyOnFailure") -> None:
        with self._started("flow", option) as process:
            assert process.wait(60) == 0

    def work(self, n: int) -> None:
        """A worker, until so many jobs have ended."""
        with self._started("work", str(n)) as process:
            assert process.wait(60) == 0

    @contextmanager
    def worker(self) -> Iterator[subprocess.Popen[bytes]]:
        with self._started("work") as process:
            try:
                yield process
            finally:
                process.kill()


def add(name: str, id: str, **options: Any) -> list[Any]:
    return ["add", name, {"what": id, "region": "eu"}, {"jobId": id} | options]


def wait(true: Any) -> None:
    deadline = time.monotonic() + 90
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.02)


_specimens: dict[str, list[tuple[bytes, bytes, int]]] = {}


def specimen(client: redis.Redis) -> None:
    """Jobs in every state of the queue ``mail``; made once for a server."""
    program = Program(client)
    if program.port not in _specimens:
        _fill(program)
        keys = list(client.scan_iter())
        _specimens[program.port] = [(k, client.dump(k) or b"", client.pexpiretime(k)) for k in keys]
        return
    for key, data, until in _specimens[program.port]:
        client.restore(key, max(0, until), data, absttl=until > 0)


def _fill(program: Program) -> None:
    client = program.client
    client.set("broken", 1)
    program.call(
        *[add("fails", f"bad{n}", priority=5 * (n % 2)) for n in range(4)],
        *[add("fine", f"good{n}") for n in range(3)],
    )  # fmt: skip
    program.work(7)
    program.call(*[add("lasts", f"run{n}") for n in range(4)])
    with program.worker():
        wait(lambda: client.get("started") == b"4")
    for n in range(4):
        client.delete(f"bull:mail:run{n}:lock")  # as it expires
    program.call(
        *[add("fine", f"w{n}", priority=3 if n > 3 else 0) for n in range(6)],
        *[add("fine", f"d{n}", delay=9_000_000 + n) for n in range(5)],
    )  # fmt: skip

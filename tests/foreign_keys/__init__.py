"""Other programs' keys for the tests: recorded ones, and those a real Sidekiq writes."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import redis

from redisq_ops.core.foreign.ruby_jobs import Job
from redisq_ops.core.foreign.sidekiq import SidekiqQueue

HERE = Path(__file__).parent
_PUT: dict[str, Callable[[redis.Redis, str, Any], Any]] = {
    "string": lambda client, key, value: client.set(key, value),
    "set": lambda client, key, value: client.sadd(key, *value),
    "list": lambda client, key, value: client.rpush(key, *value),
    "hash": lambda client, key, value: client.hset(key, mapping=value),
    "zset": lambda client, key, value: client.zadd(key, dict(value)),
}


def put(client: redis.Redis, name: str) -> None:
    """Write a recorded layout: key → {type: content}."""
    for key, typed in json.loads((HERE / f"{name}.json").read_text()).items():
        ((kind, value),) = typed.items()
        _PUT[kind](client, key, value)


def far_apart(client: redis.Redis) -> None:
    """Scheduled jobs of ``sidekiq:low``: near of 2030, and far: ms where seconds are meant."""
    SidekiqQueue(client, "sidekiq:low").push([Job("Note", ["now"])])
    for id, score in (("near", 1_893_456_000), ("far", 1_795_435_887_000)):
        job = {"class": "Note", "args": [], "jid": id, "queue": "low", "created_at": 1_700_000_000}
        client.zadd("schedule", {json.dumps(job): score})


class Sidekiq:
    """Debian's Sidekiq with the jobs of ``app.rb``; ``log`` is what they wrote."""

    def __init__(self, url: str, folder: Path) -> None:
        self._log = folder / "ran"
        self._said = folder / "said"
        self._env = os.environ | {"REDIS_URL": url, "REDISQ_TEST_LOG": str(self._log)}

    def client(self) -> None:
        """Run the part of ``app.rb`` that pushes."""
        subprocess.run(["ruby", str(HERE / "app.rb"), "push"], env=self._env, check=True)

    def ruby(self, code: str) -> None:
        subprocess.run(["ruby", "-r", "sidekiq/api", "-e", code], env=self._env, check=True)

    @property
    def log(self) -> list[str]:
        return self._log.read_text().splitlines() if self._log.exists() else []

    def until(self, what: str, done: Callable[[], bool], seconds: float = 90) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if done():
                return
            time.sleep(0.05)
        pytest.fail(f"gave up waiting: {what}\n{self._said.read_text()[-2000:]}")

    @contextmanager
    def working(self, *queues: str) -> Iterator[subprocess.Popen[bytes]]:
        """A worker process of three threads; stopped in the end if it still runs."""
        command = ["sidekiq", "-r", str(HERE / "app.rb"), "-c", "3", "-t", "1", "-e", "test"]
        for queue in queues or ("default",):
            command += ["-q", queue]
        with self._said.open("ab") as said:
            process = subprocess.Popen(command, env=self._env, stdout=said, stderr=said)
        try:
            yield process
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
            process.wait(90)


@pytest.fixture
def sidekiq(url: str, tmp_path: Path) -> Sidekiq:
    """Sidekiq on an empty server; skips where it isn't installed, unless it has to be."""
    if shutil.which("sidekiq") is None:
        if os.environ.get("REDISQ_REQUIRE_SIDEKIQ"):
            pytest.fail("no Sidekiq on this machine, and the tests need one")
        pytest.skip("Sidekiq isn't installed (apt-get install ruby-sidekiq)")
    return Sidekiq(url, tmp_path)

"""Programs of Node's: their queues and workers in processes."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import redis

from .listening_program import listening

_HERE = Path(__file__).parent


class NodeProgram:
    """A program on a server, and its queue ``mail``: ``script`` runs with its ``packages``."""

    def __init__(self, client: redis.Redis, script: str, packages: Path) -> None:
        self.client, self.packages = client, packages
        self.script = str(_HERE / script)
        self.port = str(client.connection_pool.connection_kwargs["port"])
        self.environment = os.environ | {"NODE_PATH": str(packages)}

    def _started(self, *words: str, **options: Any) -> subprocess.Popen[bytes]:
        command = ["node", self.script, self.port, *words]
        return subprocess.Popen(command, env=self.environment, stderr=subprocess.DEVNULL, **options)

    def call(self, *calls: list[Any]) -> list[Any]:
        """Methods of its Queue, one after the other: what they return, a job by its id."""
        with self._started("call", json.dumps(calls), stdout=subprocess.PIPE) as process:
            try:
                out, _ = process.communicate(timeout=90)
                assert process.returncode == 0
            finally:
                process.kill()
        found: list[Any] = json.loads(out)
        return found

    def does(self, id: str, method: str) -> None:
        """A method of a job."""
        environment = tuple(self.environment.items())
        command = "node", self.script, self.port, "listen"
        listening(*command, environment=environment).does(f"{id} {method}")

    def work(self, n: int) -> None:
        """A worker, until so many jobs have ended."""
        with self._started("work", str(n)) as process:
            try:
                assert process.wait(90) == 0
            finally:
                process.kill()

    @contextmanager
    def worker(self) -> Iterator[subprocess.Popen[bytes]]:
        with self._started("work") as process:
            try:
                yield process
            finally:
                process.kill()


P = TypeVar("P", bound=NodeProgram)
_made: dict[tuple[Path, str], list[tuple[bytes, bytes, int]]] = {}


def made_once(program: P, fill: Callable[[P], object]) -> None:
    """What ``fill`` writes; made once for a server, then restored."""
    client, of = program.client, (program.packages, program.port)
    if of not in _made:
        fill(program)
        keys = list(client.scan_iter())
        _made[of] = [(key, client.dump(key) or b"", client.pexpiretime(key)) for key in keys]
        return
    for key, data, until in _made[of]:
        client.restore(key, max(0, until), data, absttl=until > 0)


def wait(true: Any) -> None:
    deadline = time.monotonic() + 90
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.02)

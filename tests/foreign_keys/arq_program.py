"""A real arq. It needs an older redis-py than ours, so it has a folder of packages of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import redis

from .installed_releases import packages

VERSION = "0.28.0"
_SCRIPT = Path(__file__).with_name("arq_jobs.py")
Job = tuple[str, list[Any], dict[str, Any]]


def started(client: redis.Redis, command: str, *rest: str) -> subprocess.Popen[bytes]:
    """A process of it beside a server (see `arq_jobs`)."""
    port = client.connection_pool.connection_kwargs["port"]
    return subprocess.Popen(
        [sys.executable, "-S", str(_SCRIPT), str(port), command, *rest],
        env=os.environ | {"PYTHONPATH": str(packages("arq", VERSION))},
        stderr=subprocess.DEVNULL,
    )


def enqueue(client: redis.Redis, *jobs: Job) -> None:
    with started(client, "enqueue", json.dumps(jobs)) as process:
        assert process.wait(90) == 0


def work(client: redis.Redis, queue: str = "arq:queue") -> None:
    """A worker, until nothing that is due is left, or it is gone."""
    with started(client, "work", queue) as process:
        assert process.wait(90) == 0


_specimens: dict[int, list[tuple[bytes, bytes, int]]] = {}


def specimen(client: redis.Redis) -> None:
    """Jobs in every state of ``arq:queue``, and some of another queue; made once for a server."""
    port = client.connection_pool.connection_kwargs["port"]
    if port not in _specimens:
        fill(client)
        keys = list(client.scan_iter())
        _specimens[port] = [(k, client.dump(k) or b"", client.pexpiretime(k)) for k in keys]
        return
    for key, data, until in _specimens[port]:
        client.restore(key, max(0, until), data, absttl=until > 0)


def fill(client: redis.Redis) -> None:
    other = {"_queue_name": "other"}
    enqueue(
        client,
        *[("fails", ["luck"], {"order": n, "_job_id": f"bad{n}"}) for n in range(4)],
        *[("fine", [n], {"_job_id": f"good{n}"}) for n in range(4)],
        *[("fails", ["luck"], {"_job_id": f"other{n}"} | other) for n in range(2)],
    )
    work(client)
    work(client, "other")
    enqueue(
        client,
        *[("lasts", [], {"_job_id": f"run{n}"}) for n in range(3)],
        ("vanishes", [3], {"_job_id": "run3"}),
    )
    work(client)
    enqueue(
        client,
        *[("fine", [n], {"_job_id": f"w{n}"}) for n in range(6)],
        *[("fine", [n], {"_job_id": f"d{n}", "_defer_by": 9000 + n}) for n in range(6)],
        *[("fine", [n], {"_job_id": f"otherd{n}", "_defer_by": 9000} | other) for n in range(2)],
    )

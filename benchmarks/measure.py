"""Rounds, servers and the server's own accounting."""

from __future__ import annotations

import os
import statistics
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from ctypes.util import find_library
from pathlib import Path
from typing import Any

import redis

from redisq_ops.core.redis.client import connect
from redisq_ops.core.worker import Worker
from redisq_ops.demo.server import EmbeddedServer, binaries

ROUNDS = 5


@contextmanager
def servers(in_use: bool = False) -> Iterator[Iterable[tuple[str, redis.Redis]]]:
    """A client of a new server of each kind on this machine.

    ``in_use``: use jemalloc if it is installed, as servers in production do: Linux builds have it,
    Valkey's wheel does not. With the C library's malloc, changing a million records takes twice as
    long.
    """
    started: list[EmbeddedServer] = []

    def each() -> Iterator[tuple[str, redis.Redis]]:
        for path in binaries().values():
            with _jemalloc() if in_use else nullcontext():
                server = EmbeddedServer(path)
            started.append(server)
            client = connect(server.url, "benchmark")
            assert isinstance(client, redis.Redis)
            info: Any = client.info("server")
            name = "Valkey" if "valkey_version" in info else "Redis"
            version = info.get("valkey_version") or info["redis_version"]
            name += f" {version}"
            yield f"{name}, {_allocator(server)}" if in_use else name, client
            client.close()
            server.close()

    try:
        yield each()
    finally:
        for server in started:
            server.close()


@contextmanager
def _jemalloc() -> Iterator[None]:
    """Start processes with jemalloc, if it is installed."""
    library, before = find_library("jemalloc"), os.environ.get("LD_PRELOAD")
    if library is None or before is not None:
        yield
        return
    os.environ["LD_PRELOAD"] = library
    try:
        yield
    finally:
        del os.environ["LD_PRELOAD"]


def _allocator(server: EmbeddedServer) -> str:
    mapped = Path(f"/proc/{server.pid}/maps").read_text()
    return "jemalloc" if "jemalloc" in mapped else "its own malloc"


@contextmanager
def realtime_priority(pid: int) -> Iterator[bool]:
    """Give a process real-time priority during the block; False if that is not permitted."""
    try:
        os.sched_setscheduler(pid, os.SCHED_FIFO, os.sched_param(1))
    except PermissionError:
        yield False
        return
    try:
        yield True
    finally:
        os.sched_setscheduler(pid, os.SCHED_OTHER, os.sched_param(0))


def url_of(client: redis.Redis) -> str:
    """The URL of a client's server, for another process."""
    pool: Any = client.connection_pool
    return "redis://{host}:{port}".format(**pool.connection_kwargs)


def server_us(client: redis.Redis, work: Callable[[], object]) -> tuple[float, int]:
    """Microseconds the server spent on commands while ``work`` ran, and the number of commands.

    Commands inside scripts are part of the script's time. If scripts ran, other commands are not
    counted: the server does not tell the two apart.
    """
    client.config_resetstat()
    work()
    stats: Any = client.info("commandstats")
    scripted = "cmdstat_evalsha" in stats or "cmdstat_eval" in stats
    names = ("cmdstat_evalsha", "cmdstat_eval") if scripted else tuple(stats)
    rows = [stats[name] for name in names if name in stats]
    return sum(row["usec"] for row in rows), sum(row["calls"] for row in rows)


def spread(values: Sequence[float], unit: str) -> str:
    """Minimum, median and maximum."""
    low, mid, high = min(values), statistics.median(values), max(values)
    return f"{low:.2f} / {mid:.2f} / {high:.2f} {unit} (min / median / max of {len(values)})"


def empty(client: redis.Redis) -> None:
    """Delete all keys with FLUSHALL SYNC; the default frees memory later on Valkey, during the next
    measurement."""
    any_client: Any = client
    any_client.execute_command("FLUSHALL", "SYNC")


@contextmanager
def threaded(worker: Worker) -> Iterator[None]:
    """Run the worker in a thread during the block."""
    thread = threading.Thread(target=worker.run)
    thread.start()
    try:
        yield
    finally:
        worker.stop()
        thread.join()

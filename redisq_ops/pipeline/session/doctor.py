"""Check that Spark can run here and reach the server: this machine first, then every executor."""

from __future__ import annotations

import os
import platform
import socket
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any

from redisq_ops.core.model.errors import RedisqError, Unreachable
from redisq_ops.core.redis.client import ServerAddress, connect

from ..source.job_errors import short_message
from . import java
from .spark_jobs import run_job
from .spark_session import is_local

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import SparkSession

PACKAGES = ("pyspark", "pyarrow", "pandas", "redis", "redisq-ops")
# Lowest supported release, and the first one that is not supported.
_NEEDED = {"pyspark": ((4, 2), (5,)), "pyarrow": ((18,), (27,)), "pandas": ((2, 2), (3,))}


@dataclass(frozen=True, slots=True)
class DoctorCheck:
    """The result of one check."""

    name: str
    ok: bool
    says: str


def check_driver(
    target: ServerAddress, environment: Mapping[str, str] = os.environ, *, remote: bool = False
) -> list[DoctorCheck]:
    """Check this machine. ``remote``: Spark runs elsewhere, so no Java is needed here."""
    found = [DoctorCheck("python", True, platform.python_version())]
    if not remote:
        found.append(_check_java(environment))
    found += [_check_package(name) for name in PACKAGES]
    fast = _version("hiredis")
    found.append(
        DoctorCheck("hiredis", True, fast or "not installed: reading is slower without it")
    )
    problem = connection_error(target)
    found.append(DoctorCheck("server", problem is None, f"{target}: {problem or 'answers'}"))
    return found


def _check_java(environment: Mapping[str, str]) -> DoctorCheck:
    try:
        found = java.find_java(environment)
    except java.NoJava as error:
        return DoctorCheck("java", False, str(error))
    return DoctorCheck("java", True, f"{found.version}, {found.home} ({found.origin})")


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _check_package(name: str) -> DoctorCheck:
    installed = _version(name)
    if installed is None:
        return DoctorCheck(name, False, "not installed: pip install 'redisq-ops[spark]'")
    low, high = _NEEDED.get(name, ((0,), None))
    parts = tuple(int(part) for part in installed.split(".")[:2] if part.isdecimal())
    if parts < low or (high is not None and parts >= high):
        wanted = f">={_dotted(low)}" + (f",<{_dotted(high)}" if high else "")
        return DoctorCheck(name, False, f"{installed}, but {wanted} is required")
    return DoctorCheck(name, True, installed)


def _dotted(parts: tuple[int, ...]) -> str:
    return ".".join(map(str, parts))


def connection_error(target: ServerAddress) -> str | None:
    """Why the server can't be reached from this process, or None."""
    try:
        client: Any = connect(target, "doctor")
        try:
            client.ping()
        finally:
            client.close()
    except Exception as error:
        from redisq_ops.core.redis.server_errors import translate

        known = translate(error)
        return str(known) if isinstance(known, RedisqError) else type(error).__name__
    return None


_ROW = "host string, executor string, python string, packages string, server string"
EXECUTOR_WAIT_S = 60.0
"""how long to wait for the first executor, a JVM that the cluster has to start"""
_MAX_ROUNDS = 5


def check_executors(
    spark: SparkSession, tasks: int = 8, url: str | None = None, max_wait_s: float = EXECUTOR_WAIT_S
) -> list[DoctorCheck]:
    """Check each executor's packages and connection to the server, with ``tasks`` tasks at once.

    The server is the one at ``url``, else the one of the executor's environment, as for readers.
    Rounds of tasks repeat while new executors join. If no executor joins within ``max_wait_s``,
    that is the result; Spark itself would wait for ever.
    """
    from pyspark.errors import PySparkException

    by_executor: dict[tuple[str, str], list[Any]] = {}
    try:
        for _ in range(_MAX_ROUNDS):
            before = len(by_executor)
            for row in _executor_rows(spark, tasks, url, max_wait_s):
                by_executor.setdefault((row["host"], row["executor"]), []).append(row)
            # Executors join one after the other: repeat until a round finds no new one.
            if len(by_executor) == before or is_local(spark.conf.get("spark.master", None)):
                break
    except RedisqError as error:
        return [DoctorCheck("executor", False, str(error))]
    except PySparkException as error:  # for example a missing Python on the executor
        return [DoctorCheck("executor", False, short_message(error))]
    hosts = Counter(host for host, _ in by_executor)
    return [
        _executor_check(host if hosts[host] == 1 else f"{host}, executor {executor}", rows)
        for (host, executor), rows in sorted(by_executor.items())
    ]


def _executor_rows(
    spark: SparkSession, tasks: int, url: str | None, max_wait_s: float
) -> list[Any]:
    """What the tasks found; `Unreachable` if there is no executor to run them."""
    started = monotonic()
    inspect = partial(_inspect_executor, url)
    frame = spark.range(0, tasks, 1, tasks).mapInPandas(inspect, _ROW).distinct()
    return run_job(spark, frame.collect, lambda: _require_executor(spark, started, max_wait_s))


def wait_for_executor(spark: SparkSession, max_wait_s: float = EXECUTOR_WAIT_S) -> None:
    """Wait for a standalone cluster's first executor; `Unreachable` after ``max_wait_s``.

    Without one a query waits for ever, and only Spark's log shows why.
    """
    if spark.conf.get("spark.dynamicAllocation.enabled", "false") == "true":
        return  # executors start on demand
    started = monotonic()
    while _executor_count(spark) == 0:
        _require_executor(spark, started, max_wait_s)
        sleep(0.1)


def _require_executor(spark: SparkSession, started: float, max_wait_s: float) -> None:
    if _executor_count(spark) == 0 and monotonic() - started > max_wait_s:
        raise Unreachable(
            f"no executor has joined within {max_wait_s:.0f} s: the cluster has no free cores or "
            "memory for one, or its workers can't reach this machine (spark.driver.host)"
        )


def _executor_count(spark: SparkSession) -> int | None:
    """Executors of a session, 1 for a local one; None if unknown (Spark Connect)."""
    try:
        context: Any = spark.sparkContext
    except Exception:
        return None
    members = int(context._jsc.sc().getExecutorMemoryStatus().size())  # including the driver
    return 1 if str(context.master).startswith("local") else members - 1


def _executor_check(name: str, rows: list[Any]) -> DoctorCheck:
    """The check of one executor, from the rows of its tasks."""
    first, own_packages, python = rows[0], _packages(), platform.python_version()
    problems = [] if first["python"] == python else [f"Python {first['python']}, here {python}"]
    if first["packages"] != own_packages:
        problems.append(f"{first['packages']}; here {own_packages}")
    unreached = next((row["server"] for row in rows if row["server"]), None)
    if unreached:
        problems.append(unreached)
    return DoctorCheck("executor", not problems, f"{name}: {'; '.join(problems) or _NO_PROBLEM}")


_NO_PROBLEM = "same versions, server reachable"


def _packages() -> str:
    return ", ".join(f"{name} {_version(name) or 'none'}" for name in PACKAGES)


def _inspect_executor(url: str | None, batches: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
    """Runs in a task, long enough that the next task goes to another executor."""
    import pandas as pd

    for _ in batches:
        pass
    sleep(0.3)
    server = connection_error(ServerAddress.from_environment(url))
    row = (socket.gethostname(), _executor_name(), platform.python_version(), _packages(), server)
    yield pd.DataFrame([row], columns=["host", "executor", "python", "packages", "server"])


def _executor_name() -> str:
    """The executor of this task: its id from the JVM's command line if readable, else the parent
    process."""
    daemon = os.getppid()
    try:
        jvm = Path(f"/proc/{daemon}/stat").read_text().rpartition(")")[2].split()[1]
        words = Path(f"/proc/{jvm}/cmdline").read_text().split("\0")
        return words[words.index("--executor-id") + 1]
    except (OSError, ValueError, IndexError):
        return f"pid {daemon}"

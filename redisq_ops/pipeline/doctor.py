"""Whether Spark can run here and reach the server: this machine first, then every executor."""

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

from . import java
from .session import at_home
from .writing import brought, in_short

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import SparkSession

PACKAGES = ("pyspark", "pyarrow", "pandas", "redis", "redisq-ops")
# first release that will do, first that won't
_NEEDED = {"pyspark": ((4, 2), (5,)), "pyarrow": ((18,), None), "pandas": ((2, 2), (3,))}


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at."""

    name: str
    ok: bool
    says: str


def driver(
    target: ServerAddress, environment: Mapping[str, str] = os.environ, *, connects: bool = False
) -> list[Finding]:
    """What this machine has. ``connects``: Spark is elsewhere, so no Java is needed here."""
    found = [Finding("python", True, platform.python_version())]
    if not connects:
        found.append(_java(environment))
    found += [_package(name) for name in PACKAGES]
    fast = _version("hiredis")
    found.append(Finding("hiredis", True, fast or "not installed: reading is slower without it"))
    said = reached(target)
    found.append(Finding("server", said is None, f"{target}: {said or 'answers'}"))
    return found


def _java(environment: Mapping[str, str]) -> Finding:
    try:
        found = java.find(environment)
    except java.NoJava as error:
        return Finding("java", False, str(error))
    return Finding("java", True, f"{found.version}, {found.home} ({found.origin})")


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _package(name: str) -> Finding:
    there = _version(name)
    if there is None:
        return Finding(name, False, "not installed: pip install 'redisq-ops[spark]'")
    low, high = _NEEDED.get(name, ((0,), None))
    parts = tuple(int(part) for part in there.split(".")[:2] if part.isdecimal())
    if parts < low or (high is not None and parts >= high):
        wanted = f">={_dotted(low)}" + (f",<{_dotted(high)}" if high else "")
        return Finding(name, False, f"{there}, and {wanted} is needed")
    return Finding(name, True, there)


def _dotted(parts: tuple[int, ...]) -> str:
    return ".".join(map(str, parts))


def reached(target: ServerAddress) -> str | None:
    """Why the server can't be reached from here, or None."""
    try:
        client: Any = connect(target, "doctor")
        try:
            client.ping()
        finally:
            client.close()
    except Exception as error:
        from redisq_ops.core.model.errors import translate

        known = translate(error)
        return str(known) if isinstance(known, RedisqError) else type(error).__name__
    return None


_ROW = "host string, executor string, python string, packages string, server string"
PATIENCE_S = 60.0
"""how long the first executor may take to come: it is a JVM that a cluster has to start"""
_LOOKS = 5


def workers(
    spark: SparkSession, tasks: int = 8, url: str | None = None, patience_s: float = PATIENCE_S
) -> list[Finding]:
    """What each executor has, asked by ``tasks`` tasks at once, and whether it reaches the server.

    The server is the one at ``url``, else of the executor's environment, as a reader finds it.
    It is asked again while executors come that were not there before. Where none comes Spark would
    wait for ever; here that is a finding after ``patience_s``.
    """
    from pyspark.errors import PySparkException

    seen: dict[tuple[str, str], list[Any]] = {}
    try:
        for _ in range(_LOOKS):
            before = len(seen)
            for row in _asked(spark, tasks, url, patience_s):
                seen.setdefault((row["host"], row["executor"]), []).append(row)
            # A cluster's executors come one after the other: look until nobody is new.
            if len(seen) == before or at_home(spark.conf.get("spark.master", None)):
                break
    except RedisqError as error:
        return [Finding("executor", False, str(error))]
    except PySparkException as error:  # no such Python there, for one
        return [Finding("executor", False, in_short(error))]
    hosts = Counter(host for host, _ in seen)
    return [
        _judged(host if hosts[host] == 1 else f"{host}, executor {executor}", rows)
        for (host, executor), rows in sorted(seen.items())
    ]


def _asked(spark: SparkSession, tasks: int, url: str | None, patience_s: float) -> list[Any]:
    """What the tasks saw; `Unreachable` where nobody is there to run them."""
    began = monotonic()
    look = partial(_look_around, url)
    frame = spark.range(0, tasks, 1, tasks).mapInPandas(look, _ROW).distinct()
    return brought(spark, frame, lambda: _patient(spark, began, patience_s))


def attended(spark: SparkSession, patience_s: float = PATIENCE_S) -> None:
    """Wait for a standalone cluster's first executor: without one a query waits for ever, and Spark
    says why in a log only. `Unreachable` after ``patience_s``."""
    if spark.conf.get("spark.dynamicAllocation.enabled", "false") == "true":
        return  # then none is there before it is needed
    began = monotonic()
    while _known(spark) == 0:
        _patient(spark, began, patience_s)
        sleep(0.1)


def _patient(spark: SparkSession, began: float, patience_s: float) -> None:
    if _known(spark) == 0 and monotonic() - began > patience_s:
        raise Unreachable(
            f"no executor has come in {patience_s:.0f} s: the cluster has no free cores or memory "
            "for one, or its workers can't reach this machine (spark.driver.host)"
        )


def _known(spark: SparkSession) -> int | None:
    """How many executors have come; this machine's own, without a cluster, is one. None: Spark
    Connect doesn't say."""
    try:
        context: Any = spark.sparkContext
    except Exception:
        return None
    there = int(context._jsc.sc().getExecutorMemoryStatus().size())  # the driver among them
    return 1 if str(context.master).startswith("local") else there - 1


def _judged(who: str, seen: list[Any]) -> Finding:
    """One executor, by what its tasks saw."""
    one, here, python = seen[0], _packages(), platform.python_version()
    wrong = [] if one["python"] == python else [f"Python {one['python']}, here {python}"]
    if one["packages"] != here:
        wrong.append(f"{one['packages']}; here {here}")
    unreached = next((row["server"] for row in seen if row["server"]), None)
    if unreached:
        wrong.append(unreached)
    return Finding("executor", not wrong, f"{who}: {'; '.join(wrong) or _FINE}")


_FINE = "as here, reaches the server"


def _packages() -> str:
    return ", ".join(f"{name} {_version(name) or 'none'}" for name in PACKAGES)


def _look_around(url: str | None, batches: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
    """In a task; it takes its time, so that the next one is another executor's."""
    import pandas as pd

    for _ in batches:
        pass
    sleep(0.3)
    server = reached(ServerAddress.from_environment(url))
    row = (socket.gethostname(), _executor(), platform.python_version(), _packages(), server)
    yield pd.DataFrame([row], columns=["host", "executor", "python", "packages", "server"])


def _executor() -> str:
    """This task's executor: its number in Spark, where the system tells how it was started, else
    the process the executor's Python workers have in common."""
    daemon = os.getppid()
    try:
        jvm = Path(f"/proc/{daemon}/stat").read_text().rpartition(")")[2].split()[1]
        words = Path(f"/proc/{jvm}/cmdline").read_text().split("\0")
        return words[words.index("--executor-id") + 1]
    except (OSError, ValueError, IndexError):
        return f"pid {daemon}"

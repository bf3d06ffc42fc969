"""Whether Spark can run here and reach the server: this machine first, then every executor."""

from __future__ import annotations

import os
import platform
import socket
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

from redisq_ops.core.connect import Target, connect
from redisq_ops.core.errors import RedisqError

from . import java

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
    target: Target, environment: Mapping[str, str] = os.environ, *, connects: bool = False
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


def reached(target: Target) -> str | None:
    """Why the server can't be reached from here, or None."""
    try:
        client: Any = connect(target, "doctor")
        try:
            client.ping()
        finally:
            client.close()
    except Exception as error:
        from redisq_ops.core.errors import translate

        known = translate(error)
        return str(known) if isinstance(known, RedisqError) else type(error).__name__
    return None


_ROW = "host string, worker long, python string, packages string, server string"


def workers(spark: SparkSession, tasks: int = 8) -> list[Finding]:
    """What each executor has, asked by ``tasks`` tasks at once, and whether it reaches the server.

    The server is the one of the executor's environment, as a reader finds it that is told none.
    """
    here = _packages()
    rows = spark.range(0, tasks, 1, tasks).mapInPandas(_look_around, _ROW).distinct().collect()
    found: list[Finding] = []
    for host in sorted({row["host"] for row in rows}):
        seen = [row for row in rows if row["host"] == host]
        one = seen[0]
        python = platform.python_version()
        wrong = [] if one["python"] == python else [f"Python {one['python']}, here {python}"]
        if one["packages"] != here:
            wrong.append(f"{one['packages']}; here {here}")
        unreached = next((row["server"] for row in seen if row["server"]), None)
        if unreached:
            wrong.append(unreached)
        number = len({row["worker"] for row in seen})
        of = f"{number} executor{'s' * (number > 1)}"
        said = "; ".join(wrong) or f"as here, reaches the server ({of})"
        found.append(Finding("executor", not wrong, f"{host}: {said}"))
    return found


def _packages() -> str:
    return ", ".join(f"{name} {_version(name) or 'none'}" for name in PACKAGES)


def _look_around(batches: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
    """In a task; it takes its time, so that the next one is another executor's."""
    import time

    import pandas as pd

    for _ in batches:
        pass
    time.sleep(0.3)
    server = reached(Target.from_environment(None))
    # The parent of a Python worker is one per executor.
    row = (socket.gethostname(), os.getppid(), platform.python_version(), _packages(), server)
    yield pd.DataFrame([row], columns=["host", "worker", "python", "packages", "server"])

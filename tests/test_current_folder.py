"""The current folder is no code: nothing of it is imported, but the module that `work` names."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import redis

from redisq_ops import RequestQueue

pytestmark = pytest.mark.slow

PACKAGE = Path(__file__).parents[1] / "redisq_ops"
PLANTED = """
with open({said!r}, "a") as file:
    file.write(__name__ + "\\n")
raise ImportError("planted")
"""
NAMES = (
    "redisq_ops/__init__",
    "redis/__init__",
    "pyspark/__init__",
    "rich",
    "typer",
    "textual",
    "json",
    "typing",
    "socket",
    "pickle",
    "numpy",
    "pyarrow",
    "pandas",
    "hiredis",
    "queue",
    "sitecustomize",
)
EVERY_COMMAND = """
import importlib, pkgutil, sys
import redisq_ops
from redisq_ops.cli.main import run

for part in ("core", "ops", "pipeline", "cli", "tui"):
    path = [f"{redisq_ops.__path__[0]}/{part}"]
    for each in pkgutil.walk_packages(path, f"redisq_ops.{part}."):
        importlib.import_module(each.name)
sys.exit(run(["ls"]))
"""


@pytest.fixture
def planted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder full of modules that say that they were imported; it is the current one."""
    folder = tmp_path / "folder"
    for name in NAMES:
        file = folder / f"{name}.py"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(PLANTED.format(said=str(tmp_path / "imported")))
    monkeypatch.chdir(folder)
    monkeypatch.delenv("PYTHONSAFEPATH", raising=False)
    return tmp_path / "imported"


def program(*words: str, url: str, folder: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        words,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
        cwd=folder,
        env=os.environ | {"REDIS_URL": url},
    )


def test_no_command_imports_from_the_current_folder(
    planted: Path, tmp_path: Path, url: str
) -> None:
    """All that commands load, loaded by a script elsewhere, as the installed `redisq` is."""
    script = tmp_path / "bin" / "redisq"
    script.parent.mkdir()
    script.write_text(EVERY_COMMAND)
    done = program(sys.executable, str(script), url=url)
    assert done.returncode == 0, done.stderr
    assert not planted.exists(), planted.read_text()


def test_as_a_module_only_the_package_itself_may_be_there(
    planted: Path, tmp_path: Path, url: str
) -> None:
    for name in ("redisq_ops/__init__", "typing", "sitecustomize"):  # before any of our code
        (tmp_path / "folder" / f"{name}.py").unlink()
    (tmp_path / "folder" / "redisq_ops").rmdir()
    done = program(sys.executable, "-m", "redisq_ops", "ls", url=url)
    assert done.returncode == 0, done.stderr
    assert not planted.exists(), planted.read_text()


def test_pythons_that_we_start_do_not_import_from_the_current_folder() -> None:
    """What each `-m` of ours is for differs; that it has -P does not."""
    started = [
        (file.name, words)
        for file in PACKAGE.rglob("*.py")
        for words in re.findall(r'\[sys\.executable, ("-[^\]]*)\]', file.read_text())
    ]
    assert len(started) >= 4
    assert [each for each in started if not each[1].startswith('"-P", ')] == []


@pytest.mark.parametrize("server", ["valkey"], indirect=True)
def test_work_finds_its_module_last_also_in_new_processes(
    planted: Path, tmp_path: Path, url: str, client: redis.Redis
) -> None:
    (tmp_path / "folder" / "sitecustomize.py").unlink()
    (tmp_path / "folder" / "jobs.py").write_text(
        "import json, os\n"
        "def handle(work):\n"
        "    return json.dumps(os.environ.get('PYTHONSAFEPATH', 'none'))\n"
    )
    queue = RequestQueue(client, "mail")
    queue.submit([b"x"], id="r1")
    words = ("work", "jobs:handle", "--queue", "mail", "--burst", "--processes", "2")
    done = program(str(Path(sys.executable).with_name("redisq")), *words, url=url)
    assert done.returncode == 0, done.stderr
    assert not planted.exists(), planted.read_text()
    assert [one.result for one in queue.results("r1")] == [b'"none"']


@pytest.mark.parametrize("server", ["valkey"], indirect=True)
def test_spark_and_its_workers_import_nothing_from_it_and_run_no_spark_beside_it(
    planted: Path, tmp_path: Path, url: str
) -> None:
    for name in ("bin/spark-submit", "jars/a.jar"):  # where Spark looks for itself first
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(f"#!/bin/sh\necho spark >> {planted}\n")
        (tmp_path / name).chmod(0o755)
    redisq = str(Path(sys.executable).with_name("redisq"))
    done = program(redisq, "spark", "doctor", "--tasks", "2", url=url)
    assert done.returncode == 0, done.stdout + done.stderr
    assert not planted.exists(), planted.read_text()

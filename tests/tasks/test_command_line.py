"""Tasks at the command line: `redisq work MODULE:TASKS`, and what operators see."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import redisq_ops
from redisq_ops.tasks import JobFailed, Tasks

from ..command_line import Redisq

pytestmark = [pytest.mark.alike, pytest.mark.usefixtures("on_path")]

CODE = """
from dataclasses import dataclass
from redisq_ops.tasks import Tasks, exponential

jobs = Tasks("jobs")

@dataclass
class Size:
    width: int
    height: int

@jobs.cron("0 6 * * *", path="daily.png")
@jobs.task(retries=0, backoff=exponential(5, 600), timeout=30)
def thumbnail(path: str, width: int = 200) -> Size:
    if path == "bad.png":
        raise ValueError("no picture")
    return Size(width, width // 2)

@jobs.task()
def mail(to: str) -> None: ...
"""


@pytest.fixture
def tasks(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Tasks:
    """Tasks of a program in the current folder, which knows the server by REDIS_URL."""
    (tmp_path / "shop_jobs.py").write_text(CODE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("REDIS_URL", url)
    monkeypatch.setenv("PYTHONPATH", str(Path(redisq_ops.__file__).parents[1]))
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "shop_jobs", raising=False)
    found: Tasks = __import__("shop_jobs").jobs
    return found


def work(*words: str) -> subprocess.CompletedProcess[str]:
    command = ["redisq", "work", *words]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_a_worker_runs_them_and_operators_see_the_task(tasks: Tasks, redisq: Redisq) -> None:
    thumbnail, mail = tasks.tasks["thumbnail"], tasks.tasks["mail"]
    good, bad = thumbnail.submit("a.png", width=100), thumbnail.submit("bad.png")
    mail.submit("ann")
    mapped = thumbnail.map(["a.png", "b.png"])
    done = work("shop_jobs:jobs", "--burst", "--concurrency", "2")
    assert done.returncode == 3, done.stderr  # one is dead
    assert "does not exist" not in done.stderr
    assert good.result(timeout=0) == sys.modules["shop_jobs"].Size(100, 50)
    assert [size.width for size in mapped.results(timeout=0)] == [200, 200]
    with pytest.raises(JobFailed, match="ValueError: no picture"):
        bad.result(timeout=0)
    (dead,) = map(json.loads, redisq("dlq", "ls", "jobs", "--json").splitlines())
    assert (dead["id"], dead["task"], dead["reason"]) == (bad.id, "thumbnail", "failed")
    assert "thumbnail" in redisq("dlq", "groups", "jobs", "--by", "task")
    where = "task = thumbnail and arg.path = bad.png"
    assert bad.id in redisq("dlq", "ls", "jobs", "--where", where)
    assert bad.id not in redisq("dlq", "ls", "jobs", "--where", "task = mail")
    assert "thumbnail" in redisq("explain", f"jobs/{bad.id}")
    (periodic,) = map(json.loads, redisq("periodic", "ls", "jobs", "--json").splitlines())
    assert (periodic["name"], periodic["task"]) == ("thumbnail~cron", "thumbnail")


def test_mistakes_are_one_line(tasks: Tasks, redisq: Redisq) -> None:
    said = redisq.refusal("work", "shop_jobs:jobs", "--queue", "mail", code=2)
    assert said == "shop_jobs:jobs names its queues itself: leave --queue out"
    said = redisq.refusal("work", "shop_jobs:mail", code=2)
    assert said == "mail is a task: name its Tasks, as in shop_jobs:jobs"
    assert "can't be imported" in redisq.refusal("work", "shop_jobs:nothing", code=2)

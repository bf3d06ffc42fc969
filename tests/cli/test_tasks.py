"""`redisq tasks`, and the tasks of a recording."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import redis

from ..command_line import Redisq, everywhere
from ..core.foreign.specimens import SPECIMENS

pytestmark = pytest.mark.alike


@pytest.fixture
def rq(client: redis.Redis, redisq: Redisq) -> redis.Redis:
    SPECIMENS["rq"].fill(client)
    redisq("discover", "--register", "--yes")
    return client


def test_tasks_of_one_queue_of_some_and_of_all(redisq: Redisq, rq: Any) -> None:
    everywhere(rq)
    shown = redisq("tasks", "rq:low", "--last", "1d")
    assert shown.split()[:6] == ["task", "ended", "/min", "failed", "p50", "p95"]
    assert "rq_tasks.fine" in shown and "ValueError" in shown
    assert "rq:low: all 4 done and all" in redisq.err
    rows = redisq.rows("tasks", "rq:*", "--last", "1d")
    (fine,) = [row for row in rows if row["task"].endswith("fine")]
    assert (fine["queue"], fine["ended"], fine["failed"], fine["times"]) == (
        "rq:low",
        4,
        0,
        "exact",
    )
    assert fine["since_ms"] < fine["until_ms"] and fine["deploys"] == []
    assert {row["queue"] for row in redisq.rows("tasks", "--last", "1d")} >= {"mail", "rq:low"}
    assert redisq("tasks", "mail", "rq:low", "--last", "1d").split()[0] == "queue"
    assert redisq("tasks", "mail").splitlines()[1].split()[:4] == ["(all)", "4", "0.1", "3"]


def test_bad_input_is_refused_in_one_line(redisq: Redisq, rq: Any) -> None:
    assert "no queue 'nope'" in redisq.refusal("tasks", "nope", code=1)
    assert "no queue matches 'x*'" in redisq.refusal("tasks", "x*", code=1)
    assert "'soon' is not a time span" in redisq.refusal("tasks", "--last", "soon", code=2)
    for last in ("0s", "2d"):
        said = redisq.refusal("tasks", "--last", last, code=2)
        assert said == f"--last {last}: give more than 0s and at most 1d"
    assert "--by" in redisq.refusal("tasks", "--by", "age", code=2)
    assert "--by" in redisq.refusal("tasks", "--by", "banana", code=2)


def test_a_queue_without_any_says_what_is_not_kept(redisq: Redisq, client: redis.Redis) -> None:
    client.sadd("resque:queues", "low")
    assert redisq("tasks", "resque:low") == ""
    assert "no run of a task is known" in redisq.err and "keeps nothing of jobs" in redisq.err


def test_one_queue_that_cannot_be_read_hides_no_other(redisq: Redisq, rq: Any) -> None:
    queue = everywhere(rq)
    everywhere(rq, "other")
    rq.delete(queue.keys["hist"])
    rq.set(queue.keys["hist"], "spoilt")
    rows = redisq.rows("tasks", "--last", "1d", code=3)
    assert {row["queue"] for row in rows} == {"other", "rq:low"}
    assert "mail: not looked at" in redisq.err
    redisq.refusal("tasks", "mail", code=1)


def test_a_recording_has_the_tasks_without_messages(
    redisq: Redisq, rq: Any, tmp_path: Path
) -> None:
    file = str(tmp_path / "q.rec")
    redisq("recording", "write", file, "--for", "1s")
    rows = redisq.rows("recording", "show", file, "tasks", "--queue", "rq:low")
    errors = {row["last_error"] for row in rows}
    assert "ValueError" in errors and any(row["ended"] for row in rows)
    assert "compares queues" in redisq.refusal(
        "recording", "show", file, "tasks", "--diff", "1m", code=2
    )

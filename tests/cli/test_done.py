"""Done entries of other programs: listed, run again, and never meant by accident."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import redis

from ..command_line import Redisq, everywhere
from ..core.foreign.specimens import SPECIMENS

pytestmark = pytest.mark.slow

QUEUE = "rq:low"


@pytest.fixture
def rq(client: redis.Redis) -> redis.Redis:
    SPECIMENS["rq"].fill(client)
    return client


def waiting(client: Any) -> list[str]:
    return [id.decode() for id in client.lrange("rq:queue:low", 0, -1)]


def test_done_entries_are_listed_counted_filtered_and_exported(redisq: Redisq, rq: Any) -> None:
    rows = redisq.rows("done", "ls", QUEUE, "--where", "task~fine arg.0=2")
    assert [row["id"] for row in rows] == ["good2"] and rows[0]["state"] == "done"
    redisq("discover", "--register", "--yes")
    (row,) = (row for row in redisq.rows("ls") if row["name"] == QUEUE)
    assert row["done"] == 4
    (exported,) = [
        row for row in redisq.rows("export", QUEUE, "--state", "done") if row.get("id") == "good3"
    ]
    assert exported["state"] == "done"
    assert (
        redisq.rows("select", QUEUE, "--count", "--where", "state=done run<1m")[0]["matched"] == 4
    )
    assert "done" not in {row["state"] for row in redisq.rows("select", QUEUE)}


def test_a_done_entry_runs_again_until_the_undo(redisq: Redisq, rq: Any) -> None:
    before = waiting(rq)
    redisq("done", "replay", f"{QUEUE}/good1", "--yes")
    assert "run a second time" in redisq.err and waiting(rq) == [*before, "good1"]
    assert redisq.rows("log")[0]["source"] == "done"
    redisq("undo", "--yes")
    assert waiting(rq) == before and rq.zscore("rq:finished:low", "good1")


@pytest.mark.parametrize(
    ("words", "again"),
    [
        ((QUEUE,), []),
        ((QUEUE, "--where", "task~fine"), []),
        ((QUEUE, "--where", "state=done"), ["good0", "good1", "good2", "good3"]),
        ((QUEUE, "--state", "done"), ["good0", "good1", "good2", "good3"]),
        ((f"{QUEUE}/good2",), ["good2"]),
    ],
)
def test_a_replay_means_done_entries_only_where_it_says_so(
    redisq: Redisq, rq: Any, words: Sequence[str], again: Sequence[str]
) -> None:
    redisq("replay", *words, "--yes")
    assert [id for id in waiting(rq) if id.startswith("good")] == again


@pytest.mark.parametrize(
    ("kind", "why"),
    [
        ("celery", "send the task anew"),
        ("arq", "enqueue the job anew"),
        ("laravel", "dispatch the job anew"),
        ("bull", "`queue.add`"),
    ],
)
def test_where_the_program_has_no_verb_it_is_said(
    redisq: Redisq, client: redis.Redis, kind: str, why: str
) -> None:
    specimen = SPECIMENS[kind]
    id = specimen.fill(client)["done"][0]
    redisq("done", "replay", f"{specimen.queue}/{id}", "--yes", code=1)
    assert "can't replay done entries" in redisq.err and why in redisq.err


def test_queues_that_keep_only_results_say_so(redisq: Redisq, client: redis.Redis) -> None:
    everywhere(client)
    assert redisq("done", "ls", "mail") == "" and "only the results are kept" in redisq.err
    (row,) = redisq.rows("inspect", "mail/r1/1")
    assert (row["state"], row["result"], row["payload"]) == ("done", "fine", None)
    redisq("purge", "mail/r1", "--yes", code=2)
    assert "done" not in redisq.err, "of the states to choose from"

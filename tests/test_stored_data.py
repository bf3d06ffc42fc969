"""Data that the first release wrote is still read, worked, and undone.

``stored/0.1.0.json`` has the keys of a server as commit 07506ca left them: every kind of ours, one
over three shards, Sidekiq's and Resque's lists; entries in every state, operations that can be
undone, and a move that was killed when its entries had left the source.
"""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest
import redis

from .command_line import Redisq

STORED = Path(__file__).parent / "stored" / "0.1.0.json"
OURS = ("carmine:tasks", "jobs", "later", "mail", "ring", "slow", "wide")


@pytest.fixture
def stored(client: redis.Redis, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server has the stored keys, each with the time to live and the prefix that it had."""
    monkeypatch.setenv("REDISQ_PREFIX", "rq")
    pipe = client.pipeline(transaction=False)
    for key, (value, ttl_ms) in json.loads(STORED.read_text())["keys"].items():
        pipe.restore(base64.b64decode(key), max(ttl_ms, 0), base64.b64decode(value))
    pipe.execute()


def counts(redisq: Redisq) -> dict[str, tuple[int, ...]]:
    """Of each queue: waiting, pending, delayed, dead, trash."""
    states = ("waiting", "pending", "delayed", "dead", "trash")
    return {row["name"]: tuple(row[state] for state in states) for row in redisq.rows("ls")}


@pytest.mark.slow
def test_every_queue_is_read_worked_and_undone(stored: None, redisq: Redisq) -> None:
    before = counts(redisq)
    assert before["mail"] == (9, 1, 1, 0, 4) and before["wide"] == (12, 3, 0, 2, 1)
    assert before["later"] == (4, 1, 0, 0, 5), "one purged, one moved, three on their way"
    assert before["sidekiq:default"] == (6, 0, 0, 0, 1) and before["resque:low"][0] == 6
    redisq("move", "later", "--to", "slow", "--state", "waiting", "--yes")  # ends the killed one
    redisq("fsck")
    assert counts(redisq)["slow"][0] == 1 + 3 + 4, "its own, those on their way, those moved now"

    purges = [row["id"] for row in redisq.rows("log") if row["verb"] == "purge"]
    assert len(purges) == 7
    for op in purges:
        redisq("undo", op, "--yes")
    after = counts(redisq)
    assert [after[name][3] for name in ("mail", "later", "jobs", "ring", "wide")] == [1, 1, 2, 2, 3]
    assert after["sidekiq:default"] == (6, 0, 0, 1, 0)
    redisq("fsck")

    redisq("client", "unblock", "jobs", "umbrella", "--yes")
    redisq("request", "resume", "mail/weekly", "--yes")
    for name in OURS:
        for state in ("pending", "delayed"):
            redisq("requeue", name, "--state", state, "--yes")
        redisq("replay", name, "--yes")
        redisq("work", "--exec", "true", "--queue", name, "--burst")
    left = counts(redisq)
    assert {left[name][:4] for name in OURS} == {(0, 0, 0, 0)}
    redisq("fsck")

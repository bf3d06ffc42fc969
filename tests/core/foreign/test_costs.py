"""What a change of many entries costs: how often each is read, and how many commands are sent."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import redis

from benchmarks.foreign_jobs import NAMES, fill
from redisq_ops.core.foreign.places import Place
from redisq_ops.core.model.settings import MAX_BATCH
from redisq_ops.core.redis.commands import Call
from redisq_ops.ops.change.step_size import Stride

from ...command_line import Redisq

JOBS = 1200
PLANNED = 100
LOOKS = 7.3
"""of each entry: twice by a dry run and before the question, and by its change"""
READS = 2.2
"""of each entry: when it is selected, and before the step that moves it"""
CHANGES = {
    "rq": ("dlq", "replay", 9.5),
    "bullmq": ("dlq", "replay", 5.2),
    "bull": ("dlq", "replay", 5.2),
    "dramatiq": ("dlq", "replay", 2.7),
    "sidekiq": ("dlq", "replay", 0.5),
    "resque": ("dlq", "replay", 0.5),
    "celery": ("dlq", "replay", 4.5),
    "arq": ("waiting", "purge", 2.9),
    "asynq": ("dlq", "replay", 5.2),
    "laravel": ("dlq", "replay", 5.3),
}
"""kind -> a change, and the commands for each entry of it at most: some programs keep each job in
a key of its own, or in several"""


class Counted:
    """Counts the entries that are read and the commands that are sent."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.reads, self.sent = 0, 0
        located, outgoing = Place.located, Call.outgoing

        async def counted(place: Place, rows: Any) -> Any:
            self.reads += len(rows)
            return await located(place, rows)

        def counting(call: Call[Any]) -> Any:
            self.sent += 1
            return outgoing.__get__(call)

        monkeypatch.setattr(Stride, "learn", lambda *_: None)  # steps are as large on any machine
        monkeypatch.setattr(Place, "located", counted)
        monkeypatch.setattr(Call, "outgoing", property(counting))


@pytest.mark.alike
@pytest.mark.parametrize("kind", NAMES)
def test_a_bulk_change_reads_each_entry_once_more(
    redisq: Redisq, client: redis.Redis, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    fill(client, kind, JOBS)
    redisq("discover", "--register", "--yes")
    counter = Counted(monkeypatch)
    state, verb, most = CHANGES[kind]
    assert f"{JOBS:,} of {JOBS:,}" in redisq(state, verb, NAMES[kind], "--yes")
    reads, sent = counter.reads - MAX_BATCH, counter.sent  # of the first ones for the preview
    assert (reads / JOBS <= READS, sent / JOBS <= most) == (True, True), (reads, sent)


@pytest.mark.alike
@pytest.mark.parametrize("kind", NAMES)
def test_a_plan_is_looked_at_with_few_reads(
    redisq: Redisq, client: redis.Redis, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, kind: str
) -> None:
    fill(client, kind, PLANNED)
    redisq("discover", "--register", "--yes")
    state, verb, _ = CHANGES[kind]
    plan = str(tmp_path / "plan.ndjson")
    redisq(state, verb, NAMES[kind], "--plan", plan)
    counter = Counted(monkeypatch)
    redisq("apply", plan, "--dry-run")
    assert f"{PLANNED} of {PLANNED}" in redisq("apply", plan, "--yes")
    assert counter.reads / PLANNED <= LOOKS, counter.reads


def test_equal_entries_are_purged_as_fast_as_others(redisq: Redisq, client: redis.Redis) -> None:
    client.sadd("resque:queues", "mail")
    client.rpush("resque:queue:mail", *['{"class":"H","args":[1]}'] * PLANNED * 3)
    redisq("discover", "--register", "--yes")
    client.config_resetstat()
    assert f"{3 * PLANNED} of {3 * PLANNED}" in redisq("waiting", "purge", "resque:mail", "--yes")
    assert client.info("commandstats")["cmdstat_zscore"]["calls"] <= 20 * 3 * PLANNED
    assert client.llen("resque:queue:mail") == 0
    redisq("undo", "--yes")
    assert client.llen("resque:queue:mail") == 3 * PLANNED

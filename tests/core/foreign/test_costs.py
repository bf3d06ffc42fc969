"""What a change of many entries costs: how often each is read, and how many commands are sent."""

from __future__ import annotations

import json
from operator import le
from pathlib import Path
from typing import Any

import pytest
import redis

from benchmarks.foreign_jobs import NAMES, fill
from redisq_ops.core.foreign import json_members
from redisq_ops.core.foreign.asynq.protobuf import Message
from redisq_ops.core.foreign.places import Place
from redisq_ops.core.redis import transport
from redisq_ops.core.redis.commands import Call
from redisq_ops.ops.change.step_size import Stride

from ...command_line import Redisq

JOBS = 1200
PLANNED = 100
ROUNDS = 36
"""round trips of an export of all jobs, at most: those of its start, and seven a page"""
LOOKS = 7.3
"""of each entry: twice by a dry run and before the question, and by its change"""
READS = 2.7
"""of each entry's record: when it is selected, and before the step that moves it; of the first 500
for the preview"""
ONCE = 1.2
"""where the step needs no more than what the selection saw"""
CHANGES = {
    "rq": ("dlq", "replay", ONCE, 5.5, 0.2),
    "bullmq": ("dlq", "replay", ONCE, 2.3, 1.2),
    "bull": ("dlq", "replay", ONCE, 2.3, 1.2),
    "dramatiq": ("dlq", "purge", ONCE, 1.3, 1.2),
    "sidekiq": ("dlq", "replay", READS, 0.5, 2.5),
    "resque": ("dlq", "replay", READS, 0.5, 5.0),
    "celery": ("dlq", "replay", READS, 3.4, 4.6),
    "arq": ("waiting", "purge", ONCE, 1.5, 1.2),
    "asynq": ("dlq", "replay", ONCE, 2.3, 1.2),
    "laravel": ("dlq", "purge", ONCE, 2.5, 2.2),
}
"""kind -> a change, and for each entry of it, at most: records read, commands sent (some programs
keep each job in a key of its own, or in several), and texts parsed"""


class Counted:
    """Counts the records that are read, the commands that are sent, the round trips, and the texts
    parsed."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.reads = self.sent = self.rounds = self.parsed = 0
        located, outgoing, send = Place.located, Call.outgoing, transport._send

        async def counted(place: Place, rows: Any) -> Any:
            if "_bare" not in getattr(place.read, "__qualname__", ""):
                self.reads += len(rows)
            return await located(place, rows)

        def parsing(parse: Any) -> Any:
            def counted(*args: Any, **options: Any) -> Any:
                self.parsed += 1
                return parse(*args, **options)

            return counted

        def counting(call: Call[Any]) -> Any:
            self.sent += 1
            return outgoing.__get__(call)

        def sending(*args: Any) -> Any:
            self.rounds += 1
            return send(*args)

        monkeypatch.setattr(transport, "_send", sending)
        monkeypatch.setattr(Stride, "learn", lambda *_: None)  # steps are as large on any machine
        monkeypatch.setattr(Place, "located", counted)
        monkeypatch.setattr(Call, "outgoing", property(counting))
        monkeypatch.setattr(json, "loads", parsing(json.loads))
        monkeypatch.setattr(Message, "__init__", parsing(Message.__init__))
        monkeypatch.setattr(json_members, "members_of", parsing(json_members.members_of))


def filled(
    redisq: Redisq, client: redis.Redis, monkeypatch: pytest.MonkeyPatch, kind: str
) -> Counted:
    """A registered queue full of jobs; counts from now on."""
    fill(client, kind, JOBS)
    redisq("discover", "--register", "--yes")
    return Counted(monkeypatch)


@pytest.mark.alike
@pytest.mark.parametrize("kind", NAMES)
def test_a_bulk_change_reads_and_parses_each_entry_few_times(
    redisq: Redisq, client: redis.Redis, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    counter = filled(redisq, client, monkeypatch, kind)
    state, verb, *most = CHANGES[kind]
    assert f"{JOBS:,} of {JOBS:,}" in redisq(state, verb, NAMES[kind], "--yes")
    found = [n / JOBS for n in (counter.reads, counter.sent, counter.parsed)]
    assert all(map(le, found, most)), found


@pytest.mark.alike
@pytest.mark.parametrize("kind", NAMES)
def test_an_export_reads_each_entry_once_and_in_few_round_trips(
    redisq: Redisq, client: redis.Redis, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    counter = filled(redisq, client, monkeypatch, kind)
    state = "waiting" if kind == "arq" else "dead"
    lines = redisq("export", NAMES[kind], "--state", state).splitlines()
    assert len([line for line in lines if '"id": ' in line]) == JOBS
    assert counter.reads == JOBS
    assert counter.rounds <= ROUNDS, counter.rounds


@pytest.mark.alike
@pytest.mark.parametrize("kind", NAMES)
def test_a_plan_is_looked_at_with_few_reads(
    redisq: Redisq, client: redis.Redis, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, kind: str
) -> None:
    fill(client, kind, PLANNED)
    redisq("discover", "--register", "--yes")
    state, verb, *_ = CHANGES[kind]
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

"""Whatever another program wrote into a queue's keys: an operation is refused and has changed
nothing, or it is done, and no entry is lost by it.

All cases on both servers: ``REDISQ_SEEDS_ATOMICITY=all``.
"""

from __future__ import annotations

import os
from typing import Any

import pytest
import redis

from redisq_ops.core.model.errors import Unreadable

from .database import Database
from .foreign_stages import PROGRAMS, program_stage
from .stages import KINDS, Stage, stage
from .verdicts import Judge, Matrix, cases

pytestmark = pytest.mark.slow

EVERY = {"valkey": 5, "redis": 211, "redis8": 211}
"""One case in so many: a prime, so that each operation meets each key, and values by turns. Run all
after a change of scripts: a small share of them once missed seven faults."""


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_half_done_where_another_program_wrote(
    client: redis.Redis, kind: str, request: pytest.FixtureRequest
) -> None:
    _judged(stage(client, kind), EVERY[request.node.callspec.params["server"]])


@pytest.mark.timeout(1800)
@pytest.mark.alike
@pytest.mark.parametrize("kind", PROGRAMS)
def test_nor_in_queues_of_other_programs(client: redis.Redis, kind: str) -> None:
    _judged(program_stage(client, kind), 31)


def _judged(built: Stage, every: int) -> None:
    database, matrix = Database(built.client), Matrix()
    database.save()
    judge = Judge(database, built)
    if os.environ.get("REDISQ_SEEDS_ATOMICITY") == "all":
        every = 1
    for name, corruption in cases(judge)[::every]:
        matrix.add(built.kind, name, corruption, judge.judge(name, corruption))
    print(f"{built.kind}: {len(built.operations)} operations, {matrix}")
    assert (matrix.words["refused"] and matrix.words["complete"]) or built.kind == "stream"
    assert not matrix.bad, "\n".join([str(matrix), *matrix.bad[:40]])


@pytest.mark.parametrize("kind", ["resque", "sidekiq"])
def test_jobs_stay_in_their_list_when_no_number_can_be_given_out(
    client: redis.Redis, kind: str
) -> None:
    built = stage(client, kind)
    queue: Any = built.queue()
    before = client.lrange(queue.list_key, 0, -1)
    client.hset(queue.keys["stat"], "fence", "secret")
    for _ in range(3):
        with pytest.raises(
            Unreadable, match="stat, field fence: a whole number belongs"
        ) as refused:
            queue.take(4, consumer="w2")
        assert "secret" not in str(refused.value) and "\n" not in str(refused.value)
    assert len(before) > 0 and client.lrange(queue.list_key, 0, -1) == before
    client.hset(queue.keys["stat"], "fence", "100")
    assert len(queue.take(len(before), consumer="w2").deliveries) == len(before)

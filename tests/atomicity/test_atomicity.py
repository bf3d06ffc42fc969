"""Whatever somebody else wrote into a queue's keys: an operation is refused and has changed nothing,
or it is done, and no entry is lost by it."""

from __future__ import annotations

import os

import pytest
import redis

from .database import Database
from .stages import KINDS, stage
from .verdicts import Judge, Matrix, cases

pytestmark = [pytest.mark.slow, pytest.mark.alike]

EVERY = int(os.environ.get("REDISQ_SEEDS_CORRUPTION", "0")) or 17
"""one case in so many: a prime, so that each operation meets each key, and values by turns"""


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_half_done_where_somebody_else_wrote(client: redis.Redis, kind: str) -> None:
    built = stage(client, kind)
    database, matrix = Database(client), Matrix()
    database.save()
    judge = Judge(database, built)
    for name, corruption in cases(judge)[::EVERY]:
        matrix.add(kind, name, corruption, judge.judge(name, corruption))
    print(f"{kind}: {matrix}")
    assert not matrix.bad, "\n".join([str(matrix), *matrix.bad[:40]])

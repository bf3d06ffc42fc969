"""Which histories are played: thirteen of 400 steps, the first also in the quick run.

More with ``REDISQ_SEEDS=200`` in the environment.
"""

import os
from collections.abc import Iterator

import pytest
from _pytest.mark import ParameterSet

STEPS = 400
SEEDS = 13
QUICK = 1


def seeds() -> Iterator[ParameterSet]:
    for seed in range(int(os.environ.get("REDISQ_SEEDS", SEEDS))):
        yield pytest.param(seed, marks=() if seed < QUICK else pytest.mark.slow)

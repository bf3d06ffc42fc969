"""Which histories are played: a dozen of 400 steps, the first also in the quick run.

More with ``REDISQ_SEEDS=200`` in the environment.
"""

import os
from collections.abc import Iterator

import pytest
from _pytest.mark import ParameterSet

STEPS = 400
QUICK = 1


def seeds() -> Iterator[ParameterSet]:
    for seed in range(int(os.environ.get("REDISQ_SEEDS", "12"))):
        yield pytest.param(seed, marks=() if seed < QUICK else pytest.mark.slow)

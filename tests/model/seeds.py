"""Which histories are played: eight of 400 steps.

More with ``REDISQ_SEEDS=200`` in the environment.
"""

import os
import random
from collections.abc import Callable

STEPS = 400
SEEDS = 8
LOOKS = 1 / 4


def seeds() -> range:
    return range(int(os.environ.get("REDISQ_SEEDS", SEEDS)))


def watching(seed: int) -> Callable[[], bool]:
    """Whether to compare all there is, asked after each step: always in every fourth story, at
    times in the others. (Looking takes most of a story's time, and what is wrong stays wrong.)"""
    chance = random.Random(f"looks {seed}")  # of its own: who looks changes no story
    return lambda: looks_always(seed) or chance.random() < LOOKS


def looks_always(seed: int) -> bool:
    return seed % 4 == 0

"""The fair queue against the book, by seeds."""

import pytest
import redis

from .fair_shards import ShardedFairModel
from .fairs import FairModel
from .seeds import STEPS, seeds


@pytest.mark.slow
@pytest.mark.parametrize("seed", seeds())
def test_the_fair_queue_does_what_the_book_says(client: redis.Redis, seed: int) -> None:
    FairModel(client, seed).play(STEPS)


@pytest.mark.slow
@pytest.mark.parametrize("seed", seeds())
def test_of_several_shards_it_does_so_too(client: redis.Redis, seed: int) -> None:
    ShardedFairModel(client, seed).play(STEPS)

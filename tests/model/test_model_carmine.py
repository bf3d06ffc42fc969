"""The Carmine queue against the book and the second reader, by seeds."""

import pytest
import redis

from .carmine_shards import ShardedCarmineModel
from .carmines import CarmineModel
from .seeds import STEPS, seeds


@pytest.mark.slow
@pytest.mark.parametrize("seed", seeds())
def test_the_carmine_queue_does_what_the_book_says(client: redis.Redis, seed: int) -> None:
    CarmineModel(client, seed).play(STEPS)


@pytest.mark.slow
@pytest.mark.parametrize("seed", seeds())
def test_of_several_shards_it_does_so_too(client: redis.Redis, seed: int) -> None:
    ShardedCarmineModel(client, seed).play(STEPS)

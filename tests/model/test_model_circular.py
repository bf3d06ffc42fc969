"""The circular queue against the book, by seeds; each seed is one of its shapes."""

import pytest
import redis

from .circle_shards import ShardedCircleModel
from .circles import CircleModel
from .seeds import STEPS, seeds


@pytest.mark.slow
@pytest.mark.parametrize("seed", seeds())
def test_the_circular_queue_does_what_the_book_says(client: redis.Redis, seed: int) -> None:
    CircleModel(client, seed).play(STEPS)


@pytest.mark.slow
@pytest.mark.parametrize("seed", seeds())
def test_of_several_shards_it_does_so_too(client: redis.Redis, seed: int) -> None:
    ShardedCircleModel(client, seed).play(STEPS)

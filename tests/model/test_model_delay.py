"""The delay set against the book, by seeds."""

import pytest
import redis

from .delay_shards import ShardedDelayModel
from .delays import DelayModel
from .seeds import STEPS, seeds


@pytest.mark.slow
@pytest.mark.parametrize("seed", seeds())
def test_the_delay_set_does_what_the_book_says(client: redis.Redis, seed: int) -> None:
    DelayModel(client, seed).play(STEPS)


@pytest.mark.slow
@pytest.mark.parametrize("seed", seeds())
def test_of_several_shards_it_does_so_too(client: redis.Redis, seed: int) -> None:
    ShardedDelayModel(client, seed).play(STEPS)

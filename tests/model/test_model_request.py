"""The request queue against the book, by seeds."""

import pytest
import redis

from .request_shards import ShardedRequestModel
from .requests import RequestModel
from .seeds import STEPS, seeds


@pytest.mark.slow
@pytest.mark.parametrize("seed", seeds())
def test_the_request_queue_does_what_the_book_says(client: redis.Redis, seed: int) -> None:
    RequestModel(client, seed).play(STEPS)


@pytest.mark.slow
@pytest.mark.parametrize("seed", seeds())
def test_of_several_shards_it_does_so_too(client: redis.Redis, seed: int) -> None:
    ShardedRequestModel(client, seed).play(STEPS)

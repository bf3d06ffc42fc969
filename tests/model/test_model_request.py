"""The request queue against the book, by seeds."""

import pytest
import redis

from .requests import RequestModel
from .seeds import STEPS, seeds


@pytest.mark.parametrize("seed", seeds())
def test_the_request_queue_does_what_the_book_says(client: redis.Redis, seed: int) -> None:
    RequestModel(client, seed).play(STEPS)

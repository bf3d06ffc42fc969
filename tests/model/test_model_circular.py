"""The circular queue against the book, by seeds; each seed is one of its shapes."""

import pytest
import redis

from .circles import CircleModel
from .seeds import STEPS, seeds


@pytest.mark.slow
@pytest.mark.parametrize("seed", seeds())
def test_the_circular_queue_does_what_the_book_says(client: redis.Redis, seed: int) -> None:
    CircleModel(client, seed).play(STEPS)

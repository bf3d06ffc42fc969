"""The fair queue against the book, by seeds."""

import pytest
import redis

from .fairs import FairModel
from .seeds import STEPS, seeds


@pytest.mark.parametrize("seed", seeds())
def test_the_fair_queue_does_what_the_book_says(client: redis.Redis, seed: int) -> None:
    FairModel(client, seed).play(STEPS)

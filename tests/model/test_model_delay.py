"""The delay set against the book, by seeds."""

import pytest
import redis

from .delays import DelayModel
from .seeds import STEPS, seeds


@pytest.mark.slow
@pytest.mark.parametrize("seed", seeds())
def test_the_delay_set_does_what_the_book_says(client: redis.Redis, seed: int) -> None:
    DelayModel(client, seed).play(STEPS)

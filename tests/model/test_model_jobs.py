"""The layouts of Resque and Sidekiq against the book, by seeds."""

import pytest
import redis

from .jobs import ResqueModel, SidekiqModel
from .seeds import STEPS, seeds


@pytest.mark.slow
@pytest.mark.parametrize("seed", seeds())
def test_sidekiq_s_layout_is_kept(client: redis.Redis, seed: int) -> None:
    SidekiqModel(client, seed).play(STEPS)


@pytest.mark.slow
@pytest.mark.parametrize("seed", seeds())
def test_resque_s_layout_is_kept(client: redis.Redis, seed: int) -> None:
    ResqueModel(client, seed).play(STEPS)

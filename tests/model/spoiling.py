"""Whether a model notices a fault: by one of the stories that the sound queues live through."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import redis

from redisq_ops.core.model.errors import RedisqError

from .seeds import STEPS, looks_always

SEEDS = sorted(range(80), key=looks_always)
"""told one after the other, those that look after each step, which takes long, last; a fault that
none of them notices is not noticed"""
_NO_FAULT = "compiling|nonexistent global|Wrong number of args"
"""errors of a script that doesn't run at all: anybody would notice them"""


def noticed(url: str, model: Callable[..., Any], often: Sequence[str] = ()) -> bool:
    """``often``: the rules of the model that such stories are made of."""
    with redis.Redis.from_url(url, protocol=3) as client:
        for seed in SEEDS:
            client.flushall()
            try:
                story = model(client, seed)
                story.often = often
                story.play(STEPS)
            except (AssertionError, pytest.fail.Exception, RedisqError):
                return True
            except redis.ResponseError as error:
                assert not re.search(_NO_FAULT, str(error)), error
                return True
    return False

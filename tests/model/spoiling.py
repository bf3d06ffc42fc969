"""Lua spoilt on purpose, and whether a model notices."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest
import redis

from redisq_ops.core.model.errors import RedisqError
from redisq_ops.core.redis import script_files, scripts

from .seeds import SEEDS, STEPS

Change = tuple[str, str, str]
"""file, text, what stands there instead"""


@contextmanager
def spoilt(changes: Sequence[Change]) -> Iterator[None]:
    """Every Lua file is read with the changes in it; each of them has to have been."""
    read, done = script_files.read, set()

    def reading(room: str, name: str) -> str:
        text = read(room, name)
        for change in changes:
            file, good, bad = change
            if file == name and "-- INTERFACE:" not in text:
                if good not in text:
                    raise LookupError(f"no such line in {name}.lua any more: {good}")
                text = text.replace(good, bad)
                done.add(change)
        return text

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(script_files, "read", reading)
        scripts.script.cache_clear()
        try:
            yield
        finally:
            scripts.script.cache_clear()
    assert done == set(changes)


def noticed(
    url: str, model: Callable[..., Any], often: tuple[str, ...] = (), first: int = 0
) -> bool:
    """By one of the stories that the sound queues are seen to live through; ``first`` first."""
    with redis.Redis.from_url(url, protocol=3) as client:
        for n in range(SEEDS):
            client.flushall()
            try:
                story = model(client, first + n if first >= SEEDS else (first + n) % SEEDS)
                story.often = often
                story.play(STEPS)
            except (AssertionError, pytest.fail.Exception, RedisqError):
                return True
            except redis.ResponseError as error:
                # What doesn't run at all would be noticed by anybody.
                assert not re.search("compiling|Wrong number of args", str(error)), error
                return True
    return False

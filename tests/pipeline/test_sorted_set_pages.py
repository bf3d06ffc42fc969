"""Pages of a sorted set that changes between two calls of a page."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
import redis

from redisq_ops.core.engine.state_scan import Position, ScoreRange, page
from redisq_ops.core.redis.operation import Call

KEY = "z"


def run_with_interleaving(
    client: redis.Redis, description: Any, between: Callable[[], None]
) -> Any:
    """Run an operation call by call, with another action in between."""
    send: Any = client.execute_command
    try:
        calls: tuple[Call[Any], ...] = description.send(None)
        while True:
            replies = []
            for call in calls:
                replies.append(send(*call.outgoing))
                between()
            calls = description.send(replies)
    except StopIteration as stop:
        return stop.value


def read(
    client: redis.Redis, between: Callable[[], None], max: int, step: int, span: ScoreRange
) -> list[Position]:
    found: list[Position] = []
    cursor: str | None = None
    for _ in range(10_000):
        rows, cursor, _ = run_with_interleaving(client, page(KEY, span, cursor, max, step), between)
        assert len(rows) <= max
        found += rows
        if cursor is None:
            return found
    raise AssertionError("it doesn't come to an end")


@pytest.mark.parametrize("step", [1, 3, 10, 40, 100])
def test_a_page_does_not_depend_on_the_number_of_calls(step: int, client: redis.Redis) -> None:
    client.zadd(KEY, {f"m{k:03}": k // 7 for k in range(200)})
    whole = [(float(k // 7), b"m%03d" % k) for k in range(200)]
    for span in (ScoreRange(), ScoreRange("3:m025", "20:m140")):
        low = 0 if span.after is None else 26
        high = 200 if span.until is None else 141
        assert read(client, lambda: None, 40, step, span) == whole[low:high]


@pytest.mark.parametrize("seed", range(6))
def test_unchanged_members_are_read_once_while_others_change(
    seed: int, client: redis.Redis
) -> None:
    chance = random.Random(seed)
    n = chance.choice([4, 30, 150])
    client.zadd(KEY, {f"m{k:03}": k // 5 for k in range(n)})
    span = chance.choice([ScoreRange(), ScoreRange("0:m001", f"{(n - 3) // 5}:m{n - 3:03}")])
    first, last = (0, n) if span.after is None else (2, n - 2)
    kept = [b"m%03d" % k for k in range(0, n, 2)]

    def between() -> None:
        if chance.random() < 0.15:
            client.zrem(KEY, f"m{chance.randrange(n // 2) * 2 + 1:03}")
        if chance.random() < 0.15:
            client.zadd(KEY, {f"n{chance.randrange(1000)}": chance.randrange(-9, 40)})
        if chance.random() < 0.1:
            client.zremrangebyscore(KEY, -9, -1)

    found = [member for _, member in read(client, between, 20, chance.choice([3, 7, 20]), span)]
    assert [m for m in found if m in kept] == [b"m%03d" % k for k in range(first, last, 2)]

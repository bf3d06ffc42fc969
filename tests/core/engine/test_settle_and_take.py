"""One script that settles and takes does what `settle` and `take` do one after the other."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
import redis

from redisq_ops.core.engine.queue import Queue
from redisq_ops.core.model.entry import Delivery, Outcome, Settlement

from ...model.wire import Picture
from .test_idempotency import ALL, scene, seen

OUTCOMES: tuple[Outcome, ...] = ("ack", "ack", "ack", "result", "fail", "reject", "release")
STEPS = 30


def story(
    client: redis.Redis, kind: type[Queue[Any]], seed: int, at_once: bool
) -> tuple[list[Any], Picture]:
    """The replies of many exchanges, and what there is after them."""
    random = Random(seed)
    opening = scene(client, kind)
    queue: Any = opening.queue
    queue.exchanges_at_once = at_once
    held: list[Delivery] = list(opening.held)
    replies = []
    for _ in range(STEPS):
        chosen = random.sample(held, min(len(held), random.randint(1, 3)))
        ends = [
            Settlement(each, random.choice(OUTCOMES), b"%d" % n, random.choice((0, 0, 5_000)))
            for n, each in enumerate(chosen)
        ]
        reply = queue.settle_and_take(ends, random.randint(1, 3), consumer="w")
        replies.append(reply)
        # Some settled ones stay: their receipts are stale the next time.
        kept = [each for each in held if each not in chosen or random.random() < 0.2]
        held = [*kept, *reply[1].deliveries]
        queue.clock.advance(random.choice((0, 1, 1_000, 40_000)))
    return replies, seen(client)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("kind", ALL, ids=lambda kind: kind.kind)
def test_it_is_a_settle_and_then_a_take(
    client: redis.Redis, kind: type[Queue[Any]], seed: int
) -> None:
    at_once, apart = (story(client, kind, seed, one) for one in (True, False))
    for step, (one, other) in enumerate(zip(at_once[0], apart[0], strict=True)):
        assert one == other, step
    assert at_once[1] == apart[1]
    words = {word for said, _ in at_once[0] for word in said}
    assert "done" in words and len(words) > 2

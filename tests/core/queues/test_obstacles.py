"""A full server, and keys of another type in the way: the same for all kinds of queues of ours."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import redis

from redisq_ops.core.model.clock import FakeClock
from redisq_ops.core.model.errors import Refused, WrongKind
from redisq_ops.core.model.settings import LEASE_MS
from redisq_ops.core.queues.circular import CircularQueue
from redisq_ops.core.queues.delay import DelaySet
from redisq_ops.core.queues.fair import FairQueue
from redisq_ops.demo.server import EmbeddedServer

from ...model.wire import picture
from ...queue_steps import move, settle, take

Make = Callable[..., Any]
KINDS: dict[str, tuple[Make, Callable[[Any, list[str]], Any], tuple[str, ...]]] = {
    "circular": (
        CircularQueue,
        lambda queue, ids: queue.push(ids),
        ("queue", "body", "again", "spent", "lease"),
    ),
    "rotating": (
        lambda *given, **named: CircularQueue(*given, residence="rotate", **named),
        lambda queue, ids: queue.push(ids),
        (),
    ),
    "delay": (
        DelaySet,
        lambda queue, ids: queue.schedule([(id, b"x") for id in ids]),
        ("body", "next", "delay", "stat"),
    ),
    "fair": (
        FairQueue,
        lambda queue, ids: queue.submit("a", [(id, b"x") for id in ids]),
        ("body", "owner", "ring", "holes", "accounts"),
    ),
}
"""how a queue is made, how entries are put in, and keys that this writes"""


@pytest.fixture
def full_server() -> Iterator[tuple[redis.Redis, Callable[[], None]]]:
    """A server of its own, and what fills it to the brim."""
    with (
        EmbeddedServer(args=["--maxmemory", "12mb", "--maxmemory-policy", "noeviction"]) as own,
        redis.Redis.from_url(own.url, protocol=3) as client,
    ):

        def fill() -> None:
            for size in (100_000, 100):
                with pytest.raises(redis.OutOfMemoryError):
                    for n in range(100_000):
                        client.set(f"ballast:{size}:{n}", b"x" * size)

        yield client, fill


@pytest.mark.parametrize("kind", KINDS)
def test_a_full_server_takes_no_new_work_and_can_be_worked_empty(
    full_server: tuple[redis.Redis, Callable[[], None]], kind: str
) -> None:
    (client, fill), (make, put, _), clock = full_server, KINDS[kind], FakeClock()
    queue = make(client, "q", clock=clock)
    put(queue, [f"e{n}" for n in range(5)])
    fill()
    with pytest.raises(Refused, match="full"):
        put(queue, ["more"])
    held = take(queue, 3)
    assert settle(queue, "ack", held[0]) == ["done"]
    assert settle(queue, "fail", held[1], delay=0.01) == ["retry"]
    assert queue.extend(held[2:]) == [True]
    assert move(queue, "purge", "purge", "waiting", "e4") == ["moved"]
    assert move(queue, "hard", "hard", "trash", "e4") == ["moved"]
    if isinstance(queue, FairQueue):
        assert queue.block("a") and queue.unblock("a")
    clock.now_ms += LEASE_MS
    assert settle(queue, "ack", *take(queue)) == ["done"] * 3
    assert queue.counts().done == 4
    assert queue.invariants() == []


@pytest.mark.parametrize(
    ("kind", "part"), [(kind, part) for kind, (*_, parts) in KINDS.items() for part in parts]
)
def test_a_key_of_another_type_in_the_way_is_found_before_anything_is_written(
    client: redis.Redis, kind: str, part: str
) -> None:
    make, put, _ = KINDS[kind]
    client.xadd(f"redisq:{{q}}:{part}", {"somebody": "else's"})
    before = picture(client)
    with pytest.raises(WrongKind, match=f"redisq:{{q}}:{part}"):
        put(make(client, "q"), ["e"])
    assert picture(client) == before

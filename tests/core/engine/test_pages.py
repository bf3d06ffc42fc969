"""Pages of sorted sets: whole, without repeats, and with an end, whatever the scores are.

Scores of other programs are fractions, infinite, or many alike; members are any bytes.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import redis

from redisq_ops.core.foreign.articles import RawDelaySet
from redisq_ops.core.foreign.sidekiq import SidekiqQueue
from redisq_ops.core.model.entry import Page
from redisq_ops.core.queues.delay import DelaySet, ShardedDelaySet
from redisq_ops.core.queues.request import RequestQueue

T = 1_800_000_000_000
INF = float("inf")
SCORES: dict[str, Callable[[random.Random, int], float]] = {
    "fractions": lambda chance, n: T + 0.1 * n,
    "close": lambda chance, n: T + 2.0**-12 * n,
    "alike": lambda chance, n: T + 0.1 * (n // 9),
    "wild": lambda chance, n: chance.choice(
        [INF, -INF, 1e300, -1e300, 5e-324, -0.5, 0.0, T + 0.5, 2.0**53 + 2, chance.uniform(-1, 1)]
    ),
    "any": lambda chance, n: chance.uniform(-1, 1) * 10 ** chance.randint(-300, 300),
}
SIZE = 40


def member(n: int, chance: random.Random) -> bytes:
    """Ids as ours, of any bytes, and one that is huge."""
    odd = (b"\xff%d", b"a:%d", b"\xc3\xa9;%d", b"%%41 %d", b"\xed\xa0\x80%d")
    if n == 7:
        return b"x" * 100_000
    return (chance.choice(odd) if chance.random() < 0.3 else b"j%d") % n


def pages(read: Callable[..., Page], size: int) -> list[str]:
    """All ids, page by page; fails where there are more pages than entries."""
    found: list[str] = []
    cursor: str | None = None
    for _ in range(2 * SIZE):
        page = read(cursor, size)
        assert len(page.entries) <= size
        found += [entry.id for entry in page.entries]
        cursor = page.cursor
        if cursor is None:
            return found
    pytest.fail(f"the pages don't end: {found[:20]}")


@pytest.mark.slow
@pytest.mark.alike
@pytest.mark.parametrize("kind", SCORES)
@pytest.mark.parametrize("part", ["ours", "shards", "raw", "sidekiq"])
def test_pages_are_whole_and_end(client: redis.Redis, part: str, kind: str) -> None:
    chance = random.Random(f"{part} {kind}")
    rows = {member(n, chance): SCORES[kind](chance, n) for n in range(SIZE)}
    queue, keys, state = made(client, part)
    for n, (name, score) in enumerate(rows.items()):
        client.zadd(keys[n % len(keys)], {name: score})
    for size in (1, 3, 7):
        found = [
            id
            for one in (("waiting", "delayed") if part == "raw" else (state,))
            for id in pages(partial(queue.page, one), size)
        ]
        assert len(found) == len(set(found)) == SIZE
    if part in ("ours", "shards"):
        # In the order of the set, or of all sets together.
        order = sorted(rows, key=lambda name: (rows[name], name))
        assert [id.encode("utf-8", "surrogateescape") for id in found] == order
        for start in (0, 5, SIZE - 1, SIZE):
            window = [entry.id for entry in queue.page(state, start=start, max=3).entries]
            assert window == found[start : start + 3]
    if part == "ours":
        assert spanned(queue) == order


def made(client: redis.Redis, part: str) -> tuple[Any, list[str], Any]:
    """A queue, the sorted sets that keep a state of it, and the state."""
    if part == "shards":
        queue: Any = ShardedDelaySet(client, "q", shards=3)
        queue.schedule([("first", b"")])
        client.delete(*[leaf.keys["delay"] for leaf in queue.shard_queues])
        return queue, [leaf.keys["dead"] for leaf in queue.shard_queues], "dead"
    if part == "raw":
        return RawDelaySet(client, "raw-delay:set"), ["set"], None
    if part == "sidekiq":
        queue = SidekiqQueue(client, "sidekiq")
        return queue, ["dead"], "dead"
    queue = DelaySet(client, "q")
    return queue, [queue.keys["dead"]], "dead"


def spanned(queue: DelaySet[redis.Redis]) -> list[bytes]:
    """All members, read as Spark reads them: in parts, each by pages."""
    found: list[bytes] = []
    for span in queue.score_ranges("dead", 11) or ():
        cursor: str | None = None
        while True:
            sheet = queue.read_range("dead", span, cursor, 4)
            found += sheet.ids
            cursor = sheet.cursor
            if cursor is None:
                break
    return found


@pytest.mark.alike
def test_requests_of_equal_and_fractional_age_are_paged(client: redis.Redis) -> None:
    queue = RequestQueue(client, "q")
    for n in range(12):
        queue.submit([b"x", b"y"], id=f"r{n}")
        client.zadd(queue.keys["open"], {f"r{n}": T + 0.1 * (n // 4)})
    found = pages(partial(queue.page, "waiting"), 5)
    assert sorted(found) == sorted(f"r{n}/{k}" for n in range(12) for k in (1, 2))

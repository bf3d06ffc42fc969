"""fsck reads a queue by pages: none of its commands takes as long as a queue."""

from typing import Any

import pytest
import redis

from redisq_ops.core.engine.queue import Queue
from redisq_ops.core.redis.whole_keys import fields

from ..core.engine.test_idempotency import ALL, scene

WHOLE = {f"cmdstat_{name}" for name in ("hkeys", "hvals", "hgetall", "smembers", "keys")}


@pytest.mark.parametrize("kind", ALL)
def test_fsck_reads_no_key_as_a_whole(client: redis.Redis, kind: type[Queue[Any]]) -> None:
    queue = scene(client, kind).queue
    client.config_resetstat()
    assert queue.invariants() == []
    stats: Any = client.info("commandstats")
    assert not WHOLE & set(stats)


def test_large_hash_is_read_completely_by_pages(client: redis.Redis) -> None:
    from redisq_ops.core.redis.operation import run

    wanted = {f"f{n}": b"%d" % n for n in range(5_000)}
    client.hset("h", mapping=wanted)  # type: ignore[arg-type]  # the stubs know no bytes
    client.config_resetstat()
    assert run(client, fields("h")) == wanted
    stats: Any = client.info("commandstats")
    assert stats["cmdstat_hscan"]["calls"] >= 5

"""A change of the number of shards that waits for dead letters is named, with what helps."""

from __future__ import annotations

import pytest
import redis

from redisq_ops.core.engine.registry import find
from redisq_ops.core.model.entry import Settlement
from redisq_ops.core.queues.fair.sharded import ShardedFairQueue
from redisq_ops.core.redis.operation import run
from redisq_ops.core.sharding.shard_map import home
from redisq_ops.ops.deployment import Deployment
from redisq_ops.ops.doctor.examination import examine

from ...command_line import Redisq

WAITS = "still on its way from 3 to 2 shards: 1 dead in shards that it removes"


@pytest.fixture
def queue(client: redis.Redis) -> ShardedFairQueue[redis.Redis]:
    """A queue whose third shard has a dead letter, and should go."""
    queue = ShardedFairQueue(client, "mail", shards=3)
    name = next(f"c{n}" for n in range(99) if home(f"c{n}", 3) == 2)
    queue.submit(name, [("e1", b"")])
    (delivery,) = queue.take(1, consumer="w").deliveries
    queue.settle([Settlement(delivery, "reject", b"error")])
    assert queue.open_resize() is None
    assert queue.resize(2) == 1
    return queue


def test_every_face_names_what_a_resize_waits_for(
    client: redis.Redis, redisq: Redisq, queue: ShardedFairQueue[redis.Redis]
) -> None:
    (found,) = [one for one in run(client, examine(Deployment(client))) if one.check == "shards"]
    assert found.sentence == f"queue mail is {WAITS}"
    assert "redisq replay mail" in (found.advice or "")
    assert "resize(2) again" in (found.advice or "")
    assert redisq.rows("ls")[0]["trouble"][-1]["reason"] == WAITS
    assert f"mail: {WAITS}" in redisq("check", code=1)
    (row,) = redisq.rows("fsck", code=1)
    assert any(WAITS in fault and "redisq replay mail" in fault for fault in row["faults"])
    assert WAITS in redisq("explain", "mail")


@pytest.mark.parametrize("helps", ["replay", "purge"])
def test_the_commands_that_are_named_complete_it(
    client: redis.Redis, redisq: Redisq, queue: ShardedFairQueue[redis.Redis], helps: str
) -> None:
    if helps == "purge":
        redisq("purge", "mail", "--state", "dead", "--yes")
        assert "1 in the trash in shards that it removes" in redisq("ls")
        redisq("trash", "rm", "mail", "--yes")
    else:
        redisq("replay", "mail", "--yes")
        (delivery,) = queue.take(1, consumer="w").deliveries
        queue.settle([Settlement(delivery, "ack")])
    assert queue.resize(2) == 0
    entry = run(client, find("mail"))
    assert entry is not None and (entry.shards, entry.old_shards) == (2, 0)
    assert "resiz" not in redisq("ls") and "still on its way" not in redisq("ls")

"""A change of the number of shards that waits for dead letters is named, with what helps."""

import redis

from redisq_ops.core.model.entry import Settlement
from redisq_ops.core.queues.fair.sharded import ShardedFairQueue
from redisq_ops.core.redis.operation import run
from redisq_ops.core.sharding.shard_map import home
from redisq_ops.ops.deployment import Deployment
from redisq_ops.ops.doctor.examination import examine


def test_doctor_names_what_a_resize_waits_for(client: redis.Redis) -> None:
    queue = ShardedFairQueue(client, "mail", shards=3)
    name = next(f"c{n}" for n in range(99) if home(f"c{n}", 3) == 2)
    queue.submit(name, [("e1", b"")])
    (delivery,) = queue.take(1, consumer="w").deliveries
    queue.settle([Settlement(delivery, "reject", b"error")])
    assert queue.resize_waits_for() == ""

    assert queue.resize(2) == 1
    found = [one for one in run(client, examine(Deployment(client))) if one.check == "shards"]
    assert [one.sentence for one in found] == [
        "queue mail is still on its way from 3 to 2 shards: 1 dead in shards that it removes"
    ]
    assert "purge the dead" in (found[0].advice or "")

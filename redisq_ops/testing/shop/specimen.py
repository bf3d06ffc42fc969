"""What `redisq_ops.testing.conformance` finds in the queues of the shop, a line for each fault.

python specimen.py redis://localhost:6390    # an empty server: the test fills and flushes it
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import redis

from redisq_ops.core.model.entry import State
from redisq_ops.testing.conformance import Specimen, conform


def job(id: str) -> bytes:
    return json.dumps({"id": id, "task": "pack"}).encode()


def fill(client: Any) -> Mapping[State, Sequence[str]]:
    """Fill a server, best by the program itself; returns the ids in each state, in their order."""
    waiting, dead = ([f"{name}{n}" for n in range(5)] for name in "wd")
    client.rpush("shop:jobs:mugs", *map(job, waiting))
    client.zadd("shop:failed:mugs", {job(id): 1_700_000_000 + n for n, id in enumerate(dead)})
    return {"waiting": waiting, "dead": dead}


def retried(client: Any, id: str) -> None:
    """What the program itself does for a retry."""
    client.zrem("shop:failed:mugs", job(id))
    client.rpush("shop:jobs:mugs", job(id))


SPECIMEN = Specimen("shop:mugs", fill, own_verbs={("replay", "dead"): retried})

if __name__ == "__main__":
    with redis.Redis.from_url(sys.argv[1], protocol=3) as client:
        if client.dbsize():
            sys.exit("this server has keys: the test needs an empty one")
        found = list(conform(client, SPECIMEN))
        client.flushdb()
    print(*found, sep="\n", end="\n" * bool(found))
    sys.exit(bool(found))

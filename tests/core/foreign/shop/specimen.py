"""Run beside the installed package: what the shop's specimen does otherwise, a line each."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import redis

from redisq_ops.core.model.entry import State
from redisq_ops.testing.conformance import Specimen, conform


def order(name: str) -> bytes:
    return json.dumps({"order": name, "task": "pack"}).encode()


def fill(client: Any) -> Mapping[State, Sequence[str]]:
    waiting, dead = ([f"{name}{n}" for n in range(5)] for name in "wb")
    client.rpush("shop:orders:mugs", *map(order, waiting))
    client.zadd("shop:broken:mugs", {order(name): 1_700_000_000 + n for n, name in enumerate(dead)})
    return {"waiting": waiting, "dead": dead}


def retried(client: Any, id: str) -> None:
    client.zrem("shop:broken:mugs", order(id))
    client.rpush("shop:orders:mugs", order(id))


if __name__ == "__main__":
    shop = Specimen("shop:mugs", fill, own_verbs={("replay", "dead"): retried})
    with redis.Redis.from_url(sys.argv[1], protocol=3) as client:
        for finding in conform(client, shop):
            print(finding)
        fill(client)

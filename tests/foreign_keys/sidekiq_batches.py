"""Batches of Sidekiq, with the keys that the gem sidekiq-batch (0.1.9, 0.2.0) wrote."""

from __future__ import annotations

import json
from typing import Any

import redis

BID, INNER = "TatUDK7WhjDzPQ", "wz0cfbw7eAXloA"
DAYS_30 = 2_592_000


def job(jid: str, bid: str, queue: str = "default", **more: Any) -> str:
    """As Sidekiq's client writes it."""
    named = {"retry": 0, "queue": queue, "args": [jid], "class": "Part", "jid": jid}
    times = {"created_at": 1796054317.233446, "bid": bid, "enqueued_at": 1796054317.2334948}
    return json.dumps({**named, **times, **more}, separators=(",", ":"))


def dead(jid: str, bid: str, **more: Any) -> str:
    failed: dict[str, Any] = {
        "error_message": "no luck",
        "error_class": "RuntimeError",
        "failed_at": 1796054326.26,
    }
    return job(jid, bid, **failed, retry_count=0, **more)


def gem_batch(client: redis.Redis, array: bool = False) -> None:
    """Of three jobs one has succeeded and one is dead; a batch in it has one job. ``array``: as
    0.1.9 writes ids with redis-rb 4.8."""
    batch = f"BID-{BID}"
    client.hset(batch, mapping={"description": "Import of May", "created_at": "1796054317.2293315"})
    client.hset(batch, mapping={"children": 1, "pending": 2, "total": 3})
    client.sadd(f"{batch}-callbacks-success", '{"callback":"Done","opts":{"to":"ann"}}')
    client.sadd(f"{batch}-callbacks-complete", '{"callback":"Done#on_complete","opts":{}}')
    client.sadd(f"{batch}-failed", "bad")
    ids = json.dumps(["good", "bad", "later"])
    client.sadd(f"{batch}-jids", *([ids] if array else ["bad", "later"]))
    client.hset(f"BID-{INNER}", mapping={"description": "Inner", "created_at": "1796054317.234154"})
    client.hset(f"BID-{INNER}", mapping={"parent_bid": BID, "pending": 1, "total": 1})
    client.sadd(f"BID-{INNER}-jids", *(['["inner"]'] if array else ["inner"]))
    client.zadd("dead", {dead("bad", BID): 1796054326.27})
    client.lpush("queue:low", job("later", BID, "low"), job("inner", INNER, "low"))
    client.sadd("queues", "default", "low")
    for key in client.scan_iter("BID-*"):
        client.expire(key, DAYS_30)

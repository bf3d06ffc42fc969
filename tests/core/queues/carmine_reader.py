"""A second reader of Carmine's keys, written from the table of states and nothing else.

It knows none of our keys and none of our code. What it says of every message is compared with what
the queue says, after every step of the model test.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from hashlib import sha1
from typing import Any

# message · done · lock stands · backoff stands · requeue  (None: whichever)
TABLE: tuple[tuple[tuple[bool | None, ...], str], ...] = (
    ((False, None, None, None, None), "nx"),
    ((True, False, False, False, None), "queued"),
    ((True, False, False, True, None), "queued-with-backoff"),
    ((True, False, True, None, False), "locked"),
    ((True, False, True, None, True), "locked-with-requeue"),
    ((True, True, None, False, None), "done-awaiting-gc"),
    ((True, True, None, True, False), "done-with-backoff"),
    ((True, True, None, True, True), "done-with-requeue"),
)

Raw = Mapping[str, Any]
"""Carmine's name of a key -> what the server holds there, as bytes"""


def state(raw: Raw, mid: bytes, now_ms: int) -> str:
    """The state of one message."""
    said = (
        mid in raw.get("messages", {}),
        mid in raw.get("done", ()),
        int(raw.get("locks", {}).get(mid, 0)) > now_ms,
        int(raw.get("backoffs", {}).get(mid, 0)) > now_ms,
        mid in raw.get("requeue", ()),
    )
    (word,) = [
        word
        for row, word in TABLE
        if all(want is None or want == is_ for want, is_ in zip(row, said, strict=True))
    ]
    return word


def states(raw: Raw, now_ms: int) -> dict[str, str]:
    """Every message that any of the keys names."""
    mids = {mid for part in ("messages", "locks", "backoffs", "nattempts") for mid in raw[part]}
    mids |= {*raw["done"], *raw["requeue"], *raw["mid-circle"]} - {b"end-of-circle"}
    return {mid.decode(): state(raw, mid, now_ms) for mid in mids}


def read(client: Any, name: str) -> Raw:
    """The nine keys of a queue, in one round trip."""
    pipe = client.pipeline(transaction=False)
    for part in ("messages", "locks", "backoffs", "nattempts"):
        pipe.hgetall(f"carmine:mq:{name}:{part}")
    pipe.lrange(f"carmine:mq:{name}:mid-circle", 0, -1)
    for part in ("done", "requeue"):
        pipe.smembers(f"carmine:mq:{name}:{part}")
    for part in ("eoq-backoff?", "ndry-runs"):
        pipe.get(f"carmine:mq:{name}:{part}")
    parts = ("messages", "locks", "backoffs", "nattempts", "mid-circle", "done", "requeue")
    return dict(zip((*parts, "eoq-backoff?", "ndry-runs"), pipe.execute(), strict=True))


# --- Carmine 4, in preview -----------------------------------------------------------------------

PARTS_4 = {
    "ready-high": "ready", "ready-normal": "ready", "ready-low": "ready",
    "scheduled": "scheduled", "leased": "leased", "dead": "dead",
}  # fmt: skip
_PUT = """
redis.call('ZADD', KEYS[1], ARGV[2], ARGV[1])
redis.call('HSET', KEYS[2], ARGV[1], cmsgpack.pack(cjson.decode(ARGV[3])))
redis.call('HSET', KEYS[3], ARGV[1], ARGV[4])
"""


def base_4(name: str) -> str:
    """What the keys of a queue begin with: a tag of 16 digits, and the name."""
    return f"carmine:mq:v4:{{{sha1(name.encode()).hexdigest()[:16]}}}:{name}:"


def put_4(
    client: Any, name: str, part: str, mid: bytes, score: int, record: list[Any], content: bytes
) -> None:
    """A message as its table has it, the record packed by the server as Carmine's scripts do."""
    base, dead = base_4(name), part == "dead"
    keys = [base + key for key in (part, "failures" if dead else "meta",
                                   "dead-payloads" if dead else "payloads")]  # fmt: skip
    client.eval(_PUT, 3, *keys, mid, score, json.dumps(record), content)
    if part == "leased":
        client.hset(base + "lease-tokens", mid, "token-of-" + str(score))


def states_4(client: Any, name: str) -> dict[bytes, set[str]]:
    """Every message in every index: an id may be dead and there again."""
    found: dict[bytes, set[str]] = {}
    for part, state_ in PARTS_4.items():
        for mid in client.zrange(base_4(name) + part, 0, -1):
            found.setdefault(mid, set()).add(state_)
    return found

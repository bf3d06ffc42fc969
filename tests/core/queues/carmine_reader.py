"""A second reader of Carmine's keys, written from the table of states and nothing else.

It knows none of our keys and none of our code. What it says of every message is compared with what
the queue says, after every step of the model test.
"""

from __future__ import annotations

from collections.abc import Mapping
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

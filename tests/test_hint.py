"""Commands to copy: whatever a name looks like, a shell and the command line take them."""

from __future__ import annotations

import json
import shlex
from typing import Any

import redis

from redisq_ops.core.delay import DelaySet
from redisq_ops.core.request import RequestQueue
from redisq_ops.core.values import Failure, Settlement
from redisq_ops.ops.hint import hint

from .cli import Redisq

ODD = "-w$;ird'q"


def test_a_dash_at_the_front_of_a_name_is_no_option() -> None:
    assert hint("replay", "it's/1") == "redisq replay 'it'\"'\"'s/1'"
    assert hint("consumers", "claim", "s", "w", to="x") == "redisq consumers claim s w --to x"
    assert hint("consumers", "claim", "s", "-w", to="-x") == (
        "redisq consumers claim s --to -x -- -w"
    )
    assert hint("request", "priority", "-q/r1", "0") == "redisq request priority -- -q/r1 0"


def rejected(queue: RequestQueue[redis.Redis] | DelaySet[redis.Redis]) -> None:
    queue.settle([
        Settlement(given, "reject", Failure("T", "m").encoded())
        for given in queue.take(1, consumer="-w1").deliveries
    ])  # fmt: skip


def told(redisq: Redisq, *words: str) -> dict[str, Any]:
    """The one row that is said of a name with a dash."""
    (line,) = redisq(*words[:-1], "--json", "--", words[-1]).splitlines()
    row: dict[str, Any] = json.loads(line)
    return row


def test_what_is_offered_for_such_names_runs(redisq: Redisq, client: redis.Redis) -> None:
    queue = RequestQueue(client, ODD)
    queue.submit([b"x"] * 3, id="-r1")
    rejected(queue)
    queue.take(1, consumer="-w1")
    for id, verb in ((f"{ODD}/-r1/1", "replay"), (f"{ODD}/-r1/2", "requeue")):
        row = told(redisq, "explain", id)
        assert row["verb"] == verb
        name, *words = shlex.split(row["command"])
        assert name == "redisq" and "--" in words
        redisq(words[0], "--yes", *words[1:])
        assert queue.get(id.partition("/")[2]).state == "waiting"  # type: ignore[union-attr]
    redisq("queue", "pause", "--yes", "--reason", "x", "--", ODD)
    row = told(redisq, "explain", ODD)
    _, *words = shlex.split(row["command"])
    redisq(*words[:2], "--yes", *words[2:])
    assert queue.counts().paused is None
    line = redisq.refusal("inspect", "request", "--", f"{ODD}/-r1/1", code=1)
    assert "redisq inspect entry -- " in line
    rejected(queue)
    group = told(redisq, "dlq", "groups", ODD)
    offered = redisq("dlq", "group", "--", ODD, group["group"]).splitlines()
    (offer,) = [one for one in offered if one.startswith("  redisq dlq replay")]
    _, *words = shlex.split(offer)
    redisq(*words[:2], "--yes", *words[2:])
    assert queue.counts().dead == 0


def test_a_stream_and_its_consumer_with_dashes(redisq: Redisq, client: redis.Redis) -> None:
    id = client.xadd("orders", {"n": 1}).decode()  # type: ignore[union-attr]
    client.xgroup_create("orders", "-g", id="0")
    client.xreadgroup("-g", "-w", {"orders": ">"})
    (row,) = redisq.rows("explain", f"stream:orders/{id}")
    assert row["command"] == "redisq consumers claim stream:orders --group -g --to NAME -- -w"
    _, *words = shlex.split(row["command"])
    redisq(*words[:2], "--yes", "--min-idle", "0s", *words[2:])
    (row,) = redisq.rows("explain", f"stream:orders/{id}")
    assert row["facts"]["consumer"] == "NAME"

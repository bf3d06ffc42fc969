"""The dashboard reads by short calls, however much it shows."""

from __future__ import annotations

import re
from typing import Any

import redis

from redisq_ops.core.queues.request import RequestQueue
from redisq_ops.core.redis.operation import run
from redisq_ops.ops.deployment import Deployment
from redisq_ops.ops.filter.scan import PAGE
from redisq_ops.ops.inspect.snapshot import Viewport
from redisq_ops.ops.inspect.snapshot_reader import fetch

from ...command_line import dead_letters

MORE = re.compile(rb"\((\d+) more arguments\)")


def test_large_window_is_read_in_short_calls(client: redis.Redis) -> None:
    dead_letters(client, 600)
    deployment: Any = Deployment(client)
    whole = run(client, fetch(deployment, Viewport(view="dead", queue="mail", start=0, end=600)))
    ids = [entry.id for entry in whole.entries]
    assert len(set(ids)) == len(ids) == 600 == whole.total
    client.config_set("slowlog-log-slower-than", 0)
    client.config_set("slowlog-max-len", 1000)
    client.slowlog_reset()
    try:
        viewport = Viewport(view="dead", queue="mail", start=50, end=550)
        seen = run(client, fetch(deployment, viewport))
        calls: Any = client.slowlog_get(1000)
    finally:
        client.config_set("slowlog-log-slower-than", 10_000)
    assert [entry.id for entry in seen.entries] == ids[50:550]
    longest = max(int(found[1]) for row in calls for found in MORE.finditer(row["command"]))
    assert longest <= PAGE
    last = run(
        client, fetch(deployment, Viewport(view="dead", queue="mail", end=500, descending=True))
    )
    assert [entry.id for entry in last.entries] == ids[:99:-1]


def test_waiting_entries_are_listed_as_far_as_they_are_found_quickly(client: redis.Redis) -> None:
    queue = RequestQueue(client, "mail")
    deployment: Any = Deployment(client)
    for n in range(3):
        queue.submit([b"x"] * 400, id=f"r{n}")

    def rows(start: int, *, descending: bool = False) -> list[str]:
        viewport = Viewport(
            view="waiting", queue="mail", start=start, end=start + 50, descending=descending
        )
        seen = run(client, fetch(deployment, viewport))
        assert (seen.total, seen.exact) == (1000, False)  # "≥1,000"
        return [entry.id for entry in seen.entries]

    assert rows(0)[0] == "r0/1" and rows(980)[-1] == "r2/200" and rows(1100) == ["r2/200"]
    assert rows(0, descending=True)[0] == "r2/200"
    queue.take(200, consumer="w1")
    viewport = Viewport(view="waiting", queue="mail", start=990, end=1040)
    seen = run(client, fetch(deployment, viewport))
    assert (seen.total, seen.exact, seen.entries[-1].id) == (1000, True, "r2/400")

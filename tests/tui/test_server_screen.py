"""`i`: what the server reports of itself."""

from __future__ import annotations

from typing import Any

import redis
from textual.pilot import Pilot

from redisq_ops.core.queues.request import RequestQueue
from redisq_ops.ops.doctor.server_report import ServerReport
from redisq_ops.tui.app import Top
from redisq_ops.tui.frame import text
from redisq_ops.tui.screens.server_screen import server_text

from .test_app import drive, press, see, until

GIB = 1 << 30
BUSY = {
    "redis_version": "7.2.4",
    "role": "master",
    "uptime_in_seconds": 90_000,
    "used_memory": 3 * GIB,
    "used_memory_peak": 4 * GIB,
    "maxmemory": 4 * GIB,
    "maxmemory_policy": "allkeys-lru",
    "evicted_keys": 12,
    "instantaneous_ops_per_sec": 12_400,
    "instantaneous_input_kbps": 1536.0,
    "instantaneous_output_kbps": 0.5,
    "connected_clients": 132,
    "blocked_clients": 4,
    "maxclients": 10_000,
    "connected_slaves": 2,
    "slave0": {"state": "online", "lag": 0},
    "slave1": {"state": "online", "lag": 3},
    "aof_enabled": 1,
}


def said(info: dict[str, Any], **more: Any) -> dict[str, str]:
    """The lines of a server's figures, by their first word."""
    lines = server_text(ServerReport(info, **more)).plain.splitlines()[1:]
    return {line[:17].strip(): line[17:] for line in lines}


def test_the_figures_of_a_busy_server() -> None:
    found = said(BUSY, slow=((12_400, "take of request queues"),))
    assert found["up"] == "1d 1h"
    assert "3.0 GiB used, 75 % of 4.0 GiB, 1.0 GiB left" in found["memory"]
    assert found["limit"] == "maxmemory; the most used so far: 4.0 GiB"
    assert found["evictions"] == (
        "12 keys deleted for want of memory since the start; policy allkeys-lru"
    )
    assert (found["commands"], found["network"]) == ("12,400/s", "1.5 MiB/s in, 512 B/s out")
    assert found["clients"] == "132 of at most 10,000; 4 wait for entries"
    assert found["role"] == "primary; 2 replicas, the slowest 3 s behind"
    assert found["slow log"] == "1 script, the longest 12.4 ms: take of request queues"
    assert "the server deletes entries" in found["! eviction"]


def test_what_a_server_does_not_say_is_unknown_and_not_zero() -> None:
    found = said({"redis_version": "7.2.4", "role": "master"})
    unknown = ("up", "memory", "limit", "evictions", "commands", "network", "clients")
    assert [found[name] for name in unknown] == ["unknown"] * 7
    assert found["slow log"] == "can't be read"


def test_the_screen_is_brought_up_to_date(url: str, client: redis.Redis) -> None:
    RequestQueue(client, "mail").submit([b"x"], id="r")

    async def body(app: Top, pilot: Pilot[Exception]) -> None:
        await press(pilot, "i")
        await see(pilot, "wait for entries", "maxmemory is not set")
        client.config_set("maxmemory", "900mb")
        try:
            await see(pilot, "of 900 MiB")
        finally:
            client.config_set("maxmemory", "0")
        await press(pilot, "escape")
        await until(pilot, lambda: "maxmemory" not in text(app))

    drive(url, body)


def test_a_user_who_may_not_read_it_is_told_so(url: str, client: redis.Redis) -> None:
    admin: Any = client
    admin.execute_command(
        *["ACL", "SETUSER", "bob", "reset", "on", ">x", "~*", "&*", "+@all", "-info"]
    )

    async def body(app: Top, pilot: Pilot[Exception]) -> None:
        await press(pilot, "i")
        await see(pilot, "may not run INFO")

    try:
        drive(url.replace("//", "//bob:x@"), body)
    finally:
        client.acl_deluser("bob")

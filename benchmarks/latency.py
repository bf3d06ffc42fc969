"""The longest calls of a server, not their means."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import redis

from .measure import realtime_priority

LONG_US = 1000
"""no call is designed to take longer than this"""
LOG_LENGTH = 10_000
OWN_COMMANDS = ("config", "slowlog", "info", "flushall")
"""commands of the measurement itself"""
_LATENCY = "latency_percentiles_usec_"


def longest_ms(client: redis.Redis) -> float:
    """The longest call since the statistics were reset; ``latency-tracking-info-percentiles`` must
    have 100."""
    stats: Any = client.info("latencystats")
    times = {name.removeprefix(_LATENCY): float(row["p100"]) for name, row in stats.items()}
    return max(us for name, us in times.items() if name.split("|")[0] not in OWN_COMMANDS) / 1000


@contextmanager
def report_longest_calls(client: redis.Redis, what: str) -> Iterator[None]:
    """Print p50, p99.9 and the longest call of each command in the block, and how many were long.

    The server's clock runs on while another process uses its core. So the server gets real-time
    priority if permitted; without it, some calls look long that did little.
    """
    info: Any = client.info("server")
    client.config_set("latency-tracking-info-percentiles", "50 99.9 100")
    client.config_set("slowlog-max-len", LOG_LENGTH)
    client.config_set("slowlog-log-slower-than", LONG_US)
    client.config_resetstat()
    client.slowlog_reset()
    with realtime_priority(info["process_id"]) as has_priority:
        yield
    stats: Any = client.info("latencystats")
    calls: Any = client.info("commandstats")
    slow: Any = client.slowlog_get(LOG_LENGTH)
    rows = []
    for name, row in stats.items():
        command = name.removeprefix(_LATENCY)
        if command.split("|")[0] not in OWN_COMMANDS:
            count = calls[f"cmdstat_{command}"]["calls"]
            times = [float(row[name]) / 1000 for name in ("p100", "p99.9", "p50")]
            rows.append((*times, command, count))
    load = f"a load of {os.getloadavg()[0]:.1f}" + (", the server before all others" * has_priority)
    print(f"    {what}: calls of the server at {load}")
    for longest_ms, p999_ms, p50_ms, command, count in sorted(rows, reverse=True)[:4]:
        print(
            f"      {command}: {count:,} calls, half of them within {p50_ms:.2f} ms, 99.9 % "
            f"within {p999_ms:.2f} ms, the longest {longest_ms:.2f} ms"
        )
    long = Counter(_command(row) for row in slow if _command(row).split(" ")[0] not in OWN_COMMANDS)
    counts_text = ", ".join(f"{n} {name}" for name, n in long.most_common(4)) or "none"
    print(f"      longer than 1 ms: {counts_text}")


def _command(row: Any) -> str:
    """A command's name; a script by the begin of its checksum."""
    words = [word.decode(errors="replace") for word in row["command"].split(b" ")[:2]]
    return words[0].lower() if words[0].lower() != "evalsha" else f"evalsha {words[1][:8]}"

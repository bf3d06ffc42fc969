"""What single calls kept the server for: the longest ones, not means."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import redis

LONG_US = 1000
"""no call is planned to keep the server for longer"""
LOG = 10_000
OWN = ("config", "slowlog", "info", "flushall")
"""commands of the measurement itself"""


@contextmanager
def longest(client: redis.Redis, what: str) -> Iterator[None]:
    """Around some work: prints p50, p99.9 and the longest call of each command, and how many were
    long.

    The server's clock goes on while another process has its core, so it is given the right of way
    where we may do that; else some calls are long that did nothing of the kind.
    """
    info: Any = client.info("server")
    pid, prior = info["process_id"], True
    try:
        os.sched_setscheduler(pid, os.SCHED_FIFO, os.sched_param(1))
    except PermissionError:
        prior = False
    client.config_set("latency-tracking-info-percentiles", "50 99.9 100")
    client.config_set("slowlog-max-len", LOG)
    client.config_set("slowlog-log-slower-than", LONG_US)
    client.config_resetstat()
    client.slowlog_reset()
    try:
        yield
    finally:
        if prior:
            os.sched_setscheduler(pid, os.SCHED_OTHER, os.sched_param(0))
    stats: Any = client.info("latencystats")
    calls: Any = client.info("commandstats")
    slow: Any = client.slowlog_get(LOG)
    rows = []
    for name, row in stats.items():
        command = name.removeprefix("latency_percentiles_usec_")
        if command.split("|")[0] not in OWN:
            number = calls[f"cmdstat_{command}"]["calls"]
            times = [float(row[name]) / 1000 for name in ("p100", "p99.9", "p50")]
            rows.append((*times, command, number))
    load = f"a load of {os.getloadavg()[0]:.1f}" + (", the server before all others" * prior)
    print(f"    {what}: calls of the server at {load}")
    for worst, most, half, command, number in sorted(rows, reverse=True)[:4]:
        print(
            f"      {command}: {number:,} calls, half of them within {half:.2f} ms, 99.9 % "
            f"within {most:.2f} ms, the longest {worst:.2f} ms"
        )
    long = Counter(_command(row) for row in slow if _command(row).split(" ")[0] not in OWN)
    said = ", ".join(f"{n} {name}" for name, n in long.most_common(4)) or "none"
    print(f"      longer than 1 ms: {said}")


def _command(row: Any) -> str:
    """A script by the keys it was given last, since its name is a checksum."""
    words = [word.decode(errors="replace") for word in row["command"].split(b" ")[:2]]
    return words[0].lower() if words[0].lower() != "evalsha" else f"evalsha {words[1][:8]}"

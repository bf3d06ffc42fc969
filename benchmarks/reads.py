"""A million entries in a state: a page anywhere, the counts, and `--where id=`, of every kind.

For each read: the server's time for all its calls, its longest call, and the longest time that
another client waited for a `PING` meanwhile, the most of some rounds. The first page is the one
that a list shows, the others are those by rank that `redisq-top` asks for: of what waits in a
request queue, the first 1,000.

``KINDS`` names the kinds to measure, ``JOBS`` says how many entries a state has.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import redis

from redisq_ops.core.model.entry import State
from redisq_ops.core.redis.operation import run
from redisq_ops.ops.deployment import Deployment
from redisq_ops.ops.filter.filter import Filter
from redisq_ops.ops.filter.parser import parse
from redisq_ops.ops.filter.scan import Scan

from . import foreign_jobs, replay
from .latency import longest_ms
from .measure import ROUNDS, empty, realtime_priority, server_us, servers, url_of
from .peers.kinds import KINDS as OURS

JOBS = int(os.environ.get("JOBS", "1000000"))
PAYLOAD = b"x" * 300
SCREEN = 100
DEAD = {"request": replay.requests, "delay": replay.delayed}
"""of our own kinds, those whose dead letters are written here, too"""
States = dict[State, str]
"""state -> the name of the queue that has so many entries in it"""


def put_ours(client: redis.Redis, kind: str) -> Iterator[States]:
    empty(client)
    queue, put = OURS[kind](client)
    put([(f"e{n}", PAYLOAD) for n in range(JOBS)])
    yield {"waiting": queue.name}
    if kind in DEAD:
        empty(client)
        DEAD[kind](client, JOBS)
        yield {"dead": "mail"}


def put_theirs(client: redis.Redis, kind: str) -> Iterator[States]:
    empty(client)
    foreign_jobs.fill(client, kind, JOBS)
    name = foreign_jobs.NAMES[kind]
    yield {"waiting": name} if kind == "arq" else {"waiting": name, "dead": name}


def find(client: redis.Redis, queue: Any, state: State, id: str) -> None:
    """As `--where id=` finds an entry."""
    scan = Scan(queue, state, Filter(where=parse(f"id={id}")), queue.now())
    while not scan.over:
        run(client, scan.step())


def slowest(client: redis.Redis, work: Callable[[], object], rounds: int = ROUNDS) -> str:
    """Of the slowest round: ms of the server for all calls; then the longest call and wait."""
    total_ms, call_ms = 0.0, 0.0
    with replay.ping_times(url_of(client)) as pings:
        for _ in range(rounds):
            total_ms = max(total_ms, server_us(client, work)[0] / 1000)
            call_ms = max(call_ms, longest_ms(client))
    return f"{total_ms:.2f} ({call_ms:.2f}), {max(pings, default=0.0):.1f}"


def measure(client: redis.Redis, kind: str, states: States) -> None:
    for state, name in states.items():
        queue = run(client, Deployment(client).queue(name))
        depth = min(JOBS, (queue.waiting_depth if state == "waiting" else None) or JOBS)
        half = queue.page(state, start=depth // 2, max=1).entries or queue.page(state).entries
        page = partial(queue.page, state, max=SCREEN, payloads=True)
        ranks = (depth // 2, depth - SCREEN)
        reads = [page, *(partial(page, start=rank) for rank in ranks), queue.counts]
        row = [kind, state, *(slowest(client, read) for read in reads)]
        # Where an id does not lead to its entry, the whole state is read.
        row.append(slowest(client, partial(find, client, queue, state, half[0].id), 1))
        print(f"| {' | '.join(row)} |", flush=True)


def main() -> None:
    kinds = os.environ.get("KINDS", " ".join([*OURS, *foreign_jobs.NAMES])).split()
    with servers(in_use=True) as each:
        for name, client in each:
            server: Any = client.info("server")
            client.config_set("latency-tracking-info-percentiles", "100")
            with realtime_priority(server["process_id"]) as first:
                name += "" if first else ", without priority"
                print(f"{name}, {JOBS:,} entries a state, load {os.getloadavg()[0]:.1f}")
                print("ms of the server (its longest call), another client's longest wait")
                print("| queue of | state | first page | middle | last | counts | `id=` |")
                print("|---|---|--:|--:|--:|--:|--:|")
                for kind in dict.fromkeys(kinds):
                    put = put_theirs if kind in foreign_jobs.NAMES else put_ours
                    for states in put(client, kind):
                        measure(client, kind, states)

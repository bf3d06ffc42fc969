"""Replay of all dead letters: time, server time, effect on another client; and peers.

Measured as users type it, `redisq dlq replay QUEUE --yes`, from the start of the process to its
end: it includes counting, the plan, the audit log and the undo record of every entry. Then it is
undone with `redisq undo --yes`.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import redis

from redisq_ops.core.engine.queue import Queue
from redisq_ops.core.queues.delay import DelaySet
from redisq_ops.core.queues.request import RequestQueue
from redisq_ops.core.redis.operation import run
from redisq_ops.ops.change.audit_log import Author
from redisq_ops.ops.change.entry_steps import EntryAction
from redisq_ops.ops.change.runner import ChangeRun
from redisq_ops.ops.change.scope import select_whole_state
from redisq_ops.ops.change.whole_state import WholeStateSteps
from redisq_ops.ops.filter.filter import Filter

from .bulk_entries import BATCH, COPY, DAY_MS, ERROR, PAYLOAD, seed
from .measure import ROUNDS, empty, realtime_priority, server_us, servers, spread, url_of
from .peers import own_replay
from .peers.environment import NotInstalled

MANY = 1_000_000
AIM_S = 6.0
PEER_JOBS = {"rq": 2_000, "bullmq": 20_000}
GOALS = {"rq": 100.0, "bullmq": 1.0}
PING_ROUNDS = 5
"""rounds with another client: the machine's other load decides a 99th percentile"""
IDLE_S = 2.0
_PING = """
import redis, select, sys, time
client, times = redis.Redis.from_url(sys.argv[1]), []
client.ping()
print("ready", flush=True)
while not select.select([sys.stdin], [], [], 0)[0]:
    began = time.perf_counter()
    client.ping()
    took = time.perf_counter() - began
    times.append(f"{took * 1000:.3f}")
    time.sleep(max(0.0, 0.002 - took))
print(*times)
"""
# Dead entries of a delay set, with the data that settling leaves.
_BURY = """
local base, first, last, now = KEYS[1], tonumber(ARGV[1]), tonumber(ARGV[2]), ARGV[3]
for n = first, last do
  local id, at = 'e' .. n, now + n
  local line = '- 1 0 ' .. at .. ' ' .. at .. ' w - rejected ' .. at
  redis.call('HSET', base .. 'body', id, ARGV[4])
  redis.call('HSET', base .. 'meta', id, line)
  redis.call('HSET', base .. 'err', id, ARGV[5])
  redis.call('ZADD', base .. 'dead', at, id)
end
"""


def requests(client: redis.Redis, n: int) -> None:
    queue = RequestQueue(client, "mail")
    seed(queue)
    # Only dead entries are copied; a handful are waiting, pending and delayed.
    copy: Any = client.register_script(COPY)
    for first in range(1, n // BATCH, 10):
        last = min(first + 10, n // BATCH) - 1
        copy(keys=[queue.keys.base], args=["dead", first, last])


def delayed(client: redis.Redis, n: int) -> None:
    queue = DelaySet(client, "mail")
    queue.schedule([("first", PAYLOAD)], after=DAY_MS / 1000)
    bury: Any = client.register_script(_BURY)
    start = queue.now() - 2 * n  # a death each millisecond, the latest one a while ago
    for first in range(0, n, 1000):
        last = min(first + 1000, n) - 1
        bury(keys=[queue.keys.base], args=[first, last, start, PAYLOAD, ERROR])


FILLS = {"request queue": requests, "delay set": delayed}


def redisq(url: str, *words: str) -> None:
    command = [sys.executable, "-m", "redisq_ops", "--url", url, *words, "--yes"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def replay(url: str) -> None:
    redisq(url, "dlq", "replay", "mail")


@dataclass
class CallCosts:
    """Server time of the calls of a command, one value per round."""

    seconds: list[float] = field(default_factory=list)
    each_us: list[float] = field(default_factory=list)
    mean_ms: list[float] = field(default_factory=list)
    p999_ms: list[float] = field(default_factory=list)
    longest_ms: list[float] = field(default_factory=list)

    def add(self, client: redis.Redis, entries: int, work: Callable[[], object]) -> None:
        client.config_set("latency-tracking-info-percentiles", "99.9 100")
        start = time.perf_counter()
        us, calls = server_us(client, work)
        self.seconds.append(time.perf_counter() - start)
        self.each_us.append(us / entries)
        self.mean_ms.append(us / calls / 1000)
        stats: Any = client.info("latencystats")
        percentiles = stats["latency_percentiles_usec_evalsha"]
        self.p999_ms.append(percentiles["p99.9"] / 1000)
        self.longest_ms.append(percentiles["p100"] / 1000)

    def show(self) -> None:
        print(f"    server time per entry {spread(self.each_us, 'µs')}")
        print(f"    a call, on average {spread(self.mean_ms, 'ms')}, bound 1")
        print(f"    one in a thousand takes {spread(self.p999_ms, 'ms')}")
        print(
            f"    the longest, with what the machine did meanwhile, {spread(self.longest_ms, 'ms')}"
        )


@contextmanager
def ping_times(url: str) -> Iterator[list[float]]:
    """Times (ms) of another client's PING during the block, one every 2 ms. It has real-time
    priority if permitted, so that it waits for the server and not for a core."""
    times: list[float] = []
    child = subprocess.Popen(
        [sys.executable, "-c", _PING, url],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert child.stdout is not None
    child.stdout.readline()
    try:
        with realtime_priority(child.pid):
            yield times
    finally:
        # The end of its input tells it to print, at the end, as nobody reads its output before.
        times += map(float, child.communicate()[0].split())


def longest_pause_ms(seconds: float = IDLE_S) -> float:
    """The longest pause of a loop that only reads the clock: how long the machine suspends a
    process."""
    start = last = time.perf_counter()
    longest = 0.0
    while last - start < seconds:
        now = time.perf_counter()
        longest, last = max(longest, now - last), now
    return longest * 1000


def p99(times: list[float]) -> float:
    return statistics.quantiles(times, n=100)[98]


def measure_replay(client: redis.Redis, kind: str) -> float:
    """Print the cost of replaying `MANY` entries; entries per second of the command, the median.

    The last rounds run another client at the same time, which uses part of the machine.
    """
    fill, url = FILLS[kind], url_of(client)
    replay_costs, undo_costs, undo_bytes = CallCosts(), CallCosts(), 0.0
    idle_p99: list[float] = []
    busy_p99: list[float] = []
    for nth in range(ROUNDS + PING_ROUNDS):
        empty(client)
        fill(client, MANY)
        queue = (RequestQueue if kind == "request queue" else DelaySet)(client, "mail")
        if nth >= ROUNDS:
            with ping_times(url) as idle:
                time.sleep(IDLE_S)
            with ping_times(url) as busy:
                replay(url)
            idle_p99.append(p99(idle))
            busy_p99.append(p99(busy))
        else:
            replay_costs.add(client, MANY, partial(replay, url))
        remaining = queue.counts().dead
        assert remaining == 0, f"{remaining} are still dead"
        if nth == 0:
            undo_bytes = undo_record_bytes(client, queue)
            undo_costs.add(client, MANY, partial(redisq, url, "undo"))
            assert queue.counts().dead == MANY
    print(f"  {kind}, {MANY:,} dead letters: {spread(replay_costs.seconds, 's')}, aim {AIM_S:g}")
    replay_costs.show()
    print(f"    its inverse takes {undo_bytes:.0f} B an entry")
    increase = [busy - idle for idle, busy in zip(idle_p99, busy_p99, strict=True)]
    print(f"    another client's PING p99: idle {spread(idle_p99, 'ms')}")
    print(f"      meanwhile {spread(busy_p99, 'ms')}, above idle {spread(increase, 'ms')}, aim 1")
    print(f"  … and taken back: {undo_costs.seconds[0]:.2f} s")
    undo_costs.show()
    return MANY / statistics.median(replay_costs.seconds)


def undo_record_bytes(client: redis.Redis, queue: Queue[redis.Redis]) -> float:
    """Bytes per entry of the records that undo a step, the mean of some steps."""
    percentiles = zip(
        client.scan_iter(queue.keys["undo_"] + "*", count=1000), range(100), strict=False
    )
    op = next(client.scan_iter(queue.keys["op_"] + "*", count=1000))
    moved = int(client.hget(op, "done") or 0)
    steps = len(list(client.scan_iter(queue.keys["undo_"] + "*", count=1000)))
    sizes = [size for key, _ in percentiles if (size := client.memory_usage(key, samples=0))]
    return statistics.mean(sizes) * steps / moved


def library_rate(client: redis.Redis, jobs: int) -> tuple[float, int]:
    """The library call alone, at a peer's number of jobs: entries per second (median), entries per
    step."""
    rates, steps = [], 0
    for _ in range(ROUNDS):
        empty(client)
        delayed(client, jobs)
        queue = DelaySet(client, "mail")
        chosen, _ = run(client, select_whole_state(queue, "dead", Filter()))
        action = EntryAction(queue, "replay", "dead", chosen.high_water_ms)
        bulk = ChangeRun(WholeStateSteps(action, chosen), Author("benchmark", "here"))
        start = time.perf_counter()
        steps += run(client, run_steps(bulk))
        rates.append(jobs / (time.perf_counter() - start))
        assert bulk.outcome.done == jobs, bulk.outcome
    return statistics.median(rates), round(ROUNDS * jobs / steps)


async def run_steps(bulk: ChangeRun[WholeStateSteps]) -> int:
    """Run all steps of a change, as the CLI does; the number of steps."""
    steps = 0
    while await bulk.step():
        steps += 1
    return steps


def measure_peer(name: str, client: redis.Redis, rate: float, step: int) -> None:
    jobs = PEER_JOBS[name]
    try:
        rounds = [own_replay.replay(name, client, jobs, step) for _ in range(ROUNDS)]
    except NotInstalled as error:
        print(f"  {name}: not measured, {error}")
        return
    rates = [1e6 / each.wall_us for each in rounds]
    print(f"  {name} ({rounds[0].versions}), {jobs:,} failed jobs: {spread(rates, 'jobs/s')}")
    ratio = rate / statistics.median(rates)
    print(f"    ours {rate:,.0f}/s, x {ratio:.1f}, goal {GOALS[name]:g}; a step has {step}")


def main() -> None:
    with servers(in_use=True) as each:
        for name, client in each:
            print(f"{name}, load {os.getloadavg()[0]:.1f}:", flush=True)
            pause = longest_pause_ms()
            print(f"  a loop that only reads the clock was held up for {pause:.2f} ms, at most")
            rates = [measure_replay(client, kind) for kind in FILLS]
            for other in PEER_JOBS:
                # rq's is a command, bullmq's a call that is given steps as large as ours were.
                rate, step = library_rate(client, PEER_JOBS[other])
                measure_peer(other, client, min(rates) if other == "rq" else rate, step)

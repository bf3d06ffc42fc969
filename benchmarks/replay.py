"""Dead letters back to work, all of them: time, server time, what another client feels; and peers.

Ours is measured as users type it, `redisq dlq replay QUEUE --yes`, from the start of the process to
its end: the count, the plan, the journal and the inverse of every entry are in it.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import redis

from redisq_ops.core.delay import DelaySet
from redisq_ops.core.io import run
from redisq_ops.core.request import RequestQueue
from redisq_ops.ops.journal import Author
from redisq_ops.ops.selection import Filter
from redisq_ops.ops.whole import WholeBulk, whole

from .copies import BATCH, COPY, DAY_MS, ERROR, PAYLOAD, seed
from .measure import ROUNDS, empty, server_us, servers, spread, url_of
from .peers.environment import NotInstalled, environment
from .peers.roster import PEERS

MANY = 1_000_000
AIM_S = 6.0
PEER_JOBS = {"rq": 2_000, "bullmq": 20_000}
GOALS = {"rq": 100.0, "bullmq": 1.0}
STEP = 100
"""jobs bullmq retries at a time: as many as a step of ours moves at most"""
IDLE_S = 3.0
_PING = """
import redis, sys, time
client = redis.Redis.from_url(sys.argv[1])
sys.stdin.close()
print("ready", flush=True)
while True:
    began = time.perf_counter()
    client.ping()
    took = time.perf_counter() - began
    print(f"{took * 1000:.3f}", flush=True)
    time.sleep(max(0.0, 0.002 - took))
"""
# Dead entries of a delay set, as settling leaves them.
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
    # Only the dead are multiplied; what waits, is pending or delayed stays a handful.
    copy: Any = client.register_script(COPY)
    for first in range(1, n // BATCH, 10):
        last = min(first + 10, n // BATCH) - 1
        copy(keys=[queue.keys.base], args=["dead", first, last])


def delayed(client: redis.Redis, n: int) -> None:
    queue = DelaySet(client, "mail")
    queue.schedule([("first", PAYLOAD)], after_ms=DAY_MS)
    bury: Any = client.register_script(_BURY)
    began = queue.now() - 2 * n  # a death each millisecond, the latest one a while ago
    for first in range(0, n, 1000):
        last = min(first + 1000, n) - 1
        bury(keys=[queue.keys.base], args=[first, last, began, PAYLOAD, ERROR])


FILLS = {"request queue": requests, "delay set": delayed}


def replay(url: str) -> None:
    command = [sys.executable, "-m", "redisq_ops", "--url", url, "dlq", "replay", "mail", "--yes"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


@contextmanager
def pinged(url: str) -> Iterator[list[float]]:
    """How long another client's PING took each time (ms) while the block ran, one every 2 ms."""
    times: list[float] = []
    child = subprocess.Popen(
        [sys.executable, "-c", _PING, url],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert child.stdout is not None
    child.stdout.readline()
    try:
        yield times
    finally:
        child.terminate()
        said, _ = child.communicate()
        # The last line may be cut off.
        times += [float(line) for line in said.splitlines()[:-1]]


def p99(times: list[float]) -> float:
    return statistics.quantiles(times, n=100)[98]


def ours(client: redis.Redis, kind: str) -> float:
    """Print what replaying `MANY` costs; entries per second of the whole command, the median.

    The last round has another client beside it, which takes some of the machine for itself.
    """
    fill, url = FILLS[kind], url_of(client)
    seconds, each_us, call_ms = [], [], []
    for nth in range(ROUNDS + 1):
        empty(client)
        fill(client, MANY)
        if nth == ROUNDS:
            with pinged(url) as idle:
                time.sleep(IDLE_S)
            with pinged(url) as busy:
                replay(url)
        else:
            began = time.perf_counter()
            us, calls = server_us(client, partial(replay, url))
            seconds.append(time.perf_counter() - began)
            each_us.append(us / MANY)
            call_ms.append(us / calls / 1000)
        queue: Any = (RequestQueue if kind == "request queue" else DelaySet)(client, "mail")
        left = queue.counts().dead
        assert left == 0, f"{left} are still dead"
    print(f"  {kind}, {MANY:,} dead letters: {spread(seconds, 's')}, aim {AIM_S:g}")
    print(f"    server time per entry {spread(each_us, 'µs')}")
    print(f"    a call, on average {spread(call_ms, 'ms')}, bound 1")
    print(
        f"    another client's PING p99: idle {p99(idle):.2f} ms, meanwhile {p99(busy):.2f} ms "
        f"of {len(busy):,}; aim 1 ms above"
    )
    return MANY / statistics.median(seconds)


def in_steps(client: redis.Redis, jobs: int) -> float:
    """Entries per second of the library's call alone, at a peer's number: the median."""
    rates = []
    for _ in range(ROUNDS):
        empty(client)
        delayed(client, jobs)
        queue = DelaySet(client, "mail")
        chosen, _ = run(client, whole(queue, "dead", Filter()))
        bulk = WholeBulk(chosen, "replay", Author("benchmark", "here"))
        began = time.perf_counter()
        while run(client, bulk.step()):
            pass
        rates.append(jobs / (time.perf_counter() - began))
        assert bulk.outcome.done == jobs, bulk.outcome
    return statistics.median(rates)


def peer(name: str, client: redis.Redis, rate: float) -> None:
    found = next(peer for peer in PEERS if peer.name == name)
    try:
        place = environment(name, found.language, found.pins)
    except NotInstalled as error:
        print(f"  {name}: not installed, {error}")
        return
    script = Path(__file__).parent / "peers" / f"replay_{name}.{'py' if name == 'rq' else 'cjs'}"
    jobs, rates = PEER_JOBS[name], []
    for _ in range(ROUNDS):
        empty(client)
        command = [*place.command, str(script), "replay", str(STEP), url_of(client), str(jobs)]
        done = subprocess.run(
            command, env={**os.environ, **place.variables}, capture_output=True, text=True,
            check=False,
        )  # fmt: skip
        if done.returncode:
            print(f"  {name}: failed, {(done.stderr.strip().splitlines() or ['?'])[-1][:200]}")
            return
        answer = json.loads(done.stdout.splitlines()[-1])
        rates.append(answer["jobs"] / answer["seconds"])
    print(f"  {name} ({place.versions}), {jobs:,} failed jobs: {spread(rates, 'jobs/s')}")
    ratio = rate / statistics.median(rates)
    print(f"    ours {rate:,.0f}/s, x {ratio:.1f}, goal {GOALS[name]:g}")


def main() -> None:
    with servers() as each:
        for name, client in each:
            print(f"{name}, load {os.getloadavg()[0]:.1f}:", flush=True)
            rates = [ours(client, kind) for kind in FILLS]
            for other in PEER_JOBS:
                # rq's is a command, bullmq's a call.
                rate = min(rates) if other == "rq" else in_steps(client, PEER_JOBS[other])
                peer(other, client, rate)

"""Dead letters back to work, all of them: time, server time, what another client feels; and peers.

Ours is measured as users type it, `redisq dlq replay QUEUE --yes`, from the start of the process to
its end: the count, the plan, the journal and the inverse of every entry are in it. Then it is taken
back, `redisq undo --yes`.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import redis

from redisq_ops.core.engine.queue import Queue
from redisq_ops.core.queues.delay import DelaySet
from redisq_ops.core.queues.request import RequestQueue
from redisq_ops.core.redis.operation import run
from redisq_ops.ops.change.audit_log import Author
from redisq_ops.ops.change.whole_state import WholeBulk, whole
from redisq_ops.ops.filter.scan import Filter

from .copies import BATCH, COPY, DAY_MS, ERROR, PAYLOAD, seed
from .measure import ROUNDS, empty, server_us, servers, spread, url_of
from .peers.environment import NotInstalled, environment
from .peers.roster import PEERS

MANY = 1_000_000
AIM_S = 6.0
PEER_JOBS = {"rq": 2_000, "bullmq": 20_000}
GOALS = {"rq": 100.0, "bullmq": 1.0}
PINGED = 5
"""rounds with another client beside: what the machine does meanwhile decides a 99th of a hundred"""
IDLE_S = 2.0
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


def redisq(url: str, *words: str) -> None:
    command = [sys.executable, "-m", "redisq_ops", "--url", url, *words, "--yes"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def replay(url: str) -> None:
    redisq(url, "dlq", "replay", "mail")


@dataclass
class Calls:
    """What the calls of a command took the server, a round each."""

    seconds: list[float] = field(default_factory=list)
    each_us: list[float] = field(default_factory=list)
    mean_ms: list[float] = field(default_factory=list)
    p999_ms: list[float] = field(default_factory=list)
    longest_ms: list[float] = field(default_factory=list)

    def add(self, client: redis.Redis, entries: int, work: Callable[[], object]) -> None:
        client.config_set("latency-tracking-info-percentiles", "99.9 100")
        began = time.perf_counter()
        us, calls = server_us(client, work)
        self.seconds.append(time.perf_counter() - began)
        self.each_us.append(us / entries)
        self.mean_ms.append(us / calls / 1000)
        told: Any = client.info("latencystats")
        found = told["latency_percentiles_usec_evalsha"]
        self.p999_ms.append(found["p99.9"] / 1000)
        self.longest_ms.append(found["p100"] / 1000)

    def show(self) -> None:
        print(f"    server time per entry {spread(self.each_us, 'µs')}")
        print(f"    a call, on average {spread(self.mean_ms, 'ms')}, bound 1")
        print(f"    one in a thousand takes {spread(self.p999_ms, 'ms')}")
        print(
            f"    the longest, with what the machine did meanwhile, {spread(self.longest_ms, 'ms')}"
        )


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


def held_up_ms(seconds: float = IDLE_S) -> float:
    """For how long at most the machine held up a loop that does nothing but read the clock."""
    began = last = time.perf_counter()
    longest = 0.0
    while last - began < seconds:
        now = time.perf_counter()
        longest, last = max(longest, now - last), now
    return longest * 1000


def p99(times: list[float]) -> float:
    return statistics.quantiles(times, n=100)[98]


def ours(client: redis.Redis, kind: str) -> float:
    """Print what replaying `MANY` costs; entries per second of the whole command, the median.

    The last rounds have another client beside them, which takes some of the machine for itself.
    """
    fill, url = FILLS[kind], url_of(client)
    there, back, kept = Calls(), Calls(), 0.0
    idles: list[float] = []
    meanwhile: list[float] = []
    for nth in range(ROUNDS + PINGED):
        empty(client)
        fill(client, MANY)
        queue = (RequestQueue if kind == "request queue" else DelaySet)(client, "mail")
        if nth >= ROUNDS:
            with pinged(url) as idle:
                time.sleep(IDLE_S)
            with pinged(url) as busy:
                replay(url)
            idles.append(p99(idle))
            meanwhile.append(p99(busy))
        else:
            there.add(client, MANY, partial(replay, url))
        left = queue.counts().dead
        assert left == 0, f"{left} are still dead"
        if nth == 0:
            kept = inverse(client, queue)
            back.add(client, MANY, partial(redisq, url, "undo"))
            assert queue.counts().dead == MANY
    print(f"  {kind}, {MANY:,} dead letters: {spread(there.seconds, 's')}, aim {AIM_S:g}")
    there.show()
    print(f"    its inverse takes {kept:.0f} B an entry")
    above = [busy - idle for idle, busy in zip(idles, meanwhile, strict=True)]
    print(f"    another client's PING p99: idle {spread(idles, 'ms')}")
    print(f"      meanwhile {spread(meanwhile, 'ms')}, above idle {spread(above, 'ms')}, aim 1")
    print(f"  … and taken back: {back.seconds[0]:.2f} s")
    back.show()
    return MANY / statistics.median(there.seconds)


def inverse(client: redis.Redis, queue: Queue[redis.Redis]) -> float:
    """Bytes an entry of what undoes a step, the average of some steps."""
    found = zip(client.scan_iter(queue.keys["undo_"] + "*", count=1000), range(100), strict=False)
    op = next(client.scan_iter(queue.keys["op_"] + "*", count=1000))
    moved = int(client.hget(op, "done") or 0)
    steps = len(list(client.scan_iter(queue.keys["undo_"] + "*", count=1000)))
    sizes = [size for key, _ in found if (size := client.memory_usage(key, samples=0))]
    return statistics.mean(sizes) * steps / moved


def in_steps(client: redis.Redis, jobs: int) -> tuple[float, int]:
    """Of the library's call alone, at a peer's number: entries per second, the median, and how many
    a step moved."""
    rates, steps = [], 0
    for _ in range(ROUNDS):
        empty(client)
        delayed(client, jobs)
        queue = DelaySet(client, "mail")
        chosen, _ = run(client, whole(queue, "dead", Filter()))
        bulk = WholeBulk(chosen, "replay", Author("benchmark", "here"), ahead=True)
        began = time.perf_counter()
        steps += run(client, taken(bulk))
        rates.append(jobs / (time.perf_counter() - began))
        assert bulk.outcome.done == jobs, bulk.outcome
    return statistics.median(rates), round(ROUNDS * jobs / steps)


async def taken(bulk: WholeBulk) -> int:
    """Take all steps of a change, as the CLI does; how many."""
    steps = 0
    while await bulk.step():
        steps += 1
    return steps


def peer(name: str, client: redis.Redis, rate: float, step: int) -> None:
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
        command = [*place.command, str(script), "replay", str(step), url_of(client), str(jobs)]
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
    print(f"    ours {rate:,.0f}/s, x {ratio:.1f}, goal {GOALS[name]:g}; a step has {step}")


def main() -> None:
    with servers(in_use=True) as each:
        for name, client in each:
            print(f"{name}, load {os.getloadavg()[0]:.1f}:", flush=True)
            held_up = held_up_ms()
            print(f"  a loop that only reads the clock was held up for {held_up:.2f} ms, at most")
            rates = [ours(client, kind) for kind in FILLS]
            for other in PEER_JOBS:
                # rq's is a command, bullmq's a call that is given steps as large as ours were.
                rate, step = in_steps(client, PEER_JOBS[other])
                peer(other, client, min(rates) if other == "rq" else rate, step)

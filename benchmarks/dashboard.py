"""`redisq-top` on a server with 1,000,000 entries in each state: server time, its own memory."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import redis

from redisq_ops.core.queues.delay import DelaySet
from redisq_ops.core.queues.request import RequestQueue
from redisq_ops.core.redis.operation import run
from redisq_ops.ops.deployment import Deployment
from redisq_ops.ops.inspect.snapshot import VIEWS, Snapshot, View, Viewport
from redisq_ops.ops.inspect.snapshot_reader import OPEN_REQUESTS, fetch
from redisq_ops.tui.views import ALL

from .copies import BATCH, DAY_MS, PAYLOAD, grow, seed
from .latency import longest
from .measure import ROUNDS, server_us, servers, spread, url_of
from .terminal import Terminal

DEEP = 1_000_000
FEW = 1000
SCREEN = 100
LOADED = 500
"""rows that a filter looks through, the most a view asks for"""
BARS = 200
"""of the timeline, on a very wide terminal"""
PROCESSES = 3
INTERVAL_S = 0.1
AIM_MS = 5
AIM_MB = 120


def fill(client: redis.Redis, entries: int) -> None:
    """``entries`` in each state of the queue `mail`, and as many in the delay set `reminders`."""
    works: tuple[Callable[[], None], ...] = (
        partial(grow, RequestQueue(client, "mail"), entries),
        partial(remind, DelaySet(client, "reminders"), entries),
    )
    with ThreadPoolExecutor() as side_by_side:
        for filled in [side_by_side.submit(work) for work in works]:
            filled.result()


def remind(queue: DelaySet[redis.Redis], entries: int) -> None:
    """Up to ``entries`` delayed ones that become due in the course of a day, tomorrow."""
    for start in range(queue.counts().delayed, entries, BATCH):
        rows = [(f"e{n}", PAYLOAD) for n in range(start, start + BATCH)]
        queue.schedule(rows, after_ms=DAY_MS + DAY_MS * start // entries)


def looked(client: redis.Redis, view: View, queue: str, start: int, rows: int) -> Snapshot:
    viewport = Viewport(view=view, queue=queue, start=start, end=start + rows, buckets=BARS)
    return run(client, fetch(Deployment(client), viewport))


def refreshes(client: redis.Redis, view: View, queue: str) -> None:
    """Server time of a refresh: at the top of the list, deep in it, and while a filter is on."""
    total = looked(client, view, queue, 0, SCREEN).total
    windows = {"": (0, SCREEN)}
    if total:
        windows = {
            f", first {SCREEN} of {total:,}": (0, SCREEN),
            f", {SCREEN} in the middle": (total // 2, SCREEN),
            f", {LOADED} for a filter": (0, LOADED),
        }
    where = "" if view == "overview" else f" of {queue}"
    for what, (start, rows) in windows.items():
        look = partial(looked, client, view, queue, start, rows)
        costs = [server_us(client, look)[0] / 1000 for _ in range(ROUNDS)]
        print(f"  {view}{where}{what}: {spread(costs, 'ms')}")


def walked(url: str, ends: dict[View, int]) -> tuple[float, float]:
    """MB of a process: at its first picture, and the most it had through all views.

    ``ends``: how many rows each view lists; the walk goes to the last one and back.
    """
    with Terminal("--url", url, "--queue", "mail", "--interval", str(INTERVAL_S)) as top:
        top.until("1 of ")
        first = top.memory("VmRSS")
        for key, view in enumerate(ALL, 1):
            if view.name_ not in ends:  # a window of its own, whatever there is
                top.press(str(key))
                top.until(f" {key} {view.title} ")
                top.rest(2 * INTERVAL_S)
                continue
            total = f"{ends[view.name_]:,}"
            home = f"1 of {total} · {view.orders[0].words}"
            top.press(str(key))
            top.until(home)
            for _ in range(10):
                top.press("\x1b[6~")  # PgDn
                top.rest(0.03)
            top.press("G")
            top.until(f"{total} of {total}")
            top.rest(2 * INTERVAL_S)
            top.press("/")
            top.until("age>2h")  # of what the empty field shows
            top.press("1")
            top.until("/1/ in ")
            top.press("\x1b")
            top.until(home)
        top.rest(5 * INTERVAL_S)
        return first, top.memory("VmHWM")


def listed(queue: RequestQueue[redis.Redis]) -> dict[View, int]:
    """How many rows each view of `mail` lists."""
    counts, open, settled = queue.counts(), queue.requests_total(), queue.requests_total(True)
    return {
        "overview": 2, "levels": min(OPEN_REQUESTS, open), "requests": open + settled,
        "pending": counts.pending, "dead": counts.dead, "delayed": counts.delayed,
    }  # fmt: skip


def main() -> None:
    with servers() as each:
        for name, client in each:
            url, queue = url_of(client), RequestQueue(client, "mail")
            seed(queue)
            fill(client, FEW)
            assert not queue.invariants()  # what `copies` made is a queue as any
            _, small = walked(url, listed(queue))
            fill(client, DEEP)
            print(f"{name}: server time of a refresh, aim {AIM_MS} ms at most")
            for view in VIEWS:
                refreshes(client, view, "mail")
            refreshes(client, "delayed", "reminders")
            with longest(client, "a walk through all views"):
                memory = [walked(url, listed(queue)) for _ in range(PROCESSES)]
            first, most = ([pair[k] for pair in memory] for k in (0, 1))
            print(f"{name}: resident memory of a process, aim less than {AIM_MB} MB")
            print(f"  at the first picture: {spread(first, 'MB')}")
            print(f"  the most, through all views: {spread(most, 'MB')}")
            print(f"  the same with {FEW:,} in each state: {small:.2f} MB")

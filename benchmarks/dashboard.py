"""`redisq-top` with 1,000,000 entries in each state: server time, and memory of the process."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import redis

from redisq_ops.core.queues.delay import DelaySet
from redisq_ops.core.queues.request import RequestQueue
from redisq_ops.core.redis.operation import run
from redisq_ops.ops.deployment import Deployment
from redisq_ops.ops.inspect.queue_snapshot import OPEN_REQUESTS
from redisq_ops.ops.inspect.snapshot import VIEWS, Snapshot, View, Viewport
from redisq_ops.ops.inspect.snapshot_reader import fetch
from redisq_ops.tui.views import numbered

from .bulk_entries import BATCH, DAY_MS, PAYLOAD, grow, seed
from .latency import report_longest_calls
from .measure import ROUNDS, server_us, servers, spread, url_of
from .terminal import DashboardProcess

DEEP = 1_000_000
FEW = 1000
SCREEN = 100
LOADED = 500
"""rows that a filter examines, the maximum a view requests"""
BUCKETS = 200
"""bars of the timeline, on a very wide terminal"""
PROCESSES = 3
INTERVAL_S = 0.1
SETTLE_S = 1.0
AIM_MS = 5
AIM_MB = 90


def fill(client: redis.Redis, entries: int) -> None:
    """``entries`` in each state of the queue `mail`, and as many in the delay set `reminders`."""
    works: tuple[Callable[[], None], ...] = (
        partial(grow, RequestQueue(client, "mail"), entries),
        partial(fill_delayed, DelaySet(client, "reminders"), entries),
    )
    with ThreadPoolExecutor() as pool:
        for job in [pool.submit(work) for work in works]:
            job.result()


def fill_delayed(queue: DelaySet[redis.Redis], entries: int) -> None:
    """Up to ``entries`` delayed entries that become ready in the course of tomorrow."""
    for start in range(queue.counts().delayed, entries, BATCH):
        rows = [(f"e{n}", PAYLOAD) for n in range(start, start + BATCH)]
        queue.schedule(rows, after_ms=DAY_MS + DAY_MS * start // entries)


def fetch_view(client: redis.Redis, view: View, queue: str, start: int, rows: int) -> Snapshot:
    wish = Viewport(view=view, queue=queue, start=start, end=start + rows, buckets=BUCKETS)
    return run(client, fetch(Deployment(client), wish))


def refreshes(client: redis.Redis, view: View, queue: str) -> None:
    """Server time of a refresh: at the top of the list, in the middle, and with a filter."""
    total = fetch_view(client, view, queue, 0, SCREEN).total
    windows = {"": (0, SCREEN)}
    if total:
        windows = {
            f", first {SCREEN} of {total:,}": (0, SCREEN),
            f", {SCREEN} in the middle": (total // 2, SCREEN),
            f", {LOADED} for a filter": (0, LOADED),
        }
    where = "" if view == "overview" else f" of {queue}"
    for where_in_list, (start, rows) in windows.items():
        fetch_once = partial(fetch_view, client, view, queue, start, rows)
        costs = [server_us(client, fetch_once)[0] / 1000 for _ in range(ROUNDS)]
        print(f"  {view}{where}{where_in_list}: {spread(costs, 'ms')}")


def walk_views(url: str, ends: dict[View, int]) -> tuple[float, float]:
    """MB of a process: at its first frame, and at most during a walk through all views.

    ``ends``: rows that each view lists; the walk goes to the last one and back.
    """
    with DashboardProcess("--url", url, "--queue", "mail", "--interval", str(INTERVAL_S)) as top:
        top.until("1 of ")
        first_mb = top.memory_mb("VmRSS")
        for key, view in numbered():
            if view.name_ not in ends:  # a few rows, or a note that the queue has no such view
                top.press_keys(key)
                top.run_for(SETTLE_S)
                continue
            total = f"{ends[view.name_]:,}"
            top_line = f"1 of {total} · {view.orders[0].words}"
            top.press_keys(key)
            top.until(top_line)
            for _ in range(10):
                top.press_keys("\x1b[6~")  # PgDn
                top.run_for(0.03)
            top.press_keys("g")  # a short list is at its end already, and nothing would be drawn
            top.run_for(0.1)
            top.press_keys("G")
            top.until(f"{total} of {total}")
            top.run_for(2 * INTERVAL_S)
            top.press_keys("/")
            top.until("age>2h")  # of what the empty field shows
            top.press_keys("1")
            top.until("/1/ in ")
            top.press_keys("\x1b")  # the row stays
            top.until(f" of {total} · ")
        top.run_for(5 * INTERVAL_S)
        return first_mb, top.memory_mb("VmHWM")


def listed_rows(queue: RequestQueue[redis.Redis]) -> dict[View, int]:
    """Rows that each view of `mail` lists."""
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
            assert not queue.invariants()  # the copied entries form a valid queue
            _, small = walk_views(url, listed_rows(queue))
            fill(client, DEEP)
            print(f"{name}: server time of a refresh, aim {AIM_MS} ms at most")
            for view in VIEWS:
                refreshes(client, view, "mail")
            refreshes(client, "delayed", "reminders")
            with report_longest_calls(client, "a walk through all views"):
                memory = [walk_views(url, listed_rows(queue)) for _ in range(PROCESSES)]
            first_mb, peak_mb = ([pair[k] for pair in memory] for k in (0, 1))
            print(f"{name}: resident memory of a process, aim less than {AIM_MB} MB")
            print(f"  at the first picture: {spread(first_mb, 'MB')}")
            print(f"  the most, through all views: {spread(peak_mb, 'MB')}")
            print(f"  the same with {FEW:,} in each state: {small:.2f} MB")

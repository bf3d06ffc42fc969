"""`redisq-top` over long lists: server time of a refresh, time from a key to its rows, and memory.

By default `ENTRIES=100000` in each state of a request queue and `LISTED=1000000` in one list of a
delay set, a few minutes in all; `LISTED=10000000` takes 4 GB of memory and some minutes more.
"""

from __future__ import annotations

import os
import sys
import time
from collections import defaultdict
from functools import partial
from itertools import chain, cycle, islice
from typing import get_args

import redis

from redisq_ops.core.queues.delay import DelaySet
from redisq_ops.core.queues.request import RequestQueue
from redisq_ops.core.redis.operation import run
from redisq_ops.ops.deployment import Deployment
from redisq_ops.ops.inspect.queue_snapshot import OPEN_REQUESTS
from redisq_ops.ops.inspect.snapshot import Snapshot, View, Viewport
from redisq_ops.ops.inspect.snapshot_reader import fetch
from redisq_ops.tui.views import numbered

from .bulk_entries import BATCH, DAY_MS, PAYLOAD, grow, seed
from .latency import report_longest_calls
from .measure import ROUNDS, server_us, servers, spread, url_of
from .terminal import DashboardProcess

DEEP = int(os.environ.get("ENTRIES", "100000"))
LONG = int(os.environ.get("LISTED", "1000000"))
FEW = 1000
SCREEN = 100
LOADED = 500
"""rows that a filter examines, the maximum a view requests"""
BUCKETS = 200
"""bars of the timeline, on a very wide terminal"""
PROCESSES = 3
KEYS = 10
INTERVAL_S = 0.1
SETTLE_S = 1.0
AIM_MS = 5
AIM_KEY_MS = 100
AIM_MB = 100
PRESSED = 500
"""keys that follow the walk through all views"""


def fill_delayed(queue: DelaySet[redis.Redis], entries: int) -> None:
    """Up to ``entries`` delayed entries that become ready in the course of tomorrow."""
    for start in range(queue.counts().delayed, entries, BATCH):
        rows = [(f"e{n}", PAYLOAD) for n in range(start, start + BATCH)]
        queue.schedule(rows, after=(DAY_MS + DAY_MS * start // entries) / 1000)


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


class KeyTimes:
    """Times (ms) from a key to the text that shows its effect, by what the key does."""

    def __init__(self) -> None:
        self._ms: defaultdict[str, list[float]] = defaultdict(list)

    def press(self, top: DashboardProcess, what: str, keys: str, seen: str) -> None:
        began = time.perf_counter()
        top.press_keys(keys)
        top.until(seen)
        self._ms[what].append((time.perf_counter() - began) * 1000)

    def report(self) -> None:
        for what, times in self._ms.items():
            print(f"  {what}: {spread(times, 'ms')}")


def time_keys(url: str, total: int) -> KeyTimes:
    """Open, scroll and filter one list of so many delayed entries."""
    times, last = KeyTimes(), f"{total:,}"
    with DashboardProcess("--url", url, "--queue", "reminders", "--read-only") as top:
        top.until("1 of ")
        for _ in range(KEYS):
            top.press_keys("1")
            top.until("worst first")
            top.run_for(SETTLE_S)
            times.press(top, "opens", "6", f" of {last}")
            top.run_for(SETTLE_S)
            times.press(top, "a page down", "\x1b[6~", f" of {last}")
            times.press(top, "to the end", "G", f"{last} of {last}")
            top.run_for(SETTLE_S)
            times.press(top, "to the top", "g", f"1 of {last}")
            top.press_keys("/")
            top.until("age>2h")  # of what the empty field shows
            times.press(top, "filters", "1", "/1/ in ")
            top.press_keys("\x1b")
            top.run_for(SETTLE_S)
    return times


def walk_views(url: str, ends: dict[View, int], keys: int = 0) -> tuple[float, float]:
    """MB of a process: at its first frame, and at most during a walk through all views.

    ``ends``: rows that each view lists; the walk goes to the last one and back. ``keys``: how many
    are pressed after it, in all views.
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
            top_line = f"1 of {total} · {view.usual.words}"
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
        press_about(top, keys)
        top.run_for(5 * INTERVAL_S)
        return first_mb, top.memory_mb("VmHWM")


def press_about(top: DashboardProcess, keys: int) -> None:
    """Press so many keys: into each view, about in it, over dialogs and out of them."""
    about = ["j", "p", "p", "t", "\x1b", "?", "\x1b", "/", "\x1b", "\t", "\x10", "\x1b"]
    pressed = chain.from_iterable((key, *about) for key, _ in cycle(numbered()))
    for key in islice(pressed, keys):
        top.press_keys(key)
        top.run_for(INTERVAL_S)


def listed_rows(queue: RequestQueue[redis.Redis]) -> dict[View, int]:
    """Rows that each view of `mail` lists."""
    counts, open, settled = queue.counts(), queue.requests_total(), queue.requests_total(True)
    return {
        "overview": 2,
        "levels": min(OPEN_REQUESTS, open),
        "requests": open + settled,
        "pending": counts.pending,
        "dead": counts.dead,
        "delayed": counts.delayed,
    }


def main() -> None:
    with servers() as each:
        for name, client in each:
            url, queue = url_of(client), RequestQueue(client, "mail")
            delayed = DelaySet(client, "reminders")
            seed(queue)
            grow(queue, FEW)
            fill_delayed(delayed, FEW)
            assert not queue.invariants()  # the copied entries form a valid queue
            _, small = walk_views(url, listed_rows(queue), PRESSED)
            grow(queue, DEEP)
            print(f"{name}: server time of a refresh, aim {AIM_MS} ms at most")
            for view in get_args(View):
                refreshes(client, view, "mail")
            with report_longest_calls(client, "a walk through all views"):
                memory = [walk_views(url, listed_rows(queue), PRESSED) for _ in range(PROCESSES)]
            first_mb, peak_mb = ([pair[k] for pair in memory] for k in (0, 1))
            print(f"{name}: resident memory of a process, aim less than {AIM_MB} MB")
            print(f"  at the first picture: {spread(first_mb, 'MB')}")
            print(f"  the most, through all views and {PRESSED} more keys: {spread(peak_mb, 'MB')}")
            print(f"  the same with {FEW:,} in each state: {small:.2f} MB")
            sys.stdout.flush()
            fill_delayed(delayed, LONG)
            refreshes(client, "delayed", "reminders")
            print(
                f"{name}: a list of {LONG:,}, from a key to its rows, aim {AIM_KEY_MS} ms at most"
            )
            time_keys(url, LONG).report()
            sys.stdout.flush()

"""How often the tasks of a queue of ours ran, failed, and how long they took.

Workers of `redisq_ops.tasks` count in memory, and write with each upkeep. Keys beside the queue's:
``task:<slice>``, a hash of five minutes that is kept for 25 hours: ``<task>|n`` runs,
``<task>|f`` failed ones, ``<task>|<k>`` successful ones in bucket ``k``; ``task:releases``, a
sorted set: ``<ms>|<release>`` by when a worker reported another release than the latest one.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Mapping
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from ..model.quoting import legal
from ..model.task_figures import DeployMark, TaskFigures, TaskReport, bucket_of
from ..redis.operation import Call, together
from ..redis.parsers import scored
from .reads import RATES_S, TASK_SLICE_MS, TASK_SLICES
from .registry import read_mark

if TYPE_CHECKING:
    from .queue import Queue

RELEASES: Final = 50
BUCKETS: Final = (
    *(1, 2, 3, 5, 7, 10, 15, 20, 30, 50, 70, 100, 150, 200, 300, 500, 700),
    *(1_000, 1_500, 2_000, 3_000, 5_000, 7_000, 10_000, 15_000, 20_000, 30_000, 50_000, 70_000),
    *(100_000, 150_000, 200_000, 300_000, 600_000, 1_200_000, 3_600_000),
)
"""the longest run time (ms) of each bucket; one more is for longer ones"""
SOURCE: Final = "what its workers count by task and report every 30 s; each attempt is a run"


class RunCounts:
    """The runs of a worker since its last report, by queue; one thread at a time uses it."""

    def __init__(self) -> None:
        self._counts = Counter[tuple[str, str, str | int]]()

    def add(self, queue: str, task: str, seconds: float, failed: bool) -> None:
        what = "f" if failed else bisect_left(BUCKETS, seconds * 1000)
        self._counts[queue, task, what] += 1

    def take(self) -> Mapping[str, Counter[str]]:
        """What was added since the last call."""
        ended, self._counts = self._counts, Counter()
        counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
        for (queue, task, what), n in ended.items():
            counts[queue][f"{task}|n"] += n
            counts[queue][f"{task}|{what}"] += n
        return counts


async def report(queue: Queue[Any], counts: Mapping[str, int], release: str) -> None:
    """Add a worker's counts to those of the queue, and its release if it isn't the latest one.

    Writes nothing for a queue that was removed meanwhile: nobody would remove the keys.
    """
    if await read_mark(queue.keys) is None:
        return
    now, releases = await queue._now(), queue.keys["task_"] + "releases"
    key = f"{queue.keys['task_']}{now // TASK_SLICE_MS}"
    latest = await scored(releases, "-1", "-1")
    calls = [Call(("HINCRBY", key, field, n), int, key=key) for field, n in counts.items()]
    calls.append(Call(("EXPIRE", key, RATES_S), int, key=key))
    if not latest or _mark(latest[0]).label != release:
        calls.append(Call(("ZADD", releases, now, f"{now}|{release}"), int, key=releases))
        calls.append(Call(("ZREMRANGEBYRANK", releases, 0, -1 - RELEASES), int, key=releases))
    await together(calls)


async def task_counts(queue: Queue[Any], now_ms: int, minutes: int) -> TaskReport | None:
    """The tasks of the last ``minutes``, up to five more; None: no worker counted there."""
    last, first = now_ms // TASK_SLICE_MS, (now_ms - minutes * 60_000) // TASK_SLICE_MS
    slices = min(TASK_SLICES, last - first + 1)
    releases, *names = queue._task_keys(now_ms, slices)
    marks = [_mark(row) for row in await scored(releases, "0", "-1")]
    if not marks:
        return None
    hashes = await together(Call(("HGETALL", name), dict, key=name) for name in names)
    counts: defaultdict[bytes, Counter[bytes]] = defaultdict(Counter)
    for fields in hashes:
        for field, n in fields.items():
            task, _, what = field.rpartition(b"|")
            counts[task][what] += int(n)
    since = max((last - slices + 1) * TASK_SLICE_MS, marks[0].at_ms)
    changed = [
        mark
        for before, mark in pairwise([DeployMark(0, ""), *marks])
        if mark.label not in ("", before.label) and mark.at_ms >= since
    ]
    figures = tuple(_figures(task, found) for task, found in counts.items())
    return TaskReport(SOURCE, since, now_ms, figures, "at most", marks=tuple(changed))


def _figures(task: bytes, found: Counter[bytes]) -> TaskFigures:
    histogram = [found[b"%d" % n] for n in range(len(BUCKETS) + 1)]
    at_most = [bucket_of(histogram, share) for share in (0.5, 0.95)]
    p50, p95 = (None if n is None or n == len(BUCKETS) else BUCKETS[n] for n in at_most)
    return TaskFigures(legal(task), found[b"n"], found[b"f"], p50, p95, sum(histogram))


def _mark(row: tuple[str, float]) -> DeployMark:
    ms, _, label = row[0].partition("|")
    return DeployMark(int(ms), label)

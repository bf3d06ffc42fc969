"""The state of all queues as Prometheus metrics: five round trips a scrape, whatever their number.

Names follow Prometheus' conventions: base units as suffixes, counters end in ``_total``. Labels are
bounded: ``queue`` (at most `MAX_QUEUES`, the first by name), ``kind``, ``state``, ``event``, and
``rule`` with ``severity``.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from threading import Lock
from time import perf_counter

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from redisq_ops.core.engine.optional_features import HasDoneEntries
from redisq_ops.core.engine.queue_classes import queue_class
from redisq_ops.core.model.entry import STATES
from redisq_ops.core.model.errors import RedisqError

from .check.evaluation import broken_rules, standings
from .check.rules import Rules
from .inspect.overview import Overview
from .queue_names import is_named
from .terminal import printable
from .trouble.finding import Severity

MAX_QUEUES = 1000
"""queues that one scrape exports; the number of the others is a metric"""
USUAL_RULES = Rules()
EVENTS = ("arrived", "settled", "failed")


class QueueCollector(Collector):
    """Reads all queues at each scrape and yields their metrics.

    ``read``: reads the `Overview`. ``rules``: what is trouble. A scrape waits for the
    one before it. A server that can't be reached is ``redisq_up 0``, not an error.
    """

    def __init__(
        self,
        read: Callable[[], Overview],
        names: Sequence[str] = (),
        rules: Rules = USUAL_RULES,
        most: int = MAX_QUEUES,
    ) -> None:
        self._read = read
        self._names = names
        self._rules = rules
        self._most = most
        self._lock = Lock()

    def collect(self) -> Iterator[Metric]:
        """All metrics of one scrape."""
        up = GaugeMetricFamily("redisq_up", "Whether the server could be read: 1 or 0.")
        took = GaugeMetricFamily(
            "redisq_scrape_duration_seconds", "Time that reading all queues took."
        )
        with self._lock:
            began = perf_counter()
            try:
                overview = self._read()
            except RedisqError:
                overview = None
            took.add_metric([], perf_counter() - began)
        up.add_metric([], float(overview is not None))
        yield from (up, took)
        if overview is not None:
            yield from queue_metrics(overview, self._names, self._rules, self._most)

    def describe(self) -> Iterator[Metric]:
        """No metrics: registering the collector reads nothing."""
        return iter(())


def queue_metrics(
    overview: Overview, names: Sequence[str], rules: Rules, most: int
) -> Iterator[Metric]:
    """The metrics of the queues of these names and patterns; without any, of all."""
    rows = [row for row in overview.rows if is_named(row.name, names)]
    omitted = GaugeMetricFamily(
        "redisq_queues_omitted", f"Queues that are not exported: they are beyond the first {most}."
    )
    omitted.add_metric([], max(0, len(rows) - most))
    yield omitted
    yield from _families(replace(overview, rows=tuple(rows[:most])), rules)


_OF_QUEUE = ("queue", "kind")


def _gauge(name: str, text: str, *labels: str) -> GaugeMetricFamily:
    """A gauge of each queue; ``labels`` besides its name and kind."""
    return GaugeMetricFamily(name, text, labels=(*_OF_QUEUE, *labels))


def _families(overview: Overview, rules: Rules) -> Iterator[Metric]:
    now_ms, broken = overview.now_ms, defaultdict[str | None, dict[str, Severity]](dict)
    for one in reversed(broken_rules(standings(overview, rules))):  # the worst of a rule counts
        broken[one.queue][one.rule] = one.severity
    entries = _gauge("redisq_queue_entries", "Entries in a state now.", "state")
    done = CounterMetricFamily(
        "redisq_queue_done_entries", "Entries done since the queue was created.", labels=_OF_QUEUE
    )
    oldest = _gauge(
        "redisq_queue_oldest_waiting_age_seconds",
        "How long the oldest waiting entry has waited; 0 when none waits.",
    )
    minute = _gauge(
        "redisq_queue_last_minute_entries",
        "Entries of the last 60 seconds, estimated from two per-minute counters.",
        "event",
    )
    readable = _gauge(
        "redisq_queue_readable", "Whether everything of the queue could be read: 1 or 0."
    )
    paused = _gauge("redisq_queue_paused", "Whether the queue is paused: 1 or 0.")
    draining = _gauge("redisq_queue_draining", "Whether the queue refuses new entries: 1 or 0.")
    unfinished = _gauge(
        "redisq_queue_unfinished_operations",
        "Moves to other queues that were interrupted and hold entries.",
    )
    periodic = _gauge(
        "redisq_queue_periodic_entries", "Periodic entries of a queue of a kind that can have some."
    )
    overdue = _gauge("redisq_queue_periodic_overdue_entries", "Periodic entries that missed a run.")
    trouble = _gauge(
        "redisq_queue_trouble",
        "1 for each rule of `redisq check` that finds something wrong; others are left out.",
        "rule",
        "severity",
    )
    for row in overview.rows:
        labels = [printable(row.name), printable(row.kind)]  # an odd byte would end the scrape
        for rule, severity in broken[row.name].items():
            trouble.add_metric([*labels, rule, severity.name.lower()], 1)
        counts = row.counts
        faultless = counts is not None and not (row.problem or counts.problem)
        readable.add_metric(labels, float(faultless))
        if row.unfinished or row.problem is None:
            unfinished.add_metric(labels, len(row.unfinished))
        if row.periodic is not None:
            for family, its_entries in zip((periodic, overdue), row.periodic, strict=True):
                if its_entries is not None:
                    family.add_metric(labels, its_entries)
        if counts is None:
            continue
        paused.add_metric(labels, float(counts.paused is not None))
        draining.add_metric(labels, float(counts.closed is not None))
        made = queue_class(row.kind)
        keeps_done = made is not None and issubclass(made, HasDoneEntries)
        for state in STATES:
            number = counts.of(state)
            if number is not None and state == "done" and not keeps_done:
                done.add_metric(labels, number)
            elif number is not None:
                entries.add_metric([*labels, state], number)
        if counts.of("waiting") is not None:
            since = counts.oldest_ms if counts.waiting else None
            if since is not None or not counts.waiting:  # else it waits since an unknown time
                age = 0 if since is None else max(0, now_ms - since) / 1000
                oldest.add_metric(labels, age)
        if row.rates is not None:
            for event, number in zip(EVENTS, row.rates.last_minute(now_ms), strict=True):
                if number is not None:
                    minute.add_metric([*labels, event], number)
    yield from (entries, done, oldest, minute, readable, paused, draining)
    yield from (unfinished, periodic, overdue, trouble)

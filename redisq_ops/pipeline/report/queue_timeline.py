"""The report's charts of one queue over time: throughput, backlog, workers, waits, run times."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from redisq_ops.ops.terminal import printable

from . import charts
from .charts import Panel, Series, ShadedSpan, Spec, TimeMark
from .figures import Figures, Row, failures_only_reason
from .quantities import each_step, moment

MAX_CHANGES = 100
"""operators' changes to mark in the charts, and to list"""
METRICS = {
    "submitted": "arrivals",
    "done": "completions",
    "failed": "failures",
    "wait_ms": "wait (p95)",
    "run_ms": "run time (p95)",
}
"""column of the throughput or latency -> its name in the charts"""


_DURATIONS = (
    (
        "Wait",
        "wait",
        "from submission (or ready time) to the first delivery, by time of delivery",
        "No waits: no first delivery in this time.",
    ),
    (
        "Run time",
        "run",
        "of deliveries that ended done, by time of delivery",
        "No run times: no delivery ended done in this time.",
    ),
)
"""title, prefix of the columns, caption, and the sentence in place of a panel without values"""


@dataclass(frozen=True, slots=True)
class _Steps:
    """The steps of the charts, from ``begin_ms`` on."""

    begin_ms: int
    step_ms: int
    number: int

    def values(self, rows: Sequence[Row], column: str, default: float | None = 0) -> list[Any]:
        """A value per step: from the row that begins there, else the default."""
        values: list[Any] = [default] * self.number
        for row in rows:
            values[(row["from_ms"] - self.begin_ms) // self.step_ms] = row[column]
        return values


def timeline(
    figures: Figures,
    name: str,
    counts: Sequence[Row],
    times: Sequence[Row],
    workers: Sequence[Row],
    anomalies: Sequence[Row],
) -> tuple[Spec, list[str]]:
    """The charts, from this queue's rows of the tables with these names, and sentences that say
    why some are missing."""
    step_ms = figures.step_ms
    begin_ms = (figures.begin_ms or 0) // step_ms * step_ms
    steps = _Steps(begin_ms, step_ms, ((figures.end_ms or 0) - begin_ms) // step_ms + 1)
    entries = [Series("failed", steps.values(counts, "bad"), 1, 1)]
    if all(row["done"] is not None for row in counts):
        submitted = Series("submitted", steps.values(counts, "submitted"), 4, 2)
        entries = [
            submitted,
            Series("done", steps.values(counts, "done"), 0, 0, fill=True),
            *entries,
        ]
    panels = [
        Panel(
            "Throughput",
            f"entries {each_step(step_ms)}",
            entries,
            "“failed” counts failed, lost and rejected deliveries",
            spans=_spans(anomalies, "submitted", "done", "failed"),
            height=160,
        )
    ]
    missing = []
    if any(row["waits"] or row["runs"] for row in times):
        backlog = _backlog(counts, figures.opened.get(name, 0), steps)
        panels += [
            Panel(
                "Backlog",
                "entries",
                [Series("backlog", backlog, 3, fill=True)],
                "entries neither done nor dead, the most of each step",
            ),
            Panel(
                "Workers",
                "workers",
                [
                    Series("workers", steps.values(workers, "workers"), 2, 2),
                    Series("busy", steps.values(workers, "busy"), 0, 0, fill=True),
                ],
                "consumers that held a delivery, and how many deliveries were in progress on "
                "average",
            ),
        ]
        for title, kind, caption, none in _DURATIONS:
            if any(row[f"{kind}s"] for row in times):
                lines = [
                    Series(f"{kind} {p}", steps.values(times, f"{kind}_{p}_ms", None), color, dash)
                    for p, color, dash in (("p99", 3, 2), ("p95", 1, 1), ("p50", 0, 0))
                ]
                spans = _spans(anomalies, f"{kind}_ms")
                panels.append(
                    Panel(title, title.lower(), lines, caption, durations=True, spans=spans)
                )
            else:
                missing.append(none)
    else:
        failures_only = name in figures.failures_only
        why = failures_only_reason([name]) if failures_only else "no delivery in this time"
        missing.append(f"No backlog, workers, waits or run times: {printable(why, 600)}.")
    changes = [row for row in figures.tables["changes"] if row["queue"] == name][:MAX_CHANGES]
    marks = [TimeMark(row["at_ms"], _change(row)) for row in changes]
    return charts.timeline(begin_ms, step_ms, panels, marks), missing


def _spans(anomalies: Sequence[Row], *metrics: str) -> list[ShadedSpan]:
    return [
        ShadedSpan(a["from_ms"], a["to_ms"], f"{METRICS[a['metric']]} {a['side']} usual")
        for a in anomalies
        if a["metric"] in metrics
    ]


def _backlog(counts: Sequence[Row], opened: int, steps: _Steps) -> list[int]:
    """The most open entries of each step; a step without events keeps the backlog that the step
    before ended with."""
    before = max((row["before"] for row in counts), default=0)
    peaks, ends = (steps.values(counts, column, None) for column in ("peak", "grown"))
    level, backlog = opened, []
    for peak, end in zip(peaks, ends, strict=True):
        backlog.append(before + (level if peak is None else peak))
        level = level if end is None else end
    return backlog


def _change(row: Row) -> str:
    entries = "" if row["entries"] is None else f", {row['entries']:,} entries"
    return f"{moment(row['at_ms'])} {row['change']}{entries} ({row['op']})"

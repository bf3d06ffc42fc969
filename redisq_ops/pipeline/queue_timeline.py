"""The report's charts of one queue over time: throughput, backlog, workers, waits, run times."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Any

from . import charts
from .charts import Panel, Series, ShadedSpan, TimeMark
from .figures import Figures, Row, failures_only_reason
from .page_elements import each_step, moment, safe

MAX_CHANGES = 100
"""operators' changes that are marked, and listed"""
METRICS = {
    "submitted": "arrivals", "done": "completions", "failed": "failures",
    "wait_ms": "wait (p95)", "run_ms": "run time (p95)",
}  # fmt: skip
"""column of the throughput or of the times -> what it is called"""


def timeline(
    figures: Figures,
    name: str,
    counts: Sequence[Row],
    times: Sequence[Row],
    workers: Sequence[Row],
    anomalies: Sequence[Row],
) -> str:
    """The charts as HTML. The rows are those of this queue, of the tables with these names."""
    begin, end, step = figures.begin_ms or 0, figures.end_ms or 0, figures.step_ms
    begin -= begin % step
    n = (end - begin) // step + 1

    def dense(rows: Sequence[Row], value: Callable[[Row], Any], default: float | None) -> list[Any]:
        values: list[Any] = [default] * n
        for row in rows:
            values[(row["from_ms"] - begin) // step] = value(row)
        return values

    def spans(*metrics: str) -> list[ShadedSpan]:
        return [
            ShadedSpan(a["from_ms"], a["to_ms"], f"{METRICS[a['metric']]} {a['side']} usual")
            for a in anomalies
            if a["metric"] in metrics
        ]

    per = each_step(step)
    panels = [
        Panel(
            "Throughput", f"entries {per}",
            [
                Series("submitted", dense(counts, itemgetter("submitted"), 0), 4, 2),
                Series("done", dense(counts, itemgetter("done"), 0), 0, 0, fill=True),
                Series("failed", dense(counts, itemgetter("bad"), 0), 1, 1),
            ],
            "“failed” counts failed, lost and rejected deliveries",
            spans=spans("submitted", "done", "failed"), height=160,
        )
    ]  # fmt: skip
    missing = ""
    if any(row["waits"] or row["runs"] for row in times):
        panels += [
            Panel(
                "Backlog", "entries",
                [Series("backlog", _backlog(counts, figures.opened.get(name, 0), dense), 3,
                        fill=True)],
                "entries neither done nor dead, the most of each step",
            ),
            Panel(
                "Workers", "workers",
                [Series("workers", dense(workers, itemgetter("workers"), 0), 2, 2),
                 Series("busy", dense(workers, itemgetter("busy"), 0), 0, 0, fill=True)],
                "consumers that held a delivery, and how many deliveries were in progress on "
                "average",
            ),
        ]  # fmt: skip
        if any(row["waits"] for row in times):
            panels.append(
                _times("Wait", "wait", times, dense, spans("wait_ms"),
                       "from submission (or ready time) to the first delivery, by time of delivery")
            )  # fmt: skip
        else:
            missing += '<p class="soft">No waits: no first delivery in this time.</p>'
        if any(row["runs"] for row in times):
            panels.append(
                _times("Run time", "run", times, dense, spans("run_ms"),
                       "of deliveries that ended done, by time of delivery")
            )  # fmt: skip
        else:
            missing += '<p class="soft">No run times: no delivery ended done in this time.</p>'
    else:
        reason = "no delivery in this time"
        if name in figures.failures_only:
            reason = failures_only_reason([name])
        words = f"No backlog, workers, waits or run times: {safe(reason, 600)}."
        missing = f'<p class="soft">{words}</p>'
    marks = [
        TimeMark(row["at_ms"], _change(row))
        for row in figures.tables["changes"]
        if row["queue"] == name
    ][:MAX_CHANGES]
    spec = charts.timeline(begin, step, panels, marks)
    return charts.figure(spec, f"Queue {safe(name)} over time") + missing


def _backlog(counts: Sequence[Row], opened: int, dense: Callable[..., list[Any]]) -> list[int]:
    """The most open entries of each step; a step without events keeps the backlog that the step
    before ended with."""
    before = max((row["before"] for row in counts), default=0)
    peaks, ends = (dense(counts, itemgetter(name), None) for name in ("peak", "grown"))
    level, backlog = opened, []
    for peak, end in zip(peaks, ends, strict=True):
        backlog.append(before + (level if peak is None else peak))
        level = level if end is None else end
    return backlog


def _times(
    title: str,
    kind: str,
    rows: Sequence[Row],
    dense: Callable[..., list[Any]],
    spans: Sequence[ShadedSpan],
    caption: str,
) -> Panel:
    lines = [
        Series(f"{kind} {p}", dense(rows, itemgetter(f"{kind}_{p}_ms"), None), colour, dash)
        for p, colour, dash in (("p99", 3, 2), ("p95", 1, 1), ("p50", 0, 0))
    ]
    return Panel(title, title.lower(), lines, caption, durations=True, spans=spans)


def _change(row: Row) -> str:
    entries = "" if row["entries"] is None else f", {row['entries']:,} entries"
    return f"{moment(row['at_ms'])} {row['change']}{entries} ({row['op']})"

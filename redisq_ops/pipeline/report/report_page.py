"""The report as one HTML page that opens offline: charts with hover and zoom, light, dark, print.

`report_page.html` is its template; `_shown` has what it shows. Queue names, errors and ids are
foreign text: the template escapes each value, and control characters become visible. The page's
content security policy allows the page's own script, by its digest, and no connection.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from redisq_ops.ops.terminal import percent, printable, quantity

from . import charts, quantities
from .anomaly_rule import BASELINE, FLOORS, MIN_SHARE, THRESHOLD
from .charts import Bar, Panel, Series, Spec
from .critical_path import DESCRIPTIONS, time_spent
from .figures import (
    MAX_QUEUES,
    SAMPLED,
    Figures,
    Row,
    by_queue,
    empty_table_reasons,
    group_error,
    longest,
    notes,
    sample_totals,
    single_group_reason,
    trait_sentences,
)
from .quantities import MINUTE, duration, moment, step_for
from .queue_timeline import MAX_CHANGES, METRICS, timeline

MAX_BYTES = 480_000
"""maximum size of the page without its script; queues and groups that don't fit are left out,
with a note"""
MAX_GROUPS = 12
MAX_HOURS = 72
MAX_SEGMENTS = 40
"""number of segments listed of a critical path, the longest ones"""
MAX_ANOMALIES = 12
MAX_CLIENTS = 12
MAX_BARS = 300
"""number of segments drawn of a critical path, the longest ones"""
MAX_NAME = 64
"""characters of a name in a heading or a sentence"""

_SEGMENT_COLOURS = {"run": 0, "queue": 1, "turn": 2, "again": 3}


@dataclass(frozen=True, slots=True)
class CriticalPath:
    request: Row
    segments: Sequence[Row]
    spent: Mapping[str, int]
    """ms by what the request waited for"""
    total_ms: int


def page(figures: Figures, *, title: str = "Queues", source: str = "") -> str:
    """The page. ``source``: where the figures are from, without secrets."""
    queues, groups = MAX_QUEUES, MAX_GROUPS
    while True:
        shown = {"title": title, "source": source, **_shown(figures, queues, groups)}
        text = _rendered(shown, script="")
        if len(text.encode()) <= MAX_BYTES or queues + groups <= 2:
            return _rendered(shown, charts.script()) if "<figure" in text else text
        queues, groups = max(1, queues * 2 // 3), max(1, groups * 2 // 3)


def _rendered(shown: Mapping[str, Any], script: str) -> str:
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    template = _ENVIRONMENT.get_template("report_page.html")
    return template.render(shown, script=Markup(script), digest=digest)


def _visible(value: Any) -> Any:
    """What a template prints for a value: control characters of a text are visible."""
    return printable(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _environment() -> Environment:
    folder = Path(__file__).parent
    environment = Environment(
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_visible,
        trim_blocks=True,
        lstrip_blocks=True,
        loader=FileSystemLoader(folder),
    )
    environment.policies["json.dumps_kwargs"] = {"ensure_ascii": False, "separators": (",", ":")}
    environment.filters |= {
        "counted": quantity,
        "duration": duration,
        "each_step": quantities.each_step,
        "moment": moment,
        "name": partial(printable, limit=MAX_NAME),
        "number": quantities.number,
        "percent": percent,
        "printable": printable,
        "thousands": "{:,}".format,
        "time": quantities.time,
    }
    environment.globals |= {
        "BASELINE": BASELINE,
        "DESCRIPTIONS": DESCRIPTIONS,
        "FLOORS": FLOORS,
        "MAX_CHANGES": MAX_CHANGES,
        "MAX_CLIENTS": MAX_CLIENTS,
        "MAX_HOURS": MAX_HOURS,
        "MAX_SEGMENTS": MAX_SEGMENTS,
        "METRICS": METRICS,
        "SAMPLED": SAMPLED,
        "MIN_SHARE": MIN_SHARE,
        "STYLE": Markup((folder / "report_page.css").read_text(encoding="utf-8")),
        "THRESHOLD": THRESHOLD,
        "between": quantities.between,
        "group_error": group_error,
        "longest": longest,
        "trait_sentences": partial(trait_sentences, moment=moment),
    }
    return environment


_ENVIRONMENT = _environment()


def _shown(figures: Figures, queues: int, groups: int) -> dict[str, Any]:
    """What the template shows of the figures, of at most so many queues and error groups."""
    tables, missing = figures.tables, empty_table_reasons(figures)
    waits = [row["wait_p99_ms"] for row in figures.totals if row["wait_p99_ms"] is not None]
    unusual = sorted(tables["anomalies"], key=lambda row: -abs(row["z"]))[:MAX_ANOMALIES]
    dead = sorted(tables["dead_groups"], key=lambda row: -row["entries"])
    traits = by_queue(tables["contrasts"], "fingerprint")
    no_traits = single_group_reason(dead) or ("" if traits else missing["contrasts"])
    fairness, paths = by_queue(tables["fairness"]), _paths(figures)
    return {
        "figures": figures,
        "totals": figures.totals,
        "worst_wait_ms": max(waits, default=None),
        "anomalies": sorted(unusual, key=lambda row: row["from_ms"]),
        "comparison": list(by_queue(tables.get("comparison", ())).items())[:MAX_QUEUES],
        "queues": _queues(figures, [row["queue"] for row in figures.totals[:queues]]),
        "dead": dead,
        "groups": dead[:groups],
        "groups_chart": _groups_chart(dead[:groups]),
        "groups_note": no_traits[:1].upper() + no_traits[1:],
        "traits": traits,
        "fairness": [_fairness(queue, rows) for queue, rows in list(fairness.items())[:queues]],
        "paths": paths,
        "paths_chart": _paths_chart(paths),
        "samples": _samples(figures)[:queues],
        "notes": notes(figures),
        "missing": missing,
    }


def _queues(figures: Figures, names: Sequence[str]) -> list[Row]:
    """Each queue's charts, with sentences in place of ``missing`` ones, and its rows of tables."""
    counts, times = by_queue(figures.series["throughput"]), by_queue(figures.series["latency"])
    hours, retries = by_queue(figures.tables["latency"]), by_queue(figures.tables["retries"])
    unusual = by_queue(figures.tables["anomalies"])
    workers = by_queue(figures.tables["workers"])
    sections = []
    for name in names:
        drawn = (each.get(name, []) for each in (counts, times, workers, unusual))
        chart, missing = timeline(figures, name, *drawn)
        rows = {"hours": hours.get(name, []), "retries": retries.get(name, [])}
        sections.append({"name": name, "chart": chart, "missing": missing, **rows})
    return sections


def _samples(figures: Figures) -> list[tuple[Row, Spec]]:
    rows = by_queue(figures.tables.get("samples", ()))
    return [(total, _samples_chart(rows[total["queue"]])) for total in sample_totals(figures)]


def _samples_chart(rows: Sequence[Row]) -> Spec:
    """The latest sample of each step; a step without one breaks the lines."""
    begin, end = rows[0]["at_ms"], rows[-1]["at_ms"]
    step = max(MINUTE, step_for(end - begin))
    latest = {(row["at_ms"] - begin) // step: row for row in rows}

    def lines(*names: str) -> list[Series]:
        steps = range((end - begin) // step + 1)
        return [
            Series(name, [latest[n][name] if n in latest else None for n in steps], colour)
            for colour, name in enumerate(names)
        ]

    panels = [
        Panel("Entries by state", "entries", lines(*SAMPLED[:4])),
        Panel("Entries a minute", "a minute", lines(*SAMPLED[4:])),
    ]
    return charts.timeline(begin, step, panels)


def _groups_chart(groups: Sequence[Row]) -> Spec:
    bars = [
        Bar(
            f"{row['queue']} {row['fingerprint']}",
            0,
            row["entries"],
            "dead letters",
            {
                "error": group_error(row),
                "dead letters": f"{row['entries']:,}",
                "share": percent(row["share"]),
            },
        )
        for row in groups
    ]
    return charts.bars(bars, {"dead letters": 1}, axis="dead letters")


def _fairness(queue: str, rows: Sequence[Row]) -> Row:
    """What each client of a fair queue got over the whole time (of medians of waits the highest),
    with a chart of Jain's index by the hour, or the index of the only hour."""
    hours: dict[int, float | None] = {row["from_ms"]: row["jain"] for row in rows}
    begin, end = min(hours), max(hours)
    clients = [
        {
            "name": client,
            "weight": next((row["weight"] for row in reversed(own) if row["weight"] != 1), 1),
            "taken": sum(row["taken"] for row in own),
            "fair": sum(row["fair"] or 0 for row in own),
            "wait_p50_ms": max(row["wait_p50_ms"] or 0 for row in own),
        }
        for (_, client), own in by_queue(rows, "client").items()
    ]
    clients.sort(key=lambda client: (-client["taken"], client["name"]))
    section = {"queue": queue, "clients": clients}
    if begin == end:
        return {**section, "chart": None, "jain": hours[begin]}
    jain = [hours.get(at) for at in range(begin, end + 1, 3_600_000)]
    panel = Panel("Jain’s index", "index", [Series("index", jain, 2)], height=110)
    return {**section, "chart": charts.timeline(begin, 3_600_000, [panel]), "jain": None}


def _paths(figures: Figures) -> list[CriticalPath]:
    segments = by_queue(figures.tables["critical_paths"], "request")
    paths = []
    for request in figures.tables["requests"]:
        if own := segments.get((request["queue"], request["request"])):
            spent = time_spent(own)
            paths.append(CriticalPath(request, own, spent, sum(spent.values()) or 1))
    return paths


def _paths_chart(paths: Sequence[CriticalPath]) -> Spec:
    bars = [
        Bar(
            f"{path.request['queue']}/{path.request['request']}",
            row["from_ms"] - path.segments[0]["from_ms"],
            row["to_ms"] - path.segments[0]["from_ms"],
            DESCRIPTIONS[row["what"]],
            {
                "sub-request": row["id"],
                "attempt": str(row["attempt"]),
                "what": DESCRIPTIONS[row["what"]],
                "took": duration(row["took_ms"]),
                "ended": row["ended"] or "–",
                "consumer": row["consumer"] or "–",
            },
        )
        for path in paths
        for row in longest(path.segments, MAX_BARS)
    ]
    kinds = {text: _SEGMENT_COLOURS[kind] for kind, text in DESCRIPTIONS.items()}
    return charts.bars(bars, kinds, axis="time since submission", durations=True)

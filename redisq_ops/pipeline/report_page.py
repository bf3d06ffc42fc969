"""The report as one HTML page that opens offline: charts with hover and zoom, light, dark, print.

Queue names, errors and ids are foreign text. All of it is escaped (`page_elements.safe`). The
page's content security policy allows the page's own script, by its digest, and no connection.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from redisq_ops.ops.terminal import percent

from . import charts
from .charts import Bar, Panel, Series
from .critical_path import DESCRIPTIONS, time_spent
from .figures import (
    Figures,
    Row,
    by_queue,
    empty_table_reasons,
    group_error,
    longest,
    notes,
    single_group_reason,
    totals,
    trait_sentences,
)
from .page_elements import (
    EscapedText,
    between,
    counted,
    duration,
    each_step,
    escaped_text,
    moment,
    number,
    safe,
    table,
    time,
)
from .queue_timeline import MAX_CHANGES, METRICS, timeline
from .transforms.anomalies import BASELINE, FLOORS, MIN_SHARE, THRESHOLD

MAX_BYTES = 480_000
"""maximum size of the page without its script; queues and groups that don't fit are left out,
with a note"""
MAX_QUEUES = 10
MAX_GROUPS = 12
MAX_HOURS = 72
MAX_SEGMENTS = 40
"""number of segments listed of a critical path, the longest ones"""
MAX_ANOMALIES = 12
MAX_CLIENTS = 12
MAX_BARS = 300
"""number of segments drawn of a critical path, the longest ones"""

_SEGMENT_COLOURS = {"run": 0, "queue": 1, "turn": 2, "again": 3}

STYLE = Path(__file__).with_suffix(".css").read_text(encoding="utf-8")


def page(figures: Figures, *, title: str = "Queues", source: str = "") -> str:
    """The page. ``source``: where the figures are from, without secrets."""
    queues, groups = MAX_QUEUES, MAX_GROUPS
    while True:
        text = _page(figures, title, source, queues, groups)
        if len(text.encode()) <= MAX_BYTES or queues + groups <= 2:
            return _with_script(text)
        queues, groups = max(1, queues * 2 // 3), max(1, groups * 2 // 3)


def _with_script(text: str) -> str:
    """The page with its script and the policy that allows only this script; a page without charts
    has no script."""
    code = charts.script() if "<figure" in text else ""
    digest = base64.b64encode(hashlib.sha256(code.encode()).digest()).decode()
    policy = (
        f"default-src 'none'; script-src 'sha256-{digest}'; style-src 'unsafe-inline'; "
        "base-uri 'none'; form-action 'none'"
    )
    head, _, rest = text.partition("<!--policy-->")
    body, _, end = rest.rpartition("<!--script-->")
    meta = f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
    return f"{head}{meta}{body}<script>{code}</script>{end}" if code else f"{head}{meta}{body}{end}"


def _page(figures: Figures, title: str, source: str, queues: int, groups: int) -> str:
    begin, end = figures.begin_ms, figures.end_ms
    when = "" if begin is None or end is None else between(begin, end)
    parts = [
        "<!doctype html>\n",
        '<html lang="en"><head><meta charset="utf-8">',
        "<!--policy-->",
        '<meta name="viewport" content="width=device-width,initial-scale=1">',
        f"<title>{safe(title, 120)}{' · ' + when if when else ''}</title>",
        f"<style>{STYLE}</style></head><body><main>",
        f"<h1>{safe(title, 120)}</h1>",
        f'<p class="soft">{when or "no events"}{" · " if source else ""}{safe(source, 300)}</p>',
        _tiles(figures),
        _anomalies(figures),
        _comparison(figures),
        '<p class="soft screen">Charts of a queue: hover for values, drag to move in time, Ctrl '
        "with the wheel to zoom, double-click to reset. Triangles mark operators’ changes.</p>",
        _queues(figures, queues),
        _groups(figures, groups),
        _fairness(figures, queues),
        _requests(figures),
        _changes(figures),
        _methods(figures),
        "</main><!--script--></body></html>\n",
    ]
    return "".join(parts)


# --- sections ----------------------------------------------------------------------------------


def _tiles(figures: Figures) -> str:
    rows = totals(figures)
    dead_letters = sum(row["entries"] for row in figures.tables["dead_groups"])
    worst = max((row.get("wait_p99_ms", 0) for row in rows), default=0)
    known = any(row["waits"] for row in figures.tables["latency"])
    done, bad = (sum(row[name] for row in rows) for name in ("done", "bad"))
    tiles = [
        (f"{len({*(row['queue'] for row in rows)}):,}", "queues with events"),
        (number(sum(row["submitted"] for row in rows)), "entries submitted"),
        (number(done), "done"),
        (
            number(bad),
            f"deliveries failed or lost ({percent(bad / (bad + done))})"
            if bad + done
            else "deliveries failed or lost",
        ),
        (number(dead_letters), "dead letters now"),
        (duration(worst) if known else "–", "highest hourly p99 of waits"),
    ]
    cells = "".join(f"<div><b>{escape(b)}</b><span>{escape(s)}</span></div>" for b, s in tiles)
    return f'<div class="tiles">{cells}</div>'


def _anomalies(figures: Figures) -> str:
    rows = sorted(figures.tables["anomalies"], key=lambda row: -abs(row["z"]))
    if not rows:
        return _empty_section("What stands out", figures, "anomalies")
    shown = sorted(rows[:MAX_ANOMALIES], key=lambda row: row["from_ms"])
    items = "".join(f"<li>{_anomaly(row, figures.anomaly_ms)}</li>" for row in shown)
    more = len(rows) - len(shown)
    rest = f'<p class="soft">{more:,} smaller ones are not listed.</p>' if more else ""
    return (
        f'<h2>What stands out</h2><ul class="out">{items}</ul>{rest}'
        f'<p class="soft">Steps of {duration(figures.anomaly_ms)} at least {THRESHOLD} robust '
        "standard deviations (median and MAD) from the queue’s own median; shaded in the charts."
        "</p>"
    )


def _anomaly(row: Row, step_ms: int) -> str:
    unit = duration if row["metric"].endswith("_ms") else number
    per = "" if row["metric"].endswith("_ms") else f" {each_step(step_ms)}"
    return (
        f"<b>{safe(row['queue'])}</b>, {between(row['from_ms'], row['to_ms'])}: "
        f"{METRICS[row['metric']]} {'up to' if row['side'] == 'above' else 'down to'} "
        f"<b>{escape(unit(row['value']))}</b>{per}, usually {escape(unit(row['median']))}"
    )


def _queues(figures: Figures, limit: int) -> str:
    ranked = totals(figures)
    counts, times = by_queue(figures.series["throughput"]), by_queue(figures.series["latency"])
    hours, retries = by_queue(figures.tables["latency"]), by_queue(figures.tables["retries"])
    anomalies = by_queue(figures.tables["anomalies"])
    workers = by_queue(figures.tables["workers"])
    parts = []
    for name in [row["queue"] for row in ranked[:limit]]:
        drawn = (each.get(name, []) for each in (counts, times, workers, anomalies))
        parts += [
            f"<h2>Queue {safe(name)}</h2>",
            timeline(figures, name, *drawn),
            _hourly_table(hours.get(name, [])),
            _retries_table(retries.get(name, [])),
        ]
    if len(ranked) > limit:
        parts.append(_other_queues(ranked[limit:]))
    return "".join(parts) or _empty_section("Queues", figures, "throughput")


def _hourly_table(rows: Sequence[Row]) -> str:
    if not any(row["waits"] or row["runs"] for row in rows):
        return ""
    times = [f"{what}_{p}_ms" for what in ("wait", "run") for p in ("p50", "p95", "p99", "max")]
    cells = [
        (moment(row["from_ms"]), f"{row['taken']:,}", *(time(row[name]) for name in times))
        for row in rows[-MAX_HOURS:]
    ]
    headers = [
        "hour, UTC",
        "deliveries",
        "wait p50",
        "p95",
        "p99",
        "max",
        "run p50",
        "p95",
        "p99",
        "max",
    ]
    more = len(rows) - len(cells)
    rest = f" (the latest {MAX_HOURS} of {len(rows):,})" if more > 0 else ""
    return f"<details><summary>By the hour{rest}</summary>{table(headers, cells, 1)}</details>"


def _retries_table(rows: Sequence[Row]) -> str:
    if not rows or (len(rows) == 1 and not rows[0]["bad_share"]):
        return ""
    cells = [
        (
            str(row["attempt"]),
            *(f"{row[k]:,}" for k in ("n", "done", "failed", "lost", "dead")),
            "–" if row["bad_share"] is None else percent(row["bad_share"]),
        )
        for row in rows[:20]
    ]
    headers = ["attempt", "deliveries", "done", "failed", "lost", "dead", "not done"]
    return f"<h3>Retries</h3>{table(headers, cells, 0)}"


def _groups(figures: Figures, limit: int) -> str:
    rows = figures.tables["dead_groups"]
    if not rows:
        return _empty_section("Dead letters", figures, "dead_groups")
    traits = by_queue(figures.tables["contrasts"], "fingerprint")
    ranked = sorted(rows, key=lambda row: -row["entries"])
    shown = ranked[:limit]
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
        for row in shown
    ]
    parts = [
        "<h2>Dead letters</h2>",
        f"<p>{sum(r['entries'] for r in rows):,} dead letters in {counted(len(rows), 'group')}: "
        "errors of a group differ only in numbers, ids, addresses and the like.</p>",
        charts.figure(
            charts.bars(bars, {"dead letters": 1}, axis="dead letters"), "Dead letters by group"
        ),
    ]
    if not traits or single_group_reason(rows):
        reason = single_group_reason(rows) or empty_table_reasons(figures)["contrasts"]
        parts.append(f'<p class="soft">{safe(reason[0].upper() + reason[1:], 600)}.</p>')
    parts += [_group(row, traits.get((row["queue"], row["fingerprint"]), [])) for row in shown]
    if left := ranked[limit:]:
        entries = sum(row["entries"] for row in left)
        parts.append(
            f'<p class="soft">{entries:,} more in {counted(len(left), "smaller group")}.</p>'
        )
    return "".join(parts)


def _group(row: Row, traits: Sequence[Row]) -> str:
    reasons = ", ".join(f"{row[r]:,} {r}" for r in ("failed", "lost", "rejected") if row[r])
    counts = "".join(
        f" · {row[kind]:,} {kind if row[kind] > 1 else kind[:-1]}"
        for kind in ("clients", "requests")
        if row[kind]
    )
    first = row["first_ms"]
    when = "" if first is None else f" · {between(first, row['last_ms'])}"
    common = "".join(
        f"<li>{safe(sentence, 300)}</li>" for sentence in trait_sentences(traits, moment)
    )
    return (
        f'<div class="group"><p><b>{row["entries"]:,}</b> ({percent(row["share"])} of '
        f"{safe(row['queue'])}) · <code>{safe(group_error(row), 320)}</code></p>"
        f'<p class="soft">group {safe(row["fingerprint"])} · {reasons}{counts}{when} · latest '
        f"{safe(row['queue'])}/{safe(row['sample'] or '', 140)}</p>"
        + (f"<p>More frequent here than elsewhere:</p><ul>{common}</ul>" if common else "")
        + "</div>"
    )


def _fairness(figures: Figures, limit: int) -> str:
    parts = []
    for name, rows in list(by_queue(figures.tables["fairness"]).items())[:limit]:
        hours: dict[int, float | None] = {row["from_ms"]: row["jain"] for row in rows}
        begin, end = min(hours), max(hours)
        jain = [hours.get(at) for at in range(begin, end + 1, 3_600_000)]
        parts.append(f"<h3>{safe(name)}</h3>")
        if len(jain) > 1:
            panel = Panel("Jain’s index", "index", [Series("index", jain, 2)], height=110)
            spec = charts.timeline(begin, 3_600_000, [panel])
            parts.append(charts.figure(spec, f"Fairness of {safe(name)}"))
        parts.append(table(*_clients(rows, jain), 1))
    if not parts:
        return _empty_section("Fairness", figures, "fairness")
    return (
        "<h2>Fairness</h2><p>Jain’s index per hour of each client’s deliveries divided by its fair "
        "share (max-min: no client gets more than it submitted, and clients that want more get "
        "equal shares, times the weight): 1 is fair, 1/n is one of n clients getting all.</p>"
        + "".join(parts)
    )


def _clients(rows: Sequence[Row], jain: Sequence[float | None]) -> tuple[list[str], list[Any]]:
    sums: dict[str, list[float]] = {}
    weights: dict[str, str] = {}
    for row in rows:
        if row["weight"] != 1:
            weights[row["client"]] = f" ×{row['weight']}"
        client_sums = sums.setdefault(row["client"], [0, 0, 0])
        client_sums[0] += row["taken"]
        client_sums[1] += row["fair"] or 0
        client_sums[2] = max(client_sums[2], row["wait_p50_ms"] or 0)
    total = sum(taken for taken, _, _ in sums.values()) or 1
    ranked = sorted(sums.items(), key=lambda item: (-item[1][0], item[0]))
    cells: list[tuple[str, ...]] = [
        (
            EscapedText(escaped_text(client) + weights.get(client, "")),
            f"{taken:,.0f}",
            percent(taken / total),
            f"{fair:,.0f}",
            f"{taken / fair:.2f}" if fair else "–",
            time(wait),
        )
        for client, (taken, fair, wait) in ranked[:MAX_CLIENTS]
    ]
    known = [value for value in jain if value is not None]
    if len(jain) == 1 and known:
        cells.append(("Jain’s index", f"{known[0]:.3f}", "", "", "", ""))
    elif len(ranked) > MAX_CLIENTS:
        cells.append((f"{len(ranked) - MAX_CLIENTS:,} more clients", "", "", "", "", ""))
    headers = ["client", "deliveries", "share", "fair", "got / fair", "highest hourly p50 of waits"]
    return headers, cells


def _requests(figures: Figures) -> str:
    slow = figures.tables["requests"]
    paths = by_queue(figures.tables["critical_paths"], "request")
    if not paths:
        return _empty_section("What the slowest requests waited for", figures, "requests")
    parts = [
        "<h2>What the slowest requests waited for</h2>",
        f"<p>{counted(len(slow), 'request')} ended. For the slowest, the path back from the last "
        "end to the submission: each segment begins when the one before it ends, so together they "
        "are all of the request’s time.</p>",
    ]
    shown = [row for row in slow if (row["queue"], row["request"]) in paths]
    bars: list[Bar] = []
    details = []
    for request in shown:
        segments = paths[request["queue"], request["request"]]
        begin = segments[0]["from_ms"]
        bars += [
            Bar(
                f"{request['queue']}/{request['request']}",
                s["from_ms"] - begin,
                s["to_ms"] - begin,
                DESCRIPTIONS[s["what"]],
                _segment_tooltip(s),
            )
            for s in longest(segments, MAX_BARS)
        ]
        details.append(_path(request, segments))
    kinds = {text: _SEGMENT_COLOURS[kind] for kind, text in DESCRIPTIONS.items()}
    spec = charts.bars(bars, kinds, axis="time since submission", durations=True)
    return "".join([*parts, charts.figure(spec, "Critical paths"), *details])


def _path(request: Row, segments: Sequence[Row]) -> str:
    spent = time_spent(segments)
    total_ms = sum(spent.values()) or 1
    shares = ", ".join(f"{percent(ms / total_ms)} {what}" for what, ms in spent.items())
    cells = [
        (
            escaped_text(s["id"]),
            str(s["attempt"]),
            DESCRIPTIONS[s["what"]],
            s["ended"] or "",
            escaped_text(s["consumer"] or ""),
            duration(s["from_ms"] - segments[0]["from_ms"]),
            duration(s["took_ms"]),
            percent(s["took_ms"] / total_ms),
        )
        for s in longest(segments, MAX_SEGMENTS)
    ]
    cut = "" if len(cells) == len(segments) else f", the {len(cells)} longest"
    headers = ["sub-request", "attempt", "what", "ended", "consumer", "after", "took", "share"]
    return (
        f"<details><summary>{safe(request['queue'])}/{safe(request['request'])}: "
        f"{duration(request['took_ms'])}, {request['entries']:,} sub-requests, "
        f"{request['bad']:,} deliveries failed; {shares}</summary>"
        f'<p class="soft">{len(segments):,} segments{cut}</p>'
        f"{table(headers, cells, 5)}</details>"
    )


def _changes(figures: Figures) -> str:
    rows = figures.tables["changes"]
    if not rows:
        return _empty_section("Operators’ changes", figures, "changes")
    cells = [
        (
            moment(row["at_ms"]),
            escaped_text(row["queue"]),
            escaped_text(row["change"]),
            "" if row["entries"] is None else f"{row['entries']:,}",
            escaped_text(row["op"]),
        )
        for row in rows[:MAX_CHANGES]
    ]
    more = len(rows) - len(cells)
    rest = f'<p class="soft">{more:,} later ones are not listed.</p>' if more else ""
    headers = ["time, UTC", "queue", "change", "entries", "operation"]
    return f"<h2>Operators’ changes</h2>{table(headers, cells, 3)}{rest}"


def _comparison(figures: Figures) -> str:
    if figures.against is None:
        return ""
    begin, end = figures.against
    if begin is None or end is None:
        return _empty_section("Compared with another time", figures, "comparison")
    parts = [f"<h2>Compared with {between(begin, end)}</h2>"]
    for queue, rows in list(by_queue(figures.tables["comparison"]).items())[:MAX_QUEUES]:
        cells = [_compared(row) for row in rows]
        headers = ["", "this time", "then", "change"]
        parts.append(f"<h3>{safe(queue)}</h3>{table(headers, cells, 1)}")
    return "".join(parts)


def _compared(row: Row) -> tuple[str, ...]:
    value, other = row["value"], row["against"]
    unit = time if row["metric"].endswith("_ms") else lambda n: "–" if n is None else f"{n:,.0f}"
    name = row["metric"].removesuffix("_ms").replace("_", " ")
    group = "" if row["fingerprint"] is None else f", group {row['fingerprint']}"
    if not other:
        change = "new" if value else ""
    else:
        percentage = None if value is None else round(100 * (value - other) / other)
        change = "gone" if percentage is None else f"{percentage:+d} %" if percentage else "same"
    return escaped_text(name + group), unit(value), unit(other), change


def _methods(figures: Figures) -> str:
    sentences = [
        f"{figures.events:,} events and {figures.deliveries:,} deliveries are included; times "
        "are UTC, with milliseconds.",
        *notes(figures),
        f"Unusual is a robust z of {THRESHOLD} or more, z = 0.6745 (value − median) / MAD; where "
        "MAD is 0, (value − median) / (1.2533 mean absolute deviation). Not reported: queues with "
        f"fewer than {BASELINE} steps, and values less than {percent(MIN_SHARE)} of the median, "
        f"{FLOORS['failed']:.0f} entries or {FLOORS['wait_ms']:.0f} ms away from it.",
        "Groups’ traits are compared by the lower bound of the difference of shares (Newcombe, "
        "99.9 %).",
    ]
    items = "".join(f"<li>{safe(s, 600)}</li>" for s in sentences)
    return f'<h2>How these figures are computed</h2><ul class="soft">{items}</ul>'


# --- elements ----------------------------------------------------------------------------------


def _empty_section(title: str, figures: Figures, name: str) -> str:
    """A section without rows, and the reason."""
    reason = empty_table_reasons(figures).get(name, "nothing is known")
    return f'<h2>{title}</h2><p class="soft">None: {safe(reason, 600)}.</p>'


def _other_queues(rows: Sequence[Row]) -> str:
    cells = [
        (
            escaped_text(row["queue"]),
            *(f"{row[k]:,}" for k in ("submitted", "taken", "done", "failed", "lost", "dead")),
        )
        for row in rows[:200]
    ]
    headers = ["queue", "submitted", "taken", "done", "failed", "lost", "dead"]
    return f"<h2>{len(rows):,} more queues</h2>{table(headers, cells, 1)}"


def _segment_tooltip(row: Row) -> Mapping[str, str]:
    return {
        "sub-request": row["id"],
        "attempt": str(row["attempt"]),
        "what": DESCRIPTIONS[row["what"]],
        "took": duration(row["took_ms"]),
        "ended": row["ended"] or "–",
        "consumer": row["consumer"] or "–",
    }

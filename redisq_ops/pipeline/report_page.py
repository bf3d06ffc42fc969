"""The report as one HTML page under 500 KB, without scripts or external resources, light and dark.

Queue names, errors and ids are foreign text. All of it is escaped (`svg_plot.safe`), and the page's
content security policy forbids scripts and connections.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape
from operator import itemgetter
from pathlib import Path
from typing import Any

from redisq_ops.ops.terminal import percent

from . import svg_plot
from .critical_path import DESCRIPTIONS
from .figures import (
    Figures,
    Row,
    by_queue,
    empty_table_reasons,
    failures_only_reason,
    group_error,
    longest,
    notes,
    single_group_reason,
    totals,
    trait_sentences,
)
from .page_elements import EscapedText, between, each_step, escaped_text, moment, table, time
from .svg_plot import Bar, Series, ShadedSpan, duration, number, safe
from .transforms.anomalies import BASELINE, FLOORS, MIN_SHARE, THRESHOLD

MAX_BYTES = 480_000
"""size of the page; with more queues and groups than fit, it shows fewer and says so"""
MAX_QUEUES = 10
MAX_GROUPS = 12
MAX_SEGMENTS = 40
"""segments of a critical path that are listed, the longest ones"""
MAX_ANOMALIES = 12
MAX_CLIENTS = 12

METRICS = {
    "submitted": "arrivals", "done": "completions", "failed": "failures",
    "wait_ms": "wait (p95)", "run_ms": "run time (p95)",
}  # fmt: skip
_SEGMENT_COLOURS = {"run": 0, "queue": 1, "turn": 2, "again": 3}

STYLE = Path(__file__).with_suffix(".css").read_text(encoding="utf-8")


def page(figures: Figures, *, title: str = "Queues", source: str = "") -> str:
    """The page. ``source``: where the figures are from, without secrets."""
    queues, groups = MAX_QUEUES, MAX_GROUPS
    while True:
        text = _page(figures, title, source, queues, groups)
        if len(text.encode()) <= MAX_BYTES or queues + groups <= 2:
            return text
        queues, groups = max(1, queues * 2 // 3), max(1, groups * 2 // 3)


def _page(figures: Figures, title: str, source: str, queues: int, groups: int) -> str:
    begin, end = figures.begin_ms, figures.end_ms
    when = "" if begin is None or end is None else between(begin, end)
    parts = [
        "<!doctype html>\n",
        '<html lang="en"><head><meta charset="utf-8">',
        '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; '
        "style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'\">",
        '<meta name="viewport" content="width=device-width,initial-scale=1">',
        f"<title>{safe(title, 120)}{' · ' + when if when else ''}</title>",
        f"<style>{STYLE}</style></head><body><main>",
        f"<h1>{safe(title, 120)}</h1>",
        f'<p class="soft">{when or "no events"}{" · " if source else ""}{safe(source, 300)}</p>',
        _tiles(figures),
        _anomalies(figures),
        _queues(figures, queues),
        _groups(figures, groups),
        _fairness(figures, queues),
        _requests(figures),
        _methods(figures),
        "</main></body></html>\n",
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
        (number(bad), f"deliveries failed or lost ({percent(bad / (bad + done))})"
         if bad + done else "deliveries failed or lost"),
        (number(dead_letters), "dead letters now"),
        (duration(worst) if known else "–", "highest hourly p99 of waits"),
    ]  # fmt: skip
    cells = "".join(f"<div><b>{escape(b)}</b><span>{escape(s)}</span></div>" for b, s in tiles)
    return f'<div class="tiles">{cells}</div>'


def _anomalies(figures: Figures) -> str:
    rows = sorted(figures.tables["anomalies"], key=lambda row: -abs(row["z"]))
    if not rows:
        return _empty_section("What stands out", figures, "anomalies")
    shown = sorted(rows[:MAX_ANOMALIES], key=lambda row: row["from_ms"])
    items = "".join(f"<li>{_anomaly(row, figures.anomaly_ms)}</li>" for row in shown)
    more = len(rows) - len(shown)
    rest = f'<p class="soft">{more:,} smaller ones are not listed.</p>' if more > 0 else ""
    return (
        f'<h2>What stands out</h2><ul class="out">{items}</ul>{rest}'
        f'<p class="soft">Steps of {duration(figures.anomaly_ms)} at least {THRESHOLD} robust '
        "standard deviations (median and MAD) from the queue’s own median; marked red in the plots."
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
    parts = []
    for name in [row["queue"] for row in ranked[:limit]]:
        drawn = (each.get(name, []) for each in (counts, times, anomalies))
        parts += [
            f"<h2>Queue {safe(name)}</h2>", _plots(figures, name, *drawn),
            _hourly_table(hours.get(name, [])), _retries_table(retries.get(name, [])),
        ]  # fmt: skip
    if len(ranked) > limit:
        parts.append(_other_queues("queues", ranked[limit:]))
    return "".join(parts) or _empty_section("Queues", figures, "throughput")


def _open_entries(name: str) -> Callable[[Row], int]:
    """A function that returns the lower bound of open entries."""
    return lambda row: row[name] + row["before"]


def _plots(
    figures: Figures,
    name: str,
    counts: Sequence[Row],
    times: Sequence[Row],
    anomalies: Sequence[Row],
) -> str:
    begin, end, step = figures.begin_ms or 0, figures.end_ms or 0, figures.step_ms
    begin -= begin % step
    n = (end - begin) // step + 1

    def dense(rows: Sequence[Row], value: Callable[[Row], Any], default: float | None) -> list[Any]:
        values: list[Any] = [default] * n
        for row in rows:
            values[(row["from_ms"] - begin) // step] = value(row)
        return values

    per = each_step(step)
    # A step without events keeps the backlog that the step before ended with.
    step_ends = dense(counts, _open_entries("grown"), None)
    backlog = dense(counts, _open_entries("peak"), None)
    level = max((row["before"] for row in counts), default=0)
    for i, end_backlog in enumerate(step_ends):
        if end_backlog is None:
            backlog[i] = level
        else:
            level = end_backlog
    known = any(row["waits"] or row["runs"] for row in times)

    def anomaly_spans(*metrics: str) -> list[ShadedSpan]:
        return [
            ShadedSpan(a["from_ms"], a["to_ms"], f"{METRICS[a['metric']]} {a['side']} usual")
            for a in anomalies
            if a["metric"] in metrics
        ]

    counts_series = [
        Series("submitted", dense(counts, itemgetter("submitted"), 0), 4, 2),
        Series("done", dense(counts, itemgetter("done"), 0), 0, 0, fill=True),
        Series("failed", dense(counts, itemgetter("bad"), 0), 1, 1),
    ]
    plots = [
        ("Throughput", f"Entries {per}; “failed” counts failed, lost and rejected deliveries.",
         svg_plot.lines(begin, step, counts_series, axis=f"entries {per}",
                    spans=anomaly_spans("submitted", "done", "failed"),
                    title=f"Throughput of {name}")),
    ]  # fmt: skip
    if not known:
        reason = "no delivery in this time"
        if name in figures.failures_only:
            reason = failures_only_reason([name])
        plots.append(("Backlog, waits, run times", f"None: {safe(reason, 600)}.", ""))
    if known:
        plots.append(
            ("Backlog",
             "Entries neither done nor dead, the most of each step. A lower bound: entries "
             f"submitted before {moment(begin)} UTC count only if their end is in the history.",
             svg_plot.lines(begin, step, [Series("backlog", backlog, 3, fill=True)], height=130,
                        axis="entries", title=f"Backlog of {name}"))
        )  # fmt: skip
        for kind, caption in (
            ("wait", "From submission (or ready time) to the first delivery, by time of delivery."),
            ("run", "Of deliveries that ended done, by time of delivery."),
        ):
            lines = [
                Series(p, dense(times, itemgetter(f"{kind}_{p}_ms"), None), colour, dash)
                for p, colour, dash in (("p99", 3, 2), ("p95", 1, 1), ("p50", 0, 0))
            ]
            title = {"wait": "Wait", "run": "Run time"}[kind]
            plots.append(
                (title, caption,
                 svg_plot.lines(begin, step, lines, unit=duration, ticks=svg_plot.duration_ticks,
                            axis=title.lower(), spans=anomaly_spans(f"{kind}_ms"),
                            title=f"{title} of {name}"))
            )  # fmt: skip
    return "".join(
        f"<figure><h3>{title}</h3><figcaption>{caption}</figcaption>{svg}</figure>"
        for title, caption, svg in plots
    )


def _hourly_table(rows: Sequence[Row]) -> str:
    if not any(row["waits"] or row["runs"] for row in rows):
        return ""
    cells = [
        (
            moment(row["from_ms"]), f"{row['taken']:,}",
            *(time(row[f"wait_{p}_ms"]) for p in ("p50", "p95", "p99", "max")),
            *(time(row[f"run_{p}_ms"]) for p in ("p50", "p95", "p99", "max")),
        )
        for row in rows[-72:]
    ]  # fmt: skip
    headers = ["hour, UTC", "deliveries", "wait p50", "p95", "p99", "max", "run p50", "p95", "p99",
               "max"]  # fmt: skip
    more = len(rows) - len(cells)
    rest = f" (the latest 72 of {len(rows):,})" if more > 0 else ""
    return f"<details><summary>By the hour{rest}</summary>{table(headers, cells, 1)}</details>"


def _retries_table(rows: Sequence[Row]) -> str:
    if not rows or (len(rows) == 1 and not rows[0]["bad_share"]):
        return ""
    cells = [
        (
            str(row["attempt"]), *(f"{row[k]:,}" for k in ("n", "done", "failed", "lost", "dead")),
            "–" if row["bad_share"] is None else percent(row["bad_share"]),
        )
        for row in rows[:20]
    ]  # fmt: skip
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
        (f"{row['queue']} {row['fingerprint']}", [Bar(0, row["entries"], 1, group_error(row))])
        for row in shown
    ]
    parts = [
        "<h2>Dead letters</h2>",
        f"<p>{sum(r['entries'] for r in rows):,} entries in {len(rows):,} groups of errors that "
        "differ only in numbers, ids, addresses and the like.</p><figure>",
        svg_plot.rows(bars, axis="dead letters", title="Dead letters by group",
                  values=[f"{row['entries']:,}" for row in shown]),
        "</figure>",
    ]  # fmt: skip
    if not traits or single_group_reason(rows):
        reason = single_group_reason(rows) or empty_table_reasons(figures)["contrasts"]
        parts.append(f'<p class="soft">{safe(reason[0].upper() + reason[1:], 600)}.</p>')
    for row in shown:
        parts.append(_group(row, traits.get((row["queue"], row["fingerprint"]), [])))
    left = ranked[limit:]
    if left:
        entries = sum(row["entries"] for row in left)
        parts.append(f'<p class="soft">{entries:,} more in {len(left):,} smaller groups.</p>')
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
            plot = svg_plot.lines(
                begin, 3_600_000, [Series("Jain", jain, 2)], axis="index", height=140,
                ticks=lambda top: [0.0, 0.25, 0.5, 0.75, 1.0], title=f"Fairness of {name}",
            )  # fmt: skip
            parts.append(f"<figure>{plot}</figure>")
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
        (EscapedText(escaped_text(client) + weights.get(client, "")), f"{taken:,.0f}",
         percent(taken / total), f"{fair:,.0f}", f"{taken / fair:.2f}" if fair else "–",
         time(wait))
        for client, (taken, fair, wait) in ranked[:MAX_CLIENTS]
    ]  # fmt: skip
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
        f"<p>{len(slow):,} requests ended. For the slowest, the path back from the last end to "
        "the submission: each segment begins when the one before it ends, so together they are all "
        "of the request’s time.</p>",
        svg_plot.legend((_SEGMENT_COLOURS[kind], text) for kind, text in DESCRIPTIONS.items()),
    ]
    shown = [row for row in slow if (row["queue"], row["request"]) in paths]
    bars = []
    details = []
    for request in shown:
        segments = paths[request["queue"], request["request"]]
        begin = segments[0]["from_ms"]
        bars.append(
            (f"{request['queue']}/{request['request']}",
             [Bar(s["from_ms"] - begin, s["to_ms"] - begin, _SEGMENT_COLOURS[s["what"]],
                  _segment_tooltip(s)) for s in longest(segments, 300)])
        )  # fmt: skip
        details.append(_path(request, segments))
    plot = svg_plot.rows(
        bars, axis="time since submission", unit=duration, ticks=svg_plot.duration_ticks,
        title="Critical paths", values=[duration(row["took_ms"]) for row in shown], row_height=24,
    )  # fmt: skip
    return "".join([*parts, f"<figure>{plot}</figure>", *details])


def _path(request: Row, segments: Sequence[Row]) -> str:
    spent: dict[str, int] = {}
    for s in segments:
        spent[s["what"]] = spent.get(s["what"], 0) + s["took_ms"]
    total_ms = sum(spent.values()) or 1
    shares = ", ".join(
        f"{percent(ms / total_ms)} {DESCRIPTIONS[kind]}"
        for kind, ms in sorted(spent.items(), key=lambda item: -item[1])
    )
    cells = [
        (escaped_text(s["id"]), str(s["attempt"]), DESCRIPTIONS[s["what"]], s["ended"] or "",
         escaped_text(s["consumer"] or ""), duration(s["from_ms"] - segments[0]["from_ms"]),
         duration(s["took_ms"]), percent(s["took_ms"] / total_ms))
        for s in longest(segments, MAX_SEGMENTS)
    ]  # fmt: skip
    cut = "" if len(cells) == len(segments) else f", the {len(cells)} longest"
    headers = ["sub-request", "attempt", "what", "ended", "consumer", "after", "took", "share"]
    return (
        f"<details><summary>{safe(request['queue'])}/{safe(request['request'])}: "
        f"{duration(request['took_ms'])}, {request['entries']:,} sub-requests, "
        f"{request['bad']:,} deliveries failed; {shares}</summary>"
        f'<p class="soft">{len(segments):,} segments{cut}</p>'
        f"{table(headers, cells, 5)}</details>"
    )


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


def _other_queues(kind: str, rows: Sequence[Row]) -> str:
    cells = [
        (escaped_text(row["queue"]), *(f"{row[k]:,}" for k in
         ("submitted", "taken", "done", "failed", "lost", "dead")))
        for row in rows[:200]
    ]  # fmt: skip
    headers = ["queue", "submitted", "taken", "done", "failed", "lost", "dead"]
    return f"<h2>{len(rows):,} more {kind}</h2>{table(headers, cells, 1)}"


def _segment_tooltip(row: Row) -> str:
    ended = f", {row['ended']}" if row["ended"] else ""
    return (
        f"{row['id']} (attempt {row['attempt']}): {DESCRIPTIONS[row['what']]}, "
        f"{duration(row['took_ms'])}{ended}"
    )

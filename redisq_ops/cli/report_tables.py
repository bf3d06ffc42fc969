"""What `redisq report`, `redisq spark groups` and `spark critical-path` print."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from redisq_ops.ops.terminal import percent

from .output import emit, printable, say, table, when
from .session import Session

if TYPE_CHECKING:
    from redisq_ops.pipeline.report.figures import Figures, Row

SHOWN = 30
"""rows of a table shown to a person; --json has up to `MAX_ROWS`, --parquet all"""


def print_json(figures: Figures) -> None:
    """Print the figures as JSON lines: the report's own facts, then the rows of each table."""
    from redisq_ops.pipeline.report.figures import empty_table_reasons, notes

    emit(
        {
            "table": "report",
            "begin_ms": figures.begin_ms,
            "end_ms": figures.end_ms,
            "events": figures.events,
            "deliveries": figures.deliveries,
            "notes": notes(figures),
            "missing": empty_table_reasons(figures),
        }
    )
    for name, rows in figures.tables.items():
        for row in rows:
            emit({"table": name, **row})


def print_report(s: Session, figures: Figures) -> None:
    """Print the figures as tables, and why a table is empty."""
    from redisq_ops.pipeline.report.figures import empty_table_reasons, notes

    why = empty_table_reasons(figures)
    if figures.begin_ms is not None:
        say(f"{when(figures.begin_ms, s.utc)} to {when(figures.end_ms, s.utc)}")
    _print_deliveries(s, figures, why)
    print_groups(s, figures.tables["dead_groups"], None)
    _print_tasks(s, figures, why)
    _print_changes(s, figures, why)
    _print_clients_and_requests(s, figures, why)
    for note in notes(figures):
        say(note)


def _print_deliveries(s: Session, figures: Figures, why: Mapping[str, str]) -> None:
    from redisq_ops.pipeline.report.quantities import duration
    from redisq_ops.pipeline.report.queue_timeline import METRICS

    tables = figures.tables
    names = ("submitted", "taken", "done", "failed", "lost", "dead")
    _section(
        "queues",
        ["queue", *names],
        ([r["queue"], *(r[n] for n in names)] for r in figures.totals),
        why.get("throughput"),
    )
    spread = [f"{what}_{p}_ms" for what in ("wait", "run") for p in ("p50", "p95", "p99")]
    _section(
        "latency by the hour",
        ["queue", "hour", "taken", "wait p50", "p95", "p99", "run p50", "p95", "p99"],
        (
            [
                r["queue"],
                _minute(s, r["from_ms"]),
                r["taken"],
                *(None if r[name] is None else duration(r[name]) for name in spread),
            ]
            for r in tables["latency"]
        ),
        why.get("latency"),
    )
    ends = ("queue", "attempt", "n", "done", "failed", "lost", "dead")
    _section(
        "how deliveries end",
        ["queue", "attempt", "deliveries", "done", "failed", "lost", "dead", "not done"],
        ([*(r[name] for name in ends), _percent(r["bad_share"])] for r in tables["retries"]),
        why.get("retries"),
    )
    _section(
        f"unusual (steps of {duration(figures.anomaly_ms)})",
        ["queue", "what", "from", "to", "", "value", "usually", "z"],
        (
            [
                r["queue"],
                METRICS[r["metric"]],
                _minute(s, r["from_ms"]),
                _minute(s, r["to_ms"]),
                r["side"],
                _metric(r, "value"),
                _metric(r, "median"),
                f"{r['z']:.1f}",
            ]
            for r in tables["anomalies"]
        ),
        why.get("anomalies"),
    )


def _print_tasks(s: Session, figures: Figures, why: Mapping[str, str]) -> None:
    from redisq_ops.ops.inspect.task_report import time_words
    from redisq_ops.pipeline.report.figures import SAMPLED, sample_totals

    if "tasks" in figures.tables:
        _section(
            "tasks of the last hour",
            ["queue", "task", "ended", "failed", "p50", "p95", "last error", "of"],
            (
                [
                    r["queue"],
                    "(all)" if r["every"] else r["task"],
                    r["ended"],
                    r["failed"],
                    *(time_words(r[name], r["times"]) for name in ("p50_ms", "p95_ms")),
                    r["error_type"],
                    r["source"],
                ]
                for r in figures.tables["tasks"]
            ),
            why.get("tasks"),
        )
    if "samples" in figures.tables:
        _section(
            "the most of a recording's samples",
            ["queue", "samples", *(name.replace("_per_min", "/min") for name in SAMPLED)],
            (
                [r["queue"], r["samples"], *(r[name] for name in SAMPLED)]
                for r in sample_totals(figures)
            ),
            why.get("samples"),
        )


def _print_changes(s: Session, figures: Figures, why: Mapping[str, str]) -> None:
    if figures.against is not None:
        _section(
            "compared with the other time",
            ["queue", "what", "group", "this time", "then"],
            (
                [
                    r["queue"],
                    r["metric"],
                    r["fingerprint"],
                    _metric(r, "value"),
                    _metric(r, "against"),
                ]
                for r in figures.tables["comparison"]
            ),
            why.get("comparison"),
        )
    _section(
        "operators' changes",
        ["queue", "at", "change", "entries", "operation"],
        (
            [r["queue"], _minute(s, r["at_ms"]), r["change"], r["entries"], r["op"]]
            for r in figures.tables["changes"]
        ),
        why.get("changes"),
    )


def _print_clients_and_requests(s: Session, figures: Figures, why: Mapping[str, str]) -> None:
    from redisq_ops.pipeline.report.figures import by_queue
    from redisq_ops.pipeline.report.quantities import duration

    tables = figures.tables
    hours = by_queue(tables["fairness"], "from_ms").items()
    _section(
        "fairness",
        ["queue", "hour", "Jain", "clients", "most to", "share", "of fair"],
        (
            [
                queue,
                _minute(s, at),
                _decimal(first["jain"], 3),
                1 + len(others),
                first["client"],
                _percent(first["share"]),
                _decimal(first["ratio"], 2),
            ]
            for (queue, at), (first, *others) in hours
        ),
        why.get("fairness"),
    )
    paths = by_queue(tables["critical_paths"], "request")
    _section(
        "slowest requests",
        ["request", "took", "sub-requests", "deliveries", "failed", "mostly"],
        (
            [
                f"{r['queue']}/{r['request']}",
                duration(r["took_ms"]),
                r["entries"],
                r["deliveries"],
                r["bad"],
                _mostly(paths.get((r["queue"], r["request"]), [])),
            ]
            for r in tables["requests"]
        ),
        why.get("requests"),
        most=10,
    )


def _mostly(path: Sequence[Row]) -> str | None:
    """The kind of segment that took most of a request's critical path, with its share."""
    from redisq_ops.pipeline.report.critical_path import time_spent

    if not (spent := time_spent(path)):
        return None
    what, ms = next(iter(spent.items()))
    return f"{percent(ms / max(1, sum(spent.values())))} {what}"


def print_groups(s: Session, groups: Sequence[Row], traits: Sequence[Row] | None) -> None:
    """Print groups, and with ``traits`` the values that are more frequent in each."""
    from redisq_ops.pipeline.report.figures import (
        by_queue,
        group_error,
        single_group_reason,
        trait_sentences,
    )

    by_group = by_queue(traits or (), "fingerprint")
    ranked = sorted(groups, key=lambda row: -row["entries"])
    _section(
        "dead letters",
        ["queue", "group", "entries", "share", "lost", "clients", "requests", "last", "error"],
        (
            [
                r["queue"],
                r["fingerprint"],
                r["entries"],
                percent(r["share"]),
                r["lost"],
                r["clients"] or None,
                r["requests"] or None,
                _minute(s, r["last_ms"]),
                group_error(r),
            ]
            for r in ranked
        ),
        "no dead letters",
    )
    if traits is None:
        return
    if why := single_group_reason(ranked):
        _line(why)
    for row in ranked[:SHOWN]:
        sentences = trait_sentences(
            by_group.get((row["queue"], row["fingerprint"]), ()), lambda ms: when(ms, s.utc)
        )
        if sentences:
            _line(f"{row['queue']} {row['fingerprint']}, more frequent here than elsewhere:")
            for sentence in sentences:
                _line(f"  {sentence}")


def print_critical_path(s: Session, rows: Sequence[Row], named: str) -> None:
    from redisq_ops.pipeline.report.critical_path import DESCRIPTIONS, time_spent
    from redisq_ops.pipeline.report.figures import longest
    from redisq_ops.pipeline.report.quantities import duration

    if s.json:
        for row in rows:
            emit(row)
        return
    begin, whole = rows[0]["from_ms"], max(1, rows[-1]["to_ms"] - rows[0]["from_ms"])
    _line(f"{named}: {duration(rows[-1]['to_ms'] - begin)} from {when(begin, s.utc)}")
    for what, ms in time_spent(rows).items():
        _line(f"  {percent(ms / whole):>5}  {duration(ms):>8}  {what}")
    shown = longest(rows, SHOWN)
    _section(
        "the path" if len(shown) == len(rows) else f"the {len(shown)} longest stretches",
        ["sub-request", "attempt", "what", "ended", "consumer", "after", "took", "share"],
        (
            [
                r["id"],
                r["attempt"],
                DESCRIPTIONS[r["what"]],
                r["ended"],
                r["consumer"],
                duration(r["from_ms"] - begin),
                duration(r["took_ms"]),
                percent(r["took_ms"] / whole),
            ]
            for r in shown
        ),
    )
    held: dict[str, int] = {}
    for row in rows:
        held[row["id"]] = held.get(row["id"], 0) + row["took_ms"]
    most = sorted(held.items(), key=lambda item: -item[1])[:3]
    ids = ", ".join(f"{id} ({percent(ms / whole)})" for id, ms in most)
    say(f"held back most by {ids}; {len(rows):,} stretches in all")


def _minute(s: Session, ms: int | None) -> str:
    return when(ms, s.utc)[:16]


def _percent(share: float | None) -> str | None:
    return None if share is None else percent(share)


def _decimal(value: float | None, places: int) -> str | None:
    return None if value is None else f"{value:.{places}f}"


def _metric(row: Row, name: str) -> str | None:
    """A value of the row's metric: a duration or a number."""
    from redisq_ops.pipeline.report.quantities import duration, number

    if row[name] is None:
        return None
    return (duration if row["metric"].endswith("_ms") else number)(row[name])


def _section(
    title: str,
    headers: Sequence[str],
    rows: Iterable[Sequence[Any]],
    why: str | None = None,
    most: int = SHOWN,
) -> None:
    """Print a table with its title; without rows, the reason ``why``."""
    found = [list(row) for row in rows]
    if not found:
        _line(f"\n{title}: none, {why}")
        return
    _line(f"\n{title}")
    table(headers, found[:most])
    if len(found) > most:
        say(f"{len(found) - most:,} more rows: --json and --parquet have all")


def _line(text: str) -> None:
    blank = text.startswith("\n")
    print(("\n" if blank else "") + printable(text.lstrip("\n")))

"""The figures of a report as plain values, and notes about them, without Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from redisq_ops.core.engine.queue_classes import foreign_classes
from redisq_ops.ops.groups.traits import trait_sentence

from .quantities import moment

MAX_ROWS = 20_000
"""rows collected of each table; the Parquet files have all"""
MAX_QUEUES = 10
"""queues with plots, the busiest"""
MAX_QUEUE_NOTES = 10
"""queues with a note of their own"""
SAMPLED = (
    *("waiting", "pending", "delayed", "dead"),
    *("in_per_min", "out_per_min", "failed_per_min"),
)
"""what a sample of a queue has"""
Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Figures:
    """A report as plain values; times are ms UTC, durations ms."""

    begin_ms: int | None
    """time of the first event; None: the history is empty"""
    end_ms: int | None
    step_ms: int
    """step of `series`"""
    anomaly_ms: int
    """step of the table ``anomalies``"""
    accuracy: int | None
    """None: percentiles are exact"""
    events: int
    unread: int
    """rows that could not be read, including gaps"""
    gaps: int
    deliveries: int
    unknown_waits: int
    """deliveries for which the history doesn't show the wait"""
    failures_only: tuple[str, ...]
    """queues whose history has failures only, so waits and run times are unknown"""
    tables: dict[str, list[Row]]
    totals: list[Row]
    """one row per queue over the whole time, the busiest first; None: unknown, because its history
    has failures only"""
    series: dict[str, list[Row]]
    """latency and throughput of the busiest `MAX_QUEUES` per step of the plots"""
    truncated: tuple[str, ...] = ()
    """tables of which only the first rows are included"""
    weights_known: bool = True
    """whether the weights of clients were read"""
    opened: Mapping[str, int] = field(default_factory=dict)
    """by queue: change of open entries from the start of its history to the first event"""
    against: tuple[int | None, int | None] | None = None
    """times of the first and last event that the table ``comparison`` compares with"""


def by_queue(rows: Iterable[Row], *names: str) -> dict[Any, list[Row]]:
    """Rows by queue, in their order; with ``names`` by a tuple of the queue and these columns."""
    found: dict[Any, list[Row]] = {}
    for row in rows:
        key = (row["queue"], *(row[name] for name in names)) if names else row["queue"]
        found.setdefault(key, []).append(row)
    return found


def longest(segments: Sequence[Row], limit: int) -> list[Row]:
    """The longest segments of a critical path, in their order."""
    kept = sorted(range(len(segments)), key=lambda i: -segments[i]["took_ms"])[:limit]
    return [segments[i] for i in sorted(kept)]


def group_error(row: Row) -> str:
    """The error of a group of dead letters, in its normal form."""
    form: str = row["form"]
    return form if row["error_type"] is None else f"{row['error_type']}: {form}"


def failures_only_reason(queues: Sequence[str]) -> str:
    """The reason, as a clause, for missing waits and run times of these queues."""
    names = ", ".join(queues[:5]) + (" …" if len(queues) > 5 else "")
    return (
        f"the history of {names} has failures only "
        "(redisq settings QUEUE history=all keeps all events from then on)"
    )


def queues_without_history(figures: Figures) -> list[str]:
    """Other programs' queues, which keep no history."""
    told = (*figures.tables.get("tasks", ()), *figures.tables.get("samples", ()))
    foreign = foreign_classes()
    return sorted({row["queue"] for row in told if row["kind"] in foreign})


def sample_totals(figures: Figures) -> list[Row]:
    """One row per sampled queue: how many samples, and the most of each figure. None: unknown."""
    return [
        {"queue": queue, "samples": len(rows), "from_ms": rows[0]["at_ms"]}
        | {name: max(filter(_known, (r[name] for r in rows)), default=None) for name in SAMPLED}
        for queue, rows in by_queue(figures.tables.get("samples", ())).items()
    ]


def _known(value: int | None) -> bool:
    return value is not None


def empty_table_reasons(figures: Figures) -> dict[str, str]:
    """The reason, as a clause, for each table without rows."""
    from .anomaly_rule import BASELINE

    nothing = "no event in this time"
    if figures.begin_ms is None or figures.end_ms is None:
        nothing += (
            "; other programs' queues keep no history"
            if queues_without_history(figures)
            else " (redisq settings QUEUE shows what its history keeps; --since reads more)"
        )
        reasons = dict.fromkeys(figures.tables, nothing)
    else:
        reasons = dict.fromkeys(figures.tables, nothing)
        if not figures.deliveries:
            none = (
                failures_only_reason(figures.failures_only)
                if figures.failures_only
                else "no delivery in this time"
            )
            reasons |= dict.fromkeys(
                ("latency", "workers", "retries", "fairness", "requests"), none
            )
        else:
            reasons["fairness"] = (
                "no delivery has a client (fair queues have clients; --client REGEX finds others)"
            )
            reasons["requests"] = "the history has no request with both its submission and its end"
        steps = (figures.end_ms - figures.begin_ms) // figures.anomaly_ms + 1
        few = steps < BASELINE
        reasons["anomalies"] = (
            f"the time has fewer than {BASELINE} steps, too few to tell what is usual"
            if few
            else "no step is unusual"
        )
        reasons["critical_paths"] = reasons["requests"]
        reasons["changes"] = "no operator changed a queue in this time"
    reasons["tasks"] = "no run of a task is known"
    reasons["samples"] = "no recording (--recording FILE) has these queues in this time"
    reasons["dead_groups"] = "no dead letters"
    reasons["contrasts"] = "no trait is significantly more frequent in a group than elsewhere"
    if reason := single_group_reason(figures.tables["dead_groups"]):
        reasons["contrasts"] = reason
    return {name: reasons[name] for name, rows in figures.tables.items() if not rows}


def single_group_reason(groups: Sequence[Row]) -> str:
    """A clause about queues whose dead letters are one group, or an empty text."""
    queues = [queue for queue, rows in by_queue(groups).items() if len(rows) == 1]
    if not queues:
        return ""
    names = ", ".join(queues[:5]) + (" …" if len(queues) > 5 else "")
    return f"the dead letters of {names} are one group, with no others to compare it with"


def backlog_at_start(figures: Figures) -> dict[str, int]:
    """By queue, if any: at least this many entries were open when its history begins."""
    return {row["queue"]: row["before"] for row in figures.totals if row["before"]}


def notes(figures: Figures) -> list[str]:
    """What a reader must know to interpret the figures, one sentence each."""
    lines = []
    if others := queues_without_history(figures):
        names = ", ".join(others[:5]) + (" …" if len(others) > 5 else "")
        lines.append(
            f"Other programs keep no history of {names}: deliveries, waits and workers are "
            "unknown. Tasks are what these programs keep, of the hour before the report."
        )
    if figures.tables.get("samples"):
        lines.append(
            "Samples are those of a recording, about one a minute: what was between two of them is "
            "unknown."
        )
    if figures.accuracy is None:
        lines.append("Percentiles are exact.")
    else:
        lines.append(
            f"Percentiles are approximate: of {figures.deliveries:,} deliveries ranks are off by "
            f"1/{figures.accuracy:,} at most."
        )
    if figures.unknown_waits:
        lines.append(
            f"The wait of {figures.unknown_waits:,} of {figures.deliveries:,} deliveries is "
            "unknown: the history no longer has their submission, or they came from a replay or a "
            "release."
        )
    if figures.failures_only:
        lines.append(
            f"Waits and run times are missing: {failures_only_reason(figures.failures_only)}."
        )
    lines += list(_switched_histories(figures))[:MAX_QUEUE_NOTES]
    for queue, n in list(backlog_at_start(figures).items())[:MAX_QUEUE_NOTES]:
        lines.append(
            f"The backlog of {queue} is a lower bound: at least {n:,} entries were submitted "
            "before its history begins."
        )
    if figures.gaps:
        lines.append(f"The history has {figures.gaps:,} gaps: it was trimmed while it was read.")
    if figures.unread > figures.gaps:
        lines.append(
            f"{figures.unread - figures.gaps:,} rows could not be read and are not counted."
        )
    if figures.tables["dead_groups"]:
        lines.append("The dead letters are all that there are now, whenever they died.")
    fairness = figures.tables["fairness"]
    if fairness and not figures.weights_known:
        lines.append("Clients' weights are unknown: all count as 1.")
    elif any(row["weight"] != 1 for row in fairness):
        lines.append("Fair shares use the clients' current weights.")
    lines += [f"The table {name} shows its first {MAX_ROWS:,} rows." for name in figures.truncated]
    return lines


def _switched_histories(figures: Figures) -> Iterator[str]:
    """The queues whose history kept all events only for a part of the time, a sentence each."""
    begun = {row["queue"]: row["from_ms"] for row in figures.totals}
    for queue, changes in by_queue(figures.tables["changes"]).items():
        switches = [row for row in changes if row["change"].startswith("history = ")]
        first_ms = switches[0]["at_ms"] if switches else 0
        before = queue in begun and begun[queue] + figures.step_ms <= first_ms
        # To have switched it on at the beginning, before anything happened, leaves nothing out.
        if before or any(row["change"] != "history = all" for row in switches):
            said = ", ".join(f"{moment(row['at_ms'])} UTC {row['change']}" for row in switches)
            yield (
                f"The history of {queue} was switched ({said}): while it did not keep all events, "
                "submissions, deliveries and waits are missing from its figures, and its backlog "
                "is wrong."
            )


def trait_sentences(traits: Sequence[Row], moment: Callable[[int], str]) -> list[str]:
    """What the entries of a group have in common, as `redisq dlq group` words it."""
    return [trait_sentence(t["field"], t["value"], t["share"], t["rest"], moment) for t in traits]

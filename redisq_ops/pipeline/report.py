"""The figures of a report: tables computed by Spark, collected and bounded in size.

A `QueueReport` is made of two DataFrames, the history and the dead letters, from the data source or
from a lake. `QueueReport.figures` collects what a terminal or a page can show; `QueueReport.write`
stores all rows as Parquet.
"""

from __future__ import annotations

import operator
import os
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any

from redisq_ops.ops.groups.traits import trait_sentence
from redisq_ops.ops.redaction import NO_REDACTION, Redaction

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

HISTORY_COLUMNS = (
    "queue", "kind", "event_id", "at", "by", "event", "id", "request", "number", "run_ms", "detail",
    "_corrupt",
)  # fmt: skip
DEAD_COLUMNS = (
    "queue", "kind", "id", "request", "client", "consumer", "since_at", "reason", "error_type",
    "error", "fingerprint", "_corrupt",
)  # fmt: skip
"""the columns that are read; without tracebacks, and payloads only on request"""

MAX_EXACT = 1_000_000
"""maximum number of deliveries for exact percentiles"""
ACCURACY = 10_000
"""above it, ranks are off by at most 1/ACCURACY of all values"""
STEP_CHOICES_S = (1, 5, 10, 30, 60, 120, 300, 900, 1800, 3600, 21_600, 86_400)
"""possible lengths of a plot's steps, in seconds"""
MAX_STEPS = 100
"""maximum number of steps of a plot"""
MINUTE, HOUR = 60_000, 3_600_000
MAX_ROWS = 20_000
"""rows of a table that are collected; Parquet has all"""
MAX_QUEUE_NOTES = 10
"""queues with a note of their own"""
MAX_PATHS = 5
"""the slowest requests, whose critical paths are computed"""

Row = dict[str, Any]
Weights = Mapping[tuple[str, str], int]
"""(queue, client) -> weight: turns it gets for each turn of a client with weight 1"""
Progress = Callable[[int, int], None]


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
    """deliveries whose wait is not in the history"""
    failures_only: tuple[str, ...]
    """queues whose history has failures only, so waits and run times are unknown"""
    tables: dict[str, list[Row]]
    series: dict[str, list[Row]]
    """latency and throughput per step of the plots"""
    truncated: tuple[str, ...] = ()
    """tables of which only the first rows are included"""
    weights_known: bool = True
    """whether the weights of clients were read"""


@dataclass
class QueueReport:
    """A report of a history and its dead letters; ``redaction`` applies to errors and payloads."""

    history: DataFrame
    dead: DataFrame
    client: str | None = None
    payloads: bool = False
    """compare dead letters' payloads, to find what groups have in common"""
    redaction: Redaction = NO_REDACTION
    weights: Weights | None = None
    """weights other than 1; None: unknown"""
    _persisted: list[DataFrame] = field(default_factory=list)

    def __post_init__(self) -> None:
        # Read once: a second read of a live server would return other rows.
        self.history = self._persist(_select_columns(self.history, HISTORY_COLUMNS))
        columns = (*DEAD_COLUMNS, "payload") if self.payloads else DEAD_COLUMNS
        self.dead = self._persist(_select_columns(self.dead, columns))

    def _persist(self, frame: DataFrame) -> DataFrame:
        persisted = frame.persist()
        self._persisted.append(persisted)
        return persisted

    def close(self) -> None:
        """Release the persisted DataFrames."""
        while self._persisted:
            self._persisted.pop().unpersist()

    # --- whole history --------------------------------------------------------------------------

    @cached_property
    def _extent(self) -> Row:
        from pyspark.sql import functions as F

        readable = F.col("_corrupt").isNull()
        (row,) = self.history.agg(
            F.unix_millis(F.min("at")).alias("begin"),
            F.unix_millis(F.max("at")).alias("end"),
            F.count(F.when(readable, 1)).alias("events"),
            F.count(F.when(~readable, 1)).alias("unread"),
            F.count(F.when(F.col("event") == "gap", 1)).alias("gaps"),
        ).collect()
        found: Row = row.asDict()
        return found

    @property
    def settings(self) -> dict[str, str]:
        """Settings for a session with this many events."""
        from .spark_tuning import session_settings

        return session_settings(self._extent["events"])

    @cached_property
    def attempts(self) -> DataFrame:
        from .transforms import attempts

        return self._persist(attempts(self.history, self.client))

    @cached_property
    def _delivery_counts(self) -> tuple[int, int]:
        from pyspark.sql import functions as F

        (row,) = self.attempts.agg(
            F.count("*"), F.count(F.when(F.col("wait_ms").isNull(), 1))
        ).collect()
        return int(row[0]), int(row[1])

    @property
    def accuracy(self) -> int | None:
        return None if self._delivery_counts[0] <= MAX_EXACT else ACCURACY

    @property
    def step_ms(self) -> int:
        """The shortest step that divides the time into at most `MAX_STEPS` steps."""
        extent = self._extent
        if extent["begin"] is None:
            return MINUTE
        return step_for(extent["end"] - extent["begin"])

    @property
    def anomaly_ms(self) -> int:
        """Minutes, if there are enough of them to tell what is usual."""
        extent = self._extent
        span_ms = (extent["end"] or 0) - (extent["begin"] or 0)
        return MINUTE if span_ms >= 30 * MINUTE else self.step_ms

    @cached_property
    def _requests(self) -> DataFrame:
        from .transforms import requests

        return self._persist(requests(self.history, self.attempts))

    def _slowest_attempts(self) -> DataFrame:
        """Deliveries of the slowest requests. A filter: a join would compute the requests again."""
        from pyspark.sql import functions as F

        slowest = self._requests.select("queue", "request").limit(MAX_PATHS).collect()
        filters = [(F.col("queue") == q) & (F.col("request") == r) for q, r in slowest]
        return self.attempts.where(reduce(operator.or_, filters, F.lit(False)))

    # --- tables --------------------------------------------------------------------------------

    @cached_property
    def tables(self) -> dict[str, DataFrame]:
        """All tables of the report; none is computed yet."""
        from . import transforms as t

        anomaly_ms = self.anomaly_ms
        return {
            "latency": t.latency(self.attempts, HOUR, self.accuracy),
            "throughput": t.throughput(self.history, MINUTE),
            "retries": t.retries(self.attempts),
            "anomalies": t.anomalies(
                t.throughput(self.history, anomaly_ms),
                t.latency(self.attempts, anomaly_ms, self.accuracy),
                anomaly_ms,
            ),
            **self._dead_letter_tables(),
            "fairness": t.fairness(
                self.attempts,
                t.client_submissions(self.history, self.client),
                weights=self._weights_frame(),
            ),
            "requests": self._requests,
            "critical_paths": t.critical_paths(self._slowest_attempts()),
        }

    def _dead_letter_tables(self) -> dict[str, DataFrame]:
        from . import transforms as t

        payloads = t.payload_fields(self.dead, self.redaction) if self.payloads else None
        return {
            "dead_groups": t.dead_groups(self.dead, self.redaction),
            "contrasts": t.contrasts(self.dead, payloads=payloads),
        }

    def _weights_frame(self) -> DataFrame | None:
        if not self.weights:
            return None
        rows = [(queue, client, weight) for (queue, client), weight in self.weights.items()]
        spark = self.history.sparkSession
        return spark.createDataFrame(rows, "queue string, client string, weight int")

    def figures(self, progress: Progress | None = None) -> Figures:
        """Collect all tables and the series of the plots."""
        from . import transforms as t

        extent, (deliveries, unknown_waits) = self._extent, self._delivery_counts
        series = {
            "latency": t.latency(self.attempts, self.step_ms, self.accuracy),
            "throughput": t.throughput(self.history, self.step_ms),
        }
        collected = _collect([*self.tables.values(), *series.values()], progress)
        rows = dict(zip(self.tables, collected, strict=False))
        return Figures(
            extent["begin"], extent["end"], self.step_ms, self.anomaly_ms, self.accuracy,
            extent["events"], extent["unread"], extent["gaps"], deliveries, unknown_waits,
            self._failures_only_queues(), {name: table[:MAX_ROWS] for name, table in rows.items()},
            dict(zip(series, collected[len(rows) :], strict=True)),
            tuple(name for name, table in rows.items() if len(table) > MAX_ROWS),
            self.weights is not None,
        )  # fmt: skip

    def dead_letter_groups(self, progress: Progress | None = None) -> dict[str, list[Row]]:
        """Collect ``dead_groups`` and ``contrasts``, which need the dead letters only."""
        tables = self._dead_letter_tables()
        collected = _collect([*tables.values()], progress)
        return {name: rows[:MAX_ROWS] for name, rows in zip(tables, collected, strict=True)}

    def critical_path(
        self, request: str, progress: Progress | None = None
    ) -> tuple[list[Row], tuple[str, ...]]:
        """The critical path of a request in each queue that has one of that id.

        Also returns queues whose history has failures only, if there is no such request.
        """
        from pyspark.sql import functions as F

        from . import transforms as t

        if progress is not None:
            progress(0, 1)
        events = self.history.where(
            (F.col("request") == request) | (F.col("id") == request) | (F.col("event") == "gap")
        )
        paths = t.critical_paths(t.attempts(events).where(F.col("request") == request))
        rows = [row.asDict() for row in _with_millis(paths).collect()]
        return rows, self._failures_only_queues() if not rows else ()

    def _failures_only_queues(self) -> tuple[str, ...]:
        from pyspark.sql import functions as F

        rows = (
            self.history.where(F.col("queue").isNotNull())
            .groupBy("queue")
            .agg(F.count(F.when(F.col("event") == "taken", 1)).alias("taken"))
            .where("taken = 0")
            .orderBy("queue")
            .limit(100)
            .collect()
        )
        return tuple(row.queue for row in rows)

    def write(self, folder: Path, progress: Progress | None = None) -> dict[str, Path]:
        """Write each table as Parquet below the folder, replacing a previous report when all are
        written.

        Later uses of `tables` read these files, so no table is computed twice.
        """
        temporary = folder / f".part.{os.getpid()}"
        frames = dict(self.tables)
        try:
            for n, (name, frame) in enumerate(frames.items()):
                if progress is not None:
                    progress(n, len(frames))
                # One file keeps the order of the table.
                frame.coalesce(1).write.mode("overwrite").parquet(str(temporary / name))
            for name, frame in frames.items():
                path = folder / name
                if path.exists():
                    path.replace(temporary / f"{name}.old")
                (temporary / name).replace(path)
                self.tables[name] = frame.sparkSession.read.schema(frame.schema).parquet(str(path))
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
        return {name: folder / name for name in frames}


def step_for(range_ms: int) -> int:
    """The step (ms) of plots over ``range_ms``."""
    return next(
        (s * 1000 for s in STEP_CHOICES_S if range_ms <= s * 1000 * MAX_STEPS),
        STEP_CHOICES_S[-1] * 1000,
    )


def by_queue(rows: Iterable[Row]) -> dict[str, list[Row]]:
    """Rows by queue, in their order."""
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(row["queue"], []).append(row)
    return found


def totals(figures: Figures) -> list[Row]:
    """One row per queue over the whole time, the busiest first."""
    found: dict[str, Row] = {}
    names = ("submitted", "taken", "done", "failed", "lost", "dead", "bad")
    for row in figures.tables["throughput"]:
        counts = found.setdefault(row["queue"], {"queue": row["queue"], **dict.fromkeys(names, 0)})
        for name in names:
            counts[name] += row[name]
    for row in figures.tables["latency"]:
        counts = found.setdefault(row["queue"], {"queue": row["queue"], **dict.fromkeys(names, 0)})
        for name in ("wait_p99_ms", "run_p99_ms"):
            if row[name] is not None:
                counts[name] = max(counts.get(name, 0), row[name])
    return sorted(found.values(), key=lambda row: (-max(row[n] for n in names), row["queue"]))


def failures_only_reason(queues: Sequence[str]) -> str:
    """Why waits and run times of these queues are missing."""
    names = ", ".join(queues[:5]) + (" …" if len(queues) > 5 else "")
    return (
        f"the history of {names} has failures only "
        "(redisq retention QUEUE history=all keeps all events from then on)"
    )


def empty_table_reasons(figures: Figures) -> dict[str, str]:
    """The reason, as a clause, for each table without rows."""
    from .transforms.anomalies import BASELINE

    nothing = "no event in this time"
    if figures.begin_ms is None or figures.end_ms is None:
        nothing += " (redisq retention QUEUE shows what its history keeps; --since reads more)"
        reasons = dict.fromkeys(figures.tables, nothing)
    else:
        reasons = dict.fromkeys(figures.tables, nothing)
        if not figures.deliveries:
            none = (
                failures_only_reason(figures.failures_only)
                if figures.failures_only
                else "no delivery in this time"
            )
            reasons |= dict.fromkeys(("latency", "retries", "fairness", "requests"), none)
        else:
            reasons["fairness"] = (
                "no delivery has a client (fair queues have clients; --client REGEX finds others)"
            )
            reasons["requests"] = "the history has no request with both its submission and its end"
        steps = (figures.end_ms - figures.begin_ms) // figures.anomaly_ms + 1
        few = steps < BASELINE
        reasons["anomalies"] = f"fewer than {BASELINE} steps" if few else "no step is unusual"
        reasons["critical_paths"] = reasons["requests"]
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


def backlog_at_start(figures: Figures) -> dict[str, tuple[int, int]]:
    """By queue, if entries were open when the history begins: its first step (ms), and how many."""
    found: dict[str, tuple[int, int]] = {}
    for row in figures.tables["throughput"]:
        if row["before"]:
            found.setdefault(row["queue"], (row["from_ms"], row["before"]))
    return found


def notes(figures: Figures) -> list[str]:
    """What a reader must know to interpret the figures, one sentence each."""
    lines = []
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
    from .page_elements import moment

    for queue, (at, n) in list(backlog_at_start(figures).items())[:MAX_QUEUE_NOTES]:
        lines.append(
            f"The backlog of {queue} is a lower bound: it is counted from {moment(at)} UTC, when "
            f"at least {n:,} entries were open already."
        )
    if figures.gaps:
        lines.append(f"The history has {figures.gaps:,} gaps: it was trimmed while it was read.")
    if figures.unread > figures.gaps:
        lines.append(
            f"{figures.unread - figures.gaps:,} rows could not be read and are not counted."
        )
    fairness = figures.tables["fairness"]
    if fairness and not figures.weights_known:
        lines.append("Clients' weights are unknown: all count as 1.")
    elif any(row["weight"] != 1 for row in fairness):
        lines.append("Fair shares use the clients' current weights.")
    lines += [f"The table {name} shows its first {MAX_ROWS:,} rows." for name in figures.truncated]
    return lines


def trait_sentences(traits: Sequence[Mapping[str, Any]], moment: Callable[[int], str]) -> list[str]:
    """What the entries of a group have in common, as `redisq dlq group` words it."""
    return [trait_sentence(t["field"], t["value"], t["share"], t["rest"], moment) for t in traits]


def _select_columns(frame: DataFrame, columns: Sequence[str]) -> DataFrame:
    """These columns; a column that an older lake lacks is null."""
    from pyspark.sql import functions as F

    return frame.select(
        *(c if c in frame.columns else F.lit(None).cast("string").alias(c) for c in columns)
    )


def _collect(frames: Sequence[DataFrame], progress: Progress | None) -> list[list[Row]]:
    """The rows of each frame, at most one more than `MAX_ROWS`."""
    found: list[list[Row]] = []
    for n, frame in enumerate(frames):
        if progress is not None:
            progress(n, len(frames))
        rows = _with_millis(frame).limit(MAX_ROWS + 1).collect()
        found.append([row.asDict() for row in rows])
    return found


def _with_millis(frame: DataFrame) -> DataFrame:
    """Timestamps as ms: Spark would return them in this machine's time zone."""
    from pyspark.sql import functions as F
    from pyspark.sql.types import TimestampType

    return frame.select(
        *(
            F.unix_millis(f.name).alias(f"{f.name.removesuffix('_at')}_ms")
            if isinstance(f.dataType, TimestampType)
            else F.col(f.name)
            for f in frame.schema.fields
        )
    )

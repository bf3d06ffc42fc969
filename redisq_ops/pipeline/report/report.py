"""The tables of a report, computed by Spark.

A `QueueReport` is made of two DataFrames, the history and the dead letters, from the data source or
from a lake. `QueueReport.figures` collects what a terminal or a page can show, bounded in size;
`QueueReport.write` stores all rows as Parquet.
"""

from __future__ import annotations

import operator
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, reduce
from pathlib import Path
from typing import TYPE_CHECKING

from redisq_ops.ops.redaction import NO_REDACTION, Redaction

from .figures import MAX_ROWS, Figures, Row

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

HISTORY_COLUMNS = (
    "queue",
    "kind",
    "event_id",
    "at",
    "by",
    "event",
    "id",
    "request",
    "number",
    "run_ms",
    "detail",
    "_corrupt",
)
DEAD_COLUMNS = (
    "queue",
    "kind",
    "id",
    "request",
    "client",
    "consumer",
    "since_at",
    "reason",
    "error_type",
    "error",
    "fingerprint",
    "_corrupt",
)
"""the columns that are read; without tracebacks, and payloads only on request"""

MAX_EXACT = 1_000_000
"""maximum number of deliveries for exact percentiles"""
ACCURACY = 10_000
"""above `MAX_EXACT`, ranks of percentiles are off by at most 1/ACCURACY of all values"""
STEP_CHOICES_S = (1, 5, 10, 30, 60, 120, 300, 900, 1800, 3600, 21_600, 86_400)
"""possible lengths of a plot's steps, in seconds"""
MAX_STEPS = 100
"""maximum number of steps of a plot"""
MINUTE, HOUR = 60_000, 3_600_000
MAX_PATHS = 5
"""number of the slowest requests whose critical paths are computed"""

Weights = Mapping[tuple[str, str], int]
"""(queue, client) -> weight: turns it gets for each turn of a client with weight 1"""
Progress = Callable[[int, int], None]


@dataclass
class QueueReport:
    """A report of a history and its dead letters; ``redaction`` applies to errors and payloads."""

    history: DataFrame
    dead: DataFrame
    client: str | None = None
    payloads: bool = False
    """compare dead letters' payloads too, to find what the entries of a group have in common"""
    redaction: Redaction = NO_REDACTION
    weights: Weights | None = None
    """weights other than 1; None: unknown"""
    earlier: DataFrame | None = None
    """the history before ``history``, from which the backlog at the start is computed"""
    against: QueueReport | None = None
    """a report of another time to compare this one with"""
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
        if self.against is not None:
            self.against.close()

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
    def range(self) -> tuple[int | None, int | None]:
        """The times of the first and last event, in ms."""
        return self._extent["begin"], self._extent["end"]

    @property
    def settings(self) -> dict[str, str]:
        """Settings for a session with this many events."""
        from ..session.spark_tuning import session_settings

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

    @cached_property
    def _opening(self) -> DataFrame | None:
        from .transforms import event_counts, open_entries

        if self.earlier is None:
            return None
        earlier = _select_columns(self.earlier, HISTORY_COLUMNS)
        return self._persist(open_entries(event_counts(earlier)))

    @cached_property
    def _event_counts(self) -> DataFrame:
        from .transforms import event_counts

        return self._persist(event_counts(self.history, min(MINUTE, self.step_ms)))

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
        """The step of anomalies: a minute, if there are enough minutes to know the usual values."""
        extent = self._extent
        span_ms = (extent["end"] or 0) - (extent["begin"] or 0)
        return MINUTE if span_ms >= 30 * MINUTE else self.step_ms

    @cached_property
    def _requests(self) -> DataFrame:
        from .transforms import requests

        return self._persist(requests(self.history, self.attempts))

    def _slowest_attempts(self) -> DataFrame:
        """Deliveries of the slowest requests. Filters: a join would compute the requests twice."""
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
            "throughput": t.throughput(self._event_counts, MINUTE, self._opening),
            "workers": t.workers(self.attempts, self.step_ms),
            "changes": t.changes(self.history),
            "retries": t.retries(self.attempts),
            "anomalies": t.anomalies(
                t.throughput(self._event_counts, anomaly_ms),
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
            **({} if self.against is None else {"comparison": self._comparison(self.against)}),
        }

    def _comparison(self, other: QueueReport) -> DataFrame:
        """Each queue's metrics in this report and in another one; dead letters by error group."""
        from pyspark.sql import functions as F

        keys = ["queue", "metric", "fingerprint"]
        own, others = self._window_totals(), other._window_totals()
        joined = own.join(others.withColumnRenamed("value", "against"), keys, "full")
        known = F.col("value").isNotNull() | F.col("against").isNotNull()
        group = F.nullif("fingerprint", F.lit("")).alias("fingerprint")
        return (
            joined.where(known)
            .select("queue", "metric", group, "value", "against")
            .orderBy("queue", "metric", "fingerprint")
        )

    def _window_totals(self) -> DataFrame:
        from pyspark.sql import functions as F

        from . import transforms as t

        totals = t.window_totals(self._event_counts, self.attempts, self.accuracy)
        extent = self._extent
        at = F.unix_millis("since_at")
        letters = t.readable(self.dead).where(
            at.between(F.lit(extent["begin"]), F.lit(extent["end"]))
        )
        groups = letters.groupBy("queue", "fingerprint").agg(
            F.count("*").cast("double").alias("value")
        )
        return totals.withColumn("fingerprint", F.lit("")).unionByName(
            groups.withColumn("metric", F.lit("dead_letters"))
        )

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
            "throughput": t.throughput(self._event_counts, self.step_ms, self._opening),
        }
        collected = _collect([*self.tables.values(), *series.values()], progress)
        rows = dict(zip(self.tables, collected, strict=False))
        return Figures(
            extent["begin"],
            extent["end"],
            self.step_ms,
            self.anomaly_ms,
            self.accuracy,
            extent["events"],
            extent["unread"],
            extent["gaps"],
            deliveries,
            unknown_waits,
            self._failures_only_queues(),
            {name: table[:MAX_ROWS] for name, table in rows.items()},
            dict(zip(series, collected[len(rows) :], strict=True)),
            tuple(name for name, table in rows.items() if len(table) > MAX_ROWS),
            self.weights is not None,
            {}
            if self._opening is None
            else dict(self._opening.select("queue", "opened").collect()),
            None if self.against is None else self.against.range,
        )

    def dead_letter_groups(self, progress: Progress | None = None) -> dict[str, list[Row]]:
        """Collect ``dead_groups`` and ``contrasts``, which need the dead letters only."""
        tables = self._dead_letter_tables()
        collected = _collect([*tables.values()], progress)
        return {name: rows[:MAX_ROWS] for name, rows in zip(tables, collected, strict=True)}

    def critical_path(
        self, request: str, progress: Progress | None = None
    ) -> tuple[list[Row], tuple[str, ...]]:
        """The critical path of a request in each queue that has a request of that id.

        If no queue has, also returns the queues whose history has failures only.
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
        """Write each table as Parquet below the folder; then replace a previous report, once all
        tables are written.

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

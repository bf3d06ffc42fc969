"""The reports' figures: Spark works the tables out, here they are brought home and bounded.

A `QueueReport` is made of two DataFrames, the history and the dead letters, wherever they come from
(the live source or a lake). `QueueReport.figures` collects what a terminal or a page can show;
`QueueReport.write` keeps all rows as Parquet.
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

from redisq_ops.ops.groups.traits import trait_phrase
from redisq_ops.ops.redaction import NO_REDACTION, Redaction

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

HISTORY = (
    "queue", "kind", "event_id", "at", "by", "event", "id", "request", "number", "run_ms", "detail",
    "_corrupt",
)  # fmt: skip
DEAD = (
    "queue", "kind", "id", "request", "client", "consumer", "since_at", "reason", "error_type",
    "error", "fingerprint", "_corrupt",
)  # fmt: skip
"""the columns that are read; no traceback, and the payload only where it is asked for"""

EXACT = 1_000_000
"""deliveries up to which percentiles are exact"""
ACCURACY = 10_000
"""from then on ranks are off by one part in so many"""
STEPS = (1, 5, 10, 30, 60, 120, 300, 900, 1800, 3600, 21_600, 86_400)
"""seconds a plot's step may have"""
POINTS = 100
"""steps a plot has, at most"""
MINUTE, HOUR = 60_000, 3_600_000
ROWS = 20_000
"""rows of one table that are brought home; all are in Parquet"""
QUEUES = 10
"""queues that a note of their own is made for"""
PATHS = 5
"""requests whose critical path is worked out, the slowest"""

Row = dict[str, Any]
Weights = Mapping[tuple[str, str], int]
"""(queue, client) -> turns it gets where another gets one"""
Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class Figures:
    """A report as plain values; moments are ms UTC, durations ms."""

    begin_ms: int | None
    """of the first event; None: the history is empty"""
    end_ms: int | None
    step_ms: int
    """of `series`"""
    anomaly_ms: int
    """of the table ``anomalies``"""
    accuracy: int | None
    """None: percentiles are exact"""
    events: int
    unread: int
    """rows that could not be read, gaps in the history among them"""
    gaps: int
    deliveries: int
    unwaited: int
    """deliveries whose wait the history doesn't say"""
    silent: tuple[str, ...]
    """queues whose history has failures only: nothing is known of waits and runs there"""
    tables: dict[str, list[Row]]
    series: dict[str, list[Row]]
    """latency and throughput in the plots' steps"""
    cut: tuple[str, ...] = ()
    """tables that have more rows than are here"""
    weighed: bool = True
    """whether clients' weights are known"""


@dataclass
class QueueReport:
    """``redaction`` is applied to all that errors and payloads say."""

    history: DataFrame
    dead: DataFrame
    client: str | None = None
    payloads: bool = False
    """look into dead letters' payloads for what groups have in common"""
    redaction: Redaction = NO_REDACTION
    weights: Weights | None = None
    """of clients, those that aren't 1; None: they aren't known here"""
    _held: list[DataFrame] = field(default_factory=list)

    def __post_init__(self) -> None:
        # Read once: a live server's answer would be another one each time.
        self.history = self._hold(_only(self.history, HISTORY))
        columns = (*DEAD, "payload") if self.payloads else DEAD
        self.dead = self._hold(_only(self.dead, columns))

    def _hold(self, frame: DataFrame) -> DataFrame:
        held = frame.persist()
        self._held.append(held)
        return held

    def close(self) -> None:
        """Let go of what was kept between the tables."""
        while self._held:
            self._held.pop().unpersist()

    # --- what is known of the whole ------------------------------------------------------------

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
        """What a session is to be set to for so many events."""
        from .spark_tuning import settings

        return settings(self._extent["events"])

    @cached_property
    def attempts(self) -> DataFrame:
        from .transforms import attempts

        return self._hold(attempts(self.history, self.client))

    @cached_property
    def _counted(self) -> tuple[int, int]:
        from pyspark.sql import functions as F

        (row,) = self.attempts.agg(
            F.count("*"), F.count(F.when(F.col("wait_ms").isNull(), 1))
        ).collect()
        return int(row[0]), int(row[1])

    @property
    def accuracy(self) -> int | None:
        return None if self._counted[0] <= EXACT else ACCURACY

    @property
    def step_ms(self) -> int:
        """The finest step of which the plots have not too many."""
        extent = self._extent
        if extent["begin"] is None:
            return MINUTE
        return step_of(extent["end"] - extent["begin"])

    @property
    def anomaly_ms(self) -> int:
        """Minutes, where there are enough to know what is usual."""
        extent = self._extent
        whole = (extent["end"] or 0) - (extent["begin"] or 0)
        return MINUTE if whole >= 30 * MINUTE else self.step_ms

    @cached_property
    def _requests(self) -> DataFrame:
        from .transforms import requests

        return self._hold(requests(self.history, self.attempts))

    def _of_the_slowest(self) -> DataFrame:
        """Their deliveries. Named one by one: a join would work the requests out again."""
        from pyspark.sql import functions as F

        slowest = self._requests.select("queue", "request").limit(PATHS).collect()
        named = [(F.col("queue") == q) & (F.col("request") == r) for q, r in slowest]
        return self.attempts.where(reduce(operator.or_, named, F.lit(False)))

    # --- tables --------------------------------------------------------------------------------

    @cached_property
    def tables(self) -> dict[str, DataFrame]:
        """All tables of the report, none of them worked out yet."""
        from . import transforms as t

        anomaly_ms = self.anomaly_ms
        payloads = t.payload_fields(self.dead, self.redaction) if self.payloads else None
        return {
            "latency": t.latency(self.attempts, HOUR, self.accuracy),
            "throughput": t.throughput(self.history, MINUTE),
            "retries": t.retries(self.attempts),
            "anomalies": t.anomalies(
                t.throughput(self.history, anomaly_ms),
                t.latency(self.attempts, anomaly_ms, self.accuracy),
                anomaly_ms,
            ),
            "dead_groups": t.dead_groups(self.dead, self.redaction),
            "contrasts": t.contrasts(self.dead, payloads=payloads),
            "fairness": t.fairness(
                self.attempts, t.demanded(self.history, self.client), weights=self._weighed()
            ),
            "requests": self._requests,
            "critical_paths": t.critical_paths(self._of_the_slowest()),
        }

    def _weighed(self) -> DataFrame | None:
        if not self.weights:
            return None
        rows = [(queue, client, weight) for (queue, client), weight in self.weights.items()]
        spark = self.history.sparkSession
        return spark.createDataFrame(rows, "queue string, client string, weight int")

    def figures(self, names: Iterable[str] = (), progress: Progress | None = None) -> Figures:
        """These tables (without any named all, and the plots' series), brought home."""
        from . import transforms as t

        wanted = tuple(names)
        extent, (deliveries, unwaited) = self._extent, self._counted
        frames = {n: f for n, f in self.tables.items() if not wanted or n in wanted}
        series = {} if wanted else {
            "latency": t.latency(self.attempts, self.step_ms, self.accuracy),
            "throughput": t.throughput(self.history, self.step_ms),
        }  # fmt: skip
        found: list[list[Row]] = []
        for n, frame in enumerate((*frames.values(), *series.values())):
            if progress is not None:
                progress(n, len(frames) + len(series))
            taken = _home(frame).limit(ROWS + 1).collect()
            found.append([row.asDict() for row in taken])
        rows = dict(zip(frames, found, strict=False))
        return Figures(
            extent["begin"], extent["end"], self.step_ms, self.anomaly_ms, self.accuracy,
            extent["events"], extent["unread"], extent["gaps"], deliveries, unwaited,
            self._silent(), {name: table[:ROWS] for name, table in rows.items()},
            dict(zip(series, found[len(frames) :], strict=True)),
            tuple(name for name, table in rows.items() if len(table) > ROWS),
            self.weights is not None,
        )  # fmt: skip

    def letters(self, progress: Progress | None = None) -> dict[str, list[Row]]:
        """``dead_groups`` and ``contrasts``, from the dead letters alone."""
        from . import transforms as t

        payloads = t.payload_fields(self.dead, self.redaction) if self.payloads else None
        frames = {
            "dead_groups": t.dead_groups(self.dead, self.redaction),
            "contrasts": t.contrasts(self.dead, payloads=payloads),
        }
        found = {}
        for n, (name, frame) in enumerate(frames.items()):
            if progress is not None:
                progress(n, len(frames))
            rows = _home(frame).limit(ROWS).collect()
            found[name] = [row.asDict() for row in rows]
        return found

    def path(
        self, request: str, progress: Progress | None = None
    ) -> tuple[list[Row], tuple[str, ...]]:
        """The critical path of a request, in each queue that has one of that id, and the queues
        whose history could not have it."""
        from pyspark.sql import functions as F

        from . import transforms as t

        if progress is not None:
            progress(0, 1)
        own = self.history.where(
            (F.col("request") == request) | (F.col("id") == request) | (F.col("event") == "gap")
        )
        walked = t.critical_paths(t.attempts(own).where(F.col("request") == request))
        rows = [row.asDict() for row in _home(walked).collect()]
        return rows, self._silent() if not rows else ()

    def _silent(self) -> tuple[str, ...]:
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
        """Each table as Parquet below the folder; what an earlier report left there is replaced,
        when all tables are written: of a report that fails on the way nothing is there.

        What is asked for later is read from there: no table is worked out twice.
        """
        aside = folder / f".part.{os.getpid()}"
        frames = dict(self.tables)
        try:
            for n, (name, frame) in enumerate(frames.items()):
                if progress is not None:
                    progress(n, len(frames))
                # One file, so that it keeps the table's order.
                frame.coalesce(1).write.mode("overwrite").parquet(str(aside / name))
            for name, frame in frames.items():
                path = folder / name
                if path.exists():
                    path.replace(aside / f"{name}.old")
                (aside / name).replace(path)
                self.tables[name] = frame.sparkSession.read.schema(frame.schema).parquet(str(path))
        finally:
            shutil.rmtree(aside, ignore_errors=True)
        return {name: folder / name for name in frames}


def step_of(range_ms: int) -> int:
    """The step (ms) of plots over so much time."""
    return next((s * 1000 for s in STEPS if range_ms <= s * 1000 * POINTS), STEPS[-1] * 1000)


def lake(spark: SparkSession, folder: Path, table: str) -> DataFrame:
    """A table of a lake, as `redisq spark export` keeps it; none of it: no rows."""
    from .schemas import struct
    from .tables import TABLES

    schema = struct(TABLES[table])
    path = folder / table
    if not path.is_dir():
        return spark.createDataFrame([], schema)
    return spark.read.schema(schema).parquet(str(path))


def by_queue(rows: Iterable[Row]) -> dict[str, list[Row]]:
    """Rows by their queue, in their order."""
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(row["queue"], []).append(row)
    return found


def totals(figures: Figures) -> list[Row]:
    """A row per queue over the whole time, the busiest first."""
    found: dict[str, Row] = {}
    names = ("submitted", "taken", "done", "failed", "lost", "dead", "bad")
    for row in figures.tables.get("throughput", figures.series.get("throughput", [])):
        of = found.setdefault(row["queue"], {"queue": row["queue"], **dict.fromkeys(names, 0)})
        for name in names:
            of[name] += row[name]
    for row in figures.tables.get("latency", []):
        of = found.setdefault(row["queue"], {"queue": row["queue"], **dict.fromkeys(names, 0)})
        for name in ("wait_p99_ms", "run_p99_ms"):
            if row[name] is not None:
                of[name] = max(of.get(name, 0), row[name])
    return sorted(found.values(), key=lambda row: (-max(row[n] for n in names), row["queue"]))


def silence(queues: Sequence[str]) -> str:
    """Why there are no waits and run times of these queues."""
    named = ", ".join(queues[:5]) + (" …" if len(queues) > 5 else "")
    return (
        f"the history of {named} has failures only "
        "(redisq retention QUEUE history=all keeps the rest from then on)"
    )


def missing(figures: Figures) -> dict[str, str]:
    """Of each table without a row why it has none: its name, and a clause."""
    from .transforms.anomalies import BASELINE

    nothing = "no event in this time"
    if figures.begin_ms is None or figures.end_ms is None:
        nothing += " (redisq retention QUEUE shows what its history keeps; --since reads more)"
        why = dict.fromkeys(figures.tables, nothing)
    else:
        why = dict.fromkeys(figures.tables, nothing)
        if not figures.deliveries:
            none = silence(figures.silent) if figures.silent else "no delivery in this time"
            why |= dict.fromkeys(("latency", "retries", "fairness", "requests"), none)
        else:
            why["fairness"] = (
                "no delivery has a client (fair queues know theirs, --client REGEX finds others)"
            )
            why["requests"] = "the history has no request from its submission to its end"
        steps = (figures.end_ms - figures.begin_ms) // figures.anomaly_ms + 1
        few = steps < BASELINE
        why["anomalies"] = f"fewer than {BASELINE} steps" if few else "no step is unusual"
        why["critical_paths"] = why["requests"]
    why["dead_groups"] = "no dead letters"
    why["contrasts"] = "no trait is surely more frequent in a group than elsewhere"
    if named := alone(figures.tables.get("dead_groups", ())):
        why["contrasts"] = named
    return {name: why[name] for name, rows in figures.tables.items() if not rows}


def alone(groups: Sequence[Row]) -> str:
    """What is said of queues whose dead letters are all of one group; empty: there are none."""
    queues = [queue for queue, rows in by_queue(groups).items() if len(rows) == 1]
    if not queues:
        return ""
    named = ", ".join(queues[:5]) + (" …" if len(queues) > 5 else "")
    return f"the dead letters of {named} are one group, with no others to compare it with"


def open_before(figures: Figures) -> dict[str, tuple[int, int]]:
    """Queues that had open entries when what was read begins: its first step, ms, and how many
    they were at least."""
    rows = figures.tables.get("throughput", figures.series.get("throughput", ()))
    found: dict[str, tuple[int, int]] = {}
    for row in rows:
        if row["before"]:
            found.setdefault(row["queue"], (row["from_ms"], row["before"]))
    return found


def notes(figures: Figures) -> list[str]:
    """What one has to know to read the figures rightly, a sentence each."""
    said = []
    if figures.accuracy is None:
        said.append("Percentiles are exact.")
    else:
        said.append(
            f"Percentiles are approximate: of {figures.deliveries:,} deliveries ranks are off by "
            f"1/{figures.accuracy:,} at most."
        )
    if figures.unwaited:
        said.append(
            f"Of {figures.unwaited:,} of {figures.deliveries:,} deliveries the wait is unknown: "
            "the history has their submission no more, or they came from a replay or a release."
        )
    if figures.silent:
        said.append(f"Waits and run times are missing: {silence(figures.silent)}.")
    from .html import moment

    for queue, (at, n) in list(open_before(figures).items())[:QUEUES]:
        said.append(
            f"The backlog of {queue} is a lower bound: it is counted from {moment(at)} UTC, when "
            f"at least {n:,} entries were open already."
        )
    if figures.gaps:
        said.append(f"The history has {figures.gaps:,} gaps: it was trimmed while it was read.")
    if figures.unread > figures.gaps:
        said.append(f"{figures.unread - figures.gaps:,} rows could not be read and don't count.")
    fairness = figures.tables.get("fairness", ())
    if fairness and not figures.weighed:
        said.append("Clients' weights are not known here: they count alike.")
    elif any(row["weight"] != 1 for row in fairness):
        said.append("Fair parts are by the weights that clients have now.")
    said += [f"The table {name} is cut at {ROWS:,} rows here." for name in figures.cut]
    return said


def sentences(traits: Sequence[Mapping[str, Any]], moment: Callable[[int], str]) -> list[str]:
    """What a group has in common, as `redisq dlq group` says it."""
    said = []
    for trait in traits:
        what = trait_phrase(trait["field"], trait["value"], moment)
        said.append(f"{percent(trait['share'])} {what}, {percent(trait['rest'])} of the rest")
    return said


def percent(share: float) -> str:
    """``61 %``; what is there is never 0 %, what isn't all never 100 %."""
    number = round(100 * share)
    if share > 0 and number == 0:
        return "<1 %"
    return ">99 %" if share < 1 and number == 100 else f"{number} %"


def _only(frame: DataFrame, columns: Sequence[str]) -> DataFrame:
    """These columns, of those that are there; a lake may be older than some."""
    from pyspark.sql import functions as F

    return frame.select(
        *(c if c in frame.columns else F.lit(None).cast("string").alias(c) for c in columns)
    )


def _home(frame: DataFrame) -> DataFrame:
    """Moments as ms: Spark would hand them out in this machine's zone, and not say so."""
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

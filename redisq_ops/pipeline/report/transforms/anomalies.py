"""Spans of time in which a metric of a queue is far from its median."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql.window import Window

from .time_steps import MINUTE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

THRESHOLD = 3.5
"""robust standard deviations (Iglewicz and Hoaglin, "How to Detect and Handle Outliers", 1993)"""
BASELINE = 30
"""minimum number of steps before any of them is called unusual"""
FLOORS = {"submitted": 5.0, "done": 5.0, "failed": 5.0, "wait_ms": 10.0, "run_ms": 10.0}
"""metric -> minimum distance from the median"""
MIN_SHARE = 0.5
"""minimum distance from the median, as a share of it"""
MAX_GAP_STEPS = 5
"""unusual steps with at most this many steps between them form one span"""
SAMPLES = 5
"""minimum number of entries in a step for its wait or run time to count"""


def anomalies(throughput: DataFrame, latency: DataFrame, step_ms: int = MINUTE) -> DataFrame:
    """Spans of steps that are far from a queue's median: one row per metric and span.

    Far: the robust z = 0.6745 (value − median) / MAD is at least `THRESHOLD`, and the distance is
    at least `FLOORS` and `MIN_SHARE` of the median. If more than half of the values are equal, so
    that MAD is 0, z = (value − median) / (1.2533 mean absolute deviation). For failures, waits and
    run times only high values count, for completions only low ones; a step without events counts as
    0. Queues with fewer than `BASELINE` steps have no rows. Both tables must have steps of
    ``step_ms``.
    """
    counts = throughput.withColumn("failed", F.col("bad"))
    by_metric = _by_metric(counts, ("submitted", "done", "failed"))
    at = F.unix_millis("from_at")
    grid = throughput.groupBy("queue").agg(
        F.explode(F.sequence(F.min(at), F.max(at), F.lit(step_ms))).alias("step")
    )
    names = F.explode(F.array(*map(F.lit, ("submitted", "done", "failed")))).alias("metric")
    dense = (
        grid.select("queue", "step", names)
        .join(by_metric, ["queue", "step", "metric"], "left")
        .fillna(0.0, ["value"])
    )
    times = latency.select(
        "queue",
        "from_at",
        F.when(F.col("waits") >= SAMPLES, F.col("wait_p95_ms")).alias("wait_ms"),
        F.when(F.col("runs") >= SAMPLES, F.col("run_p95_ms")).alias("run_ms"),
    )
    values = dense.unionByName(_by_metric(times, ("wait_ms", "run_ms")))
    # Windows, not joins: a join would compute both tables again.
    usual = Window.partitionBy("queue", "metric")
    deviations = (
        values.withColumn("median", F.percentile("value", F.lit(0.5)).over(usual))
        .withColumn("steps", F.count("*").over(usual))
        .withColumn("away", F.col("value") - F.col("median"))
        .withColumn("mad", F.percentile(F.abs("away"), F.lit(0.5)).over(usual))
        .withColumn("mean", F.avg(F.abs("away")).over(usual))
    )
    floor = reduce(
        lambda so_far, item: so_far.when(F.col("metric") == item[0], item[1]),
        list(FLOORS.items())[1:],
        F.when(F.col("metric") == "submitted", FLOORS["submitted"]),
    )
    z = F.when(F.col("mad") > 0, 0.6745 * F.col("away") / F.col("mad")).otherwise(
        F.col("away") / F.nullif(1.2533 * F.col("mean"), F.lit(0.0))
    )
    relevant_side = (
        F.when(F.col("metric") == "submitted", True)
        .when(F.col("metric") == "done", F.col("z") < 0)
        .otherwise(F.col("z") > 0)
    )
    unusual = (
        deviations.withColumn("z", z)
        .where(
            (F.col("steps") >= BASELINE)
            & (F.abs("z") >= THRESHOLD)
            & (F.abs("away") >= F.greatest(floor, MIN_SHARE * F.col("median")))
            & relevant_side
        )
        .withColumn("side", F.when(F.col("z") > 0, "above").otherwise("below"))
    )
    w = Window.partitionBy("queue", "metric", "side").orderBy("step")
    new_span = F.col("step") - F.lag("step").over(w) > MAX_GAP_STEPS * step_ms
    spans = unusual.withColumn("apart", F.coalesce(new_span, F.lit(False)).cast("int")).withColumn(
        "span", F.sum("apart").over(w)
    )
    return (
        spans.groupBy("queue", "metric", "side", "span")
        .agg(
            F.timestamp_millis(F.min("step")).alias("from_at"),
            F.timestamp_millis(F.max("step") + step_ms).alias("to_at"),
            F.max_by("value", F.abs("z")).alias("value"),
            F.first("median").alias("median"),
            F.first("mad").alias("mad"),
            F.max_by("z", F.abs("z")).alias("z"),
        )
        .select(
            "queue",
            "metric",
            "side",
            "from_at",
            "to_at",
            "value",
            "median",
            "mad",
            "z",
        )
        .orderBy("from_at", "queue", "metric")
    )


def _by_metric(table: DataFrame, metrics: Sequence[str]) -> DataFrame:
    """One row per metric: queue, step (ms), metric, value."""
    pairs = F.explode(
        F.array(
            *(
                F.struct(F.lit(m).alias("metric"), F.col(m).cast("double").alias("value"))
                for m in metrics
            )
        )
    )
    rows = table.select("queue", F.unix_millis("from_at").alias("step"), pairs.alias("pair"))
    return rows.select("queue", "step", "pair.*").where(F.col("value").isNotNull())

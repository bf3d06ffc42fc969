"""Spans of time that are far from a queue's usual."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql.window import Window

from .steps import MINUTE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

THRESHOLD = 3.5
"""robust standard deviations (Iglewicz and Hoaglin, "How to Detect and Handle Outliers", 1993)"""
BASELINE = 30
"""buckets there must be before any of them is called unusual"""
FLOORS = {"submitted": 5.0, "done": 5.0, "failed": 5.0, "wait_ms": 10.0, "run_ms": 10.0}
"""metric -> how far from the median something is before it is worth a word"""
PART = 0.5
"""of the median that it is away, at least"""
JOINED = 5
"""steps between two unusual ones that make them two spans"""
SAMPLES = 5
"""entries of a bucket whose wait or run time tell something of it"""


def anomalies(
    throughput: DataFrame,
    latency: DataFrame,
    step_ms: int = MINUTE,
    threshold: float = THRESHOLD,
) -> DataFrame:
    """Spans of steps that are far from a queue's usual: one row per metric and span.

    Far: the robust z = 0.6745 (value − median) / MAD is `threshold` or more, and the value is
    `FLOORS` and `PART` of the median or more away; steps a little apart are one span. Where more
    than half of the values are the same, and MAD is 0, z = (value − median) / (1.2533 mean absolute
    deviation). Of failures, waits and runs only what is above, of completions only what is
    below; steps without events count as 0. Nothing is said of fewer than `BASELINE` steps. Both
    tables are of steps of ``step_ms``.
    """
    counts = throughput.withColumn("failed", F.col("bad"))
    by_metric = _long(counts, ("submitted", "done", "failed"))
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
        "queue", "from_at",
        F.when(F.col("waits") >= SAMPLES, F.col("wait_p95_ms")).alias("wait_ms"),
        F.when(F.col("runs") >= SAMPLES, F.col("run_p95_ms")).alias("run_ms"),
    )  # fmt: skip
    values = dense.unionByName(_long(times, ("wait_ms", "run_ms")))
    usual = values.groupBy("queue", "metric").agg(
        F.percentile("value", F.lit(0.5)).alias("median"), F.count("*").alias("steps")
    )
    away = values.join(usual, ["queue", "metric"]).withColumn(
        "away", F.col("value") - F.col("median")
    )
    spread = away.groupBy("queue", "metric").agg(
        F.percentile(F.abs("away"), F.lit(0.5)).alias("mad"), F.avg(F.abs("away")).alias("mean")
    )
    floor = reduce(
        lambda so_far, item: so_far.when(F.col("metric") == item[0], item[1]),
        list(FLOORS.items())[1:],
        F.when(F.col("metric") == "submitted", FLOORS["submitted"]),
    )
    z = F.when(F.col("mad") > 0, 0.6745 * F.col("away") / F.col("mad")).otherwise(
        F.col("away") / F.nullif(1.2533 * F.col("mean"), F.lit(0.0))
    )
    right_way = (
        F.when(F.col("metric") == "submitted", True)
        .when(F.col("metric") == "done", F.col("z") < 0)
        .otherwise(F.col("z") > 0)
    )
    far = (
        away.join(spread, ["queue", "metric"])
        .withColumn("z", z)
        .where(
            (F.col("steps") >= BASELINE)
            & (F.abs("z") >= threshold)
            & (F.abs("away") >= F.greatest(floor, PART * F.col("median")))
            & right_way
        )
        .withColumn("side", F.when(F.col("z") > 0, "above").otherwise("below"))
    )
    w = Window.partitionBy("queue", "metric", "side").orderBy("step")
    apart = F.col("step") - F.lag("step").over(w) > JOINED * step_ms
    spans = far.withColumn("apart", F.coalesce(apart, F.lit(False)).cast("int")).withColumn(
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
            "queue", "metric", "side", "from_at", "to_at", "value", "median", "mad", "z",
        )
        .orderBy("from_at", "queue", "metric")
    )  # fmt: skip


def _long(table: DataFrame, metrics: Sequence[str]) -> DataFrame:
    """A row per metric: queue, step (ms), metric, value."""
    pairs = F.explode(
        F.array(
            *(F.struct(F.lit(m).alias("metric"), F.col(m).cast("double").alias("value"))
              for m in metrics)
        )
    )  # fmt: skip
    rows = table.select("queue", F.unix_millis("from_at").alias("step"), pairs.alias("pair"))
    return rows.select("queue", "step", "pair.*").where(F.col("value").isNotNull())

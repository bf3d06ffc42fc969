"""Latency, throughput, retries."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql.window import Window

from redisq_ops.ops.groups.traits import HOUR

from .events import COUNTED, ENDS, sized
from .steps import MINUTE, ms, step

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

PERCENTILES = (0.5, 0.95, 0.99)


def latency(attempts: DataFrame, step_ms: int = HOUR, accuracy: int | None = None) -> DataFrame:
    """Waits for a first delivery and run times of deliveries that ended done, per queue and step,
    by the time of delivery."""
    wait = F.when(F.col("since") == "submitted", F.col("wait_ms"))
    run = F.when(F.col("ended") == "done", F.col("run_ms"))
    found = (
        attempts.groupBy("queue", step("taken_at", step_ms).alias("from_at"))
        .agg(
            F.count("*").alias("taken"),
            F.count(wait).alias("waits"),
            _percentiles(wait, accuracy).alias("wait"),
            F.max(wait).alias("wait_max_ms"),
            F.count(run).alias("runs"),
            _percentiles(run, accuracy).alias("run"),
            F.max(run).alias("run_max_ms"),
        )
        .orderBy("queue", "from_at")
    )
    return found.select(
        "queue", "from_at", "taken",
        "waits", *_spread("wait"), "wait_max_ms", "runs", *_spread("run"), "run_max_ms",
    )  # fmt: skip


def throughput(history: DataFrame, step_ms: int = MINUTE) -> DataFrame:
    """Events per queue and step. ``grown``: how many entries more than at the beginning of the
    history are open (neither done nor dead) at the step's end, as far as it says; ``peak``: at most
    in it, looked at every 10 s, of steps of 5 min and more every minute. ``before``: how many were
    open at the beginning, at least: without them there would be fewer than none later.
    ``bad``: deliveries that failed, were lost or rejected; who is buried after a lost lease is one
    of them, not two."""
    fine_ms = MINUTE if step_ms >= 5 * MINUTE else 10_000 if step_ms >= MINUTE else step_ms
    n = F.col("entries")
    bad = F.col("event").isin("failed", "lost") | (
        (F.col("event") == "dead") & ~F.col("detail").eqNullSafe("lost")
    )
    counted = (
        sized(history)
        .groupBy("queue", ms("at", fine_ms).alias("fine"))
        .agg(
            *(F.sum(F.when(F.col("event") == e, n).otherwise(0)).alias(e) for e in COUNTED),
            F.count(F.when(bad, 1)).alias("bad"),
            F.sum(F.when(F.col("event") == "op", n).otherwise(0)).alias("reopened"),
        )
    )
    queue = Window.partitionBy("queue")
    more = F.col("submitted") + F.col("reopened") - F.col("done") - F.col("dead")
    return (
        counted.withColumn("grown", F.sum(more).over(queue.orderBy("fine")))
        .withColumn("before", F.greatest(F.lit(0), -F.min("grown").over(queue)))
        .groupBy(
            "queue", F.expr(f"timestamp_millis(fine - pmod(fine, {step_ms}))").alias("from_at")
        )
        .agg(
            *(F.sum(e).alias(e) for e in (*COUNTED, "bad")),
            F.max_by("grown", "fine").alias("grown"),
            F.max("grown").alias("peak"),
            F.max("before").alias("before"),
        )
        .orderBy("queue", "from_at")
    )


def retries(attempts: DataFrame) -> DataFrame:
    """How deliveries end, by which attempt they are. ``unsaid``: not yet, or released."""
    ended = F.col("ended")
    return (
        attempts.groupBy("queue", "attempt")
        .agg(
            F.count("*").alias("n"),
            *(F.count(F.when(ended == word, 1)).alias(word) for word in ENDS),
            F.count(F.when(ended.isNull(), 1)).alias("unsaid"),
        )
        .withColumn(
            "bad_share",
            (F.col("failed") + F.col("lost") + F.col("dead"))
            / F.nullif(F.col("n") - F.col("unsaid"), F.lit(0)),
        )
        .orderBy("queue", "attempt")
    )


def _percentiles(value: Column, accuracy: int | None) -> Column:
    if accuracy is None:
        return F.percentile(value, F.array(*map(F.lit, PERCENTILES)))
    return F.percentile_approx(value, list(PERCENTILES), accuracy).cast("array<double>")


def _spread(name: str) -> list[Column]:
    return [
        F.col(name)[i].alias(f"{name}_p{round(100 * share)}_ms")
        for i, share in enumerate(PERCENTILES)
    ]

"""Latency, throughput and retries."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql.window import Window

from redisq_ops.ops.groups.traits import HOUR

from .events import ENDS, ENTRY_EVENTS, with_entry_counts
from .time_steps import MINUTE, step_start, step_start_ms

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

PERCENTILES = (0.5, 0.95, 0.99)


def latency(attempts: DataFrame, step_ms: int = HOUR, accuracy: int | None = None) -> DataFrame:
    """Waits for first deliveries, and run times of deliveries that ended done, per queue and step.

    A delivery counts in the step in which it began.
    """
    wait = F.when(F.col("since") == "submitted", F.col("wait_ms"))
    run = F.when(F.col("ended") == "done", F.col("run_ms"))
    summary = (
        attempts.groupBy("queue", step_start("taken_at", step_ms).alias("from_at"))
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
    return summary.select(
        "queue", "from_at", "taken",
        "waits", *_percentile_columns("wait"), "wait_max_ms",
        "runs", *_percentile_columns("run"), "run_max_ms",
    )  # fmt: skip


def throughput(history: DataFrame, step_ms: int = MINUTE) -> DataFrame:
    """Events per queue and step, and the backlog.

    ``grown``: change of open entries (neither done nor dead) from the beginning of the history to
    the end of the step; ``peak``: its maximum in the step, sampled every 10 s, or every minute for
    steps of 5 min and more. ``before``: the minimum number of entries open at the beginning of the
    history, so that the backlog is never negative. ``bad``: deliveries that failed, were lost or
    were rejected; an entry that is dead after a lost lease counts once.
    """
    fine_ms = MINUTE if step_ms >= 5 * MINUTE else 10_000 if step_ms >= MINUTE else step_ms
    n = F.col("entries")
    bad = F.col("event").isin("failed", "lost") | (
        (F.col("event") == "dead") & ~F.col("detail").eqNullSafe("lost")
    )
    counted = (
        with_entry_counts(history)
        .groupBy("queue", step_start_ms("at", fine_ms).alias("fine"))
        .agg(
            *(F.sum(F.when(F.col("event") == e, n).otherwise(0)).alias(e) for e in ENTRY_EVENTS),
            F.count(F.when(bad, 1)).alias("bad"),
            F.sum(F.when(F.col("event") == "op", n).otherwise(0)).alias("reopened"),
        )
    )
    queue = Window.partitionBy("queue")
    change = F.col("submitted") + F.col("reopened") - F.col("done") - F.col("dead")
    return (
        counted.withColumn("grown", F.sum(change).over(queue.orderBy("fine")))
        .withColumn("before", F.greatest(F.lit(0), -F.min("grown").over(queue)))
        .groupBy(
            "queue", F.expr(f"timestamp_millis(fine - pmod(fine, {step_ms}))").alias("from_at")
        )
        .agg(
            *(F.sum(e).alias(e) for e in (*ENTRY_EVENTS, "bad")),
            F.max_by("grown", "fine").alias("grown"),
            F.max("grown").alias("peak"),
            F.max("before").alias("before"),
        )
        .orderBy("queue", "from_at")
    )


def retries(attempts: DataFrame) -> DataFrame:
    """How deliveries end, by attempt. ``unsaid``: not ended yet, or released."""
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


def _percentile_columns(name: str) -> list[Column]:
    return [
        F.col(name)[i].alias(f"{name}_p{round(100 * share)}_ms")
        for i, share in enumerate(PERCENTILES)
    ]

"""Latency, workers and retries."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from redisq_ops.ops.groups.traits import HOUR

from .events import ENDS
from .time_steps import step_start

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

PERCENTILES = (0.5, 0.95, 0.99)


def latency(attempts: DataFrame, step_ms: int = HOUR, accuracy: int | None = None) -> DataFrame:
    """Waits for first deliveries, and run times of deliveries that ended done, per queue and step.

    A delivery counts in the step in which it began.
    """
    wait, run = first_wait(), completed_run()
    summary = (
        attempts.groupBy("queue", step_start("taken_at", step_ms).alias("from_at"))
        .agg(
            F.count("*").alias("taken"),
            F.count(wait).alias("waits"),
            percentiles(wait, accuracy).alias("wait"),
            F.max(wait).alias("wait_max_ms"),
            F.count(run).alias("runs"),
            percentiles(run, accuracy).alias("run"),
            F.max(run).alias("run_max_ms"),
        )
        .orderBy("queue", "from_at")
    )
    return summary.select(
        "queue",
        "from_at",
        "taken",
        "waits",
        *percentile_columns("wait"),
        "wait_max_ms",
        "runs",
        *percentile_columns("run"),
        "run_max_ms",
    )


def workers(attempts: DataFrame, step_ms: int) -> DataFrame:
    """Per queue and step: ``workers``, the consumers that held a delivery at some time of the step,
    and ``busy``, the average number of deliveries in progress.

    If the end of a delivery is unknown, only its beginning counts. ``step_ms`` must divide the
    history into a bounded number of steps: a delivery has a row in each step that it touches.
    """
    begin = F.unix_millis("taken_at")
    end = F.coalesce(F.unix_millis("ended_at"), begin)
    steps = F.sequence(begin - F.pmod(begin, F.lit(step_ms)), end, F.lit(step_ms).cast("long"))
    step_end = F.col("step") + step_ms
    overlap = F.least(F.col("end"), step_end) - F.greatest(F.col("begin"), F.col("step"))
    return (
        attempts.select(
            "queue",
            "consumer",
            begin.alias("begin"),
            end.alias("end"),
            F.explode(steps).alias("step"),
        )
        .groupBy("queue", F.timestamp_millis("step").alias("from_at"))
        .agg(
            F.countDistinct("consumer").alias("workers"),
            (F.sum(overlap) / step_ms).alias("busy"),
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


def first_wait() -> Column:
    """The wait (ms) for a first delivery; null for other deliveries."""
    return F.when(F.col("since") == "submitted", F.col("wait_ms"))


def completed_run() -> Column:
    """The run time (ms) of a delivery that ended done; null for other deliveries."""
    return F.when(F.col("ended") == "done", F.col("run_ms"))


def percentiles(value: Column, accuracy: int | None) -> Column:
    if accuracy is None:
        return F.percentile(value, F.array(*map(F.lit, PERCENTILES)))
    return F.percentile_approx(value, list(PERCENTILES), accuracy).cast("array<double>")


def percentile_columns(name: str) -> list[Column]:
    return [
        F.col(name)[i].alias(f"{name}_p{round(100 * share)}_ms")
        for i, share in enumerate(PERCENTILES)
    ]

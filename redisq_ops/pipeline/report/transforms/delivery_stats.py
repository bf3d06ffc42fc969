"""Latency, throughput, backlog, workers and retries."""

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
        "queue",
        "from_at",
        "taken",
        "waits",
        *_percentile_columns("wait"),
        "wait_max_ms",
        "runs",
        *_percentile_columns("run"),
        "run_max_ms",
    )


def throughput(
    history: DataFrame, step_ms: int = MINUTE, opening: DataFrame | None = None
) -> DataFrame:
    """Events per queue and step, and the backlog.

    ``grown``: change of open entries (neither done nor dead) from the beginning of the history to
    the end of the step; ``peak``: its maximum in the step, sampled every 10 s, or every minute for
    steps of 5 min and more. ``before``: the minimum number of entries open at the beginning of the
    history, so that the backlog is never negative. ``bad``: deliveries that failed, were lost or
    were rejected; an entry that is dead after a lost lease counts once. ``opening``: what happened
    before the first row (see `open_entries`), if ``history`` does not begin with the history.
    """
    fine_ms = _fine_step(step_ms)
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
            F.sum(_change()).alias("change"),
        )
    )
    if opening is None:
        counted = counted.withColumns({"opened": F.lit(0), "lowest": F.lit(0)})
    else:
        counted = counted.join(F.broadcast(opening), "queue", "left")
    queue = Window.partitionBy("queue")
    grown = F.coalesce("opened", F.lit(0)) + F.sum("change").over(queue.orderBy("fine"))
    lowest = F.least(F.coalesce("lowest", F.lit(0)), F.min("grown").over(queue))
    return (
        counted.withColumn("grown", grown)
        .withColumn("before", F.greatest(F.lit(0), -lowest))
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


def open_entries(history: DataFrame) -> DataFrame:
    """One row per queue: the change of open entries over a history (``opened``) and the minimum of
    that change at the end of a minute (``lowest``)."""
    w = Window.partitionBy("queue")
    return (
        with_entry_counts(history)
        .groupBy("queue", step_start_ms("at", MINUTE).alias("fine"))
        .agg(F.sum(_change()).alias("change"))
        .withColumn("grown", F.sum("change").over(w.orderBy("fine")))
        .groupBy("queue")
        .agg(F.max_by("grown", "fine").alias("opened"), F.min("grown").alias("lowest"))
    )


def _fine_step(step_ms: int) -> int:
    """The step in which the backlog is sampled."""
    return MINUTE if step_ms >= 5 * MINUTE else 10_000 if step_ms >= MINUTE else step_ms


def _change() -> Column:
    """The change of open entries by an event of `with_entry_counts`."""
    return (
        F.when(F.col("event").isin("submitted", "op"), F.col("entries"))
        .when(F.col("event").isin("done", "dead"), -F.col("entries"))
        .otherwise(0)
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


def window_totals(
    history: DataFrame, attempts: DataFrame, accuracy: int | None = None
) -> DataFrame:
    """One row per queue and metric over a whole window: counts of events, percentiles of waits and
    run times (ms), and the number of workers."""
    n, event = F.col("entries"), F.col("event")
    counts = (
        with_entry_counts(history)
        .groupBy("queue")
        .agg(
            *(
                F.sum(F.when(event == e, n).otherwise(0)).cast("double").alias(e)
                for e in ENTRY_EVENTS
            )
        )
    )
    wait = F.when(F.col("since") == "submitted", F.col("wait_ms"))
    run = F.when(F.col("ended") == "done", F.col("run_ms"))
    times = attempts.groupBy("queue").agg(
        _percentiles(wait, accuracy).alias("wait"),
        _percentiles(run, accuracy).alias("run"),
        F.countDistinct("consumer").cast("double").alias("workers"),
    )
    wide = counts.join(times, "queue", "left").select(
        "queue", *ENTRY_EVENTS, *_percentile_columns("wait"), *_percentile_columns("run"), "workers"
    )
    return wide.unpivot("queue", tuple(wide.columns[1:]), "metric", "value")


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

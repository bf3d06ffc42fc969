"""Events by time, and the backlog: entries that are open, neither done nor dead."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql.window import Window

from .delivery_stats import completed_run, first_wait, percentile_columns, percentiles
from .events import ENTRY_EVENTS, stream_position, with_entry_counts
from .time_steps import MINUTE, step_start_ms

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def event_counts(history: DataFrame, step_ms: int = MINUTE) -> DataFrame:
    """Events per queue and ``step`` (ms): the one pass over the history that the other functions
    of this module share.

    ``bad``: deliveries that failed, were lost or were rejected; an entry that is dead after a lost
    lease counts once. ``change``: open entries at the end of the step, compared with its beginning;
    ``highest`` and ``lowest``: the most and the fewest in between, after any single event.
    """
    n, event = F.col("entries"), F.col("event")
    bad = event.isin("failed", "lost") | ((event == "dead") & ~F.col("detail").eqNullSafe("lost"))
    change = (
        F.when(event.isin("submitted", "op"), n).when(event.isin("done", "dead"), -n).otherwise(0)
    )
    in_order = Window.partitionBy("queue", "step").orderBy("at", *stream_position())
    return (
        with_entry_counts(history)
        .withColumn("step", step_start_ms("at", step_ms))
        .withColumn("change", change)
        .withColumn("level", F.sum("change").over(in_order))
        .groupBy("queue", "step")
        .agg(
            *(F.sum(F.when(event == e, n).otherwise(0)).alias(e) for e in ENTRY_EVENTS),
            F.count(F.when(bad, 1)).alias("bad"),
            F.sum("change").alias("change"),
            F.greatest(F.lit(0), F.max("level")).alias("highest"),
            F.least(F.lit(0), F.min("level")).alias("lowest"),
        )
    )


def throughput(
    counts: DataFrame, step_ms: int = MINUTE, opening: DataFrame | None = None
) -> DataFrame:
    """Events per queue and step, and the backlog. ``counts``: `event_counts` of steps that divide
    ``step_ms``.

    ``grown``: change of open entries from the beginning of the history to the end of the step;
    ``peak``: its maximum in the step. ``before``: the minimum number of entries open at the
    beginning of the history, so that the backlog is never negative. ``opening``: what happened
    before the first row (see `open_entries`), if ``counts`` do not begin with the history.
    """
    if opening is None:
        counts = counts.withColumns({"opened": F.lit(0), "fewest": F.lit(0)})
    else:
        counts = counts.join(F.broadcast(opening), "queue", "left").fillna(0, ["opened", "fewest"])
    queue = Window.partitionBy("queue")
    begun = F.col("grown") - F.col("change")
    fewest = F.least("fewest", F.min(begun + F.col("lowest")).over(queue))
    return (
        counts.withColumn("grown", F.col("opened") + F.sum("change").over(queue.orderBy("step")))
        .withColumn("before", F.greatest(F.lit(0), -fewest))
        .groupBy(
            "queue", F.expr(f"timestamp_millis(step - pmod(step, {step_ms}))").alias("from_at")
        )
        .agg(
            *(F.sum(e).alias(e) for e in (*ENTRY_EVENTS, "bad")),
            F.max_by("grown", "step").alias("grown"),
            F.max(begun + F.col("highest")).alias("peak"),
            F.max("before").alias("before"),
        )
        .orderBy("queue", "from_at")
    )


def open_entries(counts: DataFrame) -> DataFrame:
    """One row per queue: the change of open entries over all steps of `event_counts` (``opened``),
    and the minimum of that change after any event (``fewest``)."""
    so_far = F.sum("change").over(Window.partitionBy("queue").orderBy("step"))
    return (
        counts.withColumn("grown", so_far)
        .groupBy("queue")
        .agg(
            F.max_by("grown", "step").alias("opened"),
            F.min(F.col("grown") - F.col("change") + F.col("lowest")).alias("fewest"),
        )
    )


def window_totals(counts: DataFrame, attempts: DataFrame, accuracy: int | None = None) -> DataFrame:
    """One row per queue and metric over all steps of `event_counts`: numbers of events, percentiles
    of waits and run times (ms), and the number of workers."""
    events = counts.groupBy("queue").agg(*(F.sum(e).cast("double").alias(e) for e in ENTRY_EVENTS))
    times = attempts.groupBy("queue").agg(
        percentiles(first_wait(), accuracy).alias("wait"),
        percentiles(completed_run(), accuracy).alias("run"),
        F.countDistinct("consumer").cast("double").alias("workers"),
    )
    wide = events.join(times, "queue", "left").select(
        "queue", *ENTRY_EVENTS, *percentile_columns("wait"), *percentile_columns("run"), "workers"
    )
    return wide.unpivot("queue", tuple(wide.columns[1:]), "metric", "value")

"""Requests that ended, and their critical paths."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from .events import with_entry_counts

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import DataFrame


def requests(history: DataFrame, attempts: DataFrame) -> DataFrame:
    """Requests that ended within the history, the slowest first."""
    submitted = (
        with_entry_counts(history)
        .where((F.col("event") == "submitted") & (F.col("kind") == "request"))
        .groupBy("queue", F.coalesce("request", "id").alias("request"))
        .agg(F.min("at").alias("submitted_at"), F.sum("entries").alias("entries"))
    )
    ended = (
        history.where(F.col("event") == "request-done")
        .groupBy("queue", F.coalesce("request", "id").alias("request"))
        .agg(F.max("at").alias("done_at"))
    )
    delivered = (
        attempts.where(F.col("request").isNotNull())
        .groupBy("queue", "request")
        .agg(
            F.count("*").alias("deliveries"),
            F.count(F.when(F.col("ended").isin("failed", "lost", "dead"), 1)).alias("bad"),
            F.count(F.when(F.col("ended") == "dead", 1)).alias("dead"),
        )
    )
    took = F.unix_millis("done_at") - F.unix_millis("submitted_at")
    return (
        ended.join(submitted, ["queue", "request"])
        .join(delivered, ["queue", "request"], "left")
        .fillna(0, ["deliveries", "bad", "dead"])
        .withColumn("took_ms", took)
        .orderBy(F.desc("took_ms"), "queue", "request")
    )


def critical_paths(attempts: DataFrame) -> DataFrame:
    """The critical path of each request: see `critical_path.critical_path`.

    One row per segment, in order and without gaps. One task reads all deliveries of a request.
    """
    rows = attempts.where(F.col("request").isNotNull()).select(
        "queue",
        "request",
        "id",
        "attempt",
        "consumer",
        "since",
        "ended",
        *(F.unix_millis(f"{name}_at").alias(f"{name}_ms") for name in ("since", "taken", "ended")),
    )
    paths = rows.groupBy("queue", "request").applyInPandas(
        _path_rows,
        "queue string, request string, place int, what string, id string, attempt int, "
        "consumer string, ended string, from_ms long, to_ms long",
    )
    return paths.select(
        "queue",
        "request",
        "place",
        "what",
        "id",
        "attempt",
        "consumer",
        "ended",
        F.timestamp_millis("from_ms").alias("from_at"),
        F.timestamp_millis("to_ms").alias("to_at"),
        (F.col("to_ms") - F.col("from_ms")).alias("took_ms"),
    ).orderBy("queue", "request", "place")


def _path_rows(rows: pd.DataFrame) -> pd.DataFrame:
    import pandas as pd

    from ..critical_path import Attempt, critical_path

    def optional_int(value: Any) -> int | None:
        return None if pd.isna(value) else int(value)

    segments = critical_path(
        Attempt(
            row.id,
            int(row.attempt),
            row.consumer,
            row.since,
            optional_int(row.since_ms),
            int(row.taken_ms),
            row.ended,
            optional_int(row.ended_ms),
        )
        for row in rows.itertuples(index=False)
    )
    queue, request = rows["queue"].iloc[0], rows["request"].iloc[0]
    return pd.DataFrame(
        [
            (queue, request, place, s.what, s.id, s.attempt, s.consumer, s.ended, s.from_ms,
             s.to_ms)
            for place, s in enumerate(segments, 1)
        ],
        columns=["queue", "request", "place", "what", "id", "attempt", "consumer", "ended",
                 "from_ms", "to_ms"],
    )  # fmt: skip

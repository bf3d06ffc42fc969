"""Clients of queues: how many of their entries were delivered, and how fairly."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql.window import Window

from redisq_ops.ops.groups.traits import HOUR

from .events import client_from_id, entry_events
from .time_steps import step_start_ms

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def fairness(
    attempts: DataFrame, submissions: DataFrame, weights: DataFrame | None = None
) -> DataFrame:
    """Fairness between the clients of a queue in each hour, by the first deliveries of their
    entries.

    ``demand``: entries of the client that could have been delivered in the hour: waiting at its
    beginning, or submitted in it. ``fair``: the client's max-min fair share of all deliveries of
    the hour (nobody gets more than the demand; clients that want more get equal shares, times the
    weight). ``ratio`` = taken / fair. ``jain``: Jain's index of the ratios: 1 if shares are fair,
    1/n if one of n clients gets everything. ``weights`` (queue, client, weight) has the weights
    other than 1, which are not in the history. ``submissions``: see `client_submissions`.
    """
    first_deliveries = attempts.where(F.col("client").isNotNull() & (F.col("since") == "submitted"))
    taken = first_deliveries.groupBy(
        "queue", "client", step_start_ms("taken_at", HOUR).alias("step")
    ).agg(F.count("*").alias("taken"), F.percentile("wait_ms", F.lit(0.5)).alias("wait_p50_ms"))
    submitted = submissions.groupBy("queue", "client", step_start_ms("at", HOUR).alias("step")).agg(
        F.count("*").alias("came")
    )
    steps_with_events = submitted.join(taken, ["queue", "client", "step"], "full")
    last = F.max("step").over(Window.partitionBy("queue"))
    steps = (
        steps_with_events.withColumn("last", last)
        .groupBy("queue", "client")
        .agg(F.explode(F.sequence(F.min("step"), F.max("last"), F.lit(HOUR))).alias("step"))
    )
    w = Window.partitionBy("queue", "client").orderBy("step")
    taken_so_far = F.sum("taken").over(w)
    demands = (
        steps.join(steps_with_events, ["queue", "client", "step"], "left")
        .fillna(0, ["came", "taken"])
        .withColumn("demand", F.sum("came").over(w) - taken_so_far + F.col("taken"))
        .where(F.col("demand") > 0)
    )
    if weights is None:
        demands = demands.withColumn("weight", F.lit(1))
    else:
        demands = demands.join(F.broadcast(weights), ["queue", "client"], "left").fillna(
            1, ["weight"]
        )
    per_step = Window.partitionBy("queue", "step")
    by_demand = per_step.orderBy(F.col("demand") / F.col("weight"), "client")
    remaining_weight = (
        F.sum("weight").over(per_step) - F.sum("weight").over(by_demand) + F.col("weight")
    )
    level = (
        F.sum("taken").over(per_step) - F.sum("demand").over(by_demand) + F.col("demand")
    ) / remaining_weight
    ratios = (
        demands.withColumn("level", level)
        # Water filling, the smallest demand first. After the first client whose offer is below its
        # demand, offers only get lower, so the highest such offer is the level for all of these.
        .withColumn(
            "level",
            F.max(F.when(F.col("demand") > F.col("level") * F.col("weight"), F.col("level"))).over(
                per_step
            ),
        )
        .withColumn(
            "fair", F.least(F.col("demand").cast("double"), F.col("level") * F.col("weight"))
        )
        .withColumn("ratio", F.col("taken") / F.nullif("fair", F.lit(0.0)))
    )
    squares = F.nullif(
        F.count("ratio").over(per_step) * F.sum(F.col("ratio") * F.col("ratio")).over(per_step),
        F.lit(0.0),
    )
    return (
        ratios.withColumn("jain", F.pow(F.sum("ratio").over(per_step), 2) / squares)
        .withColumn("share", F.col("taken") / F.nullif(F.sum("taken").over(per_step), F.lit(0)))
        .select(
            "queue",
            F.timestamp_millis("step").alias("from_at"),
            "client",
            F.col("weight").cast("int").alias("weight"),
            "demand",
            "taken",
            "share",
            "fair",
            "ratio",
            "wait_p50_ms",
            "jain",
        )
        .orderBy("queue", "from_at", F.desc("taken"), "client")
    )


def client_submissions(history: DataFrame, client: str | None = None) -> DataFrame:
    """Submissions of entries with their clients, for `fairness`: queue, client, at."""
    client_column = F.col("detail") if client is None else client_from_id(client)
    rows = entry_events(history).where(F.col("event") == "submitted")
    if client is None:
        rows = rows.where(F.col("kind") == "fair")
    return rows.select(
        "queue", F.when(client_column != "", client_column).alias("client"), "at"
    ).dropna()

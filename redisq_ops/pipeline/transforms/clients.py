"""Whose entries were served, and how fairly."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql.window import Window

from redisq_ops.ops.groups.traits import HOUR

from .events import first_group, occurrences
from .steps import ms

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def fairness(
    attempts: DataFrame,
    submissions: DataFrame,
    step_ms: int = HOUR,
    weights: DataFrame | None = None,
) -> DataFrame:
    """How clients of a queue were served in each step, by their entries' first deliveries.

    ``demand`` is what of a client could have been delivered in the step: waiting at its beginning
    or submitted in it. ``fair`` is the client's max-min fair part of all that was delivered
    (nobody gets more than the demand, who wants more gets as much as the others, times the weight),
    ``ratio`` = taken / fair, and ``jain`` Jain's index of the ratios: 1 where the parts are fair,
    1/n where one of n gets all. ``weights`` (queue, client, weight) has those that aren't 1: they
    are not in the history. ``submissions`` is `demanded`'s.
    """
    first = attempts.where(F.col("client").isNotNull() & (F.col("since") == "submitted"))
    taken = first.groupBy("queue", "client", ms("taken_at", step_ms).alias("step")).agg(
        F.count("*").alias("taken"),
        F.percentile("wait_ms", F.lit(0.5)).alias("wait_p50_ms"),
    )
    came = submissions.groupBy("queue", "client", ms("at", step_ms).alias("step")).agg(
        F.count("*").alias("came")
    )
    both = came.join(taken, ["queue", "client", "step"], "full")
    last = F.max("step").over(Window.partitionBy("queue"))
    steps = both.withColumn("last", last).groupBy("queue", "client").agg(
        F.explode(F.sequence(F.min("step"), F.max("last"), F.lit(step_ms))).alias("step")
    )  # fmt: skip
    w = Window.partitionBy("queue", "client").orderBy("step")
    gone = F.sum("taken").over(w)
    here = (
        steps.join(both, ["queue", "client", "step"], "left")
        .fillna(0, ["came", "taken"])
        .withColumn("demand", F.sum("came").over(w) - gone + F.col("taken"))
        .where(F.col("demand") > 0)
    )
    if weights is None:
        here = here.withColumn("weight", F.lit(1))
    else:
        here = here.join(F.broadcast(weights), ["queue", "client"], "left").fillna(1, ["weight"])
    place = Window.partitionBy("queue", "step")
    line = place.orderBy(F.col("demand") / F.col("weight"), "client")
    others = F.sum("weight").over(place) - F.sum("weight").over(line) + F.col("weight")
    level = (F.sum("taken").over(place) - F.sum("demand").over(line) + F.col("demand")) / others
    ratios = (
        here.withColumn("level", level)
        # Filling glasses, the smallest first: who comes after the first that isn't full is offered
        # less than that one was, so the highest offer refused is the level of all of them.
        .withColumn(
            "level",
            F.max(F.when(F.col("demand") > F.col("level") * F.col("weight"), F.col("level"))).over(
                place
            ),
        )
        .withColumn(
            "fair", F.least(F.col("demand").cast("double"), F.col("level") * F.col("weight"))
        )
        .withColumn("ratio", F.col("taken") / F.nullif("fair", F.lit(0.0)))
    )
    squares = F.nullif(
        F.count("ratio").over(place) * F.sum(F.col("ratio") * F.col("ratio")).over(place),
        F.lit(0.0),
    )
    return (
        ratios.withColumn("jain", F.pow(F.sum("ratio").over(place), 2) / squares)
        .withColumn("share", F.col("taken") / F.nullif(F.sum("taken").over(place), F.lit(0)))
        .select(
            "queue", F.timestamp_millis("step").alias("from_at"), "client",
            F.col("weight").cast("int").alias("weight"), "demand", "taken", "share", "fair",
            "ratio", "wait_p50_ms", "jain",
        )
        .orderBy("queue", "from_at", F.desc("taken"), "client")
    )  # fmt: skip


def demanded(history: DataFrame, client: str | None = None) -> DataFrame:
    """Submissions of entries with their clients, as `fairness` takes them: queue, client, at."""
    whose = F.col("detail") if client is None else first_group("id", client)
    rows = occurrences(history).where(F.col("event") == "submitted")
    if client is None:
        rows = rows.where(F.col("kind") == "fair")
    return rows.select("queue", F.when(whose != "", whose).alias("client"), "at").dropna()

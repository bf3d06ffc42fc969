"""What happened to entries, one by one, and the deliveries that it makes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql.window import Window

from redisq_ops.ops.filter.regex import regex

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

ENDS = ("done", "failed", "lost", "dead")
"""events that end a delivery"""
COUNTED = ("submitted", "taken", *ENDS)
MOST_OF_A_CALL = 10_000
"""sub-requests of one ``submitted`` event; the core sends 500 at most"""


def occurrences(history: DataFrame) -> DataFrame:
    """The history's events of entries, one row per entry: a request's submission is one for each
    of its sub-requests. Adds ``id`` and ``number`` of those, and ``order`` to sort by."""
    rows = history
    if "_corrupt" in rows.columns:
        rows = rows.where(F.col("_corrupt").isNull())
    rows = rows.where(F.col("event").isin(*COUNTED))
    ranged = (
        (F.col("event") == "submitted")
        & (F.col("kind") == "request")
        & F.col("detail").rlike(r"^\d{1,18}\|\d{1,18}$")
    )
    first = F.split("detail", r"\|")[0].cast("long")
    last = F.least(F.split("detail", r"\|")[1].cast("long"), first + MOST_OF_A_CALL - 1)
    numbers = F.when(ranged & (last >= first), F.sequence(first, last)).otherwise(
        F.array(F.col("number").cast("long"))
    )
    rows = rows.withColumn("ranged", ranged).withColumn("number", F.explode(numbers))
    of = F.coalesce("request", "id")
    part = F.split("event_id", "-")
    # Within a call entries are lost before they are dead, and that before they are taken again.
    rank = F.array_position(
        F.array(*map(F.lit, ("submitted", "done", "failed", "lost", "dead", "taken"))),
        F.col("event"),
    )
    return (
        rows.withColumn("request", F.when(F.col("ranged"), of).otherwise(F.col("request")))
        .withColumn(
            "id",
            F.when(F.col("ranged"), F.concat_ws("/", of, F.col("number"))).otherwise(F.col("id")),
        )
        .withColumn("at_ms", F.unix_millis("at"))
        .withColumn("order", F.struct("at_ms", part[0].cast("long"), part[1].cast("long"), rank))
        .drop("ranged")
    )


def attempts(history: DataFrame, client: str | None = None) -> DataFrame:
    """One row per delivery: since when the entry waited for it, how it ended, how long it took.

    ``since`` is the event the wait began with (submitted, failed, lost); null, and ``wait_ms``
    too, where the history has it no more, or does not say it (after a replay or a release). A
    delayed entry's wait begins at its ready time. ``run_ms`` of lost deliveries is unknown.
    ``client`` is a regular expression whose first group finds the client in an entry's id; without
    it clients are known of fair queues only.
    """
    w = Window.partitionBy("queue", "id").orderBy("order")
    fresh = F.col("event").isin("submitted", "done", "dead")
    # Of "lost" and "dead" in one call the second says how it ended.
    next_, then = F.lead("event").over(w), F.lead("event", 2).over(w)
    buried = (
        (next_ == "lost") & (then == "dead")
        & (F.lead("event_id").over(w) == F.lead("event_id", 2).over(w))
    )  # fmt: skip
    detail, previous = F.col("detail"), F.lag("event").over(w)
    ready = F.when(
        (previous == "submitted") & (F.col("kind") != "request"),
        F.lag(F.when(detail.rlike(r"^\d{1,15}$"), detail.cast("long"))).over(w),
    )
    since_ms = F.greatest(F.lag("at_ms").over(w), ready)
    known = previous.isin("submitted", "failed", "lost")
    rows = (
        occurrences(history)
        .withColumn("bad", F.sum(F.col("event").isin("failed", "lost").cast("int")).over(w))
        .withColumn("before", F.max(F.when(fresh, F.col("bad"))).over(w))
        .withColumn("since", F.when(known, previous))
        .withColumn("since_ms", F.when(known, since_ms))
        .withColumn("ended", F.when(buried, "dead").when(next_.isin(*ENDS), next_))
        .withColumn("ended_ms", F.when(F.col("ended").isNotNull(), F.lead("at_ms").over(w)))
        .withColumn("own_ms", F.when(next_ == "done", F.lead("run_ms").over(w)))
        .withColumn(
            "reason",
            F.when(buried, "lost").when(next_ == "dead", F.lead("detail").over(w)),
        )
        .where(F.col("event") == "taken")
    )
    unknown = F.col("ended").eqNullSafe("lost") | F.col("reason").eqNullSafe("lost")
    by_id = first_group("id", client) if client else F.lit("")
    whose = F.when(F.col("kind") == "fair", detail) if client is None else by_id
    return rows.select(
        "queue", "kind", "id", "request", "number",
        F.when(whose != "", whose).alias("client"),
        (1 + F.col("bad") - F.coalesce("before", F.lit(0))).cast("int").alias("attempt"),
        F.col("by").alias("consumer"),
        "since", F.timestamp_millis("since_ms").alias("since_at"),
        F.col("at").alias("taken_at"), "ended", F.timestamp_millis("ended_ms").alias("ended_at"),
        "reason",
        F.when(
            F.col("since_ms").isNotNull(), F.greatest(F.lit(0), F.col("at_ms") - F.col("since_ms"))
        ).alias("wait_ms"),
        F.when(~unknown, F.coalesce("own_ms", F.col("ended_ms") - F.col("at_ms"))).alias("run_ms"),
    )  # fmt: skip


def sized(history: DataFrame) -> DataFrame:
    """Events with the number of ``entries`` each is about; no range is taken apart for that.

    Of operators' changes (``op``) there are those after which more entries are open, as after a
    replay, or fewer (``entries`` is negative), as after a purge. What an undo brings back isn't
    known.
    """
    detail, event = F.col("detail"), F.col("event")
    ranged = (
        (event == "submitted")
        & (F.col("kind") == "request")
        & detail.rlike(r"^\d{1,18}\|\d{1,18}$")
    )
    part = F.split("detail", r"\|")
    before, after, number = (F.regexp_extract(detail, _MOVED, n) for n in (1, 2, 3))
    opens = before.isin(*_CLOSED) & after.isin(*_OPEN)
    closes = before.isin(*_OPEN) & after.isin(*_CLOSED)
    moved = F.when(opens, number.cast("long")).when(closes, -number.cast("long"))
    size = (
        F.when(event == "op", moved)
        .when(ranged, part[1].cast("long") - part[0].cast("long") + 1)
        .otherwise(1)
    )
    rows = readable(history).where(event.isin(*COUNTED, "op"))
    return rows.withColumn("entries", size).where(F.col("entries").isNotNull())


_MOVED = r"^[^|]*\|(\w+)\|(\w+)\|(\d{1,15})$"
_OPEN, _CLOSED = ("waiting", "pending", "delayed"), ("dead", "done", "trash")


def first_group(column: str, pattern: str) -> Column:
    """What a user's expression finds; RE2, as everywhere: Java's own engine may never end."""
    found = regex(pattern)

    def group(text: str | None) -> str | None:
        return None if text is None else found.first_group(text)

    return F.udf(group, "string", useArrow=True)(column)


def readable(rows: DataFrame) -> DataFrame:
    return rows.where(F.col("_corrupt").isNull()) if "_corrupt" in rows.columns else rows

"""History events of entries, and the deliveries they describe."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql.window import Window

from redisq_ops.ops.filter.regex import regex

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

ENDS = ("done", "failed", "lost", "dead")
"""events that end a delivery"""
ENTRY_EVENTS = ("submitted", "taken", *ENDS)
MAX_EXPANDED = 10_000
"""limit on sub-requests of one ``submitted`` event; the core writes at most 500"""


def entry_events(history: DataFrame) -> DataFrame:
    """The history's events of entries, one row per entry.

    The submission of a request becomes one row per sub-request, with ``id`` and ``number``. Adds
    ``order``, the sort key of an entry's events.
    """
    rows = readable(history).where(F.col("event").isin(*ENTRY_EVENTS))
    ranged = _submits_range()
    first = F.split("detail", r"\|")[0].cast("long")
    last = F.least(F.split("detail", r"\|")[1].cast("long"), first + MAX_EXPANDED - 1)
    numbers = F.when(ranged & (last >= first), F.sequence(first, last)).otherwise(
        F.array(F.col("number").cast("long"))
    )
    rows = rows.withColumn("ranged", ranged).withColumn("number", F.explode(numbers))
    request_id = F.coalesce("request", "id")
    # Within one call, entries are lost before they are dead, and dead before they are taken again.
    rank = F.array_position(
        F.array(*map(F.lit, ("submitted", "done", "failed", "lost", "dead", "taken"))),
        F.col("event"),
    )
    return (
        rows.withColumn("request", F.when(F.col("ranged"), request_id).otherwise(F.col("request")))
        .withColumn(
            "id",
            F.when(F.col("ranged"), F.concat_ws("/", request_id, F.col("number"))).otherwise(
                F.col("id")
            ),
        )
        .withColumn("at_ms", F.unix_millis("at"))
        .withColumn("order", F.struct("at_ms", *stream_position(), rank))
        .drop("ranged")
    )


def attempts(history: DataFrame, client: str | None = None) -> DataFrame:
    """One row per delivery: when the entry's wait for it began, how it ended, and how long it took.

    ``since`` is the event that began the wait (submitted, failed, lost). It and ``wait_ms`` are
    null if the history has no such event: it was trimmed, or a replay or a release began the wait.
    A delayed entry's wait begins at its ready time. ``run_ms`` of lost deliveries is unknown.
    ``client`` is a regular expression whose first group is the client in an entry's id; without it
    clients are known for fair queues only.
    """
    w = Window.partitionBy("queue", "id").orderBy("order")
    resets_attempts = F.col("event").isin("submitted", "done", "dead")
    # If "lost" and "dead" are in one call, the delivery ended dead.
    next_, second_next = F.lead("event").over(w), F.lead("event", 2).over(w)
    dead_after_lost = (
        (next_ == "lost")
        & (second_next == "dead")
        & (F.lead("event_id").over(w) == F.lead("event_id", 2).over(w))
    )
    detail, previous = F.col("detail"), F.lag("event").over(w)
    ready = F.when(
        (previous == "submitted") & (F.col("kind") != "request"),
        F.lag(F.when(detail.rlike(r"^\d{1,15}$"), detail.cast("long"))).over(w),
    )
    since_ms = F.greatest(F.lag("at_ms").over(w), ready)
    known = previous.isin("submitted", "failed", "lost")
    rows = (
        entry_events(history)
        .withColumn("bad", F.sum(F.col("event").isin("failed", "lost").cast("int")).over(w))
        .withColumn("before", F.max(F.when(resets_attempts, F.col("bad"))).over(w))
        .withColumn("since", F.when(known, previous))
        .withColumn("since_ms", F.when(known, since_ms))
        .withColumn("ended", F.when(dead_after_lost, "dead").when(next_.isin(*ENDS), next_))
        .withColumn("ended_ms", F.when(F.col("ended").isNotNull(), F.lead("at_ms").over(w)))
        .withColumn("own_ms", F.when(next_ == "done", F.lead("run_ms").over(w)))
        .withColumn(
            "reason",
            F.when(dead_after_lost, "lost").when(next_ == "dead", F.lead("detail").over(w)),
        )
        .where(F.col("event") == "taken")
    )
    unknown = F.col("ended").eqNullSafe("lost") | F.col("reason").eqNullSafe("lost")
    by_id = client_from_id(client) if client else F.lit("")
    client_column = F.when(F.col("kind") == "fair", detail) if client is None else by_id
    return rows.select(
        "queue",
        "kind",
        "id",
        "request",
        "number",
        F.when(client_column != "", client_column).alias("client"),
        (1 + F.col("bad") - F.coalesce("before", F.lit(0))).cast("int").alias("attempt"),
        F.col("by").alias("consumer"),
        "since",
        F.timestamp_millis("since_ms").alias("since_at"),
        F.col("at").alias("taken_at"),
        "ended",
        F.timestamp_millis("ended_ms").alias("ended_at"),
        "reason",
        F.when(
            F.col("since_ms").isNotNull(), F.greatest(F.lit(0), F.col("at_ms") - F.col("since_ms"))
        ).alias("wait_ms"),
        F.when(~unknown, F.coalesce("own_ms", F.col("ended_ms") - F.col("at_ms"))).alias("run_ms"),
    )


def stream_position() -> tuple[Column, Column]:
    """The two numbers of an event's id, by which a stream is ordered."""
    part = F.split("event_id", "-")
    return part[0].cast("long"), part[1].cast("long")


def with_entry_counts(history: DataFrame) -> DataFrame:
    """Events with the number of ``entries`` that each one concerns, without expanding ranges.

    Includes operators' changes (``op``) after which more entries are open, such as a replay, or
    fewer (``entries`` is negative), such as a purge. The effect of an undo is unknown.
    """
    detail, event = F.col("detail"), F.col("event")
    part = F.split("detail", r"\|")
    before, after, number = (F.regexp_extract(detail, _MOVED, n) for n in (1, 2, 3))
    opens = before.isin(*_CLOSED) & after.isin(*_OPEN)
    closes = before.isin(*_OPEN) & after.isin(*_CLOSED)
    delta = F.when(opens, number.cast("long")).when(closes, -number.cast("long"))
    size = (
        F.when(event == "op", delta)
        .when(
            _submits_range(),
            F.greatest(F.lit(1), part[1].cast("long") - part[0].cast("long") + 1),
        )
        .otherwise(1)
    )
    rows = readable(history).where(event.isin(*ENTRY_EVENTS, "op"))
    return rows.withColumn("entries", size).where(F.col("entries").isNotNull())


_MOVED = r"^[^|]*\|(\w+)\|(\w+)\|(\d{1,15})$"
_OPEN, _CLOSED = ("waiting", "pending", "delayed"), ("dead", "done", "trash")


def _submits_range() -> Column:
    """Whether an event is the submission of sub-requests FIRST|LAST of a request."""
    return (
        (F.col("event") == "submitted")
        & (F.col("kind") == "request")
        & F.col("detail").rlike(r"^\d{1,18}\|\d{1,18}$")
    )


def changes(history: DataFrame) -> DataFrame:
    """Operators' changes, one row each: ``change`` is the change of state of ``entries``, or a
    setting's new value; ``op`` is the operation's id."""
    part = F.split("detail", r"\|", 4)
    first, second, last = part[1], part[2], part[3]
    size = F.when(last.rlike(r"^\d{1,15}$"), last.cast("long"))
    text = (
        F.when(first == "set", F.concat(second, F.lit(" = "), last))
        .when(first == "undo", F.concat(F.lit("undo "), second))
        .when(second == "edit", F.concat(F.lit("edit "), first))
        .when(first == "move", F.concat(F.lit("transfer "), second))
        .otherwise(F.concat(first, F.lit(" → "), second))
    )
    return (
        readable(history)
        .where((F.col("event") == "op") & (F.size(part) == 4))
        .select(
            "queue",
            "at",
            part[0].alias("op"),
            text.alias("change"),
            F.when(first != "set", size).alias("entries"),
        )
        .orderBy("queue", "at", "op")
    )


def client_from_id(pattern: str) -> Column:
    """The first group of a user's regular expression in an id, by RE2: Java's engine may not
    terminate."""
    compiled = regex(pattern)

    def find(text: str | None) -> str | None:
        return None if text is None else compiled.first_group(text)

    return F.udf(find, "string", useArrow=True)("id")


def readable(rows: DataFrame) -> DataFrame:
    """Rows without those that could not be read."""
    return rows.where(F.col("_corrupt").isNull()) if "_corrupt" in rows.columns else rows

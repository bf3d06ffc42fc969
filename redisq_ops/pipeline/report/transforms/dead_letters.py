"""Dead letters grouped by error, and what the entries of a group have in common."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql.window import Window

from redisq_ops.core.engine.queue_classes import foreign_classes
from redisq_ops.ops.groups.fingerprint import normalized
from redisq_ops.ops.groups.traits import (
    DEPTH,
    ENVELOPE_DEPTH,
    ENVELOPE_ERRORS,
    HOUR,
    SUPPORT,
    payload_values,
    share_difference,
)
from redisq_ops.ops.redaction import NO_REDACTION, Redaction

from ...source.redaction import redact_text
from .events import readable
from .time_steps import step_start_ms

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_REASONS = ("failed", "lost", "rejected")
MAX_TRAITS = 5
"""traits of a group that are kept"""


def dead_groups(dead: DataFrame, redaction: Redaction = NO_REDACTION) -> DataFrame:
    """Dead letters by error, the largest group of each queue first.

    Groups are those of `redisq dlq groups`. Errors are redacted before they are cut.
    """
    latest = F.struct("since_at", "id")
    rows = readable(dead)
    reasons = [F.count(F.when(F.col("reason") == r, 1)).alias(r) for r in _REASONS]
    groups = rows.groupBy("queue", "fingerprint").agg(
        F.count("*").alias("entries"),
        *reasons,
        F.count_distinct("client").alias("clients"),
        F.count_distinct("request").alias("requests"),
        F.min("since_at").alias("first_at"),
        F.max("since_at").alias("last_at"),
        F.max_by("id", latest).alias("sample"),
        F.max_by("error_type", latest).alias("error_type"),
        F.max_by("error", latest).alias("message"),
        F.max_by("reason", latest).alias("reason"),
    )
    queue_total = F.sum("entries").over(Window.partitionBy("queue"))
    return (
        groups.withColumn("share", F.col("entries") / queue_total)
        .withColumn("error_type", redact_text(F.col("error_type"), redaction))
        .withColumn("message", redact_text(F.col("message"), redaction))
        .withColumn("message", F.substring("message", 1, 1000))
        .withColumn("form", F.coalesce(_forms("message"), "reason", F.lit("no error known")))
        .select(
            "queue",
            "fingerprint",
            "entries",
            "share",
            *_REASONS,
            "clients",
            "requests",
            "first_at",
            "last_at",
            "sample",
            "error_type",
            "form",
            "message",
        )
        .orderBy("queue", F.desc("entries"), F.desc("last_at"), "fingerprint")
    )


def contrasts(dead: DataFrame, payloads: DataFrame | None = None) -> DataFrame:
    """Values that are more frequent in a group than in the rest of the queue's dead letters.

    As in `redisq dlq group`: shares are compared by the lower bound of their share_difference
    (``surely``), and the `MAX_TRAITS` values with the highest bound are kept. A queue with one
    group has no rows: there is nothing to compare with. ``payloads``: queue, fingerprint, id,
    field, value, from `payload_fields`.
    """
    rows = readable(dead)
    request = F.when(F.instr("id", "/") > 0, F.regexp_extract("id", r"^(.*)/", 1))
    fields = {
        "client": F.col("client"),
        "request": F.coalesce("request", request),
        "consumer": F.col("consumer"),
        "reason": F.col("reason"),
        "hour": step_start_ms("since_at", HOUR).cast("string"),
    }
    pairs = F.explode(
        F.array(
            *(F.struct(F.lit(name).alias("field"), v.alias("value")) for name, v in fields.items())
        )
    )
    sizes = rows.groupBy("queue", "fingerprint").agg(F.count("*").alias("n"))
    counted = (
        rows.select("queue", "fingerprint", pairs.alias("pair"))
        .select("queue", "fingerprint", "pair.*")
        .where(F.col("value").isNotNull())
        .groupBy("queue", "fingerprint", "field", "value")
        .agg(F.count("*").alias("k"))
        .join(sizes, ["queue", "fingerprint"])
    )
    totals = sizes.groupBy("queue").agg(F.sum("n").alias("all_n"))
    counted = counted.join(totals, ["queue"])
    if payloads is not None:
        counted = counted.unionByName(_counted_payloads(payloads))
    of_all = Window.partitionBy("queue", "field", "value")
    candidates = (
        counted.withColumn("all_k", F.sum("k").over(of_all))
        .where(F.col("k") >= SUPPORT)
        .withColumn("m", F.col("all_n") - F.col("n"))
        .where(F.col("m") > 0)
        .withColumn("surely", _difference_bound("k", "n", F.col("all_k") - F.col("k"), "m"))
        .withColumn("share", F.col("k") / F.col("n"))
        .withColumn("rest", (F.col("all_k") - F.col("k")) / F.col("m"))
        .where(F.col("surely") > 0)
    )
    best = Window.partitionBy("queue", "fingerprint").orderBy(
        F.desc("surely"), F.desc("share"), "field", "value"
    )
    return (
        candidates.withColumn("place", F.row_number().over(best))
        .where(F.col("place") <= MAX_TRAITS)
        .select("queue", "fingerprint", "place", "field", "value", "share", "rest", "surely")
        .orderBy("queue", "fingerprint", "place")
    )


def payload_fields(dead: DataFrame, redaction: Redaction = NO_REDACTION) -> DataFrame:
    """Fields of JSON payloads, redacted: queue, fingerprint, id, field, value (as text)."""
    rows = readable(dead).where(F.col("payload").isNotNull())
    wrapped = [kind for kind, made in foreign_classes().items() if made.enveloped]
    paths = F.explode(_payload_leaves(redaction, "payload", F.col("kind").isin(*wrapped)))
    return rows.select("queue", "fingerprint", "id", paths.alias("field", "value"))


def _counted_payloads(fields: DataFrame) -> DataFrame:
    sizes = fields.groupBy("queue", "fingerprint").agg(F.count_distinct("id").alias("n"))
    totals = sizes.groupBy("queue").agg(F.sum("n").alias("all_n"))
    return (
        fields.groupBy("queue", "fingerprint", "field", "value")
        .agg(F.count("*").alias("k"))
        .join(sizes, ["queue", "fingerprint"])
        .join(totals, ["queue"])
        .select("queue", "fingerprint", "field", "value", "k", "n", "all_n")
    )


# Python functions that run in Spark's workers, on Arrow batches.


def _forms(column: str) -> Column:
    def normalised(message: str | None) -> str | None:
        return None if message is None else normalized(message)

    return F.udf(normalised, "string", useArrow=True)(column)


def _difference_bound(*columns: str | Column) -> Column:
    def bound(k: int, n: int, other: int, m: int) -> float:
        return share_difference(k, n, other, m)

    return F.udf(bound, "double", useArrow=True)(*columns)


def _payload_leaves(redaction: Redaction, *columns: str | Column) -> Column:
    def find_leaves(payload: bytes, foreign: bool) -> dict[str, str]:
        limits = (ENVELOPE_DEPTH, ENVELOPE_ERRORS) if foreign else (DEPTH, ())
        leaves_found = payload_values(bytes(payload), redaction, *limits)
        return {field: str(value) for field, value in leaves_found.items()}

    return F.udf(find_leaves, "map<string,string>", useArrow=True)(*columns)

"""Dead letters by what went wrong, and what a group has in common."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql.window import Window

from redisq_ops.core.engine.queue_classes import foreign_class
from redisq_ops.core.engine.queue_types import LAYOUTS
from redisq_ops.core.model.entry import Entry, Failure
from redisq_ops.ops.groups.fingerprint import fingerprint, normal
from redisq_ops.ops.groups.traits import DEPTH, ENVELOPE, HOUR, SAID, SUPPORT, difference, told
from redisq_ops.ops.redaction import NOTHING, Redaction

from ..redaction import redacted_text
from .events import readable
from .steps import ms

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_REASONS = ("failed", "lost", "rejected")


def fingerprinted(dead: DataFrame) -> DataFrame:
    """The same rows with their ``fingerprint``, where the table does not have it already."""
    if "fingerprint" in dead.columns:
        return dead
    return dead.withColumn("fingerprint", _fingerprints("error_type", "error", "reason"))


def dead_groups(dead: DataFrame, redaction: Redaction = NOTHING) -> DataFrame:
    """Dead letters by what went wrong, the largest group of each queue first; as `redisq dlq
    groups` has them, to the same fingerprints. Errors are redacted before they are cut."""
    latest = F.struct("since_at", "id")
    rows = readable(fingerprinted(dead))
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
    all_ = F.sum("entries").over(Window.partitionBy("queue"))
    return (
        groups.withColumn("share", F.col("entries") / all_)
        .withColumn("error_type", redacted_text(F.col("error_type"), redaction))
        .withColumn("message", redacted_text(F.col("message"), redaction))
        .withColumn("message", F.substring("message", 1, 1000))
        .withColumn("form", F.coalesce(_forms("message"), "reason", F.lit("no error known")))
        .select(
            "queue", "fingerprint", "entries", "share", *_REASONS, "clients", "requests",
            "first_at", "last_at", "sample", "error_type", "form", "message",
        )
        .orderBy("queue", F.desc("entries"), F.desc("last_at"), "fingerprint")
    )  # fmt: skip


def contrasts(dead: DataFrame, most: int = 5, payloads: DataFrame | None = None) -> DataFrame:
    """What the entries of a group have more often than the rest of the queue's dead letters.

    As `redisq dlq group` tells it: shares are compared by the lower bound of their difference
    (`surely`), and of the values of a group the `most` surest are kept. A queue with one group
    only has no rows: there is nothing to compare with.
    ``payloads``: queue, fingerprint, field, value as `payload_fields` makes them, with ``looked``,
    how many payloads of the group were readable.
    """
    rows = readable(fingerprinted(dead))
    request = F.when(F.instr("id", "/") > 0, F.regexp_extract("id", r"^(.*)/", 1))
    fields = {
        "client": F.col("client"), "request": F.coalesce("request", request),
        "consumer": F.col("consumer"), "reason": F.col("reason"),
        "hour": ms("since_at", HOUR).cast("string"),
    }  # fmt: skip
    pairs = F.explode(
        F.array(*(F.struct(F.lit(name).alias("field"), v.alias("value"))
                  for name, v in fields.items()))
    )  # fmt: skip
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
    found = (
        counted.withColumn("all_k", F.sum("k").over(of_all))
        .where(F.col("k") >= SUPPORT)
        .withColumn("m", F.col("all_n") - F.col("n"))
        .where(F.col("m") > 0)
        .withColumn("surely", _surely("k", "n", F.col("all_k") - F.col("k"), "m"))
        .withColumn("share", F.col("k") / F.col("n"))
        .withColumn("rest", (F.col("all_k") - F.col("k")) / F.col("m"))
        .where(F.col("surely") > 0)
    )
    best = Window.partitionBy("queue", "fingerprint").orderBy(
        F.desc("surely"), F.desc("share"), "field", "value"
    )
    return (
        found.withColumn("place", F.row_number().over(best))
        .where(F.col("place") <= most)
        .select("queue", "fingerprint", "place", "field", "value", "share", "rest", "surely")
        .orderBy("queue", "fingerprint", "place")
    )


def payload_fields(dead: DataFrame, redaction: Redaction = NOTHING) -> DataFrame:
    """The fields of payloads that are JSON, as they may be shown: queue, fingerprint, id, field,
    value (as text)."""
    rows = readable(fingerprinted(dead)).where(F.col("payload").isNotNull())
    enveloped = [kind for kind in LAYOUTS if (found := foreign_class(kind)) and found.enveloped]
    paths = F.explode(_paths(redaction, "payload", F.col("kind").isin(*enveloped)))
    return rows.select("queue", "fingerprint", "id", paths.alias("field", "value"))


def _counted_payloads(fields: DataFrame) -> DataFrame:
    looked = fields.groupBy("queue", "fingerprint").agg(F.count_distinct("id").alias("n"))
    totals = looked.groupBy("queue").agg(F.sum("n").alias("all_n"))
    return (
        fields.groupBy("queue", "fingerprint", "field", "value")
        .agg(F.count("*").alias("k"))
        .join(looked, ["queue", "fingerprint"])
        .join(totals, ["queue"])
        .select("queue", "fingerprint", "field", "value", "k", "n", "all_n")
    )


# Python's own, run in Spark's workers; rows come and go in Arrow batches.


def _fingerprints(*columns: str) -> Column:
    def named(type: str | None, message: str | None, reason: str | None) -> str:
        error = None if type is None else Failure(type, message or "")
        return fingerprint(Entry("", "dead", reason=reason, error=error))

    return F.udf(named, "string", useArrow=True)(*columns)


def _forms(column: str) -> Column:
    def folded(message: str | None) -> str | None:
        return None if message is None else normal(message)

    return F.udf(folded, "string", useArrow=True)(column)


def _surely(*columns: str | Column) -> Column:
    def bound(k: int, n: int, other: int, m: int) -> float:
        return difference(k, n, other, m)

    return F.udf(bound, "double", useArrow=True)(*columns)


def _paths(redaction: Redaction, *columns: str | Column) -> Column:
    def leaves(payload: bytes, foreign: bool) -> dict[str, str]:
        how = (ENVELOPE, SAID) if foreign else (DEPTH, ())
        found = told(bytes(payload), redaction, *how)
        return {field: str(value) for field, value in found.items()}

    return F.udf(leaves, "map<string,string>", useArrow=True)(*columns)

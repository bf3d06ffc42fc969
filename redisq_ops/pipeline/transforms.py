"""What the history and the dead letters say, as tables: each a function of DataFrames alone.

Nothing here reads or writes, and nothing needs more than Spark Connect has. Hours and minutes are
those of UTC whatever the session's zone is. ``accuracy``: percentiles are exact without one, and
with one the rank is off by 1/accuracy of all values at most, in bounded memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F
from pyspark.sql.window import Window

from redisq_ops.core.values import Entry, Failure
from redisq_ops.ops.contrast import (
    COMMON,
    DEPTH,
    ENVELOPE,
    HOUR,
    SAID,
    SUPPORT,
    difference,
    told,
)
from redisq_ops.ops.fingerprint import fingerprint, normal
from redisq_ops.ops.redaction import NOTHING, Redaction

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import Column, DataFrame

MINUTE = 60_000
ENDS = ("done", "failed", "lost", "dead")
"""events that end a delivery"""
COUNTED = ("submitted", "taken", *ENDS)
MOST_OF_A_CALL = 10_000
"""sub-requests of one ``submitted`` event; the core sends 500 at most"""
PERCENTILES = (0.5, 0.95, 0.99)
THRESHOLD = 3.5
"""robust standard deviations (Iglewicz and Hoaglin, "How to Detect and Handle Outliers", 1993)"""
BASELINE = 30
"""buckets there must be before any of them is called unusual"""
FLOORS = {"submitted": 5.0, "done": 5.0, "failed": 5.0, "wait_ms": 10.0, "run_ms": 10.0}
"""metric -> how far from the median something is before it is worth a word"""
PART = 0.5
"""of the median that it is away, at least"""
JOINED = 5
"""steps between two unusual ones that make them two spans"""
SAMPLES = 5
"""entries of a bucket whose wait or run time tell something of it"""


# --- events and attempts -----------------------------------------------------------------------


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
    by_id = F.regexp_extract("id", client, 1) if client else F.lit("")
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


# --- latency, throughput, retries --------------------------------------------------------------


def latency(attempts: DataFrame, step_ms: int = HOUR, accuracy: int | None = None) -> DataFrame:
    """Waits for a first delivery and run times of deliveries that ended done, per queue and step,
    by the time of delivery."""
    wait = F.when(F.col("since") == "submitted", F.col("wait_ms"))
    run = F.when(F.col("ended") == "done", F.col("run_ms"))
    found = (
        attempts.groupBy("queue", _step("taken_at", step_ms).alias("from_at"))
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
    return found.select(
        "queue", "from_at", "taken",
        "waits", *_spread("wait"), "wait_max_ms", "runs", *_spread("run"), "run_max_ms",
    )  # fmt: skip


def throughput(history: DataFrame, step_ms: int = MINUTE) -> DataFrame:
    """Events per queue and step. ``grown``: how many entries more than at the beginning of the
    history are neither done nor dead at the step's end, as far as it says; ``peak``: at most in
    it, looked at every 10 s, of steps of 5 min and more every minute. ``bad``: deliveries that
    failed, were lost or rejected; who is buried after a lost lease is one of them, not two."""
    fine_ms = MINUTE if step_ms >= 5 * MINUTE else 10_000 if step_ms >= MINUTE else step_ms
    n = F.col("entries")
    bad = F.col("event").isin("failed", "lost") | (
        (F.col("event") == "dead") & ~F.col("detail").eqNullSafe("lost")
    )
    counted = (
        _sized(history)
        .groupBy("queue", _ms("at", fine_ms).alias("fine"))
        .agg(
            *(F.sum(F.when(F.col("event") == e, n).otherwise(0)).alias(e) for e in COUNTED),
            F.count(F.when(bad, 1)).alias("bad"),
        )
    )
    so_far = Window.partitionBy("queue").orderBy("fine")
    more = F.col("submitted") - F.col("done") - F.col("dead")
    return (
        counted.withColumn("grown", F.sum(more).over(so_far))
        .groupBy(
            "queue", F.expr(f"timestamp_millis(fine - pmod(fine, {step_ms}))").alias("from_at")
        )
        .agg(
            *(F.sum(e).alias(e) for e in (*COUNTED, "bad")),
            F.max_by("grown", "fine").alias("grown"),
            F.max("grown").alias("peak"),
        )
        .orderBy("queue", "from_at")
    )


def retries(attempts: DataFrame) -> DataFrame:
    """How deliveries end, by which attempt they are. ``unsaid``: not yet, or released."""
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


# --- fairness ----------------------------------------------------------------------------------


def fairness(attempts: DataFrame, submissions: DataFrame, step_ms: int = HOUR) -> DataFrame:
    """How clients of a queue were served in each step, by their entries' first deliveries.

    ``demand`` is what of a client could have been delivered in the step: waiting at its beginning
    or submitted in it. ``fair`` is the client's max-min fair part of all that was delivered
    (nobody gets more than the demand, who wants more gets the same), ``ratio`` = taken / fair, and
    ``jain`` Jain's index of the ratios: 1 where the parts are fair, 1/n where one of n gets all.
    Weights are not in the history: clients count alike. ``submissions`` is `demanded`'s.
    """
    first = attempts.where(F.col("client").isNotNull() & (F.col("since") == "submitted"))
    taken = first.groupBy("queue", "client", _ms("taken_at", step_ms).alias("step")).agg(
        F.count("*").alias("taken"),
        F.percentile("wait_ms", F.lit(0.5)).alias("wait_p50_ms"),
    )
    came = submissions.groupBy("queue", "client", _ms("at", step_ms).alias("step")).agg(
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
    place = Window.partitionBy("queue", "step")
    line = place.orderBy("demand", "client")
    others = F.count("*").over(place) - F.row_number().over(line) + 1
    level = (F.sum("taken").over(place) - F.sum("demand").over(line) + F.col("demand")) / others
    ratios = (
        here.withColumn("level", level)
        # Filling glasses, the smallest first: who comes after the first that isn't full is offered
        # less than that one was, so the highest offer refused is the level of all of them.
        .withColumn(
            "level", F.max(F.when(F.col("demand") > F.col("level"), F.col("level"))).over(place)
        )
        .withColumn("fair", F.least(F.col("demand").cast("double"), F.col("level")))
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
            "queue", F.timestamp_millis("step").alias("from_at"), "client", "demand", "taken",
            "share", "fair", "ratio", "wait_p50_ms", "jain",
        )
        .orderBy("queue", "from_at", F.desc("taken"), "client")
    )  # fmt: skip


def demanded(history: DataFrame, client: str | None = None) -> DataFrame:
    """Submissions of entries with their clients, as `fairness` takes them: queue, client, at."""
    whose = F.col("detail") if client is None else F.regexp_extract("id", client, 1)
    rows = occurrences(history).where(F.col("event") == "submitted")
    if client is None:
        rows = rows.where(F.col("kind") == "fair")
    return rows.select("queue", F.when(whose != "", whose).alias("client"), "at").dropna()


# --- anomalies ---------------------------------------------------------------------------------


def anomalies(
    throughput: DataFrame,
    latency: DataFrame,
    step_ms: int = MINUTE,
    threshold: float = THRESHOLD,
) -> DataFrame:
    """Spans of steps that are far from a queue's usual: one row per metric and span.

    Far: the robust z = 0.6745 (value − median) / MAD is `threshold` or more, and the value is
    `FLOORS` and `PART` of the median or more away; steps a little apart are one span. Where more
    than half of the values are the same, and MAD is 0, z = (value − median) / (1.2533 mean absolute
    deviation). Of failures, waits and runs only what is above, of completions only what is
    below; steps without events count as 0. Nothing is said of fewer than `BASELINE` steps. Both
    tables are of steps of ``step_ms``.
    """
    counts = throughput.withColumn("failed", F.col("bad"))
    by_metric = _long(counts, ("submitted", "done", "failed"))
    at = F.unix_millis("from_at")
    grid = throughput.groupBy("queue").agg(
        F.explode(F.sequence(F.min(at), F.max(at), F.lit(step_ms))).alias("step")
    )
    names = F.explode(F.array(*map(F.lit, ("submitted", "done", "failed")))).alias("metric")
    dense = (
        grid.select("queue", "step", names)
        .join(by_metric, ["queue", "step", "metric"], "left")
        .fillna(0.0, ["value"])
    )
    times = latency.select(
        "queue", "from_at",
        F.when(F.col("waits") >= SAMPLES, F.col("wait_p95_ms")).alias("wait_ms"),
        F.when(F.col("runs") >= SAMPLES, F.col("run_p95_ms")).alias("run_ms"),
    )  # fmt: skip
    values = dense.unionByName(_long(times, ("wait_ms", "run_ms")))
    usual = values.groupBy("queue", "metric").agg(
        F.percentile("value", F.lit(0.5)).alias("median"), F.count("*").alias("steps")
    )
    away = values.join(usual, ["queue", "metric"]).withColumn(
        "away", F.col("value") - F.col("median")
    )
    spread = away.groupBy("queue", "metric").agg(
        F.percentile(F.abs("away"), F.lit(0.5)).alias("mad"), F.avg(F.abs("away")).alias("mean")
    )
    floor = reduce(
        lambda so_far, item: so_far.when(F.col("metric") == item[0], item[1]),
        list(FLOORS.items())[1:],
        F.when(F.col("metric") == "submitted", FLOORS["submitted"]),
    )
    z = F.when(F.col("mad") > 0, 0.6745 * F.col("away") / F.col("mad")).otherwise(
        F.col("away") / F.nullif(1.2533 * F.col("mean"), F.lit(0.0))
    )
    right_way = (
        F.when(F.col("metric") == "submitted", True)
        .when(F.col("metric") == "done", F.col("z") < 0)
        .otherwise(F.col("z") > 0)
    )
    far = (
        away.join(spread, ["queue", "metric"])
        .withColumn("z", z)
        .where(
            (F.col("steps") >= BASELINE)
            & (F.abs("z") >= threshold)
            & (F.abs("away") >= F.greatest(floor, PART * F.col("median")))
            & right_way
        )
        .withColumn("side", F.when(F.col("z") > 0, "above").otherwise("below"))
    )
    w = Window.partitionBy("queue", "metric", "side").orderBy("step")
    apart = F.col("step") - F.lag("step").over(w) > JOINED * step_ms
    spans = far.withColumn("apart", F.coalesce(apart, F.lit(False)).cast("int")).withColumn(
        "span", F.sum("apart").over(w)
    )
    return (
        spans.groupBy("queue", "metric", "side", "span")
        .agg(
            F.timestamp_millis(F.min("step")).alias("from_at"),
            F.timestamp_millis(F.max("step") + step_ms).alias("to_at"),
            F.max_by("value", F.abs("z")).alias("value"),
            F.first("median").alias("median"),
            F.first("mad").alias("mad"),
            F.max_by("z", F.abs("z")).alias("z"),
        )
        .select(
            "queue", "metric", "side", "from_at", "to_at", "value", "median", "mad", "z",
        )
        .orderBy("from_at", "queue", "metric")
    )  # fmt: skip


# --- dead letters ------------------------------------------------------------------------------


def fingerprinted(dead: DataFrame) -> DataFrame:
    """The same rows with their ``fingerprint``, where the table does not have it already."""
    if "fingerprint" in dead.columns:
        return dead
    return dead.withColumn("fingerprint", _fingerprints("error_type", "error", "reason"))


def dead_groups(dead: DataFrame) -> DataFrame:
    """Dead letters by what went wrong, the largest group of each queue first; as `redisq dlq
    groups` has them, to the same fingerprints."""
    latest = F.struct("since_at", "id")
    rows = _readable(fingerprinted(dead))
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
        F.max_by(F.substring("error", 1, 1000), latest).alias("message"),
        F.max_by("reason", latest).alias("reason"),
    )
    all_ = F.sum("entries").over(Window.partitionBy("queue"))
    return (
        groups.withColumn("share", F.col("entries") / all_)
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
    only has nothing to be compared with: ``rest`` is null, and told is what half of them have.
    ``payloads``: queue, fingerprint, field, value as `payload_fields` makes them, with ``looked``,
    how many payloads of the group were readable.
    """
    rows = _readable(fingerprinted(dead))
    request = F.when(F.instr("id", "/") > 0, F.regexp_extract("id", r"^(.*)/", 1))
    fields = {
        "client": F.col("client"), "request": F.coalesce("request", request),
        "consumer": F.col("consumer"), "reason": F.col("reason"),
        "hour": _ms("since_at", HOUR).cast("string"),
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
        .withColumn("surely", _surely("k", "n", F.col("all_k") - F.col("k"), "m"))
        .withColumn("share", F.col("k") / F.col("n"))
        .withColumn("rest", (F.col("all_k") - F.col("k")) / F.nullif("m", F.lit(0)))
        .where((F.col("surely") > 0) | ((F.col("m") == 0) & (F.col("share") >= COMMON)))
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
    rows = _readable(fingerprinted(dead)).where(F.col("payload").isNotNull())
    paths = F.explode(_paths(redaction, "payload", F.col("kind").isin(*_ENVELOPED)))
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


# --- requests ----------------------------------------------------------------------------------


def requests(history: DataFrame, attempts: DataFrame) -> DataFrame:
    """Requests that ended within the history, the slowest first."""
    begun = (
        occurrences(history)
        .where((F.col("event") == "submitted") & F.col("request").isNotNull())
        .groupBy("queue", "request")
        .agg(F.min("at").alias("submitted_at"), F.count("*").alias("entries"))
    )
    ended = (
        history.where(F.col("event") == "request-done")
        .groupBy("queue", F.coalesce("request", "id").alias("request"))
        .agg(F.max("at").alias("done_at"))
    )
    tried = (
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
        ended.join(begun, ["queue", "request"])
        .join(tried, ["queue", "request"], "left")
        .fillna(0, ["deliveries", "bad", "dead"])
        .withColumn("took_ms", took)
        .orderBy(F.desc("took_ms"), "queue", "request")
    )


def critical_paths(attempts: DataFrame) -> DataFrame:
    """What each request waited for, from its submission to its last end: see `critical.path`.

    One row per stretch of time; the stretches of a request follow each other without a gap. A
    request's deliveries are looked at by one task.
    """
    rows = attempts.where(F.col("request").isNotNull()).select(
        "queue", "request", "id", "attempt", "consumer", "since", "ended",
        *(F.unix_millis(f"{name}_at").alias(f"{name}_ms") for name in ("since", "taken", "ended")),
    )  # fmt: skip
    walked = rows.groupBy("queue", "request").applyInPandas(
        _walked,
        "queue string, request string, place int, what string, id string, attempt int, "
        "consumer string, ended string, from_ms long, to_ms long",
    )
    return walked.select(
        "queue", "request", "place", "what", "id", "attempt", "consumer", "ended",
        F.timestamp_millis("from_ms").alias("from_at"), F.timestamp_millis("to_ms").alias("to_at"),
        (F.col("to_ms") - F.col("from_ms")).alias("took_ms"),
    ).orderBy("queue", "request", "place")  # fmt: skip


def _walked(rows: pd.DataFrame) -> pd.DataFrame:
    import pandas as pd

    from .critical import Attempt, path

    def whole(value: Any) -> int | None:
        return None if pd.isna(value) else int(value)

    stretches = path(
        Attempt(
            row.id, int(row.attempt), row.consumer, row.since, whole(row.since_ms),
            int(row.taken_ms), row.ended, whole(row.ended_ms),
        )
        for row in rows.itertuples(index=False)
    )  # fmt: skip
    queue, request = rows["queue"].iloc[0], rows["request"].iloc[0]
    return pd.DataFrame(
        [
            (queue, request, place, s.what, s.id, s.attempt, s.consumer, s.ended, s.from_ms,
             s.to_ms)
            for place, s in enumerate(stretches, 1)
        ],
        columns=["queue", "request", "place", "what", "id", "attempt", "consumer", "ended",
                 "from_ms", "to_ms"],
    )  # fmt: skip


# --- parts -------------------------------------------------------------------------------------

_REASONS = ("failed", "lost", "rejected")
_ENVELOPED = ("resque", "sidekiq")
"""kinds whose payloads are wrapped in what another program keeps"""


def _ms(at: str, step_ms: int) -> Column:
    return F.expr(f"unix_millis({at}) - pmod(unix_millis({at}), {int(step_ms)})")


def _step(at: str, step_ms: int) -> Column:
    return F.timestamp_millis(_ms(at, step_ms))


def _percentiles(value: Column, accuracy: int | None) -> Column:
    if accuracy is None:
        return F.percentile(value, F.array(*map(F.lit, PERCENTILES)))
    return F.percentile_approx(value, list(PERCENTILES), accuracy).cast("array<double>")


def _spread(name: str) -> list[Column]:
    return [
        F.col(name)[i].alias(f"{name}_p{round(100 * share)}_ms")
        for i, share in enumerate(PERCENTILES)
    ]


def _sized(history: DataFrame) -> DataFrame:
    """Events with the number of ``entries`` each is about; no range is taken apart for that."""
    rows = history
    if "_corrupt" in rows.columns:
        rows = rows.where(F.col("_corrupt").isNull())
    ranged = (
        (F.col("event") == "submitted")
        & (F.col("kind") == "request")
        & F.col("detail").rlike(r"^\d{1,18}\|\d{1,18}$")
    )
    part = F.split("detail", r"\|")
    size = F.when(ranged, part[1].cast("long") - part[0].cast("long") + 1).otherwise(1)
    return rows.where(F.col("event").isin(*COUNTED)).withColumn("entries", size)


def _readable(rows: DataFrame) -> DataFrame:
    return rows.where(F.col("_corrupt").isNull()) if "_corrupt" in rows.columns else rows


def _long(table: DataFrame, metrics: Sequence[str]) -> DataFrame:
    """A row per metric: queue, step (ms), metric, value."""
    pairs = F.explode(
        F.array(
            *(F.struct(F.lit(m).alias("metric"), F.col(m).cast("double").alias("value"))
              for m in metrics)
        )
    )  # fmt: skip
    rows = table.select("queue", F.unix_millis("from_at").alias("step"), pairs.alias("pair"))
    return rows.select("queue", "step", "pair.*").where(F.col("value").isNotNull())


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
        return difference(k, n, other, m) if m else 0.0

    return F.udf(bound, "double", useArrow=True)(*columns)


def _paths(redaction: Redaction, *columns: str | Column) -> Column:
    def leaves(payload: bytes, foreign: bool) -> dict[str, str]:
        how = (ENVELOPE, SAID) if foreign else (DEPTH, ())
        found = told(bytes(payload), redaction, *how)
        return {field: str(value) for field, value in found.items()}

    return F.udf(leaves, "map<string,string>", useArrow=True)(*columns)

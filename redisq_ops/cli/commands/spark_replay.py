"""`redisq spark replay | requeue`: entries chosen by SQL or by error group, with many tasks."""

from __future__ import annotations

from ..options import GO, Options, add, flag, option
from .spark import BETWEEN, PACE, QUEUE, RUNNING, spark

CHOOSING: Options = {
    **QUEUE,
    "group": option("--group", "FINGERPRINT", "Only this error group; repeatable.", list[str]),
    "where": option("--where", "SQL", "\"attempts > 3 and error like '%timeout%'\"."),
    "all": flag("--all", "Choose all entries."),
    **BETWEEN,
    "payloads": flag("--payloads", "Read payloads too, for --where."),
    **PACE,
    "plan": option("--plan", "DIR", "Keep the plan in DIR; run again to continue."),
    **GO,
    **RUNNING,
}

add(
    spark, "replay", CHOOSING, "spark_replay.replayed", "replay",
    help="Move dead entries, chosen by SQL or by their error, back to waiting, with many tasks. "
    "Each queue has one operation, which redisq undo undoes.",
    prints="SparkPlan Outcome",
    examples=(
        "redisq spark replay --group 3f2a91c0 --rate 500/s --dry-run",
        "redisq spark replay --queue mail --where \"error_type = 'TimeoutError'\" --yes",
        "redisq spark replay --all --since 6h --plan /shared/replay --rate 2000/s --yes",
    ),
)  # fmt: skip

add(
    spark, "requeue",
    {**CHOOSING, "state": option("--state", "STATE", "State to act on: pending or delayed.")},
    "spark_replay.replayed", "requeue",
    help="Move pending or delayed entries back to waiting, as replay does with dead entries.",
    prints="SparkPlan Outcome",
    examples=(
        "redisq spark requeue --queue mail --where 'lost > 1' --dry-run",
        "redisq spark requeue --state delayed --where \"error like '%429%'\" --rate 100/s --yes",
    ),
)  # fmt: skip

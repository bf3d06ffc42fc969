"""`redisq spark replay | requeue`: entries chosen by SQL or by error group, with many tasks."""

from ..options import Go, command, flag, option, options
from ..session import Session
from .spark import SPARK_QUEUE, Between, Pace, Running, spark


@options
class Choosing:
    """Which entries to change, and how."""

    queue: str | None = SPARK_QUEUE
    group: list[str] | None = option("--group", "FINGERPRINT", "Only this error group; repeatable.")
    where: str | None = option("--where", "SQL", "\"attempts > 3 and error like '%timeout%'\".")
    all: bool = flag("--all", "Choose all entries.")
    between: Between
    payloads: bool = flag("--payloads", "Read payloads too, for --where.")
    pace: Pace
    plan: str | None = option("--plan", "DIR", "Keep the plan in DIR; run again to continue.")
    go: Go
    running: Running


@command(spark, "replay", prints="SparkPlan Outcome")
def replay(s: Session, *, choosing: Choosing) -> int:
    """Move dead entries, chosen by SQL or by their error, back to waiting, with many tasks. Each
    queue has one operation, which redisq undo undoes.

    Examples:
      redisq spark replay --group 3f2a91c0 --rate 500/s --dry-run
      redisq spark replay --queue mail --where "error_type = 'TimeoutError'" --yes
      redisq spark replay --all --since 6h --plan /shared/replay --rate 2000/s --yes
    """
    from ..actions.spark_replay import replayed

    return replayed(s, "replay", None, choosing)


@command(spark, "requeue", prints="SparkPlan Outcome")
def requeue(
    s: Session,
    *,
    choosing: Choosing,
    state: str | None = option("--state", "STATE", "State to act on: pending or delayed."),
) -> int:
    """Move pending or delayed entries back to waiting, as replay does with dead entries.

    Examples:
      redisq spark requeue --queue mail --where 'lost > 1' --dry-run
      redisq spark requeue --state delayed --where "error like '%429%'" --rate 100/s --yes
    """
    from ..actions.spark_replay import replayed

    return replayed(s, "requeue", state, choosing)

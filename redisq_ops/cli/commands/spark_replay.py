"""`redisq spark replay | requeue`: entries chosen by SQL or by error group, with many tasks."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from redisq_ops.core.model.errors import BadInput, Interrupted, RedisqError
from redisq_ops.core.model.exit_codes import PARTLY_DONE
from redisq_ops.ops.change.outcome import ChangeOutcome

from ..confirm_and_run import agreed, ended
from ..options import Go, command, flag, option, options
from ..output import emit, printable, progress, say, untouched
from ..session import Session
from ..spark_session import (
    awaited,
    bounds,
    check_queues,
    frame,
    on_spark,
    printed,
    rate_of,
    remote_server,
    server_of,
)
from .spark import SPARK_QUEUE, Between, Pace, Running, spark

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from redisq_ops.core.model.states import Verb
    from redisq_ops.pipeline.jobs.replay_plan import ReplayPlan, ReplayRequest


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
    return _replayed(s, "replay", None, choosing)


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
    return _replayed(s, "requeue", state, choosing)


def _replayed(s: Session, verb: Verb, named: str | None, given: Choosing) -> int:
    import tempfile

    from redisq_ops.core.model.states import VERBS
    from redisq_ops.ops.change.audit_log import Author
    from redisq_ops.pipeline.jobs.replay import check_plan
    from redisq_ops.pipeline.jobs.replay_plan import ReplayPlan, ReplayRequest
    from redisq_ops.pipeline.session.spark_session import is_local

    if printed(given.running):
        return 0
    states = VERBS[verb][0]
    chosen = [state for state in states if state == (named or states[0])]
    if not chosen:
        raise BadInput(f"{verb} is for {' or '.join(states)} entries, not {named!r}")
    queues = (given.queue,) if given.queue is not None else ()
    asked = ReplayRequest(
        verb,
        chosen[0],
        _choice(given),
        Author.here(given.go.reason),
        rate_of(s, given.pace.rate),
        given.pace.parts,
        queues,
        given.payloads,
        given.between.since,
        given.between.until,
    )
    kept, running = given.plan is not None, given.running
    if not kept and not (is_local(running.master) and remote_server(running) is None):
        raise BadInput("tasks elsewhere need a folder they all see: --plan DIR on shared storage")
    path = Path(given.plan or tempfile.mkdtemp(prefix="redisq-spark-"))
    try:
        orders = ReplayPlan.read(path) if kept else None
        if orders is not None:
            orders.check_request(asked)
            if given.pace.rate is None:  # the plan's own rate may be above this context's limit
                for order in orders.queues:
                    s.config.guard.rate(order.header.rate)
            else:
                orders = orders.with_rate(asked.rate)
            check_plan(server_of(s), orders)
        between = bounds(s, given.between, None)
        check_queues(s, queues)
        with on_spark(s, running) as session:
            if orders is None:
                with untouched():
                    orders = _chosen(s, session, asked, path, between, given)
            return _carried_out(s, session, orders, given)
    finally:
        if not kept:
            shutil.rmtree(path, ignore_errors=True)


def _choice(given: Choosing) -> str:
    """The selection of entries in words."""
    words = [f"group {group}" for group in given.group or ()]
    words += [f"where {given.where}"] if given.where is not None else []
    if not words and not given.all:
        raise BadInput("choose entries with --group FINGERPRINT, --where SQL, or --all")
    words = words or ["all"]
    span = {"since": given.between.since, "until": given.between.until}
    words += [f"{name} {text}" for name, text in span.items() if text is not None]
    return ", ".join(words)


def _chosen(
    s: Session,
    session: SparkSession,
    asked: ReplayRequest,
    path: Path,
    between: Mapping[str, str],
    given: Choosing,
) -> ReplayPlan:
    from pyspark.errors import AnalysisException, ParseException

    from redisq_ops.pipeline.jobs.replay_plan import create_plan, plan_headers
    from redisq_ops.pipeline.source.job_errors import short_message

    made = plan_headers(server_of(s), asked, asked.queues)
    options = dict(between)
    if made:
        options["queue"] = ",".join(header.queue for header in made)
    if given.payloads:
        options["payloads"] = "true"
    found: DataFrame = frame(s, session, asked.state, **options)
    if given.group:
        found = found.where(found["fingerprint"].isin(*given.group))
    if given.where is not None:
        try:
            found = found.where(given.where)
        except (AnalysisException, ParseException) as error:
            raise BadInput(f"--where: {short_message(error)}") from error
    return awaited(session, "choosing", lambda: create_plan(found, made, asked, path))


def _carried_out(s: Session, session: SparkSession, orders: ReplayPlan, given: Choosing) -> int:
    from redisq_ops.pipeline.jobs.replay import apply, outcomes
    from redisq_ops.pipeline.source.connection import run_retrying

    server = server_of(s)
    plans = run_retrying(server.client, lambda: orders.previews(server.deployment()))
    if not plans:
        if not s.json:
            print("0 matched")
        elif given.go.dry_run:
            emit({"plan": "0 matched", "matched": 0})
        else:
            emit(ChangeOutcome(None, 0))
        return 0
    if not agreed(s, plans, given.go, given.pace.rate):
        return 0
    of_op = {plan.facts["op"]: plan for plan in plans}
    try:
        with progress(f"{plans[0].facts['verb']} by {len(orders.units())} tasks") as meter:
            found = apply(session, server, orders, meter)
    except (KeyboardInterrupt, RedisqError) as error:
        with suppress(RedisqError):  # the server may be unreachable
            for outcome in outcomes(server, orders):
                queue = of_op[outcome.op].facts["queue"]
                say(
                    printable(
                        f"{queue}: stopped after {outcome.done:,} of "
                        f"{outcome.matched:,} (op {outcome.op})"
                    )
                )
        again = "the same command goes on" if given.plan else "the same command does the rest"
        if isinstance(error, KeyboardInterrupt):
            raise Interrupted(f"interrupted: {again}") from error
        say(again)
        raise
    codes = set()
    for outcome in found:
        ended(s, outcome, of_op[outcome.op].past)
        codes.add(outcome.exit_code)
    return PARTLY_DONE if len(codes) > 1 else codes.pop()

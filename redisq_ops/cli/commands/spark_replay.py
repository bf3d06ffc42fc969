"""`redisq spark replay | requeue`: entries chosen by SQL or by error group."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from redisq_ops.core.model.errors import BadInput, NotFound
from redisq_ops.core.model.exit_codes import INTERRUPTED, PARTLY_DONE

from ..confirm_and_run import agreed, nothing_matched
from ..options import RATE, Go, Ramping, command, flag, option, options
from ..output import reading, untouched
from ..plan_output import draft, tell_written
from ..session import Session
from ..spark_session import awaited, bounds, frame, on_spark, printed, rate_of
from .apply import ApplyOptions, carried_out
from .spark import SPARK_QUEUE, Between, Running, spark

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from redisq_ops.core.model.entry import State
    from redisq_ops.core.model.states import Verb
    from redisq_ops.ops.change.plan import Draft, PlanFile
    from redisq_ops.ops.change.prepare import PreparedChange
    from redisq_ops.pipeline.jobs.replay_plan import PlannedQueues


@options
class Choosing:
    """Which entries to change, and how."""

    queue: str | None = SPARK_QUEUE
    group: list[str] | None = option("--group", "FINGERPRINT", "Only this error group; repeatable.")
    where: str | None = option("--where", "SQL", "\"attempts > 3 and error like '%timeout%'\".")
    all: bool = flag("--all", "Choose all entries.")
    between: Between
    payloads: bool = flag("--payloads", "Read payloads too, for --where.")
    rate: str | None = RATE
    plan: str | None = option(
        "--plan", "FILE", "Change nothing: write what would be done to FILE, for apply."
    )
    ramping: Ramping
    go: Go
    running: Running


@command(spark, "replay", prints="Plan Outcome")
def replay(s: Session, *, choosing: Choosing) -> int:
    """Move dead entries, chosen by SQL or by their error, back to waiting. Each queue has one
    operation, which redisq undo undoes.

    Examples:
      redisq spark replay --group 3f2a91c0 --rate 500/s --dry-run
      redisq spark replay --queue mail --where "error_type = 'TimeoutError'" --canary 20 --yes
      redisq spark replay --queue mail --all --since 6h --plan replay.ndjson
    """
    return _replayed(s, "replay", None, choosing)


@command(spark, "requeue", prints="Plan Outcome")
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
    from redisq_ops.core.model.states import VERBS
    from redisq_ops.ops.change.watched_replay import check_watchable
    from redisq_ops.pipeline.jobs.replay_plan import planned_queues

    from ..canary import limits

    if printed(given.running):
        return 0
    states = VERBS[verb][0]
    chosen = [state for state in states if state == (named or states[0])]
    if not chosen:
        raise BadInput(f"{verb} is for {' or '.join(states)} entries, not {named!r}")
    description, rate = _choice(given), rate_of(s, given.rate)
    ramp = limits(given.ramping, rate, verb, plans=given.plan is not None)
    between = bounds(s, given.between, None)
    names = (given.queue,) if given.queue is not None else ()
    queues = s.run(planned_queues(s.deployment, verb, chosen[0], names))
    if not queues:
        raise NotFound(f"no queue has {chosen[0]} entries that {verb} can change")
    if ramp is not None:
        for queue, _ in queues.values():
            check_watchable(queue, ramp)
    with ExitStack() as stack:
        drafts = _drafts(stack, verb, queues, given)
        with untouched():
            with on_spark(s, given.running) as session:
                _choose(s, session, chosen[0], between, given, drafts)
            plans = _finished(s, verb, chosen[0], queues, drafts, description, rate, given)
            some = [plan for plan in plans if plan.count]
            prepared = [_prepared(s, plan) for plan in some or plans]
        if given.plan is not None:
            (only,) = prepared
            return tell_written(s, given.plan, drafts[only.request.queue.name].op, only.preview)
        if not some:
            return nothing_matched(s, [each.preview for each in prepared], given.go.dry_run)
        if not agreed(s, [each.preview for each in prepared], given.go, given.rate):
            return 0
        applying = ApplyOptions(file="", rate=given.rate, ramping=given.ramping, go=given.go)
        codes = set()
        for each in prepared:
            assert each.plan is not None
            code = carried_out(s, each, each.plan.header, ramp, applying)
            if code == INTERRUPTED or (code and ramp is not None):
                return code
            codes.add(code)
        return PARTLY_DONE if len(codes) > 1 else codes.pop()


def _drafts(
    stack: ExitStack, verb: Verb, queues: PlannedQueues, given: Choosing
) -> dict[str, Draft]:
    """A plan file for each queue: that of ``--plan``, or temporary ones."""
    if given.plan is not None:
        opened = [queue for queue, _ in queues.values()]
        made = {
            queue.name: draft(given.plan, verb, opened, dry_run=given.go.dry_run)
            for queue in opened
        }
    else:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="redisq-")))
        made = {
            name: draft(str(folder / f"{n}.ndjson"), verb, (), dry_run=False)
            for n, name in enumerate(queues)
        }
    return {name: stack.enter_context(each) for name, each in made.items()}


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


def _choose(
    s: Session,
    session: SparkSession,
    state: State,
    between: Mapping[str, str],
    given: Choosing,
    drafts: Mapping[str, Draft],
) -> None:
    """Add the selected entries to the drafts of their queues."""
    from pyspark.errors import AnalysisException, ParseException

    from redisq_ops.pipeline.jobs.replay_plan import add_entries
    from redisq_ops.pipeline.source.job_errors import short_message
    from redisq_ops.pipeline.source.options import listed

    options = {**between, "queue": listed(drafts)}
    if given.payloads:
        options["payloads"] = "true"
    found: DataFrame = frame(s, session, state, **options)
    if given.group:
        found = found.where(found["fingerprint"].isin(*given.group))
    if given.where is not None:
        try:
            found = found.where(given.where)
        except (AnalysisException, ParseException) as error:
            raise BadInput(f"--where: {short_message(error)}") from error
    awaited(session, "choosing", lambda: add_entries(found, state, drafts))


def _finished(
    s: Session,
    verb: Verb,
    state: State,
    queues: PlannedQueues,
    drafts: Mapping[str, Draft],
    description: str,
    rate: float | None,
    given: Choosing,
) -> Sequence[PlanFile]:
    """Write the plans of all queues."""
    from redisq_ops.ops.change.plan import PlanFile
    from redisq_ops.ops.change.prepare import ChangeRequest
    from redisq_ops.ops.filter.filter import Filter
    from redisq_ops.pipeline.jobs.replay_plan import finish

    for name, (queue, now_ms) in queues.items():
        request = ChangeRequest(verb, queue, state, Filter(), rate, by_ids=True, utc=s.utc)
        why = given.go.reason
        s.run(finish(drafts[name], s.deployment, request, description, now_ms, why))
    return [PlanFile(each.path) for each in drafts.values()]


def _prepared(s: Session, plan: PlanFile) -> PreparedChange:
    """A plan as it is confirmed: the file is this command's own."""
    from redisq_ops.ops.change.prepare import prepare_plan
    from redisq_ops.ops.change.wording import what

    header = plan.header
    with reading("looking again", plan.count) as meter:
        preparing = prepare_plan(
            s.deployment, plan, utc=s.utc, progress=meter, shown=s.redaction.text
        )
        prepared = s.run(preparing)
    facts = {name: fact for name, fact in prepared.preview.facts.items() if name != "file"}
    title = what(header.verb, plan.count, header.state, header.queue)
    return replace(prepared, preview=replace(prepared.preview, what=title, facts=facts))

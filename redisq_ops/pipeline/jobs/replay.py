"""Carries out a plan (`replay_plan`) by many tasks, as one operation per queue.

A part of the plan numbers its steps from 1 under the name ``OP.K``. So a repeated task, a second
copy of a task, or the same command a day later finds which steps were carried out and continues
after them. Each step is `EntryAction.move`, as for every change of entries. It checks each entry
again: an entry in another state is ``changed``, an entry that entered the state after the
selection is ``late``. This module adds only the step numbers and the rate that many tasks share.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import count, islice
from typing import TYPE_CHECKING, Any

from redisq_ops.core.engine.queue import Queue
from redisq_ops.core.model.errors import RedisqError, Refused, Superseded, Unreachable
from redisq_ops.core.model.states import VERBS
from redisq_ops.ops.change import audit_log
from redisq_ops.ops.change.apply import recorded
from redisq_ops.ops.change.audit_log import Author
from redisq_ops.ops.change.entry_steps import EntryAction
from redisq_ops.ops.change.outcome import ChangeOutcome
from redisq_ops.ops.change.plan import PlanHeader, home
from redisq_ops.ops.hint import hint

from ..session.spark_jobs import collect_reports
from ..sink.rate_limiter import RateLimiter
from ..sink.task_reports import (
    TASK_REPORT_SCHEMA,
    TaskReport,
    raise_refusal,
    refusal_report,
    report_batch,
)
from ..source.connection import AWAY_S, Server, run_retrying
from .replay_plan import QueueReplay, ReplayPlan, picks

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True)
class OperationPart:
    """One part of an operation, for one task; safe to repeat and to run in several copies."""

    server: Server
    plan: ReplayPlan
    unit: int
    on_step: Callable[[int], object] | None = None
    """called with the number of each step that was carried out"""

    @property
    def header(self) -> PlanHeader:
        return self.plan.of_unit(self.unit).header

    @property
    def name(self) -> str:
        return audit_log.part(self.header.op, self.unit % self.plan.of_unit(self.unit).parts)

    def run(self) -> Counter[str]:
        """Carry the part out; returns entries by outcome, including those of other attempts.

        ``moved`` is the number in the audit log; ``earlier`` counts entries that other attempts did
        not move.
        """
        client, header = self.server.client, self.header
        queue = run_retrying(client, partial(home, self.server.deployment(), header))
        self._check_recorded(queue)
        action = EntryAction(
            queue, header.verb, header.state, header.high_water_ms, header.consumer, header.argument
        )
        rate_header = self.plan.rate_header or header
        rate_queue = queue
        if header.rate is not None and rate_header.queue != header.queue:
            find = partial(self.server.deployment().queue, rate_header.queue)
            rate_queue = run_retrying(client, find)
        limiter = RateLimiter(
            queue, rate_header.op, header.rate, header.step, rate_queue=rate_queue
        )
        fills_queue = VERBS[header.verb][1] == "waiting"
        reached, *_ = run_retrying(client, partial(audit_log.reached, queue, self.name))
        outcomes: Counter[str] = Counter()
        skipped, rows = 0, picks(self.plan.rows, self.unit)
        for number in count(1):
            step = list(islice(rows, header.step))
            if not step:
                break
            if number < reached:
                skipped += len(step)
                continue
            # Repeat the last step that was carried out: after a kill some shards may lack it.
            # The others return the same reply as before.
            if number > reached:
                limiter.wait(client, len(step), check_capacity=fills_queue)
            words: list[str] = []
            with suppress(Superseded):
                words = run_retrying(client, partial(action.move, self.name, number, step))
            if len(words) != len(step):  # another attempt is further, or the change was undone
                self._check_recorded(queue)
                reached, _, _ = run_retrying(client, partial(audit_log.reached, queue, self.name))
                skipped += len(step)
                continue
            outcomes.update(words)
            if self.on_step is not None:
                self.on_step(number)
        _, done, _ = run_retrying(client, partial(audit_log.reached, queue, self.name))
        not_moved = {word: n for word, n in outcomes.items() if word != "moved"}
        total = skipped + outcomes.total()
        earlier = max(0, total - done - sum(not_moved.values()))
        return +Counter({"moved": done, **not_moved, "earlier": earlier})

    def _check_recorded(self, queue: Queue[Any]) -> None:
        """Refuse an operation that is not in the audit log, or was undone."""
        op = self.header.op
        if run_retrying(self.server.client, partial(recorded, queue, self.header)) is None:
            raise Refused(f"{op} is not in the audit log ({hint('log')} shows it)")


@dataclass(frozen=True, slots=True)
class ReplayTasks:
    """What Spark's tasks run: units of a plan, with a few report rows for each."""

    server: Server
    plan: ReplayPlan
    on_step: Callable[[int], object] | None = None

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        units = self.plan.units()
        for batch in batches:
            for n in batch.column(0).to_pylist():
                yield report_batch(self._reports(units[n]))

    def _reports(self, unit: int) -> list[TaskReport]:
        try:
            found = OperationPart(self.server, self.plan, unit, self.on_step).run()
            return [TaskReport(unit, word, n) for word, n in found.items() if n]
        except RedisqError as error:
            return [refusal_report(unit, error)]


def check_plan(server: Server, plan: ReplayPlan) -> list[QueueReplay]:
    """Refuse a plan that was undone or is too old, or whose queue was replaced since.

    Returns the parts whose operation is not in the audit log yet.
    """
    ask, new = partial(run_retrying, server.client), []
    for replay in plan.queues:
        if replay.count:
            queue = ask(partial(home, server.deployment(), replay.header))
            if ask(partial(recorded, queue, replay.header)) is None:
                new.append(replay)
    return new


def record_operations(server: Server, plan: ReplayPlan) -> None:
    """Record every operation in the audit log before its first step; repeating has no effect."""
    ask = partial(run_retrying, server.client)
    for replay in check_plan(server, plan):
        queue = ask(partial(server.deployment().queue, replay.header.queue))
        ask(partial(_record_operation, queue, replay))


async def _record_operation(queue: Queue[Any], replay: QueueReplay) -> None:
    header = replay.header
    await audit_log.begin(
        queue,
        header.op,
        header.verb,
        Author(header.who, header.whence, header.why),
        header.filter,
        now_ms=await queue.now.op(),
        source=header.state,
        target=VERBS[header.verb][1],
        matched=replay.count,
        parts=replay.parts,
    )


def outcomes(
    server: Server, plan: ReplayPlan, reports: Sequence[TaskReport] = (), *, waits: bool = False
) -> list[ChangeOutcome]:
    """The progress of each operation: moved entries from the audit log, others from reports.

    ``waits``: while the server is unreachable, wait for it as long as a task does.
    """
    ask = partial(run_retrying, server.client, max_away_s=AWAY_S if waits else 0)
    found = []
    for replay in plan.queues:
        if not replay.count:
            continue
        header = replay.header
        queue = ask(partial(server.deployment().queue, header.queue))
        operation = ask(partial(audit_log.read, queue, header.op))
        outcome = ChangeOutcome(header.op, replay.count, operation.done if operation else 0)
        for report in reports:
            own = plan.of_unit(report.unit) is replay
            if own and report.word != "moved" and report.error is None:
                outcome.skip(report.word, report.n)
        found.append(outcome)
    return found


def apply(
    spark: SparkSession,
    server: Server,
    plan: ReplayPlan,
    progress: Callable[[int, int | None], object] = lambda done, total: None,
    on_step: Callable[[int], object] | None = None,
) -> list[ChangeOutcome]:
    """Carry a plan out, or continue it; returns the outcome of each queue's operation.

    Raises the refusal of a task after all other tasks have ended; `outcomes` then returns the
    progress.
    """
    total = sum(replay.count for replay in plan.queues)
    if not total:
        return []
    record_operations(server, plan)
    units = len(plan.units())
    frame = spark.range(0, units, 1, units).mapInArrow(
        ReplayTasks(server, plan, on_step), TASK_REPORT_SCHEMA
    )

    def show() -> None:
        with suppress(Unreachable):  # the tasks wait for the server
            progress(sum(o.done for o in outcomes(server, plan)), total)

    reports = collect_reports(spark, frame, show)
    raise_refusal(reports)
    ask = partial(run_retrying, server.client, max_away_s=AWAY_S)
    for replay in plan.queues:
        if replay.count:
            queue = ask(partial(server.deployment().queue, replay.header.queue))
            ask(partial(audit_log.note, queue, replay.header.op, ended=1))
    return outcomes(server, plan, reports, waits=True)

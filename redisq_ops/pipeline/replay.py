"""Replay and requeue of entries selected by Spark, by many tasks, as one operation per queue.

The selection is written first: a folder with the ids in parts, the rows of each part in a fixed
order, and last ``plan.json``. A part numbers its steps from 1 under a name of its own, ``OP.K``,
and a step always has the same rows. So a repeated task, a second copy of a task, or the same
command a day later finds which steps were carried out and continues after them. Each step is the
core's bulk move, which checks every entry again: one that is in another state by now is
``changed``, one that entered the state after the selection is ``late``.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from redisq_ops.core.engine.queue import Queue
from redisq_ops.core.model.entry import State
from redisq_ops.core.model.errors import BadInput, RedisqError, Refused, SchemaTooNew, Superseded
from redisq_ops.core.model.settings import LEASE_MS
from redisq_ops.core.model.states import VERBS, Verb
from redisq_ops.core.redis.operation import BlockingClient, run
from redisq_ops.ops.change import audit_log
from redisq_ops.ops.change.allowed import allowed
from redisq_ops.ops.change.audit_log import Author, Operation
from redisq_ops.ops.change.outcome import ChangeOutcome
from redisq_ops.ops.change.plan import PlanHeader, checked_age, home, identity
from redisq_ops.ops.change.preview import MEANS, Preview, entries, typed
from redisq_ops.ops.hint import hint
from redisq_ops.ops.terminal import age, count

from .atomic_json import write_json
from .connection import Server, run_retrying
from .rate_limiter import RateLimiter
from .spark_jobs import (
    TASK_REPORT_SCHEMA,
    TaskReport,
    collect_reports,
    raise_refusal,
    refusal_report,
    report_batch,
)

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

FORMAT = 1
DEFAULT_PARTS = 8
"""parts per queue; more would not be faster, because its server runs one step at a time"""
MAX_PARTS = 256
STEP = 40
"""entries per step: at 12 to 17 µs each, a step blocks the server for less than 1 ms"""
MAX_GROUPS = 20
_PLAN_FILE = "plan.json"


@dataclass(frozen=True, slots=True)
class QueueReplay:
    """The part of a plan for one queue."""

    header: PlanHeader
    parts: int
    count: int
    groups: Mapping[str, int] = field(default_factory=dict)
    """entries per error group, the largest first"""
    sample: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class ReplayPlan:
    """A plan in its folder.

    Unit of work ``u`` is part ``u % parts`` of queue number ``u // parts``. Units without rows
    have no folder.
    """

    path: Path
    queues: tuple[QueueReplay, ...]
    choice: Mapping[str, Any] = field(default_factory=dict)
    """how the entries were selected: see `ReplayRequest.choice`"""

    def check_request(self, request: ReplayRequest) -> None:
        """Raise `BadInput` if the plan was made for another selection."""
        wanted = request.choice
        different = [name for name in wanted if self.choice.get(name) != wanted[name]]
        if different:
            raise BadInput(
                f"{self.path} holds another plan (different {', '.join(different)}): "
                "use another folder, or remove it"
            )

    def with_rate(self, rate: float | None) -> ReplayPlan:
        """The plan at another rate. The size of steps stays: completed steps keep their rows."""
        changed = (replace(each, header=replace(each.header, rate=rate)) for each in self.queues)
        return replace(self, queues=tuple(changed))

    @property
    def rate_header(self) -> PlanHeader | None:
        """The header under whose queue and name all tasks share one rate."""
        return next((each.header for each in self.queues if each.count), None)

    @classmethod
    def read(cls, path: Path) -> ReplayPlan | None:
        """The plan of a folder; None if there is none, or an incomplete one."""
        file = path / _PLAN_FILE
        try:
            found = json.loads(file.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            raise BadInput(f"{file}: not a valid plan: {error}") from error
        version = found.get("redisq_spark_plan") if isinstance(found, dict) else None
        if version != FORMAT:
            raise SchemaTooNew(f"{file}: format {version}, this release reads format {FORMAT}")
        queues = tuple(
            QueueReplay(PlanHeader(**row.pop("header")), **row) for row in found["orders"]
        )
        return cls(path, queues, found.get("choice", {}))

    def write(self) -> None:
        """Write ``plan.json`` atomically; with it the folder is a plan."""
        rows = [asdict(each) for each in self.queues]
        document = {"redisq_spark_plan": FORMAT, "choice": self.choice, "orders": rows}
        write_json(self.path / _PLAN_FILE, document)

    @property
    def rows(self) -> Path:
        return self.path / "entries"

    def units(self) -> list[int]:
        """Units of work that have rows."""
        return sorted(int(each.name.partition("=")[2]) for each in self.rows.glob("part=*"))

    def descriptions(self) -> list[Preview]:
        """What will be done, one plan per queue, in the form that all front ends show."""
        return [_description(each) for each in self.queues if each.count]


def _description(replay: QueueReplay) -> Preview:
    header = replay.header
    title = f"{header.verb} {entries(replay.count, header.state)} of {header.queue}"
    lines = [", ".join(replay.sample[:3]) + (", …" if replay.count > 3 else ""), MEANS[header.verb]]
    if replay.groups:
        largest = list(replay.groups.items())[:4]
        lines.append("error groups: " + ", ".join(f"{group} {count(n)}" for group, n in largest))
    if header.rate:
        lines.append(f"about {age(int(1000 * replay.count / header.rate))} at {header.rate:g}/s")
    facts = {
        "verb": header.verb, "queue": header.queue, "state": header.state,
        "filter": header.filter, "matched": replay.count, "groups": dict(replay.groups),
        "sample": list(replay.sample), "op": header.op,
    }  # fmt: skip
    return Preview(
        f"{title} (filter: {header.filter})", tuple(lines),
        typed(header.verb, replay.count, header.queue), facts,
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class ReplayRequest:
    """The requested change and the selection of entries."""

    verb: Verb
    state: State
    description: str
    """the selection in words, for the audit log"""
    author: Author
    rate: float | None = None
    parts: int = DEFAULT_PARTS
    queues: tuple[str, ...] = ()
    """empty: all that allow the change"""
    payloads: bool = False
    since: str | None = None
    until: str | None = None
    """as typed: an age is another time when the command is repeated"""

    @property
    def choice(self) -> dict[str, Any]:
        """The selection as stored with a plan, to recognise a repeated command.

        Without author, reason and rate, which may change.
        """
        return {
            "verb": self.verb, "state": self.state, "choice": self.description,
            "--queue": list(self.queues), "--payloads": self.payloads, "--since": self.since,
            "--until": self.until, "--parts": self.parts,
        }  # fmt: skip

    def __post_init__(self) -> None:
        if not 1 <= self.parts <= MAX_PARTS:
            raise BadInput(f"--parts {self.parts}: must be 1 to {MAX_PARTS}")


def plan_headers(
    server: Server, request: ReplayRequest, queues: Sequence[str] = ()
) -> list[PlanHeader]:
    """A header for each queue (the named ones, or all that allow the change).

    Call it before entries are selected: entries that enter the state later are left out.
    """
    deployment, client = server.deployment(), server.client
    if queues:
        opened = [run(client, deployment.queue(name)) for name in queues]
        for queue in opened:
            allowed(queue, request.verb, request.state)
    else:
        every = run(client, deployment.queues())
        opened = [q for q in every if request.state in q.actions.get(request.verb, ())]
    headers = []
    for queue in opened:
        now_ms = run(client, queue.now.op())
        created_ms, run_id = run(client, identity(queue, deployment))
        headers.append(
            PlanHeader(
                op=audit_log.new_id(request.verb), queue=queue.name, kind=queue.kind,
                prefix=server.prefix, created_ms=created_ms, server=run_id, verb=request.verb,
                state=request.state, consumer="operator", argument=LEASE_MS, high_water_ms=now_ms,
                filter=request.description, who=request.author.who, whence=request.author.whence,
                why=request.author.why, planned_ms=now_ms, rate=request.rate,
                step=min(STEP, max(1, int(request.rate))) if request.rate else STEP,
            )
        )  # fmt: skip
    return headers


def create_plan(
    frame: DataFrame, headers: Sequence[PlanHeader], request: ReplayRequest, path: Path
) -> ReplayPlan:
    """Write the entries of ``frame`` as a plan into the folder ``path``.

    ``frame`` has the columns of a table of entries (`tables`). Rows of other queues and states are
    left out, and duplicates count once.
    """
    from pyspark.sql import functions as F

    queue_numbers = [F.lit(word) for k, header in enumerate(headers) for word in (header.queue, k)]
    if not queue_numbers:
        return ReplayPlan(path, (), request.choice)
    names = set(frame.columns)
    # An untouched delayed entry is only told from a later one of the same id by its ready time.
    times = F.lit(None).cast("long")
    if {"since_at", "ready_at"} <= names:
        ready_ms = F.unix_millis("ready_at")
        if request.state == "delayed":
            times = F.when(F.col("since_at").isNull(), ready_ms)
    group = F.col("fingerprint") if "fingerprint" in names else F.lit(None).cast("string")
    rows = (
        frame.where(F.col("id").isNotNull())
        .where(F.col("state") == request.state if "state" in names else F.lit(True))
        .select(F.create_map(*queue_numbers)[F.col("queue")].alias("n"), "id",
                times.alias("at_ms"), group.alias("fingerprint"))
        .where(F.col("n").isNotNull())
        .dropDuplicates(["n", "id"])
        .withColumn("part", F.col("n") * request.parts + F.pmod(F.xxhash64("id"), request.parts))
    )  # fmt: skip
    plan = ReplayPlan(path, ())
    rows.drop("n").write.mode("overwrite").partitionBy("part").parquet(
        plan.rows.absolute().as_uri()
    )
    counted, samples = _count_groups(plan, request.parts)
    queues = []
    for k, header in enumerate(headers):
        counts = counted.get(k, Counter())
        groups = {group: n for group, n in counts.most_common(MAX_GROUPS) if group}
        sample = samples.get(k, [])
        queues.append(QueueReplay(header, request.parts, counts.total(), groups, sample))
    plan = ReplayPlan(path, tuple(queues), request.choice)
    plan.write()
    return plan


def _count_groups(
    plan: ReplayPlan, parts: int
) -> tuple[dict[int, Counter[str]], dict[int, list[str]]]:
    """Entries per error group and some ids, by queue number; file by file, in bounded memory."""
    counts: dict[int, Counter[str]] = {}
    samples: dict[int, list[str]] = {}
    for unit in plan.units():
        counter = counts.setdefault(unit // parts, Counter())
        sample = samples.setdefault(unit // parts, [])
        for rows in part_rows(plan.rows, unit):
            counter.update(group or "" for group in rows.column("fingerprint").to_pylist())
            sample += rows.column("id").slice(0, max(0, 10 - len(sample))).to_pylist()
    return counts, samples


def part_rows(rows: Path, unit: int) -> Iterator[pa.RecordBatch]:
    """The rows of a unit in a fixed order, a few thousand per batch."""
    import pyarrow.parquet as pq

    for name in sorted((rows / f"part={unit}").glob("*.parquet")):
        with pq.ParquetFile(name) as file:
            yield from file.iter_batches(batch_size=5000)


EntryRow = tuple[str, int | None]
"""an entry's id, and its ready time if that identifies it"""


def steps(rows: Path, unit: int, size: int) -> Iterator[list[EntryRow]]:
    """The rows of a unit in steps of ``size``."""
    step: list[EntryRow] = []
    for batch in part_rows(rows, unit):
        ids, times = batch.column("id").to_pylist(), batch.column("at_ms").to_pylist()
        for row in zip(ids, times, strict=True):
            step.append(row)
            if len(step) == size:
                yield step
                step = []
    if step:
        yield step


@dataclass(frozen=True, slots=True)
class OperationPart:
    """One part of an operation, for one task; safe to repeat and to run in several copies."""

    server: Server
    rows: Path
    header: PlanHeader
    parts: int
    unit: int
    on_step: Callable[[int], object] | None = None
    """called with the number of each step that was carried out"""
    rate_header: PlanHeader | None = None
    """header of the shared rate, if not its own"""

    @property
    def name(self) -> str:
        return audit_log.part(self.header.op, self.unit % self.parts)

    def run(self) -> Counter[str]:
        """Carry the part out; entries by outcome, those of other attempts included.

        ``moved`` is the number in the audit log, ``earlier`` what other attempts left out.
        """
        client, header = self.server.client, self.header
        queue = run_retrying(client, partial(home, self.server.deployment(), header))
        recorded_operation(client, queue, header)
        rate_header = self.rate_header or header
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
        skipped = 0
        for number, rows in enumerate(steps(self.rows, self.unit, header.step), 1):
            if number < reached:
                skipped += len(rows)
                continue
            # Repeat the last step that was carried out: a kill may have left some shards without
            # it. The others return the same reply as before.
            if number > reached:
                limiter.wait(client, len(rows), check_capacity=fills_queue)
            words = self._run_step(client, queue, number, rows)
            if words is None:
                recorded_operation(client, queue, header)
                reached, _, _ = run_retrying(client, partial(audit_log.reached, queue, self.name))
                skipped += len(rows)
                continue
            outcomes.update(words)
            if self.on_step is not None:
                self.on_step(number)
        _, done, _ = run_retrying(client, partial(audit_log.reached, queue, self.name))
        not_moved = {word: n for word, n in outcomes.items() if word != "moved"}
        total = skipped + outcomes.total()
        earlier = max(0, total - done - sum(not_moved.values()))
        return +Counter({"moved": done, **not_moved, "earlier": earlier})

    def _run_step(
        self, client: BlockingClient, queue: Queue[Any], number: int, rows: list[EntryRow]
    ) -> list[str] | None:
        """Outcomes of a step; None if another attempt is ahead, or the operation was undone."""
        header = self.header
        move = partial(
            queue.move.op, self.name, number, [id for id, _ in rows], source=header.state,
            target=VERBS[header.verb][1], high_water_ms=header.high_water_ms,
            consumer=header.consumer, lease_ms=header.argument,
            times={id: at_ms for id, at_ms in rows if at_ms is not None},
        )  # fmt: skip
        try:
            words: list[str] = run_retrying(client, move)
        except Superseded:
            return None
        return words if len(words) == len(rows) else None


def recorded_operation(client: BlockingClient, queue: Queue[Any], header: PlanHeader) -> Operation:
    """The operation in the audit log; `Refused` if it is missing or was undone."""
    operation = run_retrying(client, partial(audit_log.read, queue, header.op))
    if operation is None:
        raise Refused(f"{header.op} is not in the audit log ({hint('log')} shows it)")
    if operation.taken_back:
        raise Refused(f"this plan was carried out and undone ({header.op}): make a new plan")
    return operation


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
        plan = self.plan
        replay = plan.queues[unit // plan.queues[0].parts]
        part = OperationPart(
            self.server, plan.rows, replay.header, replay.parts, unit, self.on_step,
            plan.rate_header,
        )  # fmt: skip
        try:
            return [TaskReport(unit, word, n) for word, n in part.run().items() if n]
        except RedisqError as error:
            return [refusal_report(unit, error)]


def check_plan(server: Server, plan: ReplayPlan) -> None:
    """Refuse a plan that was undone, or whose queue was replaced since."""
    client = server.client
    for replay in plan.queues:
        if replay.count:
            queue = run(client, home(server.deployment(), replay.header))
            if run(client, audit_log.read(queue, replay.header.op)) is not None:
                recorded_operation(client, queue, replay.header)


def record_operations(server: Server, plan: ReplayPlan) -> None:
    """Record every operation in the audit log before its first step; repeating has no effect."""
    client = server.client
    for replay in plan.queues:
        header = replay.header
        if not replay.count:
            continue
        queue = run(client, home(server.deployment(), header))
        if run(client, audit_log.read(queue, header.op)) is not None:
            recorded_operation(client, queue, header)
            continue
        checked_age(header, run(client, queue.now.op()))
        run(client, _record_operation(queue, replay))


async def _record_operation(queue: Queue[Any], replay: QueueReplay) -> None:
    header = replay.header
    await audit_log.begin(
        queue, header.op, header.verb, Author(header.who, header.whence, header.why),
        header.filter, now_ms=await queue.now.op(), source=header.state,
        target=VERBS[header.verb][1], matched=replay.count, parts=replay.parts,
    )  # fmt: skip


def outcomes(
    server: Server, plan: ReplayPlan, reports: Sequence[TaskReport] = ()
) -> list[ChangeOutcome]:
    """The progress of each operation: moved entries from the audit log, others from reports."""
    found = []
    for replay in plan.queues:
        if not replay.count:
            continue
        header = replay.header
        queue = run(server.client, server.deployment().queue(header.queue))
        operation = run(server.client, audit_log.read(queue, header.op))
        outcome = ChangeOutcome(header.op, replay.count, operation.done if operation else 0)
        for report in reports:
            own = plan.queues[report.unit // replay.parts] is replay
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
    """Carry a plan out, or continue it; the outcome of each queue's operation.

    Raises the refusal of a task after all other tasks have ended; `outcomes` then has what was
    done.
    """
    total = sum(replay.count for replay in plan.queues)
    if not total:
        return []
    record_operations(server, plan)
    units = len(plan.units())
    frame = spark.range(0, units, 1, units).mapInArrow(
        ReplayTasks(server, plan, on_step), TASK_REPORT_SCHEMA
    )
    reports = collect_reports(
        spark, frame, lambda: progress(sum(o.done for o in outcomes(server, plan)), total)
    )
    raise_refusal(reports)
    for replay in plan.queues:
        if replay.count:
            queue = run(server.client, server.deployment().queue(replay.header.queue))
            run(server.client, audit_log.note(queue, replay.header.op, ended=1))
    return outcomes(server, plan, reports)

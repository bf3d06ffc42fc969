"""Plans of a replay or requeue of entries that Spark selected.

A plan is a folder: the ids in parts, the rows of each part in a fixed order, and, written last,
``plan.ndjson``. So a step of a part always has the same rows, however often the plan is carried
out.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from redisq_ops.core.engine.queue import Queue
from redisq_ops.core.model.entry import State
from redisq_ops.core.model.errors import BadInput
from redisq_ops.core.model.settings import LEASE_MS
from redisq_ops.core.model.states import Verb
from redisq_ops.ops import ndjson
from redisq_ops.ops.change import audit_log
from redisq_ops.ops.change.allowed import allowed, ensure_changeable
from redisq_ops.ops.change.audit_log import Author
from redisq_ops.ops.change.confirmation import typed
from redisq_ops.ops.change.entry_steps import Pick
from redisq_ops.ops.change.plan import PlanHeader, check_header, home, identity
from redisq_ops.ops.change.preview import Preview, effects
from redisq_ops.ops.change.wording import meaning, past, what
from redisq_ops.ops.deployment import Deployment
from redisq_ops.ops.private_files import SHARED, atomic_write, open_regular
from redisq_ops.ops.terminal import count
from redisq_ops.ops.typed_json import typed as checked

from ..source.connection import Server, run_retrying
from .parquet_files import whole_parquet

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame


DEFAULT_PARTS = 8
"""parts per queue; more would not be faster, because its server runs one step at a time"""
MAX_PARTS = 256
STEP = 40
"""entries per step: at 12 to 17 µs each, a step blocks the server for less than 1 ms"""
MAX_GROUPS = 20
_PLAN_FILE = "plan.ndjson"
_PLAN = ndjson.Format("Spark plan")
_COLUMNS = {"id": "string", "at_ms": "int64", "fingerprint": "string"}
"""columns of the files of parts"""
_UNIT = re.compile("[0-9]{1,6}")


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
        if any(
            (each.header.verb, each.header.state) != (request.verb, request.state)
            for each in self.queues
        ):
            different.append("verb or state")
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
        if not file.exists():
            return None
        try:
            queue = partial(checked, QueueReplay, name="queue")
            with open_regular(file) as opened:
                choice, *queues = ndjson.checked(opened, str(file), _PLAN, dict, queue)
            plan = cls(path, tuple(queues), choice)
            plan._check()
        except BadInput as error:
            raise BadInput(
                f"{path} is not a valid plan: {error}; nothing was done: restore it, or plan again "
                "in another folder"
            ) from error
        return plan

    def _check(self) -> None:
        """Raise `BadInput` for a plan that `create_plan` didn't make; counts all of its rows."""
        headers = [each.header for each in self.queues]
        for header in headers:
            check_header(header)
        if len({each.queue for each in headers} | {each.op for each in headers}) < 2 * len(headers):
            raise BadInput("it has a queue or an operation twice")
        parts = {each.parts for each in self.queues}
        if len(parts) > 1 or not all(1 <= each <= MAX_PARTS for each in parts):
            raise BadInput(f"its parts must be 1 to {MAX_PARTS}, the same for every queue")
        made = _figures(self, headers, parts.pop()) if parts else ()
        if made != self.queues:
            raise BadInput("its entries are not those that were planned")

    def write(self) -> None:
        """Write ``plan.ndjson`` atomically; with it the folder is a plan."""
        rows = [_PLAN.head(**self.choice), *map(asdict, self.queues)]
        with atomic_write(self.path / _PLAN_FILE, SHARED) as file:
            file.writelines(ndjson.sealed(map(ndjson.line, rows)))

    @property
    def rows(self) -> Path:
        return self.path / "entries"

    def of_unit(self, unit: int) -> QueueReplay:
        """The queue's part of the plan that a unit belongs to."""
        return self.queues[unit // self.queues[0].parts]

    def units(self) -> list[int]:
        """Units of work that have rows."""
        numbers = [each.name.partition("=")[2] for each in self.rows.glob("part=*")]
        if wrong := [number for number in numbers if not _UNIT.fullmatch(number)]:
            raise BadInput(f"part={wrong[0][:40]} is no part of a plan")
        return sorted(map(int, numbers))

    async def previews(self, deployment: Deployment) -> list[Preview]:
        """A preview for each queue; refuses a queue that was replaced since the plan was made."""
        found = [each for each in self.queues if each.count]
        return [_preview(each, await home(deployment, each.header)) for each in found]


def _preview(replay: QueueReplay, queue: Queue[Any]) -> Preview:
    header = replay.header
    means = meaning(header.verb, queue, header.state)
    lines = effects(queue, header.verb, header.state, replay.count, header.rate, means)
    if replay.groups:
        largest = list(replay.groups.items())[:4]
        lines.append("error groups: " + ", ".join(f"{group} {count(n)}" for group, n in largest))
    facts = {
        "verb": header.verb,
        "queue": header.queue,
        "state": header.state,
        "filter": header.filter,
        "matched": replay.count,
        "groups": dict(replay.groups),
        "sample": list(replay.sample),
        "op": header.op,
    }
    title = what(header.verb, replay.count, header.state, header.queue)
    to_type = typed(header.verb, replay.count, header.queue)
    return Preview(
        title,
        tuple(lines),
        to_type,
        facts,
        header.filter,
        ids=replay.sample[:3],
        past=past(header.verb, header.state, header.queue),
    )


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
    """empty: all queues that allow the change"""
    payloads: bool = False
    since: str | None = None
    until: str | None = None
    """as typed: as a time, an age such as ``2h`` would differ when the command is repeated"""

    @property
    def choice(self) -> dict[str, Any]:
        """The selection as stored with a plan, to recognise a repeated command.

        Without author, reason and rate, which may change.
        """
        return {
            "verb": self.verb,
            "state": self.state,
            "choice": self.description,
            "--queue": list(self.queues),
            "--payloads": self.payloads,
            "--since": self.since,
            "--until": self.until,
            "--parts": self.parts,
        }

    def __post_init__(self) -> None:
        if not 1 <= self.parts <= MAX_PARTS:
            raise BadInput(f"--parts {self.parts}: must be 1 to {MAX_PARTS}")


def plan_headers(
    server: Server, request: ReplayRequest, queues: Sequence[str] = ()
) -> list[PlanHeader]:
    """A header for each queue (the named ones, or all that allow the change).

    Call it before entries are selected: entries that enter the state later are left out.
    """
    deployment, ask = server.deployment(), partial(run_retrying, server.client)
    if queues:
        opened = [ask(partial(deployment.queue, name)) for name in queues]
        for queue in opened:
            allowed(queue, request.verb, request.state)
            ask(partial(ensure_changeable, queue))
    else:
        every = ask(deployment.queues)
        opened = [q for q in every if request.state in q.actions.get(request.verb, ())]
    headers = []
    for queue in opened:
        now_ms = ask(queue.now.op)
        created_ms, run_id = ask(partial(identity, queue, deployment))
        headers.append(
            PlanHeader(
                op=audit_log.new_id(request.verb),
                queue=queue.name,
                kind=queue.kind,
                prefix=server.prefix,
                created_ms=created_ms,
                server=run_id,
                verb=request.verb,
                state=request.state,
                consumer="operator",
                argument=LEASE_MS,
                high_water_ms=now_ms,
                filter=request.description,
                who=request.author.who,
                whence=request.author.whence,
                why=request.author.why,
                planned_ms=now_ms,
                rate=request.rate,
                step=min(STEP, max(1, int(request.rate))) if request.rate else STEP,
            )
        )
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
    # Only the ready time tells a delayed entry that was never delivered from a later one with
    # the same id.
    times = F.lit(None).cast("long")
    if {"since_at", "ready_at"} <= names:
        ready_ms = F.unix_millis("ready_at")
        if request.state == "delayed":
            times = F.when(F.col("since_at").isNull(), ready_ms)
    group = F.col("fingerprint") if "fingerprint" in names else F.lit(None).cast("string")
    rows = (
        frame.where(F.col("id").isNotNull())
        .where(F.col("state") == request.state if "state" in names else F.lit(True))
        .select(
            F.create_map(*queue_numbers)[F.col("queue")].alias("n"),
            "id",
            times.alias("at_ms"),
            group.alias("fingerprint"),
        )
        .where(F.col("n").isNotNull())
        .dropDuplicates(["n", "id"])
        .withColumn("part", F.col("n") * request.parts + F.pmod(F.xxhash64("id"), request.parts))
    )
    plan = ReplayPlan(path, ())
    rows.drop("n").write.mode("overwrite").partitionBy("part").parquet(
        plan.rows.absolute().as_uri()
    )
    plan = ReplayPlan(path, _figures(plan, headers, request.parts), request.choice)
    plan.write()
    return plan


def _figures(
    plan: ReplayPlan, headers: Sequence[PlanHeader], parts: int
) -> tuple[QueueReplay, ...]:
    """Each queue's part of the plan, with the figures of its rows."""
    counted, samples = _count_groups(plan, parts)
    if counted and max(counted) >= len(headers):
        raise BadInput("it has entries of a queue that it doesn't name")
    queues = []
    for k, header in enumerate(headers):
        counts = counted.get(k, Counter())
        groups = {group: n for group, n in counts.most_common(MAX_GROUPS) if group}
        queues.append(QueueReplay(header, parts, counts.total(), groups, samples.get(k, [])))
    return tuple(queues)


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
        with whole_parquet(name), pq.ParquetFile(name, page_checksum_verification=True) as file:
            if {each.name: str(each.type) for each in file.schema_arrow} != _COLUMNS:
                raise BadInput(f"{name}: not the columns of a plan")
            for batch in file.iter_batches(batch_size=5000):
                batch.validate(full=True)
                if batch.column("id").null_count:
                    raise BadInput(f"{name}: an entry lacks its id")
                yield batch


def picks(rows: Path, unit: int) -> Iterator[Pick]:
    """The entries of a unit, in a fixed order."""
    for batch in part_rows(rows, unit):
        yield from map(Pick, batch.column("id").to_pylist(), batch.column("at_ms").to_pylist())

"""Replay and requeue, chosen by Spark and carried out by many tasks, as one operation a queue.

What is chosen is written down first: a folder with the ids in parts, each part's rows in an order
that never changes, and last of all ``plan.json``. A part numbers its steps from 1 under a name of
its own, ``OP.K``, and a step is always the same rows; so an attempt that begins again, a second
copy that runs beside, or the same command a day later meet steps that were carried out already and
go on behind them. Each step is the core's own bulk move, which looks at every entry again: what is
in another state by now is ``changed``, what came into its state since the choice is ``late``.
"""

from __future__ import annotations

import json
import os
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
from redisq_ops.ops.change.audit_log import Author, ChangeOutcome, Operation
from redisq_ops.ops.change.bulk import allowed
from redisq_ops.ops.change.plan import PlanHeader, checked_age, home, identity
from redisq_ops.ops.change.preview import MEANS, Preview, entries, typed
from redisq_ops.ops.hint import hint
from redisq_ops.ops.terminal import age, count

from .rate_limiter import RateLimiter
from .writing import SAYS, Said, Server, batch, collected, sent, stopped, units

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

FORMAT = 1
PARTS = 8
"""of one queue's entries: more would not be faster, its server does one step at a time"""
MOST_PARTS = 256
STEP = 40
"""entries of a step: at 12 to 17 µs each it keeps the server for less than a millisecond"""
GROUPS = 20
_NAME = "plan.json"


@dataclass(frozen=True, slots=True)
class QueueReplay:
    """What is to be done in one queue."""

    header: PlanHeader
    parts: int
    count: int
    groups: Mapping[str, int] = field(default_factory=dict)
    """how many of each group of errors, the largest first"""
    sample: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Orders:
    """A plan in its folder. The ``u``-th unit of work is part ``u % parts`` of order
    ``u // parts``; those without rows have no folder."""

    path: Path
    orders: tuple[QueueReplay, ...]
    choice: Mapping[str, Any] = field(default_factory=dict)
    """what the entries were chosen by: see `ReplayRequest.choice`"""

    def of(self, asked: ReplayRequest) -> Orders:
        """The same, refused where something else is asked for than was planned."""
        wanted = asked.choice
        other = [name for name in wanted if self.choice.get(name) != wanted[name]]
        if other:
            raise BadInput(
                f"{self.path} holds another plan (other {', '.join(other)}): "
                "choose another folder, or remove it"
            )
        return self

    def paced(self, rate: float | None) -> Orders:
        """The same at another rate; steps stay as they are, or those carried out would be others
        than those to come."""
        paced = (replace(each, header=replace(each.header, rate=rate)) for each in self.orders)
        return replace(self, orders=tuple(paced))

    @property
    def line(self) -> PlanHeader | None:
        """Whose line all tasks stand in, of whatever queue, so that the rate is the whole job's."""
        return next((order.header for order in self.orders if order.count), None)

    @classmethod
    def read(cls, path: Path) -> Orders | None:
        """The plan of a folder; None where there is none, or only the beginning of one."""
        try:
            found = json.loads((path / _NAME).read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            raise BadInput(f"{path / _NAME}: not to be read as a plan: {error}") from error
        version = found.get("redisq_spark_plan") if isinstance(found, dict) else None
        if version != FORMAT:
            raise SchemaTooNew(f"{path / _NAME}: format {version}, this release knows {FORMAT}")
        orders = tuple(
            QueueReplay(PlanHeader(**row.pop("header")), **row) for row in found["orders"]
        )
        return cls(path, orders, found.get("choice", {}))

    def write(self) -> None:
        """Put it down as a whole: with this file it is a plan, without it nothing."""
        rows = [asdict(order) for order in self.orders]
        part = self.path / f".{_NAME}.{os.getpid()}"
        part.unlink(missing_ok=True)
        with part.open("x", encoding="utf-8") as file:
            whole = {"redisq_spark_plan": FORMAT, "choice": self.choice, "orders": rows}
            json.dump(whole, file)
            file.flush()
            os.fsync(file.fileno())
        part.replace(self.path / _NAME)

    @property
    def rows(self) -> Path:
        return self.path / "entries"

    def units(self) -> list[int]:
        """The units that have something to do."""
        return sorted(int(each.name.partition("=")[2]) for each in self.rows.glob("part=*"))

    def plans(self) -> list[Preview]:
        """What will be done, in words, a plan for each queue; as every other face shows it."""
        return [_shown(order) for order in self.orders if order.count]


def _shown(order: QueueReplay) -> Preview:
    header = order.header
    title = f"{header.verb} {entries(order.count, header.state)} of {header.queue}"
    lines = [", ".join(order.sample[:3]) + (", …" if order.count > 3 else ""), MEANS[header.verb]]
    if order.groups:
        most = list(order.groups.items())[:4]
        lines.append("error groups: " + ", ".join(f"{group} {count(n)}" for group, n in most))
    if header.rate:
        lines.append(f"about {age(int(1000 * order.count / header.rate))} at {header.rate:g}/s")
    facts = {
        "verb": header.verb, "queue": header.queue, "state": header.state,
        "filter": header.filter, "matched": order.count, "groups": dict(order.groups),
        "sample": list(order.sample), "op": header.op,
    }  # fmt: skip
    return Preview(
        f"{title} (filter: {header.filter})", tuple(lines),
        typed(header.verb, order.count, header.queue), facts,
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class ReplayRequest:
    """What is wanted of the entries that are chosen."""

    verb: Verb
    state: State
    what: str
    """the choice in words, for the journal"""
    author: Author
    rate: float | None = None
    parts: int = PARTS
    queues: tuple[str, ...] = ()
    """none: all that can"""
    payloads: bool = False
    since: str | None = None
    until: str | None = None
    """as they were said: an age is another moment when it is said again"""

    @property
    def choice(self) -> dict[str, Any]:
        """What tells a plan from another one, as a folder keeps it; not who, why and how fast."""
        return {
            "verb": self.verb, "state": self.state, "choice": self.what,
            "--queue": list(self.queues), "--payloads": self.payloads, "--since": self.since,
            "--until": self.until, "--parts": self.parts,
        }  # fmt: skip

    def __post_init__(self) -> None:
        if not 1 <= self.parts <= MOST_PARTS:
            raise BadInput(f"--parts {self.parts}: 1 to {MOST_PARTS}")


def headers(server: Server, asked: ReplayRequest, queues: Sequence[str] = ()) -> list[PlanHeader]:
    """What would be done in each queue (of those named, or all that can). Before anything is
    chosen: what comes into the state after this moment is not meant."""
    deployment, client = server.deployment(), server.client
    if queues:
        there = [run(client, deployment.queue(name)) for name in queues]
        for queue in there:
            allowed(queue, asked.verb, asked.state)
    else:
        able = run(client, deployment.queues())
        there = [queue for queue in able if asked.state in queue.actions.get(asked.verb, ())]
    found = []
    for queue in there:
        now_ms = run(client, queue.now.op())
        created_ms, run_id = run(client, identity(queue, deployment))
        found.append(
            PlanHeader(
                op=audit_log.new_id(asked.verb), queue=queue.name, kind=queue.kind,
                prefix=server.prefix, created_ms=created_ms, server=run_id, verb=asked.verb,
                state=asked.state, consumer="operator", argument=LEASE_MS, high_water_ms=now_ms,
                filter=asked.what, who=asked.author.who, whence=asked.author.whence,
                why=asked.author.why, planned_ms=now_ms, rate=asked.rate,
                step=min(STEP, max(1, int(asked.rate))) if asked.rate else STEP,
            )
        )  # fmt: skip
    return found


def choose(
    frame: DataFrame, made: Sequence[PlanHeader], asked: ReplayRequest, path: Path
) -> Orders:
    """Write the entries of ``frame`` down as a plan in the folder ``path``.

    ``frame`` has the columns of a table of entries (`tables`); rows of other queues, and of other
    states, are left out, and one that is there twice is one.
    """
    from pyspark.sql import functions as F

    places = [F.lit(word) for k, header in enumerate(made) for word in (header.queue, k)]
    if not places:
        return Orders(path, (), asked.choice)
    names = set(frame.columns)
    # Nothing else tells it from a later entry of that id.
    times = F.lit(None).cast("long")
    if {"since_at", "ready_at"} <= names:
        ready_ms = F.unix_millis("ready_at")
        times = F.when(F.col("since_at").isNull(), ready_ms) if asked.state == "delayed" else times
    group = F.col("fingerprint") if "fingerprint" in names else F.lit(None).cast("string")
    rows = (
        frame.where(F.col("id").isNotNull())
        .where(F.col("state") == asked.state if "state" in names else F.lit(True))
        .select(F.create_map(*places)[F.col("queue")].alias("place"), "id", times.alias("at_ms"),
                group.alias("fingerprint"))
        .where(F.col("place").isNotNull())
        .dropDuplicates(["place", "id"])
        .withColumn("part", F.col("place") * asked.parts + F.pmod(F.xxhash64("id"), asked.parts))
    )  # fmt: skip
    orders = Orders(path, ())
    place = orders.rows.absolute().as_uri()
    rows.drop("place").write.mode("overwrite").partitionBy("part").parquet(place)
    counted, samples = _counted(orders, asked.parts)
    chosen = []
    for k, header in enumerate(made):
        ids = counted.get(k, Counter())
        groups = {group: n for group, n in ids.most_common(GROUPS) if group}
        chosen.append(QueueReplay(header, asked.parts, ids.total(), groups, samples.get(k, [])))
    orders = Orders(path, tuple(chosen), asked.choice)
    orders.write()
    return orders


def _counted(orders: Orders, parts: int) -> tuple[dict[int, Counter[str]], dict[int, list[str]]]:
    """How many of each group every order has, and some ids; file by file, in bounded memory."""
    found: dict[int, Counter[str]] = {}
    samples: dict[int, list[str]] = {}
    for unit in orders.units():
        counter = found.setdefault(unit // parts, Counter())
        sample = samples.setdefault(unit // parts, [])
        for rows in part_rows(orders.rows, unit):
            counter.update(group or "" for group in rows.column("fingerprint").to_pylist())
            sample += rows.column("id").slice(0, max(0, 10 - len(sample))).to_pylist()
    return found, samples


def part_rows(rows: Path, unit: int) -> Iterator[pa.RecordBatch]:
    """The rows of a unit, always in the same order, a few thousand at a time."""
    import pyarrow.parquet as pq

    for name in sorted((rows / f"part={unit}").glob("*.parquet")):
        with pq.ParquetFile(name) as file:
            yield from file.iter_batches(batch_size=5000)


Row = tuple[str, int | None]


def steps(rows: Path, unit: int, size: int) -> Iterator[list[Row]]:
    """A unit cut into its steps."""
    step: list[Row] = []
    for some in part_rows(rows, unit):
        for row in zip(some.column("id").to_pylist(), some.column("at_ms").to_pylist(),
                       strict=True):  # fmt: skip
            step.append(row)
            if len(step) == size:
                yield step
                step = []
    if step:
        yield step


@dataclass(frozen=True, slots=True)
class OperationPart:
    """One part of an operation, for one task. Run as often as you like, also several at once."""

    server: Server
    rows: Path
    header: PlanHeader
    parts: int
    unit: int
    told: Callable[[int], object] | None = None
    """is told the number of each step that was carried out"""
    line: PlanHeader | None = None
    """whose line it stands in, of another queue perhaps; its own"""

    @property
    def name(self) -> str:
        return audit_log.part(self.header.op, self.unit % self.parts)

    def run(self) -> Counter[str]:
        """Carry it out to its end; how many got which word, by other attempts as well: ``moved``
        as the journal counts it, ``earlier`` for what they left out."""
        client, header = self.server.client, self.header
        queue = sent(client, partial(home, self.server.deployment(), header))
        standing(client, queue, header)
        line = self.line or header
        at = queue
        if header.rate is not None and line.queue != header.queue:
            at = sent(client, partial(self.server.deployment().queue, line.queue))
        pace = RateLimiter(queue, line.op, header.rate, header.step, line=at)
        room = VERBS[header.verb][1] == "waiting"
        reached, *_ = sent(client, partial(audit_log.reached, queue, self.name))
        said: Counter[str] = Counter()
        passed = 0
        for number, rows in enumerate(steps(self.rows, self.unit, header.step), 1):
            if number < reached:
                passed += len(rows)
                continue
            # The last one that was carried out is sent again: shards that a kill left without it
            # get it now, all others answer as they did.
            if number > reached:
                pace.wait(client, len(rows), room=room)
            words = self._sent(client, queue, number, rows)
            if words is None:
                standing(client, queue, header)
                reached, _, _ = sent(client, partial(audit_log.reached, queue, self.name))
                passed += len(rows)
                continue
            said.update(words)
            if self.told is not None:
                self.told(number)
        _, done, _ = sent(client, partial(audit_log.reached, queue, self.name))
        left = {word: n for word, n in said.items() if word != "moved"}
        total = passed + said.total()
        earlier = max(0, total - done - sum(left.values()))
        return +Counter({"moved": done, **left, "earlier": earlier})

    def _sent(
        self, client: BlockingClient, queue: Queue[Any], number: int, rows: list[Row]
    ) -> list[str] | None:
        """A step's words; None: others are further on, or it was taken back."""
        header = self.header
        move = partial(
            queue.move.op, self.name, number, [id for id, _ in rows], source=header.state,
            target=VERBS[header.verb][1], high_water_ms=header.high_water_ms,
            consumer=header.consumer, lease_ms=header.argument,
            times={id: at_ms for id, at_ms in rows if at_ms is not None},
        )  # fmt: skip
        try:
            words: list[str] = sent(client, move)
        except Superseded:
            return None
        return words if len(words) == len(rows) else None


def standing(client: BlockingClient, queue: Queue[Any], header: PlanHeader) -> Operation:
    """The operation as the journal has it; refuses one that was taken back."""
    operation = sent(client, partial(audit_log.read, queue, header.op))
    if operation is None:
        raise Refused(f"{header.op} is not in the journal ({hint('log')} shows what is)")
    if operation.taken_back:
        raise Refused(f"this plan was carried out and undone ({header.op}): plan again")
    return operation


@dataclass(frozen=True, slots=True)
class ReplayTasks:
    """The units of a plan as what Spark's tasks do; says a few rows for each."""

    server: Server
    orders: Orders
    told: Callable[[int], object] | None = None

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        work = self.orders.units()
        for nth in units(batches):
            unit = work[nth]
            order = self.orders.orders[unit // self.orders.orders[0].parts]
            part = OperationPart(
                self.server, self.orders.rows, order.header, order.parts, unit, self.told,
                self.orders.line,
            )  # fmt: skip
            try:
                yield batch([Said(unit, word, n) for word, n in part.run().items() if n])
            except RedisqError as error:
                yield batch([stopped(unit, error)])


def check(server: Server, orders: Orders) -> None:
    """Refuse a plan that was taken back, or whose queue isn't the one that was planned for."""
    client = server.client
    for order in orders.orders:
        if order.count:
            queue = run(client, home(server.deployment(), order.header))
            if run(client, audit_log.read(queue, order.header.op)) is not None:
                standing(client, queue, order.header)


def begin(server: Server, orders: Orders) -> None:
    """Write every operation down before its first step; on the second time nothing."""
    client = server.client
    for order in orders.orders:
        header = order.header
        if not order.count:
            continue
        queue = run(client, home(server.deployment(), header))
        if run(client, audit_log.read(queue, header.op)) is not None:
            standing(client, queue, header)
            continue
        checked_age(header, run(client, queue.now.op()))
        run(client, _begun(queue, header, order))


async def _begun(queue: Queue[Any], header: PlanHeader, order: QueueReplay) -> None:
    await audit_log.begin(
        queue, header.op, header.verb, Author(header.who, header.whence, header.why),
        header.filter, now_ms=await queue.now.op(), source=header.state,
        target=VERBS[header.verb][1], matched=order.count, parts=order.parts,
    )  # fmt: skip


def outcomes(server: Server, orders: Orders, said: Sequence[Said] = ()) -> list[ChangeOutcome]:
    """How far each operation is: what was done as the journal has it, the rest as tasks said."""
    found = []
    for order in orders.orders:
        if not order.count:
            continue
        header = order.header
        queue = run(server.client, server.deployment().queue(header.queue))
        operation = run(server.client, audit_log.read(queue, header.op))
        outcome = ChangeOutcome(header.op, order.count, operation.done if operation else 0)
        for each in said:
            mine = orders.orders[each.unit // order.parts] is order
            if mine and each.word != "moved" and each.error is None:
                outcome.skip(each.word, each.n)
        found.append(outcome)
    return found


def apply(
    spark: SparkSession,
    server: Server,
    orders: Orders,
    progress: Callable[[int, int | None], object] = lambda done, total: None,
    told: Callable[[int], object] | None = None,
) -> list[ChangeOutcome]:
    """Carry a plan out, or go on with it; what each queue's operation came to.

    Raises what a task refused for, after all others ended; `outcomes` says what was done by then.
    """
    total = sum(order.count for order in orders.orders)
    if not total:
        return []
    begin(server, orders)
    work = len(orders.units())
    frame = spark.range(0, work, 1, work).mapInArrow(ReplayTasks(server, orders, told), SAYS)
    said = collected(
        spark, frame, lambda: progress(sum(o.done for o in outcomes(server, orders)), total)
    )
    for error in (each.error for each in said):
        if error is not None:
            raise error
    for order in orders.orders:
        if order.count:
            queue = run(server.client, server.deployment().queue(order.header.queue))
            run(server.client, audit_log.note(queue, order.header.op, ended=1))
    return outcomes(server, orders, said)

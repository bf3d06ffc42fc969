"""`m`: the worker processes of a queue: redisq's, and those registered by other programs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from textual.binding import Binding, BindingType

from redisq_ops.core.model.worker_process import Process
from redisq_ops.ops.inspect.snapshot import ListedQueue, Snapshot
from redisq_ops.ops.terminal import age, count
from redisq_ops.tui.outline.outline import OutlineSection, fact, fact_section
from redisq_ops.tui.table.table_model import Cell
from redisq_ops.tui.theme import BAD, DIM, HELD, OK, WARN

from .base import Items, QueueView, SortOrder
from .columns import Column, ages, ago, number, texts
from .delayed import moment, zone_of

if TYPE_CHECKING:
    from redisq_ops.core.model.worker_command import WorkerWord

STATES = {True: ("alive", OK), False: ("silent", BAD), None: ("unknown", DIM)}


def _state(process: Process, _: object) -> Cell:
    return (
        ("quiet", WARN) if process.quiet and process.alive is not False else STATES[process.alive]
    )


def _silent(process: Process, _: object) -> Cell:
    return "-" if process.silent_ms is None else age(process.silent_ms)


def _queues(process: Process, _: object) -> Cell:
    return process.problem or ", ".join(process.queues)


def _jobs(process: Process, _: object) -> Cell:
    return number(len(process.work), HELD) if process.work_known else ("-", DIM)


class ProcessesView(QueueView):
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("K", "app.begin('request cancel')", "Stop", id="begin-request-cancel"),
    ]
    name_ = "processes"
    title = "processes"
    short = "procs"
    about = "Worker processes"
    at_once = True
    named_rows = True
    tells: ClassVar[Mapping[str, WorkerWord]] = {"hold": "quiet", "request cancel": "stop"}
    explains_rows = False
    columns = (
        texts("process", "process", 24, lambda p: p.name, flex=2),
        Column("state", "state", 8, _state, lambda p: p.alive),
        Column("silent", "silent", 8, _silent, lambda p: p.silent_ms, align="right", falls=True),
        Column("jobs", "jobs", 5, _jobs, lambda p: len(p.work), align="right", falls=True),
        ages("up", "up", 8, lambda p: p.since_ms, priority=1),
        texts("host", "host", 12, lambda p: p.host, "", flex=1, style=DIM, priority=3),
        Column("queues", "queues", 12, _queues, lambda p: p.queues, flex=2, priority=2),
    )
    usual = SortOrder("process", words="by name", back="by name, from the end")
    empty = "no worker process is registered: each is listed while it runs"

    @classmethod
    def offered_by(cls, queue: ListedQueue | None) -> bool:
        """A redisq worker can serve any queue with redisq's settings."""
        return queue is not None and (queue.has_settings or "HasWorkerTraces" in queue.features)

    def items(self, snapshot: Snapshot) -> Items:
        return Items(0, len(snapshot.processes), snapshot.processes)

    def words(self, item: Any) -> tuple[str, ...]:
        return (item.name, item.host, *item.queues)

    def preview_sections(self, item: Any, snapshot: Snapshot) -> list[OutlineSection]:
        process: Process = item
        jobs = [
            fact(
                "" if job.since_ms is None else f"for {ago(job.since_ms, snapshot)}",
                f"{job.id}  of {job.queue or 'an unknown queue'}  {job.problem or ''}".rstrip(),
            )
            for job in process.work
        ]
        none = fact("none" if process.work_known else "unknown", "")
        known = [fact("process", f"{process.pid or 'unknown'} on {process.host or 'unknown'}")]
        if (since := process.since_ms) is not None:
            began = f"{moment(since, zone_of(self))}  ({ago(since, snapshot)} ago)"
            known.append(fact("started", began))
        known += [fact("serves", queue) for queue in process.queues]
        if process.alive is False and process.work:
            known.append(fact("its jobs", self._taken_over(snapshot), WARN))
        title = f"jobs  {count(len(jobs))}, as of its last heartbeat"
        return [
            fact_section("jobs", title, jobs or [none]),
            fact_section("process", process.name, known),
        ]

    @staticmethod
    def _taken_over(snapshot: Snapshot) -> str:
        """How jobs of a silent process run again."""
        queue = snapshot.queue
        if queue is not None and "HasWorkerProcesses" in queue.features:
            return f"wait until it is removed: :workers rm {queue.name}"
        return "wait again once their leases end: 4 lists them, R requeues them now"

    def identity(self, item: Any) -> str:
        return str(item.name)

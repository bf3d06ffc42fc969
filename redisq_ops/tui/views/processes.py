"""`m`: the worker processes of a queue: redisq's, and those that Sidekiq and others register."""

from __future__ import annotations

from typing import Any

from redisq_ops.core.model.worker_process import Process
from redisq_ops.ops.inspect.snapshot import ListedQueue, Snapshot
from redisq_ops.ops.terminal import age
from redisq_ops.tui.outline import OutlineSection, fact, fact_section
from redisq_ops.tui.table_model import TableColumn, TableRow
from redisq_ops.tui.theme import BAD, DIM, HELD, OK, WARN

from .base import Items, QueueView, SortOrder
from .dead_letters import ago
from .requests import number

STATES = {True: ("alive", OK), False: ("silent", BAD), None: ("unknown", DIM)}


class ProcessesView(QueueView):
    name_ = "processes"
    title = "processes"
    short = "procs"
    about = "Worker processes"
    named_rows = True
    columns = (
        TableColumn("process", "process", 24, flex=2),
        TableColumn("state", "state", 8),
        TableColumn("silent", "silent", 8, align="right"),
        TableColumn("jobs", "jobs", 5, align="right"),
        TableColumn("up", "up", 8, align="right", priority=1),
        TableColumn("host", "host", 12, flex=1, style=DIM, priority=3),
        TableColumn("queues", "queues", 12, flex=2, priority=2),
    )
    orders = (
        SortOrder("process", words="by name", back="by name, from the end"),
        SortOrder("state", lambda p: p.alive),
        SortOrder("silent", lambda p: p.silent_ms, True),
        SortOrder("jobs", lambda p: len(p.work), True),
        SortOrder("up", lambda p: p.since_ms),
        SortOrder("host", lambda p: p.host),
        SortOrder("queues", lambda p: p.queues),
    )
    empty = "no worker process is registered"

    @classmethod
    def offered_by(cls, queue: ListedQueue | None) -> bool:
        """Our own workers serve every queue that has settings of ours."""
        return queue is not None and (queue.has_settings or "HasWorkerTraces" in queue.features)

    @property
    def window(self) -> tuple[int, int]:
        return 0, 1  # the register is read as a whole

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
        found = super().preview_sections(item, snapshot)
        return [*found, fact_section("jobs", "its jobs, as of its last heartbeat", jobs or [none])]

    @property
    def subject(self) -> str | None:
        return None

    def row(self, item: Any, snapshot: Snapshot) -> TableRow:
        process: Process = item
        state = STATES[process.alive] if not process.quiet else ("quiet", WARN)
        silent = "-" if process.silent_ms is None else age(process.silent_ms)
        return TableRow(
            process.name,
            (
                process.name,
                STATES[False] if process.alive is False else state,
                silent,
                number(len(process.work), HELD) if process.work_known else ("-", DIM),
                ago(process.since_ms, snapshot),
                process.host,
                process.problem or ", ".join(process.queues),
            ),
        )

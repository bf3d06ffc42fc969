"""`x`: the tasks of a queue: rates, failures, run times, the latest error."""

from __future__ import annotations

from typing import Any

from redisq_ops.core.model.task_figures import TaskFigures
from redisq_ops.ops.inspect.snapshot import Snapshot
from redisq_ops.ops.terminal import count
from redisq_ops.tui.outline.outline import OutlineSection, fact, fact_section
from redisq_ops.tui.table.table_model import Cell, TableColumn, TableRow
from redisq_ops.tui.theme import BAD, DIM, WARN

from .base import Items, QueueView, SortOrder
from .dead_letters import ago
from .delayed import moment, zone_of
from .requests import number


class TasksView(QueueView):
    name_ = "tasks"
    title = "tasks"
    short = "tasks"
    about = "Tasks: rate, run times"
    explains_rows = False
    columns = (
        TableColumn("task", "task", 24, flex=2),
        TableColumn("rate", "/min", 7, align="right"),
        TableColumn("ended", "ended", 7, align="right", priority=2),
        TableColumn("failed", "failed", 7, align="right"),
        TableColumn("p50", "p50", 9, align="right"),
        TableColumn("p95", "p95", 9, align="right"),
        TableColumn("last", "last", 7, align="right", priority=1),
        TableColumn("error", "last error", 20, flex=3),
    )
    orders = (
        SortOrder("rate", None, True, "most frequent first", "rarest first"),
        SortOrder("task", lambda t: t.task),
        SortOrder("ended", lambda t: t.ended, True),
        SortOrder("failed", lambda t: t.failed, True),
        SortOrder("p50", lambda t: t.p50_ms, True),
        SortOrder("p95", lambda t: t.p95_ms, True),
        SortOrder("last", lambda t: t.error_ms, True),
        SortOrder("error", lambda t: t.error and t.error.line),
    )
    empty = "no run of a task is known in QUEUE"

    @property
    def window(self) -> tuple[int, int]:
        return 0, 1  # they are read as a whole

    def items(self, snapshot: Snapshot) -> Items:
        found = snapshot.tasks.tasks if snapshot.tasks else ()
        return Items(0, len(found), found)

    def words(self, item: Any) -> tuple[str, ...]:
        return (_name(item), item.error.line if item.error else "")

    def row(self, item: Any, snapshot: Snapshot) -> TableRow:
        from redisq_ops.ops.inspect.task_report import rate_words, time_words

        task: TaskFigures = item
        report = snapshot.tasks
        assert report is not None
        unknown: Cell = ("-", DIM)
        return TableRow(
            _name(task),
            (
                _name(task),
                rate_words(report.per_min(task)) or unknown,
                unknown if task.ended is None else count(task.ended),
                unknown if task.failed is None else number(task.failed, BAD),
                time_words(task.p50_ms, report.times) or unknown,
                time_words(task.p95_ms, report.times) or unknown,
                ago(task.error_ms, snapshot),
                task.error.line if task.error else unknown,
            ),
        )

    def preview_sections(self, item: Any, snapshot: Snapshot) -> list[OutlineSection]:
        """What the figures are of, and the releases that the queue's program marked."""
        from redisq_ops.ops.inspect.task_report import window_words

        task, report = item, snapshot.tasks
        assert report is not None
        known = [fact("of", window_words(report))]
        if task.timed:
            known.append(fact("times of", f"{count(task.timed)} runs"))
        known += [fact("note", remark, WARN) for remark in report.remarks]
        known += [
            fact("deployed", f"{moment(mark.at_ms, zone_of(self))}  {mark.label}")
            for mark in report.marks
        ]
        error = [fact(task.error.type, task.error.message)] if task.error else [fact("none", "")]
        return [
            fact_section("task", _name(task), known),
            fact_section("error", "last error", error),
        ]

    def _nothing_here(self, snapshot: Snapshot) -> str:
        remarks = snapshot.tasks.remarks if snapshot.tasks else ()
        return ": ".join([super()._nothing_here(snapshot), *remarks[:1]])

    @property
    def status(self) -> list[str]:
        from redisq_ops.ops.inspect.task_report import window_words

        report = self.snapshot and self.snapshot.tasks
        return [*super().status, *([window_words(report)] if report else [])]


def _name(task: TaskFigures) -> str:
    """What a row is called; no task has such a name in brackets."""
    return "(all)" if task.every else task.task or "(unknown)"

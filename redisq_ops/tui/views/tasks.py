"""`x`: the tasks of a queue: rates, failures, run times, the latest error."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from redisq_ops.core.model.task_figures import TaskFigures, TaskReport
from redisq_ops.ops.inspect.snapshot import Snapshot
from redisq_ops.ops.terminal import count
from redisq_ops.tui.outline.outline import OutlineSection, fact, fact_section
from redisq_ops.tui.table.table_model import Cell
from redisq_ops.tui.theme import BAD, DIM, WARN

from .base import Items, QueueView, SortOrder
from .columns import Column, ages, number, numbers, texts
from .delayed import moment, zone_of

_UNKNOWN: Final = ("-", DIM)


def _rate(task: TaskFigures, view: TasksView) -> Cell:
    from redisq_ops.ops.inspect.task_report import rate_words

    return rate_words(view.report.per_min(task)) or _UNKNOWN


def _ended(task: TaskFigures, _: object) -> Cell:
    return _UNKNOWN if task.ended is None else count(task.ended)


def _time(key: str, of: Callable[[TaskFigures], int | None]) -> Column:
    def cell(task: TaskFigures, view: TasksView) -> Cell:
        from redisq_ops.ops.inspect.task_report import time_words

        return time_words(of(task), view.report.times) or _UNKNOWN

    return Column(key, key, 9, cell, of, align="right", falls=True)


def _failed(task: TaskFigures, _: object) -> Cell:
    return _UNKNOWN if task.failed is None else number(task.failed, BAD)


class TasksView(QueueView):
    name_ = "tasks"
    title = "tasks"
    short = "tasks"
    about = "Tasks: rate, run times"
    at_once = True
    explains_rows = False
    columns = (
        Column("task", "task", 24, lambda t, _: _name(t), lambda t: t.task, flex=2),
        Column("rate", "/min", 7, _rate, align="right"),
        replace(numbers("ended", "ended", 7, lambda t: t.ended, priority=2), cell=_ended),
        replace(numbers("failed", "failed", 7, lambda t: t.failed), cell=_failed),
        _time("p50", lambda t: t.p50_ms),
        _time("p95", lambda t: t.p95_ms),
        ages("last", "last", 7, lambda t: t.error_ms, priority=1, falls=True),
        texts("error", "last error", 20, lambda t: t.error and t.error.line, _UNKNOWN, flex=3),
    )
    usual = SortOrder("rate", None, True, "most frequent first", "rarest first")
    empty = "no run of a task is known in QUEUE"

    @property
    def report(self) -> TaskReport:
        """What the rows are of."""
        assert self.snapshot and self.snapshot.tasks
        return self.snapshot.tasks

    def items(self, snapshot: Snapshot) -> Items:
        found = snapshot.tasks.tasks if snapshot.tasks else ()
        return Items(0, len(found), found)

    def words(self, item: Any) -> tuple[str, ...]:
        return (_name(item), item.error.line if item.error else "")

    def identity(self, item: Any) -> str:
        return _name(item)

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

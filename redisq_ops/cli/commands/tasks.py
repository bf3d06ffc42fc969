"""`redisq tasks`: rates, failures and run times by task."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import typer

from redisq_ops.core.model.errors import BadInput
from redisq_ops.core.model.exit_codes import DONE, PARTLY_DONE
from redisq_ops.ops.filter.time import duration_ms

from ..options import argument, command, option
from ..output import emit, printable, say, table, when
from ..session import Session

if TYPE_CHECKING:
    from redisq_ops.core.model.task_figures import TaskReport

    from ..output_types.queues import TaskOutput

commands = typer.Typer()


@command(commands, "tasks", prints="Task", repeats=True)
def tasks(
    s: Session,
    *,
    names: list[str] | None = argument("[QUEUE]...", "Queues, also 'mail*'; default: all queues."),
    last: str = option("--last", "SPAN", "Only runs that ended in this time, at most 1d.", "1h"),
    by: str = option("--by", "FIELD", "Field that names a task: payload.type, client.", "task"),
) -> int:
    """List the tasks of queues: runs, rate, failures, run times (p50, p95), last error.

    What is known depends on what the queue's program keeps: each line about a queue says what was
    read, and since when. Unknown is '-'. Exit 3 if a queue could not be read; the others are shown.

    Examples:
      redisq tasks sidekiq
      redisq tasks 'celery:*' --last 20m --json
      redisq tasks mail --by payload.type
    """
    from redisq_ops.core.redis.operation import apart, together
    from redisq_ops.ops.inspect.task_report import MOST_MS, TaskReader

    from ..address import queues_named, tell_unread_queues
    from ..filter_options import value_counts

    span, field = duration_ms(last), value_counts(by).field
    if not 0 < span <= MOST_MS:
        raise BadInput(f"--last {last}: give more than 0s and at most 1d")
    queues, unread = queues_named(s, names or [])
    now = s.run(queues[0].now.op()) if queues else 0
    found = s.run(
        together(apart(TaskReader(each, span, field, s.redaction).read(now)) for each in queues)
    )
    reports: dict[str, TaskReport] = {}
    for queue, report in zip(queues, found, strict=True):
        if not isinstance(report, Exception):
            reports[queue.name] = report
        elif len(queues) == 1:
            raise report
        else:
            unread[queue.name] = str(report)
    print_tasks(s, reports)
    return PARTLY_DONE if tell_unread_queues(unread) else DONE


def print_tasks(s: Session, reports: Mapping[str, TaskReport]) -> None:
    """The tasks of queues, and what is known of each queue."""
    from redisq_ops.ops.inspect.task_report import window_words

    rows: list[TaskOutput] = []
    for name, report in reports.items():
        rows += (of_queue := _rows(name, report))
        said = [window_words(report) if of_queue else "no run of a task is known", *report.remarks]
        said += [f"deployed {when(mark.at_ms, s.utc)}: {mark.label}" for mark in report.marks]
        for words in said:
            say(printable(f"{name}: {words}"))
    if s.json:
        for row in rows:
            emit(row)
    elif rows:
        _table(rows, len(reports) > 1)
    if not reports:
        say("no queue's tasks are known")


def _rows(queue: str, report: TaskReport) -> list[TaskOutput]:
    return [
        {
            "queue": queue,
            "task": one.task,
            "every": one.every,
            "ended": one.ended,
            "failed": one.failed,
            "ended_per_min": report.per_min(one),
            "p50_ms": one.p50_ms,
            "p95_ms": one.p95_ms,
            "timed": one.timed,
            "times": report.times if one.timed else None,
            "last_error": None if one.error is None else one.error.line,
            "last_error_ms": one.error_ms,
            "since_ms": report.since_ms,
            "until_ms": report.until_ms,
            "source": report.source,
            "deploys": report.marks,
        }
        for one in report.tasks
    ]


def _table(rows: list[TaskOutput], several: bool) -> None:
    from redisq_ops.ops.inspect.task_report import rate_words, time_words

    heads = [*(["queue"] if several else []), "task", "ended", "/min", "failed", "p50", "p95"]
    table(
        [*heads, "last error"],
        [
            [
                *([row["queue"]] if several else []),
                "(all)" if row["every"] else row["task"],
                row["ended"],
                rate_words(row["ended_per_min"]),
                row["failed"],
                time_words(row["p50_ms"], row["times"]),
                time_words(row["p95_ms"], row["times"]),
                row["last_error"],
            ]
            for row in rows
        ],
    )

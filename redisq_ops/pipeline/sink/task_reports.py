"""What tasks of a writing job report to the driver.

A task returns rows of `TaskReport`. A refusal (a full queue, an undone plan) is a report too: if it
was raised, Spark would repeat the task in vain; so the other tasks go on. `Unreachable` is raised,
so that Spark repeats the task.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from redisq_ops.core.model import errors
from redisq_ops.core.model.errors import RedisqError, Unreachable

if TYPE_CHECKING:
    import pyarrow as pa

TASK_REPORT_SCHEMA = "unit long, word string, n long, detail string"


@dataclass(frozen=True, slots=True)
class TaskReport:
    """How many items of a unit of work had one outcome (``word``), or the error that ended it."""

    unit: int
    word: str
    n: int = 0
    detail: str = ""

    @property
    def error(self) -> RedisqError | None:
        kind = getattr(errors, self.word, None)
        return kind(self.detail) if isinstance(kind, type) else None


def refusal_report(unit: int, error: RedisqError) -> TaskReport:
    """The report of a refused unit; `Unreachable` is raised, so that Spark repeats the task."""
    if isinstance(error, Unreachable):
        raise error
    return TaskReport(unit, type(error).__name__, 1, str(error))


def report_batch(reports: list[TaskReport]) -> pa.RecordBatch:
    """Reports as Arrow, for `TASK_REPORT_SCHEMA`."""
    import pyarrow as pa

    types = {"unit": pa.int64(), "word": pa.string(), "n": pa.int64(), "detail": pa.string()}
    return pa.RecordBatch.from_pylist(list(map(asdict, reports)), pa.schema(types))


def raise_refusal(reports: list[TaskReport]) -> None:
    """Raise the first error among the reports of a job."""
    for report in reports:
        if report.error is not None:
            raise report.error

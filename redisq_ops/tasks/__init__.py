"""Tasks: functions that are called later, in worker processes.

    from redisq_ops.tasks import Tasks, exponential

    jobs = Tasks("jobs")

    @jobs.task(retries=5, backoff=exponential(5, 600), timeout=30)
    def thumbnail(path: str, width: int = 200) -> str: ...

    job = thumbnail.submit("a.png", width=100)
    print(job.result(timeout=30))

``redisq work module:jobs`` runs them. Needs ``redisq-ops[tasks]``. Nothing else of `redisq_ops`
imports this package unless it is given a `Tasks` object.
"""

from redisq_ops import Reject, Retry, exponential
from redisq_ops.core.worker.current import JobFilter, current_job

from .codec import BadArguments
from .job import Batch, Job, JobFailed, JobGone
from .registry import Tasks
from .task import Task

__all__ = [
    "BadArguments",
    "Batch",
    "Job",
    "JobFailed",
    "JobFilter",
    "JobGone",
    "Reject",
    "Retry",
    "Task",
    "Tasks",
    "current_job",
    "exponential",
]

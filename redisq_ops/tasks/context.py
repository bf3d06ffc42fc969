"""The job that runs: for its code, and for its log lines."""

from __future__ import annotations

import logging
from contextvars import ContextVar
from dataclasses import dataclass

from redisq_ops.core.worker.handler import Work


@dataclass(frozen=True, slots=True)
class Running:
    """The job that runs."""

    id: str
    """the same in every attempt: use it as a key to do things only once"""
    task: str
    queue: str
    attempt: int
    """the number of this attempt, from 1"""
    work: Work
    """`Work.extend` renews the lease; `Work.lost`: somebody else has the job by now"""


RUNNING: ContextVar[Running | None] = ContextVar("redisq_job", default=None)


def current_job() -> Running:
    """The job in which this code runs; raises LookupError outside of one."""
    running = RUNNING.get()
    if running is None:
        raise LookupError("no job runs here")
    return running


class JobFilter(logging.Filter):
    """Gives each log record the attributes ``queue``, ``job``, ``task`` and ``attempt``; outside of
    a job they are ``-``.

        handler = logging.StreamHandler()
        handler.addFilter(JobFilter())
        handler.setFormatter(logging.Formatter("%(job)s %(message)s"))
    """

    def filter(self, record: logging.LogRecord) -> bool:
        running = RUNNING.get()
        for name, attribute in (("queue", "queue"), ("job", "id"), ("task", "task")):
            setattr(record, name, getattr(running, attribute) if running else "-")
        record.attempt = running.attempt if running else "-"
        return True

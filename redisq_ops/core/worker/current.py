"""The entry whose handler runs: for code that it calls, and for log lines."""

from __future__ import annotations

import logging

from .handler import RUNNING, Work, log_fields


def current_job() -> Work:
    """The job in which this code runs, as any handler gets it: ``id``, the same in every attempt;
    ``queue``, ``task``, ``attempt``; `Work.extend` renews its lease. Raises LookupError outside of
    a job."""
    work = RUNNING.get()
    if work is None:
        raise LookupError("no job runs here")
    return work


class JobFilter(logging.Filter):
    """Gives each log record the attributes ``queue``, ``job``, ``task`` and ``attempt``; outside of
    a job they are ``-``.

        handler = logging.StreamHandler()
        handler.addFilter(JobFilter())
        handler.setFormatter(logging.Formatter("%(job)s %(message)s"))
    """

    def filter(self, record: logging.LogRecord) -> bool:
        work, said = RUNNING.get(), vars(record)
        fields = {} if work is None else log_fields(work)
        # A worker's own lines say already whose they are.
        said.setdefault("job", said.get("entry", fields.get("entry", "-")))
        for name in ("queue", "task", "attempt"):
            said.setdefault(name, fields.get(name, "-"))
        return True

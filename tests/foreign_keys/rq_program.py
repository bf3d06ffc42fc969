"""A real RQ: its queue ``low`` and workers in this process, also by another release (see
`installed_releases`): no more is used than RQ has had since 1.10."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, timedelta
from typing import Any

import rq
from rq.job import Job
from rq.registry import FailedJobRegistry, FinishedJobRegistry

from . import rq_tasks
from .rq_workers import SimpleWorker

REGISTRIES = {"dead": FailedJobRegistry, "done": FinishedJobRegistry}


class Counting(SimpleWorker):
    """Counts in the hash ``ran`` how often each job ran."""

    def perform_job(self, job: Any, *rest: Any, **options: Any) -> bool:
        self.connection.hincrby("ran", job.id, 1)
        return super().perform_job(job, *rest, **options)


def queue(client: Any, serializer: Any = None) -> rq.Queue:
    return rq.Queue("low", connection=client, serializer=serializer)


def fill(client: Any, serializer: Any = None) -> Mapping[Any, Sequence[str]]:
    """Jobs in each state: their ids, as RQ lists them."""
    theirs = queue(client, serializer)
    for n in range(4):
        theirs.enqueue(rq_tasks.fails, "luck", job_id=f"bad{n}", failure_ttl=9000 + n)
        theirs.enqueue(rq_tasks.fine, n, job_id=f"good{n}")
    SimpleWorker([theirs], connection=client, serializer=serializer).work(
        burst=True, logging_level="CRITICAL"
    )
    for n in range(6):
        theirs.enqueue(rq_tasks.fine, n, job_id=f"w{n}", ttl=9000)
        theirs.enqueue_in(timedelta(seconds=9000 + n), rq_tasks.fine, n, job_id=f"s{n}")
        theirs.enqueue(rq_tasks.fine, n, job_id=f"d{n}", depends_on="w0")
    delayed = theirs.scheduled_job_registry, theirs.deferred_job_registry
    return {
        "waiting": theirs.job_ids,
        "delayed": [id for registry in delayed for id in registry.get_job_ids()],
        "dead": theirs.failed_job_registry.get_job_ids(),
        "done": theirs.finished_job_registry.get_job_ids(),
    }


def work(client: Any, n: int) -> None:
    """A worker, until nothing waits, however many these are."""
    Counting([queue(client)], connection=client).work(burst=True, logging_level="CRITICAL")


def times(client: Any) -> Mapping[str, int | None]:
    due = client.zscore("rq:scheduled:low", "s0")
    ended: Any = Job.fetch("bad0", connection=client).ended_at
    ended_ms = ended.replace(tzinfo=UTC).timestamp() * 1000
    return {"s0": int(due * 1000), "bad0": int(ended_ms), "w0": None, "d0": None}


def requeues(state: str, client: Any, id: str) -> None:
    """RQ leaves the time at which the job would have been forgotten, and then it is gone: redisq
    takes it away."""
    job = Job.fetch(id, connection=client)
    REGISTRIES[state]("low", connection=client).requeue(job)
    client.persist(job.key)


def deletes(client: Any, id: str) -> None:
    Job.fetch(id, connection=client).delete()


def runs(client: Any, id: str) -> None:
    """What RQ's scheduler does with a job that is due."""
    theirs: Any = queue(client)
    job = Job.fetch(id, connection=client)
    theirs.scheduled_job_registry.remove(job)
    # Before RQ 2 the same method had no underscore.
    (theirs._enqueue_job if hasattr(theirs, "_enqueue_job") else theirs.enqueue_job)(job)


def enqueues(client: Any, id: str) -> None:
    """A job of the same id is a job that RQ overwrites."""
    queue(client).enqueue(rq_tasks.fine, "again", job_id=id)

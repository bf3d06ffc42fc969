"""What other programs' specimens hold, by their programs' own keys and calls: for `conform`."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import rq
from rq.job import Job

from redisq_ops.core.foreign.ruby_jobs.job import digest
from redisq_ops.core.model.entry import State
from redisq_ops.testing.conformance import Specimen

from ...foreign_keys import (
    arq_program,
    bullmq_program,
    celery_program,
    dramatiq_program,
    laravel_program,
)  # fmt: skip
from .. import test_conformance

Stated = Mapping[State, Sequence[str]]


def numbered(name: str, n: int) -> list[str]:
    return [f"{name}{i}" for i in range(n)]


def texts(raw: Iterable[bytes]) -> list[str]:
    return [one.decode() for one in raw]


def rq_jobs(client: Any) -> Stated:
    test_conformance.rq_(client)
    theirs = rq.Queue("low", connection=client)
    delayed = theirs.scheduled_job_registry, theirs.deferred_job_registry
    return {
        "waiting": theirs.job_ids,
        "delayed": [id for registry in delayed for id in registry.get_job_ids()],
        "dead": theirs.failed_job_registry.get_job_ids(cleanup=False),
        "done": theirs.finished_job_registry.get_job_ids(cleanup=False),
    }


def rq_requeues(client: Any, id: str) -> None:
    """RQ leaves the time at which the failure would have been forgotten, and then the job is gone:
    redisq takes it away."""
    job = Job.fetch(id, connection=client)
    job.requeue()
    client.persist(job.key)


def rq_deletes(client: Any, id: str) -> None:
    Job.fetch(id, connection=client).delete()


def rq_runs(client: Any, id: str) -> None:
    """What RQ's scheduler does with a job that is due."""
    queue = rq.Queue("low", connection=client)
    job = Job.fetch(id, connection=client)
    queue.scheduled_job_registry.remove(job)
    queue._enqueue_job(job)


def bullmq_jobs(client: Any) -> Stated:
    bullmq_program.specimen(client)
    return {
        "waiting": [*reversed(texts(client.lrange("bull:mail:wait", 0, -1))),
                    *texts(client.zrange("bull:mail:prioritized", 0, -1))],
        "pending": texts(client.lrange("bull:mail:active", 0, -1))[::-1],
        "delayed": numbered("d", 5),
        "dead": texts(client.zrange("bull:mail:failed", 0, -1)),
        "done": texts(client.zrange("bull:mail:completed", 0, -1)),
    }  # fmt: skip


def bullmq_does(method: str, client: Any, id: str) -> None:
    bullmq_program.Program(client).does(id, method)


def dramatiq_messages(client: Any) -> Stated:
    dramatiq_program.specimen(client)
    (acks,) = client.scan_iter("dramatiq:__acks__*")
    return {
        "waiting": texts(client.lrange("dramatiq:low", 0, -1)),
        "pending": texts(client.smembers(acks)),
        "delayed": texts(client.lrange("dramatiq:low.DQ", 0, -1)),
        "dead": texts(client.zrange("dramatiq:low.XQ", 0, -1)),
    }


def arq_jobs(client: Any) -> Stated:
    arq_program.specimen(client)
    return {
        "waiting": numbered("w", 6), "pending": numbered("run", 4), "delayed": numbered("d", 6),
        "dead": numbered("bad", 4), "done": numbered("good", 4),
    }  # fmt: skip


def celery_tasks(client: Any) -> Stated:
    celery_program.specimen(client)
    for id in ("w6", "w7"):
        celery_program.app_on(client).send_task("shop.fine", (id,), task_id=id)
    return {
        "waiting": ["w0", "w4", "w6", "w7", "w1", "w5", "w2", "w3"],  # by priority
        "pending": numbered("run", 4), "delayed": [*numbered("eta", 5), "again"],
        "dead": numbered("bad", 4), "done": numbered("good", 4),
    }  # fmt: skip


def sidekiq_jobs(client: Any) -> Stated:
    test_conformance.sidekiq(client)

    def ids(raw: Iterable[bytes]) -> list[str]:
        return [json.loads(job)["jid"] for job in raw]

    delayed = [ids(client.zrange(key, 0, -1)) for key in ("retry", "schedule")]
    return {
        "waiting": ids(reversed(client.lrange("queue:low", 0, -1))),
        "pending": ids(client.hvals("redisq:sidekiq:low:body")),
        "delayed": [id for of in delayed for id in of],
        "dead": ids(client.zrange("dead", 0, -1)),
    }


def sidekiq_does(does: str, client: Any, id: str) -> None:
    """What a button on its page does."""
    port = client.connection_pool.connection_kwargs["port"]
    environment = os.environ | {"REDIS_URL": f"redis://127.0.0.1:{port}/0"}
    places = "Queue.new('low')", "ScheduledSet.new", "RetrySet.new", "DeadSet.new"
    found = ", ".join(f"Sidekiq::{place}.find_job({id!r})" for place in places)
    code = f"[{found}].compact.each {{ |job| job.{does} }}"
    subprocess.run(["ruby", "-r", "sidekiq/api", "-e", code], env=environment, check=True)


def resque_jobs(client: Any) -> Stated:
    """Its jobs have no ids: ours are of their bytes."""
    test_conformance.SPECIMENS["resque"](client)

    def failed(element: bytes) -> str:
        payload = json.dumps(json.loads(element)["payload"], separators=(",", ":")).encode()
        return f"{digest(payload)[:16]}.{digest(element)[:8]}"

    return {
        "waiting": [digest(job)[:16] for job in client.lrange("resque:queue:low", 0, -1)],
        "pending": [digest(job)[:16] for job in client.hvals("resque:redisq:resque:low:body")],
        "dead": [failed(element) for element in client.lrange("resque:failed", 0, -1)],
    }


def laravel_jobs(client: Any) -> Stated:
    laravel_program.specimen(client)

    def named(name: str, n: int) -> list[str]:
        return [laravel_program.uuid(f"{name}{k}") for k in range(n)]

    return {
        "waiting": named("w", 6), "pending": [*named("lost", 5), laravel_program.uuid("runs")],
        "delayed": named("late", 6), "dead": named("bad", 5)[::-1],
    }  # fmt: skip


def laravel_migrates(part: str, client: Any, id: str) -> None:
    """Horizon would also note that the job is pending, if it hasn't forgotten it."""
    laravel_program.Program(client, horizon="").migrate(part, id)


RQ = Specimen(
    "rq:low", rq_jobs, fixed=frozenset(numbered("d", 6)),
    matters=r"\S+ (score|changed)|rq:(failed|scheduled|queue):low gone"
    r"|rq:job:{id} (gone|status|created_at|enqueued_at|ended_at)",
    follows="rq:job:{id} (started_at|ended_at|exc_info)",
    own_verbs={
        ("replay", "dead"): rq_requeues, ("requeue", "delayed"): rq_runs,
        ("hard", "waiting"): rq_deletes, ("hard", "dead"): rq_deletes,
    },
    differs={"rq:job:{id} enqueued_at": "the time of the call"},
)  # fmt: skip
BULLMQ = Specimen(
    "bullmq:mail", bullmq_jobs, logs="bull:mail:(events|pc)",
    matters=r"bull:mail:\S+ (score|gone|changed)"
    r"|bull:mail:{id} (timestamp|processedOn|finishedOn|atm|name|data|opts|priority)",
    follows="bull:mail:{id} (processedOn|delay)",
    own_verbs={
        ("replay", "dead"): partial(bullmq_does, "retry"),
        ("requeue", "delayed"): partial(bullmq_does, "promote"),
        ("hard", "waiting"): partial(bullmq_does, "remove"),
        ("hard", "delayed"): partial(bullmq_does, "remove"),
        ("hard", "dead"): partial(bullmq_does, "remove"),
    },
    meanwhile={"a worker's": lambda client, id: client.set(f"bull:mail:{id}:lock", "token")},
)  # fmt: skip
DRAMATIQ = Specimen("dramatiq:low", dramatiq_messages, unordered=frozenset({"pending"}))
ARQ = Specimen(
    "arq:arq:queue", arq_jobs, unordered=frozenset({"dead", "done"}),
    meanwhile={"in progress": lambda client, id: client.set(f"arq:in-progress:{id}", "1")},
)  # fmt: skip
CELERY = Specimen(
    "celery:celery", celery_tasks, unordered=frozenset({"pending", "delayed", "dead", "done"})
)
SIDEKIQ = Specimen(
    "sidekiq:low", sidekiq_jobs, unordered=frozenset({"pending"}),
    own_verbs={
        ("replay", "dead"): partial(sidekiq_does, "retry"),
        ("hard", "dead"): partial(sidekiq_does, "delete"),
        ("requeue", "delayed"): partial(sidekiq_does, "add_to_queue"),
        ("hard", "delayed"): partial(sidekiq_does, "delete"),
        ("hard", "waiting"): partial(sidekiq_does, "delete"),
    },
    differs={"queue:low elements": "the time when it was put there"},
)  # fmt: skip
RESQUE = Specimen("resque:low", resque_jobs, unordered=frozenset({"pending"}))
LARAVEL = Specimen(
    "laravel:low", laravel_jobs, fixed=frozenset({laravel_program.uuid("runs")}),
    matters=r"laravel_database_queues:\S+ .*|laravel_horizon:failed_jobs .*"
    r"|laravel_horizon:{id} (gone|status|queue|connection|name|payload|failed_at|retried_by)",
    own_verbs={
        ("replay", "dead"): lambda client, id: laravel_program.Program(client).retry(id),
        ("requeue", "delayed"): partial(laravel_migrates, "delayed"),
        ("requeue", "pending"): partial(laravel_migrates, "reserved"),
        ("hard", "dead"): lambda client, id: laravel_program.Program(client).forget(id),
    },
    differs={
        "laravel_database_queues:low elements": "the time when it was put there",
        "laravel_horizon:(recent|pending)_jobs [0-9a-f-]{36}": "that time",
        "laravel_horizon:[0-9a-f-]{36} (payload|created_at|updated_at|ttl)": "that time",
        "laravel_horizon:{id} retried_by": "that time",
    },
)  # fmt: skip
SPECIMENS = {
    one.queue.partition(":")[0]: one
    for one in (RQ, BULLMQ, DRAMATIQ, ARQ, CELERY, SIDEKIQ, RESQUE, LARAVEL)
}

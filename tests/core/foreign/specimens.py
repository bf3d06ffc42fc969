"""What other programs' specimens hold, by their programs' own keys and calls: for `conform`."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import Any

from rq.serializers import JSONSerializer

from redisq_ops.core.foreign.ruby_jobs.job import digest
from redisq_ops.core.model.entry import State
from redisq_ops.core.model.states import Verb
from redisq_ops.testing.conformance import Specimen

from ...foreign_keys import (
    arq_program,
    asynq_program,
    bull_program,
    bullmq_program,
    celery_program,
    dramatiq_program,
    laravel_program,
    rq_program,
    rq_tasks,
)
from ...foreign_keys.listening_program import listening
from .. import test_conformance

Stated = Mapping[State, Sequence[str]]
JOBS_REMOVED: tuple[tuple[Verb, State], ...] = (
    *(("hard", "waiting"), ("hard", "delayed"), ("hard", "dead"), ("hard", "done")),
)


EDITED: tuple[State, ...] = ("waiting", "delayed", "dead")


def numbered(name: str, n: int) -> list[str]:
    return [f"{name}{i}" for i in range(n)]


def texts(raw: Iterable[bytes]) -> list[str]:
    return [one.decode() for one in raw]


def rq_payloads(client: Any) -> Mapping[str, bytes]:
    job: dict[str, Any] = {
        "description": f"{rq_tasks.__name__}.fine(3)",
        "origin": "low",
        "status": "queued",
    }
    job |= {"timeout": "180", "function": f"{rq_tasks.__name__}.fine", "args": [3], "kwargs": {}}
    size = client.hstrlen("rq:job:w3", "data")
    return {"w3": json.dumps(job | {"data_bytes": size}).encode()}


def bullmq_jobs(client: Any, version: str = bullmq_program.VERSIONS[0]) -> Stated:
    bullmq_program.specimen(client, version)
    return {
        "waiting": [
            *reversed(texts(client.lrange("bull:mail:wait", 0, -1))),
            *texts(client.zrange("bull:mail:prioritized", 0, -1)),
        ],
        "pending": texts(client.lrange("bull:mail:active", 0, -1))[::-1],
        "delayed": numbered("d", 5),
        "dead": texts(client.zrange("bull:mail:failed", 0, -1)),
        "done": texts(client.zrange("bull:mail:completed", 0, -1)),
    }


def bullmq_times(client: Any) -> Mapping[str, int | None]:
    due = client.zscore("bull:mail:delayed", "d2")
    finished = client.hget("bull:mail:bad1", "finishedOn")
    return {"d2": int(due / 4096), "bad1": int(finished), "w0": None}


def bullmq_payloads(client: Any) -> Mapping[str, bytes]:
    name, data, opts = client.hmget("bull:mail:w1", "name", "data", "opts")
    return {"w1": b'{"name":"%b","data":%b,"opts":%b}' % (name, data, opts)}


def bullmq_adds(client: Any, id: str) -> None:
    """BullMQ adds no job of an id that is there."""
    bullmq_does("add", client, id)


def bullmq_does(
    method: str, client: Any, id: str, version: str = bullmq_program.VERSIONS[0]
) -> None:
    bullmq_program.Program(client, version).does(id, method)


def bull_jobs(client: Any, version: str = bull_program.VERSIONS[0]) -> Stated:
    bull_program.specimen(client, version)
    return {
        "waiting": texts(client.lrange("bull:mail:wait", 0, -1))[::-1],
        "pending": texts(client.lrange("bull:mail:active", 0, -1))[::-1],
        "delayed": numbered("d", 5),
        "dead": texts(client.zrange("bull:mail:failed", 0, -1)),
        "done": texts(client.zrange("bull:mail:completed", 0, -1)),
    }


def bull_does(method: str, client: Any, id: str, version: str = bull_program.VERSIONS[0]) -> None:
    bull_program.Program(client, version).does(id, method)


def dramatiq_payloads(client: Any) -> Mapping[str, bytes]:
    """What its actor gets: the message without its queue and what its broker needs."""
    (id,) = texts(client.lrange("dramatiq:low", 0, 0))
    message = json.loads(client.hget("dramatiq:low.msgs", id))
    shown = {name: message[name] for name in ("actor_name", "args", "kwargs", "message_id")}
    return {id: json.dumps(shown | {"options": {}}).encode()}


def arq_jobs(client: Any) -> Stated:
    arq_program.specimen(client)
    return arq_stated(client)


def arq_json(client: Any) -> Stated:
    """By an application that gives arq a serializer of its own."""
    os.environ["ARQ_JSON"] = "1"
    try:
        arq_program.fill(client)
    finally:
        del os.environ["ARQ_JSON"]
    return arq_stated(client)


def arq_stated(client: Any) -> Stated:
    client.set("arq:retry:d1", 2, ex=88_400)
    client.zadd("arq:abort", {"d1": 5.5})
    return {
        "waiting": numbered("w", 6),
        "pending": numbered("run", 4),
        "delayed": numbered("d", 6),
        "dead": numbered("bad", 4),
        "done": numbered("good", 4),
    }


def asynq_tasks(client: Any, unique: bool = True) -> Stated:
    asynq_program.specimen(client, unique)
    return {
        "waiting": numbered("w", 6),
        "pending": [*numbered("run", 4), *numbered("h", 4)],
        "delayed": [*numbered("again", 4), *numbered("s", 6), *numbered("g", 4), "alone"],
        "dead": numbered("bad", 4),
        "done": numbered("good", 4),
    }


def asynq_runs(client: Any, id: str) -> None:
    asynq_program.Program(client).run(id)


def asynq_deletes(client: Any, id: str) -> None:
    asynq_program.Program(client).delete(id)


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


def sidekiq_times(client: Any) -> Mapping[str, int | None]:
    places = [client.zrange(key, 0, -1, withscores=True) for key in ("retry", "schedule", "dead")]
    found = {json.loads(job)["jid"]: round(score * 1000) for of in places for job, score in of}
    (next,) = client.lrange("queue:low", -1, -1)
    return {**found, json.loads(next)["jid"]: None}


def sidekiq_payloads(client: Any) -> Mapping[str, bytes]:
    jobs = client.lrange("queue:low", 0, -1), client.zrange("dead", 0, -1)
    return {json.loads(job)["jid"]: job for of in jobs for job in of}


def sidekiq_does(does: str, client: Any, id: str) -> None:
    """What a button on its page does."""
    port = client.connection_pool.connection_kwargs["port"]
    environment = os.environ | {"REDIS_URL": f"redis://127.0.0.1:{port}/0"}
    places = "Queue.new('low')", "ScheduledSet.new", "RetrySet.new", "DeadSet.new"
    found = ", ".join(f"Sidekiq::{place}.find_job(id)" for place in places)
    code = f"""
        $stdout.sync = true
        while line = gets
          id, method = line.split
          [{found}].compact.each {{ |job| job.send(method) }}
          puts "ok"
        end"""
    command = "ruby", "-r", "sidekiq/api", "-e", code
    listening(*command, environment=tuple(environment.items())).does(f"{id} {does}")


def sidekiq_retries(client: Any, id: str) -> None:
    """Sidekiq counts the attempt that is made at a person's will not as one: redisq does."""
    sidekiq_does("retry", client, id)
    job = json.loads(client.lindex("queue:low", 0))
    job["retry_count"] += 1
    client.lset("queue:low", 0, json.dumps(job))


def resque_jobs(client: Any) -> Stated:
    """Its jobs have no ids: ours are of their bytes."""
    test_conformance.SPECIMENS["resque"](client)
    return resque_ids(client)


def resque_ids(client: Any) -> Stated:
    def failed(element: bytes) -> str:
        payload = json.dumps(json.loads(element)["payload"], separators=(",", ":")).encode()
        return f"{digest(payload)[:16]}.{digest(element)[:8]}"

    return {
        "waiting": [digest(job)[:16] for job in client.lrange("resque:queue:low", 0, -1)],
        "pending": [digest(job)[:16] for job in client.hvals("resque:redisq:resque:low:body")],
        "dead": [failed(element) for element in client.lrange("resque:failed", 0, -1)],
    }


LEASE = r"\S+:(lease score|lease gone|meta {id} gone)"
"""keys of our workers' that these write together, or whenever they renew a lease"""
LEASED = r"(?!\S+:(lease score|meta {id} gone)).*"


def resque_failure(client: Any, id: str) -> tuple[int, bytes]:
    """Where a failure is, and its bytes."""
    elements = client.lrange("resque:failed", 0, -1)
    at = next(n for n, one in enumerate(elements) if digest(one)[:8] == id.rpartition(".")[2])
    return at, elements[at]


def resque_retries(client: Any, id: str) -> None:
    """`Failure.requeue`, which leaves the failure there with a new member, then `remove`."""
    job = json.loads(resque_failure(client, id)[1])
    again = {"class": job["payload"]["class"], "args": job["payload"]["args"]}
    resque_removes(client, id)
    client.sadd("resque:queues", job["queue"])
    client.rpush(f"resque:queue:{job['queue']}", json.dumps(again, separators=(",", ":")))


def resque_removes(client: Any, id: str) -> None:
    """`Failure.remove`."""
    at, _ = resque_failure(client, id)
    client.lset("resque:failed", at, "")
    client.lrem("resque:failed", 1, "")


def resque_destroys(client: Any, id: str) -> None:
    """`Job.destroy`: all that are equal."""
    for job in client.lrange("resque:queue:low", 0, -1):
        if digest(job)[:16] == id:
            client.lrem("resque:queue:low", 0, job)


def resque_times(client: Any) -> Mapping[str, int | None]:
    jobs = client.lrange("resque:queue:low", 0, -1)
    failures = client.lrange("resque:failed", 0, -1)
    ids = resque_ids(client)
    died = [
        datetime.strptime(json.loads(one)["failed_at"], "%Y/%m/%d %H:%M:%S UTC") for one in failures
    ]
    ms = [int(at.replace(tzinfo=UTC).timestamp() * 1000) for at in died]
    return (
        {**dict.fromkeys(ids["waiting"]), **dict(zip(ids["dead"], ms, strict=True))} if jobs else {}
    )


def resque_payloads(client: Any) -> Mapping[str, bytes]:
    jobs = client.lrange("resque:queue:low", 0, -1)
    return dict(zip(resque_ids(client)["waiting"], jobs, strict=True))


def laravel_ids(name: str, n: int) -> list[str]:
    return [laravel_program.uuid(f"{name}{k}") for k in range(n)]


def laravel_jobs(client: Any, handler: str = "") -> Stated:
    laravel_program.specimen(client, handler)
    return {
        "waiting": laravel_ids("w", 6),
        "pending": [*laravel_ids("lost", 5), laravel_program.uuid("runs")],
        "delayed": laravel_ids("late", 6),
        "dead": laravel_ids("bad", 5)[::-1],
        "done": laravel_ids("good", 4)[::-1],
    }


def laravel_migrates(part: str, client: Any, id: str) -> None:
    """By the framework where it is installed. Horizon would also note that the job is pending, if
    it hasn't forgotten it."""
    if laravel_program.framework_installed():
        laravel_program.Framework(client).migrate(part, id)
    else:
        laravel_program.Program(client, horizon="").migrate(part, id)


def framework_jobs(client: Any) -> Stated:
    """Jobs that Laravel itself wrote, and what Horizon keeps."""
    laravel_program.framework_specimen(client)
    return {
        "waiting": laravel_ids("w", 6),
        "pending": [*laravel_ids("lost", 4), laravel_program.uuid("runs")],
        "delayed": [*laravel_ids("again", 3), *laravel_ids("late", 6)],
        "dead": laravel_ids("bad", 4)[::-1],
        "done": laravel_ids("good", 4)[::-1],
    }


RQ = Specimen(
    "rq:low",
    rq_program.fill,
    times=rq_program.times,
    payloads=rq_payloads,
    again=rq_program.enqueues,
    fixed=frozenset(numbered("d", 6)),
    matters=r"\S+ (score|changed)|rq:(failed|finished|scheduled|queue):low gone"
    r"|rq:job:{id} (gone|status|created_at|enqueued_at|ended_at)",
    follows="rq:job:{id} (started_at|ended_at|exc_info)",
    unedited=".*",
    own_verbs={
        ("replay", "dead"): partial(rq_program.requeues, "dead"),
        ("replay", "done"): partial(rq_program.requeues, "done"),
        ("requeue", "delayed"): rq_program.runs,
        **{("hard", state): rq_program.deletes for state in ("waiting", "dead", "done")},
    },
    differs={"rq:job:{id} enqueued_at": "the time of the call"},
)
BULLMQ = Specimen(
    "bullmq:mail",
    bullmq_jobs,
    times=bullmq_times,
    payloads=bullmq_payloads,
    again=bullmq_adds,
    logs="bull:mail:(events|pc)",
    matters=r"bull:mail:\S+ (score|gone|changed)"
    r"|bull:mail:{id} (timestamp|processedOn|finishedOn|atm|name|data|opts|priority)",
    follows="bull:mail:{id} (processedOn|delay)",
    own_verbs={
        ("replay", "dead"): partial(bullmq_does, "retry"),
        ("replay", "done"): partial(bullmq_does, "again"),
        ("requeue", "delayed"): partial(bullmq_does, "promote"),
        **{("edit", state): partial(bullmq_does, "edit") for state in EDITED},
        **dict.fromkeys(JOBS_REMOVED, partial(bullmq_does, "remove")),
    },
    meanwhile={"a worker's": lambda client, id: client.set(f"bull:mail:{id}:lock", "token")},
)
BULL = Specimen(
    "bull:mail",
    bull_jobs,
    matters=r"bull:mail:(?!priority)\S+ (score|gone|changed)"
    r"|bull:mail:{id} (timestamp|processedOn|finishedOn|attemptsMade|name|data|opts|priority)",
    follows="bull:mail:{id} (delay|retriedOn)",
    own_verbs={
        ("replay", "dead"): partial(bull_does, "retry"),
        ("requeue", "delayed"): partial(bull_does, "promote"),
        **{("edit", state): partial(bull_does, "update") for state in EDITED},
        **dict.fromkeys(JOBS_REMOVED, partial(bull_does, "remove")),
    },
    differs={"bull:mail:{id} retriedOn": "the time of the call"},
    meanwhile={"a worker's": lambda client, id: client.set(f"bull:mail:{id}:lock", "token")},
)
DRAMATIQ = Specimen(
    "dramatiq:low",
    dramatiq_program.fill,
    unordered=frozenset({"pending"}),
    times=dramatiq_program.times,
    payloads=dramatiq_payloads,
    own_verbs={
        ("requeue", "pending"): dramatiq_program.gives_back,
        ("requeue", "delayed"): dramatiq_program.enqueues,
    },
    differs={"dramatiq:__heartbeats__ .*": "a broker says with every call that it is there"},
    skips={"waits": "a message keeps when it was sent, and no later time at which it came to wait"},
)
"""it has no verb for one dead letter, and none that removes one message"""
ARQ = Specimen(
    "arq:arq:queue",
    arq_jobs,
    unordered=frozenset({"dead", "done"}),
    unedited=".*",
    times=lambda client: {"d0": int(client.zscore("arq:queue", "d0"))},
    meanwhile={"in progress": lambda client, id: client.set(f"arq:in-progress:{id}", "1")},
)
"""none of its verbs is one of ours: `Job.abort` makes a worker end a job, which leaves a result"""
ASYNQ = Specimen(
    "asynq:low",
    asynq_tasks,
    matters=r"asynq:{low}:\S+ (score|changed)"
    r"|asynq:{low}:(pending|scheduled|retry|archived|completed|g:(ann|zoe)) gone"
    r"|asynq:{low}:t:{id} (gone|msg|state|pending_since|group|unique_key)",
    own_verbs={
        ("replay", "dead"): asynq_runs,
        ("replay", "done"): asynq_runs,
        ("requeue", "delayed"): asynq_runs,
        **{("hard", state): asynq_deletes for state in ("waiting", "delayed", "dead", "done")},
    },
    meanwhile={
        "with a worker": lambda client, id: client.hset(f"asynq:{{low}}:t:{id}", "state", "active")
    },
    unedited=r"(bad|w|s)\d",
)
CELERY = Specimen(
    "celery:celery",
    celery_program.fill,
    unordered=frozenset({"pending", "delayed", "dead", "done"}),
    own_verbs={("replay", "dead"): celery_program.sends, ("hard", "dead"): celery_program.forgets},
    differs={
        "celery elements headers origin": "the process that sent it",
        "celery elements properties delivery_tag": "every message has its own",
        "celery elements properties reply_to": "where results go that aren't kept in Redis",
    },
)
SIDEKIQ = Specimen(
    "sidekiq:low",
    sidekiq_jobs,
    unordered=frozenset({"pending"}),
    times=sidekiq_times,
    payloads=sidekiq_payloads,
    own_verbs={
        ("replay", "dead"): sidekiq_retries,
        ("hard", "dead"): partial(sidekiq_does, "delete"),
        ("requeue", "delayed"): partial(sidekiq_does, "add_to_queue"),
        ("hard", "delayed"): partial(sidekiq_does, "delete"),
        ("hard", "waiting"): partial(sidekiq_does, "delete"),
    },
    differs={"queue:low elements enqueued_at": "the time when it was put there"},
    matters=LEASED,
    follows=LEASE,
)
RESQUE = Specimen(
    "resque:low",
    resque_jobs,
    unordered=frozenset({"pending"}),
    matters=LEASED,
    follows=LEASE,
    times=resque_times,
    payloads=resque_payloads,
    own_verbs={
        ("replay", "dead"): resque_retries,
        ("hard", "dead"): resque_removes,
        ("hard", "waiting"): resque_destroys,
    },
)
"""its own verbs are made from its sources: these tests don't run it"""
LARAVEL = Specimen(
    "laravel:low",
    laravel_jobs,
    fixed=frozenset({laravel_program.uuid("runs")}),
    unedited=".*",
    matters=r"laravel_database_queues:\S+ .*|laravel_horizon:failed_jobs .*"
    r"|laravel_horizon:{id} (gone|status|queue|connection|name|payload|failed_at|retried_by)",
    own_verbs={
        ("replay", "dead"): lambda client, id: laravel_program.Program(client).retry(id),
        ("requeue", "delayed"): partial(laravel_migrates, "delayed"),
        ("requeue", "pending"): partial(laravel_migrates, "reserved"),
        ("hard", "dead"): lambda client, id: laravel_program.Program(client).forget(id),
    },
    differs={
        "laravel_database_queues:low elements pushedAt": "the time when it was put there",
        "laravel_horizon:(recent|pending)_jobs [0-9a-f-]{36}": "that time",
        "laravel_horizon:[0-9a-f-]{36} (payload|created_at|updated_at|ttl)": "that time",
        "laravel_horizon:{id} retried_by": "that time",
    },
)
SPECIMENS = {
    one.queue.partition(":")[0]: one
    for one in (RQ, BULLMQ, BULL, DRAMATIQ, ARQ, ASYNQ, CELERY, SIDEKIQ, RESQUE, LARAVEL)
}
AS_JSON = {
    "rq-json": replace(
        RQ,
        fill=partial(rq_program.fill, serializer=JSONSerializer),
        matters_to_edits="rq:job:{id} (data|description)",
        unedited="(?!)",
    ),
    "arq-json": replace(ARQ, fill=arq_json, unedited="(?!)"),
    "asynq-not-unique": replace(ASYNQ, fill=partial(asynq_tasks, unique=False), unedited="(?!)"),
    "laravel-json": replace(
        LARAVEL, fill=partial(laravel_jobs, handler="Fine@run"), unedited="(?!)"
    ),
}
"""jobs whose form in `SPECIMENS` can't be edited, in one that can: JSON, without a lock"""
EDITS = frozenset(("statements", "undo", "edited", "races", "touched", "types", "rights"))
"""checks of what an edit does"""

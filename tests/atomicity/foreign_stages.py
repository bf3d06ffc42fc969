"""Queues that real programs made, with jobs in every state, and what operators do with them."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import redis
import rq

from redisq_ops.core.engine.optional_features import HasOwnersPause
from redisq_ops.core.foreign.arq import ArqQueue
from redisq_ops.core.foreign.asynq import AsynqQueue
from redisq_ops.core.foreign.bullmq import BullmqQueue
from redisq_ops.core.foreign.celery import CeleryQueue
from redisq_ops.core.foreign.dramatiq import DramatiqQueue
from redisq_ops.core.foreign.rq import RqQueue
from redisq_ops.core.model.clock import FakeClock
from redisq_ops.core.model.states import FIXED

from ..foreign_keys import (
    arq_program,
    asynq_program,
    bullmq_program,
    celery_program,
    dramatiq_program,
    node_program,
    rq_tasks,
)
from ..foreign_keys.rq_workers import SimpleWorker
from .stages import Operation, Stage, _move

DEAD, WAITING, DELAYED, LOST = (
    [(f"j{n + k}", f"payload-{n + k}") for k in range(5)] for n in (10, 20, 30, 40)
)
"""ids and payloads"""
HOUR = 3600


def _rq(client: redis.Redis) -> None:
    queue = rq.Queue("mail", connection=client)
    for id, payload in DEAD:
        queue.enqueue(rq_tasks.fails, payload, job_id=id, ttl=90 * HOUR)
    SimpleWorker(["mail"], connection=client).work(burst=True, logging_level="CRITICAL")
    for id, payload in WAITING:
        queue.enqueue(rq_tasks.fine, payload, job_id=id)
    for n, (id, payload) in enumerate(DELAYED):
        queue.enqueue_in(timedelta(hours=1 + n), rq_tasks.fine, payload, job_id=id)


def _arq(client: redis.Redis) -> None:
    arq_program.enqueue(client, *[("fails", [payload], {"_job_id": id}) for id, payload in DEAD])
    arq_program.work(client)
    arq_program.enqueue(
        client,
        *[("fine", [payload], {"_job_id": id}) for id, payload in WAITING],
        *[("fine", [payload], {"_job_id": id, "_defer_by": HOUR}) for id, payload in DELAYED],
    )
    for key in client.scan_iter("arq:result:*"):
        client.persist(key)


def _celery(client: redis.Redis) -> None:
    app = celery_program.app_on(client)
    for n, (id, payload) in enumerate(WAITING + DEAD):
        app.send_task("shop.fine", (payload,), task_id=id, priority=3 * (n % 2))


def _asynq(client: redis.Redis) -> None:
    program = asynq_program.Program(client)
    for id, payload in DEAD:
        program.send(id, data=payload, unique_s=90 * HOUR)
        program.archives(program.dequeue(), "no luck")
    for id, payload in LOST[:3]:
        program.send(id, data=payload)
        program.dequeue()
    for id, payload in WAITING:
        program.send(id, data=payload, unique_s=90 * HOUR)
    for n, (id, payload) in enumerate(DELAYED):
        program.send(id, data=payload, at=time.time() + HOUR + n)
    for n in range(3):
        program.send(f"g{n}", group="ann")


def _bullmq(client: redis.Redis) -> None:
    program = bullmq_program.Program(client)
    client.set("broken", 1)

    def add(name: str, job: tuple[str, str], **options: Any) -> list[Any]:
        return ["add", name, {"what": job[1]}, {"jobId": job[0]} | options]

    program.call(
        *[add("fails", job, priority=5 * (n % 2)) for n, job in enumerate(DEAD)],
        *[add("lasts", job, priority=9) for job in LOST[:3]],
    )
    with program.worker():
        node_program.wait(lambda: client.get("started") == b"3")
    for id, _ in LOST[:3]:
        client.delete(f"bull:mail:{id}:lock")
    once = {"deduplication": {"id": "once", "ttl": 10**9}}
    program.call(
        *[add("fine", job, priority=3 * (n % 2)) for n, job in enumerate(WAITING[1:])],
        add("fine", WAITING[0], **once),
        *[add("fine", job, delay=1000 * HOUR + n) for n, job in enumerate(DELAYED)],
    )
    client.hset("bull:mail:meta", "concurrency", 9)


def _dramatiq(client: redis.Redis) -> None:
    program = dramatiq_program.Program(client)
    client.set("broken", 1)
    for _, payload in DEAD:
        program.fails_at_once.send(payload)
    logging.disable(logging.CRITICAL)
    program.work()
    logging.disable(logging.NOTSET)
    for _, payload in LOST[:3]:
        program.fine.send(payload)
    dramatiq_program.lost(client, 3)
    for _, payload in WAITING:
        program.fine.send(payload)
    for n, (_, payload) in enumerate(DELAYED):
        program.fine.send_with_options(args=(payload,), delay=1000 * HOUR + n)


PROGRAMS: dict[str, tuple[type[Any], str, Callable[[redis.Redis], None]]] = {
    "rq": (RqQueue, "rq:mail", _rq),
    "arq": (ArqQueue, "arq:arq:queue", _arq),
    "asynq": (AsynqQueue, "asynq:low", _asynq),
    "celery": (CeleryQueue, "celery:celery", _celery),
    "bullmq": (BullmqQueue, "bullmq:mail", _bullmq),
    "dramatiq": (DramatiqQueue, "dramatiq:low", _dramatiq),
}


def program_stage(client: redis.Redis, kind: str) -> Stage:
    cls, name, fill = PROGRAMS[kind]
    fill(client)
    clock = FakeClock(int(time.time() * 1000))

    def ids(state: str) -> list[str]:
        return [entry.id for entry in cls(client, name).page(state).entries]

    def did(op: str, some: list[str], source: str, target: str, **more: Any) -> None:
        assert _move(op, 1, some, source, target, **more)(queue) == ["moved"] * len(some)

    queue = cls(client, name, clock=clock)
    later_ms = clock.now_ms + 9_000_000
    can = queue.actions
    did("purged", ids("waiting")[1:3], "waiting", "trash")
    undone = {"purged": "trash"}
    if "replay" in can:
        did("before", ids("dead")[:1], "dead", "trash")
        did("early", ids("dead")[:2], "dead", "waiting")
        did("moved", ids("delayed")[:1], "delayed", "waiting")
        did("dropped", ids("delayed")[1:2], "delayed", "trash")
        undone |= {"before": "trash", "early": "waiting", "moved": "waiting", "dropped": "trash"}
    if "reschedule" in can:
        did("put-off", ids("delayed")[:1], "delayed", "delayed", lease_ms=later_ms)
        undone["put-off"] = "delayed"
    if "pending" in can.get("requeue", ()):
        did("freed", ids("pending")[:1], "pending", "waiting")
        undone["freed"] = "waiting"
    clock.advance(0.01)
    built = Stage(kind, client, cls(client, name, clock=clock), clock.now_ms, ())
    targets = {
        "replay": "waiting",
        "requeue": "waiting",
        "reschedule": "delayed",
        "purge": "trash",
        "hard": "gone",
        "restore": "restore",
    }
    for verb, states in can.items():
        for state in states:
            some, lease = ids(state)[:2], {"lease_ms": later_ms} if verb == "reschedule" else {}
            operation: Operation = _move("op", 1, some, state, targets[verb], **lease)
            built.operations[f"{verb} of {state}"] = operation
    for op, target in undone.items():
        built.operations[f"undo of {op}"] = _undo(op, target)
    if isinstance(queue, HasOwnersPause) and kind != "celery":  # no worker is there that answers
        built.operations["pause"] = lambda queue: queue.set_owners_pause("op", 1, True)
    parts = [part for part in (*FIXED, *queue.key_types) if not part.endswith("_")]
    named = [(base, "op") for base in ("op_",)] + [("op_", "undone"), ("undo_", "op:1")]
    keys = {queue.keys[part].encode() for part in parts}
    keys |= {(queue.keys[base] + rest).encode() for base, rest in named}
    built.absent = sorted(keys)
    built.flaws = lambda: []  # type: ignore[method-assign]
    return built


def _undo(op: str, target: str) -> Operation:
    return lambda queue: queue.undo(op, 1, target=target, by="undone", seq=1)

"""RQ's workers, as they register themselves, and commands to them (``rq/command.py``)."""

from __future__ import annotations

import json
from typing import Any

from ...engine.registry import server_ms
from ...model.quoting import bytes_of, legal, raw_of, text
from ...model.worker_command import WorkerWord
from ...model.worker_process import Process, RunningJob
from ...redis.operation import Call, attempt, together
from ...redis.whole_keys import set_members
from ..elements import Element
from ..iso_times import iso_ms
from ..job_hashes import JobHash
from ..worker_commands import Order

FIELDS = (
    "hostname",
    "pid",
    "queues",
    "birth",
    "last_heartbeat",
    "state",
    "death",
    "current_job",
)


async def workers(at: str) -> list[Process]:
    """Every worker in the set ``workers``, by name."""
    keys = sorted(await set_members(at + "workers"))
    records, now = await together(together(attempt(_record(key)) for key in keys), server_ms())
    return [_process(at, key, found, now) for key, found in zip(keys, records, strict=True)]


async def _record(key: bytes) -> tuple[list[Any], list[bytes]]:
    return await together(
        Call(("HMGET", key, *FIELDS), list[Any], key=key), set_members(key + b":executions")
    )


def _process(at: str, key: bytes, found: Any, now: int) -> Process:
    name = legal(key.removeprefix(bytes_of(at) + b"worker:"))
    if isinstance(found, Exception):
        return Process(name, problem=str(found))
    values, executions = found
    row = JobHash(dict(zip(FIELDS, values, strict=True)))
    beat = iso_ms(row.text("last_heartbeat"))
    jobs = [one.rpartition(b":")[0] for one in sorted(executions)]
    if not jobs and (one := row.values["current_job"]):  # before RQ 3
        jobs = [one]
    work = [RunningJob(legal(job), "", b"", None) for job in jobs]
    return Process(
        name,
        row.text("hostname"),
        row.number("pid"),
        tuple(filter(None, row.text("queues").split(","))),
        iso_ms(row.text("birth")),
        None if beat is None else max(0, now - beat),
        beat is not None and not row.values["death"],
        tuple(work),
        row.text("state") == "suspended",
    )


async def order(at: str, word: WorkerWord, target: str) -> Order | None:
    """As `send_shutdown_command` and `send_stop_job_command` do it."""
    of_job = word == "stop-job"
    key = bytes_of(at) + (b"job:" if of_job else b"worker:") + raw_of(target)
    fields = ("worker_name", "status") if of_job else ("birth", "death")
    values = await Call(("HMGET", key, *fields), list[Any], key=key)
    if not values[0] or values[1] != (b"started" if of_job else None):
        return None
    worker = text(values[0] if of_job else raw_of(target))
    message: dict[str, str] = {"command": "stop-job" if of_job else "shutdown"}
    if of_job:
        message["job_id"] = text(raw_of(target))
    elements = (
        Element("hash", key, field.encode(), value, value)
        for field, value in zip(fields, values, strict=True)
    )
    return Order([*elements], f"{at}pubsub:{worker}", json.dumps(message).encode())

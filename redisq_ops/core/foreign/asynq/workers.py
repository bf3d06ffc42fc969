"""asynq's servers and what their workers run, as each server writes it down every 5 s."""

from __future__ import annotations

from ...engine.registry import server_ms
from ...model.quoting import bytes_of, legal, text
from ...model.worker_process import Process, RunningJob
from ...redis.operation import Call, attempt, in_batches, together
from ...redis.parsers import moment, optional
from ...redis.whole_keys import scores
from ..long_records import GLANCE, bytes_used
from .protobuf import Message

SERVERS = "asynq:servers"
TTL_S = 10
"""how long a server's record outlives its last heartbeat"""


async def servers() -> list[Process]:
    """Every server in the register, by name. Its score there is when its record expires."""
    listed, now = await together(scores(SERVERS, cut=True), server_ms())
    records = await in_batches(attempt(_process(key, end, now)) for key, end in sorted(listed))
    return [
        record if isinstance(record, Process) else Process(_name(key), problem=str(record))
        for (key, _), record in zip(sorted(listed), records, strict=True)
    ]


def _name(key: str) -> str:
    return legal(bytes_of(key.removeprefix(SERVERS)).strip(b":{}"))


async def _process(key: str, end: float, now: int) -> Process:
    running = key.replace("servers", "workers", 1)
    found, size = await together(
        Call(("GET", key), optional, key=key, cut=True), bytes_used(running)
    )
    known, beat = size <= GLANCE, moment(1000 * (end - TTL_S))
    workers = await Call(("HVALS", running), list[bytes], key=running, cut=True) if known else []
    info = Message(found or b"")
    return Process(
        _name(key),
        info.text(1),
        info.number(2, 32) or None,
        tuple(text(one.data(1)) for one in info.messages(5)),
        time_of(info, 8),
        None if beat is None else max(0, now - beat),
        found is not None,
        tuple(sorted(map(_job, workers), key=lambda job: job.id)),
        info.text(7) in ("stopped", "closed"),
        work_known=known,
    )


def _job(worker: bytes) -> RunningJob:
    info = Message(worker)
    return RunningJob(legal(info.data(4)), text(info.data(7)), b"", time_of(info, 8))


def time_of(message: Message, field: int) -> int | None:
    times = message.messages(field)
    return moment(times[0].number(1) * 1000 + times[0].number(2, 32) // 10**6) if times else None

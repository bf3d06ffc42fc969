"""Workers of redisq as they register themselves in each queue they serve: a field of ``callers``.

A field is ``<consumer>:worker``, its value ``1 <heartbeat> <start> <slots> <pid> <host>`` (times in
ms by the server's clock). It has the form of a caller's reply, so the upkeep of the queue removes
it a day after the last heartbeat.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..model.activity import BEATS_MS
from ..model.consumer_load import PENDING_PAGE, PendingDelivery
from ..model.quoting import text
from ..model.worker_process import Process, RunningJob
from ..redis.operation import Call, together
from .queue import Queue
from .reads import WORKER_FIELD
from .registry import server_ms

READ = 500
"""fields of ``callers`` in one page, about 0.2 ms of server time"""
PAGES = 20
"""pages of one look; producers that ran within a day have fields there, too"""


@dataclass(slots=True)
class WorkerRegistration:
    """What a worker writes about itself."""

    consumer: str
    slots: int
    """entries that it works on at a time"""
    host: str
    pid: int
    since_ms: int = 0
    """when it started, by the server's clock"""

    async def beat(self, queue: Queue[Any]) -> None:
        """Register in a queue, or say that the worker is still there; nothing where the queue
        doesn't exist yet."""
        exists, now = await together(queue.exists.op(), server_ms())
        if not exists:
            return
        self.since_ms = self.since_ms or now
        value = f"1 {now} {self.since_ms} {self.slots} {self.pid} {self.host}"
        key = queue.keys["callers"]
        await Call(("HSET", key, self.consumer + WORKER_FIELD, value), int, key=key)

    async def leave(self, queue: Queue[Any]) -> None:
        key = queue.keys["callers"]
        await Call(("HDEL", key, self.consumer + WORKER_FIELD), int, key=key)


async def registered_workers(queue: Queue[Any]) -> list[Process]:
    """The workers of redisq that are registered in a queue, by name, with the entries they hold.

    A silent one that holds nothing is left out: it ended, and there is nothing to take over. One
    with a ``problem`` says that there are too many callers to look at them all.
    """
    (found, over), now, pending = await together(
        _registered(queue.keys["callers"]),
        server_ms(),
        queue.pending_deliveries.op("", PENDING_PAGE, glance=True),
    )
    held: dict[str | None, list[PendingDelivery]] = {}
    for delivery in pending.rows:
        held.setdefault(delivery.consumer, []).append(delivery)
    processes = [
        _process(name, value, queue, now, held.get(name, []))
        for name, value in sorted(found.items())
    ]
    known = [process for process in processes if process.alive or process.work]
    if not over:
        of = f"only about {READ * PAGES:,} of its callers were looked at"
        known.append(Process("?", queues=(queue.name,), problem=of))
    return known


async def _registered(key: str) -> tuple[dict[str, str], bool]:
    """The workers' fields by name, and whether all callers were looked at."""
    found, cursor = dict[str, str](), 0
    for _ in range(PAGES):
        scan = ("HSCAN", key, cursor, "MATCH", f"*{WORKER_FIELD}", "COUNT", READ)
        cursor, some = await Call(scan, _fields, key=key)
        found |= some
        if cursor == 0:
            break
    return found, cursor == 0


def _fields(reply: Any) -> tuple[int, dict[str, str]]:
    cursor, rows = reply
    pairs = rows.items() if isinstance(rows, Mapping) else zip(rows[::2], rows[1::2], strict=True)
    named = {text(field).removesuffix(WORKER_FIELD): text(value) for field, value in pairs}
    return int(cursor), named


def _process(
    name: str, value: str, queue: Queue[Any], now: int, held: list[PendingDelivery]
) -> Process:
    try:
        _, beat, since, _, pid, host = value.split(" ", 5)
        times = int(beat), int(since), int(pid)
    except ValueError:
        return Process(name, problem=f"its field {name}{WORKER_FIELD} is corrupt")
    silent_ms = max(0, now - times[0])
    work = tuple(
        RunningJob(each.id, queue.name, b"", None if each.age_ms is None else now - each.age_ms)
        for each in held
    )
    return Process(
        name, host, times[2], (queue.name,), times[1], silent_ms, silent_ms < BEATS_MS, work
    )

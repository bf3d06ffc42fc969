"""BullMQ's workers: connections to the server whose names have the queue in them."""

from __future__ import annotations

import re
from base64 import b64encode

from ...engine.registry import server_ms
from ...model.quoting import bytes_of, legal
from ...model.worker_process import Process
from ...redis.operation import Call, together

_FIELD = re.compile(rb"(?:^| )([a-z-]+)=([^ ]*)")


async def workers(at: str, queue: str) -> list[Process]:
    """The workers of a queue that are connected to this server, as BullMQ's `getWorkers` finds
    them. The whole list of connections is read: 300 bytes for each."""
    name = bytes_of(at)[:-1] + b":" + b64encode(bytes_of(queue))
    clients = Call(("CLIENT", "LIST", "TYPE", "normal"), _lines)
    found, now = await together(clients, server_ms())
    rows = [dict(_FIELD.findall(line)) for line in found]
    mine = [row for row in rows if row.get(b"name", b"").partition(b":w:")[0] == name]
    return sorted((_process(row, queue, now) for row in mine), key=lambda one: one.name)


def _lines(reply: bytes | str) -> list[bytes]:
    return bytes_of(reply).splitlines() if isinstance(reply, str) else reply.splitlines()


def _process(row: dict[bytes, bytes], queue: str, now_ms: int) -> Process:
    address, age = row.get(b"addr", b""), row.get(b"age", b"")
    name = row[b"name"].partition(b":w:")[2] or address
    since = now_ms - 1000 * int(age) if age.isdigit() else None
    host = legal(address.rpartition(b":")[0])
    return Process(legal(name), host, queues=(queue,), since_ms=since, work_known=False)

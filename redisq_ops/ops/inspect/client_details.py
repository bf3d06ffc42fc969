"""One client of a queue: what waits and what is held for it, and who changed its rules."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from redisq_ops.core.engine.optional_features import HasClients
from redisq_ops.core.model.entry import Client, Entry
from redisq_ops.core.redis.operation import together

from ..change import audit_log
from ..change.audit_log import Operation
from ..change.control import CLIENT_RULES

FIRST = 5
"""waiting entries that are read"""
LOOKED = 100
"""pending entries of all clients that are looked at, the next deadline first"""
CHANGES = 50
"""latest changes of the queue that are looked at"""


@dataclass(frozen=True, slots=True)
class ClientDetails:
    """A client at one moment."""

    client: Client
    waiting: tuple[Entry, ...]
    """the first `FIRST`, in their order, without payloads"""
    pending: tuple[Entry, ...]
    """its own of the `LOOKED` that were looked at"""
    changes: tuple[Operation, ...]
    """of its rules, among the latest `CHANGES` of the queue, newest first"""


async def client_details(queue: HasClients[Any], name: str) -> ClientDetails | None:
    """Read a client, in a few round trips; None: it has neither entries nor rules."""
    client, waiting, pending, latest = await together(
        queue.get_client.op(name),
        queue.first_waiting.op(name, FIRST),
        queue.page.op("pending", max=LOOKED, glance=True),
        audit_log.last(queue, CHANGES),
    )
    if client is None:
        return None
    return ClientDetails(
        client,
        tuple(waiting),
        tuple(entry for entry in pending.entries if entry.client == name),
        tuple(one for one in latest if _about(one, name)),
    )


def _about(change: Operation, client: str) -> bool:
    return change.verb in CLIENT_RULES and change.what.split(" ")[:2] == ["client", client]

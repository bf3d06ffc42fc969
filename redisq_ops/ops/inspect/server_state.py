"""Which server answers, and in which role: what a dashboard that stays connected has to notice."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from math import inf
from typing import Any, Final

from redisq_ops.core.model.errors import RedisqError
from redisq_ops.core.model.keys import registry_key
from redisq_ops.core.redis.operation import Call, apart

from ..terminal import age

EVERY_S: Final = 5.0
"""time between two reads of the state"""
RECENT_S: Final = 60.0
"""how long a change is mentioned"""


@dataclass(frozen=True, slots=True)
class ServerState:
    """``run_id`` changes with each start of a server."""

    run_id: str
    replica: bool


async def server_state() -> ServerState | None:
    """The state of the server; None if it can't be read, as without permission for INFO."""

    def read(reply: dict[str, Any]) -> ServerState:
        return ServerState(str(reply.get("run_id")), reply.get("role") == "slave")

    found = await apart(Call(("INFO", "server", "replication"), read, key=registry_key()))
    if isinstance(found, Exception) and not isinstance(found, RedisqError):
        raise found
    return None if isinstance(found, Exception) else found


class ServerHistory:
    """Notices that another server answers than before: after a restart or a failover, or because
    one with other queues replaced it."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._state: ServerState | None = None
        self._read_at = -inf
        self._changed_at = -inf
        self._queues: frozenset[str] = frozenset()
        self._lost: frozenset[str] = frozenset()
        """the previous server's queues, as long as none of them is on this server"""

    @property
    def due(self) -> bool:
        """Whether the server's state is to be read again."""
        return self._clock() - self._read_at >= EVERY_S

    def record(self, state: ServerState | None, queues: Iterable[str]) -> None:
        """Keep the state as it is now, and the names of all queues."""
        now, names, before = self._clock(), frozenset(queues), self._state
        if state is not None and before is not None and state.run_id != before.run_id:
            self._changed_at, self._lost = now, self._queues
        if self._lost & names:
            self._lost = frozenset()
        self._read_at, self._state, self._queues = now, state or before, names

    @property
    def sign(self) -> str:
        """What is unusual about the server, for a header; empty: nothing."""
        words = ["replica"] if self._state is not None and self._state.replica else []
        ago = self._clock() - self._changed_at
        if self._lost:
            words.append("REPLACED: its queues are gone")
        elif ago < RECENT_S:
            words.append(f"server changed {age(int(1000 * ago))} ago")
        return " · ".join(words)

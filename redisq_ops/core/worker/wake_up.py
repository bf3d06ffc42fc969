"""Wakes an idle worker: blocks on the queues' wake lists.

An element of a wake list is a hint, never work: when one is lost, work only starts later.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from queue import SimpleQueue
from threading import Event, Thread
from time import monotonic
from typing import Any

import redis
from redis.exceptions import RedisClusterException, RedisError

from ..model.settings import IDLE_BLOCK_MS
from ..redis.operation import BlockingClient

_POLL_S = 0.1
_GRACE_S = 5.0


@dataclass(frozen=True, slots=True)
class WakeUp:
    """The wake list that had an element; None: none had one for `IDLE_BLOCK_MS`."""

    key: str | None


class WakeUpListener:
    """Blocks on wake lists in a thread and on a connection of its own.

    It uses a connection of the client's pool directly: the client's time-out would cut a blocking
    command short, and its retries would send it again: then a dead socket may get an element.
    ``wanted`` is called before a hint is used; one that comes too late is pushed back.
    """

    def __init__(
        self, client: BlockingClient, post: Callable[[WakeUp], None], wanted: Callable[[], bool]
    ) -> None:
        self._client, self._post, self._wanted = client, post, wanted
        self._asked: SimpleQueue[tuple[str, ...] | None] = SimpleQueue()
        self._over = Event()
        self._pool: Any = None
        self._connection: Any = None
        self._thread = Thread(target=self._serve, name="redisq-doorbell", daemon=True)
        self._thread.start()

    def listen(self, keys: Sequence[str]) -> None:
        """Post one `WakeUp` when one of the lists has an element, or after `IDLE_BLOCK_MS`."""
        self._asked.put(tuple(keys))

    def _serve(self) -> None:
        while (keys := self._asked.get()) is not None:
            try:
                key = self._wait(keys)
            # A TypeError: closed by another thread; of a Cluster: no node has the slot now.
            except (RedisError, RedisClusterException, OSError, TypeError):
                self._disconnect()
                self._over.wait(1.0)  # the loop's next take reports the error; don't spin
                key = None
            self._post(WakeUp(key))
        self._disconnect()

    def _wait(self, keys: tuple[str, ...]) -> str | None:
        pool = _pool(self._client, keys[0])
        if pool is not self._pool:  # on a Cluster each node has its own
            self._disconnect()
            self._pool = pool
        if self._connection is None:
            self._connection = pool.get_connection()
        self._connection.send_command("BLPOP", *keys, f"{IDLE_BLOCK_MS / 1000:.3f}")
        patience = monotonic() + IDLE_BLOCK_MS / 1000 + _GRACE_S
        while not self._connection.can_read(timeout=_POLL_S):
            if self._over.is_set() or monotonic() > patience:
                self._disconnect()
                return None
        reply = self._connection.read_response(disable_decoding=True)
        if reply is None:
            return None
        key: str = reply[0].decode()
        if not self._wanted():
            self._connection.send_command("LPUSH", key, reply[1])
            self._connection.read_response()
        return key

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.disconnect()
            self._pool.release(self._connection)
            self._connection = None

    def close(self) -> None:
        self._over.set()
        self._asked.put(None)
        self._thread.join(1.0)


def _pool(client: BlockingClient, key: str) -> Any:
    if isinstance(client, redis.RedisCluster):
        nodes: Any = client
        return nodes.get_redis_connection(nodes.get_node_from_key(key)).connection_pool
    return client.connection_pool

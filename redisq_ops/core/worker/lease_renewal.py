"""Renews leases while handlers run."""

from __future__ import annotations

from threading import Event, Thread

from redis.exceptions import RedisError

from ..model.errors import RedisqError
from .queue_source import QueueRotation


class LeaseRenewal:
    """Renews all leases every third of their length, from a thread of its own."""

    def __init__(self, sources: QueueRotation, lease_ms: int) -> None:
        self._sources = sources
        self._interval = lease_ms / 3000
        self._over = Event()
        self._thread = Thread(target=self._renew, name="redisq-leases", daemon=True)
        self._thread.start()

    def _renew(self) -> None:
        wait = self._interval
        while not self._over.wait(wait):
            wait = self._interval
            for source in self._sources:
                try:
                    if works := list(source.held.copy()):  # the copy is atomic, iterating isn't
                        source.renew(works)
                except (RedisqError, RedisError):  # the loop reports it; try again sooner
                    wait = self._interval / 4

    def close(self) -> None:
        self._over.set()
        self._thread.join(1.0)

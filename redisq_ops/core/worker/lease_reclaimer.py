"""Reclaims entries of dead workers before their leases expire.

The second recovery of article 000: a worker with ``ping`` is a consumer named by its address, and a
monitor that finds nobody there requeues its entries. Here that takes three failed pings in a row
without a sign of life in the queue meanwhile: no lease renewed, taken or settled. The silence has
to last for half of what was left of the consumer's longest lease: a worker renews when a third of a
lease has passed, so one behind a firewall is left alone however long its leases are. A worker that
hangs while its kernel accepts connections keeps its entries until their leases expire.
"""

from __future__ import annotations

import logging
import secrets
import socket
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from threading import Event
from time import monotonic

from ..engine.queue import Queue
from ..engine.registry import server_ms
from ..model.clock import Seconds, checked_seconds
from ..model.entry import Entry
from ..model.errors import RedisqError
from ..model.settings import BATCH, RENEW_MS
from ..redis.operation import BlockingClient, run
from .health import parse_address

log = logging.getLogger("redisq_ops.worker")

SILENCES = 3
INTERVAL_S = 0.6 * RENEW_MS / 1000
"""s; three pings take two intervals, longer than a lease of the default length goes unrenewed"""
_PING_TIMEOUT_S = 1.0

Ping = Callable[[str, int], bool]
Signs = frozenset[tuple[str, str | None, int | None]]


@dataclass(frozen=True, slots=True)
class _Silence:
    """A consumer that doesn't answer, since its first failed ping."""

    since_s: float
    enough_s: float
    """how long a silence means that it is dead"""
    signs: Signs
    """what it held"""
    times: int = 1

    def is_death(self, now_s: float) -> bool:
        return self.times >= SILENCES and now_s - self.since_s >= self.enough_s


def _signs(entries: Iterable[Entry]) -> Signs:
    return frozenset((entry.id, entry.receipt, entry.at_ms) for entry in entries)


def answers(host: str, port: int) -> bool:
    """Whether a connection to the address is accepted."""
    try:
        socket.create_connection((host, port), timeout=_PING_TIMEOUT_S).close()
    except OSError:
        return False
    return True


class LeaseReclaimer:
    """Requeues entries of workers that are dead, sooner than their leases expire.

    For workers that were started with ``ping``. Optional: without it entries come back when their
    leases expire. Several of them on one queue do no harm.

        LeaseReclaimer(queue).run(threading.Event())
    """

    def __init__(
        self,
        queue: Queue[BlockingClient],
        ping: Ping = answers,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        """``clock``: seconds, for the length of a silence."""
        self._queue, self._ping, self._clock = queue, ping, clock
        self._silent: dict[str, _Silence] = {}
        self._op = f"monitor-{secrets.token_hex(6)}"
        self._step = 0

    def run(self, stop: Event, interval: Seconds = INTERVAL_S) -> None:
        """Call `look` every ``interval`` (seconds or a timedelta) until ``stop`` is set.

        A look that fails is a warning in the log, once while the reason is the same.
        """
        pause = checked_seconds(interval, "interval")
        told = ""
        while not stop.wait(pause):
            try:
                self.look()
                told = ""
            except RedisqError as error:
                if told != str(error):
                    told = str(error)
                    log.warning("can't look for dead workers: %s", error)

    def look(self) -> dict[str, int]:
        """One round of pings. Returns consumer -> number of entries that were requeued."""
        # Before the pages are read: later takes are left alone.
        seen_ms = run(self._queue.client, server_ms())
        held = self._held()
        if not held:
            self._silent = {}
            return {}
        with ThreadPoolExecutor(min(32, len(held))) as pool:
            alive = dict(zip(held, pool.map(self._is_alive, held), strict=True))
        silent = {
            consumer: self._silence(consumer, entries, seen_ms)
            for consumer, entries in held.items()
            if not alive[consumer]
        }
        dead = {c for c, silence in silent.items() if silence.is_death(self._clock())}
        # The pings took their time: a lease may have been renewed meanwhile.
        held = self._held() if dead else {}
        taken: dict[str, int] = {}
        for consumer in dead:
            if silent.pop(consumer).signs == _signs(held.get(consumer, ())):
                taken[consumer] = self._bring_back(consumer, held[consumer], seen_ms)
                log.warning("%s is gone: %d entries brought back", consumer, taken[consumer])
        self._silent = silent
        return taken

    def _silence(self, consumer: str, entries: list[Entry], seen_ms: int) -> _Silence:
        signs, before = _signs(entries), self._silent.get(consumer)
        if before and before.signs == signs:
            return replace(before, times=before.times + 1)
        longest_ms = max(entry.at_ms - seen_ms for entry in entries if entry.at_ms is not None)
        return _Silence(self._clock(), longest_ms / 2000, signs)

    def _is_alive(self, consumer: str) -> bool:
        address = parse_address(consumer)
        return address is None or self._ping(*address)

    def _held(self) -> dict[str, list[Entry]]:
        """Pending entries of consumers that are named by their address."""
        held: dict[str, list[Entry]] = {}
        cursor: str | None = None
        while True:
            page = self._queue.page("pending", cursor, BATCH)
            for entry in page.entries:
                if entry.consumer is not None and parse_address(entry.consumer):
                    held.setdefault(entry.consumer, []).append(entry)
            cursor = page.cursor
            if cursor is None:
                return held

    def _bring_back(self, consumer: str, entries: list[Entry], seen_ms: int) -> int:
        """End the leases now.

        Not by moving the entries to waiting: like this the attempt counts as lost, and an entry
        that kills its workers is dead after a few of them instead of going round for ever.
        """
        moved = 0
        for at in range(0, len(entries), BATCH):
            self._step += 1
            ids = [entry.id for entry in entries[at : at + BATCH]]
            words = self._queue.move(
                self._op,
                self._step,
                ids,
                source="pending",
                target="pending",
                high_water_ms=seen_ms,
                consumer=consumer,
                lease_ms=0,
            )
            moved += words.count("moved")
            self._queue.sweep(BATCH)
        return moved

"""Reclaims entries of dead workers before their leases expire.

The second recovery of article 000: a worker with ``ping`` is a consumer named by its address, and a
monitor that finds nobody there requeues its entries. Here that takes three failed pings in a row
without a sign of life in the queue meanwhile: no lease renewed, taken or settled. So a worker
behind a firewall is left alone. A worker that hangs while its kernel accepts connections keeps its
entries until their leases expire.
"""

from __future__ import annotations

import logging
import secrets
import socket
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from threading import Event

from ..engine.queue import Queue
from ..engine.registry import server_ms
from ..model.clock import Seconds, checked_seconds
from ..model.entry import Entry
from ..model.settings import BATCH, RENEW_MS
from ..redis.operation import BlockingClient, run
from .health import parse_address

log = logging.getLogger("redisq_ops.worker")

SILENCES = 3
INTERVAL_S = 0.6 * RENEW_MS / 1000
"""s; three pings take two intervals, longer than a worker waits before it renews its leases"""
_PING_TIMEOUT_S = 1.0

Ping = Callable[[str, int], bool]
Signs = frozenset[tuple[str, str | None, int | None]]


@dataclass(frozen=True, slots=True)
class _Silence:
    times: int
    signs: Signs
    """what the consumer held at the first failed ping"""


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

    def __init__(self, queue: Queue[BlockingClient], ping: Ping = answers) -> None:
        self._queue, self._ping = queue, ping
        self._silent: dict[str, _Silence] = {}
        self._op = f"monitor-{secrets.token_hex(6)}"
        self._step = 0

    def run(self, stop: Event, interval: Seconds = INTERVAL_S) -> None:
        """Call `look` every ``interval`` (seconds or a timedelta) until ``stop`` is set."""
        pause = checked_seconds(interval, "interval")
        while not stop.wait(pause):
            self.look()

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
        taken: dict[str, int] = {}
        silent: dict[str, _Silence] = {}
        for consumer, entries in held.items():
            if alive[consumer]:
                continue
            signs = frozenset((e.id, e.receipt, e.at_ms) for e in entries)
            before = self._silent.get(consumer)
            times = before.times + 1 if before and before.signs == signs else 1
            if times < SILENCES:
                silent[consumer] = _Silence(times, signs)
            else:
                taken[consumer] = self._bring_back(consumer, entries, seen_ms)
                log.warning("%s is gone: %d entries brought back", consumer, taken[consumer])
        self._silent = silent
        return taken

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

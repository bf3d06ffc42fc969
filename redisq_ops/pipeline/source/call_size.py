"""Adaptive size of the next call to the server."""

from __future__ import annotations

FIRST, LEAST, MOST = 100, 1, 2000
FIRST_WITH_PAYLOADS = 10


class CallSize:
    """Rows to request in the next call, so that the server spends about a quarter of ``max_us`` on
    it.

    The size grows by half at most, and falls to half at most: one slow call may only mean that the
    server waited for a processor.
    """

    def __init__(self, max_us: int, size: int = FIRST, max_rows: int = MOST) -> None:
        self.size = size
        self.slowest_us = 0
        self._target_us = max_us / 4
        self._max_rows = max_rows

    def learn(self, rows: int, took_us: int) -> None:
        """Adapt to a call that returned ``rows`` rows and took ``took_us`` µs on the server."""
        self.slowest_us = max(self.slowest_us, took_us)
        if took_us > self._target_us or rows >= self.size:
            target = self.size * self._target_us / max(1, took_us)
            target = max(self.size / 2, min(target, self.size * 1.5 + 1))
            self.size = max(LEAST, min(self._max_rows, int(target)))

"""How large the next call is."""

from __future__ import annotations

FIRST, LEAST, MOST = 100, 1, 2000
"""rows of a call: at the begin, at least, at most"""
FIRST_WITH_PAYLOADS = 10


class CallSize:
    """How many rows the next call is for: what keeps the server busy for about a quarter of what
    is allowed. It grows by half at a time and falls to half: a call that was long because the
    server itself had to wait for a processor says little of the next one."""

    def __init__(self, most_us: int, size: int = FIRST, most: int = MOST) -> None:
        self.size = size
        self.slowest_us = 0
        self._aim_us = most_us / 4
        self._most = most

    def learn(self, rows: int, took_us: int) -> None:
        self.slowest_us = max(self.slowest_us, took_us)
        if took_us > self._aim_us or rows >= self.size:
            aim = self.size * self._aim_us / max(1, took_us)
            aim = max(self.size / 2, min(aim, self.size * 1.5 + 1))
            self.size = max(LEAST, min(self._most, int(aim)))

"""The settings of a queue and their defaults: one table for Python, Lua and the docs."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

DAY_MS = 24 * 3600 * 1000


@dataclass(frozen=True, slots=True)
class Settings:
    """Per-queue settings, kept in the queue's ``cfg`` hash; absent fields have these values."""

    max_failures: int = 20
    """failures after which an entry is dead"""
    max_lost: int = 3
    """lost leases after which an entry is dead"""
    max_waiting: int = 0
    """how many entries may wait before submissions are refused; 0: no bound"""
    history: str = "ops"
    """which events the history records: off | ops | all"""
    history_max: int = 100_000
    """about how many history events are kept"""
    keep_ms: int = DAY_MS
    """how long finished requests and results are kept, ms; a worker looks every 30 s"""
    trash_ms: int = DAY_MS
    """how long purged entries can be restored, ms"""
    aging: int = 0
    """every n-th take starts at a rotating priority; 0: priorities are strict"""
    rate: str = "off"
    """how many entries are handed out: 10/s, 600/m, 5/h, or off"""


DEFAULTS = Settings()
STATED_ATTEMPTS = "stated_attempts"
"""field beside the settings: ``max_failures`` as the code stated it last (`RetryPolicy`)"""

LEASE_S = 30
LEASE_MS = 1000 * LEASE_S
RENEW_MS = 10_000
LIMIT = 100
PRIORITY = 50
PRIORITIES = 100
MAX_LIMIT = 1000
MAX_PAYLOAD = 1024 * 1024
MAX_RESULT = 1024 * 1024
MAX_RESULTS = 64 * 1024 * 1024
BATCH = 100
MAX_BATCH = 500
IDLE_BLOCK_MS = 5_000


def lua_defaults() -> str:
    """The same table as a Lua literal, which the loader puts on top of every script."""

    def literal(value: Any) -> str:
        return f"'{value}'" if isinstance(value, str) else str(value)

    body = ", ".join(f"{f.name}={literal(getattr(DEFAULTS, f.name))}" for f in fields(Settings))
    return f"local DEFAULT = {{{body}, max_results={MAX_RESULTS}}}"

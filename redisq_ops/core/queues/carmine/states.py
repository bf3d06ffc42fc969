"""The state of a message in Carmine's words, from the values of its keys.

It is decided as in Carmine's ``msg-status.lua`` of 2018. Newer releases keep content that is to run
next in ``messages-rq`` instead of a flag in ``requeue``, and run it whether a backoff stands or
not.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ...model.entry import State

Word = Literal[
    "queued",
    "queued-with-backoff",
    "locked",
    "locked-with-requeue",
    "done-awaiting-gc",
    "done-with-backoff",
    "done-with-requeue",
]
STATE_OF: dict[Word, State] = {
    "queued": "waiting",
    "queued-with-backoff": "delayed",
    "locked": "pending",
    "locked-with-requeue": "pending",
    "done-awaiting-gc": "done",
    "done-with-backoff": "done",
    "done-with-requeue": "done",
}


@dataclass(frozen=True, slots=True)
class Facts:
    """What Carmine's keys have about a message; times in ms, 0: none."""

    lock_ms: int = 0
    backoff_ms: int = 0
    attempts: int = 0
    done: bool = False
    requeue: bool = False
    follows: bool = False
    """newer content in ``messages-rq`` (3.x)"""

    def word(self, now_ms: int) -> Word:
        backed_off = now_ms < self.backoff_ms
        if self.done:
            if self.follows or (self.requeue and backed_off):
                return "done-with-requeue"
            return "done-with-backoff" if backed_off else "done-awaiting-gc"
        if now_ms < self.lock_ms:
            return "locked-with-requeue" if self.requeue or self.follows else "locked"
        return "queued-with-backoff" if backed_off else "queued"


def whole(value: bytes | None) -> int:
    """A time or count that another program wrote; 0, as in Carmine, if it is no number."""
    try:
        return int(float(value or 0))
    except (ValueError, OverflowError):
        return 0

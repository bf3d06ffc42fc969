"""What a person types to confirm a change: its number of entries, or its queue's name."""

from __future__ import annotations

from redisq_ops.core.model.states import Verb

TYPED_ABOVE = 1000
"""for more entries than this a person types the number to confirm"""


def typed(verb: Verb, n: int, queue: str) -> str | None:
    """What a person types to confirm a change of this many entries; None: yes is enough."""
    if n and verb == "hard":
        return queue
    return typed_number(n)


def typed_number(n: int) -> str | None:
    """The number, where it is large enough to be typed; None: yes is enough."""
    return str(n) if n > TYPED_ABOVE else None

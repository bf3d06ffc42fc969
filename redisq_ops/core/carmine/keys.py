"""Where a Carmine queue is: its owner's keys ``carmine:mq:<q>:<part>``, and ours beside them.

Carmine has no hash tags. On a Cluster its keys and ours share a slot only if its own name of the
queue has one: ``carmine:%7Bmail%7D`` is what Carmine calls ``{mail}``.
"""

from __future__ import annotations

import re

from ..errors import BadInput
from ..keys import PREFIX, Keys
from ..quoting import raw_of

HOME = "carmine:mq:"
# part -> what Carmine calls it, and its type, in the layout of 2018
THEIRS = {
    "messages": ("messages", "hash"),
    "locks": ("locks", "hash"),
    "backoffs": ("backoffs", "hash"),
    "nattempts": ("nattempts", "hash"),
    "circle": ("mid-circle", "list"),
    "finished": ("done", "set"),
    "requeued": ("requeue", "set"),
    "eoq": ("eoq-backoff?", "string"),
    "dry_runs": ("ndry-runs", "string"),
}
END = "end-of-circle"
_TAGGED = re.compile(r"[^{]*\{[^}]+\}")


def own_name(name: str) -> str:
    """What Carmine calls the queue that is called ``name`` here."""
    kind, _, quoted = name.partition(":")
    if kind != "carmine" or not quoted:
        raise BadInput(f"queue name {name!r}: Carmine's queue q is called carmine:q here")
    try:
        return raw_of(quoted).decode()
    except UnicodeDecodeError:
        raise BadInput(f"queue name {name!r} is no UTF-8 when unquoted") from None


class CarmineKeys(Keys):
    """Carmine's parts by their names there, all others ours."""

    __slots__ = ("tagged", "theirs")

    def __init__(self, name: str, prefix: str = PREFIX) -> None:
        super().__init__(name, prefix)
        own = own_name(name)
        self.theirs = f"{HOME}{own}:"
        self.tagged = _TAGGED.match(own) is not None
        if self.tagged:
            self.base = f"{prefix}:carmine:{own}:"

    def __getitem__(self, part: str) -> str:
        if part in THEIRS:
            return self.theirs + THEIRS[part][0]
        return super().__getitem__(part)

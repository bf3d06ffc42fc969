"""The keys of a Carmine queue: Carmine's own, ``carmine:mq:<q>:<part>``, and ours beside them.

Carmine has no hash tags. On a Cluster its keys and ours share a slot only if its own name of the
queue has one: ``carmine:%7Bmail%7D`` is what Carmine calls ``{mail}``. A shard has a name of its
own there: ``mail/3``, and ``{mail/3}``, so that each has a slot of its own.
"""

from __future__ import annotations

import re

from ...model.errors import BadInput
from ...model.keys import PREFIX, Keys
from ...model.quoting import bytes_of, legal, raw_of

HOME = "carmine:mq:"
# key part -> Carmine's name of it and its Redis type, in the layout of 2018
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
_TAGGED = re.compile(r"([^{]*\{[^}]+)(\}.*)", re.DOTALL)
_NUMBERED = re.compile(r"(.+)/([1-9]\d{0,2})", re.DOTALL)


def own_name(name: str) -> str:
    """Carmine's name for our queue ``name``."""
    kind, _, quoted = name.partition(":")
    if kind != "carmine" or not quoted:
        raise BadInput(f"queue name {name!r}: Carmine's queue q is called carmine:q here")
    try:
        return raw_of(quoted).decode()
    except UnicodeDecodeError:
        raise BadInput(f"queue name {name!r} is no UTF-8 when unquoted") from None


def called(own: str) -> str:
    """Our name for the queue that Carmine calls ``own``."""
    return f"carmine:{legal(bytes_of(own))}"


def shard_name(own: str, shard: int) -> str:
    """Carmine's name for a shard of the queue that it calls ``own``."""
    if not shard:
        return own
    tag = _TAGGED.fullmatch(own)
    return f"{tag[1]}/{shard}{tag[2]}" if tag else f"{own}/{shard}"


def shard_of(own: str) -> tuple[str, int] | None:
    """The queue whose shard would have this name, by Carmine's names."""
    tag = _TAGGED.fullmatch(own)
    front, back = tag.groups() if tag else (own, "")
    if (found := _NUMBERED.fullmatch(front)) is None:
        return None
    whole, shard = found[1] + back, int(found[2])
    return (whole, shard) if shard_name(whole, shard) == own else None


class CarmineKeys(Keys):
    """Keys of a queue: Carmine's names for its own parts, ours for all others."""

    __slots__ = ("own", "tagged", "theirs")

    def __init__(self, name: str, prefix: str = PREFIX, shard: int = 0) -> None:
        super().__init__(name, prefix, shard)
        self.own = shard_name(own_name(name), shard)
        self.theirs = f"{HOME}{self.own}:"
        self.tagged = _TAGGED.fullmatch(self.own) is not None
        if self.tagged:
            self.base = f"{prefix}:carmine:{self.own}:"

    @classmethod
    def owners(cls, key: str, part: str, prefix: str) -> list[tuple[str, int]]:
        """As for all keys. A tagged name is also that of a shard: ``{mail/3}`` of ``{mail}``."""
        front, back = f"{prefix}:carmine:", f":{part}"
        own = key.removeprefix(front).removesuffix(back)
        if front + own + back != key or not _TAGGED.fullmatch(own):
            return super().owners(key, part, prefix)
        place = shard_of(own)
        places = [place, (own, 0)] if place else [(own, 0)]
        return [(called(whole), shard) for whole, shard in places]

    def __getitem__(self, part: str) -> str:
        if part in THEIRS:
            return self.theirs + THEIRS[part][0]
        return super().__getitem__(part)

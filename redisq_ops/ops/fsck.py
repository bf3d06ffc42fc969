"""fsck: what doesn't add up in a queue, and still doesn't when looked at again."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from redisq_ops.core.engine.queue import Queue
from redisq_ops.core.model.entry import Checkup
from redisq_ops.core.model.errors import CORRUPT, RedisqError, Unreadable, WrongKind
from redisq_ops.core.redis.operation import Call, attempt
from redisq_ops.core.redis.scripts import NUMBERS

from .change import audit_log as journal
from .change.unfinished import unfinished
from .explain.rules import utc

_WHOLE = re.compile(rb"-?\d{1,16}")
_COUNTS = re.compile(r"is (\d+), counted (\d+)")
_FIGURES = re.compile(r"(?<!\S)\d[\d,]*(?=[\s,;.)]|$)")
_EXAMPLES = re.compile(r" \([^)]*\)")


@dataclass(slots=True)
class Audit:
    """Repeated looks at one queue.

    A live queue changes between the reads of one look, so what is seen once may be a moment's;
    ``broken`` is what every look so far has seen.
    """

    queue: Queue[Any]
    looks: int = 0
    broken: list[str] = field(default_factory=list)
    momentary: int = 0
    """findings that a later look did not see again"""
    unseen: str | None = None
    """what the latest look left out, where a look is bounded"""

    async def look(self) -> bool:
        """Look once more; whether another look is worth it."""
        try:
            checkup = await self.queue.checkup.op(thorough=True)
        except (Unreadable, WrongKind, *CORRUPT) as corrupt:
            # What it would have found behind that isn't known.
            why = str(corrupt) if isinstance(corrupt, RedisqError) else "a value in it is corrupt"
            checkup = Checkup((f"it can't be checked: {why}",))
        left = [one.sentence(utc) for one in await unfinished(self.queue) if one.abandoned]
        said = (*checkup.flaws, *await self._counters(), *left)
        self.unseen = checkup.unseen
        same = _foreign_identity if self.queue.names_examples else _identity
        seen = {same(line) for line in self.broken}
        again = [line for line in said if not self.looks or same(line) in seen]
        self.momentary += max(0, len(self.broken) - len(again))
        self.broken = again
        self.looks += 1
        return bool(again)

    async def _counters(self) -> list[str]:
        """Counters that are no whole numbers: the queue's scripts refuse to work with them."""
        names, said = sorted(NUMBERS), []
        for keys in self.queue.shard_keys:
            key = keys["stat"]
            values = await attempt(Call(("HMGET", key, *names), list[bytes | None], key=key))
            if isinstance(values, Exception):  # a key of another type, which `checkup` names
                continue
            for name, value in zip(names, values, strict=True):
                if value is not None and not _WHOLE.fullmatch(value):
                    said.append(
                        f"key {key}, field {name}: a whole number belongs there; until it is "
                        "mended, take, settle and submit are refused"
                    )
        return said

    async def journal(self) -> list[str]:
        """Which operations in the queue's journal are corrupt."""
        try:
            return await journal.corrupt(self.queue)
        except (Unreadable, WrongKind) as corrupt:
            return [f"the journal can't be read: {corrupt}"]


def _identity(line: str) -> str:
    """The finding without the numbers that a working queue moves: what they differ by stays."""
    return _COUNTS.sub(lambda found: f"is off by {int(found[1]) - int(found[2])}", line)


def _foreign_identity(line: str) -> str:
    """The same of another program's queue: findings there say how many, and name a few."""
    return _FIGURES.sub("", _EXAMPLES.sub("", line))

"""Dead letters that an operator knows of: one hash of a deployment, queue -> acknowledgement.

It says up to when entries had died when somebody looked, and until when nobody needs to be told of
them again. Entries that die later are not covered. The queue itself is not changed.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Final

from ..model.errors import CORRUPT
from ..model.keys import PREFIX
from ..model.quoting import stored, text
from ..redis import acl_rights
from ..redis.hash_field import replace_field
from ..redis.operation import Call

ACKNOWLEDGE: Final = "acknowledge"
"""the verb in the audit log, and its inverse: ``acknowledge BEFORE AFTER``, both quoted"""


@dataclass(frozen=True, slots=True)
class Acknowledgement:
    """What an operator said of a queue's dead letters; times in ms by the server's clock."""

    at_ms: int
    """entries that died up to here are known"""
    dead: int
    """how many these were"""
    until_ms: int | None
    """from here on they are trouble again; None: never"""
    who: str
    reason: str

    @classmethod
    def decoded(cls, data: bytes) -> Acknowledgement | None:
        """None: it is corrupt, so nothing is acknowledged."""
        try:
            found = json.loads(data)
            numbers = found["at_ms"], found["dead"], found["until_ms"]
            words = found["who"], found["reason"]
        except CORRUPT:
            return None
        whole = all(type(number) is int for number in numbers[:2])
        until = numbers[2] is None or type(numbers[2]) is int
        if not (whole and until and all(isinstance(word, str) for word in words)):
            return None
        return cls(*numbers, *words)

    def encoded(self) -> str:
        return json.dumps(asdict(self))

    def holds(self, now_ms: int) -> bool:
        """Whether it still counts."""
        return self.until_ms is None or now_ms < self.until_ms


def acknowledgements(prefix: str = PREFIX) -> Call[dict[str, Acknowledgement]]:
    """Every acknowledgement of a deployment, by the queue's name. One read of the whole hash: about
    150 bytes for each queue that has one."""

    def read(reply: dict[bytes, bytes]) -> dict[str, Acknowledgement]:
        found = {text(name): Acknowledgement.decoded(data) for name, data in reply.items()}
        return {name: one for name, one in found.items() if one is not None}

    key = _key(prefix)
    return Call(("HGETALL", key), read, key=key)


def acknowledgement(name: str, prefix: str = PREFIX) -> Call[str]:
    """A queue's acknowledgement as it is stored; empty: there is none."""
    key = _key(prefix)
    return Call(("HGET", key, stored(name)), lambda data: text(data or b""), key=key)


def replace_acknowledgement(name: str, before: str, after: str, prefix: str = PREFIX) -> Call[bool]:
    """Store ``after`` (as encoded, empty: none) if ``before`` is still stored; False: it isn't."""
    return replace_field(_key(prefix), stored(name), before, after)


async def to_acknowledge(prefix: str = PREFIX) -> None:
    """Raise `Forbidden` unless the user can acknowledge dead letters."""
    await acl_rights.to_replace_fields(_key(prefix))


def _key(prefix: str) -> str:
    """In a hash slot of its own, as the registry."""
    return f"{prefix}:acknowledged"

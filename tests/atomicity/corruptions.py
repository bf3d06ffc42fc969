"""What somebody else may have written into the keys of a queue: a field, score, element or entry at
a time, or a key of another type, or none."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from random import Random
from typing import Any

from ..model.wire import Picture
from .database import Database

GARBAGE = Random(7).randbytes(9_990) + b"\n|: {}\xff\x00"
VALUES = (b"x", b"", b"1e400", b"-1", b"3.0", b"9223372036854775807", GARBAGE)
SCORES = ("inf", "-inf", "1.5", "-1")
FIELDS_MOST = 30
"""fields of one hash that are spoilt; of a larger one every n-th"""


@dataclass(frozen=True)
class Corruption:
    """``commands`` spoil ``key``; ``field`` is the field or member they spoil, None: more."""

    key: bytes
    what: str
    commands: tuple[tuple[Any, ...], ...]
    field: bytes | None = None
    gone: bool = False
    """content was removed, that nothing can bring back"""
    believable: bool = False
    """another value that may well be right: counts follow it"""

    def __str__(self) -> str:
        return f"{self.key.decode(errors='replace')} {self.what}"

    def apply(self, database: Database) -> None:
        pipe = database.client.pipeline(transaction=False)
        for command in self.commands:
            pipe.execute_command(*command)
        pipe.execute()


def corruptions(image: Picture, absent: Iterable[bytes] = ()) -> Iterator[Corruption]:
    """All of a database's keys; ``absent``: keys that an operation may create."""
    for key, value in sorted(image.items()):
        yield from _inside(key, value)
        yield Corruption(key, "is missing", (("UNLINK", key),), gone=True)
        yield from _other_type(key, value)
    for key in sorted(set(absent) - image.keys()):
        yield from _other_type(key, None)


def _other_type(key: bytes, value: Any) -> Iterator[Corruption]:
    yield Corruption(key, "is a string", (("UNLINK", key), ("SET", key, "theirs")))
    if isinstance(value, list):
        yield Corruption(key, "is a hash", (("UNLINK", key), ("HSET", key, "theirs", "x")))
    else:
        yield Corruption(key, "is a list", (("UNLINK", key), ("RPUSH", key, "theirs")))


def _inside(key: bytes, value: Any) -> Iterator[Corruption]:
    match value:
        case dict():
            fields = sorted(value)
            for field in fields[:: len(fields) // FIELDS_MOST + 1]:
                for bad in VALUES:
                    what = f"{_shown(field)} = {_shown(bad)}"
                    lie = bad in (b"", b"-1") if b":r:" in key else key.endswith(b":owner")
                    command = ("HSET", key, field, bad)
                    yield Corruption(key, what, (command,), field, believable=lie)
        case [[_, float()], *_] | [(_, float()), *_]:
            members = [member for member, _ in value]
            for member in {members[0]: 0, members[-1]: 0, members[len(members) // 2]: 0}:
                for score in SCORES:
                    yield Corruption(
                        key, f"{_shown(member)} at {score}", (("ZADD", key, score, member),), member
                    )
            yield Corruption(key, "has a foreign member", (("ZADD", key, 1, GARBAGE),), GARBAGE)
        case list():
            for at in {0, len(value) // 2, len(value) - 1}:
                for bad in (b"x", GARBAGE):
                    yield Corruption(key, f"[{at}] = {_shown(bad)}", (("LSET", key, at, bad),))
        case set():
            yield Corruption(key, "has a foreign member", (("SADD", key, GARBAGE),), GARBAGE)
        case tuple():
            yield Corruption(key, "has a foreign entry", (("XADD", key, "*", "a", GARBAGE),))
            last = "18446744073709551615-18446744073709551615"
            yield Corruption(key, "has the last entry", (("XADD", key, last, "a", "b"),))
            if value[1] is not None:
                yield Corruption(key, "has no group", (("XGROUP", "DESTROY", key, "g"),), gone=True)
        case bytes():
            for bad in VALUES:
                yield Corruption(key, f"= {_shown(bad)}", (("SET", key, bad),))
        case _:
            raise TypeError(f"{key!r}: {value!r}")


def _shown(word: bytes) -> str:
    return "garbage" if word == GARBAGE else f"'{word.decode(errors='replace')}'"

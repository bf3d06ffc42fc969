"""Programs whose queues redisq can't read yet: their keys are named, and never shown as another
kind's."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import ClassVar

from ..redis.key_scan import Lane
from .json_text import decoded
from .recogniser import KeyLook, Recogniser
from .streams.recogniser import group_names

MOST = 100_000
"""keys remembered"""
_DOCKET = b"docket-workers"
"""the consumer group of every docket"""


@dataclass(frozen=True, slots=True)
class Sign:
    """What a program's keys are called."""

    program: str
    name: re.Pattern[bytes]
    members: frozenset[str] = frozenset()
    """members that the first element, a JSON object, must have if the name says too little"""
    types: tuple[str, ...] = ("list", "zset")


def _sign(program: str, name: bytes, *members: str) -> Sign:
    return Sign(program, re.compile(name, re.DOTALL), frozenset(members))


_CARMINE_4 = re.compile(rb"carmine:mq:v4:\{[0-9a-f]{16}\}:.+:[a-z-]+", re.DOTALL)


SIGNS = (
    _sign("Huey", rb"huey\..+"),
    _sign("SAQ", rb"saq:.+"),
    _sign("bee-queue", rb"bq:.+:(?:waiting|active|delayed|succeeded|failed|stalling)"),
    _sign("APScheduler", rb"apscheduler\.run_times"),
    _sign("Hangfire", rb"\{?hangfire\}?:.+"),
    _sign("gocraft/work", rb".+:(?:jobs:.+|retry|dead|scheduled)", "name", "id", "t"),
    Sign("Carmine 4", _CARMINE_4, types=("list", "zset", "hash")),
    _sign("taskiq", rb"taskiq(?::.+)?", "task_id", "task_name"),
)


class UnreadPrograms(Recogniser):
    lanes: ClassVar[tuple[Lane, ...]] = (
        Lane("zset"),
        Lane("list"),
        Lane("stream"),
        Lane("hash", b"carmine:mq:*"),
    )

    def __init__(self) -> None:
        self._keys: dict[bytes, str] = {}
        self._dockets: set[bytes] = set()

    async def by_name(self, look: KeyLook) -> bool:
        if look.type == "stream":
            at = look.key.removesuffix(b"stream")
            if at.endswith(b":") and at != look.key and _DOCKET in await group_names(look):
                self._dockets.add(at)
                self._keys[look.key] = "docket"
            return look.key in self._keys
        for sign in SIGNS:
            if (
                look.type in sign.types
                and sign.name.fullmatch(look.key)
                and await _has(look, sign.members)
            ):
                if len(self._keys) < MOST:
                    self._keys[look.key] = sign.program
                return True
        return False

    def owns(self, key: bytes) -> bool:
        return key in self._keys or key.rpartition(b":")[0] + b":" in self._dockets

    def unread(self) -> Mapping[str, Collection[bytes]]:
        found = defaultdict[str, list[bytes]](list)
        for key, program in self._keys.items():
            found[f"named as {program}'s, whose queues redisq can't read"].append(key)
        return found


async def _has(look: KeyLook, members: frozenset[str]) -> bool:
    if not members:
        return True
    found = decoded(await look.first())
    return isinstance(found, dict) and found.keys() >= members

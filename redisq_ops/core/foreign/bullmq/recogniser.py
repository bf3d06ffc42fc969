"""How queues of BullMQ are recognised: each has a hash with its version or its limit of events."""

from __future__ import annotations

import re
from typing import Any, ClassVar

from ...redis.key_scan import Lane
from ...redis.operation import Call
from ..recogniser import Find, KeyLook, Recogniser

_META = re.compile(rb"(.+:)([^:]+):meta", re.DOTALL)


class BullmqRecogniser(Recogniser):
    lanes: ClassVar[tuple[Lane, ...]] = (Lane("hash", b"*:meta"),)

    def __init__(self) -> None:
        self._queues: set[tuple[bytes, bytes]] = set()

    async def by_name(self, look: KeyLook) -> bool:
        found = _META.fullmatch(look.key)
        if look.type != "hash" or not found:
            return False
        command = ("HMGET", look.key, "version", "opts.maxLenEvents")
        version, events = await Call(command, list[Any], key=look.key)
        if not (version or b"").startswith(b"bullmq") and not (events or b"").isdigit():
            return False
        self._queues.add((found[1], found[2]))
        return True

    async def finds(self) -> list[Find]:
        return [Find("bullmq", name, at) for at, name in self._queues]

    def owns(self, key: bytes) -> bool:
        return any(key.startswith(at + name + b":") for at, name in self._queues)

"""How queues of Dramatiq are recognised: a set of heartbeats, and hashes of messages beside it."""

from __future__ import annotations

import re
from typing import ClassVar

from ...redis.key_scan import Lane
from ..recogniser import Find, KeyLook, Recogniser

_HEARTBEATS, _MESSAGES = b"__heartbeats__", b".msgs"
_BROKER = re.compile(rb"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


class DramatiqRecogniser(Recogniser):
    lanes: ClassVar[tuple[Lane, ...]] = (
        Lane("zset", b"*:__heartbeats__"),
        Lane("hash", b"*.msgs"),
    )

    def __init__(self) -> None:
        self._namespaces: set[bytes] = set()
        self._messages: set[bytes] = set()

    async def by_name(self, look: KeyLook) -> bool:
        if look.type == "hash" and look.key.endswith(_MESSAGES):
            self._messages.add(look.key)
            return look.key.startswith(b"dramatiq:")
        if look.type != "zset" or not look.key.endswith(b":" + _HEARTBEATS):
            return False
        if not _BROKER.fullmatch(await look.first()):
            return False
        self._namespaces.add(look.key.removesuffix(_HEARTBEATS))
        return True

    async def finds(self) -> list[Find]:
        names = {
            (at, re.sub(rb"\.(?:DQ|XQ)\Z", b"", key.removeprefix(at).removesuffix(_MESSAGES)))
            for key in self._messages
            if (at := self._namespace(key)) is not None
        }
        return [Find("dramatiq", name, at) for at, name in names if name]

    def owns(self, key: bytes) -> bool:
        return self._namespace(key) is not None

    def _namespace(self, key: bytes) -> bytes | None:
        """The longest namespace that a key is in."""
        return max((at for at in self._namespaces if key.startswith(at)), key=len, default=None)

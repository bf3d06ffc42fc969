"""How queues of asynq are recognised: by the set of their names."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import ClassVar

from ...redis.key_scan import Lane
from ..recogniser import KeyLook, NamedQueues

AT = b"asynq:"
OF_A_QUEUE = rb"pending|active|scheduled|retry|archived|completed|lease|groups|aggregation_sets"
"""what follows the hash tag in the keys of a queue's lists and sets, but those of its groups"""
_KNOWN = re.compile(AT + rb"\{.+\}:(?:" + OF_A_QUEUE + rb")", re.DOTALL)
_OTHER = re.compile(AT + rb"\{.+\}:[^:]+", re.DOTALL)
_UNLISTED = "of asynq's queues that its set asynq:queues doesn't have"


class AsynqRecogniser(NamedQueues):
    kind: ClassVar[str] = "asynq"
    owner: ClassVar[str] = "asynq"
    lanes: ClassVar[tuple[Lane, ...]] = (Lane("zset"), Lane("list"), Lane("set", b"*queues"))

    def __init__(self) -> None:
        super().__init__()
        self._known: set[bytes] = set()

    async def by_name(self, look: KeyLook) -> bool:
        if look.type == "set":
            if look.key == AT + b"queues":
                names = filter(None, await look.members())
                self.queues.update((AT + b"{%s}:" % name, name) for name in names)
            return look.key == AT + b"queues"
        if _OTHER.fullmatch(look.key):
            self.keep(self._known if _KNOWN.fullmatch(look.key) else self.others, look.key)
        return look.type in ("zset", "list") and look.key.startswith(AT)

    def begin(self, at: bytes, name: bytes) -> bytes:
        return at

    def unread(self) -> Mapping[str, Collection[bytes]]:
        unlisted = [key for key in self._known if not self.owns(key)]
        return {**super().unread(), _UNLISTED: unlisted}

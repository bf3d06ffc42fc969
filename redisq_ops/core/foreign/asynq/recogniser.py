"""How queues of asynq are recognised: by the set of their names."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import ClassVar

from ...redis.key_scan import Lane
from ..recogniser import NAMES, UNKNOWN_STATE, Find, KeyLook, Recogniser

AT = b"asynq:"
OF_A_QUEUE = rb"pending|active|scheduled|retry|archived|completed|lease|groups|aggregation_sets"
"""what follows the hash tag in the keys of a queue's lists and sets, but those of its groups"""
_KNOWN = re.compile(AT + rb"\{.+\}:(?:" + OF_A_QUEUE + rb")", re.DOTALL)
_OTHER = re.compile(AT + rb"\{.+\}:[^:]+", re.DOTALL)
_UNLISTED = "of asynq's queues that its set asynq:queues doesn't have"


class AsynqRecogniser(Recogniser):
    lanes: ClassVar[tuple[Lane, ...]] = (Lane("zset"), Lane("list"), Lane("set", b"*queues"))

    def __init__(self) -> None:
        self._names: set[bytes] = set()
        self._known: set[bytes] = set()
        self._others: set[bytes] = set()

    async def by_name(self, look: KeyLook) -> bool:
        if look.type == "set":
            if look.key == AT + b"queues":
                self._names.update(filter(None, await look.members()))
            return look.key == AT + b"queues"
        keys = self._known if _KNOWN.fullmatch(look.key) else self._others
        if len(keys) < NAMES and _OTHER.fullmatch(look.key):
            keys.add(look.key)
        return look.type in ("zset", "list") and look.key.startswith(AT)

    async def finds(self) -> list[Find]:
        return [Find("asynq", name, AT + b"{%s}:" % name) for name in self._names]

    def owns(self, key: bytes) -> bool:
        return any(key.startswith(AT + b"{%s}:" % name) for name in self._names)

    def unread(self) -> Mapping[str, Collection[bytes]]:
        return {
            UNKNOWN_STATE.format("asynq"): [key for key in self._others if self.owns(key)],
            _UNLISTED: [key for key in self._known if not self.owns(key)],
        }

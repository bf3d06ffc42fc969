"""How deployments of RQ are recognised: the set of queues holds the whole keys of its lists."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import ClassVar

from ...redis.key_scan import Lane
from ..recogniser import NAMES, UNKNOWN_STATE, Find, KeyLook, Recogniser

OF_A_QUEUE = rb"queue|failed|scheduled|wip|deferred|finished|canceled|ready|workers"
"""what precedes the name of a queue in the keys of its lists and sets"""
_PARTS = (
    rb"(?:" + OF_A_QUEUE + rb"|results|executions?|job"
    rb"|workers?|group|groups|rl|scheduler(?!:scheduled_jobs\Z)|scheduler-lock|clean_registries|cron[^:]*):.+"
)
_USUAL = re.compile(b"rq:" + _PARTS, re.DOTALL)
_REST = re.compile(_PARTS, re.DOTALL)


class RqRecogniser(Recogniser):
    lanes: ClassVar[tuple[Lane, ...]] = (Lane("zset"), Lane("list"), Lane("set", b"*queues"))

    def __init__(self) -> None:
        self._queues: dict[bytes, set[bytes]] = {}
        self._others: set[bytes] = set()

    async def by_name(self, look: KeyLook) -> bool:
        if look.type in ("zset", "list"):
            known = _USUAL.fullmatch(look.key) is not None
            if not known and look.key.startswith(b"rq:") and len(self._others) < NAMES:
                self._others.add(look.key)
            return known
        if look.type != "set" or not look.key.endswith(b":queues"):
            return False
        at = look.key.removesuffix(b"queues")
        lists = at + b"queue:"
        keys = [key for key in await look.members() if key.startswith(lists)]
        names = {key.removeprefix(lists) for key in keys}
        if names:
            self._queues[at] = names
        return bool(names)

    async def finds(self) -> list[Find]:
        return [Find("rq", name, at) for at, names in self._queues.items() for name in names]

    def owns(self, key: bytes) -> bool:
        return any(
            key.startswith(at)
            and (_REST.fullmatch(rest := key.removeprefix(at)) or rest.partition(b":")[2] in names)
            for at, names in self._queues.items()
        )

    def unread(self) -> Mapping[str, Collection[bytes]]:
        return {UNKNOWN_STATE.format("RQ"): [key for key in self._others if self.owns(key)]}

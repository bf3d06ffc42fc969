"""How deployments of RQ are recognised: the set of queues holds the whole keys of its lists."""

from __future__ import annotations

import re
from typing import ClassVar

from ...redis.key_scan import Lane
from ..recogniser import Find, KeyLook, Recogniser

_PARTS = (
    rb"(?:queue|failed|scheduled|wip|deferred|finished|canceled|ready|results|executions?|job"
    rb"|workers?|group|groups|rl|scheduler(?!:scheduled_jobs\Z)|scheduler-lock|clean_registries|cron[^:]*):.+"
)
_USUAL = re.compile(b"rq:" + _PARTS, re.DOTALL)
_REST = re.compile(_PARTS, re.DOTALL)


class RqRecogniser(Recogniser):
    lanes: ClassVar[tuple[Lane, ...]] = (Lane("zset"), Lane("list"), Lane("set", b"*queues"))

    def __init__(self) -> None:
        self._queues: dict[bytes, list[bytes]] = {}

    async def by_name(self, look: KeyLook) -> bool:
        if look.type in ("zset", "list"):
            return _USUAL.fullmatch(look.key) is not None
        if look.type != "set" or not look.key.endswith(b":queues"):
            return False
        at = look.key.removesuffix(b"queues")
        lists = at + b"queue:"
        keys = [key for key in await look.members() if key.startswith(lists)]
        names = [key.removeprefix(lists) for key in keys]
        if names:
            self._queues[at] = names
        return bool(names)

    async def finds(self) -> list[Find]:
        return [Find("rq", name, at) for at, names in self._queues.items() for name in names]

    def owns(self, key: bytes) -> bool:
        return any(
            key.startswith(at) and _REST.fullmatch(key.removeprefix(at)) for at in self._queues
        )

"""How deployments of RQ are recognised: the set of queues holds the whole keys of its lists."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import ClassVar

from ...redis.key_scan import Lane
from ..recogniser import KeyLook, NamedQueues

OF_A_QUEUE = rb"queue|failed|scheduled|wip|deferred|finished|canceled|ready|workers"
"""what precedes the name of a queue in the keys of its lists and sets"""
_PARTS = (
    rb"(?:" + OF_A_QUEUE + rb"|results|executions?|job"
    rb"|workers?|group|groups|rl|scheduler|scheduler-lock|clean_registries|cron[^:]*):.+"
)
_CRON = rb"cron_(?:jobs|schedulers)"
"""sets by time of `rq cron`"""
_USUAL = re.compile(b"rq:(?:" + _PARTS + b"|" + _CRON + b")", re.DOTALL)
_REST = re.compile(_PARTS + b"|" + _CRON, re.DOTALL)
_SCHEDULES = b"rq:scheduler:scheduled_jobs"
_ALONE = "named as rq-scheduler's, and no queue of RQ is beside them"


class RqRecogniser(NamedQueues):
    kind: ClassVar[str] = "rq"
    owner: ClassVar[str] = "RQ"
    lanes: ClassVar[tuple[Lane, ...]] = (Lane("zset"), Lane("list"), Lane("set", b"*queues"))

    def __init__(self) -> None:
        super().__init__()
        self._homes: set[bytes] = set()
        self._schedules: set[bytes] = set()

    async def by_name(self, look: KeyLook) -> bool:
        if look.type in ("zset", "list"):
            known = _USUAL.fullmatch(look.key) is not None
            self._schedules |= {look.key} & {_SCHEDULES}
            if not known and look.key.startswith(b"rq:"):
                self.keep(self.others, look.key)
            return known
        if look.type != "set" or not look.key.endswith(b":queues"):
            return False
        at = look.key.removesuffix(b"queues")
        lists = at + b"queue:"
        keys = [key for key in await look.members() if key.startswith(lists)]
        self.queues.update((at, key.removeprefix(lists)) for key in keys)
        if keys:
            self._homes.add(at)
        return bool(keys)

    def unread(self) -> Mapping[str, Collection[bytes]]:
        alone = [key for key in self._schedules if not self.owns(key)]
        return {**super().unread(), _ALONE: alone}

    def owns(self, key: bytes) -> bool:
        return any(
            key.startswith(at)
            and (
                _REST.fullmatch(rest := key.removeprefix(at))
                or (at, rest.partition(b":")[2]) in self.queues
            )
            for at in self._homes
        )

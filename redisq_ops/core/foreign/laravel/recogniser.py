"""How Laravel's queues are recognised: by their names and a job in them; Horizon, by its names.

The keys of Horizon and of its queues begin differently, but by default both with the application's
name.
"""

from __future__ import annotations

import re
from typing import Any, ClassVar

from ...model.quoting import bytes_of, text
from ...redis.key_scan import Lane
from ...redis.operation import Call, apart, together
from ..json_text import decoded
from ..recogniser import Find, KeyLook, Recogniser

_QUEUE = re.compile(rb"(.*?)queues:(.+?)(:delayed|:reserved|:notify)?", re.DOTALL)
_HORIZON = re.compile(rb"((?:.*?[:_-])?horizon:)(.+)", re.DOTALL)
_DEFAULT = re.compile("(.+)(?:_database_|-database-)", re.DOTALL)
READ = 100
"""failed jobs of each Horizon whose queue is read"""


def horizons_of(at: str) -> list[str]:
    """What Horizon's keys may begin with if the keys of its queues begin with ``at``."""
    app = _DEFAULT.fullmatch(at)
    names = [app[1].replace("-", "_") + "_", app[1].replace("_", "-") + "-"] if app else []
    return [f"{name}horizon:" for name in (*names, at)]


class LaravelRecogniser(Recogniser):
    lanes: ClassVar[tuple[Lane, ...]] = (Lane("zset"), Lane("list"))

    def __init__(self) -> None:
        self._queues: set[tuple[bytes, bytes]] = set()
        """of each, what its keys begin with, and its name"""
        self._horizons: dict[bytes, set[bytes]] = {}
        """what the keys of each begin with -> queues of its failed jobs"""

    async def by_name(self, look: KeyLook) -> bool:
        if look.type in ("zset", "list") and (named := _HORIZON.fullmatch(look.key)):
            failed = self._horizons.setdefault(named[1], set())
            if (look.type, named[2]) == ("zset", b"failed_jobs"):
                failed |= await _queues_of(named[1], look.key)
            return True
        if look.type not in ("zset", "list") or not (named := _QUEUE.fullmatch(look.key)):
            return False
        if named[3] == b":notify":
            return await look.first() == b"1"
        job = decoded(await look.first())
        if not isinstance(job, dict) or not job.keys() >= {"job", "data"}:
            return False
        self._queues.add((named[1], named[2]))
        return True

    async def finds(self) -> list[Find]:
        """Queues with keys; queues with failed jobs in the Horizons of these; other Horizons."""
        found, alone = set(self._queues), {at for at, failed in self._horizons.items() if failed}
        for at in {at for at, _ in self._queues}:
            for horizon in map(bytes_of, horizons_of(text(at))):
                found |= {(at, queue) for queue in self._horizons.get(horizon, ())}
                alone.discard(horizon)
        found |= {(horizon, b"") for horizon in alone}
        return [Find("laravel", queue, at) for at, queue in found]

    def owns(self, key: bytes) -> bool:
        named = _QUEUE.fullmatch(key)
        if named and (named[1], named[2]) in self._queues:
            return True
        return any(key.startswith(horizon) for horizon in self._horizons)


async def _queues_of(horizon: bytes, key: bytes) -> set[bytes]:
    ids = await Call(("ZRANGE", key, 0, READ - 1), list[bytes], key=key, cut=True)
    asks: list[Call[Any]] = [
        Call(("HGET", horizon + id, "queue"), lambda name: name, key=horizon + id) for id in ids
    ]
    found = await together(map(apart, asks))
    return {name for name in found if isinstance(name, bytes) and name}

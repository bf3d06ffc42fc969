"""How queues of arq are recognised: a worker's health check, a result, or a set of ids of jobs."""

from __future__ import annotations

from typing import ClassVar

from ...model.quoting import bytes_of
from ...redis.key_scan import Lane
from ...redis.operation import Call, apart
from ..recogniser import Find, KeyLook, Recogniser
from .job import Record

_HEALTH = b":health-check"
_SHARED = (b"arq:job:", b"arq:result:", b"arq:in-progress:", b"arq:retry:")
SMALL = 512
"""bytes a member of a queue has at most, on average: they are ids"""
READ = 64 * 1024
"""bytes that are read of a result"""
RESULTS = 100
"""results whose queue is read in one scan"""


class ArqRecogniser(Recogniser):
    lanes: ClassVar[tuple[Lane, ...]] = (
        Lane("zset"),
        Lane("string", b"*:health-check"),
        Lane("string", b"arq:result:*"),
    )

    def __init__(self) -> None:
        self._queues: set[bytes] = set()
        self._results = 0

    async def by_name(self, look: KeyLook) -> bool:
        if look.type == "zset":
            if look.key == b"arq:queue":
                self._queues.add(look.key)
            return look.key in (b"arq:queue", b"arq:abort")
        if look.type != "string":
            return False
        if look.key.endswith(_HEALTH):
            said = await Call(("GETRANGE", look.key, 0, 200), bytes, key=look.key)
            if b" j_complete=" in said:
                self._queues.add(look.key.removesuffix(_HEALTH))
            return b" j_complete=" in said
        if look.key.startswith(b"arq:result:") and self._results < RESULTS:
            self._results += 1
            data = await Call(("GETRANGE", look.key, 0, READ), bytes, key=look.key)
            if queue := Record.read(data).queue:
                self._queues.add(bytes_of(queue))
        return look.key.startswith(_SHARED)

    async def by_content(self, look: KeyLook) -> bool:
        if look.type != "zset" or await look.mean_size() > SMALL or not (id := await look.first()):
            return False
        job = b"arq:job:" + id
        # A user who may not read arq's keys must still see other programs' queues.
        if await apart(Call(("EXISTS", job), bool, key=job)) is not True:
            return False
        self._queues.add(look.key)
        return True

    async def finds(self) -> list[Find]:
        return [Find("arq", name, b"") for name in self._queues]

    def owns(self, key: bytes) -> bool:
        return key in self._queues or key.startswith(_SHARED) or key == b"arq:abort"

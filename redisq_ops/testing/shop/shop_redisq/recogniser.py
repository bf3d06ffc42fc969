"""How the shop's queues are recognised: by the names of their keys."""

from __future__ import annotations

from typing import ClassVar

from redisq_ops.core.foreign.recogniser import Find, KeyLook, Recogniser
from redisq_ops.core.redis.key_scan import Lane

PARTS = (b"shop:jobs:", b"shop:failed:")


class ShopRecogniser(Recogniser):
    lanes: ClassVar[tuple[Lane, ...]] = (Lane("list"), Lane("zset"))

    def __init__(self) -> None:
        self._names: set[bytes] = set()

    async def by_name(self, look: KeyLook) -> bool:
        for part in PARTS:
            if look.key.startswith(part):
                self._names.add(look.key.removeprefix(part))
                return True
        return False

    async def finds(self) -> list[Find]:
        return [Find("shop", name, b"shop:") for name in self._names]

    def owns(self, key: bytes) -> bool:
        return key.startswith(PARTS)

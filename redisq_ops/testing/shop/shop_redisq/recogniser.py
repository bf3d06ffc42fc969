"""How the shop's queues are recognised: by the names of their keys."""

from __future__ import annotations

import re
from typing import ClassVar

from redisq_ops.core.foreign.recogniser import NamedQueues
from redisq_ops.core.redis.key_scan import Lane


class ShopRecogniser(NamedQueues):
    kind: ClassVar[str] = "shop"
    owner: ClassVar[str] = "the shop"
    lanes: ClassVar[tuple[Lane, ...]] = (Lane("list", b"shop:*"), Lane("zset", b"shop:*"))
    named: ClassVar[re.Pattern[bytes] | None] = re.compile(rb"(shop:)(?:jobs|failed):(.+)", re.S)

"""By which keys queues of Carmine are recognised: their names alone."""

from __future__ import annotations

import re
from typing import ClassVar

from ...foreign.recogniser import Find, KeyLook, Recogniser
from ...redis.key_scan import Lane

_AT = b"carmine:mq:"
_PART = re.compile(
    _AT + rb"(.+):(?:messages|locks|backoffs|nattempts|mid-circle|done|requeue|messages-rq"
    rb"|lock-times|lock-times-rq|udts|mids-ready|isleep-[ab])",
    re.DOTALL,
)
_PART_4 = re.compile(
    rb"(carmine:mq:v4:\{[0-9a-f]{16}\}:)(.+):(?:config|seq|payloads|meta|successor-payloads"
    rb"|successor-meta|ready-high|ready-normal|ready-low|scheduled|leased|lease-tokens|dead"
    rb"|dead-payloads|failures|signal)",
    re.DOTALL,
)
"""of Carmine 4's preview: what a queue's keys begin with, and its name"""


class CarmineRecogniser(Recogniser):
    """Carmine 1 to 3, and the preview of 4."""

    lanes: ClassVar[tuple[Lane, ...]] = (
        Lane("zset"), Lane("list"), Lane("hash", _AT + b"*"), Lane("stream"),
    )  # fmt: skip

    def __init__(self) -> None:
        self._names: set[bytes] = set()
        self._names_4: set[tuple[bytes, bytes]] = set()

    async def by_name(self, look: KeyLook) -> bool:
        if four := _PART_4.fullmatch(look.key):
            self._names_4.add((four[1], four[2]))
            return True
        part = _PART.fullmatch(look.key)
        if part is None or look.type not in ("hash", "set", "list"):
            return False
        self._names.add(part[1])
        return True

    async def finds(self) -> list[Find]:
        return [
            *(Find("carmine", name, _AT) for name in self._names),
            *(Find("carmine-4", name, at) for at, name in self._names_4),
        ]

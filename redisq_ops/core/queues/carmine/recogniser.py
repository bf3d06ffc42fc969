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


class CarmineRecogniser(Recogniser):
    """Carmine 1 to 3."""

    lanes: ClassVar[tuple[Lane, ...]] = (
        Lane("zset"),
        Lane("list"),
        Lane("hash", _AT + b"*"),
        Lane("stream"),
    )

    def __init__(self) -> None:
        self._names: set[bytes] = set()

    async def by_name(self, look: KeyLook) -> bool:
        part = _PART.fullmatch(look.key)
        if part is None or look.type not in ("hash", "set", "list"):
            return False
        self._names.add(part[1])
        return True

    async def finds(self) -> list[Find]:
        return [Find("carmine", name, _AT) for name in self._names]

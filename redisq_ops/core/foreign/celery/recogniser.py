"""How queues of Celery are recognised: kombu's sets of bindings name them."""

from __future__ import annotations

from typing import ClassVar

from ...redis.key_scan import Lane
from ..recogniser import Find, KeyLook, Recogniser

BINDING, SEPARATOR = b"_kombu.binding.", b"\x06\x16"
_SHARED = (b"unacked", b"unacked_index", b"unacked_mutex")


class CeleryRecogniser(Recogniser):
    lanes: ClassVar[tuple[Lane, ...]] = (Lane("set", b"*_kombu.binding.*"), Lane("zset"))

    def __init__(self) -> None:
        self._queues: set[tuple[bytes, bytes]] = set()

    async def by_name(self, look: KeyLook) -> bool:
        if look.type == "zset":  # their scores are times: they look like sets of delayed entries
            return look.key.endswith((b"unacked_index", b"_kombu.binding_deadlines"))
        at, found, exchange = look.key.partition(BINDING)
        if look.type != "set" or not found:
            return False
        bound = [member.split(SEPARATOR) for member in await look.members()]
        names = {parts[2] for parts in bound if len(parts) == 3 and parts[2]}
        # Exchanges by which workers are told something, and tell it: their queues have no tasks.
        if not exchange.endswith(b".pidbox") and exchange != b"celeryev":
            self._queues |= {(at, name) for name in names}
        return bool(names)

    async def finds(self) -> list[Find]:
        return [Find("celery", name, at) for at, name in self._queues]

    def owns(self, key: bytes) -> bool:
        return any(
            key.startswith(at)
            and (
                (rest := key.removeprefix(at)) in _SHARED
                or rest.startswith((b"_kombu.", b"celery-task-meta-"))
                or rest.partition(SEPARATOR)[0] == name
            )
            for at, name in self._queues
        )

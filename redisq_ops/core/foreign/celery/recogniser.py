"""How queues of Celery are recognised: kombu's sets of bindings name them."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import ClassVar

from ...redis.key_scan import Lane
from ..recogniser import Find, KeyLook, Recogniser
from .bindings import BINDING, parts_of, separator_of
from .redbeat_keys import AT, DUE

_ALONE = "named as RedBeat's, and no queue of Celery is beside them"
_OF_ONE_WORKER = re.compile(rb"bcast\.[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
"""a queue of kombu's `Broadcast`: each worker makes one, and Redis keeps no messages of it"""
_SHARED = (b"unacked", b"unacked_index", b"unacked_mutex")


class CeleryRecogniser(Recogniser):
    lanes: ClassVar[tuple[Lane, ...]] = (Lane("set", b"*_kombu.binding.*"), Lane("zset"))

    def __init__(self) -> None:
        self._queues: dict[tuple[bytes, bytes], bytes] = {}
        """prefix and name of each queue -> the separator of its bindings"""
        self._unread: set[bytes] = set()
        self._schedules: set[bytes] = set()

    async def by_name(self, look: KeyLook) -> bool:
        if look.type == "zset":  # their scores are times: they look like sets of delayed entries
            self._schedules |= {look.key} & {DUE}
            known = look.key.endswith((b"unacked_index", b"_kombu.binding_deadlines"))
            return known or look.key.startswith(AT)
        at, found, exchange = look.key.partition(BINDING)
        if look.type != "set" or not found:
            return False
        # Exchanges of control messages and of events: their queues have no tasks.
        if exchange.endswith(b".pidbox") or exchange == b"celeryev":
            return True
        for member in await look.members():
            separator = separator_of(member)
            parts = parts_of(member, separator) if separator else None
            if not separator or not parts:
                self._unread.add(look.key)
            elif not _OF_ONE_WORKER.fullmatch(parts[2]):
                self._queues[at, parts[2]] = separator
        return True

    def unread(self) -> Mapping[str, Collection[bytes]]:
        alone = () if self._queues else self._schedules
        return {"named as Celery's, whose `sep` can't be found": self._unread, _ALONE: alone}

    async def finds(self) -> list[Find]:
        return [Find("celery", name, at) for at, name in self._queues]

    def owns(self, key: bytes) -> bool:
        return (bool(self._queues) and key.startswith(AT)) or any(
            key.startswith(at)
            and (
                (rest := key.removeprefix(at)) in _SHARED
                or rest.startswith((b"_kombu.", b"celery-task-meta-"))
                or rest.partition(separator)[0] == name
            )
            for (at, name), separator in self._queues.items()
        )

"""Connections as redis-py makes them, and what has to be otherwise."""

from __future__ import annotations

from typing import Any

import redis
from redis.connection import HiredisRespSerializer

_NUMBERS = frozenset({int, float})


class Packer(HiredisRespSerializer):
    """Sends numbers as text, also those of redis-py's own greeting (``HELLO 3``, ``SELECT 1``).

    hiredis would make text of them itself, and a Ctrl+C just then kills the interpreter.
    """

    def pack(self, *args: Any) -> Any:
        if not _NUMBERS.isdisjoint(map(type, args)):
            args = tuple([str(arg) if type(arg) in _NUMBERS else arg for arg in args])
        return super().pack(*args)


class NodePool(redis.ConnectionPool):
    """Of one node: the cluster client hands on to its nodes only options it knows."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options, command_packer=Packer())

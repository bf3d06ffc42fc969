"""Recognising other programs' queues by their keys.

A layout's folder has a module ``recogniser`` with a subclass of `Recogniser` for each program.
`redisq discover` passes every key that matches one of their lanes to all `by_name`, then to all
`by_content`, until one returns True; `finds` are the queues.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Coroutine, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, ClassVar

from ..redis.key_scan import Lane
from ..redis.operation import Call, together
from ..redis.parsers import optional

UNKNOWN_STATE = "of {}'s queues, in a state that this release of redisq doesn't know"
"""what `Recogniser.unread` says of keys of an unknown state"""
NAMES = 1000
"""members read of a set of queues"""
LARGE = 1024 * 1024
"""an element of this many bytes is not read"""


@dataclass(slots=True)
class Find:
    """A queue that was recognised. ``what``: the owner's name of the queue, or its only key."""

    kind: str
    what: bytes
    at: bytes
    parts: set[bytes] = field(default_factory=set)
    """the queue's keys that were found, where its layout keeps no index"""
    by_content: bool = False
    """recognised by content only: not shown if the key belongs to another find"""


class KeyLook:
    """A key that a scan found. Each read is made once, however many recognisers use it, and is
    small: a size, a few elements, one page of a set."""

    def __init__(self, type: str, key: bytes, now_ms: int) -> None:
        self.type = type
        self.key = key
        self.now_ms = now_ms
        self._read: dict[str, Any] = {}

    async def once(self, name: str, read: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
        if name not in self._read:
            self._read[name] = await read()
        return self._read[name]

    async def mean_size(self) -> int:
        """Bytes of an element of a list or sorted set on average, estimated."""

        async def read() -> int:
            length = "LLEN" if self.type == "list" else "ZCARD"
            memory, n = await together(
                Call(
                    ("MEMORY", "USAGE", self.key, "SAMPLES", 5), lambda r: int(r or 0), key=self.key
                ),
                Call((length, self.key), int, key=self.key),
            )
            return memory // n if n else 0

        size: int = await self.once("mean_size", read)
        return size

    async def first(self) -> bytes:
        """The first element of a list or sorted set; empty where elements are large."""

        async def read() -> bytes:
            if await self.mean_size() > LARGE:
                return b""
            if self.type == "list":
                one = Call(("LINDEX", self.key, 0), optional, key=self.key, cut=True)
                return await one or b""
            some = await Call(("ZRANGE", self.key, 0, 0), list[bytes], key=self.key, cut=True)
            return some[0] if some else b""

        element: bytes = await self.once("first", read)
        return element

    async def members(self) -> list[bytes]:
        """Up to about a thousand members of a set."""

        async def read() -> list[bytes]:
            command = ("SSCAN", self.key, 0, "COUNT", NAMES)
            return await Call(command, lambda reply: list(reply[1]), key=self.key, cut=True)

        names: list[bytes] = await self.once("members", read)
        return names


class Recogniser(ABC):
    """Collects evidence of one program's queues from the keys of one scan of a server."""

    lanes: ClassVar[tuple[Lane, ...]]
    """the keys it wants: a type, and a pattern for SCAN if their names have one"""

    def wanted(self) -> tuple[Lane, ...]:
        """The lanes of this object."""
        return self.lanes

    async def by_name(self, look: KeyLook) -> bool:
        """Whether a key is this program's, by its name; remembers what is needed for `finds`."""
        return False

    async def by_content(self, look: KeyLook) -> bool:
        """Whether a key that no program claims by name is this program's, by its content."""
        return False

    async def finds(self) -> list[Find]:
        """The queues that were recognised."""
        return []

    def owns(self, key: bytes) -> bool:
        """Whether a key belongs to a queue or deployment in `finds`, which was called before."""
        return False

    def unread(self) -> Mapping[str, Collection[bytes]]:
        """What is said of keys that can't be read -> these keys; called after `finds`."""
        return {}


class NamedQueues(Recogniser):
    """Recognises queues by the names of their keys."""

    kind: ClassVar[str]
    owner: ClassVar[str]
    named: ClassVar[re.Pattern[bytes] | None] = None
    """keys that are of a queue whatever is in them: the first group is what its keys begin with,
    the second its name. None: the subclass adds to `queues` what it finds"""

    def __init__(self) -> None:
        self.queues: set[tuple[bytes, bytes]] = set()
        """of each, what its keys begin with, and its name"""
        self.others: set[bytes] = set()
        """keys that have no state's name, of these queues or of none"""

    def begin(self, at: bytes, name: bytes) -> bytes:
        """What all keys of a queue begin with, where `named` doesn't tell."""
        return at + name + b":"

    def _queue_of(self, key: bytes) -> tuple[bytes, bytes] | None:
        found = self.named and self.named.fullmatch(key)
        return (found[1], found[2]) if found else None

    async def by_name(self, look: KeyLook) -> bool:
        queue = self._queue_of(look.key)
        if queue is None or look.type not in {lane.type for lane in self.lanes}:
            return False
        self.queues.add(queue)
        return True

    def keep(self, keys: set[bytes], key: bytes) -> None:
        if len(keys) < NAMES:
            keys.add(key)

    async def finds(self) -> list[Find]:
        return [Find(self.kind, name, at) for at, name in self.queues]

    def owns(self, key: bytes) -> bool:
        if self.named:
            return self._queue_of(key) in self.queues
        return any(key.startswith(self.begin(*queue)) for queue in self.queues)

    def unread(self) -> Mapping[str, Collection[bytes]]:
        return {UNKNOWN_STATE.format(self.owner): list(filter(self.owns, self.others))}


class SingleKeys(Recogniser):
    """Recognises queues of one key each by its content; it has the type of the first lane."""

    kind: ClassVar[str]

    def __init__(self) -> None:
        self._keys: set[bytes] = set()

    @abstractmethod
    async def is_queue(self, look: KeyLook) -> bool:
        """Whether the key, which is of that type, is a queue."""

    async def by_content(self, look: KeyLook) -> bool:
        if look.type != self.lanes[0].type or not await self.is_queue(look):
            return False
        self._keys.add(look.key)
        return True

    async def finds(self) -> list[Find]:
        return [Find(self.kind, key, key, by_content=True) for key in self._keys]


def recognisers_in(module: str) -> list[type[Recogniser]]:
    """The recognisers that a module has: classes with lanes."""
    return [
        each
        for each in vars(import_module(module)).values()
        if isinstance(each, type) and issubclass(each, Recogniser) and hasattr(each, "lanes")
    ]


def lanes(found: list[Recogniser]) -> tuple[Lane, ...]:
    """The lanes of these recognisers, each once."""
    return tuple(dict.fromkeys(lane for one in found for lane in one.wanted()))

"""Scans all keys of a server, or of every primary of a Cluster, by SCAN in small steps.

Only for layouts without an index: `redisq discover`, and checks of other programs' queues. One
round trip reads about a thousand keys. It asks for several *lanes* at once, a
type and a pattern each: so the server filters the keys, and only names that can match are sent.
SCAN's guarantee holds: a key that exists all the time is seen, maybe more than once.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import redis
import redis.asyncio as aredis

from ..engine.registry import server_ms
from ..model.errors import Unreachable
from .operation import Call, apart, together

COUNT = 1000
"""keys that one SCAN reads"""


@dataclass(frozen=True, slots=True)
class Lane:
    """Which keys to find: those of a type that match the pattern, if there is one."""

    type: str
    pattern: bytes | None = None


@dataclass(slots=True)
class _Node:
    name: str
    options: dict[str, Any]
    keys: int = 0
    looked: int = 0
    cursors: dict[Lane, int] = field(default_factory=dict)


class Walk:
    """One scan of all keys, node after node: call `step` until `over`.

    ``looked`` and ``keys`` are about right: a SCAN doesn't say how many keys it looked at, and
    keys come and go. ``missing``: masters that didn't answer, and their errors. Their keys were
    not seen.
    """

    def __init__(self, client: Any, lanes: Sequence[Lane], count: int = COUNT) -> None:
        self.client = client
        self.lanes = tuple(lanes)
        self.count = count
        self.missing: dict[str, str] = {}
        self._nodes: list[_Node] | None = None
        self._gone = 0

    @property
    def over(self) -> bool:
        return self._nodes is not None and not any(node.cursors for node in self._nodes)

    @property
    def looked(self) -> int:
        return sum(node.looked for node in self._nodes or ())

    @property
    def keys(self) -> int:
        """Number of keys on all nodes."""
        return sum(node.keys for node in self._nodes or ())

    async def step(self) -> list[tuple[str, bytes]]:
        """The next keys, each with its type. The first step only reads how many there are."""
        if self._nodes is None:
            # An asyncio cluster client reads its nodes at the first command.
            await clock_ms(self.client)
            self._nodes = _masters(self.client)
            for node in self._nodes:
                await self._begin(node)
            return []
        if self.over:
            return []
        node = next(node for node in self._nodes if node.cursors)
        lanes = list(node.cursors)
        replies = await apart(together(self._scan(node, lane) for lane in lanes))
        if isinstance(replies, Exception):
            self._lost(node, replies)
            return []
        found = []
        for lane, (cursor, keys) in zip(lanes, replies, strict=True):
            node.cursors[lane] = cursor
            if not cursor:
                del node.cursors[lane]
            found += [(lane.type, key) for key in keys]
        node.looked = min(node.keys, node.looked + self.count) if node.cursors else node.keys
        return found

    async def _begin(self, node: _Node) -> None:
        size: Call[int] = Call(("DBSIZE",), int, options=node.options)
        keys = await apart(size)
        if isinstance(keys, Exception):
            self._lost(node, keys)
        else:
            node.keys = keys
            node.cursors = dict.fromkeys(self.lanes, 0)

    def _lost(self, node: _Node, error: Exception) -> None:
        if not isinstance(error, Unreachable) or (self._nodes and len(self._nodes) == 1):
            raise error
        self.missing[node.name] = str(error)
        node.cursors = {}

    def _scan(self, node: _Node, lane: Lane) -> Call[tuple[int, list[bytes]]]:
        words: list[str | int | bytes] = ["SCAN", node.cursors[lane], "COUNT", self.count]
        if lane.pattern is not None:
            words += ["MATCH", lane.pattern]
        return Call((*words, "TYPE", lane.type), _read, options=node.options)


async def look(client: Any, lanes: Sequence[Lane], most: int) -> tuple[list[bytes], str | None]:
    """The keys found among about the first ``most``, and what wasn't scanned, if anything."""
    walk, found = Walk(client, lanes), set[bytes]()
    while not walk.over and walk.looked < most:
        found.update(key for _, key in await walk.step())
    unseen = None
    if not walk.over:
        unseen = f"only the first {walk.looked:,} of about {walk.keys:,} keys were looked through"
    elif walk.missing:
        unseen = f"{', '.join(walk.missing)} didn't answer: the keys there were not seen"
    return sorted(found), unseen


async def clock_ms(client: Any) -> int:
    """The server's clock; on a Cluster any primary's, where the usual one doesn't answer."""
    usual = await apart(server_ms())
    if not isinstance(usual, Exception):
        return usual
    for node in _masters(client):
        time: Call[int] = server_ms()._replace(key=None, options=node.options)
        now = await apart(time)
        if not isinstance(now, Exception):
            return now
    raise usual


def _masters(client: Any) -> list[_Node]:
    if isinstance(client, (redis.RedisCluster, aredis.RedisCluster)):
        nodes = sorted(client.get_primaries(), key=lambda node: str(node.name))
        return [_Node(node.name, {"target_nodes": node}) for node in nodes]
    return [_Node("the server", {})]


def _read(reply: Any) -> tuple[int, list[bytes]]:
    cursor, keys = reply
    if isinstance(cursor, dict):  # a cluster client returns one per node
        (cursor,) = cursor.values()
    return int(cursor), keys


def literal(text: str) -> str:
    """A pattern for SCAN and the like that matches just this text."""
    return re.sub(r"([*?\[\]\\^-])", r"\\\1", text)

"""How the articles' layouts are recognised: two by the names of their keys, two by content.

A delay set is recognised by the share of its scores that are times, a rotating list by the marks at
its ends. Members of a sorted set are not read.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any, ClassVar

from ...model.quoting import bytes_of
from ...redis.key_scan import Lane
from ...redis.operation import Call, together
from ..recogniser import Find, KeyLook, Recogniser, SingleKeys
from ..streams.recogniser import group_names

PARTS = 100_000
"""keys remembered of one queue"""
_TOKENS = re.compile(rb"\{req\}:\d+")
_REQUEST = re.compile(rb"(?:sub|counter):\{(.*)\}", re.DOTALL)
_FAIR = b"bqueues:"
ENDS = 25
"""elements read at each end of a list"""
SMALL = 512
"""bytes of an element of a rotating list, at most, on average: they are ids"""
SECONDS = (10**9, 41 * 10**8)
"""2001 to 2099: scores of this size are times"""
_SCHEDULE = re.compile(rb"delay|sched|retr|later|timer|due|cron|remind", re.IGNORECASE)
_MARK = re.compile(rb"[^*]{1,128}\*(\d{10}|\d{13})(?:\.\d+)?", re.DOTALL)


class RequestRecogniser(Recogniser):
    """A stream and a counter for each request, lists of tokens for all."""

    lanes: ClassVar[tuple[Lane, ...]] = (
        Lane("stream"),
        Lane("list"),
        Lane("string", b"counter:{*}"),
    )

    def __init__(self) -> None:
        self._requests: set[bytes] = set()
        self._tokens = False

    async def by_name(self, look: KeyLook) -> bool:
        if look.type == "list" and _TOKENS.fullmatch(look.key):
            self._tokens = True
            return True
        part = _REQUEST.fullmatch(look.key)
        if part is None or look.type not in ("stream", "string"):
            return False
        if look.type == "stream":
            sub = look.key.startswith(b"sub:")
            if not sub or not await group_names(look) <= {look.key}:
                return False
        if len(self._requests) < PARTS:
            self._requests.add(part[1])
        return True

    async def finds(self) -> list[Find]:
        if not self._requests and not self._tokens:
            return []
        return [Find("raw-request", b"req", b"", set(self._requests))]


class FairRecogniser(Recogniser):
    """A list for each client of a queue: a message names the client, the rest is the queue."""

    lanes: ClassVar[tuple[Lane, ...]] = (Lane("list"), Lane("set", _FAIR + b"dead:*"))

    def __init__(self) -> None:
        self._clients: dict[bytes, str | None] = {}

    async def by_name(self, look: KeyLook) -> bool:
        if look.type not in ("list", "set") or not look.key.startswith(_FAIR):
            return False
        if look.type == "set":
            self._clients[look.key] = None
        elif len(self._clients) < PARTS:
            self._clients[look.key] = client_of(await look.first())
        return True

    async def finds(self) -> list[Find]:
        queues: dict[bytes, Find] = {}

        def of(what: bytes) -> Find:
            return queues.setdefault(what, Find("raw-fair", what, _FAIR))

        unsure = []
        for key, client in self._clients.items():
            rest = key.removeprefix(_FAIR)
            begin, _, name = rest.partition(b":")
            if begin in (b"processing", b"dead") and name:
                of(name)
            elif client is not None and rest.endswith(b":" + bytes_of(client)):
                of(rest[: -len(bytes_of(client)) - 1])
            else:
                unsure.append(rest)
        for rest in unsure:
            known = [what for what in queues if rest.startswith(what + b":")]
            of(max(known, key=len) if known else rest.rpartition(b":")[0] or rest)
        lists = [
            key
            for key in self._clients
            if key.removeprefix(_FAIR).partition(b":")[0] not in (b"processing", b"dead")
        ]
        for what, queue in queues.items():
            queue.parts = {key for key in lists if key.startswith(_FAIR + what)}
        return list(queues.values())


class DelayRecogniser(SingleKeys):
    """A sorted set of payloads by time."""

    kind: ClassVar[str] = "raw-delay"
    lanes: ClassVar[tuple[Lane, ...]] = (Lane("zset"),)

    async def is_queue(self, look: KeyLook) -> bool:
        return await is_schedule(look.key, look.now_ms)


class CircularRecogniser(SingleKeys):
    """A list that rotates, with marks ``id*time`` at its ends."""

    kind: ClassVar[str] = "raw-circular"
    lanes: ClassVar[tuple[Lane, ...]] = (Lane("list"),)

    async def is_queue(self, look: KeyLook) -> bool:
        return await is_turning(look)


async def is_schedule(key: bytes, now_ms: int) -> bool:
    """Whether a sorted set holds payloads by time.

    Nearly all scores are times, and some are in the future or the name speaks of a schedule: else
    it may be an index of past events. Only counts are read.
    """
    low, high = SECONDS

    def count(a: float | str, b: float | str) -> Call[int]:
        return Call(("ZCOUNT", key, a, b), int, key=key)

    size, seconds, ms, ahead, ahead_ms = await together(
        [
            count("-inf", "+inf"),
            count(low, f"({high}"),
            count(low * 1000, f"({high * 1000}"),
            count(f"({now_ms / 1000!r}", f"({high}"),
            count(f"({now_ms}", f"({high * 1000}"),
        ]
    )
    times = seconds + ms
    return bool(
        times and times >= 0.9 * size and (ahead or ahead_ms or _SCHEDULE.search(key) is not None)
    )


async def is_turning(look: KeyLook) -> bool:
    """Whether a list of small elements has marks ``id*time`` at its ends."""
    if await look.mean_size() > SMALL:
        return False
    ends: Sequence[list[bytes]] = await together(
        Call(("LRANGE", look.key, first, last), list[bytes], key=look.key)
        for first, last in ((0, ENDS - 1), (-ENDS, -1))
    )
    return any(_MARK.fullmatch(element) for end in ends for element in end)


def client_of(element: bytes) -> str | None:
    """The client that a message of article 004 names; None: it is no such message."""
    try:
        found: Any = json.loads(element)
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, dict) or "attempts" not in found:
        return None
    client = found.get("client_id")
    return client if isinstance(client, str) else None

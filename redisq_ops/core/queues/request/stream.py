"""Reading a request's stream and its group: entries, and the pending list the stream itself keeps.

A stream that is gone (the request finished and nothing can come back) reads as empty.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...model.entry import Consumer
from ...model.quoting import text
from ...redis.operation import Call, attempt

GROUP = "g"


@dataclass(frozen=True, slots=True)
class PendingSubRequest:
    """A row of the pending list: sub-request ``number``, and how long ago it was given."""

    number: int
    idle_ms: int


@dataclass(frozen=True, slots=True)
class Stream:
    """A request's stream: its key, and how many entries it holds."""

    key: str
    length: int


def entry_number(id: bytes) -> int:
    return int(id.partition(b"-")[0])


def entries(key: str, low: str, high: str, max: int) -> Call[list[tuple[int, bytes]]]:
    """(number, payload) of stream entries, in order."""

    def read(reply: Any) -> list[tuple[int, bytes]]:
        return [(entry_number(id), fields[b"r"]) for id, fields in reply]

    return Call(("XRANGE", key, low, high, "COUNT", max), read, key=key)


def numbers(key: str, low: str, max: int) -> Call[list[int]]:
    """Numbers of the stream's entries from ``low`` on, whatever is in them."""

    def read(reply: Any) -> list[int]:
        return [entry_number(id) for id, _ in reply]

    return Call(("XRANGE", key, low, "+", "COUNT", max), read, key=key)


async def payload(key: str, n: str) -> bytes | Exception | None:
    """The payload of one entry; an exception if it can't be read."""
    found = await attempt(entries(key, f"{n}-0", f"{n}-0", 1))
    return found if isinstance(found, Exception) else found[0][1] if found else None


def held(
    key: str, low: str, high: str, max: int, consumer: str | None = None
) -> Call[list[PendingSubRequest]]:
    """Rows of the pending list, in order of number."""

    def read(reply: Any) -> list[PendingSubRequest]:
        return [
            PendingSubRequest(entry_number(row["message_id"]), int(row["time_since_delivered"]))
            for row in reply or []
        ]

    only = () if consumer is None else (consumer,)
    return Call(
        ("XPENDING", key, GROUP, low, high, max, *only),
        read,
        key=key,
        options={"parse_detail": True},
        absent="NOGROUP",
    )


def again(key: str, low: str, high: str, max: int) -> Call[list[int]]:
    """Numbers of sub-requests that are to run again, in order; ``key`` is their sorted set."""
    return Call(
        ("ZRANGE", key, low, high, "BYSCORE", "LIMIT", 0, max),
        lambda reply: [int(n) for n in reply],
        key=key,
    )


def pending(key: str) -> Call[int]:
    """How many entries its consumers hold."""

    def read(reply: Any) -> int:
        return int(reply["pending"]) if reply else 0

    return Call(("XPENDING", key, GROUP), read, key=key, absent="NOGROUP")


def consumers(key: str) -> Call[list[Consumer]]:
    """The group's consumers."""

    def read(reply: Any) -> list[Consumer]:
        found = []
        for row in reply or []:
            fields = row if isinstance(row, dict) else dict(zip(row[::2], row[1::2], strict=True))
            name = text(fields[b"name"])
            idle, pending = int(fields[b"idle"]), int(fields[b"pending"])
            found.append(Consumer(name, pending, idle))
        return found

    return Call(("XINFO", "CONSUMERS", key, GROUP), read, key=key, absent="no such key")

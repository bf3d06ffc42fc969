"""What other programs may write between an operator's look and the script that changes an entry."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from redisq_ops.core.model.entry import Entry
from redisq_ops.core.redis.commands import coroutine_of
from redisq_ops.core.redis.operation import Call, Description, exchange

from .picture import Picture

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Interference:
    """One write of another program's. ``what``: its key and what is changed there, with ``{id}``
    for the entry's id: ``rq:job:{id} status``."""

    what: str
    command: tuple[Any, ...]

    def __call__(self, client: Any) -> None:
        client.execute_command(*self.command)


def interferences(picture: Picture, entry: Entry, names: Sequence[bytes]) -> Iterator[Interference]:
    """Changes (another score, another value, gone) of every element that has one of the entry's
    ``names`` (first its id) or its payload, of every field whose name has one of them, and of the
    keys that have one in their names."""
    name_of = re.compile(rb"(?<![\w-])(?:" + b"|".join(map(re.escape, names)) + rb")(?![\w-])")

    def mentions(text: bytes) -> bool:  # a job of Resque has no id
        return bool(name_of.search(text) or (entry.payload and entry.payload in text))

    def shown_as(text: bytes) -> str:
        return name_of.sub(b"{id}", text).decode("utf-8", "backslashreplace")

    for name, key in picture.keys.items():
        shown = shown_as(name)
        content: Any = key.content
        own = mentions(name) or name.endswith(tuple(b"-" + one for one in names))
        if key.type == b"zset":
            for member, score in content.items():
                if mentions(member):
                    yield Interference(f"{shown} score", ("ZADD", name, score + 1, member))
                    yield Interference(f"{shown} gone", ("ZREM", name, member))
        elif key.type == b"list":
            for at, element in enumerate(content[b"elements"]):
                if mentions(element):
                    yield Interference(f"{shown} gone", ("LREM", name, 0, element))
                    yield Interference(f"{shown} changed", ("LSET", name, at, element + b" "))
        elif key.type == b"hash":
            for field, value in content.items():
                part = shown_as(field)
                if own or mentions(field):
                    yield Interference(f"{shown} {part}", ("HSET", name, field, value + b"0"))
                if mentions(field) and not own:
                    yield Interference(f"{shown} {part} gone", ("HDEL", name, field))
        elif key.type == b"set":
            for one in filter(content.__contains__, names):
                yield Interference(f"{shown} gone", ("SREM", name, one))
        elif key.type == b"string" and own:
            yield Interference(f"{shown} changed", ("APPEND", name, b" "))
        if own:
            yield Interference(f"{shown} gone", ("DEL", name))


def raced(client: Any, change: Description[T], meanwhile: Callable[[], object]) -> T:
    """Run a change; ``meanwhile`` is called before each round trip with a script, after the
    looks."""
    return interrupted(client, change, lambda calls, n: any(c.source for c in calls), meanwhile)


def interrupted(
    client: Any,
    description: Description[T],
    when: Callable[[Sequence[Call[Any]], int], bool],
    happens: Callable[[], object],
) -> T:
    """Run a description; ``happens`` is called before each round trip that ``when`` chooses, by its
    calls and its number from 0."""
    coroutine, number = coroutine_of(description), 0
    try:
        calls = coroutine.send(None)
        while True:
            if when(calls, number):
                happens()
            calls, number = coroutine.send(exchange(client, calls)), number + 1
    except StopIteration as stop:
        value: T = stop.value
        return value

"""What operators changed, and how to take it back.

Each change is written down in its queue before it begins: who, what, why, from where, and what
undoes it. A bulk move keeps what every entry was before, step by step, as long as trash is kept.
"""

from __future__ import annotations

import getpass
import os
import secrets
import socket
from dataclasses import dataclass
from typing import Any

from redisq_ops.core.errors import NotFound, Refused
from redisq_ops.core.io import Call, together
from redisq_ops.core.queue import Queue, scored

from .deployment import Deployment

KEPT_MS = 30 * 24 * 3600 * 1000


@dataclass(frozen=True, slots=True)
class Author:
    """Who changes something, why, and from where."""

    who: str
    whence: str
    why: str = ""

    @classmethod
    def here(cls, why: str = "") -> Author:
        """The person at this machine; the tool's own word, not a proof."""
        try:
            who = os.environ.get("REDISQ_USER") or getpass.getuser()
        except (KeyError, OSError):
            who = str(os.getuid())
        return cls(who, socket.gethostname(), why)


@dataclass(frozen=True, slots=True)
class Operation:
    """One journal entry."""

    id: str
    queue: str
    verb: str
    started_ms: int
    who: str
    whence: str
    why: str
    what: str
    """the filter, or the object, in words"""
    source: str
    target: str
    matched: int
    done: int
    steps: int
    undone: int
    inverse: str
    """how a change that is not a move of entries is taken back; empty: not at all"""
    ended: bool

    @property
    def undoable(self) -> bool:
        if self.inverse:
            return not self.undone
        return self.moved_back and self.done > self.undone

    @property
    def moved_back(self) -> bool:
        """Whether it moved entries somewhere they can be moved back from."""
        return self.target not in ("", "gone", "restore")


_FIELDS = (
    "verb", "started_ms", "who", "whence", "why", "what", "source", "target", "matched", "done",
    "steps", "undone", "inverse", "ended",
)  # fmt: skip
_NUMBERS = {"started_ms", "matched", "done", "steps", "undone"}


def new_id(verb: str) -> str:
    """An operation's name: its verb and enough chance to be unique."""
    return f"{verb}-{secrets.token_hex(5)}"


async def begin(
    queue: Queue[Any],
    id: str,
    verb: str,
    author: Author,
    what: str,
    *,
    now_ms: int,
    source: str = "",
    target: str = "",
    matched: int = 0,
) -> None:
    """Write an operation down before its first step."""
    key, ops = queue.keys["op_"] + id, queue.keys["ops"]
    fields: dict[str, str | int] = {
        "verb": verb, "started_ms": now_ms, "who": author.who, "whence": author.whence,
        "why": author.why, "what": what, "source": source, "target": target, "matched": matched,
    }  # fmt: skip
    flat = [part for pair in fields.items() for part in pair]
    await together(
        [
            Call(("HSET", key, *flat), int, key=key),
            Call(("ZADD", ops, now_ms, id), int, key=ops),
            Call(("PEXPIRE", key, KEPT_MS), int, key=key),
        ]
    )


def note(queue: Queue[Any], id: str, **fields: str | int) -> Call[int]:
    """Add to an operation's entry (its inverse, its end)."""
    key = queue.keys["op_"] + id
    flat = [part for pair in fields.items() for part in pair]
    return Call(("HSET", key, *flat), int, key=key)


def read(queue: Queue[Any], id: str) -> Call[Operation | None]:
    """One operation of a queue."""
    key = queue.keys["op_"] + id

    def decode(reply: list[bytes | None]) -> Operation | None:
        row = {f: (v or b"").decode() for f, v in zip(_FIELDS, reply, strict=True)}
        if not row["verb"]:
            return None
        numbers = {name: int(row[name] or 0) for name in _NUMBERS}
        words = {k: v for k, v in row.items() if k not in _NUMBERS and k != "ended"}
        return Operation(id, queue.name, **words, **numbers, ended=row["ended"] == "1")  # type: ignore[arg-type]

    return Call(("HMGET", key, *_FIELDS), decode, key=key)


async def log(deployment: Deployment, max: int = 50, queue: str | None = None) -> list[Operation]:
    """The latest operations over all queues, newest first."""
    queues = [await deployment.queue(queue)] if queue else await deployment.queues()
    listed = await together(scored(q.keys["ops"], "0", str(max - 1), "REV") for q in queues)
    found = await together(
        read(q, id) for q, rows in zip(queues, listed, strict=True) for id, _ in rows
    )
    known = [operation for operation in found if operation is not None]
    return sorted(known, key=lambda o: o.started_ms, reverse=True)[:max]


async def find(deployment: Deployment, id: str) -> tuple[Queue[Any], Operation]:
    """An operation by its name, in whichever queue it was."""
    queues = await deployment.queues()
    found = await together(read(queue, id) for queue in queues)
    for queue, operation in zip(queues, found, strict=True):
        if operation is not None:
            return queue, operation
    raise NotFound(f"no operation {id!r} in the journal (redisq log shows them)")


class Undo:
    """Takes an operation back, step by step, newest first. Drive `step` until it says False."""

    def __init__(self, queue: Queue[Any], operation: Operation, author: Author) -> None:
        if not operation.undoable:
            raise Refused(f"{operation.id} can't be undone: {_why_not(operation)}")
        self.queue = queue
        self.operation = operation
        self.author = author
        self.id = new_id("undo")
        self.back = 0
        self.touched = 0
        self._left = operation.steps
        self._begun = False

    async def step(self) -> bool:
        """Undo one step; False when nothing is left."""
        operation = self.operation
        if not self._begun:
            now = await self.queue.now.op()
            await begin(
                self.queue, self.id, "undo", self.author, operation.id,
                now_ms=now, matched=operation.done,
            )  # fmt: skip
            self._begun = True
        if self._left > 0 and operation.moved_back and not operation.inverse:
            back, touched = await self.queue.undo.op(
                operation.id, self._left, target=operation.target, by=self.id,
                seq=operation.steps - self._left + 1,
            )  # fmt: skip
            self.back += back
            self.touched += touched
            self._left -= 1
            if self._left > 0:
                return True
        if operation.inverse:
            verb, *args = operation.inverse.split(" ")
            self.back += await self.queue.invert.op(self.id, operation.steps + 1, verb, args)
            await note(self.queue, operation.id, undone=max(1, operation.undone))
        await note(self.queue, self.id, done=self.back, ended=1)
        return False


def _why_not(operation: Operation) -> str:
    if operation.target == "gone":
        return "its entries were removed for good"
    if operation.target == "restore":
        return "purge the entries again instead"
    if operation.undone:
        return "it was undone already"
    return "it changed nothing"

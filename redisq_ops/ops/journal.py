"""What operators changed, and how to take it back.

Each change is written down in its queue before it begins: who, what, why, from where, and what
undoes it. A bulk move keeps what every entry was before, step by step, as long as trash is kept.
"""

from __future__ import annotations

import getpass
import os
import secrets
import socket
from dataclasses import dataclass, field
from typing import Any

from redisq_ops.core.errors import NotFound, Refused
from redisq_ops.core.io import Call, together
from redisq_ops.core.queue import Queue, scored
from redisq_ops.core.scripts import script

from .deployment import Deployment


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
        # Words of a command line may be any bytes, carried as surrogates no server could store.
        return cls(who, socket.gethostname(), why.encode("utf-8", "backslashreplace").decode())


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
    tried: int
    """1 once an undo went through all of it: what it skipped had changed, and stays"""

    @property
    def undoable(self) -> bool:
        if self.inverse:
            return not self.undone
        return self.moved_back and self.done > self.undone and not self.tried

    @property
    def moved_back(self) -> bool:
        """Whether it moved entries somewhere they can be moved back from."""
        return self.target not in ("", "gone")


@dataclass(slots=True)
class Outcome:
    """What a change did; `redisq` ends with it and the exit code follows from it."""

    op: str | None
    matched: int
    done: int = 0
    skipped: dict[str, int] = field(default_factory=dict)

    def skip(self, reason: str, n: int = 1) -> None:
        if n:
            self.skipped[reason] = self.skipped.get(reason, 0) + n

    @property
    def exit_code(self) -> int:
        """0 all is as it was to be, or nothing matched; 3 some; 1 none of those that matched."""
        right = self.done + self.skipped.get("same", 0)
        if right >= self.matched:
            return 0
        return 3 if right else 1


_FIELDS = (
    "verb", "started_ms", "who", "whence", "why", "what", "source", "target", "matched", "done",
    "steps", "undone", "inverse", "ended", "tried",
)  # fmt: skip
_NUMBERS = {"started_ms", "matched", "done", "steps", "undone", "tried"}


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
    await _write(
        queue, id, str(now_ms),
        verb=verb, started_ms=now_ms, who=author.who, whence=author.whence, why=author.why,
        what=what, source=source, target=target, matched=matched,
    )  # fmt: skip


def note(queue: Queue[Any], id: str, **fields: str | int) -> Call[int]:
    """Add to an operation's entry (its inverse, its end)."""
    return _write(queue, id, "", **fields)


def _write(queue: Queue[Any], id: str, started: str, **fields: str | int) -> Call[int]:
    written = script(queue.room, "journal")
    return written.call(queue.keys, queue.clock, int, fields.items(), op=id, started=started)


async def read(queue: Queue[Any], id: str) -> Operation | None:
    """One operation of a queue. Every shard counts what was moved in it; the first has the rest."""
    keys = [each["op_"] + id for each in queue.all_keys]
    rows = await together(Call(("HMGET", key, *_FIELDS), _row, key=key) for key in keys)
    if not rows[0]["verb"]:
        return None
    words = {k: v for k, v in rows[0].items() if k not in _NUMBERS and k != "ended"}
    numbers = {name: [int(row[name] or 0) for row in rows] for name in _NUMBERS}
    counted = {
        name: max(values) if name in ("steps", "tried") else sum(values)
        for name, values in numbers.items()
    }
    return Operation(id, queue.name, **words, **counted, ended=rows[0]["ended"] == "1")  # type: ignore[arg-type]


def _row(reply: list[bytes | None]) -> dict[str, str]:
    return {name: (value or b"").decode() for name, value in zip(_FIELDS, reply, strict=True)}


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
    """Takes an operation back, step by step, newest first. Drive `step` until it says False.

    What was touched since is left alone (``changed``); what was kept too long ago can't be put
    back (``expired``).
    """

    pause = 0.0
    """seconds between steps; as a `Bulk` has it"""

    def __init__(self, queue: Queue[Any], operation: Operation, author: Author) -> None:
        if not operation.undoable:
            raise Refused(f"{operation.id} can't be undone: {_why_not(operation)}")
        self.queue = queue
        self.operation = operation
        self.author = author
        self._inverses = operation.inverse.split("\n") if operation.inverse else []
        moved = operation.done - operation.undone
        self.outcome = Outcome(new_id("undo"), len(self._inverses) or moved)
        self._left = 0 if self._inverses else operation.steps
        self._begun = False

    async def step(self) -> bool:
        """Undo one step; False when nothing is left."""
        queue, operation, outcome = self.queue, self.operation, self.outcome
        assert outcome.op is not None
        if not self._begun:
            await begin(
                queue, outcome.op, "undo", self.author, operation.id,
                now_ms=await queue.now.op(), matched=outcome.matched,
            )  # fmt: skip
            self._begun = True
        if self._left > 0:
            back, touched = await queue.undo.op(
                operation.id, self._left, target=operation.target, by=outcome.op,
                seq=operation.steps - self._left + 1,
            )  # fmt: skip
            outcome.done += back
            outcome.skip("changed", touched)
            self._left -= 1
            return True
        for seq, inverse in enumerate(reversed(self._inverses), 1):
            verb, *args = inverse.split(" ")
            outcome.done += await queue.invert.op(outcome.op, seq, verb, args)
        if self._inverses:
            await note(queue, operation.id, undone=1)
        else:
            await note(queue, operation.id, tried=1)
        gone = outcome.matched - outcome.done - outcome.skipped.get("changed", 0)
        outcome.skip("same" if self._inverses else "expired", gone)
        await note(queue, outcome.op, done=outcome.done, ended=1)
        return False

    async def reached(self) -> int:
        """How many were put back as the journal has it, also by a step that was not heard of."""
        now = await read(self.queue, self.operation.id)
        return now.undone - self.operation.undone if now else self.outcome.done


def _why_not(operation: Operation) -> str:
    if operation.target == "gone":
        return "its entries were removed for good"
    if operation.undone or operation.tried:
        return "it was undone already, as far as its entries were untouched"
    return "it changed nothing"

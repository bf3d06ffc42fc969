"""What operators changed, and how to take it back.

Each change is written down in its queue before it begins: who, what, why, from where, and what
undoes it. A bulk move keeps what every entry was before, step by step, as long as trash is kept.
"""

from __future__ import annotations

import getpass
import os
import secrets
import socket
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, cast

from redisq_ops.core.errors import NotFound, Refused, Superseded
from redisq_ops.core.io import Call, attempt, both, together
from redisq_ops.core.keys import Keys
from redisq_ops.core.queue import Queue
from redisq_ops.core.reply import scored
from redisq_ops.core.scripts import script
from redisq_ops.core.values import State

from .deployment import Deployment
from .hint import hint

NAMED = 5
"""ids of those an undo left alone that are shown; its ``told`` is told of all"""
OTHERS = "by another undo"
"""what an undo says of those that another one took back, earlier or at the same time"""
UNLINKED = 1000
"""keys removed at once"""
MOST = 1_000_000
"""steps an operation is believed to have"""


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
    rest: int = 0
    """of a move: how many of those may come back by another undo, once it is taken back what an
    operator did with them over there"""
    undoing: int = 0
    """1 once an undo began: no further step of it is carried out"""
    span: tuple[int, int] = (0, 0)
    """the entries its last step was about, by their place in what was chosen"""
    parts: int = 0
    """how many hands its steps are numbered by, each from 1 (see `part`); 0: by one"""
    into: str = ""
    """the queue its entries went to, of a move (see `relocation`)"""
    into_ms: int = 0
    """when that one was registered"""
    landed: int = 0
    """steps of a move that are known to have ended in both queues"""
    origin: str = ""
    """the queue an operation belongs to, where this one only had a part in it"""

    @property
    def by(self) -> str:
        """Who, and from where, as every face shows it."""
        return f"{self.who}@{self.whence}"

    @property
    def across(self) -> str:
        """Of a move: where to, or from where, as every face shows it."""
        return f"to {self.into}" if self.into else f"from {self.origin}" if self.origin else ""

    @property
    def undoable(self) -> bool:
        if self.origin:
            return False
        if self.inverse:
            return not self.undone
        return self.moved_back and self.done > self.undone and bool(self.rest or not self.tried)

    @property
    def moved_back(self) -> bool:
        """Whether it moved entries somewhere they can be moved back from."""
        return self.target not in ("", "gone")

    @property
    def taken_back(self) -> bool:
        """Whether an undo was begun, and so nothing more of it may be done."""
        return bool(self.undoing or self.undone or self.tried)


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
    def left(self) -> int:
        """How many of those it dealt with aren't as they were to be."""
        return sum(n for word, n in self.skipped.items() if word not in ("same", OTHERS))

    @property
    def exit_code(self) -> int:
        """0 all is as it was to be, or nothing matched; 3 some; 1 none of those that matched."""
        right = self.done + sum(self.skipped.values()) - self.left
        if right >= self.matched:
            return 0
        return 3 if right else 1


_FIELDS = (
    "verb", "started_ms", "who", "whence", "why", "what", "source", "target", "matched", "done",
    "steps", "undone", "inverse", "ended", "tried", "rest", "undoing", "span", "parts", "into",
    "into_ms", "landed", "origin",
)  # fmt: skip
_NUMBERS = {
    "started_ms", "matched", "done", "steps", "undone", "tried", "rest", "undoing", "parts",
    "into_ms", "landed",
}  # fmt: skip
_OWN = {"ended", "span"}


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
    parts: int = 0,
    **more: str | int,
) -> None:
    """Write an operation down before its first step; ``parts``: see `part`."""
    await _write(
        queue, id, str(now_ms),
        verb=verb, started_ms=now_ms, who=author.who, whence=author.whence, why=author.why,
        what=what, source=source, target=target, matched=matched, parts=parts, **more,
    )  # fmt: skip


def note(queue: Queue[Any], id: str, **fields: str | int) -> Call[int]:
    """Add to an operation's entry (its inverse, its end)."""
    return _write(queue, id, "", **fields)


def _write(queue: Queue[Any], id: str, started: str, **fields: str | int) -> Call[int]:
    written = script(queue.room, "journal")
    return written.call(queue.keys, queue.clock, int, fields.items(), op=id, started=started)


def part(id: str, k: int) -> str:
    """The name under which the ``k``-th of an operation's parts numbers its steps.

    Many processes that carry out one operation at once can't share its numbers: a step that comes
    behind a later one is refused. So each part has its own, and what its entries are is fixed.
    """
    return f"{id}.{k}"


def fence(id: str) -> str:
    """The name under which a cancelled request's running entries are fenced off."""
    return f"{id}-fence"


async def forget(queue: Queue[Any]) -> int:
    """Remove a queue's journal, and what its operations could be undone with, from every shard it
    ever had; how many keys. A kill leaves in the journal what wasn't gone through yet."""
    gone, key = 0, queue.keys["ops"]
    places = [*queue.all_keys, *queue.former_keys]
    page = max(1, UNLINKED // len(places))
    while rows := await scored(key, "0", str(page - 1)):
        ids = [id for id, _ in rows]
        gone += sum(await together(_forget_whole(places, id) for id in ids))
        await Call(("ZREM", key, *ids), int, key=key)
    return gone


async def _forget_whole(places: Sequence[Keys], id: str) -> int:
    (parts,) = await _counted([places[0]["op_"] + id], "parts")
    gone = await _forget(places, id) + await _forget(places, fence(id))
    for k in range(parts):
        gone += await _forget(places, part(id, k))
    return gone


async def _forget(places: Sequence[Keys], name: str) -> int:
    """What undoes each step goes before the entry that says how many there are."""
    entries = [keys["op_"] + name for keys in places]
    # Of the one that knows of most: a shard that was given up has steps and no entry any more.
    end = max(await _counted(entries, "steps")) + 1
    gone, some = 0, max(1, UNLINKED // len(places))
    for first in range(1, end, some):
        steps = range(first, min(first + some, end))
        lists = [[f"{keys['undo_']}{name}:{step}" for step in steps] for keys in places]
        gone += sum(await together(Call(("UNLINK", *of), int, key=of[0]) for of in lists))
    return gone + sum(await together(Call(("UNLINK", key), int, key=key) for key in entries))


async def _counted(entries: list[str], name: str) -> list[int]:
    """A number of each entry; 0 where there is none, or none that we would have written."""
    calls = (Call(("HGET", key, name), lambda n: int(n or 0), key=key) for key in entries)
    found = await together(map(attempt, calls))
    return [n if isinstance(n, int) and 0 < n <= MOST else 0 for n in found]


async def reached(queue: Queue[Any], part: str) -> tuple[int, int, int]:
    """How far a part of an operation came: its steps, what they moved, and what was put back."""
    rows = await _rows(queue, part)
    steps = max(int(row["steps"] or 0) for row in rows)
    done, undone = (sum(int(row[name] or 0) for row in rows) for name in ("done", "undone"))
    return steps, done, undone


async def _rows(queue: Queue[Any], id: str) -> list[dict[str, str]]:
    keys = [each["op_"] + id for each in queue.all_keys]
    return await together(Call(("HMGET", key, *_FIELDS), _row, key=key) for key in keys)


async def read(queue: Queue[Any], id: str) -> Operation | None:
    """One operation of a queue, also by the name of a part of it. Every shard counts what was
    moved in it; the first has the rest."""
    id = id.partition(".")[0]
    rows = await _rows(queue, id)
    if not rows[0]["verb"]:
        return None
    words = {k: v for k, v in rows[0].items() if k not in _NUMBERS | _OWN}
    numbers = {name: [int(row[name] or 0) for row in rows] for name in _NUMBERS}
    counted = {
        name: max(values) if name in ("steps", "tried", "undoing", "parts") else sum(values)
        for name, values in numbers.items()
    }
    of_parts = await together(reached(queue, part(id, k)) for k in range(counted["parts"]))
    for steps, done, undone in of_parts:
        counted["steps"] += steps
        counted["done"] += done
        counted["undone"] += undone
    # Shards that disagree about the last step were told of it by different hands: the nearer end
    # is sure, what is behind it is looked at again.
    ends = [row["span"] for row in rows if int(row["steps"] or 0) == counted["steps"]]
    last = [end.split("-")[:2] for end in ends]  # behind it: whose hand it was
    span = min([(int(span[0]), int(span[1])) for span in last if len(span) == 2], default=(0, 0))
    ended = rows[0]["ended"] == "1"
    return Operation(id, queue.name, **words, **counted, ended=ended, span=span)  # type: ignore[arg-type]


def _row(reply: list[bytes | None]) -> dict[str, str]:
    return {name: (value or b"").decode() for name, value in zip(_FIELDS, reply, strict=True)}


async def last(queue: Queue[Any], max: int) -> list[Operation]:
    """A queue's latest operations, newest first."""
    rows = await scored(queue.keys["ops"], "0", str(max - 1), "REV")
    found = await together(read(queue, id) for id, _ in rows)
    return [operation for operation in found if operation is not None]


async def log(deployment: Deployment, max: int = 50, queue: str | None = None) -> list[Operation]:
    """The latest operations over all queues, newest first."""
    queues = [await deployment.queue(queue)] if queue else await deployment.queues()
    listed = await together(scored(q.keys["ops"], "0", str(max - 1), "REV") for q in queues)
    found = await together(
        read(q, id) for q, rows in zip(queues, listed, strict=True) for id, _ in rows
    )
    known = [operation for operation in found if operation is not None]
    own = {operation.id for operation in known if not operation.origin}
    known = [operation for operation in known if not (operation.origin and operation.id in own)]
    newest = sorted(known, key=lambda o: o.started_ms, reverse=True)[:max]
    # An undo that was killed has nothing left to do once another one came to its end.
    over, told = {o.id for o in known if o.taken_back and not o.undoable}, []
    for operation in newest:
        if operation.verb == "undo" and operation.ended:
            over.add(operation.what)
        done = operation.verb == "undo" and operation.what in over
        told.append(replace(operation, ended=True) if done else operation)
    return told


async def find(deployment: Deployment, id: str) -> tuple[Queue[Any], Operation]:
    """An operation by its name, in whichever queue it was."""
    queues = await deployment.queues()
    found = await together(read(queue, id) for queue in queues)
    for queue, operation in zip(queues, found, strict=True):
        if operation is not None and not operation.origin:
            return queue, operation
    raise NotFound(f"no operation {id!r} in the journal ({hint('log')} shows them)")


class Undo:
    """Takes an operation back, step by step, newest first. Drive `step` until it says False.

    What was touched since is left alone (``changed``); what was kept too long ago can't be put
    back (``expired``); what lies too far inside another program's list stays there for now
    (``deep``), and the operation can be undone again. The outcome is about the whole operation
    whoever took what back, earlier or at the same time (`OTHERS`).

    ``told`` is told of each that was touched, by its id; ``sample`` are the first of them. Where a
    layout only counts them, and of those kept for too long, nobody knows which they are: they are
    ``unnamed``.
    """

    pause = 0.0
    """seconds between steps; as a `Bulk` has it"""
    across = False
    """whether it knows its way between two queues"""

    told: Callable[[str, str], None] | None = None
    rest = 0
    """as its `Operation` has it"""

    def __init__(self, queue: Queue[Any], operation: Operation, author: Author) -> None:
        if not operation.undoable or bool(operation.into) != self.across:
            raise Refused(f"{operation.id} can't be undone: {why_not(operation)}")
        self.queue = queue
        self.operation = operation
        self.author = author
        self._inverses = operation.inverse.split("\n") if operation.inverse else []
        """what is to be taken back yet of a change that was no move of entries, newest last"""
        about = sum(queue.inverts(*_read(each)) for each in self._inverses)
        self.outcome = Outcome(new_id("undo"), about or operation.done - operation.undone)
        self._left: list[tuple[str, int]] = []
        """what numbered its steps, and how many of them are to be taken back yet"""
        self._taken = 0
        self._begun = False
        self.sample: list[str] = []
        self._named = 0
        self._touched: list[str] = []

    @property
    def unnamed(self) -> int:
        """How many were left alone of which nobody knows the ids."""
        known = ("changed", "deep", "expired")
        return max(0, sum(self.outcome.skipped.get(word, 0) for word in known) - self._named)

    async def step(self) -> bool:
        """Undo one step; False when nothing is left."""
        queue, operation, outcome = self.queue, self.operation, self.outcome
        assert outcome.op is not None
        if not self._begun:
            await begin(
                queue, outcome.op, "undo", self.author, operation.id,
                now_ms=await queue.now.op(), matched=outcome.matched,
            )  # fmt: skip
            if not operation.inverse:
                await self._close()
            self._begun = True
        operation = self.operation
        if self._inverses:
            # First of the two: a step may count itself in the same place.
            await both(note(queue, outcome.op, **self._far), self._invert(outcome.op))
            return True
        while self._left and not self._left[-1][1]:
            self._left.pop()
        if self._left:
            id, step = self._left[-1]
            back, touched, *beyond = await self._take_back(id, step)
            outcome.done += back
            outcome.skip("changed", touched)
            outcome.skip("deep", sum(beyond))
            self._name()
            self._left[-1] = id, step - 1
            self._taken += 1
            return True
        if operation.inverse:
            await note(queue, operation.id, undone=1)
        else:
            await self._account()
        await note(queue, outcome.op, ended=1, **self._far)
        return False

    @property
    def _far(self) -> dict[str, int]:
        """What its own entry is told of how far it came."""
        # A step that moves entries counts itself, in its own shard; what an import put in is moved
        # to the trash.
        inverse = self.operation.inverse
        counted = not inverse or inverse.startswith("accepted ")
        more = {} if counted else {"done": self.outcome.done}
        return {"matched": self.outcome.matched, **more}

    async def _account(self) -> None:
        """Tell what other undos did from what nobody can take back."""
        operation, outcome = self.operation, self.outcome
        changed, deep = (outcome.skipped.get(word, 0) for word in ("changed", "deep"))
        if not deep:  # those can be put back by and by
            await note(self.queue, operation.id, tried=1, rest=self.rest)
        now = await read(self.queue, operation.id) or operation
        outcome.matched = max(operation.done, outcome.done)
        others = max(0, now.undone - outcome.done)
        gone = max(0, outcome.matched - outcome.done - changed - deep)
        outcome.skip(OTHERS, min(gone, others))
        # What they left alone is kept no longer either.
        left = others or operation.rest
        outcome.skip("changed" if left else "expired", max(0, gone - others))

    async def _invert(self, op: str) -> None:
        """Take one thing back of a change that was no move of entries."""
        verb, args = _read(self._inverses[-1])
        back = await self.queue.invert.op(
            op, self._taken + 1, verb, args, left=self._touched.extend
        )
        self._inverses.pop()
        self._taken += 1
        touched = self._name()
        self.outcome.done += back
        self.outcome.skip("changed", touched)
        self.outcome.skip("same", self.queue.inverts(verb, args) - back - touched)

    async def _take_back(self, id: str, step: int) -> tuple[int, ...]:
        """Undo one step, as `Queue.undo` does."""
        assert self.outcome.op is not None
        said: tuple[int, ...] = await self.queue.undo.op(
            id, step, target=self.operation.target, by=self.outcome.op, seq=self._taken + 1,
            left=self._touched.extend,
        )  # fmt: skip
        return said

    def _name(self) -> int:
        """Say which a step left alone, once: a call that was sent again says it again. How many."""
        ids = list(dict.fromkeys(self._touched))
        self._touched.clear()
        self._named += len(ids)
        self.sample += ids[: NAMED - len(self.sample)]
        if self.told is not None:
            for id in ids:
                self.told(id, "changed")
        return len(ids)

    async def _close(self) -> None:
        """Take the operation's next step in its place, an empty one: whoever still is at it, or
        comes back to it, is told, and moves nothing that would not be undone."""
        queue, id = self.queue, self.operation.id
        await note(queue, id, undoing=1, tried=0)
        if self.operation.parts:
            # An ended one too: a copy of a task that was given up may be on its way yet.
            self._left = [await self._end_part(part(id, k)) for k in range(self.operation.parts)]
            now = await read(queue, id)
        else:
            while (now := await read(queue, id)) is not None and not now.ended:
                end = now.span[1]
                if await self._takes(id, now.steps + 1, f"{end}-{end}"):
                    break
        if now is not None:
            # Steps may have been carried out since it was read.
            self.outcome.matched += now.done - self.operation.done
            self.operation = now
        if not self.operation.parts:
            self._left = [(id, self.operation.steps)]

    async def _end_part(self, id: str) -> tuple[str, int]:
        while True:
            steps, _, _ = await reached(self.queue, id)
            if await self._takes(id, steps + 1):
                return id, steps

    async def _takes(self, id: str, step: int, span: str = "") -> bool:
        """Whether that step of nothing was the one of its number."""
        operation = self.operation
        with suppress(Superseded):
            said = await self.queue.move.op(
                id, step, [], source=cast("State", operation.source), target=operation.target,
                high_water_ms=0, span=span,
            )  # fmt: skip
            return not said
        return False

    async def reached(self) -> int:
        """How many were put back as the journal has it, also by a step that was not heard of."""
        assert self.outcome.op is not None
        own = await read(self.queue, self.outcome.op)
        return max(self.outcome.done, own.done if own else 0)


def _read(inverse: str) -> tuple[str, list[str]]:
    verb, *args = inverse.split(" ")
    return verb, args


def why_not(operation: Operation) -> str:
    if operation.origin:
        return f"it is an operation of queue {operation.origin}"
    if operation.target == "gone":
        return "its entries were removed for good"
    if operation.undone or operation.tried:
        return "it was undone already, as far as its entries were untouched"
    if operation.verb == "undo":
        return "an undo is not taken back; do again what it took back"
    if operation.done:
        return f"nothing takes back a {operation.verb}"
    return "it changed nothing"

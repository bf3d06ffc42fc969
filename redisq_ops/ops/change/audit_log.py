"""The audit log: what operators changed, and how to undo it.

Each change is recorded in its queue before it begins: who, what, why, from where, and what undoes
it. A bulk change keeps what every entry was before, step by step, as long as trash is kept.
"""

from __future__ import annotations

import getpass
import os
import secrets
import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from typing import Any

from redisq_ops.core.engine.queue import Queue
from redisq_ops.core.model.errors import Forbidden, NotFound, Unreachable, Unreadable, WrongKind
from redisq_ops.core.model.keys import Keys
from redisq_ops.core.redis import acl_rights
from redisq_ops.core.redis.operation import Call, Description, apart, attempt, together
from redisq_ops.core.redis.parsers import scored

from ..deployment import Deployment
from ..hint import hint

UNLINKED = 1000
"""keys removed at once"""
MOST = 1_000_000
"""steps an operation has at most; a larger number is corrupt"""


@dataclass(frozen=True, slots=True)
class Author:
    """Who changes something, why, and from where."""

    who: str
    whence: str
    why: str = ""

    @classmethod
    def here(cls, why: str = "") -> Author:
        """The user of this process; claimed, not proven."""
        try:
            who = os.environ.get("REDISQ_USER") or getpass.getuser()
        except (KeyError, OSError):
            who = str(os.getuid())
        return cls(who, socket.gethostname(), why)

    @property
    def reason(self) -> str:
        """Why; or, without a reason, who."""
        return self.why or f"by {self.who}"


@dataclass(frozen=True, slots=True)
class Operation:
    """One entry of the audit log."""

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
    """what undoes a change of anything but entries; empty: nothing does"""
    ended: bool
    tried: int
    """1 once an undo went through all steps; the entries that it skipped had changed, and stay"""
    rest: int = 0
    """of a move: how many of the skipped entries another undo may restore, once the operator's
    changes of them in the target are undone"""
    undoing: int = 0
    """1 once an undo began: no further step of this operation is carried out"""
    span: tuple[int, int] = (0, 0)
    """the entries of its last step: begin and end of their places among the chosen entries"""
    parts: int = 0
    """number of parts, each of which numbers its own steps from 1 (see `part`); 0: no parts"""
    into: str = ""
    """of a move: the queue to which its entries went (see `relocation`)"""
    into_ms: int = 0
    """when the target queue was registered"""
    landed: int = 0
    """steps of a move that are known to have ended in both queues"""
    origin: str = ""
    """set in the target of a move: the queue to which the operation belongs"""
    taking: int = 0
    """of a move: the step that an undo takes back now, or took back last"""

    @property
    def by(self) -> str:
        """Who, and from where, as every user interface shows it."""
        return f"{self.who}@{self.whence}"

    @property
    def across(self) -> str:
        """Of a move: where to, or from where, as every user interface shows it."""
        return f"to {self.into}" if self.into else f"from {self.origin}" if self.origin else ""

    @property
    def about(self) -> str:
        """The filter or the object, as every user interface shows it; empty for a pause, drain or
        resume of the whole queue."""
        flag = not self.source and self.what.startswith(("paused = ", "closed = "))
        return "" if flag else self.what

    @property
    def subject(self) -> str:
        """What was changed: the filter, the state, and of a move the other queue."""
        return " ".join(filter(None, (self.source, self.about, self.across)))

    @property
    def undoable(self) -> bool:
        if self.origin:
            return False
        if self.inverse:
            return not self.undone
        return self.moved_back and self.done > self.undone and bool(self.rest or not self.tried)

    @property
    def moved_back(self) -> bool:
        """Whether an undo can move its entries back from where they went."""
        return self.target not in ("", "gone")

    @property
    def taken_back(self) -> bool:
        """Whether an undo of it began: no further step of it may be carried out."""
        return bool(self.undoing or self.undone or self.tried)


_FIELDS = tuple(field.name for field in fields(Operation) if field.name not in ("id", "queue"))
_NUMBERS = {field.name for field in fields(Operation) if field.type == "int"}
_PAGE = 500
"""operations read in one round trip"""
_HIGHEST = {"steps", "tried", "undoing", "parts", "landed", "taking"}
"""numbers of which the highest value of all shards counts; the others are summed over the shards"""
_OWN = {"ended", "span"}


def new_id(verb: str) -> str:
    """A new operation id: the verb and random digits."""
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
    """Record an operation before its first step; ``parts``: see `part`.

    Raises `Forbidden` where the server's ACL wouldn't let the user take the steps.
    """
    await acl_rights.to_change(queue)
    await _write(
        queue,
        id,
        str(now_ms),
        verb=verb,
        started_ms=now_ms,
        who=author.who,
        whence=author.whence,
        why=author.why,
        what=what,
        source=source,
        target=target,
        matched=matched,
        parts=parts,
        **more,
    )


def note(queue: Queue[Any], id: str, **fields: str | int) -> Description[int]:
    """Add to an operation's entry (its inverse, its end)."""
    return _write(queue, id, "", **fields)


def _write(queue: Queue[Any], id: str, started: str, **fields: str | int) -> Description[int]:
    rows = [(name, _stored(value)) for name, value in fields.items()]
    return queue._call_registered("record_operation", int, rows, op=id, started=started)


def _stored(value: str | int) -> str | int:
    """Words of a command line or the environment may be any bytes, carried as surrogates."""
    return value if isinstance(value, int) else value.encode("utf-8", "backslashreplace").decode()


def part(id: str, k: int) -> str:
    """The name under which the ``k``-th of an operation's parts numbers its steps.

    Many processes that carry out one operation at once can't share its numbers: a step that arrives
    after a higher number is refused. So each part has its own numbers, and a fixed set of entries.
    """
    return f"{id}.{k}"


def fence(id: str) -> str:
    """The name under which a cancelled request's running entries are fenced off."""
    return f"{id}-fence"


async def forget(queue: Queue[Any]) -> int:
    """Remove a queue's audit log and the undo lists of its operations, from every shard it ever
    had; returns the number of keys. After a kill the rest is still in the audit log."""
    gone, key = 0, queue.keys["ops"]
    places = [*queue.shard_keys, *queue.former_shard_keys]
    page = max(1, UNLINKED // len(places))
    while rows := await scored(key, "0", str(page - 1)):
        ids = [id for id, _ in rows]
        gone += sum(await together(_forget_whole(places, id) for id in ids))
        await Call(("ZREM", key, *ids), int, key=key)
    return gone


async def retract(queue: Queue[Any], id: str) -> None:
    """Remove an operation whose first step was refused, so that nothing was changed."""
    operation = await read(queue, id)
    if operation is not None and not (operation.done or operation.steps):
        await _forget_whole(queue.shard_keys, id)
        await Call(("ZREM", queue.keys["ops"], id), int, key=queue.keys["ops"])


async def _forget_whole(places: Sequence[Keys], id: str) -> int:
    (parts,) = await _counted([places[0]["op_"] + id], "parts")
    gone = await _forget(places, id) + await _forget(places, fence(id))
    for k in range(parts):
        gone += await _forget(places, part(id, k))
    return gone


async def _forget(places: Sequence[Keys], name: str) -> int:
    """Remove the undo lists of the steps, then the entry that says how many steps there are."""
    entries = [keys["op_"] + name for keys in places]
    # The highest number of all shards: a shard that was given up has steps but no entry any more.
    end = max(await _counted(entries, "steps")) + 1
    gone, some = 0, max(1, UNLINKED // len(places))
    for first in range(1, end, some):
        steps = range(first, min(first + some, end))
        lists = [[f"{keys['undo_']}{name}:{step}" for step in steps] for keys in places]
        gone += sum(await together(Call(("UNLINK", *of), int, key=of[0]) for of in lists))
    return gone + sum(await together(Call(("UNLINK", key), int, key=key) for key in entries))


async def _counted(entries: list[str], name: str) -> list[int]:
    """The number in field ``name`` of each entry; 0 if it is missing or not valid."""
    calls = (Call(("HGET", key, name), lambda n: int(n or 0), key=key) for key in entries)
    found = await together(map(attempt, calls))
    return [n if isinstance(n, int) and 0 < n <= MOST else 0 for n in found]


async def reached(queue: Queue[Any], part: str) -> tuple[int, int, int]:
    """How far a part of an operation came: (steps, entries moved, entries put back)."""
    rows = await _rows(queue, part)
    with _readable(queue, part.partition(".")[0]):
        steps = max(int(row["steps"] or 0) for row in rows)
        done, undone = (sum(int(row[name] or 0) for row in rows) for name in ("done", "undone"))
    return steps, done, undone


@contextmanager
def _readable(queue: Queue[Any], id: str) -> Iterator[None]:
    """Raises `Unreadable` where a value of an operation is no number."""
    try:
        yield
    except ValueError as corrupt:
        problem = f"operation {id} of queue {queue.name} is corrupt in the audit log"
        raise Unreadable(problem) from corrupt


async def _rows(queue: Queue[Any], id: str) -> list[dict[str, str]]:
    keys = [each["op_"] + id for each in queue.shard_keys]
    return await together(Call(("HMGET", key, *_FIELDS), _row, key=key) for key in keys)


async def read(queue: Queue[Any], id: str) -> Operation | None:
    """One operation of a queue, by its id or the name of a part of it; None: there is none. Every
    shard counts the entries that were moved in it; the first shard has the other fields."""
    id = id.partition(".")[0]
    rows = await _rows(queue, id)
    if not rows[0]["verb"]:
        return None
    words = {k: v for k, v in rows[0].items() if k not in _NUMBERS | _OWN}
    with _readable(queue, id):
        numbers = {name: [int(row[name] or 0) for row in rows] for name in _NUMBERS}
    counted = {
        name: max(values) if name in _HIGHEST else sum(values) for name, values in numbers.items()
    }
    of_parts = await together(reached(queue, part(id, k)) for k in range(counted["parts"]))
    for steps, done, undone in of_parts:
        counted["steps"] += steps
        counted["done"] += done
        counted["undone"] += undone
    # Shards that disagree about the last step got it from different runs: only entries before the
    # lower end are done for sure, later ones are checked again.
    ends = [row["span"] for row in rows if int(row["steps"] or 0) == counted["steps"]]
    last = [end.split("-")[:2] for end in ends]  # the third part names the run
    with _readable(queue, id):
        spans = [(int(span[0]), int(span[1])) for span in last if len(span) == 2]
    ended = rows[0]["ended"] == "1"
    by_name: dict[str, Any] = {**words, **counted}
    return Operation(id, queue.name, **by_name, ended=ended, span=min(spans, default=(0, 0)))


def _row(reply: list[bytes | None]) -> dict[str, str]:
    # Bytes that are no UTF-8 must not make the audit log unreadable.
    words = [(value or b"").decode(errors="backslashreplace") for value in reply]
    return dict(zip(_FIELDS, words, strict=True))


async def last(queue: Queue[Any], max: int) -> list[Operation]:
    """A queue's latest operations, newest first, without corrupt ones."""
    return (await latest_and_corrupt(queue, max))[0]


async def corrupt(queue: Queue[Any], max: int = 100) -> list[str]:
    """Which of a queue's latest operations are corrupt, in words."""
    return (await latest_and_corrupt(queue, max))[1]


async def known(queue: Queue[Any], id: str) -> Operation | None:
    """As `read`, for callers that only mention the operation: None also if it is corrupt."""
    operation = await attempt(read(queue, id))
    if isinstance(operation, Exception) and not isinstance(operation, Unreadable):
        raise operation
    return None if isinstance(operation, Exception) else operation


async def latest_and_corrupt(queue: Queue[Any], max: int) -> tuple[list[Operation], list[str]]:
    """A queue's latest operations, newest first, and which of as many are corrupt, in words."""
    operations, corrupt, seen = list[Operation](), list[str](), dict[str, None]()
    while len(seen) < max:
        low, size = len(seen), min(_PAGE, max - len(seen))
        latest = await scored(queue.keys["ops"], str(low), str(low + size - 1), "REV")
        ids = [id for id, _ in latest if id not in seen]  # new ones move the others back
        seen |= dict.fromkeys(ids)
        for operation in await together(attempt(read(queue, id)) for id in ids):
            if isinstance(operation, Unreadable):
                corrupt.append(str(operation))
            elif isinstance(operation, Exception):
                raise operation
            elif operation is not None:
                operations.append(operation)
        if len(latest) < size or not ids:
            break
    return operations, corrupt


@dataclass(frozen=True, slots=True)
class Log:
    """The latest operations, newest first."""

    operations: list[Operation]
    unread: Mapping[str, Exception]
    """queue -> why operations of it are missing here: no answer, no permission, a corrupt value"""


async def log(deployment: Deployment, max: int = 50, queue: str | None = None) -> Log:
    """The latest operations over all queues, or of one."""
    if queue:
        one = await deployment.queue(queue)
        operations, corrupt = await latest_and_corrupt(one, max)
        unread = {one.name: Unreadable("; ".join(corrupt))} if corrupt else {}
        return Log(_newest(operations, max), unread)
    queues, refused = await deployment.registered()
    known: list[Operation] = []
    missing: dict[str, Exception] = dict(refused)
    for q, found in zip(
        queues, await together(apart(latest_and_corrupt(q, max)) for q in queues), strict=True
    ):
        if isinstance(found, (Unreachable, Forbidden, Unreadable, WrongKind)):
            missing[q.name] = found
            continue
        if isinstance(found, Exception):
            raise found
        operations, corrupt = found
        known += operations
        if corrupt:
            missing[q.name] = Unreadable("; ".join(corrupt))
    return Log(_newest(known, max), missing)


def _newest(known: list[Operation], max: int) -> list[Operation]:
    """The latest operations, without duplicates; an undo that another undo finished has ended."""
    own = {operation.id for operation in known if not operation.origin}
    known = [operation for operation in known if not (operation.origin and operation.id in own)]
    newest = sorted(known, key=lambda o: o.started_ms, reverse=True)[:max]
    # An undo that was killed has nothing left to do once another one came to its end.
    over, listed = {o.id for o in known if o.taken_back and not o.undoable}, []
    for operation in newest:
        if operation.verb == "undo" and operation.ended:
            over.add(operation.what)
        done = operation.verb == "undo" and operation.what in over
        listed.append(replace(operation, ended=True) if done else operation)
    return listed


async def find(deployment: Deployment, id: str) -> tuple[Queue[Any], Operation]:
    """An operation by its id, and its queue; `NotFound` if no queue has it."""
    queues = await deployment.queues()
    found = await together(apart(read(queue, id)) for queue in queues)
    for queue, operation in zip(queues, found, strict=True):
        if isinstance(operation, Operation) and not operation.origin:
            return queue, operation
    for operation in found:
        if isinstance(operation, Exception):  # it may be in a queue that can't be read
            raise operation
    raise NotFound(f"no operation {id!r} in the audit log ({hint('log')} shows them)")

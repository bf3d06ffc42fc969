"""Finds transfers between two queues that were interrupted, and finishes them.

During a step of a transfer its entries are in a trash: taken out of the source and not yet accepted
by the target, or, in an undo, the other way round. The script that takes them out also lists the
transfer in that shard (``unfinished``: operation -> time of its last step). Until it is off the
list none of its entries is deleted, and no record of it expires. Whoever finds a transfer whose
owner was idle for `IDLE_MS` ends its last step: what the target accepted stays there, what it
refuses or can't accept any more goes back.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, cast

from ..model.entry import State
from ..model.errors import Forbidden, RedisqError, Refused, Superseded, Unreachable
from ..model.settings import DAY_MS, DEFAULTS
from ..redis.operation import Call, attempt, together
from . import transfer
from .queue import Queue
from .queue_classes import open_queue
from .queue_transfer import Transfer
from .registry import find

IDLE_MS = 10_000
"""a transfer is left to its owner for so long after its last step; both at once do no harm"""
MOST = 10
"""transfers that one call of `recover` finishes"""
_WORDS = ("into", "origin", "source", "who", "whence")
_NUMBERS = ("into_ms", "landed", "steps", "taking", "undoing", "undone", "tried")


@dataclass(frozen=True, slots=True)
class Recovered:
    """A transfer that was found unfinished, and what was done about it."""

    op: str
    queue: str
    """the source"""
    into: str
    by: str
    """who began it"""
    entries: int = 0
    """entries that were in transit"""
    back: bool = False
    """True: they are back in the source; False: in the target, except those it refused"""
    problem: Exception | None = None
    """why it can't be finished now"""

    def __str__(self) -> str:
        if self.problem is not None:
            return f"{self.op} (by {self.by}) is unfinished: {self.problem}"
        where = f"back in {self.queue}" if self.back else f"in {self.into}"
        n = "1 entry is" if self.entries == 1 else f"{self.entries:,} entries are"
        return f"finished {self.op} (by {self.by}): {n} {where}"


@dataclass(frozen=True, slots=True)
class _Known:
    """What the audit log has of a transfer."""

    into: str
    origin: str
    source: str
    who: str
    whence: str
    into_ms: int
    landed: int
    steps: int
    taking: int
    undoing: int
    undone: int
    tried: int

    @property
    def taken_back(self) -> bool:
        return bool(self.undoing or self.undone or self.tried)


async def list_unfinished(
    queue: Queue[Any], op: str, step: int = 0, idle_ms: int | None = None
) -> int:
    """List a transfer as unfinished, or note that its owner is alive.

    Returns the time (ms), or 0 where a process worked on it within ``idle_ms``. ``step``: the step
    that is about to be undone.
    """

    def call(shard: Queue[Any], idle: int | str) -> Call[int]:
        return shard._call_script("list_unfinished", int, op=op, step=step, idle=idle)

    first, *others = queue.shard_queues
    at = await call(first, "" if idle_ms is None else idle_ms)
    # Each shard keeps its own part of the step.
    more = await together(call(shard, "") for shard in others) if at and step else []
    return max([at, *more])


async def finish(
    queue: Queue[Any], op: str, *, at_ms: int | None = None, steps: int | None = None
) -> bool:
    """Remove a transfer from a queue's list: none of its entries is in transit there.

    Returns False, and leaves it, where another process worked on it meanwhile: after ``at_ms``,
    with a step after ``steps``, or (where one of these is given) to undo it.
    """
    at, last = ("" if n is None else n for n in (at_ms, steps))
    done = await together(
        shard._call_script("finish_transfer", bool, op=op, at=at, steps=last)
        for shard in queue.shard_queues
    )
    return all(done)


async def recover(
    queue: Queue[Any], *, idle_ms: int | None = None, most: int = MOST, but: Iterable[str] = ()
) -> list[Recovered]:
    """Finish up to ``most`` transfers from and to a queue that were idle for ``idle_ms``.

    ``but``: operations to leave alone. Returns a `Recovered` for each. One that can't be finished
    now, for example without rights in the other queue, stays as it is and has a ``problem``.
    """
    if not queue.transferable:
        return []
    idle_ms = IDLE_MS if idle_ms is None else idle_ms
    found: list[Recovered] = []
    apart = set(but)
    listed = await queue.unfinished_transfers.op()
    for op in [op for op in listed if op not in apart][:most]:
        one = await _recover(queue, op, idle_ms)
        if one is not None:
            found.append(one)
    return found


async def _recover(queue: Queue[Any], op: str, idle_ms: int) -> Recovered | None:
    """None: another process works on it, or none of its entries was in transit."""
    known = await _known(queue, op)
    if known is None:
        await finish(queue, op)
        return None
    home = queue
    if known.origin:
        seen = (await queue.unfinished_transfers.op()).get(op)
        source = await opened(queue, known.origin)
        its = None if source is None else await _known(source, op)
        if source is None or its is None or op not in await source.unfinished_transfers.op():
            # The source has finished it, or was destroyed.
            await finish(queue, op, at_ms=seen)
            return None
        home, known = source, its
    at = (await home.unfinished_transfers.op()).get(op, 0)
    if 0 <= await home.now.op() - at < idle_ms:
        return None
    if not (held_ms := await list_unfinished(home, op, idle_ms=idle_ms)):
        return None
    by = f"{known.who}@{known.whence}"
    try:
        n, back = await _ended(home, op, known, held_ms)
    except Unreachable:
        raise
    except RedisqError as problem:
        # Other processes may be able to finish it: restore the time of its last step.
        key = home.keys["unfinished"]
        await attempt(Call(("ZADD", key, "XX", at, op), int, key=key))
        return Recovered(op, home.name, known.into, by, problem=problem)
    return Recovered(op, home.name, known.into, by, n, back) if n else None


async def _ended(source: Queue[Any], op: str, known: _Known, held_ms: int) -> tuple[int, bool]:
    """End the steps that were begun: (entries that were in transit, whether they went back)."""
    target = await opened(source, known.into, known.into_ms, source.kind)
    keep_ms = int((await source.settings.op()).get("trash_ms", DEFAULTS.trash_ms)) + DAY_MS
    move = Transfer(source, target, known.into_ms, op, cast(State, known.source), keep_ms)
    steps, n, back = {*range(known.landed + 1, known.steps + 1)}, 0, False
    if known.tried:  # an undo has finished all of it
        steps = set()
    elif known.taken_back:
        by, back = f"undo-move-{secrets.token_hex(5)}", True
        for seq, step in enumerate(sorted({*steps, known.taking} - {0}, reverse=True), 1):
            held_ms = await list_unfinished(source, op, step)
            n += len((await move.revert(step, by, seq)).back)
    else:
        for step in sorted(steps):
            went, back = await _completed(move, step)
            n += went
    last = (await target.unfinished_transfers.op()).get(op) if target is not None else None
    if known.taken_back:
        done = await finish(source, op, at_ms=held_ms)
    else:
        done = await finish(source, op, steps=known.steps)
    if done and target is not None:
        await finish(target, op, at_ms=last)
    return n, back


async def _completed(move: Transfer, step: int) -> tuple[int, bool]:
    """End one step: (entries that were in transit, whether all are back in the source)."""
    rows = await transfer.read_step(move.source, move.op, step, brief=True)
    held = [one.id for one in rows if one.row]
    try:
        results = await move.complete(step, again=True)
    except Superseded:  # another process undoes it now
        return 0, False
    except Forbidden:
        raise
    except Refused:  # the target was destroyed, or refuses all: they are back
        return len(held), True
    return sum(results.get(id) == transfer.OK for id in held), False


async def opened(
    beside: Queue[Any], name: str, created_ms: int | None = None, kind: str | None = None
) -> Queue[Any] | None:
    """The queue of that name in the same deployment; None: there is none, or it was registered at
    another time than ``created_ms``."""
    entry = await find(name, beside.prefix)
    if entry is None or entry.at is not None or kind not in (None, entry.kind):
        return None
    if created_ms is not None and entry.created_ms != created_ms:
        return None
    return open_queue(
        beside.client, entry, prefix=beside.prefix, clock=beside.clock, callers=beside.callers
    )


async def _known(queue: Queue[Any], op: str) -> _Known | None:
    keys = [each["op_"] + op for each in queue.shard_keys]

    def read(reply: list[bytes | None]) -> list[str]:
        return [(value or b"").decode(errors="backslashreplace") for value in reply]

    rows = await together(Call(("HMGET", key, *_WORDS, *_NUMBERS), read, key=key) for key in keys)
    into, origin, state, who, whence = rows[0][: len(_WORDS)]
    if not into and not origin:
        return None
    numbers = zip(*(row[len(_WORDS) :] for row in rows), strict=True)
    highest = (max(int(n or 0) for n in of) for of in numbers)
    return _Known(into, origin, state, who, whence, *highest)

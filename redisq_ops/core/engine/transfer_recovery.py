"""Moves between two queues that were begun and not finished, found again and finished by anybody.

While a step of a move is under way its entries are in a trash: taken out of the source and not yet
accepted by the target, or, when the move is taken back, the other way round. Every shard that holds
such entries lists the move (``unfinished``: operation -> time of its last step), in the very script
that takes them out; until it is off that list nothing of it is freed, and what is kept of it has no
time to live. Who finds a move there whose owner was silent for `IDLE_MS` ends its last step: what
the target accepted stays there, what it refuses, or can't have any more, goes back.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, cast

from ..model.entry import State
from ..model.errors import Forbidden, NotFound, RedisqError, Refused, Superseded, Unreachable
from ..model.settings import DAY_MS, DEFAULTS
from ..redis.operation import Call, attempt, together
from ..redis.parsers import moment, scored
from . import transfer
from .queue import Queue
from .queue_types import room, sharded
from .registry import find

IDLE_MS = 10_000
"""nobody takes a move over whose owner made a step so short a time ago; safe if one did"""
MOST = 10
"""moves that one call of `recover` finishes"""
LOOKED = 1000
"""latest operations among which those of a release without the list are looked for, once"""
_PAGE = 100
_KNOWN = "unfinished"
"""the field of ``stat`` that says that they were looked for"""
_WORDS = ("into", "origin", "source", "who", "whence")
_NUMBERS = ("into_ms", "landed", "steps", "taking", "undoing", "undone", "tried")


@dataclass(frozen=True, slots=True)
class Recovered:
    """A move that was found unfinished, and what became of it."""

    op: str
    queue: str
    """the one it went from"""
    into: str
    by: str
    """who began it"""
    entries: int = 0
    """that were on their way"""
    back: bool = False
    """they are where they came from; else in the other queue, but for those that it refused"""
    problem: Exception | None = None
    """why it could not be finished now"""

    def __str__(self) -> str:
        if self.problem is not None:
            return f"{self.op} (by {self.by}) is unfinished: {self.problem}"
        where = f"back in {self.queue}" if self.back else f"in {self.into}"
        n = "1 entry is" if self.entries == 1 else f"{self.entries:,} entries are"
        return f"finished {self.op} (by {self.by}): {n} {where}"


@dataclass(frozen=True, slots=True)
class _Known:
    """What the journal has of a move."""

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


async def hold(queue: Queue[Any], op: str, step: int = 0, idle_ms: int | None = None) -> int:
    """List a move, or say that its owner is alive: the time (ms), or 0 if somebody was at it within
    ``idle_ms``. ``step``: the one that is about to be taken back."""

    def call(leaf: Queue[Any], idle: int | str) -> Call[int]:
        return leaf._script("hold_operation").call(
            leaf.keys, leaf.clock, int, op=op, step=step, idle=idle
        )

    first, *others = queue.leaves
    at = await call(first, "" if idle_ms is None else idle_ms)
    # Each shard keeps its own part of the step.
    more = await together(call(leaf, "") for leaf in others) if at and step else []
    return max([at, *more])


async def finish(
    queue: Queue[Any], op: str, *, at_ms: int | None = None, steps: int | None = None
) -> bool:
    """Take a move off a queue's list: nothing of it is under way there. Not, and False, if somebody
    was at it meanwhile: later than ``at_ms``, with a step behind ``steps``, or, where these are
    given, to take it back."""
    at, last = ("" if n is None else n for n in (at_ms, steps))
    done = await together(
        leaf._script("finish_operation").call(
            leaf.keys, leaf.clock, bool, op=op, at=at, steps=last
        )
        for leaf in queue.leaves
    )  # fmt: skip
    return all(done)


async def recover(
    queue: Queue[Any],
    *,
    idle_ms: int | None = None,
    most: int = MOST,
    but: Iterable[str] = (),
) -> list[Recovered]:
    """Finish the moves from and to a queue that nobody was at for ``idle_ms`` (`IDLE_MS`), at most
    ``most``, without those in ``but``: what became of each. One that can't be finished now, as
    without the rights or with a node that is away, is left as it is and says why."""
    if not queue.transferable:
        return []
    await _list_older(queue)
    idle_ms = IDLE_MS if idle_ms is None else idle_ms
    found: list[Recovered] = []
    apart = set(but)
    listed = await queue.unfinished.op()
    for op in [op for op in listed if op not in apart][:most]:
        one = await _recover(queue, op, idle_ms)
        if one is not None:
            found.append(one)
    return found


async def _recover(queue: Queue[Any], op: str, idle_ms: int) -> Recovered | None:
    """None: somebody is at it, or nothing was under way."""
    known = await _known(queue, op)
    if known is None:
        await finish(queue, op)
        return None
    home = queue
    if known.origin:
        seen = (await queue.unfinished.op()).get(op)
        source = await opened(queue, known.origin)
        its = None if source is None else await _known(source, op)
        if source is None or its is None or op not in await source.unfinished.op():
            # That queue is through with it, or was destroyed.
            await finish(queue, op, at_ms=seen)
            return None
        home, known = source, its
    at = (await home.unfinished.op()).get(op, 0)
    if 0 <= await home.now.op() - at < idle_ms:
        return None
    if not (held_ms := await hold(home, op, idle_ms=idle_ms)):
        return None
    by = f"{known.who}@{known.whence}"
    try:
        n, back = await _ended(home, op, known, held_ms)
    except Unreachable:
        raise
    except RedisqError as problem:
        # Others may be able to: they need not wait because we tried.
        key = home.keys["unfinished"]
        await attempt(Call(("ZADD", key, "XX", at, op), int, key=key))
        return Recovered(op, home.name, known.into, by, problem=problem)
    return Recovered(op, home.name, known.into, by, n, back) if n else None


async def _ended(source: Queue[Any], op: str, known: _Known, held_ms: int) -> tuple[int, bool]:
    """End the steps that were begun; how many entries were on their way, and whether they went
    back."""
    target = await opened(source, known.into, known.into_ms, source.kind)
    keep_ms = int((await source.settings.op()).get("trash_ms", DEFAULTS.trash_ms)) + DAY_MS
    state, n, back = cast(State, known.source), 0, False
    steps = {*range(known.landed + 1, known.steps + 1)}
    if known.tried:  # an undo is through with all of it
        steps = set()
    elif known.taken_back:
        by, back = f"undo-{secrets.token_hex(5)}", True
        for seq, step in enumerate(sorted({*steps, known.taking} - {0}, reverse=True), 1):
            held_ms = await hold(source, op, step)
            took = await transfer.take_back(source, target, op, step, state, by, seq, keep_ms)
            n += len(took.back)
    else:
        for step in sorted(steps):
            went, back = await _brought(source, target, op, step, state, known, keep_ms)
            n += went
    last = (await target.unfinished.op()).get(op) if target is not None else None
    if known.taken_back:
        done = await finish(source, op, at_ms=held_ms)
    else:
        done = await finish(source, op, steps=known.steps)
    if done and target is not None:
        await finish(target, op, at_ms=last)
    return n, back


async def _brought(
    source: Queue[Any],
    target: Queue[Any] | None,
    op: str,
    step: int,
    state: State,
    known: _Known,
    keep_ms: int,
) -> tuple[int, bool]:
    """End one step: how many entries were on their way, and whether all are back."""
    rows = await transfer.taken_out(source, op, step, brief=True)
    under_way = [one for one in rows if one.row]
    if target is None:
        return len(await transfer.give_back(source, op, step, state, under_way)), True
    said: dict[str, str] = {}
    try:
        said = await transfer.bring(
            source, target, known.into_ms, op, step, state, keep_ms, again=True
        )
    except Superseded:  # somebody takes it back just now
        return 0, False
    except Forbidden:
        raise
    except Refused:  # of the queue as a whole: all is back
        return len(under_way), True
    await transfer.free(source, op, step, state)
    return sum(said.get(one.id) == transfer.OK for one in under_way), False


async def opened(
    beside: Queue[Any], name: str, created_ms: int | None = None, kind: str | None = None
) -> Queue[Any] | None:
    """The queue of that name in the same deployment; None: there is none, or it is another one
    (was registered at another time)."""
    entry = await find(name, beside.prefix)
    if entry is None or entry.at is not None or kind not in (None, entry.kind):
        return None
    if created_ms is not None and entry.created_ms != created_ms:
        return None
    made = room(entry.kind)
    if made is None:
        raise NotFound(f"queue {name} is of kind {entry.kind}, unknown to this release")
    entry.checked(made.kind, made.schema)
    given: dict[str, Any] = {
        "prefix": beside.prefix, "clock": beside.clock, "callers": beside.callers
    }  # fmt: skip
    if entry.all_shards > 1 or entry.layout:
        return cast(Queue[Any], sharded(entry.kind)(beside.client, name, entry=entry, **given))
    return made(beside.client, name, **given)


async def _known(queue: Queue[Any], op: str) -> _Known | None:
    keys = [each["op_"] + op for each in queue.all_keys]

    def read(reply: list[bytes | None]) -> list[str]:
        return [(value or b"").decode(errors="backslashreplace") for value in reply]

    rows = await together(Call(("HMGET", key, *_WORDS, *_NUMBERS), read, key=key) for key in keys)
    into, origin, state, who, whence = rows[0][: len(_WORDS)]
    if not into and not origin:
        return None
    numbers = zip(*(row[len(_WORDS) :] for row in rows), strict=True)
    highest = (max(int(n or 0) for n in of) for of in numbers)
    return _Known(into, origin, state, who, whence, *highest)


async def _list_older(queue: Queue[Any]) -> None:
    """Once: list what a release that had no such list left unfinished."""
    stat, ops = queue.keys["stat"], queue.keys["ops"]
    if await Call(("HGET", stat, _KNOWN), bool, key=stat):
        return
    listed = await scored(ops, "0", str(LOOKED - 1), "REV")
    there = await queue.unfinished.op()
    moves = [
        (op, moment(at) or 0) for op, at in listed if op.startswith("move-") and op not in there
    ]
    for i in range(0, len(moves), _PAGE):
        page = moves[i : i + _PAGE]
        found = await together(_known(queue, op) for op, _ in page)
        for (op, at), known in zip(page, found, strict=True):
            if known is not None and known.into and not known.tried:
                await _list(queue, op, at, known)
    if listed:  # (Refused by a full server, it is looked for again.)
        await attempt(Call(("HSET", stat, _KNOWN, 1), int, key=stat))


async def _list(queue: Queue[Any], op: str, at: int, known: _Known) -> None:
    step = known.steps if known.landed < known.steps else 0
    if known.taken_back:  # every step that was taken back has no list any more
        step = await _latest_list(queue, op, known.steps)
    if not step:
        return
    # Only an undo has a step that is to be taken back; what is kept of the other must stay, too.
    await hold(queue, op, step)
    keys = [each["unfinished"] for each in queue.all_keys]
    await together(Call(("ZADD", key, "XX", at, op), int, key=key) for key in keys)


async def _latest_list(queue: Queue[Any], op: str, steps: int) -> int:
    """The last step with entries that can be put back, among the last `LOOKED`."""
    for end in range(steps, max(0, steps - LOOKED), -_PAGE):
        some = range(end, max(0, end - _PAGE), -1)
        for step, n in zip(
            some,
            await together(
                Call(("EXISTS", f"{each['undo_']}{op}:{step}"), int, key=each["undo_"])
                for step in some for each in queue.all_keys[:1]
            ),
            strict=True,
        ):  # fmt: skip
            if n:
                return step
    return 0

"""Moves between two queues of a kind on one deployment: `Move`, its plan's `MoveApply`, `Recall`.

A step takes entries into the source's trash under the operation's id, puts them in at the target,
and puts back as they were those that are refused there (`core.relocation` says why that is safe).
The journal of the source says how far it came. Whoever goes on with an operation first ends the
steps that others began, so a kill leaves nothing that the next hand doesn't mend.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, cast

from redisq_ops.core import relocation
from redisq_ops.core.errors import BadInput, NotFound, Refused, Superseded, Unreachable, WrongKind
from redisq_ops.core.foreign import ForeignQueue
from redisq_ops.core.io import both, together
from redisq_ops.core.keys import checked_name
from redisq_ops.core.queue import Queue
from redisq_ops.core.registry import find
from redisq_ops.core.relocation import OK, WITHDRAWN, Cargo, land, put_back, taken_out, verdict
from redisq_ops.core.reply import scored
from redisq_ops.core.settings import BATCH, DAY_MS, DEFAULTS
from redisq_ops.core.states import VERBS, Verb
from redisq_ops.core.values import Counts, Entry, Rates, State

from . import journal
from .apply import Apply
from .bulk import Bulk, Chosen, Order, Pick, Stride
from .consequences import Consequences
from .deployment import Deployment
from .hint import hint
from .journal import Author, Operation
from .plan import Header
from .terminal import age, count
from .undo import Undo

COST_US = 55.0
"""server time of one entry, µs, in both queues together, as `python -m benchmarks moves` has it"""
CALLS = 4
"""of a step: out, all of it read, in, noted"""
NOTED = 8
"""steps for each time that the journal is told that all of them have ended, and the target is asked
whether it takes more where nothing says that it might not"""
SHORTEST_MS = 600_000
"""a trash that keeps less is no place to be between two queues"""
_LATEST = 20
"""operations of the journal among which unfinished ones are looked for"""


@dataclass(frozen=True, slots=True)
class Way:
    """From one queue to another."""

    source: Queue[Any]
    into: Queue[Any] | None
    """None: it was destroyed since"""
    into_ms: int
    """when it was registered"""
    keep_ms: int
    """how long the target keeps what it said of entries: longer than the source can ask"""

    @property
    def target(self) -> Queue[Any]:
        if self.into is None:
            raise NotFound("the queue they went to isn't there any more")
        return self.into


async def way(deployment: Deployment, source: Queue[Any], name: str) -> Way:
    """The way from a queue to the one of that name; refuses what can't be gone."""
    movable(source)
    if checked_name(name, "queue name") == source.name:
        raise BadInput(f"--to {name}: that is where they are")
    into = await deployment.named(name)
    if into is None:
        raise NotFound(
            f"no queue {name!r} here: a move makes none ({hint('ls')} shows what there is)"
        )
    if isinstance(into, ForeignQueue):
        raise Refused(f"queue {name} is kept by another program ({into.kind}): nothing goes in")
    if into.kind != source.kind:
        raise WrongKind(
            f"queue {source.name} is a {source.kind} queue and {name} a {into.kind} queue: moves, "
            "and redisq export and import, are between queues of one kind; submit the payloads of "
            "an export there"
        )
    if unlike := await into.unlike.op(source):
        raise Refused(f"entries of {source.name} can't go on in {name}: {unlike}")
    await source.exists.op()
    for queue in (source, into):
        relocation.refuse_changing(queue)
    kept = await _trash_ms(source)
    if kept < SHORTEST_MS:
        raise Refused(
            f"queue {source.name} keeps its trash for {age(kept)} only: a move goes through it and "
            f"wants {age(SHORTEST_MS)} ({hint('retention', source.name, 'trash_ms=10m')})"
        )
    entry = await find(name, deployment.prefix)
    return Way(source, into, entry.created_ms if entry else 0, kept + DAY_MS)


def movable(queue: Queue[Any]) -> None:
    """Refuse kinds whose entries can't go to another queue."""
    if isinstance(queue, ForeignQueue):
        raise Refused(
            f"queue {queue.name} is kept by another program ({queue.kind}): its entries are only "
            "moved by its own means"
        )


async def planned_way(deployment: Deployment, source: Queue[Any], header: Header) -> Way:
    """A plan's way; refuses when the target isn't the one that was planned for."""
    found = await way(deployment, source, header.into)
    if found.into_ms != header.into_ms:
        raise Refused(
            f"queue {header.into} isn't the one that was planned for: it was destroyed and created "
            "again; plan again"
        )
    return found


async def _trash_ms(queue: Queue[Any]) -> int:
    return int((await queue.settings.op()).get("trash_ms", DEFAULTS.trash_ms))


async def look_ahead(weight: Consequences, way: Way, state: State) -> None:
    """What waits already, and how fast it goes, is the target's: that is where they will wait."""
    found: tuple[Counts, Rates] = await both(
        way.target.counts.op(), way.target.rates.op(weight.now_ms, 60)
    )
    counts, rates = found
    weight.goes_on = state == "waiting"
    weight.waiting = counts.of("waiting")
    weight.settled_a_minute = rates.pace(weight.now_ms)
    weight.cost_us, weight.calls = COST_US, CALLS


def means(way: Way, state: State) -> str:
    """What a move does, in words."""
    then = {"dead": "dead", "delayed": "delayed to the same time", "waiting": "behind what waits"}
    keeps = age(way.keep_ms - DAY_MS)
    named = ", in requests of their own there, named after theirs and this move"
    return (
        f"they go to {way.target.name}, {then[state]} there, attempts kept"
        f"{named if 'requests' in way.source.capabilities else ''}; the trash of "
        f"{way.source.name} keeps a copy for undo ({keeps})"
    )


@dataclass(slots=True)
class _Going:
    """What changes about a move while it goes on."""

    reached: int | None = None
    """the step up to which all have ended in both queues; None: the journal knows"""
    longest: float = 0.0
    """seconds of the longest call of the latest step"""
    clock: Callable[[], float] = time.perf_counter

    @contextmanager
    def call(self) -> Iterator[None]:
        began = self.clock()
        yield
        self.longest = max(self.longest, self.clock() - began)


class _Pace(Stride):
    """A step is several calls, and each is to be short by itself."""

    def __init__(self, size: int, going: _Going) -> None:
        super().__init__(size)
        self._going = going

    def learn(self, done: int, seconds: float, asked: int | None = None) -> None:
        super().learn(done, self._going.longest or seconds, asked)
        self._going.longest = 0.0


@dataclass(frozen=True)
class Onward(Order):
    """What is done to each entry of a move."""

    way: Way
    going: _Going = field(default_factory=_Going)

    async def move(self, op: str, seq: int, picks: list[Pick], span: tuple[int, int]) -> list[str]:
        """One step of it: moved | changed | late, or why the target refused it."""
        await self.settle(op, seq - 1)
        with self.going.call():
            said: list[str] = await super().move(op, seq, picks, span)
        if len(said) != len(picks):  # somebody else's step of that number
            return said
        landed = await self._land(op, seq, again=False) if "moved" in said else {}
        await relocation.free(self.queue, op, seq, self.state)
        self.going.reached = seq
        if seq % NOTED == 0:
            await self.noted(op)
        now = {id: "moved" if word == OK else word for id, word in landed.items()}
        return [
            now.get(pick.id, "changed") if word == "moved" else word
            for pick, word in zip(picks, said, strict=True)
        ]

    async def settle(self, op: str, upto: int) -> None:
        """End steps that others began, or this one before it was killed."""
        if self.going.reached is None:
            operation = await journal.read(self.queue, op)
            self.going.reached = operation.landed if operation else 0
        while self.going.reached < upto:
            step = self.going.reached + 1
            with suppress(Superseded):  # an undo has them
                await self._land(op, step, again=True)
            await relocation.free(self.queue, op, step, self.state)
            self.going.reached = step
            await self.noted(op)

    async def noted(self, op: str) -> None:
        """Have the journal know how far all is well, for whoever goes on."""
        await journal.note(self.queue, op, landed=self.going.reached or 0)

    async def _land(self, op: str, step: int, *, again: bool) -> dict[str, str]:
        """Put in at the target what a step took out; what was said of each."""
        way = self.way
        rows = await taken_out(self.queue, op, step)
        cargo = [one for one in rows if one.row]
        # Where some aren't there any more, somebody was here before: that was said of them, too.
        again = again or not rows or len(cargo) < len(rows)
        said = await verdict(way.target, op, step) if again else {}
        # The source may have been told to keep its trash longer since the move began.
        keep_ms = max([way.keep_ms, *(one.kept_ms + DAY_MS for one in rows)])
        back = {one.id: "back" for one in rows if one.back and one.id not in said}
        try:
            if fresh := [one for one in cargo if one.id not in said]:
                with self.going.call():
                    said |= await land(way.target, op, step, fresh, keep_ms)
        except Unreachable:
            raise
        except Exception:  # as a full server's: they are to wait where they were, not in the trash
            said = await verdict(way.target, op, step, close=True, keep_ms=keep_ms)
            await self._back(op, step, cargo, said)
            await relocation.free(self.queue, op, step, self.state)
            raise
        await self._back(op, step, cargo, said)
        if {"cancelled", WITHDRAWN} & set(said.values()):
            raise Superseded(f"{op} was taken back meanwhile")
        return said | back

    async def _back(self, op: str, step: int, cargo: Sequence[Cargo], said: dict[str, str]) -> None:
        refused = [one for one in cargo if said.get(one.id) not in (OK, WITHDRAWN)]
        if refused:
            with suppress(Superseded):  # somebody else is behind this step, and did it
                await put_back(self.queue, f"{op}.back", step, op, step, refused, undone=False)


class Relocating(Bulk):
    """A bulk change between two queues: the part that `Move` and `MoveApply` share."""

    def __init__(self, *given: Any, way: Way, **more: Any) -> None:
        self.way = way
        self._room = BATCH
        self._looked = 0
        """steps since the target was asked"""
        self._wary = True
        """whether it is asked before every step"""
        super().__init__(*given, **more)
        self.onward.going.clock = self._clock
        self._stride = _Pace(self._stride.size, self.onward.going)

    def _allowed(self, selection: Chosen, verb: Verb) -> None:
        movable(selection.queue)
        if selection.state not in VERBS["move"][0]:
            raise BadInput(f"move is for {' or '.join(VERBS['move'][0])} entries")

    def _ordered(self, order: Order) -> Order:
        return Onward(
            order.queue, order.verb, order.state, order.high_water_ms, order.consumer,
            order.argument, self.way,
        )  # fmt: skip

    @property
    def onward(self) -> Onward:
        assert isinstance(self.order, Onward)
        return self.order

    @property
    def destination(self) -> dict[str, Any]:
        return {"into": self.way.target.name, "into_ms": self.way.into_ms}

    async def _begin(self) -> None:
        into, source = self.way.target, self.order.queue
        await self._mend()
        if await journal.read(into, self.op) is None:
            await journal.begin(
                into, self.op, self.verb, self.author, str(self.selection.filter),
                now_ms=await into.now.op(), target=self.order.state, matched=self.outcome.matched,
                origin=source.name,
            )  # fmt: skip
        await super()._begin()

    async def _mend(self) -> None:
        """End what earlier moves on this way, that were killed, have left half done."""
        queue = self.order.queue
        listed = await scored(queue.keys["ops"], "0", str(_LATEST - 1), "REV")
        for op, _ in listed:
            found = await journal.read(queue, op)
            if (
                found is not None
                and found.id != self.op
                and found.into_ms == self.way.into_ms
                and found.into == self.way.target.name
                and found.landed < found.steps
                and not found.taken_back
            ):
                order = self.onward
                state = cast("State", found.source)
                other = Onward(
                    order.queue, order.verb, state, order.high_water_ms, order.consumer,
                    order.argument, self.way,
                )  # fmt: skip
                await other.settle(found.id, found.steps)

    def _size(self) -> int:
        return min(super()._size(), BATCH, self._room)

    @property
    def _ahead(self) -> int:
        """How many weren't looked at yet."""
        return self.outcome.matched - self.handled

    async def step(self) -> bool:
        """Move some; False when all were dealt with, or the target takes no more."""
        await self._open()
        if self._ahead and not self.halted and (why := await self._shut()):
            self.halted = why
            await self._give_up()
        goes_on = not self.halted and await super().step()
        if (
            not goes_on and self.onward.going.reached
        ):  # what it left here may be replaced from now on
            await self.onward.noted(self.op)
        return goes_on

    async def _shut(self) -> str:
        """Why the target takes nothing now, if it doesn't; else how much goes in next."""
        into = self.way.target
        self._looked = (self._looked + 1) % NOTED
        if self._looked != 1 and not self._wary:
            return ""
        counts, settings = await both(into.counts.op(), into.settings.op())
        if counts.closed is not None:
            return "closed"
        most = int(settings.get("max_waiting", DEFAULTS.max_waiting)) * len(into.all_keys)
        self._room, self._wary = BATCH, bool(most)
        if most and self.order.state != "dead":
            timed = counts.delayed if "timeline" in into.capabilities else 0
            self._room = min(BATCH, max(0, most - counts.waiting - (timed or 0)))
        return "" if self._room else "full"

    def _count(self, said: Counter[str]) -> None:
        super()._count(said)
        self._wary = self._wary or bool(said.keys() & {"full", "closed"})

    async def _give_up(self) -> None:
        """It ends here: nobody goes on with it."""
        self.outcome.skip(self.halted, self._ahead)
        await self._end()

    async def _end(self) -> None:
        await self._settled()
        await self.onward.noted(self.op)
        await super()._end()
        await journal.note(self.way.target, self.op, ended=1)

    async def _settled(self) -> None:
        operation = await journal.read(self.order.queue, self.op)
        if operation is not None:
            await self.onward.settle(self.op, operation.steps)

    async def reached(self) -> int:
        """After an interruption: the step that was under way is brought to its end."""
        await self._settled()
        return await super().reached()


class Move(Relocating):
    """Entries of a selection go to another queue. Drive `step` until it says False."""


class MoveApply(Relocating, Apply):
    """A plan of a move being carried out; as `Apply`."""

    @property
    def _ahead(self) -> int:
        most = self.left if self._most is None else self._most - self.handled
        return 0 if self._over else min(self.left, most)

    async def _give_up(self) -> None:
        """The rest can be applied when there is room again."""


class Recall(Undo):
    """Takes a move back, as far as its entries are untouched in the queue they went to.

    Of a queue that was destroyed since nobody knows what was done there: all come back.
    """

    across = True

    def __init__(self, way: Way, operation: Operation, author: Author) -> None:
        super().__init__(way.source, operation, author)
        self.way = way

    async def _take_back(self, id: str, step: int) -> tuple[int, ...]:
        way, source, by = self.way, self.queue, self.outcome.op
        assert by is not None
        said: dict[str, str] = {}
        if way.into is not None:  # from now on nothing more of it is let in
            said = await verdict(way.into, id, step, close=True, keep_ms=way.keep_ms)
        rows = await taken_out(source, id, step, brief=True)
        here = [one for one in rows if one.row]
        landed = [one.id for one in here if said.get(one.id) in (OK, WITHDRAWN)]
        # Of those, what an undo that was killed has put away there already.
        away = {one.id for one in rows if not one.row and said.get(one.id) == WITHDRAWN}
        state, out, seq = cast("State", self.operation.source), set[str](), self._taken + 1
        if landed:
            out = await relocation.withdraw(
                way.target, by, 3 * seq, id, step, landed, state, "trash"
            )
        if len(out) < len(landed):  # somebody else's undo may have got hold of the others
            said = await verdict(way.target, id, step)
        coming = [one for one in here if one.id in out or said.get(one.id) != OK]
        back = await put_back(source, by, seq, id, step, coming, undone=True)
        away |= out - back
        # Also what another undo put away and hasn't brought back yet: it is about to ask for it.
        gone, stay = {one for one in back if one in out or said.get(one) == WITHDRAWN}, set[str]()
        if away:
            again = await taken_out(source, id, step, brief=True)
            gone |= away & {one.id for one in again if one.back}
            stay = away - gone
        if gone:
            await relocation.withdraw(
                way.target, by, 3 * seq + 1, id, step, sorted(gone), "trash", "gone"
            )
        if stay:  # what was to come back was emptied: only there they can live
            # (What another undo that is through with this step brought back isn't there any more.)
            stay = await relocation.withdraw(
                way.target, by, 3 * seq + 2, id, step, sorted(stay), "trash", "back"
            )
        await relocation.free(source, id, step, state)
        touched = [
            one.id for one in rows
            if not one.back and one.id not in out and said.get(one.id) == OK
        ]  # fmt: skip
        left = [*touched, *sorted(stay)]
        marks = await relocation.marks(way.target, id, step) if left and way.into else {}
        called = {one: marks[one][1] if one in marks else one for one in left}
        self._touched += called.values()
        kept = [one for one in here if one.id not in back]
        may_come = await self._may_come([one for one in kept if one.id in touched], called)
        self.rest += len(may_come)
        if may_come:
            over = [one for one in kept if one.id not in may_come]
            await relocation.forget_some(source, id, step, over)
        else:
            await relocation.forget(source, id, step)
        return len(back), len(left)

    async def _may_come(self, stay: Sequence[Cargo], called: Mapping[str, str]) -> set[str]:
        """Which of those that stay only an operator changed over there: that can be taken back.
        What a worker had is its queue's own, also once that is destroyed and nobody can say."""
        found: list[Entry | None] = await together(
            self.way.target.get.op(called[one.id]) for one in stay
        )
        return {
            one.id
            for one, entry in zip(stay, found, strict=True)
            if entry is not None and _an_operators(entry, one)
        }


def _an_operators(entry: Entry, moved: Cargo) -> bool:
    """Whether nobody was handed an entry since it was moved, though it was changed."""
    _, failures, _, first_ms, *_ = moved.row[2].split(b" ")
    if entry.state == "trash" and entry.op is None:
        # What its request's cancel took along has no operation of its own.
        return entry.failures <= int(failures)
    first_there = (entry.first_ms or 0) != int(first_ms)
    return entry.op is not None and entry.state != "pending" and not first_there


async def taking_back(
    deployment: Deployment, queue: Queue[Any], operation: Operation, author: Author
) -> Undo:
    """What takes an operation back, a move between two queues or any other."""
    if not operation.into:
        return Undo(queue, operation, author)
    into = await deployment.named(operation.into)
    entry = await find(operation.into, deployment.prefix)
    if into is not None and (
        entry is None or entry.created_ms != operation.into_ms or into.kind != queue.kind
    ):
        into = None  # another one of that name
    keep = await _trash_ms(queue) + DAY_MS
    return Recall(Way(queue, into, operation.into_ms, keep), operation, author)


def undone(operation: Operation, change: Undo) -> str:
    """What is to be said of it before it is taken back, beside its filter."""
    if not isinstance(change, Recall):
        return ""
    if change.way.into is None:
        gone, n = f"queue {operation.into} was destroyed since", change.outcome.matched
        if operation.rest:
            left = count(min(n, operation.rest))
            return f"{gone}: what was done there since the last undo isn't known, {left} come back"
        return f"{gone}: what was done there isn't known, all {count(n)} come back"
    return f"from {operation.into}: those that somebody took or changed there stay there"

"""Bulk moves: what was chosen, a verb, and bounded steps that look at every entry again."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice, starmap
from typing import Any, NamedTuple, Protocol

from redisq_ops.core.engine.optional_features import HasConsumerGroups
from redisq_ops.core.engine.queue import Queue
from redisq_ops.core.engine.transfer_recovery import Recovered
from redisq_ops.core.model.entry import Entry, State
from redisq_ops.core.model.errors import BadInput, Refused, Superseded
from redisq_ops.core.model.keys import checked_consumer
from redisq_ops.core.model.settings import LEASE_MS, MAX_BATCH
from redisq_ops.core.model.states import VERBS, Verb
from redisq_ops.core.redis.operation import Description

from ..filter.scan import Selection
from ..hint import hint
from ..terminal import a_second, age, count
from . import audit_log, impact
from .audit_log import Author, ChangeOutcome

PAST = {
    "requeue": "requeued",
    "claim": "claimed",
    "replay": "replayed",
    "purge": "purged",
    "hard": "removed for good",
    "restore": "restored",
    "reschedule": "rescheduled",
    "move": "moved",
}
MEANS = {
    "requeue": "they wait for the next worker; whoever holds one can't settle it any more",
    "claim": "their leases go to another consumer; who held them can't settle any more",
    "replay": "they wait for a worker again",
    "purge": "they go to the trash",
    "hard": "they are removed for good: there is no undo",
    "restore": "they go back to where they were purged from",
    "reschedule": "they become ready at another time",
    "move": "they go on in the other queue; here the trash keeps them for undo",
}
TYPED_ABOVE = 1000
"""more entries than this and a person types the number to confirm"""


class ChangeScope(Protocol):
    """What a bulk change is about: a `Selection`, or a plan."""

    @property
    def queue(self) -> Queue[Any]: ...
    @property
    def state(self) -> State: ...
    @property
    def filter(self) -> object: ...
    @property
    def high_water_ms(self) -> int: ...
    @property
    def count(self) -> int: ...


class Looked(ChangeScope, Protocol):
    """What was chosen by looking at it, and can be told of."""

    @property
    def sample(self) -> list[Entry]: ...
    @property
    def reasons(self) -> dict[str, int]: ...
    @property
    def elsewhere(self) -> list[Entry]: ...
    @property
    def remarks(self) -> tuple[str, ...]: ...


@dataclass(frozen=True, slots=True)
class Plan:
    """What a change will do, in words, before it is done; the same words on every face."""

    title: str
    lines: tuple[str, ...] = ()
    typed: str | None = None
    """what a person types to confirm; None: a plain yes will do"""
    facts: Mapping[str, Any] = field(default_factory=dict)
    """the same for programs"""

    def __str__(self) -> str:
        return "; ".join([self.title, *self.lines])


def planned(
    selection: Looked,
    verb: Verb,
    rate: float | None = None,
    means: str = "",
    weight: impact.Consequences | None = None,
    into: str = "",
) -> Plan:
    """What a bulk change of a selection will do: to how many, which, and what that means."""
    n, queue, state = selection.count, selection.queue.name, selection.state
    ids = [entry.id for entry in selection.sample]
    does = "remove for good" if verb == "hard" else verb
    to = f" to {into}" if into else ""
    title = f"{does} {entries(n, state)} of {queue}{to} (filter: {selection.filter})"
    lines = []
    # What redacts to the same is one reason.
    reasons: dict[str, int] = {}
    for reason, k in selection.reasons.items():
        said = reason if weight is None else weight.shown(reason)
        reasons[said] = reasons.get(said, 0) + k
    if n:
        told = ", ".join(f"{count(k)} {reason}" for reason, k in reasons.items())
        title += f": {told}" if told else ""
        lines = [
            ", ".join(ids[:3]) + (", …" if n > 3 else ""),
            means or meaning(verb, selection.queue),
        ]
        if rate:
            lines.append(f"about {age(int(1000 * n / rate))} at {a_second(rate)}")
        if weight is not None:
            lines += impact.lines(weight.facts(verb))
    lines += [f"{e.id} is {e.state}, not {state}: left out" for e in selection.elsewhere[:3]]
    lines += selection.remarks
    facts = {
        "verb": verb, "queue": queue, "state": state, "filter": str(selection.filter),
        "matched": n, "reasons": reasons, "sample": ids,
    }  # fmt: skip
    if into:
        facts["into"] = into
    if selection.remarks:
        facts["remarks"] = selection.remarks
    if weight is not None:
        facts["consequences"] = weight.facts(verb)
    return Plan(title, tuple(lines), typed(verb, n, queue), facts)


def meaning(verb: Verb, queue: Queue[Any]) -> str:
    """What a verb does, in words that are true of this kind of queue."""
    means = queue.verbs.get(verb, MEANS[verb])
    return f"{means}, {queue.replay_note}" if verb == "replay" else means


def typed(verb: Verb, n: int, queue: str) -> str | None:
    """What a person types before so much is done; None: a plain yes will do."""
    if n and verb == "hard":
        return queue
    return typed_number(n)


def typed_number(n: int) -> str | None:
    """What a person types before so many entries are changed; None: a plain yes will do."""
    return str(n) if n > TYPED_ABOVE else None


def entries(n: int, state: State) -> str:
    """``1 dead entry``, ``1,234 waiting entries``, ``2 entries in the trash``."""
    noun = "entry" if n == 1 else "entries"
    return f"{count(n)} {noun} in the trash" if state == "trash" else f"{count(n)} {state} {noun}"


def allowed(queue: Queue[Any], verb: Verb, state: State) -> None:
    """Refuse a verb that isn't for this state, or that this kind of queue can't do."""
    sources, _ = VERBS[verb]
    if state not in sources:
        raise BadInput(f"{verb} is for {' or '.join(sources)} entries, not {state}")
    can = queue.actions.get(verb, ())
    if state not in can:
        of = f"{state} entries" if can else "entries"
        does = "purge --hard" if verb == "hard" else verb
        how = ""
        if isinstance(queue, HasConsumerGroups):
            claim = hint("consumers", "claim", queue.name, "CONSUMER", to="NAME")
            remove = hint("consumers", "remove", queue.name, "CONSUMER")
            how = f" ({claim} does)" if verb == "claim" else (
                f"; what is possible there: {claim}, {remove}"
            )  # fmt: skip
        raise Refused(f"queue {queue.name} is a {queue.kind} queue: it can't {does} {of}{how}")


LEAST_S = 0.000_01
"""of the server's time an entry takes at least, whatever was measured from here: 10 to 18 µs"""


class Stride:
    """How many entries the next step handles: adapted so that a call keeps the server busy for
    about half a millisecond, and never planned above one."""

    def __init__(self, size: int = 50) -> None:
        self.size = size
        self.way = 0.0
        """seconds a call takes that does nothing: a far server is not a slow one"""

    def learn(self, done: int, seconds: float, asked: int | None = None) -> None:
        """A step handled ``done`` of ``asked``; of `size`, if not said: a rate may want fewer."""
        if done < (asked or self.size) // 2 or seconds <= self.way:  # nothing to be learnt from
            return
        # The way was longer than usual when it was measured, and a step seems to take nothing.
        busy = max(seconds - self.way, done * LEAST_S)
        aim = int(0.0005 * done / busy)
        # Half way to the aim: one slow call must not stall a long run, nor one fast call rush it.
        self.size = max(10, min(MAX_BATCH, (self.size + aim) // 2))


class Pick(NamedTuple):
    """One entry that was chosen."""

    id: str
    at_ms: int | None = None
    """what tells it from a later entry of that id that has no record, waiting or delayed"""


@dataclass(frozen=True, slots=True)
class EntryAction:
    """What is done to each entry."""

    queue: Queue[Any]
    verb: Verb
    state: State
    high_water_ms: int
    consumer: str
    argument: int
    """lease (ms) of a claim, ready time (ms) of a reschedule"""
    hand: str = field(default="", kw_only=True)
    """who carries it out, where several may send the same step"""

    def move(
        self, op: str, seq: int, picks: list[Pick], span: tuple[int, int]
    ) -> Description[list[str]]:
        """One step of it, by identity."""
        moved: Description[list[str]] = self.queue.move.op(
            op, seq, [pick.id for pick in picks], source=self.state, target=VERBS[self.verb][1],
            high_water_ms=self.high_water_ms, consumer=self.consumer, lease_ms=self.argument,
            times={pick.id: pick.at_ms for pick in picks if pick.at_ms is not None},
            span=f"{span[0]}-{span[1]}" + (f"-{self.hand}" if self.hand else ""),
        )  # fmt: skip
        return moved


class StepSource(Protocol):
    """Where a bulk change's steps come from."""

    async def step(self, op: str, size: int) -> Counter[str]:
        """Carry out one step of at most ``size`` entries: how many got which word; none: all were
        dealt with. A step whose reply was not heard is sent again as it was."""


class ListedSteps:
    """Steps over entries chosen beforehand, in their order."""

    def __init__(self, order: EntryAction, picks: Iterator[Pick]) -> None:
        self.order = order
        self.at = 0
        """how many were dealt with"""
        self.steps = 0
        self._picks = picks
        self._batch: list[Pick] = []

    async def step(self, op: str, size: int) -> Counter[str]:
        # Kept until its reply is heard: a step tried again is the same step with the same entries.
        self._batch = self._batch or list(islice(self._picks, size))
        if not self._batch:
            return Counter()
        return Counter(await self._sent(op))

    async def _sent(self, op: str) -> list[str]:
        batch, end = self._batch, self.at + len(self._batch)
        said = await self.order.move(op, self.steps + 1, batch, (self.at, end))
        if len(said) != len(batch):  # of another step, that was sent under this number before
            raise Superseded(f"{op} was taken back, or goes on elsewhere")
        self._batch, self.at, self.steps = [], end, self.steps + 1
        return said


class Bulk:
    """One bulk change. Drive `step` until it says False; sleep `pause` between steps.

    The journal is written before the first step and holds how far it came; every step is one
    script, so a kill between any two leaves whole entries, each on one side.
    """

    first = 50
    """how many entries the first step handles at most"""

    def __init__(
        self,
        selection: ChangeScope,
        verb: Verb,
        author: Author,
        *,
        rate: float | None = None,
        consumer: str = "operator",
        lease_ms: int = LEASE_MS,
        at_ms: int | None = None,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._allowed(selection, verb)
        checked_consumer(consumer)
        if verb == "reschedule" and at_ms is None:
            raise BadInput("reschedule needs a time (--at or --in)")
        self.selection = selection
        self.verb = verb
        self.author = author
        self.rate = rate
        left_out = len(selection.corrupt) if isinstance(selection, Selection) else 0
        self.outcome = ChangeOutcome(audit_log.new_id(verb), selection.count + left_out)
        self.outcome.skip("corrupt", left_out)
        self.handled = 0
        """entries this object dealt with"""
        self.halted = ""
        """why it stopped before its end, if it did"""
        argument = lease_ms if at_ms is None else at_ms
        self.order = self._ordered(
            EntryAction(
                selection.queue, verb, selection.state, selection.high_water_ms, consumer, argument
            )
        )
        self.recovered: list[Recovered] = []
        """moves of others that it found unfinished"""
        self._source: StepSource = self._steps()
        self._clock = clock
        self._stride = Stride(min(self.first, int(rate) or 1) if rate else self.first)
        self._began: float | None = None

    def _allowed(self, selection: ChangeScope, verb: Verb) -> None:
        if verb == "move":
            raise BadInput("a move is between two queues (see relocation)")
        allowed(selection.queue, verb, selection.state)

    def _ordered(self, order: EntryAction) -> EntryAction:
        return order

    @property
    def destination(self) -> dict[str, Any]:
        """Of a move: the queue they go to, as the journal and plans have it."""
        return {}

    async def _end(self) -> None:
        await audit_log.note(self.order.queue, self.op, ended=1)

    def _steps(self) -> StepSource:
        assert isinstance(self.selection, Selection)
        return ListedSteps(self.order, starmap(Pick, self.selection.identities()))

    @property
    def op(self) -> str:
        assert self.outcome.op is not None
        return self.outcome.op

    def _size(self) -> int:
        size = self._stride.size
        return min(size, max(1, int(self.rate))) if self.rate else size

    async def _begin(self) -> None:
        """Write down what is about to be done."""
        order = self.order
        await audit_log.begin(
            order.queue, self.op, self.verb, self.author, str(self.selection.filter),
            now_ms=await order.queue.now.op(), source=order.state, target=VERBS[self.verb][1],
            matched=self.outcome.matched, **self.destination,
        )  # fmt: skip

    async def _open(self) -> None:
        if self._began is None:
            began = self._clock()
            await self._begin()
            asked = self._clock()
            await self.order.queue.now.op()
            self._stride.way = self._clock() - asked
            self._began = began

    async def step(self) -> bool:
        """Move some; False when all were dealt with."""
        await self._open()
        started = self._clock()
        asked = self._size()
        said = await self._source.step(self.op, asked)
        if not said:
            await self._end()
            return False
        handled = said.total()
        self._stride.learn(handled, self._clock() - started, asked)
        self.handled += handled
        self._count(said)
        return True

    def _count(self, said: Counter[str]) -> None:
        for word, n in said.items():
            if word == "moved":
                self.outcome.done += n
            else:
                self.outcome.skip(word, n)

    @property
    def pause(self) -> float:
        """Seconds to wait before the next step, so that the rate is kept."""
        if not self.rate or self._began is None:
            return 0.0
        return max(0.0, self._began + self.handled / self.rate - self._clock())

    async def reached(self) -> int:
        """How many were moved as the journal has it, also by a step whose reply was not heard."""
        operation = await audit_log.read(self.order.queue, self.op)
        return operation.done if operation else 0

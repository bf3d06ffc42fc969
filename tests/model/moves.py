"""Moves between two queues, among workers that crash and tools that are killed or stand still.

A tool here is a coroutine that comes one exchange further when its turn comes: between any two of
its calls everybody else may have a turn, others of its own kind too. One that is never asked again
was killed, at times in the middle of an exchange with several shards.

Every payload is a life of its own, and where it is in either queue is read from the keys. After
each exchange it must be so that

* each life is in one place where it can be worked on, is dead or was purged; or it had its end;
  or it lies in a trash under a move that has not ended: never nowhere, never twice;
* an exchange of a tool changed nothing but what is a step of that move, of an entry that was meant,
  and what came to the other queue, or back, is as it was;
* what the tools say of entries is what became of them.

When all have rested, no life is under way.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import redis

from redisq_ops.core.engine.registry import find
from redisq_ops.core.engine.transfer_recovery import recover
from redisq_ops.core.model.clock import FakeClock
from redisq_ops.core.model.entry import Delivery, Request, Settlement, State
from redisq_ops.core.model.errors import Exists, QueueClosed, QueueFull, Refused, Superseded
from redisq_ops.core.model.keys import Keys
from redisq_ops.core.model.settings import DAY_MS
from redisq_ops.core.model.states import VERBS, Verb
from redisq_ops.core.queues.carmine import CarmineQueue, ShardedCarmineQueue
from redisq_ops.core.queues.circular import CircularQueue
from redisq_ops.core.queues.circular.sharded import ShardedCircularQueue
from redisq_ops.core.queues.delay import DelaySet
from redisq_ops.core.queues.delay.sharded import ShardedDelaySet
from redisq_ops.core.queues.fair import FairQueue
from redisq_ops.core.queues.fair.sharded import ShardedFairQueue
from redisq_ops.core.queues.request import RequestQueue
from redisq_ops.core.queues.request.sharded import ShardedRequestQueue
from redisq_ops.core.redis.operation import run, together
from redisq_ops.core.redis.transport import exchange
from redisq_ops.ops.change import audit_log
from redisq_ops.ops.change.entry_steps import Pick
from redisq_ops.ops.change.plan import Draft, PlanFile
from redisq_ops.ops.change.plan_header import PlanHeader
from redisq_ops.ops.change.runner import ChangeRun
from redisq_ops.ops.change.scope import select_entries
from redisq_ops.ops.change.transfer_plan import Route
from redisq_ops.ops.change.transfer_undo import MoveUndoSteps
from redisq_ops.ops.filter.filter import Filter
from redisq_ops.ops.filter.selection import select

from ..changes import entry_change, plan_change
from .model import LEASE, SETS
from .plans import ME, Ticks

MOST = 25
"""entries at a time, so that a step stays quick"""
OPEN = 3
"""moves that are gone on with at a time"""
OFTEN = 4
STILL = 0.06
DIES = 0.04
"""of a tool, at each of its exchanges"""
CLIENTS = ("ann", "bob", "eve")
STATES: tuple[State, ...] = ("waiting", "delayed", "dead")

Place = tuple[int, str]
"""which queue, and the id"""


@dataclass(frozen=True)
class Kind:
    """Where a kind of queue keeps what an entry is."""

    one: type
    many: type
    contents: tuple[str, ...] = ("body",)
    follow: str | None = None
    timed: bool = False
    """waiting and delayed are one sorted set"""
    renames: bool = False
    """what comes from another queue has another id here"""


KINDS: dict[str, Kind] = {
    "delay": Kind(DelaySet, ShardedDelaySet, follow="next", timed=True),
    "circular": Kind(CircularQueue, ShardedCircularQueue, follow="again"),
    "fair": Kind(FairQueue, ShardedFairQueue),
    "carmine": Kind(
        CarmineQueue, ShardedCarmineQueue, ("body", "messages"), follow="next", timed=True
    ),
    "request": Kind(RequestQueue, ShardedRequestQueue, ("edited",), renames=True),
}


@dataclass(frozen=True, slots=True)
class Seen:
    """One entry as the keys have it."""

    state: str
    at: int
    content: bytes
    told: tuple[str, ...] = ()
    """failures, lost, first delivery, reason"""
    op: str = "-"
    error: bytes | None = None
    follow: bytes | None = None

    @property
    def life(self) -> bytes:
        return self.content.rpartition(b" ")[2]

    @property
    def next_life(self) -> bytes | None:
        return self.follow and self.follow.rpartition(b" ")[2]


Look = dict[Place, Seen]
NOTHING = ("0", "0", "0", "-")


@dataclass
class Trip:
    """One move as the ledger has it."""

    op: str
    way: int
    """the queue it goes from; the other one is where it goes to"""
    state: str
    meant: dict[str, Seen]
    chosen_ms: int
    path: str = ""
    """of its plan, if it has one"""
    rows: dict[str, Seen] = field(default_factory=dict)
    """what was taken out, as it was"""
    landed: set[str] = field(default_factory=set)
    withdrawn: set[str] = field(default_factory=set)
    back: set[str] = field(default_factory=set)
    undoing: bool = False
    over: bool = False

    @property
    def into(self) -> int:
        return 1 - self.way


@dataclass(eq=False)
class Tool:
    """A move, an apply or an undo that is under way."""

    trip: Trip
    change: Any
    going: Coroutine[Any, Any, Any]
    calls: Any = None
    undoes: bool = False
    still: int = 0
    """for how many turns of others it doesn't come further"""


class MoveModel:
    """Two queues of a kind and everybody who is at them."""

    recovers = True
    """whether workers finish what was killed: then less is left for the other rules to find"""
    often: tuple[str, ...] = ()
    """rules that are played more than their share, in a story about them"""

    def __init__(self, client: redis.Redis, seed: int, kind: str, folder: Path) -> None:
        self.client: Any = client
        self.rng = random.Random(seed)
        self.kind, self.named = KINDS[kind], kind
        self.folder = folder
        self.clock = FakeClock()
        self.queues = [self.make("a"), self.make("b")]
        self.lives: dict[bytes, bool] = {}
        """every payload that was accepted, and whether it had its end"""
        self.adrift: set[bytes] = set()
        """those whose copy was replaced on its way: a tool may still have it at hand"""
        self.trips: dict[str, Trip] = {}
        self.tools: list[Tool] = []
        self.held: list[tuple[int, Delivery]] = []
        self.zombies: list[tuple[int, Delivery]] = []
        self.changes: list[tuple[int, str, str]] = []
        self.operations = self.born = 0
        self.told: Counter[str] = Counter()
        self.log: list[str] = []
        for queue in self.queues:
            run(client, queue._ensure_registered())
            self.configure(queue, max_failures=self.rng.choice([2, 3]))
        self.known_ms = [
            getattr(run(client, find(queue.name)), "created_ms", 0) for queue in self.queues
        ]
        self.seen: Look = {}
        self.before_last: list[Seen] = []

    def make(self, name: str) -> Any:
        shards = self.rng.choice([1, 1, 2, 3])
        name = f"carmine:{name}" if self.named == "carmine" else name
        if shards > 1:
            chance = random.Random(self.rng.random())
            return self.kind.many(self.client, name, shards=shards, clock=self.clock, random=chance)
        return self.kind.one(self.client, name, clock=self.clock)

    # --- the story -----------------------------------------------------------------------------

    def play(self, steps: int) -> None:
        rules = [
            rule
            for weight, rule in self.rules()
            for _ in range(weight * (OFTEN if rule.__name__ in self.often else 1))
        ]
        for _ in range(steps):
            rule = self.rng.choice(rules)
            self.log.append(rule.__name__)
            rule()
            if len(self.log) % 20 == 0:
                self.is_sound()
        self.come_to_rest()

    def rules(self) -> Iterable[tuple[int, Callable[[], None]]]:
        return [
            (6, self.submit),
            (5, self.take),
            (4, self.settle),
            (2, self.settle_late),
            (3, self.pass_time),
            (5, self.operate),
            (3, self.undo),
            (8, self.plan),
            (14, self.apply),
            (6, self.move),
            (60, self.go_on),
            (8, self.recall),
            (1, self.door),
            (3, self.open_up),
            (1, self.flush_scripts),
            (1, self.sweep),
            *([(2, self.control), (2, self.let_go_on)] if self.named == "request" else []),
            *([(1, self.upkeep)] if self.recovers else []),
        ]

    # --- producers and workers -----------------------------------------------------------------

    def which(self) -> tuple[int, Any]:
        k = self.rng.randrange(2)
        return k, self.queues[k]

    def submit(self) -> None:
        """New ids, ids that the other queue has, ids whose copy a move left here."""
        _, queue = self.which()
        live = sum(row[0] == "live" for rows in self.places().values() for row in rows)
        known = [id for _, id in self.seen]
        ids = [] if live > MOST else [f"e{self.born + n}" for n in range(self.rng.choice([3, 12]))]
        ids += self.rng.sample(sorted(set(known)), k=min(len(set(known)), 3))
        pairs = []
        for id in ids:
            self.born += 1
            pairs.append((id, b"p%d" % self.born))
        before = self.seen
        with suppress(QueueClosed, QueueFull, Exists):  # some of its shards may have had room
            self.put(queue, pairs)
        self.look()
        here = lives(self.seen.values())
        self.lives |= {payload: False for _, payload in pairs if payload in here}
        replaced = [at for at, one in before.items() if self.seen.get(at) != one]
        copies = [at for at in replaced if self.is_copy(at[0], before[at])]
        gone = lives(before[at] for at in copies) - self.kept()
        self.adrift |= gone
        self.check(may_end=gone | lives(before[at] for at in replaced if at not in copies))

    def put(self, queue: Any, pairs: list[tuple[str, bytes]]) -> None:
        if self.named == "delay":
            mode = self.rng.choice(["new", "move"])
            queue.schedule(pairs, after=self.rng.choice([0, 0, LEASE]) / 1000, mode=mode)
        elif self.named == "circular":
            queue.push(pairs)
        elif self.named == "fair":
            for k, name in enumerate(CLIENTS):  # each id has its client: in shards, too, it is one
                own = [(id, payload) for id, payload in pairs if int(id[1:]) % 3 == k]
                if own:
                    queue.submit(name, own)
        elif self.named == "request":
            *_, (id, _) = pairs  # at times the name of one that is there, or in the other
            queue.submit(
                [payload for _, payload in pairs],
                id=id.partition("/")[0],
                limit=self.rng.choice([2, 100]),
                priority=self.rng.choice([10, 50]),
            )
        else:
            queue.enqueue(pairs, requeue=self.rng.random() < 0.5)

    def take(self) -> None:
        k, queue = self.which()
        before = self.seen
        taken = queue.take(self.rng.choice([1, 2, 5]), consumer="w", lease=LEASE / 1000)
        self.look()
        for delivery in taken.deliveries:
            was, now = before[k, delivery.id], self.seen[k, delivery.id]
            assert now.state == "pending" and delivery.payload == now.life
            assert was.state in ("waiting", "delayed", "pending"), "none of those that wait"
            (self.zombies if self.rng.random() < 0.25 else self.held).append((k, delivery))
        self.check()

    def settle(self) -> None:
        if self.held:
            self.end([self.held.pop(self.rng.randrange(len(self.held)))])

    def settle_late(self) -> None:
        if self.zombies:
            self.end(self.rng.choices(self.zombies, k=2))

    def end(self, batch: list[tuple[int, Delivery]]) -> None:
        outcomes: list[Any] = ["ack", "fail", "fail", "reject", "reject", "release"]
        mortal: set[bytes] = set()
        for k, delivery in batch:
            outcome = self.rng.choice(outcomes)
            wait = self.rng.choice([0, LEASE]) if outcome == "fail" else 0
            s = Settlement(delivery, outcome, b"why %d" % self.operations, wait / 1000)
            (said,) = self.queues[k].settle([s])
            if said == "done":
                assert not self.lives[delivery.payload], "done twice"
                self.lives[delivery.payload] = True
            elif said == "dead":  # what came in meanwhile takes its place
                mortal.add(delivery.payload)
            self.zombies.append((k, delivery))
        self.look()
        self.check(may_end=mortal)

    def pass_time(self) -> None:
        self.clock.now_ms += self.rng.choice([1, 1000, LEASE // 2, LEASE * 3 // 2])

    def sweep(self) -> None:
        run(self.client, self.which()[1].sweep.op(50))
        self.look()
        self.check()

    def upkeep(self) -> None:
        """A worker's, some days or some moments after whoever was at it was killed: he comes as far
        as he does, too."""
        k, queue = self.which()
        trip = Trip("", k, "", {}, 0)
        self.begin(Tool(trip, None, self.kept_up(queue), undoes=True))

    async def kept_up(self, queue: Any) -> None:
        found = await recover(queue, idle_ms=self.rng.choice([0, None]))
        self.told["recovered"] += len(found)
        assert not [one for one in found if one.problem is not None]

    # --- operators in one queue ----------------------------------------------------------------

    def operate(self) -> None:
        k, queue = self.which()
        verbs: list[Verb] = [verb for verb in queue.actions if verb not in ("move", "reschedule")]
        verb: Verb = self.rng.choice(verbs)
        source = self.rng.choice(queue.actions[verb])
        there = [id for (at, id), one in self.seen.items() if at == k and self.is_in(one, source)]
        if verb == "hard":  # what lies between two queues isn't to be emptied, and the docs say so
            there = [id for id in there if not self.is_copy(k, self.seen[k, id])]
        ids = self.rng.sample(sorted(there), k=min(len(there), self.rng.choice([1, 4])))
        if not ids:
            return
        self.operations += 1
        op, before = f"{verb}-{self.operations}", self.seen
        said = run(
            self.client,
            queue.move.op(
                op,
                1,
                ids,
                source=source,
                target=VERBS[verb][1],
                high_water_ms=self.clock.now_ms,
                consumer="operator",
                lease_ms=LEASE,
            ),
        )
        for id, word in zip(ids, said, strict=True):
            if verb == "restore" and self.is_copy(k, before[k, id]):
                assert word != "moved", "what a move left behind was brought to life"
            self.told[f"{verb} {word}"] += 1
        if verb != "hard":
            self.changes.append((k, op, VERBS[verb][1]))
        self.look()
        self.check(may_end=lives(before[k, id] for id in ids) if verb == "hard" else ())

    def undo(self) -> None:
        if self.changes:
            k, op, target = self.changes.pop(self.rng.randrange(len(self.changes)))
            self.operations += 1
            by = f"back-{self.operations}"
            run(self.client, self.queues[k].undo.op(op, 1, target=target, by=by, seq=1))
            self.look()
            self.check()

    def door(self) -> None:
        _, queue = self.which()
        if self.rng.random() < 0.5:
            self.configure(queue, closed="draining")
        else:
            self.configure(queue, max_waiting=self.rng.choice([3, 20]))

    def open_up(self) -> None:
        for queue in self.queues:
            self.configure(queue, closed="", max_waiting="")

    def configure(self, queue: Any, **values: Any) -> None:
        self.operations += 1
        given = {name: str(value) for name, value in values.items()}
        run(self.client, queue.configure.op(f"set-{self.operations}", 1, given))

    def control(self) -> None:
        """Somebody has a request stand still, or cancels it."""
        _, queue = self.which()
        for request in self.rng.sample(requests(queue), k=min(2, len(requests(queue)))):
            if request.state in ("open", "sealed"):
                self.controls(queue, self.rng.choice(["pause", "cancel"]), request.id)
        self.look()
        self.check()

    def let_go_on(self) -> None:
        for queue in self.queues:
            for request in requests(queue):
                if request.state == "cancelled":
                    self.controls(queue, "reopen", request.id, "sealed")
                if request.paused:
                    with suppress(QueueClosed):  # all of it is done, or has been taken elsewhere
                        self.controls(queue, "resume", request.id)
        self.look()
        self.check()

    def controls(self, queue: Any, verb: Any, *given: str) -> None:
        self.operations += 1
        run(self.client, queue.control.op(f"c-{self.operations}", 1, verb, *given))

    def flush_scripts(self) -> None:
        self.client.script_flush()

    # --- those who move ------------------------------------------------------------------------

    def way(self, trip_way: int) -> Route:
        source, into = self.queues[trip_way], self.queues[1 - trip_way]
        return Route(source, into, self.known_ms[1 - trip_way], 2 * DAY_MS)

    def choose(self) -> tuple[int, Any, State, Filter]:
        k, queue = self.which()
        there = [
            s
            for s in STATES
            if any(at == k and self.is_in(one, s) for (at, _), one in self.seen.items())
        ]
        return k, queue, self.rng.choice(there or STATES), Filter(max=self.rng.choice([2, 8, 30]))

    def open_trips(self) -> list[Trip]:
        return [trip for trip in self.trips.values() if not trip.over and not trip.undoing]

    def enough(self) -> bool:
        """Whether so many moves are under way that another one would only stand in their way."""
        return len(self.open_trips()) >= OPEN and self.rng.random() < 0.8

    def plan(self) -> None:
        """A plan that somebody, or several, may apply."""
        if self.enough():
            return
        k, queue, state, limit = self.choose()
        op = audit_log.new_id("move")
        path = str(self.folder / op)
        with Draft(path, op) as draft:
            chosen, weight = run(self.client, select_entries(queue, state, limit, keep=draft.add))
            header = PlanHeader(
                op,
                queue.name,
                queue.kind,
                "redisq",
                0,
                "",
                "move",
                state,
                "operator",
                LEASE,
                chosen.high_water_ms,
                "all",
                "ada",
                "laptop",
                "",
                self.clock.now_ms,
                self.rng.choice([1, 3, 9]),
                None,
                self.queues[1 - k].name,
                self.known_ms[1 - k],
            )
            draft.finish(header, {"consequences": weight.facts("move")})
        file = PlanFile(path)
        picks: list[Pick] = list(file.picks())
        file.close()
        if picks:
            self.new_trip(op, k, state, [pick.id for pick in picks], path)

    def new_trip(self, op: str, k: int, state: str, ids: list[str], path: str = "") -> Trip:
        meant = {id: self.seen[k, id] for id in ids}
        self.trips[op] = Trip(op, k, self.normal(state), meant, self.clock.now_ms, path)
        return self.trips[op]

    def move(self) -> None:
        """By a command of its own, which nobody else can go on with."""
        if self.enough():
            return
        k, queue, state, limit = self.choose()
        chosen = run(self.client, select(queue, state, limit))
        change = entry_change(chosen, "move", ME, route=self.way(k), clock=Ticks())
        trip = self.new_trip(change.op, k, state, chosen.ids())
        self.begin(Tool(trip, change, self.carried_out(change)))

    def apply(self) -> None:
        """Somebody begins to apply a plan, or goes on with it; at times it is the second."""
        plans = [trip for trip in self.open_trips() if trip.path]
        if plans and len(self.tools) < 2 * OPEN:
            self.begin(self.applying(self.rng.choice(plans)))

    def applying(self, trip: Trip) -> Tool:
        plan = PlanFile(trip.path)
        most = self.rng.choice([None, None, 4])
        change = plan_change(
            plan,
            self.queues[trip.way],
            ME,
            route=self.way(trip.way),
            most=most,
            clock=Ticks(),
            report=lambda id, said: self.hears(trip, id, said),
        )
        return Tool(trip, change, self.carried_out(change))

    async def carried_out(self, change: Any) -> None:
        while await change.step():
            pass

    def recall(self) -> None:
        """Somebody takes a move back; at times it is the second who does."""
        if self.trips and len(self.tools) < 2 * OPEN:
            trip = self.rng.choice(list(self.trips.values())[-2 * OPEN :])
            self.undo_of(trip)

    def undo_of(self, trip: Trip) -> Tool | None:
        operation = run(self.client, audit_log.read(self.queues[trip.way], trip.op))
        if operation is None or not operation.undoable:
            return None
        change = ChangeRun(MoveUndoSteps(self.way(trip.way), operation), ME)
        tool = Tool(trip, change, self.carried_out(change), undoes=True)
        self.begin(tool)
        return tool

    def begin(self, tool: Tool) -> None:
        tool.going = together([tool.going])
        tool.calls = tool.going.send(None)
        self.tools.append(tool)

    def hears(self, trip: Trip, id: str, said: str) -> None:
        if said == "moved":
            assert id in trip.landed, f"{id} was said to be moved"
        # What a step that reached some shards only moved is changed to who looks at it again.
        elif said != "earlier" and not (
            said == "changed" and len(self.queues[trip.way].shard_queues) > 1
        ):
            assert id not in trip.landed, f"{id} was said to be {said}"
        self.told[said] += 1

    def go_on(self) -> None:
        """One of the tools comes further."""
        for tool in self.tools:
            tool.still -= 1
        able = [tool for tool in self.tools if tool.still <= 0]
        if not able:
            return
        tool = self.rng.choice(able)
        for _ in range(self.rng.choice([1, 2, 4, 10, 20])):
            if self.rng.random() < DIES:
                self.kill(tool)
                return
            if not self.exchange(tool):
                return
            if self.rng.random() < STILL:
                tool.still = self.rng.choice([5, 20, 40])
                return

    def kill(self, tool: Tool) -> None:
        """What it sent arrives as far as it does, and nobody hears of it."""
        self.carry(tool, self.rng.randrange(len(tool.calls) + 1))
        self.told["killed"] += 1
        self.leave(tool)

    def leave(self, tool: Tool) -> None:
        tool.going.close()
        self.tools.remove(tool)

    def exchange(self, tool: Tool) -> bool:
        """What it sent is carried out, and it hears of it; whether it goes on."""
        replies = self.carry(tool, len(tool.calls))
        try:
            tool.calls = tool.going.send(replies)
        except StopIteration:
            self.leave(tool)
            self.is_over(tool)
            return False
        except (Refused, Superseded) as error:
            assert tool.trip.undoing or tool.undoes, f"refused, and nobody took it back: {error}"
            self.told["refused"] += 1
            self.leave(tool)
            return False
        return True

    def carry(self, tool: Tool, most: int) -> list[Any]:
        """Have the server do that much of what was sent, and see what it did."""
        if tool.undoes:
            tool.trip.undoing = True
        calls = tool.calls[:most]
        replies = exchange(self.client, calls) if calls else []
        if any(call.source for call in calls):
            before = self.seen
            self.look()
            for place in {*before, *self.seen}:
                was, now = before.get(place), self.seen.get(place)
                if was != now:
                    self.explained(place, was, now)
            self.check()
        return replies

    def explained(self, place: Place, was: Seen | None, now: Seen | None) -> None:
        """An exchange of a tool changed this entry: it has to be a step of a move."""
        k, id = place
        if now is None:
            assert was is not None and was.state == "trash", f"{place} vanished"
            gone = [
                t
                for t in self.trips.values()
                if t.into == k and self.own(t, id, was) in t.withdrawn & t.back
            ]
            assert gone, f"{place} was removed, and nobody has it again"
            self.told["removed"] += 1
        elif now.state == "trash":
            assert was is not None
            trip = self.trips.get(now.op)
            # What a step that reached one shard only put back is looked at again by a later one.
            if trip is not None and trip.way == k and (id not in trip.rows or id in trip.back):
                trip.back.discard(id)
                assert self.is_meant(trip, id, was), f"{place} was not meant"
                assert was.state == trip.state and same(was, now)
                trip.rows[id] = was
                self.told["out"] += 1
            else:
                trip = self.trips.get(was.op)
                assert trip is not None and trip.into == k and trip.undoing, f"{place} was taken"
                assert was.state in (trip.state, "waiting") and same(was, now)
                trip.withdrawn.add(self.own(trip, id, was))
                self.told["withdrawn"] += 1
        elif was is not None and was.op.startswith("undo-"):
            trip = self.trips.get(now.op)
            assert trip is not None and trip.into == k
            id = self.own(trip, id, now)
            assert id in trip.withdrawn
            assert not self.is_under_way(trip, id), f"{place} lives, and may come back as well"
            trip.withdrawn.discard(id)
            self.told["stays"] += 1
        elif was is not None and not self.is_landing(k, id, now):
            trip = self.trips.get(was.op)
            assert trip is not None and trip.way == k, f"{place} came from nowhere"
            assert was.state == "trash" and now == trip.rows[id], f"{place} isn't as it was"
            trip.back.add(id)
            self.told["back"] += 1
        else:
            trip = self.trips.get(now.op)
            assert trip is not None and trip.into == k, f"{place} came from nowhere"
            assert was is None or self.is_copy(k, was), f"{place} was there already"
            id = self.own(trip, id, now)
            row = trip.rows[id]
            assert id not in trip.landed | trip.back, f"{place} landed twice"
            assert now == replace(row, op=trip.op), f"{place} isn't as it was"
            trip.landed.add(id)
            self.told["landed"] += 1

    def own(self, trip: Trip, id: str, one: Seen) -> str:
        """The id it had where the move took it from."""
        if not self.kind.renames:
            return id
        return next((own for own, row in trip.rows.items() if row.life == one.life), "")

    def is_landing(self, k: int, id: str, now: Seen) -> bool:
        trip = self.trips.get(now.op)
        if trip is None or trip.into != k:
            return False
        return self.own(trip, id, now) not in trip.landed

    def is_meant(self, trip: Trip, id: str, was: Seen) -> bool:
        """An id in a line is who it is; where there are times, plans tell its lives apart."""
        meant = trip.meant.get(id)
        if meant is None or not self.kind.timed or not trip.path:
            return meant is not None
        # What died in the very millisecond of the look is meant, whichever came first.
        return was.at == meant.at or (was.state == "dead" and was.at == trip.chosen_ms)

    def is_over(self, tool: Tool) -> None:
        """It came to its end: nothing of that move is under way, whoever else was at it."""
        trip, change = tool.trip, tool.change
        if change is None:
            return
        self.told["undone" if tool.undoes else "over"] += 1
        operation = run(self.client, audit_log.read(self.queues[trip.way], trip.op))
        if operation is None:
            return
        alone = not tool.undoes and not trip.path  # a move of its own, without a plan
        full = tool.undoes or operation.ended or alone
        trip.over = trip.over or full
        if tool.undoes or (full and not trip.undoing):
            self.none_under_way(trip)
        if not trip.undoing:
            assert operation.done == len(trip.rows.keys() - trip.back)
            if alone:
                assert change.outcome.done == len(trip.landed)

    def none_under_way(self, trip: Trip) -> None:
        if any(tool.trip is trip for tool in self.tools):
            return  # they are at a step that nobody else has to end
        for id in trip.rows.keys() - trip.back - (trip.landed - trip.withdrawn):
            assert not self.is_under_way(trip, id), f"{id} is under way, and the move has ended"

    def is_under_way(self, trip: Trip, id: str) -> bool:
        """Whether what was taken out lies there still, from where it may be put back."""
        copy = self.seen.get((trip.way, id))
        if copy is None or (copy.state, copy.op) != ("trash", trip.op):
            return False
        steps = [
            key
            for leaf in self.queues[trip.way].shard_queues
            for key in self.client.scan_iter(leaf.keys["undo_"] + trip.op + ":*", count=10_000)
        ]  # without a step's list, which an undo that is through with it removes, nothing can
        rows = (row for key in steps for row in self.client.lrange(key, 0, -1))
        return any(row.startswith(id.encode() + b" ") for row in rows)

    # --- the ledger ----------------------------------------------------------------------------

    def normal(self, state: str) -> str:
        return "delayed" if self.kind.timed and state == "waiting" else state

    def is_in(self, one: Seen, state: str) -> bool:
        return one.state == self.normal(state)

    def is_copy(self, k: int, one: Seen) -> bool:
        """Whether it is what a move left in a trash, here or on its way back."""
        return one.state == "trash" and (one.op in self.trips or one.op.startswith("undo-"))

    def look(self) -> None:
        """Read where everything is, in one round trip."""
        pipe = self.client.pipeline(transaction=False)
        leaves = [(k, leaf) for k, queue in enumerate(self.queues) for leaf in queue.shard_queues]
        follow = self.kind.follow
        hashes = ["meta", "err", *self.kind.contents, *([follow] if follow else [])]
        for _, leaf in leaves:
            for part in SETS.values():
                pipe.zrange(leaf.keys[part], 0, -1, withscores=True)
            for part in hashes:
                pipe.hgetall(leaf.keys[part])
            if self.named == "carmine":
                pipe.smembers(leaf.keys["finished"])
        replies = iter(pipe.execute())
        submitted = self.submitted(leaf.keys for _, leaf in leaves)
        self.seen = {}
        for k, leaf in leaves:
            sets = {state: dict(next(replies)) for state in SETS}
            meta, err = next(replies), next(replies)
            contents: dict[bytes, bytes] = {}
            for _ in self.kind.contents:
                contents |= next(replies)
            if self.named == "request":
                contents = submitted[leaf.keys.tag] | contents
            follows = next(replies) if follow else {}
            ended = next(replies) if self.named == "carmine" else ()
            for raw, content in contents.items():
                at = [(state, int(ids[raw])) for state, ids in sets.items() if raw in ids]
                assert len(at) <= 1, f"{raw!r} is in {at}"
                if raw in ended:
                    assert not at
                    continue
                words = meta[raw].decode().split() if raw in meta else []
                told = (*words[1:4], words[7]) if words else NOTHING
                place = (k, raw.decode())
                assert place not in self.seen, f"{place} is in two shards"
                self.seen[place] = Seen(
                    *(at[0] if at else ("waiting", 0)),
                    content,
                    told,
                    words[6] if words else "-",
                    err.get(raw),
                    follows.get(raw),
                )

    def submitted(self, queues: Iterable[Keys]) -> dict[str, dict[bytes, bytes]]:
        """What the streams of requests have, by the tag of their keys."""
        if self.named != "request":
            return {}
        found: dict[str, dict[bytes, bytes]] = {}
        for keys in queues:
            rids = [
                rid for part in ("open", "fin") for rid in self.client.zrange(keys[part], 0, -1)
            ]
            pipe = self.client.pipeline(transaction=False)
            for rid in rids:
                pipe.xrange(keys["s_"] + rid.decode())
            found[keys.tag] = {
                rid + b"/" + at.partition(b"-")[0]: row[b"r"]
                for rid, rows in zip(rids, pipe.execute(), strict=True)
                for at, row in rows
            }
        return found

    def means(self, place: Place, one: Seen) -> str:
        """``live``: it is what it is; ``held``: it is on its way; ``left``: a copy of what went."""
        k, id = place
        if not self.is_copy(k, one):
            return "live"
        if (trip := self.trips.get(one.op)) is not None:
            went = id in trip.landed - trip.withdrawn
            return "left" if went else "held"
        back = [(t, self.own(t, id, one)) for t in self.trips.values() if t.into == k]
        back = [(trip, own) for trip, own in back if own in trip.withdrawn]
        return "left" if all(own in trip.back for trip, own in back) else "held"

    def places(self) -> dict[bytes, list[tuple[str, Place, str, str]]]:
        """Of each life where it is, what that means, in which state, and by which operation."""
        found: dict[bytes, list[tuple[str, Place, str, str]]] = {}
        for place, one in self.seen.items():
            row = (self.means(place, one), place, one.state, one.op)
            for life in (one.life, one.next_life):
                if life is not None:
                    found.setdefault(life, []).append(row)
        return found

    def kept(self) -> set[bytes]:
        """Lives that are somewhere where they are not forgotten."""
        return {
            life
            for life, rows in self.places().items()
            if any(means != "left" for means, *_ in rows)
        }

    def check(self, may_end: Iterable[bytes] = ()) -> None:
        places = self.places()
        assert places.keys() <= self.lives.keys(), "nobody put that in"
        mortal = set(may_end)
        # What came in meanwhile doesn't die with what was worked on, but takes its place.
        mortal |= {one.life for one in self.before_last if one.follow and one.state == "pending"}
        for life, ended in self.lives.items():
            rows = [row for row in places.get(life, []) if row[0] != "left"]
            live = [row for row in rows if row[0] == "live"]
            if ended and live and life in self.adrift:
                self.adrift.discard(life)
                self.lives[life] = False
            elif ended:
                assert not live, f"{life!r} had its end, and is at {live}"
            elif not live and life in mortal:
                self.lives[life] = True
            else:
                assert rows, f"{life!r} is lost"
                assert len(live) <= 1, f"{life!r} is where two can take it: {live}"
        self.before_last = list(self.seen.values())

    # --- the end -------------------------------------------------------------------------------

    def come_to_rest(self) -> None:
        """All that was begun is gone on with or taken back; then everything is worked off."""
        while self.tools:
            tool = self.rng.choice(self.tools)
            if self.rng.random() < 0.5:
                self.kill(tool)
            else:
                while self.exchange(tool):
                    pass
        self.open_up()
        for trip in self.trips.values():
            operation = run(self.client, audit_log.read(self.queues[trip.way], trip.op))
            if operation is None or (trip.over and not trip.undoing):
                continue
            if trip.path and not operation.taken_back and self.rng.random() < 0.5:
                self.begin(self.applying(trip))
                last: Tool | None = self.tools[-1]
            else:
                last = self.undo_of(trip)
            while last is not None and self.exchange(last):
                pass
        self.look()
        self.check()
        for life, rows in self.places().items():
            held = [row for row in rows if row[0] == "held"]
            assert self.lives[life] or not held, f"{life!r} stays under way: {held}"
        for trip in self.trips.values():
            self.is_counted(trip)
        self.work_off()

    def is_counted(self, trip: Trip) -> None:
        operation = run(self.client, audit_log.read(self.queues[trip.way], trip.op))
        if operation is not None:
            assert operation.done - operation.undone == len(trip.rows.keys() - trip.back)

    def work_off(self) -> None:
        for _ in range(200):
            if self.named == "request":
                self.let_go_on()
            taken = 0
            for queue in self.queues:
                deliveries = queue.take(100, consumer="last").deliveries
                said = queue.settle([Settlement(d, "ack") for d in deliveries])
                assert set(said) <= {"done"}
                taken += len(said)
                for delivery in deliveries:
                    assert not self.lives[delivery.payload], "done twice"
                    self.lives[delivery.payload] = True
            self.look()
            self.check()
            left = {one.state for one in self.seen.values()} - {"dead", "trash"}
            if not taken and not left:
                break
            self.clock.now_ms += LEASE
        else:
            raise AssertionError("it never came to rest")
        self.is_sound()
        if self.named == "request":
            held = [r.id for queue in self.queues for r in requests(queue) if r.moving]
            assert not held, "nothing is on its way any more"

    def is_sound(self) -> None:
        for queue in self.queues:
            assert run(self.client, queue.invariants.op()) == []


def requests(queue: Any) -> list[Request]:
    return [*queue.requests(0, 500), *queue.requests(0, 500, settled=True)]


def lives(rows: Iterable[Seen]) -> set[bytes]:
    return {life for one in rows for life in (one.life, one.next_life) if life is not None}


def same(one: Seen, other: Seen) -> bool:
    """Whether it is the same entry in another place."""
    return replace(one, state="", at=0, op="") == replace(other, state="", at=0, op="")

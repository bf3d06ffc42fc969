"""A second implementation of the queues, in memory and simple, run beside the real one.

A seed makes a history of steps by several producers, workers and operators. After the steps of
`seeds.watching` the server's keys must say exactly what the book here says (conservation), and
`invariants` must hold.
Replies are predicted where they are determined and checked against the book where they aren't:

* conservation: every accepted entry is in exactly one state, with its counts and times;
* fencing: only the newest receipt of an entry is ever answered by anything but `stale`;
* re-send: a call sent twice answers the same and changes nothing (`wire.run_twice`);
* content: the bytes given back are the bytes given.
"""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import pytest
import redis

from redisq_ops.core.engine.queue import Queue
from redisq_ops.core.model.clock import FakeClock, duration_ms
from redisq_ops.core.model.entry import Delivery, Settlement
from redisq_ops.core.model.errors import QueueClosed, Superseded
from redisq_ops.core.model.keys import registry_key
from redisq_ops.core.model.settings import DEFAULTS
from redisq_ops.core.model.states import EDIT, VERBS, Verb
from redisq_ops.core.redis.operation import Description, run
from redisq_ops.ops.change.audit_log import note

from .seeds import watching
from .wire import Picture, picture, run_twice

LEASE = 30_000
HOUR = 3_600_000
SETS = {"pending": "lease", "delayed": "delay", "dead": "dead", "trash": "trash"}
WHOLE = [
    ("replay", "dead", "waiting"),
    ("purge", "dead", "trash"),
    ("hard", "dead", "gone"),
    ("hard", "trash", "gone"),
]
CRASHES = 0.25
TWICE = 0.3
OFTEN = 8
RATES = {"40/s": (25_000, 4), "5/m": (12_000_000, 1)}
"""rate -> microseconds per entry, and how many may be handed out at once"""


@dataclass
class Unit:
    """One entry as the book has it; the fields are those of the record line."""

    id: str
    payload: bytes
    state: str = "waiting"
    at: int = 0
    receipt: str = "-"
    failures: int = 0
    lost: int = 0
    first: int = 0
    since: int = 0
    consumer: str = "-"
    op: str = "-"
    reason: str = "-"
    ready: int = 0
    error: bytes | None = None
    executions: int = 0
    follow: tuple[int, bytes] | None = None
    """what runs after this delivery (delay set)"""

    @property
    def line(self) -> str | None:
        """The record the server should hold; nothing known, no record."""
        if self.state in ("done", "gone") or (not self.first and self.op == "-"):
            return None
        words = (self.receipt, self.failures, self.lost, self.first, self.since, self.consumer)
        return " ".join(map(str, (*words, self.op, self.reason, self.ready)))

    def given(self, now: int) -> None:
        """Somebody has it; of what was replayed it is the first delivery again."""
        self.first = self.first if self.first > 1 else now


@dataclass
class Step:
    """One step of a bulk move: what each moved entry was before, and where it went."""

    op: str
    seq: int
    rows: list[tuple[Unit, str]] = field(default_factory=list)


class Model(ABC):
    """The rules both kinds of queue have."""

    most: ClassVar[int] = 80
    """entries at a time, so that a step stays quick"""
    waits: ClassVar[tuple[str, ...]] = ("fail",)
    """outcomes that may have a delay"""
    often: tuple[str, ...] = ()
    """rules that are played more than their share, in a story about them"""
    has_rate: ClassVar[bool] = True
    """whether operators give the queue a rate now and then"""
    rests: ClassVar[tuple[str, ...]] = ("cfg", "stat", "callers", "hist", "wake")
    """keys that an empty queue may keep"""

    def __init__(self, client: redis.Redis, seed: int) -> None:
        self.client: Any = client
        self.rng = random.Random(seed)
        self.looks = watching(seed)
        self.clock = FakeClock()
        self.queue: Any = self.make()
        self.units: dict[str, Unit] = {}
        self.steps: list[Step] = []
        self.held: list[Delivery] = []
        self.zombies: list[Delivery] = []
        self.receipts: set[str] = set()
        self.conf: dict[str, Any] = {}
        self.operations = 0
        self.done = 0
        self.earned = 0  # when all that was handed out will have been earned, in microseconds
        self.log: list[str] = []
        run(client, self.queue._ensure_registered())
        self.set("max_failures", self.rng.choice([2, 3, 20]))
        self.set("history", self.rng.choice(["ops", "all", "off"]))
        self.set("trash_ms", self.rng.choice([2 * LEASE, 2 * LEASE, HOUR]))
        self.set("keep_ms", self.rng.choice([4 * LEASE, HOUR]))

    @abstractmethod
    def make(self) -> Queue[Any]: ...

    # --- the story -----------------------------------------------------------------------------

    def play(self, steps: int) -> None:
        """The whole of it: ``steps`` random ones, then to rest, then nothing may be left."""
        rules = [
            rule
            for weight, rule in self.rules()
            for _ in range(OFTEN * max(weight, 1) if rule.__name__ in self.often else weight)
        ]
        for _ in range(steps):
            if self.rng.random() < 0.2:
                self.reopen_doors()
            rule = self.rng.choice(rules)
            self.log.append(rule.__name__)
            rule()
            self.after_step()
        self.come_to_rest()
        self.retire()

    def after_step(self) -> None:
        if self.looks():
            self.check()

    def rules(self) -> Iterable[tuple[int, Callable[[], None]]]:
        return [
            (12, self.take),
            (12, self.settle),
            (3, self.settle_late),
            (3, self.extend),
            (6, self.pass_time),
            (2, self.sweep),
            (12, self.move),
            (6, self.undo),
            (2, self.pause_or_resume),
            (1, self.configure),
            (int(self.has_rate), self.set_rate),
            (1, self.flush_scripts),
            (0, self.pass_an_hour),
        ]

    def run(self, description: Description[Any]) -> Any:
        """Run one call, at times sent twice, at times with the scripts lost in between."""
        if self.rng.random() < TWICE:
            lost = self.rng.random() < 0.2
            return run_twice(self.client, description, self.flush_scripts if lost else lambda: None)
        return run(self.client, description)

    def refused(self, submission: Description[Any]) -> None:
        """A queue that drains takes nothing in."""
        before = self.picture()
        with pytest.raises(QueueClosed):
            self.run(submission)
        assert self.picture() == before

    # --- rules ---------------------------------------------------------------------------------

    def take(self) -> None:
        n = self.rng.choice([1, 2, 5, 5, 20])
        consumer = f"w{self.rng.randrange(4)}"
        lease = self.rng.choice([LEASE, LEASE, LEASE // 3])
        allowed = self.allowed(n)
        self.bring_back()
        taken = self.run(self.queue.take.op(n, consumer=consumer, lease=lease / 1000))
        assert len(taken.deliveries) <= allowed
        fresh = []
        for delivery in taken.deliveries:
            self.may_be_delivered(self.units[delivery.id])
            unit = self.units[delivery.id]
            assert delivery.payload == unit.payload
            assert (delivery.failures, delivery.lost) == (unit.failures, unit.lost)
            assert delivery.deadline_ms == self.now + lease
            assert delivery.receipt not in self.receipts
            assert delivery.consumer == consumer
            self.receipts.add(delivery.receipt)
            if self.ready_kept:
                unit.ready = unit.at
            unit.state, unit.at, unit.receipt = "pending", delivery.deadline_ms, delivery.receipt
            unit.consumer, unit.op, unit.since = consumer, "-", self.now
            unit.given(self.now)
            fresh.append(delivery)
        self.hand_out(len(fresh))
        self.after_take(taken, allowed)
        (self.zombies if self.rng.random() < CRASHES else self.held).extend(fresh)

    def allowed(self, n: int) -> int:
        """How many of ``n`` entries the queue's rate allows now."""
        if not self.conf.get("rate"):
            return n
        each, most = RATES[self.conf["rate"]]
        at = 1000 * self.now
        self.earned = max(at, self.earned)
        if self.earned > at + (most + 1) * each:  # it was lower before
            self.earned = at + most * each
        return min(n, most - -(-(self.earned - at) // each))

    def hand_out(self, n: int) -> None:
        self.allowed(0)
        if self.conf.get("rate"):
            self.earned += n * RATES[self.conf["rate"]][0]

    @property
    def stopped(self) -> bool:
        """Whether the rate allows nothing more now."""
        return self.allowed(1) == 0

    ready_kept: ClassVar[bool]

    @abstractmethod
    def may_be_delivered(self, unit: Unit) -> None: ...

    @abstractmethod
    def after_take(self, taken: Any, n: int) -> None: ...

    def settle(self) -> None:
        """A batch as a worker settles it, now and then with one of an earlier life in it."""
        count = min(len(self.held), self.rng.choice([1, 1, 2, 6]))
        batch = [self.held.pop(self.rng.randrange(len(self.held))) for _ in range(count)]
        self.zombies += batch
        if self.zombies and self.rng.random() < 0.3:
            batch += self.rng.choices(self.zombies, k=2)
            self.rng.shuffle(batch)
        if batch:
            self.end(batch)

    def settle_late(self) -> None:
        if self.zombies:
            self.end(self.rng.choices(self.zombies, k=self.rng.choice([1, 3])))

    def end(self, batch: Sequence[Delivery]) -> None:
        outcomes = ["ack", "ack", "result", "fail", "fail", "give_up", "reject", "release"]
        settlements = []
        for delivery in batch:
            outcome: Any = self.rng.choice(outcomes)
            wait = self.rng.choice([0, LEASE // 2, LEASE]) if outcome in self.waits else 0
            settlements.append(Settlement(delivery, outcome, self.content(), wait / 1000))
        said = self.run(self.queue.settle.op(settlements))
        expected = [self.ended(settlement) for settlement in settlements]
        assert said == expected

    def ended(self, s: Settlement) -> str:
        unit = self.units.get(s.delivery.id)
        if unit is None or unit.receipt != s.delivery.receipt:
            return "stale"
        assert unit.state == "pending"
        if s.outcome in ("ack", "result"):
            unit.executions += 1
            self.done += 1
            self.finish(unit, s)
            return "done"
        if s.outcome == "release":
            self.shift(unit, "waiting", unit.ready or self.now)
            return "released"
        unit.failures += 1
        unit.error = s.value
        if s.outcome in ("give_up", "reject") or unit.failures >= self.setting("max_failures"):
            unit.reason = "rejected" if s.outcome == "reject" else "failed"
            self.shift(unit, "dead", self.now)
            return "dead"
        wait = duration_ms(s.delay or 0, "")
        self.shift(unit, "delayed" if wait else "waiting", self.now + wait)
        return "retry"

    def finish(self, unit: Unit, s: Settlement) -> None:
        self.shift(unit, "done", 0)

    def extend(self) -> None:
        known = self.held + self.zombies
        if not known:
            return
        batch = self.rng.choices(known, k=3)
        lease = self.rng.choice([LEASE, 2 * LEASE])
        said = self.run(self.queue.extend.op(batch, lease / 1000))
        for delivery, ok in zip(batch, said, strict=True):
            unit = self.units.get(delivery.id)
            assert ok == (unit is not None and unit.receipt == delivery.receipt)
            if ok and unit is not None:
                unit.at = self.now + lease

    def pass_time(self) -> None:
        spans = [1, 1_000, LEASE // 3, LEASE // 2, LEASE, LEASE * 3 // 2]
        self.clock.now_ms += self.rng.choice(spans)

    def pass_an_hour(self) -> None:
        """Only in stories about what is let go of in the end: it ends what was going on."""
        self.clock.now_ms += HOUR
        self.swept(100)

    def sweep(self) -> None:
        self.swept(self.rng.choice([1, 5, 100]))

    def swept(self, most: int) -> int:
        self.reap(most)
        went: int = run(self.client, self.queue.sweep.op(most))
        old = [u for u in self.of("trash") if u.at <= self.now - self.setting("trash_ms")]
        for unit in sorted(old, key=place)[:most]:
            self.shift(unit, "gone", 0)
        self.retired()
        return went

    def retired(self) -> None:  # noqa: B027 - a room without requests has none to retire
        """Strike what the server let go of, after making sure that it might."""

    def move(self) -> None:
        verb: Verb = self.rng.choice(list(VERBS))
        sources, target = VERBS[verb]
        # Ended ones of ours are no entries any more.
        source = self.rng.choice([state for state in sources if state != "done"])
        there = [u.id for u in self.units.values() if u.state not in ("done", "gone")]
        right = [u.id for u in self.of(source)]
        ids = self.rng.choices(right, k=4) if right else []
        ids += self.rng.choices(there, k=2) if there else []
        ended = [u.id for u in self.units.values() if u.state in ("done", "gone")]
        ids += self.rng.choices(ended, k=3) if ended else []
        ids += self.rng.sample(self.misspelt(ids), k=2)
        high_water = self.now - self.rng.choice([0, 0, 0, LEASE])
        argument = self.now + LEASE if verb == "reschedule" else LEASE
        consumer = "operator"
        self.operations += 1
        step = Step(f"{verb}-{self.operations}", self.rng.randrange(1, 3))
        said = self.run(
            self.queue.move.op(
                step.op,
                step.seq,
                ids,
                source=source,
                target=target,
                high_water_ms=high_water,
                consumer=consumer,
                lease_ms=argument,
            )
        )
        seen: set[str] = set()
        for id, word in zip(ids, said, strict=True):
            unit = self.units.get(id)
            if unit is None or id in seen or not self.in_state(unit, source):
                assert word == "changed", (id, word, unit)
            elif unit.line and unit.since > high_water:
                assert word == "late"
            else:
                assert word == "moved", (id, word, unit)
                self.moved(unit, step, source, target, argument)
            seen.add(id)
        if step.rows and target != "gone":
            self.steps.append(step)

    def move_whole(self) -> None:
        """The beginning of a whole state, in the server's order."""
        verb, source, target = self.rng.choice(WHOLE)
        n, high_water = self.rng.choice([1, 3, 100]), self.now - self.rng.choice([0, 0, LEASE])
        self.operations += 1
        step = Step(f"{verb}-{self.operations}", 1)
        met = sorted((u for u in self.of(source) if u.at <= high_water), key=place)[:n]
        meant = [unit for unit in met if unit.since <= high_water]  # else put back by an undo
        front = self.run(
            self.queue.move_range.op(
                step.op, step.seq, n, source=source, target=target, high_water_ms=high_water
            )
        )
        for unit in meant:
            self.moved(unit, step, source, target, LEASE)
        left = (len(met) - len(meant),)
        assert (front.moved, front.left, front.over) == (len(meant), left, not met)
        if step.rows and target != "gone":
            self.steps.append(step)

    def edit(self) -> None:
        """Other payloads: for some that are so already, some that were read wrong or elsewhere."""
        source = self.rng.choice(self.queue.editable_states)
        right, known = self.of(source), list(self.units.values())
        units = self.rng.sample(right, k=min(4, len(right)))
        units += self.rng.sample(known, k=min(1, len(known)))
        rows = [("nobody/1", b"", b"x")]
        for unit in units:
            was = unit.payload if self.rng.random() < 0.8 else self.content()
            rows.append((unit.id, was, was if self.rng.random() < 0.2 else self.content()))
        high_water = self.now - self.rng.choice([0, 0, 0, LEASE])
        self.operations += 1
        step = Step(f"{EDIT}-{self.operations}", self.rng.randrange(1, 3))
        said = self.run(
            self.queue.edit.op(step.op, step.seq, rows, source=source, high_water_ms=high_water)
        )
        expected = [self.edited(step, source, high_water, *row) for row in rows]
        assert said == expected, rows
        if step.rows:
            self.steps.append(step)

    def edited(
        self, step: Step, source: str, high_water: int, id: str, was: bytes, to: bytes
    ) -> str:
        unit = self.units.get(id)
        if unit is None or not self.in_state(unit, source) or unit.payload != was:
            return "changed"
        if any(row.id == id for row, _ in step.rows):  # a row before had it
            return "changed"
        if unit.line is None:
            unit.since = unit.ready = 0  # nothing was known of it
        if unit.since > high_water:
            return "late"
        step.rows.append((replace(unit), source))
        unit.op, unit.payload = step.op, to
        assert run(self.client, self.queue.get.op(id)).payload == to
        return "moved"

    def misspelt(self, ids: Sequence[str]) -> list[str]:
        """Names no entry has, some of them close to one."""
        return ["nobody", "nobody/1", *(f"{id}9999" for id in ids[:1])]

    def moved(self, unit: Unit, step: Step, source: str, target: str, argument: int) -> None:
        before = replace(unit, state=source)
        unit.op = step.op
        at, to = self.now, target
        if source == "delayed" and target == "trash":
            unit.ready = unit.at
        elif target == "restore":
            to = "dead" if unit.reason != "-" else "waiting"
            if to == "waiting" and unit.ready > self.now:
                to, at = "delayed", unit.ready
        elif target == "waiting" and source == "dead":
            unit.failures, unit.lost, unit.first = 0, 0, 1
            unit.consumer = unit.reason = "-"
        elif target == "pending":
            unit.consumer = "operator"
            unit.receipt = self.records()[unit.id].split()[0]
            assert unit.receipt not in self.receipts
            self.receipts.add(unit.receipt)
            self.held.append(
                Delivery(
                    "q",
                    unit.id,
                    unit.payload,
                    unit.receipt,
                    0,
                    unit.failures,
                    unit.lost,
                    "operator",
                )
            )
            at += argument
        elif target == "delayed":
            at = argument
        if to in ("waiting", "delayed"):
            unit.ready = 0
        self.shift(unit, to, at)
        step.rows.append((before, to))

    def undo(self) -> None:
        if not self.steps:
            return
        step = self.steps.pop(self.rng.randrange(len(self.steps)))
        self.operations += 1
        verb: Any = step.op.partition("-")[0]
        target = EDIT if verb == EDIT else VERBS[verb][1]
        lasted = self.lasts(step)
        self.behind(step, undoing=1)
        said = self.run(
            self.queue.undo.op(
                step.op, step.seq, target=target, by=f"undo-{self.operations}", seq=1
            )
        )
        assert lasted, "the undo list must last as long as the trash"
        back = 0
        for before, to in step.rows:
            unit = self.units.get(before.id)
            if unit is None or unit.op != step.op or not self.still(unit, to, target):
                continue
            back += 1
            if target == EDIT:
                unit.payload, unit.op = before.payload, before.op
                continue
            self.put_back(unit, before)
        self.undone(said, back, len(step.rows) - back)
        self.behind(step)

    def behind(self, step: Step, **noted: int) -> None:
        """A step that was on its way when its operation began to be taken back moves nothing."""
        if "dead" not in self.queue.range_states:
            return
        if noted:
            run(self.client, note(self.queue, step.op, **noted))
        late = self.queue.move_range.op(
            step.op, step.seq + 100, 9, source="dead", target="waiting", high_water_ms=self.now
        )
        with pytest.raises(Superseded):
            run(self.client, late)

    def put_back(self, unit: Unit, before: Unit) -> None:
        for name in ("failures", "lost", "first", "consumer", "op", "reason", "ready"):
            setattr(unit, name, getattr(before, name))
        receipt = before.receipt
        self.shift(unit, before.state, before.at)
        unit.receipt = receipt
        if before.state not in ("dead", "trash"):
            unit.since = before.since

    def lasts(self, step: Step) -> bool:
        """Whether the server still has what it takes to undo a step."""
        return bool(self.client.exists(f"{self.queue.keys['undo_']}{step.op}:{step.seq}"))

    def undone(self, said: tuple[int, int], back: int, touched: int) -> None:
        assert said == (back, touched)

    def still(self, unit: Unit, state: str, target: str) -> bool:
        """Whether it is where the operation left it; becoming due is nobody's touch."""
        due = target == "restore" and state == "delayed" and self.in_state(unit, "waiting")
        return due or self.in_state(unit, state)

    def pause_or_resume(self) -> None:
        self.set("paused", "" if self.conf.get("paused") else "for lunch")

    def reopen_doors(self) -> None:
        """A queue that is paused or draining for long has nothing to tell."""
        flags = ["paused", "closed", *(() if "set_rate" in self.often else ("rate",))]
        for flag in flags:
            if self.conf.get(flag):
                self.set(flag, "")

    def configure(self) -> None:
        choices: list[tuple[str, list[Any]]] = [
            ("closed", ["", "draining"]),
            ("history", ["off", "ops", "all"]),
            ("max_failures", [2, 3, ""]),
            ("max_lost", [1, 3, ""]),
            ("aging", [0, 2]),
        ]
        name, values = self.rng.choice(choices)
        self.set(name, self.rng.choice(values))

    def set_rate(self) -> None:
        self.set("rate", self.rng.choice([*RATES, ""]))

    def set(self, name: str, value: Any) -> None:
        self.operations += 1
        before = self.run(self.queue.configure.op(f"set-{self.operations}", 1, {name: str(value)}))
        assert before == {name: str(self.conf.get(name, ""))}
        self.conf[name] = value

    def setting(self, name: str) -> int:
        value = self.conf.get(name, "")
        return int(value if value != "" else getattr(DEFAULTS, name))

    def flush_scripts(self) -> None:
        self.client.script_flush()

    # --- the book ------------------------------------------------------------------------------

    @property
    def now(self) -> int:
        return self.clock.now_ms

    def of(self, state: str) -> list[Unit]:
        return [unit for unit in self.units.values() if self.in_state(unit, state)]

    def in_state(self, unit: Unit, state: str) -> bool:
        return unit.state == state

    def shift(self, unit: Unit, to: str, at: int) -> None:
        unit.state, unit.at, unit.since = to, at, self.now
        if to != "pending":
            unit.receipt = "-"
        if to in ("done", "gone"):
            unit.error = None

    def reap(self, most: int = 16) -> None:
        late = [u for u in self.of("pending") if u.at <= self.now]
        for unit in sorted(late, key=place)[:most]:
            unit.lost += 1
            unit.op = "-"
            if unit.lost >= self.setting("max_lost"):
                unit.reason = "lost"
                self.shift(unit, "dead", self.now)
            else:
                self.shift(unit, "waiting", unit.ready or self.now)

    def bring_back(self) -> None:
        """What every take does first."""
        self.reap()

    def content(self) -> bytes:
        """Bytes no text codec takes; empty ones and large ones among them."""
        roll = self.rng.random()
        if roll < 0.1:
            return b""
        if roll < 0.12:
            return self.rng.randbytes(10_000)
        return self.rng.randbytes(self.rng.randrange(1, 30)) + b"\x00\xff\r\n \xc3|"

    # --- the checks ----------------------------------------------------------------------------

    def picture(self) -> Picture:
        return picture(self.client)

    def key(self, part: str) -> str:
        name: str = self.queue.keys[part]
        return name

    def records(self) -> dict[str, str]:
        found = self.client.hgetall(self.key("meta"))
        return {id.decode(): line.decode() for id, line in found.items()}

    def check(self) -> None:
        """The server holds exactly what the book says, and its own rules are kept."""
        pipe = self.client.pipeline(transaction=False)
        for part in SETS.values():
            pipe.zrange(self.key(part), 0, -1, withscores=True)
        pipe.hgetall(self.key("meta"))
        pipe.hgetall(self.key("err"))
        pipe.hget(self.key("stat"), "done")
        *zsets, meta, err, done = pipe.execute()
        for (state, part), rows in zip(SETS.items(), zsets, strict=True):
            have = {row[0].decode(): int(row[1]) for row in rows}
            assert have == {u.id: u.at for u in self.placed(state)}, f"{state}, in {part}"
        lines = {u.id: u.line for u in self.units.values() if u.line}
        assert {k.decode(): v.decode() for k, v in meta.items()} == lines
        errors = {u.id: u.error for u in self.units.values() if u.error is not None}
        assert {k.decode(): v for k, v in err.items()} == errors
        assert int(done or 0) == self.done
        self.check_room()
        assert run(self.client, self.queue.invariants.op()) == []

    def placed(self, state: str) -> list[Unit]:
        return self.of(state)

    @abstractmethod
    def check_room(self) -> None: ...

    # --- the end -------------------------------------------------------------------------------

    def come_to_rest(self) -> None:
        """Work everything off, as workers would on a good day; then every entry has its end."""
        for name in ("paused", "closed", "aging", "rate"):
            self.set(name, "")
        self.open_up()
        for _ in range(1000):
            self.clock.now_ms += LEASE
            self.bring_back()
            taken = run(self.client, self.queue.take.op(100, consumer="last"))
            for delivery in taken.deliveries:
                self.may_be_delivered(self.units[delivery.id])
                unit = self.units[delivery.id]
                assert delivery.payload == unit.payload
                if self.ready_kept:
                    unit.ready = unit.at
                unit.state, unit.receipt = "pending", delivery.receipt
                unit.given(self.now)
            ack = [Settlement(delivery, "ack") for delivery in taken.deliveries]
            assert run(self.client, self.queue.settle.op(ack)) == [self.ended(s) for s in ack]
            if not taken.deliveries and not self.busy():
                break
        else:
            raise AssertionError(f"it never came to rest: {self.busy()}")
        self.check()
        for unit in self.units.values():
            assert unit.state in ("done", "dead", "trash", "gone") or self.is_cancelled(unit)
            assert unit.executions or unit.state != "done"

    def open_up(self) -> None:  # noqa: B027
        """Take away what keeps entries from being worked on."""

    def busy(self) -> list[Unit]:
        return [
            u
            for u in self.units.values()
            if u.state in ("waiting", "pending", "delayed") and not self.is_cancelled(u)
        ]

    def is_cancelled(self, unit: Unit) -> bool:
        return False

    def retire(self) -> None:
        """Purge what rests, let time pass, sweep: only what is meant to stay may be left."""
        for state in ("dead", "trash"):
            ids = [unit.id for unit in self.of(state)]
            for n, chunk in enumerate(ids[i : i + 100] for i in range(0, len(ids), 100)):
                said = run(
                    self.client,
                    self.queue.move.op(
                        f"last-{state}",
                        n + 1,
                        chunk,
                        source=state,
                        target="gone",
                        high_water_ms=self.now,
                    ),
                )
                assert set(said) == {"moved"}
                for id in chunk:
                    self.shift(self.units[id], "gone", 0)
        self.check()
        for _ in range(30):
            self.clock.now_ms += HOUR
            run(self.client, self.queue.take.op(500, consumer="last"))
            while self.swept(100):
                pass
        self.check()
        self.check_rest()

    def check_rest(self) -> None:
        """Of an empty queue only a few keys are left."""
        resting = {self.key(part) for part in self.rests}
        resting.add(registry_key())
        mortal = tuple(self.key(p) for p in ("rate_", "undo_"))
        for raw in self.client.scan_iter(count=1000):
            key = raw.decode()
            if key.startswith(mortal):
                assert self.client.ttl(key) > 0, f"{key} would stay for ever"
            elif not key.startswith(self.key("op_")):
                assert key in resting, f"{key} is left over"
                assert self.client.ttl(key) == -1, f"{key} would vanish"


def place(unit: Unit) -> tuple[int, str]:
    """The order of a sorted set."""
    return unit.at, unit.id

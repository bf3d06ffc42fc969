"""The layouts of Resque and Sidekiq: a book of where each job is, beside the real server.

The frame of `model.py` is for queues of our own. Here the owner's lists and sets are the state,
other programs push and take at any moment, and a job's bytes change only when it fails. Each job
carries a number; whenever it looks, the server's keys must have each number exactly where the book
has it: the list in order, sets with their scores, its own members untouched (conservation,
content). Fencing and re-sending are checked as everywhere.
"""

from __future__ import annotations

import hashlib
import json
import random
import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import redis

from redisq_ops.core.foreign.resque import ResqueQueue
from redisq_ops.core.foreign.ruby_jobs import Job
from redisq_ops.core.foreign.ruby_jobs.invariants import FIRST
from redisq_ops.core.foreign.ruby_jobs.job import fields
from redisq_ops.core.foreign.sidekiq import SidekiqQueue
from redisq_ops.core.model.clock import FakeClock
from redisq_ops.core.model.entry import Delivery, Failure, Settlement, State
from redisq_ops.core.model.states import VERBS, Verb
from redisq_ops.core.redis.operation import Description, run

from .seeds import watching
from .wire import run_twice

LEASE = 30_000
TRASH = 3 * LEASE
TWICE = 0.15
"""how often a call is sent twice: each round trip of it then costs a look at all there is"""
TIMES = ("retry", "schedule", "dead")
BOOM = Failure("Boom", "it broke", "line 1").encoded()
STATE: dict[str, State] = {
    "line": "waiting",
    "held": "pending",
    "retry": "delayed",
    "schedule": "delayed",
    "dead": "dead",
    "trash": "trash",
}


@dataclass
class Unit:
    """One job. ``at``: deadline, score or since, ms; ``version`` grows when its bytes change."""

    number: int
    id: str
    own: bytes
    """bytes that are in its record whatever happens"""
    place: str = "line"
    at: int = 0
    ticket: str = ""
    op: str = "-"
    since: int = 0
    """when it was handed out"""
    lost: int = 0
    lost_at: int = 0
    """when the latest loss was; who was handed out before that is no further one"""
    failures: int = 0
    retries: int = 25
    version: int = 0
    origin: tuple[str, int] = ("", 0)
    """where it was before it went to the trash"""


@dataclass
class Step:
    op: str
    target: str
    rows: list[tuple[Unit, str, int]] = field(default_factory=list)
    """what each was, the place where it is now, its version then"""
    times: dict[int, int] = field(default_factory=dict)
    """by number: the time the step gave it, where it gave one"""
    line: list[int] = field(default_factory=list)
    """the owner's list before it"""


class JobModel(ABC):
    most: ClassVar[int] = 60

    def __init__(self, client: redis.Redis, seed: int) -> None:
        self.client: Any = client
        self.rng = random.Random(seed)
        self.looks = watching(seed)
        self.clock = FakeClock()
        self.queue: Any = self.make()
        self.line: list[int] = []
        self.units: dict[int, Unit] = {}
        self.mine: list[Delivery] = []
        self.zombies: list[Delivery] = []
        self.receipts: set[str] = set()
        self.steps: list[Step] = []
        self.operations = 0
        self.max_lost = self.rng.choice([1, 2, 3])
        self.log: list[str] = []
        run(client, self.queue._ensure_registered())
        settings = {"max_lost": str(self.max_lost), "trash_ms": str(TRASH)}
        self.run(self.queue.configure.op("set", 1, settings))

    @abstractmethod
    def make(self) -> Any: ...

    def play(self, steps: int) -> None:
        rules: list[tuple[int, Callable[[], None]]] = [
            (8, self.push),
            (6, self.foreign_push),
            (3, self.foreign_take),
            (12, self.take),
            (12, self.settle),
            (3, self.settle_late),
            (3, self.extend),
            (5, self.pass_time),
            (2, self.sweep),
            (14, self.move),
            (6, self.undo),
            (1, self.client.script_flush),
        ]
        chosen = [rule for weight, rule in rules for _ in range(weight)]
        for _ in range(steps):
            rule = self.rng.choice(chosen)
            self.log.append(rule.__name__)
            rule()
            if self.looks():
                self.check()
        self.come_to_rest()

    def run(self, description: Description[Any]) -> Any:
        if self.rng.random() < TWICE:
            lost = self.rng.random() < 0.2
            between = self.client.script_flush if lost else lambda: None
            return run_twice(self.client, description, between)
        return run(self.client, description)

    @property
    def now(self) -> int:
        return self.clock.now_ms

    def of(self, *places: str) -> list[Unit]:
        return [unit for unit in self.units.values() if unit.place in places]

    def busy(self) -> list[Unit]:
        return self.of("line", "held", "retry", "schedule")

    # --- producers and other programs ----------------------------------------------------------

    timed: ClassVar[bool]
    """whether jobs may wait for a time"""

    def push(self) -> None:
        if len(self.busy()) > self.most:
            return
        after = self.rng.choice([None, None, 0, 1, LEASE]) if self.timed else None
        jobs, fresh = [], []
        for _ in range(self.rng.choice([1, 1, 3, 10])):
            number = len(self.units)
            args = [number, self.rng.choice([1.0, "é\x00", None])]
            own = json.dumps(args, ensure_ascii=False, separators=(",", ":")).encode()
            unit = Unit(number, "", own, retries=self.rng.choice([0, 1, 25]))
            self.units[number] = unit
            jobs.append(self.job(unit, args))
            fresh.append(unit)
        given = {"after": after / 1000} if self.timed and after is not None else {}
        said = self.run(self.queue.push.op(jobs, **given))
        for unit, id in zip(fresh, said, strict=True):
            unit.id = id
            if after is None:
                self.line.append(unit.number)
            else:
                unit.place, unit.at = "schedule", self.now + after

    @abstractmethod
    def job(self, unit: Unit, args: list[Any]) -> Job: ...

    def foreign_push(self) -> None:
        """What other producers put in, and what is no record at all."""
        if len(self.busy()) > self.most:
            return
        number = len(self.units)
        if self.rng.random() < 0.2:
            own = text = b"no json, number %d \xff" % number
        else:
            own = b'"args" : [%d,1e3,"\\u00e9"]' % number
            text = self.foreign(number, own)
        self.to_back(text)
        self.units[number] = Unit(number, self.queue.id_of(text), own)
        self.line.append(number)

    @abstractmethod
    def foreign(self, number: int, own: bytes) -> bytes: ...

    @abstractmethod
    def to_back(self, text: bytes) -> None: ...

    @abstractmethod
    def from_front(self) -> bytes | None: ...

    def foreign_take(self) -> None:
        """The owner's worker takes one, and does it."""
        taken = self.from_front()
        assert (taken is None) == (not self.line)
        if taken is not None:
            assert number_of(taken) == self.line[0]
            self.units[self.line.pop(0)].place = "done"

    # --- our workers ---------------------------------------------------------------------------

    def reap(self, most: int = 16) -> None:
        late = [unit for unit in self.of("held") if unit.at <= self.now]
        late.sort(key=lambda unit: (unit.at, unit.ticket))
        for unit in reversed(late[:most]):
            unit.lost += unit.since >= unit.lost_at
            unit.lost_at, unit.op = self.now, "-"
            if unit.lost >= self.max_lost:
                unit.lost = unit.lost_at = 0
                unit.version += 1
                unit.place, unit.at = "dead", self.now
            else:
                unit.place = "line"
                self.line.insert(0, unit.number)

    def promote(self, most: int) -> None:
        """What is due; of equal times by the bytes, as the server has them."""
        left = most
        for key in ("retry", "schedule") if self.timed else ():
            order = [number_of(member) for member in self.client.zrange(key, 0, -1)]
            due = [n for n in order if self.units[n].at <= self.now][:left]
            left -= len(due)
            for number in due:
                self.units[number].place = "line"
                self.line.append(number)

    def take(self) -> None:
        n, consumer = self.rng.choice([1, 2, 5, 20]), f"w{self.rng.randrange(3)}"
        self.reap()
        self.promote(50)
        taken = self.run(self.queue.take.op(n, consumer=consumer, lease=LEASE / 1000))
        expected, self.line = self.line[:n], self.line[n:]
        assert [number_of(d.payload) for d in taken.deliveries] == expected, "in their order"
        assert taken.more == bool(len(expected) == n and self.line)
        for delivery, number in zip(taken.deliveries, expected, strict=True):
            unit = self.units[number]
            assert delivery.receipt not in self.receipts
            assert (delivery.id, delivery.lost, delivery.failures) == (
                unit.id,
                unit.lost,
                unit.failures,
            )
            assert delivery.deadline_ms == self.now + LEASE
            self.receipts.add(delivery.receipt)
            unit.place, unit.at, unit.ticket = "held", delivery.deadline_ms, delivery.receipt
            unit.op, unit.since = "-", self.now
        crash = self.rng.random() < 0.25
        (self.zombies if crash else self.mine).extend(taken.deliveries)

    def settle(self) -> None:
        count = min(len(self.mine), self.rng.choice([1, 1, 2, 6]))
        batch = [self.mine.pop(self.rng.randrange(len(self.mine))) for _ in range(count)]
        self.zombies += batch
        if self.zombies and self.rng.random() < 0.3:
            batch += self.rng.choices(self.zombies, k=2)
            self.rng.shuffle(batch)
        if batch:
            self.end(batch)

    def settle_late(self) -> None:
        if self.zombies:
            self.end(self.rng.choices(self.zombies, k=self.rng.choice([1, 3])))

    def holder(self, delivery: Delivery) -> Unit | None:
        unit = self.units[number_of(delivery.payload)]
        return unit if unit.place == "held" and unit.ticket == delivery.receipt else None

    def end(self, batch: Sequence[Delivery]) -> None:
        outcomes: list[Any] = ["ack", "result", "fail", "fail", "reject", "release"]
        settlements = [Settlement(d, self.rng.choice(outcomes), BOOM) for d in batch]
        said = self.run(self.queue.settle.op(settlements))
        back = []
        for s, word in zip(settlements, said, strict=True):
            unit = self.holder(s.delivery)
            if unit is None:
                assert word == "stale"
                continue
            if s.outcome == "release":
                assert word == "released"
                unit.place = "line"
                back.append(unit.number)
                continue
            unit.lost = unit.lost_at = 0
            digest = hashlib.sha1(s.delivery.payload).hexdigest()
            assert not self.client.hexists(self.queue.keys["lost"], digest), "counted no more"
            if s.outcome in ("ack", "result"):
                assert word == "done"
                unit.place = "done"
                continue
            unit.version += 1
            again = s.outcome == "fail" and self.may_retry(unit)
            assert word == ("retry" if again else "dead")
            unit.place, unit.at = ("retry", self.retried(unit)) if again else ("dead", self.now)
            unit.failures += self.timed and b"no json" not in unit.own
        self.line[:0] = back

    def may_retry(self, unit: Unit) -> bool:
        return False

    def retried(self, unit: Unit) -> int:
        raise AssertionError("nothing is tried again here")

    def extend(self) -> None:
        known = self.mine + self.zombies
        if not known:
            return
        batch = self.rng.choices(known, k=3)
        said = self.run(self.queue.extend.op(batch, 2 * LEASE / 1000))
        for delivery, ok in zip(batch, said, strict=True):
            unit = self.holder(delivery)
            assert ok == (unit is not None)
            if unit is not None:
                unit.at = self.now + 2 * LEASE

    def pass_time(self) -> None:
        self.clock.now_ms += self.rng.choice([1, 1000, LEASE // 3, LEASE, LEASE * 3 // 2])

    def sweep(self) -> None:
        self.reap(100)
        self.promote(100)
        run(self.client, self.queue.sweep.op(100))
        self.empty_trash()

    def empty_trash(self) -> None:
        for unit in self.of("trash"):
            if unit.at <= self.now - TRASH:
                unit.place = "gone"

    # --- operators -----------------------------------------------------------------------------

    def move(self) -> None:
        verb: Verb = self.rng.choice(list(self.queue.actions))
        source, target = self.rng.choice(self.queue.actions[verb]), VERBS[verb][1]
        there = [u for u in self.units.values() if STATE.get(u.place) == source]
        picked = self.rng.sample(there, k=min(len(there), self.rng.choice([1, 3, 8])))
        picked += self.rng.sample(list(self.units.values()), k=min(len(self.units), 2))
        page = run(self.client, self.queue.page.op(source, max=500)).entries
        named = {number_of(entry.payload): entry.id for entry in page}
        ids = [named.get(unit.number, unit.id) for unit in picked] + ["nobody"]
        self.operations += 1
        step = Step(f"{verb}-{self.operations}", target, line=[*self.line])
        given = self.now + LEASE if target == "delayed" else LEASE
        said = self.run(
            self.queue.move.op(
                step.op,
                1,
                ids,
                source=source,
                target=target,
                high_water_ms=self.now,
                consumer="operator",
                lease_ms=given,
            )
        )
        front: list[int] = []
        for unit, word in zip([*picked, None], said, strict=True):
            if unit is None or STATE.get(unit.place) != source:
                assert word == "changed", (word, unit)
            elif any(row[0].number == unit.number for row in step.rows):
                assert word == "changed", "twice in a step"
            else:
                assert word == "moved", (word, unit)
                before = replace(unit)
                self.moved(unit, step.op, target, front)
                step.rows.append((before, unit.place, unit.version))
                if target in ("delayed", "restore") and unit.place in TIMES:
                    step.times[unit.number] = unit.at
        self.line[:0] = front
        if target == "restore":
            self.follow({before.number for before, *_ in step.rows})
        self.empty_trash()
        if step.rows and target != "gone":
            self.steps.append(step)

    def moved(self, unit: Unit, op: str, target: str, front: list[int]) -> None:
        place, at = unit.place, unit.at
        if place == "line":
            self.line.remove(unit.number)
        match target:
            case "waiting":
                unit.place = "line"
                if self.stamped(unit, place):
                    unit.lost = unit.lost_at = 0
                    unit.version = 1000 * self.operations  # as no other move has it
                (front if place == "held" else self.line).append(unit.number)
            case "trash":
                unit.place, unit.at, unit.op, unit.origin = "trash", self.now, op, (place, at)
            case "pending":
                tickets = {t.decode() for t in self.client.hkeys(self.queue.keys["body"])}
                entry = self.queue.get(unit.id)
                assert entry is not None, "it is pending"
                assert entry.receipt in tickets - self.receipts and entry.consumer == "operator"
                unit.ticket, unit.at, unit.op = entry.receipt, self.now + LEASE, op
                unit.since = self.now
                self.receipts.add(unit.ticket)
            case "delayed":
                unit.at = self.now + LEASE
            case "restore":
                self.put(unit, *unit.origin)
            case "gone":
                unit.place = "gone"

    def put(self, unit: Unit, place: str, at: int) -> None:
        if place in ("line", "held"):
            unit.place = "line"
            self.line.append(unit.number)
        else:
            unit.place, unit.at = place, at

    def undo(self) -> None:
        if not self.steps:
            return
        step = self.steps.pop(self.rng.randrange(len(self.steps)))
        self.operations += 1
        back, touched = self.run(
            self.queue.undo.op(step.op, 1, target=step.target, by=f"undo-{self.operations}", seq=1)
        )
        rows = []
        for before, place, version in step.rows:
            unit = self.units[before.number]
            # Resque's failures keep the job's record as it is: back in the line it is as before.
            whole = not self.timed or b"no json" in unit.own
            alike = unit.version == version or (place == "line" and whole)
            same = unit.place == place and alike
            # Another change has given it another time since.
            same = same and step.times.get(unit.number, unit.at) == unit.at
            if same and (place in ("line", "dead", "retry", "schedule") or unit.op == step.op):
                rows.append((unit, before))
        assert (back, touched) == (len(rows), len(step.rows) - len(rows)), step
        for unit, _ in rows:
            if unit.place == "line":
                self.line.remove(unit.number)
        for unit, before in rows:
            lost, lost_at = unit.lost, unit.lost_at
            for name in vars(before):
                setattr(unit, name, getattr(before, name))
            if not self.stamped(unit, before.place):
                unit.lost, unit.lost_at = lost, lost_at
            if before.place == "line":
                self.line.append(unit.number)
        self.follow({unit.number for unit, _ in rows}, step.line)

    def stamped(self, unit: Unit, place: str) -> bool:
        """Whether a move from there into the line writes the time into the record: leases of other
        bytes are counted anew."""
        in_set = place in ("retry", "schedule", "dead")
        return self.timed and in_set and b"no json" not in unit.own

    def follow(self, back: set[int], before: Sequence[int] = ()) -> None:
        """What came back is beside its neighbour, wherever that is by now: the others stay. Where
        nothing else went or came since, all is as ``before``."""
        there = [number_of(element) for element in self.listed()]
        assert sorted(there) == sorted(self.line)
        others = [n for n in self.line if n not in back]
        assert [n for n in there if n not in back] == others
        if [n for n in before if n not in back] == others and len(before) == len(there):
            assert there == [*before]
        self.line = there

    # --- the checks ----------------------------------------------------------------------------

    @abstractmethod
    def listed(self) -> list[bytes]:
        """The owner's list, the next one first."""

    @abstractmethod
    def buried(self) -> dict[int, int | None]:
        """Number → since (ms) of the dead."""

    def hash(self, part: str) -> dict[str, bytes]:
        return {k.decode(): v for k, v in self.client.hgetall(self.queue.keys[part]).items()}

    def check(self) -> None:
        everything = self.listed()
        assert [number_of(payload) for payload in everything] == self.line
        assert Counter(self.line) == Counter(unit.number for unit in self.of("line"))
        for key in ("retry", "schedule") if self.timed else ():
            members = self.client.zrange(key, 0, -1, withscores=True)
            assert {number_of(m): round(s * 1000) for m, s in members} == {
                unit.number: unit.at for unit in self.of(key)
            }, key
            assert len(members) == len(self.of(key))
            everything += [member for member, _ in members]
        assert self.buried() == {
            unit.number: unit.at if self.timed else None for unit in self.of("dead")
        }
        held, purged = self.hash("body"), self.hash("purged")
        assert {t: number_of(p) for t, p in held.items()} == {
            unit.ticket: unit.number for unit in self.of("held")
        }
        leases = self.client.zrange(self.queue.keys["lease"], 0, -1, withscores=True)
        assert {t.decode(): int(at) for t, at in leases} == {
            unit.ticket: unit.at for unit in self.of("held")
        }
        assert sorted(map(number_of, purged.values())) == sorted(
            unit.number for unit in self.of("trash")
        )
        for payload in [*everything, *held.values(), *purged.values()]:
            self.content(payload)
        said = run(self.client, self.queue.invariants.op())
        odd = sum(fields(payload) is None for payload in self.listed()[:FIRST])
        flaw = f"{odd} of the first " if odd and self.queue.stops_at else None
        assert [line.startswith(flaw or " ") for line in said] == ([True] if flaw else [])

    def content(self, payload: bytes) -> None:
        own = self.units[number_of(payload)].own
        whole = payload if b"raw_hex" not in payload else own
        assert own in whole, f"its own bytes were changed: {payload!r}"

    def come_to_rest(self) -> None:
        self.mine.clear()
        for _ in range(200):
            self.clock.now_ms += LEASE
            self.reap()
            self.promote(50)
            taken = run(self.client, self.queue.take.op(100, consumer="last", lease=LEASE / 1000))
            ack = [Settlement(delivery, "ack") for delivery in taken.deliveries]
            assert set(run(self.client, self.queue.settle.op(ack))) <= {"done"}
            for delivery in taken.deliveries:
                unit = self.units[number_of(delivery.payload)]
                assert unit.place == "line"
                self.line.remove(unit.number)
                unit.place = "done"
            if not self.busy():
                break
            self.clock.advance(3600)
        else:
            raise AssertionError(f"it never came to rest: {self.busy()}")
        self.check()


def number_of(payload: bytes | None) -> int:
    text = payload or b""
    if raw := re.search(rb'"raw_hex":"([0-9a-f]+)"', text):
        text = bytes.fromhex(raw[1].decode())
    found = re.search(rb'(?:"args" ?: ?\[|number )(\d+)', text)
    assert found, payload
    return int(found[1])


class SidekiqModel(JobModel):
    timed = True

    def make(self) -> Any:
        queue = SidekiqQueue(self.client, "sidekiq:q", clock=self.clock)
        queue.random = self.rng.random
        return queue

    def job(self, unit: Unit, args: list[Any]) -> Job:
        return Job("A", args, f"j{unit.number}", {"retry": unit.retries})

    def foreign(self, number: int, own: bytes) -> bytes:
        return b'{ "class":"B", %b,"jid":"j%d", "queue":"q","retry":true }' % (own, number)

    def to_back(self, text: bytes) -> None:
        self.client.sadd("queues", "q")
        self.client.lpush("queue:q", text)

    def from_front(self) -> bytes | None:
        taken: bytes | None = self.client.rpop("queue:q")
        return taken

    def may_retry(self, unit: Unit) -> bool:
        return unit.failures < unit.retries and b"no json" not in unit.own

    def retried(self, unit: Unit) -> int:
        rows = self.client.zrange("retry", 0, -1, withscores=True)
        ((member, score),) = [row for row in rows if number_of(row[0]) == unit.number]
        record, count = json.loads(member), unit.failures
        ready: int = round(score * 1000)
        assert (record["retry_count"], record["error_class"]) == (count, "Boom")
        assert record["retried_at" if count else "failed_at"] == self.now / 1000
        least = self.now + (count**4 + 15) * 1000
        assert least <= ready <= least + 9000 * (count + 1)
        return ready

    def listed(self) -> list[bytes]:
        found: list[bytes] = self.client.lrange("queue:q", 0, -1)
        return found[::-1]

    def buried(self) -> dict[int, int | None]:
        rows = self.client.zrange("dead", 0, -1, withscores=True)
        for member, _ in rows:
            self.content(member)
        return {number_of(member): round(score * 1000) for member, score in rows}


class ResqueModel(JobModel):
    """Every other seed: Resque's backend with a list of failures for each queue."""

    timed = False

    def __init__(self, client: redis.Redis, seed: int) -> None:
        self.failures = "resque:q_failed" if seed % 2 else "resque:failed"
        if seed % 2:
            client.sadd("resque:failed_queues", "other_failed")
        super().__init__(client, seed)

    def make(self) -> Any:
        return ResqueQueue(self.client, "resque:q", clock=self.clock)

    def job(self, unit: Unit, args: list[Any]) -> Job:
        return Job("A", args)

    def foreign(self, number: int, own: bytes) -> bytes:
        return b'{ "class":"B", %b }' % own

    def to_back(self, text: bytes) -> None:
        self.client.sadd("resque:queues", "q")
        self.client.rpush("resque:queue:q", text)

    def from_front(self) -> bytes | None:
        taken: bytes | None = self.client.lpop("resque:queue:q")
        return taken

    def listed(self) -> list[bytes]:
        found: list[bytes] = self.client.lrange("resque:queue:q", 0, -1)
        return found

    def buried(self) -> dict[int, int | None]:
        rows = self.client.lrange(self.failures, 0, -1)
        for element in rows:
            self.content(element)
        return {number_of(element): None for element in rows}

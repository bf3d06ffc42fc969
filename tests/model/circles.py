"""The circular queue's part of the book: the list by elements, and what pushes make of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

import redis

from redisq_ops.core.model.entry import Settlement, TakeResult
from redisq_ops.core.queues.circular import CircularQueue
from redisq_ops.core.queues.circular.element_names import name_of
from redisq_ops.core.redis.operation import Description

from .model import Model, Unit, place

SHAPES: list[dict[str, Any]] = [
    {},
    {"residence": "rotate"},
    {"repeats": "each", "idle": "sleep"},
    {"residence": "rotate", "idle": "lap"},
    {"residence": "rotate", "completed": "eager", "repeats": "each"},
    {"completed": "eager"},
]
INVALID = (
    b'{"type": "InvalidId", "message": "pushed by another producer as an id, which it can\'t be: '
    b'the payload has its bytes"}'
)
ILLEGAL = [b"user*1", b"a b", b"", b"x/y", b"{q}", b"\x00\xff", b"*1", b"n" * 129, "ü".encode()]


class Watched(CircularQueue[Any]):
    """Tells the book of a take before it happens."""

    book: CircleModel

    async def _take(self, n: int, consumer: str, lease_ms: int) -> TakeResult:
        self.book.foresee(n)
        return await super()._take(n, consumer, lease_ms)


class CircleModel(Model):
    """Every seed has one of the shapes; ``ring`` is the list, what is next first."""

    ready_kept = False

    def __init__(self, client: redis.Redis, seed: int) -> None:
        self.options = SHAPES[seed % len(SHAPES)]
        self.rotates = self.options.get("residence") == "rotate"
        self.eager = self.options.get("completed") == "eager"
        self.each = self.options.get("repeats") == "each"
        self.lap = self.options.get("idle") == "lap"
        self.ring: list[bytes] = []
        self.spent: Counter[str] = Counter()
        self.sentinel: bytes | None = None
        self.laps = 0
        self.expected: list[str] = []
        self.more = False
        self.vain = 0, 0
        super().__init__(client, seed)

    def make(self) -> CircularQueue[Any]:
        queue = Watched(self.client, "q", clock=self.clock, **self.options)
        queue.book = self
        return queue

    def rules(self) -> Iterable[tuple[int, Callable[[], None]]]:
        return [*super().rules(), (8, self.push), (4, self.push_again), (4, self.push_foreign)]

    # --- producers -----------------------------------------------------------------------------

    def push(self) -> None:
        """New ids, some twice in one batch, some that are known."""
        if len(self.busy()) > self.most:
            return
        ids = [f"e{len(self.units) + n}" for n in range(self.rng.choice([1, 1, 3, 20]))]
        ids += self.rng.sample(ids, k=1) if self.rng.random() < 0.3 else []
        ids += self.rng.sample(sorted(self.units), k=min(len(self.units), self.rng.randrange(2)))
        self.put(ids)

    def push_again(self) -> None:
        """Known ids, whatever has become of them; those being worked on above all."""
        picked = self.rng.choices(list(self.units), k=self.rng.choice([1, 3])) if self.units else []
        pending = [unit.id for unit in self.of("pending")]
        picked += self.rng.sample(pending, k=min(2, len(pending)))
        if picked:
            self.put(picked)

    def put(self, ids: list[str]) -> None:
        rows = [(id, b"" if self.each else self.content()) for id in ids]
        call = self.queue.push.op(rows)
        if self.conf.get("closed"):
            return self.refused(call)
        assert self.run(call) == [self.pushed(id, payload) for id, payload in rows]

    def pushed(self, id: str, payload: bytes) -> str:
        unit = self.units.get(id)
        if unit is None or unit.state in ("done", "gone"):
            self.units[id] = Unit(id, payload, "nowhere")
            self.shift(self.units[id], "waiting", 0)
            return "new"
        if unit.state in ("dead", "trash"):
            self.renew(unit, payload)
            return "new"
        if self.each:
            unit.follow = ((unit.follow or (0, b""))[0] + 1, b"")
            return "again"
        if unit.state == "pending":
            unit.follow = (1, payload)
            return "again"
        unit.payload, unit.follow, unit.op = payload, None, "-"
        unit.lost = 0
        return "queued"

    def renew(self, unit: Unit, payload: bytes) -> None:
        """A fresh start for one that was dead, purged, or is to run again."""
        self.freshen(unit)
        unit.payload = payload
        self.shift(unit, "waiting", 0)

    def freshen(self, unit: Unit) -> None:
        if not self.each:
            unit.follow = None
        unit.failures = unit.lost = unit.first = unit.ready = 0
        unit.consumer = unit.op = unit.reason = "-"
        unit.error = None

    def push_foreign(self) -> None:
        """As the article has it: a plain LPUSH, of ids new and known and of what can't be one."""
        if len(self.ring) > 2 * self.most:
            return
        known = list(self.units) or ["e0"]
        choices = [
            f"f{self.rng.randrange(30)}".encode(),
            self.rng.choice(known).encode(),
            self.rng.choice(ILLEGAL),
        ]
        elements = self.rng.choices(choices, weights=[3, 4, 1], k=self.rng.choice([1, 1, 4]))
        self.client.lpush(self.queue.queue_key, *elements)
        self.ring += elements

    # --- the list ------------------------------------------------------------------------------

    def resides(self, state: str) -> bool:
        return state == "waiting" or (self.rotates and state in ("pending", "delayed"))

    def shift(self, unit: Unit, to: str, at: int) -> None:
        before = unit.state
        if to == "waiting":
            self.vain = 0, 0
        if to == "dead" and before == "pending" and unit.follow:
            self.follow(unit)
            return
        if self.resides(to) and not self.resides(before):
            self.enter(unit.id, before == "pending" and unit.first > 0)
        elif self.resides(before) and not self.resides(to):
            self.leave(unit.id)
        super().shift(unit, to, at)
        if to in ("done", "gone"):
            unit.follow = None

    def enter(self, id: str, ahead: bool) -> None:
        if self.spent[id]:
            self.spent[id] -= 1
        elif ahead:
            self.ring.insert(self.front, id.encode())
            self.front += 1
        else:
            self.ring.append(id.encode())

    front = 0
    """how many of those that came back in the present call are ahead of the list already"""

    def run(self, description: Description[Any]) -> Any:
        self.front = 0
        return super().run(description)

    def leave(self, id: str) -> None:
        if not self.eager:
            self.spent[id] += 1
        elif id.encode() in self.ring:
            self.ring.remove(id.encode())

    def follow(self, unit: Unit) -> None:
        """Begin the run that was asked for while this one went on."""
        assert unit.follow is not None
        count, payload = unit.follow
        unit.first = 0
        unit.follow = (count - 1, b"") if self.each and count > 1 else None
        self.renew(unit, unit.payload if self.each else payload)

    def finish(self, unit: Unit, s: Settlement) -> None:
        if unit.follow is None:
            super().finish(unit, s)
        else:
            self.follow(unit)

    # --- taking --------------------------------------------------------------------------------

    def bring_back(self) -> None:
        due = sorted((u for u in self.of("delayed") if u.at <= self.now), key=place)
        for unit in due[:16]:
            self.shift(unit, "waiting", 0)
        super().bring_back()

    def reap(self, most: int = 16) -> None:
        self.front = 0
        super().reap(most)

    def foresee(self, n: int) -> None:
        """Which ids a take will hand out, and what it will do to the list."""
        self.expected, self.more = [], False
        n = self.allowed(n)
        if self.conf.get("paused") or n == 0:
            return
        if self.rotates:
            self.turn(n)
            return
        budget = n + 64
        while self.ring and len(self.expected) < n and budget > 0:
            some = min(n - len(self.expected), budget, len(self.ring))
            popped, self.ring = self.ring[:some], self.ring[some:]
            budget -= some
            for raw in popped:
                self.meet(raw)
        self.more = bool(self.ring)

    def turn(self, n: int) -> None:
        if self.lap and self.ring and self.sentinel is None:
            self.mark_lap()
        if not self.lap and len(self.ring) <= len(self.of("pending")) + len(self.of("delayed")):
            return
        size = len(self.ring)
        block, stay, seen, round_ = min(size, n + 64), [], 0, False
        while seen < block and len(self.expected) < n and not round_:
            raw = self.ring[seen]
            seen += 1
            if raw == self.sentinel:
                round_ = True
            elif self.meet(raw):
                stay.append(raw)
        self.ring = self.ring[seen:] + stay
        if round_:
            self.sentinel = None
            if self.ring:
                self.mark_lap()
        waits = (
            len(self.ring)
            - self.spent.total()
            - sum(unit.state in ("pending", "delayed") for unit in self.units.values())
        )
        self.more = block < size
        if self.expected:
            self.vain = 0, 0
        if len(self.expected) == n:
            self.more = waits > n
        elif not self.expected:
            looked, of = self.vain
            looked = seen + (looked if of == len(self.ring) else 0)
            self.vain = looked, len(self.ring)
            self.more = self.more and looked < len(self.ring)

    def mark_lap(self) -> None:
        self.laps += 1
        self.sentinel = b"*%d" % self.laps
        self.ring.append(self.sentinel)

    def meet(self, raw: bytes) -> bool:
        """Whether an element stays in a list that turns."""
        name = name_of(raw)
        if raw == name.encode() and self.spent[name]:
            self.spent[name] -= 1
            return False
        unit = self.units.get(name)
        state = "nowhere" if unit is None or unit.state in ("done", "gone") else unit.state
        if name in self.expected:
            state = "pending"
        if raw != name.encode():
            self.meet_illegal(unit if state != "nowhere" else None, name, raw, state)
            return False
        if self.rotates and state in ("pending", "delayed"):
            return True
        if state in ("nowhere", "dead", "trash"):
            if unit is None or state == "nowhere":
                unit = self.units[name] = Unit(name, b"")
            else:
                self.freshen(unit)
                unit.state, unit.since = "waiting", 0
            self.expected.append(name)
        elif state == "waiting":
            self.expected.append(name)
        else:
            assert unit is not None
            self.owe(unit, state)
        return True

    def meet_illegal(self, unit: Unit | None, name: str, raw: bytes, state: str) -> None:
        if unit is None:
            self.units[name] = Unit(
                name,
                raw,
                "dead",
                self.now,
                first=self.now,
                since=self.now,
                reason="invalid",
                error=INVALID,
            )
        else:
            self.owe(unit, state)

    def owe(self, unit: Unit, state: str) -> None:
        if self.each:
            unit.follow = ((unit.follow or (0, b""))[0] + 1, b"")
        elif state == "pending" and unit.follow is None:
            unit.follow = (1, unit.payload)

    def may_be_delivered(self, unit: Unit) -> None:
        assert unit.state == "waiting"

    def after_take(self, taken: TakeResult, n: int) -> None:
        assert [d.id for d in taken.deliveries] == self.expected, "not the first in line"
        if self.options.get("idle", "wake") == "wake":
            assert taken.more == (self.more and not self.stopped)

    def busy(self) -> list[Unit]:
        unmet = [Unit("unmet", b"")] if len(self.ring) > self.spent.total() else []
        return super().busy() + (unmet if not self.rotates else [])

    # --- the checks ----------------------------------------------------------------------------

    def check_room(self) -> None:
        assert self.client.lrange(self.queue.queue_key, 0, -1) == self.ring[::-1]
        live = [u for u in self.units.values() if u.state not in ("done", "gone")]
        held = {part: self.client.hgetall(self.key(part)) for part in ("body", "again", "spent")}
        assert {k.decode(): v for k, v in held["body"].items()} == {u.id: u.payload for u in live}
        assert {k.decode(): v for k, v in held["again"].items()} == {
            u.id: b"%d" % u.follow[0] if self.each else u.follow[1] for u in live if u.follow
        }
        assert {k.decode(): int(v) for k, v in held["spent"].items()} == dict(+self.spent)
        if not self.rotates:
            return
        counts = self.queue.counts()
        resident = len(self.of("pending")) + len(self.of("delayed")) + (self.sentinel is not None)
        assert counts.waiting == len(self.ring) - self.spent.total() - resident

"""The fair queue's part of the book: turns, lists with holes, rules of clients."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from redisq_ops.core.model.entry import Settlement
from redisq_ops.core.queues.fair import FairQueue
from redisq_ops.core.redis.operation import run

from .model import Model, Step, Unit, place
from .results import KeepingModel

TURN = 27_720
NAMES = ("ann", "bob", "c_", "c:ring", "zoë".encode().hex(), "0")


@dataclass
class Share:
    """One client as the book has it."""

    name: str
    listed: list[str] = field(default_factory=list)
    holes: dict[str, int] = field(default_factory=dict)
    """ids in the list that don't wait: 1 when their entry has ended"""
    pending: int = 0
    head: int = 0
    packed: int = 0
    turn: int = 0
    weight: int = 1
    cap: int = 0
    blocked: int = 0
    rate: int = 0
    earned: int = 0
    rest: int = 0

    def left(self, now: int) -> int:
        """How many entries its rate allows; sets when it will have earned those it had."""
        if not self.rate:
            return 1_000_000
        each, most = 3_600_000_000 // self.rate, max(1, self.rate // 36_000)
        self.earned = max(self.earned, now * 1000)
        if self.earned > now * 1000 + (most + 1) * each:
            self.earned = now * 1000 + most * each
        return most - -(-(self.earned - now * 1000) // each)

    def pause(self, now: int) -> None:
        """Rest until the rate allows another entry, if it doesn't now."""
        self.rest = 0
        if not self.rate:
            self.earned = 0
        elif self.left(now) < 1:
            each, most = 3_600_000_000 // self.rate, max(1, self.rate // 36_000)
            self.rest = -(-(self.earned - (most - 1) * each) // 1000)

    @property
    def waiting(self) -> int:
        return len(self.listed) - len(self.holes)

    @property
    def live(self) -> list[str]:
        return [id for id in self.listed if id not in self.holes]

    @property
    def servable(self) -> bool:
        held = self.blocked or self.rest or 0 < self.cap <= self.pending
        return bool(self.waiting and not held)

    @property
    def line(self) -> str:
        usual = (self.waiting, self.pending, self.head, self.turn)
        holes = (len(self.holes), sum(self.holes.values()), self.packed)
        rest = (*holes, self.weight, self.cap, self.blocked)
        rated = (self.rate, self.earned, self.rest) if self.rate else ()
        plain = rest == (0, 0, 0, 1, 0, 0) and not rated
        return " ".join(map(str, usual if plain else usual + rest + rated))

    def join(self, ids: list[str], front: bool) -> None:
        fresh = [id for id in ids if self.holes.pop(id, None) is None]
        if front:
            self.listed[:0] = fresh
            self.head -= len(fresh)
            self.packed += len(fresh) if self.packed else 0
        else:
            self.listed += fresh

    def pop(self) -> str:
        """The next one whose turn it is; holes on the way are gone."""
        while True:
            id = self.listed.pop(0)
            self.head += 1
            self.packed -= self.packed > 0
            if self.holes.pop(id, None) is None:
                return id


class Producing(Model):
    """Clients that send: new entries, and what is known already."""

    ready_kept = False
    most = 40
    whose: dict[str, str]

    @abstractmethod
    def put(self, client: str, entries: list[tuple[str, bytes]]) -> None: ...

    def submit(self) -> None:
        """New entries, some twice in one batch, some under a name that is taken."""
        if len(self.busy()) > self.most:
            return
        ids = [f"e{len(self.units) + n}" for n in range(self.rng.choice([1, 1, 3, 20]))]
        ids += self.rng.sample(ids, k=1) if self.rng.random() < 0.3 else []
        ids += self.rng.sample(sorted(self.units), k=min(len(self.units), self.rng.randrange(2)))
        self.put(self.rng.choice(NAMES), [(id, self.content()) for id in ids])

    def submit_again(self) -> None:
        """Known entries: the same again, other content, another client; also what has ended."""
        known = list(self.units.values())
        if not known:
            return
        picked = self.rng.choices(known, k=self.rng.choice([1, 3]))
        client = self.whose[picked[0].id]
        if self.rng.random() < 0.3:
            client = self.rng.choice(NAMES)
        keep = self.rng.random() < 0.6
        self.put(client, [(u.id, u.payload if keep else self.content()) for u in picked])

    def book(self, client: str, entries: list[tuple[str, bytes]], said: Any) -> list[str]:
        """Check what was said to a submission, and write it down; the ids that are new."""
        words, fresh = [], []
        for id, payload in entries:
            unit = self.units.get(id)
            if unit is None or unit.state in ("done", "gone"):
                self.units[id] = Unit(id, payload)
                self.units[id].executions = unit.executions if unit else 0
                self.whose[id] = client
                fresh.append(id)
                words.append("ok")
            else:
                same = unit.payload == payload and self.whose[id] == client
                word = "trash" if unit.state == "trash" else "same"
                words.append(word if same else "exists")
        assert [(s.id, s.word) for s in said] == [
            (id, word) for (id, _), word in zip(entries, words, strict=True)
        ]
        return fresh


class FairModel(KeepingModel, Producing):
    def make(self) -> FairQueue[Any]:
        self.shares: dict[str, Share] = {}
        self.whose: dict[str, str] = {}
        self.packing: dict[str, int] = {}
        self.virtual = self.latest = 0
        self.depth = 0
        self.moves: list[tuple[str, str, str, bool]] = []
        self.served: list[Share] = []
        self.failing = False
        return FairQueue(self.client, "q", clock=self.clock)

    def rules(self) -> Iterable[tuple[int, Callable[[], None]]]:
        return [
            *super().rules(),
            (8, self.submit),
            (3, self.submit_again),
            (5, self.set_client_rule),
            (2, self.delete),
            (3, self.page_through),
        ]

    # --- producers -----------------------------------------------------------------------------

    def put(self, client: str, entries: list[tuple[str, bytes]]) -> None:
        call = self.queue.submit.op(client, entries)
        if self.conf.get("closed"):
            return self.refused(call)
        fresh = self.book(client, entries, self.run(call))
        with self.touching(client) as shares:
            shares[0].join(fresh, front=False)

    # --- operators -----------------------------------------------------------------------------

    def set_client_rule(self) -> None:
        client = self.rng.choice(NAMES)
        rule = self.rng.choice(["weight", "cap", "cap", "rate", "rate", "blocked", "blocked"])
        values = {"weight": [1, 2, 3, 7], "cap": [0, 1, 4], "rate": [0, 300, 72_000]}
        value = self.rng.choice(values.get(rule, [0, 0, 1]))
        self.operations += 1
        said = self.run(self.queue.control.op(f"rule-{self.operations}", 1, rule, client, value))
        with self.touching(client) as shares:
            before = getattr(shares[0], rule)
            setattr(shares[0], rule, value)
            if rule == "rate" and before != value:
                shares[0].pause(self.now)
        assert said == ("same" if before == value else "ok", before)

    def delete(self) -> None:
        """All that a client has waiting, in steps that can be undone."""
        client = self.rng.choice(NAMES)
        most = self.rng.choice([3, 100])
        self.operations += 1
        op = f"purge-{self.operations}"
        gone = self.run(self.queue.delete.op(client, op, most))
        share = self.shares.get(client)
        rows, steps = share.listed[:] if share else [], 0
        for low in range(0, len(rows), most):
            ids = [id for id in rows[low : low + most] if share and id not in share.holes]
            if ids:
                steps += 1
                step = Step(op, steps)
                with self.batch():
                    for id in ids:
                        self.moved(self.units[id], step, "waiting", "trash", 0)
                self.steps.append(step)
        assert (gone.op, gone.steps) == (op, steps)

    def page_through(self) -> None:
        """All that waits, by pages: clients by name, each in the order of its list."""
        most, seen, cursor = self.rng.choice([4, 100]), [], None
        while True:
            page = run(self.client, self.queue.page.op("waiting", cursor, most, payloads=True))
            seen += [(e.client, e.id, e.payload, e.failures) for e in page.entries]
            assert len(page.entries) <= most
            cursor = page.cursor
            if cursor is None:
                break
        order = [(name, id) for name in sorted(self.shares) for id in self.shares[name].live]
        units = [(name, self.units[id]) for name, id in order]
        assert seen == [(name, u.id, u.payload, u.failures) for name, u in units]
        assert page.total == len(order)
        shown = run(self.client, self.queue.clients.op(0, 100))
        assert [c.client for c in shown.clients] == sorted(self.shares)
        assert shown.total == len(self.shares)

    # --- turns ---------------------------------------------------------------------------------

    def bring_back(self) -> None:
        with self.batch():
            due = [u for u in self.of("delayed") if u.at <= self.now]
            for unit in sorted(due, key=place)[:16]:
                self.shift(unit, "waiting", self.now)
            super().bring_back()
            with self.touching(*self.rising()) as shares:
                for share in shares:
                    share.pause(self.now)

    def rising(self) -> list[str]:
        """Clients whose rest is over: 16 of them at most."""
        over = [share for share in self.shares.values() if 0 < share.rest <= self.now]
        return [share.name for share in sorted(over, key=lambda s: (s.rest, s.name))[:16]]

    def may_be_delivered(self, unit: Unit) -> None:
        """Called for each delivery in turn: exactly this one had to be next."""
        assert unit.state == "waiting"
        assert self.ring(), "it was nobody's turn"
        share = min(self.ring(), key=lambda share: (share.turn, share.name))
        self.virtual = max(self.virtual, share.turn)
        assert share.pop() == unit.id, "it was another one's turn"
        share.turn += TURN // share.weight
        share.pending += 1
        assert share.left(self.now) > 0, "beyond its rate"
        if share.rate:
            share.earned += 3_600_000_000 // share.rate
            share.pause(self.now)
        self.served.append(share)

    def ring(self) -> list[Share]:
        return [share for share in self.shares.values() if share.servable]

    def after_take(self, taken: Any, n: int) -> None:
        got = len(taken.deliveries)
        for delivery in taken.deliveries:
            assert delivery.client == self.whose[delivery.id]
        left = [] if self.conf.get("paused") else self.ring()
        assert got == n or not left, "there was more to take"
        assert taken.more == bool(got == n and left and not self.stopped)
        self.end_of_take()

    def end_of_take(self) -> None:
        self.latest = max(self.latest, *(share.turn for share in self.served), 0)
        if self.served and not self.ring():
            self.virtual = self.latest
        self.mark(self.served)
        self.served = []

    # --- the book ------------------------------------------------------------------------------

    def end(self, batch: Any) -> None:
        with self.batch():
            super().end(batch)

    def ended(self, s: Settlement) -> str:
        self.end_of_take()
        self.failing = s.outcome == "fail"
        word = super().ended(s)
        self.failing = False
        return word

    def move(self) -> None:
        with self.batch():
            super().move()

    def undo(self) -> None:
        with self.batch():
            super().undo()

    def reap(self, most: int = 16) -> None:
        with self.batch():
            super().reap(most)

    def swept(self, most: int) -> int:
        went = super().swept(most)
        self.pack()
        self.forget(list(self.shares.values()))
        return went

    def shift(self, unit: Unit, to: str, at: int) -> None:
        with self.batch():
            self.moves.append((unit.id, unit.state, to, self.failing))
            super().shift(unit, to, at)

    @contextmanager
    def batch(self) -> Iterator[None]:
        """What one flush writes, is written at once: the order of what comes back depends on it."""
        self.depth += 1
        yield
        self.depth -= 1
        if not self.depth and self.moves:
            self.write()

    def write(self) -> None:
        moves, self.moves = self.moves, []
        with self.touching(*(self.whose[id] for id, *_ in moves)):
            fronts: dict[str, list[str]] = {}
            backs: dict[str, list[str]] = {}
            for id, before, after, failed in moves:
                share = self.shares[self.whose[id]]
                ended = after in ("done", "gone")
                share.pending += (after == "pending") - (before == "pending")
                if before == "waiting":
                    share.holes[id] = int(ended)
                elif ended and id in share.holes:
                    share.holes[id] = 1
                if after == "waiting":
                    lists = backs if failed or before == "dead" else fronts
                    lists.setdefault(share.name, []).append(id)
            for lists, front in ((fronts, True), (backs, False)):
                for name, ids in lists.items():
                    self.shares[name].join(ids, front)

    @contextmanager
    def touching(self, *names: str) -> Iterator[list[Share]]:
        """Clients that are changed: who joins the ring begins at the present turn."""
        shares = [self.shares.setdefault(name, Share(name)) for name in dict.fromkeys(names)]
        before = [share.servable for share in shares]
        yield shares
        for share, was in zip(shares, before, strict=True):
            if share.servable and not was:
                share.turn = max(share.turn, self.virtual)
        self.mark(shares)
        self.forget(shares)

    def mark(self, shares: list[Share]) -> None:
        """Lists with too many spent holes are to be packed."""
        for share in shares:
            if sum(share.holes.values()) * 10 > len(share.listed):
                self.packing.setdefault(share.name, self.now)

    def forget(self, shares: list[Share]) -> None:
        for share in shares:
            rules = (share.weight, share.cap, share.blocked, share.rate) != (1, 0, 0, 0)
            known = share.listed or share.pending or rules
            if not known and share.turn <= self.virtual:
                self.shares.pop(share.name, None)

    def pack(self) -> None:
        """Lists here have less than the 500 ids of one step, so one step packs all of one."""
        if self.packing:
            name = min(self.packing, key=lambda name: (self.packing[name], name))
            del self.packing[name]
            share = self.shares.setdefault(name, Share(name))
            spent = [id for id, mark in share.holes.items() if mark]
            share.listed = [id for id in share.listed if id not in spent]
            share.head += len(spent)
            share.holes = {id: 0 for id, mark in share.holes.items() if not mark}

    def open_up(self) -> None:
        for name in list(self.shares):
            for rule, value in (("weight", 1), ("cap", 0), ("blocked", 0), ("rate", 0)):
                self.operations += 1
                run(
                    self.client,
                    self.queue.control.op(f"open-{self.operations}", 1, rule, name, value),
                )
                with self.touching(name) as shares:
                    setattr(shares[0], rule, value)
                    if rule == "rate":
                        shares[0].pause(self.now)

    def check_room(self) -> None:
        super().check_room()
        pipe = self.client.pipeline(transaction=False)
        for part in ("body", "accounts", "holes", "owner"):
            pipe.hgetall(self.key(part))
        pipe.zrange(self.key("ring"), 0, -1, withscores=True)
        pipe.zrange(self.key("packing"), 0, -1)
        pipe.hget(self.key("stat"), "vt")
        for share in self.shares.values():
            pipe.lrange(self.key("f_") + share.name, 0, -1)
            pipe.lrange(self.key("c_") + share.name, 0, -1)
        *hashes, ring, packing, virtual = (found := pipe.execute())[:7]
        body, accounts, holes, owners = (
            {k.decode(): v for k, v in rows.items()} for rows in hashes
        )
        lists = [[id.decode() for id in rows] for rows in found[7:]]
        live = [u for u in self.units.values() if u.state not in ("done", "gone")]
        assert body == {u.id: self.whose[u.id].encode() + b" " + u.payload for u in live}
        assert accounts == {name: share.line.encode() for name, share in self.shares.items()}
        assert {row[0].decode(): int(row[1]) for row in ring} == {
            share.name: share.turn for share in self.ring()
        }
        assert holes == {
            f"{share.name}/{id}": b"%d" % mark
            for share in self.shares.values()
            for id, mark in share.holes.items()
        }
        for n, share in enumerate(self.shares.values()):
            assert lists[2 * n] + lists[2 * n + 1] == share.listed
        for unit in live:
            known = owners.pop(unit.id, b"").decode()
            assert known in (self.whose[unit.id], "" if unit.state == "waiting" else None)
        assert owners == {}
        assert int(virtual or 0) == self.virtual
        assert set(packing) == {name.encode() for name in self.packing}

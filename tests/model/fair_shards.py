"""The book of a fair queue of several shards, whose number changes now and then.

Which shard a take goes to first is chance, so turns aren't predicted here (`fairs` does, for one
shard). What is: that entries of all shards together are those of the book, rules hold in every
shard, a client's own order holds within one, and a shard that was given up keeps its fence alone.
Several processes take part; each learns of another number by itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from random import Random
from typing import Any

from redisq_ops.core.errors import QueueClosed
from redisq_ops.core.fair import FairQueue, ShardedFairQueue
from redisq_ops.core.io import Description, run
from redisq_ops.core.keys import Keys, registry_key
from redisq_ops.core.registry import find

from .fairs import NAMES, Producing
from .model import SETS, Step, Unit, place
from .wire import picture, run_twice

MOST = 5
"""shards at most; all of them are looked at after every step"""
PROCESSES = 3
TWICE = 0.03
USUAL = {"weight": 1, "cap": 0, "blocked": 0}


class ShardedFairModel(Producing):
    rests = ("cfg", "stat", "callers", "hist", "wake")

    def make(self) -> ShardedFairQueue[Any]:
        self.whose: dict[str, str] = {}
        self.rules_of: dict[str, dict[str, int]] = {}
        self.sent: set[str] = set()
        self.resting = False
        self.observed = 0
        self.aware = True
        """whether the process that takes knows of the present shards; else it learns of them"""
        self.fresh: dict[str, int] = {}
        """entries nobody has touched, by when they came"""
        self.last: dict[tuple[str, str], int] = {}
        """of each client in each shard the last of these that went out"""
        self.number = self.rng.randrange(2, MOST + 1)
        self.processes = [
            ShardedFairQueue(
                self.client, "q", shards=self.number, clock=self.clock, random=Random(n)
            )
            for n in range(PROCESSES)
        ]
        for process in self.processes[1:]:
            run(self.client, process._enrol())
        return self.processes[0]

    def rules(self) -> Iterable[tuple[int, Callable[[], None]]]:
        return [
            *super().rules(),
            (8, self.submit),
            (3, self.submit_again),
            (5, self.govern),
            (2, self.delete),
            (2, self.page_through),
            (4, self.resize),
        ]

    def run(self, description: Description[Any]) -> Any:
        """As every book does it, but seldom twice: pictures of all shards take their time."""
        if self.rng.random() < TWICE:
            return run_twice(self.client, description)
        return run(self.client, description)

    # --- the number ----------------------------------------------------------------------------

    def resize(self) -> None:
        """Another number, or on with the change; what holds it open is there to be seen."""
        entry = run(self.client, find("q"))
        assert entry is not None
        self.number = entry.shards if entry.old_shards else self.rng.randrange(1, MOST + 1)
        left = run(self.client, self.queue.resize.op(self.number))
        entry = run(self.client, find("q"))
        assert entry is not None
        assert (entry.shards, bool(entry.old_shards)) == (self.number, left > 0)
        if left:
            assert left <= sum(u.state not in ("done", "gone") for u in self.units.values())
            return
        self.check_given_up()

    def check_given_up(self) -> None:
        """A fence and counters stay there; and who comes late with a receipt is answered."""
        for k in range(self.number, MOST):
            for raw in self.client.scan_iter(f"rq:{{q/{k}}}:*", count=1000):
                part = raw.decode().split(":", 2)[2]
                assert part in self.rests or self.client.ttl(raw) > 0, raw

    # --- producers and rules -------------------------------------------------------------------

    def put(self, client: str, entries: list[tuple[str, bytes]]) -> None:
        call = self.queue.submit.op(client, entries)
        if self.conf.get("closed"):
            before = picture(self.client)
            with suppress(QueueClosed):  # or all of it is found in other shards than the home
                assert self.book(client, entries, run(self.client, call)) == []
            assert picture(self.client) == before
            return
        for id in self.book(client, entries, self.run(call)):
            if id not in self.sent:  # one that was purged for good and comes again has its place
                self.fresh[id] = len(self.sent) + 1
            self.sent.add(id)

    def rule(self, client: str, name: str) -> int:
        return self.rules_of.get(client, USUAL)[name]

    def govern(self) -> None:
        client = self.rng.choice(NAMES)
        rule = self.rng.choice(["weight", "cap", "cap", "blocked", "blocked"])
        value = self.rng.choice({"weight": [1, 2, 7], "cap": [0, 1, 4]}.get(rule, [0, 0, 1]))
        self.set_rule(client, rule, value)

    def set_rule(self, client: str, rule: str, value: int) -> None:
        self.operations += 1
        said = self.run(self.queue.control.op(f"rule-{self.operations}", 1, rule, client, value))
        before = self.rule(client, rule)
        assert said == ("same" if before == value else "ok", before)
        self.rules_of.setdefault(client, dict(USUAL))[rule] = value

    def delete(self) -> None:
        client, most = self.rng.choice(NAMES), self.rng.choice([3, 100])
        self.operations += 1
        op = f"purge-{self.operations}"
        gone = self.run(self.queue.delete.op(client, op, most))
        rows = [u for u in self.of("waiting") if self.whose[u.id] == client]
        assert gone.entries == len(rows)
        steps: dict[int, Step] = {}
        for unit in rows:
            seq = self.step_of(op, gone.steps, unit.id)
            step = steps.setdefault(seq, Step(op, seq))
            self.moved(unit, step, "waiting", "trash", 0)
        self.steps += steps.values()

    def step_of(self, op: str, steps: int, id: str) -> int:
        """In which step an entry went, as the undo lists say."""
        for seq in range(1, steps + 1):
            for keys in self.places():
                rows = self.client.lrange(f"{keys['undo_']}{op}:{seq}", 0, -1)
                if any(row.split(b" ")[0] == id.encode() for row in rows):
                    return seq
        raise AssertionError(f"{id} went in no step")

    def page_through(self) -> None:
        """All that waits, once each; and who has anything here, with the rules of the book."""
        most, seen, cursor = self.rng.choice([4, 100]), [], None
        while True:
            page = run(self.client, self.queue.page.op("waiting", cursor, most, payloads=True))
            seen += [(e.client, e.id, e.payload, e.failures) for e in page.entries]
            assert len(page.entries) <= most
            cursor = page.cursor
            if cursor is None:
                break
        units = self.of("waiting")
        assert Counter(seen) == Counter(
            (self.whose[u.id], u.id, u.payload, u.failures) for u in units
        )
        shown = {c.client: c for c in run(self.client, self.queue.clients.op(0, 100)).clients}
        for name in NAMES:
            counted = Counter(u.state for u in self.units.values() if self.whose[u.id] == name)
            rules = self.rules_of.get(name, USUAL)
            one = shown.get(name)
            if one is None:
                assert not counted["waiting"] + counted["pending"] and rules == USUAL
                continue
            assert (one.waiting, one.pending) == (counted["waiting"], counted["pending"])
            assert (one.weight, one.cap or 0, one.blocked) == (
                rules["weight"], rules["cap"], bool(rules["blocked"])
            )  # fmt: skip

    # --- takes ---------------------------------------------------------------------------------

    def take(self) -> None:
        entry = run(self.client, find("q"))
        assert entry is not None
        known = self.queue.shards, self.queue.old_shards
        self.aware = known == (entry.shards, entry.old_shards)
        super().take()

    def bring_back(self) -> None:
        """Which shards a take comes by is chance: what it brought back is seen afterwards."""

    def overdue(self, unit: Unit) -> None:
        """Its lease ran out and a shard that was visited has noticed."""
        assert unit.state == "pending" and unit.at <= self.now
        unit.lost += 1
        unit.op = "-"
        if unit.lost >= self.setting("max_lost"):
            unit.reason = "lost"
            self.shift(unit, "dead", self.now)
        else:
            self.shift(unit, "waiting", self.now)

    def observe(self) -> None:
        """Write down what was due, and was brought back by a call that looked at its shard."""
        if self.resting and self.observed == self.now:
            return
        self.observed, zsets = self.now, self.zsets()
        for unit in list(self.units.values()):
            if unit.state == "pending" and unit.at <= self.now and unit.id not in zsets["pending"]:
                self.overdue(unit)
            elif unit.state == "delayed" and unit.id not in zsets["delayed"]:
                assert unit.at <= self.now
                self.shift(unit, "waiting", self.now)

    def busy(self) -> list[Unit]:
        if self.resting:
            self.observe()
        return super().busy()

    def may_be_delivered(self, unit: Unit) -> None:
        if self.resting:
            self.observe()
        if unit.state == "pending":
            self.overdue(unit)
        elif unit.state == "delayed":
            assert unit.at <= self.now
            self.shift(unit, "waiting", self.now)
        assert unit.state == "waiting"
        assert not self.rule(self.whose[unit.id], "blocked"), "a blocked client was served"

    def after_take(self, taken: Any, n: int) -> None:
        got = [(d.client, d.receipt.partition(":")[0], d.id) for d in taken.deliveries]
        assert not got or not self.conf.get("paused")
        for client, shard, id in got:
            assert client == self.whose[id]
            came = self.fresh.pop(id, None)
            if came is not None:
                assert self.last.get((client, shard), 0) < came, "an earlier one was passed by"
                self.last[client, shard] = came
        self.observe()
        pending = Counter(
            (self.whose[u.id], u.receipt.partition(":")[0]) for u in self.of("pending")
        )
        for client, shard, _ in got:
            cap = self.rule(client, "cap")
            assert not cap or pending[client, shard] <= cap
        if self.aware and len(got) < n and not taken.more and not self.conf.get("paused"):
            for unit in self.of("waiting"):
                client = self.whose[unit.id]
                cap = self.rule(client, "cap")
                full = cap and pending[client, self.shard_of(unit)] >= cap
                assert self.rule(client, "blocked") or full, "there was more to take"

    def shard_of(self, unit: Unit) -> str:
        there = [self.client.hexists(keys["body"], unit.id) for keys in self.places()]
        return str(there.index(True))

    def moved(self, unit: Unit, step: Step, source: str, target: str, argument: int) -> None:
        self.fresh.pop(unit.id, None)
        super().moved(unit, step, source, target, argument)

    # --- the book ------------------------------------------------------------------------------

    def swept(self, most: int) -> int:
        went: int = run(self.client, self.queue.sweep.op(most))
        self.observe()
        trash = self.zsets()["trash"]
        for unit in sorted(self.of("trash"), key=place):
            if unit.id not in trash:
                assert unit.at <= self.now - self.setting("trash_ms")
                self.shift(unit, "gone", 0)
        return went

    def open_up(self) -> None:
        self.resting = True
        for name in list(self.rules_of):
            for rule, value in USUAL.items():
                self.set_rule(name, rule, value)

    def lasts(self, step: Step) -> bool:
        return any(self.client.exists(f"{k['undo_']}{step.op}:{step.seq}") for k in self.places())

    def undone(self, said: tuple[int, int], back: int, touched: int) -> None:
        assert said[0] == back and said[1] <= touched

    # --- the checks ----------------------------------------------------------------------------

    def places(self) -> list[Keys]:
        return [FairQueue(None, "q", shard=k).keys for k in range(MOST)]

    def zsets(self) -> dict[str, dict[str, int]]:
        pipe = self.client.pipeline(transaction=False)
        for keys in self.places():
            for part in SETS.values():
                pipe.zrange(keys[part], 0, -1, withscores=True)
        found: dict[str, dict[str, int]] = {state: {} for state in SETS}
        for n, rows in enumerate(pipe.execute()):
            found[list(SETS)[n % len(SETS)]] |= {row[0].decode(): int(row[1]) for row in rows}
        return found

    def records(self) -> dict[str, str]:
        """Receipts with their shard in front, as deliveries have them."""
        pipe = self.client.pipeline(transaction=False)
        for keys in self.places():
            pipe.hgetall(keys["meta"])
        found = {}
        for k, rows in enumerate(pipe.execute()):
            for id, line in rows.items():
                text = line.decode()
                found[id.decode()] = text if text.startswith("- ") else f"{k}:{text}"
        return found

    def check(self) -> None:
        """All shards together hold what the book says, each entry in one of them.

        Looked at after every fifth step: there is much to look at.
        """
        self.queue = self.rng.choice(self.processes)
        if self.resting or self.rng.random() < 1 / 5:
            self.check_all()

    def check_all(self) -> None:
        pipe = self.client.pipeline(transaction=False)
        for keys in self.places():
            for part in SETS.values():
                pipe.zrange(keys[part], 0, -1, withscores=True)
            for part in ("meta", "err", "body"):
                pipe.hgetall(keys[part])
            pipe.hmget(keys["stat"], "done", "waiting")
        said, width = pipe.execute(), len(SETS) + 4
        shards = [said[low : low + width] for low in range(0, len(said), width)]
        for n, state in enumerate(SETS):
            have = [(row[0].decode(), int(row[1])) for shard in shards for row in shard[n]]
            assert sorted(have) == sorted((u.id, u.at) for u in self.of(state)), state
        lines = {u.id: u.line for u in self.units.values() if u.line}
        assert self.records() == lines
        errors = {u.id: u.error for u in self.units.values() if u.error is not None}
        assert {id.decode(): e for shard in shards for id, e in shard[-3].items()} == errors
        live = {u.id: u for u in self.units.values() if u.state not in ("done", "gone")}
        bodies = [(id.decode(), b) for shard in shards for id, b in shard[-2].items()]
        assert sorted(bodies) == sorted(
            (id, self.whose[id].encode() + b" " + u.payload) for id, u in live.items()
        )
        counted = [sum(int(shard[-1][n] or 0) for shard in shards) for n in (0, 1)]
        assert counted == [self.done, len(self.of("waiting"))]
        if self.rng.random() < 0.2:
            self.check_room()

    def check_room(self) -> None:
        assert run(self.client, self.queue.invariants.op()) == []

    def check_rest(self) -> None:
        assert run(self.client, self.queue.resize.op(self.number)) == 0
        self.check_room()
        # A client may owe a turn in a shard where nobody took anything since: it is remembered.
        resting = {
            keys[part] for keys in self.places() for part in (*self.rests, "accounts", "clients")
        }
        resting.add(registry_key())
        for raw in self.client.scan_iter(count=1000):
            key = raw.decode()
            assert key in resting or self.client.ttl(key) > 0, f"{key} is left over"
        self.check_given_up()

"""The book of a fair queue of several shards, whose number changes now and then.

Turns aren't predicted here (`fairs` does, for one shard). What is: that rules hold in every shard,
and that a client's own order holds within one. All else is in `shards`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from random import Random
from typing import Any

from redisq_ops.core.model.errors import QueueClosed
from redisq_ops.core.queues.fair import ShardedFairQueue
from redisq_ops.core.redis.operation import run

from .fairs import NAMES, Producing
from .model import Step, Unit
from .shards import Shards

USUAL = {"weight": 1, "cap": 0, "blocked": 0}


class ShardedFairModel(Shards, Producing):
    def make(self) -> ShardedFairQueue[Any]:
        self.whose: dict[str, str] = {}
        self.rules_of: dict[str, dict[str, int]] = {}
        self.sent: set[str] = set()
        self.fresh: dict[str, int] = {}
        """entries nobody has touched, by when they came"""
        self.last: dict[tuple[str, str], int] = {}
        """of each client in each shard the last of these that went out"""
        queue: ShardedFairQueue[Any] = super().make()
        return queue

    def opened(self, random: Random) -> ShardedFairQueue[Any]:
        return ShardedFairQueue(
            self.client, "q", shards=self.number, clock=self.clock, random=random
        )

    def rules(self) -> Iterable[tuple[int, Callable[[], None]]]:
        return [
            *super().rules(),
            (8, self.submit),
            (3, self.submit_again),
            (5, self.set_client_rule),
            (2, self.delete),
            (2, self.page_through),
            (4, self.resize),
        ]

    # --- producers and rules -------------------------------------------------------------------

    def put(self, client: str, entries: list[tuple[str, bytes]]) -> None:
        call = self.queue.submit.op(client, entries)
        if self.conf.get("closed"):
            before = self.picture()
            with suppress(QueueClosed):  # or all of it is found in other shards than the home
                assert self.book(client, entries, run(self.client, call)) == []
            assert self.picture() == before
            return
        for id in self.book(client, entries, self.run(call)):
            if id not in self.sent:  # one that was purged for good and comes again has its place
                self.fresh[id] = len(self.sent) + 1
            self.sent.add(id)

    def rule(self, client: str, name: str) -> int:
        return self.rules_of.get(client, USUAL)[name]

    def set_client_rule(self) -> None:
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
                rules["weight"],
                rules["cap"],
                bool(rules["blocked"]),
            )

    # --- takes ---------------------------------------------------------------------------------

    def may_be_delivered(self, unit: Unit) -> None:
        self.brought(unit)
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

    def open_up(self) -> None:
        super().open_up()
        for name in list(self.rules_of):
            for rule, value in USUAL.items():
                self.set_rule(name, rule, value)

    def check_contents(self) -> None:
        live = [u for u in self.units.values() if u.state not in ("done", "gone")]
        bodies = Counter(row for rows in self.hashes("body") for row in rows.items())
        assert bodies == Counter((u.id, self.whose[u.id].encode() + b" " + u.payload) for u in live)
        counted = [self.client.hget(keys["stat"], "waiting") for keys in self.places()]
        assert sum(int(n or 0) for n in counted) == len(self.of("waiting"))

    def resting_keys(self) -> set[str]:
        """A client may owe a turn in a shard where nobody took anything since: it is remembered."""
        owing = {keys[part] for keys in self.places() for part in ("accounts", "clients")}
        return super().resting_keys() | owing

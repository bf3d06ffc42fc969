"""Moves that are killed among all that goes on beside them: nothing is lost, nothing stays held.

``python -m tests.ops.change.killed_moves --kills 1000 --signals 300`` plays stories on an embedded
server until so many moves and undos of moves were killed: at a round trip in this process (before
it is sent, or before its reply is heard), or as processes of their own with SIGKILL. Beside them
producers submit, workers take and settle, operators replay, purge, undo, pause and change shards,
the trash is swept, days pass. At the end of each story every payload has to be in one place or
done, nothing may be held, `fsck` must be clean and no request may be left open.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import redis

from redisq_ops.core.engine.registry import ensure_registered
from redisq_ops.core.engine.transfer_recovery import recover
from redisq_ops.core.model.clock import FakeClock
from redisq_ops.core.model.entry import Settlement, State
from redisq_ops.core.model.errors import Refused
from redisq_ops.core.model.settings import DAY_MS
from redisq_ops.core.model.states import VERBS, Verb
from redisq_ops.core.redis import operation as core_io
from redisq_ops.core.redis.operation import run
from redisq_ops.core.redis.transport import exchange
from redisq_ops.core.worker.upkeep import TransferRecoverer
from redisq_ops.demo.server import EmbeddedServer, binaries
from redisq_ops.ops.change import audit_log, control
from redisq_ops.ops.change.audit_log import Author
from redisq_ops.ops.change.runner import ChangeRun
from redisq_ops.ops.change.transfer_plan import route_to
from redisq_ops.ops.change.transfer_undo import undo_of
from redisq_ops.ops.deployment import Deployment
from redisq_ops.ops.filter.filter import Filter
from redisq_ops.ops.filter.selection import select
from redisq_ops.ops.fsck import QueueCheck

from ...changes import entry_change

ME = Author("ada", "laptop", "chaos")
KINDS = ("request", "delay", "fair", "circular", "carmine")
NAMES = ("a", "b", "c")
STATES: tuple[State, ...] = ("waiting", "delayed", "dead")
SIZE = 8
"""entries that a step of a move takes"""


class Killed(BaseException):
    """Nothing more of that process happens."""


class Deadly:
    """What goes to the server; whoever sends the n-th round trip dies of it."""

    def __init__(self, nth: int, heard: bool, die: Callable[[], None]) -> None:
        self._left, self._heard, self._die = nth, heard, die

    def __call__(self, client: Any, calls: Any) -> Any:
        self._left -= 1
        if self._left:
            return exchange(client, calls)
        if self._heard:
            exchange(client, calls)
        self._die()
        raise Killed


def by_itself() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


class Story:
    """Three queues of a kind, and everybody who is at them."""

    def __init__(self, url: str, kind: str, seed: int, signals: bool) -> None:
        self.url, self.kind, self.signals = url, kind, signals
        self.rng = random.Random(f"{kind} {seed}")
        self.client = redis.Redis.from_url(url, protocol=3)
        self.client.flushall()
        self.clock = FakeClock(int(time.time() * 1000))
        self.deployment = Deployment(self.client, clock=self.clock)
        self.names = [f"carmine:{name}" if kind == "carmine" else name for name in NAMES]
        schema = 1
        for name in self.names:
            shards = self.rng.choice([1, 2, 3])
            run(self.client, ensure_registered(name, kind, schema, shards=shards))
        self.born = 0
        self.alive: set[bytes] = set()
        self.may_be_gone: set[bytes] = set()
        """purged: its trash may be over"""
        self.told: Counter[str] = Counter()

    def queue(self, name: str | None = None) -> Any:
        return run(self.client, self.deployment.queue(name or self.rng.choice(self.names)))

    def play(self, kills: int) -> None:
        self.submit()
        rules = [
            self.submit,
            self.work,
            self.operate,
            self.undo,
            self.pause,
            self.resize,
            self.sweep,
            self.upkeep,
            self.pass_time,
        ]
        while self.told["killed"] < kills:
            self.kill_one()
            for rule in self.rng.choices(rules, k=self.rng.choice([1, 3, 25])):
                with suppress(Refused):  # as a change of shards while a move isn't finished
                    rule()
                    self.told[rule.__name__] += 1
        self.come_to_rest()

    # --- what goes on beside -------------------------------------------------------------------

    def submit(self) -> None:
        queue = self.queue()
        if len(self.alive) > 120:
            return
        payloads = [b"p%d" % (self.born + k) for k in range(self.rng.choice([5, 30]))]
        ids = [f"e{payload.decode()}" for payload in payloads]
        self.born += len(payloads)
        pairs = list(zip(ids, payloads, strict=True))
        if self.kind == "request":
            queue.submit(payloads, id=f"r{self.born}", limit=100)
        elif self.kind == "delay":
            queue.schedule(pairs, after=self.rng.choice([0, 60_000]) / 1000)
        elif self.kind == "fair":
            queue.submit(self.rng.choice(["ann", "bob"]), pairs)
        elif self.kind == "circular":
            queue.push(pairs)
        else:
            queue.enqueue(pairs)
        self.alive |= set(payloads)

    def work(self) -> None:
        queue = self.queue()
        for d in queue.take(self.rng.choice([3, 20]), consumer="w").deliveries:
            outcome: Any = self.rng.choice(["ack", "fail", "reject", "reject", "release"])
            wait = 60 if outcome == "fail" else 0
            (said,) = queue.settle([Settlement(d, outcome, b"boom", wait)])
            if said == "done":
                assert d.payload in self.alive, f"{d.payload!r} was done twice"
                self.alive.discard(d.payload)

    def operate(self) -> None:
        verb: Verb = self.rng.choice(["replay", "purge", "requeue", "restore"])
        state = self.rng.choice(VERBS[verb][0])
        queue = self.queue()
        if state not in queue.actions.get(verb, ()):
            return
        chosen = run(self.client, select(queue, state, Filter(max=self.rng.choice([3, 20]))))
        change = entry_change(chosen, verb, ME)
        self.finish(change)
        if verb == "purge":
            self.may_be_gone |= set(self.payloads(queue, "trash", change.op))

    def undo(self) -> None:
        """The latest change but moves; those are taken back by who may be killed."""
        found = [o for o in run(self.client, audit_log.last(self.queue(), 5)) if o.undoable]
        if found and not found[0].into:
            queue = self.queue(found[0].queue)
            steps = run(self.client, undo_of(self.deployment, queue, found[0]))
            self.finish(ChangeRun(steps, ME))

    def pause(self) -> None:
        queue = self.queue()
        run(self.client, control.pause(queue, ME))
        run(self.client, control.resume(queue, ME))

    def resize(self) -> None:
        queue = self.queue()
        if hasattr(queue, "resize"):
            queue.resize(self.rng.choice([1, 2, 3]))

    def sweep(self) -> None:
        run(self.client, self.queue().sweep.op(100))

    def upkeep(self) -> None:
        queue = self.queue()
        run(self.client, queue.upkeep.op())
        run(self.client, TransferRecoverer().look(queue))

    def pass_time(self) -> None:
        self.clock.now_ms += self.rng.choice([1000, 5000, 20_000, 3_600_000, 26 * 3_600_000])

    # --- those who are killed ------------------------------------------------------------------

    def change(self) -> Any:
        """A move, or the undo of one."""
        source, to = self.rng.sample(self.names, 2)
        queue = self.queue(source)
        if self.rng.random() < 0.35:
            found = [
                o for o in run(self.client, audit_log.last(queue, 20)) if o.into and o.undoable
            ]
            if found:
                operation = self.rng.choice(found)
                steps = run(self.client, undo_of(self.deployment, queue, operation))
                return ChangeRun(steps, ME)
        way = run(self.client, route_to(self.deployment, queue, to))
        states = sorted(STATES, key=lambda state: self.rng.random())
        for state in states:
            if self.payloads(queue, state):
                break
        chosen = run(self.client, select(queue, state, Filter(max=self.rng.choice([None, 5]))))
        move = entry_change(chosen, "move", ME, route=way)
        move.steps.stride.size = SIZE
        move.steps.stride.learn = lambda *_: None  # type: ignore[method-assign]
        return move

    def kill_one(self) -> None:
        with suppress(Refused):
            change = self.change()
            nth, heard = self.rng.randrange(1, 40), self.rng.random() < 0.5
            dead = (
                self.by_signal(change, nth, heard)
                if self.signals
                else self.here(change, nth, heard)
            )
            self.told["killed" if dead else "ended"] += 1

    def here(self, change: Any, nth: int, heard: bool) -> bool:
        vars(core_io)["exchange"] = Deadly(nth, heard, lambda: None)
        try:
            self.finish(change)
        except Killed:
            return True
        finally:
            vars(core_io)["exchange"] = exchange
        return False

    def by_signal(self, change: Any, nth: int, heard: bool) -> bool:
        """In a process of its own, on a connection of its own."""
        child = os.fork()
        if not child:
            vars(core_io)["exchange"] = Deadly(nth, heard, by_itself)
            code = 1
            with suppress(BaseException), redis.Redis.from_url(self.url, protocol=3) as client:

                async def steps() -> None:
                    while await change.step():
                        pass

                run(client, steps())
                code = 0
            os._exit(code)
        _, status = os.waitpid(child, 0)
        return os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL

    def finish(self, change: Any) -> None:
        while run(self.client, change.step()):
            pass

    # --- the end -------------------------------------------------------------------------------

    def payloads(self, queue: Any, state: State, op: str | None = None) -> list[bytes]:
        found: list[bytes] = []
        cursor = None
        while True:
            page = queue.page(state, cursor, 100, None, True)
            some = [e for e in page.entries if op in (None, e.op)]
            found += [e.payload for e in some if e.payload is not None]
            cursor = page.cursor
            if cursor is None:
                return found

    def come_to_rest(self) -> None:
        """Whoever was killed stays away; workers keep the queues up."""
        self.clock.advance(60)
        for name in self.names:
            found = run(self.client, recover(self.queue(name), most=1000))
            assert not [one for one in found if one.problem], found
        for name in self.names:
            assert self.queue(name).unfinished_transfers() == {}, "a move stays unfinished"
            queue = self.queue(name)
            if getattr(queue, "old_shards", 0):
                for _ in range(50):
                    if not queue.resize(queue.shards):
                        break
        keys = [
            key
            for part in ("undo", "land", "op")
            for key in self.client.scan_iter(f"*:{part}:*", count=1000)
        ]
        kept = [key for key in keys if self.client.pttl(key) == -1]
        assert not kept, f"kept for good: {kept}"
        self.counted()
        for name in self.names:
            run(self.client, control.resume(self.queue(name), ME))  # undo may have paused it
        self.work_off()
        for name in self.names:
            check = QueueCheck(self.queue(name))
            run(self.client, check.check())
            assert not check.findings, check.findings

    def counted(self) -> None:
        """Each payload is in one place."""
        states: tuple[State, ...] = (*STATES, "pending")
        found: Counter[bytes] = Counter()
        for name in self.names:
            for state in states:
                found.update(self.payloads(self.queue(name), state))
        double = {p for p, n in found.items() if n > 1}
        assert not double, f"twice: {double}"
        assert found.keys() <= self.alive, f"done before: {found.keys() - self.alive}"
        lost = self.alive - found.keys() - self.may_be_gone
        assert not lost, f"lost: {lost}"
        self.told["entries"] += self.born

    def work_off(self) -> None:
        """Also what is dead: then every request has its end."""
        for _ in range(60):
            self.clock.now_ms += DAY_MS
            n = 0
            for name in self.names:
                queue = self.queue(name)
                for d in queue.take(500, consumer="last").deliveries:
                    n += queue.settle([Settlement(d, "ack")]).count("done")
                run(self.client, queue.upkeep.op())
            if not n:
                break
        if self.kind == "request":
            for name in self.names:
                left = [r for r in self.queue(name).requests(0, 500) if r.state == "sealed"]
                assert not left, f"wait would never end: {left[:2]}"


def stories(kills: int, url: str, seed: int, signals: bool) -> Counter[str]:
    """Play until so many were killed."""
    told: Counter[str] = Counter()
    while told["killed"] < kills:
        kind = KINDS[seed % len(KINDS)]
        story = Story(url, kind, seed, signals)
        try:
            story.play(min(10, kills - told["killed"]))
        except AssertionError as found:
            raise AssertionError(f"story {seed} ({kind}): {found}") from found
        finally:
            story.client.close()
        told += story.told
        told["stories"] += 1
        seed += 1
    return told


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=1000)
    parser.add_argument("--signals", type=int, default=300, help="of them, by SIGKILL")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    began = time.monotonic()
    with EmbeddedServer(binaries()["valkey"]) as server:
        told = stories(given.kills - given.signals, server.url, given.seed, False)
        by_signal = stories(given.signals, server.url, given.seed + 10_000, True)
    print(f"{time.monotonic() - began:.0f} s; in this process: {dict(told)}")
    print(f"by SIGKILL: {dict(by_signal)}")
    print(f"killed: {told['killed'] + by_signal['killed']}; lost: 0; held: 0; twice: 0")


if __name__ == "__main__":
    main()

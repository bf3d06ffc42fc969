"""The book of a queue of several shards, whose number changes now and then.

Several processes take part; each learns of another number by itself. Which shards a call comes by
is chance, so what it brought back of leases and delays is seen afterwards, not predicted. What is
predicted: that all shards together hold what the book says, each entry in one of them, and that a
shard which was given up keeps its fence alone.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Iterable
from random import Random
from typing import Any, ClassVar

import redis

from redisq_ops.core.engine.registry import Registered, find
from redisq_ops.core.model.entry import TakeResult
from redisq_ops.core.model.errors import RedisqError
from redisq_ops.core.model.keys import Keys, registry_key
from redisq_ops.core.redis.operation import Description, run, together
from redisq_ops.core.redis.transport import exchange

from .model import SETS, Model, Step, Unit, place
from .wire import Picture, picture, run_twice

MOST = 5
"""shards at most; all of them are looked at after every step"""
PROCESSES = 3
TWICE = 0.03
ENDED = ("done", "gone", "unmet")
"""states in which the queue holds nothing of an entry, or doesn't know of it yet"""


class Shards(Model):
    name: ClassVar[str] = "q"
    has_rate = False
    timed: ClassVar[bool] = False
    """whether entries come back from a delay by time alone, and nobody has to bring them"""

    def make(self) -> Any:
        self.resting = False
        self.observed = 0
        self.aware = True
        """whether the process that takes knows of the present shards; else it learns of them"""
        self.uncounted = 0
        """done ones in shards given up, that a killed mover didn't bring to the first"""
        self.number = self.rng.randrange(2, MOST + 1)
        self.processes = [self.opened(Random(n)) for n in range(PROCESSES)]
        for process in self.processes[1:]:
            run(self.client, process._ensure_registered())
        return self.processes[0]

    @abstractmethod
    def opened(self, random: Random) -> Any:
        """The queue as one more process has it."""

    def run(self, description: Description[Any]) -> Any:
        """As every book does it, but seldom twice: pictures of all shards take their time."""
        if self.rng.random() < TWICE:
            return run_twice(self.client, description)
        return run(self.client, description)

    # --- the number ----------------------------------------------------------------------------

    def entry(self) -> Registered:
        entry = run(self.client, find(self.name))
        assert entry is not None
        return entry

    def resize(self) -> None:
        """Another number, or on with the change; what holds it open is there to be seen."""
        entry = self.entry()
        self.number = entry.shards if entry.old_shards else self.rng.randrange(1, MOST + 1)
        left = run(self.client, self.queue.resize.op(self.number))
        entry = self.entry()
        assert (entry.shards, bool(entry.old_shards)) == (self.number, left > 0)
        if left:
            assert left <= sum(u.state not in ("done", "gone") for u in self.units.values())
            return
        self.check_given_up()

    def check_given_up(self) -> None:
        """A fence and counters stay there; and who comes late with a receipt is answered."""
        for keys in self.places()[self.number :]:
            for raw in self.keys_of(keys):
                resting = raw.decode() in {keys[part] for part in self.rests}
                assert resting or self.client.ttl(raw) > 0, raw

    # --- what calls bring back -----------------------------------------------------------------

    def take(self) -> None:
        entry = self.entry()
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
            self.shift(unit, "waiting", unit.ready or self.now)

    def observe(self) -> None:
        """Write down what was due, and was brought back by a call that looked at its shard."""
        if self.resting and self.observed == self.now:
            return
        self.observed, zsets = self.now, self.zsets()
        between = self.between_shards()
        for unit in list(self.units.values()):
            if unit.state == "pending" and unit.at <= self.now and unit.id not in zsets["pending"]:
                self.overdue(unit)
            elif unit.state == "delayed" and not self.timed and unit.id not in zsets["delayed"]:
                if unit.id in between:
                    continue
                assert unit.at <= self.now
                self.shift(unit, "waiting", self.now)

    def between_shards(self) -> set[str]:
        """Entries on their way from one shard to another; there are some only after a kill."""
        return set()

    def busy(self) -> list[Unit]:
        if self.resting:
            self.observe()
        return super().busy()

    def brought(self, unit: Unit) -> None:
        """Write down what this very take brought back before it handed the entry out."""
        if self.resting:
            self.observe()
        if unit.state == "pending":
            self.overdue(unit)
        elif unit.state == "delayed" and not self.timed:
            assert unit.at <= self.now
            self.shift(unit, "waiting", self.now)

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

    def behind(self, step: Step, **noted: int) -> None:
        """To several shards one step goes at a time."""

    def lasts(self, step: Step) -> bool:
        return any(self.client.exists(f"{k['undo_']}{step.op}:{step.seq}") for k in self.places())

    def undone(self, said: tuple[int, int], back: int, touched: int) -> None:
        assert said[0] == back and said[1] <= touched

    # --- the checks ----------------------------------------------------------------------------

    def picture(self) -> Picture:
        """Without what shards given up replied: they still turn late producers away."""
        entry = self.entry()
        given_up = self.places()[max(entry.shards, entry.old_shards) :]
        replies = {keys["callers"].encode() for keys in given_up}
        return {key: value for key, value in super().picture().items() if key not in replies}

    def places(self) -> list[Keys]:
        return [Keys(f"q/{k}" if k else "q") for k in range(MOST)]

    def keys_of(self, keys: Keys) -> Iterable[bytes]:
        """All that is there of a shard."""
        found: Iterable[bytes] = self.client.scan_iter(f"{keys.base}*", count=1000)
        return found

    def hashes(self, part: str) -> list[dict[str, bytes]]:
        """Of every shard, by id."""
        pipe = self.client.pipeline(transaction=False)
        for keys in self.places():
            pipe.hgetall(keys[part])
        return [{id.decode(): value for id, value in rows.items()} for rows in pipe.execute()]

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
        found = {}
        for k, rows in enumerate(self.hashes("meta")):
            for id, line in rows.items():
                text = line.decode()
                found[id] = text if text.startswith("- ") else f"{k}:{text}"
        return found

    def after_step(self) -> None:
        self.check()

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
            for part in ("meta", "err"):
                pipe.hgetall(keys[part])
            pipe.hget(keys["stat"], "done")
        said, width = pipe.execute(), len(SETS) + 3
        shards = [said[low : low + width] for low in range(0, len(said), width)]
        for n, state in enumerate(SETS):
            have = [(row[0].decode(), int(row[1])) for shard in shards for row in shard[n]]
            assert sorted(have) == sorted((u.id, u.at) for u in self.of(state)), state
        lines = {u.id: u.line for u in self.units.values() if u.line}
        assert self.records() == lines
        # An empty error is none to anybody who looks, and to a mover.
        errors = {u.id: u.error for u in self.units.values() if u.error}
        assert {id.decode(): e for shard in shards for id, e in shard[-2].items() if e} == errors
        assert sum(int(shard[-1] or 0) for shard in shards) == self.done - self.uncounted
        self.check_contents()
        if self.rng.random() < 0.2:
            self.check_room()

    @abstractmethod
    def check_contents(self) -> None:
        """What a kind holds beside the states, of all shards together."""

    def check_room(self) -> None:
        assert run(self.client, self.queue.invariants.op()) == []

    def resting_keys(self) -> set[str]:
        return {keys[part] for keys in self.places() for part in self.rests}

    def check_rest(self) -> None:
        assert run(self.client, self.queue.resize.op(self.entry().shards)) == 0
        self.check_room()
        resting = self.resting_keys() | {registry_key()}
        for raw in self.client.scan_iter(count=1000):
            key = raw.decode()
            assert key in resting or self.client.ttl(key) > 0, f"{key} is left over"
        self.number = self.entry().shards
        self.check_given_up()


class Mover:
    """A process that changes the number, round by round: it may stop anywhere, and go on late."""

    def __init__(self, client: redis.Redis, change: Description[int], now: int) -> None:
        self.client = client
        self.stopped = now
        self.coroutine: Any = together([change])
        self.calls = self.coroutine.send(None)

    def goes(self, rounds: int, script: str, chance: Random) -> bool:
        """So many rounds, but not into ``script``, named by its digest; is there more to do?"""
        try:
            for _ in range(rounds):
                if script and any(script in call.command for call in self.calls):
                    break
                self.calls = self.coroutine.send(self.sent(chance))
        except (StopIteration, RedisqError):  # done, or another mover was quicker
            return False
        return True

    def sent(self, chance: Random) -> Any:
        """The replies to one round, which is sent again at times, and then changes nothing."""
        replies = exchange(self.client, self.calls)
        if all(call.source for call in self.calls) and chance.random() < TWICE:
            before = picture(self.client)
            exchange(self.client, self.calls)
            assert picture(self.client) == before, "sent again, it changed something"
        return replies


class Carried(Shards):
    """Entries are carried to the home of their id, by movers of whom some are killed on the way."""

    id_hashes: ClassVar[tuple[str, ...]] = ("body",)
    """the hashes that have every entry's id"""

    def make(self) -> Any:
        self.late: list[Mover] = []
        self.carrying = False
        self.reachable: set[str] = set()
        return super().make()

    def run(self, description: Description[Any]) -> Any:
        """Once where a producer carries as well: what arrived is said to be the same then."""
        if self.carrying:
            return run(self.client, description)
        return super().run(description)

    # --- movers --------------------------------------------------------------------------------

    def resize(self) -> None:
        self.carried()
        super().resize()

    def stop_a_mover(self) -> None:
        """A change, or one that went on long ago, stops; work goes on and brings all home."""
        self.carried()
        kept = self.now - self.setting("keep_ms")
        self.late = [mover for mover in self.late if mover.stopped > kept]
        if self.late and self.rng.random() < 0.4:
            mover = self.late.pop(self.rng.randrange(len(self.late)))
        else:
            entry = self.entry()
            few = self.rng.choice([2, MOST])  # to and fro, the more often the fewer there are
            number = entry.shards if entry.old_shards else self.rng.randrange(1, few + 1)
            change = self.opened(Random(self.rng.random())).resize.op(number)
            mover = Mover(self.client, change, self.now)
        rounds, script = self.rng.choice(
            [
                (self.rng.randrange(1, 40), ""),
                (99, "transfer_accept"),
                (99, "transfer_drop"),
                (99, "transfer_drop"),
            ]
        )
        goes_on = mover.goes(rounds, script and self.queue._script(script).sha, self.rng)
        mover.stopped = self.now
        match goes_on and self.rng.choice(["killed", "killed later", "late", "late"]):
            case "killed later":  # before it heard what became of its last round
                mover.sent(self.rng)
            case "late":
                self.late.append(mover)
        self.count_again()
        self.carrying = True
        if self.rng.random() < 0.6:
            self.take()
            self.settle()
        if self.late and self.rng.random() < 0.3:  # it has to tell its own departures from others
            other = self.late.pop(self.rng.randrange(len(self.late)))
            other.goes(self.rng.randrange(1, 4), "", self.rng)
            self.count_again()
        lying = sorted(self.between_shards() & set(self.units))
        if lying and self.rng.random() < 0.5:
            self.put_again(self.rng.sample(lying, k=min(3, len(lying))))
        self.carrying = False
        self.queue = self.rng.choice(self.processes)
        self.swept(100)
        self.carrying = True
        assert self.between_shards() == set(), "left behind between two shards"
        self.carrying = False
        self.check_all()

    @abstractmethod
    def put_again(self, ids: list[str]) -> None:
        """A producer sends entries that are known, wherever they are."""

    def carried(self) -> None:
        """Called before entries change shards, whatever order they have."""

    def count_again(self) -> None:
        """A mover that is killed at the last may lose the count of a shard that it clears."""
        pipe = self.client.pipeline(transaction=False)
        for keys in self.places():
            pipe.hget(keys["stat"], "done")
        self.uncounted = self.done - sum(int(n or 0) for n in pipe.execute())
        assert self.uncounted >= 0, "counted twice"

    def between_shards(self) -> set[str]:
        if not self.carrying:
            return set()
        return {id for rows in self.hashes("transit") for id in rows}

    # --- operators -----------------------------------------------------------------------------

    def where(self) -> dict[str, int]:
        return {
            id: k
            for part in self.id_hashes
            for k, rows in enumerate(self.hashes(part))
            for id in rows
        }

    def lasts(self, step: Step) -> bool:
        """And which entries still are in the shard where the step's list is."""
        where, there = self.where(), False
        self.reachable = set()
        for k, keys in enumerate(self.places()):
            rows = self.client.lrange(f"{keys['undo_']}{step.op}:{step.seq}", 0, -1)
            there = there or bool(rows)
            if rows and rows[0].startswith(b" "):  # of a whole state
                ids = rows[1].split(b" ")
            else:
                ids = [row.split(b" ", 1)[0] for row in rows]
            self.reachable |= {id.decode() for id in ids if where.get(id.decode()) == k}
        return there

    def still(self, unit: Unit, state: str, target: str) -> bool:
        return unit.id in self.reachable and super().still(unit, state, target)

    # --- the checks ----------------------------------------------------------------------------

    def bodies(self) -> Counter[tuple[str, bytes]]:
        hashes = [rows for part in self.id_hashes for rows in self.hashes(part)]
        return Counter(row for rows in hashes for row in rows.items())

    def live(self) -> list[Unit]:
        return [unit for unit in self.units.values() if unit.state not in ENDED]

    def check_contents(self) -> None:
        assert self.bodies() == Counter((u.id, u.payload) for u in self.live())

    def first_served(self, taken: TakeResult) -> dict[str, list[str]]:
        """The ids that were taken, by the shard they came from, in order."""
        served: dict[str, list[str]] = {}
        for delivery in taken.deliveries:
            served.setdefault(delivery.receipt.partition(":")[0], []).append(delivery.id)
        return served

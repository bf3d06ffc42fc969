"""The book of a delay set of several shards, and of any queue whose entries have a ready time: each
shard gives out its due ones in their order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from random import Random
from typing import Any

from redisq_ops.core.model.entry import TakeResult
from redisq_ops.core.queues.delay import ShardedDelaySet

from .delays import DelayModel
from .model import LEASE, WHOLE, Step, Unit, place
from .shards import Carried

REAPED = 16
"""lost leases a visit brings back at most"""


class InTime(Carried):
    timed = True

    def take(self) -> None:
        late = sum(unit.at <= self.now for unit in self.of("pending"))
        self.in_order = late <= REAPED and not self.carrying
        super().take()

    def after_take(self, taken: TakeResult, n: int) -> None:
        assert not taken.deliveries or not self.conf.get("paused")
        self.observe()
        due = {u.id: u for u in self.of("delayed") if u.at <= self.now}
        if not self.in_order or self.conf.get("paused"):
            return
        where = self.where()
        for shard, ids in self.first_served(taken).items():
            times = [(self.units[id].ready, id) for id in ids]
            assert times == sorted(times), "in another order than that of their times"
            rest = [place(u) for u in due.values() if str(where[u.id]) == shard]
            assert not rest or times[-1] < min(rest), "an earlier one was passed by"
        if self.aware and due:
            assert len(taken.deliveries) == n or taken.more, "there was more to take"
            assert taken.more, "there is more, and it says that there isn't"


class ShardedDelayModel(InTime, DelayModel):
    def opened(self, random: Random) -> ShardedDelaySet[Any]:
        return ShardedDelaySet(
            self.client, "q", shards=self.number, clock=self.clock, random=random
        )

    def rules(self) -> Iterable[tuple[int, Callable[[], None]]]:
        return [*super().rules(), (4, self.resize), (4, self.stop_a_mover)]

    def may_be_delivered(self, unit: Unit) -> None:
        self.brought(unit)
        DelayModel.may_be_delivered(self, unit)

    def put_again(self, ids: list[str]) -> None:
        keep = self.rng.random() < 0.5
        known = [self.units[id] for id in ids]
        entries = [(u.id, u.payload if keep else self.content()) for u in known]
        self.put(entries, self.rng.choice(["new", "move"]))

    def move_whole(self) -> None:
        """Of each shard that the process knows the first of its share."""
        verb, source, target = self.rng.choice(WHOLE)
        n, high_water = self.rng.choice([1, 3, 100]), self.now - self.rng.choice([0, 0, LEASE])
        self.operations += 1
        step = Step(f"{verb}-{self.operations}", 1)
        entry, where = self.entry(), self.where()
        known = max(self.queue.shards, self.queue.old_shards)
        unknown = max(entry.shards, entry.old_shards) > known  # some are left to the next step
        there: dict[int, list[Unit]] = {}
        for unit in sorted((u for u in self.of(source) if u.at <= high_water), key=place):
            there.setdefault(where[unit.id], []).append(unit)
        front = self.run(
            self.queue.move_range.op(
                step.op, step.seq, n, source=source, target=target, high_water_ms=high_water
            )
        )
        met = [u for k, units in there.items() if k < known for u in units[: -(-n // known)]]
        meant = [unit for unit in met if unit.since <= high_water]
        for unit in meant:
            self.moved(unit, step, source, target, LEASE)
        left = len(met) - len(meant)
        over = not there and not unknown
        assert (front.moved, sum(front.left), front.over) == (len(meant), left, over)
        if step.rows and target != "gone":
            self.steps.append(step)

    def check_contents(self) -> None:
        super().check_contents()
        follow = Counter(row for rows in self.hashes("next") for row in rows.items())
        assert follow == Counter((u.id, b"%d %b" % u.follow) for u in self.live() if u.follow)

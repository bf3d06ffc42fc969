"""The book of a circular queue of several shards: first in, first out within each.

Another producer pushes to the first shard. What it pushes here has names of its own: an id that
came both ways may be in two shards, and worked on twice (tests/test_circular_shards.py).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from random import Random
from typing import Any

from redisq_ops.core.model.entry import TakeResult
from redisq_ops.core.queues.circular import ShardedCircularQueue
from redisq_ops.core.redis.operation import run

from .circles import CircleModel
from .model import Step, Unit
from .shards import Carried


class ShardedCircleModel(Carried, CircleModel):
    most = 40

    def make(self) -> ShardedCircularQueue[Any]:
        self.fresh: dict[str, int] = {}
        """ids that nobody has touched and no mover carried, by when they came"""
        self.last: dict[str, int] = {}
        """of each shard the last of these that went out"""
        self.came = self.foreign = 0
        queue: ShardedCircularQueue[Any] = super().make()
        return queue

    def opened(self, random: Random) -> ShardedCircularQueue[Any]:
        return ShardedCircularQueue(
            self.client, "q", shards=self.number, clock=self.clock, random=random, **self.options
        )

    def rules(self) -> Iterable[tuple[int, Callable[[], None]]]:
        return [*super().rules(), (4, self.resize), (4, self.stop_a_mover)]

    # --- producers -----------------------------------------------------------------------------

    def put(self, ids: list[str]) -> None:
        ours = [id for id in ids if not id.startswith("f")]
        unknown = [id for id in ours if id not in self.units]
        if ours:
            super().put(ours)
        for id in unknown:
            if id in self.units:
                self.came += 1
                self.fresh.setdefault(id, self.came)

    def put_again(self, ids: list[str]) -> None:
        self.put(ids)

    def push_foreign(self) -> None:
        """An id of another producer's own; the queue doesn't know of it before it is met."""
        if len(self.busy()) > self.most:
            return
        for _ in range(self.rng.choice([1, 1, 4])):
            self.foreign += 1
            id = f"f{self.foreign}"
            self.units[id] = Unit(id, b"", "unmet")
            self.client.lpush(self.places()[0]["queue"], id)

    # --- the lists, which aren't predicted -----------------------------------------------------

    def enter(self, id: str, ahead: bool) -> None:
        pass

    def leave(self, id: str) -> None:
        pass

    def carried(self) -> None:
        self.fresh.clear()
        self.last.clear()

    def moved(self, unit: Unit, step: Step, source: str, target: str, argument: int) -> None:
        self.fresh.pop(unit.id, None)
        super().moved(unit, step, source, target, argument)

    # --- takes ---------------------------------------------------------------------------------

    def may_be_delivered(self, unit: Unit) -> None:
        self.brought(unit)
        if unit.state == "unmet":
            unit.state = "waiting"
        CircleModel.may_be_delivered(self, unit)

    def after_take(self, taken: TakeResult, n: int) -> None:
        assert not taken.deliveries or not self.conf.get("paused")
        for shard, ids in self.first_served(taken).items():
            for came in [self.fresh.pop(id) for id in ids if id in self.fresh]:
                assert self.last.get(shard, -1) < came, "an earlier one was passed by"
                self.last[shard] = came
        self.observe()
        if self.conf.get("paused") or self.carrying or not self.aware:
            return
        if self.options.get("idle", "wake") == "wake" and len(taken.deliveries) < n:
            assert taken.more or not self.in_line(), "there was more to take"

    def in_line(self) -> list[Unit]:
        return self.of("waiting") + self.of("unmet")

    def busy(self) -> list[Unit]:
        return super().busy() + self.of("unmet")

    # --- the checks ----------------------------------------------------------------------------

    def check_contents(self) -> None:
        super().check_contents()
        again = Counter(row for rows in self.hashes("again") for row in rows.items())
        assert again == Counter(
            (u.id, b"%d" % u.follow[0] if self.each else u.follow[1])
            for u in self.live()
            if u.follow
        )
        assert run(self.client, self.queue.counts.op()).waiting == len(self.in_line())

    def check_room(self) -> None:
        Carried.check_room(self)

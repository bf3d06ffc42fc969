"""The delay set's part of the book: ready times, order, rescheduling."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from redisq_ops.core.model.entry import Settlement
from redisq_ops.core.queues.delay import DelaySet

from .model import LEASE, Unit, place
from .results import KeepingModel


class DelayModel(KeepingModel):
    ready_kept = True

    def make(self) -> DelaySet[Any]:
        return DelaySet(self.client, "q", clock=self.clock)

    def rules(self) -> Iterable[tuple[int, Callable[[], None]]]:
        return [
            *super().rules(),
            (8, self.schedule),
            (4, self.schedule_again),
            (3, self.edit),
            (2, self.move_whole),
        ]

    # --- producers -----------------------------------------------------------------------------

    def schedule(self) -> None:
        """New entries, some twice in one batch, some under a name that is taken."""
        if len(self.busy()) > self.most:
            return
        ids = [f"e{len(self.units) + n}" for n in range(self.rng.choice([1, 1, 3, 20]))]
        ids += self.rng.sample(ids, k=1) if self.rng.random() < 0.3 else []
        ids += self.rng.sample(sorted(self.units), k=min(len(self.units), self.rng.randrange(2)))
        self.put([(id, self.content()) for id in ids], self.rng.choice(["new", "new", "move"]))

    def schedule_again(self) -> None:
        """Known entries: the same again, other content, or moved; also while being worked on."""
        known = [u for u in self.units.values() if u.state != "gone"]
        if not known:
            return
        waiting_for_more = [u for u in known if u.follow]
        picked = self.rng.choices(known, k=self.rng.choice([1, 3]))
        picked += self.rng.sample(waiting_for_more, k=min(2, len(waiting_for_more)))
        keep = self.rng.random() < 0.5
        entries = [(u.id, u.payload if keep else self.content()) for u in picked]
        self.put(entries, self.rng.choice(["new", "move", "move"]))

    def put(self, entries: list[tuple[str, bytes]], mode: Any) -> None:
        after = self.rng.choice([None, 0, 1, LEASE // 2, LEASE])
        at = self.now + self.rng.choice([-LEASE, 0, 1, 1000, LEASE]) if after is None else None
        times = {"at": at} if after is None else {"after": after}
        given = {name: ms / 1000 for name, ms in times.items() if ms is not None}
        call = self.queue.schedule.op(entries, **given, mode=mode)
        if self.conf.get("closed"):
            return self.refused(call)
        ready = at if at is not None else self.now + (after or 0)
        expected = [self.put_one(id, payload, ready, at is None, mode) for id, payload in entries]
        said = self.run(call)
        assert [(s.word, s.ready_ms) for s in said] == expected, entries

    def put_one(
        self, id: str, payload: bytes, ready: int, relative: bool, mode: str
    ) -> tuple[str, int]:
        unit = self.units.get(id)
        if unit is None or unit.state in ("done", "gone"):
            fresh = Unit(id, payload, "delayed", ready)
            fresh.executions = unit.executions if unit else 0
            self.units[id] = fresh
            return "ok", ready
        if mode == "move" and unit.state == "delayed":
            unit.at, unit.payload, unit.op, unit.follow = ready, payload, "-", None
            unit.since = 0
            return "moved", ready
        if mode == "move" and unit.state == "pending":
            unit.follow = (ready, payload)
            return "again", ready
        there = unit.at if unit.state == "delayed" else 0
        same = unit.payload == payload and (not there or there == ready)
        word = "trash" if unit.state == "trash" else "same"
        return (word if same else "exists"), there

    # --- the book ------------------------------------------------------------------------------

    def in_state(self, unit: Unit, state: str) -> bool:
        return unit.state == ("delayed" if state == "waiting" else state)

    def shift(self, unit: Unit, to: str, at: int) -> None:
        super().shift(unit, "delayed" if to == "waiting" else to, at)
        if to == "gone":
            unit.follow = None

    def finish(self, unit: Unit, s: Settlement) -> None:
        follow = unit.follow
        super().finish(unit, s)
        if follow is None:
            return
        ready, payload = follow
        fresh = Unit(unit.id, payload, "delayed", ready)
        fresh.executions = unit.executions
        self.units[unit.id] = fresh

    def take(self) -> None:
        self.due_before = None
        super().take()

    def bring_back(self) -> None:
        super().bring_back()
        due = [u for u in self.of("delayed") if u.at <= self.now]
        self.due = [unit.id for unit in sorted(due, key=place)]

    def may_be_delivered(self, unit: Unit) -> None:
        assert unit.state == "delayed"
        assert unit.at <= self.now, "before its time"

    def after_take(self, taken: Any, n: int) -> None:
        due = [] if self.conf.get("paused") else self.due
        assert [d.id for d in taken.deliveries] == due[:n], "not the first in order"
        assert taken.more == (len(due) > n and not self.stopped)

    def check_room(self) -> None:
        super().check_room()
        bodies = self.client.hgetall(self.key("body"))
        live = [u for u in self.units.values() if u.state not in ("done", "gone")]
        assert {k.decode(): v for k, v in bodies.items()} == {u.id: u.payload for u in live}
        follow = self.client.hgetall(self.key("next"))
        assert {k.decode(): v for k, v in follow.items()} == {
            u.id: b"%d %b" % u.follow for u in live if u.follow
        }

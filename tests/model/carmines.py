"""The Carmine queue's part of the book: states in Carmine's words, refusals, what runs again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from redisq_ops.core.model.clock import duration_ms
from redisq_ops.core.model.entry import Settlement
from redisq_ops.core.queues.carmine import CarmineQueue
from redisq_ops.core.redis.operation import run, together

from ..core.queues import carmine_reader
from .model import LEASE, Model, Unit, place

END = b"end-of-circle"


class CarmineModel(Model):
    carmines = "q"
    """what Carmine calls it"""
    most = 40
    ready_kept = True
    waits = ("fail", "ack", "result")
    rests = (*Model.rests, "circle", "dry_runs")

    def make(self) -> CarmineQueue[Any]:
        self.over: dict[str, int] = {}
        self.dry, self.counting = 0, True
        return CarmineQueue(self.client, "carmine:q", clock=self.clock)

    def rules(self) -> Iterable[tuple[int, Callable[[], None]]]:
        return [*super().rules(), (8, self.enqueue), (8, self.enqueue_again)]

    # --- producers -----------------------------------------------------------------------------

    def enqueue(self) -> None:
        """New messages, some twice in one batch, some under an id that is taken."""
        if len(self.busy()) > self.most:
            return
        ids = [f"e{len(self.units) + n}" for n in range(self.rng.choice([1, 1, 3, 20]))]
        ids += self.rng.sample(ids, k=1) if self.rng.random() < 0.3 else []
        ids += self.rng.sample(sorted(self.units), k=min(len(self.units), self.rng.randrange(2)))
        self.put([(id, self.content()) for id in ids])

    def enqueue_again(self) -> None:
        """Known ids, those that are worked on or will run again above all."""
        known = list(self.units.values())
        if not known:
            return
        picked = self.rng.choices(known, k=self.rng.choice([1, 3]))
        held = self.of("pending")
        picked += self.rng.sample(held, k=min(2, len(held)))
        some = [unit for unit in known if unit.follow]
        picked += self.rng.sample(some, k=min(1, len(some)))
        resting = sorted(self.over)
        ids = [unit.id for unit in picked] + self.rng.sample(resting, k=min(2, len(resting)))
        self.put([(id, self.content()) for id in ids])

    def put(self, entries: list[tuple[str, bytes]]) -> None:
        backoff = self.rng.choice([0, 0, 1, LEASE // 2])
        requeue, update = self.rng.random() < 0.6, self.rng.random() < 0.4
        wait = backoff / 1000
        call = self.queue.enqueue.op(entries, backoff=wait, requeue=requeue, update=update)
        if self.conf.get("closed"):
            return self.refused(call)
        expected = [(id, self.put_one(id, new, backoff, requeue, update)) for id, new in entries]
        said = [(one.id, one.word) for one in self.run(call)]
        assert said == expected, (said, expected, requeue, update)

    def put_one(self, id: str, content: bytes, backoff: int, requeue: bool, update: bool) -> str:
        unit = self.units.get(id)
        ready = self.now + backoff
        if unit is None or unit.state in ("done", "gone"):
            until = self.over.get(id, 0)
            if until > self.now:
                if not requeue:
                    return "done-with-backoff"
                ready = max(ready, until)
            self.over.pop(id, None)
            self.units[id] = self.fresh(unit, id, content, ready)
            return "requeued" if until > self.now else "ok"
        if unit.state in ("dead", "trash"):
            return unit.state
        if unit.state == "pending" and requeue and not unit.follow:
            unit.follow = (0, content)
            return "requeued"
        if update and unit.follow:  # the latest content is what runs last
            unit.follow = (0, content)
            return "updated"
        if update and unit.state == "delayed":
            unit.payload, unit.op = content, "-"
            return "updated"
        if unit.state == "pending":
            return "locked-with-requeue" if unit.follow else "locked"
        return "queued-with-backoff" if unit.at > self.now else "queued"

    def fresh(self, unit: Unit | None, id: str, content: bytes, ready: int) -> Unit:
        new = Unit(id, content, "delayed", ready)
        new.executions = unit.executions if unit else 0
        return new

    # --- the book ------------------------------------------------------------------------------

    def in_state(self, unit: Unit, state: str) -> bool:
        return unit.state == ("delayed" if state == "waiting" else state)

    def shift(self, unit: Unit, to: str, at: int) -> None:
        super().shift(unit, "delayed" if to == "waiting" else to, at)
        if to == "gone":
            unit.follow = None
        if to == "dead" and unit.follow:  # newer content takes its place at once
            self.units[unit.id] = self.fresh(unit, unit.id, unit.follow[1], self.now)

    def finish(self, unit: Unit, s: Settlement) -> None:
        if unit.follow is None:
            self.over[unit.id] = self.now + duration_ms(s.delay or 0, "")
            return super().finish(unit, s)
        again = self.fresh(unit, unit.id, unit.follow[1], self.now + duration_ms(s.delay or 0, ""))
        self.units[unit.id] = again

    def bring_back(self) -> None:
        super().bring_back()
        due = [u for u in self.of("delayed") if u.at <= self.now]
        self.due = [unit.id for unit in sorted(due, key=place)]

    def may_be_delivered(self, unit: Unit) -> None:
        assert unit.state == "delayed"
        assert unit.at <= self.now, "before its time"
        if self.due:  # a worker that finds one starts the count of dry runs anew
            self.dry = 0

    def after_take(self, taken: Any, n: int) -> None:
        due = [] if self.conf.get("paused") else self.due
        assert [d.id for d in taken.deliveries] == due[:n], "not the first in order"
        assert taken.more == (len(due) > n and not self.stopped)
        if not due and not self.stopped and not self.conf.get("paused"):
            self.dry += 1

    def word(self, unit: Unit) -> str | None:
        """The state in Carmine's words; None where it has none, or the message is gone."""
        if unit.state == "pending" and unit.at > self.now:
            return "locked-with-requeue" if unit.follow else "locked"
        if unit.state == "pending":
            return "queued"
        if unit.state == "delayed":
            return "queued-with-backoff" if unit.at > self.now else "queued"
        if unit.id in self.over and unit.state == "done":
            later = self.over[unit.id] > self.now
            return "done-with-backoff" if later else "done-awaiting-gc"
        return None

    def check_room(self) -> None:
        raw = self.raw()
        done = {mid.decode() for mid in raw["done"]}
        for id in [id for id in self.over if id not in done]:
            assert self.over.pop(id) <= self.now, f"{id} is forgotten before its backoff is over"
        live = [u for u in self.units.values() if u.state in ("delayed", "pending")]
        hidden = [u for u in self.units.values() if u.state in ("dead", "trash")]
        seen = live + [self.units[id] for id in self.over]
        assert {k.decode(): v for k, v in raw["messages"].items()} == {
            u.id: u.payload for u in seen
        }
        assert self.rows("body") == {u.id: u.payload for u in hidden}
        assert self.rows("next") == {u.id: u.follow[1] for u in self.units.values() if u.follow}
        assert {mid.decode() for mid in raw["mid-circle"]} >= {u.id for u in seen}
        self.check_words(raw)
        if self.counting:
            assert int(raw["ndry-runs"] or 0) == self.dry

    def raw(self) -> carmine_reader.Raw:
        """What a Carmine client reads, its circle sound."""
        raw = carmine_reader.read(self.client, self.carmines)
        laid: Counter[bytes] = Counter(raw["mid-circle"])
        assert not laid or laid.pop(END) == 1
        assert set(laid.values()) <= {1}
        return raw

    def rows(self, part: str) -> dict[str, bytes]:
        return {id.decode(): value for id, value in self.client.hgetall(self.key(part)).items()}

    def check_words(self, raw: carmine_reader.Raw) -> None:
        """What a Carmine client reads, what we say, and what the book says are the same."""
        words = {unit.id: word for unit in self.units.values() if (word := self.word(unit))}
        read = carmine_reader.states(raw, self.now)
        assert {id: word for id, word in read.items() if word != "nx"} == words
        if self.rng.random() < 0.15:
            self.check_looks(words)

    def check_looks(self, words: dict[str, str]) -> None:
        """Pages and single looks, at times only: they take longer than the step itself."""
        pages = run(
            self.client,
            together(
                self.queue.page.op(state, max=500, payloads=True)
                for state in ("waiting", "delayed", "pending")
            ),
        )
        said = {entry.id: entry for page in pages for entry in page.entries}
        some = self.rng.sample(sorted(self.units), k=min(2, len(self.units)))
        some += self.rng.sample(sorted(self.over), k=min(2, len(self.over)))
        found = run(self.client, together(self.queue.get.op(id) for id in some))
        said |= {entry.id: entry for entry in found if entry is not None}
        assert {id: said[id].called for id in said if said[id].called} == {
            id: word for id, word in words.items() if id in said
        }
        for id, entry in said.items():
            unit = self.units[id]
            due = unit.state == "delayed" and unit.at <= self.now
            assert entry.state == ("waiting" if due else unit.state)
            assert entry.payload == (None if unit.state == "done" else unit.payload)
        assert set(words) - set(said) <= set(self.over)
        assert set(some) - set(said) == {id for id in some if self.is_gone(self.units[id])}

    def is_gone(self, unit: Unit) -> bool:
        return unit.state in ("done", "gone") and unit.id not in self.over

    def come_to_rest(self) -> None:
        self.counting = False  # the last looks aren't told here
        super().come_to_rest()

"""The book of a request queue of several shards: a request stays whole where it was submitted."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from random import Random
from typing import Any

from redisq_ops.core.model.entry import TakeResult
from redisq_ops.core.model.keys import Keys
from redisq_ops.core.queues.request import ShardedRequestQueue
from redisq_ops.core.redis.operation import run

from .model import Unit
from .requests import ENDED, Book, RequestModel
from .shards import MOST, Shards

REAPED = 16
"""entries that a visit brings back at most; a second one may bring more urgent ones"""


class ShardedRequestModel(Shards, RequestModel):
    def make(self) -> Any:
        RequestModel.make(self)
        self.looked, self.in_order = False, True
        return super().make()

    def opened(self, random: Random) -> ShardedRequestQueue[Any]:
        return ShardedRequestQueue(
            self.client, "q", shards=self.number, clock=self.clock, random=random
        )

    def rules(self) -> Iterable[tuple[int, Callable[[], None]]]:
        known = super().rules()
        return [*(r for r in known if r[1] != self.move_whole), (4, self.resize)]

    def resize(self) -> None:
        """Requests stay where they are; a shard is given up when its last one has left."""
        entry = self.entry()
        self.number = entry.shards if entry.old_shards else self.rng.randrange(1, MOST + 1)
        left = run(self.client, self.queue.resize.op(self.number))
        entry = self.entry()
        assert (entry.shards, bool(entry.old_shards)) == (self.number, left > 0)
        strays = [shard for shard in self.shards_of(self.there()) if shard >= self.number]
        assert left == len(strays)
        if not left:
            self.check_given_up()

    # --- takes ---------------------------------------------------------------------------------

    def take(self) -> None:
        self.looked = False
        back = [u for u in self.units.values() if u.state in ("pending", "delayed")]
        self.in_order = sum(u.at <= self.now for u in back) <= REAPED
        super().take()

    def may_be_delivered(self, unit: Unit) -> None:
        if not self.looked and not self.resting:
            self.observe()
            self.looked = True
        self.brought(unit)
        RequestModel.may_be_delivered(self, unit)

    def after_take(self, taken: TakeResult, n: int) -> None:
        ids = [delivery.id for delivery in taken.deliveries]
        assert len(set(ids)) == len(ids) and not (ids and self.conf.get("paused"))
        self.observe()
        if self.conf.get("paused"):
            return
        left = [book for book in self.there() if self.room_for(book) > 0]
        if self.aware and len(ids) < n and not taken.more:
            assert not left, ("there was work and room for it", left)
        if int(self.conf.get("aging") or 0) or len(ids) < n or not self.in_order:
            return
        # Priorities are strict within a shard; where it was looked at last, nothing more urgent is.
        least: dict[int, int] = {}
        for delivery in taken.deliveries:
            shard, book = (
                int(delivery.receipt.partition(":")[0]),
                self.book(self.units[delivery.id]),
            )
            least[shard] = max(least.get(shard, 0), book.priority)
        for book, shard in zip(left, self.shards_of(left), strict=True):
            assert book.priority >= least.get(shard, 0), "a more urgent one was passed by"

    # --- the book ------------------------------------------------------------------------------

    def there(self) -> list[Book]:
        return [book for book in self.books.values() if book.state != "gone"]

    def open_up(self) -> None:
        super().open_up()
        RequestModel.open_up(self)

    def swept(self, most: int) -> int:
        went = super().swept(most)
        self.retired()
        return went

    def retired(self) -> None:
        """Which shards a call comes by is chance: what is put off or let go of is seen there."""
        self.settle_touched()
        due = [b for b in self.there() if b.state in ENDED and b.retire <= self.now]
        kept = self.listed("open") | self.listed("fin")
        for book, keys in zip(due, self.homes(due), strict=True):
            held = any(self.has(book, s) for s in ("pending", "delayed", "dead", "trash"))
            if book.id in kept:
                at = int(self.client.zscore(keys["retire"], book.id))
                assert at == book.retire or (held and at > book.retire)
                book.retire = at
                continue
            assert not held
            book.state = "gone"
            for unit in self.has(book, "waiting"):
                unit.state, unit.error = "gone", None

    # --- the checks ----------------------------------------------------------------------------

    def check(self) -> None:
        self.settle_touched()
        super().check()

    def check_contents(self) -> None:
        RequestModel.check_room(self)

    def homes(self, books: Sequence[Book]) -> list[Keys]:
        return [self.places()[shard] for shard in self.shards_of(books)]

    def shards_of(self, books: Sequence[Book]) -> list[int]:
        """Found by their records; one that is nowhere is said to be in the first."""
        places = self.places()
        pipe = self.client.pipeline(transaction=False)
        for book in books:
            for keys in places:
                pipe.exists(f"{keys['r_']}{book.id}")
        said = pipe.execute()
        rows = [said[n * len(places) :][: len(places)] for n in range(len(books))]
        assert all(sum(row) <= 1 for row in rows), "a request in two shards"
        return [row.index(1) if any(row) else 0 for row in rows]

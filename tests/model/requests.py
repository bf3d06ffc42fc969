"""The request queue's part of the book: requests, tokens, limits, submissions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from redisq_ops.core.model.entry import Settlement
from redisq_ops.core.model.errors import Exists, NotFound, QueueClosed
from redisq_ops.core.model.keys import Keys
from redisq_ops.core.queues.request import RequestQueue
from redisq_ops.core.queues.request.digest import Digest
from redisq_ops.core.redis.operation import run

from .model import HOUR, LEASE, SETS, Model, Unit
from .wire import picture

LIVE = ("open", "sealed")
ENDED = ("done", "cancelled")


@dataclass
class Book:
    """One request as the book has it."""

    id: str
    priority: int
    limit: int
    digest: Digest
    created: int
    state: str = "open"
    paused: bool = False
    payloads: list[bytes] = field(default_factory=list)
    plan: list[bytes] = field(default_factory=list)
    """all that will be submitted; more than `payloads` while the producer is on its way"""
    submitted: tuple[int, int] = (0, 0)
    retire: int = 0
    before: str = ""
    cancel: str = ""
    results: dict[int, bytes] = field(default_factory=dict)


class RequestModel(Model):
    ready_kept = False

    def make(self) -> RequestQueue[Any]:
        self.touched = []
        self.books: dict[str, Book] = {}
        return RequestQueue(self.client, "q", clock=self.clock)

    def rules(self) -> Iterable[tuple[int, Callable[[], None]]]:
        return [
            *super().rules(),
            (8, self.submit),
            (2, self.submit_again),
            (2, self.submit_other_content),
            (3, self.begin),
            (4, self.go_on),
            (2, self.submit_the_rest),
            (5, self.control),
            (3, self.edit),
            (2, self.move_whole),
        ]

    # --- producers -----------------------------------------------------------------------------

    def submit(self) -> None:
        """A whole request, now and then an empty one, or one of more than a chunk."""
        if len(self.busy()) > self.most:
            return
        size = 130 if self.rng.random() < 0.02 else self.rng.choice([0, 1, 1, 3, 8, 8, 20])
        book = self.new([self.content() for _ in range(size)])
        if self.conf.get("closed"):
            before = picture(self.client)
            with pytest.raises(QueueClosed):
                self.send(book)
            assert picture(self.client) == before
            return
        done = self.send(book)
        assert done.word == "ok"
        self.accept(book, len(book.plan))
        self.seal(book)

    def submit_again(self) -> None:
        """The same submission by another process: there already, and nothing changes."""
        book = self.some(lambda b: b.plan == b.payloads and b.state != "open")
        if book is None:
            return
        before = picture(self.client)
        if book.state == "cancelled":
            with pytest.raises(Exists):
                self.send(book)
        else:
            assert self.send(book).word == self.word_for_there(book)
        assert picture(self.client) == before

    def word_for_there(self, book: Book) -> str:
        """What is said of a request that is there already."""
        return "trash" if self.has(book, "trash") or self.has(book, "gone") else "same"

    def submit_other_content(self) -> None:
        """A taken id with anything else behind it is refused."""
        book = self.some(lambda b: True)
        if book is None:
            return
        other = list(book.payloads)
        change = self.rng.randrange(5)
        if change == 0 or not other:
            other.append(b"one more")
        elif change == 1:
            other.pop()
        elif change == 2:
            other[self.rng.randrange(len(other))] += b"!"
        elif change == 3:
            other = [b"something else"]
        else:  # the same bytes, cut differently
            other[-1:] = [other[-1][:1], other[-1][1:]]
        if book.state == "open" and book.plan[: len(other)] == other[: len(book.plan)]:
            return  # that is a producer going on
        if book.state == "open" and other[: len(book.payloads)] == book.payloads:
            return
        before = picture(self.client)
        with pytest.raises(Exists):
            self.send(book, other)
        assert picture(self.client) == before

    def begin(self) -> None:
        """A producer that streams: what it has so far, not sealed."""
        if len(self.busy()) > self.most or self.conf.get("closed"):
            return
        size = 240 if self.rng.random() < 0.04 else self.rng.choice([3, 5, 9])
        book = self.new([self.content() for _ in range(size)])
        self.append(book, self.rng.randrange(4))

    def go_on(self) -> None:
        """The producer's next chunk; the last one seals, or a seal comes alone."""
        book = self.some(lambda b: b.state == "open" and len(b.plan) <= 100)
        if book is None:
            self.append_to_nothing()
            return
        if self.rng.random() < 0.3:
            self.append_out_of_order(book)
            return
        self.append(book, self.rng.randrange(1, 6), self.rng.random() < 0.7)

    def append(self, book: Book, count: int, seal: bool = True) -> None:
        start = len(book.payloads)
        chunk = book.plan[start : start + count]
        last = seal and start + len(chunk) == len(book.plan)
        digest = _digest(book, [*book.payloads, *chunk])
        done = self.run(
            self.queue.append.op(
                book.id,
                start + 1,
                chunk,
                before=str(_digest(book, book.payloads)),
                after=str(digest),
                seal=last,
                priority=book.submitted[0],
                limit=book.submitted[1],
            )
        )
        assert done.word == ("ok" if chunk or last or not start else self.word_for_there(book))
        self.accept(book, len(chunk))
        if last:
            self.seal(book)

    def append_out_of_order(self, book: Book) -> None:
        """A chunk that comes again late, or behind content that is not there: nothing changes."""
        before = picture(self.client)
        start = len(book.payloads)
        stale = str(_digest(book, [*book.payloads, b"lost"]))
        with pytest.raises(Exists):
            run(
                self.client,
                self.queue.append.op(book.id, start + 1, [b"x"], before=stale, after="y"),
            )
        if start > 1:
            first = str(_digest(book, book.payloads[:1]))
            fresh = str(_digest(book, []))
            late = self.queue.append.op(book.id, 1, book.payloads[:1], before=fresh, after=first)
            assert run(self.client, late).word == "past"
            sealing = self.queue.append.op(
                book.id, 1, book.payloads[:1], before=fresh, after=first, seal=True
            )
            with pytest.raises(Exists):
                run(self.client, sealing)
        assert picture(self.client) == before

    def append_to_nothing(self) -> None:
        before = picture(self.client)
        if not self.conf.get("closed"):
            with pytest.raises(NotFound):
                run(self.client, self.queue.append.op("none", 2, [b"x"], before="a", after="b"))
        assert picture(self.client) == before

    def submit_the_rest(self) -> None:
        """A producer killed half way, run again: it goes on where it was."""
        book = self.some(lambda b: b.state == "open" and len(b.plan) > 100)
        if book is None or len(self.busy()) > 3 * self.most:
            return
        assert self.send(book).word == "ok"
        self.accept(book, len(book.plan) - len(book.payloads))
        self.seal(book)

    def new(self, plan: list[bytes]) -> Book:
        priority, limit = self.rng.choice([0, 5, 5, 50, 99]), self.rng.choice([1, 1, 2, 4, 50])
        name = f"r{len(self.books)}"
        if self.rng.random() < 0.6:  # a name used before, when its request is gone
            used = {f"r{n}" for n in range(len(self.books))} - {
                b.id for b in self.books.values() if b.state != "gone"
            }
            name = self.rng.choice(sorted(used)) if used else name
        book = Book(name, priority, limit, Digest(priority, limit), self.now, plan=plan)
        book.submitted = (priority, limit)
        return book

    def send(self, book: Book, payloads: list[bytes] | None = None) -> Any:
        priority, limit = book.submitted
        return self.run(
            self.queue.submit.op(
                book.plan if payloads is None else payloads,
                id=book.id,
                priority=priority,
                limit=limit,
            )
        )

    def accept(self, book: Book, count: int) -> None:
        if self.books.get(book.id) is not book:
            for n in range(len(self.books.get(book.id, book).payloads)):
                self.units.pop(f"{book.id}/{n + 1}", None)
            old = self.books.pop(book.id, None)
            if old:
                self.books[f"{book.id}-{len(self.books)}"] = old
            self.books[book.id] = book
        for payload in book.plan[len(book.payloads) : len(book.payloads) + count]:
            book.payloads.append(payload)
            id = f"{book.id}/{len(book.payloads)}"
            self.units[id] = Unit(id, payload)
        self.settled(book)

    def seal(self, book: Book) -> None:
        book.state = "sealed"
        self.settled(book)

    # --- operators -----------------------------------------------------------------------------

    def control(self) -> None:
        second_thoughts = self.rng.random() < 0.3
        book = self.some(lambda b: b.state == "cancelled" or not second_thoughts)
        if book is None:
            return
        verbs = ["cancel", "cancel", "reopen", "pause", "resume", "limit", "priority"]
        if book.state == "cancelled":
            verbs += ["reopen"] * 6
        verb: Any = self.rng.choice(verbs)
        value, before = "", "-"
        if verb == "limit":
            value = str(self.rng.choice([1, 2, 7, 60]))
        elif verb == "priority":
            value = str(self.rng.choice([0, 5, 50, 99]))
        elif verb == "reopen":
            value = book.cancel
        self.operations += 1
        call = self.queue.control.op(f"control-{self.operations}", 1, verb, book.id, value)
        live = book.state in LIVE
        if (
            live == (verb == "reopen")
            or (verb == "reopen" and book.state != "cancelled")
            or (verb == "reopen" and book.retire <= self.now)
        ):
            before_all = picture(self.client)
            with pytest.raises(QueueClosed):
                self.run(call)
            assert picture(self.client) == before_all
            return
        word = "ok"
        if verb == "cancel":
            before, book.cancel = book.state, book.state
            book.state, book.retire = "cancelled", self.now + self.setting("trash_ms")
        elif verb == "reopen":
            before, book.state = "cancelled", book.cancel
        elif verb in ("pause", "resume"):
            before = str(int(book.paused))
            word = "same" if book.paused == (verb == "pause") else "ok"
            book.paused = verb == "pause"
        elif verb == "limit":
            before, word = str(book.limit), "same" if book.limit == int(value) else "ok"
            book.limit = int(value)
        else:
            before, word = str(book.priority), "same" if book.priority == int(value) else "ok"
            book.priority = int(value)
        self.settled(book)
        assert self.run(call) == (word, before)

    def misspelt(self, ids: Sequence[str]) -> list[str]:
        near = [id.rpartition("/")[::2] for id in ids[:3]]
        return [
            *super().misspelt(ids),
            "r0",
            "r0/",
            "r0/x",
            "r0/0",
            "r0/-1",
            "/1",
            *(f"{rid}/0{n}" for rid, n in near),
            *(f"{rid}/{n}.0" for rid, n in near),
        ]

    def open_up(self) -> None:
        for book in list(self.books.values()):
            if book.state == "open":
                run(self.client, self._seal_call(book))
                self.seal(book)
            if book.paused and book.state in LIVE:
                self.operations += 1
                run(
                    self.client,
                    self.queue.control.op(f"control-{self.operations}", 1, "resume", book.id),
                )
                book.paused = False

    def _seal_call(self, book: Book) -> Any:
        known = str(_digest(book, book.payloads))
        start = len(book.payloads) + 1
        return self.queue.append.op(book.id, start, [], before=known, after=known, seal=True)

    # --- the book ------------------------------------------------------------------------------

    def some(self, wanted: Callable[[Book], bool]) -> Book | None:
        there = [b for b in self.books.values() if b.state != "gone" and wanted(b)]
        return self.rng.choice(there) if there else None

    def book(self, unit: Unit) -> Book:
        return self.books[unit.id.rpartition("/")[0]]

    def has(self, book: Book, state: str) -> list[Unit]:
        ids = (f"{book.id}/{n + 1}" for n in range(len(book.payloads)))
        return [unit for id in ids if (unit := self.units[id]).state == state]

    def room_for(self, book: Book) -> int:
        """How many of its entries may be taken now."""
        if book.state not in LIVE or book.paused:
            return 0
        return min(book.limit - len(self.has(book, "pending")), len(self.has(book, "waiting")))

    def shift(self, unit: Unit, to: str, at: int) -> None:
        super().shift(unit, to, at)
        self.touched.append(self.book(unit))

    def settled(self, book: Book) -> None:
        live = any(self.has(book, state) for state in ("waiting", "pending", "delayed"))
        if book.state == "sealed" and not live:
            book.state, book.retire = "done", self.now + self.setting("keep_ms")
        elif book.state == "done" and live:
            book.state = "sealed"

    def finish(self, unit: Unit, s: Settlement) -> None:
        super().finish(unit, s)
        if s.outcome == "result":
            self.book(unit).results[int(unit.id.rpartition("/")[2])] = s.value

    def bring_back(self) -> None:
        due = [u for u in self.of("delayed") if u.at <= self.now]
        late = [u for u in self.of("pending") if u.at <= self.now]
        for unit in sorted(due, key=lambda u: (u.at, u.id))[:16]:
            self.shift(unit, "waiting", 0)
        assert late is not None
        self.reap()

    touched: list[Book]

    def may_be_delivered(self, unit: Unit) -> None:
        book = self.book(unit)
        assert unit.state == "waiting", unit
        assert not self.conf.get("paused")
        assert self.room_for(book) > 0, (unit, book)

    def after_take(self, taken: Any, n: int) -> None:
        ids = [d.id for d in taken.deliveries]
        assert len(set(ids)) == len(ids)
        left = [b for b in self.books.values() if self.room_for(b) > 0]
        if self.conf.get("paused"):
            return
        if len(ids) < n and not taken.more:
            assert not left, ("there was work and room for it", left)
        if (
            ids
            and left
            and not taken.more
            and not self.stopped
            and not int(self.conf.get("aging") or 0)
        ):
            worst = max(self.books[id.rpartition("/")[0]].priority for id in ids)
            assert min(b.priority for b in left) >= worst

    def retired(self) -> None:
        self.settle_touched()
        kept = self.listed("open") | self.listed("fin")
        due = [b for b in self.books.values() if b.state in ENDED and b.retire <= self.now]
        for book in sorted(due, key=lambda b: (b.retire, b.id))[:10]:
            if any(self.has(book, s) for s in ("pending", "delayed", "dead", "trash")):
                book.retire = self.now + HOUR
        for book in due:
            if book.id in kept:
                continue
            assert not any(self.has(book, s) for s in ("pending", "delayed", "dead", "trash"))
            book.state = "gone"
            for unit in self.has(book, "waiting"):
                unit.state, unit.error = "gone", None

    def is_cancelled(self, unit: Unit) -> bool:
        return self.book(unit).state == "cancelled" or (
            self.book(unit).state == "gone" and unit.state == "gone"
        )

    # --- the checks ----------------------------------------------------------------------------

    def settle_touched(self) -> None:
        for book in self.touched:
            self.settled(book)
        self.touched.clear()

    def after_step(self) -> None:
        self.settle_touched()
        super().after_step()

    def check(self) -> None:
        self.settle_touched()
        super().check()

    def check_room(self) -> None:
        books = [b for b in self.books.values() if b.state != "gone"]
        pipe = self.client.pipeline(transaction=False)
        names = (
            "state",
            "priority",
            "limit",
            "paused",
            "total",
            "waiting",
            "pending",
            "delayed",
            "done",
            "dead",
            "trash",
            "purged",
            "digest",
        )
        for book, keys in zip(books, self.homes(books), strict=True):
            pipe.hmget(f"{keys['r_']}{book.id}", names)
            pipe.hgetall(f"{keys['res_']}{book.id}:0")
        replies = iter(pipe.execute())
        for book in books:
            row = [(v or b"0").decode() for v in next(replies)]
            results = {int(n): value for n, value in next(replies).items()}
            counts = [
                len(self.has(book, s))
                for s in ("waiting", "pending", "delayed", "done", "dead", "trash", "gone")
            ]
            known = (book.state, book.priority, book.limit, int(book.paused), len(book.payloads))
            want = [*map(str, (*known, *counts)), str(_digest(book, book.payloads))]
            assert row == want, (
                book.id,
                dict(zip(names, zip(row, want, strict=True), strict=True)),
            )
            gone = {-int(unit.id.rpartition("/")[2]): b"" for unit in self.has(book, "gone")}
            assert results == book.results | gone, book.id
        for keys in self.places():
            for id, payload in self.client.hgetall(keys["edited"]).items():
                unit = self.units[id.decode()]
                assert unit.payload == payload and unit.state not in ("done", "gone")
        assert self.listed("open") == {b.id for b in books if b.state in LIVE}

    def places(self) -> list[Keys]:
        return [self.queue.keys]

    def homes(self, books: Sequence[Book]) -> list[Keys]:
        """Where each request is."""
        return [self.queue.keys] * len(books)

    def listed(self, part: str) -> set[str]:
        """The requests in a sorted set of theirs."""
        return {m.decode() for keys in self.places() for m in self.client.zrange(keys[part], 0, -1)}


def _digest(book: Book, payloads: Sequence[bytes]) -> Digest:
    digest = Digest(*book.submitted)
    for payload in payloads:
        digest.add(payload)
    return digest


__all__ = ["HOUR", "LEASE", "SETS", "RequestModel"]

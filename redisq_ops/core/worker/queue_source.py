"""A worker's queues: what it holds of each, and when to take from it again."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from math import inf
from shlex import quote
from time import monotonic

from ..engine.queue import Queue
from ..model.entry import Failure, Limit, Settlement, TakeResult
from ..model.settings import MAX_BATCH, MAX_LIMIT
from ..redis.operation import BlockingClient, Description
from .handler import Work

log = logging.getLogger("redisq_ops.worker")

CORRUPT_S = 5.0
"""seconds between two looks at a queue with a corrupt value"""
_ROUND_BYTES = 4 * 1024 * 1024
_MESSAGE, _END = 200, 80
"""characters of a failure's message that the log shows, and how many of them are its end"""

Redacted = Callable[[Failure], Failure]


@dataclass(slots=True, eq=False)
class QueueSource:
    """One queue of a worker. ``look_at``: when to take from it, in monotonic seconds; 0: now,
    inf: when its wake list has an element."""

    queue: Queue[BlockingClient]
    lease_ms: int
    redacted: Redacted
    """returns what the log may show of a failure"""
    held: set[Work] = field(default_factory=set)
    finished: list[Work] = field(default_factory=list)
    settling: int = 0
    """finished work that is being settled now"""
    asked: int = 0
    """entries that are being taken now"""
    plenty: bool = False
    """whether the last take returned as many as it asked for"""
    look_at: float = 0.0
    woken: bool = False
    """whether a hint came during a take: the take may have been too early for the new entry"""
    empty: bool = False
    """whether the last take, with nothing else in progress, found no entry"""
    limits_at: float = 0.0
    """monotonic seconds of the next check whether limits keep slots idle; inf: it was logged"""
    known: set[str] = field(default_factory=set)
    """types of errors that were logged"""

    def is_due(self, now: float) -> bool:
        """Whether to take now; during another take only where the last one was full."""
        return self.look_at <= now and (not self.asked or self.plenty)

    def ask(
        self, n: int, consumer: str, settling: Sequence[Work] = ()
    ) -> Description[TakeResult] | Description[tuple[list[str], TakeResult | Exception]]:
        """Take up to ``n`` entries; ``settling``: work that the same call settles before."""
        self.asked += n
        self.woken = False
        if not settling:
            return self.queue.take.op(n, consumer=consumer, lease_ms=self.lease_ms)
        ends = settlements(settling)
        return self.queue._settle_and_take(ends, n, consumer, self.lease_ms)

    def set_aside(self, why: Exception) -> None:
        """Leave the queue alone for a while, because a value in it is corrupt."""
        self.look_at = monotonic() + CORRUPT_S
        if str(why) not in self.known:
            self.known.add(str(why))
            log.error("%s: %s; trying again every %.0f s", self.queue.name, why, CORRUPT_S)

    def renew(self, works: Sequence[Work]) -> list[bool]:
        """Extend leases; False for each that is lost, which is marked as such."""
        replies: list[bool] = []
        for at in range(0, len(works), MAX_BATCH):
            part = works[at : at + MAX_BATCH]
            replies += self.queue.extend([work.delivery for work in part], self.lease_ms)
        for work, ours in zip(works, replies, strict=True):
            # While work is being settled, its lease may be gone because of the settlement.
            if not ours and work.settlement is None:
                self.lose(work)
        return replies

    def lose(self, work: Work) -> None:
        if not work.lost:
            work.lost = True
            log.warning("lost lease: %s, its result is dropped", address(work))

    def to_settle(self) -> list[Work]:
        """Finished work for one call, bounded in number and bytes; call `settled` afterwards."""
        part: list[Work] = []
        size = 0
        for work in self.finished[:MAX_BATCH]:
            assert work.settlement is not None
            size += len(work.settlement.value)
            if part and size > _ROUND_BYTES:
                break
            part.append(work)
        del self.finished[: len(part)]
        self.settling += len(part)
        return part

    def settled(self, works: Sequence[Work], replies: Sequence[str] | Exception) -> None:
        """Take in the queue's replies for ``works``; after an error they are settled again."""
        self.settling -= len(works)
        if isinstance(replies, Exception):
            self.finished[:0] = works
            return
        self.held.difference_update(works)
        if not self.queue.keeps_results:
            self._warn_of_results(works)
        for work, word in zip(works, replies, strict=True):
            if word != "done":
                self._report(work, word)

    def _warn_of_results(self, works: Sequence[Work]) -> None:
        """Log once that this queue keeps no results, and that one was dropped."""
        for work in works if "result" not in self.known else ():
            if (end := work.settlement) is not None and end.outcome == "result" and end.value:
                self.known.add("result")
                log.warning(
                    "queue %s keeps no results: what the handler returned for %s is dropped; let "
                    "it return None, or use a request queue or a delay set",
                    self.queue.name,
                    work.id,
                )
                return

    def tell_limits(self, reached: Sequence[Limit], idle: int, slots: int) -> None:
        """Log once that slots are idle because of a limit, and how to raise it."""
        if not reached:
            return
        self.limits_at = inf
        first, more = reached[0], len(reached) - 1
        name, most = quote(self.queue.name), min(first.most + idle, MAX_LIMIT)
        if first.what == "request":
            rule, command = "limit", f"request limit {name}/{quote(first.id)} {most}"
        else:
            rule, command = "cap", f"client cap {name} {quote(first.id)} {most}"
        others = f" (so are {more} more)" if more else ""
        log.warning(
            "queue %s: %s %s is at its %s of %d%s: %d of %d slots idle; raise it with: redisq %s",
            self.queue.name,
            first.what,
            first.id,
            rule,
            first.most,
            others,
            idle,
            slots,
            command,
        )

    def _report(self, work: Work, word: str) -> None:
        if word == "stale":
            self.lose(work)
        elif word != "released":
            assert work.settlement is not None
            failure = Failure.decoded(work.settlement.value) or Failure("failure")
            if word == "dead":
                attempts = f" after attempt {work.attempt}"
                self._log_failure(logging.WARNING, "dead letter", work, attempts, failure)
            else:
                wait = self.queue._retry_delay_ms(work.settlement)
                when = "" if wait is None else f" in {wait / 1000:.1f} s"
                # Only the first failure of a type is a warning.
                level = logging.INFO if failure.type in self.known else logging.WARNING
                self._log_failure(level, "retry", work, when, failure)
                self.known.add(failure.type)

    def _log_failure(self, level: int, word: str, work: Work, how: str, failure: Failure) -> None:
        if not log.isEnabledFor(level):
            return
        shown = self.redacted(failure)
        log.log(level, "%s: %s%s: %s", word, address(work), how, summary(shown))
        if shown.traceback:
            log.debug("traceback of %s:\n%s", address(work), escaped(shown.traceback, "\n"))


def settlements(works: Sequence[Work]) -> list[Settlement]:
    return [work.settlement for work in works if work.settlement is not None]


def address(work: Work) -> str:
    return f"{work.queue}/{work.id}"


def escaped(text: str, keep: str = "") -> str:
    """The text with control and invisible characters, except ``keep``, as escapes."""
    if text.isprintable():
        return text
    return "".join(
        char if char.isprintable() or char in keep else char.encode("unicode_escape").decode()
        for char in text
    )


def summary(failure: Failure) -> str:
    """A failure's type and message in one line; the middle of a long message is left out."""
    kind, message = escaped(failure.type), failure.message.strip()
    if len(message) > _MESSAGE:
        message = f"{message[: _MESSAGE - _END]} … {message[-_END:]}"
    return f"{kind}: {escaped(message)}" if message else kind


class QueueRotation:
    """All queues of a worker; they take turns, or the first is asked first (``in_order``)."""

    def __init__(
        self,
        queues: Sequence[Queue[BlockingClient]],
        lease_ms: int,
        redacted: Redacted,
        in_order: bool = False,
    ) -> None:
        self._in_order = in_order
        self._by_name = {queue.name: QueueSource(queue, lease_ms, redacted) for queue in queues}
        self._all = tuple(self._by_name.values())
        self._rotation = deque(self._all)
        self.by_wake_list = {keys["wake"]: s for s in self for keys in s.queue.shard_keys}
        self.since: float | None = None
        """since when (monotonic seconds) finished work waits to be settled"""

    def __iter__(self) -> Iterator[QueueSource]:
        return iter(self._all)

    @property
    def names(self) -> list[str]:
        return list(self._by_name)

    @property
    def first(self) -> QueueSource:
        return self._rotation[0]

    # Called several times per exchange, so without generators.

    def held(self) -> int:
        n = 0
        for source in self._all:
            n += len(source.held)
        return n

    def finished(self) -> int:
        n = 0
        for source in self._all:
            n += len(source.finished)
        return n

    def running(self) -> int:
        n = 0
        for source in self._all:
            n += len(source.held) - len(source.finished) - source.settling
        return n

    def asked(self) -> int:
        n = 0
        for source in self._all:
            n += source.asked
        return n

    def unsettled(self) -> list[Work]:
        held = chain.from_iterable(source.held for source in self)
        return [work for work in held if work.settlement is None]

    def finish(self, work: Work, settlement: Settlement) -> None:
        work.settlement = settlement
        self._by_name[work.queue].finished.append(work)
        if self.since is None:
            self.since = monotonic()

    def drop(self, work: Work) -> None:
        """Forget work whose lease is lost."""
        self._by_name[work.queue].held.discard(work)

    def next(self, settling: Sequence[QueueSource]) -> QueueSource | None:
        """The queue to take from now; it becomes the last in turn.

        ``settling``: queues with settlements in the same exchange, which may make room.
        """
        now = monotonic()
        for source in self._rotation:
            if source.is_due(now) or source in settling:
                if not self._in_order:
                    self._rotation.remove(source)
                    self._rotation.append(source)
                return source
        return None

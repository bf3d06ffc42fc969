"""A worker's queues: what it holds of each, and when to take from it again."""

from __future__ import annotations

import logging
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from math import inf
from shlex import quote
from time import monotonic

from ..engine.queue import Queue
from ..model.entry import Failure, Limit, Settlement, TakeResult
from ..model.errors import Unreadable
from ..model.settings import MAX_BATCH, MAX_LIMIT
from ..redis.operation import BlockingClient, Description
from .handler import Work, log_fields
from .retry import Failed, traceback_of

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
    aside: list[Work] = field(default_factory=list)
    """finished work that a damaged shard didn't settle; it keeps its slots"""
    aside_until: float = 0.0
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
    """what is logged only once"""
    ends: Counter[str] = field(default_factory=Counter)
    """how many attempts ended in which way: the fields of `Tally`"""

    def is_due(self, now: float) -> bool:
        """Whether to take now; during another take only where the last one was full."""
        return self.look_at <= now and (not self.asked or self.plenty)

    def ask(
        self, n: int, consumer: str, settling: Sequence[Work] = ()
    ) -> (
        Description[TakeResult]
        | Description[tuple[Sequence[str | Exception], TakeResult | Exception]]
    ):
        """Take up to ``n`` entries; ``settling``: work that the same call settles before."""
        self.asked += n
        self.woken = False
        if not settling:
            return self.queue.take.op(n, consumer=consumer, lease=self.lease_ms / 1000)
        ends = settlements(settling)
        return self.queue._settle_and_take(ends, n, consumer, self.lease_ms)

    def set_aside(self, why: Exception) -> None:
        """Leave the queue alone for a while, because a value in it is corrupt."""
        self.look_at = monotonic() + CORRUPT_S
        self._tell_once(why)

    def _tell_once(self, why: Exception) -> None:
        if str(why) not in self.known:
            self.known.add(str(why))
            log.error("%s: %s; trying again every %.0f s", self.queue.name, why, CORRUPT_S)

    def renew(self, works: Sequence[Work]) -> list[bool]:
        """Extend leases; False for each that is lost, which is marked as such."""
        replies: list[bool] = []
        for at in range(0, len(works), MAX_BATCH):
            part = works[at : at + MAX_BATCH]
            replies += self.queue.extend([work.delivery for work in part], self.lease_ms / 1000)
        for work, ours in zip(works, replies, strict=True):
            # While work is being settled, its lease may be gone because of the settlement.
            if not ours and work.settlement is None:
                self.lose(work)
        return replies

    def lose(self, work: Work) -> None:
        if not work.lost:
            work.lost = True
            self.ends["lost"] += 1
            fields = log_fields(work)
            log.warning("lost lease: %s, its result is dropped", address(work), extra=fields)

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

    def settled(
        self, works: Sequence[Work], replies: Sequence[str | Exception] | Exception
    ) -> Exception | None:
        """Take in the queue's replies for ``works``; what had an error is settled again. Returns
        one of the errors, unless it is of a damaged shard only: that is tried again later."""
        self.settling -= len(works)
        words = [replies] * len(works) if isinstance(replies, Exception) else replies
        ended, failed = list[Work](), dict[Work, Exception]()
        for work, word in zip(works, words, strict=True):
            if isinstance(word, Exception):
                failed[work] = word
                continue
            ended.append(work)
            if word == "done":
                self.ends["done"] += 1
            else:
                self._report(work, word)
        self.held.difference_update(ended)
        if not self.queue.keeps_results:
            self._warn_of_results(ended)
        error = next(iter(failed.values()), None)
        if ended and isinstance(error, Unreadable):  # of a shard: the others' are settled
            self.aside += failed
            self.aside_until = monotonic() + CORRUPT_S
            self._tell_once(error)
            return None
        self.finished[:0] = failed
        return error

    def bring_back(self, now: float = inf) -> bool:
        """Let what was set aside be settled again, once it is time; whether there was anything."""
        if not self.aside or now < self.aside_until:
            return False
        self.finished += self.aside
        self.aside = []
        return True

    def _warn_of_results(self, works: Sequence[Work]) -> None:
        """Log once that this queue keeps no results, and count those that are dropped."""
        for work in works:
            if (end := work.settlement) is None or end.outcome != "result" or not end.value:
                continue
            self.ends["dropped"] += 1
            if "result" not in self.known:
                self.known.add("result")
                log.warning(
                    "queue %s keeps no results: what the handler returned for %s is dropped; let "
                    "it return None, or use a request queue, a delay set or a fair queue",
                    self.queue.name,
                    work.id,
                    extra=log_fields(work),
                )

    def tell_limits(self, reached: Sequence[Limit], idle: int, slots: int) -> None:
        """Log once that slots are idle because of a limit, and how to raise it."""
        if not reached:
            return
        self.limits_at = inf
        first, more = reached[0], len(reached) - 1
        name, id, most = quote(self.queue.name), quote(first.id), first.most + idle
        at = f"is limited to {first.rate}"
        if first.what == "queue":
            command = f"settings {name} rate=…"
        elif first.rate:
            command = f"client rate {name} {id} …"
        elif first.what == "request":
            at = f"is at its limit of {first.most}"
            command = f"request limit {name}/{id} {min(most, MAX_LIMIT)}"
        else:
            at = f"is at its cap of {first.most}"
            command = f"client cap {name} {id} {most}"
        log.warning(
            "queue %s%s %s%s: %d of %d slots idle; raise it with: redisq %s",
            self.queue.name,
            "" if first.what == "queue" else f": {first.what} {first.id}",
            at,
            f" (so are {more} more)" if more else "",
            idle,
            slots,
            command,
        )

    def _report(self, work: Work, word: str) -> None:
        if word == "stale":
            self.lose(work)
        elif word == "released":
            self.ends["released"] += 1
        elif word == "dead":
            self.ends["dead"] += 1
            self._log_failure(logging.ERROR, "dead letter", work, f" after attempt {work.attempt}")
        else:
            self.ends["retried"] += 1
            assert work.settlement is not None
            wait = self.queue._retry_delay_ms(work.settlement)
            when = "" if wait is None else f" in {wait / 1000:.1f} s"
            more = {} if wait is None else {"wait_ms": wait}
            self._log_failure(logging.WARNING, "retry", work, when, **more)

    def _log_failure(self, level: int, word: str, work: Work, how: str, **more: int) -> None:
        """Log a failure; of a dead letter, or with debug messages, also the traceback.

        ``exc_info`` is the handler's error, unless a part of it is redacted: then the record has
        the redacted text only.
        """
        error, work.error = work.error, None  # it refers to the frames of the handler
        if not log.isEnabledFor(level) or work.settlement is None:
            return
        failure = Failure.decoded(work.settlement.value) or Failure("failure")
        program = (
            f"{escaped(error.program)}: " if isinstance(error, Failed) and error.program else ""
        )
        traced = level >= logging.ERROR or log.isEnabledFor(logging.DEBUG)
        if error is None or isinstance(error, Failed) or not traced:
            error = None
        else:
            failure = replace(failure, traceback=traceback_of(error))
        shown = self.redacted(failure)
        trace = shown.traceback.rstrip()
        if shown.message != failure.message:  # the traceback ends with it
            trace = trace.replace(failure.message, shown.message)
        text = f"{word}: {address(work)}{how}: {program}{summary(shown)}"
        known = (type(error), error, error.__traceback__) if error and shown == failure else None
        fields = {**log_fields(work), "error": shown.type, **more}
        record = log.makeRecord(log.name, level, __file__, 0, "%s", (text,), known, extra=fields)
        record.exc_text = escaped(trace, "\n") if error else None
        log.handle(record)


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


@dataclass(frozen=True, slots=True)
class Tally:
    """What a worker did until it ended, and ``why`` it ended.

    Attempts by their end: ``done``; ``retried``: failed, to be tried again; ``dead``: now dead
    letters; ``released``: given back; ``lost``: ended after their lease. ``unsent``: entries whose
    settlement didn't reach the server; their leases will expire. ``dropped``: results that a queue
    didn't keep.
    """

    why: str
    done: int = 0
    retried: int = 0
    dead: int = 0
    released: int = 0
    lost: int = 0
    unsent: int = 0
    dropped: int = 0

    def __str__(self) -> str:
        words = {
            "done": self.done,
            "to be retried": self.retried,
            "dead": self.dead,
            "given back": self.released,
            "lost leases": self.lost,
            "not settled": self.unsent,
            "results dropped": self.dropped,
        }
        did = ", ".join(f"{n} {word}" for word, n in words.items() if n)
        return f"{self.why}: {did or 'nothing was done'}"


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
        self._looks = deque(self._all)
        self.since: float | None = None
        """since when (monotonic seconds) finished work waits to be settled"""

    def __iter__(self) -> Iterator[QueueSource]:
        return iter(self._all)

    @property
    def names(self) -> list[str]:
        return list(self._by_name)

    def look_up(self) -> QueueSource:
        """The queue that is looked at without a hint; also ``in_order`` each has its turn."""
        self._looks.rotate(-1)
        return self._looks[0]

    def by_wake_list(self) -> dict[str, QueueSource]:
        """All queues by their wake lists: one for each shard, of which a queue may get more."""
        return {keys["wake"]: source for source in self for keys in source.queue.shard_keys}

    def aside_until(self) -> list[float]:
        """When finished work that was set aside is to be settled again."""
        return [source.aside_until for source in self._all if source.aside]

    def bring_back(self, now: float) -> None:
        for source in self._all:
            if source.bring_back(now) and self.since is None:
                self.since = now

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

    def tally(self, why: str) -> Tally:
        ends = sum((source.ends for source in self), Counter[str]())
        return Tally(why, unsent=self.held(), **ends)

    def unsettled(self) -> list[Work]:
        held = chain.from_iterable(source.held for source in self)
        return [work for work in held if work.settlement is None]

    def queue(self, name: str) -> Queue[BlockingClient]:
        return self._by_name[name].queue

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

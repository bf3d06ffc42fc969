"""The queue: what workers call, on top of what operators change and of what can be read.

`Queue` is the class that `ops`, the command line, the dashboard and Spark know; they never use a
queue's keys. A kind of queue subclasses it with its own Lua and its own way to wait. Entries that
don't wait are kept alike in all kinds of ours, so settling, recovery, paging and bulk moves are
written once, here and in the base classes. `optional_features` has what only some kinds can do.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import partial
from typing import Any, ClassVar
from urllib.parse import unquote_to_bytes

from ..model.attachment import Attachment
from ..model.clock import Seconds, duration_ms
from ..model.entry import LEASES_LOST, Delivery, Entry, Settlement, TakeResult, task_of
from ..model.keys import checked_consumer
from ..model.quoting import text
from ..model.settings import LEASE_S, MAX_BATCH
from ..redis.operation import Arg, C_co, Call, attempt, operation, together
from ..redis.parsers import row_words
from ..redis.server_errors import translate
from .operator_changes import OperatorChanges
from .relation import NO_LINKS, Links
from .replay_tracking import ReplayTracker
from .wire_format import checked_take, ends, taken

log = logging.getLogger("redisq_ops.worker")


class Queue(OperatorChanges[C_co]):
    """One queue on one server, Sentinel or Cluster.

    Producers submit (each kind its own way), workers `take`, `extend` and `settle`; `Worker` does
    that for you. Delivery is at least once: an entry is delivered again after each lease that
    expires, until its latest holder settles it or it is dead with a recorded reason.

    On a client from `connect` each method returns its result; on one from `aconnect` it returns
    an awaitable. All raise subclasses of `errors.RedisqError`.
    """

    public: ClassVar[tuple[str, ...]] = (
        *("take", "settle", "settle_and_take", "extend", "counts", "page", "get", "get_many"),
        *("history", "rates"),
    )
    exchanges_at_once: ClassVar[bool] = True
    """whether one script can settle and take; else these are two calls in one round trip"""

    @property
    def shard_queues(self) -> Sequence[Queue[Any]]:
        """The queue's shards, each a queue of its own; an unsharded queue is its only one.

        They have no client: run their descriptions (``.op``) on this queue's client.
        """
        return (self,)

    @operation
    async def links(self, entries: Sequence[Entry]) -> list[Links]:
        """For each entry, which others it waits for, and which wait for it: the first ones, in a
        fixed number of round trips; none for most kinds."""
        return [NO_LINKS] * len(entries)

    @operation
    async def attachments(self, entry: Entry) -> list[Attachment]:
        """What is kept of an entry besides its record: its result, progress, logs. ``entry`` as
        `get` returned it."""
        result = entry.record if entry.state == "done" else None
        return [Attachment("result", result)] if isinstance(result, bytes) else []

    @operation
    async def take(self, n: int = 1, *, consumer: str, lease: Seconds = LEASE_S) -> TakeResult:
        """Take up to ``n`` entries (1 to 500), each under a lease.

        ``lease``: seconds or a timedelta. Returns a `TakeResult`: the deliveries, and when to look
        again. Delayed entries that are due and entries whose lease expired are handed out, too.
        Doesn't block, and doesn't create a queue that doesn't exist.

        At least once: an entry whose lease expires is delivered again, and its old receipt is void.
        Raises `BadInput` for a bad number or name, `Unreachable`.

            taken = queue.take(10, consumer="worker-1", lease=30)
            queue.settle([Settlement(each, "ack") for each in taken.deliveries])
        """
        checked_take(n)
        checked_consumer(consumer)
        lease_ms = duration_ms(lease, "lease")
        if not await self._ready_to_take():
            return TakeResult((), None, False)
        return await self._take(n, consumer, lease_ms)

    async def _ready_to_take(self) -> bool:
        """Whether the queue exists; then it is registered."""
        if not self._registered:
            if not await self.exists.op():
                return False
            await self._ensure_registered()
        return True

    async def _take(self, n: int, consumer: str, lease_ms: int) -> TakeResult:
        checked_take(n)
        checked_consumer(consumer)
        found: TakeResult = await self._call_idempotent(
            "take",
            partial(self._read_take, consumer=consumer),
            n=n,
            lease_ms=lease_ms,
            consumer=consumer,
        )
        return found

    def _read_take(self, reply: list[Any], consumer: str) -> TakeResult:
        deadline, *dead = reply[2].split(b",")
        if dead:
            self._tell_dead([unquote_to_bytes(id) for id in dead])
            reply = [*reply[:2], deadline, *reply[3:]]
        return taken(reply, partial(self._deliveries, consumer))

    def _tell_dead(self, ids: Sequence[bytes]) -> None:
        """Log entries that died of lost leases: no worker that had them is there to do so."""
        for id in map(text, ids):
            fields = {"queue": self.name, "entry": id, "task": task_of(id)}
            log.error("dead letter: %s/%s: %s", self.name, id, LEASES_LOST, extra=fields)

    def _deliveries(
        self,
        consumer: str,
        ids: Sequence[str],
        receipts: Sequence[str],
        payloads: Sequence[bytes],
        deadline_ms: int,
    ) -> list[Delivery]:
        name = self.name
        return [
            Delivery(name, id, payload, receipt, deadline_ms, 0, 0, consumer)
            for id, receipt, payload in zip(ids, receipts, payloads, strict=True)
        ]

    @operation
    async def settle(self, settlements: Sequence[Settlement]) -> list[str]:
        """End deliveries: up to 500 `Settlement` of one consumer, in one atomic step.

        Returns one word for each, in their order: ``done``, ``retry``, ``dead``, ``released``, or
        ``stale``: a later delivery of the entry is the valid one, and nothing was changed. Raises
        `BadInput` for an unknown outcome or a value that isn't bytes; then nothing is sent.

            words = queue.settle([Settlement(delivery, "fail", b"error text", delay=5)])
        """
        return _no_error(await self._settle_each(settlements))

    async def _settle_each(self, settlements: Sequence[Settlement]) -> Sequence[str | Exception]:
        """As `settle`, but the error of a shard stands in the place of its words: what other shards
        settled is settled."""
        await self._check_key_types_once()
        return await self._settle(settlements)

    async def _settle(self, settlements: Sequence[Settlement]) -> Sequence[str | Exception]:
        if not settlements:
            return []
        told, rows = ends(settlements, self._settled_row)
        found: list[str] = await self._call_idempotent(
            "settle",
            row_words(len(settlements)),
            rows,
            consumer=settlements[0].delivery.consumer,
            told=told,
        )
        return found

    @operation
    async def settle_and_take(
        self,
        settlements: Sequence[Settlement],
        n: int,
        *,
        consumer: str,
        lease: Seconds = LEASE_S,
    ) -> tuple[list[str], TakeResult]:
        """`settle` and then `take`, in one round trip: (the words, the deliveries)."""
        checked_take(n)  # before anything is settled
        checked_consumer(consumer)
        lease_ms = duration_ms(lease, "lease")
        words, result = await self._settle_and_take(settlements, n, consumer, lease_ms)
        if isinstance(result, Exception):
            raise result
        return _no_error(words), result

    async def _settle_and_take(
        self, settlements: Sequence[Settlement], n: int, consumer: str, lease_ms: int
    ) -> tuple[Sequence[str | Exception], TakeResult | Exception]:
        """`settle_and_take`, but an error stands in the place of what it is about: the rest was
        carried out, and is needed."""
        if not await self._ready_to_take():
            return await self._settle_each(settlements), TakeResult((), None, False)
        if self.exchanges_at_once and settlements and len(settlements) + n <= MAX_BATCH:
            return await self._exchange(settlements, n, consumer, lease_ms)
        words, taken = await together(
            attempt(self._settle(settlements)), attempt(self._take(n, consumer, lease_ms))
        )
        return [words] * len(settlements) if isinstance(words, Exception) else words, taken

    async def _exchange(
        self, settlements: Sequence[Settlement], n: int, consumer: str, lease_ms: int
    ) -> tuple[list[str], TakeResult | Exception]:
        checked_take(n)
        checked_consumer(consumer)
        told, rows = ends(settlements, self._settled_row)
        words = row_words(len(settlements))

        def read(reply: list[Any]) -> tuple[list[str], TakeResult | Exception]:
            settled, took = reply
            if isinstance(settled, Exception):
                raise translate(settled)
            if isinstance(took, Exception):
                # Check the types of keys again, as `_call_idempotent` does.
                self._registered = False
                return words(settled), translate(took)
            return words(settled), self._read_take(took, consumer)

        with self.callers.borrow("take") as (caller, seq):
            result: tuple[list[str], TakeResult | Exception] = await self._call_idempotent(
                "settle_and_take",
                read,
                rows,
                "settle",
                consumer=consumer,
                told=told,
                take_caller=caller,
                take_seq=seq,
                n=n,
                lease_ms=lease_ms,
            )
        return result

    @operation
    def extend(self, deliveries: Sequence[Delivery], lease: Seconds = LEASE_S) -> Call[list[bool]]:
        """Renew leases: ``lease`` (seconds or a timedelta) from now. Up to 500 deliveries.

        Returns one bool for each: False when a later delivery of the entry is the valid one, or it
        is settled; then its handler should stop.
        """
        return self._call_script(
            "extend",
            lambda reply: [word == b"ok" for word in reply[1:]],
            [(d.id, d.receipt) for d in deliveries],
            lease_ms=duration_ms(lease, "lease"),
        )

    @operation
    async def sweep(self, max: int = 100) -> int:
        """Delete up to ``max`` records that are kept no longer (trash, finished requests).

        Returns how many were deleted. Workers call it from `upkeep`.
        """
        swept: list[Any] = await self._call_script("sweep", list, max=max)
        self._tell_dead(swept[1:])
        return int(swept[0])

    @operation
    async def upkeep(self) -> int:
        """What a worker does for the queue about every 30 s; returns how much there was to do."""
        return await self.sweep.op()

    def _retry_delay_ms(self, settlement: Settlement) -> int | None:
        """ms that a failed entry waits for its next attempt; None: unknown before it is settled."""
        if settlement.delay is not None:
            return duration_ms(settlement.delay, "delay")
        if self.retry is None or settlement.outcome != "fail":
            return 0
        return int(self.retry.spread_s(settlement.delivery) * 1000)

    def left_to_owner(self, delivery: Delivery) -> str:
        """Why only workers of this queue's own program may run an entry; empty: ours may, too."""
        return ""

    def _settled_row(self, settlement: Settlement) -> tuple[Arg, ...]:
        delay_ms = self._retry_delay_ms(settlement) or 0
        return settlement.outcome, settlement.value, delay_ms

    def replay_tracker(self) -> ReplayTracker:
        """Follows entries that are replayed in this queue until they end or die again."""
        return ReplayTracker(self)


def _no_error(words: Sequence[str | Exception]) -> list[str]:
    """The words; raises the first error among them."""
    found = list[str]()
    for word in words:
        if isinstance(word, Exception):
            raise word
        found.append(word)
    return found

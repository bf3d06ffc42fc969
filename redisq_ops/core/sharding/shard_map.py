"""The shards of a queue: which there are, which has an id, and how workers take from them."""

from __future__ import annotations

import logging
import re
from abc import abstractmethod
from binascii import crc_hqx
from collections.abc import Callable, Sequence
from random import Random
from typing import Any, ClassVar, Generic, TypeVar

from ..engine.idempotency import CallerSlots
from ..engine.queue import Queue
from ..engine.registry import Registered, find
from ..engine.wire_format import checked_take
from ..model.clock import FELL_MS, Clock, Seconds
from ..model.entry import Delivery, Settlement, State, TakeResult
from ..model.errors import BadInput
from ..model.keys import Keys, checked_consumer
from ..model.rate_limit import RateLimit
from ..model.retry_policy import RetryPolicy
from ..model.settings import LEASE_S
from ..redis.operation import C_co, Description, attempt, operation, together
from ..redis.parsers import scored

log = logging.getLogger("redisq_ops.queue")

SHARDS = 12
MAX_SHARDS = 256
_ROUNDS = 3
NEVER = float("inf")
_RUN = re.compile(r"@\d{13}$")

T = TypeVar("T")
X = TypeVar("X")
Y = TypeVar("Y")
ShardT = TypeVar("ShardT", bound=Queue[None])
Head = tuple[float, float]
"""A shard's next entry: when it is due (ms; 0: now, inf: none), and its rank, the lowest first"""


def home(id: str, shards: int) -> int:
    """The number of the shard that has an entry, or a request and its sub-requests.

    Runs of periodic entries are in shard 0 with their schedule: one script writes both.
    """
    if _RUN.search(id):
        return 0
    return crc_hqx(id.partition("/")[0].encode(), 0) % shards


async def next_due(keys: Keys) -> float:
    """When a shard's next delayed entry is due or its next lease ends, in ms; `NEVER`: it has
    none."""
    firsts = await together(scored(keys[zset], "0", "0") for zset in ("delay", "lease"))
    return min((at for rows in firsts for _, at in rows), default=NEVER)


class ShardMap(Queue[C_co], Generic[C_co, ShardT]):
    """A queue of several shards: which there are, and what workers do with them.

    ``shards``: number of shards of a new queue; an existing one has the registry's number.
    ``entry``: its registry entry, if the caller has it. ``random`` chooses the shard with which a
    take begins, so that workers don't all begin with the same one.
    """

    part: ClassVar[Callable[..., Any]]
    """the class of one shard"""
    timed: ClassVar[bool] = False
    """whether waiting entries have a time by which shards are merged"""
    exchanges_at_once: ClassVar[bool] = False

    def __init__(
        self,
        client: C_co,
        name: str = "default",
        *,
        shards: int = SHARDS,
        prefix: str | None = None,
        retry: RetryPolicy | None = None,
        clock: Clock | None = None,
        callers: CallerSlots | None = None,
        random: Random | None = None,
        entry: Registered | None = None,
    ) -> None:
        super().__init__(client, name, prefix=prefix, retry=retry, clock=clock, callers=callers)
        self.shards = checked_shards(shards)
        self.old_shards = 0
        self._random = random or Random()
        self._told: set[str] = set()
        """errors of shards that were logged"""
        self._parts: dict[tuple[int, int], ShardT] = {}
        self._latest_ms = 0
        if entry is not None:
            self._apply_registry(entry)

    # --- which shards there are ----------------------------------------------------------------

    def _apply_registry(self, entry: Registered | None) -> None:
        """Use the number of shards that a registry entry has."""
        if entry is not None:
            self.shards, self.old_shards = entry.shards, entry.old_shards
            self.layout = entry.layout

    async def _ensure_registered(self) -> None:
        while not self._registered:
            entry = await self._registry_entry(self.shards)
            self._apply_registry(entry)
            await self._refuse_wrong_types()
            self._registered = await self._is_marked(entry)

    async def _wrong_type_keys(self) -> list[tuple[str, str, str]]:
        """Keys of all shards, in one round trip and without scripts, which readers may not run."""
        found = await together(part._wrong_type_keys() for part in self._all_shards())
        return [row for rows in found for row in rows]

    async def _refresh(self) -> None:
        self._apply_registry(await find(self.name, self.prefix))

    def _shard(self, k: int, layout: int | None = None) -> ShardT:
        """Shard ``k`` for a caller that knows version ``layout`` of the number of shards."""
        at = (k, self.layout if layout is None else layout)
        if at not in self._parts:
            made = self.part(
                None,
                self.name,
                prefix=self.prefix,
                retry=self.retry,
                clock=self.clock,
                callers=self.callers,
                shard=k,
                layout=at[1],
            )
            made._registered, made._whole = True, self  # this object registers the queue
            self._parts[at] = made
        return self._parts[at]

    def _all_shards(self) -> list[ShardT]:
        return [self._shard(k) for k in range(max(self.shards, self.old_shards))]

    async def _with_known_shards(self, make: Callable[[], Description[T]]) -> T:
        """Run a description; run it again where the registry has another number of shards."""
        while True:
            known = self.shards, self.old_shards
            result, entry = await together(make(), find(self.name, self.prefix))
            self._apply_registry(entry)
            if (self.shards, self.old_shards) == known:
                return result

    async def _until_shards_stable(self, make: Callable[[], Description[T]]) -> T:
        """As `_with_known_shards`, for writes that a resize must not miss: reads the registry last.

        If no change of the shards has begun by then, a later one will copy what was written.
        """
        while True:
            known = self.shards, self.old_shards, self.layout
            result = await make()
            self._apply_registry(await find(self.name, self.prefix))
            if (self.shards, self.old_shards, self.layout) == known:
                return result

    async def _on_each_shard(self, ask: Callable[[ShardT], Description[T]]) -> list[T]:
        """Run a description on every shard, all in one round trip."""
        return await self._with_known_shards(
            lambda: together(ask(part) for part in self._all_shards())
        )

    @property
    def shard_keys(self) -> tuple[Keys, ...]:
        return tuple(part.keys for part in self._all_shards())

    @property
    def shard_queues(self) -> Sequence[ShardT]:
        return self._all_shards()

    async def _zset_range(self, state: State) -> tuple[str, float | None, float | None] | None:
        return None

    def _possible_shards(self, id: str) -> set[int]:
        """The shards an entry can be in: its home, and during a resize also the old one."""
        return {home(id, n) for n in (self.shards, self.old_shards) if n}

    async def _shards_of(self, ids: Sequence[str]) -> dict[str, set[int]]:
        """The shards to ask for each id."""
        return {id: self._possible_shards(id) for id in ids}

    # --- what workers do -----------------------------------------------------------------------

    @abstractmethod
    def _peek(self, part: ShardT) -> Description[Head]:
        """A shard's next entry; a few cheap reads in one round trip."""

    async def _take(self, n: int, consumer: str, lease_ms: int) -> TakeResult:
        """Peek at all shards, then take from those that have entries, the best first.

        One round trip to peek and at most `_ROUNDS` to take, for any number of shards; one more
        where the queue has a rate, of which each shard has an equal part. The registry is read on
        the way, so a worker notices new shards by itself. A shard that can't be taken from is an
        error only where no other one had an entry; else the log says so, once.
        """
        checked_take(n)
        checked_consumer(consumer)
        parts = self._all_shards()
        now, entry, (paused, _, rate), heads = await together(
            self._now(),
            find(self.name, self.prefix),
            parts[0]._flags("rate"),
            together(self._peek(part) for part in parts),
        )
        if rate and (limit := RateLimit.kept(rate)):
            allowed = await together(part._next_by_rate(limit, now, len(parts)) for part in parts)
            heads = [(max(due, at), rank) for (due, rank), at in zip(heads, allowed, strict=True)]
        self._apply_registry(entry)
        fell, self._latest_ms = now < self._latest_ms - FELL_MS, now
        if fell:  # shards without due entries must notice that the clock was set back, too
            await together(part.sweep.op() for part in parts)
        begin = self._random.randrange(len(parts))
        turn = [*range(begin, len(parts)), *range(begin)]
        ranked = sorted((k for k in turn if heads[k][0] < NEVER), key=lambda k: heads[k][::-1])
        # With nothing due, the shard with the next entry chooses the worker that watches for it.
        ready = [k for k in ranked if heads[k][0] <= now]
        ready = ready or sorted(ranked, key=lambda k: (heads[k][0], k))[:1]
        taken: list[Delivery] = []
        look, more, error = None, False, None
        for _ in range(1 if paused else _ROUNDS):
            shares = self._share_out(n - len(taken), ready, heads)
            if not shares:
                break
            replies = await together(
                attempt(parts[k]._take(share, consumer, lease_ms)) for k, share in shares.items()
            )
            unasked = [k for k in ready if k not in shares]
            ready, more = [], False
            for (k, share), reply in zip(shares.items(), replies, strict=True):
                if isinstance(reply, Exception):
                    error = reply
                    continue
                taken += (_marked(delivery, k) for delivery in reply.deliveries)
                look = min(filter(None, (look, reply.look_again_ms)), default=None)
                more = more or reply.more
                if reply.more or len(reply.deliveries) == share:
                    ready.append(k)
            more = more or bool(unasked)
            ready = unasked + ready
        if error is not None:
            if not taken:
                raise error
            if str(error) not in self._told:
                self._told.add(str(error))
                log.error("queue %s: one of its shards can't be used: %s", self.name, error)
        # In a paused queue the entries stay where they are: taking again would not help.
        return TakeResult(tuple(taken), None if taken else look, more and not paused)

    def _share_out(self, n: int, ready: Sequence[int], heads: Sequence[Head]) -> dict[int, int]:
        """How many of ``n`` entries to take from each shard that has some, the best first."""
        return _shares(n, ready)

    async def _settle(self, settlements: Sequence[Settlement]) -> Sequence[str | Exception]:
        async def ask(part: ShardT, some: list[Settlement]) -> list[str | Exception]:
            plain = [s._replace(delivery=_plain(s.delivery)) for s in some]
            words = await attempt(part._settle(plain))
            return [words] * len(some) if isinstance(words, Exception) else list(words)

        return await self._grouped(settlements, lambda s: _shard(s.delivery), ask)

    @operation
    async def extend(self, deliveries: Sequence[Delivery], lease: Seconds = LEASE_S) -> list[bool]:
        def ask(part: ShardT, some: list[Delivery]) -> Description[list[bool]]:
            return part.extend.op([_plain(d) for d in some], lease)

        return await self._grouped(deliveries, _shard, ask)

    async def _grouped(
        self,
        items: Sequence[X],
        shard: Callable[[X], int],
        ask: Callable[[ShardT, list[X]], Description[list[Y]]],
        layout: int | None = None,
    ) -> list[Y]:
        """Send each shard its items, all in one round trip; results in the order of ``items``."""
        places: dict[int, list[int]] = {}
        for place, item in enumerate(items):
            places.setdefault(shard(item), []).append(place)
        replies = await together(
            ask(self._shard(k, layout), [items[i] for i in at]) for k, at in places.items()
        )
        answers: dict[int, Y] = {}
        for at, reply in zip(places.values(), replies, strict=True):
            answers |= zip(at, reply, strict=True)
        return [answers[i] for i in range(len(items))]

    @operation
    async def sweep(self, max: int = 100) -> int:
        return sum(await self._on_each_shard(lambda part: part.sweep.op(max)))


def checked_shards(shards: int) -> int:
    whole = isinstance(shards, int) and not isinstance(shards, bool)
    if not whole or not 1 <= shards <= MAX_SHARDS:
        raise BadInput(f"shards: a queue has 1 to {MAX_SHARDS}, not {shards!r:.60}")
    return shards


def _shares(n: int, ready: Sequence[int]) -> dict[int, int]:
    """Share ``n`` out evenly among shards; the best get one more where it doesn't divide."""
    if not ready:
        return {}
    each, extra = divmod(n, len(ready))
    return {k: share for i, k in enumerate(ready) if (share := each + (i < extra))}


def _marked(delivery: Delivery, k: int) -> Delivery:
    """The delivery with its shard in front of the receipt: shards number receipts separately."""
    return delivery._replace(receipt=f"{k}:{delivery.receipt}")


def _shard(delivery: Delivery) -> int:
    return int(delivery.receipt.partition(":")[0]) if ":" in delivery.receipt else 0


def _plain(delivery: Delivery) -> Delivery:
    return delivery._replace(receipt=delivery.receipt.rpartition(":")[2])

"""What some queues can show and do beside (see `capabilities`), with a neutral answer for all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, cast

from ..model.clock import Duration
from ..model.consumer_load import PENDING_PAGE, GroupLoad, PendingPage, Reassigned, pending_delivery
from ..model.entry import Client, Clients, Consumer, Counts, Level, Limit, Request
from ..model.errors import Refused, WrongKind
from ..model.queue_position import OTHERS, SEEN, QueuePosition
from ..model.worker_process import Process, Pruned
from ..redis.operation import C_co, Call, both, operation, together
from .parallel_reads import ParallelReads
from .replay_tracking import ReplayTracker

if TYPE_CHECKING:
    from .queue import Queue


class Abilities(ParallelReads[C_co]):
    """Requests, groups of consumers, clients, other programs' processes."""

    @operation
    async def full_counts(self, now_ms: int | None = None) -> Counts:
        """`counts` for who asks about this queue alone: what no key lists is looked for."""
        counts: Counts = await self.counts.op(now_ms)
        return counts

    @operation
    async def creation_options(self) -> dict[str, str]:
        """Which of its kind it was made as, by option: for good, unlike its settings."""
        return {}

    @operation
    async def requests(
        self, start: int = 0, max: int = 100, settled: bool = False
    ) -> list[Request]:
        """Requests by age, oldest first; ``settled``: finished ones, newest first."""
        return []

    @operation
    async def request(self, id: str) -> Request | None:
        """One request's record."""
        return None

    @operation
    async def consumers(self, id: str) -> list[Consumer]:
        """The consumers of a request's group."""
        return []

    @operation
    async def loads(self, group: str = "") -> list[GroupLoad]:
        """How far its groups of consumers are behind, and what they hold; a queue without groups
        is one by itself."""
        counts: Counts = await self.counts.op()
        return [GroupLoad("", counts.of("pending"), counts.of("waiting"))]

    @operation
    async def pending_deliveries(
        self,
        group: str = "",
        max: int = PENDING_PAGE,
        consumer: str = "",
        after: str | None = None,
    ) -> PendingPage:
        """Deliveries that aren't settled, the next deadline first: of a group, of a consumer."""
        page, now = await both(self.page.op("pending", after, max), self._now())
        if page.problem:
            raise WrongKind(page.problem)
        rows = tuple(
            pending_delivery(entry, now)
            for entry in page.entries
            if consumer in ("", entry.consumer) and _within(entry.id, group)
        )
        return PendingPage(rows, page.total, page.cursor)

    @operation
    async def reassign(
        self,
        group: str,
        consumer: str,
        to: str,
        ids: Sequence[str],
        *,
        min_idle_ms: int = 0,
        remove: bool = False,
        op: str = "",
    ) -> Reassigned:
        """Give a consumer's deliveries to another, where the group itself is all that knows of
        them (`move` does it elsewhere); ``remove`` it in the same step, with all it holds by then
        given away too, if that is no more than a step is for. ``op``: the operation in whose
        journal entry the step itself counts what it gave (on a cluster it can't)."""
        raise Refused(f"queue {self.name} is a {self.kind} queue: claim its entries instead")

    @operation
    async def remove_consumer(self, group: str, consumer: str) -> str:
        """Remove a consumer from a group: gone | holds (it has something, and stays) | absent."""
        return "absent"

    @operation
    async def levels(self) -> list[Level]:
        """Every priority that may hold tokens."""
        return []

    @operation
    async def clients(self, start: int = 0, max: int = 100) -> Clients:
        """Whose work is here, by name from rank ``start`` on."""
        return Clients()

    @operation
    async def get_client(self, client: str) -> Client | None:
        """A client as it stands; None when nothing of it is here."""
        return None

    @operation
    async def limits_reached(self, max: int = OTHERS) -> list[Limit]:
        """Requests (the oldest ``max`` are looked at) or clients (by name) whose entries wait only
        because as many of theirs are pending as may be. What is paused or blocked isn't meant."""
        return []

    def replay_tracker(self) -> ReplayTracker:
        """Follows entries that are replayed from here to their ends."""
        return ReplayTracker(cast("Queue[Any]", self))

    @property
    def register(self) -> str:
        """Where another program lists its worker processes (``processes`` in `capabilities`):
        queues that name the same place share them. Empty: nobody lists them."""
        return ""

    @operation
    async def processes(self) -> list[Process]:
        """The worker processes in the `register`, by name, whichever of its queues they serve."""
        return []

    @operation
    async def prune_process(
        self,
        name: str,
        *,
        silent_ms: Duration | None = None,
        rescue: bool = False,
        op: str | None = None,
        step: int = 1,
    ) -> Pruned:
        """Strike a process from the `register` if it was silent for so long by the server's clock
        (None: as long as its owner waits); looked at again in the step that strikes it.

        ``rescue``: what it had waits again; else it ends as its owner has it (`prune_note`). The
        same ``op`` and ``step`` sent again answer the same and change nothing.
        """
        raise Refused(f"queue {self.name} is a {self.kind} queue: nobody lists its workers")

    @operation
    async def upcoming(self, edges: Sequence[int]) -> list[int]:
        """How many entries become due between each pair of neighbouring times (ms)."""
        key = self.keys["delay"]
        return await together(
            Call(("ZCOUNT", key, low, f"({high}"), int, key=key) for low, high in pairwise(edges)
        )

    @operation
    async def queue_position(self, id: str = "") -> QueuePosition:
        """What this kind of queue knows of why an entry or request (or, without an id, anything
        at all) isn't handed out; a few round trips, however much is in it. Reads only."""
        return await self._recent_consumers()

    async def _recent_consumers(self) -> QueuePosition:
        return await asking(self.keys["callers"])


def asking(key: str) -> Call[QueuePosition]:
    """When a worker last asked for work, by a queue's callers. Every take leaves its time in its
    caller's slot, an idle worker's too; slots are kept for a day."""

    def read(reply: Any) -> QueuePosition:
        cursor, rows = reply
        values = list(rows.values()) if isinstance(rows, Mapping) else list(rows[1::2])
        times = [int(value.split(b" ", 2)[1]) for value in values]
        return QueuePosition(
            asked_ms=max(times, default=None), askers=len(times), askers_all=int(cursor) == 0
        )

    return Call(("HSCAN", key, 0, "MATCH", "*:take", "COUNT", SEEN), read, key=key)


def _within(id: str, group: str) -> bool:
    return not group or id.rpartition("/")[0] == group

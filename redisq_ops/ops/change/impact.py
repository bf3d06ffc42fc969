"""What a change of entries will do, counted while they are selected: clients, ages, duration.

Memory is bounded for any selection: each breakdown keeps its most frequent values.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil
from typing import Any

from redisq_ops.core.engine.optional_features import HasRequests
from redisq_ops.core.engine.queue import Queue
from redisq_ops.core.model.entry import Counts, Entry, Request
from redisq_ops.core.model.rates import Rates
from redisq_ops.core.model.settings import MAX_BATCH
from redisq_ops.core.model.states import VERBS, Verb
from redisq_ops.core.redis.operation import attempt, together

from ..groups.fingerprint import fingerprint
from ..groups.heavy_hitters import HeavyHitters

TOP = 20
_WATCHED = 1000
_REQUESTS = 10_000
_WEIGHED = 50
"""payloads that are read only for their size; the others are assumed to be as large"""
_MINUTE, _HOUR, _DAY = 60_000, 3_600_000, 86_400_000
AGES = (("under 1m", _MINUTE), ("under 1h", _HOUR), ("under 1d", _DAY), ("under 7d", 7 * _DAY))
STEP = 50
COST_US = 15.0
"""server time of one entry, µs, as `python -m benchmarks plans` measures it"""


class Breakdown:
    """The number of entries per value; of more than 1,000 values only the frequent ones."""

    def __init__(self) -> None:
        self._values: HeavyHitters[str] = HeavyHitters(_WATCHED)
        self._total = 0

    def add(self, value: str) -> None:
        self._values.add(value)
        self._total += 1

    def top(self) -> dict[str, int]:
        """The 20 most frequent values, the rest together as ``other``: the sum is always right."""
        ranked = dict(self._values.top(TOP))
        rest = self._total - sum(ranked.values())
        return ranked | ({"other": ranked.get("other", 0) + rest} if rest else {})


@dataclass(slots=True)
class Consequences:
    """Counts over the entries so far, and the load of the queue that they go to."""

    queue: Queue[Any]
    now_ms: int
    count: int = 0
    weighed: int = 0
    """entries whose payload size is known: only the first ones where a scan reads no payloads"""
    clients: Breakdown = field(default_factory=Breakdown)
    priorities: Breakdown = field(default_factory=Breakdown)
    errors: Breakdown = field(default_factory=Breakdown)
    ages: Breakdown = field(default_factory=Breakdown)
    samples: dict[str, str] = field(default_factory=dict)
    """error group -> the type of one of its errors; no message, since it may hold anything"""
    waiting: int | None = None
    """entries that wait already in the queue to which these go"""
    settled_a_minute: float | None = None
    """counted from the first minute of the last hour with a settlement; None: there were too few,
    or the queue doesn't count them"""
    shown: Callable[[str], str] = str
    """an error's type as it may be shown and written"""
    looked: int | None = None
    """number of entries that were read, if not all; the breakdowns count only these"""
    cost_us: float = COST_US
    goes_on: bool = False
    """whether the entries will wait in another queue; ``waiting`` counts that queue"""
    calls: int = 1
    """calls of a step, in each shard"""
    step: int = STEP
    """about how many entries a step has: the size adapts"""
    asked: int | None = None
    """how many of the first entries the queue was asked about; None: it could not be asked"""
    skips: dict[str, int] = field(default_factory=dict)
    """why the change would skip some of these -> their number"""
    _first: list[Entry] = field(default_factory=list)
    _priorities: dict[str, str] = field(default_factory=dict)
    _bytes: int = 0
    """total size of the ``weighed`` payloads"""

    async def add(self, entries: Sequence[Entry]) -> None:
        """Count a page of entries. Takes a round trip for the priorities of requests, and some for
        the first payloads."""
        if isinstance(self.queue, HasRequests):
            await self._learn_priorities(self.queue, entries)
        await self._weigh(entries)
        self._first += entries[: MAX_BATCH - len(self._first)]
        for entry in entries:
            self.count += 1
            self.ages.add(self._age(entry))
            if entry.client is not None:
                self.clients.add(entry.client)
            if entry.error is not None or entry.reason is not None:
                group = fingerprint(entry)
                self.errors.add(group)
                if len(self.samples) < _WATCHED:
                    kind = self.shown(entry.error.type) if entry.error else ""
                    self.samples.setdefault(group, kind)
            if isinstance(self.queue, HasRequests):
                self.priorities.add(self._priorities.get(_request(entry), "?"))

    async def _weigh(self, entries: Sequence[Entry]) -> None:
        if entries and entries[0].payload is None:
            few = entries[: max(0, _WEIGHED - self.weighed)]
            found = await self.queue.get_many.op([entry.id for entry in few], entries[0].state)
            entries = [entry for entry in found if entry is not None]
        sizes = [len(entry.payload) for entry in entries if entry.payload is not None]
        self.weighed += len(sizes)
        self._bytes += sum(sizes)

    async def ask(self, verb: Verb) -> None:
        """Ask the queue which of the first entries the verb would skip, as a step of it does."""
        first, target, queue = self._first, VERBS[verb][1], self.queue
        if not first or verb == "move":
            return
        ids, orphans = [one.id for one in first], [one.id for one in first if one.orphan]
        found = ((one.id, queue.selected_stamp(one, target, self.now_ms)) for one in first)
        stamps = {id: stamp for id, stamp in found if stamp}
        words = await attempt(queue.would_move.op(ids, first[0].state, target, orphans, stamps))
        if not isinstance(words, Exception):  # else the user may not run scripts
            self.asked, self.skips = len(words), dict(Counter(filter(None, words)).most_common())

    @property
    def bytes(self) -> int | None:
        """Size of all payloads, estimated from the weighed ones; None: none was weighed."""
        if not self.weighed:
            return None if self.count else 0
        return round(self._bytes * self.count / self.weighed)

    async def _learn_priorities(self, queue: HasRequests[Any], entries: Sequence[Entry]) -> None:
        unknown = {_request(entry) for entry in entries} - self._priorities.keys()
        asked = sorted(unknown)[: max(0, _REQUESTS - len(self._priorities))]
        found: list[Request | None] = await together(queue.request.op(id) for id in asked)
        for id, request in zip(asked, found, strict=True):
            self._priorities[id] = "?" if request is None else str(request.priority)

    def _age(self, entry: Entry) -> str:
        if entry.since_ms is None:
            return "unknown"
        old = self.now_ms - entry.since_ms
        return next((name for name, bound in AGES if old < bound), "7d and more")

    def extrapolate(self, total: int, cost_us: float, step: int) -> None:
        """Take the entries so far as a sample of ``total`` entries; ``step``: entries of a call."""
        self.looked, self.count, self.cost_us = self.count, total, cost_us
        self.step = step

    async def read_load(self, of: Queue[Any]) -> None:
        """Read how many entries wait in queue ``of``, to which these go, and its settlement
        rate."""
        found: tuple[Counts, Rates] = await together(of.counts.op(), of.rates.op(self.now_ms, 60))
        counts, rates = found
        self.waiting = counts.of("waiting")
        self.settled_a_minute = rates.pace(self.now_ms)

    def drain_ms(self, verb: Verb) -> int | None:
        """How long the queue then takes to work off all waiting entries; None: unknown."""
        waits = VERBS[verb][1] == "waiting" or self.goes_on
        if not waits or self.waiting is None or not self.settled_a_minute:
            return None
        return ceil((self.waiting + self.count) / self.settled_a_minute * _MINUTE)

    @property
    def _calls(self) -> int:
        """Calls of all steps: in each shard with entries, and in the first, for the audit log."""
        shards = min(len(self.queue.shard_queues), self.count + 1)
        return ceil(self.count / self.step) * self.calls * shards

    def facts(self, verb: Verb) -> dict[str, Any]:
        """For programs, and the second line of a plan."""
        return {
            "count": self.count,
            "scanned": self.count if self.looked is None else self.looked,
            "clients": self.clients.top(),
            "priorities": self.priorities.top(),
            "errors": self.errors.top(),
            "error_types": {group: self.samples.get(group, "") for group in self.errors.top()},
            "ages": self.ages.top(),
            "bytes": self.bytes,
            "weighed": min(self.weighed, self.count),
            "waiting": self.waiting,
            "settled_a_minute": self.settled_a_minute,
            "drain_ms": self.drain_ms(verb),
            "calls": self._calls,
            "server_ms": ceil(self.count * self.cost_us / 1000),
            "fairness": fairness(self.clients.top(), verb),
            "asked": self.asked,
            "skips": self.skips,
        }


def fairness(clients: Mapping[str, int], verb: Verb) -> str | None:
    """How the entries affect other clients once they wait again; None: not at all."""
    named = {client: n for client, n in clients.items() if client != "other"}
    if VERBS[verb][1] != "waiting" or not named:
        return None
    most = max(named, key=lambda client: named[client])
    share = round(100 * named[most] / sum(clients.values()))
    return f"{share} % are {most}'s; clients have turns by weight, so others go on having theirs"


def _request(entry: Entry) -> str:
    return entry.id.rpartition("/")[0]

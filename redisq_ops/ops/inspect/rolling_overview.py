"""The overview for a screen that is refreshed: rows in sight at each refresh, the others in turn.

A refresh of 210 queues would otherwise take 2,800 commands, for rows that mostly nobody sees.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from math import ceil
from operator import itemgetter
from time import monotonic
from typing import Any

from redisq_ops.core.engine.acknowledgement import Acknowledgement
from redisq_ops.core.engine.queue import Queue
from redisq_ops.core.engine.registry import Registered
from redisq_ops.core.model.rates import Rates
from redisq_ops.core.redis.operation import apart, attempt, together

from ..deployment import Deployment
from ..trouble.entry_rules import suspect
from ..trouble.finding import USUAL, Trouble
from ..trouble.judgement import rank, troubles
from .kept_rates import MINUTE_MS, KeptRates
from .overview import (
    EXAMINED,
    NOTHING_KNOWN,
    Evidence,
    Overview,
    QueueRow,
    evidence,
    listed,
    queue_row,
    row_or_problem,
)

SLOW_LINK_S = 0.6
"""if the first exchange, which connects, takes longer: names come first, then rows in stages"""
STAGE_S = 2.0
"""about how long a stage takes"""
REGISTRY_S = 10.0
"""the age from which the list of queues is read again on a slow link"""
FEWEST = 5
"""rows that a stage reads at least"""
OTHERS_MS = 5000
"""a row out of sight is at most this old, unless reads are slow"""
SLOW_S = 1.0
"""after a read that took longer, the next one reads few rows that are out of sight"""
FEW_MS = 500
"""after a slow read: as many rows out of sight as are otherwise due after this time"""
SIGNS_MS = 2000
"""the signs of trouble of a row in sight are at most this old, its numbers are as they are now"""
EVIDENCE_MS = 5000
"""evidence is at most this old, unless the queue's trouble changed"""
SUSPECT_MS = 250
"""time per queue whose trouble only evidence shows: 200 of them are looked at in 50 s"""
MINUTES = 60
"""length of the rates"""
DEAD_RULES = frozenset({"dying", "dead"})
"""the rules that find dead letters nobody has dealt with"""


@dataclass(slots=True)
class _KeptRow:
    entry: Registered
    row: QueueRow
    queue: Queue[Any] | None = None
    """None: not opened yet, or it can't be"""
    read_ms: int | None = None
    signs_ms: int | None = None
    """when all of it was read"""
    found: tuple[Trouble, ...] = ()
    examined_ms: int | None = None
    """when the evidence of what was found was read"""


class RollingOverview:
    """All rows of a deployment's overview. A refresh takes two round trips; more only at first, or
    where a sharded queue is examined."""

    def __init__(self, deployment: Deployment) -> None:
        self._deployment = deployment
        self._kept: dict[str, _KeptRow] = {}
        """the row that was read longest ago first"""
        self._rates = KeptRates(MINUTES)
        self._now = 0
        self._took_s = 0.0
        """the duration of the last read"""
        self._listed: tuple[list[Registered], int] = [], 0
        self._listed_s = 0.0
        self._acknowledged: Mapping[str, Acknowledgement] = NOTHING_KNOWN
        self._bad = list[_KeptRow]()
        """the queues in trouble, the worst first"""
        self._room: int | None = None
        """rows out of sight that the next stage reads; None: all rows are read at once"""

    @property
    def now(self) -> int:
        """The server's time (ms) of the last read; 0 before the first."""
        return self._now

    @property
    def slow(self) -> bool:
        """Whether the link is slow, as the last read tells."""
        return self._room is not None or self._took_s > SLOW_S

    @property
    def opened(self) -> list[tuple[Registered, Queue[Any]]]:
        """The queues that could be opened, as of the last read."""
        kept = self._kept.values()
        return [(one.entry, one.queue) for one in kept if one.queue is not None]

    def worst_dead(self, most: int) -> list[QueueRow]:
        """Of the queues whose dead letters are trouble, the worst ones."""
        found = (one.row for one in self._bad if any(t.rule in DEAD_RULES for t in one.found))
        return list(islice(found, most))

    async def read(self, in_sight: Collection[str]) -> Overview:
        """All rows: those ``in_sight`` and new ones as they are now, the others as they were at
        most `OTHERS_MS` ago; longer ago if reads are slow. On a slow link the first result has
        names only, and the next ones more and more rows: see `Overview.unread`."""
        first, began = not self._kept, monotonic()
        entries, _ = await together(self._read_rows(in_sight), self._examine())
        if first and self._room is None:
            await self._examine()
        self._took_s = monotonic() - began
        rows = tuple(self._kept[entry.name].row for entry in entries)
        unread = sum(kept.read_ms is None for kept in self._kept.values())
        if not unread:
            self._room = None
        return Overview(self._now, rows, unread)

    async def _read_rows(self, in_sight: Collection[str]) -> list[Registered]:
        first, began = not self._kept, monotonic()
        entries, now = await self._registry()
        self._match(entries)
        if first and monotonic() - began > SLOW_LINK_S:
            self._room, self._now = 0, now
            return entries
        chosen = self._stage(in_sight) or self._due(in_sight, now)
        began = monotonic()
        rows = await together(apart(self._row(kept, now)) for kept in chosen)
        for kept, row in zip(chosen, rows, strict=True):
            self._keep(kept, row_or_problem(kept.entry, row), now)
        if self._room is not None:
            self._room = round(len(chosen) * STAGE_S / (monotonic() - began))
        minutes = now // MINUTE_MS - self._now // MINUTE_MS
        if 0 < minutes < MINUTES:
            self._continue_rates(self._kept.keys() - {one.entry.name for one in chosen}, minutes)
        self._now = now
        return entries

    async def _registry(self) -> tuple[list[Registered], int]:
        """The queues, and the server's time (ms). On a slow link both are kept for some seconds:
        the registry of 210 queues has 20 kB."""
        age_s = monotonic() - self._listed_s
        if not self.slow or age_s > REGISTRY_S:
            self._listed, self._acknowledged = await listed(self._deployment)
            self._listed_s, age_s = monotonic(), 0.0
        entries, then = self._listed
        return entries, then + round(1000 * age_s)

    def _due(self, in_sight: Collection[str], now: int) -> list[_KeptRow]:
        """The rows that a refresh reads."""
        passed = now - self._now if now >= self._now else OTHERS_MS
        if self._took_s > SLOW_S:
            # On a slow link, more rows after a longer time would make every read longer.
            passed = min(passed, FEW_MS)
        others = [
            name
            for name, kept in self._kept.items()
            if kept.read_ms is not None and name not in in_sight
        ]
        share = min(len(others), ceil(len(others) * passed / OTHERS_MS))
        later = set(others[share:])
        return [kept for name, kept in self._kept.items() if name not in later]

    def _stage(self, in_sight: Collection[str]) -> list[_KeptRow]:
        """The rows of the next stage, those in sight first; none once all were read."""
        if self._room is None:
            return []
        unread = [kept for kept in self._kept.values() if kept.read_ms is None]
        seen = [kept for kept in unread if kept.entry.name in in_sight]
        others = [kept for kept in unread if kept.entry.name not in in_sight]
        return seen + others[: max(self._room - len(seen), 0 if seen else FEWEST)]

    def _match(self, entries: Iterable[Registered]) -> None:
        """Keep only the rows of these queues; new queues get empty rows."""
        kept, self._kept = self._kept, {}
        registered = {entry.name: entry for entry in entries}
        for name, one in kept.items():
            if registered.get(name) == one.entry:
                self._kept[name] = one
        for name, entry in registered.items():
            if name not in self._kept:
                self._kept[name] = _KeptRow(entry, QueueRow(name, entry.kind, None, None))

    async def _row(self, kept: _KeptRow, now: int) -> QueueRow:
        if kept.queue is None:
            kept.queue = self._deployment.open(kept.entry)
        rates = self._rates.read(kept.queue, kept.entry, now)
        entry, known = kept.entry, self._acknowledged.get(kept.entry.name)
        recent = kept.signs_ms is not None and 0 <= now - kept.signs_ms < SIGNS_MS
        if not recent or known != kept.row.acknowledged:
            row = await queue_row(kept.queue, entry.name, entry.kind, now, rates, USUAL, known)
            kept.signs_ms = now
            return row
        counts, minutes = await together(kept.queue.counts.op(now), rates)
        return replace(kept.row, counts=counts, rates=minutes)

    def _continue_rates(self, names: Iterable[str], minutes: int) -> None:
        """Let the rates of rows that were not read end with the present minute too."""
        for kept in map(self._kept.__getitem__, names):
            if (rates := kept.row.rates) is not None:
                later = rates.continued(Rates.zero(minutes), minutes)
                kept.row = replace(kept.row, rates=later)

    def _keep(self, kept: _KeptRow, row: QueueRow, now: int) -> None:
        row = replace(row, evidence=kept.row.evidence)  # some trouble shows only in that
        found = troubles(row, now)
        if _rules(found) != _rules(kept.found):
            kept.examined_ms = None
        if row.problem is not None:
            kept.signs_ms = None  # a row that lacks something is read in full
        kept.row, kept.read_ms, kept.found = row, now, found
        self._kept[row.name] = self._kept.pop(row.name)

    async def _examine(self) -> None:
        """Read the evidence of the worst queues again where it is old or missing, and of some whose
        trouble only evidence shows."""
        kept = [one for one in self._kept.values() if one.row.counts is not None and one.queue]
        ranked = sorted(((rank(one.found), one) for one in kept if one.found), key=itemgetter(0))
        worst = [one for _, one in ranked[:EXAMINED]]
        # The same ones each time, also where many are equally bad.
        ranked.sort(key=lambda pair: (pair[0], pair[1].entry.name))
        self._bad = [one for _, one in ranked]
        examined = {one.row.name for one in worst}
        suspects = [one for one in kept if one.row.name not in examined and suspect(one.row)]
        due = self._older(worst, EVIDENCE_MS)
        later = self._older(suspects, max(EVIDENCE_MS, SUSPECT_MS * len(suspects)))
        due += sorted(later, key=lambda one: one.examined_ms or 0)[: EXAMINED - len(due)]
        now, asked = self._now, [_rules(one.found) for one in due]
        seen = await together(
            attempt(evidence(one.queue, one.row, rules, now))
            for one, rules in zip(due, asked, strict=True)
            if one.queue is not None
        )
        for one, rules, found in zip(due, asked, seen, strict=True):
            # Without evidence the reason stands, with no names in it.
            if isinstance(found, Evidence) and _rules(one.found) == rules:
                one.row, one.examined_ms = replace(one.row, evidence=found), now

    def _older(self, kept: Iterable[_KeptRow], age_ms: int) -> list[_KeptRow]:
        """The rows whose evidence is missing, or at least this old."""
        return [
            one for one in kept if one.examined_ms is None or self._now - one.examined_ms >= age_ms
        ]


def _rules(found: Iterable[Trouble]) -> list[str]:
    return [one.rule for one in found]

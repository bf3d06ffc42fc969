"""Faults of a stream's consumer groups that a bounded check finds."""

from __future__ import annotations

from collections.abc import Sequence

from ...model.entry import Checkup, Consumer
from ...redis.operation import in_batches
from ..long_records import few
from .groups import LabelledGroup, PendingStreamEntry, consumers, content, held

GROUPS = 100
CONSUMERS = 1000
ROWS = 100
THOROUGH_ROWS = 1000
SILENT_MS = 3_600_000
"""a consumer that was silent for so long counts as dead"""
DELIVERIES = 20


async def checkup(parts: Sequence[LabelledGroup], thorough: bool, mean: int) -> Checkup:
    """Checks 100 groups, and of each the oldest 100 pending entries (1,000 if thorough). ``mean``:
    average bytes of an entry; to check that an entry is there, all of it is read."""
    most = THOROUGH_ROWS if thorough else ROWS
    seen = parts[:GROUPS]
    flaws, unseen = [], []
    for part in seen:
        group = part.group
        name = f"group {part.label[:-1]}"
        if not group.consumers and group.lag != 0:
            n = "some" if group.lag is None else f"{group.lag:,}"
            flaws.append(f"{name}: no consumer, and {n} entries to read")
        if group.consumers > CONSUMERS:
            unseen.append(f"{name} has {group.consumers:,} consumers: not looked at")
        elif group.pending:
            flaws += _silent(part, name, await consumers(part))
        if group.pending:
            rows = await _oldest(part, most)
            of = f"of the {len(rows):,} oldest of its {group.pending:,} pending entries"
            if len(rows) < group.pending:
                unseen.append(f"{name}: only the {len(rows):,} oldest pending entries")
            read = rows[: few(most, mean)]
            if len(read) < len(rows):
                unseen.append(
                    f"{name}: whether {len(rows) - len(read):,} of these are still in the stream, "
                    f"whose entries have about {mean / 2**20:,.1f} MiB each"
                )
            flaws += await _lost(part, name, of, rows, read)
    if len(parts) > len(seen):
        unseen.append(f"only {len(seen)} of {len(parts):,} groups")
    return Checkup(tuple(flaws), "; ".join(unseen) or None)


async def _oldest(part: LabelledGroup, most: int) -> list[PendingStreamEntry]:
    rows: list[PendingStreamEntry] = []
    low = "-"
    while len(rows) < most:
        page = await held(part, low, "+", 100)
        rows += page
        if len(page) < 100:
            break
        low = f"({page[-1].id}"
    return rows


def _silent(part: LabelledGroup, name: str, there: Sequence[Consumer]) -> list[str]:
    return [
        f"{name}: consumer {consumer.name.removeprefix(part.label)} holds {consumer.pending:,} "
        f"and was silent for {consumer.idle_ms // 3_600_000:,} h"
        for consumer in there
        if consumer.pending and consumer.idle_ms >= SILENT_MS
    ]


async def _lost(
    part: LabelledGroup,
    name: str,
    of: str,
    rows: Sequence[PendingStreamEntry],
    read: Sequence[PendingStreamEntry],
) -> list[str]:
    gone = (await in_batches(content(part.key, r.id, r.id, 1) for r in read)).count([])
    again = sum((row.deliveries or 0) >= DELIVERIES for row in rows)
    given_up = sum(row.deliveries is None for row in rows)
    flaws = []
    if gone:
        flaws.append(f"{name}: {gone:,} {of} are gone from the stream: nobody can work on them")
    if again:
        flaws.append(f"{name}: {again:,} {of} were delivered {DELIVERIES} times or more")
    if given_up:
        flaws.append(f"{name}: {given_up:,} {of} were given up by their consumers (XNACK FATAL)")
    return flaws

"""Invariants of queues of Resque and Sidekiq, for ``fsck`` and the tests.

Only rules that hold at every moment for every program that follows the layout, and those of our own
keys.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any

from ...redis.operation import Call, attempt_read, in_batches, together
from ...redis.whole_keys import fields, members
from . import job
from .reads import RubyJobReads

SOME = 20
"""lists that are read at the same time"""
FIRST = 100
"""jobs that are read of each list"""


async def violations(queue: RubyJobReads[Any]) -> list[str]:
    """Every broken rule, in words."""
    flaws = [
        f"key {key} is a {is_}, and {queue.kind} has a {kind} there"
        for key, is_, kind in await queue._wrong_type_keys()
    ]
    if flaws:
        return flaws
    flaws += await breaking(queue)
    if queue.own_name:
        flaws += await _held(queue)
    trash = set(await members(queue.keys["trash"]))
    for part, what in (("purged", "payload"), ("was", "record of where it was")):
        key = queue.keys[part]
        there = set(await fields(key))
        flaws += [f"{name} is in the trash and has no {what}" for name in sorted(trash - there)]
        flaws += [f"{name} has a {what} and is not in the trash" for name in sorted(there - trash)]
    if queue.own_name:
        known = queue.keys["t_queues"]
        length, listed = await together(
            Call(("LLEN", queue.list_key), int, key=queue.list_key),
            Call(("SISMEMBER", known, queue.own_name), bool, key=known),
        )
        if length and not listed:
            flaws.append(f"{length} jobs wait in a queue that is not in {known}: no page shows it")
    return flaws


async def breaking(queue: RubyJobReads[Any]) -> list[str]:
    """What a quick check finds, in the next hundred jobs of each list."""
    flaws = [
        f"process {process.name} can't be read: {process.problem}"
        for process in await queue.worker_processes.op()
        if process.problem
    ]
    flaws += await _uncounted(queue)
    if not queue.stops_at:
        return flaws
    names = await queue._queues()
    lists = await queue._weighed([queue._list(name) for name in names])
    names = [name for name, place in zip(names, lists, strict=True) if not place.too_long]
    looks = (attempt_read(place.window(0, FIRST)) for place in lists if not place.too_long)
    for name, window in zip(names, await in_batches(looks, SOME), strict=True):
        if isinstance(window, Exception):
            flaws.append(str(window))
            continue
        rows, _ = window
        read = [seen.member for seen in rows if not seen.entry.unread]
        if odd := sum(job.fields(member) is None for member in read):
            flaws.append(
                f"{odd:,} of the first {len(rows):,} jobs that wait in {name} are no JSON "
                f"objects: {queue.stops_at}"
            )
    return flaws


async def _uncounted(queue: RubyJobReads[Any]) -> list[str]:
    """The owner's counters that can't be incremented: settling goes on without them."""
    keys = [queue.keys["t_stat_"] + name for name in ("processed", "failed")]
    if queue.kind == "sidekiq":
        today = datetime.fromtimestamp(await queue._now() / 1000, UTC).date()
        keys += [f"{key}:{today}" for key in keys]
    found = await together(
        together(
            Call(("TYPE", key), bytes.decode, key=key),
            attempt_read(Call(("GETRANGE", key, 0, 20), bytes, key=key)),
        )
        for key in keys
    )
    return [
        f"key {key} is {f'a {is_}' if is_ != 'string' else 'no number'}:"
        " what runs here is not counted in it"
        for key, (is_, value) in zip(keys, found, strict=True)
        if is_ != "none" and not _countable(value)
    ]


def _countable(value: bytes | Exception) -> bool:
    """Whether the server can increment it: a whole number of 64 bits in its shortest form."""
    return (
        isinstance(value, bytes)
        and re.fullmatch(rb"0|-?[1-9]\d{0,18}", value) is not None
        and -(2**63) <= int(value) < 2**63
    )


async def _held(queue: RubyJobReads[Any]) -> list[str]:
    keys = queue.keys
    leases = set(await members(keys["lease"]))
    parts = await together(fields(keys[part]) for part in ("body", "meta"))
    flaws = []
    for found, what in zip(map(set, parts), ("payload", "record"), strict=True):
        flaws += [f"{ticket} has a lease and no {what}" for ticket in sorted(leases - found)]
        flaws += [f"{ticket} has a {what} and no lease" for ticket in sorted(found - leases)]
    return flaws

"""What must add up in the layouts of Resque and Sidekiq; used by the tests and by ``fsck``.

Only what holds at every moment for whoever keeps to the layout, and what is ours.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..io import Call, both, together
from ..reply import fields, members

if TYPE_CHECKING:
    from .queue import ListLayout


async def violations(queue: ListLayout[Any]) -> list[str]:
    """Every broken rule, in words."""
    said = [
        f"key {key} is a {is_}, and {queue.kind} has a {kind} there"
        for key, is_, kind in await queue.mistyped()
    ]
    if said:
        return said
    if queue.own_name:
        said += await _held(queue)
    trash = set(await members(queue.keys["trash"]))
    for part, what in (("purged", "payload"), ("was", "record of where it was")):
        key = queue.keys[part]
        there = set(await fields(key))
        said += [f"{name} is in the trash and has no {what}" for name in sorted(trash - there)]
        said += [f"{name} has a {what} and is not in the trash" for name in sorted(there - trash)]
    if queue.own_name:
        known = queue.keys["t_queues"]
        length, listed = await both(
            Call(("LLEN", queue.list_key), int, key=queue.list_key),
            Call(("SISMEMBER", known, queue.own_name), bool, key=known),
        )
        if length and not listed:
            said.append(f"{length} jobs wait in a queue that is not in {known}: no page shows it")
    return said


async def _held(queue: ListLayout[Any]) -> list[str]:
    keys = queue.keys
    leases = set(await members(keys["lease"]))
    parts = await together(fields(keys[part]) for part in ("body", "meta"))
    said = []
    for found, what in zip(map(set, parts), ("payload", "record"), strict=True):
        said += [f"{ticket} has a lease and no {what}" for ticket in sorted(leases - found)]
        said += [f"{ticket} has a {what} and no lease" for ticket in sorted(found - leases)]
    return said

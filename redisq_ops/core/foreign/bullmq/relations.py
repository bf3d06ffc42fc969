"""Flows: a parent waits until each of its children has ended."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from ...engine.relation import Related
from ...model.quoting import legal, text
from ...redis.operation import Call, both, together
from ...redis.parsers import optional

if TYPE_CHECKING:
    from .queue import BullmqQueue

MOST = 100
"""children of a parent that are looked at"""


async def related(queue: BullmqQueue[Any], job: bytes) -> list[Related]:
    """For a parent that waits or is dead: the children that keep it from going on, the dead ones
    first. For a child: its parent."""
    waits, broke, parent = (
        job + b":dependencies",
        job + b":unsuccessful",
        await Call(("HGET", job, "parentKey"), optional, key=job),
    )
    (_, open), failed = await both(
        Call(("SSCAN", waits, 0, "COUNT", MOST), tuple[Any, list[bytes]], key=waits),
        Call(("ZRANGE", broke, 0, MOST - 1), list[bytes], key=broke),
    )
    children = list(dict.fromkeys([*open, *failed]))[:MOST]
    found = await together(_one(queue, "child", key) for key in children)
    # A child that made its parent fail blocks the parent only while the child is dead.
    found = [
        one for key, one in zip(children, found, strict=True) if key in open or one.state == "dead"
    ]
    found.sort(key=lambda one: one.state != "dead")
    return [*found, await _one(queue, "parent", parent)] if parent else found


async def _one(queue: BullmqQueue[Any], role: Literal["child", "parent"], key: bytes) -> Related:
    base, _, id = key.rpartition(b":")
    at, _, name = base.rpartition(b":")
    dead, there = await both(
        Call(("ZSCORE", base + b":failed", id), optional, key=base + b":failed"),
        Call(("EXISTS", key), bool, key=key),
    )
    state: Literal["dead", "open", "gone"] = "gone" if not there else "dead" if dead else "open"
    return Related(role, queue.beside_it(text(at) + ":", text(name)), legal(id), state)

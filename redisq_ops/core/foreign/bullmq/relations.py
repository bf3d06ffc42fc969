"""Flows: a parent waits until each of its children has ended, and keeps how each one did."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...engine.relation import Linked, Links
from ...model.entry import State
from ...model.quoting import legal, text
from ...redis.operation import Call, together
from ...redis.parsers import optional

if TYPE_CHECKING:
    from .queue import BullmqQueue

MOST = 100
"""children of a parent that are named: failed ones first, then those that have not ended"""


async def links(queue: BullmqQueue[Any], job: bytes) -> Links:
    """A job's children and its parent, in one round trip.

    The sets are those that BullMQ's `getDependenciesCount` counts; of hashes only the names of
    fields are read, because their values are what the children returned."""
    opens, broke, ignored, ended = (
        job + part for part in (b":dependencies", b":unsuccessful", b":failed", b":processed")
    )
    calls: list[Call[Any]] = [
        Call(("HGET", job, "parentKey"), optional, key=job),
        Call(("ZCARD", broke), int, key=broke),
        Call(("SCARD", opens), int, key=opens),
        Call(("HLEN", ignored), int, key=ignored),
        Call(("HLEN", ended), int, key=ended),
        Call(("ZRANGE", broke, 0, MOST - 1), list[bytes], key=broke),
        Call(("SSCAN", opens, 0, "COUNT", MOST), lambda reply: reply[1], key=opens),
        Call(("HRANDFIELD", ignored, MOST), list[bytes], key=ignored),
        Call(("HRANDFIELD", ended, MOST), list[bytes], key=ended),
    ]
    parent, n_broke, n_open, n_ignored, n_ended, *listed = await together(calls)
    fates: tuple[State | None, ...] = ("dead", None, "dead", "done")
    children: dict[bytes, Linked] = {}
    # A parent goes on without children whose failure it ignores.
    for found, fate, holds in zip(listed, fates, (True, True, False, False), strict=True):
        for key in sorted(found):
            children.setdefault(key, _linked(queue, "child", key, fate, holds))
    counts = {"dead": n_broke + n_ignored, "open": n_open, "done": n_ended}
    return Links(
        tuple(children.values())[:MOST],
        (_linked(queue, "parent", parent),) if parent else (),
        sum(counts.values()),
        int(bool(parent)),
        {word: n for word, n in counts.items() if n},
    )


def _linked(
    queue: BullmqQueue[Any], role: str, key: bytes, ended: State | None = None, holds: bool = False
) -> Linked:
    base, _, id = key.rpartition(b":")
    at, _, name = base.rpartition(b":")
    return Linked(role, queue.beside_it(text(at) + ":", text(name)), legal(id), ended, holds)

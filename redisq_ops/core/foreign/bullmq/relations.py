"""Flows: a parent waits until each of its children has ended, and keeps how each one did."""

from __future__ import annotations

from collections.abc import Collection
from itertools import compress
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

COLONS = 8
"""colons that an id has at most, as in `beside.lua`"""

_FATES: tuple[State | None, ...] = ("dead", None, "dead", "done")
"""how the children in each of the four keys ended"""


async def links(queue: BullmqQueue[Any], job: bytes) -> Links:
    """A job's children and its parent, in two round trips.

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
    fates: dict[bytes, State | None] = {}
    for found, fate in zip(listed, _FATES, strict=True):
        for key in sorted(found):
            fates.setdefault(key, fate)
    children, parents = [*fates][:MOST], [parent] if parent else []
    keys = [*children, *parents]
    metas = sorted({base + b":meta" for key in keys for base in _bases(key)})
    there = await together(Call(("EXISTS", key), bool, key=key) for key in (*keys, *metas))
    exist, queues = iter(there), {*compress(metas, there[len(keys) :])}
    places = {key: _place(queue, key, queues) for key in keys}
    ignores = {*listed[2], *listed[3]}  # a parent goes on without these
    counts = {"dead": n_broke + n_ignored, "open": n_open, "done": n_ended}
    return Links(
        tuple(
            Linked("child", *places[key], fates[key], next(exist), key not in ignores)
            for key in children
        ),
        tuple(Linked("parent", *places[key], None, next(exist)) for key in parents),
        sum(counts.values()),
        len(parents),
        {word: n for word, n in counts.items() if n},
    )


def _bases(key: bytes) -> list[bytes]:
    """What may be the name of a job's queue with its prefix, by the job's key; the longest first.

    There are several if the id may have colons, as that of a schedule's job (`repeat:ID:TIME`)."""
    parts = key.rsplit(b":", COLONS + 2)
    return [b":".join(parts[:n]) for n in range(len(parts) - 1, 1, -1)]


def _place(
    queue: BullmqQueue[Any], key: bytes, metas: Collection[bytes]
) -> tuple[BullmqQueue[Any], str]:
    """The queue and the id of a job, by its key and the `meta` of the queues that there are."""
    longest = key.rpartition(b":")[0]
    base = next((base for base in _bases(key) if base + b":meta" in metas), longest)
    at, _, name = base.rpartition(b":")
    return queue.beside_it(text(at) + ":", text(name)), legal(key[len(base) + 1 :])

"""Kinds of queues that packages beside redisq-ops bring, by entry points (docs/new-kind.md).

    [project.entry-points."redisq_ops.kinds"]
    shop = "shop_redisq.queue:ShopQueue"

They are looked for when a queue's kind is none of redisq's own, and when a server is scanned for
queues: reading what is installed takes a tenth of a second. A kind that can't be used is refused in
one sentence, and left out of scans.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING

from ..model.errors import Refused
from . import LAYOUTS

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint  # importing it takes longer than `redisq ls` may take

GROUP = "redisq_ops.kinds"
INTERFACE = 1
"""version of the interface for kinds; a class's ``interface`` is the one it was written for"""


@cache
def plug_ins() -> Mapping[str, EntryPoint]:
    """Kind -> where its class is. A kind of redisq's own can't be replaced."""
    from importlib.metadata import entry_points

    return {one.name: one for one in entry_points(group=GROUP) if one.name not in LAYOUTS}


def package_of(kind: str) -> EntryPoint | None:
    """Where a kind's class is, if another package brings it; None: the kind is redisq's own."""
    return None if kind in LAYOUTS else plug_ins().get(kind)


def refused(found: EntryPoint, why: str) -> Refused:
    """The error for a kind that can't be used."""
    package = f"{found.dist.name} {found.dist.version}" if found.dist else found.module
    line = " ".join(why.split())
    return Refused(f"kind {found.name} of package {package} can't be used: {line}")

"""The jobs that Bull and BullMQ completed and failed by the minute, where their workers have the
option ``metrics``.

Layout, from ``commands/includes/collectMetrics.lua`` of Bull 4.16 and BullMQ 5 and 6: a hash with
``count``, ``prevTS`` (when the first job of the latest minute with jobs ended) and ``prevCount``
(before that minute), and a list of the numbers of the minutes before it, the latest first. The list
has as many minutes as the option ``maxDataPoints`` says: what was before them is unknown. After a
pause longer than that, its last number is of an earlier minute.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from ...model.quoting import bytes_of
from ...model.rates import Rates
from ...redis.operation import Call, attempt_read, together


class _Series(NamedTuple):
    first: int
    """the first minute that is known"""
    numbers: dict[int, int]
    """minutes after `first` that are missing have 0"""

    def of(self, minutes: range) -> tuple[int, ...]:
        return tuple(self.numbers.get(minute, 0) for minute in minutes)


async def rates(base: str, now_ms: int, minutes: int) -> Rates:
    """What ended in the last minutes; empty if no worker kept metrics, or they are damaged."""
    last = now_ms // 60_000
    read = together(_series(base + "completed", minutes), _series(base + "failed", minutes))
    found = await attempt_read(read)
    if isinstance(found, Exception):
        return Rates()
    kept = [one for one in found if one is not None]
    if not kept:
        return Rates()
    known = range(max(last - minutes + 1, *(one.first for one in kept)), last + 1)
    # Both are kept by the same option: one that is missing never happened.
    settled, failed = ((0,) * len(known) if one is None else one.of(known) for one in found)
    return Rates((), settled, failed)


async def _series(name: str, minutes: int) -> _Series | None:
    key, data = bytes_of(name), bytes_of(name + ":data")
    hash: Call[list[Any]] = Call(("HMGET", key, "count", "prevTS", "prevCount"), list, key=key)
    list_: Call[list[bytes]] = Call(("LRANGE", data, 0, minutes), list, key=data, cut=True)
    fields, points = await together(hash, list_)
    if None in fields:
        return None
    count, since_ms, before = map(int, fields)
    minute = since_ms // 60_000
    numbers = {minute - 1 - k: int(point) for k, point in enumerate(points)}
    return _Series(minute - len(points), {**numbers, minute: count - before})

"""What must add up in a circular queue; used by the tests after every step and by ``fsck``."""

from __future__ import annotations

from collections import Counter
from typing import Any

from ...engine.reads import QueueReads
from ...model.states import ZSETS
from ...redis.operation import Call, together
from ...redis.whole_keys import elements, fields, members
from .variants import Shape, recorded


async def violations(queue: QueueReads[Any]) -> list[str]:
    """Every broken rule, in words.

    An element nobody knows of is no fault: another producer pushed it.
    """
    keys = queue.keys
    states: dict[str, set[str]] = {}
    seen: Counter[str] = Counter()
    for state, part in ZSETS.items():
        ids = await members(keys[part])
        states[state] = set(ids)
        seen.update(ids)
    hashes = ("body", "again", "transit")
    bodies, again, transit = (
        set(found) for found in await together(fields(keys[p]) for p in hashes)
    )
    seen.update(transit)
    problems = [f"{id} is in {n} states" for id, n in seen.items() if n > 1]
    problems += [f"{id} is not known and has a state" for id in sorted(set(seen) - bodies)]
    problems += [f"{id} is to run again and is not there" for id in sorted(again - bodies)]

    stat = keys["stat"]
    counters = await Call(("HMGET", stat, "spent", "sentinel"), list[bytes | None], key=stat)
    rotates = (await recorded(keys) or Shape()).residence == "rotate"
    spent = {id: int(n) for id, n in (await fields(keys["spent"])).items()}
    if sum(spent.values()) != int(counters[0] or 0):
        problems.append(
            f"{sum(spent.values())} elements are spent, and {counters[0]!r} are counted"
        )
    listed = Counter(await elements(keys["queue"]))
    resting = states["pending"] | states["delayed"] if rotates else set()
    needed = Counter(spent) + Counter((bodies - set(seen)) | resting)
    problems += [
        f"{id} has {listed[id]} elements in the list and needs {n}"
        for id, n in sorted(needed.items())
        if listed[id] < n
    ]
    if counters[1] is not None and listed["*" + counters[1].decode()] != 1:
        problems.append("the end of the lap is not marked once")
    if await Call(("LLEN", keys["wake"]), int, key=keys["wake"]) > 16:
        problems.append("the wake list is over its bound")
    return problems

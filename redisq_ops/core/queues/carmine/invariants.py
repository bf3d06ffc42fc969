"""What must add up in a Carmine queue; used by the tests after every step and by ``fsck``."""

from __future__ import annotations

from collections import Counter
from typing import Any

from ...engine.reads import QueueReads
from ...model.quoting import text
from ...model.record import entry
from ...model.states import ZSETS
from ...redis.operation import Description, together
from ...redis.parsers import moment
from ...redis.whole_keys import elements, fields, scores, set_members
from .keys import END


async def violations(queue: QueueReads[Any]) -> list[str]:
    """Every broken rule, in words."""
    keys = queue.keys
    hashes = ("messages", "locks", "backoffs", "nattempts", "body", "next", "meta", "transit")
    sets = ("finished", "requeued", "stray")
    looks: list[Description[Any]] = [_times(keys[part]) for part in ZSETS.values()]
    looks += [fields(keys[part]) for part in hashes]
    looks += [set_members(keys[part]) for part in sets]
    looks += [elements(keys["circle"]), queue._now()]
    found = await together(looks)
    times = dict(zip(ZSETS, found[:4], strict=True))
    kept = dict(zip(hashes, found[4:12], strict=True))
    done, requeued, stray = (set(map(text, ids)) for ids in found[12:15])
    circle, now = found[15:]
    places = {state: set(ids) for state, ids in times.items()}
    pending, delayed = times["pending"], times["delayed"]

    between = set(kept["transit"])
    seen = Counter(id for ids in (*places.values(), done, between) for id in ids)
    problems = [f"{id} is in {n} states" for id, n in seen.items() if n > 1]
    queued = places["delayed"] | places["pending"]
    problems += _equal("in messages", set(kept["messages"]), queued | done)
    hidden = places["dead"] | places["trash"] | between
    problems += _equal("in body", set(kept["body"]), hidden)

    laid = Counter(circle)
    if circle and laid[END] != 1:
        problems.append(f"the circle has {laid[END]} ends")
    problems += [
        f"{id} is in the circle {n} times" for id, n in laid.items() if n > 1 and id != END
    ]
    problems += _equal("in the circle", set(laid) - {END}, set(kept["messages"]) | stray)
    problems += [
        f"{id} is there, and its place is called stray" for id in stray & set(kept["messages"])
    ]

    problems += _equal("locked", kept["locks"], {id: b"%d" % at for id, at in pending.items()})
    backoffs = {id: at for id, at in kept["backoffs"].items() if id not in done}
    due = {id: b"%d" % at for id, at in delayed.items()}
    problems += _equal("backed off", backoffs, {id: due[id] for id in due if id in backoffs})
    problems += [f"{id} has no backoff" for id in due if int(due[id]) > now and id not in backoffs]
    tries: dict[str, bytes] = {}
    for id in queued:
        record = entry(id, "waiting", None, kept["meta"].get(id))
        if n := record.attempts + (id in pending):
            tries[id] = b"%d" % n
    counted = {id: n for id, n in kept["nattempts"].items() if id not in done}
    problems += _equal("attempted", counted, tries)
    follows = set(kept["next"])
    problems += _equal("to be queued again", requeued, follows & queued)
    absent = follows - queued - places["trash"] - between
    problems += [f"{id} is to run again and is not there" for id in absent]
    return problems


def _equal(what: str, found: Any, wanted: Any) -> list[str]:
    """Sets of ids, or ids with their values."""
    problems = [f"{id} is {what} and should not be" for id in sorted(set(found) - set(wanted))]
    problems += [f"{id} is not {what}" for id in sorted(set(wanted) - set(found))]
    if isinstance(found, dict):
        problems += [
            f"{id} is {what}: {found[id][:100]!r}, not {wanted[id]!r}"
            for id in sorted(set(found) & set(wanted))
            if found[id] != wanted[id]
        ]
    return problems


async def _times(key: str) -> dict[str, int]:
    return {id: moment(score) or 0 for id, score in await scores(key)}

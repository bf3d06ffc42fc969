"""What must add up in a delay set; used by the tests after every step and by ``fsck``."""

from __future__ import annotations

from collections import Counter
from typing import Any

from ...engine.entry_results import misplaced_results
from ...engine.reads import QueueReads
from ...model.errors import CORRUPT, BadInput
from ...model.states import ZSETS
from ...redis.whole_keys import fields, members
from .periodic import Periodic


async def violations(queue: QueueReads[Any]) -> list[str]:
    """Every broken rule, in words."""
    seen: Counter[str] = Counter()
    places: dict[str, set[str]] = {}
    for state, part in ZSETS.items():
        ids = await members(queue.keys[part])
        places[state] = set(ids)
        seen.update(ids)
    transit = queue.keys["transit"]
    seen.update([*await fields(transit)])
    problems = [f"{id} is in {n} states" for id, n in seen.items() if n > 1]
    body, next_ = queue.keys["body"], queue.keys["next"]
    bodies = set(await fields(body))
    problems += [f"{id} has no payload" for id in sorted(set(seen) - bodies)]
    problems += [f"{id} has a payload and no state" for id in sorted(bodies - set(seen))]
    following = set(await fields(next_))
    problems += [f"{id} is to run again and is not there" for id in sorted(following - set(seen))]
    problems += await misplaced_results(queue)
    planned = set(await members(queue.keys["periodic_at"]))
    for name, line in (await fields(queue.keys["periodic"])).items():
        try:
            Periodic.decoded(line).checked()
        except BadInput as error:
            problems.append(f"periodic entry {name} can't run here: {error}")
        except CORRUPT:
            problems.append(f"periodic entry {name} is corrupt")
        if name not in planned:
            problems.append(f"periodic entry {name} has no next run")
    return problems

"""Whether a verb is possible for a state, and for this kind of queue."""

from __future__ import annotations

from typing import Any

from redisq_ops.core.engine.optional_features import HasConsumerGroups
from redisq_ops.core.engine.queue import Queue
from redisq_ops.core.model.entry import Entry, State
from redisq_ops.core.model.errors import BadInput, RedisqError, Refused
from redisq_ops.core.model.states import VERBS, Verb
from redisq_ops.core.redis.operation import attempt

from ..hint import hint
from ..terminal import kind_of
from .wording import SKIPPED


async def ensure_changeable(queue: Queue[Any]) -> None:
    """Refuse a change of a queue that is only shown, because its release isn't known."""
    if (why := await queue.only_shown.op()) is not None:
        raise Refused(f"queue {queue.name} is only shown: {why}")


async def only_shown(queue: Queue[Any]) -> str | None:
    """Why a queue is only shown; None: it can be changed, or the reason can't be read."""
    found = await attempt(queue.only_shown.op())
    return None if isinstance(found, Exception) else found


async def refusal(queue: Queue[Any], verb: Verb, entry: Entry) -> str | None:
    """Why a verb would skip an entry, in the words of the verb's own message; None: it would not.

    A user who may not run scripts gets only the reasons that need no script."""
    try:
        allowed(queue, verb, entry.state, orphan=entry.orphan)
        await ensure_changeable(queue)
    except RedisqError as refused:
        return str(refused)
    unreadable = entry.problem is not None and not entry.orphan and entry.state != "trash"
    word = "corrupt" if unreadable else ""
    if not word:
        orphans = [entry.id] if entry.orphan else ()
        asked = await attempt(queue.would_move.op([entry.id], entry.state, VERBS[verb][1], orphans))
        word = "" if isinstance(asked, Exception) else asked[0]
    return (
        f"{verb} would skip it ({word}): such entries {SKIPPED.get(word, word)}" if word else None
    )


def allowed(queue: Queue[Any], verb: Verb, state: State, orphan: bool = False) -> None:
    """Refuse a verb that isn't for this state, or that this kind of queue or the hash slots of its
    keys don't allow. ``orphan``: the verb is for ids without a record (`Entry.orphan`)."""
    sources, _ = VERBS[verb]
    if state not in sources:
        raise BadInput(f"{verb} is for {' or '.join(sources)} entries, not {state}")
    can = queue.actions.get(verb, ())
    removable = orphan and verb in ("purge", "hard") and state in queue.orphan_states
    if state not in can and not removable:
        of = f"{state} entries" if can else "entries"
        does = "purge --hard" if verb == "hard" else verb
        what = "purge" if verb == "hard" else verb
        why = queue.refusals.get(f"{what} {state}") or queue.refusals.get(what)
        how = f": {why}" if why else ""
        if isinstance(queue, HasConsumerGroups):
            claim = hint("workers", "claim", queue.name, "CONSUMER", to="NAME")
            remove = hint("workers", "rm", queue.name, "CONSUMER")
            how = (
                f" ({claim} does)"
                if verb == "claim"
                else (f"; what is possible there: {claim}, {remove}")
            )
        raise Refused(f"queue {queue.name} is {kind_of(queue.kind)}: it can't {does} {of}{how}")
    queue.refuse_several_slots()

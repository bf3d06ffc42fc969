"""Whether a verb is possible for a state, and for this kind of queue."""

from __future__ import annotations

from typing import Any

from redisq_ops.core.engine.optional_features import HasConsumerGroups
from redisq_ops.core.engine.queue import Queue
from redisq_ops.core.model.entry import State
from redisq_ops.core.model.errors import BadInput, Refused
from redisq_ops.core.model.states import VERBS, Verb

from ..hint import hint
from ..terminal import kind_of


async def ensure_changeable(queue: Queue[Any]) -> None:
    """Refuse a change of a queue that is only shown, because its release isn't known."""
    if (why := await queue.only_shown.op()) is not None:
        raise Refused(f"queue {queue.name} is only shown: {why}")


def allowed(queue: Queue[Any], verb: Verb, state: State) -> None:
    """Refuse a verb that isn't for this state, or that this kind of queue can't do."""
    sources, _ = VERBS[verb]
    if state not in sources:
        raise BadInput(f"{verb} is for {' or '.join(sources)} entries, not {state}")
    can = queue.actions.get(verb, ())
    if state not in can:
        of = f"{state} entries" if can else "entries"
        does = "purge --hard" if verb == "hard" else verb
        what = "purge" if verb == "hard" else verb
        why = queue.refusals.get(f"{what} {state}") or queue.refusals.get(what)
        how = f": {why}" if why else ""
        if isinstance(queue, HasConsumerGroups):
            claim = hint("consumers", "claim", queue.name, "CONSUMER", to="NAME")
            remove = hint("consumers", "remove", queue.name, "CONSUMER")
            how = f" ({claim} does)" if verb == "claim" else (
                f"; what is possible there: {claim}, {remove}"
            )  # fmt: skip
        raise Refused(f"queue {queue.name} is {kind_of(queue.kind)}: it can't {does} {of}{how}")

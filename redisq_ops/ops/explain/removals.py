"""Which change of an operator took away an entry that isn't there any more, as the journal tells.

The journal keeps what was asked for and how many it was, not the ids. So a change is the one for
sure where it named the entry and nothing was left out, or where no other led out of the state in
which the history saw the entry last. Else those are named that may have been it.
"""

from __future__ import annotations

from collections.abc import Sequence

from redisq_ops.core.model.states import EDIT

from ..change.audit_log import Operation
from .facts import OPERATIONS, Situation

_ENDS = ("trash", "gone")


def removals(look: Situation, id: str) -> tuple[list[Operation], list[Operation]]:
    """What took it away for sure, in order of time, the purge before the end of what is in the
    trash; and where that can't be told, all that may have, the newest first."""
    event = look.told.events[0] if look.told.events else None
    since = event.at_ms if event is not None else 0
    left = [o for o in look.operations if o.started_ms >= since and o.done > o.undone]
    left = [o for o in left if _takes_away(o, id) and meant(o, id) is not False]
    sure = [o for o in left if meant(o, id)]
    if sure and sure[0].target in _ENDS:
        purged = sure[0].source == "trash" and len(sure) > 1 and sure[1].target == "trash"
        return ([sure[1], sure[0]] if purged else [*sure[:1], *_emptied(left, sure[0])]), []
    if event is None or "dead" not in event.what:
        return [], [o for o in left if o.target in _ENDS or o.verb == "cancel"]
    # Out of the dead letters nothing else leads, if the journal was looked through since then.
    out = [o for o in left if o.source in ("dead", "")]
    whole = len(look.operations) < OPERATIONS or look.operations[-1].started_ms <= since
    ended = [o for o in out if o.target in _ENDS or o.verb == "cancel"]
    if len(out) != 1 or not ended or not whole:
        return [], out if len(ended) == len(out) else left  # what was replayed may be anywhere
    return [*out, *_emptied(left, out[0])], []


def _emptied(left: Sequence[Operation], purge: Operation) -> list[Operation]:
    """What removed a purged one for good, if only one change may have; else its time was over."""
    if purge.target != "trash":
        return []
    after = [o for o in left if o.source == "trash" and o.started_ms >= purge.started_ms]
    return after if len(after) == 1 else []


def _takes_away(operation: Operation, id: str) -> bool:
    if operation.verb == "cancel":
        return operation.what == f"request {id.rpartition('/')[0]}"
    return bool(operation.source) and operation.target not in ("", EDIT, operation.source)


def meant(operation: Operation, id: str) -> bool | None:
    """Whether a change was about an entry, by what it was asked for; None: it may have been."""
    words = operation.what.split(", ")
    names = [word.removeprefix("request ") for word in words if _names(word)]
    open = not names or operation.what == "all" or "…" in words
    if open or any(word.startswith("client ") for word in words):
        return None
    if id in names:
        return operation.matched == operation.done == len(names) == len(words) or None
    return None if id.rpartition("/")[0] in names else False


def _names(word: str) -> bool:
    """Ids have no spaces in them; all other words of a filter have."""
    return " " not in word or word.startswith("request ")

"""Which operator's change removed an entry that does not exist any more, from the audit log.

The audit log records the filter and the number of entries of a change, not their ids. A change is
certain if it named the entry and left nothing out, or if it was the only one that removed entries
from the state in which the history saw the entry last. Otherwise all possible changes are listed.
"""

from __future__ import annotations

from collections.abc import Sequence

from redisq_ops.core.model.states import EDIT

from ..change.audit_log import Operation
from .observation import Observation

_REMOVED = ("trash", "gone")


def removals(observed: Observation, id: str) -> tuple[list[Operation], list[Operation]]:
    """The changes that certainly removed an entry, and those that may have.

    One of the two lists is empty. The certain ones are in order of time: a purge, then what emptied
    the trash. The possible ones are newest first.
    """
    event = observed.history.events[0] if observed.history.events else None
    since = event.at_ms if event is not None else 0
    later = [o for o in observed.operations if o.started_ms >= since and o.done > o.undone]
    later = [o for o in later if _removes(o, id) and includes(o, id) is not False]
    certain = [o for o in later if includes(o, id)]
    if certain and certain[0].target in _REMOVED:
        newest = certain[0]
        purged = newest.source == "trash" and len(certain) > 1 and certain[1].target == "trash"
        return ([certain[1], newest] if purged else [newest, *_emptied(later, newest)]), []
    if event is None or "dead" not in event.what:
        return [], [o for o in later if o.target in _REMOVED or o.verb == "cancel"]
    # Only changes take an entry out of the dead letters, if the audit log goes back that far.
    out = [o for o in later if o.source in ("dead", "")]
    complete = observed.log_ms is not None and observed.log_ms <= since
    removed = [o for o in out if o.target in _REMOVED or o.verb == "cancel"]
    if len(out) != 1 or not removed or not complete:
        # A replayed entry may have reached any state since.
        return [], out if len(removed) == len(out) else later
    return [*out, *_emptied(later, out[0])], []


def _emptied(later: Sequence[Operation], purge: Operation) -> list[Operation]:
    """The only change that can have removed a purged entry from the trash; [] if there are several
    or none (its time in the trash ended)."""
    if purge.target != "trash":
        return []
    after = [o for o in later if o.source == "trash" and o.started_ms >= purge.started_ms]
    return after if len(after) == 1 else []


def _removes(operation: Operation, id: str) -> bool:
    """Whether a change took entries out of a state."""
    if operation.verb == "cancel":
        return operation.what == f"request {id.rpartition('/')[0]}"
    return bool(operation.source) and operation.target not in ("", EDIT, operation.source)


def includes(operation: Operation, id: str) -> bool | None:
    """Whether a change's filter includes an entry; None: it cannot be decided."""
    words = operation.what.split(", ")
    names = [word.removeprefix("request ") for word in words if _is_id(word)]
    if not names or operation.what == "all" or "…" in words:
        return None
    if id in names:
        return operation.matched == operation.done == len(names) == len(words) or None
    return None if id.rpartition("/")[0] in names else False


def _is_id(word: str) -> bool:
    """Ids have no spaces; every other part of a filter's text has."""
    return " " not in word or word.startswith("request ")

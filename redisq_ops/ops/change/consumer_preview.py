"""What a change of a consumer's entries will do, in words."""

from __future__ import annotations

from redisq_ops.core.model.consumer_load import NOBODY

from ..inspect.consumers import SILENT_MS, independent_groups
from ..terminal import age, count
from . import consumer_steps
from .confirmation import typed_number
from .held_entries import HeldEntries, verb_of
from .preview import Preview
from .wording import claimed_by, meaning, state_entries


def undoable(held: HeldEntries) -> bool:
    """Whether giving these entries to another consumer can be undone."""
    few = len(held.ids) <= consumer_steps.UNDOABLE and held.consumer != NOBODY
    return few or not independent_groups(held.queue)


def consumer_preview(
    held: HeldEntries, to: str | None, *, remove: bool = False, acknowledge: bool = False
) -> Preview:
    """What `ConsumerSteps` will do. ``to`` is empty while the receiver isn't named yet."""
    n, queue, lines = len(held.ids), held.queue.name, list[str]()
    typed = typed_number(n)
    verb = verb_of(to, remove=remove, acknowledge=acknowledge)
    if remove or n:
        receiver = "the consumer you name" if to == "" else to
        means = meaning("acknowledge" if acknowledge else "requeue", held.queue)
        means = means if receiver is None else claimed_by(receiver)
        # A stream lets a consumer acknowledge what another one holds.
        lines.append(means.partition(";")[0] if independent_groups(held.queue) else means)
    lines += left_out(held)
    last = ""
    if (remove or n) and held.idle_ms is not None and held.idle_ms < SILENT_MS:
        last = f"it was active {age(held.idle_ms)} ago"
    if remove:
        if groups := len(held.groups):
            noun = "group" if groups == 1 else "groups"
            lines.append(f"it is removed from {count(groups)} {noun} once it holds nothing")
        lines += [f"{last}: if it lives, it comes back"] if last else []
        what = f"remove {held.what} in queue {queue}, which holds {state_entries(n, 'pending')}"
    else:
        lines += [f"{last}: it may be at work on them"] if last else []
        lines += [f"{held.consumer} stays a consumer"] if n and held.consumer != NOBODY else []
        what = f"{verb} {state_entries(n, 'pending')} of {held.what} in queue {queue}"
    if not undoable(held):
        many = f"more than {count(consumer_steps.UNDOABLE)} entries of a stream"
        back = "" if acknowledge else f": claim them back{f' from {to}' if to else ''}"
        why = "no consumer with a name had them" if held.consumer == NOBODY else f"{many}{back}"
        lines.append(f"there is no undo: {why}")
    facts = {
        "verb": verb,
        "queue": queue,
        "group": held.group or None,
        "consumer": held.consumer,
        "to": to,
        "matched": n,
        "left_out": held.too_young,
        "groups": len(held.groups),
        "sample": held.ids[:10],
    }
    return Preview(what, tuple(lines), typed, facts, ids=held.ids[:3])


def left_out(held: HeldEntries) -> list[str]:
    """How many entries were held for too short a time; empty: none."""
    were = "was" if held.too_young == 1 else "were"
    span = age(held.min_idle_ms)
    young = f"{count(held.too_young)} {were} held for less than {span}: left out"
    return [young] if held.too_young else []

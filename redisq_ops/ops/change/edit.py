"""Other payloads for entries that are dead or delayed: by hand, or by a JSON Patch over many."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from redisq_ops.core.engine.queue import Queue
from redisq_ops.core.model.entry import Entry, State
from redisq_ops.core.model.errors import Refused, Superseded, Unfit
from redisq_ops.core.model.settings import MAX_PAYLOAD
from redisq_ops.core.model.states import EDIT

from ..filter.selection import Selection
from ..redaction import NO_REDACTION, Redaction
from ..terminal import count, kind_of
from .confirmation import typed_number
from .payload_diff import diff
from .preview import Preview
from .steps import ChangeSteps
from .wording import state_entries

BATCH = 50
STEP_BYTES = 1024 * 1024
"""a step carries no more than this, or one entry"""
SAMPLES = 3
"""entries whose change is shown before it"""

Change = Callable[[bytes], bytes]
"""returns a payload's new bytes; raises `Unfit` if the payload can't be changed in this way"""


@dataclass(frozen=True, slots=True)
class Replaced:
    """Replaces a payload that a person has seen by another one."""

    before: bytes
    after: bytes

    def __call__(self, payload: bytes) -> bytes:
        if payload != self.before:  # somebody else was quicker: theirs is not overwritten unseen
            raise Unfit("changed")
        return self.after


def editable(queue: Queue[Any], state: State) -> None:
    """Refuse where a queue's payloads can't be changed."""
    if not queue.editable_states:
        raise Refused(
            f"queue {queue.name} is kept by another program ({queue.kind}): its payloads can't be "
            "edited here"
        )
    if state not in queue.editable_states:
        can = " and ".join(queue.editable_states)
        raise Refused(
            f"queue {queue.name} is {kind_of(queue.kind)}: only payloads of {can} entries can be "
            "edited"
        )


CHANGES = "changes"


def judged(entry: Entry, change: Change, redaction: Redaction = NO_REDACTION) -> tuple[str, bytes]:
    """``changes``, ``same`` or why the payload can't be changed; and the new payload. The answer
    never depends on redacted parts: a patch must have the same effect on the redacted payload. So
    it can't copy redacted parts to a visible place, and can't test or compare them."""
    assert entry.payload is not None
    shown = redaction.payload(entry.payload)
    try:
        seen = after = change(entry.payload) if shown == entry.payload else None
        if after is None or seen is None:
            seen, after = _blind(change, entry.payload, shown, redaction)
        if len(after) > MAX_PAYLOAD:
            raise Unfit("too large")
    except Unfit as error:
        return str(error), entry.payload
    return (CHANGES if seen != shown else "same"), after


def _blind(
    change: Change, payload: bytes, shown: bytes, redaction: Redaction
) -> tuple[bytes, bytes]:
    """The results of a change: of the payload as it is shown, and of the payload itself."""
    if isinstance(change, Replaced):  # never ``same``: that would confirm a guess of redacted parts
        return b"", change(payload)
    if not _is_json(payload):
        raise Unfit("not JSON")
    if not _is_json(shown):
        raise Unfit("its redacted form is not JSON")
    seen, after = change(shown), change(payload)
    if _tree(redaction.payload(after)) != _tree(redaction.payload(seen)):
        raise Unfit("it would show what is redacted")
    return seen, after


def _tree(payload: bytes) -> str:
    """JSON with fixed spacing, to compare; as text, since 1, true and 1.0 are equal in Python."""
    return json.dumps(json.loads(payload)) if _is_json(payload) else repr(payload)


def _is_json(payload: bytes) -> bool:
    try:
        json.loads(payload.decode("utf-8"))
    except (ValueError, RecursionError):
        return False
    return True


async def judge(
    queue: Queue[Any], state: State, entries: Sequence[Entry], change: Change, redaction: Redaction
) -> list[tuple[str, bytes]]:
    """`judged` for each entry, and what the queue says of those that would change."""
    found = [judged(entry, change, redaction) for entry in entries]
    rows = [
        (entry.id, entry.payload or b"", after)
        for entry, (word, after) in zip(entries, found, strict=True)
        if word == CHANGES
    ]
    told = iter(await queue.would_edit.op(rows, source=state) if rows else ())
    return [(next(told) or word if word == CHANGES else word, after) for word, after in found]


async def count_changes(
    selection: Selection, change: Change, progress: Callable[[int, int], None] | None = None
) -> Counter[str]:
    """How many entries of a selection would change, and of the others why not; reads only."""
    found: Counter[str] = Counter()
    ids = iter(selection.ids())
    while batch := list(islice(ids, BATCH)):
        entries = await _there(selection, batch)
        found["changed"] += len(batch) - len(entries)
        redaction = selection.filter.redaction
        words = await judge(selection.queue, selection.state, entries, change, redaction)
        found.update(word for word, _ in words)
        if progress is not None:
            progress(found.total(), selection.count)
    return +found


async def _there(selection: Selection, ids: Sequence[str]) -> list[Entry]:
    """Those of these entries that are still in their state, with their payloads."""
    found = await selection.queue.get_in.op(ids, selection.state)
    return [e for e in found if e is not None and e.payload is not None]


@dataclass(frozen=True, slots=True)
class Sample:
    """What a change would make of one entry."""

    id: str
    diff: tuple[str, ...] = ()
    """lines of a unified diff; none where nothing would change"""
    unfit: str | None = None
    """why it can't be changed"""
    hidden: bool = False
    """it would change, but only in redacted parts"""

    @property
    def lines(self) -> tuple[str, ...]:
        """For people."""
        if self.unfit is not None:
            return (f"({self.unfit}: stays as it is)",)
        return self.diff or (
            "(what changes is redacted)" if self.hidden else "(nothing would change)",
        )


async def samples(selection: Selection, change: Change) -> list[Sample]:
    """What ``change`` makes of the first `SAMPLES` entries, redacted as the filter says."""
    ids = [entry.id for entry in selection.sample[:SAMPLES]]
    entries, redaction = await _there(selection, ids), selection.filter.redaction
    found = await judge(selection.queue, selection.state, entries, change, redaction)
    return [_sample(e, *each, redaction) for e, each in zip(entries, found, strict=True)]


def _sample(entry: Entry, word: str, after: bytes, redaction: Redaction) -> Sample:
    assert entry.payload is not None
    if word == "same":
        return Sample(entry.id)
    if word != CHANGES:
        return Sample(entry.id, unfit=word)
    before, then = (
        redaction.payload(payload).decode("utf-8", "backslashreplace")
        for payload in (entry.payload, after)
    )
    lines = tuple(diff(before, then))
    return Sample(entry.id, lines, hidden=not lines)


async def preview_edit(
    selection: Selection, change: Change, progress: Callable[[int, int], None] | None = None
) -> tuple[Preview, list[Sample]]:
    """What a change of payloads will do, and what it makes of the first entries. Reads only."""
    found = await count_changes(selection, change, progress)
    looked = await samples(selection, change)
    return edit_preview(selection, found, looked), looked


def edit_preview(selection: Selection, found: Counter[str], looked: Sequence[Sample]) -> Preview:
    """What a change of payloads will do; ``found`` is the result of `count_changes`."""
    n, state, queue = selection.count, selection.state, selection.queue.name
    changes = found.pop(CHANGES, 0)
    some = f"{count(changes)} of " if found else ""
    noun = "an edited entry" if n > 1 else "it"
    lines = [f"{noun} stays {state}; undo gives the old payload back"]
    if found:
        why = ", ".join(f"{count(k)} {word}" for word, k in found.items())
        left = found.total()
        stay = "stays as it is" if left == 1 else "stay as they are"
        lines.append(f"{count(left)} {stay}: {why}")
    facts = {
        "verb": EDIT,
        "queue": queue,
        "state": state,
        "filter": str(selection.filter),
        "matched": n,
        "changes": changes,
        "stay": dict(found),
        "sample": [
            {"id": x.id, "diff": list(x.diff), "unfit": x.unfit, "redacted": x.hidden}
            for x in looked
        ],
    }
    what = f"edit {some}{state_entries(n, state)} of {queue}"
    shown = lines if changes else lines[1:]
    return Preview(what, tuple(shown), typed_number(changes), facts, str(selection.filter))


class EditSteps(ChangeSteps):
    """The steps of a change of payloads, at most `STEP_BYTES` of them at once.

    Every entry is read again when its turn comes. It is changed only if it still has that payload,
    and has been in its state since before the selection. `undo` restores the old payloads.
    """

    def __init__(self, selection: Selection, change: Change) -> None:
        editable(selection.queue, selection.state)
        super().__init__(
            selection.queue,
            EDIT,
            selection.count,
            str(selection.filter),
            source=selection.state,
            target=EDIT,
        )
        self.number = 0
        """of the latest step"""
        self._selection = selection
        self._change = change
        self._ids = iter(selection.ids())
        self._rows: list[tuple[str, bytes, bytes]] = []
        self._sent: Sequence[tuple[str, bytes, bytes]] = ()
        self._left_out = Counter[str]()
        self._met = set[str]()
        """ids of the batches before, where ids need not be unique"""

    async def step(self, size: int) -> int | None:
        if not self._sent:
            while not self._rows and (ids := list(islice(self._ids, min(BATCH, size)))):
                self._rows = await self._changed(ids)
            self._sent = self._portion()
            self.number += bool(self._sent)
        words: Sequence[str] = ()
        if self._sent:
            # Kept until its reply comes: a step that is tried again is the same step.
            words = await self.queue.edit.op(
                self.op,
                self.number,
                self._sent,
                source=self._selection.state,
                high_water_ms=self._selection.high_water_ms,
            )
            if len(words) != len(self._sent):  # an undo took the step's place
                raise Superseded(f"{self.op} was undone meanwhile")
        self._rows = self._rows[len(self._sent) :]
        results, self._left_out, self._sent = self._left_out, Counter(), ()
        results.update(words)
        return self.outcome.count(results) or None

    def _portion(self) -> Sequence[tuple[str, bytes, bytes]]:
        size = end = 0
        for _, was, payload in self._rows:
            size += len(was) + len(payload)
            if end and size > STEP_BYTES:
                break
            end += 1
        return self._rows[:end]

    async def _changed(self, ids: Sequence[str]) -> list[tuple[str, bytes, bytes]]:
        """The ids whose payloads would change, each with the old and the new payload."""
        rows = []
        selection = self._selection
        if self.queue.owner:  # another entry of that id can't be told from the one changed before
            self._left_out["changed"] += sum(id in self._met for id in ids)
            ids = [id for id in ids if id not in self._met]
            self._met.update(ids)
        entries = await _there(selection, ids)
        self._left_out["changed"] += len(ids) - len(entries)
        for entry in entries:
            assert entry.payload is not None
            word, after = judged(entry, self._change, selection.filter.redaction)
            if word == CHANGES:
                rows.append((entry.id, entry.payload, after))
            else:
                self._left_out[word] += 1
        return rows

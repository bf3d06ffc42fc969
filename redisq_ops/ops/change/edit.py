"""Other payloads for entries that are dead or delayed: by hand, or by a JSON Patch over many."""

from __future__ import annotations

import difflib
import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass
from decimal import Decimal
from itertools import islice
from math import isfinite
from typing import Any

import jsonpatch
import jsonpointer

from redisq_ops.core.engine.queue import Queue
from redisq_ops.core.model.entry import Entry, State
from redisq_ops.core.model.errors import BadInput, Refused, Superseded
from redisq_ops.core.model.settings import MAX_PAYLOAD
from redisq_ops.core.model.states import EDIT
from redisq_ops.core.redis.operation import together

from ..filter.selection import Selection
from ..redaction import NO_REDACTION, Redaction
from ..terminal import count, kind_of
from .confirmation import typed_number
from .preview import Preview
from .steps import ChangeSteps
from .wording import entries

BATCH = 50
LONG = 2_000
"""lines of both payloads up to which they are compared line by line"""
STEP_BYTES = 1024 * 1024
"""a step carries no more than this, or one entry"""
SAMPLES = 3
"""entries whose change is shown before it"""

DOUBLE_DIGITS = 17
"""as many as a double has when it is written out in full"""

Change = Callable[[bytes], bytes]
"""a payload's new bytes; `Unfit` where it can't be changed so"""


class Unfit(Exception):
    """Why one payload can't be changed; the others can."""


@dataclass(frozen=True, slots=True)
class Patch:
    """A JSON Patch (RFC 6902): what it makes of a payload."""

    operations: list[dict[str, Any]]

    @classmethod
    def parse(cls, text: str) -> Patch:
        """One line says what is wrong with it, before anything is looked at."""
        try:
            found = json.loads(text, parse_constant=_no_number)
        except (ValueError, RecursionError) as error:
            raise BadInput(f"--patch is not JSON: {error}") from error
        if not isinstance(found, list) or not all(isinstance(step, dict) for step in found):
            raise BadInput('--patch is a list of operations: [{"op": "replace", "path": …}]')
        try:
            jsonpatch.JsonPatch(found)
        except (jsonpatch.JsonPatchException, jsonpointer.JsonPointerException) as error:
            raise BadInput(f"--patch: {error}") from error
        return cls(found)

    def __call__(self, payload: bytes) -> bytes:
        """The patched payload, written as the old one was: spaced or not, keys in their order."""
        try:
            # As text: from bytes, UTF-16 would be read too, and come back as UTF-8.
            source = payload.decode("utf-8")
            before = json.loads(source, object_pairs_hook=_unique, parse_float=_exact)
        except (ValueError, RecursionError) as error:
            raise Unfit("not JSON") from error
        tight = (",", ":") if b'": ' not in payload else (", ", ": ")
        escaped = b"\\u" in payload
        try:
            # A value that is put in is the patch's own, and later steps would change it there.
            after = jsonpatch.JsonPatch(deepcopy(self.operations)).apply(before)
            # As text: to Python 1 is true is 1.0.
            if (text := json.dumps(after)) == json.dumps(before):
                return payload
            return json.dumps(after, ensure_ascii=escaped, separators=tight).encode()
        except UnicodeEncodeError:  # half of a surrogate pair has no UTF-8
            return text.encode()
        except RecursionError as error:
            raise Unfit("nested too deeply") from error
        except (jsonpatch.JsonPatchException, jsonpointer.JsonPointerException) as error:
            raise Unfit("the patch doesn't apply") from error


@dataclass(frozen=True, slots=True)
class Replaced:
    """One payload instead of another that a person has seen."""

    before: bytes
    after: bytes

    def __call__(self, payload: bytes) -> bytes:
        if payload != self.before:  # somebody else was quicker: theirs is not overwritten unseen
            raise Unfit("changed")
        return self.after


def _exact(digits: str) -> float:
    """A number that can be written again as it was; one with more digits may be an amount."""
    number, exact = float(digits), Decimal(digits)
    many = len(exact.as_tuple().digits) > DOUBLE_DIGITS
    if not isfinite(number) or (many and Decimal(repr(number)) != exact):
        raise Unfit("a number would lose digits")
    return number


def _no_number(word: str) -> float:
    raise ValueError(f"{word} is no number of JSON")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Of an object that has a key twice one of the two would be lost."""
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key twice")
    return found


def editable(queue: Queue[Any], state: State) -> None:
    """Refuse where a queue's payloads can't be changed."""
    if not queue.editable_states:
        raise Refused(
            f"queue {queue.name} is kept by another program ({queue.kind}): its payloads can't be "
            "edited here, that program finds and runs its work by them"
        )
    if state not in queue.editable_states:
        can = " and ".join(queue.editable_states)
        raise Refused(
            f"queue {queue.name} is {kind_of(queue.kind)}: only payloads of {can} entries can be "
            "edited"
        )


CHANGES = "changes"


def judged(entry: Entry, change: Change, redaction: Redaction = NO_REDACTION) -> tuple[str, bytes]:
    """``changes``, ``same`` or why the payload can't be changed; and what it would become. The
    answer never depends on redacted parts: a patch has to do to the redacted payload what it does
    to the payload. So it can't copy redacted parts to where they would be shown, nor test or
    compare them."""
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
    """What a change makes of a payload as it is shown, and of the payload."""
    if isinstance(change, Replaced):  # also by itself: whether it is the same is a secret
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
    """JSON however it is spaced; as text, since to Python 1 is true is 1.0."""
    return json.dumps(json.loads(payload)) if _is_json(payload) else repr(payload)


def _is_json(payload: bytes) -> bool:
    try:
        json.loads(payload.decode("utf-8"))
    except (ValueError, RecursionError):
        return False
    return True


async def count_changes(
    selection: Selection, change: Change, progress: Callable[[int, int], None] | None = None
) -> Counter[str]:
    """How many entries of a selection would change, and of the others why not; reads only."""
    found: Counter[str] = Counter()
    ids = iter(selection.ids())
    while batch := list(islice(ids, BATCH)):
        for entry in await together(selection.queue.get.op(id) for id in batch):
            gone = entry is None or entry.state != selection.state or entry.payload is None
            if entry is None or gone:
                found["changed"] += 1
            else:
                found[judged(entry, change, selection.filter.redaction)[0]] += 1
        if progress is not None:
            progress(found.total(), selection.count)
    return found


@dataclass(frozen=True, slots=True)
class Sample:
    """What a change would make of one entry."""

    id: str
    diff: tuple[str, ...] = ()
    """lines of a unified diff; none where nothing would change"""
    unfit: str | None = None
    """why it can't be changed"""
    hidden: bool = False
    """it would change, but only in what isn't shown"""

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
    entries = await together(selection.queue.get.op(id) for id in ids)
    redaction = selection.filter.redaction
    return [
        _sample(e, change, redaction) for e in entries if e is not None and e.payload is not None
    ]


def _sample(entry: Entry, change: Change, redaction: Redaction) -> Sample:
    assert entry.payload is not None
    word, after = judged(entry, change, redaction)
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


def diff(before: str, after: str) -> Iterator[str]:
    """Lines taken away and put in, JSON spread over lines first; a little around each.

    Of long payloads what they have in common at both ends is cut off first; of what is long even
    then only the number of lines is shown, since the cost of comparing grows with the cube.
    """
    old, new = _lines(before), _lines(after)
    if len(old) + len(new) > LONG:
        head, tail = _common(old, new)
        out, put = len(old) - head - tail, len(new) - head - tail
        if out + put > LONG:
            return iter((f"-{count(out)} lines", f"+{count(put)} lines"))
        low, behind = max(0, head - 1), max(0, tail - 1)
        old, new = old[low : len(old) - behind], new[low : len(new) - behind]
    return (
        line
        for line in difflib.unified_diff(old, new, lineterm="", n=1)
        if not line.startswith(("---", "+++", "@@"))
    )


def _common(old: list[str], new: list[str]) -> tuple[int, int]:
    """How many lines both begin with, and how many others both end with."""
    most = min(len(old), len(new))
    head = next((k for k in range(most) if old[k] != new[k]), most)
    tail = next((k for k in range(most - head) if old[-1 - k] != new[-1 - k]), most - head)
    return head, tail


def _lines(payload: str) -> list[str]:
    try:
        return json.dumps(json.loads(payload), indent=2, ensure_ascii=False).splitlines()
    except (ValueError, RecursionError):
        return payload.splitlines()


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
        "verb": EDIT, "queue": queue, "state": state, "filter": str(selection.filter),
        "matched": n, "changes": changes, "stay": dict(found),
        "sample": [
            {"id": x.id, "diff": list(x.diff), "unfit": x.unfit, "redacted": x.hidden}
            for x in looked
        ],
    }  # fmt: skip
    what = f"edit {some}{entries(n, state)} of {queue}"
    shown = lines if changes else lines[1:]
    return Preview(what, tuple(shown), typed_number(changes), facts, str(selection.filter))


class EditSteps(ChangeSteps):
    """The steps of a change of payloads, at most `STEP_BYTES` of them at once.

    Every entry is read again when its turn comes, and changed only if it is as it was read: in its
    state since before the selection, with that payload. `undo` restores the old payloads.
    """

    def __init__(self, selection: Selection, change: Change) -> None:
        editable(selection.queue, selection.state)
        super().__init__(
            selection.queue, EDIT, selection.count, str(selection.filter), source=selection.state,
            target=EDIT,
        )  # fmt: skip
        self.number = 0
        """of the latest step"""
        self._selection = selection
        self._change = change
        self._ids = iter(selection.ids())
        self._rows: list[tuple[str, bytes, bytes]] = []
        self._sent: Sequence[tuple[str, bytes, bytes]] = ()
        self._left_out = Counter[str]()

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
                self.op, self.number, self._sent, source=self._selection.state,
                high_water_ms=self._selection.high_water_ms,
            )  # fmt: skip
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
        """Those of the ids that would change, with what they are and are to be."""
        rows = []
        selection = self._selection
        for entry in await together(selection.queue.get.op(id) for id in ids):
            if entry is None or entry.state != selection.state or entry.payload is None:
                self._left_out["changed"] += 1
                continue
            word, after = judged(entry, self._change, selection.filter.redaction)
            if word == CHANGES:
                rows.append((entry.id, entry.payload, after))
            else:
                self._left_out[word] += 1
        return rows

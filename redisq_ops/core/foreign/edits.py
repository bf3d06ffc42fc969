"""Other arguments for entries of other programs, written as the program itself would have done."""

from __future__ import annotations

import json
import re
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from ..engine.operator_changes import EditStep, MoveStep
from ..model.entry import State
from ..model.errors import Unfit
from ..model.quoting import stored
from ..model.states import EDIT
from ..redis import acl_rights
from ..redis.operation import C_co, operation, together
from ..redis.parsers import words
from .changes import DAY_MS, ForeignChanges
from .elements import Element
from .json_members import member, members_of
from .json_text import decoded
from .places import LocatedEntry
from .scanned_results import ScannedResults
from .watched_code import guarded

UNFIT = "unfit"
SHAPES = {"args": list, "kwargs": dict}
_SPACE = re.compile(rb'("(?:[^"\\]|\\.)*")|\s+')
"""a text of JSON, or space outside of texts: most programs write none"""
_NONE = ("", b"", b"", "", b"", b"", b"")
"""the rest of the row of an entry that isn't edited"""


@dataclass(frozen=True, slots=True)
class Rewrite:
    """What an edit writes: other bytes of the entry in its list or sorted set (None: its own), and
    fields of its record, or a string."""

    element: bytes | None = None
    parts: Sequence[Element] = ()


class HasEdits(ForeignChanges[C_co]):
    """A queue whose program runs an entry with other arguments, if these are changed in its keys.

    An entry is shown as a JSON object; an edit changes those members of it that are `arguments`.
    """

    editable_states: ClassVar[tuple[State, ...]] = ("waiting", "delayed", "dead")
    arguments: ClassVar[tuple[str, ...]] = ("args", "kwargs")

    @abstractmethod
    def rewrite(self, seen: LocatedEntry, values: Mapping[str, bytes]) -> Rewrite:
        """What to write so that an entry gets other arguments. ``values``: JSON texts of those that
        change. Raises `Unfit` where the program couldn't read them, or has made something else of
        the present ones: a lock or a digest."""

    @operation
    async def would_edit(
        self, rows: Sequence[tuple[str, bytes, bytes]], *, source: State
    ) -> list[str]:
        await acl_rights.to_edit(self)
        found = await self._edits(EditStep("-", 0, rows, source, await self._now() + DAY_MS))
        may = [id for (id, *_), (_, why) in zip(rows, found, strict=True) if not why]
        told = iter(await self.would_move.op(may, source, EDIT) if may else ())
        return [why or next(told) for _, why in found]

    async def _edit(self, edit: EditStep) -> list[str]:
        await self._ensure_registered()
        found = await self._edits(edit)
        said: list[str] = await self._call_script(
            "edit",
            words,
            [row for row, _ in found],
            caller=edit.op,
            seq=edit.step,
            **{"from": edit.source},
            queue=self.own_name,
        )
        if len(said) != len(found):
            return said
        return [why if word == UNFIT else word for word, (_, why) in zip(said, found, strict=True)]

    async def _edits(self, edit: EditStep) -> list[tuple[tuple[str | bytes, ...], str]]:
        """The rows of the script `edit`, each with the reason why its entry can't be edited."""
        ids = [id for id, _, _ in edit.rows]
        late = edit.high_water_ms
        change = MoveStep(edit.op, edit.step, ids, edit.source, EDIT, late, "-", 0, {}, (), "", {})
        located, now = await together(
            guarded(self.kind, self._located(ids, edit.source, brief=False)), self._now()
        )
        found: list[tuple[tuple[str | bytes, ...], str]] = []
        for id, was, payload in edit.rows:
            seen = located[id].pop(0) if located[id] else None
            row: tuple[str | bytes, ...] = ()
            why = "changed"
            if seen is not None and seen.entry.payload == was:
                read = self._row(stored(id), seen, change, now)
                row, why = self._row_of(read, seen, was, payload)
            found.append((row or (stored(id), why, *_NONE), why))
        return found

    def _row_of(
        self, row: tuple[str | bytes, ...], seen: LocatedEntry, was: bytes, payload: bytes
    ) -> tuple[tuple[str | bytes, ...], str]:
        id, why, key, element, at, stamp, *_ = row
        if why:
            return (), str(why)
        try:
            made = self.rewrite(seen, changed_members(was, payload, self.arguments))
        except Unfit as error:
            return (id, UNFIT, *_NONE), str(error)
        kind = "" if isinstance(seen.place, ScannedResults) else seen.place.kind
        put = element if made.element is None else made.element
        rows = (part.row() for part in made.parts)
        values = (one.encode() if isinstance(one, str) else one for each in rows for one in each)
        parts = b"".join(b"%d:%b" % (len(value), value) for value in values)
        return (id, "", kind, key, element, at, stamp, put, parts), ""


def changed_members(was: bytes, payload: bytes, may: Sequence[str]) -> dict[str, bytes]:
    """The members of a JSON object that are others now, with their new JSON texts. Raises `Unfit`
    unless only members of ``may`` are."""
    before, after = decoded(was), _strict(payload)
    if not isinstance(before, dict) or not isinstance(after, dict):
        raise Unfit("not JSON")
    changed = [n for n in {**before, **after} if _text(before, n) != _text(after, n)]
    twice = len(members_of(payload.decode()) or ()) > len(after)
    if twice or not {*changed} <= {*may}.intersection(before, after):
        raise Unfit(f"only {' and '.join(may)} can be changed")
    if any(type(after[name]) is not SHAPES.get(name, type(after[name])) for name in changed):
        raise Unfit("args is a list, and kwargs an object")
    return {name: _SPACE.sub(rb"\1", member(payload, name) or b"") for name in changed}


def _strict(payload: bytes) -> Any:
    """JSON without Python's additions to it: no other parser reads NaN."""
    try:
        found = json.loads(payload.decode())
        json.dumps(found, allow_nan=False)
    except (ValueError, RecursionError):
        return None
    return found


def _text(members: Mapping[str, Any], name: str) -> str | None:
    """As text: 1, true and 1.0 are equal in Python."""
    return json.dumps(members[name]) if name in members else None

"""Changes of a few elements of an owner's keys, as the owner itself would write them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from redis.crc import key_slot

from ..engine.operator_changes import ChangeUndo
from ..model.errors import Refused
from ..model.quoting import bytes_of
from ..redis import acl_rights
from ..redis.operation import C_co, operation
from .changes import ForeignChanges

UNDO = "elements"
"""the inverse of a change of elements: the operation and the step"""


@dataclass(frozen=True, slots=True)
class Element:
    """An element, the value that was read, and its value afterwards; None: it isn't there.

    ``before`` and ``after`` alike: it has to be as it was read. Of a ``zset`` the value is the
    score, of a ``set`` and of a whole ``key``, which is removed, ``1``. An event of a ``stream`` is
    added: its fields and values, joined by NUL, are the ``member``, and ``after`` is how many
    events the stream keeps, about. An element of a ``list`` is added on its left, and ``after`` are
    the seconds after which the list expires.
    """

    kind: Literal["hash", "zset", "set", "string", "key", "stream", "list"]
    key: bytes
    member: bytes = b""
    before: bytes | None = None
    after: bytes | None = None

    def row(self) -> tuple[str | bytes, ...]:
        values = (b"" if one is None else b"=" + one for one in (self.before, self.after))
        return (self.kind, self.key, self.member, *values)


class ElementChanges(ForeignChanges[C_co]):
    """A queue whose owner's own settings operators can change."""

    @operation
    async def check_owners_rights(self) -> None:
        await acl_rights.to_change_elements(self)

    async def change_elements(
        self, op: str, step: int, note: str, elements: Sequence[Element]
    ) -> str:
        """Change all of the elements, or none: one step of an operation. Returns ok | changed: one
        has another value than was read."""
        await self._ensure_registered()
        if self.on_cluster:
            slots = {key_slot(bytes_of(self.keys["op_"])), *(key_slot(e.key) for e in elements)}
            if len(slots) > 1:
                raise Refused(f"queue {self.name}: on a cluster its keys are in several slots")
        rows = [element.row() for element in elements]
        return await self._call_script(
            "change_elements", bytes.decode, rows, caller=op, seq=step, note=note
        )

    async def _undo_change(self, undo: ChangeUndo) -> int:
        if undo.verb != UNDO:
            return await ForeignChanges._undo_change(self, undo)
        op, step = undo.args
        word = await self._call_script(
            "undo_elements", bytes.decode, caller=undo.op, seq=undo.seq, op=op, step=step
        )
        if word == "changed":
            undo.left([op])
        return int(word == "ok")

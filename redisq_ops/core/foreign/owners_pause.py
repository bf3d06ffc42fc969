"""The pause of a program that pauses by one key."""

from __future__ import annotations

from ..engine.optional_features import HasOwnersPause
from ..model.quoting import bytes_of
from ..redis.operation import C_co, Call, operation
from ..redis.parsers import optional
from .elements import UNDO, Element, ElementChanges


class HasKeyPause(ElementChanges[C_co], HasOwnersPause[C_co]):
    """The owner's key `paused_by`, a string, is there while it is paused."""

    def pause_value(self, now_ms: int) -> bytes:
        """The key's value, as the owner writes it."""
        return b"1"

    @operation
    async def set_owners_pause(self, op: str, step: int, paused: bool) -> str:
        assert self.paused_by is not None
        key = bytes_of(self.at + self.paused_by[0])
        before = await Call(("GET", key), optional, key=key)
        if (before is not None) is paused:
            return "same"
        after = self.pause_value(await self._now()) if paused else None
        note = "pause" if paused else "resume"
        element = Element("string", key, b"", before, after)
        return await self.change_elements(op, step, note, [element])

    def pause_inverse(self, op: str, paused: bool) -> str:
        return f"{UNDO} {op} 1"

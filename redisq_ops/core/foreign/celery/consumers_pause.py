"""The pause of a queue of Celery: its workers are asked to take no more tasks from it, and answer.

Celery keeps no note of it: a worker that starts later takes tasks. redisq notes in its own keys
when it asked which workers, so that the pause is seen, and that these and no others are asked to
go on.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from typing import Any, ClassVar
from urllib.parse import quote, unquote

from ...engine.operator_changes import ChangeUndo
from ...engine.optional_features import HasOwnersPause
from ...model.errors import NotFound
from ...model.quoting import bytes_of
from ...redis.operation import C_co, Call, operation
from ...redis.parsers import optional
from ..elements import Element, ElementChanges
from .control import Answers, ask

_ASKED = " (workers started later take tasks): "
"""what is in the note between the time of asking and the names of the workers"""
INVERSE = "consumers"


class HasConsumersPause(ElementChanges[C_co], HasOwnersPause[C_co]):
    pause_note: ClassVar[str] = (
        "its workers are asked as `celery control cancel_consumer` and `add_consumer` do it; a"
        " worker that starts later takes tasks"
    )

    async def pause_refused(self) -> str | None:
        self.refuse_several_slots()
        asked = await self._ask("active_queues", {})
        if asked.said or (not asked.heard and await self._noted()):
            return None
        if not asked.heard:
            return "no worker of Celery listens for control messages"
        return f"{asked.heard} heard the control message, and no worker of Celery answered"

    @operation
    async def set_owners_pause(self, op: str, step: int, paused: bool) -> str:
        note = await self._note()
        noted = _names(note)
        if not paused and not noted:
            return "same"
        asked = await self._ask("active_queues", {})
        names = _consuming(asked, self.own_name) if paused else [*asked.said.keys() & {*noted}]
        if paused and not names:
            raise NotFound(f"no worker that answered takes tasks from {self.own_name}")
        after = _noting({*names, *noted}, await self._now()) if paused else None
        element = Element("hash", bytes_of(self.keys["cfg"]), b"paused", note, after)
        word = await self.change_elements(op, step, "pause" if paused else "resume", [element])
        if word == "changed" or not names:
            return word
        method = "cancel_consumer" if paused else "add_consumer"
        told = await self._ask(method, {"queue": self.own_name}, names)
        obeyed = {
            name for name, said in told.said.items() if isinstance(said, dict) and "ok" in said
        }
        if missing := sorted({*names} - obeyed):
            raise NotFound(
                f"{len(obeyed)} of {len(names)} workers obeyed, and not {', '.join(missing[:5])}:"
                " resume it, or try again"
            )
        return word

    def pause_inverse(self, op: str, paused: bool) -> str:
        return f"{INVERSE} {int(not paused)}"

    async def _undo_change(self, undo: ChangeUndo) -> int:
        if undo.verb != INVERSE:
            return await super()._undo_change(undo)
        word = await self.set_owners_pause.op(undo.op, undo.seq, undo.args[0] == "1")
        if word != "ok":
            undo.left([undo.verb])
        return int(word == "ok")

    async def _ask(
        self, method: str, arguments: Mapping[str, Any], to: Collection[str] = ()
    ) -> Answers:
        return await ask(self.at, self.client, method, arguments, to)

    async def _noted(self) -> list[str]:
        """The workers that were asked to take no more tasks, and not yet to go on."""
        return _names(await self._note())

    async def _note(self) -> bytes | None:
        key = self.keys["cfg"]
        return await Call(("HGET", key, "paused"), optional, key=key)


def _noting(names: Collection[str], now_ms: int) -> bytes:
    when = datetime.fromtimestamp(now_ms // 1000, UTC)
    return quote(f"asked at {when}{_ASKED}{', '.join(sorted(names))}", safe="").encode()


def _names(note: bytes | None) -> list[str]:
    return unquote(note.decode()).partition(_ASKED)[2].split(", ") if note else []


def _consuming(asked: Answers, queue: str) -> list[str]:
    """The workers that take tasks from the queue, by their answers to `active_queues`."""
    return [
        name
        for name, queues in asked.said.items()
        if isinstance(queues, list)
        and any(isinstance(one, dict) and one.get("name") == queue for one in queues)
    ]

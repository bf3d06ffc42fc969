"""Bull's repeatable jobs, as its ``lib/repeatable.js`` keeps them: what a schedule is stands in its
member of the sorted set ``repeat``, ``name:id:end:zone:cron`` or ``name:id:end:every``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import md5
from typing import Any, ClassVar

from ...model.quoting import legal, raw_of
from ...redis.parsers import moment
from ..bullmq.schedules import BullSchedules
from ..elements import Element
from ..schedule import OwnersSchedule


class BullRepeatables(BullSchedules):
    name: ClassVar[str] = "Bull"
    refusals: ClassVar[Mapping[str, str]] = {
        "pause": "a repeatable job has no pause; remove it, and let the application add it again",
    }

    async def schedules(
        self, queue: Any, rows: Sequence[tuple[bytes, float]]
    ) -> list[OwnersSchedule]:
        return [_schedule(member, score) for member, score in rows]

    async def change(
        self, queue: Any, schedule: OwnersSchedule, paused: bool | None
    ) -> list[Element]:
        if paused is not None:
            return await super().change(queue, schedule, paused)
        return await self.removed(queue, schedule, raw_of(schedule.next_id or ""), ())


def _job(member: bytes, at_ms: int) -> bytes:
    """The id of the next job."""
    name, id, *_ = member.split(b":")
    return b"repeat:%b:%d" % (_md5(name + id + b":" + _md5(member)), at_ms)


def _md5(data: bytes) -> bytes:
    return md5(data, usedforsecurity=False).hexdigest().encode()


def _schedule(member: bytes, score: float) -> OwnersSchedule:
    """As Bull's `_keyToData` reads it, but with all of a cron expression that has colons."""
    parts = member.decode(errors="replace").split(":", 4)
    at = moment(score)
    record = {"member": member, "at": at}
    if len(parts) < 4:
        return OwnersSchedule(legal(member), "Bull", next_ms=at, problem="its name can't be read")
    cron = parts[4] if len(parts) > 4 else None
    every = parts[3] if cron is None and parts[3].isdigit() and len(parts[3]) < 16 else ""
    return OwnersSchedule(
        legal(member),
        "Bull",
        cron,
        parts[3] or None if cron is not None else None,
        int(every) if every else None,
        at,
        next_id=None if at is None else legal(_job(member, at)),
        task=parts[0] or None,
        record=record,
    )

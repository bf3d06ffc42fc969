"""asynq's schedulers, whose processes write down every 10 s what they have in memory
(``scheduler.go``, ``internal/rdb/rdb.go``: `WriteSchedulerEntries`)."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, ClassVar

from ...model.quoting import legal
from ...redis.operation import Call, together
from ..schedule import OwnersSchedule
from ..schedules import MOST, ScheduleProgram, more, ranked
from .protobuf import Message
from .workers import time_of

_SCHEDULERS = "asynq:schedulers"
_MOST_SCHEDULERS = 50
_QUEUE = re.compile(r'Queue\((".*")\)', re.DOTALL)
_EVERY = re.compile(r"@every (?=\d)(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?")


class AsynqSchedulers(ScheduleProgram):
    """A scheduler that ended takes its entries with it, 20 s after it was killed. An entry's id is
    another one after each start."""

    name: ClassVar[str] = "asynq"
    refusals: ClassVar[Mapping[str, str]] = dict.fromkeys(
        ("pause", "rm"),
        "a scheduler's process has its entries in memory: change its code or configuration",
    ) | {"run": "a scheduler's process has its entries in memory: enqueue the task by asynq"}

    async def read(self, queue: Any) -> list[OwnersSchedule]:
        processes, unread = await ranked(_SCHEDULERS, _MOST_SCHEDULERS, "REV")
        lists = await together(
            together(
                Call(("LRANGE", key, 0, MOST - 1), list[bytes], key=key, cut=True),
                Call(("LLEN", key), int, key=key),
            )
            for key, _ in processes
        )
        made = (_entry(data) for entries, _ in lists for data in entries)
        mine = await queue.shown_here(made)
        left = sum(size - len(entries) for entries, size in lists) + len(mine[MOST:])
        return [*mine[:MOST], *more(self.name, left), *more(self.name, unread, "schedulers")]


def _entry(data: bytes) -> OwnersSchedule:
    """Times of an expression are those of the scheduler's zone, which it doesn't write down."""
    try:
        message = Message(data)
        options = message.texts(5)
    except ValueError as error:
        return OwnersSchedule("", AsynqSchedulers.name, problem=f"a scheduler's entry: {error}")
    named = (found[1] for one in options if (found := _QUEUE.fullmatch(one)))
    spec = message.text(2)
    zoned = re.fullmatch(r"(?:CRON_)?TZ=(\S+) (.*)", spec)
    every = _EVERY.fullmatch(spec)
    hours, minutes, seconds = (int(n or 0) for n in every.groups()) if every else (0, 0, 0)
    next_, last = time_of(message, 6), time_of(message, 7)
    return OwnersSchedule(
        legal(message.data(1)),
        AsynqSchedulers.name,
        zoned[2] if zoned else spec,
        zoned[1] if zoned else None,
        1000 * (hours * 3600 + minutes * 60 + seconds) or None,
        next_ if next_ and next_ > 0 else None,
        last if last and last > 0 else None,
        task=message.text(3) or None,
        payload=message.data(4) or None,
        record={"queue": _unquoted(next(named, '"default"'))},
    )


def _unquoted(text: str) -> str:
    """A text as Go quotes it, which is JSON where it has letters and digits."""
    try:
        return str(json.loads(text))
    except ValueError:
        return text

"""RedBeat's entries, by which ``celery beat -S redbeat`` sends tasks (``redbeat/schedulers.py`` of
2.x): a hash for each, and a sorted set of them by the time when they are due. They are under
``redbeat:`` whatever begins the broker's keys; another `redbeat_key_prefix` is not read."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from typing import Any, ClassVar
from zoneinfo import ZoneInfo

from ...model.errors import Refused
from ...model.quoting import legal
from ...redis.operation import Call, together
from ...redis.parsers import moment
from ..elements import Element
from ..job_hashes import Note
from ..json_text import decoded, encoded, text_member
from ..long_records import LONG_RECORD, whole_sizes
from ..schedule import OwnersSchedule
from ..schedules import MOST, DueScores, more, ranked, records
from .bindings import BINDING
from .redbeat_keys import AT, DUE

_CRON = ("minute", "hour", "day_of_month", "month_of_year", "day_of_week")
_MOST_S = 10**12
DEFAULT = "celery"
"""Celery's usual queue, for entries that name none: the application's routes decide about them"""


class RedBeat(DueScores):
    name: ClassVar[str] = "RedBeat"
    refusals: ClassVar[Mapping[str, str]] = {
        "run": "RedBeat runs an entry when it is due; send its task by Celery",
    }
    notes: ClassVar[Mapping[str, str]] = {
        "rm": "an entry of `beat_schedule` is there again when beat starts again",
        "resume": "a run that was due meanwhile begins at once",
    }

    def due_key(self, queue: Any) -> bytes:
        return DUE

    async def read(self, queue: Any, most: int = MOST) -> list[OwnersSchedule]:
        usual = f"{queue.at}{BINDING.decode()}{DEFAULT}"
        (rows, unread), has_usual = await together(
            ranked(DUE, most), Call(("EXISTS", usual), bool, key=usual)
        )
        found = await records([key for key, _ in rows], ("definition", "meta"))
        made = (_entry(*row, values) for row, values in zip(rows, found, strict=True))
        otherwise = DEFAULT if has_usual else queue.own_name
        into = [
            replace(one, record={**one.record, "queue": one.record.get("queue") or otherwise})
            for one in made
        ]
        mine: list[OwnersSchedule] = await queue.shown_here(into, DEFAULT)
        return mine + more(self.name, unread)

    async def change(
        self, queue: Any, schedule: OwnersSchedule, paused: bool | None
    ) -> list[Element]:
        """As `entry.save()` with another `enabled`, and as `entry.delete()`."""
        key, data = schedule.record["key"], schedule.record["data"]
        if paused is None:
            due = f"{schedule.record['score']:.17g}".encode()
            gone = [Element("zset", DUE, key, due)]
            (size,) = await whole_sizes([key])
            if size > LONG_RECORD:
                raise Refused("it has too many bytes to be kept for an undo")
            if not schedule.problem:
                gone.append(Element("hash", key, b"definition", data, data))
            return [*gone, Element("key", key, b"", b"1")] if size else gone
        after = json.dumps(json.loads(data) | {"enabled": not paused}).encode()
        return [Element("hash", key, b"definition", data, after)]


def _entry(
    key: bytes, score: float, values: Mapping[str, bytes | None] | Exception
) -> OwnersSchedule:
    name = legal(key.removeprefix(AT))
    at = moment(score * 1000) if score >= 0 else None
    data = None if isinstance(values, Exception) else values["definition"]
    found = None if isinstance(data, Note) else decoded(data or b"")
    if isinstance(values, Exception) or not isinstance(found, dict):
        why = str(values) if isinstance(values, Exception) else "it is missing, long, or no JSON"
        return OwnersSchedule(
            name,
            RedBeat.name,
            next_ms=at,
            problem=f"its definition: {why}",
            record={"key": key, "data": None, "score": score},
        )
    when, queue = found.get("schedule"), text_member(found.get("options"), ("queue",))
    when = when if isinstance(when, dict) else {}
    kind = text_member(when, ("__type__",)) or "?"
    every = when.get("every") if kind == "interval" else None
    cron = " ".join(str(when.get(part, "*")) for part in _CRON)
    told = {name: found.get(name) for name in ("args", "kwargs", "options")}
    record = {"key": key, "data": data, "score": score, "queue": queue}
    seconds = every if isinstance(every, (int, float)) else 0
    if not 0 <= seconds < _MOST_S:
        why = "its interval is no number of seconds"
        return OwnersSchedule(name, RedBeat.name, next_ms=at, problem=why, record=record)
    return OwnersSchedule(
        name,
        RedBeat.name,
        cron if kind == "crontab" else None if every is not None else kind,
        None,
        round(seconds * 1000) or None,
        at,
        _time(decoded(values["meta"] or b"")),
        paused=found.get("enabled") is False,
        task=text_member(found, ("task",)),
        payload=encoded(told),
        record=record,
    )


def _time(meta: Any) -> int | None:
    """``last_run_at``, a time with the name of its zone, or the seconds that it is ahead of UTC."""
    found = meta.get("last_run_at") if isinstance(meta, dict) else None
    if not isinstance(found, dict):
        return None
    zone = found.get("timezone", "UTC")
    parts = ("year", "month", "day", "hour", "minute", "second", "microsecond")
    try:
        ahead = timedelta(seconds=zone) if isinstance(zone, (int, float)) else None
        info = UTC if zone == "UTC" else ZoneInfo(zone) if ahead is None else timezone(ahead)
        at = datetime(*(found[part] for part in parts))
        return round(at.replace(tzinfo=info).timestamp() * 1000)
    except (KeyError, TypeError, ValueError, OverflowError, OSError):
        return None

"""Who starts Sidekiq's jobs by schedules: sidekiq-cron (``lib/sidekiq/cron/job.rb`` of 1 and 2) and
sidekiq-scheduler (``lib/sidekiq-scheduler/redis_manager.rb`` of 3 to 6)."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

from ...model.errors import BadInput, Refused
from ...model.quoting import bytes_of, legal
from ...redis.operation import Call, together
from ..elements import Element
from ..iso_times import iso_ms
from ..job_hashes import Note
from ..json_text import decoded, text_member
from ..long_records import LONG_RECORD, whole_sizes
from ..schedule import OwnersSchedule
from ..schedules import MOST, ScheduleProgram, more, records

_FIELDS = ("name", "klass", "cron", "status", "last_enqueue_time", "message", "args")
_SETS = (b"cron_jobs:default", b"cron_jobs")
"""the jobs of release 2's usual namespace, and of release 1; others have no list"""
_HASHES = ("schedules", *(f"sidekiq-scheduler:{n}" for n in ("states", "next_times", "last_times")))
_ZONED = re.compile(r"((?:\S+\s+){4}\S+)\s+([A-Z]\w+(?:/[\w+-]+)*)")
_TIME = re.compile(r"(\d{4}-\d\d-\d\d)[ T](\d\d:\d\d:\d\d)(?:\.\d+)? ?(UTC|Z|[+-]\d\d:?\d\d)")


class SidekiqCron(ScheduleProgram):
    """The next time isn't kept: it follows from the expression, if that names its zone."""

    name: ClassVar[str] = "sidekiq-cron"
    refusals: ClassVar[Mapping[str, str]] = {
        "run": "`Sidekiq::Cron::Job.find('NAME').enqueue!` runs it as Sidekiq's code has it",
    }
    notes: ClassVar[Mapping[str, str]] = {
        "rm": "a job of a schedule file is there again when Sidekiq starts again"
    }

    async def read(self, queue: Any) -> list[OwnersSchedule]:
        sets = [bytes_of(queue.at) + part for part in _SETS]
        pages = await together(
            together(_members(key), Call(("SCARD", key), int, key=key)) for key in sets
        )
        unread = sum(size - len(page) for page, size in pages)
        listed = {
            member: key for key, (page, _) in zip(sets, pages, strict=True) for member in page
        }
        keys = sorted(listed)[:MOST]
        found = await records([bytes_of(queue.at) + key for key in keys], _FIELDS)
        now = await queue._now()
        made = [
            _cron_job(key, values, now, listed[key])
            for key, values in zip(keys, found, strict=True)
        ]
        mine: list[OwnersSchedule] = await queue.shown_here(made)
        return mine + more(self.name, unread + len(listed) - len(keys))

    async def change(
        self, queue: Any, schedule: OwnersSchedule, paused: bool | None
    ) -> list[Element]:
        """As its `disable!`, `enable!` and `destroy`."""
        values, key = schedule.record["values"], bytes_of(queue.at) + schedule.record["key"]
        if paused is not None:
            after = b"disabled" if paused else b"enabled"
            return [Element("hash", key, b"status", values["status"], after)]
        fields = () if schedule.problem else ("cron", "klass")
        was = [Element("hash", key, n.encode(), values[n], values[n]) for n in fields]
        keys = [key, key + b":enqueued", key + b":jid_history"]
        sizes = await whole_sizes(keys)
        if any(size > LONG_RECORD for size in sizes):
            raise Refused("it has too many bytes to be kept for an undo")
        member = Element("set", schedule.record["set"], schedule.record["key"], b"1")
        gone = (Element("key", k, b"", b"1") for k, n in zip(keys, sizes, strict=True) if n)
        return [*was, member, *gone]


def _members(key: bytes) -> Call[set[bytes]]:
    """The members of a set of up to `MOST`, and some of a larger one. Redis gives such a set up to
    twice as many places in memory, which is what the count of SSCAN counts."""
    command = ("SSCAN", key, 0, "COUNT", 2 * MOST)
    return Call(command, lambda reply: set(reply[1]), key=key, cut=True)


def _cron_job(
    key: bytes, values: Mapping[str, bytes | None] | Exception, now_ms: int, set_: bytes
) -> OwnersSchedule:
    name = legal(key.removeprefix(b"cron_job:").removeprefix(b"default:"))
    if isinstance(values, Exception) or not values["cron"]:
        why = str(values) if isinstance(values, Exception) else "it is gone"
        record = {"key": key, "set": set_, "values": values}
        return OwnersSchedule(name, SidekiqCron.name, problem=f"its hash: {why}", record=record)
    told = {field: (value or b"").decode(errors="replace") for field, value in values.items()}
    message = values["message"]
    queue = text_member(decoded(message or b""), ("queue",)) or "default"
    zoned = _ZONED.fullmatch(told["cron"].strip())
    last = _ms(told["last_enqueue_time"])
    schedule = OwnersSchedule(
        name,
        SidekiqCron.name,
        zoned[1] if zoned else told["cron"],
        zoned[2] if zoned else None,
        run_ms=last,
        paused=told["status"] not in ("enabled", ""),
        task=told["klass"] or None,
        payload=None if isinstance(message, Note) else message,
        kept=False,
        record={"key": key, "set": set_, "queue": queue, "values": values},
    )
    return _with_next(schedule, now_ms)


def _with_next(schedule: OwnersSchedule, now_ms: int) -> OwnersSchedule:
    """Its next time, by its expression. What it missed is unknown: the schedule may be
    newer than its last time."""
    try:
        at = None if schedule.paused else next(schedule.times(now_ms))
    except BadInput:
        return schedule
    return replace(schedule, next_ms=at)


class SidekiqScheduler(ScheduleProgram):
    """It has its schedules in Redis for its web page and for changes at run time (``dynamic``)."""

    name: ClassVar[str] = "sidekiq-scheduler"
    refusals: ClassVar[Mapping[str, str]] = {
        "run": "enqueue its job by Sidekiq",
        "rm": "unless it is `dynamic` its processes would go on; remove it from their configuration"
        " and start them again",
    }

    async def read(self, queue: Any) -> list[OwnersSchedule]:
        keys = [bytes_of(queue.at + part) for part in _HASHES]
        sizes = await whole_sizes(keys)
        if sizes[0] == 0:
            return []
        if any(size > 16 * LONG_RECORD for size in sizes):
            return [OwnersSchedule("", self.name, problem="its schedules are too long to be read")]
        asks: list[Call[dict[bytes, bytes]]] = [
            Call(("HGETALL", key), dict[bytes, bytes], key=key) for key in keys
        ]
        schedules, states, nexts, lasts = await together(asks)
        made = [
            _schedule(name, data, states.get(name), nexts.get(name), lasts.get(name))
            for name, data in sorted(schedules.items())[:MOST]
        ]
        mine: list[OwnersSchedule] = await queue.shown_here(made)
        return mine + more(self.name, len(schedules) - len(made))

    async def change(
        self, queue: Any, schedule: OwnersSchedule, paused: bool | None
    ) -> list[Element]:
        """As its `toggle_job_enabled`: the state is asked at each run."""
        if paused is None:
            return await super().change(queue, schedule, paused)
        state = schedule.record["state"]
        known = decoded(state or b"{}")
        if not isinstance(known, dict):
            raise Refused("its state is no JSON object")
        after = json.dumps({**known, "enabled": not paused}, separators=(",", ":")).encode()
        key = bytes_of(queue.at) + b"sidekiq-scheduler:states"
        return [Element("hash", key, schedule.record["member"], state, after)]


def _schedule(
    name: bytes, data: bytes, state: bytes | None, next_: bytes | None, last: bytes | None
) -> OwnersSchedule:
    found, states = decoded(data), decoded(state or b"{}")
    if not isinstance(found, dict) or not isinstance(states, dict):
        return OwnersSchedule(legal(name), SidekiqScheduler.name, problem="it is no JSON object")
    asked = ((word, found.get(word)) for word in ("cron", "every", "at", "in", "interval"))
    word, when = next(((word, value) for word, value in asked if value), ("", None))
    when = when[0] if isinstance(when, list) and when else when
    cron = str(when) if word == "cron" else f"{word} {when}" if when else None
    zoned = _ZONED.fullmatch(cron or "") if word == "cron" else None
    enabled = states.get("enabled", found.get("enabled", True))
    return OwnersSchedule(
        legal(name),
        SidekiqScheduler.name,
        zoned[1] if zoned else cron,
        zoned[2] if zoned else None,
        next_ms=_ms((next_ or b"").decode(errors="replace")),
        run_ms=_ms((last or b"").decode(errors="replace")),
        paused=enabled is False,
        task=text_member(found, ("class",)) or legal(name),
        payload=data,
        record={
            "member": name,
            "state": state,
            "queue": text_member(found, ("queue",)) or "default",
        },
    )


def _ms(text: str) -> int | None:
    """A time as Ruby writes it: ``2026-11-29 15:00:00 +0100``, or ``… UTC``."""
    found = _TIME.match(text)
    if not found:
        return iso_ms(text, None)
    zone = "+00:00" if found[3] in ("UTC", "Z") else found[3]
    return iso_ms(f"{found[1]}T{found[2]}{zone}")

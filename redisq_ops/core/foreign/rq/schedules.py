"""Who starts RQ's jobs by schedules: ``rq cron`` of RQ 2.4 and later, which writes down what it has
in memory (``rq/cron.py``), and rq-scheduler, which keeps its jobs in a sorted set
(``rq_scheduler/scheduler.py``)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from ...model.quoting import bytes_of, legal, text
from ...redis.parsers import moment
from ..call_descriptions import call_of
from ..elements import Element
from ..iso_times import iso_ms
from ..job_hashes import Note
from ..json_text import decoded, text_member
from ..schedule import OwnersSchedule
from ..schedules import MOST, DueScores, ScheduleProgram, more, ranked, records

SCHEDULERS = 50
"""processes of ``rq cron`` that are looked at"""
_JOBS = b"scheduler:scheduled_jobs"


class RqCron(ScheduleProgram):
    """A process that ended takes its schedules with it, after two minutes if it was killed."""

    name: ClassVar[str] = "RQ"
    refusals: ClassVar[Mapping[str, str]] = {
        "pause": "`rq cron` has its schedules in memory: change its configuration file, and start"
        " it again",
        "run": "`rq cron` has its schedules in memory: enqueue the job by RQ",
        "rm": "`rq cron` has its schedules in memory: change its configuration file, and start it"
        " again",
    }

    async def read(self, queue: Any) -> list[OwnersSchedule]:
        processes, unread = await ranked(queue.at + "cron_schedulers", SCHEDULERS, "REV")
        keys = [bytes_of(queue.at + "cron_scheduler:") + name for name, _ in processes]
        found: list[OwnersSchedule] = []
        for (name, _), values in zip(processes, await records(keys, ("cron_jobs",)), strict=True):
            found += _of_process(legal(name), values)
        found = await queue.shown_here(found)
        left = more(self.name, len(found) - MOST)
        return [*found[:MOST], *left, *more(self.name, unread, "`rq cron` processes")]


def _of_process(
    process: str, values: Mapping[str, bytes | None] | Exception
) -> list[OwnersSchedule]:
    data = b"" if isinstance(values, Exception) else values["cron_jobs"]
    jobs = None if isinstance(data, Note) else decoded(data or b"[]")
    if isinstance(values, Exception) or not isinstance(jobs, list):
        why = str(values) if isinstance(values, Exception) else "they are no JSON, or too long"
        return [OwnersSchedule(process, "RQ", problem=f"the schedules of rq cron {process}: {why}")]
    return [_cron(job) for job in jobs if isinstance(job, dict)]


def _cron(job: Mapping[str, Any]) -> OwnersSchedule:
    """Times of a cron expression are those of the process's zone, which it doesn't write down."""
    every, task = job.get("interval"), text_member(job, ("func_name",))
    shown = {name: job.get(name) for name in ("args", "kwargs")}
    return OwnersSchedule(
        legal(bytes_of(text_member(job, ("name",)) or task or "?")),
        "RQ",
        text_member(job, ("cron",)),
        every_ms=every * 1000 if isinstance(every, int) and every > 0 else None,
        next_ms=iso_ms(job.get("next_enqueue_time")),
        run_ms=iso_ms(job.get("latest_enqueue_time")),
        task=task,
        payload=repr(shown).encode() if any(shown.values()) else None,
        record={"queue": text_member(job, ("queue_name",))},
    )


class RqScheduler(DueScores):
    """A job of it runs once if its ``meta`` has neither an interval nor a cron expression. That is
    a pickle, unless the application chose RQ's JSON: it is followed and never loaded."""

    name: ClassVar[str] = "rq-scheduler"
    refusals: ClassVar[Mapping[str, str]] = {
        "pause": "rq-scheduler has no pause; remove the schedule, and let the application add it"
        " again",
    }
    notes: ClassVar[Mapping[str, str]] = {
        "run": "it is due now, and enqueued when rq-scheduler looks again, every minute unless it"
        " is set otherwise; an interval is counted from then, and a cron expression's next time"
        " stays as it is",
    }

    def due_key(self, queue: Any) -> bytes:
        return bytes_of(queue.at) + _JOBS

    async def read(self, queue: Any, most: int = MOST) -> list[OwnersSchedule]:
        rows, unread = await ranked(self.due_key(queue), most)
        jobs = [bytes_of(queue.at) + b"job:" + id for id, _ in rows]
        found = await records(jobs, ("origin", "description", "meta"))
        made = (_scheduled(*row, values) for row, values in zip(rows, found, strict=True))
        mine = await queue.shown_here(made)
        return [*mine, *more(self.name, unread)]

    async def change(
        self, queue: Any, schedule: OwnersSchedule, paused: bool | None
    ) -> list[Element]:
        """As its `cancel`: the job's hash stays."""
        if paused is not None:
            return await super().change(queue, schedule, paused)
        return [self._due(queue, schedule, None)]

    async def run(self, queue: Any, schedule: OwnersSchedule, now_ms: int) -> list[Element]:
        """As its `change_execution_time`."""
        return [self._due(queue, schedule, b"%d" % (now_ms // 1000))]

    def _due(self, queue: Any, schedule: OwnersSchedule, after: bytes | None) -> Element:
        score = f"{schedule.record['score']:.17g}".encode()
        return Element("zset", self.due_key(queue), schedule.record["member"], score, after)


def _scheduled(
    id: bytes, score: float, values: Mapping[str, bytes | None] | Exception
) -> OwnersSchedule:
    name, at = legal(id), moment(score * 1000)
    record = {"member": id, "score": score, "queue": ""}
    if isinstance(values, Exception) or not values["origin"]:
        why = str(values) if isinstance(values, Exception) else "it is gone"
        return OwnersSchedule(
            name, RqScheduler.name, next_ms=at, problem=f"its job: {why}", record=record
        )
    meta = _meta(values["meta"])
    cron, every = meta.get("cron_string"), meta.get("interval")
    once = cron is None and every is None
    known = values["meta"] is None or bool(meta)
    return OwnersSchedule(
        name,
        RqScheduler.name,
        "once" if once and known else cron if isinstance(cron, str) else None,
        "UTC" if cron and not meta.get("use_local_timezone") else None,
        every * 1000 if isinstance(every, int) else None,
        at,
        task=call_of(text(values["description"] or b"")).get("function"),
        payload=values["description"],
        record={**record, "queue": text(values["origin"])},
    )


def _meta(data: bytes | None) -> Mapping[str, Any]:
    if not data or isinstance(data, Note):
        return {}
    from ..pickled import unpickled

    found = decoded(data)
    try:
        found = unpickled(data) if found is None else found
    except (ValueError, LookupError, TypeError):
        return {}
    return found if isinstance(found, dict) else {}

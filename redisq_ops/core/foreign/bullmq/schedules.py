"""BullMQ's job schedulers, from 5.16 on, and its repeatable jobs before, as its scripts
``addJobScheduler`` and ``addRepeatableJob`` write them: the sorted set ``repeat`` of ids by the
time of their next job, a hash for each, and the next job itself among the delayed ones."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from ...model.errors import Refused
from ...model.quoting import bytes_of, legal, raw_of
from ...redis.operation import Call, together
from ...redis.parsers import moment, number, optional
from ..elements import Element
from ..job_hashes import Note
from ..long_records import LONG_RECORD, whole_sizes
from ..schedule import LATE_MS, OwnersSchedule
from ..schedules import ScheduleProgram, more, ranked, records

_FIELDS = ("name", "pattern", "every", "tz", "data", "ic")
MOST = 500
"""jobs of one millisecond among which the next jobs of old schedules are looked up"""
_BESIDE = ("logs", "dependencies", "processed", "failed", "unsuccessful")


class BullSchedules(ScheduleProgram):
    """What Bull and BullMQ share."""

    notes: ClassVar[Mapping[str, str]] = {
        "rm": "its next job goes with it, unless that waits or runs already",
        "run": "its next job waits now, as `job.promote()` does it",
    }

    async def read(self, queue: Any) -> list[OwnersSchedule]:
        rows, unread = await ranked(queue._key("repeat"))
        return [*await self.schedules(queue, rows), *more(self.name, unread)]

    @abstractmethod
    async def schedules(
        self, queue: Any, rows: Sequence[tuple[bytes, float]]
    ) -> list[OwnersSchedule]:
        """The schedules of these members and scores of the set."""

    async def counts(self, queue: Any, now_ms: int) -> tuple[int | None, int | None]:
        key = queue._key("repeat")
        late = ("ZCOUNT", key, "-inf", f"({now_ms - LATE_MS}")
        return await together(Call(("ZCARD", key), int, key=key), Call(late, int, key=key))

    async def removed(
        self, queue: Any, schedule: OwnersSchedule, job: bytes, also: Sequence[str]
    ) -> list[Element]:
        """Its member of ``repeat``, and its next job if that is still delayed."""
        member, at = schedule.record["member"], schedule.record["at"]
        key, delayed = (bytes_of(queue._key(part)) for part in ("repeat", "delayed"))
        found = [Element("zset", key, member, b"%d" % at)]
        hash_ = bytes_of(queue._key("")) + job
        score: Call[float | None] = Call(("ZSCORE", delayed, job), number, key=delayed)
        (due, (size,)) = await together(score, whole_sizes([hash_]))
        if due is None:
            return found
        if size > LONG_RECORD:
            raise Refused(f"its next job has {size:,} bytes, too many to be kept for an undo")
        keys = [hash_, *(hash_ + b":" + bytes_of(part) for part in also)]
        there = await together(Call(("EXISTS", each), bool, key=each) for each in keys)
        found.append(Element("zset", delayed, job, f"{due:.17g}".encode()))
        found += [Element("key", k, b"", b"1") for k, is_ in zip(keys, there, strict=True) if is_]
        return found


class BullmqSchedulers(BullSchedules):
    name: ClassVar[str] = "BullMQ"
    refusals: ClassVar[Mapping[str, str]] = {
        "pause": "a job scheduler has no pause; remove it, and let the application add it again"
        " (`upsertJobScheduler`)",
    }

    async def schedules(
        self, queue: Any, rows: Sequence[tuple[bytes, float]]
    ) -> list[OwnersSchedule]:
        begin = bytes_of(queue._key("repeat")) + b":"
        members = [member for member, _ in rows]
        times = [moment(score) or 0 for _, score in rows]
        old = {at for member, at in zip(members, times, strict=True) if member.count(b":") > 1}
        found, digested = await together(
            records([begin + member for member in members], _FIELDS),
            _digested(queue, sorted(old - {0})),
        )
        jobs = [
            digested.get((member, at), b"repeat:%b:%d" % (member, at)) if at else b""
            for member, at in zip(members, times, strict=True)
        ]
        return [
            _schedule(member, score, values, job)
            for (member, score), values, job in zip(rows, found, jobs, strict=True)
        ]

    async def change(
        self, queue: Any, schedule: OwnersSchedule, paused: bool | None
    ) -> list[Element]:
        if paused is not None:
            return await super().change(queue, schedule, paused)
        member = schedule.record["member"]
        definition = bytes_of(queue._key("repeat")) + b":" + member
        job = raw_of(schedule.next_id or "")
        found = await self.removed(queue, schedule, job, _BESIDE)
        if len(found) > 1:
            event = b"event\0removed\0jobId\0" + job + b"\0prev\0delayed"
            kept = await _events_kept(bytes_of(queue._key("meta")))
            found.append(Element("stream", bytes_of(queue._key("events")), event, after=kept))
        was = (
            Element("hash", definition, field.encode(), value, value)
            for field, value in schedule.record["values"].items()
            if field != "ic"
        )
        there = await Call(("EXISTS", definition), bool, key=definition)
        return [*was, *found, *([Element("key", definition, b"", b"1")] if there else [])]


async def _events_kept(meta: bytes) -> bytes:
    """How many events the queue keeps; 10,000 unless the application says otherwise."""
    (found,) = await records([meta], ("opts.maxLenEvents",))
    told = b"" if isinstance(found, Exception) else found["opts.maxLenEvents"] or b""
    return told if told.isdigit() and len(told) <= 15 else b"10000"


async def _digested(queue: Any, times: Sequence[int]) -> dict[tuple[bytes, int], bytes]:
    """Ids of next jobs by schedule and time, of those that a release before 5 added: their ids have
    a digest of the schedule's name."""
    jobs, delayed = bytes_of(queue._key("")), queue._key("delayed")
    due = [
        ("ZRANGE", delayed, at << 12, (at << 12) + 4095, "BYSCORE", "LIMIT", 0, MOST)
        for at in times
    ]
    pages = await together(Call(each, list[bytes], key=delayed) for each in due)
    ids = [
        (at, id)
        for at, page in zip(times, pages, strict=True)
        for id in page
        if id.startswith(b"repeat:") and id.endswith(b":%d" % at)
    ]
    asks = (Call(("HGET", jobs + id, "rjk"), optional, key=jobs + id) for _, id in ids)
    members = await together(asks)
    return {(member or b"", at): id for (at, id), member in zip(ids, members, strict=True)}


def _schedule(
    member: bytes, score: float, values: Mapping[str, bytes | None] | Exception, job: bytes
) -> OwnersSchedule:
    name, at = legal(member), moment(score)
    if isinstance(values, Exception):
        return OwnersSchedule(
            name,
            "BullMQ",
            next_ms=at,
            next_id=legal(job) or None,
            problem=f"its hash: {values}",
            record={"member": member, "at": at, "values": {}},
        )
    if any(isinstance(value, Note) for value in values.values()):
        return OwnersSchedule(name, "BullMQ", next_ms=at, problem="its hash is too long to be read")
    told = {field: value.decode(errors="replace") for field, value in values.items() if value}
    record = {"member": member, "at": at, "values": values}
    if not told:
        return _without_hash(name, at, record, job)
    every = told.get("every", "")
    return OwnersSchedule(
        name,
        "BullMQ",
        told.get("pattern"),
        told.get("tz"),
        int(every) if every.isdigit() and len(every) < 16 else None,
        at,
        next_id=legal(job) or None,
        task=told.get("name"),
        payload=values["data"],
        record=record,
    )


def _without_hash(
    name: str, at: int | None, record: Mapping[str, Any], job: bytes
) -> OwnersSchedule:
    return OwnersSchedule(
        name,
        "BullMQ",
        next_ms=at,
        next_id=legal(job) or None,
        problem="it has no hash: BullMQ before 5 wrote it, or somebody removed the hash",
        record=record,
    )

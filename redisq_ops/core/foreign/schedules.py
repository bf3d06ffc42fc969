"""Schedules by which other programs start jobs: read from their keys, and changed by them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from math import inf
from typing import Any, ClassVar
from urllib.parse import quote

from ..engine.operator_changes import ChangeUndo
from ..engine.optional_features import HasPeriodicEntries
from ..engine.registry import all_queues
from ..model.errors import Refused
from ..model.quoting import raw_of, text
from ..redis.operation import C_co, Call, attempt, operation, together
from ..redis.parsers import pairs
from .elements import UNDO as ELEMENTS
from .elements import Element, ElementChanges
from .job_hashes import hash_fields
from .long_records import LONG_RECORD, whole_sizes
from .schedule import LATE_MS, OwnersSchedule

MOST = 500
"""schedules of one program that are read"""
VERBS = ("pause", "resume", "run", "rm")


class ScheduleProgram(ABC):
    """A program that starts jobs by schedules, which it keeps in Redis."""

    name: ClassVar[str]
    refusals: ClassVar[Mapping[str, str]]
    """verb of `VERBS` that is impossible -> why, and what to do instead; ``pause`` is also for
    ``resume``"""
    notes: ClassVar[Mapping[str, str]] = {}
    """verb -> what becomes of it, in words"""

    @abstractmethod
    async def read(self, queue: Any) -> list[OwnersSchedule]:
        """The schedules whose jobs go into the queue, `MOST` of them at most."""

    async def counts(self, queue: Any, now_ms: int) -> tuple[int | None, int | None]:
        """As `HasPeriodicEntries.periodic_counts`. It is asked at every look at all queues, and so
        it is unknown where every schedule would have to be read."""
        return None, None

    async def change(
        self, queue: Any, schedule: OwnersSchedule, paused: bool | None
    ) -> list[Element]:
        """What the program itself writes when it pauses the schedule, or lets it go on; None: when
        it removes it."""
        raise Refused(self.refusals["rm" if paused is None else "pause"])

    async def run(self, queue: Any, schedule: OwnersSchedule, now_ms: int) -> list[Element]:
        """What the program itself writes when it makes the schedule due now, unless
        `OwnersSchedule.next_id` names the entry that is its next run."""
        raise Refused(self.refusals["run"])


class DueScores(ScheduleProgram):
    """A program whose schedules are in one sorted set, by the seconds of their next time. To be
    counted only late ones are read, `MOST` at most, and those of no time, below 0; paused ones
    count too."""

    @abstractmethod
    def due_key(self, queue: Any) -> bytes:
        """That sorted set."""

    @abstractmethod
    async def read(self, queue: Any, most: int = MOST) -> list[OwnersSchedule]: ...

    async def counts(self, queue: Any, now_ms: int) -> tuple[int | None, int | None]:
        key = self.due_key(queue)
        asks = ("ZCOUNT", key, 0, f"({(now_ms - LATE_MS) / 1000}"), ("ZCOUNT", key, "-inf", "(0")
        late, timeless = await together(Call(ask, int, key=key) for ask in asks)
        if not late:
            return None, 0
        found = await self.read(queue, min(late + timeless, MOST))
        overdue = [one.overdue(now_ms) for one in found if one.name]
        return None, _late([*overdue, *([None] if late + timeless > MOST else [])])


class HasSchedules(ElementChanges[C_co], HasPeriodicEntries[C_co]):
    """A queue into which schedules of its owner, or of additions to it, put jobs."""

    schedule_programs: ClassVar[tuple[ScheduleProgram, ...]]

    def takes(self, queue: str) -> bool:
        """Whether jobs that go into the owner's queue of that name are entries here."""
        return queue not in self.beside if self.whole else queue == self.own_name

    async def shown_here(
        self, schedules: Iterable[OwnersSchedule], usual: str = ""
    ) -> list[OwnersSchedule]:
        """Those whose jobs go into this queue, the ``queue`` of their records. One into a queue
        that isn't registered, or that names none, is shown in a registered one: in that of all
        queues, in the ``usual`` one, or in the first by name."""
        into: list[tuple[OwnersSchedule, str]]
        into = [(one, one.record.get("queue") or "") for one in schedules]
        if all(self.takes(name) for _, name in into):
            return [one for one, _ in into]
        known = await self._registered_beside()
        first = min(known, key=lambda name: (name not in ("", usual), name))
        return [one for one, name in into if self.takes(name if name in known else first)]

    async def _registered_beside(self) -> set[str]:
        """The own names of this queue and of the registered ones beside it; that of all: empty."""
        found = await attempt(all_queues(self.prefix))
        others = [] if isinstance(found, Exception) else found
        beside = (one for one in others if (one.kind, one.at or "") == (self.kind, self.at))
        return {
            self.own_name,
            *(text(raw_of(one.called or one.name.partition(":")[2])) for one in beside),
        }

    @operation
    async def periodics(self) -> Sequence[OwnersSchedule]:
        found = await together(attempt(program.read(self)) for program in self.schedule_programs)
        every = [
            replace(one, refusals=program.refusals, notes=program.notes)
            for program, schedules in zip(self.schedule_programs, found, strict=True)
            for one in _readable(program.name, schedules)
        ]
        return sorted(every, key=lambda one: inf if one.next_ms is None else one.next_ms)

    @operation
    async def get_periodic(self, name: str) -> OwnersSchedule | None:
        found = [one for one in await self.periodics.op() if one.name == name]
        if len(found) > 1:
            programs = " and ".join(sorted({one.program for one in found}))
            raise Refused(f"{len(found)} schedules here are named {name}: use {programs}")
        return found[0] if found else None

    @operation
    async def periodic_counts(self, now_ms: int) -> tuple[int | None, int | None]:
        counts = await together(
            attempt(program.counts(self, now_ms)) for program in self.schedule_programs
        )
        found = [(None, None) if isinstance(one, Exception) else one for one in counts]
        totals = [total for total, _ in found if total is not None]
        whole = len(totals) == len(found)
        return sum(totals) if whole else None, _late(overdue for _, overdue in found)

    @operation
    async def change_periodic(
        self,
        op: str,
        step: int,
        name: str,
        *,
        was: str,
        spec: bytes | None = None,
        at_ms: int | None = None,
        run: str | None = None,
        paused: bool | None = None,
    ) -> str:
        asked = {(b"", None): "rm", (None, True): "pause", (None, False): "resume"}
        verb = "run" if at_ms is not None else asked.get((spec, paused))
        if verb is None or (verb == "run" and (spec, paused) != (None, None)) or run is not None:
            raise Refused("another program's schedule can only be paused, resumed, run or removed")
        schedule = await self.get_periodic.op(name)
        if schedule is None or schedule.digest != was:
            return "changed"
        program = next(one for one in self.schedule_programs if one.name == schedule.program)
        elements = await (
            program.change(self, schedule, paused)
            if at_ms is None
            else program.run(self, schedule, at_ms)
        )
        return await self.change_elements(op, step, f"periodic-{verb}|{quote(name)}", elements)

    async def _undo_change(self, undo: ChangeUndo) -> int:
        if undo.verb == "periodic":
            _, op, step = undo.args
            undo = ChangeUndo(undo.op, undo.seq, ELEMENTS, [op, step], undo.left)
        return await ElementChanges._undo_change(self, undo)


async def records(
    keys: Sequence[bytes], fields: Sequence[str]
) -> list[dict[str, bytes | None] | Exception]:
    """Some fields of hashes; one that is longer than 64 KiB isn't read."""
    return await hash_fields(keys, fields, await whole_sizes(keys), lambda n: n <= LONG_RECORD)


async def ranked(
    key: str | bytes, most: int = MOST, *order: str
) -> tuple[list[tuple[bytes, float]], int]:
    """The first members of a sorted set with their scores, and how many more it has."""
    command = ("ZRANGE", key, 0, most - 1, *order, "WITHSCORES")
    rows, size = await together(
        Call(command, pairs, key=key, cut=True), Call(("ZCARD", key), int, key=key)
    )
    return rows, size - len(rows)


def more(program: str, n: int, of: str = "schedules") -> list[OwnersSchedule]:
    """What is said of schedules that aren't shown, if there are any."""
    if n <= 0:
        return []
    return [OwnersSchedule("", program, problem=f"{n:,} more of {program}'s {of} are not shown")]


def _readable(program: str, schedules: list[OwnersSchedule] | Exception) -> list[OwnersSchedule]:
    """The schedules; if they can't be read, one that says why."""
    if isinstance(schedules, Exception):
        return [OwnersSchedule("", program, problem=f"{program}'s schedules: {schedules}")]
    return schedules


def _late(overdue: Iterable[int | None]) -> int | None:
    """How many are late; None: none, as far as is known."""
    found = list(overdue)
    return sum(filter(None, found)) or (None if None in found else 0)

"""BullMQ's layout: lists and sorted sets of job ids; the hash beside them is the job."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from ...engine.optional_features import HasOwnersLimit
from ...engine.relation import Links
from ...model.entry import Entry, OwnersLimit, State
from ...model.quoting import bytes_of, legal, raw_of
from ...model.states import Verb
from ...redis.operation import C_co, Call, operation, together
from ...redis.parsers import optional
from ..changes import RUN_AGAIN
from ..declarations import Declared, List, Zset
from ..list_place import ListPlace
from ..places import LocatedEntry, Place
from ..releases import Releases
from ..schedules import ScheduleProgram
from .bull_jobs import BullJobs
from .job import STALLED, Job
from .recogniser import OF_A_QUEUE
from .relations import links
from .schedules import BullmqSchedulers

_RELEASE = re.compile(rb"bullmq[^:]*:(.*)", re.DOTALL)
_MARK = re.compile(rb"0:\d+")
CHILDREN = "waiting for children"
STOP = 2**53 - 1
"""what `rateLimit` of BullMQ sets as the number of jobs in the span"""


def is_mark(element: bytes) -> bool:
    """Whether an element is the mark, ``0:`` and the time of the next delayed job, and no job."""
    return _MARK.fullmatch(element) is not None


def _numbers(reply: Sequence[bytes | None]) -> list[int | None]:
    return [None if each is None else int(each) for each in reply]


@dataclass(frozen=True, slots=True)
class WaitList(ListPlace):
    """A list of waiting jobs. Before release 5 its next element, on the right, may be the mark that
    wakes workers; BullMQ too looks for it only there."""

    async def count(self) -> int:
        last = Call(("LINDEX", self.key, -1), optional, key=self.key)
        size, next_ = await together(self.size(), last)
        return size - is_mark(next_ or b"")

    async def window(self, start: int, max: int) -> tuple[list[LocatedEntry], int]:
        (found, _), size = await together(ListPlace.window(self, start, max), self.count())
        return found, size


class BullmqQueue(BullJobs[C_co], HasOwnersLimit[C_co]):
    """``bullmq:<queue>``. An id is BullMQ's job id, which can come again."""

    kind: ClassVar[str] = "bullmq"
    owner: ClassVar[str] = "BullMQ"
    overwrites: ClassVar[str] = "BullMQ before 6"
    package: ClassVar[str] = "foreign.bullmq"
    known_keys: ClassVar[tuple[str, bytes] | None] = "{q}:*", OF_A_QUEUE + rb"|.*:.*"
    workers_at: ClassVar[str] = "{q}:meta"
    states: ClassVar[Mapping[State, Sequence[Declared]]] = {
        "waiting": (
            List("{q}:wait", "wait", "RIGHT"),
            List("{q}:paused", "paused", "RIGHT"),
            Zset("{q}:prioritized", "prioritized"),
        ),
        "pending": (List("{q}:active", "active", "RIGHT"),),
        "delayed": (
            Zset("{q}:delayed", "delayed", ready=True, unit_ms=1 / 4096),
            Zset("{q}:waiting-children", CHILDREN),
        ),
        "dead": (Zset("{q}:failed", "failed", died=True, unit_ms=1),),
        "done": (Zset("{q}:completed", "completed"),),
    }
    actions: ClassVar[Mapping[Verb, tuple[State, ...]]] = {**BullJobs.actions, **RUN_AGAIN}
    schedule_programs: ClassVar[tuple[ScheduleProgram, ...]] = (BullmqSchedulers(),)
    pause_note: ClassVar[str] = (
        "done as BullMQ's `queue.pause()` and `resume()` do it: its workers heed it"
    )
    releases: ClassVar[Releases] = Releases(
        ("5.20", "5.81", "6.7"), told="the member `version` of the queue's `meta`"
    )
    unnamed: ClassVar[str] = (
        "its `meta` names no release of BullMQ, as before 5.20, or where only a FlowProducer and"
        " workers opened it (`new Queue(NAME)` writes the release), and redisq changes queues of"
        f" BullMQ {releases.bounds}"
    )
    replay_note: ClassVar[str] = "as BullMQ's own retry does it: one more attempt"
    refusals: ClassVar[Mapping[str, str]] = {
        "claim": "only BullMQ's workers can take a job",
        "purge pending": "a worker has them; once its lock is gone, requeue them first",
    }
    without_deadline: ClassVar[str] = (
        "its lock is gone, as when its worker was killed: BullMQ's workers, which look every 30 s"
        " unless it is set, let it wait again, or fail it if it stalled too often"
    )
    layout_faults: ClassVar[tuple[str, ...]] = (
        "a job that anybody removes while its worker runs fails there, and is recorded nowhere",
        "a child that is removed without BullMQ leaves its parent waiting for ever",
        "a schedule goes on from its next job: without that job it ends",
    )

    # --- where entries are -----------------------------------------------------------------------

    async def paused_there(self) -> str | None:
        key = self._key("meta")
        paused = Call(("HEXISTS", key, "paused"), bool, key=key)
        return "queue.pause() in BullMQ" if await paused else None

    @operation
    async def owners_limit(self) -> OwnersLimit | None:
        """As BullMQ's `moveToActive` finds it: the rate first."""
        meta, active, limiter = map(self._key, ("meta", "active", "limiter"))
        (slots, most), running, used, left_ms = await together(
            Call(("HMGET", meta, "concurrency", "max"), _numbers, key=meta),
            Call(("LLEN", active), int, key=active),
            Call(("GET", limiter), lambda reply: int(reply or 0), key=limiter),
            Call(("PTTL", limiter), int, key=limiter),
        )
        if used and left_ms > 0 and used >= (most or 0):
            if used == STOP:
                return OwnersLimit("stop", left_ms=left_ms)
            return OwnersLimit("rate", used, most, left_ms)
        if slots is not None and running >= slots:
            return OwnersLimit("concurrency", running, slots)
        return None

    async def releases_there(self) -> Sequence[str]:
        """The release of the program that opened the queue last."""
        key = self._key("meta")
        version = await Call(("HGET", key, "version"), optional, key=key)
        release = _RELEASE.fullmatch(version or b"")
        return [legal(release[1])] if release else []

    def beside_it(self, at: str, own_name: str) -> BullmqQueue[C_co]:
        """Another queue of the program."""
        if (at, own_name) == (self.at, self.own_name):
            return self
        name = self._name_of(own_name)
        return BullmqQueue(self.client, name, at=at, own_name=own_name, prefix=self.prefix)

    @operation
    async def links(self, entries: Sequence[Entry]) -> list[Links]:
        base = bytes_of(self._key(""))
        return await together(links(self, base + raw_of(entry.id)) for entry in entries)

    # --- records ---------------------------------------------------------------------------------

    async def job_ids(self, place: Place, members: Sequence[bytes]) -> Sequence[bytes | None]:
        lists = place.kind == "list"
        return [None if lists and is_mark(member) else member for member in members]

    def _place(self, state: State, declared: Declared, key: str) -> Place:
        if state == "waiting" and isinstance(declared, List):
            return WaitList(
                self.at + key, declared.called, self._reader(state), sizes=self.sizes, reverse=True
            )
        return super()._place(state, declared, key)

    def failures(self, state: State, job: Job) -> int:
        attempts = job.sum("atm", "attemptsMade") - (state == "done")
        if job.values["atm"] is None:  # before release 5 an attempt counts when it begins
            return max(0, attempts - (state == "pending") - job.lost)
        return max(0, attempts - (STALLED in job.text("stacktrace")))  # the end of a lost one

    def refused(self, seen: LocatedEntry, target: str) -> str:
        return "deferred" if seen.place.called == CHILDREN else ""

"""Bull's layout: BullMQ's without `prioritized`, flows and a release; its workers take a job in one
step and lock it in another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from ...model.entry import State
from ...redis.operation import C_co
from ..bullmq.bull_jobs import BullJobs
from ..declarations import Declared, List, Zset
from ..releases import Releases
from ..schedules import ScheduleProgram
from .recogniser import OF_A_QUEUE
from .schedules import BullRepeatables


class BullQueue(BullJobs[C_co]):
    """``bull:<queue>``. An id is Bull's job id, which can come again."""

    kind: ClassVar[str] = "bull"
    owner: ClassVar[str] = "Bull"
    overwrites: ClassVar[str] = "Bull"
    package: ClassVar[str] = "foreign.bull"
    known_keys: ClassVar[tuple[str, bytes] | None] = "{q}:*", OF_A_QUEUE + rb"|.*:.*"
    workers_at: ClassVar[str] = "{q}:id"
    """each job that was ever added incremented this counter"""
    paused_by: ClassVar[tuple[str, str] | None] = "{q}:meta-paused", "queue.pause() in Bull"
    states: ClassVar[Mapping[State, Sequence[Declared]]] = {
        "waiting": (List("{q}:wait", "wait", "RIGHT"), List("{q}:paused", "paused", "RIGHT")),
        "pending": (List("{q}:active", "active", "RIGHT"),),
        "delayed": (Zset("{q}:delayed", "delayed", ready=True, unit_ms=1 / 4096),),
        "dead": (Zset("{q}:failed", "failed", died=True, unit_ms=1),),
        "done": (Zset("{q}:completed", "completed"),),
    }
    schedule_programs: ClassVar[tuple[ScheduleProgram, ...]] = (BullRepeatables(),)
    pause_note: ClassVar[str] = (
        "done as Bull's `queue.pause()` and `resume()` do it: its workers heed it"
    )
    releases: ClassVar[Releases] = Releases(("3.29", "4.16"))
    replay_note: ClassVar[str] = "as Bull's own retry does it: one more attempt"
    refusals: ClassVar[Mapping[str, str]] = {
        "claim": "only Bull's workers can take a job",
        "purge pending": "a worker has them; once they are marked as stalled, requeue them first",
        "replay done": "Bull's own retry is for failed jobs: add the job again by `queue.add`",
    }
    without_deadline: ClassVar[str] = (
        "it has no lock, or none yet: Bull's workers, which look every 30 s unless it is set, mark"
        " such a job, and at the next look let it wait again, or fail it if it stalled too often"
    )
    layout_faults: ClassVar[tuple[str, ...]] = (
        "a worker takes a job in one step and locks it in the next: in between it looks lost",
        "a retried job of some priority waits behind all others",
        "a schedule goes on from its next job: without that job it ends",
    )

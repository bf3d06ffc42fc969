"""asynq's layout: lists and sorted sets of task ids; the hash ``t:ID`` beside them is the task.

All keys of a queue begin with a hash tag of its name; the keys that all queues share do not.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, ClassVar

from ...engine.optional_features import HasWorkerProcesses
from ...model.attachment import Attachment
from ...model.cut_element import name
from ...model.entry import Entry, State
from ...model.errors import Unfit
from ...model.quoting import bytes_of, raw_of, text
from ...model.states import Verb
from ...model.worker_command import WorkerWord
from ...model.worker_process import Process
from ...redis.operation import C_co, Call, operation
from ...redis.parsers import moment, optional
from ...redis.whole_keys import members, set_members
from ..attachments import attached, fields
from ..changes import JOB_VERBS, PURGED_DONE, RUN_AGAIN
from ..declarations import Declared, List, Zset
from ..edits import HasEdits, Rewrite
from ..elements import Element
from ..ended_totals import CountsEnds
from ..job_hashes import JobHash, JobHashQueue
from ..json_text import decoded
from ..owners_pause import HasKeyPause
from ..places import LocatedEntry, Place
from ..releases import Releases
from ..schedules import HasSchedules, ScheduleProgram
from ..worker_commands import Order, SendsCommands
from . import protobuf
from .recogniser import AT, OF_A_QUEUE
from .schedules import AsynqSchedulers
from .task import FIELDS, Task
from .workers import SERVERS, servers

TAKEN = "being aggregated"
DEADLINES = {"active": "lease", TAKEN: "aggregation_sets"}
"""place -> the sorted set of the times (s) at which asynq takes its pending tasks back"""


class AsynqQueue(
    CountsEnds[C_co],
    JobHashQueue[C_co],
    HasEdits[C_co],
    HasSchedules[C_co],
    HasKeyPause[C_co],
    SendsCommands[C_co],
    HasWorkerProcesses[C_co],
):
    """``asynq:<queue>``. An id is asynq's task id, which can come again."""

    kind: ClassVar[str] = "asynq"
    owner: ClassVar[str] = "asynq"
    package: ClassVar[str] = "foreign.asynq"
    ended_counters: ClassVar[tuple[str, str]] = "processed", "failed"
    theirs: ClassVar[dict[str, str]] = {}
    called: ClassVar[Mapping[str, str]] = {"t_job_": "t_"}
    known_keys: ClassVar[tuple[str, bytes] | None] = "*", OF_A_QUEUE + rb"|.*:.*"
    paused_by: ClassVar[tuple[str, str] | None] = "paused", "paused in asynq"
    task_in: ClassVar[tuple[str, ...]] = ("type",)
    fields: ClassVar[tuple[str, ...]] = FIELDS
    identity: ClassVar[tuple[str, ...]] = ("msg", "state", "pending_since", "group", "unique_key")
    of_every_job: ClassVar[tuple[str, ...]] = ("msg", "state")
    timed: ClassVar[Mapping[str, float]] = dict.fromkeys(
        ("scheduled", "retry", "aggregating", "archived"), 1000
    )
    wait_fields: ClassVar[tuple[str, ...]] = ("pending_since",)
    states: ClassVar[Mapping[State, Sequence[Declared]]] = {
        "waiting": (List("pending", "pending", "RIGHT"),),
        "pending": (List("active", "active", "RIGHT"),),
        "delayed": (Zset("retry", "retry", ready=True), Zset("scheduled", "scheduled", ready=True)),
        "dead": (Zset("archived", "archived", died=True),),
        "done": (Zset("completed", "completed"),),
    }
    actions: ClassVar[Mapping[Verb, tuple[State, ...]]] = {
        **{verb: states for verb, states in JOB_VERBS.items() if verb != "reschedule"},
        **PURGED_DONE,
        **RUN_AGAIN,
    }
    arguments: ClassVar[tuple[str, ...]] = ("data",)
    by_stamp: ClassVar[Collection[str]] = ("waiting", "trash", "gone")
    orphan_states: ClassVar[tuple[State, ...]] = ("pending",)
    schedule_programs: ClassVar[tuple[ScheduleProgram, ...]] = (AsynqSchedulers(),)
    pause_note: ClassVar[str] = (
        "done as `asynq queue pause` and `unpause` do it: its servers heed it"
    )
    releases: ClassVar[Releases] = Releases((), known=("0.23", "0.24", "0.25", "0.26"))
    replay_note: ClassVar[str] = (
        "as asynq's `RunTask` does it: retries that are used up stay so, and the next failure"
        " archives the task again"
    )
    task_figures: ClassVar[str] = (
        "asynq keeps no run times, and completed tasks only with the option `Retention`"
    )
    verbs: ClassVar[Mapping[str, str]] = {
        "requeue": "they wait for the next worker now, behind what waits there",
        "purge": "they go to the trash, and the locks of unique tasks with them",
        "hard": "they are removed for good, and the locks of unique tasks with them: no undo",
    }
    refusals: ClassVar[Mapping[str, str]] = {
        "requeue pending": "a server may be at it; what a killed server had, asynq's other servers"
        " retry or archive about a minute after its last heartbeat",
        "claim": "only asynq's workers can take a task",
        "reschedule": "asynq has no call for it, and the lock of a unique task would end too early",
        "purge pending": "a worker is at them: `redisq pending stop` cancels one",
    }
    worker_commands: ClassVar[Mapping[WorkerWord, str]] = {
        "stop-job": "the context of its handler is cancelled: a handler that looks at it ends",
    }
    no_commands: ClassVar[Mapping[WorkerWord, str]] = dict.fromkeys(
        ("quiet", "stop"), "asynq's servers heed only signals: TSTP quiets one, TERM ends it"
    )
    without_deadline: ClassVar[str] = "it has no lease: asynq won't notice if its server is killed"
    after_deadline: ClassVar[str] = (
        "asynq's servers, which look every minute, retry it, or archive it if its retries are used"
        " up"
    )
    layout_faults: ClassVar[tuple[str, ...]] = (
        "a task that comes into its group from `scheduled`, or back from a set that no server"
        " aggregated in time, is in no list until another task joins the group: asynq leaves it"
        " alone until then, and it isn't counted",
        "asynq keeps 10,000 archived tasks, for 90 days: a failure removes older ones for good",
    )

    @classmethod
    def home_of(cls, own_name: str) -> str:
        return f"{text(AT)}{{{own_name}}}:"

    @operation
    async def names(self) -> list[str]:
        return sorted(map(name, await set_members(AT + b"queues")))

    async def places_of(self, state: State, names: Sequence[str]) -> list[Place]:
        """Tasks of a group are delayed until a server moves them into a set of their own, to make
        one task of them."""
        found = await super().places_of(state, names)
        sets: list[Declared] = []
        if state == "delayed":
            groups = await set_members(self.keys["t_groups"])
            sets = [Zset("g:" + name(group), "aggregating") for group in sorted(groups)]
        elif state == "pending":
            taken = await members(self.keys["t_aggregation_sets"], cut=True)
            sets = [Zset(k.removeprefix(self.at), TAKEN) for k in taken if k.startswith(self.at)]
        return [*found, *(self._place(state, each, each.key) for each in sets)]

    @property
    def process_registry(self) -> str:
        return SERVERS

    @operation
    async def worker_processes(self) -> list[Process]:
        """asynq's servers; one whose record expired is not `alive`."""
        return await servers()

    async def order(self, word: WorkerWord, target: str) -> Order | None:
        """As `Inspector.CancelProcessing` (``internal/rdb/rdb.go``: `PublishCancelation`)."""
        id = raw_of(target)
        key = bytes_of(self.keys["t_job_"]) + id
        if await Call(("HGET", key, "state"), optional, key=key) != b"active":
            return None
        return Order([Element("hash", key, b"state", b"active", b"active")], "asynq:cancel", id)

    # --- records ---------------------------------------------------------------------------------

    async def read_beside(self, place: Place, state: State, ids: Sequence[bytes]) -> Sequence[Any]:
        """When asynq takes a pending task back (s)."""
        if place.called not in DEADLINES or not ids:
            return await super().read_beside(place, state, ids)
        key = self.at + DEADLINES[place.called]
        held = [bytes_of(place.key)] * len(ids) if place.called == TAKEN else ids
        return await Call(("ZMSCORE", key, *held), list[Any], key=key)

    def job(self, values: Mapping[str, bytes | None], beside: Any) -> Task:
        return Task.read(values, None if beside is None else moment(float(beside) * 1000))

    def entry(self, state: State, place: Place, id: str, at_ms: int | None, job: Task) -> Entry:
        called, dead = place.called, state == "dead"
        since_ms = {
            "pending": self.waits_since(job),
            "retry": job.ms(11),
            "aggregating": at_ms,
            "archived": at_ms,
            "completed": job.ms(13),
        }.get(called)
        until_ms = job.until_ms if called in DEADLINES else at_ms
        failures, lost, reason = job.failures(at_ms if dead else None)
        return Entry(
            id,
            state,
            None if called == "aggregating" else until_ms,
            since_ms,
            job.shown() if place.payloads and not place.brief else None,
            failures=failures,
            lost=lost,
            reason=reason,
            called=called,
            record=job,
            task=job.message.text(1) or None,
            error=job.error() if state != "done" else None,
        )

    @operation
    async def attachments(self, entry: Entry) -> list[Attachment]:
        """What its handler wrote by `ResultWriter`."""
        key = bytes_of(self.keys["t_job_"]) + raw_of(entry.id)
        (result,) = await fields(key, "result")
        return attached("result", result)

    def waits_since(self, job: JobHash) -> int | None:
        """By a time in nanoseconds, which `RunTask` doesn't write."""
        since = job.number("pending_since")
        return None if since is None else since // 1_000_000

    def trash_payload(self, kept: bytes) -> bytes:
        """Made of the task's message, which the trash keeps."""
        task = Task.read({"msg": kept})
        return kept if task.problem else task.shown()

    # --- what operators change -------------------------------------------------------------------

    def rewrite(self, seen: LocatedEntry, values: Mapping[str, bytes]) -> Rewrite:
        task, key = seen.entry.record, bytes_of(self.keys["t_job_"]) + seen.member
        if task.values["unique_key"] or task.message.text(10):
            raise Unfit("a lock is made of its arguments")
        if decoded(task.message.data(2), self) is self:
            raise Unfit("not JSON")
        before = task.values["msg"]
        after = protobuf.replaced(before, 2, values["data"])
        return Rewrite(parts=[Element("hash", key, b"msg", before, after)])

    def selected_stamp(self, entry: Entry, target: str, high_water_ms: int) -> bytes:
        task = entry.record
        here = isinstance(task, Task) and task.text("state") == entry.called  # else it is refused
        return super().selected_stamp(entry, target, high_water_ms) if here else b""

    def pause_value(self, now_ms: int) -> bytes:
        return b"%d" % (now_ms // 1000)

    def refused(self, seen: LocatedEntry, target: str) -> str:
        """Refuses a task that a server has, a task whose ``state`` names another place, and what
        asynq has no call for."""
        if seen.entry.state == "pending":
            return "busy"
        task = seen.entry.record
        elsewhere = isinstance(task, Task) and task.text("state") != seen.place.called
        return "invalid" if elsewhere or target in ("pending", "delayed") else ""

"""Sidekiq's layout: lists, three sorted sets, and a hash of running jobs per process.

Times in its sets are seconds with a fraction in all releases; those in its records are seconds up
to 7 and integer milliseconds from 8 on, and a record keeps the unit it came with.
"""

from __future__ import annotations

import random
import re
import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from math import isfinite
from typing import Any, ClassVar

from ...engine.optional_features import HasOwnersPause, HasTaskMetrics, HasTimeline
from ...engine.relation import Links
from ...model.clock import Moment, Seconds, duration_ms, ready_words
from ...model.entry import Delivery, Entry, Failure, Settlement, State
from ...model.errors import BadInput, Refused, Unfit
from ...model.quoting import bytes_of, legal, text
from ...model.rates import Rates
from ...model.states import Verb
from ...model.task_figures import TaskReport
from ...model.worker_command import WorkerWord
from ...model.worker_process import KEEPS_JOBS, Process, Pruned
from ...redis.operation import C_co, Call, attempt, operation, together
from ...redis.parsers import optional
from ...redis.whole_keys import set_members
from ..declarations import Declared, List, Zset
from ..edits import Rewrite
from ..elements import UNDO, Element
from ..json_members import replaced
from ..json_text import decoded, text_member
from ..long_records import LONG_RECORD
from ..places import LocatedEntry, Place, Row
from ..releases import Releases
from ..ruby_jobs import job
from ..ruby_jobs.job import Job
from ..ruby_jobs.private_lists import PrivateList
from ..ruby_jobs.queue import RubyJobQueue
from ..schedules import HasSchedules, ScheduleProgram
from ..worker_commands import Order, SendsCommands
from . import batches, metrics
from .processes import TTL_MS, processes
from .schedules import SidekiqCron, SidekiqScheduler

MAX_RETRIES = 25
LOCKS = frozenset(
    ("unique_for", "lock", "lock_args", "lock_digest", "unique", "unique_args", "unique_digest")
)
"""members of jobs that are locked: of Sidekiq Enterprise's unique jobs, and of the gem
sidekiq-unique-jobs (``lib/sidekiq_unique_jobs/constants.rb``)"""
_GIVEN = {"class", "args", "jid", "queue", "at", "created_at", "enqueued_at"}


class SidekiqQueue(
    RubyJobQueue[C_co],
    HasSchedules[C_co],
    SendsCommands[C_co],
    HasOwnersPause[C_co],
    HasTimeline[C_co],
    HasTaskMetrics[C_co],
):
    """``sidekiq:<queue>``, or ``sidekiq``: the deployment with all its queues."""

    public: ClassVar[tuple[str, ...]] = ("push", "worker_processes", "prune_process")
    kind: ClassVar[str] = "sidekiq"
    owner: ClassVar[str] = "Sidekiq"
    package: ClassVar[str] = "foreign.sidekiq"
    home: ClassVar[str] = ""
    prune_after_ms: ClassVar[int] = TTL_MS
    states: ClassVar[Mapping[State, Sequence[Declared]]] = {
        "waiting": (List("queue:{q}", "enqueued", next="RIGHT"),),
        "pending": (),
        "delayed": (Zset("retry", "retry", ready=True), Zset("schedule", "scheduled", ready=True)),
        "dead": (Zset("dead", "dead", died=True),),
    }
    unit: ClassVar[str] = "s"
    schedule_programs: ClassVar[tuple[ScheduleProgram, ...]] = (SidekiqCron(), SidekiqScheduler())
    releases: ClassVar[Releases] = Releases(
        ("6.4",), known=("7", "8"), told="from 7 on, the member `version` of each process's `info`"
    )
    replay_note: ClassVar[str] = (
        "with the retries they have left (if none, one attempt), as with Sidekiq's own"
    )
    unseen_ms: ClassVar[float] = 15_000  # each process tells every ten seconds what it runs
    pause_note: ClassVar[str] = (
        "done as `Sidekiq::Queue#pause!` and `unpause!` of Sidekiq Pro and Enterprise do it: their"
        " workers and redisq's heed it, those of Sidekiq alone go on"
    )
    pause_heeded: ClassVar[bool] = False
    metrics_name: ClassVar[str] = "counts and histograms by class, for 8 hours"
    task_figures: ClassVar[str] = (
        "Sidekiq counts its classes from 7.0 on, each in all queues together"
    )
    prune_note: ClassVar[str] = "what they had is lost, as with Sidekiq's own clean-up"
    actions: ClassVar[Mapping[Verb, tuple[State, ...]]] = {
        "requeue": ("pending", "delayed"),
        "claim": ("pending",),
        "replay": ("dead",),
        "purge": ("waiting", "pending", "delayed", "dead"),
        "hard": ("waiting", "pending", "delayed", "dead", "trash"),
        "restore": ("trash",),
        "reschedule": ("delayed",),
    }
    worker_commands: ClassVar[Mapping[WorkerWord, str]] = {
        "quiet": "it takes no more jobs, from its next heartbeat on (within 10 s); only a restart"
        " ends that",
        "stop": "it ends from its next heartbeat on (within 10 s), and puts jobs that don't end in"
        " its `timeout` back into their queues",
    }
    no_commands: ClassVar[Mapping[WorkerWord, str]] = {
        "stop-job": "Sidekiq has no command for it: ending a thread is never safe; stop its process"
    }
    workers_at: ClassVar[str] = "processes"
    theirs: ClassVar[dict[str, str]] = {
        "queues": "set",
        "retry": "zset",
        "schedule": "zset",
        "dead": "zset",
        "processes": "set",
        "paused": "set",
    }
    layout_faults: ClassVar[tuple[str, ...]] = (
        "a job taken by a Sidekiq worker without super_fetch is in no list while it runs: it is"
        " lost with its process",
        "Sidekiq takes a due job out of its set and puts it into the queue in two steps: a crash"
        " in between loses it",
        "Sidekiq's web page removes and retries entries of a set by score: others of the same score"
        " are taken out and put back from the client, and lost if that one dies",
        "the dead set is trimmed to 10,000 entries and six months, without a word, by whichever"
        " Sidekiq process adds to it next",
        "the holder of a job isn't fenced: a copy of it that runs later doesn't know",
    )

    random: Callable[[], float] = staticmethod(random.random)
    """a number from [0, 1), for the jitter of retries"""

    def _check_own_name(self) -> None:
        if held := PrivateList.of_queue(bytes_of(self.own_name)):
            queue, process = self._name_of(text(held.queue)), legal(held.process)
            raise Refused(
                f"{self.name} is no queue: that list has jobs of {queue} that process {process}"
                f" runs; they are pending in {queue}"
            )

    @operation
    async def names(self) -> list[str]:
        names = await RubyJobQueue.names(self)
        return [name for name in names if PrivateList.of_queue(bytes_of(name)) is None]

    # --- records -------------------------------------------------------------------------------

    def id_of(self, payload: bytes) -> str:
        """The jid; for a record without a usable one, ``x`` and a part of its digest."""
        return _id(job.fields(payload) or {}, payload)

    def _trait(self, id: str) -> str:
        # Characters that every JSON encoder writes as they are; a digest isn't part of its record.
        plain = re.findall(r"[\w.:-]+", id, re.A)
        return "" if re.fullmatch("x[0-9a-f]{23}", id) else max(plain, key=len, default="")

    def _failures(self, payload: bytes) -> int:
        return _failures(job.fields(payload) or {})

    def _entry(self, state: State, place: Place, row: Row) -> Entry | None:
        payload = row.member
        record = job.fields(payload) or {}
        if state != "waiting" and not self._means(record.get("queue")):
            return None
        kind = record.get("error_class")
        error = None
        if isinstance(kind, str) and not place.brief:
            error = Failure(
                kind,
                str(record.get("error_message", "")),
                job.unpacked_backtrace(record.get("error_backtrace", [])),
            )
        dead = state == "dead"
        lost = job.times_lost(record.get("error_message")) if dead and kind == job.LOST else 0
        at = round(row.score * 1000) if state != "waiting" and isfinite(row.score) else None
        since = at if dead else None
        for name in _SINCE.get(place.called, ()):
            since = since or job.ms(record.get(name))
        unread = _unread(record) if dead else None
        return Entry(
            _id(record, payload),
            state,
            at_ms=at,
            since_ms=since,
            payload=payload if unread is None else unread,
            failures=_failures(record),
            lost=lost,
            reason=_reason(kind) if dead else None,
            error=error,
            called=place.called,
            task=text_member(record, self.task_in) if unread is None else None,
            record=record,
        )

    def destination(
        self, seen: LocatedEntry, target: str, at_ms: int
    ) -> tuple[bytes | None, str] | None:
        if seen.place.kind == "held" or target == "delayed":
            return None, self.own_name
        record = seen.entry.record
        queue = record.get("queue")
        named = queue if isinstance(queue, str) and queue else self.own_name
        if not named:
            return None
        raw = _unread(record)
        return _enqueued(seen.member, record, at_ms) if raw is None else raw, named

    def stamp(self, entry: Entry) -> bytes:
        """Its batch, which a purge asks for."""
        return batches.bid_of(entry)

    def rewrite(self, seen: LocatedEntry, values: Mapping[str, bytes]) -> Rewrite:
        record = job.fields(seen.member) or {}
        if not LOCKS.isdisjoint(record):
            raise Unfit("a lock is made of its arguments")
        if record.get("encrypt"):
            raise Unfit("its last argument is encrypted")
        return Rewrite(replaced(seen.member, values))

    def left_to_owner(self, delivery: Delivery) -> str:
        if (job.fields(delivery.payload) or {}).get("bid"):
            return "it belongs to a batch (`bid`), and only Sidekiq's own workers count its jobs"
        return ""

    def _ended(self, settlement: Settlement) -> tuple[str, bytes, str, int]:
        payload, failure = settlement.delivery.payload, Failure.decoded(settlement.value)
        record = job.fields(payload)
        assert failure is not None
        if record is None:
            # A record around the bytes, or no queue would show them. If Sidekiq runs it (its page
            # has a button), it is dead again at once, with its bytes unchanged.
            ours = {
                "class": job.UNREADABLE,
                "args": [],
                "jid": self.id_of(payload),
                "queue": self.own_name,
                "retry": 0,
                "raw_hex": payload.hex(),
                "retry_count": 0,
                "error_class": failure.type,
                "error_message": failure.message[:10_000],
            }
            return "invalid", job.value(ours)[:-1] + b',"failed_at":', "s", 0
        before = record.get("retry_count")
        again = isinstance(before, int) and not isinstance(before, bool)
        count = self._failures(payload)
        stamp = "retried_at" if again else "failed_at"
        added = {
            "queue": record.get("retry_queue") or self.own_name,
            "error_message": failure.message[:10_000],
            "error_class": failure.type,
            "retry_count": count,
        }
        if kept := record.get("backtrace"):
            lines = failure.traceback.splitlines()
            number = kept if isinstance(kept, int) and kept is not True else len(lines)
            added["error_backtrace"] = job.packed_backtrace(lines[:number])
        text = job.opened(payload, {*added, stamp})
        assert text is not None
        parts = [job.value(name) + b":" + job.value(value) for name, value in added.items()]
        text += b",".join(parts) + b',"%b":' % stamp.encode()
        unit = _unit(record)
        if settlement.outcome == "reject":
            return "rejected", text, unit, 0
        if count >= _attempts(record) or _is_over(record, settlement.delivery.deadline_ms):
            return "discarded" if record.get("dead") is False else "failed", text, unit, 0
        if asked := self._retry_delay_ms(settlement):
            return "retry", text, unit, asked
        wait = count**4 + 15 + int(self.random() * 10) * (count + 1)
        return "retry", text, unit, wait * 1000

    def _retry_delay_ms(self, settlement: Settlement) -> int | None:
        """The delay that was asked for; without one, or for 0 as in Sidekiq itself, Sidekiq's own
        back-off decides."""
        return None if settlement.delay is None else duration_ms(settlement.delay, "delay") or None

    # --- producers -----------------------------------------------------------------------------

    @operation
    async def push(
        self, jobs: Iterable[Job], *, at: Moment | None = None, after: Seconds | None = None
    ) -> list[str]:
        """Put jobs in, and return their jids; a job without a jid gets one. They are due now, at
        ``at`` (an aware datetime or Unix seconds), or ``after`` (seconds or a timedelta) from now.

        One step for all jobs; the same call sent again puts nothing in twice.
        """
        rows = []
        for given in job.jobs_of(jobs):
            if taken := _GIVEN & set(given.options):
                raise BadInput(f"job {given.klass}: {', '.join(sorted(taken))} is not an option")
            jid = given.jid or secrets.token_hex(12)
            if not job.legal(jid):
                raise BadInput(f"jid {jid[:140]!a} can't be used as an id")
            named = Job(given.klass, given.args, jid, given.options)
            rows.append((jid, named.encoded(retry=True, queue=self.own_name)[:-1]))
        return await self._push(rows, ready_words(at, after))

    # --- looking -------------------------------------------------------------------------------

    def beside_it(self, own_name: str) -> SidekiqQueue[C_co]:
        """Another queue of the deployment; empty: the deployment."""
        if own_name == self.own_name:
            return self
        name = self._name_of(own_name) if own_name else self.kind
        return SidekiqQueue(self.client, name, at=self.at, prefix=self.prefix)

    @operation
    async def links(self, entries: Sequence[Entry]) -> list[Links]:
        return await together(batches.links(self, entry) for entry in entries)

    async def releases_there(self) -> Sequence[str]:
        """The releases of its processes."""
        keys = [bytes_of(self.at) + name for name in await set_members(self.keys["t_processes"])]
        found = await together(
            attempt(Call(("HGET", key, "info"), optional, key=key)) for key in keys
        )
        told = [text_member(decoded(info), ("version",)) for info in found if type(info) is bytes]
        return [release for release in told if release]

    @operation
    async def task_metrics(self, now_ms: int, minutes: int) -> TaskReport | None:
        return await metrics.report(self.at, now_ms, minutes)

    async def _deployment_rates(self, now_ms: int, minutes: int) -> Rates:
        """From 7.0 on by the minute, before that from totals."""
        by_minute, growth = await together(
            metrics.rates(self.at, now_ms, minutes), super()._deployment_rates(now_ms, minutes)
        )
        return by_minute if by_minute.counted else growth

    @operation
    async def worker_processes(self) -> list[Process]:
        """The deployment's Sidekiq processes; one silent for a minute is not `alive`."""
        return await self.processes_with_jobs(whole=False)

    async def processes_with_jobs(self, whole: bool) -> list[Process]:
        names, private = await together(
            set_members(self.keys["t_processes"]), set_members(self.keys["t_super_processes"])
        )
        found = await processes({*names, *private}, self.keys, self.id_of, whole)
        return [one for one in found if bytes_of(one.name) in names or one.work]

    async def _remove_process(
        self, name: str, silent_ms: int, rescue: bool, op: str | None, step: int
    ) -> Pruned:
        """As Sidekiq does it: the process's jobs are not run again. ``rescue`` works as long as the
        process's record lasts, a minute after its last heartbeat."""
        key = self.keys.at + name
        if (await processes([bytes_of(name)], self.keys, self.id_of, False))[0].keeps_jobs:
            raise Refused(f"process {name}: {KEEPS_JOBS}")
        word, back, gone = await self._pruned(
            "prune_process",
            op,
            step,
            [(key,), (f"{key}:workers",), (f"{key}:work",), (f"{key}-signals",)],
            identity=name,
            silent_ms=silent_ms,
            rescue=int(rescue),
            queue=self.own_name,
        )
        return Pruned(word, waiting=back, lost=gone)

    async def order(self, word: WorkerWord, target: str) -> Order | None:
        """As `Sidekiq::Process#quiet!` and `#stop!` (``lib/sidekiq/api.rb``)."""
        name, key, known = bytes_of(target), bytes_of(self.at), self.keys["t_processes"]
        key += name
        listed, info = await together(
            Call(("SISMEMBER", known, name), bool, key=known),
            Call(("HGET", key, "info"), optional, key=key),
        )
        if not listed or info is None:
            return None
        if (job.fields(info) or {}).get("embedded") is True:
            raise Refused(f"process {target} is embedded in another program, which decides itself")
        signal = b"TSTP" if word == "quiet" else b"TERM"
        return Order(
            [
                Element("set", bytes_of(known), name, b"1", b"1"),
                Element("key", key, b"", b"1", b"1"),
                Element("list", key + b"-signals", signal, after=b"60"),
            ]
        )

    async def paused_there(self) -> str | None:
        key = self.keys["t_paused"]
        if not self.own_name:  # it pauses queues one by one
            return None
        is_paused = await Call(("SISMEMBER", key, self.own_name), bool, key=key)
        return "paused in Sidekiq" if is_paused else None

    async def pause_refused(self) -> str | None:
        self._needs_one()
        return None

    @operation
    async def set_owners_pause(self, op: str, step: int, paused: bool) -> str:
        key, name = bytes_of(self.keys["t_paused"]), bytes_of(self.own_name)
        there = await Call(("SISMEMBER", key, name), bool, key=key)
        if there is paused:
            return "same"
        before, after = (b"1" if one else None for one in (there, paused))
        note = "pause" if paused else "resume"
        return await self.change_elements(
            op, step, note, [Element("set", key, name, before, after)]
        )

    def pause_inverse(self, op: str, paused: bool) -> str:
        return f"{UNDO} {op} 1"

    async def _oldest_ms(self, waiting: Sequence[Place]) -> int | None:
        """Of the next job of each list; unknown where jobs are large."""
        weighed = await self._weighed(waiting)
        small = [place for place in weighed if place.mean <= LONG_RECORD]
        windows = await together(place.window(0, 1) for place in small)
        times = [rows[0].entry.since_ms for rows, _ in windows if rows]
        return min(filter(None, times), default=None)


_SINCE = {
    "enqueued": ("enqueued_at", "created_at"),
    "retry": ("retried_at", "failed_at"),
    "scheduled": ("created_at",),
}


def _id(record: dict[str, Any], payload: bytes) -> str:
    jid = record.get("jid")
    return jid if job.legal(jid) else f"x{job.digest(payload)[:23]}"


def _failures(record: dict[str, Any]) -> int:
    count = record.get("retry_count")
    return count + 1 if isinstance(count, int) and count >= 0 else 0


def _unread(record: dict[str, Any]) -> bytes | None:
    return job.unread(record) if record.get("class") == job.UNREADABLE else None


def _enqueued(payload: bytes, record: dict[str, Any], at_ms: int) -> bytes | None:
    """The record as `Sidekiq::Client.push` writes it, with the time at which it begins to wait.
    None: its own bytes, of which its id is made, or which are no JSON object."""
    if _id(record, payload) != record.get("jid"):
        return None
    rest = job.opened(payload, {"enqueued_at"})
    at = str(at_ms if _unit(record) == "ms" else at_ms / 1000).encode()
    return None if rest is None else b'%b"enqueued_at":%b}' % (rest, at)


def _unit(record: dict[str, Any]) -> str:
    """The unit of a record's times."""
    return "ms" if isinstance(record.get("created_at"), int) else "s"


def _reason(error_class: Any) -> str:
    return {job.LOST: "lost", "Reject": "rejected"}.get(str(error_class), "failed")


def _attempts(record: dict[str, Any]) -> int:
    """How many retries a record allows. One that allows none dies at its first failure."""
    allowed = record.get("retry", True)
    if allowed is None or allowed is True:
        return MAX_RETRIES
    return allowed if isinstance(allowed, int) else 0 if allowed is False else MAX_RETRIES


def _is_over(record: dict[str, Any], now_ms: int) -> bool:
    """Whether `retry_for` (seconds since the first failure, from 7.1) is over."""
    first, seconds = job.ms(record.get("failed_at")), record.get("retry_for")
    return bool(first and isinstance(seconds, (int, float)) and first + seconds * 1000 < now_ms)

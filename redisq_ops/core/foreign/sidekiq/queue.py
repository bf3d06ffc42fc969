"""Sidekiq's layout, 6 to 8: lists, three sorted sets, and a hash of running jobs per process.

Times in its sets are seconds with a fraction in all releases; those in its records are seconds up
to 7 and integer milliseconds from 8 on, and a record keeps the kind it came with.
"""

from __future__ import annotations

import random
import re
import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from math import isfinite
from typing import Any, ClassVar

from ...engine.optional_features import HasTimeline
from ...model.clock import Duration, Moment, checked_moment, checked_ms
from ...model.entry import Counts, Entry, Failure, Settlement, State
from ...model.errors import BadInput, WrongKind
from ...model.states import Verb
from ...model.worker_process import Process, Pruned
from ...redis.operation import C_co, Call, both, operation, together
from ..placed_queue import of_set
from ..places import List, LocatedEntry, Place, Zset
from ..ruby_jobs import job
from ..ruby_jobs.job import Job
from ..ruby_jobs.queue import RubyJobQueue
from ..ruby_jobs.reads import each
from .processes import TTL_MS, processes

MAX_RETRIES = 25
_GIVEN = {"class", "args", "jid", "queue", "at", "created_at", "enqueued_at"}


class SidekiqQueue(RubyJobQueue[C_co], HasTimeline[C_co]):
    """``sidekiq:<queue>``, or ``sidekiq``: the deployment with all its queues."""

    kind: ClassVar[str] = "sidekiq"
    owner: ClassVar[str] = "Sidekiq"
    package: ClassVar[str] = "foreign.sidekiq"
    home: ClassVar[str] = ""
    states: ClassVar[Mapping[State, Sequence[List | Zset]]] = {
        "waiting": (List("queue:{q}", "enqueued", next="RIGHT"),),
        "delayed": (Zset("retry", "retry", ready=True), Zset("schedule", "scheduled", ready=True)),
        "dead": (Zset("dead", "dead"),),
    }
    unit: ClassVar[str] = "s"
    replay_note: ClassVar[str] = (
        "with the retries they have left (if none, one attempt), as with Sidekiq's own"
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
    theirs: ClassVar[dict[str, str]] = {
        "queues": "set", "retry": "zset", "schedule": "zset", "dead": "zset", "processes": "set",
        "paused": "set",
    }  # fmt: skip
    layout_faults: ClassVar[tuple[str, ...]] = (
        "a job taken by a Sidekiq worker without super_fetch is in no list while it runs: it is"
        " lost with its process",
        "Sidekiq takes a due job out of its set and puts it into the queue in two steps: a crash"
        " in between loses it",
        "Sidekiq's web page removes and retries entries of a set by score: others of the same score"
        " are taken out and put back from the client, and lost if that one dies",
        "the dead set is trimmed to 10,000 entries and six months, without a word, by whichever"
        " Sidekiq process adds to it next",
        "whoever holds a job isn't fenced: a copy of it that runs later is not told",
    )

    random: Callable[[], float] = staticmethod(random.random)
    """a number from [0, 1), for the jitter of retries"""

    # --- records -------------------------------------------------------------------------------

    def id_of(self, payload: bytes) -> str:
        """The jid; for a record without a usable one, ``x`` and a part of its digest."""
        record = job.fields(payload)
        jid = record.get("jid") if record else None
        if isinstance(jid, str) and job.legal(jid):
            return jid
        return f"x{job.digest(payload)[:23]}"

    def _trait(self, id: str) -> str:
        # What no JSON writer puts in other words; and a digest isn't in what it is of.
        plain = re.findall(r"[\w.:-]+", id, re.A)
        return "" if re.fullmatch("x[0-9a-f]{23}", id) else max(plain, key=len, default="")

    def _failures(self, payload: bytes) -> int:
        count = (job.fields(payload) or {}).get("retry_count")
        return count + 1 if isinstance(count, int) and count >= 0 else 0

    def _entry(self, state: State, place: Place, payload: bytes, score: float) -> Entry:
        record = job.fields(payload) or {}
        kind = record.get("error_class")
        error = None
        if isinstance(kind, str):
            error = Failure(
                kind, str(record.get("error_message", "")),
                job.unpacked_backtrace(record.get("error_backtrace", [])),
            )  # fmt: skip
        lost = state == "dead" and kind == job.LOST
        timed = state in ("delayed", "dead") and isfinite(score)
        at = round(score * 1000) if timed else None
        since = at if state == "dead" else None
        for name in _SINCE.get(place.called, ()):
            since = since or job.ms(record.get(name))
        return Entry(
            self.id_of(payload), state, at_ms=at, since_ms=since, payload=payload,
            failures=self._failures(payload),
            lost=job.times_lost(record.get("error_message")) if lost else 0,
            reason=_reason(kind) if state == "dead" else None, error=error, called=place.called,
        )  # fmt: skip

    def _waiting(self, place: Place, payload: bytes, score: float) -> Entry | None:
        return self._entry("waiting", place, payload, score)

    def _delayed(self, place: Place, payload: bytes, score: float) -> Entry | None:
        return self._entry("delayed", place, payload, score) if self._is_mine(payload) else None

    def _dead(self, place: Place, payload: bytes, score: float) -> Entry | None:
        if not self._is_mine(payload):
            return None
        entry, raw = self._entry("dead", place, payload, score), _unread(payload)
        return entry if raw is None else replace(entry, payload=raw)

    def _is_mine(self, payload: bytes) -> bool:
        return self._means((job.fields(payload) or {}).get("queue"))

    def destination(self, seen: LocatedEntry) -> tuple[bytes | None, str] | None:
        if seen.place.kind == "held":
            return None, self.own_name
        queue = (job.fields(seen.member) or {}).get("queue")
        named = queue if isinstance(queue, str) and queue else self.own_name
        return (_unread(seen.member), named) if named else None

    def _ended(self, settlement: Settlement) -> tuple[str, bytes, str, int]:
        payload, failure = settlement.delivery.payload, Failure.decoded(settlement.value)
        record = job.fields(payload)
        assert failure is not None
        if record is None:
            # A record around the bytes, or no queue would show them. Run by a stock Sidekiq (its
            # page has a button), it is dead again at once, and still whole.
            ours = {
                "class": job.UNREADABLE, "args": [], "jid": self.id_of(payload),
                "queue": self.own_name, "retry": 0, "raw_hex": payload.hex(), "retry_count": 0,
                "error_class": failure.type, "error_message": failure.message[:10_000],
            }  # fmt: skip
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
        unit = "ms" if isinstance(record.get("created_at"), int) else "s"
        if settlement.outcome == "reject":
            return "rejected", text, unit, 0
        if count >= _attempts(record) or _is_over(record, settlement.delivery.deadline_ms):
            return "discarded" if record.get("dead") is False else "failed", text, unit, 0
        if asked := self._retry_delay_ms(settlement):
            return "retry", text, unit, asked
        wait = count**4 + 15 + int(self.random() * 10) * (count + 1)
        return "retry", text, unit, wait * 1000

    def _retry_delay_ms(self, settlement: Settlement) -> int | None:
        """What the handler asked for. A worker's own backoff isn't heeded: Sidekiq has one."""
        failure = Failure.decoded(settlement.value)
        asked = checked_ms(settlement.delay_ms, "delay_ms")
        return asked or None if failure and failure.type == "Retry" else None

    # --- producers -----------------------------------------------------------------------------

    @operation
    async def push(
        self,
        jobs: Iterable[Job],
        *,
        at_ms: Moment | None = None,
        after_ms: Duration | None = None,
    ) -> list[str]:
        """Put jobs in; their jids. Each gets one unless it has one. For now, or for ``at_ms`` (ms
        UTC or an aware datetime), or ``after_ms`` (ms or a timedelta) from now.

        One step for all of them; the same call sent again puts nothing in twice.
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
        at = ""
        if at_ms is not None and after_ms is not None:
            raise BadInput("at_ms or after_ms: give one of them")
        if at_ms is not None:
            at = str(checked_moment(at_ms, "at_ms"))
        elif after_ms is not None:
            at = f"+{checked_ms(after_ms, 'after_ms')}"
        return await self._push(rows, at)

    # --- looking -------------------------------------------------------------------------------

    async def _of_owners_sets(self, state: State, wrong: list[str] | None) -> list[Place]:
        keys = self.keys
        if state == "dead":
            return [Place("zset", keys["t_dead"], "dead", each(self._dead))]
        return [
            Place("zset", keys["t_retry"], "retry", each(self._delayed)),
            Place("zset", keys["t_schedule"], "scheduled", each(self._delayed)),
        ]

    async def _busy(self) -> list[LocatedEntry]:
        """As its own workers said at their last beat."""
        place = self._gathered(())
        rows = []
        for process in await self.worker_processes.op():
            consumer = process.name if job.legal(process.name) else None
            for work in process.work:
                if self._means(work.queue):
                    entry = Entry(
                        work.id, "pending", since_ms=work.since_ms,
                        payload=work.payload, failures=self._failures(work.payload),
                        consumer=consumer, called="busy",
                    )  # fmt: skip
                    rows.append(LocatedEntry(entry, place, b""))
        return rows

    @operation
    async def worker_processes(self) -> list[Process]:
        """The deployment's Sidekiq processes; those not heard of for a minute are not `alive`."""
        names = await of_set(self.keys["t_processes"])
        return await processes(names, self.keys, self.id_of)

    @property
    def process_registry(self) -> str:
        return self.keys["t_processes"]

    @operation
    async def prune_process(
        self,
        name: str,
        *,
        silent_ms: Duration | None = None,
        rescue: bool = False,
        op: str | None = None,
        step: int = 1,
    ) -> Pruned:
        """Strike a process that was silent for so long (None: a minute).

        As Sidekiq does, what it had is not run again. ``rescue`` puts it back to the front of its
        queues, as long as its record lasts (a minute after its last beat); should the process be
        cut off and not dead, these jobs run twice.
        """
        await self._ensure_registered()
        key = self.keys.at + name
        silence = TTL_MS if silent_ms is None else checked_ms(silent_ms, "silence")
        word, back, gone = await self._pruned(
            "prune_process", op, step,
            [(key,), (f"{key}:workers",), (f"{key}:work",), (f"{key}-signals",)],
            identity=name, silent_ms=silence, rescue=int(rescue), queue=self.own_name,
        )  # fmt: skip
        return Pruned(word, waiting=back, lost=gone)

    @operation
    async def counts(self, now_ms: int | None = None) -> Counts:
        """The deployment's are exact. Of one queue, ``done`` isn't known, nor are delayed and dead
        while a set holds more than 500 entries of all queues; nor what a key of another type would
        say."""
        try:
            counts = await (self._counts() if self.own_name else self._all_counts())
        except WrongKind:
            counts = await self._counts_of_the_rest()
        part: set[State] = {"delayed", "dead", "done"} if self.beside else set()
        return replace(counts, unknown=counts.unknown | part)

    async def _counts(self) -> Counts:
        delayed, dead = await both(self._places("delayed"), self._places("dead"))
        (counted, (paused, closed)), ((in_delay, in_dead), (busy, oldest)) = await both(
            both(
                together(place.count() for place in (
                    self._list(self.own_name), self._holding(self.own_name), self._own_trash(),
                )),
                self._flags(),
            ),
            both(
                both(self._of_small(delayed), self._of_small(dead)),
                both(self._busy(), self._list(self.own_name).window(0, 1)),
            ),
        )  # fmt: skip
        waiting, held, trash = counted
        paused = paused or await self.paused_there()
        unknown: set[State] = {"done"}
        if in_delay is None:
            unknown.add("delayed")
        if in_dead is None:
            unknown.add("dead")
        first = oldest[0][0].entry.since_ms if oldest[0] else None
        return Counts(
            waiting, held + len(busy), in_delay or 0, in_dead or 0, trash, 0, first, paused,
            closed, frozenset(unknown),
        )  # fmt: skip

    async def paused_there(self) -> str | None:
        key = self.keys["t_paused"]
        if not self.own_name:  # it pauses queues one by one
            return None
        is_paused = await Call(("SISMEMBER", key, self.own_name), bool, key=key)
        return "paused in Sidekiq" if is_paused else None

    async def _all_counts(self) -> Counts:
        names = await self._queues()
        (lists, held), ((sets, busy), (done, (paused, closed))) = await both(
            both(
                together(self._list(name).window(0, 1) for name in names),
                together(self._holding(name).count() for name in names),
            ),
            both(
                both(
                    together(
                        Call(("ZCARD", key), int, key=key)
                        for key in (
                            *(self.keys[f"t_{part}"] for part in ("retry", "schedule", "dead")),
                            self.keys["trash"],
                        )
                    ),
                    self._busy(),
                ),
                both(self._done(), self._flags()),
            ),
        )
        retry, schedule, dead, trash = sets
        oldest = [rows[0].entry.since_ms or 0 for rows, _ in lists if rows]
        return Counts(
            sum(size for _, size in lists), sum(held) + len(busy), retry + schedule, dead,
            trash, done or 0, min(filter(None, oldest), default=None), paused, closed,
            frozenset({"done"} if done is None else ()),
        )  # fmt: skip

    @operation
    async def due_counts(self, edges: Sequence[int]) -> list[int]:
        """Of the whole deployment, whichever queue is looked at: the sets are one for all."""
        parts = [self.keys["t_retry"], self.keys["t_schedule"]]
        found = await together(
            Call(("ZCOUNT", key, low / 1000, f"({high / 1000}"), int, key=key)
            for key in parts
            for low, high in pairwise(edges)
        )
        half = len(edges) - 1
        return [found[n] + found[half + n] for n in range(half)]


_SINCE = {
    "enqueued": ("enqueued_at", "created_at"),
    "retry": ("retried_at", "failed_at"),
    "scheduled": ("created_at",),
}


def _unread(payload: bytes) -> bytes | None:
    record = job.fields(payload)
    return job.unread(record) if record and record.get("class") == job.UNREADABLE else None


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

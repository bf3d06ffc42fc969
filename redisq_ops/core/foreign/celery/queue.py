"""Celery's queues in Redis, as kombu keeps them: lists of messages, a list for each priority.

Messages that were sent to workers are in one hash for all queues, `unacked`; also those that wait
in a worker's memory for their time. Celery keeps no dead letters: a failed task leaves its result,
from which a message can be made again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from hashlib import sha1
from itertools import chain
from math import inf
from typing import Any, ClassVar

from ...engine.operator_changes import MoveStep
from ...engine.optional_features import HasDoneEntries
from ...engine.registry import Registered, all_queues
from ...engine.relation import Links
from ...engine.replay_tracking import ForeignReplayTracker, ReplayTracker
from ...model.activity import Activity
from ...model.attachment import Attachment
from ...model.entry import Entry, State
from ...model.errors import NotFound, Refused, Unfit
from ...model.queue_position import QueuePosition
from ...model.quoting import bytes_of, legal, raw_of, text
from ...model.states import Verb
from ...model.worker_command import WorkerWord
from ...model.worker_process import Process
from ...redis.operation import C_co, Call, attempt, operation, together
from ...redis.parsers import moment, optional
from ...redis.whole_keys import set_members, strings
from ..attachments import value_shown
from ..declarations import Declared, Hash, List
from ..edits import HasEdits, Rewrite
from ..elements import Element
from ..json_members import replaced
from ..json_text import text_member
from ..long_records import not_read
from ..places import LocatedEntry, Place, Row
from ..record_sizes import string_sizes
from ..releases import Releases
from ..scanned_results import ScannedResults
from ..schedules import HasSchedules, ScheduleProgram
from ..worker_commands import Order, SendsCommands
from .bindings import BINDING, SEPARATOR, Binding, bindings_of, separator_of
from .chords import links
from .consumers_pause import HasConsumersPause
from .control import ask, channel_of, control
from .message import message
from .schedules import RedBeat
from .sent_tasks import SentTasks
from .task import Delivered, Result, Task, is_packed

CONTROL = ".celery.pidbox"
"""the ending of the names of queues by which workers are controlled"""
RESULT = "celery-task-meta-"
USUAL = "celery"
"""Celery's own name for its queue, unless it is set"""
STEP = SEPARATOR.decode()
LOWER = range(1, 10)
"""priorities that may have a list of their own: 3, 6 and 9 unless `priority_steps` is set"""
_HELD = (
    "a worker may have them in its memory, and would run them as well. A worker that is stopped"
    " (TERM) puts them back into the queue"
)


class CeleryQueue(
    HasConsumersPause[C_co],
    HasSchedules[C_co],
    HasEdits[C_co],
    SendsCommands[C_co],
    HasDoneEntries[C_co],
):
    """``celery:<queue>``. An id is the task's, which it keeps when it is tried again."""

    kind: ClassVar[str] = "celery"
    owner: ClassVar[str] = "Celery"
    package: ClassVar[str] = "foreign.celery"
    holds_payloads: ClassVar[bool] = True
    by_id: ClassVar[bool] = True
    screens: ClassVar[int] = 20
    theirs: ClassVar[dict[str, str]] = {"unacked": "hash", "unacked_index": "zset"}
    workers_at: ClassVar[str] = BINDING.decode() + "celery.pidbox"
    task_in: ClassVar[tuple[str, ...]] = ("task",)
    called: ClassVar[Mapping[str, str]] = {"t_result_": RESULT}
    states: ClassVar[Mapping[State, Sequence[Declared]]] = {
        "waiting": (
            List("{q}", "queued", "RIGHT"),
            *(List(f"{{q}}{STEP}{step}", f"priority {step}", "RIGHT") for step in LOWER),
        ),
        "pending": (Hash("unacked", "unacked"),),
        "delayed": (Hash("unacked", "held by a worker"),),
        "dead": (),  # results, see `_of_owner`
        "done": (),
    }
    known_keys: ClassVar[tuple[str, bytes] | None] = f"{{q}}{STEP}*", rb"[1-9]"
    actions: ClassVar[Mapping[Verb, tuple[State, ...]]] = {
        "replay": ("dead",),
        "purge": ("waiting", "dead"),
        "hard": ("waiting", "dead", "trash"),
        "restore": ("trash",),
    }
    editable_states: ClassVar[tuple[State, ...]] = ("waiting", "dead")
    schedule_programs: ClassVar[tuple[ScheduleProgram, ...]] = (RedBeat(),)
    releases: ClassVar[Releases] = Releases(("5.2", "5.7"))
    replay_note: ClassVar[str] = (
        "as new messages of the same ids: what a result doesn't keep is not sent (callbacks, the"
        " rest of a chain, priority, time limits)"
    )
    unseen_ms: ClassVar[float] = inf  # a worker acknowledges most tasks when it begins them
    refusals: ClassVar[Mapping[str, str]] = {
        "requeue": _HELD + "; what a killed worker had is back after the visibility timeout",
        "claim": "only Celery's workers can take a task",
        "reschedule": _HELD,
        "purge pending": _HELD,
        "purge delayed": _HELD + "; `redisq pending stop` revokes one",
        "replay done": "their results would be overwritten, and your application may still read"
        " them: send the task anew",
        "purge done": "they are results that your application may still read:"
        " `app.AsyncResult(ID).forget()` removes one",
    }
    worker_commands: ClassVar[Mapping[WorkerWord, str]] = {
        "stop": "it ends when its present tasks have ended",
        "stop-job": "the task is revoked: the worker that has it won't begin it, and if it runs"
        " ends its process (with the prefork pool; threads can't be ended)",
    }
    no_commands: ClassVar[Mapping[WorkerWord, str]] = {
        "quiet": "Celery can't quiet a worker as a whole: `redisq queue pause` asks all workers to"
        " take no more tasks from a queue"
    }
    unlisted: ClassVar[Mapping[State, str]] = dict.fromkeys(
        ("dead", "done"),
        "Celery's results may be in another database or server (`result_backend`), which redisq"
        " doesn't read. Those that name no queue (without `result_extended`, or where a routing key"
        " isn't its queue's name) are shown in one queue only: `celery:celery` if it is registered,"
        " or else the first by name",
    )
    without_deadline: ClassVar[str] = (
        "its worker has it until it acknowledges it; if that worker was killed, it is back after"
        " the visibility timeout, an hour unless it is set"
    )
    task_figures: ClassVar[str] = (
        "Celery's results have no run times, and names of tasks only with `result_extended`; they"
        " are kept for `result_expires`, a day unless it is set"
    )
    workers_unknown: ClassVar[str] = (
        "shown are the names by which workers can be controlled. A name stays when its worker is"
        " killed, so whether it lives is unknown, and which queues and tasks it has: `celery"
        " inspect active_queues` asks the workers"
    )
    layout_faults: ClassVar[tuple[str, ...]] = (
        "a task with a time (`eta`, `countdown`, a retry) is in a worker's memory until then",
        "tasks of a killed worker wait for the visibility timeout, an hour unless it is set",
        "a task whose time is further away than the visibility timeout is delivered, and runs,"
        " several times",
        "failed tasks are in no queue: with `result_extended` their results keep what sending them"
        " again needs, for a day unless it is set",
    )

    _sep: str | None = None
    _sent: tuple[str, SentTasks] = "", SentTasks()
    """the change that sends tasks again, and what it has seen"""

    # --- where entries are -----------------------------------------------------------------------

    @operation
    async def exists(self) -> bool:
        if not self.own_name:
            return False
        declared = [
            self.at + one.key.replace("{q}", self.own_name) for one in self.states["waiting"]
        ]
        keys = [*declared, f"{self.at}{BINDING.decode()}{self.own_name}"]
        if any(await together(Call(("EXISTS", key), bool, key=key) for key in keys)):
            return True
        pages = await together(self.page.op("pending", max=1), self.page.op("delayed", max=1))
        return any(page.entries for page in pages)

    def _shared(self, state: State) -> bool:
        return state in ("pending", "delayed", "dead", "done")

    async def _of_owner(self, state: State, wrong: list[str] | None, whole: bool) -> list[Place]:
        if state not in ("dead", "done"):
            return await super()._of_owner(state, wrong, whole)
        called = "failed" if state == "dead" else "succeeded"
        key, read = self.at + self.own_name, self._reader(state)
        return [
            ScannedResults(key, called, read, sizes=string_sizes(begin), begin=begin)
            for begin in _result_prefixes(self.at)
        ]

    async def places_of(self, state: State, names: Sequence[str]) -> list[Place]:
        found = await super().places_of(state, names)
        separator = await self._separator() if state == "waiting" else STEP
        return [replace(place, key=place.key.replace(STEP, separator)) for place in found]

    async def _separator(self) -> str:
        """What separates the parts of kombu's names here, found in a binding of the queue or of its
        workers."""
        if self._sep is None:
            keys = (f"{self.at}{BINDING.decode()}{self.own_name}", self.process_registry)
            asks: list[Call[Any]] = [
                Call(("SRANDMEMBER", key), optional, key=key, cut=True) for key in keys
            ]
            found = await together(map(attempt, asks))
            told = (separator_of(one) for one in found if isinstance(one, bytes))
            self._sep = next((text(one) for one in told if one), None)
        return self._sep or STEP

    async def _size(self, state: State, places: Sequence[Place]) -> int | None:
        """Results are not counted: no key lists them."""
        return None if state in ("dead", "done") else await super()._size(state, places)

    @operation
    async def worker_processes(self) -> list[Process]:
        """Workers that can be controlled, and those that were killed, by their names."""
        separator = bytes_of(await self._separator())
        bound = [member.split(separator)[-1] for member in await set_members(self.process_registry)]
        names = sorted(legal(one) for one in bound if one.endswith(CONTROL.encode()))
        hosts = [name.removesuffix(CONTROL) for name in names]
        return [
            Process(name, name.partition("@")[2], alive=None, work_known=False) for name in hosts
        ]

    async def order(self, word: WorkerWord, target: str) -> Order | None:
        """As `app.control.shutdown(destination=…)` and `app.control.terminate(ID)`: the workers
        themselves know whether they are meant. All of them hear it, so the one that is to end has
        to answer a ping first. A task that was acknowledged when it began is in no key: the workers
        are asked for it (`query_task`), and those that have it are told."""
        channel, own = channel_of(self.at, self.client), text(raw_of(target))
        if word == "stop":
            if target not in [process.name for process in await self.worker_processes.op()]:
                return None
            if own not in (await ask(self.at, self.client, "ping", {}, [own])).said:
                raise Refused(f"worker {target} doesn't answer: it is gone, or too busy")
            return Order((), channel, control("shutdown", {}, [own]))
        rows = [
            row
            for state in ("pending", "delayed")
            for row in (await self._located([target], state, False))[target]
        ]
        arguments = {"task_id": own, "terminate": True, "signal": "SIGTERM"}
        found = [await self._as_it_is(row) for row in rows]
        to = () if found else await self._having(own)
        return Order(found, channel, control("revoke", arguments, to))

    async def _having(self, id: str) -> list[str]:
        """The workers that say that they have the task. Raises `NotFound` if none does."""
        asked = await ask(self.at, self.client, "query_task", {"ids": [id]})
        names = [name for name, has in asked.said.items() if isinstance(has, dict) and id in has]
        if names:
            return names
        told = f"queue {self.name}: no key shows that job {legal(bytes_of(id))} runs"
        if not asked.heard:
            raise NotFound(f"{told}; no worker of Celery listens for control messages")
        answered = f"{len(asked.said)} of {asked.heard} that heard the question answered"
        if len(asked.said) < asked.heard:
            raise NotFound(f"{told}; whether it runs is unknown ({answered})")
        raise NotFound(f"{told}; no worker has it ({answered})")

    async def _as_it_is(self, row: LocatedEntry) -> Element:
        """A message that a worker has."""
        key = bytes_of(row.place.key)
        value = await Call(("HGET", key, row.member), optional, key=key)
        return Element("hash", key, row.member, value, value)

    @operation
    async def activity(self, since_ms: int, known_ms: int | None = None) -> Activity:
        """Whether a worker serves the queue, as far as the server tells: a worker waits for tasks
        in a blocking command, or has some that it hasn't acknowledged. Where no client of the
        server does either, none serves it; otherwise it is unknown whose worker that is."""
        key = self.at + "unacked"
        clients: Call[Any] = Call(
            ("INFO", "clients"), lambda reply: reply.get("blocked_clients"), key=key
        )
        delivered: Call[Any] = Call(("HLEN", key), int, key=key)
        held, blocked = await together(attempt(delivered), attempt(clients))
        return Activity(askers=0, unasked=True) if held == blocked == 0 else Activity()

    async def _found_by_id(self, place: Place, wanted: Any) -> bool:
        """Only results are found by their ids."""
        return isinstance(place, ScannedResults) and await super()._found_by_id(place, wanted)

    @operation
    async def links(self, entries: Sequence[Entry]) -> list[Links]:
        return await together(links(self.at, entry) for entry in entries)

    @operation
    async def queue_position(self, id: str = "") -> QueuePosition:
        """As for every queue; nobody takes entries if `activity` knows that no worker serves it."""
        known, seen = await together(super().queue_position.op(id), self.activity.op(0))
        return replace(known, askers=0) if seen.unasked else known

    def replay_tracker(self) -> ReplayTracker:
        return TaskTracker(self)

    # --- records ---------------------------------------------------------------------------------

    async def read(self, state: State, place: Place, rows: Sequence[Row]) -> Sequence[Entry | None]:
        if not rows:
            return []
        if state in ("dead", "done"):
            return await self._results(state, place, rows)
        if state == "waiting":
            return [_entry(state, Task.read(row.member), row.member, place) for row in rows]
        return await self._delivered(state, place, rows)

    async def _delivered(
        self, state: State, place: Place, rows: Sequence[Row]
    ) -> Sequence[Entry | None]:
        """This queue's messages, of those that workers have. Messages whose time is still to come
        are delayed, the others pending."""
        found = [Delivered.read(row.value) for row in rows]
        exchanges = sorted({each.exchange for each in found if each.exchange})
        key = self.at + "unacked_index"
        tags = [row.member for row in rows]
        separator = bytes_of(await self._separator())
        bound, (times, now) = await together(
            together(set_members(f"{self.at}{BINDING.decode()}{name}") for name in exchanges),
            together(Call(("ZMSCORE", key, *tags), list[Any], key=key), self._now()),
        )
        members = (bindings_of(each, separator) for each in bound)
        bindings = dict(zip(exchanges, members, strict=True))
        entries: list[Entry | None] = []
        for row, each, since in zip(rows, found, times, strict=True):
            later = each.task.eta_ms is not None and each.task.eta_ms > now
            mine = self.own_name in _queues(each, bindings)
            since_ms = None if since is None else moment(float(since) * 1000)
            entries.append(
                _entry(state, each.task, row.member, place, since_ms)
                if mine and later is (state == "delayed")
                else None
            )
        return entries

    async def _results(
        self, state: State, place: Place, rows: Sequence[Row]
    ) -> Sequence[Entry | None]:
        begin = place.begin if isinstance(place, ScannedResults) else RESULT
        keys = [bytes_of(begin) + row.member for row in rows]
        read = partial(strings, one_slot=not self.on_cluster)
        results = [
            Result({}, not_read(found)) if isinstance(found, int) else Result.read(found)
            for found in await place.records(rows, keys, read)
        ]
        entries = [self._result(state, place, *each) for each in zip(rows, results, strict=True)]
        found = [*zip(entries, results, strict=True)]
        names = {result.queue for one, result in found if one} - {self.own_name}
        here = {self.own_name, *(await self._shown_here(begin, names) if names else ())}
        return [one if result.queue in here else None for one, result in found]

    async def _shown_here(self, begin: str, names: set[str | None]) -> set[str | None]:
        """Of these names in results, none of which is this queue's, those whose results are shown
        in this one. A result that names no queue is shown once: of the registered queues that read
        keys with this prefix, in `USUAL`, or else in the first."""
        known = await attempt(all_queues(self.prefix))
        others = [] if isinstance(known, Exception) else known
        registered = {
            one.name: one
            for one in others
            if one.kind == self.kind and begin in _result_prefixes(one.at or "")
        }
        reading = {name: one.at or "" for name, one in registered.items()} | {self.name: self.at}
        usual = f"{self.kind}:{USUAL}"
        if self.name != min(
            reading, key=lambda name: (reading[name] + RESULT != begin, name != usual, name)
        ):
            return set()
        if self.name not in registered:
            return names & {None}
        strange = [*filter(None, names - {*map(_own_name, registered.values())})]
        keys = [bytes_of(self.at) + BINDING + bytes_of(name) for name in strange]
        queues = await together(Call(("EXISTS", key), bool, key=key) for key in keys)
        named = {name for name, there in zip(strange, queues, strict=True) if there}
        return names & {None, *strange} - named

    def trash_payload(self, kept: bytes) -> bytes:
        task = Task.read(kept)
        return kept if task.problem else task.shown()

    def _result(self, state: State, place: Place, row: Row, result: Result) -> Entry | None:
        called = place.called
        if result.queue != self.own_name:
            sent = f"sent to {legal(bytes_of(result.queue))}" if result.queue else "of any queue"
            called = f"{called}, {sent}"
        if result.problem:
            return Entry(legal(row.member), state, called=called, problem=result.problem)
        dead = state == "dead"
        if result.fields.get("status") != ("FAILURE" if dead else "SUCCESS"):
            return None
        id, ended_ms = legal(row.member), result.ended_ms
        if place.brief:
            return Entry(id, state, ended_ms, ended_ms, called=called, record=result)
        return Entry(
            id,
            state,
            ended_ms,
            ended_ms,
            result.shown() if place.payloads else None,
            failures=(result.retries or 0) + dead,
            uncounted=result.retries is None and not dead,
            reason="failed" if dead else None,
            error=result.error() if dead else None,
            called=called,
            task=text_member(result.fields, ("name",)),
            record=result,
        )

    @operation
    async def attachments(self, entry: Entry) -> list[Attachment]:
        """What the task returned, and the tasks that it sent."""
        result = entry.record
        if entry.state != "done" or not isinstance(result, Result):
            return []
        names = {"result": "result", "children": "sent tasks"}
        found = ((names[name], result.fields.get(name)) for name in names)
        return [*chain(*(value_shown(*each) for each in found if each[1] not in (None, [])))]

    # --- what operators change -------------------------------------------------------------------

    def rewrite(self, seen: LocatedEntry, values: Mapping[str, bytes]) -> Rewrite:
        """Of a result: what a replay sends, and what the application reads of the failed task."""
        result = seen.entry.record
        if not isinstance(result, Result):
            return Rewrite(Task.read(seen.member).with_arguments(seen.member, values))
        if result.pickled:
            raise Unfit("a pickle")
        if result.call is None:
            raise Unfit("its arguments were not kept")
        if is_packed(result.data):
            raise Unfit("compressed")
        key, after = bytes_of(self.keys["t_result_"]) + seen.member, replaced(result.data, values)
        return Rewrite(parts=[Element("string", key, b"", result.data, after)])

    async def _rows(self, step: MoveStep) -> list[tuple[str | bytes, ...]]:
        if (step.source, step.target) == ("dead", "waiting"):
            op, sent = self._sent
            if op != step.op or not step.step:
                sent = SentTasks()
                self._sent = step.op, sent
            lists, held = await together(self._places("waiting"), self._places("pending"))
            glance = not step.step
            await sent.look(lists, held[0], self.at + "unacked_index", glance=glance)
            sent.complete = sent.complete or glance
        return await super()._rows(step)

    def refused(self, seen: LocatedEntry, target: str) -> str:
        result, place = seen.entry.record, seen.place
        if seen.entry.state != "dead":
            return ""
        if not isinstance(result, Result):
            return "corrupt"
        if not isinstance(place, ScannedResults) or place.begin != self.at + RESULT:
            return "elsewhere"
        if not result.of(seen.member, self.own_name):
            return "unrouted" if result.queue not in (None, self.own_name) else "unkept"
        if target != "waiting":
            return ""
        if result.grouped:
            return "grouped"
        if result.pickled:
            return "pickled"
        if result.call is None:
            return "unkept"
        _, sent = self._sent
        if text(seen.member) in sent.ids:
            return "again"
        return "" if sent.complete else "crowded"

    def stamp(self, entry: Entry) -> bytes:
        """Of a result, the digest of its bytes."""
        result = entry.record
        return sha1(result.data).hexdigest().encode() if isinstance(result, Result) else b""

    def shown(self, entry: Entry) -> bytes | None:
        return entry.record.shown() if isinstance(entry.record, Result) else None

    def destination(
        self, seen: LocatedEntry, target: str, at_ms: int
    ) -> tuple[bytes | None, str] | None:
        """For a result, the message that sends the task again."""
        result = seen.entry.record
        call = result.call if isinstance(result, Result) else None
        if call is None:
            return None
        made = message(*call, id := text(seen.member), self.own_name, at_ms)
        self._sent[1].made[made] = id
        return made, ""


def _result_prefixes(at: str) -> list[str]:
    """What the keys of results may begin with if the keys of queues begin with ``at``: the prefix
    of results is a setting of its own, to which Celery may append a `_`."""
    return [
        f"{one}{RESULT}" for one in dict.fromkeys((at, at if at[-1:] in ":_-." else at + "_", ""))
    ]


def _entry(
    state: State, task: Task, member: bytes, place: Place, since_ms: int | None = None
) -> Entry:
    id, called = task.id, place.called
    if id is None:
        digest, problem = sha1(member).hexdigest()[:16], task.problem or "it has no id"
        return Entry(digest, state, since_ms=since_ms, called=called, problem=problem)
    at = task.eta_ms if state == "delayed" else None
    return Entry(
        legal(bytes_of(id)),
        state,
        at,
        since_ms,
        task.shown() if place.payloads and not place.brief else None,
        called=called,
        failures=task.retries,
        task=text_member(task.headers, ("task",)),
    )


class TaskTracker(ForeignReplayTracker):
    """Follows tasks that were sent again."""

    def _fails(self, entry: Entry) -> bool:
        return entry.failures > 0  # the new message counts from zero


def _own_name(registered: Registered) -> str:
    called = registered.called
    return text(raw_of(registered.name.partition(":")[2])) if called is None else called


def _queues(sent: Delivered, bindings: Mapping[str, Sequence[Binding]]) -> set[str]:
    """Where a message was sent to: by its routing key, or else all queues of its exchange."""
    bound = bindings.get(sent.exchange, ())
    exact = {one.queue for one in bound if one.takes(sent.routing_key)}
    return exact or {one.queue for one in bound} or {sent.routing_key}

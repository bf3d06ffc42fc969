"""The layout of Dramatiq's Redis broker: lists and sets of ids, messages in hashes beside them.

A worker fetches what waits and, long before their time, all delayed messages of the list: what it
has fetched is in its set of unacknowledged ids, and in its memory.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from hashlib import md5, sha1
from typing import Any, ClassVar

from ...engine.optional_features import HasDoneEntries, HasWorkerTraces
from ...engine.registry import server_ms
from ...engine.state_scan import positions
from ...model.attachment import Attachment
from ...model.entry import Entry, State
from ...model.errors import Unfit
from ...model.quoting import bytes_of, legal, text
from ...model.states import Verb
from ...model.worker_command import WorkerWord
from ...model.worker_process import Process
from ...redis.operation import C_co, Call, Description, operation, together
from ...redis.parsers import moment, optional
from ..attachments import attached
from ..changes import JOB_VERBS
from ..declarations import Declared, List, Set, Zset
from ..edits import HasEdits, Rewrite
from ..elements import Element
from ..json_members import replaced
from ..json_text import decoded, text_member
from ..long_records import not_read, whole_sizes
from ..places import LocatedEntry, Place, Row, orphan
from ..record_sizes import field_sizes
from ..releases import Releases
from ..scanned_results import ScannedResults
from .message import Message

HELD = "held by a worker"
SILENT_MS = 60_000
"""Dramatiq's own `heartbeat_timeout`, unless it is set"""
RESULTS = "dramatiq-results"
"""what names of results begin with, unless it is set, also before they are hashed"""
RAISED = "dramatiq.results.Result"
"""the member ``__t`` of a result that is an exception (``results/result.py``)"""
BROKERS = 1000
"""brokers whose messages are shown: those with the latest heartbeats"""


class DramatiqQueue(HasEdits[C_co], HasDoneEntries[C_co], HasWorkerTraces[C_co]):
    """``dramatiq:<queue>``. An id is the ``redis_message_id``, which is new at every retry."""

    kind: ClassVar[str] = "dramatiq"
    owner: ClassVar[str] = "Dramatiq"
    home: ClassVar[str] = "dramatiq:"
    package: ClassVar[str] = "foreign.dramatiq"
    by_id: ClassVar[bool] = True
    by_stamp: ClassVar[Collection[str]] = ("trash", "gone")
    theirs: ClassVar[dict[str, str]] = {"__heartbeats__": "zset"}
    workers_at: ClassVar[str] = "__heartbeats__"
    task_in: ClassVar[tuple[str, ...]] = ("actor_name",)
    called: ClassVar[Mapping[str, str]] = {"t_heartbeats": "__heartbeats__"}
    states: ClassVar[Mapping[State, Sequence[Declared]]] = {
        "waiting": (List("{q}", "queued"),),
        "pending": (Set("__acks__.{worker}.{q}", "fetched"),),
        "delayed": (List("{q}.DQ", "delayed"), Set("__acks__.{worker}.{q}.DQ", HELD)),
        "dead": (Zset("{q}.XQ", "dead letter", died=True, unit_ms=1),),
        "done": (),  # see `ScannedResults`
    }
    actions: ClassVar[Mapping[Verb, tuple[State, ...]]] = {
        **JOB_VERBS,
        "requeue": ("pending", "delayed"),
    }
    orphan_states: ClassVar[tuple[State, ...]] = ("pending",)
    no_commands: ClassVar[Mapping[WorkerWord, str]] = {
        **dict.fromkeys(
            ("quiet", "stop"), "Dramatiq's workers heed only signals: send the main process TERM"
        ),
        "stop-job": "Dramatiq can't end a message that runs, unless the application has the"
        " middleware of dramatiq-abort: `dramatiq_abort.abort(MESSAGE_ID)`",
    }
    no_pause: ClassVar[str] = "Dramatiq has no pause: stop its workers"
    no_schedules: ClassVar[str] = "Dramatiq has no schedules; delayed messages run once"
    releases: ClassVar[Releases] = Releases(("1.12", "2.2"))
    task_figures: ClassVar[str] = "results of Dramatiq have no times: only failures are counted"
    replay_note: ClassVar[str] = (
        "they get all their retries again; those older than their `max_age` die again without a run"
    )
    verbs: ClassVar[Mapping[str, str]] = {
        "requeue": "they wait for the next worker now, behind what waits there",
    }
    refusals: ClassVar[Mapping[str, str]] = {
        "claim": "only Dramatiq's workers can take a message",
        "replay done": "a result doesn't keep its message: send it again",
        "purge pending": "a worker has them in its memory; requeue them once it is gone",
        "purge done": "they are results, which Dramatiq forgets when their time (`result_ttl`) is"
        " over",
    }
    unwatched: ClassVar[str] = (
        "a message of Dramatiq has another id at each attempt, so the end of a replayed one is"
        " unknown"
    )
    unlisted: ClassVar[Mapping[State, str]] = {
        "done": "Dramatiq's results have names made by a hash, unless `use_namespace_prefix_keys`"
        " is set, and may be on another server"
    }
    without_deadline: ClassVar[str] = (
        "its worker has it until it acknowledges it; when that worker was silent for a minute,"
        " unless it is set, others put it back"
    )
    workers_unknown: ClassVar[str] = (
        "programs that only send messages write heartbeats like workers, and are shown as well."
        " Which queues a worker serves is known while it has fetched something"
    )
    layout_faults: ClassVar[tuple[str, ...]] = (
        "dead letters are deleted after seven days (`dead_message_ttl`)",
        "a dead letter keeps the traceback of the attempt before its last one, and none if it had"
        " only one",
        "a worker takes all delayed messages of a list at once, long before their time",
    )

    # --- where entries are -----------------------------------------------------------------------

    async def workers_of(self) -> Sequence[str]:
        """Brokers, by their ids: those of workers, and of programs that only send."""
        key = self.at + "__heartbeats__"
        latest = Call(("ZRANGE", key, 0, BROKERS - 1, "REV"), list[bytes], key=key, cut=True)
        return sorted(text(broker) for broker in await latest)

    @operation
    async def worker_processes(self) -> list[Process]:
        """Brokers, by their ids, and whether they have fetched messages of this queue."""
        key = self.process_registry
        latest, now = await together(positions(key, 0, BROKERS - 1, "REV"), server_ms())
        brokers = sorted((broker, moment(beat)) for beat, broker in latest)
        sets = [f"{self.at}__acks__.{text(broker)}.{self.own_name}" for broker, _ in brokers]
        fetched = await together(Call(("EXISTS", key), bool, key=key) for key in sets)
        return [
            _process(broker, None if beat is None else max(0, now - beat), served)
            for (broker, beat), served in zip(
                brokers, ((self.own_name,) if there else () for there in fetched), strict=True
            )
        ]

    async def _of_owner(self, state: State, wrong: list[str] | None, whole: bool) -> list[Place]:
        if state != "done":
            return await super()._of_owner(state, wrong, whole)
        begin, read = f"{RESULTS}:{self.own_name}:", self._reader(state)
        return [ScannedResults(begin, "result", read, sizes=_result_sizes, begin=begin)]

    def _shared(self, state: State) -> bool:
        return state == "done"

    async def _size(self, state: State, places: Sequence[Place]) -> int | None:
        """Results are not counted: no key lists them."""
        return None if self._shared(state) else await super()._size(state, places)

    # --- records ---------------------------------------------------------------------------------

    async def read(self, state: State, place: Place, rows: Sequence[Row]) -> Sequence[Entry | None]:
        ids = [row.member for row in rows]
        if state == "done":
            begin = bytes_of(place.key)
            keys = [begin + id for id in ids]
            results = await place.records(rows, keys, _results)
            return [self._result(place, row, one) for row, one in zip(rows, results, strict=True)]
        found = await place.records(rows, ids, partial(self._messages, place))
        return [self._entry(state, place, row, data) for row, data in zip(rows, found, strict=True)]

    async def sizes(self, place: Place, rows: Sequence[Row]) -> Sequence[int]:
        """The length of each message."""
        return await field_sizes(self._messages_key(place))(place, rows)

    def _messages_key(self, place: Place) -> str:
        key = place.key
        if place.kind == "set":
            key = self.at + self.own_name + (".DQ" if place.called == HELD else "")
        return key + ".msgs"

    async def _messages(self, place: Place, ids: Sequence[bytes]) -> list[bytes | None]:
        key = self._messages_key(place)
        return await Call(("HMGET", key, *ids), list[Any], key=key)

    def _entry(self, state: State, place: Place, row: Row, data: bytes | int | None) -> Entry:
        """``data``: the message, or its size if it was not read."""
        id, called, died = legal(row.member), place.called, state == "dead"
        at = moment(row.score) if died else None
        broker = self._broker(place) if place.kind == "set" else None
        if data is None:
            return replace(orphan(place, state, id, at, "message"), consumer=broker)
        if isinstance(data, int):
            why = not_read(data)
            return Entry(id, state, at, called=called, consumer=broker, problem=why)
        message = Message.read(data)
        if place.brief:
            since = at if died else None if broker else message.sent_ms
            return Entry(id, state, at, since, None, called=called, record=message)
        return Entry(
            id,
            state,
            message.number("eta") if state == "delayed" else at,
            at if died else None if broker else message.sent_ms,
            message.shown() if place.payloads else None,
            called=called,
            failures=(message.number("retries") or 0) + died,
            consumer=broker,
            reason="failed" if died else None,
            error=message.error(),
            task=text_member(message.fields, self.task_in),
            record=message,
        )

    def _result(self, place: Place, row: Row, data: bytes | int | None) -> Entry | None:
        """None: the actor raised, or the result has gone. An id is ``actor:message``."""
        actor, id = text(row.member.rpartition(b":")[0]), legal(row.member)
        if isinstance(data, int):
            why = not_read(data)
            return Entry(id, "done", called=place.called, task=actor, problem=why, uncounted=True)
        if data is None or text_member(decoded(data), ("__t",)) == RAISED:
            return None
        return Entry(id, "done", called=place.called, task=actor, record=data, uncounted=True)

    @operation
    async def attachments(self, entry: Entry) -> list[Attachment]:
        """The result of a message: what its actor returned, or the exception of its latest
        attempt. With the results' usual prefix, on this server."""
        if not isinstance(entry.record, Message):
            return attached("result", entry.record)
        told = entry.record.fields or {}
        key = bytes_of(
            f"{RESULTS}:{self.own_name}:{told.get('actor_name')}:{told.get('message_id')}"
        )
        keys = [md5(key).hexdigest().encode(), key]
        found = await _results(keys)
        return [one for data in found for one in attached("result", data)]

    def _broker(self, place: Place) -> str:
        name = self.own_name + (".DQ" if place.called == HELD else "")
        return place.key.removeprefix(self.at + "__acks__.").removesuffix("." + name)

    # --- what operators change -------------------------------------------------------------------

    def rewrite(self, seen: LocatedEntry, values: Mapping[str, bytes]) -> Rewrite:
        message, key = seen.entry.record, bytes_of(self._messages_key(seen.place))
        if not isinstance(message, Message) or message.fields is None:
            raise Unfit("not JSON")
        after = replaced(message.data, values)
        return Rewrite(parts=[Element("hash", key, seen.member, message.data, after)])

    def refused(self, seen: LocatedEntry, target: str) -> str:
        return "busy" if seen.place.called == HELD else ""

    def stamp(self, entry: Entry) -> bytes:
        """The digest of its message."""
        data = entry.record.data if isinstance(entry.record, Message) else b""
        return sha1(data).hexdigest().encode()

    def trash_payload(self, kept: bytes) -> bytes:
        return Message.read(kept).shown()

    def destination(
        self, seen: LocatedEntry, target: str, at_ms: int
    ) -> tuple[bytes | None, str] | None:
        message = seen.entry.record
        if seen.place.kind == "set":
            return None, ""
        if not isinstance(message, Message):
            return None
        if target == "delayed":
            again = message.put_off(at_ms)
        else:
            again = message.for_replay() if seen.entry.state == "dead" else message.for_now()
        return None if again is None else (again, "")


def _results(keys: Sequence[bytes]) -> Description[list[bytes | None]]:
    """The results under these keys: each is the only element of a list."""
    return together(Call(("LINDEX", key, 0), optional, key=key, cut=True) for key in keys)


async def _result_sizes(place: Place, rows: Sequence[Row], /) -> Sequence[int]:
    """Bytes of the keys of results; 0: there is none, or the user may not ask."""
    return await whole_sizes([bytes_of(place.key) + row.member for row in rows], unknown=0)


def _process(broker: bytes, silent_ms: int | None, queues: tuple[str, ...]) -> Process:
    alive = None if silent_ms is None else silent_ms < SILENT_MS
    return Process(legal(broker), queues=queues, silent_ms=silent_ms, alive=alive, work_known=False)

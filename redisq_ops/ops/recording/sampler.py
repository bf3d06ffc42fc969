"""Samples all queues, as often as once a second, at a bounded cost.

A sample compares the counters of each queue, one command per shard. A queue is read in full if its
counters changed, and at least every two minutes. One sample reads at most `MOST` queues in full,
first those that were read the longest time ago. So with up to `MOST` busy queues each sample has
all of them. With more, the next samples read the rest before counters are compared again; each
queue's row says when it was read. A sample reads the consumers of `MOST_CONSUMERS` queues at most,
and the tasks of `MOST_TASKS`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final

from redisq_ops.core.engine.optional_features import HasTaskMetrics
from redisq_ops.core.engine.queue import Queue
from redisq_ops.core.engine.registry import Registered, all_queues, server_ms
from redisq_ops.core.model.entry import Failure
from redisq_ops.core.model.errors import Refused
from redisq_ops.core.model.keys import registry_key
from redisq_ops.core.model.row_fields import row_of
from redisq_ops.core.model.task_figures import TaskFigures, TaskReport
from redisq_ops.core.redis.operation import Call, apart, attempt, together

from ..change import audit_log
from ..deployment import Deployment
from ..inspect.consumers import consumer_reports
from ..inspect.kept_tasks import QUEUES, KeptTasks
from ..inspect.overview import queue_rows
from ..inspect.queue_fields import QueueFields
from ..queue_names import check_named, is_named
from .file import RecordedState
from .recorded_queue import RecordedQueue

MOST: Final = 15
"""queues that one sample reads in full"""
MOST_CONSUMERS: Final = 4
"""queues whose consumers one sample reads: each costs as much as its row"""
FULL_MS: Final = 120_000
"""every queue is read in full at least so often"""
REGISTRY_MS: Final = 10_000
"""time between two reads of the registry, unless the number of queues changes"""
CONSUMERS_MS: Final = 10_000
"""time between two reads of a queue's consumers"""
LOG_MS: Final = 10_000
"""time between two reads of the audit logs"""
TASKS_MS: Final = 60_000
"""time between two reads of a queue's tasks"""
MOST_TASKS: Final = 2
"""queues whose tasks one sample reads: each costs up to 1,500 entries"""
TASKS: Final = 20
"""tasks of a queue that are kept"""
OPERATIONS: Final = 50
"""latest changes that are kept"""


class Sampler:
    """Takes samples of a deployment; ``state`` is the latest one. ``names``: as of `is_named`."""

    def __init__(self, deployment: Deployment, names: Sequence[str] = ()) -> None:
        self.deployment = deployment
        self._names = names
        self._number = 0
        """entries of the registry"""
        self.state = RecordedState()
        self._entries: dict[str, Registered] = {}
        self._queues: dict[str, Queue[Any]] = {}
        self._pulse: list[tuple[str, str, Call[Any]]] = []
        self._uncounted: set[str] = set()
        self._counters: dict[str, object] = {}
        self._backlog: set[str] = set()
        """queues with changes that no sample has read yet"""
        self._full: dict[str, int] = {}
        self._consumers: dict[str, int] = {}
        self._consumers_left: set[str] = set()
        """queues whose consumers no sample has read yet"""
        self._latest: dict[str, object] = {}
        self._tasks = KeptTasks(TASKS_MS)
        self._registry_ms = self._log_ms = 0

    async def sample(self) -> dict[str, Any]:
        """Read what changed; returns the sample for the recording."""
        now, number = await together(server_ms(), _queue_count(self.deployment.prefix))
        # The clock of another server, after a failover, may be behind.
        line: dict[str, Any] = {"at_ms": max(now, self.state.at_ms), "queues": {}}
        if number != self._number or now - self._registry_ms >= REGISTRY_MS:
            line["queues"] |= dict.fromkeys(await self._read_registry())
            self._registry_ms = now
        due = await self._due(now)
        entries = [self._entries[name] for name in due]
        rows = await queue_rows(self.deployment, entries, now, 2, opened=self._queues)
        for name, row in zip(due, rows, strict=True):
            self._full[name] = now
            fields = row_of(RecordedQueue(QueueFields.of(row, now), now))
            del fields["oldest_age_ms"]  # `oldest_ms` has it
            before = self.state.queues.get(name, {})
            line["queues"][name] = {
                field: value for field, value in fields.items() if before.get(field, ...) != value
            }
        if consumers := await self._read_consumers(due, line["queues"], now):
            line["consumers"] = consumers
        if tasks := await self._read_tasks(now):
            line["tasks"] = tasks
        if now - self._log_ms >= LOG_MS:
            self._log_ms = now
            line["operations"] = await self._read_log()
        self.state.apply(line)
        return line

    def lost(self, at_ms: int, why: str) -> dict[str, Any]:
        """The line for a moment at which the server can't be read."""
        line = {"at_ms": max(at_ms, self.state.at_ms), "lost": why}
        self.state.apply(line)
        # A server that was started again may have other data.
        self._counters, self._latest, self._full, self._backlog = {}, {}, {}, set()
        self._registry_ms = self._log_ms = 0
        return line

    async def _read_registry(self) -> list[str]:
        """Open new queues; returns the names of queues that are gone."""
        entries = await all_queues(self.deployment.prefix)
        self._number = len(entries)
        if not self._full:  # the caller's mistake; later a queue may go, and come back
            check_named(self._names, (entry.name for entry in entries))
        found = {entry.name: entry for entry in entries if is_named(entry.name, self._names)}
        queues = {}
        for name, entry in found.items():
            if self._entries.get(name) == entry and name in self._queues:
                queues[name] = self._queues[name]
                continue
            with suppress(Refused):  # its row says why
                queues[name] = self.deployment.open(entry)
        gone = [name for name in self.state.queues if name not in found]
        self._entries, self._queues = found, queues
        counted = [(name, queue) for name, queue in queues.items() if not queue.owner]
        self._pulse = [
            (name, keys["stat"], _counters(keys["stat"]))
            for name, queue in counted
            for keys in queue.shard_keys
        ]
        self._uncounted = found.keys() - dict(counted).keys()
        for name in gone:
            for known in (self._latest, self._full, self._consumers):
                known.pop(name, None)
        return gone

    async def _due(self, now: int) -> list[str]:
        """The queues to read in full now, first those that were read the longest time ago."""
        if len(self._backlog) < MOST:
            for name, key, reply in await self._read_counters():
                if self._counters.get(key, ...) != reply:
                    self._counters[key] = reply
                    self._backlog.add(name)
            self._backlog |= self._uncounted
            self._backlog |= {
                name for name in self._entries if now - self._full.get(name, 0) >= FULL_MS
            }
        self._backlog &= self._entries.keys()
        most = MOST if self._full else len(self._backlog)  # the first sample has all queues
        chosen = sorted(self._backlog, key=lambda name: self._full.get(name, 0))[:most]
        self._backlog.difference_update(chosen)
        return chosen

    async def _read_counters(self) -> list[tuple[str, str, Any]]:
        """Name, key and counters of each queue. A queue whose counters can't be read is treated as
        one without counters, until the registry is read again."""
        try:
            replies = await together(call for _, _, call in self._pulse)
        except Refused:
            replies = await together(attempt(call) for _, _, call in self._pulse)
            asked = zip(self._pulse, replies, strict=True)
            self._uncounted |= {name for (name, _, _), got in asked if isinstance(got, Exception)}
        found = [
            (name, key, got)
            for (name, key, _), got in zip(self._pulse, replies, strict=True)
            if name not in self._uncounted
        ]
        self._pulse = [one for one in self._pulse if one[0] not in self._uncounted]
        return found

    async def _read_consumers(
        self, due: Iterable[str], rows: Mapping[str, Any], now: int
    ) -> dict[str, Any]:
        """The consumers of queues that were read now, or whose turn it is now, and have, or had,
        pending entries."""

        def has_consumers(name: str) -> bool:
            row = self.state.queues.get(name, {}) | (rows.get(name) or {})
            return bool(row.get("pending")) or name in self.state.consumers

        wanted = [
            name
            for name in sorted({*due, *self._consumers_left} & self._queues.keys())
            if now - self._consumers.get(name, 0) >= CONSUMERS_MS and has_consumers(name)
        ]
        wanted.sort(key=lambda name: self._consumers.get(name, 0))
        if self._consumers:  # the first sample has all queues
            self._consumers_left = set(wanted[MOST_CONSUMERS:])
            del wanted[MOST_CONSUMERS:]
        found = await together(apart(consumer_reports(self._queues[name])) for name in wanted)
        reports = dict[str, Any]()
        for name, report in zip(wanted, found, strict=True):
            self._consumers[name] = now
            if not isinstance(report, Exception):
                # Numbers, not each entry that is held and its error.
                reports[name] = [replace(each, held=(), errors={}) for each in report]
        return reports

    async def _read_tasks(self, now: int) -> dict[str, TaskReport]:
        """The tasks of the first queues that are due: those whose owner counts its tasks, then by
        name."""

        def rank(name: str) -> tuple[bool, str]:
            return not isinstance(self._queues[name], HasTaskMetrics), name

        named = sorted(self._queues, key=rank)[:QUEUES]
        due = [name for name in named if self._tasks.due(name, now)][:MOST_TASKS]
        found = await together(apart(self._tasks.read(self._queues[name], now)) for name in due)
        return {
            name: replace(report, tasks=tuple(map(_without_message, report.tasks[:TASKS])))
            for name, report in zip(due, found, strict=True)
            if not isinstance(report, Exception) and report.tasks
        }

    async def _read_log(self) -> dict[str, Any]:
        """Changes of operators that are new, or were not ended at the last look."""
        queues = list(self._queues.values())
        reads = (attempt(_latest_operation(queue.keys["ops"])) for queue in queues)
        latest = await together(reads)
        running = {each.queue for each in self.state.operations.values() if not each.ended}
        wanted = list[Queue[Any]]()
        for queue, id in zip(queues, latest, strict=True):
            if queue.name in running or self._latest.get(queue.name) != id:
                wanted.append(queue)
            self._latest[queue.name] = id
        found = await together(apart(audit_log.last(queue, OPERATIONS)) for queue in wanted)
        logged = {
            operation.id: operation
            for operations in found
            if not isinstance(operations, Exception)
            for operation in operations
        }
        known = self.state.operations
        return {id: each for id, each in logged.items() if known.get(id) != each}


def _without_message(task: TaskFigures) -> TaskFigures:
    return replace(task, error=task.error and Failure(task.error.type))


def _queue_count(prefix: str) -> Call[int]:
    key = registry_key(prefix)
    return Call(("HLEN", key), int, key=key)


def _counters(key: str) -> Call[Any]:
    """The counters' values without names: they are compared as a whole."""
    return Call(("HVALS", key), lambda reply: reply, key=key)


def _latest_operation(key: str) -> Call[Any]:
    return Call(("ZRANGE", key, "0", "0", "REV"), lambda reply: reply, key=key)

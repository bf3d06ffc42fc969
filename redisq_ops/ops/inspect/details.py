"""All that is known of one queue, request or entry, at one moment."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from redisq_ops.core.engine.optional_features import (
    HasClients,
    HasConsumerGroups,
    HasPriorityLevels,
    HasRequests,
)
from redisq_ops.core.engine.queue import Queue
from redisq_ops.core.model.entry import (
    Checkup,
    Clients,
    Consumer,
    Counts,
    Entry,
    Event,
    Level,
    Rates,
    Request,
)
from redisq_ops.core.model.errors import NotFound
from redisq_ops.core.queues.request.records import found
from redisq_ops.core.queues.request.stream import PendingSubRequest
from redisq_ops.core.redis.operation import both, together

from ..change import audit_log
from ..change.audit_log import Operation
from ..change.control import QueueSetting, requests_of, retention
from ..hint import hint

WINDOW = 1000
"""history events looked through for those about one request or entry"""
SHOWN = 100


@dataclass(frozen=True, slots=True)
class Story:
    """History events about something, newest first, among the ``looked`` latest of ``total``."""

    events: tuple[Event, ...]
    looked: int
    total: int


@dataclass(frozen=True, slots=True)
class QueueDetails:
    """A queue: counts, rates of the last hour, settings, and its requests where it has some."""

    queue: Queue[Any]
    now_ms: int
    counts: Counts
    rates: Rates
    settings: tuple[QueueSetting, ...]
    history: int
    requests: tuple[int, ...]
    """open, and settled and still kept; empty where there are no requests"""
    levels: tuple[Level, ...]
    consumers: tuple[Consumer, ...]
    """of the queue's groups, where it is one for itself"""
    checkup: Checkup
    """what is wrong with it now, as far as a quick look tells"""
    clients: Clients
    """whose work is here, the first 100 by name; none where nobody asks whose it is"""
    options: dict[str, str]
    """what it was made as, where queues of its kind differ"""


@dataclass(frozen=True, slots=True)
class PendingEntry:
    """An entry a consumer has, and how long ago the stream itself saw that."""

    entry: Entry
    idle_ms: int | None


@dataclass(frozen=True, slots=True)
class RequestView:
    """A request, its stream and group, and who has what of it."""

    queue: Queue[Any]
    now_ms: int
    request: Request
    stream: str
    length: int
    consumers: tuple[Consumer, ...]
    pending: tuple[PendingEntry, ...]
    """the first 100 by number"""
    differences: tuple[tuple[str, int, str], ...]
    """where the stream's own pending list isn't ours: (consumer, how many, why)"""
    story: Story


@dataclass(frozen=True, slots=True)
class EntryDetails:
    """An entry wherever it is."""

    queue: Queue[Any]
    now_ms: int
    entry: Entry
    idle_ms: int | None
    story: Story
    operation: Operation | None = None
    """the operator's change that touched it last, while the journal has it"""


async def queue_view(queue: Queue[Any]) -> QueueDetails:
    """All of it in a few round trips."""
    now = await queue.now.op()
    (counts, rates), (settings, history) = await both(
        both(queue.full_counts.op(now), queue.rates.op(now, 60)),
        both(retention(queue), queue.history_length.op()),
    )
    requests: list[int] = []
    levels: list[Level] = []
    if isinstance(queue, HasRequests):
        totals = requests_of(queue).requests_total
        requests = await together([totals.op(False), totals.op(True)])
    if isinstance(queue, HasPriorityLevels):
        levels = await queue.levels.op()
    consumers = await queue.consumers.op("") if isinstance(queue, HasConsumerGroups) else []
    checkup = await queue.checkup.op()
    clients = await queue.clients.op(0, SHOWN) if isinstance(queue, HasClients) else Clients()
    options = await queue.creation_options.op()
    return QueueDetails(
        queue, now, counts, rates, tuple(settings), history, tuple(requests), tuple(levels),
        tuple(consumers), checkup, clients, options,
    )  # fmt: skip


async def request_view(queue: Queue[Any], id: str, window: int = WINDOW) -> RequestView:
    """A request as it stands; `NotFound` if there is none of that id."""
    requests = requests_of(queue)
    (record, now), (consumers, held) = await both(
        both(requests.request.op(id), queue.now.op()),
        both(requests.consumers.op(id), requests.unsettled.op(id, SHOWN)),
    )
    if record is None and "/" in id:
        command = hint("inspect", "entry", f"{queue.name}/{id}")
        raise NotFound(f"{queue.name}/{id} would be an entry, not a request: {command}")
    request = found(record, id, queue.name)
    ids = [entry_id for entry_id, state in held if state == "pending"]
    (entries, rows), (stream, told) = await both(
        both(
            together(queue.get.op(entry_id) for entry_id in ids),
            requests.held.op(id, [_number(entry_id) for entry_id in ids]),
        ),
        both(requests.stream_of.op(id), story(queue, id, window)),
    )
    pending = tuple(
        PendingEntry(entry, row.idle_ms if row else None)
        for entry, row in zip(entries, rows, strict=True)
        if entry is not None and entry.state == "pending"
    )
    return RequestView(
        queue, now, request, stream.key, stream.length, tuple(consumers), pending,
        tuple(differences(request, consumers)), told,
    )  # fmt: skip


async def entry_view(queue: Queue[Any], id: str, window: int = WINDOW) -> EntryDetails:
    """An entry in whatever state; `NotFound` if there is none of that id."""
    (entry, now), told = await both(
        both(queue.get.op(id), queue.now.op()), story(queue, id, window)
    )
    if entry is None:
        raise await _no_entry(queue, id)
    row, operation = await both(_held(queue, id), _touched(queue, entry))
    return EntryDetails(queue, now, entry, row.idle_ms if row else None, told, operation)


async def _no_entry(queue: Queue[Any], id: str) -> NotFound:
    if isinstance(queue, HasRequests) and "/" not in id and await queue.request.op(id):
        at = f"{queue.name}/{id}"
        return NotFound(
            f"{at} is a request: {hint('inspect', 'request', at)} shows it, "
            f"and {hint('inspect', 'entry', f'{at}/1')} its first entry"
        )
    return NotFound(f"no entry {id} in queue {queue.name}")


async def _held(queue: Queue[Any], id: str) -> PendingSubRequest | None:
    if not isinstance(queue, HasRequests):
        return None
    rows: list[PendingSubRequest | None] = await requests_of(queue).held.op(
        id.rpartition("/")[0], [_number(id)]
    )
    return rows[0]


async def _touched(queue: Queue[Any], entry: Entry) -> Operation | None:
    return None if entry.op is None else await audit_log.known(queue, entry.op)


def _number(id: str) -> int:
    return int(id.rpartition("/")[2])


def differences(request: Request, consumers: list[Consumer]) -> list[tuple[str, int, str]]:
    """What the stream's pending list holds that isn't pending with us, and the reverse."""
    held = sum(consumer.pending for consumer in consumers)
    if held == request.pending:
        return []
    why = f"{request.pending} are pending here: it changed meanwhile, or see redisq fsck"
    return [("consumers", held, why)]


async def story(queue: Queue[Any], id: str, window: int = WINDOW) -> Story:
    """What the latest history says about an entry, or about a request and all its entries."""
    events, total = await both(queue.history.op(window), queue.history_length.op())
    about = re.compile(rf"(?:^|\|){re.escape(id)}(?:/\d+)?(?:\||$)")
    chosen = [
        Event(event.id, event.at_ms, event.by, what)
        for event in events
        if (what := _about(event, about))
    ]
    return Story(tuple(chosen), len(events), total)


def _about(event: Event, about: re.Pattern[str]) -> dict[str, tuple[str, ...]]:
    """The event's items that name it."""
    named = {
        name: tuple(item for item in items if about.search(item))
        for name, items in event.what.items()
    }
    return {name: items for name, items in named.items() if items}

"""Six incidents: how each is made on the demo's server, and the steps that solve it.

A step is done when the server's state says so, whichever keys or commands led there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from redisq_ops.core.engine.queue import Queue
from redisq_ops.core.model.clock import FakeClock
from redisq_ops.core.model.entry import Counts, Failure, Outcome, Settlement
from redisq_ops.core.model.errors import BadInput
from redisq_ops.core.queues.delay import DelaySet
from redisq_ops.core.queues.fair import FairQueue
from redisq_ops.core.queues.request import RequestQueue
from redisq_ops.core.redis.operation import BlockingClient, Call, Description, run
from redisq_ops.ops.change import control
from redisq_ops.ops.change.audit_log import Author
from redisq_ops.ops.deployment import Deployment
from redisq_ops.ops.inspect.snapshot import View

MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS

BAD_DEPLOY = Failure(
    "KeyError",
    "'amount'",
    'Traceback (most recent call last):\n  File "webhooks.py", line 88, in deliver\n'
    "    total = event[\"amount\"]\nKeyError: 'amount'\n",
)
GONE = Failure("Reject", "410 Gone: the subscriber closed its endpoint")
UNREADABLE = Failure("UnicodeDecodeError", "'utf-8' codec can't decode byte 0xff in position 0")
SLOW = Failure("TimeoutError", "no answer from catalogue-3 within 10 s")
BROKEN_BY_DEPLOY, CLOSED_ENDPOINTS = 90, 9
POISONED, RETRIED = 40, 6
SILENT_WORKER = "geo-3:777"
LEASED = 8
NEWSLETTER = "newsletter-9"
RECEIPT_PRIORITY = 5


@dataclass(frozen=True, slots=True)
class IncidentStep:
    """A problem, the queue and view that show it, and the key that solves it there."""

    problem: str
    queue: str
    view: View
    press: str
    is_done: Callable[[Any, Counts], Description[bool]]

    async def done(self, deployment: Deployment) -> bool:
        """Whether the problem is solved, by the server's state."""
        queue = await deployment.queue(self.queue)
        return await self.is_done(queue, await queue.counts.op())


@dataclass(frozen=True, slots=True)
class Incident:
    name: str
    summary: str
    create: Callable[[BlockingClient, int], None]
    steps: Sequence[IncidentStep]

    @property
    def queue(self) -> str:
        return self.steps[0].queue


# --- wrong deploy --------------------------------------------------------------------------------


def _deploy_wrong_version(client: BlockingClient, now_ms: int) -> None:
    """Version 2.4 of the worker rejects every event; a few endpoints are gone for good."""
    clock = FakeClock(now_ms - 4 * MINUTE_MS)
    queue = DelaySet(client, "webhooks", clock=clock)
    good = [(f"gone-{n}", b'{"event": "ping"}') for n in range(1, CLOSED_ENDPOINTS + 1)]
    queue.schedule(good)
    _settle_all(queue, "webhooks-2.3", "reject", GONE)
    clock.now_ms += MINUTE_MS
    queue.schedule([(f"event-{n}", b'{"event": "paid"}') for n in range(1, BROKEN_BY_DEPLOY + 1)])
    _settle_all(queue, "webhooks-2.4", "reject", BAD_DEPLOY)


async def _paused(queue: Queue[Any], counts: Counts) -> bool:
    return counts.paused is not None


async def _resumed(queue: Queue[Any], counts: Counts) -> bool:
    return counts.paused is None


async def _replayed(queue: Queue[Any], counts: Counts) -> bool:
    return counts.dead <= CLOSED_ENDPOINTS and not counts.trash


WRONG_DEPLOY = Incident(
    "wrong-deploy",
    "a new version of a worker rejects every entry",
    _deploy_wrong_version,
    (
        IncidentStep(
            "webhooks rejects everything since a deploy",
            "webhooks",
            "groups",
            "H to pause it, so that no more die",
            _paused,
        ),
        IncidentStep(
            "webhooks has its old worker back", "webhooks", "groups", "H to resume it", _resumed
        ),
        IncidentStep(
            "webhooks has dead letters of the bad deploy",
            "webhooks",
            "groups",
            "P on KeyError to replay these, not the others",
            _replayed,
        ),
    ),
)

# --- stuck ---------------------------------------------------------------------------------------


def _forget_pause(client: BlockingClient, now_ms: int) -> None:
    """Somebody paused the queue for the night and forgot it."""
    clock = FakeClock(now_ms - 3 * HOUR_MS)
    queue = RequestQueue(client, "nightly-reports", clock=clock)
    queue.submit([b"report"] * 24, id="reports-tuesday")
    run(client, control.pause(queue, Author("kim", "ops-1", "db migration until 02:00")))


STUCK = Incident(
    "stuck",
    "a queue was paused and forgotten",
    _forget_pause,
    (
        IncidentStep(
            "nightly-reports stands still",
            "nightly-reports",
            "overview",
            "H to resume it; t says why",
            _resumed,
        ),
    ),
)

# --- silent worker -------------------------------------------------------------------------------


def _silence_worker(client: BlockingClient, now_ms: int) -> None:
    """A worker is gone, and holds as many entries as a request's limit allows, with long leases."""
    clock = FakeClock(now_ms - 2 * HOUR_MS)
    queue = RequestQueue(client, "geo-import", clock=clock)
    queue.submit([b"tile"] * 60, id="tiles-eu", limit=LEASED)
    queue.take(LEASED, consumer=SILENT_WORKER, lease=9 * 3600)
    # A stream stores a delivery's time by the server's clock: set the same age there.
    stream = f"{queue.keys['s_']}tiles-eu"
    ids = [f"{n}-0" for n in range(1, LEASED + 1)]
    run(
        client,
        Call(
            ("XCLAIM", stream, "g", SILENT_WORKER, 0, *ids, "TIME", clock.now_ms, "JUSTID"),
            len,
            key=stream,
            options={"parse_justid": True},
        ),
    )


async def _taken_back(queue: Queue[Any], counts: Counts) -> bool:
    held = await queue.page.op("pending", max=100)
    return SILENT_WORKER not in {entry.consumer for entry in held.entries}


SILENT = Incident(
    "silent-worker",
    "a worker that is gone holds all a request may have in work",
    _silence_worker,
    (
        IncidentStep(
            "geo-import waits for a silent worker",
            "geo-import",
            "consumers",
            f"R on {SILENT_WORKER} to requeue what it holds",
            _taken_back,
        ),
    ),
)

# --- blocked client ------------------------------------------------------------------------------


def _block_client(client: BlockingClient, now_ms: int) -> None:
    """A client was blocked during a flood that is long over."""
    clock = FakeClock(now_ms - 20 * HOUR_MS)
    queue = FairQueue(client, "exports", clock=clock)
    queue.submit("globex", [b"export"] * 3)
    author = Author("kim", "ops-1", "acme floods the exporter")
    run(client, control.change_client(queue, "acme", "block", author, 1))
    clock.now_ms = now_ms - 10 * MINUTE_MS
    queue.submit("acme", [b"export"] * 40)


async def _unblocked(queue: FairQueue[Any], counts: Counts) -> bool:
    acme = await queue.get_client.op("acme")
    return acme is None or not acme.blocked


BLOCKED = Incident(
    "blocked-client",
    "a client of a fair queue is still blocked",
    _block_client,
    (
        IncidentStep(
            "exports: client acme is blocked",
            "exports",
            "clients",
            "U to undo the block",
            _unblocked,
        ),
    ),
)

# --- poison --------------------------------------------------------------------------------------


def _poison(client: BlockingClient, now_ms: int) -> None:
    """Entries that no worker can read fail again and again, beside some that will succeed."""
    clock = FakeClock(now_ms - HOUR_MS)
    queue = DelaySet(client, "imports", clock=clock)
    queue.configure("demo", 1, {"max_failures": "1000"})
    poison = [(f"scan-{n}", b"\xff\xfe\x00") for n in range(1, POISONED + 1)]
    queue.schedule(poison)
    for attempt in range(1, 16):
        clock.now_ms = now_ms - HOUR_MS + attempt * 225_000  # the last one 4 minutes ago
        again = 225 if attempt < 15 else 40 * 60
        _settle_all(queue, "imports-1:4021", "fail", UNREADABLE, again)
    clock.now_ms = now_ms - MINUTE_MS
    queue.schedule([(f"catalogue-{n}", b"rows") for n in range(1, RETRIED + 1)])
    _settle_all(queue, "imports-1:4021", "fail", SLOW, 10 * 60)


async def _purged(queue: Queue[Any], counts: Counts) -> bool:
    return counts.delayed <= RETRIED and POISONED >= counts.trash > 0


POISON = Incident(
    "poison",
    "entries that can never succeed are retried for ever",
    _poison,
    (
        IncidentStep(
            "imports retries entries that can't succeed",
            "imports",
            "delayed",
            "/ failures>9 Enter, then A and X to purge these",
            _purged,
        ),
    ),
)

# --- flood ---------------------------------------------------------------------------------------


def _flood(client: BlockingClient, now_ms: int) -> None:
    """A newsletter with the highest priority keeps receipts waiting."""
    clock = FakeClock(now_ms - 70 * MINUTE_MS)
    queue = RequestQueue(client, "mail", clock=clock)
    queue.submit([b"newsletter"] * 6_000, id=NEWSLETTER, priority=0, limit=1000)
    clock.now_ms += 2 * MINUTE_MS
    for n in range(1, 21):
        queue.submit([b"receipt"] * 3, id=f"receipt-{n}", priority=RECEIPT_PRIORITY)
    clock.now_ms = now_ms
    taken = queue.take(10, consumer="mail-1:4021").deliveries
    queue.settle([Settlement(each, "ack") for each in taken])


async def _receipts_first(queue: RequestQueue[Any], counts: Counts) -> bool:
    """The newsletter is paused, settled or cancelled, or comes after receipts."""
    newsletter = await queue.request.op(NEWSLETTER)
    return (
        newsletter is None
        or newsletter.paused
        or newsletter.settled
        or newsletter.priority > RECEIPT_PRIORITY
    )


FLOOD = Incident(
    "flood",
    "one large request keeps all others waiting",
    _flood,
    (
        IncidentStep(
            "mail: receipts wait behind a newsletter",
            "mail",
            "requests",
            f"H on {NEWSLETTER} to pause it",
            _receipts_first,
        ),
    ),
)

INCIDENTS: Mapping[str, Incident] = {
    each.name: each for each in (WRONG_DEPLOY, STUCK, SILENT, BLOCKED, POISON, FLOOD)
}
"""in the order of the tour"""


def chosen(name: str | None) -> list[Incident]:
    """The incident of that name, or all of them; raises `BadInput` for an unknown one."""
    if name is None:
        return list(INCIDENTS.values())
    if name not in INCIDENTS:
        raise BadInput(f"no incident {name!r}: {', '.join(INCIDENTS)}")
    return [INCIDENTS[name]]


def _settle_all(
    queue: Queue[BlockingClient], worker: str, outcome: Outcome, error: Failure, again: float = 0
) -> None:
    """A worker takes all entries that are ready, and settles them with this outcome."""
    while taken := queue.take(100, consumer=worker).deliveries:
        queue.settle([Settlement(each, outcome, error.encoded(), again) for each in taken])

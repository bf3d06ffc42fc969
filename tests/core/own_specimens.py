"""What redisq's own kinds hold, filled as by producers and workers: for `conform`."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from redisq_ops.core.model.entry import Settlement, State
from redisq_ops.core.queues.carmine import CarmineQueue
from redisq_ops.core.queues.circular import CircularQueue
from redisq_ops.core.queues.delay import DelaySet
from redisq_ops.core.queues.fair import FairQueue
from redisq_ops.core.queues.request import RequestQueue
from redisq_ops.core.redis.operation import run
from redisq_ops.ops.deployment import Deployment
from redisq_ops.testing.conformance import Specimen

from ..queue_steps import end, ids

Stated = Mapping[State, Sequence[str]]
LATER_MS = 9_000_000
ENTRIES = [(f"e{n:02}", b"payload of e%02d" % n) for n in range(17)]


def worked_on(queue: Any, waiting: Sequence[str]) -> dict[State, Sequence[str]]:
    """Of what waits four become dead, four wait for another attempt, and four are pending."""
    dead, failed, pending = (
        queue.take(4, consumer="w", lease=LATER_MS / 1000).deliveries for _ in range(3)
    )
    for delivery in dead:
        end(queue, delivery, "reject")
        time.sleep(0.002)  # those of one millisecond would be in the order of their ids
    for n, delivery in enumerate(failed):
        queue.settle([Settlement(delivery, "fail", b"", (LATER_MS + n) / 1000)])
    gone = {*ids(dead), *ids(failed), *ids(pending)}
    return {
        "waiting": [id for id in waiting if id not in gone],
        "pending": sorted(ids(pending)),  # under one deadline
        "delayed": ids(failed),
        "dead": ids(dead),
    }


def requests(client: Any) -> Stated:
    queue = RequestQueue(client, "mail")
    queue.submit([b"payload %d." % n for n in range(17)], id="r", limit=100)
    return worked_on(queue, [f"r/{n}" for n in range(1, 18)])


def delays(client: Any) -> Stated:
    queue = DelaySet(client, "later")
    queue.schedule(ENTRIES)
    stated = worked_on(queue, [id for id, _ in ENTRIES])
    queue.schedule([("f", b"another")], after=2 * LATER_MS / 1000)
    return {**stated, "delayed": [*stated["delayed"], "f"]}


def clients(client: Any) -> Stated:
    queue = FairQueue(client, "fair")
    for who in ("ann", "bob"):
        queue.submit(who, [(f"{who}{n}", f"from {who}{n}.".encode()) for n in range(9)])
    return worked_on(queue, [f"{who}{n}" for who in ("ann", "bob") for n in range(9)])


def circle(client: Any) -> Stated:
    queue = CircularQueue(client, "ring")
    queue.push(ENTRIES)
    return worked_on(queue, [id for id, _ in ENTRIES])


def messages(client: Any) -> Stated:
    queue = CarmineQueue(client, "carmine:q")
    queue.enqueue(ENTRIES)
    return worked_on(queue, [id for id, _ in ENTRIES])


ENTRY_KEYS = r"(?!op:|undo:|(ops|unfinished|cfg|stat|callers|hist|wake|err)$|rate).*"
"""all of a queue's keys but its settings, counters and logs"""


def others_purge(client: Any, id: str) -> None:
    """Another operator does."""
    (name,) = client.hkeys("redisq:registry")
    queue = run(client, Deployment(client).queue(name.decode()))
    state = queue.get(id).state
    queue.move("op-9", 1, [id], source=state, target="trash", high_water_ms=queue.now())


SKIPPED = {
    "touched": "nobody but redisq writes their keys, and what it writes is in `meanwhile`",
    "restored": "what is restored is in its state from then on: it comes behind the others",
}


def specimen(
    name: str, fill: Callable[[Any], Stated], ours: str = ENTRY_KEYS, **skips: str
) -> Specimen:
    """Of one of our kinds."""
    return Specimen(
        name,
        fill,
        ours=ours,
        by_bytes=False,
        meanwhile={"purged": others_purge},
        matters=r"\S+:(lease|delay|dead) (gone|score)",
        skips=SKIPPED | skips,
    )


BODIES = f"(?!body$){ENTRY_KEYS}"
"""payloads apart: an entry that lost it isn't waiting any more, and stays in other states"""
RECORDS = f"(?![rs]:){ENTRY_KEYS}"
"""requests' own keys apart: errors say that one is of another type, and not which"""
OWN = {
    "request": specimen(
        "mail", requests, RECORDS, **{"odd bytes": "`redisq fsck` says what can't be checked"}
    ),
    "delay": specimen("later", delays),
    "fair": specimen("fair", clients, BODIES, scores="only redisq writes its clients' turns"),
    "circular": specimen("ring", circle, BODIES),
    "carmine": specimen("carmine:q", messages),
}

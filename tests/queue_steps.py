"""What the tests of several kinds of queue have in common: entries taken and ended by hand, an
operator killed between two round trips, and waiting that has an end."""

from __future__ import annotations

import time
from collections.abc import Callable, Coroutine, Iterable, Iterator
from typing import Any, TypeVar

from redisq_ops.core.model.entry import Delivery, Entry, Page, Settlement, State
from redisq_ops.core.model.settings import LEASE_MS
from redisq_ops.core.model.states import VERBS
from redisq_ops.core.queues.request.outcomes import SubRequestOutcome
from redisq_ops.core.redis.operation import BlockingClient, Description
from redisq_ops.core.redis.transport import exchange

T = TypeVar("T")


def take(queue: Any, n: int = 100, worker: str = "w") -> list[Delivery]:
    return list(queue.take(n, consumer=worker).deliveries)


def take_all(queue: Any, n: int = 500, worker: str = "w") -> list[Delivery]:
    """As a worker takes: again, as long as the reply says that there may be more."""
    found: list[Delivery] = []
    while len(found) < n:
        taken = queue.take(min(500, n - len(found)), consumer=worker)
        found += taken.deliveries
        if not taken.deliveries and not taken.more:
            break
    return found


def settle(
    queue: Any, outcome: Any, *deliveries: Delivery, delay: float = 0, value: bytes = b""
) -> list[str]:
    words: list[str] = queue.settle([Settlement(d, outcome, value, delay) for d in deliveries])
    return words


def ack_all(queue: Any) -> list[str]:
    """The ids of all that is due, taken and acknowledged; payloads are the ids."""
    done: list[str] = []
    while held := take_all(queue, 100):
        assert settle(queue, "ack", *held) == ["done"] * len(held)
        assert all(d.payload == d.id.encode() for d in held)
        done += ids(held)
    return done


def pages(queue: Any, state: State, size: int = 1000, cursor: str | None = None) -> Iterator[Page]:
    """All pages of a state; between two of them the queue may change."""
    for _ in range(10_000):
        page: Page = queue.page(state, cursor, size)
        assert len(page.entries) <= size
        yield page
        cursor = page.cursor
        if cursor is None:
            return
    raise AssertionError("the pages don't end")


def paged_ids(queue: Any, state: State, size: int = 1000, cursor: str | None = None) -> list[str]:
    return [entry.id for page in pages(queue, state, size, cursor) for entry in page.entries]


def ids(entries: Iterable[Delivery | Entry]) -> list[str]:
    return [entry.id for entry in entries]


def move(
    queue: Any, op: str, verb: Any, source: Any, *which: str, at: int = LEASE_MS, step: int = 1
) -> list[str]:
    """One step of an operator's change; ``at``: the time of a reschedule, or a lease."""
    words: list[str] = queue.move(
        op,
        step,
        which,
        source=source,
        target=VERBS[verb][1],
        high_water_ms=queue.now(),
        consumer="op",
        lease_ms=at,
    )
    return words


def undo(queue: Any, op: str, verb: Any, step: int = 1) -> tuple[int, ...]:
    found: tuple[int, ...] = queue.undo(
        op, step, target=VERBS[verb][1], by=f"undo-{op}-{step}", seq=1
    )
    return found


def end(queue: Any, delivery: Delivery, outcome: Any = "ack", value: bytes = b"") -> str:
    (said,) = queue.settle([Settlement(delivery, outcome, value)])
    return str(said)


def until(true: Callable[[], object], otherwise: str, seconds: float = 90) -> None:
    """Come back when it is so; ``otherwise`` is what is wrong if it never is."""
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, otherwise
        time.sleep(0.001)


def eventually(true: Callable[[], object]) -> None:
    until(true, "it never came to be")


class Killed(Exception):
    pass


def run_until(client: BlockingClient, work: Description[T], steps: int, heard: bool) -> T:
    """Run, but be killed at round trip ``steps``: before it, or with its effect and no reply."""
    assert isinstance(work, Coroutine)
    try:
        calls = work.send(None)
        while True:
            if steps == 0 and not heard:
                raise Killed
            replies = exchange(client, calls)
            if steps == 0:
                raise Killed
            steps -= 1
            calls = work.send(replies)
    except StopIteration as stop:
        return stop.value  # type: ignore[no-any-return]
    finally:
        work.close()


def kills(
    client: BlockingClient, make: Callable[[], Description[Any]]
) -> Iterator[tuple[int, bool]]:
    """Begin an operation again and again, killed one round trip later each time, until it ends."""
    steps = 0
    while True:
        for heard in (False, True):
            try:
                run_until(client, make(), steps, heard)
                return
            except Killed:
                yield steps, heard
        steps += 1


def numbered(outcomes: Iterable[SubRequestOutcome]) -> list[tuple[int, bytes | None]]:
    """The numbers and results of what `RequestQueue.results` returned."""
    return [(one.number, one.result) for one in outcomes]

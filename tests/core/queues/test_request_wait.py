import asyncio
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest
import redis

from redisq_ops.core.engine.wait import async_wait, wait
from redisq_ops.core.model.entry import Request, Settlement
from redisq_ops.core.model.errors import BadInput, NotFound, Unreachable
from redisq_ops.core.queues.request import RequestQueue
from redisq_ops.core.redis.client import aconnect, connect
from redisq_ops.core.worker import Worker
from redisq_ops.core.worker.handler import Work
from redisq_ops.demo.server import EmbeddedServer

pytestmark = pytest.mark.alike

NEVER = 3600.0
Waiter = Callable[..., list[Request]]


def blocking(url: str, ids: Sequence[str], *args: Any, **options: Any) -> list[Request]:
    with connect(url) as client:
        return list(wait(RequestQueue(client, "mail"), ids, *args, **options))


def awaited(url: str, ids: Sequence[str], *args: Any, **options: Any) -> list[Request]:
    async def finished() -> list[Request]:
        async with aconnect(url) as client:
            queue = RequestQueue(client, "mail")
            return [request async for request in async_wait(queue, ids, *args, **options)]

    return asyncio.run(finished())


@pytest.fixture(params=[blocking, awaited])
def waiter(request: pytest.FixtureRequest) -> Waiter:
    found: Waiter = request.param
    return found


@pytest.fixture
def queue(client: redis.Redis) -> RequestQueue[redis.Redis]:
    """Three requests of two entries each."""
    queue = RequestQueue(client, "mail")
    for id in ("r1", "r2", "r3"):
        queue.submit([b"one", b"two"], id=id)
    return queue


def work(queue: RequestQueue[redis.Redis], n: int = 100) -> None:
    taken = queue.take(n, consumer="me")
    queue.settle([Settlement(delivery, "ack") for delivery in taken.deliveries])


def cancel(queue: RequestQueue[redis.Redis], id: str) -> None:
    queue.control(f"cancel-{id}", 1, "cancel", id)


@contextmanager
def in_background(waiter: Waiter, *args: Any, **options: Any) -> Iterator[list[Request]]:
    """What the waiter finds; complete when the block ends."""
    found: list[Request] = []
    thread = threading.Thread(target=lambda: found.extend(waiter(*args, **options)))
    thread.start()
    yield found
    thread.join()


def until_listening(client: redis.Redis, channel: str = "redisq:{mail}:r:r1") -> None:
    while not client.pubsub_numsub(channel)[0][1]:
        time.sleep(0.005)


def test_who_comes_late_returns_at_once(
    queue: RequestQueue[redis.Redis], url: str, waiter: Waiter
) -> None:
    work(queue)
    found = waiter(url, ["r1", "r2"], reread=NEVER)
    assert {(r.id, r.state, r.done) for r in found} == {("r1", "done", 2), ("r2", "done", 2)}


def test_the_end_is_published(queue: RequestQueue[redis.Redis], url: str, waiter: Waiter) -> None:
    with in_background(waiter, url, ["r1", "r2"], reread=NEVER) as found:
        until_listening(queue.client)
        cancel(queue, "r2")
        work(queue)
    assert {(r.id, r.state) for r in found} == {("r2", "cancelled"), ("r1", "done")}


def test_an_end_that_nobody_heard_of_is_found(
    queue: RequestQueue[redis.Redis], url: str, waiter: Waiter
) -> None:
    with in_background(waiter, url, ["r1"], reread=0.05) as found:
        until_listening(queue.client)
        queue.client.hset("redisq:{mail}:r:r1", "state", "done")  # and not a word
    assert [(r.id, r.state) for r in found] == [("r1", "done")]


def test_who_lost_the_connection_looks_again(
    queue: RequestQueue[redis.Redis], url: str, waiter: Waiter
) -> None:
    with in_background(waiter, url, ["r1"], reread=NEVER) as found:
        until_listening(queue.client)
        queue.client.client_kill_filter(_type="pubsub")
        cancel(queue, "r1")
    assert [(r.id, r.state) for r in found] == [("r1", "cancelled")]


def test_time_is_up(queue: RequestQueue[redis.Redis], url: str, waiter: Waiter) -> None:
    with pytest.raises(TimeoutError, match="2 of 3: r1 r3"):
        cancel(queue, "r2")
        waiter(url, ["r1", "r2", "r3"], 0.05)


def test_a_time_of_zero_asks_once(
    queue: RequestQueue[redis.Redis], url: str, waiter: Waiter
) -> None:
    cancel(queue, "r2")
    with pytest.raises(TimeoutError):
        waiter(url, ["r1"], 0)
    assert [r.state for r in waiter(url, ["r2"], 0)] == ["cancelled"]


def test_progress_is_told(queue: RequestQueue[redis.Redis], url: str, waiter: Waiter) -> None:
    told: list[int] = []
    with in_background(waiter, url, ["r1"], reread=0.02, progress=lambda r: told.append(r.done)):
        for done in range(2):
            while done not in told:
                time.sleep(0.005)
            while (r1 := queue.request("r1")) and r1.done == done:
                work(queue, 1)
    assert sorted(set(told)) == [0, 1, 2]
    assert told == sorted(told)


def test_nothing_to_wait_for(queue: RequestQueue[redis.Redis], url: str, waiter: Waiter) -> None:
    assert waiter(url, []) == []


def test_many_at_once_and_one_twice(
    queue: RequestQueue[redis.Redis], url: str, waiter: Waiter
) -> None:
    ids = [f"many{n}" for n in range(250)]
    for id in ids:
        queue.submit([], id=id)
    assert sorted(r.id for r in waiter(url, [*ids, "many7"])) == sorted(ids)


def test_an_unknown_request_is_an_error(
    queue: RequestQueue[redis.Redis], url: str, waiter: Waiter
) -> None:
    with pytest.raises(NotFound, match="r9"):
        waiter(url, ["r1", "r9"])


def test_no_server_is_an_error(waiter: Waiter) -> None:
    with EmbeddedServer() as server:
        url = server.url
    with pytest.raises(Unreachable):
        waiter(url, ["r1"])


def test_an_async_handler_can_not_stop_its_worker_by_waiting(
    client: redis.Redis, queue: RequestQueue[redis.Redis], url: str
) -> None:
    jobs, refused = RequestQueue(client, "jobs"), list[str]()
    jobs.submit([b""], id="j1")

    async def handle(work: Work) -> None:
        with pytest.raises(BadInput) as error:
            wait(queue, "r1", 0)
        refused.append(str(error.value))
        (request,) = [one async for one in async_wait(RequestQueue(aclient, "mail"), "r1", 60)]
        refused.append(request.state)

    work(queue)
    aclient = aconnect(url)
    Worker(jobs, handle, burst=True).run()
    assert refused[0].startswith("to wait here stops the worker's event loop: await async_wait")
    assert refused[1] == "done"


def test_in_another_event_loop_a_program_or_a_handler_may_wait(
    client: redis.Redis, queue: RequestQueue[redis.Redis]
) -> None:
    jobs, found = RequestQueue(client, "jobs"), list[str]()
    jobs.submit([b""], id="j1")

    async def main() -> None:
        found.extend(request.state for request in wait(queue, "r1", 60))

    work(queue)
    asyncio.run(main())
    Worker(jobs, lambda _: asyncio.run(main()), burst=True).run()
    assert found == ["done", "done"]

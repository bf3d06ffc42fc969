"""Workers register themselves in the queues they serve."""

import threading
from typing import Any

import pytest
import redis

from redisq_ops.core.engine import worker_register
from redisq_ops.core.engine.worker_register import registered_workers
from redisq_ops.core.model.activity import BEATS_MS
from redisq_ops.core.queues.delay import DelaySet
from redisq_ops.core.queues.request import RequestQueue, ShardedRequestQueue
from redisq_ops.core.redis.client import connect
from redisq_ops.core.redis.operation import run
from redisq_ops.core.worker import Worker

from .test_worker import until

pytestmark = pytest.mark.alike


@pytest.mark.parametrize("sharded", [False, True])
def test_a_worker_is_listed_with_what_it_holds_until_it_stops(
    url: str, client: redis.Redis, sharded: bool
) -> None:
    queue = ShardedRequestQueue(client, "q", shards=3) if sharded else RequestQueue(client, "q")
    queue.submit([b"x"] * 3, id="r")
    absent = DelaySet(client, "absent")
    begun, go_on = threading.Event(), threading.Event()

    def handle(work: object) -> None:
        begun.set()
        go_on.wait(90)

    own = connect(url)
    served: Any = type(queue)(own, "q")  # type: ignore[arg-type]
    worker = Worker([served, DelaySet(own, "absent")], handle, consumer="w-1", concurrency=2)
    thread = threading.Thread(target=worker.run)
    thread.start()
    try:
        assert begun.wait(30)
        until(lambda: queue.counts().pending == 2)
        (process,) = run(client, registered_workers(queue))
        assert (process.name, process.alive, process.queues) == ("w-1", True, ("q",))
        assert process.pid and process.host and process.since_ms
    finally:
        go_on.set()
        worker.stop()
        thread.join()
    assert run(client, registered_workers(queue)) == []
    assert not absent.exists() and not client.exists(absent.keys["callers"])


def test_a_silent_worker_is_listed_while_it_holds_something(client: redis.Redis) -> None:
    queue = RequestQueue(client, "q")
    queue.submit([b"x"] * 2, id="r")
    queue.take(1, consumer="gone-1")
    beat = queue.now() - BEATS_MS - 1
    for name in ("gone-1", "gone-2"):
        client.hset(queue.keys["callers"], f"{name}:worker", f"1 {beat} {beat - 9} 4 77 box")
    client.hset(queue.keys["callers"], "odd:worker", "1 2 three")
    gone, odd = run(client, registered_workers(queue))
    assert (gone.name, gone.alive, [job.id for job in gone.work]) == ("gone-1", False, ["r/1"])
    assert gone.silent_ms and gone.silent_ms > BEATS_MS
    assert odd.problem == "its field odd:worker is corrupt"
    assert queue.take(1, consumer="w").deliveries  # it disturbs nothing
    assert queue.activity(0).askers == 1


def test_a_worker_is_found_among_thousands_of_producers(
    client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each process that submits has a field for a day."""
    queue = RequestQueue(client, "q")
    queue.submit([b"x"], id="r")
    now = queue.now()
    fields: Any = {f"producer-{n}:submit": f"1 {now} ok" for n in range(4_000)}
    fields |= {f"w{n}:worker": f"1 {now} {now} 1 77 box" for n in range(3)}
    client.hset(queue.keys["callers"], mapping=fields)
    found = run(client, registered_workers(queue))
    assert [(process.name, process.problem) for process in found] == [
        (f"w{n}", None) for n in range(3)
    ]
    monkeypatch.setattr(worker_register, "PAGES", 2)
    *_, last = run(client, registered_workers(queue))
    assert last.problem == "only about 1,000 of its callers were looked at"

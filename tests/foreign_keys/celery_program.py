"""A real Celery: an application on a server, and its workers, in processes of their own.

python celery_program.py PORT QUEUES POOL    a worker, until it is killed
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import celery
import redis
from celery.app.task import Context

KEPT = "ran"
"""a hash of ours: how often a task ran, by its argument"""


def application(port: int, **config: Any) -> Any:
    url = f"redis://127.0.0.1:{port}/0"
    app = celery.Celery("shop", broker=url, backend=url, set_as_current=False)
    app.conf.update(
        result_extended=True,
        task_default_priority=0,
        broker_connection_retry_on_startup=True,
        worker_hijack_root_logger=False,
        **config,
    )
    client = redis.Redis(port=port)

    @app.task(name="shop.fine", acks_late=True)  # else Celery loses it with its worker
    def fine(what: Any = None, **named: Any) -> Any:
        client.hincrby(KEPT, str(what), 1)
        return what

    @app.task(name="shop.fails")
    def fails(what: Any = None, **named: Any) -> None:
        client.hincrby(KEPT, str(what), 1)
        raise ValueError(f"no {what}")

    @app.task(name="shop.again", bind=True, max_retries=1)
    def again(task: Any, what: Any) -> None:
        raise task.retry(countdown=3600)

    @app.task(name="shop.lasts", acks_late=True)
    def lasts() -> None:
        client.incr("started")
        time.sleep(600)

    app.task(lasts.run, name="shop.early")  # acknowledged when it begins
    return app


def app_on(client: redis.Redis, **config: Any) -> Any:
    return application(client.connection_pool.connection_kwargs["port"], **config)


def fails(app: Any, id: str, name: str, args: Any, kwargs: Any) -> None:
    """Write the result of a task that failed, as a worker does it."""
    told = {
        "task": name,
        "args": args,
        "kwargs": kwargs,
        "delivery_info": {"routing_key": "celery"},
    }
    app.backend.mark_as_failure(id, ValueError("no luck"), request=Context(told))


@contextmanager
def worker(
    client: redis.Redis, queues: str = "celery", pool: str = "threads"
) -> Iterator[subprocess.Popen[bytes]]:
    """A worker in a process of its own; killed at the end, if it is still there."""
    port = str(client.connection_pool.connection_kwargs["port"])
    process = subprocess.Popen(
        [sys.executable, *["-S"][: sys.flags.no_site], str(Path(__file__)), port, queues, pool],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield process
    finally:
        killed(process)


def killed(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()


def wait(true: Any) -> None:
    deadline = time.monotonic() + 90
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.02)


_specimens: dict[int, list[tuple[bytes, bytes, int]]] = {}


def specimen(client: redis.Redis) -> None:
    """Tasks in every state of the queue ``celery``, and some of another queue; made once for a
    server."""
    port = client.connection_pool.connection_kwargs["port"]
    if port not in _specimens:
        _fill(client)
        keys = [key for key in client.scan_iter() if not key.startswith(b"unacked_mutex")]
        _specimens[port] = [(k, client.dump(k) or b"", client.pexpiretime(k)) for k in keys]
        return
    for key, data, until in _specimens[port]:
        client.restore(key, max(0, until), data, absttl=until > 0)


def _fill(client: redis.Redis) -> None:
    app = app_on(client)
    for n in range(4):
        app.send_task("shop.fails", (f"luck{n}",), {"order": n}, task_id=f"bad{n}")
        app.send_task("shop.fine", (f"good{n}",), task_id=f"good{n}")
    app.send_task("shop.fails", ("elsewhere",), task_id="other", queue="other")
    app.send_task("shop.again", ("later",), task_id="again")
    for n in range(5):
        app.send_task("shop.fine", (f"eta{n}",), task_id=f"eta{n}", countdown=9000 + n)
    app.send_task("shop.fine", ("otherlate",), task_id="otherlate", countdown=9000, queue="other")
    with worker(client, "celery,other"):
        wait(lambda: sum(1 for _ in client.scan_iter("celery-task-meta-*")) >= 10)
        wait(lambda: client.hlen("unacked") >= 7)
        for n in range(4):
            app.send_task("shop.lasts", task_id=f"run{n}")
        wait(lambda: client.hlen("unacked") >= 11)
    for n in range(6):
        priority = 3 * (n % 4)
        app.send_task("shop.fine", (n,), {"region": "eu"}, task_id=f"w{n}", priority=priority)


def fill(client: Any) -> Mapping[Any, Sequence[str]]:
    """The specimen's tasks, and two more that wait: their ids in each state."""
    specimen(client)
    for id in ("w6", "w7"):
        app_on(client).send_task("shop.fine", (id,), task_id=id)
    return {
        "waiting": ["w0", "w4", "w6", "w7", "w1", "w5", "w2", "w3"],  # by priority
        "pending": [f"run{n}" for n in range(4)],
        "delayed": [*(f"eta{n}" for n in range(5)), "again"],
        "dead": [f"bad{n}" for n in range(4)],
        "done": [f"good{n}" for n in range(4)],
    }


def work(client: Any, n: int) -> None:
    """A worker, until it has run so many tasks."""
    before = sum(map(int, client.hvals(KEPT)))
    with worker(client):
        wait(lambda: sum(map(int, client.hvals(KEPT))) >= before + n)


def forgets(client: Any, id: str) -> None:
    app_on(client).AsyncResult(id).forget()


def sends(client: Any, id: str) -> None:
    """What its result keeps, sent again by Celery."""
    app = app_on(client)
    kept = app.AsyncResult(id)._get_task_meta()
    kept = {name: kept[name] for name in ("name", "args", "kwargs", "queue")}
    forgets(client, id)
    app.send_task(**kept, task_id=id)


if __name__ == "__main__":
    own = application(int(sys.argv[1]))
    words = (
        f"worker --pool={sys.argv[3]} --concurrency=2 --prefetch-multiplier=100 --loglevel=critical"
    )
    own.worker_main([*words.split(), "--without-gossip", "--without-mingle", "-Q", sys.argv[2]])

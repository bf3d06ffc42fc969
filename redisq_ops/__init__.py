"""Queue primitives on Redis: library, command line and live view.

    from redisq_ops import RequestQueue, Worker, connect

    queue = RequestQueue(connect(), "mail")
    queue.submit([b"one", b"two"], id="monday")
    Worker(queue, lambda work: work.payload.upper(), burst=True).run()
    print([part.result for part in queue.results("monday")])

Clients: `connect`, `aconnect`. Queues: `RequestQueue`, `DelaySet` (with `Periodic`), `FairQueue`,
`CircularQueue`, `CarmineQueue`, each also ``Sharded…`` over several hash slots, with a
`RetryPolicy` (`exponential`); of other programs: `SidekiqQueue`, `ResqueQueue` (with `Job`),
`StreamQueue`. Workers: `Worker`, `Work`, `Retry`, `Reject`, `unless_done`, `run_processes`,
`LeaseReclaimer`. By hand: `Delivery`, `Settlement`, `Failure`. Waiting for requests: `wait`,
`async_wait`. Errors: `errors`, all subclasses of `errors.RedisqError`.

Times that you give are seconds, or timedelta and datetime objects; those that you get are ms, and
their names end in ``_ms``. Payloads are bytes. Delivery is at least once. A name is imported when
it is first used, so importing the package alone is cheap.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from . import errors
    from .clients import aconnect, connect
    from .core.engine.wait import async_wait, wait
    from .core.foreign.resque import ResqueQueue
    from .core.foreign.ruby_jobs import Job
    from .core.foreign.sidekiq import SidekiqQueue
    from .core.foreign.streams import StreamQueue
    from .core.model.entry import Delivery, Failure, Settlement
    from .core.model.retry_policy import RetryPolicy, exponential
    from .core.queues.carmine import CarmineQueue, ShardedCarmineQueue
    from .core.queues.circular import CircularQueue, ShardedCircularQueue, unless_done
    from .core.queues.delay import DelaySet, Periodic, ShardedDelaySet
    from .core.queues.fair import FairQueue, ShardedFairQueue
    from .core.queues.request import RequestQueue, ShardedRequestQueue
    from .core.worker import Worker, run_processes
    from .core.worker.handler import Work
    from .core.worker.lease_reclaimer import LeaseReclaimer
    from .core.worker.retry import Reject, Retry

__version__ = "0.1.0"

__all__ = [
    "CarmineQueue",
    "CircularQueue",
    "DelaySet",
    "Delivery",
    "Failure",
    "FairQueue",
    "Job",
    "LeaseReclaimer",
    "Periodic",
    "Reject",
    "RequestQueue",
    "ResqueQueue",
    "Retry",
    "RetryPolicy",
    "Settlement",
    "ShardedCarmineQueue",
    "ShardedCircularQueue",
    "ShardedDelaySet",
    "ShardedFairQueue",
    "ShardedRequestQueue",
    "SidekiqQueue",
    "StreamQueue",
    "Work",
    "Worker",
    "aconnect",
    "async_wait",
    "connect",
    "errors",
    "exponential",
    "run_processes",
    "unless_done",
    "wait",
]

_HOMES = {
    "CarmineQueue": "queues.carmine",
    "CircularQueue": "queues.circular",
    "DelaySet": "queues.delay",
    "Delivery": "model.entry",
    "Failure": "model.entry",
    "FairQueue": "queues.fair",
    "Job": "foreign.ruby_jobs",
    "LeaseReclaimer": "worker.lease_reclaimer",
    "Periodic": "queues.delay",
    "Reject": "worker.retry",
    "RequestQueue": "queues.request",
    "ResqueQueue": "foreign.resque",
    "Retry": "worker.retry",
    "RetryPolicy": "model.retry_policy",
    "Settlement": "model.entry",
    "ShardedCarmineQueue": "queues.carmine",
    "ShardedCircularQueue": "queues.circular",
    "ShardedDelaySet": "queues.delay",
    "ShardedFairQueue": "queues.fair",
    "ShardedRequestQueue": "queues.request",
    "SidekiqQueue": "foreign.sidekiq",
    "StreamQueue": "foreign.streams",
    "Work": "worker.handler",
    "Worker": "worker",
    "aconnect": ".clients",
    "async_wait": "engine.wait",
    "connect": ".clients",
    "exponential": "model.retry_policy",
    "run_processes": "worker",
    "unless_done": "queues.circular",
    "wait": "engine.wait",
}


def __getattr__(name: str) -> object:
    if name == "errors":
        return import_module(".errors", __name__)
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{_HOMES[name]}", f"{__name__}.core"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])

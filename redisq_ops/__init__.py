"""Queue primitives on Redis: library, command line and live view.

    from redisq_ops import RequestQueue, Worker, connect

    queue = RequestQueue(connect("redis://127.0.0.1:6379/0"), "mail")
    queue.submit([b"one", b"two"], id="monday")
    Worker(queue, lambda delivery: delivery.payload.upper(), burst=True).run()
    print(queue.results("monday"))

Names are imported when first used, so that importing the package alone costs nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .core import errors
    from .core.carmine import CarmineQueue, ShardedCarmineQueue
    from .core.circular import CircularQueue, ShardedCircularQueue, unless_done
    from .core.completion import await_, wait
    from .core.connect import aconnect, connect
    from .core.delay import DelaySet, Periodic, ShardedDelaySet
    from .core.fair import FairQueue, ShardedFairQueue
    from .core.handler import Reject, Retry, Work
    from .core.monitor import Monitor
    from .core.request import RequestQueue, ShardedRequestQueue
    from .core.resque import Job, ResqueQueue, SidekiqQueue
    from .core.streams import StreamQueue
    from .core.values import Delivery, Failure, Settlement
    from .core.worker import Worker, run_processes

__version__ = "0.1.0"

__all__ = [
    "CarmineQueue",
    "CircularQueue",
    "DelaySet",
    "Delivery",
    "Failure",
    "FairQueue",
    "Job",
    "Monitor",
    "Periodic",
    "Reject",
    "RequestQueue",
    "ResqueQueue",
    "Retry",
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
    "await_",
    "connect",
    "errors",
    "run_processes",
    "unless_done",
    "wait",
]

_HOMES = {
    "CarmineQueue": "carmine",
    "CircularQueue": "circular",
    "DelaySet": "delay",
    "Delivery": "values",
    "Failure": "values",
    "FairQueue": "fair",
    "Job": "resque",
    "Monitor": "monitor",
    "Periodic": "delay",
    "Reject": "handler",
    "RequestQueue": "request",
    "ResqueQueue": "resque",
    "Retry": "handler",
    "Settlement": "values",
    "ShardedCarmineQueue": "carmine",
    "ShardedCircularQueue": "circular",
    "ShardedDelaySet": "delay",
    "ShardedFairQueue": "fair",
    "ShardedRequestQueue": "request",
    "SidekiqQueue": "resque",
    "StreamQueue": "streams",
    "Work": "handler",
    "Worker": "worker",
    "aconnect": "connect",
    "await_": "completion",
    "connect": "connect",
    "run_processes": "worker",
    "unless_done": "circular",
    "wait": "completion",
}


def __getattr__(name: str) -> object:
    if name == "errors":
        return import_module(".core.errors", __name__)
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".core.{_HOMES[name]}", __name__), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])

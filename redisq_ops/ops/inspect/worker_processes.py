"""Worker processes of redisq and of other programs, as they are registered."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from redisq_ops.core.engine.optional_features import HasWorkerProcesses, HasWorkerTraces
from redisq_ops.core.engine.queue import Queue
from redisq_ops.core.engine.queue_classes import foreign_classes
from redisq_ops.core.engine.worker_register import registered_workers
from redisq_ops.core.model.worker_process import Process
from redisq_ops.core.redis.operation import attempt, together

from ..deployment import Deployment


@dataclass(frozen=True, slots=True)
class ProcessRegister:
    """The worker processes of one deployment, read through one of its queues."""

    queue: Queue[Any]
    processes: tuple[Process, ...] = ()
    problem: str | None = None
    """why the processes can't be read"""

    @property
    def unknown(self) -> str | None:
        """What is unknown about these processes, and why; None: nothing."""
        if not isinstance(self.queue, HasWorkerTraces) or not self.queue.workers_unknown:
            return None
        return f"{self.queue.owner}: {self.queue.workers_unknown}"


async def process_registers(deployment: Deployment) -> list[ProcessRegister]:
    """Every known register once: those of the queues in the registry, and those of other programs'
    deployments at their usual place."""
    registered = await deployment.queues()
    queues = [queue for queue in registered if isinstance(queue, HasWorkerTraces)]
    kinds = [kind for kind, cls in foreign_classes().items() if issubclass(cls, HasWorkerProcesses)]
    usual: list[Any] = await together(attempt(deployment.foreign(kind)) for kind in kinds)
    queues += [queue for queue in usual if isinstance(queue, HasWorkerProcesses)]
    distinct: dict[tuple[str, str], HasWorkerTraces[Any]] = {}
    for queue in queues:
        distinct.setdefault((queue.kind, queue.process_registry), queue)
    found = await together(attempt(queue.worker_processes.op()) for queue in distinct.values())
    return [
        ProcessRegister(queue, problem=str(processes))
        if isinstance(processes, Exception)
        else ProcessRegister(queue, tuple(processes))
        for queue, processes in zip(distinct.values(), found, strict=True)
    ]


async def processes_of(queue: Queue[Any]) -> list[Process]:
    """The worker processes that the queue's program shows, and the workers of redisq that serve the
    queue."""
    if isinstance(queue, HasWorkerTraces) and not isinstance(queue, HasWorkerProcesses):
        return await queue.worker_processes.op()
    if not isinstance(queue, HasWorkerProcesses):
        return await registered_workers(queue) if queue.has_settings else []
    theirs, ours = await together(queue.worker_processes.op(), registered_workers(queue))
    return [*theirs, *ours]

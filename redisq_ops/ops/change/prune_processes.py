"""Pruning: dead worker processes are removed from their program's register."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from redisq_ops.core.engine.optional_features import HasWorkerProcesses
from redisq_ops.core.engine.queue import Queue
from redisq_ops.core.model.errors import NotFound, Refused
from redisq_ops.core.model.worker_process import KEEPS_JOBS, Process

from ..terminal import age, count, kind_of, quantity
from .confirmation import typed_number
from .preview import Preview
from .steps import ChangeSteps

NAMED = 10
"""processes that a plan names"""


def _with_processes(queue: Queue[Any]) -> HasWorkerProcesses[Any]:
    """The queue, if its program registers worker processes; raises `Refused` otherwise."""
    if not isinstance(queue, HasWorkerProcesses):
        raise Refused(
            f"queue {queue.name} is {kind_of(queue.kind)}: no program registers workers for it "
            "that can be pruned"
        )
    return queue


@dataclass(frozen=True, slots=True)
class ProcessSelection:
    """Processes to remove from the register, as they were when the plan was made."""

    queue: HasWorkerProcesses[Any]
    processes: tuple[Process, ...]
    silent_ms: int | None
    """how long they have been silent at least; None: as long as their own program waits"""

    @property
    def what(self) -> str:
        return "silent" if self.silent_ms is None else f"silent for {age(self.silent_ms)}"

    @property
    def jobs(self) -> int:
        """How many jobs they were running at their last heartbeat."""
        return sum(len(process.work) for process in self.processes)


async def select_processes(
    queue: Queue[Any], name: str | None = None, silent_ms: int | None = None
) -> ProcessSelection:
    """The processes silent for ``silent_ms``, or the named one.

    `NotFound` if there is none of that name; `Refused` if it is alive or can't be read.
    """
    registering = _with_processes(queue)
    if not registering.prunes:
        raise Refused(f"queue {queue.name}: {queue.owner} itself removes processes that are gone")
    processes = await registering.worker_processes.op()
    if name is not None:
        processes = [process for process in processes if process.name == name]
        if not processes:
            raise NotFound(f"no process {name!r} is registered with {queue.name}")
        if processes[0].problem:
            raise Refused(f"process {name} can't be read: {processes[0].problem}")
        if not processes[0].silent_for(silent_ms):
            raise Refused(f"process {name} is alive: {_last_heartbeat(processes[0])}")
        if processes[0].keeps_jobs:
            raise Refused(f"process {name}: {KEEPS_JOBS}")
    silent = [one for one in processes if one.silent_for(silent_ms) and not one.keeps_jobs]
    return ProcessSelection(registering, tuple(silent), silent_ms)


def prune_preview(selection: ProcessSelection, rescue: bool) -> Preview:
    """What pruning the processes will do."""
    queue, jobs, n = selection.queue, selection.jobs, len(selection.processes)
    names = [process.name for process in selection.processes[:NAMED]]
    lines = [f"{process.name}: {_status(process)}" for process in selection.processes[:NAMED]]
    if n > NAMED:
        lines.append(f"and {count(n - NAMED)} more")
    if jobs and rescue:
        lines.append(
            "their jobs go back to waiting, first in their queues; a process that is alive but cut "
            "off runs its job as well"
        )
    elif jobs:
        lines.append(queue.prune_note)
    lines.append("there is no undo; a process that is still alive goes on working")
    facts = {
        "verb": "prune",
        "queue": queue.name,
        "filter": selection.what,
        "matched": n,
        "jobs": jobs,
        "rescue": rescue,
        "processes": names,
    }
    noun = "process" if n == 1 else "processes"
    title = f"prune {count(n)} {noun} of {queue.name} ({selection.what})"
    title += f", with {quantity(jobs, 'job')} running" if jobs else ""
    return Preview(title, tuple(lines), typed_number(n), facts)


def _status(process: Process) -> str:
    jobs = len(process.work)
    if process.silent_ms is None and not jobs:
        return "its record is gone, and its jobs with it"
    return f"{_last_heartbeat(process)}, {quantity(jobs, 'job')}"


def _last_heartbeat(process: Process) -> str:
    if process.silent_ms is not None:
        return f"last heartbeat {age(process.silent_ms)} ago"
    return "it never sent a heartbeat" if process.alive else "its record is gone"


class PruneSteps(ChangeSteps):
    """Remove silent processes from their program's register, one per step.

    The server checks each process again in the step that removes it. Skipped are those that sent a
    heartbeat (``alive``), changed during the check (``changed``) or were removed by somebody else
    (``unknown``).
    """

    def __init__(self, selection: ProcessSelection, *, rescue: bool) -> None:
        rescued = ", their jobs rescued" if rescue else ""
        what = f"processes {selection.what}{rescued}"
        super().__init__(selection.queue, "prune", len(selection.processes), what)
        self.jobs: Counter[str] = Counter(dict.fromkeys(("waiting", "dead", "lost"), 0))
        """what became of the jobs they were running"""
        self._selection = selection
        self._rescue = rescue
        self._at = 0

    async def step(self, size: int) -> int | None:
        if self._at >= self.outcome.matched:
            return None
        process = self._selection.processes[self._at]
        silent_ms = self._selection.silent_ms
        pruned = await self._selection.queue.prune_process.op(
            process.name,
            silent=None if silent_ms is None else silent_ms / 1000,
            rescue=self._rescue,
            op=self.op,
            step=self._at + 1,
        )
        self._at += 1
        if pruned.word != "pruned":
            return self.outcome.count({pruned.word: 1})
        self.jobs.update(waiting=pruned.waiting, dead=pruned.dead, lost=pruned.lost)
        return self.outcome.count({"moved": 1})


def job_outcomes(jobs: Counter[str]) -> Sequence[str]:
    """A phrase for each outcome of the pruned processes' jobs."""
    outcomes = {"waiting": "waiting again", "dead": "recorded as failed", "lost": "lost"}
    return [
        f"{quantity(n, 'job')} {text}" for outcome, text in outcomes.items() if (n := jobs[outcome])
    ]

"""Other programs' worker processes: who is registered, and striking those that are gone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from redisq_ops.core.engine.optional_features import HasWorkerProcesses
from redisq_ops.core.engine.queue import Queue
from redisq_ops.core.engine.queue_classes import foreign_class
from redisq_ops.core.engine.queue_types import LAYOUTS
from redisq_ops.core.model.errors import NotFound, Refused
from redisq_ops.core.model.worker_process import Process
from redisq_ops.core.redis.operation import attempt, together

from ..change import audit_log
from ..change.audit_log import Author, ChangeOutcome
from ..change.bulk import Plan, typed_number
from ..deployment import Deployment
from ..terminal import age, count

NAMED = 10
"""processes that a plan names"""


@dataclass(frozen=True, slots=True)
class Crew:
    """The processes of one register, seen through one of its queues. ``problem``: why they can't
    be read."""

    queue: HasWorkerProcesses[Any]
    processes: tuple[Process, ...] = ()
    problem: str | None = None


async def crews(deployment: Deployment) -> list[Crew]:
    """Every register that is known of here, once: of the queues in the registry, and of other
    programs' deployments where they usually are."""
    registered = await deployment.queues()
    found = [queue for queue in registered if isinstance(queue, HasWorkerProcesses)]
    classes = {kind: foreign_class(kind) for kind in LAYOUTS}
    kinds = [kind for kind, cls in classes.items() if cls and issubclass(cls, HasWorkerProcesses)]
    usual: list[Any] = await together(attempt(deployment.foreign(kind)) for kind in kinds)
    found += [one for one in usual if isinstance(one, HasWorkerProcesses)]
    once: dict[tuple[str, str], HasWorkerProcesses[Any]] = {}
    for queue in found:
        once.setdefault((queue.kind, queue.process_registry), queue)
    looks = await together(attempt(queue.worker_processes.op()) for queue in once.values())
    return [
        Crew(queue, problem=str(seen)) if isinstance(seen, Exception) else Crew(queue, tuple(seen))
        for queue, seen in zip(once.values(), looks, strict=True)
    ]


def listing(queue: Queue[Any]) -> HasWorkerProcesses[Any]:
    """The queue, if its owner lists worker processes; raises `Refused` otherwise."""
    if not isinstance(queue, HasWorkerProcesses):
        raise Refused(f"queue {queue.name} is a {queue.kind} queue: nobody lists its workers")
    return queue


@dataclass(frozen=True, slots=True)
class ProcessSelection:
    """Processes to strike: what was asked for, and what was seen then."""

    queue: HasWorkerProcesses[Any]
    processes: tuple[Process, ...]
    silent_ms: int | None
    """how long they have to be silent; None: as long as their owner waits"""

    @property
    def what(self) -> str:
        return "silent" if self.silent_ms is None else f"silent for {age(self.silent_ms)}"

    @property
    def jobs(self) -> int:
        """What they had in hand at their last beat."""
        return sum(len(process.work) for process in self.processes)


async def choose(
    queue: Queue[Any], name: str | None = None, silent_ms: int | None = None
) -> ProcessSelection:
    """The processes that were silent for so long, or the one of that name if it was."""
    listed = listing(queue)
    if not listed.prunes:
        raise Refused(f"queue {queue.name}: {queue.owner} itself removes processes that are gone")
    seen = await listed.worker_processes.op()
    if name is not None:
        seen = [process for process in seen if process.name == name]
        if not seen:
            raise NotFound(f"no process {name!r} is registered with {queue.name}")
        if seen[0].problem:
            raise Refused(f"process {name} can't be read: {seen[0].problem}")
        if not seen[0].silent_for(silent_ms):
            raise Refused(f"process {name} is alive: {_heard(seen[0])}")
    gone = [process for process in seen if process.silent_for(silent_ms)]
    return ProcessSelection(listed, tuple(gone), silent_ms)


def planned(chosen: ProcessSelection, rescue: bool) -> Plan:
    """What striking them will do."""
    queue, jobs, n = chosen.queue, chosen.jobs, len(chosen.processes)
    noun = "process" if n == 1 else "processes"
    lines = [f"{process.name}: {_told(process)}" for process in chosen.processes[:NAMED]]
    if n > NAMED:
        lines.append(f"and {count(n - NAMED)} more")
    if jobs and rescue:
        lines.append("what they had waits again, next in its queue; one that is only cut off and")
        lines[-1] += " not dead runs it as well"
    elif jobs:
        lines.append(queue.prune_note)
    lines.append("there is no undo; one that is alive after all goes on working")
    typed = typed_number(n)
    facts = {
        "verb": "prune", "queue": queue.name, "filter": chosen.what, "matched": n, "jobs": jobs,
        "rescue": rescue, "processes": [process.name for process in chosen.processes[:NAMED]],
    }  # fmt: skip
    title = f"prune {count(n)} {noun} of {queue.name} ({chosen.what})"
    title += f", with {_jobs(jobs)} in hand" if jobs else ""
    return Plan(title, tuple(lines), typed, facts)


def _jobs(n: int) -> str:
    return "1 job" if n == 1 else f"{count(n)} jobs"


def _told(process: Process) -> str:
    jobs = len(process.work)
    if process.silent_ms is None and not jobs:
        return "its record is gone, and with it what it had"
    return f"{_heard(process)}, {_jobs(jobs)}"


def _heard(process: Process) -> str:
    if process.silent_ms is not None:
        return f"heard of {age(process.silent_ms)} ago"
    return "it never beat" if process.alive else "its record is gone"


class Prune:
    """Strikes processes one by one, each looked at again by the server in the step that does it.
    Drive `step` until it says False.

    Skipped are those that were heard of (``alive``), changed while they were looked at
    (``changed``) or were struck by others (``unknown``).
    """

    pause = 0.0
    """seconds between steps; as a `Bulk` has it"""

    def __init__(self, chosen: ProcessSelection, author: Author, *, rescue: bool) -> None:
        self.chosen = chosen
        self.author = author
        self.rescue = rescue
        self.outcome = ChangeOutcome(audit_log.new_id("prune"), len(chosen.processes))
        self.jobs: Counter[str] = Counter(dict.fromkeys(("waiting", "dead", "lost"), 0))
        """what became of the jobs they had"""
        self._at = 0
        self._begun = False

    async def step(self) -> bool:
        """Strike the next one; False when all were dealt with."""
        queue, outcome = self.chosen.queue, self.outcome
        assert outcome.op is not None
        if not self._begun:
            what = f"processes {self.chosen.what}" + (", their jobs rescued" if self.rescue else "")
            await audit_log.begin(
                queue, outcome.op, "prune", self.author, what,
                now_ms=await queue.now.op(), matched=outcome.matched,
            )  # fmt: skip
            self._begun = True
        if self._at < outcome.matched:
            process = self.chosen.processes[self._at]
            said = await queue.prune_process.op(
                process.name, silent_ms=self.chosen.silent_ms, rescue=self.rescue,
                op=outcome.op, step=self._at + 1,
            )  # fmt: skip
            self._at += 1
            if said.word == "pruned":
                outcome.done += 1
                self.jobs.update(waiting=said.waiting, dead=said.dead, lost=said.lost)
            else:
                outcome.skip(said.word)
            return True
        await audit_log.note(queue, outcome.op, ended=1)
        return False

    async def reached(self) -> int:
        """How many were struck as the journal has it, also by a step that was not heard of."""
        assert self.outcome.op is not None
        operation = await audit_log.read(self.chosen.queue, self.outcome.op)
        return operation.done if operation else 0


def fates(jobs: Counter[str]) -> Sequence[str]:
    """What became of jobs, in words."""
    words = {
        "waiting": ("waits again", "wait again"),
        "dead": ("is a failure now", "are failures now"),
        "lost": ("is lost", "are lost"),
    }
    return [f"{_jobs(n)} {words[fate][n > 1]}" for fate in words if (n := jobs[fate])]

"""`redisq workers`: list, quiet, stop and prune the worker processes of other programs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import typer

from redisq_ops.core.model.exit_codes import DONE, INTERRUPTED, PARTLY_DONE
from redisq_ops.core.model.worker_command import WorkerWord
from redisq_ops.core.model.worker_process import Process
from redisq_ops.ops.filter.time import duration_ms

from ..confirm_and_run import agreed, drive, ended, nothing_matched
from ..options import QUEUE, Go, argument, command, flag, option, options
from ..output import age_or_none, emit, printable, say, table, untouched, when
from ..session import Session

if TYPE_CHECKING:
    from ..output_types.consumers import WorkerProcessOutput

commands = typer.Typer()
_workers = typer.Typer()
commands.add_typer(_workers, name="workers")
STATES: dict[bool | None, Literal["alive", "silent", "unknown"]] = {
    True: "alive",
    False: "silent",
    None: "unknown",
}


@command(_workers, "ls", prints="WorkerProcess", repeats=True)
def ls(s: Session, *, name: str | None = argument("[QUEUE]", "Queue; default: all queues.")) -> int:
    """List the worker processes that RQ, Sidekiq and other programs register: alive or silent,
    their last heartbeat, the jobs they hold. With a queue, also the workers of redisq that serve
    it.

    Examples:
      redisq workers ls
      redisq workers ls mail
      redisq workers ls sidekiq --json
    """
    from redisq_ops.core.engine.optional_features import HasWorkerProcesses, HasWorkerTraces
    from redisq_ops.ops.inspect.worker_processes import (
        ProcessRegister,
        process_registers,
        processes_of,
    )

    if name is None:
        registers = s.run(process_registers(s.deployment))
        nothing = "no queue here has an owner that lists its workers"
    else:
        queue = s.run(s.deployment.queue(name))
        shown = isinstance(queue, HasWorkerTraces) and not isinstance(queue, HasWorkerProcesses)
        nothing = f"no worker process is {'seen' if shown else 'registered'} with {queue.name}"
        registers = [ProcessRegister(queue, tuple(s.run(processes_of(queue))))]
    rows = [_row(each.queue.name, process) for each in registers for process in each.processes]
    if s.json:
        for row in rows:
            emit(row)
    elif rows:
        table(
            ["name", "register", "state", "silent", "busy", "since", "serves"],
            [
                [
                    row["name"],
                    row["queue"],
                    row["state"] + (", quiet" if row["quiet"] else ""),
                    age_or_none(row["silent_ms"]),
                    "-" if row["busy"] is None else row["busy"],
                    when(row["since_ms"], s.utc),
                    ", ".join(row["queues"]),
                ]
                for row in rows
            ],
        )
    elif not any(each.problem for each in registers):
        say(printable(nothing if name or not registers else "no worker process is registered"))
    for unknown in dict.fromkeys(filter(None, (each.unknown for each in registers))):
        say(printable(unknown))
    problems = [(each.queue.name, each.problem) for each in registers]
    problems += [
        (process.name, process.problem) for each in registers for process in each.processes
    ]
    for of, problem in problems:
        if problem:
            say(printable(f"{of}: {problem}"))
    return PARTLY_DONE if any(problem for _, problem in problems) else DONE


def _row(queue: str, process: Process) -> WorkerProcessOutput:
    """A process with stable JSON names."""
    return {
        "queue": queue,
        "name": process.name,
        "state": "unreadable" if process.problem else STATES[process.alive],
        "quiet": process.quiet if process.work_known else None,
        "silent_ms": process.silent_ms,
        "since_ms": process.since_ms,
        "busy": len(process.work) if process.work_known else None,
        "jobs": [work.id for work in process.work] if process.work_known else None,
        "host": process.host,
        "pid": process.pid,
        "queues": [*process.queues],
        "problem": process.problem,
    }


_WORKER = argument("NAME", "Worker, as `redisq workers ls` names it.")


@command(_workers, "quiet", prints="Plan Outcome")
def quiet(s: Session, *, name: str = QUEUE, worker: str = _WORKER, go: Go) -> int:
    """Tell a worker of another program to take no more jobs. What it has, it finishes. There is no
    undo.

    Examples:
      redisq workers quiet sidekiq box:78:4f5a --reason deploy --yes
    """
    return commanded(s, name, "quiet", worker, go)


@command(_workers, "stop", prints="Plan Outcome")
def stop(s: Session, *, name: str = QUEUE, worker: str = _WORKER, go: Go) -> int:
    """Tell a worker of another program to end, as its own tool does it. Exit 1 if nobody heard it.
    There is no undo. `redisq pending stop` ends the run of one job.

    Examples:
      redisq workers stop celery:mail celery@box --dry-run
      redisq workers stop rq 7b2c0f --reason reboot --yes
    """
    return commanded(s, name, "stop", worker, go)


def commanded(s: Session, name: str, word: WorkerWord, target: str, go: Go) -> int:
    """Send a command to a worker, or to the one that runs an entry."""
    from redisq_ops.ops.change.audit_log import Author
    from redisq_ops.ops.change.worker_command import (
        command_preview,
        heard_by,
        prepare_command,
        send_command,
    )

    queue = s.run(s.deployment.queue(name))
    change = s.run(prepare_command(queue, word, target))
    preview = command_preview(change)
    if not agreed(s, [preview], go):
        return DONE
    outcome, heard = s.run(send_command(change, Author.here(go.reason)))
    if not s.json:
        say(heard_by(heard))
    ended(s, outcome, preview.what, undo=False, more={"heard": heard})
    return outcome.exit_code


@options
class PruneOptions:
    name: str = QUEUE
    process: str | None = argument("[NAME]", "Process; default: all silent ones.")
    older_than: str | None = option(
        "--older-than", "AGE", "Minimum silence: 30s, 5m; default: the owner's own limit."
    )
    rescue: bool = flag(
        "--rescue/--no-rescue",
        "Move their jobs back to waiting, first in their queue. Without it "
        "Sidekiq loses them and Resque counts them as failed.",
        default=True,
    )
    go: Go


@command(_workers, "prune", prints="Plan Outcome")
def prune(s: Session, given: PruneOptions) -> int:
    """Remove dead worker processes from the register of Sidekiq or Resque, and rescue their jobs.
    Each process is checked again in the step that removes it. There is no undo.

    Examples:
      redisq workers prune sidekiq --dry-run
      redisq workers prune sidekiq --older-than 30s --yes
      redisq workers prune resque box:78:mail --reason rebooted --yes
    """
    from redisq_ops.ops.change.audit_log import Author
    from redisq_ops.ops.change.prune_processes import (
        PruneSteps,
        job_outcomes,
        prune_preview,
        select_processes,
    )
    from redisq_ops.ops.change.runner import ChangeRun

    silent_ms = None if given.older_than is None else duration_ms(given.older_than)
    with untouched():
        queue = s.run(s.deployment.queue(given.name))
        chosen = s.run(select_processes(queue, given.process, silent_ms))
    preview = prune_preview(chosen, given.rescue)
    if not chosen.processes:
        return nothing_matched(s, [preview], given.go.dry_run)
    if not agreed(s, [preview], given.go):
        return 0
    steps = PruneSteps(chosen, rescue=given.rescue)
    change = ChangeRun(steps, Author.here(given.go.reason))
    what = f"prune processes of {queue.name}"
    finished = drive(s, change, what)
    ended(s, change.outcome, what, undo=False, more={"jobs": dict(steps.jobs)})
    if not s.json:
        for line in job_outcomes(steps.jobs):
            say(line)
    return change.outcome.exit_code if finished else INTERRUPTED

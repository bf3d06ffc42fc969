"""`redisq workers`: the processes and consumers that work on queues; quiet and stop them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal

import typer

from redisq_ops.core.model.errors import Refused
from redisq_ops.core.model.exit_codes import DONE, PARTLY_DONE
from redisq_ops.core.model.worker_command import WorkerWord
from redisq_ops.core.model.worker_process import Process
from redisq_ops.ops.filter.time import duration_ms

from ..address import queues_named, tell_unread_queues
from ..completion import workers as workers_of
from ..confirm_and_run import agreed, ended
from ..options import MOST, QUEUE, QUEUES, Go, argument, command, option, options
from ..output import age, age_or_none, count, emit, printable, say, table, tell, when
from ..rows import tell_sentence
from ..session import Session

if TYPE_CHECKING:
    from redisq_ops.core.engine.queue import Queue
    from redisq_ops.ops.inspect.consumers import ConsumerReport
    from redisq_ops.ops.inspect.worker_processes import ProcessRegister

    from ..output_types.consumers import ConsumerReportOutput, WorkerProcessOutput

commands = typer.Typer()
workers = typer.Typer()
commands.add_typer(workers, name="workers")
STATES: dict[bool | None, Literal["alive", "silent", "unknown"]] = {
    True: "alive",
    False: "silent",
    None: "unknown",
}
AGES = ("<1m", "<10m", "<1h", "<1d", "≥1d")


@options
class ListOptions:
    names: list[str] | None = QUEUES
    group: str | None = option("--group", "ID", "Only of this group, or of this request.")
    silent_for: str = option(
        "--silent-for", "SPAN", "Report a consumer as silent after this time.", default="5m"
    )
    poison: int = option(
        "--poison",
        "N",
        "Report an entry as poison from N deliveries on.",
        min=2,
        max=MOST,
        default=10,
    )


@command(workers, "ls", prints="WorkerProcess ConsumerReport", repeats=True)
def ls(s: Session, given: ListOptions) -> int:
    """List the worker processes that RQ, Sidekiq and other programs register, and those of redisq
    that serve a named queue: alive or silent, their last heartbeat, the jobs they hold. Then, for
    each queue or consumer group, the lag, the entries that each consumer holds, since when, and how
    often they were delivered; silent consumers, and poison entries.

    Examples:
      redisq workers ls
      redisq workers ls sidekiq mail
      redisq workers ls stream:orders --silent-for 15m --json
    """
    silent_ms = duration_ms(given.silent_for)
    queues, refused = queues_named(s, given.names or ())
    registers = _registers(s, queues, named=bool(given.names))
    code = _print_processes(s, registers)
    printed = any(each.processes for each in registers)
    reports = list(_reports(s, queues, given, silent_ms))
    held = {
        one.queue for _, each in reports if isinstance(each, list) for one in each if one.pending
    }
    for each in registers if given.names else ():
        if not (each.processes or each.problem or each.queue.name in held):
            say(printable(f"no worker process is {_known(each.queue)} with {each.queue.name}"))
    if tell_unread_queues(refused):
        code = PARTLY_DONE
    first = not printed
    for queue, found in reports:
        if isinstance(found, Refused):
            code = PARTLY_DONE  # the other queues are shown
            say(printable(f"{queue.name}: {found}"))
        else:
            first = print_reports(s, found, given.poison, first=first, all=bool(given.names))
    if first and not given.names and not s.json and code == DONE:
        say("no worker process is registered, and no consumer holds an entry")
    return code


def _known(queue: Queue[Any]) -> str:
    """``seen`` where workers leave only traces, else ``registered``."""
    from redisq_ops.core.engine.optional_features import HasWorkerProcesses, HasWorkerTraces

    seen = isinstance(queue, HasWorkerTraces) and not isinstance(queue, HasWorkerProcesses)
    return "seen" if seen else "registered"


def _registers(s: Session, queues: Sequence[Queue[Any]], *, named: bool) -> list[ProcessRegister]:
    from redisq_ops.core.redis.operation import together
    from redisq_ops.ops.inspect.worker_processes import (
        ProcessRegister,
        process_registers,
        processes_of,
    )

    if not named:
        return s.run(process_registers(s.deployment))
    found = s.run(together(processes_of(queue) for queue in queues))
    return [ProcessRegister(*each) for each in zip(queues, map(tuple, found), strict=True)]


def _reports(
    s: Session, queues: Sequence[Queue[Any]], given: ListOptions, silent_ms: int
) -> Iterator[tuple[Queue[Any], list[ConsumerReport] | Refused]]:
    from redisq_ops.core.redis.operation import apart, together
    from redisq_ops.core.redis.server_errors import translate
    from redisq_ops.ops.inspect.consumers import consumer_reports

    read = s.run(
        together(
            apart(consumer_reports(queue, given.group, silent_ms=silent_ms, poison=given.poison))
            for queue in queues
        )
    )
    for queue, found in zip(queues, read, strict=True):
        if isinstance(found, Exception):
            known = translate(found)
            if len(given.names or ()) == 1 or not isinstance(known, Refused):
                raise found
            yield queue, known
        else:
            yield queue, found


def _print_processes(s: Session, registers: Sequence[ProcessRegister]) -> int:
    """Print the processes of registers, and what is unknown; returns the exit code."""
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


def print_reports(
    s: Session, reports: Sequence[ConsumerReport], poison: int, *, first: bool, all: bool
) -> bool:
    """Print reports, those without consumers only with ``all``. ``first``, and the result: whether
    nothing was printed so far."""
    for report in reports:
        if s.json:
            emit(_report_row(report))
        elif all or report.pending or report.consumers:
            if not first:
                print()
            first = False
            _print_report(report, poison)
    return first


def _report_row(report: ConsumerReport) -> ConsumerReportOutput:
    from redisq_ops.ops.inspect.consumers import AGES_MS, DELIVERIES

    lags = [load.lag for load in report.loads]
    return {
        "queue": report.queue,
        "group": report.group,
        "lag": None if None in lags else sum(lag for lag in lags if lag is not None),
        "pending": report.pending,
        "groups": [
            {"name": load.group, "pending": load.pending, "lag": load.lag, "again": load.again}
            for load in report.loads
        ],
        "consumers": [
            {
                "name": one.name,
                "pending": one.pending,
                "exact": one.exact,
                "idle_ms": one.idle_ms,
                "oldest_age_ms": one.oldest_ms,
                "late": one.late,
                "silent": one.silent_ms is not None,
                "silent_ms": one.silent_ms,
            }
            for one in report.consumers
        ],
        "heat": {
            "deliveries": [*DELIVERIES],
            "ages_ms": [*AGES_MS],
            "counts": [[*row] for row in report.heat],
        },
        "poison": report.poison,
        "scanned": report.looked,
    }


def _print_report(report: ConsumerReport, poison: int) -> None:
    from redisq_ops.ops.filter.scan import at_least
    from redisq_ops.ops.inspect.consumers import DELIVERIES

    inside = f", group {report.group}" if report.group else ""
    tell(f"queue {report.queue}{inside}")
    for load in report.loads[:20]:
        name = f"group {load.group}: " if load.group and load.group != report.group else ""
        lag = "unknown" if load.lag is None else count(load.lag)
        held = "unknown" if load.pending is None else count(load.pending)
        again = f", {count(load.again)} wait to run again" if load.again else ""
        tell_sentence(
            f"{name}lag {lag} (not delivered yet), pending {held} (delivered, not settled){again}"
        )
    if len(report.loads) > 20:
        tell(f"  … {len(report.loads) - 20:,} more groups")
    if report.consumers:
        print()
        table(
            ["consumer", "pending", "idle", "oldest", "leases over", ""],
            [
                [
                    one.name,
                    one.pending if one.exact else at_least(one.pending, exact=False),
                    age_or_none(one.idle_ms),
                    age_or_none(one.oldest_ms),
                    one.late,
                    "" if one.silent_ms is None else f"silent for {age(one.silent_ms)}",
                ]
                for one in report.consumers
            ],
        )
    if report.looked:
        names = [
            f"{n}" if after == n + 1 else f"{n}-{after - 1}" for n, after in pairwise(DELIVERIES)
        ] + [f"{DELIVERIES[-1]}+"]
        print()
        table(
            ["deliveries", *AGES],
            [[name, *(n or "" for n in row)] for name, row in zip(names, report.heat, strict=True)],
        )
        tell(f"  of the first {count(report.looked)} of {count(report.pending)} pending")
    for row in report.poison[:20]:
        times = (
            "given up for good" if row.deliveries is None else f"delivered {row.deliveries} times"
        )
        tell_sentence(f"poison: {row.id}, {times}, {row.consumer or 'nobody'} has it")
    if len(report.poison) > 20:
        tell(f"  … {len(report.poison) - 20:,} more delivered {poison} times or more")


_WORKER = argument("NAME", "Worker, as `redisq workers ls` names it.", workers_of)


@command(workers, "quiet", prints="Plan Outcome")
def quiet(s: Session, *, name: str = QUEUE, worker: str = _WORKER, go: Go) -> int:
    """Tell a worker of another program to take no more jobs. What it has, it finishes. There is no
    undo.

    Examples:
      redisq workers quiet sidekiq box:78:4f5a --reason deploy --yes
    """
    return commanded(s, name, "quiet", worker, go)


@command(workers, "stop", prints="Plan Outcome")
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

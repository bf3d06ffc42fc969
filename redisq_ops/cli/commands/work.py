"""`redisq work`: run a handler, or a program, for every entry."""

from __future__ import annotations

import os
import shlex
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from difflib import get_close_matches
from types import ModuleType
from typing import TYPE_CHECKING, Any

import typer

from redisq_ops.core.model.entry import Counts
from redisq_ops.core.model.errors import BadInput, RedisqError, WrongKind
from redisq_ops.core.model.exit_codes import DONE, INTERRUPTED
from redisq_ops.ops.filter.time import duration_ms
from redisq_ops.ops.hint import hint
from redisq_ops.ops.terminal import entries

from ..completion import queues
from ..options import argument, command, flag, option, options
from ..output import printable, say, when
from ..session import Session, start_logging

if TYPE_CHECKING:
    from redisq_ops.core.engine.queue import Queue
    from redisq_ops.core.worker import Worker
    from redisq_ops.core.worker.handler import HasTasks

commands = typer.Typer()
_MOST_PROCESSES = 1000


@dataclass(frozen=True, slots=True)
class _Job:
    """The options of a worker process; pickled if there are several processes."""

    flags: dict[str, str | None]
    context: str | None
    log: tuple[int, str]
    queues: tuple[str, ...]
    handler: str | None
    program: str | None
    consumer: str | None
    ping: str | None
    metrics: bool
    telemetry: bool
    options: dict[str, Any]

    def nth(self, index: int) -> _Job:
        """The job with the consumer name and port of process ``index``."""
        return replace(
            self,
            consumer=f"{self.consumer}.{index + 1}" if self.consumer else None,
            ping=None if self.ping is None else _nth_port(self.ping, index),
        )


def _nth_port(where: str, index: int) -> str:
    """PORT or HOST:PORT of process ``index``."""
    host, colon, port = where.rpartition(":")
    return f"{host}{colon}{int(port) + index}" if port.isdecimal() else where


@options
class WorkOptions:
    handler: str | None = argument(
        "[MODULE:FUNCTION]", "Function to call with each delivery, or a Tasks object."
    )
    program: str | None = option(
        "--exec", "CMD", "Program to run for each delivery, without a shell."
    )
    queue: list[str] | None = option(
        "--queue", "NAME", "Queue to work on; repeatable: queues take turns.", autocompletion=queues
    )
    concurrency: int = option("--concurrency", None, "Handlers that run at once.", default=1)
    processes: int = option("--processes", None, "Worker processes.", default=1)
    batch: int = option("--batch", None, "Entries to take at once, per handler.", default=1)
    lease: str = option(
        "--lease", "TIME", "Lease of a delivery; renewed while a handler runs.", default="30s"
    )
    grace: str = option(
        "--grace", "TIME", "Time for running handlers to finish on stop.", default="25s"
    )
    timeout: str | None = option("--timeout", "TIME", "Fail an entry that takes longer.")
    once: bool = flag("--burst", "Exit when no entry is left to take.")
    consumer: str | None = option("--consumer", "NAME", "Consumer name; default: host and process.")
    ping: str | None = option(
        "--ping", "[HOST:]PORT", "Where /healthz answers; without HOST: this machine only."
    )
    metrics: bool = flag("--metrics", "Serve /metrics for Prometheus on that port, too.")
    telemetry: bool = flag("--telemetry", "Report spans to OpenTelemetry (redisq-ops[otel]).")


@command(commands, "work", prints="")
def work(s: Session, given: WorkOptions) -> int:
    """Run a handler for every entry of a queue, until stopped (Ctrl+C or SIGTERM).

    An object of redisq_ops.tasks runs its tasks, and names its queues itself.
    A program gets the payload on stdin; its output is the result. Exit code 0 means done, 100 dead
    at once, any other failed; the end of stderr is kept as the error. If a queue does not exist
    yet, the worker waits for it; it does not create it.

    --burst exits when all queues are empty, or have only entries that are delayed, paused or held
    by other workers; it prints how many.

    Examples:
      redisq work jobs:handle --queue mail --concurrency 8
      redisq work --exec './convert --to pdf' --timeout 60s --processes 2
      redisq work jobs:handle --burst
      redisq work shop:jobs --concurrency 100
    """
    from redisq_ops.core.worker import run_processes
    from redisq_ops.core.worker.health import health_address

    tasks = _tasks(given.handler)
    if tasks is not None:
        if given.queue:
            raise BadInput(f"{given.handler} names its queues itself: leave --queue out")
        if s.context is None:  # what code says comes before the configuration
            s.flags["url"] = s.flags.get("url") or tasks.url
            s.flags["prefix"] = s.flags.get("prefix") or tasks.prefix
    s.writable()
    processes, timeout, ping = given.processes, given.timeout, given.ping
    if not 1 <= processes <= _MOST_PROCESSES:
        raise BadInput(f"processes {processes}: must be 1 to {_MOST_PROCESSES}")
    options = {
        "concurrency": given.concurrency,
        "batch": given.batch,
        "lease_ms": duration_ms(given.lease),
        "grace_s": duration_ms(given.grace) / 1000,
        "timeout_s": None if timeout is None else duration_ms(timeout) / 1000,
        "burst": given.once,
    }
    if given.metrics and ping is None:
        raise BadInput("--metrics is served beside /healthz: name its port with --ping PORT")
    if ping is not None:
        health_address(ping)
    names = tuple(given.queue or [s.config["queue"] or "default"])
    if tasks is not None:
        names = tuple(queue.name for queue in tasks.connect(s.client, s.deployment.prefix))
    job = _Job(
        s.flags,
        s.context,
        s.log,
        names,
        given.handler,
        given.program,
        given.consumer,
        ping,
        given.metrics,
        given.telemetry,
        options,
    )
    with _ctrl_c_noticed() as interrupted:
        _worker(s, replace(job, ping=None))  # report invalid options once, not in every process
        if tasks is None:  # whose names are not typed
            _tell_absent(s, job)
        if not given.once:  # a burst reports paused queues at its end
            _tell_paused(s, job)
            if sys.stderr.isatty():  # a log needs no greeting
                say(printable(f"working on {', '.join(names)}; Ctrl+C stops"))
        if processes == 1:
            _run(s, job)
            code = DONE
        else:
            s.client.close()
            code = run_processes(processes, _work_in_process, (job,))
        if interrupted():
            return INTERRUPTED
        if given.once:
            _tell_left(s, job)
        return code


def _tell_absent(s: Session, job: _Job) -> None:
    """Report queues that do not exist (yet), with similar names: it may be a typing error."""
    from redisq_ops.core.engine.registry import all_queues

    for name in _absent(s, job):
        existing = [entry.name for entry in s.run(all_queues(s.deployment.prefix))]
        similar = ", ".join(get_close_matches(name, existing))
        then = "nothing to do" if job.options["burst"] else "waiting for its first submit"
        hint = f" (there is {similar})" if similar else ""
        say(printable(f"queue {name} does not exist yet: {then}{hint}"))


def _tell_left(s: Session, job: _Job) -> None:
    """Report the entries that a finished burst left in its queues, and why."""
    from redisq_ops.core.redis.operation import both, together

    async def left(queue: Queue[Any]) -> tuple[Counts, int | None]:
        counts, delayed = await both(queue.counts.op(), queue.page.op("delayed", None, 1))
        return counts, delayed.entries[0].at_ms if delayed.entries else None

    try:
        queues = [queue for queue in _queues(s, job) if s.run(queue.exists.op())]
        found = s.run(together(map(left, queues)))
    except RedisqError as error:  # the burst has not failed: its work is done
        say(printable(f"all work that was found is done; what else there is isn't known: {error}"))
        return
    for queue, (counts, due_ms) in zip(queues, found, strict=True):
        due = None if due_ms is None else when(due_ms, s.utc)
        for text in _remainder(queue.name, counts, due):
            say(printable(f"queue {queue.name}: {text}"))


def _remainder(name: str, counts: Counts, due: str | None) -> Iterator[str]:
    """The entries that a burst left in a queue, a sentence for each state."""

    def number(n: int) -> str:
        return f"{entries(n)} {'is' if n == 1 else 'are'}"

    if counts.waiting and counts.paused is not None:
        resume = hint("queue", "resume", name)
        yield f"paused ({counts.paused}), {number(counts.waiting)} waiting; resume with: {resume}"
    elif counts.waiting:
        why = "came just now, or can't be taken (paused, blocked, or at a limit)"
        yield f"{number(counts.waiting)} still waiting, which {why}: {hint('explain', name)}"
    if counts.delayed:
        when = f", the first is due at {due}" if due else ""
        yield f"{number(counts.delayed)} delayed (for a retry, or by a schedule){when}"
    if counts.pending:
        yield f"{number(counts.pending)} pending at other workers"


def _tell_paused(s: Session, job: _Job) -> None:
    """Report paused queues: their entries are not delivered, so a worker looks idle."""
    from redisq_ops.core.redis.operation import together

    queues = _queues(s, job)
    found = s.run(together(queue.settings.op() for queue in queues))
    for queue, settings in zip(queues, found, strict=True):
        if (why := settings.get("paused")) is not None:
            then = f"nothing is taken until you run {hint('queue', 'resume', queue.name)}"
            say(printable(f"queue {queue.name} is paused ({why}): {then}"))


def _absent(s: Session, job: _Job) -> list[str]:
    from redisq_ops.core.redis.operation import together

    queues = _queues(s, job)
    exist = s.run(together(queue.exists.op() for queue in queues))
    return [queue.name for queue, exists in zip(queues, exist, strict=True) if not exists]


def _queues(s: Session, job: _Job) -> list[Queue[Any]]:
    from redisq_ops.core.redis.operation import together
    from redisq_ops.ops.files.submit import opened

    deployment = s.deployment  # connects: after an error there is no coroutine left to await
    if (tasks := _tasks(job.handler)) is not None:
        return [*tasks.connect(deployment.client, deployment.prefix)]
    return s.run(together(opened(deployment, name) for name in job.queues))


def _run(s: Session, job: _Job) -> None:
    """Work until stopped; start again if an absent queue was created as another kind."""
    if (tasks := _tasks(job.handler)) is not None:
        _queues(s, job)
        tasks.declare_schedules()
    absent = _absent(s, job)
    try:
        while True:
            try:
                return _worker(s, job).run()
            except WrongKind:
                before, absent = absent, _absent(s, job)
                if absent == before:  # an existing queue is of a kind that workers can't serve
                    raise
    finally:
        if job.telemetry:
            _telemetry().flush()


def _worker(s: Session, job: _Job) -> Worker:
    from redisq_ops.core.worker import Worker
    from redisq_ops.core.worker.handler import Handler, exec_handler, load_handler

    queues = _queues(s, job)
    if job.handler and not job.program:
        found = load_handler(job.handler)
        concurrency = job.options["concurrency"]
        handler = found if isinstance(found, Handler) else found.handler(concurrency)
    elif job.program and not job.handler:
        try:
            argv = shlex.split(job.program)
        except ValueError as error:
            raise BadInput(f"--exec {job.program}: {error}") from error
        handler = exec_handler(argv)
    else:
        raise BadInput("give either a handler, MODULE:FUNCTION, or --exec CMD")
    s.role = "worker"
    redaction = s.config.redaction
    pages = None
    if job.metrics:
        from redisq_ops.ops.handler_metrics import HandlerMetrics

        metrics = HandlerMetrics()
        handler, pages = metrics.measured(handler), {"/metrics": metrics.page}
    if job.telemetry:
        telemetry = _telemetry().from_environment()
        handler, queues = telemetry.handler(handler), [telemetry.queue(queue) for queue in queues]
    return Worker(
        queues,
        handler,
        consumer=job.consumer,
        ping=job.ping,
        pages=pages,
        in_order=bool(handler.tasks),
        redacted=lambda failure: redaction.failure(failure) or failure,
        **job.options,
    )


def _tasks(handler: str | None) -> HasTasks | None:
    """The tasks of MODULE:OBJECT; None: it is a function, or a program is run."""
    from redisq_ops.core.worker.handler import HasTasks, load_handler

    found = load_handler(handler) if handler else None
    return found if isinstance(found, HasTasks) else None


def _telemetry() -> ModuleType:
    """The module that records spans; it needs the packages of the extra ``otel``."""
    try:
        from redisq_ops import telemetry
    except ImportError as error:
        raise BadInput(f"--telemetry: {error}") from error
    return telemetry


def _work_in_process(index: int, job: _Job) -> None:
    start_logging(*job.log)
    try:
        _run(Session(job.flags, job.context), job.nth(index))
    except RedisqError as error:
        say(f"redisq: {error}")
        sys.exit(error.exit_code)


@contextmanager
def _ctrl_c_noticed() -> Iterator[Callable[[], bool]]:
    """A function that returns whether Ctrl+C was pressed, even if the worker handled it.

    After SIGTERM the exit code is 0, after Ctrl+C 130.
    """
    received, written = os.pipe()
    os.set_blocking(received, False)
    os.set_blocking(written, False)
    before = signal.set_wakeup_fd(written, warn_on_full_buffer=False)

    def pressed() -> bool:
        try:
            return signal.SIGINT in os.read(received, 4096)
        except BlockingIOError:
            return False

    try:
        yield pressed
    finally:
        signal.set_wakeup_fd(before)
        os.close(received)
        os.close(written)

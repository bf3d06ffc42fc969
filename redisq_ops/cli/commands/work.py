"""`redisq work`: run a handler, or a program, for every entry."""

from __future__ import annotations

import logging
import os
import shlex
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import typer

from redisq_ops.core.model.entry import Counts
from redisq_ops.core.model.errors import BadInput, NotFound, RedisqError, WrongKind
from redisq_ops.core.model.exit_codes import DONE, FAILED, INTERRUPTED, PARTLY_DONE
from redisq_ops.ops.filter.time import duration_ms
from redisq_ops.ops.hint import hint
from redisq_ops.ops.terminal import entries

from ..completion import queues
from ..options import argument, command, flag, option, options
from ..output import printable, when
from ..session import Session, start_logging

if TYPE_CHECKING:
    from redisq_ops.core.engine.queue import Queue
    from redisq_ops.core.worker import Worker
    from redisq_ops.core.worker.handler import HasTasks
    from redisq_ops.core.worker.queue_source import Tally

commands = typer.Typer()
log = logging.getLogger("redisq_ops.worker")
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
    since: float | None
    """where handlers are loaded again after a change: when loading began, in seconds since 1970"""
    ends: Any
    """attempts that are done, and that failed, of each process in turn; shared by them"""
    index: int = 0
    """number of the process"""

    def nth(self, index: int) -> _Job:
        """The job with the consumer name and port of process ``index``."""
        return replace(
            self,
            index=index,
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
    concurrency: int | None = option(
        "--concurrency", None, "Handlers that run at once; default: 1, of a Tasks object its own."
    )
    processes: int = option("--processes", None, "Worker processes.", default=1)
    batch: int = option("--batch", None, "Entries to take at once, per handler.", default=1)
    lease: str = option(
        "--lease", "TIME", "Lease of a delivery; renewed while a handler runs.", default="30s"
    )
    grace: str = option(
        "--grace", "TIME", "Time for running handlers to finish on stop.", default="25s"
    )
    timeout: str | None = option("--timeout", "TIME", "Fail an entry that takes longer.")
    once: bool = flag("--burst", "Exit when no entry is left to take; for cron.")
    must_exist: bool = flag("--must-exist", "Fail if a queue doesn't exist.")
    reload: bool = flag("--reload", "Start again when a handler's source file changes.")
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
    by other workers; it logs how many. Exit code 0: all that it took is done, or there was nothing
    to take; 3: a part failed; 1: all failed.

    The log is on stderr, with the lines that handlers log.

    Examples:
      redisq work jobs:handle --queue mail --concurrency 8
      redisq work --exec './convert --to pdf' --timeout 60s --processes 2
      redisq work jobs:handle --burst
      redisq work jobs:handle --reload
      redisq work shop:jobs --concurrency 100
    """
    from redisq_ops.core.worker.handler import UnfitHandler
    from redisq_ops.core.worker.reload import SourceWatch, restart

    start_logging(*s.log, worker=True)
    s.role = "worker"
    if not given.reload:
        return _work(s, given, None)
    if given.processes != 1 or given.program:
        raise BadInput("--reload is for one process, and for handlers in Python")
    sys.dont_write_bytecode = True  # two changes in one second may look the same to Python
    since = time.time()
    try:
        return _work(s, given, since)
    except UnfitHandler as error:
        cause = error.__cause__
        shown = (SyntaxError, cause, None) if isinstance(cause, SyntaxError) else None
        log.error("%s; waiting for a change", error, exc_info=shown)
        SourceWatch(since, error).wait()
        restart()


def _work(s: Session, given: WorkOptions, since: float | None) -> int:
    """``since``: with --reload, when loading began."""
    from multiprocessing.sharedctypes import RawArray

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
    concurrency = given.concurrency
    if concurrency is None:
        concurrency = 1 if tasks is None else tasks.concurrency
    options = {
        "concurrency": concurrency,
        "batch": given.batch,
        "lease": duration_ms(given.lease) / 1000,
        "grace": duration_ms(given.grace) / 1000,
        "timeout": None if timeout is None else duration_ms(timeout) / 1000,
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
        since,
        [0, 0] if processes == 1 else RawArray("q", 2 * processes),
    )
    with _ctrl_c_noticed() as interrupted:
        _worker(s, replace(job, ping=None))  # report invalid options once, not in every process
        if tasks is None or given.must_exist:  # tasks name their queues: nobody typed them
            _tell_absent(s, job, given.must_exist)
        if not given.once:  # a burst reports paused queues at its end
            _tell_paused(s, job)
        code = DONE
        if processes == 1:
            _run(s, job)
        else:
            s.client.close()
            code = run_processes(processes, _work_in_process, (job,))
        if interrupted():
            return INTERRUPTED
        if not given.once or code != DONE:
            return code
        _tell_left(s, job)
        done, failed = sum(job.ends[::2]), sum(job.ends[1::2])
        return DONE if not failed else PARTLY_DONE if done else FAILED


def _tell_absent(s: Session, job: _Job, must_exist: bool) -> None:
    """Report queues that do not exist (yet), with similar names: it may be a typing error.

    Raises `NotFound` if they must exist.
    """
    from redisq_ops.core.engine.registry import all_queues

    for name in _absent(s, job):
        existing = [entry.name for entry in s.run(all_queues(s.deployment.prefix))]
        similar = ", ".join(get_close_matches(name, existing))
        then = "nothing to do" if job.options["burst"] else "waiting for its first submit"
        hint = f" (there is {similar})" if similar else ""
        if must_exist:
            raise NotFound(f"queue {name} does not exist{hint}")
        log.warning("%s", printable(f"queue {name} does not exist yet: {then}{hint}"))


def _tell_left(s: Session, job: _Job) -> None:
    """Report the entries that a finished burst left in its queues, and why."""
    from redisq_ops.core.redis.operation import together

    async def left(queue: Queue[Any]) -> tuple[Counts, int | None]:
        counts, delayed = await together(queue.counts.op(), queue.page.op("delayed", None, 1))
        return counts, delayed.entries[0].at_ms if delayed.entries else None

    try:
        queues = [queue for queue in _queues(s, job) if s.run(queue.exists.op())]
        found = s.run(together(map(left, queues)))
    except RedisqError as error:  # the burst has not failed: its work is done
        log.warning("what is left isn't known: %s", error)
        return
    for queue, (counts, due_ms) in zip(queues, found, strict=True):
        due = None if due_ms is None else when(due_ms, s.utc)
        for text in _remainder(queue.name, counts, due):
            log.info("%s", printable(f"queue {queue.name}: {text}"))


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
            log.warning("%s", printable(f"queue {queue.name} is paused ({why}): {then}"))


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
    """Work until stopped; start again if an absent queue was created as another kind, or after a
    change of source files."""
    from redisq_ops.core.worker.reload import CHANGED, restart

    if (tasks := _tasks(job.handler)) is not None:
        _queues(s, job)
        tasks.declare_schedules()
    absent = _absent(s, job)
    try:
        while True:
            try:
                tally = _watched(_worker(s, job), job.since)
                break
            except WrongKind:
                before, absent = absent, _absent(s, job)
                if absent == before:  # an existing queue is of a kind that workers can't serve
                    raise
    finally:
        if job.telemetry:
            _telemetry().flush()
    if tally.why == CHANGED:
        restart()
    job.ends[2 * job.index] += tally.done
    job.ends[2 * job.index + 1] += tally.retried + tally.dead + tally.lost + tally.unsent


def _watched(worker: Worker, since: float | None) -> Tally:
    """Run a worker; with --reload until a source file changes."""
    from redisq_ops.core.worker.reload import CHANGED, SourceWatch

    if since is None:
        return worker.run()

    def changed(file: Path) -> None:
        log.warning("%s changed: starting again", file.name)
        worker.stop(CHANGED)

    watch = SourceWatch(since)
    watch.call(changed)
    try:
        return worker.run()
    finally:
        watch.close()


def _worker(s: Session, job: _Job) -> Worker:
    from redisq_ops.core.worker import Worker
    from redisq_ops.core.worker.handler import Handler, exec_handler, load_handler

    queues = _queues(s, job)
    if job.handler and not job.program:
        found = load_handler(job.handler)
        log.disabled = False  # its code may have set up logging, which switches off other loggers
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
    start_logging(*job.log, worker=True)
    try:
        _run(Session(job.flags, job.context, role="worker"), job.nth(index))
    except RedisqError as error:
        log.error("%s", error)
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

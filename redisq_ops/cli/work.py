"""Real work in, real work out: submit, work, wait, results."""

from __future__ import annotations

import os
import shlex
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO

import typer

from redisq_ops.core.settings import LIMIT, MAX_PAYLOAD, PRIORITY

from .app import app
from .session import Session, session, start_logging

if TYPE_CHECKING:
    from redisq_ops.core.request import RequestQueue
    from redisq_ops.core.request.outcomes import Outcome
    from redisq_ops.core.values import Request
    from redisq_ops.core.worker import Worker
    from redisq_ops.ops.submission import EachLine, Submission

POLL_S = 0.2
_MANY = 100_000

OneQueue = Annotated[str | None, typer.Option("--queue", metavar="NAME", help="The queue.")]
Timeout = Annotated[
    str | None, typer.Option(metavar="TIME", help="Give up after this time (90s, 5m): exit 124.")
]


# --- submit ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Plan:
    """A submission as it was asked for, and how to ask for it again."""

    file: str
    queue: str
    id: str
    limit: int
    priority: int
    split: int
    max_payload: int
    per_line: bool

    def words(self) -> list[str]:
        options: list[tuple[str, str | int, str | int]] = [
            ("--queue", self.queue, ""),
            ("--id", self.id, ""),
            ("--limit", self.limit, LIMIT),
            ("--priority", self.priority, PRIORITY),
            ("--split", self.split, 1),
            ("--max-payload", self.max_payload, MAX_PAYLOAD),
        ]
        words = ["submit", self.file, *(["--per-line"] if self.per_line else [])]
        for name, value, default in options:
            if value != default:
                words += [name, str(value)]
        return words


@app.command()
def submit(
    context: typer.Context,
    file: Annotated[str, typer.Argument(metavar="FILE", help="Lines of any bytes; - is stdin.")],
    queue: OneQueue = None,
    id: Annotated[str | None, typer.Option(help="The request's id, else a new ULID.")] = None,
    limit: Annotated[int, typer.Option(help="Sub-requests worked on at once, 1 to 1000.")] = LIMIT,
    priority: Annotated[int, typer.Option(help="0 (first) to 99.")] = PRIORITY,
    split: Annotated[int, typer.Option(help="Lines per sub-request.")] = 1,
    per_line: Annotated[
        bool, typer.Option("--per-line", help="A request per line: ID-1, ID-2, …")
    ] = False,
    max_payload: Annotated[int, typer.Option(help="Bytes a sub-request may have.")] = MAX_PAYLOAD,
    wait: Annotated[bool, typer.Option("--wait", help="Then wait for it, as redisq wait.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Count; send nothing.")] = False,
) -> int:
    """Submit a file: one request, a sub-request per line. Prints the request's id.

    Interrupted anywhere, the same command with the same --id goes on where it stopped, from stdin
    too. Of a line its end (a line feed) is removed; empty lines are sub-requests as well.
    """
    from redisq_ops.core.errors import BadInput
    from redisq_ops.ops.submission import lines, measured, ulid

    now = session(context)
    if split < 1 or (per_line and (split > 1 or wait)):
        raise BadInput("--split is for 1 or more lines, and not for --per-line, nor is --wait")
    plan = _Plan(
        file, queue or now.config["queue"] or "default", id or ulid(), limit, priority, split,
        max_payload, per_line,
    )  # fmt: skip
    with _opened(file) as source:
        total = None
        if source.seekable():
            start = source.tell()
            size = measured(source)
            source.seek(start)
            total = -(-size.lines // split)
            if per_line and total > _MANY:
                _warn(total, size.bytes)
        payloads = lines(source, max_payload, split)
        first = next(payloads, None)
        if first is None:
            raise BadInput(f"{file} is empty: nothing to submit")
        payloads = chain([first], payloads)
        if dry_run:
            return _counted(now, plan, payloads)
        now.writable()
        job = _submitted(now, plan, payloads, total)
    return _waited(now, [(job.queue, plan.id)], None) if wait else 0


def _submitted(
    now: Session, plan: _Plan, payloads: Iterator[bytes], total: int | None
) -> Submission | EachLine:
    from redisq_ops.core.errors import RedisqError
    from redisq_ops.ops.control import requests_of
    from redisq_ops.ops.submission import EachLine, Submission, opened

    from .output import emit, progress

    kind = EachLine if plan.per_line else Submission
    queue = requests_of(now.run(opened(now.deployment, plan.queue)))
    job = kind(queue, payloads, id=plan.id, priority=plan.priority, limit=plan.limit)
    warned = total is not None
    try:
        with progress(f"submitting {plan.id}", total) as meter:
            while now.run(job.step()):
                meter(job.read, total)
                if plan.per_line and not warned and job.sent > _MANY:
                    warned = True
                    _warn(job.sent, 0)
    except (RedisqError, KeyboardInterrupt) as error:
        if left := _left(now, plan, job, error):
            raise _interrupted(now, error, left) from error
        raise
    assert job.done is not None
    if now.json:
        done = job.done
        emit({"id": plan.id, "queue": plan.queue, "word": done.word, "total": done.total,
              "state": done.state})  # fmt: skip
    else:
        print(plan.id)
    sys.stdout.flush()
    return job


def _left(now: Session, plan: _Plan, job: Submission | EachLine, error: BaseException) -> list[str]:
    """What an interrupted submission leaves behind, and what can be done about it."""
    from redisq_ops.core.errors import Exists, Refused

    from .output import count

    under_way = job.read > job.sent
    if not job.sent and not (under_way and not isinstance(error, Refused)):
        return []
    if isinstance(error, Exists) and not plan.per_line:
        return []
    sent = f"{'at least ' if under_way else ''}{count(job.sent)}"
    again = ("… | " if plan.file == "-" else "") + _command(now, plan.words())
    if plan.per_line:
        return [f"{sent} requests {plan.id}-1, … are there", f"continue: {again}"]
    cancel = _command(now, ["request", "cancel", f"{plan.queue}/{plan.id}"])
    return [
        f"request {plan.id} stays open with {sent} sub-requests",
        f"continue: {again}",
        f"cancel:   {cancel}",
    ]


def _interrupted(now: Session, error: BaseException, left: list[str]) -> BaseException:
    """For a person the lines go before the error; for a program into it."""
    from redisq_ops.core.errors import RedisqError

    from .output import say

    if not now.json:
        for line in left:
            say(line)
        return error
    said = error if isinstance(error, RedisqError) else "interrupted"
    whole = RedisqError("; ".join([str(said), *left]))
    whole.exit_code = error.exit_code if isinstance(error, RedisqError) else 130
    return whole


def _command(now: Session, words: list[str]) -> str:
    """A command line to copy, for the same server; never with a password."""
    from redisq_ops.core.connect import Target

    flags = dict(now.flags, context=now.context)
    if url := flags.get("url"):
        flags["url"] = str(Target(url))
    given = [word for name, value in flags.items() if value for word in (f"--{name}", value)]
    return shlex.join(["redisq", *words, *given])


def _counted(now: Session, plan: _Plan, payloads: Iterator[bytes]) -> int:
    from .output import count, emit

    total = lines = size = 0
    for payload in payloads:
        total += 1
        lines += payload.count(b"\n") + 1
        size += len(payload)
    if now.json:
        emit({"id": plan.id, "queue": plan.queue, "word": "dry-run", "total": total,
              "state": None, "lines": lines, "bytes": size})  # fmt: skip
    else:
        what = "requests of one" if plan.per_line else "sub-requests of one request"
        print(f"{count(lines)} lines, {count(size)} bytes: {count(total)} {what}, not sent")
    return 0


def _warn(requests: int, size: int) -> None:
    from redisq_ops.ops.submission import memory
    from redisq_ops.ops.terminal import size as shown

    from .output import count, say

    say(
        f"{count(requests)} requests take about {shown(memory(requests, size))} of the server's "
        "memory; without --per-line they would be one request, and small"
    )


def _opened(file: str) -> BinaryIO:
    from redisq_ops.core.errors import BadInput

    if file == "-":
        return sys.stdin.buffer
    try:
        return open(file, "rb")
    except OSError as error:
        raise BadInput(f"{file}: {error.strerror}") from error


# --- work -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Job:
    """What a worker process is told; pickled for each of several."""

    flags: dict[str, str | None]
    context: str | None
    log: tuple[int, str]
    queues: tuple[str, ...]
    handler: str | None
    program: str | None
    consumer: str | None
    ping: int | None
    options: dict[str, Any]

    def nth(self, index: int) -> _Job:
        """The same under a name and a port of its own."""
        return replace(
            self,
            consumer=f"{self.consumer}.{index + 1}" if self.consumer else None,
            ping=None if self.ping is None else self.ping + index,
        )


@app.command()
def work(
    context: typer.Context,
    handler: Annotated[
        str | None, typer.Argument(metavar="MODULE:FUNCTION", help="Called with each delivery.")
    ] = None,
    program: Annotated[
        str | None,
        typer.Option("--exec", metavar="CMD", help="A program to run instead, without a shell."),
    ] = None,
    queue: Annotated[
        list[str] | None, typer.Option("--queue", metavar="NAME", help="Several: in turn.")
    ] = None,
    concurrency: Annotated[int, typer.Option(help="Handlers at a time.")] = 1,
    processes: Annotated[int, typer.Option(help="Worker processes.")] = 1,
    batch: Annotated[int, typer.Option(help="Entries taken at once, per handler.")] = 1,
    lease: Annotated[str, typer.Option(metavar="TIME", help="Renewed while working.")] = "30s",
    grace: Annotated[
        str, typer.Option(metavar="TIME", help="For what is running when asked to stop.")
    ] = "25s",
    timeout: Annotated[
        str | None, typer.Option(metavar="TIME", help="An entry that takes longer has failed.")
    ] = None,
    once: Annotated[
        bool, typer.Option("--once", "--burst", help="End when nothing is waiting.")
    ] = False,
    consumer: Annotated[str | None, typer.Option(help="Its name, else host and process.")] = None,
    ping: Annotated[int | None, typer.Option(help="Port for a monitor and /healthz.")] = None,
) -> int:
    """Run a handler for every entry of a queue, until stopped (Ctrl+C or SIGTERM).

    A program gets the payload on stdin; what it writes is the result. Exit 0 is done, 100 dead at
    once, anything else a failure with the end of its stderr.
    """
    from redisq_ops.core.errors import BadInput
    from redisq_ops.core.worker import run_processes
    from redisq_ops.ops.moment import duration_ms

    now = session(context)
    now.writable()
    if processes < 1:
        raise BadInput(f"processes {processes}: 1 or more")
    options = {
        "concurrency": concurrency,
        "batch": batch,
        "lease_ms": duration_ms(lease),
        "grace_s": duration_ms(grace) / 1000,
        "timeout_s": duration_ms(timeout) / 1000 if timeout else None,
        "burst": once,
    }
    names = tuple(queue or [now.config["queue"] or "default"])
    job = _Job(now.flags, now.context, now.log, names, handler, program, consumer, ping, options)
    with _heeding_ctrl_c() as interrupted:
        if processes == 1:
            _worker(now, job).run()
            code = 0
        else:
            _worker(now, replace(job, ping=None))  # what can't work, is said once and here
            now.client.close()
            code = run_processes(processes, _work_in_process, (job,))
        return 130 if interrupted() else code


def _worker(now: Session, job: _Job) -> Worker:
    from redisq_ops.core.errors import BadInput
    from redisq_ops.core.handler import exec_handler, load_handler
    from redisq_ops.core.io import together
    from redisq_ops.core.worker import Worker
    from redisq_ops.ops.submission import opened

    if job.handler and not job.program:
        handler = load_handler(job.handler)
    elif job.program and not job.handler:
        handler = exec_handler(shlex.split(job.program))
    else:
        raise BadInput("work takes a handler, MODULE:FUNCTION, or --exec CMD, and not both")
    now.role = "worker"
    queues = now.run(together(opened(now.deployment, name) for name in job.queues))
    return Worker(queues, handler, consumer=job.consumer, ping=job.ping, **job.options)


def _work_in_process(index: int, job: _Job) -> None:
    from redisq_ops.core.errors import RedisqError

    start_logging(*job.log)
    try:
        _worker(Session(job.flags, job.context), job.nth(index)).run()
    except RedisqError as error:
        print(f"redisq: {error}", file=sys.stderr)
        sys.exit(error.exit_code)


@contextmanager
def _heeding_ctrl_c() -> Iterator[Callable[[], bool]]:
    """Tells whether Ctrl+C was pressed, whoever handled it: a stop by SIGTERM ends with 0."""
    ours, pythons = os.pipe()
    os.set_blocking(ours, False)
    os.set_blocking(pythons, False)
    before = signal.set_wakeup_fd(pythons, warn_on_full_buffer=False)

    def pressed() -> bool:
        try:
            return signal.SIGINT in os.read(ours, 4096)
        except BlockingIOError:
            return False

    try:
        yield pressed
    finally:
        signal.set_wakeup_fd(before)
        os.close(ours)
        os.close(pythons)


# --- wait -----------------------------------------------------------------------------------------

waiting = typer.Typer(help="Wait for requests to end, or for counts.", no_args_is_help=True)
app.add_typer(waiting, name="wait")


@waiting.command("request")
def wait_request(
    context: typer.Context,
    requests: Annotated[list[str], typer.Argument(metavar="ID…", help="Ids, or QUEUE/REQUEST.")],
    queue: OneQueue = None,
    timeout: Timeout = None,
) -> int:
    """Wait for requests to end. Exit 0 all done, 3 some with dead, 1 cancelled, 124 too late."""
    from redisq_ops.ops.moment import duration_ms

    now = session(context)
    limit = duration_ms(timeout) / 1000 if timeout else None
    return _waited(now, [_request(now, text, queue) for text in requests], limit)


def _waited(
    now: Session, requests: list[tuple[RequestQueue[Any], str]], timeout_s: float | None
) -> int:
    from redisq_ops.core.completion import wait
    from redisq_ops.core.errors import RedisqError

    from .output import count, emit, progress

    by_queue: dict[str, tuple[RequestQueue[Any], list[str]]] = {}
    for queue, id in requests:
        by_queue.setdefault(queue.name, (queue, []))[1].append(id)
    ends = None if timeout_s is None else time.monotonic() + timeout_s
    seen: dict[tuple[str, str], Request] = {}
    code = 0
    with progress("waiting") as meter:
        for name, (queue, ids) in by_queue.items():

            def show(request: Request, name: str = name) -> None:
                seen[name, request.id] = request
                settled = sum(r.done + r.dead + r.trash for r in seen.values())
                meter(settled, sum(r.total for r in seen.values()))

            left = None if ends is None else max(0.0, ends - time.monotonic())
            try:
                for request in wait(queue, ids, left, progress=show):
                    if request.state == "cancelled":
                        code = 1
                    elif request.dead and code == 0:
                        code = 3
                    if now.json:
                        emit(request)
                    else:
                        dead = f", {count(request.dead)} dead" if request.dead else ""
                        print(f"{request.id} {request.state}: {count(request.done)} done{dead}")
                    sys.stdout.flush()
            except TimeoutError as error:
                late = RedisqError(f"timed out; {error}")
                late.exit_code = 124
                raise late from error
    return code


@waiting.command("when")
def wait_when(
    context: typer.Context,
    expression: Annotated[
        str, typer.Argument(metavar="EXPR", help="'waiting==0', 'dead>0 or waiting>=1000'")
    ],
    queue: OneQueue = None,
    timeout: Timeout = None,
) -> int:
    """Wait until a queue's counts are so; looked at five times a second.

    Counts are waiting, pending, delayed, dead, trash and done; < <= == != >= > compare; and, or and
    parentheses combine.
    """
    from redisq_ops.core.errors import RedisqError
    from redisq_ops.core.values import STATES
    from redisq_ops.ops.condition import condition
    from redisq_ops.ops.moment import duration_ms

    from .output import emit, progress

    now = session(context)
    holds = condition(expression)
    ends = time.monotonic() + duration_ms(timeout) / 1000 if timeout else None
    name = queue or now.config["queue"] or "default"
    watched = now.run(now.deployment.queue(name))
    with progress(f"waiting until {expression}") as meter:
        while not holds(counts := now.run(watched.counts.op())):
            meter(counts.done, counts.done + counts.waiting + counts.pending + counts.delayed)
            if ends is not None and time.monotonic() >= ends:
                late = RedisqError(f"timed out; still not {expression} in queue {name}")
                late.exit_code = 124
                raise late
            time.sleep(POLL_S)
    states = {state: getattr(counts, state) for state in STATES}
    if now.json:
        emit({"name": name, **states})
    else:
        print(f"{name}: " + ", ".join(f"{n} {state}" for state, n in states.items()))
    return 0


# --- results --------------------------------------------------------------------------------------


@app.command()
def results(
    context: typer.Context,
    request: Annotated[str, typer.Argument(metavar="ID", help="An id, or QUEUE/REQUEST.")],
    queue: OneQueue = None,
    raw: Annotated[
        bool, typer.Option("--raw", help="The bytes of each result and a line feed, no JSON.")
    ] = False,
) -> None:
    """The results of a request in order, a JSON object per sub-request.

    It has n and state, then result (text), result_b64 (other bytes) or, where dead, error; result
    is null where there is none. --raw leaves those out.
    """
    from redisq_ops.ops.results import Results

    from .output import count, emit, say

    now = session(context)
    look = Results(*_request(now, request, queue))
    record = now.run(look.request())
    while page := now.run(look.page()):
        for outcome in page:
            if not raw:
                emit(_row(outcome))
            elif outcome.result is not None:
                sys.stdout.buffer.write(outcome.result + b"\n")
    if record.results_dropped:
        say(f"{count(record.results_dropped)} results weren't kept: over 64 MiB in this request")


def _row(outcome: Outcome) -> dict[str, Any]:
    row: dict[str, Any] = {"n": outcome.number, "state": outcome.state}
    if outcome.state != "dead":
        return row | {"result": outcome.result}
    error = outcome.error
    return row | {
        "error": {
            "reason": outcome.reason,
            "type": error.type if error else None,
            "message": error.message if error else None,
        }
    }


def _request(now: Session, text: str, queue: str | None) -> tuple[RequestQueue[Any], str]:
    """The request an address or bare id means, or the id in the queue named beside it."""
    from redisq_ops.core.errors import BadInput
    from redisq_ops.ops.control import requests_of

    if queue is not None:
        return requests_of(now.run(now.deployment.queue(queue))), text
    address = now.run(now.deployment.resolve(text))
    if address.id is None:
        raise BadInput(f"{text!r} is a queue; name a request, as QUEUE/REQUEST or by its id")
    return requests_of(address.queue), address.id

"""`redisq submit`: lines of a file become a request."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import typer

from redisq_ops.core.model.errors import (
    BadInput,
    Exists,
    Interrupted,
    RedisqError,
    Refused,
    WrongKind,
)
from redisq_ops.core.model.exit_codes import DONE, FAILED, PARTLY_DONE
from redisq_ops.core.model.settings import LIMIT, MAX_PAYLOAD, PRIORITY
from redisq_ops.core.model.ulid import ulid
from redisq_ops.ops.files.rejects import RejectedLine, RejectFile, refusal
from redisq_ops.ops.hint import hint
from redisq_ops.ops.terminal import entries, kind_of, quantity
from redisq_ops.ops.terminal import size as shown

from ..completion import clients
from ..options import (
    MOST,
    QUEUE_CHOICE,
    SKIP_INVALID,
    When,
    argument,
    command,
    flag,
    option,
    options,
)
from ..output import as_line, conclude, count, emit, printable, progress, say, untouched, when
from ..session import Session
from .wait import wait_for

if TYPE_CHECKING:
    from redisq_ops.ops.files.submit import EachEntry, EachLine, LineCounts, Submission

    Job = Submission | EachLine | EachEntry

commands = typer.Typer()
_MOST_BYTES = 512 * 1024 * 1024
_MANY = 100_000
_UNSENT = "nothing was sent"


@dataclass(frozen=True, slots=True)
class _Plan:
    """A requested submission, and the command that continues it."""

    file: str
    queue: str
    id: str
    limit: int
    priority: int
    split: int
    max_payload: int
    per_line: bool
    skip_invalid: Path | None
    client: str | None
    at_ms: int | None

    @property
    def again(self) -> str:
        numbers = {
            "limit": (self.limit, LIMIT),
            "priority": (self.priority, PRIORITY),
            "split": (self.split, 1),
            "max-payload": (self.max_payload, MAX_PAYLOAD),
        }
        options: dict[str, str | None] = {"per-line": None} if self.per_line else {}
        options |= {"queue": self.queue, "id": self.id}
        if self.skip_invalid is not None:
            options["skip-invalid"] = str(self.skip_invalid)
        if self.client is not None:
            options["for-client"] = self.client
        if self.at_ms is not None:
            options["at"] = when(self.at_ms, True)
        options |= {name: str(n) for name, (n, usual) in numbers.items() if n != usual}
        return ("… | " if self.file == "-" else "") + hint("submit", self.file, **options)


@options
class SubmitOptions:
    file: str = argument("FILE", "File of lines, any bytes; - is stdin.")
    queue: str | None = QUEUE_CHOICE
    id: str | None = option("--id", "ID", "Id of the request; default: a new ULID.")
    limit: int = option(
        "--limit", None, "Sub-requests worked on at once, 1 to 1000.", default=LIMIT
    )
    priority: int = option("--priority", None, "Priority, 0 (first) to 99.", default=PRIORITY)
    split: int = option("--split", None, "Lines per sub-request.", min=1, max=MOST, default=1)
    per_line: bool = flag("--per-line", "Submit a request per line: ID-1, ID-2, …")
    max_payload: int = option(
        "--max-payload",
        None,
        "Maximum bytes of a sub-request.",
        min=0,
        max=_MOST_BYTES,
        default=MAX_PAYLOAD,
    )
    client: str | None = option(
        "--for-client", "NAME", "Client of the entries, in a fair queue.", autocompletion=clients
    )
    when: When
    skip_invalid: Path | None = SKIP_INVALID
    wait: bool = flag("--wait", "Wait for the request to end, as redisq wait does.")
    dry_run: bool = flag("--dry-run", "Check all, count, and send nothing.")


@command(commands, "submit", prints="Submission Request")
def submit(s: Session, given: SubmitOptions) -> int:
    """Submit a file as one request, a sub-request per line; to a queue without requests, an entry
    per line, with ids ID-1, ID-2, … Prints the id.

    A queue that does not exist is created: with --at or --in as a delay set, with --for-client as a
    fair queue, else as a request queue.

    If it is interrupted, run it again with the same --id: it continues where it stopped, from stdin
    too. The line feed at the end of a line is removed; an empty line is a sub-request as well.

    A line over --max-payload is refused before anything is sent (from stdin: when it is read).

    Examples:
      redisq submit in.txt --queue mail
      redisq submit - --id today --split 100 --wait
      redisq submit in.txt --dry-run
      redisq submit in.txt --queue later --in 5m
      redisq submit in.txt --queue jobs --for-client acme
    """
    asked = given.when
    at_ms = None
    if asked.at is not None or asked.after is not None:
        from redisq_ops.core.engine.registry import server_ms

        from ..entries import ready_time

        # A whole second, so that the command that continues can name it.
        at_ms = ready_time(s, asked, s.run(server_ms())) // 1000 * 1000
    plan = _Plan(
        given.file,
        given.queue or s.config["queue"] or "default",
        ulid() if given.id is None else given.id,
        given.limit,
        given.priority,
        given.split,
        given.max_payload,
        given.per_line,
        given.skip_invalid,
        given.client,
        at_ms,
    )
    if plan.per_line and (plan.split > 1 or given.wait):
        raise BadInput("--per-line allows neither --split nor --wait")
    from redisq_ops.core.queues.request import RequestQueue

    with ExitStack() as stack:
        source = stack.enter_context(_opened(plan.file))
        with untouched(_UNSENT):
            total = _check_lines(plan, source, given.dry_run)
            if given.dry_run:
                return _rehearse(s, plan, source, waits=given.wait)
            rejects = None
            if plan.skip_invalid is not None:
                rejects = stack.enter_context(RejectFile(plan.skip_invalid))
            payloads = _payloads(plan, source, rejects)
            s.writable()
            job = _job(s, plan, payloads, waits=given.wait)
        _submit(s, plan, job, total, rejects)
    code = 0
    if isinstance(job.queue, RequestQueue) and given.wait:
        code = wait_for(s, [(job.queue, plan.id)], None)
    left_out = 0 if rejects is None else rejects.count
    return code or _code(_purged(job), job.sent) or (PARTLY_DONE if left_out else DONE)


def _code(purged: int, requests: int) -> int:
    return DONE if not purged else FAILED if purged == requests else PARTLY_DONE


def _purged(job: Job) -> int:
    """How many requests or entries existed already and were purged or moved."""
    from redisq_ops.ops.files.submit import Numbered

    return job.purged if isinstance(job, Numbered) else 0


def _some(n: int, unit: str) -> str:
    return entries(n) if unit == "entry" else quantity(n, unit)


def _tell_purged(job: Job) -> None:
    from redisq_ops.ops.files.submit import Numbered

    if isinstance(job, Numbered) and job.purged:
        say(
            f"{_some(job.purged, job.unit)} of these, the first {job.first_purged}, had been "
            "submitted before and then purged or moved to another queue: undo that, or use another "
            "id (--id)"
        )


def _check_lines(plan: _Plan, source: BinaryIO, dry_run: bool) -> int | None:
    """Check a source, if it can be read twice; returns the number of its payloads.

    Raises `TooLarge` for lines that can't be submitted, unless they are skipped or counted.
    """
    if dry_run or not source.seekable():
        return None
    start = source.tell()
    found = _counts(plan, source)
    source.seek(start)
    if found.first is not None and plan.skip_invalid is None:
        raise refusal(_reject(plan, *found.first), found.rejects)
    if plan.per_line and found.payloads > _MANY:
        _warn(found.payloads, found.size)
    return found.payloads


def _counts(plan: _Plan, source: BinaryIO) -> LineCounts:
    from redisq_ops.ops.files.submit import LineCounts, lines

    found = LineCounts()
    return found.of(lines(source, plan.max_payload, plan.split, found.reject))


def _reject(plan: _Plan, number: int, reason: str) -> RejectedLine:
    whose = f"{plan.id}-{number}" if plan.per_line else plan.id
    return RejectedLine(plan.file, number, whose, reason)


def _payloads(plan: _Plan, source: BinaryIO, rejects: RejectFile | None) -> Iterator[bytes | None]:
    """The payloads; None for each one left out."""
    from redisq_ops.ops.files.submit import lines

    skip = None
    if rejects is not None:

        def skip(number: int, reason: str) -> None:
            rejects.add(_reject(plan, number, reason))

    payloads = lines(source, plan.max_payload, plan.split, skip)
    before: list[bytes | None] = []
    for payload in payloads:
        before.append(payload)
        if payload is not None:
            return chain(before, payloads)
    if before:
        raise Refused(
            f"no line of {_named(plan.file)} can be submitted: {plan.skip_invalid} says why"
        )
    raise BadInput(f"{_named(plan.file)} is empty: nothing to submit")


def _job(s: Session, plan: _Plan, payloads: Iterator[bytes | None], *, waits: bool) -> Job:
    from redisq_ops.core.engine.optional_features import HasRequests, TakesEntries
    from redisq_ops.core.engine.registry import refuse_reserved_name
    from redisq_ops.core.queues.delay import DelaySet
    from redisq_ops.core.queues.fair import FairQueue
    from redisq_ops.core.queues.request import RequestQueue
    from redisq_ops.ops.files.submit import EachEntry, EachLine, Submission, opened
    from redisq_ops.ops.required_features import requests_of

    new = FairQueue if plan.client is not None else RequestQueue if plan.at_ms is None else DelaySet
    queue = s.run(opened(s.deployment, plan.queue, new))
    refuse_reserved_name(queue.name, queue.kind)
    if isinstance(queue, TakesEntries):
        if waits or plan.per_line or (plan.limit, plan.priority) != (LIMIT, PRIORITY):
            raise BadInput(
                f"queue {queue.name} is {kind_of(queue.kind)}: --limit, --priority, --per-line and "
                "--wait are for requests"
            )
        return EachEntry(queue, payloads, id=plan.id, client=plan.client, at_ms=plan.at_ms)
    if not isinstance(queue, HasRequests):
        raise WrongKind(f"queue {queue.name} is {kind_of(queue.kind)}: its own program submits")
    queue = requests_of(queue)
    if plan.client is not None or plan.at_ms is not None:
        raise BadInput(f"queue {queue.name} has requests: they have no client and no ready time")
    if plan.per_line:
        return EachLine(queue, payloads, id=plan.id, priority=plan.priority, limit=plan.limit)
    valid = (payload for payload in payloads if payload is not None)
    return Submission(queue, valid, id=plan.id, priority=plan.priority, limit=plan.limit)


def _submit(
    s: Session,
    plan: _Plan,
    job: Job,
    total: int | None,
    rejects: RejectFile | None,
) -> None:
    warned = total is not None
    try:
        with progress(f"submitting {plan.id}", total) as meter:
            while s.run(job.step()):
                meter(job.read, total)
                if plan.per_line and not warned and job.sent > _MANY:
                    warned = True
                    _warn(job.sent, 0)
    except (RedisqError, KeyboardInterrupt) as error:
        if left := _left(plan, job, error):
            raise _interrupted(s, error, left) from error
        with untouched(_UNSENT):
            raise
    assert job.done is not None
    refused = 0 if rejects is None else rejects.count
    if s.json:
        done = job.done
        row = {
            "id": plan.id,
            "queue": plan.queue,
            "word": done.word,
            "total": done.total,
            "state": None if job.unit == "entry" else done.state,
            "refused": refused,
            "purged": _purged(job),
        }
        conclude(as_line(row))  # with the id, without which it would be submitted again
    else:
        conclude(plan.id)
        if job.unit != "sub-request":
            one = "an entry" if job.unit == "entry" else "a request"
            say(f"{one} per line: {plan.id}-1, {plan.id}-2, …")
        if refused:
            say(
                f"{count(refused)} {'line was' if refused == 1 else 'lines were'} not submitted: "
                f"{plan.skip_invalid} lists them"
            )
        _tell_purged(job)
    sys.stdout.flush()


def _left(plan: _Plan, job: Job, error: BaseException) -> list[str]:
    """Lines about what an interrupted submission leaves on the server, and commands to go on."""
    under_way = job.read > job.sent
    if not job.sent and not (under_way and not isinstance(error, Refused)):
        return []
    if isinstance(error, Exists) and job.unit == "sub-request":
        return []
    sent = f"{'at least ' if under_way else ''}{count(job.sent)}"
    if job.unit != "sub-request":
        what = "entries" if job.unit == "entry" else "requests"
        return [f"{sent} {what} {plan.id}-1, … are there", f"continue: {plan.again}"]
    return [
        f"request {plan.id} stays open with {sent} sub-requests",
        f"continue: {plan.again}",
        f"cancel:   {hint('request', 'cancel', f'{plan.queue}/{plan.id}')}",
    ]


def _interrupted(s: Session, error: BaseException, left: list[str]) -> BaseException:
    """For people, print the lines and return the error; for programs, an error that has them."""
    if not s.json:
        for line in left:
            say(line)
        return error
    if not isinstance(error, RedisqError):
        return Interrupted("; ".join(["interrupted", *left]))
    whole = RedisqError("; ".join([str(error), *left]))
    whole.exit_code = error.exit_code
    return whole


def _rehearse(s: Session, plan: _Plan, source: BinaryIO, *, waits: bool) -> int:
    """Make all checks of submit, also on the server, and print what would be sent."""
    from redisq_ops.ops.files.submit import LineCounts, lines

    found, refusal = LineCounts(), None
    payloads = found.counted(lines(source, plan.max_payload, plan.split, found.reject))
    s.writable()
    job = _job(s, plan, payloads, waits=waits)
    try:
        s.run(job.rehearse())
    except (Refused, BadInput) as error:
        refusal = error
    found.of(payloads)
    if not found.lines:
        raise BadInput(f"{_named(plan.file)} is empty: nothing to submit")
    if refusal is not None and (not found.rejects or plan.skip_invalid is not None):
        raise refusal
    code = _show_counts(s, plan, found, job)
    if not s.json:
        _tell_purged(job)
    return code


def _show_counts(s: Session, plan: _Plan, found: LineCounts, job: Job) -> int:
    """Print the counts of a dry run; returns the exit code that the submission would have."""
    purged = _purged(job)
    if s.json:
        emit(
            {
                "id": plan.id,
                "queue": plan.queue,
                "word": "dry-run",
                "total": found.payloads,
                "state": None,
                "lines": found.lines,
                "bytes": found.size,
                "refused": found.rejects,
                "purged": purged,
            }
        )
    else:
        what = {"request": "requests of one", "entry": "entries"}.get(
            job.unit, "sub-requests of one request"
        )
        print(
            f"{count(found.lines)} lines, {count(found.size)} bytes: {count(found.payloads)} "
            f"{what}, not sent"
        )
    if found.first is None:
        return _code(purged, found.payloads)
    if not s.json:
        which = "line" if found.rejects == 1 else "lines"
        how = "would be left out" if plan.skip_invalid else "would be refused, and all with it"
        say(
            f"{count(found.rejects)} {which} {how}, the first: "
            f"{printable(str(_reject(plan, *found.first)))}"
        )
    return PARTLY_DONE if plan.skip_invalid is not None and found.payloads else FAILED


def _warn(requests: int, size: int) -> None:
    from redisq_ops.ops.files.submit import memory

    say(
        f"{count(requests)} requests take about {shown(memory(requests, size))} of the server's "
        "memory; without --per-line they would be one request, and small"
    )


def _named(file: str) -> str:
    return "stdin" if file == "-" else file


def _opened(file: str) -> BinaryIO:
    if file == "-":
        return sys.stdin.buffer
    try:
        return open(file, "rb")
    except OSError as error:
        raise BadInput(f"{file}: {error.strerror}") from error

"""`redisq submit`: lines of a file become a request."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Annotated, BinaryIO

import typer

from redisq_ops.core.settings import LIMIT, MAX_PAYLOAD, PRIORITY

from .app import app, examples
from .options import MOST, OneQueue
from .plan import untouched
from .session import Session, session
from .wait import waited

if TYPE_CHECKING:
    from redisq_ops.ops.submission import EachLine, Submission

_MANY = 100_000
_MOST_BYTES = 512 * 1024 * 1024
_UNSENT = "nothing was sent"


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

    @property
    def again(self) -> str:
        """The command that goes on with it."""
        from redisq_ops.ops.hint import hint

        numbers = {
            "limit": (self.limit, LIMIT),
            "priority": (self.priority, PRIORITY),
            "split": (self.split, 1),
            "max-payload": (self.max_payload, MAX_PAYLOAD),
        }
        options: dict[str, str | None] = {"per-line": None} if self.per_line else {}
        options |= {"queue": self.queue, "id": self.id}
        options |= {name: str(n) for name, (n, usual) in numbers.items() if n != usual}
        return ("… | " if self.file == "-" else "") + hint("submit", self.file, **options)


@app.command(
    epilog=examples(
        "redisq submit in.txt --queue mail",
        "redisq submit - --id today --split 100 --wait",
        "redisq submit in.txt --dry-run",
    )
)
def submit(
    context: typer.Context,
    file: Annotated[str, typer.Argument(metavar="FILE", help="Lines of any bytes; - is stdin.")],
    queue: OneQueue = None,
    id: Annotated[str | None, typer.Option(help="The request's id, else a new ULID.")] = None,
    limit: Annotated[int, typer.Option(help="Sub-requests worked on at once, 1 to 1000.")] = LIMIT,
    priority: Annotated[int, typer.Option(help="0 (first) to 99.")] = PRIORITY,
    split: Annotated[int, typer.Option(max=MOST, help="Lines per sub-request.")] = 1,
    per_line: Annotated[
        bool, typer.Option("--per-line", help="A request per line: ID-1, ID-2, …")
    ] = False,
    max_payload: Annotated[
        int, typer.Option(min=0, max=_MOST_BYTES, help="Bytes a sub-request may have.")
    ] = MAX_PAYLOAD,
    wait: Annotated[bool, typer.Option("--wait", help="Then wait for it, as redisq wait.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Count; send nothing.")] = False,
) -> int:
    """Submit a file: one request, a sub-request per line. Prints the request's id.

    Interrupted anywhere, the same command with the same --id goes on where it stopped, from stdin
    too. Of a line its end (a line feed) is removed; empty lines are sub-requests as well.
    """
    from redisq_ops.core.errors import BadInput
    from redisq_ops.ops.submission import ulid

    s = session(context)
    if split < 1 or (per_line and (split > 1 or wait)):
        raise BadInput("--split is for 1 or more lines, and not for --per-line, nor is --wait")
    plan = _Plan(
        file, queue or s.config["queue"] or "default", ulid() if id is None else id, limit,
        priority, split, max_payload, per_line,
    )  # fmt: skip
    with _opened(file) as source:
        with untouched(_UNSENT):
            payloads, total = _read(plan, source)
            if dry_run:
                return _counted(s, plan, payloads)
            s.writable()
            job = _job(s, plan, payloads)
        _submit(s, plan, job, total)
    return waited(s, [(job.queue, plan.id)], None) if wait else 0


def _read(plan: _Plan, source: BinaryIO) -> tuple[Iterator[bytes], int | None]:
    """The payloads, and how many there will be if the source can be read twice."""
    from redisq_ops.core.errors import BadInput
    from redisq_ops.ops.submission import lines, measured

    total = None
    if source.seekable():
        start = source.tell()
        size = measured(source)
        source.seek(start)
        total = -(-size.lines // plan.split)
        if plan.per_line and total > _MANY:
            _warn(total, size.bytes)
    payloads = lines(source, plan.max_payload, plan.split)
    first = next(payloads, None)
    if first is None:
        raise BadInput(f"{plan.file} is empty: nothing to submit")
    return chain([first], payloads), total


def _job(s: Session, plan: _Plan, payloads: Iterator[bytes]) -> Submission | EachLine:
    from redisq_ops.core.registry import unreserved
    from redisq_ops.core.request import RequestQueue
    from redisq_ops.ops.control import requests_of
    from redisq_ops.ops.submission import EachLine, Submission, opened

    kind = EachLine if plan.per_line else Submission
    queue = requests_of(s.run(opened(s.deployment, plan.queue)))
    unreserved(queue.name, RequestQueue.kind)
    return kind(queue, payloads, id=plan.id, priority=plan.priority, limit=plan.limit)


def _submit(s: Session, plan: _Plan, job: Submission | EachLine, total: int | None) -> None:
    from redisq_ops.core.errors import RedisqError

    from .output import emit, progress

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
    if s.json:
        done = job.done
        emit({"id": plan.id, "queue": plan.queue, "word": done.word, "total": done.total,
              "state": done.state})  # fmt: skip
    else:
        print(plan.id)
    sys.stdout.flush()


def _left(plan: _Plan, job: Submission | EachLine, error: BaseException) -> list[str]:
    """What an interrupted submission leaves behind, and what can be done about it."""
    from redisq_ops.core.errors import Exists, Refused
    from redisq_ops.ops.hint import hint

    from .output import count

    under_way = job.read > job.sent
    if not job.sent and not (under_way and not isinstance(error, Refused)):
        return []
    if isinstance(error, Exists) and not plan.per_line:
        return []
    sent = f"{'at least ' if under_way else ''}{count(job.sent)}"
    if plan.per_line:
        return [f"{sent} requests {plan.id}-1, … are there", f"continue: {plan.again}"]
    return [
        f"request {plan.id} stays open with {sent} sub-requests",
        f"continue: {plan.again}",
        f"cancel:   {hint('request', 'cancel', f'{plan.queue}/{plan.id}')}",
    ]


def _interrupted(s: Session, error: BaseException, left: list[str]) -> BaseException:
    """For a person the lines go before the error; for a program into it."""
    from redisq_ops.core.errors import RedisqError

    from .output import say

    if not s.json:
        for line in left:
            say(line)
        return error
    said = error if isinstance(error, RedisqError) else "interrupted"
    whole = RedisqError("; ".join([str(said), *left]))
    whole.exit_code = error.exit_code if isinstance(error, RedisqError) else 130
    return whole


def _counted(s: Session, plan: _Plan, payloads: Iterator[bytes]) -> int:
    from .output import count, emit

    total = lines = size = 0
    for payload in payloads:
        total += 1
        lines += payload.count(b"\n") + 1
        size += len(payload)
    if s.json:
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

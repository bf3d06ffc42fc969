"""`redisq wait`: until requests end, or until counts are so."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .address import queue_named, request_at
from .app import app, examples
from .options import OneQueue
from .session import Session, session

if TYPE_CHECKING:
    from redisq_ops.core.model.entry import Request
    from redisq_ops.core.model.errors import RedisqError, Unreachable
    from redisq_ops.core.queues.request import RequestQueue

POLL_S = 0.2
_LONGEST_PAUSE_S = 2.0

Timeout = Annotated[
    str | None, typer.Option(metavar="TIME", help="Give up after this time (90s, 5m): exit 124.")
]

waiting = typer.Typer(help="Wait for requests to end, or for counts.", no_args_is_help=True)
app.add_typer(waiting, name="wait")


@waiting.command(
    "request",
    epilog=examples(
        "redisq wait request mail/r1 --timeout 5m", "redisq wait request r1 r2 r3 --json"
    ),
)
def wait_request(
    context: typer.Context,
    requests: Annotated[list[str], typer.Argument(metavar="ID…", help="Ids, or QUEUE/REQUEST.")],
    queue: OneQueue = None,
    timeout: Timeout = None,
) -> int:
    """Wait for requests to end, also through a restart of the server.

    Exit 0: all are done. 3: some have dead entries. 1: one was cancelled. 124: timed out.
    """
    from redisq_ops.ops.filter.time import duration_ms

    s = session(context)
    limit = None if timeout is None else duration_ms(timeout) / 1000
    return waited(s, [request_at(s, text, queue) for text in requests], limit)


def waited(
    s: Session, requests: list[tuple[RequestQueue[Any], str]], timeout_s: float | None
) -> int:
    """Wait for requests and tell how each ended; the exit code of them all."""
    from redisq_ops.core.model.errors import Unreachable
    from redisq_ops.core.queues.request.wait import wait

    from .output import count, emit, progress, tell

    by_queue: dict[str, tuple[RequestQueue[Any], list[str]]] = {}
    for queue, id in requests:
        by_queue.setdefault(queue.name, (queue, []))[1].append(id)
    outage = _Outage(timeout_s)
    seen: dict[tuple[str, str], Request] = {}
    code = 0
    with progress("waiting") as meter:
        for name, (queue, ids) in by_queue.items():

            def show(request: Request, name: str = name) -> None:
                outage.over()
                seen[name, request.id] = request
                settled = sum(r.done + r.dead + r.trash for r in seen.values())
                meter(settled, sum(r.total for r in seen.values()))

            still = dict.fromkeys(ids)
            while still:
                try:
                    for request in wait(queue, list(still), outage.left(), progress=show):
                        del still[request.id]
                        if request.state == "cancelled":
                            code = 1
                        elif request.dead and code == 0:
                            code = 3
                        if s.json:
                            emit(request)
                        else:
                            more = f", {count(request.dead)} dead" if request.dead else ""
                            if request.trash and request.state == "done":
                                more += f", {count(request.trash)} purged or moved to another queue"
                            tell(f"{request.id} {request.state}: {count(request.done)} done{more}")
                        sys.stdout.flush()
                except TimeoutError as error:
                    raise _timed_out(str(error)) from error
                except Unreachable as error:
                    outage.pause(error)
    return code


def _timed_out(what: str) -> RedisqError:
    from redisq_ops.core.model.errors import RedisqError

    late = RedisqError(f"timed out; {what}")
    late.exit_code = 124
    return late


class _Outage:
    """Retries of a wait whose server was lost: it is said once, and the wait goes on until the
    server answers again or the time is over."""

    def __init__(self, timeout_s: float | None) -> None:
        self._ends = None if timeout_s is None else time.monotonic() + timeout_s
        self._pause_s = 0.0

    def left(self) -> float | None:
        """Seconds until the wait times out."""
        return None if self._ends is None else max(0.0, self._ends - time.monotonic())

    def pause(self, error: Unreachable) -> None:
        """Wait a moment before the next try; exit 124 when the time is over."""
        from .output import printable, say

        left = self.left()
        if left == 0.0:
            raise _timed_out(str(error)) from error
        if not self._pause_s:
            say(printable(f"connection lost: {error}; retrying"))
        self._pause_s = min(_LONGEST_PAUSE_S, max(0.1, 2 * self._pause_s))
        time.sleep(self._pause_s if left is None else min(left, self._pause_s))

    def over(self) -> None:
        """The server answered."""
        if self._pause_s:
            from .output import say

            say("the server answers again")
            self._pause_s = 0.0


@waiting.command(
    "when",
    epilog=examples(
        "redisq wait when 'waiting==0 and pending==0' --queue mail",
        "redisq wait when 'dead>0' --timeout 1h",
    ),
)
def wait_when(
    context: typer.Context,
    expression: Annotated[
        str, typer.Argument(metavar="EXPR", help="'waiting==0', 'dead>0 or waiting>=1000'")
    ],
    queue: OneQueue = None,
    timeout: Timeout = None,
) -> int:
    """Wait until a queue's counts meet a condition, also through a restart of the server.

    Looks five times a second. Counts are waiting, pending, delayed, dead, trash and done;
    < <= == != >= > compare; and, or and parentheses combine.
    """
    from redisq_ops.core.model.entry import STATES
    from redisq_ops.core.model.errors import Unreachable
    from redisq_ops.ops.filter.count_condition import parse_condition
    from redisq_ops.ops.filter.time import duration_ms

    from .output import emit, progress, tell

    s = session(context)
    holds = parse_condition(expression)
    outage = _Outage(None if timeout is None else duration_ms(timeout) / 1000)
    name = queue_named(s, queue)
    watched = s.run(s.deployment.queue(name))
    with progress(f"waiting until {expression}") as meter:
        while True:
            try:
                counts = s.run(watched.counts.op())
            except Unreachable as error:
                outage.pause(error)
                continue
            outage.over()
            if holds(counts):
                break
            meter(counts.done, counts.done + counts.waiting + counts.pending + counts.delayed)
            if outage.left() == 0.0:
                raise _timed_out(f"still not {expression} in queue {name}")
            time.sleep(POLL_S)
    states = {state: getattr(counts, state) for state in STATES}
    if s.json:
        emit({"name": name, **states})
    else:
        tell(f"{name}: " + ", ".join(f"{n} {state}" for state, n in states.items()))
    return 0

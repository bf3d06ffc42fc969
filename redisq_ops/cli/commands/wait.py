"""`redisq wait`: until requests end, or until counts meet a condition."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import typer

from redisq_ops.core.model.entry import STATES, Counts, Request
from redisq_ops.core.model.errors import TimedOut, Unreachable
from redisq_ops.core.model.exit_codes import DONE, FAILED, PARTLY_DONE
from redisq_ops.ops.filter.time import duration_ms

from ..address import queue_named, request_at
from ..options import QUEUE_CHOICE, argument, command, option
from ..output import count, emit, printable, progress, say, tell
from ..rows import request_row
from ..session import Session

if TYPE_CHECKING:
    from redisq_ops.core.engine.wait import Progress
    from redisq_ops.core.queues.request import RequestQueue

commands = typer.Typer()
waiting = typer.Typer(no_args_is_help=True)
commands.add_typer(waiting, name="wait")
_TIMEOUT = option("--timeout", "TIME", "Give up after this time (90s, 5m) with exit code 124.")
POLL_S = 0.2
_LONGEST_PAUSE_S = 2.0


@command(waiting, "request", prints="Request")
def wait_request(
    s: Session,
    *,
    ids: list[str] = argument("ID…", "Requests, by id or as QUEUE/REQUEST."),
    queue: str | None = QUEUE_CHOICE,
    timeout: str | None = _TIMEOUT,
) -> int:
    """Wait for requests to end, also across a restart of the server.

    Exit 0: all are done. 3: some have dead entries. 1: one was cancelled. 124: timed out.

    Examples:
      redisq wait request mail/r1 --timeout 5m
      redisq wait request r1 r2 r3 --json
    """
    requests = [request_at(s, text, queue) for text in ids]
    return wait_for_requests(s, requests, _timeout_s(timeout))


def _timeout_s(timeout: str | None) -> float | None:
    return None if timeout is None else duration_ms(timeout) / 1000


def wait_for_requests(
    s: Session, requests: list[tuple[RequestQueue[Any], str]], timeout_s: float | None
) -> int:
    """Wait for requests and print how each ended; returns one exit code for all."""
    by_queue: dict[str, tuple[RequestQueue[Any], list[str]]] = {}
    for queue, id in requests:
        by_queue.setdefault(queue.name, (queue, []))[1].append(id)
    outage = _Outage(timeout_s)
    seen: dict[tuple[str, str], Request] = {}
    code = DONE
    with progress("waiting") as meter:
        for name, (queue, ids) in by_queue.items():

            def show(request: Request, name: str = name) -> None:
                outage.over()
                seen[name, request.id] = request
                settled = sum(r.done + r.dead + r.trash for r in seen.values())
                meter(settled, sum(r.total for r in seen.values()))

            for request in _ended(queue, ids, outage, show):
                if request.state == "cancelled":
                    code = FAILED
                elif request.dead and code == DONE:
                    code = PARTLY_DONE
                _print_end(s, name, request)
    return code


def _ended(
    queue: RequestQueue[Any], ids: list[str], outage: _Outage, show: Progress
) -> Iterator[Request]:
    """Yields each request of a queue when it has ended; waits while the server is lost."""
    from redisq_ops.core.engine.wait import wait

    still = dict.fromkeys(ids)
    while still:
        try:
            for request in wait(queue, list(still), outage.left(), progress=show):
                del still[request.id]
                yield request
        except TimeoutError as error:
            raise TimedOut(f"timed out; {error}") from error
        except Unreachable as error:
            outage.pause(error)


def _print_end(s: Session, queue: str, request: Request) -> None:
    if s.json:
        emit(request_row(queue, request))
    else:
        more = f", {count(request.dead)} dead" if request.dead else ""
        if request.trash and request.state == "done":
            more += f", {count(request.trash)} purged or moved to another queue"
        tell(f"{request.id} {request.state}: {count(request.done)} done{more}")
    sys.stdout.flush()


class _Outage:
    """Pauses between the retries of a wait whose server is lost, until the wait times out.

    The loss is reported once.
    """

    def __init__(self, timeout_s: float | None) -> None:
        self._ends = None if timeout_s is None else time.monotonic() + timeout_s
        self._pause_s = 0.0

    def left(self) -> float | None:
        """Seconds until the wait times out."""
        return None if self._ends is None else max(0.0, self._ends - time.monotonic())

    def pause(self, error: Unreachable) -> None:
        """Pause before the next try; exit 124 when the time is over."""
        left = self.left()
        if left == 0.0:
            raise TimedOut(f"timed out; {error}") from error
        if not self._pause_s:
            say(printable(f"connection lost: {error}; retrying"))
        self._pause_s = min(_LONGEST_PAUSE_S, max(0.1, 2 * self._pause_s))
        time.sleep(self._pause_s if left is None else min(left, self._pause_s))

    def over(self) -> None:
        """Called when the server has answered; reports the end of an outage."""
        if self._pause_s:
            say("the server answers again")
            self._pause_s = 0.0


@command(waiting, "when", prints="Condition")
def wait_when(
    s: Session,
    *,
    expression: str = argument("EXPR", "Condition: 'waiting=0', 'dead>0 or waiting>=1000'."),
    queue: str | None = QUEUE_CHOICE,
    timeout: str | None = _TIMEOUT,
) -> int:
    """Wait until a queue's counts meet a condition, also across a restart of the server.

    Checks five times a second. EXPR is an expression of the filter language whose fields are the
    counts: waiting, pending, delayed, dead, trash and done.

    Examples:
      redisq wait when 'waiting=0 pending=0' --queue mail
      redisq wait when 'dead>0' --timeout 1h
    """
    from redisq_ops.ops.filter.count_condition import parse_condition

    holds = parse_condition(expression)
    name = queue_named(s, queue)
    watched = s.run(s.deployment.queue(name))
    outage = _Outage(_timeout_s(timeout))
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
                raise TimedOut(
                    f"timed out; still not {expression} in queue {_numbers(name, counts)}"
                )
            time.sleep(POLL_S)
    states = {state: counts.of(state) for state in STATES}
    if s.json:
        emit({"name": name, **states})
    else:
        tell(_numbers(name, counts))
    return 0


def _numbers(name: str, counts: Counts) -> str:
    numbers = ((state, counts.of(state)) for state in STATES)
    return f"{name}: " + ", ".join(f"{'?' if n is None else n} {state}" for state, n in numbers)

"""`redisq wait`: until requests or entries end, or until a queue's counts meet a condition."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import typer

from redisq_ops.core.model.clock import countdown
from redisq_ops.core.model.entry import STATES, Counts, EntryOutcome, Request
from redisq_ops.core.model.errors import BadInput, NotFound, TimedOut, Unreachable
from redisq_ops.core.model.exit_codes import DONE, FAILED, PARTLY_DONE
from redisq_ops.ops.filter.time import duration_ms

from ..options import argument, command, option
from ..output import count, emit, printable, progress, say, tell
from ..output_types.requests import EntryEndOutput
from ..rows import request_row
from ..session import Session

if TYPE_CHECKING:
    from redisq_ops.core.engine.entry_results import EntryResults
    from redisq_ops.core.engine.queue import Queue
    from redisq_ops.core.engine.wait import HasEnds
    from redisq_ops.core.queues.request import RequestQueue
    from redisq_ops.ops.deployment import Deployment

    Waitable = RequestQueue[Any] | EntryResults[Any]
    Ended = Request | EntryOutcome

commands = typer.Typer()
POLL_S = 0.2
_LONGEST_PAUSE_S = 2.0
DONE_WITH_ALL = "waiting=0 pending=0 delayed=0"


@command(commands, "wait", prints="Request EntryEnd Condition")
def wait(
    s: Session,
    *,
    addresses: list[str] = argument("ADDRESS...", "Requests, entries, or one queue."),
    until: str | None = option(
        "--until", "EXPR", "Condition of a queue's counts. [waiting=0 pending=0 delayed=0]"
    ),
    timeout: str | None = option(
        "--timeout", "TIME", "Give up after this time (90s, 5m) with exit code 124."
    ),
) -> int:
    """Wait until requests or entries end, or counts meet a condition.

    For a queue, the default condition is that nothing is left to do; a queue that is gone, or was
    created again, ends the wait. Of entries, those of delay
    sets and fair queues can be waited for, so jobs of redisq_ops.tasks, too. The wait goes on after
    a restart of the server.

    Exit 0: all are done. 3: some are dead or have dead entries. 1: one was cancelled or purged, or
    the queue is gone. 124: timed out.

    The condition is an expression of the filter language whose fields are the counts: waiting,
    pending, delayed, dead, trash and done. It is checked five times a second.

    Examples:
      redisq wait mail/r1 --timeout 5m
      redisq wait r1 r2 r3 --json
      redisq wait later/e1
      redisq wait mail
      redisq wait mail --until 'dead>0 or waiting>=1000'
    """
    from redisq_ops.ops.filter.count_condition import parse_condition

    timeout_s = None if timeout is None else duration_ms(timeout) / 1000
    holds = parse_condition(until or DONE_WITH_ALL)
    places = [s.run(s.deployment.resolve(address)) for address in addresses]
    queues = [at.queue for at in places if at.id is None]
    if until is not None and not queues:
        raise BadInput("--until is a condition of a queue: name one instead of what is in it")
    if queues and len(places) > 1:
        raise BadInput(
            f"{queues[0].name} is a queue: wait for it alone, or name requests or entries"
        )
    if queues:
        return _wait_for_counts(s, queues[0], until or DONE_WITH_ALL, holds, timeout_s)
    ids = [(at.queue, at.id) for at in places if at.id is not None]
    return wait_for(s, [(_waitable(queue, id), id) for queue, id in ids], timeout_s)


def _waitable(queue: Queue[Any], id: str) -> Waitable:
    from redisq_ops.core.engine.entry_results import EntryResults
    from redisq_ops.ops.required_features import requests_of

    if isinstance(queue, EntryResults):
        return queue
    request, part, _ = id.partition("/")
    if part:
        whole = f"{queue.name}/{request}"
        raise BadInput(
            f"{queue.name}/{id} is a part of {whole}: wait for that, by redisq wait {whole}"
        )
    return requests_of(queue)


def wait_for(s: Session, places: list[tuple[Waitable, str]], timeout_s: float | None) -> int:
    """Wait for requests and entries and print how each ended; returns one exit code for all."""
    from redisq_ops.ops.inspect.results import absent

    by_queue: dict[str, tuple[Waitable, list[str]]] = {}
    for queue, id in places:
        by_queue.setdefault(queue.name, (queue, []))[1].append(id)
    outage = _Outage(timeout_s)
    seen: dict[tuple[str, str], Ended] = {}
    code = DONE
    with progress("waiting") as meter:
        for name, (queue, ids) in by_queue.items():

            def show(one: Ended, name: str = name) -> None:
                outage.over()
                if isinstance(one, EntryOutcome) and (name, one.id) not in seen and not one.state:
                    raise absent(name, one.id)
                seen[name, one.id] = one
                ended, whole = zip(*map(_progress, seen.values()), strict=True)
                meter(sum(ended), sum(whole))

            for one in _ended(queue, ids, outage, show):
                if one.state in ("cancelled", "trash"):
                    code = FAILED
                elif code == DONE and (
                    one.dead if isinstance(one, Request) else one.state == "dead"
                ):
                    code = PARTLY_DONE
                _print_end(s, name, one)
    return code


def _progress(one: Ended) -> tuple[int, int]:
    """How much of it has ended, and how much there is."""
    if isinstance(one, Request):
        return one.done + one.dead + one.trash, one.total
    return int(one.settled), 1


def _ended(
    queue: HasEnds[Any, Any], ids: list[str], outage: _Outage, show: Callable[[Any], None]
) -> Iterator[Ended]:
    """Yields each request or entry of a queue when it has ended; waits while the server is lost."""
    from redisq_ops.core.engine.wait import wait

    still = dict.fromkeys(ids)
    while still:
        try:
            ends: Iterator[Ended] = wait(queue, list(still), outage.left(), progress=show)
            for one in ends:
                del still[one.id]
                yield one
        except TimeoutError as error:
            raise TimedOut(f"timed out; {error}") from error
        except Unreachable as error:
            outage.pause(error)


def _print_end(s: Session, queue: str, request: Ended) -> None:
    if isinstance(request, EntryOutcome):
        error = None if request.error is None else s.redaction.failure(request.error)
        state, reason = request.state or "done", request.reason
        if s.json:
            kept = None if error is None or state == "done" else error
            emit(EntryEndOutput(queue=queue, id=request.id, state=state, reason=reason, error=kept))
        else:
            why = f" ({reason})" if error is None else f": {error.line}"
            ended = "purged" if state == "trash" else state
            tell(f"{request.id} {ended}" + (why if state == "dead" else ""))
    elif s.json:
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
        self.left = countdown(timeout_s)
        """seconds until the wait times out"""
        self._pause_s = 0.0

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


def _wait_for_counts(
    s: Session,
    watched: Queue[Any],
    expression: str,
    holds: Callable[[Counts], bool],
    timeout_s: float | None,
) -> int:
    from redisq_ops.core.engine.queue_types import KINDS

    name, outage = watched.name, _Outage(timeout_s)
    created: int | None = None
    with progress(f"waiting until {expression}") as meter:
        while True:
            try:
                counts, now = s.run(_counted(s.deployment, watched))
            except Unreachable as error:
                outage.pause(error)
                continue
            outage.over()
            created = now if created is None else created
            if now != created or (now is None and watched.kind in KINDS):
                raise NotFound(
                    f"queue {name} is gone, or was created again: nothing says that its entries "
                    "are done"
                )
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


async def _counted(deployment: Deployment, queue: Queue[Any]) -> tuple[Counts, int | None]:
    """Its counts, and when it was created, which tells whether these are of the same entries as
    before; None: a queue of another program that isn't registered, or a queue that is gone."""
    from redisq_ops.core.engine.queue_types import KINDS
    from redisq_ops.core.engine.registration_marks import marked
    from redisq_ops.core.engine.registry import find
    from redisq_ops.core.redis.operation import together

    look = marked if queue.kind in KINDS else find
    counts, entry = await together(queue.counts.op(), look(queue.name, deployment.prefix))
    return counts, None if entry is None else entry.created_ms


def _numbers(name: str, counts: Counts) -> str:
    numbers = ((state, counts.of(state)) for state in STATES)
    return f"{name}: " + ", ".join(f"{'?' if n is None else n} {state}" for state, n in numbers)

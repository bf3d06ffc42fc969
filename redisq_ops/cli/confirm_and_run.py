"""The way of every change: its plan, the question, its steps, and what came of it."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from .session import Session

if TYPE_CHECKING:
    from redisq_ops.core.engine.queue import Queue
    from redisq_ops.core.engine.transfer_recovery import Recovered
    from redisq_ops.ops.change.audit_log import ChangeOutcome
    from redisq_ops.ops.change.bulk import Bulk, Plan
    from redisq_ops.ops.change.edit import Edit
    from redisq_ops.ops.change.undo import Undo
    from redisq_ops.ops.files.import_ import Import
    from redisq_ops.ops.inspect.consumers import ConsumerChange
    from redisq_ops.ops.inspect.worker_processes import Prune

    from .output import Meter


def agreed(s: Session, plans: Sequence[Plan], given: Mapping[str, Any]) -> bool:
    """Show what would be done and find out whether to do it; False for a dry run.

    A person is asked, and types a number or name where much is at stake. Without a terminal and
    without ``--yes`` the plan is the output, and exit code 5 says that nothing was done.
    """
    from redisq_ops.core.model.errors import Refused, Unconfirmed

    from .output import emit, say

    yes, dry_run, guard = given["yes"], given["dry_run"], s.guard
    if not dry_run:
        s.writable()
    if rate := given.get("rate"):
        from redisq_ops.ops.filter.time import per_second

        guard.rate(per_second(rate))
    unasked = dry_run or not (yes or s.interactive)
    for plan in plans:
        if unasked and s.json:
            emit({"plan": plan.title, **plan.facts})
        elif unasked:
            print(*shown(plan), sep="\n")
        elif s.interactive or not s.json:
            say("\n".join(shown(plan)))
    if dry_run:
        return False
    guard.checked([plan.facts for plan in plans])
    guard.named(s.confirm, not yes)
    if unasked:
        raise Unconfirmed("no terminal to ask on: add --yes to go ahead")
    if yes:
        return True
    with untouched():
        sure = _sure(plans, guard.typed(s.confirm, None))
    if not sure:
        raise Refused("nothing was changed")
    return True


def shown(plan: Plan) -> list[str]:
    """A plan for people: its title, and below it what comes of it."""
    from .output import printable

    return [printable(plan.title), *(f"  {printable(line)}" for line in plan.lines)]


def _sure(plans: Sequence[Plan], name: str | None) -> bool:
    """A person's answer; ``name`` is typed too, where the context wants that."""
    typed = [word for word in (*(plan.typed for plan in plans), name) if word is not None]
    if not typed:
        return _answer("Go ahead? [y/N] ").lower() in ("y", "yes")
    return all(_answer(f"Type {word} to go ahead: ") == word for word in typed)


def _answer(question: str) -> str:
    sys.stderr.write(question)
    sys.stderr.flush()
    return sys.stdin.readline().strip()


@contextmanager
def untouched(so: str = "nothing was changed") -> Iterator[None]:
    """Before the first write: Ctrl+C says that there was none."""
    try:
        yield
    except KeyboardInterrupt as stop:
        from redisq_ops.core.model.errors import RedisqError

        said = RedisqError(f"interrupted, {so}")
        said.exit_code = 130
        raise said from stop


def drive(
    s: Session,
    change: Bulk | ConsumerChange | Edit | Import | Prune | Undo,
    what: str,
    again: str = "",
) -> bool:
    """Take a change's steps; False after Ctrl+C. Its outcome says how far it came.

    ``again``: the command that goes on with it.
    """
    from redisq_ops.core.model.errors import NotFound, RedisqError, Superseded

    from .output import as_line, conclude, printable, progress, say

    outcome, began = change.outcome, time.monotonic()

    async def steps(meter: Meter) -> None:
        while await change.step():
            handled = outcome.done + sum(outcome.skipped.values())
            meter(handled, outcome.matched)
            # A plan's outcome is all that was ever done of it; the limit is for this run.
            own: int = getattr(change, "handled", handled)
            rest = max(change.pause, s.guard.rest(own, time.monotonic() - began))
            if rest > 0:  # a sleep of nothing takes a tenth of a step's time
                time.sleep(rest)

    try:
        with progress(what, outcome.matched) as meter:
            s.run(steps(meter))  # all of them in one go: the steps share a connection
        return True
    except KeyboardInterrupt:
        # The step in flight may have been carried out; its count is in the journal.
        outcome.done = s.run(change.reached())
        return False
    except RedisqError as error:
        with suppress(RedisqError):  # of two steps under way the other may have been carried out
            outcome.done = s.run(change.reached())
        if s.json:
            conclude(as_line(outcome))
        else:
            say(f"{what}: stopped after {outcome.done:,} of {outcome.matched:,} (op {outcome.op})")
            # With what was taken back meanwhile, or destroyed, nobody goes on.
            if again and not isinstance(error, (NotFound, Superseded)):
                say(printable(f"go on with: {again}"))
        raise


def ended(
    s: Session,
    outcome: ChangeOutcome,
    what: str,
    *,
    undo: bool = True,
    more: Mapping[str, Any] | None = None,
) -> None:
    """The last line: what was done, for people or as the contract's object (and ``more`` in it)."""
    from dataclasses import asdict

    from redisq_ops.ops.hint import hint

    from .output import as_line, conclude, count, printable, say

    if s.json:
        return conclude(as_line(asdict(outcome) | dict(more or {})))
    if not outcome.matched:
        return conclude(printable(f"0 matched: {what}"))
    skipped = ", ".join(f"{count(n)} {reason}" for reason, n in outcome.skipped.items())
    done = f"{count(outcome.done)} of {count(outcome.matched)}"
    line = f"{what}: {done}" + (f", skipped {skipped}" if skipped else "")
    conclude(printable(f"{line} (op {outcome.op})"))
    if undo and outcome.done and outcome.op:
        say(printable(f"undo with: {hint('undo', outcome.op)}"))
    return None


def tell_recovered(s: Session, recovered: Sequence[Recovered]) -> None:
    """Say which moves of others were found unfinished, and what became of them."""
    from .output import printable, say

    for one in recovered if not s.json else ():
        say(printable(str(one)))


def tell_unfinished(s: Session, queue: Queue[Any]) -> None:
    """Say which moves out of a queue are still unfinished."""
    from redisq_ops.ops.change.unfinished import unfinished

    from .output import printable, say, when

    for one in s.run(unfinished(queue)) if not s.json else ():
        say(printable(one.sentence(lambda ms: when(ms, s.utc))))

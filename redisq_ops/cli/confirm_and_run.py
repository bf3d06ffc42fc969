"""Every change of the command line: its preview, the question, its steps, its outcome."""

from __future__ import annotations

import sys
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from redisq_ops.core.model.errors import (
    NotFound,
    RedisqError,
    Refused,
    Superseded,
    Unconfirmed,
    Unreachable,
)
from redisq_ops.core.model.exit_codes import DONE
from redisq_ops.ops.change.outcome import ChangeOutcome
from redisq_ops.ops.filter.time import per_second
from redisq_ops.ops.hint import hint

from .options import Go
from .output import Meter, as_line, conclude, count, emit, printable, progress, say, untouched, when
from .session import Session

if TYPE_CHECKING:
    from redisq_ops.core.engine.queue import Queue
    from redisq_ops.core.engine.transfer_recovery import Recovered
    from redisq_ops.ops.change.audit_log import Author
    from redisq_ops.ops.change.preview import Preview
    from redisq_ops.ops.change.runner import Run


def agreed(s: Session, previews: Sequence[Preview], go: Go, rate: str | None = None) -> bool:
    """Show the previews and ask, unless ``--yes`` answers; False for a dry run.

    For a large or dangerous change the user has to type a number or name. Without a terminal and
    without ``--yes`` the preview is the output, and exit code 5 says that nothing was done.
    ``rate``: the value of ``--rate``, which the configuration may limit.
    """
    asking, texts = interactive(), [indented(preview) for preview in previews]
    guard = s.config.guard
    if not go.dry_run:
        guard.writable()
    if rate:
        guard.rate(per_second(rate))
    unasked = go.dry_run or not (go.yes or asking)
    for preview, text in zip(previews, texts, strict=True):
        if unasked and s.json:
            emit({"plan": preview.title, **preview.facts})
        elif unasked:
            print(*text, sep="\n")
        elif asking or not s.json:
            say("\n".join(text))
    if go.dry_run:
        return False
    guard.checked([preview.facts for preview in previews])
    guard.named(s.confirm, not go.yes)
    if unasked:
        raise Unconfirmed("no terminal to ask on: add --yes to go ahead")
    if go.yes:
        return True
    with untouched():
        sure = _sure(previews, guard.typed(s.confirm, None))
    if not sure:
        raise Refused("nothing was changed")
    return True


def nothing_matched(
    s: Session, previews: Sequence[Preview], dry_run: bool, outcome: ChangeOutcome | None = None
) -> int:
    """Say that there is nothing to change, and why; ask and write nothing.

    ``outcome``: the result to report, if something was counted.
    """
    for preview in previews:
        if not s.json:
            print(printable(f"0 matched: {preview}"))
        elif dry_run:
            emit({"plan": preview.title, **preview.facts})
        elif remarks := preview.facts.get("remarks"):
            say(printable(f"{preview.what}: {'; '.join(remarks)}"))
    if s.json and not dry_run:
        emit(outcome or ChangeOutcome(None, 0))
    return DONE if outcome is None or dry_run else outcome.exit_code


def interactive() -> bool:
    """Whether a person can be asked."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def indented(preview: Preview) -> list[str]:
    """A preview for people: its title, and below it the effects, indented."""
    title, *lines = map(printable, preview.text)
    return [title, *(f"  {line}" for line in lines)]


def _sure(previews: Sequence[Preview], name: str | None) -> bool:
    """The user's answer. ``name``: must be typed too; None: the context doesn't ask for it."""
    typed = [word for word in (*(preview.typed for preview in previews), name) if word is not None]
    if not typed:
        return _answer("Go ahead? [y/N] ").lower() in ("y", "yes")
    return all(_answer(f"Type {word} to go ahead: ") == word for word in typed)


def _answer(question: str) -> str:
    sys.stderr.write(question)
    sys.stderr.flush()
    return sys.stdin.readline().strip()


def drive(
    s: Session,
    change: Run,
    what: str,
    again: str = "",
    line: AbstractContextManager[Meter] | None = None,
) -> bool:
    """Take the steps of a change; False after Ctrl+C or SIGTERM. Its outcome counts what was done.

    ``again``: the command that continues it. ``line`` is shown instead of a progress line.
    """
    from redisq_ops.ops.change.runner import take_all

    outcome = change.outcome
    try:
        with line or progress(what, outcome.matched) as meter:
            change.limit_rate(s.config.guard.max_rate)
            s.run(take_all(change, meter))  # in one call, so that the steps share a connection
        return True
    except KeyboardInterrupt:
        # The step under way may have been carried out; its count is in the audit log.
        outcome.done = s.run(change.reached())
        return False
    except RedisqError as error:
        with suppress(RedisqError):  # another step sent at the same time may have been carried out
            outcome.done = s.run(change.reached())
        if s.json:
            conclude(as_line(outcome))
        elif change.begun or isinstance(error, Unreachable):  # else the whole change was refused
            say(f"{what}: stopped after {outcome.done:,} of {outcome.matched:,} (op {outcome.op})")
            # A change that was undone meanwhile, or whose queue was destroyed, can't be continued.
            if again and not isinstance(error, (NotFound, Superseded)):
                say(printable(f"continue with: {again}"))
        raise


def ended(
    s: Session,
    outcome: ChangeOutcome,
    what: str,
    *,
    undo: bool = True,
    more: Mapping[str, Any] | None = None,
    recovered: Sequence[Recovered] = (),
) -> None:
    """Print the outcome as the last line: for people, or as a JSON object with ``more`` in it.

    ``recovered``: unfinished moves of other commands that the change found.
    """
    from redisq_ops.ops.change.wording import SKIPPED

    tell_recovered(s, recovered)
    if s.json:
        return conclude(as_line(asdict(outcome) | dict(more or {})))
    if not outcome.matched:
        return conclude(printable(f"0 matched: {what}"))
    skipped = ", ".join(f"{count(n)} {reason}" for reason, n in outcome.skipped.items())
    done = f"{count(outcome.done)} of {count(outcome.matched)}"
    line = f"{what}: {done}" + (f", skipped {skipped}" if skipped else "")
    conclude(printable(line + (f" (op {outcome.op})" if outcome.op else "")))
    for reason in filter(SKIPPED.__contains__, outcome.skipped):
        say(f"{reason}: such entries {SKIPPED[reason]}")
    if undo and outcome.done and outcome.op:
        say(printable(f"undo with: {hint('undo', outcome.op)}"))
    return None


def tell_interrupted(s: Session, outcome: ChangeOutcome, again: str = "") -> None:
    """Say how many entries an interrupted change did not reach. ``again``: the command that
    continues it."""
    left = outcome.matched - outcome.handled
    if left > 0 and not s.json:
        how = f"; continue with: {again}" if again else ""
        say(printable(f"interrupted, {count(left)} left{how}"))


def confirm_and_run(
    s: Session,
    preview: Preview,
    go: Go,
    change: Callable[[Author], Coroutine[Any, Any, ChangeOutcome]],
) -> int:
    """Show the preview of a small change, ask, and carry it out; returns the exit code."""
    from redisq_ops.ops.change.audit_log import Author

    if preview.facts.get("matched") == 0:
        return nothing_matched(s, [preview], go.dry_run)
    if not agreed(s, [preview], go):
        return 0
    outcome = s.run(change(Author.here(go.reason)))
    ended(s, outcome, preview.what)
    return outcome.exit_code


def tell_recovered(s: Session, recovered: Sequence[Recovered]) -> None:
    """Report the unfinished moves of other commands that were found, and their results."""
    for one in recovered if not s.json else ():
        say(printable(str(one)))


def tell_unfinished(s: Session, queue: Queue[Any]) -> None:
    """Report the moves out of a queue that are still unfinished."""
    from redisq_ops.ops.change.unfinished import unfinished

    for one in s.run(unfinished(queue)) if not s.json else ():
        say(printable(one.sentence(lambda ms: when(ms, s.utc))))

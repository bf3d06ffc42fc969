"""What a change does: look again, say what will happen, then do it step by step.

Nothing here draws but through `Changes`, and nothing else in the dashboard writes to a server.
Each function returns whether anything was changed.
"""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from redisq_ops.core.io import arun
from redisq_ops.core.queue import Verb
from redisq_ops.core.settings import DEFAULTS
from redisq_ops.core.values import Entry, State
from redisq_ops.ops import control, journal
from redisq_ops.ops.bulk import MEANS, PAST, TYPED_ABOVE, Bulk, entries
from redisq_ops.ops.journal import Author, Outcome, Undo
from redisq_ops.ops.selection import Filter, Selection, select
from redisq_ops.ops.terminal import age, count, printable
from redisq_ops.tui.confirm import Question

if TYPE_CHECKING:
    from .changes import Changes

CLAIMANT = "operator"
_SAMPLE = 5
_SKIPPED = {
    "changed": "were in another state by then",
    "late": "came into this state after you looked",
    "expired": "were kept for too long to be put back",
    "same": "were so already",
}


class Stopped(Exception):
    """Esc, before anything was changed."""

    def __str__(self) -> str:
        return "Stopped; nothing was changed."


@dataclass(frozen=True, slots=True)
class Scope:
    """What a move is about: the ids, or everything that matches."""

    queue: str
    state: State
    ids: tuple[str, ...] = ()
    match: re.Pattern[str] | None = None

    @property
    def words(self) -> str:
        if len(self.ids) == 1:
            return self.ids[0]
        if self.ids:
            return f"The {count(len(self.ids))} marked"
        return f"All that match /{self.match.pattern}/" if self.match else "All in this state"


# --- moving entries ----------------------------------------------------------------------------


async def move(changes: Changes, verb: Verb, scope: Scope) -> bool:
    """Requeue, claim, replay or purge."""
    deployment = changes.deployment
    client = deployment.client

    def progress(scanned: int, total: int) -> None:
        if changes.stopping:
            raise Stopped
        changes.say(f"looking: {count(scanned)} of {count(total)}")

    queue = await arun(client, deployment.queue(scope.queue))
    filter = Filter(ids=scope.ids, match=scope.match)
    selection = await arun(client, select(queue, scope.state, filter, progress))
    trash_ms = int((await arun(client, queue.settings.op())).get("trash_ms", DEFAULTS.trash_ms))
    if not selection.count:
        changes.tell("0 matched: nothing to do")
        return False
    if not await changes.ask(question(verb, scope, selection, trash_ms)):
        return False
    bulk = Bulk(selection, verb, Author.here(), consumer=CLAIMANT)
    changes.last_op = bulk.outcome.op
    await _drive(changes, bulk, verb, PAST[verb])
    return True


def question(verb: Verb, scope: Scope, selection: Selection, trash_ms: int) -> Question:
    """What will happen to how many, by reason, with a sample."""
    number = selection.count
    lines = [f"{scope.words}: {MEANS[verb]}."]
    if verb == "purge":
        lines.append(f"U brings them back within {age(trash_ms)}.")
    if missing := len(scope.ids) - number if scope.ids else 0:
        lines.append(f"{count(missing)} of them are in another state by now: left out.")
    if selection.reasons and number > 1:
        ranked = sorted(selection.reasons.items(), key=lambda item: -item[1])
        reasons = " · ".join(f"{word} {count(n)}" for word, n in ranked[:4])
        lines += ["", f"By reason: {reasons}"]
    lines += ["", *map(_sampled, selection.sample[:_SAMPLE])]
    if number > _SAMPLE:
        lines.append(f"  … and {count(number - _SAMPLE)} more")
    title = f"{verb.capitalize()} {entries(number, scope.state)} of {scope.queue}?"
    typed = str(number) if number > TYPED_ABOVE else None
    return Question(title, tuple(lines), verb == "purge", typed)


def _sampled(entry: Entry) -> str:
    error = entry.error
    said = f"{error.type}: {error.message}" if error else entry.reason or ""
    return printable(f"  {entry.id}  {said}", 58)


async def undo(changes: Changes, name: str | None) -> bool:
    """Take back the latest change: this session's own, else the queue's, else of all queues."""
    deployment = changes.deployment
    client = deployment.client
    listed = await arun(client, journal.log(deployment, 50, name))
    able = [operation for operation in listed if operation.undoable]
    own = [operation for operation in able if operation.id == changes.last_op]
    if not able:
        changes.tell("There is nothing to undo here.", False)
        return False
    operation = (own or able)[0]
    queue = await arun(client, deployment.queue(operation.queue))
    now = await arun(client, queue.now.op())
    why = f": {operation.why}" if operation.why else ""
    asked = Question(
        f"Undo {operation.verb} of {count(operation.done - operation.undone)} in {queue.name}?",
        (
            f"{operation.id} ({operation.what})",
            f"{age(now - operation.started_ms)} ago by {operation.who} at {operation.whence}{why}",
            "",
            "What was touched since is left alone.",
        ),
    )
    if not await changes.ask(asked):
        return False
    await _drive(changes, Undo(queue, operation, Author.here()), "undo", "put back")
    return True


async def _drive(changes: Changes, change: Bulk | Undo, what: str, past: str) -> None:
    """Take all steps, or those until Esc or an error, and say what came of them."""
    outcome, stopped = change.outcome, ""
    try:
        while await arun(changes.deployment.client, change.step()):
            handled = outcome.done + sum(outcome.skipped.values())
            changes.say(f"{what}: {count(handled)} of {count(outcome.matched)}")
            await asyncio.sleep(change.pause)
            if changes.stopping:
                stopped = "stopped before the rest"
                break
    except Exception as error:
        stopped = f"stopped: {' '.join(str(error).split())}"
    _told(changes, outcome, past, stopped, isinstance(change, Bulk))


def _told(
    changes: Changes, outcome: Outcome, past: str, stopped: str = "", undo: bool = True
) -> None:
    said = [f"{count(outcome.done)} {past}"]
    said += [f"{count(n)} {_SKIPPED.get(word, word)}" for word, n in outcome.skipped.items()]
    said += [stopped] if stopped else []
    again = f"\n{outcome.op} · U undoes it" if undo and outcome.op else ""
    changes.tell(", ".join(said) + again, not stopped and outcome.done == outcome.matched)


# --- holding -----------------------------------------------------------------------------------


async def hold_queues(changes: Changes, names: tuple[str, ...]) -> bool:
    """Pause queues, or resume them when all of them are paused or draining."""
    client, deployment = changes.deployment.client, changes.deployment
    queues = [await arun(client, deployment.queue(name)) for name in names]
    counts = [await arun(client, queue.counts.op()) for queue in queues]
    held = all(one.paused is not None or one.closed is not None for one in counts)
    what = f"queue {names[0]}" if len(names) == 1 else f"{count(len(names))} queues"
    waiting, pending = (sum(getattr(c, state) for c in counts) for state in ("waiting", "pending"))
    reasons = [f"Held: {one.paused or one.closed}." for one in counts] if held else []
    lines = [*reasons[:_SAMPLE], *_handed_out(held, waiting, pending, "entries")]
    if not await changes.ask(Question(_ask_held(held, what), tuple(lines))):
        return False
    change = control.resume if held else control.pause
    for queue in queues:
        outcome = await arun(client, change(queue, Author.here()))
        changes.last_op = outcome.op or changes.last_op
    _told_held(changes, held, what, len(names))
    return True


async def hold_requests(changes: Changes, name: str, ids: tuple[str, ...]) -> bool:
    """Pause requests, or resume them when all of them are paused."""
    client = changes.deployment.client
    queue = await arun(client, changes.deployment.queue(name))
    found = [await arun(client, queue.request.op(id)) for id in ids]
    live = [request for request in found if request is not None and not request.settled]
    if not live:
        changes.tell("Only open requests can be held.", False)
        return False
    held = all(request.paused for request in live)
    what = f"request {live[0].id}" if len(live) == 1 else f"{count(len(live))} requests"
    waiting, pending = (sum(getattr(r, state) for r in live) for state in ("waiting", "pending"))
    lines = _handed_out(held, waiting, pending, "sub-requests")
    if not await changes.ask(Question(_ask_held(held, f"{what} of {name}"), lines)):
        return False
    for request in live:
        change = control.change_request(
            queue, request.id, "resume" if held else "pause", Author.here()
        )
        changes.last_op = (await arun(client, change)).op
    _told_held(changes, held, what, len(live))
    return True


def _ask_held(held: bool, what: str) -> str:
    return f"{'Resume' if held else 'Hold'} {what}?"


def _handed_out(held: bool, waiting: int, pending: int, noun: str) -> tuple[str, str]:
    how = "handed out again" if held else "handed out no more"
    return (
        f"{count(waiting)} waiting {noun}: {how}.",
        f"{count(pending)} running deliveries go on and can settle.",
    )


def _told_held(changes: Changes, held: bool, what: str, number: int) -> None:
    last = "it" if number == 1 else "the last one"
    said = f"{what} {'resumed' if held else 'held'}"
    changes.tell(f"{said}\n{changes.last_op} · U undoes {last}")

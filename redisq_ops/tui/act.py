"""Changes from the dashboard: look again, say what will happen, do it step by step.

Loaded with the first change, because it brings the Redis client. Nothing here draws but through
the app, and nothing else in the dashboard changes anything.
"""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from redisq_ops.core.io import arun
from redisq_ops.core.queue import Verb
from redisq_ops.core.settings import DEFAULTS
from redisq_ops.core.values import Entry, State
from redisq_ops.ops import control, journal
from redisq_ops.ops.bulk import MEANS, PAST, TYPED_ABOVE, Bulk, entries
from redisq_ops.ops.journal import Author, Outcome, Undo
from redisq_ops.ops.selection import Filter, Selection, select
from redisq_ops.ops.terminal import age, count, printable
from redisq_ops.tui.confirm import Confirm, Question

if TYPE_CHECKING:
    from .app import Top

CLAIMANT = "operator"
_SAMPLE = 5
_SKIPPED = {
    "changed": "were in another state by then",
    "late": "came into this state after you looked",
    "expired": "were kept for too long to be put back",
}


class Stopped(Exception):
    """Esc, before anything was changed."""


@dataclass(frozen=True, slots=True)
class Scope:
    """What a change is about: the ids, or everything that matches."""

    queue: str
    state: State
    ids: tuple[str, ...] = ()
    match: re.Pattern[str] | None = None

    @property
    def words(self) -> str:
        if len(self.ids) == 1:
            return f"{self.ids[0]}:"
        if self.ids:
            return f"The {count(len(self.ids))} marked:"
        if self.match is not None:
            return f"All that match /{self.match.pattern}/:"
        return "All in this state:"


async def move(app: Top, verb: Verb, scope: Scope) -> None:
    """Requeue, claim, replay or purge."""
    client, deployment = app.deployment.client, app.deployment

    def progress(scanned: int, total: int) -> None:
        if app.stopping:
            raise Stopped
        app.say(f"looking: {count(scanned)} of {count(total)}; Esc stops")

    queue = await arun(client, deployment.queue(scope.queue))
    filter = Filter(ids=scope.ids, match=scope.match)
    selection = await arun(client, select(queue, scope.state, filter, progress))
    trash_ms = int((await arun(client, queue.settings.op())).get("trash_ms", DEFAULTS.trash_ms))
    app.say("")
    if not selection.count:
        app.tell("0 matched: nothing to do")
        return
    if not await app.push_screen_wait(Confirm(question(verb, scope, selection, trash_ms))):
        return
    bulk = Bulk(selection, verb, Author.here(), consumer=CLAIMANT)
    app.last_op = bulk.outcome.op
    await _drive(app, bulk, verb)
    _told(app, bulk.outcome, PAST[verb])


async def _drive(app: Top, change: Bulk | Undo, what: str) -> None:
    outcome, app.stopping = change.outcome, False
    while not app.stopping and await arun(app.deployment.client, change.step()):
        handled = outcome.done + sum(outcome.skipped.values())
        app.say(f"{what}: {count(handled)} of {count(outcome.matched)}; Esc stops")
        await asyncio.sleep(change.pause)


def _told(app: Top, outcome: Outcome, past: str, undo: bool = True) -> None:
    said = [f"{count(outcome.done)} {past}"]
    said += [f"{count(n)} {_SKIPPED.get(word, word)}" for word, n in outcome.skipped.items()]
    if app.stopping:
        said.append("stopped before the rest")
    again = f"\n{outcome.op} · U undoes it" if undo and outcome.done else ""
    app.tell(", ".join(said) + again, outcome.done == outcome.matched)


def question(verb: Verb, scope: Scope, selection: Selection, trash_ms: int) -> Question:
    """What will happen to how many, by reason, with a sample."""
    number = selection.count
    lines = [f"{scope.words} {MEANS[verb]}."]
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


async def hold_queue(app: Top, name: str) -> None:
    """Pause a queue, or resume it when it is paused or draining."""
    client = app.deployment.client
    queue = await arun(client, app.deployment.queue(name))
    counts = await arun(client, queue.counts.op())
    held = counts.paused is not None or counts.closed is not None
    if held:
        asked = Question(
            f"Resume queue {name}?",
            (
                f"Held: {counts.paused or counts.closed}.",
                f"{count(counts.waiting)} waiting entries are handed out again.",
            ),
        )
    else:
        asked = Question(
            f"Hold queue {name}?",
            (
                f"Nothing more is handed out; {count(counts.waiting)} entries wait.",
                f"{count(counts.pending)} running deliveries go on and can settle.",
            ),
        )
    if await app.push_screen_wait(Confirm(asked)):
        change = control.resume if held else control.pause
        outcome = await arun(client, change(queue, Author.here()))
        app.last_op = outcome.op
        app.tell(f"{name} {'resumed' if held else 'held'}\n{outcome.op} · U undoes it")


async def hold_requests(app: Top, name: str, ids: tuple[str, ...]) -> None:
    """Pause requests, or resume them when all of them are paused."""
    client = app.deployment.client
    queue = await arun(client, app.deployment.queue(name))
    found = [await arun(client, queue.request.op(id)) for id in ids]
    live = [request for request in found if request is not None and not request.settled]
    if not live:
        app.tell("Only open requests can be held.", False)
        return
    held = all(request.paused for request in live)
    what = f"request {live[0].id}" if len(live) == 1 else f"{count(len(live))} requests"
    waiting, pending = (sum(getattr(r, state) for r in live) for state in ("waiting", "pending"))
    asked = Question(
        f"{'Resume' if held else 'Hold'} {what} of {name}?",
        (
            f"{count(waiting)} waiting sub-requests are "
            + ("handed out again." if held else "not handed out."),
            f"{count(pending)} running deliveries go on and can settle.",
        ),
    )
    if not await app.push_screen_wait(Confirm(asked)):
        return
    for request in live:
        verb: Literal["pause", "resume"] = "resume" if held else "pause"
        outcome = await arun(client, control.change_request(queue, request.id, verb, Author.here()))
        app.last_op = outcome.op
    last = "" if len(live) == 1 else " the last one"
    app.tell(f"{what} {'resumed' if held else 'held'}\n{outcome.op} · U undoes{last or ' it'}")


async def undo(app: Top, name: str | None) -> None:
    """Take back the latest change: this session's own, else the queue's."""
    client, deployment = app.deployment.client, app.deployment
    listed = await arun(client, journal.log(deployment, 50, name))
    able = [operation for operation in listed if operation.undoable and operation.verb != "undo"]
    own = [operation for operation in able if operation.id == app.last_op]
    if not able:
        app.tell("There is nothing to undo here.", False)
        return
    operation = (own or able)[0]
    queue = await arun(client, deployment.queue(operation.queue))
    now = await arun(client, queue.now.op())
    left = operation.done - operation.undone
    asked = Question(
        f"Undo {operation.verb} of {count(left)} in {operation.queue}?",
        (
            f"{operation.id} ({operation.what})",
            f"{age(now - operation.started_ms)} ago by {operation.who} at {operation.whence}"
            + (f": {operation.why}" if operation.why else ""),
            "",
            "What was touched since is left alone.",
        ),
    )
    if await app.push_screen_wait(Confirm(asked)):
        back = Undo(queue, operation, Author.here())
        await _drive(app, back, "undo")
        _told(app, back.outcome, "put back", undo=False)

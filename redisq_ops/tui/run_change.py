"""What a change does: look again, say what will happen, then do it step by step.

Nothing here draws but through `Changes`, and nothing else in the dashboard writes to a server.
Each function returns whether anything was changed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from redisq_ops.core.model.entry import Entry, State
from redisq_ops.core.model.errors import RedisqError, Refused
from redisq_ops.core.model.settings import DEFAULTS
from redisq_ops.core.model.states import Verb
from redisq_ops.core.redis.operation import arun
from redisq_ops.ops.change import audit_log, consumers, control
from redisq_ops.ops.change.audit_log import Author
from redisq_ops.ops.change.edit import Edit, Replaced, Sample, editable, preview_edit
from redisq_ops.ops.change.editor import readable
from redisq_ops.ops.change.outcome import OTHERS, ChangeOutcome
from redisq_ops.ops.change.prepare import ChangeRequest, PreparedChange, prepare
from redisq_ops.ops.change.preview import PAST, Preview
from redisq_ops.ops.change.runner import Run
from redisq_ops.ops.change.selection import PlannedScope
from redisq_ops.ops.change.transfer_undo import undo_of
from redisq_ops.ops.change.undo_preview import undo_preview
from redisq_ops.ops.filter.ast import Query
from redisq_ops.ops.filter.scan import Filter, select
from redisq_ops.ops.groups.error_groups import Grouping
from redisq_ops.ops.hint import hint
from redisq_ops.ops.inspect.consumers import SILENT_MS
from redisq_ops.ops.redaction import NO_REDACTION, Redaction
from redisq_ops.ops.terminal import age, count, printable
from redisq_ops.tui.change_speed import change_at_speed, state_of, why_stopped
from redisq_ops.tui.confirm_dialog import Question
from redisq_ops.tui.views.groups import Scanned

if TYPE_CHECKING:
    from .changes import Changes


_SAMPLE = 3
_LISTED = 50
_IDS = 100_000
"""ids that a scan of all dead letters remembers, for a change of one of its groups"""
_SKIPPED = {
    "changed": "were in another state by then",
    "late": "came into this state after you looked",
    "expired": "were kept for too long to be put back",
    "same": "were so already",
    OTHERS: "were put back by another undo",
    "gone": "are not there any more",
    "due": "are due within a minute: their own scheduler may be at them",
    "limited": "have a rate limit: only their own program enqueues them",
    "deferred": "wait for other entries: they go on when those end",
    "busy": "are with a worker of their own program",
    "recurring": "are the next run of a schedule, which would end without them",
    "linked": "have a parent or children, which would wait for ever",
    "unclear": "can't be put where a paused queue keeps what waits: its release is unknown",
    "invalid": "have lost what their own program needs to run them",
    "deep": "lie too deep in another program's list for now: undo it again later",
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
    where: Query | None = None


# --- moving entries ----------------------------------------------------------------------------


async def move(changes: Changes, verb: Verb, scope: Scope) -> bool:
    """Requeue, claim, replay or purge."""
    deployment, client = changes.deployment, changes.deployment.client
    changes.guard.checked([{"matched": len(scope.ids)}])  # before anything is looked through
    queue = await arun(client, deployment.queue(scope.queue))
    filter = Filter(ids=scope.ids, where=scope.where, redaction=changes.redaction)
    request = ChangeRequest(verb, queue, scope.state, filter, changes.guard.rate(None))
    preparing = prepare(request, progress=_looking(changes), shown=changes.redaction.text)
    prepared = await arun(client, preparing)
    trash_ms = int((await arun(client, queue.settings.op())).get("trash_ms", DEFAULTS.trash_ms))
    if not prepared.scope.count:
        changes.tell(
            "0 matched: "
            + (", ".join(prepared.preview.facts.get("remarks", ())) or "nothing to do")
        )
        return False
    asked = question(prepared, trash_ms, changes.redaction)
    if not await changes.ask(asked, prepared.scope.count):
        return False
    change = await change_at_speed(changes, prepared)
    await _drive(changes, change, verb, PAST[verb])
    return True


def _looking(changes: Changes) -> Callable[[int, int | None], None]:
    def progress(scanned: int, total: int | None) -> None:
        if changes.stopping:
            raise Stopped
        far = "so far" if total is None else f"of {count(total)}"
        changes.say(f"looking: {count(scanned)} {far}")

    return progress


def question(
    prepared: PreparedChange, trash_ms: int, redaction: Redaction = NO_REDACTION
) -> Question:
    """The preview of a change, with its first entries and what they failed with."""
    preview, verb = prepared.preview, prepared.request.verb
    assert not isinstance(prepared.scope, PlannedScope)
    lines = [f"filter: {preview.filter}", *preview.lines]
    if preview.reasons and prepared.scope.count > 1:
        lines.insert(1, f"reasons: {preview.reasons}")
    if verb == "purge":
        lines.append(f"U undoes it within {age(trash_ms)}")
    lines += ["", *(_sampled(redaction.entry(e)) for e in prepared.scope.sample[:_SAMPLE])]
    if prepared.scope.count > _SAMPLE:
        lines.append(f"  … and {count(prepared.scope.count - _SAMPLE)} more")
    return Question(
        preview.question, tuple(lines), verb == "purge", preview.typed, consumer=verb == "claim",
        speed="ramp" if verb == "replay" else "rate",
    )  # fmt: skip


def _sampled(entry: Entry) -> str:
    error = entry.error
    said = f"{error.type}: {error.message}" if error else entry.reason or ""
    return printable(f"  {entry.id}  {said}", 70)


async def take_over(
    changes: Changes, verb: Verb, name: str, group: str | None, consumer: str
) -> bool:
    """Claim what a consumer has held for long, or let it wait again; it stays a consumer."""
    client = changes.deployment.client
    queue = await arun(client, changes.deployment.queue(name))

    def progress(found: int, looked: int) -> None:
        if changes.stopping:
            raise Stopped
        changes.say(f"looking: {count(found)} of its entries so far")

    look = consumers.held_entries(queue, consumer, group, min_idle_ms=SILENT_MS, progress=progress)
    held = await arun(client, look)
    claims, number = verb == "claim", len(held.ids)
    if not claims:
        consumers.check_requeueable(held)
    preview = consumers.change_preview(held, "" if claims else None)
    if not number:
        changes.tell(f"0 matched: {'; '.join(preview.lines) or 'it holds nothing'}")
        return False
    lines = [*preview.lines, "it stays a consumer", ""]
    lines += [printable(f"  {id}") for id in held.ids[:_SAMPLE]]
    lines += [f"  … and {count(number - _SAMPLE)} more"] if number > _SAMPLE else []
    asked = Question(preview.question, tuple(lines), typed=preview.typed, consumer=claims)
    if not await changes.ask(asked, number):
        return False
    to = changes.consumer if claims else None
    change = consumers.ConsumerChange(held, to, Author.here(changes.why))
    await _drive(changes, change, verb, PAST[verb], change.undoable)
    return True


async def edit(changes: Changes, name: str, state: State, id: str) -> bool:
    """The payload in the person's editor, then what would change, then the change."""
    client = changes.deployment.client
    queue = await arun(client, changes.deployment.queue(name))
    editable(queue, state)
    filter = Filter(ids=(id,), redaction=changes.redaction)
    selection = await arun(client, select(queue, state, filter))
    entry = await arun(client, queue.get.op(id))
    if not selection.count or entry is None or entry.payload is None:
        changes.tell(f"{id} is not {state} any more, or has no payload.", False)
        return False
    readable(entry.payload, changes.redaction)
    after = changes.edited(entry.payload)
    if after is None:
        noun = "dlq" if state == "dead" else "delay"
        how = hint(noun, "edit", f"{name}/{id}")
        changes.tell(f"No editor can be opened from this terminal: {how}", False)
        return False
    if after == entry.payload:
        changes.tell("The payload is as it was: nothing was changed.")
        return False
    change = Replaced(entry.payload, after)
    preview, looked = await arun(client, preview_edit(selection, change))
    if not await changes.ask(edit_question(preview, looked)):
        return False
    await _drive(changes, Edit(selection, change, Author.here(changes.why)), "edit", "edited")
    return True


def edit_question(preview: Preview, looked: Sequence[Sample]) -> Question:
    """The preview of an edit, with what it makes of the first entries."""
    diffs = [line for sample in looked for line in sample.lines]
    lines = (f"filter: {preview.filter}", *preview.lines, "", *diffs)
    return Question(preview.question, lines, typed=preview.typed)


async def group_all(changes: Changes, name: str) -> Scanned | None:
    """Groups of all dead letters there are now; None after Esc. Reads only."""
    client = changes.deployment.client
    queue = await arun(client, changes.deployment.queue(name))
    filter = Filter(redaction=changes.redaction)
    now = await arun(client, queue.now.op())
    grouping = Grouping(queue, "dead", filter, now, ids=_IDS)
    while not grouping.over:
        await arun(client, grouping.step())
        changes.say(f"grouping: {count(grouping.scanned)} of {grouping.scan.total_text}")
        await asyncio.sleep(0)  # keys and pictures come in between
        if changes.stopping:
            changes.tell("Stopped: the groups are those of the latest again.")
            return None
    groups = grouping.groups
    ranked = tuple(groups.ranked())
    others = groups.others
    return Scanned(ranked, groups.total, others.groups, others.count, grouping.now_ms)


async def undo(changes: Changes, name: str | None) -> bool:
    """Take back one of the latest changes of a queue, or of all; the person picks it."""
    deployment = changes.deployment
    client = deployment.client
    found = await arun(client, audit_log.log(deployment, _LISTED, name))
    listed = [operation for operation in found.operations if operation.verb != "undo"]
    if found.unread:
        unread, error = next(iter(found.unread.items()))
        rest = f" and {len(found.unread) - 1:,} more" if len(found.unread) > 1 else ""
        changes.tell(f"Without those of {unread}{rest}: {error}", False)
    if not listed:
        changes.tell("There is nothing to undo here.", False)
        return False
    newest = await arun(client, deployment.queue(listed[0].queue))
    now = await arun(client, newest.now.op())
    chosen = await changes.choose(listed, now)
    operation = next((one for one in listed if one.id == chosen), None)
    if operation is None:
        return False
    queue = await arun(client, deployment.queue(operation.queue))
    # Refuses what can't be undone, and says why.
    change = await arun(client, undo_of(deployment, queue, operation, Author.here()))
    preview = await arun(client, undo_preview(change, now))
    lines = (*preview.lines, "", "Entries that changed since then stay as they are.")
    n = change.outcome.matched
    if not await changes.ask(Question(preview.question, lines, typed=preview.typed), n):
        return False
    change.author = Author.here(changes.why)
    await _drive(changes, change, "undo", "put back", False)
    if change.sample:
        more = change.outcome.left - len(change.sample)
        rest = f" and {count(more)} more" if more > 0 else ""
        changes.tell(f"Left alone: {', '.join(change.sample)}{rest}", False)
    return True


async def _drive(changes: Changes, change: Run, what: str, past: str, undo: bool = True) -> None:
    """Take all steps, or those until Esc or an error, and say what came of them."""
    outcome, stopped = change.outcome, ""
    change.limit_rate(changes.guard.max_rate)
    if undo:
        changes.last_op = outcome.op
    try:
        while await arun(changes.deployment.client, change.step()):
            state = state_of(change) or " of ".join(map(count, change.progress))
            changes.say(f"{what}: {state}")
            await _pause(changes, change.pause)
            if changes.stopping:
                stopped = "stopped before the rest"
                break
    except Exception as error:
        stopped = f"stopped: {' '.join(str(error).split())}"
    stopped = stopped or why_stopped(change)
    if stopped:  # a step whose reply was lost may have been carried out
        with suppress(Exception):
            outcome.done = await arun(changes.deployment.client, change.reached())
    changes.complete = not stopped
    _told(changes, outcome, past, stopped, undo)


async def _pause(changes: Changes, seconds: float) -> None:
    """Sleep before the next step; Esc ends it."""
    end = asyncio.get_running_loop().time() + seconds
    await asyncio.sleep(0)
    while not changes.stopping and (left := end - asyncio.get_running_loop().time()) > 0:
        await asyncio.sleep(min(0.1, left))


def _told(
    changes: Changes, outcome: ChangeOutcome, past: str, stopped: str = "", undo: bool = True
) -> None:
    parts = [f"{count(outcome.done)} {past}"]
    parts += [f"{count(n)} {_SKIPPED.get(word, word)}" for word, n in outcome.skipped.items()]
    parts += [stopped] if stopped else []
    again = f"\n{outcome.op} · U undoes it" if undo and outcome.op and outcome.done else ""
    changes.tell(", ".join(parts) + again, not stopped and outcome.done == outcome.matched)


# --- holding -----------------------------------------------------------------------------------


async def hold_queues(changes: Changes, names: tuple[str, ...]) -> bool:
    """Pause queues, or resume them when all of them are paused or draining."""
    client, deployment = changes.deployment.client, changes.deployment
    queues = [await arun(client, deployment.queue(name)) for name in names]
    if not any(queue.has_settings for queue in queues):
        control.settable(queues[0])
    counts = [await arun(client, queue.counts.op()) for queue in queues]
    held = all(one.paused is not None or one.closed is not None for one in counts)
    what = f"queue {names[0]}" if len(names) == 1 else f"{count(len(names))} queues"
    waiting, pending = (sum(getattr(c, state) for c in counts) for state in ("waiting", "pending"))
    reasons = [f"Held: {one.paused or one.closed}." for one in counts] if held else []
    lines = [*reasons[:_SAMPLE], *_handed_out(held, waiting, pending, "entries")]
    lines += dict.fromkeys(filter(None, map(control.heeded_by, queues)))
    if not await changes.ask(Question(_ask_held(held, what), tuple(lines))):
        return False
    change, author = control.resume if held else control.pause, Author.here(changes.why)
    done, refused = 0, list[str]()
    for queue in queues:
        try:
            outcome = await arun(client, change(queue, author))
        except Refused as error:  # another program's, as a rule: the others can be
            refused.append(str(error))
        except RedisqError as error:
            refused += [str(error), "The rest was left as it is."]
            break
        else:
            done, changes.last_op = done + 1, outcome.op or changes.last_op
    if not refused:
        _told_held(changes, held, what, done)
        return True
    said = f"{count(done)} of {what} {'resumed' if held else 'held'}" if len(names) > 1 else ""
    changes.tell("\n".join([*([said] if said else []), *refused]), False)
    return bool(done)


async def hold_requests(changes: Changes, name: str, ids: tuple[str, ...]) -> bool:
    """Pause requests, or resume them when all of them are paused."""
    client = changes.deployment.client
    queue = control.requests_of(await arun(client, changes.deployment.queue(name)))
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
            queue, request.id, "resume" if held else "pause", Author.here(changes.why)
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

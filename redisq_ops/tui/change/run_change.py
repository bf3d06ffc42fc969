"""What a change does: read the entries, ask, then change them step by step.

The functions draw only through `Changes`. In the dashboard, only they and `suggested_change`
write to a server.
Each function returns whether anything was changed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from datetime import UTC
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, Any

from redisq_ops.core.engine.optional_features import HasOwnersPause
from redisq_ops.core.engine.queue import Queue
from redisq_ops.core.model.entry import Entry, State
from redisq_ops.core.model.errors import RedisqError, Refused
from redisq_ops.core.model.settings import DEFAULTS
from redisq_ops.core.model.states import Verb
from redisq_ops.core.queues.request.queue import Control
from redisq_ops.core.redis.operation import arun
from redisq_ops.ops.change import audit_log, control
from redisq_ops.ops.change.allowed import allowed, ensure_changeable
from redisq_ops.ops.change.audit_log import Author, Operation
from redisq_ops.ops.change.consumer_preview import consumer_preview
from redisq_ops.ops.change.consumer_steps import ConsumerSteps
from redisq_ops.ops.change.control_preview import queue_preview, request_preview
from redisq_ops.ops.change.edit import EditSteps, Replaced, Sample, editable, preview_edit
from redisq_ops.ops.change.editor import readable
from redisq_ops.ops.change.held_entries import check_settleable, held_entries
from redisq_ops.ops.change.outcome import ChangeOutcome
from redisq_ops.ops.change.prepare import ChangeRequest, PreparedChange, prepare
from redisq_ops.ops.change.preview import Preview
from redisq_ops.ops.change.runner import ChangeRun, Run
from redisq_ops.ops.change.scope import PlannedScope
from redisq_ops.ops.change.transfer_plan import Route
from redisq_ops.ops.change.transfer_undo import undo_of
from redisq_ops.ops.change.undo_preview import MOST_ASKED, undo_preview
from redisq_ops.ops.change.wording import PAST, SKIPPED, state_entries
from redisq_ops.ops.filter.filter import Filter
from redisq_ops.ops.filter.selection import select
from redisq_ops.ops.groups.error_groups import Grouping
from redisq_ops.ops.inspect.consumers import SILENT_MS
from redisq_ops.ops.inspect.live_consumers import only_holder
from redisq_ops.ops.redaction import NO_REDACTION, Redaction
from redisq_ops.ops.required_features import requests_of
from redisq_ops.ops.terminal import age, count, printable, rough_age
from redisq_ops.tui.change import asked_values
from redisq_ops.tui.change.asked_values import Receiver
from redisq_ops.tui.change.confirm_dialog import Question
from redisq_ops.tui.change.speed import change_at_speed, state_of, why_stopped
from redisq_ops.tui.views.base import ChangeTarget
from redisq_ops.tui.views.groups import Scanned

if TYPE_CHECKING:
    from .changes import Changes


_SAMPLE = 3
_LISTED = 50
_IDS = 100_000
"""ids that a scan of all dead letters keeps, so that a change of a group needs no scan"""
_LONG_MS = 2_000
"""the duration of a change is shown from here on"""


class Stopped(Exception):
    """Esc was pressed before anything was changed."""

    def __str__(self) -> str:
        return "Stopped; nothing was changed."


# --- moving entries ----------------------------------------------------------------------------


async def move(changes: Changes, verb: Verb, name: str, target: ChangeTarget) -> bool:
    """Change the entries with the target's ids, or all that match it, after asking for what else
    the verb needs: a claim's receiver, a ready time, the queue to move to."""
    deployment, client = changes.deployment, changes.deployment.client
    changes.guard.checked([{"matched": len(target.ids)}])  # before entries are searched
    queue = await arun(client, deployment.queue(name))
    if verb != "move":
        allowed(queue, verb, target.state, orphan=True)  # before anything is asked
    receiver: Receiver | None = None
    ready_ms: int | None = None
    route: Route | None = None
    if verb == "claim":
        holder = await arun(client, only_holder(queue, target.ids))
        receiver = await asked_values.receiver(changes, queue, "the entries", holder=holder)
    elif verb == "reschedule":
        ready_ms = await asked_values.ready_time(changes, queue)
    elif verb == "move":
        route = await asked_values.route(changes, queue)
    asks = verb in ("claim", "reschedule", "move")
    if asks and receiver is None and ready_ms is None and route is None:
        return False
    filter = Filter(ids=target.ids, where=target.where, redaction=changes.redaction)
    request = ChangeRequest(
        verb,
        queue,
        target.state,
        filter,
        changes.guard.rate(None),
        receiver.name if receiver else "",
        ready_ms,
        route,
        utc=changes.zone is UTC,
    )
    preparing = prepare(request, progress=_looking(changes), shown=changes.redaction.text)
    prepared = await arun(client, preparing)
    trash_ms = int((await arun(client, queue.settings.op())).get("trash_ms", DEFAULTS.trash_ms))
    if not prepared.scope.count:
        changes.tell(f"0 matched: {prepared.preview}")
        return False
    asked = question(prepared, trash_ms, changes.redaction)
    asked = asked if receiver is None else receiver.asked(asked)
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
    """The preview of a change, with its first entries and their errors."""
    preview, verb = prepared.preview, prepared.request.verb
    assert not isinstance(prepared.scope, PlannedScope)
    lines = [f"filter: {preview.filter}", *preview.lines]
    if preview.reasons and prepared.scope.count > 1:
        lines.insert(1, f"reasons: {preview.reasons}")
    if verb == "purge":
        lines.append(f"U undoes it within {rough_age(trash_ms)}")
    unwatched = prepared.request.queue.unwatched
    if verb == "replay" and unwatched:
        lines.append(f"no canary or ramp: {unwatched}")
    lines += ["", *_sampled([redaction.entry(e) for e in prepared.scope.sample[:_SAMPLE]])]
    if prepared.scope.count > _SAMPLE:
        lines.append(f"  … and {count(prepared.scope.count - _SAMPLE)} more")
    return Question(
        preview.question,
        tuple(lines),
        verb == "purge",
        preview.typed,
        speed="ramp" if verb == "replay" and not unwatched else "rate",
    )


def asked(preview: Preview, *more: str, danger: bool = False) -> Question:
    """The preview of a change, with ``more`` lines below it."""
    about = [f"filter: {preview.filter}"] if preview.filter else []
    return Question(preview.question, (*about, *preview.lines, *more), danger, preview.typed)


def _sampled(entries: list[Entry]) -> list[str]:
    whys = [entry.error.line if entry.error else entry.reason or "" for entry in entries]
    width = min(36, max((len(entry.id) for entry in entries), default=0))
    pairs = zip(entries, whys, strict=True)
    return [printable(f"  {entry.id:<{width}}  {why}", 70).rstrip() for entry, why in pairs]


async def take_over(
    changes: Changes, verb: str, name: str, group: str | None, consumer: str
) -> bool:
    """Claim, acknowledge or requeue what a consumer has held for long; it stays a consumer."""
    client = changes.deployment.client
    queue = await arun(client, changes.deployment.queue(name))
    looking = _looking(changes)
    look = held_entries(queue, consumer, group, min_idle_ms=SILENT_MS, progress=looking)
    held = await arun(client, look)
    claims, number, acknowledge = verb == "claim", len(held.ids), verb == "acknowledge"
    if not claims:
        await arun(client, check_settleable(queue, acknowledge=acknowledge))
    if not number:
        about = consumer_preview(held, "" if claims else None, acknowledge=acknowledge)
        changes.tell(f"0 matched: {about}")
        return False
    receiver: Receiver | None = None
    if claims:
        what = f"{state_entries(number, 'pending')} of {held.what}"
        receiver = await asked_values.receiver(changes, queue, what, held.group, consumer)
        if receiver is None:
            return False
    to = None if receiver is None else receiver.name
    lines = ["", *(printable(f"  {id}") for id in held.ids[:_SAMPLE])]
    lines += [f"  … and {count(number - _SAMPLE)} more"] if number > _SAMPLE else []
    question = asked(consumer_preview(held, to, acknowledge=acknowledge), *lines)
    if not await changes.ask(question if receiver is None else receiver.asked(question), number):
        return False
    steps = ConsumerSteps(held, to, acknowledge=acknowledge)
    run = ChangeRun(steps, Author.here(changes.why))
    await _drive(changes, run, verb, PAST[verb], steps.undoable)
    return True


async def edit(changes: Changes, name: str, state: State, id: str) -> bool:
    """Open the payload in the user's editor, show the differences, then change the entry."""
    client = changes.deployment.client
    queue = await arun(client, changes.deployment.queue(name))
    editable(queue, state)
    await arun(client, ensure_changeable(queue))
    filter = Filter(ids=(id,), redaction=changes.redaction)
    selection = await arun(client, select(queue, state, filter))
    (entry,) = await arun(client, queue.get_in.op([id], state))
    if not selection.count or entry is None or entry.payload is None:
        changes.tell(f"{id} is not {state} any more, or has no payload.", False)
        return False
    readable(entry.payload, changes.redaction)
    after = await changes.edited(entry.payload)
    if after == entry.payload:
        changes.tell("The payload is as it was: nothing was changed.")
        return False
    change = Replaced(entry.payload, after)
    preview, looked = await arun(client, preview_edit(selection, change))
    if not await changes.ask(edit_question(preview, looked)):
        return False
    run = ChangeRun(EditSteps(selection, change), Author.here(changes.why))
    await _drive(changes, run, "edit", "edited")
    return True


def edit_question(preview: Preview, looked: Sequence[Sample]) -> Question:
    """The preview of an edit, with the differences in the first entries."""
    diffs = [line for sample in looked for line in sample.lines]
    return asked(preview, "", *diffs)


async def group_all(changes: Changes, name: str) -> Scanned | None:
    """The groups of all dead letters at this moment; None after Esc. Reads only."""
    client = changes.deployment.client
    queue = await arun(client, changes.deployment.queue(name))
    filter = Filter(redaction=changes.redaction)
    now = await arun(client, queue.now.op())
    grouping = Grouping(queue, "dead", filter, now, ids=_IDS)
    while not grouping.over:
        await arun(client, grouping.step())
        changes.say(f"grouping: {count(grouping.scanned)} of {grouping.scan.total_text}")
        await asyncio.sleep(0)  # lets keys and snapshots be handled
        if changes.stopping:
            changes.tell("Stopped: the list shows the groups of the latest dead letters again.")
            return None
    groups, unread = grouping.groups, grouping.scan.unread
    if unread:
        changes.tell(f"Not everything could be grouped: {unread}", False)
    ranked = tuple(groups.ranked())
    others = groups.others
    return Scanned(ranked, groups.total, others.groups, others.count, grouping.now_ms, unread)


async def undo(changes: Changes, name: str | None) -> bool:
    """Take back one of the latest changes of a queue, or of all queues; the user picks it."""
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
    return await _undo(changes, queue, operation, now)


async def undo_named(changes: Changes, op: str) -> bool:
    """Take back the change of this name."""
    deployment = changes.deployment
    queue, operation = await arun(deployment.client, audit_log.find(deployment, op))
    now = await arun(deployment.client, queue.now.op())
    return await _undo(changes, queue, operation, now)


async def _undo(changes: Changes, queue: Queue[Any], operation: Operation, now: int) -> bool:
    deployment, client = changes.deployment, changes.deployment.client
    # Refuses what can't be undone, and says why.
    steps = await arun(client, undo_of(deployment, queue, operation))
    preview = await arun(client, undo_preview(steps, now, most=MOST_ASKED))
    if not await changes.ask(asked(preview), steps.outcome.matched):
        return False
    await _drive(changes, ChangeRun(steps, Author.here(changes.why)), "undo", "put back", False)
    if steps.sample:
        more = steps.outcome.left - len(steps.sample)
        rest = f" and {count(more)} more" if more > 0 else ""
        changes.tell(f"Left alone: {', '.join(steps.sample)}{rest}", False)
    return True


async def _drive(changes: Changes, change: Run, what: str, past: str, undo: bool = True) -> None:
    """Take steps until the end, Esc or an error, and show the outcome."""
    outcome, stopped, began = change.outcome, "", monotonic()
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
    took = round(1000 * (monotonic() - began))
    past += f" in {age(took)}" if took >= _LONG_MS else ""
    _show_outcome(changes, outcome, past, stopped, undo)


async def _pause(changes: Changes, seconds: float) -> None:
    """Sleep before the next step; Esc ends it."""
    end = asyncio.get_running_loop().time() + seconds
    await asyncio.sleep(0)
    while not changes.stopping and (left := end - asyncio.get_running_loop().time()) > 0:
        await asyncio.sleep(min(0.1, left))


def _show_outcome(
    changes: Changes, outcome: ChangeOutcome, past: str, stopped: str = "", undo: bool = True
) -> None:
    parts = [f"{count(outcome.done)} {past}"]
    parts += [f"{count(n)} {SKIPPED.get(word, word)}" for word, n in outcome.skipped.items()]
    parts += [stopped] if stopped else []
    again = f"\n{outcome.op} · U undoes it" if undo and outcome.op and outcome.done else ""
    changes.tell(", ".join(parts) + again, not stopped and outcome.done == outcome.matched)


# --- pausing -----------------------------------------------------------------------------------


async def hold_queues(changes: Changes, names: tuple[str, ...], resumes: bool = False) -> bool:
    """Pause queues, or resume them when all of them are paused or draining.

    ``resumes``: never pause.
    """
    client, deployment = changes.deployment.client, changes.deployment
    queues = [await arun(client, deployment.queue(name)) for name in names]
    if not any(queue.has_settings or isinstance(queue, HasOwnersPause) for queue in queues):
        control.settable(queues[0], "pause")
    counts = [await arun(client, queue.counts.op()) for queue in queues]
    held = all(one.paused is not None or one.closed is not None for one in counts)
    verb: Control = "resume" if held else "pause"
    change = control.resume if held else control.pause
    preview = queue_preview(queues, counts, verb)
    what = preview.what.removeprefix(f"{verb} ")
    if resumes and not held:
        changes.tell(f"{what} is not paused any more.", False)
        return False
    if not await changes.ask(asked(preview)):
        return False
    author = Author.here(changes.why)
    return await _hold_each(changes, what, verb, [partial(change, one, author) for one in queues])


async def hold_requests(
    changes: Changes, name: str, ids: tuple[str, ...], resumes: bool = False
) -> bool:
    """Pause requests, or resume them when all of them are paused; ``resumes``: never pause."""
    client = changes.deployment.client
    queue = requests_of(await arun(client, changes.deployment.queue(name)))
    found = [await arun(client, queue.request.op(id)) for id in ids]
    live = [request for request in found if request is not None and not request.settled]
    if not live:
        changes.tell("Only open requests can be paused.", False)
        return False
    verb: Control = "resume" if all(request.paused for request in live) else "pause"
    for request in live:  # all of them, before the first is changed
        await arun(client, control.changeable(queue, request.id, verb))
    preview = request_preview(queue, live, verb)
    what = preview.what.removeprefix(f"{verb} ")
    if resumes and verb == "pause":
        changes.tell(f"{what} is not paused any more.", False)
        return False
    if not await changes.ask(asked(preview), len(live)):
        return False
    author = Author.here(changes.why)
    acts = [partial(control.change_request, queue, one.id, verb, author) for one in live]
    return await _hold_each(changes, what, verb, acts)


async def _hold_each(
    changes: Changes,
    what: str,
    verb: Control,
    acts: Sequence[Callable[[], Coroutine[Any, Any, ChangeOutcome]]],
) -> bool:
    """Pause or resume one after the other, and tell which could not be; whether one was."""
    ops, same, refused = list[str](), 0, list[str]()
    for act in acts:
        try:
            outcome = await arun(changes.deployment.client, act())
        except Refused as error:  # this one only: go on with the others
            refused.append(str(error))
        except RedisqError as error:
            refused += [str(error), "The rest was left as it is."]
            break
        else:
            ops += [outcome.op] if outcome.op else []
            same += outcome.op is None
    said = f"{what} {PAST[verb]}"
    if len(acts) == 1:
        lines = [] if refused else [f"{said}: it was so already" if same else said]
    else:
        some = "" if len(ops) == len(acts) else f"{count(len(ops))} of "
        lines = [some + said + (f", {count(same)} so already" if same else "")]
    if ops:
        changes.last_op = ops[-1]
        lines.append(f"{ops[-1]} · U undoes {'it' if len(ops) == 1 else 'the last one'}")
    changes.tell("\n".join([*lines, *refused]), not refused)
    return bool(ops)


def tell_one(changes: Changes, outcome: ChangeOutcome, what: str) -> bool:
    """Tell what one change without entries did; whether it changed anything."""
    if outcome.op is None:
        changes.tell(f"{what}: it was so already")
        return False
    changes.last_op = outcome.op
    changes.tell(f"{what}\n{outcome.op} · U undoes it")
    return True

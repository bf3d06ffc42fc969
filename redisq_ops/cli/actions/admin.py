"""Changes that are not moves of entries: undo, requests, queues, retention."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from functools import partial

from redisq_ops.core.engine.registry import refuse_reserved_name
from redisq_ops.core.model.errors import BadInput, NotFound, Refused, Unreachable
from redisq_ops.core.model.exit_codes import INTERRUPTED
from redisq_ops.core.model.keys import known_name
from redisq_ops.core.queues.request.queue import Control
from redisq_ops.core.redis.operation import both
from redisq_ops.ops.change import audit_log, control
from redisq_ops.ops.change.acknowledge import acknowledge as acknowledge_dead_letters
from redisq_ops.ops.change.acknowledge import acknowledge_preview
from redisq_ops.ops.change.audit_log import Author
from redisq_ops.ops.change.control_preview import (
    queue_preview,
    request_preview,
    setting_text,
    settings_preview,
)
from redisq_ops.ops.change.destroy import DestroySteps, destroy_preview, destroyable
from redisq_ops.ops.change.runner import ChangeRun
from redisq_ops.ops.change.transfer_undo import undo_of
from redisq_ops.ops.change.undo import UndoSteps, why_not
from redisq_ops.ops.change.undo_preview import MOST_ASKED, MOST_DRY, undo_preview
from redisq_ops.ops.files.submit import opened
from redisq_ops.ops.filter.time import duration_ms, moment_ms
from redisq_ops.ops.hint import hint

from ..address import place
from ..confirm_and_run import agreed, confirm_and_run, drive, ended, tell_interrupted
from ..options import Go
from ..outcome_report import UNDO, check_report_file, reporting
from ..output import count, emit, printable, say, table
from ..session import Session


def undo(s: Session, typed: str | None, report_file: str | None, go: Go) -> int:
    author = audit_log.Author.here(go.reason)
    op = typed or _latest(s, author, go)
    again = s.again if typed else f"{s.again} {op}"  # until then another change may be the latest
    queue, operation = s.run(audit_log.find(s.deployment, op))
    ahead = s.config.guard.max_rate is None
    steps = s.run(undo_of(s.deployment, queue, operation, ahead=ahead))
    if not go.dry_run:
        check_report_file(report_file, op, UNDO)
    now = s.run(queue.now.op())
    most = MOST_DRY if go.dry_run else 0 if go.yes else MOST_ASKED
    preview = s.run(undo_preview(steps, now, most=most, listed=go.dry_run))
    if not agreed(s, [preview], go):
        return 0
    with reporting(s, report_file, op, of=UNDO) as report:
        report.change = change = ChangeRun(steps, author)
        steps.report = report.each
        finished = drive(s, change, f"undo {op}", again)
        unchanged = {"sample": steps.sample, "unnamed": steps.unnamed}
        report.end(change.outcome, {"unnamed": steps.unnamed})
    ended(s, change.outcome, f"undid {op}", undo=False, more=unchanged, recovered=steps.recovered)
    if not s.json:
        _tell_left(steps, operation.into or queue.name)
        if finished and steps.rest:
            one = steps.rest == 1
            them = f"{count(steps.rest)} of them {'was' if one else 'were'} changed by operators"
            back = "it comes" if one else "these come"
            how = hint("undo", op)
            say(printable(f"{them} there; once that is undone, {back} back with: {how}"))
    if not finished:
        tell_interrupted(s, change.outcome, again)
    return change.outcome.exit_code if finished else INTERRUPTED


def _latest(s: Session, author: Author, go: Go) -> str:
    """The id of the latest change that can be undone. With --yes, it must be the latest of all
    changes, and the caller's own.

    So a script that runs twice, or beside another one, does not undo older and older changes.
    """
    found = s.run(audit_log.log(s.deployment))
    changes = [o for o in found.operations if o.verb != "undo"]
    for name, why in found.unread.items():
        if isinstance(why, Unreachable):
            raise Unreachable(f"the latest change is unknown: {name}: {why}; name the change")
    latest = next((o for o in changes if o.undoable and not o.tried), None)
    if latest is None:
        raise NotFound(f"nothing to undo ({hint('log')} shows what was done)")
    if not go.yes or go.dry_run:
        return latest.id
    command = f"to undo that one: {hint('undo', latest.id, yes=None)}"
    if (last := changes[0]).id != latest.id:
        raise Refused(
            f"the latest change, {last.id}, can't be undone: {why_not(last)}; the one "
            f"before that can is {latest.verb} in queue {latest.queue}, {command}"
        )
    if latest.by != f"{author.who}@{author.whence}":
        raise Refused(
            f"the latest change isn't yours: {latest.verb} in queue {latest.queue} by {latest.by}; "
            f"{command}"
        )
    return latest.id


def _tell_left(change: UndoSteps, queue: str) -> None:
    """Report the known ids of entries that an undo left alone."""
    if change.sample:
        more = change.outcome.left - len(change.sample)
        rest = f" and {count(more)} more" if more > 0 else ""
        lists = "" if change.report or not rest else " (--report FILE lists them)"
        ids = ", ".join(f"{queue}/{id}" for id in change.sample)
        say(printable(f"left alone: {ids}{rest}{lists}"))


def change_request(s: Session, verb: Control, address: str, go: Go, value: str = "") -> int:
    at = place(s, address, "request")
    queue, id = at.queue, at.id or ""
    now = s.run(control.changeable(queue, id, verb, value))
    return confirm_and_run(
        s,
        request_preview(queue, [now], verb, value),
        go,
        lambda author: control.change_request(queue, id, verb, author, value),
    )


def change_queue(s: Session, verb: str, name: str, go: Go) -> int:
    queue = s.run(s.deployment.queue(name))
    control.settable(queue, verb)
    preview = queue_preview([queue], [s.run(queue.counts.op())], verb)
    act = {"pause": control.pause, "resume": control.resume, "drain": control.drain}[verb]
    return confirm_and_run(s, preview, go, partial(act, queue))


def acknowledge(s: Session, name: str, typed: str | None, go: Go, *, end: bool) -> int:
    if end and typed:
        raise BadInput("--until and --end contradict each other")
    queue = s.run(s.deployment.queue(name))
    counts, now = s.run(both(queue.counts.op(), queue.now.op()))
    until_ms = typed and _until(typed, now, utc=s.utc)
    preview = acknowledge_preview(queue, counts, until_ms or None, end=end)
    act = partial(acknowledge_dead_letters, queue, until_ms=until_ms or None, end=end)
    return confirm_and_run(s, preview, go, act)


def _until(typed: str, now_ms: int, *, utc: bool) -> int:
    """A time, or a time span from now."""
    if typed[-1:] in "smhd" and typed[:1].isdigit():
        return now_ms + duration_ms(typed)
    at_ms = moment_ms(typed, now_ms, ahead=True, utc=utc)
    if at_ms <= now_ms:
        raise BadInput(f"--until {typed}: that is over already")
    return at_ms


def destroy(s: Session, name: str, go: Go, *, hard: bool) -> int:
    queue = s.run(s.deployment.queue(name))
    preview = destroy_preview(queue, s.run(destroyable(queue, hard)), hard)
    if not agreed(s, [preview], go):
        return 0
    change = ChangeRun(DestroySteps(queue, hard=hard), Author.here(go.reason))
    finished = drive(s, change, preview.what, s.again)
    ended(s, change.outcome, f"{preview.what}, keys", undo=False)
    if not finished and not s.json:
        say(printable(f"interrupted: {queue.name} takes nothing more; continue with: {s.again}"))
    return change.outcome.exit_code if finished else INTERRUPTED


def retention(s: Session, typed: str, words: Sequence[str], go: Go) -> int:
    queue = s.run(opened(s.deployment, known_name(typed, "queue name")))
    new = not s.run(queue.exists.op())
    changes = {}
    for word in words:
        name, equals, text = word.partition("=")
        if not equals:
            raise BadInput(f"{word!r} is not NAME=VALUE")
        changes[name] = control.checked_setting(name, text)
    settings = s.run(control.retention(queue))
    if not changes:
        if new:
            say(printable(f"queue {queue.name} does not exist yet: these are the defaults"))
        if s.json:
            for setting in settings:
                emit({"queue": queue.name, **asdict(setting)})
        else:
            rows = [[x.name, setting_text(x.name, x.value), x.default] for x in settings]
            table(["setting", "value", "default"], rows)
        return 0
    control.settable(queue)
    if new:
        refuse_reserved_name(queue.name, queue.kind)
    return confirm_and_run(
        s,
        settings_preview(queue, settings, changes, new),
        go,
        lambda author: control.set_flags(queue, "retention", author, changes),
    )

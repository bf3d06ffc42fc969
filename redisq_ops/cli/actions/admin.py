"""Changes that are not moves of entries: undo, requests, queues, retention."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from redisq_ops.core.engine.registry import refuse_reserved_name
from redisq_ops.core.model.errors import BadInput, NotFound, Refused, Unreachable
from redisq_ops.core.model.keys import checked_name
from redisq_ops.core.queues.request.queue import Control
from redisq_ops.ops.change import audit_log, control
from redisq_ops.ops.change.audit_log import Author
from redisq_ops.ops.change.destroy import Destroy, contents, destroyable
from redisq_ops.ops.change.preview import Preview, typed_number
from redisq_ops.ops.change.transfer_undo import undo_of
from redisq_ops.ops.change.undo import Undo, why_not
from redisq_ops.ops.change.undo_preview import undo_preview
from redisq_ops.ops.files.submit import opened
from redisq_ops.ops.hint import hint

from ..address import place
from ..confirm_and_run import agreed, drive, ended, tell_recovered
from ..outcome_report import UNDO, its_own, reporting
from ..output import count, emit, printable, say, table
from ..session import Session


def undo(s: Session, given: dict[str, Any]) -> int:
    author = audit_log.Author.here(given["reason"])
    op = given["op"] or _latest(s, author, given)
    queue, operation = s.run(audit_log.find(s.deployment, op))
    change = s.run(undo_of(s.deployment, queue, operation, author))
    if not given["dry_run"]:
        its_own(given["report"], op, UNDO)
    now = s.run(queue.now.op())
    preview = s.run(undo_preview(change, now, count_unchanged=given["dry_run"]))
    if not agreed(s, [preview], given):
        return 0
    with reporting(s, given["report"], op, of=UNDO) as report:
        report.change, change.report = change, report.each
        finished = drive(s, change, f"undo {op}", s.again)
        unchanged = {"sample": change.sample, "unnamed": change.unnamed}
        report.end(change.outcome, {"unnamed": change.unnamed})
    ended(s, change.outcome, f"undid {op}", undo=False, more=unchanged)
    tell_recovered(s, change.recovered)
    if not s.json:
        _tell_left(change, operation.into or queue.name)
        if finished and change.rest:
            one = change.rest == 1
            them = f"{count(change.rest)} of them {'was' if one else 'were'} changed by operators"
            back = "it comes" if one else "these come"
            how = hint("undo", op)
            say(printable(f"{them} there; once that is undone, {back} back with: {how}"))
        left = change.outcome.matched - change.outcome.done - sum(change.outcome.skipped.values())
        if not finished and left > 0:
            say(printable(f"interrupted, {count(left)} left; continue with: {s.again}"))
    return change.outcome.exit_code if finished else 130


def _latest(s: Session, author: Author, given: Mapping[str, Any]) -> str:
    """The latest change that can be undone; with --yes only the very latest, and only the caller's.

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
    if not given["yes"] or given["dry_run"]:
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


def _tell_left(change: Undo, queue: str) -> None:
    """Report entries that were left alone, as far as they are known."""
    if change.sample:
        more = change.outcome.left - len(change.sample)
        rest = f" and {count(more)} more" if more > 0 else ""
        lists = "" if change.report or not rest else " (--report FILE lists them)"
        ids = ", ".join(f"{queue}/{id}" for id in change.sample)
        say(printable(f"left alone: {ids}{rest}{lists}"))


def change_request(s: Session, verb: Control, given: dict[str, Any]) -> int:
    at = place(s, given["address"], "request")
    id, value = at.id or "", str(given.get("value", ""))
    now = s.run(control.changeable(at.queue, id, verb, value))
    title = f"{verb} request {at}"
    if value:
        title = f"change {verb} of request {at} from {getattr(now, verb)} to {value}"
    lines: tuple[str, ...] = ()
    left = now.waiting + now.pending + now.delayed if verb == "cancel" else 0
    if verb == "cancel":
        lines = (f"{left:,} of its {now.total:,} entries are not finished",)
    facts: dict[str, Any] = {
        "verb": verb, "queue": at.queue.name, "request": id, "value": given.get("value"),
    }  # fmt: skip
    if verb == "cancel":
        facts["entries"] = left
    preview = Preview(title, lines, typed_number(left), facts | {"matched": 1})
    if not agreed(s, [preview], given):
        return 0
    author = Author.here(given["reason"])
    outcome = s.run(control.change_request(at.queue, id, verb, author, value))
    ended(s, outcome, title)
    return outcome.exit_code


def change_queue(s: Session, verb: str, given: dict[str, Any]) -> int:
    queue = s.run(s.deployment.queue(given["name"]))
    control.settable(queue)
    left = contents(s.run(queue.counts.op())) or "nothing in it"
    lines = tuple(filter(None, (left, control.heeded_by(queue))))
    preview = Preview(
        f"{verb} queue {queue.name}", lines, facts={"verb": verb, "queue": queue.name, "matched": 1}
    )
    if not agreed(s, [preview], given):
        return 0
    act = {"pause": control.pause, "resume": control.resume, "drain": control.drain}[verb]
    outcome = s.run(act(queue, Author.here(given["reason"])))
    ended(s, outcome, preview.title)
    return outcome.exit_code


def destroy(s: Session, given: dict[str, Any]) -> int:
    queue, hard = s.run(s.deployment.queue(given["name"])), given["hard"]
    counts = s.run(destroyable(queue, hard))
    left = contents(counts)
    lines = (left or "nothing in it", "its history, results and audit log go too; there is no undo")
    held = counts.waiting + counts.pending + counts.delayed + counts.dead + counts.trash
    facts = {
        "verb": "destroy", "queue": queue.name, "matched": 1, "hard": hard, "entries": held,
    }  # fmt: skip
    title = f"destroy queue {queue.name}"
    if not agreed(s, [Preview(title, lines, queue.name if left else None, facts)], given):
        return 0
    change = Destroy(queue, Author.here(given["reason"]), hard=hard)
    finished = drive(s, change, title, s.again)
    ended(s, change.outcome, f"{title}, keys", undo=False)
    if not finished and not s.json:
        say(printable(f"interrupted: {queue.name} takes nothing more; continue with: {s.again}"))
    return change.outcome.exit_code if finished else 130


def retention(s: Session, given: dict[str, Any]) -> int:
    queue = s.run(opened(s.deployment, checked_name(given["name"], "queue name")))
    new = not s.run(queue.exists.op())
    changes = {}
    for word in given["changes"] or ():
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
            table(["setting", "value", "default"], [[x.name, x.value, x.default] for x in settings])
        return 0
    control.settable(queue)
    before = {setting.name: setting.value for setting in settings}
    title = f"change settings of queue {queue.name}"
    if new:
        refuse_reserved_name(queue.name, queue.kind)
    lines = [f"{name}: {before[name]} to {value or 'default'}" for name, value in changes.items()]
    if new:
        lines.append(f"queue {queue.name} does not exist yet: it becomes a {queue.kind} queue")
    facts = {
        "verb": "retention", "queue": queue.name, "matched": len(changes), "settings": changes,
    }  # fmt: skip
    if not agreed(s, [Preview(title, tuple(lines), facts=facts)], given):
        return 0
    author = Author.here(given["reason"])
    outcome = s.run(control.set_flags(queue, "retention", author, changes))
    ended(s, outcome, title)
    return outcome.exit_code

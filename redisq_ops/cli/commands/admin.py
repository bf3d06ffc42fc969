"""Changes that are not moves of entries: undo, requests, queues, settings."""

from __future__ import annotations

from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING

import typer

from redisq_ops.core.model.errors import BadInput, NotFound, Refused, Unreachable
from redisq_ops.core.model.exit_codes import DONE, INTERRUPTED, PARTLY_DONE
from redisq_ops.core.model.keys import known_name
from redisq_ops.ops.hint import hint

from ..address import place, queues_named, tell_unread_queues
from ..completion import operations
from ..confirm_and_run import agreed, confirm_and_run, drive, ended, tell_interrupted
from ..options import MOST, QUEUE, QUEUES, Go, argument, command, flag, option
from ..outcome_report import UNDO, check_report_file, reporting
from ..output import count, emit, printable, say, table
from ..session import Session

if TYPE_CHECKING:
    from redisq_ops.core.queues.request.queue import Control
    from redisq_ops.ops.change.audit_log import Author
    from redisq_ops.ops.change.undo import UndoSteps

commands = typer.Typer()
_request = typer.Typer()
_queue = typer.Typer()
commands.add_typer(_request, name="request")
commands.add_typer(_queue, name="queue")
_CHANGE = "Plan Outcome"
_REQUEST_ADDRESS = argument("ADDRESS", "Request: mail/r1, or its id alone.")


@command(_request, "ls", prints="Request", repeats=True)
def ls(
    s: Session,
    *,
    names: list[str] | None = QUEUES,
    settled: bool = flag("--settled", "List finished requests, the latest first."),
    most: int = option("--max", None, "List N of each queue.", min=1, max=MOST, default=100),
) -> int:
    """List the open requests of queues, the oldest first, or the finished ones.

    Examples:
      redisq request ls mail
      redisq request ls --settled --max 20 --json
    """
    from redisq_ops.core.engine.optional_features import HasRequests
    from redisq_ops.ops.required_features import requests_of

    from ..rows import request_row

    queues, unread = queues_named(s, names or ())
    with_requests = [one for one in queues if isinstance(one, HasRequests)]
    if names and queues and not with_requests:
        requests_of(queues[0])  # says that it has none
    states = ("waiting", "pending", "delayed", "dead", "done", "total")
    rows: list[list[object]] = []
    for queue in with_requests:
        found = s.run(queue.requests.op(0, most + 1, settled))
        if len(found) > most:
            say(printable(f"{queue.name}: more than {most:,}: --max shows more"))
        for one in found[:most]:
            if s.json:
                emit(request_row(queue.name, one))
            state = one.state + (", paused" if one.paused else "")
            numbers = [getattr(one, each) for each in states]
            rows.append([f"{queue.name}/{one.id}", state, one.priority, one.limit, *numbers])
    if rows and not s.json:
        table(["request", "state", "priority", "limit", *states], rows)
    elif not rows:
        say(
            "no finished requests" if settled else "no open requests; --settled lists finished ones"
        )
    return PARTLY_DONE if tell_unread_queues(unread) else DONE


@command(_request, "cancel", prints=_CHANGE)
def cancel(s: Session, *, address: str = _REQUEST_ADDRESS, go: Go) -> int:
    """Cancel a request: its entries are delivered no more, and running deliveries can't settle.
    Undo reopens it.

    Examples:
      redisq request cancel mail/r1 --reason duplicate
    """
    return _change_request(s, "cancel", address, go)


@command(_request, "pause", prints=_CHANGE)
def pause_request(s: Session, *, address: str = _REQUEST_ADDRESS, go: Go) -> int:
    """Stop delivering a request's entries until it is resumed. Running deliveries can settle.

    Examples:
      redisq request pause mail/r1
    """
    return _change_request(s, "pause", address, go)


@command(_request, "resume", prints=_CHANGE)
def resume_request(s: Session, *, address: str = _REQUEST_ADDRESS, go: Go) -> int:
    """Resume a paused request.

    Examples:
      redisq request resume mail/r1
    """
    return _change_request(s, "resume", address, go)


@command(_request, "limit", prints=_CHANGE)
def limit(
    s: Session,
    *,
    address: str = _REQUEST_ADDRESS,
    value: int = argument("LIMIT", "New limit, 1 to 1000."),
    go: Go,
) -> int:
    """Set how many entries of a request are worked on at once.

    Examples:
      redisq request limit mail/r1 16
    """
    return _change_request(s, "limit", address, go, str(value))


@command(_request, "priority", prints=_CHANGE)
def priority(
    s: Session,
    *,
    address: str = _REQUEST_ADDRESS,
    value: int = argument("PRIORITY", "Priority, 0 (first) to 99."),
    go: Go,
) -> int:
    """Set the priority of a request.

    Examples:
      redisq request priority mail/r1 0
    """
    return _change_request(s, "priority", address, go, str(value))


@command(_queue, "pause", prints=_CHANGE)
def pause_queue(s: Session, *, name: str = QUEUE, go: Go) -> int:
    """Stop delivering entries. Running deliveries can settle.

    A queue of another program is paused as that program does it, where it has such a pause.

    Examples:
      redisq queue pause mail --yes
    """
    return _change_queue(s, "pause", name, go)


@command(_queue, "resume", prints=_CHANGE)
def resume_queue(s: Session, *, name: str = QUEUE, go: Go) -> int:
    """Deliver entries again, and accept new ones again.

    Examples:
      redisq queue resume mail --yes
    """
    return _change_queue(s, "resume", name, go)


@command(_queue, "drain", prints=_CHANGE)
def drain(s: Session, *, name: str = QUEUE, go: Go) -> int:
    """Accept no new entries; deliver those that are there.

    Examples:
      redisq queue drain mail --yes
    """
    return _change_queue(s, "drain", name, go)


@command(_queue, "rm", prints=_CHANGE)
def rm(
    s: Session,
    *,
    name: str = QUEUE,
    hard: bool = flag("--hard", "Remove the queue even if it has entries."),
    go: Go,
) -> int:
    """Remove an empty queue; with --hard, a queue and all entries in it. There is no undo.

    Another program's queue is only taken from the registry, so that it isn't shown any more: its
    keys stay as they are.

    Examples:
      redisq queue rm mail
      redisq queue rm mail --hard --dry-run
      redisq queue rm stream:orders --yes
    """
    from redisq_ops.ops.change.audit_log import Author
    from redisq_ops.ops.change.destroy import DestroySteps, destroy_preview, destroyable
    from redisq_ops.ops.change.runner import ChangeRun
    from redisq_ops.ops.discover import forget_preview, forgettable, forgotten

    name = known_name(name, "queue name")
    if not hard and (entry := s.run(forgettable(s.deployment, name))) is not None:
        return confirm_and_run(
            s, forget_preview(entry), go, lambda _: forgotten(s.deployment, entry)
        )
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


@command(commands, "undo", prints=_CHANGE)
def undo(
    s: Session,
    *,
    op: str | None = argument(
        "[OP]", "Operation to undo; default: the latest that can be undone.", operations
    ),
    report: str | None = option(
        "--report", "FILE", "Write the entries that could not be undone to FILE, as NDJSON."
    ),
    go: Go,
) -> int:
    """Undo a change. Entries that were changed since then stay as they are.

    Examples:
      redisq undo
      redisq undo replay-5e8d3c91f0 --dry-run
      redisq undo replay-5e8d3c91f0 --report left.ndjson --yes
    """
    from redisq_ops.ops.change import audit_log
    from redisq_ops.ops.change.runner import ChangeRun
    from redisq_ops.ops.change.transfer_undo import undo_of
    from redisq_ops.ops.change.undo_preview import MOST_ASKED, MOST_DRY, undo_preview

    author = audit_log.Author.here(go.reason)
    again = s.again
    if not op:
        op = _latest(s, author, go)
        again += f" {op}"  # until then another change may be the latest
    queue, operation = s.run(audit_log.find(s.deployment, op))
    steps = s.run(undo_of(s.deployment, queue, operation))
    if not go.dry_run:
        check_report_file(report, op, UNDO)
    now = s.run(queue.now.op())
    most = MOST_DRY if go.dry_run else 0 if go.yes else MOST_ASKED
    preview = s.run(undo_preview(steps, now, most=most, listed=go.dry_run))
    if not agreed(s, [preview], go):
        return 0
    with reporting(s, report, op, of=UNDO) as written:
        written.change = change = ChangeRun(steps, author)
        steps.report = written.each
        finished = drive(s, change, f"undo {op}", again)
        unchanged = {"sample": steps.sample, "unnamed": steps.unnamed}
        written.end(change.outcome, {"unnamed": steps.unnamed})
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
    from redisq_ops.ops.change import audit_log
    from redisq_ops.ops.change.undo import why_not

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


def _change_request(s: Session, verb: Control, address: str, go: Go, value: str = "") -> int:
    from redisq_ops.ops.change import control
    from redisq_ops.ops.change.control_preview import request_preview

    at = place(s, address, "request")
    queue, id = at.queue, at.id or ""
    now = s.run(control.changeable(queue, id, verb, value))
    return confirm_and_run(
        s,
        request_preview(queue, [now], verb, value),
        go,
        lambda author: control.change_request(queue, id, verb, author, value),
    )


def _change_queue(s: Session, verb: str, name: str, go: Go) -> int:
    from redisq_ops.ops.change import control
    from redisq_ops.ops.change.control_preview import queue_preview

    queue = s.run(s.deployment.queue(name))
    s.run(control.holdable(queue, verb))
    preview = queue_preview([queue], [s.run(queue.counts.op())], verb)
    act = {"pause": control.pause, "resume": control.resume, "drain": control.drain}[verb]
    return confirm_and_run(s, preview, go, partial(act, queue))


@command(commands, "settings", prints="Setting Plan Outcome")
def settings(
    s: Session,
    *,
    name: str = QUEUE,
    words: list[str] | None = argument("[NAME=VALUE]..."),
    go: Go,
) -> int:
    """Show or change the settings of a queue: what it keeps and how often it retries. An empty
    value restores the default; write time spans as 90s, 5m, 2h, 3d.

    Examples:
      redisq settings mail
      redisq settings mail keep_ms=48h max_failures=5 history=
      redisq settings mail rate=10/s
    """
    from redisq_ops.core.engine.registry import refuse_reserved_name
    from redisq_ops.ops.change import control
    from redisq_ops.ops.change.control_preview import setting_text, settings_preview
    from redisq_ops.ops.files.submit import opened

    queue = s.run(opened(s.deployment, known_name(name, "queue name")))
    new = not s.run(queue.exists.op())
    changes = {}
    for word in words or ():
        setting, equals, text = word.partition("=")
        if not equals:
            raise BadInput(f"{word!r} is not NAME=VALUE")
        changes[setting] = control.checked_setting(setting, text)
    settings = s.run(control.queue_settings(queue))
    if not changes:
        if new:
            say(printable(f"queue {queue.name} does not exist yet: these are the defaults"))
        if s.json:
            for each in settings:
                emit({"queue": queue.name, **asdict(each)})
        elif settings:
            rows = [[x.name, setting_text(x.name, x.value), x.default] for x in settings]
            table(["setting", "value", "default"], rows)
        else:
            say(printable(f"{queue.name}: its program keeps its settings; there are none here"))
        return 0
    control.settable(queue)
    if new:
        refuse_reserved_name(queue.name, queue.kind)
    return confirm_and_run(
        s,
        settings_preview(queue, settings, changes, new, s.run(queue.stated_attempts.op())),
        go,
        lambda author: control.set_flags(queue, "settings", author, changes),
    )

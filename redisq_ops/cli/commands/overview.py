"""Commands that look at all queues or their logs: ls, log, history, config, fsck. None writes."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict, fields
from typing import TYPE_CHECKING, Any

import typer

from redisq_ops.core.model.errors import Forbidden, Refused, Unreachable, Unreadable
from redisq_ops.core.model.exit_codes import DONE, FAILED, PARTLY_DONE
from redisq_ops.core.model.row_fields import row_of
from redisq_ops.ops.hint import hint
from redisq_ops.ops.queue_names import check_named, has_pattern, is_named

from ..address import tell_unread_queues
from ..completion import queues
from ..options import MOST, QUEUE, QUEUES, command, flag, option
from ..output import age_or_none, emit, say, table, tell, when
from ..rows import operation_row, tell_events
from ..session import Session

if TYPE_CHECKING:
    from redisq_ops.ops.change.audit_log import Operation
    from redisq_ops.ops.inspect.queue_fields import QueueFields
    from redisq_ops.ops.trouble.finding import Trouble

commands = typer.Typer()
MOMENT_S = 0.2


def _latest(default: int) -> Any:
    return option("--max", None, "Show the latest N.", default, min=1, max=MOST)


@command(commands, "ls", prints="Queue", repeats=True)
def ls(s: Session, *, names: list[str] | None = QUEUES) -> int:
    """List the queues: entries by state, rates, oldest age, trouble.

    Rates (in, out) are of the last 60 seconds, estimated from the counters of two minutes; the age
    is of the oldest waiting entry; the trouble is that of redisq check without rules of its own.
    Exit 3 if a queue could not be read; the others are shown.

    Examples:
      redisq ls
      redisq ls 'mail*' --json
      redisq ls --watch 2s
    """
    from redisq_ops.ops.inspect.overview import overview
    from redisq_ops.ops.inspect.queue_fields import QueueFields
    from redisq_ops.ops.trouble.judgement import redacted, troubles

    found = s.run(overview(s.deployment)).of(names or ())
    rows = [QueueFields.of(row, found.now_ms) for row in found.rows]
    wrong = [redacted(troubles(row, found.now_ms), s.redaction.text) for row in found.rows]
    if s.json:
        for row, trouble in zip(rows, wrong, strict=True):
            emit({**row_of(row), "trouble": trouble})
    elif rows:
        print_queues(rows, "trouble", [_wrong(*each) for each in zip(rows, wrong, strict=True)])
    else:
        finds = f"{hint('discover')} finds queues of other programs"
        say(f"no queues here (prefix {s.deployment.prefix}): {finds}")
    return PARTLY_DONE if any(row.problem for row in rows) else DONE


def print_queues(rows: Sequence[QueueFields], last: str, remarks: Sequence[str]) -> None:
    """Print queues; ``remarks``: a text for each, in a column ``last`` if there is any."""
    shown = (
        "name",
        "kind",
        "waiting",
        "pending",
        "delayed",
        "dead",
        "done",
        "in_per_min",
        "out_per_min",
    )
    heads = [*(name.removesuffix("_per_min") for name in shown), "oldest", last]
    if not any(remarks):  # 80 columns are few
        del heads[-1]
    cells = [
        [*(getattr(row, name) for name in shown), age_or_none(row.oldest_age_ms), remark]
        for row, remark in zip(rows, remarks, strict=True)
    ]
    table(heads, [line[: len(heads)] for line in cells])


def _wrong(row: QueueFields, trouble: Sequence[Trouble]) -> str:
    shown = [f"only shown: {row.only_shown}"] if row.only_shown else []
    return "; ".join([*(one.reason for one in trouble), *shown])


def flags(row: QueueFields) -> str:
    """What is unusual about a queue."""
    named = ("paused", "draining", "only_shown", "problem")
    found = [f"{flag.replace('_', ' ')}: {why}" for flag in named if (why := getattr(row, flag))]
    if row.unfinished:
        found.append(f"unfinished: {' '.join(row.unfinished)}")
    if row.resizing:
        found.append(row.resizing)
    if n := row.periodic_overdue:
        found.append(f"{n:,} periodic overdue")
    return ", ".join(found)


@command(commands, "log", prints="Operation", repeats=True)
def log(
    s: Session,
    *,
    queue: str | None = option(
        "--queue", "NAME", "Only changes of this queue.", autocompletion=queues
    ),
    max: int = _latest(50),
) -> int:
    """List the changes that operators made, newest first.

    Examples:
      redisq log
      redisq log --queue mail --max 5 --json
    """
    from redisq_ops.ops.change import audit_log

    found = s.run(audit_log.log(s.deployment, max, queue))
    print_operations(s, found.operations)
    if not found.operations and not found.unread and not s.json:
        say("no operations yet")
    return PARTLY_DONE if tell_unread_queues(found.unread) else DONE


def print_operations(s: Session, operations: Sequence[Operation]) -> None:
    """Print changes of operators."""
    if s.json:
        for operation in operations:
            emit(operation_row(operation))
    elif operations:
        table(
            ["when", "op", "queue", "by", "done", "of", "what", "undo"],
            [
                [
                    when(o.started_ms, s.utc),
                    o.id,
                    o.queue,
                    o.by,
                    o.done,
                    o.matched,
                    " ".join(filter(None, (o.subject, o.why and f"({o.why})"))),
                    _undo(o),
                ]
                for o in operations
            ],
        )


def _undo(operation: Operation) -> str:
    if operation.origin:  # only the queue in which it began can undo it
        return f"see {operation.origin}"
    if operation.undone:
        return "undone" if not operation.undoable else f"{operation.undone:,} undone"
    if not operation.ended:
        return "unfinished" + (", possible" if operation.undoable else "")
    return "possible" if operation.undoable else "no"


@command(commands, "history", prints="Event", repeats=True)
def history(s: Session, *, name: str = QUEUE, max: int = _latest(100)) -> None:
    """Show the latest events of a queue, oldest first.

    Examples:
      redisq history mail
      redisq history mail --max 1000 --json
    """
    from redisq_ops.core.redis.operation import together
    from redisq_ops.ops.inspect.history import latest_events

    queue = s.run(s.deployment.queue(name))
    events, total = s.run(together(latest_events(queue, max), queue.history_length.op()))
    if s.json:
        for event in reversed(events):
            emit(event)
    else:
        tell_events(s, reversed(events))
        say(f"latest {len(events):,} of {total:,} events")


@command(commands, "config", prints="ConfigurationValue Context")
def config(
    s: Session,
    *,
    contexts: bool = flag("--contexts", "List the contexts of the configuration file instead."),
) -> None:
    """Show every setting and where its value comes from.

    Secrets are never shown.

    Examples:
      redisq config
      redisq config --context live --json
      redisq config --contexts
    """
    if contexts:
        return _contexts_of_file(s)
    values = s.config.display_values()
    if s.json:
        for value in values:
            others = [{"value": text, "origin": origin} for text, origin in value.others]
            emit({**asdict(value), "others": others})
    else:
        unit = {"max_rate": "/s"}
        rows = []
        for v in values:
            with_unit = unit.get(v.name, "")
            rows.append([v.name, v.value and v.value + with_unit, v.origin])
            for text, origin in v.others:
                rows.append(["", text + with_unit, f"not used, less strict: {origin}"])
        table(["setting", "value", "from"], rows)
    return None


def _contexts_of_file(s: Session) -> None:
    from redisq_ops.ops.config.contexts import NamedContext, contexts

    found = contexts()
    if s.json:
        for one in found:
            emit(one)
    elif found:
        names = [field.name for field in fields(NamedContext)]
        rows = [list(asdict(one).values()) for one in found]
        table([name.replace("_", " ") for name in names], rows)
    else:
        say("no contexts in the configuration")


@command(commands, "fsck", prints="Consistency")
def fsck(s: Session, *, wanted: list[str] | None = QUEUES) -> int:
    """Check the invariants of a queue, or of all queues.

    Exit 1 if one is violated, else 3 if something could not be read. A busy queue changes while it
    is read, so a finding counts only when repeated checks confirm it.

    Examples:
      redisq fsck
      redisq fsck mail --json
      redisq fsck 'sidekiq:*'
    """
    from redisq_ops.core.engine.registry import all_queues
    from redisq_ops.core.redis.operation import apart
    from redisq_ops.ops.change.allowed import only_shown
    from redisq_ops.ops.fsck import QueueCheck
    from redisq_ops.ops.unregistered import sentence, unregistered

    codes, corrupt = {0}, dict[str, str]()
    exact = bool(wanted) and not has_pattern(wanted or ())
    if wanted and exact:
        names = list(dict.fromkeys(wanted))
    else:
        entries = s.run(all_queues(s.deployment.prefix))
        names = [entry.name for entry in entries]
        corrupt = {entry.name: entry.problem for entry in entries if entry.problem is not None}
        lost = s.run(unregistered(s.deployment))
        names += [entry.name for entry in lost.entries]
        corrupt |= {entry.name: sentence(entry) for entry in lost.entries}
        if lost.unseen:
            say(f"not searched for queues that the registry has lost: {lost.unseen}")
        check_named(wanted or (), names)
        names = [name for name in names if is_named(name, wanted or ())]
    for name in names:
        row: dict[str, Any] = {"queue": name, "kind": None, "reads": 0, "momentary": 0}
        verdict, broken, unseen = "adds up", list[str](), None
        shown: str | None = None
        try:
            if name in corrupt:
                raise Unreadable(corrupt[name])
            checked = s.run(s.deployment.queue(name))
            row["queue"] = name = checked.name
            check = QueueCheck(checked)
            while (again := s.run(apart(check.check()))) is True:
                time.sleep(MOMENT_S)
            row |= {"kind": checked.kind, "reads": check.checks, "momentary": check.transient}
            # One node of a cluster, or keys of another team: check the other queues.
            if isinstance(again, (Unreachable, Forbidden)) and not exact:
                verdict, unseen = "can't be read", str(again)
            elif isinstance(again, Exception):
                raise again
            else:
                broken = [*check.findings, *s.run(check.audit_log_findings())]
                unseen = check.not_checked
                shown = s.run(only_shown(checked))
        except Refused as refusal:
            if exact:
                raise
            broken = [f"can't be checked: {refusal}"]
        if broken:
            verdict = "broken"
        codes.add(PARTLY_DONE if verdict == "can't be read" else FAILED if broken else DONE)
        if s.json:
            ok = None if verdict == "can't be read" else not broken
            row |= {"ok": ok, "faults": broken, "not_checked": unseen, "only_shown": shown}
            emit(row)
        else:
            gone = row["momentary"]
            more = f" ({gone:,} findings were gone at the next check)" if gone else ""
            tell(f"{name}: {verdict}{more}")
            for line in broken:
                tell(f"  {line}")
            if shown:
                tell(f"  only shown: {shown}")
            if unseen:
                tell(f"  not looked at: {unseen}")
    return FAILED if FAILED in codes else max(codes)

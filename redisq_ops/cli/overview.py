"""Looking at all of it: ls, log, history, config, fsck. Nothing here writes."""

from __future__ import annotations

import time
from dataclasses import asdict, fields
from typing import Any

from redisq_ops.core.engine.registry import all_queues
from redisq_ops.core.model.errors import Forbidden, Refused, Unreachable, Unreadable
from redisq_ops.core.redis.operation import apart, both
from redisq_ops.ops.change import audit_log
from redisq_ops.ops.change.audit_log import Operation
from redisq_ops.ops.config import NamedContext, contexts
from redisq_ops.ops.inspect.overview import overview

from .output import age, emit, printable, say, table, tell, when
from .rows import queue_row, tell_events
from .session import Session

LOOKS = 5
MOMENT_S = 0.2


def ls(s: Session) -> int:
    seen = s.run(overview(s.deployment, minutes=2))
    rows = [queue_row(row, seen.now_ms) for row in seen.rows]
    if s.json:
        for row in rows:
            emit(row)
    elif rows:
        shown = ("name", "kind", "waiting", "pending", "delayed", "dead", "done", "in_per_min",
                 "out_per_min")  # fmt: skip
        heads = [*(name.removesuffix("_per_min") for name in shown), "oldest", "flags"]
        # 80 columns are few: none of them for flags that no queue has.
        told = heads if any(map(_flags, rows)) else heads[:-1]
        cells = [
            [row[name] for name in shown]
            + [None if row["oldest_ms"] is None else age(row["oldest_age_ms"]), _flags(row)]
            for row in rows
        ]
        table(told, [line[: len(told)] for line in cells])
    else:
        say(f"no queues here (prefix {s.deployment.prefix})")
    return 3 if any(row["problem"] for row in rows) else 0


def _flags(row: dict[str, Any]) -> str:
    told = [f"{flag}: {row[flag]}" for flag in ("paused", "draining", "problem") if row[flag]]
    if row["unfinished"]:
        told.append(f"unfinished: {' '.join(row['unfinished'])}")
    return ", ".join(told)


def log(s: Session, queue: str | None, max: int) -> int:
    found = s.run(audit_log.log(s.deployment, max, queue))
    operations = found.operations
    if s.json:
        for operation in operations:
            emit({**asdict(operation), "undoable": operation.undoable})
    elif operations:
        table(
            ["when", "op", "queue", "by", "done", "of", "what", "undo"],
            [
                [when(o.started_ms, s.utc), o.id, o.queue, o.by, o.done, o.matched,
                 " ".join(filter(None, (o.source, o.what, o.across, o.why and f"({o.why})"))),
                 _undo(o)]
                for o in operations
            ],
        )  # fmt: skip
    elif not found.unread:
        say("no operations yet")
    for name, why in found.unread.items():
        say(printable(f"{name}: not looked at: {why}"))
    return 3 if found.unread else 0


def _undo(operation: Operation) -> str:
    if operation.origin:  # it is undone where it belongs; its name finds it there
        return f"see {operation.origin}"
    if operation.undone:
        return "undone" if not operation.undoable else f"{operation.undone:,} undone"
    if not operation.ended:
        return "unfinished" + (", possible" if operation.undoable else "")
    return "possible" if operation.undoable else "no"


def history(s: Session, queue: str, max: int) -> None:
    there = s.run(s.deployment.queue(queue))
    events, total = s.run(both(there.history.op(max), there.history_length.op()))
    if s.json:
        for event in reversed(events):
            emit(asdict(event))
    else:
        tell_events(s, reversed(events))
        say(f"latest {len(events):,} of {total:,} events")


def config(s: Session, contexts: bool) -> None:
    if contexts:
        return _contexts(s)
    values = s.config.display_values()
    if s.json:
        for value in values:
            others = [{"value": said, "origin": origin} for said, origin in value.others]
            emit({**asdict(value), "others": others})
    else:
        unit = {"max_rate": "/s"}
        rows = []
        for v in values:
            with_unit = unit.get(v.name, "")
            rows.append([v.name, v.value and v.value + with_unit, v.origin])
            for said, origin in v.others:
                rows.append(["", said + with_unit, f"not used, less strict: {origin}"])
        table(["setting", "value", "from"], rows)
    return None


def _contexts(s: Session) -> None:
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


def fsck(s: Session, queue: str | None) -> int:
    from redisq_ops.ops.fsck import QueueCheck  # `redisq ls` needn't wait for it

    codes, corrupt = {0}, dict[str, str]()
    if queue is not None:
        names = [queue]
    else:
        entries = s.run(all_queues(s.deployment.prefix))
        names = [entry.name for entry in entries]
        corrupt = {entry.name: entry.problem for entry in entries if entry.problem is not None}
    for name in names:
        row: dict[str, Any] = {"queue": name, "kind": None, "looks": 0, "momentary": 0}
        said, broken, unseen = "adds up", list[str](), None
        try:
            if name in corrupt:
                raise Unreadable(corrupt[name])
            there = s.run(s.deployment.queue(name))
            check = QueueCheck(there)
            while (again := s.run(apart(check.check()))) is True and check.checks < LOOKS:
                time.sleep(MOMENT_S)
            row |= {"kind": there.kind, "looks": check.checks, "momentary": check.transient}
            # A node of several, or another team's keys: the others' queues are looked at.
            if isinstance(again, (Unreachable, Forbidden)) and not queue:
                said, unseen = "can't be read", str(again)
            elif isinstance(again, Exception):
                raise again
            else:
                broken = [*check.findings, *s.run(check.audit_log_findings())]
                unseen = check.not_checked
        except Refused as refusal:
            if queue:
                raise
            broken = [f"can't be checked: {refusal}"]
        if broken:
            said = "broken"
        codes.add(3 if said == "can't be read" else int(bool(broken)))
        if s.json:
            ok = None if said == "can't be read" else not broken
            emit(row | {"ok": ok, "broken": broken, "unseen": unseen})
        else:
            moment = f" ({row['momentary']:,} findings were a moment's)" if row["momentary"] else ""
            tell(f"{name}: {said}{moment}")
            for line in broken:
                tell(f"  {line}")
            if unseen:
                tell(f"  not looked at: {unseen}")
    return 1 if 1 in codes else max(codes)

"""Rows with stable JSON names, and lines for people."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from shutil import get_terminal_size
from typing import TYPE_CHECKING, Any

from redisq_ops.core.model.entry import GONE, Entry, Event
from redisq_ops.core.model.rate_limit import RateLimit
from redisq_ops.core.model.row_fields import row_of

from .output import printable, say, table, tell, when
from .session import Session, redaction

if TYPE_CHECKING:  # `redisq ls` needn't wait for them
    from redisq_ops.core.model.entry import Client, Request
    from redisq_ops.ops.change.audit_log import Operation
    from redisq_ops.ops.filter.scan import Scan

    from .output_types.changes import OperationOutput
    from .output_types.entries import EntryOutput
    from .output_types.queues import ClientOutput

NAMED = 8
"""number of an event's entries that a line names"""


def entry_row(queue: str, entry: Entry) -> EntryOutput:
    """An entry with stable JSON names, redacted."""
    entry = redaction().entry(entry)
    at = entry.at_ms
    failures, lost, attempts = _attempts(entry)
    return {
        "queue": queue,
        "id": entry.id,
        "address": f"{queue}/{entry.id}",
        "state": entry.state,
        "since_ms": entry.since_ms,
        "deadline_ms": at if entry.state == "pending" else None,
        "ready_ms": at if entry.state in ("waiting", "delayed") else None,
        "first_ms": entry.first_ms,
        "failures": failures,
        "lost": lost,
        "attempts": attempts,
        "consumer": entry.consumer,
        "reason": entry.reason,
        "error": entry.error,
        "op": entry.op,
        "client": entry.client,
        "task": entry.task,
        "owner_state": entry.called,
        "problem": entry.problem,
        "run_ms": entry.run_ms,
        "payload": entry.payload,
    }


def client_row(queue: str, client: Client) -> ClientOutput:
    """A client of a fair queue with stable JSON names."""
    return {
        "queue": queue,
        "name": client.client,
        "waiting": client.waiting,
        "pending": client.pending,
        "weight": client.weight,
        "blocked": client.blocked,
        "cap": client.cap,
        "rate": _rate(client),
        "rests": client.rests,
    }


def client_cells(client: Client) -> dict[str, Any]:
    """A client as a row of a table."""
    cells = asdict(client) | {"rate": _rate(client)}
    del cells["rests"]
    return cells


def _rate(client: Client) -> str | None:
    return str(RateLimit.of_hour(client.rate)) if client.rate else None


def request_row(queue: str, request: Request) -> dict[str, Any]:
    """A request with stable JSON names."""
    return {"queue": queue, **row_of(request)}


def operation_row(operation: Operation) -> OperationOutput:
    """An operation of the audit log with stable JSON names."""
    return {
        "id": operation.id,
        "queue": operation.queue,
        "verb": operation.verb,
        "started_ms": operation.started_ms,
        "what": operation.what,
        "source": operation.source,
        "target": operation.target,
        "matched": operation.matched,
        "done": operation.done,
        "undone": operation.undone,
        "undoable": operation.undoable,
        "ended": operation.ended,
        "into": operation.into,
        "origin": operation.origin,
        "rest": operation.rest,
        "user": operation.who,
        "host": operation.whence,
        "reason": operation.why,
    }


ENTRY_HEADS = ("task", "failures", "lost", "consumer", "reason", "error")


def entry_table(heads: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """Print a table whose last columns are `ENTRY_HEADS`; without ``task`` if no entry has one."""
    at = len(heads)
    left = [at] if all(row[at] is None for row in rows) else []
    shown = [
        [cell for n, cell in enumerate(row) if n not in left]
        for row in ((*heads, *ENTRY_HEADS), *rows)
    ]
    table(shown[0], shown[1:])


def entry_cells(entry: Entry) -> list[Any]:
    """The columns `ENTRY_HEADS` of an entry, redacted."""
    entry = redaction().entry(entry)
    error = entry.error.line if entry.error else entry.problem
    reason = GONE if entry.called == GONE else entry.reason
    failures, lost, _ = _attempts(entry)
    return [entry.task, failures, lost, entry.consumer, reason, error]


def _attempts(entry: Entry) -> tuple[int | None, int | None, int | None]:
    """The counts of failures, lost leases and attempts; None: unknown."""
    if not entry.counted:
        return None, None, None
    return entry.failures, entry.lost, entry.attempts


def entries_found(scan: Scan) -> str:
    """``3 dead entries``; if conditions exclude all, ``0 of 20 dead entries match``."""
    from redisq_ops.ops.change.wording import state_entries

    filter, total = scan.filter, scan.total
    excludes = filter.where is not None or filter.match is not None or filter.older_than_ms
    if scan.found or not (excludes and total and scan.exact):
        return state_entries(scan.found, scan.state)
    return f"0 of {state_entries(total, scan.state)} {'matches' if total == 1 else 'match'}"


def tell_unread(scans: Iterable[Scan]) -> bool:
    """Report on stderr what scans could not read; returns whether there was anything."""
    found = dict.fromkeys((scan.queue.name, scan.unread) for scan in scans if scan.unread)
    for name, unread in found:
        say(printable(f"{name}: {unread}"))
    return bool(found)


def tell_events(s: Session, events: Iterable[Event]) -> None:
    """Print history events, a line each."""
    from redisq_ops.ops.inspect.history import change_words

    for event in events:
        what = "; ".join(
            _some([change_words(item) for item in items])
            if name == "op"
            else f"{name} {_some(items)}"
            for name, items in event.what.items()
        )
        by = f"  by {event.by}" if event.by != "-" else ""
        tell(f"  {when(event.at_ms, s.utc)}  {what}{by}")


def _some(items: Sequence[str]) -> str:
    """The first items: one event may name 500 entries."""
    more = f" … and {len(items) - NAMED:,} more" if len(items) > NAMED else ""
    return " ".join(items[:NAMED]) + more


def tell_sentence(text: str, indent: str = "  ") -> None:
    """Print a sentence on stdout, indented and escaped; on a terminal wrapped between words.

    In a pipe and in a file it stays one line, so that it can be searched for.
    """
    line = printable(text)
    if not sys.stdout.isatty():
        print(indent + line)
        return
    lines = textwrap.wrap(
        line,
        max(40, get_terminal_size().columns),
        initial_indent=indent,
        subsequent_indent=indent + "  ",
        break_long_words=False,
        break_on_hyphens=False,
    )
    print(*lines, sep="\n")

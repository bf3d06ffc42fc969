"""`redisq select`: the entries that match an expression, in all states of one or all queues."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import typer

from redisq_ops.core.model.entry import STATES, Entry, State
from redisq_ops.core.model.errors import Refused, Unreachable, Unreadable, WrongKind
from redisq_ops.core.model.exit_codes import DONE, PARTLY_DONE
from redisq_ops.ops.queue_names import has_pattern
from redisq_ops.ops.terminal import entries, percent

from ..address import every_queue, queue_named, queues_named, tell_unread_queues
from ..completion import fields
from ..filter_options import filtered, pages, reads_payloads, value_counts
from ..options import Conditions, argument, command, flag, option, options
from ..output import age, count, emit, printable, say, table
from ..output_types.entries import EntryCountOutput, ValueCountOutput
from ..rows import entry_cells, entry_row, entry_table, tell_unread
from ..session import Session

if TYPE_CHECKING:
    from redisq_ops.core.engine.queue import Queue
    from redisq_ops.ops.filter.filter import Filter
    from redisq_ops.ops.filter.scan import Scan
    from redisq_ops.ops.groups.value_counts import ValueCounts

commands = typer.Typer()
SHOWN = 100
SHOWN_VALUES = 30


@options
class SelectOptions:
    names: list[str] | None = argument("[QUEUE]...", "Queues, also 'mail*'; '*': all queues.")
    count: bool = flag("--count", "Print only the number of entries, by state.")
    by: str | None = option(
        "--by",
        "FIELD",
        "Print the number of entries by value: task, client, payload.region.",
        autocompletion=fields,
    )
    conditions: Conditions


@command(commands, "select", prints="Entry EntryCount ValueCount")
def select(s: Session, given: SelectOptions) -> int:
    """List or count the entries that match an expression, in every state of queues; done ones,
    which may be millions, only if the expression names them (state=done). Nothing is changed. The
    expressions are the same as in --where of other commands.

    Examples:
      redisq select mail --where 'error~timeout age>2h'
      redisq select mail --where 'state:dead,delayed payload.region=eu' --json
      redisq select rq:low --where 'state=done run>5s'
      redisq select '*' --where 'client=acme' --count
      redisq select jobs --by task
    """
    from redisq_ops.ops.inspect.cancelled_trash import cancelled_trash

    counts = None if given.by is None else value_counts(given.by)
    counting = given.count or counts is not None
    most = given.conditions.max or (None if s.json or counting else SHOWN)
    filter = replace(filtered(given.conditions, s.utc), max=most, redaction=s.redaction)
    scans: list[Scan] = []
    rows: list[list[Any]] = []
    names = given.names or ()
    queues, refused = _queues(s, names)
    several = len(names) > 1 or has_pattern(names)
    broken = tell_unread_queues(refused)
    for queue in queues:
        left = None if most is None else most - sum(scan.found for scan in scans)
        if left == 0:
            break
        try:
            scans += _scan_queue(s, queue, replace(filter, max=left), given, counts or rows)
        except Unreachable:
            raise
        except Refused as refusal:
            if not several:
                raise
            broken = True
            say(printable(f"{queue.name}: {refusal}"))
    broken = tell_unread(scans) or broken
    if counts is not None:
        _print_values(s, counts, scans, None if several else queues[0].name)
    elif counting:
        _print_counts(s, scans)
    elif not s.json:
        _print_rows(rows, scans, most)
    else:
        for scan in scans:
            if scan.window_text:
                say(f"{scan.queue.name}: {scan.window_text} {scan.state}")
    for scan in scans:
        if scan.state == "trash" and (sentence := s.run(cancelled_trash(scan.queue))):
            say(printable(f"{scan.queue.name}: {sentence}"))
    if not scans and not broken:
        say("0 matched: " + _why_nothing(filter, queues))
    return PARTLY_DONE if broken else DONE


def _why_nothing(filter: Filter, queues: Sequence[Queue[Any]]) -> str:
    if queues and filter.where is not None and filter.where.states == frozenset[State]({"done"}):
        from redisq_ops.ops.required_features import done_unlisted

        return done_unlisted(queues[0])
    return filter.state_mismatch("dead") or "there is no queue here"


def _queues(s: Session, names: Sequence[str]) -> tuple[list[Queue[Any]], dict[str, str]]:
    """The chosen queues, and why others can't be looked at; '*' may match none."""
    return every_queue(s) if "*" in names else queues_named(s, names or [queue_named(s, None)])


def _scan_queue(
    s: Session,
    queue: Queue[Any],
    filter: Filter,
    given: SelectOptions,
    found: list[list[Any]] | ValueCounts,
) -> list[Scan]:
    """Scan all states of a queue. Its entries are added to ``found``, or printed as JSON."""
    from redisq_ops.core.engine.optional_features import HasDoneEntries
    from redisq_ops.ops.filter.scan import Scan
    from redisq_ops.ops.groups.value_counts import ValueCounts

    scans: list[Scan] = []
    needs = found.needs if isinstance(found, ValueCounts) else frozenset()
    now = s.run(queue.now.op())
    left = filter.max
    named = filter.where is not None and filter.where.states is not None
    for state in STATES:
        # There may be millions of done entries: they are read where the expression names them.
        if state == "done" and not (named and isinstance(queue, HasDoneEntries)):
            continue
        if filter.state_mismatch(state) or left == 0:
            continue
        some, brief = replace(filter, max=left), isinstance(found, ValueCounts)
        scan = Scan(queue, state, some, now, needs=needs, partly=True, brief=brief)
        try:
            for page in pages(s, scan, given.conditions.scan_rate):
                if isinstance(found, ValueCounts):
                    shown = (s.redaction.entry(entry) for entry in page if not entry.problem)
                    found.add(map(scan.fields, shown))
                elif not given.count:
                    _show(s, scan, page, now, found)
        except (Unreadable, WrongKind) as corrupt:  # the other states may be readable
            scan.problem, scan.over = f"{state}: {corrupt}", True
        left = None if left is None else left - scan.found
        scans.append(scan)
    return scans


def _show(s: Session, scan: Scan, page: Sequence[Entry], now: int, rows: list[list[Any]]) -> None:
    """Print entries as JSON, or add a line for each to ``rows``."""
    if s.json:
        for entry in reads_payloads(s, scan, page):
            emit(entry_row(scan.queue.name, entry))
        return
    rows += [
        [
            f"{scan.queue.name}/{entry.id}",
            entry.state,
            entry.since_ms and age(now - entry.since_ms),
            *entry_cells(entry),
        ]
        for entry in page
    ]


def _print_rows(rows: list[list[Any]], scans: list[Scan], most: int | None) -> None:
    if rows:
        entry_table(["entry", "state", "since"], rows)
    by_queue: dict[str, list[Scan]] = {}
    for scan in scans:
        by_queue.setdefault(scan.queue.name, []).append(scan)
    for name, own in by_queue.items():
        parts = [entries(sum(scan.found for scan in own))]
        parts += [f"{count(scan.found)} {scan.state}" for scan in own if scan.found]
        # Only states that were not read to their end: all six would fill two lines.
        parts += [f"{x.window_text} {x.state}" for x in own if x.window_text and not x.read_all]
        say(printable(f"{name}: " + ", ".join(parts)))
    if most is not None and sum(scan.found for scan in scans) >= most:
        say(f"the first {count(most)}: --max shows more, --count says how many there are")


def _print_values(s: Session, counts: ValueCounts, scans: list[Scan], queue: str | None) -> None:
    ranked = counts.ranked()
    complete = all(scan.complete for scan in scans)
    scanned = sum(scan.scanned for scan in scans)
    if s.json:
        at_least = ["entries", "by_state"] if counts.slack else []
        for each in ranked:
            emit(
                ValueCountOutput(
                    queue=queue,
                    field=counts.field.name,
                    value=each.value,
                    entries=each.entries,
                    by_state=each.by_state,
                    at_least=at_least,
                    scanned=scanned,
                    complete=complete,
                )
            )
        return
    states = [state for state in STATES if any(state in each.by_state for each in ranked)]
    rows = [
        [
            each.entries,
            percent(each.entries / counts.total),
            *map(each.by_state.get, states),
            each.value,
        ]
        for each in ranked[:SHOWN_VALUES]
    ]
    if rows:
        table(["entries", "share", *states, counts.field.name], rows)
    values = f"{count(len(ranked))} {'value' if len(ranked) == 1 else 'values'}"
    hidden = len(ranked) - len(rows)
    more = f"; --json shows the other {count(hidden)}" if hidden else ""
    if counts.slack:
        values, more = f"more than {values}", f"; each number may be {count(counts.slack)} too low"
    parts = [entries(counts.total), values]
    parts += [f"{x.window_text} {x.state}" for x in scans if x.window_text and not x.read_all]
    say(printable(f"{queue or 'all queues'}: {', '.join(parts)}{more}"))


def _print_counts(s: Session, scans: list[Scan]) -> None:
    rows = [
        EntryCountOutput(
            queue=scan.queue.name,
            state=scan.state,
            matched=scan.found,
            scanned=scan.scanned,
            total=scan.total if scan.exact else None,
            complete=scan.complete,
        )
        for scan in scans
    ]
    if s.json:
        for row in rows:
            emit(row)
    elif rows:
        lines = [
            [row["queue"], row["state"], row["matched"], row["scanned"], scan.total_text]
            for row, scan in zip(rows, scans, strict=True)
            if row["total"] != 0
        ]
        if lines:
            table(("queue", "state", "matched", "looked at", "of"), lines)
        say(entries(sum(scan.found for scan in scans)))

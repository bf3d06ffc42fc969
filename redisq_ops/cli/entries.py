"""The entries that a command selects: `ls` of a state, `redisq delay add`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime
from typing import Any

from redisq_ops.core.engine.optional_features import (
    HasConsumerGroups,
    HasDoneEntries,
)
from redisq_ops.core.engine.queue import Queue
from redisq_ops.core.engine.registry import server_ms
from redisq_ops.core.model.clock import MOST_MS
from redisq_ops.core.model.entry import GONE, Entry, State
from redisq_ops.core.model.errors import BadInput, Exists, NotFound, WrongKind
from redisq_ops.core.model.exit_codes import DONE, PARTLY_DONE
from redisq_ops.core.model.keys import known_name
from redisq_ops.core.model.states import Verb
from redisq_ops.core.queues.delay import DelaySet
from redisq_ops.ops.change.wording import state_entries
from redisq_ops.ops.filter.scan import Scan
from redisq_ops.ops.filter.target import Target, targets
from redisq_ops.ops.filter.time import duration_ms, moment_ms
from redisq_ops.ops.hint import hint
from redisq_ops.ops.inspect.cancelled_trash import cancelled_trash
from redisq_ops.ops.queue_names import has_pattern
from redisq_ops.ops.required_features import done_unlisted
from redisq_ops.ops.terminal import kind_of, no_list

from .address import queue_named, queues_named, tell_unread_queues
from .filter_options import filtered, pages, reads_payloads
from .options import Selecting, When
from .output import age, as_line, conclude, emit, printable, say, when
from .payload_argument import payload_bytes
from .rows import entries_found, entry_cells, entry_row, entry_table, tell_unread
from .session import Session


def targets_of(
    s: Session,
    states: Sequence[State],
    selecting: Selecting,
    verb: Verb | None = None,
    check: Callable[[Queue[Any]], Awaitable[object]] | None = None,
) -> list[Target]:
    """The addresses and options of a command as targets."""
    addresses, filter = selecting.addresses or (), filtered(selecting.conditions, s.utc)
    queue = selecting.queue if addresses else queue_named(s, selecting.queue)
    deployment, filter = s.deployment, replace(filter, redaction=s.redaction)
    return s.run(targets(deployment, addresses, filter, states, queue, verb=verb, check=check))


def chosen_states(verb: str, possible: Sequence[State], given: str | None) -> Sequence[State]:
    """The states to look for entries in: that of ``--state``, or all that are possible."""
    chosen = [state for state in possible if given in (None, "", state)]
    if not chosen:
        raise BadInput(f"{verb} is for {' or '.join(possible)} entries, not {given!r}")
    return chosen


def targets_to_list(
    s: Session, state: State, selecting: Selecting, *, everything: bool = False
) -> tuple[list[Target], dict[str, str]]:
    """The queues, requests and entries to list: those named, those that match a pattern;
    with ``everything`` all queues if nothing is named. Also why queues can't be looked at."""
    names = selecting.addresses or ([selecting.queue] if selecting.queue else [])
    some = bool(names) or not everything or s.config.values["queue"].origin != "default"
    ids = selecting.queue and selecting.addresses
    if some and (ids or not has_pattern(name for name in names if "/" not in name)):
        return targets_of(s, (state,), selecting), {}
    filter = replace(filtered(selecting.conditions, s.utc), redaction=s.redaction)
    try:
        queues, unread = queues_named(s, names)
    except NotFound:
        if any("*" in name for name in names):
            raise
        return targets_of(s, (state,), selecting), {}  # an id may have a ? or a [
    return [Target(queue, state, filter) for queue in queues], unread


def targets_to_read(s: Session, states: Sequence[State], selecting: Selecting) -> Iterator[Target]:
    """As `targets_of`; reports each target whose filter excludes all of its entries, and why."""
    for target in targets_of(s, states, selecting):
        tell_mismatch(target)
        yield target


def tell_mismatch(target: Target) -> None:
    """Say why the filter excludes all entries of the state, if it does."""
    if mismatch := target.filter.state_mismatch(target.state):
        say(printable(f"{target.queue.name}: no entry matches: {mismatch}"))


def listed(s: Session, state: State, selecting: Selecting) -> int:
    """``ls``: with --json all entries, else the first 100 or ``--max``."""
    most = selecting.conditions.max or (None if s.json else 100)
    found_targets, unread = targets_to_list(s, state, selecting)
    broken = tell_unread_queues(unread)
    for target in found_targets:
        tell_mismatch(target)
        queue, filter = target.queue, replace(target.filter, max=most)
        scan = Scan(queue, state, filter, now := s.run(queue.now.op()), partly=True)
        found: list[Entry] = []
        for page in pages(s, scan, selecting.conditions.scan_rate):
            if not s.json:
                # Only a read of the payloads shows which entries are gone from a stream.
                looks = state == "pending" and isinstance(queue, HasConsumerGroups)
                found += reads_payloads(s, scan, page) if looks else page
                continue
            for entry in reads_payloads(s, scan, page):
                emit(entry_row(queue.name, entry))
        unknown = unknown_state(s, scan)
        if not s.json:
            if found:
                _print_table(queue.name, state, found, now)
            if gone := [entry for entry in found if entry.called == GONE]:
                how = f"{hint('explain', f'{queue.name}/{gone[0].id}')} says what clears one"
                some = state_entries(len(gone), state)
                say(f"{queue.name}: {some} without a payload, gone from the stream: {how}")
            capped = scan.found == most and not scan.complete
            of = f" of {scan.total_text}: --max shows more" if capped else ""
            looked = f"; {scan.window_text}" if scan.window_text else ""
            if not unknown:
                say(f"{queue.name}: {entries_found(scan)}{of}{looked}")
        elif scan.window_text:
            say(f"{queue.name}: {scan.window_text}")
        if unknown:
            say(unknown)
        for name in scan.absent:
            say(printable(f"{queue.name}: no {state} entry that was read has {name}"))
        broken = tell_unread([scan]) or broken
        tell_cancelled(s, target)
    return PARTLY_DONE if broken else DONE


def unknown_state(s: Session, scan: Scan) -> str:
    """A message if nothing was found because the queue can't list this state; else empty."""
    queue, state = scan.queue, scan.state
    if state == "done" and not isinstance(queue, HasDoneEntries):
        return f"{queue.name}: {done_unlisted(queue)}"
    if scan.found or state not in s.run(queue.counts.op()).unknown:
        return ""
    return f"{queue.name}: {no_list(queue.kind, state, queue.unlisted.get(state))}"


def tell_cancelled(s: Session, target: Target) -> None:
    """Report the entries of cancelled requests: the trash counts but doesn't list them."""
    if target.state == "trash" and (text := s.run(cancelled_trash(target.queue))):
        say(printable(f"{target.queue.name}: {text}"))


def _print_table(queue: str, state: State, rows: list[Entry], now: int) -> None:
    clock = {"pending": "lease left", "delayed": "ready in"}.get(state)
    texts = [
        [
            f"{queue}/{entry.id}",
            entry.since_ms and age(now - entry.since_ms),
            *([entry.at_ms and age(entry.at_ms - now)] if clock else []),
            *entry_cells(entry),
        ]
        for entry in rows
    ]
    entry_table(["entry", "since", *([clock] if clock else [])], texts)


def ready_time(s: Session, asked: When, now_ms: int) -> int:
    """The ready time that ``--at`` (its next occurrence) or ``--in`` names."""
    if asked.at is not None and asked.after is None:
        at_ms = moment_ms(asked.at, now_ms, ahead=True, utc=s.utc)
        if at_ms >= MOST_MS:
            raise BadInput(f"--at {asked.at}: give a time before the year 5138")
        return max(0, at_ms)
    if asked.after is not None and asked.at is None:
        return now_ms + duration_ms(asked.after)
    raise BadInput("give either --at or --in")


def schedule(s: Session, address: str, payload: str, asked: When) -> int:
    name, slash, id = address.partition("/")
    if not slash:
        raise BadInput(f"{address!r} lacks an id: QUEUE/ID")
    s.writable()
    now_ms = s.run(server_ms())
    ready_ms = ready_time(s, asked, now_ms)
    content = payload_bytes(payload)
    there = s.run(s.deployment.named(known_name(name, "queue name")))
    queue = there or DelaySet(s.client, name, prefix=s.deployment.prefix)
    if not isinstance(queue, DelaySet):
        raise WrongKind(f"queue {name} is {kind_of(queue.kind)}, not a delay set")
    at = datetime.fromtimestamp(ready_ms / 1000, UTC)
    (done,) = queue.schedule([(id, content)], at=at)
    if done.word == "exists":
        raise Exists(f"{address} is there already, with another payload or time")
    if done.word == "trash":
        restore = hint("trash", "restore", f"{queue.name}/{id}")
        raise Exists(f"{address} was there before and is in the trash: {restore} brings it back")
    if s.json:
        conclude(as_line({"queue": queue.name, **asdict(done)}))
    else:
        due = when(done.ready_ms, s.utc)
        word = "ready" if done.ready_ms > now_ms else "ready now, due"
        conclude(f"{address} {word} {due}")
    return 0

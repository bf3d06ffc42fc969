"""The entries that a command selects: `ls` of a state, `redisq delay schedule`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import asdict, replace
from typing import Any

from redisq_ops.core.engine.optional_features import (
    HasConsumerGroups,
    HasDoneEntries,
    HasRequests,
)
from redisq_ops.core.engine.queue import Queue
from redisq_ops.core.engine.registry import server_ms
from redisq_ops.core.model.entry import GONE, Entry, State
from redisq_ops.core.model.errors import BadInput, Exists, WrongKind
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
from redisq_ops.ops.terminal import kind_of, no_list

from .address import queue_named
from .filter_options import filtered, pages, reads_payloads
from .options import Selecting, When
from .output import age, emit, printable, say, when
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
    broken = False
    for target in targets_to_read(s, (state,), selecting):
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


def done_unlisted(queue: Queue[Any]) -> str:
    """Why no done entry of a queue is listed."""
    if isinstance(queue, HasRequests):
        return "of done entries only the results are kept (redisq results)"
    return f"done entries are not listed in a {queue.kind} queue"


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
        return moment_ms(asked.at, now_ms, ahead=True, utc=s.utc)
    if asked.after is not None and asked.at is None:
        return now_ms + duration_ms(asked.after)
    raise BadInput("give either --at or --in")


def schedule(s: Session, address: str, payload: str, asked: When) -> int:
    name, slash, id = address.partition("/")
    if not slash:
        raise BadInput(f"{address!r} lacks an id: QUEUE/ID")
    s.writable()
    ready_ms = ready_time(s, asked, s.run(server_ms()))
    content = payload_bytes(payload)
    there = s.run(s.deployment.named(known_name(name, "queue name")))
    queue = there or DelaySet(s.client, name, prefix=s.deployment.prefix)
    if not isinstance(queue, DelaySet):
        raise WrongKind(f"queue {name} is {kind_of(queue.kind)}, not a delay set")
    (done,) = queue.schedule([(id, content)], at_ms=ready_ms)
    if done.word == "exists":
        raise Exists(f"{address} is there already, with another payload or time")
    if done.word == "trash":
        restore = hint("trash", "restore", f"{queue.name}/{id}")
        raise Exists(f"{address} was there before and is in the trash: {restore} brings it back")
    if s.json:
        emit({"queue": queue.name, **asdict(done)})
    else:
        print(f"{address} ready {when(done.ready_ms, s.utc)}")
    return 0

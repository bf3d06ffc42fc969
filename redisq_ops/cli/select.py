"""`redisq select`: what an expression means, in all states of a queue or of all queues."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from redisq_ops.core.engine.queue import Queue
from redisq_ops.core.model.entry import STATES, Entry
from redisq_ops.core.model.errors import BadInput, Refused, Unreachable, Unreadable, WrongKind
from redisq_ops.core.redis.operation import apart, together
from redisq_ops.ops.filter.scan import Filter, Scan
from redisq_ops.ops.inspect.cancelled_trash import cancelled_trash

from .address import queue_named
from .filter_options import filtered, pages, reads_payloads
from .output import age, count, emit, printable, say, table
from .rows import entry_row, tell_unread
from .session import Session, redaction

SHOWN = 100


def selected(s: Session, given: Mapping[str, Any]) -> int:
    """Look through every state an entry can be in that the expression allows."""
    counting = given["count"]
    most = given["max"] or (None if s.json or counting else SHOWN)
    filter = replace(filtered(given, s.utc), max=most, redaction=s.redaction)
    looks: list[Scan] = []
    rows: list[list[Any]] = []
    broken = False
    queues, refused = _queues(s, given)
    unanswered = _unanswered(s, queues) if given["all_queues"] else {}
    for name, why in (refused | unanswered).items():
        broken = True
        say(printable(f"{name}: not looked at: {why}"))
        queues = [queue for queue in queues if queue.name != name]
    for queue in queues:
        left = None if most is None else most - sum(scan.found for scan in looks)
        if left == 0:
            break
        try:
            looks += _through(s, queue, replace(filter, max=left), given, rows)
        except Unreachable:
            raise
        except Refused as refusal:
            if not given["all_queues"]:
                raise
            broken = True
            say(printable(f"{queue.name}: {refusal}"))
    broken = tell_unread(looks) or broken
    if counting:
        _tell_counts(s, looks)
    elif not s.json:
        _tell_rows(rows, looks, most)
    else:
        for scan in looks:
            if scan.window_text:
                say(f"{scan.queue.name}: {scan.window_text} {scan.state}")
    for scan in looks:
        if scan.state == "trash" and (along := s.run(cancelled_trash(scan.queue))):
            say(printable(f"{scan.queue.name}: {along}"))
    if not looks and not broken:
        say("0 matched: " + _why_not(filter, queues))
    return 3 if broken else 0


def _why_not(filter: Filter, queues: Sequence[Queue[Any]]) -> str:
    from redisq_ops.core.engine.optional_features import HasRequests

    about = None if filter.where is None else filter.where.states
    if queues and about is not None and "done" in about and len(about) == 1:
        if all(isinstance(queue, HasRequests) for queue in queues):
            return "of what is done only results are kept (redisq results)"
        more = "" if len(queues) > 1 else f" in a {queues[0].kind} queue"
        return f"what is done isn't listed{more}"
    return filter.state_mismatch("dead") or "there is no queue here"


def _queues(s: Session, given: Mapping[str, Any]) -> tuple[list[Queue[Any]], dict[str, str]]:
    """The queues meant, and why others can't be opened."""
    if given["all_queues"]:
        if given["name"] is not None:
            raise BadInput("either a queue or --all-queues")
        refused = s.run(s.deployment.registered())[1]
        return s.run(s.deployment.apart()), {name: str(why) for name, why in refused.items()}
    return [s.run(s.deployment.queue(queue_named(s, given["name"])))], {}


def _unanswered(s: Session, queues: Sequence[Queue[Any]]) -> dict[str, str]:
    """Queues of a Cluster whose node doesn't answer, and what is said of that."""
    from redis import RedisCluster

    if not isinstance(s.client, RedisCluster):  # one server answers, or it doesn't
        return {}
    said = s.run(together(apart(queue.counts.op()) for queue in queues))
    return {
        queue.name: str(error)
        for queue, error in zip(queues, said, strict=True)
        if isinstance(error, Unreachable)
    }


def _through(
    s: Session,
    queue: Queue[Any],
    filter: Filter,
    given: Mapping[str, Any],
    rows: list[list[Any]],
) -> list[Scan]:
    """All states of a queue, one after the other; what is found is printed or put among rows."""
    looks: list[Scan] = []
    now = s.run(queue.now.op())
    left = filter.max
    for state in STATES:
        # Of what is done only results are kept, not the entries.
        if state == "done" or filter.state_mismatch(state) or left == 0:
            continue
        scan = Scan(queue, state, replace(filter, max=left), now, partly=True)
        try:
            for page in pages(s, scan, given):
                if given["count"]:
                    continue
                if s.json:
                    for entry in reads_payloads(s, queue, page):
                        emit(entry_row(queue.name, entry))
                else:
                    rows += [_row(queue.name, entry, now) for entry in page]
        except (Unreadable, WrongKind) as corrupt:  # the other states may be readable
            scan.problem, scan.over = f"{state}: {corrupt}", True
        left = None if left is None else left - scan.found
        looks.append(scan)
    return looks


def _row(queue: str, entry: Entry, now: int) -> list[Any]:
    entry = redaction().entry(entry)
    error = entry.error
    return [
        f"{queue}/{entry.id}", entry.state, entry.since_ms and age(now - entry.since_ms),
        entry.failures, entry.lost, entry.consumer, entry.reason,
        f"{error.type}: {error.message}" if error else entry.problem,
    ]  # fmt: skip


def _tell_rows(rows: list[list[Any]], looks: list[Scan], most: int | None) -> None:
    if rows:
        table(["entry", "state", "since", "failures", "lost", "consumer", "reason", "error"], rows)
    by_queue: dict[str, list[Scan]] = {}
    for scan in looks:
        by_queue.setdefault(scan.queue.name, []).append(scan)
    for name, scans in by_queue.items():
        found = sum(scan.found for scan in scans)
        said = [f"{count(found)} {'entry' if found == 1 else 'entries'}"]
        said += [f"{count(scan.found)} {scan.state}" for scan in scans if scan.found]
        # What was looked through to its end needs no word: six states would fill two lines.
        said += [f"{x.window_text} {x.state}" for x in scans if x.window_text and not x.read_all]
        say(printable(f"{name}: " + ", ".join(said)))
    if most is not None and sum(scan.found for scan in looks) >= most:
        say(f"the first {count(most)}: --max shows more, --count says how many there are")


def _tell_counts(s: Session, looks: list[Scan]) -> None:
    rows = [
        {"queue": scan.queue.name, "state": scan.state, "matched": scan.found,
         "looked": scan.scanned, "total": scan.total if scan.exact else None,
         "complete": scan.complete}
        for scan in looks
    ]  # fmt: skip
    if s.json:
        for row in rows:
            emit(row)
    elif rows:
        shown = ("queue", "state", "matched", "looked")
        lines = [
            [*(row[name] for name in shown), scan.total_text]
            for row, scan in zip(rows, looks, strict=True)
            if row["total"] != 0
        ]
        if lines:
            table((*shown[:3], "looked at", "of"), lines)
        found = sum(scan.found for scan in looks)
        say(f"{count(found)} {'entry' if found == 1 else 'entries'}")

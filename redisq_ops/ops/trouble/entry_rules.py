"""Rules about entries: they die, fail, come back again and again, or wait for long."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..terminal import count, rough_age
from .finding import Finding, Severity, Thresholds

if TYPE_CHECKING:
    from redisq_ops.core.model.entry import Counts, Entry
    from redisq_ops.core.model.rates import Rates

    from ..inspect.overview import QueueRow


def dying(row: QueueRow, now_ms: int, limits: Thresholds) -> Iterator[Finding]:
    died = row.activity.dead_lately if row.activity else None
    if died is not None and died >= limits.dead:
        reason = f"{count(died)} dead in {limits.minutes} m{_mostly(row, died)}"
        yield Finding(reason, died, limits.minutes * 60_000)


def dead(row: QueueRow, now_ms: int, limits: Thresholds) -> Iterator[Finding]:
    """Dead letters that nobody has dealt with, however long ago they died."""
    dead = not_acknowledged(row, now_ms)
    if dead is None or dead < limits.dead_letters:
        return
    lately = row.activity.dead_lately if row.activity else None
    number, words = count(dead), "dead"
    if row.acknowledged is not None and row.acknowledged.holds(now_ms):
        words = "dead since acknowledged"
        if row.activity and not row.activity.dead_since_exact:
            number = f"at least {number}"
    severity = Severity.CRITICAL if dead >= limits.many_dead_letters else None
    if lately is None or lately < limits.dead:
        yield Finding(f"{number} {words}{_mostly(row, dead)}", dead, severity=severity)
    elif dead > lately:  # those of the latest minutes have a reason of their own
        yield Finding(f"{number} {words} in all", dead, severity=severity)


def not_acknowledged(row: QueueRow, now_ms: int) -> int | None:
    """How many dead letters nobody has acknowledged; None: unknown."""
    dead, known, seen = row.of("dead"), row.acknowledged, row.activity
    if dead is None or known is None or not known.holds(now_ms):
        return dead
    # Where deaths can't be counted by time, more may have died than the latest ones tell.
    more = max(0, dead - known.dead)
    if seen is None or seen.dead_since is None:
        return more
    return min(dead, seen.dead_since if seen.dead_since_exact else max(seen.dead_since, more))


def _mostly(row: QueueRow, counted: int) -> str:
    """The most common error of so many dead entries, as the end of a sentence."""
    error = row.evidence.error if row.evidence else None
    if error is None:
        return ""
    what = error.type if error.task is None else f"{error.type} in {error.task}"
    if error.looked == counted:
        return f", mostly {what}"
    return f", latest {count(error.looked)} mostly {what}"


def failing(row: QueueRow, now_ms: int, limits: Thresholds) -> Iterator[Finding]:
    if row.rates is None:
        return
    failed = sum(limits.lately(row.rates.failed))
    attempts = failed + sum(limits.lately(row.rates.settled))
    if attempts >= limits.attempts and 100 * failed >= limits.failing_percent * attempts:
        reason = f"{count(failed)} of {count(attempts)} attempts failed in {limits.minutes} m"
        yield Finding(reason, failed, limits.minutes * 60_000)


def poison(row: QueueRow, now_ms: int, limits: Thresholds) -> Iterator[Finding]:
    """Entries come back again and again: they kill their workers, or fail as before."""
    tried = row.evidence.tried if row.evidence else None
    if tried is None or row.counts is None or not suspect(row):
        return
    all_seen = len(tried) >= (row.counts.of("pending") or 0) + (row.counts.of("delayed") or 0)
    rules = (
        ({e.id: lost(e) for e in tried}, limits.lost, "lost a worker", ("", "")),
        (
            {e.id: e.failures for e in tried},
            limits.failures,
            "failed",
            (" and is tried again", " and are tried again"),
        ),
    )
    for numbers, limit, what, (one_ends, they_end) in rules:
        found = {id: n for id, n in numbers.items() if n >= limit}
        often = count(max(found.values(), default=0))
        if len(found) == 1:
            yield Finding(f"{next(iter(found))} {what} {often} times{one_ends}", 1)
        elif found:
            least = "" if all_seen else "at least "
            several = f"{least}{count(len(found))} entries"
            yield Finding(f"{several} {what} up to {often} times{they_end}", len(found))


def lost(entry: Entry) -> int:
    """How often the entry was delivered and not settled, as far as its layout tells; in plain
    streams: its deliveries before the present one."""
    if entry.state != "pending" or entry.receipt is not None or entry.deliveries is None:
        return entry.lost
    return max(entry.lost, entry.deliveries - 1 - entry.failures)


def suspect(row: QueueRow) -> bool:
    """Whether entries may come back again and again: only a look at them tells."""
    counts = row.counts
    return counts is not None and bool(counts.of("pending") or counts.of("delayed"))


def old(row: QueueRow, now_ms: int, limits: Thresholds) -> Iterator[Finding]:
    """The oldest entry has waited for long, although nobody paused the queue."""
    counts, rates = row.counts, row.rates
    if (
        counts is None
        or counts.oldest_ms is None
        or not counts.waiting
        or counts.paused is not None
    ):
        return
    waited = now_ms - counts.oldest_ms
    if waited < limits.oldest_ms:
        return
    reason = f"oldest waits {rough_age(waited)}{drains(counts, rates, now_ms)}"
    yield Finding(reason, counts.waiting, waited)


def drains(counts: Counts, rates: Rates | None, now_ms: int) -> str:
    """How long the waiting entries take at the pace of these rates, as the end of a sentence; empty
    if too little was settled to know."""
    pace = rates.pace(now_ms) if rates else None
    if rates is None or pace is None or not rates.arrived:
        return ""
    if sum(rates.arrived) > sum(rates.settled):
        return f", more in than out in {len(rates.arrived)} m"
    return f", drains in ≈ {rough_age(int(counts.waiting / pace * 60_000))}"


def far_ahead(row: QueueRow, now_ms: int, limits: Thresholds) -> Iterator[Finding]:
    far = row.activity.far_ahead if row.activity else None
    if far:
        what = "delayed entry is" if far == 1 else "delayed entries are"
        yield Finding(f"{count(far)} {what} ready in more than a year", far)


def deep(row: QueueRow, now_ms: int, limits: Thresholds) -> Iterator[Finding]:
    waiting = row.counts.of("waiting") if row.counts is not None else None
    if limits.depth is not None and waiting is not None and waiting >= limits.depth:
        yield Finding(f"{count(waiting)} waiting", waiting)


def growing(row: QueueRow, now_ms: int, limits: Thresholds) -> Iterator[Finding]:
    if limits.growth is None or row.rates is None or not row.rates.arrived:
        return
    more = sum(limits.lately(row.rates.arrived)) - sum(limits.lately(row.rates.settled))
    if more >= limits.growth:
        yield Finding(f"{count(more)} more came than went in {limits.minutes} m", more)

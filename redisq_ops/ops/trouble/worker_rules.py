"""Rules about workers: nobody asks for work, nothing is handed out, entries are held in silence."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from ..terminal import count, rough_age
from .finding import Finding, Severity, Thresholds

if TYPE_CHECKING:
    from redisq_ops.core.model.activity import Activity, ConsumerSign
    from redisq_ops.core.model.entry import Counts

    from ..inspect.overview import QueueRow

LONG_LEASE_MS: Final = 60_000
"""a lease with more to go than this was probably not renewed"""


def no_worker(row: QueueRow, now_ms: int, limits: Thresholds) -> Iterator[Finding]:
    """No worker asks for work. Workers that are busy, with running leases, need not ask."""
    counts, seen = row.counts, row.activity
    if counts is None or seen is None or seen.askers is None or counts.paused is not None:
        return
    late = 0 if seen.deadline_ms is None else now_ms - seen.deadline_ms
    if seen.deadline_ms is not None and late < limits.overdue_ms:
        beating = [sign.silent_ms(now_ms, 0) for sign in seen.signs or () if sign.beats]
        if not beating:
            yield from _unasked(counts, seen, now_ms, limits)
        if not beating or None in beating:
            return
    silent = None if seen.asked_ms is None else now_ms - seen.asked_ms
    if silent is not None and silent < limits.no_worker_ms:
        return
    due = 0 if seen.ready_ms is None else now_ms - seen.ready_ms
    if not counts.waiting and not counts.pending and due <= 0 and not row.missed_runs:
        return
    if counts.oldest_ms is None:  # some layouts don't keep the time
        known = seen.registered or seen.unasked or _none_arrived(row, limits.no_worker_ms)
        oldest = limits.no_worker_ms if known else 0
    else:
        oldest = now_ms - counts.oldest_ms
    if silent is None and max(oldest, late, due) < limits.no_worker_ms and not row.missed_runs:
        return
    work = counts.waiting + counts.pending + row.missed_runs
    if seen.unasked:
        reason = "no worker asks for its entries"
    elif silent is None and seen.registered:
        reason = "no worker is registered for it"
    elif silent is None and not counts.done:
        reason = "no worker seen yet"
    else:
        reason = f"no worker for {'a day or more' if silent is None else rough_age(silent)}"
    yield Finding(reason, work, max(oldest, late, due, silent or 0))


def _unasked(counts: Counts, seen: Activity, now_ms: int, limits: Thresholds) -> Iterator[Finding]:
    """Entries wait while leases run of consumers without heartbeats: perhaps these are busy. A
    lease that is renewed as `Worker` does it never has long to go."""
    if seen.asked_ms is None or seen.deadline_ms is None or counts.oldest_ms is None:
        return
    silent, waited = now_ms - seen.asked_ms, now_ms - counts.oldest_ms
    renewed = seen.deadline_ms - now_ms < LONG_LEASE_MS
    alone = counts.waiting and seen.signs and not renewed
    if alone and min(silent, waited) >= limits.stalled_ms:
        held = f"{count(counts.pending)} held on long leases"
        reason = f"nobody asked for work for {rough_age(silent)}, {held}"
        yield Finding(reason, counts.waiting, silent, Severity.WARNING)


def _none_arrived(row: QueueRow, period_ms: int) -> bool:
    """Whether the minute counters show that all waiting entries came before this period (ms)."""
    minutes = -(-period_ms // 60_000) + 1  # the last minute is still running
    arrived = row.rates.arrived[-minutes:] if row.rates else ()
    return len(arrived) == minutes and not any(arrived) and bool(row.counts and row.counts.waiting)


def stalled(row: QueueRow, now_ms: int, limits: Thresholds) -> Iterator[Finding]:
    """Workers ask, but nothing is handed out: who or what holds it."""
    counts, seen, rates = row.counts, row.activity, row.rates
    if (
        counts is None
        or seen is None
        or rates is None
        or counts.paused is not None
        or not counts.waiting
    ):
        return
    if seen.asked_ms is None or now_ms - seen.asked_ms >= limits.no_worker_ms:
        return
    if counts.oldest_ms is None or now_ms - counts.oldest_ms < limits.stalled_ms:
        return
    if sum(limits.lately(rates.settled)) + sum(limits.lately(rates.failed)):
        return
    evidence = row.evidence
    if evidence and evidence.rate and evidence.rate.each_ms > limits.minutes * 30_000:
        return  # it hands out less than two in that time
    waiting = [r for r in evidence.requests if r.waiting] if evidence else []
    if evidence and waiting and all(r.paused for r in waiting):
        which = f"request {waiting[0].id} is" if len(waiting) == 1 else "all requests are"
        reason = f"{which} paused"
    elif evidence and evidence.holders and all(r.paused or r.pending >= r.limit for r in waiting):
        holders = Counter(evidence.holders)
        (first, _), more = holders.most_common(1)[0], len(holders) - 1
        others = f" and {count(more)} more" if more else ""
        reason = f"{'request limit used up' if waiting else 'entries held'} by {first}{others}"
    elif not any(client.blocked for client in row.clients):
        reason = f"nothing settled for {limits.minutes} m although workers ask"
    else:
        return
    yield Finding(reason, counts.waiting, now_ms - counts.oldest_ms)


def overdue(row: QueueRow, now_ms: int, limits: Thresholds) -> Iterator[Finding]:
    """Workers ask, and still nobody takes back an entry whose lease expired."""
    seen = row.activity
    if (
        seen is None
        or seen.deadline_ms is None
        or row.counts is None
        or row.counts.paused is not None
    ):
        return
    asked = seen.asked_ms is not None and now_ms - seen.asked_ms < limits.no_worker_ms
    if asked and now_ms - seen.deadline_ms >= limits.overdue_ms:
        late = now_ms - seen.deadline_ms
        reason = f"a lease expired {rough_age(late)} ago, and nobody took its entry back"
        yield Finding(reason, 1, late)


def held_in_silence(row: QueueRow, now_ms: int, limits: Thresholds) -> Iterator[Finding]:
    """Consumers without a sign of life hold entries, however long the leases still run."""
    tried = row.evidence.tried if row.evidence else None
    if tried is None or row.activity is None or row.counts is None:
        return
    holders, silent_ms, sure = Counter[str](), 0, False
    for entry in tried:
        if entry.state != "pending" or entry.consumer is None:
            continue
        sign = sign_of(entry.consumer, entry.since_ms, row.activity.signs or ())
        silent = None if sign is None else silence(sign, entry.at_ms, now_ms, limits.held_ms)
        if sign is not None and silent is not None:
            holders[entry.consumer] += 1
            silent_ms = max(silent_ms, silent)
            sure = sure or sign.beats or sign.gone
    if not holders:
        return
    (first, _), held = holders.most_common(1)[0], holders.total()
    seen = sum(entry.state == "pending" for entry in tried)
    least = "" if seen >= (row.counts.of("pending") or 0) else "at least "
    others = f" and {count(len(holders) - 1)} more" if len(holders) > 1 else ""
    reason = f"{least}{count(held)} held by {first}{others}, silent for {rough_age(silent_ms)}"
    yield Finding(reason, held, silent_ms, None if sure else Severity.WARNING)


def sign_of(
    consumer: str, since_ms: int | None, signs: Sequence[ConsumerSign]
) -> ConsumerSign | None:
    """The sign of life of who took an entry at a time.

    Who takes without a `Worker` has no name among the signs, but the time of its latest take: that
    of this entry, if it has asked for nothing since.
    """
    by_name = next((one for one in signs if one.name == consumer), None)
    takers = (one for one in signs if not one.beats and not one.gone)
    return by_name or next((one for one in takers if one.seen_ms == since_ms), None)


def silence(sign: ConsumerSign, deadline_ms: int | None, now_ms: int, held_ms: int) -> int | None:
    """For how long who holds an entry has shown no sign of life, if the entry's lease still runs
    and was probably not renewed; else None."""
    rest = None if deadline_ms is None else deadline_ms - now_ms
    if rest is not None and rest <= (0 if sign.beats or sign.gone else LONG_LEASE_MS):
        return None
    return sign.silent_ms(now_ms, held_ms)

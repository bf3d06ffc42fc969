"""What is wrong with a queue, how badly, and why, in words: rules over what was read of it.

Pure functions of an `overview.QueueRow`; nothing here reads from a server. `Thresholds` says from
which value on something is wrong. Every user interface shows the same rules.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import TYPE_CHECKING, Final

from .terminal import count

if TYPE_CHECKING:
    from redisq_ops.core.model.activity import Activity, ConsumerSign
    from redisq_ops.core.model.entry import Counts, Entry
    from redisq_ops.core.model.rates import Rates

    from .inspect.overview import QueueRow


class Severity(IntEnum):
    """How bad a trouble is: a warning is worth a look, critical means that work isn't done."""

    WARNING = 1
    CRITICAL = 2


@dataclass(frozen=True, slots=True)
class Trouble:
    """One thing that is wrong with a queue."""

    severity: Severity
    rule: str
    """the name of the rule that found it"""
    reason: str
    work: int = 0
    """how many entries it affects, as far as is known"""
    for_ms: int = 0
    """for how long, as far as is known"""


@dataclass(frozen=True, slots=True)
class Thresholds:
    """From which value on a queue is in trouble; times in ms."""

    no_worker_ms: int = 60_000
    """no worker asks for work that there is; an idle worker asks every few seconds"""
    overdue_ms: int = 60_000
    """a lease has expired and nobody took its entry back"""
    stalled_ms: int = 300_000
    """entries wait and workers ask, but nothing is settled"""
    minutes: int = 5
    """length of the period in which failures and dead entries are counted"""
    dead: int = 10
    """dead entries in that period"""
    dead_letters: int = 1
    """dead entries that nobody acknowledged, however old"""
    many_dead_letters: int = 1000
    """as many of them are critical"""
    held_ms: int = 900_000
    """a consumer without heartbeats holds entries and asked for nothing since"""
    attempts: int = 20
    """attempts in that period that are needed to judge the share of failures"""
    failing_percent: int = 50
    """per cent of these that failed"""
    failures: int = 10
    """failures of one entry that is tried again"""
    lost: int = 2
    """workers that vanished while they held one entry"""
    oldest_ms: int = 3_600_000
    """the oldest waiting entry has waited"""
    depth: int | None = None
    """waiting entries; None: any number is fine"""
    growth: int | None = None
    """entries that arrived minus those settled, in that period; None: any number is fine"""

    def off(self, rule: str) -> bool:
        """Whether a rule has no threshold."""
        return {"deep": self.depth, "growing": self.growth}.get(rule, 0) is None


USUAL: Final = Thresholds()


def troubles(row: QueueRow, now_ms: int, limits: Thresholds = USUAL) -> tuple[Trouble, ...]:
    """Everything that is wrong with a queue, the worst first; empty: nothing is known to be."""
    found = [
        Trouble(one.severity or severity, name, one.reason, one.work, one.for_ms)
        for name, (severity, rule) in RULES.items()
        for one in rule(row, now_ms, limits)
    ]
    return tuple(sorted(found, key=lambda one: -one.severity))


def rank(found: Sequence[Trouble]) -> tuple[int, int, int, int]:
    """Sorts queues by their worst trouble, those without any last: by its severity, then by how
    many entries it affects, then by how long it has lasted."""
    names = list(RULES)
    ranks = [(-one.severity, -one.work, -one.for_ms, names.index(one.rule)) for one in found]
    return min(ranks, default=(0, 0, 0, len(RULES)))


def redacted(found: Sequence[Trouble], text: Callable[[str], str]) -> tuple[Trouble, ...]:
    """The troubles with their reasons as they may be shown: these may name an error's type.

    ``text``: `Redaction.text`."""
    return tuple(replace(one, reason=text(one.reason)) for one in found)


def reasons(found: Sequence[Trouble]) -> str:
    """The reasons in one line."""
    return "; ".join(one.reason for one in found)


def rough_age(ms: int) -> str:
    """A duration (ms) in its leading unit: ``13 m``, ``4 h``."""
    for unit, size in (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000)):
        if ms >= size:
            return f"{ms // size} {unit}"
    return f"{max(0, ms) // 1000} s"


# --- the rules: each yields a reason for what it finds ------------------------------------------


@dataclass(frozen=True, slots=True)
class _Finding:
    """What a rule found."""

    reason: str
    work: int = 0
    for_ms: int = 0
    severity: Severity | None = None
    """None: that of the rule"""


_Rule = Callable[["QueueRow", int, Thresholds], Iterator[_Finding]]
LONG_LEASE_MS: Final = 60_000
"""a lease with more to go than this was probably not renewed"""
_UNKNOWN_WORK: Final = 1 << 53
"""of a queue that can't be read: any number of entries may be affected"""


def _unreadable(row: QueueRow, now_ms: int, limits: Thresholds) -> Iterator[_Finding]:
    if row.problem is not None:
        yield _Finding(row.problem, _UNKNOWN_WORK)
    if row.counts is not None and row.counts.problem is not None:
        yield _Finding(row.counts.problem, _UNKNOWN_WORK)


def _no_worker(row: QueueRow, now_ms: int, limits: Thresholds) -> Iterator[_Finding]:
    """No worker asks for work. Workers that are busy, with running leases, need not ask."""
    counts, seen = row.counts, row.activity
    if counts is None or seen is None or seen.askers is None or _held(counts):
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
    if not counts.waiting and not counts.pending and due <= 0 and not _missed_runs(row):
        return
    if counts.oldest_ms is None:  # some layouts don't keep the time
        known = seen.registered or seen.unasked or _none_arrived(row, limits.no_worker_ms)
        oldest = limits.no_worker_ms if known else 0
    else:
        oldest = now_ms - counts.oldest_ms
    if silent is None and max(oldest, late, due) < limits.no_worker_ms and not _missed_runs(row):
        return
    work = counts.waiting + counts.pending + _missed_runs(row)
    if seen.unasked:
        reason = "no worker asks for its entries"
    elif silent is None and seen.registered:
        reason = "no worker is registered for it"
    elif silent is None and not counts.done:
        reason = "no worker seen yet"
    else:
        reason = f"no worker for {'a day or more' if silent is None else rough_age(silent)}"
    yield _Finding(reason, work, max(oldest, late, due, silent or 0))


def _unasked(counts: Counts, seen: Activity, now_ms: int, limits: Thresholds) -> Iterator[_Finding]:
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
        yield _Finding(reason, counts.waiting, silent, Severity.WARNING)


def _none_arrived(row: QueueRow, period_ms: int) -> bool:
    """Whether the minute counters show that all waiting entries came before this period (ms)."""
    minutes = -(-period_ms // 60_000) + 1  # the last minute is still running
    arrived = row.rates.arrived[-minutes:] if row.rates else ()
    return len(arrived) == minutes and not any(arrived) and bool(row.counts and row.counts.waiting)


def _stalled(row: QueueRow, now_ms: int, limits: Thresholds) -> Iterator[_Finding]:
    """Workers ask, but nothing is handed out: who or what holds it."""
    counts, seen, rates = row.counts, row.activity, row.rates
    if counts is None or seen is None or rates is None or _held(counts) or not counts.waiting:
        return
    if seen.asked_ms is None or now_ms - seen.asked_ms >= limits.no_worker_ms:
        return
    if counts.oldest_ms is None or now_ms - counts.oldest_ms < limits.stalled_ms:
        return
    if sum(_lately(rates.settled, limits)) + sum(_lately(rates.failed, limits)):
        return
    evidence = row.evidence
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
    yield _Finding(reason, counts.waiting, now_ms - counts.oldest_ms)


def _dying(row: QueueRow, now_ms: int, limits: Thresholds) -> Iterator[_Finding]:
    died = row.activity.dead_lately if row.activity else None
    if died is not None and died >= limits.dead:
        reason = f"{count(died)} dead in {limits.minutes} m{_mostly(row, died)}"
        yield _Finding(reason, died, limits.minutes * 60_000)


def _dead(row: QueueRow, now_ms: int, limits: Thresholds) -> Iterator[_Finding]:
    """Dead letters that nobody has dealt with, however long ago they died."""
    dead, known = row.counts.of("dead") if row.counts else None, row.acknowledged
    if dead is None:
        return
    lately = row.activity.dead_lately if row.activity else None
    words = "dead"
    if known is not None and known.holds(now_ms):
        since = row.activity.dead_since if row.activity else None
        dead = max(0, dead - known.dead) if since is None else min(since, dead)
        words = "dead since acknowledged"
    if dead < limits.dead_letters:
        return
    severity = Severity.CRITICAL if dead >= limits.many_dead_letters else None
    if lately is None or lately < limits.dead:
        yield _Finding(f"{count(dead)} {words}{_mostly(row, dead)}", dead, severity=severity)
    elif dead > lately:  # those of the latest minutes have a reason of their own
        yield _Finding(f"{count(dead)} {words} in all", dead, severity=severity)


def _mostly(row: QueueRow, counted: int) -> str:
    """The most common error of so many dead entries, as the end of a sentence."""
    error = row.evidence.error if row.evidence else None
    if error is None:
        return ""
    if error.looked == counted:
        return f", mostly {error.type}"
    return f", latest {count(error.looked)} mostly {error.type}"


def _held_in_silence(row: QueueRow, now_ms: int, limits: Thresholds) -> Iterator[_Finding]:
    """Consumers without a sign of life hold entries, however long the leases still run."""
    tried = row.evidence.tried if row.evidence else None
    if tried is None or row.activity is None or row.counts is None:
        return
    signs = {one.name: one for one in row.activity.signs or ()}
    silent: dict[str, int] = {
        name: ms
        for name, sign in signs.items()
        if (ms := sign.silent_ms(now_ms, limits.held_ms)) is not None
    }
    holders = Counter(
        entry.consumer
        for entry in tried
        if entry.state == "pending"
        and entry.consumer in silent
        and _lasts(entry, signs[entry.consumer], now_ms)
    )
    if not holders:
        return
    (first, _), held = holders.most_common(1)[0], holders.total()
    silent_ms = max(silent[name] for name in holders if name is not None)
    seen = sum(entry.state == "pending" for entry in tried)
    least = "" if seen >= (row.counts.of("pending") or 0) else "at least "
    others = f" and {count(len(holders) - 1)} more" if len(holders) > 1 else ""
    reason = f"{least}{count(held)} held by {first}{others}, silent for {rough_age(silent_ms)}"
    sure = any(signs[name].beats or signs[name].gone for name in holders if name is not None)
    yield _Finding(reason, held, silent_ms, None if sure else Severity.WARNING)


def _lasts(entry: Entry, sign: ConsumerSign, now_ms: int) -> bool:
    """Whether the entry's lease still runs, and was probably not renewed."""
    rest = None if entry.at_ms is None else entry.at_ms - now_ms
    return rest is None or rest > (0 if sign.beats or sign.gone else LONG_LEASE_MS)


def _far_ahead(row: QueueRow, now_ms: int, limits: Thresholds) -> Iterator[_Finding]:
    far = row.activity.far_ahead if row.activity else None
    if far:
        what = "delayed entry is" if far == 1 else "delayed entries are"
        yield _Finding(f"{count(far)} {what} ready in more than a year", far)


def _failing(row: QueueRow, now_ms: int, limits: Thresholds) -> Iterator[_Finding]:
    if row.rates is None:
        return
    failed = sum(_lately(row.rates.failed, limits))
    attempts = failed + sum(_lately(row.rates.settled, limits))
    if attempts >= limits.attempts and 100 * failed >= limits.failing_percent * attempts:
        reason = f"{count(failed)} of {count(attempts)} attempts failed in {limits.minutes} m"
        yield _Finding(reason, failed, limits.minutes * 60_000)


def _poison(row: QueueRow, now_ms: int, limits: Thresholds) -> Iterator[_Finding]:
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
            yield _Finding(f"{next(iter(found))} {what} {often} times{one_ends}", 1)
        elif found:
            least = "" if all_seen else "at least "
            several = f"{least}{count(len(found))} entries"
            yield _Finding(f"{several} {what} up to {often} times{they_end}", len(found))


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


def _paused(row: QueueRow, now_ms: int, limits: Thresholds) -> Iterator[_Finding]:
    counts = row.counts
    if counts is not None and counts.paused is not None:
        by = row.evidence.paused_by if row.evidence else None
        yield _Finding(_by("paused", by, counts.paused), counts.waiting)


def _draining(row: QueueRow, now_ms: int, limits: Thresholds) -> Iterator[_Finding]:
    counts = row.counts
    if counts is not None and counts.closed is not None:
        by = row.evidence.closed_by if row.evidence else None
        yield _Finding(_by("draining", by, counts.closed), counts.waiting)


def _blocked(row: QueueRow, now_ms: int, limits: Thresholds) -> Iterator[_Finding]:
    blocked = [client for client in row.clients if client.blocked and client.waiting]
    if blocked:
        first = max(blocked, key=lambda client: client.waiting)
        more = f" and {count(len(blocked) - 1)} more" if len(blocked) > 1 else ""
        waiting = sum(client.waiting for client in blocked)
        yield _Finding(f"client {first.client}{more} blocked", waiting)


def _missed(row: QueueRow, now_ms: int, limits: Thresholds) -> Iterator[_Finding]:
    """Runs of periodic entries are overdue; workers schedule them."""
    missed, counts = _missed_runs(row), row.counts
    if missed and counts is not None and not _held(counts):
        what = "periodic entry" if missed == 1 else "periodic entries"
        yield _Finding(f"{count(missed)} {what} missed a run", missed)


def _missed_runs(row: QueueRow) -> int:
    """Periodic entries that missed a run."""
    return row.periodic[1] if row.periodic is not None else 0


def _unfinished(row: QueueRow, now_ms: int, limits: Thresholds) -> Iterator[_Finding]:
    if row.unfinished:
        yield _Finding(f"unfinished move: {', '.join(row.unfinished)}")


def _resizing(row: QueueRow, now_ms: int, limits: Thresholds) -> Iterator[_Finding]:
    """Workers visit the shards of both numbers, and moves are refused."""
    if row.resize is not None:
        yield _Finding(str(row.resize))


def _old(row: QueueRow, now_ms: int, limits: Thresholds) -> Iterator[_Finding]:
    """The oldest entry has waited for long, although nobody paused the queue."""
    counts, rates = row.counts, row.rates
    if counts is None or counts.oldest_ms is None or not counts.waiting or _held(counts):
        return
    waited = now_ms - counts.oldest_ms
    if waited < limits.oldest_ms:
        return
    reason = f"oldest waits {rough_age(waited)}{drains(counts, rates, now_ms)}"
    yield _Finding(reason, counts.waiting, waited)


def _overdue(row: QueueRow, now_ms: int, limits: Thresholds) -> Iterator[_Finding]:
    """Workers ask, and still nobody takes back an entry whose lease expired."""
    seen = row.activity
    if seen is None or seen.deadline_ms is None or row.counts is None or _held(row.counts):
        return
    asked = seen.asked_ms is not None and now_ms - seen.asked_ms < limits.no_worker_ms
    if asked and now_ms - seen.deadline_ms >= limits.overdue_ms:
        late = now_ms - seen.deadline_ms
        reason = f"a lease expired {rough_age(late)} ago, and nobody took its entry back"
        yield _Finding(reason, 1, late)


def _deep(row: QueueRow, now_ms: int, limits: Thresholds) -> Iterator[_Finding]:
    waiting = row.counts.of("waiting") if row.counts is not None else None
    if limits.depth is not None and waiting is not None and waiting >= limits.depth:
        yield _Finding(f"{count(waiting)} waiting", waiting)


def _growing(row: QueueRow, now_ms: int, limits: Thresholds) -> Iterator[_Finding]:
    if limits.growth is None or row.rates is None:
        return
    more = sum(_lately(row.rates.arrived, limits)) - sum(_lately(row.rates.settled, limits))
    if more >= limits.growth:
        yield _Finding(f"{count(more)} more came than went in {limits.minutes} m", more)


RULES: Mapping[str, tuple[Severity, _Rule]] = {
    "unreadable": (Severity.CRITICAL, _unreadable),
    "no-worker": (Severity.CRITICAL, _no_worker),
    "stalled": (Severity.CRITICAL, _stalled),
    "dying": (Severity.CRITICAL, _dying),
    "held": (Severity.CRITICAL, _held_in_silence),
    "dead": (Severity.WARNING, _dead),
    "poison": (Severity.WARNING, _poison),
    "overdue": (Severity.WARNING, _overdue),
    "failing": (Severity.WARNING, _failing),
    "old": (Severity.WARNING, _old),
    "deep": (Severity.WARNING, _deep),
    "growing": (Severity.WARNING, _growing),
    "blocked": (Severity.WARNING, _blocked),
    "missed": (Severity.WARNING, _missed),
    "far-ahead": (Severity.WARNING, _far_ahead),
    "paused": (Severity.WARNING, _paused),
    "draining": (Severity.WARNING, _draining),
    "unfinished": (Severity.WARNING, _unfinished),
    "resizing": (Severity.WARNING, _resizing),
}
"""rule -> its severity and function; reasons of the same severity are said in this order"""


def judged(row: QueueRow) -> frozenset[str]:
    """The rules that can find something in this queue: its layout has the numbers they need."""
    counts, seen, rates = row.counts, row.activity, row.rates
    if counts is None:
        return frozenset({"unreadable"})
    asked = seen is not None and seen.askers is not None
    dated = not counts.waiting or counts.oldest_ms is not None
    unseen = row.evidence is None or row.evidence.tried is None
    unknown = {
        "no-worker": not asked,
        "stalled": not (asked and dated and rates is not None),
        "dying": seen is None or seen.dead_lately is None,
        "dead": counts.of("dead") is None,
        "held": suspect(row) and (unseen or seen is None or seen.signs is None),
        "far-ahead": seen is None or seen.far_ahead is None,
        "overdue": seen is None or seen.askers is None or seen.registered,
        "failing": rates is None,
        "growing": rates is None,
        "old": not dated,
        "deep": counts.of("waiting") is None,
        "poison": suspect(row) and unseen,
    }
    return frozenset(rule for rule in RULES if not unknown.get(rule))


def _held(counts: Counts) -> bool:
    return counts.paused is not None


def _lately(series: tuple[int, ...], limits: Thresholds) -> tuple[int, ...]:
    # The last minute is still running.
    return series[-limits.minutes - 1 :]


def drains(counts: Counts, rates: Rates | None, now_ms: int) -> str:
    """How long the waiting entries take at the pace of these rates, as the end of a sentence; empty
    if too little was settled to know."""
    pace = rates.pace(now_ms) if rates else None
    if rates is None or pace is None:
        return ""
    if sum(rates.arrived) > sum(rates.settled):
        return f", more in than out in {len(rates.arrived)} m"
    return f", drains in ≈ {rough_age(int(counts.waiting / pace * 60_000))}"


def _by(what: str, who: str | None, why: str) -> str:
    if why in ("", f"by {who}"):
        return f"{what} by {who}" if who else what
    if who is None and why.startswith("by "):  # what is stored where no reason was given
        return f"{what} {why}"
    return f"{what} by {who}: {why}" if who else f"{what}: {why}"

"""Pictures of every view, drawn from seeded snapshots at a fixed size and clock, and compared with
those in `snapshots/` (`pictures.py`)."""

import asyncio
import json
import math
import random
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from typing import Any, cast

import pytest
from textual.pilot import Pilot

from redisq_ops.cli.dashboard_completion import completions
from redisq_ops.core.engine.optional_features import features
from redisq_ops.core.engine.queue_base import QueueBase
from redisq_ops.core.model.activity import Activity, ConsumerSign
from redisq_ops.core.model.consumer_load import GroupLoad, PendingDelivery
from redisq_ops.core.model.entry import (
    Client,
    Consumer,
    Counts,
    Entry,
    Event,
    Failure,
    Level,
    Request,
    RequestState,
    State,
)
from redisq_ops.core.model.errors import Forbidden
from redisq_ops.core.model.rates import Rates
from redisq_ops.core.model.settings import BATCH, DEFAULTS
from redisq_ops.core.model.states import Verb
from redisq_ops.core.model.worker_process import Process, RunningJob
from redisq_ops.core.queues.delay import DelaySet
from redisq_ops.core.queues.delay.periodic import Periodic, ScheduledPeriodic, run_id
from redisq_ops.core.queues.fair import FairQueue
from redisq_ops.core.queues.request import RequestQueue
from redisq_ops.ops.change.audit_log import Operation
from redisq_ops.ops.change.control import QueueSetting
from redisq_ops.ops.change.edit import CHANGES, Sample, edit_preview
from redisq_ops.ops.change.impact import Consequences
from redisq_ops.ops.change.payload_diff import diff
from redisq_ops.ops.change.prepare import ChangeRequest, PreparedChange
from redisq_ops.ops.change.preview import preview
from redisq_ops.ops.deployment import Deployment
from redisq_ops.ops.explain.reason import Explanation, Reason
from redisq_ops.ops.filter.filter import Filter
from redisq_ops.ops.filter.parser import parse
from redisq_ops.ops.filter.selection import Selection
from redisq_ops.ops.groups.error_groups import ErrorGroup, ErrorGroups
from redisq_ops.ops.groups.fingerprint import fingerprint
from redisq_ops.ops.groups.group_by import group_by
from redisq_ops.ops.inspect.client_details import ClientDetails
from redisq_ops.ops.inspect.consumers import (
    AGES_MS,
    DELIVERIES,
    POISON,
    ConsumerReport,
    ConsumerStatus,
)
from redisq_ops.ops.inspect.dead_reader import death_bars
from redisq_ops.ops.inspect.details import EntryDetails, PendingEntry, RequestDetails
from redisq_ops.ops.inspect.history import EntryHistory
from redisq_ops.ops.inspect.overview import CommonError, Evidence, QueueRow
from redisq_ops.ops.inspect.periodic import PeriodicStatus
from redisq_ops.ops.inspect.snapshot import (
    ChartData,
    ChartScope,
    DeadLetters,
    ListedQueue,
    Snapshot,
    Upcoming,
    View,
    Viewport,
)
from redisq_ops.tui.app import Top
from redisq_ops.tui.change.confirm_dialog import Confirm
from redisq_ops.tui.change.run_change import edit_question, question
from redisq_ops.tui.change.undo_screen import UndoScreen
from redisq_ops.tui.dashboard_settings import DashboardSettings
from redisq_ops.tui.host import Completion, Host
from redisq_ops.tui.navigation import Navigation
from redisq_ops.tui.poller import Connected
from redisq_ops.tui.samples import Samples
from redisq_ops.tui.theme import THEMES

from .pictures import KEPT, Colours, Pictures, lines, styled_rows

pytestmark = pytest.mark.slow

NOW = 1_773_457_965_000  # 2026-03-14 03:12:45 UTC
SECOND, MINUTE, HOUR, DAY = 1000, 60_000, 3_600_000, 86_400_000
FEATURES = {
    "request": features(RequestQueue),
    "delay": features(DelaySet),
    "fair": features(FairQueue),
}
OSC_52 = "\x1b]52;c;cm0gLXJmIC8=\x07"

KINDS = {
    "audit-log": "request",
    "billing": "request",
    "crm-sync": "request",
    "exports": "fair",
    "fraud-check": "request",
    "geo-import": "request",
    "image-thumbnails": "request",
    "invoices": "request",
    "mail": "request",
    "nightly-reports": "request",
    "pdf-render": "request",
    "push-devices": "delay",
    "reminders": "delay",
    "search-index": "request",
    "transcode-hd": "request",
    "trial-expiry": "delay",
    "webhooks": "delay",
}


# --- what the server would say ---------------------------------------------------------------


def listed() -> tuple[ListedQueue, ...]:
    return tuple(
        ListedQueue(
            name,
            kind,
            FEATURES[kind],
            QueueBase.actions,
            QueueBase.editable_states,
        )
        for name, kind in KINDS.items()
    )


def rates(base: int, failing: int = 0) -> Rates:
    chance = random.Random(base)
    wave = [max(0, int(base * (1 + 0.5 * chance.gauss(0, 0.6)))) for _ in range(60)]
    failed = [chance.randint(0, failing) for _ in range(59)] + [failing]
    return Rates(tuple(wave), tuple(max(0, n - n // 9) for n in wave), tuple(failed))


def workers(number: int) -> tuple[ConsumerSign, ...]:
    return tuple(ConsumerSign(f"worker-{n}", NOW - SECOND, beats=True) for n in range(number))


def overview() -> tuple[QueueRow, ...]:
    counts = {
        "exports": (Counts(sum(one.waiting for one in clients()), 18, 4, 9, 0, 88_310), rates(30)),
        "billing": (Counts(37, 12, 4, 0, 0, 918_223, NOW - 41 * SECOND), rates(420)),
        "geo-import": (
            Counts(2_210, 0, 0, 4, 0, 9_120, NOW - 14 * MINUTE),
            replace(idle := rates(160), settled=(*idle.settled[:-13], *(0,) * 13)),
        ),
        "image-thumbnails": (
            Counts(184_220, 64, 911, 37, 0, 5_204_113, NOW - 26 * MINUTE),
            rates(5_200, 3),
        ),
        "mail": (
            Counts(1_204, 24, 88, 1_240, 12, 44_210_000, NOW - 48 * SECOND),
            Rates(*(tuple(part[-60:]) for part in day())),
        ),
        "nightly-reports": (
            Counts(12, 0, 0, 0, 0, 4_410, NOW - 5 * HOUR, "disk full on db-3"),
            rates(0),
        ),
        "reminders": (Counts(0, 3, 42_118, 2, 0, 88_120), rates(61)),
        "search-index": (Counts(0, 0, 0, 0, 0, 120, None, None, "by kim"), rates(0)),
        "webhooks": (Counts(310, 40, 6_021, 411, 0, 1_420_008, NOW - 88 * SECOND), rates(310, 9)),
    }
    for number, name in enumerate(KINDS):
        chance = random.Random(number)
        waiting, busy = int(chance.paretovariate(0.5)), chance.randint(1, 40)
        usual = Counts(
            waiting,
            busy,
            chance.randint(0, 30),
            chance.choice([0, 0, 0, 1, 9]),
            0,
            10_000,
            NOW - chance.randint(1, 400) * SECOND,
        )
        counts.setdefault(name, (usual, rates(chance.randint(20, 2_000), chance.choice([0, 0, 2]))))
    lately = {
        "geo-import": Activity(NOW - 13 * MINUTE, 2, None, 0, signs=()),
        "mail": Activity(NOW - SECOND, 24, NOW + SECOND, 211, signs=workers(24)),
        "webhooks": Activity(NOW - SECOND, 8, NOW + SECOND, 2, signs=workers(8)),
    }
    evidence = {
        "mail": Evidence(error=CommonError("SMTPRecipientsRefused", 20)),
        "nightly-reports": Evidence(paused_by="root"),
        "search-index": Evidence(closed_by="kim"),
    }
    return tuple(
        QueueRow(
            name,
            KINDS[name],
            *counts[name],
            activity=lately.get(name, Activity(NOW - SECOND, 3, NOW + SECOND, 0, signs=workers(3))),
            evidence=evidence.get(name),
            clients=clients() if name == "exports" else (),
        )
        for name in KINDS
    )


def requests() -> tuple[Request, ...]:
    """Of the queue mail: they add up to the counts of the overview. Open ones first, by age."""
    held = Counter(row.id.partition("/")[0] for row in pending())
    rows = []
    for id, state, priority, limit, waiting, delayed, dead, done, trash, minutes in [
        ("import-3110", "sealed", 90, 4, 41, 0, 0, 959, 0, 246),
        ("digest-3111", "sealed", 10, 8, 0, 12, 0, 388, 0, 122),
        ("invoice-3112", "open", 50, 8, 22, 0, 0, 5, 0, 111),
        ("import-3113", "sealed", 78, 100, 118, 0, 0, 64, 0, 73),
        ("invoice-3114", "open", 40, 16, 6, 2, 0, 392, 0, 71),
        ("digest-3115", "paused", 10, 16, 34, 0, 0, 20, 0, 66),
        ("import-3116", "sealed", 79, 100, 204, 0, 0, 96, 0, 64),
        ("invoice-3117", "open", 36, 4, 3, 0, 0, 9, 0, 62),
        ("digest-3118", "sealed", 14, 8, 1, 0, 0, 11, 0, 58),
        ("invoice-3119", "open", 62, 2, 9, 0, 0, 391, 0, 55),
        ("newsletter-3120", "sealed", 0, 8, 60, 11, 155, 749, 0, 1600),
        ("newsletter-3121", "sealed", 0, 16, 84, 9, 155, 727, 0, 1480),
        ("newsletter-3122", "sealed", 5, 16, 71, 14, 155, 735, 0, 1360),
        ("newsletter-3123", "open", 50, 16, 92, 8, 155, 24_719, 0, 1240),
        ("newsletter-3124", "open", 50, 8, 58, 11, 155, 752, 0, 1120),
        ("newsletter-3125", "open", 50, 100, 110, 7, 155, 708, 0, 1000),
        ("newsletter-3126", "open", 55, 100, 136, 6, 155, 24_683, 0, 820),
        ("newsletter-3127", "open", 50, 100, 155, 8, 155, 660_661, 12, 700),
        ("invoice-3104", "done", 50, 8, 0, 0, 0, 1_000, 0, 304),
        ("digest-3105", "cancelled", 50, 8, 0, 0, 0, 12_500, 0, 90),
        ("import-3106", "cancelled", 90, 2, 0, 0, 0, 200, 0, 91),
        ("digest-3107", "done", 90, 2, 0, 0, 0, 997, 0, 89),
        ("invoice-3108", "done", 10, 8, 0, 0, 0, 1_000_000, 0, 100),
        ("invoice-3109", "done", 50, 16, 0, 0, 0, 397, 0, 94),
    ]:
        created, paused = NOW - minutes * MINUTE - 11 * SECOND, state == "paused"
        total = waiting + delayed + dead + done + trash + held[id]
        rows.append(
            Request(
                id,
                cast("RequestState", "sealed" if paused else state),
                priority,
                limit,
                paused,
                2 * total if state == "cancelled" else total,
                waiting,
                held[id],
                delayed,
                done,
                dead,
                total if state == "cancelled" else trash,
                max(0, min(limit - held[id], waiting)),
                created,
                created,
                None,
                0,
                0,
                "",
            )
        )
    opened = sorted(rows[:18], key=lambda row: row.created_ms)
    return (*opened, *rows[18:])


REFUSED = "550 5.1.1 <ada@example.org>: mailbox unavailable"
ERRORS = [
    Failure("SMTPRecipientsRefused", REFUSED),
    Failure("TimeoutError", "no answer from smtp-3 after 30 s"),
    Failure("TemplateError", "'[red]name[/red]' is undefined in welcome.html, line 12"),
    Failure("UnicodeEncodeError", f"surrogates not allowed: {OSC_52}"),
]


CONSUMERS = tuple(f"mail-{at // 3 + 1}:{1001 + at}" for at in range(7))


def dead(start: int, end: int, total: int = 1_240) -> tuple[Entry, ...]:
    """Of eight newsletters; 211 died in the latest five minutes, when smtp-3 was away."""
    rows = []
    for at in range(start, min(end, total)):
        chance = random.Random(at)
        ago = 5 * MINUTE * math.sqrt((at + 0.1) / 211) if at < 211 else (at - 204) * 47 * SECOND
        since = NOW - int(ago)
        reason = chance.choice(["failed", "failed", "failed", "lost", "rejected"])
        error = None if reason == "lost" else chance.choices(ERRORS, (5, 2, 2, 1))[0]
        rows.append(
            Entry(
                f"newsletter-{3127 - at // 155}/{4000 + at * 3}",
                "dead",
                since,
                since,
                failures=0 if reason == "lost" else 1 if reason == "rejected" else 20,
                lost=3 if reason == "lost" else 0,
                first_ms=since - chance.randint(1, 9) * HOUR,
                consumer=chance.choice(CONSUMERS),
                reason=reason,
                error=error,
            )
        )
    return tuple(rows)


HELD_S = {
    CONSUMERS[5]: (3 * 86_400, 3 * 86_400),
    CONSUMERS[3]: (22 * 60, 21 * 60, 20 * 60),
    CONSUMERS[6]: (41, 23, 16, 8),
    CONSUMERS[0]: (29, 17),
    CONSUMERS[1]: (12, 9, 8, 3, 2),
    CONSUMERS[4]: (9, 8, 7, 6, 5, 4, 2, 1),
}
"""consumer -> how long it has held each of its entries, in seconds"""


def pending() -> tuple[Entry, ...]:
    rows = []
    held = ((consumer, seconds) for consumer, all_s in HELD_S.items() for seconds in all_s)
    for at, (consumer, seconds) in enumerate(held):
        since = NOW - seconds * SECOND
        alive = consumer in CONSUMERS[:3] + CONSUMERS[4:5] or seconds < 30
        failures = (10, 10, 3, 4, 5)[at] if at < 5 else 2 if at % 6 == 3 else 0
        rows.append(
            Entry(
                f"newsletter-{3120 + at % 5}/{700 + at * 7}",
                "pending",
                since + 30 * SECOND + (seconds // 10 * 10 * SECOND if alive else 0),
                since,
                failures=failures,
                lost=1 if at in (5, 9, 13) else 0,
                first_ms=since - failures * MINUTE,
                consumer=consumer,
                error=ERRORS[1] if failures else None,
            )
        )
    return tuple(sorted(rows, key=lambda row: row.at_ms or 0))


def waiting(start: int, end: int) -> tuple[Entry, ...]:
    """Those of the first priority come first."""
    ids = [
        f"{request.id}/{9_000 + at}"
        for request in sorted(requests(), key=lambda request: request.priority)
        for at in range(request.waiting)
    ]
    return tuple(
        Entry(
            ids[at],
            "waiting",
            None,
            NOW - 48 * SECOND if at % 9 == 4 else None,
            failures=2 if at % 9 == 4 else 0,
            error=ERRORS[1] if at % 9 == 4 else None,
        )
        for at in range(start, min(end, len(ids)))
    )


def trash() -> tuple[Entry, ...]:
    """What a change purged: entries with one error."""
    rows = [row for row in dead(0, 100) if row.error is ERRORS[0]]
    purged = NOW - 41 * MINUTE
    return tuple(
        replace(
            rows[at],
            id=f"newsletter-3127/{1_000 + at * 3}",
            state="trash",
            at_ms=purged,
            since_ms=purged,
            first_ms=purged - HOUR - at * MINUTE,
            op="purge-1f2e3d4c5b",
        )
        for at in range(12)
    )


def delayed(start: int, end: int, total: int = 42_118) -> tuple[Entry, ...]:
    chance = random.Random(3)
    at, rows = NOW, []
    for number in range(min(end, total)):
        at += int(chance.expovariate(1 / 900))
        tried = number % 11 == 3
        rows.append(
            Entry(
                f"reminder-{88_000 + number * 17 % 9_000}",
                "delayed",
                at,
                NOW - HOUR,
                failures=2 if tried else 0,
                error=ERRORS[1] if tried else None,
            )
        )
    return tuple(rows[start:])


def upcoming(buckets: int) -> Upcoming:
    chance, step = random.Random(5), 5 * MINUTE
    numbers = tuple(
        int((620 - 4 * at) * (0.5 + chance.random() / 2) + (900 if at % 24 == 18 else 0))
        for at in range(buckets)
    )
    return Upcoming(step, numbers, 42_118 - sum(numbers))


def levels() -> tuple[Level, ...]:
    free: dict[int, list[Request]] = {}
    for one in requests():
        if one.tokens and not one.paused:
            free.setdefault(one.priority, []).append(one)
    return tuple(
        Level(priority, sum(one.tokens for one in found), tuple(one.id for one in found[:2]))
        for priority, found in sorted(free.items())
    )


def entry_history(row: Entry | None = None) -> EntryHistory:
    """Of an entry that failed, and died where it is ``row``; without one, of a request."""
    since, by = (NOW - 4 * MINUTE, CONSUMERS[2]) if row is None else (row.since_ms, row.consumer)
    assert since is not None

    def event(id: str, minutes: int, consumer: str, kind: str, said: str = "") -> Event:
        return Event(id, since - minutes * MINUTE, consumer, {kind: (f"x|{said or consumer}",)})

    reason = "failed" if row is None else row.reason
    last = ("failed", "") if row is None else ("dead", row.reason or "")
    before = (
        ()
        if reason == "rejected"
        else (
            event("2-0", 14, CONSUMERS[0], reason or "failed"),
            event("1-0", 29, CONSUMERS[6], reason or "failed"),
        )
    )
    events = (event("3-0", 0, by or "", *last), *before)
    return EntryHistory(events, 1000, 88_120)


def entry(id: str) -> EntryDetails:
    row = next((row for row in dead(0, 500) if row.id == id), dead(1, 2)[0])
    error = row.error
    if error is not None:
        traceback = (
            "Traceback (most recent call last):\n"
            '  File "/srv/mail/handler.py", line 88, in handle\n'
            "    smtp.send_message(message)\n"
            f"{error.type}: {error.message} {OSC_52}"
        )
        error = replace(error, traceback=traceback)
    found = replace(
        row,
        id=id,
        receipt=None,
        error=error,
        payload=b'{"to": "ada@example.org", "subject": "[red]Hi[/red]",\n "body": "\x1b[2J\xff'
        + OSC_52.encode()
        + b'"}',
    )
    return EntryDetails(RequestQueue(None, "mail"), NOW, found, None, entry_history(row))


def request(id: str) -> RequestDetails:
    record = next(one for one in requests() if one.id == id)
    rows = [row for row in pending() if row.id.startswith(f"{id}/")]
    rows.sort(key=lambda row: int(row.id.rpartition("/")[2]))
    held = tuple(PendingEntry(row, NOW - (row.since_ms or NOW)) for row in rows)
    has = sorted(Counter(row.consumer or "-" for row in rows).items())
    idle = {status.name: status.idle_ms or 0 for status in report().consumers}
    consumers = tuple(Consumer(name, n, idle[name]) for name, n in has)
    return RequestDetails(
        RequestQueue(None, "mail"),
        NOW,
        record,
        "redisq:{mail}:s:" + id,
        record.waiting + record.pending + record.delayed,
        consumers,
        held,
        (),
        entry_history(),
    )


def groups() -> tuple[ErrorGroup, ...]:
    found = ErrorGroups()
    found.add(dead(0, 500))
    return tuple(found.ranked())


def all_dead(bars: int) -> DeadLetters:
    """A deploy at 02:30 that breaks one task, and three older errors."""
    found, died = list[ErrorGroup](), list[int]()
    for queue, task, kind, message, release, number, first, last in (
        ("mail", "Newsletter", "SMTPRecipientsRefused", REFUSED, "v2.4.1", 90, 42, 1),
        ("mail", "Receipt", "Timeout", "smtp-3 did not answer in 30 s", "v2.4.0", 21, 410, 38),
        ("exports", None, "ValueError", "no column 'tax' in sheet 7", "v2.4.0", 12, 1_600, 95),
        ("reminders", "SendReminder", "lost", "", "v2.4.0", 4, 200, 160),
    ):
        groups = ErrorGroups(by=group_by("error,task,release"))
        error = None if kind == "lost" else Failure(kind, message)
        payload = json.dumps({"args": [{"release": release}]} if task else {"release": release})
        ages = [first - (first - last) * n // (number - 1) for n in range(number)]
        entries = [
            Entry(
                f"e{n}",
                "dead",
                since_ms=NOW - age * MINUTE,
                payload=payload.encode(),
                reason="failed" if error else "lost",
                error=error,
                task=task,
            )
            for n, age in enumerate(ages)
        ]
        groups.add(entries, queue)
        died += [NOW - age * MINUTE for age in ages]
        found += groups.ranked()
    found = [replace(one, exact=one.queue != "mail") for one in found]
    step, deaths = death_bars(died, NOW, bars)
    earlier, unread = len(died) - sum(deaths), {"billing": "WRONGTYPE"}
    return DeadLetters(tuple(found), 0, 127, 1_277, True, 3, 1, unread, step, deaths, earlier)


def report() -> ConsumerReport:
    """Who holds `pending()`; two workers are silent."""
    held = tuple(
        PendingDelivery(
            row.id,
            row.consumer,
            NOW - (row.since_ms or NOW),
            row.failures + row.lost + 1,
            NOW - (row.at_ms or NOW),
        )
        for row in sorted(pending(), key=lambda row: row.since_ms or 0)
    )
    silent = {CONSUMERS[3]: 20 * MINUTE, CONSUMERS[5]: 3 * DAY}
    seen = []
    for name in sorted(CONSUMERS, key=lambda name: -silent.get(name, 0)):
        own = [row for row in held if row.consumer == name]
        idle = silent.get(name) or min((row.age_ms or 0 for row in own), default=2 * SECOND)
        seen.append(
            ConsumerStatus(
                name,
                len(own),
                idle,
                own[0].age_ms if own else None,
                sum((row.late_ms or 0) > 0 for row in own),
                silent.get(name),
            )
        )
    heat = [[0] * 5 for _ in DELIVERIES]
    for row in held:
        column = sum((row.age_ms or 0) >= age for age in AGES_MS)
        heat[sum((row.deliveries or 0) >= least for least in DELIVERIES) - 1][column] += 1
    retried = Counter(row.id.partition("/")[0] for row in waiting(0, 1_204) if row.failures)
    loads = tuple(
        GroupLoad(one.id, one.pending, one.waiting - retried[one.id], one.delayed + retried[one.id])
        for one in sorted(requests(), key=lambda one: -one.waiting)
        if one.waiting
    )
    errors = {row.id: row.error for row in pending() if row.error is not None}
    poison = tuple(row for row in held if (row.deliveries or 0) >= POISON)
    return ConsumerReport(
        "mail", None, loads, tuple(seen), tuple(map(tuple, heat)), poison, 24, 24, held, errors
    )


def explanation(address: str) -> Explanation:
    queue, _, id = address.partition("/")
    command = f"redisq replay {address}"
    row = next((row for row in dead(0, 500) if row.id == id), dead(1, 2)[0])
    ago = NOW - (row.since_ms or NOW)
    error, group = row.error or ERRORS[0], fingerprint(row)
    alike = sum(one.error is error for one in dead(0, 200))
    facts = {
        "reason": "failed",
        "since_ms": row.since_ms,
        "failures": 20,
        "lost": 0,
        "error": {"type": error.type, "message": error.message},
        "group": group,
        "alike": alike,
        "scanned": 200,
        "dead": 1_240,
    }
    first = Reason(
        "dead",
        f"dead since {datetime.fromtimestamp((NOW - ago) // SECOND, UTC)} ({ago // SECOND}s ago) "
        f"because it failed 20 times: {error.line}; {alike} with this error (group {group}) among "
        "200 of 1,240 dead entries",
        "replay",
        command,
        facts=facts,
    )
    touched = Reason(
        "touched",
        "last changed by an operator: replay by kim@ops-1 9h 02m ago because "
        "'smtp-3 restarted' (op replay-3c9e01aa77)",
        facts={"op": "replay-3c9e01aa77", "started_ms": NOW - 542 * MINUTE},
    )
    return Explanation(
        address, queue, "request", id or None, "entry", "dead", NOW, first, (touched,)
    )


def operations() -> list[Operation]:
    rows = [
        ("replay-8a41c09be2", "replay", 1 / 3, "kim", "smtp-3 is back", "error~smtp", 1_204, 0, 0),
        (
            "purge-1f2e3d4c5b",
            "purge",
            41,
            "ada",
            "bounced for good",
            "where group=57364113",
            12,
            0,
            0,
        ),
        ("edit-0badcafe00", "edit", 64, "kim", "", "newsletter-3126/4471", 1, 0, 0),
        ("pause-77aa88bb99", "pause", 130, "cron", "disk full on db-3", "paused = 1", 0, 1, 1),
        ("replay-3c9e01aa77", "replay", 542, "kim", "smtp-3 restarted", "error~smtp", 88, 0, 0),
        ("purge-5566778899", "hard", 1_500, "ada", "legal request 88", "all", 20_411, 0, 0),
    ]
    return [
        Operation(
            id,
            "mail",
            verb,
            NOW - int(ago * MINUTE),
            who,
            "ops-1",
            why,
            what,
            "" if verb == "pause" else "dead",
            {"hard": "gone", "pause": ""}.get(verb, "waiting"),
            done,
            done,
            -(-done // BATCH),
            undone,
            "",
            True,
            tried,
        )
        for id, verb, ago, who, why, what, done, undone, tried in rows
    ]


def day() -> tuple[list[int], list[int], list[int]]:
    """(in, out, failed) of each minute of a day in which failures rose and fell; for a quarter of
    an hour less was done than came in, and after it more."""
    chance = random.Random(7)
    came, gone, failed = [], [], []
    for ago in range(1440, 0, -1):
        bad = 0.8 if 200 < ago < 330 or 3 < ago < 22 else 0.01
        came.append(round(900 * (1.2 + math.sin(ago / 230)) * chance.uniform(0.8, 1.2)))
        failed.append(round(came[-1] * bad * chance.uniform(0.6, 1)))
        gone.append(came[-1] - failed[-1] - grown(ago))
    return came, gone, failed


def grown(ago: int) -> int:
    """How many more entries wait after a minute than before it."""
    return 600 if 40 < ago <= 55 else -600 if 25 < ago <= 40 else 0


def chart_data(
    scope: ChartScope, latest: Rates | None, changed: Sequence[Operation] = ()
) -> ChartData:
    """Rates of `day`, and the changes in it; ``latest``: of its last two minutes."""
    came, gone, failed = day()
    last = slice(-scope.minutes, None)
    of = 17 if scope.all_queues else 1
    found = Rates(tuple(came[last]), tuple(gone[last]), tuple(failed[last]))
    if latest is not None:
        found = found.continued(latest, 0)
    return ChartData(scope, found, tuple(changed), of, of)


async def watched(app: Top, source: "Seeded") -> None:
    """The dashboard has seen the queue for three hours, and its last minute twice a second."""
    chance, samples = random.Random(5), app.charts.samples
    steps = []
    for at in range(NOW - MINUTE, NOW, SECOND // 2):
        replayed = NOW - at < 20 * SECOND
        came = chance.randint(40, 60) if replayed else chance.randint(7, 11)
        gone = chance.randint(28, 42) if replayed else chance.randint(7, 10)
        steps.append((at, came, gone, chance.choice((0, 0, 1))))
    waiting = 1_204 - sum(came - gone - failed for _, came, gone, failed in steps)
    for ago in range(180, 1, -1):
        total = waiting + sum(map(grown, range(ago, 200)))
        at = NOW - ago * MINUTE
        counts = Counts(total, 24, 88, 1_240, 12, 0, at - 28 * SECOND - 50 * (total - waiting))
        samples.record(Snapshot(Viewport("charts", "mail"), at, counts=counts))
    counters = Counter[tuple[int, str]]()
    for at, *moved in steps:
        minute, parts = at // MINUTE, ("in", "out", "failed")
        counters.update({(minute, part): n for part, n in zip(parts, moved, strict=True)})
        waiting += moved[0] - moved[1] - moved[2]
        arrays = [(counters[minute - 1, part], counters[minute, part]) for part in parts]
        source.latest = Rates(*arrays)
        data = ChartData(ChartScope(), source.latest)
        oldest = min(at - 28 * SECOND, NOW - 48 * SECOND)
        counts = Counts(waiting, 24, 88, 1_240, 12, 0, oldest)
        samples.record(Snapshot(Viewport("charts", "mail"), at, counts=counts, charts=data))


def periodic() -> tuple[PeriodicStatus, ...]:
    def status(
        name: str,
        cron: str,
        next_ms: int | None,
        ran_ms: int | None,
        *,
        state: State | None = None,
        missed: int = 0,
        zone: str = "UTC",
    ) -> PeriodicStatus:
        run = None if ran_ms is None else run_id(name, ran_ms)
        spec = Periodic(name, cron, b"", zone)
        entry = ScheduledPeriodic(name, spec, next_ms, run, paused=next_ms is None)
        return PeriodicStatus(entry, state, missed, missed > 0)

    corrupt = ScheduledPeriodic("poll", None, None, None, problem="its definition is corrupt")
    return (
        status("digest", "*/5 * * * *", NOW + 135 * SECOND, NOW - 165 * SECOND),
        status(
            "invoice-run",
            "0 6 * * mon-fri",
            NOW + 49 * HOUR + 47 * MINUTE + 15 * SECOND,
            NOW - 22 * HOUR - 12 * MINUTE - 45 * SECOND,
            state="dead",
            zone="Europe/Berlin",
        ),
        status(
            "clean-up",
            "30 2 * * *",
            NOW - 2_565 * SECOND,
            NOW - DAY - 2_565 * SECOND,
            state="pending",
            missed=1,
        ),
        status("yearly-report", "0 0 1 1 *", None, None, zone="America/New_York"),
        PeriodicStatus(corrupt, None, 0, False),
    )


def clients() -> tuple[Client, ...]:
    found = [
        Client("acme", 41_210, 0, 1, True, None),
        Client("birch-hotels", 812, 4, 1, False, 4),
        Client("cobalt", 96, 2, 4, False, None),
        Client("delta-air", 5_004, 8, 1, False, 8),
        Client("eastwood", 3, 1, 1, False, None),
        Client("fjord", 0, 0, 2, False, 16),
        Client("gamma-labs", 17, 1, 1, False, None),
        Client("hilltop", 0, 2, 1, False, None),
    ]
    return tuple(found)


def client(name: str) -> ClientDetails:
    known = next(one for one in clients() if one.client == name)
    late = Failure("TimeoutError", "no answer from warehouse-2 after 30 s")
    first = tuple(
        Entry(
            f"export-{8_800 + at}",
            "waiting",
            None,
            NOW - 9 * MINUTE if at == 1 else None,
            failures=2 if at == 1 else 0,
            error=late if at == 1 else None,
            client=name,
        )
        for at in range(min(5, known.waiting))
    )
    held = tuple(
        Entry(
            f"export-{8_700 + at}",
            "pending",
            NOW + (6 * at + 3) * SECOND,
            NOW - (27 - 6 * at) * SECOND,
            consumer=f"export-{at % 2 + 1}:{2001 + at}",
            client=name,
        )
        for at in range(min(4, known.pending))
    )
    capped = operations()[3]
    verb = {"acme": "block", "birch-hotels": "cap"}.get(name)
    what = f"client {name}" + (f" to {known.cap}" if known.cap else "")
    rule = replace(
        capped,
        id="x",
        verb=verb or "",
        what=what,
        who="kim",
        undone=0,
        tried=0,
        why="floods the export service",
        started_ms=NOW - 52 * MINUTE,
    )
    return ClientDetails(known, first, held, (rule,) if verb else ())


def processes() -> tuple[Process, ...]:
    found = []
    for at, status in enumerate(sorted(report().consumers, key=lambda status: status.name)):
        host, _, pid = status.name.partition(":")
        work = tuple(
            RunningJob(row.id, "mail", b"", row.since_ms or 0)
            for row in pending()
            if row.consumer == status.name
        )
        silent = status.silent_ms or 2 * SECOND + at * 300
        found.append(
            Process(
                status.name,
                host,
                int(pid),
                ("mail", "digests") if at < 3 else ("mail",),
                NOW - (at + 2) * 14 * HOUR,
                silent,
                status.silent_ms is None,
                work,
                quiet=at == 2,
            )
        )
    return tuple(found)


def queue_settings() -> tuple[QueueSetting, ...]:
    chosen = {"history_max": "250000", "max_waiting": "50000"}
    return tuple(
        QueueSetting(name, chosen.get(name, str(value)), name not in chosen)
        for name, value in asdict(DEFAULTS).items()
    )


@dataclass(frozen=True)
class Unsolved:
    """A step of an incident that nobody solves."""

    problem: str
    queue: str
    view: View
    press: str

    async def done(self, deployment: Deployment) -> bool:
        return False


def nothing(bare: Snapshot) -> Snapshot:
    """What there is to see where nothing is."""
    viewport = bare.viewport
    if viewport.view == "overview":
        return replace(bare, queues=())
    return replace(
        bare,
        counts=Counts(0, 0, 0, 0, 0, 0),
        settings=queue_settings(),
        reports=(ConsumerReport("mail", None, (), (), ((0,) * 5,) * 5, (), 0, 0),),
        upcoming=Upcoming(5 * MINUTE, (0,) * viewport.buckets, 0),
        charts=ChartData(viewport.charts, Rates((0,) * 60, (0,) * 60, (0,) * 60), (), 1, 1),
    )


class Seeded:
    """A server that stands still; ``broken`` makes it fail from then on."""

    warning: str | None = None

    def __init__(self) -> None:
        self.latest: Rates | None = None
        self.connected: Connected | None = Connected(
            "redis://queue-1.example.net:6379/0", Deployment()
        )
        self.broken: Exception | None = None
        self.empty = False
        """whether its queues have no entries, and it has no queues in the overview"""
        self.operations = operations()
        self.payload: bytes | None = None
        """of every entry that is read in full, instead of its own"""

    async def look(self, viewport: Viewport) -> Snapshot:
        if self.broken is not None:
            raise self.broken
        bare = Snapshot(viewport, NOW, listed())
        if viewport.explain is not None:
            bare = replace(bare, explanation=explanation(str(viewport.explain)))
        if self.empty:
            return nothing(bare)
        if viewport.view == "overview":
            worst = all_dead(60).groups[:3]
            return replace(bare, overview=tuple(map(self._row, overview())), worst=worst)
        if viewport.view == "dead-all":
            return replace(bare, dead=all_dead(viewport.buckets))
        if bare.queue is None:
            return replace(bare, problem=f"no queue {viewport.queue!r} here")
        row = next(row for row in overview() if row.name == viewport.queue)
        bare = replace(bare, counts=row.counts)
        if viewport.detail is not None:
            if viewport.view == "clients":
                bare = replace(bare, client=client(viewport.detail))
            elif viewport.view == "requests":
                bare = replace(bare, request=request(viewport.detail))
            else:
                details = self.entry(viewport.detail)
                if viewport.view == "trash":
                    purged = next(row for row in trash() if row.id == viewport.detail)
                    purged = replace(purged, payload=details.entry.payload)
                    details = replace(details, entry=purged, history=entry_history(purged))
                bare = replace(bare, entry=details)
        match viewport.view:
            case "levels" if row.kind == "request":
                return replace(bare, levels=levels(), requests=requests()[:18], open=18)
            case "requests" if row.kind == "request":
                return replace(bare, requests=requests(), total=24, open=18)
            case "pending":
                return replace(bare, entries=pending(), total=24)
            case "periodic":
                return replace(bare, periodic=periodic())
            case "log":
                return replace(bare, operations=tuple(self.operations))
            case "charts":
                data = chart_data(viewport.charts, self.latest, self.operations)
                changes = data.operations if viewport.queue == "mail" else ()
                return replace(bare, charts=replace(data, operations=changes))
            case "clients":
                return replace(bare, clients=clients(), total=len(clients()))
            case "processes":
                return replace(bare, processes=processes())
            case "settings":
                return replace(bare, settings=queue_settings())
            case "waiting":
                found = waiting(viewport.start, viewport.end)
                return replace(bare, start=viewport.start, total=1_204, entries=found)
            case "trash":
                found = trash()
                return replace(bare, total=len(found), entries=found)
            case "dead":
                found = dead(viewport.start, viewport.end)
                return replace(bare, start=viewport.start, total=1_240, entries=found)
            case "groups":
                return replace(bare, groups=groups(), looked=500, total=1_240)
            case "consumers":
                return replace(bare, reports=(report(),))
            case "delayed":
                found = delayed(viewport.start, viewport.end)
                return replace(
                    bare,
                    start=viewport.start,
                    total=42_118,
                    entries=found,
                    upcoming=upcoming(viewport.buckets),
                )
        return bare

    def _row(self, row: QueueRow) -> QueueRow:
        """A row of the overview, with the rates that the charts have seen."""
        if row.name != "mail" or row.rates is None or self.latest is None:
            return row
        return replace(row, rates=row.rates.continued(self.latest, 0))

    def entry(self, id: str) -> EntryDetails:
        details = entry(id)
        if self.payload is None:
            return details
        return replace(details, entry=replace(details.entry, payload=self.payload))

    async def close(self) -> None:
        pass


# --- drawing and comparing -------------------------------------------------------------------

Action = Callable[[Top, Seeded], Awaitable[None]]
Step = str | tuple[int, int] | Action
"""a key, a new size of the terminal, or anything else"""


def at(queue: str) -> Action:
    """The cursor on a queue of the overview."""

    async def step(app: Top, source: Seeded) -> None:
        app.current.table.go_to(queue)
        if app.current.snapshot is not None:
            app.current.show(app.current.snapshot)

    return step


MAIL, REMINDERS = (at("mail"),), (at("reminders"),)


class Clock:
    """A monotonic clock that a step moves."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


async def in_dashboard(
    body: Callable[[Top, Seeded, Pilot[Exception]], Awaitable[Any]],
    size: tuple[int, int],
    theme: str = "dark",
    source: Seeded | None = None,
    **options: Any,
) -> Any:
    source = source or Seeded()
    host = Host(completions, contexts=lambda: [Completion("prod"), Completion("staging")])
    settings = DashboardSettings(theme, filters={"1": "error~timeout age>2h", "2": "lost>1"})
    app = Top(source, interval=3600, clock=Clock(), host=host, settings=settings, **options)
    async with app.run_test(size=size) as pilot:
        await settled(app, pilot)
        return await body(app, source, pilot)


async def take(steps: Iterable[Step], app: Top, source: Seeded, pilot: Pilot[Exception]) -> None:
    for step in steps:
        if isinstance(step, str):
            await pilot.press(step)
        elif isinstance(step, tuple):
            await pilot.resize_terminal(*step)
        else:
            await step(app, source)
        await settled(app, pilot)


async def settled(app: Top, pilot: Pilot[Exception]) -> None:
    """Until the screen shows what it asked for."""
    await pilot.pause()
    app.poller.wake()
    while app.problem is None and (app.snapshot is None or not _seen(app)):
        await asyncio.sleep(0.005)
        await pilot.pause()
        app.poller.wake()  # a change of size may reach a view after the read
    await pilot.pause()
    app.say_status()  # of the columns as they are drawn
    await pilot.pause()


def _seen(app: Top) -> bool:
    """Whether the picture has all that is asked for now; an entry may be asked for only once."""
    seen, wanted = app.snapshot.viewport if app.snapshot else None, app.viewport()
    return seen is not None and seen == (
        wanted if wanted.detail else replace(wanted, detail=seen.detail)
    )


def prepared(
    verb: Verb, where: str, entries: list[Entry], weight: Consequences | None = None
) -> PreparedChange:
    request = ChangeRequest(verb, RequestQueue(None, "mail"), "dead", Filter(where=parse(where)))
    chosen = Selection(request.queue, "dead", request.filter, NOW)
    chosen.add(entries)
    impact = None if weight is None else weight.facts(verb)
    return PreparedChange(request, chosen, preview(chosen, verb, impact=impact))


async def confirm(app: Top, source: Seeded) -> None:
    entries = list(dead(0, 1_240))
    asked = question(prepared("purge", "age<1d", entries), DAY)
    app.push_screen(Confirm(asked))  # type: ignore[unused-awaitable]


async def weighed(app: Top, source: Seeded) -> None:
    """A dialog with all that can be in one."""
    entries = list(dead(0, 1_240))
    entries[:50] = [replace(entry, payload=b"x" * 212) for entry in entries[:50]]
    queue = RequestQueue(None, "mail")
    weight = Consequences(queue, NOW)
    weight._priorities = {one.id: str(one.priority) for one in requests()}
    await weight.add(entries)
    weight.waiting, weight.settled_a_minute = 1_204, 1_080.0
    asked = question(prepared("replay", "age<1d", entries, weight), DAY)
    asked = replace(asked, typed="1240 prod", why=True)
    app.push_screen(Confirm(asked))  # type: ignore[unused-awaitable]


GROUP = [entry for entry in dead(0, 500) if entry.error is ERRORS[1]]
"""the dead letters that the tour replays"""


async def group_replay(app: Top, source: Seeded) -> None:
    """The dialog for all that the list of a group shows."""
    weight = Consequences(RequestQueue(None, "mail"), NOW)
    weight.waiting, weight.settled_a_minute = 1_204, 1_080.0
    assert app.current.filter is not None
    asked = question(prepared("replay", app.current.filter.text, GROUP, weight), DAY)
    app.push_screen(Confirm(replace(asked, why=True)))  # type: ignore[unused-awaitable]


async def group_replayed(app: Top, source: Seeded) -> None:
    assert app.current.filter is not None
    done = replace(
        source.operations[0],
        why="smtp-3 is back",
        matched=len(GROUP),
        done=len(GROUP),
        what=f"where {app.current.filter.text}",
    )
    source.operations[0] = done


async def group_undo(app: Top, source: Seeded) -> None:
    app.push_screen(UndoScreen(source.operations, NOW, source.operations[0].id))  # type: ignore[unused-awaitable]


async def past(app: Top, source: Seeded) -> None:
    app.push_screen(UndoScreen(operations(), NOW, "replay-8a41c09be2"))  # type: ignore[unused-awaitable]


def in_theme(name: str) -> Action:
    async def step(app: Top, source: Seeded) -> None:
        app.theme = name

    return step


async def closed(app: Top, source: Seeded) -> None:
    """Without the dialog that a step has opened."""
    app.pop_screen()  # type: ignore[unused-awaitable]


async def edits(app: Top, source: Seeded) -> None:
    before = '{"to": "ada@example.org", "region": "us", "try": 3}'
    sample = Sample("newsletter-3127/4003", tuple(diff(before, before.replace('"us"', '"eu"'))))
    chosen = Selection(RequestQueue(None, "mail"), "dead", Filter(ids=(sample.id,)), NOW)
    chosen.count = 1
    asked = edit_question(edit_preview(chosen, Counter({CHANGES: 1}), [sample]), [sample])
    app.push_screen(Confirm(replace(asked, why=True)))  # type: ignore[unused-awaitable]


async def json_payload(app: Top, source: Seeded) -> None:
    """Payloads with something to fold, and with what must not reach the terminal."""
    document = {
        "to": "ada@example.org",
        "subject": f"[red]Hi[/red] {OSC_52}",
        "region": "eu",
        "order": {
            "id": 9_007_199_254_740_993,
            "total": 129.9,
            "currency": "EUR",
            "paid": True,
            "lines": [{"sku": f"A-{n}", "quantity": n % 3 + 1, "price": 4.5} for n in range(240)],
        },
        "customer": {"name": "Ada Lovelace", "locale": "שלום", "vip": False, "phone": None},
        "attempt_ids": list(range(12)),
        "body": "Dear Ada,\nyour order is on its way.\n\nKind regards\nthe shop",
    }
    source.payload = json.dumps(document, ensure_ascii=False).encode()


async def binary_payload(app: Top, source: Seeded) -> None:
    source.payload = b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 40


async def freezes(app: Top, source: Seeded) -> None:
    app.action_freeze()


async def forbidden(app: Top, source: Seeded) -> None:
    app.snapshot = app.seen_at = None
    source.broken = Forbidden("the user 'eve' may not run HGETALL: add +hgetall to its ACL rule")
    await failed(app)


async def failed(app: Top) -> None:
    """Look again, until that has failed."""
    app.poller.wake()
    while app.problem is None:
        await asyncio.sleep(0.005)


async def breaks(app: Top, source: Seeded) -> None:
    source.broken = ConnectionError("can't reach the server: connection refused")
    await failed(app)
    assert isinstance(app.clock, Clock)
    app.clock.now += 12
    app.tick()


Story = tuple[tuple[int, int], Mapping[str, Sequence[Step]]]
"""a size, and the pictures drawn in one dashboard: what is done for each after the one before"""
STORIES: dict[str, Story] = {
    "overview": (
        (60, 24),
        {
            "narrow": (),
            "wide": ((160, 45), *MAIL, watched),
            "widest": ((220, 45),),
            "trouble": ((120, 34), "exclamation_mark", *MAIL),
            "help": ("exclamation_mark", "question_mark"),
        },
    ),
    "requests": (
        (120, 34),
        {
            "request": (*MAIL, "3", "j", "enter"),
            "beside": ("escape", (160, 45)),
            "sorted": ((120, 34), "k", "s", "s", "s", "s"),
        },
    ),
    "dead": (
        (120, 34),
        {
            "plain": (*MAIL, "5"),
            "filter": ("slash", *"Timeout"),
            "saved filters": ("escape", "k", "apostrophe"),
            "completion": ("escape", "colon", *"dlq replay mail --ma", "tab"),
            "confirm": ("escape", confirm),
            "edit": (closed, edits),
            "undo": (closed, past),
            "consequences": (closed, weighed),
            "consequences in ANSI colours": (in_theme("ansi"),),
            "binary": (in_theme("dark"), closed, binary_payload, "p", "j"),
            "frozen": ("p", "k", freezes),
            "stale": (freezes, breaks),
        },
    ),
    "entry": (
        (120, 34),
        {
            "entry": (*MAIL, "5", "j", "enter"),
            "explain": ("escape", "t"),
            "explain beside": ((160, 45),),
            "explain small": ((80, 24),),
        },
    ),
    "preview-below": (
        (120, 34),
        {
            "wide": (*MAIL, "5", json_payload, "p", "j"),
            "small": ((80, 24),),
        },
    ),
    "preview-beside": (
        (160, 45),
        {"search": (*MAIL, "5", json_payload, "p", "enter", "slash", *"a-1", "enter", "n", "n")},
    ),
    "charts": (
        (160, 45),
        {"wide": (*MAIL, watched, "v"), "hour": ((120, 34), "minus")},
    ),
    "groups": ((120, 34), {"back": (*MAIL, "7", "enter", "l")}),
    "small": (
        (80, 24),
        {
            "completion": (*MAIL, "colon", *"re"),
            "help": ("escape", "question_mark"),
            "unoffered": ("escape", *REMINDERS, "3"),
            "consequences small": ("escape", *MAIL, "5", weighed),
            "undo": (closed, past),
            "forbidden": (closed, "escape", forbidden),
        },
    ),
}
"""by the file of their frames"""


# In each view: the queue it is of, and the keys pressed there.
VIEWS: dict[View, tuple[str | None, tuple[str, ...]]] = {
    "overview": (None, ()),
    "dead-all": (None, ()),
    "levels": ("mail", ()),
    "requests": ("mail", ("j",)),
    "pending": ("mail", ("j",)),
    "dead": ("mail", ("j", "space", "j", "j", "space", "j")),
    "delayed": ("reminders", ()),
    "groups": ("mail", ("j", "space")),
    "consumers": ("mail", ("j",)),
    "waiting": ("mail", ()),
    "trash": ("mail", ()),
    "clients": ("exports", ("j",)),
    "processes": ("mail", ("j",)),
    "log": ("mail", ("j",)),
    "settings": ("mail", ()),
    "periodic": ("reminders", ("j",)),
    "charts": ("mail", ()),
}


async def each_view(app: Top, source: Seeded, pilot: Pilot[Exception]) -> AsyncIterator[View]:
    """The views, one after the other in one dashboard, whose start costs more than a picture."""
    for view, (queue, keys) in VIEWS.items():
        app.navigation.show_view("overview")
        app.navigation = Navigation(app)  # as if this was the first view that was opened
        app.navigation.choose(queue)
        app.navigation.show_view(view)
        await settled(app, pilot)
        for key in keys:
            await pilot.press(key)
        await settled(app, pilot)
        yield view


def test_all_views_look_as_they_did() -> None:
    """Also where the server can't be reached any more."""
    drawn = Pictures("error")

    async def body(app: Top, source: Seeded, pilot: Pilot[Exception]) -> None:
        await watched(app, source)
        async for view in each_view(app, source, pilot):
            drawn.svg(view, app)
            base = view, lines(app)
            await breaks(app, source)
            await settled(app, pilot)
            drawn.frame(view, app, base)
            source.broken = app.problem = None

    asyncio.run(in_dashboard(body, (120, 34)))
    drawn.check()


@pytest.mark.parametrize(("name", "size"), [("empty", (120, 34)), ("80x24", (80, 24))])
def test_all_views_look_as_they_did_empty_and_small(name: str, size: tuple[int, int]) -> None:
    drawn = Pictures(name)

    async def body(app: Top, source: Seeded, pilot: Pilot[Exception]) -> None:
        source.empty = name == "empty"
        if source.empty:
            app.charts.samples = Samples()
        else:
            await watched(app, source)
        async for view in each_view(app, source, pilot):
            drawn.frame(view, app)

    asyncio.run(in_dashboard(body, size))
    drawn.check()


def test_in_all_themes_the_words_are_the_same_and_the_colours_as_they_were() -> None:
    drawn, colours = Pictures(), Colours(tuple(THEMES))

    async def compare(app: Top, name: str, pilot: Pilot[Exception], themes: Sequence[str]) -> None:
        looks = {}
        for theme in themes:
            app.theme = theme
            await pilot.pause()
            looks[theme] = styled_rows(app)
            if f"{name}-{theme}" in SVG:
                drawn.svg(f"{name}-{theme}", app)
        app.theme = "dark"
        colours.add(name, looks)

    async def body(app: Top, source: Seeded, pilot: Pilot[Exception]) -> None:
        await watched(app, source)
        async for view in each_view(app, source, pilot):
            await compare(app, view, pilot, tuple(THEMES))
        await weighed(app, source)
        # In ANSI colours the buttons have no borders: that picture is a frame.
        await compare(app, "consequences", pilot, ("dark", "light", "high-contrast"))

    asyncio.run(in_dashboard(body, (120, 34)))
    drawn.table(KEPT / "colours.txt", str(colours))
    drawn.check()


TOUR: dict[str, tuple[Step, ...]] = {
    "tour-1-trouble": (at("mail"),),
    "tour-2-groups": ("7", "j", "j", json_payload, "p"),
    "tour-3-preview": ("enter",),
    "tour-4-replay": ("A", group_replay),
    "tour-5-charts": ("n", "p", group_replayed, watched, "v"),
    "tour-6-undo": (group_undo,),
}
"""the README's pictures"""
PREVIEW: Story = (
    (160, 45),
    {"preview-160x45": (*MAIL, "5", json_payload, "p", "j", "enter", "j", "j", "j")},
)
READ_ONLY: Story = ((120, 34), {"read-only": (*MAIL, "5")})
GUIDE: Story = ((160, 45), {"all queues": (*MAIL, watched), "a queue": ((80, 24), "7")})
SVG = {
    *VIEWS,
    *TOUR,
    *("explain", "preview-160x45", "consequences", "readme/programs"),
    *("overview-light", "overview-ansi", "overview-high-contrast"),
}
"""the pictures that are kept as SVG"""


def told(file: str, story: Story, **options: Any) -> None:
    """Draw a story's pictures, and compare them with what is kept."""
    drawn = Pictures(file)
    size, parts = story

    async def body(app: Top, source: Seeded, pilot: Pilot[Exception]) -> None:
        for name, steps in parts.items():
            await take(steps, app, source, pilot)
            (drawn.svg if name in SVG else drawn.frame)(name, app)

    asyncio.run(in_dashboard(body, size, **options))
    drawn.check()


def test_the_tour_in_the_readme_is_as_it_was() -> None:
    told("tour", ((108, 24), TOUR))


@pytest.mark.parametrize("file", STORIES)
def test_pictures_are_as_they_were(file: str) -> None:
    told(file, STORIES[file])


def test_the_preview_in_the_manual_is_as_it_was() -> None:
    told("preview", PREVIEW)


def test_read_only_greys_the_changes_out() -> None:
    told("read-only", READ_ONLY, read_only=True)


def test_the_guide_is_above_the_view() -> None:
    steps = [
        Unsolved("mail fails since a deploy", "mail", "groups", "P to replay"),
        Unsolved("geo-import waits", "geo-import", "consumers", "R"),
    ]
    told("guide", GUIDE, guide=[[step] for step in steps])


def test_every_kept_picture_belongs_to_a_test() -> None:
    frames = {*STORIES, "error", "empty", "80x24", "read-only", "guide"}
    svg = {str(path.relative_to(KEPT).with_suffix("")) for path in KEPT.rglob("*.svg")}
    assert svg == SVG
    assert {path.stem for path in KEPT.glob("frames/*")} == frames

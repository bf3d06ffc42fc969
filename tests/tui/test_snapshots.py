"""Pictures of every view, drawn from seeded snapshots at a fixed size and clock.

They are compared with those in `snapshots/`; `make pictures` draws them again.
"""

import asyncio
import json
import math
import os
import random
import re
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import resvg_py
from textual.pilot import Pilot

from redisq_ops.cli.dashboard_completion import completions
from redisq_ops.core.engine.optional_features import features
from redisq_ops.core.engine.queue_base import QueueBase
from redisq_ops.core.model.activity import Activity
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
    State,
)
from redisq_ops.core.model.errors import Forbidden
from redisq_ops.core.model.rates import Rates
from redisq_ops.core.model.settings import DEFAULTS
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
from redisq_ops.ops.explain.blocking_reasons import Reason
from redisq_ops.ops.explain.explanation import Explanation
from redisq_ops.ops.filter.filter import Filter
from redisq_ops.ops.filter.parser import parse
from redisq_ops.ops.filter.selection import Selection
from redisq_ops.ops.groups.error_groups import ErrorGroup, ErrorGroups
from redisq_ops.ops.inspect.client_details import ClientDetails
from redisq_ops.ops.inspect.consumers import ConsumerReport, ConsumerStatus
from redisq_ops.ops.inspect.details import EntryDetails, PendingEntry, RequestDetails
from redisq_ops.ops.inspect.history import EntryHistory
from redisq_ops.ops.inspect.overview import Evidence, QueueRow
from redisq_ops.ops.inspect.periodic import PeriodicStatus
from redisq_ops.ops.inspect.snapshot import (
    ChartData,
    ChartScope,
    ListedQueue,
    Snapshot,
    Upcoming,
    View,
    Viewport,
)
from redisq_ops.tui.app import Top
from redisq_ops.tui.confirm_dialog import Confirm
from redisq_ops.tui.dashboard_settings import DashboardSettings
from redisq_ops.tui.host import Completion, Host
from redisq_ops.tui.navigation import Navigation
from redisq_ops.tui.poller import Connected
from redisq_ops.tui.run_change import edit_question, question
from redisq_ops.tui.samples import Samples
from redisq_ops.tui.undo_screen import UndoScreen

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
PICTURES = ROOT / "snapshots"
REDRAW = os.environ.get("REDISQ_PICTURES") == "redraw"
NOW = 1_773_457_965_000  # 2026-03-14 03:12:45 UTC
SECOND, MINUTE, HOUR, DAY = 1000, 60_000, 3_600_000, 86_400_000
FEATURES = {
    "request": features(RequestQueue), "delay": features(DelaySet), "fair": features(FairQueue)
}  # fmt: skip
OSC_52 = "\x1b]52;c;cm0gLXJmIC8=\x07"

KINDS = {
    "audit-log": "request", "billing": "request", "crm-sync": "request", "exports": "fair",
    "fraud-check": "request", "geo-import": "request", "image-thumbnails": "request",
    "invoices": "request", "mail": "request", "nightly-reports": "request",
    "pdf-render": "request", "push-devices": "delay", "reminders": "delay",
    "search-index": "request", "transcode-hd": "request", "trial-expiry": "delay",
    "webhooks": "delay",
}  # fmt: skip


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


def overview() -> tuple[QueueRow, ...]:
    counts = {
        "exports": (Counts(sum(one.waiting for one in clients()), 18, 4, 9, 0, 88_310),
                    rates(30)),
        "billing": (Counts(37, 12, 4, 0, 0, 918_223, NOW - 41 * SECOND), rates(420)),
        "geo-import": (Counts(2_210, 0, 0, 4, 0, 9_120, NOW - 14 * MINUTE), rates(40)),
        "image-thumbnails": (Counts(184_220, 64, 911, 37, 0, 5_204_113, NOW - 26 * MINUTE),
                             rates(5_200, 3)),
        "mail": (Counts(1_204, 24, 88, 1_240, 12, 44_210_000, NOW - 3 * MINUTE), rates(900, 41)),
        "nightly-reports": (Counts(12, 0, 0, 0, 0, 4_410, NOW - 5 * HOUR, "disk full on db-3"),
                            rates(0)),
        "reminders": (Counts(0, 3, 42_118, 2, 0, 88_120), rates(61)),
        "search-index": (Counts(0, 0, 0, 0, 0, 120, None, None, "by kim"), rates(0)),
        "webhooks": (Counts(310, 40, 6_021, 411, 0, 1_420_008, NOW - 88 * SECOND), rates(310, 96)),
    }  # fmt: skip
    for number, name in enumerate(KINDS):
        chance = random.Random(number)
        waiting, busy = int(chance.paretovariate(0.5)), chance.randint(1, 40)
        usual = Counts(
            waiting, busy, chance.randint(0, 30), chance.choice([0, 0, 0, 1, 9]), 0, 10_000,
            NOW - chance.randint(1, 400) * SECOND,
        )  # fmt: skip
        counts.setdefault(name, (usual, rates(chance.randint(20, 2_000), chance.choice([0, 0, 2]))))
    lately = {
        "geo-import": Activity(NOW - 13 * MINUTE, 2, None, 0),
        "mail": Activity(NOW - SECOND, 24, NOW + SECOND, 211),
        "webhooks": Activity(NOW - SECOND, 8, NOW + SECOND, 2),
    }
    evidence = {
        "mail": Evidence(error="SMTPRecipientsRefused"),
        "nightly-reports": Evidence(paused_by="root"),
        "search-index": Evidence(closed_by="kim"),
    }
    return tuple(
        QueueRow(
            name, KINDS[name], *counts[name],
            activity=lately.get(name, Activity(NOW - SECOND, 3, NOW + SECOND, 0)),
            evidence=evidence.get(name),
        )
        for name in KINDS
    )  # fmt: skip


def requests(settled: int = 6) -> tuple[Request, ...]:
    chance = random.Random(7)
    rows = []
    for at in range(24):
        total = chance.choice([12, 400, 1_000, 25_000, 1_000_000])
        limit = chance.choice([2, 4, 8, 16])
        dead, delayed = chance.choice([0, 0, 3, 17]) if total > 12 else 0, 0
        done = int((total - 40) * chance.random()) if total > 12 else chance.randint(0, 9)
        if at >= 24 - settled:
            state, pending, waiting = chance.choice(["done", "done", "cancelled"]), 0, 0
            done, trash = total - dead, 0
            if state == "cancelled":
                done, trash = done // 2, total - dead - done // 2
        else:
            state, trash = chance.choice(["sealed", "sealed", "open"]), 0
            pending = chance.randint(0, min(limit, total - done))
            delayed = chance.choice([0, 0, 2])
            waiting = max(0, total - done - dead - pending - delayed)
        created = NOW - int(chance.expovariate(1 / HOUR)) - 24 * MINUTE + at * MINUTE
        rows.append(
            Request(
                f"{chance.choice(['import', 'newsletter', 'digest', 'invoice'])}-{3100 + at}",
                state,
                chance.choice([0, 10, 50, 50, 90]),
                limit,
                at == 5,
                total,
                waiting,
                pending,
                delayed,
                done,
                dead,
                trash,
                max(0, min(limit - pending, waiting)),
                created,
                created,
                None,
                0,
                0,
                "",
            )
        )
    opened = sorted(rows[: 24 - settled], key=lambda row: row.created_ms)
    return tuple(opened + rows[24 - settled :])


ERRORS = [
    Failure("SMTPRecipientsRefused", "550 5.1.1 <ada@example.org>: mailbox unavailable"),
    Failure("TimeoutError", "no answer from smtp-3 after 30 s"),
    Failure("TemplateError", "'[red]name[/red]' is undefined in welcome.html, line 12"),
    Failure("UnicodeEncodeError", f"surrogates not allowed: {OSC_52}"),
]


def dead(start: int, end: int, total: int = 1_240) -> tuple[Entry, ...]:
    rows = []
    for at in range(start, min(end, total)):
        chance = random.Random(at)
        since = NOW - at * 47 * SECOND - 9 * SECOND
        reason = chance.choice(["failed", "failed", "failed", "lost", "rejected"])
        error = None if reason == "lost" else chance.choice(ERRORS)
        rows.append(
            Entry(
                f"newsletter-{3127 - at // 40}/{4000 + at * 3}",
                "dead",
                since,
                since,
                failures=0 if reason == "lost" else 1 if reason == "rejected" else 20,
                lost=3 if reason == "lost" else 0,
                first_ms=since - chance.randint(1, 9) * HOUR,
                consumer=f"mail-{chance.randint(1, 4)}:{chance.randint(1000, 1009)}",
                reason=reason,
                error=error,
            )
        )
    return tuple(rows)


def pending() -> tuple[Entry, ...]:
    rows = []
    for at in range(24):
        chance = random.Random(100 + at)
        since = NOW - chance.randint(1, 29) * SECOND
        deadline = (
            NOW - 70 * SECOND + 11 * SECOND * at if at < 9 else NOW + chance.randint(18_000, 30_000)
        )
        if deadline < NOW:
            since = deadline - 30 * SECOND
        rows.append(
            Entry(
                f"newsletter-{3120 + at % 5}/{700 + at * 7}",
                "pending",
                deadline,
                since,
                failures=(failures := chance.choice([0, 0, 0, 2])),
                lost=1 if deadline < NOW else 0,
                first_ms=since,
                consumer=f"mail-{chance.randint(1, 4)}:{chance.randint(1000, 1009)}",
                error=ERRORS[1] if failures else None,
            )
        )
    return tuple(sorted(rows, key=lambda row: row.at_ms or 0))


def waiting(start: int, end: int) -> tuple[Entry, ...]:
    return tuple(
        Entry(f"newsletter-{3127 + at // 40}/{9_000 + at}", "waiting", None, NOW - 9 * MINUTE
              if at % 9 == 4 else None, failures=2 if at % 9 == 4 else 0,
              error=ERRORS[1] if at % 9 == 4 else None)
        for at in range(start, min(end, 1_204))
    )  # fmt: skip


def trash() -> tuple[Entry, ...]:
    return tuple(
        replace(
            entry,
            state="trash",
            at_ms=NOW - 41 * MINUTE,
            since_ms=NOW - 41 * MINUTE,
            op="purge-1f2e3d4c5b",
        )
        for entry in dead(0, 12)
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
    chance = random.Random(11)
    found = []
    for priority in range(100):
        if priority in (0, 10, 50, 90) or chance.random() < 0.2:
            tokens = int(10 ** (4 * chance.random() * chance.random())) + (priority == 50) * 3_400
            found.append(Level(priority, tokens, (f"import-{3100 + priority}", "digest-3107")))
    return tuple(found)


def entry_history(before: int = 0) -> EntryHistory:
    """Of an entry that died a minute ago, or ``before`` ms earlier."""
    events = (
        Event("3-0", NOW - 56 * SECOND, "mail-2:1004", {"dead": ("x|failed",)}),
        Event("2-0", NOW - 4 * MINUTE, "mail-1:1001", {"failed": ("x|mail-1:1001",)}),
        Event("1-0", NOW - 3 * HOUR, "mail-3:1009", {"lost": ("x|mail-3:1009",)}),
    )
    shown = tuple(replace(event, at_ms=event.at_ms - before) for event in events)
    return EntryHistory(shown, 1000, 88_120)


def entry(id: str) -> EntryDetails:
    row = next((row for row in dead(0, 500) if row.id == id), dead(1, 2)[0])
    error = row.error or ERRORS[0]
    traceback = (
        "Traceback (most recent call last):\n"
        '  File "/srv/mail/handler.py", line 88, in handle\n'
        "    smtp.send_message(message)\n"
        f"smtplib.{error.type}: {OSC_52}"
    )
    found = replace(
        row, id=id, receipt=None, error=replace(error, traceback=traceback),
        payload=b'{"to": "ada@example.org", "subject": "[red]Hi[/red]",\n "body": "\x1b[2J\xff'
        + OSC_52.encode() + b'"}',
    )  # fmt: skip
    return EntryDetails(RequestQueue(None, "mail"), NOW, found, None, entry_history())


def request(id: str) -> RequestDetails:
    rows = [replace(row, id=f"{id}/{row.id.rpartition('/')[2]}") for row in pending()[6:13]]
    rows.sort(key=lambda row: int(row.id.rpartition("/")[2]))
    held = tuple(PendingEntry(row, 4_000) for row in rows)
    has = sorted(Counter(row.consumer or "-" for row in rows).items())
    consumers = tuple(Consumer(name, n, (3 + 4 * k) * SECOND) for k, (name, n) in enumerate(has))
    record = replace(requests()[2], id=id, limit=8, pending=7, delayed=2, tokens=1)
    over = record.pending + record.delayed + record.done + record.dead + record.trash
    record = replace(record, waiting=record.total - over)
    return RequestDetails(
        RequestQueue(None, "mail"), NOW, record, "rq:{mail}:s:" + id, record.total - record.done,
        consumers, held, (), entry_history(),
    )  # fmt: skip


def groups() -> tuple[ErrorGroup, ...]:
    found = ErrorGroups()
    found.add(dead(0, 500))
    return tuple(found.ranked())


def report() -> ConsumerReport:
    seen = tuple(
        ConsumerStatus(f"mail-{at // 3 + 1}:{1001 + at}", pending, idle, old, late, silent)
        for at, (pending, idle, old, late, silent) in enumerate(
            [
                (2, 4_000, 29_000, 0, None), (4, 1_000, 12_000, 0, None), (0, 2_000, None, 0, None),
                (3, 21 * MINUTE, 22 * MINUTE, 3, 21 * MINUTE), (7, 400, 9_000, 0, None),
                (2, 3 * DAY, 3 * DAY, 2, 3 * DAY), (4, 8_000, 41_000, 1, None),
            ]
        )
    )  # fmt: skip
    heat = ((9, 1, 0, 0, 0), (4, 2, 0, 0, 0), (0, 1, 1, 0, 0), (0, 0, 2, 0, 0), (0, 0, 0, 0, 2))
    loads = tuple(
        GroupLoad(id, held, lag, again)
        for id, held, lag, again in [
            ("newsletter-3127", 12, 804, 2), ("digest-3121", 6, 122, 0), ("invoice-3125", 3, 41, 0),
            ("import-3109", 1, 0, 0), ("newsletter-3122", 0, 19, 0), ("digest-3130", 0, 2, 0),
        ]
    )  # fmt: skip
    poison = tuple(
        PendingDelivery(f"newsletter-3127/{n}", "mail-2:1006", 3 * DAY, 11) for n in (44, 45)
    )
    stuck = tuple(
        PendingDelivery(f"newsletter-3121/{700 + at * 7}", "mail-2:1004", (22 - at) * MINUTE,
                        4 + at, (21 - at) * MINUTE + 30 * SECOND)
        for at in range(3)
    )  # fmt: skip
    poison = tuple(replace(row, late_ms=3 * DAY - 30 * SECOND) for row in poison)
    errors = {"newsletter-3127/45": ERRORS[1], "newsletter-3121/707": ERRORS[1]}
    return ConsumerReport("mail", None, loads, seen, heat, poison, 22, 22, poison + stuck, errors)


def explanation(address: str) -> Explanation:
    queue, _, id = address.partition("/")
    command = f"redisq replay {address}"
    facts = {
        "reason": "failed", "since_ms": NOW - 4 * MINUTE, "failures": 20, "lost": 0,
        "error": {"type": ERRORS[0].type, "message": ERRORS[0].message}, "group": "1f6c0a52",
        "alike": 161, "scanned": 200, "dead": 1_240,
    }  # fmt: skip
    first = Reason(
        "dead",
        "dead since 2026-03-14 03:08:45+00:00 (4m 00s ago) because it failed 20 times: "
        "SMTPRecipientsRefused: 550 5.1.1 <ada@example.org>: mailbox unavailable; 161 with "
        "this error (group 1f6c0a52) among 200 of 1,240 dead entries",
        "replay", command, facts=facts,
    )  # fmt: skip
    touched = Reason(
        "touched", "last changed by an operator: replay by kim@ops-1 3h 02m ago because "
        "'smtp-3 is back' (op replay-8a41c09be2)",
        facts={"op": "replay-8a41c09be2", "started_ms": NOW - 182 * MINUTE},
    )  # fmt: skip
    return Explanation(address, queue, "request", id or None, "entry", "dead", NOW, first,
                       (touched,))  # fmt: skip


def operations() -> list[Operation]:
    rows = [
        ("replay-8a41c09be2", "replay", 3, "kim", "smtp-3 is back", "error~smtp", 1_204, 0, 0),
        ("purge-1f2e3d4c5b", "purge", 41, "ada", "bounced for good", "where group=1f6c0a52", 161, 0,
         0),
        ("edit-0badcafe00", "edit", 64, "kim", "", "newsletter-3127/4003", 1, 0, 0),
        ("pause-77aa88bb99", "pause", 130, "cron", "disk full on db-3", "paused = 1", 0, 1, 1),
        ("purge-5566778899", "hard", 1_500, "ada", "legal request 88", "all", 20_411, 0, 0),
    ]  # fmt: skip
    return [
        Operation(id, "mail", verb, NOW - ago * MINUTE, who, "ops-1", why, what,
                  "" if verb == "pause" else "dead",
                  {"hard": "gone", "pause": ""}.get(verb, "waiting"), done, done, 9, undone, "",
                  True, tried)
        for id, verb, ago, who, why, what, done, undone, tried in rows
    ]  # fmt: skip


def chart_data(
    scope: ChartScope, latest: Rates | None, changed: Sequence[Operation] = ()
) -> ChartData:
    """Rates of a day in which failures rose and fell, and the changes in it; ``latest``: of its
    last two minutes."""
    chance = random.Random(7)
    came, gone, failed = [], [], []
    for ago in range(1440, 0, -1):
        daily = 900 * (1.2 + math.sin(ago / 230))
        bad = 0.8 if 200 < ago < 330 or 3 < ago < 22 else 0.01
        came.append(round(daily * chance.uniform(0.8, 1.2)))
        gone.append(round(daily * (1 - bad * 0.9) * chance.uniform(0.8, 1.2)))
        failed.append(round(daily * bad * chance.uniform(0.5, 1.2)))
    last = slice(-scope.minutes, None)
    of = 17 if scope.all_queues else 1
    found = Rates(tuple(came[last]), tuple(gone[last]), tuple(failed[last]))
    if latest is not None:
        found = found.continued(latest, 0)
    latest_ms = NOW - 20 * SECOND
    changes = [
        replace(one, started_ms=min(one.started_ms + 160 * SECOND, latest_ms)) for one in changed
    ]
    return ChartData(scope, found, tuple(changes), of, of)


async def watched(app: Top, source: "Seeded") -> None:
    """The dashboard has seen the queue for three hours, and its last minute twice a second."""
    chance, samples = random.Random(5), app.charts.samples
    waiting, counters = 460, Counter[tuple[int, str]]()
    for at in [
        *range(NOW - 3 * HOUR, NOW - MINUTE, MINUTE),
        *range(NOW - MINUTE, NOW, SECOND // 2),
    ]:
        left, minute = NOW - at, at // MINUTE
        data = None
        if left > MINUTE:
            waiting = 460 + round(9_000 * math.exp(-(((left / MINUTE - 40) / 14) ** 2)))
        else:
            replayed = left < 20 * SECOND
            counters[minute, "in"] += chance.randint(40, 60) if replayed else chance.randint(4, 11)
            counters[minute, "out"] += chance.randint(28, 42) if replayed else chance.randint(6, 10)
            counters[minute, "failed"] += chance.choice((0, 0, 1))
            waiting += 20 if replayed else -1 if at % 2000 else 1
            parts = ("in", "out", "failed")
            arrays = [(counters[minute - 1, part], counters[minute, part]) for part in parts]
            source.latest = Rates(*arrays)
            data = ChartData(ChartScope(), source.latest)
        counts = Counts(waiting, 24, 88, 1_240, 12, 0, at - 150 * waiting)
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
        return PeriodicStatus(entry, state, missed)

    corrupt = ScheduledPeriodic("poll", None, None, None, problem="its definition is corrupt")
    return (
        status("digest", "*/5 * * * *", NOW + 135 * SECOND, NOW - 165 * SECOND),
        status(
            "invoice-run",
            "0 6 * * mon-fri",
            NOW + 2 * HOUR,
            NOW - 22 * HOUR,
            state="dead",
            zone="Europe/Berlin",
        ),
        status(
            "clean-up", "30 2 * * *", NOW - 40 * MINUTE, NOW - 25 * HOUR, state="pending", missed=1
        ),
        status("yearly-report", "0 0 1 1 *", None, None, zone="America/New_York"),
        PeriodicStatus(corrupt, None, 0),
    )


def clients() -> tuple[Client, ...]:
    found = [
        Client("acme", 41_210, 0, 1, True, None), Client("birch-hotels", 812, 4, 1, False, 4),
        Client("cobalt", 96, 2, 4, False, None), Client("delta-air", 5_004, 8, 1, False, 8),
        Client("eastwood", 3, 1, 1, False, None), Client("fjord", 0, 0, 2, False, 16),
        Client("gamma-labs", 17, 1, 1, False, None), Client("hilltop", 0, 2, 1, False, None),
    ]  # fmt: skip
    return tuple(found)


def client(name: str) -> ClientDetails:
    known = next(one for one in clients() if one.client == name)
    first = tuple(
        Entry(f"export-{8_800 + at}", "waiting", None, NOW - 9 * MINUTE if at == 1 else None,
              failures=2 if at == 1 else 0, error=ERRORS[1] if at == 1 else None, client=name)
        for at in range(min(5, known.waiting))
    )  # fmt: skip
    held = tuple(
        Entry(f"export-{8_700 + at}", "pending", NOW + (6 * at + 3) * SECOND,
              NOW - (27 - 6 * at) * SECOND, consumer=f"export-{at % 2 + 1}:{2001 + at}",
              client=name)
        for at in range(min(4, known.pending))
    )  # fmt: skip
    capped = operations()[3]
    verb = {"acme": "block", "birch-hotels": "cap"}.get(name)
    what = f"client {name}" + (f" to {known.cap}" if known.cap else "")
    rule = replace(capped, id="x", verb=verb or "", what=what, who="kim", undone=0, tried=0,
                   why="floods the export service", started_ms=NOW - 52 * MINUTE)  # fmt: skip
    return ClientDetails(known, first, held, (rule,) if verb else ())


def processes() -> tuple[Process, ...]:
    found = []
    for at in range(7):
        host, pid = f"mail-{at // 3 + 1}", 1001 + at
        silent = (21 * MINUTE if at == 3 else 2 * SECOND + at * 300, 3 * DAY)[at == 5]
        jobs = [f"newsletter-3127/{at * 7 + n}" for n in range(at % 4)]
        since = NOW - max(silent, 9 * SECOND)
        work = tuple(RunningJob(id, "mail", b"", since - 4 * SECOND) for id in jobs)
        found.append(
            Process(f"{host}:{pid}", host, pid, ("mail", "digests") if at < 3 else ("mail",),
                    NOW - (at + 2) * 7 * HOUR, silent, at not in (3, 5), work, quiet=at == 1)
        )  # fmt: skip
    return tuple(found)


def queue_settings() -> tuple[QueueSetting, ...]:
    chosen = {"max_failures": "8", "trash_ms": str(7 * DAY)}
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
        bare, counts=Counts(0, 0, 0, 0, 0, 0), settings=queue_settings(),
        reports=(ConsumerReport("mail", None, (), (), ((0,) * 5,) * 5, (), 0, 0),),
        upcoming=Upcoming(5 * MINUTE, (0,) * viewport.buckets, 0),
        charts=ChartData(viewport.charts, Rates((0,) * 60, (0,) * 60, (0,) * 60), (), 1, 1),
    )  # fmt: skip


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
            return replace(bare, overview=tuple(map(self._row, overview())))
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
                    details = replace(details, entry=purged, history=entry_history(HOUR))
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
                return replace(bare, start=viewport.start, total=42_118, entries=found,
                               upcoming=upcoming(viewport.buckets))  # fmt: skip
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

Step = str | Callable[[Top, Seeded], Awaitable[None]]


def at(queue: str) -> Step:
    """The cursor on a queue of the overview."""

    async def step(app: Top, source: Seeded) -> None:
        app.current.table.go_to(queue)

    return step


MAIL, REMINDERS = [at("mail")], [at("reminders")]


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


def draw(steps: Iterable[Step], size: tuple[int, int], theme: str = "dark", **options: Any) -> str:
    async def body(app: Top, source: Seeded, pilot: Pilot[Exception]) -> str:
        await take(steps, app, source, pilot)
        return picture(app)

    svg: str = asyncio.run(in_dashboard(body, size, theme, **options))
    return svg


async def take(steps: Iterable[Step], app: Top, source: Seeded, pilot: Pilot[Exception]) -> None:
    for step in steps:
        if isinstance(step, str):
            await pilot.press(step)
        else:
            await step(app, source)
        await settled(app, pilot)


def picture(app: Top) -> str:
    return normal(app.export_screenshot(title="redisq-top", simplify=True))


async def settled(app: Top, pilot: Pilot[Exception]) -> None:
    """Until the screen shows what it asked for."""
    await pilot.pause()
    app.poller.wake()
    while app.problem is None and (app.snapshot is None or not _seen(app)):
        await asyncio.sleep(0.005)
        await pilot.pause()
    await pilot.pause()
    app.say_status()  # of the columns as they are drawn
    await pilot.pause()


def _seen(app: Top) -> bool:
    """Whether the picture has all that is asked for now; an entry may be asked for only once."""
    seen, wanted = app.snapshot.viewport if app.snapshot else None, app.viewport()
    return seen is not None and seen == (
        wanted if wanted.detail else replace(wanted, detail=seen.detail)
    )


def normal(svg: str) -> str:
    """Without what differs between equal pictures, and without fonts from elsewhere."""
    svg = re.sub(r"terminal-\d+", "terminal", svg)
    svg = re.sub(r"@font-face \{.*?\}\s*", "", svg, flags=re.S)
    return re.sub(r"[ \t]+$", "", svg, flags=re.M)


def unchanged(name: str, svg: str) -> bool:
    """Whether the picture is as it was; draws it again where that is wanted."""
    path = PICTURES / f"{name}.svg"
    if REDRAW:
        path.write_text(svg, encoding="utf-8")
        if name in DRAWN_FOR_THE_MANUAL:
            target = ROOT / "docs" / "pictures" / f"{DRAWN_FOR_THE_MANUAL[name]}.png"
            write_png(target, svg)
    return path.exists() and path.read_text(encoding="utf-8") == svg


def write_png(target: Path, svg: str) -> None:
    png = resvg_py.svg_to_bytes(svg_string=svg, zoom=1.5, monospace_family="DejaVu Sans Mono")
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(bytes(png))


def compare(name: str, svg: str) -> None:
    assert unchanged(name, svg), f"{name} looks different: make pictures, and look at what changed"


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
    asked = question(prepared("purge", "smtp", entries), DAY)
    app.push_screen(Confirm(asked))  # type: ignore[unused-awaitable]


async def weighed(app: Top, source: Seeded) -> None:
    """A dialog with all that can be in one."""
    entries = list(dead(0, 1_240))
    entries[:50] = [replace(entry, payload=b"x" * 212) for entry in entries[:50]]
    queue = RequestQueue(None, "mail")
    weight = Consequences(queue, NOW)
    weight._priorities = {f"newsletter-{n}": "50" if n % 3 else "10" for n in range(3000, 3200)}
    await weight.add(entries)
    weight.waiting, weight.settled_a_minute = 1_204, 900.0
    asked = question(prepared("replay", "age<1d", entries, weight), DAY)
    asked = replace(asked, typed="1240 prod", why=True)
    app.push_screen(Confirm(asked))  # type: ignore[unused-awaitable]


GROUP = [entry for entry in dead(0, 500) if entry.error is ERRORS[1]]
"""the dead letters that the tour replays"""


async def group_replay(app: Top, source: Seeded) -> None:
    """The dialog for all that the list of a group shows."""
    weight = Consequences(RequestQueue(None, "mail"), NOW)
    weight.waiting, weight.settled_a_minute = 1_204, 900.0
    assert app.current.filter is not None
    asked = question(prepared("replay", app.current.filter.text, GROUP, weight), DAY)
    app.push_screen(Confirm(replace(asked, why=True)))  # type: ignore[unused-awaitable]


async def group_replayed(app: Top, source: Seeded) -> None:
    assert app.current.filter is not None
    done = replace(
        source.operations[0], why="smtp-3 is back", matched=len(GROUP), done=len(GROUP),
        what=f"where {app.current.filter.text}",
    )  # fmt: skip
    source.operations[0] = done


async def group_undo(app: Top, source: Seeded) -> None:
    source.operations[0] = replace(source.operations[0], started_ms=NOW - 20 * SECOND)
    app.push_screen(UndoScreen(source.operations, NOW, source.operations[0].id))  # type: ignore[unused-awaitable]


async def past(app: Top, source: Seeded) -> None:
    app.push_screen(UndoScreen(operations(), NOW, "replay-8a41c09be2"))  # type: ignore[unused-awaitable]


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
        "to": "ada@example.org", "subject": f"[red]Hi[/red] {OSC_52}", "region": "eu",
        "order": {
            "id": 9_007_199_254_740_993, "total": 129.9, "currency": "EUR", "paid": True,
            "lines": [{"sku": f"A-{n}", "quantity": n % 3 + 1, "price": 4.5} for n in range(240)],
        },
        "customer": {"name": "Ada Lovelace", "locale": "שלום", "vip": False, "phone": None},
        "attempt_ids": list(range(12)),
        "body": "Dear Ada,\nyour order is on its way.\n\nKind regards\nthe shop",
    }  # fmt: skip
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


LOOKS: dict[str, tuple[list[Step], tuple[int, int]]] = {
    "charts-160x45": ([*MAIL, watched, "v"], (160, 45)),
    "charts-hour": ([*MAIL, watched, "v", "minus"], (120, 34)),
    "entry": ([*MAIL, "5", "j", "enter"], (120, 34)),
    "preview": ([*MAIL, "5", json_payload, "p", "j"], (120, 34)),
    "preview-160x45": ([*MAIL, "5", json_payload, "p", "j", "enter", "j", "j", "j"], (160, 45)),
    "preview-80x24": ([*MAIL, "5", json_payload, "p", "j"], (80, 24)),
    "preview-search": (
        [*MAIL, "5", json_payload, "p", "enter", "slash", *"a-1", "enter", "n", "n"],
        (160, 45),
    ),
    "preview-binary": ([*MAIL, "5", binary_payload, "p", "j"], (120, 34)),
    "preview-request": ([*MAIL, "3", "j", "j"], (160, 45)),
    "request": ([*MAIL, "3", "j", "j", "enter"], (120, 34)),
    "filter": ([*MAIL, "5", "slash", *"Timeout"], (120, 34)),
    "sorted": ([*MAIL, "3", "s", "s", "s", "s"], (120, 34)),
    "confirm": ([*MAIL, "5", confirm], (120, 34)),
    "consequences": ([*MAIL, "5", weighed], (120, 34)),
    "consequences-80x24": ([*MAIL, "5", weighed], (80, 24)),
    "edit": ([*MAIL, "5", edits], (120, 34)),
    "undo": ([*MAIL, "5", past], (120, 34)),
    "undo-80x24": ([*MAIL, "5", past], (80, 24)),
    "explain": ([*MAIL, "5", "j", "t"], (120, 34)),
    "explain-160x45": ([*MAIL, "5", "j", "t"], (160, 45)),
    "explain-80x24": ([*MAIL, "5", "j", "t"], (80, 24)),
    "completion": ([*MAIL, "5", "colon", *"dlq replay mail --ma", "tab"], (120, 34)),
    "completion-80x24": ([*MAIL, "colon", *"re"], (80, 24)),
    "saved-filters": ([*MAIL, "5", "apostrophe"], (120, 34)),
    "back": ([*MAIL, "7", "enter", "l"], (120, 34)),
    "frozen": ([*MAIL, "5", freezes], (120, 34)),
    "forbidden-80x24": ([forbidden], (80, 24)),
    "overview-60x24": ([], (60, 24)),
    "overview-200x45": ([*MAIL, watched], (200, 45)),
    "help-80x24": (["question_mark"], (80, 24)),
    "stale": ([*MAIL, "5", breaks], (120, 34)),
    "help": (["question_mark"], (120, 34)),
    "unoffered": ([*REMINDERS, "3"], (80, 24)),
    "overview-160x45": ([*MAIL, watched], (160, 45)),
    "trouble": ([watched, "exclamation_mark", *MAIL], (120, 34)),
}


# In each view: the queue it is of, and the keys pressed there.
VIEWS: dict[View, tuple[str | None, tuple[str, ...]]] = {
    "overview": (None, ()),
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
THEMED: tuple[View, ...] = ("overview", "levels", "dead")
WALKS: dict[str, tuple[tuple[int, int], str, Sequence[View]]] = {
    "": ((120, 34), "dark", tuple(VIEWS)),
    "-empty": ((120, 34), "dark", tuple(VIEWS)),
    "-error": ((120, 34), "dark", tuple(VIEWS)),
    "-80x24": ((80, 24), "dark", tuple(VIEWS)),
    "-light": ((120, 34), "light", tuple(VIEWS)),
    "-ansi": ((120, 34), "ansi", THEMED),
    "-high-contrast": ((120, 34), "high-contrast", THEMED),
}
"""what the names of pictures of views end in -> size, theme, views"""


@pytest.mark.parametrize("suffix", WALKS)
def test_all_views_look_as_they_did(suffix: str) -> None:
    """In one dashboard, whose start costs more than a picture."""
    size, theme, views = WALKS[suffix]

    async def walk(app: Top, source: Seeded, pilot: Pilot[Exception]) -> list[str]:
        source.empty = suffix == "-empty"
        if source.empty:
            app.charts.samples = Samples()
        else:
            await watched(app, source)
        different = []
        for view in views:
            queue, keys = VIEWS[view]
            app.navigation.show_view("overview")
            app.navigation = Navigation(app)  # as if this was the first view that was opened
            app.navigation.choose(queue)
            app.navigation.show_view(view)
            await settled(app, pilot)
            for key in keys:
                await pilot.press(key)
            if suffix == "-error":
                await breaks(app, source)
            await settled(app, pilot)
            svg = picture(app)
            different += [] if unchanged(f"{view}{suffix}", svg) else [f"{view}{suffix}"]
            source.broken = app.problem = None
        return different

    different = asyncio.run(in_dashboard(walk, size, theme))
    assert not different, f"look different now: make pictures, and look at {different}"


TOUR: dict[str, tuple[Step, ...]] = {
    "tour-1-trouble": (at("mail"),),
    "tour-2-groups": ("7", "j", json_payload, "p"),
    "tour-3-preview": ("enter",),
    "tour-4-replay": ("A", group_replay),
    "tour-5-charts": ("n", "p", group_replayed, watched, "v"),
    "tour-6-undo": (group_undo,),
}
"""the README's pictures, in one dashboard"""


DRAWN_FOR_THE_MANUAL = {
    "tour-1-trouble": "overview", "dead": "dead", "preview-160x45": "preview", "explain": "explain",
    "overview-light": "light",
    **{name: name for name in list(TOUR)[1:]},
}  # fmt: skip
"""picture -> its name in docs/pictures"""


def test_the_tour_in_the_readme_is_as_it_was() -> None:
    async def walk(app: Top, source: Seeded, pilot: Pilot[Exception]) -> list[str]:
        different = []
        for name, steps in TOUR.items():
            await take(steps, app, source, pilot)
            different += [] if unchanged(name, picture(app)) else [name]
        return different

    different = asyncio.run(in_dashboard(walk, (108, 24)))
    assert not different, f"look different now: make pictures, and look at {different}"


@pytest.mark.parametrize("name", LOOKS)
def test_a_picture_is_as_it_was(name: str) -> None:
    steps, size = LOOKS[name]
    compare(name, draw(steps, size))


def test_read_only_greys_the_changes_out() -> None:
    compare("read-only", draw([*MAIL, "5"], (120, 34), read_only=True))


@pytest.mark.parametrize(
    ("name", "steps"), [("guide-160x45", [*MAIL, watched]), ("guide-80x24", [*MAIL, "7"])]
)
def test_the_guide_is_above_the_view(name: str, steps: list[Step]) -> None:
    size = (160, 45) if name.endswith("45") else (80, 24)
    steps_to_solve = [
        Unsolved("mail fails since a deploy", "mail", "groups", "P to replay"),
        Unsolved("geo-import waits", "geo-import", "consumers", "R"),
    ]
    compare(name, draw(steps, size, guide=steps_to_solve))


@pytest.mark.parametrize("theme", ["light", "ansi", "high-contrast"])
def test_a_dialog_in_other_colours_is_as_it_was(theme: str) -> None:
    compare(f"consequences-{theme}", draw(*LOOKS["consequences"], theme=theme))


def test_every_picture_belongs_to_a_test() -> None:
    drawn = {path.stem for path in PICTURES.glob("*.svg")}
    walked = {f"{view}{suffix}" for suffix, (_, _, views) in WALKS.items() for view in views}
    others = {"read-only", "guide-160x45", "guide-80x24"}
    dialogs = {f"consequences-{theme}" for theme in ("light", "ansi", "high-contrast")}
    assert drawn == {*walked, *LOOKS, *TOUR, *others, *dialogs}

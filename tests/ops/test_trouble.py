"""The rules that say what is wrong with a queue, and what is not."""

from dataclasses import replace

import pytest

from redisq_ops.core.engine.acknowledgement import Acknowledgement
from redisq_ops.core.model.activity import Activity, ConsumerSign
from redisq_ops.core.model.entry import Client, Counts, Entry, Request
from redisq_ops.core.model.rate_limit import RateLimit
from redisq_ops.core.model.rates import Rates
from redisq_ops.ops.inspect.overview import CommonError, Evidence, QueueRow
from redisq_ops.ops.terminal import rough_age
from redisq_ops.ops.trouble.finding import Severity, Thresholds
from redisq_ops.ops.trouble.judgement import rank, reasons, troubles

NOW = 1_773_457_965_000
SECOND, MINUTE, HOUR = 1000, 60_000, 3_600_000


def rates(arrived: int = 0, settled: int = 0, failed: int = 0) -> Rates:
    """So many in every minute of the last hour."""
    return Rates((arrived,) * 60, (settled,) * 60, (failed,) * 60)


def request(id: str, pending: int = 0, paused: bool = False) -> Request:
    return Request(
        id,
        "sealed",
        50,
        2,
        paused,
        9,
        9 - pending,
        pending,
        0,
        0,
        0,
        0,
        0,
        NOW,
        NOW,
        None,
        0,
        0,
        "",
    )


def row(
    counts: Counts, seen: Activity | None = None, pace: Rates | None = None, **more: object
) -> QueueRow:
    seen = seen or Activity(NOW - SECOND, 1, None, 0)
    return replace(QueueRow("q", "request", counts, pace or rates(5, 5), activity=seen), **more)  # type: ignore[arg-type]


WAITING = Counts(9, 0, 0, 0, 0, 50, NOW - 10 * MINUTE)
HELD = Counts(9, 2, 0, 0, 0, 50, NOW - 10 * MINUTE)
RETRIES = Counts(0, 0, 1, 0, 0, 50)
SILENT = Activity(NOW - 13 * MINUTE, 1, None, 0)
STILL = rates()


@pytest.mark.parametrize(
    ("seen", "said"),
    [
        (row(WAITING), ""),
        (row(Counts(0, 0, 0, 0, 0, 50), SILENT), ""),  # nothing to do
        (row(WAITING, SILENT), "no worker for 13 m"),
        (row(WAITING, Activity(None, 0, None, 0)), "no worker for a day or more"),
        (row(replace(WAITING, done=0), Activity(None, 0, None, 0)), "no worker seen yet"),
        # Just submitted, and the workers are on their way.
        (row(replace(WAITING, oldest_ms=NOW), Activity(None, 0, None, 0)), ""),
        # Nobody knows how long the entries wait, but none arrived in the last minute.
        (row(replace(WAITING, oldest_ms=None), Activity(None, 0, None, 0), STILL),
         "no worker for a day or more"),
        (row(replace(WAITING, oldest_ms=None), Activity(None, 0, None, 0)), ""),
        # All busy: their leases run, and they ask for no more.
        (row(HELD, replace(SILENT, deadline_ms=NOW + SECOND)), ""),
        (row(HELD, replace(SILENT, deadline_ms=NOW - 2 * MINUTE)), "no worker for 13 m"),
        (row(Counts(0, 2, 0, 0, 0, 5), replace(SILENT, deadline_ms=NOW - HOUR)),
         "no worker for 13 m"),
        # Only retries that are due are left, or runs that nobody schedules.
        (row(RETRIES, replace(SILENT, ready_ms=NOW - 2 * MINUTE)), "no worker for 13 m"),
        (row(RETRIES, replace(SILENT, ready_ms=NOW + MINUTE)), ""),
        (row(RETRIES, Activity(None, 0, ready_ms=NOW - 2 * MINUTE)), "no worker for a day or more"),
        (row(RETRIES, Activity(None, 0, ready_ms=NOW - SECOND)), ""),
        (row(replace(RETRIES, delayed=0), SILENT, periodic=(3, 1)),
         "no worker for 13 m; 1 periodic entry missed a run"),
        (row(replace(RETRIES, delayed=0), periodic=(3, 1)), "1 periodic entry missed a run"),
        # Another program's layout doesn't have it.
        (row(WAITING, Activity()), ""),
        # It registers its workers, and none of them is alive and serves the queue.
        (row(WAITING, Activity(None, 0, registered=True)), "no worker is registered for it"),
        (row(replace(WAITING, oldest_ms=None), Activity(None, 0, registered=True)),
         "no worker is registered for it"),
        (row(replace(WAITING, oldest_ms=NOW), Activity(None, 0, registered=True)), ""),
        (row(WAITING, Activity(NOW, 1, registered=True)), ""),
        (row(WAITING, Activity(NOW - HOUR, 1, registered=True)), "no worker for 1 h"),
        (row(HELD, pace=STILL), "nothing settled for 5 m although workers ask"),
        (row(HELD, pace=rates(0, 1)), ""),
        (row(HELD, pace=STILL, evidence=Evidence(rate=RateLimit(5, "h"))), ""),
        (row(HELD, pace=STILL, evidence=Evidence(rate=RateLimit(10, "s"))),
         "nothing settled for 5 m although workers ask"),
        (row(HELD, pace=STILL, evidence=Evidence(
            requests=(request("r", 2),), holders=("geo-3:777", "geo-3:777"))),
         "request limit used up by geo-3:777"),
        (row(HELD, pace=STILL, evidence=Evidence(
            requests=(request("r", 2), request("s", 2)), holders=("a", "b", "b", "c"))),
         "request limit used up by b and 2 more"),
        (row(HELD, pace=STILL, evidence=Evidence(requests=(request("r", paused=True),))),
         "request r is paused"),
        (row(HELD, pace=STILL, evidence=Evidence(
            requests=(request("r", paused=True), request("s", paused=True)))),
         "all requests are paused"),
        (row(WAITING, Activity(NOW, 1, None, 9)), ""),
        (row(WAITING, Activity(NOW, 1, None, 10)), "10 dead in 5 m"),
        (row(WAITING, Activity(NOW, 1, None, 1_211), evidence=Evidence(
            error=CommonError("IOError", 20))),
         "1,211 dead in 5 m, latest 20 mostly IOError"),
        (row(WAITING, pace=rates(5, 2, 1)), ""),
        (row(WAITING, pace=rates(5, 2, 2)), "12 of 24 attempts failed in 5 m"),
        (row(WAITING, pace=rates(5, 1, 2)), ""),  # 18 attempts: too few to mean something
        (row(replace(WAITING, paused="by kim")), "paused by kim"),
        (row(replace(WAITING, paused="by kim"), evidence=Evidence("kim")), "paused by kim"),
        (row(replace(WAITING, paused="db is down")), "paused: db is down"),
        (row(replace(WAITING, paused="db migration"), evidence=Evidence("root")),
         "paused by root: db migration"),
        (row(replace(WAITING, paused="db", oldest_ms=NOW - 9 * HOUR)), "paused: db"),
        # Nobody is to work on it: that nobody does is no further trouble.
        (row(replace(WAITING, paused="db"), SILENT), "paused: db"),
        (row(replace(WAITING, closed="moves"), evidence=Evidence(closed_by="kim")),
         "draining by kim: moves"),
        (row(WAITING, clients=(Client("acme", 3, 0, 1, True, None),)), "client acme blocked"),
        (row(WAITING, clients=(Client("acme", 0, 0, 1, True, None),)), ""),
        (row(WAITING, clients=(Client("a", 1, 0, 1, True, None), Client("b", 4, 0, 1, True, 3))),
         "client b and 1 more blocked"),
        (row(replace(WAITING, oldest_ms=NOW - HOUR + 1)), ""),
        (row(replace(WAITING, oldest_ms=NOW - HOUR)), "oldest waits 1 h, drains in ≈ 1 m"),
        (row(replace(WAITING, waiting=600, oldest_ms=NOW - 4 * HOUR)),
         "oldest waits 4 h, drains in ≈ 1 h"),
        (row(replace(WAITING, oldest_ms=NOW - 4 * HOUR), pace=rates(9, 5)),
         "oldest waits 4 h, more in than out in 60 m"),
        (row(HELD, evidence=Evidence(tried=(
            Entry("scan-1", "pending", lost=2, receipt="1-w", deliveries=9),
            Entry("scan-2", "pending", failures=9, receipt="2-w")))),
         "scan-1 lost a worker 2 times"),
        # A plain stream counts deliveries only.
        (row(HELD, evidence=Evidence(tried=(Entry("g:1-0", "pending", deliveries=8),))),
         "g:1-0 lost a worker 7 times"),
        (row(replace(HELD, delayed=40), evidence=Evidence(tried=(
            Entry("scan-1", "delayed", failures=15), Entry("scan-2", "delayed", failures=12)))),
         "at least 2 entries failed up to 15 times and are tried again"),
        (row(WAITING, evidence=Evidence(tried=(Entry("scan-1", "delayed", failures=15),))), ""),
        (row(WAITING, unfinished=("move-1",)), "unfinished move: move-1"),
        (QueueRow("q", "request", None, None, "can't be read"), "can't be read"),
    ],
)  # fmt: skip
def test_the_reason_is_said_in_words(seen: QueueRow, said: str) -> None:
    assert reasons(troubles(seen, NOW)) == said


def test_the_worst_comes_first_and_limits_can_be_changed() -> None:
    bad = row(
        replace(WAITING, closed="moves"), replace(SILENT, dead_lately=12), unfinished=("move-1",)
    )
    found = troubles(bad, NOW)
    assert [(one.rule, one.severity) for one in found] == [
        ("no-worker", Severity.CRITICAL),
        ("dying", Severity.CRITICAL),
        ("draining", Severity.WARNING),
        ("unfinished", Severity.WARNING),
    ]
    lenient = Thresholds(no_worker_ms=HOUR, dead=13)
    assert [one.rule for one in troubles(bad, NOW, lenient)] == ["draining", "unfinished"]
    ranks = [rank(found), rank(found[:1]), rank(found[2:]), rank(())]
    assert ranks == sorted(ranks) and len(set(ranks)) == 4


def test_the_worst_affect_the_most_entries_for_the_longest_time() -> None:
    """A hiccup of a minute is below an outage of hours, whatever rule finds them."""
    waiting = replace(WAITING, waiting=500, oldest_ms=NOW - 3 * HOUR)
    queues = {
        "hiccup": row(replace(WAITING, waiting=2), replace(SILENT, asked_ms=NOW - MINUTE)),
        "died long ago": row(replace(WAITING, waiting=0, dead=1_000_000)),
        "outage": row(waiting, replace(SILENT, asked_ms=NOW - 3 * HOUR)),
        "one dead": row(replace(WAITING, waiting=0, dead=1)),
        "shorter": row(waiting, replace(SILENT, asked_ms=NOW - 2 * MINUTE)),
        "fine": row(WAITING),
    }
    found = {name: troubles(queue, NOW) for name, queue in queues.items()}
    assert sorted(found, key=lambda name: rank(found[name])) == [
        "died long ago", "outage", "shorter", "hiccup", "one dead", "fine"
    ]  # fmt: skip


KNOWN = Acknowledgement(NOW - HOUR, 400, NOW + HOUR, "kim", "fixed on Monday")


@pytest.mark.parametrize(
    ("dead", "since", "known", "said", "severity"),
    [
        (0, None, None, "", 0),
        (1, None, None, "1 dead", Severity.WARNING),
        (999, None, None, "999 dead", Severity.WARNING),
        (1_000_000, None, None, "1,000,000 dead", Severity.CRITICAL),
        (400, 0, KNOWN, "", 0),
        (437, 37, KNOWN, "37 dead since acknowledged", Severity.WARNING),
        # Some of the acknowledged ones were replayed, and others died: only the time tells.
        (90, 50, KNOWN, "50 dead since acknowledged", Severity.WARNING),
        # The layout doesn't tell who died when.
        (437, None, KNOWN, "37 dead since acknowledged", Severity.WARNING),
        (300, None, KNOWN, "", 0),
        (400, 0, replace(KNOWN, until_ms=NOW), "400 dead", Severity.WARNING),
        (400, 0, replace(KNOWN, until_ms=None), "", 0),
    ],
)
def test_dead_letters_are_trouble_until_somebody_acknowledges_them(
    dead: int, since: int | None, known: Acknowledgement | None, said: str, severity: int
) -> None:
    seen = Activity(NOW, 1, None, 0, dead_since=since)
    found = troubles(row(Counts(0, 0, 0, dead, 0, 50), seen, acknowledged=known), NOW)
    assert reasons(found) == said
    assert [one.severity for one in found] == ([severity] if severity else [])


def test_dead_letters_older_than_the_latest_minutes_are_counted_beside_these() -> None:
    seen = Activity(NOW, 1, None, 60)
    evidence = Evidence(error=CommonError("SMTPServerDisconnected", 20))
    found = troubles(row(Counts(0, 0, 0, 460, 0, 50), seen, evidence=evidence), NOW)
    assert reasons(found) == (
        "60 dead in 5 m, latest 20 mostly SMTPServerDisconnected; 460 dead in all"
    )
    found = troubles(row(Counts(0, 0, 0, 60, 0, 50), seen), NOW)
    assert [one.rule for one in found] == ["dying"]


LONG = NOW + 10 * MINUTE


@pytest.mark.parametrize(
    ("sign", "until", "said", "severity"),
    [
        (ConsumerSign("w", NOW - SECOND, beats=True), LONG, "", 0),
        (ConsumerSign("w", NOW - 2 * MINUTE, beats=True), LONG,
         "2 held by w, silent for 2 m", Severity.CRITICAL),
        (ConsumerSign("w", NOW - 2 * MINUTE, beats=True), NOW - SECOND, "", 0),  # it is reclaimed
        (ConsumerSign("w", None, gone=True), None, "2 held by w, silent for 0 s",
         Severity.CRITICAL),
        # Without heartbeats a busy consumer is silent: only a long time, and a long lease, tell.
        (ConsumerSign("w", NOW - 10 * MINUTE), LONG, "", 0),
        (ConsumerSign("w", NOW - 20 * MINUTE), LONG, "2 held by w, silent for 20 m",
         Severity.WARNING),
        (ConsumerSign("w", NOW - 20 * MINUTE), NOW + 20 * SECOND, "", 0),
        (ConsumerSign("other", NOW - HOUR, beats=True), LONG, "", 0),
    ],
)  # fmt: skip
def test_entries_held_by_a_consumer_without_a_sign_of_life_are_trouble(
    sign: ConsumerSign, until: int | None, said: str, severity: int
) -> None:
    held = tuple(Entry(f"e{n}", "pending", until, consumer="w") for n in range(2))
    seen = Activity(NOW, 1, until, 0, signs=(sign,))
    found = troubles(row(Counts(0, 2, 0, 0, 0, 5), seen, evidence=Evidence(tried=held)), NOW)
    held_ones = [one for one in found if one.rule == "held"]
    assert reasons(held_ones) == said
    assert [one.severity for one in held_ones] == ([severity] if severity else [])


def test_a_dead_worker_with_a_running_lease_is_no_worker() -> None:
    dead = ConsumerSign("w", NOW - 50 * MINUTE, beats=True)
    silent = Activity(NOW - 50 * MINUTE, 1, NOW + 10 * MINUTE, 0, signs=(dead,))
    assert reasons(troubles(row(HELD, silent), NOW)) == "no worker for 50 m"
    alive = replace(silent, signs=(dead, ConsumerSign("v", NOW - SECOND, beats=True)))
    assert not troubles(row(HELD, alive), NOW)
    unregistered = replace(silent, signs=(ConsumerSign("w", NOW - 50 * MINUTE),))
    assert reasons(troubles(row(HELD, unregistered), NOW)) == (
        "nobody asked for work for 50 m, 2 held on long leases"
    )


def test_entries_of_a_program_whose_workers_nobody_registers() -> None:
    celery = replace(WAITING, oldest_ms=None)
    assert reasons(troubles(row(celery, Activity(askers=0, unasked=True)), NOW)) == (
        "no worker asks for its entries"
    )


def test_an_entry_that_is_ready_in_years_is_probably_a_mistake() -> None:
    far = Activity(NOW, 1, None, 0, far_ahead=1)
    assert reasons(troubles(row(RETRIES, far), NOW)) == (
        "1 delayed entry is ready in more than a year"
    )


@pytest.mark.parametrize(
    ("ms", "said"),
    [
        (-5, "0 s"),
        (59_999, "59 s"),
        (13 * MINUTE + 1, "13 m"),
        (4 * HOUR, "4 h"),
        (50 * HOUR, "2 d"),
    ],
)
def test_a_rough_age_has_one_unit(ms: int, said: str) -> None:
    assert rough_age(ms) == said

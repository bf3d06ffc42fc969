"""The queries of reports by both engines, with values computed by hand; no server."""

import json
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from redisq_ops.core.model.entry import Entry, Failure
from redisq_ops.ops.groups.fingerprint import fingerprint
from redisq_ops.ops.groups.traits import share_difference
from redisq_ops.pipeline.report import anomaly_rule
from redisq_ops.pipeline.report import report as report_module
from redisq_ops.pipeline.report.critical_path import Attempt, critical_path
from redisq_ops.pipeline.report.engine import Engine, Value
from redisq_ops.pipeline.report.figures import Row, notes
from redisq_ops.pipeline.report.queue_timeline import timeline
from redisq_ops.pipeline.report.report import QueueReport, rows_in_millis
from redisq_ops.pipeline.source import schemas
from redisq_ops.pipeline.source.tables import TABLES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

START = datetime(2026, 3, 1, 10, 0, tzinfo=UTC)
HOUR, MINUTE = 3_600_000, 60_000


def moment(ms: int) -> datetime:
    return START + timedelta(milliseconds=ms)


def since(ms: int | None) -> int | None:
    """ms after the start."""
    return None if ms is None else ms - int(START.timestamp() * 1000)


def arrow(table: str, rows: Iterable[Row]) -> pa.Table:
    """A table as the data source returns it; columns that a row does not name are null."""
    schema = schemas.arrow(TABLES[table])
    for row in (found := list(rows)):
        assert set(row) <= set(schema.names)
    return pa.Table.from_pylist(found, schema)


def of(
    engine: Engine[Any], history: Iterable[Row] = (), dead: Iterable[Row] = (), **more: Any
) -> "QueueReport[Any]":
    """A report of these rows, with the redaction of the engine."""
    return QueueReport(
        engine,
        engine.relation(arrow("history", history)),
        engine.relation(arrow("dead", dead)),
        **more,
    )


def rows(report: "QueueReport[Any]", table: Any) -> list[Row]:
    return rows_in_millis(report.engine.rows(table))


def attempts(report: "QueueReport[Any]", *names: str) -> list[tuple[Any, ...]]:
    """The deliveries, by queue, id and time."""
    found = rows(report, report.attempts)
    found.sort(key=lambda row: (row["queue"], row["id"], row["taken_ms"], row["attempt"]))
    return values(found, *names)


def values(found: list[Row], *names: str) -> list[tuple[Any, ...]]:
    return [tuple(row[name] for name in names) for row in found]


def event(at: int, event: str, id: str, detail: str | None = None, **more: Any) -> dict[str, Any]:
    """A row of the history, ``at`` ms after the start; each in a call of its own."""
    request, slash, number = id.rpartition("/")
    of = {"request": request, "number": int(number)} if slash else {}
    named = {"queue": "q", "kind": "request", "shard": 0, "event_id": f"{at}-0", "by": "w1"}
    return named | of | {"at": moment(at), "event": event, "id": id, "detail": detail} | more


# --- attempts ----------------------------------------------------------------------------------

# r: three sub-requests in one call; 1 is done at once, 2 fails and is done, 3 is lost and buried.
REQUEST = [
    event(0, "submitted", "r", "1|3", request="r"),
    event(100, "taken", "r/1"),
    event(400, "done", "r/1", run_ms=300),
    event(1000, "taken", "r/2", by="w2"),
    event(1500, "failed", "r/2", "w2"),
    event(4000, "taken", "r/2"),
    event(4250, "done", "r/2", run_ms=250),
    event(2000, "taken", "r/3", by="w3"),
    event(32000, "lost", "r/3", "w3"),
    event(32000, "dead", "r/3", "lost"),
    event(32001, "request-done", "r", request="r"),
]


def test_a_wait_begins_with_the_submission_or_the_last_failure(engine: Engine[Any]) -> None:
    names = ("id", "number", "attempt", "consumer", "since", "wait_ms", "ended", "reason", "run_ms")
    assert attempts(of(engine, reversed(REQUEST)), *names) == [
        ("r/1", 1, 1, "w1", "submitted", 100, "done", None, 300),
        ("r/2", 2, 1, "w2", "submitted", 1000, "failed", None, 500),
        ("r/2", 2, 2, "w1", "failed", 2500, "done", None, 250),
        ("r/3", 3, 1, "w3", "submitted", 2000, "dead", "lost", None),
    ]


def test_waits_missing_from_the_history_are_unknown(engine: Engine[Any]) -> None:
    delay = {"kind": "delay", "queue": "d"}
    found = of(
        engine,
        [
            event(0, "taken", "cut/1"),  # its submission was trimmed
            event(50, "done", "cut/1", run_ms=50),
            event(0, "submitted", "r", "1|1", request="r"),
            event(10, "taken", "r/1"),  # released: no event says so
            event(90, "taken", "r/1"),
            event(95, "dead", "r/1", "rejected"),
            event(99, "taken", "r/1"),  # replayed: nor here
            event(100, "submitted", "e", str(int(START.timestamp() * 1000) + 700), **delay),
            event(750, "taken", "e", **delay),
            event(760, "done", "e", **delay),  # of a kind that doesn't say how long it took
        ],
    )
    names = ("id", "attempt", "since", "wait_ms", "ended", "reason", "run_ms")
    assert attempts(found, *names) == [
        ("e", 1, "submitted", 50, "done", None, 10),
        ("cut/1", 1, None, None, "done", None, 50),
        ("r/1", 1, "submitted", 10, None, None, None),
        ("r/1", 1, None, None, "dead", "rejected", 5),
        ("r/1", 1, None, None, None, None, None),
    ]


def test_rows_of_one_millisecond_keep_the_order_of_the_stream(engine: Engine[Any]) -> None:
    calls = ["submitted", "taken", "failed", "taken", "lost", "taken", "done"]
    history = [
        event(5, what, "e", event_id=f"1772359200005-{seq}", kind="fair", detail="acme")
        for seq, what in zip((1, 2, 9, 10, 11, 11, 12), calls, strict=True)
    ]
    found = of(engine, reversed(history))
    assert attempts(found, "attempt", "since", "ended", "client") == [
        (1, "submitted", "failed", "acme"),
        (2, "failed", "lost", "acme"),
        (3, "lost", "done", "acme"),
    ]


def test_corrupt_rows_are_not_counted(engine: Engine[Any]) -> None:
    report = of(
        engine,
        [
            {"queue": "q", "kind": "request", "_corrupt": "no event"},
            event(1, "submitted", "r", "9|3", request="r"),  # not written by any release
            event(2, "submitted", "s", "1|999999999999", request="s"),  # nor is this
        ],
    )
    assert attempts(report) == []
    entries = engine.query("entry_events", {"most": 10_000}, history=report.history)
    found = rows(report, entries)
    assert len([row for row in found if row["id"].startswith("s/")]) == 10_000
    assert len(rows(report, report.tables["throughput"])) == 1


# --- latency, throughput, retries --------------------------------------------------------------


def served(hour: int, n: int, wait: int, run: int, step: int = 1) -> list[dict[str, Any]]:
    """A request of n sub-requests, the k-th waiting k × wait and running k × run ms."""
    at, name = hour * 3_600_000, f"h{hour}"
    found = [event(at, "submitted", name, f"1|{n}", request=name)]
    for k in range(1, n + 1):
        taken = at + k * wait
        found.append(event(taken, "taken", f"{name}/{k}"))
        found.append(event(taken + k * run, "done", f"{name}/{k}", run_ms=k * run))
    return found


def test_percentiles_of_waits_and_runs_per_queue_and_hour(engine: Engine[Any]) -> None:
    report = of(engine, served(0, 101, 10, 2) + served(1, 1, 7, 3))
    names = ("wait_p50_ms", "wait_p95_ms", "wait_p99_ms", "wait_max_ms", "run_p50_ms", "run_p99_ms")
    found = rows(report, report.tables["latency"])
    assert values(found, "queue", "taken", "waits", "runs") == [
        ("q", 101, 101, 101),
        ("q", 1, 1, 1),
    ]
    assert [since(row["from_ms"]) for row in found] == [0, HOUR]
    # 101 values 10, 20 … 1010: the rank of p95 is 1 + 0.95 × 100 = 96.
    assert values(found, *names) == [(510, 960, 1000, 1010, 102, 200), (7, 7, 7, 7, 3, 3)]
    how: dict[str, Value] = {"step_ms": MINUTE, "percentiles_of": "percentile", "accuracy": ""}
    assert len(rows(report, engine.query("latency", how, attempts=report.attempts))) == 2


@pytest.mark.slow
def test_percentiles_of_very_many_deliveries_are_close(
    spark: "SparkSession", monkeypatch: pytest.MonkeyPatch
) -> None:
    from redisq_ops.ops.redaction import NO_REDACTION
    from redisq_ops.pipeline.report import report as module
    from redisq_ops.pipeline.report.spark_engine import SparkEngine

    history = served(0, 101, 10, 2)
    exact = of(SparkEngine(spark, NO_REDACTION, None), history)
    names = ("wait_p50_ms", "wait_p95_ms", "wait_p99_ms", "run_p50_ms", "run_p99_ms")
    (one,) = values(rows(exact, exact.tables["latency"]), *names)
    monkeypatch.setattr(module, "MAX_EXACT", 100)
    close = of(SparkEngine(spark, NO_REDACTION, None), history)
    (two,) = values(rows(close, close.tables["latency"]), *names)
    assert close.accuracy == module.ACCURACY and two == pytest.approx(one, abs=10)


def test_throughput_counts_entries_not_calls(engine: Engine[Any]) -> None:
    more = [event(120_000, "submitted", "s", "1|40", request="s")]
    names = ("submitted", "taken", "done", "failed", "lost", "dead", "bad", "grown", "peak")
    report = of(engine, REQUEST + more)
    assert values(rows(report, report.tables["throughput"]), *names) == [
        (3, 4, 2, 1, 1, 1, 2, 0, 3),
        (40, 0, 0, 0, 0, 0, 0, 40, 40),
    ]
    found = rows(report, report._throughput(300_000))
    assert values(found, *names) == [(43, 4, 2, 1, 1, 1, 2, 40, 40)]
    # It begins in the middle: two entries were open before; two are replayed, one is purged.
    middle = [
        event(0, "done", "x"),
        event(1, "done", "y"),
        event(60_000, "submitted", "z"),
        event(120_000, "op", "-", "op1|dead|waiting|2"),
        event(180_000, "done", "u"),
        event(240_000, "op", "-", "op2|waiting|trash|1"),
        event(240_001, "op", "-", "op3|set|a|9"),
    ]
    report = of(engine, middle)
    found = rows(report, report.tables["throughput"])
    assert values(found, "grown", "before") == [(-2, 2), (-1, 2), (1, 2), (0, 2), (-1, 2)]


def test_what_a_history_does_not_keep_is_unknown(engine: Engine[Any]) -> None:
    """Zeros would say that nothing was submitted, or that another program's jobs never failed."""
    failing = [
        each
        for n in range(40)
        for each in (
            event(n * MINUTE, "failed", f"f{n}", "w1"),
            event(n * MINUTE + 1, "dead", f"f{n}"),
        )
    ]
    failing += [event(n * MINUTE, "failed", f"g{n}", "w1") for n in [30] * 50]
    replayed = event(60_000, "op", "-", "op1|dead|waiting|2", queue="rq:mail", kind="rq")
    report = of(engine, [*failing, replayed], against=of(engine, REQUEST))
    named = ("queue", "failed", "dead", "bad")
    unknown = ("submitted", "taken", "done", "grown", "peak", "before")
    found = rows(report, report.tables["throughput"])
    assert values(found, *named)[:2] == [("q", 1, 1, 2), ("q", 1, 1, 2)]
    assert {row["queue"] for row in found} == {"q"}
    assert values(found, *unknown) == [(None,) * 6] * 40
    metrics = {row["metric"]: row["value"] for row in rows(report, report.tables["comparison"])}
    assert metrics["failed"] == 90 and metrics["done"] is None, metrics
    assert {row["metric"] for row in rows(report, report.tables["anomalies"])} == {"failed"}
    figures = report.figures()
    assert values(figures.totals, "queue", "submitted", "failed") == [("q", None, 90)]
    chart, _ = timeline(figures, "q", figures.series["throughput"], [], [], [])
    assert "failed" in str(chart) and "submitted" not in str(chart)


def test_totals_and_charts_are_of_all_rows_though_long_tables_are_cut(
    engine: Engine[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(report_module, "MAX_ROWS", 350)
    queues = [f"q{k:02}" for k in range(15)]
    events = [
        event(n * MINUTE + at, what, f"{queue}-{n}", queue=queue, kind="delay")
        for k, queue in enumerate(queues)
        for n in range(20 + k)
        for at, what in ((0, "submitted"), (1, "taken"), (20, "done"))
    ]
    events.append(event(0, "done", "q14-early", queue="q14", kind="delay", event_id="0-1"))
    figures = of(engine, events).figures()
    assert "throughput" in figures.truncated and len(figures.tables["throughput"]) == 350
    found = values(figures.totals, "queue", "submitted", "done", "failed", "wait_p99_ms")
    expected = [(f"q{k:02}", 20 + k, 20 + k + (k == 14), 0, 1) for k in reversed(range(15))]
    assert found == expected
    charted: dict[str, int] = {}
    for row in figures.series["throughput"]:
        charted[row["queue"]] = charted.get(row["queue"], 0) + row["submitted"]
    assert charted == {queue: n for queue, n, *_ in expected[:10]}
    assert any("backlog of q14 is a lower bound" in line for line in notes(figures))


@pytest.mark.parametrize(
    ("switches", "said"),
    [
        ({0: "all"}, ""),  # before anything happened
        ({600_000: "all"}, "10:10 UTC history = all"),
        ({0: "all", 600_000: "ops"}, "history = all, 2026-03-01 10:10 UTC history = ops"),
        ({600_000: "off"}, "10:10 UTC history = off"),
        ({}, ""),
    ],
)
def test_a_report_says_that_a_history_was_switched(
    engine: Engine[Any], switches: dict[int, str], said: str
) -> None:
    events = [event(at, "op", "-", f"op{at}|set|history|{to}") for at, to in switches.items()]
    events += [event(n * MINUTE + 1, "failed", f"f{n}", "w1") for n in range(20)]
    found = [line for line in notes(of(engine, events).figures()) if "was switched" in line]
    assert len(found) == bool(said) and said in "".join(found)


def test_a_setting_is_shown_as_it_was_given(engine: Engine[Any]) -> None:
    report = of(engine, [event(0, "op", "-", "op1|set|note|5%20%25%20of%20%C3%A9t%C3%A9")])
    assert values(rows(report, report.tables["changes"]), "change") == [("note = 5 % of été",)]


def test_the_peak_is_the_true_most_however_short(engine: Engine[Any]) -> None:
    burst = [event(100, "submitted", "r", "1|300", request="r", event_id="100-1")]
    burst += [event(101, "done", f"r/{n}", event_id=f"101-{n}") for n in range(1, 300)]
    burst += [event(5 * HOUR, "taken", "r/300"), event(5 * HOUR + 1, "done", "r/300")]
    report = of(engine, burst)
    assert report.step_ms > MINUTE
    for table in (report.tables["throughput"], report._throughput(report.step_ms)):
        assert values(rows(report, table), "peak", "grown") == [(300, 1), (1, 0)]


def test_how_deliveries_end_by_attempt(engine: Engine[Any]) -> None:
    running = [event(5000, "submitted", "s", "1|1", request="s"), event(5001, "taken", "s/1")]
    report = of(engine, REQUEST + running)
    found = rows(report, report.tables["retries"])
    names = ("attempt", "n", "done", "failed", "lost", "dead", "unsaid", "bad_share")
    assert values(found, *names) == [(1, 4, 1, 1, 0, 1, 1, 2 / 3), (2, 1, 1, 0, 0, 0, 0, 0.0)]


# --- fairness ----------------------------------------------------------------------------------


def fair(at: int, what: str, id: str, client: str | None) -> dict[str, Any]:
    return event(at, what, id, client, kind="fair", queue="f")


def test_jains_index_of_max_min_fair_parts(engine: Engine[Any]) -> None:
    history = [fair(0, "submitted", f"a{i}", "a") for i in range(6)]
    history += [fair(1, "submitted", f"b{i}", "b") for i in range(6)]
    history += [fair(2, "submitted", "c0", "c")]
    # In the first hour six of a's, two of b's, c's only one; in the second what is left of b.
    first = [f"a{i}" for i in range(6)] + ["b0", "b1", "c0"]
    history += [fair(100 + i, "taken", id, id[0]) for i, id in enumerate(first)]
    history += [fair(3_600_000 + i, "taken", f"b{i}", "b") for i in range(2, 6)]
    report = of(engine, history, weights={})
    found = rows(report, report.tables["fairness"])
    # 9 deliveries; c wants 1, the other two get (9 - 1) / 2 = 4 each.
    jain = (6 / 4 + 2 / 4 + 1) ** 2 / (3 * ((6 / 4) ** 2 + (2 / 4) ** 2 + 1))
    assert values(found, "client", "demand", "taken", "fair", "ratio", "jain") == [
        ("a", 6, 6, 4.0, 1.5, pytest.approx(jain)),
        ("b", 6, 2, 4.0, 0.5, pytest.approx(jain)),
        ("c", 1, 1, 1.0, 1.0, pytest.approx(jain)),
        ("b", 4, 4, 4.0, 1.0, 1.0),
    ]
    assert found[0]["share"] == 6 / 9
    # Where a counts twice, 8 are shared 2 to 1: its six are a bit more than that.
    report = of(engine, history, weights={("f", "a"): 2})
    found = rows(report, report.tables["fairness"])
    assert values(found, "client", "weight", "fair", "ratio")[:3] == [
        ("a", 2, pytest.approx(16 / 3), pytest.approx(6 * 3 / 16)),
        ("b", 1, pytest.approx(8 / 3), pytest.approx(2 * 3 / 8)),
        ("c", 1, 1.0, 1.0),
    ]


def test_clients_can_be_part_of_the_id(engine_for: Callable[[str | None], Engine[Any]]) -> None:
    history = [
        event(0, "submitted", "acme-1", "1|2", request="acme-1"),
        event(0, "submitted", "zoo-1", "1|1", request="zoo-1"),
        event(5, "taken", "acme-1/1"),
        event(6, "taken", "zoo-1/1"),
    ]
    report = of(engine_for(r"^(\w+)-"), history)
    found = rows(report, report.tables["fairness"])
    assert values(found, "client", "demand", "taken", "jain") == [
        ("acme", 2, 1, 1.0),
        ("zoo", 1, 1, 1.0),
    ]
    report = of(engine_for(None), history)
    assert rows(report, report.tables["fairness"]) == []


# --- anomalies ---------------------------------------------------------------------------------


def test_minutes_far_from_the_median_are_one_span(engine: Engine[Any]) -> None:
    usual = [("q", i, 10, 9 + i % 3, 0) for i in range(40)]
    usual[20] = ("q", 20, 10, 0, 50)
    usual[23] = ("q", 23, 10, 0, 70)
    usual[30] = ("q", 30, 14, 10, 0)  # more than ever, but not by 5
    usual[31] = ("q", 31, 10, 99, 0)  # more completions are no anomaly
    times = [("q", i, 9, 100.0 + i % 2, 9, 5.0) for i in range(40)]
    times[3] = ("q", 3, 2, 9999.0, 9, 5.0)  # of two entries only
    times[22] = ("q", 22, 9, 900.0, 9, 5.0)

    def anomalies(counted: list[Any], measured: list[Any]) -> list[Row]:
        names = {
            "throughput": ("queue", "from_at", "submitted", "done", "bad"),
            "latency": ("queue", "from_at", "waits", "wait_p95_ms", "runs", "run_p95_ms"),
        }
        tables = {
            name: pa.Table.from_pylist(
                [
                    dict(zip(names[name], (queue, moment(step * MINUTE), *rest), strict=True))
                    for queue, step, *rest in found
                ]
            )
            for name, found in (("throughput", counted), ("latency", measured))
        }
        inputs = {name: engine.relation(table) for name, table in tables.items()}
        how = {"step_ms": MINUTE, **anomaly_rule.VALUES}
        return rows_in_millis(engine.rows(engine.query("anomalies", how, **inputs)))

    found = anomalies(usual, times)
    names = ("metric", "side", "value", "median", "mad")
    assert values(found, *names) == [
        ("done", "below", 0.0, 10.0, 1.0),
        ("failed", "above", 70.0, 0.0, 0.0),
        ("wait_ms", "above", 900.0, pytest.approx(100.0, abs=1), pytest.approx(0.5, abs=0.5)),
    ]
    spans = [(since(row["from_ms"]), since(row["to_ms"])) for row in found]
    assert spans == [(20 * MINUTE, 24 * MINUTE)] * 2 + [(22 * MINUTE, 23 * MINUTE)]
    assert found[0]["z"] == pytest.approx(0.6745 * -10)
    mean = (50 + 70) / 40  # of the deviations
    assert found[1]["z"] == pytest.approx(70 / (1.2533 * mean))
    assert anomalies(usual[:29], times[:20]) == [], "too few minutes to know the usual"


# --- dead letters ------------------------------------------------------------------------------


def dead(n: int, message: str, **more: Any) -> dict[str, Any]:
    named = {"queue": "q", "kind": "request", "id": f"r{n % 4}/{n}", "state": "dead"}
    row: dict[str, Any] = (
        named
        | {
            "reason": "failed",
            "error_type": "Timeout",
            "error": message,
            "since_at": moment(n * 1000),
            "consumer": f"w{n % 3}",
        }
        | more
    )
    error = None if row["error_type"] is None else Failure(row["error_type"], row["error"])
    entry = Entry("", "dead", reason=row["reason"], error=error)
    return {"fingerprint": fingerprint(entry)} | row


def test_groups_have_the_clis_fingerprints(engine: Engine[Any]) -> None:
    letters = [dead(n, f"smtp-3 did not answer in {n} s", client=f"c{n % 2}") for n in range(6)]
    letters += [dead(7, "no such user", error_type="LookupError", reason="rejected")]
    letters += [dead(8, "", error_type=None, error=None, reason="lost")]
    letters += [{"queue": "q", "kind": "request", "_corrupt": "x"}]
    report = of(engine, dead=letters)
    expected = {
        fingerprint(Entry("", "dead", reason=reason, error=error)): n
        for n, reason, error in (
            (6, "failed", Failure("Timeout", "smtp-3 did not answer in 1 s")),
            (1, "rejected", Failure("LookupError", "no such user")),
            (1, "lost", None),
        )
    }
    found = rows(report, report.tables["dead_groups"])
    assert {row["fingerprint"]: row["entries"] for row in found} == expected
    first = found[0]
    assert first["form"] == "smtp-<n> did not answer in <n> s"
    assert first["message"].endswith("in 5 s")
    names = ("clients", "requests", "sample", "share", "failed", "lost")
    assert values(found, *names)[0] == (2, 0, "r1/5", 0.75, 6, 0)
    assert found[1]["lost"] == 1
    assert (since(first["first_ms"]), since(first["last_ms"])) == (0, 5000)
    assert {row["form"] for row in found[1:]} == {"lost", "no such user"}
    # Redacted before numbers are normalised and the end is cut off.
    texts = ("to ann7@example.org", "x" * 990 + " ann@example.org")
    letters = [dead(n, text, error_type="of ann@example.org") for n, text in enumerate(texts)]
    report = of(engine, dead=letters)
    shown = rows(report, report.tables["dead_groups"])
    assert len(shown) == 2 and not [row for row in shown if "ann" in str(row)]


def test_contrasts_of_a_group(engine: Engine[Any]) -> None:
    def body(n: int, region: str) -> bytes:
        return json.dumps({"region": region, "card": n}).encode()

    here = [
        dead(
            n,
            "timed out",
            fingerprint="aaaa",
            client="acme" if n % 10 else "zoo",
            consumer="w1",
            payload=body(n, "eu"),
        )
        for n in range(50)
    ]
    rest = [
        dead(
            n,
            "refused",
            fingerprint="bbbb",
            client=f"c{n % 10}",
            consumer="w1",
            payload=body(n, "us" if n % 5 else "eu") if n else b"\xff\x00",
        )
        for n in range(100)
    ]

    def contrasts(letters: list[Row], *, payloads: bool) -> dict[tuple[str, str], Row]:
        report = of(engine, dead=letters, payloads=payloads)
        found = rows(report, report.tables["contrasts"])
        return {(row["fingerprint"], row["field"]): row for row in found}

    traits = contrasts(here + rest, payloads=False)
    trait = traits["aaaa", "client"]
    assert (trait["value"], trait["share"], trait["rest"]) == ("acme", 0.9, 0.0)
    assert trait["surely"] == pytest.approx(share_difference(45, 50, 0, 100))
    assert ("aaaa", "consumer") not in traits, "all have it"
    trait = contrasts(here + rest, payloads=True)["aaaa", "payload.region"]
    assert (trait["value"], trait["share"], trait["rest"]) == ("eu", 1.0, pytest.approx(0.19))
    report = of(engine, dead=here)
    fields = engine.query("payload_fields", {"enveloped": "''"}, dead=report.dead)
    cards = [row["value"] for row in rows(report, fields) if row["field"] == "payload.card"]
    assert set(cards) == {"***"}
    assert contrasts(here, payloads=True) == {}, "nothing to compare with"


# --- requests ----------------------------------------------------------------------------------


def ran(id: str, begun: int, end: int | None, attempt: int = 1, **more: Any) -> Attempt:
    first = attempt == 1
    since: dict[str, Any] = {"since": "submitted" if first else "failed", "since_ms": 0}
    how = {"consumer": "w", "taken_ms": begun, "ended": "done", "ended_ms": end}
    return Attempt(id=id, attempt=attempt, **(since | how | more))


def segments(*attempts: Attempt) -> list[tuple[str, str, int, int]]:
    return [(s.what, s.id, s.from_ms, s.to_ms) for s in critical_path(attempts)]


def test_the_critical_path_follows_what_each_delivery_waited_for() -> None:
    # A limit of two: 1 and 2 begin, 3 begins when 1 ends, 4 a while after 2 ended; 3 fails once.
    found = segments(
        ran("r/1", 50, 100),
        ran("r/2", 50, 150),
        ran("r/3", 100, 200, ended="failed"),
        ran("r/4", 160, 300),
        ran("r/3", 260, 400, attempt=2, since_ms=200),
    )
    assert found == [
        ("queue", "r/1", 0, 50),
        ("run", "r/1", 50, 100),
        ("run", "r/3", 100, 200),
        ("again", "r/3", 200, 260),
        ("run", "r/3", 260, 400),
    ]
    assert found[0][2] == 0 and found[-1][3] == 400
    assert all(one[3] == two[2] for one, two in pairwise(found))


def test_an_unblocked_delivery_waited_for_a_worker() -> None:
    assert segments(ran("r/1", 10, 20), ran("r/2", 500, 600)) == [
        ("queue", "r/1", 0, 10),
        ("run", "r/1", 10, 20),
        ("turn", "r/2", 20, 500),
        ("run", "r/2", 500, 600),
    ]
    late = ran("r/2", 500, 600, since_ms=450)  # added when 1 was done long ago
    assert segments(ran("r/1", 10, 20), late) == [
        ("queue", "r/2", 450, 500),
        ("run", "r/2", 500, 600),
    ]


def test_one_millisecond_may_hold_an_attempt_its_failure_and_the_next_attempt() -> None:
    first = ran("r/1", 1, 1, ended="failed")
    assert segments(first, ran("r/1", 1, 5, attempt=2, since_ms=1)) == [
        ("queue", "r/1", 0, 1),
        ("run", "r/1", 1, 1),
        ("run", "r/1", 1, 5),
    ]
    # Replayed, its attempts are counted from 1 again.
    again = ran("r/1", 9, 9, ended="failed", since=None, since_ms=None)
    found = segments(first, again, ran("r/1", 9, 12, attempt=2, since_ms=9))
    assert found[-2:] == [("run", "r/1", 9, 9), ("run", "r/1", 9, 12)]


def test_critical_paths_terminate_for_any_history() -> None:
    assert critical_path([]) == [] and critical_path([ran("r/1", 5, None)]) == []
    same = [ran(f"r/{n}", 7, 7) for n in range(50)]
    assert segments(*same)[-1][2:] == (7, 7)
    chained = [ran(f"r/{n}", n, n + 1) for n in range(2000)]
    assert len(segments(*chained)) == 2000
    cut = ran("r/1", 50, 90, attempt=2, since_ms=40)  # its first attempt was trimmed
    assert segments(cut) == [("again", "r/1", 40, 50), ("run", "r/1", 50, 90)]
    own = ran("r/1", 50, 50, attempt=2, since_ms=50)
    assert segments(own) == [("run", "r/1", 50, 50)]


def test_requests_and_their_critical_paths(engine: Engine[Any]) -> None:
    quick = [
        event(0, "submitted", "s", "1|1", request="s"),
        event(5, "taken", "s/1"),
        event(9, "done", "s/1", run_ms=4),
        event(9, "request-done", "s"),
        event(9, "submitted", "open", "1|1", request="open"),
    ]
    report = of(engine, REQUEST + quick)
    names = ("request", "entries", "deliveries", "bad", "dead", "took_ms")
    assert values(rows(report, report.tables["requests"]), *names) == [
        ("r", 3, 4, 2, 1, 32001),
        ("s", 1, 1, 0, 0, 9),
    ]
    found = rows(report, report.tables["critical_paths"])
    path, _ = report.critical_path("r")
    own = ("place", "what", "id", "took_ms", "ended")
    assert values(path, *own) == values([r for r in found if r["request"] == "r"], *own)
    assert values(path, *own) == [
        (1, "queue", "r/1", 100, None),
        (2, "run", "r/1", 300, "done"),
        (3, "turn", "r/2", 600, None),
        (4, "run", "r/2", 500, "failed"),
        (5, "turn", "r/3", 500, None),
        (6, "run", "r/3", 30000, "dead"),
    ]
    assert report.critical_path("open") == ([], ())

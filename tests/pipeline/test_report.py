"""Reports: figures, the page in a browser, the commands."""

import json
import os
import re
import shutil
from contextlib import closing
from html import escape
from html.parser import HTMLParser
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
import redis

from benchmarks.foreign_jobs import fill
from redisq_ops.core.model.entry import Failure, Settlement
from redisq_ops.core.queues.fair import FairQueue
from redisq_ops.core.queues.request import RequestQueue
from redisq_ops.core.redis.operation import run as core_run
from redisq_ops.ops.deployment import Deployment
from redisq_ops.ops.recording.file import RecordingFile
from redisq_ops.ops.recording.sampler import Sampler
from redisq_ops.ops.redaction import NO_REDACTION
from redisq_ops.pipeline.report import charts
from redisq_ops.pipeline.report.quantities import duration, number
from redisq_ops.pipeline.source import schemas
from redisq_ops.pipeline.source.tables import TABLES

from ..command_line import Redisq, dead_letters
from .synthetic_history import BEGIN, MINUTE, SyntheticHistory

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from redisq_ops.pipeline.report.engine import Engine
    from redisq_ops.pipeline.report.figures import Figures

slow = pytest.mark.slow
PICTURE = Path(__file__).parents[2] / "docs" / "pictures" / "report.png"
HOSTILE = "</svg><script>alert(1)</script>\u202e\x1b[31m<img src=x onerror=alert(2)>'\""


def table(name: str, rows: list[dict[str, Any]]) -> pa.Table:
    """Rows as the data source returns them; times in ms."""
    columns = []
    for field in schemas.arrow(TABLES[name]):
        values = [row.get(field.name) for row in rows]
        if pa.types.is_timestamp(field.type):
            columns.append(pa.array(values, pa.int64()).cast(pa.timestamp("ms", "UTC")))
        else:
            columns.append(pa.array(values, field.type))
    return pa.table(columns, names=[c.name for c in TABLES[name].columns])


def frame(spark: "SparkSession", name: str, rows: list[dict[str, Any]]) -> "DataFrame":
    return spark.createDataFrame(table(name, rows), schemas.struct(TABLES[name]))


@pytest.fixture(scope="module")
def synthetic_history() -> SyntheticHistory:
    return SyntheticHistory()


@pytest.fixture(scope="module")
def figures(spark: "SparkSession", synthetic_history: SyntheticHistory) -> "Figures":
    from redisq_ops.pipeline.report.report import QueueReport
    from redisq_ops.pipeline.report.spark_engine import SparkEngine

    engine = SparkEngine(spark, NO_REDACTION, None)
    history, dead = (frame(spark, n, getattr(synthetic_history, n)) for n in ("history", "dead"))
    report = QueueReport(engine, history, dead)
    progress: list[tuple[int, int]] = []
    found = report.figures(progress=lambda done, total: progress.append((done, total)))
    engine.close()
    assert [done for done, _ in progress] == list(range(len(progress))), "progress"
    return found


def empty() -> "Figures":
    from redisq_ops.pipeline.report.figures import Figures

    names = (
        "latency",
        "throughput",
        "workers",
        "changes",
        "retries",
        "anomalies",
        "dead_groups",
        "contrasts",
        "fairness",
        "requests",
        "critical_paths",
    )
    return Figures(
        None,
        None,
        MINUTE,
        MINUTE,
        None,
        0,
        0,
        0,
        0,
        0,
        (),
        {name: [] for name in names},
        [],
        {"latency": [], "throughput": []},
    )


class Elements(HTMLParser):
    """The elements of a page and its text, as a browser reads them: white space is one space, and
    none between elements."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: set[str] = set()
        self.text: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes |= {name for name, _ in attrs}

    def handle_data(self, data: str) -> None:
        if not data.isspace():
            self.text.append(re.sub(r"\s+", " ", data))


# --- charts --------------------------------------------------------------------------------------


def test_numbers_and_durations_are_short() -> None:
    assert [duration(ms) for ms in (0, 0.5, 999, 1500, 90_000, 5_400_000, 2e8)] == [
        "0",
        "0.5 ms",
        "999 ms",
        "1.5 s",
        "1.5 min",
        "1.5 h",
        "2.31 d",
    ]
    assert [number(n) for n in (0, 12, 1500, 2_000_000, -3000)] == ["0", "12", "1.5k", "2M", "-3k"]


def test_a_timeline_has_the_values_in_a_unit_that_fits_them() -> None:
    waits = charts.Panel(
        "Wait", "wait", [charts.Series("p50", [90_000.0, None, 6e5])], durations=True
    )
    drawn = charts.timeline(BEGIN, MINUTE, [waits])
    steps = drawn["datasets"]["steps"]
    assert [step.get("p50") for step in steps] == [1.5, None, 10], "minutes; a gap stays a gap"
    assert steps[2]["time"] == "2026-03-01 12:02"
    assert '"wait, min"' in json.dumps(drawn)


# --- the figures ---------------------------------------------------------------------------------


@slow
def test_a_report_from_a_history_to_a_browser(
    figures: "Figures", synthetic_history: SyntheticHistory, tmp_path: Path
) -> None:
    """One test, so that one test process computes its tables once."""
    from redisq_ops.pipeline.report.report_page import page

    its_incidents_stand_out(figures, synthetic_history)
    its_slowest_request_is_explained(figures)
    its_figures_equal_a_plain_computation(figures, synthetic_history)
    text = page(figures, title="Queues of an afternoon", source="a generated history")
    its_page_is_one_file_that_loads_nothing(text)
    its_page_in_a_browser(text, tmp_path)


def its_incidents_stand_out(figures: "Figures", synthetic_history: SyntheticHistory) -> None:
    from redisq_ops.pipeline.report.figures import notes

    minutes = {
        (a["queue"], a["metric"], (a["from_ms"] - BEGIN) // MINUTE, (a["to_ms"] - BEGIN) // MINUTE)
        for a in figures.tables["anomalies"]
    }
    assert ("push", "submitted", 30, 90) in minutes, "a client's flood"
    assert any(m[:2] == ("mail", "failed") and m[2] == 100 and m[3] <= 128 for m in minutes)
    for row in figures.totals:
        own = [e for e in synthetic_history.history if e["queue"] == row["queue"]]
        for word in ("taken", "done", "failed", "dead"):
            assert row[word] == sum(e["event"] == word for e in own)
    assert {r["queue"]: r["submitted"] - r["done"] - r["dead"] for r in figures.totals} == {
        "mail": 0,
        "push": 0,
    }
    assert notes(figures) == [
        "Percentiles are exact.",
        "The dead letters are all that there are now, whenever they died.",
        "Clients' weights are unknown: all count as 1.",
    ]
    assert figures.step_ms == 5 * MINUTE and figures.anomaly_ms == MINUTE


def its_slowest_request_is_explained(figures: "Figures") -> None:
    slowest = figures.tables["requests"][0]
    assert (slowest["request"], slowest["entries"]) == ("letter-060", 400)
    path = [r for r in figures.tables["critical_paths"] if r["request"] == "letter-060"]
    assert sum(r["took_ms"] for r in path) == slowest["took_ms"], "no time is missing"
    assert len({r["request"] for r in figures.tables["critical_paths"]}) == 5


def its_figures_equal_a_plain_computation(
    figures: "Figures", synthetic_history: SyntheticHistory
) -> None:
    """Every step of `mail`'s charts, from the events by loops; `push` has other rules for waits."""
    step = figures.step_ms
    n = (synthetic_history.history[-1]["at"] - BEGIN) // step + 1
    submitted, done, bad, open_at_most, busy = ([0.0] * n for _ in range(5))
    workers: list[set[str]] = [set() for _ in range(n)]
    waits: list[list[int]] = [[] for _ in range(n)]
    runs: list[list[int]] = [[] for _ in range(n)]
    is_open = 0
    entered: dict[str, int] = {}
    begun: dict[str, tuple[int, str]] = {}
    for row in (row for row in synthetic_history.history if row["queue"] == "mail"):
        k, at, event, id = (row["at"] - BEGIN) // step, row["at"], row["event"], row["id"]
        open_at_most[k] = max(open_at_most[k], is_open)
        if event == "submitted":
            size = int(row["detail"].partition("|")[2])
            submitted[k] += size
            is_open += size
            entered |= {f"{id}/{i}": at for i in range(1, size + 1)}
        elif event == "taken":
            if id in entered:
                waits[k].append(at - entered.pop(id))
            begun[id] = at, row["by"]
        elif event in ("done", "failed", "dead"):
            since, worker = begun.pop(id)
            done[k] += event == "done"
            bad[k] += event != "done"
            is_open -= event != "failed"
            if event == "done":
                runs[(since - BEGIN) // step].append(row["run_ms"])
            for touched in range((since - BEGIN) // step, min(n - 1, k) + 1):
                low = BEGIN + touched * step
                busy[touched] += max(0, min(at, low + step) - max(since, low)) / step
                workers[touched].add(worker)
        open_at_most[k] = max(open_at_most[k], is_open)

    def found(rows: list[dict[str, Any]], name: str) -> list[Any]:
        values: list[Any] = [None] * n
        for row in rows:
            if row["queue"] == "mail":
                values[(row["from_ms"] - BEGIN) // step] = row[name]
        return values

    counted, timed = figures.series["throughput"], figures.series["latency"]
    for name, expected in (("submitted", submitted), ("done", done), ("bad", bad)):
        assert [value or 0 for value in found(counted, name)] == expected, name
    peaks = found(counted, "peak")
    assert [p for p in peaks if p is not None] == [
        most for most, p in zip(open_at_most, peaks, strict=True) if p is not None
    ]
    for name, values in (("wait", waits), ("run", runs)):
        for share in (50, 95, 99):
            ranks = [None if not each else _percentile(each, share) for each in values]
            assert found(timed, f"{name}_p{share}_ms") == pytest.approx(ranks), (name, share)
    shown = figures.tables["workers"]
    assert [value or 0 for value in found(shown, "workers")] == [len(each) for each in workers]
    assert [value or 0 for value in found(shown, "busy")] == pytest.approx(busy)


def _percentile(values: list[int], share: int) -> float:
    """Interpolated, as Spark's `percentile`."""
    ordered = sorted(values)
    place = (len(ordered) - 1) * share / 100
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def test_a_report_compares_two_times_and_its_backlog_begins_with_the_history(
    engine: "Engine[Any]",
) -> None:
    from redisq_ops.pipeline.report.figures import notes
    from redisq_ops.pipeline.report.report import QueueReport
    from redisq_ops.pipeline.report.report_page import page

    def event(at: int, event: str, id: str, **more: Any) -> dict[str, Any]:
        return {
            "queue": "mail",
            "kind": "delay",
            "shard": 0,
            "event_id": f"{BEGIN + at}-1",
            "by": "w1",
            "at": BEGIN + at,
            "event": event,
            "id": id,
        } | more

    def letter(at: int, fingerprint: str) -> dict[str, Any]:
        return {
            "queue": "mail",
            "kind": "delay",
            "id": f"l{at}",
            "since_at": BEGIN + at,
            "reason": "failed",
            "fingerprint": fingerprint,
        }

    first = [
        event(0, "submitted", "a"),
        event(1, "submitted", "b"),
        event(2, "submitted", "c"),
        event(500, "taken", "a"),
        event(900, "done", "a", run_ms=400),
        event(950, "done", "lost-submission"),
    ]
    second = [
        event(86_400_000, "taken", "b"),
        event(86_400_100, "done", "b", run_ms=100),
        event(86_400_200, "submitted", "d"),
        event(86_400_300, "op", "", detail="op-1|dead|waiting|5"),
        event(86_400_400, "op", "", detail="op-2|set|limit|4"),
    ]
    for row in (first[0], second[3]):
        row["number"] = None
    dead = engine.relation(table("dead", [letter(10, "old"), letter(86_400_050, "new")]))
    earlier, events = (engine.relation(table("history", rows)) for rows in (first, second))
    report = QueueReport(
        engine, events, dead, earlier=earlier, against=QueueReport(engine, earlier, dead)
    )
    figures = report.figures()
    (last,) = figures.tables["throughput"]
    assert (last["grown"], last["before"], figures.opened) == (1 - 1 + 1 + 5, 0, {"mail": 1})
    compared = {
        (row["metric"], row["fingerprint"]): (row["value"], row["against"])
        for row in figures.tables["comparison"]
    }
    assert compared["submitted", None] == (1, 3) and compared["done", None] == (1, 2)
    assert compared["run_p50_ms", None] == (100, 400) and compared["workers", None] == (1, 1)
    assert compared["dead_letters", "new"] == (1, None)
    assert compared["dead_letters", "old"] == (None, 1)
    assert [(row["op"], row["change"], row["entries"]) for row in figures.tables["changes"]] == [
        ("op-1", "dead → waiting", 5),
        ("op-2", "limit = 4", None),
    ]
    assert "lower bound" not in "".join(notes(figures))
    assert "The dead letters are all that there are now, whenever they died." in notes(figures)
    shown = "".join(Elements(page(figures)).text)
    assert "Compared with 2026-03-01 12:00:00 – 12:00:00 UTC" in shown
    assert "dead letters, group new1–new" in shown and "dead letters, group old–1gone" in shown
    assert "limit = 4" in shown


def test_a_report_of_an_empty_history(engine: "Engine[Any]") -> None:
    from redisq_ops.pipeline.report.report import QueueReport

    history, dead = (engine.relation(table(name, [])) for name in ("history", "dead"))
    figures = QueueReport(engine, history, dead).figures()
    assert figures.begin_ms is None and not any(figures.tables.values())


def test_a_page_of_an_empty_history_gives_reasons() -> None:
    from redisq_ops.pipeline.report.report_page import page

    shown = "".join(Elements(page(empty())).text)
    assert "no events" in shown and "Percentiles" in shown
    for section in (
        "What stands out",
        "Queues",
        "Fairness",
        "What the slowest requests waited for",
    ):
        assert f"{section}None: no event in this time (redisq settings QUEUE shows" in shown
    assert "Dead lettersNone: no dead letters." in shown


# --- the page ------------------------------------------------------------------------------------


def its_page_is_one_file_that_loads_nothing(text: str) -> None:
    assert len(text.encode()) < 1_500_000
    elements = Elements(text)
    assert not {"link", "img", "iframe", "object", "image", "use"} & set(elements.tags)
    assert not {"src", "href", "srcset", "action"} & elements.attributes
    assert not [name for name in elements.attributes if name.startswith("on")]
    assert "default-src 'none'; script-src 'sha256-" in text
    shown = "".join(elements.text)
    for words in (
        "What stands out",
        "Queue mail",
        "entries per 5 min",
        "p99",
        "TimeoutError",
        "Jain",
        "What the slowest requests waited for",
        "letter-060",
        "Percentiles are exact",
    ):
        assert words in shown, words
    assert elements.tags.count("figure") == 5 and "prefers-color-scheme:dark" in text


def test_a_page_escapes_foreign_text() -> None:
    from redisq_ops.pipeline.report.report_page import page

    figures = empty()
    place = {"queue": HOSTILE, "from_ms": BEGIN, "to_ms": BEGIN + MINUTE}
    counts = dict.fromkeys(
        ("submitted", "taken", "done", "failed", "lost", "dead", "bad", "grown", "peak", "before"),
        3,
    )
    times = {f"{w}_{p}_ms": 7.0 for w in ("wait", "run") for p in ("p50", "p95", "p99", "max")}
    figures.tables.update(
        latency=[place | times | {"taken": 1, "waits": 1, "runs": 1}],
        throughput=[place | counts],
        retries=[place | counts | {"attempt": 1, "n": 4, "bad_share": 0.5, "unsaid": 0}],
        anomalies=[place | {"metric": "failed", "side": "above", "value": 9.0, "median": 0.0,
                            "mad": 0.0, "z": 9.0}],
        dead_groups=[place | {"fingerprint": HOSTILE, "entries": 1, "share": 1.0, "failed": 1,
                              "lost": 0, "rejected": 0, "clients": 1, "requests": 1,
                              "first_ms": BEGIN, "last_ms": BEGIN, "sample": HOSTILE,
                              "error_type": HOSTILE, "form": HOSTILE, "message": HOSTILE}],
        contrasts=[place | {"fingerprint": HOSTILE, "field": HOSTILE, "value": HOSTILE,
                            "share": 1.0, "rest": 0.0, "surely": 1.0}],
        workers=[place | {"workers": 1, "busy": 0.5}],
        changes=[place | {"at_ms": BEGIN, "op": HOSTILE, "change": HOSTILE, "entries": None}],
        comparison=[place | {"metric": "done", "fingerprint": HOSTILE, "value": 1.0,
                             "against": 2.0}],
        fairness=[place | {"client": HOSTILE, "weight": 3, "taken": 1, "fair": 1.0, "jain": 1.0,
                           "wait_p50_ms": 1.0}],
        requests=[place | {"request": HOSTILE, "took_ms": 9, "entries": 1, "bad": 0}],
        critical_paths=[place | {"request": HOSTILE, "what": "run", "id": HOSTILE, "attempt": 1,
                                 "consumer": HOSTILE, "ended": HOSTILE, "took_ms": 9}],
    )  # fmt: skip
    figures.series.update({name: figures.tables[name] for name in figures.series})
    figures.totals.append(place | counts | {"wait_p99_ms": 7.0, "run_p99_ms": 7.0})
    from dataclasses import replace

    text = page(
        replace(
            figures,
            begin_ms=BEGIN,
            end_ms=BEGIN + MINUTE,
            failures_only=(HOSTILE,),
            against=(BEGIN, BEGIN),
        ),
        title=HOSTILE,
        source=HOSTILE,
    )
    elements = Elements(text)
    assert "img" not in elements.tags
    assert elements.tags.count("script") == elements.tags.count("figure") + 1, (
        "none is closed early"
    )
    assert "\u202e" not in text and "\x1b" not in text
    assert "</svg><script>alert(1)</script>\\u202e\\x1b[31m" in "".join(elements.text)
    assert text.count("alert(2)") == text.count(escape("onerror=alert(2)>")) + text.count(
        "onerror=alert(2)\\u003e\\u0027"
    ), "foreign text is escaped, or data of a chart"
    assert "</svg><script>" in json.dumps(charts_of(text)), "the data of a chart stays as it is"


def test_a_single_group_has_no_contrasts(
    capsys: pytest.CaptureFixture[str],
) -> None:
    from redisq_ops.cli.report_tables import print_groups
    from redisq_ops.cli.session import Session
    from redisq_ops.pipeline.report.report_page import page

    figures = empty()
    own = {"queue": "mail", "fingerprint": "abcd1234"}
    figures.tables.update(
        dead_groups=[
            own
            | {
                "entries": 3,
                "share": 1.0,
                "failed": 3,
                "lost": 0,
                "rejected": 0,
                "clients": 0,
                "requests": 1,
                "first_ms": None,
                "last_ms": None,
                "sample": "r1/1",
                "error_type": "E",
                "form": "no",
                "message": "no",
            }
        ],
    )
    why = "he dead letters of mail are one group, with no others to compare it with"
    shown = page(figures)
    assert f"T{why}." in shown and "in common" not in shown.lower()
    print_groups(Session({}), figures.tables["dead_groups"], [])
    assert f"\nt{why}\n" in capsys.readouterr().out


def test_the_backlog_is_never_negative_and_states_its_beginning() -> None:
    """A history that begins in the middle: it has ends of entries without their submission."""
    from dataclasses import replace

    from redisq_ops.pipeline.report.figures import notes
    from redisq_ops.pipeline.report.report_page import page

    figures = replace(empty(), begin_ms=BEGIN, end_ms=BEGIN + 3 * MINUTE, deliveries=9)
    names = ("submitted", "taken", "done", "failed", "lost", "dead", "bad")
    rows = [
        {
            "queue": "mail",
            "from_ms": BEGIN + n * MINUTE,
            **dict.fromkeys(names, 3),
            "grown": grown,
            "peak": grown,
            "before": 9,
        }
        for n, grown in enumerate((-3, -9, -4))
    ]
    times = {f"{w}_{p}_ms": 7.0 for w in ("wait", "run") for p in ("p50", "p95", "p99", "max")}
    figures.series["throughput"] = figures.tables["throughput"] = rows
    figures.totals.append({**rows[0], "wait_p99_ms": None, "run_p99_ms": None})
    figures.series["latency"] = [
        {"queue": "mail", "from_ms": BEGIN, **times, "taken": 1, "waits": 1, "runs": 1}
    ]
    (chart,) = charts_of(page(figures))
    steps = chart["datasets"]["steps"]
    assert [step["backlog"] for step in steps] == [6, 0, 5, 5], "the last step has no event"
    assert (
        "The backlog of mail is a lower bound: at least 9 entries were submitted before its "
        "history begins."
    ) in notes(figures)


def charts_of(text: str) -> list[dict[str, Any]]:
    """The specifications of a page's charts."""
    found = re.findall(r'<script type="application/json">(.*?)</script>', text)
    return [json.loads(data) for data in found]


def test_a_failed_report_leaves_the_previous_tables(tmp_path: Path, engine: "Engine[Any]") -> None:
    from redisq_ops.pipeline.report.report import QueueReport

    def report() -> "QueueReport[Any]":
        history, dead = (engine.relation(table(name, [])) for name in ("history", "dead"))
        return QueueReport(engine, history, dead)

    class FullDisk(type(engine)):  # type: ignore[misc]
        def write(self, relation: Any, folder: Path) -> None:
            if folder.name == "throughput":
                raise OSError("the disk is full")
            super().write(relation, folder)

    written = set(report().write(tmp_path))
    (tmp_path / "latency" / "earlier").touch()
    again = report()
    again.engine.__class__ = FullDisk
    with pytest.raises(OSError, match="full"):
        again.write(tmp_path)
    assert (tmp_path / "latency" / "earlier").exists()
    assert {path.name for path in tmp_path.iterdir()} == written
    again.engine.__class__ = FullDisk.__base__
    report().write(tmp_path)
    assert not (tmp_path / "latency" / "earlier").exists()
    assert {path.name for path in tmp_path.iterdir()} == written


def test_a_page_of_thousands_of_queues_stays_small() -> None:
    from dataclasses import replace

    from redisq_ops.pipeline.report.report_page import page

    figures = empty()
    counts = dict.fromkeys(
        ("submitted", "taken", "done", "failed", "lost", "dead", "bad", "grown", "peak", "before"),
        9,
    )
    times = {
        f"{w}_{p}_ms": 1e6 + i
        for i, p in enumerate(("p50", "p95", "p99", "max"))
        for w in ("wait", "run")
    }
    figures.series["throughput"] = [
        {"queue": "q" * 120 + str(q), "from_ms": BEGIN + i * MINUTE, **counts}
        for q in range(60)
        for i in range(150)
    ]
    figures.series["latency"] = [
        {k: row[k] for k in ("queue", "from_ms")} | times | {"taken": 9, "waits": 9, "runs": 9}
        for row in figures.series["throughput"]
    ]
    figures.tables.update(
        throughput=figures.series["throughput"], latency=figures.series["latency"]
    )
    figures.totals.extend(
        row | {"wait_p99_ms": None, "run_p99_ms": None}
        for row in figures.series["throughput"]
        if row["from_ms"] == BEGIN
    )
    text = page(replace(figures, begin_ms=BEGIN, end_ms=BEGIN + 150 * MINUTE))
    assert len(text.encode()) < 1_500_000
    assert re.search(r"<h2>5\d more queues</h2>", text)


def its_page_in_a_browser(text: str, tmp_path: Path) -> None:
    """Debian's Chromium draws it; the picture of the docs is this one."""
    chromium = shutil.which("chromium")
    if chromium is None:
        if os.environ.get("REDISQ_REQUIRE_CHROMIUM"):
            pytest.fail("no chromium on this machine, and the test needs one")
        return  # the remaining checks need Chromium
    from playwright.sync_api import sync_playwright

    file = tmp_path / "report.html"
    file.write_text(text, encoding="utf-8")
    labels = "document.querySelectorAll('.chart .role-axis-label text')"
    hour = f"[...{labels}].map(e => e.textContent).sort()"
    with (
        sync_playwright() as playwright,
        playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"]) as browser,
    ):
        shown = browser.new_page(viewport={"width": 1000, "height": 1000})
        shown.set_default_timeout(90_000)  # a busy machine compiles the page's script for long
        errors: list[str] = []
        shown.on("console", lambda message: errors.append(message.text))
        shown.on("pageerror", lambda error: errors.append(str(error)))
        shown.goto(file.as_uri())
        shown.wait_for_function("document.querySelectorAll('.chart svg').length == 5")
        chart = shown.locator(".chart").first
        chart.scroll_into_view_if_needed()
        box = chart.bounding_box()
        assert box is not None
        shown.mouse.move(box["x"] + 300, box["y"] + 120)
        tooltip = shown.locator("#vg-tooltip-element.visible")
        assert "submitted" in tooltip.inner_text()
        before = shown.evaluate(hour)
        shown.keyboard.down("Control")
        shown.mouse.wheel(0, -400)
        shown.keyboard.up("Control")
        shown.wait_for_function(f"before => String({hour}) != String(before)", arg=before)
        shown.mouse.dblclick(box["x"] + 300, box["y"] + 120)
        shown.wait_for_function(f"before => String({hour}) == String(before)", arg=before)
        shown.mouse.move(0, 0)
        shown.set_viewport_size({"width": 1000, "height": 2350})
        shown.evaluate("scrollTo(0, 0)")
        light = shown.screenshot(path=tmp_path / "light.png")
        shown.emulate_media(color_scheme="dark")
        dark = shown.screenshot(path=tmp_path / "dark.png")
        shown.emulate_media(media="print", color_scheme="dark")
        assert shown.evaluate("getComputedStyle(document.body).backgroundColor") == (
            "rgb(255, 255, 255)"
        ), "paper is white in dark mode, too"
    assert errors == [], "violations of the content security policy are logged, too"
    assert len(light) > 100_000 and len(dark) > 100_000, "a blank page is smaller"
    if os.environ.get("REDISQ_PICTURES") == "redraw":
        shutil.copy(tmp_path / "light.png", PICTURE)


# --- the commands --------------------------------------------------------------------------------


def settle(queue: Any, n: int, consumer: str, outcome: str, error: str = "") -> None:
    taken = queue.take(n, consumer=consumer).deliveries
    value = Failure("TimeoutError", error).encoded() if error else b""
    queue.settle([Settlement(d, outcome, value) for d in taken])  # type: ignore[arg-type]


def worked(client: redis.Redis) -> None:
    """A request of six, one of them failing once, one dead; a fair queue of two clients."""
    mail, push = RequestQueue(client, "mail"), FairQueue(client, "push")
    mail.configure("all-1", 1, {"history": "all"})
    push.configure("all-2", 1, {"history": "all"})
    mail.submit([b'{"region": "eu"}'] * 6, id="today")
    settle(mail, 2, "w1", "ack")
    settle(mail, 1, "w2", "fail", "no answer in 5 s")
    settle(mail, 1, "w2", "reject", HOSTILE)
    settle(mail, 4, "w1", "ack")
    done = mail.request("today")
    assert done is not None and done.state == "done"
    push.submit("acme", [b"1", b"2", b"3"])
    push.submit("zoo", [b"1"])
    push.weigh("acme", 3)
    settle(push, 4, "w1", "ack")


def test_spark_settings_follow_the_number_of_rows(client: redis.Redis) -> None:
    from redisq_ops.core.redis.operation import run
    from redisq_ops.pipeline.session import spark_tuning

    worked(client)
    events = sum(client.xlen(f"redisq:{{{name}}}:hist") for name in ("mail", "push"))
    assert run(client, spark_tuning.server_rows(["history"], (), "redisq")) == events > 5
    assert (
        run(client, spark_tuning.server_rows(["history", "dead"], ("mail", "push"), "redisq"))
        == events + 1
    )
    assert run(client, spark_tuning.weights((), "redisq")) == {("push", "acme"): 3}
    few, many = spark_tuning.startup_conf(events), spark_tuning.startup_conf(spark_tuning.SMALL)
    assert any("TieredStopAtLevel" in word for word in few)
    assert "spark.sql.codegen.wholeStage=false" in few
    assert many == ["spark.sql.shuffle.partitions=4"], "the rest is Spark's own"


def test_foreign_bytes_are_escaped_on_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    from redisq_ops.cli.report_tables import print_groups
    from redisq_ops.cli.session import Session

    row = {
        "queue": HOSTILE,
        "fingerprint": "f00d",
        "entries": 7,
        "share": 1.0,
        "lost": 0,
        "clients": 0,
        "requests": 2,
        "last_ms": BEGIN,
        "error_type": None,
        "form": HOSTILE,
    }
    trait = {
        "queue": HOSTILE,
        "fingerprint": "f00d",
        "field": "client",
        "value": HOSTILE,
        "share": 0.996,
        "rest": 0.001,
    }
    print_groups(Session({}, utc=True), [row], [trait])
    shown = capsys.readouterr().out
    assert "\u202e" not in shown and "\x1b" not in shown and "\\u202e\\x1b[31m" in shown
    assert ">99 % have client=" in shown and "<1 % of the rest" in shown


@pytest.mark.parametrize("absent", ["jinja2", "vl_convert"])
def test_a_page_without_what_writes_it_is_refused_before_spark_starts(
    absent: str,
    url: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from redisq_ops.cli import queue_report
    from redisq_ops.cli.main import run

    monkeypatch.setattr(queue_report, "find_spec", lambda name: None if name == absent else name)
    assert run(["--url", url, "spark", "report", "--html", str(tmp_path / "report.html")]) == 2
    assert "pip install 'redisq-ops[report]'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["report", "nowhere"], 1, "nowhere"),
        (["report", "--since", "1h", "--until", "2h"], 2, "--since is not before --until"),
        (
            ["report", "--since", "1h", "--against", "30m"],
            2,
            "--against 30m: that time is not before",
        ),
        (["report", "--since", "noon"], 2, "'noon' is not a time"),
        (["report", "--client", "("], 2, "--client"),
        (["report", "--client", "acme"], 2, "a group that matches the client"),
        (["report", "--html", "/nowhere/report.html"], 2, "must be a file in an existing folder"),
        (["report", "--parquet", f"{__file__}/x"], 2, "must be a folder"),
        (["report", "--lake", "/nowhere"], 2, "no lake at /nowhere"),
        (["report", "--as-of", "1h"], 2, "--as-of needs --lake"),
        (["critical-path", "mail/r", "--queue", "push"], 1, "isn't in queue push"),
    ],
)
def test_bad_arguments_are_refused_before_spark_starts(
    words: list[str], code: int, message: str, url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    from redisq_ops.cli.main import run

    assert run(["--url", url, "spark", *words]) == code
    err = capsys.readouterr().err
    assert message in err and len(err.splitlines()) == 1


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["nowhere"], 1, "nowhere"),
        (["no*"], 1, "no queue matches 'no*'"),
        (["--since", "1h", "--until", "2h"], 2, "--since is not before --until"),
        (["--against", "yesterday", "--since", "48h"], 2, "is not before the report's"),
        (["--client", "("], 2, "--client"),
        (["--html", "/nowhere/report.html"], 2, "must be a file in an existing folder"),
        (["--parquet", f"{__file__}/x"], 2, "must be a folder"),
        (["--lake", "/nowhere"], 2, "no lake at /nowhere"),
        (["--as-of", "1h"], 2, "--as-of needs --lake"),
    ],
)
def test_bad_arguments_are_refused_in_one_line(
    words: list[str], code: int, message: str, url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    from redisq_ops.cli.main import run

    assert run(["--url", url, "report", *words]) == code
    err = capsys.readouterr().err
    assert message in err and len(err.splitlines()) == 1


def test_a_report_of_another_programs_queue_has_what_it_keeps_and_a_recordings_samples(
    redisq: Redisq, client: redis.Redis, tmp_path: Path
) -> None:
    fill(client, "bullmq", 7)
    redisq("discover", "--register", "--yes")
    with closing(RecordingFile(str(tmp_path / "q.rec"), 10**7)) as file:
        file.add(core_run(client, Sampler(Deployment(client)).sample()))
    words = ["report", "bullmq:mail", "--recording", str(file.path)]
    html = tmp_path / "report.html"
    head, *rows = redisq.rows(*words, "--html", str(html))
    found = {row["table"]: row for row in rows}
    assert found["dead_groups"]["entries"] == found["tasks"]["failed"] == 7
    assert (found["samples"]["waiting"], found["samples"]["dead"]) == (7, 7)
    unknown = [found["tasks"][name] for name in ("ended", "p50_ms")]
    assert [*unknown, found["samples"]["in_per_min"]] == [None] * 3, "it keeps no such figure"
    assert "removeOnComplete" in found["tasks"]["remarks"]
    assert "keep no history of bullmq:mail" in head["notes"][0]
    assert "keep no history" in head["missing"]["latency"]
    page = " ".join(html.read_text().split())
    assert "Samples of bullmq:mail" in page and "in a minute unknown" in page
    assert "recording" not in redisq(*words[:2])
    assert "no recording" in redisq.refusal(*words[:3], __file__, code=2)


def test_more_rows_than_fit_into_memory_are_refused(
    client: redis.Redis, url: str, capsys: pytest.CaptureFixture[str], monkeypatch: Any
) -> None:
    from redisq_ops.cli.commands import report
    from redisq_ops.cli.main import run

    worked(client)
    monkeypatch.setattr(report, "MOST_ROWS", 5)
    assert run(["--url", url, "report", "mail"]) == 1
    assert "history is too large for redisq report (5 rows" in capsys.readouterr().err


def test_a_name_with_a_star_stands_for_the_queues_that_match(
    client: redis.Redis, url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    from redisq_ops.cli.main import run

    for name in ("mail", "mail-eu", "other"):
        dead_letters(client, 2, name)
    assert run(["--url", url, "report", "mail*", "--json"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert {row["queue"] for row in rows if row.get("queue")} == {"mail", "mail-eu"}

"""Commands about Spark print the JSON that they declare, with the figures of a real history."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest
import redis

from redisq_ops import Failure, FairQueue, RequestQueue, Settlement, Worker, connect
from redisq_ops.ops.groups.fingerprint import fingerprint

from ..command_line import Redisq
from ..docs.json_scenario import Collector
from ..docs.test_json import mistakes, unseen
from .test_report import charts_of, worked
from .test_results import SharedSession

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def history(url: str) -> None:
    """A fair queue whose clients fail differently, and a finished request, with full history."""
    client = connect(url)
    jobs = FairQueue(client, "jobs")
    jobs.configure("all-1", 1, {"history": "all"})
    for name in ("acme", "bolt"):
        jobs.submit(name, [b'{"region": "eu"}'] * 20)
    taken = jobs.take(40, consumer="web-1").deliveries
    errors = {"acme": Failure("Timeout", "none").encoded(), "bolt": Failure("Key", "x").encoded()}
    jobs.settle([Settlement(each, "reject", errors[each.client or ""]) for each in taken])
    letters = RequestQueue(client, "letters")
    letters.configure("all-1", 1, {"history": "all"})
    letters.submit([b"ann", b"bob"], id="r1")
    Worker(letters, lambda work: work.payload, burst=True).run()
    client.close()


def rounded(tables: Any) -> Any:
    """The same with numbers of nine digits: the last ones depend on the order of a sum."""
    if isinstance(tables, dict):
        return {name: rounded(value) for name, value in tables.items()}
    if isinstance(tables, list):
        return [rounded(value) for value in tables]
    return float(f"{tables:.9g}") if isinstance(tables, float) else tables


@pytest.mark.slow
@pytest.mark.alike
def test_spark_s_commands_print_what_they_declare_and_the_figures_of_a_real_history(
    spark: "SparkSession",
    redisq: Redisq,
    url: str,
    client: redis.Redis,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from redisq_ops.cli import spark_session as running
    from redisq_ops.cli.commands import spark as reading

    monkeypatch.setattr(running, "started", lambda s, given, *, waits: SharedSession(spark))
    for module in (running, reading):
        monkeypatch.setattr(module, "url_for_workers", lambda s, spark: url)
    monkeypatch.setenv("REDIS_URL", url)
    history(url)
    worked(client)
    (tmp_path / "lines.txt").write_text("one\ntwo\n")
    lines = (str(tmp_path / "lines.txt"), "--queue", "letters", "--name", "day")
    collect = Collector(redisq)
    collect("SparkTables", "spark", "schema")
    collect("SparkColumns", "spark", "schema", "dead")
    collect("SparkDoctor", "spark", "doctor", code=None)
    collect("SparkSubmission", "spark", "submit", *lines, "--dry-run")
    collect("SparkSubmission", "spark", "submit", *lines)
    collect("SparkExport", "spark", "export", "--table", "dead", "--lake", str(tmp_path / "lake"))
    out = str(tmp_path / "out.parquet")
    collect("SparkResults", "spark", "results", out, "--queue", "letters", code=None)
    groups = collect("SparkErrorGroup", "spark", "groups", "--payloads")
    path = collect("SparkCriticalPath", "spark", "critical-path", "mail/today")
    html, tables, recording = tmp_path / "r.html", tmp_path / "tables", str(tmp_path / "q.rec")
    redisq("recording", "write", recording, "--for", "1s")
    files = ("--html", str(html), "--parquet", str(tables), "--recording", recording)
    report: dict[str, list[dict[str, Any]]] = {}
    for row in collect("QueueReport", "spark", "report", *files):
        report.setdefault(row["table"], []).append(row)
        if row["table"] != "report":
            collect.rows["QueueReport"].remove(row)
            name = "".join(map(str.title, row["table"].split("_")))
            collect.rows[f"QueueReport{name}"].append(row)
    assert mistakes(collect.rows) == set()
    assert unseen(collect.rows) == {}
    without_spark: dict[str, list[dict[str, Any]]] = {}
    for row in map(json.loads, redisq("report", "--json", *files[-2:]).splitlines()):
        without_spark.setdefault(row["table"], []).append(row)
    for row in (*without_spark["tasks"], *report["tasks"]):
        del row["since_ms"], row["until_ms"]  # the hour before each of the two
    assert rounded(without_spark) == rounded(report)

    (counted,) = of("mail", report["throughput"])
    assert {n: counted[n] for n in ("submitted", "taken", "done", "failed", "dead", "grown")} == {
        "submitted": 6,
        "taken": 7,
        "done": 5,
        "failed": 1,
        "dead": 1,
        "grown": 0,
    }
    assert [of(name, report["latency"])[0]["waits"] for name in ("mail", "push")] == [6, 4]
    fair = of("push", report["fairness"])
    assert {(r["client"], r["weight"], r["taken"], r["jain"]) for r in fair} == {
        ("acme", 3, 3, 1.0),
        ("zoo", 1, 1, 1.0),
    }
    (request,) = of("mail", report["requests"])
    assert (request["request"], request["entries"], request["bad"]) == ("today", 6, 2)
    shown = html.read_text()
    assert "mail/today" in shown and len(charts_of(shown)) >= 4
    assert {table.name for table in tables.iterdir()} == set(report) - {"report"} | {
        "anomalies",
        "changes",
        "contrasts",
    }
    assert pq.read_table(tables / "dead_groups").num_rows == len(report["dead_groups"])

    assert path[0]["from_ms"] == request["submitted_ms"]
    assert sum(r["took_ms"] for r in path) == request["took_ms"]
    redisq("spark", "critical-path", "tomorrow", code=1)
    assert "no delivery of request tomorrow" in redisq.err
    (group,) = of("mail", groups)
    (entry,) = RequestQueue(client, "mail").page("dead").entries
    assert (group["fingerprint"], group["entries"]) == (fingerprint(entry), 1)
    assert group["sample"] == entry.id


def of(queue: str, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [row for row in rows if row["queue"] == queue]

"""docs/reference/json.md has the fields that the commands about Spark print."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import redis

from redisq_ops import Failure, FairQueue, RequestQueue, Settlement, Worker, connect

from ..command_line import Redisq
from ..docs.json_scenario import Collector
from ..docs.test_json import difference
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
    mail = RequestQueue(client, "mail")
    mail.configure("all-1", 1, {"history": "all"})
    mail.submit([b"ann", b"bob"], id="r1")
    Worker(mail, lambda work: work.payload, burst=True).run()
    client.close()


@pytest.mark.slow
@pytest.mark.alike
def test_the_reference_has_the_fields_of_spark_s_commands(
    spark: "SparkSession", redisq: Redisq, url: str, client: redis.Redis, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    from redisq_ops.cli import app

    assert app.app is not None
    running = sys.modules["redisq_ops.cli.actions.spark_session"]
    monkeypatch.setattr(running, "started", lambda s, given, *, waits: SharedSession(spark))
    for module in (running, sys.modules["redisq_ops.cli.actions.spark"]):
        monkeypatch.setattr(module, "handed_on", lambda s, spark: url)
    monkeypatch.setenv("REDIS_URL", url)
    history(url)
    (tmp_path / "lines.txt").write_text("one\ntwo\n")
    lines = (str(tmp_path / "lines.txt"), "--queue", "mail", "--name", "day")
    collect = Collector(redisq)
    collect("Spark tables", "spark", "schema")
    collect("Spark columns", "spark", "schema", "dead")
    collect("Spark doctor", "spark", "doctor", code=None)
    collect("Spark submission", "spark", "submit", *lines, "--dry-run")
    collect("Spark submission", "spark", "submit", *lines)
    collect("Spark export", "spark", "export", "--table", "dead", "--lake", str(tmp_path / "lake"))
    out = str(tmp_path / "out.parquet")
    collect("Spark results", "spark", "results", out, "--queue", "mail", code=None)
    collect("Spark plan", "spark", "replay", "--all", "--dry-run")
    collect("Spark error group", "spark", "groups", "jobs")
    collect("Spark critical path", "spark", "critical-path", "mail/r1")
    for row in collect("Spark report", "spark", "report"):
        if row["table"] != "report":
            collect.rows["Spark report"].remove(row)
            collect.rows[f"Spark report: {row['table']}"].append(row)
    assert difference(collect.rows) == {}

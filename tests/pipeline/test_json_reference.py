"""Commands about Spark print the JSON that they declare."""

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import redis

from redisq_ops import Failure, FairQueue, RequestQueue, Settlement, Worker, connect

from ..command_line import Redisq
from ..docs.json_scenario import Collector
from ..docs.test_json import mistakes, unseen
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
def test_spark_s_commands_print_what_they_declare(
    spark: "SparkSession", redisq: Redisq, url: str, client: redis.Redis, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    from redisq_ops.cli.actions import spark as reading
    from redisq_ops.cli.actions import spark_session as running

    monkeypatch.setattr(running, "started", lambda s, given, *, waits: SharedSession(spark))
    for module in (running, reading):
        monkeypatch.setattr(module, "handed_on", lambda s, spark: url)
    monkeypatch.setenv("REDIS_URL", url)
    history(url)
    (tmp_path / "lines.txt").write_text("one\ntwo\n")
    lines = (str(tmp_path / "lines.txt"), "--queue", "mail", "--name", "day")
    collect = Collector(redisq)
    collect("SparkTables", "spark", "schema")
    collect("SparkColumns", "spark", "schema", "dead")
    collect("SparkDoctor", "spark", "doctor", code=None)
    collect("SparkSubmission", "spark", "submit", *lines, "--dry-run")
    collect("SparkSubmission", "spark", "submit", *lines)
    collect("SparkExport", "spark", "export", "--table", "dead", "--lake", str(tmp_path / "lake"))
    out = str(tmp_path / "out.parquet")
    collect("SparkResults", "spark", "results", out, "--queue", "mail", code=None)
    collect("SparkPlan", "spark", "replay", "--all", "--dry-run")
    collect("SparkErrorGroup", "spark", "groups", "jobs")
    collect("SparkCriticalPath", "spark", "critical-path", "mail/r1")
    for row in collect("SparkReport", "spark", "report"):
        if row["table"] != "report":
            collect.rows["SparkReport"].remove(row)
            name = "".join(map(str.title, row["table"].split("_")))
            collect.rows[f"SparkReport{name}"].append(row)
    assert mistakes(collect.rows) == set()
    assert unseen(collect.rows) == {}

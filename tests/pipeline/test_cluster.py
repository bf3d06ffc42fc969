"""A standalone Spark cluster: a master and two workers, each in a JVM of its own on loopback."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import redis

from redisq_ops.core.model.errors import Unreachable
from redisq_ops.core.queues.request import RequestQueue
from redisq_ops.core.redis.client import ServerAddress
from redisq_ops.pipeline.connect_server import find_server
from redisq_ops.pipeline.session import check_reachable

from ..command_line import dead_letters
from .cluster_application import EXAMPLE
from .spark_cluster import CONF, SparkCluster

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
BEHIND_A_WALL = """
import socket

_connect = socket.socket.connect


def connect(self, address):
    if address[1:2] == ({port},):
        raise ConnectionRefusedError(111, "Connection refused")
    return _connect(self, address)


socket.socket.connect = connect
"""


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkCluster]:
    with SparkCluster(tmp_path_factory.mktemp("cluster")) as made:
        made.workers("first", "second")
        yield made


def ran(*words: str) -> subprocess.CompletedProcess[str]:
    """A Python of its own: a process has one Spark, and this one's is local."""
    return subprocess.run(
        [sys.executable, "-m", *words], capture_output=True, text=True, timeout=400, check=False
    )


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
Worker(queue, transform, lease_ms=2000, burst=True).run()
"""


@pytest.mark.parametrize("server", ["valkey"], indirect=True)
def test_a_table_is_read_and_the_job_survives_the_death_of_an_executor_its_driver_and_a_worker(
    cluster: SparkCluster, client: redis.Redis, url: str, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    orders = RequestQueue(client, "orders")
    dead_letters(client, 200, "letters")
    begun = ran("tests.pipeline.cluster_application", url, cluster.url, str(tmp_path))
    assert begun.returncode == -signal.SIGKILL, begun.stderr
    ids = (tmp_path / "dead").read_text().split()
    assert sorted(ids) == sorted(f"r1/{n}" for n in range(1, 201))
    assert (tmp_path / "executor-killed").exists() and (tmp_path / "driver-killed").exists()
    monkeypatch.setenv("REDIS_URL", url)
    worker = subprocess.run([sys.executable, "-c", DYING_WORKER], check=False, timeout=200)
    assert worker.returncode == -signal.SIGKILL
    assert orders.counts().pending, "it took them with it"
    submit = [str(Path(sys.executable).with_name("spark-submit")), "--master", "local[2]"]
    settings = [word for setting in CONF for word in ("--conf", setting)]
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    done = subprocess.run(
        [*submit, *settings, str(EXAMPLE), str(tmp_path)],
        capture_output=True, text=True, timeout=400, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("the result is equal to the sequential one\n"), done.stdout
    assert "'same': " in done.stdout, "some requests were submitted before"
    counts = orders.counts()
    assert (counts.waiting, counts.pending, counts.dead) == (0, 0, 0)


@pytest.mark.parametrize("server", ["valkey"], indirect=True)
def test_doctor_names_a_worker_that_cant_reach_the_server(
    cluster: SparkCluster, url: str, tmp_path: Path
) -> None:
    port = url.rpartition(":")[2].partition("/")[0]
    (tmp_path / "sitecustomize.py").write_text(BEHIND_A_WALL.format(port=port))
    cluster.workers("third", environment={"PYTHONPATH": str(tmp_path)})
    settings = [word for setting in CONF for word in ("--conf", setting)]
    words = ["--json", "spark", "doctor", "--master", cluster.url, "--tasks", "6", *settings]
    doctor = ran("redisq_ops", "--url", url, *words)
    assert doctor.returncode == 1, doctor.stderr
    rows = [json.loads(line) for line in doctor.stdout.splitlines()]
    executors = [row for row in rows if row["check"] == "executor"]
    assert len({row["sentence"] for row in executors}) == 3, doctor.stdout
    (wrong,) = [row["sentence"] for row in rows if not row["ok"]]
    assert "executor" in wrong and "can't reach the server" in wrong, wrong


@pytest.mark.parametrize("server", ["valkey"], indirect=True)
def test_commands_find_the_server_that_serve_keeps(
    client: redis.Redis, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    dead_letters(client, 20, "letters")
    other = urlsplit(url)._replace(path="/1").geturl()
    query = ("--json", "spark", "sql", "select count(*) n, max(error_type) e from dead")
    settings = [word for setting in CONF for word in ("--conf", setting)]
    served = subprocess.Popen(
        [sys.executable, "-m", "redisq_ops", "--url", url, "spark", "serve", *settings],
        stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    file = tmp_path / "redisq" / "spark-connect.json"
    try:
        assert served.stderr is not None
        lines = [served.stderr.readline(), served.stderr.readline()]
        assert lines[0] == "starting Spark…\n" and f"find it by {file}" in lines[1], lines
        assert file.stat().st_mode & 0o777 == 0o600 and file.parent.stat().st_mode & 0o777 == 0o700
        found = ran("redisq_ops", "--url", url, *query)
        assert found.returncode == 0, found.stderr
        assert json.loads(found.stdout) == {"n": 20, "e": "SMTP"}
        kept = json.loads(file.read_text())
        with socket.create_connection(("127.0.0.1", kept["port"])):
            remote = f"sc://localhost:{kept['port']}/;token={kept['token']}"
        # Another Redis server than the one whose password the workers have: only if asked for.
        assert find_server(ServerAddress(url)) == remote
        assert find_server(ServerAddress(other)) is None
        with redis.Redis.from_url(other) as empty:
            empty.flushdb()  # other tests use that database, too
        elsewhere = ran("redisq_ops", "--url", other, *query, "--remote", remote)
        assert elsewhere.returncode == 0, elsewhere.stderr
        assert json.loads(elsewhere.stdout) == {"n": 0, "e": None}, elsewhere.stderr
        words = ("--json", "spark", "doctor", "--tasks", "2", "--remote", remote)
        doctor = ran("redisq_ops", "--url", url, *words)
        assert doctor.returncode == 0, doctor.stdout + doctor.stderr
        names = [json.loads(line)["check"] for line in doctor.stdout.splitlines()]
        assert "java" not in names and names.count("executor") == 1
        stranger = ran("redisq_ops", "--url", url, *query, "--remote", f"{remote}x")
        assert stranger.returncode == 4, "a wrong token is refused"
    finally:
        served.send_signal(signal.SIGINT)
        assert served.wait(60) == 0
    assert not file.exists() and find_server(ServerAddress(url)) is None
    gone = ran("redisq_ops", "--url", url, *query[1:], "--remote", remote)
    assert gone.returncode == 4 and len(gone.stderr.splitlines()) == 1, gone.stderr


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

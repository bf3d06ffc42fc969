"""`redisq metrics` with the programs that read them: promtool and a Prometheus server."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit
from urllib.request import urlopen

import pytest
import redis

from redisq_ops.core.queues.delay import DelaySet
from redisq_ops.core.queues.request import RequestQueue

from ..command_line import Redisq
from ..ports import free_port

needs_prometheus = pytest.mark.skipif(
    shutil.which("promtool") is None and not os.environ.get("REDISQ_REQUIRE_PROMETHEUS"),
    reason="Prometheus isn't installed (apt-get install prometheus)",
)
CONTRIB = Path(__file__).parents[2] / "contrib"


def promtool(*words: str, text: str = "") -> str:
    """The output of a check that passes."""
    done = subprocess.run(
        ["promtool", *words], input=text, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


@contextmanager
def serving(url: str, *options: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """`redisq metrics` as a process, and the address it says."""
    process = subprocess.Popen(
        [sys.executable, "-m", "redisq_ops", "--url", url, "metrics", *options],
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stderr is not None
        yield process, process.stderr.readline().removeprefix("serving ").strip()
    finally:
        process.kill()
        process.wait()


@pytest.fixture
def queues(client: redis.Redis) -> None:
    RequestQueue(client, "mail").submit([b"x"] * 3, id="r")
    DelaySet(client, "later").schedule([("e", b"x")], after=60)


@needs_prometheus
@pytest.mark.usefixtures("queues")
def test_printed_once_they_pass_the_checks_of_prometheus(redisq: Redisq) -> None:
    text = redisq("metrics", "--once")
    assert 'redisq_queue_entries{kind="request",queue="mail",state="waiting"} 3.0\n' in text
    assert promtool("check", "metrics", text=text) == ""
    assert "later" not in redisq("metrics", "ma*", "--once")


@pytest.mark.usefixtures("queues")
def test_a_textfile_is_replaced_in_one_step(redisq: Redisq, tmp_path: Path) -> None:
    file = tmp_path / "redisq.prom"
    file.write_text("old")
    before = file.stat().st_ino
    assert redisq("metrics", "--file", str(file)) == ""
    assert 'queue="mail"' in file.read_text() and file.stat().st_ino != before
    assert file.stat().st_mode & 0o777 == 0o644 and list(tmp_path.iterdir()) == [file]


def test_mistakes_are_one_line(redisq: Redisq, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        where = f"127.0.0.1:{taken.getsockname()[1]}"
        said = redisq.refusal("metrics", "--listen", where, code=2)
    assert said == f"--listen {where}: Address already in use"
    assert "HOST:PORT" in redisq.refusal("metrics", "--listen", "9808", code=2)
    missing = tmp_path / "no" / "redisq.prom"
    assert "No such file" in redisq.refusal("metrics", "--file", str(missing), code=2)


@pytest.mark.parametrize("names", [(), ("mail",)])
@pytest.mark.usefixtures("queues")
def test_a_textfile_says_that_the_server_is_away(
    names: tuple[str, ...], redisq: Redisq, tmp_path: Path
) -> None:
    file = tmp_path / "redisq.prom"
    words = ("metrics", *names, "--file", str(file))
    redisq(*words)
    assert "\nredisq_up 1.0\n" in file.read_text()
    redisq.url = f"redis://127.0.0.1:{free_port()}"
    assert "can't reach the server" in redisq.refusal(*words, code=4)
    assert "\nredisq_up 0.0\n" in file.read_text() and "queue=" not in file.read_text()


def test_a_textfile_keeps_no_figures_of_a_queue_that_is_gone(
    redisq: Redisq, client: redis.Redis, tmp_path: Path
) -> None:
    file = tmp_path / "redisq.prom"
    DelaySet(client, "later").schedule([("e", b"x")])
    redisq("metrics", "later", "--file", str(file))
    assert 'queue="later"' in file.read_text()
    client.flushall()
    assert "no queue matches" in redisq.refusal("metrics", "later", "--file", str(file), code=1)
    assert "\nredisq_up 1.0\n" in file.read_text() and "queue=" not in file.read_text()


@needs_prometheus
@pytest.mark.slow
@pytest.mark.usefixtures("queues")
def test_a_prometheus_scrapes_them_and_loads_the_shipped_rules(url: str, tmp_path: Path) -> None:
    shutil.copytree(CONTRIB / "prometheus", tmp_path, dirs_exist_ok=True)
    with serving(url, "--listen", "127.0.0.1:0") as (process, address):
        target = address.split("/")[2]
        config = (tmp_path / "prometheus.yml").read_text()
        config = config.replace("127.0.0.1:9808", target).replace("interval: 15s", "interval: 1s")
        (tmp_path / "prometheus.yml").write_text(config)
        port = free_port()
        server = subprocess.Popen(
            [
                "prometheus",
                f"--config.file={tmp_path / 'prometheus.yml'}",
                f"--storage.tsdb.path={tmp_path / 'data'}",
                f"--web.listen-address=127.0.0.1:{port}",
            ],
            stderr=subprocess.DEVNULL,
        )
        try:
            query = f'redisq_queue_entries{{queue="mail",state="waiting"}} + on () {up(target)}'
            assert answer(port, query) == "4"
            with urlopen(f"http://127.0.0.1:{port}/api/v1/rules", timeout=5) as reply:
                groups = json.load(reply)["data"]["groups"]
            assert {rule["health"] for rule in groups[0]["rules"]} <= {"ok", "unknown"}
        finally:
            server.kill()
            server.wait()
        process.send_signal(signal.SIGTERM)
        assert process.wait(90) == 0


def up(target: str) -> str:
    return f'up{{instance="{target}"}}'


def answer(port: int, query: str) -> str:
    """The value of a query's only sample, once there is one."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        try:
            address = f"http://127.0.0.1:{port}/api/v1/query?query={quote(query)}"
            with urlopen(address, timeout=5) as reply:
                found: Any = json.load(reply)["data"]["result"]
        except OSError:  # it isn't ready yet
            found = []
        if found:
            return str(found[0]["value"][1])
        time.sleep(0.2)
    raise AssertionError(f"Prometheus has no sample of {query}")


@pytest.mark.slow
@pytest.mark.usefixtures("queues")
def test_a_server_that_goes_away_is_down_and_then_up_again(url: str, client: redis.Redis) -> None:
    with serving(url, "--listen", "127.0.0.1:0") as (process, address), ExitStack() as idle:
        client.client_kill_filter(_type="normal", skipme=True)
        for _ in range(100):
            idle.enter_context(socket.create_connection(("127.0.0.1", urlsplit(address).port or 0)))
        with urlopen(address, timeout=10) as reply:
            assert b"redisq_up 1.0" in reply.read()  # the client reconnects
        threads = re.findall(r"Threads:\s(\d+)", Path(f"/proc/{process.pid}/status").read_text())
        assert int(threads[0]) < 60


JOBS = """
from redisq_ops import Reject, Retry

def handle(delivery):
    if delivery.payload == b"reject":
        raise Reject("no such customer")
    if delivery.payload == b"retry":
        raise Retry(after=60)
    if delivery.payload == b"fail":
        raise ValueError("no")

async def ahandle(delivery):
    handle(delivery)
"""


@pytest.mark.slow
@needs_prometheus
@pytest.mark.parametrize("handler", ["jobs:handle", "jobs:ahandle"])
@pytest.mark.usefixtures("on_path")
def test_a_worker_serves_how_long_its_handler_takes_and_how_it_ends(
    handler: str, url: str, client: redis.Redis, tmp_path: Path
) -> None:
    (tmp_path / "jobs.py").write_text(JOBS)
    queue, port = DelaySet(client, "later"), free_port()
    queue.schedule([(word, word.encode()) for word in ("ok", "reject", "retry", "fail")])
    worker = subprocess.Popen(
        [
            "redisq",
            "--url",
            url,
            "work",
            handler,
            "--queue",
            "later",
            "--ping",
            str(port),
            "--metrics",
        ],
        cwd=tmp_path,
        stderr=subprocess.DEVNULL,
    )
    try:
        deadline = time.monotonic() + 90
        while queue.counts().waiting + queue.counts().pending and time.monotonic() < deadline:
            time.sleep(0.05)
        with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as reply:
            assert reply.headers["Content-Type"].startswith("text/plain; version=")
            text = reply.read().decode()
        with urlopen(f"http://127.0.0.1:{port}/healthz", timeout=10) as reply:
            assert json.load(reply)["queues"] == ["later"]
    finally:
        worker.terminate()
        worker.wait(90)
    promtool("check", "metrics", text=text)
    name = "messaging_process_duration_seconds_count"
    ends = re.findall(rf'^{name}{{.*name="later",.*outcome="(\w+)",task=""}} (\S+)$', text, re.M)
    assert dict(ends) == dict.fromkeys(("done", "rejected", "retry", "failed"), "1.0")


def test_metrics_of_a_worker_need_a_port(redisq: Redisq) -> None:
    said = redisq.refusal("work", "--exec", "true", "--metrics", "--burst", code=2)
    assert said == "--metrics is served beside /healthz: name its port with --ping PORT"


RULES_TEST = """
rule_files: [{rules}]
evaluation_interval: 1m
tests:
  - interval: 1m
    input_series:
      - series: redisq_up
        values: 1x60
      - series: >-
          redisq_queue_trouble{{queue="mail",kind="request",rule="no-worker",severity="critical"}}
        values: 1x10 _x20 1x30
      - series: redisq_queue_trouble{{queue="later",kind="delay",rule="missed",severity="warning"}}
        values: 1x60
    alert_rule_test:
      - eval_time: 1m
        alertname: RedisqQueueCritical
        exp_alerts: []
      - eval_time: 5m
        alertname: RedisqQueueCritical
        exp_alerts: &fires
          - exp_labels: {{severity: critical, queue: mail, kind: request, rule: no-worker}}
            exp_annotations:
              summary: mail breaks rule no-worker of redisq check
              action: redisq explain mail
      - eval_time: 25m
        alertname: RedisqQueueCritical
        exp_alerts: []
      - eval_time: 40m
        alertname: RedisqQueueCritical
        exp_alerts: *fires
      - eval_time: 14m
        alertname: RedisqQueueWarning
        exp_alerts: []
      - eval_time: 16m
        alertname: RedisqQueueWarning
        exp_alerts:
          - exp_labels: {{severity: warning, queue: later, kind: delay, rule: missed}}
            exp_annotations:
              summary: later breaks rule missed of redisq check
              action: redisq explain later
      - eval_time: 45m
        alertname: RedisqServerUnreachable
        exp_alerts: []
"""


@needs_prometheus
def test_the_shipped_alerts_fire_when_they_should(tmp_path: Path) -> None:
    rules = CONTRIB / "prometheus" / "redisq-alerts.yml"
    (tmp_path / "test.yml").write_text(RULES_TEST.format(rules=rules))
    promtool("test", "rules", str(tmp_path / "test.yml"))
    promtool("check", "rules", str(rules))


def test_the_shipped_dashboard_and_scaler_ask_for_metrics_there_are(redisq: Redisq) -> None:
    text = redisq("metrics", "--once")
    there = {line.split()[2] for line in text.splitlines() if line.startswith("# TYPE")}
    board = json.loads((CONTRIB / "grafana" / "redisq-queues.json").read_text())
    asked = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    asked += [(CONTRIB / "keda" / "scaled-object.yaml").read_text()]
    asked += [(CONTRIB / "prometheus" / "redisq-alerts.yml").read_text()]
    for expression in asked:
        names = set(re.findall(r"\bredisq_(?:queue|up)\w*", expression))
        assert names and names <= there, expression

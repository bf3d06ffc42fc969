"""Every verb on a Cluster of three nodes, queues in slots of different nodes."""

import json
import os
import signal
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import redis

from redisq_ops.cli.main import run
from redisq_ops.core.model.entry import Failure, Settlement
from redisq_ops.core.queues.delay import DelaySet
from redisq_ops.core.queues.request import RequestQueue
from redisq_ops.core.redis.client import connect
from redisq_ops.core.worker import Worker
from redisq_ops.core.worker.handler import Work
from redisq_ops.demo.server import EmbeddedCluster, EmbeddedServer, binaries, cluster

from ...conftest import Clusters
from ...queue_steps import numbered
from ..worker.test_worker import is_done, lines, until

pytestmark = pytest.mark.slow

HANDLER = "def handle(delivery):\n    return delivery.payload.upper()\n"


@pytest.fixture(params=sorted(binaries()))
def cluster_url(request: pytest.FixtureRequest, clusters: Clusters) -> str:
    return clusters(request.param).urls[0].replace("redis://", "redis+cluster://")


def ok(url: str, line: str, *more: str, code: int = 0) -> None:
    words = [*line.split(" "), *more]
    assert run(["--url", url, *words]) == code, words


def test_every_verb(
    cluster_url: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    url = cluster_url
    (tmp_path / "upper.py").write_text(HANDLER)
    lines = tmp_path / "lines"
    lines.write_text("".join(f"line {n}\n" for n in range(1, 251)))
    monkeypatch.syspath_prepend(tmp_path)
    for name in ("a", "b", "c"):  # slots of all three nodes
        ok(url, f"submit {lines} --queue {name} --id job --limit 20")
        ok(url, f"work upper:handle --queue {name} --batch 50 --burst")
        ok(url, f"wait {name}/job --timeout 10s")
    capsys.readouterr()
    ok(url, "results a/job --raw")
    assert capsys.readouterr().out.splitlines()[249] == "LINE 250"

    client = connect(url)
    queue = RequestQueue(client, "a")
    queue.submit([b"x"] * 20, id="bad", limit=10)
    error = Failure("Timeout", "no answer").encoded()
    taken = queue.take(10, consumer="w1").deliveries
    queue.settle([Settlement(d, "reject", error) for d in taken[:6]])
    queue.settle([Settlement(d, "fail", error, 600) for d in taken[6:8]])
    later = DelaySet(client, "later")
    later.schedule([(f"e{n}", b"x") for n in range(10)], after=600)

    ok(url, "ls")
    said = capsys.readouterr().out
    assert all(f"\n{name} " in said for name in ("a", "b", "c", "later"))
    ok(url, "inspect a")
    ok(url, "inspect a/bad")
    ok(url, "inspect a/bad/1")
    ok(url, "inspect e3")  # looked up in all queues
    ok(url, "pending ls a")
    ok(url, "pending claim a --consumer me --yes")
    ok(url, "pending requeue a/bad/9 --yes")
    ok(url, "dlq ls a")
    ok(url, "dlq replay a --match Timeout --max 2 --yes")
    ok(url, "dlq purge a --max 1 --yes")
    ok(url, "undo --yes")
    ok(url, "dlq purge a --yes")
    ok(url, "trash ls a")
    ok(url, "trash restore a --max 1 --yes")
    ok(url, "trash rm a --yes")
    ok(url, "delay ls later")
    ok(url, "delay reschedule later/e1 --in 1h --yes")
    ok(url, "delay requeue later/e2 --yes")
    ok(url, "delay add later/e77 --in 5m payload")
    ok(url, "request limit a/bad 5 --yes")
    ok(url, "request priority a/bad 7 --yes")
    ok(url, "request pause a/bad --yes")
    ok(url, "request resume a/bad --yes")
    ok(url, "request cancel a/bad --yes")
    ok(url, "queue pause b --yes")
    ok(url, "queue resume b --yes")
    ok(url, "queue drain c --yes")
    ok(url, "settings b aging=16 --yes")
    ok(url, "history a")
    ok(url, "log")
    ok(url, "fsck")
    ok(url, "wait b --until waiting==0 --timeout 5s")
    ok(url, "top --once")
    assert "later" in capsys.readouterr().out
    ok(url, "queue rm c --yes")
    ok(url, "ls --json")
    assert '"c"' not in capsys.readouterr().out


def node_of(client: Any, queue: RequestQueue[Any], nodes: EmbeddedCluster) -> EmbeddedServer:
    port = client.get_node_from_key(queue.keys["wake"]).port
    (found,) = (node for node in nodes.nodes if node.port == port)
    return found


def serves(node: EmbeddedServer) -> bool:
    return "cluster_state:ok" in node.command("CLUSTER", "INFO").split()


@pytest.mark.parametrize("lost", ["settle", "take"])
def test_a_node_killed_in_the_middle_of_a_round_loses_and_doubles_nothing(
    lost: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A round tells one queue what is finished and takes from the other: half of it is heard."""
    began, go = threading.Event(), threading.Event()
    handled: Counter[str] = Counter()

    def handle(work: Work) -> bytes:
        handled[f"{work.queue}/{work.id}"] += 1
        if (work.queue, work.number) == ("a", 3):
            began.set()
            go.wait()
        return work.payload.upper()

    with cluster() as nodes, connect(nodes.urls[0].replace("://", "+cluster://")) as client:
        telling, taking = (RequestQueue(client, name) for name in "ab")
        for queue in (telling, taking):
            queue.submit([b"x"] * 6, id="r1", limit=6)
        dying, living = (telling, taking) if lost == "settle" else (taking, telling)
        victim, survivor = node_of(client, dying, nodes), node_of(client, living, nodes)
        assert victim is not survivor
        # Long leases: an outage of some seconds is not what loses them here.
        worker = Worker([telling, taking], handle, lease=3600, random=lambda: 0.9)
        thread = threading.Thread(target=worker.run)
        thread.start()
        with redis.Redis.from_url(survivor.url, protocol=3) as near:
            other = RequestQueue(near, living.name)
            try:
                began.wait()
                before = other.counts()
                victim.command("SAVE")  # what it knows survives it, as on a disk
                assert victim.pid is not None
                os.kill(victim.pid, signal.SIGSTOP)
                go.set()
                until(lambda: other.counts() != before)  # the other half is carried out
                victim.kill()
                until(lambda: lines(caplog, "can't reach the server") or not thread.is_alive())
                assert thread.is_alive()
                victim.restart()
                until(lambda: all(map(serves, nodes.nodes)))
                until(lambda: not thread.is_alive() or (is_done(telling) and is_done(taking)))
            finally:
                go.set()
                worker.stop()
                thread.join()
        assert handled == {f"{name}/r1/{n}": 1 for name in "ab" for n in range(1, 7)}
        assert lines(caplog, "lost lease") == []
        for queue in (telling, taking):
            assert numbered(queue.results("r1", 1, 6)) == [(n, b"X") for n in range(1, 7)]
            assert queue.counts().dead == 0
            assert queue.invariants() == []


def test_what_a_consumer_of_a_stream_held_is_counted_and_given_back(
    cluster_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A stream and our journal are in slots of their own: no script can write into both."""
    client = connect(cluster_url)
    assert isinstance(client, redis.RedisCluster)
    for name in ("a", "b", "c"):
        key = f"stream-{name}"
        for n in range(1, 71):
            client.xadd(key, {"n": n}, id=f"{n}-0")
        client.xgroup_create(key, "g", id="0")
        client.xreadgroup("g", "w1", {key: ">"}, count=70)
        capsys.readouterr()
        ok(cluster_url, f"workers rm stream:{key} w1 --to w2 --yes --json")
        op = json.loads(capsys.readouterr().out)["op"]
        ok(cluster_url, f"log --queue stream:{key} --json")
        assert json.loads(capsys.readouterr().out)["done"] == 70
        client.xclaim(key, "g", "w3", 0, ["1-0", "2-0"], justid=True)
        ok(cluster_url, f"undo {op} --yes --json", code=3)
        back = json.loads(capsys.readouterr().out)
        assert (back["done"], back["sample"]) == (68, ["1-0", "2-0"])
    client.close()

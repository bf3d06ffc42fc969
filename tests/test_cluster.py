"""Every verb on a Cluster of three nodes, queues in slots of different nodes."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from redisq_ops.cli import run
from redisq_ops.core.connect import connect
from redisq_ops.core.delay import DelaySet
from redisq_ops.core.request import RequestQueue
from redisq_ops.core.values import Failure, Settlement
from redisq_ops.demo.server import binaries, cluster

pytestmark = pytest.mark.slow

HANDLER = "def handle(delivery):\n    return delivery.payload.upper()\n"


@pytest.fixture(scope="module", params=sorted(binaries()))
def cluster_url(request: pytest.FixtureRequest) -> Iterator[str]:
    with cluster(binaries()[request.param]) as nodes:
        yield nodes.urls[0].replace("redis://", "redis+cluster://")


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
        ok(url, f"wait request {name}/job --timeout 10s")
    capsys.readouterr()
    ok(url, "results a/job --raw")
    assert capsys.readouterr().out.splitlines()[249] == "LINE 250"

    client = connect(url)
    queue = RequestQueue(client, "a")
    queue.submit([b"x"] * 20, id="bad", limit=10)
    error = Failure("Timeout", "no answer").encoded()
    taken = queue.take(10, consumer="w1").deliveries
    queue.settle([Settlement(d, "reject", error) for d in taken[:6]])
    queue.settle([Settlement(d, "fail", error, 600_000) for d in taken[6:8]])
    later = DelaySet(client, "later")
    later.schedule([(f"e{n}", b"x") for n in range(10)], after_ms=600_000)

    ok(url, "ls")
    said = capsys.readouterr().out
    assert all(f"\n{name} " in said for name in ("a", "b", "c", "later"))
    ok(url, "inspect queue a")
    ok(url, "inspect request a/bad")
    ok(url, "inspect entry a/bad/1")
    ok(url, "inspect entry e3")  # looked up in all queues
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
    ok(url, "trash empty a --yes")
    ok(url, "delay ls later")
    ok(url, "delay reschedule later/e1 --in 1h --yes")
    ok(url, "delay requeue later/e2 --yes")
    ok(url, "delay schedule later/e77 --in 5m payload")
    ok(url, "request limit a/bad 5 --yes")
    ok(url, "request priority a/bad 7 --yes")
    ok(url, "request pause a/bad --yes")
    ok(url, "request resume a/bad --yes")
    ok(url, "request cancel a/bad --yes")
    ok(url, "queue pause b --yes")
    ok(url, "queue resume b --yes")
    ok(url, "queue drain c --yes")
    ok(url, "retention b aging=16 --yes")
    ok(url, "history a")
    ok(url, "log")
    ok(url, "fsck")
    ok(url, "wait when waiting==0 --queue b --timeout 5s")
    ok(url, "top --once")
    assert "later" in capsys.readouterr().out
    ok(url, "queue destroy c --yes")
    ok(url, "ls --json")
    assert '"c"' not in capsys.readouterr().out

"""The operator's toolkit on a Cluster of three nodes, on queues whose shards are on several."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from redisq_ops.core.model.entry import Failure, Settlement
from redisq_ops.core.redis.client import connect
from redisq_ops.core.worker import Worker

from ...command_line import Redisq
from ...conftest import Clusters
from ...dead_entries import KINDS

pytestmark = pytest.mark.slow

SHARDED = tuple(name for name in KINDS if "shards" in name)
HELD = 6
"""entries that a consumer keeps; all others die, every second one of a time-out"""


@pytest.fixture
def nodes(clusters: Clusters) -> str:
    return clusters("valkey").urls[0].replace("redis://", "redis+cluster://")


@pytest.fixture(autouse=True)
def in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def redisq(nodes: str, capsys: pytest.CaptureFixture[str]) -> Redisq:
    return Redisq(nodes, capsys)


@pytest.fixture(params=SHARDED)
def queue(request: pytest.FixtureRequest, redisq: Redisq) -> Any:
    """A queue of three shards: w1 has six entries, all others are dead."""
    make, fill = KINDS[request.param]
    client: Any = connect(redisq.url)
    queue = make(client, "mail")
    fill(queue)
    ports = {client.get_node_from_key(keys["cfg"]).port for keys in queue.shard_keys}
    assert len(ports) > 1, "its shards are all on one node"
    taken: list[Any] = []
    while more := queue.take(500, consumer="w1", lease=3600).deliveries:
        taken += more
    for n, one in enumerate(taken[HELD:]):
        error = Failure("Timeout", f"no answer in {n} s") if n % 2 else Failure("E", "no customer")
        queue.settle([Settlement(one, "reject", error.encoded())])
    return queue


@contextmanager
def worker(queue: Any) -> Iterator[None]:
    running = Worker(queue, lambda work: None, consumer="w9")
    thread = threading.Thread(target=running.run)
    thread.start()
    try:
        yield
    finally:
        running.stop()
        thread.join()


def test_looking(redisq: Redisq, queue: Any) -> None:
    dead = queue.counts().dead
    late = redisq.rows("dlq", "ls", queue.name, "--where", "error~Timeout")
    assert len(late) == dead // 2 and {row["state"] for row in late} == {"dead"}
    assert len(redisq.rows("pending", "ls", queue.name, "--where", "consumer=w1")) == HELD
    counted = redisq.rows("select", queue.name, "--where", "attempts>=1", "--count")
    assert {row["state"]: row["matched"] for row in counted}["dead"] == dead
    groups = redisq.rows("dlq", "groups", queue.name)
    assert sorted(row["entries"] for row in groups) == [dead // 2, dead - dead // 2]
    (one,) = redisq.rows("dlq", "group", queue.name, groups[0]["group"])
    assert (one["entries"], one["total"]) == (groups[0]["entries"], dead)
    assert redisq.rows("inspect", queue.name)[0]["dead"] == dead
    (entry,) = redisq.rows("inspect", late[0]["address"])
    assert entry["error"]["type"] == "Timeout" and entry["history"]["events"]
    (why,) = redisq.rows("explain", late[0]["address"])
    assert why["rule"] == "dead" and why["facts"]["alike"] == dead // 2
    (held,) = redisq.rows("pending", "ls", queue.name, "--max", "1")
    (why,) = redisq.rows("explain", held["address"])
    assert (why["rule"], why["facts"]["consumer"]) == ("pending", "w1")
    assert redisq.rows("explain", queue.name)[0]["rule"] == "dying"
    assert redisq.rows("explain", f"{queue.name}/nowhere", code=1)[0]["rule"] == "unknown"
    assert redisq("fsck") == f"{queue.name}: adds up\n"


def test_plan_apply_undo_log(redisq: Redisq, queue: Any) -> None:
    before = queue.counts()
    redisq("dlq", "replay", queue.name, "--where", "error~Timeout", "--plan", "p")
    n = len(Path("p").read_text().splitlines()) - 3
    assert n == before.dead // 2
    assert redisq.rows("apply", "p", "--dry-run")[0]["now"] == {"dead": n}
    (some,) = redisq.rows("apply", "p", "--max", "4", "--report", "r", "--yes")
    assert (some["done"], some["left"], queue.counts().waiting) == (4, n - 4, 4)
    (rest,) = redisq.rows("apply", "p", "--report", "r", "--yes")
    assert (rest["done"], rest["left"], queue.counts().dead) == (n, 0, before.dead - n)
    told = [json.loads(line) for line in Path("r").read_text().splitlines()]
    assert len({row["id"] for row in told if row.get("said") == "moved"}) == n
    (back,) = redisq.rows("undo", "--yes")
    assert (back["done"], back["skipped"]) == (n, {})
    assert queue.counts().dead == before.dead and queue.counts().waiting == 0
    undone, applied = redisq.rows("log")
    assert (applied["done"], applied["matched"], applied["undone"]) == (n, n, n)
    assert (undone["verb"], undone["done"]) == ("undo", n)
    assert "plan again" in redisq.refusal("apply", "p", "--yes", code=1)
    (purged,) = redisq.rows("dlq", "purge", queue.name, "--yes")
    assert purged["done"] == before.dead and redisq.rows("undo", "--yes")[0]["done"] == before.dead
    assert queue.invariants() == []


def test_canary_and_ramp(redisq: Redisq, queue: Any) -> None:
    if queue.unwatched:
        assert queue.unwatched in redisq.refusal("dlq", "replay", queue.name, "--ramp", code=1)
        return
    dead, done = queue.counts().dead, queue.counts().done or 0
    client: Any = queue.client
    client.config_resetstat(target_nodes=client.PRIMARIES)
    words = ("--canary", "5", "--rate", "500/s", "--max-latency", "60s", "--yes")
    with worker(queue):
        (ended,) = redisq.rows("dlq", "replay", queue.name, *words)
    stats = client.info("commandstats", target_nodes=client.PRIMARIES)
    asked = {node for node, each in stats.items() if each.get("cmdstat_exists", {}).get("calls")}
    shards = {client.get_node_from_key(keys["cfg"]).name for keys in queue.shard_keys}
    assert asked == shards, "how quickly a node answers counts on every node that has a part of it"
    assert (ended["done"], ended["left"], ended["phase"], ended["died"]) == (dead, 0, "over", 0)
    after = queue.counts()
    assert (after.dead, after.waiting, after.pending) == (0, 0, HELD)
    assert after.done is None or after.done - done in (0, dead)  # not every kind counts them


def test_consumers(redisq: Redisq, queue: Any) -> None:
    (report,) = redisq.rows("workers", "ls", queue.name)
    assert [(one["name"], one["pending"]) for one in report["consumers"]] == [("w1", HELD)]
    claim = ("workers", "claim", queue.name, "w1", "--to", "w2", "--min-idle", "0s", "--yes")
    for words, then in ((claim, ["w2"]), (("workers", "rm", queue.name, "w1", "--yes"), [])):
        (taken,) = redisq.rows(*words)
        assert (taken["matched"], taken["done"], taken["skipped"]) == (HELD, HELD, {})
        (report,) = redisq.rows("workers", "ls", queue.name)
        assert [one["name"] for one in report["consumers"]] == then
        log = redisq.rows("log")[0]
        assert (log["matched"], log["done"]) == (HELD, HELD)
        (back,) = redisq.rows("undo", "--yes")
        assert (back["matched"], back["done"]) == (HELD, HELD)
        (report,) = redisq.rows("workers", "ls", queue.name)
        assert [(one["name"], one["pending"]) for one in report["consumers"]] == [("w1", HELD)]
    assert queue.invariants() == []


def test_edit_export_import(redisq: Redisq, queue: Any) -> None:
    dead = queue.counts().dead
    patch = '[{"op": "replace", "path": "", "value": 77}]'
    (edited,) = redisq.rows("dlq", "edit", queue.name, "--patch", patch, "--yes")
    assert edited["done"] == dead
    assert {row["payload"] for row in redisq.rows("dlq", "ls", queue.name)} == {"77"}
    assert redisq.rows("undo", "--yes")[0]["done"] == dead
    before = {row["id"]: row["payload"] for row in redisq.rows("dlq", "ls", queue.name)}
    assert len(set(before.values())) > 1
    copy = "copy" if queue.kind != "carmine" else "carmine:%7Bcopy%7D"
    redisq("export", queue.name, "-o", "e", "--raw-payloads")
    words = ("import", "e", "--queue", copy, "--as-waiting", "--yes")
    assert redisq.rows(*words)[-1]["done"] == dead + HELD
    assert redisq.rows(*words)[-1]["skipped"] == {"same": dead + HELD}
    there = {row["id"]: row["payload"] for row in redisq.rows("waiting", "ls", copy)}
    assert there.items() >= before.items()
    # Back into the shards it came from: it is all there.
    again = redisq.rows("import", "e", "--as-waiting", "--yes")[-1]
    assert (again["done"], again["skipped"]) == (0, {"same": dead + HELD})
    assert redisq("fsck").splitlines() == sorted([f"{copy}: adds up", f"{queue.name}: adds up"])


def test_other_programs_queues_are_found_on_every_node(redisq: Redisq) -> None:
    client: Any = connect(redisq.url)
    found = []
    for n in range(6):
        key = f"orders{n}"
        client.xadd(key, {"n": 1})
        client.xgroup_create(key, "bill", "0")
        client.xreadgroup("bill", "b1", {key: ">"})
        found.append(f"stream:{key}")
    assert len({client.get_node_from_key(f"orders{n}").port for n in range(6)}) == 3
    assert [row["name"] for row in redisq.rows("discover")] == found
    redisq("discover", "--register", "--yes")
    assert [row["name"] for row in redisq.rows("ls")] == found
    claim = ("workers", "claim", found[0], "b1", "--to", "b2", "--min-idle", "0s", "--yes")
    assert redisq.rows(*claim)[0]["done"] == 1 and redisq.rows("undo", "--yes")[0]["done"] == 1
    assert redisq.rows("workers", "rm", found[0], "b1", "--yes")[0]["removed"] == 1
    assert redisq.rows("explain", found[0])[0]["rule"] == "pending"

"""`redisq doctor` on real servers, and `redisq acl`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import redis

from redisq_ops.core.model.entry import Settlement
from redisq_ops.core.queues.delay import DelaySet, Periodic
from redisq_ops.core.queues.request import RequestQueue
from redisq_ops.core.redis.client import connect
from redisq_ops.core.redis.operation import run
from redisq_ops.demo.server import binaries
from redisq_ops.ops.change import audit_log
from redisq_ops.ops.change.audit_log import Author
from redisq_ops.ops.deployment import Deployment
from redisq_ops.ops.doctor.examination import examine

from ..command_line import Redisq, dead_letters
from ..conftest import Clusters
from ..tui.test_app import written


def by_check(redisq: Redisq, code: int = 0) -> dict[str, dict[str, Any]]:
    """The worst finding of each check."""
    order = ("ok", "unknown", "warning", "wrong")
    rows = sorted(redisq.rows("doctor", code=code), key=lambda row: order.index(row["verdict"]))
    return {row["check"]: row for row in rows}


def test_findings_of_a_fresh_server_are_no_errors(redisq: Redisq) -> None:
    found = by_check(redisq)
    assert found.keys() == {
        "client",
        "latency",
        "clock",
        "version",
        "eviction",
        "memory",
        "persistence",
        "replication",
        "scripts",
        "rights",
        "queues",
        "operations",
    }
    assert all(row["advice"] for row in found.values() if row["verdict"] in ("warning", "wrong"))
    assert found["replication"]["verdict"] == "warning"
    text = redisq("doctor")
    assert "ok       version" in text and "warning  replication" in text


def test_eviction_is_wrong(redisq: Redisq, client: redis.Redis) -> None:
    client.config_set("maxmemory-policy", "allkeys-lru")
    try:
        row = by_check(redisq, 1)["eviction"]
        assert row["advice"] == "CONFIG SET maxmemory-policy noeviction"
        assert "WRONG    eviction" in redisq("doctor", code=1)
    finally:
        client.config_set("maxmemory-policy", "noeviction")
    assert by_check(redisq)["eviction"]["verdict"] == "ok"


def test_writes_that_min_replicas_refuses_are_wrong(redisq: Redisq, client: redis.Redis) -> None:
    client.config_set("min-replicas-to-write", 1)
    try:
        assert "writes are refused" in by_check(redisq, 1)["min-replicas"]["sentence"]
    finally:
        client.config_set("min-replicas-to-write", 0)


def test_slow_script_is_named_without_its_arguments(redisq: Redisq, client: redis.Redis) -> None:
    later: Any = DelaySet(client, "later")
    later.schedule([("e", b"payload")])
    later.take(1, consumer="w")  # from here on the server has the script
    client.slowlog_reset()
    threshold = client.config_get("slowlog-log-slower-than")["slowlog-log-slower-than"]
    client.config_set("slowlog-log-slower-than", 0)
    later.take(1, consumer="w")
    client.config_set("slowlog-log-slower-than", str(threshold))
    row = by_check(redisq)["scripts"]
    client.slowlog_reset()
    assert row["verdict"] == "warning" and row["sentence"].endswith("ms: take of delay queues")


def test_queues_that_need_somebody_are_named(redisq: Redisq, client: redis.Redis) -> None:
    later: Any = DelaySet(client, "later")
    later.set_periodic(Periodic("hourly", "0 * * * *"))
    client.zadd("redisq:{later}:periodic_at", {"hourly": 1})
    client.hset("redisq:registry", "odd", b"\xff")
    RequestQueue(client, "bad").submit([b"x"], id="r1")
    client.delete("redisq:{bad}:stat")
    client.set("redisq:{bad}:stat", "x")
    op = "replay-0123456789"
    run(
        client,
        audit_log.begin(
            later,
            op,
            "replay",
            Author("ann", "h"),
            "",
            now_ms=later.now(),
            source="dead",
            target="waiting",
            matched=7,
        ),
    )
    found = by_check(redisq, 1)
    assert "queue later that missed a run: 1" in found["periodic"]["sentence"]
    assert found["periodic"]["verdict"] == "warning"
    unreadable = [row for row in redisq.rows("doctor", code=1) if row["check"] == "queues"]
    assert [row["facts"]["queue"] for row in unreadable] == ["odd", "bad"]
    row = found["operations"]
    assert row["facts"]["op"] == op and f"redisq undo {op}" in row["advice"]
    assert "0 of 7 done" in row["sentence"]


def test_move_that_was_killed_is_wrong(redisq: Redisq, client: redis.Redis) -> None:
    source: Any = DelaySet(client, "later")
    source.schedule([("e1", b"x")])
    for one in source.take(1, consumer="w").deliveries:
        source.settle([Settlement(one, "reject", b"{}")])
    DelaySet(client, "other").schedule([("e2", b"x")])
    redisq("dlq", "move", "later", "--to", "other", "--yes")
    op = redisq.rows("log", "--queue", "later")[0]["id"]
    assert by_check(redisq)["operations"]["verdict"] == "ok"
    client.zadd("redisq:{later}:unfinished", {op: 1})
    client.hdel(f"redisq:{{later}}:op:{op}", "ended")
    row = by_check(redisq, 1)["operations"]
    assert row["facts"]["op"] == op and row["verdict"] == "wrong"


@pytest.fixture(autouse=True)
def without_history(client: redis.Redis) -> None:
    """How long the scripts of other tests took says nothing about these."""
    client.config_resetstat()


@pytest.fixture
def viewer(client: redis.Redis, url: str, redisq: Redisq) -> Iterator[Redisq]:
    admin: Any = client
    admin.execute_command(*redisq("acl", "viewer").split())
    yield Redisq(url.replace("//", "//redisq-viewer:change-me@"), redisq._capsys)
    client.acl_deluser("redisq-viewer")


@pytest.mark.slow
def test_viewer_gets_all_but_what_its_rights_hide(
    redisq: Redisq, viewer: Redisq, client: redis.Redis
) -> None:
    dead_letters(client, 3)
    everything = by_check(redisq)
    client.config_resetstat()
    found = by_check(viewer)
    assert not written(client)
    assert found.keys() == everything.keys()
    assert found["rights"]["facts"]["may"] == ["look"] and found["rights"]["verdict"] == "ok"
    assert "can't be read" in found["persistence"]["sentence"]
    assert "the slow log can't be read" in found["scripts"]["sentence"]
    client.execute_command("ACL", "SETUSER", "redisq-viewer", "-info")  # type: ignore[no-untyped-call]
    hidden = by_check(viewer)
    assert hidden["server"]["verdict"] == "unknown" and "+info" in hidden["server"]["sentence"]
    assert hidden["queues"]["verdict"] == "ok"


@pytest.mark.parametrize(
    ("role", "may"),
    [
        ("producer", ["look", "submit"]),
        ("worker", ["look", "submit", "work"]),
        ("operator", ["look", "submit", "work", "change queues"]),
    ],
)
def test_role_is_told_what_it_may(
    redisq: Redisq, client: redis.Redis, url: str, role: str, may: list[str]
) -> None:
    DelaySet(client, "later").schedule([("e1", b"x")])
    dead_letters(client, 1)
    client.execute_command(*redisq("acl", role, "--user", "bob").split())  # type: ignore[no-untyped-call]
    try:
        user = Redisq(url.replace("//", "//bob:change-me@"), redisq._capsys)
        (row,) = (row for row in user.rows("doctor") if row["check"] == "rights")
    finally:
        client.acl_deluser("bob")
    assert row["facts"]["may"] == may and row["verdict"] == "ok"


@pytest.mark.parametrize(
    ("ahead_s", "verdict"), [(0.0, "ok"), (-5.0, "warning"), (90.0, "wrong"), (-90.0, "wrong")]
)
@pytest.mark.alike
def test_clock_that_is_off_is_told_with_its_direction(
    url: str, client: redis.Redis, ahead_s: float, verdict: str
) -> None:
    seconds, micros = client.time()

    def wall() -> float:
        return seconds + micros / 1e6 + ahead_s

    with connect(url) as looking:
        found = run(looking, examine(Deployment(looking), wall, timer=lambda: 0.0))
    (clock,) = (one for one in found if one.check == "clock")
    assert clock.verdict == verdict
    assert ahead_s == 0 or ("behind" if ahead_s > 0 else "ahead of") in clock.sentence


@pytest.mark.slow
@pytest.mark.parametrize("kind", sorted(binaries()))
def test_each_node_of_a_cluster_is_examined(
    clusters: Clusters, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    nodes = clusters(kind)
    redisq = Redisq(nodes.urls[0].replace("://", "+cluster://"), capsys)
    with connect(redisq.url) as client:
        for name in ("a", "b", "c"):  # slots of all three nodes
            DelaySet(client, name).schedule([("e", b"x")])
    nodes.nodes[1].command("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
    rows = redisq.rows("doctor", code=1)
    nodes.nodes[1].command("CONFIG", "SET", "maxmemory-policy", "noeviction")
    assert len({row["node"] for row in rows if row["check"] == "version"}) == 3
    (wrong,) = (row for row in rows if row["verdict"] == "wrong")
    assert wrong["check"] == "eviction" and wrong["node"] == f"127.0.0.1:{nodes.nodes[1].port}"
    assert {row["verdict"] for row in rows if row["check"] == "cluster"} == {"ok"}


@pytest.mark.alike
def test_server_that_is_not_there_is_exit_4(redisq: Redisq) -> None:
    redisq.url = "redis://127.0.0.1:1"
    assert "can't reach the server" in redisq.refusal("doctor", code=4)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("acl nobody", "viewer, producer, worker, operator"),
        ("acl worker --queue sidekiq:default", "--keys PATTERN"),
        ("acl viewer --queue a*b", "queue name"),
        ("acl viewer --user a{b", "user name"),
    ],
)
@pytest.mark.alike
def test_acl_of_what_is_no_role_or_queue_is_exit_2(
    redisq: Redisq, words: str, message: str
) -> None:
    assert message in redisq.refusal(*words.split(), code=2)


@pytest.mark.alike
def test_acl_needs_no_server(redisq: Redisq, configuration: Any) -> None:
    redisq.url = "redis://127.0.0.1:1"
    configuration.write_text('prefix = "jobs"\n')
    (row,) = redisq.rows("acl", "viewer", "--queue", "mail", "--keys", "resque:*", "--cluster")
    assert row["rules"][:4] == [
        "%R~jobs:{mail}:*",
        "%R~jobs:{mail/*}:*",
        "%R~jobs:registry",
        "%R~resque:*",
    ]
    assert row["rules"][-3:] == ["+cluster|slots", "+cluster|shards", "+cluster|nodes"]
    assert row["command"] == redisq(
        "acl", "viewer", "--queue", "mail", "--keys", "resque:*", "--cluster"
    ).rstrip("\n")

"""Reports of a server and the verdict: one line, and what to do where it isn't ok."""

from __future__ import annotations

from typing import Any

import pytest
import redis

from redisq_ops.ops.doctor.diagnosis import Diagnosis
from redisq_ops.ops.doctor.server_checks import server_findings
from redisq_ops.ops.doctor.server_report import ServerReport

GIB = 2**30
WELL: dict[str, Any] = {
    "redis_version": "7.4.9",
    "maxmemory_policy": "noeviction",
    "maxmemory": 4 * GIB,
    "used_memory": GIB,
    "aof_enabled": 1,
    "role": "master",
    "connected_slaves": 1,
    "slave0": {"state": "online", "lag": 1},
    "min_slaves_good_slaves": 1,
    "latency_percentiles_usec_evalsha": {"p50": 40.0, "p99": 300.0},
}
CONFIG = {"save": "3600 1", "appendfsync": "everysec", "min-replicas-to-write": "1"}
CLUSTER = {"cluster_state": "ok", "cluster_slots_ok": "16384", "cluster_known_nodes": "6"}


def findings(
    info: dict[str, Any] | None = None,
    config: dict[str, str] | None = None,
    slow: tuple[tuple[int, str], ...] | None = (),
    cluster: dict[str, str] | None = None,
    without: tuple[str, ...] = (),
) -> list[Diagnosis]:
    known = {name: value for name, value in {**WELL, **(info or {})}.items() if name not in without}
    report = ServerReport(known, CONFIG if config is None else config, slow, cluster)
    return list(server_findings(report))


def test_a_server_that_is_set_up_well_is_ok() -> None:
    found = findings()
    assert {one.verdict for one in found} == {"ok"} and not any(one.advice for one in found)
    assert [one.check for one in found] == [
        "version",
        "eviction",
        "memory",
        "persistence",
        "replication",
        "min-replicas",
        "scripts",
    ]


@pytest.mark.parametrize(
    ("info", "check", "verdict", "words"),
    [
        ({"redis_version": "6.2.14"}, "version", "wrong", "Redis 6.2.14 is too old"),
        ({"valkey_version": "7.1.0"}, "version", "wrong", "7.2 or newer"),
        ({"redis_version": "7.4.8"}, "restore", "warning", "has CVE-2026-25243"),
        ({"redis_version": "8.0.2"}, "restore", "warning", "8.0.2 has"),
        ({"valkey_version": "9.0.3"}, "restore", "warning", "Valkey 9.0.3 has"),
        ({"maxmemory_policy": "allkeys-lru"}, "eviction", "wrong", "noeviction"),
        ({"used_memory": 3.2 * GIB}, "memory", "warning", "80 % of 4.0 GiB"),
        ({"used_memory": 3.9 * GIB}, "memory", "wrong", "new work is refused"),
        ({"maxmemory": 0, "total_system_memory": GIB}, "memory", "wrong", "maxmemory is not set"),
        ({"rdb_last_bgsave_status": "err"}, "persistence", "wrong", "last snapshot failed"),
        ({"aof_last_write_status": "err"}, "persistence", "wrong", "may refuse writes"),
        ({"aof_enabled": 0}, "persistence", "warning", "only snapshots"),
        ({"role": "slave"}, "replication", "wrong", "connect to its primary"),
        ({"connected_slaves": 0}, "replication", "warning", "no replica"),
        ({"slave0": {"state": "wait_bgsave", "lag": 0}}, "replication", "warning", "1 of 1"),
        ({"slave0": {"state": "online", "lag": 60}}, "replication", "warning", "behind"),
        ({"min_slaves_good_slaves": 0}, "min-replicas", "wrong", "writes are refused"),
        (
            {"latency_percentiles_usec_evalsha": {"p99": 25_000.0}},
            "scripts",
            "wrong",
            "25 ms or more",
        ),
    ],
)
def test_what_is_not_well_has_a_verdict_and_advice(
    info: dict[str, Any], check: str, verdict: str, words: str
) -> None:
    (found,) = (one for one in findings(info) if one.check == check)
    assert found.verdict == verdict and found.advice
    assert words in f"{found.sentence}; {found.advice}" and "\n" not in found.sentence
    others = [one for one in findings(info) if one.check not in (check, "min-replicas")]
    assert {one.verdict for one in others} <= {"ok"}


def verdict(check: str, found: list[Diagnosis]) -> tuple[str, str]:
    (one,) = (one for one in found if one.check == check)
    return one.verdict, one.sentence


@pytest.mark.parametrize("release", ["7.2.14", "7.4.10", "8.2.6", "8.8.0", "8.10.1", "9.0.0"])
def test_a_release_with_a_mended_restore_is_ok(release: str) -> None:
    assert {one.verdict for one in findings({"redis_version": release})} == {"ok"}


def test_settings_decide_where_the_user_may_read_them() -> None:
    off = {"aof_enabled": 0}
    nothing = verdict("persistence", findings(off, {"save": ""}))
    assert nothing[0] == "warning" and "a restart loses every queue" in nothing[1]
    assert "can't be read" in verdict("persistence", findings(off, {}))[1]
    assert verdict("persistence", findings(config={"appendfsync": "no"}))[0] == "warning"
    unset = findings(config={}, without=("min_slaves_good_slaves",))
    assert verdict("min-replicas", unset)[0] == "warning"
    two = CONFIG | {"min-replicas-to-write": "2"}
    assert verdict("min-replicas", findings(config=two))[0] == "wrong"


def test_slow_scripts_are_named_by_their_digest() -> None:
    found = verdict("scripts", findings(slow=((12_000, "abc"), (30_000, "def"))))
    assert found == (
        "warning",
        "scripts in the slow log: 2, the longest 30.0 ms: def",
    )
    assert "the slow log can't be read" in verdict("scripts", findings(slow=None))[1]


def test_scripts_that_are_not_measured_are_not_none(client: redis.Redis) -> None:
    client.config_set("latency-tracking", "no")
    client.config_resetstat()
    try:
        assert scripts(client) == ("ok", "no script ran yet")
        sha = client.script_load("return 1")
        client.evalsha(sha, 0)
        found = scripts(client)
        assert found == ("unknown", "the server does not measure how long scripts take")
    finally:
        client.config_set("latency-tracking", "yes")


def scripts(client: redis.Redis) -> tuple[str, str]:
    info: Any = client.info("everything")
    return verdict("scripts", findings(info, without=("latency_percentiles_usec_evalsha",)))


def test_state_of_a_cluster() -> None:
    on = {"cluster_enabled": 1}
    assert verdict("cluster", findings(on, cluster=CLUSTER))[0] == "ok"
    assert verdict("cluster", findings(on))[0] == "unknown"
    for broken in ({"cluster_state": "fail"}, {"cluster_slots_ok": "10923"}):
        assert verdict("cluster", findings(on, cluster=CLUSTER | broken))[0] == "wrong"

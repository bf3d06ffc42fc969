"""Checks of one server, or of each node of a Cluster, by what it reports of itself. No I/O here."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ..terminal import count, percent, size
from .diagnosis import Diagnosis
from .server_report import ServerReport

LEAST = {"redis": (7, 0), "valkey": (7, 2)}
"""the lowest supported release"""
RESTORE_MENDED = {
    "redis": ((7, 2, 14), (7, 4, 9), (8, 2, 6), (8, 4, 3), (8, 6, 3), (8, 8, 0)),
    "valkey": ((7, 2, 13), (8, 0, 9), (8, 1, 7), (9, 0, 4), (9, 1, 0)),
}
"""of each branch the first release without CVE-2026-25243, by the release notes; later branches
have never had it"""
MEMORY_WARNING, MEMORY_WRONG = 0.75, 0.9
"""shares of the memory limit"""
LAG_S = 10
"""seconds since a replica's last acknowledgement"""
SLOW_US = 10_000
"""time of a script in the server; meanwhile it serves nobody else"""
_SCRIPTS = ("eval", "evalsha")
_WRITABLE = "see the server's log and the free space of its disk"


def server_findings(report: ServerReport) -> Iterator[Diagnosis]:
    """Every finding about one server."""
    for check in CHECKS:
        yield from check(report)


def _version(report: ServerReport) -> Iterator[Diagnosis]:
    info = report.info
    name = "valkey" if "valkey_version" in info else "redis"
    release = str(info.get(f"{name}_version", "0"))
    parts = tuple(int(part) for part in release.split(".")[:3] if part.isdecimal())
    low = LEAST[name]
    facts = {"server": name, "version": release}
    if parts < low:
        wanted = ".".join(map(str, low))
        yield Diagnosis(
            "version",
            "wrong",
            f"{name.title()} {release} is too old",
            f"upgrade it to {name.title()} {wanted} or newer",
            facts=facts,
        )
        return
    yield Diagnosis("version", "ok", f"{name.title()} {release}", facts=facts)
    *_, last = mended = RESTORE_MENDED[name]
    if parts < last and not any(parts[:2] == one[:2] and parts >= one for one in mended):
        safe = next((one for one in mended if one >= parts), last)
        yield Diagnosis(
            "restore",
            "warning",
            f"{name.title()} {release} has CVE-2026-25243, unless its packager mended it: who may"
            " run RESTORE, as redisq's operators do to undo, can run code in the server",
            f"upgrade it to {name.title()} {'.'.join(map(str, safe))} or newer",
            facts=facts,
        )


def _eviction(report: ServerReport) -> Iterator[Diagnosis]:
    policy = str(report.info.get("maxmemory_policy", "noeviction"))
    facts = {"maxmemory_policy": policy}
    if policy == "noeviction":
        yield Diagnosis("eviction", "ok", "maxmemory-policy is noeviction", facts=facts)
    else:
        yield Diagnosis(
            "eviction",
            "wrong",
            f"maxmemory-policy is {policy}: once memory is full the server deletes entries",
            "CONFIG SET maxmemory-policy noeviction",
            facts=facts,
        )


def _memory(report: ServerReport) -> Iterator[Diagnosis]:
    used, limit = int(report.info.get("used_memory", 0)), int(report.info.get("maxmemory", 0))
    most = limit or int(report.info.get("total_system_memory", 0))
    facts = {"used": used, "maxmemory": limit, "limit": most}
    of = "maxmemory" if limit else "the machine's memory; maxmemory is not set"
    share = used / most if most else 0.0
    sentence = f"{size(used)} used, {percent(share)} of {size(most)} ({of})"
    advice = "raise maxmemory, or free memory: redisq ls, redisq purge, redisq settings"
    if share >= MEMORY_WRONG:
        yield Diagnosis(
            "memory",
            "wrong",
            f"{sentence}: new work is refused when it is full",
            advice,
            facts=facts,
        )
    elif share >= MEMORY_WARNING:
        yield Diagnosis("memory", "warning", sentence, advice, facts=facts)
    else:
        yield Diagnosis("memory", "ok", sentence, facts=facts)


def _persistence(report: ServerReport) -> Iterator[Diagnosis]:
    info, config = report.info, report.config
    facts = {
        "aof_enabled": bool(info.get("aof_enabled")),
        "rdb_last_bgsave_status": info.get("rdb_last_bgsave_status"),
        "aof_last_write_status": info.get("aof_last_write_status"),
        "changes": info.get("rdb_changes_since_last_save"),
        "save": config.get("save"),
        "appendfsync": config.get("appendfsync"),
    }
    failed = [
        what
        for field, what in (
            ("rdb_last_bgsave_status", "the last snapshot failed"),
            ("aof_last_write_status", "the last write to the append-only file failed"),
            ("aof_last_bgrewrite_status", "the last rewrite of the append-only file failed"),
        )
        if info.get(field, "ok") != "ok"
    ]
    if failed:
        yield Diagnosis(
            "persistence",
            "wrong",
            f"{'; '.join(failed)}: the server may refuse writes",
            _WRITABLE,
            facts=facts,
        )
    elif facts["aof_enabled"] and config.get("appendfsync") == "no":
        yield Diagnosis(
            "persistence",
            "warning",
            "the append-only file is on, and the operating system decides"
            " when it is written: a crash of the machine loses about half a minute",
            "CONFIG SET appendfsync everysec",
            facts=facts,
        )
    elif facts["aof_enabled"]:
        yield Diagnosis("persistence", "ok", "the append-only file is on", facts=facts)
    else:
        lost = {
            "": "nothing is kept on disk: a restart loses every queue",
            None: "no append-only file; whether there are snapshots can't be read",
        }.get(config.get("save"), "only snapshots: a crash loses all changes since the last one")
        advice = "CONFIG SET appendonly yes, also in its configuration file"
        yield Diagnosis("persistence", "warning", lost, advice, facts=facts)


def _replication(report: ServerReport) -> Iterator[Diagnosis]:
    info, config = report.info, report.config
    replicas = [info.get(f"slave{n}") or {} for n in range(int(info.get("connected_slaves", 0)))]
    wanted = config.get("min-replicas-to-write")
    good = info.get("min_slaves_good_slaves")  # only where min-replicas-to-write is set
    facts = {
        "role": info.get("role"),
        "replicas": len(replicas),
        "min_replicas_to_write": wanted,
        "good_replicas": good,
    }
    if info.get("role") != "master":
        yield Diagnosis(
            "replication",
            "wrong",
            "this server is a read-only replica",
            "connect to its primary, or by redis+sentinel:// or redis+cluster://",
            facts=facts,
        )
        return
    late = [
        one for one in replicas if one.get("state") != "online" or int(one.get("lag", 0)) > LAG_S
    ]
    n = count(len(replicas))
    if not replicas:
        yield Diagnosis(
            "replication",
            "warning",
            "no replica: if this machine is lost, so are its queues",
            "add a replica (REPLICAOF), and Sentinel or Cluster for the failover",
            facts=facts,
        )
    elif late:
        yield Diagnosis(
            "replication",
            "warning",
            f"replicas behind or not online: {count(len(late))} of {n};"
            " a failover to one of them loses what it lacks",
            "see the replica's log; INFO replication shows its lag",
            facts=facts,
        )
    else:
        yield Diagnosis("replication", "ok", f"replicas online: {n} of {n}", facts=facts)
    if good is not None and int(good) < int(wanted or 1):
        yield Diagnosis(
            "min-replicas",
            "wrong",
            f"min-replicas-to-write is {wanted or 'set'}, replicas "
            f"in reach: {good}: writes are refused",
            "bring the replicas back",
            facts=facts,
        )
    elif good is None and replicas:
        yield Diagnosis(
            "min-replicas",
            "warning",
            "min-replicas-to-write is not set: a primary that is cut off"
            " accepts work that a failover loses",
            "CONFIG SET min-replicas-to-write 1, also in its configuration file",
            facts=facts,
        )
    elif good is not None:
        yield Diagnosis(
            "min-replicas", "ok", f"min-replicas-to-write is {wanted or 'set'}", facts=facts
        )


def _cluster(report: ServerReport) -> Iterator[Diagnosis]:
    if not int(report.info.get("cluster_enabled", 0)):
        return
    if report.cluster is None:
        why = report.missing.get("CLUSTER INFO", "")
        yield Diagnosis("cluster", "unknown", f"the Cluster's state can't be read: {why}")
        return
    state, slots = report.cluster.get("cluster_state"), report.cluster.get("cluster_slots_ok")
    facts = {"state": state, "slots_ok": int(slots or 0)}
    if state != "ok" or facts["slots_ok"] != 16384:
        yield Diagnosis(
            "cluster",
            "wrong",
            f"the Cluster's state is {state}: {slots} of 16384 slots are served",
            "redis-cli --cluster check says which nodes are missing",
            facts=facts,
        )
    else:
        nodes = report.cluster.get("cluster_known_nodes")
        yield Diagnosis("cluster", "ok", f"all slots are served; {nodes} nodes", facts=facts)


def _scripts(report: ServerReport) -> Iterator[Diagnosis]:
    ran = [
        found
        for name in _SCRIPTS
        if (found := report.info.get(f"latency_percentiles_usec_{name}")) is not None
    ]
    p99 = max((int(one.get("p99", 0)) for one in ran), default=None)
    slow = report.slow
    rest = "" if slow is not None else "; the slow log can't be read"
    facts = {"p99_us": p99, "slow": None if slow is None else len(slow)}
    if p99 is not None and p99 >= SLOW_US:
        yield Diagnosis(
            "scripts",
            "wrong",
            f"one of 100 scripts takes {p99 / 1000:,.0f} ms or more of the server's time",
            _advice(report),
            facts=facts,
        )
    elif slow:
        longest, what = max(slow)
        yield Diagnosis(
            "scripts",
            "warning",
            f"scripts in the slow log: {count(len(slow))}, the longest"
            f" {longest / 1000:,.1f} ms: {what}",
            _advice(report),
            facts=facts,
        )
    elif p99 is None and any(report.info.get(f"cmdstat_{name}") for name in _SCRIPTS):
        yield Diagnosis(
            "scripts",
            "unknown",
            f"the server does not measure how long scripts take{rest}",
            "set latency-tracking yes",
            facts=facts,
        )
    elif p99 is None:
        yield Diagnosis("scripts", "ok", f"no script ran yet{rest}", facts=facts)
    else:
        yield Diagnosis(
            "scripts", "ok", f"99 of 100 scripts take less than {p99:,} µs{rest}", facts=facts
        )


def _advice(report: ServerReport) -> str:
    return (
        "look for a busy machine, swap, or other programs' scripts on this server"
        if report.slow is not None
        else "ask an administrator for SLOWLOG GET"
    )


CHECKS: tuple[Callable[[ServerReport], Iterator[Diagnosis]], ...] = (
    _version,
    _eviction,
    _memory,
    _persistence,
    _replication,
    _cluster,
    _scripts,
)

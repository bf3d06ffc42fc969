"""Reads what the servers of a deployment report about themselves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from redisq_ops.core.engine.queue import Queue
from redisq_ops.core.model.errors import RedisqError
from redisq_ops.core.model.keys import registry_key
from redisq_ops.core.redis.operation import Call, apart, attempt, together

from ..deployment import Deployment

SETTINGS = ("save", "appendfsync", "min-replicas-to-write")


@dataclass(frozen=True, slots=True)
class ServerReport:
    """What a server reports about itself."""

    info: Mapping[str, Any]
    """INFO, by field"""
    config: Mapping[str, str] = field(default_factory=dict)
    """CONFIG GET; empty where the user may not run it"""
    slow: tuple[tuple[int, str], ...] | None = None
    """(µs, what) of the slow log's scripts; None where the user may not read it"""
    cluster: Mapping[str, str] | None = None
    """CLUSTER INFO; None where there is none, or the user may not read it"""
    missing: Mapping[str, str] = field(default_factory=dict)
    """command -> why it could not be read"""
    node: str | None = None
    """its address, where there are several"""


async def server_reports(deployment: Deployment, queues: list[Queue[Any]]) -> list[ServerReport]:
    """What the server, or each node of a Cluster that has keys of these queues, says of itself.

    Raises `Forbidden` if the user may not read INFO. Two round trips, on a Cluster four."""
    first = registry_key(deployment.prefix)
    info = await _node(first)
    if isinstance(info, Exception):
        raise info
    nodes = {info.get("run_id"): (first, info)}
    if int(info.get("cluster_enabled", 0)):
        keys = [shard["cfg"] for queue in queues for shard in queue.shard_keys]
        told = await together([_node(key) for key in keys])
        for key, one in zip(keys, told, strict=True):
            if isinstance(one, dict):
                nodes.setdefault(one.get("run_id"), (key, one))
    several = len(nodes) > 1
    read = (_report(key, info, several=several) for key, info in nodes.values())
    return [_named(report, queues) for report in await together(read)]


async def _address(key: str, info: dict[str, Any]) -> str:
    """A node's address, as the Cluster knows it."""
    nodes = await apart(Call(("CLUSTER", "NODES"), _text, key=key))
    rows = [] if isinstance(nodes, Exception) else [row.split() for row in nodes.splitlines()]
    for _, address, flags, *_ in rows:
        if "myself" in flags:
            return address.partition("@")[0]
    return f"port {info.get('tcp_port')}"


def _named(report: ServerReport, queues: list[Queue[Any]]) -> ServerReport:
    """The report with names instead of digests for the slow scripts that are ours."""
    if not report.slow:
        return report
    kinds = {queue.kind: queue for queue in queues}
    names = {
        digest: f"{name} of {kind} queues"
        for kind, queue in kinds.items()
        for digest, name in queue.script_digests().items()
    }
    return replace(report, slow=tuple((took, names.get(what, what)) for took, what in report.slow))


async def _node(key: str) -> dict[str, Any] | Exception:
    info: Call[dict[str, Any]] = Call(("INFO", "everything"), dict[str, Any], key=key)
    return await apart(info)  # only with `apart` a key chooses the node of a single call


async def _report(key: str, info: dict[str, Any], *, several: bool) -> ServerReport:
    config, slow, cluster = await together(
        attempt(Call(("CONFIG", "GET", *SETTINGS), _texts, key=key)),
        attempt(Call(("SLOWLOG", "GET", 128), _slow_scripts, key=key)),
        attempt(Call(("CLUSTER", "INFO"), _lines, key=key)),
    )
    return ServerReport(
        info,
        {} if isinstance(config, Exception) else config,
        None if isinstance(slow, Exception) else tuple(slow),
        None if isinstance(cluster, Exception) else cluster,
        {"CLUSTER INFO": str(cluster)} if isinstance(cluster, RedisqError) else {},
        await _address(key, info) if several else None,
    )


def _text(value: Any) -> str:
    return value.decode(errors="backslashreplace") if isinstance(value, bytes) else str(value)


def _texts(reply: Any) -> dict[str, str]:
    pairs = reply.items() if isinstance(reply, dict) else zip(reply[::2], reply[1::2], strict=True)
    return {_text(name): _text(value) for name, value in pairs}


def _lines(reply: Any) -> dict[str, str]:
    if isinstance(reply, dict):
        return _texts(reply)
    rows = (line.partition(":") for line in _text(reply).splitlines())
    return {name: value for name, colon, value in rows if colon}


def _slow_scripts(reply: Any) -> list[tuple[int, str]]:
    """(µs, digest or command's name) of the scripts; no arguments, which may be payloads."""
    found = []
    for row in reply:
        words = row["command"] if isinstance(row, dict) else row[3]
        took = row["duration"] if isinstance(row, dict) else row[2]
        command = _text(words).split(" ") if isinstance(words, bytes) else [*map(_text, words)]
        name = command[0].upper()
        if name in ("EVALSHA", "EVAL", "FCALL"):
            known = name == "EVALSHA" and len(command) > 1
            found.append((int(took), command[1][:40] if known else name))
    return found

"""Runs every command that prints JSON, and collects its rows under the heading that documents them.

The deployment has a queue of each kind with entries in every state, another program's stream and
Sidekiq beside them, changes of every sort and their plans.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import redis

from redisq_ops import CircularQueue, DelaySet, Failure, FairQueue, Periodic, Settlement

from ..command_line import Redisq, everywhere

Rows = dict[str, list[dict[str, Any]]]
ERROR = Failure("Timeout", "no answer from smtp-3").encoded()


class Collector:
    """Rows by the heading of the reference that has their fields."""

    def __init__(self, redisq: Redisq) -> None:
        self._redisq = redisq
        self.rows: Rows = defaultdict(list)

    def __call__(self, heading: str, *words: str, code: int | None = 0) -> list[dict[str, Any]]:
        """What a command prints on stdout."""
        out = self._redisq(*words, "--json", code=code)
        found = [json.loads(line) for line in out.splitlines()]
        assert found, f"{words} printed nothing"
        for row in found:
            self.rows[_apart(heading, row)].append(row)
        return found

    def file(self, heading: str, path: Path) -> None:
        self.rows[heading] += [json.loads(line) for line in path.read_text().splitlines()]

    def error(self, heading: str, *words: str, code: int) -> None:
        """What a command prints on stderr."""
        assert self._redisq(*words, "--json", code=code) == ""
        self.rows[heading].append(json.loads(self._redisq.err.splitlines()[-1]))


def _apart(heading: str, row: dict[str, Any]) -> str:
    """Commands that print what they found, or could not do, before what came of it."""
    if "registered" in row:
        return "Discovered queue"
    if heading == "Rule standing" and "status" in row:
        return "Monitor check"
    return "Import problem" if "problem" in row and "line" in row else heading


def deployment(client: redis.Redis) -> None:
    """Queues of several kinds, and two of other programs."""
    everywhere(client)
    later = DelaySet(client, "later")
    later.schedule([("e1", b"one"), ("e2", b"two"), ("e3", b"three")], after_ms=0)
    later.schedule([("e4", b"four")], after_ms=60_000)
    taken = later.take(2, consumer="web-1").deliveries
    later.settle([Settlement(each, "reject", ERROR) for each in taken])
    later.set_periodic(Periodic("hourly", "0 * * * *", b"go"))
    DelaySet(client, "slow").schedule([("e0", b"zero")], after_ms=60_000)
    jobs = FairQueue(client, "jobs")
    for client_of in ("acme", "bolt"):
        jobs.submit(client_of, [b'{"region": "eu"}', b'{"region": "us"}'] * 6)
    # Each client's entries die of an error of their own, so that groups have something in common.
    taken = jobs.take(22, consumer="web-1").deliveries
    errors = {"acme": ERROR, "bolt": Failure("KeyError", "'vat_id'").encoded()}
    jobs.settle([Settlement(each, "reject", errors[each.client or ""]) for each in taken[:20]])
    CircularQueue(client, "docs").push(["1", "2"])
    client.xgroup_create("orders", "billing", id="0", mkstream=True)
    for number in range(12):
        client.xadd("orders", {"order": number})
    client.xreadgroup("billing", "web-1", {"orders": ">"}, count=5)
    for _ in range(10):  # delivered often enough to be called poison
        client.xautoclaim("orders", "billing", "web-1", 0)
    client.sadd("queues", "low")
    job = {"class": "A", "args": [1], "jid": "0123456789abcdef01234567", "queue": "low"}
    client.lpush("queue:low", json.dumps(job | {"created_at": 1.0, "enqueued_at": 1.0}))
    client.sadd("processes", "web:1:0123456789ab")
    info = {"hostname": "web", "pid": 1, "started_at": 1.0, "queues": ["low"], "concurrency": 1}
    client.sadd("processes", "gone:1:0123456789ab")
    client.hset(
        "web:1:0123456789ab",
        mapping={"info": json.dumps(info), "busy": 0, "beat": 1.0, "quiet": "false"},
    )


def run(redisq: Redisq, client: redis.Redis, tmp_path: Path, configuration: Path) -> Rows:
    """Every command, in an order in which each has something to print."""
    deployment(client)
    collect = Collector(redisq)
    for step in (_looks, _plans, _changes, _files, _others):
        for _ in step(collect, client, tmp_path):
            pass
    configuration.write_text('[contexts.prod]\nurl = "redis://h"\nread_only = true\n')
    collect("Value", "config")
    collect("Context", "config", "--contexts")
    return collect.rows


def _looks(collect: Collector, client: redis.Redis, tmp: Path) -> Iterator[None]:
    (tmp / "lines").write_text("one\ntwo\n")
    lines = str(tmp / "lines")
    collect("Submission", "submit", lines, "--queue", "mail", "--id", "r2")
    collect("Submission", "submit", lines, "--queue", "mail", "--id", "r3", "--dry-run")
    collect("Schedule", "delay", "schedule", "later/e9", "x", "--in", "1h")
    collect("Queue", "ls")
    for name in ("mail", "later", "jobs", "docs", "stream:orders"):
        collect("Queue details", "inspect", "queue", name)
    collect("Request details", "inspect", "request", "mail/r1")
    for noun in ("waiting", "pending", "dlq", "delay"):
        collect("Entry", noun, "ls", "mail")
    collect("Entry", "select", "jobs")
    collect("Entry count", "select", "--all-queues", "--count")
    collect("Entry details", "inspect", "entry", "mail/r1/2")
    collect("Result", "results", "mail/r1")
    collect("Event", "history", "mail")
    collect("Check", "fsck")
    collect("Diagnosis", "doctor", code=None)
    collect("Monitor check", "check", "--warning", "dead>0", code=None)
    collect("Monitor check", "check", "nothing-of-that-name", code=3)
    collect("Rule standing", "check", "--explain", code=None)
    collect("ACL rule", "acl", "viewer")
    for address in (
        "mail",
        "mail/r1",
        "mail/r1/2",
        "mail/r1/3",
        "jobs",
        "later/e4",
        "later/hourly",
    ):
        collect("Explanation", "explain", address)
    (group, *_) = collect("Error group", "dlq", "groups", "jobs")
    collect("Error group details", "dlq", "group", "jobs", group["group"])
    collect("Consumer report", "consumers", "ls")
    collect("Consumer report", "consumers", "ls", "stream:orders")
    collect("Client", "client", "ls", "jobs")
    collect("Periodic entry", "periodic", "ls")
    collect("Setting", "retention", "mail")
    collect("Condition", "wait", "when", "waiting>=0", "--queue", "mail")
    collect("Discovered queue", "discover")
    collect("Worker process", "workers", "ls", "sidekiq")
    collect.error("Error", "ls", "--nonsense", code=2)
    collect.error("Error", "dlq", "ls", "mail", "--where", "eror~x", code=2)
    yield


def _plans(collect: Collector, client: redis.Redis, tmp: Path) -> Iterator[None]:
    plan = "Plan"
    collect(plan, "dlq", "replay", "later", "--dry-run")
    collect(plan, "dlq", "replay", "jobs", code=5)
    collect(plan, "dlq", "move", "later", "--to", "slow", "--dry-run")
    collect(plan, "consumers", "claim", "mail", "w1", "--to", "w2", "--min-idle", "0s", "--dry-run")
    collect(plan, "consumers", "remove", "stream:orders", "web-1", "--dry-run")
    collect(plan, "dlq", "edit", "later/e1", "--payload", "new", "--dry-run")
    collect(plan, "request", "cancel", "mail/r2", "--dry-run")
    collect(plan, "request", "limit", "mail/r2", "8", "--dry-run")
    collect(plan, "queue", "pause", "mail", "--dry-run")
    collect(plan, "queue", "destroy", "mail", "--hard", "--dry-run")
    collect(plan, "client", "cap", "jobs", "acme", "3", "--dry-run")
    collect(plan, "retention", "mail", "history=all", "--dry-run")
    collect(plan, "periodic", "pause", "later/hourly", "--dry-run")
    collect(plan, "discover", "--register", "--dry-run")
    collect(plan, "workers", "prune", "sidekiq", "--older-than", "1s", "--dry-run")
    file = str(tmp / "p.ndjson")
    collect(plan, "dlq", "replay", "later", "--plan", file)
    collect(plan, "apply", file, "--dry-run")
    collect.file("Plan file", tmp / "p.ndjson")
    yield


def _changes(collect: Collector, client: redis.Redis, tmp: Path) -> Iterator[None]:
    change = "Outcome"
    report = tmp / "report.ndjson"
    collect(change, "apply", str(tmp / "p.ndjson"), "--max", "1", "--report", str(report), "--yes")
    collect(change, "apply", str(tmp / "p.ndjson"), "--report", str(report), "--yes")
    collect(change, "apply", str(tmp / "p.ndjson"), "--yes")
    collect.file("Report file", report)
    collect(
        change,
        "dlq",
        "replay",
        "jobs",
        "--ramp",
        "--watch",
        "1ms",
        "--max",
        "2",
        "--yes",
        code=None,
    )
    collect("Operation", "log")
    collect("Plan", "undo", "--dry-run")
    collect(change, "undo", "--yes")
    collect(change, "dlq", "purge", "later", "--yes", code=None)
    collect(change, "dlq", "purge", "jobs", "--yes")
    collect("Entry", "trash", "ls", "jobs")
    collect("Entry details", "inspect", "entry", "mail/r1/1")
    collect(change, "request", "cancel", "mail/r2", "--yes")
    collect("Request", "wait", "request", "mail/r2", code=1)
    collect(change, "queue", "pause", "mail", "--yes")
    collect(change, "retention", "mail", "history=all", "--yes")
    collect(change, "client", "weight", "jobs", "acme", "2", "--yes")
    collect(change, "periodic", "run", "later/hourly", "--yes")
    collect(change, "consumers", "remove", "stream:orders", "web-1", "--yes")
    collect(change, "workers", "prune", "sidekiq", "--older-than", "1s", "--yes", code=None)
    yield


def _files(collect: Collector, client: redis.Redis, tmp: Path) -> Iterator[None]:
    file = tmp / "mail.ndjson"
    collect("Export summary", "export", "mail", "-o", str(file))
    collect.file("Export file", file)
    out = ("--queue", "copy", "--as-waiting")
    collect("Plan", "import", str(file), *out, "--dry-run")
    collect("Outcome", "import", str(file), *out, "--yes", code=None)
    later = tmp / "later.ndjson"
    collect("Export summary", "export", "later", "-o", str(later))
    # The same ids with other payloads: none of these is imported.
    later.write_text(later.read_text().replace('"payload": "', '"payload": "other '))
    collect("Outcome", "import", str(later), "--as-waiting", "--yes", code=None)
    yield


def _others(collect: Collector, client: redis.Redis, tmp: Path) -> Iterator[None]:
    collect("Outcome", "discover", "--register", "--yes", code=None)
    collect("Plan", "forget", "stream:orders", "--dry-run")
    yield

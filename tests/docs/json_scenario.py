"""Runs every command that prints JSON, and collects its rows by their output type.

The deployment has a queue of each kind with entries in every state, another program's stream and
Sidekiq beside them, changes of every sort and their plans.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import chdir, closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import redis

from redisq_ops import CircularQueue, DelaySet, Failure, FairQueue, Periodic, Settlement
from redisq_ops.ops.recording.file import RecordingFile, span_ms

from ..command_line import Redisq, everywhere
from ..ports import free_port
from . import json_reference

Rows = dict[str, list[dict[str, Any]]]
WEB = "web:1:0123456789ab"
ERROR = Failure("Timeout", "no answer from smtp-3").encoded()


class Collector:
    """Rows by their output type, and which command printed which type."""

    def __init__(self, redisq: Redisq) -> None:
        self._redisq = redisq
        self.rows: Rows = defaultdict(list)
        self.commands = set[tuple[str, str]]()

    def __call__(self, name: str, *words: str, code: int | None = 0) -> list[dict[str, Any]]:
        """What a command prints on stdout."""
        found = self.some(name, *words, code=code)
        assert found, f"{words} printed nothing"
        return found

    def some(self, name: str, *words: str, code: int | None = None) -> list[dict[str, Any]]:
        """What a command prints on stdout, if anything."""
        out = self._redisq(*words, "--json", code=code)
        found = [json.loads(line) for line in out.splitlines()]
        for row in found:
            kind = _kind(name, row)
            self.rows[kind].append(row)
            self.commands.add((_command(words), kind))
        last = "".join(self._redisq.err.splitlines()[-1:])
        if last.startswith('{"error"'):
            self.rows["Error"].append(json.loads(last))
        return found

    def file(self, name: str, path: Path) -> None:
        """The lines of a file."""
        rows = [json.loads(line) for line in path.read_text().splitlines()]
        for number, row in enumerate(rows):
            self.rows[f"{name}{_line(name, row, number)}"].append(row)

    def error(self, *words: str, code: int) -> None:
        """What a command prints on stderr."""
        assert self._redisq(*words, "--json", code=code) == ""
        self.rows["Error"].append(json.loads(self._redisq.err.splitlines()[-1]))


def _command(words: Sequence[str]) -> str:
    """The command's name: one word, or two."""
    commands = json_reference.printed()
    return next(name for n in (2, 1) if (name := " ".join(words[:n])) in commands)


def _kind(name: str, row: dict[str, Any]) -> str:
    """Commands that print what they found, or could not do, before what came of it."""
    if "registered" in row:
        return "DiscoveredQueue"
    if name == "RuleStanding" and "status" in row:
        return "MonitorCheck"
    if name in ("ConsumerReport", "WorkerProcess"):
        return "WorkerProcess" if "host" in row else "ConsumerReport"
    if "plan" in row and name == "Outcome":
        return "Plan"
    if "plan" not in row and "skipped" in row and name == "Plan":
        return "Outcome"
    return "ImportProblem" if "problem" in row and "line" in row else name


def _line(name: str, row: dict[str, Any], number: int) -> str:
    """Which line of a file a row is."""
    if name == "PlanFile" and "matched" in row:
        return "Summary"
    if row.get("redisq") == "end" or (name == "ReportFile" and "done" in row):
        return "Trailer"
    return "Header" if "redisq" in row else "Entry"


def deployment(client: redis.Redis) -> None:
    """Queues of several kinds, and two of other programs."""
    everywhere(client)
    later = DelaySet(client, "later")
    later.schedule([("e1", b"one"), ("e2", b"two"), ("e3", b"three")], after=0)
    later.schedule([("e4", b"four")], after=60)
    taken = later.take(2, consumer="web-1").deliveries
    later.settle([Settlement(each, "reject", ERROR) for each in taken])
    later.set_periodic(Periodic("hourly", "0 * * * *", b"go"))
    DelaySet(client, "slow").schedule([("e0", b"zero")], after=60)
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
    client.sadd("processes", WEB)
    info = {"hostname": "web", "pid": 1, "started_at": 1.0, "queues": ["low"], "concurrency": 1}
    client.sadd("processes", "gone:1:0123456789ab")
    now = datetime.now(UTC)
    client.hset(f"{now:%Y%m%d}-marks", f"{now:%Y-%m-%dT%H:%M:%SZ}", "4f2c mail")
    client.hset(f"j|{now:%y%m%d}|{now.hour}:{now:%M}", mapping={"A|p": 1, "A|ms": 3})
    client.hset(
        WEB,
        mapping={"info": json.dumps(info), "busy": 0, "beat": 1.0, "quiet": "false"},
    )
    client.hset("bull:sums:meta", "version", "bullmq:6.7.0")
    client.zadd("bull:sums:completed", {"j1": 1_700_000_000_000})
    written: dict[Any, Any] = {"name": "sum", "data": "{}", "opts": "{}", "progress": 50}
    client.hset("bull:sums:j1", mapping=written | {"timestamp": 1})


def run(redisq: Redisq, client: redis.Redis, tmp_path: Path, configuration: Path) -> Collector:
    """Every command, in an order in which each has something to print."""
    deployment(client)
    collect = Collector(redisq)
    for step in (_looks, _recordings, _plans, _changes, _files, _others, _every_change):
        for _ in step(collect, client, tmp_path):
            pass
    hook = f'notify.to.team.webhook = "http://127.0.0.1:{free_port()}"\n'
    configuration.write_text(hook + '[contexts.prod]\nurl = "redis://h"\nread_only = true\n')
    collect("ConfigurationValue", "config")
    collect("Context", "config", "--contexts")
    collect("NotifiedRecipient", "check", "--notify-test", code=3)
    return collect


def _looks(collect: Collector, client: redis.Redis, tmp: Path) -> Iterator[None]:
    (tmp / "lines").write_text("one\ntwo\n")
    lines = str(tmp / "lines")
    collect("Submission", "submit", lines, "--queue", "mail", "--id", "r2")
    collect("Submission", "submit", lines, "--queue", "mail", "--id", "r3", "--dry-run")
    skipped = tmp / "skipped"
    words = ("submit", lines, "--queue", "short", "--max-payload", "3", "--split", "1")
    (tmp / "lines").write_text("one\nlonger\n")
    collect("Submission", *words, "--skip-invalid", str(skipped), code=3)
    collect.rows["InvalidLine"] += [json.loads(line) for line in skipped.read_text().splitlines()]
    collect("Schedule", "delay", "add", "later/e9", "x", "--in", "1h")
    collect("Queue", "ls")
    for name in ("mail", "later", "jobs", "docs", "stream:orders"):
        collect("QueueDetails", "inspect", name)
    collect("RequestDetails", "inspect", "mail/r1")
    collect("Request", "request", "ls", "mail")
    for noun in ("waiting", "pending", "dlq", "delay"):
        collect("Entry", noun, "ls", "mail")
    collect("Entry", "select", "jobs")
    collect("EntryCount", "select", "*", "--count")
    collect("ValueCount", "select", "mail", "--by", "error.type")
    collect("ValueCount", "select", "*", "--by", "queue")
    collect("EntryDetails", "inspect", "mail/r1/2")
    at = "bull:flow:"
    client.hset(f"{at}meta", "version", "bullmq:6.7.0")
    client.hset(f"{at}child", mapping={"name": "n", "timestamp": 1, "parentKey": f"{at}parent"})
    client.lpush(f"{at}wait", "child")
    collect("EntryDetails", "inspect", "bullmq:flow/child")
    client.delete(f"{at}meta", f"{at}child", f"{at}wait")
    collect("EntryDetails", "inspect", "bullmq:sums/j1")
    collect("Entry", "done", "ls", "bullmq:sums")
    collect("Result", "results", "mail/r1")
    collect("Event", "history", "mail")
    collect("Consistency", "fsck")
    collect("Diagnosis", "doctor", code=None)
    collect("MonitorCheck", "check", "--warning", "dead>0", code=None)
    collect("MonitorCheck", "check", "nothing-of-that-name", code=3)
    collect("RuleStanding", "check", "--explain", code=None)
    collect("MonitorCheck", "watch", "--listen", "127.0.0.1:0", "--for", "1ms")
    collect("AclRule", "acl", "viewer")
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
    (group, *_) = collect("ErrorGroup", "dlq", "groups", "jobs")
    collect("ErrorGroupDetails", "dlq", "group", "jobs", group["group"])
    collect("ConsumerReport", "workers", "ls")
    collect("ConsumerReport", "workers", "ls", "stream:orders")
    collect("Client", "client", "ls", "jobs")
    collect("PeriodicEntry", "periodic", "ls")
    collect("Task", "tasks")
    collect("Task", "tasks", "sidekiq")
    collect("Setting", "settings", "mail")
    collect("Condition", "wait", "mail", "--until", "waiting>=0")
    collect("EntryEnd", "wait", "later/e1", code=3)
    collect("DiscoveredQueue", "discover")
    with chdir(tmp):
        collect("FileWritten", "kind", "new", "post")
    collect("SchemaName", "schema")
    collect("WorkerProcess", "workers", "ls", "sidekiq")
    collect.error("ls", "--nonsense", code=2)
    collect.error("dlq", "ls", "mail", "--where", "eror~x", code=2)
    yield


def _recordings(collect: Collector, client: redis.Redis, tmp: Path) -> Iterator[None]:
    file = str(tmp / "queues.rec")
    collect("RecordingSummary", "recording", "write", file, "--for", "10ms", "--interval", "100ms")
    begin_ms, _ = span_ms(Path(file))
    # One second later, so that it is another moment of the recording.
    later = datetime.fromtimestamp(begin_ms // 1000 + 2, UTC).isoformat()
    with closing(RecordingFile(file, 1 << 30)) as writer:
        writer.add({"at_ms": begin_ms + 1000})
    began = ("--at", datetime.fromtimestamp((begin_ms + 999) / 1000, UTC).isoformat())
    collect("RecordedQueue", "recording", "show", file, *began)
    collect("ConsumerReport", "recording", "show", file, "workers", *began)
    collect.some("Operation", "recording", "show", file, "log", *began)
    diff = ("--at", later, "--diff", began[1])
    collect("QueueDifference", "recording", "show", file, *diff)
    yield


def _plans(collect: Collector, client: redis.Redis, tmp: Path) -> Iterator[None]:
    plan = "Plan"
    collect(plan, "replay", "later", "--dry-run")
    collect(plan, "replay", "jobs", code=5)
    collect(plan, "dlq", "acknowledge", "jobs", "--until", "3d", "--dry-run")
    collect(plan, "move", "later", "--state", "dead", "--to", "slow", "--dry-run")
    collect(plan, "workers", "claim", "mail", "w1", "--to", "w2", "--min-idle", "0s", "--dry-run")
    collect(plan, "workers", "rm", "stream:orders", "web-1", "--dry-run")
    ack = ("workers", "ack", "stream:orders", "web-1", "--min-idle", "0s")
    collect(plan, *ack, "--dry-run")
    collect(plan, "group", "create", "stream:orders", "new", "start", "--dry-run")
    collect(plan, "group", "move", "stream:orders", "billing", "end", "--dry-run")
    collect(plan, "group", "trim", "stream:orders", "--dry-run")
    collect(plan, "workers", "requeue", "mail", "w1", "--min-idle", "0s", "--dry-run")
    collect(plan, "edit", "later/e1", "--payload", "new", "--dry-run")
    collect(plan, "request", "cancel", "mail/r2", "--dry-run")
    collect(plan, "request", "limit", "mail/r2", "8", "--dry-run")
    collect(plan, "queue", "pause", "mail", "--dry-run")
    collect(plan, "queue", "rm", "mail", "--hard", "--dry-run")
    collect(plan, "client", "cap", "jobs", "acme", "3", "--dry-run")
    collect(plan, "settings", "mail", "history=all", "--dry-run")
    collect(plan, "periodic", "pause", "later/hourly", "--dry-run")
    collect(plan, "discover", "--register", "--dry-run")
    collect(plan, "workers", "rm", "sidekiq", "--older-than", "1s", "--dry-run")
    collect(plan, "workers", "quiet", "sidekiq", WEB, "--dry-run")
    file = str(tmp / "p.ndjson")
    collect(plan, "replay", "later", "--plan", file)
    collect(plan, "apply", file, "--dry-run")
    collect.file("PlanFile", tmp / "p.ndjson")
    moved = str(tmp / "moved.ndjson")
    collect(
        plan, "move", "later", "--state", "dead", "--to", "slow", "--window", "1", "--plan", moved
    )
    collect.file("PlanFile", tmp / "moved.ndjson")
    yield


def _changes(collect: Collector, client: redis.Redis, tmp: Path) -> Iterator[None]:
    change = "Outcome"
    report = tmp / "report.ndjson"
    collect(change, "apply", str(tmp / "p.ndjson"), "--max", "1", "--report", str(report), "--yes")
    collect(change, "apply", str(tmp / "p.ndjson"), "--report", str(report), "--yes")
    collect(change, "apply", str(tmp / "p.ndjson"), "--yes")
    collect.file("ReportFile", report)
    collect(
        change,
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
    collect(change, "purge", "later", "--state", "dead", "--yes", code=None)
    collect(change, "purge", "jobs", "--state", "dead", "--yes")
    collect("Entry", "trash", "ls", "jobs")
    collect("EntryDetails", "inspect", "mail/r1/1")
    collect(change, "request", "cancel", "mail/r2", "--yes")
    collect("Request", "wait", "mail/r2", code=1)
    collect(change, "queue", "pause", "mail", "--yes")
    collect(change, "settings", "mail", "history=all", "--yes")
    collect(change, "client", "weight", "jobs", "acme", "2", "--yes")
    collect(change, "periodic", "run", "later/hourly", "--yes")
    collect(change, "workers", "rm", "stream:orders", "web-1", "--yes")
    for told in "quiet", "stop":
        collect(change, "workers", told, "sidekiq", WEB, "--yes")
    client.set("arq:in-progress:a", 1)
    client.zadd("arq:queue", {"a": 1})
    collect(change, "pending", "stop", "arq:arq:queue/a", "--yes")
    collect(change, "group", "create", "stream:orders", "new", "start", "--yes")
    collect(change, "group", "rm", "stream:orders", "new", "--yes")
    collect(change, "workers", "rm", "sidekiq", "--older-than", "1s", "--yes", code=None)
    yield


def _files(collect: Collector, client: redis.Redis, tmp: Path) -> Iterator[None]:
    file = tmp / "mail.ndjson"
    collect("ExportSummary", "export", "mail", "-o", str(file))
    collect.file("ExportFile", file)
    out = ("--queue", "copy", "--as-waiting")
    collect("Plan", "import", str(file), *out, "--dry-run")
    collect("Outcome", "import", str(file), *out, "--yes", code=None)
    later = tmp / "later.ndjson"
    collect("ExportSummary", "export", "later", "-o", str(later))
    # The same ids with other payloads: none of these is imported.
    later.write_text(later.read_text().replace('"payload": "', '"payload": "other '))
    collect("Outcome", "import", str(later), "--as-waiting", "--yes", code=None)
    yield


def _others(collect: Collector, client: redis.Redis, tmp: Path) -> Iterator[None]:
    collect("Outcome", "discover", "--register", "--yes", code=None)
    collect("Plan", "queue", "rm", "stream:orders", "--dry-run")
    yield


def _every_change(collect: Collector, client: redis.Redis, tmp: Path) -> Iterator[None]:
    """Every other change shows its plan."""
    own: dict[str, tuple[str, ...]] = {
        "claim": ("--consumer", "me"),
        "move": ("--to", "slow"),
        "reschedule": ("--in", "5m"),
        "purge": ("--state", "waiting"),
        "requeue": ("--state", "delayed"),
    }
    for noun, verb in (("trash", "restore"), ("trash", "rm"), ("delay", "reschedule")):
        collect("Plan", noun, verb, "--queue", "later", *own.get(verb, ()), "--dry-run")
    for verb in ("claim", "move", "purge", "requeue", "replay"):
        more = (*own.get(verb, ()), *(("--state", "dead") if verb == "move" else ()))
        collect("Plan", verb, "--queue", "later", *more, "--dry-run")
    for verb in ("purge", "replay"):
        collect("Plan", verb, "bullmq:sums", "--state", "done", "--dry-run")
    collect("Plan", "edit", "later/e4", "--payload", "new", "--dry-run")
    patch = '[{"op": "add", "path": "/args/-", "value": 1}]'
    collect("Plan", "edit", "sidekiq:low", "--state", "waiting", "--patch", patch, "--dry-run")
    for words in (("block",), ("weight", "4"), ("rate", "9/s"), ("unblock",)):
        collect("Plan", "client", words[0], "jobs", "acme", *words[1:], "--dry-run")
    for verb in ("add", "edit", "pause", "resume", "rm"):
        name = "daily" if verb == "add" else "hourly"
        more = ("--cron", "0 3 * * *") if verb in ("add", "edit") else ()
        collect("Plan", "periodic", verb, f"later/{name}", *more, "--dry-run")
    for verb in ("drain", "resume"):
        collect("Plan", "queue", verb, "later", "--dry-run")
    (tmp / "more").write_text("one\n")
    collect("Submission", "submit", str(tmp / "more"), "--queue", "later2", "--id", "r9")
    for verb, more in (("pause", ()), ("resume", ()), ("priority", ("3",))):
        collect.some("Plan", "request", verb, "later2/r9", *more, "--dry-run")
    yield


def every_look(collect: Collector, names: Sequence[str]) -> None:
    """Every command that only reads, on every queue; some refuse some kinds."""
    collect("Queue", "ls")
    collect("Operation", "log")
    collect("Consistency", "fsck", code=None)
    collect("DiscoveredQueue", "discover", code=None)
    collect("PeriodicEntry", "periodic", "ls")
    collect("Diagnosis", "doctor", code=None)
    collect("EntryCount", "select", "*", "--count", code=None)
    collect("RuleStanding", "check", "--explain", code=None)
    collect("MonitorCheck", "watch", "--listen", "127.0.0.1:0", "--for", "1ms")
    collect("ConsumerReport", "workers", "ls", code=None)
    for name in names:
        collect("QueueDetails", "inspect", name)
        collect("Explanation", "explain", name)
        collect.some("Condition", "wait", name, "--until", "waiting>=0")
        for noun in ("waiting", "pending", "delay", "dlq", "done", "trash"):
            for row in collect.some("Entry", noun, "ls", "--queue", name)[:1]:
                collect("EntryDetails", "inspect", row["address"])
                collect("Explanation", "explain", row["address"])
        for kind, *words in (
            ("Event", "history"),
            ("ErrorGroup", "dlq", "groups"),
            ("Client", "client", "ls"),
            ("ConsumerReport", "workers", "ls"),
            ("Setting", "settings"),
            ("PeriodicEntry", "periodic", "ls"),
            ("Task", "tasks", "--last", "1d"),
        ):
            collect.some(kind, *words, name)
        for verb, state in (("replay", "dead"), ("requeue", "pending"), ("purge", "waiting")):
            collect.some("Plan", verb, "--queue", name, "--state", state, "--dry-run")
        collect.some("Plan", "replay", "--queue", name, "--max", "1")
        collect.some("Outcome", "replay", "--queue", name, "--max", "1", "--yes")
        collect.some("Outcome", "undo", "--yes")

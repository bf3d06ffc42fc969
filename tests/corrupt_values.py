"""Corrupt one value of a deployment with a queue of each kind, and run every command on it.

A mutation replaces one hash field, list element, set member, sorted set member or score, stream
entry or whole key. Commands run in this process; a `Finding` is an exception that no command
expects, or a command on other queues that ends otherwise than before.

    python -m tests.corrupt_values --mutations 500 --commands 0      # 0: every command each time
    python -m tests.corrupt_values --programs --mutations 500        # RQ's, Celery's … queues
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import random
import re
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import patch

import redis
import rq

from redisq_ops.cli import main as cli
from redisq_ops.core.foreign.resque import ResqueQueue
from redisq_ops.core.foreign.ruby_jobs import Job
from redisq_ops.core.foreign.sidekiq import SidekiqQueue
from redisq_ops.core.model.entry import Failure, Outcome, Settlement
from redisq_ops.core.queues.carmine import CarmineQueue
from redisq_ops.core.queues.circular import CircularQueue
from redisq_ops.core.queues.delay import DelaySet, Periodic
from redisq_ops.core.queues.fair import FairQueue
from redisq_ops.core.queues.request import ShardedRequestQueue

from .command_line import everywhere
from .core.foreign import test_rq
from .foreign_keys import arq_program, bullmq_program, celery_program, dramatiq_program
from .foreign_keys.article_programs import (
    CircularArticle,
    DelayArticle,
    FairArticle,
    RequestArticle,
)
from .ops import test_discover

ERROR = Failure("Boom", "it broke").encoded()
OURS = ("mail", "good", "later", "ring", "turn", "fair", "carmine:q", "sharded")
STATES = ("waiting", "pending", "delay", "dlq", "trash")

VALUES: dict[str, bytes] = {
    "empty": b"",
    "text": b"garbage",
    "not UTF-8": b"\xff\xfe\x80",
    "100 KB": b"x" * 100_000,
    "nested": b"[" * 100_000,
    "nested objects": b'{"a":' * 50_000,
    "NaN": b"NaN",
    "Infinity": b'{"type":Infinity,"message":-Infinity,"created_at":NaN,"at":NaN}',
    "list": b"[]",
    "null": b"null",
    "number": b"7",
    "negative": b"-1",
    "fraction": b"1.5",
    "long number": b"9" * 30,
    "very long number": b"9" * 5000,
    "object": b'{"kind":[],"schema":"x","class":5,"args":{},"queue":null,"payload":"p"}',
    "odd entry": b'{"kind":"request","schema":{},"created_ms":"x","shards":"two","at":5}',
    "many shards": b'{"kind":"request","schema":1,"shards":1000000000,"layout":1}',
    "words": b"a b c d e f g h i",
    "numbers": b"- -1 99999999999999999999 1e9 inf - - - 0",
    "control": b"\x1b]52;c;aGk=\x07\r\n\xe2\x80\xae",
    "msgpack": b"\x9f\xc1\xdf\xff",
}
OWNERS = {
    "bull:": "bullmq:",
    "dramatiq:": "dramatiq:",
    "arq:": "arq:",
    "celery": "celery:",
    "unacked": "celery:",
    "_kombu.": "celery:",
    "rq:": "rq:",
}
"""how keys of a program begin, and names of its queues"""
SCORES = ("inf", "-inf", "0.1", "-1", "1e300", "9007199254740993", "1.5e18")
NAMES = (b"\xff\xfe", b"", b"x" * 100_000, b"a b|c{d}*/", b"r1/x", b"r1/99999999999999999999", b"/")


@dataclass(frozen=True)
class Mutation:
    """What was changed, in words, and how to do it again."""

    key: bytes
    what: str
    apply: Callable[[Any], Any] = field(compare=False, repr=False)

    def __str__(self) -> str:
        return f"{self.key.decode(errors='backslashreplace')}: {self.what}"


@dataclass(frozen=True)
class Finding:
    """A command that failed otherwise than a command may."""

    mutation: str
    command: str
    what: str


def populate(client: redis.Redis, url: str) -> None:
    """A queue of each kind with entries in each state, an operation in each journal."""
    everywhere(client, "mail")
    everywhere(client, "good")
    sharded: Any = ShardedRequestQueue(client, "sharded", shards=2)
    for id in ("s1", "s2", "s3"):
        sharded.submit([b"x"] * 4, id=id)
    later = DelaySet(client, "later")
    later.schedule([(f"e{n}", b'{"n": 1}') for n in range(8)])
    later.schedule([(f"f{n}", b"x") for n in range(3)], after=600)
    later.set_periodic(Periodic("nightly", "0 3 * * *", b"x"))
    ring = CircularQueue(client, "ring")
    ring.push([(f"e{n}", b"x") for n in range(8)])
    turn: Any = CircularQueue(client, "turn", residence="rotate")
    turn.push([(f"e{n}", b"x") for n in range(8)])
    fair = FairQueue(client, "fair")
    fair.submit("ann", [(f"a{n}", b"x") for n in range(5)])
    fair.submit("bob", [(f"b{n}", b"x") for n in range(4)])
    carmine = CarmineQueue(client, "carmine:q")
    carmine.enqueue([(f"e{n}", b"x") for n in range(8)])
    settled: Sequence[Any] = (sharded, later, ring, turn, fair, carmine)
    ends: tuple[Outcome, ...] = ("reject", "reject", "fail", "ack")
    for queue in settled:
        held = queue.take(5, consumer="w1", lease=60).deliveries
        queue.settle([Settlement(*end, ERROR, 60) for end in zip(held, ends, strict=False)])
    jobs = [Job("Mail", [n]) for n in range(8)]
    for other in (ResqueQueue(client, "resque:low"), SidekiqQueue(client, "sidekiq:low")):
        other.push(jobs)
        held = other.take(4, consumer="w1").deliveries
        other.settle([Settlement(*end, ERROR, 60) for end in zip(held, ends[:3], strict=False)])
    client.hset(
        "host:1:abc",
        mapping={
            "info": json.dumps(
                {
                    "hostname": "host",
                    "started_at": 1.5e9,
                    "pid": 1,
                    "tag": "",
                    "concurrency": 3,
                    "queues": ["low"],
                    "labels": [],
                    "identity": "host:1:abc",
                }
            ),
            "busy": 1,
            "beat": time.time(),
            "quiet": "false",
        },
    )
    client.sadd("processes", "host:1:abc")
    client.hset(
        "host:1:abc:work",
        "t1",
        json.dumps(
            {
                "queue": "low",
                "payload": json.dumps({"class": "Mail", "args": [], "jid": "j"}),
                "run_at": time.time(),
            }
        ),
    )
    _articles(client)
    nowhere = io.StringIO()
    with (
        patch.dict(os.environ, REDIS_URL=url),
        contextlib.redirect_stdout(nowhere),
        contextlib.redirect_stderr(nowhere),
    ):
        assert cli.run(["discover", "--register", "--yes"]) in (0, 3)
        for name in (*OURS, "resque:low", "sidekiq:low"):
            assert cli.run(["dlq", "purge", "--queue", name, "--max", "1", "--yes"]) == 0


def populate_programs(client: redis.Redis, url: str) -> None:
    """Queues that real programs made, with jobs in every state, an operation in each audit log."""
    test_rq.prepared(client, rq.Queue("mail", connection=client))
    client.zadd("rq:wip:mail", {"w3:e1": time.time() + 1000})
    for program in (arq_program, bullmq_program, celery_program, dramatiq_program):
        program.specimen(client)
        client.delete("other")  # one program's queue; the next one has another type there
    nowhere = io.StringIO()
    with (
        patch.dict(os.environ, REDIS_URL=url),
        contextlib.redirect_stdout(nowhere),
        contextlib.redirect_stderr(nowhere),
    ):
        assert cli.run(["discover", "--register", "--yes"]) in (0, 3)
        for name in ("rq:mail", "arq:arq:queue", "bullmq:mail", "celery:celery", "dramatiq:low"):
            assert cli.run(["waiting", "purge", "--queue", name, "--max", "2", "--yes"]) == 0
            if not name.startswith("celery"):
                for words in (["dlq", "replay"], ["dlq", "purge"], ["delay", "requeue"]):
                    assert cli.run([*words, "--queue", name, "--max", "1", "--yes"]) == 0


def _articles(client: redis.Redis) -> None:
    """Queues of the articles, of Carmine's present layout, and a stream with a group."""
    now: Any = client.time()
    test_discover.carmine(client)
    test_discover.stream(client)
    client.xreadgroup("mail", "w1", {"orders": ">"}, count=1)
    client.xadd("orders", {"n": 2})
    requests = RequestArticle(client)
    requests.submit("r1", ["a", "b"], limit=1)
    requests.read("r1", "w1")
    turning = CircularArticle(client)
    turning.push("45", "46")
    turning.next(int(now[0]))
    for n in range(5):  # half a day from now or more: a check ends the same all day
        DelayArticle(client).enqueue(f"job{n}", int(now[0]) + 43_200 * (2 * n - 3))
    fair = FairArticle(client)
    fair.send("ann", 1, 2, 3)
    fair.receive("ann")
    client.sadd("bqueues:dead:worker1", '{"client_id": "ann", "msg": 0, "attempts": 5}')


def queues(client: redis.Redis) -> list[str]:
    found: Any = client.hkeys("redisq:registry")
    return sorted(name.decode() for name in found)


def looks(names: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Every command that only looks."""
    for words in (
        "ls",
        "log",
        "fsck",
        "discover",
        "select *",
        "select * --count",
        "workers ls",
        "top --once",
        "config",
        "periodic ls",
        "doctor",
    ):
        yield tuple(words.split())
    for name in names:
        for state in STATES:
            yield (state, "ls", "--queue", name)
        yield from (
            ("inspect", name),
            ("inspect", f"{name}/e1"),
            ("explain", name),
            ("explain", f"{name}/e1"),
            ("history", name),
            ("log", "--queue", name),
            ("dlq", "groups", name),
            ("select", name),
            ("select", name, "--count"),
            ("workers", "ls", name),
            ("client", "ls", name),
            ("workers", "ls", name),
            ("fsck", name),
            ("export", "--queue", name),
            ("settings", name),
            ("periodic", "ls", name),
            ("wait", name, "--until", "waiting>=0", "--timeout", "1ms"),
            ("select", name, "--where", "error~x payload.n=1 age>1s"),
            ("top", "--once", "--queue", name),
        )
        if name in ("mail", "good", "sharded"):
            id = "s1" if name == "sharded" else "r1"
            yield from (
                ("inspect", f"{name}/{id}"),
                ("explain", f"{name}/{id}"),
                ("inspect", f"{name}/{id}/2"),
                ("explain", f"{name}/{id}/2"),
                ("results", f"{name}/{id}"),
                ("wait", f"{name}/{id}", "--timeout", "1ms"),
                ("workers", "ls", name, "--group", id),
            )


def changes(names: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Commands that change something; each also runs with ``--dry-run``."""
    for name in names:
        yield from (
            ("dlq", "replay", "--queue", name),
            ("pending", "requeue", "--queue", name),
            ("pending", "claim", "--queue", name, "--consumer", "me"),
            ("waiting", "purge", "--queue", name, "--max", "1"),
            ("delay", "requeue", "--queue", name),
            ("dlq", "purge", "--queue", name),
            ("dlq", "purge", "--queue", name, "--hard"),
            ("trash", "restore", "--queue", name),
            ("trash", "rm", "--queue", name),
            ("queue", "pause", name),
            ("queue", "resume", name),
            ("settings", name, "max_lost=4"),
        )
    yield from (("periodic", verb, "later/nightly") for verb in ("run", "pause", "resume", "rm"))
    yield from (
        ("undo",),
        ("request", "pause", "mail/r1"),
        ("request", "cancel", "mail/r1"),
        ("request", "limit", "mail/r1", "5"),
        ("client", "block", "fair", "ann"),
        ("delay", "reschedule", "later/f1", "--in", "5m"),
    )


def mutations(client: Any, keys: Sequence[bytes], chance: random.Random) -> Mutation:
    """One change of one value; the registry's turn comes more often than any other key's."""
    key = b"redisq:registry" if chance.random() < 0.06 else chance.choice(keys)
    kind = client.type(key)
    name, value = chance.choice(list(VALUES.items()))
    if chance.random() < 0.12:
        return Mutation(key, f"a {kind.decode()} became another type", _other_type(key, kind))
    match kind:
        case b"hash":
            at = chance.choice(sorted(client.hkeys(key)))
            if chance.random() < 0.12:
                odd = chance.choice(NAMES)
                return Mutation(
                    key, f"field {odd[:20]!r} added: {name}", lambda c: c.hset(key, odd, value)
                )
            return Mutation(key, f"field {at!r}: {name}", lambda c: c.hset(key, at, value))
        case b"list":
            n = chance.randrange(client.llen(key))
            return Mutation(key, f"element {n}: {name}", lambda c: c.lset(key, n, value))
        case b"set":
            return Mutation(key, f"member added: {name}", lambda c: c.sadd(key, value))
        case b"zset":
            score = chance.choice(SCORES)
            if chance.random() < 0.3:
                odd = chance.choice([*NAMES, *VALUES.values()])
                return Mutation(
                    key, f"member {odd[:20]!r} added", lambda c: c.zadd(key, {odd: score})
                )
            member = chance.choice(client.zrange(key, 0, -1))
            return Mutation(
                key, f"score of {member!r}: {score}", lambda c: c.zadd(key, {member: score})
            )
        case b"stream":
            names: dict[Any, Any] = {chance.choice([b"t", b"p", b"x", b"\xff"]): value}
            return Mutation(key, f"entry {list(names)} added: {name}", lambda c: c.xadd(key, names))
    return Mutation(key, f"value: {name}", lambda c: c.set(key, value))


def _other_type(key: bytes, kind: bytes) -> Callable[[Any], Any]:
    def apply(c: Any) -> Any:
        c.delete(key)
        return c.set(key, "x") if kind != b"string" else c.rpush(key, "x")

    return apply


def victims(key: bytes, names: set[str], mutation: Mutation) -> set[str]:
    """Queues whose own value it is; the commands of the others go on as before."""
    text = key.decode(errors="replace")
    if found := re.match(r"redisq:\{([^}/]*)", text):
        return {found[1]}
    if text == "redisq:registry":
        if found := re.search(r"field b'([^']*)'", mutation.what):
            return {found[1]} if found[1] in names else set()
        return set(names)
    if text.startswith("carmine:"):
        return {"carmine:mails", "carmine:q"}
    for begin, kind in OWNERS.items():
        if text.startswith(begin) and (mine := {name for name in names if name.startswith(kind)}):
            return mine
    # Keys of a layout: its queues share most of them, and how they are told apart is in the names.
    return {name for name in names if ":" in name}


class Deployment:
    """A populated server that can be put back as it was."""

    def __init__(self, url: str, fill: Callable[[redis.Redis, str], None] = populate) -> None:
        self.url = url
        self.client = redis.Redis.from_url(url, protocol=3)
        self.client.flushall()
        fill(self.client, url)
        self.names = set(queues(self.client))
        keys: Any = self.client.keys("*")
        self.keys = sorted(keys)
        self._dumps: list[Any] = [self.client.dump(key) for key in self.keys]
        self.ended = Counter[str]()
        """how often commands ended with which code"""
        self._usual: dict[tuple[str, ...], int | str] = {}

    def usual(self, words: tuple[str, ...]) -> int | str:
        """How a command ends while nothing is corrupt; run when that is first asked."""
        if words not in self._usual:
            self._usual[words] = self.run(words)[0]
        return self._usual[words]

    def restore(self) -> None:
        pipe = self.client.pipeline(transaction=False)
        pipe.flushall()
        for key, dump in zip(self.keys, self._dumps, strict=True):
            pipe.restore(key, 0, dump)
        pipe.execute()

    def run(self, words: Sequence[str]) -> tuple[int | str, str, str]:
        """Its exit code or the exception nobody expected, stdout and stderr."""
        out, err = io.TextIOWrapper(io.BytesIO()), io.StringIO()
        ended: int | str
        with (
            patch.dict(os.environ, REDIS_URL=self.url, COLUMNS="120", LINES="40"),
            patch.object(time, "sleep", lambda _: None),
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
        ):
            try:
                ended = cli.run(list(words))
            except BaseException as error:
                if isinstance(error, KeyboardInterrupt):
                    raise
                ended = f"{type(error).__name__}: {str(error)[:200]}{_where(error)}"
        said = err.getvalue()
        if "unexpected error" in said:
            ended = said
        if "Traceback (most" in said:
            ended = said[-500:]
        out.seek(0)
        self.ended[str(ended)[:20]] += 1
        return ended, out.read(), said

    def close(self) -> None:
        self.client.close()


def _where(error: BaseException) -> str:
    trace, frames = error.__traceback__, []
    while trace is not None:
        code = trace.tb_frame.f_code
        if "redisq_ops" in code.co_filename:
            frames.append(f"{code.co_filename.rpartition('redisq_ops/')[2]}:{trace.tb_lineno}")
        trace = trace.tb_next
    return " at " + " < ".join(frames[:-6:-1])


def fuzz(
    there: Deployment, seed: int, count: int, commands: int, progress: Callable[[str], None]
) -> list[Finding]:
    """Findings of ``count`` mutations. After each run the commands over all queues, ``commands``
    of those on the corrupt queue (0: every one, as a table and as JSON, and every change), and a
    few on its neighbours."""
    chance = random.Random(seed)
    found: list[Finding] = []
    told = 0
    every, writes = list(looks(sorted(there.names))), list(changes(sorted(there.names)))
    overall = [words for words in every if not there.names & _queues_of(words)]
    for nth in range(count):
        mutation = mutations(there.client, there.keys, chance)
        hit = victims(mutation.key, there.names, mutation)
        own = [words for words in every if _queues_of(words) & hit]
        rest = [words for words in every if words not in own and words not in overall]
        drawn = [*overall, *own, *chance.sample(rest, min(20, len(rest)))]
        if commands:
            drawn = chance.sample(overall, 3) + chance.sample(own, min(len(own), commands))
            drawn += chance.sample(rest, min(len(rest), 2))
        drawn = [("ls",), *drawn]
        for words in drawn:
            if not _queues_of(words) & hit:
                there.usual(words)
        mutation.apply(there.client)
        for words in drawn:
            forms = [[*words], [*words, "--json"]]
            for form in forms if not commands else [chance.choice(forms)]:
                ended, out, said = there.run(form)
                if wrong := _wrong(there, words, ended, said, hit):
                    found.append(Finding(str(mutation), " ".join(form), wrong))
                elif form == ["ls", "--json"] and hit < there.names:
                    rows = [json.loads(line) for line in out.splitlines()]
                    listed = {row["name"] for row in rows if not row["problem"]}
                    blind = there.names - hit - listed
                    found += [Finding(str(mutation), "ls", f"{name} isn't shown") for name in blind]
        mine = [words for words in writes if _queues_of(words) & hit]
        for words in mine if not commands else chance.sample(mine, min(len(mine), 2)):
            for way in ("--dry-run", "--yes"):
                ended, _, _ = there.run([*words, way])
                if isinstance(ended, str):
                    found.append(Finding(str(mutation), " ".join([*words, way]), ended))
        there.restore()
        for one in found[told:]:
            progress(f"{one.what}\n    {one.command}   [{one.mutation}]")
        told = len(found)
        if (nth + 1) % 10 == 0:
            progress(f"{nth + 1} of {count} mutations: {told} findings")
    return found


def _queues_of(words: Sequence[str]) -> set[str]:
    """The queue a command is about, if it is about one."""
    return {word.partition("/")[0] for word in words[1:]}


def _wrong(
    there: Deployment, words: tuple[str, ...], ended: int | str, said: str, hit: set[str]
) -> str | None:
    """What is wrong with how a command ended."""
    if isinstance(ended, str):
        return ended
    about = _queues_of(words) & there.names
    if about & hit:
        return None
    usual = there.usual(words)
    if about and not about & hit:
        return None if ended == usual else f"exit {ended}, not {usual}: {said[-200:]}"
    if (
        not about
        and hit < there.names
        and ended not in (usual, 1 if words[0] in ("fsck", "doctor") else 3)
    ):
        return f"exit {ended} of all queues: {said[-200:]}"
    return None


def main() -> None:
    from redisq_ops.demo.server import EmbeddedServer, binaries

    parser = argparse.ArgumentParser()
    parser.add_argument("--mutations", type=int, default=500)
    parser.add_argument("--commands", type=int, default=0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--programs", action="store_true", help="queues of other programs only")
    given = parser.parse_args()
    with EmbeddedServer(binaries()["valkey"]) as server:
        there = Deployment(server.url, populate_programs if given.programs else populate)

        def progress(line: str) -> None:
            print(line, file=sys.stderr, flush=True)

        began = time.monotonic()
        found = fuzz(there, given.seed, given.mutations, given.commands, progress)
        there.close()
    print(
        f"{given.mutations} mutations, {len(found)} findings, {time.monotonic() - began:.0f} s; "
        f"exit codes {dict(there.ended)}"
    )


if __name__ == "__main__":
    main()

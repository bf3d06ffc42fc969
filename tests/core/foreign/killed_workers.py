"""Workers of another program and operators of ours at one queue, both killed at random.

``python -m tests.core.foreign.killed_workers --kind bullmq --seconds 60`` runs the same load twice
on an embedded server: producers and the program's own workers alone, then with two operators
beside them who replay, requeue, reschedule, purge, restore and undo by the command line. Workers
and operators die by SIGKILL. In the end nobody is killed any more, what is in the trash is
restored, what is dead is replayed, and each numbered job has to be somewhere: it ended, or the
queue has it.

- lost: jobs that never ended and are nowhere. A worker of Celery's loses what it has popped and
  not yet written down: the last command that named such a job put it into the list (see stderr);
- again: jobs that began again after they had ended. ``by a kill``: the worker that ended them was
  killed within its latest `IN_HAND` jobs, so that it may not have acknowledged them. The others
  are the ones that no kill of a worker explains.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import random
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import redis

from redisq_ops.cli import main as cli
from redisq_ops.core.redis.operation import run
from redisq_ops.demo.server import EmbeddedServer, binaries
from redisq_ops.ops.deployment import Deployment

from ...foreign_keys import arq_program, bullmq_program
from ...foreign_keys.installed_releases import packages

SCRIPT = Path(__file__).parents[2] / "foreign_keys" / "numbered_jobs.py"
NODE_SCRIPT = SCRIPT.with_name("bullmq_jobs.cjs")
NAMES = {
    "rq": "rq:mail",
    "arq": "arq:arq:queue",
    "celery": "celery:celery",
    "bullmq": "bullmq:mail",
    "dramatiq": "dramatiq:mail",
}
IN_HAND = 8
"""jobs that a worker may have ended and not yet acknowledged"""
SLOTS = 2
"""workers at a time, and operators"""
QUIET = 3
"""seconds without a run after which nothing more is expected"""
LIFE = {"worker": (0.2, 4.0), "operator": (0.3, 3.0)}
"""how long they live, in seconds from their first job or from their start"""


@dataclass
class Result:
    """What became of the jobs of one run."""

    jobs: int = 0
    lost: set[str] = field(default_factory=set)
    again_by_a_kill: int = 0
    again: set[str] = field(default_factory=set)
    twice_there: set[str] = field(default_factory=set)
    """jobs that the queue has twice"""
    left: Counter[str] = field(default_factory=Counter)
    """jobs that never ended and are in the queue, by state"""
    worker_kills: int = 0
    operator_kills: int = 0
    changed: Counter[str] = field(default_factory=Counter)
    """entries that operators changed, by verb"""
    errors: list[str] = field(default_factory=list)

    def row(self, kind: str, who: str) -> str:
        kills = f"{self.worker_kills} | {self.operator_kills}"
        again = f"{self.again_by_a_kill} | {len(self.again)}"
        changed = f"{sum(self.changed.values()):,}"
        return (
            f"| {kind} | {who} | {self.jobs:,} | {kills} | {changed} | {len(self.lost)} | {again} |"
        )


class Witness(threading.Thread):
    """Notes which commands name a job, as the server's MONITOR shows them."""

    def __init__(self, port: int) -> None:
        super().__init__(daemon=True)
        self.commands: defaultdict[str, list[str]] = defaultdict(list)
        self._lines = socket.create_connection(("127.0.0.1", port)).makefile("rwb")
        self._lines.write(b"MONITOR\r\n")
        self._lines.flush()

    def run(self) -> None:
        for line in self._lines:
            found = re.match(rb'\+[\d.]+ \[\d+ (lua)?.*?\] "(\w+)" "([^"]*)"', line)
            if found is None or found[3].startswith(b"ran:"):
                continue
            command = b" ".join(filter(None, found.groups())).decode()
            for name in set(re.findall(rb"job-\d+", line)):
                self.commands[name.decode()].append(command)

    def last(self, names: Iterable[str]) -> Counter[str]:
        """How many of the jobs each command was the last to name, with `lua` in front if a script
        of redisq's sent it. What pops an element, as BRPOP does, does not name it."""
        return Counter(self.commands[name][-1] for name in names if self.commands[name])


class Run:
    """One load on an empty server, with operators or without."""

    def __init__(self, url: str, kind: str, seed: int, rate: float) -> None:
        self.kind, self.name, self.rate, self.url = kind, NAMES[kind], rate, url
        self.rng = random.Random(f"{kind} {seed}")
        self.client: Any = redis.Redis.from_url(url, protocol=3)
        self.client.flushall()
        self.port = str(self.client.connection_pool.connection_kwargs["port"])
        self.killed: set[str] = set()
        self.result = Result()
        self._born = 0
        self._groups: set[int] = set()
        """process groups that run"""
        self._read = 0
        self._working: set[str] = set()

    @property
    def queue(self) -> Any:
        return run(self.client, Deployment(self.client).queue(self.name))

    # --- processes -------------------------------------------------------------------------------

    def _started(self, command: str, *rest: str, worker: str = "") -> subprocess.Popen[bytes]:
        more = {"PORT": self.port, "WORKER": worker}
        if self.kind == "bullmq":
            more["NODE_PATH"] = str(packages("bullmq", bullmq_program.VERSIONS[0]))
            words = ["node", str(NODE_SCRIPT), self.port, command, *rest]
        else:
            if self.kind == "arq":
                more["PYTHONPATH"] = str(packages("arq", arq_program.VERSION))
            more["FAILS"] = "1"
            words = [sys.executable, str(SCRIPT), self.kind, command, *rest]
        process = subprocess.Popen(
            words,
            env=os.environ | more,
            start_new_session=True,
            cwd=SCRIPT.parent,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self._groups.add(process.pid)
        return process

    def _ended(self, process: subprocess.Popen[bytes]) -> int:
        code = process.wait(60)
        self._groups.discard(process.pid)
        return code

    def worker(self) -> tuple[str, Callable[[], None], float | None]:
        """A worker: its name, what kills it, and when (not before its first job)."""
        self._born += 1
        name = f"w{self._born}"
        command = ("numbered", name) if self.kind == "bullmq" else ("work",)
        process = self._started(*command, worker=name)

        def kill() -> None:
            os.killpg(process.pid, signal.SIGKILL)
            self._ended(process)
            self.killed.add(name)

        return name, kill, None

    def operator(self) -> tuple[str, Callable[[], None], float | None]:
        self._born += 1
        seed = self.rng.random()
        child = os.fork()
        if not child:
            with contextlib.suppress(BaseException):
                operate(self.url, self.name, seed)
            os._exit(1)
        os.setpgid(child, child)
        self._groups.add(child)

        def kill() -> None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            self._groups.discard(child)

        return f"o{self._born}", kill, time.monotonic() + self.rng.uniform(*LIFE["operator"])

    def play(self, seconds: float, operators: bool) -> Result:
        try:
            return self._play(seconds, operators)
        finally:
            for group in self._groups:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(group, signal.SIGKILL)

    def _play(self, seconds: float, operators: bool) -> Result:
        producer = self._started("produce", str(self.rate))
        alive: dict[tuple[str, int], tuple[str, Callable[[], None], float | None]]
        alive = {("worker", n): self.worker() for n in range(SLOTS)}
        if operators:
            alive |= {("operator", n): self.operator() for n in range(SLOTS)}
        end = time.monotonic() + seconds
        while (now := time.monotonic()) < end:
            begun = self._begun()
            for slot, (name, kill, until) in alive.items():
                if until is None and name in begun:
                    alive[slot] = name, kill, now + self.rng.uniform(*LIFE["worker"])
                elif until is not None and now > until:
                    self._kill(slot[0], kill)
                    alive[slot] = self.worker() if slot[0] == "worker" else self.operator()
            time.sleep(0.02)
        for slot, (_, kill, _) in alive.items():
            self._kill(slot[0], kill)
        self.client.set("ran:stop", 1)
        assert self._ended(producer) == 0, "the producer failed"
        self.come_to_rest(operators)
        return self.result

    def _kill(self, what: str, kill: Callable[[], None]) -> None:
        kill()
        if what == "operator":
            self.result.operator_kills += 1
        else:
            self.result.worker_kills += 1

    def _begun(self) -> set[str]:
        """Workers that began a job."""
        rows = self.client.lrange("ran:log", self._read, -1)
        self._read += len(rows)
        self._working |= {row.split()[0].decode() for row in rows}
        return self._working

    # --- the end ---------------------------------------------------------------------------------

    def come_to_rest(self, operators: bool) -> None:
        if self.kind in ("rq", "celery"):
            assert self._ended(self._started("recover")) == 0
        last = [self.worker() for _ in range(SLOTS)]
        if operators:
            self._commanded("trash", "restore", "--queue", self.name, "--yes")
        self._until_quiet()
        if operators and "replay" in self.queue.actions:
            self._commanded("dlq", "replay", "--queue", self.name, "--yes")
            self._until_quiet()
        self._count()
        for _, kill, _ in last:
            kill()
        for row in commanded(self.url, "log", "--queue", self.name, "--max", "1000000", "--json")[
            1
        ]:
            if operators:
                self.result.changed[row["verb"]] += row["done"] or 0
        self.result.errors = [e.decode() for e in self.client.lrange("ran:errors", 0, -1)]
        self.client.close()

    def _commanded(self, *words: str) -> None:
        code, _, err = commanded(self.url, *words)
        assert code in (0, 3), f"{words}: exit {code}: {err}"

    def _until_quiet(self) -> None:
        """Until nothing waits or is pending, or nothing has run for a while."""
        began = quiet = time.monotonic()
        ran = 0
        while time.monotonic() - began < 120:
            now_ran = self.client.llen("ran:log")
            if now_ran != ran:
                ran, quiet = now_ran, time.monotonic()
            counts = self.queue.counts()
            rest = sum(counts.of(state) or 0 for state in ("waiting", "pending", "delayed"))
            still = time.monotonic() - quiet
            if (not rest and still > QUIET) or still > 20:
                return
            time.sleep(0.1)

    def _count(self) -> None:
        ran = Log.read(self.client.lrange("ran:log", 0, -1), self.killed)
        wanted = {name.decode() for name in self.client.lrange("ran:wanted", 0, -1)}
        there: defaultdict[str, list[str]] = defaultdict(list)
        for state, name in self._entries():
            there[name].append(state)
        self.result.jobs = len(wanted)
        self.result.lost = wanted - ran.ended - there.keys()
        self.result.again, self.result.again_by_a_kill = ran.again, ran.again_by_a_kill
        open_states = {n: [s for s in states if s != "done"] for n, states in there.items()}
        self.result.twice_there = {n for n, states in open_states.items() if len(states) > 1}
        self.result.left = Counter(s for n in wanted - ran.ended for s in open_states.get(n, ()))
        strange = ran.begun - wanted
        if strange:
            self.result.errors.append(f"jobs ran that nobody sent: {sorted(strange)[:5]}")

    def _entries(self) -> Iterator[tuple[str, str]]:
        queue: Any = self.queue
        for state in dict.fromkeys((*queue.states, "trash")):
            cursor = None
            while True:
                page = queue.page(state, cursor, 1000, None, True)
                for entry in page.entries:
                    found = re.search(rb"job-\d+", (entry.payload or b"") + entry.id.encode())
                    if found:
                        yield state, found[0].decode()
                cursor = page.cursor
                if cursor is None:
                    break


@dataclass
class Log:
    """What `ran:log` tells."""

    begun: set[str]
    ended: set[str]
    again: set[str]
    again_by_a_kill: int

    @classmethod
    def read(cls, rows: list[bytes], killed: set[str]) -> Log:
        events = [row.decode().split() for row in rows]
        of_worker: defaultdict[str, list[int]] = defaultdict(list)
        for n, (worker, _, what) in enumerate(events):
            if what == "ended":
                of_worker[worker].append(n)
        in_hand = {n for worker in killed for n in of_worker[worker][-IN_HAND:]}
        found = cls(set(), set(), set(), 0)
        last_end: dict[str, int] = {}
        for n, (_, job, what) in enumerate(events):
            if what == "began":
                found.begun.add(job)
                if job in last_end and last_end[job] in in_hand:
                    found.again_by_a_kill += 1
                elif job in last_end:
                    found.again.add(job)
            elif what == "ended":
                found.ended.add(job)
                last_end[job] = n
        return found


def commanded(url: str, *words: str) -> tuple[int, list[dict[str, Any]], str]:
    """A command in this process: its exit code, the rows it printed, and stderr."""
    os.environ["REDIS_URL"] = url
    out, err = io.TextIOWrapper(io.BytesIO()), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = cli.run(list(words))
    out.seek(0)
    rows = [json.loads(line) for line in out if line.startswith("{")]
    return code, rows, err.getvalue()


def operate(url: str, name: str, seed: float) -> None:
    """What an operator does at a queue, until it is killed."""
    rng, client = random.Random(seed), redis.Redis.from_url(url)
    queue: Any = run(client, Deployment(client).queue(name))
    commands: list[tuple[str, ...]] = [("waiting", "purge"), ("trash", "restore")]
    for verb, states in queue.actions.items():
        noun = {"dead": "dlq", "delayed": "delay"}
        if verb in ("replay", "requeue"):
            # Done jobs that are run again would begin again because somebody asked for it.
            commands += [(noun.get(state, state), verb) for state in states if state != "done"]
        if verb == "purge":
            commands += [(noun.get(state, state), verb) for state in states]
        if verb == "reschedule":
            commands.append(("delay", "reschedule", "--in", "2s"))
    while True:
        words: tuple[str, ...]
        if rng.random() < 0.4:
            _, rows, _ = commanded(url, "log", "--queue", name, "--max", "10", "--json")
            some = [row["id"] for row in rows if row["undoable"]]
            if not some:
                continue
            words = ("undo", rng.choice(some), "--yes")
        else:
            most = str(rng.choice([1, 10, 200]))
            words = (*rng.choice(commands), "--queue", name, "--max", most, "--yes")
            if words[:2] == ("dlq", "purge"):
                words = (*words, "--where", f'error~"group {rng.randrange(3)}"')
        code, _, err = commanded(url, *words)
        client.hincrby("ran:codes", f"{' '.join(words[:2])} {code}")
        if code not in (0, 1, 3) or "unexpected" in err:
            client.rpush("ran:errors", f"{' '.join(words)}: exit {code}: {err[:300]}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kind", choices=[*NAMES, "all"], default="all")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--rate", type=float, default=100, help="jobs per second")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that nobody is left behind
    print(
        "| kind | operators | jobs | workers killed | operators killed | entries changed "
        "| lost | again, by a kill | again |\n|---|---|--:|--:|--:|--:|--:|--:|--:|"
    )
    for kind in NAMES if given.kind == "all" else [given.kind]:
        for operators in (False, True):
            with EmbeddedServer(binaries()["valkey"]) as server:
                one = Run(server.url, kind, given.seed, given.rate)
                witness = Witness(int(one.port))
                witness.start()
                result = one.play(given.seconds, operators)
            print(result.row(kind, "with" if operators else "without"), flush=True)
            print(
                f"  {dict(result.changed)}; left {dict(result.left)}; twice there "
                f"{sorted(result.twice_there)[:5]}; lost {sorted(result.lost)[:5]}, last in "
                f"{dict(witness.last(result.lost))}; again "
                f"{sorted(result.again)[:5]}; {Counter(result.errors).most_common(5)}",
                file=sys.stderr,
            )


if __name__ == "__main__":
    main()

"""Every command that `explain` prints is carried out, for every rule and every kind of queue."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator
from typing import Any, get_args

import pytest
import redis

from redisq_ops.core.engine.optional_features import HasPeriodicEntries, HasRequests
from redisq_ops.core.model.clock import FakeClock
from redisq_ops.core.model.entry import STATES, Settlement
from redisq_ops.core.queues.request import RequestQueue
from redisq_ops.core.redis.operation import run
from redisq_ops.ops.deployment import Deployment
from redisq_ops.ops.explain.blocking_reasons import Reason, Rule
from redisq_ops.ops.explain.explanation import explain

from ...command_line import Redisq
from ...core.foreign import test_orphans
from ...core.test_conformance import SPECIMENS

Client = redis.Redis
HOUR = 3_600_000
Situation = Callable[[Client, Redisq, str], str]
"""makes a queue of a kind, and returns its name"""
OURS = ("request", "delay", "fair", "circular", "carmine")
READS = {"explain", "fsck", "history", "log", "results", "dlq groups", "select", "client ls",
         "periodic ls"}  # fmt: skip
"""commands that change nothing"""
TEMPLATES = {"work", "submit"}
"""commands in which the user has to put a function or a file"""


class Stage:
    """One queue in one situation, to which it comes back after every command."""

    def __init__(self, client: Client, redisq: Redisq, name: str) -> None:
        self.client, self.redisq, self.name = client, redisq, name
        self.kept = {key: (client.dump(key), client.pexpiretime(key)) for key in client.scan_iter()}

    def put_back(self) -> None:
        self.client.flushdb()
        for key, (data, until) in self.kept.items():
            self.client.restore(key, max(0, until), data, absttl=until > 0)

    @property
    def queue(self) -> Any:
        return run(self.client, Deployment(self.client).queue(self.name))

    def ids(self) -> Iterator[str | None]:
        """The queue itself, entries of each place, requests, periodic entries, and nobody."""
        queue = self.queue
        yield None
        for state in STATES:
            of: dict[Any, list[str]] = {}
            for entry in queue.page(state).entries:
                how = (entry.called, entry.problem, entry.failures > 0)
                of.setdefault(how, []).append(entry.id)
            for ids in of.values():
                yield from dict.fromkeys((ids[0], ids[-1]))
        yield from (one.id for one in queue.requests()) if isinstance(queue, HasRequests) else ()
        if isinstance(queue, HasPeriodicEntries):
            yield from (one.name for one in queue.periodics())
        yield "nobody"

    def reasons(self, id: str | None) -> list[Reason]:
        found = run(self.client, explain(self.queue, id))
        return [found.reason, *found.also]

    def carry_out(self, id: str | None, reason: Reason) -> None:
        """The exact command; afterwards it isn't advised any more."""
        words = shlex.split(reason.command or "")[1:]
        verb = words[0] if words[0] in READS else " ".join(words[:2])
        if words[0] in TEMPLATES:
            return
        if verb in READS:
            self.redisq(*words, code=None)
            assert self.redisq.code in ((0, 1) if verb == "fsck" else (0, 3)), (id, reason)
            return
        said = self.redisq(*words, "--yes")
        now = [each.command for each in self.reasons(id)]
        assert reason.command not in now, (id, reason, said)
        self.put_back()


def fresh(client: Client, redisq: Redisq, kind: str) -> str:
    name: str = SPECIMENS[kind](client).name
    return name


def old(client: Client, redisq: Redisq, kind: str) -> str:
    """Made an hour ago: leases have expired, nobody takes."""
    clock = FakeClock(int(client.time()[0]) * 1000 - HOUR)
    name: str = SPECIMENS[kind](client, clock).name  # type: ignore[call-arg]
    return name


def after(*commands: str, at: Situation = fresh) -> Situation:
    def situation(client: Client, redisq: Redisq, kind: str) -> str:
        name = at(client, redisq, kind)
        for command in commands:
            redisq(*command.format(name).split(), "--yes")
        return name

    return situation


def added(change: Callable[[Client], object], *commands: str, at: Situation = fresh) -> Situation:
    """A queue in which something was written beside redisq."""

    def situation(client: Client, redisq: Redisq, kind: str) -> str:
        name = after(*commands, at=at)(client, redisq, kind)
        change(client)
        return name

    return situation


def requests(client: Client) -> None:
    """One that is at its limit, one behind it, one done, one done with a dead entry, one open."""
    queue = RequestQueue(client, "mail")
    for id, outcome in (("fine", "ack"), ("bad", "reject")):
        queue.submit([b"x"], id=id, limit=1, priority=0)
        (one,) = queue.take(1, consumer="w").deliveries
        queue.settle([Settlement(one, outcome)])
    queue.submit([b"x"] * 3, id="full", limit=1, priority=0)
    queue.take(1, consumer="w")
    queue.submit([b"x"] * 3, id="late", limit=1, priority=9)
    queue.submit([b"x"], id="more", limit=1, seal=False)


def idle(client: Client) -> None:
    """Pending entries of a stream that are held for long."""
    ids = [row["message_id"] for row in client.xpending_range("orders", "mail", "-", "+", 9)]
    client.xclaim("orders", "mail", "w1", 0, ids, idle=HOUR)


def trimmed(client: Client) -> None:
    client.xdel("orders", client.xpending_range("orders", "mail", "-", "+", 1)[0]["message_id"])


def orphans(kind: str) -> list[Situation]:
    """Each place with ids of which the records are gone."""

    def situation(case: test_orphans.Case) -> Situation:
        def made(client: Client, redisq: Redisq, kind: str) -> str:
            case.fill(client)
            return case.queue

        return made

    return [situation(c) for c in test_orphans.CASES if c.queue.partition(":")[0] == kind]


PERIODIC = "periodic add {0}/each --every 1h x"
MORE: dict[str, list[Situation]] = {
    "request": [
        added(requests),
        after("request pause {0}/r"),
        after("request cancel {0}/r"),
        after("purge {0} --state dead --hard"),
    ],
    "fair": [after("client block {0} ann"), after("client cap {0} ann 1")],
    "delay": [
        after(PERIODIC),
        after(PERIODIC, "periodic pause {0}/each"),
        added(lambda client: client.zadd("redisq:{later}:periodic_at", {"odd": 0}), PERIODIC),
    ],
    "stream": [added(idle), added(trimmed)],
    **{kind: orphans(kind) for kind in ("rq", "bullmq", "dramatiq", "arq")},
}


def situations(kind: str) -> Iterator[Situation]:
    yield fresh
    if kind in OURS or kind in ("sidekiq", "resque", "rq", "bullmq", "celery", "dramatiq", "arq"):
        yield after("purge {0} --state waiting --max 1")
    if kind in OURS:
        yield old
        yield after("queue pause {0}")
        yield after("queue drain {0}")
    yield from MORE.get(kind, ())


@pytest.mark.alike
@pytest.mark.parametrize("kind", SPECIMENS)
def test_every_command_that_explain_prints_does_what_it_says(
    client: Client, redisq: Redisq, kind: str
) -> None:
    said, tried = set[str](), set[tuple[object, ...]]()
    for situation in situations(kind):
        client.flushdb()
        stage = Stage(client, redisq, situation(client, redisq, kind))
        for id in stage.ids():
            for reason in stage.reasons(id):
                said.add(reason.rule)
                words = [word for word in (reason.command or "").split() if "/" not in word][1:3]
                shape = (reason.rule, id is None, *words)
                if reason.command and shape not in tried:
                    tried.add(shape)
                    stage.carry_out(id, reason)
    open("/tmp/observed", "a").write(f"{kind}: {sorted(said)}\n")

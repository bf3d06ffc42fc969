"""Every command that `explain` prints is carried out, for every rule and every kind of queue."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator
from typing import Any, get_args

import pytest
import redis

from redisq_ops.core.engine.optional_features import HasPeriodicEntries, HasRequests
from redisq_ops.core.model.clock import FakeClock
from redisq_ops.core.model.entry import STATES, Outcome, Settlement
from redisq_ops.core.queues.request import RequestQueue
from redisq_ops.core.queues.request.digest import Digest
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
        self.kept: dict[Any, Any] = {
            key: (client.dump(key), client.pexpiretime(key)) for key in client.scan_iter()
        }

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
        if isinstance(queue, HasRequests):
            yield from (*(one.id for one in queue.requests()), "r", "r/1", "fine", "bad")
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
    ends: list[tuple[str, Outcome]] = [("fine", "ack"), ("bad", "reject")]
    for id, outcome in ends:
        queue.submit([b"x"], id=id, limit=1, priority=0)
        (one,) = queue.take(1, consumer="w").deliveries
        queue.settle([Settlement(one, outcome)])
    queue.submit([b"x"] * 3, id="full", limit=1, priority=0)
    queue.take(1, consumer="w")
    queue.submit([b"x"] * 3, id="late", limit=1, priority=9)
    digest = Digest(50, 4)
    before = str(digest)
    digest.add(b"x")
    queue.append("more", 1, [b"x"], before=before, after=str(digest))


def idle(client: Client) -> None:
    """Pending entries of a stream that are held for long."""
    ids: list[Any] = [
        row["message_id"] for row in client.xpending_range("orders", "mail", "-", "+", 9)
    ]
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
OCCURS: dict[Rule, str] = {
    "behind": "request, delay, circular, carmine, sidekiq, resque, rq, arq, bullmq, celery, "
    "dramatiq, stream",
    "blocked": "fair",
    "cancelled": "request",
    "cap": "fair",
    "closed": "request, delay, fair, circular, carmine",
    "dead": "request, delay, fair, circular, carmine, sidekiq, resque, rq, arq, bullmq, "
    "celery, dramatiq, carmine-4",
    "delayed": "request, delay, sidekiq, rq, arq, bullmq, celery, dramatiq, raw-delay",
    "done": "request, rq, arq, bullmq, celery",
    "done-dead": "request",
    "due": "carmine-4",
    "empty": "request, rq, bullmq, dramatiq",
    "gone": "rq, arq, bullmq, dramatiq",
    "held": "fair",
    "limit": "request",
    "moving": "request",
    "next": "request, delay, circular, carmine, sidekiq, resque, rq, bullmq, celery, "
    "dramatiq, stream",
    "no-worker": "request, delay, fair, circular, carmine, rq",
    "open": "request",
    "overdue": "request, delay, fair, circular, carmine, rq, carmine-4",
    "paused": "request, delay, fair, circular, carmine",
    "pending": "request, delay, fair, circular, carmine, sidekiq, resque, rq, arq, bullmq, "
    "celery, dramatiq, stream, raw-circular, raw-fair, carmine-4",
    "periodic": "delay",
    "periodic-corrupt": "delay",
    "periodic-paused": "delay",
    "poison": "carmine-4",
    "purged": "request, delay, fair, circular, carmine, sidekiq, resque, rq, arq, bullmq, "
    "celery, dramatiq",
    "removed": "request",
    "request-paused": "request",
    "retry": "request, delay, fair, circular, carmine, sidekiq, celery, carmine-4",
    "silent": "rq",
    "touched": "request",
    "trimmed": "stream",
    "turn": "fair",
    "unknown": "request, delay, fair, circular, carmine, sidekiq, resque, rq, arq, bullmq, "
    "celery, dramatiq, stream, raw-request, raw-circular, raw-delay, raw-fair, "
    "carmine layout, carmine-4",
    "waiting": "request, delay, fair, circular, carmine, rq, arq, bullmq, dramatiq, raw-request, "
    "raw-circular, raw-delay, raw-fair, carmine layout, carmine-4",
}  # fmt: skip
"""rule -> the kinds where a situation here gives it; where a kind is missing it can't occur, or no
situation makes it"""
ELSEWHERE: dict[Rule, str] = {
    "busy": "test_explain",
    "children": "core/foreign/test_bullmq",
    "dying": "test_explain",
    "failing": "test_explain",
    "group": "test_explain",
    "holder": "test_explain",
    "moved": "ops/change/test_transfer",
    "only-shown": "core/foreign/test_releases; no command",
    "parent": "core/foreign/test_bullmq; no command",
    "periodic-held": "cli/test_periodic",
    "periodic-overdue": "cli/test_periodic",
    "periodic-run": "nowhere; no command",
    "resizing": "core/sharding/test_open_resize",
    "sealed": "nowhere: it takes a broken request; its command is fsck",
    "unfinished": "ops/change/test_transfer",
    "unread": "core/foreign/test_type_check",
}
"""rules that no situation here gives -> the tests that do, most of them without the command"""
BY_THE_MINUTE: set[Rule] = {"moving"}
"""depends on whether a minute is over since something was settled"""
MORE: dict[str, list[Situation]] = {
    "request": [
        added(requests),
        after("request pause {0}/r"),
        after("request cancel {0}/r"),
        after("purge {0} --state dead --hard"),
        after("purge {0} --state dead", "trash restore {0}"),
    ],
    "fair": [
        after("client block {0} ann"),
        after("client block {0} ann", "client block {0} bob"),
        after("client cap {0} ann 1"),
    ],
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
    expected = {rule for rule, kinds in OCCURS.items() if kind in kinds.split(", ")}
    assert said - BY_THE_MINUTE == expected - BY_THE_MINUTE


def test_every_rule_is_in_the_table() -> None:
    """A new rule needs a situation here, or the place where it is tested."""
    assert not OCCURS.keys() & ELSEWHERE.keys()
    assert {*get_args(Rule)} == {*OCCURS, *ELSEWHERE}
    assert {kind for kinds in OCCURS.values() for kind in kinds.split(", ")} == {*SPECIMENS}

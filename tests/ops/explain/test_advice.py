"""Every command that `explain` prints is carried out, for every rule and every kind of queue."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any, get_args
from unittest.mock import AsyncMock, patch

import pytest
import redis

from redisq_ops.core.engine import transfer
from redisq_ops.core.engine.optional_features import (
    HasClients,
    HasConsumerGroups,
    HasPeriodicEntries,
    HasRequests,
)
from redisq_ops.core.engine.queue import Queue
from redisq_ops.core.foreign.base import ForeignQueue
from redisq_ops.core.foreign.placed_pages import PlacedPages
from redisq_ops.core.model.clock import FakeClock
from redisq_ops.core.model.entry import STATES, Outcome, Settlement, State
from redisq_ops.core.model.errors import WrongKind
from redisq_ops.core.model.states import Verb
from redisq_ops.core.queues.delay import DelaySet
from redisq_ops.core.queues.fair import FairQueue
from redisq_ops.core.queues.request import RequestQueue, ShardedRequestQueue
from redisq_ops.core.queues.request.digest import Digest
from redisq_ops.core.redis.operation import run
from redisq_ops.ops.deployment import Deployment
from redisq_ops.ops.explain.deeds import deed
from redisq_ops.ops.explain.explanation import explain
from redisq_ops.ops.explain.reason import Reason, Rule

from ...command_line import Redisq
from ...core.foreign import test_orphans
from ...core.test_conformance import SPECIMENS
from ..change.test_transfer import made, put

pytestmark = pytest.mark.slow

Client = redis.Redis
HOUR = 3_600_000
Situation = Callable[[Client, Redisq, str], str]
"""makes a queue of a kind, and returns its name"""
OURS = ("request", "delay", "fair", "circular", "carmine")
ONLY_READ = ("raw-", "carmine layout", "stream")
"""kinds without purge"""
READS = {
    "explain",
    "fsck",
    "history",
    "log",
    "results",
    "dlq groups",
    "select",
    "client ls",
    "periodic ls",
}
"""commands that change nothing"""
FILLED_IN = {"MODULE:FUNCTION": ["builtins:print", "--burst"]}
"""what the user has to put into commands"""
ASK_NOTHING = {"work", "submit"}


class Stage:
    """One queue in one situation, to which it comes back after every command."""

    def __init__(
        self, client: Client, redisq: Redisq, name: str, before: Collection[str] = ()
    ) -> None:
        """``before``: ids that other situations have."""
        self.client, self.redisq, self.name, self.before = client, redisq, name, before
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
            try:
                page = queue.page(state)
            except WrongKind:
                continue
            for entry in page.entries:
                how = (entry.called, entry.problem, entry.failures > 0)
                of.setdefault(how, []).append(entry.id)
            for ids in of.values():
                yield from dict.fromkeys((ids[0], ids[-1]))
        if isinstance(queue, HasRequests):
            yield from (*(one.id for one in queue.requests()), "r", "r/1", "fine", "bad")
        if isinstance(queue, HasPeriodicEntries):
            yield from (one.name for one in queue.periodics())
        yield from self.before
        yield "nobody"

    def reasons(self, id: str | None) -> list[Reason]:
        try:
            found = run(self.client, explain(self.queue, id))
        except WrongKind:  # whether it is there isn't known
            return []
        return [found.reason, *found.also]

    def carry_out(self, id: str | None, reason: Reason) -> None:
        """The exact command, which has words of its own; afterwards it isn't advised any more."""
        assert reason.deed and reason.deed != reason.command
        words, verb = shlex.split(reason.command or "")[1:], verb_of(reason)
        if verb in READS:
            self.redisq(*words, code=None)
            assert self.redisq.code in ((0, 1) if verb == "fsck" else (0, 3)), (id, reason)
            return
        words = [each for word in words for each in FILLED_IN.get(word, [word])]
        agreed = () if words[0] in ASK_NOTHING else ("--yes",)
        said = self.redisq(*words, *agreed)
        now = [each.command for each in self.reasons(id)]
        assert reason.command not in now, (id, reason, said)
        self.put_back()


def verb_of(reason: Reason) -> str:
    words = shlex.split(reason.command or "")[1:]
    return words[0] if words[0] in READS else " ".join(words[:2])


def changes_nothing(reason: Reason) -> bool:
    return verb_of(reason) in READS or verb_of(reason).startswith("work")


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


def queue_at(client: Client, name: str) -> tuple[Any, FakeClock]:
    """A queue that was last used an hour ago, and its clock."""
    queue = run(client, Deployment(client).queue(name))
    clock = FakeClock(int(client.time()[0]) * 1000 - HOUR)
    return type(queue)(client, name, clock=clock), clock


def new(client: Client, kind: str, shards: int = 1) -> Any:
    """A queue without entries."""
    if kind != "request":
        return made(client, kind, "carmine:new" if kind == "carmine" else "new", shards)
    queue: Any = RequestQueue(client, "new")
    if shards > 1:
        queue = ShardedRequestQueue(client, "new", shards=shards)
    run(client, queue._ensure_registered())
    return queue


def add(queue: Any, n: int = 30) -> Any:
    if queue.kind != "request":
        put(queue, [f"n{i}" for i in range(n)])
        return queue
    for i in range(n):
        queue.submit([b"x"], id=f"n{i}", limit=1)
    return queue


def ended(outcome: Outcome) -> Situation:
    def situation(client: Client, redisq: Redisq, kind: str) -> str:
        queue = add(new(client, kind))
        taken = queue.take(30, consumer="w").deliveries
        queue.settle([Settlement(one, outcome, b"", 9000) for one in taken[1:]])
        return str(queue.name)

    return situation


def busy(client: Client, redisq: Redisq, kind: str) -> str:
    """The only worker has had an entry for an hour, and its lease goes on."""
    queue, _ = queue_at(client, add(new(client, kind)).name)
    queue.take(1, consumer="w", lease=7200)
    return str(queue.name)


def lost(client: Client, redisq: Redisq, kind: str) -> str:
    """Two workers were never heard of again, and those before them neither."""
    queue, clock = queue_at(client, add(new(client, kind)).name)
    for _ in range(3):
        queue.take(5, consumer="w1")
        queue.take(5, consumer="w2")
        clock.advance(31)
    return str(queue.name)


def due(client: Client, redisq: Redisq, kind: str) -> str:
    queue, _ = queue_at(client, add(new(client, kind), 3).name)
    taken = queue.take(9, consumer="w").deliveries
    queue.settle([Settlement(one, "fail", b"", 1) for one in taken])
    return str(queue.name)


def empty(client: Client, redisq: Redisq, kind: str) -> str:
    return str(new(client, kind).name)


def resizing(client: Client, redisq: Redisq, kind: str) -> str:
    """Dead, pending and waiting entries in a shard that is removed, as far as they stay there."""
    queue = add(new(client, kind, 3))
    while taken := queue.take(9, consumer="w").deliveries:
        queue.settle([Settlement(one, "reject") for one in taken[1:]])
    assert queue.resize(2)
    return str(queue.name)


def removed(client: Client, redisq: Redisq, kind: str) -> str:
    name = fresh(client, redisq, kind)
    dead = run(client, Deployment(client).queue(name)).page("dead", None, 1).entries[0]
    redisq("purge", f"{name}/{dead.id}", "--hard", "--yes")
    return name


def moved(killed: bool) -> Situation:
    """Dead entries are moved to another queue; ``killed``: the command ended in between."""

    def situation(client: Client, redisq: Redisq, kind: str) -> str:
        name = fresh(client, redisq, kind)
        target = new(client, kind)
        stop = AsyncMock(side_effect=KeyboardInterrupt) if killed else transfer.accept_entries
        with patch.object(transfer, "accept_entries", stop):
            redisq("move", name, "--to", target.name, "--state", "dead", "--yes", code=None)
        return name

    return situation


def late(client: Client) -> None:
    """Runs of a periodic entry were missed."""
    now = int(client.time()[0]) * 1000
    client.zadd("redisq:{later}:periodic_at", {"each": now - 3 * HOUR})


def late_again(client: Client) -> None:
    late(client)
    DelaySet(client, "later").tick()
    late(client)


def tight(client: Client, redisq: Redisq, kind: str) -> str:
    """Every request is at its limit."""
    queue = RequestQueue(client, "tight")
    queue.submit([b"x"] * 3, id="full", limit=1)
    queue.take(1, consumer="w")
    return "tight"


def at_their_rate(client: Client) -> None:
    FairQueue(client, "fair").take(5, consumer="w")


def broken(client: Client) -> None:
    """A request that has no entry left to do, and is not done."""
    queue = RequestQueue(client, "mail")
    queue.submit([b"x"], id="bad", limit=1)
    key = next(key for key in client.scan_iter(_type="hash") if client.hget(key, "waiting") == b"1")
    client.hset(key, "waiting", 0)


def family(client: Client) -> None:
    """Dead jobs of BullMQ: a child and its parent; and a parent that waits for another one."""
    at = "bull:mail:"
    client.hset(at + "bad0", "parentKey", at + "bad1")
    client.zadd(at + "bad1:unsuccessful", {at + "bad0": 1})
    client.copy(at + "bad2", at + "p")
    client.zadd(at + "waiting-children", {"p": 1})
    client.sadd(at + "p:dependencies", at + "bad3")
    client.hset(at + "bad3", "parentKey", at + "p")


def wrong(key: str) -> Situation:
    """A key of another type where others keep entries."""

    def change(client: Client) -> None:
        client.delete(key)
        client.set(key, "somebody else's") if key != "arq:queue" else client.rpush(key, "x")

    return added(change)


def later_sidekiq(client: Client) -> None:
    client.sadd("processes", "odd:2:cd")
    client.hset("odd:2:cd", "info", '{"version": "9.1.0"}')


def batch(client: Client) -> None:
    """A dead job of Sidekiq and those that are delayed are in a batch."""
    for key in ("dead", "schedule"):
        found: Any = client.zrange(key, 0, 0 if key == "dead" else -1, withscores=True)
        for job, score in found:
            client.zrem(key, job)
            client.zadd(key, {json.dumps({**json.loads(job), "bid": "b1"}): score})
    client.hset("BID-b1", "pending", 6)


def later_rq(client: Client) -> None:
    client.sadd("rq:workers", "rq:worker:odd")
    client.hset("rq:worker:odd", "version", "9.1.0")


def jobs_only(client: Client, redisq: Redisq, kind: str) -> str:
    """Of Sidekiq or Resque, with no worker."""
    name = fresh(client, redisq, kind)
    for key in client.scan_iter("*redisq:*"):
        client.delete(key)
    return name


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
    queue.append("more", 1, [b"x"], limit=4, before=before, after=str(digest))


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


def deaths(key: str, unit_ms: int) -> Situation:
    """Ten ids died just now."""

    def change(client: Client) -> None:
        now = int(client.time()[0]) * 1000 // unit_ms
        client.zadd(key, {f"died-{n}": now for n in range(10)})

    return added(change)


PERIODIC = "periodic add {0}/each --every 1h x"
CANT_OCCUR: list[tuple[str, Callable[[Queue[Any]], bool], str]] = [
    ("has no requests", lambda q: not isinstance(q, HasRequests),
     "cancelled done-dead limit open request-paused sealed"),
    ("has no clients", lambda q: not isinstance(q, HasClients), "blocked cap client-rate turn"),
    ("holds nothing back", lambda q: not isinstance(q, HasRequests | HasClients), "held"),
    ("has no periodic entries of ours", lambda q: not isinstance(q, DelaySet),
     "periodic periodic-corrupt periodic-held periodic-overdue periodic-paused periodic-run"),
    ("has no consumer groups", lambda q: not isinstance(q, HasConsumerGroups), "group trimmed"),
    ("has no entries that wait for others", lambda q: q.kind not in ("bullmq", "rq"), "children"),
    ("lets none die with others", lambda q: q.kind != "bullmq", "parent"),
    ("has no batches", lambda q: q.kind != "sidekiq", "batch"),
    ("is of another program", lambda q: isinstance(q, ForeignQueue),
     "closed moved moving rate removed resizing touched unfinished"),
    ("is ours", lambda q: not isinstance(q, ForeignQueue), "only-shown unread"),
    ("keeps no release that redisq reads",
     lambda q: isinstance(q, ForeignQueue) and not (q.releases and q.releases.told), "only-shown"),
    ("registers nobody who takes", lambda q: q.queue_position().askers is None, "busy no-worker"),
    ("counts nothing by the minute", lambda q: not q.rates(q.now(), 5).settled, "failing holder"),
    ("doesn't show who died when", lambda q: q.activity(q.now()).dead_lately is None, "dying"),
    ("can't be paused by its program, nor by redisq",
     lambda q: isinstance(q, ForeignQueue)
     and getattr(type(q), "paused_there", None) in (None, PlacedPages.paused_there)
     and getattr(q, "paused_by", None) is None, "paused"),
    ("is only read", lambda q: isinstance(q, ForeignQueue) and not q.actions, "purged"),
    ("waits in a turn", lambda q: q.kind == "fair", "behind"),
    ("counts what is ready as waiting", lambda q: q.kind in ("delay", "carmine"), "due"),
    ("keeps no record of what is done",
     lambda q: q.kind in ("delay", "fair", "circular", "carmine"), "done"),
    ("has the jobs themselves in its lists and sets",
     lambda q: getattr(q, "holds_payloads", False), "gone"),
    ("shows a delay as a retry", lambda q: q.kind in ("fair", "circular", "carmine"), "delayed"),
]  # fmt: skip
"""why a rule can't occur in a queue, of which queues that is so, and the rules"""
ONLY_LOOKS = {
    "busy",
    "dead-letters",
    "done",
    "due",
    "empty",
    "group",
    "next",
    "poison",
    "unread",
    "waiting",
}
"""rules whose commands change nothing, in any queue: none of these is refused"""
VERBS_OF: dict[str, tuple[Verb, State]] = {
    "dead": ("replay", "dead"),
    "delayed": ("requeue", "delayed"),
    "retry": ("requeue", "delayed"),
    "pending": ("requeue", "pending"),
    "overdue": ("requeue", "pending"),
    "silent": ("requeue", "pending"),
    "gone": ("purge", "dead"),
    "purged": ("restore", "trash"),
}
"""rules that advise this verb, where the queue has it: by one check, whichever rule it is"""
MORE: dict[str, list[Situation]] = {
    "request": [
        added(requests),
        added(broken),
        tight,
        after("request pause {0}/r"),
        after("request cancel {0}/r"),
        after("purge {0} --state dead --hard"),
    ],
    "fair": [
        after("client block {0} ann"),
        after("client block {0} ann", "client block {0} bob"),
        after("client cap {0} ann 1"),
        added(at_their_rate, "client rate {0} ann 1/h"),
    ],
    "delay": [
        after(PERIODIC),
        after(PERIODIC, "periodic pause {0}/each"),
        added(late, PERIODIC),
        added(late_again, PERIODIC),
        added(lambda client: client.zadd("redisq:{later}:periodic_at", {"odd": 0}), PERIODIC),
    ],
    "stream": [
        added(idle),
        added(trimmed),
        added(lambda client: client.xgroup_create("orders", "billing", id="0")),
    ],
    "rq": [
        *orphans("rq"),
        wrong("rq:failed:low"),
        added(later_rq),
        added(lambda client: client.set("rq:suspended", 1)),
    ],
    "bullmq": [
        *orphans("bullmq"),
        deaths("bull:mail:failed", 1),
        added(family),
        wrong("bull:mail:failed"),
        added(lambda client: client.hset("bull:mail:meta", "version", "bullmq:99.0.0")),
        added(lambda client: client.hset("bull:mail:meta", "paused", 1)),
    ],
    "bull": [
        *orphans("bull"),
        deaths("bull:mail:failed", 1),
        wrong("bull:mail:failed"),
        added(lambda client: client.set("bull:mail:meta-paused", 1)),
    ],
    "dramatiq": [*orphans("dramatiq"), wrong("dramatiq:low.XQ")],
    "arq": orphans("arq"),
    "asynq": [
        *orphans("asynq"),
        deaths("asynq:{low}:archived", 1000),
        wrong("asynq:{low}:archived"),
        added(lambda client: client.set("asynq:{low}:paused", 1)),
    ],
    "celery": [wrong("unacked")],
    "sidekiq": [
        jobs_only,
        wrong("dead"),
        added(later_sidekiq),
        added(batch),
        added(lambda client: client.sadd("paused", "low")),
    ],
    "resque": [
        jobs_only,
        wrong("resque:failed"),
        added(lambda client: client.set("resque:pause-all-workers", "true")),
    ],
}


def situations(kind: str) -> Iterator[Situation]:
    yield fresh
    if not kind.startswith(ONLY_READ):
        yield after("purge {0} --state waiting --max 1")
    if kind in OURS:
        yield after("purge {0} --state dead", "trash restore {0}")
        yield removed
        yield from (old, busy, lost, due, empty, resizing, moved(False), moved(True))
        yield from (ended("ack"), ended("fail"), ended("reject"))
        yield after(*["purge {0} --state dead --max 1 --hard"] * 2)
        yield after("queue pause {0}")
        yield after("queue drain {0}")
        yield after("settings {0} rate=5/h")
    yield from MORE.get(kind, ())


@pytest.mark.alike
@pytest.mark.parametrize("kind", SPECIMENS)
def test_every_command_that_explain_prints_does_what_it_says(
    client: Client, redisq: Redisq, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("FILE").write_text("x\ny\n")
    before = list[str]()
    said, tried = set[str](), set[tuple[object, ...]]()
    for situation in situations(kind):
        client.flushdb()
        stage = Stage(client, redisq, situation(client, redisq, kind), before)
        if kind in OURS and not before:
            before = [one.id for one in stage.queue.page("dead", None, 1).entries]
        for id in stage.ids():
            for reason in stage.reasons(id):
                said.add(reason.rule)
                words = [word for word in (reason.command or "").split() if "/" not in word][1:3]
                shape = (reason.rule, id is None, *words)
                assert reason.rule not in ONLY_LOOKS or not words or changes_nothing(reason)
                if reason.command and shape not in tried:
                    tried.add(shape)
                    stage.carry_out(id, reason)
    queue = stage.queue
    cant = {rule for _, so, rules in CANT_OCCUR if so(queue) for rule in rules.split()}
    assert said & cant == set()
    tried_verbs = {VERBS_OF.get(rule) for rule in said}
    harmless = {
        rule
        for rule, (verb, of) in VERBS_OF.items()
        if of not in queue.actions.get(verb, ()) or (verb, of) in tried_verbs
    }
    if not isinstance(queue, HasRequests):
        harmless.add("behind")  # only a request has a priority to change
    open_ = (
        {word for words in get_args(Rule) for word in get_args(words)}
        - said
        - cant
        - ONLY_LOOKS
        - harmless
    )
    assert open_ == set()


@pytest.mark.parametrize(
    ("command", "facts", "words"),
    [
        (
            "requeue --queue mail --where 'consumer=\"geo-3:777\"'",
            {"consumer": "geo-3:777", "pending": 8},
            "Requeue the 8 entries of geo-3:777",
        ),
        ("workers claim s gone --group g --to NAME", {"pending": 1}, "Claim the 1 entry of gone"),
        ("workers claim s gone --group g --to NAME", {}, "Claim what gone has"),
        ("replay mail/r1", {"dead": 3}, "Replay the 3 dead entries of request mail/r1"),
        # In the facts of an entry, `dead` counts the queue's.
        ("replay mail/r1/2", {"dead": 3, "group": "e54ad454"}, "Replay mail/r1/2"),
        ("request limit mail/r1 8", {}, "Set the limit of request mail/r1 to 8"),
        ("client unblock jobs acme", {}, "Unblock client acme"),
    ],
)
def test_a_command_is_said_with_its_verb_first(
    command: str, facts: dict[str, object], words: str
) -> None:
    assert deed(f"redisq {command}", facts).startswith(words)

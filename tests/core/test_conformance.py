"""What holds for every kind of queue, ours and other programs': a kind without a specimen fails.

A specimen is a queue of its kind with several entries in each state it has. What the public
conformance test shows of a kind (`foreign/test_conform.py`) isn't shown here again.
"""

from __future__ import annotations

import asyncio
import json
import math
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
import redis
import redis.asyncio

from redisq_ops.core.engine.optional_features import (
    HasDoneEntries,
    HasRequests,
    HasWorkerProcesses,
)
from redisq_ops.core.engine.queue_classes import foreign_class
from redisq_ops.core.engine.queue_types import KINDS, LAYOUTS
from redisq_ops.core.foreign.arq import ArqQueue
from redisq_ops.core.foreign.asynq import AsynqQueue
from redisq_ops.core.foreign.base import ForeignQueue
from redisq_ops.core.foreign.bull import BullQueue
from redisq_ops.core.foreign.bullmq import BullmqQueue
from redisq_ops.core.foreign.celery import CeleryQueue
from redisq_ops.core.foreign.dramatiq import DramatiqQueue
from redisq_ops.core.foreign.laravel import LaravelQueue
from redisq_ops.core.foreign.resque import ResqueQueue
from redisq_ops.core.foreign.rq import RqQueue
from redisq_ops.core.foreign.ruby_jobs import Job
from redisq_ops.core.foreign.sidekiq import SidekiqQueue
from redisq_ops.core.model.clock import Clock
from redisq_ops.core.model.entry import STATES, Page, Settlement, State
from redisq_ops.core.model.errors import CORRUPT, RedisqError, WrongKind
from redisq_ops.core.model.states import VERBS, Verb
from redisq_ops.core.queues.carmine import CarmineQueue
from redisq_ops.core.queues.circular import CircularQueue
from redisq_ops.core.queues.delay import DelaySet
from redisq_ops.core.queues.fair import FairQueue
from redisq_ops.core.queues.request import RequestQueue
from redisq_ops.core.redis.client import connect
from redisq_ops.core.redis.operation import run
from redisq_ops.ops.change.allowed import refusal
from redisq_ops.ops.filter.filter import Filter
from redisq_ops.ops.filter.parser import parse
from redisq_ops.ops.filter.selection import select
from redisq_ops.ops.inspect.task_report import TaskReader

from ..command_line import Redisq
from ..foreign_keys import (
    arq_program,
    asynq_program,
    bull_program,
    bullmq_program,
    celery_program,
    dramatiq_program,
    laravel_program,
    rq_program,
    rq_tasks,
)
from ..foreign_keys.article_programs import (
    CircularArticle,
    DelayArticle,
    FairArticle,
    RequestArticle,
)
from ..ops import test_discover
from ..pipeline.rows import paged, rows
from ..queue_steps import end, take
from ..queue_steps import paged_ids as ids
from .foreign import shelf

Client = redis.Redis
Queue = Any


def worked_on(queue: Queue) -> Queue:
    """Of what waits some is pending, some dead, and some waits for another attempt."""
    dead, failed = take(queue, 4), take(queue, 3)
    for delivery in dead:
        end(queue, delivery, "reject")
    queue.settle([Settlement(each, "fail", b"", 9000) for each in failed])
    take(queue, 2)
    return queue


def request(client: Client, clock: Clock | None = None) -> Queue:
    queue = RequestQueue(client, "mail", clock=clock)
    queue.submit([b"x"] * 12, id="r", limit=100)
    return worked_on(queue)


def delay(client: Client, clock: Clock | None = None) -> Queue:
    queue = DelaySet(client, "later", clock=clock)
    queue.schedule([(f"e{n}", b"x") for n in range(12)])
    queue.schedule([(f"f{n}", b"x") for n in range(5)], after=9000)
    return worked_on(queue)


def fair(client: Client, clock: Clock | None = None) -> Queue:
    queue = FairQueue(client, "fair", clock=clock)
    for who in ("ann", "bob"):
        queue.submit(who, [(f"{who}{n}", b"x") for n in range(7)])
    return worked_on(queue)


def circular(client: Client, clock: Clock | None = None) -> Queue:
    queue = CircularQueue(client, "ring", clock=clock)
    queue.push([(f"e{n}", b"x") for n in range(12)])
    return worked_on(queue)


def carmine(client: Client, clock: Clock | None = None) -> Queue:
    queue = CarmineQueue(client, "carmine:q", clock=clock)
    queue.enqueue([(f"e{n}", b"x") for n in range(12)])
    return worked_on(queue)


def jobs(queue: Queue) -> Queue:
    queue.push([Job("Task", [n]) for n in range(12)])
    return worked_on(queue)


def sidekiq(client: Client) -> Queue:
    queue = jobs(SidekiqQueue(client, "sidekiq:low"))
    for n in range(5):
        text = {
            "class": "Task",
            "args": [],
            "jid": f"late{n}",
            "queue": "low",
            "retry": True,
            "created_at": 1.5,
        }
        client.zadd("schedule", {json.dumps(text): time.time() + 9000 + n})
    return queue


def rq_(client: Client) -> Queue:
    rq_program.fill(client)
    return RqQueue(client, "rq:low")


def arq(client: Client) -> Queue:
    arq_program.specimen(client)
    return ArqQueue(client, "arq:arq:queue")


def asynq(client: Client) -> Queue:
    asynq_program.specimen(client)
    return AsynqQueue(client, "asynq:low")


def bullmq(client: Client) -> Queue:
    bullmq_program.specimen(client)
    return BullmqQueue(client, "bullmq:mail")


def bull(client: Client) -> Queue:
    bull_program.specimen(client)
    return BullQueue(client, "bull:mail")


def celery(client: Client) -> Queue:
    celery_program.specimen(client)
    return CeleryQueue(client, "celery:celery")


def dramatiq(client: Client) -> Queue:
    dramatiq_program.specimen(client)
    return DramatiqQueue(client, "dramatiq:low")


def laravel(client: Client) -> Queue:
    laravel_program.specimen(client)
    return LaravelQueue(client, "laravel:low")


def stream(client: Client) -> Queue:
    for _ in range(8):
        test_discover.stream(client) if not client.exists("orders") else client.xadd(
            "orders", {"n": 1}
        )
    client.xreadgroup("mail", "w1", {"orders": ">"}, count=4)
    return foreign_class("stream")(client, "stream:orders")  # type: ignore[misc]


def raw(kind: str, name: str, fill: Callable[[Client], object]) -> Callable[[Client], Queue]:
    def made(client: Client) -> Queue:
        fill(client)
        return foreign_class(kind)(client, name)  # type: ignore[misc]

    return made


def article_requests(client: Client) -> None:
    article = RequestArticle(client)
    article.submit("r1", [f"p{n}" for n in range(8)], limit=3)


def article_circle(client: Client) -> None:
    article = CircularArticle(client)
    article.push(*map(str, range(8)))
    article.next(int(client.time()[0]))


def article_delays(client: Client) -> None:
    for n in range(9):
        article = DelayArticle(client)
        article.enqueue(f"job{n}", int(client.time()[0]) + 200 * (n - 4) + 100)


def article_clients(client: Client) -> None:
    article = FairArticle(client)
    article.send("ann", *range(5))
    article.send("bob", *range(4))
    article.receive("ann")


def carmine_layout(client: Client) -> None:
    for n in range(8):
        client.hset("carmine:mq:mails:messages", f"mid{n}", "NPY.content")
        client.lpush("carmine:mq:mails:mid-circle", f"mid{n}")
    client.rpush("carmine:mq:mails:mid-circle", "end-of-circle")


SPECIMENS: dict[str, Callable[[Client], Queue]] = {
    "request": request,
    "delay": delay,
    "fair": fair,
    "circular": circular,
    "carmine": carmine,
    "sidekiq": sidekiq,
    "resque": lambda client: jobs(ResqueQueue(client, "resque:low")),
    "rq": rq_,
    "arq": arq,
    "asynq": asynq,
    "bullmq": bullmq,
    "bull": bull,
    "celery": celery,
    "dramatiq": dramatiq,
    "laravel": laravel,
    "stream": stream,
    "raw-request": raw("raw-request", "raw-request:req", article_requests),
    "raw-circular": raw("raw-circular", "raw-circular:queue", article_circle),
    "raw-delay": raw("raw-delay", "raw-delay:delay_set", article_delays),
    "raw-fair": raw("raw-fair", "raw-fair:worker1", article_clients),
    "carmine layout": raw("carmine", "carmine:mails", carmine_layout),
}


UNREGISTERED: dict[str, Callable[[Client], Queue]] = {"shelf": shelf.fill}
"""layouts of no program: what a kind to come relies on"""
SHOWN = [name for name in SPECIMENS if name.startswith(("raw-", "stream", "carmine "))]
"""kinds whose entries redisq only shows"""
CHANGED = [name for name in SPECIMENS if name not in SHOWN]
"""all others, which the public conformance test is for"""


def test_every_kind_has_a_specimen() -> None:
    assert {name.partition(" ")[0] for name in SPECIMENS} == {*KINDS, *LAYOUTS}


@pytest.fixture(params=[*SPECIMENS, *UNREGISTERED])
def queue(request: pytest.FixtureRequest, client: Client) -> Queue:
    return (SPECIMENS | UNREGISTERED)[request.param](client)


def content(client: Client, key: bytes) -> object:
    """Byte for byte; hashes and sets have no order."""
    type_ = client.type(key)
    if type_ == b"hash":
        return client.hgetall(key)
    return client.smembers(key) if type_ == b"set" else client.dump(key)


def keys(client: Client) -> dict[bytes, tuple[object, int]]:
    return {key: (content(client, key), client.pexpiretime(key)) for key in client.scan_iter()}


GROWING = {"bullmq": (b":events", b":pc")}
"""keys of an owner's that only grow: a log of what happened, a counter"""


def theirs(client: Client, queue: Queue) -> dict[bytes, tuple[object, int]]:
    """The owner's keys: all but those of ours beside them, and those that only grow."""
    own = queue.keys["op_"].removesuffix("op:").encode()
    found = {k: v for k, v in keys(client).items() if not k.endswith(GROWING.get(queue.kind, ()))}
    return {k: v for k, v in found.items() if not k.startswith(own) and k != b"redisq:registry"}


def look(queue: Queue) -> None:
    """Everything a face reads of a queue."""
    now = queue.now()
    queue.exists()
    queue.full_counts(now)
    queue.checkup()
    queue.checkup(thorough=True)
    queue.queue_position()
    queue.due_counts([now, now + 60_000, now + 10**9])
    queue.rates(now, 60)
    queue.activity(now - 60_000)
    queue.history(10)
    queue.settings()
    if isinstance(queue, HasWorkerProcesses):
        queue.worker_processes()
    if isinstance(queue, HasRequests):
        queue.requests()
    queue.group_loads()
    for state in STATES:
        for id in ids(queue, state, 3):
            queue.get(id)
            queue.queue_position(id)
        queue.page(state, start=1, max=2, payloads=True)


@pytest.mark.parametrize("name", [kind for kind in SPECIMENS if kind in LAYOUTS])
def test_what_a_verb_would_skip_is_known_before(client: Client, name: str) -> None:
    """`refusal` says of every entry and every verb what the verb then does."""
    queue, asked = SPECIMENS[name](client), 0
    cases = [(verb, state) for verb, states in queue.actions.items() for state in states]
    for verb, state in cases:
        for id in ids(queue, state)[-2:]:
            entry, asked = queue.get(id), asked + 1
            before = keys(client)
            why = run(client, refusal(queue, verb, entry))
            assert keys(client) == before, "it only asks"
            (word,) = queue.move(
                f"op-{asked}",
                1,
                [id],
                source=state,
                target=VERBS[verb][1],
                high_water_ms=2**50,
                lease_ms=2**41,
                consumer="ann",
            )
            assert (why is None) is (word == "moved"), (verb, state, id, why, word)


# --- what is seen -------------------------------------------------------------------


@pytest.mark.alike
@pytest.mark.parametrize("queue", [*SHOWN, *UNREGISTERED], indirect=True)
def test_pages_are_complete(queue: Queue) -> None:
    counts = queue.full_counts()
    for state in STATES:
        whole = ids(queue, state)
        assert Counter(ids(queue, state, 1)) == Counter(ids(queue, state, 3)) == Counter(whole)
        if state != "done" and queue.page(state).exact and counts.of(state) is not None:
            assert counts.of(state) == queue.page(state).total
        for id in whole if state != "done" else ():
            entry = queue.get(id)
            assert entry is not None and entry.id == id


SCORES: dict[str, Callable[[int, float], float]] = {
    "a fraction apart": lambda n, score: score + n / 10,
    "alike": lambda n, score: 1_900_000_000.25,
    "infinite": lambda n, score: math.inf if n % 2 else -math.inf,
    "negative": lambda n, score: -float(n) / 3,
}


@pytest.mark.alike
@pytest.mark.parametrize("queue", [*SHOWN, *UNREGISTERED, "fair"], indirect=True)
def test_pages_are_complete_under_any_scores(queue: Queue, client: Client) -> None:
    before = sum(len(ids(queue, state)) for state in STATES)
    # Our scripts write none of the others.
    for name in SCORES if isinstance(queue, ForeignQueue) else ["a fraction apart"]:
        for key in client.scan_iter(_type="zset"):
            scored = list[Any](client.zrange(key, 0, -1, withscores=True))
            client.zadd(key, {m: SCORES[name](n, score) for n, (m, score) in enumerate(scored)})
        whole = {state: Counter(ids(queue, state)) for state in STATES}
        assert sum(found.total() for found in whole.values()) == before, name
        for state in STATES:
            found = [Counter(ids(queue, state, size)) for size in (1, 3)]
            assert found == [whole[state]] * 2, name


@pytest.mark.alike
@pytest.mark.parametrize("queue", [*SHOWN, *UNREGISTERED, "request"], indirect=True)
def test_foreign_bytes_are_never_a_traceback(queue: Queue, client: Client) -> None:
    odd = b"\xff\xfe {*}|\x00"
    for key in list(client.scan_iter()):
        type_ = client.type(key)
        if type_ == b"list":
            client.lpush(key, odd)
            client.rpush(key, odd, b"")
        elif type_ == b"zset":
            client.zadd(key, {odd: 1.5, b"": time.time() + 900})
        elif type_ == b"set":
            client.sadd(key, odd)
        elif type_ == b"hash" and not key.endswith(b":registry"):
            client.hset(key, odd, odd)
        elif type_ == b"stream":
            client.xadd(key, {odd: odd})
    expected = () if isinstance(queue, ForeignQueue) else CORRUPT  # of our records, as `fsck` says
    with suppress(RedisqError, *expected):
        look(queue)
    for state in STATES:
        with suppress(RedisqError):
            ids(queue, state, 3)


@pytest.mark.alike
@pytest.mark.parametrize("queue", SPECIMENS, indirect=True)
def test_sparks_tables_are_the_pages(queue: Queue, client: Client, url: str) -> None:
    states: tuple[State, ...] = ("waiting", "pending", "delayed", "dead")
    tables: dict[str, State] = {state: state for state in states}
    if isinstance(queue, HasDoneEntries):
        tables["finished"] = "done"
    else:  # no rows would mean that nothing was done
        with pytest.raises(WrongKind, match="done entries"):
            rows(url, "finished", queue=queue.name)
    tasks = run(client, TaskReader(queue).read(queue.now())).tasks
    found = rows(url, "tasks", queue=queue.name)
    assert [(row["task"], row["ended"], row["failed"], row["p95_ms"]) for row in found] == [
        (one.task, one.ended, one.failed, one.p95_ms) for one in tasks
    ]
    for table, state in tables.items():
        read = rows(url, table, queue=queue.name)
        assert not any(row["_corrupt"] for row in read)
        pages = Counter((entry.id, entry.task) for entry in paged(queue, state))
        assert Counter((row["id"], row["task"]) for row in read) == pages


TASKS = {
    "rq": (f"task={rq_tasks.__name__}.fails arg.0=luck", 4),
    "arq": ("task=fails arg.order>=2", 2),
    "asynq": ("task=order:charge arg.order>=2 arg.region=eu", 2),
    "bullmq": ("task=fails arg.region=eu", 4),
    "bull": ("task=fails arg.region=eu", 4),
    "celery": ("task=shop.fails arg.order>=2", 2),
    "dramatiq": ("task=fails arg.order>=2 arg.0~luck", 2),
    "sidekiq": ("task~^Ta arg.0>=2", 2),
    "resque": ("task=Task arg[0]>=2", 5),
    "laravel": ("task~Charge arg.order>=2 arg.region=eu", 3),
}
"""a filter for dead entries of a specimen, and how many it means"""


@pytest.mark.alike
@pytest.mark.parametrize("queue", SPECIMENS, indirect=True)
def test_tasks_are_found_by_name_and_argument(queue: Queue) -> None:
    text, number = TASKS.get(queue.kind, ("has:task or has:arg.0", 0))
    found = run(queue.client, select(queue, "dead", Filter(where=parse(text)))).ids()
    assert len(found) == number
    if number and "dead" in queue.actions.get("purge", ()):
        moved(queue, "purge", "dead", found)
        assert run(queue.client, select(queue, "trash", Filter(where=parse(text)))).count == number


def test_looks_write_nothing(queue: Queue, client: Client) -> None:
    before = keys(client)
    look(queue)
    assert keys(client) == before


def test_the_right_to_read_suffices_for_looks(queue: Queue, client: Client, url: str) -> None:
    admin: Any = client
    rights = ("on", ">x", "+@read", "+@connection", "+time", "%R~*")
    admin.execute_command("ACL", "SETUSER", "looks", *rights)
    try:
        with connect(url.replace("//", "//looks:x@")) as own:
            made = type(queue)(own, queue.name, clock=queue.clock)
            look(made)
            assert made.counts() == queue.counts()
    finally:
        client.acl_deluser("looks")


# --- every face ---------------------------------------------------------------------

LISTED: dict[State, str] = {
    "waiting": "waiting",
    "pending": "pending",
    "delayed": "delay",
    "dead": "dlq",
    "trash": "trash",
}
"""a state, and the command that lists it"""
WORKED = ("request", "delay", "fair", "circular", "carmine", "sidekiq", "resque")
"""kinds that redisq's workers run"""


@pytest.mark.alike
@pytest.mark.parametrize("queue", SPECIMENS, indirect=True)
def test_the_command_line_shows_it(
    queue: Queue, client: Client, url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    redisq, name, before = Redisq(url, capsys), queue.name, theirs(client, queue)
    counts = queue.full_counts()
    (row,) = redisq.rows("inspect", name)
    assert (row["name"], row["kind"]) == (name, queue.kind)
    assert {s: row[s] for s in LISTED} == {s: counts.of(s) for s in LISTED}
    for state, noun in LISTED.items():
        rows = redisq.rows(noun, "ls", name, code=None)
        assert Counter(row["id"] for row in rows) == Counter(ids(queue, state))
        for row in rows[-1:]:
            (one,) = redisq.rows("inspect", f"{name}/{row['id']}")
            assert (one["id"], one["state"]) == (row["id"], state)
    for words in ("inspect", "explain", "history", "settings"):
        redisq(*words.split(), name)
    redisq("fsck", name, code=None)
    if not queue.actions:
        for words in ("queue pause", "pending requeue", "waiting purge", "queue rm"):
            redisq(*words.split(), name, "--yes", code=1)
    assert theirs(client, queue) == before


@pytest.mark.alike
@pytest.mark.parametrize("name", CHANGED)
def test_the_command_line_changes_it(
    client: Client, url: str, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    redisq, queue = Redisq(url, capsys), SPECIMENS[name](client)
    seen = {state: Counter(ids(queue, state)) for state in LISTED}
    verbs: tuple[Verb, ...] = ("replay", "purge", "requeue")
    for verb in verbs:
        for state in (s for s in queue.actions.get(verb, ()) if s in LISTED):
            done = redisq.rows(LISTED[state], verb, queue.name, "--yes", code=None)[-1]
            assert done["done"] >= 2 and {s: Counter(ids(queue, s)) for s in LISTED} != seen
            redisq("undo", done["op"], "--yes")
            assert {s: Counter(ids(queue, s)) for s in LISTED} == seen, (verb, state)
    if name in WORKED:
        redisq("work", "--queue", queue.name, "--burst", "--exec", "true")
        assert queue.counts().waiting == 0


@pytest.mark.alike
@pytest.mark.parametrize("queue", SPECIMENS, indirect=True)
def test_awaited_it_is_the_same(queue: Queue, aclient: Callable[[], redis.asyncio.Redis]) -> None:
    def rows(page: Page) -> list[tuple[object, ...]]:
        return [(page.total, e.id, e.state, e.payload) for e in page.entries]

    async def awaited() -> list[Any]:
        async with aclient() as client:
            other: Any = type(queue)(client, queue.name, clock=queue.clock)
            seen = [await other.counts(), await other.checkup(), await other.exists()]
            seen += [rows(await other.page(state, payloads=True)) for state in STATES]
            if queue.kind in WORKED and queue.actions:
                taken = await other.take(1, consumer="w")
                ends = [Settlement(one, "ack") for one in taken.deliveries]
                assert await other.settle(ends) == ["done"]
            return seen

    said = [queue.counts(), queue.checkup(), queue.exists()]
    said += [rows(queue.page(state, payloads=True)) for state in STATES]
    assert asyncio.run(awaited()) == said


# --- what operators change ----------------------------------------------------------


def moved(queue: Queue, verb: Verb, state: State, some: list[str], seq: int = 1) -> list[str]:
    """A step of an operator's change; of entries that still have the time they were seen with."""
    chosen = {entry.id: entry for entry in queue.page(state, max=1000).entries}
    times = {id: chosen[id].at_ms for id in some if id in chosen and chosen[id].at_ms is not None}
    now = queue.now()
    said: list[str] = queue.move(
        "op-1",
        seq,
        some,
        source=state,
        target=VERBS[verb][1],
        high_water_ms=now + 60_000,
        consumer="me",
        lease_ms=now + 7_200_000 if verb == "reschedule" else 60_000,
        times={id: at for id, at in times.items() if state in ("waiting", "delayed")},
    )
    return said


@pytest.mark.parametrize("verb", ["restore", "hard"])
@pytest.mark.parametrize("name", CHANGED)
def test_a_step_in_the_trash_is_done_once_and_its_undo_restores_what_was_there(
    client: Client, name: str, verb: Verb
) -> None:
    queue = SPECIMENS[name](client)
    if "trash" not in queue.actions.get(verb, ()):
        return
    source: State = next(s for s in ("dead", "waiting") if s in queue.actions["purge"])
    moved(queue, "purge", source, ids(queue, source)[-3:], 1)
    some = ids(queue, "trash")[-2:]
    before, seen = theirs(client, queue), {s: ids(queue, s) for s in STATES}
    said = moved(queue, verb, "trash", some, 7)
    after = theirs(client, queue)
    assert said == ["moved"] * 2 and moved(queue, verb, "trash", some, 7) == said
    assert theirs(client, queue) == after
    if verb == "hard":
        return
    back, touched = queue.undo("op-1", 7, target=VERBS[verb][1], by="undo-1", seq=1)[:2]
    assert (back, touched) == (2, 0)
    assert {s: Counter(ids(queue, s)) for s in STATES} == {s: Counter(i) for s, i in seen.items()}
    if isinstance(queue, ForeignQueue):
        assert theirs(client, queue) == before

"""Queues of other programs whose payloads are large: a look reads a bounded number of bytes."""

import asyncio
import json
import tracemalloc
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import redis

from redisq_ops.core.foreign.rq import RqQueue
from redisq_ops.core.model import cut_element
from redisq_ops.core.model.cut_element import LARGEST
from redisq_ops.core.model.entry import State
from redisq_ops.core.model.errors import WrongKind
from redisq_ops.core.redis.client import aconnect, connect
from redisq_ops.core.redis.operation import Call, arun, run, together
from redisq_ops.demo.other_programs import register_found
from redisq_ops.ops.deployment import Deployment
from redisq_ops.ops.inspect.overview import overview
from redisq_ops.ops.inspect.snapshot import Snapshot, Viewport
from redisq_ops.ops.inspect.snapshot_reader import fetch

from ...command_line import Redisq
from ...foreign_keys.asynq_program import encoded

pytestmark = pytest.mark.slow

LARGE = "x" * 5_000_000
N = 4


def sidekiq(client: Any) -> str:
    job = {"class": "Big", "args": [LARGE], "queue": "default"}
    records = [json.dumps(job | {"jid": f"{n:024x}"}) for n in range(N)]
    client.sadd("queues", "default")
    client.lpush("queue:default", *records)
    client.zadd("dead", {record: n for n, record in enumerate(records)})
    return "sidekiq:default"


def bullmq(client: Any) -> str:
    client.hset("bull:big:meta", "version", "bullmq:6.7.0")
    for n in range(N):
        client.hset(f"bull:big:{n}", mapping={"name": "big", "data": json.dumps(LARGE)})
        client.lpush("bull:big:wait", n)
    return "bullmq:big"


def rq(client: Any) -> str:
    client.sadd("rq:queues", "rq:queue:big")
    for n in range(N):
        client.hset(f"rq:job:{n}", mapping={"description": f"big({LARGE!r})", "data": "x"})
        client.rpush("rq:queue:big", n)
    return "rq:big"


def stream(client: Any) -> str:
    for _ in range(N):
        client.xadd("events", {"data": LARGE})
    client.xgroup_create("events", "readers", "0")
    return "stream:events"


def resque_runs(client: Any, record: bytes) -> str:
    client.sadd("resque:queues", "default")
    client.sadd("resque:workers", "box:1:default")
    head = b'{"queue":"default","run_at":"2026-11-27T10:00:00Z","payload":'
    client.set("resque:worker:box:1:default", head + record + b"}")
    return "resque:default"


def sidekiq_runs(client: Any, record: bytes, queues: tuple[str, ...] = ("default",)) -> str:
    client.sadd("queues", "default")
    client.sadd("processes", "box:1")
    client.hset("box:1", "info", json.dumps({"hostname": "box", "queues": queues}))
    client.expire("box:1", 60)
    work = {"queue": "default", "run_at": 1_795_000_000, "payload": record.decode()}
    client.hset("box:1:work", "thread", json.dumps(work))
    return "sidekiq:default"


def arq_runs(client: Any, record: bytes) -> str:
    client.zadd("arq:queue", {"job": 1})
    client.set("arq:job:job", json.dumps({"t": 1, "f": "big", "a": [LARGE], "k": {}, "et": 1}))
    client.set("arq:in-progress:job", "1", px=60_000)
    return "arq:arq:queue"


def looked(client: redis.Redis, what: Callable[[], Any]) -> tuple[Any, int]:
    """The result, and the bytes that the server sent for it."""
    before = client.info("stats")["total_net_output_bytes"]
    found = what()
    return found, client.info("stats")["total_net_output_bytes"] - before


@pytest.mark.parametrize("fill", [sidekiq, bullmq, rq, stream])
def test_looks_do_not_read_large_payloads(
    client: redis.Redis, url: str, fill: Callable[[Any], str]
) -> None:
    name = fill(client)
    with connect(url) as looking:
        register_found(looking)
        deployment = Deployment(looking)
        found, sent = looked(client, lambda: run(looking, overview(deployment)))
        (row,) = (row for row in found.rows if row.name == name)
        assert row.counts is not None and row.counts.of("waiting") == N and sent < 100_000
        snapshot: Snapshot
        snapshot, sent = looked(
            client, lambda: run(looking, fetch(deployment, Viewport("waiting", name, 0, 40)))
        )
        assert len(snapshot.entries) == N and sent < 100_000
        said = [entry.problem or (entry.payload or b"").decode() for entry in snapshot.entries]
        assert all("not read in a list: " in text and " MiB" in text for text in said)
        # What filters, groups and changes read is complete.
        queue, read, cursor, first = run(looking, deployment.queue(name)), list[str](), None, True
        while first or cursor:
            page = queue.page("waiting", cursor, 2)
            assert all(entry.problem is None for entry in page.entries)
            assert all(b"not read" not in (entry.payload or b"") for entry in page.entries)
            read += [entry.id for entry in page.entries]
            cursor, first = page.cursor, False
        assert len(set(read)) == len(read) == N


@pytest.mark.parametrize("fill", [sidekiq_runs, resque_runs, arq_runs])
def test_looks_do_not_read_large_jobs_that_run(
    client: redis.Redis, url: str, fill: Callable[[Any, bytes], str]
) -> None:
    record = json.dumps({"class": "Big", "args": [LARGE, LARGE], "jid": "0" * 24}).encode()
    name = fill(client, record)
    with connect(url) as looking:
        register_found(looking)
        deployment = Deployment(looking)
        found, sent = looked(client, lambda: run(looking, overview(deployment)))
        (row,) = (row for row in found.rows if row.name == name)
        assert row.counts is not None and row.counts.of("pending") == 1 and sent < 500_000
        for view in ("pending", "processes", "consumers"):
            look = Viewport(view, name)
            snapshot: Snapshot
            snapshot, sent = looked(client, partial(run, looking, fetch(deployment, look)))
            assert sent < 500_000
            said = [entry.problem or "" for entry in snapshot.entries]
            assert ["not read in a list" in text for text in said] == [True] * (view == "pending")
        (entry,) = run(looking, deployment.queue(name)).page("pending").entries
        assert entry.problem is None and entry.task == ("big" if "arq" in name else "Big")


def test_looks_do_not_read_large_jobs_that_our_workers_hold(client: redis.Redis, url: str) -> None:
    name = sidekiq(client)
    with connect(url) as looking:
        register_found(looking)
        deployment = Deployment(looking)
        run(looking, deployment.queue(name)).take(1, consumer="ours")
        look = Viewport("pending", name)
        snapshot, sent = looked(client, partial(run, looking, fetch(deployment, look)))
        (entry,) = snapshot.entries
        assert sent < 100_000 and "not read in a list" in (entry.problem or "")


def test_the_queue_of_a_large_job_that_runs_may_be_unknown(client: redis.Redis, url: str) -> None:
    name = sidekiq_runs(client, LARGE.encode(), queues=("default", "other"))
    with connect(url) as looking:
        register_found(looking)
        queue = run(looking, Deployment(looking).queue(name))
        counts, page = queue.counts(), queue.page("pending", glance=True)
        why = "not read in a list: 4.8 MiB; its queue is unknown"
        assert counts.of("pending") is None and counts.problem == f"a running job of box:1: {why}"
        assert [entry.problem for entry in page.entries] == [why] and not page.exact
        assert run(looking, Deployment(looking).queue("sidekiq")).counts().pending == 1


HUGE = "x" * (LARGEST + 1)


def rq_jobs(client: Any) -> str:
    client.sadd("rq:queues", "rq:queue:big")
    for n, field in enumerate(("data", "description", "exc_info", "worker_name")):
        client.hset(f"rq:job:{n}", mapping={"description": "f(1)", "data": "x", field: HUGE})
        client.zadd("rq:failed:big", {n: 1 + n})
        client.rpush("rq:queue:big", n)
    client.xadd("rq:results:0", {"exc_string": HUGE})
    return "rq:big"


def bullmq_jobs(client: Any) -> str:
    client.hset("bull:big:meta", "version", "bullmq:6.7.0")
    for n, field in enumerate(("data", "opts", "stacktrace", "failedReason", "parentKey")):
        client.hset(f"bull:big:{n}", mapping={"name": "n", "data": "{}", field: HUGE})
        client.zadd("bull:big:failed", {n: 1 + n})
        client.lpush("bull:big:wait", n)
    return "bullmq:big"


def dramatiq_jobs(client: Any) -> str:
    message = {"actor_name": "a", "args": [HUGE], "options": {}, "message_timestamp": 1}
    for key in ("dramatiq:big", "dramatiq:big.XQ"):
        client.hset(f"{key}.msgs", "m", json.dumps(message))
    client.rpush("dramatiq:big", "m")
    client.zadd("dramatiq:big.XQ", {"m": 1})
    client.zadd("dramatiq:__heartbeats__", {"b": 1})
    return "dramatiq:big"


def asynq_jobs(client: Any) -> str:
    client.sadd("asynq:queues", "big")
    msg = encoded((1, b"big"), (2, HUGE.encode()))
    for id, state in (("w", "pending"), ("d", "archived")):
        client.hset(f"asynq:{{big}}:t:{id}", mapping={"msg": msg, "state": state})
    client.lpush("asynq:{big}:pending", "w")
    client.zadd("asynq:{big}:archived", {"d": 1})
    client.zadd("asynq:servers", {"asynq:servers:{box:1:a}": 1})
    client.hset("asynq:workers:{box:1:a}", "w", encoded((4, b"w"), (6, HUGE.encode())))
    return "asynq:big"


def arq_jobs(client: Any) -> str:
    job = {"t": 1, "f": "big", "a": [HUGE], "k": {}, "et": 1, "q": "arq:queue", "s": False}
    client.zadd("arq:queue", {"m": 1})
    client.mset({"arq:job:m": json.dumps(job), "arq:result:d": json.dumps(job)})
    return "arq:arq:queue"


def celery_jobs(client: Any) -> str:
    client.rpush("celery", json.dumps({"body": HUGE, "headers": {"id": "m"}, "properties": {}}))
    client.sadd("_kombu.binding.celery", "celery\x06\x16\x06\x16celery")
    client.set("celery-task-meta-d", json.dumps({"status": "FAILURE", "result": HUGE}))
    return "celery:celery"


def sidekiq_jobs(client: Any) -> str:
    record = json.dumps({"class": "Big", "args": [HUGE], "queue": "default", "jid": "0" * 24})
    client.sadd("queues", "default")
    client.lpush("queue:default", record)
    client.zadd("dead", {record: 1})
    return "sidekiq"


def resque_jobs(client: Any) -> str:
    job = {"class": "Big", "args": [HUGE]}
    client.sadd("resque:queues", "default")
    client.rpush("resque:queue:default", json.dumps(job))
    client.rpush("resque:failed", json.dumps({"payload": job, "queue": "default"}))
    return "resque"


def laravel_jobs(client: Any) -> str:
    job = json.dumps({"uuid": "u", "job": "Big", "data": HUGE})
    client.rpush("laravel_database_queues:big", job)
    failed = {"status": "failed", "queue": "big", "payload": job, "exception": HUGE}
    client.hset("laravel_horizon:u", mapping=failed)
    client.zadd("laravel_horizon:failed_jobs", {"u": -1})
    return "laravel:big"


def stream_entries(client: Any) -> str:
    client.xadd("events", {"data": HUGE})
    client.xadd("events", {"data": HUGE})
    client.xgroup_create("events", "g", "0")
    client.xreadgroup("g", "w", {"events": ">"}, count=1)
    return "stream:events"


FILLED = [
    rq_jobs,
    bullmq_jobs,
    dramatiq_jobs,
    arq_jobs,
    asynq_jobs,
    celery_jobs,
    sidekiq_jobs,
    resque_jobs,
    laravel_jobs,
    stream_entries,
]
LOOKS = (
    "ls",
    "discover",
    "inspect Q",
    "waiting ls Q",
    "pending ls Q",
    "dlq ls Q",
    "dlq groups Q",
    "select Q --by task",
    "explain Q",
    "fsck Q",
    "check",
    "doctor",
    "metrics --once",
    "workers ls",
    "workers ls Q",
    "export Q",
    "purge Q --state waiting --dry-run",
)


@pytest.mark.alike
@pytest.mark.parametrize("fill", FILLED)
def test_no_look_reads_a_huge_record(
    client: redis.Redis, redisq: Redisq, fill: Callable[[Any], str]
) -> None:
    name = fill(client)
    redisq("discover", "--register", "--yes")
    for look in LOOKS:
        words = look.replace("Q", name).split()
        said, sent = looked(client, partial(redisq, *words, code=None))
        assert sent < 1_000_000, look
        if words[0] == "export":
            assert (redisq.code == 3 and " MiB" in said + redisq.err) or "too long" in redisq.err
        if words[0] == "waiting":
            assert "not read" in said + redisq.err or "too long" in redisq.err


def test_a_change_leaves_alone_what_it_may_exclude(client: redis.Redis, redisq: Redisq) -> None:
    """A `not` holds for what was not read, so that it proves nothing there."""
    client.hset("bull:big:meta", "version", "bullmq:6.7.0")
    for id, data in (("huge", json.dumps({"test": HUGE})), ("test", '{"test":true}'), ("x", "{}")):
        client.hset(f"bull:big:{id}", mapping={"name": "n", "data": data, "timestamp": 1})
        client.lpush("bull:big:wait", id)
    where = ("purge", "bullmq:big", "--state", "waiting", "--where")
    for excluding in ("-arg.test=true", "-payload~true", "-(arg.test=true task=n)", "-error~x"):
        said = redisq(*where, excluding, "--dry-run") + redisq.err
        assert "1 entry may match what is excluded" in said and "(huge)" in said, excluding
    (outcome,) = redisq.rows(*where, "-arg.test=true", "--yes", code=3)
    assert (outcome["done"], outcome["skipped"]) == (1, {"partly": 1})
    assert client.lrange("bull:big:wait", 0, -1) == [b"test", b"huge"]
    (plan,) = redisq.rows(*where, "task=n", "--dry-run")
    assert plan["matched"] == 2
    (plan,) = redisq.rows(*where, "-task=m", "--dry-run")
    assert plan["matched"] == 2


SMALL = 150


def one_of_sidekiq(client: Any) -> None:
    job = {"class": "Mail", "queue": "default", "error_class": "E", "error_message": "m"}
    for n in range(SMALL):
        args = ["x" * 1_000_000] if n == SMALL - 30 else []
        record = json.dumps(job | {"args": args, "jid": f"{n:024x}"})
        client.rpush("queue:default", record)
        client.zadd("dead", {record: n})
    client.sadd("queues", "default")


def one_of_resque(client: Any) -> None:
    for n in range(SMALL):
        job = {"class": "Mail", "args": ["x" * 1_000_000 if n == SMALL - 30 else n]}
        client.rpush("resque:queue:default", json.dumps(job))
        client.rpush("resque:failed", json.dumps({"payload": job, "queue": "default"}))
    client.sadd("resque:queues", "default")


def one_of_celery(client: Any) -> None:
    for n in range(SMALL):
        body = "x" * 1_000_000 if n == SMALL - 30 else "x"
        properties = {"delivery_info": {"routing_key": "celery", "exchange": ""}}
        task = {"body": body, "headers": {"id": f"{n}", "task": "t"}, "properties": properties}
        client.rpush("celery", json.dumps(task))
        client.hset("unacked", f"{n}", json.dumps([task, "", "celery"]))
    client.sadd("_kombu.binding.celery", "celery\x06\x16\x06\x16celery")


@pytest.mark.parametrize(
    ("name", "fill", "state"),
    [
        ("sidekiq:default", one_of_sidekiq, "waiting"),
        ("sidekiq:default", one_of_sidekiq, "dead"),
        ("sidekiq", one_of_sidekiq, "dead"),
        ("resque:default", one_of_resque, "waiting"),
        ("resque", one_of_resque, "dead"),
        ("celery:celery", one_of_celery, "waiting"),
        ("celery:celery", one_of_celery, "pending"),
    ],
)
def test_one_huge_element_among_small_ones_is_named_and_not_parsed(
    client: redis.Redis,
    redisq: Redisq,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    fill: Callable[[Any], None],
    state: State,
) -> None:
    monkeypatch.setattr("redisq_ops.core.foreign.placed_pages.LARGEST", 500_000)
    fill(client)
    queue, found, cursor, first = run(client, Deployment(client).queue(name)), [], None, True
    while first or cursor:
        page = queue.page(state, cursor, 100)
        found += page.entries
        cursor, first = page.cursor, False
    (unread,) = (entry for entry in found if entry.problem)
    assert len(found) == SMALL and unread.unread and unread.payload is None
    shared = state in ("dead", "pending") and ":" in name
    assert unread.problem == "not read in a list: 1.0 MiB" + "; its queue is unknown" * shared
    assert not shared or queue.counts().of(state) is None
    with pytest.raises(WrongKind, match=r"an element of key .* is not read"):
        queue.get("nobody")
    assert queue.get(found[0].id) is not None
    redisq("discover", "--register", "--yes")
    redisq("export", name, code=3)
    if state == "waiting":
        redisq("purge", name, "--state", state, "--yes", code=3)
        assert queue.counts().waiting == 1


def one_of_a_stream(client: Any) -> None:
    for n in range(SMALL):
        client.xadd("events", {"data": "x" * 1_000_000 if n == SMALL - 30 else "x"})


@pytest.mark.parametrize(
    ("name", "fill", "state", "times"),
    [
        ("sidekiq:default", one_of_sidekiq, "waiting", 1),
        ("sidekiq", one_of_sidekiq, "dead", 1),
        ("resque:default", one_of_resque, "waiting", 1),
        ("resque", one_of_resque, "dead", 1),
        ("celery:celery", one_of_celery, "waiting", 1),
        ("celery:celery", one_of_celery, "pending", 3),
        ("stream:events", one_of_a_stream, "waiting", 1),
    ],
)
def test_a_huge_element_is_sent_once_and_kept_nowhere(
    client: redis.Redis,
    url: str,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    fill: Callable[[Any], None],
    state: State,
    times: int,
) -> None:
    """A scan sends a small hash as a whole, again for each page of it."""
    for module in (
        "core.foreign.placed_pages",
        "core.redis.cut_replies",
        "core.foreign.streams.groups",
    ):
        monkeypatch.setattr(f"redisq_ops.{module}.LARGEST", 500_000)
    fill(client)
    with connect(url) as looking:
        queue = run(looking, Deployment(looking).queue(name))
        found: list[Any] = []

        def pages() -> None:
            cursor, first = None, True
            while first or cursor:
                page = queue.page(state, cursor, 50)
                found.extend(page.entries)
                cursor, first = page.cursor, False

        tracemalloc.start()
        _, sent = looked(client, pages)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert len(found) == SMALL and sent < times * 1_000_000 + 400_000
        assert peak < 800_000  # less than the element
        (unread,) = (entry for entry in found if entry.problem)
        assert "1.0 MiB" in unread.problem and unread.payload is None


def test_what_needs_whole_replies_gets_them_beside_cut_ones(
    client: redis.Redis, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("redisq_ops.core.redis.cut_replies.LARGEST", 100_000)
    long, short = b"\r\n$9\r\n" * 40_000, b"*2\r\n$9\r\n"
    client.rpush("l", short, long, short, b"")
    client.set("s", long)

    def calls() -> list[Call[Any]]:
        everything = ("LRANGE", "l", 0, -1)
        return [
            Call(("LLEN", "l"), int, key="l"),
            Call(everything, list, key="l", cut=True),
            Call(("GET", "s"), bytes, key="s"),
            Call(("LINDEX", "l", 9), lambda r: r, cut=True),
            Call(everything, list, key="l"),
        ]

    async def awaited() -> Any:
        async with aconnect(url) as there:
            return await arun(there, together(calls()))

    with connect(url) as looking:
        for size, listed, got, none, whole in (
            run(looking, together(calls())),
            asyncio.run(awaited()),
        ):
            assert size == 4 and got == long and none is None
            assert whole == [short, long, short, b""] and listed[::2] == whole[::2]
            assert len(listed[1]) < 2000 and listed[1].startswith(long[:1000])
            assert cut_element.length(listed[1]) == len(long) and listed[3] == b""
            assert cut_element.digest(listed[1]) == cut_element.digest(long)


@pytest.mark.alike
def test_a_page_reads_a_bounded_number_of_bytes(
    client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Five records of 5 MB with room for eight: every page has at most one, and none is lost."""
    for module in ("places", "paging"):
        monkeypatch.setattr(f"redisq_ops.core.foreign.{module}.PAGE_BYTES", 8_000_000)
    client.sadd("rq:queues", "rq:queue:big")
    for n in range(5):
        client.hset(f"rq:job:{n}", mapping={"description": LARGE, "data": "x"})
        client.rpush("rq:queue:big", n)
    queue, seen, cursor, first = RqQueue(client, "rq:big"), list[str](), None, True
    while first or cursor:
        page, sent = looked(client, partial(queue.page, "waiting", cursor, 100, payloads=True))
        assert sent < 9_000_000
        seen += [entry.id for entry in page.entries]
        cursor, first = page.cursor, False
    assert seen == ["0", "1", "2", "3", "4"]

"""Something huge in one key, of whichever kind of queue: looks keep little of it, and say so."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, get_args

import pytest
import redis

from redisq_ops.core.model.entry import STATES
from redisq_ops.core.model.errors import CORRUPT, RedisqError
from redisq_ops.core.redis import cut_replies
from redisq_ops.core.redis.client import connect
from redisq_ops.core.redis.operation import run
from redisq_ops.ops.deployment import Deployment
from redisq_ops.ops.explain.explanation import explain
from redisq_ops.ops.filter.filter import Filter
from redisq_ops.ops.filter.selection import select
from redisq_ops.ops.groups.error_groups import ErrorGroup, Grouping
from redisq_ops.ops.inspect.overview import overview
from redisq_ops.ops.inspect.snapshot import View, Viewport
from redisq_ops.ops.inspect.snapshot_reader import fetch

from ..command_line import Redisq
from .test_conformance import SPECIMENS

pytestmark = pytest.mark.slow

Client = Any
LARGEST, HUGE = 50_000, b"x" * 400_000

OWN_BOOKS = re.compile(
    rb"(redisq:\{[^}]*\}|.*redisq:(resque|sidekiq):low)"
    rb":(accounts|callers|cfg|clients|open|p:\d+|r:[^:]*|rate:\d+)"
)
"""keys that our scripts alone write, and keep short: settings, counters, names; read whole"""


class Counted:
    """hiredis's reader, and the bytes that were passed to it: these are in memory at once."""

    bytes = 0

    def __init__(self, reader: Any) -> None:
        self._reader = reader

    def __getattr__(self, name: str) -> Any:
        return getattr(self._reader, name)

    def feed(self, data: Any, start: int = 0, size: int = -1) -> None:
        size = size if size >= 0 else len(data) - start
        Counted.bytes += size
        self._reader.feed(data, start, size)


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, module in [*sys.modules.items()]:
        if name.startswith("redisq_ops.core") and getattr(module, "LARGEST", None) == 1 << 24:
            monkeypatch.setattr(module, "LARGEST", LARGEST)
    made = cut_replies.CuttingReader.__init__

    def counted(self: Any, reader: Any) -> None:
        made(self, Counted(reader))

    monkeypatch.setattr(cut_replies.CuttingReader, "__init__", counted)


def inflate(client: Client, key: bytes) -> None:
    """Make one element of a key huge, as another program might."""
    type_ = client.type(key)
    if type_ == b"hash":
        field = min(client.hkeys(key))
        client.hset(key, field, client.hget(key, field) + HUGE)
    elif type_ == b"list":
        client.lset(key, 0, client.lindex(key, 0) + HUGE)
    elif type_ == b"zset":
        ((member, score),) = client.zrange(key, 0, 0, withscores=True)
        client.zadd(key, {member + HUGE: score})
    elif type_ == b"set":
        client.sadd(key, HUGE)
    elif type_ == b"stream":
        (_, fields), *_ = client.xrange(key, count=1)
        client.xadd(key, {name: value + HUGE for name, value in fields.items()})
    else:
        client.append(key, HUGE)


def looks(client: Client, queue: Any) -> Iterator[tuple[str, Callable[[], Any]]]:
    deployment = Deployment(client)
    for state in STATES:
        yield state, partial(queue.page, state, payloads=True)
        yield state, partial(queue.page, state, glance=True)
        yield f"select {state}", partial(run, client, select(queue, state, Filter()))
    yield "groups", partial(grouped, client, queue)
    yield "history", queue.history
    yield "fsck", partial(queue.checkup, thorough=True)
    yield "ls", partial(run, client, overview(deployment))
    yield "explain", partial(run, client, explain(queue, None))
    for view in get_args(View):
        shown = Viewport(view, queue.name)
        yield f"view {view}", partial(run, client, fetch(deployment, shown))


def grouped(client: Client, queue: Any) -> list[ErrorGroup]:
    grouping = Grouping(queue, "dead", Filter(), 0)
    while not grouping.over:
        run(client, grouping.step())
    return grouping.groups.ranked()


@pytest.mark.alike
@pytest.mark.parametrize("name", SPECIMENS)
def test_no_look_keeps_a_huge_element(client: redis.Redis, url: str, name: str) -> None:
    name = SPECIMENS[name](client).name
    there: Client = client
    stored = {key: (there.dump(key), max(0, there.pttl(key))) for key in there.scan_iter()}
    wrong: list[tuple[object, ...]] = []
    for key in stored:
        if key == b"redisq:registry":
            continue
        limit = 3_000_000 if OWN_BOOKS.fullmatch(key) else 200_000
        inflate(client, key)
        with connect(url) as looking:
            queue = run(looking, Deployment(looking).queue(name))
            for what, look in looks(looking, queue):
                Counted.bytes = 0
                try:
                    found = look()
                except (RedisqError, *CORRUPT) as error:
                    found = error
                if Counted.bytes > limit:
                    wrong.append((key, what, Counted.bytes))
                if "cut by redisq" in repr(found) and not isinstance(found, CORRUPT):
                    wrong.append((key, what, "shows what stands for a cut element"))
        there.restore(key, stored[key][1], stored[key][0], replace=True)
    assert not wrong, "\n" + "\n".join(map(str, wrong))


OWN = ("request", "delay", "fair", "circular", "carmine")


def payload_of(client: Client, name: str) -> None:
    """Make payloads huge."""
    if name == "request":
        client.hset("redisq:{mail}:edited", "r/1", HUGE)
    for body in client.scan_iter("redisq:*:body"):
        for field, value in client.hgetall(body).items():
            client.hset(body, field, value + HUGE)


@pytest.mark.parametrize("name", OWN)
def test_a_huge_payload_and_error_of_ours_are_named(
    client: redis.Redis, redisq: Redisq, name: str
) -> None:
    queue = SPECIMENS[name](client)
    there: Client = client
    dead = queue.page("dead").entries
    (errors,) = there.scan_iter("redisq:*:err") or [None]
    there.hset(errors, dead[-1].id, HUGE)
    said = redisq("dlq", "ls", queue.name, code=3)
    assert dead[0].id in said and "read without what is too long" in redisq.err
    row = redisq.rows("inspect", f"{queue.name}/{dead[-1].id}")[0]
    assert row["error"] is None and row["state"] == "dead"
    payload_of(there, name)
    redisq("export", queue.name, code=3)
    assert "too long to be read" in redisq.err and len(redisq.err) < 2000
    redisq("dlq", "ls", queue.name, "--json", code=3)
    one = redisq.rows("inspect", f"{queue.name}/{dead[0].id}")[0]
    assert one["problem"] == "not read: 0.4 MiB" and one["payload"] is None
    redisq("fsck", queue.name, code=None)
    assert redisq.code in (0, 3) and len(redisq.err) < 2000


@pytest.mark.alike
def test_a_pending_entry_of_a_stream_is_named(client: redis.Redis, redisq: Redisq) -> None:
    there: Client = client
    for payload in (b"x", HUGE, b"x"):
        there.xadd("events", {"data": payload})
    there.xgroup_create("events", "g", "0")
    there.xreadgroup("g", "w", {"events": ">"})
    redisq("discover", "--register", "--yes")
    for more in ((), ("--json",)):
        redisq("pending", "ls", "stream:events", *more, code=3)
        assert "too long to be read" in redisq.err


def test_a_line_of_an_import_has_a_bound(
    redisq: Redisq, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("redisq_ops.ops.files.import_check.LONGEST", 1 << 20)
    file = tmp_path / "long.jsonl"
    file.write_bytes(b"x" * (1 << 21))
    assert "long.jsonl, line 1: longer than 1 MiB" in redisq.refusal(
        "import", str(file), "--yes", code=2
    )

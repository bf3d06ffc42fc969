"""The Carmine queue over several shards: names, guarding, and changing their number under load."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Coroutine
from pathlib import Path
from random import Random
from typing import Any

import pytest
import redis
from redis.crc import key_slot

from redisq_ops.core.engine.registry import Registered
from redisq_ops.core.model.clock import FakeClock
from redisq_ops.core.model.errors import BadInput, Refused, WrongKind
from redisq_ops.core.model.keys import registry_key
from redisq_ops.core.queues.carmine import CarmineLayout, CarmineQueue, ShardedCarmineQueue
from redisq_ops.core.queues.carmine.keys import CarmineKeys, shard_of
from redisq_ops.core.redis.client import connect
from redisq_ops.core.redis.operation import BlockingClient, run, together
from redisq_ops.core.redis.transport import exchange
from redisq_ops.core.sharding.shard_map import home
from redisq_ops.core.worker import Worker
from redisq_ops.ops.change.audit_log import Author
from redisq_ops.ops.change.destroy import DestroySteps
from redisq_ops.ops.change.runner import ChangeRun, take_all
from redisq_ops.ops.deployment import Deployment

from ...command_line import Redisq
from ...conftest import Clusters
from ...model.wire import picture
from ...queue_steps import ack_all, settle
from ...queue_steps import take_all as take
from ..queues import carmine_reader

Queue = ShardedCarmineQueue[BlockingClient]
Opener = Callable[..., Queue]
NAME = "carmine:q"


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def opened(client: redis.Redis, clock: FakeClock) -> Opener:
    """Opens the queue as another process would."""
    return lambda shards=12, seed=1: ShardedCarmineQueue(
        client, NAME, shards=shards, clock=clock, random=Random(seed)
    )


@pytest.fixture
def queue(opened: Opener) -> Queue:
    return opened()


def ids(n: int) -> list[str]:
    return [f"id-{i}" for i in range(n)]


def put(queue: CarmineQueue[Any], names: list[str], **how: Any) -> list[str]:
    return [one.word for one in queue.enqueue([(name, name.encode()) for name in names], **how)]


def words(client: redis.Redis, shards: int, now_ms: int) -> dict[str, str]:
    """What a Carmine client reads of all messages, in queues by themselves."""
    found: dict[str, str] = {}
    for k in range(shards):
        raw = carmine_reader.read(client, f"q/{k}" if k else "q")
        said = {id: word for id, word in carmine_reader.states(raw, now_ms).items() if word != "nx"}
        assert not set(said) & set(found), "in two shards"
        found |= said
    return found


def stock(client: redis.Redis, own: str) -> None:
    """What Carmine itself leaves of a queue."""
    client.hset(f"carmine:mq:{own}:messages", "theirs", b"NPY")
    client.lpush(f"carmine:mq:{own}:mid-circle", "end-of-circle", "theirs")


# --- names ---------------------------------------------------------------------------------------


def test_each_shard_is_a_queue_of_carmines(queue: Queue, client: redis.Redis) -> None:
    assert put(queue, ids(300)) == ["ok"] * 300
    for k, keys in enumerate(queue.shard_keys):
        own = f"q/{k}" if k else "q"
        here = {name for name in ids(300) if home(name, 12) == k}
        assert len(here) > 8
        kept: list[Any] = client.hkeys(f"carmine:mq:{own}:messages")
        assert {id.decode() for id in kept} == here
        assert client.llen(f"carmine:mq:{own}:mid-circle") == len(here) + 1
        assert keys["lease"] == (
            f"redisq:{{carmine:q/{k}}}:lease" if k else "redisq:{carmine:q}:lease"
        )
    assert words(client, 12, queue.now()) == dict.fromkeys(ids(300), "queued")


@pytest.mark.parametrize("own", ["{mail}", "a{mail}b", "{mail/x}"])
def test_on_a_cluster_each_shard_has_a_slot_of_its_own(own: str) -> None:
    name = "carmine:" + own.replace("{", "%7B").replace("}", "%7D").replace("/", "%2F")
    slots = set()
    for k in range(12):
        keys = CarmineKeys(name, shard=k)
        assert keys["messages"] == f"carmine:mq:{keys.own}:messages"
        (slot,) = {key_slot(keys[part].encode()) for part in ("messages", "lease", "undo_")}
        slots.add(slot)
        assert shard_of(keys.own) == ((own, k) if k else None)
    assert len(slots) == 12
    assert CarmineKeys("carmine:%7Bmail%7D", shard=3)["messages"] == "carmine:mq:{mail/3}:messages"


@pytest.mark.parametrize("own", ["mail", "mail/0", "mail/x", "{/3}", "{mail}/3", "mail/03", "/3"])
def test_what_is_no_name_of_a_shard(own: str) -> None:
    assert shard_of(own) in (None, ("{mail}", 3)) and (shard_of(own) is None or "}" not in own)


def test_the_registry_says_how_many_there_are(
    queue: Queue, opened: Opener, client: redis.Redis, clock: FakeClock
) -> None:
    put(queue, ids(50))
    assert put(opened(3), ids(50)) == ["queued"] * 50
    assert opened(5).counts().waiting == 50
    with pytest.raises(WrongKind, match="has shards"):
        put(CarmineQueue(client, NAME, clock=clock), ["x"])
    assert isinstance(run(client, Deployment(client).queue(NAME)), ShardedCarmineQueue)
    ran: list[str] = []
    found: Any = run(client, Deployment(client).queue(NAME))
    Worker(found, lambda work: ran.append(work.id), burst=True, batch=10).run()
    assert sorted(ran) == sorted(ids(50))


# --- what has the keys already -------------------------------------------------------------------


def test_carmines_own_queue_in_the_way_of_a_shard_is_left_alone(
    opened: Opener, client: redis.Redis
) -> None:
    stock(client, "q/2")
    before = picture(client)
    with pytest.raises(WrongKind, match="shard that Carmine calls q/2: that is a queue by itself"):
        put(opened(3), ["e"])
    assert take(opened(3)) == []
    assert picture(client) == before
    assert put(opened(2), ids(20)) == ["ok"] * 20
    before = picture(client)
    with pytest.raises(WrongKind, match="calls q/2"):
        opened().resize(5)
    assert picture(client) == before
    assert opened().resize(1) == 0
    assert client.hgetall("carmine:mq:q/2:messages") == {b"theirs": b"NPY"}


def test_a_queue_that_carmine_keeps_gets_no_shards(opened: Opener, client: redis.Redis) -> None:
    stock(client, "q")
    known = Registered(NAME, "carmine", 1, 0, at="carmine:mq:")
    for noted in (False, True):
        if noted:
            client.hset(registry_key(), NAME, known.encoded())
        before = picture(client)
        with pytest.raises(WrongKind, match="kept by Carmine itself"):
            put(opened(3), ["e"])
        with pytest.raises(Refused):
            opened().resize(3)
        assert picture(client) == before


def test_a_shard_and_a_queue_of_ours_have_never_the_same_keys(
    opened: Opener, client: redis.Redis
) -> None:
    put(opened(3), ["e"])
    before = picture(client)
    with pytest.raises(WrongKind, match="the keys of a shard of queue carmine:q"):
        put(CarmineQueue(client, "carmine:q%2F2"), ["e"])
    assert picture(client) == before
    assert put(CarmineQueue(client, "carmine:q%2F3"), ["e"]) == ["ok"]
    client.delete("carmine:mq:q/3:messages", "carmine:mq:q/3:mid-circle")  # known, if empty
    with pytest.raises(WrongKind, match="calls q/3"):
        opened().resize(4)


def test_discover_shows_no_shard_as_carmines(
    url: str, opened: Opener, client: redis.Redis, capsys: pytest.CaptureFixture[str]
) -> None:
    redisq = Redisq(url, capsys)
    put(opened(3), ids(30))
    stock(client, "q/3")
    assert [row["name"] for row in redisq.rows("discover")] == ["carmine:q%2F3"]
    assert isinstance(run(client, Deployment(client).queue("carmine:q%2F3")), CarmineLayout)
    assert "no queue" in redisq.refusal("inspect", "queue", "carmine:q%2F2", code=1)
    assert [row["waiting"] for row in redisq.rows("ls")] == [30]


def test_destroyed_nothing_is_left_but_what_is_carmines(
    opened: Opener, client: redis.Redis
) -> None:
    put(opened(5), ids(60))
    assert opened().resize(2) == 0
    stock(client, "q/4")  # a name that was a shard's once
    theirs = {k: v for k, v in picture(client).items() if k.startswith(b"carmine:mq:q/4:")}
    run(client, take_all(ChangeRun(DestroySteps(opened(), hard=True), Author("ada", "desk"))))
    left = {k: v for k, v in picture(client).items() if b":rate:" not in k}
    assert left == theirs
    with pytest.raises(WrongKind, match="calls q/4"):
        put(opened(5), ["e"])
    assert put(opened(2), ids(9)) == ["ok"] * 9


# --- the guard -----------------------------------------------------------------------------------


def test_who_does_not_know_the_number_can_not_put_an_id_in_twice(
    opened: Opener, client: redis.Redis, clock: FakeClock
) -> None:
    plain = CarmineQueue(client, NAME, clock=clock)
    put(plain, ids(10))
    stale = opened()
    stale.counts()
    assert opened().resize(4) == 0
    with pytest.raises(Refused, match="has shards now"):
        put(plain, ["new"])
    assert put(stale, ids(20)) == ["queued"] * 10 + ["ok"] * 10
    assert opened().resize(1) == 0
    assert put(CarmineQueue(client, NAME, clock=clock), ids(21)) == ["queued"] * 20 + ["ok"]
    assert sorted(ack_all(opened())) == sorted(ids(21))


# --- changing their number -----------------------------------------------------------------------


def test_what_goes_back_into_sight_behind_the_mover_is_not_left_there(
    opened: Opener, client: redis.Redis, clock: FakeClock
) -> None:
    """A mover looks through what is in sight, then through what isn't; replayed in between, a dead
    letter is met in neither."""
    queue = opened(2)
    name = next(id for id in ids(99) if home(id, 2) == 1)
    put(queue, [name])
    settle(queue, "reject", *take(queue))
    work = opened().resize.op(1)
    assert isinstance(work, Coroutine)
    roll = CarmineQueue(None, NAME)._script("list_ids").sha
    calls, left = work.send(None), None
    keys = queue.shard_keys[1]
    try:
        while left is None:
            first = calls[0].command
            if roll in first and keys["body"] in first and "b0" in first:
                said = opened().move(
                    "op", 1, [name], source="dead", target="waiting", high_water_ms=clock.now_ms
                )
                assert said == ["moved"]
            calls = work.send(exchange(client, calls))
    except StopIteration as stop:
        left = stop.value
    assert left == 1, "it says that it is over, and one is where nobody looks any more"
    assert opened().resize(1) == 0
    assert ack_all(opened()) == [name]


# --- past one server -----------------------------------------------------------------------------


@pytest.mark.slow
def test_on_a_cluster_shards_are_on_all_nodes(
    clusters: Clusters, clock: FakeClock, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    nodes = clusters("valkey")
    url = nodes.urls[0].replace("redis:", "redis+cluster:")
    client = connect(url)
    with pytest.raises(BadInput, match=r"call it carmine:%7Bmail%7D$"):
        ShardedCarmineQueue(client, "carmine:mail").enqueue([("e", b"")])
    name = "carmine:%7Bmail%7D"
    queue: Queue = ShardedCarmineQueue(client, name, clock=clock)
    put(queue, ids(120))
    spread = []
    for node_url in nodes.urls:
        with redis.Redis.from_url(node_url) as node:
            spread.append(sum(b":messages" in key for key in node.scan_iter()))
    assert sum(spread) == 12 and all(spread)
    settle(queue, "ack", *take(queue, 20), delay=60_000)
    settle(queue, "reject", *take(queue, 10))
    queue.configure("set", 1, {"max_failures": "7"})
    assert queue.resize(5) == 0
    assert queue.resize(9) == 0
    settings = together(part.settings.op() for part in queue.shard_queues)
    assert {said["max_failures"] for said in run(client, settings)} == {"7"}
    counts = queue.counts()
    assert (counts.waiting, counts.dead, counts.done) == (90, 10, 20)
    assert Counter(put(queue, ids(120))) == {"queued": 90, "dead": 10, "done-with-backoff": 20}
    redisq = Redisq(url, capsys)
    assert redisq.rows("discover") == []
    assert [row["name"] for row in redisq.rows("ls")] == [name]
    assert len(ack_all(queue)) == 90
    assert queue.invariants() == []
    client.close()

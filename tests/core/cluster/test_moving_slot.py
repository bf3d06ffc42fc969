"""A slot on its way from one node to another: some of its keys are here, the others there."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any

import pytest
import redis
import redis.asyncio as aredis

from redisq_ops.core.model.entry import Settlement
from redisq_ops.core.model.errors import Unreachable
from redisq_ops.core.queues.delay import DelaySet, ShardedDelaySet
from redisq_ops.core.redis.client import aconnect, connect
from redisq_ops.core.redis.operation import Call, Description, apart, arun, run, together
from redisq_ops.demo.server import HOST, EmbeddedCluster, EmbeddedServer, cluster

from ...command_line import Redisq
from ..worker.test_worker import until
from .test_failover import _owns, turned_away

pytestmark = pytest.mark.slow

IDS = [f"e{n}" for n in range(8)]


def command(node: EmbeddedServer, *words: str | int) -> Any:
    with redis.Redis.from_url(node.url, decode_responses=True) as link:
        return link.execute_command(*words)


@dataclass(frozen=True)
class Way:
    """A slot's, from a node to another."""

    slot: int
    source: EmbeddedServer
    to: EmbeddedServer

    def begin(self) -> None:
        """Every second key goes, and the others stay for now."""
        own, other = (command(node, "CLUSTER", "MYID") for node in (self.source, self.to))
        command(self.to, "CLUSTER", "SETSLOT", self.slot, "IMPORTING", own)
        command(self.source, "CLUSTER", "SETSLOT", self.slot, "MIGRATING", other)
        keys = sorted(command(self.source, "CLUSTER", "GETKEYSINSLOT", self.slot, 1000))
        self.move(keys[::2])

    def end(self) -> None:
        self.move(command(self.source, "CLUSTER", "GETKEYSINSLOT", self.slot, 1000))
        there = command(self.to, "CLUSTER", "MYID")
        for node in (self.to, self.source):
            command(node, "CLUSTER", "SETSLOT", self.slot, "NODE", there)

    def move(self, keys: list[str]) -> None:
        command(self.source, "MIGRATE", HOST, self.to.port, "", 0, 5_000, "KEYS", *keys)


@dataclass(frozen=True)
class There:
    """A delay set on a Cluster, what was seen of it before its slot began to move, and the way."""

    nodes: EmbeddedCluster
    queue: DelaySet[Any]
    before: list[Any]
    way: Way

    @property
    def url(self) -> str:
        return self.nodes.urls[0].replace("redis://", "redis+cluster://")


def way_of(nodes: EmbeddedCluster, key: str) -> Way:
    """From where a key is to another node."""
    slot = command(nodes.nodes[0], "CLUSTER", "KEYSLOT", key)
    at = next(
        n for n, node in enumerate(nodes.nodes) if _owns(node.command("CLUSTER", "NODES"), slot)
    )
    return Way(slot, nodes.nodes[at], nodes.nodes[at - 1])


@pytest.fixture
def nodes() -> Iterator[EmbeddedCluster]:
    with cluster() as three:
        yield three


@pytest.fixture
def there(nodes: EmbeddedCluster) -> Iterator[There]:
    client: Any = connect(nodes.urls[0].replace("redis://", "redis+cluster://"))
    queue = DelaySet(client, "later")
    queue.schedule([(id, b"x") for id in IDS], after=600)
    way = way_of(nodes, queue.keys["cfg"])
    with closing(client):
        yield There(nodes, queue, [run(client, look) for look in looks(queue)], way)
    assert turned_away(nodes.nodes) > 0


@pytest.fixture
def joined(there: There, nodes: EmbeddedCluster) -> Iterator[There]:
    """The same, to a node that came later and has no slot of its own."""
    with EmbeddedServer(args=("--cluster-enabled", "yes")) as new:
        new.command("CLUSTER", "SET-CONFIG-EPOCH", "9")
        new.command("CLUSTER", "MEET", HOST, str(nodes.nodes[0].port))

        def knows(node: EmbeddedServer) -> bool:
            told = node.command("CLUSTER", "INFO").split()
            return {"cluster_state:ok", "cluster_known_nodes:4"} <= {*told}

        until(lambda: all(map(knows, (*nodes.nodes, new))))
        yield replace(there, way=Way(there.way.slot, there.way.source, new))


def looks(queue: DelaySet[Any]) -> list[Description[Any]]:
    return [queue.page.op("delayed"), queue.counts.op(1), *map(queue.get.op, IDS)]


def gathered(queue: DelaySet[Any]) -> list[Description[list[Any]]]:
    """What `looks` sees, in pipelines and node by node."""
    return [together(looks(queue)), together(map(apart, looks(queue)))]


def seen(there: There) -> None:
    """A blocking client still sees everything."""
    with closing(connect(there.url)) as client:
        queue = DelaySet(client, "later")
        assert [run(client, look) for look in looks(queue)] == there.before
        assert [run(client, look) for look in gathered(queue)] == [there.before] * 2


async def aseen(there: There, client: Any) -> None:
    queue = DelaySet(client, "later")
    for _ in range(2):
        assert [await arun(client, look) for look in looks(queue)] == there.before
        assert [await arun(client, look) for look in gathered(queue)] == [there.before] * 2


async def open_to_each(client: Any, connections: int) -> None:
    await client.initialize()
    for node in client.get_nodes():
        await asyncio.gather(*(node.execute_command("PING") for _ in range(connections)))


@pytest.mark.parametrize("connections", [1, 2, 3, 4])
def test_keys_are_read_where_they_are(there: There, connections: int) -> None:
    """ASKING counts for one connection, and the client has several of them by turns."""

    async def awaited() -> None:
        async with aconnect(there.url) as client:
            await open_to_each(client, connections)
            there.way.begin()
            await aseen(there, client)
            there.way.end()
            await aseen(there, client)

    asyncio.run(awaited())
    seen(there)


def test_blocking_clients_read_them_too(there: There, capsys: pytest.CaptureFixture[str]) -> None:
    there.way.begin()
    seen(there)
    assert run(there.queue.client, together(looks(there.queue))) == there.before
    (row,) = Redisq(there.url, capsys).rows("ls")
    assert (row["name"], row["delayed"]) == ("later", len(IDS))


def test_a_look_at_many_queues_does_by_anybody_s_client(there: There) -> None:
    """Of its own accord redis-py would ask for each key twice, and with two connections in vain."""

    async def awaited() -> None:
        url = there.url.replace("+cluster", "")
        async with aredis.RedisCluster.from_url(url, protocol=3) as client:
            await open_to_each(client, 2)
            there.way.begin()
            queue = DelaySet(client, "later")
            apart_only = together(map(apart, looks(queue)))
            assert await arun(client, apart_only) == there.before

    asyncio.run(awaited())


def test_what_moved_is_asked_for_in_one_round(there: There) -> None:
    """Not key by key: a screen takes as many round trips as without."""
    keys = [f"{{later}}:{n}" for n in range(60)]
    client: Any = there.queue.client
    for key in keys:
        client.set(key, key)
    there.way.begin()
    round = together(apart(Call(("GET", key), bytes.decode, key=key)) for key in keys)
    sent: list[Any] = []
    client.execute_command = lambda *words, **_: sent.append(words)
    assert run(client, round) == keys and sent == []
    del client.execute_command

    async def awaited() -> None:
        async with aconnect(there.url) as other:
            await other.initialize()
            other.execute_command = client.execute_command  # type: ignore[method-assign]
            again = together(apart(Call(("GET", key), bytes.decode, key=key)) for key in keys)
            assert await arun(other, again) == keys

    client.execute_command = lambda *words, **_: sent.append(words)
    asyncio.run(awaited())
    assert sent == []


@pytest.mark.parametrize("moment", ["before", "while"])
def test_a_node_that_joined_for_the_slot_is_found(joined: There, moment: str) -> None:
    """Nobody tells of it while it has none: the first one's keys are already there."""

    async def awaited() -> None:
        async with aconnect(joined.url) as client:
            if moment == "before":
                await open_to_each(client, 2)
                joined.way.begin()
            await aseen(joined, client)

    if moment == "while":
        joined.way.begin()
        # A pipeline of a client that has met the others alone.
        assert run(joined.queue.client, together(looks(joined.queue))) == joined.before
    asyncio.run(awaited())
    seen(joined)


def test_shards_are_looked_through_too(there: There, capsys: pytest.CaptureFixture[str]) -> None:
    """The types of their keys, and whether all adds up: no call is about keys here and there."""
    many = ShardedDelaySet(there.queue.client, "many", shards=3)
    many.schedule([(id, b"x") for id in IDS], after=0)
    for one in many.take(4, consumer="w", lease=3600).deliveries:
        many.settle([Settlement(one, "reject", b"")])
    way = way_of(there.nodes, many._all_shards()[1].keys["cfg"])
    way.begin()
    there.way.begin()
    redisq = Redisq(there.url, capsys)
    for words in (("fsck",), ("inspect", "many"), ("inspect", "later")):
        redisq(*words)
    assert redisq("fsck") == "later: adds up\nmany: adds up\n"


def test_a_change_of_keys_here_and_there_is_tried_again_later(
    there: There, capsys: pytest.CaptureFixture[str]
) -> None:
    there.way.begin()
    said = "a slot is moving to another node: try again"
    redisq = Redisq(there.url, capsys)
    redisq("queue", "pause", "later", "--yes", code=4)
    assert redisq.err.endswith(f"\nredisq: {said}\n")

    async def awaited(change: Callable[[DelaySet[Any]], Any]) -> None:
        async with aconnect(there.url) as client:
            await change(DelaySet(client, "later"))

    with pytest.raises(Unreachable, match=f"^{said}$"):
        asyncio.run(awaited(lambda queue: queue.schedule([("new", b"x")])))
    there.way.end()
    asyncio.run(awaited(lambda queue: queue.schedule([("new", b"x")])))
    redisq("queue", "pause", "later", "--yes")
    assert there.queue.invariants() == []

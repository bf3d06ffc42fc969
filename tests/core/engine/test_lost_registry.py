"""A server that lost its data, or the registry alone: what is accepted later is found again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import redis

from redisq_ops.core.engine.queue_classes import queue_class, sharded_class
from redisq_ops.core.engine.queue_types import KINDS
from redisq_ops.core.engine.registry import Registered, all_queues, find
from redisq_ops.core.model.errors import WrongKind
from redisq_ops.core.model.keys import registry_key
from redisq_ops.core.redis.operation import run
from redisq_ops.core.worker.upkeep import TransferRecoverer, _upkeep_of
from redisq_ops.ops.change import audit_log
from redisq_ops.ops.deployment import Deployment
from redisq_ops.ops.doctor.examination import examine

from ...command_line import Redisq

Submit = Callable[[Any, str], object]
SUBMIT: dict[str, Submit] = {
    "request": lambda queue, id: queue.submit([b"payload"], id=id),
    "delay": lambda queue, id: queue.schedule([(id, b"payload")], after=0),
    "fair": lambda queue, id: queue.submit("client", [(id, b"payload")]),
    "circular": lambda queue, id: queue.push([(id, b"payload")]),
    "carmine": lambda queue, id: queue.enqueue([(id, b"payload")]),
}
NAMES = {kind: ["mail"] for kind in KINDS} | {
    "carmine": [
        "carmine:mail",
        "carmine:%7Bmail%7D",
        "carmine:a%7Bmail%7Db",
        "carmine:почта",
        "carmine:%7Bпочта%7D",
        "carmine:a%20b%25",
    ]
}


def opened(client: redis.Redis, kind: str, shards: int, name: str = "") -> Any:
    name = name or NAMES[kind][0]
    if shards > 1:
        return sharded_class(kind)(client, name, shards=shards)
    made = queue_class(kind)
    assert made is not None
    return made(client, name)


@pytest.fixture(params=[1, 3], ids=["one", "sharded"])
def shards(request: pytest.FixtureRequest) -> int:
    return int(request.param)


@pytest.mark.parametrize("kind", KINDS)
def test_a_producer_that_runs_on_registers_its_queue_again(
    client: redis.Redis, kind: str, shards: int
) -> None:
    producer, worker = opened(client, kind, shards), opened(client, kind, shards)
    SUBMIT[kind](producer, "before")
    worker.take(9, consumer="w")
    before = run(client, find(producer.name))
    assert before is not None

    client.flushall()
    for n in range(5):
        SUBMIT[kind](producer, f"after-{n}")

    again = run(client, find(producer.name))
    assert again is not None and (again.kind, again.shards) == (kind, before.shards)
    taken = [one.id for _ in range(9) for one in worker.take(9, consumer="w").deliveries]
    assert {id.partition("/")[0] for id in taken} == {f"after-{n}" for n in range(5)}


@pytest.mark.parametrize("kind", KINDS)
def test_an_entry_of_the_registry_alone_is_written_again_as_it_was(
    client: redis.Redis, kind: str, shards: int
) -> None:
    producer = opened(client, kind, shards)
    for n in range(5):
        SUBMIT[kind](producer, f"e{n}")
    before = run(client, find(producer.name))

    client.delete(registry_key())
    worker = opened(client, kind, 2 if shards > 1 else 1)  # the mark knows better
    assert worker.exists()
    assert worker.take(1, consumer="w").deliveries
    assert run(client, find(producer.name)) == before


def test_a_change_of_an_operator_registers_the_queue_again(client: redis.Redis) -> None:
    changes: dict[str, Callable[[Any], object]] = {
        "fair": lambda queue: queue.block("client"),
        "delay": lambda queue: queue.configure("op-1", 1, {"max_waiting": "7"}),
        "request": lambda queue: run(
            client,
            audit_log.begin(queue, "op-2", "pause", audit_log.Author("me", "here"), "", now_ms=1),
        ),
    }
    for kind, change in changes.items():
        queue = opened(client, kind, 1)
        SUBMIT[kind](queue, "before")
        client.flushall()
        change(queue)
        assert [entry.name for entry in run(client, all_queues())] == ["mail"]
        client.flushall()


def test_what_is_added_to_a_lost_entry_of_the_audit_log_makes_no_queue(client: redis.Redis) -> None:
    queue = opened(client, "fair", 1)
    SUBMIT["fair"](queue, "before")
    client.flushall()
    assert run(client, audit_log.note(queue, "op-1", ended=1)) == 0
    assert client.keys() == []


def test_a_queue_of_an_older_release_gets_its_mark(client: redis.Redis, shards: int) -> None:
    old = opened(client, "fair", shards)
    SUBMIT["fair"](old, "before")
    for keys in old.shard_keys:
        client.hdel(keys["cfg"], "registered")
    SUBMIT["fair"](old, "after")
    assert all(client.hexists(keys["cfg"], "registered") for keys in old.shard_keys)


def test_the_registry_and_a_queues_own_mark_must_agree(client: redis.Redis) -> None:
    SUBMIT["fair"](opened(client, "fair", 1), "e1")
    client.hset(registry_key(), "mail", Registered("mail", "request", 1, 1).encoded())
    with pytest.raises(WrongKind, match=r"a request queue, but its own keys say that it is a fair"):
        SUBMIT["request"](opened(client, "request", 1), "r1")


def test_a_resized_queue_comes_back_with_its_shards(client: redis.Redis) -> None:
    queue = opened(client, "fair", 3)
    run(client, queue._ensure_registered())
    assert queue.resize(5) == 0
    client.delete(registry_key())
    entry = run(client, opened(client, "fair", 3)._registry_entry(3))
    assert (entry.shards, entry.old_shards, entry.layout) == (5, 0, 1)


@pytest.mark.parametrize(("kind", "name"), [(kind, n) for kind in KINDS for n in NAMES[kind]])
def test_queues_that_the_registry_has_lost_are_found_and_registered(
    client: redis.Redis, redisq: Redisq, kind: str, name: str, shards: int
) -> None:
    queue = opened(client, kind, shards, name)
    for n in range(6):
        SUBMIT[kind](queue, f"e{n}")
    before = run(client, find(name))
    client.delete(registry_key())

    ((found, faults),) = [(row["queue"], row["faults"]) for row in redisq.rows("fsck", code=1)]
    assert found == name and "no entry in the registry" in faults[0]
    assert "discover --register" in faults[0]
    checks = run(client, examine(Deployment(client)))
    assert [one.facts["queue"] for one in checks if one.check == "registry"] == [name]
    assert len(redisq.rows("waiting", "ls", name)) == 6  # by its own keys
    redisq("discover", "--match", "carmine:*", "--register", "--yes")
    assert run(client, find(name)) is None  # it is never taken for another program's
    redisq("discover", "--register", "--yes")
    assert [run(client, find(name))] == [before] == run(client, all_queues())
    assert redisq.rows("fsck")[0]["faults"] == []


def test_a_tagged_name_with_a_number_is_a_shard_only_of_a_queue_with_so_many(
    client: redis.Redis, redisq: Redisq
) -> None:
    SUBMIT["carmine"](opened(client, "carmine", 1, "carmine:%7Bmail%2F3%7D"), "e1")
    client.delete(registry_key())
    redisq("discover", "--register", "--yes")
    assert [entry.name for entry in run(client, all_queues())] == ["carmine:%7Bmail%2F3%7D"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_workers_upkeep_writes_a_lost_entry_of_the_registry_again(
    client: redis.Redis, kind: str, shards: int
) -> None:
    queue = opened(client, kind, shards)
    SUBMIT[kind](queue, "e1")
    before = run(client, find(queue.name))
    client.delete(registry_key())
    run(client, _upkeep_of(queue, TransferRecoverer()))
    assert before is not None and run(client, find(queue.name)) == before

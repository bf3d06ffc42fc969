"""The Carmine queue over several shards: names, guarding, and changing their number under load."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Coroutine
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

import pytest
import redis
from redis.crc import key_slot

from redisq_ops.core.engine.registry import Registered
from redisq_ops.core.model.clock import FakeClock
from redisq_ops.core.model.entry import State
from redisq_ops.core.model.errors import BadInput, Refused, WrongKind
from redisq_ops.core.model.keys import registry_key
from redisq_ops.core.queues.carmine import CarmineLayout, CarmineQueue, ShardedCarmineQueue
from redisq_ops.core.queues.carmine.keys import CarmineKeys, shard_of
from redisq_ops.core.redis.client import connect
from redisq_ops.core.redis.operation import BlockingClient, run, together
from redisq_ops.core.redis.transport import exchange
from redisq_ops.core.sharding.shard_map import home
from redisq_ops.core.worker import Worker
from redisq_ops.demo.server import cluster
from redisq_ops.ops.change.audit_log import Author
from redisq_ops.ops.change.destroy import DestroySteps
from redisq_ops.ops.change.runner import ChangeRun, take_all
from redisq_ops.ops.deployment import Deployment

from ...command_line import Redisq
from ...conftest import BINARIES
from ...model.wire import picture
from ...queue_steps import Killed, ack_all, run_until, settle
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
    assert "no queue" in redisq.refusal("inspect", "carmine:q%2F2", code=1)
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


def test_an_id_is_guarded_while_the_number_changes(
    opened: Opener, client: redis.Redis, clock: FakeClock
) -> None:
    """The table of what an id does that is there holds at its new home as it did at the old."""
    queue = opened(3)
    names = {
        state: [f"{state}-{n}" for n in range(15)]
        for state in ("done", "dead", "held", "twice", "over", "waits", "later")
    }
    for state in ("done", "dead", "held", "twice", "over"):
        put(queue, names[state])
        held = take(queue)
        if state in ("done", "over"):
            settle(queue, "ack", *held, delay=60 if state == "done" else 0)
        if state == "dead":
            settle(queue, "reject", *held)
        if state == "twice":
            put(queue, names[state], requeue=True)
    put(queue, names["waits"])
    put(queue, names["later"], backoff=60)
    plain = {
        "done": "done-with-backoff",
        "dead": "dead",
        "held": "locked",
        "twice": "locked-with-requeue",
        "waits": "queued",
        "later": "queued-with-backoff",
    }
    stale = opened()
    stale.counts()
    before = words(client, 3, clock.now_ms)
    away = {id for some in names.values() for id in some if home(id, 3) != home(id, 4)}
    assert len(away) > 50
    left = opened().resize(4)
    assert left == len(away & {*names["held"], *names["twice"]})
    # What is done with no backoff has nothing to guard any more, and is cleared.
    after = words(client, 4, clock.now_ms)
    assert after == {id: word for id, word in before.items() if id in after}
    assert set(before) - set(after) == away & set(names["over"])
    for process in (stale, opened()):
        for state, word in plain.items():
            assert put(process, names[state]) == [word] * 15, state
    assert put(stale, names["over"]) == ["ok"] * 15
    assert opened().invariants() == []


def test_what_is_done_is_guarded_between_two_shards(opened: Opener, client: redis.Redis) -> None:
    queue = opened(3)
    put(queue, ids(40))
    settle(queue, "ack", *take(queue), delay=60)
    for steps in range(30):
        with suppress(Killed):
            run_until(client, opened().resize.op(2), steps, True)
        if any(client.exists(keys["transit"]) for keys in queue.shard_keys):
            break
    found: list[Any] = [client.hkeys(keys["transit"]) for keys in queue.shard_keys]
    lying = [name.decode() for names in found for name in names]
    assert lying
    assert put(opened(), lying) == ["done-with-backoff"] * len(lying)
    assert put(opened(), lying[:1], requeue=True) == ["requeued"]
    assert not any(client.exists(keys["transit"]) for keys in queue.shard_keys)
    assert opened().resize(2) == 0
    assert opened().invariants() == []


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


@pytest.mark.parametrize(("before", "after"), [(12, 8), (3, 12), (1, 4), (5, 1)])
def test_all_that_is_there_moves(opened: Opener, clock: FakeClock, before: int, after: int) -> None:
    queue = opened(before)
    put(queue, ids(100))
    put(queue, [f"soon-{n}" for n in range(50)], backoff=1)
    first = take(queue, 40)
    settle(queue, "reject", *first[:5], value=b"why")
    settle(queue, "fail", *first[5:15], delay=1, value=b"why")
    assert put(queue, [d.id for d in first[15:20]], requeue=True) == ["requeued"] * 5
    queue.move(
        "p",
        1,
        [d.id for d in first[15:25]],
        source="pending",
        target="trash",
        high_water_ms=clock.now_ms,
    )
    held = first[25:]
    assert put(queue, [held[0].id], requeue=True) == ["requeued"]
    states: tuple[State, ...] = ("waiting", "delayed", "dead", "trash", "pending")

    def everything() -> dict[str, Any]:
        pages = [opened().page(state, max=500, payloads=True) for state in states]
        return {
            e.id: (e.state, e.at_ms, e.payload, e.failures, e.called, e.error, e.reason)
            for page in pages
            for e in page.entries
        }

    was = everything()
    left = opened().resize(after)
    assert left == sum(home(d.id, before) != home(d.id, after) for d in held)
    assert everything() == was
    assert settle(queue, "ack", *held) == ["done"] * len(held)
    other = opened()
    assert other.resize(after) == 0
    counts = other.counts()
    assert (counts.dead, counts.trash, counts.delayed, counts.pending) == (5, 10, 60, 0)
    assert (counts.waiting, counts.done) == (61, 15)
    assert other.invariants() == []
    clock.advance(1)
    gone = {d.id for d in [*first[:5], *first[15:]]} - {held[0].id}
    names = [*ids(100), *(f"soon-{n}" for n in range(50))]
    assert sorted(ack_all(other)) == sorted(set(names) - gone)
    assert (
        other.move(
            "back",
            1,
            [d.id for d in first[15:20]],
            source="trash",
            target="restore",
            high_water_ms=clock.now_ms,
        )
        == ["moved"] * 5
    )
    again = Counter(ack_all(other))
    assert again == dict.fromkeys((d.id for d in first[15:20]), 2), "and what was to follow"


@pytest.mark.slow
def test_order_within_a_shard_survives_the_move(opened: Opener, clock: FakeClock) -> None:
    queue = opened(1)
    for name in ids(100):
        put(queue, [name])
        clock.advance(0.001)
    assert opened().resize(4) == 0
    order = [opened().take(consumer="w").deliveries[0].id for _ in ids(100)]
    assert order == ids(100), "and of one at a time between shards too"


@pytest.mark.slow
@pytest.mark.parametrize(("before", "after"), [(3, 2), (2, 3)])
def test_killed_at_any_round_trip_nothing_is_lost_or_doubled(
    opened: Opener, client: redis.Redis, clock: FakeClock, before: int, after: int
) -> None:
    killed, ended = 0, False
    while not ended:
        client.flushall()
        queue = opened(before)
        put(queue, ids(30))
        settle(queue, "ack", *take(queue, 10), delay=60)
        done = set(ids(30)) - {e.id for e in queue.page("waiting").entries}
        put(queue, ["x", "y"])
        try:
            run_until(client, opened().resize.op(after), killed, False)
            ended = True
        except Killed:
            pass
        worker = opened()
        assert worker.invariants() == []
        assert put(worker, sorted(done)[:5]) == ["done-with-backoff"] * 5
        taken = worker.take(10, consumer="w").deliveries
        settle(worker, "ack", *list(taken), delay=60)
        assert opened().resize(after) == 0
        assert opened().invariants() == []
        assert put(opened(), [*done, *(d.id for d in taken)]) == ["done-with-backoff"] * 20
        ran = [*ack_all(opened()), *(d.id for d in taken)]
        assert Counter(ran) == Counter({*ids(30), "x", "y"} - done)
        killed += 1
    assert killed > 10  # or there was little to be killed in


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
    clock: FakeClock, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with cluster(BINARIES["valkey"]) as nodes:
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
        settle(queue, "ack", *take(queue, 20), delay=60)
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

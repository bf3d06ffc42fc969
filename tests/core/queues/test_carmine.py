"""The Carmine queue as its users know it, and the corners where it could go wrong."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import redis
import redis.asyncio
from redis.crc import key_slot

from redisq_ops.core.engine.registry import Registered
from redisq_ops.core.model.clock import FakeClock
from redisq_ops.core.model.entry import Entry, Settlement, State
from redisq_ops.core.model.errors import BadInput, QueueClosed, QueueFull, TooLarge, WrongKind
from redisq_ops.core.model.keys import registry_key
from redisq_ops.core.model.settings import LEASE_MS
from redisq_ops.core.queues.carmine import CarmineLayout, CarmineQueue
from redisq_ops.core.redis.client import connect
from redisq_ops.core.redis.operation import run
from redisq_ops.core.worker import Worker
from redisq_ops.demo.server import binaries, cluster
from redisq_ops.ops.change.audit_log import Author
from redisq_ops.ops.change.destroy import DestroySteps
from redisq_ops.ops.change.runner import ChangeRun, take_all
from redisq_ops.ops.deployment import Deployment

from ...command_line import Redisq
from ...model.wire import picture
from ...queue_steps import ids, move, settle, take, undo
from . import carmine_reader

Queue = CarmineQueue[redis.Redis]
NAME = "carmine:q"


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def queue(client: redis.Redis, clock: FakeClock) -> Iterator[Queue]:
    queue = CarmineQueue(client, NAME, clock=clock)
    yield queue
    assert queue.invariants() == []


def put(queue: Queue, id: str, content: bytes = b"", **how: Any) -> str:
    (said,) = queue.enqueue([(id, content)], **how)
    return said.word


def seen(client: redis.Redis, queue: Queue, id: str) -> str:
    """The state a Carmine client reads; ours must say the same."""
    raw = carmine_reader.read(client, "q")
    word = carmine_reader.state(raw, id.encode(), queue.now())
    entry = queue.get(id)
    assert ((entry and entry.called) or "nx") == word
    return word


def circle(client: Any) -> list[str]:
    return [mid.decode() for mid in client.lrange("carmine:mq:q:mid-circle", 0, -1)]


def entry(queue: CarmineQueue[Any] | CarmineLayout[Any], id: str) -> Entry:
    found: Entry | None = queue.get(id)
    assert found is not None
    return found


# --- Carmine's layout ----------------------------------------------------------------------------


def test_the_keys_are_carmines(client: redis.Redis, queue: Queue, clock: FakeClock) -> None:
    put(queue, "later", b"L", backoff=5)
    for id in ("done", "held", "next"):
        put(queue, id, id.encode())
        clock.advance(0.001)
    done, held, _ = take(queue)
    put(queue, "held", b"again", requeue=True)
    settle(queue, "ack", done)
    queue.take(1, consumer="w")
    base = "carmine:mq:q:"
    keys: Any = {key: client.type(key) for key in client.scan_iter(base + "*")}
    assert {key.decode(): kind.decode() for key, kind in keys.items()} == {
        base + "messages": "hash",
        base + "locks": "hash",
        base + "backoffs": "hash",
        base + "nattempts": "hash",
        base + "mid-circle": "list",
        base + "requeue": "set",
        base + "ndry-runs": "string",
    }
    deadline = b"%d" % held.deadline_ms
    assert client.hgetall(base + "locks") == {b"held": deadline, b"next": deadline}
    assert client.hgetall(base + "backoffs") == {b"later": b"%d" % (clock.now_ms + 4997)}
    assert client.hgetall(base + "nattempts") == {b"held": b"1", b"next": b"1"}
    assert client.hgetall(base + "messages") == {b"held": b"held", b"next": b"next", b"later": b"L"}
    assert client.smembers(base + "requeue") == {b"held"}
    assert sorted(circle(client)) == ["end-of-circle", "held", "later", "next"]


def test_dry_runs_are_counted_once_in_a_backoff_that_grows(
    client: redis.Redis, clock: FakeClock
) -> None:
    queue = CarmineQueue(client, NAME)  # the flag goes by the server's own clock
    put(queue, "e")
    flag, runs = "carmine:mq:q:eoq-backoff?", "carmine:mq:q:ndry-runs"
    settle(queue, "ack", *take(queue))
    assert client.get(runs) == b"0"
    assert client.exists(flag) == 0
    longest = 0
    for dry in range(1, 8):
        take(queue)
        take(queue)
        assert client.get(flag) == b"true"
        assert client.get(runs) == b"%d" % dry
        pause = client.pttl(flag)
        assert longest <= pause <= 12_000 or dry > 5
        longest = pause
        client.delete(flag)  # its time is over
    take(queue)
    put(queue, "f")
    assert ids(take(queue)) == ["f"], "the flag holds no one up who is woken"
    assert client.get(runs) == b"0"
    assert client.exists(flag) == 0


def test_a_paused_queue_has_no_dry_runs(client: redis.Redis, queue: Queue) -> None:
    put(queue, "e")
    queue.configure("op", 1, {"paused": "x"})
    assert take(queue) == []
    assert client.get("carmine:mq:q:ndry-runs") is None
    queue.configure("op", 2, {"paused": ""})
    assert ids(take(queue)) == ["e"]


def test_the_circle_turns_and_what_is_done_with_leaves_it(
    client: redis.Redis, queue: Queue, clock: FakeClock
) -> None:
    queue.enqueue([(f"e{n}", b"") for n in range(10)])
    held = take(queue, 5)
    settle(queue, "ack", *held[:3])
    settle(queue, "ack", held[3], delay=1)
    before = circle(client)
    assert before == [*(f"e{n}" for n in range(9, -1, -1)), "end-of-circle"]
    assert queue.sweep() == 3
    after = circle(client)
    assert after == [*(f"e{n}" for n in range(9, 2, -1)), "end-of-circle"], "a whole lap"
    clock.advance(1)
    assert queue.sweep(1) == 0, "the end is turned like any other"
    assert circle(client)[0] == "end-of-circle"
    assert queue.sweep(1) == 1
    assert not client.hexists("carmine:mq:q:messages", "e3")


def test_a_burst_is_let_go_of_by_the_upkeep(client: redis.Redis, queue: Queue) -> None:
    for start in range(0, 3000, 500):
        queue.enqueue([(f"e{n}", b"x") for n in range(start, start + 500)])
    while batch := take(queue, 500):
        settle(queue, "ack", *batch)
    while queue.upkeep():
        pass
    assert client.hlen("carmine:mq:q:messages") == 0
    assert circle(client) == ["end-of-circle"]
    assert queue.counts().done == 3000


def test_takes_of_one_turn_past_no_message_that_waits(client: redis.Redis, queue: Queue) -> None:
    queue.enqueue([(f"e{n:03}", b"") for n in range(300)])
    most = 0
    for _ in range(150):
        settle(queue, "ack", *take(queue, 1))
        most = max(most, client.scard("carmine:mq:q:done"))
    assert most <= 2, "done with out of its order, one is there for a lap"


@pytest.mark.slow
def test_what_stands_in_front_for_long_holds_up_nothing(client: redis.Redis, queue: Queue) -> None:
    for start in range(0, 2000, 500):
        queue.enqueue([(f"d{n}", b"") for n in range(start, start + 500)], backoff=LEASE_MS / 1000)
    most = 0
    for n in range(200):
        queue.enqueue([(f"e{n}-{k}", b"") for k in range(50)])
        settle(queue, "ack", *take(queue))
        most = max(most, client.scard("carmine:mq:q:done"))
    assert most < 1500, "of ten thousand"


def test_what_left_the_circles_sight_never_stands_in_it_twice(
    client: redis.Redis, queue: Queue
) -> None:
    queue.enqueue([("e", b"1"), ("f", b"1")])
    for n in range(3):
        assert move(queue, f"purge-{n}", "hard", "waiting", "e") == ["moved"]
        assert put(queue, "e", b"2") == "ok"
    move(queue, "trash", "purge", "waiting", "e")
    assert undo(queue, "trash", "purge") == (1, 0)
    assert sorted(circle(client)) == ["e", "end-of-circle", "f"]
    move(queue, "trash-2", "purge", "waiting", "e")
    queue.sweep()
    assert circle(client) == ["f", "end-of-circle"]
    assert move(queue, "back", "restore", "trash", "e") == ["moved"]
    assert sorted(ids(take(queue))) == ["e", "f"]


# --- what an id that is there does ---------------------------------------------------------------


def test_a_dead_message_gives_way_to_newer_content(queue: Queue) -> None:
    put(queue, "e", b"bad")
    (held,) = take(queue)
    put(queue, "e", b"good", requeue=True)
    assert settle(queue, "reject", held) == ["dead"]
    assert queue.counts().dead == 0
    (held,) = take(queue)
    assert (held.payload, held.attempt) == (b"good", 1)
    assert [e.what["dead"] for e in queue.history() if "dead" in e.what] == [("e|rejected",)]


def test_the_first_run_can_be_delayed(queue: Queue, clock: FakeClock) -> None:
    put(queue, "e", backoff=60)
    assert queue.counts().delayed == 1
    assert queue.take(1, consumer="w").look_again_ms == clock.now_ms + 60_000
    clock.advance(60)
    assert ids(take(queue)) == ["e"]


# --- what it lacks there -------------------------------------------------------------------------


def test_only_the_latest_holder_is_heard(
    client: redis.Redis, queue: Queue, clock: FakeClock
) -> None:
    put(queue, "e")
    (first,) = take(queue, worker="w1")
    clock.now_ms += LEASE_MS
    (second,) = take(queue, worker="w2")
    assert second.attempt == 2
    assert client.hget("carmine:mq:q:nattempts", "e") == b"2"
    assert settle(queue, "ack", first) == ["stale"]
    assert queue.extend([first, second], 2 * LEASE_MS / 1000) == [False, True]
    until = b"%d" % (clock.now_ms + 2 * LEASE_MS)
    assert client.hget("carmine:mq:q:locks", "e") == until
    assert settle(queue, "release", second) == ["released"]
    assert client.hget("carmine:mq:q:nattempts", "e") == b"1", "given back, it counts no attempt"


def test_attempts_end_and_the_content_is_kept(
    client: redis.Redis, queue: Queue, clock: FakeClock
) -> None:
    queue.configure("op", 1, {"max_failures": "2"})
    put(queue, "e", b"content")
    assert settle(queue, "fail", *take(queue)) == ["retry"]
    assert settle(queue, "fail", *take(queue)) == ["dead"]
    put(queue, "f")
    for _ in range(3):
        take(queue)
        clock.now_ms += LEASE_MS
    take(queue)
    found = {e.id: (e.reason, e.failures, e.lost) for e in queue.page("dead").entries}
    assert found == {"e": ("failed", 2, 0), "f": ("lost", 0, 3)}
    assert entry(queue, "e").payload == b"content"
    assert seen(client, queue, "e") == "nx", "no Carmine worker could run it"
    assert move(queue, "op-1", "replay", "dead", "e") == ["moved"]
    (held,) = take(queue)
    assert (held.payload, held.attempt) == (b"content", 1)


def test_operators_changes_are_seen_in_carmines_keys(
    client: redis.Redis, queue: Queue, clock: FakeClock
) -> None:
    put(queue, "e", b"1")
    (held,) = take(queue)
    put(queue, "e", b"2", requeue=True)
    clock.advance(0.001)
    assert move(queue, "claim", "claim", "pending", "e") == ["moved"]
    assert client.hget("carmine:mq:q:locks", "e") == b"%d" % (clock.now_ms + LEASE_MS)
    assert settle(queue, "ack", held) == ["stale"]
    assert move(queue, "again", "requeue", "pending", "e") == ["moved"]
    assert seen(client, queue, "e") == "queued"
    assert move(queue, "away", "purge", "waiting", "e") == ["moved"]
    assert seen(client, queue, "e") == "nx"
    assert client.smembers("carmine:mq:q:requeue") == set()
    assert undo(queue, "away", "purge") == (1, 0)
    (held,) = take(queue)
    assert seen(client, queue, "e") == "locked-with-requeue"
    assert settle(queue, "ack", held) == ["done"]
    put(queue, "f", backoff=1)
    at = clock.now_ms + 5000
    assert move(queue, "later", "reschedule", "delayed", "f", at=at) == ["moved"]
    assert client.hget("carmine:mq:q:backoffs", "f") == b"%d" % at
    assert undo(queue, "later", "reschedule") == (1, 0)
    assert client.hget("carmine:mq:q:backoffs", "f") == b"%d" % (clock.now_ms + 1000)
    assert move(queue, "now", "requeue", "delayed", "f") == ["moved"]
    assert seen(client, queue, "f") == "queued"
    assert sorted(d.payload for d in take(queue)) == [b"", b"2"]


def test_an_undo_leaves_alone_what_got_new_content(queue: Queue) -> None:
    put(queue, "e", b"1")
    settle(queue, "reject", *take(queue))
    move(queue, "op", "replay", "dead", "e")
    put(queue, "e", b"2", update=True)
    assert undo(queue, "op", "replay") == (0, 1)
    assert [d.payload for d in take(queue)] == [b"2"]


# --- bad input -----------------------------------------------------------------------------------


def test_what_no_message_can_be_called(client: redis.Redis, queue: Queue) -> None:
    for id in ("end-of-circle", "", "a b", "{x}", "a/b", "ü", "x" * 129):
        with pytest.raises(BadInput):
            queue.enqueue([("fine", b""), (id, b"")])
    with pytest.raises(TooLarge):
        queue.enqueue([("e", b"x" * 11)], max_payload=10)
    with pytest.raises(BadInput, match="501"):
        queue.enqueue([(f"e{n}", b"") for n in range(501)])
    with pytest.raises(BadInput, match="the year 5138"):
        queue.enqueue([("e", b"")], backoff=1_700_000_000_000)
    assert queue.enqueue([]) == []
    assert list(client.scan_iter("carmine*")) == []
    for id in ("a:b", "done", "[red]", "%41", "-inf"):
        assert put(queue, id) == "ok"
    assert sorted(ids(take(queue))) == ["%41", "-inf", "[red]", "a:b", "done"]


@pytest.mark.parametrize("name", ["q", "carmine:", "sidekiq:q", "carmine:%ff"])
def test_what_no_queue_can_be_called(client: redis.Redis, name: str) -> None:
    with pytest.raises(BadInput):
        CarmineQueue(client, name)


def test_content_comes_back_as_it_was(queue: Queue) -> None:
    contents = [b"", b"\x00\x01NPY\x00", b"\xff\xfe", b"x" * 100_000, b"12345678901234567"]
    queue.enqueue([(f"e{n}", content) for n, content in enumerate(contents)])
    held = take(queue)
    assert [d.payload for d in sorted(held, key=lambda d: d.id)] == contents


def test_a_full_or_closed_queue_takes_nothing_new(client: redis.Redis, queue: Queue) -> None:
    queue.configure("op", 1, {"max_waiting": "2"})
    queue.enqueue([("a", b"1"), ("b", b"1")])
    before = picture(client)
    with pytest.raises(QueueFull, match="2 entries wait"):
        queue.enqueue([("a", b"2"), ("c", b"")], update=True)
    assert picture(client) == before
    assert put(queue, "a", b"2", update=True) == "updated"
    held = take(queue)
    queue.configure("op", 2, {"closed": "x"})
    with pytest.raises(QueueClosed):
        put(queue, "c")
    assert settle(queue, "ack", *held) == ["done", "done"]


@pytest.mark.parametrize("part", ["messages", "mid-circle", "done", "eoq-backoff?"])
def test_a_key_of_another_type_stays_alone(client: redis.Redis, part: str) -> None:
    queue = CarmineQueue(client, NAME)
    client.hset(registry_key(), NAME, Registered(NAME, "carmine", 1, 0).encoded())
    client.zadd(f"carmine:mq:q:{part}", {"x": 1})
    before = picture(client)
    with pytest.raises(WrongKind, match=part.replace("?", ".")):
        put(queue, "e")
    with pytest.raises(WrongKind):
        take(queue)
    assert picture(client) == before


def test_on_a_cluster_the_name_has_the_tag(client: redis.Redis) -> None:
    queue = CarmineQueue(client, "carmine:%7Bmail%7D:x")
    assert queue.keys["messages"] == "carmine:mq:{mail}:x:messages"
    assert queue.keys["lease"] == "redisq:carmine:{mail}:x:lease"
    assert put(queue, "e") == "ok"
    assert ids(take(queue)) == ["e"]
    assert isinstance(run(client, Deployment().queue(queue.name)), CarmineQueue)
    keys = [key for key in client.scan_iter() if key != registry_key().encode()]
    assert len(keys) > 5
    assert len({key_slot(key) for key in keys}) == 1


@pytest.mark.slow
def test_a_cluster_of_three(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    with cluster(binaries()["valkey"]) as nodes:
        url = nodes.urls[0].replace("redis://", "redis+cluster://")
        client = connect(url)
        with pytest.raises(BadInput, match=r"call it carmine:%7Bmail%7D$"):
            CarmineQueue(client, "carmine:mail").enqueue([("e", b"")])
        assert client.exists(registry_key()) == 0
        queue = CarmineQueue(client, "carmine:%7Bmail%7D")
        queue.enqueue([(f"e{n}", b"x") for n in range(4)])
        held = queue.take(2, consumer="w").deliveries
        queue.settle([Settlement(held[0], "ack"), Settlement(held[1], "reject")])
        redisq = Redisq(url, capsys)
        redisq("dlq", "replay", queue.name, "--yes")
        redisq("waiting", "purge", queue.name, "--yes")
        (row,) = redisq.rows("ls")
        assert (row["waiting"], row["trash"], row["done"]) == (0, 3, 1)
        redisq("fsck", queue.name)
        file = str(tmp_path / "out.ndjson")
        queue.enqueue([("again", b"x")])
        redisq("export", queue.name, "-o", file)
        said = redisq.refusal("import", file, "--queue", "carmine:other", "--yes", code=2)
        assert said.endswith("call it carmine:%7Bother%7D")
        assert list(client.scan_iter("*carmine:other*")) == [], "no operation is begun"


# --- queues that Carmine keeps -------------------------------------------------------------------


def stock(client: redis.Redis, now: int, name: str = "q") -> None:
    """What a Carmine of 2018 leaves behind in the middle of its work."""
    base = f"carmine:mq:{name}:"
    mids = ["wait", "later", "held", "twice", "over", "fresh", "odd id\xff{}"]
    raw = [mid.encode("latin-1") for mid in mids]
    client.hset(base + "messages", mapping={mid: b"\x00>NPY" + mid for mid in raw})
    client.hset(base + "locks", mapping={"held": now + 9000, "twice": now + 9000, "wait": now - 1})
    client.hset(base + "backoffs", mapping={"later": now + 5000, "fresh": now + 5000})
    client.hset(base + "nattempts", mapping={"wait": 3, "held": 1, "later": 2})
    client.sadd(base + "done", "over", "fresh")
    client.sadd(base + "requeue", "twice")
    client.lpush(base + "mid-circle", "end-of-circle", *raw, "gone")
    client.set(base + "ndry-runs", 2)


WORDS = {
    "wait": ("waiting", "queued"),
    "later": ("delayed", "queued-with-backoff"),
    "held": ("pending", "locked"),
    "twice": ("pending", "locked-with-requeue"),
    "over": ("done", "done-awaiting-gc"),
    "fresh": ("done", "done-with-backoff"),
    "odd%20id%FF%7B%7D": ("waiting", "queued"),
}


def test_a_queue_of_carmines_own_is_read_and_left_alone(
    client: redis.Redis, clock: FakeClock
) -> None:
    stock(client, clock.now_ms)
    before = picture(client)
    deployment = Deployment(clock=clock)
    queue = run(client, deployment.queue(NAME))
    assert isinstance(queue, CarmineLayout)
    queue = CarmineLayout(client, NAME, clock=clock)
    found = {id: queue.get(id) for id in WORDS}
    assert {id: (e.state, e.called) for id, e in found.items() if e} == WORDS
    assert entry(queue, "odd%20id%FF%7B%7D").payload == b"\x00>NPYodd id\xff{}"
    assert (entry(queue, "wait").failures, entry(queue, "held").failures) == (3, 0)
    assert queue.get("gone") is None and queue.get("end-of-circle") is None
    states: tuple[State, ...] = ("waiting", "delayed", "pending", "done")
    for state in states:
        page = queue.page(state)
        wanted = [id for id, (its, _) in WORDS.items() if its == state]
        assert ([e.id for e in page.entries], page.cursor) == (wanted, None)
    counts = queue.counts()
    assert (counts.waiting, counts.pending, counts.of("delayed")) == (2, 3, None)
    for refused in (
        lambda: queue.take(1, consumer="w"),
        lambda: queue.move("op", 1, ["wait"], source="waiting", target="trash", high_water_ms=0),
        lambda: put(CarmineQueue(client, NAME), "e"),
        lambda: CarmineQueue(client, NAME).take(1, consumer="w"),
    ):
        with pytest.raises(WrongKind, match=r"carmine:q is kept by"):
            refused()
    with pytest.raises(WrongKind):  # and doesn't wait for it to change its mind
        Worker(CarmineLayout(client, NAME), print, burst=True).run()
    assert picture(client) == before
    raw = carmine_reader.read(client, "q")
    for id, (_, word) in WORDS.items():
        mid = b"odd id\xff{}" if "%" in id else id.encode()
        assert carmine_reader.state(raw, mid, clock.now_ms) == word


def test_the_layout_of_3_x(client: redis.Redis, clock: FakeClock) -> None:
    now, base = clock.now_ms, "carmine:mq:q:"
    mids = ["new", "held", "again", "over"]
    client.hset(base + "messages", mapping=dict.fromkeys(mids, b"x"))
    client.hset(base + "messages-rq", mapping={"held": b"y", "again": b"y"})
    client.hset(base + "locks", mapping={"held": now + 9000})
    client.hset(base + "backoffs", mapping={"again": now + 1})
    client.hset(base + "udts", mapping={"new": now - 70_000})
    client.sadd(base + "done", "again", "over")
    client.lpush(base + "mids-ready", "new")
    client.lpush(base + "mid-circle", "end-of-circle", *mids[1:])
    client.rpush(base + "isleep-a", "_")
    queue = CarmineLayout(client, NAME, clock=clock)
    assert [e.id for e in queue.page("waiting").entries] == ["new"]
    assert entry(queue, "new").since_ms == now - 70_000
    assert entry(queue, "held").called == "locked-with-requeue"
    assert [(e.id, e.called) for e in queue.page("done").entries] == [("over", "done-awaiting-gc")]
    assert [(e.id, e.called) for e in queue.page("delayed").entries] == [
        ("again", "done-with-requeue")
    ], "it will run again"
    clock.advance(0.001)
    assert entry(queue, "again").state == "waiting"


@pytest.mark.alike
def test_a_key_of_another_type_in_the_way_is_a_flaw(
    client: redis.Redis, url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    stock(client, 0)
    queue = CarmineLayout(client, NAME)
    assert queue.checkup(thorough=True).flaws == ()
    wrong = {"messages": "hash", "mid-circle": "list", "locks": "hash", "requeue": "set"}
    for part, kind in wrong.items():
        before = client.dump(key := f"carmine:mq:q:{part}")
        client.set(key, "str")
        said = f"key {key} is a string where a {kind} belongs"
        assert queue.checkup().flaws == (said,)
        client.delete(key)
        client.restore(key, 0, before or b"")
    client.set("carmine:mq:q:udts", "str")
    assert "udts is a string where a hash belongs" in Redisq(url, capsys)("fsck", NAME, code=1)


def test_pages_of_a_long_circle_are_bounded(client: redis.Redis, clock: FakeClock) -> None:
    base = "carmine:mq:q:"
    mids = [f"m{n}" for n in range(5000)]
    for start in range(0, 5000, 1000):
        part = mids[start : start + 1000]
        client.hset(base + "messages", mapping=dict.fromkeys(part, b"x"))
        client.lpush(base + "mid-circle", *part)
    client.hset(base + "locks", mapping={"m4321": clock.now_ms + 9000})
    queue = CarmineLayout(client, NAME, clock=clock)
    page = queue.page("waiting", max=300)
    assert [e.id for e in page.entries] == mids[:300]
    assert [e.id for e in queue.page("waiting", page.cursor, 300).entries] == mids[300:600]
    cursor, found, pages = None, [], 0
    client.config_resetstat()
    while pages == 0 or cursor is not None:
        page = queue.page("pending", cursor)
        cursor, pages = page.cursor, pages + 1
        found += [e.id for e in page.entries]
    assert (found, pages) == (["m4321"], 3)
    stats = client.info("commandstats")
    assert stats["cmdstat_lrange"]["calls"] == 27, "a window of each list at its end too"


def test_a_registered_queue_of_carmines_stays_carmines(client: redis.Redis) -> None:
    stock(client, 0)
    known = Registered(NAME, "carmine", 1, 0, at="carmine:mq:")
    client.hset(registry_key(), NAME, known.encoded())
    assert isinstance(run(client, Deployment().queue(NAME)), CarmineLayout)
    with pytest.raises(WrongKind):
        put(CarmineQueue(client, NAME), "e")


# --- beside the others ---------------------------------------------------------------------------


def test_a_worker_runs_it_to_the_end(client: redis.Redis) -> None:
    queue = CarmineQueue(client, NAME)
    queue.enqueue([(f"e{n}", b"%d" % n) for n in range(50)])
    ran: list[str] = []

    def handle(work: Any) -> None:
        ran.append(work.id)
        if work.payload == b"7":
            raise ValueError("seven")

    queue.configure("op", 1, {"max_failures": "1"})
    Worker(queue, handle, batch=10, burst=True).run()
    assert sorted(ran) == sorted(f"e{n}" for n in range(50))
    counts = queue.counts()
    assert (counts.done, counts.dead, counts.waiting, counts.pending) == (49, 1, 0, 0)
    assert queue.invariants() == []


def test_the_same_methods_are_awaited(aclient: Callable[[], redis.asyncio.Redis]) -> None:
    async def story() -> list[bytes]:
        async with aclient() as client:
            queue = CarmineQueue(client, NAME)
            (said,) = await queue.enqueue([("e", b"x")])
            assert said.accepted
            taken = await queue.take(1, consumer="w")
            return [delivery.payload for delivery in taken.deliveries]

    assert asyncio.run(story()) == [b"x"]


@pytest.mark.slow
def test_the_examples_of_its_page_run(url: str) -> None:
    page = (Path(__file__).parents[3] / "docs" / "explanation" / "carmine-queue.md").read_text()
    code = "".join(part.split("```")[0] for part in page.split("```python\n")[1:])
    done = subprocess.run(
        [sys.executable, "-c", code.replace("redis://127.0.0.1:6379", url)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("queued\nwelcome-ann b'Hello Ann'\n")


def test_destroyed_nothing_of_it_is_left(client: redis.Redis, queue: Queue) -> None:
    queue.enqueue([(f"e{n}", b"") for n in range(5)])
    put(queue, "later", backoff=1)
    held = take(queue, 3)
    settle(queue, "reject", held[0])
    settle(queue, "ack", held[1])
    put(queue, held[2].id, requeue=True)
    run(client, take_all(ChangeRun(DestroySteps(queue, hard=True), Author("ada", "desk"))))
    left = [key for key in client.scan_iter() if not key.startswith(b"redisq:{carmine:q}:rate")]
    assert left == []


def test_the_command_line_knows_it(
    url: str,
    client: redis.Redis,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "carmine_handler.py").write_text("def handle(delivery):\n    return None\n")
    monkeypatch.syspath_prepend(tmp_path)
    redisq = Redisq(url, capsys)
    queue = CarmineQueue(client, NAME)
    queue.enqueue([(f"e{n}", b"x") for n in range(4)])
    queue.enqueue([("later", b"x")], backoff=600)
    first, second = take(queue, 2)
    put(queue, second.id, b"y", requeue=True)
    settle(queue, "reject", first)
    (row,) = redisq.rows("ls")
    assert (row["name"], row["kind"]) == (NAME, "carmine")
    assert [row[s] for s in ("waiting", "pending", "delayed", "dead")] == [2, 1, 1, 1]
    assert "carmine" in redisq("inspect", NAME)
    (row,) = redisq.rows("pending", "ls", NAME)
    assert (row["id"], row["owner_state"]) == (second.id, "locked-with-requeue")
    redisq("pending", "requeue", f"{NAME}/{second.id}", "--yes")
    redisq("dlq", "replay", NAME, "--yes")
    redisq("delay", "requeue", NAME, "--yes")
    redisq("work", "carmine_handler:handle", "--queue", NAME, "--burst")
    (row,) = redisq.rows("ls")
    assert [row[s] for s in ("waiting", "pending", "delayed", "dead")] == [0, 0, 0, 0]
    assert row["done"] == 6
    redisq("fsck", NAME)

"""The circular queue as its users know it, in all its shapes, and where it could go wrong."""

from __future__ import annotations

import asyncio
import itertools
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import redis
import redis.asyncio

from redisq_ops.core.model.clock import FakeClock, ServerClock
from redisq_ops.core.model.entry import Failure, Settlement
from redisq_ops.core.model.errors import (
    BadInput,
    QueueClosed,
    QueueFull,
    TooLarge,
    WrongKind,
)
from redisq_ops.core.model.settings import LEASE_MS
from redisq_ops.core.queues.circular import CircularQueue, unless_done
from redisq_ops.core.queues.circular.element_names import name_of
from redisq_ops.core.redis import operation
from redisq_ops.core.redis.transport import exchange
from redisq_ops.core.worker import Worker
from redisq_ops.core.worker.handler import Work

from ...command_line import Redisq
from ...model.wire import picture
from ...queue_steps import ids, move, settle
from ...queue_steps import take_all as take

Queue = CircularQueue[redis.Redis]
Opener = Callable[..., Queue]

SHAPES: dict[str, dict[str, Any]] = {
    "list": {},
    "list eager": {"completed": "eager"},
    "list sleeping": {"idle": "sleep"},
    "rotating": {"residence": "rotate"},
    "rotating eager": {"residence": "rotate", "completed": "eager"},
    "rotating lap": {"residence": "rotate", "idle": "lap"},
    "rotating sleeping": {"residence": "rotate", "idle": "sleep"},
}


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def open_queue(client: redis.Redis, clock: FakeClock) -> Iterator[Opener]:
    """Opens the queue as another process would."""
    opened: list[Queue] = []

    def opener(**options: Any) -> Queue:
        opened.append(CircularQueue(client, "q", clock=clock, **options))
        return opened[-1]

    yield opener
    if opened:
        assert opened[0].invariants() == []


@pytest.fixture(params=SHAPES.values(), ids=[*SHAPES])
def queue(request: pytest.FixtureRequest, open_queue: Opener) -> Queue:
    """The queue in each of its shapes."""
    return open_queue(**request.param)


@pytest.fixture
def plain(open_queue: Opener) -> Queue:
    return open_queue()


def state(queue: Queue, id: str) -> str | None:
    entry = queue.get(id)
    return None if entry is None else entry.state


def waiting(queue: Queue, size: int = 100) -> list[str]:
    """All ids that wait, by pages."""
    found, cursor = [], None
    while True:
        page = queue.page("waiting", cursor, size)
        found += [entry.id for entry in page.entries]
        cursor = page.cursor
        if cursor is None:
            return found


# --- in every shape -------------------------------------------------------------------------------


def test_with_each_an_id_has_no_payload(open_queue: Opener) -> None:
    with pytest.raises(BadInput, match="payload"):
        open_queue(repeats="each").push([("a", b"x")])


# --- other producers ------------------------------------------------------------------------------


ILLEGAL = [b"user*1", b"a b", b"", b"x/y", b"{q}", b"\x00\xff\n", b"*", b"n" * 129, b"\xc3\xbc"]


def test_what_can_t_be_an_id_is_a_dead_letter_and_blocks_nobody(
    queue: Queue, client: redis.Redis
) -> None:
    for raw in ILLEGAL:
        met(queue, client, raw)


def met(queue: Queue, client: redis.Redis, raw: bytes) -> None:
    queue.push("before")
    client.lpush(queue.queue_key, raw, "after", raw)
    assert name_of(raw) in waiting(queue)
    held = take(queue)
    assert ids(held) == ["before", "after"]
    settle(queue, "ack", *held)
    take(queue)
    (entry,) = queue.page("dead", payloads=True).entries
    assert entry.id == name_of(raw)
    assert (entry.reason, entry.payload) == ("invalid", raw)
    assert entry.error and entry.error.type == "InvalidId"
    assert queue.counts().waiting == 0
    # Replayed, it is a handler's to say what was meant; the same bytes again are the same id.
    assert move(queue, f"replay-{entry.id[8:]}", "replay", "dead", entry.id) == ["moved"]
    (held_,) = take(queue)
    assert (held_.id, held_.payload) == (entry.id, raw)
    client.lpush(queue.queue_key, raw)
    assert take(queue) == []
    assert settle(queue, "ack", held_) == ["done"]
    (held_,) = take(queue)
    assert held_.payload == raw
    assert settle(queue, "ack", held_) == ["done"]
    assert take(queue) == []
    assert client.exists(queue.queue_key, queue.keys["body"], queue.keys["spent"]) == 0


def test_ids_that_look_odd_are_ids(queue: Queue, client: redis.Redis) -> None:
    odd = ["invalid:x", "a%20b", "[a-z]?", "-1", "\\", "x:y", "n" * 128]
    client.lpush(queue.queue_key, *odd)
    held = take(queue)
    assert ids(held) == [name_of(id.encode()) for id in odd] == odd
    settle(queue, "ack", *held)


def test_ids_are_checked_before_anything_is_sent(plain: Queue, client: redis.Redis) -> None:
    for bad in ("", "a*", "x y", "n" * 129):
        with pytest.raises(BadInput):
            plain.push(["good", bad])
    with pytest.raises(TooLarge):
        plain.push([("a", b"12345")], max_payload=4)
    with pytest.raises(BadInput, match="501"):
        plain.push([f"e{n}" for n in range(501)])
    assert plain.push([]) == []
    assert client.exists(plain.queue_key) == 0


# --- the list -------------------------------------------------------------------------------------


def test_purged_elements_go_when_they_are_met_and_keep_their_place_if_pushed_again(
    plain: Queue, client: redis.Redis
) -> None:
    plain.push(["a", "b", "c"])
    move(plain, "p", "purge", "waiting", "a", "b")
    assert client.llen(plain.queue_key) == 3
    assert (plain.counts().waiting, waiting(plain)) == (1, ["c"])
    assert plain.push("b") == ["new"]
    assert client.llen(plain.queue_key) == 3
    assert ids(take(plain)) == ["b", "c"]
    assert client.exists(plain.keys["spent"]) == 0


def test_eager_removal_has_a_bound(open_queue: Opener, client: redis.Redis) -> None:
    queue = open_queue(completed="eager")
    names = [f"e{n}" for n in range(1200)]
    for start in range(0, 1200, 400):
        queue.push(names[start : start + 400])
    move(queue, "p1", "purge", "waiting", *names[1000:1100])
    assert client.llen(queue.queue_key) == 1200, "above 1,000 it is marked"
    settle(queue, "ack", *take(queue, 300))
    move(queue, "p2", "purge", "waiting", *names[1100:1150])
    assert client.llen(queue.queue_key) == 850
    assert ids(take(queue, 2000)) == names[300:1000] + names[1150:]


def test_pages_are_exact_while_others_push_and_take(plain: Queue) -> None:
    names = [f"e{n:03}" for n in range(300)]
    plain.push(names)
    seen, cursor, step = [], None, 0
    while True:
        page = plain.page("waiting", cursor, 20)
        seen += [entry.id for entry in page.entries]
        cursor = page.cursor
        if cursor is None:
            break
        step += 1
        plain.push([f"new{step}-{n}" for n in range(7)])
        if step % 2:
            settle(plain, "ack", *take(plain, 10))
    assert seen == names


def test_a_page_that_falls_behind_goes_on_with_what_is_left(plain: Queue) -> None:
    plain.push([f"e{n}" for n in range(30)])
    page = plain.page("waiting", None, 5)
    take(plain, 12)
    assert [e.id for e in plain.page("waiting", page.cursor, 3).entries] == ["e12", "e13", "e14"]


def test_windows_by_rank(queue: Queue) -> None:
    names = [f"e{n}" for n in range(40)]
    queue.push(names)
    take(queue, 10)
    for start, size in itertools.product((0, 1, 13, 28, 29, 30, 99), (1, 7)):
        page = queue.page("waiting", start=start, max=size)
        assert [e.id for e in page.entries] == names[10:][start : start + size]
        assert page.total == 30


def test_states_are_found_without_looking_through_the_list(
    plain: Queue, client: redis.Redis
) -> None:
    plain.push([f"e{n}" for n in range(400)])
    client.config_resetstat()
    entry = plain.get("e200")
    assert entry and entry.state == "waiting"
    assert plain.get("nobody") is None
    plain.counts()
    move(plain, "p", "purge", "waiting", "e200")
    stats: Any = client.info("commandstats")
    assert not {"cmdstat_lrange", "cmdstat_lpos", "cmdstat_lrem"} & set(stats)


@pytest.mark.parametrize("residence", ["list", "rotate"])
def test_a_list_that_is_lost_is_made_anew(
    open_queue: Opener, client: redis.Redis, clock: FakeClock, residence: str
) -> None:
    queue = open_queue(residence=residence)
    names = [f"e{n}" for n in range(300)]
    queue.push(names)
    held = take(queue, 20)
    settle(queue, "fail", *held[:5], delay=0.1)
    settle(queue, "reject", *held[5:10])
    move(queue, "p", "purge", "waiting", *names[100:120])
    client.delete(queue.queue_key)
    assert len(queue.invariants()) >= 260
    queue.push(["e200", "new"])
    settle(queue, "ack", *take(queue))
    while queue.sweep():
        pass
    assert queue.invariants() == []
    settle(queue, "ack", *held[10:])
    clock.advance(0.1)
    ran = take(queue, 400)
    assert {*ids(ran)} - {"new"} == {*names[20:100], *names[120:], *ids(held[:5])}
    settle(queue, "ack", *ran)
    assert queue.push(names[100]) == ["new"]
    assert names[100] in ids(take(queue)), "nothing of the old list's marks is left"


def test_what_stands_behind_many_processed_elements_is_reached(open_queue: Opener) -> None:
    queue = open_queue(residence="rotate")
    queue.push([f"e{n}" for n in range(300)])
    settle(queue, "ack", *take(queue, 300))
    queue.push("late")
    assert ids(take(queue)) == ["late"]


def test_what_another_consumer_took_from_the_list_runs_nevertheless(
    plain: Queue, client: redis.Redis
) -> None:
    plain.push(["a", "b"])
    assert client.rpop(plain.queue_key) == b"a"
    (held,) = take(plain)
    settle(plain, "ack", held)
    assert take(plain) == [] and plain.push("a") == ["queued"]
    assert plain.sweep() == 1
    assert ids(take(plain)) == ["a"]


# --- the article's variants -----------------------------------------------------------------------


def test_a_rotating_list_keeps_plain_ids_until_they_are_processed(
    open_queue: Opener, client: redis.Redis, clock: FakeClock
) -> None:
    queue = open_queue(residence="rotate")
    queue.push(["a", "b", "c"])
    held = take(queue, 2)
    assert client.lrange(queue.queue_key, 0, -1) == [b"b", b"a", b"c"]
    settle(queue, "ack", held[0])
    assert client.lrange(queue.queue_key, 0, -1) == [b"b", b"a", b"c"], "goes when it is met"
    assert ids(take(queue)) == ["c"]
    assert set(client.lrange(queue.queue_key, 0, -1)) == {b"c", b"b"}
    clock.now_ms += LEASE_MS
    assert sorted(ids(take(queue))) == ["b", "c"]


def test_a_take_from_a_rotating_list_has_a_bound(open_queue: Opener, rounds: list[int]) -> None:
    queue = open_queue(residence="rotate")
    for start in range(0, 2000, 500):
        queue.push([f"e{n}" for n in range(start, start + 500)])
    take(queue, 2000)
    queue.push("last")
    rounds.clear()
    taken = queue.take(1, consumer="w")
    assert taken.deliveries == () and taken.more
    assert ids(take(queue, 1)) == ["last"]
    assert len(rounds) <= 2001 / 65 + 1
    assert not queue.take(1, consumer="w").more


def test_pushes_of_what_is_at_work_don_t_keep_a_worker_busy(
    open_queue: Opener, client: redis.Redis
) -> None:
    queue = open_queue(residence="rotate")
    names = [f"e{n}" for n in range(200)]
    queue.push(names)
    held = take(queue, 200)
    client.lpush(queue.queue_key, *names)
    looks = [queue.take(1, consumer="w").more for _ in range(20)]
    assert looks == [True] * 6 + [False] * 14, "400 elements, 65 a look"
    client.lpush(queue.queue_key, "late")
    assert "late" in ids(take(queue, 1))
    settle(queue, "ack", *held)
    assert sorted(ids(take(queue, 500))) == sorted(names), "and each of them ran after all"


def test_with_nothing_waiting_a_rotating_list_is_not_turned(
    open_queue: Opener, client: redis.Redis
) -> None:
    queue = open_queue(residence="rotate")
    queue.push([f"e{n}" for n in range(300)])
    take(queue, 300)
    client.config_resetstat()
    assert not queue.take(10, consumer="w").more
    assert "cmdstat_lrange" not in client.info("commandstats")


@pytest.mark.parametrize("size", [3, 10, 64, 65, 130, 500])
@pytest.mark.parametrize("workers", [1, 2, 3])
def test_every_consumer_learns_of_an_empty_lap(open_queue: Opener, size: int, workers: int) -> None:
    queue = open_queue(residence="rotate", idle="lap", pause=0.07)
    queue.push([f"e{n}" for n in range(size)])
    take(queue, size)
    rests = [False] * workers
    for step in range(workers * (2 + 3 * size // 65)):
        taken = queue.take(1, consumer=f"w{step % workers}")
        assert taken.deliveries == ()
        rests[step % workers] |= not taken.more
    assert rests == [True] * workers
    queue.push("new")
    found = [queue.take(1, consumer=f"w{n % workers}") for n in range(3 + size // 64)]
    assert [d.id for taken in found for d in taken.deliveries] == ["new"]
    assert all(t.more or t.deliveries for t in found[: size // 65]), "nobody rests on the way"


def test_the_end_of_a_lap_is_nobody_s_entry(
    open_queue: Opener, client: redis.Redis, clock: FakeClock
) -> None:
    queue = open_queue(residence="rotate", idle="lap", pause=0.07)
    queue.push(["a", "b"])
    held = take(queue)
    assert queue.counts().waiting == 0 and waiting(queue) == []
    assert queue.take(5, consumer="w").look_again_ms == clock.now_ms + 70
    client.lpush(queue.queue_key, "*", "*1", "*2")
    assert take(queue) == []
    assert queue.counts().dead == 3, "no producer can push one"
    settle(queue, "ack", *held)
    take(queue)
    assert client.exists(queue.queue_key) == 0


def test_a_consumer_sleeps_after_some_empty_turns(open_queue: Opener, clock: FakeClock) -> None:
    queue = open_queue(idle="sleep", turns=3, pause=0.07)
    queue.push("first")
    settle(queue, "ack", *queue.take(1, consumer="w").deliveries)
    for _ in range(2):
        for _ in range(2):
            taken = queue.take(1, consumer="w")
            assert taken.more and taken.look_again_ms is None
        taken = queue.take(1, consumer="w")
        assert not taken.more and taken.look_again_ms == clock.now_ms + 70
        queue.push("a")
        settle(queue, "ack", *queue.take(1, consumer="w").deliveries)
    assert queue.client.llen(queue.keys["wake"]) == 0, "nobody listens, so nobody rings"


def test_who_is_woken_by_producers(plain: Queue, clock: FakeClock) -> None:
    def woken() -> int:
        n: Any = plain.client.llen(plain.keys["wake"])
        plain.client.delete(plain.keys["wake"])
        return int(n)

    plain.push(["a", "b"])
    assert woken() == 2
    assert plain.push("a") == ["queued"]
    assert woken() == 0
    (held,) = plain.take(1, consumer="w").deliveries
    assert woken() == 1, "there is more: the word is handed on"
    settle(plain, "ack", *take(plain))
    plain.push("a")
    assert woken() == 0, "it begins when the present run ends"
    settle(plain, "ack", held)
    assert woken() == 1
    plain.push([f"e{n}" for n in range(100)])
    assert woken() == 16
    held_ = take(plain, 1)
    settle(plain, "fail", *held_, delay=0.05)
    take(plain)
    look = plain.take(1, consumer="w").look_again_ms
    assert look == clock.now_ms + 50


# --- options --------------------------------------------------------------------------------------


def test_processes_must_agree(open_queue: Opener, client: redis.Redis) -> None:
    open_queue(residence="rotate", idle="sleep").push("a")
    assert open_queue().push("a") == ["queued"], "what isn't given is as the queue has it"
    assert open_queue(residence="rotate").push("a") == ["queued"]
    before = picture(client)
    for options in ({"residence": "list"}, {"idle": "wake"}, {"repeats": "each"}):
        with pytest.raises(WrongKind, match=r"queue q has \w+=\w+, and here is asked for \w+$"):
            open_queue(**options).push("b")
        with pytest.raises(WrongKind):
            open_queue(**options).take(1, consumer="w")
    assert picture(client) == before
    adopted = open_queue()
    adopted.take(1, consumer="w")
    assert adopted.shape.encoded() == "rotate.set.merge.sleep"


@pytest.mark.parametrize(
    "options",
    [
        {"residence": "ring"},
        {"completed": ""},
        {"idle": "lap"},
        {"turns": 0},
        {"pause": 0},
        {"idle": "lap", "residence": "list"},
        {"repeats": "twice"},
    ],
)
def test_options_that_mean_nothing_are_refused(open_queue: Opener, options: Any) -> None:
    with pytest.raises(BadInput):
        CircularQueue(None, "q", **options)


# --- bounds, flags, servers -----------------------------------------------------------------------


def test_a_full_queue_and_a_draining_one(queue: Queue, client: redis.Redis) -> None:
    queue.configure("op", 1, {"max_waiting": "3"})
    queue.push(["a", "b"])
    before = picture(client)
    with pytest.raises(QueueFull, match="2 entries wait"):
        queue.push(["a", "c", "d"])
    assert picture(client) == before
    assert queue.push(["a", "c"]) == ["queued", "new"]
    held = take(queue, 1)
    assert queue.push(["d", "a"]) == ["new", "again"]
    queue.configure("op", 2, {"closed": "x"})
    with pytest.raises(QueueClosed):
        queue.push("a")
    settle(queue, "ack", *held)
    assert sorted(ids(take(queue))) == ["a", "b", "c", "d"], "what is there is worked off"


def test_a_paused_queue_hands_out_nothing(queue: Queue, clock: FakeClock) -> None:
    queue.push(["a", "b"])
    (held,) = take(queue, 1)
    queue.configure("op", 1, {"paused": "x"})
    assert take(queue) == []
    assert settle(queue, "ack", held) == ["done"]
    queue.configure("op", 2, {"paused": ""})
    assert ids(take(queue)) == ["b"]


def test_batches_have_bounds(plain: Queue) -> None:
    plain.push([f"e{n}" for n in range(500)])
    for n in (0, 501):
        with pytest.raises(BadInput):
            plain.take(n, consumer="w")
    taken = plain.take(499, consumer="w")
    assert len(taken.deliveries) == 499 and taken.more
    assert not plain.take(500, consumer="w").more


def test_invariants_notice_what_is_broken(plain: Queue, client: redis.Redis) -> None:
    plain.push(["a", "b", "c"])
    take(plain, 1)
    client.rpop(plain.queue_key)
    client.zadd(plain.keys["dead"], {"a": 1, "x": 1})
    client.hset(plain.keys["spent"], "c", 1)
    said = plain.invariants()
    assert any("b has 0 elements" in line for line in said)
    assert any("a is in 2 states" in line for line in said)
    assert any("x is not known" in line for line in said)
    assert any("spent" in line for line in said)
    client.flushall()


# --- workers --------------------------------------------------------------------------------------


def test_a_worker_runs_each_shape_to_its_end(queue: Queue) -> None:
    ran: list[str] = []

    def handle(work: Work) -> None:
        if not ran:
            assert queue.push(work.id) == ["again"]
        ran.append(work.id)

    queue.clock = ServerClock()
    queue.push([f"e{n}" for n in range(50)])
    queue.client.lpush(queue.queue_key, "foreign")
    Worker(queue, handle, burst=True, batch=7).run()
    assert sorted(ran) == sorted([*(f"e{n}" for n in range(50)), "foreign", ran[0]])
    assert queue.counts().done == 52


@pytest.mark.parametrize("is_async", [False, True])
def test_an_id_whose_lease_was_lost_is_asked_about_before_it_runs_again(
    open_queue: Opener, clock: FakeClock, is_async: bool
) -> None:
    queue = open_queue()
    queue.push(["done", "not-done", "fails"])
    held = take(queue, 3)
    settle(queue, "fail", held[2])
    clock.now_ms += LEASE_MS
    asked: list[str] = []
    ran: list[str] = []

    def is_done(id: str) -> bool:
        asked.append(id)
        return id == "done"

    async def is_done_later(id: str) -> bool:
        return is_done(id)

    async def ahandle(work: Work) -> None:
        ran.append(work.id)

    queue.push("new")
    handler = (
        unless_done(is_done_later, ahandle)
        if is_async
        else unless_done(is_done, lambda work: ran.append(work.id))
    )
    Worker(queue, handler, burst=True).run()
    assert sorted(asked) == ["done", "not-done"]
    assert sorted(ran) == ["fails", "new", "not-done"]
    assert queue.counts().done == 4


def test_awaited_too(aclient: Callable[[], redis.asyncio.Redis]) -> None:
    async def go() -> list[str]:
        async with aclient() as client:
            queue = CircularQueue(client, "q")
            await queue.push(["a", "b"])
            taken = await queue.take(2, consumer="w")
            return await queue.settle([Settlement(d, "ack") for d in taken.deliveries])

    assert asyncio.run(go()) == ["done", "done"]


@pytest.fixture
def rounds(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Commands of every round trip."""
    seen: list[int] = []

    def counting(client: Any, calls: Any) -> Any:
        seen.append(len(calls))
        return exchange(client, calls)

    monkeypatch.setattr(operation, "exchange", counting)
    return seen


# --- operators ------------------------------------------------------------------------------------


@pytest.mark.slow
def test_operators_faces_know_it_as_any_queue(
    client: redis.Redis, url: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    redisq = Redisq(url, capsys)
    queue = CircularQueue(client, "docs", residence="rotate")
    queue.push(["1", ("2", b"\x00\xff two"), "3", "4", "5", "6"])
    one, two, three = queue.take(3, consumer="w1").deliveries
    queue.settle(
        [
            Settlement(one, "reject", Failure("Broken", "no such document").encoded()),
            Settlement(two, "fail", Failure("Busy").encoded(), 60),
        ]
    )
    client.lpush(queue.queue_key, "7", "*8")
    (row,) = redisq.rows("ls")
    assert {k: row[k] for k in ("name", "kind", "waiting", "pending", "delayed", "dead")} == {
        "name": "docs",
        "kind": "circular",
        "waiting": 5,
        "pending": 1,
        "delayed": 1,
        "dead": 1,
    }
    (entry,) = redisq.rows("inspect", "docs/3")
    assert (entry["state"], entry["owner_state"], entry["consumer"]) == (
        "pending",
        "in processing",
        "w1",
    )
    redisq("inspect", "docs")
    assert [row["id"] for row in redisq.rows("waiting", "ls", "docs")][:4] == ["4", "5", "6", "7"]
    assert [row["id"] for row in redisq.rows("pending", "ls", "docs")] == ["3"]
    assert [row["id"] for row in redisq.rows("delay", "ls", "docs")] == ["2"]
    redisq("dlq", "replay", "docs", "--yes")
    redisq("waiting", "purge", "docs/5", "--yes")
    assert [row["id"] for row in redisq.rows("trash", "ls", "docs")] == ["5"]
    redisq("undo", "--yes")
    redisq("delay", "requeue", "docs", "--yes")
    redisq("pending", "claim", "docs", "--consumer", "me", "--yes")
    assert queue.settle([Settlement(three, "ack")]) == ["stale"]
    redisq("pending", "requeue", "docs", "--yes")
    redisq("queue", "pause", "docs", "--reason", "lunch", "--yes")
    assert redisq.rows("ls")[0]["paused"]
    redisq("queue", "resume", "docs", "--yes")
    redisq("queue", "drain", "docs", "--yes")
    ran = tmp_path / "ran"
    append = f"import sys; open({str(ran)!r}, 'ab').write(sys.stdin.buffer.read() + b';')"
    exec_ = f"{sys.executable} -c {shlex.quote(append)}"
    redisq("work", "--queue", "docs", "--burst", "--exec", exec_)
    assert ran.read_bytes().count(b";") == 7
    assert b"\x00\xff two;" in ran.read_bytes()
    (letter,) = redisq.rows("dlq", "ls", "docs")
    assert (letter["reason"], letter["id"]) == ("invalid", name_of(b"*8"))
    redisq("dlq", "purge", "docs", "--hard", "--yes")
    assert redisq("fsck").splitlines() == ["docs: adds up"]
    redisq("queue", "rm", "docs", "--yes")
    assert {key for key in client.scan_iter() if b":rate:" not in key and b":op:" not in key} <= {
        b"redisq:{docs}:undo",
        b"redisq:registry",
    } | {key for key in client.scan_iter() if b":undo:" in key}


@pytest.mark.slow
def test_the_page_s_example_runs(url: str) -> None:
    page = (Path(__file__).parents[3] / "docs" / "explanation" / "circular-queue.md").read_text()
    code = page.split("```python\n")[1].split("```")[0].replace("redis://127.0.0.1:6379", url)
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.stdout == "indexed 123\nindexed 124\n['new']\n", done.stderr


def test_a_check_that_could_not_be_awaited_is_refused() -> None:
    async def is_done(id: str) -> bool:
        return False

    with pytest.raises(BadInput, match="async"):
        unless_done(is_done, lambda work: None)


def test_a_push_onto_what_was_lost_is_a_run_that_was_not(
    open_queue: Opener, clock: FakeClock
) -> None:
    """Else the application's check, asked about lost ones only, would end it before it began."""
    queue = open_queue()
    queue.push("123")
    take(queue)
    clock.now_ms += LEASE_MS + 1
    queue.sweep()
    assert queue.push([("123", b"new change")]) == ["queued"]
    (delivery,) = take(queue)
    assert (delivery.lost, delivery.payload) == (0, b"new change")

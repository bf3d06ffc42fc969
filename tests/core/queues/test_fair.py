"""The fair queue as its users know it, and the corners where it could go wrong."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import redis
import redis.asyncio

from redisq_ops.core.engine.idempotency import CallerSlots
from redisq_ops.core.model.clock import FakeClock
from redisq_ops.core.model.entry import Client, Delivery
from redisq_ops.core.model.errors import (
    BadInput,
    QueueClosed,
    QueueFull,
    Superseded,
    TooLarge,
    WrongKind,
)
from redisq_ops.core.model.keys import registry_key
from redisq_ops.core.model.ulid import ulids
from redisq_ops.core.queues.fair import FairQueue
from redisq_ops.core.redis import operation as io
from redisq_ops.core.redis.client import connect
from redisq_ops.core.redis.transport import exchange
from redisq_ops.core.worker import Worker
from redisq_ops.core.worker.retry import Retry
from redisq_ops.demo.server import EmbeddedServer
from redisq_ops.ops.change.audit_log import Author, find
from redisq_ops.ops.change.destroy import DestroySteps
from redisq_ops.ops.change.runner import ChangeRun, take_all
from redisq_ops.ops.change.undo import UndoSteps
from redisq_ops.ops.deployment import Deployment
from redisq_ops.ops.filter.filter import Filter
from redisq_ops.ops.filter.parser import parse
from redisq_ops.ops.filter.selection import select

from ...changes import entry_change
from ...command_line import Redisq
from ...model.wire import picture
from ...proxy import FlakyProxy
from ...queue_steps import ids, move, settle, take

Queue = FairQueue[redis.Redis]


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def queue(client: redis.Redis, clock: FakeClock) -> Iterator[Queue]:
    queue = FairQueue(client, "q", clock=clock)
    yield queue
    assert queue.invariants() == []


def put(queue: Queue, client: str, *ids: str) -> list[str]:
    """Entries whose payload is their id."""
    said = queue.submit(client, [(id, id.encode()) for id in ids])
    return [one.word for one in said]


def fill(queue: Queue, client: str, n: int) -> None:
    for low in range(0, n, 500):
        queue.submit(client, [(f"{client}-{k}", b"") for k in range(low, min(n, low + 500))])


def whose(deliveries: list[Delivery]) -> str:
    """Clients of one letter, in the order they were served."""
    return "".join(delivery.client or "?" for delivery in deliveries)


def waiting(queue: Queue, client: str | None = None) -> list[str]:
    """Ids in the order of pages, of one client if asked."""
    found, cursor = [], None
    while True:
        page = queue.page("waiting", cursor, 50)
        found += [e.id for e in page.entries if client is None or e.client == client]
        cursor = page.cursor
        if cursor is None:
            return found


# --- turns -------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_flood_of_100000_holds_nobody_up(queue: Queue) -> None:
    fill(queue, "flood", 100_000)
    before = whose(take(queue, 3))
    assert before == "flood" * 3
    small = [f"small-{n}" for n in range(50)]
    for name in small:
        fill(queue, name, 10)
    first = Counter(d.client for d in take(queue, 51))
    assert first == Counter(dict.fromkeys([*small, "flood"], 1)), "each once in the first batch"
    left = 9 * 51
    rest: Counter[str | None] = Counter()
    while left:
        got = take(queue, min(100, left))
        rest.update(d.client for d in got)
        assert max(rest.values()) - min(rest[name] for name in small) <= 1, "in turn, at any time"
        left -= len(got)
    assert rest == Counter(dict.fromkeys([*small, "flood"], 9))
    assert queue.clients(0, 1).clients[0] == Client("flood", 100_000 - 13, 13, 1, False, None), (
        "only the flood is left waiting, and lost nothing"
    )
    assert queue.counts().waiting == 100_000 - 13


def test_whoever_is_busy_all_the_time_gets_its_share(queue: Queue) -> None:
    """|served / weight| of any two never differs by more than a turn."""
    weights = {"a": 1, "b": 3, "c": 2, "d": 12}
    for name, weight in weights.items():
        queue.weigh(name, weight)
        fill(queue, name, 400)
    served: Counter[str] = Counter()
    for n in (1, 7, 2, 50, 13, 100, 1, 60):
        served.update(d.client or "" for d in take(queue, n))
        turns = [served[name] / weight for name, weight in weights.items()]
        assert max(turns) - min(turns) <= 1
    assert served.total() == 234
    assert served == {"a": 13, "b": 39, "c": 26, "d": 156}


def test_a_newcomer_neither_jumps_ahead_nor_waits_for_history(queue: Queue) -> None:
    fill(queue, "a", 300)
    fill(queue, "b", 300)
    take(queue, 200)
    put(queue, "n", *(f"n{k}" for k in range(20)))
    assert Counter(whose(take(queue, 30))) == {"a": 10, "b": 10, "n": 10}


def test_who_pauses_gets_no_more_than_who_stays(queue: Queue) -> None:
    """A client that always brings one entry has no advantage over one with a list."""
    fill(queue, "a", 100)
    served = Counter[str]()
    for k in range(30):
        put(queue, "z", f"z{k}")
        (delivery,) = take(queue, 1)
        served[delivery.client or ""] += 1
        settle(queue, "ack", delivery)
    assert served == {"a": 15, "z": 15}
    queue.weigh("a", 3)
    served.clear()
    for k in range(30, 70):
        put(queue, "z", f"z{k}")
        served.update(whose(take(queue, 1)))
    assert 29 <= served["a"] <= 31


def test_a_cap_leaves_room_for_the_others_and_costs_no_turn(
    queue: Queue, client: redis.Redis
) -> None:
    fill(queue, "a", 10)
    fill(queue, "b", 10)
    assert queue.limit("a", 2) == 0
    held = take(queue, 10)
    assert Counter(whose(held)) == {"a": 2, "b": 8}
    assert take(queue, 10, "w2")[-1].client == "b", "nothing more of a, whoever asks"
    assert take(queue) == []
    client.delete(queue.keys["wake"])
    mine = [d for d in held if d.client == "a"]
    assert settle(queue, "ack", mine[0]) == ["done"]
    assert client.llen(queue.keys["wake"]) == 1, "whose turn it is again wakes a worker"
    put(queue, "b", "more")
    assert whose(take(queue)) in ("ab", "ba")
    assert queue.limit("a", 0) == 2
    assert whose(take(queue)) == "a" * 7


def test_a_blocked_client_waits_and_comes_back_without_a_debt(queue: Queue) -> None:
    fill(queue, "a", 100)
    fill(queue, "b", 100)
    assert queue.block("a") and not queue.block("a")
    assert put(queue, "a", "later") == ["ok"]
    held = take(queue, 20)
    assert whose(held) == "b" * 20
    assert queue.unblock("a") and not queue.unblock("a")
    assert Counter(whose(take(queue, 21))) == {"a": 11, "b": 10}
    assert settle(queue, "ack", *held) == ["done"] * 20


def test_rules_have_bounds_and_an_inverse(queue: Queue) -> None:
    for weight in (0, 101, -1):
        with pytest.raises(BadInput, match="weight"):
            queue.weigh("a", weight)
    with pytest.raises(BadInput, match="cap"):
        queue.limit("a", -1)
    assert (queue.weigh("a", 3), queue.weigh("a", 1)) == (1, 3)
    assert queue.control("op", 1, "cap", "a", 7) == ("ok", 0)
    assert queue.control("op", 1, "cap", "a", 7) == ("ok", 0), "sent again"
    assert queue.control("op", 2, "cap", "a", 7) == ("same", 7)
    assert queue.get_client("a") == Client("a", 0, 0, 1, False, 7)
    assert queue.undo_change("back", 1, "cap", ["a", "0"]) == 1
    assert queue.get_client("a") is None
    (event,) = queue.history(1)
    assert event.what["op"] == ("back|cap|a|0",)


# --- producers ---------------------------------------------------------------------------------


def test_a_rule_s_change_is_told_once_and_a_late_one_changes_nothing(queue: Queue) -> None:
    assert queue.control("op", 2, "weight", "ann", 3) == ("ok", 1)
    assert queue.control("again", 1, "weight", "ann", 3) == ("same", 3)
    with pytest.raises(Superseded):
        queue.control("op", 1, "weight", "ann", 7)
    found = queue.get_client("ann")
    assert found is not None and found.weight == 3
    assert [(e.by, e.what) for e in queue.history(10)] == [("op", {"op": ("op|weight|ann|3",)})]


def test_entries_without_an_id_get_one_that_sorts_by_time(queue: Queue) -> None:
    said = queue.submit("a", [b"\x00one", b"", ("own", b"three")])
    assert [one.word for one in said] == ["ok"] * 3
    assert [len(one.id) for one in said] == [26, 26, 3]
    assert said[0].id < said[1].id < queue.submit("a", [b"next"])[0].id
    assert [d.payload for d in take(queue)] == [b"\x00one", b"", b"three", b"next"]
    many = ulids(1000, now_ms=lambda: 1, bits=lambda n: (1 << n) - 500)
    assert sorted(set(many)) == many


def test_payloads_come_back_byte_for_byte(queue: Queue) -> None:
    payloads = [b"", b" ", b"a b", b"\x00\xff\xfe", b"\r\n", bytes(range(256)), b"x" * 100_000]
    queue.submit("a", payloads)
    taken = take(queue)
    assert [d.payload for d in taken] == payloads
    assert [e.payload for e in queue.page("pending", payloads=True).entries] == payloads
    assert {e.client for e in queue.page("pending").entries} == {"a"}


@pytest.mark.parametrize(
    "name", ["ring", "a:b", "c:a", "accounts", "rq:", "[x]?", "processing", "^a-$"]
)
def test_clients_may_be_called_like_keys_and_patterns(queue: Queue, name: str) -> None:
    put(queue, name, "x", "ring", "a:b")
    put(queue, "a", "mine")
    queue.block(name)
    assert whose(take(queue)) == "a"
    queue.unblock(name)
    assert [d.client for d in take(queue)] == [name] * 3
    assert queue.clients().clients[0 if name < "a" else 1].pending == 3


@pytest.mark.parametrize("name", ["", "a b", "a*", "{a}", "a/b", "a|b", "ä", "x" * 129, "a\n"])
def test_names_that_cannot_be_used_are_refused_before_anything_is_written(
    client: redis.Redis, name: str
) -> None:
    queue = FairQueue(client, "q")
    with pytest.raises(BadInput):
        queue.submit(name, [b""])
    with pytest.raises(BadInput):
        queue.submit("a", [b"fine", (name, b"")])
    for act in (queue.block, queue.of):
        with pytest.raises(BadInput):
            act(name)
    assert list(client.scan_iter()) == []


def test_batches_and_payloads_have_bounds(queue: Queue) -> None:
    assert queue.submit("a", []) == []
    with pytest.raises(BadInput, match="501"):
        queue.submit("a", [b""] * 501)
    with pytest.raises(TooLarge):
        queue.submit("a", [b"x" * 11], max_payload=10)
    for n in (0, 501):
        with pytest.raises(BadInput):
            queue.take(n, consumer="w")
    for n in range(60):
        fill(queue, f"c{n}", 10)
    taken = queue.take(500, consumer="w")
    assert len(taken.deliveries) == 500 and taken.more
    assert not queue.take(500, consumer="w").more


def test_a_full_or_draining_queue_takes_nothing_new(client: redis.Redis, queue: Queue) -> None:
    queue.configure("op", 1, {"max_waiting": "3"})
    put(queue, "a", "a1", "a2")
    before = picture(client)
    with pytest.raises(QueueFull, match="2 entries wait"):
        put(queue, "b", "a1", "b1", "b2")
    assert picture(client) == before
    assert put(queue, "b", "b1") == ["ok"]
    assert put(queue, "a", "a1") == ["same"]
    queue.configure("op", 2, {"closed": "x"})
    with pytest.raises(QueueClosed):
        put(queue, "c", "c1")
    assert len(take(queue)) == 3, "what is there is worked off"


def test_a_list_of_another_type_is_found_before_anything_is_written(
    client: redis.Redis, queue: Queue
) -> None:
    put(queue, "b", "b0")
    client.set(queue.keys["c_"] + "a", "somebody else's")
    before = picture(client)
    with pytest.raises(WrongKind):
        put(queue, "a", "e")
    assert picture(client) == before


# --- coming back -------------------------------------------------------------------------------


def test_the_dead_keep_the_whole_record_and_come_back_behind_the_living(queue: Queue) -> None:
    put(queue, "a", "bad", "good")
    held = take(queue, 1)
    assert settle(queue, "reject", *held, value=b"boom") == ["dead"]
    (dead,) = queue.page("dead", payloads=True).entries
    assert (dead.id, dead.client, dead.payload, dead.reason) == ("bad", "a", b"bad", "rejected")
    assert dead.error and dead.error.message == "boom"
    assert move(queue, "replay", "replay", "dead", "bad") == ["moved"]
    assert ids(take(queue)) == ["good", "bad"]


def test_a_purged_entry_whose_place_is_gone_comes_back_first(queue: Queue) -> None:
    put(queue, "a", *(f"e{n}" for n in range(6)))
    move(queue, "purge", "purge", "waiting", "e0", "e1", "e5")
    assert ids(take(queue, 1)) == ["e2"], "and its turn went past the holes"
    assert move(queue, "restore", "restore", "trash", "e0", "e1", "e5") == ["moved"] * 3
    assert ids(take(queue)) == ["e0", "e1", "e3", "e4", "e5"]


def test_an_id_purged_for_good_can_be_another_clients(queue: Queue) -> None:
    put(queue, "a", "e", "f")
    assert move(queue, "hard", "hard", "waiting", "e") == ["moved"]
    assert put(queue, "b", "e") == ["ok"]
    assert Counter(d.client for d in take(queue)) == {"a": 1, "b": 1}
    assert queue.get("e").client == "b"  # type: ignore[union-attr]


def test_holes_are_skipped_in_bounded_steps(queue: Queue) -> None:
    """Who meets a thousand purged entries is told that there may be more, not kept waiting."""
    fill(queue, "a", 1200)
    for low in range(0, 1100, 100):
        names = [f"a-{n}" for n in range(low, low + 100)]
        assert set(move(queue, f"purge-{low}", "purge", "waiting", *names)) == {"moved"}
    found: list[Delivery] = []
    looks = 0
    while not found:
        taken = queue.take(10, consumer="w")
        found += taken.deliveries
        looks += 1
        assert found or taken.more
    assert 2 <= looks <= 3
    assert ids(found) == [f"a-{n}" for n in range(1100, 1110)][: len(found)]


@pytest.mark.slow
def test_garbage_is_packed_away_a_little_at_a_time(client: redis.Redis, queue: Queue) -> None:
    fill(queue, "a", 3000)
    gone = [f"a-{n}" for n in range(3000) if n % 3]
    for low in range(0, len(gone), 500):
        move(queue, f"hard-{low}", "hard", "waiting", *gone[low : low + 500])
    kept = [f"a-{n}" for n in range(0, 3000, 3)]
    assert client.llen(queue.keys["c_"] + "a") == 3000
    assert waiting(queue) == kept
    assert queue.sweep() > 0
    assert queue.invariants() == []
    assert waiting(queue) == kept, "half packed"
    put(queue, "a", "new")
    held = take(queue, 2)
    assert ids(held) == kept[:2]
    assert settle(queue, "release", *held) == ["released"] * 2
    sweeps = 1
    while queue.sweep():
        sweeps += 1
        assert queue.invariants() == []
    assert 6 <= sweeps <= 8, "500 a step"
    assert waiting(queue) == [*kept, "new"]
    assert client.llen(queue.keys["c_"] + "a") == 1001
    assert not client.exists(queue.keys["holes"], queue.keys["f_"] + "a")


def test_a_list_that_lost_its_key_does_not_hold_up_the_others(
    client: redis.Redis, clock: FakeClock
) -> None:
    queue = FairQueue(client, "q", clock=clock)
    fill(queue, "a", 5)
    fill(queue, "b", 5)
    client.delete(queue.keys["c_"] + "a")
    assert whose(take(queue)) == "b" * 5
    assert put(queue, "a", "new") == ["ok"]
    assert ids(take(queue)) == ["new"]
    assert any("no state" in said for said in queue.invariants()), "fsck tells of what was lost"


def test_accounts_and_lists_that_were_removed_stop_nothing(
    client: redis.Redis, clock: FakeClock
) -> None:
    queue = FairQueue(client, "q", clock=clock)
    fill(queue, "a", 20)
    fill(queue, "b", 3)
    held = take(queue, 4)
    client.hdel(queue.keys["accounts"], "a", "b")
    assert settle(queue, "ack", held[0]) == ["done"]
    assert settle(queue, "release", *held[1:3]) == ["released"] * 2
    assert settle(queue, "fail", held[3]) == ["retry"]
    assert len(take(queue)) == 3
    for n in range(5, 12):
        move(queue, f"hard-{n}", "hard", "waiting", f"a-{n}")
    client.delete(queue.keys["c_"] + "a")
    for _ in range(5):
        queue.sweep()
    assert queue.sweep() == 0
    assert put(queue, "a", "new") == ["ok"]
    assert "new" in ids(take(queue))


# --- clients, pages ----------------------------------------------------------------------------


def test_one_clients_view(queue: Queue) -> None:
    ann = queue.of("ann")
    assert (ann.length(), ann.exists()) == (0, False)
    assert [one.word for one in ann.submit([b"1", ("two", b"2")])] == ["ok", "ok"]
    queue.submit("bob", [b"3"])
    assert (ann.length(), ann.exists()) == (2, True)
    assert ann.block() and ann.unblock() and ann.weigh(2) == 1 and ann.limit(9) == 0
    assert queue.clients().clients == (
        Client("ann", 2, 0, 2, False, 9),
        Client("bob", 1, 0, 1, False, None),
    )
    gone = ann.delete("delete-ann")
    assert (gone.steps, gone.entries) == (1, 2)
    assert ann.length() == 0 and ann.exists(), "its rules stay"
    assert queue.counts().waiting == 1


def test_a_client_without_work_or_rules_is_forgotten(client: redis.Redis, queue: Queue) -> None:
    for n in range(30):
        queue.submit(f"c{n}", [b""])
        settle(queue, "ack", *take(queue))
    put(queue, "z", "z0")
    queue.sweep()
    assert [c.client for c in queue.clients().clients] == ["z"]
    assert client.hlen(queue.keys["accounts"]) == 1


def test_deleting_goes_in_steps_and_back_to_the_old_order(queue: Queue) -> None:
    fill(queue, "a", 730)
    fill(queue, "b", 5)
    (pending,) = take(queue, 1)
    order = waiting(queue)
    gone = queue.delete("a", "delete-a")
    assert (gone.steps, gone.entries) == (8, 729)
    assert queue.delete("a", "delete-a").entries == 0
    assert [c.client for c in queue.clients().clients if c.waiting] == ["b"]
    back = [
        queue.undo("delete-a", step, target="trash", by="back", seq=9 - step)
        for step in range(gone.steps, 0, -1)
    ]
    assert sum(n for n, _ in back) == 729
    assert waiting(queue) == order
    assert settle(queue, "ack", pending) == ["done"]


def test_a_page_is_exact_under_pushes_and_pops(queue: Queue) -> None:
    for name in ("a", "b", "c"):
        fill(queue, name, 100)
    stayed = [f"{name}-{n}" for name in ("a", "b", "c") for n in range(40, 100)]
    seen: list[str] = []
    cursor, k = None, 0
    while True:
        page = queue.page("waiting", cursor, 7)
        assert len(page.entries) <= 7
        seen += [entry.id for entry in page.entries]
        cursor = page.cursor
        if cursor is None:
            break
        k += 1
        held = take(queue, 2)
        settle(queue, "release" if k % 3 else "ack", *held)
        put(queue, "b", f"late-{k}")
    assert [id for id in seen if id in set(stayed)] == stayed, "each once, and in order"
    assert len(seen) == len(set(seen))


def test_a_page_is_exact_while_workers_go_on(
    client: redis.Redis, queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between any two round trips of a page entries go, and come back in front."""
    for name in ("a", "b"):
        fill(queue, name, 700)
    stayed = [f"{name}-{n}" for name in ("a", "b") for n in range(400, 700)]
    real, busy = exchange, [False]
    held: list[Delivery] = []

    def meanwhile(*args: Any) -> Any:
        if not busy[0]:
            busy[0] = True
            if len(held) > 30:
                settle(queue, "release", *[held.pop() for _ in range(10)])
            if queue.counts().waiting > 700:
                held.extend(take(queue, 24))
            busy[0] = False
        return real(*args)

    monkeypatch.setattr(io, "exchange", meanwhile)
    seen: list[str] = []
    cursor = None
    while True:
        busy[0] = False
        page = queue.page("waiting", cursor, 50)
        seen += [entry.id for entry in page.entries]
        cursor = page.cursor
        if cursor is None:
            break
    busy[0] = True
    assert [id for id in seen if id in set(stayed)] == stayed


def test_a_window_by_rank_goes_across_clients(queue: Queue) -> None:
    for n in range(12):
        fill(queue, f"c{n:02}", 10)
    order = waiting(queue)
    assert len(order) == 120
    for start, size in ((0, 5), (7, 30), (95, 100), (119, 1), (120, 10)):
        page = queue.page("waiting", start=start, max=size)
        assert [entry.id for entry in page.entries] == order[start : start + size]
        assert page.total == 120


def test_pages_cost_a_bounded_number_of_round_trips(
    queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    for n in range(300):
        queue.submit(f"c{n:03}", [b""] * (2 if n % 50 else 400))
    rounds: list[int] = []
    real = exchange

    def counted(*args: Any) -> Any:
        rounds.append(1)
        return real(*args)

    monkeypatch.setattr(io, "exchange", counted)
    costs, cursor, seen = [], None, 0
    while True:
        rounds.clear()
        page = queue.page("waiting", cursor, 100)
        costs.append(len(rounds))
        seen += len(page.entries)
        cursor = page.cursor
        if cursor is None:
            break
    assert seen == page.total == 294 * 2 + 6 * 400
    assert max(costs) <= 12 and sum(costs) / len(costs) <= 6


def test_an_entry_is_found_wherever_it_is(queue: Queue) -> None:
    put(queue, "a", "e", "f")
    entry = queue.get("f")
    assert entry and (entry.state, entry.client, entry.payload) == ("waiting", "a", b"f")
    (held,) = take(queue, 1)
    entry = queue.get("e")
    assert entry and (entry.state, entry.client, entry.payload) == ("pending", "a", b"e")
    settle(queue, "ack", held)
    assert queue.get("e") is None


# --- beside other parts ------------------------------------------------------------------------


def test_a_worker_works_it_off(client: redis.Redis) -> None:
    queue = FairQueue(client, "q")
    for name in ("a", "b"):
        queue.submit(name, [f"{name}{n}".encode() for n in range(20)])
    done: list[tuple[str | None, bytes]] = []
    failed: list[str] = []

    def handle(delivery: Any) -> None:
        if delivery.payload == b"a3" and not failed:
            failed.append(delivery.id)
            raise Retry(after=0)
        done.append((delivery.delivery.client, delivery.payload))

    Worker(queue, handle, burst=True, batch=5).run()
    assert len(done) == 40 and len(failed) == 1
    queue.sweep()
    assert queue.counts().done == 40 and queue.clients().total == 0


async def drive(change: Any) -> None:
    while await change.step():
        pass


def test_operators_find_it_without_knowing_it(
    client: redis.Redis, url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    redisq = Redisq(url, capsys)
    queue = FairQueue(client, "jobs")
    for name in ("ann", "bob"):
        queue.submit(name, [(f"{name}{n}", b"x") for n in range(5)])
    settle(queue, "reject", *take(queue, 2))
    (held,) = take(queue, 1)
    (listed,) = redisq.rows("ls")
    assert [listed[k] for k in ("name", "kind", "waiting", "pending", "dead")] == [
        "jobs",
        "fair",
        7,
        1,
        2,
    ]
    (shown,) = redisq.rows("inspect", "jobs")
    assert shown["clients"] == [
        {
            "queue": "jobs",
            "name": "ann",
            "waiting": 3,
            "pending": 1,
            "weight": 1,
            "blocked": False,
            "cap": None,
            "rate": None,
            "rests": False,
        },
        {
            "queue": "jobs",
            "name": "bob",
            "waiting": 4,
            "pending": 0,
            "weight": 1,
            "blocked": False,
            "cap": None,
            "rate": None,
            "rests": False,
        },
    ]
    assert "bob" in redisq("inspect", "jobs")
    (pending,) = redisq.rows("pending", "ls", "--queue", "jobs")
    assert (pending["id"], pending["client"]) == (held.id, held.client)
    assert {row["client"] for row in redisq.rows("dlq", "ls", "--queue", "jobs")} == {"ann", "bob"}
    settle(queue, "release", held)
    assert redisq.rows("replay", "--queue", "jobs", "--yes")[-1]["done"] == 2
    redisq("work", "--queue", "jobs", "--burst", "--exec", "true")
    assert queue.counts().done == 10


def test_one_clients_entries_are_purged_and_brought_back_through_the_journal(
    client: redis.Redis,
) -> None:
    queue = FairQueue(client, "jobs")
    for name in ("ann", "bob"):
        fill(queue, name, 60)
    order = waiting(queue)
    chosen = io.run(client, select(queue, "waiting", Filter(where=parse("client=ann"))))
    assert chosen.count == 60
    author = Author("eve", "here", "test")
    bulk = entry_change(chosen, "purge", author)
    io.run(client, drive(bulk))
    assert bulk.outcome.done == 60
    assert waiting(queue) == [id for id in order if id.startswith("bob")]
    where, operation = io.run(client, find(Deployment(client), bulk.outcome.op or ""))
    io.run(client, drive(ChangeRun(UndoSteps(where, operation), author)))
    assert waiting(queue) == order


@pytest.mark.parametrize(
    "act",
    [
        lambda q: q.submit("ann", [("new", b"\x00"), ("e1", b"e1"), ("e1", b"other")]),
        lambda q: q.take(3, consumer="w"),
        lambda q: settle(q, "fail", *take(q, 2)),
        lambda q: q.weigh("ann", 5),
        lambda q: (q.block("ann"), q.limit("bob", 2), q.unblock("ann")),
        lambda q: q.delete("ann", "gone", 2),
        lambda q: q.of("bob").submit([("b9", b"")]),
    ],
)
def test_a_lost_reply_has_no_effect(
    server: EmbeddedServer, client: redis.Redis, act: Callable[[Any], Any]
) -> None:
    """Each reply is lost once: the client sends again, and everything happens once."""

    def scene() -> FairQueue[Any]:
        client.flushall()
        queue = FairQueue(client, "q", clock=FakeClock(), callers=CallerSlots(lambda: "me"))
        client.hset(registry_key(), "q", '{"kind": "fair", "schema": 1}')
        put(queue, "ann", "e0", "e1", "e2", "e3")
        put(queue, "bob", "b0", "b1")
        return queue

    def seen() -> dict[bytes, Any]:
        return {key: rows for key, rows in picture(client).items() if not key.endswith(b":hist")}

    peace = scene()
    expected, should = act(peace), seen()
    with FlakyProxy(server.port) as proxy, connect(proxy.url) as unlucky:
        war = scene()
        other = FairQueue(unlucky, "q", clock=war.clock, callers=war.callers)
        other._registered = True
        proxy.drop_replies(1)
        assert act(other) == expected
        assert sum(proxy.seen.values()) > 1
        assert seen() == should


def test_nothing_is_left_of_a_queue_that_is_destroyed(client: redis.Redis) -> None:
    queue = FairQueue(client, "jobs")
    for n in range(120):
        fill(queue, f"c{n}", 3)
    settle(queue, "reject", *take(queue, 5))
    take(queue, 5)
    queue.delete("c7", "gone")
    io.run(client, take_all(ChangeRun(DestroySteps(queue, hard=True), Author("eve", "here", ""))))
    left = [
        key
        for key in client.scan_iter()
        if not key.startswith((b"redisq:{jobs}:undo:", b"redisq:{jobs}:rate:"))
    ]
    assert left in ([], [b"redisq:{jobs}:op:gone"])


def test_the_examples_of_its_page_run(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    page = Path(__file__).parents[3] / "docs" / "explanation" / "fair-queue.md"
    one, rules, shards = re.findall(r"```python\n(.*?)```", page.read_text(), re.S)
    names: dict[str, Any] = {}
    exec((one + rules).replace("redis://127.0.0.1:6379", url), names)
    said = capsys.readouterr().out.split("\n")
    assert said == ["ann b'one'", "bob b'four'", "ann b'two'", "ann b'three'", ""]
    exec(shards.replace("jobs", "more"), names | {"client": names["jobs"].client})


def test_awaited_as_well(aclient: Callable[[], redis.asyncio.Redis]) -> None:
    async def awaited() -> None:
        async with aclient() as client:
            queue = FairQueue(client, "q")
            await queue.submit("a", [b"1", b"2"])
            await queue.of("b").submit([b"3"])
            taken = await queue.take(5, consumer="w")
            assert [d.payload for d in taken.deliveries] == [b"1", b"3", b"2"]
            assert await queue.of("a").length() == 0
            assert (await queue.clients()).total == 2

    asyncio.run(awaited())


@pytest.mark.parametrize("done", [1, 2])
def test_a_delete_that_was_killed_is_gone_on_with(queue: Queue, done: int) -> None:
    put(queue, "a", *"abcdef")
    for step in range(1, done + 1):
        some = [entry.id for entry in queue.page("waiting", max=2).entries]
        queue.move("op1", step, some, source="waiting", target="trash", high_water_ms=queue.now())
    deleted = queue.delete("a", "op1", 2)
    assert (deleted.steps, deleted.entries) == (3, 6 - 2 * done)
    assert (queue.counts().waiting, queue.counts().trash) == (0, 6)
    for step in (3, 2, 1):
        assert queue.undo("op1", step, target="trash", by="me", seq=4 - step) == (2, 0)
    assert ids(take(queue)) == list("abcdef")


def test_one_clients_holes_are_not_the_others_wait(queue: Queue) -> None:
    fill(queue, "a", 3_000)
    queue.delete("a", "op1")
    put(queue, "b", "b1")
    put(queue, "a", "a1")
    assert "b1" in ids(take(queue, 10))


def test_undone_after_its_turn_the_order_is_kept(queue: Queue) -> None:
    put(queue, "a", "i0", "i1", "i2", "i3", "i4")
    queue.move(
        "op1", 1, ["i0", "i1", "i2"], source="waiting", target="trash", high_water_ms=queue.now()
    )
    settle(queue, "ack", *take(queue, 1))
    assert queue.undo("op1", 1, target="trash", by="me", seq=1) == (3, 0)
    assert ids(take(queue)) == ["i0", "i1", "i2", "i4"]


def test_packing_loses_no_id_whatever_the_counts_say(client: redis.Redis, queue: Queue) -> None:
    """Counts and list apart, as an eviction or a hand leaves them: the list is what counts."""
    put(queue, "a", *(f"e{n}" for n in range(1500)[:500]))
    put(queue, "a", *(f"e{n}" for n in range(500, 1000)))
    move(queue, "p", "hard", "waiting", *(f"e{n}" for n in range(200)))
    client.hset(queue.keys["accounts"], "a", "100 0 0 0 200 200 0 1 0 0")  # 800 wait
    for _ in range(20):
        queue.sweep()
    left = [f"e{n}" for n in range(200, 1000)]
    assert client.lrange(queue.keys["c_"] + "a", 0, -1) == [id.encode() for id in left]
    client.hset(queue.keys["stat"], "waiting", 800)
    assert [d.id for _ in range(8) for d in take(queue)] == left


def test_a_front_part_that_was_removed_takes_nothing_with_it(
    client: redis.Redis, queue: Queue
) -> None:
    for low in (0, 500):
        put(queue, "a", *(f"e{n}" for n in range(low, low + 500)))
    move(queue, "p", "hard", "waiting", *(f"e{n}" for n in range(400, 600)))
    queue.sweep()
    assert client.llen(queue.keys["f_"] + "a") == 400
    client.delete(queue.keys["f_"] + "a")
    got = [d.id for _ in range(8) for d in take(queue)]
    assert got == [f"e{n}" for n in range(600, 1000)]
    for n in range(400):  # what was removed by hand has no place any more
        client.hdel(queue.keys["body"], f"e{n}")

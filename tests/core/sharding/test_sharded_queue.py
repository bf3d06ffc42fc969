"""One queue over several shards: routing, fair takes, and changing their number under load."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from random import Random
from typing import Any, TypeVar

import pytest
import redis
import redis.asyncio

from redisq_ops.core.engine.registry import find, forget
from redisq_ops.core.model.activity import Activity
from redisq_ops.core.model.clock import FakeClock
from redisq_ops.core.model.entry import Settlement, State
from redisq_ops.core.model.errors import BadInput, Exists, NotFound, QueueClosed, Refused, WrongKind
from redisq_ops.core.queues.delay import DelaySet, Periodic, ShardedDelaySet
from redisq_ops.core.queues.request import RequestQueue, ShardedRequestQueue
from redisq_ops.core.redis import operation as io
from redisq_ops.core.redis.client import connect
from redisq_ops.core.redis.operation import BlockingClient, Description, run
from redisq_ops.core.redis.transport import exchange
from redisq_ops.core.sharding.shard_map import home
from redisq_ops.core.worker import Worker
from redisq_ops.demo.server import cluster
from redisq_ops.ops.change.audit_log import Author
from redisq_ops.ops.change.audit_log import find as find_operation
from redisq_ops.ops.change.destroy import destroyable
from redisq_ops.ops.change.runner import ChangeRun
from redisq_ops.ops.change.undo import UndoSteps
from redisq_ops.ops.deployment import Deployment
from redisq_ops.ops.filter.filter import Filter
from redisq_ops.ops.filter.selection import select

from ...changes import entry_change
from ...conftest import BINARIES
from ...dead_entries import KINDS
from ...queue_steps import Killed, kills, numbered, run_until

T = TypeVar("T")
Set = ShardedDelaySet[BlockingClient]
Mail = ShardedRequestQueue[BlockingClient]


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def open_set(client: redis.Redis, clock: FakeClock) -> Callable[..., Set]:
    """Opens the same queue as another process would."""
    return lambda shards=12, seed=1: ShardedDelaySet(
        client, "later", shards=shards, clock=clock, random=Random(seed)
    )


@pytest.fixture
def later(open_set: Callable[..., Set]) -> Set:
    return open_set()


@pytest.fixture
def open_mail(client: redis.Redis, clock: FakeClock) -> Callable[..., Mail]:
    return lambda shards=4, seed=1: ShardedRequestQueue(
        client, "mail", shards=shards, clock=clock, random=Random(seed)
    )


@pytest.fixture
def rounds(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Commands of every round trip."""
    seen: list[int] = []

    def counting(client: Any, calls: Any) -> Any:
        seen.append(len(calls))
        return exchange(client, calls)

    monkeypatch.setattr(io, "exchange", counting)
    return seen


def put(later: Set, ids: list[str], at_ms: int, mode: Any = "new") -> list[str]:
    said = later.schedule([(id, id.encode()) for id in ids], at=at_ms / 1000, mode=mode)
    return [one.word for one in said]


def ack_all(later: Set, consumer: str = "w") -> list[str]:
    """Everything that is due, worked on and acknowledged."""
    ran: list[str] = []
    while taken := later.take(100, consumer=consumer).deliveries:
        assert later.settle([Settlement(d, "ack") for d in taken]) == ["done"] * len(taken)
        assert all(d.payload == d.id.encode() for d in taken)
        ran += [d.id for d in taken]
    return ran


def one_per_shard(shards: int = 12) -> list[str]:
    found: dict[int, str] = {}
    n = 0
    while len(found) < shards:
        found.setdefault(home(f"e{n}", shards), f"e{n}")
        n += 1
    return [found[k] for k in range(shards)]


def ids(n: int) -> list[str]:
    return [f"id-{i}" for i in range(n)]


# --- routing --------------------------------------------------------------------------------------


def test_entries_are_spread_and_each_is_at_its_home(
    later: Set, client: redis.Redis, clock: FakeClock
) -> None:
    assert put(later, ids(600), clock.now_ms) == ["ok"] * 600
    assert put(later, ids(600), clock.now_ms) == ["same"] * 600
    sizes = [client.zcard(keys["delay"]) for keys in later.shard_keys]
    assert sum(sizes) == 600
    assert min(sizes) > 25
    assert client.exists("redisq:{later}:delay", "redisq:{later/11}:delay") == 2
    assert later.counts().waiting == 600
    assert sorted(ack_all(later)) == sorted(ids(600))
    assert later.counts().done == 600
    assert later.invariants() == []


def test_home_is_the_same_for_ever() -> None:
    # Written down: another release that computes other homes would lose sight of entries.
    assert [home(id, 12) for id in ("a", "mail-1", "order/17", "order/99", "order")] == [
        0x7C87 % 12,
        home("mail-1", 12),
        home("order", 12),
        home("order", 12),
        home("order", 12),
    ]
    assert home("report@1700000000000", 12) == 0
    assert home("123456789", 16384) == 0x31C3  # the value the cluster specification gives


def test_the_registry_says_how_many_shards_there_are(
    later: Set, open_set: Callable[..., Set], client: redis.Redis, clock: FakeClock
) -> None:
    put(later, ids(50), clock.now_ms)
    other = open_set(shards=3)
    assert put(other, ids(50), clock.now_ms) == ["same"] * 50
    assert open_set(shards=5).counts().waiting == 50
    plain = DelaySet(client, "later", clock=clock)
    with pytest.raises(WrongKind, match="has shards"):
        plain.schedule([("x", b"")], at=0)
    with pytest.raises(BadInput, match="1 to 256"):
        open_set(shards=0)


def test_looking_creates_nothing(later: Set, client: redis.Redis) -> None:
    assert later.counts().waiting == 0
    assert later.get("nothing") is None
    assert later.page("dead").entries == ()
    with pytest.raises(NotFound):
        later.resize(3)
    assert client.dbsize() == 0


# --- taking ---------------------------------------------------------------------------------------


def test_one_worker_finds_every_due_entry_within_one_round(later: Set, clock: FakeClock) -> None:
    everywhere = one_per_shard()
    put(later, everywhere, clock.now_ms)
    found = [later.take(consumer="w").deliveries for _ in range(12)]
    assert sorted(d.id for (d,) in found) == sorted(everywhere)
    assert later.take(consumer="w").deliveries == ()


@pytest.mark.parametrize("n", [12, 30, 100])
def test_one_take_visits_all_shards_in_few_round_trips(
    later: Set, clock: FakeClock, rounds: list[int], n: int
) -> None:
    everywhere = one_per_shard()
    put(later, everywhere, clock.now_ms)
    rounds.clear()
    taken = later.take(n, consumer="w")
    assert sorted(d.id for d in taken.deliveries) == sorted(everywhere)
    assert not taken.more
    assert len(rounds) <= 4


def test_activity_is_that_of_all_shards(later: Set, clock: FakeClock) -> None:
    assert later.activity(0) == Activity(None, 0, None, 0, far_ahead=0, signs=())
    put(later, ids(40), clock.now_ms)
    taken = later.take(20, consumer="w", lease=30).deliveries
    clock.advance(1)
    taken += later.take(20, consumer="v", lease=9).deliveries
    first, rest = taken[0], taken[1:]
    later.settle([Settlement(each, "reject") for each in (first, *rest[:4])])
    clock.advance(1)
    later.settle([Settlement(each, "reject") for each in rest[4:10]])
    seen = later.activity(clock.now_ms)
    assert (seen.asked_ms, seen.dead_lately) == (clock.now_ms - 1_000, 6)
    assert seen.deadline_ms == min(each.deadline_ms for each in rest[10:])
    assert seen.askers and later.activity(clock.now_ms - 1_000).dead_lately == 11


def test_a_crowded_shard_is_emptied_too(later: Set, clock: FakeClock, rounds: list[int]) -> None:
    crowd = [id for id in ids(4000) if home(id, 12) == 7][:150]
    put(later, [*crowd, *(set(one_per_shard()) - set(crowd))], clock.now_ms)
    total = later.counts().waiting
    ran = ack_all(later)
    assert len(ran) == len(set(ran)) == total
    assert len(rounds) <= 25


def test_the_next_due_goes_first(later: Set, clock: FakeClock) -> None:
    times = {id: clock.now_ms - 1000 * k for k, id in enumerate(ids(40))}
    for id, at in times.items():
        put(later, [id], at)
    order = [later.take(consumer="w").deliveries[0].id for _ in ids(40)]
    assert order == sorted(times, key=lambda id: times[id])


def test_looks_begin_at_random_among_equals(open_set: Callable[..., Set], clock: FakeClock) -> None:
    everywhere = one_per_shard()
    put(open_set(), everywhere, clock.now_ms)
    first = {open_set(seed=seed).take(consumer=f"w{seed}").deliveries[0].id for seed in range(8)}
    assert len(first) == 8  # each took another one
    later = open_set(seed=99)
    assert len(later.take(12, consumer="w").deliveries) == 4


def test_of_idle_workers_one_watches_for_the_next(later: Set, clock: FakeClock) -> None:
    put(later, ["soon"], clock.now_ms + 5000)
    put(later, ["late"], clock.now_ms + 9000)
    looks = [later.take(consumer=f"w{n}").look_again_ms for n in range(5)]
    assert [look for look in looks if look] == [clock.now_ms + 5000]


def test_an_idle_look_is_one_round_trip(later: Set, rounds: list[int]) -> None:
    later.take(consumer="w")
    rounds.clear()
    later.take(consumer="w")
    assert len(rounds) == 1


def test_receipts_of_two_shards_are_not_mixed_up(later: Set, clock: FakeClock) -> None:
    a, b = one_per_shard()[:2]
    put(later, [a, b], clock.now_ms)
    taken = {d.id: d for d in later.take(2, consumer="w").deliveries}
    assert taken[a].receipt.split(":")[1] == taken[b].receipt.split(":")[1]  # each counts from 1
    assert later.settle([Settlement(taken[b], "fail", b"", 0.01), Settlement(taken[a], "ack")]) == [
        "retry",
        "done",
    ]
    assert later.extend([taken[a], taken[b]]) == [False, False]


def test_overdue_leases_come_back_from_every_shard(later: Set, clock: FakeClock) -> None:
    put(later, ids(60), clock.now_ms)
    first = [d for _ in range(2) for d in later.take(60, consumer="a", lease=1).deliveries]
    assert len(first) == 60
    assert later.extend(first[:10], 5) == [True] * 10
    clock.advance(2)
    again = [d for _ in range(3) for d in later.take(60, consumer="w").deliveries]
    assert {d.id for d in again} == {d.id for d in first[10:]}
    assert later.settle([Settlement(d, "ack") for d in first[10:]]) == ["stale"] * 50
    assert later.settle([Settlement(d, "ack") for d in [*again, *first[:10]]]) == ["done"] * 60


def test_a_turn_settles_and_looks_in_one_round_trip(
    later: Set, clock: FakeClock, rounds: list[int]
) -> None:
    put(later, ids(8), clock.now_ms)
    first = later.take(4, consumer="w").deliveries
    rounds.clear()
    said, taken = later.settle_and_take([Settlement(d, "ack") for d in first], 4, consumer="w")
    assert said == ["done"] * 4
    assert len(taken.deliveries) == 4
    assert len(rounds) <= 4


# --- looking --------------------------------------------------------------------------------------


def test_pages_are_merged_by_time(later: Set, clock: FakeClock) -> None:
    random = Random(5)
    times = {id: clock.now_ms + random.randrange(-20, 20) * 1000 for id in ids(300)}
    for at in sorted(set(times.values())):
        put(later, [id for id in times if times[id] == at], at)
    states: list[tuple[State, bool]] = [("waiting", True), ("delayed", False)]
    for state, due in states:
        expected = sorted((at, id) for id, at in times.items() if (at <= clock.now_ms) == due)
        found: list[tuple[int | None, str]] = []
        cursor = None
        while True:
            page = later.page(state, cursor, 37, payloads=True)
            assert page.total == len(expected)
            assert all(e.payload == e.id.encode() for e in page.entries)
            found += [(e.at_ms, e.id) for e in page.entries]
            cursor = page.cursor
            if cursor is None:
                break
        assert found == expected
        for start in (0, 1, 17, len(expected) - 3, len(expected), len(expected) + 50):
            window = later.page(state, start=start, max=20)
            assert [(e.at_ms, e.id) for e in window.entries] == expected[start : start + 20]
    assert later.due_counts([0, clock.now_ms + 1, clock.now_ms + 100_000]) == [
        later.counts().waiting,
        later.counts().delayed,
    ]


def test_a_page_deep_in_entries_of_one_time_reads_no_more_than_a_page(
    later: Set, clock: FakeClock
) -> None:
    names = [f"e{n:05}" for n in range(12_000)]
    for at in range(0, len(names), 500):
        later.schedule(
            [(name, b"x" * 100) for name in names[at : at + 500]], at=clock.now_ms / 1000
        )
    random = Random(7)
    for start in (0, 1, 11_990, 11_999, 12_000, *(random.randrange(12_000) for _ in range(5))):
        before = later.client.info("stats")["total_net_output_bytes"]
        window = later.page("waiting", start=start, max=20)
        assert [entry.id for entry in window.entries] == names[start : start + 20]
        read = later.client.info("stats")["total_net_output_bytes"] - before
        assert read < 150_000, "all of them are over two megabytes"


def test_bulk_moves_and_their_undo_reach_every_shard(later: Set, clock: FakeClock) -> None:
    put(later, ids(100), clock.now_ms + 1000)
    said = later.move(
        "op", 1, [*ids(100), "nobody"], source="delayed", target="trash", high_water_ms=clock.now_ms
    )
    assert said == ["moved"] * 100 + ["changed"]
    assert later.counts().trash == 100
    assert later.undo("op", 1, target="trash", by="u", seq=1) == (100, 0)
    assert later.counts().delayed == 100
    assert later.get("id-7").at_ms == clock.now_ms + 1000  # type: ignore[union-attr]


def test_a_bulk_move_by_a_process_that_knows_an_old_number_reaches_every_entry(
    open_set: Callable[..., Set], clock: FakeClock
) -> None:
    names, now = ids(60), clock.now_ms
    old = open_set(2)
    put(old, names, now + 1000)
    assert open_set().resize(5) == 0
    said = old.move("op", 1, names, source="delayed", target="trash", high_water_ms=now)
    assert said == ["moved"] * 60
    old = open_set()
    assert open_set().resize(3) == 0
    rows = [(name, name.encode(), b"other") for name in names]
    assert old.edit("op2", 1, rows, source="trash", high_water_ms=now) == ["moved"] * 60


def test_an_id_that_names_no_request_is_none_of_any_shard(client: redis.Redis) -> None:
    queue = ShardedRequestQueue(client, "q", shards=3)
    queue.submit([b"a"], id="r1")
    ids = ["/1", "", "r1", "r1/1"]
    said = queue.move(
        "op", 1, ids, source="waiting", target="trash", high_water_ms=queue.now() + 1000
    )
    assert said == ["changed", "changed", "changed", "moved"]


def test_flags_counts_history_and_rates_are_of_the_whole(
    later: Set, client: redis.Redis, clock: FakeClock
) -> None:
    later.configure("op", 1, {"history": "all", "paused": "a b"})
    put(later, ids(50), clock.now_ms)
    assert later.take(50, consumer="w").deliveries == ()
    assert later.counts().paused
    assert later.settings()["paused"] == "a b"
    assert later.undo_change("op", 2, "set", ["paused", "", "a%20b"]) == 1
    assert len(ack_all(later)) == 50
    rates = later.rates(clock.now_ms, 2)
    assert (rates.arrived[-1], rates.settled[-1]) == (50, 50)
    events, before = [], "+"
    while page := later.history(7, before):
        events += page
        before = page[-1].id
    assert len(events) == later.history_length()
    items = Counter(item for e in events for item in e.what.get("submitted", ()))
    assert len(items) == items.total() == 50
    assert [e.id for e in events] == sorted((e.id for e in events), reverse=True)
    assert later.sweep() == 0
    while later.destroy_step():
        pass
    assert {key for key in client.scan_iter() if b"rate" not in key} == {b"redisq:registry"}


def test_rates_outlast_the_shards_that_counted_them(client: redis.Redis, clock: FakeClock) -> None:
    later = ShardedDelaySet(client, "later", shards=4, clock=clock)
    for n in range(3):
        put(later, ids(40), clock.now_ms)
        assert len(ack_all(later)) == 40
        clock.now_ms += (50 if n else 1) * 60_000  # over the edge of an hour, too
    clock.advance(3600)
    before = later.rates(clock.now_ms, 240)
    total = later.counts().done
    assert sum(before.arrived) == sum(before.settled) == total == 120
    hour = clock.now_ms // 3_600_000  # of which nothing was counted yet
    spoilt, other = f"{later.keys['rate_']}{hour}", f"redisq:{{later/3}}:rate:{hour}"
    client.mset({spoilt: "x", other: "x"})
    for shards in (2, 1, 3):
        while later.resize(shards):
            pass
        client.delete(spoilt)
        assert later.rates(clock.now_ms, 240) == before
        assert later.counts().done == total
    assert client.get(other) == b"x"
    there = [key for key in client.scan_iter("redisq:{later*:rate:*") if key != other.encode()]
    assert there and all(key.startswith(b"redisq:{later}:") for key in there)
    assert all(0 < client.ttl(key) <= 90_000 for key in there)
    clock.advance(60)
    put(later, ids(40), clock.now_ms)
    assert later.rates(clock.now_ms, 1).arrived == (40,)


def test_periodic_entries_live_in_shard_0(later: Set, clock: FakeClock) -> None:
    later.set_periodic(Periodic("p", "* * * * *"))
    clock.advance(60)
    assert later.tick() == 1
    clock.advance(60)
    (entry,) = later.page("waiting").entries
    assert later.get(entry.id) is not None
    (delivery,) = later.take(consumer="w").deliveries
    assert later.settle([Settlement(delivery, "ack")]) == ["done"]
    assert later.invariants() == []


def test_awaited_too(aclient: Callable[[], redis.asyncio.Redis], clock: FakeClock) -> None:
    async def go() -> list[str]:
        async with aclient() as client:
            later = ShardedDelaySet(client, "later", clock=clock)
            await later.schedule([(id, b"") for id in ids(30)], at=0)
            taken = await later.take(100, consumer="w")
            return await later.settle([Settlement(d, "ack") for d in taken.deliveries])

    assert asyncio.run(go()) == ["done"] * 30


# --- changing their number ------------------------------------------------------------------------


def held_before(
    client: BlockingClient, work: Description[T], name: str, when: Callable[[], Any] = lambda: True
) -> Callable[[], T]:
    """Run until a script would be called; the rest runs when the result is called."""
    assert isinstance(work, Coroutine)
    calls = work.send(None)
    while DelaySet(None)._script(name).sha not in calls[0].command or not when():
        calls = work.send(exchange(client, calls))

    def go_on() -> T:
        replies = exchange(client, calls)
        try:
            while True:
                replies = exchange(client, work.send(replies))
        except StopIteration as stop:
            return stop.value  # type: ignore[no-any-return]

    return go_on


def fill(later: Set, clock: FakeClock) -> dict[str, str]:
    """Entries in every state."""
    states: dict[str, str] = {}
    for state in ("waiting", "delayed", "dead", "trash", "pending"):
        names = [f"{state}-{n}" for n in range(30)]
        states |= dict.fromkeys(names, state)
        put(later, names, clock.now_ms + (60_000 if state == "delayed" else 0))
        if state == "dead":
            taken = take_named(later, names)
            later.settle([Settlement(d, "reject", b"why") for d in taken])
        if state == "trash":
            later.move("op", 1, names, source="waiting", target="trash", high_water_ms=clock.now_ms)
    put_back = take_named(later, [n for n in states if states[n] == "pending"])
    later.pending = put_back  # type: ignore[attr-defined]
    return states


def take_named(later: Set, names: list[str]) -> list[Any]:
    taken: list[Any] = []
    while got := later.take(100, consumer="w", lease=10**6).deliveries:
        taken += got
    later.settle([Settlement(d, "release") for d in taken if d.id not in names])
    return [d for d in taken if d.id in names]


def where(later: Set) -> dict[str, str]:
    found: dict[str, str] = {}
    states: tuple[State, ...] = ("waiting", "delayed", "dead", "trash", "pending")
    for state in states:
        for entry in later.page(state, max=500).entries:
            assert entry.id not in found, "in two places"
            found[entry.id] = state
    return found


@pytest.mark.parametrize(("before", "after"), [(12, 8), (8, 12), (1, 12), (12, 1), (3, 2)])
def test_changing_the_number_loses_nothing(
    open_set: Callable[..., Set], client: redis.Redis, clock: FakeClock, before: int, after: int
) -> None:
    later = open_set(before)
    states = fill(later, clock)
    assert where(later) == states
    left = later.resize(after)
    away = {id for id in states if home(id, before) != home(id, after)}
    assert left == len([id for id in away if states[id] == "pending"])
    assert where(later) == where(open_set()) == states
    assert later.invariants() == []
    dead = later.get("dead-3")
    assert dead is not None and dead.error is not None and dead.reason == "rejected"
    # Those at work end where they began; then the change is complete.
    assert later.settle([Settlement(d, "ack") for d in later.pending]) == ["done"] * 30  # type: ignore[attr-defined]
    assert later.resize(after) == 0
    assert later.invariants() == []
    entry = find("later")
    found = io.run(client, entry)
    assert found is not None and (found.shards, found.old_shards) == (after, 0)
    clock.advance(60)
    assert sorted(ack_all(open_set())) == sorted(
        id for id in states if states[id] in ("waiting", "delayed")
    )
    assert later.move(
        "op2", 1, ["dead-3"], source="dead", target="waiting", high_water_ms=clock.now_ms
    ) == ["moved"]
    assert ack_all(later) == ["dead-3"]
    assert later.counts().done == 91
    for k in range(after, before):
        assert not client.exists(
            *(f"redisq:{{later/{k}}}:{part}" for part in ("body", "delay", "hist"))
        )


@pytest.mark.slow
@pytest.mark.parametrize(("before", "after"), [(3, 2), (2, 3)])
def test_killed_anywhere_the_change_goes_on_and_nothing_runs_twice(
    open_set: Callable[..., Set], client: redis.Redis, clock: FakeClock, before: int, after: int
) -> None:
    ended, killed = False, 0
    while not ended:
        client.flushall()
        put(open_set(before), ids(40), clock.now_ms)
        try:
            run_until(client, open_set().resize.op(after), killed, False)
            ended = True
        except Killed:
            pass
        worker = open_set()  # goes on meanwhile
        taken = worker.take(10, consumer="w").deliveries
        worker.settle([Settlement(d, "ack") for d in taken])
        later = open_set()
        assert later.resize(after) == 0
        assert later.invariants() == []
        assert Counter([*ack_all(later), *(d.id for d in taken)]) == Counter(ids(40))
        killed += 1
    assert killed > 10  # or there was little to be killed in


def test_a_mover_that_comes_late_ends_only_its_own_departure(
    open_set: Callable[..., Set], client: redis.Redis, clock: FakeClock
) -> None:
    name = next(id for id in ids(9) if home(id, 2) == 1)
    put(open_set(2), [name], clock.now_ms)
    go_on = held_before(client, open_set().resize.op(1), "transfer_drop")
    assert open_set().resize(1) == 0  # another one was quicker, and the number changes again
    assert open_set().resize(2) == 0
    for steps in range(99):
        with suppress(Killed):
            run_until(client, open_set().resize.op(1), steps, True)
        if client.hlen("redisq:{later/1}:transit"):
            break
    assert client.hlen("redisq:{later/1}:transit") == 1
    with suppress(Refused):  # it finds that its change is over
        go_on()
    assert open_set().resize(1) == 0
    assert ack_all(open_set()) == [name]


def test_what_a_killed_mover_carried_is_brought_home_by_a_sweep(
    open_set: Callable[..., Set], client: redis.Redis, clock: FakeClock
) -> None:
    put(open_set(3), ids(40), clock.now_ms)
    stuck = 0
    for _ in kills(client, lambda: open_set().resize.op(2)):
        later = open_set()
        stuck += lying(client)
        assert later.counts().waiting >= 40
        states = [entry and entry.state for entry in later.get_many(ids(40))]
        assert states == ["waiting"] * 40
        later.sweep()
        assert later.counts().waiting == 40 and not lying(client)
        if stuck:
            break
    assert stuck > 0


def lying(client: redis.Redis) -> int:
    """How many entries are between two shards."""
    return sum(client.hlen(key) for key in client.scan_iter("redisq:{later*:transit"))


def killed_on_the_way(open_set: Callable[..., Set], client: redis.Redis, now_ms: int) -> int:
    put(open_set(3), ids(40), now_ms)
    for _ in kills(client, lambda: open_set().resize.op(2)):
        if n := lying(client):
            return n
    raise AssertionError("it carried nothing")


def test_a_queue_is_not_empty_while_something_is_between_two_shards(
    open_set: Callable[..., Set], client: redis.Redis, clock: FakeClock
) -> None:
    n = killed_on_the_way(open_set, client, clock.now_ms)
    client.delete(*client.scan_iter("redisq:{later*:delay"))  # as if all others were done
    assert open_set().counts().waiting == n
    with pytest.raises(Refused, match=f"not empty .{n} waiting"):
        run(client, destroyable(open_set(), False))
    assert open_set().invariants()  # says what it sees, and doesn't fail on it


def test_a_worker_that_finds_nothing_brings_home_what_was_left_on_its_way(
    open_set: Callable[..., Set], client: redis.Redis, clock: FakeClock
) -> None:
    killed_on_the_way(open_set, client, clock.now_ms)
    done: Counter[str] = Counter()
    Worker(open_set(), lambda work: done.update([work.id]), burst=True, batch=100).run()
    assert done == Counter(ids(40)) and not lying(client)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if "shards" in kind])
@pytest.mark.parametrize("n", [1, 5, 100])
def test_of_a_paused_queue_nobody_looks_again_at_once(
    client: redis.Redis, kind: str, n: int
) -> None:
    make, fill = KINDS[kind]
    queue = make(client, "q")
    fill(queue)
    if "fair" not in kind and "request" not in kind:
        queue.resize(12)
    queue.configure("op", 1, {"paused": "for now"})
    for _ in range(3):
        taken = make(client, "q").take(n, consumer="w")
        assert (taken.deliveries, taken.more, taken.look_again_ms) == ((), False, None)
    queue.configure("op", 2, {"paused": ""})
    assert len(make(client, "q").take(5, consumer="w").deliveries) == 5


def test_a_mover_of_an_old_change_moves_nothing_any_more(
    open_set: Callable[..., Set], client: redis.Redis, clock: FakeClock
) -> None:
    names = one_per_shard(3)
    put(open_set(3), names, clock.now_ms)
    go_on = held_before(client, open_set().resize.op(2), "list_ids")
    assert open_set().resize(2) == open_set().resize(3) == 0
    with suppress(Refused):
        go_on()
    assert open_set().invariants() == []
    assert sorted(ack_all(open_set())) == sorted(names)


def test_a_shard_that_is_taken_up_again_is_not_cleared_by_a_late_mover(
    open_set: Callable[..., Set], client: redis.Redis, clock: FakeClock
) -> None:
    put(open_set(2), one_per_shard(2), clock.now_ms)
    go_on = held_before(client, open_set().resize.op(1), "retire_shard")
    assert open_set().resize(1) == open_set().resize(2) == 0
    later = open_set()
    later.configure("op", 1, {"history": "all"})
    assert len(ack_all(later)) == 2
    before = later.history_length(), later.counts().done
    with suppress(Refused):
        go_on()
    assert (later.history_length(), later.counts().done) == before


def test_settings_changed_while_new_shards_are_prepared_reach_them(
    open_set: Callable[..., Set], clock: FakeClock
) -> None:
    later = open_set(3)
    later.configure("op", 1, {"max_failures": "2"})
    mover = open_set()
    amend = mover._replace_entry

    async def late(before: Any, after: Any) -> Any:
        """An operator's change, between the copy and the moment others learn of new shards."""
        if after.old_shards:
            open_set().configure("op", 2, {"max_failures": "9", "paused": "stop"})
        return await amend(before, after)

    mover._replace_entry = late  # type: ignore[method-assign]
    assert mover.resize(8) == 0
    after = open_set()
    put(after, ids(80), clock.now_ms)
    assert after.take(100, consumer="w").deliveries == ()
    said = run(after.client, after._on_each_shard(lambda part: part.settings.op()))
    assert len(said) == 8
    assert {(one["max_failures"], one["paused"]) for one in said} == {("9", "stop")}


def test_settings_changed_by_one_who_does_not_know_the_new_shards_reach_them(
    open_set: Callable[..., Set], client: redis.Redis, clock: FakeClock
) -> None:
    """The number changes after the old shards were written: the look that follows says so."""
    queue, slow = open_set(3), open_set()
    put(queue, ids(5), clock.now_ms)
    first = slow._shard(0)
    plain = first._configure

    async def write(
        op: str, seq: int, changes: dict[str, str], since: Mapping[str, str] | None = None
    ) -> dict[str, str]:
        said = await plain(op, seq, changes, since)
        if queue.shards == 3:
            queue.resize(6)
        return said

    slow.shards = 3
    first._configure = write  # type: ignore[method-assign]
    assert slow.configure("op", 1, {"paused": "stop"}) == {"paused": ""}
    said = run(client, open_set()._on_each_shard(lambda part: part.settings.op()))
    assert [one.get("paused") for one in said] == ["stop"] * 6


@pytest.mark.parametrize(("before", "after"), [(3, 8), (8, 3)])
def test_undo_after_the_number_changed_puts_back_what_stayed_and_says_the_rest(
    open_set: Callable[..., Set], client: redis.Redis, clock: FakeClock, before: int, after: int
) -> None:
    """Undo lists stay where they were written; an entry that moved since is left alone."""
    put(open_set(before), ids(100), clock.now_ms)
    found = io.run(client, Deployment(client, clock=clock).queue("later"))
    bulk = entry_change(
        io.run(client, select(found, "waiting", Filter())), "purge", Author("ada", "desk")
    )
    while io.run(client, bulk.step()):
        pass
    assert bulk.outcome.done == 100 and bulk.outcome.op
    while open_set().resize(after):
        pass
    deployment = Deployment(client, clock=clock)
    queue, operation = io.run(client, find_operation(deployment, bulk.outcome.op))
    assert (operation.done, operation.undone) == (100, 0)
    stayed = sum(home(id, before) == home(id, after) for id in ids(100))
    undo = ChangeRun(UndoSteps(queue, operation), Author("ada", "desk"))
    while io.run(client, undo.step()):
        pass
    assert undo.outcome.done == stayed
    assert sum(undo.outcome.skipped.values()) == 100 - stayed
    assert (queue.counts().waiting, queue.counts().trash) == (stayed, 100 - stayed)
    assert queue.invariants() == []


def test_who_knows_an_old_change_cannot_misplace_what_moves_now(
    open_set: Callable[..., Set], client: redis.Redis, clock: FakeClock
) -> None:
    name = next(id for id in ids(99) if [home(id, n) for n in (2, 3, 5)] == [0, 2, 4])
    old_process = open_set(3)
    put(old_process, [name, *one_per_shard(3)], clock.now_ms)
    held = old_process.take(100, consumer="w").deliveries
    assert open_set().resize(2) > 0
    old_process.counts()  # it knows of this change, and of none of the next
    old_process.settle([Settlement(d, "release") for d in held])
    assert open_set().resize(2) == open_set().resize(3) == 0
    mover = open_set().resize.op(5)
    go_on = held_before(
        client, mover, "transfer_accept", lambda: client.hexists("redisq:{later/2}:transit", name)
    )
    assert put(old_process, [name], clock.now_ms, "move") == ["moved"]
    assert go_on() == 0
    assert open_set().invariants() == []
    assert sorted(ack_all(open_set())) == sorted({name, *one_per_shard(3)})


def test_producers_find_an_entry_wherever_it_is(
    open_set: Callable[..., Set], client: redis.Redis, clock: FakeClock
) -> None:
    """At every moment of a change a known id is known, and can be rescheduled."""
    old_process = open_set(3)
    put(old_process, ids(20), clock.now_ms + 1000)
    step = 0
    for _ in kills(client, lambda: open_set().resize.op(2)):
        step += 1
        process = old_process if step % 2 else open_set()
        id = f"id-{step % 20}"
        assert process.schedule([(id, id.encode())], after=0)[0].word == "exists"
        assert put(process, ids(20), clock.now_ms + 1000 + step, "move") == ["moved"] * 20
        assert put(process, [f"new-{step}"], clock.now_ms + 1000) == ["ok"]
        assert process.get(f"new-{step}") is not None
    later = open_set()
    assert later.resize(2) == 0
    assert put(old_process, ["after"], clock.now_ms + 1000) == ["ok"]
    assert later.get("after") is not None
    assert later.invariants() == []
    clock.advance(100)
    assert Counter(ack_all(later)) == Counter(
        [*ids(20), *(f"new-{n}" for n in range(1, step + 1)), "after"]
    )


def test_an_entry_at_work_in_its_old_home_can_be_rescheduled(
    open_set: Callable[..., Set], clock: FakeClock
) -> None:
    later = open_set(3)
    put(later, ids(20), clock.now_ms)
    taken = later.take(20, consumer="w").deliveries
    assert later.resize(2) > 0
    assert put(later, ids(20), clock.now_ms + 500, "move") == ["again"] * 20
    assert later.settle([Settlement(d, "ack") for d in taken]) == ["done"] * 20
    assert later.resize(2) == 0
    assert ack_all(later) == []
    clock.advance(0.5)
    assert sorted(ack_all(later)) == sorted(ids(20))


def test_a_worker_learns_of_new_shards_by_itself(
    open_set: Callable[..., Set], clock: FakeClock
) -> None:
    worker = open_set(2)
    put(worker, ids(5), clock.now_ms)
    ack_all(worker)
    operator = open_set()
    assert operator.resize(12) == 0
    put(operator, ids(100), clock.now_ms)
    worker.take(1, consumer="w", lease=0.001)
    clock.advance(0.01)
    assert sorted(ack_all(worker)) == sorted(ids(100))


def test_a_queue_without_shards_gets_some(
    open_set: Callable[..., Set], client: redis.Redis, clock: FakeClock
) -> None:
    plain = DelaySet(client, "later", clock=clock)
    plain.schedule([(id, id.encode()) for id in ids(30)], at=clock.now_ms / 1000)
    held = plain.take(3, consumer="w").deliveries
    later = open_set()
    left = later.resize(12)
    with pytest.raises(Refused, match="has shards now"):
        plain.schedule([("stranger", b"")], at=0)
    assert plain.settle([Settlement(d, "ack") for d in held]) == ["done"] * 3
    assert left <= 3
    assert later.resize(12) == 0
    assert sorted(ack_all(later) + [d.id for d in held]) == sorted(ids(30))
    assert later.resize(1) == 0
    again = DelaySet(client, "later", clock=clock)
    assert again.schedule([("x", b"")], at=0)[0].word == "ok"
    assert again.counts().waiting == 1


def test_a_destroyed_queue_leaves_no_fences_to_the_next_of_its_name(
    open_set: Callable[..., Set], open_mail: Callable[..., Mail], client: redis.Redis
) -> None:
    mail = open_mail(4)
    for queue in (open_set(4), mail):
        queue.configure("op", 1, {"aging": "1"})
        assert queue.resize(1) == 0
        while queue.destroy_step():
            pass
        found = io.run(client, find(queue.name))
        assert found is not None
        io.run(client, forget(found))
    assert client.keys() == []
    assert put(open_set(4), ids(20), 0) == ["ok"] * 20
    assert {open_mail(4).submit([b""], id=f"r{n}").word for n in range(20)} == {"ok"}


def test_one_change_at_a_time(open_set: Callable[..., Set], clock: FakeClock) -> None:
    later = open_set(3)
    put(later, ids(20), clock.now_ms)
    held = later.take(20, consumer="w").deliveries
    assert later.resize(2) > 0
    with pytest.raises(Refused, match="still on its way to 2"):
        open_set().resize(5)
    later.settle([Settlement(d, "ack") for d in held])
    assert open_set().resize(2) == 0
    assert open_set().resize(2) == 0
    assert open_set().resize(5) == 0


def test_big_payloads_move_in_small_steps(
    open_set: Callable[..., Set], clock: FakeClock, rounds: list[int]
) -> None:
    later = open_set(1)
    names = ids(30)
    later.schedule([(id, id.encode() * 20_000) for id in names], at=clock.now_ms / 1000)
    rounds.clear()
    assert later.resize(2) == 0
    assert len(rounds) > 15
    taken = later.take(100, consumer="w").deliveries
    assert {d.id: len(d.payload) for d in taken} == {id: len(id) * 20_000 for id in names}


@pytest.mark.slow
def test_on_a_cluster_shards_are_on_all_nodes(clock: FakeClock) -> None:
    with cluster(BINARIES["valkey"]) as nodes:
        client = connect(nodes.urls[0].replace("redis:", "redis+cluster:"))
        later: Set = ShardedDelaySet(client, "later", clock=clock)
        names = ids(120)
        put(later, names, clock.now_ms)
        spread = []
        for url in nodes.urls:
            with redis.Redis.from_url(url) as node:
                spread.append(sum(b":body" in key for key in node.scan_iter()))
        assert sum(spread) == 12
        assert all(spread)
        assert later.resize(5) == 0
        assert later.counts().waiting == 120
        mail = RequestQueue(client, "mail", clock=clock)
        assert [later.hand_over(mail, 50).done for _ in range(3)] == [50, 50, 20]
        assert mail.counts().waiting == 120
        later.set_periodic(Periodic("p", "* * * * *"))
        clock.advance(60)
        assert later.tick() == 1
        assert later.invariants() == []
        client.close()


# --- requests -------------------------------------------------------------------------------------


def work_off(mail: Mail) -> list[str]:
    ran: list[str] = []
    while taken := mail.take(20, consumer="w").deliveries:
        ends = [Settlement(d, "result", d.payload) for d in taken]
        assert mail.settle(ends) == ["done"] * len(taken)
        ran += [d.id for d in taken]
    return ran


@pytest.mark.slow
def test_requests_over_shards_behave_as_one_queue(
    open_mail: Callable[..., Mail], clock: FakeClock
) -> None:
    mail = open_mail()
    for n in range(30):
        clock.advance(0.001)
        name = f"r{n}"
        assert mail.submit([b"%d" % k for k in range(5)], id=name, priority=n % 3).word == "ok"
        assert (
            open_mail().submit([b"%d" % k for k in range(5)], id=name, priority=n % 3).word
            == "same"
        )
    with pytest.raises(Exists):
        mail.submit([b"else"], id="r3")
    assert [r.id for r in mail.requests(2, 5)] == ["r2", "r3", "r4", "r5", "r6"]
    assert mail.requests_total() == 30
    assert [(level.priority, level.tokens) for level in mail.levels()] == [
        (0, 50),
        (1, 50),
        (2, 50),
    ]
    pages: list[str] = []
    cursor = None
    while True:
        page = mail.page("waiting", cursor, 13, payloads=True)
        pages += [entry.id for entry in page.entries]
        cursor = page.cursor
        if cursor is None:
            break
    assert len(pages) == len(set(pages)) == page.total == 150
    assert [e.id for e in mail.page("waiting", start=40, max=5).entries] == pages[40:45]
    first = [mail.take(consumer="w").deliveries[0] for _ in range(40)]
    urgent = [d for d in first if int((d.request or "")[1:]) % 3 == 0]
    # The urgent ones go first; that a shard has run out of them is found out at the next look.
    assert len(urgent) >= 40 - 4
    mail.settle([Settlement(d, "release") for d in first])
    said = mail.move(
        "op",
        1,
        ["r4/1", "r5/2", "r9/9"],
        source="waiting",
        target="trash",
        high_water_ms=clock.now_ms,
    )
    assert said == ["moved", "moved", "changed"]
    assert mail.undo("op", 1, target="trash", by="u", seq=1) == (2, 0)
    assert mail.control("c", 1, "pause", "r7") == ("ok", "0")
    assert len(work_off(mail)) == 145
    assert mail.control("c", 2, "resume", "r7") == ("ok", "1")
    assert sorted(work_off(mail)) == [f"r7/{k}" for k in range(1, 6)]
    assert numbered(mail.results("r7"))[:5] == [(k + 1, b"%d" % k) for k in range(5)]
    done = mail.request("r12")
    assert done is not None and done.settled and done.done == 5
    entry = mail.get("r12/2")
    assert entry is not None and entry.state == "done"
    assert len(mail.requests(0, 100, settled=True)) == 30
    assert mail.counts().done == 150
    assert mail.invariants() == []


@pytest.mark.parametrize(("before", "after"), [(4, 2), (2, 5), (1, 3)])
def test_known_requests_stay_and_new_ones_go_by_the_new_number(
    open_mail: Callable[..., Mail], clock: FakeClock, client: redis.Redis, before: int, after: int
) -> None:
    stale = open_mail(before)
    names = [f"r{n}" for n in range(20)]
    for name in names:
        stale.submit([b"a", b"b"], id=name)
    held = stale.take(10, consumer="w").deliveries
    mail = open_mail()
    left = mail.resize(after)
    assert left == sum(home(name, before) >= after for name in names)
    for process in (stale, open_mail()):
        for name in names:
            assert process.submit([b"a", b"b"], id=name).word == "same"
    for n in range(20):
        assert stale.submit([b"x"], id=f"new{n}").word == "ok"
    given_up = range(after, before)
    for k in given_up:
        keys = RequestQueue(None, "mail", shard=k).keys
        assert not any(b"new" in name for name in client.zrange(keys["open"], 0, -1))
    assert set(stale.settle([Settlement(d, "ack") for d in held])) == {"done"}
    ran = work_off(open_mail())
    assert len(ran) + len(held) == 60
    assert mail.counts().done == 60
    clock.now_ms += 24 * 3600 * 1000 + 1  # finished requests are kept for a day, then the shards go
    assert mail.resize(after) == left
    while mail.sweep():
        pass
    assert mail.resize(after) == 0
    assert mail.invariants() == []
    assert mail.counts().done == 60
    for k in given_up:
        left_keys = {key.rpartition(b":")[2] for key in client.scan_iter(f"redisq:{{mail/{k}}}:*")}
        assert left_keys <= {b"cfg", b"stat"} | {key for key in left_keys if key.isdigit()}


def test_a_draining_queue_refuses_new_requests_in_every_shard(
    open_mail: Callable[..., Mail],
) -> None:
    mail = open_mail()
    mail.submit([b""], id="a")
    mail.configure("op", 1, {"closed": "end"})
    for n in range(8):
        with pytest.raises(QueueClosed):
            mail.submit([b""], id=f"b{n}")
    assert mail.submit([b""], id="a").word == "same"


def test_new_shards_have_the_settings_and_flags_of_the_others(
    open_set: Callable[..., Set], clock: FakeClock
) -> None:
    later = open_set(shards=3)
    later.configure("op", 1, {"paused": "by me", "max_failures": "2"})
    while later.resize(1):
        pass
    later.configure("op", 2, {"paused": "", "max_failures": "7"})
    while later.resize(4):  # two of them were there before, when all was paused
        pass
    put(later, ids(40), clock.now_ms)
    assert len(ack_all(later)) == 40
    later.configure("op", 3, {"paused": "by me"})
    while later.resize(6):
        pass
    put(later, ids(80)[40:], clock.now_ms)
    assert later.take(100, consumer="w").deliveries == ()
    assert all(
        part.get("max_failures") == "7"
        for part in run(later.client, later._on_each_shard(lambda part: part.settings.op()))
    )

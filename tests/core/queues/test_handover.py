"""Handing over: to queues each entry once whatever crashes, to callables at least once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from typing import Any, TypeVar

import pytest
import redis
import redis.asyncio
from redis.backoff import NoBackoff
from redis.crc import key_slot
from redis.retry import Retry

from redisq_ops.core.model.clock import FakeClock
from redisq_ops.core.model.entry import Delivery, Settlement
from redisq_ops.core.model.errors import BadInput, Unreachable
from redisq_ops.core.model.settings import DEFAULTS
from redisq_ops.core.queues.delay import DelaySet, HandoverResult, ShardedDelaySet
from redisq_ops.core.queues.delay import handover as module
from redisq_ops.core.queues.request import RequestQueue
from redisq_ops.core.redis import operation
from redisq_ops.core.redis.operation import BlockingClient
from redisq_ops.core.redis.transport import exchange
from redisq_ops.core.worker.retry import Reject
from redisq_ops.demo.server import EmbeddedServer

from ...proxy import FlakyProxy
from ...queue_steps import Killed, run_until

T = TypeVar("T")
LEASE = 30_000
DAY = 24 * 3600 * 1000


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def source(client: redis.Redis, clock: FakeClock) -> DelaySet[BlockingClient]:
    return DelaySet(client, "later", clock=clock)


@pytest.fixture
def mail(client: redis.Redis, clock: FakeClock) -> RequestQueue[BlockingClient]:
    return RequestQueue(client, "mail", clock=clock)


@pytest.fixture
def other(client: redis.Redis, clock: FakeClock) -> DelaySet[BlockingClient]:
    return DelaySet(client, "other", clock=clock)


@pytest.fixture
def apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a cluster, where the two queues are in different slots."""
    monkeypatch.setattr(module, "one_script", lambda source, target: False)


def put(source: DelaySet[BlockingClient], n: int, at_ms: int = 0) -> list[str]:
    ids = [f"e{k:03}" for k in range(n)]
    source.schedule([(id, b"\x00" + id.encode()) for id in ids], at=at_ms / 1000)
    return ids


def arrived(target: Any) -> list[str]:
    """Everything that came, worked on and acknowledged."""
    found: list[Delivery] = []
    while taken := target.take(100, consumer="w").deliveries:
        target.settle([Settlement(d, "ack") for d in taken])
        found += taken
    ids = [d.id.partition("/")[0] for d in found]
    assert [d.payload for d in found] == [b"\x00" + id.encode() for id in ids]
    return ids


# --- to a request queue ---------------------------------------------------------------------------


def test_due_entries_become_requests(
    source: DelaySet[BlockingClient], mail: RequestQueue[BlockingClient], clock: FakeClock
) -> None:
    ids = put(source, 250)
    source.schedule([("tomorrow", b"")], at=(clock.now_ms + DAY) / 1000)
    rounds = [source.hand_over(mail) for _ in range(4)]
    assert [r.done for r in rounds] == [100, 100, 50, 0]
    assert [r.more for r in rounds] == [True, True, False, False]
    assert sorted(arrived(mail)) == ids
    counts = source.counts()
    assert (counts.done, counts.delayed, counts.pending, counts.waiting) == (250, 1, 0, 0)
    request = mail.request("e000")
    assert request is not None and request.settled and request.total == 1


def test_an_id_is_handed_over_once_within_the_window(
    source: DelaySet[BlockingClient], mail: RequestQueue[BlockingClient], clock: FakeClock
) -> None:
    put(source, 1)
    assert source.hand_over(mail).done == 1
    assert arrived(mail) == ["e000"]
    clock.now_ms += DAY - 1
    put(source, 1)
    assert source.hand_over(mail).done == 1
    assert arrived(mail) == []
    clock.advance(0.001)
    mail.sweep()
    put(source, 1)
    assert source.hand_over(mail).done == 1
    assert arrived(mail) == ["e000"]


def test_other_content_under_a_known_id_is_a_dead_letter(
    source: DelaySet[BlockingClient], mail: RequestQueue[BlockingClient]
) -> None:
    mail.submit([b"mine"], id="e001")
    put(source, 3)
    assert source.hand_over(mail) == HandoverResult(2, 1, 0, False)
    (dead,) = source.page("dead").entries
    assert (dead.id, dead.reason) == ("e001", "rejected")
    assert dead.error is not None and dead.error.type == "Exists"


def test_the_rate_holds_for_what_is_handed_over(
    source: DelaySet[BlockingClient], client: BlockingClient, clock: FakeClock
) -> None:
    put(source, 50)
    other = DelaySet(client, "other", clock=clock)
    other.schedule([("first", b"x")], after=0)
    source.configure("op", 1, {"rate": "10/s"})
    handed = 0
    for _ in range(20):
        handed += source.hand_over(other).done
        clock.now_ms += 100
    assert 19 <= handed <= 21


def test_what_is_to_run_again_goes_and_runs_again(
    source: DelaySet[BlockingClient], client: BlockingClient, clock: FakeClock
) -> None:
    other = DelaySet(client, "other", clock=clock)
    other.schedule([("first", b"x")], after=0)
    source.schedule([("e1", b"old"), ("e2", b"old")], after=0)
    assert len(source.take(2, consumer="w1").deliveries) == 2
    source.schedule([("e1", b"new")], after=0, mode="move")
    source.schedule([("e2", b"new")], after=60, mode="move")
    clock.now_ms += LEASE + 1  # and the worker is gone
    assert source.hand_over(other).done == 2
    now, later = source.get("e1"), source.get("e2")
    assert now is not None and later is not None
    assert (now.state, now.payload) == ("waiting", b"new")
    assert (later.state, later.payload) == ("delayed", b"new")
    assert {entry.payload for entry in other.page("waiting", payloads=True).entries} == {
        b"x",
        b"old",
    }
    assert source.invariants() == other.invariants() == []


def test_a_damaged_rerun_is_found_before_anything_is_handed_over(
    source: DelaySet[BlockingClient], client: BlockingClient, clock: FakeClock
) -> None:
    other = DelaySet(client, "other", clock=clock)
    other.schedule([("first", b"x")], after=0)
    put(source, 5)
    client.hset(source.keys["next"], "e004", "garbage")
    assert "field e004" in (source.hand_over(other).refusal or "")
    assert (source.counts().waiting, other.counts().waiting) == (5, 1)


@pytest.mark.parametrize("name", ["layout", "max_waiting"])
def test_a_damaged_setting_of_the_target_counts_as_absent(
    source: DelaySet[BlockingClient], client: BlockingClient, clock: FakeClock, name: str
) -> None:
    put(source, 2)
    other = DelaySet(client, "other", clock=clock)
    other.schedule([("first", b"x")], after=0)
    client.hset(other.keys["cfg"], name, "many")
    assert source.hand_over(other) == HandoverResult(2, 0, 0, False)


@pytest.mark.parametrize("setting", [("closed", "draining"), ("max_waiting", "2")])
def test_a_target_that_takes_nothing_now_loses_nothing(
    source: DelaySet[BlockingClient], mail: RequestQueue[BlockingClient], setting: tuple[str, str]
) -> None:
    ids = put(source, 5)
    mail.configure("op", 1, {setting[0]: setting[1]})
    handed = source.hand_over(mail)
    assert handed.refusal is not None
    assert handed.done + handed.back == 5
    assert handed.dead == 0
    counts = source.counts()
    assert (counts.waiting, counts.pending) == (handed.back, 0)
    for _ in range(30):  # however long it lasts: this counts as no failure
        source.hand_over(mail)
    mail.configure("op", 2, {setting[0]: ""})
    assert source.hand_over(mail).refusal is None
    assert sorted(arrived(mail)) == ids


# --- to another delay set -------------------------------------------------------------------------


def test_between_delay_sets_of_one_server_it_is_one_step(
    source: DelaySet[BlockingClient],
    other: DelaySet[BlockingClient],
    clock: FakeClock,
    client: redis.Redis,
) -> None:
    ids = put(source, 150)
    assert source.hand_over(other) == HandoverResult(100, 0, 0, True)
    assert source.hand_over(other) == HandoverResult(50, 0, 0, False)
    assert arrived(other) == ids
    assert source.counts().done == 150
    assert source.invariants() == other.invariants() == []
    assert client.hlen(source.keys["body"]) == client.zcard(other.keys["seen"]) == 0
    # Nothing is remembered: the step is atomic, so an id is free again when its entry is done.
    put(source, 1)
    assert source.hand_over(other).done == 1
    assert arrived(other) == ["e000"]


def test_one_step_respects_the_target(
    source: DelaySet[BlockingClient], other: DelaySet[BlockingClient]
) -> None:
    put(source, 5)
    other.schedule([("e002", b"mine")], at=0)
    other.configure("op", 1, {"max_waiting": "3"})
    assert source.hand_over(other) == HandoverResult(2, 0, 0, True)
    other.configure("op", 2, {"max_waiting": ""})
    assert source.hand_over(other) == HandoverResult(2, 1, 0, False)
    (dead,) = source.page("dead").entries
    assert dead.id == "e002"
    assert dead.error is not None and dead.error.type == "Exists"
    other.configure("op", 3, {"closed": "x"})
    put(source, 1)
    assert "draining" in (source.hand_over(other).refusal or "")
    other.configure("op", 4, {"closed": "", "max_waiting": "1"})
    assert "max_waiting" in (source.hand_over(other).refusal or "")
    with pytest.raises(BadInput, match="to itself"):
        source.hand_over(source)
    assert source.invariants() == other.invariants() == []


@pytest.mark.usefixtures("apart")
def test_in_different_slots_an_id_is_taken_in_once_within_the_window(
    source: DelaySet[BlockingClient],
    other: DelaySet[BlockingClient],
    clock: FakeClock,
    client: redis.Redis,
) -> None:
    ids = put(source, 150)
    assert [source.hand_over(other).done for _ in range(3)] == [100, 50, 0]
    assert arrived(other) == ids
    clock.now_ms += DAY - 1
    put(source, 150)
    assert [source.hand_over(other).done for _ in range(3)] == [100, 50, 0]
    assert arrived(other) == []
    clock.advance(0.002)
    put(source, 2)
    source.hand_over(other)
    assert arrived(other) == ids[:2]
    assert client.zcard(other.keys["seen"]) == 150
    while other.sweep():
        pass
    assert client.zcard(other.keys["seen"]) == 2


def test_slots_decide_on_a_cluster() -> None:
    slots: dict[int, str] = {}
    names = (f"queue-{n * 7919}" for n in range(10_000))
    pair = next(
        (slots[slot], name)
        for name in names
        if slots.setdefault(slot := key_slot(b"{%s}" % name.encode()), name) != name
    )
    one, two = (DelaySet(None, name) for name in pair)
    assert module.one_script(one, two)
    assert not module.one_script(one, DelaySet(None, "elsewhere"))
    assert not module.one_script(one, RequestQueue(None, pair[1]))
    assert not module.one_script(ShardedDelaySet(None, pair[0]), two)


def test_shards_hand_over_and_take_in(
    client: redis.Redis, clock: FakeClock, mail: RequestQueue[BlockingClient]
) -> None:
    source = ShardedDelaySet(client, "later", clock=clock)
    middle = ShardedDelaySet(client, "middle", shards=3, clock=clock)
    ids = put(source, 60)
    while source.hand_over(middle).done:
        pass
    assert middle.counts().waiting == 60
    while middle.hand_over(mail).done:
        pass
    assert sorted(arrived(mail)) == ids


def test_a_target_that_got_shards_meanwhile_is_not_given_misplaced_entries(
    source: DelaySet[BlockingClient],
    other: DelaySet[BlockingClient],
    client: redis.Redis,
    clock: FakeClock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    other.schedule([("first", b"\x00first")], at=0)  # it goes by what it has seen once
    sharded = ShardedDelaySet(client, "other", clock=clock)
    assert sharded.resize(5) == 0
    ids = put(source, 20)
    for one_step in (True, False):
        monkeypatch.setattr(module, "one_script", lambda *_, yes=one_step: yes)
        handed = source.hand_over(other)
        assert (handed.done, handed.dead) == (0, 0)
        assert "shards" in (handed.refusal or "")
    assert source.hand_over(sharded).done == 20
    assert sharded.invariants() == []
    assert sorted(arrived(sharded)) == [*ids, "first"]


# --- crashes --------------------------------------------------------------------------------------


@pytest.mark.usefixtures("apart")
@pytest.mark.parametrize("kind", ["request", "delay"])
@pytest.mark.parametrize("heard", [False, True])
def test_a_kill_between_any_two_steps_makes_no_second_copy(
    source: DelaySet[BlockingClient],
    mail: RequestQueue[BlockingClient],
    other: DelaySet[BlockingClient],
    client: redis.Redis,
    clock: FakeClock,
    kind: str,
    heard: bool,
) -> None:
    target = mail if kind == "request" else other
    steps = 0
    while True:
        client.flushall()
        source._registered = target._registered = False
        ids = put(source, 5)
        try:
            run_until(client, source.hand_over.op(target), steps, heard)
            break
        except Killed:
            pass
        early = arrived(target)  # its workers don't wait for us
        clock.now_ms += LEASE + 1
        source.hand_over(target)
        assert sorted(early + arrived(target)) == ids
        counts = source.counts()
        assert (counts.waiting, counts.pending, counts.dead) == (0, 0, 0)
        steps += 1
    assert steps >= 3  # take, put, acknowledge


def losing(proxy: FlakyProxy, nth: int) -> Callable[[Any, Any], list[Any]]:
    """Exchanges of which the ``nth`` is carried out and not answered."""
    number = count()

    def unheard(client: Any, calls: Any) -> list[Any]:
        proxy.drop_replies(int(next(number) == nth))
        return exchange(client, calls)

    return unheard


@pytest.mark.usefixtures("apart")
@pytest.mark.parametrize("kind", ["request", "delay", "callable"])
@pytest.mark.parametrize("resends", [0, 1])
def test_lost_replies_make_no_second_copy(
    server: EmbeddedServer,
    url: str,
    clock: FakeClock,
    kind: str,
    resends: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    retry = Retry(NoBackoff(), resends)
    with FlakyProxy(server.port) as proxy, redis.Redis.from_url(proxy.url, retry=retry) as unlucky:
        source = DelaySet(unlucky, "later", clock=clock)
        calls: list[str] = []
        targets: dict[str, Any] = {
            "request": RequestQueue(unlucky, "mail", clock=clock),
            "delay": DelaySet(unlucky, "other", clock=clock),
            "callable": lambda delivery: calls.append(delivery.id),
        }
        target = targets[kind]
        ids = put(source, 20)
        for nth in range(3):  # take, put or call, acknowledge
            with monkeypatch.context() as patch, suppress(Unreachable):
                patch.setattr(operation, "exchange", losing(proxy, nth))
                source.hand_over(target, 5)
        proxy.drop_replies(0)
        clock.now_ms += LEASE + 1
        while source.hand_over(target).done:
            pass
        assert sorted(calls if kind == "callable" else arrived(target)) == ids


# --- to a callable --------------------------------------------------------------------------------


def test_a_callable_gets_each_in_order_and_its_errors_are_failures(
    source: DelaySet[BlockingClient], clock: FakeClock
) -> None:
    ids = put(source, 5)
    seen: list[str] = []

    def send(delivery: Delivery) -> None:
        seen.append(delivery.id)
        if delivery.id == "e001":
            raise OSError("no route")
        if delivery.id == "e003":
            raise Reject("never")

    assert source.hand_over(send) == HandoverResult(3, 1, 1, False)
    assert seen == ids
    entry, dead = source.get("e001"), source.get("e003")
    assert entry is not None and entry.state == "delayed" and entry.failures == 1
    assert entry.error is not None and entry.error.type == "OSError"
    assert dead is not None and dead.state == "dead"


def test_what_fails_once_too_often_is_told_as_dead(
    source: DelaySet[BlockingClient], clock: FakeClock
) -> None:
    put(source, 1)

    def send(delivery: Delivery) -> None:
        raise OSError("no route")

    told = []
    for _ in range(DEFAULTS.max_failures):
        told.append(source.hand_over(send))
        clock.now_ms += 10**9
    assert set(told[:-1]) == {HandoverResult(0, 0, 1, False)}
    assert told[-1] == HandoverResult(0, 1, 0, False)
    assert source.counts().dead == 1


def test_a_killed_caller_calls_again(source: DelaySet[BlockingClient], clock: FakeClock) -> None:
    put(source, 3)
    seen: list[str] = []

    def send(delivery: Delivery) -> None:
        seen.append(delivery.id)
        if len(seen) == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        source.hand_over(send)
    clock.now_ms += LEASE + 1
    source.hand_over(send)
    assert seen == ["e000", "e001", "e001", "e002"]


def test_slow_calls_keep_the_leases_of_the_waiting(
    source: DelaySet[BlockingClient], clock: FakeClock
) -> None:
    ids = put(source, 10)
    seen: list[str] = []

    def slow(delivery: Delivery) -> None:
        clock.now_ms += LEASE * 3 // 4
        assert source.take(10, consumer="thief").deliveries == ()
        seen.append(delivery.id)

    assert source.hand_over(slow).done == 10
    assert seen == ids


def test_what_is_no_longer_ours_is_not_called_with(
    source: DelaySet[BlockingClient], clock: FakeClock
) -> None:
    put(source, 3)
    stolen: list[str] = []

    def hang(delivery: Delivery) -> None:
        clock.now_ms += LEASE * 2
        stolen.extend(d.id for d in source.take(10, consumer="thief").deliveries)

    source.hand_over(hang)
    assert stolen == ["e000", "e001", "e002"]
    assert source.counts().pending == 3


def test_awaited_too(aclient: Callable[[], redis.asyncio.Redis], clock: FakeClock) -> None:
    async def go() -> tuple[int, int]:
        async with aclient() as client:
            source = DelaySet(client, "later", clock=clock)
            await source.schedule([("a", b""), ("b", b"")], at=0)
            to_queue = await source.hand_over(RequestQueue(client, "mail", clock=clock), 1)
            to_set = await source.hand_over(DelaySet(client, "other", clock=clock))
            return to_queue.done, to_set.done

    assert asyncio.run(go()) == (1, 1)

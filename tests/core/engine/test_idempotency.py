"""Replies lost on the way, a real client that sends again: everything happens once.

Each operation runs twice from the same beginning, once in peace and once through a proxy that
carries it out and then cuts the line. Afterwards the databases are equal, byte for byte.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

import pytest
import redis

from redisq_ops.core.engine.idempotency import CallerSlots
from redisq_ops.core.engine.queue import Queue
from redisq_ops.core.model.clock import FakeClock
from redisq_ops.core.model.entry import Delivery, Settlement
from redisq_ops.core.model.errors import Unreachable
from redisq_ops.core.model.keys import registry_key
from redisq_ops.core.model.settings import LEASE_MS
from redisq_ops.core.model.states import VERBS
from redisq_ops.core.queues.carmine import CarmineQueue
from redisq_ops.core.queues.circular import CircularQueue
from redisq_ops.core.queues.delay import DelaySet
from redisq_ops.core.queues.delay.handover import admit
from redisq_ops.core.queues.fair import FairQueue
from redisq_ops.core.queues.request import RequestQueue
from redisq_ops.core.queues.request.digest import Digest
from redisq_ops.core.redis.client import aconnect, connect
from redisq_ops.core.redis.operation import run
from redisq_ops.demo.server import EmbeddedServer
from redisq_ops.ops.change import audit_log
from redisq_ops.ops.change.audit_log import Author
from redisq_ops.ops.change.entry_steps import EntrySteps
from redisq_ops.ops.change.runner import ChangeRun
from redisq_ops.ops.change.undo import UndoSteps
from redisq_ops.ops.deployment import Deployment
from redisq_ops.ops.filter.filter import Filter
from redisq_ops.ops.filter.selection import select

from ...changes import entry_change
from ...command_line import dead_letters
from ...model.wire import Picture, picture
from ...proxy import FlakyProxy

pytestmark = pytest.mark.alike

ME = Author("ada", "desk")
NOW = 1_700_000_000_000
PAYLOADS = [b"\x00\xff one", b"", b"three\r\n"]


@dataclass
class Scene:
    """A queue with something in every state, and the deliveries of what is pending."""

    queue: Any
    clock: FakeClock
    held: list[Delivery]

    def through(self, client: Any) -> Any:
        """The same queue, by the same callers, on another connection."""
        other = type(self.queue)(
            client, self.queue.name, clock=self.clock, callers=self.queue.callers
        )
        other._registered = True
        return other

    def one(self, state: Any) -> str:
        entry = self.queue.page(state).entries[0]
        return str(entry.id)


def scene(client: redis.Redis, kind: type[Queue[Any]]) -> Scene:
    client.flushall()
    entry = {"kind": kind.kind, "schema": 1, "created_ms": NOW}
    name = "carmine:q" if kind is CarmineQueue else "q"
    client.hset(registry_key(), name, json.dumps(entry))
    clock = FakeClock(NOW)
    # Everything that is drawn at random or told by the server's clock would differ between runs.
    queue: Any = kind(client, name, clock=clock, callers=CallerSlots(lambda: "me"))
    queue.configure("setup", 1, {"history": "all", "max_failures": "3"})
    if isinstance(queue, RequestQueue):
        queue.submit([b"%d" % n for n in range(8)], id="r", limit=6, priority=7)
    elif isinstance(queue, FairQueue):
        queue.submit("ann", [(f"e{n}", b"%d" % n) for n in range(6)])
        queue.submit("bob", [(f"e{n}", b"%d" % n) for n in range(6, 9)])
    elif isinstance(queue, CircularQueue):
        queue.push([(f"e{n}", b"%d" % n) for n in range(9)])
    elif isinstance(queue, CarmineQueue):
        queue.enqueue([(f"e{n}", b"%d" % n) for n in range(9)])
    else:
        queue.schedule([(f"e{n}", b"%d" % n) for n in range(8)], at=NOW / 1000)
        queue.schedule([("later", b"l")], at=(NOW + 60_000) / 1000)
    first, second, third, *held = queue.take(6, consumer="w").deliveries
    queue.settle(
        [
            Settlement(first, "fail", b"boom", 60),
            Settlement(second, "reject", b"never"),
            Settlement(third, "release"),
        ]
    )
    queue.move(
        "purge-0", 1, [scene_waiting(queue)], source="waiting", target="trash", high_water_ms=NOW
    )
    return Scene(queue, clock, held)


def scene_waiting(queue: Any) -> str:
    entry = queue.page("waiting").entries[-1]
    return str(entry.id)


def seen(client: redis.Redis) -> Picture:
    """All there is, but for the history's ids: these are the server's own time."""
    found = picture(client)
    for key, value in found.items():
        if key.endswith(b":hist"):
            found[key] = [fields for _, fields in value[0]]
    return found


Act = Callable[[Scene, Any], Any]
ACTS: dict[str, tuple[Act, tuple[type[Queue[Any]], ...]]] = {}
ALL: tuple[type[Queue[Any]], ...] = (RequestQueue, DelaySet, CircularQueue, FairQueue, CarmineQueue)


def act(name: str, do: Act, kinds: tuple[type[Queue[Any]], ...] = ALL) -> None:
    ACTS[name] = (do, kinds)


def settling(outcome: Any, delay: float = 0) -> Act:
    return lambda scene, queue: queue.settle(
        [Settlement(delivery, outcome, b"\x00 value", delay) for delivery in scene.held[:2]]
    )


def moving(verb: Any, source: Any) -> Act:
    return lambda scene, queue: queue.move(
        f"{verb}-1",
        1,
        [scene.one(source)],
        source=source,
        target=VERBS[verb][1],
        high_water_ms=NOW,
        consumer="op",
        lease_ms=NOW + 5000 if verb == "reschedule" else LEASE_MS,
    )


def undoing(scene: Scene, queue: Any) -> Any:
    moving("claim", "pending")(scene, scene.queue)
    return queue.undo("claim-1", 1, target="pending", by="undo-1", seq=1)


def controlling(verb: Any, value: str = "") -> Act:
    def do(scene: Scene, queue: Any) -> Any:
        if verb in ("resume", "reopen"):
            scene.queue.control("before", 1, {"resume": "pause", "reopen": "cancel"}[verb], "r")
        return queue.control("control-1", 1, verb, "r", value)

    return do


def appending(scene: Scene, queue: Any) -> Any:
    digest = Digest(50, 4)
    before = str(digest)
    digest.add(b"x")
    return queue.append("s", 1, [b"x"], before=before, after=str(digest))


def sealing(scene: Scene, queue: Any) -> Any:
    appending(scene, scene.queue)
    digest = Digest(50, 4)
    digest.add(b"x")
    return queue.append("s", 2, [], before=str(digest), after=str(digest), seal=True)


REQUESTS, DELAYS = (RequestQueue,), (DelaySet,)
act("submit", lambda s, q: q.submit(PAYLOADS, id="new"), REQUESTS)
act("submit nothing", lambda s, q: q.submit([], id="new"), REQUESTS)
act("submit two chunks", lambda s, q: q.submit(PAYLOADS * 50, id="new"), REQUESTS)
act("append", appending, REQUESTS)
act("seal", sealing, REQUESTS)
act("schedule", lambda s, q: q.schedule([("new", b"\x00"), ("later", b"l")], after=0.009), DELAYS)
act("reschedule", lambda s, q: q.schedule([("later", b"\xff")], after=0.009, mode="move"), DELAYS)
act(
    "reschedule what is pending",
    lambda s, q: q.schedule([(s.held[0].id, b"\xff")], after=0.009, mode="move"),
    DELAYS,
)
act("admit", lambda s, q: run(q.client, admit(q, [("new", b"\x00"), ("later", b"l")])), DELAYS)
PRODUCERS = [do for do, kinds in ACTS.values() if kinds == REQUESTS]
CIRCLES, FAIRS, CARMINES = (CircularQueue,), (FairQueue,), (CarmineQueue,)
act("push", lambda s, q: q.push([("new", b"\x00"), (s.one("waiting"), b"\xff")]), CIRCLES)


def pushing(state: Any) -> Act:
    return lambda scene, queue: queue.push([(scene.one(state), b"\xff")])


def enqueuing(state: Any) -> Act:
    return lambda scene, queue: queue.enqueue([(scene.one(state), b"\xff"), ("new", b"\x00")])


for state in ("pending", "delayed", "dead", "trash"):
    act(f"push what is {state}", pushing(state), CIRCLES)
    act(f"enqueue what is {state}", enqueuing(state), CARMINES)
act(
    "enqueue once more",
    lambda s, q: q.enqueue([(s.held[0].id, b"\xff"), ("new", b"")], requeue=True, backoff=0.009),
    CARMINES,
)
act(
    "enqueue other content",
    lambda s, q: q.enqueue([(s.one("waiting"), b"\xff"), (s.held[0].id, b"")], update=True),
    CARMINES,
)
act("submit a client's", lambda s, q: q.submit("ann", [("new", b"\x00"), ("e1", b"other")]), FAIRS)
act("weigh", lambda s, q: q.weigh("ann", 5), FAIRS)
act("block", lambda s, q: q.set_client_rule("block-1", 1, "blocked", "bob", 1), FAIRS)
act("invert", lambda s, q: q.undo_change("undo-2", 1, "cap", ["ann", "3"]), FAIRS)
act("delete a client's", lambda s, q: q.delete("ann", "gone", 1), FAIRS)
PRODUCERS.append(ACTS["delete a client's"][0])
act("take", lambda s, q: q.take(3, consumer="w2"))
act("take nothing", lambda s, q: (s.queue.take(100, consumer="w3"), q.take(3, consumer="w2"))[1])
for outcome in ("ack", "result", "fail", "reject", "release"):
    act(outcome, settling(outcome))
act("fail with a delay", settling("fail", 5))
act("extend", lambda s, q: q.extend(s.held, 2 * LEASE_MS / 1000))
act("turn", lambda s, q: q.settle_and_take([Settlement(s.held[0], "ack")], 2, consumer="w"))
for verb, (sources, _) in VERBS.items():
    for source in sources:
        if source == "done":  # only ids of other programs whose record is gone
            continue
        act(f"{verb} {source}", moving(verb, source))
act("undo", undoing)
act("configure", lambda s, q: q.configure("set-1", 1, {"paused": "a b|c", "aging": "3"}))
for control, given in [
    ("cancel", ""),
    ("reopen", "sealed"),
    ("pause", ""),
    ("resume", ""),
    ("limit", "2"),
    ("priority", "3"),
]:
    act(control, controlling(control, given), REQUESTS)
CASES = [
    pytest.param(do, kind, id=f"{kind.kind} {name}")
    for name, (do, kinds) in ACTS.items()
    for kind in kinds
]


@pytest.mark.slow
@pytest.mark.parametrize(("do", "kind"), CASES)
def test_a_lost_reply_has_no_effect(
    server: EmbeddedServer, client: redis.Redis, do: Act, kind: type[Queue[Any]]
) -> None:
    peace = scene(client, kind)
    expected = do(peace, peace.queue)
    should = seen(client)

    with FlakyProxy(server.port) as proxy, connect(proxy.url) as unlucky:
        war = scene(client, kind)
        proxy.drop_replies(1)
        said = do(war, war.through(unlucky))
        assert sum(proxy.seen.values()) > 1
        assert agree(said, expected)
        assert seen(client) == should

        war = scene(client, kind)
        proxy.drop_replies(3)  # now the client gives up, and says so
        with pytest.raises(Unreachable):
            do(war, war.through(unlucky))
    if do in PRODUCERS:
        do(war, war.queue)  # and whoever runs the producer again completes it
    assert seen(client) == should


def replay_of(
    client: redis.Redis, before_a_move: Callable[[], None] = lambda: None
) -> ChangeRun[EntrySteps]:
    """A replay of 130 dead letters in steps of 50, 50 and 30 on any machine."""
    queue = dead_letters(client, 130)
    ticks = count(1)

    def clock() -> float:  # looked at three times to begin with; in a step secondly before the move
        tick = next(ticks)
        if tick > 3:
            before_a_move()
        return tick * 0.0005

    return entry_change(run(client, select(queue, "dead", Filter())), "replay", ME, clock=clock)


def is_whole(client: redis.Redis, bulk: ChangeRun[EntrySteps]) -> None:
    """Every entry was moved once and counted once, here and in the journal; all can come back."""
    assert (bulk.outcome.matched, bulk.outcome.done, bulk.outcome.skipped) == (130, 130, {})
    queue, operation = run(client, audit_log.find(Deployment(client), bulk.outcome.op or ""))
    assert (operation.done, operation.steps, operation.ended) == (130, 3, True)
    counts = queue.counts()
    assert (counts.dead, counts.waiting) == (0, 130)
    undo = ChangeRun(UndoSteps(queue, operation), ME)
    while run(client, undo.step()):
        pass
    assert (undo.outcome.done, undo.outcome.skipped) == (130, {})
    assert queue.counts().dead == 130


@pytest.mark.parametrize("unheard", [2, 6, 10])  # of four looks at the clock in each of three steps
def test_a_bulk_moves_step_is_tried_again_as_it_was(
    server: EmbeddedServer, client: redis.Redis, unheard: int
) -> None:
    """The client gives up on a reply; who drives the change takes its next step all the same."""
    looks = count(1)
    with FlakyProxy(server.port) as proxy, connect(proxy.url) as unlucky:
        bulk = replay_of(client, lambda: proxy.drop_replies(3 * (next(looks) == unheard)))
        lost = 0
        going = True
        while going:
            try:
                going = run(unlucky, bulk.step())
            except Unreachable:
                lost += 1
        assert lost == 1
    is_whole(client, bulk)


def test_a_bulk_moves_step_that_never_arrived_is_not_left_out(client: redis.Redis) -> None:
    bulk = replay_of(client)
    with connect("redis://127.0.0.1:1") as gone:
        for goes_on in (True, True, True, False):
            with pytest.raises(Unreachable):
                run(gone, bulk.step())
            assert run(client, bulk.step()) is goes_on
    is_whole(client, bulk)


def agree(said: Any, expected: Any) -> bool:
    """Equal replies; what is its own guard says that it was there: `same` for `ok`."""
    if getattr(said, "word", "") == "same":
        said = replace(said, word="ok")
    elif isinstance(said, list):  # of admit
        said = ["ok" if word == "same" else word for word in said]
    return bool(said == expected)


def test_a_forked_process_is_another_caller(client: redis.Redis) -> None:
    """Else its first call would pass for the parent's, sent again."""
    callers = CallerSlots()
    with callers.borrow("take") as (parent, _):
        pass
    reader, writer = os.pipe()
    if not (child := os.fork()):
        with callers.borrow("take") as (name, seq):
            os.write(writer, f"{name} {seq}".encode())
        os._exit(0)
    os.waitpid(child, 0)
    child_name, child_seq = os.read(reader, 100).decode().split()
    os.close(reader)
    os.close(writer)
    assert child_name != parent and child_seq == "1"
    with callers.borrow("take") as again:
        assert again == (parent, 2)


def test_the_asyncio_client_sends_again_too(server: EmbeddedServer, client: redis.Redis) -> None:
    peace = scene(client, RequestQueue)
    expected = peace.queue.settle_and_take([Settlement(peace.held[0], "ack")], 2, consumer="w")
    should = seen(client)
    war = scene(client, RequestQueue)

    async def story(url: str) -> Any:
        async with aconnect(url) as unlucky:
            queue = war.through(unlucky)
            proxy.drop_replies(1)
            return await queue.settle_and_take([Settlement(war.held[0], "ack")], 2, consumer="w")

    with FlakyProxy(server.port) as proxy:
        assert asyncio.run(story(proxy.url)) == expected
        assert proxy.seen[b"EVALSHA"] == 2
    assert seen(client) == should

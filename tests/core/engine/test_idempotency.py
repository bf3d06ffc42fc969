"""Replies lost on the way, a real client that sends again: everything happens once.

Each operation runs twice from the same beginning, once in peace and once through a proxy that
carries it out and then cuts the line. Afterwards the databases are equal, byte for byte. That each
script answers the same when it is sent again is what the models show (`tests/model`).
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
from redisq_ops.core.queues.carmine import CarmineQueue
from redisq_ops.core.queues.circular import CircularQueue
from redisq_ops.core.queues.delay import DelaySet
from redisq_ops.core.queues.delay.handover import admit
from redisq_ops.core.queues.fair import FairQueue
from redisq_ops.core.queues.request import RequestQueue
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
    last = queue.page("waiting").entries[-1].id
    queue.move("purge-0", 1, [last], source="waiting", target="trash", high_water_ms=NOW)
    return Scene(queue, clock, held)


def seen(client: redis.Redis) -> Picture:
    """All there is, but for the history's ids: these are the server's own time."""
    found = picture(client)
    for key, value in found.items():
        if key.endswith(b":hist"):
            found[key] = [fields for _, fields in value[0]]
    return found


ALL: tuple[type[Queue[Any]], ...] = (RequestQueue, DelaySet, CircularQueue, FairQueue, CarmineQueue)
Act = Callable[[Scene, Any], Any]
PRODUCED: dict[str, tuple[type[Queue[Any]], Act]] = {
    "submit two chunks": (
        RequestQueue,
        lambda s, q: q.submit([b"\x00\xff one", b""] * 75, id="new"),
    ),
    "delete a client's": (FairQueue, lambda s, q: q.delete("ann", "gone", 1)),
}
"""what takes several round trips: where the client gives up, whoever began it begins it again"""
ACTS: dict[str, tuple[type[Queue[Any]], Act]] = {
    **PRODUCED,
    "admit": (
        DelaySet,
        lambda s, q: run(q.client, admit(q, [("new", b"\x00"), ("later", b"l")])),
    ),
    "invert": (FairQueue, lambda s, q: q.undo_change("undo-2", 1, "cap", ["ann", "3"])),
    "take": (RequestQueue, lambda s, q: q.take(3, consumer="w2")),
    **{
        f"turn of {kind.kind}": (
            kind,
            lambda s, q: q.settle_and_take([Settlement(s.held[0], "ack")], 2, consumer="w"),
        )
        for kind in ALL
    },
}
"""what the models (`tests/model`) don't send twice, and one call that they do"""


@pytest.mark.slow
@pytest.mark.parametrize("name", ACTS)
def test_a_lost_reply_has_no_effect(server: EmbeddedServer, client: redis.Redis, name: str) -> None:
    kind, do = ACTS[name]
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
    if name in PRODUCED:
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


def test_replies_of_callers_that_came_and_went_go_faster_than_they_came(
    client: redis.Redis,
) -> None:
    """A sweep every 30 s, and thousands of short-lived processes a day."""
    clock = FakeClock(NOW)
    queue = RequestQueue(client, "q", clock=clock)
    queue.submit([b"x"], id="r")
    fields: Any = {f"caller{n}:submit": f"1 {NOW} ok" for n in range(20_000)}
    client.hset(queue.keys["callers"], mapping=fields)
    clock.now_ms += 2 * 86_400_000
    for _ in range(300):  # 150 minutes
        queue.sweep()
    assert client.hlen(queue.keys["callers"]) < 2_000

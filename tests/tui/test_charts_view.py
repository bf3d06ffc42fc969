"""`m`: the charts, driven on a real server."""

from __future__ import annotations

import asyncio

import pytest
import redis
from textual.pilot import Pilot

from redisq_ops.core.model.entry import Settlement
from redisq_ops.core.queues.delay import DelaySet
from redisq_ops.core.queues.request import RequestQueue
from redisq_ops.demo.other_programs import register_found
from redisq_ops.tui.app import Top
from redisq_ops.tui.frame import text

from .test_app import asked, bury, drive, drive_in, press, see, see_line, told

pytestmark = [pytest.mark.alike, pytest.mark.slow]


def work(client: redis.Redis, id: str) -> None:
    queue = RequestQueue(client, "mail")
    queue.submit([b"x"] * 40, id=id, limit=100)
    taken = queue.take(30, consumer="w").deliveries
    queue.settle([Settlement(one, "ack") for one in taken])


def test_a_replay_is_marked_and_its_effect_seen(url: str, client: redis.Redis) -> None:
    bury(client, "lost", 7)

    async def body(app: Top, pilot: Pilot[Exception]) -> None:
        await press(pilot, "5", "A")
        await asked(pilot, "P")
        await press(pilot, "y")
        await told(pilot, "7 replayed")
        await press(pilot, "v")
        await see(pilot, "mail  last 60 seconds", "● 7 waiting", "A  replay-", "┊")
        await asyncio.to_thread(work, client, "r1")
        await see(pilot, "● 17 waiting")
        rates = next(line for line in text(app).splitlines() if "● in" in line)
        assert "last 5 s" in rates
        await press(pilot, "minus")
        await see(pilot, "mail  last hour", "/min", "last 60 s", "seen since")
        await press(pilot, "minus")
        await see(pilot, "mail  last 24 hours", "drawn: 6 m means")
        await press(pilot, "minus")
        await see_line(pilot, "Zoom: the charts show the last 24 hours already.")

    drive_in(url, body)


def test_all_queues_together_and_one_again(url: str, client: redis.Redis) -> None:
    work(client, "r1")
    DelaySet(client, "reminders").schedule([("e1", b"x"), ("e2", b"x")], after=0)

    async def body(app: Top, pilot: Pilot[Exception]) -> None:
        await press(pilot, "a")
        await see_line(pilot, "a: only charts (v) can be of all queues together.")
        await press(pilot, "colon", *"charts", "enter")
        await see(pilot, "mail  last 60 seconds", "● 10 waiting")
        await press(pilot, "a")
        await see(pilot, "all queues  last 60 seconds", "● 12 waiting")
        await press(pilot, "minus", "minus")
        await see(pilot, "all queues  last 24 hours", "drawn: 6 m means")
        await press(pilot, "tab")
        await see(pilot, "reminders  last 24 hours", "● 2 waiting")

    drive_in(url, body)


def test_the_timeline_of_delayed_entries_can_be_zoomed(url: str, client: redis.Redis) -> None:
    DelaySet(client, "reminders").schedule([("soon", b"x")], after=60)
    DelaySet(client, "reminders").schedule([(f"e{n}", b"x") for n in range(9)], after=9 * 3600)

    async def body(app: Top, pilot: Pilot[Exception]) -> None:
        await see(pilot, "10 due in")
        await press(pilot, *["plus"] * 4)
        await see(pilot, "1 due in", "9 not shown")
        await press(pilot, *["minus"] * 4)
        await see(pilot, "10 due in")
        for _ in range(20):
            await press(pilot, "plus")
        await see_line(pilot, "Zoom: a bar is 1s wide already.")
        await press(pilot, "1", "minus")
        await see_line(pilot, "Zoom: only charts (v) and delayed entries (6)")

    drive_in(url, body, "6")


def test_what_a_stream_does_not_tell_is_no_zero(url: str, client: redis.Redis) -> None:
    ids = [client.xadd("orders", {"a": "1"}) for _ in range(5)]
    client.xgroup_create("orders", "g", id="0")
    client.xreadgroup("g", "w", {"orders": ">"}, count=1)
    client.xdel("orders", ids[3])  # from now on the server knows no lag
    register_found(client)
    RequestQueue(client, "mail").submit([b"x"] * 2, id="r", limit=9)

    async def body(app: Top, pilot: Pilot[Exception]) -> None:
        await see(pilot, "● ? waiting")
        await press(pilot, "a")
        await see(pilot, "● ≥2 waiting")

    drive_in(url, body, "v", queue="stream:orders")


def test_what_waits_for_no_time_has_none(url: str, client: redis.Redis) -> None:
    at = "bull:mail:"
    client.hset(at + "meta", "version", "bullmq:5.0.0")
    client.hset(at + "p", mapping={"name": "n", "timestamp": 1, "data": "{}", "opts": "{}"})
    client.zadd(at + "waiting-children", {"p": 1})
    register_found(client)

    async def body(app: Top, pilot: Pilot[Exception]) -> None:
        await see(pilot, "due at", "1 not shown")
        line = next(line for line in text(app).splitlines() if line.startswith("  p "))
        assert line.split()[2:4] == ["-", "-"], line

    drive_in(url, body, "6", queue="bullmq:mail", size=(140, 30))


def test_a_queue_without_counters_says_so(url: str, client: redis.Redis) -> None:
    client.sadd("queues", "mail")
    client.rpush("queue:mail", *[b'{"class":"Work","jid":"%d","args":[]}' % n for n in range(3)])

    async def body(app: Top, pilot: Pilot[Exception]) -> None:
        await press(pilot, "v")
        await see(pilot, "this kind of queue keeps no counters", "● 3 waiting")

    from redisq_ops.core.engine.queue_classes import foreign_class
    from redisq_ops.core.engine.registry import Registered, adopt
    from redisq_ops.core.redis.operation import run

    reader = foreign_class("sidekiq")
    assert reader is not None
    run(client, adopt(Registered("sidekiq:mail", "sidekiq", reader.schema, at="")))
    drive(url, body)

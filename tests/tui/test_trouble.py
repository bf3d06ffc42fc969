"""The overview shows what is wrong first: faults planted among many healthy queues."""

import random

import pytest
import redis
from textual.pilot import Pilot

from redisq_ops.core.model.clock import FakeClock
from redisq_ops.core.model.entry import Failure, Settlement
from redisq_ops.core.queues.fair import FairQueue
from redisq_ops.core.queues.request import RequestQueue
from redisq_ops.core.redis.operation import run
from redisq_ops.ops.change import control
from redisq_ops.ops.change.audit_log import Author
from redisq_ops.ops.inspect import rolling_overview
from redisq_ops.tui.app import Top
from redisq_ops.tui.frame import text

from .test_app import bury, drive, press, see_line, until

pytestmark = pytest.mark.alike

MINUTE, HOUR = 60_000, 3_600_000
HEALTHY = 201


def healthy(client: redis.Redis, name: str) -> None:
    """Work that was just done, and a worker that asks for more."""
    queue = RequestQueue(client, name)
    queue.submit([b"x"], id="r", limit=10)
    queue.settle([Settlement(queue.take(1, consumer="w").deliveries[0], "ack")])
    queue.submit([b"x"] * 3, id="more", limit=10)
    queue.take(1, consumer="w")


def unreadable(client: redis.Redis, name: str, now: int) -> str:
    queue = RequestQueue(client, name)
    queue.submit([b"x"], id="r")
    client.delete(queue.keys["lease"])
    client.set(queue.keys["lease"], "x")
    return f"a key of another type is where the queue keeps its data: {queue.keys['lease']}"


def no_worker(client: redis.Redis, name: str, now: int) -> str:
    queue = RequestQueue(client, name, clock=FakeClock(now - 13 * MINUTE - 5_000))
    queue.submit([b"x"] * 2, id="r")
    queue.settle([Settlement(queue.take(1, consumer="w").deliveries[0], "ack")])
    return "no worker for 13 m"


def held_tokens(client: redis.Redis, name: str, now: int) -> str:
    queue = RequestQueue(client, name, clock=FakeClock(now - 2 * HOUR))
    queue.submit([b"x"] * 9, id="r", limit=2)
    queue.take(2, consumer="geo-3:777", lease=9 * 3600)
    assert not RequestQueue(client, name).take(2, consumer="w").deliveries
    return "request limit used up by geo-3:777"


def dying(client: redis.Redis, name: str, now: int) -> str:
    bury(client, "refused", 61, Failure("ValueError", "no"), name)
    bury(client, "lost", 150, Failure("ConnectionError", "reset"), name)
    return "211 dead in 5 m, latest 20 mostly ConnectionError"


def failing(client: redis.Redis, name: str, now: int) -> str:
    queue = RequestQueue(client, name)
    queue.submit([b"x"] * 40, id="r", limit=100)
    taken = queue.take(40, consumer="w").deliveries
    queue.settle([Settlement(one, "fail", b"", HOUR / 1000) for one in taken[:30]])
    queue.settle([Settlement(one, "ack") for one in taken[30:]])
    return "30 of 40 attempts failed in 5 m"


def old(client: redis.Redis, name: str, now: int) -> str:
    clock = FakeClock(now - 4 * HOUR - 5_000)
    queue = RequestQueue(client, name, clock=clock)
    queue.submit([b"x"] * 400, id="r", limit=1000)
    for minute in range(59, -1, -1):
        clock.now_ms = now - minute * MINUTE
        taken = queue.take(2, consumer="w").deliveries
        queue.settle([Settlement(one, "ack") for one in taken])
    return "oldest waits 4 h, drains in ≈ 2 h"


def blocked(client: redis.Redis, name: str, now: int) -> str:
    queue = FairQueue(client, name)
    queue.submit("acme", [b"x"] * 2)
    queue.submit("globex", [b"x"] * 2)
    queue.block("acme")
    queue.take(1, consumer="w")
    return "client acme blocked"


def paused(client: redis.Redis, name: str, now: int) -> str:
    queue = RequestQueue(client, name)
    queue.submit([b"x"], id="r")
    run(client, control.pause(queue, Author("root", "db-1", "db migration")))
    return "paused by root: db migration"


def draining(client: redis.Redis, name: str, now: int) -> str:
    healthy(client, name)
    queue = RequestQueue(client, name)
    run(client, control.drain(queue, Author("kim", "ops-1", "moves to eu-2")))
    return "draining by kim: moves to eu-2"


FAULTS = (unreadable, dying, held_tokens, no_worker, old, failing, blocked, draining, paused)
"""the worst first"""


def planted(client: redis.Redis, number: int = HEALTHY) -> dict[str, str]:
    """Healthy queues, and nine in trouble among them: name -> reason."""
    dice = random.Random(3)
    names = [f"q{n:03}" for n in range(number + len(FAULTS))]
    bad = dict(zip(dice.sample(names, len(FAULTS)), FAULTS, strict=True))
    now = RequestQueue(client, "clock").now()
    for name in names:
        if name not in bad:
            healthy(client, name)
    return {name: fault(client, name, now) for name, fault in bad.items()}


@pytest.mark.slow
def test_the_first_frame_has_the_faults_on_top_with_their_reasons(
    url: str, client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rolling_overview, "SLOW_LINK_S", 60)  # a busy machine is no slow link
    expected = planted(client)

    async def body(app: Top, pilot: Pilot[Exception]) -> None:
        await pilot.pause()
        lines = text(app).splitlines()
        assert "9 in trouble" in lines[0]
        lines = lines[next(n for n, line in enumerate(lines) if line.startswith("  queue")) + 1 :]
        top = [line.split(maxsplit=1) for line in lines[:9]]
        assert [name for name, _ in top] == list(expected)
        for name, rest in top:
            assert expected[name] in rest
        assert lines[9].split()[1] == "request"  # no reason: the first of the healthy ones
        await press(pilot, "exclamation_mark")
        await see_line(pilot, "1 of 9")
        await press(pilot, "exclamation_mark")
        await see_line(pilot, "of 210")

    drive(url, body, size=(160, 45), interval=3600)


@pytest.mark.slow
def test_a_column_sorts_in_both_directions(url: str, client: redis.Redis) -> None:
    for name, number in (("few", 1), ("many", 3), ("some", 2)):
        queue = RequestQueue(client, name)
        queue.submit([b"x"] * number, id="r")

    def listed(app: Top) -> list[str]:
        return [line.split()[0] for line in text(app).splitlines()[3:6]]

    async def body(app: Top, pilot: Pilot[Exception]) -> None:
        while app.current.orders[app.current.order].key != "waiting":
            await press(pilot, "s")
        assert listed(app) == ["many", "some", "few"] and "waiting ▼" in text(app)
        await press(pilot, "r")
        assert listed(app) == ["few", "some", "many"] and "waiting ▲" in text(app)
        at = text(app).splitlines()[2].index("queue")
        await pilot.click(app.current.table, offset=(at, 0))
        await until(pilot, lambda: listed(app) == ["few", "many", "some"])
        await pilot.click(app.current.table, offset=(at, 0))
        await until(pilot, lambda: listed(app) == ["some", "many", "few"])

    drive(url, body)

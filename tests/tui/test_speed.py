"""The speed of a change, set in its dialog, on real servers."""

import asyncio

import pytest
import redis
from textual.app import App
from textual.pilot import Pilot

from redisq_ops.core.model.entry import Settlement
from redisq_ops.core.queues.carmine import CarmineQueue
from redisq_ops.core.redis.operation import run
from redisq_ops.ops.change.audit_log import last
from redisq_ops.ops.change.limits import Guard
from redisq_ops.tui.app import Top
from redisq_ops.tui.change.confirm_dialog import Confirm, Question
from redisq_ops.tui.change.speed_fields import ChangeSpeed
from redisq_ops.tui.frame import text

from .test_app import bury, drive_in, press, see, told, until
from .test_toolkit import limited, under

pytestmark = pytest.mark.alike


@pytest.mark.slow
@pytest.mark.parametrize(
    ("keys", "speed"),
    [
        ("y", ChangeSpeed()),
        (["r", *"500/s", "y"], ChangeSpeed(rate=500.0)),
        (["r", *"30/m", "tab", "2", "0", "y"], ChangeSpeed(rate=0.5, canary=20)),
        (["r", "tab", "tab", "space", "y"], ChangeSpeed(ramp=True)),
        (["r", "x", "5", "enter", "7", "y"], ChangeSpeed(rate=5.0, canary=7)),
        (["r", "/", "y"], None),
        (["r", "tab", "0", "y"], None),
    ],
)
def test_the_dialog_takes_a_rate_a_canary_and_a_ramp(
    keys: list[str], speed: ChangeSpeed | None
) -> None:
    async def body() -> None:
        app, answers = App[None](), list[bool | None]()
        async with app.run_test(size=(80, 24)) as pilot:
            dialog = Confirm(Question("Replay 3 entries?", why=True, speed="ramp"))
            await app.push_screen(dialog, answers.append)
            await pilot.pause()
            await pilot.press(*keys[:-1])
            await pilot.pause()
            ticked = speed is not None and speed.ramp
            assert ("▐X▌ ramp up" in text(app), "▐ ▌ ramp up" in text(app)) == (ticked, not ticked)
            await pilot.press(keys[-1])
            await pilot.pause()
            assert answers == ([] if speed is None else [True])
            if speed is not None:
                assert dialog.speed == speed

    asyncio.run(body())


async def asked(pilot: Pilot[Exception], key: str) -> None:
    await press(pilot, "A", key)
    await until(pilot, lambda: isinstance(pilot.app.screen, Confirm))


@pytest.mark.slow
@pytest.mark.parametrize("number", [30, 1_300])  # the second is large enough to go as a whole
def test_a_canary_is_replayed_first_and_esc_stops_before_the_rest(
    url: str, client: redis.Redis, number: int
) -> None:
    queue = bury(client, "r1", number)

    async def body(app: Top, pilot: Pilot[Exception]) -> None:
        await asked(pilot, "P")
        if number > 1000:
            await press(pilot, *str(number), "tab")
        else:
            await press(pilot, "r")
        await press(pilot, "tab", "5")
        await press(pilot, "y")
        await see(pilot, f"replay: watching · 5 of {number:,}")
        await press(pilot, "escape")
        await told(pilot, "5 replayed, stopped before the rest")
        counts = await asyncio.to_thread(queue.counts)
        assert (counts.waiting, counts.dead) == (5, number - 5)

    drive_in(url, body, "5")


@pytest.mark.slow
def test_a_purge_has_a_rate_alone_and_keeps_to_it(url: str, client: redis.Redis) -> None:
    queue = bury(client, "r1", 40)

    async def body(app: Top, pilot: Pilot[Exception]) -> None:
        await asked(pilot, "X")
        assert "canary" not in text(app) and "rate" in text(app)
        await press(pilot, "r", *"1/m", "y")
        await see(pilot, "purge: 1 of 40")
        await press(pilot, "escape")
        await told(pilot, "stopped before the rest")
        assert (await asyncio.to_thread(queue.counts)).trash <= 2

    drive_in(url, body, "5")


@pytest.mark.slow
def test_a_rate_above_the_allowed_one_is_refused(url: str, client: redis.Redis) -> None:
    queue = bury(client, "r1", 2)

    async def body(app: Top, pilot: Pilot[Exception]) -> None:
        await asked(pilot, "P")
        await press(pilot, "r", *"50/s", "y")
        await told(pilot, "50/s is faster than 10/s")

    under(url, limited(url, Guard(max_rate=10)), body, "5")
    assert queue.counts().dead == 2 and run(client, last(queue, 9)) == []


@pytest.mark.slow
def test_a_queue_that_hides_how_replayed_entries_end_offers_no_canary(
    url: str, client: redis.Redis
) -> None:
    queue = CarmineQueue(client, "carmine:mail")
    queue.enqueue([("m1", b"x")])
    queue.settle(
        [Settlement(one, "reject", b"{}") for one in queue.take(1, consumer="w").deliveries]
    )

    async def body(app: Top, pilot: Pilot[Exception]) -> None:
        await asked(pilot, "P")
        shown = text(app)
        assert "no canary or ramp: newer content" in shown and "ramp up" not in shown
        await press(pilot, "y")
        await told(pilot, "1 replayed")
        assert (await asyncio.to_thread(queue.counts)).dead == 0

    drive_in(url, body, "5")

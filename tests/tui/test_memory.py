"""What the dashboard keeps of what it drew: as much after many keys as after a few."""

import asyncio
import gc

import pytest
from textual.pilot import Pilot
from textual.widget import Widget

from redisq_ops.tui.app import Top

from .test_snapshots import Seeded

AROUND = ("5", "slash", "escape", "6", "t", "escape", "1")
"""each of these keys changes what the footer shows"""
SPARE = 40
"""widgets of notifications, and of a screen that is on its way out"""


async def alive(pilot: Pilot[Exception], rounds: int) -> int:
    """The widgets there are, on the screen or not, after so many rounds of keys."""
    await pilot.press(*AROUND * rounds)
    gc.collect()
    return sum(isinstance(one, Widget) for one in gc.get_objects())


@pytest.mark.slow
def test_many_keys_leave_no_more_behind_than_a_few() -> None:
    async def body() -> tuple[int, int]:
        app = Top(Seeded(), interval=3600, queue="mail")
        async with app.run_test(size=(120, 40)) as pilot:
            return await alive(pilot, 1), await alive(pilot, 5)

    few, many = asyncio.run(body())
    assert many <= few + SPARE

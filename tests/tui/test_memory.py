"""What the dashboard keeps of what it drew: as much after many keys as after a few."""

import asyncio
import gc

import pytest
from textual.pilot import Pilot
from textual.widget import Widget

from redisq_ops.ops.inspect.snapshot import Snapshot, Viewport
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


class Late(Seeded):
    """A server that answers, or refuses to, once it is told so."""

    def __init__(self, refuses: bool) -> None:
        super().__init__()
        self.refuses, self.told = refuses, asyncio.Event()

    async def look(self, viewport: Viewport) -> Snapshot:
        await self.told.wait()
        if self.refuses:
            raise ConnectionError
        return await super().look(viewport)


@pytest.mark.parametrize("refuses", [False, True])
def test_the_first_answer_or_error_ends_the_time_without_garbage_collection(refuses: bool) -> None:
    async def body() -> None:
        source = Late(refuses)
        app = Top(source, interval=3600)
        async with app.run_test() as pilot:
            app._in_terminal = True
            assert not gc.isenabled()
            source.told.set()
            while app.snapshot is None and app.problem is None:
                await pilot.pause()
            assert gc.isenabled() and gc.get_threshold()[0] == 10_000 and gc.get_freeze_count()

    usual = gc.get_threshold()
    gc.disable()
    try:
        asyncio.run(body())
    finally:
        gc.unfreeze()
        gc.set_threshold(*usual)
        gc.enable()

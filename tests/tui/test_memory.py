"""What the dashboard keeps of what it drew: as much after many keys as after a few."""

import asyncio
import gc

import pytest
from textual.pilot import Pilot
from textual.widget import Widget

from redisq_ops.tui.app import Top
from redisq_ops.tui.views import numbered

from .test_snapshots import Seeded

ROUNDS = 3
SPARE = 40
"""widgets: notifications and the rest of a screen that is on its way out"""
_NAMES = {",": "comma"}


def around() -> list[str]:
    """Keys into each view and about in it, over dialogs and out of them: more than 80."""
    keys = ["1", "j", "t", "escape", "question_mark", "escape", "ctrl+p", "escape"]
    for key, _ in numbered():
        keys += [_NAMES.get(key, key), "p", "slash", "escape", "p"]
    return keys


def alive() -> int:
    gc.collect()
    return sum(isinstance(one, Widget) for one in gc.get_objects())


async def walk(pilot: Pilot[Exception]) -> int:
    await pilot.press(*around(), "escape", "escape", "1")
    return alive()


@pytest.mark.slow
def test_many_keys_leave_no_more_behind_than_a_few() -> None:
    async def body() -> list[int]:
        app = Top(Seeded(), interval=3600, queue="mail")
        async with app.run_test(size=(120, 40)) as pilot:
            return [await walk(pilot) for _ in range(ROUNDS)]

    first, *later = asyncio.run(body())
    assert max(later) <= first + SPARE, (first, later)

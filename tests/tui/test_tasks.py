"""The view of tasks, over a real RQ's entries."""

from __future__ import annotations

from typing import Any

import pytest
from textual.pilot import Pilot

from redisq_ops.tui.app import Top

from ..command_line import Redisq
from ..core.foreign.specimens import SPECIMENS
from .test_app import drive, press, see

pytestmark = pytest.mark.alike


def test_tasks_are_shown_with_what_they_are_from_and_filtered(
    url: str, client: Any, redisq: Redisq
) -> None:
    SPECIMENS["rq"].fill(client)
    redisq("discover", "--register", "--yes")

    async def body(app: Top, pilot: Pilot[Exception]) -> None:
        await press(pilot, "x")
        await see(pilot, "rq_tasks.fine", "rq_tasks.fails", "p95", "ValueError", "all 4 done and")
        await press(pilot, "p")
        await see(pilot, "times of", "4 runs")
        await press(pilot, "slash", *"fine", "enter")
        await see(pilot, "/fine/ in 1 of")

    drive(url, body, queue="rq:low")


def test_a_queue_whose_tasks_are_unknown_says_why(url: str, client: Any, redisq: Redisq) -> None:
    client.sadd("resque:queues", "low")
    client.rpush("resque:queue:low", '{"class": "Mail", "args": []}')
    redisq("discover", "--register", "--yes")

    async def body(app: Top, pilot: Pilot[Exception]) -> None:
        await press(pilot, "x")
        await see(pilot, "no run of a task is known in resque:low: Resque keeps nothing")

    drive(url, body, queue="resque:low")

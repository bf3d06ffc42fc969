"""`N`: dead letters that somebody knows of are no trouble until a time."""

from __future__ import annotations

import pytest
import redis
from textual.pilot import Pilot

from redisq_ops.core.queues.delay import DelaySet
from redisq_ops.tui.app import Top
from redisq_ops.tui.frame import text

from .test_app import asked, bury, drive, press, see, told, undo, until, valued

pytestmark = [pytest.mark.alike, pytest.mark.slow]


def test_known_dead_letters_are_no_trouble_until_undone(url: str, client: redis.Redis) -> None:
    bury(client, "r", 3)
    DelaySet(client, "later").schedule([("e1", b"x")], after=60)

    async def body(app: Top, pilot: Pilot[Exception]) -> None:
        await see(pilot, "1 in trouble", "3 dead")
        app.overview.table.go_to("mail")
        await valued(pilot, "N")
        await see(pilot, "The dead letters of mail are known until when?", "3d", "until 20")
        await press(pilot, *["backspace"] * 2, *"soon", "enter")
        await see(pilot, "soon")
        assert not client.exists("redisq:acknowledged")
        await press(pilot, *["backspace"] * 4, *"2h")
        await asked(pilot, "enter")
        await see(pilot, "3 dead: no trouble until")
        await press(pilot, "y")
        await told(pilot, "The dead letters of mail are known until")
        await until(pilot, lambda: "in trouble" not in text(app))
        await undo(pilot)
        await press(pilot, "y")
        await see(pilot, "1 in trouble")
        app.overview.table.go_to("later")
        await press(pilot, "N")
        await told(pilot, "later has no dead letters.")

    drive(url, body)

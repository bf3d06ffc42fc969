"""The overview says how many dead letters came since the user looked at those of a queue."""

from __future__ import annotations

import redis
from textual.pilot import Pilot

from redisq_ops.tui.app import Top
from redisq_ops.tui.frame import text
from redisq_ops.tui.new_dead import NewDead

from .test_app import bury, drive, press, see, until


def test_entries_that_went_are_not_new_when_others_come() -> None:
    new = NewDead()
    assert [new.of("mail", n) for n in (40, 45, 5, 8)] == [0, 5, 0, 3]
    assert new.of("celery", None) == 0


def test_new_dead_letters_are_counted_until_somebody_looks(url: str, client: redis.Redis) -> None:
    bury(client, "r", 3)

    async def body(app: Top, pilot: Pilot[Exception]) -> None:
        await see(pilot, "mail", " 3 ")
        assert " new" not in text(app)
        bury(client, "s", 4)
        await see(pilot, " new", "+4")
        await press(pilot, "5")
        await see(pilot, "s/4")
        await press(pilot, "1")
        await until(pilot, lambda: "in trouble" in text(app) and "+4" not in text(app))

    drive(url, body)

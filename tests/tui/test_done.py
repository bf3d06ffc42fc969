"""The view of done entries, over a real RQ's."""

from __future__ import annotations

from typing import Any

import pytest
from textual.pilot import Pilot

from redisq_ops.tui.app import Top
from redisq_ops.tui.frame import text

from ..command_line import Redisq
from ..core.foreign.specimens import SPECIMENS
from .test_app import asked, drive, press, see, until

pytestmark = [pytest.mark.alike, pytest.mark.slow]


def test_done_entries_are_shown_with_their_results_and_run_again(
    url: str, client: Any, redisq: Redisq
) -> None:
    SPECIMENS["rq"].fill(client)
    redisq("discover", "--register", "--yes")

    async def body(app: Top, pilot: Pilot[Exception]) -> None:
        await press(pilot, "n")
        await see(pilot, "good0", "good3", "rq_tasks.fine", "ended", "1 of 4", "n done 4")
        app.current.table.go_to("good2")
        await press(pilot, "enter")
        await see(pilot, "result  1 B, JSON", "took", "payload")
        await press(pilot, "escape")
        assert (await asked(pilot, "P")).question.title == "Replay 1 done entry of rq:low?"
        await press(pilot, "y")
        await until(pilot, lambda: b"good2" in client.lrange("rq:queue:low", 0, -1))
        await see(pilot, "of 3")
        await press(pilot, "9")
        await see(pilot, "good2")

    drive(url, body, queue="rq:low")


def test_a_queue_that_keeps_none_offers_no_such_view(url: str, client: Any, redisq: Redisq) -> None:
    redisq("delay", "add", "later/e1", "--in", "1h", "x")

    async def body(app: Top, pilot: Pilot[Exception]) -> None:
        assert "n done" not in text(app)
        await press(pilot, "n")
        await see(pilot, "it has no done")

    drive(url, body, queue="later")

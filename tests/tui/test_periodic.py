"""Periodic entries in the dashboard, on a real server."""

import pytest
import redis
from textual.pilot import Pilot

from redisq_ops.core.engine.registry import Registered
from redisq_ops.core.foreign.rq import RqQueue
from redisq_ops.core.model.clock import FakeClock
from redisq_ops.core.model.entry import Entry
from redisq_ops.core.queues.delay import DelaySet, Periodic
from redisq_ops.core.redis.operation import run
from redisq_ops.ops.change.limits import Guard
from redisq_ops.ops.deployment import Deployment
from redisq_ops.ops.discover import register
from redisq_ops.ops.redaction import Redaction
from redisq_ops.tui.app import Top
from redisq_ops.tui.change.confirm_dialog import Confirm
from redisq_ops.tui.change.undo_screen import UndoScreen
from redisq_ops.tui.command.command_line import RowAddresses
from redisq_ops.tui.frame import text

from ..foreign_keys import schedule_programs
from .test_app import drive_in, press, see, told, until
from .test_toolkit import limited, under

pytestmark = [pytest.mark.alike, pytest.mark.slow]

DAY = 86_400_000


async def confirmed(pilot: Pilot[Exception], key: str, *words: str) -> None:
    await press(pilot, key)
    await until(pilot, lambda: isinstance(pilot.app.screen, Confirm))
    await see(pilot, *words)
    await press(pilot, "y")


def test_periodic_entries_are_paused_run_removed_and_brought_back(
    url: str, client: redis.Redis
) -> None:
    queue = DelaySet(client, "later")
    queue.set_periodic(Periodic("report", "0 0 1 1 *", b"yearly", zone="Europe/Berlin"))
    past = DelaySet(client, "later", clock=FakeClock(queue.now() - 3 * DAY))
    past.set_periodic(Periodic("clean-up", "0 3 * * *", b"daily"))

    def runs() -> list[Entry]:
        return [entry for entry in queue.page("waiting").entries if entry.id.startswith("report@")]

    async def body(app: Top, pilot: Pilot[Exception]) -> None:
        await see(pilot, "clean-up", "0 3 * * *", "3 missed", "report", "Europe/Berlin", "1 of 2")
        await press(pilot, "G")
        assert app.current.table.identity == "report"
        assert app.addresses == RowAddresses(("later/report",), "later")

        await confirmed(pilot, "H", "Pause periodic entry later/report?", "0 0 1 1 *")
        await told(pilot, "report is paused")
        await until(pilot, lambda: "paused" in line(app, "report"))
        await confirmed(pilot, "H", "Resume periodic entry later/report?", "next run: ")
        await told(pilot, "report is resumed")
        await until(pilot, lambda: "paused" not in line(app, "report"))

        await confirmed(pilot, "R", "Run periodic entry later/report?", "which stays as it is")
        await told(pilot, "report runs now")
        await until(pilot, lambda: "waiting" in line(app, "report"))
        assert len(runs()) == 1

        await confirmed(pilot, "X", "Remove periodic entry later/report?")
        await told(pilot, "report is removed")
        await see(pilot, "1 of 1")
        assert [each.name for each in queue.periodics()] == ["clean-up"]
        await press(pilot, "U")
        await until(pilot, lambda: isinstance(app.screen, UndoScreen))
        await press(pilot, "enter")
        await until(pilot, lambda: isinstance(app.screen, Confirm))
        await press(pilot, "y")
        await see(pilot, "of 2", "report")
        assert len(runs()) == 1

    drive_in(url, body, "e")


def test_of_a_hundred_missed_runs_or_more_no_number_is_made_up(
    url: str, client: redis.Redis
) -> None:
    queue = DelaySet(client, "later")
    past = DelaySet(client, "later", clock=FakeClock(queue.now() - 3 * DAY))
    past.set_periodic(Periodic("beat", "* * * * *", b"x"))

    async def body(app: Top, pilot: Pilot[Exception]) -> None:
        await see(pilot, "beat", "100 or more missed")

    drive_in(url, body, "e")


def line(app: Top, name: str) -> str:
    return next((each for each in text(app).splitlines() if each.split()[:1] == [name]), "")


def test_other_kinds_have_no_periodic_entries(url: str, client: redis.Redis) -> None:
    from redisq_ops.core.queues.request import RequestQueue

    RequestQueue(client, "mail").submit([b"x"], id="r")

    async def body(app: Top, pilot: Pilot[Exception]) -> None:
        await see(pilot, "mail is a request queue: it has no periodic entries.")

    drive_in(url, body, "e")


def test_another_programs_schedule_is_shown_and_removed(url: str, client: redis.Redis) -> None:
    schedule_programs.rq_scheduler(client)
    queue = RqQueue(client, "rq:low")
    run(client, register(Deployment(client), [Registered("rq:low", "rq", 1, 0, at="rq:")]))

    async def body(app: Top, pilot: Pilot[Exception]) -> None:
        # The queue of the last one isn't registered.
        await see(pilot, "nightly", "0 3 * * *", "often", "every 15m", "elsewhere")
        await press(pilot, "G", "k")
        await until(pilot, lambda: app.current.table.identity == "nightly")
        await see(pilot, "X Remove")
        assert "R Run once" in text(app) and "H Pause" not in text(app)
        await press(pilot, "p")
        await see(pilot, "tests.foreign_keys.***.fine")
        await press(pilot, "H")
        await see(pilot, "rq-scheduler has no pause; remove the schedule")
        await confirmed(
            pilot,
            "X",
            "Remove periodic entry rq:low/nightly?",
            "0 3 * * *, tests.foreign_keys.***.fine",
        )
        await told(pilot, "nightly is removed")
        assert "nightly" not in [each.name for each in queue.periodics()]

    hidden = Redaction.read([({"patterns": {"module": "rq_tasks"}}, "")])
    under(url, limited(url, Guard(), hidden), body, "e")


def test_another_programs_own_pause_is_set(url: str, client: redis.Redis) -> None:
    schedule_programs.rq_cron(client)
    run(client, register(Deployment(client), [Registered("rq:low", "rq", 1, 0, at="rq:")]))

    async def body(app: Top, pilot: Pilot[Exception]) -> None:
        await confirmed(pilot, "H", "Pause queue rq:low?", "ALL queues of RQ")
        await told(pilot, "paused")
        assert client.get("rq:suspended") == b"1"

    drive_in(url, body, "1")

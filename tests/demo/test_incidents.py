"""The incidents of the demo: each is solved by the keys that its page names."""

import asyncio
import os
import random
import re
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import redis
from textual.pilot import Pilot
from textual.widgets import Input

from redisq_ops.cli.commands.demo import INCIDENTS as NAMES
from redisq_ops.core.queues.request import RequestQueue
from redisq_ops.core.redis.client import aconnect, connect
from redisq_ops.core.redis.operation import run
from redisq_ops.demo.incidents import INCIDENTS, Incident
from redisq_ops.demo.workload import Workload, create_queues
from redisq_ops.ops.deployment import Deployment
from redisq_ops.ops.inspect.details import request_details
from redisq_ops.ops.inspect.overview import overview
from redisq_ops.ops.trouble.finding import Thresholds
from redisq_ops.tui.app import Top
from redisq_ops.tui.change.confirm_dialog import Confirm
from redisq_ops.tui.change.undo_screen import UndoScreen
from redisq_ops.tui.frame import text
from redisq_ops.tui.guide import GuideStrip
from redisq_ops.tui.poller import Connected, Live

from ..tui.conftest import undrawn
from ..tui.test_app import press, see, until

__all__ = ["undrawn"]
pytestmark = pytest.mark.alike

PAGE = Path(__file__).parents[2] / "docs" / "tutorial" / "incidents.md"
SCREEN = re.compile(r"(<!-- screen: (\S+) -->\n)(.*?)(<!-- end of screen -->)", re.S)
KEYS = {"Enter": "enter", "Esc": "escape", "/": "slash"}


def pressed(name: str) -> list[list[str]]:
    """The keys of an incident's section, row by row."""
    section = PAGE.read_text().partition(f"<!-- screen: {name} -->")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (`.+?`) \|", section, re.M)
    return [re.findall(r"`(.+?)`", row) for row in rows]


@contextmanager
def working(url: str, incidents: list[Incident]) -> Iterator[Workload]:
    """The demo's queues and its workload, in a thread."""
    ended = threading.Event()
    with connect(url, "demo") as client:
        create_queues(client, incidents, random.Random(5))
        workload = Workload(client, incidents, random.Random(5))

        def ticks() -> None:
            while not ended.wait(0.1):
                workload.tick()

        thread = threading.Thread(target=ticks)
        thread.start()
        try:
            yield workload
        finally:
            ended.set()
            thread.join()


def dashboard(url: str, incidents: list[Incident]) -> Top:
    guide = [incident.steps for incident in incidents]
    return Top(
        Live(lambda: Connected(url, Deployment(aconnect(url, "top")))), interval=0.3, guide=guide
    )


async def play(app: Top, pilot: Pilot[Exception], key: str) -> None:
    """Press a key, or type a text, once what it is for is on the screen."""
    if key == "y":
        await until(pilot, lambda: isinstance(app.screen, Confirm))
    elif key == "Enter" and not isinstance(app.focused, Input):
        await until(pilot, lambda: isinstance(app.screen, UndoScreen))
    else:
        await until(pilot, lambda: app.answered and not app.changes.running)
    await press(pilot, *([KEYS[key]] if key in KEYS else key))


async def play_row(app: Top, pilot: Pilot[Exception], guide: GuideStrip, row: list[str]) -> None:
    """Press the keys of a row; if they change something, wait until the guide has noticed."""
    step = guide.at
    for key in row:
        await play(app, pilot, key)
    if row[-1] == "y":
        await until(pilot, lambda: guide.at > step)


def test_the_page_and_the_help_have_all_incidents() -> None:
    assert (
        list(NAMES) == list(INCIDENTS) == [found[1] for found in SCREEN.findall(PAGE.read_text())]
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_the_keys_of_its_page_solve_an_incident(url: str, name: str) -> None:
    incident = INCIDENTS[name]
    rows = pressed(name)

    async def body() -> None:
        app = dashboard(url, [incident])
        assert app.guide is not None
        async with app.run_test(size=(160, 45)) as pilot:
            several = ", step 1 of 3" if name == "wrong-deploy" else ""
            await see(pilot, f"1 of 1{several}: {incident.steps[0].problem}")
            # Worst first: the cursor is on the incident's queue.
            await until(pilot, lambda: app.current.table.identity == incident.queue)
            for row in rows:
                await play_row(app, pilot, app.guide, row)
            number = sum(
                1 if key in KEYS or len(key) == 1 else len(key) for row in rows for key in row
            )
            await see(pilot, f"Solved in {number} keys, ")

    with working(url, [incident]):
        asyncio.run(body())


@pytest.mark.slow
def test_the_page_shows_what_the_dashboard_shows(url: str) -> None:
    """But for numbers that change from one run to the next."""
    page = PAGE.read_text()
    with connect(url, "demo") as client:
        create_queues(client, list(INCIDENTS.values()), random.Random(5))
        Workload(client, list(INCIDENTS.values()), random.Random(5)).tick()

    async def frame() -> list[str]:
        app = dashboard(url, list(INCIDENTS.values()))
        async with app.run_test(size=(100, 45)) as pilot:
            await until(pilot, lambda: app.answered and not (app.snapshot and app.snapshot.unread))
            await pilot.pause()
            return text(app).splitlines()

    lines = asyncio.run(frame())

    def screen(found: re.Match[str]) -> str:
        rows = [
            next(line for line in lines if line.split()[:1] == [first])
            for first in ("queue", INCIDENTS[found[2]].queue)
        ]
        return f"{found[1]}\n```text\n" + "\n".join(rows) + f"\n```\n\n{found[4]}"

    drawn = SCREEN.sub(screen, page)
    if os.environ.get("REDISQ_DOCS") == "redraw":
        PAGE.write_text(drawn)
        return
    assert words(page) == words(drawn), "REDISQ_DOCS=redraw pytest tests/demo/test_incidents.py"


def words(page: str) -> list[str]:
    page = re.sub(r"\S*\s*…", "…", page)  # wider numbers leave less room for the text beside them
    return re.sub(r"[\d.,]+|-|▃", "#", page).split()


@pytest.mark.slow
def test_the_first_frame_is_full_of_life(url: str, client: redis.Redis) -> None:
    create_queues(connect(url, "demo"), list(INCIDENTS.values()), random.Random(5))
    found = run(connect(url), overview(Deployment(), lambda name: Thresholds(minutes=60)))
    kinds = {row.kind for row in found.rows}
    assert kinds == {
        "request",
        "fair",
        "delay",
        "circular",
        "carmine",
        "sidekiq",
        "resque",
        "rq",
        "arq",
        "dramatiq",
        "celery",
        "bullmq",
        "stream",
    }
    assert len(found.rows) >= 32
    assert not [row.problem for row in found.rows if row.problem]
    rates = [row.rates for row in found.rows if row.rates is not None]
    tiles = run(connect(url), request_details(RequestQueue(client, "geo-import"), "tiles-eu"))
    assert all(one.idle_ms and one.idle_ms > 3_600_000 for one in tiles.pending)
    lively = [one for one in rates if all(one.last_minute(found.now_ms)[:2])]
    assert len(lively) >= 18
    assert all(len(list(filter(None, one.settled))) >= 9 for one in lively)
    assert sum(bool(one.failed[-2:] and sum(one.failed)) for one in lively) >= 8


@pytest.mark.slow
@pytest.mark.usefixtures("on_path")
def test_the_demo_leaves_other_servers_alone(url: str, client: redis.Redis) -> None:
    RequestQueue(client, "mail").submit([b"x"], id="r")
    before = {key: client.dump(key) for key in client.scan_iter()}
    command = ["redisq", "--url", url, "demo", "--incident", "flood"]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
        env={**os.environ, "REDIS_URL": url, "COLUMNS": "160", "LINES": "45"},
    )
    assert "1 of 1: mail: receipts wait behind a newsletter. Press 3." in done.stdout
    assert {key: client.dump(key) for key in client.scan_iter()} == before


def test_an_unknown_incident_is_bad_input(capsys: pytest.CaptureFixture[str]) -> None:
    from redisq_ops.cli.main import run as command

    assert command(["demo", "--incident", "fire"]) == 2
    assert "no incident 'fire': wrong-deploy, stuck" in capsys.readouterr().err

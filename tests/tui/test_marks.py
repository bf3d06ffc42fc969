"""Marks of all views and queues: they stay, are listed as the server has them, and are acted on."""

from typing import Any

import pytest
import redis
from textual.pilot import Pilot

from benchmarks.foreign_jobs import NAMES, fill
from redisq_ops.core.model.entry import Entry
from redisq_ops.core.queues.request import RequestQueue
from redisq_ops.core.redis.operation import run
from redisq_ops.demo.other_programs import register_found
from redisq_ops.ops.deployment import Deployment
from redisq_ops.tui.app import Top
from redisq_ops.tui.frame import text
from redisq_ops.tui.marks import Mark, looked_up
from redisq_ops.tui.screens.detail_screen import DetailScreen
from redisq_ops.tui.screens.marks_screen import MarksScreen
from redisq_ops.tui.table.table import PagedTable

from ..fleet import cards_die
from .test_app import asked, bury, dead, drive_in, press, see, told, until

pytestmark = pytest.mark.slow


async def on(app: Top, pilot: Pilot[Exception], queue: str, view: str, *ids: str) -> None:
    """Mark these rows."""
    app.navigation.open_place(view, queue)  # type: ignore[arg-type]
    for id in ids:
        await until(pilot, lambda one=id: one in app.current.table.in_sight)  # type: ignore[misc]
        app.current.table.go_to(id)
        await press(pilot, "space")


def row(app: Top, words: str) -> list[str]:
    return next(line for line in text(app).splitlines() if words in line).split()


def test_marks_of_several_queues_are_listed_opened_taken_away_and_acted_on(
    url: str, client: redis.Redis
) -> None:
    mail = bury(client, "a", 4)
    news = bury(client, "b", 3, name="news")
    RequestQueue(client, "news").submit([b"x"] * 2, id="open", limit=2)

    async def body(app: Top, pilot: Pilot[Exception]) -> None:
        await press(pilot, "asterisk")
        await see(pilot, "nothing is marked")
        await on(app, pilot, "mail", "dead", "a/1", "a/2", "a/3")
        await on(app, pilot, "news", "dead", "b/1")
        await on(app, pilot, "news", "requests", "open")
        await see(pilot, "1 marked", "4 marked elsewhere (*)")
        mail.move("by-hand", 1, ["a/1"], source="dead", target="waiting", high_water_ms=mail.now())
        await press(pilot, "asterisk")
        await until(pilot, lambda: isinstance(app.screen, MarksScreen))
        await see(pilot, "marked in", "open")
        assert row(app, "a/1")[-3] == "waiting" and row(app, "b/1")[-3] == "dead"
        assert row(app, "requests    open")[1:4] == ["●", "news", "requests"]
        app.screen.query_one(PagedTable).go_to("dead mail/a/3")
        await press(pilot, "space", "escape")
        await see(pilot, "1 marked", "3 marked elsewhere")
        await press(pilot, "asterisk")
        await until(pilot, lambda: isinstance(app.screen, MarksScreen))
        assert "a/3" not in text(app)
        app.screen.query_one(PagedTable).go_to("dead news/b/1")
        await press(pilot, "enter")
        await until(pilot, lambda: isinstance(app.screen, DetailScreen))
        await press(pilot, "escape")
        assert (app.queue, app.view) == ("news", "dead")
        await asked(pilot, "X")
        await see(pilot, "Purge 1 dead entry of news?")
        await press(pilot, "y")
        await told(pilot, "1 purged")
        assert dead(news) == {"b/2", "b/3"} and dead(mail) == {"a/2", "a/3", "a/4"}
        app.navigation.open_place("dead", "mail")
        await see(pilot, "2 marked", "1 marked elsewhere")
        await asked(pilot, "X")
        await press(pilot, "y")
        await until(pilot, lambda: dead(mail) == {"a/3", "a/4"})
        assert (entry := mail.get("a/1")) is not None and entry.state == "waiting"

    drive_in(url, body, "5", queue="mail", size=(140, 30))


def test_what_is_about_one_row_is_about_that_under_the_cursor_and_not_a_marked_one(
    url: str, client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    bury(client, "a", 2)
    bury(client, "b", 2, name="news")
    paged: list[Any] = []

    async def body(app: Top, pilot: Pilot[Exception]) -> None:
        monkeypatch.setattr(app.changes, "page", paged.append)
        await press(pilot, "space", "j", "o")
        assert app.addresses.rows == ("mail",) and app.addresses.queue == "news"
        await press(pilot, "enter")
        await see(pilot, "b/1")
        app.current.table.mark(["b/1"])
        app.current.table.go_to("b/2")
        await press(pilot, "o")
        assert paged == [["inspect", "news"], ["inspect", "news/b/2"]]

    drive_in(url, body, "1")


def test_a_change_takes_away_the_marks_it_was_made_of_and_no_others(
    url: str, client: redis.Redis
) -> None:
    mail = bury(client, "a", 4)
    bury(client, "b", 3, name="news")

    async def body(app: Top, pilot: Pilot[Exception]) -> None:
        await on(app, pilot, "mail", "dead", "a/1", "a/2")
        await asked(pilot, "P")
        await press(pilot, "r", *"1", "y")  # one a second
        await until(pilot, lambda: len(dead(mail)) < 4)
        await on(app, pilot, "news", "dead", "b/1", "b/2", "b/3")
        await told(pilot, "2 replayed")
        assert app.marked == tuple(Mark("news", "dead", f"b/{n}") for n in (1, 2, 3))

    drive_in(url, body, "5", queue="mail", size=(140, 30))


@pytest.mark.parametrize("kind", ["sidekiq", "celery"])
def test_many_marks_cost_one_look_at_each_state(client: redis.Redis, kind: str) -> None:
    fill(client, kind, 600)
    register_found(client)
    ids = [f"w{n}" for n in range(500, 590)]
    marks = [Mark(NAMES[kind], "waiting", id) for id in [*ids, "gone"]]
    client.config_resetstat()
    found = run(client, looked_up(Deployment(client), marks, {"waiting": "waiting"}))
    states = [one.state if isinstance(one, Entry) else one for one in found.values()]
    assert states == [*len(ids) * ["waiting"], None]
    stats: Any = client.info("commandstats")
    assert stats.get("cmdstat_lrange", {"calls": 0})["calls"] < 40


def test_what_is_gone_is_said_to_be_gone(url: str, client: redis.Redis) -> None:
    cards_die(client, 2)
    register_found(client)

    async def body(app: Top, pilot: Pilot[Exception]) -> None:
        await until(pilot, lambda: app.current.table.identity)
        await press(pilot, "space", "1", "space")
        client.delete("dead")
        await press(pilot, "asterisk")
        await see(pilot, "Marked", "dead", "gone")
        await press(pilot, "G", "enter")
        await see(pilot, "is not here: it never was, or it is done and removed")

    drive_in(url, body, "5", queue="sidekiq:cards")

"""The dashboard's view of all dead letters, on real servers: what is seen, opened and replayed."""

from __future__ import annotations

import asyncio
import re

import pytest
import redis
from textual.pilot import Pilot
from textual.widgets import Input

from redisq_ops.core.foreign.sidekiq import SidekiqQueue
from redisq_ops.core.model.entry import Failure
from redisq_ops.demo.other_programs import register_found
from redisq_ops.ops.change.limits import Guard
from redisq_ops.ops.redaction import Redaction
from redisq_ops.tui.app import Top
from redisq_ops.tui.frame import text
from redisq_ops.tui.screens.explain_screen import ExplainScreen

from ..command_line import Redisq
from ..fleet import cards_die, fleet, mail_dies
from .test_app import asked, dead, drive, drive_in, press, see, told, until
from .test_toolkit import limited, under

pytestmark = [pytest.mark.alike, pytest.mark.slow]


def test_the_largest_errors_are_on_the_screen_before_the_first_key(
    url: str, client: redis.Redis, redisq: Redisq
) -> None:
    fleet(client)

    async def body(app: Top, pilot: Pilot[Exception]) -> None:
        await see(pilot, "release v2.4.1", "release v9", "release v7")
        assert app.view == "overview"
        largest, second = text(app).splitlines()[2:4]
        what, task, release, queue, since = largest.split(" · ")
        assert what.split() == ["90", "dead", "KeyError:", "key", "not", "found:", ":iban"]
        assert (task, release, queue) == ("ChargeCard", "release v2.4.1", "sidekiq:cards")
        assert re.fullmatch(r"since (\d\d-\d\d )?\d\d:\d\d", since)
        assert "Error: no carrier for order <n> · ship · release v9" in second
        await pilot.click(app.overview, offset=(20, 0))
        await until(pilot, lambda: app.view == "dead-all" and app.answered)
        await press(pilot, "1", "/", *"mail", "enter")  # a filter leaves queues out
        await until(pilot, lambda: "release" not in text(app))
        for queue in ("sidekiq:cards", "bullmq:orders"):
            redisq("dlq", "acknowledge", queue, "--until", "3d", "--yes")
        await press(pilot, "escape")
        await until(pilot, lambda: "release v7" in text(app).splitlines()[2])
        assert "ChargeCard" not in text(app)
        redisq("dlq", "acknowledge", "mail", "--until", "3d", "--yes")
        mail_dies(client, "r2", 2, release="v8", error=Failure("Timeout", "no answer"))
        await see(pilot, "2 dead  Timeout: no answer · release v8 · mail")
        assert "release v7" not in text(app)  # these are known

    drive(url, body, size=(140, 36))


def test_each_error_task_and_release_is_a_row_of_all_dead(url: str, client: redis.Redis) -> None:
    fleet(client)

    async def body(app: Top, pilot: Pilot[Exception]) -> None:
        await see(pilot, "all 110 dead in 4 queues", "110 died in")
        lines = [line.split() for line in text(app).splitlines()]
        first = next(line for line in lines if line[:1] == ["90"])[1:8]
        assert first == ["ChargeCard", "KeyError:", "key", "not", "found:", ":iban", "v2.4.1"]
        await see(pilot, "ship", "Error: no carrier for order <n>", "bullmq:orders", "rq:thumbs")
        await press(pilot, "t")
        assert isinstance(app.screen, ExplainScreen)
        assert app.screen.about.queue == "sidekiq:cards"
        await press(pilot, "escape", "j", "enter")
        await see(pilot, '/group=573da308 task="ship" release="v9"/ in 12 of 12')
        assert (app.view, app.queue) == ("dead", "bullmq:orders")
        await press(pilot, "escape")
        await until(pilot, lambda: app.view == "dead-all" and app.answered)
        assert app.all_dead.row_queue == "bullmq:orders"  # where it was left
        await press(pilot, "G", "4")
        await until(pilot, lambda: app.view == "pending" and app.queue == "rq:thumbs")

    drive_in(url, body, "d", size=(140, 36))


def test_a_cell_is_replayed_and_nothing_else(url: str, client: redis.Redis) -> None:
    """Also what dies of another error, or in another release, while the dialog is open."""
    cards_die(client, 6)
    cards_die(client, 2, release="v2.4.0")
    mail = mail_dies(client, "r1", 3)
    register_found(client)

    async def body(app: Top, pilot: Pilot[Exception]) -> None:
        await see(pilot, "all 11 dead in 2 queues")
        await asked(pilot, "P")
        assert "Replay 6 dead entries of sidekiq:cards?" in text(app)
        assert 'group=0517a205 task="ChargeCard" release="v2.4.1"' in text(app)
        await asyncio.to_thread(cards_die, client, 4, error="Timeout")
        await asyncio.to_thread(cards_die, client, 1, release="v2.4.2")
        await press(pilot, "y")
        await told(pilot, "6 replayed")
        left = SidekiqQueue(client, "sidekiq:cards").page("dead").entries
        assert sorted(int(entry.id, 16) for entry in left) == [*range(6, 13)]
        assert dead(mail) == {"r1/1", "r1/2", "r1/3"}
        await see(pilot, "all 10 dead in 2 queues")

    drive_in(url, body, "d")


def test_marked_cells_of_one_queue_are_purged_together(url: str, client: redis.Redis) -> None:
    mail = mail_dies(client, "r1", 4, "v1")
    mail_dies(client, "r2", 3, "v2")
    mail_dies(client, "r3", 2, None)
    mail_dies(client, "r1", 1, queue="other")

    async def body(app: Top, pilot: Pilot[Exception]) -> None:
        await see(pilot, "all 10 dead in 2 queues")
        await press(pilot, "space", "G", "space", "X")
        await told(pilot, "One queue at a time")
        assert len(app.screen_stack) == 1
        await press(pilot, "space", "k", "space")
        await asked(pilot, "X")
        assert "Purge 6 dead entries of mail?" in text(app)
        await press(pilot, "y")
        await told(pilot, "6 purged")
        assert dead(mail) == {"r2/1", "r2/2", "r2/3"}
        await press(pilot, "H")
        await see(pilot, "H Hold: a queue is held in the overview (1)")

    drive_in(url, body, "d")


def test_another_field_is_chosen_by_a_command(url: str, client: redis.Redis) -> None:
    mail_dies(client, "r1", 2, "v1")
    mail_dies(client, "r2", 2, "v2")

    async def body(app: Top, pilot: Pilot[Exception]) -> None:
        await see(pilot, "release", "v1", "v2")
        for field, *seen in (
            ("payload.tenant", "payload.tenant", "acme", "1 of 1"),
            ("-", "1 of 1"),
        ):
            await press(pilot, "colon")
            app.query_one("#command", Input).value = f"by {field}"
            await press(pilot, "enter")
            await see(pilot, *seen)
        assert "acme" not in text(app)
        await press(pilot, "colon", *"by age", "enter")
        await see(pilot, "'age': group by error, task, release")
        assert app.all_dead.column == ""

    drive_in(url, body, "d")


def test_secrets_and_odd_bytes_stay_off_the_screen(url: str, client: redis.Redis) -> None:
    secret = Failure("AuthError", 'refused {"password": "hunter2"}')
    mail_dies(client, "r1", 2, {"password": "hunter2"}, secret)
    mail_dies(client, "r2", 1, "v\x1b[2J", secret)
    redaction = Redaction.read([({"keys": ["password"]}, "")])

    async def body(app: Top, pilot: Pilot[Exception]) -> None:
        await see(pilot, "AuthError: refused", "v\\x1b[2J", "all 3 dead")
        assert "hunter2" not in text(app)
        await press(pilot, "P")
        await told(pilot, "No filter can select just this row")
        assert len(app.screen_stack) == 1
        await press(pilot, "j")
        await asked(pilot, "P")
        assert "Replay 1 dead entry of mail?" in text(app) and "hunter2" not in text(app)

    under(url, limited(url, Guard(), redaction), body, "d")


def test_a_queue_that_can_not_be_read_is_named_in_the_status_line(
    url: str, client: redis.Redis
) -> None:
    mail_dies(client, "r1", 2)
    mail_dies(client, "r1", 2, queue="other")
    client.set("redisq:{other}:dead", "no sorted set")

    async def body(app: Top, pilot: Pilot[Exception]) -> None:
        await see(pilot, "all 2 dead in 1 queue", "other can't be read: a key of another type")

    drive_in(url, body, "d", size=(160, 30))

"""`:` completes what `redisq` takes, and leads to any view, queue, entry and server."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import redis
from textual.command import CommandPalette
from textual.pilot import Pilot
from textual.widgets import Input, OptionList

from redisq_ops.cli.commands.top import _host
from redisq_ops.cli.dashboard_completion import commands, completions
from redisq_ops.cli.session import Session, begin
from redisq_ops.core.queues.fair import FairQueue
from redisq_ops.core.queues.request import RequestQueue
from redisq_ops.demo.server import EmbeddedServer
from redisq_ops.ops.hint import hint
from redisq_ops.tui.app import Top
from redisq_ops.tui.change.confirm_dialog import Confirm
from redisq_ops.tui.command import dashboard_commands
from redisq_ops.tui.command.dashboard_commands import OwnCommand, ViewCommand, own_command
from redisq_ops.tui.frame import text
from redisq_ops.tui.host import Completion, Host, KnownNames
from redisq_ops.tui.navigation_history import NavigationHistory, VisitedPlace
from redisq_ops.tui.screens.detail_screen import DetailScreen

from .test_app import bury, drive, drive_in, press, see, see_line, until
from .test_command_line import verbs
from .test_real_terminal import Terminal, terminal

__all__ = ["terminal"]
pytestmark = pytest.mark.alike

HOST = Host(completions, commands, lambda: [Completion("prod", "redis://p"), Completion("staging")])
KNOWN = KnownNames(
    ["mail", "mail-2", "jobs"], ["mail/r1", "mail/r1/7"], ["acme", "zebra"], ["01JUNDO"]
)


def words(line: str) -> list[str]:
    found = dashboard_commands.completions(line, HOST, KNOWN)
    return [one.text for one in found]


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("client b", ["block"]),
        ("client block j", ["jobs"]),
        ("dlq replay ma", ["mail", "mail-2", "mail/r1", "mail/r1/7"]),
        ("dlq mail", ["mail", "mail-2"]),
        ("move mail/r1 --to j", ["jobs"]),
        ("dlq purge --ha", ["--hard"]),
        ("redisq request li", ["limit"]),
        ("go mail-", ["mail-2"]),
        ("ctx p", ["prod"]),
        ("theme h", ["high-contrast"]),
        ("dlq mail /time", []),
        ("nothing ", []),
        ("undo ", ["01JUNDO"]),
        ("client block jobs a", ["acme"]),
        ("request cancel mail/r1", ["mail/r1", "mail/r1/7"]),
        ("go mail/r1/", ["mail/r1/7"]),
        ("wait mail/", ["mail/r1", "mail/r1/7"]),
        ("demo", []),  # can't be run here
    ],
)
def test_a_word_is_completed_as_the_command_declares_it(line: str, offered: list[str]) -> None:
    assert words(line) == offered


@pytest.mark.parametrize("path", verbs(), ids=" ".join)
def test_every_verb_is_offered_word_by_word(path: tuple[str, ...]) -> None:
    if path[0] in ("work", "top", "demo"):
        return
    for n in range(len(path)):
        assert path[n] in words(" ".join([*path[:n], path[n][:1]]))


@pytest.mark.parametrize(
    ("line", "meant"),
    [
        ("dlq", ViewCommand("dead")),
        ("dlq mail", ViewCommand("dead", "mail")),
        ("dlq mail /timeout age>2h", ViewCommand("dead", "mail", "timeout age>2h")),
        ("delayed /a/b", ViewCommand("delayed", None, "a/b")),
        ("overview", ViewCommand("overview")),
        ("go mail/r1/17", OwnCommand("go", "mail/r1/17")),
        ("theme", OwnCommand("theme", "")),
        ("dlq nothing", None),
        ("pending ls", None),
        ("dlq replay mail", None),
        ("purge mail/r1", None),
    ],
)
def test_what_is_no_command_of_the_dashboard_is_one_of_redisq(line: str, meant: object) -> None:
    assert own_command(line, ["mail"]) == meant


def test_back_and_forward_keep_what_lies_between() -> None:
    def place(view: Any, queue: str | None = None) -> VisitedPlace:
        return VisitedPlace(view, queue)

    history = NavigationHistory()
    assert history.back(place("overview")) is None
    history.leave(place("overview"))
    history.leave(place("groups", "mail"))
    here = place("dead", "mail")
    assert history.crumbs(here) == "‹ groups ‹ overview"
    assert history.crumbs(place("dead", "jobs")) == "‹ mail groups ‹ overview"
    assert history.back(here) == place("groups", "mail")
    assert history.back(place("groups", "mail")) == place("overview")
    assert history.forward(place("overview")) == place("groups", "mail")
    history.leave(place("groups", "mail"))
    assert history.forward(place("settings", "mail")) is None
    for n in range(1000):
        history.leave(place("dead", f"q{n}"))
    steps = 0
    while history.back(here) is not None:
        steps += 1
    assert steps == 50


@pytest.mark.slow
def test_colon_opens_views_ids_and_completes(url: str, client: redis.Redis) -> None:
    bury(client, "r", 3)
    RequestQueue(client, "mail").submit([b"x"] * 2, id="newsletter-7")
    FairQueue(client, "jobs").submit("acme", [b"x"])

    async def body(app: Top, pilot: Pilot[Exception]) -> None:
        line = app.query_one("#command", Input)

        async def enter(command: str) -> None:
            await press(pilot, "colon")
            line.value = command
            await press(pilot, "enter")

        await press(pilot, "colon", *"repl")
        await see(pilot, "replay  Move dead entries back to waiting")
        await press(pilot, "tab")
        assert line.value == "replay "
        await press(pilot, *"ma", "tab", "escape")
        assert app.view == "overview" and "Move dead" not in text(app)
        await press(pilot, "colon", "t", "tab", "tab", "shift+tab")
        assert line.value == "theme"
        await press(pilot, "escape", "colon", *"client block jobs ac", "tab")
        assert line.value == "client block jobs acme "
        await press(pilot, "escape")

        await enter("dlq mail /id~2")
        await until(pilot, lambda: app.current.table.identity == "r/2")
        await see(pilot, "mail request", "‹ overview", "/id~2/ in 1 of 3")
        await press(pilot, "colon", *"inspect mail/r/2", "tab")
        assert line.value == "inspect mail/r/2 "
        await press(pilot, "escape")
        await enter("client block jobs acme")
        await see(pilot, "redisq client block jobs acme", "ended with 5")
        await press(pilot, "escape")
        await enter("clients jobs")
        await see(pilot, "acme", "‹ mail dead ‹ overview")
        await press(pilot, "less_than_sign")
        await until(pilot, lambda: app.current.table.identity == "r/2")
        await see(pilot, "/id~2/")
        await press(pilot, "less_than_sign", "less_than_sign")
        await see_line(pilot, "there is no such place")
        await press(pilot, "greater_than_sign", "greater_than_sign")
        await see(pilot, "acme")

        await enter("go r/3")  # a bare id, in whatever queue it is
        await until(pilot, lambda: isinstance(app.screen, DetailScreen))
        await see(pilot, "r/3  dead", "ValueError")
        await press(pilot, "escape")
        assert (app.view, app.queue) == ("dead", "mail")
        await until(pilot, lambda: app.current.table.identity == "r/3")
        await enter("go mail/newsletter-7")
        await see(pilot, "newsletter-7  sealed")
        await press(pilot, "escape")
        assert app.current.name_ == "requests"
        await enter("go mail/nothing")
        await see_line(pilot, "mail/nothing is not here")
        await enter("go")
        await see_line(pilot, "Open a queue, request or entry")
        await enter("dlq mail /age>>")
        await see_line(pilot, "age")
        await enter("theme light")
        assert app.theme == "light"
        await enter("theme pink")
        await see_line(pilot, "There is no theme 'pink': dark, light, ansi, high-contrast.")

    drive(url, body, host=HOST)


@pytest.mark.slow
def test_the_palette_finds_keys_queues_and_commands(url: str, client: redis.Redis) -> None:
    queue = bury(client, "r", 3)

    async def body(app: Top, pilot: Pilot[Exception]) -> None:
        async def find(words: str) -> None:
            await press(pilot, "ctrl+p")
            await until(pilot, lambda: isinstance(app.screen, CommandPalette))
            app.screen.query_one(Input).value = words
            options = app.screen.query_one(OptionList)

            def first() -> str:
                return str(options.get_option_at_index(0).prompt) if options.option_count else ""

            await until(pilot, lambda: first().startswith(words))
            await press(pilot, "enter")
            await until(pilot, lambda: not isinstance(app.screen, CommandPalette))

        await find("go mail")
        await until(pilot, lambda: app.queue == "mail")
        await find("theme light")
        assert app.theme == "light"
        await find("Dead letters")
        await until(pilot, lambda: app.view == "dead" and app.current.table.identity)
        await find("Replay: dead")
        await until(pilot, lambda: isinstance(app.screen, Confirm))
        await press(pilot, "y")
        await until(pilot, lambda: queue.counts().dead == 2)
        await find("client weight")
        assert app.query_one("#command", Input).value == "client weight "

    drive(url, body, host=HOST)


@pytest.mark.slow
def test_the_palette_begins_with_what_was_used_and_what_fits_the_row(
    url: str, client: redis.Redis
) -> None:
    bury(client, "r", 3)

    async def body(app: Top, pilot: Pilot[Exception]) -> None:
        async def listed() -> list[str]:
            await press(pilot, "ctrl+p")
            await until(pilot, lambda: isinstance(app.screen, CommandPalette))
            options = app.screen.query_one(OptionList)
            await until(pilot, lambda: options.option_count > 9)
            return [str(option.prompt) for option in options.options]

        await until(pilot, lambda: app.current.table.identity)
        lines = await listed()
        assert lines[:2] == [
            "Why it waits, what helps  t\nfor r/3",
            "Copy the id  y\nfor r/3",
        ]
        assert lines.index("Dead letters  5") > 4  # not of the row
        await press(pilot, "down", "enter")
        assert app.clipboard == "r/3"
        await press(pilot, "space", "colon", *"work x", "enter")
        lines = await listed()
        assert lines[:2] == ["work x\ntyped last", "Copy the id  y\nused last"]
        assert [line for line in lines if line.startswith("Copy the id")] == lines[1:2]
        assert "Replay: dead → waiting  P\nfor 1 marked row" in lines
        await press(pilot, "enter")
        line = app.query_one("#command", Input)
        assert line.value == "work x" and line.has_focus

    drive_in(url, body, "5", host=HOST)


@pytest.mark.slow
def test_another_context_is_shown_with_nothing_of_the_one_before(
    url: str, client: redis.Redis, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bury(client, "r", 3)
    with EmbeddedServer() as other, redis.Redis.from_url(other.url) as elsewhere:
        bury(elsewhere, "far", 2, name="mail")
        file = tmp_path / "redisq" / "config.toml"
        file.parent.mkdir()
        file.write_text(
            f'[contexts.prod]\nurl = "{other.url}"\nread_only = true\nlabel = "PROD"\n'
            f'[contexts.bad]\nurl = "{other.url}"\npassword_file = "/nowhere"\n'
        )
        monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
        session = begin(Session({"url": url, "prefix": None}))

        async def body(app: Top, pilot: Pilot[Exception]) -> None:
            line = app.query_one("#command", Input)
            await press(pilot, "space", "colon", *"ctx b", "tab", "enter")
            await see_line(pilot, "can't read password file /nowhere")
            assert "r/3" in text(app)
            await press(pilot, "enter")
            assert isinstance(app.screen, DetailScreen)
            await press(pilot, "colon", *"ctx", "enter")
            await see(pilot, "● -  ", "the server that the dashboard was started on  connected")
            await press(pilot, "down", "down", "enter")  # bad, prod
            await see(pilot, "PROD", other.url, "read-only")
            assert len(app.screen_stack) == 1, "an entry of the server before"
            await press(pilot, "colon", *"ctx", "enter")
            await see(pilot, f"● prod  {other.url}  connected")
            await press(pilot, "escape")
            assert app.queue is None and app.view == "overview"
            await press(pilot, "5")
            await see(pilot, "far/1")
            assert "marked" not in text(app) and "r/3" not in text(app)
            await press(pilot, "X")
            await see_line(pilot, "this dashboard is read-only")
            await press(pilot, "less_than_sign", "less_than_sign")
            await see_line(pilot, "there is no such place")
            await press(pilot, "colon", *"ls", "enter")
            await see(pilot, "redisq ls", "ended with")
            await press(pilot, "escape")
            assert not line.display

            assert app.source.connected is not None
            assert app.source.connected.options == ("--context", "prod")
            assert hint("ls") == "redisq ls --context prod"
            await press(pilot, "colon", *"ctx -", "enter", "5")
            await see(pilot, url, "r/3")
            assert "PROD" not in text(app) and hint("ls") == f"redisq ls --url {url}"

        drive_in(url, body, "5", host=_host(session))


@pytest.mark.slow
def test_the_pager_shows_all_of_what_is_under_the_cursor(
    terminal: Terminal, url: str, client: redis.Redis, tmp_path: Path
) -> None:
    bury(client, "r", 1)
    page = tmp_path / "page"
    terminal.type(f"PAGER=\"sh -c 'cat > {page}; test -s {page}'\"; export PAGER")
    terminal.start(url)
    terminal.send("5")
    terminal.see("rejected")
    terminal.send("o")
    wait_for(page.exists)
    terminal.see("rejected", "Help")
    assert terminal.modes == "1 1"
    shown = page.read_text()
    assert "ValueError" in shown and "payload 0" in shown


def wait_for(true: Callable[[], bool]) -> None:
    end = time.monotonic() + 90
    while not true():
        assert time.monotonic() < end
        time.sleep(0.05)


def test_offers_of_a_host_without_commands_are_the_dashboards_own() -> None:
    assert dashboard_commands.completions("go m", Host(), KnownNames(["mail"])) == [
        Completion("mail")
    ]
    with pytest.raises(LookupError, match="no context 'x'"):
        Host().open_context("x")

"""Where the dashboard can't leave its terminal, as in a browser, it has screens of its own for
commands and the editor."""

import pytest
import redis
from textual.pilot import Pilot
from textual.widgets import Input, TextArea

from redisq_ops.core.model.entry import Failure, Settlement
from redisq_ops.core.queues.request import RequestQueue
from redisq_ops.tui.app import Top
from redisq_ops.tui.change.confirm_dialog import Confirm
from redisq_ops.tui.change.edit_screen import EditScreen
from redisq_ops.tui.screens.output_screen import OutputScreen

from .test_app import bury, dead, drive_in, press, see, told, until

pytestmark = pytest.mark.slow


async def typed(app: Top, pilot: Pilot[Exception], line: str) -> OutputScreen:
    """Run a line after the colon."""
    await press(pilot, "colon")
    app.query_one("#command", Input).value = line
    await press(pilot, "enter")
    assert isinstance(app.screen, OutputScreen)
    return app.screen


def test_commands_show_their_output_and_what_they_would_ask(url: str, client: redis.Redis) -> None:
    queue = bury(client, "r", 3)

    async def body(app: Top, pilot: Pilot[Exception]) -> None:
        await typed(app, pilot, "settings %q history=all --yes")
        await see(pilot, "redisq settings", "ended with 0")
        await press(pilot, "escape")
        assert queue.settings()["history"] == "all"
        await typed(app, pilot, "dlq purge %q")
        await see(pilot, "3", "--yes", "ended with 5")
        await press(pilot, "escape")
        assert len(dead(queue)) == 3
        await typed(app, pilot, "dlq edit %")
        await see(pilot, "no terminal for an editor", "ended with 2")
        await press(pilot, "escape")
        await press(pilot, "o")
        await see(pilot, "redisq inspect mail/r/", "ValueError", "ended with 0")
        await press(pilot, "escape")
        assert len(app.screen_stack) == 1
        await typed(app, pilot, "dlq purge % --yes")
        await see(pilot, "ended with 0")
        await press(pilot, "escape")
        await see(pilot, "of 2")

    drive_in(url, body, "5", queue="mail", size=(120, 40))


def test_a_command_and_an_id_that_look_like_markup_are_shown_as_they_are(
    url: str, client: redis.Redis
) -> None:
    queue = RequestQueue(client, "mail")
    queue.submit([b"x"], id="r[b]")
    (taken,) = queue.take(1, consumer="w1").deliveries
    queue.settle([Settlement(taken, "reject", Failure("E", "no").encoded())])

    async def body(app: Top, pilot: Pilot[Exception]) -> None:
        await typed(app, pilot, "dlq ls mail --where 'error~[/]tmp'")
        await see(pilot, "redisq dlq ls mail --where 'error~[/]tmp'", "ended with 0")
        await press(pilot, "escape", "ctrl+p")
        await see(pilot, "for r[b]/1")

    drive_in(url, body, "5", queue="mail")


def test_a_command_may_end_while_its_screen_is_taken_apart(url: str, client: redis.Redis) -> None:
    async def body(app: Top, pilot: Pilot[Exception]) -> None:
        screen = await typed(app, pilot, "ls --watch 100ms")
        await until(pilot, lambda: screen._process is not None)
        await screen.query_one("#sheet").remove()
        await press(pilot, "escape")
        await until(pilot, lambda: screen.ended is not None)
        await press(pilot, "escape")
        assert app.is_running and len(app.screen_stack) == 1

    drive_in(url, body, "1")


def test_a_command_that_runs_on_is_stopped_and_does_not_outlive_its_screen(
    url: str, client: redis.Redis
) -> None:
    bury(client, "r", 3)

    async def body(app: Top, pilot: Pilot[Exception]) -> None:
        for leave in ("escape", "colon"):
            screen = await typed(app, pilot, "ls --watch 100ms")
            await see(pilot, "running; Esc stops it", "mail")
            process = screen._process
            assert process is not None and process.returncode is None
            await press(pilot, leave)
            await until(pilot, lambda one=process: one.returncode is not None)  # type: ignore[misc]
            if leave == "escape":
                await see(pilot, "ended with 130; Esc goes back")
            await press(pilot, "escape")
            assert len(app.screen_stack) == 1

    drive_in(url, body, "5", queue="mail")


async def edits(app: Top, pilot: Pilot[Exception]) -> TextArea:
    await press(pilot, "E")
    await until(pilot, lambda: isinstance(app.screen, EditScreen))
    await pilot.pause()
    return app.screen.query_one(TextArea)


def test_a_payload_is_edited_in_the_dashboard(url: str, client: redis.Redis) -> None:
    queue = bury(client, "r", 1)

    async def body(app: Top, pilot: Pilot[Exception]) -> None:
        await edits(app, pilot)
        await press(pilot, *"x:/q", "escape")
        await told(pilot, "Esc again drops what you typed")
        await press(pilot, "escape")
        await told(pilot, "The payload is as it was")
        await edits(app, pilot)
        await press(pilot, *"a:b? ", "ctrl+s")
        await until(pilot, lambda: isinstance(app.screen, Confirm))
        await see(pilot, "-payload 0", "+a:b? payload 0")
        await press(pilot, "y")
        await told(pilot, "1 edited")

    drive_in(url, body, "5", queue="mail")
    found = queue.get("r/1")
    assert found is not None and found.payload == b"a:b? payload 0"


@pytest.mark.parametrize(
    ("payload", "why"),
    [
        (b"a\r\nb", "control or invisible characters"),
        (b"a\x1b[2J", "control or invisible characters"),
        (b"a\xe2\x80\xa8b", "control or invisible characters"),
        (b"x" * 70_000, "payloads above 64.0 KiB"),
        (b"\xff", "that payload is no text"),
    ],
    ids=["line ends", "terminal", "separator", "large", "bytes"],
)
def test_a_payload_that_the_editor_would_spoil_is_refused(
    url: str, client: redis.Redis, payload: bytes, why: str
) -> None:
    queue = RequestQueue(client, "mail")
    queue.submit([payload], id="r1")
    (taken,) = queue.take(1, consumer="w1").deliveries
    queue.settle([Settlement(taken, "reject", Failure("E", "no").encoded())])

    async def body(app: Top, pilot: Pilot[Exception]) -> None:
        await see(pilot, "r1/1")
        await press(pilot, "E")
        await told(pilot, why)
        assert len(app.screen_stack) == 1

    drive_in(url, body, "5", queue="mail")

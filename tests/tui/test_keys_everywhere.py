"""Every key and `:` in every screen: each acts on what is shown, and changes nothing unasked.

These run without a shell to drop to, as in a browser.
"""

import asyncio
from pathlib import Path
from typing import Any

import pytest
import redis
from textual.events import Key
from textual.pilot import Pilot
from textual.widgets import Input

from redisq_ops.core.queues.delay import DelaySet
from redisq_ops.core.queues.fair import FairQueue
from redisq_ops.core.queues.request import RequestQueue
from redisq_ops.core.redis.operation import arun
from redisq_ops.tui.app import Top
from redisq_ops.tui.change import run_change
from redisq_ops.tui.change.confirm_dialog import Confirm
from redisq_ops.tui.change.dialog import Dialog
from redisq_ops.tui.change.undo_screen import UndoScreen
from redisq_ops.tui.frame import text
from redisq_ops.tui.keys import keys
from redisq_ops.tui.screens.detail_screen import DetailScreen
from redisq_ops.tui.screens.explain_screen import ExplainScreen
from redisq_ops.tui.screens.opened_screen import Opened
from redisq_ops.tui.views import numbered

from .test_app import (
    asked,
    bury,
    dead,
    drive,
    drive_in,
    press,
    see,
    told,
    until,
    valued,
    written,
)
from .test_explain_screen import impatient

__all__ = ["impatient"]
pytestmark = [pytest.mark.alike, pytest.mark.slow]


@pytest.fixture
def queue(client: redis.Redis) -> RequestQueue[redis.Redis]:
    """Entries of every state, and a request whose limit one consumer has used up."""
    queue = bury(client, "r", 3)
    queue.submit([b"x"] * 6, id="stuck", limit=2)
    queue.take(2, consumer="w1")
    queue.move("by-hand", 1, ["r/3"], source="dead", target="trash", high_water_ms=queue.now())
    DelaySet(client, "later").schedule([("e1", b"x")], after=3600)
    DelaySet(client, "other").schedule([("e2", b"x")], after=3600)
    FairQueue(client, "jobs").submit("acme", [b"x"])
    return queue


SCREENS: dict[str, tuple[str, ...]] = {
    **{f"view {key}": (keys.key_name(key),) for key, _ in numbered()},
    "entry": ("5", "enter"),
    "waiting entry": ("9", "enter"),
    "pending entry": ("4", "enter"),
    "trash": ("0", "enter"),
    "request": ("3", "enter"),
    "explained queue": ("t",),
    "explained entry": ("9", "t"),
    "explained request": ("3", "t"),
    "entry, explained": ("5", "enter", "t"),
    "search": ("5", "enter", "slash"),
    "preview": ("5", "p", "enter"),
    "filter": ("5", "slash"),
    "help": ("question_mark",),
    "help of an entry": ("5", "enter", "question_mark"),
    "palette": ("ctrl+p",),
    "contexts": ("colon", "c", "t", "x", "enter"),
    "saved filters": ("apostrophe",),
    "server": ("i",),
    "undo": ("U",),
    "dialog": ("5", "X"),
    "number": ("3", "L"),
    "receiver": ("4", "C"),
    "output": ("5", "o"),
    "editor": ("5", "E"),
}


async def opened(
    app: Top, pilot: Pilot[Exception], way: tuple[str, ...], queue: str = "mail"
) -> None:
    """Go to a screen, with its rows and its explanation read."""
    app.navigation.close_screens()
    app.navigation.choose(queue)
    app.navigation.show_view("overview")
    await until(pilot, lambda: app.answered and app.overview.table.identity)
    app.overview.table.go_to(queue)
    for key in way:
        await press(pilot, key)
        await until(pilot, lambda: (app.answered and not app.changes.running) or _asks(app))
        await until(pilot, lambda: all(map(_read, [app.opened_screen])))
        await pilot.pause()


def _asks(app: Top) -> bool:
    return isinstance(app.screen, (Dialog, UndoScreen))


def _read(screen: object) -> bool:
    if isinstance(screen, DetailScreen):
        return screen.opened.view is not None
    return not isinstance(screen, ExplainScreen) or bool(screen.sections._sections)


@pytest.mark.parametrize("name", SCREENS)
def test_a_line_typed_after_a_colon_changes_nothing(
    url: str, client: redis.Redis, queue: RequestQueue[redis.Redis], name: str, impatient: None
) -> None:
    """`impatient`: explanations suggest a requeue, which Enter begins and `y` confirms."""
    client.config_resetstat()

    async def body(app: Top, pilot: Pilot[Exception]) -> None:
        await opened(app, pilot, SCREENS[name])
        for key in (*":H y", "enter", "y", *":requests stuck-limit", "enter", "y"):
            await press(pilot, key)
            await until(pilot, lambda: not app.changes.running or _asks(app))

    drive(url, body)
    assert written(client) == set()


WALKED = ("entry", "pending entry", "request", "explained queue", "explained entry", "view 3")
LEAVE = {"q", "ctrl+c", "ctrl+z"}


@pytest.mark.parametrize("name", WALKED)
def test_every_key_of_a_footer_acts_and_none_changes_anything_unasked(
    url: str,
    client: redis.Redis,
    queue: RequestQueue[redis.Redis],
    name: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    client.config_resetstat()

    async def body(app: Top, pilot: Pilot[Exception]) -> None:
        def state() -> tuple[object, ...]:
            notes = [note.message for note in app._notifications]
            return app.screen, app.view, notes, app.clipboard, text(app), app.poller.frozen

        async def open_again() -> set[str]:
            await opened(app, pilot, SCREENS[name])
            active = app.screen.active_bindings
            return {key for key, one in active.items() if one.binding.show and one.enabled}

        shown = await open_again()
        screen, view = type(app.screen), app.view
        for key in [one for binding in keys.ALL for one in binding.key.split(",")]:
            if key in LEAVE:
                continue
            while type(app.screen) is not screen and len(app.screen_stack) > 1:
                await press(pilot, "escape")  # from a dialog; no letter answers it
            if (type(app.screen), app.view) != (screen, view):
                assert await open_again() == shown
            before = state()
            await press(pilot, key)
            if key in shown:
                await until(pilot, lambda was=before: state() != was)  # type: ignore[misc]
            await until(pilot, lambda: not app.changes.running or _asks(app))

    drive(url, body)
    assert written(client) == set()
    assert not list(tmp_path.iterdir())


def test_a_colon_is_text_in_a_text_field_and_elsewhere_opens_the_line(
    url: str, client: redis.Redis, queue: RequestQueue[redis.Redis]
) -> None:
    async def body(app: Top, pilot: Pilot[Exception]) -> None:
        await opened(app, pilot, ("5", "enter"))
        assert app.opened is not None
        shown = app.opened.id
        await press(pilot, "colon", *"unknown %")
        line = app.screen.query_one("#command", Input)
        assert line.has_focus and line.value == "unknown %"
        assert app.addresses.rows == (f"mail/{shown}",)
        await press(pilot, "enter")
        await see(pilot, f"redisq unknown mail/{shown}", "ended with 2")
        await press(pilot, "escape")
        assert isinstance(app.screen, DetailScreen)
        await press(pilot, "colon", *"pending", "enter")
        await see(pilot, "stuck/1", "lease left")
        assert len(app.screen_stack) == 1
        # A dialog gets a No, and the command is run.
        dialog = await asked(pilot, "X")
        await press(pilot, "colon", *"dead", "enter")
        await see(pilot, "r/1", "rejected")
        assert not dialog.is_attached
        await until(pilot, lambda: not app.changes.running)
        await asked(pilot, "X")
        await press(pilot, "w", *":a reason", "enter", "n")
        await press(pilot, "ctrl+p", "colon", *"trash", "enter")
        assert app.view == "trash" and len(app.screen_stack) == 1

    drive(url, body)
    assert queue.counts().pending == 2 and queue.counts().dead == 2


def test_a_key_changes_what_the_screen_shows_wherever_the_cursor_is_now(
    url: str, client: redis.Redis
) -> None:
    queue = bury(client, "old", 3)

    async def body(app: Top, pilot: Pilot[Exception]) -> None:
        await press(pilot, "space", "j", "enter")  # another one is marked
        await until(pilot, lambda: app.opened and app.opened.view)
        assert app.opened is not None and app.opened.id is not None
        id = app.opened.id
        await see(pilot, "P Replay", "X Purge", "E Edit", "H Hold", "t Explain")
        app.current.table.go_to("old/1" if id != "old/1" else "old/3")
        await asked(pilot, "X")
        await see(pilot, "Purge 1 dead entry of mail?", f"filter: {id}")
        await press(pilot, "y")
        await told(pilot, "1 purged")
        assert dead(queue) == {"old/1", "old/2", "old/3"} - {id}
        await until(pilot, lambda: app.opened and app.opened.view == "trash")
        assert "P Replay" not in text(app)
        await press(pilot, "P")
        await told(pilot, "P Replay: not in this view")
        await asked(pilot, "B")
        await press(pilot, "y")
        await told(pilot, "1 restored")
        assert len(dead(queue)) == 3 and len(app.views["dead"].table.marks) == 1
        await press(pilot, "4")
        assert len(app.screen_stack) == 1 and app.view == "pending"

    drive_in(url, body, "5")


@pytest.mark.parametrize("way", [("3", "enter"), ("3", "t")])
def test_a_request_is_changed_from_its_screen(
    url: str, client: redis.Redis, queue: RequestQueue[redis.Redis], way: tuple[str, ...]
) -> None:
    async def body(app: Top, pilot: Pilot[Exception]) -> None:
        await opened(app, pilot, way[:1])
        app.current.table.go_to("stuck")
        await press(pilot, way[1])
        await until(pilot, lambda: app.opened and app.opened.view == "requests")
        await see(pilot, "K Cancel", "L Limit", "O Priority")
        assert app.opened == Opened("mail", "stuck", "requests", read=True)
        dialog = await valued(pilot, "L")
        await press(pilot, *"1001", "enter")
        await see(pilot, "'1001': write a number, 1 to 1,000")
        assert app.screen is dialog and dialog.query_one(Input).value == "1001"
        await press(pilot, "backspace")
        await see(pilot, "2 → 100")
        await asked(pilot, "enter")
        await see(pilot, "Change limit of request mail/stuck from 2 to 100?")
        await press(pilot, "y")
        await told(pilot, "limit of request stuck: 100")
        assert (request := queue.request("stuck")) is not None and request.limit == 100
        await asked(pilot, "K")
        await see(pilot, "Cancel request mail/stuck?")
        await press(pilot, "n")

    drive(url, body)


def test_a_ready_time_is_shown_before_it_is_taken(url: str, client: redis.Redis) -> None:
    later = DelaySet(client, "later")
    later.schedule([("e1", b"x")], after=1000)
    ticking = [0.0]

    async def body(app: Top, pilot: Pilot[Exception]) -> None:
        dialog = await valued(pilot, "T")
        await press(pilot, *"+1")
        await see(pilot, "'1' is not a time span: write 90s, 5m, 2h or 3d")
        await press(pilot, "enter")
        assert app.screen is dialog and dialog.query_one(Input).value == "+1"
        await press(pilot, "h")
        await see(pilot, "+1h → ", "(in 1h 00m)")
        await asked(pilot, "enter")
        await see(pilot, "Reschedule 1 delayed entry of later?", "they become ready at")
        await press(pilot, "y")
        await told(pilot, "1 rescheduled")
        entry = later.get("e1")
        assert entry is not None and entry.at_ms is not None
        assert 3_500_000 < entry.at_ms - later.now() <= 3_600_000

    drive_in(url, body, "6", queue="later", clock=lambda: ticking[0])


def test_a_queue_to_move_to_is_picked(
    url: str, client: redis.Redis, queue: RequestQueue[redis.Redis]
) -> None:
    other = DelaySet(client, "other")

    async def body(app: Top, pilot: Pilot[Exception]) -> None:
        await until(pilot, lambda: app.current.table.identity == "e1")
        dialog = await valued(pilot, "M")
        assert [one.text for one in dialog.wanted.choices] == ["other"]  # of the same kind
        await press(pilot, *"mail", "enter")
        await see(pilot, "there is no other delay queue with 'mail' in its name")
        assert app.screen is dialog and dialog.query_one(Input).value == "mail"
        await press(pilot, *["backspace"] * 4, *"oth")
        await asked(pilot, "enter")
        await see(pilot, "Move 1 delayed entry of later to other?")
        await press(pilot, "y")
        await told(pilot, "1 moved")
        assert other.counts().delayed == 2

    drive_in(url, body, "6", queue="later")


def test_the_list_is_written_to_a_new_file(
    url: str,
    client: redis.Redis,
    queue: RequestQueue[redis.Redis],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mail-dead.ndjson").write_text("mine")

    async def body(app: Top, pilot: Pilot[Exception]) -> None:
        await press(pilot, "slash", *"id=r/1", "enter")
        await see(pilot, "in 1 of 2")
        dialog = await valued(pilot, "w")
        text = dialog.query_one(Input)
        assert text.value == "mail-dead-2.ndjson"
        text.value = "mail-dead.ndjson"
        await press(pilot, "enter")
        await see(pilot, "mail-dead.ndjson exists: choose another name")
        text.value = "mine.ndjson"
        await press(pilot, "enter")
        await told(pilot, "1 entry written to mine.ndjson")

    drive_in(url, body, "5", queue="mail")
    assert Path("mail-dead.ndjson").read_text() == "mine"
    assert '"id":"r/1"' in Path("mine.ndjson").read_text().replace(" ", "")


def test_the_overview_writes_the_queue_under_the_cursor(
    url: str, queue: RequestQueue[redis.Redis], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    async def body(app: Top, pilot: Pilot[Exception]) -> None:
        await press(pilot, "1")
        await until(pilot, lambda: app.answered and app.overview.table.identity)
        app.overview.table.go_to("other")
        await valued(pilot, "w")
        await press(pilot, "enter")
        await told(pilot, "1 entry written to other.ndjson")

    drive_in(url, body, "5", queue="mail")
    assert "e2" in Path("other.ndjson").read_text()


def test_a_claim_picks_a_live_consumer_and_asks_again_for_any_other_name(
    url: str, client: redis.Redis, queue: RequestQueue[redis.Redis]
) -> None:
    queue.submit([b"x"], id="one")
    queue.take(1, consumer="yura")

    async def body(app: Top, pilot: Pilot[Exception]) -> None:
        app.current.table.go_to("stuck/1")
        dialog = await valued(pilot, "C")
        assert [one.text for one in dialog.wanted.choices] == ["yura"]  # w1 holds the entry
        await press(pilot, *"w1", "enter")
        await see(pilot, "consumer w1 holds these entries already")
        await press(pilot, "backspace", "backspace")
        await press(pilot, *"yU")  # a Yes and an Undo, typed into the picker
        await see(pilot, "yura", "holds 1 for up to")
        assert isinstance(app.focused, Input)
        await press(pilot, "Z")
        await see(pilot, "no live consumer is called yUZ")
        await asked(pilot, "enter")
        await see(pilot, "No live consumer is called yUZ", "To go on, type new yUZ")
        await press(pilot, "y", "escape")
        assert not dialog.is_attached
        await until(pilot, lambda: not app.changes.running)
        await valued(pilot, "C")
        await press(pilot, *"zz", "backspace", "backspace")
        await until(pilot, lambda: "is called zz" not in text(app))  # what was deleted is no name
        await press(pilot, *"yu")
        await asked(pilot, "enter")
        assert "yura receives them" in text(app)
        await press(pilot, "y")
        await told(pilot, "1 claimed")
        assert (entry := queue.get("stuck/1")) is not None and entry.consumer == "yura"

    drive_in(url, body, "4", queue="mail")


def test_what_is_typed_while_a_change_is_still_read_answers_no_dialog(
    url: str, client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a slow link a change is read for seconds before its dialog opens."""
    queue, link = bury(client, "r", 3), asyncio.Event()

    async def slowly(*words: Any) -> Any:
        await link.wait()
        return await arun(*words)

    monkeypatch.setattr(run_change, "arun", slowly)

    async def body(app: Top, pilot: Pilot[Exception]) -> None:
        for typed, left in ((":histor", "y"), ("/re", "y"), ("", "escape"), ("", "1")):
            link.clear()
            await press(pilot, "X", *typed, *([] if typed else [left]))
            assert app.changes.running
            app.clear_notifications()
            link.set()
            await told(pilot, "Stopped; nothing was changed.")
            await press(pilot, "y")
            assert not isinstance(app.screen, Confirm)
            await press(pilot, *(["escape"] if typed else []))
        assert app.view == "overview" and len(dead(queue)) == 3

    drive_in(url, body, "5")


def test_a_key_typed_before_its_dialog_opened_is_no_answer(url: str, client: redis.Redis) -> None:
    queue = bury(client, "r", 3)

    async def body(app: Top, pilot: Pilot[Exception]) -> None:
        early = Key("y", "y")
        await asked(pilot, "X")
        app.post_message(early)
        await told(pilot, "A key typed before a dialog opened is no answer to it.")
        assert isinstance(app.screen, Confirm) and len(dead(queue)) == 3
        await press(pilot, "y")
        await told(pilot, "1 purged")

    drive_in(url, body, "5")


@pytest.mark.parametrize(
    ("name", "way", "shown", "absent"),
    [
        ("later", ("6", "enter"), ["M Move", "T Reschedule", "R Requeue"], ["K Cancel"]),
        ("mail", ("3", "j"), [], ["K Cancel", "L Limit", "O Priority", "H Hold"]),
        ("mail", ("3", "j", "enter"), ["t Explain"], ["K Cancel", "L Limit", "H Hold"]),
        ("mail", ("3", "j", "t"), ["what helps"], ["K Cancel", "L Limit", "H Hold"]),
    ],
)
def test_a_footer_has_what_can_be_done_to_what_is_opened(
    url: str,
    client: redis.Redis,
    queue: RequestQueue[redis.Redis],
    name: str,
    way: tuple[str, ...],
    shown: list[str],
    absent: list[str],
) -> None:
    """The request under the second row is done."""

    async def body(app: Top, pilot: Pilot[Exception]) -> None:
        await opened(app, pilot, way, name)
        await see(pilot, *shown)
        footer = text(app).splitlines()[-1]
        assert not [words for words in absent if words in footer], footer
        if name == "mail":
            await press(pilot, "K")
            await until(pilot, lambda: "the request is settled" in said(app))

    drive(url, body, size=(160, 30))


def said(app: Top) -> str:
    return " ".join([app.refused, *(note.message for note in app._notifications)])


def test_help_over_an_entry_lists_what_works_there(
    url: str, client: redis.Redis, queue: RequestQueue[redis.Redis]
) -> None:
    async def body(app: Top, pilot: Pilot[Exception]) -> None:
        await opened(app, pilot, ("5", "enter", "question_mark"))
        await see(pilot, "Replay: dead → waiting", "Edit payload in $EDITOR", "A redisq command")
        for words in ("Requeue → waiting", "Sort by the next column", "Restore from the trash"):
            assert words not in text(app)

    drive(url, body, size=(140, 40))

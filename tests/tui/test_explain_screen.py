"""`t` explains, Enter helps: a stuck queue flows again after `t Enter y`."""

import pytest
import redis
from textual.pilot import Pilot
from textual.widgets import Input

from redisq_ops.core.engine.registry import Registered
from redisq_ops.core.queues.fair import FairQueue
from redisq_ops.core.queues.request import RequestQueue
from redisq_ops.core.redis.operation import run
from redisq_ops.ops.change import control
from redisq_ops.ops.change.audit_log import Author
from redisq_ops.ops.deployment import Deployment
from redisq_ops.ops.discover import register
from redisq_ops.ops.explain import entry_reasons, queue_reasons
from redisq_ops.ops.inspect import consumers
from redisq_ops.tui.app import Top
from redisq_ops.tui.change import run_change
from redisq_ops.tui.change.confirm_dialog import Confirm
from redisq_ops.tui.change.suggested_change import suggested_change
from redisq_ops.tui.frame import text
from redisq_ops.tui.screens.explain_screen import ExplainScreen

from .test_app import asked, bury, drive, drive_in, press, see, told, until, valued

pytestmark = [pytest.mark.alike, pytest.mark.slow]

ADA = Author("ada", "desk", "smtp is down")


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who holds an entry holds it for long."""
    for module in (consumers, run_change, entry_reasons, queue_reasons):
        monkeypatch.setattr(module, "SILENT_MS", 0)
    monkeypatch.setattr(
        consumers.consumer_reports, "__kwdefaults__", {"silent_ms": 0, "poison": 10}
    )


def test_a_paused_queue_flows_again(url: str, client: redis.Redis) -> None:
    queue = RequestQueue(client, "mail")
    queue.submit([b"x"] * 3, id="r1")
    run(client, control.pause(queue, ADA))

    async def body(app: Top, pilot: Pilot[Exception]) -> None:
        await press(pilot, "t")
        await see(pilot, "smtp is down", "redisq queue resume mail")
        dialog = await asked(pilot, "enter")
        assert dialog.question.title == "Resume queue mail?"
        await press(pilot, "y")
        await told(pilot, "queue mail resumed")
        await see(pilot, "queue mail  open")

    drive(url, body)
    assert len(queue.take(3, consumer="w1").deliveries) == 3


def test_a_queue_whose_tokens_one_consumer_keeps_flows_again(
    url: str, client: redis.Redis, impatient: None
) -> None:
    queue = RequestQueue(client, "mail")
    queue.submit([b"x"] * 5, id="r1", limit=2)
    assert len(queue.take(2, consumer="geo-3:777", lease=3600).deliveries) == 2
    assert queue.take(5, consumer="w1").deliveries == ()

    async def body(app: Top, pilot: Pilot[Exception]) -> None:
        await press(pilot, "t")
        await see(
            pilot,
            "3 entries waiting, and none can be delivered",
            "consumer geo-3:777",
            "holds 2 entries",
            "explain it",
            "what it holds",
            "Requeue the 2 entries of geo-3:777",
            "redisq requeue --queue mail --state pending --where 'consumer=\"geo-3:777\"'",
        )
        dialog = await asked(pilot, "enter")
        assert dialog.question.title == "Requeue 2 pending entries of mail?"
        await press(pilot, "y")
        await told(pilot, "2 requeued")

    drive(url, body)
    assert len(queue.take(5, consumer="w1").deliveries) == 2


def test_what_a_silent_consumer_of_a_stream_holds_is_claimed(
    url: str, client: redis.Redis, impatient: None
) -> None:
    client.xgroup_create("orders", "billing", "0", mkstream=True)
    for n in range(3):
        client.xadd("orders", {"n": n})
    client.xreadgroup("billing", "gone", {"orders": ">"}, count=3)
    run(client, register(Deployment(client), [Registered("stream:orders", "stream", 1, 0)]))

    async def body(app: Top, pilot: Pilot[Exception]) -> None:
        await press(pilot, "t")
        await see(pilot, "consumer gone of group billing has been silent", "claim")
        await valued(pilot, "enter")
        await press(pilot, *"ann")
        dialog = await asked(pilot, "enter")
        assert "No live consumer is called ann" in dialog.question.lines[0]
        await press(pilot, "y", *"new ann", "y")
        await told(pilot, "3 claimed")

    drive(url, body)
    assert client.xpending("orders", "billing")["consumers"][0]["name"] == b"ann"


def test_a_blocked_client_is_unblocked(url: str, client: redis.Redis) -> None:
    queue = FairQueue(client, "jobs")
    queue.submit("acme", [b"x"] * 3)
    run(client, control.change_client(queue, "acme", "block", ADA, 1))
    queue.take(1, consumer="w1")

    async def body(app: Top, pilot: Pilot[Exception]) -> None:
        await press(pilot, "t")
        await see(pilot, "1 of 1 clients with waiting entries are blocked", "acme", "its rules")
        dialog = await asked(pilot, "enter")
        assert dialog.question.title == "Unblock client acme of queue jobs?"
        await press(pilot, "y")
        await told(pilot, "unblock of client acme")

    drive(url, body)
    assert len(queue.take(3, consumer="w1").deliveries) == 3


def test_names_lead_to_what_is_known_of_them(url: str, client: redis.Redis) -> None:
    queue = RequestQueue(client, "mail")
    queue.submit([b"x"] * 5, id="r1", limit=2)
    queue.take(2, consumer="geo-3:777")
    run(client, control.change_request(queue, "r1", "priority", ADA, "7"))
    run(client, control.change_request(queue, "r1", "pause", ADA))

    async def follow(pilot: Pilot[Exception], words: str) -> None:
        screen = pilot.app.screen
        assert isinstance(screen, ExplainScreen)
        outline = screen.sections.outline
        await press(pilot, "g")
        for _ in range(30):
            if outline.cursor_node and str(outline.cursor_node.label).startswith(words):
                break
            await press(pilot, "j")
        await press(pilot, "enter")

    async def body(app: Top, pilot: Pilot[Exception]) -> None:
        await until(pilot, lambda: app.current.table.position)
        app.current.table.go_to("r1/4")
        await press(pilot, "t")
        await see(pilot, "entry mail/r1/4  waiting", "names", "geo-3:777")
        await follow(pilot, "request")
        await see(pilot, "request mail/r1  sealed")
        await press(pilot, "escape")
        await see(pilot, "entry mail/r1/4  waiting")
        await follow(pilot, "consumer")
        assert len(app.screen_stack) == 1 and app.view == "pending"
        await see(pilot, '/consumer="geo-3:777"/ in 2 of 2')
        await press(pilot, "escape", "t")
        await press(pilot, "escape", "9")
        await until(pilot, lambda: app.current.table.position)
        await press(pilot, "t")
        await see(pilot, "operation")
        await follow(pilot, "operation")
        await until(pilot, lambda: (app.current.table.identity or "").startswith("pause-"))

    drive_in(url, body, "9")


def test_a_long_answer_is_scrolled_by_keys(url: str, client: redis.Redis) -> None:
    queue = RequestQueue(client, "mail")
    queue.submit([b"x"] * 5, id="r1", limit=2)
    queue.take(2, consumer="w1")
    run(client, control.change_request(queue, "r1", "pause", Author("ada", "desk", "why " * 60)))
    run(client, control.pause(queue, Author("ada", "desk", "because " * 40)))

    async def body(app: Top, pilot: Pilot[Exception]) -> None:
        await until(pilot, lambda: app.current.table.position)
        await press(pilot, "t")
        await see(pilot, "entry mail/r1/", "d and u scroll the answer")
        assert "is next of its request" not in text(app)
        await press(pilot, *"dddd")
        await see(pilot, "is next of its request")
        await press(pilot, *"uuuu")
        await see(pilot, "entry mail/r1/")

    drive_in(url, body, "9", size=(80, 24))


def test_what_has_no_dialog_begins_a_command(url: str, client: redis.Redis) -> None:
    queue = RequestQueue(client, "mail")
    queue.submit([b"x"], id="r1")

    async def body(app: Top, pilot: Pilot[Exception]) -> None:
        await press(pilot, "t")
        await see(pilot, "no worker is taking", "redisq work MODULE:FUNCTION")
        await press(pilot, "enter")
        assert app.clipboard.startswith("redisq work MODULE:FUNCTION")
        await told(pilot, "start it in a shell")
        app.on_explain_screen_suggested(ExplainScreen.Suggested("redisq results mail/r1"))
        await pilot.pause()
        assert len(app.screen_stack) == 1
        line = app.query_one("#command", Input)
        assert line.value == "results mail/r1" and line.has_focus

    drive_in(url, body, "3")


def test_a_late_resume_never_pauses(url: str, client: redis.Redis) -> None:
    RequestQueue(client, "mail").submit([b"x"], id="r1")

    async def body(app: Top, pilot: Pilot[Exception]) -> None:
        for command, what in (
            ("redisq queue resume mail", "queue mail"),
            ("redisq request resume mail/r1", "request mail/r1"),
        ):
            app.on_explain_screen_suggested(ExplainScreen.Suggested(command))
            await told(pilot, f"{what} is not paused any more")
            await until(pilot, lambda: not app.changes.running)
        assert not isinstance(app.screen, Confirm)

    drive(url, body)


def test_a_read_only_dashboard_changes_nothing(url: str, client: redis.Redis) -> None:
    bury(client, "r1", 1)

    async def body(app: Top, pilot: Pilot[Exception]) -> None:
        await press(pilot, "j", "enter", "5", "t")
        await see(pilot, "redisq replay mail/r1/1")
        await press(pilot, "enter")
        await told(pilot, "this dashboard is read-only")
        assert not isinstance(app.screen, Confirm)

    drive(url, body, read_only=True)


@pytest.mark.parametrize(
    ("command", "has_dialog"),
    [
        ("queue resume mail", True),
        ("request resume mail/r1", True),
        ("request limit mail/r1 8", True),
        ("request priority mail/r1 0", True),
        ("requeue mail/r1/3", True),
        ("requeue mail/r1 --state delayed", True),
        ("requeue --queue mail --state pending --where 'consumer=\"w1\"'", True),
        ("replay -- -mail/r1/3", True),
        ("client unblock jobs acme", True),
        ("client cap jobs acme 4", True),
        ("client ls jobs", False),
        ("workers claim stream:orders w1 --group g --to NAME", True),
        ("undo purge-1", True),
        ("fsck mail", False),
        ("log --queue mail", False),
        ("trash restore mail/r1/1", False),
    ],
)
def test_which_suggestions_have_a_dialog(command: str, has_dialog: bool) -> None:
    assert (suggested_change(f"redisq {command}") is not None) == has_dialog

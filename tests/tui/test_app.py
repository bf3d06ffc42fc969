"""The dashboard on real servers: what is seen, what a key does, and what it must not do."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from datetime import UTC
from typing import Any, get_args

import pytest
import redis
from textual.events import Key, Paste
from textual.pilot import Pilot

from redisq_ops.core.engine.registry import Registered
from redisq_ops.core.engine.worker_register import WorkerRegistration
from redisq_ops.core.foreign.ruby_jobs import Job
from redisq_ops.core.foreign.sidekiq import SidekiqQueue
from redisq_ops.core.model.entry import Failure, Settlement
from redisq_ops.core.model.errors import Unreachable
from redisq_ops.core.queues.delay import DelaySet
from redisq_ops.core.queues.fair import FairQueue
from redisq_ops.core.queues.request import RequestQueue
from redisq_ops.core.redis.client import aconnect
from redisq_ops.core.redis.operation import run
from redisq_ops.demo.server import EmbeddedServer
from redisq_ops.ops.change import control
from redisq_ops.ops.change.audit_log import Author
from redisq_ops.ops.change.runner import ChangeRun
from redisq_ops.ops.deployment import Deployment
from redisq_ops.ops.discover import register
from redisq_ops.ops.filter.filter import Filter
from redisq_ops.ops.filter.selection import select
from redisq_ops.ops.inspect.snapshot import Snapshot, View, Viewport
from redisq_ops.tui.app import Top
from redisq_ops.tui.banner import Tabs
from redisq_ops.tui.change.confirm_dialog import Confirm
from redisq_ops.tui.change.dialog import Dialog
from redisq_ops.tui.change.undo_screen import UndoScreen
from redisq_ops.tui.change.value_dialog import ValueDialog
from redisq_ops.tui.command.command_line import RowAddresses
from redisq_ops.tui.frame import strips, text
from redisq_ops.tui.poller import Connected, Live, Missed, SnapshotFetched
from redisq_ops.tui.screens.detail_screen import DetailScreen
from redisq_ops.tui.table.filter_input import FilterInput

from ..changes import entry_change
from ..foreign_keys import far_apart

pytestmark = pytest.mark.alike

Body = Callable[[Top, Pilot[Exception]], Awaitable[None]]
OSC_52 = "\x1b]52;c;aGk=\x07"
SHIFT = "ACEGHPRUX"


def drive(
    url: str,
    body: Body,
    *,
    size: tuple[int, int] = (120, 30),
    interval: float = 0.2,
    **options: Any,
) -> Top:
    """Open the dashboard on a server, wait for its first picture, go through ``body``."""

    def connected() -> Connected:
        return Connected(url, Deployment(aconnect(url, "top")), options=("--url", url))

    app = Top(Live(connected), interval=interval, **options)

    async def run() -> None:
        async with app.run_test(size=size) as pilot:
            await until(pilot, lambda: app.snapshot is not None)
            await body(app, pilot)
            text(app)  # all that is shown at the end can be drawn

    asyncio.run(run())
    return app


async def until(pilot: Pilot[Exception], true: Callable[[], object], seconds: float = 90) -> None:
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, f"it never came to that:\n{text(app_of(pilot))}"
        await pilot.pause(0.03)


def app_of(pilot: Pilot[Exception]) -> Top:
    assert isinstance(pilot.app, Top)
    return pilot.app


async def see(pilot: Pilot[Exception], *words: str) -> None:
    await until(pilot, lambda: all(word in text(app_of(pilot)) for word in words))


@pytest.mark.slow
def test_clients_their_rules_and_the_audit_log(url: str, client: redis.Redis) -> None:
    queue = FairQueue(client, "jobs")
    queue.submit("acme", [b"x"] * 3)
    queue.submit("globex", [b"x"])
    run(client, control.change_client(queue, "acme", "block", Author("kim", "ops-1", "floods"), 1))
    run(client, control.change_client(queue, "acme", "cap", Author("ada", "ops-1"), 7))

    async def body(app: Top, pilot: Pilot[Exception]) -> None:
        await press(pilot, "c")
        await see(pilot, "acme", "blocked", "globex", "1 of 2")
        for key, title in (
            ("L", "Cap of client acme of queue jobs"),
            ("O", "Weight of client acme of queue jobs"),
        ):
            assert (await valued(pilot, key)).wanted.title == title
            await press(pilot, "escape")
        assert (await asked(pilot, "K")).question.title == "Unblock client acme of queue jobs?"
        await press(pilot, "n")
        assert app.addresses == RowAddresses(("acme",), "jobs")
        await press(pilot, "p")
        await see(pilot, "none: it is blocked", "by kim@ops-1", "“floods”", "the first 3 of 3")
        await press(pilot, "j")
        await see(pilot, "no other client can be served now", "the first 1 of 1")
        await press(pilot, "k", "p", "l")
        await see(pilot, "kim@ops-1", "floods", "client acme", "ada@ops-1", "cap-")
        await press(pilot, "comma")
        await see(pilot, "max_failures", "trash_ms", "1d 0h", "default")
        await press(pilot, "c", "enter")
        await see(pilot, 'client="acme"', "in 3 of 4")
        await press(pilot, "escape")
        await see(pilot, "globex", "weight")
        await press(pilot, "m")
        await see(pilot, "no worker process is registered")
        await asyncio.to_thread(run, client, WorkerRegistration("w-1", 4, "box", 77).beat(queue))
        await see(pilot, "w-1", "alive", "box")

    drive_in(url, body, "9")


@pytest.mark.slow
def test_worker_processes_of_another_program(url: str, client: redis.Redis) -> None:
    client.sadd("queues", "low")
    client.lpush("queue:low", '{"class": "A", "args": [], "jid": "1"}')
    client.sadd("processes", "app-1:42:abc")
    client.hset(
        "app-1:42:abc",
        mapping={
            "info": '{"hostname":"app-1","pid":42,"queues":["low"],"started_at":1.0}',
            "busy": "0",
            "beat": str(time.time()),
            "quiet": "false",
        },
    )
    run(client, register(Deployment(client), [Registered("sidekiq:low", "sidekiq", 1, 0, at="")]))

    async def body(app: Top, pilot: Pilot[Exception]) -> None:
        await press(pilot, "m")
        await see(pilot, "app-1:42:abc", "alive", "low")
        await press(pilot, "enter")
        await see_line(pilot, "p shows the details of the row")

    drive_in(url, body, "9")


async def see_line(pilot: Pilot[Exception], words: str) -> None:
    """In the line above the keys."""
    await until(pilot, lambda: words in text(app_of(pilot)).splitlines()[-2])


async def press(pilot: Pilot[Exception], *keys: str) -> None:
    """Press keys one after the other, each on an up-to-date screen."""
    for key in keys:
        await pilot.press(key)
        await pilot.pause()


async def asked(pilot: Pilot[Exception], key: str) -> Confirm:
    """Press a key that changes something; the dialog it opens."""
    await press(pilot, key)
    await until(pilot, lambda: isinstance(pilot.app.screen, Confirm))
    await pilot.pause()
    assert isinstance(pilot.app.screen, Confirm)
    return pilot.app.screen


async def valued(pilot: Pilot[Exception], key: str) -> ValueDialog:
    """Press a key that needs a value; the dialog that asks for it."""
    await press(pilot, key)
    await until(pilot, lambda: isinstance(pilot.app.screen, ValueDialog))
    await pilot.pause()
    assert isinstance(pilot.app.screen, ValueDialog)
    return pilot.app.screen


async def undo(pilot: Pilot[Exception]) -> Confirm:
    """Choose the change the cursor begins on; the dialog that asks about it."""
    await press(pilot, "U")
    await until(pilot, lambda: isinstance(pilot.app.screen, UndoScreen))
    await pilot.pause()
    return await asked(pilot, "enter")


async def told(pilot: Pilot[Exception], words: str) -> None:
    """A toast that says so."""
    await until(pilot, lambda: any(words in note.message for note in pilot.app._notifications))


def bury(
    client: redis.Redis, id: str, number: int, error: Failure | None = None, name: str = "mail"
) -> RequestQueue[redis.Redis]:
    """Dead letters ``id``/1 … ``number``, all of one moment."""
    queue = RequestQueue(client, name)
    queue.submit([b"payload %d" % n for n in range(number)], id=id, limit=1000)
    encoded = (error or Failure("ValueError", f"{id} failed")).encoded()
    left = number
    while left:
        taken = queue.take(min(left, 500), consumer="w1").deliveries
        queue.settle([Settlement(delivery, "reject", encoded) for delivery in taken])
        left -= len(taken)
    return queue


def dead(queue: RequestQueue[redis.Redis]) -> set[str]:
    page = queue.page("dead", max=5000)
    return {entry.id for entry in page.entries}


def written(client: redis.Redis) -> set[str]:
    """The commands run since the statistics were reset that can change anything."""
    ran = {name.removeprefix("cmdstat_").partition("|")[0] for name in client.info("commandstats")}
    known: dict[str, Any] = client.command()
    return {name for name in ran if name in known and "write" in map(_text, known[name]["flags"])}


def _text(flag: Any) -> str:
    return flag.decode() if isinstance(flag, bytes) else str(flag)


# --- looking ---------------------------------------------------------------------------------


def test_it_opens_on_the_overview_and_enter_opens_a_queue(url: str, client: redis.Redis) -> None:
    bury(client, "r1", 3)
    DelaySet(client, "later").schedule([("e1", b"x")], after=3600)

    async def body(app: Top, pilot: Pilot[Exception]) -> None:
        assert "later" in text(app) and "mail" in text(app)
        await press(pilot, "enter")  # the queue with dead letters is first
        await see(pilot, "r1/1", "r1/2", "r1/3", "rejected", "ValueError: r1 failed")
        await press(pilot, "3")
        await see(pilot, "held/limit", "r1", "done")
        await press(pilot, "5")
        await see(pilot, "r1/1")
        await press(pilot, "left_square_bracket")
        await see(pilot, "no dead letters")
        await press(pilot, "3")
        await see(pilot, "later is a delay queue: it has no requests.")
        await press(pilot, "6")
        await see(pilot, "1 due in", "e1", "59m")
        await press(pilot, "escape")
        await see(pilot, "waiting", "later", "mail")

    drive(url, body)


@pytest.mark.slow
def test_tab_goes_through_the_queues_and_views_stay(url: str, client: redis.Redis) -> None:
    for name in ("a", "b", "c"):
        bury(client, f"in-{name}", 1, name=name)

    async def body(app: Top, pilot: Pilot[Exception]) -> None:
        await see(pilot, "▸ 3 queues")
        await press(pilot, "enter")
        await see(pilot, "▾ 3 queues")
        await press(pilot, "j", "5")
        for key, seen in (("tab", "b"), ("tab", "c"), ("tab", "a"), ("shift+tab", "c")):
            await press(pilot, key)
            await see(pilot, f"in-{seen}/1")
            assert app.view == "dead"
        await press(pilot, "escape")
        assert app.current.table.identity == "c"  # where the digits lead from here
        await press(pilot, "k", "3")
        await see(pilot, "in-b")

    drive(url, body)


@pytest.mark.slow
def test_the_last_of_many_is_where_the_server_has_it(url: str, client: redis.Redis) -> None:
    queue = bury(client, "r", 300)
    order = [entry.id for entry in queue.page("dead", max=500).entries]

    async def body(app: Top, pilot: Pilot[Exception]) -> None:
        table = app.current.table
        await until(pilot, lambda: table.identity == order[-1])  # the newest is on top
        await press(pilot, "G")
        await until(pilot, lambda: table.identity == order[0])
        await see(pilot, "300 of 300")
        await press(pilot, "g")
        await until(pilot, lambda: table.identity == order[-1])
        await press(pilot, "r")
        await until(pilot, lambda: table.identity == order[0])  # oldest first, of all of them
        assert "loaded" not in text(app)

    drive_in(url, body, "5")


@pytest.mark.slow
def test_an_order_the_server_does_not_keep_says_what_it_is_of(
    url: str, client: redis.Redis
) -> None:
    bury(client, "r", 600)

    async def body(app: Top, pilot: Pilot[Exception]) -> None:
        await press(pilot, "s", "s", "s")
        await see(pilot, "error ▲ (loaded)", "by error ▲, of the 500 loaded")

    drive_in(url, body, "5")


def drive_in(url: str, body: Body, *keys: str, **options: Any) -> None:
    """`drive`, after these keys."""

    async def inside(app: Top, pilot: Pilot[Exception]) -> None:
        await press(pilot, *keys)
        await until(pilot, lambda: app.snapshot and app.snapshot.viewport.view == app.view)
        await pilot.pause()
        await body(app, pilot)

    drive(url, inside, **options)


@pytest.mark.slow
def test_an_entry_opens_with_everything_escaped(url: str, client: redis.Redis) -> None:
    queue = RequestQueue(client, "mail")
    queue.submit([b"[red]hello[/red]\x1b[2J\xff" + OSC_52.encode()], id="r1")
    error = Failure("ValueError", f"[b]{OSC_52}", "Traceback:\n  line 1\n\x1b[31mbang")
    queue.settle([Settlement(queue.take(consumer="w1").deliveries[0], "reject", error.encoded())])

    async def body(app: Top, pilot: Pilot[Exception]) -> None:
        await see(pilot, r"ValueError: [b]\x1b]52;c")
        await press(pilot, "enter")
        assert isinstance(app.screen, DetailScreen)
        await see(pilot, r"[red]hello[/red]\x1b[2J\xff\x1b]52;c;aGk=\x07", r"\x1b[31mbang")
        await see(pilot, "history", "dead rejected")
        raw = "".join(s.text for strip in strips(app) for s in strip)
        assert "\x1b" not in raw and "\x07" not in raw
        await press(pilot, "escape")
        assert not isinstance(app.screen, DetailScreen)

    drive_in(url, body, "5")


@pytest.mark.slow
def test_a_request_opens_as_it_is_inspected(url: str, client: redis.Redis) -> None:
    queue = RequestQueue(client, "mail")
    queue.submit([b"x"] * 10, id="r1", limit=3, priority=7)
    queue.take(2, consumer="w1")

    async def body(app: Top, pilot: Pilot[Exception]) -> None:
        await press(pilot, "enter")
        await see(
            pilot, "2 held of 3, 1 free", "redisq:{mail}:s:r1, 10 entries", "r1/1", "w1", "lease"
        )

    drive_in(url, body, "3")


@pytest.mark.slow
def test_yank_copies_the_id_or_the_whole_payload(url: str, client: redis.Redis) -> None:
    bury(client, "r1", 1)

    async def body(app: Top, pilot: Pilot[Exception]) -> None:
        await press(pilot, "y")
        assert app.clipboard == "r1/1"
        await press(pilot, "enter")
        await see(pilot, "payload 0")
        await press(pilot, "y")
        assert app.clipboard == "payload 0"

    drive_in(url, body, "5")


@pytest.mark.slow
def test_the_cursor_stays_on_its_entry_while_the_list_grows(url: str, client: redis.Redis) -> None:
    bury(client, "old", 5)

    async def body(app: Top, pilot: Pilot[Exception]) -> None:
        await press(pilot, "j", "j")
        chosen, line = app.current.table.identity, app.current.table.cursor
        await asyncio.to_thread(bury, client, "new", 4)
        await see(pilot, "new/1")
        assert (app.current.table.identity, app.current.table.cursor) == (chosen, line + 4)

    drive_in(url, body, "5")


@pytest.mark.slow
def test_an_entry_that_is_still_listed_is_not_said_to_be_gone(
    url: str, client: redis.Redis
) -> None:
    bury(client, "r", 200)

    async def body(app: Top, pilot: Pilot[Exception]) -> None:
        await press(pilot, "j", "j")
        under = app.current.table.identity
        assert under is not None
        await asyncio.to_thread(bury, client, "new", 150)  # the newest first
        await see_line(pilot, f"✗ {under} is not shown any more")

    drive_in(url, body, "5", queue="mail")


@pytest.mark.slow
def test_esc_from_a_filter_keeps_the_row(url: str, client: redis.Redis) -> None:
    bury(client, "r", 300)

    async def body(app: Top, pilot: Pilot[Exception]) -> None:
        await press(pilot, "slash", *"id=r/271", "enter")
        await see(pilot, "in 1 of 300")
        await press(pilot, "escape")
        await see_line(pilot, "of 300")
        assert app.current.table.identity == "r/271"
        await see(pilot, " r/271 ")
        await asked(pilot, "X")
        assert "Purge 1 dead entry of mail?" in text(app) and "r/271  " in text(app)

    drive_in(url, body, "5")


@pytest.mark.slow
def test_enter_searches_all_entries_for_a_filter_and_not_only_the_loaded(
    url: str, client: redis.Redis
) -> None:
    bury(client, "r", 600)  # the newest 500 are loaded
    rare = RequestQueue(client, "mail")

    async def body(app: Top, pilot: Pilot[Exception]) -> None:
        await press(pilot, "slash", *"id=r/1")
        await see(pilot, "nothing matches /id=r/1/: 500 of 600 looked at")
        await press(pilot, "enter")
        await see(pilot, "/id=r/1/ in 1 of 600", "all searched at")
        await asked(pilot, "P")
        await see(pilot, "r/1")
        await press(pilot, "y")
        await told(pilot, "1 replayed")
        assert rare.get("r/1").state == "waiting" and rare.counts().dead == 599  # type: ignore[union-attr]
        await see(pilot, "nothing matches")
        await press(pilot, "escape", "slash", *"id~/5", "enter")
        await see(pilot, "in 111 of 599", "all searched at")
        rare.settle([Settlement(rare.take(1, consumer="w").deliveries[0], "reject", b"{}")])
        await press(pilot, "f")
        await until(pilot, lambda: "all searched" in text(app))
        await press(pilot, "escape", "slash", *"nowhere", "enter")
        await see(pilot, "/nowhere/ in 0 of 600", "all searched at")
        await see(pilot, "nothing matches /nowhere/: 600 looked at; Esc drops the filter")
        await press(pilot, "escape")
        await see(pilot, "1 of 600 · newest first")

    drive_in(url, body, "5")


@pytest.mark.slow
def test_a_search_and_a_scan_that_could_not_read_all_do_not_claim_all(
    url: str, client: redis.Redis
) -> None:
    bury(client, "r", 600)
    client.hset("redisq:{mail}:meta", "r/7", "garbage")

    async def body(app: Top, pilot: Pilot[Exception]) -> None:
        await press(pilot, "f")
        await see(pilot, "599 dead at", ": 1 entry has a corrupt record (r/7); Esc")
        assert "all 599 dead" not in text(app)
        await press(pilot, "5", "slash", *"nowhere", "enter")
        await see(pilot, "part searched at", "corrupt record (r/7); f: again", "not all looked at")
        assert "all searched" not in text(app)

    drive_in(url, body, "7", queue="mail", size=(160, 30))


@pytest.mark.slow
def test_cursor_and_marks_stay_when_a_search_ends_and_when_what_it_found_is_outdated(
    url: str, client: redis.Redis
) -> None:
    bury(client, "r", 600)

    async def body(app: Top, pilot: Pilot[Exception]) -> None:
        app.current.narrow(app.current.parsed("id~/5", utc=True))
        app.poller.wake()
        await see(pilot, "the 500 loaded of 600")
        await press(pilot, "j", "j", "space", "j")
        under, marks = app.current.table.identity, app.current.table.marks
        assert under and marks
        await press(pilot, "f")
        await see(pilot, "all searched at")
        assert (app.current.table.identity, app.current.table.marks) == (under, marks)
        app.drop_scan(None)
        app.poller.wake()
        await see(pilot, "the 500 loaded of 600")
        assert (app.current.table.identity, app.current.table.marks) == (under, marks)
        assert not app.current.table.new

    drive_in(url, body, "5", queue="mail")


@pytest.mark.slow
def test_cursor_and_marks_stay_when_all_dead_letters_have_been_grouped(
    url: str, client: redis.Redis
) -> None:
    for number, name in enumerate(("A", "B", "C", "D")):
        bury(client, f"r{name}", 160 + number, Failure(f"{name}Error", name))

    async def body(app: Top, pilot: Pilot[Exception]) -> None:
        await see(pilot, "of 646 dead")
        await press(pilot, "j", "space", "j")
        under, marks = app.current.table.identity, app.current.table.marks
        assert under and marks
        await press(pilot, "f")
        await see(pilot, "all 646 dead at")
        assert (app.current.table.identity, app.current.table.marks) == (under, marks)
        await press(pilot, "escape")
        await see(pilot, "the latest 500")
        assert (app.current.table.identity, app.current.table.marks) == (under, marks)

    drive_in(url, body, "7", queue="mail")


@pytest.mark.slow
def test_a_filter_without_a_match_says_how_many_were_looked_at(
    url: str, client: redis.Redis
) -> None:
    bury(client, "r", 1)

    async def body(app: Top, pilot: Pilot[Exception]) -> None:
        await press(pilot, "slash", *"nope")
        await see(pilot, "nothing matches /nope/: 1 looked at; Esc drops the filter")
        assert "no queues here" not in text(app)

    drive(url, body)


@pytest.mark.slow
def test_a_group_of_a_scan_is_changed_without_another_scan(url: str, client: redis.Redis) -> None:
    bury(client, "mine", 30, Failure("TimeoutError", "slow smtp"))
    queue = bury(client, "other", 1_200)

    async def body(app: Top, pilot: Pilot[Exception]) -> None:
        await press(pilot, "f")
        await see(pilot, "all 1,230 dead at", "TimeoutError")
        await press(pilot, "j")
        target = app.current.target
        assert target and set(target.ids) == {f"mine/{n}" for n in range(1, 31)}
        await asked(pilot, "P")
        assert "Replay 30 dead entries of mail?" in text(app)
        await press(pilot, "y")
        await told(pilot, "30 replayed")
        assert dead(queue) == {f"other/{n}" for n in range(1, 1_201)}
        await see(pilot, "all 1,200 dead at")  # of the scan, without the group that is done
        assert "TimeoutError" not in "\n".join(text(app).splitlines()[:6])
        await undo(pilot)
        await press(pilot, "y")
        await see(pilot, "the latest 500 of 1,230 dead")

    drive_in(url, body, "7")


@pytest.mark.slow
def test_an_unknown_queue_is_said_and_the_others_shown(url: str, client: redis.Redis) -> None:
    bury(client, "r1", 1)

    async def body(app: Top, pilot: Pilot[Exception]) -> None:
        await told(pilot, "no queue 'nope' here")
        assert "mail" in text(app)

    drive(url, body, queue="nope")


def test_a_queue_asked_for_is_opened_at_once(url: str, client: redis.Redis) -> None:
    bury(client, "r1", 1)
    drive(url, lambda app, pilot: see(pilot, "held/limit", "r1"), queue="mail")


@pytest.mark.slow
def test_a_queue_that_is_destroyed_meanwhile_is_said(url: str, client: redis.Redis) -> None:
    bury(client, "r1", 1)

    async def body(app: Top, pilot: Pilot[Exception]) -> None:
        await asyncio.to_thread(client.flushall)
        await see(pilot, "no queue 'mail' here")

    drive_in(url, body, "5")


@pytest.mark.slow
def test_looking_changes_nothing(url: str, client: redis.Redis) -> None:
    queue = bury(client, "r1", 30)
    queue.submit([b"x"] * 50, id="r2")
    queue.take(4, consumer="w1")
    DelaySet(client, "later").schedule([("e1", b"x")], after=60)
    client.config_resetstat()

    async def body(app: Top, pilot: Pilot[Exception]) -> None:
        await press(pilot, *"12345678", "5", "enter")
        await see(pilot, "payload 8")
        await press(pilot, "t")
        await see(pilot, "dead since", "what helps", "redisq replay mail/r1/")
        await press(pilot, "escape", "escape", "7", "f")
        await until(pilot, lambda: "as of" in text(app) or "all 30 dead at" in text(app))
        await press(pilot, "escape", "3", "enter")
        await see(pilot, "redisq:{mail}:s:")
        await press(pilot, "escape", "slash", "r", "enter", "tab", "6", "s", "s", "s")
        await see(pilot, "later")
        # Every key but those with Shift, and what is destructive elsewhere.
        await press(
            *(pilot, "5", *"abdeghjkmnoruvxz", *"cpl,", "i", "escape", "5"),
            *("ctrl+r", "ctrl+d", "ctrl+k", "delete"),
        )
        assert not any(isinstance(one, Dialog) for one in app.screen_stack)

    drive(url, body)
    assert written(client) == set()


@pytest.mark.slow
def test_a_terminal_of_20_by_5_is_small_and_no_more(url: str, client: redis.Redis) -> None:
    bury(client, "r1", 30)

    async def body(app: Top, pilot: Pilot[Exception]) -> None:
        for view in "1234567890cml,e":
            await press(
                pilot, view, "j", "G", "enter", "escape", "question_mark", "j", "escape", "s"
            )
            if view == "5":  # a corner of the window is dragged
                sizes = [(width, 5 + width % 40) for width in range(20, 200, 6)]
                await asyncio.gather(*(pilot.resize_terminal(*size) for size in sizes))
            await pilot.resize_terminal(100, 30)
            await see(pilot, "redisq", "Help")
            await pilot.resize_terminal(20, 5)
            await pilot.pause()

    drive(url, body, size=(20, 5))


# --- the server --------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_last_picture_stays_when_the_server_goes_and_it_recovers() -> None:
    with EmbeddedServer(appendonly=True) as server:
        with redis.Redis.from_url(server.url) as client:
            bury(client, "r1", 3)

        async def body(app: Top, pilot: Pilot[Exception]) -> None:
            server.kill()
            await see(pilot, "stale 1s", "r1/1", "can't reach the server")
            await press(pilot, "j", "s")
            await asyncio.to_thread(server.restart)
            await until(pilot, lambda: "stale" not in text(app))
            await see(pilot, "r1/1")
            await until(pilot, lambda: "can't reach" not in text(app))

        drive_in(server.url, body, "5")


@pytest.mark.slow
def test_a_change_that_meets_no_server_says_so() -> None:
    with EmbeddedServer() as server:
        with redis.Redis.from_url(server.url) as client:
            bury(client, "r1", 3)

        async def body(app: Top, pilot: Pilot[Exception]) -> None:
            server.kill()
            await see(pilot, "stale")
            await press(pilot, "X")
            await told(pilot, "can't reach the server")
            assert len(app.screen_stack) == 1

        drive_in(server.url, body, "5")


@pytest.mark.slow
def test_round_trips_do_not_depend_on_the_size(url: str, client: redis.Redis) -> None:
    trips = {size: round_trips(client, size) for size in (3, 20, 700)}
    pages = {size: found.pop("first tasks") for size, found in trips.items()}
    assert trips[20] == trips[700] and pages[20] + 3 == pages[700]  # it reads 500 at most
    assert trips[3]["first overview"] == 4  # two for entries that come back again and again
    assert trips[20]["first overview"] == 4  # and for the names in the reasons: it has many dead
    once_more = {view: trips[20][view] for view in get_args(View)}
    assert once_more.pop("overview") == 2
    assert once_more.pop("waiting") == 4
    assert once_more.pop("consumers") == 5
    assert max(once_more.values()) == 3
    assert max(trips[20].values()) <= 8


def round_trips(client: redis.Redis, size: int) -> dict[str, int]:
    """Exchanges with the server one refresh of each view takes."""
    from redisq_ops.core.redis.transport import exchange
    from redisq_ops.ops.inspect.snapshot import ExplainSubject, Viewport
    from redisq_ops.ops.inspect.snapshot_reader import KeptReads, fetch

    client.flushall()
    queue = bury(client, "r", size)
    queue.submit([b"x"] * size, id="more", limit=1000)
    queue.take(min(size, 500), consumer="w1")
    for n in range(size):
        queue.submit([b"x"], id=f"one-{n}")
    deployment = Deployment(client)
    found: dict[str, int] = {}
    viewports: dict[str, Viewport] = {
        view: Viewport(view, "mail", 0, 60) for view in get_args(View)
    }
    for id in (None, "r", "r/1", "more/2"):  # a queue, a request, a dead entry, a waiting one
        viewports[f"why {id}"] = Viewport("dead", "mail", 0, 60, explain=ExplainSubject("mail", id))
    for view, viewport in viewports.items():
        kept = KeptReads(deployment)
        for refresh in ("first ", ""):
            description, trips = fetch(deployment, viewport, kept=kept), 0
            try:
                calls = description.send(None)
                while True:
                    trips += 1
                    calls = description.send(exchange(client, calls))
            except StopIteration:
                found[refresh + view] = trips
    return found


def test_a_server_that_deletes_what_queues_keep_is_warned_of() -> None:
    args = ("--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru")
    with EmbeddedServer(args=args) as server:
        drive(server.url, lambda app, pilot: told(pilot, "maxmemory-policy is allkeys-lru"))


# --- changing ----------------------------------------------------------------------------------


@pytest.mark.slow
def test_purge_takes_the_marked_and_no_others_although_rows_shift(
    url: str, client: redis.Redis
) -> None:
    queue = bury(client, "old", 6)

    async def body(app: Top, pilot: Pilot[Exception]) -> None:
        table = app.current.table
        marked = []
        for _ in range(3):
            assert table.identity is not None
            marked.append(table.identity)
            await press(pilot, "space", "j")
        await asyncio.to_thread(bury, client, "new", 5)  # on top of all of them
        await see(pilot, "new/1")
        elsewhere = marked.pop()
        await asyncio.to_thread(purge_by_hand, queue, elsewhere)
        dialog = await asked(pilot, "X")
        assert "Purge 2 dead entries of mail?" in text(app)
        assert f"{elsewhere} is trash, not dead: left out" in dialog.question.lines
        await asyncio.to_thread(bury, client, "late", 2)  # while the dialog is open
        await press(pilot, "y")
        await told(pilot, "2 purged")
        gone = {f"old/{n}" for n in range(1, 7)} - dead(queue)
        assert gone == {*marked, elsewhere}
        assert {f"new/{n}" for n in range(1, 6)} | {"late/1", "late/2"} <= dead(queue)
        assert not table.marks

        await undo(pilot)
        assert "2 dead entries (filter:" in text(app)
        await press(pilot, "y")
        await told(pilot, "2 put back")
        assert set(marked) <= dead(queue)
        assert elsewhere not in dead(queue)

    drive_in(url, body, "5")


def purge_by_hand(queue: RequestQueue[redis.Redis], id: str) -> None:
    queue.move("by-hand", 1, [id], source="dead", target="trash", high_water_ms=queue.now())


@pytest.mark.slow
def test_a_change_stops_at_esc_and_can_be_undone(
    url: str, client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue = bury(client, "r", 900)
    monkeypatch.setattr(ChangeRun, "pause", 0.5)  # between steps, so that there is time for a key

    async def body(app: Top, pilot: Pilot[Exception]) -> None:
        await press(pilot, "A")
        await asked(pilot, "X")
        await press(pilot, "y")
        await see(pilot, "purge: ", "of 900; Esc stops")
        await press(pilot, "q")
        await told(pilot, "A change is running")
        await press(pilot, "escape")
        await told(pilot, "stopped before the rest")
        gone = queue.counts().trash
        assert 0 < gone < 900 and gone + queue.counts().dead == 900
        await undo(pilot)
        assert f"{gone} dead entries (filter:" in text(app)
        await press(pilot, "y")
        await told(pilot, f"{gone} put back")

    drive_in(url, body, "5")


@pytest.mark.slow
def test_no_is_no(url: str, client: redis.Redis) -> None:
    queue = bury(client, "r1", 3)

    async def body(app: Top, pilot: Pilot[Exception]) -> None:
        await press(pilot, "space")
        for answer in ("n", "escape", "enter"):
            await asked(pilot, "X")
            await press(pilot, answer)
            await until(pilot, lambda: len(app.screen_stack) == 1)
        assert len(dead(queue)) == 3
        assert queue.counts().trash == 0
        assert len(app.current.table.marks) == 1  # still wanted

    drive_in(url, body, "5")


@pytest.mark.slow
def test_all_that_match_means_the_filter_shown_over_the_whole_state(
    url: str, client: redis.Redis
) -> None:
    """More than is loaded, and nothing that the filter leaves out."""
    bury(client, "mine", 30, Failure("TimeoutError", "slow smtp"))
    queue = bury(client, "other", 600)

    async def body(app: Top, pilot: Pilot[Exception]) -> None:
        await press(pilot, "slash", *"smtp")
        await see(pilot, "/smtp/ in 0 of the 500 loaded of 630")
        await press(pilot, "enter", "A")
        await see(pilot, "ALL that match")
        await asked(pilot, "P")
        assert "Replay 30 dead entries of mail?" in text(app)
        assert "reasons: 30 rejected" in text(app)
        await press(pilot, "y")
        await told(pilot, "30 replayed")
        assert dead(queue) == {f"other/{n}" for n in range(1, 601)}
        assert queue.counts().waiting == 30
        await until(pilot, lambda: not app.current.everything)

    drive_in(url, body, "5")


@pytest.mark.slow
def test_a_filter_that_arrives_in_one_piece_is_no_command(url: str, client: redis.Redis) -> None:
    """Pasted, or over a slow line: the letters after / come before the screen was drawn again."""
    bury(client, "a", 2)
    bury(client, "PX", 2)

    async def body(app: Top, pilot: Pilot[Exception]) -> None:
        await see(pilot, "a/1", "PX/1")
        for key, letter in (("slash", "/"), ("P", "P"), ("X", "X")):
            app.post_message(Key(key, letter))
        await until(pilot, lambda: "/PX/ in" in text(app))
        await until(pilot, lambda: "a/1" not in text(app) and "PX/1" in text(app))
        assert not isinstance(app.screen, Confirm)

    drive_in(url, body, "5")


@pytest.mark.slow
def test_what_comes_while_leaving_is_nobodys(url: str, client: redis.Redis) -> None:
    bury(client, "a", 2)

    async def body(app: Top, pilot: Pilot[Exception]) -> None:
        await see(pilot, "a/1")
        assert app.snapshot is not None
        screens = app._screen_stack[:]
        app._screen_stack.clear()  # as it is for a moment on the way out
        app.on_snapshot_fetched(SnapshotFetched(app.snapshot, app.source))
        app.on_missed(Missed(Unreachable("gone"), app.source))
        app._screen_stack.extend(screens)

    drive_in(url, body, "5")


@pytest.mark.slow
def test_a_half_typed_filter_keeps_the_last_good_one(url: str, client: redis.Redis) -> None:
    bury(client, "a", 2)
    bury(client, "b", 2)

    async def body(app: Top, pilot: Pilot[Exception]) -> None:
        await press(pilot, "slash", "b", "left_parenthesis")
        await see(pilot, "column 1: ( and ) don't match here", "b/1")
        await until(pilot, lambda: "a/1" not in text(app))
        await press(pilot, "escape")
        await see(pilot, "a/1", "b/1")

    drive_in(url, body, "5")


@pytest.mark.slow
def test_a_filter_that_can_not_be_read_is_never_acted_by(url: str, client: redis.Redis) -> None:
    """Its readable beginning means more entries than what stands on the screen."""
    queue = bury(client, "a", 2)
    bury(client, "b", 2)

    async def body(app: Top, pilot: Pilot[Exception]) -> None:
        await press(pilot, "slash", *"id~b -errr~vat", "enter")
        await told(pilot, "This filter isn't kept: column 7: there is no field 'errr'")
        field = app.query_one(FilterInput)
        assert field.display and app.focused is field and field.cursor_position == 6
        lines = text(app).splitlines()
        at = next(n for n, line in enumerate(lines) if "id~b -errr~vat" in line)
        assert lines[at + 1].index("^ column 7") == lines[at].index("errr")
        await press(pilot, "A", "X")  # letters of the filter, no keys
        assert not isinstance(app.screen, Confirm)
        app.current.table.focus()  # as a click does
        await press(pilot, "A", "X", "P")
        assert not isinstance(app.screen, Confirm) and not app.current.everything
        await press(pilot, "escape")
        await see(pilot, "a/1", "b/1")
        assert not field.display and app.current.filter is None
        # Nor after another view was looked at meanwhile.
        await press(pilot, "slash", *"id~b -errr~vat")
        app.action_view("overview")
        await press(pilot, "5")
        await see(pilot, "a/1", "b/1")
        await press(pilot, "slash", *"id~b", "enter", "A")
        await asked(pilot, "X")
        assert "Purge 2 dead entries of mail?" in text(app)
        await press(pilot, "n")

    drive_in(url, body, "5")
    assert len(dead(queue)) == 4


@pytest.mark.slow
def test_the_filter_is_an_expression_over_payloads_and_priorities_too(
    url: str, client: redis.Redis
) -> None:
    """What it shows is what all that match means: the same entries are replayed."""
    queue = bury(client, "r", 12)
    bury(client, "late", 3, Failure("TimeoutError", "slow smtp"))

    async def body(app: Top, pilot: Pilot[Exception]) -> None:
        await press(pilot, "slash", *"priority=50 -error~smtp payload~1$")
        await see(pilot, "payload~1$/ in 2 of 15", "r/2 ", "r/12 ")
        await until(pilot, lambda: "late/" not in text(app))
        await press(pilot, "enter", "A")
        await asked(pilot, "P")
        assert "Replay 2 dead entries of mail?" in text(app)
        assert "filter: where priority=50 -error~smtp payload~1$" in text(app)
        await press(pilot, "y")
        await told(pilot, "2 replayed")
        assert dead(queue) == {f"r/{n}" for n in range(1, 13) if n not in (2, 12)} | {
            f"late/{n}" for n in range(1, 4)
        }

    drive_in(url, body, "5")


@pytest.mark.slow
def test_the_filter_says_where_it_can_not_be_read(url: str, client: redis.Redis) -> None:
    bury(client, "a", 2)

    async def body(app: Top, pilot: Pilot[Exception]) -> None:
        await press(pilot, "slash", *"eror~x")
        await see(pilot, "column 1: there is no field 'eror': did you mean error?")
        await press(pilot, "escape", "slash", *"age>2x")
        await see(pilot, "column 5: age can't be compared with")
        await press(pilot, "escape", "slash", *"state:delayed", "enter")
        await see(pilot, "in 0 of 2", "it is about delayed entries")
        await press(pilot, "A")
        await press(pilot, "P")
        await told(pilot, "the expression matches only delayed entries, not dead ones")
        assert not isinstance(app.screen, Confirm)

    drive_in(url, body, "5")


@pytest.mark.slow
def test_where_no_entries_are_listed_the_filter_is_words(url: str, client: redis.Redis) -> None:
    bury(client, "alpha", 1)
    bury(client, "beta", 1)

    async def body(app: Top, pilot: Pilot[Exception]) -> None:
        await press(pilot, "slash", *"state:dead")
        await see(pilot, "words only")
        await press(pilot, "escape", "slash", *"-al")
        await see(pilot, "/-al/ in 1 of 2", "beta")
        await until(pilot, lambda: "alpha" not in text(app))

    drive_in(url, body, "3")


@pytest.mark.slow
def test_requeue_and_claim_void_the_old_receipt(url: str, client: redis.Redis) -> None:
    queue = RequestQueue(client, "mail")
    queue.submit([b"x"] * 2, id="r1")
    one, two = queue.take(2, consumer="w1").deliveries

    async def body(app: Top, pilot: Pilot[Exception]) -> None:
        await until(pilot, lambda: app.current.table.identity == one.id)
        await asked(pilot, "R")
        await press(pilot, "y")
        await told(pilot, "1 requeued")
        await until(pilot, lambda: app.current.table.cursor_lost)
        await press(pilot, "k")
        await until(pilot, lambda: app.current.table.identity == two.id)
        await valued(pilot, "C")
        await press(pilot, *"yann")
        dialog = await asked(pilot, "enter")
        assert dialog.question.typed == "new yann"  # nobody alive has that name
        await press(pilot, *"new yann", "y")
        await told(pilot, "1 claimed")
        entry = queue.get(two.id)
        assert entry is not None and entry.consumer == "yann"

    drive_in(url, body, "4")
    assert queue.settle([Settlement(one, "ack"), Settlement(two, "ack")]) == ["stale", "stale"]
    assert queue.counts().waiting == 1


@pytest.mark.slow
def test_hold_stops_and_starts_a_queue(url: str, client: redis.Redis) -> None:
    queue = RequestQueue(client, "mail")
    queue.submit([b"x"], id="r1")

    async def body(app: Top, pilot: Pilot[Exception]) -> None:
        await asked(pilot, "H")
        await press(pilot, "y")
        await told(pilot, "mail paused")
        await see(pilot, "paused by")
        assert not queue.take(consumer="w1").deliveries
        await asked(pilot, "H")
        assert "Resume queue mail?" in text(app)
        await press(pilot, "y")
        await told(pilot, "mail resumed")
        assert queue.take(consumer="w1").deliveries

    drive(url, body)


@pytest.mark.slow
def test_hold_stops_the_marked_queues_only(url: str, client: redis.Redis) -> None:
    queues = {name: RequestQueue(client, name) for name in ("a", "b", "c")}
    for queue in queues.values():
        queue.submit([b"x"], id="r1")

    async def body(app: Top, pilot: Pilot[Exception]) -> None:
        await press(pilot, "space", "j", "j", "space")
        await asked(pilot, "H")
        assert "Pause 2 queues?" in text(app)
        await press(pilot, "y")
        await told(pilot, "2 queues paused")
        taken = {name: len(queue.take(consumer="w1").deliveries) for name, queue in queues.items()}
        assert taken == {"a": 0, "b": 1, "c": 0}

    drive(url, body)


@pytest.mark.slow
def test_hold_of_several_keeps_the_reason_and_says_what_was_refused(
    url: str, client: redis.Redis
) -> None:
    queues = [RequestQueue(client, name) for name in ("a", "z")]
    for queue in queues:
        queue.submit([b"x"], id="r1")
    client.xgroup_create("orders", "g", id="0", mkstream=True)
    entry = Registered("stream:orders", "stream", 1, 0)
    run(client, register(Deployment(client), [entry]))

    async def body(app: Top, pilot: Pilot[Exception]) -> None:
        await see(pilot, "stream:orders")
        await press(pilot, "space", "j", "space", "j", "space")
        await asked(pilot, "H")
        await press(pilot, "w", *"smtp", "enter", "y")
        await told(pilot, "2 of 3 queues paused")
        await told(pilot, "queue stream:orders is kept by another program")
        assert [queue.counts().paused for queue in queues] == ["smtp", "smtp"]

    drive(url, body)


@pytest.mark.slow
def test_hold_is_offered_where_a_queue_can_be_held(url: str, client: redis.Redis) -> None:
    client.zadd("delays", {"a": 4e9})
    client.sadd("queues", "low")
    client.lpush("queue:low", '{"class": "A", "args": [], "jid": "1"}')
    entries = [
        Registered("raw-delay:delays", "raw-delay", 1, 0, at="delays"),
        Registered("sidekiq:low", "sidekiq", 1, 0, at=""),
    ]
    run(client, register(Deployment(client), entries))

    async def body(app: Top, pilot: Pilot[Exception]) -> None:
        # In trouble, since no worker is registered for it, and so the first.
        await until(pilot, lambda: app.current.table.identity == "sidekiq:low")
        await press(pilot, "j")
        await until(pilot, lambda: app.current.table.identity == "raw-delay:delays")
        assert not app.check_action("hold", ())
        await press(pilot, "H", "k")
        await until(pilot, lambda: app.current.table.identity == "sidekiq:low")
        dialog = await asked(pilot, "H")
        assert dialog.question.title == "Pause queue sidekiq:low?"
        assert dialog.question.lines[-1].endswith("those of Sidekiq alone go on")
        await press(pilot, "n", "j", "enter", "4")
        await see(pilot, "unknown: a raw-delay queue keeps no list of its pending entries")
        assert not app.check_action("hold", ())

    drive(url, body)


@pytest.mark.slow
def test_hold_goes_on_where_one_of_the_marked_requests_has_ended(
    url: str, client: redis.Redis
) -> None:
    queue = RequestQueue(client, "mail")
    for id in ("r1", "r2"):
        queue.submit([b"x"], id=id)

    async def body(app: Top, pilot: Pilot[Exception]) -> None:
        await press(pilot, "space", "j", "space")
        await asked(pilot, "H")
        for delivery in queue.take(1, consumer="w1").deliveries:  # while the question is open
            queue.settle([Settlement(delivery, "ack")])
        await press(pilot, "y")
        await told(pilot, "1 of 2 requests of mail paused")
        found = [queue.request(id) for id in ("r1", "r2")]
        assert [one and one.paused for one in found] == [False, True]

    drive_in(url, body, "3")


@pytest.mark.slow
def test_hold_tells_of_what_a_colleague_held_meanwhile_and_names_only_its_own_change(
    url: str, client: redis.Redis
) -> None:
    queue = RequestQueue(client, "mail")
    for id in ("r1", "r2", "r3"):
        queue.submit([b"x"], id=id)

    async def body(app: Top, pilot: Pilot[Exception]) -> None:
        async def hold(id: str) -> str:
            """What is told if this request is paused while the question is open."""
            await asked(pilot, "H")
            change = control.change_request(queue, id, "pause", Author("ada", "ops-1"))
            await asyncio.to_thread(run, client, change)
            app.clear_notifications()
            await press(pilot, "y")
            await told(pilot, "paused")
            (note,) = app._notifications
            return note.message

        await press(pilot, "space", "j", "space")
        said = await hold("r1")
        assert app.changes.last_op is not None
        assert said.split("\n") == [
            "1 of 2 requests of mail paused, 1 so already",
            f"{app.changes.last_op} · U undoes it",
        ]
        await until(pilot, lambda: not app.changes.running)
        app.current.table.mark(())
        await press(pilot, "j")
        assert await hold("r3") == "request mail/r3 paused: it was so already"

    drive_in(url, body, "3")


@pytest.mark.slow
def test_hold_stops_the_marked_requests_only(url: str, client: redis.Redis) -> None:
    queue = RequestQueue(client, "mail")
    for id in ("r1", "r2", "r3"):
        queue.submit([b"x"], id=id)

    async def body(app: Top, pilot: Pilot[Exception]) -> None:
        await press(pilot, "space", "j", "j", "space")
        await asked(pilot, "H")
        assert "Pause 2 requests of mail?" in text(app)
        await press(pilot, "y")
        await told(pilot, "2 requests of mail paused")
        assert {d.id for d in queue.take(5, consumer="w1").deliveries} == {"r2/1"}
        await undo(pilot)
        await press(pilot, "y")
        await told(pilot, "1 put back")

    drive_in(url, body, "3")


@pytest.mark.slow
def test_read_only_changes_nothing(url: str, client: redis.Redis) -> None:
    bury(client, "r1", 3)
    client.config_resetstat()

    async def body(app: Top, pilot: Pilot[Exception]) -> None:
        assert "read-only" in text(app)
        await press(pilot, "space", *SHIFT)
        await see(pilot, "this dashboard is read-only")
        assert len(app.screen_stack) == 1
        assert not app.current.everything

    drive_in(url, body, "5", read_only=True)
    assert written(client) == set()


@pytest.mark.slow
def test_read_only_holds_before_the_first_picture(url: str, client: redis.Redis) -> None:
    """A server that takes its time has answered nothing yet, and the keys are there already."""
    queue = bury(client, "r1", 2)
    replay = entry_change(run(client, select(queue, "dead", Filter())), "replay", Author.here())
    while run(client, replay.step()):
        pass
    client.config_resetstat()

    class Slow(Live):
        async def look(self, viewport: Viewport) -> Snapshot:
            self.connected = self.connected or self._connect()
            await asyncio.Event().wait()
            raise AssertionError

    connected = Connected(url, Deployment(aconnect(url, "top")), read_only=True)
    app = Top(Slow(lambda: connected))

    async def go() -> None:
        async with app.run_test() as pilot:
            await until(pilot, lambda: app.source.connected is not None)
            await press(pilot, "U")
            await pilot.pause(0.2)
            assert app.snapshot is None and len(app.screen_stack) == 1
            assert not app.changes.running

    asyncio.run(go())
    assert written(client) == set()


@pytest.mark.slow
def test_a_time_no_calendar_reaches_is_said_by_its_year(url: str, client: redis.Redis) -> None:
    far_apart(client)

    async def body(app: Top, pilot: Pilot[Exception]) -> None:
        await see(pilot, "year 58865", "2030-01-01 00:00:00")
        await press(pilot, "G", "enter")
        await see(pilot, "far", "year 58865")
        await press(pilot, "t")
        await see(pilot, "delayed until year 58865")

    drive_in(url, body, "6", queue="sidekiq:low", zone=UTC)


@pytest.mark.slow
def test_what_is_due_in_decades_is_said_in_years(url: str, client: redis.Redis) -> None:
    queue = DelaySet(client, "later")
    queue.schedule([("far", b"x")], after=14_599 * 86_400_000 / 1000)

    async def body(app: Top, pilot: Pilot[Exception]) -> None:
        await see(pilot, "far", "40 years")
        await press(pilot, "enter")
        await see(pilot, "due", "  (in 40 years)")

    drive_in(url, body, "6")


@pytest.mark.slow
def test_a_key_that_can_not_act_says_why(url: str, client: redis.Redis) -> None:
    bury(client, "r1", 3)

    async def body(app: Top, pilot: Pilot[Exception]) -> None:
        for view, keys, why in (
            ("1", "RCPX", "not in this view: see"),
            ("1", "A", "A All: it is for lists of entries that can be changed together"),
            ("9", "RP", "not in this view"),
            ("0", "XA", ""),
            ("1", "b", "b has no meaning here: ? lists the keys"),
            ("1", ["tab"], "Tab goes from queue to queue once one is open"),
            ("1", ["escape"], "there is no place to go back to"),
            ("3", "RCPX", "not in this view"),
            ("4", "P", "Replay: not in this view: see d (all dead), 5 (dead), 7 (groups)"),
            ("4", "E", "payloads are edited in the views of dead (5), delayed (6) and waiting (9)"),
            ("4", ["y", "space", "enter"], "The list is empty."),
            ("5", "RC", "not in this view"),
            ("5", "f", "f Search all: it groups all dead letters (7), or searches all entries"),
            ("5", ["tab"], "There is no other queue"),
            ("6", "CP", "not in this view"),
            ("7", "RC", "not in this view"),
            ("8", "P", "not in this view"),
            ("8", "X", "can't do that to pending entries"),
        ):
            await press(pilot, view)
            for key in keys:
                await press(pilot, key)
                await see_line(pilot, why)
                assert len(app.screen_stack) == 1
        await press(pilot, "question_mark", "b")
        await told(pilot, "b has no meaning here")
        await press(pilot, "escape", "slash", "f5")
        await see(pilot, "f5 has no meaning in a filter")
        app.current.table.focus()
        await pilot.pause()
        app.post_message(Paste("docs"))
        await see(pilot, "/ opens the filter")

    drive_in(url, body, "5")


@pytest.mark.slow
def test_keys_for_what_another_program_keeps_are_those_that_can_be(
    url: str, client: redis.Redis
) -> None:
    queue = SidekiqQueue(client, "sidekiq:low")
    queue.push([Job("Note", ["dead"])])
    queue.settle([Settlement(queue.take(consumer="w").deliveries[0], "reject")])

    async def body(app: Top, pilot: Pilot[Exception]) -> None:
        await until(pilot, lambda: app.current.table.identity)
        footer = text(app).splitlines()[-1]
        assert "P Replay" in footer and "E Edit" in footer and "C Claim" not in footer

    drive_in(url, body, "5")


def test_a_click_on_a_tab_opens_its_view(url: str, client: redis.Redis) -> None:
    RequestQueue(client, "mail").submit([b"x"], id="r")

    async def body(app: Top, pilot: Pilot[Exception]) -> None:
        await see(pilot, "mail")
        (line,) = (line for line in text(app).splitlines() if "5 dead" in line)
        await pilot.click(Tabs, offset=(line.index("5 dead"), 0))
        await until(pilot, lambda: app.view == "dead" and app.queue == "mail")

    drive(url, body)


@pytest.mark.slow
def test_help_names_every_key(url: str) -> None:
    async def body(app: Top, pilot: Pilot[Exception]) -> None:
        await press(pilot, "question_mark")
        await see(pilot, "Requeue", "Undo a latest change", "Mark or unmark", "Esc", "Tab ]")
        shown = text(app)
        assert all(f" {key} " in shown for key in "1234567890cml,ev/:!sptfwry?ARCPXEHMTBKLOUq")
        await press(pilot, "slash", *"REQUE")
        await until(pilot, lambda: "Requeue" in text(app) and "Mark or unmark" not in text(app))
        await press(pilot, "escape")
        assert len(app.screen_stack) == 1

    drive(url, body, size=(120, 34))

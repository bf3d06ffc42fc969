"""Each state of the dashboard says what it is: loading, empty, failed, forbidden, stale; on any
width."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest
from rich.cells import cell_len
from textual.pilot import Pilot

from redisq_ops.core.model.errors import Forbidden, Unreachable
from redisq_ops.ops.inspect.snapshot import Snapshot, Viewport
from redisq_ops.tui.app import Top
from redisq_ops.tui.frame import text
from redisq_ops.tui.poller import SnapshotSource

from .test_snapshots import NOW, Clock, Seeded, settled

pytestmark = pytest.mark.slow
WIDTHS = (60, 80, 120, 200)
Body = Callable[[Top, Pilot[Exception]], Awaitable[None]]


class Unanswered(Seeded):
    """A server that takes its time until ``answers`` is set."""

    def __init__(self) -> None:
        super().__init__()
        self.answers = asyncio.Event()

    async def look(self, viewport: Viewport) -> Snapshot:
        await self.answers.wait()
        return await super().look(viewport)


class Bare(Seeded):
    """A server without queues."""

    async def look(self, viewport: Viewport) -> Snapshot:
        return Snapshot(viewport, NOW)


def show(source: Callable[[], SnapshotSource], body: Body, width: int = 120) -> None:
    async def run() -> None:
        app = Top(source(), interval=3600, clock=Clock())
        async with app.run_test(size=(width, 24)) as pilot:
            await pilot.pause()
            await body(app, pilot)

    asyncio.run(run())


@pytest.mark.parametrize("width", WIDTHS)
def test_loading_it_says_so_and_the_first_picture_has_the_keys(width: int) -> None:
    async def body(app: Top, pilot: Pilot[Exception]) -> None:
        assert "Reading the queues …" in text(app)
        await pilot.press("5")
        await pilot.pause()
        assert "The queues have not been read yet." in text(app)
        assert isinstance(app.source, Unanswered)
        app.source.answers.set()
        await settled(app, pilot)
        assert "Reading" not in text(app) and "geo-import" in text(app)
        await pilot.press("j")
        await pilot.pause()
        assert app.current.table.identity == "mail"

    show(Unanswered, body, width)


@pytest.mark.parametrize("width", WIDTHS)
def test_without_queues_it_says_how_to_make_one(width: int) -> None:
    async def body(app: Top, pilot: Pilot[Exception]) -> None:
        await settled(app, pilot)
        assert "no queues here yet: redisq submit FILE makes one" in text(app)
        await pilot.press("5")
        await settled(app, pilot)
        assert "There is no queue here yet." in text(app)

    show(Bare, body, width)


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize(
    ("error", "hint"),
    [
        (Unreachable("can't reach the server: connection refused"), "tries again every 3600 s"),
        (Forbidden("the user 'eve' may not run HGETALL"), "redisq acl viewer"),
    ],
    ids=["error", "no permission"],
)
def test_without_an_answer_it_says_why_and_what_to_do(
    error: Exception, hint: str, width: int
) -> None:
    async def body(app: Top, pilot: Pilot[Exception]) -> None:
        source = app.source
        assert isinstance(source, Seeded)
        while app.problem is None:
            await pilot.pause()
        shown = " ".join(text(app).split())
        assert str(error) in shown and hint in shown and "Reading" not in shown
        source.broken = None
        await settled_after(app, pilot)
        assert "geo-import" in text(app) and hint not in text(app)

    def broken() -> Seeded:
        source = Seeded()
        source.broken = error
        return source

    show(broken, body, width)


async def settled_after(app: Top, pilot: Pilot[Exception]) -> None:
    app.poller.wake()
    while app.snapshot is None:
        await pilot.pause(0.01)
    await settled(app, pilot)


@pytest.mark.parametrize("width", WIDTHS)
def test_a_queue_that_may_not_be_read_does_not_hide_the_others(width: int) -> None:
    class Partly(Seeded):
        async def look(self, viewport: Viewport) -> Snapshot:
            found = await super().look(viewport)
            if viewport.view != "overview":
                return replace(found, problem="the user 'eve' may not read its keys", counts=None)
            rows = tuple(
                replace(row, counts=None, problem="the user 'eve' may not read its keys")
                if row.name == "billing"
                else row
                for row in found.overview
            )
            return replace(found, overview=rows)

    async def body(app: Top, pilot: Pilot[Exception]) -> None:
        await settled(app, pilot)
        lines = text(app).splitlines()
        first = next(line for at, line in enumerate(lines) if lines[at - 1].startswith("  queue"))
        assert first.split()[0] == "billing" and "the user 'eve'" in first
        assert "geo-import" in text(app)
        await pilot.press("5")
        await settled(app, pilot)
        assert "the user 'eve' may not read its keys" in text(app)

    show(Partly, body, width)


@pytest.mark.parametrize("width", WIDTHS)
def test_stale_it_keeps_the_picture_and_says_how_old_it_is(width: int) -> None:
    async def body(app: Top, pilot: Pilot[Exception]) -> None:
        await settled(app, pilot)
        source = app.source
        assert isinstance(source, Seeded) and isinstance(app.clock, Clock)
        source.broken = Unreachable("can't reach the server: connection refused")
        app.poller.wake()
        while app.problem is None:
            await pilot.pause()
        app.clock.now += 42
        app.tick()
        await pilot.pause()
        assert "stale 42s" in text(app).splitlines()[0]
        assert "can't reach the server" in text(app) and "geo-import" in text(app)

    show(Seeded, body, width)


@pytest.mark.parametrize("width", WIDTHS)
def test_every_view_fits_its_width(width: int) -> None:
    """Header and state are never cut, and no column is out of sight."""

    async def body(app: Top, pilot: Pilot[Exception]) -> None:
        await settled(app, pilot)
        app.current.table.go_to("mail")
        for key in "2345789l,1":
            await pilot.press("comma" if key == "," else key)
            await settled(app, pilot)
            lines = text(app).splitlines()
            assert max(map(cell_len, lines)) <= width
            assert "03:12:45 UTC" in lines[0]
            assert f" {key} " in lines[1], lines[1]
            cut = [line for line in lines[2:14] if line.endswith("▸")]
            assert not cut, "columns out of sight:\n" + "\n".join(lines)
            if app.current.table.identity is not None:
                reason = app.current.table.cut_text("trouble")  # a long one takes the whole line
                assert " of " in lines[-2] or lines[-2].strip()[:40] in reason, lines[-2]

    show(Seeded, body, width)


@pytest.mark.parametrize("opens", ["enter", "t"])
def test_what_is_not_read_yet_can_not_be_held(opens: str) -> None:
    """Not its queue either, which the key would mean for a thing that no view lists."""

    async def body(app: Top, pilot: Pilot[Exception]) -> None:
        source = app.source
        assert isinstance(source, Unanswered)
        source.answers.set()
        await settled(app, pilot)
        app.navigation.open_place("requests", "mail")
        await settled(app, pilot)
        source.answers.clear()
        await pilot.press(opens, "H")
        await pilot.pause()
        assert app.opened is not None
        assert app.why_unfit("hold", ()) == "it has not been read yet."
        source.answers.set()
        await settled(app, pilot)
        assert app.why_unfit("hold", ()) == ""

    show(Unanswered, body)


def test_the_cursor_is_not_pulled_back_by_rows_that_come_after_it_was_moved() -> None:
    async def body(app: Top, pilot: Pilot[Exception]) -> None:
        source = app.source
        assert isinstance(source, Unanswered)

        async def moved_before_an_answer(leave: str) -> None:
            source.answers.clear()
            await pilot.press(leave)
            await pilot.pause()
            left = app.current.table.identity
            await pilot.press("j")
            under = app.current.table.identity
            assert under is not None and under != left
            source.answers.set()
            await settled(app, pilot)
            assert app.current.table.identity == under

        source.answers.set()
        await settled(app, pilot)
        app.current.table.go_to("mail")
        await pilot.press("enter")
        await settled(app, pilot)
        await pilot.press("j", "j", "6")
        await settled(app, pilot)
        await moved_before_an_answer("less_than_sign")
        await moved_before_an_answer("escape")

    show(Unanswered, body)

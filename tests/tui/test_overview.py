"""The overview: queues that share their trouble are one row, the filter knows the columns, and the
header sums up only what is known."""

import asyncio
import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace

import pytest
from textual.pilot import Pilot

from redisq_ops.core.model.activity import Activity, ConsumerSign
from redisq_ops.core.model.entry import Counts
from redisq_ops.ops.inspect.overview import Evidence, QueueRow
from redisq_ops.ops.inspect.snapshot import ListedQueue, Snapshot, Viewport
from redisq_ops.tui.app import Top
from redisq_ops.tui.frame import strips, text
from redisq_ops.tui.views.judged_queue import JudgedQueue
from redisq_ops.tui.views.overview_sum import OverviewSum

from .test_snapshots import FEATURES, MINUTE, NOW, SECOND, Clock, Seeded, rates, settled

pytestmark = pytest.mark.slow

EMPTY = Counts(0, 0, 0, 0, 0, 9)
BUSY = Activity(NOW - SECOND, 1, None, 0, signs=(ConsumerSign("w-1", NOW - SECOND, beats=True),))


def stopped(name: str, minutes: int, waiting: int) -> QueueRow:
    """A queue whose workers are gone."""
    counts = Counts(waiting, 0, 0, 0, 0, 9, NOW - 20 * MINUTE)
    return QueueRow(name, "request", counts, rates(9), activity=Activity(NOW - minutes * MINUTE, 1))


def queue(name: str, counts: Counts = EMPTY, seen: Activity | None = BUSY) -> QueueRow:
    return QueueRow(name, "request", counts, rates(9), activity=seen, evidence=Evidence(tried=()))


FLEET = [stopped(f"order-{n}", 8 + n, 100 * n + 5) for n in range(4)]
ROWS = [queue("calm"), queue("failed", replace(EMPTY, dead=500)), *FLEET]


class Fleet(Seeded):
    def __init__(self, rows: Sequence[QueueRow] = ROWS) -> None:
        super().__init__()
        self.rows = rows

    async def look(self, viewport: Viewport) -> Snapshot:
        queues = tuple(ListedQueue(row.name, row.kind, FEATURES[row.kind]) for row in self.rows)
        overview = tuple(self.rows) if viewport.view == "overview" else ()
        return Snapshot(viewport, NOW, queues, overview=overview, counts=EMPTY)


Body = Callable[[Top, Fleet, Pilot[Exception]], Awaitable[None]]


def show(body: Body, rows: Sequence[QueueRow] = ROWS, size: tuple[int, int] = (160, 24)) -> None:
    async def run() -> None:
        source = Fleet(rows)
        app = Top(source, interval=3600, clock=Clock())
        async with app.run_test(size=size) as pilot:
            await settled(app, pilot)
            await body(app, source, pilot)

    asyncio.run(run())


async def press(app: Top, pilot: Pilot[Exception], *keys: str) -> None:
    for key in keys:
        await pilot.press(key)
        await settled(app, pilot)


def listed(app: Top) -> list[str]:
    """The first column; of an empty list its text."""
    lines = text(app).splitlines()[3 : 3 + max(1, app.current.table.total)]
    return [re.split(r"(?<=\S)  ", line[2:])[0] for line in lines]


def status(app: Top) -> str:
    return text(app).splitlines()[-2].strip()


SHUT = ["▸ 4 queues", "failed", "calm"]
OPEN = ["▾ 4 queues", *(f"  order-{n}" for n in (3, 2, 1, 0)), "failed", "calm"]


def test_an_outage_of_many_queues_is_one_row_that_unfolds() -> None:
    async def body(app: Top, source: Fleet, pilot: Pilot[Exception]) -> None:
        assert listed(app) == SHUT
        row = text(app).splitlines()[3]
        assert "!! no worker for 8 to 11 m" in row
        assert row.split("m  ")[1].split()[:4] == ["620", "0", "0", "0"]
        assert "5 in trouble (!)" in text(app) and "4 queues are in 1 row" in status(app)
        await press(app, pilot, "right")
        assert listed(app) == OPEN and "new" not in status(app)
        source.rows = [*ROWS[:-1], stopped("order-3", 12, 999)]
        await press(app, pilot, "j")
        assert app.current.table.identity == "order-3" and "8 to 12 m" in text(app)
        await press(app, pilot, "exclamation_mark")
        assert listed(app) == OPEN[:-1]
        await press(app, pilot, "exclamation_mark", "s", "r")
        assert listed(app)[:2] == ["▾ 4 queues", "  order-3"]  # by name, backwards
        await press(app, pilot, "j", "left")
        assert listed(app)[0] == "▸ 4 queues" and app.current.stands_for == "4 queues"
        await press(app, pilot, "enter")
        assert listed(app)[0] == "▾ 4 queues"
        await press(app, pilot, "enter", "left")
        assert listed(app)[0] == "▸ 4 queues"

    show(body)


@pytest.mark.parametrize("key", ["space", "t", "5", "w", "o", "H"])
def test_a_folded_row_says_why_nothing_can_be_done_with_it(key: str) -> None:
    async def body(app: Top, source: Fleet, pilot: Pilot[Exception]) -> None:
        await press(app, pilot, key)
        await pilot.pause()
        why = "This row stands for 4 queues: Enter shows them."
        assert why in status(app) or why in [note.message for note in app._notifications]
        assert app.view == "overview" and not app.current.table.marks
        assert len(app.screen_stack) == 1 and not app.command.display
        assert app.addresses.rows == () and app.addresses.queue is None

    show(body)


def test_a_fold_never_hides_the_row_under_the_cursor() -> None:
    async def body(app: Top, source: Fleet, pilot: Pilot[Exception]) -> None:
        assert listed(app) == ["order-1", "order-0", "calm"]
        await press(app, pilot, "j")
        source.rows = [*rows, *FLEET[2:]]
        await press(app, pilot, "p", "p")
        assert listed(app) == [*OPEN[:5], "calm"]
        assert app.current.table.identity == "order-0" and not app.current.table.cursor_lost

    rows = [ROWS[0], *FLEET[:2]]
    show(body, rows)


def test_marks_in_a_fold_stay() -> None:
    async def body(app: Top, source: Fleet, pilot: Pilot[Exception]) -> None:
        await press(app, pilot, "right", "j", "space", "left")
        assert listed(app) == SHUT and "1 marked" in status(app)
        assert app.addresses.rows == ("order-3",)  # what is marked, wherever the cursor is

    show(body)


def test_esc_leads_back_to_a_queue_in_a_fold() -> None:
    async def body(app: Top, source: Fleet, pilot: Pilot[Exception]) -> None:
        await press(app, pilot, "colon", *"go", "escape")
        app.navigation.open_place("dead", "order-2")
        await settled(app, pilot)
        await press(app, pilot, "escape")
        assert app.current.table.identity == "order-2" and listed(app) == OPEN

    show(body)


def test_the_sums_of_a_fold_are_at_least_its_known_numbers() -> None:
    unknown = replace(FLEET[0].counts or EMPTY, unknown=frozenset({"dead", "delayed"}))
    rows = [replace(FLEET[0], counts=unknown), *FLEET[1:3]]
    some = replace(FLEET[1].counts or EMPTY, dead=0, unknown=frozenset({"delayed"}))
    rows = [replace(row, counts=replace(some, dead=n), rates=None) for n, row in enumerate(rows)]
    rows[0] = replace(rows[0], counts=unknown)

    async def body(app: Top, source: Fleet, pilot: Pilot[Exception]) -> None:
        item = app.current.item
        assert [item.of(state) for state in ("delayed", "dead")] == [None, 3]
        assert item.minute is None and item.row.rates is None
        assert "≥3" in text(app).splitlines()[3], "of the third queue the number is unknown"
        assert "≥3 dead" in text(app).splitlines()[0]

    show(body, rows)


def test_the_filter_compares_columns_and_lists_the_queues_of_a_fold() -> None:
    async def body(app: Top, source: Fleet, pilot: Pilot[Exception]) -> None:
        await press(app, pilot, "slash")
        assert "dead>0  kind=rq" in text(app)
        await press(app, pilot, *"waiting>=200")
        assert listed(app) == ["order-3", "order-2"] and "in 2 of 6" in status(app)
        await press(app, pilot, *" dead")
        assert listed(app)[0].startswith("nothing matches")
        await press(app, pilot, "greater_than_sign")
        assert listed(app) == ["order-3", "order-2"]  # by the conditions before the invalid one
        assert "a value is missing" in status(app)
        await press(app, pilot, "escape")
        assert listed(app) == OPEN and app.current.table.identity == "order-3"  # it keeps the row

    show(body)


@pytest.mark.parametrize(
    ("expression", "said"),
    [
        ("calm|unseen", "none of the 2 queues that match is in trouble"),
        ("calm", "none of the 1 queue that matches is in trouble"),
        ("dead>9999", "nothing matches /dead>9999/: 3 looked at"),
        (None, "none of the 3 queues is in trouble"),
    ],
)
def test_only_trouble_counts_what_the_filter_leaves(expression: str | None, said: str) -> None:
    async def body(app: Top, source: Fleet, pilot: Pilot[Exception]) -> None:
        view = app.current
        view.narrow(view.parsed(expression, utc=True) if expression else None)
        await press(app, pilot, "exclamation_mark")
        assert said in text(app)

    show(body, [queue("calm"), queue("unseen"), queue("other")])


def test_a_click_on_the_headers_trouble_does_what_its_key_does() -> None:
    async def body(app: Top, source: Fleet, pilot: Pilot[Exception]) -> None:
        header = text(app).splitlines()[0]
        await pilot.click(app.bars.banner, offset=(header.index("in trouble"), 0))
        await settled(app, pilot)
        assert "calm" not in text(app)
        await pilot.click(app.bars.banner, offset=(header.index("500 dead"), 0))
        await settled(app, pilot)
        assert "calm" not in text(app)

    show(body)


# --- the header ------------------------------------------------------------------------------


def summed(*rows: QueueRow) -> OverviewSum:
    return OverviewSum.of([JudgedQueue(row, (), None) for row in rows], NOW)


def worked(*workers: str, ago: int = SECOND) -> Activity:
    signs = tuple(ConsumerSign(name, NOW - ago, beats=True) for name in workers)
    return Activity(NOW - ago, len(workers), None, 0, signs=signs)


SIDEKIQ = Activity(NOW, 3, registered=True, signs=())


@pytest.mark.parametrize(
    ("seen", "words"),
    [
        ([worked("a", "b"), worked("b", "c")], ["3 workers"]),
        ([worked("a"), worked("b", ago=2 * MINUTE)], ["1 worker"]),
        ([worked(), worked("b", ago=2 * MINUTE)], ["no worker"]),
        ([worked("a"), Activity()], ["≥1 worker"]),
        ([worked(), Activity()], []),
        ([worked(), None], []),
        ([SIDEKIQ, worked("a")], ["4 workers"]),
        ([SIDEKIQ, SIDEKIQ], ["≥3 workers"]),
        ([], []),
    ],
)
def test_workers_are_counted_once_and_only_where_they_are_known(
    seen: list[Activity | None], words: list[str]
) -> None:
    assert summed(*(queue("q", seen=one) for one in seen)).words == words


@pytest.mark.parametrize(
    ("row", "sound"),
    [
        (queue("q"), True),
        (QueueRow("q", "request", None, None), False),  # not read yet
        (queue("q", replace(EMPTY, unknown=frozenset({"dead"}))), False),
        (replace(queue("q", replace(EMPTY, pending=1)), evidence=None), False),  # held by whom?
        (queue("q", replace(EMPTY, waiting=1), Activity(signs=())), False),  # does anybody ask?
        (queue("q", EMPTY, Activity()), True),
    ],
)
def test_no_trouble_is_said_only_of_queues_that_could_be_judged(row: QueueRow, sound: bool) -> None:
    assert summed(queue("other"), row).sound is sound

    async def body(app: Top, source: Fleet, pilot: Pilot[Exception]) -> None:
        header = text(app).splitlines()[0]
        assert ("no trouble known" in header) is not sound and "no trouble" in header

    show(body, [row])


def test_no_queue_is_not_known_to_be_out_of_trouble() -> None:
    # Queues of other programs, which nobody registered, may be on the server.
    assert not summed().sound


# --- looks -----------------------------------------------------------------------------------


@pytest.mark.parametrize("theme", ["dark", "high-contrast", "ansi"])
def test_severity_and_magnitude_hold_without_colours(
    theme: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")

    def look(app: Top, words: str) -> tuple[bool, float]:
        """Whether a text is bold, and how bright it is."""
        parts = (part for strip in strips(app) for part in strip)
        style = next(part.style for part in parts if part.text.strip() == words)
        assert style is not None
        color = style.color.triplet if style.color else None
        return bool(style.bold), color.red if color else 0

    async def body(app: Top, source: Fleet, pilot: Pilot[Exception]) -> None:
        app.theme = theme
        await press(app, pilot, "G")
        critical, warning = look(app, "!! 1,000,000 dead"), look(app, "!  1 dead")
        assert critical[0] and not warning[0] and critical[1] >= warning[1]
        assert look(app, "1.0M")[0] and not look(app, "1")[0]

    dead = [queue("many", replace(EMPTY, dead=1_000_000)), queue("one", replace(EMPTY, dead=1))]
    show(body, [*dead, queue("calm")])


@pytest.mark.parametrize(("width", "charts"), [(100, 0), (160, 2), (220, 4)])
def test_small_charts_take_only_room_that_reasons_leave(width: int, charts: int) -> None:
    async def body(app: Top, source: Fleet, pilot: Pilot[Exception]) -> None:
        lines = text(app).splitlines()
        assert lines[2].count(", 1 h") == charts
        long = [queue("long", replace(EMPTY, paused="x" * 90)), *source.rows]
        source.rows = long
        await press(app, pilot, "j")
        if width == 220:
            assert "x" * 90 in text(app) and text(app).splitlines()[2].count(", 1 h") == 1

    show(body, size=(width, 24))


@pytest.mark.parametrize("width", [80, 100])
def test_every_tab_has_a_word(width: int) -> None:
    async def body(app: Top, pilot: Pilot[Exception]) -> None:
        for key in ("5", "l", "v"):
            await pilot.press(key)
            await settled(app, pilot)
            words = text(app).splitlines()[1].split()
            number = {"24", "88", "1.2K", "12"}
            names = [word for word in words if word not in number]
            assert all(len(name) > 2 for name in names[1::2]) and names[::2][-1] == "?"
            assert key in names[::2] and {"1", "4", "5", "6"} <= set(names[::2])

    async def run() -> None:
        app = Top(Seeded(), interval=3600, clock=Clock())
        async with app.run_test(size=(width, 24)) as pilot:
            await settled(app, pilot)
            app.current.table.go_to("mail")
            await body(app, pilot)

    asyncio.run(run())

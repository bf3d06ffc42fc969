"""The table: the cursor holds on to its entry, rows are asked for in bounded pieces."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from rich.cells import cell_len
from textual.app import App, ComposeResult
from textual.pilot import Pilot
from textual.strip import Strip

from redisq_ops.tui.table.table import PagedTable
from redisq_ops.tui.table.table_model import RowWindow, TableColumn, TableRow, fit
from redisq_ops.tui.theme import DARK

COLUMNS = (
    TableColumn("id", "entry", 10),
    TableColumn("note", "note", 12, flex=1),
    TableColumn("age", "age", 6, align="right", priority=2),
    TableColumn("state", "state", 8, priority=1),
)
OSC_52 = "\x1b]52;c;aGFja2Vk\x07"


def row(name: object, note: str = "fine") -> TableRow:
    return TableRow(str(name), (str(name), note, "12s", ("waiting", "green")))


def rows(start: int, end: int) -> tuple[TableRow, ...]:
    return tuple(row(f"e{index}") for index in range(start, end))


class Table(PagedTable):
    """Writes down which lines were painted."""

    def __init__(self) -> None:
        super().__init__(COLUMNS, empty="no entries")
        self.painted: list[int] = []

    def render_line(self, y: int) -> Strip:
        self.painted.append(y)
        return super().render_line(y)

    def text(self, y: int) -> str:
        return super().render_line(y).text

    def screen_text(self) -> list[str]:
        return [self.text(y) for y in range(self.size.height)]


class Bench(App[None]):
    """A table, and an owner that answers each question from a list of ``total`` rows."""

    def __init__(self, total: int = 0, answers: bool = True, short_by: int = 0) -> None:
        super().__init__()
        self.animation_level = "none"
        self.total = total
        self.answers = answers
        self.short_by = short_by
        self.asked: list[tuple[int, int]] = []
        self.said: list[tuple[str, object]] = []

    def compose(self) -> ComposeResult:
        yield Table()

    def on_mount(self) -> None:
        self.register_theme(DARK)
        self.theme = DARK.name
        self.table.focus()

    @property
    def table(self) -> Table:
        return self.query_one(Table)

    def on_paged_table_wanted(self, wanted: PagedTable.Wanted) -> None:
        self.asked.append((wanted.start, wanted.end))
        if self.answers:
            end = min(wanted.end, self.total) - self.short_by
            self.table.show(RowWindow(wanted.start, self.total, rows(wanted.start, end)))

    def on_paged_table_moved(self, moved: PagedTable.Moved) -> None:
        self.said.append(("moved", moved.identity))

    def on_paged_table_opened(self, opened: PagedTable.Opened) -> None:
        self.said.append(("opened", opened.identity))

    def on_paged_table_marked(self, marked: PagedTable.Marked) -> None:
        self.said.append(("marked", marked.marks))


def run(
    check: Callable[[Bench, Pilot[None]], Awaitable[None]],
    bench: Bench,
    size: tuple[int, int] = (60, 12),
) -> None:
    async def body() -> None:
        async with bench.run_test(size=size) as pilot:
            await pilot.pause()
            await check(bench, pilot)

    asyncio.run(body())


def test_the_cursor_stays_on_its_entry_while_the_list_moves() -> None:
    async def check(bench: Bench, pilot: Pilot[None]) -> None:
        table = bench.table
        table.show(RowWindow(0, 20, rows(0, 20)))
        await pilot.press("j", "j", "j")
        assert (table.identity, table.cursor) == ("e3", 3)
        bench.said.clear()

        table.show(RowWindow(0, 22, (row("new1"), row("new2"), *rows(0, 20))))
        await pilot.pause()
        assert (table.identity, table.cursor, table.cursor_lost) == ("e3", 5, False)
        assert table.text(6).strip().startswith("e3")

        table.show(RowWindow(0, 18, rows(2, 20)))
        await pilot.pause()
        assert (table.identity, table.cursor) == ("e3", 1)
        assert bench.said == []

    run(check, Bench(answers=False))


def test_the_view_follows_a_cursor_that_is_pushed_out_of_it() -> None:
    async def check(bench: Bench, pilot: Pilot[None]) -> None:
        table = bench.table
        table.show(RowWindow(0, 40, rows(0, 40)))
        await pilot.press("space", "space")
        table.show(RowWindow(0, 60, (*rows(100, 120), *rows(0, 40))))
        await pilot.pause()
        assert (table.identity, table.cursor) == ("e0", 20)
        assert any(line.strip().startswith("e0 ") for line in table.screen_text())

    run(check, Bench(answers=False))


def test_the_cursor_follows_the_top_until_it_is_moved() -> None:
    async def check(bench: Bench, pilot: Pilot[None]) -> None:
        table = bench.table
        table.show(RowWindow(0, 20, rows(0, 20)))
        table.show(RowWindow(0, 23, (*rows(100, 103), *rows(0, 20))))
        assert (table.identity, table.cursor, table.new) == ("e100", 0, 0)
        await pilot.press("j")
        table.show(RowWindow(0, 60, (*rows(200, 237), *rows(100, 103), *rows(0, 20))))
        assert (table.identity, table.cursor, table.new) == ("e101", 38, 37)
        # One that came at the end, and others that went, change nothing about those 37.
        table.show(RowWindow(0, 58, (*rows(200, 237), *rows(101, 103), *rows(2, 21))))
        assert (table.identity, table.new) == ("e101", 38)
        # Of a list that isn't loaded as a whole: those above the cursor.
        table.show(RowWindow(10, 900, (*rows(210, 237), *rows(101, 103), *rows(2, 21))))
        table.show(RowWindow(15, 905, (*rows(210, 237), *rows(101, 103), *rows(2, 21))))
        assert (table.identity, table.new) == ("e101", 43)
        await pilot.press("g")
        table.show(RowWindow(0, 21, (row("newest"), *rows(0, 20))))
        assert (table.identity, table.new) == ("newest", 0)

    run(check, Bench(answers=False))


def test_an_entry_that_went_leaves_nothing_selected_until_the_cursor_moves() -> None:
    async def check(bench: Bench, pilot: Pilot[None]) -> None:
        table = bench.table
        table.show(RowWindow(0, 5, rows(0, 5)))
        await pilot.press("j", "j")
        bench.said.clear()

        table.show(RowWindow(0, 4, (*rows(0, 2), *rows(3, 5))))
        await pilot.press("enter", "space")
        await pilot.pause()
        assert (table.identity, table.cursor, table.cursor_lost) == (None, 2, True)
        assert bench.said == [("moved", None)]
        # No sign beside e3, which is in its place.
        assert (table.gone, table.text(3)[:4]) == ("e2", "  e3")

        table.show(RowWindow(0, 5, rows(0, 5)))
        assert (table.identity, table.cursor_lost) == ("e2", False)
        table.show(RowWindow(0, 4, (*rows(0, 2), *rows(3, 5))))
        await pilot.press("j", "enter")
        await pilot.pause()
        assert (table.identity, table.cursor_lost) == ("e4", False)
        assert bench.said[-1] == ("opened", "e4")

    run(check, Bench(answers=False))


def test_a_list_that_shrinks_below_the_cursor_takes_it_along() -> None:
    async def check(bench: Bench, pilot: Pilot[None]) -> None:
        table = bench.table
        table.show(RowWindow(0, 100, rows(0, 100)))
        await pilot.press("G")
        assert table.identity == "e99"
        table.show(RowWindow(0, 3, rows(0, 3)))
        await pilot.pause()
        assert (table.cursor, table.cursor_lost, table.scroll_offset.y) == (2, True, 0)
        assert table.text(1).strip().startswith("e0")
        table.show(RowWindow(0, 0, ()))
        await pilot.pause()
        assert table.identity is None
        assert (table.cursor, table.position) == (0, "")
        assert table.text(1).strip() == "no entries"
        table.show(RowWindow(0, 2, (row("new"), row("newer"))))
        assert (table.identity, table.cursor_lost) == ("new", False)
        table.show(RowWindow(0, 0, ()))
        await pilot.press("j", "k", "G", "pagedown", "space", "enter")
        assert (table.cursor, table.marks) == (0, frozenset())

    run(check, Bench(answers=False))


def test_the_wheel_goes_on_from_the_end_of_a_list_that_shrank() -> None:
    async def check(bench: Bench, pilot: Pilot[None]) -> None:
        table = bench.table
        table.show(RowWindow(0, 100, rows(0, 100)))
        await pilot.press("G")
        table.show(RowWindow(0, 20, rows(0, 20)))
        table.scroll_up(animate=False)
        await pilot.pause()
        assert table.scroll_offset.y == 20 - 11 - 1

    run(check, Bench(answers=False))


def test_a_cursor_outside_the_window_is_not_lost() -> None:
    async def check(bench: Bench, pilot: Pilot[None]) -> None:
        table = bench.table
        await pilot.press("j")
        table.scroll_to(y=5000, animate=False)
        await pilot.pause()
        assert (table.identity, table.cursor_lost) == ("e1", False)
        await pilot.press("j")
        await pilot.pause()
        assert table.identity == "e2"
        assert table.scroll_offset.y <= 2

    run(check, Bench(10_000))


def test_ten_million_rows_open_and_jump_to_the_end_with_a_few_screens_of_rows() -> None:
    async def check(bench: Bench, pilot: Pilot[None]) -> None:
        table, page = bench.table, 11
        await pilot.press("G")
        await pilot.pause()
        assert table.identity == "e9999999"
        assert table.text(page).strip().startswith("e9999999")
        assert table.position == "10,000,000 of 10,000,000"
        await pilot.press("g")
        await pilot.pause()
        assert table.identity == "e0"
        assert len(bench.asked) == 3
        assert all(0 < end - start <= 4 * page for start, end in bench.asked)

    run(check, Bench(10_000_000))


def test_what_is_asked_for_covers_the_screen_and_a_page_around_it() -> None:
    async def check(bench: Bench, pilot: Pilot[None]) -> None:
        table, page = bench.table, 11
        for top in (0, 1, 10, 11, 500, 777, 989):
            table.scroll_to(y=top, animate=False)
            await pilot.pause()
            start, end = table.wanted
            assert max(0, top - page) >= start >= 0
            assert top + 2 * page <= end <= start + 4 * page
            assert "…" not in "".join(table.screen_text())
        assert len(bench.asked) <= 6

    run(check, Bench(1000))


@pytest.mark.slow
def test_scrolling_by_a_line_does_not_ask_at_every_line() -> None:
    async def check(bench: Bench, pilot: Pilot[None]) -> None:
        await pilot.press(*"j" * 25)
        assert bench.table.identity == "e25"
        assert bench.asked == [(0, 22), (0, 33), (0, 44)]

    run(check, Bench(1000))


def test_an_answer_with_too_few_rows_is_not_asked_for_again_and_again() -> None:
    async def check(bench: Bench, pilot: Pilot[None]) -> None:
        for _ in range(5):
            await pilot.pause()
        assert bench.asked == [(0, 22)]
        assert bench.table.text(11).strip() == "…"

    run(check, Bench(20, short_by=15))


def test_rows_that_went_missing_are_asked_for_again() -> None:
    async def check(bench: Bench, pilot: Pilot[None]) -> None:
        bench.table.show(RowWindow(400, 500, rows(400, 420)))
        await pilot.pause()
        assert bench.asked == [(0, 22), (0, 22)]
        assert bench.table.text(1).strip().startswith("e0")

    run(check, Bench(500))


def test_a_table_filled_before_it_is_laid_out_asks_once_it_knows_its_height() -> None:
    class Early(Bench):
        def compose(self) -> ComposeResult:
            table = Table()
            table.show(RowWindow(0, 500, rows(0, 5)))
            yield table

    async def check(bench: Bench, pilot: Pilot[None]) -> None:
        assert bench.asked == [(0, 22)]
        assert bench.table.identity == "e0"

    run(check, Early(500))


def test_a_table_that_is_not_displayed_keeps_its_place() -> None:
    async def check(bench: Bench, pilot: Pilot[None]) -> None:
        table = bench.table
        await pilot.press("space", "space")
        table.display = False
        await pilot.pause()
        table.show(RowWindow(0, 501, (row("new"), *rows(0, 30))))
        await pilot.pause()
        table.display = True
        await pilot.pause()
        assert (table.identity, table.cursor, table.scroll_offset.y) == ("e0", 1, 0)
        assert [line.split()[0] for line in table.screen_text()[1:4]] == ["new", "e0", "e1"]

    run(check, Bench(500))


def test_without_the_focus_the_cursor_looks_different(drawing: None) -> None:
    async def check(bench: Bench, pilot: Pilot[None]) -> None:
        table = bench.table
        await pilot.pause()
        focused = {segment.style for segment in table.render_line(1)}
        table.painted.clear()
        bench.screen.set_focus(None)
        await pilot.pause()
        assert 1 in table.painted
        assert focused.isdisjoint({segment.style for segment in table.render_line(1)})

    run(check, Bench(100))


def test_rows_that_are_not_there_yet_are_dots_and_the_cursor_takes_the_row_that_comes() -> None:
    async def check(bench: Bench, pilot: Pilot[None]) -> None:
        table = bench.table
        table.show(RowWindow(0, 500, rows(0, 50)))
        await pilot.press("G", "enter", "space")
        await pilot.pause()
        assert table.identity is None
        assert {line.strip() for line in table.screen_text()[1:]} == {"…"}
        bench.said.clear()
        table.show(RowWindow(450, 500, rows(450, 500)))
        await pilot.pause()
        assert table.identity == "e499"
        assert bench.said == [("moved", "e499")]
        assert table.marks == frozenset()

    run(check, Bench(answers=False))


@pytest.mark.slow
def test_marks_belong_to_entries_and_outlive_their_window() -> None:
    async def check(bench: Bench, pilot: Pilot[None]) -> None:
        table = bench.table
        await pilot.press("j", "space", "j", "j", "space")
        await pilot.pause()
        assert table.marks == {"e1", "e3"}
        assert [line[0] for line in table.screen_text()[1:6]] == [" ", "●", " ", "●", " "]
        await pilot.press("G", "g", "j", "space")
        await pilot.pause()
        assert table.marks == {"e3"}
        table.show(RowWindow(0, 1001, (row("new"), *rows(0, 40))))
        assert [line[0] for line in table.screen_text()[1:7]] == [" ", " ", " ", " ", "●", " "]
        assert ("marked", frozenset({"e1", "e3"})) in bench.said

        table.clear()
        await pilot.pause()
        assert (table.marks, table.identity, table.cursor) == (frozenset(), "e0", 0)

    run(check, Bench(1000))


def test_markup_and_escape_sequences_are_shown_not_obeyed() -> None:
    async def check(bench: Bench, pilot: Pilot[None]) -> None:
        table = bench.table
        table.show(RowWindow(0, 2, (row("a", "[red]x[/red]"), row("b", f"{OSC_52}\n\u202etxt"))))
        await pilot.pause()
        assert "[red]x[/red]" in table.text(1)
        assert r"\x1b]52;c;aGFja2Vk\x07⏎\u202etxt" in table.text(2)
        assert all(line.isprintable() for line in table.screen_text())

    run(check, Bench(answers=False), size=(100, 12))


def test_columns_stay_in_line_behind_wide_characters() -> None:
    async def check(bench: Bench, pilot: Pilot[None]) -> None:
        table = bench.table
        notes = ("plain", "日本語", "日本語" * 20, "e\u0301" * 5, "🙂", "x" * 500, "")
        table.show(RowWindow(0, len(notes), tuple(map(row, "abcdefg", notes))))
        await pilot.pause()
        lines = table.screen_text()
        assert {cell_len(line) for line in lines} == {59}
        before = {cell_len(line[: line.index("waiting")]) for line in lines[1 : len(notes) + 1]}
        assert before == {cell_len(lines[0][: lines[0].index("state")])}

    run(check, Bench(answers=False))


@pytest.mark.slow
def test_a_terminal_of_16_by_5_works() -> None:
    async def check(bench: Bench, pilot: Pilot[None]) -> None:
        table = bench.table
        await pilot.press("j", "G", "pageup", "space", "enter")
        await pilot.pause()
        assert table.identity == "e95"
        assert table.text(0).rstrip().endswith("▸")
        assert "state" not in table.text(0)
        await pilot.press("right", "ctrl+pagedown")
        await pilot.pause()
        assert "note" in table.text(0)
        assert table.text(0).startswith("◂")
        assert {cell_len(line) for line in table.screen_text()} == {15}
        await pilot.resize_terminal(2, 1)
        await pilot.press("j", "k", "G", "g")
        await pilot.resize_terminal(100, 30)
        await pilot.pause()
        assert "state" in table.text(0)
        assert table.identity == "e0"
        await pilot.press("G")
        await pilot.resize_terminal(100, 12)
        await pilot.pause()
        assert table.identity == "e99" and "e99" in table.in_sight

    run(check, Bench(100), size=(16, 5))


def test_only_lines_that_changed_are_painted(drawing: None) -> None:
    async def check(bench: Bench, pilot: Pilot[None]) -> None:
        table = bench.table
        before = rows(0, 20)
        table.show(RowWindow(0, 20, before))
        await pilot.pause()

        table.painted.clear()
        table.show(RowWindow(0, 20, rows(0, 20)))
        await pilot.pause()
        assert table.painted == []

        table.show(RowWindow(0, 21, (*before[:4], row("e4", "late"), *before[5:], row("e20"))))
        await pilot.pause()
        assert table.painted == [5]
        assert "late" in table.text(5)

        table.painted.clear()
        await pilot.press("j")
        assert sorted(set(table.painted)) == [1, 2]

    run(check, Bench(answers=False))


def test_another_theme_repaints_every_line() -> None:
    async def check(bench: Bench, pilot: Pilot[None]) -> None:
        table = bench.table
        await pilot.pause()
        dark = {segment.style for segment in table.render_line(3)}
        bench.theme = "textual-light"
        await pilot.pause()
        assert dark.isdisjoint({segment.style for segment in table.render_line(3)})

    run(check, Bench(100))


def test_the_header_says_what_orders_the_rows_and_whether_all_of_them() -> None:
    async def check(bench: Bench, pilot: Pilot[None]) -> None:
        table = bench.table
        table.sorted_by("age")
        assert "age ▲" in table.text(0)
        assert "(loaded)" not in table.text(0)
        table.sorted_by("age", descending=True, exact=False)
        assert "age ▼ (loaded)" in table.text(0)
        table.sorted_by("state")
        assert "state ▲" in table.text(0)
        assert "▼" not in table.text(0)

    run(check, Bench(100), size=(80, 12))


def test_a_guessed_total_is_said_to_be_one() -> None:
    async def check(bench: Bench, pilot: Pilot[None]) -> None:
        bench.table.show(RowWindow(0, 12_345, rows(0, 50), False, "≥12,345"))
        assert bench.table.position == "1 of ≥12,345"

    run(check, Bench(answers=False))


def test_a_click_selects_and_a_double_click_opens() -> None:
    async def check(bench: Bench, pilot: Pilot[None]) -> None:
        await pilot.click(Table, offset=(5, 4))
        assert bench.table.identity == "e3"
        assert ("opened", "e3") not in bench.said
        await pilot.double_click(Table, offset=(5, 6))
        await pilot.pause()
        assert bench.said[-1] == ("opened", "e5")
        await pilot.click(Table, offset=(5, 0))
        assert bench.table.identity == "e5"

    run(check, Bench(100))


def test_every_key_says_what_it_does() -> None:
    async def check(bench: Bench, pilot: Pilot[None]) -> None:
        bindings = {key: active.binding for key, active in bench.screen.active_bindings.items()}
        keys = {"j", "k", "up", "down", "g", "G", "home", "end", "pageup", "pagedown", "enter"}
        assert keys | {"space"} <= set(bindings)
        assert all(bindings[key].description for key in keys | {"space"})

    run(check, Bench(100))


def test_columns_of_low_priority_go_first_and_spare_width_is_shared() -> None:
    titles = [column.title for column in COLUMNS]

    def kept(width: int) -> list[str]:
        return [titles[index] for index, _ in fit(COLUMNS, width)]

    assert kept(44) == ["entry", "note", "age", "state"]
    assert kept(43) == ["entry", "note", "state"]
    assert kept(36) == ["entry", "note", "state"]
    assert kept(35) == ["entry", "note"]
    assert kept(0) == ["entry", "note"]
    assert dict(fit(COLUMNS, 80)) == {0: 10, 1: 48, 2: 6, 3: 8}
    thirds = tuple(TableColumn(key, key, 5, flex=1) for key in "abc")
    assert sum(width for _, width in fit(thirds, 100)) == 100 - 2 - 2 * 2


def test_no_column_is_wider_than_its_texts_nor_narrower_than_it_was() -> None:
    async def check(bench: Bench, pilot: Pilot[None]) -> None:
        table = bench.table
        table.show(RowWindow(0, 1, (row("e1", "out of order"),)))
        await pilot.pause()
        assert "e1          out of order     12s  waiting" in table.text(1)

        table.show(RowWindow(0, 1, (row("e1", "out of order since noon"),)))
        await pilot.pause()
        assert "e1          out of order since noon     12s  waiting" in table.text(1)
        table.show(RowWindow(0, 1, (row("e1", "fine"),)))
        await pilot.pause()
        assert f"fine{' ' * 19}     12s" in table.text(1)

    run(check, Bench(answers=False))
    shared = (TableColumn("id", "entry", 30, flex=1), TableColumn("error", "error", 20, flex=6))
    assert dict(fit(shared, 80, {"id": 21, "error": 90})) == {0: 21, 1: 55}

"""A table of any length that draws only what is on the screen.

It fetches no rows itself. Its owner reads `PagedTable.wanted` at every poll, and at once after the
message `PagedTable.Wanted`, and passes the rows to `PagedTable.show`. Memory and time depend on the
height of the terminal, not on the number of rows.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import groupby
from typing import ClassVar, Final, Literal

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual.binding import Binding, BindingType
from textual.events import Click, Resize
from textual.geometry import Region, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from redisq_ops.ops.terminal import ELLIPSIS, count, printable
from redisq_ops.tui.table.table_cursor import RowCursor
from redisq_ops.tui.table.table_model import (
    GAP,
    GUTTER,
    RowWindow,
    TableColumn,
    TableRow,
    fit,
    styled,
)
from redisq_ops.tui.theme import DIM

_LONGEST: Final = 240
"""cells of the widest text for which a column gets room"""
_PLAIN: Final = Style()


@dataclass(frozen=True, slots=True)
class _DrawnLine:
    """Everything a drawn line depends on: an equal line needs no repaint."""

    row: TableRow | None = None
    text: str = ""
    cursor: str = ""
    marked: bool = False


class PagedTable(ScrollView, can_focus=True):
    """A table over a window of rows; cursor and marks stay on their entries when rows move."""

    HELP = """
    ## Table

    The cursor stays on its entry while the list moves. If that goes away, the status line names it
    behind `✗`, and nothing is selected until the cursor moves. Marks stay on entries that are out
    of sight.
    """
    ALLOW_SELECT = False
    COMPONENT_CLASSES: ClassVar[set[str]] = {
        "paged-table--header",
        "paged-table--cursor",
        "paged-table--cursor-blurred",
        "paged-table--cursor-lost",
        "paged-table--mark",
    }
    # A horizontal bar would take one line of a small terminal: the header shows ◂ and ▸ instead.
    # The vertical one is always there, because the width would change with it otherwise.
    DEFAULT_CSS = """
    PagedTable {
        overflow-x: auto;
        overflow-y: scroll;
        scrollbar-size: 0 1;
        & > .paged-table--header { background: $panel; text-style: bold; }
        & > .paged-table--cursor { background: $primary-muted; text-style: bold; }
        & > .paged-table--cursor-blurred { background: $panel; }
        & > .paged-table--cursor-lost { background: $panel; text-style: italic; }
        & > .paged-table--mark { color: $warning; text-style: bold; }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("j,down", "move(1)", "Down", show=False),
        Binding("k,up", "move(-1)", "Up", show=False),
        Binding("pagedown", "page(1)", "Page down", show=False),
        Binding("pageup", "page(-1)", "Page up", show=False),
        Binding("g,home", "first", "First", show=False),
        Binding("G,end", "last", "Last", show=False),
        Binding("space", "mark", "Mark", show=False, tooltip="Mark or unmark this entry"),
        Binding("enter", "open", "Open", show=False, tooltip="Show this entry"),
        Binding("right", "fold(False)", "Unfold", show=False, tooltip="Unfold this row"),
        Binding("left", "fold(True)", "Fold", show=False, tooltip="Fold these rows"),
    ]

    @dataclass(eq=False)
    class _TableMessage(Message):
        table: "PagedTable"

        @property
        def control(self) -> "PagedTable":
            return self.table

    class _LatestOnly(_TableMessage):
        """Replaces an earlier message of its class that is still in the queue."""

        def can_replace(self, message: Message) -> bool:
            return isinstance(message, type(self)) and message.table is self.table

    @dataclass(eq=False)
    class Wanted(_LatestOnly):
        """Rows ``start`` to before ``end`` are needed, at most four screens of them."""

        start: int
        end: int

    @dataclass(eq=False)
    class Moved(_LatestOnly):
        """The cursor is on another entry; on none if ``identity`` is None."""

        identity: str | None

    @dataclass(eq=False)
    class Opened(_TableMessage):
        """Enter or a double click on an entry."""

        identity: str

    @dataclass(eq=False)
    class Folded(_TableMessage):
        """Asks to fold rows into the row ``identity``, or to unfold it."""

        identity: str
        folded: bool

    @dataclass(eq=False)
    class HeaderClicked(_TableMessage):
        """A click on a column's title."""

        key: str

    class NothingSelected(_TableMessage):
        """A key that needs an entry under the cursor found none."""

    @dataclass(eq=False)
    class Marked(_TableMessage):
        """The set of marked entries changed."""

        marks: frozenset[str]

    def __init__(
        self,
        columns: Iterable[TableColumn],
        *,
        empty: str = "",
        id: str | None = None,
        classes: str | None = None,
    ) -> None:
        """``empty``: the text that is shown when there are no rows."""
        self._drawn: dict[int, tuple[_DrawnLine, Strip]] = {}
        super().__init__(id=id, classes=classes)
        self._columns = tuple(columns)
        self.empty = empty
        self._cursor = RowCursor()
        self._page_before = 1
        """rows on the screen before its latest change of size"""
        self._marks: frozenset[str] = frozenset()
        self._kept: frozenset[str] | None = None
        self._left_out: frozenset[str] = frozenset()
        self._sort: tuple[str, str] = ("", "")
        self._awaited: str | None = None
        """the row that the cursor goes to with the next rows"""
        self._layout: tuple[tuple[TableColumn, int, int], ...] = ()
        self._asked: tuple[int, int] | None = None
        self._needs: dict[str, int] = {}
        """flexible column -> cells of the longest text it had since `clear`"""

    # -- for its owner to read ----------------------------------------------------------------

    @property
    def identity(self) -> str | None:
        """The entry under the cursor; None while it is lost, not loaded or not there."""
        return self._cursor.identity

    @property
    def held(self) -> str | None:
        """The entry on which the cursor stays; None while it follows the first line."""
        return self._cursor.held

    @property
    def awaited(self) -> str | None:
        """The row that the cursor goes to with the next rows, if it is among them."""
        return self._awaited

    @property
    def cursor(self) -> int:
        """The index of the cursor's line."""
        return self._cursor.index

    @property
    def total(self) -> int:
        """How many rows the list has, loaded or not."""
        return self._cursor.total

    @property
    def cursor_lost(self) -> bool:
        """True if the cursor's entry is not among the rows, and its line shows another one.

        Nothing is selected then: a key pressed at this moment was meant for the lost entry.
        """
        return self._cursor.lost

    @property
    def gone(self) -> str | None:
        """The entry that was under the cursor and left the rows; None: it is there."""
        return self._cursor.gone

    @property
    def marks(self) -> frozenset[str]:
        """The marked entries, also those out of sight or gone."""
        return self._marks

    @property
    def new(self) -> int:
        """Rows that came since the cursor left the top; in a long list, those above the cursor."""
        return self._cursor.new

    @property
    def position(self) -> str:
        """Where the cursor is, for a status line: ``12 of 1,234``."""
        window = self._cursor.window
        if window is None or not window.total:
            return ""
        return f"{count(self.cursor + 1)} of {window.number or count(window.total)}"

    @property
    def unsaid(self) -> str:
        """The text after the cells of the cursor's row, if it is cut; else ''."""
        row = self._cursor.row
        text, _ = styled(row.rest if row else "")
        return text if row and cell_len(printable(text)) > self._room(row) else ""

    def cut_text(self, key: str) -> str:
        """The text of the cursor's row in a column, or after its cells, if it is cut; else ''."""
        row = self._cursor.row
        for column, index, width in self._layout:
            if row and column.key == key and index < len(row.cells):
                text, _ = styled(row.cells[index])
                return text if cell_len(printable(text)) > width else ""
        return self.unsaid

    @property
    def shown_columns(self) -> frozenset[str]:
        """The keys of the columns there is room for."""
        return frozenset(column.key for column, *_ in self._layout)

    @property
    def in_sight(self) -> frozenset[str]:
        """The entries whose rows are on the screen."""
        top = self.scroll_offset.y
        rows = (self._cursor.row_at(index) for index in range(top, top + self._page))
        return frozenset(row.identity for row in rows if row is not None)

    @property
    def wanted(self) -> tuple[int, int]:
        """The rows (start, end) to fetch: the visible ones, and at least a page before and after.

        Whole pages, so that scrolling by a line fetches nothing; the end may be after the last
        row, so that new rows there are noticed.
        """
        page, first = self._page, self.scroll_offset.y
        start = max(0, first // page - 1) * page
        return start, ((first + page - 1) // page + 2) * page

    # -- for its owner to call ----------------------------------------------------------------

    def show(self, window: RowWindow) -> None:
        """Show these rows; the cursor follows its entry and stays in sight if it was."""
        before, in_sight = self.identity, self._in_sight
        self._cursor.take(window)
        self._widen(window)
        self._resize_contents()
        if in_sight:
            self._bring_in_sight()
        self._repaint()
        self._ask()
        if self._awaited is not None:
            self.go_to(self._awaited)
            self._awaited = None
        self._say_moved(before)

    def clear(self) -> None:
        """Drop rows, cursor and marks before another list is shown."""
        before = self.identity
        self._cursor, self._asked, self._needs = RowCursor(), None, {}
        self._awaited = None
        self.mark(())
        self._resize_contents()
        self._bring_in_sight()
        self._repaint()
        self._ask()
        self._say_moved(before)

    def go_to(self, identity: str) -> None:
        """Put the cursor on this entry: now or, if it isn't loaded, with the next rows, unless it
        is moved before."""
        line = self._cursor.line_of(identity)
        self._awaited = identity if line is None else None
        if line is not None:
            self._move_to(line)

    def see_all(self) -> None:
        """Count no row that is there as new."""
        self._cursor.see_all()

    def stay(self) -> None:
        """Keep the cursor on its row from now on, also when rows are added above it."""
        self._cursor.stay()

    def mark(self, identities: Iterable[str]) -> None:
        """Mark exactly these entries."""
        marks = frozenset(identities)
        if marks != self._marks:
            self._marks = marks
            self.post_message(self.Marked(self, marks))
            self._repaint()

    def sorted_by(self, key: str, *, descending: bool = False, exact: bool = True) -> None:
        """Show the order in the header; not ``exact``: only the loaded rows are sorted."""
        sort = (key, (" ▼" if descending else " ▲") + ("" if exact else " (loaded)"))
        if sort != self._sort:
            self._sort = sort
            self._arrange()

    def leave_out(self, keys: frozenset[str]) -> None:
        """Hide these columns, which have no values; others appear again."""
        if keys != self._left_out:
            self._left_out = keys
            self._arrange()

    def rename(self, key: str, title: str) -> None:
        """Give a column another title."""
        columns = (replace(one, title=title) if one.key == key else one for one in self._columns)
        self._columns = tuple(columns)
        self._arrange()

    def keep_columns(self, keys: frozenset[str]) -> None:
        """Show no other columns than these."""
        self._kept = keys
        self._arrange()

    # -- keys and mouse -----------------------------------------------------------------------

    def action_move(self, lines: int) -> None:
        self._move_to(self.cursor + lines)

    def action_page(self, pages: int) -> None:
        self._move_to(self.cursor + pages * self._page)

    def action_first(self) -> None:
        """Go to the first line, and stay there when rows are added."""
        self._move_to(0)
        self._cursor.follow_top()

    def action_last(self) -> None:
        self._move_to(self._cursor.total - 1)

    def action_fold(self, folded: bool) -> None:
        row = self._cursor.row
        if row is not None and row.fold:
            self.stay()
            self.post_message(self.Folded(self, row.fold, folded))
        elif folded:
            self.action_scroll_left()
        else:
            self.action_scroll_right()

    def action_mark(self) -> None:
        row = self._cursor.row
        if self.identity is not None and row is not None and row.fold != row.identity:
            self.stay()
            self.mark(self._marks ^ {self.identity})
        else:
            self.post_message(self.NothingSelected(self))

    def action_open(self) -> None:
        if self.identity is not None:
            self.stay()
            self.post_message(self.Opened(self, self.identity))
        else:
            self.post_message(self.NothingSelected(self))

    def on_mouse_scroll_down(self) -> None:
        self.stay()

    def on_click(self, event: Click) -> None:
        if event.y == 0:
            self._click_header(event.x + int(self.scroll_offset.x) - GUTTER)
            return
        index = self.scroll_offset.y + event.y - 1
        if index < self._cursor.total:
            self._move_to(index)
            if event.chain == 2:
                self.action_open()

    def _click_header(self, x: int) -> None:
        right = 0
        for column, _, width in self._layout:
            right += width + GAP
            if 0 <= x < right:
                self.post_message(self.HeaderClicked(self, column.key))
                return

    # -- cursor -------------------------------------------------------------------------------

    @property
    def _page(self) -> int:
        """Rows on the screen; one line is the header."""
        # The container's size, because it outlives the time in which the table is not displayed.
        return max(1, self.container_size.height - 1)

    @property
    def _in_sight(self) -> bool:
        return 0 <= self.cursor - self.scroll_offset.y < self._page

    def _move_to(self, index: int) -> None:
        before, self._awaited = self.identity, None
        self._cursor.move_to(index)
        self._bring_in_sight()
        self._repaint()
        self._say_moved(before)

    def _bring_in_sight(self) -> None:
        top = self.scroll_offset.y
        wished = max(self.cursor - self._page + 1, min(top, self.cursor))
        if wished != top:
            self.scroll_to(y=wished, animate=False, force=True)

    def _say_moved(self, before: str | None) -> None:
        if self.identity != before:
            self.post_message(self.Moved(self, self.identity))

    # -- asking for rows ----------------------------------------------------------------------

    def _ask(self) -> None:
        """Ask for missing rows; only once, because the answer may lack some of them."""
        wanted = self.wanted
        if window := self._cursor.window:
            start, rows = window.start, len(window.rows)
            if start <= wanted[0] and min(wanted[1], self._cursor.total) <= start + rows:
                self._asked = None
                return
        if wanted != self._asked:
            self._asked = wanted
            self.post_message(self.Wanted(self, *wanted))

    # -- drawing ------------------------------------------------------------------------------

    def on_resize(self, event: Resize) -> None:
        in_sight = 0 <= self.cursor - self.scroll_offset.y < self._page_before
        self._page_before = self._page
        self._arrange()
        if in_sight:
            self._bring_in_sight()
        self._ask()

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_y(old_value, new_value)
        self._ask()

    def notify_style_update(self) -> None:
        self._drawn.clear()
        super().notify_style_update()

    def _arrange(self) -> None:
        """Lay out the columns again. A title is never cut: it widens its column."""
        titled, kept = [], list[int]()
        for index, column in enumerate(self._columns):
            unwanted = self._kept is not None and column.key not in self._kept
            if unwanted or column.key in self._left_out:
                continue
            if column.optional and not self._needs.get(column.key):
                continue
            kept.append(index)
            title = column.title + (self._sort[1] if column.key == self._sort[0] else "")
            width = max(column.width, cell_len(title))
            titled.append(replace(column, title=title, width=width))
        fitted = fit(titled, self.scrollable_content_region.width, self._needs or None)
        self._layout = tuple((titled[at], kept[at], width) for at, width in fitted)
        self._drawn.clear()
        self._resize_contents()
        self.refresh()

    def _widen(self, window: RowWindow) -> None:
        """Give flexible columns the room that their texts need.

        They get narrower only after `clear`: columns must not move while a list is read.
        """
        if not window.rows:
            return
        needs = dict(self._needs)
        for index, column in enumerate(self._columns):
            if column.flex or column.optional:
                cells = (row.cells[index] for row in window.rows if index < len(row.cells))
                longest = max(
                    (cell_len(printable(styled(cell)[0], _LONGEST)) for cell in cells), default=0
                )
                needs[column.key] = max(needs.get(column.key, 0), longest)
        if needs != self._needs:
            self._needs = needs
            self._arrange()

    def _resize_contents(self) -> None:
        widths = sum(width + GAP for *_, width in self._layout) - GAP + GUTTER
        size = Size(max(0, widths), self._cursor.total + 1)
        if size != self.virtual_size:
            # Not assigned: that would lay out the whole screen and repaint every line whenever an
            # entry comes or goes; here only the scroll bar depends on the size.
            self.set_reactive(PagedTable.virtual_size, size)
            self._scroll_update(size)
            # The mouse wheel scrolls from this line: if it was after the end, the wheel's first
            # steps would do nothing.
            self.scroll_target_y = min(self.scroll_target_y, self.max_scroll_y)

    def _repaint(self) -> None:
        """Repaint the lines that differ from what was drawn, and no others."""
        region = self.scrollable_content_region
        changed = [
            y
            for y in range(1, region.height)
            if y not in self._drawn or self._drawn[y][0] != self._line(y)
        ]
        for _, run in groupby(enumerate(changed), lambda pair: pair[1] - pair[0]):
            lines = [y for _, y in run]
            self.refresh(Region(0, lines[0], region.width, len(lines)))

    def _line(self, y: int) -> _DrawnLine:
        index = self.scroll_offset.y + y - 1
        if index >= self._cursor.total:
            return _DrawnLine(text=self.empty if y == 1 and self._cursor.window else "")
        row = self._cursor.row_at(index)
        cursor = ""
        if index == self.cursor:
            cursor = "lost" if self.cursor_lost else "cursor" if self.has_focus else "blurred"
        marked = row is not None and row.identity in self._marks
        return _DrawnLine(row, "" if row else ELLIPSIS, cursor, marked)

    def render_line(self, y: int) -> Strip:
        width, left = self.scrollable_content_region.width, self.scroll_offset.x
        if y == 0:
            return self._header(width, left)
        line = self._line(y)
        drawn = self._drawn.get(y)
        if drawn is None or drawn[0] != line:
            drawn = self._drawn[y] = (line, self._draw(line))
        return drawn[1].crop_extend(left, left + width, self.rich_style)

    def _header(self, width: int, left: int) -> Strip:
        style = self.rich_style + self.get_component_rich_style("paged-table--header", partial=True)
        cells = [Segment(" " * GUTTER, style)]
        for column, _, cells_wide in self._layout:
            cells.append(Segment(_padded(column.title, cells_wide, column.align), style))
            cells.append(Segment(" " * GAP, style))
        strip = Strip(cells).crop_extend(left, left + width, style)
        if left > 0:
            strip = Strip.join([Strip([Segment("◂", style)], 1), strip.crop(1)])
        if left + width < self.virtual_size.width:
            strip = Strip.join([strip.crop(0, width - 1), Strip([Segment("▸", style)], 1)])
        return strip

    def _room(self, row: TableRow) -> int:
        """The width from the end of a row's cells to the edge of the screen."""
        taken = sum(width + GAP for _, index, width in self._layout if index < len(row.cells))
        return max(0, self.scrollable_content_region.width - GUTTER - taken)

    def _draw(self, line: _DrawnLine) -> Strip:
        over = _PLAIN
        if line.cursor:
            suffix = "" if line.cursor == "cursor" else f"-{line.cursor}"
            name = f"paged-table--cursor{suffix}"
            over = self.get_component_rich_style(name, partial=True)
        base = self.rich_style
        mark = self.get_component_rich_style("paged-table--mark", partial=True)
        sign = "●" if line.marked else " "
        # In reverse video a coloured space would be a block of that colour.
        look = base + over if over.reverse and sign == " " else base + mark + over
        segments = [Segment(sign + " " * (GUTTER - 1), look)]
        if line.row is None:
            segments.append(Segment(line.text, base + Style.parse(DIM) + over))
        else:
            plain = base + Style.parse(line.row.style)
            for column, index, width in self._layout:
                if index >= len(line.row.cells):
                    break
                text, style = styled(line.row.cells[index])
                look = plain + Style.parse(column.style) + Style.parse(style) + over
                segments.append(Segment(_padded(text, width, column.align), look))
                segments.append(Segment(" " * GAP, plain + over))
            if line.row.rest:
                text, style = styled(line.row.rest)
                rest = _padded(text, self._room(line.row), "left")
                segments.append(Segment(rest, plain + Style.parse(style) + over))
        width = max(self.virtual_size.width, self.scrollable_content_region.width)
        return Strip(segments).adjust_cell_length(width, base + over)


def _padded(text: str, width: int, align: Literal["left", "right"]) -> str:
    # Escaped here in any case, because a strip's text reaches the terminal as it is.
    text = printable(text, width)
    padding = " " * (width - cell_len(text))
    return padding + text if align == "right" else text + padding

"""The cursor of a table, which stays on its entry when rows come and go."""

from redisq_ops.tui.table.table_model import RowWindow, TableRow


class RowCursor:
    """The cursor's line in a window of rows: the first line until it is moved, then an entry's."""

    def __init__(self) -> None:
        self.window: RowWindow | None = None
        self.index = 0
        self.lost = False
        """whether the entry is not among the rows, and its line shows another one"""
        self.new = 0
        """rows added since the cursor left the top; if not all rows are loaded, those above it"""
        self._held: str | None = None
        self._follows_top = True
        self._seen: frozenset[str] | None = None

    @property
    def identity(self) -> str | None:
        """The entry under the cursor; None while it is lost, not loaded or not there."""
        return None if self.lost else self._held

    @property
    def held(self) -> str | None:
        """The entry on which the cursor stays; None while it follows the first line."""
        return None if self._follows_top else self._held

    @property
    def gone(self) -> str | None:
        """The entry that is lost, if any."""
        return self._held if self.lost else None

    @property
    def row(self) -> TableRow | None:
        """The row under the cursor; None where `identity` is None."""
        return None if self.lost else self.row_at(self.index)

    @property
    def total(self) -> int:
        return self.window.total if self.window else 0

    def row_at(self, index: int) -> TableRow | None:
        """The row of this line, if it is loaded."""
        at = index - self.window.start if self.window else -1
        return self.window.rows[at] if self.window and 0 <= at < len(self.window.rows) else None

    def line_of(self, identity: str | None) -> int | None:
        """The line of this entry, if it is loaded."""
        window = self.window or RowWindow(0, 0, ())
        found = (at for at, row in enumerate(window.rows, window.start) if row.identity == identity)
        return next(found, None)

    def stay(self) -> None:
        """Stay on this row from now on, also when rows are added above it."""
        self._follows_top = False

    def move_to(self, index: int) -> None:
        """Go to a line, or to the first or last one if there is no such line."""
        self.stay()
        self.index = max(0, min(index, self.total - 1))
        self._hold()

    def follow_top(self) -> None:
        """Go to the first line, and stay there when rows are added."""
        self.move_to(0)
        self._follows_top, self.new = True, 0

    def see_all(self) -> None:
        """Count no row that is there as new."""
        if self.window is not None:
            self._seen, self.new = _all_of(self.window), 0

    def take(self, window: RowWindow) -> None:
        """Take new rows: find the cursor's entry or mark it as lost, and count added rows."""
        line, self.window = self.index, window
        self._follow(window)
        if self._follows_top:
            self._seen = _all_of(window)
        elif self._seen is not None and (all_ := _all_of(window)) is not None:
            self.new = len(all_ - self._seen)
        elif not self.lost:
            self._seen, self.new = None, max(0, self.new + self.index - line)

    def _follow(self, window: RowWindow) -> None:
        last = max(0, window.total - 1)
        if self._follows_top:
            self.index = 0
            self._hold()
        elif (held := self.line_of(self._held)) is not None:
            self.index, self.lost = held, False
        elif self._held is None or not window.total:
            # No entry yet: take the one on this line; in an empty list, the first to come.
            self.index = min(self.index, last)
            self._hold()
        elif self.index > last or self.row_at(self.index):
            # The line is loaded or gone: so the entry is lost, not just outside of the window.
            self.index, self.lost = min(self.index, last), True

    def _hold(self) -> None:
        row = self.row_at(self.index)
        self._held, self.lost = (row.identity if row else None), False


def _all_of(window: RowWindow) -> frozenset[str] | None:
    """The identities of all rows there are; None if not all are loaded."""
    whole = window.exact and window.start == 0 and len(window.rows) >= window.total
    return frozenset(row.identity for row in window.rows) if whole else None

"""The columns and rows of a table, and which columns fit into a width."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final, Literal

Cell = str | tuple[str, str]
"""A cell: text, or text and a Rich style."""

GAP: Final = 2
"""cells between two columns"""
GUTTER: Final = 2
"""cells before the first, for marks"""
_LEAST: Final = 12
"""cells that a flexible column keeps on a narrow terminal"""


@dataclass(frozen=True, slots=True)
class TableColumn:
    """A column: ``width`` in cells, the least when ``flex``, its share of the spare width, is set.

    On a narrow terminal the columns of the highest ``priority`` go first, from the right; of those
    of priority 0 the flexible ones get narrower, and then the table scrolls sideways.
    """

    key: str
    title: str
    width: int
    flex: int = 0
    align: Literal["left", "right"] = "left"
    style: str = ""
    priority: int = 0


@dataclass(frozen=True, slots=True)
class TableRow:
    """A row: the identity cursor and marks hold on to, and a cell per column."""

    identity: str
    cells: tuple[Cell, ...]
    style: str = ""
    rest: Cell = ""
    """a text across all columns, behind the last cell"""


@dataclass(frozen=True, slots=True)
class RowWindow:
    """Rows ``start`` … of ``total``; unless ``exact`` there may be more."""

    start: int
    total: int
    rows: tuple[TableRow, ...]
    exact: bool = True


def fit(columns: Iterable[TableColumn], width: int) -> tuple[tuple[int, int], ...]:
    """Which columns to draw in ``width`` cells: (index, cells) from left to right."""
    kept = list(enumerate(columns))
    spare = width - GUTTER - sum(column.width + GAP for _, column in kept) + GAP
    while spare < 0 and (least := max((column.priority for _, column in kept), default=0)):
        at = max(at for at, (_, column) in enumerate(kept) if column.priority == least)
        spare += kept.pop(at)[1].width + GAP
    for at, (index, column) in sorted(enumerate(kept), key=lambda one: -one[1][1].width):
        if spare < 0 and column.flex:  # still too wide: the widest of those that can give way
            taken = min(-spare, max(0, column.width - _LEAST))
            kept[at], spare = (index, replace(column, width=column.width - taken)), spare + taken
    spare, shares = max(0, spare), sum(column.flex for _, column in kept)
    fitted = []
    for index, column in kept:
        extra = spare * column.flex // shares if column.flex else 0
        # Each takes its share of what is left, so that rounding loses no cell.
        spare, shares = spare - extra, shares - column.flex
        fitted.append((index, column.width + extra))
    return tuple(fitted)

"""The columns and rows of a table, and which columns fit into a width."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import Final, Literal

from rich.cells import cell_len

Cell = str | tuple[str, str]
"""A cell: text, or text and a Rich style."""

GAP: Final = 2
"""cells between two columns"""
GUTTER: Final = 2
"""cells before the first column, for marks"""
_LEAST: Final = 12
"""cells that a flexible column keeps on a narrow terminal"""


@dataclass(frozen=True, slots=True)
class TableColumn:
    """A column of ``width`` cells; ``flex`` is its share of the spare width for longer texts.

    On a narrow terminal columns for ``spare`` room are left out first, from the right, then those
    of the highest ``priority``.
    If those of priority 0 don't fit, flexible ones get narrower; then the table scrolls sideways.
    """

    key: str
    title: str
    width: int
    _: KW_ONLY
    flex: int = 0
    align: Literal["left", "right"] = "left"
    style: str = ""
    priority: int = 0
    optional: bool = False
    """draw it only if a row has a text in it; for flexible columns"""
    spare: bool = False
    """draw it only in room that no flexible column needs"""


def styled(cell: Cell) -> tuple[str, str]:
    """The cell's text and style."""
    return (cell, "") if isinstance(cell, str) else cell


@dataclass(frozen=True, slots=True)
class TableRow:
    """A row: its identity, to which cursor and marks are tied, and a cell per column."""

    identity: str
    cells: tuple[Cell, ...]
    style: str = ""
    rest: Cell = ""
    """a text after the last cell, across the other columns"""
    fold: str = ""
    """the row into which it folds, or itself if others fold into it; empty: it doesn't fold"""


@dataclass(frozen=True, slots=True)
class RowWindow:
    """Rows ``start`` … of ``total``; unless ``exact`` there may be more."""

    start: int
    total: int
    rows: tuple[TableRow, ...]
    exact: bool = True
    number: str = ""
    """how many there are, in words; empty: ``total``"""


def fit(
    columns: Iterable[TableColumn], width: int, needs: Mapping[str, int] | None = None
) -> tuple[tuple[int, int], ...]:
    """Which columns to draw in ``width`` cells: (index, cells) from left to right.

    ``needs``: the cells of the longest text of each flexible column, which gets no more than that.
    """
    kept = list(enumerate(columns))
    if needs is not None:
        kept = [
            (at, replace(one, width=min(one.width, max(needs.get(one.key, 0), titled))))
            for at, one in kept
            for titled in [cell_len(one.title) if one.flex else one.width]
        ]
    spare = width - GUTTER - sum(column.width + GAP for _, column in kept) + GAP
    lacking = sum(max(0, (needs or {}).get(one.key, 0) - one.width) for _, one in kept if one.flex)
    while spare < lacking and (last := [at for at, (_, one) in enumerate(kept) if one.spare]):
        spare += kept.pop(last[-1])[1].width + GAP
    while spare < 0 and (least := max((column.priority for _, column in kept), default=0)):
        at = max(at for at, (_, column) in enumerate(kept) if column.priority == least)
        spare += kept.pop(at)[1].width + GAP
    for at, (index, column) in sorted(enumerate(kept), key=lambda one: -one[1][1].width):
        if spare < 0 and column.flex:  # still too wide: shrink flexible ones, the widest first
            taken = min(-spare, max(0, column.width - _LEAST))
            kept[at], spare = (index, replace(column, width=column.width - taken)), spare + taken
    extra = _shares([column for _, column in kept], max(0, spare), needs)
    return tuple((index, column.width + extra[column.key]) for index, column in kept)


def _shares(
    columns: Sequence[TableColumn], spare: int, needs: Mapping[str, int] | None
) -> dict[str, int]:
    """How many of the spare cells each column gets."""
    shares = sum(column.flex for column in columns)
    given = dict.fromkeys((column.key for column in columns), 0)
    lacking = {
        column.key: spare if needs is None else max(0, needs.get(column.key, 0) - column.width)
        for column in columns
    }
    # First the columns that need the smallest part of their share: the others get the rest.
    flexible = (column for column in columns if column.flex)
    for column in sorted(flexible, key=lambda column: lacking[column.key] / column.flex):
        given[column.key] = min(lacking[column.key], spare * column.flex // shares)
        spare, shares = spare - given[column.key], shares - column.flex
    return given

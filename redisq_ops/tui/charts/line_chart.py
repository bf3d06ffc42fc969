"""Charts in braille dots, with an axis and marks, as Rich text: of one line, or of a lane each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from rich.text import Text

from redisq_ops.tui.theme import DIM, WARN

Point = tuple[float, float]

AXIS = 7
"""cells left of the plot, for the highest value and zero"""
_BLANK = 0x2800
_MARK = "┊"


@dataclass(frozen=True, slots=True)
class ChartLine:
    """A line through points (x, y) in order of x; None is a gap."""

    points: tuple[Point | None, ...]
    style: str


@dataclass(frozen=True, slots=True)
class ChartMark:
    """A time that is marked by a vertical line with a letter on top."""

    x: float
    letter: str


@dataclass(frozen=True, slots=True)
class ChartAxis:
    """The range of x in the plot, and the texts below it: (x, text), from left to right."""

    low: float
    high: float
    labels: tuple[tuple[float, str], ...] = ()


@dataclass(frozen=True, slots=True)
class ChartLane:
    """A strip of ``rows`` lines for one line alone, filled from zero up, ``highest`` at its top.

    Lines that would overlap in a common plot stay readable in lanes, also without colours.
    """

    name: str
    line: ChartLine
    highest: float
    rows: int


def line_chart(
    line: ChartLine,
    marks: Sequence[ChartMark],
    axis: ChartAxis,
    width: int,
    height: int,
    value: Callable[[float], str],
) -> list[Text]:
    """``height`` lines of ``width`` cells: the plot, and below it one line for the axis.

    The plot reaches from zero to the highest value. ``value`` turns a value into text.
    """
    columns, rows = max(1, width - AXIS), max(1, height - 1)
    top, marked = highest([line]), _placed(marks, axis, columns)
    drawn: list[Text] = []
    dots = _dots(line, axis, top or 1.0, columns, rows)
    for row, cells in enumerate(_plotted(dots, line.style, marked)):
        label = value(0) if row == rows - 1 else value(top) if top and not row else ""
        drawn.append(_labelled(label, DIM, cells))
    return [*drawn, _below(axis, columns)]


def lane_chart(
    lanes: Sequence[ChartLane],
    marks: Sequence[ChartMark],
    axis: ChartAxis,
    width: int,
    value: Callable[[float], str],
) -> list[Text]:
    """The lanes from top to bottom, ``width`` cells wide, and one line for the axis.

    Left of a lane is its name, at the bottom, and its highest value, at the top, if both fit.
    """
    columns = max(1, width - AXIS)
    marked = _placed(marks, axis, columns)
    drawn: list[Text] = []
    for lane in lanes:
        line, last = lane.line, lane.rows - 1
        dots = _filled(_dots(line, axis, lane.highest or 1.0, columns, lane.rows))
        cells_of_rows = _plotted(dots, line.style, marked, lettered=not drawn, over=True)
        for row, cells in enumerate(cells_of_rows):
            label = lane.name if row == last else value(lane.highest) if not row else ""
            drawn.append(_labelled(label, line.style if row == last else DIM, cells))
    return [*drawn, _below(axis, columns)]


def highest(lines: Sequence[ChartLine]) -> float:
    """The highest value of all these lines; 0 if they have no points."""
    return max((point[1] for line in lines for point in line.points if point), default=0.0)


def _labelled(label: str, style: str, cells: Sequence[tuple[str, str]]) -> Text:
    text = Text(label[: AXIS - 1].rjust(AXIS - 1) + " ", style, no_wrap=True, end="")
    for each, run in groupby(cells, lambda cell: cell[1]):
        text.append("".join(cell for cell, _ in run), each)
    return text


def _placed(marks: Sequence[ChartMark], axis: ChartAxis, columns: int) -> Mapping[int, ChartMark]:
    """The marks by their columns. If two have the same column, the first one counts."""
    return {min(columns - 1, int(_share(mark.x, axis) * columns)): mark for mark in reversed(marks)}


def _plotted(
    dots: Sequence[str],
    style: str,
    marked: Mapping[int, ChartMark],
    *,
    lettered: bool = True,
    over: bool = False,
) -> list[list[tuple[str, str]]]:
    """The cells of each row with their styles: dots, and marks in empty cells or, with ``over``,
    in all; ``lettered``: with the marks' letters on top."""

    def cell(row: int, column: int, dots: str) -> tuple[str, str]:
        mark, empty = marked.get(column), ord(dots) <= _BLANK
        if mark is not None and row == 0 and lettered:
            return mark.letter, f"bold {WARN}"
        if mark is not None and (over or empty):
            return _MARK, WARN
        return (" ", "") if empty else (dots, style)

    return [
        [cell(row, column, each) for column, each in enumerate(line)]
        for row, line in enumerate(dots)
    ]


_LEFT, _RIGHT = (0x01, 0x02, 0x04, 0x40), (0x08, 0x10, 0x20, 0x80)
"""the dots of a cell's two columns, from the top"""


def _filled(dots: Sequence[str]) -> list[str]:
    """The same plot, with all dots below the line set."""
    cells = [[max(0, ord(cell) - _BLANK) for cell in row] for row in dots]
    for column in range(len(cells[0])):
        for part in (_LEFT, _RIGHT):
            below = False
            for row in cells:
                for bit in part:
                    below = below or bool(row[column] & bit)
                    row[column] |= bit if below else 0
    return ["".join(chr(_BLANK + bits) for bits in row) for row in cells]


def _share(x: float, axis: ChartAxis) -> float:
    return min(1.0, max(0.0, (x - axis.low) / (axis.high - axis.low)))


def _dots(line: ChartLine, axis: ChartAxis, highest: float, columns: int, rows: int) -> list[str]:
    """The plot of one line, in rows of braille characters."""
    from plotille import Canvas  # imported with the first chart

    # A cell has 2 × 4 dots; the highest values must be on the last dot, not after it.
    x_max = axis.low + (axis.high - axis.low) * 2 * columns / (2 * columns - 1)
    y_max = highest * 4 * rows / (4 * rows - 1)
    canvas = Canvas(columns, rows, xmin=axis.low, ymin=0, xmax=x_max, ymax=y_max)
    before: Point | None = None
    for point in line.points:
        if point is not None:
            x, y = max(axis.low, point[0]), point[1]
            if before is None:
                canvas.point(x, y)
            else:
                canvas.line(*before, x, y)
            before = x, y
        else:
            before = None
    plotted: str = canvas.plot(linesep="\n")
    return plotted.split("\n")


def _below(axis: ChartAxis, columns: int) -> Text:
    """The axis' texts, each centred below its place."""
    cells = [" "] * columns
    for x, label in axis.labels:
        middle = int(_share(x, axis) * columns) - len(label) // 2
        start = max(0, min(columns - len(label), middle))
        cells[start : start + len(label)] = label
    return Text(" " * AXIS + "".join(cells), DIM, no_wrap=True, end="")

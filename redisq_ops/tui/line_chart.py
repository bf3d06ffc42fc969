"""Line charts in braille dots, with an axis and marks, as Rich text."""

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
    """A line through points (x, y), which are in order of x; None is a gap."""

    points: tuple[Point | None, ...]
    style: str


@dataclass(frozen=True, slots=True)
class ChartMark:
    """A moment that is marked by an upright line and a letter on top of it."""

    x: float
    letter: str


@dataclass(frozen=True, slots=True)
class ChartAxis:
    """What the plot shows of x, and the texts below it: (x, text), from left to right."""

    low: float
    high: float
    labels: tuple[tuple[float, str], ...] = ()


def line_chart(
    lines: Sequence[ChartLine],
    marks: Sequence[ChartMark],
    axis: ChartAxis,
    width: int,
    height: int,
    value: Callable[[float], str],
) -> list[Text]:
    """``height`` lines of ``width`` cells: the plot, and below it one line for the axis.

    From zero to the highest value, which ``value`` writes. The last of two lines that cross is on
    top.
    """
    columns, rows = max(1, width - AXIS), max(1, height - 1)
    highest = max(
        (point[1] for line in lines for point in line.points if point is not None), default=0.0
    )
    # Of two marks in one place the first one counts.
    marked = {
        min(columns - 1, int(_share(mark.x, axis) * columns)): mark for mark in reversed(marks)
    }
    dots = [_dots(line, axis, highest or 1.0, columns, rows) for line in lines]
    drawn = []
    for row in range(rows):
        label = value(0) if row == rows - 1 else value(highest) if highest and not row else ""
        text = Text(label.rjust(AXIS - 1) + " ", DIM, no_wrap=True, end="")
        cells = (_cell(row, column, lines, dots, marked) for column in range(columns))
        for style, run in groupby(cells, lambda cell: cell[1]):
            text.append("".join(cell for cell, _ in run), style)
        drawn.append(text)
    drawn.append(_below(axis, columns))
    return drawn


def _cell(
    row: int,
    column: int,
    lines: Sequence[ChartLine],
    dots: Sequence[Sequence[str]],
    marked: Mapping[int, ChartMark],
) -> tuple[str, str]:
    """A cell of the plot and its style: dots, or a mark where there are none."""
    mark = marked.get(column)
    if mark is not None and row == 0:
        return mark.letter, f"bold {WARN}"
    bits, style = 0, ""
    for line, plotted in zip(lines, dots, strict=True):
        if (those := ord(plotted[row][column]) - _BLANK) > 0:
            bits, style = bits | those, line.style
    if bits:
        return chr(_BLANK + bits), style
    return (" ", "") if mark is None else (_MARK, WARN)


def _share(x: float, axis: ChartAxis) -> float:
    return min(1.0, max(0.0, (x - axis.low) / (axis.high - axis.low)))


def _dots(line: ChartLine, axis: ChartAxis, highest: float, columns: int, rows: int) -> list[str]:
    """The plot of one line, in rows of braille characters."""
    from plotille import Canvas  # not before there is a chart to draw

    # A cell has 2 × 4 dots; the highest values belong to the last of them, not behind it.
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

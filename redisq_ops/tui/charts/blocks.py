"""Small charts as text: pure functions from numbers to block characters."""

from collections.abc import Sequence
from math import ceil, log

from redisq_ops.ops.terminal import short_count
from redisq_ops.tui.theme import DIM, HEAT

_UP = " ▁▂▃▄▅▆▇█"
_RIGHT = " ▏▎▍▌▋▊▉█"

LEVEL_WIDTH = 6
"""Cells one priority level takes in :func:`levels`."""


def spark(values: Sequence[float], width: int) -> str:
    """A line of ``width`` cells, newest value rightmost, the highest value a full block.

    Zero is the lowest block and no value a space, so that idle and unknown differ; anything above
    zero stands out from zero. Several values share a cell when there are more than fit, and the
    cell shows their maximum: a short peak is never hidden.
    """
    share = ceil(len(values) / width) if width > 0 else 0
    if not share:
        return " " * width
    # Grouped from the newest end, which is the one being read.
    peaks = [max(values[max(0, end - share) : end]) for end in range(len(values), 0, -share)]
    top = max(peaks)
    cells = (_UP[1 + _part(peak, top, 7)] for peak in reversed(peaks))
    return "".join(cells).rjust(width)


def bar(value: float, maximum: float, width: int) -> str:
    """A horizontal bar of ``width`` cells; full only at the maximum, never empty above zero."""
    full, rest = divmod(_part(value, maximum, 8 * width), 8)
    return ("█" * full + _RIGHT[rest]).ljust(width)[:width]


def timeline(buckets: Sequence[int], width: int, height: int) -> list[str]:
    """A histogram, ``height`` lines from top to bottom of ``width`` cells each.

    Buckets are drawn equally wide; with more buckets than cells each column adds up the same
    number of them (a remainder would draw ripples that are not in the data).
    """
    share = ceil(len(buckets) / width) if width > 0 else 0
    if not share:
        return [" " * width] * height
    columns = [sum(buckets[at : at + share]) for at in range(0, len(buckets), share)]
    top, cells = max(columns), width // len(columns)
    heights = [_part(column, top, 8 * height) for column in columns]
    return [
        "".join(_UP[min(8, max(0, high - base))] * cells for high in heights).ljust(width)
        for base in range(8 * (height - 1), -1, -8)
    ]


def levels(counts: Sequence[int]) -> list[list[tuple[str, str]]]:
    """The priority levels at a glance: rows of ten (text, style) cells, ``LEVEL_WIDTH`` wide.

    Level 0 is top left, level 9 at the end of the first row. The heat is logarithmic, so that one
    crowded level does not make the others look empty.
    """
    top = max(counts, default=0)
    cells = [_level(number, top) for number in counts]
    return [cells[at : at + 10] for at in range(0, len(cells), 10)]


def _level(number: int, top: int) -> tuple[str, str]:
    if number <= 0:
        return "·".rjust(LEVEL_WIDTH - 1) + " ", DIM
    heat = ceil(len(HEAT) * log(1 + number) / log(1 + top))
    return short_count(number).rjust(LEVEL_WIDTH - 1) + " ", HEAT[heat - 1]


def _part(value: float, top: float, steps: int) -> int:
    """The value's share of ``top`` in whole steps, rounded down, but at least one above zero."""
    if value <= 0 or top <= 0:
        return 0
    return max(1, min(steps, int(value * steps / top)))

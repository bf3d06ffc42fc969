"""Charts hide no peak and no small number."""

import pytest
from rich.cells import cell_len

from redisq_ops.tui import theme
from redisq_ops.tui.charts.blocks import LEVEL_WIDTH, bar, levels, spark, timeline


@pytest.mark.parametrize(
    ("values", "width", "shown"),
    [
        ([], 4, "    "),
        ([0, 0], 4, "  ▁▁"),
        ([0, 1, 7], 3, "▁▂█"),
        ([0.001, 1000], 2, "▂█"),
        ([5], 3, "  █"),
        ([9, 0, 0, 0, 0, 1], 3, "█▁▂"),
        ([9, 0, 0, 0, 0], 3, "█▁▁"),
        ([1, 2], 0, ""),
    ],
)
def test_spark(values: list[float], width: int, shown: str) -> None:
    assert spark(values, width) == shown


@pytest.mark.parametrize(
    ("value", "maximum", "shown"),
    [
        (0, 10, "    "),
        (10, 10, "████"),
        (25, 10, "████"),
        (5, 10, "██  "),
        (9.99, 10, "███▉"),
        (0.001, 10, "▏   "),
        (3, 0, "    "),
        (-3, 10, "    "),
    ],
)
def test_bar(value: float, maximum: float, shown: str) -> None:
    assert bar(value, maximum, 4) == shown


def test_timeline_stands_on_its_last_line() -> None:
    assert timeline([0, 1, 8, 16], 4, 2) == ["   █", " ▁██"]
    assert timeline([1, 2], 5, 1) == ["▄▄██ "]
    assert timeline([], 3, 2) == ["   ", "   "]


def test_timeline_adds_up_equally_many_buckets_per_column() -> None:
    assert timeline([1] * 8, 4, 1) == ["████"]
    assert timeline([1] * 6, 4, 1) == ["███ "]


def test_levels_are_ten_rows_of_ten_and_hotter_with_more() -> None:
    counts = [0] * 100
    counts[0], counts[9], counts[42], counts[99] = 1, 100, 1_000_000, 12_345
    grid = levels(counts)
    assert [len(row) for row in grid] == [10] * 10
    assert {cell_len(text) for row in grid for text, _ in row} == {LEVEL_WIDTH}
    assert [grid[0][0][0].strip(), grid[0][9][0].strip()] == ["1", "100"]
    assert [grid[4][2][0].strip(), grid[9][9][0].strip()] == ["1.0M", "12.3K"]
    assert grid[5][5] == (" " * (LEVEL_WIDTH - 2) + "· ", theme.DIM)
    heat = [theme.HEAT.index(style) for _, style in (grid[0][0], grid[0][9], grid[9][9])]
    assert heat == sorted(set(heat))
    assert grid[4][2][1] == theme.HEAT[-1]
    assert all(style == theme.DIM for row in levels([0] * 100) for _, style in row)

"""Line charts: pure functions from points to text."""

from __future__ import annotations

from redisq_ops.tui.charts.line_chart import (
    AXIS,
    ChartAxis,
    ChartLane,
    ChartLine,
    ChartMark,
    lane_chart,
    line_chart,
)

AT = ChartAxis(0, 100, ((0, "then"), (100, "now")))
WIDE, HIGH = 47, 6


def drawn(line: ChartLine, marks: tuple[ChartMark, ...] = ()) -> list[str]:
    found = line_chart(line, marks, AT, WIDE, HIGH, lambda value: f"{value:g}")
    return [text.plain for text in found]


def line(*points: tuple[float, float] | None) -> ChartLine:
    return ChartLine(points, "#ffffff")


def test_a_line_goes_from_the_first_value_to_the_last() -> None:
    rows = drawn(line((0, 0), (100, 8)))
    assert {len(row) for row in rows} == {WIDE}
    assert len(rows) == HIGH
    plot = [row[AXIS:] for row in rows[:-1]]
    assert plot[-1][0] != " " == plot[0][0]  # bottom left
    assert plot[0][-1] != " " == plot[-1][-1]  # top right
    assert all(row.strip() for row in plot)
    assert [row[:AXIS].strip() for row in rows] == ["8", "", "", "", "0", ""]
    assert rows[-1].split() == ["then", "now"]


def test_a_constant_is_on_top_and_zero_on_the_ground() -> None:
    constant, zero = drawn(line((0, 5), (100, 5))), drawn(line((0, 0), (100, 0)))
    assert " " not in constant[0][AXIS:] and not constant[1].strip()
    assert " " not in zero[-2][AXIS:] and not zero[0].strip()


def test_a_gap_is_not_joined() -> None:
    (whole, *_), (broken, *_) = drawn(line((0, 5), (100, 5))), drawn(line((0, 5), None, (100, 5)))
    assert " " not in whole[AXIS:]
    assert broken[AXIS:].strip(" ")[1:-1].isspace()


def test_points_before_the_axis_begin_at_its_edge() -> None:
    rows = drawn(line((-50, 5), (100, 5)))
    assert " " not in rows[0][AXIS:]


def test_a_mark_has_its_letter_and_hides_no_line() -> None:
    rows = drawn(line((0, 4), (50, 0), (100, 4)), marks=(ChartMark(50, "A"), ChartMark(25, "B")))
    middle = [row[AXIS + 20] for row in rows[:-1]]
    assert middle[:4] == ["A", "┊", "┊", "┊"]
    assert middle[4] not in " ┊"  # the line's lowest point
    assert rows[0][AXIS + 10] == "B"


def test_lanes_keep_lines_apart_on_one_axis() -> None:
    lanes = [
        ChartLane("in", line((0, 8), (100, 8)), 8, 2),
        ChartLane("out", line((0, 2), (100, 2)), 8, 2),
    ]
    rows = [
        text.plain for text in lane_chart(lanes, (ChartMark(50, "A"),), AT, WIDE, "{:g}".format)
    ]
    assert [row[:AXIS].strip() for row in rows] == ["8", "in", "8", "out", ""]
    assert [row[AXIS + 5] for row in rows[:4]] == ["⣿", "⣿", " ", "⣶"]  # filled from zero up
    assert [row[AXIS + 20] for row in rows[:4]] == ["A", "┊", "┊", "┊"]

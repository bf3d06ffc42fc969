"""Plots as inline SVG, without scripts or external resources.

Colours are CSS variables of the report page, so one drawing serves light and dark mode. Series
differ by dash and label as well as by colour. All text is escaped here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from html import escape
from math import ceil, floor, log10

from redisq_ops.ops.terminal import printable

WIDTH = 860
LEFT, RIGHT, TOP, BOTTOM = 62, 118, 12, 40
DASHES = ("", "7 4", "2 4", "10 3 2 3")
DAY = 86_400_000
TICKS, TIME_TICKS = 4, 8
MAX_NAME = 64
"""characters of a label next to a plot"""


@dataclass(frozen=True, slots=True)
class Series:
    """One line of a plot: a value per step, None breaks the line."""

    name: str
    values: Sequence[float | None]
    colour: int = 0
    """index of the page's colour, from 0"""
    dash: int = 0
    fill: bool = False


@dataclass(frozen=True, slots=True)
class ShadedSpan:
    """A range of time shaded behind the lines."""

    from_ms: int
    to_ms: int
    tooltip: str


@dataclass(frozen=True, slots=True)
class Bar:
    """A segment of a row of `rows`, with a tooltip."""

    begin: float
    end: float
    colour: int
    tooltip: str


def safe(text: str, max_length: int = MAX_NAME) -> str:
    """Any text, escaped for HTML: control characters visible, cut to ``max_length`` characters."""
    return escape(printable(text, max_length), quote=True)


def duration(ms: float) -> str:
    """``0``, ``0.5 ms``, ``250 ms``, ``1.5 s``, ``12 min``, ``3.2 h``, ``4 d``."""
    for size, unit in ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1000, "s")):
        if abs(ms) >= size:
            return f"{_short(ms / size)} {unit}"
    return f"{_short(ms)} ms" if ms else "0"


def number(value: float) -> str:
    """``0``, ``12``, ``1.5``, ``12k``, ``3.4M``."""
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return _short(value / size) + unit
    return _short(value)


def _short(value: float) -> str:
    digits = 0 if abs(value) >= 100 else 1 if abs(value) >= 10 else 2
    text = f"{value:.{digits}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


# --- scales ------------------------------------------------------------------------------------


def round_ticks(top: float) -> list[float]:
    """Round ticks from 0 to at least ``top``."""
    if top <= 0:
        return [0.0, 1.0]
    rough = top / TICKS
    size = 10 ** floor(log10(rough))
    step = next(m * size for m in (1, 2, 2.5, 5, 10, 20, 50, 100) if m * size >= rough * 0.999)
    return [step * i for i in range(ceil(top / step - 1e-9) + 1)]


_TICK_STEPS_MS = (
    1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4, 15e3, 30e3, 6e4, 12e4, 3e5, 6e5, 9e5,
    18e5, 36e5, 72e5, 108e5, 216e5, 432e5, 864e5, 1728e5, 6048e5,
)  # fmt: skip


def duration_ticks(top: float) -> list[float]:
    """Ticks of an axis of durations in ms: whole milliseconds, seconds, minutes, hours, days."""
    step = next(
        (s for s in _TICK_STEPS_MS if s >= top / TICKS * 0.999), 6048e5 * ceil(top / 6048e5 / TICKS)
    )
    return [step * i for i in range(max(1, ceil(top / step - 1e-9)) + 1)]


def time_ticks(begin: int, end: int) -> list[tuple[int, str, str]]:
    """Ticks of a time axis: (ms, clock time, date if it changes), UTC."""
    step = next(
        (int(s) for s in _TICK_STEPS_MS if s >= max(1000, (end - begin) / TIME_TICKS)),
        int(_TICK_STEPS_MS[-1]),
    )
    clock = "%d %b" if step >= DAY else "%H:%M" if step >= 60_000 else "%H:%M:%S"
    found, day = [], ""
    for ms in range(-(-begin // step) * step, end + 1, step):
        at = datetime.fromtimestamp(ms / 1000, UTC)
        date = at.strftime("%Y" if step >= DAY else "%d %b")
        found.append((ms, at.strftime(clock), date if date != day else ""))
        day = date
    return found


# --- drawings ----------------------------------------------------------------------------------


def lines(
    begin: int,
    step: int,
    series: Sequence[Series],
    *,
    unit: Callable[[float], str] = number,
    ticks: Callable[[float], list[float]] = round_ticks,
    axis: str,
    title: str,
    spans: Iterable[ShadedSpan] = (),
    height: int = 190,
) -> str:
    """Lines over time; ``begin`` and ``step`` in ms, the value of a step drawn at its middle."""
    n = max((len(s.values) for s in series), default=0)
    end = begin + max(1, n) * step
    top = max((v for s in series for v in s.values if v is not None), default=0)
    low = min((v for s in series for v in s.values if v is not None), default=0)
    scale = ticks(top)
    if low < 0:
        size = scale[1] if top > 0 else ticks(-low)[1]
        below = ceil(-low / size)
        scale = [-size * i for i in range(below, 0, -1)] + (scale if top > 0 else [0.0])
    bottom, high = scale[0], scale[-1]
    plot_width, plot_height = WIDTH - LEFT - RIGHT, height - TOP - BOTTOM

    def x(ms: float) -> float:
        return LEFT + plot_width * (ms - begin) / (end - begin)

    def y(value: float) -> float:
        return TOP + plot_height * (high - value) / (high - bottom)

    parts = [_svg_start(height, title)]
    for span in spans:
        left, right = max(begin, span.from_ms), min(end, span.to_ms)
        if left < right:
            width = max(2, x(right) - x(left))
            parts.append(_rect("span", x(left), TOP, width, plot_height, span.tooltip))
    for value in scale:
        parts.append(_line("grid", LEFT, LEFT + plot_width, y(value), y(value)))
        parts.append(_text("tick", LEFT - 6, y(value) + 4, escape(unit(value)), "end"))
    parts.append(_time_axis(begin, end, x, TOP + plot_height))
    middle = TOP + plot_height // 2
    parts.append(_text("axis", 12, middle, escape(axis), "middle", f"rotate(-90 12 {middle})"))
    for s in series:
        parts += _series_elements(s, [x(begin + (i + 0.5) * step) for i in range(len(s.values))], y)
    for row, s in enumerate(series):
        parts.append(_series_legend(s, TOP + 12 + row * 30, unit))
    return "".join([*parts, "</svg>"])


def _series_elements(s: Series, xs: Sequence[float], y: Callable[[float], float]) -> list[str]:
    parts = []
    for run in _runs(s.values):
        points = [(xs[i], y(v)) for i in run if (v := s.values[i]) is not None]
        text = " ".join(f"{px:.1f},{py:.1f}" for px, py in points)
        if s.fill:
            floor_ = f"{y(0):.1f}"
            parts.append(
                f'<polygon class="area c{s.colour}" points="{points[0][0]:.1f},{floor_} {text} '
                f'{points[-1][0]:.1f},{floor_}"/>'
            )
        if len(points) == 1:  # a line of one point would not be seen
            parts.append(
                f'<circle class="dot c{s.colour}" cx="{points[0][0]:.1f}" '
                f'cy="{points[0][1]:.1f}" r="2.5"/>'
            )
        else:
            dash = f' stroke-dasharray="{DASHES[s.dash]}"' if s.dash else ""
            parts.append(f'<polyline class="line c{s.colour}"{dash} points="{text}"/>')
    return parts


def _runs(values: Sequence[float | None]) -> Iterable[list[int]]:
    run: list[int] = []
    for i, value in enumerate(values):
        if value is not None:
            run.append(i)
        elif run:
            yield run
            run = []
    if run:
        yield run


def _series_legend(s: Series, top: int, unit: Callable[[float], str]) -> str:
    """At the right of the plot: a piece of the line, its name and its highest value."""
    left = WIDTH - RIGHT + 12
    peak = max((v for v in s.values if v is not None), default=None)
    return (
        _line(f"line c{s.colour}", left, left + 22, top - 4, top - 4, DASHES[s.dash])
        + _text("name", left + 28, top, safe(s.name, 14))
        + ("" if peak is None else _text("tick", left + 28, top + 13, f"max {escape(unit(peak))}"))
    )


def rows(
    named: Sequence[tuple[str, Sequence[Bar]]],
    *,
    unit: Callable[[float], str] = number,
    ticks: Callable[[float], list[float]] = round_ticks,
    axis: str,
    title: str,
    values: Sequence[str] = (),
    row_height: int = 20,
) -> str:
    """Horizontal bars, each with a name at its left and, if given, a value at its right."""
    scale = ticks(max((bar.end for _, bars in named for bar in bars), default=0))
    left = 230
    plot_width, plot_height = WIDTH - left - 70, max(1, len(named)) * row_height
    height = plot_height + 8 + BOTTOM

    def x(value: float) -> float:
        return left + plot_width * value / scale[-1]

    parts = [_svg_start(height, title)]
    for value in scale:
        parts.append(_line("grid", x(value), x(value), 4, plot_height + 6))
        parts.append(_text("tick", x(value), plot_height + 20, escape(unit(value)), "middle"))
    parts.append(_text("axis", left + plot_width / 2, plot_height + 36, escape(axis), "middle"))
    for i, (name, bars) in enumerate(named):
        top = 6 + i * row_height
        middle = top + row_height / 2 + 2
        parts.append(_text("name", left - 8, middle, safe(name, left // 7), "end"))
        for bar in bars:
            width = max(1, x(bar.end) - x(bar.begin))
            place = x(bar.begin), top, width, row_height - 6
            parts.append(_rect(f"bar c{bar.colour}", *place, bar.tooltip))
        if values:
            last = max((bar.end for bar in bars), default=0)
            parts.append(_text("tick", x(last) + 6, middle, safe(values[i], 20)))
    return "".join([*parts, "</svg>"])


def legend(entries: Iterable[tuple[int, str]]) -> str:
    """A legend of the colours of bars."""
    items = "".join(f'<li><i class="c{c}"></i>{safe(name)}</li>' for c, name in entries)
    return f'<ul class="legend">{items}</ul>'


def _svg_start(height: int, title: str) -> str:
    return (
        f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{safe(title, 200)}">'
        f"<title>{safe(title, 200)}</title>"
    )


def _time_axis(begin: int, end: int, x: Callable[[float], float], bottom: float) -> str:
    parts = []
    for ms, clock, date in time_ticks(begin, end):
        parts.append(_line("grid", x(ms), x(ms), bottom, bottom + 4))
        parts.append(_text("tick", x(ms), bottom + 16, clock, "middle"))
        if date:
            parts.append(_text("tick", x(ms), bottom + 30, date, "middle"))
    return "".join([*parts, _text("axis", WIDTH - RIGHT, bottom + 31, "time, UTC", "end")])


# --- elements; texts are escaped already ----------------------------------------------------------


def _line(style: str, x1: float, x2: float, y1: float, y2: float, dash: str = "") -> str:
    dashes = f' stroke-dasharray="{dash}"' if dash else ""
    return (
        f'<line class="{style}"{dashes} x1="{x1:.1f}" x2="{x2:.1f}" y1="{y1:.1f}" y2="{y2:.1f}"/>'
    )


def _text(style: str, x: float, y: float, text: str, anchor: str = "", turn: str = "") -> str:
    more = (f' text-anchor="{anchor}"' if anchor else "") + (f' transform="{turn}"' if turn else "")
    return f'<text class="{style}" x="{x:.1f}" y="{y:.1f}"{more}>{text}</text>'


def _rect(style: str, x: float, y: float, width: float, height: float, tooltip: str) -> str:
    return (
        f'<rect class="{style}" x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}">'
        f"<title>{safe(tooltip, 200)}</title></rect>"
    )

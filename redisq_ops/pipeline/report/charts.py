"""The charts of the report page, as Vega-Lite specifications.

A browser draws them with Vega, which `script` returns together with the code that starts it.
Colours are CSS variables of the page, so one drawing serves light, dark and print; series differ by
dash as well as by colour. Texts stay data: Vega draws them as text, never as HTML.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

from redisq_ops.ops.terminal import printable

Spec = dict[str, Any]

WIDTH = 800
DASHES = ([1, 0], [7, 4], [2, 4], [10, 3, 2, 3])
_TIME_UNITS = (("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1000), ("ms", 1))


@dataclass(frozen=True, slots=True)
class Series:
    """One line of a panel: a value per step, None breaks the line. ``name`` is unique in a
    timeline."""

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
class Panel:
    """One plot of a timeline. ``durations``: the values are ms, shown in a unit that fits them."""

    title: str
    axis: str
    series: Sequence[Series]
    caption: str = ""
    durations: bool = False
    spans: Sequence[ShadedSpan] = ()
    height: int = 130


@dataclass(frozen=True, slots=True)
class TimeMark:
    """A vertical mark at a time, with a tooltip."""

    at_ms: int
    tooltip: str


@dataclass(frozen=True, slots=True)
class Bar:
    """A segment of a row of `bars`."""

    row: str
    begin: float
    end: float
    kind: str
    tooltip: Mapping[str, str]


def timeline(
    begin_ms: int, step_ms: int, panels: Sequence[Panel], marks: Iterable[TimeMark] = ()
) -> Spec:
    """Panels below each other on one axis of time (UTC), which zoom together."""
    n = max(len(series.values) for panel in panels for series in panel.series)
    rows: list[dict[str, Any]] = [
        {
            "from": begin_ms + i * step_ms,
            "at": begin_ms + (i + 0.5) * step_ms,
            "to": begin_ms + (i + 1) * step_ms,
            "time": _clock(begin_ms + i * step_ms, step_ms),
        }
        for i in range(n)
    ]
    found = [{"at": mark.at_ms, "change": printable(mark.tooltip, 200)} for mark in marks]
    views = []
    for k, panel in enumerate(panels):
        divisor, unit = _unit(panel) if panel.durations else (1, "")
        for series in panel.series:
            for row, value in zip(rows, series.values, strict=False):
                if value is not None:
                    row[series.name] = round(value / divisor, 3)
        views.append(_panel(panel, k, unit, found))
    zoom = {
        "name": "zoom",
        "bind": "scales",
        "views": [f"steps{k}" for k in range(len(views))],
        "select": {"type": "interval", "encodings": ["x"], "zoom": "wheel![event.ctrlKey]"},
    }
    hover = {"type": "point", "on": "pointerover", "clear": "pointerout"}
    steps = [
        {"name": f"step{k}", "select": hover, "views": [f"steps{k}"]} for k in range(len(views))
    ]
    return {
        "data": {"name": "steps"},
        "datasets": {"steps": rows},
        "vconcat": views,
        "spacing": 18,
        "params": [zoom, *steps],
        "resolve": {"scale": {"x": "shared", "color": "independent", "strokeDash": "independent"}},
    }


def _panel(panel: Panel, place: int, unit: str, marks: list[Spec]) -> Spec:
    names = [series.name for series in panel.series]
    x = {
        "field": "at",
        "type": "temporal",
        "title": None,
        "scale": {"type": "utc", "nice": False},
        "axis": {"format": _CLOCK, "tickMinStep": 1000},
    }
    x_range = {"x": {**x, "field": "from"}, "x2": {"field": "to"}}
    axis = f"{panel.axis}, {unit}" if unit else panel.axis
    lines = {
        "x": x,
        "y": {"field": "value", "type": "quantitative", "title": axis, "stack": None},
        "color": _by_series(panel, [f"var(--c{s.colour})" for s in panel.series]),
    }
    dashes = {"strokeDash": _by_series(panel, [DASHES[s.dash] for s in panel.series])}

    def drawn(series: list[str], mark: Spec, encoding: Spec) -> list[Spec]:
        fold = [{"fold": series, "as": ["series", "value"]}]
        return [{"transform": fold, "mark": mark, "encoding": encoding}] if series else []

    step_tooltip = [{"field": "time", "title": "UTC"}] + [
        {
            "field": name,
            "type": "quantitative",
            "format": ",.4~g" if unit else ",.6~g",
            "title": f"{name}, {unit}" if unit else name,
        }
        for name in names
    ]
    spans = [
        {"from": span.from_ms, "to": span.to_ms, "unusual": printable(span.tooltip, 200)}
        for span in panel.spans
    ]
    layers = [
        *(
            [
                {
                    "data": {"values": spans},
                    "mark": {"type": "rect", "color": "var(--span)"},
                    "encoding": x_range,
                }
            ]
            if spans
            else []
        ),
        *drawn(
            [s.name for s in panel.series if s.fill],
            {"type": "area", "line": {"strokeWidth": 1.8}, "fillOpacity": 0.16},
            lines,
        ),
        *drawn(
            [s.name for s in panel.series if not s.fill],
            {"type": "line", "strokeWidth": 1.8, "point": {"size": 6}},
            {**lines, **dashes},
        ),
        {
            # The columns of the steps, which show a tooltip and are invisible otherwise.
            "name": f"steps{place}",
            "mark": {"type": "rect", "color": "var(--soft)"},
            "encoding": {
                **x_range,
                "tooltip": step_tooltip,
                "opacity": {
                    "condition": {"param": f"step{place}", "empty": False, "value": 0.18},
                    "value": 0,
                },
            },
        },
    ]
    if marks:
        at = {"x": {**x, "field": "at"}}
        tooltip = {"field": "change", "title": "change"}
        layers += [
            {
                "data": {"values": marks},
                "encoding": at,
                "mark": {"type": "rule", "color": "var(--c2)", "strokeDash": [3, 3]},
            },
            {
                "data": {"values": marks},
                "encoding": {**at, "y": {"value": 0}, "tooltip": tooltip},
                "mark": {
                    "type": "point",
                    "shape": "triangle-down",
                    "filled": True,
                    "size": 90,
                    "color": "var(--c2)",
                    "opacity": 1,
                },
            },
        ]
    if spans:
        # Above the steps' columns, so that the reason for the shading can be read.
        layers.append(
            {
                "data": {"values": spans},
                "encoding": {
                    **x_range,
                    "y": {"value": panel.height - 7},
                    "y2": {"value": panel.height},
                    "tooltip": {"field": "unusual"},
                },
                "mark": {"type": "rect", "color": "var(--alert)"},
            }
        )
    title = {"text": panel.title, "subtitle": panel.caption}
    return {"title": title, "width": WIDTH, "height": panel.height, "layer": layers}


def _by_series(panel: Panel, values: list[Any]) -> Spec:
    """An encoding with a value for each series; a legend only if there are several."""
    names = [series.name for series in panel.series]
    legend = None if len(names) == 1 else {"title": None, "orient": "top", "symbolType": "stroke"}
    scale = {"domain": names, "range": values}
    return {"field": "series", "type": "nominal", "legend": legend, "scale": scale}


def bars(
    segments: Sequence[Bar], kinds: Mapping[str, int], *, axis: str, durations: bool = False
) -> Spec:
    """Rows of horizontal bars, in the order of the segments. ``kinds``: colour by kind; with more
    than one there is a legend."""
    divisor, unit = 1, ""
    if durations:
        divisor, unit = _fitting_unit(max((bar.end for bar in segments), default=0))
    data = [
        {
            "row": printable(bar.row, 48),
            "begin": round(bar.begin / divisor, 3),
            "end": round(bar.end / divisor, 3),
            "kind": bar.kind,
            **{name: printable(text, 200) for name, text in bar.tooltip.items()},
        }
        for bar in segments
    ]
    names = list(dict.fromkeys(row["row"] for row in data))
    legend = {"title": None, "orient": "top", "columns": 2} if len(kinds) > 1 else None
    x_title = f"{axis}, {unit}" if unit else axis
    return {
        "data": {"values": data},
        "width": WIDTH - 190,
        "height": {"step": 22},
        "mark": {"type": "bar", "height": 15},
        "encoding": {
            "y": {
                "field": "row",
                "type": "nominal",
                "sort": names,
                "title": None,
                "axis": {"labelLimit": 260, "grid": False},
            },
            "x": {"field": "begin", "type": "quantitative", "title": x_title},
            "x2": {"field": "end"},
            "color": {
                "field": "kind",
                "type": "nominal",
                "legend": legend,
                "scale": {
                    "domain": list(kinds),
                    "range": [f"var(--c{colour})" for colour in kinds.values()],
                },
            },
            "tooltip": [{"field": name} for name in (segments[0].tooltip if segments else ())],
        },
    }


def _unit(panel: Panel) -> tuple[int, str]:
    known = [value for series in panel.series for value in series.values if value is not None]
    return _fitting_unit(max(known, default=0))


def _fitting_unit(most_ms: float) -> tuple[int, str]:
    """The largest unit of time of which ``most_ms`` has two or more: its ms and its name."""
    name, ms = next((unit for unit in _TIME_UNITS if most_ms >= 2 * unit[1]), _TIME_UNITS[-1])
    return ms, name


def _clock(ms: int, step_ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).strftime(
        "%Y-%m-%d %H:%M" if step_ms % 60_000 == 0 else "%Y-%m-%d %H:%M:%S"
    )


_CLOCK = {
    "year": "%Y",
    "quarter": "%b %Y",
    "month": "%b %Y",
    "week": "%d %b",
    "date": "%d %b",
    "hours": "%H:%M",
    "minutes": "%H:%M",
    "seconds": "%H:%M:%S",
    "milliseconds": ".%L",
}
"""labels of a time axis, by the largest unit that changes"""


@cache
def script() -> str:
    """Vega and `charts.js`, which draws the figures of the page. Takes a second, once."""
    from vl_convert import javascript_bundle

    start = Path(__file__).with_suffix(".js").read_text(encoding="utf-8")
    # No closing tag may be in it: the page has it in a <script>.
    return str(javascript_bundle(start)).replace("</script", "<\\/script")

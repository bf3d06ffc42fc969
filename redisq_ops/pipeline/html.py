"""What the report's page is written with: text made safe, tables, and times in words."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from html import escape

from .svg_plot import duration, told


class Safe(str):
    """Text that is escaped already."""


def told_plain(text: str) -> Safe:
    return Safe(told(text, 140))


def table(headers: Sequence[str], rows: Iterable[Sequence[str]], numbers_from: int) -> str:
    """A table; columns from ``numbers_from`` on are numbers."""

    def cell(tag: str, i: int, text: str) -> str:
        shown = text if isinstance(text, Safe) else escape(text)
        return f"<{tag}{' class=n' if i >= numbers_from else ''}>{shown}</{tag}>"

    head = "".join(cell("th", i, text) for i, text in enumerate(headers))
    body = "".join(
        f"<tr>{''.join(cell('td', i, text) for i, text in enumerate(row))}</tr>" for row in rows
    )
    return f'<div class="wide"><table><tr>{head}</tr>{body}</table></div>'


def each_step(step_ms: int) -> str:
    """``per min``, ``per 5 min``."""
    return f"per {duration(step_ms)}".replace("per 1 ", "per ")


def time(ms: float | None) -> str:
    return "–" if ms is None else duration(ms)


def moment(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%d %H:%M")


def between(begin: int, end: int) -> str:
    """``2026-03-01 10:00 – 14:00 UTC``, with seconds where it is short."""
    one, two = (datetime.fromtimestamp(ms / 1000, UTC) for ms in (begin, end))
    clock = "%H:%M:%S" if begin % 60_000 or end % 60_000 else "%H:%M"
    if end - begin >= 600_000:
        clock = "%H:%M"
    later = two.strftime(clock if one.date() == two.date() else f"%Y-%m-%d {clock}")
    return f"{one.strftime(f'%Y-%m-%d {clock}')} – {later} UTC"
